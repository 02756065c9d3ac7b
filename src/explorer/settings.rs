//! Everything a user can change: what is computed, and how it looks. One value, so that undo, sessions, exports and the
//! command line all speak of the same thing.

use super::networks::Networks;
use super::position::PositionSettings;
use crate::attention::{Attention, FeatureMap, Landmarks, Normalisation};
use crate::error::{Error, Result};
use crate::mask::MaskSpec;
use crate::random::Projection;
use crate::vision::grid::{DEFAULT_MAX_TOKENS, DEFAULT_PATCH, MAX_PATCH};
use crate::vision::scene::{MapKernel, MapPath, RowNormalisation, SceneOptions};
use serde::{Deserialize, Serialize};

/// What numbers may be: nothing else can be typed, and a session with anything else is refused.
pub mod limits {
    use std::ops::RangeInclusive;

    /// Side of the landmark grid.
    pub const LANDMARK_SIDE: RangeInclusive<u32> = 1..=44;
    /// Side of a patch in working pixels.
    pub const PATCH: RangeInclusive<u32> = 1..=super::MAX_PATCH;
    /// Distance of neighbouring tokens in working pixels.
    pub const STRIDE: RangeInclusive<u32> = 1..=256;
    /// Most tokens.
    pub const TOKENS: RangeInclusive<u32> = 1..=4_194_304;
    /// Heads, as on the command line.
    pub const HEADS: RangeInclusive<u32> = 1..=64;
    /// Random features of FAVOR+.
    pub const RANDOM_FEATURES: RangeInclusive<u32> = 1..=1024;
    /// Share that is cut off at an end of the colours, in percent.
    pub const CUT_OFF: RangeInclusive<f64> = 0.0..=49.0;
}

/// Settings of the explorer.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Settings {
    /// What is computed.
    pub compute: Compute,
    /// How it is drawn.
    pub look: Look,
    /// Networks, trees and diffusions.
    pub networks: Networks,
    /// Position codes.
    pub position: PositionSettings,
    /// Device: `window` for the one that draws, or what `--device` takes.
    pub device: Device,
}

/// Where to compute.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Device {
    /// On the device that draws the window: results stay there.
    #[default]
    Window,
    /// On a device by its name, index, `cpu` or `cuda:0`: results are copied to the window's.
    Named(String),
}

/// The similarity of tokens.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Similarity {
    /// exp(−‖q − k‖₁/λ).
    #[default]
    Laplacian,
    /// exp(−‖q − k‖²/λ).
    Gaussian,
    /// softmax of q·k; exact only.
    Softmax,
    /// φ(q)·φ(k) with φ(x) = elu(x) + 1.
    Elu,
    /// φ(q)·φ(k) with φ(x) = max(x, 0).
    Relu,
    /// φ(q)·φ(k) with φ(x) = exp(x).
    Exponential,
    /// φ(q)·φ(k) with positive random features, which approximate softmax.
    FavorPlus,
}

impl Similarity {
    /// Whether it has a bandwidth λ, and with it landmarks and two roads.
    pub fn has_bandwidth(self) -> bool {
        matches!(self, Self::Laplacian | Self::Gaussian)
    }

    /// Name for people.
    pub fn name(self) -> &'static str {
        match self {
            Self::Laplacian => "Laplacian",
            Self::Gaussian => "Gaussian",
            Self::Softmax => "Softmax",
            Self::Elu => "ELU + 1",
            Self::Relu => "ReLU",
            Self::Exponential => "exp",
            Self::FavorPlus => "FAVOR+",
        }
    }
}

/// How rows are computed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Road {
    /// Through landmarks; exact for very few tokens and for softmax.
    #[default]
    Nystrom,
    /// All pairs.
    Exact,
}

/// Normalisation of rows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum RowForm {
    /// Kernel values as they are.
    #[default]
    None,
    /// Divided by the row's sum; exact rows only.
    Sum,
    /// Centred over keys, whitened over queries.
    Row,
    /// Centred and whitened over queries.
    Col,
    /// The features whitened.
    Cheap,
    /// Degrees of the landmark kernel.
    Softpp,
}

/// Kinds of landmarks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum LandmarkKind {
    /// The token at the centre of each cell of a square grid.
    #[default]
    Strided,
    /// The mean over each cell of a square grid.
    Adaptive,
    /// Means over consecutive tokens in raster order.
    Segments,
}

/// What is computed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Compute {
    /// Similarity.
    pub similarity: Similarity,
    /// Features of FAVOR+.
    pub random_features: u32,
    /// Mask of relative positions over the rows, saved as its text: `toeplitz:gauss,size=8,distance=l2`.
    #[serde(with = "mask_text")]
    pub mask: MaskSpec,
    /// Nyström or exact.
    pub road: Road,
    /// Normalisation.
    pub form: RowForm,
    /// Bandwidth for all heads; `None` = per head such that the mean kernel value is 0.1.
    pub lambda: Option<f32>,
    /// Kind of landmarks.
    pub landmarks: LandmarkKind,
    /// Side of the landmark grid; there are side² landmarks of every kind.
    pub landmark_side: u32,
    /// ε on the diagonal of the landmark matrix.
    pub epsilon: f32,
    /// Side of a patch in working pixels.
    pub patch: u32,
    /// Distance of neighbouring tokens in working pixels.
    pub stride: u32,
    /// Most tokens.
    pub max_tokens: usize,
    /// Heads.
    pub heads: usize,
}

impl Default for Compute {
    fn default() -> Self {
        Self {
            similarity: Similarity::default(),
            random_features: Projection::default().features,
            mask: MaskSpec::None,
            road: Road::default(),
            form: RowForm::default(),
            lambda: None,
            landmarks: LandmarkKind::default(),
            landmark_side: 7,
            epsilon: 1e-3,
            patch: DEFAULT_PATCH,
            stride: 8,
            max_tokens: DEFAULT_MAX_TOKENS,
            heads: 4,
        }
    }
}

