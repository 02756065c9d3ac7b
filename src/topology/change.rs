//! Networks made of networks: turned round, symmetrised, cut, linked, renumbered, joined to a batch and taken out of it.

use super::{NONE, Network};
use crate::error::{Error, Result};
use crate::numbers::Short;

impl Network {
    /// Every edge turned round.
    #[must_use]
    pub fn transposed(&self) -> Self {
        let nodes = self.nodes();
        let mut starts = vec![0_u32; nodes + 1];
        for j in self.columns() {
            starts[*j as usize + 1] += 1;
        }
        for i in 0..nodes {
            starts[i + 1] += starts[i];
        }
        let mut next = starts.clone();
        let mut columns = vec![0; self.entries()];
        let mut weights = self.weights().map(|w| vec![0.0; w.len()]);
        for (i, j, w) in self.edges() {
            let at = next[j as usize] as usize;
            columns[at] = i;
            if let Some(list) = &mut weights {
                list[at] = w;
            }
            next[j as usize] += 1;
        }
        Self::of_rows(starts, columns, weights).with_offsets(self.offsets().to_vec())
    }

    /// Whether every edge goes both ways with one weight.
    pub fn is_symmetric(&self) -> bool {
        self.edges().all(|(i, j, w)| self.between(j, i) == w)
    }

    /// Refuses a network whose edges do not all go both ways; `user` is what needs them to.
    pub(crate) fn check_symmetric(&self, user: &str) -> Result<()> {
        match self.edges().find(|&(i, j, w)| self.between(j, i) != w) {
            None => Ok(()),
            Some((i, j, w)) => Err(Error::value(
                format!("network of {user}"),
                "undirected, the same weight both ways".to_string(),
                format!("{} for {i} → {j} and {} for {j} → {i}", Short(w), Short(self.between(j, i))),
                "take its edges both ways: `Network::symmetrised`, no --directed, or a file that is declared symmetric or undirected",
            )),
        }
    }

    /// Both ways wherever there is one: the weight between i and j is the greater of w(i → j) and w(j → i), so that a symmetric
    /// network stays as it is.
    #[must_use]
    pub fn symmetrised(&self) -> Self {
        let turned = self.transposed();
        let weighted = self.weights().is_some();
        let (mut starts, mut columns, mut weights) = (vec![0], Vec::new(), Vec::new());
        for i in 0..self.nodes() as u32 {
            let (mut a, mut b) = (self.row(i).peekable(), turned.row(i).peekable());
            loop {
                let (x, y) = (a.peek().copied(), b.peek().copied());
                let column = match (x, y) {
                    (None, None) => break,
                    (Some(x), Some(y)) => x.0.min(y.0),
                    (Some(x), None) | (None, Some(x)) => x.0,
                };
                let mut weight = 0.0_f32;
                if let Some(x) = x.filter(|x| x.0 == column) {
                    weight = weight.max(x.1);
                    a.next();
                }
                if let Some(y) = y.filter(|y| y.0 == column) {
                    weight = weight.max(y.1);
                    b.next();
                }
                columns.push(column);
                weights.push(weight);
            }
            starts.push(columns.len() as u32);
        }
        Self::of_rows(starts, columns, weighted.then_some(weights)).with_offsets(self.offsets().to_vec())
    }

    /// All weights 1.
    #[must_use]
    pub fn unweighted(&self) -> Self {
        let rows = Self::of_rows(self.starts().to_vec(), self.columns().to_vec(), None);
        rows.with_offsets(self.offsets().to_vec())
    }

    /// Other weights from (i, j, weight); 0 drops the edge.
    ///
    /// Errors: [`Error::Value`] for weights that no edge may have.
    pub fn reweighted(&self, weight: impl Fn(u32, u32, f32) -> f32) -> Result<Self> {
        let (mut starts, mut columns, mut weights) = (vec![0], Vec::new(), Vec::new());
        for i in 0..self.nodes() as u32 {
            for (e, (j, w)) in self.range(i).zip(self.row(i)) {
                let new = weight(i, j, w);
                super::network::check_weight(new, e, (i, j))?;
                if new > 0.0 {
                    columns.push(j);
                    weights.push(new);
                }
            }
            starts.push(columns.len() as u32);
        }
        let plain = weights.iter().all(|w| *w == 1.0);
        let rows = Self::of_rows(starts, columns, (!plain).then_some(weights));
        Ok(rows.with_offsets(self.offsets().to_vec()))
    }

    /// Only the edges (i, j, weight) that `keep` wants.
    #[must_use]
    pub fn filtered(&self, keep: impl Fn(u32, u32, f32) -> bool) -> Self {
        let (mut starts, mut columns) = (vec![0], Vec::new());
        let mut weights = self.weights().map(|_| Vec::new());
        for i in 0..self.nodes() as u32 {
            for (j, w) in self.row(i).filter(|&(j, w)| keep(i, j, w)) {
                columns.push(j);
                if let Some(list) = &mut weights {
                    list.push(w);
                }
            }
            starts.push(columns.len() as u32);
        }
        Self::of_rows(starts, columns, weights).with_offsets(self.offsets().to_vec())
    }

    /// No edges from a node to itself.
    #[must_use]
    pub fn without_loops(&self) -> Self {
        self.filtered(|i, j, _| i != j)
    }

    /// Without these edges, in both directions; edges that are not there are passed over.
    #[must_use]
    pub fn without_edges(&self, edges: &[(u32, u32)]) -> Self {
        let mut list: Vec<_> = edges.iter().flat_map(|&(i, j)| [(i, j), (j, i)]).collect();
        list.sort_unstable();
        self.filtered(|i, j, _| list.binary_search(&(i, j)).is_err())
    }

