//! The numbers under the pointer: value, share and rank of a token in the row of the clicked query.

use super::canvas::Canvas;
use super::relative_mask;
use super::snapshot::{Row, Snapshot};
use super::widgets::small_print;
use crate::numbers::{full, grouped, percent_decimals, percent_to, significant};
use crate::words::counted;
use eframe::egui::{self, Pos2, Rect, RichText, Ui, Vec2};
use glam::UVec2;

/// A token's number in a row.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Entry {
    /// The number itself.
    pub value: f32,
    /// Its magnitude over the sum of all magnitudes; `None` where that is no number.
    pub share: Option<f64>,
    /// 1 for the largest number of the row, equal ones alike; `None` for NaN.
    pub rank: Option<usize>,
}

/// What there is to tell about a token.
#[derive(Clone, Debug, PartialEq)]
pub struct Probe {
    /// Pixel of the photograph.
    pub pixel: UVec2,
    /// Its token.
    pub token: usize,
    /// Row of the token.
    pub row: usize,
    /// Column of the token.
    pub col: usize,
    /// Tokens in a row of attention.
    pub tokens: usize,
    /// Distance from the query, in tokens.
    pub distance: f64,
    /// Rows below and columns right of the query.
    pub offset: (i64, i64),
    /// Weight under the mask of relative positions, where there is one.
    pub weight: Option<f32>,
    /// Heads fused.
    pub fused: Entry,
    /// Every head.
    pub heads: Vec<Entry>,
    /// The exact number, heads fused.
    pub exact: Option<Entry>,
    /// Whether it outshines all others.
    pub sink: bool,
}

impl Probe {
    /// Computed less exact.
    pub fn error(&self) -> Option<f32> {
        self.exact.map(|exact| self.fused.value - exact.value)
    }

    /// What is special about the number, in words.
    pub fn flags(&self) -> Vec<&'static str> {
        let values = || self.heads.iter().chain([&self.fused]).map(|entry| entry.value);
        let mut flags = Vec::new();
        if values().any(f32::is_nan) {
            flags.push("NaN");
        }
        if values().any(f32::is_infinite) {
            flags.push("infinite");
        }
        if self.sink {
            flags.push("sink");
        }
        flags
    }
}

/// What the snapshot knows of the token under `pixel`; `None` outside of the picture.
///
/// Costs a pass over each row, O((heads + 2) n): ranks are counted, nothing is sorted.
pub fn describe(snapshot: &Snapshot, pixel: UVec2) -> Option<Probe> {
    let grid = &snapshot.grid;
    let token = grid.token_at(pixel).ok()?;
    let cols = grid.cols().max(1);
    let place = |token: usize| (token / cols, token % cols);
    let ((row, col), (query_row, query_col)) = (place(token), place(snapshot.query_token));
    let distance = (row as f64 - query_row as f64).hypot(col as f64 - query_col as f64);
    let offset = (row as i64 - query_row as i64, col as i64 - query_col as i64);
    let Row { heads, fused } = &snapshot.row;
    Some(Probe {
        pixel,
        token,
        row,
        col,
        tokens: fused.len(),
        distance,
        offset,
        weight: snapshot.mask_weights.as_ref().and_then(|weights| weights.get(token).copied()),
        fused: entry(fused, token)?,
        heads: heads.iter().filter_map(|head| entry(head, token)).collect(),
        exact: snapshot.exact_row.as_ref().and_then(|row| entry(&row.fused, token)),
        sink: snapshot.sinks.contains(&token),
    })
}

/// A token's number, share and rank in `row`; `None` where the row is shorter.
fn entry(row: &[f32], token: usize) -> Option<Entry> {
    let value = *row.get(token)?;
    let (mut larger, mut sum) = (0_usize, 0.0_f64);
    // Chunks keep the counts in registers and the sum exact enough: a million numbers take about a millisecond.
    for chunk in row.chunks(4096) {
        larger += chunk.iter().filter(|x| **x > value).count();
        sum += chunk.iter().map(|x| f64::from(x.abs())).sum::<f64>();
    }
    let share = f64::from(value.abs()) / sum;
    Some(Entry {
        value,
        share: share.is_finite().then_some(share),
        rank: (!value.is_nan()).then_some(larger + 1),
    })
}

