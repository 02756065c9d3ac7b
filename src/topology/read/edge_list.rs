//! Edge lists: a line per edge with two nodes and, if there is a third field, its weight.
//!
//! Lines that begin with `#` or `%` are comments. A first line whose nodes are no numbers (or, where nodes are names, are called `source`
//! and `target` or the like) is a heading. Fields beyond the third are not looked at.

use super::{Loaded, MOST_IMPLIED, Numbering, Options, Spot, quoted, words};
use crate::error::{Error, Result};
use crate::topology::Network;
use std::collections::HashMap;

/// What stands between the fields of a line.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Separator {
    /// Commas; fields may be quoted.
    Comma,
    /// Tabs; fields may be quoted.
    Tab,
    /// Any white space.
    #[default]
    Space,
}

/// A line's fields with their columns.
type Line<'a> = Vec<(usize, std::borrow::Cow<'a, str>)>;

/// An edge list; `file` is what errors call it.
///
/// Errors: [`Error::Value`] with file, line and column for missing fields, numbers that are none or out of range, and weights that no edge may
/// have.
pub fn edge_list(text: &str, file: &str, separator: Separator, options: &Options) -> Result<Loaded> {
    let mut list = List { options, numbers: HashMap::new(), names: Vec::new(), most: 0, edges: Vec::new() };
    let mut first = true;
    let mut take = |line: usize, fields: &Line<'_>| -> Result<()> {
        if !(std::mem::take(&mut first) && is_heading(fields, options.numbering)) {
            list.edge(Spot { file, line, column: 1 }, fields)?;
        }
        Ok(())
    };
    match separator {
        Separator::Space => {
            for (i, line) in text.lines().enumerate() {
                let fields: Line<'_> = words(line).map(|(c, w)| (c, w.into())).collect();
                if !fields.is_empty() && !is_comment(line.trim_start()) {
                    take(i + 1, &fields)?;
                }
            }
        }
        Separator::Comma | Separator::Tab => {
            let delimiter = if separator == Separator::Comma { b',' } else { b'\t' };
            let mut reader = csv::ReaderBuilder::new()
                .delimiter(delimiter)
                .has_headers(false)
                .flexible(true)
                .comment(Some(b'#'))
                .from_reader(text.as_bytes());
            for record in reader.records() {
                let record = record.map_err(|e| {
                    let line = e.position().map_or(1, |p| p.line() as usize);
                    Spot { file, line, column: 1 }.error("a line of fields", &e, "repair the line")
                })?;
                let line = record.position().map_or(1, |p| p.line() as usize);
                // The library keeps no columns of fields; quotes are left out of the count.
                let mut column = 1;
                let fields: Line<'_> = record
                    .iter()
                    .map(|f| {
                        let at = column + f.len() - f.trim_start().len();
                        column += f.len() + 1;
                        (at, f.trim().to_owned().into())
                    })
                    .collect();
                let lone = fields.len() == 1 && fields[0].1.is_empty();
                if !lone && !fields.first().is_some_and(|f| is_comment(&f.1)) {
                    take(line, &fields)?;
                }
            }
        }
    }
    list.loaded(file)
}

fn is_comment(line: &str) -> bool {
    line.starts_with(['#', '%'])
}

fn is_heading(fields: &Line<'_>, numbering: Numbering) -> bool {
    let words = ["source", "target", "from", "to", "src", "dst", "node1", "node2", "u", "v", "i", "j"];
    let mut nodes = fields.iter().take(2).map(|f| f.1.to_lowercase());
    match numbering {
        Numbering::Names => fields.len() > 1 && nodes.all(|f| words.contains(&f.as_str())),
        _ => fields.len() > 1 && nodes.all(|f| f.starts_with(|c: char| c.is_alphabetic()) && f != "nan"),
    }
}

struct List<'a> {
    options: &'a Options,
    numbers: HashMap<String, u32>,
    names: Vec<String>,
    most: usize,
    edges: Vec<(u32, u32, f32)>,
}

impl List<'_> {
    fn edge(&mut self, line: Spot<'_>, fields: &Line<'_>) -> Result<()> {
        let end = fields.last().map_or(1, |f| f.0 + f.1.len());
        let at = |k: usize| match fields.get(k) {
            Some((column, text)) => (Spot { column: *column, ..line }, text.as_ref()),
            None => (Spot { column: end, ..line }, ""),
        };
        let mut ends = [0; 2];
        for (k, node) in ends.iter_mut().enumerate() {
            let (spot, text) = at(k);
            *node = self.node(spot, text)?;
        }
        let weight = match at(2) {
            (_, "") => 1.0,
            (spot, text) => spot.weight(text)?,
        };
        self.edges.push((ends[0], ends[1], weight));
        Ok(())
    }

    fn node(&mut self, spot: Spot<'_>, text: &str) -> Result<u32> {
        if text.is_empty() {
            return Err(spot.error(
                "two nodes of an edge",
                "the end of the line",
                "give both, or remove the line",
            ));
        }
        let base = match self.options.numbering {
            Numbering::Names => {
                let next = self.names.len() as u32;
                let number = *self.numbers.entry(text.to_owned()).or_insert(next);
                if number == next {
                    self.names.push(text.to_owned());
                }
                self.most = self.names.len();
                return Ok(number);
            }
            Numbering::Zero => 0,
            Numbering::One => 1,
        };
        let bound = self.options.nodes.unwrap_or(MOST_IMPLIED) as i64;
        let expected = format!("a node, {base} to {}", bound + base - 1);
        let number = spot.integer(text, &expected)?;
        if !(base..bound + base).contains(&number) {
            let remedy = match (number, self.options.nodes) {
                (0, _) if base == 1 => "declare that nodes are numbered from 0",
                (_, None) if number > 0 => "declare how many nodes there are, or that nodes are names",
                (n, Some(_)) if n == bound && base == 0 => {
                    "declare that nodes are numbered from 1, or more nodes"
                }
                _ => "correct the number",
            };
            return Err(spot.error(expected, quoted(text), remedy));
        }
        let node = (number - base) as u32;
        self.most = self.most.max(node as usize + 1);
        Ok(node)
    }

    fn loaded(self, file: &str) -> Result<Loaded> {
        let nodes = self.options.nodes.unwrap_or(self.most);
        if nodes < self.most {
            return Err(Error::value(
                format!("nodes of {file}"),
                format!("the declared {nodes} at most"),
                self.most,
                "declare more",
            ));
        }
        let mut names = self.names;
        if !names.is_empty() {
            names.resize(nodes, String::new());
        }
        let network = match self.options.directed {
            true => Network::directed_weighted(nodes, &self.edges)?,
            false => Network::undirected_weighted(nodes, &self.edges)?,
        };
        Ok(Loaded { network, names, places: Vec::new(), dimensions: 0 })
    }
}
