//! What can be said of a network in linear time: components, degrees, how far apart its nodes are at least and at most.

use super::{NONE, Network};

/// Connected components; directions of edges do not matter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Components {
    /// `[n]` component of each node, numbered by their least nodes.
    pub of: Vec<u32>,
    /// How many there are.
    pub count: usize,
}

/// Figures of a network.
#[derive(Clone, Debug, PartialEq)]
pub struct Statistics {
    /// Nodes.
    pub nodes: usize,
    /// Edges without loops: pairs of an undirected network, stored edges of a directed one.
    pub edges: usize,
    /// Edges from a node to itself.
    pub loops: usize,
    /// Whether every edge goes both ways with one weight.
    pub undirected: bool,
    /// Connected components.
    pub components: usize,
    /// Nodes without any edge to or from another.
    pub isolated: usize,
    /// Least, mean and greatest number of edges from a node, loops left out.
    pub degree: (usize, f64, usize),
    /// Greatest |i − j| of an edge.
    pub bandwidth: u32,
    /// Whether it is undirected and without cycles (loops are cycles).
    pub is_forest: bool,
    /// Whether it is a forest of one component.
    pub is_tree: bool,
    /// Whether two colours suffice, edges taken both ways.
    pub is_bipartite: bool,
    /// The greatest distance in steps within a component is at least and at most this; edges taken both ways.
    pub diameter: (u32, u32),
}

impl Network {
    /// Connected components; directions of edges do not matter.
    pub fn components(&self) -> Components {
        let mut sets = Sets::new(self.nodes());
        for (i, j, _) in self.edges() {
            sets.join(i, j);
        }
        let mut number = vec![NONE; self.nodes()];
        let mut count = 0;
        let of = (0..self.nodes() as u32).map(|i| {
            let root = sets.root(i) as usize;
            if number[root] == NONE {
                number[root] = count;
                count += 1;
            }
            number[root]
        });
        let of = of.collect();
        Components { of, count: count as usize }
    }

    /// Greatest |i − j| of an edge.
    pub fn bandwidth(&self) -> u32 {
        self.edges().map(|(i, j, _)| i.abs_diff(j)).max().unwrap_or(0)
    }

    /// All figures, in linear time.
    ///
    /// The diameter is bounded from below by a double sweep (breadth-first from anywhere, then from the farthest node) and from
    /// above by twice the steps from the middle of that path; both are exact on trees. Where nodes times edges are few (2²⁴), a search
    /// from every node gives it exactly.
    pub fn statistics(&self) -> Statistics {
        let undirected = self.is_symmetric();
        let both = if undirected { self.clone() } else { self.symmetrised() };
        let loops = self.edges().filter(|(i, j, _)| i == j).count();
        let stored = self.entries() - loops;
        let edges = if undirected { stored / 2 } else { stored };
        let nodes = self.nodes();
        let degrees = |g: &Self| -> Vec<usize> {
            (0..nodes as u32).map(|i| g.neighbours(i).iter().filter(|j| **j != i).count()).collect()
        };
        let own = degrees(self);
        let components = self.components().count;
        let is_forest = undirected && loops == 0 && edges + components == nodes;
        let mut sweep = Sweep::new(&both);
        let (mut at_least, mut at_most, mut bipartite) = (0, 0, loops == 0);
        for i in 0..nodes as u32 {
            if sweep.seen[i as usize] {
                continue;
            }
            let (far, _) = sweep.from(i);
            bipartite &= sweep.is_two_coloured();
            let (end, length) = sweep.from(far);
            let middle = sweep.back(end, length / 2);
            let (_, radius) = sweep.from(middle);
            at_least = at_least.max(length);
            // A tree's own path is its longest; elsewhere no two nodes are farther apart than through the middle.
            at_most = at_most.max(if is_forest { length } else { (2 * radius).max(length) });
        }
        const FEW: usize = 1 << 24;
        if at_least < at_most && nodes.saturating_mul(nodes + both.entries()) <= FEW {
            at_least = (0..nodes as u32).map(|i| sweep.from(i).1).max().unwrap_or(0);
            at_most = at_least;
        }
        Statistics {
            nodes,
            edges,
            loops,
            undirected,
            components,
            isolated: degrees(&both).iter().filter(|d| **d == 0).count(),
            degree: (
                own.iter().copied().min().unwrap_or(0),
                stored as f64 / nodes.max(1) as f64,
                own.iter().copied().max().unwrap_or(0),
            ),
            bandwidth: self.bandwidth(),
            is_forest,
            is_tree: is_forest && components == 1,
            is_bipartite: bipartite,
            diameter: (at_least, at_most),
        }
    }
}

/// Breadth-first searches that share their memory.
struct Sweep<'a> {
    network: &'a Network,
    distance: Vec<u32>,
    parent: Vec<u32>,
    queue: Vec<u32>,
    seen: Vec<bool>,
}

impl<'a> Sweep<'a> {
    fn new(network: &'a Network) -> Self {
        let n = network.nodes();
        Self {
            network,
            distance: vec![NONE; n],
            parent: vec![NONE; n],
            queue: Vec::new(),
            seen: vec![false; n],
        }
    }

    /// Steps to every node of the component; the last one found and its distance.
    fn from(&mut self, start: u32) -> (u32, u32) {
        // What the last search reached is this component or one that is done with.
        for i in self.queue.drain(..) {
            self.distance[i as usize] = NONE;
        }
        self.distance[start as usize] = 0;
        self.parent[start as usize] = NONE;
        self.queue.push(start);
        let mut at = 0;
        while at < self.queue.len() {
            let i = self.queue[at];
            self.seen[i as usize] = true;
            at += 1;
            for &j in self.network.neighbours(i) {
                if self.distance[j as usize] == NONE {
                    self.distance[j as usize] = self.distance[i as usize] + 1;
                    self.parent[j as usize] = i;
                    self.queue.push(j);
                }
            }
        }
        let last = self.queue[self.queue.len() - 1];
        (last, self.distance[last as usize])
    }

    /// Whether no edge of the last search joins nodes of equal parity.
    fn is_two_coloured(&self) -> bool {
        let parity = |i: u32| self.distance[i as usize] % 2;
        self.queue.iter().all(|&i| self.network.neighbours(i).iter().all(|&j| parity(i) != parity(j)))
    }

    /// The node `steps` before `node` on the way from the last start.
    fn back(&self, node: u32, steps: u32) -> u32 {
        (0..steps).fold(node, |i, _| self.parent[i as usize])
    }
}

/// Disjoint sets of nodes; the root of a set is arbitrary.
pub(crate) struct Sets {
    parent: Vec<u32>,
    size: Vec<u32>,
}

impl Sets {
    pub(crate) fn new(nodes: usize) -> Self {
        Self { parent: (0..nodes as u32).collect(), size: vec![1; nodes] }
    }

    pub(crate) fn root(&mut self, node: u32) -> u32 {
        let mut i = node;
        while self.parent[i as usize] != i {
            let grandparent = self.parent[self.parent[i as usize] as usize];
            self.parent[i as usize] = grandparent;
            i = grandparent;
        }
        i
    }

    /// Makes one set of two; false if they were one.
    pub(crate) fn join(&mut self, a: u32, b: u32) -> bool {
        let (a, b) = (self.root(a), self.root(b));
        if a == b {
            return false;
        }
        let (large, small) = if self.size[a as usize] >= self.size[b as usize] { (a, b) } else { (b, a) };
        self.parent[small as usize] = large;
        self.size[large as usize] += self.size[small as usize];
        true
    }
}
