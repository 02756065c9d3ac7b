//! The painting tools: strokes, rectangles, fills. Places and radii are in photograph pixels, whatever the bitmap's.

use super::{HIDDEN, MaskDocument, REGIONS, cell_at, cells_over};
use glam::{DVec2, UVec2};
use std::sync::Arc;

/// What a tool leaves behind.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Paint {
    /// No query sees the place as a key. Its region stays.
    Hidden,
    /// The place belongs to this region, 0…[`REGIONS`]; greater numbers change nothing. Hidden places stay hidden.
    Region(u8),
    /// Neither hidden nor in a region.
    Nothing,
}

impl Paint {
    /// A label after painting.
    pub fn over(self, label: u8) -> u8 {
        match self {
            Self::Hidden => label | HIDDEN,
            Self::Region(region) if region <= REGIONS => (label & HIDDEN) | region,
            Self::Region(_) => label,
            Self::Nothing => 0,
        }
    }
}

/// Columns and rows of cells, ends excluded.
#[derive(Clone, Copy)]
struct Block {
    min: UVec2,
    end: UVec2,
}

/// Squared distance of a place from a segment.
fn distance_squared(at: DVec2, from: DVec2, to: DVec2) -> f64 {
    let along = to - from;
    let length = along.length_squared();
    let share = if length > 0.0 { ((at - from).dot(along) / length).clamp(0.0, 1.0) } else { 0.0 };
    at.distance_squared(from + along * share)
}

impl MaskDocument {
    /// Paints all cells whose centres lie within `radius` of the segment `from`–`to`: a disc drawn along it, without gaps
    /// however fast the hand is. Discs smaller than a cell are widened to half its diagonal, so that every cell the
    /// segment crosses is painted. Whether anything changed; numbers that are not finite paint nothing.
    pub fn stroke(&mut self, photo: UVec2, from: DVec2, to: DVec2, radius: f64, paint: Paint) -> bool {
        if !(from.is_finite() && to.is_finite() && radius.is_finite()) {
            return false;
        }
        let size = cells_over(photo);
        let side = photo.max(UVec2::ONE).as_dvec2() / size.as_dvec2();
        let radius = radius.max(side.length() / 2.0);
        let photo_rect = (DVec2::ZERO, photo.as_dvec2());
        let (min, max) = (from.min(to) - radius, from.max(to) + radius);
        if max.cmplt(photo_rect.0).any() || min.cmpgt(photo_rect.1).any() {
            return false;
        }
        let block = Block { min: cell_at(size, photo, min), end: cell_at(size, photo, max) + UVec2::ONE };
        let inside = |cell: UVec2| {
            let centre = (cell.as_dvec2() + 0.5) * side;
            distance_squared(centre, from, to) <= radius * radius
        };
        self.paint(photo, block, inside, paint)
    }

    /// Paints all cells that the rectangle with these corners touches. Whether anything changed.
    pub fn rectangle(&mut self, photo: UVec2, corner: DVec2, opposite: DVec2, paint: Paint) -> bool {
        let (min, max) = (corner.min(opposite), corner.max(opposite));
        let outside = max.cmplt(DVec2::ZERO).any() || min.cmpge(photo.as_dvec2()).any();
        if outside || !(min.is_finite() && max.is_finite()) {
            return false;
        }
        let size = cells_over(photo);
        let block = Block { min: cell_at(size, photo, min), end: cell_at(size, photo, max) + UVec2::ONE };
        self.paint(photo, block, |_| true, paint)
    }

