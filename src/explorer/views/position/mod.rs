//! Stochastic position codes: the template that they have by their parameters and in a draw of R realisations, how far apart the two
//! are and should be, and what the code does to the map of the clicked pixel.
//!
//! `found` works the template out, `map` the maps, each on a thread of its own; `controls` are the view's settings, `plot` draws curves.

mod controls;
mod found;
mod map;
mod plot;

use super::edges::{self, Cells};
use super::network::{child, column, tabs};
use super::picture::{bar_of, caption, draw_marker, grid_rect, note, shot, show_layer_in};
use super::plots;
use super::{TourPage, View, ViewContext};
use crate::explorer::background::Background;
use crate::explorer::canvas::{Drag, WHOLE};
use crate::explorer::command::{self, Copied, Input};
use crate::explorer::document::Document;
use crate::explorer::position::{Axes, Kernel, PositionSettings};
use crate::explorer::settings::{Colours, Look, Settings};
use crate::explorer::tokens::Shot;
use crate::explorer::widgets::BarColours;
use crate::numbers::{grouped, percent, significant};
use crate::position::Mode;
use crate::vision::grid::TokenGrid;
use crate::vision::palette::Palette;
use eframe::egui::{self, Color32, Rect, Sense, Stroke, StrokeKind, Vec2, pos2, vec2};
use found::{CodeQuestion, Found};
use glam::UVec2;
use map::{Finder, Maps, Question};
use std::sync::Arc;

#[cfg(test)]
pub(in crate::explorer) use map::row_of;

/// A part of the view where there is no room for all of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Part {
    #[default]
    Maps,
    Template,
    Lags,
    Noise,
    Figures,
}

/// Which map.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Which {
    Plain,
    Exact,
    Coded,
}

/// Least size of the view that has room for all of it at once.
const ROOMY: Vec2 = vec2(760.0, 520.0);

/// Space between two parts.
const GAP: f32 = 4.0;

/// Height of the figures at the foot, in points.
const FOOT: f32 = 44.0;

/// The view.
#[derive(Debug)]
pub(super) struct PositionView {
    part: Part,
    codes: Background<CodeQuestion, Found>,
    maps: Background<Question, Maps>,
    /// What was asked for last of the maps.
    asked: Option<Question>,
    /// Whether the picture in sight has more tokens than codes are drawn for here.
    reduced: bool,
    cells: [Cells; 3],
    templates: [Cells; 2],
}

impl Default for PositionView {
    fn default() -> Self {
        let (mut finder, mut count) = (Finder::default(), 0);
        let codes = move |asked: &CodeQuestion, go_on: &dyn Fn() -> bool| {
            count += 1;
            found::find(asked, count, go_on)
        };
        Self {
            part: Part::default(),
            codes: Background::new(Box::new(codes)),
            maps: Background::new(Box::new(move |asked, go_on| finder.answer(asked, go_on))),
            asked: None,
            reduced: false,
            cells: Default::default(),
            templates: Default::default(),
        }
    }
}

