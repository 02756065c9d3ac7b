//! Networks from files: edge lists, Matrix Market, GraphML and OBJ meshes, told apart by their suffix.
//!
//! Every error names file, line and column, what was expected, what stands there and what to do. Edge lists go through `csv` and GraphML
//! through `roxmltree`; Matrix Market and OBJ are read here, because the crates for them (nalgebra-sparse, tobj) do not say where in the
//! file a number is wrong.

mod edge_list;
mod graphml;
mod matrix_market;
mod obj;

use super::Network;
use super::network::{LEAST_WEIGHT, MOST_WEIGHT};
use crate::error::{Error, Result};
use crate::whole_file::read_input;
use crate::words::told;
use std::path::Path;

pub use super::declared::{Numbering, Options};
pub use edge_list::{Separator, edge_list};
pub use graphml::graphml;
pub use matrix_market::matrix_market;
pub use obj::obj;

/// A network as a file holds it.
#[derive(Clone, Debug, PartialEq)]
pub struct Loaded {
    /// The network.
    pub network: Network,
    /// `[n]` names of the nodes; empty where the file has none.
    pub names: Vec<String>,
    /// `[n]` places of the nodes, z = 0 in the plane; empty where the file has none.
    pub places: Vec<[f32; 3]>,
    /// Coordinates that the file gives: 0, 2 or 3.
    pub dimensions: usize,
}

/// Suffixes of the files that can be read, in small letters.
pub const SUFFIXES: [&str; 9] = ["csv", "tsv", "txt", "edges", "el", "mtx", "graphml", "xml", "obj"];

/// Those of edge lists.
const LISTS: [&str; 5] = ["csv", "tsv", "txt", "edges", "el"];

/// Reads a file by its suffix: `csv`, `tsv`, `txt`, `edges`, `el` (separated by white space), `mtx`, `graphml`, `xml`, `obj`.
///
/// Errors: [`Error::Value`] with file, line and column; for another suffix, a file that cannot be read, or one that is not UTF-8; for options
/// beside a file that says itself what they do.
pub fn read(path: &Path, options: &Options) -> Result<Loaded> {
    let name = path.display().to_string();
    let suffix = path.extension().map(|s| s.to_string_lossy().to_lowercase()).unwrap_or_default();
    if !SUFFIXES.contains(&suffix.as_str()) {
        return Err(Error::value(
            format!("network file {name}"),
            format!("a suffix of {}", SUFFIXES.join(", ")),
            if suffix.is_empty() { "none" } else { &suffix },
            "rename it to what it holds",
        ));
    }
    if *options != Options::default() && !is_list(path) {
        return Err(Error::value(
            format!("options of {name}"),
            SAYS_ITSELF,
            options.to_string(),
            "leave out what is for edge lists",
        ));
    }
    let bytes = read_input(path, MOST_BYTES)
        .map_err(|e| Error::value(format!("network file {name}"), "a readable file", "none", told(&e)))?;
    let text = String::from_utf8(bytes).map_err(|e| {
        let valid = e.utf8_error().valid_up_to();
        let lines = e.as_bytes()[..valid].split(|b| *b == b'\n');
        let (line, column) = lines.enumerate().last().map_or((1, 1), |(i, l)| (i + 1, l.len() + 1));
        Spot { file: &name, line, column }.error("UTF-8 text", "other bytes", "convert it to UTF-8")
    })?;
    let text = text.strip_prefix('\u{feff}').unwrap_or(&text);
    match suffix.as_str() {
        "csv" => edge_list(text, &name, Separator::Comma, options),
        "tsv" => edge_list(text, &name, Separator::Tab, options),
        "mtx" => matrix_market(text, &name),
        "graphml" | "xml" => graphml(text, &name),
        "obj" => obj(text, &name),
        _ => edge_list(text, &name, Separator::Space, options),
    }
}

/// Why files of other kinds have no options.
pub(crate) const SAYS_ITSELF: &str = "none: files of this kind say themselves what edge lists do not";

/// Whether a file is an edge list by its suffix: the kind that [`Options`] are for.
pub fn is_list(path: &Path) -> bool {
    let suffix = path.extension().map(|s| s.to_string_lossy().to_lowercase()).unwrap_or_default();
    LISTS.contains(&suffix.as_str())
}

/// Largest file that is read: some hundred million edges.
const MOST_BYTES: u64 = 2 << 30;

/// Most nodes that a file may imply by a large number alone; more must be declared.
const MOST_IMPLIED: usize = 1 << 26;

/// A place in a file, counted from 1; columns in characters' bytes.
#[derive(Clone, Copy)]
struct Spot<'a> {
    file: &'a str,
    line: usize,
    column: usize,
}

impl Spot<'_> {
    fn error(self, expected: impl Into<String>, got: impl ToString, remedy: impl Into<String>) -> Error {
        let Self { file, line, column } = self;
        Error::value(
            format!("{file}, line {line}, column {column}"),
            expected,
            shortened(&got.to_string()),
            remedy,
        )
    }

    fn integer(self, text: &str, expected: &str) -> Result<i64> {
        text.parse().map_err(|_| {
            self.error(
                expected,
                quoted(text),
                "write a whole number; names are read with numbering=names behind the file, or `wgattn graph --numbering names`",
            )
        })
    }

    fn coordinate(self, text: &str) -> Result<f32> {
        let number: Option<f32> = text.parse().ok().filter(|x: &f32| x.is_finite());
        number.ok_or_else(|| self.error("a finite coordinate", quoted(text), "write a number"))
    }

    /// A weight that an edge may have.
    fn weight(self, text: &str) -> Result<f32> {
        let expected = || format!("a weight of 0, or {LEAST_WEIGHT:e} to {MOST_WEIGHT:e}");
        let Ok(w) = text.parse::<f64>() else {
            return Err(self.error(expected(), quoted(text), "write a number"));
        };
        // As the f32 that it becomes: `1e-30` itself lies a little below the nearest of those.
        match w == 0.0 || (LEAST_WEIGHT..=MOST_WEIGHT).contains(&(w as f32)) {
            true => Ok(w as f32),
            false if w < 0.0 => {
                Err(self.error(expected(), quoted(text), "masks need weights of at least 0; take their size"))
            }
            false => Err(self.error(expected(), quoted(text), "scale the weights, or leave the edge out")),
        }
    }
}

fn quoted(text: &str) -> String {
    if text.is_empty() { "nothing".into() } else { format!("`{text}`") }
}

/// A piece of a file short enough for an error.
fn shortened(text: &str) -> String {
    match text.char_indices().nth(60) {
        Some((at, _)) => format!("{}…", &text[..at]),
        None => text.into(),
    }
}

/// The words of a line with their columns.
fn words(line: &str) -> impl Iterator<Item = (usize, &str)> {
    let start = line.as_ptr() as usize;
    line.split_whitespace().map(move |w| (w.as_ptr() as usize - start + 1, w))
}
