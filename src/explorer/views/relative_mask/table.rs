//! A table of weights by hand: cells that are clicked and painted, other sides, and tables to begin with.

use crate::explorer::relative_mask::{MOST_STENCIL, Preset, offset_in_words, resized};
use crate::explorer::theme;
use crate::explorer::widgets::BarColours;
use crate::mask::StencilSpec;
use crate::numbers::significant;
use eframe::egui::{
    self, Align2, FontId, PointerButton, Pos2, Rect, Role, Sense, Stroke, StrokeKind, Ui, WidgetInfo, vec2,
};

/// What is in hand while a button is held.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Stroked {
    /// Cells become this weight.
    Weight(f32),
    /// Begun outside the cells, or given up.
    Nothing,
}

/// The editor's own state; the table is in the document.
#[derive(Debug)]
pub(super) struct Editor {
    /// Weight that is painted.
    paint: f32,
    stroke: Option<Stroked>,
}

impl Default for Editor {
    fn default() -> Self {
        Self { paint: 1.0, stroke: None }
    }
}

/// Largest weight that can be typed.
const MOST_WEIGHT: f32 = 100.0;

impl Editor {
    /// Draws the editor into all of `ui`; the table takes what changed.
    pub(super) fn show(&mut self, ui: &mut Ui, spec: &mut StencilSpec, colours: BarColours) {
        ui.spacing_mut().item_spacing = vec2(4.0, 4.0);
        ui.horizontal_wrapped(|ui| {
            let (mut rows, mut cols) = (spec.rows, spec.cols);
            side(ui, "Rows", &mut rows);
            ui.weak("×");
            side(ui, "Columns", &mut cols);
            if (rows, cols) != (spec.rows, spec.cols) {
                *spec = resized(spec, rows, cols);
            }
            ui.separator();
            ui.label("Paint");
            let field =
                egui::DragValue::new(&mut self.paint).speed(0.01).range(0.0..=MOST_WEIGHT).max_decimals(3);
            let field = ui.add(field).on_hover_text("Weight that a click or drag gives to cells.");
            field.widget_info(|| WidgetInfo::labeled(Role::SpinButton, true, "Weight to paint"));
        });
        ui.horizontal_wrapped(|ui| {
            for (preset, name, about) in Preset::ALL {
                if ui.small_button(name).on_hover_text(about).clicked() {
                    *spec = preset.table(spec);
                }
            }
        });
        self.cells(ui, spec, colours);
    }

    fn cells(&mut self, ui: &mut Ui, spec: &mut StencilSpec, colours: BarColours) {
        let hint_height = 18.0;
        let room = ui.available_size() - vec2(0.0, hint_height);
        let (rows, cols) = (spec.rows as usize, spec.cols as usize);
        let side = (room.x / cols as f32).min(room.y / rows as f32).clamp(6.0, 44.0).floor();
        let size = vec2(side * cols as f32, side * rows as f32);
        let (area, response) = ui.allocate_exact_size(size, Sense::click_and_drag());
        response.widget_info(|| WidgetInfo::labeled(Role::Table, true, "Weights around the query"));
        let cell_at = |at: Pos2| -> Option<usize> {
            let place = (at - area.min) / side;
            let inside = area.contains(at) && place.x >= 0.0 && place.y >= 0.0;
            let (row, col) = (place.y as usize, place.x as usize);
            (inside && row < rows && col < cols).then_some(row * cols + col)
        };
        self.paint_with(ui, &response, spec, cell_at);

        let largest = spec.weights.iter().copied().fold(0.0_f32, f32::max).max(f32::MIN_POSITIVE);
        let font = FontId::proportional((0.36 * side).clamp(8.0, 12.0));
        let painter = ui.painter().with_clip_rect(area.expand(2.0).intersect(ui.clip_rect()));
        for (cell, weight) in spec.weights.iter().enumerate().take(rows * cols) {
            let (row, col) = (cell / cols, cell % cols);
            let rect = Rect::from_min_size(area.min + side * vec2(col as f32, row as f32), vec2(side, side));
            let fill = colours.at(f64::from(weight / largest));
            painter.rect_filled(rect.shrink(0.5), 0.0, fill);
            if side >= 20.0 {
                let ink = theme::text_on(fill);
                painter.text(rect.center(), Align2::CENTER_CENTER, short(*weight), font.clone(), ink);
            }
            if (row, col) == (rows / 2, cols / 2) {
                let (line, rim) = theme::MARK;
                painter.rect_stroke(rect.shrink(1.0), 0.0, Stroke::new(3.5, rim), StrokeKind::Inside);
                painter.rect_stroke(rect.shrink(1.75), 0.0, Stroke::new(1.5, line), StrokeKind::Inside);
            }
        }
        let under = response.hover_pos().and_then(cell_at);
        let text = match under.and_then(|cell| Some((cell, spec.weights.get(cell)?))) {
            Some((cell, weight)) => {
                let offset = |at: usize, side: usize| at as i64 - (side / 2) as i64;
                let place = offset_in_words((offset(cell / cols, rows), offset(cell % cols, cols)));
                format!("{place}: {}", significant(f64::from(*weight), 3))
            }
            None => "Click or drag to paint, again or right button for 0.".into(),
        };
        ui.add(egui::Label::new(super::super::plots::caption(text)).truncate());
    }

