//! What runs and where it lives: passes from left to right, a bar per tensor from its first write to its last use,
//! coloured by the memory it shares with others.

use super::plots::{self, Series};
use super::{View, ViewContext};
use crate::backend::StepTime;
use crate::explorer::snapshot::{Needs, Snapshot};
use crate::explorer::widgets::formula_layout;
use crate::graph::{Kind, Schedule, Step, device_bytes, human_bytes};
use crate::numbers::{number, percent, seconds};
use crate::words::counted;
use eframe::egui::{self, Align2, Color32, CornerRadius, FontId, Pos2, Rect, RichText, Stroke, pos2, vec2};
use std::f32::consts::FRAC_PI_2;

/// Height of a row.
const ROW: f32 = 20.0;
/// Most and least width of the column of names.
const NAMES: (f32, f32) = (264.0, 120.0);
/// Most height of the passes' names.
const TITLES: f32 = 164.0;
/// Height of the bars that show the passes' times.
const TIMES: f32 = 34.0;
/// Narrowest column of names that has room for sizes, too.
const NAMES_AND_SIZES: f32 = 170.0;
/// Least height of the chart: in less, the whole page scrolls.
const LEAST_CHART: f32 = 280.0;
/// Narrowest column of a pass.
const NARROWEST: f32 = 15.0;
/// Letters of a pass's name that fit into [`TITLES`].
const LETTERS: usize = 24;

/// Width of the card that explains a pass or a tensor, and of the captions in it.
const CARD: f32 = 380.0;
const FACTS: f32 = 92.0;

/// What the horizontal axis counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Axis {
    #[default]
    Passes,
    Time,
}

/// What a row is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Rows {
    #[default]
    FirstUse,
    Size,
    Slots,
}

impl Rows {
    const ALL: [(Self, &'static str, &'static str); 3] = [
        (Self::FirstUse, "By first use", "A row per tensor, in the order in which they come to life"),
        (Self::Size, "By size", "A row per tensor, the largest first"),
        (Self::Slots, "Memory slots", "A row per piece of memory, with all tensors that share it"),
    ];
}

/// The view.
#[derive(Debug)]
pub(super) struct ScheduleView {
    /// Program to show; `None` = the last, which runs for every click.
    shown: Option<usize>,
    axis: Axis,
    rows: Rows,
    filter: String,
    external: bool,
    zoom: f32,
    /// Whether the filter changed, so that what it found must come into sight.
    jump: bool,
}

impl Default for ScheduleView {
    fn default() -> Self {
        Self {
            shown: None,
            axis: Axis::default(),
            rows: Rows::default(),
            filter: String::new(),
            external: true,
            zoom: 1.0,
            jump: false,
        }
    }
}

impl View for ScheduleView {
    fn id(&self) -> &'static str {
        "schedule"
    }

    fn title(&self) -> &'static str {
        "Schedule"
    }

    fn about(&self) -> &'static str {
        "Every pass with its time, and every tensor from first write to last use, coloured by the memory it shares."
    }

    fn needs(&self) -> Needs {
        Needs { passes: true, ..Needs::default() }
    }

    fn ui(&mut self, ui: &mut egui::Ui, context: &mut ViewContext<'_>) {
        plots::page(ui, |ui| {
            let Some(snapshot) = context.snapshot else { return plots::nothing_yet(ui) };
            if snapshot.schedules.iter().all(|s| s.steps.is_empty()) {
                let hint =
                    "The engine answered without running a program. The schedule appears with its next run.";
                return plots::empty(ui, "Nothing ran", hint);
            }
            let last = snapshot.schedules.len() - 1;
            let shown = self.shown.unwrap_or(last).min(last);
            let schedule = &snapshot.schedules[shown];
            let times = times(snapshot)[shown];
            let height = ui.available_height();
            // Bars that are always in sight: in a narrow tile much of the chart is not.
            ui.spacing_mut().scroll = egui::style::ScrollStyle::thin();
            egui::ScrollArea::vertical().id_salt("page").auto_shrink([false, false]).show(ui, |ui| {
                let top = ui.cursor().top();
                totals(ui, snapshot, schedule, times);
                ui.add_space(4.0);
                self.bar(ui, snapshot, shown, times.is_some());
                ui.add_space(4.0);
                let left = height - (ui.cursor().top() - top);
                self.chart(ui, schedule, times, left.max(LEAST_CHART));
            });
        });
    }
}

