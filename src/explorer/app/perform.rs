//! What each action does.

use super::dialogs::{Decision, Purpose};
use super::{Action, App};
use crate::explorer::settings::{Colours, Fusion, Range, Settings};
use crate::explorer::{arrays_source, command, export, relative_mask, session};
use crate::source::{self, Kind, built_in};
use eframe::egui;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// Frames of a captured sweep.
const SWEEP_FRAMES: usize = 24;

/// Time that each of them stands.
const SWEEP_DELAY: Duration = Duration::from_millis(80);

/// A sweep of λ that is being captured: a quarter of the bandwidth in use to four times as much.
#[derive(Debug)]
pub(super) struct Sweep {
    path: PathBuf,
    /// λ in the middle, and the setting to go back to.
    middle: f32,
    before: Option<f32>,
    frames: Arc<Mutex<Vec<egui::ColorImage>>>,
    /// Pictures asked for so far.
    asked: usize,
}

impl Sweep {
    /// Pictures taken and pictures there will be.
    pub(super) fn progress(&self) -> (u64, u64) {
        (self.frames.lock().map_or(0, |frames| frames.len()) as u64, SWEEP_FRAMES as u64)
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
            Action::OpenFile => self.dialogs.ask(ctx, Purpose::Open),
            Action::OpenFolder => self.dialogs.ask(ctx, Purpose::OpenFolder),
            Action::OpenArrays => self.dialogs.ask(ctx, Purpose::OpenArrays),
            Action::OpenNetwork => self.dialogs.ask(ctx, Purpose::OpenNetwork),
            Action::SaveView => self.dialogs.ask(ctx, Purpose::SaveView),
            Action::ExportMap => self.dialogs.ask(ctx, Purpose::ExportMap),
            Action::ExportCsv => self.dialogs.ask(ctx, Purpose::ExportCsv),
            Action::ExportSettings => self.dialogs.ask(ctx, Purpose::ExportSettings),
            Action::CaptureSweep => self.dialogs.ask(ctx, Purpose::Sweep),
            Action::SaveSession => self.dialogs.ask(ctx, Purpose::SaveSession),
            Action::RestoreSession => self.dialogs.ask(ctx, Purpose::RestoreSession),
            Action::CopyCommand => self.copy_command(ctx),
            Action::Camera => self.open_new(ctx, "camera".into()),
            Action::Screen => self.open_new(ctx, "screen".into()),
            Action::Synthetic => self.open_new(ctx, "synthetic".into()),
            Action::PasteImage => {
                ctx.send_viewport_cmd(egui::ViewportCommand::RequestPaste);
                self.paste_asked = Some(Instant::now());
            }
            Action::Reload => {
                self.views.iter_mut().for_each(|view| view.reload());
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
            Action::CycleRelativeMask => {
                let compute = &mut self.document.settings.compute;
                let next = relative_mask::next(&compute.mask);
                if let Some(text) = relative_mask::set(compute, next) {
                    self.tell(text);
                }
            }
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
                    // At its end a clip starts over.
                    player.set_playing(!player.playing() || player.status().ended);
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
            Action::Tour => self.tour.start(),
            Action::CycleView => self.cycle_view(),
            // Held keys: they are looked at every frame.
            Action::ShowReference | Action::PeekOriginal => {}
        }
    }

    /// Attention, comparison, mask, and the picture alone, in turn.
    fn cycle_view(&mut self) {
        const ROUND: [&str; 3] = ["attention", "compare", "mask-topology"];
        let front = self.layout.open_ids(&self.views);
        let at = ROUND.iter().position(|id| front.iter().any(|open| open == id));
        match (self.raw, at) {
            (false, Some(at)) if at + 1 < ROUND.len() => {
                self.open_view(ROUND[at + 1]);
            }
            (false, Some(_)) => {
                self.open_view(ROUND[0]);
                self.raw = true;
            }
            _ => {
                self.raw = false;
                self.open_view(ROUND[0]);
            }
        }
    }

