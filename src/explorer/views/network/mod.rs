//! A network as a view of its own: one node's row of three masks side by side — heat, random walk, shortest path — with terms, bounds and
//! figures, and the differential equation that heat solves stepped through time beside its kernel.
//!
//! `found` works everything out on a thread of its own, `stage` draws nodes and edges and takes the pointer, `plot` shows errors by steps.

mod found;
mod plot;
pub(super) mod stage;

#[cfg(test)]
pub(in crate::explorer) use found::rows_of;

use super::edges;
use super::picture::{bar_of, caption, note};
use super::plots;
use super::{TourPage, View, ViewContext};
use crate::explorer::background::Background;
use crate::explorer::command::{self, Copied, Input};
use crate::explorer::document::Document;
use crate::explorer::keys::Own;
use crate::explorer::networks::{Loader, NetworkSettings, Shape, Source, limits};
use crate::explorer::settings::Settings;
use crate::explorer::widgets::{self, Choice, Number};
use crate::numbers::{grouped, seconds, significant};
use crate::topology::Laplacian;
use eframe::egui::{self, Pos2, Rect, Vec2, pos2, vec2};
use found::{Finder, Found, Question};
use stage::{Deed, Stage};
use std::path::Path;
use std::sync::Arc;

/// A part of the view where there is no room for all of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Part {
    #[default]
    Heat,
    Walk,
    Path,
    Steps,
    Figures,
}

/// The three panels: name, formula, part, what it is.
const PANELS: [(&str, &str, Part); 3] = [
    ("Heat", "exp(−tL)", Part::Heat),
    ("Random walk", "cosine of expected visits", Part::Walk),
    ("Shortest path", "exp(−λ · steps)", Part::Path),
];

/// Least size of the view that has room for all of it at once.
const ROOMY: Vec2 = vec2(720.0, 470.0);

/// Space between two parts.
const GAP: f32 = 4.0;

/// The view.
#[derive(Debug)]
pub(super) struct NetworkView {
    part: Part,
    work: Background<Question, Found>,
    stage: Stage,
    /// Grows when files are to be read again.
    generation: u64,
    /// What is laid out: another network is shown whole.
    laid: Option<(Source, u32, bool)>,
}

impl NetworkView {
    /// Networks come from the loader, which other views may share.
    pub(super) fn new(loader: Arc<Loader>) -> Self {
        let mut finder = Finder::new(loader);
        Self {
            part: Part::default(),
            work: Background::new(Box::new(move |question, go_on| finder.answer(question, go_on))),
            stage: Stage::default(),
            generation: 0,
            laid: None,
        }
    }
}

