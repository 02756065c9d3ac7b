//! The few controls that everything in the explorer is made of: rows of a label and a slider, a choice or a switch, that
//! line up with each other and behave alike.
//!
//! Every number can be dragged, typed, dragged finely with Shift, and set back to its default by a double click.

use crate::numbers::{grouped, significant};
use crate::vision::palette::Palette;
use eframe::egui::emath::Numeric;
use eframe::egui::text::{LayoutJob, TextFormat};
use eframe::egui::{
    self, Align, Align2, Color32, FontId, Layout, Mesh, Rect, Response, RichText, Sense, TextStyle, Ui, pos2,
    vec2,
};
use std::ops::RangeInclusive;

/// Width of the labels' column, in points.
pub const LABEL_WIDTH: f32 = 88.0;

/// Width of the fields that numbers are typed into, in points.
pub const NUMBER_WIDTH: f32 = 64.0;

/// How much finer a drag is with Shift.
const FINE: f64 = 0.1;

/// What a slider may be set to, and how it reads.
#[derive(Clone, Debug)]
pub struct Number {
    /// What the ends of the rail stand for.
    pub rail: RangeInclusive<f64>,
    /// What may be typed.
    pub limits: RangeInclusive<f64>,
    /// What a double click sets; `None` where there is no one value.
    pub default: Option<f64>,
    /// As much of the rail for small values as for large ones; both ends must be positive.
    pub logarithmic: bool,
    /// Whole numbers only.
    pub whole: bool,
    /// Unit behind the number, with the space before it: `" px"`.
    pub unit: &'static str,
}

impl Number {
    /// Numbers along a rail; the rail is also what may be typed.
    pub fn along(rail: RangeInclusive<f64>, default: f64) -> Self {
        let limits = rail.clone();
        Self { rail, limits, default: Some(default), logarithmic: false, whole: false, unit: "" }
    }

    /// Whole numbers only.
    #[must_use]
    pub fn whole(self) -> Self {
        Self { whole: true, ..self }
    }

    /// With a unit.
    #[must_use]
    pub fn unit(self, unit: &'static str) -> Self {
        Self { unit, ..self }
    }

    /// On a logarithmic rail.
    #[must_use]
    pub fn logarithmic(self) -> Self {
        Self { logarithmic: true, ..self }
    }

    /// What may be typed beyond the rail.
    #[must_use]
    pub fn limits(self, limits: RangeInclusive<f64>) -> Self {
        Self { limits, ..self }
    }

    /// Place of a value along the rail, 0…1.
    fn place(&self, value: f64) -> f64 {
        let (low, high) = (*self.rail.start(), *self.rail.end());
        let place = match self.logarithmic {
            true => (value.max(low) / low).ln() / (high / low).ln(),
            false => (value - low) / (high - low),
        };
        place.clamp(0.0, 1.0)
    }

    /// Value at a place along the rail.
    fn value(&self, place: f64) -> f64 {
        let (low, high) = (*self.rail.start(), *self.rail.end());
        let place = place.clamp(0.0, 1.0);
        let value = match self.logarithmic {
            true => low * (high / low).powf(place),
            false => low + (high - low) * place,
        };
        if self.whole { value.round() } else { value }
    }

    /// Change of the number field per point of drag, at a value.
    fn speed(&self, value: f64) -> f64 {
        match (self.logarithmic, self.whole) {
            (true, true) => (value.abs() * 0.01).max(0.1),
            (true, false) => value.abs().max(*self.limits.start()) * 0.01,
            (false, true) => 0.1,
            (false, false) => (self.rail.end() - self.rail.start()) / 300.0,
        }
    }

    fn text(&self, value: f64) -> String {
        if self.whole { grouped(value) } else { significant(value, 4) }
    }

    fn help(&self, hover: &str) -> String {
        let reset = self.default.map_or_else(String::new, |default| {
            format!(" Double-click sets {}{}.", self.text(default), self.unit)
        });
        format!("{hover}\n\nDrag, or click the number to type.{reset} Shift drags finely.")
    }
}

