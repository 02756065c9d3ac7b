//! Waves of positions: the exact features ψ whose inner products are sinusoidal relative position codes.
//!
//! Of every dimension d, for each of its k waves with turn u = `phase` + Σₐ `frequency[a]` · `places[n, a]` modulo 2³²:
//!
//! out[n, d · j + 2 k] = x[n, d] · gain · cos(2π u / 2³²), and sin beside it; then x[n, d] · constant where there is one.
//!
//! Turns are whole numbers, so that no position is too large for them and every backend has the same; 2⁻³² of a turn is their step.
//!
//! * `x` `[b, h, n, d]`: 1 where it is left out; `places` `[n, a]`: positions in the plane or in space have an axis each.
//! * `frequency` `[b, h, d, k · a]`, `phase` and `gain` `[b, h, d, k]`, `constant` `[b, h, d]`: shared by the batch, or by all heads.
//! * `out` `[b, h, n, d · j]`, j = 2 k, and one more with `constant`.

use super::counter_noise::TURNS;
use crate::error::Result;
use crate::graph::Graph;
use crate::kernel::wgsl_module::GROUP;
use crate::kernel::*;
use crate::{cuda_shared, cuda_source, reference};
use crate::tensor::{DType, Dims, HostData, Tensor};
use std::sync::Arc;

/// Numbers per dimension.
fn width(d: &Dims, waves: u32, constant: bool) -> u64 {
    u64::from(d.size("d")) * (2 * u64::from(waves) + u64::from(constant))
}

fn check(d: &Dims, _: &[u8]) -> std::result::Result<(), String> {
    let (k, a, f, m) = (d.size("k"), d.size("a"), d.size("f"), d.size("m"));
    if a == 0 || u64::from(f) != u64::from(k) * u64::from(a) {
        return Err(format!("each of {k} waves has a frequency for each of {a} axes, got {f}"));
    }
    let widths = [width(d, k, false), width(d, k, true)];
    if a > 3 {
        return Err(format!("positions have 1 to 3 axes, got {a}"));
    }
    match widths.contains(&u64::from(m)) {
        true => Ok(()),
        false => Err(format!("makes {} numbers of a token, {} with a constant, got {m}", widths[0], widths[1])),
    }
}

/// What waves are made of, on the CPU.
pub(super) struct Source<T> {
    places: Arc<Vec<u32>>,
    frequency: Arc<Vec<u32>>,
    phase: Option<Arc<Vec<u32>>>,
    gain: Arc<Vec<T>>,
    constant: Option<Arc<Vec<T>>>,
}

impl<T: Real> Source<T> {
    pub(super) fn of(args: &HostArgs<T>) -> Self {
        Self {
            places: args.words("places"),
            frequency: args.words("frequency"),
            phase: args.words_if("phase"),
            gain: args.real("gain"),
            constant: args.real_if("constant"),
        }
    }

    /// The waves of token i, `[d · j]`, times what each dimension has of it.
    pub(super) fn waves(&self, args: &HostArgs<T>, batch: usize, i: usize, token: impl Fn(usize) -> T, out: &mut [T]) {
        let [d, k, a] = ["d", "k", "a"].map(|x| args.dims.at(x));
        let at = |port: &str| args.start(port, batch);
        let each = 2 * k + usize::from(self.constant.is_some());
        for (dim, part) in out.chunks_mut(each.max(1)).enumerate().take(d) {
            for wave in 0..k {
                let own = dim * k + wave;
                let start = self.phase.as_ref().map_or(0, |p| p[at("phase") + own]);
                let turn = (0..a).fold(start, |turn, axis| {
                    let f = self.frequency[at("frequency") + own * a + axis];
                    turn.wrapping_add(f.wrapping_mul(self.places[i * a + axis]))
                });
                let angle = T::of(std::f64::consts::TAU * f64::from(turn.cast_signed()) / 4_294_967_296.0);
                let factor = token(dim) * self.gain[at("gain") + own];
                part[2 * wave] = factor * angle.cos();
                part[2 * wave + 1] = factor * angle.sin();
            }
            if let Some(constant) = &self.constant {
                part[2 * k] = token(dim) * constant[at("constant") + dim];
            }
        }
    }
}

fn reference<T: Real>(args: &mut HostArgs<T>) -> Result<()> {
    let [n, d, m] = ["n", "d", "m"].map(|x| args.dims.at(x));
    let (x, source, shared) = (args.real_if("x"), Source::of(args), &*args);
    let out = reference::rows(args.dims.batches() as usize, n, m, |batch, i, line| {
        let token = |dim: usize| x.as_ref().map_or(T::one(), |x| x[(batch * n + i) * d + dim]);
        source.waves(shared, batch, i, token, line);
    });
    args.set("out", out);
    Ok(())
}

