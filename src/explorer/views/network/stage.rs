//! A network on screen: where nodes lie, moved and zoomed alike in all panels, and what the pointer does to them.

use crate::explorer::networks::Plan;
use crate::explorer::views::edges::{self, Lines};
use crate::numbers::significant;
use eframe::egui::{self, Color32, Pos2, Rect, Sense, Vec2, pos2, vec2};

/// Edges from which on nodes and edges are drawn without smooth borders.
const MANY: usize = 2500;

/// How far from a node the pointer still means it, in points.
const NEAR: f32 = 12.0;

/// Pan and zoom, and what is being dragged.
#[derive(Debug, Default)]
pub(in crate::explorer::views) struct Stage {
    /// Points per unit, and the place in the middle; `None` = all of it fits.
    held: Option<(f32, Vec2)>,
    dragged: Option<u32>,
}

/// Places of nodes: those of the plan, but for nodes that were dragged.
pub(in crate::explorer::views) fn places(plan: &Plan, moved: &[(u32, [f32; 2])]) -> Vec<Pos2> {
    let mut places: Vec<Pos2> = plan.places.iter().map(|[x, y]| pos2(*x, *y)).collect();
    for (node, [x, y]) in moved {
        if let Some(place) = places.get_mut(*node as usize).filter(|_| x.is_finite() && y.is_finite()) {
            *place = pos2(*x, *y);
        }
    }
    places
}

/// What was done in a panel.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(in crate::explorer::views) enum Deed {
    /// A node was clicked.
    Chosen(u32),
    /// A node was dragged there.
    Moved(u32, [f32; 2]),
}

/// A panel's way from places to the screen.
#[derive(Clone, Copy, Debug)]
pub(in crate::explorer::views) struct Lens {
    scale: f32,
    centre: Vec2,
    middle: Pos2,
}

impl Lens {
    pub(in crate::explorer::views) fn to_screen(self, place: Pos2) -> Pos2 {
        self.middle + (place.to_vec2() - self.centre) * self.scale
    }

    fn to_place(self, at: Pos2) -> Pos2 {
        ((at - self.middle) / self.scale + self.centre).to_pos2()
    }
}

impl Stage {
    /// Shows all of it again.
    pub(in crate::explorer::views) fn fit(&mut self) {
        self.held = None;
    }

    /// Whether all of it fits.
    pub(in crate::explorer::views) fn fits(&self) -> bool {
        self.held.is_none()
    }

    /// Takes what the pointer does in a panel; the panel's lens, the node under the pointer, and what was done.
    pub(in crate::explorer::views) fn take(
        &mut self,
        ui: &egui::Ui,
        id: egui::Id,
        space: Rect,
        places: &[Pos2],
    ) -> (Lens, Option<u32>, Option<Deed>) {
        let response = ui.interact(space, id, Sense::click_and_drag());
        let all = Rect::from_points(places);
        // Captions stand above, colours below.
        let inner = Rect::from_min_max(space.min + vec2(22.0, 38.0), space.max - vec2(22.0, 50.0));
        let room = inner.size().max(Vec2::splat(20.0));
        let fit = (room / all.size().max(Vec2::splat(1e-3))).min_elem().min(90.0);
        let (scale, centre) = self.held.unwrap_or((fit, all.center().to_vec2()));
        let mut lens = Lens { scale, centre, middle: inner.center() };
        let under = |lens: Lens, at: Pos2| {
            let far = |place: &Pos2| lens.to_screen(*place).distance(at);
            let nearest = (0..places.len()).min_by(|a, b| far(&places[*a]).total_cmp(&far(&places[*b])));
            nearest.filter(|i| far(&places[*i]) <= NEAR).map(|i| i as u32)
        };
        let mut deed = None;
        let press = ui.input(|i| i.pointer.press_origin());
        if response.drag_started_by(egui::PointerButton::Primary) {
            self.dragged = press.and_then(|at| under(lens, at));
        }
        let moves = response.dragged_by(egui::PointerButton::Primary);
        match (self.dragged, response.interact_pointer_pos()) {
            (Some(node), Some(at)) if moves && (node as usize) < places.len() => {
                let place = lens.to_place(at.clamp(space.min, space.max));
                deed = Some(Deed::Moved(node, [place.x, place.y]));
                // The view must not shrink under the hand.
                self.held = Some((scale, centre));
            }
            _ if moves || response.dragged_by(egui::PointerButton::Middle) => {
                self.held = Some((scale, centre - response.drag_delta() / scale));
            }
            _ => {}
        }
        if response.drag_stopped() {
            self.dragged = None;
        }
        let hover = response.hover_pos();
        if let Some(at) = hover.filter(|_| response.contains_pointer()) {
            let (wheel, zooming) = ui.input(|i| (i.smooth_scroll_delta().y, i.zoom_delta()));
            let factor = if zooming == 1.0 { (wheel / 240.0).exp2() } else { zooming };
            if factor != 1.0 {
                // The place under the pointer stays there.
                let new = (scale * factor).clamp(0.2 * fit, 40.0 * fit.max(1.0));
                let place = lens.to_place(at).to_vec2();
                self.held = Some((new, place - (at - lens.middle) / new));
            }
        }
        if response.double_clicked() && hover.and_then(|at| under(lens, at)).is_none() {
            self.held = None;
        }
        let (scale, centre) = self.held.unwrap_or((fit, all.center().to_vec2()));
        (lens.scale, lens.centre) = (scale, centre);
        let hovered = hover.and_then(|at| under(lens, at));
        if response.clicked()
            && let Some(node) = response.interact_pointer_pos().and_then(|at| under(lens, at))
        {
            deed = Some(Deed::Chosen(node));
        }
        if hovered.is_some() || self.dragged.is_some() {
            let held = self.dragged.is_some();
            ui.ctx().set_cursor_icon(if held {
                egui::CursorIcon::Grabbing
            } else {
                egui::CursorIcon::PointingHand
            });
        }
        (lens, hovered, deed)
    }
}