/// A section that folds away under its title.
pub fn section<R>(ui: &mut Ui, title: &str, open: bool, body: impl FnOnce(&mut Ui) -> R) -> Option<R> {
    ui.add_space(2.0);
    let shown = egui::CollapsingHeader::new(RichText::new(title).strong())
        .id_salt(title)
        .default_open(open)
        .show_unindented(ui, |ui| {
            ui.add_space(2.0);
            let inner = body(ui);
            ui.add_space(4.0);
            inner
        });
    ui.separator();
    shown.body_returned
}

/// A row: its label in the labels' column, and what follows in the rest.
pub fn row<R>(
    ui: &mut Ui,
    label: &str,
    hover: &str,
    rest: impl FnOnce(&mut Ui, &Response) -> R,
) -> (Response, R) {
    ui.horizontal(|ui| {
        let size = vec2(LABEL_WIDTH, ui.spacing().interact_size.y);
        let label = ui.allocate_ui_with_layout(size, Layout::left_to_right(Align::Center), |ui| {
            ui.set_min_size(size);
            ui.add(egui::Label::new(label).truncate().selectable(false).sense(Sense::click()))
        });
        let label = if hover.is_empty() { label.inner } else { label.inner.on_hover_text(hover) };
        let inner = rest(ui, &label);
        (label, inner)
    })
    .inner
}

/// A number with a rail to drag along and a field to type in; whether it changed.
pub fn slider<N: Numeric>(ui: &mut Ui, label: &str, hover: &str, value: &mut N, number: &Number) -> bool {
    let before = value.to_f64();
    let mut now = before;
    let help = number.help(hover);
    let (label, ()) = row(ui, label, &help, |ui, label| {
        let gap = ui.spacing().item_spacing.x;
        ui.spacing_mut().slider_width = (ui.available_width() - NUMBER_WIDTH - gap).max(24.0);
        let mut moved = before;
        let mut rail = egui::Slider::new(&mut moved, number.rail.clone())
            .show_value(false)
            .clamping(egui::SliderClamping::Edits);
        if number.logarithmic {
            rail = rail.logarithmic(true).smallest_positive(*number.rail.start());
        }
        if number.whole {
            rail = rail.integer();
        }
        let rail = ui.add(rail).labelled_by(label.id);
        // A value that was typed beyond the rail stays until the rail is touched.
        now = if rail.changed() { moved } else { before };
        if let Some(fine) = fine_drag(ui, &rail, before, number) {
            now = fine;
        }
        let twice = ui.input(|i| i.pointer.button_double_clicked(egui::PointerButton::Primary));
        if let (true, true, Some(default)) =
            (twice, rail.contains_pointer() && ui.is_enabled(), number.default)
        {
            now = default;
        }
        let field = number_field(ui, label, &mut now, number, NUMBER_WIDTH);
        for part in [rail, field] {
            // A tip waits for the pointer to rest and has frame after frame drawn meanwhile; it would not be shown in a drag
            // anyway, and a map that is under way on the same device would be late for it.
            if !(part.dragged() && ui.input(|i| i.pointer.is_decidedly_dragging())) {
                part.on_hover_text(&help);
            }
        }
    });
    if let (true, Some(default)) = (label.double_clicked(), number.default) {
        now = default;
    }
    let now = if number.whole { now.round() } else { now };
    if now == before {
        return false;
    }
    *value = N::from_f64(now);
    value.to_f64() != before
}

/// A field, `width` points wide, that a number is typed into or dragged in.
pub fn number_field(ui: &mut Ui, label: &Response, value: &mut f64, number: &Number, width: f32) -> Response {
    let speed = number.speed(*value);
    let mut field = egui::DragValue::new(value)
        .speed(speed)
        .range(number.limits.clone())
        .clamp_existing_to_range(false)
        .suffix(number.unit)
        .update_while_editing(false)
        // Words such as nan and inf are no numbers here: what was there stays.
        .custom_parser(|text| {
            let text: String = text.chars().filter(|c| !c.is_whitespace()).collect();
            let digits = text.strip_suffix(number.unit.trim()).unwrap_or(&text).replace('−', "-");
            digits.parse::<f64>().ok().filter(|x| x.is_finite())
        })
        .custom_formatter(|value, _| number.text(value));
    if number.whole {
        field = field.max_decimals(0);
    }
    ui.add_sized([width, ui.spacing().interact_size.y], field).labelled_by(label.id)
}

