//! A diffusion mask that flows over the picture from the clicked pixel, along like colours, round what was painted in its way, and over
//! links that were drawn: the row alone, and the map under it.
//!
//! The engine finds the row on its device; `hand` is what the pointer does.

mod hand;

use super::edges::{self, Cells, Lines};
use super::network::{child, column, error, keys, laplacian, tabs, time, tolerance};
use super::picture::{bar_of, caption, draw_marker, grid_rect, note, shot, show_layer_in};
use super::plots::{self, Series};
use super::{TourPage, View, ViewContext};
use crate::explorer::canvas::{Drag, Placed, WHOLE};
use crate::explorer::command::{self, Copied, Input};
use crate::explorer::document::Document;
use crate::explorer::networks::{DiffusionSettings, limits};
use crate::explorer::settings::Settings;
use crate::explorer::snapshot::{Diffused, Needs};
use crate::explorer::theme;
use crate::explorer::tokens;
use crate::explorer::widgets::{self, BarColours, Number};
use crate::numbers::{grouped, percent, seconds, significant};
use eframe::egui::{self, Color32, Rect, Stroke, vec2};
use hand::{Hand, Tool};
use std::sync::Arc;

/// A part of the view where there is no room for both.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Part {
    #[default]
    Row,
    Map,
}

/// Least width of the view that has room for both pictures.
const ROOMY: f32 = 620.0;

/// Side of a token on screen from which on edges are drawn, in points.
const LARGE: f32 = 13.0;

/// The view.
#[derive(Debug, Default)]
pub(super) struct DiffusionView {
    part: Part,
    /// The last row: it stays in sight until the next one comes.
    last: Option<Arc<Result<Diffused, String>>>,
    hand: Hand,
    cells: [Cells; 2],
    /// Numbers of the product, by the numbers of row and map: texture keys.
    products: u64,
    product_of: Option<(u64, u64)>,
}

impl View for DiffusionView {
    fn id(&self) -> &'static str {
        "diffusion"
    }

    fn title(&self) -> &'static str {
        "Diffusion"
    }

    fn about(&self) -> &'static str {
        "A mask that flows over the picture from the clicked pixel along like colours, round obstacles and over links."
    }

    fn has_controls(&self) -> bool {
        true
    }

    fn controls(&mut self, ui: &mut egui::Ui, context: &mut ViewContext<'_>) {
        let usual = DiffusionSettings::default();
        let settings = &mut context.settings.networks.diffusion;
        time(ui, &mut settings.time, usual.time, 0.1..=10_000.0);
        let number = Number::along(0.0..=100.0, usual.sensitivity).limits(limits::SENSITIVITY);
        let hover = "How fast edges grow weak with the difference of colours, which is 1 from black to white: their weight is exp(−sensitivity · difference).";
        widgets::slider(ui, "Sensitivity", hover, &mut settings.sensitivity, &number);
        let neighbours = [
            widgets::Choice::new(false, "4", "Tokens side by side."),
            widgets::Choice::new(true, "8", "Tokens that touch at a corner, too."),
        ];
        widgets::segments(ui, "Neighbours", "Which tokens have edges.", &mut settings.corners, &neighbours);
        laplacian(ui, &mut settings.laplacian);
        tolerance(ui, &mut settings.tolerance, usual.tolerance);
    }

    fn needs(&self) -> Needs {
        Needs { diffusion: true, ..Needs::default() }
    }

    fn command(&self, document: &Document, input: &Result<Input, String>) -> Option<Result<Copied, String>> {
        Some(input.clone().and_then(|input| command::diffusion_command(document, &input)))
    }

    fn ui(&mut self, ui: &mut egui::Ui, context: &mut ViewContext<'_>) {
        let space = ui.available_rect_before_wrap();
        ui.allocate_rect(space, egui::Sense::hover());
        ui.painter().rect_filled(space, 0.0, ui.visuals().extreme_bg_color);
        let shot = match shot(context) {
            None => return note(ui, space, "No picture yet. Open one with Ctrl+O, or drop a file here."),
            Some(Err(why)) => return note(ui, space, &why),
            Some(Ok(shot)) => shot,
        };
        let photo = shot.grid.photo_size();
        self.hand.keys(ui, photo);
        keys(ui, &mut context.settings.networks.diffusion.time);
        let narrow = space.width() < ROOMY;
        let bar = if narrow { 60.0 } else { 34.0 };
        let (top, rest) = space.split_top_bottom_at_y((space.top() + bar).min(space.bottom()));
        ui.painter().rect_filled(top, 0.0, ui.visuals().panel_fill);
        self.hand.toolbar(&mut child(ui, top.shrink2(vec2(8.0, 4.0))), context.cuts, photo);

        if let Some(came) = context.snapshot.and_then(|s| s.diffusion.as_ref()) {
            self.last = Some(Arc::clone(came));
        }
        let found = match self.last.clone().as_deref() {
            Some(Err(why)) => return note(ui, rest, why),
            Some(Ok(found)) if found.grid == shot.grid => found.clone(),
            _ => return note(ui, rest, "Spreading…"),
        };
        let tall = rest.height() > 200.0;
        let (rest, foot) = rest.split_top_bottom_at_y(rest.bottom() - if tall { 44.0 } else { 0.0 });
        if tall {
            ui.painter().rect_filled(foot, 0.0, ui.visuals().panel_fill);
            facts(&mut child(ui, foot.shrink2(vec2(10.0, 5.0))), context, &found);
        }
        if narrow {
            let rest = tabs(ui, rest, &mut self.part, &[(Part::Row, "Mask"), (Part::Map, "Map × mask")]);
            self.panel(ui, context, &found, self.part, rest);
        } else {
            self.panel(ui, context, &found, Part::Row, column(rest, 0, 2));
            self.panel(ui, context, &found, Part::Map, column(rest, 1, 2));
        }
    }

    fn tour(&self) -> Vec<TourPage> {
        vec![TourPage {
            title: "A mask that flows",
            formula: "M = exp(−tL),  wᵢⱼ = exp(−s · ‖colourᵢ − colourⱼ‖)",
            text: "Every token is joined to its neighbours, strongly where their colours are alike. Heat from the clicked pixel then \
                   fills what it lies on and stops at its borders: the mask follows the picture. Move t from a short time to a \
                   long one, and the sensitivity from 0, where colours do not count, upwards.\n\n\
                   Choose Cut and paint a wall: heat has to go round it. Choose Link and drag from one place to another: heat \
                   jumps. Zoom in to see the edges themselves. The second picture is the map under this mask.\n\n\
                   One pixel's row takes K products with a sparse matrix, whatever the number of tokens; K and the error bound \
                   stand at the foot.",
            prepare: |settings: &mut Settings| settings.networks.diffusion = DiffusionSettings::default(),
        }]
    }
}

