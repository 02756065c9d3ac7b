//! Position codes as passes of a graph: queries and keys under a code, whatever attention takes them afterwards.
//!
//! ```
//! use wgattn::attention::{FeatureMap, LinearAttention, Masks, ScanMask};
//! use wgattn::graph::Graph;
//! use wgattn::position::{Encoding, Gate, Noise, Positions, SineCode, sine::PUBLISHED_BIAS, sine::SineSizes};
//! use wgattn::tensor::DType;
//!
//! # fn main() -> wgattn::Result<()> {
//! let sizes = SineSizes { heads: 4, width: 16, sinusoids: 5, axes: 1 };
//! let code = SineCode::init(sizes, PUBLISHED_BIAS, 1)?;
//! let encoding = Encoding::new(code, Some(Gate::init(4, 16, 2)?))?;
//!
//! let mut graph = Graph::new("a sentence");
//! let [q, k] = ["q", "k"].map(|name| graph.input(name, [1, 4, 128, 16], DType::F32));
//! let positions = Positions::line(128)?;
//! let coded = encoding.record(&mut graph, &Noise::default(), &positions, 64, (q, k))?;
//! assert_eq!(coded.0.shape().dims(), [1, 4, 128, 64]);
//! # Ok(())
//! # }
//! ```
//!
//! * [`Encoding::record`]: codes are made where they are used, and never for more tokens at a time than fit the device's budget.
//! * [`Encoding::materialise`]: codes in memory, for many layers that share them.
//! * [`Encoding::stream`]: codes of a few tokens at positions that are told before each run, for decoding token by token.

use super::{Code, ConvCode, Encoding, Noise, Positions, SineCode, check_len, noise, scale, sine};
use crate::backend::Program;
use crate::error::{Error, Result};
use crate::graph::{Graph, PassId};
use crate::kernels::linalg::matmul;
use crate::kernels::position::sine_features::Waves;
use crate::kernels::position::{
    apply_code, conv_code, counter_noise, filter_noise, sine_code, sine_features,
};
use crate::random::Purpose;
use crate::tensor::{DType, HostData, HostTensor, Tensor};

/// Codes `[1, h, d · n, r]` of queries and of keys in memory; one serves all elements of a batch, and all layers that share it.
#[derive(Clone, Copy, Debug)]
pub struct Materialised {
    /// Code of queries.
    pub q: Tensor,
    /// Code of keys.
    pub k: Tensor,
    /// What a gate adds to both at every position `[1, h, d, r]`, where it is not in the codes already.
    pub constant: Option<Tensor>,
}

impl Materialised {
    /// Records queries and keys `[b, h, n, d]` under the codes: `[b, h, n, r]` each.
    ///
    /// Errors: shapes that do not fit, with the caller's place.
    #[track_caller]
    pub fn record(&self, graph: &mut Graph, (q, k): (Tensor, Tensor)) -> Result<(Tensor, Tensor)> {
        let q = apply_code::record(graph, "q under its code", q, self.q, self.constant)?;
        Ok((q, apply_code::record(graph, "k under its code", k, self.k, self.constant)?))
    }
}

/// Queries and keys under codes whose positions can be moved between runs.
#[derive(Clone, Debug)]
pub struct Streamed {
    /// Queries under their code `[b, h, n, r]`.
    pub q: Tensor,
    /// Keys under their code.
    pub k: Tensor,
    positions: Positions,
    moved: Moved,
}

#[derive(Clone, Debug)]
enum Moved {
    /// Positions are an input.
    Places(Tensor),
    /// Noise is made from a position on.
    Noise(PassId, Box<counter_noise::Params>, Vec<u32>),
}

