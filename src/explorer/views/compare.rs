//! The exact row, the approximate one, and what lies between them, side by side.

use super::picture::{caption, note, show_layer_in};
use super::{View, ViewContext};
use crate::explorer::canvas::Drag;
use crate::explorer::snapshot::{LayerId, Needs};
use eframe::egui::{self, Rect, pos2};

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
        let gap = 4.0;
        let error = context.snapshot.and_then(|s| s.relative_error);
        let error = error.map_or("Difference".to_string(), |e| format!("Difference {:.1} %", 100.0 * e));
        let parts = [
            (LayerId::Exact, "Exact".to_string()),
            (LayerId::Map, "Approximate".to_string()),
            (LayerId::Error, error),
        ];
        // Side by side where there is room for it, one above the other in a narrow tile.
        let across = space.width() > 1.2 * space.height();
        for (i, (layer, title)) in parts.iter().enumerate() {
            let part = share(space, across, i, parts.len(), gap);
            let missing = context.snapshot.is_some_and(|s| s.layer(*layer).is_none());
            if missing {
                let why = context.snapshot.and_then(|s| s.no_exact.clone());
                note(ui, part, &why.map_or("Computing the exact row…".to_string(), |w| sentence(&w)));
            } else {
                show_layer_in(ui, context, ui.scope_id().with(i), &[*layer], Drag::Pan, part);
            }
            caption(ui, part, title);
        }
    }
}

/// Part `i` of `count` of a space.
fn share(space: Rect, across: bool, i: usize, count: usize, gap: f32) -> Rect {
    let length = if across { space.width() } else { space.height() };
    let part = (length - gap * (count - 1) as f32) / count as f32;
    let from = i as f32 * (part + gap);
    match across {
        true => Rect::from_min_max(
            pos2(space.left() + from, space.top()),
            pos2(space.left() + from + part, space.bottom()),
        ),
        false => Rect::from_min_max(
            pos2(space.left(), space.top() + from),
            pos2(space.right(), space.top() + from + part),
        ),
    }
}

/// A reason as a sentence.
fn sentence(text: &str) -> String {
    let mut letters = text.chars();
    let first = letters.next().map(|c| c.to_uppercase().collect::<String>()).unwrap_or_default();
    format!("{first}{}.", letters.as_str())
}
