//! A spanning tree and masks by distance along it: over the picture or over a network, the query's row, and the two sweeps that find all
//! rows in linear time, part by part.
//!
//! `found` grows the tree on a thread of its own and knows the sweeps.

mod found;

#[cfg(test)]
pub(in crate::explorer) use found::over_network as grown_over;

use super::edges::{self, Cells, Lines};
use super::network::stage::{self, Deed, Lens, Stage};
use super::network::{child, column, source, tabs};
use super::picture::{bar_of, caption, grid_rect, note, shot, show_layer_in};
use super::plots::{self, Series};
use super::{TourPage, View, ViewContext};
use crate::explorer::background::Background;
use crate::explorer::canvas::{Drag, Placed, WHOLE};
use crate::explorer::command::{self, Copied, Input};
use crate::explorer::document::Document;
use crate::explorer::keys::Own;
use crate::explorer::networks::{Loader, NetworkSettings, SweepBy, TreeOf, TreeSettings, limits};
use crate::explorer::settings::Settings;
use crate::explorer::tokens::{self, Shot};
use crate::explorer::widgets::{self, Choice, Number};
use crate::numbers::{grouped, significant};
use eframe::egui::{self, Color32, Pos2, Rect, Vec2, vec2};
use found::{Finder, Found, Ground, Parts, Question};
use std::sync::Arc;
use std::time::Duration;

/// A part of the view where there is no room for both.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Part {
    #[default]
    Sweep,
    Row,
}

/// Least width of the view that has room for both pictures.
const ROOMY: f32 = 620.0;

/// How long a sweep that plays takes at most, in seconds.
const WHOLE_SWEEP: f64 = 8.0;

/// Most edges that are drawn at once.
const MOST_EDGES: usize = 40_000;

/// The view.
#[derive(Debug)]
pub(super) struct TreeView {
    part: Part,
    work: Background<Question, Found>,
    stage: Stage,
    generation: u64,
    /// Parts of the sweeps that are done; `None` = all.
    step: Option<u32>,
    /// When the next part is due, while it plays.
    due: Option<f64>,
    cells: [Cells; 2],
}

impl TreeView {
    /// Networks come from the loader, which other views may share.
    pub(super) fn new(loader: Arc<Loader>) -> Self {
        let mut finder = Finder::new(loader);
        Self {
            part: Part::default(),
            work: Background::new(Box::new(move |asked, go_on| finder.answer(asked, go_on))),
            stage: Stage::default(),
            generation: 0,
            step: None,
            due: None,
            cells: Default::default(),
        }
    }
}

