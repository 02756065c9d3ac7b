//! Masked attention by Fourier transforms, recorded: a grid, a grid behind global tokens, and packed sequences.
//!
//! *Global tokens* are a border of the mask: grid rows add what the global keys give them, a product with one small state, and
//! global rows are unmasked linear attention over all keys (method: topological masking, 2.3). *Packed sequences* are gathered into
//! classes of equal length, the next power of two, which become batch elements of their own with the middle of the same table: no
//! number of one sequence ever meets one of another (2.4).
//!
//! Every form ends with the noise guard: rows that rounding could spoil are computed again pair by pair.

use super::path::{self, Path};
use super::{
    choose_rows, column_norms, masked_attention, noise_guard, pack_rows, relative_rows, toeplitz_attention_fused,
    toeplitz_attention_sums, toeplitz_spectrum, unpack_rows,
};
use crate::error::Result;
use crate::graph::Graph;
use crate::kernel::Caps;
use crate::kernels::linalg::matmul::{self, Inputs};
use crate::kernels::linalg::gram;
use crate::kernels::linear::append_one;
use crate::params::NoParams;
use crate::tensor::{DType, HostData, HostTensor, Shape, Tensor};
use std::collections::BTreeMap;
use std::ops::Range;

/// Shorter sequences share a class: each class is some twenty passes.
const SHORTEST: u32 = 16;

/// Tensors of one slice of heads.
#[derive(Clone, Copy)]
pub(super) struct Task {
    pub q: Tensor,
    pub k: Tensor,
    pub v: Tensor,
    pub table: Tensor,
    pub key_mask: Option<Tensor>,
    pub query_mask: Option<Tensor>,
    pub out: Tensor,
}

/// What all slices have in common.
pub(super) struct Job<'a> {
    pub caps: Caps,
    pub params: masked_attention::Params,
    /// Sides of the grid; of the longest sequence where several are packed.
    pub sides: [u32; 3],
    /// Packed sequences.
    pub sequences: Option<&'a [Range<u32>]>,
}

/// The sequences of rows whose first and last visible keys are `words` `[n, 2]`, empty ones left out; `None` if a row sees
/// anything else than its own sequence.
pub(super) fn sequences(words: &[u32]) -> Option<Vec<Range<u32>>> {
    let pairs: Vec<Range<u32>> = words.chunks_exact(2).map(|w| w[0]..w[1]).collect();
    let mut list: Vec<Range<u32>> = Vec::new();
    for (row, seen) in (0_u32..).zip(&pairs).filter(|(_, seen)| !seen.is_empty()) {
        if !seen.contains(&row) || seen.end as usize > pairs.len() {
            return None;
        }
        match list.last() {
            Some(last) if last == seen => {}
            last if seen.start == row && last.is_none_or(|last| last.end <= row) => list.push(seen.clone()),
            _ => return None,
        }
    }
    let whole = list.iter().all(|range| range.clone().all(|row| pairs[row as usize] == *range));
    whole.then_some(list)
}

/// Sequences by the length of their class, shortest first.
pub(crate) fn classes(sequences: &[Range<u32>]) -> BTreeMap<u32, Vec<Range<u32>>> {
    let mut classes: BTreeMap<u32, Vec<Range<u32>>> = BTreeMap::new();
    for range in sequences.iter().filter(|range| !range.is_empty()) {
        let length = (range.end - range.start).checked_next_power_of_two().unwrap_or(u32::MAX).max(SHORTEST);
        classes.entry(length).or_default().push(range.clone());
    }
    classes
}

/// The grids whose transforms packed sequences take: sides and how many of each.
pub(crate) fn grids(sequences: &[Range<u32>]) -> Vec<([u32; 3], u32)> {
    classes(sequences).iter().map(|(length, list)| ([1, 1, *length], list.len() as u32)).collect()
}

/// Records one slice of heads; returns the counts `[2]` of rows computed again and rows looked at, which are all or more (places
/// of no row count too).
pub(super) fn record(graph: &mut Graph, job: &Job<'_>, task: &Task) -> Result<Vec<Tensor>> {
    match job.sequences {
        Some(sequences) => packed(graph, job, sequences, task),
        None if job.params.globals > 0 => bordered(graph, job, task).map(|status| vec![status]),
        None => plain(graph, job, task).map(|status| vec![status]),
    }
}