/// Draws the numbers, as compact as they can be read.
pub fn ui(ui: &mut Ui, probe: &Probe) {
    let size = small_print(ui);
    let text = |text: String| RichText::new(text).size(size);
    ui.spacing_mut().item_spacing.y = 2.0;
    ui.spacing_mut().interact_size.y = 0.0;
    ui.label(text(format!(
        "Token {} · column {}, row {}",
        grouped(probe.token as f64),
        probe.col,
        probe.row
    )));
    let distance = match probe.distance == 0.0 {
        true => "the query itself".to_string(),
        false => format!("{:.1} tokens from the query", probe.distance),
    };
    ui.label(text(format!("Pixel {}, {} · {distance}", probe.pixel.x, probe.pixel.y)).weak());
    if let Some(weight) = probe.weight {
        let place = relative_mask::offset_in_words(probe.offset);
        ui.label(text(format!("Mask weight {} · {place}", significant(f64::from(weight), 3))));
    }
    let flags = probe.flags();
    if !flags.is_empty() {
        let colour = ui.visuals().warn_fg_color;
        ui.label(text(flags.join(", ")).color(colour));
    }
    ui.add_space(2.0);
    egui::Grid::new("probe").num_columns(4).spacing([12.0, 2.0]).min_col_width(0.0).min_row_height(0.0).show(
        ui,
        |ui| {
            for heading in ["", "value", "of the row", "rank"] {
                right(ui, text(heading.to_string()).weak());
            }
            ui.end_row();
            let named = |name: &str, entry: &Entry| (name.to_string(), *entry);
            let mut lines = vec![named("Map", &probe.fused)];
            lines.extend(probe.exact.as_ref().map(|exact| named("Exact", exact)));
            let most = 8;
            lines.extend(
                probe.heads.iter().take(most).enumerate().map(|(h, e)| (format!("Head {}", h + 1), *e)),
            );
            let decimals = percent_decimals(lines.iter().filter_map(|(_, entry)| entry.share));
            for (name, entry) in lines {
                ui.label(text(name));
                right(ui, text(full(entry.value)).monospace());
                right(ui, text(percent_to(entry.share.unwrap_or(f64::NAN), decimals)));
                right(ui, text(entry.rank.map_or("n/a".into(), |rank| grouped(rank as f64))));
                ui.end_row();
            }
            if let Some(error) = probe.error() {
                ui.label(text("Map − exact".to_string()));
                right(ui, text(full(error)).monospace());
                ui.end_row();
            }
        },
    );
    if probe.heads.len() > 8 {
        ui.label(text(format!("and {} more", counted(probe.heads.len() - 8, "head", "heads"))).weak());
    }
}

/// Says that a mask hides the token, as it does all others.
pub fn hidden(ui: &mut Ui, snapshot: &Snapshot, pixel: UVec2) {
    let Ok(token) = snapshot.grid.token_at(pixel) else { return };
    let cols = snapshot.grid.cols().max(1);
    let size = small_print(ui);
    let place = format!("Token {} · column {}, row {}", grouped(token as f64), token % cols, token / cols);
    ui.label(RichText::new(place).size(size));
    ui.label(RichText::new("Hidden from the query by the mask").size(size).color(ui.visuals().warn_fg_color));
}

fn right(ui: &mut Ui, text: RichText) {
    ui.with_layout(egui::Layout::right_to_left(egui::Align::Center), |ui| ui.label(text));
}

/// Space between the numbers and the edge they stand at, in points.
const MARGIN: f32 = 12.0;

/// Space that is kept free round the pointer, in points.
const ROUND_POINTER: f32 = 28.0;

