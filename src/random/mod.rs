//! Random numbers from counters: every number is a function of a seed and of its place, so every backend, batch size and order
//! of evaluation sees the same ones.
//!
//! The generator is Philox4x32-10 (Salmon et al. 2011): four words from a [`Place`] (the counter) and a seed (the key). Gaussian
//! numbers come from a table of integers ([`table`]) and are the same to the bit everywhere; Box–Muller and signs are
//! alternatives. Only the CPU side stands here; shaders will be given the same table.

mod projection;
pub mod table;

use crate::error::{Error, Result};
pub use projection::{Norms, Projection};

/// What a number is for; the last byte of a counter, so that two uses never share one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Purpose {
    /// Noise of sinusoidal position codes.
    SineNoise = 1,
    /// Noise of convolutional position codes.
    ConvNoise = 2,
    /// Noise of gates.
    GateNoise = 3,
    /// Random projections of feature maps.
    Projection = 4,
    /// Dropout.
    Dropout = 5,
    /// Made data.
    Data = 8,
    /// Walks over networks: index = node, channel = walk, lane = draw of the walk, stream = set of walks.
    Walk = 9,
    /// Parameters as training begins with them: index = place within a channel, stream = which parameter.
    Parameters = 10,
}

/// The step of draws that do not belong to a training step.
pub const EVALUATION: u32 = u32::MAX;

/// Where a number stands; see [`counter`](Self::counter) for the layout.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// Row, position or item.
    pub index: u32,
    /// Head · width + dimension, below 2²⁰.
    pub channel: u32,
    /// Realisation or column, below 16 384; four neighbours share a counter.
    pub lane: u32,
    /// Training step, or [`EVALUATION`].
    pub step: u32,
    /// What it is for.
    pub purpose: Purpose,
    /// Layer, below 65 536.
    pub layer: u32,
    /// A stream within the purpose, below 256.
    pub stream: u32,
}

impl Place {
    /// Numbers of the given purpose from the beginning, outside training.
    pub fn of(purpose: Purpose) -> Self {
        Self { index: 0, channel: 0, lane: 0, step: EVALUATION, purpose, layer: 0, stream: 0 }
    }

    /// The counter: index; channel | (lane / 4) · 2²⁰; step; purpose · 2²⁴ | layer · 2⁸ | stream. The number is word lane mod 4.
    ///
    /// Errors: [`Error::Value`] for a part beyond its bits, which would run into its neighbour.
    pub fn counter(&self) -> Result<[u32; 4]> {
        let parts = [
            ("channel", self.channel, 1 << 20),
            ("lane", self.lane, 1 << 14),
            ("layer", self.layer, 1 << 16),
            ("stream", self.stream, 1 << 8),
        ];
        for (name, got, bound) in parts {
            if got >= bound {
                return Err(Error::value(
                    format!("{name} of a random number's place"),
                    format!("less than {bound}"),
                    got,
                    "use a smaller problem or another seed for the rest",
                ));
            }
        }
        let last = (self.purpose as u32) << 24 | self.layer << 8 | self.stream;
        Ok([self.index, self.channel | (self.lane / 4) << 20, self.step, last])
    }

    /// The word at this place.
    ///
    /// Errors: as [`Self::counter`].
    pub fn word(&self, seed: u64) -> Result<u32> {
        Ok(philox(self.counter()?, seed)[self.lane as usize % 4])
    }

    /// The Gaussian number at this place.
    ///
    /// Errors: as [`Self::counter`].
    pub fn gaussian(&self, seed: u64) -> Result<f32> {
        self.word(seed).map(gaussian)
    }
}

/// Philox4x32-10: four words from a counter; the key is the seed's low and high word.
pub fn philox(counter: [u32; 4], seed: u64) -> [u32; 4] {
    const FACTORS: [u32; 2] = [0xd251_1f53, 0xcd9e_8d57];
    // The golden ratio and √3 − 1.
    const STEPS: [u32; 2] = [0x9e37_79b9, 0xbb67_ae85];
    let wide = |factor: u32, word: u32| {
        let product = u64::from(factor) * u64::from(word);
        ((product >> 32) as u32, product as u32)
    };
    let [mut a, mut b, mut c, mut d] = counter;
    let mut key = [seed as u32, (seed >> 32) as u32];
    for _ in 0..10 {
        let (high_a, low_a) = wide(FACTORS[0], a);
        let (high_c, low_c) = wide(FACTORS[1], c);
        [a, b, c, d] = [high_c ^ b ^ key[0], low_c, high_a ^ d ^ key[1], low_a];
        key = [key[0].wrapping_add(STEPS[0]), key[1].wrapping_add(STEPS[1])];
    }
    [a, b, c, d]
}

/// A Gaussian number in units of 2⁻²⁰ from one word: the sign is its highest bit, the magnitude interpolated in [`table`].
pub fn gaussian_units(word: u32) -> i32 {
    let v = word & 0x7fff_ffff;
    // Leading zeros of 31 bits; 31 for 0.
    let zeros = v.leading_zeros() - 1;
    let rest = (v << zeros) & 0x3fff_ffff;
    let (row, piece) = (zeros as usize, (rest >> 27) as usize);
    let fraction = (rest >> 14 & 0x1fff).cast_signed();
    let magnitude = table::START[row][piece] + ((table::SLOPE[row][piece] * fraction) >> 13);
    if word >> 31 == 0 { magnitude } else { -magnitude }
}

/// A Gaussian number from one word: variance 1, |x| ≤ 6.34, exact in f32.
pub fn gaussian(word: u32) -> f32 {
    gaussian_units(word) as f32 / (1 << 20) as f32
}

/// Four Gaussian numbers by Box and Muller from the four words of a counter. They depend on the platform's logarithm and sine in
/// their last bits.
pub fn box_muller(words: [u32; 4]) -> [f64; 4] {
    let pair = |a: u32, b: u32| {
        let unit = f64::from(1_u32 << 24).recip();
        let radius = (-2.0 * (f64::from((a >> 8) + 1) * unit).ln()).sqrt();
        let (sine, cosine) = (std::f64::consts::TAU * f64::from(b >> 8) * unit).sin_cos();
        (radius * cosine, radius * sine)
    };
    let ((x, y), (z, w)) = (pair(words[0], words[1]), pair(words[2], words[3]));
    [x, y, z, w]
}

/// 1 or −1 from a word's lowest bit (0 gives 1).
pub fn rademacher(word: u32) -> f32 {
    if word & 1 == 0 { 1.0 } else { -1.0 }
}