impl View for TreeView {
    fn id(&self) -> &'static str {
        "tree"
    }

    fn title(&self) -> &'static str {
        "Tree"
    }

    fn about(&self) -> &'static str {
        "A spanning tree over the picture or a network, the mask by distance along it, and its two sweeps part by part."
    }

    fn has_controls(&self) -> bool {
        true
    }

    fn controls(&mut self, ui: &mut egui::Ui, context: &mut ViewContext<'_>) {
        let networks = &mut context.settings.networks;
        let tree = &mut networks.tree;
        let of = [
            Choice::new(
                TreeOf::Picture,
                "Picture",
                "Tokens of the picture, along the least differences of colour.",
            ),
            Choice::new(
                TreeOf::Network,
                "Network",
                "The network of the view of networks, along its strongest edges.",
            ),
        ];
        if widgets::segments(ui, "Spans", "What the tree spans.", &mut tree.of, &of) {
            self.stage.fit();
        }
        let rate =
            Number::along(0.001..=10.0, TreeSettings::default().rate).logarithmic().limits(limits::RATE);
        let hover = "How fast weights fall with the distance along the tree; [ and ] change it too.";
        widgets::slider(ui, "Rate λ", hover, &mut tree.rate, &rate);
        match tree.of {
            TreeOf::Picture => {
                let usual = TreeSettings::default().sensitivity;
                let number = Number::along(0.0..=100.0, usual).limits(limits::SENSITIVITY);
                let hover = "Length that the difference of black and white adds to an edge; tokens side by side are 1 apart.";
                widgets::slider(ui, "Sensitivity", hover, &mut tree.sensitivity, &number);
                let hover = "Tokens that touch at a corner may be joined, too.";
                widgets::switch(ui, "Corners", hover, &mut tree.corners);
            }
            TreeOf::Network => source(ui, &mut networks.network),
        }
        let by = [
            Choice::new(
                SweepBy::HeavyPaths,
                "Heavy paths",
                "Few parts whatever the tree: paths are scanned whole.",
            ),
            Choice::new(SweepBy::Levels, "Levels", "A part per level: as many as the tree is high."),
        ];
        let hover = "In which parts the sweeps are shown; heavy paths are how they run on a device.";
        widgets::segments(ui, "Parts", hover, &mut networks.tree.by, &by);
    }

    fn is_busy(&self) -> bool {
        self.work.is_busy()
    }

    fn command(&self, document: &Document, input: &Result<Input, String>) -> Option<Result<Copied, String>> {
        if document.settings.networks.tree.of == TreeOf::Picture {
            return Some(input.clone().and_then(|input| command::tree_command(document, &input)));
        }
        let found = self.work.shown().filter(|_| !self.work.is_busy());
        Some(match (self.work.failure(), found.and_then(|found| found.trunk.plan.as_ref())) {
            (Some(why), _) => Err(why.into()),
            (None, Some(plan)) => command::network_tree_command(document, plan),
            (None, None) => Err("the tree is on its way still: try again".into()),
        })
    }

    fn reload(&mut self) {
        self.generation += 1;
    }

    fn ui(&mut self, ui: &mut egui::Ui, context: &mut ViewContext<'_>) {
        let space = ui.available_rect_before_wrap();
        ui.allocate_rect(space, egui::Sense::hover());
        ui.painter().rect_filled(space, 0.0, ui.visuals().extreme_bg_color);
        let settings = &context.settings.networks;
        let (ground, query) = match settings.tree.of {
            TreeOf::Picture => match shot(context) {
                None => return note(ui, space, "No picture yet. Open one with Ctrl+O, or drop a file here."),
                Some(Err(why)) => return note(ui, space, &why),
                Some(Ok(shot)) => {
                    let token = shot.grid.token_at(*context.query).unwrap_or(0) as u32;
                    (Ground::Picture(shot), token)
                }
            },
            TreeOf::Network => {
                let network = &settings.network;
                // What is not of the tree does not grow it again.
                let asked = NetworkSettings {
                    source: network.source.clone(),
                    nodes: network.nodes,
                    arrange: network.arrange,
                    ..NetworkSettings::default()
                };
                (Ground::Network(asked), network.query)
            }
        };
        let settings = settings.tree.clone();
        self.work
            .ask(ui.ctx(), Question { ground: ground.clone(), settings, query, generation: self.generation });
        if let Some(why) = self.work.failure() {
            return note(ui, space, why);
        }
        let fits = |found: &&Arc<Found>| match (&found.ground, &ground) {
            (Ground::Picture(a), Ground::Picture(b)) => a.grid == b.grid,
            (Ground::Network(_), Ground::Network(_)) => true,
            _ => false,
        };
        let Some(found) = self.work.shown().filter(fits).cloned() else {
            return note(ui, space, "Growing the tree…");
        };
        let parts = Parts { trunk: &found.trunk, by: context.settings.networks.tree.by };
        self.keys(ui, context, &parts);
        self.play(ui, &parts);
        let bar = if space.width() < ROOMY { 58.0 } else { 34.0 };
        let (top, rest) = space.split_top_bottom_at_y((space.top() + bar).min(space.bottom()));
        ui.painter().rect_filled(top, 0.0, ui.visuals().panel_fill);
        self.toolbar(&mut child(ui, top.shrink2(vec2(8.0, 4.0))), &parts);
        let tall = rest.height() > 200.0;
        let foot = if tall { 44.0 } else { 0.0 };
        let (rest, foot) = rest.split_top_bottom_at_y(rest.bottom() - foot);
        if tall {
            ui.painter().rect_filled(foot, 0.0, ui.visuals().panel_fill);
            facts(&mut child(ui, foot.shrink2(vec2(10.0, 5.0))), &found);
        }
        if rest.width() >= ROOMY {
            self.panel(ui, context, &found, Part::Sweep, column(rest, 0, 2));
            self.panel(ui, context, &found, Part::Row, column(rest, 1, 2));
        } else {
            let rest = tabs(ui, rest, &mut self.part, &[(Part::Sweep, "Sweep"), (Part::Row, "Row")]);
            self.panel(ui, context, &found, self.part, rest);
        }
    }

    fn tour(&self) -> Vec<TourPage> {
        vec![TourPage {
            title: "Masks along a tree",
            formula: "Mᵢⱼ = exp(−λ · dist(i, j))",
            text: "The lines join the tokens of the picture to a tree, always along the least differences of colour. Between any two \
                   tokens there is one way, and the mask falls with its length: the row of the clicked token stays within what \
                   looks alike.\n\n\
                   All rows together take two sweeps. Upwards every node sums what lies below it, downwards it learns what lies \
                   elsewhere. Press Play to see both, part by part. A long tree has many levels, but heavy paths, each scanned \
                   as a whole, make few parts of any tree.",
            prepare: |settings: &mut Settings| settings.networks.tree = TreeSettings::default(),
        }]
    }
}

