//! The status bar: what computes, how much, how fast, how exactly, and what is going on, in one line that never moves.

use super::relative_mask;
use super::snapshot::Snapshot;
use super::widgets::{badge, small_print};
use crate::backend::{DeviceInfo, DeviceKind, TimingSource};
use crate::graph::human_bytes;
use crate::mask::MaskSpec;
use crate::numbers::{grouped, percent, seconds};
use crate::words::{counted, plural};
use eframe::egui::{self, Align, Layout, RichText, Ui};
use std::time::Duration;

/// Work that takes a while.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Busy {
    /// What: `Exact rows`.
    pub what: String,
    /// Parts done and parts there are; `None` where that is not known.
    pub progress: Option<(u64, u64)>,
    /// Whether it can be cancelled.
    pub can_cancel: bool,
}

/// Error of the approximate row.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum ApproximationError {
    /// Not known yet.
    #[default]
    Unknown,
    /// The rows are exact.
    Exact,
    /// ‖approximate − exact‖ / ‖exact‖.
    Relative(f64),
    /// There is none, and why.
    Missing(String),
}

/// State of the source of pictures.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum SourceState {
    /// A picture that stands still: nothing to tell.
    #[default]
    Still,
    /// Playing, with what there is to tell: `Camera · 30 fps`.
    Playing(String),
    /// Paused by the user.
    Paused,
    /// No new picture although there should be one, for this long.
    Frozen(Duration),
    /// Gone, and why.
    Lost(String),
}

/// What the bar tells. Everything is optional: a bar without a device yet says so.
#[derive(Clone, Debug, Default)]
pub struct StatusFacts {
    /// Device that computes.
    pub device: Option<DeviceInfo>,
    /// Whether it is another one than the window's.
    pub copied: bool,
    /// Token grid: columns, rows.
    pub tokens: Option<(usize, usize)>,
    /// Landmarks; 0 where there are none.
    pub landmarks: Option<u32>,
    /// Random features of the rows, where they are made of such.
    pub random_features: Option<u32>,
    /// The mask of relative positions, in words; `None` where there is none.
    pub mask: Option<String>,
    /// Keys that the painted mask hides from the query; `None` where none is in force.
    pub hidden_keys: Option<usize>,
    /// Milliseconds on the device.
    pub device_ms: Option<f64>,
    /// Where they come from.
    pub timing: Option<TimingSource>,
    /// Milliseconds of processor time of the whole process.
    pub cpu_ms: Option<f64>,
    /// From the change of a setting to the new map.
    pub latency: Option<Duration>,
    /// Bytes that the programs hold.
    pub memory: Option<u64>,
    /// Pictures of the source that were left out to keep up.
    pub dropped: Option<u64>,
    /// Error of the approximation.
    pub error: ApproximationError,
    /// State of the source.
    pub source: SourceState,
    /// Work under way.
    pub busy: Option<Busy>,
}

impl StatusFacts {
    /// What the last answer of the engine says; source and work under way are for the caller to add.
    pub fn of(snapshot: Option<&Snapshot>) -> Self {
        let Some(s) = snapshot else { return Self::default() };
        let steps = &s.timings.steps;
        let seconds = match steps.is_empty() {
            true => s.timings.wall_seconds,
            false => steps.iter().map(|step| step.seconds).sum(),
        };
        let (memory, ran) = (s.memory, !s.sees_nothing());
        Self {
            device: Some(s.device.clone()),
            copied: !s.on_window_device,
            tokens: Some((s.grid.cols(), s.grid.rows())),
            landmarks: Some(s.landmarks),
            random_features: (!s.exact && s.landmarks == 0).then_some(s.compute.random_features),
            mask: (s.compute.mask != MaskSpec::None).then(|| relative_mask::in_words(&s.compute.mask)),
            hidden_keys: s.hidden_keys,
            device_ms: ran.then_some(1e3 * seconds),
            timing: Some(if steps.is_empty() { TimingSource::Wall } else { s.timings.source }),
            cpu_ms: ran.then_some(1e3 * s.timings.cpu_seconds),
            latency: Some(s.latency),
            memory: Some(memory.transient + memory.external + memory.staging),
            error: match (s.exact, s.relative_error, &s.no_exact) {
                (true, _, _) => ApproximationError::Exact,
                (_, Some(error), _) => ApproximationError::Relative(error),
                (_, _, Some(why)) => ApproximationError::Missing(why.clone()),
                _ => ApproximationError::Unknown,
            },
            ..Self::default()
        }
    }
}

