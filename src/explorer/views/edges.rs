//! Many lines and dots at once: one mesh for all edges of a network, colours of weights, and cells of tokens over a picture.

use crate::explorer::settings::{Colours, Look};
use crate::explorer::widgets::BarColours;
use crate::vision::palette::Palette;
use eframe::egui::{
    self, Color32, ColorImage, Mesh, Pos2, Shape, Stroke, TextureHandle, TextureOptions, vec2,
};

/// Decades that the logarithm of weights shows.
const DECADES: f64 = 6.0;

/// Lines between two points on screen, of one width.
#[derive(Debug, Default)]
pub(super) struct Lines {
    mesh: Mesh,
}

impl Lines {
    /// Adds a line, `width` points wide.
    pub(super) fn add(&mut self, from: Pos2, to: Pos2, width: f32, colour: Color32) {
        let along = to - from;
        let length = along.length();
        if !(length > 0.0 && length.is_finite()) {
            return;
        }
        let aside = 0.5 * width * along.rot90() / length;
        let first = self.mesh.vertices.len() as u32;
        for at in [from + aside, from - aside, to + aside, to - aside] {
            self.mesh.colored_vertex(at, colour);
        }
        self.mesh.add_triangle(first, first + 1, first + 2);
        self.mesh.add_triangle(first + 1, first + 3, first + 2);
    }

    /// Adds the head of an arrow whose tip is `gap` points before `to`.
    pub(super) fn head(&mut self, from: Pos2, to: Pos2, gap: f32, colour: Color32) {
        let along = to - from;
        let length = along.length();
        if length < gap + 6.0 {
            return;
        }
        let (along, tip) = (along / length, to - along / length * gap);
        let first = self.mesh.vertices.len() as u32;
        let side = 3.0 * along.rot90();
        for at in [tip, tip - 7.0 * along + side, tip - 7.0 * along - side] {
            self.mesh.colored_vertex(at, colour);
        }
        self.mesh.add_triangle(first, first + 1, first + 2);
    }

    /// Adds a disc that is drawn with few corners.
    pub(super) fn disc(&mut self, at: Pos2, radius: f32, colour: Color32) {
        const CORNERS: u32 = 8;
        let first = self.mesh.vertices.len() as u32;
        for corner in 0..CORNERS {
            let turn = std::f32::consts::TAU * corner as f32 / CORNERS as f32;
            self.mesh.colored_vertex(at + radius * vec2(turn.cos(), turn.sin()), colour);
        }
        for corner in 1..CORNERS - 1 {
            self.mesh.add_triangle(first, first + corner, first + corner + 1);
        }
    }

    /// Draws all of them.
    pub(super) fn draw(self, painter: &egui::Painter) {
        if !self.mesh.is_empty() {
            painter.add(Shape::mesh(self.mesh));
        }
    }
}

/// How weights become colours: those of the maps, but for signs, which weights do not have.
pub(super) fn colours(look: &Look) -> BarColours {
    match look.colours {
        Colours::Grey => BarColours::Grey,
        _ => BarColours::Palette(Palette::Sequential),
    }
}

/// Place of a weight along the colours, 0…1; `None` for weights of 0, which are no part of the row.
pub(super) fn place(weight: f64, largest: f64, log: bool) -> Option<f64> {
    if !(weight > 0.0 && largest > 0.0) {
        return None;
    }
    let share = (weight / largest).min(1.0);
    Some(if log { (1.0 + share.log10() / DECADES).max(0.0) } else { share })
}

/// Weight at the lower end of the colours.
pub(super) fn least(largest: f64, log: bool) -> f64 {
    if log { largest * 10.0_f64.powf(-DECADES) } else { 0.0 }
}

/// Nodes with their colours; `None` = a ring without a colour.
pub(super) fn dots(
    painter: &egui::Painter,
    nodes: impl Iterator<Item = (Pos2, Option<Color32>)>,
    radius: f32,
    rim: Color32,
    many: bool,
) {
    if many {
        // Smooth circles of thousands of nodes would take longer than a frame.
        let (mut rims, mut discs) = (Lines::default(), Lines::default());
        for (at, colour) in nodes {
            match colour {
                Some(colour) => {
                    rims.disc(at, radius + 0.5, rim.gamma_multiply(0.6));
                    discs.disc(at, radius, colour);
                }
                // Rings would hide the few that have a colour.
                None => rims.disc(at, 0.5 * radius, rim.gamma_multiply(0.5)),
            }
        }
        rims.draw(painter);
        return discs.draw(painter);
    }
    for (at, colour) in nodes {
        match colour {
            Some(colour) => {
                painter.circle(at, radius, colour, Stroke::new(1.0, rim));
            }
            None => {
                painter.circle(at, radius * 0.8, Color32::TRANSPARENT, Stroke::new(1.2, rim));
            }
        }
    }
}

/// A picture of one texel per token, kept until its numbers or colours change.
#[derive(Default)]
pub(super) struct Cells {
    made: Option<(u64, bool)>,
    texture: Option<TextureHandle>,
}

impl std::fmt::Debug for Cells {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Cells").field("made", &self.made).finish_non_exhaustive()
    }
}

impl Cells {
    /// The texture of `[rows, cols]` colours; `key` names what they are made from.
    pub(super) fn texture(
        &mut self,
        ctx: &egui::Context,
        name: &str,
        [rows, cols]: [usize; 2],
        (key, smooth): (u64, bool),
        colours: impl FnOnce() -> Vec<Color32>,
    ) -> egui::TextureId {
        if self.made != Some((key, smooth)) || self.texture.is_none() {
            let mut texels = colours();
            texels.resize(rows * cols, Color32::TRANSPARENT);
            let image = ColorImage::new([cols, rows], texels);
            let filter = if smooth { TextureOptions::LINEAR } else { TextureOptions::NEAREST };
            match &mut self.texture {
                Some(texture) => texture.set(image, filter),
                None => self.texture = Some(ctx.load_texture(name, image, filter)),
            }
            self.made = Some((key, smooth));
        }
        self.texture.as_ref().map_or(egui::TextureId::default(), TextureHandle::id)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn weights_have_places_and_zeros_have_none() {
        assert_eq!(place(0.0, 1.0, false), None);
        assert_eq!(place(f64::NAN, 1.0, true), None);
        assert_eq!(place(2.0, 4.0, false), Some(0.5));
        assert_eq!(place(4e-6, 4.0, true), Some(0.0));
        assert!(place(4e-3, 4.0, true).is_some_and(|x| (x - 0.5).abs() < 1e-12));
        assert!((least(2.0, true) - 2e-6).abs() < 1e-18 && least(2.0, false) == 0.0);
    }

    #[test]
    fn a_line_is_two_triangles_and_a_point_is_none() {
        let mut lines = Lines::default();
        lines.add(Pos2::ZERO, egui::pos2(10.0, 0.0), 2.0, Color32::WHITE);
        lines.add(Pos2::ZERO, Pos2::ZERO, 2.0, Color32::WHITE);
        lines.head(Pos2::ZERO, egui::pos2(5.0, 0.0), 4.0, Color32::WHITE);
        assert_eq!((lines.mesh.vertices.len(), lines.mesh.indices.len()), (4, 6));
    }
}