impl Streamed {
    /// Lets the next run's tokens stand where they are told: their first position, a number per axis.
    ///
    /// Errors: as [`Positions::starting_at`]; positions beyond the noise's counters; a failing device.
    pub fn seek(&self, program: &mut dyn Program, first: &[u32]) -> Result<()> {
        let positions = self.positions.starting_at(first)?;
        match &self.moved {
            Moved::Places(tensor) => program.write(*tensor, &places(&positions)?),
            Moved::Noise(pass, params, taps) => {
                heard(&positions, taps)?;
                program.set_params(*pass, &moved_to(**params, &positions))
            }
        }
    }
}

/// The places of noise under filters, which counters have bits for.
fn heard(positions: &Positions, taps: &[u32]) -> Result<Positions> {
    let padded = positions.padded(taps)?;
    // The last place needs the most bits.
    noise::pack(&padded.at(padded.tokens().saturating_sub(1))[..padded.axes()])?;
    Ok(padded)
}

fn moved_to(params: counter_noise::Params, positions: &Positions) -> counter_noise::Params {
    let mut first = [0; 3];
    first[..positions.axes()].copy_from_slice(positions.origin());
    counter_noise::Params { first_0: first[0], first_1: first[1], first_2: first[2], ..params }
}

/// Noise that is given instead of drawn, variance 1: to repeat what another program did.
#[derive(Clone, Copy, Debug)]
pub struct Given<'a> {
    /// `[h, d, 2K, r]` of sinusoids, `[h, d, u₁, …, r]` of filters: nₐ + Pₐ − 1 samples along each axis.
    pub z: &'a [f64],
    /// `[h, d, r]` of the gate, where there is one.
    pub epsilon: Option<&'a [f64]>,
}

