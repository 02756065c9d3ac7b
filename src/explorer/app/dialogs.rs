//! Asking for a file's name: by the system's dialog where there is one, by a field of our own where there is none.
//!
//! The library behind the system's dialogs does not tell a dialog that cannot be shown from one that was cancelled. So what
//! it needs is looked for first, and an answer that comes sooner than a person could give it counts as none.

use crate::explorer::keys::Own;
use eframe::egui;
use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, TryRecvError, channel};
use std::time::{Duration, Instant};

/// A file that was asked for and what to do with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Purpose {
    Open,
    OpenFolder,
    OpenArrays,
    OpenNetwork,
    SaveView,
    ExportMap,
    ExportCsv,
    ExportSettings,
    Sweep,
    SaveSession,
    RestoreSession,
}

impl Purpose {
    /// Name and suffixes of what is saved; `None` for what is opened.
    pub(super) fn target(self) -> Option<(&'static str, &'static [&'static str])> {
        match self {
            Self::Open | Self::OpenFolder | Self::OpenArrays | Self::OpenNetwork | Self::RestoreSession => {
                None
            }
            Self::SaveView => Some(("attention.png", &["png"])),
            Self::ExportMap => Some(("map.npy", &["npy", "png", "npz", "safetensors"])),
            Self::ExportCsv => Some(("row.csv", &["csv"])),
            Self::ExportSettings => Some(("settings.json", &["json"])),
            Self::Sweep => Some(("sweep.gif", &["gif"])),
            Self::SaveSession => Some(("session.json", &["json"])),
        }
    }

    /// What stands over the field.
    pub(super) fn title(self) -> &'static str {
        match self {
            Self::Open => "Open file",
            Self::OpenFolder => "Open folder",
            Self::OpenArrays => "Open q, k, v arrays",
            Self::OpenNetwork => "Open network",
            Self::SaveView => "Save view as",
            Self::ExportMap => "Export map as",
            Self::ExportCsv => "Export row as",
            Self::ExportSettings => "Export settings as",
            Self::Sweep => "Save sweep as",
            Self::SaveSession => "Save session as",
            Self::RestoreSession => "Restore session",
        }
    }

    /// The file that is meant by a name without a suffix: `map` is `map.npy`.
    pub(super) fn completed(self, path: &Path) -> PathBuf {
        let Some((_, [first, ..])) = self.target() else { return path.to_path_buf() };
        // In `attention 1.5` the dot belongs to a number.
        let named = path.extension().is_some_and(|suffix| {
            let suffix = suffix.to_string_lossy();
            suffix.len() > 1 && suffix.chars().any(char::is_alphabetic)
        });
        match path.file_name() {
            Some(name) if !named => {
                let mut name = name.to_os_string();
                name.push(".");
                name.push(first);
                path.with_file_name(name)
            }
            _ => path.to_path_buf(),
        }
    }
}

/// Nobody reads a dialog and cancels it within this time.
const AT_ONCE: Duration = Duration::from_millis(600);

/// A dialog of the system that is open.
#[derive(Debug)]
struct Waiting {
    purpose: Purpose,
    answer: Receiver<Option<PathBuf>>,
    since: Instant,
}

/// Dialogs that are open: they run on threads of their own, so that the window goes on.
#[derive(Debug, Default)]
pub(super) struct Dialogs {
    open: Vec<Waiting>,
    /// The field of our own, where it is open.
    pub(super) field: Option<PathField>,
    /// Answers to give in place of asking, for tests.
    pub(super) scripted: VecDeque<PathBuf>,
    /// Whether the system has dialogs; looked for when the first one is asked for.
    pub(super) system: Option<bool>,
}

impl Dialogs {
    /// Asks for a file's name.
    pub(super) fn ask(&mut self, ctx: &egui::Context, purpose: Purpose) {
        let (send, answer) = channel();
        if let Some(path) = self.scripted.pop_front() {
            // The receiver is right here.
            let _ = send.send(Some(path));
            self.open.push(Waiting { purpose, answer, since: Instant::now() });
            return ctx.request_repaint();
        }
        if !*self.system.get_or_insert_with(system_has_dialogs) {
            self.field = Some(PathField::new(purpose));
            return ctx.request_repaint();
        }
        let waking = ctx.clone();
        let started = std::thread::Builder::new().name("dialog".into()).spawn(move || {
            let dialog = rfd::FileDialog::new();
            let path = match purpose.target() {
                Some((name, suffixes)) => dialog.set_file_name(name).add_filter(name, suffixes).save_file(),
                None if purpose == Purpose::OpenFolder => dialog.pick_folder(),
                None => dialog.pick_file(),
            };
            // The window may be gone by then.
            let _ = send.send(path);
            waking.request_repaint();
        });
        match started {
            Ok(_) => self.open.push(Waiting { purpose, answer, since: Instant::now() }),
            Err(_) => self.field = Some(PathField::new(purpose)),
        }
    }

