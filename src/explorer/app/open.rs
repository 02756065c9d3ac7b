//! Opening sources: what the command line names, what is dropped or pasted, and the picture there is without any.

use super::App;
use crate::explorer::networks::Source;
use crate::source::{self, Kind, Player, built_in};
use crate::topology::read;
use crate::vision::image::Photo;
use crate::whole_file::open_input;
use crate::words::{counted, told};
use eframe::egui;
use std::path::Path;
use std::time::Duration;

/// How long the clipboard's picture may take to come.
const PASTE: Duration = Duration::from_millis(300);

/// Where the built-in photograph is clicked first: the cat's face.
const FIRST_QUERY: [u32; 2] = [214, 96];

/// Whether a file is a network by its suffix.
fn is_network(path: &Path) -> bool {
    let suffix = path.extension().map(|s| s.to_string_lossy().to_lowercase());
    suffix.is_some_and(|suffix| read::SUFFIXES.contains(&suffix.as_str()))
}

impl App {
    /// Opens a source in place of the present one, which stays if this one cannot be opened.
    pub(super) fn open_source(&mut self, ctx: &egui::Context, what: Option<&str>) {
        self.arrays = None;
        self.source_error = None;
        self.asked_photos.clear();
        let Some(what) = what else {
            match built_in::photo() {
                Ok(photo) => {
                    self.live = false;
                    self.player = None;
                    if self.photo.is_none() && self.document.query == [0, 0] {
                        self.document.query = FIRST_QUERY;
                    }
                    self.show_photo(photo);
                    self.built_in = true;
                }
                Err(error) => self.tell_failure(error.to_string()),
            }
            return;
        };
        match source::open(what) {
            Ok(source) => {
                let kind = source.kind();
                self.live = matches!(kind, Kind::Live | Kind::Clip { .. });
                let waking = ctx.clone();
                self.player = Some(Player::start(source, move || waking.request_repaint()));
            }
            Err(error) => self.source_error = Some(error.to_string()),
        }
    }

    /// What of the sources behind the first one is not there; the first one tells of itself when it is opened.
    pub(super) fn missing_sources(&self) -> Option<String> {
        let mut missing = self.sources.iter().skip(1).filter_map(|what| source::check(what).err());
        let first = missing.next()?;
        Some(match missing.count() {
            0 => first.to_string(),
            more => format!(
                "{first} (and {})",
                counted(more, "more source is missing", "more sources are missing")
            ),
        })
    }

    /// Opens something new and keeps it in the list of sources.
    pub(super) fn open_new(&mut self, ctx: &egui::Context, what: String) {
        self.sources.push(what.clone());
        self.source = self.sources.len() - 1;
        self.open_source(ctx, Some(&what));
    }

    /// Opens a network from a file, and the view that shows it; what there is to tell.
    ///
    /// Errors: one line for the user. What is in the file is looked at by the view, which tells of it.
    pub(super) fn open_network(&mut self, path: &Path) -> Result<String, String> {
        let name = path.display();
        if !is_network(path) {
            return Err(format!(
                "{name}: no network by its suffix; known are {}: rename the file to what it holds",
                read::SUFFIXES.map(|suffix| format!(".{suffix}")).join(", ")
            ));
        }
        open_input(path).map_err(|error| format!("{name}: {}", told(&error)))?;
        let whole = source::anywhere(&name.to_string());
        let settings = &mut self.document.settings.networks.network;
        (settings.source, settings.query) = (Source::File(whole), 0);
        settings.moved.clear();
        // The same file again: it may have changed.
        self.views.iter_mut().for_each(|view| view.reload());
        self.open_view("network");
        Ok(format!("The network is read from {name}."))
    }

    /// Sources from the one that is shown on.
    pub(super) fn current_sources(&self) -> Vec<String> {
        self.sources.iter().skip(self.source).cloned().collect()
    }

    /// Goes to the next or previous picture: in a folder, or in the list of the command line.
    pub(super) fn next_picture(&mut self, ctx: &egui::Context, by: i64) {
        let folder = self.player.as_ref().filter(|p| matches!(p.status().kind, Kind::Folder { .. }));
        if let Some(player) = folder {
            player.step(by);
        } else if self.sources.len() > 1 {
            let count = self.sources.len() as i64;
            self.source = (self.source as i64 + by).rem_euclid(count) as usize;
            let what = self.sources[self.source].clone();
            self.open_source(ctx, Some(&what));
        }
    }

    /// Files that were dropped and pictures that were pasted.
    pub(super) fn take_input(&mut self, ctx: &egui::Context) {
        let (dropped, pasted) = ctx.input(|i| {
            let dropped: Vec<_> = i.raw.dropped_files.clone();
            let pasted = i.events.iter().find_map(|event| match event {
                egui::Event::PasteImage(image) => Some(std::sync::Arc::clone(image)),
                _ => None,
            });
            (dropped, pasted)
        });
        if let Some(since) = self.paste_asked {
            if pasted.is_some() {
                self.paste_asked = None;
            } else if since.elapsed() >= PASTE {
                self.paste_asked = None;
                self.tell_failure("There is no picture on the clipboard: copy one first.");
            } else {
                ctx.request_repaint_after(PASTE);
            }
        }
        if let Some(image) = pasted {
            let [width, height] = image.size.map(|side| side as u32);
            let bytes = image.pixels.iter().flat_map(|p| [p.r(), p.g(), p.b()]).collect();
            match Photo::from_rgb8("pasted picture", width, height, bytes) {
                Ok(photo) => {
                    self.player = None;
                    self.live = false;
                    self.show_photo(photo);
                }
                Err(error) => self.tell_failure(error.to_string()),
            }
        }
        for file in dropped {
            let path = file.path();
            let name = path.display().to_string();
            if path.is_file() && is_network(path) {
                let outcome = self.open_network(path);
                self.tell_outcome(outcome);
                continue;
            }
            if path.exists() {
                self.open_new(ctx, name);
                continue;
            }
            // Some systems hand over what is in a file, but not where it is.
            let photo =
                file.bytes().and_then(|bytes| Photo::decode(&bytes, &name).map_err(|e| e.to_string()));
            match photo {
                Ok(photo) => {
                    self.player = None;
                    self.live = false;
                    self.show_photo(photo);
                }
                Err(why) => self.tell_failure(format!("{name}: {why}")),
            }
        }
    }
}
