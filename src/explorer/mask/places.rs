//! Where a region's handle goes: well inside it, near its middle.

use super::{MaskDocument, REGIONS, region_of};
use glam::{DVec2, UVec2};

/// A region that has cells.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RegionPlace {
    /// Its number, 0…[`REGIONS`].
    pub region: u8,
    /// Cells of the bitmap.
    pub cells: usize,
    /// A place inside it, as shares of the photograph's width and height.
    pub place: DVec2,
}

/// Cells from the edge that are enough for a handle.
const ROOMY: u16 = 24;

/// Regions, the unpainted one included.
const SLOTS: usize = REGIONS as usize + 1;

impl MaskDocument {
    /// The regions that have cells, in order, region 0 included; none while no region is painted.
    ///
    /// The place is the cell nearest to the centroid among those that lie deep enough in the region: a centroid alone may
    /// lie outside of it, and the deepest cell alone would jump about while the region is painted.
    pub fn region_places(&self) -> Vec<RegionPlace> {
        if !self.has_regions() {
            return Vec::new();
        }
        let depth = depths(&self.cells, self.size);
        let all = || self.cells.iter().map(|label| usize::from(region_of(*label))).enumerate();
        let at = |cell: usize| {
            let (x, y) = (cell % self.size.x as usize, cell / self.size.x as usize);
            DVec2::new(x as f64 + 0.5, y as f64 + 0.5)
        };
        let (mut count, mut sum, mut deepest) = ([0usize; SLOTS], [DVec2::ZERO; SLOTS], [0u16; SLOTS]);
        for (cell, region) in all() {
            count[region] += 1;
            sum[region] += at(cell);
            deepest[region] = deepest[region].max(depth[cell]);
        }
        let mut best = [(f64::INFINITY, DVec2::ZERO); SLOTS];
        for (cell, region) in all() {
            let enough = match region {
                // What is left between the others has its centroid where their links cross: rather the widest place.
                0 => deepest[region] - deepest[region] / 16,
                _ => (deepest[region] - deepest[region] / 3).min(ROOMY),
            };
            if depth[cell] >= enough {
                let away = at(cell).distance_squared(sum[region] / count[region] as f64);
                if away < best[region].0 {
                    best[region] = (away, at(cell));
                }
            }
        }
        let place = |region: usize| RegionPlace {
            region: region as u8,
            cells: count[region],
            place: best[region].1 / self.size.as_dvec2(),
        };
        (0..SLOTS).filter(|region| count[*region] > 0).map(place).collect()
    }
}

/// Steps from every cell to the nearest cell of another region or beyond the picture, at least 1.
fn depths(cells: &[u8], size: UVec2) -> Vec<u16> {
    let (width, height) = (size.x as usize, size.y as usize);
    let mut depth = vec![1u16; cells.len()];
    let same = |a: usize, b: usize| region_of(cells[a]) == region_of(cells[b]);
    for at in 0..cells.len() {
        let (x, y) = (at % width, at / width);
        let edge = x == 0 || y == 0 || x + 1 == width || y + 1 == height;
        let touches =
            || !(same(at, at - 1) && same(at, at + 1) && same(at, at - width) && same(at, at + width));
        if !(edge || touches()) {
            depth[at] = 1 + depth[at - 1].min(depth[at - width]);
        }
    }
    for at in (0..cells.len()).rev() {
        if depth[at] > 1 {
            depth[at] = depth[at].min(1 + depth[at + 1].min(depth[at + width]));
        }
    }
    depth
}
