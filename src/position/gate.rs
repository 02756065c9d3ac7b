//! Gates: a dimension may ignore positions, in part or wholly.
//!
//! γ = sigmoid(γ̃) for every head and dimension, and with one more noise ε, the same for queries and keys and for all positions,
//!
//! q̃ = √(1−γ) q̄ + √γ s ε,  k̃ = √(1−γ) k̄ + √γ s ε,  so that P̃(τ) = (1−γ) P(τ) + γ
//!
//! (method: 1.4). In kernels √(1−γ) goes into gains or taps and √γ ε is one more row of the noise.

use super::{Codes, check_finite, check_len, noise, scale, sigmoid};
use crate::error::{Error, Result};
use crate::kernel::reference::Real;
use crate::random::{Place, Purpose};

/// What γ = sigmoid(γ̃) is the share of; published programs disagree.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Meaning {
    /// γ is the share that ignores positions: the paper, and the PyTorch program.
    #[default]
    Paper,
    /// γ is the share that knows positions: the JAX program. The same γ̃ stands here with the other sign.
    PositionalShare,
}

impl Meaning {
    /// Both with the names that commands use.
    pub const ALL: [(&str, Self); 2] = [("paper", Self::Paper), ("jax", Self::PositionalShare)];
}

/// Gates of all heads and dimensions.
#[derive(Clone, Debug, PartialEq)]
pub struct Gate {
    heads: u32,
    width: u32,
    /// γ̃ in the paper's meaning.
    raw: Vec<f64>,
}

impl Gate {
    /// Gates from raw parameters γ̃ `[h, d]` in the given meaning.
    ///
    /// Errors: [`Error::Value`] for sizes of 0 or too many channels, [`Error::Data`] for another number of values and for NaN or
    /// infinities.
    pub fn new(heads: u32, width: u32, raw: Vec<f64>, meaning: Meaning) -> Result<Self> {
        noise::check_channels(heads, width)?;
        check_len("gate", &[("h", heads.into()), ("d", width.into())], raw.len())?;
        check_finite("gate", &raw)?;
        let raw = match meaning {
            Meaning::Paper => raw,
            Meaning::PositionalShare => raw.into_iter().map(|x| -x).collect(),
        };
        Ok(Self { heads, width, raw })
    }

    /// Gates as training begins with them: γ̃ from N(0, 1).
    ///
    /// Errors: [`Error::Value`] for sizes of 0 or too many channels.
    pub fn init(heads: u32, width: u32, seed: u64) -> Result<Self> {
        noise::check_channels(heads, width)?;
        let drawn: Result<Vec<f64>> = (0..heads * width)
            .map(|channel| {
                let place = Place { channel, stream: GATE_STREAM, ..Place::of(Purpose::Parameters) };
                place.gaussian(seed).map(f64::from)
            })
            .collect();
        Self::new(heads, width, drawn?, Meaning::Paper)
    }

    /// Heads H.
    pub fn heads(&self) -> u32 {
        self.heads
    }

    /// Dimensions D.
    pub fn width(&self) -> u32 {
        self.width
    }

    /// γ̃ `[h, d]` in the given meaning.
    pub fn raw(&self, meaning: Meaning) -> Vec<f64> {
        match meaning {
            Meaning::Paper => self.raw.clone(),
            Meaning::PositionalShare => self.raw.iter().map(|x| -x).collect(),
        }
    }

    /// γ of a head's dimension: its share that ignores positions.
    ///
    /// Panics, as slices do, for a head or dimension that it does not have.
    pub fn fraction(&self, head: u32, dimension: u32) -> f64 {
        sigmoid(self.raw[(head * self.width + dimension) as usize])
    }

    /// c = √(1−γ), which multiplies the code, and e = √γ, which multiplies ε; 1 − γ keeps its digits where γ is near 1.
    ///
    /// Panics, as slices do, for a head or dimension that it does not have.
    pub fn factors(&self, head: u32, dimension: u32) -> [f64; 2] {
        factors(self.raw[(head * self.width + dimension) as usize])
    }

    /// Codes as they leave the gate; `epsilon` `[h, d, r]` has variance 1.
    ///
    /// Errors: [`Error::Value`] for codes of other heads or dimensions, [`Error::Data`] for ε of another size.
    pub fn apply<T: Real>(&self, codes: &mut Codes<T>, epsilon: &[f64]) -> Result<()> {
        codes.check()?;
        let shape = [("h", self.heads.into()), ("d", self.width.into()), ("r", codes.realizations.into())];
        check_len("gate noise", &shape, epsilon.len())?;
        gate_factors(Some(self), codes.heads, codes.width)?;
        let s = scale(codes.realizations, self.width);
        let row = codes.realizations as usize;
        let factors: Vec<[f64; 2]> = self.raw.iter().map(|raw| factors(*raw)).collect();
        for side in [&mut codes.q, &mut codes.k] {
            for (at, line) in side.chunks_mut(row).enumerate() {
                let channel = at % factors.len();
                let [c, e] = factors[channel];
                let added = &epsilon[channel * row..][..row];
                for (x, noise) in line.iter_mut().zip(added) {
                    *x = T::of(c) * *x + T::of(e * s * noise);
                }
            }
        }
        Ok(())
    }
}

/// c and e of every channel `[h, d]` of a code; 1 and 0 without a gate.
///
/// Errors: [`Error::Value`] for a gate of other heads or dimensions.
pub(super) fn gate_factors(gate: Option<&Gate>, heads: u32, width: u32) -> Result<Vec<[f64; 2]>> {
    let Some(gate) = gate else { return Ok(vec![[1.0, 0.0]; (heads * width) as usize]) };
    if (gate.heads, gate.width) != (heads, width) {
        return Err(Error::value(
            "gate of a position code [H, D]",
            format!("[{heads}, {width}], as its code"),
            format!("[{}, {}]", gate.heads, gate.width),
            "load both from the same model",
        ));
    }
    Ok(gate.raw.iter().map(|raw| factors(*raw)).collect())
}

/// Gains of a gate with its noise, or neither.
///
/// Errors: [`Error::Data`] for one without the other.
pub(super) fn with_gate<'a, T>(
    gates: Option<&'a [f32]>,
    epsilon: Option<&'a [T]>,
) -> Result<Option<(&'a [f32], &'a [T])>> {
    let got = match (gates, epsilon) {
        (Some(gates), Some(epsilon)) => return Ok(Some((gates, epsilon))),
        (None, None) => return Ok(None),
        (Some(_), None) => "a gate without noise",
        (None, Some(_)) => "noise without a gate",
    };
    let expected = "noise if and only if the code has a gate".to_owned();
    Err(Error::Data { tensor: "gate noise".into(), expected, got: got.into() })
}

/// √(1−γ) and √γ.
fn factors(raw: f64) -> [f64; 2] {
    [sigmoid(-raw).sqrt(), sigmoid(raw).sqrt()]
}

/// Streams of the numbers that parameters begin with.
pub(super) const FREQUENCY_STREAM: u32 = 0;
pub(super) const PHASE_STREAM: u32 = 1;
pub(super) const GAIN_STREAM: u32 = 2;
pub(super) const QUERY_TAP_STREAM: u32 = 3;
pub(super) const KEY_TAP_STREAM: u32 = 4;
pub(super) const GATE_STREAM: u32 = 5;
