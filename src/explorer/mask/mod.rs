//! Masks painted by hand: keys that nobody sees, and regions that see only themselves and what they are linked to.
//!
//! The painting is a bitmap laid over the photograph, one byte per cell, and knows nothing of tokens: patch, stride and
//! the photograph itself may change under it. A token is what lies under its centre. `paint` holds the tools,
//! `links` which region sees which, `places` where a region's handle goes, `stored` what a session writes.

mod links;
mod paint;
mod places;
mod stored;

pub use links::Link;
pub use paint::Paint;
pub use places::RegionPlace;

use crate::vision::grid::TokenGrid;
use glam::{DVec2, UVec2};
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Number of the last region that can be painted; region 0 is what is unpainted.
pub const REGIONS: u8 = 8;

/// Bit of a label: no query sees this place as a key. The other bits are the region, 0…[`REGIONS`].
pub const HIDDEN: u8 = 0x80;

/// Cells along the longer side of the photograph.
pub const LONG_SIDE: u32 = 512;

/// Region of a label.
pub fn region_of(label: u8) -> u8 {
    label & !HIDDEN
}

/// Whether a label says that the place is hidden as a key.
pub fn is_hidden(label: u8) -> bool {
    label & HIDDEN != 0
}

/// What was painted. Clones share the bitmap; two are equal if they show the same.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(try_from = "stored::Stored", into = "stored::Stored")]
pub struct MaskDocument {
    /// Cells, columns and rows; 0 × 0 while nothing is painted.
    size: UVec2,
    /// A label per cell, rows from the top.
    cells: Arc<Vec<u8>>,
    /// At most one link per pair of regions, sorted.
    links: Vec<Link>,
    /// Names this content: equal revisions are equal masks, so that an undone stroke brings its old number back.
    revision: u64,
}

impl PartialEq for MaskDocument {
    fn eq(&self, other: &Self) -> bool {
        let (a, b) = (self, other);
        a.revision == b.revision || (a.size == b.size && a.links == b.links && a.cells == b.cells)
    }
}

impl MaskDocument {
    /// Whether nothing is painted, so that every query sees every key.
    pub fn is_empty(&self) -> bool {
        self.cells.is_empty()
    }

    /// A number that changes whenever the mask does; equal numbers mean equal masks.
    pub fn revision(&self) -> u64 {
        self.revision
    }

    /// Columns and rows of the bitmap; 0 × 0 while nothing is painted.
    pub fn size(&self) -> UVec2 {
        self.size
    }

    /// The bitmap, one label per cell, rows from the top.
    pub fn cells(&self) -> &[u8] {
        &self.cells
    }

    /// Whether any region is painted. Without one, regions restrict nothing.
    pub fn has_regions(&self) -> bool {
        self.cells.iter().any(|label| region_of(*label) != 0)
    }

    /// Label at a place of a photograph of `photo` pixels, in its pixels; outside, that of the nearest cell.
    pub fn label_at(&self, photo: UVec2, at: DVec2) -> u8 {
        let cell = cell_at(self.size, photo, at);
        self.cells.get((cell.y * self.size.x + cell.x) as usize).copied().unwrap_or(0)
    }

    /// Label under the centre of every token, `[token]`.
    pub fn token_labels(&self, grid: &TokenGrid) -> Vec<u8> {
        let label = |token| {
            let rect = grid.token_rect(token);
            rect.map_or(0, |rect| self.label_at(grid.photo_size(), rect.centre()))
        };
        (0..grid.tokens()).map(label).collect()
    }

    /// Keys that the token under `query` (a pixel of the photograph; outside, the nearest one) may see: 1 or 0 per token
    /// of the grid, `[token]`; `None` where nothing is painted.
    ///
    /// `keys[j] = not hidden[j] and (no region is painted, or region[query] sees region[j])`
    ///
    /// Hidden places are hidden as keys only: a query there sees as others do.
    pub fn keys(&self, grid: &TokenGrid, query: UVec2) -> Option<Vec<u8>> {
        if self.is_empty() {
            return None;
        }
        let inside = query.min(grid.photo_size().saturating_sub(UVec2::ONE));
        let token = grid.token_at(inside).ok()?;
        let labels = self.token_labels(grid);
        let region = region_of(*labels.get(token)?);
        Some(self.seen(&labels, region))
    }

    /// The same for a query in `region`, from labels of all tokens.
    pub fn seen(&self, labels: &[u8], region: u8) -> Vec<u8> {
        let restricts = self.has_regions();
        let mut sees = [0; REGIONS as usize + 1];
        for (to, seen) in sees.iter_mut().enumerate() {
            *seen = u8::from(!restricts || self.sees(region, to as u8));
        }
        let seen = |label: &u8| {
            if is_hidden(*label) { 0 } else { sees.get(usize::from(*label)).copied().unwrap_or(0) }
        };
        labels.iter().map(seen).collect()
    }

    /// Gives the content a new name.
    fn changed(&mut self) {
        // 0 is the empty document's.
        static NEXT: AtomicU64 = AtomicU64::new(1);
        self.revision = NEXT.fetch_add(1, Ordering::Relaxed);
    }
}

/// Size of the bitmap over a photograph of `photo` pixels: square cells but for rounding.
fn cells_over(photo: UVec2) -> UVec2 {
    let photo = photo.max(UVec2::ONE).as_dvec2();
    let scale = f64::from(LONG_SIDE) / photo.max_element();
    (photo * scale).round().max(DVec2::ONE).as_uvec2()
}

/// Cell of a bitmap of `size` cells under a place of the photograph; outside, the nearest one.
fn cell_at(size: UVec2, photo: UVec2, at: DVec2) -> UVec2 {
    let place = at / photo.max(UVec2::ONE).as_dvec2() * size.as_dvec2();
    place.floor().max(DVec2::ZERO).as_uvec2().min(size.saturating_sub(UVec2::ONE))
}
