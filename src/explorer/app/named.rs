//! What the picture in sight is called, and which of how many it is: at the end of the menu bar and in the window's title.

use super::App;
use crate::explorer::widgets::small_print;
use crate::source::Kind;
use eframe::egui::{self, Align, Layout, RichText};
use std::path::Path;

impl App {
    /// Name of the picture in sight; `None` before there is one.
    pub fn picture_name(&self) -> Option<String> {
        let photo = self.photo.as_ref()?;
        let own = || {
            let name = Path::new(photo.name()).file_name();
            name.map_or_else(|| photo.name().to_string(), |name| name.to_string_lossy().into_owned())
        };
        let status = self.player.as_ref().map(|player| player.status());
        match status {
            // A frame has no name of its own.
            Some(status) if matches!(status.kind, Kind::Clip { .. } | Kind::Live) => Some(status.name),
            _ => Some(own()),
        }
    }

    /// Which picture it is, from 1, and of how many: of a folder, of a clip, or of the files that were given.
    pub fn picture_place(&self) -> Option<(u64, u64)> {
        let kind = self.player.as_ref().map(|player| player.status().kind);
        match kind {
            Some(Kind::Folder { count } | Kind::Clip { frames: Some(count) }) => {
                Some((self.picture + 1, count))
            }
            Some(Kind::Live | Kind::Clip { frames: None }) => None,
            Some(Kind::Still) if self.sources.len() > 1 => {
                Some((self.source as u64 + 1, self.sources.len() as u64))
            }
            Some(Kind::Still) | None => None,
        }
    }

    /// What the window is called.
    pub fn title(&self) -> &str {
        &self.title
    }

    /// Writes both at the end of the menu bar.
    pub(super) fn name(&self, ui: &mut egui::Ui) {
        let Some(name) = self.picture_name() else { return };
        ui.with_layout(Layout::right_to_left(Align::Center), |ui| {
            let size = small_print(ui);
            let text = |text: String| egui::Label::new(RichText::new(text).size(size)).selectable(false);
            if let Some((number, count)) = self.picture_place() {
                ui.add(text(format!("{number} of {count}")).extend());
                ui.separator();
            }
            let path = self.photo.as_ref().map_or("", |photo| photo.name());
            ui.add(text(name).truncate()).on_hover_text(path);
        });
    }

    /// Calls the window by the picture's name; by its place in a folder, too.
    pub(super) fn entitle(&mut self, ctx: &egui::Context) {
        let kind = self.player.as_ref().map(|player| player.status().kind);
        // The frames of a clip would have it change all the time.
        let place = self.picture_place().filter(|_| !matches!(kind, Some(Kind::Clip { .. })));
        let place = place.map_or_else(String::new, |(number, count)| format!(" ({number} of {count})"));
        let title = self.picture_name().map_or("wgattn".into(), |name| format!("{name}{place} – wgattn"));
        if title != self.title {
            self.title = title;
            ctx.send_viewport_cmd(egui::ViewportCommand::Title(self.title.clone()));
        }
    }
}
