//! Tiles of all pairs of rows and columns: the shapes that shaders such as `linalg/matmul_tile.wgsl` take from their constants.

use crate::kernel::{Caps, Constant, Loads};

/// A workgroup of `row_lanes` × `col_lanes` threads, each with `block` × `block` results in registers, that goes through what the pairs
/// are summed over `depth` steps at a time, both operands' parts being in workgroup memory.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Tile {
    /// Rows, and columns, of one thread: 4 or 8.
    pub(crate) block: u32,
    /// Threads below each other.
    pub(crate) row_lanes: u32,
    /// Threads side by side.
    pub(crate) col_lanes: u32,
    /// Steps at a time.
    pub(crate) depth: u32,
}

/// 64 × 64 by 64 threads: what GPUs take by themselves.
pub(crate) const TILE64: Tile = Tile { block: 8, row_lanes: 8, col_lanes: 8, depth: 16 };
/// The same where workgroup memory is scarce.
pub(crate) const TILE64_SHALLOW: Tile = Tile { depth: 8, ..TILE64 };
/// More reuse of what is loaded, for results that fill a device with large tiles.
pub(crate) const TILE128X64: Tile = Tile { row_lanes: 16, ..TILE64 };
/// As many threads as [`TILE64`], for few columns.
pub(crate) const TILE128X32: Tile = Tile { row_lanes: 16, col_lanes: 4, ..TILE64 };
/// Four times as many groups, for results too small to fill a device otherwise.
pub(crate) const TILE32: Tile = Tile { block: 4, ..TILE64 };

impl Tile {
    const fn rows(&self) -> u32 {
        self.block * self.row_lanes
    }

    const fn cols(&self) -> u32 {
        self.block * self.col_lanes
    }

    /// The shader's constants.
    pub(crate) fn constants(&self) -> Vec<(&'static str, Constant)> {
        vec![
            ("BLOCK", Constant::U32(self.block)),
            ("ROW_LANES", Constant::U32(self.row_lanes)),
            ("COL_LANES", Constant::U32(self.col_lanes)),
            ("TILE_K", Constant::U32(self.depth)),
        ]
    }

    /// Groups for `batches` results of `rows` × `cols`.
    pub(crate) fn groups(&self, batches: u64, rows: u32, cols: u32) -> u64 {
        batches * u64::from(rows.div_ceil(self.rows())) * u64::from(cols.div_ceil(self.cols()))
    }

    /// Words loaded for so many pairs and steps.
    pub(crate) fn loads(&self, pairs: f64) -> Loads {
        let [rows, cols, block] = [self.rows(), self.cols(), self.block].map(f64::from);
        Loads {
            storage: pairs * (1.0 / rows + 1.0 / cols),
            workgroup: pairs * 2.0 / block,
            ..Loads::default()
        }
    }

    /// Whether a device has the threads and the workgroup memory; `padded` of the operands have a vec4 of padding for each step.
    pub(crate) fn fits(&self, caps: &Caps, padded: u32) -> bool {
        let bytes = 4 * self.depth * (self.rows() + self.cols() + 4 * padded);
        caps.workgroup_bytes >= bytes && caps.invocations >= self.row_lanes * self.col_lanes
    }
}