/// Whether the transforms of a grid stay in workgroup memory.
fn is_fused(job: &Job<'_>, sides: [u32; 3], r: u32, e: u32) -> bool {
    job.params.path == Path::Fused.number()
        || job.params.path != Path::Passes.number() && path::fuses(&job.caps, sides, r, e)
}

/// Sums and denominators `[b, h, n, e + 1]` of a grid without globals.
fn sums(graph: &mut Graph, job: &Job<'_>, [q, k, v, table]: [Tensor; 4], key_mask: Option<Tensor>) -> Result<Tensor> {
    let [b, h, n, r] = [0, 1, 2, 3].map(|axis| q.dim(axis));
    let sums = graph.transient("sums and denominators", [b, h, n, v.dim(3) + 1], DType::F32);
    let [n1, n2, n3] = job.sides;
    let grid = toeplitz_spectrum::Params { n1, n2, n3, ..Default::default() };
    if is_fused(job, job.sides, r, v.dim(3)) {
        toeplitz_attention_fused::record(graph, &job.caps, &grid.grid(), [q, k, v, table], key_mask, sums)?;
    } else {
        let args = [Some(q), Some(k), Some(v), Some(table), key_mask, Some(sums)];
        graph.pass(&toeplitz_attention_sums::SPEC, &grid, &args)?;
    }
    Ok(sums)
}

/// A grid.
fn plain(graph: &mut Graph, job: &Job<'_>, task: &Task) -> Result<Tensor> {
    let sums = sums(graph, job, [task.q, task.k, task.v, task.table], task.key_mask)?;
    let norms = column_norms::record(graph, "norms of the keys' features", task.k, task.key_mask)?;
    finish(graph, job, task, sums, norms)
}

/// Finds the rows of `sums` that noise could spoil, computes them again and divides the others.
fn finish(graph: &mut Graph, job: &Job<'_>, task: &Task, sums: Tensor, norms: Tensor) -> Result<Tensor> {
    let Task { q, k, v, table, key_mask, query_mask, out } = *task;
    let [b, h, n, e] = [0, 1, 2, 3].map(|axis| out.dim(axis));
    let [tables, entries] = [table.dim(0), table.dim(1)];
    let columns = graph.reshape(table, [1, tables, entries, 1])?;
    let table_norm = column_norms::record(graph, "norms of the tables", columns, None)?;
    let table_norm = graph.reshape(table_norm, [tables])?;

    let rows = b * h * n;
    let mut words =
        |name: &str, shape: &[u32]| -> Result<Tensor> { Ok(graph.transient(name, Shape::new(shape)?, DType::U32)) };
    let slot = words("places of rows in the list", &[b, h, n])?;
    let list = words("rows to compute again", &[rows + 1])?;
    let dispatch = words("workgroups for them", &[3])?;
    let status = words("how many of all", &[2])?;
    let lengths = if is_fused(job, job.sides, q.dim(3), e) {
        toeplitz_attention_fused::lengths(job.sides)
    } else {
        super::grid::Grid { sides: job.sides, torus: false, transpose: false }.lengths()
    };
    let length: f32 = lengths.iter().map(|&l| l as f32).product();
    let guard = noise_guard::Params {
        safety: job.params.safety,
        log2_length: length.log2().max(1.0),
        tau: job.params.tau,
        groups_per_row: e.div_ceil(relative_rows::COLUMNS).max(1),
        // A row of zeros for lack of keys has nothing to compute again, whichever way it went.
        spare_zeros: 1,
    };
    let args =
        [Some(sums), Some(q), Some(norms), Some(table_norm), query_mask, Some(slot), Some(list), Some(dispatch), Some(status)];
    graph.pass(&noise_guard::SPEC, &guard, &args)?;

    let again = graph.transient("rows computed again", [rows, e], DType::F32);
    let args = [Some(q), Some(k), Some(v), Some(table), key_mask, None, Some(list), Some(dispatch), Some(again)];
    graph.pass(&relative_rows::SPEC, &job.params.grid(), &args)?;
    graph.pass(&choose_rows::SPEC, &NoParams {}, &[Some(sums), Some(slot), Some(again), query_mask, Some(out)])?;
    Ok(status)
}

fn numbers(graph: &mut Graph, name: &str, shape: &[u32], words: Vec<u32>) -> Result<Tensor> {
    Ok(graph.constant(name, HostTensor::new(Shape::new(shape)?, HostData::U32(words))?))
}

