//! Tokens of the picture as nodes: their grid, their colours, and where they lie on screen.

use super::canvas::Placed;
use crate::vision::grid::TokenGrid;
use crate::vision::image::Photo;
use crate::vision::scene::token_colours;
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

    /// Mean colour of every token, `[token, 3]` in OKLab: those of the command line, so that both build the same networks.
    ///
    /// Errors: one line for the user.
    pub(super) fn colours(&self) -> Result<Vec<f32>, String> {
        let image = self.photo.working(self.grid.working_size()).map_err(|e| e.to_string())?;
        Ok(token_colours(&image, &self.grid))
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
