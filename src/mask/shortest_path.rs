//! Masks by the number of steps between nodes of a network: M(i, j) = f(d(i, j)), 0 where no way leads from i to j.
//!
//! No product faster than all pairs is known for general networks (method: topological masking, 2.8), so there are two forms. *Dense*: distances
//! of 8 or 16 bits, weights looked up, N² bytes and N² work, no matrix of floats. *Sparse*: where f ends after R steps and the balls of R steps are
//! small, rows of their nodes, multiplied as a sparse matrix. [`ShortestPath::new`] takes the cheaper one that fits, or says why neither does.

use super::operator::{Exactness, MaskOperator, ParameterGradient, attend, check};
use crate::attention::Masks;
use crate::error::{Error, Result};
use crate::graph::Graph;
use crate::kernels::distance::pairs::{self, checked_table, packed8, packed16, unpacked};
use crate::kernels::distance::{distance_attention, distance_product};
use crate::kernels::graph::spmm;
use crate::tensor::{DType, HostData, HostTensor, Tensor};
use crate::topology::Network;
use crate::topology::distance::{Balls, Steps as _, balls, steps};
use std::sync::{Arc, OnceLock};

/// Most bytes of distances: the largest buffer that every device has.
pub const MOST_BYTES: u64 = 256 << 20;
/// A pair of a sparse row costs about as much as this many pairs of packed distances: its node and weight are read, and its channels
/// are gathered.
const SPARSE_COST: usize = 4;
/// Most pairs of sparse rows.
const MOST_PAIRS: usize = 1 << 25;

/// How the distances are held.
#[derive(Clone, Debug)]
enum Form {
    /// All pairs, packed: `[n, w]` words of rows, and of columns once they are asked for.
    Dense { bits: u32, rows: Arc<Vec<u32>>, columns: Arc<OnceLock<Arc<Vec<u32>>>> },
    /// The pairs that f reaches.
    Sparse(Arc<Sparse>),
}

/// Sparse rows of distances, and of the transposed ones.
#[derive(Debug)]
struct Sparse {
    balls: Balls,
    turned: Balls,
}

/// A mask by distance in steps. Row = query i, column = key j, d(i, j) the steps from i to j along edges.
#[derive(Clone, Debug)]
pub struct ShortestPath {
    tokens: u32,
    heads: u32,
    /// `[heads, t]`.
    table: Vec<f32>,
    form: Form,
}

/// One table of weights by distance for all heads, or one for each, as one list, and its length without the zeros at its end.
fn tables(heads: &[Vec<f32>]) -> Result<(u32, usize, Vec<f32>)> {
    if heads.is_empty() {
        return Err(Error::value(
            "weights by distance",
            "a list per head, or one",
            "none",
            "give f(0), f(1), …",
        ));
    }
    let mut reach = 1;
    for list in heads {
        checked_table(list, 16)?;
        reach = reach.max(list.iter().rposition(|f| *f > 0.0).map_or(1, |last| last + 1));
    }
    let padded = heads.iter().flat_map(|list| (0..reach).map(move |d| list.get(d).copied().unwrap_or(0.0)));
    Ok((heads.len() as u32, reach, padded.collect()))
}

fn transposed(balls: &Balls) -> Balls {
    let n = balls.starts.len() - 1;
    let mut starts = vec![0_u32; n + 1];
    balls.columns.iter().for_each(|j| starts[*j as usize + 1] += 1);
    for i in 0..n {
        starts[i + 1] += starts[i];
    }
    let mut next = starts.clone();
    let mut out = Balls { starts, columns: vec![0; balls.columns.len()], steps: vec![0; balls.steps.len()] };
    for i in 0..n {
        for e in balls.starts[i] as usize..balls.starts[i + 1] as usize {
            let place = &mut next[balls.columns[e] as usize];
            out.columns[*place as usize] = i as u32;
            out.steps[*place as usize] = balls.steps[e];
            *place += 1;
        }
    }
    out
}

