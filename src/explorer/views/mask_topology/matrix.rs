//! The mask as a matrix: which region sees which, with counts, and the same to scale.

use super::MaskTopology;
use super::toolbar::{chip_at, hatched};
use crate::explorer::mask::MaskDocument;
use crate::explorer::theme;
use crate::numbers::{compact, grouped};
use crate::words::plural;
use eframe::egui::{self, Align2, FontId, Rect, Role, Sense, Stroke, StrokeKind, Ui, WidgetInfo, pos2, vec2};

/// Name of a region in a sentence.
fn name(region: u8) -> String {
    if region == 0 { "the unpainted region 0".into() } else { format!("region {region}") }
}

impl MaskTopology {
    /// Draws the table into all of `ui`. A click on a block opens or closes it.
    pub(super) fn matrix(&mut self, ui: &mut Ui, mask: &mut MaskDocument) {
        ui.strong("Which region sees which");
        if !self.survey.has_regions() {
            let hidden = self.survey.hidden();
            if hidden > 0 {
                ui.label(format!(
                    "{} {} hidden from every query.",
                    grouped(hidden as f64),
                    plural(hidden, "key is", "keys are")
                ));
            }
            ui.weak(
                "No region is painted: every query sees the same keys. Paint region 1 and its queries see only each \
                 other, and so does everything left unpainted.",
            );
            return;
        }
        ui.weak(
            "Rows: region of the query. Columns: region of the keys, and how many are seen. Click to change.",
        );
        ui.add_space(4.0);
        let regions: Vec<u8> = self.survey.places().iter().map(|place| place.region).collect();
        self.table(ui, mask, &regions);
        ui.add_space(10.0);
        self.to_scale(ui, mask, &regions);
    }

    fn table(&mut self, ui: &mut Ui, mask: &mut MaskDocument, regions: &[u8]) {
        let columns = regions.len() + 2;
        let width = (ui.available_width() / columns as f32).clamp(18.0, 46.0);
        let cell = vec2(width, 24.0);
        let (area, _) =
            ui.allocate_exact_size(cell * vec2(columns as f32, columns as f32 - 1.0), Sense::hover());
        let at = |row: usize, col: usize| {
            Rect::from_min_size(area.min + cell * vec2(col as f32, row as f32), cell).shrink(1.0)
        };
        let visuals = ui.visuals().clone();
        let small = FontId::proportional(if width < 32.0 { 9.5 } else { 12.0 });
        let square = |rect: Rect| Rect::from_center_size(rect.center(), vec2(17.0, 17.0).min(rect.size()));
        for (i, region) in regions.iter().enumerate() {
            chip_at(ui.painter(), square(at(0, i + 1)), *region, &visuals);
            chip_at(ui.painter(), square(at(i + 1, 0)), *region, &visuals);
        }
        let heading = at(0, columns - 1).center();
        ui.painter().text(heading, Align2::CENTER_CENTER, "all", small.clone(), visuals.weak_text_color());
        for (i, from) in regions.iter().enumerate() {
            let mut sum = 0;
            for (j, to) in regions.iter().enumerate() {
                let (rect, sees) = (at(i + 1, j + 1), mask.sees(*from, *to));
                let count = if sees { self.survey.tally(*to).shown } else { 0 };
                sum += count;
                let sense = if from == to { Sense::hover() } else { Sense::click() };
                let response = ui.interact(rect, ui.scope_id().with(("sees", *from, *to)), sense);
                let text = format!("{} sees {}", name(*from), name(*to));
                if from != to {
                    let info = || WidgetInfo::selected(Role::CheckBox, true, sees, text.as_str());
                    response.widget_info(info);
                }
                let fill = match (sees, to) {
                    (true, 0) => visuals.widgets.inactive.bg_fill,
                    (true, to) => theme::region(*to, &visuals).gamma_multiply(0.75),
                    (false, _) => visuals.faint_bg_color,
                };
                ui.painter().rect_filled(rect, 3.0, fill);
                let ink = match (sees, to) {
                    (true, 0) => visuals.strong_text_color(),
                    (true, to) => theme::text_on(theme::region(*to, &visuals)),
                    (false, _) => visuals.weak_text_color(),
                };
                let shown = if sees { compact(count) } else { "–".into() };
                ui.painter().text(rect.center(), Align2::CENTER_CENTER, shown, small.clone(), ink);
                if response.hovered() && from != to {
                    let stroke = visuals.widgets.hovered.fg_stroke;
                    ui.painter().rect_stroke(rect, 3.0, stroke, StrokeKind::Inside);
                }
                let explain = match (from == to, sees) {
                    (true, _) => format!("Queries of {} always see its keys", name(*from)),
                    (false, true) => {
                        format!("Queries of {} see {}: click to stop it", name(*from), name(*to))
                    }
                    (false, false) => {
                        format!("Queries of {} do not see {}: click to let them", name(*from), name(*to))
                    }
                };
                if response.on_hover_text(explain).clicked() {
                    mask.set_sees(*from, *to, !sees);
                }
            }
            let total = at(i + 1, columns - 1).center();
            let ink = if sum == 0 { visuals.warn_fg_color } else { visuals.text_color() };
            ui.painter().text(total, Align2::CENTER_CENTER, compact(sum), small.clone(), ink);
            if *from == self.survey.query_region() {
                let row = at(i + 1, 0).union(at(i + 1, columns - 1)).expand(1.0);
                let stroke = Stroke::new(1.5, visuals.selection.stroke.color);
                ui.painter().rect_stroke(row, 4.0, stroke, StrokeKind::Inside);
            }
        }
        if regions.contains(&self.survey.query_region()) {
            ui.weak("The framed row is the clicked query's.");
        }
    }

    /// The n × n mask with tokens sorted by region and hidden keys last.
    fn to_scale(&self, ui: &mut Ui, mask: &MaskDocument, regions: &[u8]) {
        let space = ui.available_rect_before_wrap();
        let heading = ui.text_style_height(&egui::TextStyle::Body) * 2.0 + 10.0;
        let side = space.width().min(ui.clip_rect().bottom() - space.top() - heading).min(240.0);
        let all = self.survey.tokens().unwrap_or(0);
        if side < 80.0 || all == 0 {
            return;
        }
        ui.strong("The mask to scale");
        ui.weak(format!("{0} × {0} tokens sorted by region, hidden keys last", grouped(all as f64)));
        let (square, _) = ui.allocate_exact_size(vec2(side, side), Sense::hover());
        let (painter, visuals) = (ui.painter(), ui.visuals());
        painter.rect_filled(square, 0.0, visuals.faint_bg_color);
        let to = |tokens: usize| side * tokens as f32 / all as f32;
        let mut top = 0;
        for from in regions {
            let tally = self.survey.tally(*from);
            let rows = tally.shown + tally.hidden;
            let mut left = 0;
            for key in regions {
                let columns = self.survey.tally(*key).shown;
                if mask.sees(*from, *key) {
                    let min = square.min + vec2(to(left), to(top));
                    let rect = Rect::from_min_size(min, vec2(to(columns), to(rows)));
                    painter.rect_filled(rect, 0.0, theme::region(*key, visuals).gamma_multiply(0.8));
                }
                left += columns;
            }
            top += rows;
        }
        let hidden = self.survey.hidden();
        if hidden > 0 {
            let band = Rect::from_min_max(pos2(square.right() - to(hidden), square.top()), square.max);
            hatched(painter, band, visuals);
        }
        painter.rect_stroke(square, 0.0, Stroke::new(1.0, visuals.weak_text_color()), StrokeKind::Outside);
    }
}
