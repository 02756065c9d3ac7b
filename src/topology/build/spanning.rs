//! Spanning forests by Kruskal's algorithm: edges in order of weight, each kept that joins two trees.
//!
//! Equal weights are taken in the order of the edges, so results repeat; a network of several components gives as many trees.

use crate::error::Result;
use crate::topology::statistics::Sets;
use crate::topology::{Forest, Network};

/// Which edges a spanning forest prefers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Extreme {
    /// Those of least weight: weights are lengths or differences.
    #[default]
    Least,
    /// Those of greatest weight: weights are affinities.
    Most,
}

/// The spanning forest of an undirected network with the least (or greatest) sum of weights, its trees rooted at their least nodes,
/// weights as lengths. Loops are left out.
///
/// Errors: [`crate::Error::Value`] for a directed network.
pub fn spanning_forest(network: &Network, extreme: Extreme) -> Result<Forest> {
    network.check_symmetric("a spanning forest")?;
    let edges: Vec<_> = network.edges().filter(|(i, j, _)| i < j).collect();
    let kept = kruskal(network.nodes(), &edges, extreme);
    Forest::from_network(&Network::undirected_weighted(network.nodes(), &kept)?, &[])
}

/// The edges (i, j, weight) of a spanning forest; weights are at least 0.
pub(super) fn kruskal(nodes: usize, edges: &[(u32, u32, f32)], extreme: Extreme) -> Vec<(u32, u32, f32)> {
    // Bits of numbers that are not negative sort like the numbers; the edge's own number behind them decides between equals and needs
    // no stable sort.
    let bits = |w: f32| if extreme == Extreme::Least { w.to_bits() } else { !w.to_bits() };
    let mut keys: Vec<u64> =
        edges.iter().enumerate().map(|(e, edge)| u64::from(bits(edge.2)) << 32 | e as u64).collect();
    keys.sort_unstable();
    let mut sets = Sets::new(nodes);
    let mut kept = Vec::with_capacity(nodes.saturating_sub(1));
    for key in keys {
        let edge = edges[(key & 0xffff_ffff) as usize];
        if sets.join(edge.0, edge.1) {
            kept.push(edge);
            if kept.len() + 1 == nodes {
                break;
            }
        }
    }
    kept
}
