//! Recording sums over decaying distances on a forest: collect from the nodes up, level by level of pieces, and spread back.

use super::{tree_collect, tree_gather, tree_spread};
use crate::error::Result;
use crate::graph::Graph;
use crate::tensor::{DType, HostData, HostTensor, Shape, Tensor};
use crate::topology::tree::Pieces;
use crate::topology::tree::pieces::{Factors, MEMBERS};

/// A forest's pieces as constants of a graph.
#[derive(Debug)]
pub struct Sweeps<'a> {
    pieces: &'a Pieces,
    /// Pieces, turns and links of each level.
    levels: Vec<[Tensor; 3]>,
    /// Starts of rows of one entry, the node at each spot, and the spot of each node, where rows are put in order first.
    order: Option<[Tensor; 3]>,
}

impl<'a> Sweeps<'a> {
    /// Puts the lists of all levels into a graph, for sums of so many `terms`.
    ///
    /// Errors: more numbers than a tensor may have.
    pub fn new(graph: &mut Graph, pieces: &'a Pieces, terms: usize) -> Result<Self> {
        // Putting rows in order and back costs about as much as a sweep saves by it.
        let ordered = terms > 2 && pieces.is_scattered();
        let mut levels = Vec::new();
        for (at, level) in pieces.levels().iter().enumerate() {
            let pieces = words(graph, "pieces", &level.pieces, 4)?;
            let turns = list(graph, "turns", &level.turns)?;
            let links = if at == 0 && ordered {
                let in_order = |(spot, link): (usize, &[u32])| [spot as u32, link[1]];
                words(graph, "links", &level.links.chunks(2).enumerate().flat_map(in_order).collect::<Vec<_>>(), 2)?
            } else {
                words(graph, "links", &level.links, 2)?
            };
            levels.push([pieces, turns, links]);
        }
        let order = match pieces.levels().first().filter(|_| ordered) {
            None => None,
            Some(level) => {
                let nodes: Vec<u32> = level.links.chunks(2).map(|link| link[0]).collect();
                let mut spots = vec![0; nodes.len()];
                nodes.iter().enumerate().for_each(|(spot, node)| spots[*node as usize] = spot as u32);
                let starts: Vec<u32> = (0..=nodes.len() as u32).collect();
                Some([list(graph, "one each", &starts)?, list(graph, "nodes", &nodes)?, list(graph, "spots", &spots)?])
            }
        };
        Ok(Self { pieces, levels, order })
    }

    /// Σ_k weight_k Σⱼ exp(−λ_k dist(i, j)) `x[j]` for `x` `[b, h, n, c]`, over the nodes of each tree: `terms` has the weights and the
    /// factors of each λ ([`Pieces::factors`] of the same pieces). Two dispatches per term for every level of pieces but the last, and two
    /// in all where the nodes of pieces lie far apart.
    ///
    /// Errors: tensors of other shapes.
    pub fn record<'f>(
        &self,
        graph: &mut Graph,
        terms: impl IntoIterator<Item = (f64, &'f [Factors])>,
        x: Tensor,
    ) -> Result<Tensor> {
        let x = match self.order {
            Some([starts, nodes, _]) => self.ordered(graph, "x by pieces", [starts, nodes], x)?,
            None => x,
        };
        let mut sum = None;
        for (weight, factors) in terms {
            sum = Some(self.term(graph, factors, x, weight, sum)?);
        }
        match (sum, self.order) {
            (Some(sum), Some([starts, _, spots])) => self.ordered(graph, "M x", [starts, spots], sum),
            (sum, _) => Ok(sum.unwrap_or(x)),
        }
    }

    fn ordered(&self, graph: &mut Graph, name: &str, [starts, columns]: [Tensor; 2], x: Tensor) -> Result<Tensor> {
        let y = graph.transient(name, x.shape(), DType::F32);
        graph.pass(
            &tree_gather::SPEC,
            &tree_gather::Params { longest: 1 },
            &[Some(starts), Some(columns), None, Some(x), None, Some(y)],
        )?;
        Ok(y)
    }

    fn term(
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
            let [pieces, turns, links] = self.levels[at];
            graph.pass(
                &tree_collect::SPEC,
                &tree_collect::Params { paired, longest },
                &[Some(pieces), Some(turns), Some(links), Some(weights), rows.last().copied(), Some(sums)],
            )?;
            rows.push(sums);
        }
        let mut above = None;
        for (at, from) in rows.iter().enumerate().rev() {
            let paired = u32::from(at > 0);
            let summed = u32::from(at == 0 && (weight != 1.0 || prev.is_some()));
            let sweep = reals(graph, "decay of edges", &factors[at].sweep, 2)?;
            let out = graph.transient(if at == 0 { "M x" } else { "sums above" }, from.shape(), DType::F32);
            let [pieces, turns, links] = self.levels[at];
            let before = if at == 0 { prev } else { None };
            graph.pass(
                &tree_spread::SPEC,
                &tree_spread::Params { weight: weight as f32, paired, summed, longest },
                &[Some(pieces), Some(turns), Some(links), Some(sweep), Some(*from), above, before, Some(out)],
            )?;
            above = Some(out);
        }
        Ok(above.unwrap_or(x))
    }
}

fn list(graph: &mut Graph, name: &str, list: &[u32]) -> Result<Tensor> {
    Ok(graph.constant(name, HostTensor::new([list.len() as u32], HostData::U32(list.to_vec()))?))
}

fn words(graph: &mut Graph, name: &str, list: &[u32], width: u32) -> Result<Tensor> {
    let shape = Shape::new(&[list.len() as u32 / width, width])?;
    Ok(graph.constant(name, HostTensor::new(shape, HostData::U32(list.to_vec()))?))
}

fn reals(graph: &mut Graph, name: &str, list: &[f32], width: u32) -> Result<Tensor> {
    let shape = Shape::new(&[list.len() as u32 / width, width])?;
    Ok(graph.constant(name, HostTensor::new(shape, HostData::F32(list.to_vec()))?))
}