/// Where a rail goes that is dragged with Shift held; `None` where it is not.
fn fine_drag(ui: &Ui, rail: &Response, before: f64, number: &Number) -> Option<f64> {
    let id = rail.id.with("fine");
    let held = rail.is_pointer_button_down_on() && ui.input(|i| i.modifiers.shift);
    if !held {
        ui.data_mut(|data| data.remove::<f64>(id));
        return None;
    }
    // The place is kept beside the value, which may be rounded.
    let place = ui.data(|data| data.get_temp::<f64>(id)).unwrap_or_else(|| number.place(before));
    let place = place + FINE * f64::from(rail.drag_delta().x / rail.rect.width().max(1.0));
    ui.data_mut(|data| data.insert_temp(id, place.clamp(0.0, 1.0)));
    Some(if rail.drag_delta().x == 0.0 { before } else { number.value(place) })
}

/// One of a list of things to choose from.
#[derive(Clone, Debug)]
pub struct Choice<T> {
    /// What is chosen.
    pub value: T,
    /// Its name.
    pub name: String,
    /// What it is, in a sentence.
    pub hover: String,
    /// Why it cannot be chosen now.
    pub problem: Option<String>,
}

impl<T> Choice<T> {
    /// Something that can be chosen.
    pub fn new(value: T, name: impl Into<String>, hover: impl Into<String>) -> Self {
        Self { value, name: name.into(), hover: hover.into(), problem: None }
    }

    /// Not to be chosen, if there is a reason.
    #[must_use]
    pub fn unless(self, problem: Option<impl Into<String>>) -> Self {
        Self { problem: problem.map(Into::into), ..self }
    }
}

/// A row with a list that drops down; whether the choice changed.
pub fn choice<T: PartialEq + Clone>(
    ui: &mut Ui,
    label: &str,
    hover: &str,
    value: &mut T,
    choices: &[Choice<T>],
    other: &str,
) -> bool {
    let mut changed = false;
    row(ui, label, hover, |ui, label_response| {
        let chosen = choices.iter().find(|c| c.value == *value);
        let width = ui.available_width();
        let shown = egui::ComboBox::from_id_salt(label)
            .selected_text(chosen.map_or(other, |c| c.name.as_str()))
            .width(width)
            .truncate()
            .height(400.0)
            .show_ui(ui, |ui| {
                for item in choices {
                    let button = egui::Button::selectable(item.value == *value, item.name.as_str());
                    let response = ui.add_enabled(item.problem.is_none(), button);
                    if response.clicked() && item.value != *value {
                        *value = item.value.clone();
                        changed = true;
                    }
                    let response = response.on_hover_text(&item.hover);
                    if let Some(problem) = &item.problem {
                        response.on_disabled_hover_text(format!("{}\n\n{problem}", item.hover));
                    }
                }
            });
        let response = shown.response.labelled_by(label_response.id);
        if !hover.is_empty() {
            response.on_hover_text(hover);
        }
    });
    changed
}

/// A row with a few choices side by side; whether the choice changed.
pub fn segments<T: PartialEq + Clone>(
    ui: &mut Ui,
    label: &str,
    hover: &str,
    value: &mut T,
    choices: &[Choice<T>],
) -> bool {
    let mut changed = false;
    row(ui, label, hover, |ui, _| {
        let gap = 2.0;
        ui.spacing_mut().item_spacing.x = gap;
        ui.spacing_mut().button_padding.x = 2.0;
        let names: Vec<f32> = choices.iter().map(|item| name_width(ui, &item.name)).collect();
        let room = ui.available_width() - gap * (names.len().max(1) as f32 - 1.0);
        for (item, width) in choices.iter().zip(shared_room(&names, room)) {
            let chosen = item.value == *value;
            let button = egui::Button::selectable(chosen, item.name.as_str())
                .frame_when_inactive(true)
                .min_size(vec2(width, ui.spacing().interact_size.y))
                .truncate();
            let response = ui
                .add_enabled_ui(item.problem.is_none() || chosen, |ui| {
                    ui.add_sized([width, ui.spacing().interact_size.y], button)
                })
                .inner;
            if response.clicked() && !chosen {
                *value = item.value.clone();
                changed = true;
            }
            let response = response.on_hover_text(&item.hover);
            if let Some(problem) = &item.problem {
                response.on_disabled_hover_text(format!("{}\n\n{problem}", item.hover));
            }
        }
    });
    changed
}