/// Global tokens in front of a grid.
fn bordered(graph: &mut Graph, job: &Job<'_>, task: &Task) -> Result<Tensor> {
    let Task { q, k, v, table, key_mask, .. } = *task;
    let [b, h, n] = [0, 1, 2].map(|axis| q.dim(axis));
    let globals = job.params.globals.min(n);
    let of_grid = numbers(graph, "tokens of the grid", &[1, n - globals], (globals..n).collect())?;
    let of_globals = numbers(graph, "global tokens", &[1, globals], (0..globals).collect())?;
    // Masked keys become zeros here, and with them all that they would give.
    let mut part = |name: &str, x: Tensor, index: Tensor, keep| pack_rows::record(graph, name, x, index, keep);
    let grid_q = part("queries of the grid", q, of_grid, None)?;
    let grid_k = part("keys of the grid", k, of_grid, key_mask)?;
    let grid_v = part("values of the grid", v, of_grid, key_mask)?;
    let global_q = part("global queries", q, of_globals, None)?;
    let global_k = part("global keys", k, of_globals, key_mask)?;
    let global_v = part("global values", v, of_globals, key_mask)?;

    let global_values = append_one::record(graph, global_v, None)?;
    let grid_values = append_one::record(graph, grid_v, None)?;
    let from_globals = gram::record(graph, "state of the global keys", global_k, global_values, None, 1.0)?;
    let from_grid = gram::record(graph, "state of the grid's keys", grid_k, grid_values, None, 1.0)?;

    let masked = sums(graph, job, [grid_q, grid_k, grid_v, table], None)?;
    let inputs = Inputs { residual: Some(masked), ..Inputs::new(grid_q, from_globals) };
    let grid_rows = matmul::record(graph, "rows of the grid", inputs, matmul::Params::default())?;
    let seen = matmul::record(graph, "global rows, of global keys", Inputs::new(global_q, from_globals), matmul::Params::default())?;
    let inputs = Inputs { residual: Some(seen), ..Inputs::new(global_q, from_grid) };
    let global_rows = matmul::record(graph, "global rows", inputs, matmul::Params::default())?;

    let at_globals = (0..n).map(|i| if i < globals { i } else { u32::MAX }).collect();
    let at_grid = (0..n).map(|i| i.checked_sub(globals).unwrap_or(u32::MAX)).collect();
    let at_globals = numbers(graph, "places of global rows", &[n], at_globals)?;
    let at_grid = numbers(graph, "places of the grid's rows", &[n], at_grid)?;
    let begun = unpack_rows::record(graph, "global rows first", global_rows, [b, h], at_globals, None)?;
    let all = unpack_rows::record(graph, "sums of all rows", grid_rows, [b, h], at_grid, Some(begun))?;
    let norms = column_norms::record(graph, "norms of the keys' features", grid_k, None)?;
    finish(graph, job, task, all, norms)
}

/// Packed sequences, class by class.
fn packed(graph: &mut Graph, job: &Job<'_>, sequences: &[Range<u32>], task: &Task) -> Result<Vec<Tensor>> {
    let n = task.q.dim(2);
    let (classes, mut statuses, mut prior) = (classes(sequences), Vec::new(), None);
    let count = classes.len();
    for (number, (length, list)) in classes.into_iter().enumerate() {
        let mut index = vec![u32::MAX; list.len() * length as usize];
        let mut place = vec![u32::MAX; n as usize];
        for (s, range) in list.iter().enumerate() {
            for (m, row) in range.clone().enumerate() {
                let at = s * length as usize + m;
                index[at] = row;
                place[row as usize] = at as u32;
            }
        }
        let index = numbers(graph, "rows of sequences", &[list.len() as u32, length], index)?;
        let place = numbers(graph, "places in sequences", &[n], place)?;
        // What is left out becomes zeros; rows of zeros have no noise.
        let q = pack_rows::record(graph, "queries in sequences", task.q, index, task.query_mask)?;
        let k = pack_rows::record(graph, "keys in sequences", task.k, index, task.key_mask)?;
        let v = pack_rows::record(graph, "values in sequences", task.v, index, task.key_mask)?;
        let table = middle(graph, task.table, job.sides[2], length)?;
        let shape = [q.dim(0), q.dim(1), length, v.dim(3)];
        let out = graph.transient("attended sequences", shape, DType::F32);
        let class = Job { params: narrowed(&job.params, job.sides[2], length), sides: [1, 1, length], ..*job };
        let part = Task { q, k, v, table, key_mask: None, query_mask: None, out };
        statuses.push(plain(graph, &class, &part)?);
        prior = if number + 1 == count {
            unpack_rows::record_into(graph, out, place, prior, task.out)?;
            None
        } else {
            let heads = [task.out.dim(0), task.out.dim(1)];
            Some(unpack_rows::record(graph, "attended so far", out, heads, place, prior)?)
        };
    }
    Ok(statuses)
}

