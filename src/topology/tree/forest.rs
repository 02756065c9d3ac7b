//! A forest with a root in every tree, and its nodes in breadth-first order.

use crate::error::{Error, Result};
use crate::topology::network::{MOST, check_weight};
use crate::topology::{NONE, Network};

/// Trees with roots.
///
/// *Places* are positions in breadth-first order: roots first (ascending), then level by level, the children of a node together and
/// ascending. Arrays are indexed by node or by place as each says.
#[derive(Clone, Debug, PartialEq)]
pub struct Forest {
    parent: Vec<u32>,
    length: Vec<f32>,
    order: Vec<u32>,
    place: Vec<u32>,
    levels: Vec<u32>,
    child_starts: Vec<u32>,
}

impl Forest {
    /// A forest from each node's parent, [`NONE`] for roots (a −1 as u32), and the lengths of the edges to the parents (none = 1;
    /// those of roots are not looked at).
    ///
    /// Errors: [`Error::Value`] for a parent that is no node, a length that is negative, not finite or beyond 1e±30, a list of
    /// another size, and a cycle, whose nodes it names.
    pub fn from_parents(parents: &[u32], lengths: Option<&[f32]>) -> Result<Self> {
        let n = parents.len();
        if n > MOST {
            return Err(Error::value("nodes of a forest", format!("at most {MOST}"), n, "split it"));
        }
        if let Some(lengths) = lengths.filter(|l| l.len() != n) {
            return Err(Error::value(
                "lengths of a forest's edges",
                format!("one per node, {n}"),
                lengths.len(),
                "give roots any number",
            ));
        }
        let mut length = vec![0.0; n];
        for (i, &p) in parents.iter().enumerate().filter(|(_, p)| **p != NONE) {
            if p as usize >= n {
                return Err(Error::value(
                    format!("parent of node {i}"),
                    format!("below {n}, or {NONE} for a root"),
                    p,
                    "count nodes from 0",
                ));
            }
            length[i] = lengths.map_or(1.0, |l| l[i]);
            check_weight(length[i], i, (i as u32, p))?;
        }
        // Children of every node, ascending.
        let mut starts = vec![0_u32; n + 1];
        for &p in parents.iter().filter(|p| **p != NONE) {
            starts[p as usize + 1] += 1;
        }
        for i in 0..n {
            starts[i + 1] += starts[i];
        }
        let mut next = starts.clone();
        let mut children = vec![0; starts[n] as usize];
        for (i, &p) in parents.iter().enumerate().filter(|(_, p)| **p != NONE) {
            children[next[p as usize] as usize] = i as u32;
            next[p as usize] += 1;
        }
        let mut order: Vec<u32> = (0..n as u32).filter(|i| parents[*i as usize] == NONE).collect();
        let mut child_starts = Vec::with_capacity(n + 1);
        let (mut levels, mut at) = (vec![0], 0);
        while at < order.len() {
            let end = order.len();
            levels.push(end as u32);
            for place in at..end {
                let node = order[place] as usize;
                child_starts.push(order.len() as u32);
                order.extend_from_slice(&children[starts[node] as usize..starts[node + 1] as usize]);
            }
            at = end;
        }
        child_starts.push(order.len() as u32);
        if order.len() < n {
            return Err(cycle(parents, &order));
        }
        let mut place = vec![0; n];
        for (p, i) in order.iter().enumerate() {
            place[*i as usize] = p as u32;
        }
        Ok(Self { parent: parents.to_vec(), length, order, place, levels, child_starts })
    }

