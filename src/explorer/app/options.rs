//! What the window is opened with.

use super::App;
use crate::explorer::document::Document;
use eframe::egui;
use std::sync::Arc;

/// What the window is opened with.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Sources, the first of which is shown: files, folders, `camera`, `screen`, `synthetic`.
    pub sources: Vec<String>,
    /// Device to compute on; the window's if `None`.
    pub device: Option<String>,
    /// Whether variants of kernels are chosen by measuring them, on the window's device and on others; never unless told otherwise.
    pub tuning: crate::backend::wgpu::TuningOptions,
    /// Views to open, by id; the attention view if empty.
    pub views: Vec<String>,
    /// Dark or light; the system's if `None`.
    pub dark: Option<bool>,
    /// Saves a picture of the window there once the map is done, and closes.
    pub screenshot: Option<std::path::PathBuf>,
    /// Document to start with.
    pub document: Option<Document>,
    /// Something to tell at the start.
    pub notice: Option<String>,
    /// Keeps the session when the window closes.
    pub keep_session: bool,
    /// Goes back to the session that was kept last.
    pub resume: bool,
    /// Goes back to the session of a file.
    pub session: Option<std::path::PathBuf>,
    /// Looks at the app after every frame: for hosts and tests that watch it.
    pub each_frame: Option<FrameHook>,
    /// Adds to the input before every frame: for hosts and tests that drive the window.
    pub each_input: Option<InputHook>,
    /// Fills the ground itself, for hosts that do not clear the frame to the theme's colour first.
    pub fill_ground: bool,
}

/// What looks at the app after a frame.
#[derive(Clone)]
pub struct FrameHook(pub(super) Arc<AfterFrame>);

type AfterFrame = dyn Fn(&App, &egui::Context) + Send + Sync;

impl FrameHook {
    /// Called with the app after each frame.
    pub fn new(look: impl Fn(&App, &egui::Context) + Send + Sync + 'static) -> Self {
        Self(Arc::new(look))
    }
}

impl std::fmt::Debug for FrameHook {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("FrameHook")
    }
}

/// What may change the input of a frame before it is drawn.
#[derive(Clone)]
pub struct InputHook(pub(super) Arc<BeforeFrame>);

type BeforeFrame = dyn Fn(&mut egui::RawInput) + Send + Sync;

impl InputHook {
    /// Called with what the user did since the last frame.
    pub fn new(add: impl Fn(&mut egui::RawInput) + Send + Sync + 'static) -> Self {
        Self(Arc::new(add))
    }
}

impl std::fmt::Debug for InputHook {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("InputHook")
    }
}
