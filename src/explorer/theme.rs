//! Colours that mean something, in one place. What only decorates comes from egui's visuals.

use super::mask::REGIONS;
use eframe::egui::{Color32, Context, Theme, Visuals};

/// Colours of texts that warn and that tell errors, on the dark theme and on the light one: at least 4.5 : 1 in contrast to
/// every ground that text stands on there.
const WARNING: [Color32; 2] = [Color32::from_rgb(255, 160, 50), Color32::from_rgb(160, 75, 0)];
const ERROR: [Color32; 2] = [Color32::from_rgb(255, 120, 110), Color32::from_rgb(190, 20, 20)];

/// Gives the visuals of both themes the colours above. To be called once, before the first frame.
pub fn install(context: &Context) {
    for (theme, warning, error) in [(Theme::Dark, WARNING[0], ERROR[0]), (Theme::Light, WARNING[1], ERROR[1])]
    {
        context.style_mut_of(theme, |style| {
            style.visuals.warn_fg_color = warning;
            style.visuals.error_fg_color = error;
        });
    }
}

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

#[cfg(test)]
mod tests {
    use super::*;

    /// Relative luminance of the WCAG, 0…1.
    fn luminance(colour: Color32) -> f64 {
        let linear = |x: u8| {
            let x = f64::from(x) / 255.0;
            if x <= 0.04045 { x / 12.92 } else { ((x + 0.055) / 1.055).powf(2.4) }
        };
        0.2126 * linear(colour.r()) + 0.7152 * linear(colour.g()) + 0.0722 * linear(colour.b())
    }

    fn contrast(a: Color32, b: Color32) -> f64 {
        let (a, b) = (luminance(a), luminance(b));
        (a.max(b) + 0.05) / (a.min(b) + 0.05)
    }

    #[test]
    fn black_on_white_has_the_contrast_that_the_definition_says() {
        assert!((contrast(Color32::BLACK, Color32::WHITE) - 21.0).abs() < 1e-9);
    }

    #[test]
    fn warnings_and_errors_can_be_read_in_both_themes() {
        let context = Context::default();
        install(&context);
        for theme in [Theme::Dark, Theme::Light] {
            let visuals = context.style_of(theme).visuals.clone();
            let grounds = [visuals.panel_fill, visuals.window_fill, visuals.extreme_bg_color];
            let texts = [
                ("warning", visuals.warn_fg_color),
                ("error", visuals.error_fg_color),
                ("text", visuals.text_color()),
            ];
            for ((name, colour), ground) in
                texts.into_iter().flat_map(|text| grounds.map(|ground| (text, ground)))
            {
                let found = contrast(colour, ground);
                assert!(found >= 4.5, "{theme:?} {name} on {ground:?}: {found:.2}");
            }
            assert!(contrast(visuals.warn_fg_color, visuals.error_fg_color) > 1.0, "they differ");
        }
    }
}