impl ShortestPath {
    /// The mask f(d) of a network; `f` holds a list f(0), f(1), … for every head, or one for all. Distances that a list does not hold weigh 0, so a
    /// list of R + 1 numbers is a mask cut off after R steps.
    ///
    /// Errors: no list; weights that are negative or not finite, lists of more than 65 535; networks whose distances fit neither form, with both
    /// reasons.
    pub fn new(network: &Network, f: &[Vec<f32>]) -> Result<Self> {
        let n = network.nodes();
        let limit = (n.saturating_mul(n) / SPARSE_COST).min(MOST_PAIRS);
        let sparse = match Self::sparse(network, f, limit) {
            Ok(mask) => return Ok(mask),
            Err(error) => error,
        };
        Self::dense(network, f).map_err(|dense| {
            Error::value(
                format!("mask by distance on {n} nodes"),
                "balls small enough for sparse rows, or few enough nodes for distances of all pairs",
                format!("neither: {sparse}; {dense}"),
                "cut the mask off after fewer steps, or use a diffusion, whose memory is linear",
            )
        })
    }

    /// [`Self::new`] with distances of all pairs, of 8 bits where f ends before 255 steps.
    ///
    /// Errors: weights as above; more than [`MOST_BYTES`] of distances; distances that 16 bits do not hold though f reaches them.
    pub fn dense(network: &Network, f: &[Vec<f32>]) -> Result<Self> {
        let (heads, reach, table) = tables(f)?;
        let n = network.nodes();
        let bits = if reach < 255 { 8 } else { 16 };
        let bytes = 4 * u64::from(pairs::words(n as u32, bits)) * n as u64;
        if bytes > MOST_BYTES {
            return Err(Error::value(
                "distances of all pairs",
                format!("at most {} MiB, the largest buffer of every device", MOST_BYTES >> 20),
                format!("{} MiB for {n} nodes", bytes >> 20),
                "cut the mask off after a few steps, or use a diffusion",
            ));
        }
        let wide = || -> Result<Vec<u16>> { steps::<u16>(network) };
        let rows = match (bits, steps::<u8>(network)) {
            (8, Ok(rows)) => packed8(&rows, n),
            // Farther than f reaches is as good as no way.
            (8, Err(_)) => packed8(
                &wide()?.iter().map(|d| u8::of((*d).into()).unwrap_or(u8::MAX)).collect::<Vec<_>>(),
                n,
            ),
            _ => packed16(&wide()?, n),
        };
        let form = Form::Dense { bits, rows: Arc::new(rows), columns: Arc::default() };
        Ok(Self { tokens: n as u32, heads, table, form })
    }

    /// [`Self::new`] with sparse rows of at most `most` pairs.
    ///
    /// Errors: weights as above; f that does not end before 255 steps; more pairs.
    pub fn sparse(network: &Network, f: &[Vec<f32>], most: usize) -> Result<Self> {
        let (heads, reach, table) = tables(f)?;
        let Ok(radius) = u8::try_from(reach - 1) else {
            return Err(Error::value(
                "reach of a mask in sparse rows",
                "at most 255 steps",
                reach - 1,
                "cut the mask off after fewer steps",
            ));
        };
        let balls = balls(network, radius, most)?;
        let turned = transposed(&balls);
        let form = Form::Sparse(Arc::new(Sparse { balls, turned }));
        Ok(Self { tokens: network.nodes() as u32, heads, table, form })
    }

    /// Whether the mask is held as sparse rows.
    pub fn is_sparse(&self) -> bool {
        matches!(self.form, Form::Sparse(_))
    }

    /// Pairs of nodes that are visited for one channel.
    pub fn pairs(&self) -> u64 {
        match &self.form {
            Form::Dense { .. } => u64::from(self.tokens) * u64::from(self.tokens),
            Form::Sparse(sparse) => sparse.balls.columns.len() as u64,
        }
    }

    fn reach(&self) -> usize {
        self.table.len() / self.heads as usize
    }

    fn of_head(&self, head: u32) -> &[f32] {
        let head = if self.heads == 1 { 0 } else { head as usize };
        &self.table[head * self.reach()..][..self.reach()]
    }

