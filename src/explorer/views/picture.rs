//! What all pictures have in common: the photograph, a layer over it, the clicked pixel, landmarks, and a colour bar.

use super::ViewContext;
use crate::explorer::canvas::{Drag, Placed, WHOLE};
use crate::explorer::snapshot::{Layer, LayerId, Snapshot};
use crate::explorer::tokens::Shot;
use crate::numbers::significant;
use crate::vision::grid::TokenGrid;
use eframe::egui::{self, Align2, Color32, FontId, Mesh, Pos2, Rect, Shape, Stroke, StrokeKind, pos2, vec2};
use glam::{DVec2, UVec2};
use std::sync::Arc;

/// Draws the photograph with layers over it into all of `ui`, and lets the pointer pan, zoom and choose the query.
/// `None` where there is no photograph yet.
pub fn show_layer(
    ui: &mut egui::Ui,
    context: &mut ViewContext<'_>,
    id: egui::Id,
    layers: &[LayerId],
    drag: Drag,
) -> Option<Placed> {
    let space = ui.available_rect_before_wrap();
    ui.allocate_rect(space, egui::Sense::hover());
    show_layer_in(ui, context, id, layers, drag, space)
}

/// The same in a part of `ui`.
pub fn show_layer_in(
    ui: &mut egui::Ui,
    context: &mut ViewContext<'_>,
    id: egui::Id,
    layers: &[LayerId],
    drag: Drag,
    space: Rect,
) -> Option<Placed> {
    let Some(photo) = context.textures.photo() else {
        note(ui, space, "No picture yet. Open one with Ctrl+O, drop a file here, or paste one with Ctrl+V.");
        return None;
    };
    let size = photo.size;
    let placed = context.canvas.place(ui, id, space, size, drag);
    let painter = ui.painter_at(space);
    // A map of another picture must not lie over this one.
    let fits = |s: &&Snapshot| s.grid.photo_size() == size && !context.canvas.peek;
    match context.snapshot.filter(fits) {
        Some(snapshot) => draw_layers(&painter, context, snapshot, layers, &placed),
        None => context.textures.draw(&painter, placed.rect, None),
    }
    draw_marker(&painter, context, &placed);
    if drag == Drag::Pan {
        if let Some(pixel) = placed.clicked() {
            *context.query = pixel;
        }
        if let Some(pixel) = placed.right_clicked() {
            context.canvas.wanted_reference = Some(pixel);
        }
    }
    Some(placed)
}

/// Marks the clicked pixel: hollow, and the query of the map in sight beside it, while the map is that of another one.
pub fn draw_marker(painter: &egui::Painter, context: &ViewContext<'_>, placed: &Placed) {
    let on_screen = |pixel: UVec2| placed.to_screen(pixel.as_dvec2() + DVec2::splat(0.5));
    let at = on_screen(*context.query);
    let Some(former) = context.canvas.former_query else { return draw_query(painter, at) };
    let of_map = on_screen(former);
    painter.circle_filled(of_map, 4.0, Color32::from_black_alpha(200));
    painter.circle_filled(of_map, 2.5, Color32::WHITE);
    let steps = 12;
    let turn = |step: usize| std::f32::consts::TAU * step as f32 / steps as f32;
    painter.circle_stroke(at, 7.0, Stroke::new(3.5, Color32::from_black_alpha(200)));
    for step in (0..steps).step_by(2) {
        let ends = [turn(step), turn(step + 1)].map(|angle| at + 7.0 * egui::Vec2::angled(angle));
        painter.line_segment(ends, Stroke::new(1.5, Color32::WHITE));
    }
}

fn draw_layers(
    painter: &egui::Painter,
    context: &mut ViewContext<'_>,
    snapshot: &Snapshot,
    layers: &[LayerId],
    placed: &Placed,
) {
    let look = &context.settings.look;
    let (opacity, smooth) = (look.opacity.clamp(0.0, 1.0), look.smooth);
    let over = grid_rect(&snapshot.grid, placed);
    let kept = context.canvas.reference.clone().filter(|_| context.canvas.show_reference);
    let found = layers.iter().filter_map(|id| match (&kept, id) {
        (Some(reference), LayerId::Map | LayerId::Head(_)) => Some(reference),
        _ => snapshot.layer(*id),
    });
    let shown: Vec<&Layer> = found.collect();
    if snapshot.sees_nothing() && !layers.is_empty() && kept.is_none() {
        context.textures.draw(painter, placed.rect, None);
        painter.rect_filled(placed.rect.intersect(painter.clip_rect()), 0.0, Color32::from_black_alpha(120));
        return context.canvas.texts.push(at_foot(painter, "The mask hides every token from here."));
    }
    let first = shown.first().map(|layer| (*layer, over, opacity, smooth));
    context.textures.draw(painter, placed.rect, first);
    let tint = Color32::from_white_alpha((opacity * 255.0).round() as u8);
    let inside = painter.with_clip_rect(painter.clip_rect().intersect(placed.rect));
    for layer in shown.iter().skip(1) {
        inside.image(context.textures.layer(layer, smooth), over, WHOLE, tint);
    }
    if look.show_landmarks {
        draw_landmarks(painter, snapshot, placed);
    }
    if look.hide_sinks {
        draw_sinks(painter, snapshot, placed);
    }
    if let Some(layer) = shown.last() {
        context.canvas.texts.extend(colour_bar(painter, layer, kept.is_some()));
    }
}