/// What was asked for in the status bar.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StatusRequest {
    /// Ends the work under way.
    Cancel,
    /// Shows all about adapter and picture.
    Information,
}

/// Height of the bar, in points.
pub const HEIGHT: f32 = 22.0;

/// Draws the bar into the width of `ui`.
pub fn bar(ui: &mut Ui, facts: &StatusFacts) -> Option<StatusRequest> {
    let mut asked = None;
    let size = egui::vec2(ui.available_width(), HEIGHT);
    ui.allocate_ui_with_layout(size, Layout::right_to_left(Align::Center), |ui| {
        ui.spacing_mut().item_spacing.x = 6.0;
        // From the right: what is going on has its place first, and the rest shares what is left.
        busy(ui, facts.busy.as_ref(), &mut asked);
        source(ui, &facts.source);
        let rest = egui::vec2(ui.available_width(), HEIGHT);
        ui.allocate_ui_with_layout(rest, Layout::left_to_right(Align::Center), |ui| {
            let items = items(facts);
            let needed: f32 = items.iter().map(|(text, _)| item_width(ui, text)).sum();
            device(ui, facts, needed, &mut asked);
            items.iter().for_each(|(text, hover)| item(ui, text, hover));
        });
    });
    asked
}

fn busy(ui: &mut Ui, busy: Option<&Busy>, asked: &mut Option<StatusRequest>) {
    let Some(busy) = busy else { return };
    if busy.can_cancel {
        let button = egui::Button::new(small(ui, "Cancel")).small();
        if ui.add(button).on_hover_text("Ends this work; the last map stays.").clicked() {
            *asked = Some(StatusRequest::Cancel);
        }
    }
    if let Some((done, all)) = busy.progress {
        let share = if all == 0 { 0.0 } else { (done as f64 / all as f64).clamp(0.0, 1.0) };
        let text = format!("{} of {}", grouped(done as f64), grouped(all as f64));
        let bar = egui::ProgressBar::new(share as f32).desired_width(96.0).desired_height(14.0);
        ui.add(bar.text(small(ui, &text)));
    }
    ui.label(small(ui, &busy.what));
    if busy.progress.is_none() {
        ui.add(egui::Spinner::new().size(12.0));
    }
    ui.separator();
}

fn source(ui: &mut Ui, state: &SourceState) {
    let visuals = ui.visuals();
    let (warn, error) = (visuals.warn_fg_color, visuals.error_fg_color);
    let (text, hover) = match state {
        SourceState::Still => return,
        SourceState::Playing(text) => (small(ui, text), "The source is running."),
        SourceState::Paused => (small(ui, "Paused"), "Space plays on."),
        SourceState::Frozen(since) => (
            small(ui, &format!("Source frozen for {:.0} s", since.as_secs_f64())).color(warn),
            "No new picture has come: the last one is shown.",
        ),
        SourceState::Lost(why) => {
            ui.label(small(ui, "Source lost").color(error)).on_hover_text(why);
            return;
        }
    };
    ui.label(text).on_hover_text(hover);
}

/// The device, in what the facts behind it leave: they need `needed` points.
fn device(ui: &mut Ui, facts: &StatusFacts, needed: f32, asked: &mut Option<StatusRequest>) {
    let Some(device) = &facts.device else {
        ui.label(small(ui, "No map yet").weak());
        return;
    };
    let name = if device.kind == DeviceKind::Reference {
        device.name.clone()
    } else {
        format!("{} · {}", device.name, device.backend)
    };
    let driver =
        if device.driver.is_empty() { String::new() } else { format!("\nDriver: {}", device.driver) };
    let copied = if facts.copied { "\nResults are copied to the window's device." } else { "" };
    let mark = match device.kind {
        DeviceKind::Software => Some((
            "software driver",
            "This driver computes on the processor: a GPU would be many times faster.",
        )),
        DeviceKind::Reference => Some(("reference", "The f64 reference: exact, and slow.")),
        _ => None,
    };
    // Long names of adapters give way to numbers.
    let mark_width = mark.map_or(0.0, |(text, _)| text_width(ui, text) + 24.0);
    let width = text_width(ui, &name).min((ui.available_width() - needed - mark_width).max(90.0));
    let size = egui::vec2(width + 2.0, HEIGHT);
    let response = ui
        .allocate_ui_with_layout(size, Layout::left_to_right(Align::Center), |ui| {
            let label = egui::Label::new(small(ui, &name)).truncate().selectable(false);
            ui.add(label.sense(egui::Sense::click()))
        })
        .inner;
    if response.on_hover_text(format!("{name}\nKind: {}{driver}{copied}", device.kind)).clicked() {
        *asked = Some(StatusRequest::Information);
    }
    if let Some((text, hover)) = mark {
        badge(ui, text, hover);
    }
}

