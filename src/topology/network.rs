//! A network: nodes 0 … n − 1 and weighted edges in compressed rows.
//!
//! Row i lists the edges i → j with ascending j; an undirected network holds both directions. Edges given twice add up, loops are
//! kept (`without_loops` drops them), an edge of weight 0 is no edge. Weights are finite, and between 1e-30 and 1e30: their sums and
//! products must stay within f32.

use crate::error::{Error, Result};
use crate::words::or_none;

/// Least weight of an edge that is not 0.
pub const LEAST_WEIGHT: f32 = 1e-30;
/// Greatest weight of an edge, sums of parallel ones included.
pub const MOST_WEIGHT: f32 = 1e30;
/// Most nodes and most stored edges: indices are u32 and one of them means "none".
pub const MOST: usize = u32::MAX as usize - 1;

/// Nodes and edges in compressed rows; several networks may lie in it one after the other (a batch).
#[derive(Clone, Debug, PartialEq)]
pub struct Network {
    starts: Vec<u32>,
    columns: Vec<u32>,
    weights: Option<Vec<f32>>,
    offsets: Vec<u32>,
}

impl Network {
    /// `nodes` nodes without edges.
    ///
    /// Errors: [`Error::Value`] beyond [`MOST`] nodes.
    pub fn isolated(nodes: usize) -> Result<Self> {
        check_count("nodes of a network", nodes)?;
        Ok(Self::of_rows(vec![0; nodes + 1], Vec::new(), None))
    }

    /// Undirected edges of weight 1; an edge given twice, in whatever direction, has weight 2.
    ///
    /// Errors: [`Error::Value`] that names the first edge whose node is not below `nodes`.
    pub fn undirected(nodes: usize, edges: &[(u32, u32)]) -> Result<Self> {
        gather(nodes, edges.len(), |e| (edges[e].0, edges[e].1, 1.0), true)
    }

    /// Undirected edges with weights; parallel edges add up.
    ///
    /// Errors: [`Error::Value`] that names the first edge whose node is not below `nodes`, or whose weight is negative, not finite
    /// or outside of [`LEAST_WEIGHT`] to [`MOST_WEIGHT`].
    pub fn undirected_weighted(nodes: usize, edges: &[(u32, u32, f32)]) -> Result<Self> {
        gather(nodes, edges.len(), |e| edges[e], true)
    }

    /// Edges i → j of weight 1; an edge given twice has weight 2.
    ///
    /// Errors: as [`Self::undirected`].
    pub fn directed(nodes: usize, edges: &[(u32, u32)]) -> Result<Self> {
        gather(nodes, edges.len(), |e| (edges[e].0, edges[e].1, 1.0), false)
    }

    /// Edges i → j with weights; parallel edges add up.
    ///
    /// Errors: as [`Self::undirected_weighted`].
    pub fn directed_weighted(nodes: usize, edges: &[(u32, u32, f32)]) -> Result<Self> {
        gather(nodes, edges.len(), |e| edges[e], false)
    }

    /// Rows as kernels take them: `starts` `[n + 1]`, `columns` `[z]` ascending in each row, `weights` `[z]` (none = 1).
    ///
    /// Errors: [`Error::Value`] for lists that do not fit each other, a column that is repeated, out of order or no node, and
    /// for weights as in [`Self::undirected_weighted`] (0 as well: leave the edge out).
    pub fn from_rows(starts: Vec<u32>, columns: Vec<u32>, weights: Option<Vec<f32>>) -> Result<Self> {
        let nodes = starts.len().saturating_sub(1);
        check_count("nodes of a network", nodes)?;
        check_count("edges of a network", columns.len())?;
        let ends = starts.first() == Some(&0) && starts.last() == Some(&(columns.len() as u32));
        if !ends || starts.windows(2).any(|w| w[0] > w[1]) {
            return Err(Error::value(
                "starts of a network's rows",
                format!("ascending from 0 to the {} columns", columns.len()),
                format!("{} numbers, the last {}", starts.len(), or_none(starts.last())),
                "give one start per row and the number of columns behind",
            ));
        }
        if let Some(w) = weights.as_ref().filter(|w| w.len() != columns.len()) {
            return Err(Error::value(
                "weights of a network's rows",
                format!("one per column, {}", columns.len()),
                w.len(),
                "give none at all for weights of 1",
            ));
        }
        for row in 0..nodes {
            let range = starts[row] as usize..starts[row + 1] as usize;
            for e in range.clone() {
                let column = columns[e];
                if column as usize >= nodes || (e > range.start && columns[e - 1] >= column) {
                    return Err(Error::value(
                        format!("column {e} of a network, in row {row}"),
                        format!("ascending and below {nodes}"),
                        column,
                        "sort the row and add parallel edges up",
                    ));
                }
                if let Some(w) = &weights {
                    check_weight(w[e], e, (row as u32, column))?;
                    if w[e] == 0.0 {
                        return Err(Error::value(
                            format!("weight of edge {e} ({row} → {column})"),
                            "above 0",
                            w[e],
                            "leave the edge out",
                        ));
                    }
                }
            }
        }
        Ok(Self::of_rows(starts, columns, weights))
    }

