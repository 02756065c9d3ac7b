//! The window: what is open, how it is laid out, and one frame of it.
//!
//! Each frame takes what the source and the engine have, draws, and asks the engine again only if something it depends on
//! changed. Nothing is drawn while nothing changes.

mod layout;
mod open;
mod perform;

use super::actions::{self, Action};
use super::arrays_source::ModelArrays;
use super::canvas::Canvas;
use super::document::{Document, History};
use super::engine::{Answer, Engine, Request, Window};
use super::panel::{self, PanelFacts};
use super::settings::Device;
use super::snapshot::{Layer, LayerId, Needs, Snapshot};
use super::status::{self, Busy, SourceState, StatusFacts, StatusRequest};
use super::textures::Textures;
use super::tour::{self, Page, Tour, TourRequest};
use super::views::{View, ViewContext, views};
use crate::source::{Kind, Player};
use crate::vision::image::Photo;
use eframe::egui;
use glam::UVec2;
use layout::Layout;
use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// What the window is opened with.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Sources, the first of which is shown: files, folders, `camera`, `screen`, `synthetic`.
    pub sources: Vec<String>,
    /// Device to compute on; the window's if `None`.
    pub device: Option<String>,
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
pub struct FrameHook(Arc<AfterFrame>);

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
pub struct InputHook(Arc<BeforeFrame>);

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