/// The times of each schedule's steps. The engine times programs one after the other; what was not timed has none.
fn times(snapshot: &Snapshot) -> Vec<Option<&[StepTime]>> {
    let mut rest = snapshot.timings.steps.as_slice();
    let mut of = |schedule: &Schedule| {
        let steps = &schedule.steps;
        let (first, after) = rest.split_at_checked(steps.len())?;
        let same = first.iter().zip(steps).all(|(time, step)| time.kernel == step.kernel.name);
        (same && !steps.is_empty()).then(|| {
            rest = after;
            first
        })
    };
    snapshot.schedules.iter().map(|schedule| of(schedule)).collect()
}

fn totals(ui: &mut egui::Ui, snapshot: &Snapshot, schedule: &Schedule, times: Option<&[StepTime]>) {
    let (shared, unshared) = (schedule.transient_bytes(), schedule.transient_bytes_unshared());
    let tensors = schedule.spans.iter().filter(|span| span.is_some()).count();
    plots::figures(ui, |ui| {
        plots::figure(ui, "Passes", schedule.steps.len().to_string());
        plots::figure(ui, "Tensors", tensors.to_string());
        plots::figure(ui, "Transients", human_bytes(shared))
            .on_hover_text("Memory of what lives between passes, with tensors sharing it");
        plots::figure(ui, "Without sharing", human_bytes(unshared))
            .on_hover_text("The same tensors with memory of their own each");
        if unshared > 0 {
            let saved = 1.0 - shared as f64 / unshared as f64;
            plots::figure(ui, "Saved", percent(saved));
        }
        plots::figure(ui, "Inputs, constants, outputs", human_bytes(schedule.external_bytes()));
        match times {
            Some(times) => {
                let sum = times.iter().map(|t| t.seconds).sum();
                let source = format!("Sum over passes, by {}", snapshot.timings.source);
                plots::figure(ui, "Time of all passes", seconds(sum)).on_hover_text(source);
            }
            None => {
                plots::figure(ui, "Time of the run", seconds(snapshot.timings.wall_seconds))
                    .on_hover_text("Times of single passes are not in this answer");
            }
        }
    });
}

impl ScheduleView {
    fn bar(&mut self, ui: &mut egui::Ui, snapshot: &Snapshot, shown: usize, timed: bool) {
        ui.horizontal_wrapped(|ui| {
            ui.style_mut().wrap_mode = Some(egui::TextWrapMode::Extend);
            if snapshot.schedules.len() > 1 {
                let label = |index: usize| snapshot.schedules.get(index).map_or("", |s| s.label.as_str());
                let name = ui.label("Program");
                let programs = egui::ComboBox::from_id_salt("program").selected_text(label(shown));
                let programs = programs.show_ui(ui, |ui| {
                    for index in 0..snapshot.schedules.len() {
                        if ui.selectable_label(shown == index, label(index)).clicked() {
                            self.shown = Some(index);
                        }
                    }
                });
                programs.response.labelled_by(name.id);
                next_group(ui, 170.0);
            }
            ui.label("Across");
            ui.selectable_value(&mut self.axis, Axis::Passes, "Passes");
            let time = egui::Button::selectable(self.axis == Axis::Time, "Time");
            let time = ui.add_enabled(timed, time).on_hover_text("Columns as wide as passes are long");
            let time = time.on_disabled_hover_text("This answer has no times of single passes");
            if time.clicked() {
                self.axis = Axis::Time;
            }
            next_group(ui, 130.0);
            ui.label("Rows");
            for (rows, name, about) in Rows::ALL {
                ui.selectable_value(&mut self.rows, rows, name).on_hover_text(about);
            }
            next_group(ui, 150.0);
            let external = egui::Checkbox::new(&mut self.external, "Inputs and constants");
            ui.add_enabled(self.rows != Rows::Slots, external)
                .on_disabled_hover_text("Memory slots hold what lives between passes only");
            next_group(ui, 130.0);
            ui.label("Zoom");
            ui.spacing_mut().slider_width = 80.0;
            let slider = egui::Slider::new(&mut self.zoom, 1.0..=20.0).logarithmic(true).show_value(false);
            let zoom = ui.add(slider);
            if zoom.double_clicked() {
                self.zoom = 1.0;
            }
            zoom.on_hover_text("Wider columns. Double-click to fit");
            let filter =
                egui::TextEdit::singleline(&mut self.filter).hint_text("Filter").desired_width(150.0);
            let about = "Part of a tensor's or a kernel's name: kernels bring the tensors they touch";
            self.jump |= ui.add(filter).on_hover_text(about).changed();
            if !self.filter.is_empty() && ui.button("Clear").clicked() {
                self.filter.clear();
            }
        });
    }

