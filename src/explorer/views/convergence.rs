//! How the inverse of the landmark matrix converges: the residual of every step beside the bound that promised it, and
//! what the spectrum says about it.

use super::plots::{self, Series};
use super::{TourPage, View, ViewContext};
use crate::explorer::settings::{Compute, LandmarkKind, Road, RowForm, Settings, Similarity};
use crate::explorer::snapshot::{Inverse, Needs, Snapshot, Trace};
use crate::kernels::linalg::newton_schulz::{
    ACCEPTED_RESIDUAL, BY_CHOLESKY, BY_CHOLESKY_SHIFTED, FAILED, OK,
};
use crate::numbers::number;
use crate::words::{counted, plural};
use eframe::egui::{self, RichText};
use egui_plot::{
    AxisHints, Corner, GridMark, HLine, HoverPosition, Legend, Line, LineStyle, Plot, PlotPoints, Points,
};

/// Width of the table beside the plot.
const TABLE_WIDTH: f32 = 408.0;

/// Narrowest view that has room for both side by side.
const WIDE: f32 = 860.0;

/// Residuals below this are drawn at it: f64 has nothing smaller to say about 1.
const SMALLEST: f64 = 1e-16;

/// The view.
#[derive(Debug, Default)]
pub(super) struct Convergence {
    /// Head to emphasise; `None` = the one with the largest residual.
    chosen: Option<usize>,
}

impl View for Convergence {
    fn id(&self) -> &'static str {
        "convergence"
    }

    fn title(&self) -> &'static str {
        "Convergence"
    }

    fn about(&self) -> &'static str {
        "The residual of the landmark inverse after every Newton–Schulz step, with the bound that promises it."
    }

    fn needs(&self) -> Needs {
        Needs { trace: true, ..Needs::default() }
    }

    fn ui(&mut self, ui: &mut egui::Ui, context: &mut ViewContext<'_>) {
        plots::page(ui, |ui| {
            let Some(snapshot) = context.snapshot else { return plots::nothing_yet(ui) };
            if snapshot.sees_nothing() {
                return plots::nothing_seen(ui);
            }
            if snapshot.landmarks == 0 {
                let hint = match snapshot.compute.similarity.has_bandwidth() {
                    true => {
                        "These rows are exact: no landmarks, so no matrix to invert. Choose the Nyström road to see \
                         its inverse converge."
                    }
                    false => {
                        "These rows need no landmarks, so there is no matrix to invert. Choose the Laplacian or the \
                         Gaussian kernel and the Nyström road to see its inverse converge."
                    }
                };
                return plots::empty(ui, "Nothing to invert", hint);
            }
            match snapshot.trace.as_deref().map(Vec::as_slice) {
                Some(traces) if !traces.is_empty() => self.show(ui, snapshot, traces),
                _ => plots::empty(
                    ui,
                    "No residuals yet",
                    "The engine repeats the iteration step by step to measure it. They appear with its next answer.",
                ),
            }
        });
    }

    fn tour(&self) -> Vec<TourPage> {
        vec![TourPage {
            title: "Landmarks and Newton–Schulz",
            formula: "Ĝ = C X Cᵀ,  X ≈ A⁻¹,  A = W + ε I,  X ← c (2X − XAX)",
            text: "A few landmark tokens stand in for all: C compares every token with them, W compares them with \
                   each other. Only the small matrix A has to be inverted, and products alone do it. The curve is \
                   the distance of AX from the identity after every step. It creeps at first, then the number of \
                   correct digits doubles with each step. The dashed curve was known before the first step: it \
                   follows from the size of A and from ε. Try a larger ε: fewer steps, and a coarser map. Show the \
                   landmarks on the picture and change their number: a larger matrix starts further away.",
            prepare: |settings: &mut Settings| {
                let compute = &mut settings.compute;
                compute.road = Road::Nystrom;
                compute.similarity = Similarity::Laplacian;
                compute.form = RowForm::None;
                compute.landmarks = LandmarkKind::Strided;
                compute.landmark_side = 7;
                compute.epsilon = Compute::default().epsilon;
                settings.look.show_landmarks = true;
            },
        }]
    }
}

impl Convergence {
    fn show(&mut self, ui: &mut egui::Ui, snapshot: &Snapshot, traces: &[Trace]) {
        let worst = worst(traces);
        let chosen = self.chosen.filter(|head| *head < traces.len()).unwrap_or(worst);
        ui.label(summary(snapshot, traces, worst));
        ui.add_space(6.0);
        let height = (ui.available_height() - 26.0).max(160.0);
        if ui.available_width() >= WIDE {
            ui.horizontal_top(|ui| {
                let width = ui.available_width() - TABLE_WIDTH - ui.spacing().item_spacing.x;
                let size = egui::vec2(width, height);
                ui.allocate_ui(size, |ui| plot(ui, snapshot, traces, chosen, chosen == worst, size));
                ui.allocate_ui(egui::vec2(TABLE_WIDTH, height), |ui| {
                    self.table(ui, snapshot, traces, chosen);
                });
            });
        } else {
            let size = egui::vec2(ui.available_width(), (0.62 * height).max(140.0));
            plot(ui, snapshot, traces, chosen, chosen == worst, size);
            let rest = (height - size.y).max(60.0);
            ui.allocate_ui(egui::vec2(size.x, rest), |ui| self.table(ui, snapshot, traces, chosen));
        }
        let on = traces.first().map_or("", |t| t.device.as_str());
        let note = format!("Residuals measured on {on}, step by step; eigenvalues in f64 on the CPU.");
        ui.label(plots::caption(note));
    }

