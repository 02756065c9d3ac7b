//! Cutting and linking: a brush for obstacles, an eraser, and links from place to place.

use super::super::mask_topology::gesture::trail;
use super::link_colour;
use crate::explorer::canvas::Placed;
use crate::explorer::keys::Own;
use crate::explorer::mask::Paint;
use crate::explorer::networks::Cuts;
use crate::explorer::theme;
use crate::explorer::widgets::{self, Number};
use eframe::egui::{self, Color32, CursorIcon, PointerButton, Stroke, vec2};
use glam::{DVec2, UVec2};

/// What the left button does on the picture.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Tool {
    #[default]
    Query,
    Cut,
    Erase,
    Link,
}

const TOOLS: [(Tool, &str, &str); 4] = [
    (Tool::Query, "Query", "Click chooses the query; drag moves the picture"),
    (Tool::Cut, "Cut", "Drag paints obstacles: tokens below lose all their edges; [ and ] change the size"),
    (Tool::Erase, "Erase", "Drag removes obstacles and the links whose ends it touches"),
    (Tool::Link, "Link", "Drag from one place to another, or click both, joins their tokens"),
];

/// The tool in hand.
#[derive(Debug, Default)]
pub(super) struct Hand {
    pub(super) tool: Tool,
    /// Diameter of the brush in photograph pixels; `None` = in proportion to the photograph.
    brush: Option<f64>,
    /// Last place of a stroke.
    stroke: Option<DVec2>,
    /// Where a link begins.
    link: Option<DVec2>,
    /// Whether the button that began the link is still down.
    dragging: bool,
}

impl Hand {
    fn brush(&self, photo: UVec2) -> f64 {
        self.brush.unwrap_or_else(|| (f64::from(photo.max_element()) / 16.0).round().max(1.0))
    }

    /// Keys that work while the view is on screen and no text is typed.
    pub(super) fn keys(&mut self, ui: &egui::Ui, photo: UVec2) {
        if ui.ctx().text_edit_focused() {
            return;
        }
        let ctx = ui.ctx();
        if matches!(self.tool, Tool::Cut | Tool::Erase) {
            let (now, most) = (self.brush(photo), f64::from(photo.max_element().max(1)));
            if Own::Less.pressed(ctx) {
                self.brush = Some((now / 1.25).floor().max(1.0));
            }
            if Own::More.pressed(ctx) {
                self.brush = Some((now * 1.25).ceil().min(most));
            }
        }
        if self.link.is_some() && Own::GiveUp.pressed(ctx) {
            (self.link, self.dragging) = (None, false);
        }
    }

    /// Tools, the brush's size, and what clears all.
    pub(super) fn toolbar(&mut self, ui: &mut egui::Ui, cuts: &mut Cuts, photo: UVec2) {
        ui.horizontal_wrapped(|ui| {
            ui.spacing_mut().item_spacing.x = 4.0;
            for (tool, name, about) in TOOLS {
                let button = egui::Button::selectable(self.tool == tool, name).frame_when_inactive(true);
                if ui.add(button).on_hover_text(about).clicked() {
                    *self = Self { tool, brush: self.brush, ..Self::default() };
                }
            }
            let clear = ui.add_enabled(!cuts.is_empty(), egui::Button::new("Clear"));
            if clear.on_hover_text("Removes all obstacles and links").clicked() {
                *cuts = Cuts::default();
            }
            match self.tool {
                Tool::Cut | Tool::Erase => {
                    let most = f64::from(photo.max_element().max(2));
                    let mut size = self.brush(photo);
                    let usual = Self::default().brush(photo);
                    let number = Number::along(1.0..=most, usual).logarithmic().whole().unit(" px");
                    let about = "Diameter in pixels of the photograph; [ and ] change it too.";
                    ui.allocate_ui(
                        vec2(ui.available_width().min(300.0), ui.spacing().interact_size.y),
                        |ui| {
                            if widgets::slider(ui, "Brush size", about, &mut size, &number) {
                                self.brush = Some(size);
                            }
                        },
                    );
                }
                tool => {
                    let about = match (tool, self.link) {
                        (Tool::Link, Some(_)) => "Now click where the link ends; Esc gives it up",
                        _ => TOOLS.iter().find(|(other, ..)| *other == tool).map_or("", |(.., about)| about),
                    };
                    ui.add(egui::Label::new(egui::RichText::new(about).weak()).truncate());
                }
            }
        });
    }