impl View for NetworkView {
    fn id(&self) -> &'static str {
        "network"
    }

    fn title(&self) -> &'static str {
        "Network"
    }

    fn about(&self) -> &'static str {
        "A graph of its own: one node's row of heat, random-walk and shortest-path masks side by side, with terms and bounds."
    }

    fn has_controls(&self) -> bool {
        true
    }

    fn controls(&mut self, ui: &mut egui::Ui, context: &mut ViewContext<'_>) {
        source(ui, &mut context.settings.networks.network);
        let found = self.work.shown().filter(|_| self.work.failure().is_none());
        let settings = &mut context.settings.networks.network;
        if found.is_some_and(|found| found.plan.given) {
            let hover = "Sets the file's own coordinates aside and lets forces find places.";
            if widgets::switch(ui, "Places by forces", hover, &mut settings.arrange) {
                settings.moved.clear();
            }
        }
        let moved = !settings.moved.is_empty();
        ui.horizontal(|ui| {
            let back = ui.add_enabled(moved, egui::Button::new("Put nodes back"));
            if back.on_hover_text("Takes every node that was dragged back to its place").clicked() {
                settings.moved.clear();
            }
            let fit = ui.add_enabled(!self.stage.fits(), egui::Button::new("Show all"));
            if fit.on_hover_text("Shows all of the network; so does a double click beside it").clicked() {
                self.stage.fit();
            }
        });
        ui.add_space(4.0);
        ui.strong("Heat");
        time(ui, &mut settings.time, NetworkSettings::default().time, 0.01..=1000.0);
        laplacian(ui, &mut settings.laplacian);
        tolerance(ui, &mut settings.tolerance, NetworkSettings::default().tolerance);
        ui.add_space(4.0);
        ui.strong("Random walk");
        let nodes = Number::along(1.0..=16.0, 6.0).limits(1.0..=f64::from(*limits::WALK.end())).whole();
        widgets::slider(ui, "Walk nodes", "Nodes of a walk, the start counted.", &mut settings.walk, &nodes);
        let discount = Number::along(limits::DISCOUNT, 0.8);
        let hover = "Weight of every further step; 1 weighs all alike.";
        widgets::slider(ui, "Discount", hover, &mut settings.discount, &discount);
        ui.add_space(4.0);
        ui.strong("Shortest path");
        let rate = Number::along(0.01..=10.0, 0.5).logarithmic().limits(limits::RATE);
        widgets::slider(ui, "Rate λ", "How fast weights fall with every step.", &mut settings.rate, &rate);
        ui.add_space(4.0);
        ui.strong("Differential equation");
        let steps = Number::along(1.0..=256.0, 8.0).logarithmic().limits(1.0..=1024.0).whole();
        let hover =
            "Steps through time of dx/dt = −L x, to compare with the kernel: not the production path.";
        widgets::slider(ui, "Time steps", hover, &mut settings.steps, &steps);
    }

    fn is_busy(&self) -> bool {
        self.work.is_busy()
    }

    fn command(&self, document: &Document, _: &Result<Input, String>) -> Option<Result<Copied, String>> {
        Some(match self.settled() {
            Ok(found) => command::network_commands(document, &found.plan),
            Err(why) => Err(why),
        })
    }

    fn reload(&mut self) {
        self.generation += 1;
    }

    fn ui(&mut self, ui: &mut egui::Ui, context: &mut ViewContext<'_>) {
        let space = ui.available_rect_before_wrap();
        ui.allocate_rect(space, egui::Sense::hover());
        ui.painter().rect_filled(space, 0.0, ui.visuals().extreme_bg_color);
        keys(ui, &mut context.settings.networks.network.time);
        // Dragged nodes change no numbers.
        let asked = NetworkSettings { moved: Vec::new(), ..context.settings.networks.network.clone() };
        self.work.ask(ui.ctx(), (asked, self.generation));
        if let Some(why) = self.work.failure() {
            let words = match &context.settings.networks.network.source {
                Source::File(_) => {
                    format!("{why}\n\nChoose another source in the panel, or drop a file here.")
                }
                Source::Built(_) => why.to_string(),
            };
            return note(ui, space, &words);
        }
        let Some(found) = self.work.shown().cloned() else {
            return note(ui, space, "Laying the network out…");
        };
        let laid = &context.settings.networks.network;
        let laid = (laid.source.clone(), laid.nodes, laid.arrange);
        if self.laid.as_ref() != Some(&laid) {
            if self.laid.is_some() {
                self.stage.fit();
            }
            self.laid = Some(laid);
        }
        match space.size().min(ROOMY) == ROOMY {
            true => self.everything(ui, context, &found, space),
            false => self.one_part(ui, context, &found, space),
        }
    }

    fn tour(&self) -> Vec<TourPage> {
        vec![TourPage {
            title: "Masks of a graph",
            formula: "M = exp(−tL),  L = D − A",
            text: "Where things are joined by edges, the edges can say who looks at whom. Three masks of the same graph, each as \
                   the row of the node with the ring; click another node, or drag one.\n\n\
                   Heat spreads from the node for a time t, along all ways at once. It is never computed as a matrix: a \
                   series of K products with L reaches any accuracy, and the line under the panel tells K and what the terms \
                   left out add up to. Walks compare where walkers from two nodes are likely to come. Shortest paths count \
                   steps alone, and a single short cut changes them.\n\n\
                   The curve below steps through the same heat as a differential equation. Twice as many steps halve the \
                   error of backward Euler and quarter that of Crank–Nicolson; the series needs neither.",
            prepare: |settings: &mut Settings| {
                let kept = settings.networks.network.source.clone();
                settings.networks.network = NetworkSettings { source: kept, ..NetworkSettings::default() };
            },
        }]
    }
}

