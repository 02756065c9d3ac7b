//! `wgattn eval spe-sine:…` and `spe-conv:…`: queries and keys from a file under a position code.

use super::{Args, Failure, array_of, network};
use crate::arrays::{Array, ArrayData};
use crate::cli::{notice, print_line};
use crate::graph::Graph;
use crate::position::Positions;
use crate::position::spec::{EncodingSpec, Kind};
use crate::tensor::{DType, HostData, HostTensor, Shape};
use std::collections::BTreeMap;

/// Name and formula of the kinds of codes, as `--list` shows them.
pub(super) fn listed() -> [(&'static str, &'static str); 2] {
    Kind::ALL.map(|(name, kind)| (name, formula(kind)))
}

fn formula(kind: Kind) -> &'static str {
    match kind {
        Kind::Sine => {
            "q_coded[n, r] = Σ_d q[n, d] s Σₖ λₖ/√(2K) [cos(2π fₖ·n + θₖ) Z₂ₖ + sin(2π fₖ·n + θₖ) Z₂ₖ₊₁]; k_coded with θ = 0"
        }
        Kind::Conv => "q_coded[n, r] = Σ_d q[n, d] s Σ_p w_q[p] z[n + p]; k_coded with w_k",
    }
}

/// Prints what a kind of code takes and gives.
pub(super) fn describe(spec: &EncodingSpec) -> super::Outcome {
    let kind = spec.kind();
    let own = match kind {
        Kind::Sine => [
            "  sinusoids=5  sinusoids K of each head and dimension",
            "  bias=-4  of the frequencies as training begins with them: half of the periods are above 108 tokens",
        ],
        Kind::Conv => [
            "  taps=16  taps of the filters, for each axis: taps=8x8 on a picture",
            "  [8x8 where tokens have two axes, 8x8x8 where they have three]",
        ],
    };
    let lines = [
        format!("{}: {}", kind.name(), formula(kind)),
        "  source: Liutkus et al. 2021, stochastic positional encoding".into(),
        "  in  q [b, h, n, d] f32, or [b, h, rows, cols, d], or [b, h, times, rows, cols, d]".into(),
        "  in  k of the same shape f32".into(),
        "  out q_coded, k_coded: the same with realizations in place of d; attention of them divides by √realizations".into(),
    ];
    lines.iter().try_for_each(|line| print_line(line))?;
    print_line(&format!("  words after {}: , apart from each other by commas:", kind.name()))?;
    own.iter().try_for_each(|line| print_line(&format!("  {line}")))?;
    [
        "realizations=256  numbers of each token's code, 1 to 16384",
        "gate=γ  share that ignores positions, 0 to 1, the same for all heads and dimensions",
        "seed=0  of the noise;  init=0  of parameters as training begins with them",
        "mode=icdf|box-muller|rademacher  distribution of the noise;  shared-heads  one noise for all heads",
        "file=FILE  parameters of a model, with convention=pytorch|jax|jax-swapped, prefix=…, gate-prefix=…; sizes and init are its own then",
    ]
    .iter()
    .try_for_each(|line| print_line(&format!("    {line}")))?;
    crate::position::weights::NAMES.lines().try_for_each(|line| print_line(&format!("  {line}")))
}

/// Queries or keys as a tensor `[b, h, n, d]` with the sides of their positions.
fn tokens(
    name: &str,
    arrays: &BTreeMap<String, Array>,
    args: &Args,
) -> Result<(HostTensor, Vec<u32>), Failure> {
    const SHAPES: &str =
        "[b, h, n, d], or positions on more axes: [b, h, rows, cols, d] or [b, h, times, rows, cols, d]";
    let array = arrays.get(name).ok_or_else(|| {
        let names: Vec<&str> = arrays.keys().map(String::as_str).collect();
        let has = names.join(", ");
        Failure(format!(
            "the inputs have no `{name}` {SHAPES}; they have [{has}]: name queries `q` and keys `k`"
        ))
    })?;
    let wrong = |got: String| Failure(format!("`{name}`: expected {SHAPES} of f32 or f64, got {got}"));
    let sides: Option<Vec<u32>> = array.shape.iter().map(|&side| u32::try_from(side).ok()).collect();
    let shape = sides.filter(|s| (4..=6).contains(&s.len()) && !s.contains(&0));
    let shape = shape.ok_or_else(|| wrong(format!("shape {:?}", array.shape)))?;
    let data = match &array.data {
        ArrayData::F32(x) => HostData::F32(x.clone()),
        ArrayData::F64(x) => HostData::F64(x.clone()),
        other => return Err(wrong(other.dtype().into())),
    };
    let (sides, d) = (shape[2..shape.len() - 1].to_vec(), shape[shape.len() - 1]);
    let n = Positions::grid(&sides)?.tokens() as u32;
    let tensor = HostTensor::new(Shape::from([shape[0], shape[1], n, d]), data)?;
    if !args.allow_nonfinite {
        tensor.check_finite(name)?;
    }
    Ok((tensor, sides))
}

/// Runs a code on the arrays.
pub(super) fn evaluate(
    spec: &EncodingSpec,
    args: &Args,
    arrays: &BTreeMap<String, Array>,
) -> Result<BTreeMap<String, Array>, Failure> {
    let name = spec.kind().name();
    for (flag, given) in [("--param", !args.params.is_empty()), ("--dim", !args.dims.is_empty())] {
        if given {
            return Err(Failure(format!("{flag}: a position code has words of its own, such as {spec}")));
        }
    }
    if let Some(other) = arrays.keys().find(|key| !["q", "k"].contains(&key.as_str())) {
        return Err(Failure(format!(
            "{name}: the inputs hold `{other}`, which is no input; inputs are [q, k]: leave it out of the file, values go past a position code"
        )));
    }
    let (q, sides) = tokens("q", arrays, args)?;
    let (k, other) = tokens("k", arrays, args)?;
    if q.shape() != k.shape() || sides != other {
        let shape = |key: &str| arrays.get(key).map_or_else(Vec::new, |array| array.shape.clone());
        return Err(Failure(format!(
            "{name}: expected `q` and `k` of one shape, got {:?} and {:?}; codes are for queries and keys of the same tokens",
            shape("q"),
            shape("k")
        )));
    }
    let [b, h, n, d] = [0, 1, 2, 3].map(|axis| q.shape().dims()[axis]);
    let fit = |_, _| "take queries and keys of the model that the file belongs to".to_owned();
    let (encoding, note) = spec.encoding_noting(h, d, sides.len(), &fit)?;
    note.iter().for_each(notice);
    let mut graph = Graph::new(name);
    let inputs = ["q", "k"].map(|side| graph.input(side, [b, h, n, d], DType::F32));
    let positions = Positions::grid(&sides)?;
    let coded =
        encoding.record(&mut graph, &spec.noise(), &positions, spec.realizations, (inputs[0], inputs[1]))?;
    let named = [("q_coded", coded.0), ("k_coded", coded.1)];
    let results = network::run(name, args, &mut graph, &[(inputs[0], &q), (inputs[1], &k)], &named)?;
    let mut outputs = BTreeMap::new();
    for ((name, _), result) in named.into_iter().zip(&results) {
        let Array { data, .. } = array_of(result);
        let sides = sides.iter().map(|side| *side as usize);
        let shape = [b as usize, h as usize].into_iter().chain(sides).chain([spec.realizations as usize]);
        outputs.insert(name.to_owned(), Array { shape: shape.collect(), data });
    }
    Ok(outputs)
}
