//! What an edge list does not say itself and its reader must be told.

use std::fmt;

/// What the nodes of an edge list are called.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Numbering {
    /// Numbers from 0.
    #[default]
    Zero,
    /// Numbers from 1.
    One,
    /// Any words; nodes are numbered as they appear.
    Names,
}

impl Numbering {
    /// Every numbering with its word.
    pub const ALL: [(&'static str, Self); 3] =
        [("zero", Self::Zero), ("one", Self::One), ("names", Self::Names)];
}

/// What an edge list does not say itself. Matrix Market, GraphML and OBJ do, and are refused with any of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Options {
    /// Whether edges lead one way only.
    pub directed: bool,
    /// What nodes are called.
    pub numbering: Numbering,
    /// How many nodes there are, if more than appear.
    pub nodes: Option<usize>,
}

impl fmt::Display for Options {
    /// What differs from the default, in words: `numbering=names,directed,nodes=9`; nothing where nothing does.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let word =
            Numbering::ALL.iter().find(|(_, kind)| *kind == self.numbering).map_or("", |(word, _)| word);
        let words = [
            (self.numbering != Numbering::default()).then(|| format!("numbering={word}")),
            self.directed.then(|| "directed".into()),
            self.nodes.map(|nodes| format!("nodes={nodes}")),
        ];
        f.write_str(&words.into_iter().flatten().collect::<Vec<String>>().join(","))
    }
}
