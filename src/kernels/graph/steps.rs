//! What the steps of a Chebyshev expansion share, whatever their operator: the recurrence on the CPU, their work, their checks.

use crate::kernel::wgsl_module::Shared;
use crate::kernel::{Cost, HostArgs, Real, reference as host};
use crate::tensor::Dims;

/// Most coefficients of an expansion: what a uniform block holds.
pub const MOST_TERMS: u32 = 16_384;
/// Bytes of a head that a texture can hold.
pub const TEXTURE_BYTES: u64 = 64 << 20;

/// The coefficients of a step from the uniform block.
pub const COEFFICIENT: &Shared =
    &Shared { file: "graph/coefficient.wgsl", body: include_str!("../../../shaders/graph/coefficient.wgsl") };

/// Refuses terms that have no coefficient.
pub(super) fn check_term(d: &Dims, term: u32) -> std::result::Result<(), String> {
    let k = d.size("k");
    if k == 0 || k > MOST_TERMS {
        return Err(format!("an expansion has 1 to {MOST_TERMS} coefficients, got {k}"));
    }
    if term >= k {
        return Err(format!("term {term} has no coefficient: there are {k}, counted from 0"));
    }
    Ok(())
}

/// `Σ weight x[j]` for every number of one node: `row` gives its neighbours with their weights.
pub(super) fn gathered<T: Real>(
    x: &[T],
    c: usize,
    line: &mut [T],
    row: impl FnOnce(&mut dyn FnMut(usize, T)),
) {
    row(&mut |j, weight| line.iter_mut().zip(&x[j * c..][..c]).for_each(|(y, x)| *y += weight * *x));
}

/// Which channels of wider rows a step works on: numbers in a row, and the first of them.
pub(super) struct Columns {
    pub(super) cur: (usize, usize),
    pub(super) prev: (usize, usize),
    pub(super) sum: (usize, usize),
    /// Channels of the step.
    pub(super) width: usize,
}

/// T_k from T_{k−1} and T_{k−2}: `row(i, visit)` calls `visit(j, weight)` for every entry of row i of S.
pub(super) fn term<T: Real>(
    cur: &[T],
    prev: Option<&[T]>,
    batches: usize,
    nodes: usize,
    columns: &Columns,
    row: impl Fn(usize, &mut dyn FnMut(usize, T)) + Sync,
) -> Vec<T> {
    let ((c, first), (p, prev_first)) = (columns.cur, columns.prev);
    host::rows(batches, nodes, columns.width, |batch, i, line| {
        row(i, &mut |j, weight| {
            let x = &cur[(batch * nodes + j) * c + first..];
            line.iter_mut().zip(x).for_each(|(y, x)| *y += weight * *x);
        });
        if let Some(prev) = prev {
            let before = &prev[(batch * nodes + i) * p + prev_first..];
            line.iter_mut().zip(before).for_each(|(y, p)| *y = *y + *y - *p);
        }
    })
}

/// One term for `nodes` nodes a head, and the sum with it.
pub(super) fn reference<T: Real>(
    args: &mut HostArgs<T>,
    nodes: usize,
    number: u32,
    columns: Columns,
    row: impl Fn(usize, &mut dyn FnMut(usize, T)) + Sync,
) {
    let (cur, coefficients) = (args.real("cur"), args.real("coefficients"));
    let (prev, sum_in) = (args.real_if("prev"), args.real_if("sum_in"));
    let (batches, width) = (args.dims.batches() as usize, columns.width);
    let ((c, first), (q, to), k) = (columns.cur, columns.sum, number as usize);
    let here = |at: usize| cur[at / width * c + first + at % width];
    let next = match number {
        0 => (0..batches * nodes * width).map(here).collect(),
        _ => term(&cur, prev.as_ref().map(|p| p.as_slice()), batches, nodes, &columns, row),
    };
    let mut sum = vec![T::zero(); batches * nodes * q];
    for (at, y) in next.iter().enumerate() {
        let begun = match &sum_in {
            Some(sum) => sum[at],
            None if k > 0 => coefficients[k - 1] * here(at),
            None => T::zero(),
        };
        sum[at / width * q + to + at % width] = begun + coefficients[k] * *y;
    }
    args.set("next", next);
    args.set("sum_out", sum);
}

/// Work of a whole step with `entries` entries of S for `nodes` nodes of c channels.
pub(super) fn cost(d: &Dims, nodes: f64, entries: f64, c: f64) -> Cost {
    let batches = d.batches() as f64;
    Cost {
        flop: batches * c * (2.0 * entries + 4.0 * nodes),
        exp: 0.0,
        stores: 2.0 * batches * nodes * c,
        bytes: 4.0 * (5.0 * batches * nodes * c + 2.0 * entries),
        ..Cost::default()
    }
}
