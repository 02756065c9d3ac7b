//! What the view of position codes has set, and the code that follows from it: kind and sizes, gate and gain, which noise. All of it
//! is saved in sessions and goes through undo.

use crate::error::{Error, Result};
use crate::position::gate::{Gate, Meaning};
use crate::position::sine::SineSizes;
use crate::position::spec::{EncodingSpec, Parameters};
use crate::position::{Code, ConvCode, Encoding, Layer, Mode, Noise, SineCode};
use serde::{Deserialize, Serialize};
use std::ops::RangeInclusive;

/// What numbers may be.
pub mod limits {
    use std::ops::RangeInclusive;

    /// Sinusoids of a dimension.
    pub const SINUSOIDS: RangeInclusive<u32> = 1..=64;
    /// Taps of a filter along each axis.
    pub const TAPS: RangeInclusive<u32> = 1..=32;
    /// Realisations, powers of two.
    pub const REALIZATIONS: RangeInclusive<u32> = 16..=4096;
    /// Bias of frequencies.
    pub const BIAS: RangeInclusive<f64> = -12.0..=12.0;
    /// Share of a gate; all of it would take a raw parameter that is infinite.
    pub const GATE: RangeInclusive<f64> = 0.0..=0.999;
    /// Factor on gains and taps.
    pub const GAIN: RangeInclusive<f64> = 0.0..=100.0;
}

/// Dimensions D of queries and keys: those of a picture's features.
pub const WIDTH: u32 = 32;

/// Kinds of codes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Kind {
    /// Sums of sinusoids.
    #[default]
    Sine,
    /// Noise under a pair of filters.
    Conv,
}

/// What positions are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Axes {
    /// Row and column of a token.
    #[default]
    Picture,
    /// Place of a token in reading order.
    Line,
}

impl Axes {
    /// Number of axes.
    pub fn count(self) -> u32 {
        match self {
            Self::Picture => 2,
            Self::Line => 1,
        }
    }
}

/// How products become weights.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Kernel {
    /// e^(q·k/√R) over its sum.
    #[default]
    Softmax,
    /// φ(q)·φ(k) over its sum, φ(x) = elu(x) + 1.
    Elu,
    /// φ(q)·φ(k) over its sum, φ(x) = max(x, 0).
    Relu,
}

/// Settings of the view of position codes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct PositionSettings {
    /// Positions on one axis or two.
    pub axes: Axes,
    /// Kind of code.
    pub kind: Kind,
    /// Sinusoids K of every dimension.
    pub sinusoids: u32,
    /// Taps P along each axis.
    pub taps: u32,
    /// Realisations R.
    pub realizations: u32,
    /// Bias of raw frequencies.
    pub bias: f64,
    /// Share γ of every dimension that ignores positions.
    pub gate: f64,
    /// Factor on gains or taps: the template grows with its square.
    pub gain: f64,
    /// Seed of frequencies, phases and gains, or of taps.
    pub template_seed: u32,
    /// Seed of the noise.
    pub noise_seed: u32,
    /// Distribution of the noise.
    #[serde(with = "mode_text")]
    pub noise: Mode,
    /// Head that is shown, from 0.
    pub head: u32,
    /// Dimension whose template is shown, from 0.
    pub dimension: u32,
    /// How products become weights.
    pub kernel: Kernel,
}

/// Bias of frequencies at first: half of the periods are below 26 tokens, about as long as a picture.
pub const BIAS: f64 = -2.5;

impl Default for PositionSettings {
    fn default() -> Self {
        Self {
            axes: Axes::Picture,
            kind: Kind::Sine,
            sinusoids: 5,
            taps: 8,
            realizations: 64,
            bias: BIAS,
            gate: 0.0,
            gain: 1.0,
            template_seed: 1,
            noise_seed: 1,
            noise: Mode::Icdf,
            head: 0,
            dimension: 0,
            kernel: Kernel::Softmax,
        }
    }
}

impl PositionSettings {
    /// The code of the shown head, all its dimensions, or of the shown dimension alone. It is of one head: its parameters are those
    /// of the head that is shown.
    ///
    /// Errors: numbers out of range.
    pub fn encoding(&self, all: bool) -> Result<Encoding> {
        self.check()?;
        let heads = self.head.saturating_add(1);
        let first = (u64::from(self.head) * u64::from(WIDTH)) as usize;
        let (first, width) = if all { (first, WIDTH) } else { (first + self.dimension as usize, 1) };
        let code: Code = match self.kind {
            Kind::Sine => {
                let axes = self.axes.count();
                let sizes = SineSizes { heads, width: WIDTH, sinusoids: self.sinusoids, axes };
                let full = SineCode::init(sizes, self.bias, self.template_seed.into())?;
                let of = |list: &[f64], each: usize| -> Vec<f64> {
                    list.chunks(each).skip(first).take(width as usize).flatten().copied().collect()
                };
                let k = self.sinusoids as usize;
                let gains = of(full.gains(), k).into_iter().map(|g| g * self.gain).collect();
                let frequencies = of(full.frequencies(), k * axes as usize);
                let sizes = SineSizes { heads: 1, width, ..sizes };
                SineCode::new(sizes, frequencies, of(full.phases(), k), gains)?.into()
            }
            Kind::Conv => {
                let taps = vec![self.taps; self.axes.count() as usize];
                let full = ConvCode::init(heads, WIDTH, &taps, self.template_seed.into())?;
                let [q, k] = full.filters().map(|list| -> Vec<f64> {
                    let channels = list.chunks(full.taps_in_all()).skip(first).take(width as usize);
                    channels.flatten().map(|w| w * self.gain).collect()
                });
                ConvCode::new(1, width, &taps, q, k)?.into()
            }
        };
        let gate = match self.gate {
            0.0 => None,
            share => {
                let raw = (share / (1.0 - share)).ln();
                Some(Gate::new(1, width, vec![raw; width as usize], Meaning::Paper)?)
            }
        };
        Encoding::new(code, gate)
    }

