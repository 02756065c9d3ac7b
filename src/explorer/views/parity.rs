//! The device against the f64 reference: the difference as a picture, and in words what it means.

use super::picture::show_layer;
use super::plots;
use super::{View, ViewContext};
use crate::explorer::canvas::{Drag, Placed};
use crate::explorer::snapshot::{LayerId, Needs, Parity, Snapshot};
use crate::numbers::{number, seconds};
use eframe::egui::{self, Align2, RichText, Stroke, vec2};

/// The view.
#[derive(Debug, Default)]
pub(super) struct ParityView;

impl View for ParityView {
    fn id(&self) -> &'static str {
        "parity"
    }

    fn title(&self) -> &'static str {
        "Parity"
    }

    fn about(&self) -> &'static str {
        "The row as the device computed it, less the same computation in f64."
    }

    fn needs(&self) -> Needs {
        Needs { parity: true, ..Needs::default() }
    }

    fn ui(&mut self, ui: &mut egui::Ui, context: &mut ViewContext<'_>) {
        plots::page(ui, |ui| {
            let Some(snapshot) = context.snapshot else { return plots::nothing_yet(ui) };
            if snapshot.sees_nothing() {
                return plots::nothing_seen(ui);
            }
            let Some(parity) = &snapshot.parity else {
                return match &snapshot.no_parity {
                    Some(reason) => plots::empty(ui, "No reference for this row", reason),
                    None => plots::empty(
                        ui,
                        "No reference yet",
                        "The same row is being computed in f64 on the CPU, which takes longer than the device.",
                    ),
                };
            };
            summary(ui, snapshot, parity);
            ui.add_space(6.0);
            if snapshot.layer(LayerId::Parity).is_none() {
                ui.label(RichText::new("The picture of the difference appears with the next answer.").weak());
                return;
            }
            let id = ui.scope_id().with("parity picture");
            if let Some(placed) = show_layer(ui, context, id, &[LayerId::Parity], Drag::Pan) {
                context.canvas.texts.extend(mark(ui, &placed, snapshot, parity));
            }
        });
    }
}

/// What a relative error means, from the best to the worst: its upper end, a word, and a sentence.
const VERDICTS: &[(f64, &str, &str)] = &[
    (
        1e-5,
        "Equal to rounding",
        "The device does what the formulas say; the rest is the rounding of single precision.",
    ),
    (
        1e-3,
        "Equal to the eye",
        "Single precision loses some digits in the inverse of the landmark matrix. No colour changes by a visible step.",
    ),
    (
        1.0 / 256.0,
        "Close",
        "The landmark matrix is hard to invert in single precision: the error nears one of the 256 steps of the \
         colours. A larger ε helps.",
    ),
    (
        f64::INFINITY,
        "Different",
        "The error is larger than a step of the colours. Increase ε; if it stays, the device or its driver computes \
         something else: please report it with the device's name.",
    ),
];

/// Word and sentence for a relative error.
fn verdict(relative: f64) -> (&'static str, &'static str, bool) {
    let found = VERDICTS.iter().find(|(end, ..)| relative <= *end).or(VERDICTS.last());
    let (word, sentence) = found.map_or(("", ""), |(_, word, sentence)| (word, sentence));
    (word, sentence, relative <= 1.0 / 256.0)
}

fn summary(ui: &mut egui::Ui, snapshot: &Snapshot, parity: &Parity) {
    let (word, sentence, fine) = verdict(parity.relative);
    let (token, head) = parity.at;
    let cols = snapshot.grid.cols().max(1);
    plots::figures(ui, |ui| {
        let colour = if fine { ui.visuals().strong_text_color() } else { ui.visuals().error_fg_color };
        plots::coloured_figure(ui, "Verdict", word, colour);
        plots::figure(ui, "Relative error", number(parity.relative))
            .on_hover_text("‖device − reference‖ / ‖reference‖ over all heads");
        plots::figure(ui, "Largest deviation", format!("{} of the largest value", number(parity.worst)))
            .on_hover_text("Largest difference of one token, over the row's largest magnitude");
        plots::figure(
            ui,
            "Where",
            format!("head {}, token {token} (row {}, column {})", head + 1, token / cols, token % cols),
        );
        plots::figure(ui, "Reference took", seconds(parity.seconds))
            .on_hover_text("The same computation in f64 on the CPU");
        plots::figure(ui, "Device", snapshot.device.name.clone());
    });
    ui.add_space(2.0);
    ui.label(sentence);
}

/// Marks the token with the largest deviation; where the mark's text stands.
fn mark(ui: &egui::Ui, placed: &Placed, snapshot: &Snapshot, parity: &Parity) -> Option<egui::Rect> {
    let painter = ui.painter().with_clip_rect(placed.clip.intersect(ui.clip_rect()));
    // Two rings, one in each of the theme's extremes, are seen on any picture.
    let (inner, outer) = (ui.visuals().strong_text_color(), ui.visuals().extreme_bg_color);
    let screen = |token: usize| {
        let cell = snapshot.grid.token_rect(token).ok()?;
        Some(egui::Rect::from_two_pos(placed.to_screen(cell.min), placed.to_screen(cell.max)))
    };
    let cell = screen(parity.at.0)?;
    let ring = cell.expand(4.0);
    painter.rect_stroke(ring, 3.0, Stroke::new(3.0, outer), egui::StrokeKind::Outside);
    painter.rect_stroke(ring, 3.0, Stroke::new(1.5, inner), egui::StrokeKind::Outside);
    let label = "largest deviation";
    let font = egui::FontId::proportional(plots::CAPTION);
    let galley = painter.layout_no_wrap(label.into(), font, inner);
    let to_the_left = ring.right() + galley.size().x + 14.0 > placed.clip.right();
    let at =
        if to_the_left { ring.left_center() - vec2(8.0, 0.0) } else { ring.right_center() + vec2(8.0, 0.0) };
    let anchor = if to_the_left { Align2::RIGHT_CENTER } else { Align2::LEFT_CENTER };
    let space = anchor.anchor_size(at, galley.size());
    painter.rect_filled(space.expand2(vec2(4.0, 2.0)), 3.0, outer.gamma_multiply(0.8));
    painter.galley(space.min, galley, inner);
    Some(space)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_error_has_a_verdict() {
        assert_eq!(verdict(1e-7).0, "Equal to rounding");
        assert_eq!(verdict(2e-3).0, "Close");
        assert!(verdict(2e-3).2 && !verdict(0.1).2);
        assert_eq!(verdict(f64::NAN).0, "Different");
        assert!(!verdict(f64::NAN).2);
    }
}
