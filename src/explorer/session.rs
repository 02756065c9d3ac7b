//! Sessions: everything that was set, painted and opened, as one JSON file that appears whole or not at all.
//!
//! The last session is kept in the user's folder for data: `$XDG_DATA_HOME/wgattn` or `~/.local/share/wgattn` on Unix,
//! `~/Library/Application Support/wgattn` on macOS, `%APPDATA%\wgattn` on Windows.

mod limits;
mod wording;

use super::document::Document;
use crate::whole_file::{read_input, write_whole};
use crate::words::told;
use eframe::egui;
use serde::{Deserialize, Serialize};
use std::ffi::OsString;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

/// Version of the files that are written. It grows when an older program would misread them; fields that are merely
/// new need no new version, because fields that are not known are passed over and missing ones take their defaults.
pub const VERSION: u32 = 1;

/// Largest file that is read: painted masks of a large picture included.
const MOST_BYTES: u64 = 256 << 20;

/// Everything that is kept.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Session {
    /// Version of the file.
    pub version: u32,
    /// Settings, clicked pixel, masks.
    pub document: Document,
    /// What was open, as `wgattn explore` takes it: a path, `camera`, `screen`; `None` for the built-in scene.
    pub source: Option<String>,
    /// Views on screen, by their ids, in their order.
    pub open_views: Vec<String>,
    /// Light or dark.
    pub theme: Theme,
    /// Whether panels are hidden.
    pub hidden_panels: bool,
}

impl Default for Session {
    fn default() -> Self {
        Self {
            version: VERSION,
            document: Document::default(),
            source: None,
            open_views: Vec::new(),
            theme: Theme::default(),
            hidden_panels: false,
        }
    }
}

/// Light or dark.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Theme {
    /// As the desktop.
    #[default]
    System,
    /// Dark.
    Dark,
    /// Light.
    Light,
}

impl From<Theme> for egui::ThemePreference {
    fn from(theme: Theme) -> Self {
        match theme {
            Theme::System => Self::System,
            Theme::Dark => Self::Dark,
            Theme::Light => Self::Light,
        }
    }
}

impl From<egui::ThemePreference> for Theme {
    fn from(preference: egui::ThemePreference) -> Self {
        match preference {
            egui::ThemePreference::System => Self::System,
            egui::ThemePreference::Dark => Self::Dark,
            egui::ThemePreference::Light => Self::Light,
        }
    }
}

/// Why a session cannot be saved or restored; one line each.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SessionError {
    /// The file cannot be read.
    #[error("session `{path}`: cannot read: {}", told(.reason))]
    Read {
        /// The file.
        path: PathBuf,
        /// The system's reason.
        reason: io::Error,
    },
    /// The file cannot be written; what stood there is untouched.
    #[error("session `{path}`: cannot write: {}", told(.reason))]
    Write {
        /// The file.
        path: PathBuf,
        /// The system's reason.
        reason: io::Error,
    },
    /// A newer program wrote the file.
    #[error(
        "session `{path}`: version {found} was written by a newer wgattn, this one knows up to {VERSION}; update wgattn, or save under another name"
    )]
    Newer {
        /// The file.
        path: PathBuf,
        /// Its version.
        found: u64,
    },
    /// The file is no session.
    #[error("session `{path}`: not a session: {reason}{}", kept_text(.kept.as_ref()))]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What is wrong with it, with line and column.
        reason: String,
        /// Where it was moved to, if it was.
        kept: Option<PathBuf>,
    },
    /// A number is not what it may be.
    #[error(
        "session `{path}`: {field}: expected {expected}, got {got}; correct it, or leave it out{}",
        kept_text(.kept.as_ref())
    )]
    Number {
        /// The file.
        path: PathBuf,
        /// Its place in the file: `document.settings.compute.lambda`.
        field: &'static str,
        /// What it may be.
        expected: String,
        /// What it is.
        got: String,
        /// Where the file was moved to, if it was.
        kept: Option<PathBuf>,
    },
    /// A number that JSON cannot hold.
    #[error("session: a setting is not a finite number; set it to another value")]
    NotFinite,
}

fn kept_text(kept: Option<&PathBuf>) -> String {
    kept.map_or_else(String::new, |kept| format!("; it was kept as `{}`", kept.display()))
}

