//! Masks on graphs at the command line: which kind of mask is meant, and what is told of it.

use super::Failure;
use crate::mask::MaskSpec;
use crate::mask::network::{GraphSpec, NetworkMask, NetworkMaskSpec};
use crate::mask::spec::no_mask;
use crate::numbers::significant;
use crate::vision::scene::Weighed;
use crate::words::counted;
use serde_json::json;
use std::str::FromStr;

/// A mask by relative position, or on a graph.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum AnyMask {
    /// By relative position.
    Position(MaskSpec),
    /// Along edges.
    Network(NetworkMaskSpec),
}

impl FromStr for AnyMask {
    type Err = crate::error::Error;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match (NetworkMaskSpec::is_meant(text), MaskSpec::is_meant(text)) {
            (true, _) => text.parse().map(Self::Network),
            (_, true) => text.parse().map(Self::Position),
            _ => Err(no_mask(text)),
        }
    }
}

impl std::fmt::Display for AnyMask {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Position(spec) => spec.fmt(f),
            Self::Network(spec) => spec.fmt(f),
        }
    }
}

impl AnyMask {
    /// The mask as scenes take it.
    ///
    /// Errors: a graph for a mask that has none.
    pub(super) fn on(&self, graph: Option<&GraphSpec>) -> Result<(MaskSpec, Option<NetworkMask>), Failure> {
        match self {
            Self::Position(spec) => match graph {
                None => Ok((spec.clone(), None)),
                Some(graph) => Err(Failure(format!(
                    "--graph {graph}: has no meaning for the mask {spec}; leave it out, or use a mask on a graph such as diffusion:t=100"
                ))),
            },
            Self::Network(spec) => {
                let graph = graph.cloned().unwrap_or_default();
                Ok((MaskSpec::None, Some(NetworkMask { spec: *spec, graph })))
            }
        }
    }
}

/// What is told of a mask's rows.
pub(super) fn weighed_lines(weighed: &Weighed) -> Vec<String> {
    let made = &weighed.made;
    let mut facts = vec![counted(made.edges, "edge", "edges")];
    facts.extend(made.terms.map(|terms| counted(terms, "term", "terms")));
    facts.push(counted(weighed.passes, "pass", "passes"));
    facts.extend(made.bound.map(|bound| format!("at most {} left out", significant(bound, 2))));
    facts.push(format!("{} ms", significant(1e3 * weighed.seconds, 3)));
    let mut lines = vec![weighed.described.clone(), facts.join(", ")];
    lines.extend(made.stands_on.map(str::to_string));
    lines
}

/// The same for programs.
pub(super) fn weighed_json(weighed: &Weighed, graph: Option<&GraphSpec>) -> serde_json::Value {
    json!({
        "graph": graph.map(ToString::to_string),
        "described": weighed.described,
        "edges": weighed.made.edges,
        "terms": weighed.made.terms,
        "passes": weighed.passes,
        "bound": weighed.made.bound,
        "stands_on": weighed.made.stands_on,
        "seconds": weighed.seconds,
        "transient_bytes": weighed.memory.transient,
    })
}