    fn chart(&mut self, ui: &mut egui::Ui, schedule: &Schedule, times: Option<&[StepTime]>, height: f32) {
        let found = Found::new(schedule, &self.filter);
        let rows = self.rows(schedule, &found);
        if rows.is_empty() {
            let hint = "No tensor and no kernel has this in its name.";
            return plots::empty(ui, "Nothing found", hint);
        }
        let by_time = times.filter(|_| self.axis == Axis::Time);
        let steps = schedule.steps.len();
        let names = (0.34 * ui.available_width()).clamp(NAMES.1, NAMES.0);
        let narrowest = if by_time.is_some() { 0.0 } else { NARROWEST * steps as f32 };
        let width = (ui.available_width() - names - 14.0).max(narrowest).max(120.0) * self.zoom;
        let small = FontId::proportional(plots::CAPTION);
        let length = |step: &Step| {
            let name = shortened(step.kernel.name, LETTERS);
            ui.painter().layout_no_wrap(name, small.clone(), Color32::PLACEHOLDER).size().x
        };
        let titles = (schedule.steps.iter().map(length).fold(30.0, f32::max) + 10.0).min(TITLES);
        let chart = Chart {
            names,
            titles,
            schedule,
            times,
            rows,
            found,
            edges: edges(steps, by_time, width),
            by_time: by_time.is_some(),
            slots: self.rows == Rows::Slots,
        };
        let size = vec2(names + width, titles + TIMES + ROW * chart.rows.len() as f32);
        let mut area =
            egui::ScrollArea::both().id_salt("lifetimes").auto_shrink([false, false]).max_height(height);
        if std::mem::take(&mut self.jump) && !self.filter.is_empty() {
            let most = (size.x - ui.available_width()).max(0.0);
            area = area.scroll_offset(vec2((chart.first_found() - NARROWEST).clamp(0.0, most), 0.0));
        }
        area.show_viewport(ui, |ui, seen| {
            ui.set_min_size(size);
            let origin = ui.min_rect().min;
            chart.draw(ui, origin, seen.translate(origin.to_vec2()));
        });
    }