/// The facts behind the device, the more important ones first: text, and what it means.
fn items(facts: &StatusFacts) -> Vec<(String, String)> {
    let mut list: Vec<(String, String)> = Vec::new();
    let mut item = |text: &str, hover: &str| list.push((text.to_string(), hover.to_string()));
    if let Some((cols, rows)) = facts.tokens {
        let text = format!(
            "{cols} × {rows} = {} {}",
            grouped((cols * rows) as f64),
            plural(cols * rows, "token", "tokens")
        );
        item(&text, "Columns and rows of tokens over the picture.");
    }
    match (facts.random_features, facts.landmarks) {
        (Some(count), _) => {
            item(&counted(count, "random feature", "random features"), "Rows approximate softmax by these.");
        }
        (_, Some(0)) => item("exact rows", "The query meets every key."),
        (_, Some(count)) => {
            item(&counted(count, "landmark", "landmarks"), "Rows are computed through these.");
        }
        _ => {}
    }
    if let Some(mask) = &facts.mask {
        item(
            mask,
            "Mask of relative positions: it weighs keys by how far, and where, they lie from the query.",
        );
    }
    if let (Some(hidden), Some((cols, rows))) = (facts.hidden_keys, facts.tokens) {
        let text =
            format!("mask hides {} of {} tokens", grouped(hidden as f64), grouped((cols * rows) as f64));
        item(
            &text,
            "Keys that the painted mask hides from the clicked query: the mask topology view shows which.",
        );
    }
    let gpu = facts.device_ms.map(|ms| format!("GPU {}", seconds(ms / 1e3)));
    let cpu = facts.cpu_ms.map(|ms| format!("CPU {}", seconds(ms / 1e3)));
    if gpu.is_some() || cpu.is_some() {
        let times: Vec<String> = gpu.into_iter().chain(cpu).collect();
        let from = facts.timing.map_or_else(String::new, |source| format!(" ({source})"));
        let hover = format!(
            "GPU: time of the last run on the device{from}.\nCPU: processor time of the whole program, all threads."
        );
        item(&times.join(" · "), &hover);
    }
    match &facts.error {
        ApproximationError::Relative(error) => {
            let hover = "Of the approximate row against the exact one: ‖approximate − exact‖ / ‖exact‖.";
            item(&format!("error {}", percent(*error)), hover);
        }
        ApproximationError::Missing(why) => item("error n/a", why),
        ApproximationError::Unknown | ApproximationError::Exact => {}
    }
    if let Some(latency) = facts.latency {
        let text = format!("{} latency", seconds(latency.as_secs_f64()));
        item(&text, "From the last change to the new map.");
    }
    if let Some(bytes) = facts.memory {
        item(&human_bytes(bytes), "Memory of the device that the programs hold.");
    }
    if let Some(dropped) = facts.dropped {
        let text = format!("{} dropped", grouped(dropped as f64));
        item(&text, "Pictures of the source that were left out to keep up with it.");
    }
    list
}

/// A fact behind a thin line, where there is room for all of it.
fn item(ui: &mut Ui, text: &str, hover: &str) {
    if item_width(ui, text) > ui.available_width() + 1.0 {
        return;
    }
    ui.separator();
    let label = egui::Label::new(small(ui, text)).selectable(false).wrap_mode(egui::TextWrapMode::Extend);
    ui.add(label).on_hover_text(hover);
}

fn item_width(ui: &Ui, text: &str) -> f32 {
    // The line takes six points.
    text_width(ui, text) + 6.0 + 2.0 * ui.spacing().item_spacing.x
}

fn text_width(ui: &Ui, text: &str) -> f32 {
    let font = egui::FontId::proportional(small_print(ui));
    let colour = egui::Color32::PLACEHOLDER;
    ui.fonts_mut(|fonts| fonts.layout_no_wrap(text.to_string(), font, colour).size().x)
}

fn small(ui: &Ui, text: &str) -> RichText {
    RichText::new(text).size(small_print(ui))
}
