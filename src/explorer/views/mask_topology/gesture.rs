//! What the pointer does on the photograph, as paint and links.

use super::{MaskTopology, Tool, links};
use crate::explorer::canvas::Placed;
use crate::explorer::keys::Own;
use crate::explorer::mask::{Link, region_of};
use crate::explorer::views::ViewContext;
use eframe::egui::{self, Event, PointerButton, Pos2};
use glam::DVec2;

/// What was begun with the left button, in photograph pixels.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Gesture {
    /// Painting; the last place.
    Stroke { last: DVec2 },
    /// A rectangle between two corners.
    Rectangle { from: DVec2, to: DVec2 },
    /// A link from a region to the pointer.
    Link { from: u8, at: DVec2 },
    /// Nothing more until the button is up.
    Spent,
}

/// Places the pointer went through this frame while the left button was down, and whether the button is up at the end.
/// A quick hand moves many times within a slow frame: a curve must not become a chord.
pub(in crate::explorer::views) fn trail(ui: &egui::Ui, mut down: bool) -> (Vec<Pos2>, bool) {
    ui.input(|i| {
        let mut places = Vec::new();
        for event in &i.events {
            match event {
                Event::PointerMoved(at) if down => places.push(*at),
                Event::PointerButton { pos, button: PointerButton::Primary, pressed, .. } => {
                    if *pressed || down {
                        places.push(*pos);
                    }
                    down = *pressed;
                }
                _ => {}
            }
        }
        (places, !i.pointer.primary_down())
    })
}

impl MaskTopology {
    /// Lets the tool in hand work.
    pub(super) fn gesture(&mut self, ui: &egui::Ui, placed: &Placed, context: &mut ViewContext<'_>) {
        if self.tool == Tool::Query {
            // The picture itself chooses the query.
            self.gesture = None;
            return;
        }
        if let Some(pixel) = placed.right_clicked() {
            context.canvas.wanted_reference = Some(pixel);
        }
        let (places, up) = trail(ui, self.gesture.is_some());
        let pressed = ui.input(|i| i.pointer.button_pressed(PointerButton::Primary));
        let response = &placed.response;
        let mine = response.is_pointer_button_down_on() || response.clicked();
        let mut places = places.into_iter().map(|at| placed.to_place(at));
        let begins = self.gesture.is_none() && pressed && mine && !Own::Grab.held(ui.ctx());
        if begins && let Some(at) = places.next() {
            self.gesture = Some(self.begin(placed, context, at));
        }
        for at in places {
            self.go_on(placed, context, at);
        }
        if up && let Some(gesture) = self.gesture.take() {
            self.end(gesture, placed, context);
        }
    }

    fn begin(&mut self, placed: &Placed, context: &mut ViewContext<'_>, at: DVec2) -> Gesture {
        let (photo, paint) = (placed.size, self.paint());
        match self.tool {
            Tool::Query => Gesture::Spent,
            Tool::Brush | Tool::Eraser => {
                context.mask.stroke(photo, at, at, self.brush(photo) / 2.0, paint);
                Gesture::Stroke { last: at }
            }
            Tool::Rectangle => Gesture::Rectangle { from: at, to: at },
            Tool::Fill => {
                context.mask.fill(photo, at, paint);
                Gesture::Spent
            }
            Tool::Link => match self.region_under(placed, context, at) {
                Some(from) => Gesture::Link { from, at },
                None => Gesture::Spent,
            },
        }
    }

    fn go_on(&mut self, placed: &Placed, context: &mut ViewContext<'_>, now: DVec2) {
        let (photo, paint, radius) = (placed.size, self.paint(), self.brush(placed.size) / 2.0);
        match &mut self.gesture {
            Some(Gesture::Stroke { last }) => {
                context.mask.stroke(photo, *last, now, radius, paint);
                *last = now;
            }
            Some(Gesture::Rectangle { to, .. }) => *to = now,
            Some(Gesture::Link { at, .. }) => *at = now,
            Some(Gesture::Spent) | None => {}
        }
    }

    fn end(&mut self, gesture: Gesture, placed: &Placed, context: &mut ViewContext<'_>) {
        match gesture {
            Gesture::Rectangle { from, to } => {
                context.mask.rectangle(placed.size, from, to, self.paint());
            }
            Gesture::Link { from, at } => match self.region_under(placed, context, at) {
                Some(to) if to != from => {
                    context.mask.link(Link { from, to, mutual: self.mutual });
                    self.selected = Some((from, to));
                }
                _ => self.selected = links::under(&self.survey, placed, context.mask, placed.to_screen(at)),
            },
            Gesture::Stroke { .. } | Gesture::Spent => {}
        }
    }

    /// The region whose handle is there, or else whose area; none while no region is painted.
    pub(super) fn region_under(&self, placed: &Placed, context: &ViewContext<'_>, at: DVec2) -> Option<u8> {
        let pointer = placed.to_screen(at);
        let handle = links::handle_under(&self.survey, placed, pointer);
        let inside = placed.rect.contains(pointer) && self.survey.has_regions();
        handle.or_else(|| inside.then(|| region_of(context.mask.label_at(placed.size, at))))
    }
}
