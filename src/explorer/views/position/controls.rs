//! The controls of the view of position codes.

use super::super::plots;
use crate::explorer::position::{Axes, BIAS, Kernel, Kind, PositionSettings, WIDTH, limits};
use crate::explorer::widgets::{self, Choice, NUMBER_WIDTH, Number};
use crate::numbers::grouped;
use crate::position::Mode;
use eframe::egui::{self, RichText};

/// Where codes are drawn in this view, and for how many tokens.
pub(super) const ON_THE_CPU: &str = "Codes are drawn on the CPU here, for 4096 tokens at most: a picture of more is reduced for these \
                                     maps. Copy as command has the same code on any device.";

/// Draws them.
pub(super) fn show(ui: &mut egui::Ui, settings: &mut PositionSettings, heads: usize) {
    let usual = PositionSettings::default();
    let axes = [
        Choice::new(Axes::Picture, "Picture", "Row and column of a token: two axes."),
        Choice::new(Axes::Line, "Line", "Place of a token in reading order: one axis, as in a text."),
    ];
    widgets::segments(ui, "Positions", "What the position of a token is.", &mut settings.axes, &axes);
    let kinds = [
        Choice::new(Kind::Sine, "Sinusoids", "sineSPE: the template is a sum of cosines, and never ends."),
        Choice::new(
            Kind::Conv,
            "Filters",
            "convSPE: noise under two filters; the template ends after their length.",
        ),
    ];
    widgets::segments(
        ui,
        "Code",
        "How noise gets the wanted likeness at two places.",
        &mut settings.kind,
        &kinds,
    );
    match settings.kind {
        Kind::Sine => {
            let number = Number::along(1.0..=20.0, usual.sinusoids.into());
            let number = number.limits(1.0..=f64::from(*limits::SINUSOIDS.end())).whole();
            let hover = "Cosines that the template of every dimension is a sum of. More of them make richer templates, and smaller ones: \
                         the sum is divided by 2K.";
            widgets::slider(ui, "Sinusoids K", hover, &mut settings.sinusoids, &number);
            let hover = "How fast the sinusoids are as training begins: frequencies are sigmoid(x + bias)/2 turns per token, x drawn. −4 is \
                         the published one, half of whose periods are above 108 tokens; −2.5 makes that 26.";
            let number = Number::along(-6.0..=2.0, BIAS).limits(limits::BIAS);
            widgets::slider(ui, "Bias", hover, &mut settings.bias, &number);
        }
        Kind::Conv => {
            let number = Number::along(1.0..=16.0, usual.taps.into());
            let number = number.limits(1.0..=f64::from(*limits::TAPS.end())).whole();
            let hover = "Length of the filters along each axis, in tokens. The template is 0 from there on.";
            widgets::slider(ui, "Taps P", hover, &mut settings.taps, &number);
        }
    }
    realizations(ui, &mut settings.realizations, usual.realizations);
    let number = Number::along(0.0..=0.999, usual.gate).limits(limits::GATE);
    let hover = "Share of every dimension that ignores positions: the template becomes (1 − γ) P + γ. 0 is no gate; near 1 the map is \
                 that without a code, but for noise.";
    widgets::slider(ui, "Gate γ", hover, &mut settings.gate, &number);
    let number = Number::along(0.1..=10.0, usual.gain).logarithmic().limits(limits::GAIN);
    let hover = "Factor on all gains of sinusoids, or on all taps. The template and its noise grow with its square, and with them the \
                 logits: a sharper map.";
    widgets::slider(ui, "Gain", hover, &mut settings.gain, &number);
    let modes = [
        Choice::new(
            Mode::Icdf,
            "Table",
            "Gaussian numbers by a table of integers: the same bits on every device.",
        ),
        Choice::new(Mode::BoxMuller, "Box–Muller", "Gaussian numbers by logarithm and cosine, as published."),
        Choice::new(Mode::Rademacher, "Signs", "1 or −1, by chance: the same template, from cheaper noise."),
    ];
    widgets::segments(ui, "Noise", "What is drawn.", &mut settings.noise, &modes);
    let hover =
        "Names the noise: the same seed draws the same again. The exact template does not depend on it.";
    seed(
        ui,
        "Noise seed",
        hover,
        ("Redraw", "Draws the next noise; the exact template stays"),
        &mut settings.noise_seed,
    );
    let hover = "Names the parameters that the template has as training begins.";
    seed(
        ui,
        "Template",
        hover,
        ("Another", "Takes other parameters: another template"),
        &mut settings.template_seed,
    );
    ui.add_space(4.0);
    ui.strong("Shown");
    from_one(ui, "Head", "Head whose features and code make the maps.", &mut settings.head, heads as u32);
    let hover = "Dimension whose template is shown; the maps are of all dimensions together.";
    from_one(ui, "Dimension", hover, &mut settings.dimension, WIDTH);
    let kernels = [
        Choice::new(Kernel::Softmax, "Softmax", "e^(q·k/√R) over its sum, R in the place of D with a code."),
        Choice::new(
            Kernel::Elu,
            "ELU + 1",
            "Linear attention with φ(x) = elu(x) + 1: what the code is made for.",
        ),
        Choice::new(Kernel::Relu, "ReLU", "Linear attention with φ(x) = max(x, 0)."),
    ];
    let hover = "How products of queries and keys become weights of the maps.";
    widgets::segments(ui, "Kernel", hover, &mut settings.kernel, &kernels);
    ui.add(egui::Label::new(plots::caption(ON_THE_CPU)).wrap());
}