    /// Paints the connected area of one label that `at` lies in. Whether anything changed.
    pub fn fill(&mut self, photo: UVec2, at: DVec2, paint: Paint) -> bool {
        let (size, place) = (cells_over(photo), at / photo.max(UVec2::ONE).as_dvec2());
        if !place.is_finite() || place.min_element() < 0.0 || place.max_element() >= 1.0 {
            return false;
        }
        let before = self.revision;
        if !self.is_empty() {
            self.fit(photo);
        }
        let start = cell_at(size, photo, at);
        let old = self.label_at(photo, at);
        let new = paint.over(old);
        if new == old {
            return self.revision != before;
        }
        self.fit(photo);
        let cells = Arc::make_mut(&mut self.cells);
        let (width, height) = (size.x as usize, size.y as usize);
        let mut open = vec![start.y as usize * width + start.x as usize];
        while let Some(at) = open.pop() {
            // A run of the row at once; above and below, one seed per run.
            if cells[at] != old {
                continue;
            }
            let (row, col) = (at / width, at % width);
            let line = &cells[row * width..(row + 1) * width];
            let first = line[..col].iter().rposition(|l| *l != old).map_or(0, |c| c + 1);
            let end = line[col..].iter().position(|l| *l != old).map_or(width, |c| col + c);
            cells[row * width + first..row * width + end].fill(new);
            let above = row.checked_sub(1);
            let below = (row + 1 < height).then_some(row + 1);
            for row in above.into_iter().chain(below) {
                let mut before = false;
                for col in first..end {
                    let here = cells[row * width + col] == old;
                    if here && !before {
                        open.push(row * width + col);
                    }
                    before = here;
                }
            }
        }
        self.settle(new == 0);
        true
    }

    /// Hides what is seen and shows what is hidden, over a photograph of `photo` pixels.
    pub fn invert_hidden(&mut self, photo: UVec2) {
        self.fit(photo);
        Arc::make_mut(&mut self.cells).iter_mut().for_each(|label| *label ^= HIDDEN);
        self.settle(true);
    }

    /// Removes painting and links. Whether there was anything.
    pub fn clear(&mut self) -> bool {
        let anything = !(self.is_empty() && self.links.is_empty());
        if anything {
            *self = Self::default();
        }
        anything
    }

    /// Paints the cells of a block that lie inside.
    fn paint(&mut self, photo: UVec2, block: Block, inside: impl Fn(UVec2) -> bool, paint: Paint) -> bool {
        let before = self.revision;
        if !self.is_empty() {
            self.fit(photo);
        }
        let width = cells_over(photo).x;
        let rows = block.min.y..block.end.y;
        let places = rows.flat_map(|y| (block.min.x..block.end.x).map(move |x| UVec2::new(x, y)));
        // The bitmap may be shared with the history: it is copied only if a cell really changes.
        let old = |at: usize| self.cells.get(at).copied().unwrap_or(0);
        let changes: Vec<usize> = places
            .map(|cell| (cell, (cell.y * width + cell.x) as usize))
            .filter(|(cell, at)| paint.over(old(*at)) != old(*at) && inside(*cell))
            .map(|(_, at)| at)
            .collect();
        if changes.is_empty() {
            return self.revision != before;
        }
        self.fit(photo);
        let cells = Arc::make_mut(&mut self.cells);
        for at in changes {
            cells[at] = paint.over(cells[at]);
        }
        self.settle(paint.over(0) == 0);
        true
    }

    /// Lays the bitmap over a photograph of another size: every cell keeps its relative place. Nothing is lost while only
    /// looking, for this happens with the first stroke.
    fn fit(&mut self, photo: UVec2) {
        let size = cells_over(photo);
        if self.size == size {
            return;
        }
        let cell = |x: u32, y: u32| {
            // Cells stand for pixels here: the centre of the new cell, looked up in the old bitmap.
            self.label_at(size, DVec2::new(f64::from(x) + 0.5, f64::from(y) + 0.5))
        };
        let cells: Vec<u8> = (0..size.y).flat_map(|y| (0..size.x).map(move |x| cell(x, y))).collect();
        (self.size, self.cells) = (size, Arc::new(cells));
        self.changed();
    }

    /// Ends a change. A bitmap on which everything was erased is the same as none.
    pub(super) fn settle(&mut self, erased: bool) {
        if erased && self.cells.iter().all(|label| *label == 0) {
            (self.size, self.cells) = (UVec2::ZERO, Arc::default());
        }
        self.changed();
        if self.is_empty() && self.links.is_empty() {
            self.revision = 0;
        }
    }
}
