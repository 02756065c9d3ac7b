//! The landmarks on the picture: the few tokens through which all others are compared.

use super::picture::{draw_landmarks, note, show_layer};
use super::{View, ViewContext};
use crate::explorer::canvas::Drag;
use crate::explorer::snapshot::LayerId;
use eframe::egui;

/// The view.
#[derive(Debug, Default)]
pub(super) struct Landmarks;

impl View for Landmarks {
    fn id(&self) -> &'static str {
        "landmarks"
    }

    fn title(&self) -> &'static str {
        "Landmarks"
    }

    fn about(&self) -> &'static str {
        "The few tokens through which all others are compared, on the picture."
    }

    fn ui(&mut self, ui: &mut egui::Ui, context: &mut ViewContext<'_>) {
        let space = ui.available_rect_before_wrap();
        let placed = show_layer(ui, context, ui.scope_id().with("landmarks"), &[LayerId::Map], Drag::Pan);
        let (Some(placed), Some(snapshot)) = (placed, context.snapshot) else { return };
        if snapshot.landmarks == 0 {
            note(ui, space, "These rows need no landmarks.");
        } else if !context.settings.look.show_landmarks && !context.canvas.peek {
            draw_landmarks(&ui.painter_at(space), snapshot, &placed);
        }
    }
}