impl View for PositionView {
    fn id(&self) -> &'static str {
        "position"
    }

    fn title(&self) -> &'static str {
        "Position"
    }

    fn about(&self) -> &'static str {
        "Stochastic position codes: the template exact and drawn, its noise predicted and measured, the map with and without."
    }

    fn has_controls(&self) -> bool {
        true
    }

    fn controls(&mut self, ui: &mut egui::Ui, context: &mut ViewContext<'_>) {
        let heads = context.settings.compute.heads;
        controls::show(ui, &mut context.settings.position, heads);
    }

    fn is_busy(&self) -> bool {
        self.codes.is_busy() || self.maps.is_busy()
    }

    fn command(&self, document: &Document, input: &Result<Input, String>) -> Option<Result<Copied, String>> {
        let max_tokens = match self.reduced {
            true => map::MOST_TOKENS,
            false => document.settings.compute.max_tokens,
        };
        Some(input.clone().and_then(|input| command::position(document, &input, max_tokens)))
    }

    fn ui(&mut self, ui: &mut egui::Ui, context: &mut ViewContext<'_>) {
        let space = ui.available_rect_before_wrap();
        ui.allocate_rect(space, Sense::hover());
        ui.painter().rect_filled(space, 0.0, ui.visuals().extreme_bg_color);
        let settings = context.settings.position.clone();
        self.codes.ask(ui.ctx(), CodeQuestion::of(&settings));
        let problem = self.ask_for_maps(ui, context, &settings);
        match space.size().min(ROOMY) == ROOMY {
            true => self.everything(ui, context, problem.as_deref(), space),
            false => self.one_part(ui, context, problem.as_deref(), space),
        }
    }

    fn tour(&self) -> Vec<TourPage> {
        vec![TourPage {
            title: "Positions by common noise",
            formula: "code(qᵢ) · code(kⱼ) / √R ≈ Σ qᵢ P(i − j) kⱼ / √D",
            text: "Linear attention never sees a pair of tokens, so it cannot weigh one by how far apart they are. But it can multiply \
                   queries and keys with noise that they have in common, made such that the noise at two places is as alike as \
                   a template P says for their distance.\n\n\
                   The blue curve is that template, the orange one what R draws make of it. The pictures above are the map \
                   without the code, with the template itself, and with the draws. Press Redraw: what changes is noise. Four \
                   times as many realisations halve it, and the plot at the right has the formula beside the measurement.\n\n\
                   Open the gate: a dimension then ignores positions in part. Choose filters: their template ends after their \
                   length.",
            prepare: |settings: &mut Settings| settings.position = PositionSettings::default(),
        }]
    }
}

impl PositionView {
    /// Asks for the maps; why there can be none.
    fn ask_for_maps(
        &mut self,
        ui: &egui::Ui,
        context: &ViewContext<'_>,
        settings: &PositionSettings,
    ) -> Option<String> {
        let shot = match shot(context) {
            None => return Some("No picture yet. Open one with Ctrl+O, or drop a file here.".into()),
            Some(Err(why)) => return Some(why),
            Some(Ok(shot)) => shot,
        };
        self.reduced = shot.grid.tokens() > map::MOST_TOKENS;
        let shot = match fewer(shot, context) {
            Ok(shot) => shot,
            Err(why) => return Some(why),
        };
        let query = match shot.grid.token_at(*context.query) {
            Ok(token) => token as u32,
            Err(why) => return Some(why.to_string()),
        };
        // The dimension whose template is shown makes no other map.
        let settings = PositionSettings { dimension: 0, ..settings.clone() };
        let question = Question { settings, shot, heads: context.settings.compute.heads, query };
        // A live picture is another one with every frame: it waits until the last one is answered, or none ever would be.
        let only_the_photo = self.asked.as_ref().is_some_and(|asked| {
            Question { shot: question.shot.clone(), ..asked.clone() } == question
                && asked.shot.grid == question.shot.grid
        });
        if !(only_the_photo && self.maps.is_busy()) {
            self.asked = Some(question.clone());
        }
        self.maps.ask(ui.ctx(), self.asked.clone().unwrap_or(question));
        self.maps.failure().map(str::to_string)
    }

    /// Everything at once: maps above, curves below.
    fn everything(
        &mut self,
        ui: &mut egui::Ui,
        context: &mut ViewContext<'_>,
        problem: Option<&str>,
        space: Rect,
    ) {
        let (space, foot) = space.split_top_bottom_at_y(space.bottom() - FOOT);
        let (above, below) = space.split_top_bottom_at_y(space.top() + 0.5 * space.height());
        self.all_maps(ui, context, problem, above.with_max_y(above.bottom() - GAP));
        ui.painter().rect_filled(below.union(foot), 0.0, ui.visuals().panel_fill);
        let line = ui.visuals().widgets.noninteractive.bg_stroke;
        ui.painter().hline(below.x_range(), below.top(), line);
        let Some(found) = self.found(ui, below) else { return };
        let maps = self.maps.shown().filter(|_| problem.is_none()).cloned();
        let inner = |space: Rect| space.shrink2(vec2(10.0, 8.0));
        let (left, middle, right) = match found.settings.axes {
            Axes::Picture => (column(below, 0, 3), Some(column(below, 1, 3)), column(below, 2, 3)),
            Axes::Line => {
                let (left, right) = below.split_left_right_at_fraction(2.0 / 3.0);
                (left, None, right)
            }
        };
        plot::template(&mut child(ui, inner(left)), &found);
        if let Some(middle) = middle {
            self.lags(ui, context, &found, inner(middle));
        }
        plot::errors(&mut child(ui, inner(right)), &found, maps.as_deref());
        ui.painter().hline(foot.x_range(), foot.top(), line);
        figures(&mut child(ui, foot.shrink2(vec2(10.0, 5.0))), &found, maps.as_deref());
    }

