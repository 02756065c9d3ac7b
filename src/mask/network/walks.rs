//! The random-walk kernel of nodes, exactly: F = Σ_{l < L} λ^l P^l, and masks made of F by one of four normalisations.
//!
//! M = F Fᵀ never exists: a channel goes through Pᵀ and then through P by Horner, and the lengths of F's rows, which cosine needs, are
//! found once on the CPU, row by row, from the few nodes that so short a walk can reach. All terms are at least 0.

use super::{SparseRows, SparseTensors, check_row, scaled, tokens};
use crate::error::{Error, Result};
use crate::graph::Graph;
use crate::kernels::elementwise::weighted_sum;
use crate::mask::operator::{Exactness, MaskOperator, ParameterGradient, check};
use crate::numbers::Short;
use crate::tensor::Tensor;
use crate::topology::Network;
use crate::topology::kernel::{self, Normalisation};
use rayon::prelude::*;

/// Most nodes of a walk.
const MOST_NODES: u32 = 1024;

/// A walk kernel as a mask: the mask of graph-kernel attention (GKAT).
#[derive(Clone, Debug)]
pub struct WalkKernel {
    network: Network,
    nodes: u32,
    lambda: f64,
    normalisation: Normalisation,
    rows: SparseRows,
    turned: SparseRows,
    /// Factors of the rows.
    scale: Vec<f32>,
    /// What takes the least entry off F's rows: sums over each network of a batch, kept at its first node, and their factors per row.
    less: Option<(SparseRows, SparseRows)>,
}

/// What normalisations need to know of a row of F.
#[derive(Clone, Copy, Debug)]
struct RowOfF {
    length: f64,
    own: f64,
    low: f64,
    high: f64,
}

impl WalkKernel {
    /// Walks of `nodes` nodes, the start counted, discounted by λ per step.
    ///
    /// A walk from a node without edges is the node itself. Source: Choromanski et al., arXiv 2107.07999, section 4.2 (RWGNK); method:
    /// topological masking, 2.5c.
    ///
    /// Errors: walks of no node or more than 1024, λ outside of 0 to 1.
    pub fn new(network: Network, nodes: u32, lambda: f64, normalisation: Normalisation) -> Result<Self> {
        if !(1..=MOST_NODES).contains(&nodes) {
            return Err(Error::value(
                "nodes of a walk",
                format!("1 to {MOST_NODES}"),
                nodes,
                "the start counts",
            ));
        }
        kernel::check_lambda(lambda)?;
        let (rows, turned) = (SparseRows::steps(&network, false)?, SparseRows::steps(&network, true)?);
        let figures = figures(&network, nodes, lambda);
        let inverse = |x: f64| if x > 0.0 { (1.0 / x) as f32 } else { 0.0 };
        let scale = figures.iter().map(|row| match normalisation {
            Normalisation::Raw => 1.0,
            Normalisation::Cosine => inverse(row.length),
            Normalisation::Diagonal => inverse(row.own),
            Normalisation::MinMax => inverse(row.high - row.low),
        });
        let scale: Vec<f32> = scale.collect();
        let less = (normalisation == Normalisation::MinMax && figures.iter().any(|row| row.low > 0.0))
            .then(|| less(&network, figures.iter().zip(&scale).map(|(row, s)| row.low as f32 * s)))
            .transpose()?;
        Ok(Self { network, nodes, lambda, normalisation, rows, turned, scale, less })
    }

