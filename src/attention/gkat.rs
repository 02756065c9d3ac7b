//! Graph-kernel attention layers: softmax attention inside every graph of a batch, weighed by a kernel between its nodes.
//!
//! ```
//! use wgattn::attention::gkat::{Gkat, GraphMask, Layer, Pairs, Readout, Scores};
//! use wgattn::graph::Graph;
//! use wgattn::tensor::DType;
//! use wgattn::topology::{Network, build};
//!
//! # fn main() -> wgattn::Result<()> {
//! let batch = Network::batch(&[build::ring(10)?, build::star(7)?])?;
//! let mask = "cosine:nodes=4".parse::<GraphMask>()?.of(&batch)?;
//! let mut graph = Graph::new("a layer of 2 heads, then one number per graph");
//! let x = graph.input("features of nodes", [1, 1, 17, 5], DType::F32);
//! let [query, key, value] = ["query", "key", "value"].map(|name| graph.input(name, [1, 2, 5, 9], DType::F32));
//! let readout = Readout {
//!     weights: graph.input("readout", [1, 1, 18, 1], DType::F32),
//!     bias: graph.input("bias", [1, 1, 1], DType::F32),
//! };
//! let model = Gkat { layers: vec![Layer { scores: Scores::Products { query, key }, value }], readout: Some(readout) };
//! let pairs = Pairs::Exact(mask.record(&mut graph)?);
//! let outputs = model.record(&mut graph, x, &pairs)?;
//! assert_eq!(outputs.logits.expect("there is a readout").shape().dims(), [1, 1, 2, 1]);
//! # Ok(())
//! # }
//! ```
//!
//! Per head: Q = X W_q, K = X W_k, V = X W_v without bias; weights M_ij exp(⟨qᵢ, kⱼ⟩ / √width), rows divided by their sums, times V, then ELU; heads side
//! by side. The mask multiplies the weights entry by entry. The same network with the mask [`GraphMask::Adjacency`] is a graph attention network (GAT): the
//! mask is the only difference, so it is an argument and has no default. Source: Choromanski et al., arXiv 2107.07999, GKAT; hyper-parameters of the
//! authors' released code.

use super::{FeatureMap, Masks, Role};
use crate::error::{Error, Result};
use crate::graph::Graph;
use crate::kernel::KernelParams as _;
use crate::kernels::distance::pairs::{ADDITIVE, SOFTMAX};
use crate::kernels::graph::{graph_attention, join_heads, segment_mean};
use crate::kernels::linalg::matmul;
use crate::mask::operator::{SharedMask, attend};
use crate::numbers::Short;
use crate::tensor::{DType, HostData, HostTensor, Tensor};
use crate::topology::Network;
use crate::topology::kernel::{Normalisation, walk_features};
use crate::topology::walk::Walker;
use crate::words::or_none;
use std::fmt;
use std::str::FromStr;

/// Which nodes of a graph see each other, and with what weight.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum GraphMask {
    /// The random-walk kernel of graph nodes, F = Σ_{l < nodes} λ^l (D⁻¹ A)^l.
    Walks {
        /// What is made of F.
        normalisation: Normalisation,
        /// Nodes of a walk; the start counts.
        nodes: u32,
        /// Discount of every step, 0 to 1.
        lambda: f64,
        /// Walks drawn from every node, and the seed; `None` is the exact expectation.
        sampled: Option<(u32, u64)>,
    },
    /// 1 for edges and from a node to itself: graph attention networks.
    Adjacency,
}

impl Default for GraphMask {
    fn default() -> Self {
        Self::Walks { normalisation: Normalisation::Cosine, nodes: 4, lambda: 1.0, sampled: None }
    }
}

impl fmt::Display for GraphMask {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self::Walks { normalisation, nodes, lambda, sampled } = self else {
            return f.write_str("adjacency");
        };
        let name =
            Normalisation::ALL.iter().find(|(_, n)| n == normalisation).map_or("walks", |(name, _)| name);
        write!(f, "{name}:nodes={nodes},lambda={}", Short(*lambda))?;
        match sampled {
            Some((walks, seed)) => write!(f, ",walks={walks},seed={seed}"),
            None => Ok(()),
        }
    }
}