    /// One part, and buttons for the others.
    fn one_part(
        &mut self,
        ui: &mut egui::Ui,
        context: &mut ViewContext<'_>,
        problem: Option<&str>,
        space: Rect,
    ) {
        let parts = [
            (Part::Maps, "Maps"),
            (Part::Template, "Template"),
            (Part::Lags, "Lags"),
            (Part::Noise, "Noise"),
            (Part::Figures, "Figures"),
        ];
        let rest = tabs(ui, space, &mut self.part, &parts);
        if self.part == Part::Maps {
            return self.all_maps(ui, context, problem, rest);
        }
        ui.painter().rect_filled(rest, 0.0, ui.visuals().panel_fill);
        let Some(found) = self.found(ui, rest) else { return };
        let maps = self.maps.shown().filter(|_| problem.is_none()).cloned();
        let inside = rest.shrink(10.0);
        match self.part {
            Part::Template => plot::template(&mut child(ui, inside), &found),
            Part::Lags => match found.settings.axes {
                Axes::Picture => self.lags(ui, context, &found, inside),
                Axes::Line => {
                    note(ui, rest, "Positions on one axis have one lag: see the curve under Template.");
                }
            },
            Part::Noise => plot::errors(&mut child(ui, inside), &found, maps.as_deref()),
            Part::Figures | Part::Maps => {
                let mut ui = child(ui, inside);
                let area = egui::ScrollArea::vertical().auto_shrink([false, false]);
                area.show(&mut ui, |ui| figures(ui, &found, maps.as_deref()));
            }
        }
    }

    /// The template, or a word in its place.
    fn found(&self, ui: &egui::Ui, space: Rect) -> Option<Arc<Found>> {
        if let Some(why) = self.codes.failure() {
            note(ui, space, why);
            return None;
        }
        let found = self.codes.shown().cloned();
        if found.is_none() {
            note(ui, space, "Drawing the code…");
        }
        found
    }

    /// The maps side by side.
    fn all_maps(
        &mut self,
        ui: &mut egui::Ui,
        context: &mut ViewContext<'_>,
        problem: Option<&str>,
        space: Rect,
    ) {
        let all: &[Which] = match context.settings.position.kernel {
            Kernel::Softmax => &[Which::Plain, Which::Exact, Which::Coded],
            _ => &[Which::Plain, Which::Coded],
        };
        if let Some(why) = problem {
            return note(ui, space, why);
        }
        let ratio =
            context.textures.photo().map_or(1.0, |photo| photo.size.x as f32 / photo.size.y.max(1) as f32);
        for (which, space) in all.iter().zip(places(space, all.len(), ratio)) {
            self.map(ui, context, *which, space);
        }
    }