/// [ and ] make t shorter and longer.
pub(super) fn keys(ui: &egui::Ui, value: &mut f64) {
    if ui.ctx().text_edit_focused() {
        return;
    }
    if Own::Less.pressed(ui.ctx()) {
        *value = (*value / 1.25).max(1e-3);
    }
    if Own::More.pressed(ui.ctx()) {
        *value = (*value * 1.25).clamp(1e-3, *limits::TIME.end());
    }
}

/// The slider of a diffusion's time.
pub(super) fn time(ui: &mut egui::Ui, time: &mut f64, usual: f64, rail: std::ops::RangeInclusive<f64>) {
    let number = Number::along(rail, usual).logarithmic().limits(limits::TIME);
    widgets::slider(ui, "Time t", "How long heat spreads; [ and ] change it too.", time, &number);
}

/// The choice of a Laplacian.
pub(super) fn laplacian(ui: &mut egui::Ui, laplacian: &mut Laplacian) {
    let choices = [
        Choice::new(Laplacian::Combinatorial, "D − A", "Combinatorial: heavy nodes give and take faster."),
        Choice::new(Laplacian::Symmetric, "Symmetric", "I − D^−½ A D^−½: all nodes at one pace."),
        Choice::new(
            Laplacian::RandomWalk,
            "Walk",
            "I − D⁻¹ A: a walker who steps at random times; rows sum to 1.",
        ),
    ];
    widgets::segments(ui, "Laplacian", "Which matrix diffuses.", laplacian, &choices);
}

/// The slider of a series' tolerance.
pub(super) fn tolerance(ui: &mut egui::Ui, tolerance: &mut f64, usual: f64) {
    let number = Number::along(1e-10..=1e-1, usual).logarithmic().limits(limits::TOLERANCE);
    let hover = "What the terms left out of the series may add up to: more terms for less.";
    widgets::slider(ui, "Tolerance", hover, tolerance, &number);
}

/// Where the network comes from.
pub(super) fn source(ui: &mut egui::Ui, settings: &mut NetworkSettings) {
    let named = |path: &str| {
        Path::new(path).file_name().map_or_else(|| path.to_string(), |n| n.to_string_lossy().into_owned())
    };
    let mut choices: Vec<Choice<Source>> = Shape::ALL
        .into_iter()
        .map(|(shape, name, about)| Choice::new(Source::Built(shape), name, about))
        .collect();
    if let Source::File(path) = &settings.source {
        choices.insert(0, Choice::new(settings.source.clone(), named(path), path.as_str()));
    }
    let hover = "A built-in network, or a file: File ▸ Open network…, or drop one here (edge list, Matrix Market, GraphML, OBJ).";
    if widgets::choice(ui, "Source", hover, &mut settings.source, &choices, "") {
        (settings.moved, settings.query) = (Vec::new(), 0);
    }
    if let Source::Built(_) = settings.source {
        let number = Number::along(2.0..=1000.0, NetworkSettings::default().nodes.into()).logarithmic();
        let number = number.limits(1.0..=f64::from(*limits::NODES.end())).whole();
        if widgets::slider(ui, "Nodes", "About how many nodes it has.", &mut settings.nodes, &number) {
            settings.moved.clear();
        }
    }
}

/// A part of the view to draw widgets into, which cannot reach beyond it.
pub(super) fn child(ui: &mut egui::Ui, space: Rect) -> egui::Ui {
    let mut inside = ui.new_child(egui::UiBuilder::new().max_rect(space));
    inside.set_clip_rect(space.intersect(ui.clip_rect()));
    inside
}

/// Column `i` of `count` equal ones.
pub(super) fn column(space: Rect, i: usize, count: usize) -> Rect {
    let width = (space.width() - GAP * (count as f32 - 1.0)) / count as f32;
    let left = space.left() + (width + GAP) * i as f32;
    Rect::from_min_size(pos2(left, space.top()), vec2(width.max(0.0), space.height()))
}