/// `adjacency`, or `cosine`, `raw`, `diag`, `minmax` with `:nodes=4,lambda=1,walks=50,seed=0`, each of which may be left out; without `walks` the
/// kernel is exact.
impl FromStr for GraphMask {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let (name, list) = text.split_once(':').unwrap_or((text, ""));
        if name == "adjacency" && list.is_empty() {
            return Ok(Self::Adjacency);
        }
        let normalisation = name.parse::<Normalisation>().map_err(|_| {
            let names = Normalisation::ALL.map(|(name, _)| name).join(", ");
            Error::value("mask of a graph", format!("adjacency, {names}"), text, "choose one of them")
        })?;
        let (mut nodes, mut lambda, mut walks, mut seed) = (4, 1.0, None, None);
        for item in list.split(',').filter(|item| !item.is_empty()) {
            let (key, value) = item.split_once('=').unwrap_or((item, ""));
            let wrong = || {
                let expected = "nodes=, lambda=, walks=, seed= with numbers";
                Error::value(
                    format!("mask of a graph `{text}`"),
                    expected,
                    item,
                    "write cosine:nodes=4,walks=50",
                )
            };
            match key {
                "nodes" => nodes = value.parse().map_err(|_| wrong())?,
                "lambda" => lambda = value.parse().map_err(|_| wrong())?,
                "walks" => walks = Some(value.parse().map_err(|_| wrong())?),
                "seed" => seed = Some(value.parse().map_err(|_| wrong())?),
                _ => return Err(wrong()),
            }
        }
        if walks.is_none() && seed.is_some() {
            let expected = "walks= where there is a seed";
            return Err(Error::value("mask of a graph", expected, text, "exact kernels draw nothing"));
        }
        Ok(Self::Walks { normalisation, nodes, lambda, sampled: walks.map(|w| (w, seed.unwrap_or(0))) })
    }
}

/// A mask for every graph of a batch, as matrices one after the other.
#[derive(Clone, Debug, PartialEq)]
pub struct BatchMask {
    /// Nodes of the batch.
    pub nodes: u32,
    /// `[graphs + 1]` first nodes of the graphs.
    pub offsets: Vec<u32>,
    /// `[Σ n_g²]`, row = query.
    pub weights: Vec<f32>,
}

impl GraphMask {
    /// The mask of one network `[n, n]`, in f64.
    ///
    /// Sampled walks are drawn by the node's number within this network, so a graph's mask does not depend on the batch it is in.
    ///
    /// Errors: walks of no node, λ outside of 0 to 1, too many walks.
    pub fn dense(&self, network: &Network) -> Result<Vec<f64>> {
        let n = network.nodes();
        match *self {
            Self::Walks { normalisation, nodes, lambda, sampled } => {
                let features = match sampled {
                    None => walk_features(network, nodes, lambda)?,
                    Some((walks, seed)) => {
                        Walker::new(network, seed, 0)?.features(walks, nodes, lambda)?.dense()
                    }
                };
                Ok(normalisation.mask(&features, n))
            }
            Self::Adjacency => {
                let mut mask = vec![0.0; n * n];
                for i in 0..n {
                    mask[i * n + i] = 1.0;
                    network.neighbours(i as u32).iter().for_each(|j| mask[i * n + *j as usize] = 1.0);
                }
                Ok(mask)
            }
        }
    }

    /// The masks of all graphs of a batch.
    ///
    /// Errors: as [`Self::dense`]; more than 2³² − 1 pairs.
    pub fn of(&self, batch: &Network) -> Result<BatchMask> {
        let nodes = batch.nodes() as u32;
        graph_attention::blocks(nodes, batch.offsets())?;
        let mut weights = Vec::new();
        for part in 0..batch.parts() {
            weights.extend(self.dense(&batch.part(part)?)?.into_iter().map(|x| x as f32));
        }
        Ok(BatchMask { nodes, offsets: batch.offsets().to_vec(), weights })
    }
}