    fn copy_command(&mut self, ctx: &egui::Context) {
        let (document, input) = (&self.document, self.shown_input());
        let (mut lines, mut told, mut missing) = (Vec::new(), Vec::new(), Vec::new());
        let mut mapped = false;
        for view in self.layout.visible().into_iter().filter_map(|v| self.views.get(v)) {
            let copied = match view.command(document, &input) {
                Some(own) => own,
                // All other views show the map in their own ways.
                None if std::mem::replace(&mut mapped, true) => continue,
                None => input.clone().and_then(|input| command::map(document, &input)),
            };
            match copied {
                Ok(copied) => {
                    lines.extend(copied.lines);
                    told.push(copied.told);
                }
                Err(why) => missing.push(why),
            }
        }
        let missing = missing.join("; ");
        if lines.is_empty() {
            return self.tell_failure(format!("No command for this: {missing}."));
        }
        if !missing.is_empty() {
            told.push(format!("No command for the rest: {missing}."));
        }
        ctx.copy_text(lines.join("\n"));
        self.tell(told.join(" "));
    }

    /// What the command line takes for the picture in sight from any folder.
    ///
    /// Errors: why there is no such thing, to go behind a colon.
    fn shown_input(&self) -> Result<command::Input, String> {
        let input = |image: String, frame| Ok(command::Input { image, frame });
        if self.arrays.is_some() {
            return Err("the map is of arrays, and the command line maps pictures only".into());
        }
        if self.built_in {
            return input(built_in::WORD.into(), None);
        }
        let photo = self.photo.as_ref().ok_or("there is no picture yet")?;
        let nowhere = || format!("{} lies in no file; save it as a picture and open that one", photo.name());
        // A picture that was pasted or dropped has no source.
        let status = self.player.as_ref().map(|player| player.status()).ok_or_else(nowhere)?;
        let clip = matches!(status.kind, Kind::Clip { .. } | Kind::Live);
        let source = self.sources.get(self.source).filter(|source| Path::new(source).is_file());
        // Pictures of folders and of numbered files lie in files of their own; frames of videos do not.
        match source {
            Some(source) if clip => input(source::anywhere(source), Some(self.picture)),
            _ if Path::new(photo.name()).is_file() => input(source::anywhere(photo.name()), None),
            _ => Err(nowhere()),
        }
    }

    /// The session as it is now.
    pub(super) fn session(&self, ctx: &egui::Context) -> session::Session {
        session::Session {
            document: self.document.clone(),
            source: self.sources.get(self.source).map(|source| source::anywhere(source)),
            open_views: self.layout.open_ids(&self.views),
            theme: match ctx.options(|o| o.theme_preference) {
                egui::ThemePreference::Dark => session::Theme::Dark,
                egui::ThemePreference::Light => session::Theme::Light,
                egui::ThemePreference::System => session::Theme::System,
            },
            hidden_panels: self.hide_ui,
            ..session::Session::default()
        }
    }

    /// Goes back to a session. Where its source is gone, the picture in sight stays, or the built-in one is shown.
    ///
    /// Errors: why the source cannot be opened; all the rest of the session is back nevertheless.
    pub(super) fn restore(&mut self, ctx: &egui::Context, kept: session::Session) -> Result<(), String> {
        let missing = kept.source.as_deref().and_then(|source| source::check(source).err());
        let mut failure = missing.map(|error| error.to_string());
        self.document = kept.document;
        let query = self.document.query;
        // For a picture that is still on its way.
        self.restored = Some(query);
        match &kept.source {
            Some(source) if failure.is_none() => self.open_new(ctx, source.clone()),
            // Its name stays: the next session, or reading it again, may find it.
            Some(source) => {
                self.sources.push(source.clone());
                self.source = self.sources.len() - 1;
            }
            None => {
                self.sources.clear();
                self.source = 0;
                self.open_source(ctx, None);
            }
        }
        failure = failure.or_else(|| self.source_error.take());
        if failure.is_some() && self.photo.is_none() {
            self.open_source(ctx, None);
        }
        if failure.is_some() || kept.source.is_none() {
            self.restored = None;
        }
        self.document.query = query;
        self.hide_ui = kept.hidden_panels;
        ctx.set_theme(match kept.theme {
            session::Theme::Dark => egui::ThemePreference::Dark,
            session::Theme::Light => egui::ThemePreference::Light,
            session::Theme::System => egui::ThemePreference::System,
        });
        for id in kept.open_views.iter().rev() {
            self.open_view(id);
        }
        failure
            .map_or(Ok(()), |why| Err(format!("The session's picture is missing, all else is back: {why}")))
    }