    /// Words of the transposed distances.
    fn columns(&self, bits: u32, rows: &[u32]) -> Vec<u32> {
        let n = self.tokens as usize;
        let w = pairs::words(self.tokens, bits) as usize;
        let at = |i: usize, j: usize| unpacked(&rows[j * w..][..w], bits, i);
        let all = (0..n).flat_map(|i| (0..n).map(move |j| (i, j)));
        match bits {
            8 => packed8(&all.map(|(i, j)| at(i, j) as u8).collect::<Vec<_>>(), n),
            _ => packed16(&all.map(|(i, j)| at(i, j) as u16).collect::<Vec<_>>(), n),
        }
    }

    /// The distances and weights as constants of a graph.
    fn constants(&self, graph: &mut Graph, bits: u32, words: &Arc<Vec<u32>>) -> Result<(Tensor, Tensor)> {
        let w = pairs::words(self.tokens, bits);
        let distances = HostTensor::new([1, 1, self.tokens, w], HostData::U32(words.to_vec()))?;
        let table = HostTensor::f32([self.heads, self.reach() as u32], self.table.clone())?;
        Ok((graph.constant("distances", distances), graph.constant("weights by distance", table)))
    }

    fn record(&self, graph: &mut Graph, x: Tensor, transpose: bool) -> Result<Tensor> {
        check(self, x)?;
        let out = graph.transient("M x", x.shape(), DType::F32);
        match &self.form {
            Form::Dense { bits, rows, columns } => {
                let words = match transpose {
                    false => rows,
                    true => columns.get_or_init(|| Arc::new(self.columns(*bits, rows))),
                };
                let (distances, table) = self.constants(graph, *bits, words)?;
                let params = distance_product::Params { bits: *bits };
                let ports = [Some(x), Some(distances), Some(table), Some(out)];
                graph.pass(&distance_product::SPEC, &params, &ports)?;
            }
            Form::Sparse(sparse) => {
                let balls = if transpose { &sparse.turned } else { &sparse.balls };
                self.record_sparse(graph, balls, x, out)?;
            }
        }
        Ok(out)
    }

    fn record_sparse(&self, graph: &mut Graph, balls: &Balls, x: Tensor, out: Tensor) -> Result<()> {
        let list = |graph: &mut Graph, name: &str, words: &[u32]| -> Result<Tensor> {
            let value = HostTensor::new([words.len() as u32], HostData::U32(words.to_vec()))?;
            Ok(graph.constant(name, value))
        };
        let starts = list(graph, "rows of near nodes", &balls.starts)?;
        let columns = list(graph, "near nodes", &balls.columns)?;
        let longest = balls.starts.windows(2).map(|w| w[1] - w[0]).max().unwrap_or(0);
        let one = |graph: &mut Graph, head: u32, x: Tensor, out: Tensor| -> Result<()> {
            let f = self.of_head(head);
            let weights = balls.steps.iter().map(|d| f[usize::from(*d)]).collect();
            let weights = HostTensor::f32([balls.columns.len() as u32], weights)?;
            let weights = graph.constant("weights of near nodes", weights);
            let params = spmm::Params { longest, ..spmm::Params::default() };
            let ports = [Some(starts), Some(columns), Some(weights), None, Some(x), None, Some(out)];
            graph.pass(&spmm::SPEC, &params, &ports)?;
            Ok(())
        };
        if self.heads == 1 {
            return one(graph, 0, x, out);
        }
        // Every head has weights of its own, and the product shares them between heads.
        for (b, h) in (0..x.dim(0)).flat_map(|b| (0..x.dim(1)).map(move |h| (b, h))) {
            let part = |graph: &mut Graph, t: Tensor| -> Result<Tensor> {
                let batch = graph.slice(t, 0, b..b + 1)?;
                graph.slice(batch, 1, h..h + 1)
            };
            let (from, to) = (part(graph, x)?, part(graph, out)?);
            one(graph, h, from, to)?;
        }
        Ok(())
    }