    /// Lets the tool in hand work on a picture.
    pub(super) fn work(&mut self, ui: &egui::Ui, placed: &Placed, cuts: &mut Cuts) {
        if self.tool == Tool::Query {
            return;
        }
        let response = &placed.response;
        let mine = response.is_pointer_button_down_on() || response.clicked();
        let busy = self.stroke.is_some() || self.dragging;
        let pressed = ui.input(|i| i.pointer.button_pressed(PointerButton::Primary));
        let over = response.contains_pointer() || mine;
        if over {
            ui.ctx().set_cursor_icon(if self.tool == Tool::Link {
                CursorIcon::PointingHand
            } else {
                CursorIcon::Crosshair
            });
        }
        // Both pictures show the same gesture; the one that it began on takes it.
        if !(mine || busy && over) {
            return;
        }
        let (places, up) = trail(ui, busy);
        let mut places = places.into_iter().map(|at| placed.to_place(at));
        let radius = self.brush(placed.size) / 2.0;
        let begins = pressed && mine && !Own::Grab.held(ui.ctx());
        match self.tool {
            Tool::Query => {}
            Tool::Cut | Tool::Erase => {
                let paint = if self.tool == Tool::Cut { Paint::Hidden } else { Paint::Nothing };
                if begins && self.stroke.is_none() {
                    self.stroke = places.next();
                    if let Some(at) = self.stroke {
                        self.paint(cuts, placed.size, (at, at), radius, paint);
                    }
                }
                for now in places {
                    if let Some(last) = self.stroke.replace(now) {
                        self.paint(cuts, placed.size, (last, now), radius, paint);
                    }
                }
                if up {
                    self.stroke = None;
                }
            }
            Tool::Link => {
                let inside = |at: DVec2| {
                    let most = placed.size.as_dvec2();
                    (at.cmpge(DVec2::ZERO).all() && at.cmplt(most).all()).then(|| at.as_uvec2().to_array())
                };
                let first = places.next();
                let last = places.next_back().or(first);
                let Some(at) = last else { return };
                let far = |a: DVec2| placed.to_screen(a).distance(placed.to_screen(at)) > 6.0;
                match self.link {
                    None if begins => {
                        // Pressed and released at once within a slow frame is a click.
                        (self.link, self.dragging) = (first.filter(|at| inside(*at).is_some()), !up);
                    }
                    Some(from) if up && (far(from) || begins) => {
                        (self.link, self.dragging) = (None, false);
                        if let (Some(a), Some(b)) = (inside(from), inside(at))
                            && a != b
                        {
                            cuts.links.push([a, b]);
                        }
                    }
                    Some(_) if up => self.dragging = false,
                    Some(_) if begins => self.dragging = true,
                    _ => {}
                }
            }
        }
    }

    fn paint(&self, cuts: &mut Cuts, photo: UVec2, (from, to): (DVec2, DVec2), radius: f64, paint: Paint) {
        cuts.obstacles.stroke(photo, from, to, radius, paint);
        if self.tool == Tool::Erase {
            cuts.unlink(from, to, radius);
        }
    }

    /// Links, the one that is being drawn, and the brush.
    pub(super) fn draw(&self, ui: &egui::Ui, painter: &egui::Painter, placed: &Placed, cuts: &Cuts) {
        let colour = link_colour(ui);
        let line = |from: egui::Pos2, to: egui::Pos2| {
            for (width, ink) in [(5.0, Color32::from_black_alpha(150)), (2.5, colour)] {
                painter.line_segment([from, to], Stroke::new(width, ink));
            }
            for at in [from, to] {
                painter.circle(at, 4.0, colour, Stroke::new(1.5, Color32::from_black_alpha(200)));
            }
        };
        let middle = |at: [u32; 2]| placed.to_screen(UVec2::from_array(at).as_dvec2() + 0.5);
        for [from, to] in &cuts.links {
            line(middle(*from), middle(*to));
        }
        let pointer = ui.input(|i| i.pointer.latest_pos()).filter(|_| placed.response.contains_pointer());
        if let (Some(from), Some(at)) = (self.link, pointer) {
            line(placed.to_screen(from), at);
        }
        if let (Some(at), Tool::Cut | Tool::Erase) = (pointer, self.tool) {
            let radius = (self.brush(placed.size) as f32 / 2.0 * placed.scale()).max(1.0);
            let (ink, rim) = theme::MARK;
            painter.circle_stroke(at, radius, Stroke::new(3.0, rim));
            painter.circle_stroke(at, radius, Stroke::new(1.5, ink));
        }
    }
}
