//! Masks in `wgattn eval`: products with a mask, and linear attention under it, on arrays from a file.
//!
//! A mask is written as `--mask` takes it. Along edges it stands on `--graph`, or on `edges` among the arrays, whose nodes are the tokens; by
//! relative position it stands on `--grid`, or on a line of tokens.

use super::Args;
use super::network::{self, Tensors};
use crate::attention::{Mask, MaskedAttention, Masks};
use crate::cli::on_graph::AnyMask;
use crate::cli::{Failure, Outcome, notice, print_line};
use crate::graph::Graph;
use crate::kernels::elementwise::weighted_sum;
use crate::mask::network::{GraphSpec, MadeMask, NetworkMask, NetworkMaskSpec, Tokens};
use crate::mask::operator::attend;
use crate::mask::{MaskOperator, MaskSpec, Toeplitz};
use crate::numbers::{Short, significant};
use crate::tensor::{DType, HostTensor, Tensor};
use crate::words::counted;

/// Features at a time in attention under masks on graphs.
const SLICE: u32 = 8;

/// What is told of a kind of mask.
#[derive(Debug)]
pub(super) struct Kind {
    /// Its word.
    pub(super) name: &'static str,
    /// The matrix.
    pub(super) formula: &'static str,
    /// How it is written.
    pub(super) words: &'static str,
    /// Where it comes from.
    pub(super) source: &'static str,
}

/// Every kind, those by relative position first.
pub(super) const KINDS: [Kind; 13] = [
    Kind { name: "none", formula: "M = 1", words: "none", source: "definition" },
    Kind { name: "causal", formula: "M = 1 where j ≤ i, else 0", words: "causal", source: "definition" },
    Kind {
        name: "decay",
        formula: "M = γ^(i − j) where j ≤ i; γ^|i − j| with `both`",
        words: "decay:γ[,both]",
        source: "Sun et al. 2023, eq. 5–7",
    },
    Kind {
        name: "separable",
        formula: "M = exp(−|Δrow|/rows − |Δcolumn|/cols)",
        words: "separable:size=… or separable:rows=…,cols=…",
        source: "Choromanski et al. 2022",
    },
    Kind {
        name: "toeplitz",
        formula: "M = f(distance of i and j / size) on a grid",
        words: "toeplitz:exp|gauss|window|inverse|triangle[,size=…][,distance=l1|l2|linf][,torus][,causal]",
        source: "Choromanski et al. 2022",
    },
    Kind {
        name: "stencil",
        formula: "M = the weight at the place of j as seen from i",
        words: "stencil:RxC,w/w/…[,torus][,causal]",
        source: "definition",
    },
    Kind {
        name: "diffusion",
        formula: "M = exp(−tL)",
        words: "diffusion:t=…[,laplacian=combinatorial|symmetric|random-walk][,rtol=…]",
        source: "Kondor, Lafferty 2002; Choromanski et al. 2022",
    },
    Kind {
        name: "communicability",
        formula: "M = exp(t(A − λ)), λ ≥ the eigenvalues of each component",
        words: "communicability:t=…[,rtol=…]",
        source: "Estrada, Hatano 2008",
    },
    Kind {
        name: "walk",
        formula: "M = F Fᵀ or F, normalised, F = Σ_{l < nodes} λ^l (D⁻¹A)^l",
        words: "walk:nodes=…,lambda=…,normalise=raw|cosine|diag|minmax[,walks=…,seed=…]",
        source: "Choromanski et al. 2022, section 4",
    },
    Kind {
        name: "pagerank",
        formula: "M = a Σ_l (1 − a)^l (D⁻¹A)^l, a = restart",
        words: "pagerank:restart=…[,rtol=…]",
        source: "Page et al. 1999",
    },
    Kind { name: "steps", formula: "M = (D⁻¹A)^p", words: "steps:p=…", source: "definition" },
    Kind {
        name: "tree",
        formula: "M = f(length of the path from i to j) along a spanning tree; gauss, window and triangle count its steps",
        words: "tree:rate=… or tree:profile=…,size=…",
        source: "Choromanski et al. 2022, trees",
    },
    Kind {
        name: "spd",
        formula: "M = f(steps from i to j)",
        words: "spd:profile=…,size=…[,hops=…]",
        source: "definition",
    },
];