    fn map(&mut self, ui: &mut egui::Ui, context: &mut ViewContext<'_>, which: Which, space: Rect) {
        let grid = self.asked.as_ref().map(|asked| asked.shot.grid.clone());
        let fits = |maps: &&Arc<Maps>| Some(&maps.shot.grid) == grid.as_ref();
        let maps = self.maps.shown().filter(fits).cloned();
        let row = maps.as_ref().map(|maps| match which {
            Which::Plain => maps.plain.as_deref(),
            Which::Coded => maps.coded.as_deref(),
            Which::Exact => maps.exact.as_deref(),
        });
        let name = match (which, &maps) {
            (Which::Plain, _) => "Without the code".to_string(),
            (Which::Exact, _) => "Exact template".to_string(),
            (Which::Coded, Some(maps)) => format!("With the code   R = {}", maps.settings.realizations),
            (Which::Coded, None) => "With the code".to_string(),
        };
        if let Some(Err(why)) = row {
            note(ui, space, why);
            return context.canvas.texts.push(caption(ui, space, &name));
        }
        let id = ui.scope_id().with(("position", which as usize));
        let Some(placed) = show_layer_in(ui, context, id, &[], Drag::Pan, space) else { return };
        let (Some(maps), Some(Ok(row))) = (&maps, row) else {
            context.canvas.texts.push(caption(ui, space, &name));
            return note(ui, space, "Computing the maps…");
        };
        let painter = ui.painter_at(space);
        if context.canvas.peek {
            return context.canvas.texts.push(caption(ui, space, &name));
        }
        let look = context.settings.look.clone();
        let (colours, log) = (edges::colours(&look), look.log);
        let largest = row.iter().copied().fold(0.0, f64::max);
        let key = maps.number << 2 | u64::from(log) << 1 | u64::from(colours == BarColours::Grey);
        let cells = &mut self.cells[which as usize];
        let texture = cells.texture(ui.ctx(), &name, maps.shot.sides(), (key, look.smooth), || {
            row.iter().map(|w| colours.at(edges::place(*w, largest, log).unwrap_or(0.0))).collect()
        });
        let tint = Color32::from_white_alpha((look.opacity.clamp(0.0, 1.0) * 255.0).round() as u8);
        let inside = painter.with_clip_rect(space.intersect(placed.rect));
        inside.image(texture, grid_rect(&maps.shot.grid, &placed), WHOLE, tint);
        draw_marker(&painter, context, &placed);
        context.canvas.texts.push(caption(ui, space, &name));
        let ends = [significant(edges::least(largest, log), 2), significant(largest, 2)];
        let middle = if log { "log scale" } else { "weight" };
        context.canvas.texts.extend(bar_of(&painter, |t| colours.at(t), ends, middle));
        if context.canvas.under_pointer == Some(space)
            && let Some(pixel) = context.canvas.hover.take()
            && !ui.input(|i| i.pointer.any_down())
        {
            // The window would tell the numbers of another map, which is not here.
            tell(ui, id, maps, pixel);
        }
    }

