//! The window: what is open, how it is laid out, and one frame of it.
//!
//! Each frame takes what the source and the engine have, draws, and asks the engine again only if something it depends on
//! changed. Nothing is drawn while nothing changes.

mod aside;
mod chrome;
mod dialogs;
mod layout;
mod named;
mod news;
mod open;
mod options;
mod perform;

use super::actions::{self, Action};
use super::arrays_source::ModelArrays;
use super::canvas::Canvas;
use super::document::{Document, History};
use super::engine::{Answer, Engine, Request, Window};
use super::settings::Device;
use super::snapshot::{Needs, SEES_NOTHING, Snapshot};
use super::textures::Textures;
use super::tour::{self, Page, Tour};
use super::views::{View, views};
use crate::source::Player;
use crate::vision::image::Photo;
use eframe::egui;
use glam::UVec2;
use layout::Layout;
use news::News;
pub use news::NewsKind;
pub use options::{FrameHook, InputHook, Options};
use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// Why the window closed.
#[derive(Clone, Debug, Default)]
pub(super) struct Ending {
    /// What to open again with after the device was lost.
    pub(super) latest: Option<Options>,
    /// Why the device was lost.
    pub(super) lost: Option<String>,
    /// The window's device, which tells of its loss when it is asked.
    pub(super) device: Option<wgpu::Device>,
    /// What went wrong, for the command line.
    pub(super) failure: Option<String>,
}

/// What the engine was last asked.
#[derive(Clone, Debug)]
struct Asked {
    photo: Arc<Photo>,
    arrays: Option<Arc<ModelArrays>>,
    document: Document,
    needs: Needs,
}

/// A map that was put aside.
#[derive(Debug)]
struct Reference {
    fused: Vec<f32>,
    note: String,
}

/// Pictures of a moving source that are kept until their maps come.
const MOST_ASKED: usize = 64;

/// The explorer's window.
pub struct App {
    document: Document,
    history: History,
    views: Vec<Box<dyn View>>,
    layout: Layout,
    canvas: Canvas,
    textures: Textures,
    engine: Engine,
    player: Option<Player>,
    sources: Vec<String>,
    source: usize,
    photo: Option<Arc<Photo>>,
    live: bool,
    /// Whether the picture in sight is the program's own.
    built_in: bool,
    /// Number of the picture in sight within its source.
    picture: u64,
    /// What the window is called.
    title: String,
    snapshot: Option<Arc<Snapshot>>,
    failure: Option<String>,
    /// Why there is no picture, or no new one, of the source that was asked for.
    source_error: Option<String>,
    /// Pictures that the engine was asked about, by the number of the request: the map of a moving source lies over its own.
    asked_photos: VecDeque<(u64, Arc<Photo>)>,
    news: Option<News>,
    reference: Option<Reference>,
    asked: Option<Asked>,
    devices: Vec<(String, Device)>,
    hide_ui: bool,
    help: bool,
    information: bool,
    ending: Arc<Mutex<Ending>>,
    screenshot: Option<std::path::PathBuf>,
    /// Whether this window opened to have its picture taken.
    photographed: bool,
    /// The request that the user was told will take long.
    told_long: Option<u64>,
    dialogs: dialogs::Dialogs,
    tour: Tour,
    pages: Vec<Page>,
    /// Only the picture, until the next turn of the views.
    raw: bool,
    /// Arrays of the user's own model in place of features of the picture.
    arrays: Option<Arc<ModelArrays>>,
    /// The query of a session, for the picture that is still on its way.
    restored: Option<[u32; 2]>,
    view_wanted: Option<std::path::PathBuf>,
    /// When the clipboard's picture was asked for, until it comes.
    paste_asked: Option<Instant>,
    /// What was asked for at the start and is not there.
    start_failure: Option<String>,
    sweep: Option<perform::Sweep>,
    /// Where the views lay in the last frame.
    views_rect: egui::Rect,
    /// What callbacks have to tell.
    said: Arc<Mutex<Vec<Result<String, String>>>>,
    frame: Frames,
    ctx: egui::Context,
    keeps_session: bool,
    each_frame: Option<FrameHook>,
    each_input: Option<InputHook>,
    fill_ground: bool,
}