    fn rows(&self, schedule: &Schedule, found: &Found) -> Vec<Row> {
        if self.rows == Rows::Slots {
            return schedule
                .slots
                .iter()
                .enumerate()
                .filter(|(_, slot)| slot.tensors.iter().any(|&id| found.tensors[id as usize]))
                .map(|(index, slot)| Row {
                    name: format!("Slot {index}"),
                    detail: counted(slot.tensors.len(), "tensor", "tensors"),
                    bytes: slot.bytes,
                    tensors: slot.tensors.iter().map(|&id| id as usize).collect(),
                })
                .collect();
        }
        let wanted = |id: usize| {
            let external = matches!(schedule.tensors[id].kind, Kind::Input | Kind::Constant);
            found.tensors[id] && (self.external || !external)
        };
        let mut ids: Vec<(usize, (usize, usize))> = (0..schedule.tensors.len())
            .filter_map(|id| schedule.spans[id].filter(|_| wanted(id)).map(|span| (id, span)))
            .collect();
        match self.rows {
            Rows::Size => {
                ids.sort_by_key(|&(id, span)| (std::cmp::Reverse(device_bytes(&schedule.tensors[id])), span));
            }
            _ => ids.sort_by_key(|&(id, span)| (span, id)),
        }
        let row = |(id, _): (usize, (usize, usize))| {
            let info = &schedule.tensors[id];
            Row {
                name: info.name.clone(),
                detail: info.shape.to_string(),
                bytes: device_bytes(info),
                tensors: vec![id],
            }
        };
        ids.into_iter().map(row).collect()
    }
}

/// Begins the next group of the bar, `width` points wide: behind a line, or on a line of its own where it would be cut.
fn next_group(ui: &mut egui::Ui, width: f32) {
    if ui.available_size_before_wrap().x < width + 16.0 {
        ui.end_row();
        ui.set_row_height(ui.spacing().interact_size.y);
    } else {
        ui.separator();
    }
}

/// What the filter leaves.
struct Found {
    tensors: Vec<bool>,
    steps: Vec<bool>,
}

impl Found {
    fn new(schedule: &Schedule, filter: &str) -> Self {
        let wanted = filter.trim().to_lowercase();
        let has = |name: &str| name.to_lowercase().contains(&wanted);
        let mut tensors: Vec<bool> =
            schedule.tensors.iter().map(|info| info.base.is_none() && has(&info.name)).collect();
        let steps: Vec<bool> =
            schedule.steps.iter().map(|step| !wanted.is_empty() && has(step.kernel.name)).collect();
        for (step, _) in schedule.steps.iter().zip(&steps).filter(|(_, found)| **found) {
            step.reads().chain(step.writes()).for_each(|t| tensors[schedule.base(t).0 as usize] = true);
        }
        Self { tensors, steps }
    }
}

/// A line of the chart.
struct Row {
    name: String,
    detail: String,
    bytes: u64,
    tensors: Vec<usize>,
}

/// Where the columns of passes begin, and where the last ends, in points.
fn edges(steps: usize, times: Option<&[StepTime]>, width: f32) -> Vec<f32> {
    let total: f64 = times.map_or(0.0, |times| times.iter().map(|t| t.seconds).sum());
    match times {
        Some(times) if total > 0.0 => {
            let mut at = 0.0;
            let ends = times.iter().map(|time| {
                at += time.seconds;
                (at / total) as f32 * width
            });
            std::iter::once(0.0).chain(ends).collect()
        }
        _ => (0..=steps).map(|i| width * i as f32 / steps.max(1) as f32).collect(),
    }
}

/// Everything that is drawn.
struct Chart<'a> {
    schedule: &'a Schedule,
    times: Option<&'a [StepTime]>,
    rows: Vec<Row>,
    found: Found,
    edges: Vec<f32>,
    names: f32,
    titles: f32,
    by_time: bool,
    slots: bool,
}

/// The colours and fonts of a chart.
struct Ink {
    text: Color32,
    weak: Color32,
    line: Color32,
    back: Color32,
    stripe: Color32,
    mark: Color32,
    time: Color32,
    body: FontId,
    small: FontId,
}

impl Ink {
    fn of(ui: &egui::Ui) -> Self {
        let visuals = ui.visuals();
        Self {
            text: visuals.text_color(),
            weak: visuals.weak_text_color(),
            line: visuals.widgets.noninteractive.bg_stroke.color.gamma_multiply(0.7),
            back: visuals.panel_fill,
            stripe: visuals.faint_bg_color,
            mark: visuals.selection.bg_fill.gamma_multiply(0.35),
            time: Series::Main.colour(visuals),
            body: egui::TextStyle::Body.resolve(ui.style()),
            small: FontId::proportional(plots::CAPTION),
        }
    }
}

