//! Sinusoidal position codes: a template that is a sum of cosines, so it may be periodic and never ends.
//!
//! Head h, dimension d and sinusoid k have a frequency f in turns per token, a phase θ and a gain λ > 0. With noise Z of two rows per
//! sinusoid,
//!
//! q̄(n) = s Σₖ λₖ/√(2K) [cos(2π fₖ·n + θₖ) Z₂ₖ + sin(2π fₖ·n + θₖ) Z₂ₖ₊₁],  k̄(n) the same with θ = 0,
//!
//! has the template P(τ) = 1/(2K) Σₖ λₖ² cos(2π fₖ·τ + θₖ) (method: 1.2). Positions of two and three axes have a frequency per axis
//! (our extension). [`SineCode`] evaluates this in f64; [`SineTable`] is what every backend is given: frequencies and phases as
//! integers, gains with the gate in them.

use super::gate::{FREQUENCY_STREAM, GAIN_STREAM, PHASE_STREAM, gate_factors, with_gate};
use super::{Codes, Gate, Positions, check_finite, check_len, noise, phase, scale, sigmoid};
use crate::error::{Error, Result};
use crate::kernel::reference::Real;
use crate::random::{Place, Purpose};
use rayon::prelude::*;
use std::f64::consts::TAU;

/// Sizes of a sinusoidal code.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SineSizes {
    /// Heads H.
    pub heads: u32,
    /// Dimensions D of queries and keys.
    pub width: u32,
    /// Sinusoids K per head and dimension.
    pub sinusoids: u32,
    /// Axes of the positions, 1 to 3.
    pub axes: u32,
}

impl SineSizes {
    fn check(self) -> Result<Self> {
        noise::check_channels(self.heads, self.width)?;
        noise::sine_rows(self.sinusoids)?;
        match self.axes {
            1..=3 => Ok(self),
            axes => Err(Error::value(
                "axes of a sinusoidal position code",
                "1 to 3",
                axes,
                "use one for a sequence, two for a picture, three for a film",
            )),
        }
    }

    fn hdk(self) -> [(&'static str, u64); 3] {
        [("h", self.heads.into()), ("d", self.width.into()), ("k", self.sinusoids.into())]
    }
}

/// Bias −4 of published frequencies as training begins: half of them have periods above 108 tokens.
pub const PUBLISHED_BIAS: f64 = -4.0;

/// Frequencies, phases and gains of all heads and dimensions.
#[derive(Clone, Debug, PartialEq)]
pub struct SineCode {
    sizes: SineSizes,
    frequencies: Vec<f64>,
    phases: Vec<f64>,
    gains: Vec<f64>,
}

impl SineCode {
    /// A code from its values: frequencies `[h, d, k, axes]` in turns per token, phases `[h, d, k]` in radians, gains `[h, d, k]`.
    ///
    /// Errors: [`Error::Value`] for a size of 0 or too large; [`Error::Data`] for other numbers of values, NaN or infinities,
    /// frequencies beyond ½ turn and negative gains.
    pub fn new(sizes: SineSizes, frequencies: Vec<f64>, phases: Vec<f64>, gains: Vec<f64>) -> Result<Self> {
        let sizes = sizes.check()?;
        let [h, d, k] = sizes.hdk();
        check_len("frequencies", &[h, d, k, ("axes", sizes.axes.into())], frequencies.len())?;
        check_len("phases", &sizes.hdk(), phases.len())?;
        check_len("gains", &sizes.hdk(), gains.len())?;
        for (name, values) in [("frequencies", &frequencies), ("phases", &phases), ("gains", &gains)] {
            check_finite(name, values)?;
        }
        let wrong = |name: &str, expected: &str, values: &[f64], at: usize| {
            let got = format!("{} at element {at}", values[at]);
            Err(Error::Data { tensor: name.into(), expected: expected.into(), got })
        };
        if let Some(at) = frequencies.iter().position(|f| f.abs() > 0.5) {
            return wrong("frequencies", "at most ½ turn per token", &frequencies, at);
        }
        if let Some(at) = gains.iter().position(|g| *g < 0.0) {
            return wrong("gains", "numbers of at least 0", &gains, at);
        }
        Ok(Self { sizes, frequencies, phases, gains })
    }

