//! A graph-kernel attention layer in `wgattn eval`: `gkat:MASK` on nodes, weights and a graph from a file.

use super::Args;
use super::network::{self, Tensors};
use crate::attention::gkat::{Gkat, GraphMask, Layer, Pairs, Readout, Scores};
use crate::cli::{Failure, Outcome, print_line};
use crate::graph::Graph;
use crate::kernels::graph::graph_attention;
use crate::tensor::{DType, HostTensor, Tensor};
use crate::topology::Network;
use crate::words::or_none;

/// Its word.
pub(super) const NAME: &str = "gkat";
/// What it computes.
pub(super) const FORMULA: &str =
    "y = ELU of Σⱼ Mᵢⱼ exp(⟨qᵢ, kⱼ⟩/√w) vⱼ / (the same of ones) per head, side by side";

/// The layer's mask, where the name means one: `gkat` or `gkat:MASK`.
///
/// Errors: another mask.
pub(super) fn meant(name: &str) -> Result<Option<GraphMask>, Failure> {
    match name.split_once(':').unwrap_or((name, "")) {
        (NAME, "") => Ok(Some(GraphMask::default())),
        (NAME, mask) => Ok(Some(mask.parse()?)),
        _ => Ok(None),
    }
}

/// Prints what it takes and gives.
pub(super) fn describe() -> Outcome {
    print_line(&format!(
        "{NAME}: {FORMULA}\n  source: Choromanski et al., arXiv 2107.07999, GKAT\n  \
         gkat[:raw|cosine|diag|minmax|adjacency[:nodes=…,lambda=…,walks=…,seed=…]], cosine:nodes=4 by itself; adjacency is GAT's mask\n  \
         in  x [n, i] f32: nodes\n  \
         in  query [h, i, w], key [h, i, w] f32, or left [h, w], right [h, w] f32 for LeakyReLU(⟨left, vᵢ⟩ + ⟨right, vⱼ⟩), the scores \
         of GAT\n  \
         in  value [h, i, w] f32\n  \
         in  edges [m, 2] u32, weights [m] f32, optional: the graph, in place of --graph; --directed for edges one way\n  \
         in  offsets [g + 1] u32, optional: first nodes of the graphs of a batch, and n\n  \
         in  readout [h · w, k], bias [k] f32, optional\n  \
         out y [n, h · w] f32\n  \
         out logits [g, k] f32, with a readout: a linear map of the mean over each graph's nodes"
    ))
}

/// Evaluates a layer on arrays: `y`, and `logits` where there is a readout.
///
/// Errors: arrays that do not fit each other, a graph that is missing or of other nodes, edges between graphs of a batch.
pub(super) fn evaluate(
    mask: GraphMask,
    args: &Args,
    given: &mut Tensors<'_>,
) -> Result<Vec<(&'static str, HostTensor)>, Failure> {
    if args.transposed || args.grid.is_some() {
        return Err(Failure(format!(
            "{}: --transposed and --grid have no meaning for a layer; leave them out",
            given.what
        )));
    }
    let x = given.take("x", &["b", "h", "n", "i"])?;
    let [_, 1, n, _] = *x.shape().dims() else {
        return Err(given.wrong("`x` [n, i] or [b, 1, n, i]", x.shape()));
    };
    if x.shape().is_empty() {
        return Err(given.wrong("`x` of at least one node and feature", x.shape()));
    }
    let weights = &["b", "h", "i", "w"];
    let value = given.take("value", weights)?;
    let additive = given.has("left") || given.has("right");
    if additive && (given.has("query") || given.has("key")) {
        return Err(given.wrong("either `query` and `key`, or `left` and `right`", given.names()));
    }
    let scores = match additive {
        false => [("query", given.take("query", weights)?), ("key", given.take("key", weights)?)],
        true => [("left", column(given, "left")?), ("right", column(given, "right")?)],
    };
    let readout = match has_readout(|name| given.has(name)) {
        false => None,
        true => {
            let weights = given.take("readout", &["b", "h", "i", "k"])?;
            let bias = given.take("bias", &["b", "h", "k"])?;
            Some((weights, bias))
        }
    };
    let network = batched(network::network(args, given, n)?, given, n)?;
    given.end()?;

    let mut graph = Graph::new(&given.what);
    let pairs = Pairs::Exact(mask.of(&network)?.record(&mut graph)?);
    let mut inputs: Vec<(Tensor, &HostTensor)> = Vec::new();
    let mut declare = |graph: &mut Graph, name: &str, data| {
        let tensor = graph.input(name, HostTensor::shape(data), DType::F32);
        inputs.push((tensor, data));
        tensor
    };
    let [nodes, value] = [("x", &x), ("value", &value)].map(|(name, data)| declare(&mut graph, name, data));
    let [first, second] = [&scores[0], &scores[1]].map(|(name, data)| declare(&mut graph, name, data));
    let scores = match additive {
        false => Scores::Products { query: first, key: second },
        true => Scores::Additive { left: first, right: second },
    };
    let readout = readout.as_ref().map(|(weights, bias)| Readout {
        weights: declare(&mut graph, "readout", weights),
        bias: declare(&mut graph, "bias", bias),
    });
    let model = Gkat { layers: vec![Layer { scores, value }], readout };
    let made = model.record(&mut graph, nodes, &pairs)?;
    let outputs: Vec<(&str, Tensor)> =
        ["y", "logits"].into_iter().zip(made.layers.iter().copied().chain(made.logits)).collect();
    let results = network::run(&given.what, args, &mut graph, &inputs, &outputs)?;
    Ok(outputs.iter().map(|(name, _)| *name).zip(results).collect())
}

/// Whether arrays ask for a readout, the second result.
pub(super) fn has_readout(has: impl Fn(&str) -> bool) -> bool {
    has("readout") || has("bias")
}

/// A vector per head as a column `[1, h, w, 1]`.
fn column(given: &mut Tensors<'_>, name: &'static str) -> Result<HostTensor, Failure> {
    let vectors = given.take(name, &["b", "h", "w"])?;
    let &[1, heads, width] = vectors.shape().dims() else {
        return Err(given.wrong(&format!("`{name}` [h, w]"), vectors.shape()));
    };
    Ok(HostTensor::new([1, heads, width, 1], vectors.data().clone())?)
}

/// The network as the batch that `offsets` say, if there are any.
fn batched(network: Network, given: &mut Tensors<'_>, nodes: u32) -> Result<Network, Failure> {
    if !given.has("offsets") {
        return Ok(network);
    }
    let (shape, offsets) = given.words("offsets", "[g + 1]")?;
    if shape.len() != 1 || offsets.last() != Some(&nodes) {
        return Err(given.wrong(
            &format!("`offsets` [g + 1], the last of them the {nodes} nodes"),
            format!("{shape:?} that ends with {}", or_none(offsets.last())),
        ));
    }
    graph_attention::blocks(nodes, &offsets)?;
    let part = |node: u32| offsets.partition_point(|first| *first <= node);
    if let Some((i, j, _)) = network.edges().find(|(i, j, _)| part(*i) != part(*j)) {
        return Err(given
            .wrong("edges within the graphs that `offsets` tell", format!("an edge {i} → {j} between two")));
    }
    Ok(network.with_offsets(offsets))
}
