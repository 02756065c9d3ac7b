//! The letters of the explorer: egui's own fonts, with the one that has mathematics behind the one that has words.

use eframe::egui::{Context, FontDefinitions, FontFamily};

/// Lets text fall back on the monospaced font, which has ‖, →, ⁻ and other signs that the proportional one lacks.
/// To be called once, before the first frame.
pub fn install(context: &Context) {
    let mut fonts = FontDefinitions::default();
    let names: Vec<String> = fonts.families.get(&FontFamily::Monospace).cloned().unwrap_or_default();
    let family = fonts.families.entry(FontFamily::Proportional).or_default();
    for name in names {
        if !family.contains(&name) {
            family.push(name);
        }
    }
    context.set_fonts(fonts);
}