/// Threads of a head: one for four tokens of a dimension.
fn threads(d: &Dims) -> u64 {
    u64::from(d.size("n").div_ceil(4)) * u64::from(d.size("d"))
}

static VARIANTS: &[Variant] = &[Variant::only(
    "position/sine_features.wgsl",
    include_str!("../../../shaders/position/sine_features.wgsl"),
    &[GROUP, TURNS],
    |d, batches| batches * threads(d).div_ceil(64),
    |d, _| {
        let (k, a) = (f64::from(d.size("k")), f64::from(d.size("a")));
        Loads { storage: threads(d) as f64 * (4.0 + 4.0 * a + k * (2.0 + a)), ..Loads::default() }
    },
)
.rounds(|d| d.size("k").into())];

/// Words that look random, so that turns wrap.
fn turns(count: usize) -> HostData {
    HostData::U32((0..count as u32).map(|i| i.wrapping_add(1).wrapping_mul(0x9e37_79b9)).collect())
}

fn frequencies(d: &Dims) -> HostData {
    turns(d.at("b") * d.at("h") * d.at("d") * d.at("f"))
}

fn shared_frequencies(d: &Dims) -> HostData {
    turns(d.at("d") * d.at("f"))
}

fn phases(d: &Dims) -> HostData {
    turns(d.at("b") * d.at("h") * d.at("d") * d.at("k"))
}

fn shared_phases(d: &Dims) -> HostData {
    turns(d.at("d") * d.at("k"))
}

/// The numbers of a token with a constant, for a case at other sizes.
pub(super) fn with_constant(d: &mut Dims) -> std::result::Result<(), String> {
    let wanted = width(d, d.size("k"), true);
    d.set("m", u32::try_from(wanted).map_err(|_| format!("a token of {wanted} numbers is too wide"))?);
    Ok(())
}

/// Far places, the last of which is the last there is.
pub(super) fn far(d: &Dims) -> HostData {
    let all = d.size("n") * d.size("a");
    HostData::U32((0..all).map(|i| if i + 1 == all { u32::MAX } else { i.wrapping_mul(0x0010_0007) }).collect())
}

pub(super) const FILL: &[(&str, Fill)] = &[
    ("places", Fill::Made(far)),
    ("frequency", Fill::Made(frequencies)),
    ("phase", Fill::Made(phases)),
];
pub(super) const SHARED: &[(&str, Fill)] = &[
    ("places", Fill::Made(far)),
    ("frequency", Fill::Made(shared_frequencies)),
    ("phase", Fill::Made(shared_phases)),
];
const ALL: &[&str] = &["frequency", "phase", "gain", "constant"];