    /// Row `i` of M in f64, by pushing chances along edges.
    ///
    /// Errors: a row beyond the nodes.
    pub fn row(&self, i: u32) -> Result<Vec<f64>> {
        check_row(self.tokens(), i)?;
        let n = self.network.nodes();
        let spread = |x: Vec<f64>, transposed: bool| -> Result<Vec<f64>> {
            let mut sum = x.clone();
            let mut power = x;
            for _ in 1..self.nodes {
                power = kernel::step(&self.network, &power, 1, transposed)?;
                power.iter_mut().for_each(|p| *p *= self.lambda);
                sum.iter_mut().zip(&power).for_each(|(s, p)| *s += p);
            }
            Ok(sum)
        };
        let mut one = vec![0.0; n];
        one[i as usize] = 1.0;
        // Row i of F; Fᵀ spreads the walker.
        let f = spread(one, true)?;
        let part = part_of(&self.network, i);
        let inside = part.start as usize..part.end as usize;
        let (low, high) =
            f[inside.clone()].iter().fold((f64::INFINITY, 0.0_f64), |(l, h), x| (l.min(*x), h.max(*x)));
        let quotient = |a: f64, b: f64| if b > 0.0 { a / b } else { 0.0 };
        match self.normalisation {
            Normalisation::Diagonal => Ok(f.iter().map(|x| quotient(*x, f[i as usize])).collect()),
            Normalisation::MinMax => {
                let mut row = vec![0.0; n];
                inside.for_each(|j| row[j] = quotient(f[j] - low, high - low));
                Ok(row)
            }
            Normalisation::Raw => spread(f, false),
            Normalisation::Cosine => {
                let lengths: Vec<f64> =
                    figures(&self.network, self.nodes, self.lambda).iter().map(|row| row.length).collect();
                let own = f.iter().map(|x| x * x).sum::<f64>().sqrt();
                let products = spread(f, false)?;
                Ok(products.iter().zip(&lengths).map(|(p, length)| quotient(*p, own * length)).collect())
            }
        }
    }

    /// F x or Fᵀ x by Horner.
    fn spread(&self, graph: &mut Graph, x: Tensor, rows: SparseTensors) -> Result<Tensor> {
        let mut y = x;
        for _ in 1..self.nodes {
            y = rows.times(graph, y, self.lambda, Some((x, 1.0)))?;
        }
        Ok(y)
    }

    fn record(&self, graph: &mut Graph, x: Tensor, transposed: bool) -> Result<Tensor> {
        check(self, x)?;
        let (rows, turned) = (self.rows.declare(graph)?, self.turned.declare(graph)?);
        match self.normalisation {
            Normalisation::Raw | Normalisation::Cosine => {
                let plain = self.normalisation == Normalisation::Raw;
                let inner = if plain { x } else { scaled(graph, x, &self.scale)? };
                let down = self.spread(graph, inner, turned)?;
                let up = self.spread(graph, down, rows)?;
                if plain { Ok(up) } else { scaled(graph, up, &self.scale) }
            }
            Normalisation::Diagonal | Normalisation::MinMax => {
                let y = if transposed {
                    let inner = scaled(graph, x, &self.scale)?;
                    self.spread(graph, inner, turned)?
                } else {
                    let up = self.spread(graph, x, rows)?;
                    scaled(graph, up, &self.scale)?
                };
                let Some((sums, factors)) = &self.less else { return Ok(y) };
                let (inner, outer) = if transposed {
                    (factors.transposed()?, sums.transposed()?)
                } else {
                    (sums.clone(), factors.clone())
                };
                let sums = inner.declare(graph)?.times(graph, x, 1.0, None)?;
                let off = outer.declare(graph)?.times(graph, sums, 1.0, None)?;
                let params = weighted_sum::Params { alpha: 1.0, beta: -1.0 };
                weighted_sum::record(graph, "less the least", y, off, params)
            }
        }
    }
}

/// Row sums over each network of a batch, at its first node, and rows of one `factor` in that column.
fn less(network: &Network, factors: impl Iterator<Item = f32>) -> Result<(SparseRows, SparseRows)> {
    let n = tokens(network);
    let offsets = network.offsets();
    let of_part: Vec<std::ops::Range<u32>> = (0..n).map(|i| part_of(network, i)).collect();
    let mut starts = vec![0];
    for i in 0..n {
        // Networks of no node share their first with the next one.
        let size = if offsets.contains(&i) { of_part[i as usize].len() as u32 } else { 0 };
        starts.push(starts[i as usize] + size);
    }
    let sums = SparseRows::new(starts, (0..n).collect(), vec![1.0; n as usize])?;
    let first = of_part.iter().map(|part| part.start).collect();
    let factors = SparseRows::new((0..=n).collect(), first, factors.collect())?;
    Ok((sums, factors))
}