impl DiffusionView {
    fn panel(
        &mut self,
        ui: &mut egui::Ui,
        context: &mut ViewContext<'_>,
        found: &Diffused,
        part: Part,
        space: Rect,
    ) {
        let id = ui.scope_id().with(("diffusion", part == Part::Map));
        let drag = if self.hand.tool == Tool::Query { Drag::Pan } else { Drag::Tool };
        let Some(placed) = show_layer_in(ui, context, id, &[], drag, space) else { return };
        self.hand.work(ui, &placed, context.cuts);
        let painter = ui.painter_at(space);
        let name = match part {
            Part::Row => "Diffusion mask   exp(−tL)",
            Part::Map => "Map × mask",
        };
        if context.canvas.peek {
            return context.canvas.texts.push(caption(ui, space, name));
        }
        let look = context.settings.look.clone();
        let (colours, log) = (edges::colours(&look), look.log);
        // The map may still be that of another query.
        let map = context.snapshot.filter(|s| s.grid == found.grid && s.query_token == found.query as usize);
        let number = match (part, map) {
            (Part::Row, _) => found.number << 1,
            (Part::Map, map) => {
                let of = (found.number, map.map_or(0, |map| map.request + 1));
                if self.product_of != Some(of) {
                    (self.product_of, self.products) = (Some(of), self.products + 1);
                }
                self.products << 1 | 1
            }
        };
        let weight = |token: usize| match part {
            Part::Row => f64::from(found.row[token]),
            Part::Map => {
                let value = map.and_then(|map| map.row.fused.get(token)).copied().unwrap_or(0.0);
                f64::from(value) * f64::from(found.row[token])
            }
        };
        let largest = (0..found.row.len()).map(weight).fold(0.0, f64::max);
        let key = number << 2 | u64::from(log) << 1 | u64::from(colours == BarColours::Grey);
        let inside = painter.with_clip_rect(space.intersect(placed.rect));
        let shows = part == Part::Row || (map.is_some() && largest > 0.0);
        if shows {
            let cells = &mut self.cells[usize::from(part == Part::Map)];
            let texture = cells.texture(
                ui.ctx(),
                name,
                [found.grid.rows(), found.grid.cols()],
                (key, look.smooth),
                || {
                    let colour = |token| colours.at(edges::place(weight(token), largest, log).unwrap_or(0.0));
                    (0..found.row.len()).map(colour).collect()
                },
            );
            let tint = Color32::from_white_alpha((look.opacity.clamp(0.0, 1.0) * 255.0).round() as u8);
            inside.image(texture, grid_rect(&found.grid, &placed), WHOLE, tint);
        }
        over(ui, &inside, &placed, found, context);
        self.hand.draw(ui, &painter, &placed, context.cuts);
        draw_marker(&painter, context, &placed);
        context.canvas.texts.push(caption(ui, space, name));
        if !shows {
            let words = match map {
                Some(map) if map.sees_nothing() => "The mask of the map hides every token from here.",
                Some(_) => "The map is not above 0 anywhere in the mask.",
                None => "The map is on its way…",
            };
            return note(ui, space, words);
        }
        let ends = [significant(edges::least(largest, log), 2), significant(largest, 2)];
        let middle = if log { "log scale" } else { "weight" };
        context.canvas.texts.extend(bar_of(&painter, |t| colours.at(t), ends, middle));
    }
}

