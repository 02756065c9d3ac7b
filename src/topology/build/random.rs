//! Random networks and trees. The numbers come from counters ([`crate::random`]), so a seed gives the same network everywhere.

use super::lattice::check_size;
use crate::error::{Error, Result};
use crate::random::{Place, Purpose, philox};
use crate::topology::{Forest, NONE, Network};
use std::collections::HashSet;

/// Random numbers one after the other, from one of the streams that made data have.
pub(crate) struct Draws {
    seed: u64,
    counter: [u32; 4],
    words: [u32; 4],
    used: usize,
}

impl Draws {
    pub(crate) fn new(seed: u64, stream: u32) -> Self {
        // A stream below 256 and nothing else cannot be out of bounds; 0 would only repeat another stream's numbers.
        let counter =
            Place { stream: stream % 256, ..Place::of(Purpose::Data) }.counter().unwrap_or_default();
        Self { seed, counter, words: [0; 4], used: 4 }
    }

    pub(crate) fn word(&mut self) -> u32 {
        if self.used == 4 {
            self.words = philox(self.counter, self.seed);
            self.counter[0] = self.counter[0].wrapping_add(1);
            // 2³⁴ numbers on, the channel's bits go on counting.
            if self.counter[0] == 0 {
                self.counter[1] = self.counter[1].wrapping_add(1);
            }
            self.used = 0;
        }
        self.used += 1;
        self.words[self.used - 1]
    }

