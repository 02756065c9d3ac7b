//! The side panel with what all views have in common: what is computed, how it looks, and on which device.
//!
//! What does not exist for a combination cannot be chosen, and says why where the pointer rests on it.

mod relative;

use super::settings::{
    Colours, Compute, Device, Fusion, LandmarkKind, Look, Range, Road, RowForm, Settings, Similarity, limits,
};
use super::snapshot::{LayerId, Snapshot};
use super::widgets::{
    BarColours, Choice, Number, choice, colour_bar, note, number_field, row, section, segments, slider,
    small_print, switch,
};
use crate::backend::cuda;
use crate::mask::MaskSpec;
use crate::numbers::{grouped, significant};
use crate::vision::palette::Palette;
use crate::words::plural;
use eframe::egui::{self, Ui};
use std::ops::RangeInclusive;

/// Room for the bar to scroll with, in points.
const SCROLL_WIDTH: f32 = 6.0;

/// What the panel tells besides the settings themselves.
#[derive(Clone, Debug, Default)]
pub struct PanelFacts {
    /// Bandwidth in use, per head; empty while unknown, or where there is none.
    pub lambda: Vec<f32>,
    /// Token grid: columns and rows.
    pub tokens: Option<(usize, usize)>,
    /// Whether the rows in sight are exact.
    pub exact: Option<bool>,
    /// Numbers at the ends of the colour map in use, and whether they are log₁₀ of magnitudes.
    pub range: Option<(f32, f32, bool)>,
    /// Colour map in use where [`Colours::Auto`] chose it.
    pub palette: Option<Palette>,
    /// Devices to choose from: name for people, setting.
    pub devices: Vec<(String, Device)>,
}

impl PanelFacts {
    /// What the last answer of the engine says.
    pub fn of(snapshot: Option<&Snapshot>, devices: &[(String, Device)]) -> Self {
        let devices = devices.to_vec();
        let Some(snapshot) = snapshot else { return Self { devices, ..Self::default() } };
        let map = snapshot.layer(LayerId::Map);
        let lambda = match snapshot.compute.similarity.has_bandwidth() {
            true => snapshot.lambda.clone(),
            false => Vec::new(),
        };
        Self {
            lambda,
            tokens: Some((snapshot.grid.cols(), snapshot.grid.rows())),
            exact: Some(snapshot.exact),
            range: map.map(|layer| (layer.range.0, layer.range.1, layer.log)),
            palette: map.map(|layer| layer.palette),
            devices,
        }
    }
}

/// Why rows of this form do not exist under these settings; `None` where they do.
pub fn form_problem(compute: &Compute, form: RowForm) -> Option<&'static str> {
    let similarity = compute.similarity;
    let own_sums = !similarity.has_bandwidth();
    match form {
        RowForm::None => None,
        RowForm::Sum if own_sums || compute.road == Road::Exact => None,
        RowForm::Sum => Some("A Nyström row can sum to 0 or less: choose exact rows."),
        _ if similarity == Similarity::Softmax => {
            Some("Softmax is normalised by itself: choose the Laplacian or the Gaussian kernel.")
        }
        _ if own_sums => {
            Some("Rows of features are divided by their sums: choose the Laplacian or the Gaussian kernel.")
        }
        _ if compute.mask != MaskSpec::None => Some(
            "A mask weighs rows as they are or divided by their sums: whitened ones hold no weights. Choose no relative mask.",
        ),
        RowForm::Row | RowForm::Col => None,
        RowForm::Cheap | RowForm::Softpp if compute.road == Road::Exact => Some(
            "It whitens the features of the landmarks, which exact rows do not have: choose Nyström rows.",
        ),
        RowForm::Cheap | RowForm::Softpp => None,
    }
}

/// Name of a form of rows.
pub fn form_name(form: RowForm) -> &'static str {
    match form {
        RowForm::None => "None",
        RowForm::Sum => "Sum",
        RowForm::Row => "Row",
        RowForm::Col => "Column",
        RowForm::Cheap => "Cheap",
        RowForm::Softpp => "SOFT++",
    }
}

