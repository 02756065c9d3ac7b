//! Any function of the number of steps, by cuts at centroids: a histogram by depth for every cut and every branch, Hankel products
//! T(a) = Σ_b f(a + b) h(b) in batches of equal length, and for every node the sum of T over its cuts less T within its branches.
//!
//! A Hankel product of n depths is a Toeplitz product of the depths turned round, and f itself is its table: the batches run through
//! [`toeplitz_product`], short ones through [`matmul`] with the matrix written out, each block beside the others as channels. Lengths are rounded up to 2ᵏ and 3·2ᵏ, so that a path
//! of any length makes a few dozen batches.

use super::tree_gather;
use crate::error::Result;
use crate::graph::Graph;
use crate::kernels::linalg::matmul;
use crate::kernels::mask::grid::Grid;
use crate::kernels::mask::{toeplitz_product, toeplitz_spectrum};
use crate::tensor::{DType, HostData, HostTensor, Tensor};
use crate::topology::tree::{Centroids, Forest};

/// Longest block that is multiplied directly.
const DIRECT: u32 = 64;
/// Longest list of one thread; longer ones are split.
const LONGEST: usize = 512;

/// Sparse rows: starts, columns.
#[derive(Clone, Debug, Default)]
struct Rows {
    starts: Vec<u32>,
    columns: Vec<u32>,
}

impl Rows {
    fn new() -> Self {
        Self { starts: vec![0], columns: Vec::new() }
    }

    fn close(&mut self) {
        self.starts.push(self.columns.len() as u32);
    }

    fn longest(&self) -> usize {
        self.starts.windows(2).map(|w| (w[1] - w[0]) as usize).max().unwrap_or(0)
    }

    /// Rows of at most [`LONGEST`] entries each, and which of them make up the rows; `None` where none is longer.
    fn split(&self) -> Option<(Self, Self)> {
        if self.longest() <= LONGEST {
            return None;
        }
        let (mut parts, mut whole) = (Self::new(), Self::new());
        for row in self.starts.windows(2) {
            for part in self.columns[row[0] as usize..row[1] as usize].chunks(LONGEST) {
                whole.columns.push(parts.starts.len() as u32 - 1);
                parts.columns.extend_from_slice(part);
                parts.close();
            }
            whole.close();
        }
        Some((parts, whole))
    }

    fn record(
        &self,
        graph: &mut Graph,
        name: &str,
        x: Tensor,
        weights: Option<&[f32]>,
        prev: Option<Tensor>,
    ) -> Result<Tensor> {
        if let Some((parts, whole)) = self.split().filter(|_| weights.is_none()) {
            let some = parts.record(graph, "parts of sums", x, None, None)?;
            return whole.record(graph, name, some, None, prev);
        }
        let m = self.starts.len() as u32 - 1;
        let list = |graph: &mut Graph, name: &str, list: &[u32]| -> Result<Tensor> {
            Ok(graph.constant(name, HostTensor::new([list.len() as u32], HostData::U32(list.to_vec()))?))
        };
        let (starts, columns) = (list(graph, "starts", &self.starts)?, list(graph, "columns", &self.columns)?);
        let weights = match weights {
            Some(w) => Some(graph.constant("signs", HostTensor::f32([w.len() as u32], w.to_vec())?)),
            None => None,
        };
        let y = graph.transient(name, [x.dim(0), x.dim(1), m, x.dim(3)], DType::F32);
        graph.pass(
            &tree_gather::SPEC,
            &tree_gather::Params { longest: self.longest() as u32 },
            &[Some(starts), Some(columns), weights, Some(x), prev, Some(y)],
        )?;
        Ok(y)
    }
}

/// Blocks of one length.
#[derive(Clone, Debug)]
struct Class {
    length: u32,
    blocks: u32,
    /// From the nodes to histograms.
    histograms: Rows,
    /// From products to nodes, with signs.
    reads: Rows,
    signs: Vec<f32>,
}

/// A forest's cuts, laid out in batches for functions that reach a given number of steps.
#[derive(Clone, Debug)]
pub struct Plan {
    classes: Vec<Class>,
}

/// Blocks' lengths are rounded up to 2ᵏ or 3·2ᵏ.
fn rounded(length: u32) -> u32 {
    let two = length.next_power_of_two();
    let three = two / 4 * 3;
    if three >= length { three } else { two }
}

