//! Colours that mean something, in one place. What only decorates comes from egui's visuals.

use super::mask::REGIONS;
use eframe::egui::{Color32, Visuals};

/// Colours of painted regions, apart for the colour blind: they differ in lightness as well as in hue, and the digit on
/// the handle and the pattern of the area say the same again.
const REGION_COLOURS: [Color32; REGIONS as usize] = [
    Color32::from_rgb(240, 160, 20),
    Color32::from_rgb(80, 180, 240),
    Color32::from_rgb(0, 165, 115),
    Color32::from_rgb(215, 130, 190),
    Color32::from_rgb(240, 228, 70),
    Color32::from_rgb(30, 110, 200),
    Color32::from_rgb(220, 85, 30),
    Color32::from_rgb(170, 170, 170),
];

/// Colour of a painted region, 1…[`REGIONS`]; the unpainted region 0 has that of weak text.
pub fn region(region: u8, visuals: &Visuals) -> Color32 {
    let index = usize::from(region).checked_sub(1);
    index.and_then(|index| REGION_COLOURS.get(index)).copied().unwrap_or_else(|| visuals.weak_text_color())
}

/// Black or white, whichever reads better on a colour.
pub fn text_on(colour: Color32) -> Color32 {
    let [r, g, b, _] = colour.to_array().map(f32::from);
    let light = 0.299 * r + 0.587 * g + 0.114 * b > 140.0;
    if light { Color32::BLACK } else { Color32::WHITE }
}

/// Laid over keys that nobody sees, and the hatching on it.
pub fn hidden(visuals: &Visuals) -> (Color32, Color32) {
    if visuals.dark_mode {
        (Color32::from_black_alpha(150), Color32::from_white_alpha(150))
    } else {
        (Color32::from_white_alpha(165), Color32::from_black_alpha(165))
    }
}

/// Laid over keys that the clicked query does not see.
pub fn unseen(visuals: &Visuals) -> Color32 {
    if visuals.dark_mode { Color32::from_black_alpha(140) } else { Color32::from_white_alpha(150) }
}

/// A mark that must be seen on any photograph: the line, and the rim round it.
pub const MARK: (Color32, Color32) = (Color32::WHITE, Color32::from_black_alpha(200));
