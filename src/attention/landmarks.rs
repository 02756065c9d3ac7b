//! Choosing landmarks: a table of cells of the token grid, made on the CPU, whose means the GPU takes.

use crate::error::{Error, Result};
use crate::graph::Graph;
use crate::kernels::laplacian::pool_tokens;
use crate::tensor::{DType, HostData, HostTensor, Shape, Tensor};
use crate::words::counted;

/// The landmarks of attention over a grid of tokens, `rows × cols` in raster order (1 × n for a sequence).
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Landmarks {
    /// Means over cells of `cell × cell` tokens; the grid's sides must be multiples of it.
    Pooled {
        /// Side of a cell in tokens.
        cell: u32,
    },
    /// Means over a fixed `side × side` grid of cells at any resolution; ragged cells overlap by a token.
    Adaptive {
        /// Cells along each side.
        side: u32,
    },
    /// The token at the centre of each of `side × side` cells: keeps the variance that means lose.
    Strided {
        /// Cells along each side.
        side: u32,
    },
    /// Half of the pooled cells from the keys and half from the queries.
    Mixed {
        /// Side of a cell in tokens.
        cell: u32,
    },
    /// Means over `count` consecutive segments; the last segments are one token longer where they do not divide evenly.
    Segments {
        /// Number of segments.
        count: u32,
    },
    /// These key tokens.
    Given {
        /// Token numbers.
        tokens: Vec<u32>,
    },
}

impl Default for Landmarks {
    fn default() -> Self {
        Self::Strided { side: 7 }
    }
}

impl Landmarks {
    /// How many there are meant to be, whether or not a grid has as many tokens.
    pub fn wanted(&self, tokens: u32) -> u64 {
        match self {
            Self::Pooled { cell } | Self::Mixed { cell } => {
                u64::from(tokens) / (u64::from(*cell) * u64::from(*cell)).max(1)
            }
            Self::Adaptive { side } | Self::Strided { side } => u64::from(*side) * u64::from(*side),
            Self::Segments { count } => u64::from(*count),
            Self::Given { tokens } => tokens.len() as u64,
        }
    }