/// Frames drawn, and how many of them since there was nothing more to wait for.
#[derive(Debug, Default)]
struct Frames {
    count: u64,
    still: u32,
}

impl std::fmt::Debug for App {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("App").field("document", &self.document).field("sources", &self.sources).finish()
    }
}

impl App {
    /// Opens the first source and starts the engine on the window's device.
    ///
    /// Errors: a window that is not drawn by wgpu, a device that refuses the engine, no thread.
    pub fn new(cc: &eframe::CreationContext<'_>, options: Options) -> Result<Self, String> {
        Self::with_ending(cc, options, Arc::default())
    }

    pub(super) fn with_ending(
        cc: &eframe::CreationContext<'_>,
        options: Options,
        ending: Arc<Mutex<Ending>>,
    ) -> Result<Self, String> {
        let state = cc.wgpu_render_state.clone().ok_or("the window is not drawn by wgpu")?;
        let window = Window::new(state.device.clone(), state.queue.clone(), options.tuning)
            .map_err(|e| e.to_string())?;
        watch_device(&window, &ending, &cc.egui_ctx);
        if let Ok(mut ending) = ending.lock() {
            ending.device = Some(window.device.clone());
        }
        let ctx = cc.egui_ctx.clone();
        let no_compute = window.backend.is_none();
        let engine = Engine::start(window, move || {
            ctx.request_repaint();
        });
        let engine = engine.map_err(|e| format!("the engine's thread does not start: {e}"))?;
        let mut document = options.document.unwrap_or_default();
        let mut notice = options.notice;
        if let Some(device) = options.device {
            document.settings.device = Device::Named(device);
        } else if no_compute {
            document.settings.device = Device::Named("cpu".into());
            notice =
                Some("This window's device has no compute shaders: computing on the CPU reference.".into());
        }
        super::fonts::install(&cc.egui_ctx);
        super::theme::install(&cc.egui_ctx);
        if let Some(dark) = options.dark {
            cc.egui_ctx.set_theme(if dark { egui::Theme::Dark } else { egui::Theme::Light });
        }
        let views = views();
        let layout = Layout::new(&views, &options.views);
        let pages = tour::pages(&views);
        let mut app = Self {
            history: History::default(),
            layout,
            views,
            canvas: Canvas::default(),
            textures: Textures::new(state),
            engine,
            player: None,
            sources: options.sources,
            source: 0,
            photo: None,
            live: false,
            built_in: false,
            paste_asked: None,
            start_failure: None,
            picture: 0,
            title: String::new(),
            snapshot: None,
            failure: None,
            source_error: None,
            asked_photos: VecDeque::new(),
            news: notice.map(|text| News::new(NewsKind::Note, text)),
            reference: None,
            asked: None,
            devices: devices(),
            hide_ui: false,
            help: false,
            information: false,
            ending,
            photographed: options.screenshot.is_some(),
            screenshot: options.screenshot,
            told_long: None,
            dialogs: dialogs::Dialogs::default(),
            tour: Tour::default(),
            pages,
            raw: false,
            arrays: None,
            restored: None,
            view_wanted: None,
            sweep: None,
            views_rect: egui::Rect::ZERO,
            said: Arc::default(),
            document,
            frame: Frames::default(),
            ctx: cc.egui_ctx.clone(),
            keeps_session: options.keep_session,
            each_frame: options.each_frame,
            each_input: options.each_input,
            fill_ground: options.fill_ground,
        };
        let kept = match (&options.session, super::session::last_path().filter(|_| options.resume)) {
            (Some(path), _) => Some(super::session::Session::load(path).map(Some)),
            (None, Some(path)) => Some(super::session::Session::load_last(&path)),
            (None, None) => None,
        };
        let failure = match kept {
            Some(Ok(Some(session))) => app.restore(&cc.egui_ctx, session).err(),
            other => {
                let first = app.sources.first().cloned();
                app.open_source(&cc.egui_ctx, first.as_deref());
                match other {
                    Some(Err(error)) => Some(error.to_string()),
                    Some(Ok(_)) => Some("There is no session to resume yet.".into()),
                    None => app.missing_sources(),
                }
            }
        };
        if let Some(why) = failure {
            app.tell_failure(&why);
            app.start_failure = Some(why);
        }
        Ok(app)
    }

