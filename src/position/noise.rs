//! Noise of position codes: what every layer, head and device sees is a function of the seed and of the number's place.
//!
//! A code multiplies its noise with parameters, and the covariance of the products is the template; only zero mean, unit variance
//! and independence of the noise matter for that. So there are three [`Mode`]s: Gaussian numbers from an integer table, the same to
//! the bit on every backend; Gaussian numbers by Box and Muller, as published; and signs, which a word holds 32 of. The place of a
//! number knows neither how many tokens nor how many realisations there are: more of either only adds numbers
//! (method: stochastic positional encoding, 4.1).

use super::{Positions, count};
use crate::error::{Error, Result};
use crate::random::{EVALUATION, Place, Purpose, box_muller, gaussian, philox, rademacher};
use rayon::prelude::*;

/// Most channels, heads · width: what a counter has bits for.
pub const MOST_CHANNELS: u32 = 1 << 20;
/// Most realisations R.
pub const MOST_REALIZATIONS: u32 = 1 << 14;
/// Most layers that draw noise of their own: 0 to 65 534. A counter has 16 bits for the layer, and the number after the last of them,
/// 65 535 or 0xFFFF, stands for the noise that all share ([`Layer::Shared`]): no layer has it.
pub const MOST_LAYERS: u16 = u16::MAX;

/// Distribution of the noise, always of mean 0 and variance 1.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Mode {
    /// Gaussian by the integer table of [`crate::random::table`]: equal bits on every backend.
    #[default]
    Icdf,
    /// Gaussian by Box and Muller, as published; the last bits depend on the platform's logarithm and sine.
    BoxMuller,
    /// 1 or −1: the same covariances and the same variance of a logit; equal bits on every backend.
    Rademacher,
}

impl Mode {
    /// All modes with the names that commands use.
    pub const ALL: [(&str, Self); 3] =
        [("icdf", Self::Icdf), ("box-muller", Self::BoxMuller), ("rademacher", Self::Rademacher)];

    /// The mode's number in the parameters of a shader: its place in [`Self::ALL`].
    pub fn number(self) -> u32 {
        self as u32
    }

    /// Four numbers from the four words of a counter.
    pub fn numbers(self, words: [u32; 4]) -> [f64; 4] {
        match self {
            Self::Icdf => words.map(|w| f64::from(gaussian(w))),
            Self::BoxMuller => box_muller(words),
            Self::Rademacher => words.map(|w| f64::from(rademacher(w))),
        }
    }
}

/// Which layer's noise: bits 8 to 23 of a counter's last word.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Layer {
    /// One noise for all layers: all 16 bits set, 0xFFFF.
    #[default]
    Shared,
    /// A noise of this layer's own, below [`MOST_LAYERS`]: its number, which may be any but 0xFFFF.
    Own(u16),
}

impl Layer {
    /// The 16 bits of a counter that name the layer: its number, or all ones for what is shared.
    ///
    /// Errors: [`Error::Value`] for the layer whose number is all ones.
    pub fn bits(self) -> Result<u32> {
        match self {
            Self::Shared => Ok(MOST_LAYERS.into()),
            Self::Own(layer) if layer < MOST_LAYERS => Ok(layer.into()),
            Self::Own(layer) => Err(Error::value(
                "layer of position noise",
                format!("below {MOST_LAYERS}"),
                layer,
                "use another seed for further layers",
            )),
        }
    }
}

/// Which noise to draw.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Noise {
    /// Seed.
    pub seed: u64,
    /// Training step that redraws it; [`EVALUATION`] outside training.
    pub step: u32,
    /// Number of the draw within a step, below 256, for averages over draws.
    pub draw: u32,
    /// Layer of the code's noise.
    pub layer: Layer,
    /// Layer of the gate's noise: layers may share a code and yet draw what their gates add.
    pub gate_layer: Layer,
    /// Whether all heads see the noise of head 0.
    pub shared_by_heads: bool,
    /// Distribution.
    pub mode: Mode,
}

impl Default for Noise {
    /// Seed 0 outside training, shared by all layers, a noise for each head.
    fn default() -> Self {
        Self {
            seed: 0,
            step: EVALUATION,
            draw: 0,
            layer: Layer::Shared,
            gate_layer: Layer::Shared,
            shared_by_heads: false,
            mode: Mode::Icdf,
        }
    }
}