    /// The cells on a grid: source, first and end row, first and end column each.
    ///
    /// Errors: [`Error::Value`] for more landmarks than tokens, cells that do not divide the grid, tokens outside.
    pub fn cells(&self, rows: u32, cols: u32) -> Result<Vec<[u32; 5]>> {
        let tokens = rows * cols;
        let fits = |count: u64| (1..=u64::from(tokens)).contains(&count);
        let out_of_range = |got: String, remedy: String| {
            let most = counted(tokens, "token", "tokens");
            let expected = format!("1 to the {most} of the {cols} × {rows} grid");
            Error::value("number of landmarks", expected, got, remedy)
        };
        let count_fits = |count: u64| match fits(count) {
            true => Ok(()),
            false => Err(out_of_range(count.to_string(), "use fewer landmarks or more tokens".into())),
        };
        let side_fits = |side: u32| match u64::from(side) * u64::from(side) {
            count if fits(count) => Ok(()),
            count => Err(out_of_range(
                format!("{side} × {side} = {count}"),
                format!("use a side of 1 to {}, or more tokens", tokens.isqrt()),
            )),
        };
        let square = |side: u32| (0..side * side).map(move |i| (i / side, i % side));
        match self {
            Self::Pooled { cell } | Self::Mixed { cell } => {
                if *cell == 0 || !rows.is_multiple_of(*cell) || !cols.is_multiple_of(*cell) {
                    return Err(Error::value(
                        "side of pooled cells",
                        format!("a divisor of both sides of the {cols} × {rows} grid"),
                        cell,
                        "use adaptive landmarks for other grids",
                    ));
                }
                let (down, across) = (rows / cell, cols / cell);
                let count = down * across;
                count_fits(count.into())?;
                let at = |source: u32, i: u32| {
                    let (a, b) = (i / across, i % across);
                    [source, a * cell, (a + 1) * cell, b * cell, (b + 1) * cell]
                };
                Ok(match self {
                    // Rows 0, 2, 4, … of the stack [cells of the keys; cells of the queries].
                    Self::Mixed { .. } => {
                        (0..count).map(|l| 2 * l).map(|i| at(i / count, i % count)).collect()
                    }
                    _ => (0..count).map(|i| at(0, i)).collect(),
                })
            }
            Self::Adaptive { side } => {
                side_fits(*side)?;
                let span = |a: u32, length: u32| (a * length / side, ((a + 1) * length).div_ceil(*side));
                let cell = |(a, b)| {
                    let ((r0, r1), (c0, c1)) = (span(a, rows), span(b, cols));
                    [0, r0, r1, c0, c1]
                };
                Ok(square(*side).map(cell).collect())
            }
            Self::Strided { side } => {
                side_fits(*side)?;
                let centre = |a: u32, length: u32| (2 * a + 1) * length / (2 * side);
                let cell = |(a, b)| {
                    let (r, c) = (centre(a, rows), centre(b, cols));
                    [0, r, r + 1, c, c + 1]
                };
                Ok(square(*side).map(cell).collect())
            }
            Self::Segments { count } => {
                count_fits((*count).into())?;
                let short = tokens / count;
                let short_ones = (short + 1) * count - tokens;
                let start = |i: u32| i * short + i.saturating_sub(short_ones);
                // Segments run along the sequence: the grid counts as one row.
                Ok((0..*count).map(|i| [0, 0, 1, start(i), start(i + 1)]).collect())
            }
            Self::Given { tokens: list } => {
                count_fits(list.len() as u64)?;
                if let Some(outside) = list.iter().find(|t| **t >= tokens) {
                    return Err(Error::value(
                        "landmark token",
                        format!("0 to {}", tokens - 1),
                        outside,
                        "choose tokens of the grid",
                    ));
                }
                Ok(list.iter().map(|t| [0, t / cols, t / cols + 1, t % cols, t % cols + 1]).collect())
            }
        }
    }

    /// Records the landmarks of keys `[b, h, n, d]` (and queries, for `mixed`) on a grid: (landmarks `[b, h, m, d]`,
    /// which of them exist `[b, h, m]`).
    ///
    /// Errors: as [`Self::cells`], and tokens that are not the grid's.
    pub fn record(
        &self,
        graph: &mut Graph,
        k: Tensor,
        q: Option<Tensor>,
        grid: (u32, u32),
        key_mask: Option<Tensor>,
    ) -> Result<(Tensor, Tensor)> {
        // Segments run along the sequence, so they see the grid as one row.
        let (rows, cols) = if matches!(self, Self::Segments { .. }) { (1, grid.0 * grid.1) } else { grid };
        if rows * cols != k.dim(2) {
            return Err(Error::value(
                "token grid",
                format!("rows × columns = {} keys", k.dim(2)),
                format!("{rows} × {cols}"),
                "give the grid the keys lie on",
            ));
        }
        let cells = self.cells(rows, cols)?;
        let m = u32::try_from(cells.len())
            .map_err(|_| Error::value("landmarks", "fewer than 2^32", cells.len(), "use fewer"))?;
        let table = HostTensor::new(Shape::from([m, 5]), HostData::U32(cells.concat()))?;
        let table = graph.constant("landmark cells", table);
        let out = graph.transient("landmarks", [k.dim(0), k.dim(1), m, k.dim(3)], DType::F32);
        let valid = graph.transient("landmarks exist", [k.dim(0), k.dim(1), m], DType::U32);
        let q = q.filter(|_| matches!(self, Self::Mixed { .. }));
        let params = pool_tokens::Params { grid_cols: cols };
        graph.pass(
            &pool_tokens::SPEC,
            &params,
            &[Some(k), q, Some(table), key_mask, Some(out), Some(valid)],
        )?;
        Ok((out, valid))
    }
}
