//! Sparse rows as kernels take them: three arrays, checked on the host, and the variants that walk them.
//!
//! Row i lists its entries at places `starts[i]` to `starts[i + 1]` of `columns` and `weights`.

use crate::error::{Error, Result};
use crate::cuda_shared;
use crate::kernel::cuda::{self, Source};
use crate::kernel::wgsl_module::Shared;
use crate::kernel::{Caps, Constant, HostArgs, Real, resize};
use crate::tensor::{Dims, HostData};
use crate::words::or_none;

/// Reading a row without leaving the lists.
pub const ROW: &Shared =
    &Shared { file: "graph/row.wgsl", body: include_str!("../../../shaders/graph/row.wgsl") };

/// What is wrong with the arrays of a graph of `n` nodes, or the length of the longest row.
///
/// Errors: [`Error::Value`] naming the array and the entry: `starts` that do not begin with 0, fall, or end elsewhere than the
/// columns; columns that are no node; weights that are not finite.
pub fn checked(n: u32, starts: &[u32], columns: &[u32], weights: Option<&[f32]>) -> Result<u32> {
    let wrong = |what: String, expected: String, got: String| {
        Err(Error::value(what, expected, got, "build the arrays from a list of edges, row by row"))
    };
    let whole = starts.len() as u64 == u64::from(n) + 1;
    if !whole || starts.first() != Some(&0) || starts.last().map(|end| *end as usize) != Some(columns.len()) {
        let got = format!("{} entries from {} to {}", starts.len(), or_none(starts.first()), or_none(starts.last()));
        return wrong(
            "starts".into(),
            format!("{} entries from 0 to {}", u64::from(n) + 1, columns.len()),
            got,
        );
    }
    if let Some(at) = starts.windows(2).position(|pair| pair[0] > pair[1]) {
        return wrong(
            format!("starts[{}]", at + 1),
            format!("at least {}", starts[at]),
            starts[at + 1].to_string(),
        );
    }
    if let Some(at) = columns.iter().position(|column| *column >= n) {
        return wrong(format!("columns[{at}]"), format!("a node below {n}"), columns[at].to_string());
    }
    if let Some(weights) = weights {
        if weights.len() < columns.len() {
            return wrong(
                "weights".into(),
                format!("a weight for each of {} edges", columns.len()),
                weights.len().to_string(),
            );
        }
        if let Some(at) = weights.iter().position(|weight| !weight.is_finite()) {
            return wrong(format!("weights[{at}]"), "a finite number".into(), weights[at].to_string());
        }
    }
    Ok(starts.windows(2).map(|pair| pair[1] - pair[0]).max().unwrap_or(0))
}

/// Calls `visit(j, weight)` for the entries of row i; what kernels leave out is left out.
pub(super) fn row<T: Real>(
    starts: &[u32],
    columns: &[u32],
    weights: Option<&[T]>,
    i: usize,
    visit: &mut dyn FnMut(usize, T),
) {
    let n = starts.len().saturating_sub(1);
    let last = (starts[i + 1] as usize).min(columns.len());
    for place in (starts[i] as usize).min(last)..last {
        let j = columns[place] as usize;
        if j < n {
            visit(j, weights.map_or(T::one(), |w| w[place]));
        }
    }
}

/// Sizes that every kernel on sparse rows must have.
pub(super) fn check(d: &Dims, longest: u32) -> std::result::Result<(), String> {
    let (n, s, z) = (d.size("n"), d.size("s"), d.size("z"));
    if u64::from(s) != u64::from(n) + 1 {
        return Err(format!("`starts` has a place more than the {n} nodes, got {s}"));
    }
    if longest > z {
        return Err(format!("longest is the edges of one row, at most all {z}, got {longest}"));
    }
    Ok(())
}

/// The longest row there may be: what the parameter says, or all edges in one row.
pub(super) fn longest(d: &Dims, given: u32) -> u64 {
    u64::from(if given == 0 { d.size("z") } else { given })
}

/// Whether one thread may walk a row.
pub(super) fn one_thread(d: &Dims, given: u32, caps: &Caps) -> bool {
    longest(d, given) <= caps.loop_rounds
}

/// Whether 64 threads may walk a row and add their sums.
pub(super) fn many_threads(d: &Dims, given: u32, caps: &Caps) -> bool {
    longest(d, given).div_ceil(64) + 64 <= caps.loop_rounds
}