/// The nodes of the network in a batch that node `i` is one of.
fn part_of(network: &Network, i: u32) -> std::ops::Range<u32> {
    let offsets = network.offsets();
    let next = offsets.partition_point(|first| *first <= i);
    offsets[next - 1]..offsets[next]
}

/// Figures of all rows of F, from the nodes that walks reach.
fn figures(network: &Network, nodes: u32, lambda: f64) -> Vec<RowOfF> {
    let degrees = network.degrees();
    (0..tokens(network)).into_par_iter().map(|i| figures_of(network, &degrees, i, nodes, lambda)).collect()
}

fn figures_of(network: &Network, degrees: &[f64], i: u32, nodes: u32, lambda: f64) -> RowOfF {
    let mut power = vec![(i, 1.0)];
    let mut sum = power.clone();
    for _ in 1..nodes {
        let next = power.iter().flat_map(|&(k, p)| {
            network.row(k).map(move |(j, w)| (j, lambda * p * f64::from(w) / degrees[k as usize]))
        });
        power = merged(next.collect());
        sum = merged(sum.iter().chain(&power).copied().collect());
    }
    let length = sum.iter().map(|e| e.1 * e.1).sum::<f64>().sqrt();
    let own = sum.iter().find(|e| e.0 == i).map_or(0.0, |e| e.1);
    let high = sum.iter().fold(0.0, |most: f64, e| most.max(e.1));
    let all = sum.len() == part_of(network, i).len();
    let low = if all { sum.iter().fold(f64::INFINITY, |least: f64, e| least.min(e.1)) } else { 0.0 };
    RowOfF { length, own, low, high }
}

/// Entries of one node added up, in ascending order of nodes.
fn merged(mut list: Vec<(u32, f64)>) -> Vec<(u32, f64)> {
    list.sort_by_key(|e| e.0);
    list.chunk_by(|a, b| a.0 == b.0).map(|same| (same[0].0, same.iter().map(|e| e.1).sum())).collect()
}

impl MaskOperator for WalkKernel {
    fn describe(&self) -> String {
        let name =
            Normalisation::ALL.iter().find(|(_, kind)| *kind == self.normalisation).map_or("", |n| n.0);
        format!(
            "{name} kernel of walks of {} nodes, λ = {}, on {}",
            self.nodes,
            Short(self.lambda),
            self.network.nodes()
        )
    }

    fn tokens(&self) -> u32 {
        tokens(&self.network)
    }

    fn heads(&self) -> u32 {
        1
    }

    /// A whole row for one weight: ask for [`Self::row`].
    fn weight(&self, _: u32, i: u32, j: u32) -> f64 {
        self.row(i).ok().and_then(|row| row.get(j as usize).copied()).unwrap_or(f64::NAN)
    }

    fn exactness(&self) -> Exactness {
        if self.less.is_some() { Exactness::Noise } else { Exactness::Relative }
    }

    fn flop(&self) -> f64 {
        let both = matches!(self.normalisation, Normalisation::Raw | Normalisation::Cosine);
        let products = f64::from(self.nodes - 1) * if both { 2.0 } else { 1.0 };
        products * (2.0 * self.network.entries() as f64 + 2.0 * self.network.nodes() as f64)
    }

    fn apply(&self, graph: &mut Graph, x: Tensor) -> Result<Tensor> {
        self.record(graph, x, false)
    }

    fn apply_transposed(&self, graph: &mut Graph, x: Tensor) -> Result<Tensor> {
        self.record(graph, x, true)
    }

    fn parameter_gradient(&self) -> ParameterGradient {
        ParameterGradient::Declared("dM/dλ = dF Fᵀ + F dFᵀ with dF = Σ l λ^(l−1) P^l, by Horner")
    }

    fn dense(&self, _: u32) -> Vec<f64> {
        let n = self.network.nodes();
        (0..self.tokens()).flat_map(|i| self.row(i).unwrap_or_else(|_| vec![f64::NAN; n])).collect()
    }
}