/// Width of a name on a button, its borders included.
fn name_width(ui: &Ui, name: &str) -> f32 {
    let font = TextStyle::Button.resolve(ui.style());
    let galley = ui.fonts_mut(|fonts| fonts.layout_no_wrap(name.to_string(), font, Color32::PLACEHOLDER));
    galley.size().x + 2.0 * ui.spacing().button_padding.x + 2.0
}

/// Widths of buttons side by side: equal ones, unless a name needs more and others can spare it.
fn shared_room(names: &[f32], room: f32) -> Vec<f32> {
    let count = names.len().max(1) as f32;
    let (equal, needed) = ((room / count).floor(), names.iter().sum::<f32>());
    if names.iter().all(|name| *name <= equal) || needed > room {
        return vec![equal; names.len()];
    }
    names.iter().map(|name| (name + (room - needed) / count).floor()).collect()
}

/// A switch over the whole width; whether it changed.
pub fn switch(ui: &mut Ui, label: &str, hover: &str, on: &mut bool) -> bool {
    ui.checkbox(on, label).on_hover_text(hover).changed()
}

/// A line of small print in the column of the controls.
pub fn note(ui: &mut Ui, text: impl Into<String>) {
    ui.horizontal(|ui| {
        ui.spacing_mut().interact_size.y = 0.0;
        ui.add_space(LABEL_WIDTH + ui.spacing().item_spacing.x);
        ui.add(egui::Label::new(RichText::new(text).size(small_print(ui)).weak()).wrap());
    });
}

/// Size of small print, in points.
pub fn small_print(ui: &Ui) -> f32 {
    TextStyle::Body.resolve(ui.style()).size * 0.86
}

/// A badge: a word in a frame.
pub fn badge(ui: &mut Ui, text: &str, hover: &str) -> Response {
    let colour = ui.visuals().warn_fg_color;
    let frame = egui::Frame::new()
        .stroke(egui::Stroke::new(1.0, colour))
        .corner_radius(4.0)
        .inner_margin(egui::Margin::symmetric(5, 0));
    let label = |ui: &mut Ui| {
        ui.add(egui::Label::new(RichText::new(text).size(small_print(ui)).color(colour)).selectable(false))
    };
    frame.show(ui, label).inner.on_hover_text(hover)
}

/// Colours of a colour bar.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BarColours {
    /// One of the colour maps.
    Palette(Palette),
    /// Black to white.
    Grey,
}

impl BarColours {
    /// Colour at `t` in 0…1.
    pub fn at(self, t: f64) -> Color32 {
        match self {
            Self::Palette(palette) => {
                let [r, g, b] = palette.colour(t);
                Color32::from_rgb(r, g, b)
            }
            Self::Grey => Color32::from_gray((t.clamp(0.0, 1.0) * 255.0).round() as u8),
        }
    }
}

/// A colour bar over the width there is, with the numbers at its ends below it.
pub fn colour_bar(ui: &mut Ui, colours: BarColours, ends: Option<(String, String)>, hover: &str) {
    const STEPS: usize = 64;
    let font = FontId::proportional(small_print(ui));
    let text_height = ui.fonts_mut(|fonts| fonts.row_height(&font));
    let height = 12.0 + ends.as_ref().map_or(0.0, |_| text_height + 2.0);
    let (space, response) = ui.allocate_exact_size(vec2(ui.available_width(), height), Sense::hover());
    let bar = Rect::from_min_size(space.min, vec2(space.width(), 12.0));
    let mut mesh = Mesh::default();
    for i in 0..=STEPS {
        let t = i as f64 / STEPS as f64;
        let x = bar.left() + bar.width() * t as f32;
        mesh.colored_vertex(pos2(x, bar.top()), colours.at(t));
        mesh.colored_vertex(pos2(x, bar.bottom()), colours.at(t));
        if let (true, Ok(at)) = (i > 0, u32::try_from(2 * i)) {
            mesh.add_triangle(at - 2, at - 1, at);
            mesh.add_triangle(at - 1, at, at + 1);
        }
    }
    ui.painter().add(mesh);
    let line = ui.visuals().widgets.noninteractive.bg_stroke;
    ui.painter().rect_stroke(bar, 0.0, line, egui::StrokeKind::Outside);
    if let Some((low, high)) = ends {
        let colour = ui.visuals().weak_text_color();
        let y = space.bottom();
        ui.painter().text(pos2(bar.left(), y), Align2::LEFT_BOTTOM, low, font.clone(), colour);
        ui.painter().text(pos2(bar.right(), y), Align2::RIGHT_BOTTOM, high, font, colour);
    }
    response.on_hover_text(hover);
}