/// Draws the controls into all of `ui`; whether a setting changed.
pub fn controls(ui: &mut Ui, settings: &mut Settings, facts: &PanelFacts) -> bool {
    ui.spacing_mut().item_spacing.y = 5.0;
    // A bar to scroll with floats over the right edge.
    ui.set_max_width(ui.available_width() - SCROLL_WIDTH);
    let before = settings.clone();
    section(ui, "Attention", true, |ui| attention(ui, &mut settings.compute, facts));
    section(ui, "Relative mask", true, |ui| relative::mask(ui, &mut settings.compute));
    section(ui, "Landmarks", true, |ui| landmarks(ui, settings, facts));
    section(ui, "Tokens and heads", false, |ui| tokens(ui, settings, facts));
    section(ui, "Appearance", true, |ui| appearance(ui, settings, facts));
    section(ui, "Device", true, |ui| device(ui, &mut settings.device, facts));
    *settings != before
}

fn attention(ui: &mut Ui, compute: &mut Compute, facts: &PanelFacts) {
    let note_id = ui.scope_id().with("form note");
    let mut changed = segments(
        ui,
        "Similarity",
        "How alike a query and a key are.",
        &mut compute.similarity,
        &[
            Choice::new(
                Similarity::Laplacian,
                "Laplacian",
                "exp(−‖q − k‖₁ / λ): the tail keeps what is a little alike.",
            ),
            Choice::new(Similarity::Gaussian, "Gaussian", "exp(−‖q − k‖² / λ): the tail falls off fast."),
            Choice::new(Similarity::Softmax, "Softmax", "softmax of q·k / √d: always exact."),
        ],
    );
    changed |= segments(
        ui,
        "Features",
        "Linear attention: φ(q)·φ(k) over its sum, with a feature map φ in the place of a kernel.",
        &mut compute.similarity,
        &[
            Choice::new(Similarity::Elu, "ELU+1", "φ(x) = elu(x) + 1: never zero, the safest."),
            Choice::new(Similarity::Relu, "ReLU", "φ(x) = max(x, 0): a token can be all zeros."),
            Choice::new(Similarity::Exponential, "exp", "φ(x) = exp(x)."),
            Choice::new(
                Similarity::FavorPlus,
                "FAVOR+",
                "Positive random features, which approximate softmax.",
            ),
        ],
    );
    if compute.similarity == Similarity::FavorPlus {
        let default = f64::from(Compute::default().random_features);
        let number = Number::along(8.0..=512.0, default).whole().logarithmic();
        let number = number.limits(reals(&limits::RANDOM_FEATURES));
        let hover = "Random features of FAVOR+: more come nearer to softmax.";
        slider(ui, "Random", hover, &mut compute.random_features, &number);
    }
    changed |= rows(ui, compute);
    if facts.exact == Some(true) && !compute.must_be_exact() && compute.road == Road::Nystrom {
        note(ui, "Exact here: there are hardly more tokens than landmarks.");
    }
    // A form that ends with a change of kernel or road goes back to none, and a line says so.
    if changed {
        ui.data_mut(|data| data.remove::<String>(note_id));
        if let Some(problem) = form_problem(compute, compute.form) {
            let text = format!("{} was set back to none. {problem}", form_name(compute.form));
            ui.data_mut(|data| data.insert_temp(note_id, text));
            compute.form = RowForm::None;
        }
    }
    let forms = [
        (RowForm::None, "Kernel values as they are."),
        (RowForm::Sum, "Divided by the sum of the row."),
        (RowForm::Row, "Centred over the keys and whitened over the queries."),
        (RowForm::Col, "Centred and whitened over the queries."),
        (RowForm::Cheap, "The features of the landmarks whitened instead of the rows."),
        (RowForm::Softpp, "By the degrees of the landmark kernel, as in SOFT++."),
    ]
    .map(|(form, hover)| Choice::new(form, form_name(form), hover).unless(form_problem(compute, form)));
    if choice(ui, "Normalisation", "What is done with a row after the kernel.", &mut compute.form, &forms, "")
    {
        ui.data_mut(|data| data.remove::<String>(note_id));
    }
    if let Some(text) = ui.data(|data| data.get_temp::<String>(note_id)) {
        note(ui, text);
    }
    // Settings from elsewhere may ask for what does not exist.
    if let Some(problem) = form_problem(compute, compute.form) {
        let colour = ui.visuals().error_fg_color;
        let text = egui::RichText::new(problem).size(small_print(ui)).color(colour);
        ui.add(egui::Label::new(text).wrap());
    }
    bandwidth(ui, compute, facts);
}

