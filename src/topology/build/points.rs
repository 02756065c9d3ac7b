//! Nearest neighbours of points: each joined to the k nearest, found with a k-d tree.
//!
//! Equal distances are decided by the smaller index, so that a network depends on the points alone; a tree of our own, because crates
//! for it leave that order open.

use crate::error::{Error, Result};
use crate::topology::Network;
use rayon::prelude::*;

/// Points joined to their `k` nearest others, an edge where either is among the other's; `weight` gives it from the distance.
///
/// Points are anything that becomes `[f32; 3]` (glam's `Vec3`, arrays); points of the plane have z = 0. Points that coincide are
/// neighbours at distance 0.
///
/// Errors: [`Error::Value`] for a point that is not finite, by its index, and for weights that no edge may have.
pub fn nearest<P>(points: &[P], k: usize, weight: impl Fn(f64) -> f64) -> Result<Network>
where
    P: Copy + Into<[f32; 3]>,
{
    let points: Vec<[f64; 3]> = points.iter().map(|p| (*p).into().map(f64::from)).collect();
    if let Some(i) = points.iter().position(|p| p.iter().any(|x| !x.is_finite())) {
        return Err(Error::value(
            format!("point {i}"),
            "finite coordinates",
            format!("{:?}", points[i]),
            "leave the point out",
        ));
    }
    super::lattice::check_size("network of neighbours", points.len(), points.len().saturating_mul(2 * k))?;
    let tree = Tree::new(&points);
    let lists: Vec<Vec<(f64, u32)>> =
        (0..points.len() as u32).into_par_iter().map(|i| tree.nearest(i, k)).collect();
    let mut edges: Vec<(u32, u32, f32)> = Vec::new();
    for (i, list) in lists.iter().enumerate() {
        for &(square, j) in list {
            let i = i as u32;
            // Both lists may hold the pair; the one of the smaller index gives it then.
            let also = lists[j as usize].iter().any(|e| e.1 == i);
            if i < j || !also {
                edges.push((i, j, weight(square.sqrt()) as f32));
            }
        }
    }
    Network::undirected_weighted(points.len(), &edges)
}

/// Points in a balanced tree: the middle of each range splits it along its widest axis.
struct Tree<'a> {
    points: &'a [[f64; 3]],
    order: Vec<u32>,
    axis: Vec<u8>,
}

const LEAF: usize = 8;

impl<'a> Tree<'a> {
    fn new(points: &'a [[f64; 3]]) -> Self {
        let mut order: Vec<u32> = (0..points.len() as u32).collect();
        let mut axis = vec![0; points.len()];
        let mut ranges = vec![(0, points.len())];
        while let Some((from, to)) = ranges.pop() {
            if to - from <= LEAF {
                continue;
            }
            let part = &mut order[from..to];
            let width = |a: usize| {
                let along = part.iter().map(|i| points[*i as usize][a]);
                let (low, high) =
                    along.fold((f64::INFINITY, f64::NEG_INFINITY), |(l, h), x| (l.min(x), h.max(x)));
                high - low
            };
            let widths = [width(0), width(1), width(2)];
            let widest = (0..3).fold(0, |best, a| if widths[a] > widths[best] { a } else { best });
            let middle = (to - from) / 2;
            part.select_nth_unstable_by(middle, |i, j| {
                points[*i as usize][widest].total_cmp(&points[*j as usize][widest]).then(i.cmp(j))
            });
            axis[from + middle] = widest as u8;
            ranges.push((from, from + middle));
            ranges.push((from + middle + 1, to));
        }
        Self { points, order, axis }
    }

    /// Squares of the distances to the `k` nearest others, and which they are, nearest first.
    fn nearest(&self, of: u32, k: usize) -> Vec<(f64, u32)> {
        let here = self.points[of as usize];
        let mut best: Vec<(f64, u32)> = Vec::with_capacity(k + 1);
        if k == 0 {
            return best;
        }
        let square = |j: u32| -> f64 {
            self.points[j as usize].iter().zip(here).map(|(a, b)| (a - b) * (a - b)).sum()
        };
        let consider = |best: &mut Vec<(f64, u32)>, j: u32| {
            let found = (square(j), j);
            let after = |e: &(f64, u32)| e.0.total_cmp(&found.0).then(e.1.cmp(&found.1)).is_lt();
            let at = best.partition_point(after);
            if j != of && at < k {
                best.insert(at, found);
                best.truncate(k);
            }
        };
        // Ranges still to be searched with the least square distance of anything in them.
        let mut ranges = vec![(0, self.order.len(), 0.0_f64)];
        while let Some((from, to, least)) = ranges.pop() {
            // Equal distances may still win by their index.
            if best.len() == k && best.last().is_some_and(|e| least > e.0) {
                continue;
            }
            if to - from <= LEAF {
                for j in &self.order[from..to] {
                    consider(&mut best, *j);
                }
                continue;
            }
            let middle = from + (to - from) / 2;
            let j = self.order[middle];
            consider(&mut best, j);
            let axis = usize::from(self.axis[middle]);
            let gap = here[axis] - self.points[j as usize][axis];
            let (near, far) = ((from, middle), (middle + 1, to));
            let (near, far) = if gap <= 0.0 { (near, far) } else { (far, near) };
            ranges.push((far.0, far.1, least.max(gap * gap)));
            ranges.push((near.0, near.1, least));
        }
        best
    }
}
