//! Masks that stand on a network of nodes and edges: what is near along edges is seen, whatever the places of the tokens.
//!
//! | type | M | product with a channel |
//! |---|---|---|
//! | [`Diffusion`] | exp(−tL), or exp(tA) up to a factor per component | Chebyshev series, K sparse products |
//! | [`WalkKernel`] | normalised F Fᵀ or F of discounted walks | Horner in P and Pᵀ, 2 (nodes − 1) sparse products |
//! | [`SampledWalks`] | the same from sampled walks, and graph random features Φ₁ Φ₂ᵀ | two sparse products |
//! | [`Steps`] | P^p, or personalised PageRank a Σ (1 − a)^l P^l | sparse products |
//!
//! P = D⁻¹A. All of them are linear in the number of edges, work on batches (block diagonal networks) as on single ones, and give a node
//! without edges itself. Source: Choromanski et al., arXiv 2107.07999, section 4; method: topological masking, 2.5.

mod diffusion;
mod room;
mod sampled;
mod spec;
mod steps;
mod walks;

use crate::error::{Error, Result};
use crate::graph::Graph;
use crate::kernels::graph::{csr, spmm};
use crate::kernels::linalg::scale_rows;
use crate::tensor::{DType, HostData, HostTensor, Tensor};
use crate::topology::Network;

pub use diffusion::{Diffusion, GridArrays, GridTensors, diffuse_on_grid};
pub use sampled::SampledWalks;
pub use spec::{GraphSpec, LEAST_RTOL, MadeMask, NetworkMask, NetworkMaskSpec, Tokens};
pub use steps::Steps;
pub use walks::WalkKernel;

/// A matrix of numbers in sparse rows, as kernels take it.
#[derive(Clone, Debug)]
struct SparseRows {
    starts: Vec<u32>,
    columns: Vec<u32>,
    weights: Vec<f32>,
    longest: u32,
}

impl SparseRows {
    /// Errors: rows that are not sound, values that are not finite.
    fn new(starts: Vec<u32>, columns: Vec<u32>, weights: Vec<f32>) -> Result<Self> {
        let longest = csr::checked((starts.len() - 1) as u32, &starts, &columns, Some(&weights))?;
        Ok(Self { starts, columns, weights, longest })
    }

    /// P = D⁻¹A of a network, or its transpose.
    fn steps(network: &Network, transposed: bool) -> Result<Self> {
        let degrees = network.degrees();
        let share = |i: u32, w: f32| (f64::from(w) / degrees[i as usize]) as f32;
        if !transposed {
            let weights = network.edges().map(|(i, _, w)| share(i, w)).collect();
            return Self::new(network.starts().to_vec(), network.columns().to_vec(), weights);
        }
        let turned = network.transposed();
        let weights = turned.edges().map(|(_, i, w)| share(i, w)).collect();
        Self::new(turned.starts().to_vec(), turned.columns().to_vec(), weights)
    }

    fn transposed(&self) -> Result<Self> {
        let n = self.starts.len() - 1;
        let mut starts = vec![0_u32; n + 1];
        for column in &self.columns {
            starts[*column as usize + 1] += 1;
        }
        for i in 0..n {
            starts[i + 1] += starts[i];
        }
        let mut next = starts.clone();
        let (mut columns, mut weights) = (vec![0; self.columns.len()], vec![0.0; self.columns.len()]);
        for i in 0..n {
            for at in self.starts[i] as usize..self.starts[i + 1] as usize {
                let place = &mut next[self.columns[at] as usize];
                (columns[*place as usize], weights[*place as usize]) = (i as u32, self.weights[at]);
                *place += 1;
            }
        }
        Self::new(starts, columns, weights)
    }

    /// Declares the arrays in a graph.
    fn declare(&self, graph: &mut Graph) -> Result<SparseTensors> {
        let words = |list: &[u32]| HostTensor::new([list.len() as u32], HostData::U32(list.to_vec()));
        Ok(SparseTensors {
            starts: graph.constant("starts of rows", words(&self.starts)?),
            columns: graph.constant("columns of rows", words(&self.columns)?),
            weights: graph.constant(
                "weights of rows",
                HostTensor::f32([self.weights.len() as u32], self.weights.clone())?,
            ),
            longest: self.longest,
        })
    }
}

/// [`SparseRows`] in a graph.
#[derive(Clone, Copy)]
struct SparseTensors {
    starts: Tensor,
    columns: Tensor,
    weights: Tensor,
    longest: u32,
}

impl SparseTensors {
    /// Records α S x + β before.
    fn times(
        &self,
        graph: &mut Graph,
        x: Tensor,
        alpha: f64,
        before: Option<(Tensor, f64)>,
    ) -> Result<Tensor> {
        let out = graph.transient("sparse product", x.shape(), DType::F32);
        let beta = before.map_or(0.0, |(_, beta)| beta);
        let params = spmm::Params { alpha: alpha as f32, beta: beta as f32, longest: self.longest };
        let before = before.map(|(tensor, _)| tensor);
        let (rows, weights) = ([Some(self.starts), Some(self.columns)], Some(self.weights));
        let args = [rows[0], rows[1], weights, None, Some(x), before, Some(out)];
        graph.pass(&spmm::SPEC, &params, &args)?;
        Ok(out)
    }
}

/// Records diag(s) x.
fn scaled(graph: &mut Graph, x: Tensor, s: &[f32]) -> Result<Tensor> {
    let s = graph.constant("factors of rows", HostTensor::f32([1, 1, s.len() as u32, 1], s.to_vec())?);
    scale_rows::record(graph, "scaled rows", x, s, scale_rows::Params::default())
}

/// The number of nodes, where kernels can count them.
fn tokens(network: &Network) -> u32 {
    // A network has fewer nodes than 32 bits count.
    network.nodes() as u32
}

fn check_row(tokens: u32, row: u32) -> Result<()> {
    if row < tokens {
        return Ok(());
    }
    let remedy = "nodes are counted from 0";
    Err(Error::value("row of a mask", format!("a node below {tokens}"), row, remedy))
}