/// The road to the rows, where there are two; whether it changed.
fn rows(ui: &mut Ui, compute: &mut Compute) -> bool {
    if compute.feature_map().is_some() {
        note(ui, "Features make a row in linear time, without landmarks.");
        return false;
    }
    let softmax = compute.similarity == Similarity::Softmax;
    let mut road = if softmax { Road::Exact } else { compute.road };
    let no_road = softmax.then_some("Softmax has no Nyström form here: its rows are exact.");
    let roads = [
        Choice::new(Road::Nystrom, "Nyström", "Through landmarks: the cost grows linearly with the tokens.")
            .unless(no_road),
        Choice::new(Road::Exact, "Exact", "The query against every key."),
    ];
    let changed = segments(ui, "Rows", "How the row of a query is computed.", &mut road, &roads);
    if changed {
        compute.road = road;
    }
    changed
}

fn bandwidth(ui: &mut Ui, compute: &mut Compute, facts: &PanelFacts) {
    if !compute.similarity.has_bandwidth() {
        return note(ui, format!("{} has no bandwidth λ.", compute.similarity.name()));
    }
    let mean = facts.lambda.iter().sum::<f32>() / facts.lambda.len().max(1) as f32;
    let in_use = if mean > 0.0 && mean.is_finite() { mean } else { 1.0 };
    let number = Number::along(0.05..=100.0, f64::from(in_use)).logarithmic().limits(1e-6..=1e6);
    let mut automatic = compute.lambda.is_none();
    row(ui, "Bandwidth λ", "How far apart a query and a key may be and still be alike.", |ui, _| {
        let hover = "A bandwidth per head with which the mean kernel value is 0.1.";
        if switch(ui, "Automatic, per head", hover, &mut automatic) {
            // What is in sight stays: the slider begins where the automatic values are.
            compute.lambda = (!automatic).then_some(in_use);
        }
    });
    let mut value = compute.lambda.unwrap_or(in_use);
    let hover = "One bandwidth for all heads.";
    let changed = ui.add_enabled_ui(!automatic, |ui| slider(ui, "λ", hover, &mut value, &number)).inner;
    if changed && !automatic {
        compute.lambda = Some(value);
    }
    if automatic && !facts.lambda.is_empty() {
        let list: Vec<String> = facts.lambda.iter().map(|l| significant(f64::from(*l), 3)).collect();
        let more = if list.len() > 8 { " …" } else { "" };
        note(ui, format!("In use: {}{more}", list[..list.len().min(8)].join(" · ")));
    }
}

fn landmarks(ui: &mut Ui, settings: &mut Settings, facts: &PanelFacts) {
    let compute = &mut settings.compute;
    let defaults = Compute::default();
    let exact = compute.road == Road::Exact || compute.must_be_exact();
    let drawn = ui.add_enabled_ui(!exact, |ui| {
        choice(
            ui,
            "Kind",
            "Where landmarks come from.",
            &mut compute.landmarks,
            &[
                Choice::new(LandmarkKind::Strided, "Strided", "The token at the centre of each cell of a square grid."),
                Choice::new(LandmarkKind::Adaptive, "Adaptive means", "The mean of each cell of a square grid."),
                Choice::new(LandmarkKind::Segments, "Segment means", "Means over consecutive tokens in raster order."),
            ],
            "",
        );
        let side = Number::along(2.0..=16.0, f64::from(defaults.landmark_side)).whole().limits(reals(&limits::LANDMARK_SIDE));
        slider(ui, "Grid side", "There are as many landmarks as this squared, of every kind.", &mut compute.landmark_side, &side);
        let count = compute.landmark_side * compute.landmark_side;
        let of = match facts.tokens {
            Some((cols, rows)) => format!(" of {} {}", grouped((cols * rows) as f64), plural(cols * rows, "token", "tokens")),
            None => String::new(),
        };
        let chosen = format!("{} {}", grouped(f64::from(count)), plural(count, "landmark", "landmarks"));
        match facts.exact == Some(true) && !exact {
            true => note(ui, format!("Exact rows: at most twice as many tokens as the {chosen}")),
            false => note(ui, format!("{chosen}{of}")),
        }
        let epsilon =
            Number::along(1e-6..=1.0, f64::from(defaults.epsilon)).logarithmic().limits(1e-9..=10.0);
        slider(
            ui,
            "Diagonal ε",
            "Added to the diagonal of the landmark matrix before it is inverted: more is steadier and less exact.",
            &mut compute.epsilon,
            &epsilon,
        );
        switch(ui, "Show on the picture", "Draws the landmarks' cells over the picture.", &mut settings.look.show_landmarks);
    });
    if exact {
        let (hover, text) = match compute.feature_map() {
            None => ("Exact rows have no landmarks: choose Nyström rows.", "Exact rows have no landmarks."),
            Some(_) => (
                "Rows of features have no landmarks: choose the Laplacian or the Gaussian kernel.",
                "Rows of features have no landmarks.",
            ),
        };
        drawn.response.on_hover_text(hover);
        note(ui, text);
    }
}