/// The picture in sight with the tokens of the map, or with those that are set before there is one; `None` without a picture.
pub(super) fn shot(context: &ViewContext<'_>) -> Option<Result<Shot, String>> {
    let photo = Arc::clone(context.photo?);
    let compute = &context.settings.compute;
    let known = context.snapshot.filter(|s| s.grid.photo_size() == photo.size()).map(|s| s.grid.clone());
    let grid = match known {
        Some(grid) => Ok(grid),
        None => TokenGrid::plan(photo.size(), compute.patch, compute.stride, compute.max_tokens)
            .map_err(|e| e.to_string()),
    };
    Some(grid.map(|grid| Shot { photo, grid }))
}

/// Where the token grid lies on screen. Its last cells may reach beyond the photograph.
pub(super) fn grid_rect(grid: &TokenGrid, placed: &Placed) -> Rect {
    let size = DVec2::new(grid.cols() as f64, grid.rows() as f64) * grid.effective_stride();
    Rect::from_min_max(placed.to_screen(DVec2::ZERO), placed.to_screen(size))
}

/// A ring that is seen on every ground.
pub fn draw_query(painter: &egui::Painter, at: Pos2) {
    painter.circle_stroke(at, 7.0, Stroke::new(3.5, Color32::from_black_alpha(200)));
    painter.circle_stroke(at, 7.0, Stroke::new(1.5, Color32::WHITE));
    painter.circle_filled(at, 1.5, Color32::WHITE);
}

/// The landmarks: a dot at the middle of each cell, and the cell where it is larger than a token.
pub fn draw_landmarks(painter: &egui::Painter, snapshot: &Snapshot, placed: &Placed) {
    let grid = &snapshot.grid;
    let cols = grid.cols();
    for [r0, r1, c0, c1] in snapshot.landmark_cells.iter().map(|c| c.map(|x| x as usize)) {
        if r1 <= r0 || c1 <= c0 {
            continue;
        }
        let corners = (grid.token_rect(r0 * cols + c0), grid.token_rect((r1 - 1) * cols + c1 - 1));
        let (Ok(first), Ok(last)) = corners else { continue };
        let rect = Rect::from_min_max(placed.to_screen(first.min), placed.to_screen(last.max));
        if (r1 - r0) * (c1 - c0) > 1 {
            painter.rect_stroke(
                rect,
                0.0,
                Stroke::new(1.0, Color32::from_white_alpha(110)),
                StrokeKind::Inside,
            );
        }
        painter.circle_filled(rect.center(), 3.5, Color32::from_black_alpha(200));
        painter.circle_filled(rect.center(), 2.2, Color32::WHITE);
    }
}

/// Tokens left out of the range: crossed.
fn draw_sinks(painter: &egui::Painter, snapshot: &Snapshot, placed: &Placed) {
    for rect in snapshot.sinks.iter().filter_map(|t| snapshot.grid.token_rect(*t).ok()) {
        let rect = Rect::from_min_max(placed.to_screen(rect.min), placed.to_screen(rect.max));
        let stroke = Stroke::new(1.0, Color32::WHITE);
        painter.line_segment([rect.left_top(), rect.right_bottom()], stroke);
        painter.line_segment([rect.left_bottom(), rect.right_top()], stroke);
    }
}

/// The colour of a layer at `t` in 0…1.
fn colour_of(layer: &Layer, t: f64) -> Color32 {
    match layer.grey {
        true => Color32::from_gray((t * 255.0).round() as u8),
        false => {
            let [r, g, b] = layer.palette.colour(t);
            Color32::from_rgb(r, g, b)
        }
    }
}