    fn table(&mut self, ui: &mut egui::Ui, snapshot: &Snapshot, traces: &[Trace], chosen: usize) {
        egui::ScrollArea::both().id_salt("convergence table").auto_shrink([false, true]).show(ui, |ui| {
            let grid = egui::Grid::new("convergence of heads").striped(true).spacing([14.0, 5.0]);
            grid.show(ui, |ui| {
                for (caption, about) in COLUMNS {
                    ui.label(plots::caption(*caption)).on_hover_text(*about);
                }
                ui.end_row();
                for (head, trace) in traces.iter().enumerate() {
                    let name = egui::Button::selectable(chosen == head, (head + 1).to_string());
                    let name = ui.add(name).on_hover_text("Emphasise this head; again for the worst one");
                    if name.clicked() {
                        self.chosen = (self.chosen != Some(head)).then_some(head);
                    }
                    row(ui, trace, snapshot.inverse.get(head));
                    ui.end_row();
                }
            });
        });
    }
}

/// Captions of the table and what they mean.
const COLUMNS: &[(&str, &str)] = &[
    ("Head", "Head of the attention"),
    ("Condition", "Largest over smallest eigenvalue of A: how hard it is to invert"),
    ("Eigenvalues", "Smallest and largest eigenvalue of A"),
    ("Steps", "Steps that the engine took"),
    ("Residual", "‖I − AX‖ (Frobenius norm) of the inverse in use"),
    ("Status", "How the inverse in use was found"),
];

fn row(ui: &mut egui::Ui, trace: &Trace, inverse: Option<&Inverse>) {
    ui.label(number(trace.condition()));
    let (low, high) = trace.eigenvalues;
    ui.label(format!("{} – {}", number(low), number(high)));
    let Some(inverse) = inverse else {
        ui.label("–");
        ui.label(trace.residuals.last().map_or_else(|| "–".into(), |r| number(*r)));
        ui.label(RichText::new("Not reported").weak());
        return;
    };
    ui.label(inverse.steps.to_string());
    ui.label(number(f64::from(inverse.residual)));
    let visuals = ui.visuals();
    let (words, colour, about) = match inverse.code {
        OK => ("Converged", visuals.text_color(), "The iteration reached the accepted residual"),
        BY_CHOLESKY => (
            "Cholesky",
            visuals.warn_fg_color,
            "The iteration fell short; a Cholesky factorisation took over",
        ),
        BY_CHOLESKY_SHIFTED => (
            "Cholesky, 10 ε",
            visuals.warn_fg_color,
            "The iteration fell short; a Cholesky factorisation with 10 ε on the diagonal took over",
        ),
        FAILED => ("Failed", visuals.error_fg_color, "Neither way gave an inverse: increase ε"),
        _ => ("Unknown", visuals.error_fg_color, "The device reported a code that does not exist"),
    };
    ui.label(RichText::new(words).color(colour)).on_hover_text(about);
}

/// The head whose last residual is the largest, one that is not a number above all.
fn worst(traces: &[Trace]) -> usize {
    let last = |trace: &Trace| match trace.residuals.last() {
        Some(r) if r.is_nan() => f64::INFINITY,
        Some(r) => *r,
        None => 0.0,
    };
    let order = |a: &(usize, f64), b: &(usize, f64)| a.1.total_cmp(&b.1);
    traces.iter().map(last).enumerate().max_by(order).map_or(0, |(head, _)| head)
}

fn summary(snapshot: &Snapshot, traces: &[Trace], worst: usize) -> String {
    let m = snapshot.landmarks;
    let hardest = traces.iter().map(Trace::condition).fold(0.0, f64::max);
    let fallen = snapshot.inverse.iter().filter(|i| i.code != OK).count();
    let outcome = match (fallen, snapshot.inverse.len()) {
        (_, 0) => "The engine has not reported its own inverse.".into(),
        (0, 1) => "The head converged.".into(),
        (0, heads) => format!("All {heads} heads converged."),
        (1, 1) => "The head did not converge by itself.".into(),
        (fallen, heads) => format!("{fallen} of {heads} heads did not converge by themselves."),
    };
    let last = traces[worst].residuals.last().map_or_else(|| "–".into(), |r| number(*r));
    format!(
        "{} {} a {m} × {m} matrix per head, with a condition number of up to {}. {outcome} The largest \
         residual is {last}, in head {}.",
        counted(m, "landmark", "landmarks"),
        plural(m, "makes", "make"),
        number(hardest),
        worst + 1
    )
}