/// Buttons for parts where there is no room for all; what is left below them.
pub(super) fn tabs<T: PartialEq + Copy>(
    ui: &mut egui::Ui,
    space: Rect,
    part: &mut T,
    parts: &[(T, &str)],
) -> Rect {
    let bar = space.with_max_y((space.top() + 30.0).min(space.bottom()));
    ui.painter().rect_filled(bar, 0.0, ui.visuals().panel_fill);
    child(ui, bar.shrink2(vec2(8.0, 3.0))).horizontal(|ui| {
        for (value, name) in parts {
            ui.selectable_value(part, *value, *name);
        }
    });
    space.with_min_y(bar.bottom())
}

impl NetworkView {
    /// What is in sight, where it is that of the present settings.
    ///
    /// Errors: why there is none, to go behind a colon.
    fn settled(&self) -> Result<&Arc<Found>, String> {
        if let Some(why) = self.work.failure() {
            return Err(why.into());
        }
        let found = self.work.shown().filter(|_| !self.work.is_busy());
        found.ok_or_else(|| "the network is on its way still: try again".into())
    }

    /// Panels above, figures and steps through time below.
    fn everything(
        &mut self,
        ui: &mut egui::Ui,
        context: &mut ViewContext<'_>,
        found: &Arc<Found>,
        space: Rect,
    ) {
        let height = (0.34 * space.height()).clamp(150.0, 250.0);
        let (above, below) = space.split_top_bottom_at_y(space.bottom() - height);
        let above = above.with_max_y(above.bottom() - GAP);
        for i in 0..PANELS.len() {
            self.panel(ui, context, found, i, column(above, i, PANELS.len()));
        }
        // Lines between the panels.
        for i in 1..PANELS.len() {
            let x = column(above, i, PANELS.len()).left() - 0.5 * GAP;
            ui.painter().vline(x, above.y_range(), ui.visuals().widgets.noninteractive.bg_stroke);
        }
        ui.painter().rect_filled(below, 0.0, ui.visuals().panel_fill);
        ui.painter().hline(below.x_range(), below.top(), ui.visuals().widgets.noninteractive.bg_stroke);
        let (left, right) = below.split_left_right_at_fraction(0.46);
        figures(&mut child(ui, left.shrink2(vec2(12.0, 10.0))), context, found);
        plot::show(
            &mut child(ui, right.shrink2(vec2(12.0, 8.0))),
            &context.settings.networks.network,
            &found.steps,
        );
    }

    /// One part, and buttons for the others.
    fn one_part(
        &mut self,
        ui: &mut egui::Ui,
        context: &mut ViewContext<'_>,
        found: &Arc<Found>,
        space: Rect,
    ) {
        let parts = [
            (Part::Heat, "Heat"),
            (Part::Walk, "Walk"),
            (Part::Path, "Path"),
            (Part::Steps, "Steps"),
            (Part::Figures, "Figures"),
        ];
        let rest = tabs(ui, space, &mut self.part, &parts);
        if let Some(panel) = PANELS.iter().position(|(.., part)| *part == self.part) {
            return self.panel(ui, context, found, panel, rest);
        }
        ui.painter().rect_filled(rest, 0.0, ui.visuals().panel_fill);
        let mut inside = child(ui, rest.shrink(10.0));
        match self.part {
            Part::Steps => plot::show(&mut inside, &context.settings.networks.network, &found.steps),
            _ => {
                let area = egui::ScrollArea::vertical().auto_shrink([false, false]);
                area.show(&mut inside, |ui| figures(ui, context, found));
            }
        }
    }