/// The kind of a mask in words.
pub(super) fn kind_of(text: &str) -> Option<&'static Kind> {
    let word = text.split(':').next().unwrap_or_default().trim();
    KINDS.iter().find(|kind| kind.name == word)
}

/// Prints what a kind takes and gives.
pub(super) fn describe(kind: &Kind) -> Outcome {
    let along_edges = NetworkMaskSpec::KINDS.contains(&kind.name);
    print_line(&format!("{}: {}\n  source: {}\n  {}", kind.name, kind.formula, kind.source, kind.words))?;
    let place = match along_edges {
        true => {
            "  in  edges [m, 2] u32, weights [m] f32, optional: the graph, in place of --graph; --directed for edges one way\n  \
             in  colours [n, 3] f32: OKLab, for --graph image"
        }
        false => "  --grid ROWSxCOLS where the tokens are no line",
    };
    print_line(&format!(
        "  in  x [b, h, n, c] f32, or\n  in  q [b, h, n, r], k [b, h, n, r], v [b, h, n, e] f32, q and k mapped and at least 0; b and h may \
         be left out\n{place}\n  out y f32: M x, Mᵀ x with --transposed; or (M ⊙ q kᵀ) v, rows divided by their sums"
    ))
}

/// What is computed.
enum Task {
    /// M x or Mᵀ x.
    Product { x: HostTensor, transposed: bool },
    /// (M ⊙ q kᵀ) v, rows divided by their sums.
    Attention { q: HostTensor, k: HostTensor, v: HostTensor },
}

impl Task {
    fn of(given: &mut Tensors<'_>, args: &Args) -> Result<Self, Failure> {
        const SHAPE: &[&str] = &["b", "h", "n", "c"];
        let has = |name: &str| given.has(name);
        let (product, attention) = (has("x"), ["q", "k", "v"].map(has));
        let all = attention == [true; 3];
        if product == all || (product && attention.contains(&true)) {
            return Err(
                given.wrong("either `x` for a product, or `q`, `k` and `v` for attention", given.names())
            );
        }
        if product {
            let x = given.take("x", SHAPE)?;
            return match x.shape().is_empty() {
                false => Ok(Self::Product { x, transposed: args.transposed }),
                true => Err(given.wrong("`x` of at least one token and channel", x.shape())),
            };
        }
        if args.transposed {
            return Err(Failure(format!(
                "{}: --transposed has no meaning for attention, which reads `q`, `k` and `v`; give `x` for Mᵀ x",
                given.what
            )));
        }
        let [q, k, v] = [given.take("q", SHAPE)?, given.take("k", SHAPE)?, given.take("v", SHAPE)?];
        let [of_q, of_k, of_v] = [&q, &k, &v].map(|tensor| tensor.shape());
        let same = |axes: usize| of_q.dims()[..axes] == of_k.dims()[..axes];
        if !same(4) || of_v.dims()[..3] != of_k.dims()[..3] {
            let got = format!("q {of_q}, k {of_k}, v {of_v}");
            return Err(given
                .wrong("q [b, h, n, r], k [b, h, n, r], v [b, h, n, e] with the same b, h, n and r", got));
        }
        if k.shape().is_empty() || v.shape().is_empty() {
            let got = format!("k {of_k}, v {of_v}");
            return Err(given.wrong("at least one token, one feature and one column of values", got));
        }
        for (name, tensor) in [("q", &q), ("k", &k)] {
            if let (Some(at), false) = (tensor.to_f32().iter().position(|x| *x < 0.0), args.unchecked) {
                return Err(Failure(format!(
                    "{}: element {at} of `{name}`: expected a feature of at least 0, got {}; map queries and keys first (`wgattn \
                     eval feature_map`), or --unchecked takes it as it is",
                    given.what,
                    Short(tensor.to_f32()[at])
                )));
            }
        }
        Ok(Self::Attention { q, k, v })
    }