/// A kernel that gathers rows of channels along edges, as its CUDA sources see it.
pub(super) trait Gather {
    /// The dimension of the channels.
    const CHANNELS: &'static str;

    /// Whether all rows are whole vectors of four.
    fn vectors(d: &Dims, params: &[u8]) -> bool;

    /// Edges of the longest row as the parameters have it.
    fn longest(params: &[u8]) -> u32;
}

/// CUDA sources of a kernel whose text is `body`, best first: a thread takes four channels of the ports `vec4`, or one; where a row is
/// long, the lanes of a warp share a node's edges for that.
pub(super) const fn sources<K: Gather>(
    file: &'static str,
    body: &'static str,
    vec4: &'static [&'static str],
) -> [Source; 4] {
    [
        source::<K, true, true>("split", file, body, vec4),
        source::<K, true, false>("rows", file, body, vec4),
        source::<K, false, true>("split_plain", file, body, &[]),
        source::<K, false, false>("plain", file, body, &[]),
    ]
}

const fn source<K: Gather, const FOUR: bool, const SPLIT: bool>(
    name: &'static str,
    file: &'static str,
    body: &'static str,
    vec4: &'static [&'static str],
) -> Source {
    const SHARED: &[&cuda::Shared] =
        &[cuda::VECTORS, cuda_shared!("shared/items.cuh"), cuda_shared!("graph/sparse.cuh")];
    let blocks = |d: &Dims, _: &[u8]| {
        let channels = d.size(K::CHANNELS) / if FOUR { 4 } else { 1 };
        let nodes_at_once = if SPLIT { 256 / 32 } else { 256 };
        d.batches() * (u64::from(d.size("n")) * u64::from(channels)).div_ceil(nodes_at_once)
    };
    Source {
        name,
        vec4,
        constants: |_| vec![("FOUR", Constant::Bool(FOUR)), ("SPLIT", Constant::Bool(SPLIT))],
        suits: |d, p| (!SPLIT || is_long(d, K::longest(p))) && (!FOUR || K::vectors(d, p)),
        ..Source::of(file, body, 256, blocks).with(SHARED)
    }
}

/// Whether one thread would walk the longest row long after the others have gone.
fn is_long(d: &Dims, given: u32) -> bool {
    let longest = longest(d, given);
    longest >= 256 && longest > 8 * u64::from(d.size("z") / d.size("n").max(1))
}

/// The arrays of a reference.
pub(super) struct Arrays<T> {
    pub(super) starts: std::sync::Arc<Vec<u32>>,
    pub(super) columns: std::sync::Arc<Vec<u32>>,
    pub(super) weights: Option<std::sync::Arc<Vec<T>>>,
}

impl<T: Real> Arrays<T> {
    pub(super) fn of(args: &HostArgs<T>) -> Self {
        Self {
            starts: args.words("starts"),
            columns: args.words("columns"),
            weights: args.real_if("weights"),
        }
    }

    pub(super) fn row(&self, i: usize, visit: &mut dyn FnMut(usize, T)) {
        row(&self.starts, &self.columns, self.weights.as_ref().map(|w| w.as_slice()), i, visit);
    }
}

/// Degrees of made-up graphs for cases: every third node isolated, and all edges that are left over in row `hub`.
fn degrees(d: &Dims) -> Vec<u32> {
    let (n, z) = (d.size("n"), d.size("z"));
    let mut left = z;
    let mut list = Vec::new();
    for i in 0..n {
        let degree = if i % 3 == 1 { 0 } else { (1 + i % 4).min(left) };
        left -= degree;
        list.push(degree);
    }
    if let Some(hub) = list.get_mut(n as usize / 2) {
        *hub += left;
    }
    list
}

fn running(list: impl Iterator<Item = u32>) -> HostData {
    let mut total = 0;
    HostData::U32(
        std::iter::once(0)
            .chain(list.map(|x| {
                total += x;
                total
            }))
            .collect(),
    )
}

/// Rows of a made-up graph with isolated nodes and one of very high degree; `z` entries in all.
pub(super) fn some_starts(d: &Dims) -> HostData {
    running(degrees(d).into_iter())
}