impl Session {
    /// Saves it to `path`, whole or not at all.
    ///
    /// Errors: every variant of [`SessionError`] except `Read`, `Damaged` and `Number`; `Newer` for a file there that a newer
    /// program wrote, which is not replaced.
    pub fn save(&self, path: &Path) -> Result<(), SessionError> {
        let session = Self { version: VERSION, ..self.clone() };
        let text = serde_json::to_string_pretty(&session).map_err(|_| SessionError::NotFinite)?;
        // A NaN is written as null, and would be no number when it is read.
        if serde_json::from_str::<Self>(&text).ok().as_ref() != Some(&session) {
            return Err(SessionError::NotFinite);
        }
        if let Ok(there) = read_text(path)
            && let Some(found) = version_of(&there).filter(|version| *version > u64::from(VERSION))
        {
            return Err(SessionError::Newer { path: path.into(), found });
        }
        write_whole(path, |mut file| file.write_all(text.as_bytes()))
            .map_err(|reason| SessionError::Write { path: path.into(), reason })
    }

    /// Reads the session at `path`.
    ///
    /// Errors: `Read`, `Newer`, `Damaged`, `Number`; the file is left as it is.
    pub fn load(path: &Path) -> Result<Self, SessionError> {
        let text = read_text(path).map_err(|reason| SessionError::Read { path: path.into(), reason })?;
        let damaged = |reason: String| SessionError::Damaged { path: path.into(), reason, kept: None };
        // The version comes first: a newer file may not even have our fields.
        if let Some(found) = version_of(&text).filter(|version| *version > u64::from(VERSION)) {
            return Err(SessionError::Newer { path: path.into(), found });
        }
        let value: serde_json::Value =
            serde_json::from_str(&text).map_err(|e| damaged(wording::of(&text, &e)))?;
        if !value.get("version").is_some_and(serde_json::Value::is_u64) {
            return Err(damaged(
                "at its outermost level expected \"version\": 1, which every saved session has".into(),
            ));
        }
        if let Some(limits::Wrong { field, expected, got }) = limits::wrong_number(&value) {
            return Err(SessionError::Number { path: path.into(), field, expected, got, kept: None });
        }
        // From the text rather than from the value: then errors tell line and column.
        serde_json::from_str(&text).map_err(|e| damaged(wording::of(&text, &e)))
    }

    /// Reads the last session from its own place; `None` where there is none yet.
    ///
    /// A damaged file is moved aside, so that the next save does not replace what a person may still repair.
    ///
    /// Errors: as [`Session::load`].
    pub fn load_last(path: &Path) -> Result<Option<Self>, SessionError> {
        if !path.exists() {
            return Ok(None);
        }
        match Self::load(path) {
            Ok(session) => Ok(Some(session)),
            Err(SessionError::Damaged { path, reason, .. }) => {
                let kept = keep_aside(&path);
                Err(SessionError::Damaged { path, reason, kept })
            }
            Err(SessionError::Number { path, field, expected, got, .. }) => {
                let kept = keep_aside(&path);
                Err(SessionError::Number { path, field, expected, got, kept })
            }
            Err(other) => Err(other),
        }
    }

    /// Saves the last session to its own place, whose folder is made where it is missing.
    ///
    /// Errors: as [`Session::save`].
    pub fn save_last(&self, path: &Path) -> Result<(), SessionError> {
        if let Some(folder) = path.parent() {
            std::fs::create_dir_all(folder)
                .map_err(|reason| SessionError::Write { path: path.into(), reason })?;
        }
        self.save(path)
    }
}

/// Where the last session is kept; `None` where the environment names no place for a user's data.
pub fn last_path() -> Option<PathBuf> {
    path_from(|name| std::env::var_os(name))
}

/// The place that an environment asks for.
pub fn path_from(variable: impl Fn(&str) -> Option<OsString>) -> Option<PathBuf> {
    // A relative path would mean another place in every folder: such a variable does not count.
    let folder = |name: &str| variable(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let data = if cfg!(windows) {
        folder("APPDATA")
    } else if cfg!(target_os = "macos") {
        folder("HOME").map(|home| home.join("Library/Application Support"))
    } else {
        folder("XDG_DATA_HOME").or_else(|| folder("HOME").map(|home| home.join(".local/share")))
    };
    data.map(|data| data.join("wgattn").join("session.json"))
}

fn read_text(path: &Path) -> io::Result<String> {
    // What is no text is no JSON either, and is told as such.
    Ok(String::from_utf8_lossy(&read_input(path, MOST_BYTES)?).into_owned())
}

fn version_of(text: &str) -> Option<u64> {
    #[derive(Deserialize)]
    struct Version {
        version: u64,
    }
    serde_json::from_str::<Version>(text).ok().map(|found| found.version)
}

/// Moves a file to a free name beside it; `None` where that is refused.
fn keep_aside(path: &Path) -> Option<PathBuf> {
    let name = path.file_name()?.to_string_lossy().into_owned();
    let free = (1..1000).map(|i| path.with_file_name(format!("{name}.damaged-{i}"))).find(|p| !p.exists())?;
    std::fs::rename(path, &free).is_ok().then_some(free)
}