fn reals(range: &RangeInclusive<u32>) -> RangeInclusive<f64> {
    f64::from(*range.start())..=f64::from(*range.end())
}

fn tokens(ui: &mut Ui, settings: &mut Settings, facts: &PanelFacts) {
    let compute = &mut settings.compute;
    let defaults = Compute::default();
    let patch = Number::along(2.0..=32.0, f64::from(defaults.patch)).whole().unit(" px");
    let patch = patch.limits(reals(&limits::PATCH));
    slider(ui, "Patch side", "Side of the square of pixels that a token sees.", &mut compute.patch, &patch);
    let stride = Number::along(1.0..=32.0, f64::from(defaults.stride))
        .whole()
        .unit(" px")
        .limits(reals(&limits::STRIDE));
    slider(ui, "Stride", "Distance of neighbouring tokens.", &mut compute.stride, &stride);
    let most = Number::along(256.0..=1_048_576.0, defaults.max_tokens as f64).whole().logarithmic();
    let most = most.limits(reals(&limits::TOKENS));
    slider(
        ui,
        "Most tokens",
        "A picture that would have more is reduced first.",
        &mut compute.max_tokens,
        &most,
    );
    if let Some((cols, rows)) = facts.tokens {
        note(
            ui,
            format!(
                "{cols} × {rows} = {} {}",
                grouped((cols * rows) as f64),
                plural(cols * rows, "token", "tokens")
            ),
        );
    }
    let heads = Number::along(1.0..=16.0, defaults.heads as f64).whole().limits(reals(&limits::HEADS));
    let hover = "Each head compares other properties of the patches: lightness, colour, texture, place.";
    if slider(ui, "Heads", hover, &mut compute.heads, &heads)
        && let Fusion::Head(head) = &mut settings.look.fusion
    {
        *head = (*head).min(compute.heads.saturating_sub(1));
    }
}

fn appearance(ui: &mut Ui, settings: &mut Settings, facts: &PanelFacts) {
    let heads = settings.compute.heads;
    let look = &mut settings.look;
    let mut fusions = vec![
        Choice::new(Fusion::Mean, "Mean of heads", "The mean over the heads, token by token."),
        Choice::new(Fusion::Max, "Largest of heads", "The largest of the heads, token by token."),
        Choice::new(Fusion::Min, "Smallest of heads", "The smallest of the heads, token by token."),
    ];
    fusions.extend(
        (0..heads).map(|h| Choice::new(Fusion::Head(h), format!("Head {}", h + 1), "This head alone.")),
    );
    let missing = "A head that is not there";
    choice(ui, "Heads shown", "How the heads become one map.", &mut look.fusion, &fusions, missing);
    let colours = [
        Choice::new(Colours::Auto, "Automatic", "Sequential, or diverging where there are negative numbers."),
        Choice::new(Colours::Sequential, "Sequential", "Dark violet over teal to yellow."),
        Choice::new(Colours::Diverging, "Diverging", "Blue below 0, white at 0, red above."),
        Choice::new(Colours::Grey, "Grey", "Black to white."),
    ];
    choice(ui, "Colours", "Colour map of all maps, even in lightness.", &mut look.colours, &colours, "");
    row(ui, "", "", |ui, _| {
        let ends = facts.range.map(|(low, high, log)| (end_text(low, log), end_text(high, log)));
        colour_bar(
            ui,
            bar_colours(look.colours, facts.palette),
            ends,
            "What the colours of the map stand for.",
        );
    });
    range(ui, look, facts);
    let opacity = Number::along(0.0..=100.0, 100.0 * f64::from(Look::default().opacity)).unit(" %");
    let mut percent = (look.opacity * 100.0 * 100.0).round() / 100.0;
    if slider(ui, "Opacity", "Of the map over the picture.", &mut percent, &opacity) {
        look.opacity = percent / 100.0;
    }
    switch(ui, "Smooth between tokens", "Off: every token is a flat square.", &mut look.smooth);
    switch(
        ui,
        "Same range for all heads",
        "Off: every head has a colour range of its own.",
        &mut look.same_range,
    );
    switch(ui, "Logarithmic", "Colours by the logarithm of magnitudes: shows what is faint.", &mut look.log);
    switch(
        ui,
        "Hide sinks",
        "Tokens that outshine all others do not count for the range, and are hatched.",
        &mut look.hide_sinks,
    );
    switch(ui, "Flag bad numbers", "NaN red and infinities green, over any colour map.", &mut look.flag_bad);
}