impl TreeView {
    /// Goes to a part of the sweeps; the last one is the same as all.
    fn go(&mut self, step: u32, parts: &Parts<'_>) {
        self.step = (step < parts.count()).then_some(step);
    }

    fn at(&self, parts: &Parts<'_>) -> u32 {
        self.step.unwrap_or(u32::MAX).min(parts.count())
    }

    fn keys(&mut self, ui: &egui::Ui, context: &mut ViewContext<'_>, parts: &Parts<'_>) {
        super::network::keys(ui, &mut context.settings.networks.tree.rate);
        let rate = &mut context.settings.networks.tree.rate;
        *rate = rate.min(*limits::RATE.end());
        if ui.ctx().text_edit_focused() {
            return;
        }
        if Own::Play.pressed(ui.ctx()) {
            self.toggle(ui, parts);
        }
        if Own::PartBack.pressed(ui.ctx()) {
            (self.step, self.due) = (Some(self.at(parts).saturating_sub(1)), None);
        }
        if Own::PartOn.pressed(ui.ctx()) {
            self.due = None;
            self.go(self.at(parts) + 1, parts);
        }
    }

    fn toggle(&mut self, ui: &egui::Ui, parts: &Parts<'_>) {
        self.due = match self.due {
            Some(_) => None,
            None => {
                if self.at(parts) == parts.count() {
                    self.step = Some(0);
                }
                Some(ui.input(|i| i.time) + pace(parts))
            }
        };
        ui.ctx().request_repaint();
    }

    fn play(&mut self, ui: &egui::Ui, parts: &Parts<'_>) {
        let (Some(due), now) = (self.due, ui.input(|i| i.time)) else { return };
        let pace = pace(parts);
        if now >= due {
            // Slow frames skip parts rather than to make the sweep longer.
            let behind = ((now - due) / pace).floor().min(1e6);
            self.go(self.at(parts) + 1 + behind as u32, parts);
            self.due = self.step.map(|_| due + pace * (1.0 + behind));
        }
        ui.ctx().request_repaint_after(Duration::from_secs_f64(pace.min(0.05)));
    }

    fn toolbar(&mut self, ui: &mut egui::Ui, parts: &Parts<'_>) {
        let (count, mut step) = (parts.count(), self.at(parts));
        ui.horizontal_wrapped(|ui| {
            ui.spacing_mut().item_spacing.x = 4.0;
            let back = ui.add_enabled(step > 0, egui::Button::new("Back"));
            if back.on_hover_text("A part back (J)").clicked() {
                (self.step, self.due) = (Some(step.saturating_sub(1)), None);
            }
            let name = if self.due.is_some() { "Pause" } else { "Play" };
            let play = ui.add_enabled(count > 0, egui::Button::new(name).min_size(vec2(48.0, 0.0)));
            if play.on_hover_text("Runs both sweeps part by part (P)").clicked() {
                self.toggle(ui, parts);
            }
            let on = ui.add_enabled(step < count, egui::Button::new("Step"));
            if on.on_hover_text("A part on (K)").clicked() {
                self.due = None;
                self.go(step + 1, parts);
            }
            ui.spacing_mut().slider_width = (ui.available_width() * 0.3).clamp(60.0, 220.0);
            let slider = egui::Slider::new(&mut step, 0..=count.max(1)).show_value(false);
            let slider = ui.add_enabled(count > 0, slider);
            slider.widget_info(|| egui::WidgetInfo::slider(true, f64::from(step), "Part of the sweeps"));
            if slider.on_hover_text("Parts of the sweeps that are done").changed() {
                self.due = None;
                self.go(step, parts);
            }
            ui.add(egui::Label::new(parts.words(self.at(parts))).truncate());
        });
    }