impl Noise {
    /// The place of a number; the counter follows from it.
    fn place(&self, purpose: Purpose, index: u32, channel: u32, lane: u32) -> Result<Place> {
        let layer = if purpose == Purpose::GateNoise { self.gate_layer } else { self.layer }.bits()?;
        if self.draw >= 1 << 8 {
            let remedy = "use another seed for further draws";
            return Err(Error::value("draw of position noise", "below 256", self.draw, remedy));
        }
        Ok(Place { index, channel, lane, step: self.step, purpose, layer, stream: self.draw })
    }

    /// Philox key: the seed's low and high word.
    pub fn key(&self) -> [u32; 2] {
        [self.seed as u32, (self.seed >> 32) as u32]
    }

    /// The last two words of every counter, step and purpose · 2²⁴ | layer · 2⁸ | draw, as shaders are given them.
    ///
    /// Errors: [`Error::Value`] for a layer or a draw beyond its bits.
    pub fn counter_tail(&self, purpose: Purpose) -> Result<[u32; 2]> {
        let counter = self.place(purpose, 0, 0, 0)?.counter()?;
        Ok([counter[2], counter[3]])
    }

    /// The number at row or padded position `index` of channel head · width + dimension in realisation `lane`.
    ///
    /// Errors: [`Error::Value`] for a part beyond its bits of the counter.
    pub fn number(&self, purpose: Purpose, index: u32, channel: u32, lane: u32) -> Result<f64> {
        let words = philox(self.place(purpose, index, channel, lane)?.counter()?, self.seed);
        Ok(self.mode.numbers(words)[lane as usize % 4])
    }

    /// `[h, d, index, r]`: the numbers of every channel at the given indices.
    fn fill(
        &self,
        purpose: Purpose,
        [heads, width, realizations]: [u32; 3],
        indices: &[u32],
    ) -> Result<Vec<f64>> {
        check_sizes(heads, width, realizations)?;
        // Every part of every counter is in range if the last one's are.
        self.place(purpose, 0, heads * width - 1, realizations - 1)?.counter()?;
        let total = count(
            "noise",
            &[
                ("heads", heads.into()),
                ("width", width.into()),
                ("rows", indices.len() as u64),
                ("realisations", realizations.into()),
            ],
        )?;
        let mut out = vec![0.0; total];
        let row = realizations as usize;
        out.par_chunks_mut(row * indices.len()).enumerate().try_for_each(|(channel, block)| {
            let head_free = channel as u32 % width;
            let channel = if self.shared_by_heads { head_free } else { channel as u32 };
            for (line, &index) in block.chunks_mut(row).zip(indices) {
                for (four, lanes) in line.chunks_mut(4).enumerate() {
                    let place = self.place(purpose, index, channel, 4 * four as u32)?;
                    let numbers = self.mode.numbers(philox(place.counter()?, self.seed));
                    lanes.copy_from_slice(&numbers[..lanes.len()]);
                }
            }
            Ok(())
        })?;
        Ok(out)
    }

    /// Z `[h, d, 2K, r]`: one row for each cosine and sine, cosines at even rows.
    ///
    /// Errors: [`Error::Value`] for a size of 0, or beyond the bits of a counter.
    pub fn sine(&self, heads: u32, width: u32, sinusoids: u32, realizations: u32) -> Result<Vec<f64>> {
        let rows: Vec<u32> = (0..sine_rows(sinusoids)?).collect();
        self.fill(Purpose::SineNoise, [heads, width, realizations], &rows)
    }

    /// ε `[h, d, r]`: what a gate adds to queries and keys alike at every position. `index` is 2K for sinusoids and 0 for filters.
    ///
    /// Errors: as [`Self::sine`].
    pub fn gate(&self, heads: u32, width: u32, index: u32, realizations: u32) -> Result<Vec<f64>> {
        self.fill(Purpose::GateNoise, [heads, width, realizations], &[index])
    }