/// Which of the ranges, without its numbers.
#[derive(Clone, Copy, PartialEq)]
enum RangeKind {
    Fit,
    Clip,
    Fixed,
}

fn range(ui: &mut Ui, look: &mut Look, facts: &PanelFacts) {
    let mut kind = match look.range {
        Range::Fit => RangeKind::Fit,
        Range::Clip(_) => RangeKind::Clip,
        Range::Fixed(..) => RangeKind::Fixed,
    };
    let kinds = [
        Choice::new(RangeKind::Fit, "Fit", "From the smallest to the largest number of every picture."),
        Choice::new(RangeKind::Clip, "Clip", "As fit, but a share of the largest numbers is cut off."),
        Choice::new(RangeKind::Fixed, "Fixed", "The same numbers for every picture."),
    ];
    if segments(ui, "Range", "Which numbers the ends of the colour map stand for.", &mut kind, &kinds) {
        look.range = match kind {
            RangeKind::Fit => Range::Fit,
            RangeKind::Clip => Range::Clip(1.0),
            RangeKind::Fixed => {
                let (low, high) = facts.range.map_or((0.0, 1.0), |(low, high, _)| (low, high));
                Range::Fixed(low, high)
            }
        };
    }
    match &mut look.range {
        Range::Fit => {}
        Range::Clip(share) => {
            let number = Number::along(0.0..=20.0, 1.0).unit(" %").limits(limits::CUT_OFF);
            slider(ui, "Cut off", "Share of the tokens beyond the end of the colours.", share, &number);
        }
        Range::Fixed(low, high) => {
            let unit = if look.log { "log₁₀ of the magnitude" } else { "units of the row" };
            let hover = format!("Numbers at the ends of the colours, in {unit}.");
            row(ui, "From, to", &hover, |ui, label| {
                let width = (ui.available_width() - ui.spacing().item_spacing.x) / 2.0;
                for end in [&mut *low, &mut *high] {
                    let step = 0.01 * f64::from(end.abs()).max(0.01);
                    let number = Number { default: None, ..Number::along(-1e9..=1e9, 0.0) };
                    let mut value = f64::from(*end);
                    let number = Number { rail: 0.0..=300.0 * step, ..number };
                    if number_field(ui, label, &mut value, &number, width).on_hover_text(&hover).changed() {
                        *end = value as f32;
                    }
                }
            });
            if low >= high {
                let text = "The first number must be below the second.";
                let colour = ui.visuals().error_fg_color;
                ui.add(
                    egui::Label::new(egui::RichText::new(text).size(small_print(ui)).color(colour)).wrap(),
                );
            }
        }
    }
}

fn end_text(end: f32, log: bool) -> String {
    significant(if log { 10.0_f64.powf(f64::from(end)) } else { f64::from(end) }, 3)
}

fn bar_colours(colours: Colours, found: Option<Palette>) -> BarColours {
    match colours {
        Colours::Grey => BarColours::Grey,
        Colours::Diverging => BarColours::Palette(Palette::Diverging),
        Colours::Sequential => BarColours::Palette(Palette::Sequential),
        Colours::Auto => BarColours::Palette(found.unwrap_or(Palette::Sequential)),
    }
}

fn device(ui: &mut Ui, device: &mut Device, facts: &PanelFacts) {
    let mut choices: Vec<Choice<Device>> = facts
        .devices
        .iter()
        .map(|(name, device)| {
            let hover = match device {
                Device::Window => "The device that draws this window: results stay there.",
                Device::Named(_) => "Results are copied to the device that draws the window.",
            };
            Choice::new(device.clone(), name.as_str(), hover)
        })
        .collect();
    if choices.is_empty() {
        choices.push(Choice::new(Device::Window, "The window's", "The device that draws this window."));
    }
    let other = match device {
        Device::Window => "The window's".to_string(),
        // Also what is not offered but can be asked for: the host, a card in another precision.
        Device::Named(name) if cuda::is_asked(&name.to_lowercase()) => name.clone(),
        Device::Named(name) => format!("{name} (not found)"),
    };
    choice(ui, "Compute on", "Where attention is computed.", device, &choices, &other);
}
