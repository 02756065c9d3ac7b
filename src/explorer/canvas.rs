//! A picture on screen: pan and zoom that all pictures share, and the way from screen to photograph and back.

use super::snapshot::Layer;
use eframe::egui::{self, Pos2, Rect, Sense, Vec2, pos2, vec2};
use glam::{DVec2, UVec2};

/// Largest zoom, in screen points per photograph pixel.
const MOST_ZOOM: f32 = 64.0;

/// What dragging with the left button does.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Drag {
    /// Moves the picture; a click without moving chooses the query.
    #[default]
    Pan,
    /// Belongs to the view (a brush); the middle button, or the space key held, still moves the picture.
    Tool,
}

/// Pan and zoom, linked across views.
#[derive(Clone, Debug)]
pub struct Canvas {
    /// Screen points per photograph pixel; `None` = fit the space there is.
    zoom: Option<f32>,
    /// Photograph pixel in the middle of the view.
    centre: Vec2,
    /// Photograph pixel under the pointer, in whichever view it is.
    pub hover: Option<UVec2>,
    /// Whether the photograph alone is shown while a key is held.
    pub peek: bool,
    /// A map that was put aside to compare with, shown in place of the map while a key is held.
    pub reference: Option<Layer>,
    /// Whether it is shown now.
    pub show_reference: bool,
    /// The pixel where the user asked to put the present map aside.
    pub wanted_reference: Option<UVec2>,
}

impl Default for Canvas {
    fn default() -> Self {
        Self {
            zoom: None,
            centre: Vec2::ZERO,
            hover: None,
            peek: false,
            reference: None,
            show_reference: false,
            wanted_reference: None,
        }
    }
}

/// A picture as it was placed on screen.
#[derive(Debug)]
pub struct Placed {
    /// Where the whole photograph lies, partly outside `clip`.
    pub rect: Rect,
    /// The part of the screen that shows it.
    pub clip: Rect,
    /// What the pointer did there.
    pub response: egui::Response,
    /// Photograph pixels.
    pub size: UVec2,
}

impl Placed {
    /// Screen points per photograph pixel.
    pub fn scale(&self) -> f32 {
        self.rect.width() / self.size.x.max(1) as f32
    }

    /// Screen position of a place in the photograph, in its pixels.
    pub fn to_screen(&self, at: DVec2) -> Pos2 {
        self.rect.min + vec2(at.x as f32, at.y as f32) * self.scale()
    }

    /// Photograph pixel under a screen position; `None` outside.
    pub fn to_pixel(&self, at: Pos2) -> Option<UVec2> {
        let inside = self.rect.contains(at) && self.clip.contains(at);
        inside.then(|| {
            let place = (at - self.rect.min) / self.scale();
            let limit = |x: f32, side: u32| (x.max(0.0) as u32).min(side.saturating_sub(1));
            UVec2::new(limit(place.x, self.size.x), limit(place.y, self.size.y))
        })
    }

    /// The pixel that was clicked with the left button.
    pub fn clicked(&self) -> Option<UVec2> {
        self.response
            .clicked()
            .then(|| self.response.interact_pointer_pos())?
            .and_then(|at| self.to_pixel(at))
    }

    /// The pixel that was clicked with the right button.
    pub fn right_clicked(&self) -> Option<UVec2> {
        let at = self.response.secondary_clicked().then(|| self.response.interact_pointer_pos())?;
        at.and_then(|at| self.to_pixel(at))
    }
}

impl Canvas {
    /// Shows the whole picture again.
    pub fn fit(&mut self) {
        self.zoom = None;
    }

    /// A screen point per photograph pixel.
    pub fn actual_size(&mut self) {
        self.zoom = Some(1.0);
    }

    /// Whether the picture follows the size of its view.
    pub fn fits(&self) -> bool {
        self.zoom.is_none()
    }

    /// Zooms about the middle.
    pub fn zoom_by(&mut self, factor: f32, now: f32) {
        self.zoom = Some((self.zoom.unwrap_or(now) * factor).clamp(0.02, MOST_ZOOM));
    }

    /// Places a photograph of `size` pixels in `space`, and pans and zooms by what the pointer does there.
    pub fn place(&mut self, ui: &mut egui::Ui, id: egui::Id, space: Rect, size: UVec2, drag: Drag) -> Placed {
        let response = ui.interact(space, id, Sense::click_and_drag());
        let whole = vec2(size.x.max(1) as f32, size.y.max(1) as f32);
        let fit = (space.width() / whole.x).min(space.height() / whole.y).clamp(0.001, MOST_ZOOM);
        if self.zoom.is_none() {
            self.centre = whole / 2.0;
        }
        let scale = self.zoom.unwrap_or(fit);
        let (space_held, wheel, zooming) =
            ui.input(|i| (i.key_down(egui::Key::Space), i.smooth_scroll_delta().y, i.zoom_delta()));
        let middle = response.dragged_by(egui::PointerButton::Middle);
        let left = response.dragged_by(egui::PointerButton::Primary) && (drag == Drag::Pan || space_held);
        if middle || left {
            self.zoom = Some(scale);
            self.centre -= response.drag_delta() / scale;
        }
        let at = self.rect(space, whole, scale);
        if let (true, Some(pointer)) = (response.contains_pointer(), ui.input(|i| i.pointer.hover_pos())) {
            let factor = if zooming == 1.0 { (wheel / 240.0).exp2() } else { zooming };
            if factor != 1.0 {
                // The pixel under the pointer stays there.
                let under = (pointer - at.min) / scale;
                let new = (scale * factor).clamp(fit.min(0.05), MOST_ZOOM);
                self.zoom = Some(new);
                self.centre = under - (pointer - space.center()) / new;
            }
        }
        self.centre = self.centre.clamp(Vec2::ZERO, whole);
        let rect = self.rect(space, whole, self.zoom.unwrap_or(fit));
        let placed = Placed { rect, clip: space, response, size };
        if let Some(pointer) = placed.response.hover_pos() {
            self.hover = placed.to_pixel(pointer);
        }
        placed
    }

    fn rect(&self, space: Rect, whole: Vec2, scale: f32) -> Rect {
        Rect::from_min_size(space.center() - self.centre * scale, whole * scale)
    }
}

/// The whole of a texture.
pub const WHOLE: Rect = Rect { min: pos2(0.0, 0.0), max: pos2(1.0, 1.0) };
