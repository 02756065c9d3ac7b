//! What each action does.

use super::{Action, App};
use crate::explorer::settings::{Colours, Fusion, Range, Settings};
use eframe::egui;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, channel};

/// A file that was asked for and what to do with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Purpose {
    Open,
    SaveView,
}

/// Dialogs that are open: they run on threads of their own, so that the window goes on.
#[derive(Debug, Default)]
pub(super) struct Dialogs {
    open: Vec<(Purpose, Receiver<Option<PathBuf>>)>,
}

impl Dialogs {
    fn ask(
        &mut self,
        ctx: &egui::Context,
        purpose: Purpose,
        dialog: impl FnOnce() -> Option<PathBuf> + Send + 'static,
    ) {
        let (send, receive) = channel();
        let waking = ctx.clone();
        let started = std::thread::Builder::new().name("dialog".into()).spawn(move || {
            // The window may be gone by then.
            let _ = send.send(dialog());
            waking.request_repaint();
        });
        if started.is_ok() {
            self.open.push((purpose, receive));
        }
    }

    fn answered(&mut self) -> Vec<(Purpose, PathBuf)> {
        let mut found = Vec::new();
        self.open.retain(|(purpose, receive)| match receive.try_recv() {
            Ok(Some(path)) => {
                found.push((*purpose, path));
                false
            }
            Ok(None) | Err(std::sync::mpsc::TryRecvError::Disconnected) => false,
            Err(std::sync::mpsc::TryRecvError::Empty) => true,
        });
        found
    }
}

impl App {
    /// Whether an action can be done now.
    pub(super) fn can(&self, action: Action) -> bool {
        match action {
            Action::Undo => self.history.can_undo(),
            Action::Redo => self.history.can_redo(),
            Action::ShowReference => self.canvas.reference.is_some(),
            Action::PlayPause | Action::StepBack | Action::StepForward => self.player.is_some(),
            Action::Head(head) => usize::from(head) < self.document.settings.compute.heads,
            Action::SaveView | Action::SetReference => self.snapshot.is_some(),
            _ => true,
        }
    }

    /// Does it.
    pub(super) fn perform(&mut self, ctx: &egui::Context, action: Action) {
        if !self.can(action) {
            return;
        }
        let look = &mut self.document.settings.look;
        match action {
            Action::OpenFile => self.dialogs.ask(ctx, Purpose::Open, || rfd::FileDialog::new().pick_file()),
            Action::OpenFolder => {
                self.dialogs.ask(ctx, Purpose::Open, || rfd::FileDialog::new().pick_folder())
            }
            Action::Camera => self.open_new(ctx, "camera".into()),
            Action::Screen => self.open_new(ctx, "screen".into()),
            Action::Synthetic => self.open_new(ctx, "synthetic".into()),
            Action::PasteImage => ctx.send_viewport_cmd(egui::ViewportCommand::RequestPaste),
            Action::Reload => {
                let what = self.sources.get(self.source).cloned();
                self.open_source(ctx, what.as_deref());
            }
            Action::Quit => ctx.send_viewport_cmd(egui::ViewportCommand::Close),
            Action::Undo => {
                self.history.undo(&mut self.document);
            }
            Action::Redo => {
                self.history.redo(&mut self.document);
            }
            Action::ResetSettings => {
                let device = self.document.settings.device.clone();
                self.document.settings = Settings { device, ..Settings::default() };
            }
            Action::Fit => self.canvas.fit(),
            Action::ActualSize => self.canvas.actual_size(),
            Action::ZoomIn => self.canvas.zoom_by(1.25, 1.0),
            Action::ZoomOut => self.canvas.zoom_by(0.8, 1.0),
            Action::CycleColours => {
                look.colours = match look.colours {
                    Colours::Auto => Colours::Sequential,
                    Colours::Sequential => Colours::Diverging,
                    Colours::Diverging => Colours::Grey,
                    Colours::Grey => Colours::Auto,
                }
            }
            Action::NormaliseRange => look.range = Range::Fit,
            Action::FlagBad => look.flag_bad = !look.flag_bad,
            Action::Landmarks => look.show_landmarks = !look.show_landmarks,
            Action::MeanOfHeads => look.fusion = Fusion::Mean,
            Action::Head(head) => look.fusion = Fusion::Head(usize::from(head)),
            Action::SetReference => self.set_reference(),
            Action::HideUi => self.hide_ui = !self.hide_ui,
            Action::FullScreen => {
                let full = ctx.input(|i| i.viewport().fullscreen.unwrap_or(false));
                ctx.send_viewport_cmd(egui::ViewportCommand::Fullscreen(!full));
            }
            Action::PlayPause => {
                if let Some(player) = &self.player {
                    player.set_playing(!player.playing());
                }
            }
            Action::StepBack | Action::StepForward => {
                if let Some(player) = &self.player {
                    player.step(if action == Action::StepBack { -1 } else { 1 });
                }
            }
            Action::PreviousPicture => self.next_picture(ctx, -1),
            Action::NextPicture => self.next_picture(ctx, 1),
            Action::Help => self.help = !self.help,
            Action::Information => self.information = !self.information,
            _ => {}
        }
    }

    /// Does what was waiting for a file's name.
    pub(super) fn take_answers(&mut self, ctx: &egui::Context) {
        for (purpose, path) in self.dialogs.answered() {
            match purpose {
                Purpose::Open => self.open_new(ctx, path.display().to_string()),
                Purpose::SaveView => {}
            }
        }
    }
}

/// Saves a picture of the window.
///
/// Errors: one line that names the file.
pub(super) fn save_screenshot(picture: &egui::ColorImage, path: &Path) -> Result<(), String> {
    let [width, height] = picture.size.map(|side| side as u32);
    let pixels = picture.pixels.iter().flat_map(|p| [p.r(), p.g(), p.b()]).collect();
    let image =
        image::RgbImage::from_raw(width, height, pixels).ok_or("a row of the window's picture is missing")?;
    crate::vision::overlay::save_picture(&image, path).map_err(|e| e.to_string())
}
