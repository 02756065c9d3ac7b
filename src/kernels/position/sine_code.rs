//! Queries or keys under a sinusoidal stochastic code: ψ, their waves, times noise.
//!
//! `out[n]` = Σ_d Σ_j `x[n, d]` · wave_dj(n) · `noise[d · j, r]`: waves as [`sine_features`] makes them, one row of noise for each.
//!
//! Either every token's waves are multiplied with the noise, or codes of the positions are made first and put on all tokens of the
//! batch that stand there; whichever costs less, and in pieces of heads and tokens, so that neither waves nor codes are ever in memory
//! for more tokens than the device's budget has room for.
//!
//! * `x` `[b, h, n, d]`; `places`, `frequency`, `phase`, `gain`, `constant` as in [`sine_features`].
//! * `noise` `[b, h, d · j, r]`, usually shared by the batch; `out` `[b, h, n, r]`.

use super::sine_features::{self, Waves};
use super::apply_code;
use crate::error::Result;
use crate::graph::{Expansion, Graph};
use crate::kernel::*;
use crate::kernels::linalg::matmul;
use crate::tensor::{DType, Dims, Tensor};
use crate::{params, reference};
use std::ops::Range;

/// `path`: whichever costs less.
pub const BY_COST: u32 = 0;
/// `path`: waves of every token, times noise.
pub const WAVES: u32 = 1;
/// `path`: codes of positions, put on tokens.
pub const CODES: u32 = 2;

params! {
    /// Parameters of [`SPEC`].
    pub struct Params {
        /// 0 by cost, 1 waves of every token, 2 codes of positions
        fixed path: u32 = BY_COST,
    }
}

fn check(d: &Dims, params: &[u8]) -> std::result::Result<(), String> {
    let path = Params::from_bytes(params).path;
    if path > CODES {
        return Err(format!("path is 0, 1 or 2, got {path}"));
    }
    let (k, a, f, m) = (d.size("k"), d.size("a"), d.size("f"), d.size("m"));
    if a == 0 || u64::from(f) != u64::from(k) * u64::from(a) {
        return Err(format!("each of {k} waves has a frequency for each of {a} axes, got {f}"));
    }
    let rows = u64::from(d.size("d")) * 2 * u64::from(k);
    match [rows, rows + u64::from(d.size("d"))].contains(&u64::from(m)) {
        true => Ok(()),
        false => Err(format!(
            "noise has {rows} rows, {} with a constant, got {m}",
            rows + u64::from(d.size("d"))
        )),
    }
}

fn reference<T: Real>(args: &mut HostArgs<T>) -> Result<()> {
    let [n, d, r, m] = ["n", "d", "r", "m"].map(|x| args.dims.at(x));
    let (x, noise) = (args.real("x"), args.real("noise"));
    let shared = &*args;
    let source = sine_features::Source::of(shared);
    let out = reference::rows(args.dims.batches() as usize, n, r, |batch, i, line| {
        let mut waves = vec![T::zero(); m];
        source.waves(shared, batch, i, |dim| x[(batch * n + i) * d + dim], &mut waves);
        let rows = noise[shared.start("noise", batch)..].chunks(r.max(1));
        for (wave, row) in waves.iter().zip(rows) {
            line.iter_mut().zip(row).for_each(|(y, z)| *y += *wave * *z);
        }
    });
    args.set("out", out);
    Ok(())
}

/// Operations of the two paths for one head: of every token, and of every position with what each token adds.
fn flop(d: &Dims) -> [f64; 2] {
    let [b, n, r, k, m, width] = ["b", "n", "r", "k", "m", "d"].map(|x| f64::from(d.size(x)));
    let waves = n * (24.0 * width * k + 2.0 * m * r);
    [b * waves, waves + b * n * 2.0 * width * r]
}

/// Heads and tokens that are worked at a time.
type Piece = (Range<u32>, Range<u32>);