/// Edges where tokens are large, and obstacles.
fn over(
    ui: &egui::Ui,
    painter: &egui::Painter,
    placed: &Placed,
    found: &Diffused,
    context: &ViewContext<'_>,
) {
    let side = tokens::side_on_screen(&found.grid, placed);
    let clip = painter.clip_rect().expand(2.0 * side);
    if side >= LARGE {
        let (mut under, mut lines) = (Lines::default(), Lines::default());
        let [rows, cols] = [found.grid.rows(), found.grid.cols()];
        // Only tokens in sight: a large picture has millions of edges.
        let range = |low: f32, high: f32, start: f32, most: usize| {
            let token = |x: f32| (((x - start) / side).floor().max(0.0) as usize).min(most);
            token(low)..(token(high) + 1).min(most)
        };
        for row in range(clip.top(), clip.bottom(), placed.rect.top(), rows) {
            for col in range(clip.left(), clip.right(), placed.rect.left(), cols) {
                let i = (row * cols + col) as u32;
                for (j, w) in found.network.row(i).filter(|(j, _)| *j > i) {
                    // Links are drawn by the hand.
                    let (r, c) = (j as usize / cols, j as usize % cols);
                    if r.abs_diff(row) > 1 || c.abs_diff(col) > 1 || w < 0.004 {
                        continue;
                    }
                    let ends = [i, j].map(|node| tokens::on_screen(&found.grid, placed, node));
                    let (width, strength) = (0.6 + 1.8 * w.min(1.0), 40.0 + 190.0 * w.min(1.0));
                    under.add(
                        ends[0],
                        ends[1],
                        width + 1.0,
                        Color32::from_black_alpha((0.5 * strength) as u8),
                    );
                    lines.add(ends[0], ends[1], width, Color32::from_white_alpha(strength as u8));
                }
            }
        }
        under.draw(painter);
        lines.draw(painter);
    }
    if context.cuts.obstacles.is_empty() {
        return;
    }
    let (scrim, hatch) = theme::hidden(ui.visuals());
    for token in (0..found.blocked.len()).filter(|token| found.blocked[*token]) {
        let Ok(rect) = found.grid.token_rect(token) else { continue };
        let rect = Rect::from_min_max(placed.to_screen(rect.min), placed.to_screen(rect.max));
        if rect.intersects(clip) {
            painter.rect_filled(rect, 0.0, scrim);
            painter.line_segment([rect.left_bottom(), rect.right_top()], Stroke::new(1.2, hatch));
        }
    }
}

/// Figures of the row.
fn facts(ui: &mut egui::Ui, context: &ViewContext<'_>, found: &Diffused) {
    if found.blocked.get(found.query as usize) == Some(&true) {
        let words = "The query lies on an obstacle, which has no edges: it sees itself alone. Click elsewhere, or erase there.";
        ui.add(egui::Label::new(egui::RichText::new(words).color(ui.visuals().warn_fg_color)).wrap());
        return;
    }
    plots::figures(ui, |ui| {
        plots::figure(ui, "Chebyshev terms K", grouped(found.terms as f64))
            .on_hover_text("Products with the Laplacian that exp(−tL) takes");
        plots::figure(ui, "Error bound", format!("≤ {}", error(found.rest)))
            .on_hover_text("What the terms left out of the series add up to at most");
        plots::figure(ui, "Tolerance", significant(found.settings.tolerance, 2));
        let way = if found.stencil {
            "by the stencil of the grid"
        } else {
            "by sparse rows, as links lead anywhere"
        };
        plots::figure(ui, "Time", seconds(found.seconds))
            .on_hover_text(format!("This row alone, {way}, on {}", found.device));
        plots::figure(ui, "Edges", grouped(found.network.entries() as f64 / 2.0))
            .on_hover_text("Pairs of tokens that are joined");
        let largest = found.row.iter().copied().fold(0.0, f32::max);
        let reached = found.row.iter().filter(|w| **w >= 0.01 * largest).count();
        plots::figure(ui, "Reached", percent(reached as f64 / found.row.len().max(1) as f64))
            .on_hover_text("Tokens with at least a hundredth of the greatest weight");
        let under = context.canvas.hover.and_then(|pixel| found.grid.token_at(pixel).ok());
        if let Some(weight) = under.and_then(|token| found.row.get(token)) {
            plots::figure(ui, "Under the pointer", significant(f64::from(*weight), 3));
        }
    });
}

/// The colour of links.
fn link_colour(ui: &egui::Ui) -> Color32 {
    Series::Other.colour(ui.visuals())
}