    fn panel(
        &mut self,
        ui: &mut egui::Ui,
        context: &mut ViewContext<'_>,
        found: &Arc<Found>,
        which: usize,
        space: Rect,
    ) {
        let (name, formula, _) = PANELS[which];
        let settings = &mut context.settings.networks.network;
        let plan = &found.plan;
        let id = ui.scope_id().with(("network", which));
        let places: Vec<Pos2> = stage::places(plan, &settings.moved);
        let (lens, hovered, deed) = self.stage.take(ui, id, space, &places);
        match deed {
            Some(Deed::Chosen(node)) => settings.query = node,
            Some(Deed::Moved(node, place)) => match settings.moved.binary_search_by_key(&node, |m| m.0) {
                Ok(at) => settings.moved[at].1 = place,
                Err(at) => settings.moved.insert(at, (node, place)),
            },
            None => {}
        }
        let query = settings.query.min((places.len() as u32).saturating_sub(1));
        let painter = ui.painter_at(space);
        context.canvas.pictures.push(space);
        context.canvas.texts.push(caption(ui, space, &format!("{name}   {formula}")));
        let weights = match &found.rows[which].weights {
            Ok(weights) => weights,
            Err(why) => return note(ui, space.shrink2(vec2(8.0, 40.0)), why),
        };
        let look = &context.settings.look;
        let (colours, log) = (edges::colours(look), look.log);
        let largest = weights.iter().copied().fold(0.0, f64::max);
        let colour = |i: usize| {
            let place = edges::place(weights.get(i).copied().unwrap_or(0.0), largest, log);
            place.map(|place| colours.at(place))
        };
        stage::draw(ui, &painter, (plan, &places, lens), colour, query);
        let ends = [significant(edges::least(largest, log), 2), significant(largest, 2)];
        let middle = if log { "log scale" } else { "weight" };
        context.canvas.texts.extend(bar_of(&painter, |t| colours.at(t), ends, middle));
        if let Some(node) = hovered.filter(|_| !ui.input(|i| i.pointer.any_down())) {
            let weight =
                |row: &found::Row| row.weights.as_ref().ok().and_then(|w| w.get(node as usize).copied());
            let weights: Vec<(&str, Option<f64>)> =
                PANELS.iter().zip(&found.rows).map(|((name, ..), row)| (*name, weight(row))).collect();
            stage::tell(ui, id, plan, node, &weights);
        }
    }
}

/// Figures of the network and of the rows.
fn figures(ui: &mut egui::Ui, context: &ViewContext<'_>, found: &Found) {
    let settings = &context.settings.networks.network;
    let s = &found.plan.statistics;
    plots::figures(ui, |ui| {
        plots::figure(ui, "Nodes", grouped(s.nodes as f64));
        let edges = if s.undirected { "Edges" } else { "Edges, one way" };
        plots::figure(ui, edges, grouped(s.edges as f64));
        let parts = plots::figure(ui, "Components", grouped(s.components as f64));
        parts.on_hover_text(format!(
            "{} without any edge",
            crate::words::counted(s.isolated, "node", "nodes")
        ));
        let (least, mean, most) = s.degree;
        plots::figure(ui, "Degree", format!("{least}…{most}, mean {}", significant(mean, 3)))
            .on_hover_text("Edges of a node: fewest, most, and on average");
        let (low, high) = s.diameter;
        let diameter = if low == high { low.to_string() } else { format!("{low} to {high}") };
        plots::figure(ui, "Diameter", diameter).on_hover_text("Steps between the two nodes farthest apart");
        if let Some(facts) = &found.heat {
            plots::figure(ui, "Chebyshev terms K", grouped(facts.terms as f64))
                .on_hover_text("Products with the Laplacian that exp(−tL) takes");
            plots::figure(ui, "Error bound", format!("≤ {}", error(facts.rest)))
                .on_hover_text("What the terms left out of the series add up to at most");
            plots::figure(ui, "Eigenvalues up to", significant(facts.bound, 3))
                .on_hover_text("A bound from the degrees alone");
        }
        for ((name, ..), row) in PANELS.iter().zip(&found.rows) {
            plots::figure(ui, &format!("{name}, time"), seconds(row.took.as_secs_f64()))
                .on_hover_text("Time for the query's row, in f64 on the CPU");
        }
    });
    ui.add_space(4.0);
    let words = match (s.undirected, s.components > 1) {
        (false, _) => "Heat takes every edge both ways; walks and paths follow its direction.",
        (true, true) => "Nothing crosses from one component to another: rings are weights of 0.",
        (true, false) => "Click a node for its row, drag one to move it, drag beside them to move all.",
    };
    ui.add(egui::Label::new(plots::caption(words)).wrap());
    if settings.query != found.query {
        ui.add(egui::Label::new(plots::caption("The row is on its way…")).wrap());
    }
}

/// A small number as people write errors.
pub(super) fn error(x: f64) -> String {
    if x == 0.0 { "10⁻¹⁶".into() } else { significant(x, 2) }
}