    /// The forest that an undirected network without cycles is; weights become lengths. `roots` are the roots of their trees, the
    /// others have their least nodes.
    ///
    /// Errors: [`Error::Value`] for a directed network, a root that is no node or the second of its tree, and a cycle, whose nodes
    /// it names (a loop is one).
    pub fn from_network(network: &Network, roots: &[u32]) -> Result<Self> {
        network.check_symmetric("a forest")?;
        let n = network.nodes();
        let (mut parent, mut seen) = (vec![NONE; n], vec![false; n]);
        let mut length = vec![0.0; n];
        let mut queue: Vec<u32> = Vec::with_capacity(n);
        let wanted = roots.iter().copied().map(|r| (r, true));
        for (root, asked) in wanted.chain((0..n as u32).map(|i| (i, false))) {
            if root as usize >= n || (asked && seen[root as usize]) {
                return Err(Error::value(
                    "root of a tree",
                    format!("one node below {n} per tree"),
                    root,
                    "give each tree one root, or none",
                ));
            }
            if seen[root as usize] {
                continue;
            }
            seen[root as usize] = true;
            let mut at = queue.len();
            queue.push(root);
            while at < queue.len() {
                let i = queue[at];
                at += 1;
                let above = parent[i as usize];
                for (j, w) in network.row(i).filter(|e| e.0 != above) {
                    if seen[j as usize] {
                        return Err(cycle_error(&between(&parent, i, j)));
                    }
                    seen[j as usize] = true;
                    (parent[j as usize], length[j as usize]) = (i, w);
                    queue.push(j);
                }
            }
        }
        Self::from_parents(&parent, Some(&length))
    }

    /// The same forest with other numbers: node `order[i]` becomes node i.
    ///
    /// Errors: [`Error::Value`] for a list that does not have every node once.
    pub fn renumbered(&self, order: &[u32]) -> Result<Self> {
        let n = self.nodes();
        let mut number = vec![NONE; n];
        for (new, old) in order.iter().enumerate() {
            if *old as usize >= n || number[*old as usize] != NONE || order.len() != n {
                let got = format!("{old} at place {new} of {}", order.len());
                let expected = format!("each of {n} nodes once");
                return Err(Error::value("order of a forest's nodes", expected, got, "give a rearrangement"));
            }
            number[*old as usize] = new as u32;
        }
        if order.len() != n {
            let expected = format!("each of {n} nodes once");
            return Err(Error::value(
                "order of a forest's nodes",
                expected,
                order.len(),
                "give a rearrangement",
            ));
        }
        let parent = |old: &u32| match self.parent[*old as usize] {
            NONE => NONE,
            p => number[p as usize],
        };
        let lengths: Vec<f32> = order.iter().map(|old| self.length[*old as usize]).collect();
        Self::from_parents(&order.iter().map(parent).collect::<Vec<_>>(), Some(&lengths))
    }

    /// The undirected network of the forest's edges, lengths as weights.
    ///
    /// Errors: [`Error::Value`] for an edge of length 0, which a network cannot hold.
    pub fn network(&self) -> Result<Network> {
        let list: Vec<_> = self.edges().collect();
        if let Some(e) = list.iter().find(|e| e.2 == 0.0) {
            return Err(Error::value(
                format!("length of the edge {} → {}", e.0, e.1),
                "above 0",
                0,
                "join the two nodes, or take the edges without lengths",
            ));
        }
        Network::undirected_weighted(self.nodes(), &list)
    }