/// (step, log₁₀ value) of those that have one.
fn curve(values: &[f64], factor: f64) -> Vec<[f64; 2]> {
    let place = |(step, x): (usize, &f64)| {
        let x = x * factor;
        x.is_finite().then(|| [step as f64, x.max(SMALLEST).log10()])
    };
    values.iter().enumerate().filter_map(place).collect()
}

fn plot(
    ui: &mut egui::Ui,
    snapshot: &Snapshot,
    traces: &[Trace],
    chosen: usize,
    is_worst: bool,
    size: egui::Vec2,
) {
    let visuals = ui.visuals().clone();
    let (main, quiet) = (Series::Main.colour(&visuals), Series::Quiet.colour(&visuals));
    let (other, mark) = (Series::Other.colour(&visuals), visuals.weak_text_color());
    // The bound is on the spectral norm, what is measured is the Frobenius norm.
    let slack = f64::from(snapshot.landmarks).sqrt();
    let bound = curve(&traces[chosen].bound, slack);
    let lines: Vec<Vec<[f64; 2]>> = traces.iter().map(|t| curve(&t.residuals, 1.0)).collect();
    let all = || lines.iter().flatten().map(|p| p[1]);
    // The bound falls far below what single precision reaches; the axis follows the residuals.
    let low = all().fold(ACCEPTED_RESIDUAL.log10(), f64::min).floor() - 0.5;
    let high = all().chain(bound.first().map(|p| p[1])).fold(0.0, f64::max) + 0.3;
    let steps = traces.iter().map(|t| t.residuals.len().saturating_sub(1)).max().unwrap_or(0) as f64;
    let name = format!("Head {}{}", chosen + 1, if is_worst { ", the worst" } else { "" });
    let hover = |position: &HoverPosition<'_>| match position {
        HoverPosition::NearDataPoint { plot_name, position, .. } if !plot_name.is_empty() => {
            Some(format!("{plot_name}\nstep {:.0}\n{}", position.x, number(10f64.powf(position.y))))
        }
        _ => None,
    };
    let decades = plots::even_step(high - low, f64::from(size.y / 30.0)).max(1.0);
    let whole_steps = plots::even_step(steps, f64::from(size.x / 30.0)).max(1.0);
    let steps_axis =
        AxisHints::new_x().label("Step").label_spacing(14.0..=22.0).formatter(|mark: GridMark, _| {
            if mark.value < 0.0 { String::new() } else { format!("{:.0}", mark.value) }
        });
    let residuals_axis = AxisHints::new_y()
        .label("Residual ‖ I − AX ‖")
        .min_thickness(44.0)
        .label_spacing(14.0..=20.0)
        .formatter(|mark: GridMark, _| number(10f64.powf(mark.value.round())));
    let plot = Plot::new("convergence")
        .width(size.x)
        .height(size.y)
        .allow_zoom(false)
        .allow_drag(false)
        .allow_scroll(false)
        .allow_boxed_zoom(false)
        .show_crosshair(false)
        .set_margin_fraction(egui::Vec2::ZERO)
        .default_x_bounds(-0.3, steps + 0.3)
        .default_y_bounds(low, high)
        .custom_x_axes(vec![steps_axis])
        .custom_y_axes(vec![residuals_axis])
        .x_grid_spacer(egui_plot::uniform_grid_spacer(move |_| [whole_steps; 3]))
        .y_grid_spacer(egui_plot::uniform_grid_spacer(move |_| [decades; 3]))
        .grid_fade(0.6)
        .label_formatter(hover)
        .legend(Legend::default().position(Corner::LeftBottom).follow_insertion_order(true));
    plot.show(ui, |plot| {
        // Bounds follow the data: nothing here can be dragged away.
        plot.set_plot_bounds_x(-0.3..=steps + 0.3);
        plot.set_plot_bounds_y(low..=high);
        let points = |line: &Vec<[f64; 2]>| PlotPoints::from(line.clone());
        for (head, line) in lines.iter().enumerate().filter(|(head, _)| *head != chosen) {
            let name = if lines.len() == 2 { format!("Head {}", head + 1) } else { "Other heads".into() };
            plot.line(Line::new(name, points(line)).color(quiet).width(1.5).id(head));
        }
        plot.line(Line::new(name, points(&lines[chosen])).color(main).width(2.5).id("chosen"));
        plot.points(
            Points::new(String::new(), points(&lines[chosen])).color(main).radius(3.5).id("chosen marks"),
        );
        let dashed = LineStyle::Dashed { length: 8.0 };
        plot.line(Line::new("A-priori bound, √m δ", points(&bound)).color(other).style(dashed).width(1.5));
        let accepted = HLine::new("Accepted residual, 0.01", ACCEPTED_RESIDUAL.log10());
        plot.hline(accepted.color(mark).style(LineStyle::Dotted { spacing: 5.0 }).width(1.5));
    });
}
