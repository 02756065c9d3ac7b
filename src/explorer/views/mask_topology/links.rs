//! Handles on the regions and the curves between them.

use super::MaskTopology;
use super::gesture::Gesture;
use super::survey::Survey;
use crate::explorer::canvas::Placed;
use crate::explorer::mask::{Link, MaskDocument};
use crate::explorer::theme;
use eframe::egui::epaint::QuadraticBezierShape;
use eframe::egui::{Align2, Color32, FontId, Painter, Pos2, Shape, Stroke, Vec2, Visuals};

/// Radius of a handle in screen points.
const HANDLE: f32 = 11.0;

/// How near to a handle or a curve a click must be, in screen points.
const NEAR: f32 = 8.0;

/// Where a region's handle is on screen.
fn handle_at(survey: &Survey, placed: &Placed, region: u8) -> Option<Pos2> {
    let place = survey.places().iter().find(|place| place.region == region)?;
    Some(placed.to_screen(place.place * placed.size.as_dvec2()))
}

/// The region whose handle lies under a screen position.
pub(super) fn handle_under(survey: &Survey, placed: &Placed, at: Pos2) -> Option<u8> {
    let mut regions = survey.places().iter().map(|place| place.region);
    regions.find(|region| {
        handle_at(survey, placed, *region).is_some_and(|handle| handle.distance(at) <= HANDLE + 3.0)
    })
}

/// The regions of the link whose curve lies under a screen position.
pub(super) fn under(survey: &Survey, placed: &Placed, mask: &MaskDocument, at: Pos2) -> Option<(u8, u8)> {
    let links = mask.links().iter().filter_map(|link| {
        let (from, to) = (handle_at(survey, placed, link.from)?, handle_at(survey, placed, link.to)?);
        let line = curve(from, to, link.from < link.to);
        let near = line.windows(2).map(|ends| distance(at, ends[0], ends[1])).fold(f32::INFINITY, f32::min);
        Some((near, (link.from, link.to)))
    });
    links.filter(|(near, _)| *near <= NEAR).min_by(|a, b| a.0.total_cmp(&b.0)).map(|(_, regions)| regions)
}

/// Distance of a position from a piece of line.
fn distance(at: Pos2, from: Pos2, to: Pos2) -> f32 {
    let along = to - from;
    let share = ((at - from).dot(along) / along.length_sq().max(f32::EPSILON)).clamp(0.0, 1.0);
    at.distance(from + along * share)
}

/// A curve between two handles, bent to the same side whichever end it starts from.
fn curve(from: Pos2, to: Pos2, forward: bool) -> Vec<Pos2> {
    let along = if forward { to - from } else { from - to };
    let middle = from.lerp(to, 0.5) + along.rot90() * 0.16;
    let bent = QuadraticBezierShape::from_points_stroke(
        [from, middle, to],
        false,
        Color32::TRANSPARENT,
        Stroke::NONE,
    );
    bent.flatten(Some(0.2))
}

/// Draws a curve that stays clear of the handles, with an arrow head where it arrives.
fn arrow(painter: &Painter, line: &[Pos2], heads: (bool, bool), stroke: Stroke, rim: Color32) {
    let (Some(first), Some(last)) = (line.first().copied(), line.last().copied()) else { return };
    let gap = HANDLE + 3.0;
    let clear = |at: &&Pos2| at.distance(first) > gap && at.distance(last) > gap;
    let mut line: Vec<Pos2> = line.iter().filter(clear).copied().collect();
    let [.., _, _] = line.as_slice() else { return };
    let size = 6.0 + stroke.width;
    let tip = |line: &[Pos2]| -> Option<(Pos2, Vec2)> {
        let end = *line.last()?;
        let back = line.iter().rev().find(|at| at.distance(end) > size).or(line.first())?;
        Some((end, (end - *back).normalized()))
    };
    let mut triangles = Vec::new();
    for head in [heads.1, heads.0] {
        if head && let Some((end, way)) = tip(&line) {
            let (base, side) = (end - way * size * 1.3, way.rot90() * size * 0.7);
            triangles.push(vec![end, base + side, base - side]);
            // The line ends inside its head, or it would blunt the tip.
            while line.len() > 2 && line.last().is_some_and(|at| (*at - base).dot(way) > 0.0) {
                line.pop();
            }
            line.push(base + way);
        }
        line.reverse();
    }
    painter.add(Shape::line(line.clone(), Stroke::new(stroke.width + 3.0, rim)));
    for triangle in &triangles {
        painter.add(Shape::closed_line(triangle.clone(), Stroke::new(3.0, rim)));
    }
    painter.add(Shape::line(line, stroke));
    for triangle in triangles {
        painter.add(Shape::convex_polygon(triangle, stroke.color, Stroke::NONE));
    }
}

impl MaskTopology {
    /// Draws links, the one being drawn, and handles.
    pub(super) fn links(&self, painter: &Painter, placed: &Placed, mask: &MaskDocument, visuals: &Visuals) {
        let rim = visuals.window_fill.gamma_multiply(0.85);
        let plain = Stroke::new(2.0, visuals.strong_text_color());
        let chosen = Stroke::new(3.0, visuals.selection.stroke.color);
        for Link { from, to, mutual } in mask.links() {
            let ends = (handle_at(&self.survey, placed, *from), handle_at(&self.survey, placed, *to));
            if let (Some(start), Some(end)) = ends {
                let selected =
                    self.selected.is_some_and(|(a, b)| (a, b) == (*from, *to) || (b, a) == (*from, *to));
                let stroke = if selected { chosen } else { plain };
                arrow(painter, &curve(start, end, from < to), (*mutual, true), stroke, rim);
            }
        }
        let mut target = None;
        if let Some(Gesture::Link { from, at }) = self.gesture
            && let Some(start) = handle_at(&self.survey, placed, from)
        {
            let pointer = placed.to_screen(at);
            target = handle_under(&self.survey, placed, pointer).filter(|to| *to != from).or(Some(from));
            if start.distance(pointer) > HANDLE {
                let end = target.filter(|to| *to != from).and_then(|to| handle_at(&self.survey, placed, to));
                let line = [start, end.unwrap_or(pointer)];
                arrow(painter, &curve(line[0], line[1], true), (self.mutual, true), chosen, rim);
            }
        }
        for place in self.survey.places() {
            let at = placed.to_screen(place.place * placed.size.as_dvec2());
            let (fill, text) = match place.region {
                0 => (visuals.window_fill, visuals.text_color()),
                region => {
                    let colour = theme::region(region, visuals);
                    (colour, theme::text_on(colour))
                }
            };
            let grown = if target == Some(place.region) { 3.0 } else { 0.0 };
            painter.circle(at, HANDLE + grown, fill, Stroke::new(2.0, rim));
            painter.circle_stroke(at, HANDLE + grown, Stroke::new(1.0, visuals.strong_text_color()));
            let font = FontId::proportional(HANDLE * 1.3);
            painter.text(at, Align2::CENTER_CENTER, place.region.to_string(), font, text);
        }
    }
}