/// A formula in one line, larger than text, with its sub- and superscripts set as such.
pub fn formula(ui: &mut Ui, text: &str) -> Response {
    let size = TextStyle::Body.resolve(ui.style()).size * 1.25;
    let mut job = formula_layout(text, size, ui.visuals().strong_text_color());
    job.wrap.max_width = ui.available_width();
    ui.add(egui::Label::new(job).wrap())
}

/// Lays a formula out: Unicode's raised and lowered letters become small ordinary ones, which every font has.
pub fn formula_layout(text: &str, size: f32, colour: Color32) -> LayoutJob {
    let mut job = LayoutJob::default();
    let format = |scale: f32, valign: Align| TextFormat {
        font_id: FontId::proportional(size * scale),
        color: colour,
        valign,
        ..TextFormat::default()
    };
    for letter in text.chars() {
        let (letter, format) = match script(letter) {
            Some((plain, true)) => (plain, format(0.68, Align::TOP)),
            Some((plain, false)) => (plain, format(0.68, Align::BOTTOM)),
            None => (letter, format(1.0, Align::Center)),
        };
        job.append(letter.encode_utf8(&mut [0; 4]), 0.0, format);
    }
    job
}

/// The ordinary letter of a raised (`true`) or lowered one.
fn script(letter: char) -> Option<(char, bool)> {
    const RAISED: [(char, char); 16] = [
        ('⁰', '0'),
        ('¹', '1'),
        ('²', '2'),
        ('³', '3'),
        ('⁴', '4'),
        ('⁵', '5'),
        ('⁶', '6'),
        ('⁷', '7'),
        ('⁸', '8'),
        ('⁹', '9'),
        ('⁺', '+'),
        ('⁻', '−'),
        ('ᵀ', 'T'),
        ('ⁿ', 'n'),
        ('ⁱ', 'i'),
        ('ᵏ', 'k'),
    ];
    const LOWERED: [(char, char); 20] = [
        ('₀', '0'),
        ('₁', '1'),
        ('₂', '2'),
        ('₃', '3'),
        ('₄', '4'),
        ('₅', '5'),
        ('₆', '6'),
        ('₇', '7'),
        ('₈', '8'),
        ('₉', '9'),
        ('₊', '+'),
        ('₋', '−'),
        ('ᵢ', 'i'),
        ('ⱼ', 'j'),
        ('ₖ', 'k'),
        ('ₗ', 'l'),
        ('ₘ', 'm'),
        ('ₙ', 'n'),
        ('ₓ', 'x'),
        ('ₕ', 'h'),
    ];
    let raised = RAISED.iter().find(|(script, _)| *script == letter).map(|(_, plain)| (*plain, true));
    raised.or_else(|| LOWERED.iter().find(|(script, _)| *script == letter).map(|(_, plain)| (*plain, false)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_names_take_from_what_short_ones_leave() {
        assert_eq!(shared_room(&[30.0, 20.0], 100.0), [50.0, 50.0]);
        assert_eq!(shared_room(&[70.0, 20.0], 100.0), [75.0, 25.0]);
        assert_eq!(shared_room(&[90.0, 80.0], 100.0), [50.0, 50.0], "no room for both");
        assert!(shared_room(&[], 100.0).is_empty());
    }

    #[test]
    fn a_place_on_a_logarithmic_rail_goes_there_and_back() {
        let number = Number::along(0.01..=100.0, 1.0).logarithmic();
        assert!((number.place(1.0) - 0.5).abs() < 1e-12);
        for value in [0.01, 0.3, 7.0, 100.0] {
            assert!((number.value(number.place(value)) / value - 1.0).abs() < 1e-12);
        }
    }
}
