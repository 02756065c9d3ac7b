//! The exact row, the approximate one, and what lies between them, side by side.

use super::picture::{caption, note, show_layer_in};
use super::{View, ViewContext};
use crate::explorer::canvas::Drag;
use crate::explorer::snapshot::{LayerId, Needs, Snapshot};
use crate::numbers::{percent, percent_decimals, percent_to};
use eframe::egui::{self, Rect, Vec2, vec2};

/// The view.
#[derive(Debug, Default)]
pub(super) struct Compare;

impl View for Compare {
    fn id(&self) -> &'static str {
        "compare"
    }

    fn title(&self) -> &'static str {
        "Exact and approximate"
    }

    fn about(&self) -> &'static str {
        "The exact row, the approximate one with the same colours, and their difference."
    }

    fn needs(&self) -> Needs {
        Needs { exact: true, ..Needs::default() }
    }

    fn ui(&mut self, ui: &mut egui::Ui, context: &mut ViewContext<'_>) {
        let space = ui.available_rect_before_wrap();
        ui.allocate_rect(space, egui::Sense::hover());
        let error = context.snapshot.and_then(|s| s.relative_error);
        let error = error.map_or("Difference".to_string(), |e| format!("Difference: {}", percent(e)));
        let parts = [
            (LayerId::Exact, "Exact".to_string()),
            (LayerId::Map, "Approximate".to_string()),
            (LayerId::Error, error),
        ];
        let picture = context.textures.photo().map_or(vec2(1.0, 1.0), |p| p.size.as_vec2().to_array().into());
        let (cols, rows) = arrangement(space.size(), picture);
        for (i, (layer, title)) in parts.iter().enumerate() {
            let part = cell(space, (cols, rows), i);
            // Where the mask hides everything, each picture says so.
            let missing = context.snapshot.is_some_and(|s| s.layer(*layer).is_none() && !s.sees_nothing());
            if missing {
                let why = context.snapshot.and_then(|s| s.no_exact.clone());
                note(ui, part, &why.map_or("Computing the exact row…".to_string(), |w| sentence(&w)));
            } else {
                show_layer_in(ui, context, ui.scope_id().with(i), &[*layer], Drag::Pan, part);
            }
            context.canvas.texts.push(caption(ui, part, title));
        }
        if let (true, Some(snapshot)) = (cols * rows > parts.len(), context.snapshot) {
            figures(ui, cell(space, (cols, rows), parts.len()), snapshot);
        }
    }
}

/// Space between two pictures.
const GAP: f32 = 4.0;

/// Columns and rows that make three pictures of a shape largest.
fn arrangement(space: Vec2, picture: Vec2) -> (usize, usize) {
    let scale = |(cols, rows): (usize, usize)| {
        let room =
            (space - GAP * vec2(cols as f32 - 1.0, rows as f32 - 1.0)) / vec2(cols as f32, rows as f32);
        (room / picture).min_elem()
    };
    let choices = [(3, 1), (2, 2), (1, 3)];
    choices.into_iter().max_by(|a, b| scale(*a).total_cmp(&scale(*b))).unwrap_or((3, 1))
}

fn cell(space: Rect, (cols, rows): (usize, usize), i: usize) -> Rect {
    let gaps = GAP * vec2(cols as f32 - 1.0, rows as f32 - 1.0);
    let size = (space.size() - gaps) / vec2(cols as f32, rows as f32);
    let place = vec2((i % cols) as f32, (i / cols) as f32);
    Rect::from_min_size(space.min + place * (size + Vec2::splat(GAP)), size)
}

/// The difference in numbers.
fn figures(ui: &mut egui::Ui, space: Rect, snapshot: &Snapshot) {
    let Some(exact) = &snapshot.exact_row else { return };
    let gaps = || snapshot.row.fused.iter().zip(&exact.fused).map(|(a, b)| f64::from(a - b));
    let largest = exact.fused.iter().fold(0.0_f64, |m, x| m.max(f64::from(x.abs())));
    let worst = gaps().fold(0.0_f64, |m, d| m.max(d.abs()));
    let mean = gaps().map(f64::abs).sum::<f64>() / snapshot.row.fused.len().max(1) as f64;
    let shares = [snapshot.relative_error.unwrap_or(f64::NAN), worst / largest, mean / largest];
    let decimals = percent_decimals(shares);
    let [relative, worst, mean] = shares.map(|share| percent_to(share, decimals));
    let features = snapshot.compute.random_features;
    let (source, count, more) = match snapshot.landmarks {
        0 => ("Random features", features, "features"),
        landmarks => ("Landmarks", landmarks, "landmarks"),
    };
    let rows = [
        ("Relative error", relative),
        ("Largest deviation", format!("{worst} of the largest value")),
        ("Mean deviation", format!("{mean} of the largest value")),
        (source, count.to_string()),
    ];
    let mut ui = ui.new_child(egui::UiBuilder::new().max_rect(space.shrink(24.0)));
    egui::Grid::new(ui.scope_id().with("figures")).num_columns(2).spacing([16.0, 6.0]).show(&mut ui, |ui| {
        for (name, value) in rows {
            ui.weak(name);
            ui.label(value);
            ui.end_row();
        }
    });
    ui.add_space(8.0);
    let meaning = "Relative error: ‖approximate − exact‖ / ‖exact‖ of the fused row.";
    ui.weak(format!("{meaning} More {more} make it smaller."));
}

/// A reason as a sentence.
fn sentence(text: &str) -> String {
    let mut letters = text.chars();
    let first = letters.next().map(|c| c.to_uppercase().collect::<String>()).unwrap_or_default();
    format!("{first}{}.", letters.as_str())
}