    /// Names that were given since the last frame.
    pub(super) fn answered(&mut self) -> Vec<(Purpose, PathBuf)> {
        let mut found = Vec::new();
        let mut unshown = None;
        self.open.retain(|waiting| match waiting.answer.try_recv() {
            Ok(Some(path)) => {
                found.push((waiting.purpose, path));
                false
            }
            Ok(None) | Err(TryRecvError::Disconnected) => {
                if waiting.since.elapsed() < AT_ONCE {
                    unshown = Some(waiting.purpose);
                }
                false
            }
            Err(TryRecvError::Empty) => true,
        });
        if let Some(purpose) = unshown {
            self.field = Some(PathField::new(purpose));
        }
        found
    }

    /// Takes the key that closes the field before anything else makes something of it.
    pub(super) fn take_keys(&mut self, ctx: &egui::Context) {
        if self.field.is_some() && Own::Close.pressed(ctx) {
            self.field = None;
        }
    }
}

/// Whether there is something that shows file dialogs: a portal that the session's bus can start, or the program zenity.
#[cfg(target_os = "linux")]
fn system_has_dialogs() -> bool {
    let folders = |name: &str, usual: &str| {
        let value = std::env::var_os(name).filter(|v| !v.is_empty()).unwrap_or_else(|| usual.into());
        std::env::split_paths(&value).collect::<Vec<_>>()
    };
    if folders("PATH", "").iter().any(|folder| folder.join("zenity").is_file()) {
        return true;
    }
    // Within a sandbox the portal is outside and always there.
    if Path::new("/.flatpak-info").exists() {
        return true;
    }
    let bus = std::env::var_os("DBUS_SESSION_BUS_ADDRESS").is_some_and(|address| !address.is_empty())
        || std::env::var_os("XDG_RUNTIME_DIR").is_some_and(|folder| Path::new(&folder).join("bus").exists());
    let own = std::env::var_os("XDG_DATA_HOME").map(PathBuf::from);
    let own = own.or_else(|| std::env::var_os("HOME").map(|home| PathBuf::from(home).join(".local/share")));
    let service = Path::new("dbus-1/services/org.freedesktop.portal.Desktop.service");
    let mut data = folders("XDG_DATA_DIRS", "/usr/local/share:/usr/share").into_iter().chain(own);
    bus && data.any(|folder| folder.join(service).exists())
}

/// Elsewhere they are part of the system.
#[cfg(not(target_os = "linux"))]
fn system_has_dialogs() -> bool {
    true
}

/// What was decided in the field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Decision {
    Accept,
    Close,
}

/// A path that is being typed.
#[derive(Clone, Debug)]
pub(super) struct PathField {
    /// What for.
    pub(super) purpose: Purpose,
    /// What is typed so far.
    text: String,
    /// Why what was typed does not do.
    pub(super) error: Option<String>,
    /// A file that is replaced when it is named once more.
    replaced: Option<PathBuf>,
    /// Whether the keyboard belongs to the field from the next frame on.
    focus: bool,
}

impl PathField {
    /// Begins in the folder that the program runs in, with the usual name.
    fn new(purpose: Purpose) -> Self {
        let folder = std::env::current_dir().unwrap_or_default();
        let path = folder.join(purpose.target().map_or("", |(name, _)| name));
        Self { purpose, text: path.display().to_string(), error: None, replaced: None, focus: true }
    }

    /// The file that is named; what exists is replaced only when it is named twice.
    ///
    /// Errors: what the user is asked to do instead.
    pub(super) fn path(&mut self) -> Result<PathBuf, String> {
        let typed = self.text.trim();
        if typed.is_empty() {
            return Err("Type the path of a file.".into());
        }
        let home = || std::env::var_os(if cfg!(windows) { "USERPROFILE" } else { "HOME" }).map(PathBuf::from);
        let path = match typed.strip_prefix("~/").and_then(|rest| Some(home()?.join(rest))) {
            Some(path) => path,
            None => PathBuf::from(typed),
        };
        let path = self.purpose.completed(&path);
        if self.purpose.target().is_some() && path.exists() && self.replaced.as_ref() != Some(&path) {
            let why = match path.is_dir() {
                true => format!("{} is a folder: name a file in it.", path.display()),
                false => {
                    self.replaced = Some(path.clone());
                    format!("{} is there already: press Enter again to replace it.", path.display())
                }
            };
            return Err(why);
        }
        Ok(path)
    }

