//! Where the clicked pixel looks: its row of the attention matrix over the picture, heads fused or side by side.

use super::picture::{caption, show_layer, show_layer_in};
use super::{TourPage, View, ViewContext};
use crate::explorer::canvas::Drag;
use crate::explorer::settings::{Fusion, Settings};
use crate::explorer::snapshot::{LayerId, Needs};
use eframe::egui::{self, Rect, vec2};

/// The view.
#[derive(Debug, Default)]
pub(super) struct Attention {
    /// All heads in a grid.
    grid: bool,
}

impl View for Attention {
    fn id(&self) -> &'static str {
        "attention"
    }

    fn title(&self) -> &'static str {
        "Attention"
    }

    fn about(&self) -> &'static str {
        "Where the clicked pixel looks: its row of the attention matrix, over the picture."
    }

    fn needs(&self) -> Needs {
        Needs { heads: self.grid, ..Needs::default() }
    }

    fn has_controls(&self) -> bool {
        true
    }

    fn controls(&mut self, ui: &mut egui::Ui, _: &mut ViewContext<'_>) {
        ui.horizontal(|ui| {
            ui.selectable_value(&mut self.grid, false, "One picture");
            ui.selectable_value(&mut self.grid, true, "All heads")
                .on_hover_text("Every head by itself; click a heading to show that head alone");
        });
    }

    fn ui(&mut self, ui: &mut egui::Ui, context: &mut ViewContext<'_>) {
        if !self.grid {
            show_layer(ui, context, ui.scope_id().with("map"), &[LayerId::Map], Drag::Pan);
            return;
        }
        let heads = context.settings.compute.heads.max(1);
        let space = ui.available_rect_before_wrap();
        ui.allocate_rect(space, egui::Sense::hover());
        let cols = columns(heads, space.size());
        let rows = heads.div_ceil(cols);
        let gap = 4.0;
        let cell = vec2(
            (space.width() - gap * (cols - 1) as f32) / cols as f32,
            (space.height() - gap * (rows - 1) as f32) / rows as f32,
        );
        for head in 0..heads {
            let (row, col) = (head / cols, head % cols);
            let corner = space.min + vec2(col as f32 * (cell.x + gap), row as f32 * (cell.y + gap));
            let part = Rect::from_min_size(corner, cell);
            show_layer_in(
                ui,
                context,
                ui.scope_id().with(("head", head)),
                &[LayerId::Head(head)],
                Drag::Pan,
                part,
            );
            context.canvas.texts.push(caption(ui, part, &format!("Head {}", head + 1)));
        }
    }

    fn tour(&self) -> Vec<TourPage> {
        vec![TourPage {
            title: "How far likeness reaches",
            formula: "k(x, y) = exp(−‖x − y‖₁ / λ)",
            text: "Each token is a short list of numbers: its colour, its texture, its place. Two tokens are as alike as \
                   their lists are near. The bandwidth λ says what near means: with a small λ only near twins light up, \
                   with a large one everything does.\n\nDrag λ in the panel. Then try the Gaussian kernel: it forgets \
                   what is far away much sooner.",
            prepare: |settings: &mut Settings| {
                *settings = Settings { device: settings.device.clone(), ..Settings::default() };
                settings.look.fusion = Fusion::Mean;
            },
        }]
    }
}

/// How many columns make the cells of a grid widest for their height.
fn columns(count: usize, size: egui::Vec2) -> usize {
    let badness = |cols: usize| {
        let rows = count.div_ceil(cols);
        let (w, h) = (size.x / cols as f32, size.y / rows as f32);
        -(w.min(h * 1.4))
    };
    (1..=count).min_by(|a, b| badness(*a).total_cmp(&badness(*b))).unwrap_or(1)
}