/// Upper left corner of the numbers, `size` points large, within `bounds`: the lower right of the picture under the pointer,
/// or another corner where they would cover text or the pointer there.
pub fn place(canvas: &Canvas, pointer: Option<Pos2>, size: Vec2, bounds: Rect) -> Pos2 {
    let corners = |rect: Rect| {
        let inside = rect.shrink(MARGIN);
        [
            egui::Align2::RIGHT_BOTTOM,
            egui::Align2::LEFT_BOTTOM,
            egui::Align2::RIGHT_TOP,
            egui::Align2::LEFT_TOP,
        ]
        .map(|corner| corner.align_size_within_rect(size, inside).min)
    };
    let others = canvas.pictures.iter().copied().chain([bounds]);
    let all = canvas.under_pointer.into_iter().chain(others).flat_map(corners);
    let least = bounds.min + Vec2::splat(MARGIN);
    let most = (bounds.max - Vec2::splat(MARGIN) - size).max(least);
    let badness = |at: &Pos2| {
        let space = Rect::from_min_size(*at, size);
        let covers = |rect: &Rect| {
            let both = space.intersect(*rect);
            if both.is_positive() { both.area() } else { 0.0 }
        };
        // What is no picture is text, and so are captions over pictures; those are small, and count for more.
        let beside = space.area() - canvas.pictures.iter().map(covers).sum::<f32>();
        let over: f32 = canvas.texts.iter().map(covers).sum();
        let pointed = pointer.is_some_and(|at| space.expand(ROUND_POINTER).contains(at));
        beside.max(0.0) + 8.0 * over + if pointed { 4.0 * space.area() } else { 0.0 }
    };
    // Of equals the first.
    all.map(|at| at.clamp(least, most)).min_by(|a, b| badness(a).total_cmp(&badness(b))).unwrap_or(most)
}

#[cfg(test)]
mod tests {
    use super::*;
    use eframe::egui::{pos2, vec2};

    const BOUNDS: Rect = Rect { min: pos2(304.0, 24.0), max: pos2(1200.0, 690.0) };
    const SIZE: Vec2 = vec2(280.0, 170.0);

    fn canvas(pictures: &[Rect], texts: &[Rect], under: Rect) -> Canvas {
        let mut canvas = Canvas::default();
        (canvas.pictures, canvas.texts) = (pictures.to_vec(), texts.to_vec());
        canvas.under_pointer = Some(under);
        canvas
    }

    #[test]
    fn numbers_stand_at_the_lower_right_and_make_way_for_the_pointer() {
        let canvas = canvas(&[BOUNDS], &[], BOUNDS);
        let at = |pointer| Rect::from_min_size(place(&canvas, Some(pointer), SIZE, BOUNDS), SIZE);
        assert_eq!(at(pos2(400.0, 100.0)).max, BOUNDS.max - Vec2::splat(MARGIN));
        let near = pos2(1100.0, 600.0);
        assert!(!at(near).expand(ROUND_POINTER - 1.0).contains(near));
    }

    #[test]
    fn numbers_cover_neither_figures_beside_pictures_nor_captions_on_them() {
        let (left, right) = BOUNDS.split_left_right_at_fraction(0.5);
        let cells = [left, right].map(|half| half.split_top_bottom_at_fraction(0.5));
        let pictures = [cells[0].0, cells[1].0, cells[0].1];
        let figures = cells[1].1;
        let bar = Rect::from_min_size(figures.left_bottom() + vec2(-440.0, -40.0), vec2(190.0, 36.0));
        for picture in pictures {
            for part in [vec2(0.1, 0.1), vec2(0.9, 0.9), vec2(0.5, 0.5), vec2(0.9, 0.1)] {
                let pointer = picture.min + part * picture.size();
                let found = canvas(&pictures, &[bar], picture);
                let space = Rect::from_min_size(place(&found, Some(pointer), SIZE, BOUNDS), SIZE);
                assert!(BOUNDS.contains_rect(space), "{space:?}");
                assert!(
                    !space.intersects(figures.shrink(4.0)) && !space.intersects(bar),
                    "{pointer:?}: {space:?}"
                );
                assert!(!space.contains(pointer));
            }
        }
    }
}