/// Columns for them, within the lower or the upper half of the nodes: two components; some entries occur twice.
pub(super) fn some_columns(d: &Dims) -> HostData {
    let n = d.size("n").max(1);
    let half = n.div_ceil(2);
    let mut columns = Vec::new();
    for (i, degree) in degrees(d).into_iter().enumerate() {
        let (from, size) = if (i as u32) < half { (0, half) } else { (half, n - half) };
        columns.extend((0..degree).map(|e| from + (i as u32 * 5 + e * 7 + e / 3) % size));
    }
    HostData::U32(columns)
}

/// Starts and columns that no check let through: beyond the lists, falling, no nodes.
pub(super) fn bad_starts(d: &Dims) -> HostData {
    HostData::U32(
        (0..d.size("s"))
            .map(|i| match i % 4 {
                0 => 0,
                1 => u32::MAX,
                2 => 3,
                _ => d.size("z") + i,
            })
            .collect(),
    )
}

/// See [`bad_starts`].
pub(super) fn bad_columns(d: &Dims) -> HostData {
    let n = d.size("n");
    HostData::U32(
        (0..d.size("z"))
            .map(|e| match e % 3 {
                0 => e % n,
                1 => n,
                _ => u32::MAX,
            })
            .collect(),
    )
}

/// A square grid of other sizes, in kernels of sparse rows.
///
/// Errors: no square, or more neighbours than a dimension holds.
pub(super) fn square_grid(d: &mut Dims) -> std::result::Result<(), String> {
    let n = d.size("n");
    let side = n.isqrt();
    if u64::from(side) * u64::from(side) != u64::from(n) {
        return Err(format!("its grid has as many rows as columns, and {n} nodes are no square"));
    }
    let neighbours = resize::product(&[4, side, side.saturating_sub(1)])?;
    let sizes = [("s", n.checked_add(1)), ("z", Some(neighbours)), ("v", n.checked_add(neighbours))];
    for (name, size) in sizes {
        let size = size.ok_or("a graph of 2³² numbers is too large")?;
        if d.find(name).is_some() {
            d.set(name, size);
        }
    }
    Ok(())
}

/// A grid of as many rows as columns, four neighbours, as sparse rows.
pub(super) fn grid_starts(d: &Dims) -> HostData {
    let side = d.size("n").isqrt();
    running((0..side * side).map(|i| grid_row(side, i).count() as u32))
}

/// See [`grid_starts`].
pub(super) fn grid_columns(d: &Dims) -> HostData {
    let side = d.size("n").isqrt();
    HostData::U32((0..side * side).flat_map(|i| grid_row(side, i)).collect())
}

fn grid_row(side: u32, i: u32) -> impl Iterator<Item = u32> {
    let (row, col) = (i / side, i % side);
    [
        (row > 0).then(|| i - side),
        (col > 0).then(|| i - 1),
        (col + 1 < side).then(|| i + 1),
        (row + 1 < side).then(|| i + side),
    ]
    .into_iter()
    .flatten()
}

#[cfg(test)]
mod tests {
    use super::checked;

    #[test]
    fn sound_rows_give_their_longest() {
        assert_eq!(checked(3, &[0, 2, 2, 3], &[1, 2, 0], Some(&[1.0, 0.5, 2.0])).expect("sound"), 2);
        assert_eq!(checked(0, &[0], &[], None).expect("no nodes"), 0);
    }

    #[test]
    fn the_array_and_entry_that_are_wrong_are_named() {
        let says = |n, starts: &[u32], columns: &[u32], weights: Option<&[f32]>| {
            checked(n, starts, columns, weights).expect_err("wrong").to_string()
        };
        assert!(says(3, &[0, 2, 1, 3], &[1, 2, 0], None).contains("starts[2]"));
        assert!(says(3, &[0, 2, 3], &[1, 2, 0], None).contains("starts"));
        assert!(says(3, &[0, 2, 2, 4], &[1, 2, 0], None).contains("starts"));
        assert!(says(3, &[0, 2, 2, 3], &[1, 3, 0], None).contains("columns[1]"));
        assert!(says(3, &[0, 2, 2, 3], &[1, 2, 0], Some(&[1.0, 2.0])).contains("weights"));
        assert!(says(3, &[0, 2, 2, 3], &[1, 2, 0], Some(&[1.0, 2.0, f32::NAN])).contains("weights[2]"));
    }
}