/// The slider of R, along powers of two.
fn realizations(ui: &mut egui::Ui, value: &mut u32, usual: u32) {
    let help = format!(
        "Draws of the noise, and numbers of a query or key with the code. Four times as many halve the noise of the map, and cost four \
         times as much.\n\nDrag along the powers of two. Double-click sets {usual}."
    );
    let powers = limits::REALIZATIONS.start().ilog2()..=limits::REALIZATIONS.end().ilog2();
    widgets::row(ui, "Realisations", &help, |ui, label| {
        let gap = ui.spacing().item_spacing.x;
        ui.spacing_mut().slider_width = (ui.available_width() - NUMBER_WIDTH - gap).max(24.0);
        let mut power = (*value).max(1).ilog2();
        let rail = ui.add(egui::Slider::new(&mut power, powers).show_value(false)).labelled_by(label.id);
        if rail.changed() {
            *value = 1 << power;
        }
        let twice = ui.input(|i| i.pointer.button_double_clicked(egui::PointerButton::Primary));
        if twice && rail.contains_pointer() && ui.is_enabled() {
            *value = usual;
        }
        let (shown, ink) = (f64::from(*value), ui.visuals().widgets.inactive.text_color());
        rail.widget_info(|| egui::WidgetInfo::slider(true, shown, "Realisations R"));
        rail.on_hover_text(&help);
        ui.add_sized(
            [NUMBER_WIDTH, ui.spacing().interact_size.y],
            egui::Label::new(RichText::new(grouped(shown)).color(ink)),
        );
    });
}

/// A seed with a button for the next one.
fn seed(ui: &mut egui::Ui, label: &str, hover: &str, (name, tip): (&str, &str), seed: &mut u32) {
    widgets::row(ui, label, hover, |ui, label| {
        let number = Number::along(0.0..=f64::from(u32::MAX), 1.0).whole();
        let mut now = f64::from(*seed);
        widgets::number_field(ui, label, &mut now, &number, NUMBER_WIDTH).on_hover_text(hover);
        *seed = now as u32;
        if ui.button(name).on_hover_text(tip).clicked() {
            *seed = seed.wrapping_add(1);
        }
    });
}

/// A slider that counts from 1 what is kept from 0.
fn from_one(ui: &mut egui::Ui, label: &str, hover: &str, value: &mut u32, count: u32) {
    let mut shown = value.saturating_add(1);
    let number =
        Number::along(1.0..=f64::from(count.max(2)), 1.0).limits(1.0..=f64::from(count.max(1))).whole();
    if widgets::slider(ui, label, hover, &mut shown, &number) {
        *value = shown.max(1) - 1;
    }
}