impl BatchMask {
    /// A batch from masks of its graphs, each `[n, n]` with row = query.
    ///
    /// Errors: a list that is no square; weights that are negative or not finite; more than 2³² − 1 nodes or pairs.
    pub fn of_matrices(matrices: &[Vec<f32>]) -> Result<Self> {
        let (mut offsets, mut weights) = (vec![0_u32], Vec::new());
        for (graph, matrix) in matrices.iter().enumerate() {
            let size = matrix.len().isqrt();
            let wrong = |expected: &str, got: String| {
                let what = format!("mask of graph {graph}");
                Err(Error::value(what, expected, got, "give a row of weights for every node"))
            };
            if size * size != matrix.len() {
                return wrong("n × n weights", format!("{} weights", matrix.len()));
            }
            if let Some(at) = matrix.iter().position(|x| !(x.is_finite() && *x >= 0.0)) {
                return wrong(
                    "finite weights of at least 0",
                    format!("{} at {}, {}", matrix[at], at / size, at % size),
                );
            }
            let last = offsets[graph];
            match u32::try_from(size).ok().and_then(|size| last.checked_add(size)) {
                Some(next) => offsets.push(next),
                None => return wrong("at most 2³² − 1 nodes in all", format!("{size} more than {last}")),
            }
            weights.extend_from_slice(matrix);
        }
        let nodes = offsets.last().copied().unwrap_or(0);
        graph_attention::blocks(nodes, &offsets)?;
        Ok(Self { nodes, offsets, weights })
    }

    /// The mask of one graph of the batch `[n, n]`, and how many nodes it has; `None` beyond the last.
    pub fn of_graph(&self, graph: usize) -> Option<(&[f32], usize)> {
        let size = |pair: &[u32]| (pair[1] - pair[0]) as usize;
        let pair = self.offsets.get(graph..graph + 2)?;
        let first: usize = self.offsets.windows(2).take(graph).map(|p| size(p) * size(p)).sum();
        Some((self.weights.get(first..first + size(pair) * size(pair))?, size(pair)))
    }

    /// Records the mask as constants.
    ///
    /// Errors: offsets that do not fit the nodes, another number of weights.
    pub fn record(&self, graph: &mut Graph) -> Result<MaskTensors> {
        let (blocks, largest) = graph_attention::blocks(self.nodes, &self.offsets)?;
        let pairs = blocks.last().copied().unwrap_or(0);
        if self.offsets.last() != Some(&self.nodes) || self.weights.len() != pairs as usize {
            return Err(Error::value(
                "masks of a batch of graphs",
                format!("graphs up to node {} with {pairs} weights", self.nodes),
                format!(
                    "graphs up to node {} with {} weights",
                    or_none(self.offsets.last()),
                    self.weights.len()
                ),
                "make them with `GraphMask::of`",
            ));
        }
        let mut list = |name: &str, words: Vec<u32>| -> Result<Tensor> {
            let value = HostTensor::new([words.len() as u32], HostData::U32(words))?;
            Ok(graph.constant(name, value))
        };
        let offsets = list("nodes of graphs", self.offsets.clone())?;
        let blocks = list("masks of graphs", blocks)?;
        let mask = graph.constant("mask weights", HostTensor::f32([1, pairs], self.weights.clone())?);
        Ok(MaskTensors { offsets, blocks, mask, nodes: self.nodes, largest })
    }
}

/// A recorded [`BatchMask`].
#[derive(Clone, Copy, Debug)]
pub struct MaskTensors {
    /// `[graphs + 1]`.
    pub offsets: Tensor,
    /// `[graphs + 1]` where every graph's mask begins.
    pub blocks: Tensor,
    /// `[1, Σ n_g²]`, or one per head.
    pub mask: Tensor,
    /// Nodes of the batch.
    pub nodes: u32,
    /// Nodes of the largest graph.
    pub largest: u32,
}