impl Plan {
    /// Lays out a forest's cuts; distances past `reach` weigh 0.
    pub fn new(forest: &Forest, reach: u32) -> Self {
        let cuts = Centroids::new(forest);
        let deepest = reach.saturating_add(1);
        let rows_of = |branch: usize| cuts.row_starts[branch] as usize..cuts.row_starts[branch + 1] as usize;
        let members = |row: usize| &cuts.members[cuts.member_starts[row] as usize..cuts.member_starts[row + 1] as usize];
        // Rounded length of every block: a cut with all its branches, then each branch by itself.
        let mut blocks: Vec<(u32, usize, Option<usize>)> = Vec::new();
        for cut in 0..cuts.nodes.len() {
            blocks.push((rounded((cuts.height(cut) as u32 + 1).min(deepest)), cut, None));
            for branch in cuts.branch_starts[cut] as usize..cuts.branch_starts[cut + 1] as usize {
                blocks.push((rounded((rows_of(branch).len() as u32 + 1).min(deepest)), cut, Some(branch)));
            }
        }
        blocks.sort_by_key(|b| b.0);
        let mut classes = Vec::new();
        let mut at = 0;
        while at < blocks.len() {
            let length = blocks[at].0;
            let end = at + blocks[at..].iter().take_while(|b| b.0 == length).count();
            let mut histograms = Rows::new();
            // What each node reads: (node, row of the products, sign).
            let mut reads: Vec<(u32, u32, f32)> = Vec::new();
            // Depth by depth, all blocks beside one another: the blocks are then channels of one product.
            let blocks_here = (end - at) as u32;
            for place in 0..length {
                // Products turn the depths round: depth d of a long block stands at length − 1 − d.
                let depth = if length > DIRECT { length - 1 - place } else { place };
                for (block, (_, cut, branch)) in blocks[at..end].iter().enumerate() {
                    let row = depth * blocks_here + block as u32;
                    let branches = match branch {
                        Some(b) => *b..*b + 1,
                        None => cuts.branch_starts[*cut] as usize..cuts.branch_starts[*cut + 1] as usize,
                    };
                    let sign = if branch.is_none() { 1.0 } else { -1.0 };
                    if depth == 0 && branch.is_none() {
                        histograms.columns.push(cuts.nodes[*cut]);
                        reads.push((cuts.nodes[*cut], row, sign));
                    }
                    if depth > 0 && depth < deepest {
                        // Branches come with falling height.
                        for b in branches.take_while(|b| rows_of(*b).len() >= depth as usize) {
                            let list = members(rows_of(b).start + depth as usize - 1);
                            histograms.columns.extend_from_slice(list);
                            reads.extend(list.iter().map(|i| (*i, row, sign)));
                        }
                    }
                    histograms.close();
                }
            }
            reads.sort_unstable_by_key(|r| r.0);
            let mut list = Rows::new();
            let mut signs = Vec::with_capacity(reads.len());
            let mut next = 0;
            for node in 0..forest.nodes() as u32 {
                while next < reads.len() && reads[next].0 == node {
                    list.columns.push(reads[next].1);
                    signs.push(reads[next].2);
                    next += 1;
                }
                list.close();
            }
            classes.push(Class { length, blocks: blocks_here, histograms, reads: list, signs });
            at = end;
        }
        Self { classes }
    }

    /// Floating-point operations of one product with one channel.
    pub fn flop(&self) -> f64 {
        let one = |class: &Class| {
            let (l, blocks) = (f64::from(class.length), f64::from(class.blocks));
            let product = if class.length > DIRECT {
                10.0 * l * (2.0 * l).log2()
            } else {
                2.0 * l * l
            };
            blocks * product + (class.histograms.columns.len() + 2 * class.signs.len()) as f64
        };
        self.classes.iter().map(one).sum()
    }

    /// Dispatches before expansions.
    pub fn passes(&self) -> usize {
        3 * self.classes.len()
    }

    /// Records Σⱼ `f[dist(i, j)]` `x[j]` for `x` `[b, h, n, c]`; `f` is 0 past its end.
    ///
    /// Errors: tensors of other shapes.
    pub fn record(&self, graph: &mut Graph, f: &[f64], x: Tensor) -> Result<Tensor> {
        let [b, h, c] = [x.dim(0), x.dim(1), x.dim(3)];
        let at = |d: u32| f.get(d as usize).map_or(0.0, |w| *w as f32);
        let mut sum = None;
        for class in &self.classes {
            let (l, blocks) = (class.length, class.blocks);
            let histograms = class.histograms.record(graph, "histograms by depth", x, None, None)?;
            let turned = graph.reshape(histograms, [b, h, l, blocks * c])?;
            let products = if l > DIRECT {
                let table = HostTensor::f32([1, 2 * l - 1], (0..2 * l - 1).map(at).collect())?;
                let table = graph.constant("f by distance", table);
                let out = graph.transient("sums by depth", turned.shape(), DType::F32);
                let grid = Grid { sides: [1, 1, l], torus: false, transpose: false };
                graph.pass(
                    &toeplitz_product::SPEC,
                    &toeplitz_spectrum::Params::of(&grid),
                    &[Some(turned), Some(table), Some(out)],
                )?;
                out
            } else {
                let matrix = (0..l).flat_map(|a| (0..l).map(move |d| a + d)).map(at).collect();
                let matrix = graph.constant("f by distance", HostTensor::f32([1, 1, l, l], matrix)?);
                matmul::record(graph, "sums by depth", matmul::Inputs::new(matrix, turned), matmul::Params::default())?
            };
            let products = graph.reshape(products, [b, h, blocks * l, c])?;
            sum = Some(class.reads.record(graph, "M x", products, Some(&class.signs), sum)?);
        }
        Ok(sum.unwrap_or(x))
    }
}
