//! Heavy paths: a forest as paths, each going on into its largest subtree, so that few paths lie between any node and its root.
//!
//! Sums over a forest run along one path as a scan and from path to path in rounds. A path that hangs below another by a light edge
//! has less than half of the nodes above, so there are at most log₂ n + 1 rounds whatever the shape: one for a path, two for a star.

use super::Forest;
use crate::topology::NONE;

/// A forest's heavy paths, laid out for scans.
///
/// A *spot* is a position in this layout: the paths of a round one after the other, each from its top down. The paths below a spot by
/// light edges are contiguous too, and paths are numbered in that order, so one array gives them: paths `light_starts[s]` to
/// `light_starts[s + 1]`.
#[derive(Clone, Debug, PartialEq)]
pub struct HeavyPaths {
    /// `[n]` the node at each spot.
    pub nodes: Vec<u32>,
    /// `[n]` the spot of each node.
    pub spots: Vec<u32>,
    /// `[n]` by spot: its path.
    pub path_of: Vec<u32>,
    /// `[paths + 1]` the spots of each path.
    pub path_starts: Vec<u32>,
    /// `[paths]` the spot that each path hangs from, [`NONE`] for the paths of roots.
    pub above: Vec<u32>,
    /// `[n + 1]` by spot: the paths that hang from it.
    pub light_starts: Vec<u32>,
    /// `[rounds + 1]` the paths of each round: round r has those that r light edges lie above.
    pub rounds: Vec<u32>,
    /// `[n]` by spot: length of the edge up, 0 for roots.
    pub lengths: Vec<f32>,
}

impl HeavyPaths {
    /// Decomposes a forest in O(n).
    pub fn new(forest: &Forest) -> Self {
        let n = forest.nodes();
        let sizes = forest.sizes();
        let order = forest.order();
        let children = |node: u32| {
            let place = forest.places()[node as usize] as usize;
            &order[forest.child_starts()[place] as usize..forest.child_starts()[place + 1] as usize]
        };
        // Of equal children the first, so that layouts repeat.
        let heavy = |node: u32| {
            children(node)
                .iter()
                .copied()
                .reduce(|a, b| if sizes[b as usize] > sizes[a as usize] { b } else { a })
        };
        let (mut nodes, mut path_of) = (Vec::with_capacity(n), Vec::with_capacity(n));
        let (mut path_starts, mut above, mut rounds) = (vec![0], Vec::new(), vec![0]);
        let mut light_starts = Vec::with_capacity(n + 1);
        // Tops of the next round's paths with the spots they hang from.
        let mut tops: Vec<(u32, u32)> = order[..forest.trees()].iter().map(|r| (*r, NONE)).collect();
        let mut paths = tops.len() as u32;
        while !tops.is_empty() {
            let mut below = Vec::new();
            for (top, from) in tops {
                let mut node = Some(top);
                while let Some(i) = node {
                    let next = heavy(i);
                    light_starts.push(paths);
                    let lights = children(i).iter().copied().filter(|c| Some(*c) != next);
                    let before = below.len();
                    below.extend(lights.map(|c| (c, nodes.len() as u32)));
                    paths += (below.len() - before) as u32;
                    nodes.push(i);
                    path_of.push(above.len() as u32);
                    node = next;
                }
                path_starts.push(nodes.len() as u32);
                above.push(from);
            }
            rounds.push(above.len() as u32);
            tops = below;
        }
        light_starts.push(paths);
        let mut spots = vec![0; n];
        for (spot, node) in nodes.iter().enumerate() {
            spots[*node as usize] = spot as u32;
        }
        let lengths = nodes.iter().map(|i| forest.lengths()[*i as usize]).collect();
        Self { nodes, spots, path_of, path_starts, above, light_starts, rounds, lengths }
    }

    /// Rounds of paths, at most log₂ n + 1.
    pub fn round_count(&self) -> usize {
        self.rounds.len() - 1
    }
}