    /// A code from the raw parameters of published programs: f̃ `[h, d, k, axes]`, θ and g̃ `[h, d, k]`.
    ///
    /// f = sigmoid(f̃)/2 on a line, sigmoid(f̃) − ½ per axis otherwise; λ = softplus(g̃).
    ///
    /// Errors: as [`Self::new`].
    pub fn from_raw(sizes: SineSizes, frequencies: &[f64], phases: &[f64], gains: &[f64]) -> Result<Self> {
        check_finite("frequencies", frequencies)?;
        check_finite("gains", gains)?;
        let frequency = |&raw: &f64| match sizes.axes {
            1 => 0.5 * sigmoid(raw),
            // tanh keeps the digits of small frequencies: sigmoid(x) − ½ = tanh(x/2)/2.
            _ => 0.5 * (0.5 * raw).tanh(),
        };
        let softplus = |&raw: &f64| raw.max(0.0) + (-raw.abs()).exp().ln_1p();
        Self::new(
            sizes,
            frequencies.iter().map(frequency).collect(),
            phases.to_vec(),
            gains.iter().map(softplus).collect(),
        )
    }

    /// A code as training begins with it: f̃ ~ N(0, 1) + `bias`, θ ~ N(0, 1), g̃ = 2u/√‖u‖ with u ~ N(0, 1)^K.
    ///
    /// On several axes the size of a frequency along each is drawn as on a line and its sign is even: f̃ = −4 itself would stand for
    /// almost half a turn there. Source: the published programs; [`PUBLISHED_BIAS`] is theirs.
    ///
    /// Errors: [`Error::Value`] for a size of 0 or too large, or a bias that is not finite.
    pub fn init(sizes: SineSizes, bias: f64, seed: u64) -> Result<Self> {
        let sizes = sizes.check()?;
        if !bias.is_finite() {
            let remedy = format!("use {PUBLISHED_BIAS}, the published one");
            return Err(Error::value("bias of a code's frequencies", "a finite number", bias, remedy));
        }
        let SineSizes { heads, width, sinusoids, axes } = sizes;
        let places = |rows: u32, stream: u32| {
            (0..heads * width).flat_map(move |channel| {
                (0..rows).map(move |index| Place { index, channel, stream, ..Place::of(Purpose::Parameters) })
            })
        };
        let frequencies: Result<Vec<f64>> = places(sinusoids * axes, FREQUENCY_STREAM)
            .map(|place| {
                let size = 0.5 * sigmoid(f64::from(place.gaussian(seed)?) + bias);
                let negative = axes > 1 && Place { lane: 1, ..place }.word(seed)? >> 31 == 1;
                Ok(if negative { -size } else { size })
            })
            .collect();
        let drawn = |stream| -> Result<Vec<f64>> {
            places(sinusoids, stream).map(|place| place.gaussian(seed).map(f64::from)).collect()
        };
        let mut gains = drawn(GAIN_STREAM)?;
        for line in gains.chunks_mut(sinusoids as usize) {
            let norm = line.iter().map(|u| u * u).sum::<f64>().sqrt();
            for u in line {
                let raw = 2.0 * *u / norm.sqrt();
                *u = raw.max(0.0) + (-raw.abs()).exp().ln_1p();
            }
        }
        Self::new(sizes, frequencies?, drawn(PHASE_STREAM)?, gains)
    }

    /// All sizes.
    pub fn sizes(&self) -> SineSizes {
        self.sizes
    }

    /// Heads H.
    pub fn heads(&self) -> u32 {
        self.sizes.heads
    }

    /// Dimensions D.
    pub fn width(&self) -> u32 {
        self.sizes.width
    }

    /// Sinusoids K.
    pub fn sinusoids(&self) -> u32 {
        self.sizes.sinusoids
    }

    /// Axes of the positions.
    pub fn axes(&self) -> u32 {
        self.sizes.axes
    }

    /// Frequencies `[h, d, k, axes]` in turns per token.
    pub fn frequencies(&self) -> &[f64] {
        &self.frequencies
    }

    /// Phases θ `[h, d, k]` in radians.
    pub fn phases(&self) -> &[f64] {
        &self.phases
    }

    /// Gains λ `[h, d, k]`.
    pub fn gains(&self) -> &[f64] {
        &self.gains
    }

    /// The numbers of one head's dimension: frequencies `[k, axes]`, phases `[k]`, gains `[k]`.
    ///
    /// Panics, as slices do, for a head or dimension that it does not have.
    pub fn sinusoids_of(&self, head: u32, dimension: u32) -> [&[f64]; 3] {
        let (k, axes) = (self.sizes.sinusoids as usize, self.sizes.axes as usize);
        let from = (head * self.sizes.width + dimension) as usize * k;
        [&self.frequencies[from * axes..][..k * axes], &self.phases[from..][..k], &self.gains[from..][..k]]
    }

