//! Matrix Market, coordinate format: `%%MatrixMarket matrix coordinate real|integer|pattern general|symmetric`, comments, a line with rows,
//! columns and entries, then a line `i j value` per entry, counted from 1.
//!
//! A symmetric file holds each edge once and gives an undirected network, a general one edges i → j.

use super::{Loaded, Spot, quoted, words};
use crate::error::Result;
use crate::topology::Network;
use crate::topology::network::MOST;

/// A square matrix as a network; `file` is what errors call it.
///
/// Errors: [`crate::Error::Value`] with file, line and column for another kind of matrix, indices out of range, weights that no edge may have,
/// and more or fewer entries than declared.
pub fn matrix_market(text: &str, file: &str) -> Result<Loaded> {
    let spot = |line: usize, column: usize| Spot { file, line, column };
    let mut lines = text.lines().enumerate().map(|(i, l)| (i + 1, l));
    let (_, head) = lines.next().unwrap_or((1, ""));
    let fields: Vec<(usize, String)> = words(head).map(|(c, w)| (c, w.to_lowercase())).collect();
    let wanted: [&[&str]; 5] = [
        &["%%matrixmarket"],
        &["matrix"],
        &["coordinate"],
        &["real", "integer", "pattern"],
        &["general", "symmetric"],
    ];
    for (k, words) in wanted.iter().enumerate() {
        let (column, got) = fields.get(k).map_or((head.len() + 1, ""), |f| (f.0, f.1.as_str()));
        if !words.contains(&got) {
            let remedy = "begin with `%%MatrixMarket matrix coordinate real general`, or convert the matrix";
            return Err(spot(1, column).error(words.join(" or "), quoted(got), remedy));
        }
    }
    let (pattern, symmetric) = (fields[3].1 == "pattern", fields[4].1 == "symmetric");
    let mut lines = lines.filter(|(_, l)| !l.trim().is_empty() && !l.trim_start().starts_with('%'));
    let last = text.lines().count().max(1);
    let cut = |what: String| {
        spot(last, 1).error(what, "the end of the file", "the file is cut short; fetch it again")
    };
    let (line, sizes) = lines.next().ok_or_else(|| cut("rows, columns and entries".into()))?;
    let mut numbers = [0_usize; 3];
    let mut fields = words(sizes);
    for (k, n) in numbers.iter_mut().enumerate() {
        let what = ["number of rows", "number of columns", "number of entries"][k];
        let (column, text) = fields.next().unwrap_or((sizes.len() + 1, ""));
        let number = spot(line, column).integer(text, what)?;
        *n = usize::try_from(number).ok().filter(|n| *n <= MOST).ok_or_else(|| {
            spot(line, column).error(format!("{what}, 0 to {MOST}"), number, "correct the number")
        })?;
    }
    let [rows, cols, entries] = numbers;
    if rows != cols {
        return Err(spot(line, 1).error(
            "as many rows as columns",
            format!("{rows} × {cols}"),
            "a network's matrix is square",
        ));
    }
    // Not reserved from the declared number alone: a wrong one must not take all memory.
    let mut edges = Vec::with_capacity(entries.min(text.len() / 4));
    for (line, text) in lines {
        if edges.len() == entries {
            return Err(spot(line, 1).error(
                format!("the end of the file behind {entries} entries"),
                quoted(text),
                "correct the number of entries",
            ));
        }
        let end = text.len() + 1;
        let mut fields = words(text);
        let mut node = [0_u32; 2];
        for n in &mut node {
            let (column, word) = fields.next().unwrap_or((end, ""));
            let expected = format!("an index, 1 to {rows}");
            let number = spot(line, column).integer(word, &expected)?;
            if !(1..=rows as i64).contains(&number) {
                return Err(spot(line, column).error(expected, number, "indices are counted from 1"));
            }
            *n = number as u32 - 1;
        }
        let weight = match fields.next() {
            _ if pattern => 1.0,
            Some((column, word)) => spot(line, column).weight(word)?,
            None => {
                return Err(spot(line, end).error(
                    "a value",
                    "the end of the line",
                    "add it, or declare a pattern",
                ));
            }
        };
        edges.push((node[0], node[1], weight));
    }
    if edges.len() < entries {
        return Err(cut(format!("{entries} entries, {} of which are here", edges.len())));
    }
    let network = match symmetric {
        true => Network::undirected_weighted(rows, &edges)?,
        false => Network::directed_weighted(rows, &edges)?,
    };
    Ok(Loaded { network, names: Vec::new(), places: Vec::new(), dimensions: 0 })
}