    /// Gives weights to the cells under the pointer while a button is held.
    fn paint_with(
        &mut self,
        ui: &Ui,
        response: &egui::Response,
        spec: &mut StencilSpec,
        cell_at: impl Fn(Pos2) -> Option<usize>,
    ) {
        let (down, secondary, positions) = ui.input(|i| {
            let secondary = i.pointer.button_down(PointerButton::Secondary);
            // All places since the last frame, so that a quick drag leaves no gap.
            let moved = i.events.iter().filter_map(|event| match event {
                egui::Event::PointerMoved(at) => Some(*at),
                _ => None,
            });
            let positions: Vec<Pos2> = moved.chain(i.pointer.interact_pos()).collect();
            (i.pointer.any_down(), secondary, positions)
        });
        if !down {
            let stroke = self.stroke.take();
            // Pressed and let go within one frame: no frame saw the button down.
            let quick = [PointerButton::Primary, PointerButton::Secondary]
                .into_iter()
                .find(|button| stroke.is_none() && response.clicked_by(*button));
            let cell = response.interact_pointer_pos().and_then(&cell_at);
            if let (Some(button), Some(cell)) = (quick, cell)
                && let Some(weight) = spec.weights.get_mut(cell)
            {
                let clears = button == PointerButton::Secondary || *weight == self.paint;
                *weight = if clears { 0.0 } else { self.paint };
            }
            return;
        }
        if self.stroke.is_none() {
            let start =
                ui.input(|i| i.pointer.press_origin()).filter(|_| response.is_pointer_button_down_on());
            let cell = start.and_then(&cell_at).and_then(|cell| spec.weights.get(cell));
            self.stroke = Some(match cell {
                None => Stroked::Nothing,
                Some(_) if secondary => Stroked::Weight(0.0),
                // A cell that has the weight already is cleared.
                Some(weight) => Stroked::Weight(if *weight == self.paint { 0.0 } else { self.paint }),
            });
            if let (Some(Stroked::Weight(weight)), Some(cell)) = (self.stroke, start.and_then(&cell_at)) {
                spec.weights[cell] = weight;
            }
        }
        if let Some(Stroked::Weight(weight)) = self.stroke {
            for cell in positions.into_iter().filter_map(cell_at) {
                if let Some(place) = spec.weights.get_mut(cell) {
                    *place = weight;
                }
            }
        }
    }
}

/// A field for an odd number of rows or columns.
fn side(ui: &mut Ui, label: &str, value: &mut u32) {
    let less = ui.add_enabled(*value > 1, egui::Button::new("−").small());
    less.widget_info(|| WidgetInfo::labeled(Role::Button, true, format!("Fewer {}", label.to_lowercase())));
    ui.label(value.to_string());
    let more = ui.add_enabled(*value < MOST_STENCIL, egui::Button::new("+").small());
    more.widget_info(|| WidgetInfo::labeled(Role::Button, true, format!("More {}", label.to_lowercase())));
    if less.on_hover_text(format!("{label}: two fewer")).clicked() {
        *value = value.saturating_sub(2).max(1);
    }
    if more.on_hover_text(format!("{label}: two more")).clicked() {
        *value += 2;
    }
}

/// A weight in as few letters as a cell has room for.
fn short(weight: f32) -> String {
    significant(f64::from(weight), 2)
}