    fn panel(
        &mut self,
        ui: &mut egui::Ui,
        context: &mut ViewContext<'_>,
        found: &Arc<Found>,
        part: Part,
        space: Rect,
    ) {
        let parts = Parts { trunk: &found.trunk, by: context.settings.networks.tree.by };
        let step = if part == Part::Sweep { self.at(&parts) } else { parts.count() };
        let look = context.settings.look.clone();
        let (colours, log) = (edges::colours(&look), look.log);
        let value = |node: usize| parts.value(found, node, step);
        let colour = |node: usize| edges::place(value(node), 1.0, log).map(|place| colours.at(place));
        let id = ui.scope_id().with(("tree", part == Part::Row));
        let painter = ui.painter_at(space);
        let works = |child: u32, parent: u32| {
            part == Part::Sweep && parts.works(child as usize, parent as usize, step)
        };
        match (&found.ground, &found.trunk.plan) {
            (Ground::Picture(shot), _) => {
                let Some(placed) = show_layer_in(ui, context, id, &[], Drag::Pan, space) else { return };
                if context.canvas.peek {
                    return;
                }
                let key = (found.number << 24)
                    ^ (u64::from(step) << 2)
                    ^ (u64::from(log) << 1)
                    ^ u64::from(colours == widgets::BarColours::Grey);
                let cells = &mut self.cells[usize::from(part == Part::Row)];
                let name = if part == Part::Row { "tree row" } else { "tree sweep" };
                let texture = cells.texture(ui.ctx(), name, shot.sides(), (key, look.smooth), || {
                    let dark = colours.at(0.0);
                    (0..shot.grid.tokens()).map(|i| colour(i).unwrap_or(dark)).collect()
                });
                let tint = Color32::from_white_alpha((look.opacity.clamp(0.0, 1.0) * 255.0).round() as u8);
                let inside = painter.with_clip_rect(space.intersect(placed.rect));
                inside.image(texture, grid_rect(&shot.grid, &placed), WHOLE, tint);
                over_picture(ui, &inside, (shot, &placed), found, works, part == Part::Sweep);
                super::picture::draw_marker(&painter, context, &placed);
            }
            (Ground::Network(_), Some(plan)) => {
                let settings = &mut context.settings.networks.network;
                let places: Vec<Pos2> = stage::places(plan, &settings.moved);
                let (lens, hovered, deed) = self.stage.take(ui, id, space, &places);
                if let Some(Deed::Chosen(node)) = deed {
                    settings.query = node;
                }
                let query = settings.query.min((places.len() as u32).saturating_sub(1));
                context.canvas.pictures.push(space);
                over_network(ui, &painter, (&places, lens), found, works, colour);
                if let Some(place) = places.get(query as usize) {
                    super::picture::draw_query(&painter, lens.to_screen(*place));
                }
                if let Some(node) = hovered.filter(|_| !ui.input(|i| i.pointer.any_down())) {
                    let weight = found.row.get(node as usize).copied();
                    stage::tell(ui, id, plan, node, &[("Row", weight), ("Now", Some(value(node as usize)))]);
                }
            }
            (Ground::Network(_), None) => {}
        }
        let name = match part {
            Part::Row => "Row   exp(−λ · distance)".to_string(),
            Part::Sweep => format!("Sweep   {step} of {}", parts.count()),
        };
        context.canvas.texts.push(caption(ui, space, &name));
        let ends = [significant(edges::least(1.0, log), 2), "1".into()];
        let middle = if log { "log scale" } else { "weight" };
        context.canvas.texts.extend(bar_of(&painter, |t| colours.at(t), ends, middle));
    }
}

/// Seconds per part while the sweeps play.
fn pace(parts: &Parts<'_>) -> f64 {
    (WHOLE_SWEEP / f64::from(parts.count().max(1))).clamp(0.02, 0.6)
}