/// Pieces of whole heads, or of one head's tokens, that stay under a budget.
pub(super) fn pieces(heads: u32, tokens: u32, row_bytes: u64, budget: u64) -> Vec<Piece> {
    /// Fewer tokens are not worth a pass.
    const FEWEST: u32 = 64;
    let per_head = row_bytes.saturating_mul(tokens.into()).max(1);
    let step = u32::try_from(budget / per_head).unwrap_or(u32::MAX).min(heads);
    if step > 0 {
        let of = |h: u32| (h..h.saturating_add(step).min(heads), 0..tokens);
        return (0..heads).step_by(step as usize).map(of).collect();
    }
    let rows = u32::try_from(budget / row_bytes.max(1)).unwrap_or(u32::MAX).max(FEWEST);
    let of = |h: u32| (0..tokens).step_by(rows as usize).map(move |n| (h..h + 1, n..n.saturating_add(rows).min(tokens)));
    (0..heads).flat_map(of).collect()
}

/// What one element of the batch, or all, and some heads have of a port that they may share.
pub(super) fn own(graph: &mut Graph, whole: Tensor, b: Option<u32>, heads: &Range<u32>) -> Result<Tensor> {
    let mut tensor = whole;
    if let Some(b) = b.filter(|_| whole.dim(0) > 1) {
        tensor = graph.slice(tensor, 0, b..b + 1)?;
    }
    if whole.dim(1) > 1 && *heads != (0..whole.dim(1)) {
        tensor = graph.slice(tensor, 1, heads.clone())?;
    }
    Ok(tensor)
}

/// The part of `[b, h, n, w]` that a piece covers, of one element of the batch or of all.
pub(super) fn part(graph: &mut Graph, whole: Tensor, b: Option<u32>, (heads, rows): &Piece) -> Result<Tensor> {
    let mut tensor = whole;
    if let Some(b) = b {
        tensor = graph.slice(tensor, 0, b..b + 1)?;
    }
    if *heads != (0..whole.dim(1)) {
        tensor = graph.slice(tensor, 1, heads.clone())?;
    }
    if *rows != (0..whole.dim(2)) {
        tensor = graph.slice(tensor, 2, rows.clone())?;
    }
    Ok(tensor)
}

/// Elements of the batch that are worked one after the other: all at once where a piece is everything.
pub(super) fn elements(b: u32, h: u32, n: u32, (heads, rows): &Piece) -> Vec<Option<u32>> {
    if b == 1 || (*heads == (0..h) && *rows == (0..n)) { vec![None] } else { (0..b).map(Some).collect() }
}