    fn tokens(&self) -> u32 {
        match self {
            Self::Product { x, .. } => x.shape().dims()[2],
            Self::Attention { v, .. } => v.shape().dims()[2],
        }
    }
}

/// A mask on its tokens.
enum Placed {
    Position { spec: MaskSpec, sides: Vec<u32> },
    Network(MadeMask),
}

/// Evaluates a mask on arrays: `y`.
///
/// Errors: arrays that do not fit each other or the mask, a graph that is missing or of other nodes.
pub(super) fn evaluate(mask: &AnyMask, args: &Args, given: &mut Tensors<'_>) -> Result<HostTensor, Failure> {
    let task = Task::of(given, args)?;
    let tokens = task.tokens();
    let placed = match mask {
        AnyMask::Position(spec) => on_grid(spec, args, given, tokens)?,
        AnyMask::Network(spec) => Placed::Network(on_graph(spec, args, given, tokens)?),
    };
    given.end()?;
    if let Placed::Network(made) = &placed {
        tell(mask, made);
    }
    let mut graph = Graph::new(&given.what);
    let mut inputs: Vec<(Tensor, &HostTensor)> = Vec::new();
    let mut declare = |graph: &mut Graph, name: &str, data| {
        let tensor = graph.input(name, HostTensor::shape(data), DType::F32);
        inputs.push((tensor, data));
        tensor
    };
    let y = match &task {
        Task::Product { x, transposed } => {
            let x = declare(&mut graph, "x", x);
            let y = placed.product(&mut graph, x, *transposed)?;
            // A mask of no step gives its input back, which is no output.
            if y == x { copied(&mut graph, x)? } else { y }
        }
        Task::Attention { q, k, v } => {
            let [q, k, v] =
                [("q", q), ("k", k), ("v", v)].map(|(name, data)| declare(&mut graph, name, data));
            placed.attention(&mut graph, (q, k, v))?
        }
    };
    let mut outputs = network::run(&given.what, args, &mut graph, &inputs, &[("y", y)])?;
    outputs.pop().ok_or_else(|| Failure(format!("{}: no result came back; report this", given.what)))
}

impl Placed {
    fn product(&self, graph: &mut Graph, x: Tensor, transposed: bool) -> Result<Tensor, Failure> {
        let apply = |mask: &dyn MaskOperator, graph: &mut Graph| match transposed {
            false => mask.apply(graph, x),
            true => mask.apply_transposed(graph, x),
        };
        Ok(match self {
            Self::Position { spec, sides } => apply(&Toeplitz(spec.table(sides)?), graph)?,
            Self::Network(made) => apply(made.operator.as_ref(), graph)?,
        })
    }

    fn attention(&self, graph: &mut Graph, qkv: (Tensor, Tensor, Tensor)) -> Result<Tensor, Failure> {
        Ok(match self {
            Self::Position { spec, sides } => {
                MaskedAttention::of(Mask::from_spec(spec, sides)?).record(graph, qkv, Masks::default())?.out
            }
            Self::Network(made) => attend(graph, made.operator.as_ref(), qkv, Masks::default(), SLICE)?,
        })
    }
}

fn copied(graph: &mut Graph, x: Tensor) -> Result<Tensor, Failure> {
    let params = weighted_sum::Params { alpha: 1.0, beta: 0.0 };
    Ok(weighted_sum::record(graph, "y", x, x, params)?)
}

/// A mask by relative position on `--grid`, or on a line of tokens.
fn on_grid(spec: &MaskSpec, args: &Args, given: &Tensors<'_>, tokens: u32) -> Result<Placed, Failure> {
    if args.graph.is_some() || given.has("edges") || args.directed {
        return Err(Failure(format!(
            "{}: a graph (--graph, --directed, `edges`) has no meaning for a mask by relative position; leave it out, or use a mask \
             along edges such as diffusion:t=10",
            given.what
        )));
    }
    let sides = match args.grid {
        None => vec![tokens],
        Some(grid) => {
            check_grid(grid, given, tokens)?;
            vec![grid.y, grid.x]
        }
    };
    Ok(Placed::Position { spec: spec.clone(), sides })
}