const fn sizes(n: u32, d: u32, k: u32, a: u32, gated: u32) -> [(&'static str, u32); 8] {
    [("b", 2), ("h", 3), ("n", n), ("d", d), ("k", k), ("a", a), ("f", k * a), ("m", d * (2 * k + gated))]
}

/// The kernel's description.
pub static SPEC: KernelSpec = KernelSpec {
    name: "sine_features",
    family: "position",
    formula: "out = x[n, d] · (g cos u, g sin u, e), u = phase + Σ_a frequency · place turns",
    source: "Liutkus et al. 2021, eq. 17 to 19; whole turns: derivation",
    ports: &[
        Port::read("x", &["b", "h", "n", "d"]).optional(),
        Port::read("places", &["n", "a"]).of(DType::U32),
        Port::read("frequency", &["b", "h", "d", "f"]).of(DType::U32).broadcast(),
        Port::read("phase", &["b", "h", "d", "k"]).of(DType::U32).broadcast().optional(),
        Port::read("gain", &["b", "h", "d", "k"]).broadcast(),
        Port::read("constant", &["b", "h", "d"]).broadcast().optional(),
        Port::write("out", &["b", "h", "n", "m"]),
    ],
    params: &[],
    defaults: Vec::new,
    output_dims: None,
    check,
    wgpu: OnWgpu::Shader(VARIANTS),
    cuda: OnCuda::Source(&[cuda_source!("position/sine_features.cu", 256, |d, _| {
        // What of a dimension's numbers is left beside its waves is its constant.
        let (dim, waves) = (u64::from(d.size("d")), u64::from(d.size("k")));
        let constants = u64::from(d.size("m")) - 2 * waves * dim;
        d.batches() * (u64::from(d.size("n").div_ceil(4)) * (waves * dim + constants)).div_ceil(256)
    })
    .with(&[cuda_shared!("shared/turns.cuh")])]),
    reference: reference!(reference),
    window: whole_heads,
    cost: |d, _| {
        let all = d.batches() as f64 * f64::from(d.size("n"));
        let (width, waves) = (f64::from(d.size("d")), f64::from(d.size("d")) * f64::from(d.size("k")));
        let stores = all * f64::from(d.size("m"));
        Cost { flop: 24.0 * all * waves, exp: 0.0, stores, bytes: 4.0 * (stores + all * width), ..Cost::default() }
    },
    tolerance: Tolerance::SUMS,
    cases: &[
        Case::new(
            "smallest",
            &[("b", 1), ("h", 1), ("n", 1), ("d", 1), ("k", 1), ("a", 1), ("f", 1), ("m", 2)],
            Vec::new,
        )
        .without(&["x", "phase", "constant"])
        .filled(FILL),
        Case::new("odd", &sizes(13, 5, 3, 1, 1), Vec::new).filled(FILL),
        Case::new("plane", &sizes(11, 4, 3, 2, 0), Vec::new).without(&["constant"]).filled(SHARED).shared(ALL),
        Case::new("solid", &sizes(7, 3, 5, 3, 1), Vec::new).without(&["x"]).filled(SHARED).shared(ALL),
        Case::new("keys", &sizes(70, 3, 1, 1, 0), Vec::new).without(&["phase", "constant"]).filled(FILL),
        Case::new("constants_alone", &sizes(9, 3, 0, 1, 1), Vec::new).filled(FILL),
        Case::new("no_tokens", &sizes(0, 3, 2, 1, 1), Vec::new).filled(FILL),
        Case::new(
            "waves_10_of_4096",
            &[("b", 1), ("h", 8), ("n", 4096), ("d", 32), ("k", 10), ("a", 1), ("f", 10), ("m", 672)],
            Vec::new,
        )
        .filled(FILL)
        .resized(|d| with_constant(d).map(|()| Vec::new()))
        .for_bench(),
    ],
    vjp: None,
};

/// What waves are made of: [`SPEC`]'s ports.
#[derive(Clone, Copy, Debug)]
pub struct Waves {
    /// `[n, a]` positions.
    pub places: Tensor,
    /// `[1, h, d, k · a]` parts of 2³² turns per step.
    pub frequency: Tensor,
    /// `[1, h, d, k]` parts of 2³² turns.
    pub phase: Option<Tensor>,
    /// `[1, h, d, k]` factors.
    pub gain: Tensor,
    /// `[1, h, d]` the constant's factor.
    pub constant: Option<Tensor>,
}

impl Waves {
    /// The same with every dimension of every head a head of its own, to make waves of positions without tokens: `[1, h · d, 1, …]`, of d
    /// dimensions and k waves.
    ///
    /// Errors: tensors of other shapes.
    pub fn by_channel(self, graph: &mut Graph, d: u32, k: u32) -> Result<Self> {
        let channel = |graph: &mut Graph, t: Tensor, last: u32| graph.reshape(t, [1, t.dim(1) * d, 1, last]);
        Ok(Self {
            places: self.places,
            frequency: channel(graph, self.frequency, self.frequency.dim(3))?,
            phase: self.phase.map(|t| channel(graph, t, k)).transpose()?,
            gain: channel(graph, self.gain, k)?,
            constant: self.constant.map(|t| graph.reshape(t, [1, t.dim(1) * d, 1])).transpose()?,
        })
    }
}

/// Records the waves of the tokens of `x` `[b, h, n, d]`, or of the positions alone, into a new transient `[b, h, n, d · j]`.
///
/// Errors: shapes that do not fit, with the caller's place.
#[track_caller]
pub fn record(graph: &mut Graph, name: &str, x: Option<Tensor>, waves: Waves) -> Result<Tensor> {
    let Waves { places, frequency, phase, gain, constant } = waves;
    let (b, h) = x.map_or((gain.dim(0), gain.dim(1)), |x| (x.dim(0), x.dim(1)));
    let width = gain.dim(2) * (2 * gain.dim(3) + u32::from(constant.is_some()));
    let out = graph.transient(name, [b, h, places.dim(0), width], DType::F32);
    graph.pass(&SPEC, &NoParams {}, &[x, Some(places), Some(frequency), phase, Some(gain), constant, Some(out)])?;
    Ok(out)
}