/// Entries between which the tables of a line of `side` tokens and of one of `length` share their middles.
fn shift(side: u32, length: u32) -> i64 {
    i64::from(side) - i64::from(length)
}

/// The table of a line of `length` tokens cut from that of `side`, or widened by zeros, which no two tokens of a sequence meet.
fn middle(graph: &mut Graph, table: Tensor, side: u32, length: u32) -> Result<Tensor> {
    let [heads, entries] = [table.dim(0), table.dim(1)];
    let wanted = 2 * length - 1;
    let entry = |m: u32| u32::try_from(i64::from(m) + shift(side, length)).ok().filter(|at| *at < entries);
    let index = (0..wanted).map(|m| entry(m).unwrap_or(u32::MAX)).collect();
    let index = numbers(graph, "middle of the table", &[1, wanted], index)?;
    let columns = graph.reshape(table, [1, heads, entries, 1])?;
    let cut = pack_rows::record(graph, "table of the class", columns, index, None)?;
    graph.reshape(cut, [heads, wanted])
}

/// The parameters of a line of `side` tokens for one of `length`.
fn narrowed(p: &masked_attention::Params, side: u32, length: u32) -> masked_attention::Params {
    let last = i64::from(p.last3).min(2 * i64::from(side) - 2) - shift(side, length);
    let first = (i64::from(p.first3) - shift(side, length)).max(0);
    // A support of nothing has its first place behind its last.
    let (first3, last3) = if first <= last { (first as u32, last as u32) } else { (1, 0) };
    masked_attention::Params { n1: 1, n2: 1, n3: length, first3, last3, ..*p }
}

/// Rows that the classes of packed sequences look at, of `heads` heads.
pub(super) fn places(sequences: &[Range<u32>], heads: u32) -> u32 {
    let all = grids(sequences).iter().map(|([.., length], count)| length.wrapping_mul(*count)).fold(0, u32::wrapping_add);
    all.wrapping_mul(heads)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(offsets: &[u32], n: u32) -> Vec<u32> {
        let mut words = vec![0; 2 * n as usize];
        for pair in offsets.windows(2) {
            for row in pair[0]..pair[1] {
                words[2 * row as usize..][..2].copy_from_slice(pair);
            }
        }
        words
    }

    #[test]
    fn sequences_are_found_and_sorted_into_classes() {
        let found = sequences(&words(&[1, 6, 6, 7, 40], 45)).expect("sequences");
        assert_eq!(found, [1..6, 6..7, 7..40]);
        let classes = classes(&found);
        assert_eq!(classes.keys().copied().collect::<Vec<_>>(), [16, 64]);
        assert_eq!(classes[&16], [1..6, 6..7]);
        assert_eq!(places(&found, 3), 3 * (2 * 16 + 64));
        assert_eq!(sequences(&words(&[0, 0], 3)), Some(Vec::new()));
    }

    #[test]
    fn rows_that_see_other_sequences_are_no_packing() {
        // Row 2 sees its neighbours only.
        let mut local = words(&[0, 5], 5);
        local[4..6].copy_from_slice(&[1, 4]);
        assert_eq!(sequences(&local), None);
        let mut past = words(&[0, 5], 5);
        past.truncate(8);
        assert_eq!(sequences(&past), None);
        // Row 3 of the second sees the first.
        let mut other = words(&[0, 2, 4], 4);
        other[6..8].copy_from_slice(&[0, 2]);
        assert_eq!(sequences(&other), None);
    }

    #[test]
    fn a_narrower_line_keeps_its_support() {
        // Offsets -2 to 1 of 10 tokens: places 7 to 10; of 16 tokens places 13 to 16; of 2 tokens places 0 to 2.
        let p = masked_attention::Params { n3: 10, first3: 7, last3: 10, ..Default::default() };
        let support = |length| {
            let p = narrowed(&p, 10, length);
            (p.first3, p.last3)
        };
        assert_eq!(support(16), (13, 16));
        assert_eq!(support(10), (7, 10));
        assert_eq!(support(2), (0, 2));
        let future = masked_attention::Params { first3: 0, last3: 3, ..p };
        let narrow = narrowed(&future, 10, 2);
        assert!(narrow.first3 > narrow.last3);
    }
}
