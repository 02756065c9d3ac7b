//! Maps that are put aside: the reference that later ones are compared with, and the picture of the whole window.

use super::{App, Reference, perform};
use crate::explorer::snapshot::{Layer, LayerId, SEES_NOTHING};
use crate::explorer::textures;
use eframe::egui;
use glam::UVec2;
use std::sync::Arc;

impl App {
    /// Puts the map on screen aside, to compare later ones with it.
    pub(super) fn set_reference(&mut self) {
        let Some(snapshot) = self.snapshot.clone() else { return };
        let Some(map) = snapshot.layer(LayerId::Map) else {
            return self.tell(format!("There is no map to put aside: {SEES_NOTHING}."));
        };
        let state = self.textures.state();
        let size = UVec2::new(map.texture.width(), map.texture.height());
        let copy = textures::pixels(&state.device, "reference", size);
        let mut encoder = state.device.create_command_encoder(&wgpu::CommandEncoderDescriptor::default());
        encoder.copy_texture_to_texture(map.texture.as_image_copy(), copy.as_image_copy(), copy.size());
        state.queue.submit([encoder.finish()]);
        self.canvas.reference = Some(Layer { texture: copy, ..map.clone() });
        self.reference = Some(Reference {
            fused: snapshot.row.fused.clone(),
            note: format!("({}, {})", snapshot.query.x, snapshot.query.y),
        });
        self.tell("This map is the reference now: hold Shift to see it.");
    }

    /// ‖map − reference‖ / ‖reference‖, where there is a reference of as many tokens.
    pub fn reference_error(&self) -> Option<(f64, &str)> {
        let (reference, snapshot) = (self.reference.as_ref()?, self.snapshot.as_ref()?);
        let same = reference.fused.len() == snapshot.row.fused.len();
        let error = crate::vision::scene::relative_error(&snapshot.row.fused, &reference.fused);
        same.then_some((error, reference.note.as_str()))
    }

    /// Takes the picture of the window that was asked for, once there is something to see.
    pub(super) fn take_screenshot(&mut self, ctx: &egui::Context) {
        if self.screenshot.is_none() {
            return;
        }
        if let Some(why) =
            self.start_failure.clone().or_else(|| self.source_error.clone()).or_else(|| self.failure.clone())
        {
            if let Ok(mut ending) = self.ending.lock() {
                ending.failure = Some(why);
            }
            self.screenshot = None;
            return ctx.send_viewport_cmd(egui::ViewportCommand::Close);
        }
        // A moving source never rests.
        if self.snapshot.is_none() || !(self.is_settled() || self.live) {
            return;
        }
        // Two frames more, so that sizes have settled.
        if self.frame.still < 2 {
            self.frame.still += 1;
            return ctx.request_repaint();
        }
        let Some(path) = self.screenshot.take() else { return };
        let (closing, ending) = (ctx.clone(), Arc::clone(&self.ending));
        ctx.request_screenshot(move |picture| {
            if let (Err(why), Ok(mut ending)) = (perform::save_screenshot(&picture, &path), ending.lock()) {
                ending.failure = Some(why);
            }
            closing.send_viewport_cmd_to(egui::ViewportId::ROOT, egui::ViewportCommand::Close);
        });
    }
}