/// Draws edges and nodes; `colour` gives a node's colour, `None` for weights of 0.
pub(in crate::explorer::views) fn draw(
    ui: &egui::Ui,
    painter: &egui::Painter,
    (plan, places, lens): (&Plan, &[Pos2], Lens),
    colour: impl Fn(usize) -> Option<Color32>,
    query: u32,
) {
    let network = &plan.network;
    let visuals = ui.visuals();
    let directed = !plan.statistics.undirected;
    let many = network.entries() > MANY;
    let radius = radius(painter.clip_rect(), places.len());
    let largest = network.weights().map_or(1.0, |w| w.iter().copied().fold(f32::MIN_POSITIVE, f32::max));
    let strength = if many { 0.4 } else { 0.75 };
    let mut lines = Lines::default();
    for (i, j, w) in network.edges().filter(|(i, j, _)| i < j || (directed && i != j)) {
        let ends = [i, j].map(|node| lens.to_screen(places[node as usize]));
        if !painter.clip_rect().expand(20.0).intersects(Rect::from_two_pos(ends[0], ends[1])) {
            continue;
        }
        let share = if network.weights().is_some() { (w / largest).sqrt() } else { 1.0 };
        let ink = visuals.weak_text_color().gamma_multiply(strength * (0.25 + 0.75 * share));
        lines.add(ends[0], ends[1], 1.0 + 0.8 * share * f32::from(u8::from(!many)), ink);
        if directed && !many {
            lines.head(ends[0], ends[1], radius + 1.0, ink);
        }
    }
    lines.draw(painter);
    let rim = visuals.weak_text_color();
    let nodes = places.iter().enumerate().map(|(i, place)| (lens.to_screen(*place), colour(i)));
    edges::dots(painter, nodes, radius, rim, many);
    if let Some(place) = places.get(query as usize) {
        crate::explorer::views::picture::draw_query(painter, lens.to_screen(*place));
    }
}

/// Radius of nodes in a panel.
pub(in crate::explorer::views) fn radius(space: Rect, nodes: usize) -> f32 {
    (0.18 * (space.area() / nodes.max(1) as f32).sqrt()).clamp(1.6, 8.0)
}

/// What there is to tell of a node, over a panel.
pub(in crate::explorer::views) fn tell(
    ui: &egui::Ui,
    id: egui::Id,
    plan: &Plan,
    node: u32,
    weights: &[(&str, Option<f64>)],
) {
    let name = plan.names.get(node as usize).filter(|name| !name.is_empty());
    let title = name.map_or_else(|| format!("Node {node}"), |name| format!("{name} (node {node})"));
    let degree = plan.network.neighbours(node).iter().filter(|j| **j != node).count();
    let layer = ui.layer_id();
    egui::Tooltip::always_open(ui.ctx().clone(), layer, id.with("node"), egui::PopupAnchor::Pointer)
        .gap(14.0)
        .show(|ui| {
            ui.strong(title);
            ui.label(format!("{} of it", crate::words::counted(degree, "edge", "edges")));
            for (name, weight) in weights {
                if let Some(weight) = weight {
                    ui.label(format!("{name}: {}", significant(*weight, 4)));
                }
            }
        });
}