    /// What the user made so far.
    pub fn document(&self) -> &Document {
        &self.document
    }

    /// The same, for tests and hosts that drive the window.
    pub fn document_mut(&mut self) -> &mut Document {
        &mut self.document
    }

    /// What the engine found last.
    pub fn snapshot(&self) -> Option<&Snapshot> {
        self.snapshot.as_deref()
    }

    /// Why there is no picture of the source that was asked for.
    pub fn source_error(&self) -> Option<&str> {
        self.source_error.as_deref()
    }

    /// One line about what cannot be done, if there is one.
    pub fn failure(&self) -> Option<&str> {
        self.failure.as_deref()
    }

    /// Whether the map on screen is that of the present settings and nothing is under way.
    pub fn is_settled(&self) -> bool {
        let current = self.asked.as_ref().is_some_and(|a| a.document.maps_as(&self.document, a.needs));
        let views = self.layout.visible().into_iter().filter_map(|v| self.views.get(v));
        let busy = views.into_iter().any(|view| view.is_busy());
        current && self.photo.is_some() && self.engine.is_idle() && !busy
    }

    /// Whether there is something to undo.
    pub fn can_undo(&self) -> bool {
        self.history.can_undo()
    }

    /// Whether there is something to redo.
    pub fn can_redo(&self) -> bool {
        self.history.can_redo()
    }

    /// The window's device.
    pub fn device(&self) -> &wgpu::Device {
        &self.textures.state().device
    }

    /// Frames drawn so far.
    pub fn frames(&self) -> u64 {
        self.frame.count
    }

    /// Opens a view by its id and brings it to the front.
    pub fn open_view(&mut self, id: &str) -> bool {
        let found = self.views.iter().position(|v| v.id() == id);
        found.is_some_and(|view| {
            self.layout.show(view);
            true
        })
    }

    /// Takes what came since the last frame.
    fn take_news(&mut self) {
        if let Some(came) = self.player.as_ref().and_then(Player::take) {
            match came {
                Ok(frame) => {
                    self.source_error = None;
                    let failed = self.news_kind() == Some(NewsKind::Failure);
                    if let Some(notice) = frame.notices.first().filter(|_| !failed) {
                        self.tell(notice.clone());
                    }
                    self.picture = frame.index;
                    self.show_photo(frame.photo);
                }
                Err(error) => self.source_error = Some(error.to_string()),
            }
        }
        let status = self.player.as_ref().map(Player::status);
        if let Some(status) =
            status.filter(|s| s.ended && self.photo.is_none() && self.source_error.is_none())
        {
            self.source_error = Some(format!("{}: it holds no picture", status.name));
        }
        match self.engine.take() {
            Some(Answer::Found(snapshot)) => {
                // The picture then has no map, and every export says why.
                self.failure =
                    snapshot.sees_nothing().then(|| format!("{SEES_NOTHING}: change it, or click elsewhere"));
                let place = self.asked_photos.iter().position(|(number, _)| *number == snapshot.request);
                if let Some((_, photo)) = place.and_then(|at| self.asked_photos.drain(..=at).next_back()) {
                    self.textures.set_photo(&photo);
                }
                self.snapshot = Some(snapshot);
            }
            Some(Answer::Failed(why)) => self.failure = Some(why),
            Some(Answer::Lost(why)) => {
                if let (Device::Named(name), false) = (&self.document.settings.device, self.is_lost()) {
                    self.tell_failure(format!("{name} was lost ({why}): computing on the window's device."));
                    self.document.settings.device = Device::Window;
                    self.asked = None;
                }
            }
            None => {}
        }
        let said = self.said.lock().map(|mut said| std::mem::take(&mut *said)).unwrap_or_default();
        if let Some(outcome) = said.into_iter().next_back() {
            self.tell_outcome(outcome);
        }
    }

    /// Whether the window's device is gone: it closes and opens again.
    pub fn is_lost(&self) -> bool {
        self.ending.lock().is_ok_and(|ending| ending.lost.is_some())
    }