    /// The templates over both lags: exact and drawn.
    fn lags(&mut self, ui: &mut egui::Ui, context: &ViewContext<'_>, found: &Found, space: Rect) {
        let colours = signed(&context.settings.look);
        let all = found.exact.iter().chain(&found.drawn);
        let most = all.fold(0.0_f64, |most, p| most.max(p.abs()));
        let mut inside = child(ui, space);
        inside.horizontal_wrapped(|ui| ui.strong("Template over both lags"));
        let half = found.half;
        let words = format!("Down and across, −{half}…{half} tokens; blue below 0, red above.");
        let words = if colours == BarColours::Grey {
            format!("Down and across, −{half}…{half} tokens.")
        } else {
            words
        };
        inside.add(egui::Label::new(plots::caption(words)).wrap());
        let left = inside.available_rect_before_wrap();
        let foot = 30.0;
        let side = ((left.width() - 10.0) / 2.0).min(left.height() - foot - 16.0).max(20.0);
        let start = left.left() + (0.5 * (left.width() - 2.0 * side - 10.0)).max(0.0);
        let key = found.number << 1 | u64::from(colours == BarColours::Grey);
        let font = egui::FontId::proportional(plots::CAPTION);
        let parts = [("Exact", &found.exact), ("Drawn", &found.drawn)];
        for (i, (name, values)) in parts.into_iter().enumerate() {
            let at = pos2(start + i as f32 * (side + 10.0), left.top() + 16.0);
            let rect = Rect::from_min_size(at, Vec2::splat(side));
            let place = |p: f64| if most > 0.0 { 0.5 + 0.5 * p / most } else { 0.5 };
            let texture =
                self.templates[i].texture(ui.ctx(), name, [found.side(), found.side()], (key, false), || {
                    values.iter().map(|p| colours.at(place(*p))).collect()
                });
            let painter = ui.painter_at(space);
            let title = match i {
                0 => name.to_string(),
                _ => format!("{name}, R = {}", found.settings.realizations),
            };
            let ink = ui.visuals().text_color();
            painter.text(
                rect.left_top() - vec2(0.0, 3.0),
                egui::Align2::LEFT_BOTTOM,
                &title,
                font.clone(),
                ink,
            );
            painter.image(texture, rect, WHOLE, Color32::WHITE);
            painter.rect_stroke(
                rect,
                0.0,
                ui.visuals().widgets.noninteractive.bg_stroke,
                StrokeKind::Outside,
            );
            // The cell of lag 0.
            let cell = Rect::from_center_size(rect.center(), Vec2::splat(side / found.side() as f32 + 3.0));
            painter.rect_stroke(cell, 0.0, Stroke::new(1.0, Color32::BLACK), StrokeKind::Outside);
            let response = ui.interact(rect, ui.scope_id().with(("template", i)), Sense::hover());
            let (least, largest) = ends(values);
            let told = format!(
                "Template over both lags, {name}: from {} to {}",
                significant(least, 2),
                significant(largest, 2)
            );
            response.widget_info(|| egui::WidgetInfo::labeled(egui::Role::Image, true, &told));
            let Some(pointer) = response.hover_pos() else { continue };
            let share = (pointer - rect.min) / side * found.side() as f32;
            let index = |x: f32| (x.max(0.0) as usize).min(found.side() - 1);
            let (row, col) = (index(share.y), index(share.x));
            let cell = row * found.side() + col;
            response.on_hover_text_at_pointer(format!(
                "query {:+} down, {:+} across from the key\nexact {}\ndrawn {}, standard deviation {}",
                row as i64 - i64::from(half),
                col as i64 - i64::from(half),
                significant(found.exact[cell], 3),
                significant(found.drawn[cell], 3),
                significant(found.deviations[cell], 2),
            ));
        }
        let bar = Rect::from_min_size(pos2(start, left.top() + side + 22.0), vec2(2.0 * side + 10.0, foot));
        let sign = if most > 0.0 { "−" } else { "" };
        let ends = Some((format!("{sign}{}", significant(most, 2)), significant(most, 2)));
        let hover = "Colours of the two templates, the same for both.";
        crate::explorer::widgets::colour_bar(&mut child(ui, bar), colours, ends, hover);
    }
}

/// The picture in as many tokens as codes are drawn for: larger ones where those of the map are too many.
fn fewer(shot: Shot, context: &ViewContext<'_>) -> Result<Shot, String> {
    if shot.grid.tokens() <= map::MOST_TOKENS {
        return Ok(shot);
    }
    let compute = &context.settings.compute;
    let grid = TokenGrid::plan(shot.photo.size(), compute.patch, compute.stride, map::MOST_TOKENS);
    Ok(Shot { grid: grid.map_err(|e| e.to_string())?, ..shot })
}

/// Places of some pictures side by side, or in lines where that leaves them larger; `ratio` is their width over their height.
fn places(space: Rect, count: usize, ratio: f32) -> Vec<Rect> {
    let size = |cols: usize| {
        let lines = count.div_ceil(cols) as f32;
        let gap = |n: f32| GAP * (n - 1.0);
        let cell =
            vec2((space.width() - gap(cols as f32)) / cols as f32, (space.height() - gap(lines)) / lines);
        cell.max(Vec2::ZERO)
    };
    let seen = |cols: usize| size(cols).x.min(size(cols).y * ratio);
    let cols = (1..=count).rev().max_by(|a, b| seen(*a).total_cmp(&seen(*b))).unwrap_or(1);
    let cell = size(cols);
    let place = |i: usize| {
        let step = vec2((i % cols) as f32, (i / cols) as f32) * (cell + Vec2::splat(GAP));
        Rect::from_min_size(space.min + step, cell)
    };
    (0..count).map(place).collect()
}

