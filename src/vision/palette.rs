//! The two colour maps, made from a few control values in OKLab, and the colour of missing values.
//!
//! Both keep their meaning for colour-blind readers: the sequential map climbs evenly in lightness, the diverging one
//! runs from blue over white to red.

use super::colour::srgb_from_polar;

/// Colour of values that are not finite; in neither colour map.
pub const NOT_FINITE_COLOUR: [u8; 3] = [255, 0, 255];

/// A colour map.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Palette {
    /// Dark violet over teal to yellow, for values from 0 up.
    Sequential,
    /// Blue over white to red, for values around 0.
    Diverging,
}

impl Palette {
    /// sRGB colour at `t` in 0…1 (0.5 is the diverging map's white); values outside take the end colour.
    ///
    /// * Sequential: L = 0.24 + 0.70 t, hue from 300° to 105°, chroma 0.09 + 0.06 t².
    /// * Diverging: u = |2t − 1|, L = 0.97 − 0.50 u, chroma 0.19 u^0.9, hue 258° below and 27° above the middle.
    ///
    /// All in OKLab's polar form (source: Ottosson 2020); chroma is lowered where sRGB cannot show it.
    pub fn colour(self, t: f64) -> [u8; 3] {
        let t = t.clamp(0.0, 1.0);
        match self {
            Self::Sequential => srgb_from_polar(0.24 + 0.70 * t, 0.09 + 0.06 * t * t, 300.0 - 195.0 * t),
            Self::Diverging => {
                let u = (2.0 * t - 1.0).abs();
                let hue = if t < 0.5 { 258.0 } else { 27.0 };
                srgb_from_polar(0.97 - 0.50 * u, 0.19 * u.powf(0.9), hue)
            }
        }
    }
}
