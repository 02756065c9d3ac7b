//! Distances along edges: steps between all pairs (64 sources at a time), balls of few steps, and weighted shortest paths as an oracle.

use super::Network;
use crate::error::{Error, Result};
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Most bytes of a table of all pairs.
pub const MOST_BYTES: u64 = 1 << 30;

/// Steps as a table holds them; the greatest value means that there is no way.
pub trait Steps: Copy + PartialEq + Send {
    /// No way.
    const UNREACHABLE: Self;
    /// A number of steps below [`Self::UNREACHABLE`], or none if it does not fit.
    fn of(steps: u32) -> Option<Self>;
}

impl Steps for u8 {
    const UNREACHABLE: Self = Self::MAX;
    fn of(steps: u32) -> Option<Self> {
        Self::try_from(steps).ok().filter(|s| *s != Self::MAX)
    }
}

impl Steps for u16 {
    const UNREACHABLE: Self = Self::MAX;
    fn of(steps: u32) -> Option<Self> {
        Self::try_from(steps).ok().filter(|s| *s != Self::MAX)
    }
}

/// Steps from every node i to every node j along edges, `[n, n]` with row i; weights are not looked at.
///
/// Breadth-first from 64 sources at once, one bit each, visiting only nodes where a bit arrived: O(n / 64 · edges) where searches overlap
/// (small diameters), O(n · edges) at worst.
///
/// Errors: [`Error::Value`] for a distance that does not fit, and a table of more than [`MOST_BYTES`].
pub fn steps<T: Steps>(network: &Network) -> Result<Vec<T>> {
    let n = network.nodes();
    let bytes = (n as u64).saturating_mul(n as u64).saturating_mul(size_of::<T>() as u64);
    if bytes > MOST_BYTES {
        return Err(Error::value(
            "distances of all pairs",
            format!("at most {} MiB", MOST_BYTES >> 20),
            format!("{} MiB for {n} nodes", bytes >> 20),
            "cut them off after a few steps (`balls`), or use a diffusion",
        ));
    }
    let mut out = vec![T::UNREACHABLE; n * n];
    let mut seen = vec![0_u64; n];
    let mut arrived = vec![0_u64; n];
    for first in (0..n).step_by(64) {
        let sources = first..n.min(first + 64);
        seen.fill(0);
        // Nodes with the bits of the sources that reached them in the last step.
        let mut front: Vec<(u32, u64)> = sources.map(|i| (i as u32, 1 << (i - first))).collect();
        for (i, bits) in &front {
            seen[*i as usize] |= bits;
        }
        let mut touched: Vec<u32> = Vec::new();
        for step in 0.. {
            if front.is_empty() {
                break;
            }
            let value = T::of(step).ok_or_else(|| {
                Error::value(
                    "distance between two nodes",
                    "steps that the table's element can hold",
                    format!("{step} from a node of {first} to {}", n.min(first + 64) - 1),
                    "use wider elements, or cut distances off (`balls`)",
                )
            })?;
            for &(j, bits) in &front {
                let mut rest = bits;
                while rest != 0 {
                    out[(first + rest.trailing_zeros() as usize) * n + j as usize] = value;
                    rest &= rest - 1;
                }
                for &k in network.neighbours(j) {
                    if bits & !seen[k as usize] != 0 {
                        if arrived[k as usize] == 0 {
                            touched.push(k);
                        }
                        arrived[k as usize] |= bits & !seen[k as usize];
                    }
                }
            }
            front.clear();
            for k in touched.drain(..) {
                let bits = std::mem::take(&mut arrived[k as usize]);
                seen[k as usize] |= bits;
                front.push((k, bits));
            }
        }
    }
    Ok(out)
}

/// All pairs at most so many steps apart, in compressed rows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Balls {
    /// `[n + 1]` beginnings of the rows.
    pub starts: Vec<u32>,
    /// `[z]` nodes around each node, itself included, ascending.
    pub columns: Vec<u32>,
    /// `[z]` their distances in steps.
    pub steps: Vec<u8>,
}

/// The nodes at most `radius` steps from each.
///
/// Errors: [`Error::Value`] for more than `most` pairs: the balls hold too much of the network.
pub fn balls(network: &Network, radius: u8, most: usize) -> Result<Balls> {
    let n = network.nodes();
    let mut out = Balls { starts: vec![0], columns: Vec::new(), steps: Vec::new() };
    let mut mark = vec![super::NONE; n];
    let mut row: Vec<(u32, u8)> = Vec::new();
    for i in 0..n as u32 {
        row.clear();
        row.push((i, 0));
        mark[i as usize] = i;
        let mut at = 0;
        while at < row.len() {
            let (j, d) = row[at];
            at += 1;
            if d == radius {
                break;
            }
            for &k in network.neighbours(j) {
                if mark[k as usize] != i {
                    mark[k as usize] = i;
                    row.push((k, d + 1));
                }
            }
        }
        if out.columns.len() + row.len() > most.min(super::network::MOST) {
            return Err(Error::value(
                format!("pairs at most {radius} steps apart"),
                format!("at most {most}"),
                format!("more, at node {i} of {n}"),
                "use a smaller radius, or a dense table of distances",
            ));
        }
        row.sort_unstable();
        out.columns.extend(row.iter().map(|e| e.0));
        out.steps.extend(row.iter().map(|e| e.1));
        out.starts.push(out.columns.len() as u32);
    }
    Ok(out)
}

/// Lengths of the shortest ways from `source`, weights being lengths; infinite where there is none (Dijkstra).
///
/// Errors: [`Error::Value`] if `source` is no node.
pub fn lengths_from(network: &Network, source: u32) -> Result<Vec<f64>> {
    let n = network.nodes();
    if source as usize >= n {
        return Err(Error::value("source of shortest ways", format!("below {n}"), source, "count from 0"));
    }
    let mut length = vec![f64::INFINITY; n];
    length[source as usize] = 0.0;
    // Lengths are not negative, so their bits sort like them.
    let mut heap = BinaryHeap::from([(Reverse(0.0_f64.to_bits()), source)]);
    while let Some((Reverse(bits), i)) = heap.pop() {
        let so_far = f64::from_bits(bits);
        if so_far > length[i as usize] {
            continue;
        }
        for (j, w) in network.row(i) {
            let through = so_far + f64::from(w);
            if through < length[j as usize] {
                length[j as usize] = through;
                heap.push((Reverse(through.to_bits()), j));
            }
        }
    }
    Ok(length)
}