/// Edges over the picture, the root, and those that are worked on.
fn over_picture(
    ui: &egui::Ui,
    painter: &egui::Painter,
    (shot, placed): (&Shot, &Placed),
    found: &Found,
    works: impl Fn(u32, u32) -> bool,
    strong: bool,
) {
    let side = tokens::side_on_screen(&shot.grid, placed);
    let seen = painter.clip_rect().expand(2.0 * side);
    let share = (seen.intersect(placed.rect).area() / placed.rect.area().max(1.0)).clamp(0.0, 1.0);
    let many = found.row.len() as f32 * share > MOST_EDGES as f32;
    let busy = Series::Other.colour(ui.visuals());
    let width = (0.12 * side).clamp(0.8, 2.5);
    let (mut under, mut over, mut active) = (Lines::default(), Lines::default(), Lines::default());
    for (child, parent, _) in found.trunk.forest.edges() {
        let now = works(child, parent);
        if many && !now {
            continue;
        }
        let ends = [child, parent].map(|node| tokens::on_screen(&shot.grid, placed, node));
        if !seen.contains(ends[0]) && !seen.contains(ends[1]) {
            continue;
        }
        if now {
            active.add(ends[0], ends[1], width + 1.6, busy);
        } else {
            if strong && side >= 10.0 {
                under.add(ends[0], ends[1], width + 1.2, Color32::from_black_alpha(90));
            }
            over.add(
                ends[0],
                ends[1],
                width,
                Color32::from_white_alpha(if !strong {
                    55
                } else if side >= 5.0 {
                    140
                } else {
                    80
                }),
            );
        }
    }
    [under, over, active].into_iter().for_each(|lines| lines.draw(painter));
    root_mark(painter, found, |node| tokens::on_screen(&shot.grid, placed, node));
}

/// Edges and nodes of a network.
fn over_network(
    ui: &egui::Ui,
    painter: &egui::Painter,
    (places, lens): (&[Pos2], Lens),
    found: &Found,
    works: impl Fn(u32, u32) -> bool,
    colour: impl Fn(usize) -> Option<Color32>,
) {
    let visuals = ui.visuals();
    let at = |node: u32| places.get(node as usize).map_or(Pos2::ZERO, |place| lens.to_screen(*place));
    let mut lines = Lines::default();
    if let Some(plan) = &found.trunk.plan {
        let faint = visuals.weak_text_color().gamma_multiply(0.25);
        plan.both.edges().filter(|(i, j, _)| i < j).for_each(|(i, j, _)| lines.add(at(i), at(j), 1.0, faint));
    }
    let busy = Series::Other.colour(visuals);
    for (child, parent, _) in found.trunk.forest.edges() {
        match works(child, parent) {
            true => lines.add(at(child), at(parent), 4.0, busy),
            false => lines.add(at(child), at(parent), 2.0, visuals.text_color().gamma_multiply(0.75)),
        }
    }
    lines.draw(painter);
    let radius = stage::radius(painter.clip_rect(), places.len());
    let nodes = (0..places.len()).map(|i| (at(i as u32), colour(i)));
    edges::dots(painter, nodes, radius, visuals.weak_text_color(), places.len() > 1500);
    root_mark(painter, found, at);
}

/// Squares round the roots, where there are few.
fn root_mark(painter: &egui::Painter, found: &Found, at: impl Fn(u32) -> Pos2) {
    let forest = &found.trunk.forest;
    // A tree of one node needs no mark: all of it is the root.
    let has_children = |root: &&u32| {
        forest.child_starts()[forest.places()[**root as usize] as usize + 1]
            > forest.child_starts()[forest.places()[**root as usize] as usize]
    };
    for root in forest.order().iter().take(forest.trees()).filter(has_children).take(32) {
        let square = Rect::from_center_size(at(*root), Vec2::splat(11.0));
        for (width, colour) in [(3.5, Color32::from_black_alpha(200)), (1.5, Color32::WHITE)] {
            painter.rect_stroke(square, 1.0, egui::Stroke::new(width, colour), egui::StrokeKind::Middle);
        }
    }
}

/// Figures of the tree.
fn facts(ui: &mut egui::Ui, found: &Found) {
    let (forest, paths) = (&found.trunk.forest, &found.trunk.paths);
    plots::figures(ui, |ui| {
        plots::figure(ui, "Nodes", grouped(forest.nodes() as f64));
        if forest.trees() > 1 {
            plots::figure(ui, "Trees", grouped(forest.trees() as f64))
                .on_hover_text("Nothing crosses from one tree to another");
        }
        plots::figure(ui, "Levels", grouped(forest.height() as f64 + 1.0))
            .on_hover_text("Parts of a sweep that goes level by level");
        plots::figure(ui, "Rounds of heavy paths", grouped(paths.round_count() as f64))
            .on_hover_text("Parts of a sweep that goes path by path: at most log₂ of the nodes, and one");
        plots::figure(ui, "Longest way", significant(forest.diameter_length(), 3))
            .on_hover_text("Length of the longest way within the tree");
        plots::figure(ui, "Least weight", significant((-found.rate * forest.diameter_length()).exp(), 2))
            .on_hover_text("exp(−λ · longest way)");
    });
}