    /// The edges (node, parent, length), by node.
    pub fn edges(&self) -> impl Iterator<Item = (u32, u32, f32)> + '_ {
        let list = self.parent.iter().zip(&self.length).enumerate();
        list.filter(|(_, (p, _))| **p != NONE).map(|(i, (p, l))| (i as u32, *p, *l))
    }

    /// Number of nodes, n.
    pub fn nodes(&self) -> usize {
        self.parent.len()
    }

    /// Number of trees; their roots have the first places.
    pub fn trees(&self) -> usize {
        self.levels.get(1).map_or(0, |end| *end as usize)
    }

    /// `[n]` parent of each node, [`NONE`] for roots.
    pub fn parents(&self) -> &[u32] {
        &self.parent
    }

    /// `[n]` length of each node's edge to its parent, 0 for roots.
    pub fn lengths(&self) -> &[f32] {
        &self.length
    }

    /// `[n]` the node at each place.
    pub fn order(&self) -> &[u32] {
        &self.order
    }

    /// `[n]` the place of each node.
    pub fn places(&self) -> &[u32] {
        &self.place
    }

    /// `[height + 2]` first place of each level, and n: level d holds the places of nodes d steps below their roots.
    pub fn levels(&self) -> &[u32] {
        &self.levels
    }

    /// `[n + 1]` by place: its children have the places from here to the next one's.
    pub fn child_starts(&self) -> &[u32] {
        &self.child_starts
    }

    /// Steps from a root to the lowest node.
    pub fn height(&self) -> usize {
        self.levels.len().saturating_sub(2)
    }

    /// `[n]` steps from each node up to its root.
    pub fn depths(&self) -> Vec<u32> {
        let mut depth = vec![0; self.nodes()];
        for &i in &self.order {
            if self.parent[i as usize] != NONE {
                depth[i as usize] = depth[self.parent[i as usize] as usize] + 1;
            }
        }
        depth
    }

    /// `[n]` the root of each node.
    pub fn roots(&self) -> Vec<u32> {
        let mut root = vec![0; self.nodes()];
        for &i in &self.order {
            let p = self.parent[i as usize];
            root[i as usize] = if p == NONE { i } else { root[p as usize] };
        }
        root
    }

    /// `[n]` nodes below each node, itself included.
    pub fn sizes(&self) -> Vec<u32> {
        let mut size = vec![1; self.nodes()];
        for &i in self.order.iter().rev() {
            if self.parent[i as usize] != NONE {
                size[self.parent[i as usize] as usize] += size[i as usize];
            }
        }
        size
    }

    /// `[n]` steps from each node down to the lowest below it: one less than the entries of its level histogram.
    pub fn heights(&self) -> Vec<u32> {
        let mut height = vec![0; self.nodes()];
        for &i in self.order.iter().rev() {
            if self.parent[i as usize] != NONE {
                let p = self.parent[i as usize] as usize;
                height[p] = height[p].max(height[i as usize] + 1);
            }
        }
        height
    }

    /// Longest path in steps.
    pub fn diameter(&self) -> u32 {
        self.longest(|_| 1.0) as u32
    }

    /// Longest path by the edges' lengths.
    pub fn diameter_length(&self) -> f64 {
        self.longest(|i| f64::from(self.length[i]))
    }

    fn longest(&self, length: impl Fn(usize) -> f64) -> f64 {
        let (mut down, mut best) = (vec![0.0_f64; self.nodes()], 0.0_f64);
        for &i in self.order.iter().rev() {
            if self.parent[i as usize] != NONE {
                let p = self.parent[i as usize] as usize;
                let through = down[i as usize] + length(i as usize);
                best = best.max(down[p] + through);
                down[p] = down[p].max(through);
            }
        }
        best
    }
}

/// The cycle that an edge i – j closes where both have been reached: up from either to where they meet.
fn between(parent: &[u32], i: u32, j: u32) -> Vec<u32> {
    let up =
        |node: u32| std::iter::successors(Some(node), |x| Some(parent[*x as usize]).filter(|p| *p != NONE));
    let (mut a, mut b): (Vec<u32>, Vec<u32>) = (up(i).collect(), up(j).collect());
    let mut meeting = None;
    while let (Some(x), Some(y)) = (a.last(), b.last()) {
        if x != y {
            break;
        }
        meeting = a.pop();
        b.pop();
    }
    a.extend(meeting);
    a.extend(b.iter().rev());
    a
}

/// The cycle in parents some of whose nodes no root reaches.
fn cycle(parents: &[u32], reached: &[u32]) -> Error {
    let mut mark = vec![false; parents.len()];
    for i in reached {
        mark[*i as usize] = true;
    }
    let Some(start) = mark.iter().position(|m| !m) else { return cycle_error(&[]) };
    // Going up from a node that no root reaches ends in the cycle.
    let mut node = start;
    while !mark[node] {
        mark[node] = true;
        node = parents[node] as usize;
    }
    let first = node as u32;
    let mut nodes = vec![first];
    while parents[node] != first {
        node = parents[node] as usize;
        nodes.push(node as u32);
    }
    cycle_error(&nodes)
}

fn cycle_error(nodes: &[u32]) -> Error {
    const SHOWN: usize = 12;
    let mut words: Vec<String> = nodes.iter().take(SHOWN).map(ToString::to_string).collect();
    if nodes.len() > SHOWN {
        words.push(format!("… ({} nodes)", nodes.len()));
    }
    words.extend(nodes.first().map(ToString::to_string));
    Error::value(
        "edges of a forest",
        "no cycle",
        words.join(" → "),
        "cut the cycle, or take a spanning forest (`build::spanning_forest`)",
    )
}