    /// Refuses what neither the panel nor a session can hold, before anything is made that takes long.
    fn check(&self) -> Result<()> {
        let whole = |range: RangeInclusive<u32>| f64::from(*range.start())..=f64::from(*range.end());
        let all = [
            ("sinusoids K", f64::from(self.sinusoids), whole(limits::SINUSOIDS)),
            ("taps P", f64::from(self.taps), whole(limits::TAPS)),
            ("realisations R", f64::from(self.realizations), whole(limits::REALIZATIONS)),
            ("bias of frequencies", self.bias, limits::BIAS),
            ("gate γ", self.gate, limits::GATE),
            ("gain", self.gain, limits::GAIN),
            ("head", f64::from(self.head), 0.0..=f64::from(super::settings::limits::HEADS.end() - 1)),
            ("dimension", f64::from(self.dimension), 0.0..=f64::from(WIDTH - 1)),
        ];
        match all.into_iter().find(|(_, value, range)| !range.contains(value)) {
            None => Ok(()),
            Some((what, got, range)) => Err(Error::value(
                format!("{what} of the position code"),
                format!("{} to {}", range.start(), range.end()),
                got,
                "set it in the panel",
            )),
        }
    }

    /// The code of all heads and its noise in the words of the command line: the shown head has the parameters and the noise that it has
    /// here.
    ///
    /// Errors: what those words cannot say, in one line for the user.
    pub fn spec(&self) -> std::result::Result<EncodingSpec, String> {
        if self.axes == Axes::Line {
            let why =
                "the command line has positions of rows and columns only: choose Picture for the positions";
            return Err(why.into());
        }
        if self.gain != 1.0 {
            return Err("the command line has no gain: set the gain to 1".into());
        }
        let parameters = match self.kind {
            Kind::Sine => Parameters::Sine { sinusoids: self.sinusoids, bias: self.bias },
            Kind::Conv => Parameters::Conv { taps: Some(vec![self.taps; 2]) },
        };
        Ok(EncodingSpec {
            parameters,
            realizations: self.realizations,
            gate: Some(self.gate).filter(|gate| *gate != 0.0),
            seed: self.noise_seed.into(),
            init: self.template_seed.into(),
            mode: self.noise,
            shared_heads: true,
        })
    }

    /// The noise of a draw, for all dimensions of a head, or for the shown one alone. Heads share it.
    pub fn noise(&self, all: bool, draw: u32) -> Noise {
        // The noise of a dimension by itself stands in a layer of its own: it has the place of dimension 0 in its counters.
        let layer = if all { Layer::Shared } else { Layer::Own(self.dimension as u16) };
        let seed = self.noise_seed.into();
        Noise {
            seed,
            draw,
            layer,
            gate_layer: layer,
            shared_by_heads: true,
            mode: self.noise,
            ..Noise::default()
        }
    }
}

/// Distributions of noise in sessions: the names that commands take.
mod mode_text {
    use super::Mode;
    use serde::de::Error as _;
    use serde::{Deserialize as _, Deserializer, Serializer};

    pub(super) fn serialize<S: Serializer>(mode: &Mode, to: S) -> Result<S::Ok, S::Error> {
        let name = Mode::ALL.iter().find(|(_, other)| other == mode).map_or("", |(name, _)| name);
        to.serialize_str(name)
    }

    pub(super) fn deserialize<'a, D: Deserializer<'a>>(of: D) -> Result<Mode, D::Error> {
        let text = String::deserialize(of)?;
        let found = Mode::ALL.iter().find(|(name, _)| *name == text).map(|(_, mode)| *mode);
        let names = || Mode::ALL.map(|(name, _)| name).join(", ");
        found.ok_or_else(|| D::Error::custom(format!("noise: expected one of {}, got {text:?}", names())))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_dimension_by_itself_has_the_template_that_it_has_among_all() {
        for kind in [Kind::Sine, Kind::Conv] {
            for axes in [Axes::Picture, Axes::Line] {
                let settings = PositionSettings {
                    kind,
                    axes,
                    head: 2,
                    dimension: 7,
                    gate: 0.3,
                    gain: 1.5,
                    ..PositionSettings::default()
                };
                let (all, alone) = (settings.encoding(true), settings.encoding(false));
                let (all, alone) = (all.expect("a code"), alone.expect("a code"));
                for lag in [[0, 0, 0], [3, -1, 0], [-2, 5, 0]] {
                    let (a, b) = (all.template(0, 7, lag), alone.template(0, 0, lag));
                    assert_eq!(a.expect("there"), b.expect("there"), "{kind:?} {axes:?} {lag:?}");
                }
                // The share that ignores positions is there at every lag, and the gain counts twice.
                let open =
                    PositionSettings { gate: 0.0, gain: 1.0, ..settings }.encoding(false).expect("a code");
                let (p, bare) = (alone.template(0, 0, [1, 2, 0]), open.template(0, 0, [1, 2, 0]));
                let expected = 0.7 * 1.5 * 1.5 * bare.expect("there") + 0.3;
                assert!((p.expect("there") - expected).abs() < 1e-12, "{kind:?} {axes:?}");
            }
        }
    }
}