/// The colour map with the numbers at its ends, at the lower left of the picture; where it was drawn, if there is room.
fn colour_bar(painter: &egui::Painter, layer: &Layer, reference: bool) -> Option<Rect> {
    let end = |x: f32| match layer.log {
        true => significant(10.0_f64.powf(f64::from(x)), 2),
        false => significant(f64::from(x), 2),
    };
    let middle = match (reference, layer.log, layer.id) {
        (true, ..) => "reference",
        (false, true, _) => "log scale",
        (false, false, LayerId::Error) => "approximate − exact",
        (false, false, LayerId::Parity) => "device − reference",
        (false, false, LayerId::Exact) => "exact",
        _ => "",
    };
    bar_of(painter, |t| colour_of(layer, t), [end(layer.range.0), end(layer.range.1)], middle)
}

/// A bar of the colours at 0…1 with words below its ends and its middle, at the lower left of a picture; where it was drawn, if
/// there is room.
pub fn bar_of(
    painter: &egui::Painter,
    colour: impl Fn(f64) -> Color32,
    [low, high]: [String; 2],
    middle: &str,
) -> Option<Rect> {
    const STEPS: usize = 48;
    let clip = painter.clip_rect();
    let size = vec2((clip.width() - 40.0).clamp(60.0, 180.0), 8.0);
    let bar = Rect::from_min_size(pos2(clip.left() + 16.0, clip.bottom() - 34.0), size);
    if clip.height() < 90.0 || clip.width() < 110.0 {
        return None;
    }
    let ground = bar.expand2(vec2(8.0, 6.0)).with_max_y(bar.bottom() + 22.0);
    painter.rect_filled(ground, 4.0, Color32::from_black_alpha(170));
    let mut mesh = Mesh::default();
    for step in 0..=STEPS {
        let t = step as f32 / STEPS as f32;
        let (x, colour) = (bar.left() + t * bar.width(), colour(f64::from(t)));
        mesh.colored_vertex(pos2(x, bar.top()), colour);
        mesh.colored_vertex(pos2(x, bar.bottom()), colour);
        if step > 0 {
            let at = 2 * step as u32;
            mesh.add_triangle(at - 2, at - 1, at);
            mesh.add_triangle(at - 1, at, at + 1);
        }
    }
    painter.add(Shape::mesh(mesh));
    let font = FontId::proportional(11.0);
    let below = bar.bottom() + 3.0;
    let ends = [(bar.left(), Align2::LEFT_TOP, low), (bar.right(), Align2::RIGHT_TOP, high)];
    let [low, high] = ends
        .map(|(x, align, words)| painter.text(pos2(x, below), align, words, font.clone(), Color32::WHITE));
    let middle = painter.layout_no_wrap(middle.to_owned(), font, Color32::WHITE);
    let at = pos2(bar.center().x - middle.size().x / 2.0, below);
    // Numbers come first where there is no room for all.
    if at.x > low.right() + 6.0 && at.x + middle.size().x < high.left() - 6.0 {
        painter.galley(at, middle, Color32::WHITE);
    }
    Some(ground)
}

/// A line at the foot of a dimmed picture, where it seldom covers the marker; where it was drawn.
fn at_foot(painter: &egui::Painter, text: &str) -> Rect {
    let clip = painter.clip_rect();
    let wrap = (clip.width() - 32.0).max(80.0);
    let galley = painter.layout(text.to_owned(), FontId::proportional(14.0), Color32::WHITE, wrap);
    let low = pos2(clip.center().x, clip.bottom() - 18.0 - galley.size().y / 2.0);
    let rect = Rect::from_center_size(low, galley.size());
    let ground = rect.expand2(vec2(10.0, 6.0));
    painter.rect_filled(ground, 4.0, Color32::from_black_alpha(170));
    painter.galley(rect.min, galley, Color32::WHITE);
    ground
}

/// A quiet line in the middle of an empty space.
pub fn note(ui: &egui::Ui, space: Rect, text: &str) {
    let galley = ui.painter().layout(
        text.to_owned(),
        FontId::proportional(14.0),
        ui.visuals().weak_text_color(),
        (space.width() - 32.0).max(80.0),
    );
    ui.painter_at(space).galley(space.center() - galley.size() / 2.0, galley, ui.visuals().weak_text_color());
}

/// A heading over a picture, at its upper left; where it was drawn.
pub fn caption(ui: &egui::Ui, space: Rect, text: &str) -> Rect {
    let painter = ui.painter_at(space);
    let galley = painter.layout_no_wrap(text.to_owned(), FontId::proportional(12.0), Color32::WHITE);
    let at = space.left_top() + vec2(10.0, 8.0);
    let ground = Rect::from_min_size(at, galley.size()).expand2(vec2(6.0, 3.0));
    painter.rect_filled(ground, 4.0, Color32::from_black_alpha(170));
    painter.galley(at, galley, Color32::WHITE);
    ground
}