    /// Codes in f64 from the exact frequencies; `z` `[h, d, 2K, r]` as [`super::Noise::sine`] draws it.
    ///
    /// Errors: [`Error::Value`] for positions of other axes; [`Error::Data`] for `z` of another size.
    pub fn codes(&self, positions: &Positions, z: &[f64], realizations: u32) -> Result<Codes> {
        check_axes(self.sizes, positions)?;
        let rows = 2 * self.sizes.sinusoids;
        let norm = (2.0 * f64::from(self.sizes.sinusoids)).sqrt();
        let gains: Vec<f64> = self.gains.iter().map(|g| g / norm).collect();
        let axes = self.sizes.axes as usize;
        let sources = Sources { sizes: self.sizes, rows, gains: &gains, gate: None };
        codes(&sources, positions, z, realizations, |position, at| {
            let turns: f64 = self.frequencies[at * axes..][..axes]
                .iter()
                .zip(position)
                .map(|(f, n)| (f * f64::from(n)).rem_euclid(1.0))
                .sum();
            let beta = TAU * turns;
            let (sine_q, cosine_q) = (beta + self.phases[at]).sin_cos();
            let (sine_k, cosine_k) = beta.sin_cos();
            [cosine_q, sine_q, cosine_k, sine_k]
        })
    }

    /// What backends are given: frequencies and phases as integers, gains and gate in f32.
    ///
    /// Errors: [`Error::Value`] for a gate of other heads or dimensions.
    pub fn table(&self, gate: Option<&Gate>) -> Result<SineTable> {
        let SineSizes { heads, width, sinusoids, .. } = self.sizes;
        let factors = gate_factors(gate, heads, width)?;
        let norm = (2.0 * f64::from(sinusoids)).sqrt();
        let gains = self.gains.iter().enumerate();
        Ok(SineTable {
            sizes: self.sizes,
            frequencies: self.frequencies.iter().map(|&f| phase::of_turns(f)).collect(),
            phases: self.phases.iter().map(|theta| phase::of_turns(theta / TAU)).collect(),
            gains: gains.map(|(at, g)| (g * factors[at / sinusoids as usize][0] / norm) as f32).collect(),
            gates: gate.map(|_| factors.iter().map(|[_, e]| *e as f32).collect()),
        })
    }
}

/// A sinusoidal code as every backend is given it: the same integers give the same phases everywhere, to the bit.
#[derive(Clone, Debug, PartialEq)]
pub struct SineTable {
    /// Sizes.
    pub sizes: SineSizes,
    /// `[h, d, k, axes]` frequencies in turns per token · 2³², negative ones as their complement.
    pub frequencies: Vec<u32>,
    /// `[h, d, k]` phases of queries in turns · 2³².
    pub phases: Vec<u32>,
    /// `[h, d, k]` gains Λ = √(1−γ) λ/√(2K).
    pub gains: Vec<f32>,
    /// `[h, d]` √γ, the gain of noise row 2K; absent without a gate.
    pub gates: Option<Vec<f32>>,
}

impl SineTable {
    /// Rows J of the noise: 2K, and one more with a gate.
    pub fn rows(&self) -> u32 {
        2 * self.sizes.sinusoids + u32::from(self.gates.is_some())
    }

    /// Refuses lists that are not as long as the sizes say; the fields are anybody's to fill.
    fn check(&self) -> Result<()> {
        let [h, d, k] = self.sizes.check()?.hdk();
        check_len(
            "table of frequencies",
            &[h, d, k, ("axes", self.sizes.axes.into())],
            self.frequencies.len(),
        )?;
        check_len("table of phases", &[h, d, k], self.phases.len())?;
        check_len("table of gains", &[h, d, k], self.gains.len())?;
        self.gates.as_ref().map_or(Ok(()), |gates| check_len("table of gates", &[h, d], gates.len()))
    }

    /// Phase of a key at a position: the wrapping sum of products over the axes. A query's is ahead by its entry in `phases`.
    ///
    /// `at` counts `[h, d, k]`; panics, as slices do, beyond it.
    pub fn phase(&self, at: usize, position: [u32; 3]) -> u32 {
        let axes = self.sizes.axes as usize;
        let products = self.frequencies[at * axes..][..axes].iter().zip(position);
        products.fold(0, |sum, (f, n)| sum.wrapping_add(f.wrapping_mul(n)))
    }