    /// Rows that are known to be sound.
    pub(crate) fn of_rows(starts: Vec<u32>, columns: Vec<u32>, weights: Option<Vec<f32>>) -> Self {
        let offsets = vec![0, starts.len() as u32 - 1];
        Self { starts, columns, weights, offsets }
    }

    /// The same rows as a batch with these node offsets, which ascend from 0 to the number of nodes.
    pub(crate) fn with_offsets(self, offsets: Vec<u32>) -> Self {
        Self { offsets, ..self }
    }

    /// Number of nodes, n.
    pub fn nodes(&self) -> usize {
        self.starts.len() - 1
    }

    /// Number of stored edges, z: an undirected edge counts twice, a loop once.
    pub fn entries(&self) -> usize {
        self.columns.len()
    }

    /// `[n + 1]` beginnings of the rows.
    pub fn starts(&self) -> &[u32] {
        &self.starts
    }

    /// `[z]` the nodes that the rows' edges lead to.
    pub fn columns(&self) -> &[u32] {
        &self.columns
    }

    /// `[z]` weights; none means 1.
    pub fn weights(&self) -> Option<&[f32]> {
        self.weights.as_deref()
    }

    /// `[g + 1]` first nodes of the networks of a batch, and n; `[0, n]` for one network.
    pub fn offsets(&self) -> &[u32] {
        &self.offsets
    }

    /// The nodes that edges from `node` lead to.
    pub fn neighbours(&self, node: u32) -> &[u32] {
        &self.columns[self.range(node)]
    }

    /// The edges from `node`: where they lead, and their weights.
    pub fn row(&self, node: u32) -> impl ExactSizeIterator<Item = (u32, f32)> + '_ {
        self.range(node).map(|e| (self.columns[e], self.weight(e)))
    }

    /// All stored edges (i, j, weight), row by row.
    pub fn edges(&self) -> impl Iterator<Item = (u32, u32, f32)> + '_ {
        (0..self.nodes() as u32).flat_map(|i| self.row(i).map(move |(j, w)| (i, j, w)))
    }

    /// Weight of i → j, 0 where there is no such edge.
    pub fn between(&self, i: u32, j: u32) -> f32 {
        let range = self.range(i);
        let found = self.columns[range.clone()].binary_search(&j);
        found.map_or(0.0, |at| self.weight(range.start + at))
    }

    /// Positions of a row's entries.
    pub(crate) fn range(&self, node: u32) -> std::ops::Range<usize> {
        self.starts[node as usize] as usize..self.starts[node as usize + 1] as usize
    }

    fn weight(&self, entry: usize) -> f32 {
        self.weights.as_ref().map_or(1.0, |w| w[entry])
    }

    /// `[n]` sums of the rows' weights, loops included.
    pub fn degrees(&self) -> Vec<f64> {
        (0..self.nodes() as u32).map(|i| self.row(i).map(|(_, w)| f64::from(w)).sum()).collect()
    }
}

fn check_count(what: &str, count: usize) -> Result<()> {
    if count <= MOST {
        return Ok(());
    }
    Err(Error::value(what, format!("at most {MOST}"), count, "split it into several networks"))
}