fn check_grid(grid: glam::UVec2, given: &Tensors<'_>, tokens: u32) -> Outcome {
    let (rows, cols) = (grid.y, grid.x);
    let cells = u64::from(rows) * u64::from(cols);
    if cells == u64::from(tokens) {
        return Ok(());
    }
    Err(Failure(format!(
        "{}: --grid: expected as many cells as the arrays have tokens, {tokens}, got {rows} × {cols} = {cells}; give the grid of the tokens",
        given.what
    )))
}

/// A mask along edges on the graph that was given.
fn on_graph(
    spec: &NetworkMaskSpec,
    args: &Args,
    given: &mut Tensors<'_>,
    tokens: u32,
) -> Result<MadeMask, Failure> {
    let Some(graph @ (GraphSpec::Image { .. } | GraphSpec::Grid(_) | GraphSpec::Torus(_))) = &args.graph
    else {
        if args.grid.is_some() {
            return Err(Failure(format!(
                "{}: --grid has no meaning for a graph from a file or from `edges`, whose nodes are the tokens; leave it out, or use \
                 --graph grid8",
                given.what
            )));
        }
        return Ok(spec.operator(&network::network(args, given, tokens)?)?);
    };
    if given.has("edges") {
        return Err(network::two_graphs(given, graph));
    }
    if args.directed {
        return Err(Failure(format!(
            "{}: --directed has no meaning for --graph {graph}, whose edges lead both ways; leave it out",
            given.what
        )));
    }
    let Some(grid) = args.grid else {
        return Err(Failure(format!(
            "{}: --graph {graph}: expected --grid ROWSxCOLS of the {tokens} tokens, got none; add it",
            given.what
        )));
    };
    check_grid(grid, given, tokens)?;
    let colours = match graph {
        GraphSpec::Image { .. } if !given.has("colours") => {
            return Err(Failure(format!(
                "{}: --graph {graph}: expected the tokens' OKLab colours as `colours` [{tokens}, 3] among the inputs, got none; add \
                 them, or use --graph grid8",
                given.what
            )));
        }
        GraphSpec::Image { .. } => Some(given.take("colours", &["n", "3"])?),
        _ => None,
    };
    if let Some(wrong) = colours.as_ref().filter(|c| c.shape().dims() != [tokens, 3]) {
        return Err(given.wrong(&format!("`colours` [{tokens}, 3]"), wrong.shape()));
    }
    let colours = colours.map(|c| c.to_f32());
    let tokens = Tokens { rows: grid.y as usize, cols: grid.x as usize, colours: colours.as_deref() };
    let mask = NetworkMask { spec: *spec, graph: graph.clone() };
    Ok(mask.operator(&tokens)?)
}

/// Tells what the mask is, and where its numbers are not those that its formula may suggest.
fn tell(mask: &AnyMask, made: &MadeMask) {
    let mut facts = vec![made.operator.describe(), counted(made.edges, "edge", "edges")];
    facts.extend(made.terms.map(|terms| counted(terms, "term", "terms")));
    facts.extend(made.bound.map(|bound| format!("at most {} left out", significant(bound, 2))));
    notice(format_args!("{mask}: {}", facts.join(", ")));
    if let Some(stands_on) = made.stands_on {
        notice(format_args!("{mask}: stands on a {stands_on}"));
    }
    if matches!(mask, AnyMask::Network(NetworkMaskSpec::Communicability { .. })) {
        notice(format_args!(
            "{mask}: rows are exp(tA) times a factor for each component, which keeps them within f32; attention divides it out"
        ));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_of_mask_is_told_of() {
        let known: Vec<&str> = MaskSpec::KINDS.into_iter().chain(NetworkMaskSpec::KINDS).collect();
        assert_eq!(KINDS.iter().map(|kind| kind.name).collect::<Vec<_>>(), known);
        assert!(KINDS.iter().all(|kind| crate::kernels::find(kind.name).is_none()), "a name means one thing");
        assert_eq!(kind_of("tree:rate=1").map(|kind| kind.name), Some("tree"));
        assert!(kind_of("trees").is_none());
    }
}
