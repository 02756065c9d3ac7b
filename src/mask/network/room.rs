//! Whether a mask on a grid of tokens has room on a device, known before a network of that many nodes is built.

use super::spec::{GraphSpec, NetworkMask, NetworkMaskSpec};
use crate::error::{Error, Result};
use crate::kernel::Caps;
use crate::mask::GridHeat;
use crate::mask::operator::MaskOperator as _;
use crate::topology::Laplacian;
use crate::topology::build::Reach;
use crate::topology::chebyshev::coefficients;

/// Edges of a grid of `rows` × `cols` tokens, each from both of its ends; a torus has no fewer.
fn entries(rows: u64, cols: u64, reach: Reach) -> u64 {
    let beside = rows * (cols - 1) + (rows - 1) * cols;
    let across = 2 * (rows - 1) * (cols - 1);
    2 * match reach {
        Reach::Sides => beside,
        Reach::Corners => beside + across,
    }
}

impl NetworkMask {
    /// Refuses a mask on a grid, torus or picture of `rows` × `cols` tokens whose lists of edges a device cannot bind. Masks by distance are
    /// left to their own types, and files to their readers.
    ///
    /// Errors: [`Error::Limit`].
    pub fn check_room(&self, rows: u32, cols: u32, caps: &Caps) -> Result<()> {
        let (reach, torus) = match &self.graph {
            GraphSpec::Image { reach, .. } | GraphSpec::Grid(reach) => (*reach, false),
            GraphSpec::Torus(reach) => (*reach, true),
            GraphSpec::File { .. } => return Ok(()),
        };
        if rows == 0 || cols == 0 {
            return Ok(());
        }
        let (r, c) = (u64::from(rows), u64::from(cols));
        let slots = if reach == Reach::Sides { 4 } else { 8 };
        let of_grid = (format!("weights of the edges [{rows}, {cols}, {slots}]"), 4 * slots * r * c);
        // Edges that `cut` leaves out are not known yet, and a picture's lists are those of its grid in series alone.
        let lists = match &self.graph {
            GraphSpec::Image { cut, .. } if *cut > 0.0 => None,
            _ => Some((format!("list of the edges of {rows} × {cols} tokens"), 4 * entries(r, c, reach))),
        };
        let needed = match self.spec {
            NetworkMaskSpec::Diffusion { .. } if self.may_be_closed(rows, cols, torus)? => None,
            NetworkMaskSpec::Diffusion { .. } | NetworkMaskSpec::Communicability { .. } if !torus => {
                Some(of_grid)
            }
            NetworkMaskSpec::Diffusion { .. }
            | NetworkMaskSpec::Communicability { .. }
            | NetworkMaskSpec::Walk { sampled: None, .. }
            | NetworkMaskSpec::PageRank { .. }
            | NetworkMaskSpec::Steps { .. } => lists,
            _ => None,
        };
        let allowed = caps.storage_binding.saturating_sub(u64::from(caps.storage_alignment));
        match needed.filter(|(_, bytes)| *bytes > allowed) {
            None => Ok(()),
            Some((what, requested)) => Err(Error::Limit {
                what: format!("mask {}: {what}", self.spec),
                requested,
                allowed,
                remedy: "use fewer tokens, or a device with larger bindings".into(),
            }),
        }
    }

    /// Whether heat on this grid may take its closed form, which reads no list of edges: it does where that costs less than the series, whose
    /// terms are known from here up to those of the greatest eigenvalue that a grid can have, 8.
    fn may_be_closed(&self, rows: u32, cols: u32, torus: bool) -> Result<bool> {
        let plain = matches!(self.graph, GraphSpec::Grid(Reach::Sides) | GraphSpec::Torus(Reach::Sides));
        let NetworkMaskSpec::Diffusion { t, laplacian: Laplacian::Combinatorial, rtol } = self.spec else {
            return Ok(false);
        };
        if !plain {
            return Ok(false);
        }
        // A time that is too long for a series is told by the series.
        let Ok(terms) = coefficients(4.0 * t, rtol) else { return Ok(true) };
        let tokens = f64::from(rows) * f64::from(cols);
        let series = (terms.len() - 1) as f64 * (2.0 * 4.0 + 6.0) * tokens;
        Ok(GridHeat::new(&[rows, cols], torus, &[t])?.flop() < series)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::Driver;

    #[test]
    fn edges_of_grids_are_counted_as_they_are_built() {
        use crate::topology::build::{grid, torus};
        for (rows, cols) in [(1, 1), (1, 5), (4, 3), (7, 8)] {
            for reach in [Reach::Sides, Reach::Corners] {
                let counted = entries(rows as u64, cols as u64, reach);
                assert_eq!(
                    grid(&[rows, cols], reach).expect("a grid").entries() as u64,
                    counted,
                    "{rows} × {cols}"
                );
                assert!(
                    torus(&[rows, cols], reach).expect("a torus").entries() as u64 >= counted,
                    "{rows} × {cols}"
                );
            }
        }
    }

    #[test]
    fn what_has_no_room_is_told_without_being_built() {
        let caps = Caps {
            driver: Driver::Gpu,
            workgroup_bytes: 16_384,
            invocations: 256,
            storage_binding: 128 << 20,
            buffer: 256 << 20,
            storage_buffers: 8,
            texture_rows: 8192,
            storage_alignment: 32,
            groups: 65_535,
            loop_rounds: u64::MAX,
            subgroup_lanes: 0,
            memory_budget: 1 << 30,
        };
        let check = |mask: &str, graph: &str, side: u32| {
            let mask =
                NetworkMask { spec: mask.parse().expect("a mask"), graph: graph.parse().expect("a graph") };
            mask.check_room(side, side, &caps).map_err(|e| e.to_string())
        };
        for mask in ["diffusion:t=1", "communicability:t=1", "walk", "pagerank", "steps:p=1"] {
            for graph in ["image", "grid4", "grid8", "torus8"] {
                // Billions of edges: none of them may be made.
                let message = check(mask, graph, 15_000).expect_err(mask);
                assert!(message.contains("edges") && message.contains("fewer tokens"), "{message}");
                assert_eq!(check(mask, graph, 1000), Ok(()), "{mask} on {graph}");
            }
        }
        // Closed forms, and masks that have no list of edges on the device.
        assert_eq!(check("diffusion:t=10000", "grid4", 15_000), Ok(()));
        assert_eq!(check("tree:rate=1", "grid4", 15_000), Ok(()));
    }
}