    /// Noise `[h, d, J, r]` with the gate's as last row, from Z `[h, d, 2K, r]` and ε `[h, d, r]`.
    ///
    /// Errors: [`Error::Data`] for other sizes, and an ε without a gate or the reverse.
    pub fn join_noise(&self, z: &[f64], epsilon: Option<&[f64]>, realizations: u32) -> Result<Vec<f64>> {
        noise::check_sizes(self.sizes.heads, self.sizes.width, realizations)?;
        let (h, d) = (("h", self.sizes.heads.into()), ("d", self.sizes.width.into()));
        let r = ("r", u64::from(realizations));
        check_len("noise of sinusoids", &[h, d, ("rows", 2 * u64::from(self.sizes.sinusoids)), r], z.len())?;
        let Some((_, epsilon)) = with_gate(self.gates.as_deref(), epsilon)? else { return Ok(z.to_vec()) };
        check_len("gate noise", &[h, d, r], epsilon.len())?;
        let row = realizations as usize;
        let blocks = z.chunks(2 * self.sizes.sinusoids as usize * row).zip(epsilon.chunks(row));
        Ok(blocks.flat_map(|(z, e)| z.iter().chain(e).copied()).collect())
    }

    /// Codes from the table, gate included, in f64 (the truth of the table) or in f32 (a plain evaluation); noise `[h, d, J, r]`.
    ///
    /// Errors: [`Error::Value`] for positions of other axes; [`Error::Data`] for noise of another size, and a table whose lists are not
    /// of its sizes.
    pub fn codes<T: Real>(&self, positions: &Positions, noise: &[T], realizations: u32) -> Result<Codes<T>> {
        self.check()?;
        check_axes(self.sizes, positions)?;
        let gains: Vec<T> = self.gains.iter().map(|&g| T::of(g.into())).collect();
        let gate = self.gates.as_ref().map(|e| e.iter().map(|&e| T::of(e.into())).collect::<Vec<T>>());
        let sources = Sources { sizes: self.sizes, rows: self.rows(), gains: &gains, gate: gate.as_deref() };
        codes(&sources, positions, noise, realizations, |position, at| {
            let key = self.phase(at, position);
            let (cosine_q, sine_q) = phase::cos_sin(key.wrapping_add(self.phases[at]));
            let (cosine_k, sine_k) = phase::cos_sin(key);
            [cosine_q, sine_q, cosine_k, sine_k]
        })
    }
}

pub(super) fn check_axes(sizes: SineSizes, positions: &Positions) -> Result<()> {
    if positions.axes() == sizes.axes as usize {
        return Ok(());
    }
    Err(Error::value(
        "positions of a sinusoidal code",
        format!("{}, as its frequencies have", crate::words::counted(sizes.axes, "axis", "axes")),
        positions.axes(),
        "give positions on a grid of as many axes as the code",
    ))
}

struct Sources<'a, T> {
    sizes: SineSizes,
    /// Rows of the noise, the gate's included.
    rows: u32,
    gains: &'a [T],
    gate: Option<&'a [T]>,
}

/// Codes from gains, noise and what gives cos α, sin α, cos β, sin β of a position and a sinusoid.
fn codes<T: Real>(
    sources: &Sources<'_, T>,
    positions: &Positions,
    noise: &[T],
    realizations: u32,
    waves: impl Fn([u32; 3], usize) -> [T; 4] + Sync,
) -> Result<Codes<T>> {
    let SineSizes { heads, width, sinusoids, .. } = sources.sizes;
    noise::check_sizes(heads, width, realizations)?;
    let shape =
        [("h", heads.into()), ("d", width.into()), ("rows", sources.rows.into()), ("r", realizations.into())];
    check_len("noise of sinusoids", &shape, noise.len())?;
    let mut codes = Codes::zeros(positions, heads, width, realizations)?;
    let (row, stride, s) = (realizations as usize, codes.stride(), T::of(scale(realizations, width)));
    let (k, rows) = (sinusoids as usize, sources.rows as usize);
    let tokens = codes.q.par_chunks_mut(stride).zip(codes.k.par_chunks_mut(stride)).enumerate();
    tokens.for_each(|(n, (q, key))| {
        let position = positions.at(n);
        for (channel, (q, key)) in q.chunks_mut(row).zip(key.chunks_mut(row)).enumerate() {
            let block = &noise[channel * rows * row..][..rows * row];
            for j in 0..k {
                let at = channel * k + j;
                let [cosine_q, sine_q, cosine_k, sine_k] = waves(position, at).map(|w| w * sources.gains[at]);
                let (even, odd) = block[2 * j * row..][..2 * row].split_at(row);
                for r in 0..row {
                    q[r] += cosine_q * even[r] + sine_q * odd[r];
                    key[r] += cosine_k * even[r] + sine_k * odd[r];
                }
            }
            if let Some(gate) = sources.gate {
                for ((q, key), &e) in q.iter_mut().zip(&mut *key).zip(&block[2 * k * row..]) {
                    *q += gate[channel] * e;
                    *key += gate[channel] * e;
                }
            }
            for (q, key) in q.iter_mut().zip(key) {
                *q *= s;
                *key *= s;
            }
        }
    });
    Ok(codes)
}
