//! What stands around the views and over them: menus, status bar, controls, the probe and the windows.

use super::{App, perform};
use crate::explorer::actions::{self, Action};
use crate::explorer::panel::{self, PanelFacts};
use crate::explorer::status::{self, Busy, SourceState, StatusFacts, StatusRequest};
use crate::explorer::tour::TourRequest;
use crate::explorer::views::ViewContext;
use crate::explorer::{probe, widgets};
use crate::numbers::percent;
use crate::source::Kind;
use eframe::egui;
use glam::UVec2;
use std::time::Duration;

/// Work under way shorter than this is not told of: it would only flicker.
const TELL_BUSY: Duration = Duration::from_millis(300);

/// From when on the user is told what makes long work quicker.
const TELL_LONG: Duration = Duration::from_secs(20);

/// From when on the status bar says how long work still takes.
const TELL_LEFT: Duration = Duration::from_secs(3);

/// A time as people say it: `40 s`, `5 min`.
fn rough(time: Duration) -> String {
    match time.as_secs() {
        seconds @ ..90 => format!("{seconds} s"),
        seconds => format!("{} min", seconds.div_ceil(60)),
    }
}

impl App {
    pub(super) fn source_state(&self) -> SourceState {
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

    pub(super) fn status_facts(&self) -> StatusFacts {
        let mut facts = StatusFacts::of(self.snapshot.as_deref());
        facts.source = self.source_state();
        facts.dropped = self.player.as_ref().map(|p| p.status().dropped);
        if let Some((taken, all)) = self.sweep.as_ref().map(perform::Sweep::progress) {
            facts.busy =
                Some(Busy { what: "capturing".into(), progress: Some((taken, all)), can_cancel: true });
            return facts;
        }
        facts.busy = self.engine.progress().filter(|p| p.since > TELL_BUSY).map(|p| Busy {
            what: match p.left.filter(|left| *left >= TELL_LEFT) {
                Some(left) => format!("{}, about {} left", p.what, rough(left)),
                None => p.what.to_string(),
            },
            progress: (p.total > 0).then_some((p.done as u64, p.total as u64)),
            can_cancel: true,
        });
        facts
    }

    /// The query of the map in sight, where the user has clicked elsewhere since and the new map is a while in coming, or
    /// does not come.
    pub(super) fn former_query(&self) -> Option<UVec2> {
        let snapshot = self.snapshot.as_ref()?;
        let late = self.engine.progress().is_none_or(|p| p.since > TELL_BUSY);
        let asked = self.asked.as_ref().is_some_and(|a| a.document.query == self.document.query);
        let same = self.photo.as_ref().is_some_and(|p| p.size() == snapshot.grid.photo_size());
        (late && asked && same && !self.live && snapshot.query != self.document.query())
            .then_some(snapshot.query)
    }

    /// Tells once about work that will take long, and what makes it quicker.
    pub(super) fn tell_long(&mut self) {
        let left = self.engine.progress().and_then(|p| p.left).filter(|left| *left > TELL_LONG);
        let (Some(left), number) = (left, self.engine.latest()) else { return };
        if self.told_long == Some(number) {
            return;
        }
        self.told_long = Some(number);
        let side = self.document.settings.compute.landmark_side;
        let text = format!(
            "This takes about {} here: fewer landmarks than {side} × {side}, fewer tokens or a quicker device make it shorter.",
            rough(left)
        );
        if self.photographed {
            log::warn!("{text}");
        }
        self.tell(text);
    }

    /// The frame of a panel. The window is cleared to its colour already, and to fill it again would cost a software driver
    /// as much as the picture does.
    pub(super) fn ground(&self, ui: &egui::Ui, margins: bool) -> egui::Frame {
        let frame = if margins { egui::Frame::side_top_panel(ui.style()) } else { egui::Frame::NONE };
        let colour = if self.fill_ground { ui.visuals().panel_fill } else { egui::Color32::TRANSPARENT };
        frame.fill(colour)
    }

    pub(super) fn bars(&mut self, ui: &mut egui::Ui) -> Vec<Action> {
        let mut chosen = Vec::new();
        egui::Panel::top("menu").frame(self.ground(ui, true)).show(ui, |ui| {
            egui::MenuBar::new().ui(ui, |ui| {
                chosen.extend(actions::menus(ui, &|action| self.can(action)));
                ui.menu_button("Views", |ui| self.layout.menu(ui, &self.views));
                self.name(ui);
            });
        });
        let facts = self.status_facts();
        egui::Panel::bottom("status").frame(self.ground(ui, true)).show(ui, |ui| {
            if let Some(why) = self.source_error.as_ref().or(self.failure.as_ref()) {
                ui.colored_label(ui.visuals().error_fg_color, why);
            } else {
                self.news_line(ui);
            }
            match status::bar(ui, &facts) {
                Some(StatusRequest::Cancel) if self.sweep.is_some() => self.cancel_sweep(),
                Some(StatusRequest::Cancel) => self.engine.cancel(),
                Some(StatusRequest::Information) => self.information = true,
                None => {}
            }
        });
        chosen
    }

    pub(super) fn side(&mut self, ui: &mut egui::Ui) {
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
                        cuts: &mut self.document.cuts,
                        photo: self.photo.as_ref(),
                        snapshot: self.snapshot.as_deref(),
                        textures: &mut self.textures,
                    };
                    ui.push_id(view.id(), |ui| {
                        widgets::section(ui, &format!("{} view", view.title()), true, |ui| {
                            view.controls(ui, &mut context);
                        });
                    });
                    self.document.query = query.to_array();
                }
                panel::controls(ui, &mut self.document.settings, &facts);
            });
        });
    }

    pub(super) fn centre(&mut self, ui: &mut egui::Ui) {
        let ground = self.ground(ui, false);
        egui::CentralPanel::default().frame(ground).show(ui, |ui| {
            self.views_rect = ui.max_rect();
            let mut query = self.document.query();
            let mut context = ViewContext {
                settings: &mut self.document.settings,
                query: &mut query,
                canvas: &mut self.canvas,
                mask: &mut self.document.mask,
                cuts: &mut self.document.cuts,
                photo: self.photo.as_ref(),
                snapshot: self.snapshot.as_deref(),
                textures: &mut self.textures,
            };
            self.layout.ui(ui, &mut self.views, &mut context);
            self.document.query = query.to_array();
        });
    }

    /// The numbers under the pointer, in a corner where they cover no text.
    pub(super) fn probe(&mut self, ctx: &egui::Context) {
        let (Some(pixel), Some(snapshot)) = (self.canvas.hover, self.snapshot.as_deref()) else { return };
        let same = self.photo.as_ref().is_some_and(|p| p.size() == snapshot.grid.photo_size());
        if !same || self.photographed || self.sweep.is_some() {
            return;
        }
        let found = probe::describe(snapshot, pixel);
        if found.is_none() && !snapshot.sees_nothing() {
            return;
        }
        let former = self.canvas.former_query;
        let reference = self.reference_error().map(|(error, note)| (error, note.to_string()));
        let id = egui::Id::unique("probe");
        // Its size is known once it was drawn; until then it is as large as it usually is.
        let size = egui::AreaState::load(ctx, id).and_then(|area| area.size);
        let size = size.unwrap_or(egui::vec2(270.0, 170.0));
        let pointer = ctx.input(|i| i.pointer.hover_pos());
        let at = probe::place(&self.canvas, pointer, size, self.views_rect);
        egui::Area::new(id)
            .interactable(false)
            .fixed_pos(at)
            .fade_in(false)
            .constrain_to(self.views_rect)
            .show(ctx, |ui| {
                egui::Frame::popup(ui.style()).show(ui, |ui| {
                    if let Some(query) = former {
                        let text = format!("Of the former query at ({}, {})", query.x, query.y);
                        let size = widgets::small_print(ui);
                        ui.label(egui::RichText::new(text).size(size).color(ui.visuals().warn_fg_color));
                    }
                    match &found {
                        Some(found) => probe::ui(ui, found),
                        None => probe::hidden(ui, snapshot, pixel),
                    }
                    if let Some((error, note)) = reference {
                        ui.label(format!("{} from the reference at {note}", percent(error)));
                    }
                });
            });
    }

    /// Windows over the views.
    pub(super) fn windows(&mut self, ctx: &egui::Context) {
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

    pub(super) fn facts(&self, ui: &mut egui::Ui) {
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
}