/// Where noise comes from.
#[derive(Clone, Copy)]
enum Source<'a> {
    Drawn(&'a Noise),
    Given(Given<'a>),
}

fn single(values: &[f64]) -> Vec<f32> {
    values.iter().map(|x| *x as f32).collect()
}

/// Positions of tokens `[n, axes]`.
fn places(positions: &Positions) -> Result<HostTensor> {
    let axes = positions.axes();
    let all = (0..positions.tokens()).flat_map(|i| positions.at(i)[..axes].to_vec()).collect();
    HostTensor::new([positions.tokens() as u32, axes as u32], HostData::U32(all))
}

/// Refuses tokens of other sizes than the code's.
#[track_caller]
fn check_tokens(encoding: &Encoding, positions: &Positions, (q, k): (Tensor, Tensor)) -> Result<()> {
    for (name, x) in [("queries", q), ("keys", k)] {
        let wanted = [encoding.code().heads(), positions.tokens() as u32, encoding.code().width()];
        let got = [1, 2, 3].map(|axis| x.dim(axis));
        if x.shape().dims().len() != 4 || got != wanted {
            let [h, n, d] = wanted;
            return Err(Error::value(
                format!("{name} of a position code"),
                format!("[b, {h}, {n}, {d}]: the code's heads, the positions, the code's dimensions"),
                x.shape(),
                "give queries and keys as the code and the positions have them",
            ));
        }
    }
    Ok(())
}

/// A counter's beginning for noise of a purpose.
fn counters(noise: &Noise, purpose: Purpose) -> Result<counter_noise::Params> {
    let [seed_low, seed_high] = noise.key();
    let [step, purpose] = noise.counter_tail(purpose)?;
    Ok(counter_noise::Params {
        seed_low,
        seed_high,
        step,
        purpose,
        mode: noise.mode.number(),
        ..counter_noise::Params::default()
    })
}

fn reals(graph: &mut Graph, name: &str, shape: &[u32], values: Vec<f32>) -> Result<Tensor> {
    Ok(graph.constant(name, HostTensor::f32(crate::tensor::Shape::new(shape)?, values)?))
}

/// A sinusoidal code's arrays and noise in a graph.
struct Sine {
    waves: Waves,
    /// Phases of queries.
    phase: Tensor,
    /// `[1, h, d · j, r]`, one head where all share it.
    noise: Tensor,
}

impl Sine {
    fn new(
        encoding: &Encoding,
        code: &SineCode,
        graph: &mut Graph,
        source: Source<'_>,
        places: Tensor,
        r: u32,
    ) -> Result<Self> {
        let table = code.table(encoding.gate())?;
        let (h, d, k, axes) = (code.heads(), code.width(), code.sinusoids(), code.axes());
        noise::check_sizes(h, d, r)?;
        let s = scale(r, d);
        // In f64 from the gains themselves, so that each is rounded once.
        let norm = s / (2.0 * f64::from(k)).sqrt();
        let factors =
            |channel: u32| encoding.gate().map_or([1.0, 0.0], |gate| gate.factors(channel / d, channel % d));
        let gains = code.gains().iter().enumerate();
        let gains = gains.map(|(at, g)| (g * factors(at as u32 / k)[0] * norm) as f32).collect();
        let constants = (0..h * d).map(|channel| (s * factors(channel)[1]) as f32).collect();
        let words = |graph: &mut Graph, name: &str, last: u32, values: Vec<u32>| -> Result<Tensor> {
            Ok(graph.constant(name, HostTensor::new([1, h, d, last], HostData::U32(values))?))
        };
        let waves = Waves {
            places,
            frequency: words(graph, "frequencies", k * axes, table.frequencies)?,
            phase: None,
            gain: reals(graph, "gains", &[1, h, d, k], gains)?,
            constant: match encoding.gate() {
                Some(_) => Some(reals(graph, "gate", &[1, h, d], constants)?),
                None => None,
            },
        };
        let phase = words(graph, "phases", k, table.phases)?;
        let rows = 2 * k + u32::from(encoding.gate().is_some());
        let noise = match source {
            Source::Given(Given { z, epsilon }) => {
                let joined = code.table(encoding.gate())?.join_noise(z, epsilon, r)?;
                reals(graph, "noise of waves", &[1, h, d * rows, r], single(&joined))?
            }
            Source::Drawn(noise) => {
                let mut params = counters(noise, Purpose::SineNoise)?;
                if encoding.gate().is_some() {
                    params.last_purpose = noise.counter_tail(Purpose::GateNoise)?[1];
                }
                let heads = if noise.shared_by_heads { 1 } else { h };
                let table = counter_noise::table(graph)?;
                let made =
                    counter_noise::record(graph, "noise of waves", table, [heads * d, rows, r], params)?;
                graph.reshape(made, [1, heads, d * rows, r])?
            }
        };
        Ok(Self { waves, phase, noise })
    }

    /// The waves of queries and of keys.
    fn sides(&self) -> [Waves; 2] {
        [Waves { phase: Some(self.phase), ..self.waves }, self.waves]
    }

    fn record(&self, graph: &mut Graph, (q, k): (Tensor, Tensor), path: u32) -> Result<(Tensor, Tensor)> {
        let [of_q, of_k] = self.sides();
        let q = sine_code::record(graph, "q under its code", q, of_q, self.noise, path)?;
        Ok((q, sine_code::record(graph, "k under its code", k, of_k, self.noise, path)?))
    }
}

/// Filters of both sides, the gate's and the code's factors in them: `[1, h, d, p]` each.
fn taps(encoding: &Encoding, code: &ConvCode, r: u32) -> [Vec<f32>; 2] {
    let (d, per) = (code.width(), code.taps_in_all());
    let s = scale(r, d);
    let factor =
        |channel: u32| encoding.gate().map_or(s, |gate| s * gate.factors(channel / d, channel % d)[0]);
    code.filters()
        .map(|taps| taps.iter().enumerate().map(|(at, w)| (w * factor((at / per) as u32)) as f32).collect())
}

/// What the gate of a convolutional code adds `[1, h, d, r]`.
fn added(encoding: &Encoding, graph: &mut Graph, source: Source<'_>, r: u32) -> Result<Option<Tensor>> {
    let given = match source {
        Source::Given(given) => given.epsilon,
        Source::Drawn(_) => None,
    };
    let Some(gate) = encoding.gate() else {
        return match given {
            None => Ok(None),
            Some(_) => Err(Error::Data {
                tensor: "gate noise".into(),
                expected: "none, as the code has no gate".into(),
                got: "noise".into(),
            }),
        };
    };
    let (h, d) = (gate.heads(), gate.width());
    let epsilon = match (source, given) {
        (Source::Drawn(noise), _) => noise.gate(h, d, encoding.code().gate_index(), r)?,
        (_, Some(given)) => given.to_vec(),
        (_, None) => Vec::new(),
    };
    check_len("gate noise", &[("h", h.into()), ("d", d.into()), ("r", r.into())], epsilon.len())?;
    let s = scale(r, d);
    let of = |(at, e): (usize, &f64)| {
        let channel = at as u32 / r;
        (e * s * gate.factors(channel / d, channel % d)[1]) as f32
    };
    reals(graph, "gate", &[1, h, d, r], epsilon.iter().enumerate().map(of).collect()).map(Some)
}

/// A box of up to three axes with 1 for those it has not.
fn padded_box(sides: &[u32]) -> [u32; 3] {
    let mut all = [1; 3];
    all[..sides.len()].copy_from_slice(sides);
    all
}

/// The same with its axes at the end.
fn at_end(sides: &[u32]) -> [u32; 3] {
    let mut all = [1; 3];
    all[3 - sides.len()..].copy_from_slice(sides);
    all
}

/// The noise under a convolutional code's filters, for all heads, and the codes of both sides `[1, h, d · n, r]` with the noise's pass.
fn filtered(
    encoding: &Encoding,
    code: &ConvCode,
    graph: &mut Graph,
    noise: &Noise,
    positions: &Positions,
    r: u32,
) -> Result<([Tensor; 2], PassId, counter_noise::Params)> {
    let (h, d) = (code.heads(), code.width());
    noise::check_sizes(h, d, r)?;
    if noise.shared_by_heads && h > 1 {
        return Err(Error::value(
            "noise of a convolutional code in memory",
            "a noise for each head",
            "one for all heads",
            "use `record`, which makes codes head by head, or leave `shared_by_heads` out",
        ));
    }
    let padded = heard(positions, code.taps())?;
    let wide = padded_box(padded.sides());
    let (shift_0, shift_1) = shifts(padded.axes());
    let params = counter_noise::Params {
        side_1: wide[1],
        side_2: wide[2],
        shift_0,
        shift_1,
        ..moved_to(counters(noise, Purpose::ConvNoise)?, positions)
    };
    let table = counter_noise::table(graph)?;
    let size = [h * d, padded.tokens() as u32, r];
    let z = graph.transient("noise", size, DType::F32);
    let pass = graph.pass(&counter_noise::SPEC, &params, &[Some(table), Some(z)])?;
    let [u0, u1, u2] = at_end(padded.sides());
    let z = graph.reshape(z, [1, h * d, u0, u1, u2, r])?;
    let [t0, t1, t2] = at_end(code.taps());
    let mut codes = Vec::with_capacity(2);
    for values in taps(encoding, code, r) {
        let weights = reals(graph, "taps", &[1, h * d, t0, t1, t2], values)?;
        let code = filter_noise::record(graph, "codes", z, weights)?;
        codes.push(graph.reshape(code, [1, h, d * positions.tokens() as u32, r])?);
    }
    Ok(([codes[0], codes[1]], pass, params))
}

/// Bits to the left of the first two axes in a counter.
fn shifts(axes: usize) -> (u32, u32) {
    let [_, b, c] = noise::packed_bits(axes);
    (b + c, c)
}

impl Encoding {
    /// Records queries and keys `[b, h, n, d]` under the code: `[b, h, n, r]` each, for any attention that divides by √r (method: 1.5).
    /// Codes are made where they are used, in pieces that fit the device's memory budget.
    ///
    /// Errors: [`Error::Value`] for tokens of other sizes than the code's and the positions', for other axes, and for sizes beyond the
    /// noise's counters.
    #[track_caller]
    pub fn record(
        &self,
        graph: &mut Graph,
        noise: &Noise,
        positions: &Positions,
        realizations: u32,
        (q, k): (Tensor, Tensor),
    ) -> Result<(Tensor, Tensor)> {
        self.record_from(graph, Source::Drawn(noise), positions, realizations, (q, k))
    }

    /// [`Self::record`] with noise that is given.
    ///
    /// Errors: as there, and [`Error::Data`] for noise of another size.
    #[track_caller]
    pub fn record_given(
        &self,
        graph: &mut Graph,
        given: Given<'_>,
        positions: &Positions,
        realizations: u32,
        (q, k): (Tensor, Tensor),
    ) -> Result<(Tensor, Tensor)> {
        self.record_from(graph, Source::Given(given), positions, realizations, (q, k))
    }

    #[track_caller]
    fn record_from(
        &self,
        graph: &mut Graph,
        source: Source<'_>,
        positions: &Positions,
        realizations: u32,
        (q, k): (Tensor, Tensor),
    ) -> Result<(Tensor, Tensor)> {
        check_tokens(self, positions, (q, k))?;
        match self.code() {
            Code::Sine(code) => {
                sine::check_axes(code.sizes(), positions)?;
                let places = graph.constant("positions", places(positions)?);
                Sine::new(self, code, graph, source, places, realizations)?.record(
                    graph,
                    (q, k),
                    sine_code::BY_COST,
                )
            }
            Code::Conv(code) => {
                let (h, d) = (code.heads(), code.width());
                noise::check_sizes(h, d, realizations)?;
                let padded = heard(positions, code.taps())?;
                let (sides, lengths) = (padded_box(positions.sides()), padded_box(code.taps()));
                let (start, shared) = match source {
                    Source::Drawn(noise) => (counters(noise, Purpose::ConvNoise)?, noise.shared_by_heads),
                    Source::Given(_) => (counter_noise::Params::default(), false),
                };
                let start = moved_to(start, positions);
                let params = conv_code::Params {
                    axes: positions.axes() as u32,
                    side_1: sides[1],
                    side_2: sides[2],
                    taps_1: lengths[1],
                    taps_2: lengths[2],
                    first_0: start.first_0,
                    first_1: start.first_1,
                    first_2: start.first_2,
                    seed_low: start.seed_low,
                    seed_high: start.seed_high,
                    step: start.step,
                    purpose: start.purpose,
                    heads_share: u32::from(shared),
                    mode: start.mode,
                    path: conv_code::BY_COST,
                };
                let constant = added(self, graph, source, realizations)?;
                let z = match source {
                    Source::Drawn(_) => None,
                    Source::Given(Given { z, .. }) => {
                        let shape = [
                            ("h", h.into()),
                            ("d", d.into()),
                            ("places", padded.tokens() as u64),
                            ("r", realizations.into()),
                        ];
                        check_len("noise of filters", &shape, z.len())?;
                        Some(reals(
                            graph,
                            "noise",
                            &[1, h, d * padded.tokens() as u32, realizations],
                            single(z),
                        )?)
                    }
                };
                let box_of = at_end(code.taps());
                let [of_q, of_k] = taps(self, code, realizations);
                let mut side = |x: Tensor, values: Vec<f32>| -> Result<conv_code::Tokens> {
                    let by_lag = conv_code::lags(&values, box_of);
                    let entries = by_lag.len() as u32 / (h * d);
                    let lags = Some(reals(graph, "taps by lag", &[h * d, entries], by_lag)?);
                    let taps = reals(graph, "taps", &[1, h, d, code.taps_in_all() as u32], values)?;
                    Ok(conv_code::Tokens { x, taps, lags })
                };
                let sides = [side(q, of_q)?, side(k, of_k)?];
                let common = conv_code::Common { constant, z };
                let [q, k] = conv_code::record(graph, sides, common, realizations, params)?;
                Ok((q, k))
            }
        }
    }

    /// Records codes into memory, n · H · D · R numbers a side: for layers that share one code, which is then made once for all of them.
    ///
    /// Errors: as [`Self::record`]; convolutional codes whose noise all heads share.
    #[track_caller]
    pub fn materialise(
        &self,
        graph: &mut Graph,
        noise: &Noise,
        positions: &Positions,
        realizations: u32,
    ) -> Result<Materialised> {
        match self.code() {
            Code::Sine(code) => {
                sine::check_axes(code.sizes(), positions)?;
                let places = graph.constant("positions", places(positions)?);
                let sine = Sine::new(self, code, graph, Source::Drawn(noise), places, realizations)?;
                let (d, k, n) = (code.width(), code.sinusoids(), positions.tokens() as u32);
                let heads = sine.noise.dim(1);
                let mut codes = Vec::with_capacity(2);
                for waves in sine.sides() {
                    let waves = waves.by_channel(graph, d, k)?;
                    let basis = sine_features::record(graph, "waves of positions", None, waves)?;
                    let rows = basis.dim(3);
                    // Every channel's waves times its own noise; noise that heads share is taken head by head.
                    let noise = graph.reshape(sine.noise, [1, heads * d, rows, realizations])?;
                    let code = if heads == code.heads() {
                        matmul::record(
                            graph,
                            "codes",
                            matmul::Inputs::new(basis, noise),
                            matmul::Params::default(),
                        )?
                    } else {
                        let code_of =
                            graph.transient("codes", [1, code.heads() * d, n, realizations], DType::F32);
                        for head in 0..code.heads() {
                            let range = head * d..(head + 1) * d;
                            let basis = graph.slice(basis, 1, range.clone())?;
                            let out = graph.slice(code_of, 1, range)?;
                            let product = matmul::Params::default();
                            graph.pass(
                                &matmul::SPEC,
                                &product,
                                &[Some(basis), Some(noise), None, None, Some(out)],
                            )?;
                        }
                        code_of
                    };
                    codes.push(graph.reshape(code, [1, code.dim(1) / d, d * n, realizations])?);
                }
                Ok(Materialised { q: codes[0], k: codes[1], constant: None })
            }
            Code::Conv(code) => {
                let ([q, k], _, _) = filtered(self, code, graph, noise, positions, realizations)?;
                Ok(Materialised { q, k, constant: added(self, graph, Source::Drawn(noise), realizations)? })
            }
        }
    }

    /// Records queries and keys of a few tokens whose positions are told before each run by [`Streamed::seek`]: `positions` says how many
    /// and how they stand to each other. The codes are those that the same positions have in a longer sequence.
    ///
    /// Errors: as [`Self::materialise`].
    #[track_caller]
    pub fn stream(
        &self,
        graph: &mut Graph,
        noise: &Noise,
        positions: &Positions,
        realizations: u32,
        (q, k): (Tensor, Tensor),
    ) -> Result<Streamed> {
        check_tokens(self, positions, (q, k))?;
        let positions = *positions;
        match self.code() {
            Code::Sine(code) => {
                sine::check_axes(code.sizes(), &positions)?;
                let shape = [positions.tokens() as u32, positions.axes() as u32];
                let tensor = graph.input("positions", shape, DType::U32);
                let sine = Sine::new(self, code, graph, Source::Drawn(noise), tensor, realizations)?;
                let (q, k) = sine.record(graph, (q, k), sine_code::BY_COST)?;
                Ok(Streamed { q, k, positions, moved: Moved::Places(tensor) })
            }
            Code::Conv(code) => {
                let ([q_code, k_code], pass, params) =
                    filtered(self, code, graph, noise, &positions, realizations)?;
                let constant = added(self, graph, Source::Drawn(noise), realizations)?;
                let (q, k) = Materialised { q: q_code, k: k_code, constant }.record(graph, (q, k))?;
                let moved = Moved::Noise(pass, Box::new(params), code.taps().to_vec());
                Ok(Streamed { q, k, positions, moved })
            }
        }
    }
}