fn expand(e: &mut Expansion<'_>) -> Result<()> {
    let d = e.dims;
    let [b, h, n, r, k, m, width] = ["b", "h", "n", "r", "k", "m", "d"].map(|x| d.size(x));
    let (x, noise, out) = (e.port("x"), e.port("noise"), e.port("out"));
    let (places, gain, frequency) = (e.port("places"), e.port("gain"), e.port("frequency"));
    let (phase, constant) = (e.port_if("phase"), e.port_if("constant"));
    // Codes of one element of the batch serve the others only where all share what they are made of; and what heads share must be all.
    let all = [Some(noise), Some(gain), Some(frequency), phase, constant];
    let shared = all.iter().flatten().all(|t| t.dim(0) == 1 && t.dim(1) == noise.dim(1));
    let [of_tokens, of_positions] = flop(d);
    let codes = match e.params::<Params>().path {
        WAVES => false,
        CODES => shared,
        _ => shared && of_positions < of_tokens,
    };
    let row_bytes = 4 * (u64::from(m) * if codes { 1 } else { u64::from(b) } + if codes { u64::from(width) * u64::from(r) } else { 0 });
    // One head of waves, or of codes, is a binding.
    let row_of_head = 4 * if codes { u64::from(width) * u64::from(r) } else { u64::from(m) };
    let binding = e.caps.storage_binding.saturating_sub(e.caps.storage_alignment.into());
    let fits = row_of_head.saturating_mul(n.into()) <= binding;
    let budget = if fits { e.caps.memory_budget } else { e.caps.memory_budget.min(binding) };
    for piece in pieces(h, n, row_bytes, budget) {
        let places = if piece.1 == (0..n) { places } else { e.graph.slice(places, 0, piece.1.clone())? };
        let of = |graph: &mut Graph, b: Option<u32>| -> Result<(Waves, Tensor)> {
            let mut own = |t: Tensor| own(graph, t, b, &piece.0);
            let waves = Waves {
                places,
                frequency: own(frequency)?,
                phase: phase.map(&mut own).transpose()?,
                gain: own(gain)?,
                constant: constant.map(&mut own).transpose()?,
            };
            Ok((waves, own(noise)?))
        };
        let code = if codes {
            let (waves, noise) = of(e.graph, None)?;
            Some(codes_of(e.graph, &waves, noise, [width, m / width.max(1), k])?)
        } else {
            None
        };
        for b in elements(b, h, n, &piece) {
            let (x, out) = (part(e.graph, x, b, &piece)?, part(e.graph, out, b, &piece)?);
            if let Some(code) = code {
                e.graph.pass(&apply_code::SPEC, &NoParams {}, &[Some(x), Some(code), None, Some(out)])?;
                continue;
            }
            let (waves, noise) = of(e.graph, b)?;
            let waves = sine_features::record(e.graph, "waves", Some(x), waves)?;
            let product = matmul::Params::default();
            e.graph.pass(&matmul::SPEC, &product, &[Some(waves), Some(noise), None, None, Some(out)])?;
        }
    }
    Ok(())
}

/// Codes `[1, h, d · n, r]` of positions: a product for every dimension of every head.
fn codes_of(graph: &mut Graph, waves: &Waves, noise: Tensor, [d, j, k]: [u32; 3]) -> Result<Tensor> {
    let (heads, n, r) = (noise.dim(1), waves.places.dim(0), noise.dim(3));
    let of_channels = waves.by_channel(graph, d, k)?;
    let basis = sine_features::record(graph, "waves of positions", None, of_channels)?;
    let noise = graph.reshape(noise, [1, heads * d, j, r])?;
    let code = matmul::record(graph, "codes", matmul::Inputs::new(basis, noise), matmul::Params::default())?;
    graph.reshape(code, [1, heads, d * n, r])
}

use sine_features::{FILL, SHARED};

const NOISE_SHARED: &[&str] = &["frequency", "phase", "gain", "constant", "noise"];