    /// Does what was waiting for a file's name.
    pub(super) fn take_answers(&mut self, ctx: &egui::Context) {
        for (purpose, path) in self.dialogs.answered() {
            let meant = purpose.completed(&path);
            // The dialog asked about the name that was typed, not about this one.
            let outcome = match meant != path && meant.exists() {
                true => Err(format!(
                    "{} is there already: name it with its suffix to replace it.",
                    meant.display()
                )),
                false => self.carry_out(ctx, purpose, meant),
            };
            match outcome {
                Ok(None) => {}
                Ok(Some(text)) => self.tell(text),
                Err(why) => self.tell_failure(why),
            }
        }
    }

    /// The field for a file's name, where it is open.
    pub(super) fn path_field(&mut self, ctx: &egui::Context) {
        let Some(mut field) = self.dialogs.field.take() else { return };
        let outcome = match field.show(ctx) {
            Some(Decision::Close) => return,
            Some(Decision::Accept) => {
                let path = field.path();
                path.and_then(|path| self.carry_out(ctx, field.purpose, path))
            }
            None => {
                self.dialogs.field = Some(field);
                return;
            }
        };
        match outcome {
            Ok(None) => {}
            Ok(Some(text)) => self.tell(text),
            Err(why) => {
                field.refuse(why);
                self.dialogs.field = Some(field);
            }
        }
    }

    /// Does what a file was named for; what there is to tell, unless that comes later.
    ///
    /// Errors: one line for the user.
    fn carry_out(
        &mut self,
        ctx: &egui::Context,
        purpose: Purpose,
        path: PathBuf,
    ) -> Result<Option<String>, String> {
        let source = self.sources.get(self.source).map(PathBuf::from);
        if purpose.target().is_some() {
            export::keep_input(source.as_deref(), &path).map_err(|e| e.to_string())?;
        }
        let saved = |path: &Path| Some(format!("Saved {}.", path.display()));
        match purpose {
            Purpose::Open | Purpose::OpenFolder => {
                let what = path.display().to_string();
                source::check(&what).map_err(|e| e.to_string())?;
                self.open_new(ctx, what);
                self.source_error.clone().map_or(Ok(None), Err)
            }
            Purpose::OpenArrays => {
                let size = self.photo.as_ref().map(|p| p.size());
                let arrays = arrays_source::open(&path, size, arrays_source::ArrayChoice::default())
                    .map_err(|e| e.to_string())?;
                let notice = arrays.notices.first().cloned();
                self.arrays = Some(Arc::new(arrays));
                Ok(Some(notice.unwrap_or_else(|| format!("Maps are of {} now.", path.display()))))
            }
            Purpose::OpenNetwork => self.open_network(&path).map(Some),
            // What cannot be written is refused before it is drawn.
            Purpose::SaveView => {
                export::check(&path, &["png"], ".png").map_err(|e| e.to_string())?;
                self.view_wanted = Some(path);
                Ok(None)
            }
            Purpose::Sweep => {
                export::check(&path, &["gif"], ".gif").map_err(|e| e.to_string())?;
                let middle = self.snapshot.as_ref().and_then(|s| s.lambda.first().copied()).unwrap_or(1.0);
                let before = self.document.settings.compute.lambda;
                self.sweep = Some(Sweep { path, middle, before, frames: Arc::default(), asked: 0 });
                Ok(None)
            }
            Purpose::SaveSession => {
                self.session(ctx).save(&path).map_err(|e| e.to_string())?;
                Ok(saved(&path))
            }
            Purpose::RestoreSession => {
                let kept = session::Session::load(&path).map_err(|e| e.to_string())?;
                match self.restore(ctx, kept) {
                    Ok(()) => Ok(Some(format!("Restored {}.", path.display()))),
                    Err(why) => {
                        // The session is back, so there is nothing to correct in the field.
                        self.tell_failure(why);
                        Ok(None)
                    }
                }
            }
            Purpose::ExportSettings => {
                export::settings(&path, &self.document).map_err(|e| e.to_string())?;
                Ok(saved(&path))
            }
            Purpose::ExportMap | Purpose::ExportCsv => self.export_numbers(purpose, &path).map(Some),
        }
    }