    /// z `[h, d, u₁, …, r]`: the noise under filters of `taps` that slide over all tokens, nₐ + Pₐ − 1 samples along each axis from
    /// the positions' origin on. A sample's index is its padded position u, packed by [`pack`].
    ///
    /// Errors: as [`Self::sine`]; positions beyond what [`pack`] can hold.
    pub fn conv(
        &self,
        heads: u32,
        width: u32,
        positions: &Positions,
        taps: &[u32],
        realizations: u32,
    ) -> Result<Vec<f64>> {
        let extent = positions.padded(taps)?;
        let points = extent.tokens();
        count("noise", &[("samples", points as u64), ("realisations", realizations.into())])?;
        let indices: Result<Vec<u32>> = (0..points).map(|i| pack(&extent.at(i)[..extent.axes()])).collect();
        self.fill(Purpose::ConvNoise, [heads, width, realizations], &indices?)
    }
}

/// Most sinusoids of a dimension: no device has room for one head's waves of more, and parameters alone would fill memory.
pub const MOST_SINUSOIDS: u32 = 1 << 16;

/// Rows 2K of the noise of K sinusoids.
///
/// Errors: [`Error::Value`] for none, or more than [`MOST_SINUSOIDS`].
pub(super) fn sine_rows(sinusoids: u32) -> Result<u32> {
    if (1..=MOST_SINUSOIDS).contains(&sinusoids) {
        return Ok(2 * sinusoids);
    }
    Err(Error::value(
        "sinusoids K of a position code",
        format!("1 to {MOST_SINUSOIDS}"),
        sinusoids,
        "use 1 to 10, as the published codes have",
    ))
}

/// Refuses numbers of heads, dimensions and realisations that are 0 or beyond the bits of a counter.
///
/// Errors: [`Error::Value`] naming the first.
pub fn check_sizes(heads: u32, width: u32, realizations: u32) -> Result<()> {
    check_channels(heads, width)?;
    if (1..=MOST_REALIZATIONS).contains(&realizations) {
        return Ok(());
    }
    Err(Error::value(
        "realisations R of a position code",
        format!("1 to {MOST_REALIZATIONS}"),
        realizations,
        "use 32 to 256, as the published codes have; average draws of several seeds for more",
    ))
}

/// The same for heads and dimensions alone.
///
/// Errors: [`Error::Value`] naming the first.
pub fn check_channels(heads: u32, width: u32) -> Result<()> {
    for (name, size) in [("heads H", heads), ("dimensions D", width)] {
        if size == 0 {
            let what = format!("{name} of a position code");
            return Err(Error::value(what, "at least 1", size, "use 1 or more: as many as queries have"));
        }
    }
    if u64::from(heads) * u64::from(width) > MOST_CHANNELS.into() {
        return Err(Error::value(
            "heads H · dimensions D of a position code",
            format!("at most {MOST_CHANNELS}"),
            format!("{heads} · {width}"),
            "use fewer: counters of the noise have no more bits; layers have a noise of their own each",
        ));
    }
    Ok(())
}

/// Bits that each axis of a padded position has in a counter's index, slowest axis first: all 32 on a line, 16 + 16 on a picture (as
/// the method has it), and 10 + 11 + 11 on a volume, of which the first axis is usually time: 1024 × 2048 × 2048.
pub const fn packed_bits(axes: usize) -> [u32; 3] {
    match axes {
        1 => [32, 0, 0],
        2 => [16, 16, 0],
        _ => [10, 11, 11],
    }
}

/// The index of a padded position of one to three axes, slowest first.
///
/// Errors: [`Error::Value`] for a coordinate that does not fit its bits of [`packed_bits`], and for no or too many axes.
pub fn pack(position: &[u32]) -> Result<u32> {
    if position.is_empty() || position.len() > 3 {
        let got = format!("{position:?}");
        return Err(Error::value("position under a filter", "one to three axes", got, "join axes"));
    }
    let bits = packed_bits(position.len());
    let mut index = 0_u64;
    for (axis, (&u, bits)) in position.iter().zip(bits).enumerate() {
        if u64::from(u) >> bits != 0 {
            return Err(Error::value(
                format!("position + tap along axis {} of {}", axis + 1, position.len()),
                format!("below 2^{bits}, the bits that a counter has for it"),
                u,
                "use fewer tokens along this axis, or a code of fewer axes",
            ));
        }
        index = index << bits | u64::from(u);
    }
    Ok(index as u32)
}