    /// The nodes stay, those with `obstacle[i]` lose all their edges.
    ///
    /// Errors: [`Error::Value`] unless there is one flag per node.
    pub fn without_nodes(&self, obstacle: &[bool]) -> Result<Self> {
        if obstacle.len() != self.nodes() {
            return Err(Error::value(
                "flags of a network's obstacles",
                format!("one per node, {}", self.nodes()),
                obstacle.len(),
                "give a flag to every node",
            ));
        }
        Ok(self.filtered(|i, j, _| !obstacle[i as usize] && !obstacle[j as usize]))
    }

    /// With more undirected edges; where there is one already, weights add up.
    ///
    /// Errors: as [`Network::undirected_weighted`], counting the new edges, and for an edge between two networks of a batch.
    pub fn with_edges(&self, edges: &[(u32, u32, f32)]) -> Result<Self> {
        // Checked on their own first, so that an error names the place in the caller's list.
        let new = Self::undirected_weighted(self.nodes(), edges)?;
        let part = |i: u32| self.offsets().partition_point(|first| *first <= i);
        if let Some((e, (i, j, _))) = edges.iter().enumerate().find(|(_, (i, j, _))| part(*i) != part(*j)) {
            return Err(Error::value(
                format!("edge {e} ({i} → {j})"),
                "two nodes of one network of the batch",
                format!("numbers {} and {}", part(*i) - 1, part(*j) - 1),
                "link the networks before they are batched, or make them one",
            ));
        }
        let all: Vec<_> = self.edges().chain(new.edges()).collect();
        Ok(Self::directed_weighted(self.nodes(), &all)?.with_offsets(self.offsets().to_vec()))
    }

    /// Node i becomes node `place[i]`. The result is one network, not a batch.
    ///
    /// Errors: [`Error::Value`] unless `place` holds every node once.
    pub fn permuted(&self, place: &[u32]) -> Result<Self> {
        let nodes = self.nodes();
        let mut from = vec![NONE; nodes];
        for (i, p) in place.iter().enumerate() {
            match from.get_mut(*p as usize) {
                Some(free) if *free == NONE && place.len() == nodes => *free = i as u32,
                _ => {
                    return Err(Error::value(
                        format!("place of node {i}"),
                        format!("every number below {nodes} once"),
                        format!("{p}, in a list of {}", place.len()),
                        "give a permutation of the nodes",
                    ));
                }
            }
        }
        if place.len() != nodes {
            return Err(Error::value(
                "places of a network's nodes",
                format!("{nodes} of them"),
                place.len(),
                "give a permutation of the nodes",
            ));
        }
        let (mut starts, mut columns, mut weights) = (vec![0], Vec::new(), Vec::new());
        let mut row: Vec<(u32, f32)> = Vec::new();
        for i in from {
            row.clear();
            row.extend(self.row(i).map(|(j, w)| (place[j as usize], w)));
            row.sort_unstable_by_key(|e| e.0);
            columns.extend(row.iter().map(|e| e.0));
            weights.extend(row.iter().map(|e| e.1));
            starts.push(columns.len() as u32);
        }
        Ok(Self::of_rows(starts, columns, self.weights().map(|_| weights)))
    }

    /// Several networks one after the other, none joined to another; batches in it are taken apart.
    ///
    /// Errors: [`Error::Value`] if they are too many for u32.
    pub fn batch(networks: &[Self]) -> Result<Self> {
        let nodes: usize = networks.iter().map(Self::nodes).sum();
        let entries: usize = networks.iter().map(Self::entries).sum();
        if nodes > super::network::MOST || entries > super::network::MOST {
            return Err(Error::value(
                "nodes and edges of a batch",
                format!("at most {} of each", super::network::MOST),
                format!("{nodes} and {entries}"),
                "make several batches",
            ));
        }
        let (mut starts, mut columns, mut offsets) = (vec![0], Vec::with_capacity(entries), vec![0]);
        let mut weights = networks.iter().any(|g| g.weights().is_some()).then(Vec::new);
        for g in networks {
            let (node, entry) = (starts.len() as u32 - 1, columns.len() as u32);
            starts.extend(g.starts()[1..].iter().map(|s| s + entry));
            columns.extend(g.columns().iter().map(|j| j + node));
            offsets.extend(g.offsets()[1..].iter().map(|o| o + node));
            match (&mut weights, g.weights()) {
                (Some(all), Some(w)) => all.extend_from_slice(w),
                (Some(all), None) => all.resize(all.len() + g.entries(), 1.0),
                _ => {}
            }
        }
        Ok(Self::of_rows(starts, columns, weights).with_offsets(offsets))
    }

    /// Networks of the batch.
    pub fn parts(&self) -> usize {
        self.offsets().len() - 1
    }

    /// One network of the batch on its own.
    ///
    /// Errors: [`Error::Value`] if there is no such part.
    pub fn part(&self, index: usize) -> Result<Self> {
        if index >= self.parts() {
            return Err(Error::value(
                "part of a batch of networks",
                format!("less than {}", self.parts()),
                index,
                "count from 0",
            ));
        }
        let (from, to) = (self.offsets()[index] as usize, self.offsets()[index + 1] as usize);
        let (first, last) = (self.starts()[from], self.starts()[to]);
        let range = first as usize..last as usize;
        let starts = self.starts()[from..=to].iter().map(|s| s - first).collect();
        let columns = self.columns()[range.clone()].iter().map(|j| j - from as u32).collect();
        Ok(Self::of_rows(starts, columns, self.weights().map(|w| w[range].to_vec())))
    }
}