/// Tells the weights of a token under the pointer.
fn tell(ui: &egui::Ui, id: egui::Id, maps: &Maps, pixel: UVec2) {
    let Ok(token) = maps.shot.grid.token_at(pixel) else { return };
    let cols = maps.shot.grid.cols().max(1);
    let layer = ui.layer_id();
    egui::Tooltip::always_open(ui.ctx().clone(), layer, id.with("token"), egui::PopupAnchor::Pointer)
        .gap(14.0)
        .show(|ui| {
            ui.style_mut().wrap_mode = Some(egui::TextWrapMode::Extend);
            ui.strong(format!("Token {token}: row {}, column {}", token / cols, token % cols));
            let rows = [
                ("Without the code", maps.plain.as_deref()),
                ("Exact template", maps.exact.as_deref()),
                ("With the code", maps.coded.as_deref()),
            ];
            for (name, row) in rows {
                if let Some(weight) = row.ok().and_then(|row| row.get(token)) {
                    ui.label(format!("{name}: {}", significant(*weight, 4)));
                }
            }
        });
}

/// Colours of numbers with signs.
fn signed(look: &Look) -> BarColours {
    match look.colours {
        Colours::Grey => BarColours::Grey,
        _ => BarColours::Palette(Palette::Diverging),
    }
}

/// Least and greatest of some numbers.
fn ends(values: &[f64]) -> (f64, f64) {
    (
        values.iter().copied().fold(f64::INFINITY, f64::min),
        values.iter().copied().fold(f64::NEG_INFINITY, f64::max),
    )
}

/// Figures of the code and of its noise.
fn figures(ui: &mut egui::Ui, found: &Found, maps: Option<&Maps>) {
    let settings = &found.settings;
    let r = grouped(f64::from(settings.realizations));
    let formula = match settings.noise {
        Mode::Rademacher => {
            " The formula is that of Gaussian noise; signs have less where sinusoids are few."
        }
        _ => "",
    };
    plots::figures(ui, |ui| {
        let here = found.errors.iter().find(|e| e.realizations == settings.realizations);
        if let Some(error) = here {
            let words =
                format!("{}, predicted {}", significant(error.measured, 3), significant(error.predicted, 3));
            plots::figure(ui, "Template noise", words).on_hover_text(format!(
                "Root mean square error of P with R = {r}: measured, and √mean((v_q v_k + P²)/R) by the formula.{formula}"
            ));
            let ratio = error.measured / error.predicted;
            if ratio.is_finite() {
                let told = match error.standard_error {
                    Some(s) => format!("{} ± {}", significant(ratio, 4), significant(s / error.predicted, 1)),
                    None => significant(ratio, 4),
                };
                plots::figure(ui, "Ratio", told).on_hover_text(format!(
                    "Measured over predicted, with its standard error: 1 where the formula holds.{formula}"
                ));
            }
        }
        if let Some(maps) = maps {
            let [measured, predicted] = maps.noise;
            let words = format!("{}, predicted {}", significant(measured, 3), significant(predicted, 3));
            plots::figure(ui, "Logit noise", words).on_hover_text(format!(
                "Root mean square error of the clicked row's logits in this one draw: measured, and √((A·B + C²)/(R·D)) by the \
                 formula, A and B being norms of query and key. It goes as √(D/R): D = {} dimensions add theirs up.{formula}",
                crate::explorer::position::WIDTH
            ));
            plots::figure(ui, "Logit spread", significant(maps.signal, 2))
                .on_hover_text("How much the exact logits differ over the keys. Where noise is not far below it, the map shows noise.");
            plots::figure(ui, "Tokens", grouped(maps.shot.grid.tokens() as f64))
                .on_hover_text(controls::ON_THE_CPU);
            if let Some(moved) = maps.moved() {
                plots::figure(ui, "Weight moved by noise", percent(moved)).on_hover_text(
                    "Share of the row's weight that lies on other tokens than with the exact template",
                );
            }
        }
        let [v_q, v_k] = found.variances;
        let words = if v_q == v_k {
            significant(v_q, 3)
        } else {
            format!("{}, {}", significant(v_q, 3), significant(v_k, 3))
        };
        plots::figure(ui, "Variances", words).on_hover_text(
            "v of the codes of queries and keys in this dimension: |P| is at most their geometric mean",
        );
        plots::figure(ui, "Parameters", grouped(found.parameters as f64))
            .on_hover_text("Learnable numbers of this head; they do not grow with the tokens");
    });
}