/// How long the present picture stays on the status bar as news.
const NEWS: Duration = Duration::from_secs(8);

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
    snapshot: Option<Arc<Snapshot>>,
    failure: Option<String>,
    /// Why there is no picture, or no new one, of the source that was asked for.
    source_error: Option<String>,
    /// Pictures that the engine was asked about, by the number of the request: the map of a moving source lies over its own.
    asked_photos: VecDeque<(u64, Arc<Photo>)>,
    news: Option<(String, Instant)>,
    reference: Option<Reference>,
    asked: Option<Asked>,
    devices: Vec<(String, Device)>,
    hide_ui: bool,
    help: bool,
    information: bool,
    ending: Arc<Mutex<Ending>>,
    screenshot: Option<std::path::PathBuf>,
    dialogs: perform::Dialogs,
    tour: Tour,
    pages: Vec<Page>,
    /// Only the picture, until the next turn of the views.
    raw: bool,
    /// Arrays of the user's own model in place of features of the picture.
    arrays: Option<Arc<ModelArrays>>,
    /// The query of a session, for the picture that is still on its way.
    restored: Option<[u32; 2]>,
    view_wanted: Option<std::path::PathBuf>,
    sweep: Option<perform::Sweep>,
    /// Where the views lay in the last frame.
    views_rect: egui::Rect,
    /// What callbacks have to tell.
    said: Arc<Mutex<Vec<String>>>,
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
        let window = Window::new(state.device.clone(), state.queue.clone()).map_err(|e| e.to_string())?;
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
            snapshot: None,
            failure: None,
            source_error: None,
            asked_photos: VecDeque::new(),
            news: notice.map(|n| (n, Instant::now())),
            reference: None,
            asked: None,
            devices: devices(),
            hide_ui: false,
            help: false,
            information: false,
            ending,
            screenshot: options.screenshot,
            dialogs: perform::Dialogs::default(),
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
        match kept {
            Some(Ok(Some(session))) => app.restore(&cc.egui_ctx, session),
            other => {
                if let Some(Err(error)) = other {
                    app.tell(error.to_string());
                }
                let first = app.sources.first().cloned();
                app.open_source(&cc.egui_ctx, first.as_deref());
            }
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
        let current = self.asked.as_ref().is_some_and(|a| a.document == self.document);
        current && self.photo.is_some() && self.engine.is_idle()
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

    /// Tells the user something for a while.
    fn tell(&mut self, text: impl Into<String>) {
        self.news = Some((text.into(), Instant::now()));
    }

    /// Takes what came since the last frame.
    fn take_news(&mut self) {
        if let Some(came) = self.player.as_ref().and_then(Player::take) {
            match came {
                Ok(frame) => {
                    self.source_error = None;
                    if let Some(notice) = frame.notices.first() {
                        self.tell(notice.clone());
                    }
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
                self.failure = None;
                let place = self.asked_photos.iter().position(|(number, _)| *number == snapshot.request);
                if let Some((_, photo)) = place.and_then(|at| self.asked_photos.drain(..=at).next_back()) {
                    self.textures.set_photo(&photo);
                }
                self.snapshot = Some(snapshot);
            }
            Some(Answer::Failed(why)) => self.failure = Some(why),
            Some(Answer::Lost(why)) => {
                if let (Device::Named(name), false) = (&self.document.settings.device, self.is_lost()) {
                    self.tell(format!("{name} was lost ({why}): computing on the window's device."));
                    self.document.settings.device = Device::Window;
                    self.asked = None;
                }
            }
            None => {}
        }
        let said = self.said.lock().map(|mut said| std::mem::take(&mut *said)).unwrap_or_default();
        if let Some(text) = said.into_iter().next_back() {
            self.tell(text);
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
                && a.document == self.document
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

    fn source_state(&self) -> SourceState {
        let Some(player) = &self.player else { return SourceState::Still };
        let status = player.status();
        match (status.kind, &status.frozen) {
            (_, Some(_)) if status.since_last_frame >= Duration::from_secs(1) => {
                SourceState::Frozen(status.since_last_frame)
            }
            (_, Some(why)) => SourceState::Lost(why.clone()),
            (Kind::Live | Kind::Clip { .. }, None) if player.playing() && !status.ended => {
                SourceState::Playing(format!("{} · {:.0} fps", status.name, status.frames_per_second))
            }
            (Kind::Live | Kind::Clip { .. }, None) => SourceState::Paused,
            _ => SourceState::Still,
        }
    }

    fn status_facts(&self) -> StatusFacts {
        let mut facts = StatusFacts::of(self.snapshot.as_deref());
        facts.source = self.source_state();
        facts.dropped = self.player.as_ref().map(|p| p.status().dropped);
        facts.busy = self.engine.progress().filter(|p| p.since > Duration::from_millis(300)).map(|p| Busy {
            what: p.what.to_string(),
            progress: (p.total > 0).then_some((p.done as u64, p.total as u64)),
            can_cancel: true,
        });
        facts
    }

    /// The frame of a panel. The window is cleared to its colour already, and to fill it again would cost a software driver
    /// as much as the picture does.
    fn ground(&self, ui: &egui::Ui, margins: bool) -> egui::Frame {
        let frame = if margins { egui::Frame::side_top_panel(ui.style()) } else { egui::Frame::NONE };
        let colour = if self.fill_ground { ui.visuals().panel_fill } else { egui::Color32::TRANSPARENT };
        frame.fill(colour)
    }

    fn bars(&mut self, ui: &mut egui::Ui) -> Vec<Action> {
        let mut chosen = Vec::new();
        egui::Panel::top("menu").frame(self.ground(ui, true)).show(ui, |ui| {
            egui::MenuBar::new().ui(ui, |ui| {
                chosen.extend(actions::menus(ui, &|action| self.can(action)));
                ui.menu_button("Views", |ui| self.layout.menu(ui, &self.views));
            });
        });
        let facts = self.status_facts();
        egui::Panel::bottom("status").frame(self.ground(ui, true)).show(ui, |ui| {
            if let Some(why) = self.source_error.as_ref().or(self.failure.as_ref()) {
                ui.colored_label(ui.visuals().error_fg_color, why);
            } else if let Some((news, since)) = &self.news
                && since.elapsed() < NEWS
            {
                ui.label(news);
                ui.ctx().request_repaint_after(NEWS.saturating_sub(since.elapsed()));
            }
            match status::bar(ui, &facts) {
                Some(StatusRequest::Cancel) => self.engine.cancel(),
                Some(StatusRequest::Information) => self.information = true,
                None => {}
            }
        });
        chosen
    }

    fn side(&mut self, ui: &mut egui::Ui) {
        let facts = PanelFacts::of(self.snapshot.as_deref(), &self.devices);
        egui::Panel::left("controls").exact_size(304.0).frame(self.ground(ui, true)).show(ui, |ui| {
            egui::ScrollArea::vertical().auto_shrink([false, false]).show(ui, |ui| {
                for view in self.layout.visible() {
                    let Some(view) = self.views.get_mut(view).filter(|v| v.has_controls()) else { continue };
                    let mut query = self.document.query();
                    let mut context = ViewContext {
                        settings: &mut self.document.settings,
                        query: &mut query,
                        canvas: &mut self.canvas,
                        mask: &mut self.document.mask,
                        snapshot: self.snapshot.as_deref(),
                        textures: &mut self.textures,
                    };
                    ui.push_id(view.id(), |ui| {
                        super::widgets::section(ui, &format!("{} view", view.title()), true, |ui| {
                            view.controls(ui, &mut context);
                        });
                    });
                    self.document.query = query.to_array();
                }
                panel::controls(ui, &mut self.document.settings, &facts);
            });
        });
    }

    fn centre(&mut self, ui: &mut egui::Ui) {
        let ground = self.ground(ui, false);
        egui::CentralPanel::default().frame(ground).show(ui, |ui| {
            self.views_rect = ui.max_rect();
            let mut query = self.document.query();
            let mut context = ViewContext {
                settings: &mut self.document.settings,
                query: &mut query,
                canvas: &mut self.canvas,
                mask: &mut self.document.mask,
                snapshot: self.snapshot.as_deref(),
                textures: &mut self.textures,
            };
            self.layout.ui(ui, &mut self.views, &mut context);
            self.document.query = query.to_array();
        });
    }

    /// The numbers under the pointer, in the lower right corner of the views.
    fn probe(&mut self, ctx: &egui::Context) {
        let (Some(pixel), Some(snapshot)) = (self.canvas.hover, self.snapshot.as_deref()) else { return };
        let same = self.photo.as_ref().is_some_and(|p| p.size() == snapshot.grid.photo_size());
        let Some(found) = super::probe::describe(snapshot, pixel).filter(|_| same) else { return };
        let reference = self.reference_error().map(|(error, note)| (error, note.to_string()));
        egui::Area::new(egui::Id::unique("probe"))
            .interactable(false)
            .pivot(egui::Align2::RIGHT_BOTTOM)
            .fixed_pos(self.views_rect.max - egui::vec2(12.0, 12.0))
            .fade_in(false)
            .constrain_to(self.views_rect)
            .show(ctx, |ui| {
                egui::Frame::popup(ui.style()).show(ui, |ui| {
                    super::probe::ui(ui, &found);
                    if let Some((error, note)) = reference {
                        ui.label(format!("{} from the reference at {note}", status::percent(error)));
                    }
                });
            });
    }

    /// Windows over the views.
    fn windows(&mut self, ctx: &egui::Context) {
        actions::help_window(ctx, &mut self.help);
        for request in self.tour.show(ctx, &self.pages, &mut self.document.settings) {
            if let TourRequest::OpenView(id) = request {
                self.open_view(id);
            }
        }
        let mut open = self.information;
        egui::Window::new("Adapter and picture").open(&mut open).resizable(false).show(ctx, |ui| {
            self.facts(ui);
        });
        self.information = open;
    }

    fn facts(&self, ui: &mut egui::Ui) {
        let info = self.textures.state().adapter.get_info();
        let mut rows = vec![
            ("Window's adapter", info.name.clone()),
            ("Interface", info.backend.to_string()),
            ("Driver", format!("{} {}", info.driver, info.driver_info)),
        ];
        if let Some(photo) = &self.photo {
            rows.push(("Picture", photo.name().to_string()));
            rows.push(("Format", photo.format().to_string()));
            rows.push(("Size", format!("{} × {} pixels", photo.size().x, photo.size().y)));
            if let Some(picture) = self.textures.photo().filter(|p| p.reduction > 1.0) {
                rows.push(("Shown at", format!("1 : {:.2}", picture.reduction)));
            }
        }
        if let Some(snapshot) = &self.snapshot {
            let (stride, patch) = (snapshot.grid.effective_stride(), snapshot.grid.effective_patch());
            rows.push(("Computed on", snapshot.device.name.clone()));
            rows.push(("Tokens", format!("{} × {}", snapshot.grid.cols(), snapshot.grid.rows())));
            rows.push(("Stride", format!("{:.1} pixels", stride.x)));
            rows.push(("Patch", format!("{:.1} pixels", patch.x)));
            for notice in &snapshot.notices {
                rows.push(("Note", notice.clone()));
            }
        }
        egui::Grid::new(egui::Id::unique("facts")).num_columns(2).spacing([16.0, 6.0]).show(ui, |ui| {
            for (name, value) in rows {
                ui.weak(name);
                ui.label(value);
                ui.end_row();
            }
        });
    }

    /// Gives these paths to the next dialogs in place of asking, for tests.
    pub fn answer_dialogs_with(&mut self, paths: impl IntoIterator<Item = std::path::PathBuf>) {
        self.dialogs.scripted.extend(paths);
    }

    /// What was told last, for tests.
    pub fn news(&self) -> Option<&str> {
        self.news.as_ref().map(|(text, _)| text.as_str())
    }

    /// Puts the map on screen aside, to compare later ones with it.
    fn set_reference(&mut self) {
        let Some(snapshot) = self.snapshot.clone() else { return };
        let Some(map) = snapshot.layer(LayerId::Map) else { return };
        let state = self.textures.state();
        let size = UVec2::new(map.texture.width(), map.texture.height());
        let copy = super::textures::pixels(&state.device, "reference", size);
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
    fn take_screenshot(&mut self, ctx: &egui::Context) {
        if self.screenshot.is_none() {
            return;
        }
        if let Some(why) = self.source_error.clone().or_else(|| self.failure.clone()) {
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

impl eframe::App for App {
    fn clear_color(&self, visuals: &egui::Visuals) -> [f32; 4] {
        visuals.panel_fill.to_normalized_gamma_f32()
    }

    fn raw_input_hook(&mut self, _: &egui::Context, input: &mut egui::RawInput) {
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
        // The loss of a device is told to whoever asks it for news.
        let _ = self.device().poll(wgpu::PollType::Poll);
        if self.is_lost() {
            // Nothing is drawn any more: buffers of a lost device cannot be made.
            self.note_latest();
            return ctx.send_viewport_cmd(egui::ViewportCommand::Close);
        }
        self.take_news();
        self.take_input(&ctx);
        self.take_answers(&ctx);
        let held = actions::held(&ctx);
        self.canvas.peek = held.original || self.raw;
        self.canvas.show_reference = held.reference && self.canvas.reference.is_some();
        self.canvas.hover = None;
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