const fn sizes(b: u32, n: u32, d: u32, k: u32, gated: u32, r: u32) -> [(&'static str, u32); 9] {
    let m = d * (2 * k + gated);
    [("b", b), ("h", 3), ("n", n), ("d", d), ("k", k), ("a", 1), ("f", k), ("m", m), ("r", r)]
}

fn by(path: u32) -> Vec<u8> {
    Params { path }.to_bytes()
}

fn resized(d: &mut Dims) -> std::result::Result<Vec<u8>, String> {
    sine_features::with_constant(d).map(|()| Params::default_bytes())
}

/// The kernel's description.
pub static SPEC: KernelSpec = KernelSpec {
    name: "sine_code",
    family: "position",
    formula: "out[n, r] = Σ_d x[n, d] Σ_j wave[d, j](n) noise[d j, r]",
    source: "Liutkus et al. 2021, eq. 17 to 19, as a projection of its exact features: derivation",
    ports: &[
        Port::read("x", &["b", "h", "n", "d"]),
        Port::read("places", &["n", "a"]).of(DType::U32),
        Port::read("frequency", &["b", "h", "d", "f"]).of(DType::U32).broadcast(),
        Port::read("phase", &["b", "h", "d", "k"]).of(DType::U32).broadcast().optional(),
        Port::read("gain", &["b", "h", "d", "k"]).broadcast(),
        Port::read("constant", &["b", "h", "d"]).broadcast().optional(),
        Port::read("noise", &["b", "h", "m", "r"]).broadcast(),
        Port::write("out", &["b", "h", "n", "r"]),
    ],
    params: Params::FIELDS,
    defaults: Params::default_bytes,
    output_dims: None,
    check,
    wgpu: OnWgpu::Expand(expand),
    cuda: OnCuda::Expand,
    reference: reference!(reference),
    window: whole_heads,
    cost: |d, params| {
        let [of_tokens, of_positions] = flop(d);
        let flop = match Params::from_bytes(params).path {
            WAVES => of_tokens,
            CODES => of_positions,
            _ => of_tokens.min(of_positions),
        };
        let [b, h, n, r, width, m] = ["b", "h", "n", "r", "d", "m"].map(|x| f64::from(d.size(x)));
        let stores = b * h * n * r;
        Cost { flop: h * flop, exp: 0.0, stores, bytes: 4.0 * (stores + b * h * n * width + h * m * r), ..Cost::default() }
    },
    tolerance: Tolerance::SUMS,
    cases: &[
        Case::new(
            "smallest",
            &[("b", 1), ("h", 1), ("n", 1), ("d", 1), ("k", 1), ("a", 1), ("f", 1), ("m", 2), ("r", 1)],
            Params::default_bytes,
        )
        .without(&["phase", "constant"])
        .filled(FILL),
        Case::new("waves", &sizes(2, 13, 5, 3, 1, 7), || by(WAVES)).filled(FILL),
        Case::new("waves_shared", &sizes(2, 70, 4, 3, 0, 8), || by(WAVES)).without(&["constant"]).filled(SHARED).shared(NOISE_SHARED),
        Case::new("codes", &sizes(3, 13, 5, 3, 1, 7), || by(CODES)).filled(SHARED).shared(NOISE_SHARED),
        Case::new("codes_of_keys", &sizes(1, 70, 4, 2, 0, 8), || by(CODES)).without(&["phase", "constant"]).filled(FILL),
        Case::new("by_cost", &sizes(4, 33, 6, 4, 1, 12), Params::default_bytes).filled(SHARED).shared(NOISE_SHARED),
        Case::new("no_tokens", &sizes(2, 0, 3, 2, 1, 4), Params::default_bytes).filled(SHARED).shared(NOISE_SHARED),
        Case::new(
            "tokens_4096_k10_r64",
            &[("b", 1), ("h", 8), ("n", 4096), ("d", 32), ("k", 10), ("a", 1), ("f", 10), ("m", 672), ("r", 64)],
            Params::default_bytes,
        )
        .filled(FILL)
        .resized(resized)
        .for_bench(),
        Case::new(
            "batch_4_of_1024",
            &[("b", 4), ("h", 8), ("n", 1024), ("d", 32), ("k", 10), ("a", 1), ("f", 10), ("m", 672), ("r", 64)],
            Params::default_bytes,
        )
        .filled(&[("places", Fill::Made(sine_features::far)), ("frequency", Fill::Below(1 << 30)), ("phase", Fill::Below(1 << 30))])
        .shared(NOISE_SHARED)
        .resized(resized)
        .for_bench(),
    ],
    vjp: None,
};

/// Records tokens `x` `[b, h, n, d]` under a code into a new transient `[b, h, n, r]`: waves, and noise `[1, h, d · j, r]`.
///
/// Errors: shapes that do not fit, with the caller's place.
#[track_caller]
pub fn record(graph: &mut Graph, name: &str, x: Tensor, waves: Waves, noise: Tensor, path: u32) -> Result<Tensor> {
    let Waves { places, frequency, phase, gain, constant } = waves;
    let out = graph.transient(name, [x.dim(0), x.dim(1), x.dim(2), noise.dim(3)], DType::F32);
    let args = [Some(x), Some(places), Some(frequency), phase, Some(gain), constant, Some(noise), Some(out)];
    graph.pass(&SPEC, &Params { path }, &args)?;
    Ok(out)
}
