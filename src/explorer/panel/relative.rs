//! The panel's section about the mask of relative positions: its kind and its numbers. A table by hand is edited in the view.

use super::super::relative_mask::{self, Kind, Preset};
use super::super::settings::Compute;
use super::super::widgets::{Choice, Number, choice, note, segments, slider, switch};
use crate::mask::{Distance, MaskSpec, Profile, StencilSpec, ToeplitzSpec};
use crate::numbers::significant;
use eframe::egui::Ui;

/// Sizes along the rail, in tokens.
const SIZES: std::ops::RangeInclusive<f64> = 0.5..=64.0;

/// Sizes that can be typed.
const SIZE_LIMITS: std::ops::RangeInclusive<f64> = 0.01..=1e6;

fn size(default: f64) -> Number {
    Number::along(SIZES, default).logarithmic().limits(SIZE_LIMITS)
}

/// Draws the section; the document takes what changed.
pub(super) fn mask(ui: &mut Ui, compute: &mut Compute) {
    let note_id = ui.scope_id().with("relative mask note");
    let before = Kind::of(&compute.mask);
    let mut kind = before;
    let kinds = Kind::ALL.map(|kind| Choice::new(kind, kind.name(), kind.about()));
    let hover = "Weighs keys by where they lie from the query, whatever the picture shows there.";
    if choice(ui, "Mask", hover, &mut kind, &kinds, "") {
        let told = relative_mask::set(compute, kind.usual());
        ui.data_mut(|data| data.remove::<String>(note_id));
        if let Some(text) = told {
            ui.data_mut(|data| data.insert_temp(note_id, text));
        }
    }
    if let Some(text) = ui.data(|data| data.get_temp::<String>(note_id)) {
        note(ui, text);
    }
    match &mut compute.mask {
        MaskSpec::None => {}
        MaskSpec::Causal => note(ui, "Tokens see themselves and those before them in reading order."),
        MaskSpec::Decay { gamma, both } => decay(ui, gamma, both),
        MaskSpec::Separable { rows, cols } => {
            slider(ui, "Rows", "Rows over which weight falls by e = 2.72.", rows, &size(4.0));
            slider(ui, "Columns", "Columns over which weight falls by e = 2.72.", cols, &size(4.0));
        }
        MaskSpec::Toeplitz(spec) => by_distance(ui, spec),
        MaskSpec::Stencil(spec) => by_hand(ui, spec),
    }
}

fn decay(ui: &mut Ui, gamma: &mut f64, both: &mut bool) {
    let number = Number::along(0.5..=1.0, 0.95).limits(0.0..=1.0);
    slider(ui, "γ per token", "Factor of the weight per token in reading order.", gamma, &number);
    let reach = -1.0 / gamma.ln();
    match reach.is_finite() && reach > 0.0 {
        true => note(ui, format!("Falls by e over {} tokens in reading order.", significant(reach, 3))),
        false => note(ui, if *gamma > 0.0 { "Does not fall." } else { "Only the token itself." }),
    }
    switch(ui, "Both directions", "Off: tokens that come later are hidden.", both);
}

fn by_distance(ui: &mut Ui, spec: &mut ToeplitzSpec) {
    let profiles = [
        (Profile::Gaussian, "Gaussian", "exp(−x² / 2 size²): a soft spot."),
        (Profile::Exponential, "Exponential", "exp(−x / size): a peak with a long tail."),
        (Profile::Window, "Window", "1 up to the size, 0 beyond."),
        (Profile::Inverse, "Inverse", "1 / (1 + x / size): falls slowly."),
        (Profile::Triangle, "Triangle", "1 − x / (size + 1), 0 beyond."),
    ]
    .map(|(profile, name, hover)| Choice::new(profile, name, hover));
    choice(ui, "Profile", "How weight falls with the distance x.", &mut spec.profile, &profiles, "");
    slider(ui, "Size", "How far it reaches, in tokens.", &mut spec.size, &size(4.0));
    let distances = [
        Choice::new(Distance::L2, "Disc", "As the crow flies: √(Δrow² + Δcolumn²)."),
        Choice::new(Distance::LInf, "Square", "The longer side: max(|Δrow|, |Δcolumn|)."),
        Choice::new(Distance::L1, "Diamond", "Steps along the axes: |Δrow| + |Δcolumn|."),
    ];
    segments(ui, "Shape", "How distance is measured.", &mut spec.distance, &distances);
    borders(ui, &mut spec.torus, &mut spec.causal);
}

fn by_hand(ui: &mut Ui, spec: &mut StencilSpec) {
    let same = Preset::ALL.iter().find(|(preset, ..)| preset.table(spec) == *spec);
    let mut chosen = same.map(|(preset, ..)| *preset);
    let presets = Preset::ALL.map(|(preset, name, hover)| Choice::new(Some(preset), name, hover));
    if choice(ui, "Preset", "Tables to begin with.", &mut chosen, &presets, "Own weights")
        && let Some(preset) = chosen
    {
        *spec = preset.table(spec);
    }
    note(ui, format!("{} × {} weights: edit them in the view Relative mask.", spec.rows, spec.cols));
    borders(ui, &mut spec.torus, &mut spec.causal);
}

fn borders(ui: &mut Ui, torus: &mut bool, causal: &mut bool) {
    switch(
        ui,
        "Torus",
        "The borders of the picture are joined: what leaves it at the right comes in at the left.",
        torus,
    );
    switch(ui, "Causal", "Hides tokens that come later in reading order as well.", causal);
}