    /// Uniform in [0, 1), 53 bits.
    pub(crate) fn unit(&mut self) -> f64 {
        let bits = u64::from(self.word()) << 32 | u64::from(self.word());
        (bits >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// Uniform below a bound of at least 1, without bias: words whose product's low part is too small are drawn again.
    pub(crate) fn below(&mut self, bound: u32) -> u32 {
        let least = bound.wrapping_neg() % bound.max(1);
        loop {
            let product = u64::from(self.word()) * u64::from(bound);
            if product as u32 >= least {
                return (product >> 32) as u32;
            }
        }
    }
}

/// Every pair joined with probability `p`, independently (Erdős and Rényi's, in Gilbert's form): O(n + edges).
///
/// Errors: [`Error::Value`] for `p` outside of 0 to 1 or too many nodes.
pub fn erdos_renyi(nodes: usize, p: f64, seed: u64) -> Result<Network> {
    check_share("p of an Erdős–Rényi network", p)?;
    check_size("random network", nodes, (nodes as f64 * nodes as f64 * p) as usize)?;
    if p == 1.0 {
        return super::complete(nodes);
    }
    let mut draws = Draws::new(seed, 1);
    let mut edges = Vec::new();
    // Pairs (i, j), j < i, in order; the gap to the next edge is geometric.
    let (mut i, mut j) = (1_usize, -1_i64);
    while p > 0.0 && i < nodes {
        let gap = ((1.0 - draws.unit()).ln() / (-p).ln_1p()).floor();
        // A gap beyond all pairs ends it; saturated, or the addition below would wrap.
        j = j.saturating_add(1).saturating_add(gap as i64);
        while i < nodes && j >= i as i64 {
            j -= i as i64;
            i += 1;
        }
        if i < nodes {
            edges.push((i as u32, j as u32));
        }
    }
    Network::undirected(nodes, &edges)
}

/// A ring whose nodes are joined to `k` / 2 on each side, each edge's far end moved to a random node with probability `p` (Watts and
/// Strogatz); no loops, no double edges, so a node joined to all others keeps its edge.
///
/// Errors: [`Error::Value`] for an odd `k`, one of at least `nodes`, or `p` outside of 0 to 1.
pub fn small_world(nodes: usize, k: usize, p: f64, seed: u64) -> Result<Network> {
    check_share("p of a small world", p)?;
    check_size("small world", nodes, nodes.saturating_mul(k))?;
    if !k.is_multiple_of(2) || (k > 0 && k >= nodes) {
        return Err(Error::value(
            "k of a small world",
            format!("even and below its {nodes} nodes"),
            k,
            "each node begins with k/2 neighbours on either side",
        ));
    }
    let mut draws = Draws::new(seed, 2);
    let n = nodes as u32;
    let key = |i: u32, j: u32| (i.min(j), i.max(j));
    let mut order: Vec<(u32, u32)> =
        (1..=k as u32 / 2).flat_map(|s| (0..n).map(move |i| (i, (i + s) % n))).collect();
    let mut present: HashSet<(u32, u32)> = order.iter().map(|e| key(e.0, e.1)).collect();
    let mut degree = vec![k as u32; nodes];
    for e in &mut order {
        let (i, j) = *e;
        if draws.unit() >= p || degree[i as usize] >= n - 1 {
            continue;
        }
        let new = loop {
            let candidate = draws.below(n);
            if candidate != i && !present.contains(&key(i, candidate)) {
                break candidate;
            }
        };
        present.remove(&key(i, j));
        present.insert(key(i, new));
        degree[j as usize] -= 1;
        degree[new as usize] += 1;
        e.1 = new;
    }
    Network::undirected(nodes, &order)
}

/// Nodes that come one after the other, each joined to `m` earlier ones chosen in proportion to their degrees (Barabási and Albert);
/// the first m + 1 form a star.
///
/// Errors: [`Error::Value`] for `m` of 0 or at least `nodes`.
pub fn preferential(nodes: usize, m: usize, seed: u64) -> Result<Network> {
    check_size("network", nodes, nodes.saturating_mul(2 * m))?;
    if m == 0 || m >= nodes {
        return Err(Error::value(
            "m of a Barabási–Albert network",
            format!("1 to {}", nodes.saturating_sub(1)),
            m,
            "each new node is joined to m earlier ones",
        ));
    }
    let mut draws = Draws::new(seed, 3);
    // Every end of every edge once: a uniform choice from it is one in proportion to the degree.
    let mut ends: Vec<u32> = Vec::with_capacity(2 * nodes * m);
    let mut edges: Vec<(u32, u32)> = (1..=m as u32).map(|i| (0, i)).collect();
    ends.extend(edges.iter().flat_map(|e| [e.0, e.1]));
    for i in m as u32 + 1..nodes as u32 {
        let mut chosen: Vec<u32> = Vec::with_capacity(m);
        while chosen.len() < m {
            let j = ends[draws.below(ends.len() as u32) as usize];
            if !chosen.contains(&j) {
                chosen.push(j);
            }
        }
        edges.extend(chosen.iter().map(|j| (i, *j)));
        ends.extend(chosen.iter().flat_map(|j| [i, *j]));
    }
    Network::undirected(nodes, &edges)
}

/// A tree drawn uniformly from all labelled trees (by its Prüfer code), rooted at node 0; lengths 1.
///
/// Errors: [`Error::Value`] for too many nodes, like all of these.
pub fn random_tree(nodes: usize, seed: u64) -> Result<Forest> {
    check_size("tree", nodes, nodes)?;
    let mut draws = Draws::new(seed, 4);
    let code: Vec<u32> = (2..nodes).map(|_| draws.below(nodes as u32)).collect();
    let mut degree = vec![1_u32; nodes];
    for i in &code {
        degree[*i as usize] += 1;
    }
    let mut edges: Vec<(u32, u32)> = Vec::with_capacity(nodes);
    // The least leaf is found by a pointer that only rises: a node that becomes a leaf behind it is used at once.
    let mut pointer = 0;
    let mut leaf = NONE;
    for &i in &code {
        if leaf == NONE {
            while degree[pointer] != 1 {
                pointer += 1;
            }
            leaf = pointer as u32;
            pointer += 1;
        }
        edges.push((leaf, i));
        degree[leaf as usize] = 0;
        degree[i as usize] -= 1;
        leaf = if degree[i as usize] == 1 && (i as usize) < pointer { i } else { NONE };
    }
    let rest: Vec<u32> = (0..nodes as u32).filter(|i| degree[*i as usize] == 1).collect();
    if let [a, b] = rest[..] {
        edges.push((a, b));
    }
    Forest::from_network(&Network::undirected(nodes, &edges)?, &[])
}

/// A tree in which every node hangs below one of the earlier ones, each as likely (a recursive tree, about e·ln n high).
pub fn recursive_tree(nodes: usize, seed: u64) -> Result<Forest> {
    check_size("tree", nodes, nodes)?;
    let mut draws = Draws::new(seed, 5);
    let parents: Vec<u32> = (0..nodes as u32).map(|i| if i == 0 { NONE } else { draws.below(i) }).collect();
    Forest::from_parents(&parents, None)
}

/// A path of `spine` nodes from the root 0; the others hang from it in turn.
///
/// Errors: [`Error::Value`] also for a spine of 0 with nodes to hang from it.
pub fn caterpillar(nodes: usize, spine: usize) -> Result<Forest> {
    check_size("tree", nodes, nodes)?;
    if spine == 0 && nodes > 0 {
        return Err(Error::value("spine of a caterpillar", "at least 1 node", spine, "give it a body"));
    }
    let parent = |i: usize| match i {
        0 => NONE,
        _ if i < spine => i as u32 - 1,
        _ => ((i - spine) % spine) as u32,
    };
    Forest::from_parents(&(0..nodes).map(parent).collect::<Vec<_>>(), None)
}

/// A full binary tree: nodes 2i + 1 and 2i + 2 hang below i.
pub fn binary_tree(nodes: usize) -> Result<Forest> {
    check_size("tree", nodes, nodes)?;
    let parents: Vec<u32> = (0..nodes as u32).map(|i| if i == 0 { NONE } else { (i - 1) / 2 }).collect();
    Forest::from_parents(&parents, None)
}

fn check_share(what: &str, p: f64) -> Result<()> {
    match (0.0..=1.0).contains(&p) {
        true => Ok(()),
        false => Err(Error::value(what, "0 to 1", p, "it is a probability")),
    }
}