    fn export_numbers(&self, purpose: Purpose, path: &Path) -> Result<String, String> {
        let snapshot = self.snapshot.as_ref().ok_or("there is no map to export yet")?;
        let saved = format!("Saved {}.", path.display());
        match purpose {
            Purpose::ExportCsv => export::csv(path, snapshot).map(|()| saved),
            _ => export::map(path, snapshot).map(|range| match range {
                Some(range) => format!("{saved} Black is {}, white is {}.", range.low, range.high),
                None => saved,
            }),
        }
        .map_err(|e| e.to_string())
    }

    /// Takes the picture of the views that was asked for.
    pub(super) fn capture_view(&mut self, ctx: &egui::Context) {
        let Some(path) = self.view_wanted.take() else { return };
        let (rect, scale, said) = (self.views_rect, ctx.pixels_per_point(), Arc::clone(&self.said));
        let waking = ctx.clone();
        ctx.request_screenshot(move |picture| {
            let seen = part_of(&picture, rect, scale);
            let outcome = export::view(&path, &seen).map(|()| format!("Saved {}.", path.display()));
            if let Ok(mut said) = said.lock() {
                said.push(outcome.map_err(|e| e.to_string()));
            }
            waking.request_repaint();
        });
    }

    /// Gives up a sweep: λ is what it was, and there is no file.
    pub(super) fn cancel_sweep(&mut self) {
        let Some(sweep) = self.sweep.take() else { return };
        self.document.settings.compute.lambda = sweep.before;
        self.tell("The sweep was cancelled; no file was written.");
    }

    /// Goes on with a sweep: sets λ, waits for the map, takes its picture.
    pub(super) fn capture_sweep(&mut self, ctx: &egui::Context) {
        let settled = self.is_settled();
        let Some(sweep) = &mut self.sweep else { return };
        ctx.request_repaint();
        let taken = sweep.frames.lock().map_or(0, |f| f.len());
        if taken == SWEEP_FRAMES {
            let frames = sweep.frames.lock().map(|mut f| std::mem::take(&mut *f)).unwrap_or_default();
            let (path, before) = (sweep.path.clone(), sweep.before);
            self.sweep = None;
            self.document.settings.compute.lambda = before;
            let outcome =
                export::animation(&path, &frames, SWEEP_DELAY).map(|()| format!("Saved {}.", path.display()));
            return self.tell_outcome(outcome.map_err(|e| e.to_string()));
        }
        // One picture at a time, of a map that is done.
        if taken < sweep.asked {
            return;
        }
        let part = sweep.asked as f32 / (SWEEP_FRAMES - 1) as f32;
        let lambda = Some(sweep.middle * 16.0_f32.powf(part - 0.5));
        if self.document.settings.compute.lambda != lambda {
            self.document.settings.compute.lambda = lambda;
            return;
        }
        if !settled || self.snapshot.as_ref().is_none_or(|s| s.compute.lambda != lambda) {
            return;
        }
        sweep.asked += 1;
        let (frames, rect, scale) = (Arc::clone(&sweep.frames), self.views_rect, ctx.pixels_per_point());
        let waking = ctx.clone();
        ctx.request_screenshot(move |picture| {
            if let Ok(mut frames) = frames.lock() {
                frames.push(part_of(&picture, rect, scale));
            }
            waking.request_repaint();
        });
    }
}

/// A part of the window's picture, in points; as much of it as there is.
fn part_of(picture: &egui::ColorImage, rect: egui::Rect, scale: f32) -> egui::ColorImage {
    let [width, height] = picture.size;
    let place = |x: f32, most: usize| ((x * scale).round().max(0.0) as usize).min(most);
    let (left, right) = (place(rect.left(), width), place(rect.right(), width));
    let (top, bottom) = (place(rect.top(), height), place(rect.bottom(), height));
    picture.region_by_pixels([left, top], [right.saturating_sub(left), bottom.saturating_sub(top)])
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