    /// Notes what to open again with, should the device be lost in the middle of a frame.
    fn note_latest(&self) {
        if let Ok(mut ending) = self.ending.lock() {
            ending.latest = Some(Options {
                sources: self.current_sources(),
                views: self.layout.open_ids(&self.views),
                document: Some(self.document.clone()),
                screenshot: self.screenshot.clone(),
                keep_session: self.keeps_session,
                each_frame: self.each_frame.clone(),
                each_input: self.each_input.clone(),
                fill_ground: self.fill_ground,
                ..Options::default()
            });
        }
    }

    fn show_photo(&mut self, photo: Photo) {
        if self.photo.as_ref().is_none_or(|old| old.size() != photo.size()) {
            self.canvas.fit();
            self.canvas.reference = None;
            self.reference = None;
            let size = photo.size();
            let outside = self.document.query().cmpge(size).any() || self.document.query == [0, 0];
            if let Some(query) = self.restored.take() {
                self.document.query = query;
            } else if outside || self.photo.is_some() {
                self.document.query = (size / 2).to_array();
            }
            // Another picture moves the query; that is no step to undo.
            self.history.accept(&self.document);
        }
        if !self.live {
            // A map that is still on its way must not bring its own picture back.
            self.asked_photos.clear();
        }
        // The next picture of a moving source is shown with its map.
        if !self.live
            || self.snapshot.is_none()
            || self.textures.photo().is_none_or(|p| p.size != photo.size())
        {
            self.textures.set_photo(&photo);
        }
        self.photo = Some(Arc::new(photo));
        self.built_in = false;
    }

    /// Asks the engine if anything it depends on changed.
    fn ask(&mut self) {
        let Some(photo) = &self.photo else { return };
        let size = photo.size();
        let inside = self.document.query().min(size.saturating_sub(UVec2::ONE));
        self.document.query = inside.to_array();
        let needs = self.layout.visible().into_iter().filter_map(|v| self.views.get(v));
        let needs = needs.fold(Needs::default(), |all, view| all.or(view.needs()));
        let place = |arrays: &Option<Arc<ModelArrays>>| arrays.as_ref().map(Arc::as_ptr);
        let same = |a: &Asked| {
            Arc::ptr_eq(&a.photo, photo)
                && a.document.maps_as(&self.document, needs)
                && a.needs == needs
                && place(&a.arrays) == place(&self.arrays)
        };
        if self.asked.as_ref().is_some_and(same) {
            return;
        }
        let settings = &self.document.settings;
        let number = self.engine.ask(Request {
            photo: Arc::clone(photo),
            arrays: self.arrays.clone(),
            live: self.live,
            query: inside,
            compute: settings.compute.clone(),
            look: settings.look.clone(),
            needs,
            mask: self.document.mask.clone(),
            diffusion: (settings.networks.diffusion.clone(), self.document.cuts.clone()),
            device: settings.device.clone(),
        });
        if self.live {
            self.asked_photos.push_back((number, Arc::clone(photo)));
            // Those that were never begun are never answered.
            while self.asked_photos.len() > MOST_ASKED {
                self.asked_photos.pop_front();
            }
        }
        self.asked = Some(Asked {
            photo: Arc::clone(photo),
            arrays: self.arrays.clone(),
            document: self.document.clone(),
            needs,
        });
        self.note_latest();
    }

    /// Whether the system shows dialogs for files, in place of finding that out: for hosts and tests.
    pub fn set_system_dialogs(&mut self, there: bool) {
        self.dialogs.system = Some(there);
    }

    /// Gives these paths to the next dialogs in place of asking, for tests.
    pub fn answer_dialogs_with(&mut self, paths: impl IntoIterator<Item = std::path::PathBuf>) {
        self.dialogs.scripted.extend(paths);
    }
}

impl eframe::App for App {
    fn clear_color(&self, visuals: &egui::Visuals) -> [f32; 4] {
        visuals.panel_fill.to_normalized_gamma_f32()
    }

