//! A picture on screen: pan and zoom that all pictures share, and the way from screen to photograph and back.

use super::keys::Own;
use super::snapshot::Layer;
use eframe::egui::{self, Pos2, Rect, Sense, Vec2, pos2, vec2};
use glam::{DVec2, UVec2};

/// Largest zoom, in screen points per photograph pixel.
const MOST_ZOOM: f32 = 64.0;

/// Least side of a picture on screen, in points: a very thin one is stretched to it, so that it can be seen and clicked.
const LEAST_SIDE: f32 = 8.0;

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
    /// Where the picture under the pointer is shown.
    pub under_pointer: Option<Rect>,
    /// Where pictures are shown in this frame; what lies beside them is text.
    pub pictures: Vec<Rect>,
    /// Texts over pictures in this frame, which nothing should cover.
    pub texts: Vec<Rect>,
    /// Whether the photograph alone is shown while a key is held.
    pub peek: bool,
    /// The query of the map in sight, where it is not the marked one because the new map is still to come.
    pub former_query: Option<UVec2>,
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
            under_pointer: None,
            pictures: Vec::new(),
            texts: Vec::new(),
            peek: false,
            former_query: None,
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
    /// Screen points per photograph pixel; the smaller one of a stretched picture.
    pub fn scale(&self) -> f32 {
        self.scales().min_elem()
    }

    fn scales(&self) -> Vec2 {
        self.rect.size() / vec2(self.size.x.max(1) as f32, self.size.y.max(1) as f32)
    }

    /// Screen position of a place in the photograph, in its pixels.
    pub fn to_screen(&self, at: DVec2) -> Pos2 {
        self.rect.min + vec2(at.x as f32, at.y as f32) * self.scales()
    }

    /// Place in the photograph, in its pixels, of a screen position; also outside of it.
    pub fn to_place(&self, at: Pos2) -> DVec2 {
        let place = (at - self.rect.min) / self.scales().max(Vec2::splat(f32::MIN_POSITIVE));
        DVec2::new(f64::from(place.x), f64::from(place.y))
    }

    /// Photograph pixel under a screen position; `None` outside.
    pub fn to_pixel(&self, at: Pos2) -> Option<UVec2> {
        let inside = self.rect.contains(at) && self.clip.contains(at);
        inside.then(|| {
            let last = self.size.saturating_sub(UVec2::ONE);
            self.to_place(at).max(DVec2::ZERO).as_uvec2().min(last)
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
    /// Forgets where things lay in the last frame.
    pub fn begin_frame(&mut self) {
        (self.hover, self.under_pointer) = (None, None);
        self.pictures.clear();
        self.texts.clear();
    }

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
        self.pictures.push(space);
        let (wheel, zooming) = ui.input(|i| (i.smooth_scroll_delta().y, i.zoom_delta()));
        let middle = response.dragged_by(egui::PointerButton::Middle);
        let left = response.dragged_by(egui::PointerButton::Primary)
            && (drag == Drag::Pan || Own::Grab.held(ui.ctx()));
        if middle || left {
            self.zoom = Some(scale);
            self.centre -= response.drag_delta() / scales(whole, scale);
        }
        let at = self.rect(space, whole, scale);
        if let (true, Some(pointer)) = (response.contains_pointer(), ui.input(|i| i.pointer.hover_pos())) {
            let factor = if zooming == 1.0 { (wheel / 240.0).exp2() } else { zooming };
            if factor != 1.0 {
                // The pixel under the pointer stays there.
                let under = (pointer - at.min) / scales(whole, scale);
                let new = (scale * factor).clamp(fit.min(0.05), MOST_ZOOM);
                self.zoom = Some(new);
                self.centre = under - (pointer - space.center()) / scales(whole, new);
            }
        }
        self.centre = self.centre.clamp(Vec2::ZERO, whole);
        let rect = self.rect(space, whole, self.zoom.unwrap_or(fit));
        let placed = Placed { rect, clip: space, response, size };
        if let Some(pointer) = placed.response.hover_pos() {
            self.hover = placed.to_pixel(pointer);
            self.under_pointer = Some(space);
        }
        placed
    }

    fn rect(&self, space: Rect, whole: Vec2, scale: f32) -> Rect {
        let scales = scales(whole, scale);
        Rect::from_min_size(space.center() - self.centre * scales, whole * scales)
    }
}

/// Screen points per pixel along each side of a picture: the same, but for sides that would be too thin to be seen.
fn scales(whole: Vec2, scale: f32) -> Vec2 {
    Vec2::splat(scale).max(Vec2::splat(LEAST_SIDE) / whole)
}

/// The whole of a texture.
pub const WHOLE: Rect = Rect { min: pos2(0.0, 0.0), max: pos2(1.0, 1.0) };

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thin_pictures_can_be_seen_and_every_pixel_of_them_clicked() {
        for size in [UVec2::new(4000, 3), UVec2::new(1, 5000), UVec2::new(1, 1), UVec2::new(640, 480)] {
            let space = Rect::from_min_size(pos2(300.0, 24.0), vec2(900.0, 640.0));
            let mut found = None;
            egui::__run_test_ui(|ui| {
                let mut canvas = Canvas::default();
                found = Some(canvas.place(ui, egui::Id::unique("picture"), space, size, Drag::Pan));
            });
            let placed = found.expect("it was placed");
            assert!(placed.rect.size().min_elem() >= LEAST_SIDE, "{size}: {:?}", placed.rect);
            assert!(space.expand(LEAST_SIDE).contains_rect(placed.rect), "{size}: all of it is in sight");
            let last = size - UVec2::ONE;
            for pixel in [UVec2::ZERO, size / 2, last] {
                let middle = placed.to_screen(pixel.as_dvec2() + 0.5);
                assert_eq!(placed.to_pixel(middle), Some(pixel), "{size}");
            }
            if size.x == 640 {
                assert!((placed.rect.aspect_ratio() - 640.0 / 480.0).abs() < 1e-4, "others keep their shape");
            }
        }
    }
}
