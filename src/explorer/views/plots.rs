//! What the plots and tables of the explorer have in common: colours of series, captioned figures, and what a view shows
//! while it has nothing to show.

use crate::vision::colour::srgb_from_polar;
use eframe::egui::{self, Align, Color32, FontId, RichText, TextStyle, Visuals, vec2};

/// Size of captions, small print and the letters inside a chart, in points.
pub(super) const CAPTION: f32 = 11.0;

/// Quiet small print.
pub(super) fn caption(text: impl Into<String>) -> RichText {
    RichText::new(text).size(CAPTION).weak()
}

/// Marks along an axis at 1, 2 or 5 times a power of ten, about `count` of them from 0 to `end`.
pub(super) fn even_step(end: f64, count: f64) -> f64 {
    let rough = (end / count).max(f64::MIN_POSITIVE);
    let decade = 10f64.powf(rough.log10().floor());
    [1.0, 2.0, 5.0, 10.0].into_iter().map(|x| x * decade).find(|step| *step >= rough).unwrap_or(rough)
}

/// The colours of series, the same in every plot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Series {
    /// What the eye should follow.
    Main,
    /// What it is compared with.
    Other,
    /// The rest.
    Quiet,
    /// One of many: memory slots, told apart by number.
    Numbered(usize),
}

impl Series {
    /// Its colour on the background of these visuals. Main and other are blue and orange, which colour-blind readers can
    /// tell apart; numbered ones go around the hues in steps of the golden angle.
    pub(super) fn colour(self, visuals: &Visuals) -> Color32 {
        let lift = if visuals.dark_mode { 0.14 } else { 0.0 };
        let [r, g, b] = match self {
            Self::Main => srgb_from_polar(0.56 + lift, 0.15, 255.0),
            Self::Other => srgb_from_polar(0.62 + lift, 0.15, 55.0),
            Self::Quiet => srgb_from_polar(0.70 - 1.4 * lift, 0.02, 255.0),
            Self::Numbered(index) => {
                let lightness = [0.60, 0.68, 0.52][index % 3] + 0.5 * lift;
                srgb_from_polar(lightness, 0.11, 255.0 + 137.508 * index as f64)
            }
        };
        Color32::from_rgb(r, g, b)
    }
}

/// Text that stands on a fill of this colour: black or white, whichever is easier to read.
pub(super) fn text_on(fill: Color32) -> Color32 {
    let luma = 0.299 * f32::from(fill.r()) + 0.587 * f32::from(fill.g()) + 0.114 * f32::from(fill.b());
    if luma > 140.0 { Color32::BLACK } else { Color32::WHITE }
}

/// A figure with its caption above, for rows of figures.
pub(super) fn figure(ui: &mut egui::Ui, caption: &str, value: impl Into<String>) -> egui::Response {
    let colour = ui.visuals().strong_text_color();
    coloured_figure(ui, caption, value, colour)
}

/// The same with a colour that says something about the value.
pub(super) fn coloured_figure(
    ui: &mut egui::Ui,
    caption: &str,
    value: impl Into<String>,
    colour: Color32,
) -> egui::Response {
    // Laid out by hand: a row can break before something only if it knows its size beforehand.
    let (value, weak) = (value.into(), ui.visuals().weak_text_color());
    let words = format!("{caption}: {value}");
    let above = ui.painter().layout_no_wrap(caption.into(), FontId::proportional(CAPTION), weak);
    let below = ui.painter().layout_no_wrap(value, TextStyle::Body.resolve(ui.style()), colour);
    let size = vec2(above.size().x.max(below.size().x), above.size().y + below.size().y + 1.0);
    let (space, response) = ui.allocate_exact_size(size, egui::Sense::hover());
    let value_at = space.left_bottom() - vec2(0.0, below.size().y);
    ui.painter().galley(space.min, above, weak);
    ui.painter().galley(value_at, below, colour);
    response.widget_info(|| egui::WidgetInfo::labeled(egui::Role::Label, true, &words));
    response
}

/// A row of figures that breaks into lines where it must.
pub(super) fn figures(ui: &mut egui::Ui, add: impl FnOnce(&mut egui::Ui)) {
    ui.horizontal_wrapped(|ui| {
        ui.spacing_mut().item_spacing = vec2(24.0, 6.0);
        add(ui);
    });
}

/// The margin around everything a view draws.
pub(super) fn page(ui: &mut egui::Ui, add: impl FnOnce(&mut egui::Ui)) {
    egui::Frame::new().inner_margin(egui::Margin::same(10)).show(ui, |ui| {
        ui.set_min_size(ui.available_size());
        add(ui);
    });
}

/// A view with nothing to show: what is missing, and what to do about it.
pub(super) fn empty(ui: &mut egui::Ui, title: &str, hint: &str) {
    let space = ui.available_size();
    ui.allocate_ui_with_layout(space, egui::Layout::top_down(Align::Center), |ui| {
        ui.add_space((0.5 * space.y - 40.0).max(8.0));
        ui.label(RichText::new(title).heading());
        ui.add_space(4.0);
        ui.set_max_width(space.x.min(420.0));
        ui.label(RichText::new(hint).weak());
    });
}

/// What every view says before the engine's first answer.
pub(super) fn nothing_yet(ui: &mut egui::Ui) {
    empty(ui, "Nothing computed yet", "The first map is on its way. Click the picture to choose a query.");
}

/// What views of numbers say where a mask leaves the query without keys.
pub(super) fn nothing_seen(ui: &mut egui::Ui) {
    empty(
        ui,
        "No row from here",
        "The mask hides every token from the clicked one: change it, or click elsewhere.",
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_of_an_axis_are_round() {
        for (end, expected) in [(10.0, 2.0), (3.2, 1.0), (0.97, 0.2), (48.0, 10.0)] {
            assert!((even_step(end, 5.0) / expected - 1.0).abs() < 1e-9, "{end}: {}", even_step(end, 5.0));
        }
    }
}