impl Chart<'_> {
    /// Draws what of the chart at `origin` lies in `seen`; names and passes stay in sight.
    fn draw(&self, ui: &mut egui::Ui, origin: Pos2, seen: Rect) {
        let ink = Ink::of(ui);
        let response = ui.interact(seen, ui.scope_id().with("chart"), egui::Sense::hover());
        let body = Rect::from_min_max(seen.min + vec2(self.names, self.titles + TIMES), seen.max);
        let head = Rect::from_min_max(pos2(body.left(), seen.top()), pos2(seen.right(), body.top()));
        let left = origin.x + self.names;
        let top = origin.y + self.titles + TIMES;
        let pointer = response.hover_pos();
        let step = pointer.filter(|at| at.x >= body.left()).and_then(|at| self.step_at(at.x - left));
        let line = pointer.filter(|at| at.y >= body.top()).map(|at| ((at.y - top) / ROW).floor() as usize);
        let row = line.filter(|line| *line < self.rows.len());

        self.draw_lines(ui, &ink, body, top, row);
        self.draw_columns(ui, &ink, Rect::from_min_max(head.min, body.max), left, step);
        self.draw_bars(ui, &ink, body, (left, top));
        self.draw_head(ui, &ink, head, left, step);
        self.draw_names(ui, &ink, seen, top, row);
        let axis = if self.by_time { "Time →" } else { "Pass →" };
        let corner = pos2(seen.left() + 4.0, body.top() - 6.0);
        ui.painter().text(
            corner,
            Align2::LEFT_BOTTOM,
            if self.slots { "Memory slot" } else { "Tensor" },
            ink.small.clone(),
            ink.weak,
        );
        let corner = pos2(body.left() - 8.0, body.top() - 6.0);
        ui.painter().text(corner, Align2::RIGHT_BOTTOM, axis, ink.small.clone(), ink.weak);

        let over = row.zip(step).and_then(|(row, step)| self.tensor_at(row, step));
        let named = row.filter(|_| step.is_none()).and_then(|row| self.rows[row].tensors.first().copied());
        match (over.or(named), step) {
            (Some(id), _) => {
                response.on_hover_ui_at_pointer(|ui| self.tensor_card(ui, id));
            }
            (None, Some(step)) => {
                response.on_hover_ui_at_pointer(|ui| self.pass_card(ui, step));
            }
            _ => {}
        }
    }

    /// Where the first bar begins.
    fn first_found(&self) -> f32 {
        let spans = self.rows.iter().flat_map(|row| &row.tensors).filter_map(|&id| self.schedule.spans[id]);
        spans
            .map(|(from, _)| self.edges[from])
            .fold(f32::INFINITY, f32::min)
            .min(self.edges[self.edges.len() - 1])
    }

    fn step_at(&self, x: f32) -> Option<usize> {
        let after = self.edges.partition_point(|edge| *edge <= x);
        (after > 0 && after < self.edges.len()).then(|| after - 1)
    }

    fn tensor_at(&self, row: usize, step: usize) -> Option<usize> {
        let alive = |id: &&usize| self.schedule.spans[**id].is_some_and(|(a, b)| (a..=b).contains(&step));
        self.rows[row].tensors.iter().find(alive).copied()
    }

    fn draw_lines(&self, ui: &egui::Ui, ink: &Ink, body: Rect, top: f32, hovered: Option<usize>) {
        let painter = ui.painter().with_clip_rect(body.intersect(ui.clip_rect()));
        for index in self.lines_in(body, top) {
            let y = top + ROW * index as f32;
            let line = Rect::from_x_y_ranges(body.x_range(), y..=y + ROW);
            if Some(index) == hovered {
                painter.rect_filled(line, 0.0, ink.mark);
            } else if index % 2 == 1 {
                painter.rect_filled(line, 0.0, ink.stripe);
            }
        }
    }

    fn lines_in(&self, body: Rect, top: f32) -> std::ops::Range<usize> {
        let line = |y: f32| ((y - top) / ROW).max(0.0) as usize;
        line(body.top())..(line(body.bottom()) + 1).min(self.rows.len())
    }

    fn draw_columns(&self, ui: &egui::Ui, ink: &Ink, space: Rect, left: f32, hovered: Option<usize>) {
        let painter = ui.painter().with_clip_rect(space.intersect(ui.clip_rect()));
        for (index, pair) in self.edges.windows(2).enumerate() {
            let column = Rect::from_x_y_ranges(left + pair[0]..=left + pair[1], space.y_range());
            if !column.intersects(space) {
                continue;
            }
            if Some(index) == hovered || self.found.steps[index] {
                painter.rect_filled(column, 0.0, ink.mark);
            }
            painter.vline(column.right(), space.y_range(), Stroke::new(0.5, ink.line));
        }
    }

    fn draw_bars(&self, ui: &egui::Ui, ink: &Ink, body: Rect, (left, top): (f32, f32)) {
        let painter = ui.painter().with_clip_rect(body.intersect(ui.clip_rect()));
        let last = self.schedule.steps.len().saturating_sub(1);
        for index in self.lines_in(body, top) {
            let y = top + ROW * index as f32;
            for &id in &self.rows[index].tensors {
                let Some((from, to)) = self.schedule.spans[id] else { continue };
                let bar = |from: usize, to: usize| {
                    let (a, b) = (left + self.edges[from], left + self.edges[to + 1]);
                    Rect::from_min_max(pos2(a + 1.0, y + 3.0), pos2((b - 1.0).max(a + 2.0), y + ROW - 3.0))
                };
                let colour = self.colour(ui, id);
                // What the caller owns is there before and after: paler where no pass touches it.
                let pale = match self.schedule.tensors[id].kind {
                    Kind::Input | Kind::Constant => Some((0, to)),
                    Kind::Output => Some((from, last)),
                    Kind::Transient => None,
                };
                if let Some((from, to)) = pale {
                    painter.rect_filled(bar(from, to), CornerRadius::same(3), colour.gamma_multiply(0.3));
                }
                let rect = bar(from, to);
                painter.rect_filled(rect, CornerRadius::same(3), colour);
                let shown = rect.intersect(body);
                if self.slots && shown.width() > 34.0 {
                    let name = &self.schedule.tensors[id].name;
                    let ink_on = plots::text_on(colour);
                    let clipped =
                        painter.with_clip_rect(shown.shrink2(vec2(3.0, 0.0)).intersect(painter.clip_rect()));
                    let at = pos2(shown.left() + 4.0, rect.center().y);
                    clipped.text(at, Align2::LEFT_CENTER, name, ink.small.clone(), ink_on);
                }
            }
        }
    }

    fn colour(&self, ui: &egui::Ui, id: usize) -> Color32 {
        match (self.schedule.tensors[id].kind, self.schedule.slot_of[id]) {
            (Kind::Transient, Some(slot)) => Series::Numbered(slot).colour(ui.visuals()),
            (Kind::Output, _) => ui.visuals().strong_text_color(),
            _ => Series::Quiet.colour(ui.visuals()),
        }
    }

    fn draw_head(&self, ui: &egui::Ui, ink: &Ink, head: Rect, left: f32, hovered: Option<usize>) {
        let painter = ui.painter().with_clip_rect(head.intersect(ui.clip_rect()));
        painter.rect_filled(head, 0.0, ink.back);
        self.draw_columns(ui, ink, head, left, hovered);
        let longest = self.times.map_or(0.0, |times| times.iter().map(|t| t.seconds).fold(0.0, f64::max));
        let mut free_from = f32::NEG_INFINITY;
        for (index, pair) in self.edges.windows(2).enumerate() {
            let (a, b) = (left + pair[0], left + pair[1]);
            if b < head.left() || a > head.right() {
                continue;
            }
            if let Some(time) = self.times.and_then(|times| times.get(index)).filter(|_| longest > 0.0) {
                let height = ((time.seconds / longest) as f32 * (TIMES - 6.0)).max(1.0);
                let bar = Rect::from_min_max(
                    pos2(a + 1.0, head.bottom() - 2.0 - height),
                    pos2((b - 1.0).max(a + 1.5), head.bottom() - 2.0),
                );
                painter.rect_filled(bar, 1.0, ink.time);
            }
            // In a chart by time columns can be narrower than a letter: names are left out, never laid over each other.
            let middle = 0.5 * (a + b);
            if middle - free_from < 0.9 * ink.small.size {
                continue;
            }
            free_from = middle;
            let name = shortened(self.schedule.steps[index].kernel.name, LETTERS);
            let colour = if Some(index) == hovered || self.found.steps[index] { ink.text } else { ink.weak };
            let galley = painter.layout_no_wrap(name, ink.small.clone(), colour);
            let at = pos2(middle - 0.5 * galley.size().y, head.bottom() - TIMES - 2.0);
            painter.add(egui::epaint::TextShape::new(at, galley, colour).with_angle(-FRAC_PI_2));
        }
        painter.hline(head.x_range(), head.bottom(), Stroke::new(1.0, ink.line));
    }

    fn draw_names(&self, ui: &egui::Ui, ink: &Ink, seen: Rect, top: f32, hovered: Option<usize>) {
        let column = Rect::from_min_max(seen.min, pos2(seen.left() + self.names, seen.bottom()));
        let painter = ui.painter().with_clip_rect(column.intersect(ui.clip_rect()));
        painter.rect_filled(column, 0.0, ink.back);
        let below = Rect::from_min_max(pos2(seen.left(), seen.top() + self.titles + TIMES), column.max);
        self.draw_lines(ui, ink, below, top, hovered);
        let painter = painter.with_clip_rect(below.intersect(ui.clip_rect()));
        for index in self.lines_in(below, top) {
            let row = &self.rows[index];
            let y = top + ROW * (index as f32 + 0.5);
            let right = column.right() - 8.0;
            // In a narrow column the names need all of it; the card of a tensor has its size.
            let end = if self.names < NAMES_AND_SIZES {
                right + 4.0
            } else {
                let bytes = human_bytes(row.bytes);
                let bytes =
                    painter.text(pos2(right, y), Align2::RIGHT_CENTER, bytes, ink.small.clone(), ink.weak);
                bytes.left().min(right - 58.0) - 8.0
            };
            let clipped = painter.with_clip_rect(
                Rect::from_x_y_ranges(below.left()..=end, below.y_range()).intersect(painter.clip_rect()),
            );
            let name = pos2(below.left() + 4.0, y);
            let name =
                clipped.text(name, Align2::LEFT_CENTER, shortened(&row.name, 24), ink.body.clone(), ink.text);
            clipped.text(
                pos2(name.right() + 8.0, y),
                Align2::LEFT_CENTER,
                &row.detail,
                ink.small.clone(),
                ink.weak,
            );
        }
        ui.painter().vline(column.right(), seen.y_range(), Stroke::new(1.0, ink.line));
        ui.painter().hline(column.x_range(), below.top(), Stroke::new(1.0, ink.line));
    }

    fn name(&self, id: usize) -> &str {
        self.schedule.tensors.get(id).map_or("?", |info| &info.name)
    }

    fn names<'s>(&'s self, tensors: impl Iterator<Item = crate::tensor::Tensor> + 's) -> String {
        let mut names: Vec<&str> = tensors.map(|t| self.name(self.schedule.base(t).0 as usize)).collect();
        names.dedup();
        if names.is_empty() { "–".into() } else { names.join(", ") }
    }

    fn pass_card(&self, ui: &mut egui::Ui, index: usize) {
        let step: &Step = &self.schedule.steps[index];
        ui.set_width(CARD);
        ui.label(RichText::new(format!("Pass {index}: {}", step.kernel.name)).strong());
        // Signs that no font here has.
        let formula = step.kernel.formula.replace('\u{302}', "^").replace('∗', "*").replace('∛', "³√");
        let size = egui::TextStyle::Body.resolve(ui.style()).size;
        ui.add(egui::Label::new(formula_layout(&formula, size, ui.visuals().text_color())).wrap());
        ui.add_space(4.0);
        let mut line = |caption: &str, value: String| fact(ui, caption, &value);
        if let Some(time) = self.times.and_then(|times| times.get(index)) {
            let all: f64 = self.times.into_iter().flatten().map(|t| t.seconds).sum();
            let share = if all > 0.0 { time.seconds / all } else { 0.0 };
            line("Variant", time.variant.into());
            line("Time", format!("{}, {} of all passes", seconds(time.seconds), percent(share)));
        }
        let cost = (step.kernel.cost)(&step.dims, &step.params);
        line("Moves at least", human_bytes(cost.bytes.max(0.0) as u64));
        line("Work", format!("{} floating-point operations", number(cost.flop)));
        let sizes: Vec<String> = step.dims.iter().map(|(name, size)| format!("{name} = {size}")).collect();
        line("Sizes", sizes.join(", "));
        line("Reads", self.names(step.reads()));
        line("Writes", self.names(step.writes()));
    }

    fn tensor_card(&self, ui: &mut egui::Ui, id: usize) {
        let info = &self.schedule.tensors[id];
        ui.set_width(CARD);
        ui.label(RichText::new(&info.name).strong());
        let touching = |write: bool| {
            let mut names: Vec<String> = Vec::new();
            for (index, step) in self.schedule.steps.iter().enumerate() {
                let uses = |t: crate::tensor::Tensor| self.schedule.base(t).0 as usize == id;
                let does = if write { step.writes().any(uses) } else { step.reads().any(uses) };
                if does {
                    names.push(format!("{index} {}", step.kernel.name));
                }
            }
            let more = names.len().saturating_sub(6);
            names.truncate(6);
            if more > 0 {
                names.push(format!("{more} more"));
            }
            if names.is_empty() { "–".into() } else { names.join(", ") }
        };
        let place = match (info.kind, self.schedule.slot_of[id]) {
            (Kind::Transient, Some(slot)) => match self.schedule.slots[slot].tensors.len() {
                1 => format!("slot {slot}, alone"),
                all => format!("slot {slot}, shared by {all} tensors"),
            },
            (Kind::Transient, None) => "nowhere".into(),
            (Kind::Input, _) => "an input: the caller's".into(),
            (Kind::Constant, _) => "a constant of the program".into(),
            (Kind::Output, _) => "an output: kept after the run".into(),
        };
        let mut line = |caption: &str, value: String| fact(ui, caption, &value);
        line("Shape", format!("{} {:?}", info.shape, info.dtype));
        line("Size", human_bytes(device_bytes(info)));
        line("Memory", place);
        if let Some((from, to)) = self.schedule.spans[id] {
            let passes = if from == to { format!("pass {from}") } else { format!("pass {from} to {to}") };
            line("In use", passes);
        }
        line("Written by", touching(true));
        line("Read by", touching(false));
    }
}

/// A line of a card: what it is, and the value, which wraps beside it.
fn fact(ui: &mut egui::Ui, caption: &str, value: &str) {
    ui.horizontal_top(|ui| {
        let height = ui.text_style_height(&egui::TextStyle::Body);
        let layout = egui::Layout::left_to_right(egui::Align::Min);
        ui.allocate_ui_with_layout(vec2(FACTS, height), layout, |ui| {
            ui.set_min_width(FACTS);
            ui.label(RichText::new(caption).weak());
        });
        ui.add(egui::Label::new(value).wrap());
    });
}

/// The beginning of a name, with an ellipsis where it goes on.
fn shortened(name: &str, letters: usize) -> String {
    if name.chars().count() <= letters {
        return name.into();
    }
    let mut short: String = name.chars().take(letters.saturating_sub(1)).collect();
    short.push('…');
    short
}
