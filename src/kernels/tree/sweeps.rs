//! Recording sums over decaying distances on a forest: collect from the nodes up, level by level of pieces, and spread back.

use super::{tree_collect, tree_spread};
use crate::error::Result;
use crate::graph::Graph;
use crate::tensor::{DType, HostData, HostTensor, Shape, Tensor};
use crate::topology::tree::Pieces;
use crate::topology::tree::pieces::{Factors, MEMBERS};

/// A forest's pieces as constants of a graph.
#[derive(Debug)]
pub struct Sweeps<'a> {
    pieces: &'a Pieces,
    levels: Vec<(Tensor, Tensor)>,
}

impl<'a> Sweeps<'a> {
    /// Puts the lists of all levels into a graph.
    ///
    /// Errors: more numbers than a tensor may have.
    pub fn new(graph: &mut Graph, pieces: &'a Pieces) -> Result<Self> {
        let mut levels = Vec::new();
        for level in pieces.levels() {
            let list = words(graph, "pieces", &level.pieces, 4)?;
            levels.push((list, words(graph, "links", &level.links, 3)?));
        }
        Ok(Self { pieces, levels })
    }

    /// weight · Σⱼ exp(−λ dist(i, j)) `x[j]` + prev for `x`, `prev` `[b, h, n, c]`, over the nodes of each tree. `factors`: of the same
    /// pieces, [`Pieces::factors`]. Two dispatches for every level of pieces but the last.
    ///
    /// Errors: tensors of other shapes.
    pub fn record(
        &self,
        graph: &mut Graph,
        factors: &[Factors],
        x: Tensor,
        weight: f64,
        prev: Option<Tensor>,
    ) -> Result<Tensor> {
        let [b, h, c] = [x.dim(0), x.dim(1), x.dim(3)];
        let longest = 2 * MEMBERS as u32;
        let mut rows = vec![x];
        for (at, level) in self.pieces.levels().iter().enumerate().filter(|(_, level)| level.open > 0) {
            let paired = u32::from(at > 0);
            let weights = reals(graph, "weights of a piece", &factors[at].collect, 2 + paired)?;
            let sums = graph.transient("sums of pieces", [b, h, level.open as u32, 2 * c], DType::F32);
            let (pieces, links) = self.levels[at];
            graph.pass(
                &tree_collect::SPEC,
                &tree_collect::Params { paired, longest },
                &[Some(pieces), Some(links), Some(weights), rows.last().copied(), Some(sums)],
            )?;
            rows.push(sums);
        }
        let mut above = None;
        for (at, from) in rows.iter().enumerate().rev() {
            let paired = u32::from(at > 0);
            let summed = u32::from(at == 0 && (weight != 1.0 || prev.is_some()));
            let sweep = reals(graph, "decay of edges", &factors[at].sweep, 2)?;
            let out = graph.transient(if at == 0 { "M x" } else { "sums above" }, from.shape(), DType::F32);
            let (pieces, links) = self.levels[at];
            let before = if at == 0 { prev } else { None };
            graph.pass(
                &tree_spread::SPEC,
                &tree_spread::Params { weight: weight as f32, paired, summed, longest },
                &[Some(pieces), Some(links), Some(sweep), Some(*from), above, before, Some(out)],
            )?;
            above = Some(out);
        }
        Ok(above.unwrap_or(x))
    }
}

fn words(graph: &mut Graph, name: &str, list: &[u32], width: u32) -> Result<Tensor> {
    let shape = Shape::new(&[list.len() as u32 / width, width])?;
    Ok(graph.constant(name, HostTensor::new(shape, HostData::U32(list.to_vec()))?))
}

fn reals(graph: &mut Graph, name: &str, list: &[f32], width: u32) -> Result<Tensor> {
    let shape = Shape::new(&[list.len() as u32 / width, width])?;
    Ok(graph.constant(name, HostTensor::new(shape, HostData::F32(list.to_vec()))?))
}