    /// Says why what was typed does not do, and lets it be corrected.
    pub(super) fn refuse(&mut self, why: String) {
        self.error = Some(why);
        self.focus = true;
    }

    /// Draws the window.
    pub(super) fn show(&mut self, ctx: &egui::Context) -> Option<Decision> {
        let mut decision = None;
        let mut open = true;
        let width = (ctx.content_rect().width() - 80.0).clamp(240.0, 560.0);
        egui::Window::new(self.purpose.title())
            .id(egui::Id::unique("path field"))
            .open(&mut open)
            .collapsible(false)
            .auto_sized()
            .anchor(egui::Align2::CENTER_CENTER, egui::Vec2::ZERO)
            .show(ctx, |ui| {
                ui.set_width(width);
                ui.add_space(4.0);
                let label = ui.label(match (self.purpose, self.purpose.target()) {
                    (Purpose::OpenFolder, _) => "Path of a folder".to_string(),
                    (_, None) => "Path of a file".to_string(),
                    (_, Some((_, suffixes))) => {
                        let suffixes: Vec<String> = suffixes.iter().map(|s| format!(".{s}")).collect();
                        format!("Path of the file ({})", suffixes.join(", "))
                    }
                });
                let field = egui::TextEdit::singleline(&mut self.text).desired_width(f32::INFINITY);
                let typed = ui.add(field).labelled_by(label.id);
                if typed.changed() {
                    self.error = None;
                    self.replaced = None;
                }
                if std::mem::take(&mut self.focus) {
                    typed.request_focus();
                    select_name(ui.ctx(), typed.id, &self.text);
                }
                if typed.lost_focus() && Own::Accept.seen(ui.ctx()) {
                    decision = Some(Decision::Accept);
                }
                if let Some(error) = &self.error {
                    ui.colored_label(ui.visuals().error_fg_color, error);
                }
                ui.add_space(4.0);
                // A row of buttons' height: otherwise they would stand in the middle of all the room there is.
                let row = egui::vec2(ui.available_width(), ui.spacing().interact_size.y);
                ui.allocate_ui_with_layout(row, egui::Layout::right_to_left(egui::Align::Center), |ui| {
                    let name = if self.purpose.target().is_some() { "Save" } else { "Open" };
                    if ui.button(name).clicked() {
                        decision = Some(Decision::Accept);
                    }
                    if ui.button("Cancel").clicked() {
                        decision = Some(Decision::Close);
                    }
                });
            });
        decision.or((!open).then_some(Decision::Close))
    }
}

/// Selects the file's name without its suffix, so that typing replaces it.
fn select_name(ctx: &egui::Context, id: egui::Id, text: &str) {
    use egui::text::{CCursor, CCursorRange};
    let letters = |part: &str| part.chars().count();
    let from = text.rfind(std::path::is_separator).map_or(0, |at| letters(&text[..at]) + 1);
    let name = text.chars().skip(from).collect::<String>();
    let to = from + name.rfind('.').map_or(letters(&name), |at| letters(&name[..at]));
    let mut state = egui::text_edit::TextEditState::load(ctx, id).unwrap_or_default();
    state.cursor.set_char_range(Some(CCursorRange::two(CCursor::new(from), CCursor::new(to))));
    state.store(ctx, id);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_suffix_is_added_and_any_other_left_to_be_told() {
        for (purpose, typed, meant) in [
            (Purpose::ExportMap, "a/map", "a/map.npy"),
            (Purpose::ExportMap, "a/map.PNG", "a/map.PNG"),
            (Purpose::SaveView, "attention 1.5", "attention 1.5.png"),
            (Purpose::SaveView, "view.jpg", "view.jpg"),
            (Purpose::SaveSession, ".hidden", ".hidden.json"),
            (Purpose::Open, "picture", "picture"),
        ] {
            assert_eq!(purpose.completed(Path::new(typed)), Path::new(meant), "{purpose:?}");
        }
    }
}