/// A weight that an edge may have, 0 included.
pub(crate) fn check_weight(weight: f32, edge: usize, (i, j): (u32, u32)) -> Result<()> {
    if weight == 0.0 || (LEAST_WEIGHT..=MOST_WEIGHT).contains(&weight) {
        return Ok(());
    }
    let remedy = match weight {
        w if w.is_nan() => "leave the edge out",
        w if w < 0.0 => "masks need weights of at least 0; take their size, or leave the edge out",
        _ => "scale all weights by one factor",
    };
    Err(Error::value(
        format!("weight of edge {edge} ({i} → {j})"),
        format!("0, or {LEAST_WEIGHT:e} to {MOST_WEIGHT:e}"),
        format!("{weight:e}"),
        remedy,
    ))
}

/// Rows from `count` edges in any order.
///
/// Two counting sorts (by column, then by row) keep the order of parallel edges, so that both directions of an undirected edge are
/// sums in one order and equal to the bit.
fn gather(
    nodes: usize,
    count: usize,
    edge: impl Fn(usize) -> (u32, u32, f32),
    both: bool,
) -> Result<Network> {
    check_count("nodes of a network", nodes)?;
    let mut list: Vec<(u32, u32, f32)> = Vec::with_capacity(if both { 2 * count } else { count });
    for e in 0..count {
        let (i, j, w) = edge(e);
        if let Some(node) = [i, j].into_iter().find(|x| *x as usize >= nodes) {
            return Err(Error::value(
                format!("node of edge {e} ({i} → {j})"),
                if nodes == 0 { "none, the network is empty".into() } else { format!("0 to {}", nodes - 1) },
                node,
                "count nodes from 0 and give the network enough of them",
            ));
        }
        check_weight(w, e, (i, j))?;
        if w == 0.0 {
            continue;
        }
        list.push((i, j, w));
        if both && i != j {
            list.push((j, i, w));
        }
    }
    check_count("edges of a network", list.len())?;
    let by_column = sorted(&list, nodes, |e| e.1).1;
    let (starts, list) = sorted(&by_column, nodes, |e| e.0);
    drop(by_column);
    joined(&starts, &list)
}

/// A stable counting sort by a key below `nodes`: the keys' beginnings and the sorted list.
fn sorted(
    list: &[(u32, u32, f32)],
    nodes: usize,
    key: impl Fn(&(u32, u32, f32)) -> u32,
) -> (Vec<u32>, Vec<(u32, u32, f32)>) {
    let mut starts = vec![0_u32; nodes + 1];
    for e in list {
        starts[key(e) as usize + 1] += 1;
    }
    for i in 0..nodes {
        starts[i + 1] += starts[i];
    }
    let mut next = starts.clone();
    let mut out = vec![(0, 0, 0.0); list.len()];
    for e in list {
        let at = &mut next[key(e) as usize];
        out[*at as usize] = *e;
        *at += 1;
    }
    (starts, out)
}

/// Rows of a sorted list, parallel edges added up.
fn joined(starts: &[u32], list: &[(u32, u32, f32)]) -> Result<Network> {
    let nodes = starts.len() - 1;
    let (mut out, mut columns, mut weights) = (vec![0_u32], Vec::with_capacity(list.len()), Vec::new());
    weights.reserve(list.len());
    for row in 0..nodes {
        let row = &list[starts[row] as usize..starts[row + 1] as usize];
        for parallel in row.chunk_by(|a, b| a.1 == b.1) {
            let (i, j, _) = parallel[0];
            let sum = parallel.iter().map(|e| f64::from(e.2)).sum::<f64>() as f32;
            if sum > MOST_WEIGHT {
                return Err(Error::value(
                    format!("sum of the {} edges {i} → {j}", parallel.len()),
                    format!("at most {MOST_WEIGHT:e}"),
                    format!("{sum:e}"),
                    "scale all weights by one factor",
                ));
            }
            columns.push(j);
            weights.push(sum);
        }
        out.push(columns.len() as u32);
    }
    let plain = weights.iter().all(|w| *w == 1.0);
    Ok(Network::of_rows(out, columns, (!plain).then_some(weights)))
}