    /// Records masked linear attention: `q`, `k` `[b, h, n, r]` mapped and non-negative, `v` `[b, h, n, e]`; `[b, h, n, e]`, zeros where a row sees no key.
    ///
    /// Dense masks go pair by pair in one pass, sparse ones feature by feature (`slice` at a time, see [`attend`]).
    ///
    /// Errors: other tokens or heads; a slice of 0.
    pub fn attend(
        &self,
        graph: &mut Graph,
        qkv: (Tensor, Tensor, Tensor),
        masks: Masks,
        slice: u32,
    ) -> Result<Tensor> {
        match &self.form {
            Form::Sparse(_) => attend(graph, self, qkv, masks, slice),
            Form::Dense { .. } => {
                self.attend_scores(graph, qkv, masks, distance_attention::Params::default())
            }
        }
    }

    /// Records attention with any scores ([`distance_attention`]) under the mask; only dense masks have it.
    ///
    /// Errors: other tokens or heads; a mask in sparse rows.
    pub fn attend_scores(
        &self,
        graph: &mut Graph,
        (q, k, v): (Tensor, Tensor, Tensor),
        masks: Masks,
        scores: distance_attention::Params,
    ) -> Result<Tensor> {
        check(self, v)?;
        let Form::Dense { bits, rows, .. } = &self.form else {
            return Err(Error::value(
                "attention by scores under a mask by distance",
                "distances of all pairs",
                self.describe(),
                "make the mask with `ShortestPath::dense`",
            ));
        };
        let (distances, table) = self.constants(graph, *bits, rows)?;
        let out = graph.transient("attended", [q.dim(0), q.dim(1), q.dim(2), v.dim(3)], DType::F32);
        let params = distance_attention::Params { bits: *bits, ..scores };
        let ports =
            [Some(q), Some(k), Some(v), Some(distances), Some(table), masks.keys, masks.queries, Some(out)];
        graph.pass(&distance_attention::SPEC, &params, &ports)?;
        Ok(out)
    }
}

impl MaskOperator for ShortestPath {
    fn describe(&self) -> String {
        match &self.form {
            Form::Dense { bits, .. } => {
                format!("distances of {bits} bits between all of {} nodes", self.tokens)
            }
            Form::Sparse(sparse) => format!(
                "{} pairs of {} nodes at most {} steps apart",
                sparse.balls.columns.len(),
                self.tokens,
                self.reach() - 1
            ),
        }
    }

    fn tokens(&self) -> u32 {
        self.tokens
    }

    fn heads(&self) -> u32 {
        self.heads
    }

    fn weight(&self, head: u32, i: u32, j: u32) -> f64 {
        let f = self.of_head(head);
        let steps = match &self.form {
            Form::Dense { bits, rows, .. } => {
                let w = pairs::words(self.tokens, *bits) as usize;
                Some(unpacked(&rows[i as usize * w..][..w], *bits, j as usize))
            }
            Form::Sparse(sparse) => {
                let balls = &sparse.balls;
                let row = balls.starts[i as usize] as usize..balls.starts[i as usize + 1] as usize;
                let found = balls.columns[row.clone()].binary_search(&j).ok();
                found.map(|at| usize::from(balls.steps[row.start + at]))
            }
        };
        steps.and_then(|d| f.get(d)).map_or(0.0, |f| f64::from(*f))
    }

    fn exactness(&self) -> Exactness {
        Exactness::Relative
    }

    fn flop(&self) -> f64 {
        2.0 * self.pairs() as f64
    }

    fn apply(&self, graph: &mut Graph, x: Tensor) -> Result<Tensor> {
        self.record(graph, x, false)
    }

    fn apply_transposed(&self, graph: &mut Graph, x: Tensor) -> Result<Tensor> {
        self.record(graph, x, true)
    }

    fn parameter_gradient(&self) -> ParameterGradient {
        ParameterGradient::Declared("df[d] = Σ_c Σ_{d(i,j) = d} dY_ic D_jc: pair by pair, like the product")
    }
}