/// How pairs of nodes are weighed.
#[derive(Clone, Debug)]
pub enum Pairs {
    /// Softmax, pair by pair: exact, N² per graph.
    Exact(MaskTensors),
    /// Products of features under any mask operator, never pair by pair: queries and keys through a feature map.
    LowRank {
        /// φ: FAVOR+ approximates softmax, ELU + 1 and ReLU are kernels of their own.
        map: FeatureMap,
        /// The mask over all nodes of the batch.
        mask: SharedMask,
        /// Features at a time, see [`attend`].
        slice: u32,
        /// `[graphs + 1]`, u32, for the readout.
        offsets: Tensor,
    },
}

/// How a pair's score is made.
#[derive(Clone, Copy, Debug)]
pub enum Scores {
    /// ⟨W_q xᵢ, W_k xⱼ⟩ / √width.
    Products {
        /// W_q `[1, heads, inputs, width]`.
        query: Tensor,
        /// W_k `[1, heads, inputs, width]`.
        key: Tensor,
    },
    /// LeakyReLU₀.₂(⟨a_l, W xᵢ⟩ + ⟨a_r, W xⱼ⟩) with W the value's: the scores of graph attention networks.
    Additive {
        /// a_l `[1, heads, width, 1]`.
        left: Tensor,
        /// a_r `[1, heads, width, 1]`.
        right: Tensor,
    },
}

/// One layer.
#[derive(Clone, Copy, Debug)]
pub struct Layer {
    /// Scores of pairs.
    pub scores: Scores,
    /// W_v `[1, heads, inputs, width]`.
    pub value: Tensor,
}

/// A linear map of the mean over every graph's nodes.
#[derive(Clone, Copy, Debug)]
pub struct Readout {
    /// `[1, 1, heads · width, classes]`.
    pub weights: Tensor,
    /// `[1, 1, classes]`.
    pub bias: Tensor,
}

/// Layers on each other, and what is read out of every graph.
#[derive(Clone, Debug, Default)]
pub struct Gkat {
    /// First to last.
    pub layers: Vec<Layer>,
    /// Of whole graphs.
    pub readout: Option<Readout>,
}

/// What a network gives.
#[derive(Clone, Debug)]
pub struct Outputs {
    /// Every layer's nodes `[b, 1, n, heads · width]`.
    pub layers: Vec<Tensor>,
    /// `[b, 1, graphs, classes]`, with a readout.
    pub logits: Option<Tensor>,
}

impl Layer {
    /// Records the layer for nodes `x` `[b, 1, n, inputs]`: `[b, 1, n, heads · width]`.
    ///
    /// Errors: shapes that do not fit, another number of nodes than the mask's; additive scores with features of low rank.
    pub fn record(&self, graph: &mut Graph, x: Tensor, pairs: &Pairs) -> Result<Tensor> {
        let project = |graph: &mut Graph, name: &str, x: Tensor, w: Tensor| {
            matmul::record(graph, name, matmul::Inputs::new(x, w), matmul::Params::default())
        };
        let v = project(graph, "values", x, self.value)?;
        let (q, k, scale, scores) = match self.scores {
            Scores::Products { query, key } => {
                let q = project(graph, "queries", x, query)?;
                let k = project(graph, "keys", x, key)?;
                (q, k, 1.0 / f64::from(query.dim(3).max(1)).sqrt(), SOFTMAX)
            }
            Scores::Additive { left, right } => {
                let q = project(graph, "scores of queries", v, left)?;
                let k = project(graph, "scores of keys", v, right)?;
                (q, k, 1.0, ADDITIVE)
            }
        };
        let attended = match pairs {
            Pairs::Exact(mask) => {
                check_nodes(x, mask.nodes)?;
                let out = graph.transient("attended", v.shape(), DType::F32);
                let params = graph_attention::Params {
                    scale: scale as f32,
                    scores,
                    largest: mask.largest,
                    ..graph_attention::Params::default()
                };
                let ports = [
                    Some(q),
                    Some(k),
                    Some(v),
                    Some(mask.offsets),
                    Some(mask.blocks),
                    Some(mask.mask),
                    Some(out),
                ];
                graph.pass_bytes(&graph_attention::SPEC, &params.to_bytes(), &ports)?;
                out
            }
            Pairs::LowRank { map, mask, slice, .. } => {
                check_nodes(x, mask.tokens())?;
                if scores != SOFTMAX {
                    let expected = "scores that are products";
                    let remedy = "take exact pairs, or products of queries and keys";
                    return Err(Error::value("attention of low rank", expected, "additive scores", remedy));
                }
                let q = map.record(graph, q, Role::Query, None, None)?;
                let k = map.record(graph, k, Role::Key, None, None)?;
                attend(graph, mask.as_ref(), (q, k, v), Masks::default(), *slice)?
            }
        };
        join_heads::record(graph, attended, true)
    }
}

