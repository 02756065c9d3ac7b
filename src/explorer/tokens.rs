//! Tokens of the picture as nodes: their grid, their colours, and where they lie on screen.

use super::canvas::Placed;
use crate::vision::grid::TokenGrid;
use crate::vision::image::Photo;
use eframe::egui::Pos2;
use glam::DVec2;
use std::sync::Arc;

/// A photograph in its tokens; the same one is told by its place in memory.
#[derive(Clone, Debug)]
pub(super) struct Shot {
    /// The photograph.
    pub(super) photo: Arc<Photo>,
    /// Its tokens.
    pub(super) grid: TokenGrid,
}

impl PartialEq for Shot {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.photo, &other.photo) && self.grid == other.grid
    }
}

impl Shot {
    /// Rows and columns.
    pub(super) fn sides(&self) -> [usize; 2] {
        [self.grid.rows(), self.grid.cols()]
    }

    /// Mean colour of every token, `[token, 3]`, red, green and blue from 0 to 1 as the eye sees steps.
    ///
    /// Errors: one line for the user.
    pub(super) fn colours(&self) -> Result<Vec<f32>, String> {
        let image = self.photo.working(self.grid.working_size()).map_err(|e| e.to_string())?;
        // A working pixel is not a photograph's where the grid grew.
        let side = self.grid.stride().max(1) as usize;
        let [rows, cols] = self.sides();
        let mut out = Vec::with_capacity(3 * rows * cols);
        for row in 0..rows {
            for col in 0..cols {
                let (lines, across) = (image.rows(), image.cols());
                let (y, x) = ((row * side).min(lines - 1), (col * side).min(across - 1));
                let (end_y, end_x) = ((y + side).min(lines), (x + side).min(across));
                let mut sum = [0.0_f64; 3];
                for line in y..end_y {
                    let samples = &image.samples()[3 * (line * across + x)..3 * (line * across + end_x)];
                    for pixel in samples.chunks_exact(3) {
                        sum.iter_mut().zip(pixel).for_each(|(s, p)| *s += f64::from(*p));
                    }
                }
                let count = ((end_y - y) * (end_x - x)).max(1) as f64;
                out.extend(sum.map(|s| (s / count).max(0.0).powf(1.0 / 2.2) as f32));
            }
        }
        Ok(out)
    }
}

/// Middle of a token's cell on screen.
pub(super) fn on_screen(grid: &TokenGrid, placed: &Placed, token: u32) -> Pos2 {
    let (cols, stride) = (grid.cols().max(1), grid.effective_stride());
    let (row, col) = (token as usize / cols, token as usize % cols);
    // The last cells may be cut, but edges look right only on an even grid.
    let middle = DVec2::new(col as f64 + 0.5, row as f64 + 0.5) * stride;
    placed.to_screen(middle.min(placed.size.as_dvec2()))
}

/// Side of a token on screen, in points.
pub(super) fn side_on_screen(grid: &TokenGrid, placed: &Placed) -> f32 {
    grid.effective_stride().min_element() as f32 * placed.scale()
}
