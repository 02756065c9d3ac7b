//! Regular networks: grids and tori of any number of axes, rings, paths, stars, cubes and complete networks; all edges weigh 1.

use crate::error::{Error, Result};
use crate::topology::Network;
use crate::topology::network::MOST;

/// Which nodes of a grid are neighbours.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Reach {
    /// Those one step along an axis: 4 in the plane, 6 in space.
    #[default]
    Sides,
    /// Those that differ by at most one on every axis: 8 in the plane, 26 in space.
    Corners,
}

impl Reach {
    /// Steps to all neighbours over so many axes, in raster order.
    pub(crate) fn steps(self, axes: usize) -> Vec<Vec<i64>> {
        let all = (0..3_usize.pow(axes as u32)).map(|code| -> Vec<i64> {
            (0..axes).rev().map(|a| (code / 3_usize.pow(a as u32) % 3) as i64 - 1).collect()
        });
        let length = |s: &Vec<i64>| s.iter().map(|x| x.abs()).sum::<i64>();
        all.filter(|s| length(s) > 0 && (self == Self::Corners || length(s) == 1)).collect()
    }
}

/// A grid with the given sides (1 to 6 of them), nodes in raster order, the last axis fastest.
///
/// Errors: [`Error::Value`] for no axis, more than 6, or more nodes or edges than u32 counts.
pub fn grid(sides: &[usize], reach: Reach) -> Result<Network> {
    lattice(sides, reach, false)
}

/// A grid whose borders are joined. Two ways round to the same node (a side of 2) are one edge, and a side of 1 has no loops.
///
/// Errors: as [`grid`].
pub fn torus(sides: &[usize], reach: Reach) -> Result<Network> {
    lattice(sides, reach, true)
}

fn lattice(sides: &[usize], reach: Reach, joined: bool) -> Result<Network> {
    if sides.is_empty() || sides.len() > 6 {
        return Err(Error::value("axes of a grid", "1 to 6", sides.len(), "give the length of each side"));
    }
    let nodes = sides.iter().try_fold(1_usize, |n, s| n.checked_mul(*s)).unwrap_or(usize::MAX);
    let steps = reach.steps(sides.len());
    check_size("grid", nodes, nodes.saturating_mul(steps.len()))?;
    let (mut starts, mut columns) = (vec![0], Vec::with_capacity(nodes * steps.len()));
    let mut at = vec![0_i64; sides.len()];
    for node in 0..nodes {
        let first = columns.len();
        for step in &steps {
            let there = at.iter().zip(step).zip(sides).try_fold(0_i64, |sum, ((x, s), side)| {
                let side = *side as i64;
                let y = if joined { (x + s).rem_euclid(side) } else { x + s };
                (0..side).contains(&y).then_some(sum * side + y)
            });
            columns.extend(there.filter(|j| *j != node as i64).map(|j| j as u32));
        }
        if joined {
            let mut row = columns.split_off(first);
            row.sort_unstable();
            row.dedup();
            columns.extend(row);
        }
        starts.push(columns.len() as u32);
        for (x, side) in at.iter_mut().zip(sides).rev() {
            *x += 1;
            if *x < *side as i64 {
                break;
            }
            *x = 0;
        }
    }
    Ok(Network::of_rows(starts, columns, None))
}

/// Nodes in a row.
///
/// Errors: [`Error::Value`] for too many nodes, like all of these.
pub fn path(nodes: usize) -> Result<Network> {
    grid(&[nodes], Reach::Sides)
}

/// A closed row; a ring of 2 is one edge, of 1 a lone node.
pub fn ring(nodes: usize) -> Result<Network> {
    torus(&[nodes], Reach::Sides)
}

/// Node 0 joined to all others.
pub fn star(nodes: usize) -> Result<Network> {
    check_size("star", nodes, nodes.saturating_mul(2))?;
    let edges: Vec<_> = (1..nodes as u32).map(|i| (0, i)).collect();
    Network::undirected(nodes, &edges)
}

/// Every node joined to every other.
pub fn complete(nodes: usize) -> Result<Network> {
    check_size("complete network", nodes, nodes.saturating_mul(nodes))?;
    let mut starts = vec![0];
    let mut columns = Vec::with_capacity(nodes * nodes.saturating_sub(1));
    for i in 0..nodes as u32 {
        columns.extend((0..nodes as u32).filter(|j| *j != i));
        starts.push(columns.len() as u32);
    }
    Ok(Network::of_rows(starts, columns, None))
}

/// The cube of so many dimensions: 2^d nodes, neighbours differ in one bit.
pub fn hypercube(dimensions: usize) -> Result<Network> {
    let nodes = if dimensions < 32 { 1_usize << dimensions } else { usize::MAX };
    check_size("hypercube", nodes, nodes.saturating_mul(dimensions))?;
    let (mut starts, mut columns) = (vec![0], Vec::with_capacity(nodes * dimensions));
    for i in 0..nodes as u32 {
        let mut row: Vec<u32> = (0..dimensions).map(|d| i ^ (1 << d)).collect();
        row.sort_unstable();
        columns.extend(row);
        starts.push(columns.len() as u32);
    }
    Ok(Network::of_rows(starts, columns, None))
}

pub(super) fn check_size(what: &str, nodes: usize, entries: usize) -> Result<()> {
    if nodes <= MOST && entries <= MOST {
        return Ok(());
    }
    let count = |n: usize| if n == usize::MAX { "too many".into() } else { n.to_string() };
    Err(Error::value(
        format!("nodes and edges of a {what}"),
        format!("at most {MOST} of each"),
        format!("{} and {}", count(nodes), count(entries)),
        "make it smaller",
    ))
}
