//! Any function of the number of steps, level by level: what each node sees at 0, 1, 2 … steps, every level from the one before.
//!
//! h_k(v) = Σ x over the nodes at k steps from v; `m_k(u → v)` is the part of it that v sees through its neighbour u. With m_0 = 0
//!
//! ```text
//! m_k+1(u → v) = h_k(u) − m_k(v → u)        all that u sees one step nearer, but for what lies behind v
//! h_k+1(v)     = Σ m_k+1(u → v) over the neighbours u
//! y(v)         = Σ_k f(k) h_k(v)
//! ```
//!
//! These are the histograms by level of both passes over a rooted tree (method: topological masking, 2.6b) at every node at once: one
//! sparse step for each level, and only two levels are held, not all. O(n · steps) time, O(n) memory: a second way for trees of small
//! diameter, which [`hankel`](super::hankel) can be held against.

use super::tree_gather;
use crate::error::Result;
use crate::graph::Graph;
use crate::kernels::elementwise::weighted_sum;
use crate::kernels::graph::spmm;
use crate::tensor::{DType, HostData, HostTensor, Tensor};
use crate::topology::tree::Forest;

/// The sparse step of a forest. Its rows are the h of all nodes, and behind them two m for each edge.
#[derive(Clone, Debug)]
pub struct Plan {
    nodes: usize,
    levels: usize,
    starts: Vec<u32>,
    columns: Vec<u32>,
    weights: Vec<f32>,
    longest: u32,
}

impl Plan {
    /// Of a forest, for functions that end after `reach` steps.
    pub fn new(forest: &Forest, reach: u32) -> Self {
        let n = forest.nodes();
        let edges: Vec<(u32, u32)> = forest.edges().map(|(i, parent, _)| (i, parent)).collect();
        // m(u → v) of edge k stands in row n + 2 k for u = the lower end, in the next one for u = the upper.
        let mut neighbours: Vec<Vec<(u32, u32)>> = vec![Vec::new(); n];
        for (row, (lower, upper)) in (n as u32..).step_by(2).zip(&edges) {
            neighbours[*upper as usize].push((*lower, row + 1));
            neighbours[*lower as usize].push((*upper, row));
        }
        let mut plan =
            Self { nodes: n, levels: reach as usize, starts: vec![0], columns: Vec::new(), weights: Vec::new(), longest: 0 };
        // Each neighbour's h, less what it sees through this node.
        neighbours.iter().for_each(|list| plan.row(list));
        for (row, (lower, upper)) in (n as u32..).step_by(2).zip(&edges) {
            plan.row(&[(*lower, row + 1)]);
            plan.row(&[(*upper, row)]);
        }
        plan
    }

    fn row(&mut self, entries: &[(u32, u32)]) {
        self.columns.extend(entries.iter().flat_map(|(h, m)| [*h, *m]));
        self.weights.extend(entries.iter().flat_map(|_| [1.0, -1.0]));
        self.longest = self.longest.max(2 * entries.len() as u32);
        self.starts.push(self.columns.len() as u32);
    }

    /// Floating-point operations of one product with one channel.
    pub fn flop(&self) -> f64 {
        self.levels as f64 * (2 * self.columns.len() + 2 * self.starts.len()) as f64
    }

    /// Records Σⱼ `f[dist(i, j)]` `x[j]` for `x` `[b, h, n, c]`; `f` is 0 past its end. Two dispatches for each level.
    ///
    /// Errors: tensors of other shapes.
    pub fn record(&self, graph: &mut Graph, f: &[f64], x: Tensor) -> Result<Tensor> {
        let [b, h, c] = [x.dim(0), x.dim(1), x.dim(3)];
        let rows = self.starts.len() as u32 - 1;
        let at = |level: usize| f.get(level).map_or(0.0, |w| *w as f32);
        let state = [b, h, rows, c];
        let words = |graph: &mut Graph, name: &str, list: Vec<u32>| -> Result<Tensor> {
            Ok(graph.constant(name, HostTensor::new([list.len() as u32], HostData::U32(list))?))
        };
        let n = self.nodes as u32;
        let here = words(graph, "nodes", (0..n).collect())?;
        // Level 0 is x, seen through no neighbour: rows past the nodes are empty.
        let first = words(graph, "one of each node", (0..=rows).map(|row| row.min(n)).collect())?;
        let mut level = graph.transient("level 0", state, DType::F32);
        graph.pass(
            &tree_gather::SPEC,
            &tree_gather::Params { longest: u32::from(n > 0) },
            &[Some(first), Some(here), None, Some(x), None, Some(level)],
        )?;
        let starts = words(graph, "starts of neighbours", self.starts.clone())?;
        let columns = words(graph, "neighbours", self.columns.clone())?;
        let weights = HostTensor::f32([self.weights.len() as u32], self.weights.clone())?;
        let weights = graph.constant("their signs", weights);
        let mut sum = None;
        for k in 1..=self.levels {
            let next = graph.transient("next level", state, DType::F32);
            graph.pass(
                &spmm::SPEC,
                &spmm::Params { longest: self.longest, ..spmm::Params::default() },
                &[Some(starts), Some(columns), Some(weights), None, Some(level), None, Some(next)],
            )?;
            let more = graph.transient("levels so far", state, DType::F32);
            let (before, alpha) = sum.map_or((level, at(0)), |sum| (sum, 1.0));
            graph.pass(
                &weighted_sum::SPEC,
                &weighted_sum::Params { alpha, beta: at(k) },
                &[Some(before), Some(next), Some(more)],
            )?;
            (level, sum) = (next, Some(more));
        }
        let y = graph.transient("M x", x.shape(), DType::F32);
        let each = words(graph, "one each", (0..=n).collect())?;
        // Without a level to add, f(0) x.
        let scale = match sum {
            None => Some(graph.constant("f(0)", HostTensor::f32([n], vec![at(0); self.nodes])?)),
            Some(_) => None,
        };
        graph.pass(
            &tree_gather::SPEC,
            &tree_gather::Params { longest: u32::from(n > 0) },
            &[Some(each), Some(here), scale, Some(sum.unwrap_or(level)), None, Some(y)],
        )?;
        Ok(y)
    }
}