/// How the heads' rows become one picture.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Fusion {
    /// Mean over heads.
    #[default]
    Mean,
    /// Largest of the heads.
    Max,
    /// Smallest of the heads.
    Min,
    /// One head.
    Head(usize),
}

/// Which numbers the ends of the colour map stand for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub enum Range {
    /// From the smallest to the largest (0 to the largest where nothing is negative; symmetric where something is).
    #[default]
    Fit,
    /// The same between two percentiles: this share, in percent, is cut off at the top (and bottom, if there are negatives).
    Clip(f32),
    /// Given by hand.
    Fixed(f32, f32),
}

/// Colour maps, all perceptually even and safe for the colour blind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Colours {
    /// Sequential, or diverging where there are negative numbers.
    #[default]
    Auto,
    /// Dark to light.
    Sequential,
    /// Two hues around 0.
    Diverging,
    /// Grey.
    Grey,
}

/// How results are drawn.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Look {
    /// Heads to one picture.
    pub fusion: Fusion,
    /// Colour map.
    pub colours: Colours,
    /// Range of the colour map.
    pub range: Range,
    /// One range for all heads in the grid of heads.
    pub same_range: bool,
    /// Logarithm of magnitudes.
    pub log: bool,
    /// Tokens outside the fences of the bulk (sinks) do not count for the range and are crossed out.
    pub hide_sinks: bool,
    /// NaN red and infinities green; negative numbers have the diverging colours anyway.
    pub flag_bad: bool,
    /// Opacity of the map over the picture, 0…1.
    pub opacity: f32,
    /// Landmarks on the picture.
    pub show_landmarks: bool,
    /// Smooth between tokens instead of flat squares.
    pub smooth: bool,
}

impl Default for Look {
    fn default() -> Self {
        Self {
            fusion: Fusion::default(),
            colours: Colours::default(),
            range: Range::default(),
            same_range: true,
            log: false,
            hide_sinks: false,
            flag_bad: true,
            opacity: 0.72,
            show_landmarks: false,
            smooth: true,
        }
    }
}

impl Compute {
    /// The landmarks on a grid of tokens.
    pub fn landmarks(&self) -> Landmarks {
        let side = self.landmark_side;
        match self.landmarks {
            LandmarkKind::Strided => Landmarks::Strided { side },
            LandmarkKind::Adaptive => Landmarks::Adaptive { side },
            LandmarkKind::Segments => Landmarks::Segments { count: side * side },
        }
    }

    /// As the engine's scene takes them.
    ///
    /// Errors: numbers out of range.
    pub fn scene(&self) -> Result<SceneOptions> {
        if !limits::LANDMARK_SIDE.contains(&self.landmark_side) {
            let got = self.landmark_side;
            return Err(Error::value("side of the landmark grid", "1 to 44", got, "49 landmarks are side 7"));
        }
        let kernel = match (self.similarity, self.feature_map()) {
            (_, Some(map)) => MapKernel::Feature(map),
            (Similarity::Gaussian, _) => MapKernel::Gaussian,
            (Similarity::Softmax, _) => MapKernel::Softmax,
            _ => MapKernel::Laplacian,
        };
        let path = match self.road {
            // Feature maps have one road.
            Road::Exact if !matches!(kernel, MapKernel::Feature(_)) => MapPath::Exact,
            _ => MapPath::Auto,
        };
        let normalisation = match self.form {
            RowForm::None => RowNormalisation::Map(Normalisation::None),
            RowForm::Sum => RowNormalisation::Sum,
            RowForm::Row => RowNormalisation::Map(Normalisation::Row),
            RowForm::Col => RowNormalisation::Map(Normalisation::Col),
            RowForm::Cheap => RowNormalisation::Map(Normalisation::Cheap),
            RowForm::Softpp => RowNormalisation::Map(Normalisation::Softpp),
        };
        let attention =
            Attention { landmarks: self.landmarks(), epsilon: self.epsilon, ..Attention::default() };
        Ok(SceneOptions {
            patch: self.patch,
            stride: self.stride,
            max_tokens: self.max_tokens,
            heads: self.heads,
            kernel,
            mask: self.mask.clone(),
            path,
            normalisation,
            lambda: self.lambda,
            attention,
            ..SceneOptions::default()
        })
    }

    /// The feature map of the similarity, where it is one.
    pub fn feature_map(&self) -> Option<FeatureMap> {
        match self.similarity {
            Similarity::Laplacian | Similarity::Gaussian | Similarity::Softmax => None,
            Similarity::Elu => Some(FeatureMap::Elu1),
            Similarity::Relu => Some(FeatureMap::Relu { projection: None }),
            Similarity::Exponential => Some(FeatureMap::Exp),
            Similarity::FavorPlus => {
                let projection = Projection { features: self.random_features, ..Projection::default() };
                Some(FeatureMap::FavorPlus { projection })
            }
        }
    }

    /// Whether rows are never computed through landmarks, whatever the road.
    pub fn must_be_exact(&self) -> bool {
        !self.similarity.has_bandwidth() || self.form == RowForm::Sum
    }
}

/// Masks in sessions: the text that commands take.
mod mask_text {
    use super::MaskSpec;
    use serde::de::Error as _;
    use serde::{Deserialize as _, Deserializer, Serializer};

    pub(super) fn serialize<S: Serializer>(mask: &MaskSpec, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(mask)
    }

    pub(super) fn deserialize<'a, D: Deserializer<'a>>(of: D) -> Result<MaskSpec, D::Error> {
        String::deserialize(of)?.parse().map_err(D::Error::custom)
    }
}