fn check_nodes(x: Tensor, nodes: u32) -> Result<()> {
    if x.shape().dims().len() == 4 && x.dim(1) == 1 && x.dim(2) == nodes {
        return Ok(());
    }
    let expected = format!("[batch, 1, {nodes}, inputs]");
    Err(Error::value(
        "nodes of a graph attention layer",
        expected,
        x.shape(),
        "make the mask for the same batch",
    ))
}

impl Gkat {
    /// Records all layers for nodes `x` `[b, 1, n, inputs]`, and the readout.
    ///
    /// Errors: no layer; as [`Layer::record`].
    pub fn record(&self, graph: &mut Graph, x: Tensor, pairs: &Pairs) -> Result<Outputs> {
        if self.layers.is_empty() {
            return Err(Error::value("layers of a graph attention network", "at least 1", 0, "give a layer"));
        }
        let mut layers = Vec::new();
        let mut nodes = x;
        for layer in &self.layers {
            nodes = layer.record(graph, nodes, pairs)?;
            layers.push(nodes);
        }
        let logits = match self.readout {
            None => None,
            Some(Readout { weights, bias }) => {
                let (offsets, largest) = match pairs {
                    Pairs::Exact(mask) => (mask.offsets, mask.largest),
                    Pairs::LowRank { offsets, .. } => (*offsets, 0),
                };
                let means = segment_mean::record(graph, nodes, offsets, largest)?;
                let inputs = matmul::Inputs { bias: Some(bias), ..matmul::Inputs::new(means, weights) };
                Some(matmul::record(graph, "logits", inputs, matmul::Params::default())?)
            }
        };
        Ok(Outputs { layers, logits })
    }
}

/// Features of nodes `[n, columns]` less their columns' means, divided by their standard deviations; a column of equal numbers, as degrees are on
/// regular graphs, gives zeros.
///
/// Errors: numbers that are not whole rows, or not finite.
pub fn standardised(features: &[f32], columns: usize) -> Result<Vec<f32>> {
    if columns == 0 || !features.len().is_multiple_of(columns) {
        let got = format!("{} numbers, {columns} columns", features.len());
        return Err(Error::value("features of nodes", "rows of at least 1 column", got, "give whole rows"));
    }
    if let Some(at) = features.iter().position(|x| !x.is_finite()) {
        let what = format!("feature {} of node {}", at % columns, at / columns);
        return Err(Error::value(what, "a finite number", features[at], "leave such nodes out"));
    }
    let n = (features.len() / columns) as f64;
    let mut out = vec![0.0; features.len()];
    for c in 0..columns {
        let column = || features.iter().skip(c).step_by(columns).map(|x| f64::from(*x));
        let mean = column().sum::<f64>() / n;
        let deviation = (column().map(|x| (x - mean) * (x - mean)).sum::<f64>() / n).sqrt();
        // Equal numbers, not a deviation of 0: the mean of equal numbers may be rounded off them.
        let first = features.get(c).map_or(0.0, |x| f64::from(*x));
        if column().any(|x| x != first) {
            let row = out.iter_mut().skip(c).step_by(columns);
            row.zip(column()).for_each(|(y, x)| *y = ((x - mean) / deviation) as f32);
        }
    }
    Ok(out)
}