    fn raw_input_hook(&mut self, _: &egui::Context, input: &mut egui::RawInput) {
        if self.photographed {
            // The real pointer happens to be somewhere: nothing of it belongs into the picture.
            input.events.retain(|event| {
                use egui::Event::{MouseMoved, MouseWheel, PointerButton, PointerMoved};
                !matches!(event, MouseMoved(_) | MouseWheel { .. } | PointerButton { .. } | PointerMoved(_))
            });
        }
        if let Some(InputHook(add)) = &self.each_input {
            add(input);
        }
    }

    fn on_exit(&mut self) {
        // A window that only took a picture leaves the user's session alone.
        let Some(path) = super::session::last_path().filter(|_| self.keeps_session) else { return };
        if let Err(error) = self.session(&self.ctx).save_last(&path) {
            log::warn!("{error}");
        }
    }

    fn ui(&mut self, ui: &mut egui::Ui, _: &mut eframe::Frame) {
        let ctx = ui.ctx().clone();
        self.frame.count += 1;
        if self.frame.count == 1 && self.screenshot.is_none() {
            super::fit_to_monitor(&ctx);
        }
        // The loss of a device is told to whoever asks it for news.
        let _ = self.device().poll(wgpu::PollType::Poll);
        if self.is_lost() {
            // Nothing is drawn any more: buffers of a lost device cannot be made.
            self.note_latest();
            return ctx.send_viewport_cmd(egui::ViewportCommand::Close);
        }
        self.take_news();
        self.tell_long();
        self.take_input(&ctx);
        self.take_answers(&ctx);
        self.entitle(&ctx);
        let held = actions::held(&ctx);
        self.canvas.peek = held.original || self.raw;
        self.canvas.show_reference = held.reference && self.canvas.reference.is_some();
        self.canvas.former_query = self.former_query();
        self.canvas.begin_frame();
        self.dialogs.take_keys(&ctx);
        if !self.help {
            self.tour.take_keys(&ctx, self.pages.len());
        }
        let mut chosen = actions::pressed(&ctx);
        if self.hide_ui {
            self.centre(ui);
        } else {
            chosen.extend(self.bars(ui));
            self.side(ui);
            self.centre(ui);
        }
        self.probe(&ctx);
        self.windows(&ctx);
        self.path_field(&ctx);
        chosen.into_iter().for_each(|action| self.perform(&ctx, action));
        if self.canvas.wanted_reference.take().is_some() {
            self.set_reference();
        }
        let settled = !ctx.input(|i| i.pointer.any_down()) && self.sweep.is_none();
        self.history.look(&self.document, settled);
        self.capture_view(&ctx);
        self.capture_sweep(&ctx);
        self.ask();
        self.textures.end_frame();
        self.take_screenshot(&ctx);
        if let Some(FrameHook(look)) = self.each_frame.clone() {
            look(self, &ctx);
        }
        if self.engine.progress().is_some() {
            ctx.request_repaint_after(Duration::from_millis(150));
        }
    }
}

/// Devices to choose from: the window's, every adapter, and the CPU.
fn devices() -> Vec<(String, Device)> {
    let mut list = vec![("Window's device".to_string(), Device::Window)];
    for (index, adapter) in crate::backend::wgpu::adapters().iter().enumerate() {
        let info = adapter.get_info();
        list.push((format!("{} · {}", info.name, info.backend), Device::Named(index.to_string())));
    }
    for card in crate::backend::cuda::cards().unwrap_or_default() {
        list.push((format!("{} · cuda", card.info.name), Device::Named(card.device)));
    }
    list.push(("CPU reference (f64)".to_string(), Device::Named("cpu".into())));
    list
}

/// Notices when the window's device goes.
#[expect(clippy::disallowed_methods, reason = "this device belongs to our own window")]
fn watch_device(window: &Window, ending: &Arc<Mutex<Ending>>, ctx: &egui::Context) {
    let (ending, context, backend) = (Arc::clone(ending), ctx.clone(), window.backend.clone());
    window.device.set_device_lost_callback(move |reason, message| {
        let text = format!("{reason:?}: {message}");
        if let Some(backend) = &backend {
            backend.notify_device_lost(&text);
        }
        if let Ok(mut ending) = ending.lock() {
            ending.lost = Some(text);
        }
        context.request_repaint();
    });
    window.device.on_uncaptured_error(Arc::new(|error: wgpu::Error| log::error!("graphics: {error}")));
}
