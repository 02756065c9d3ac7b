//! Largest number of a column over rows, by chunk or by packed segment: the shift that keeps exponential features finite.
//!
//! `out[g]` = max over the kept rows i of group g of `x[i, column]`; [`EMPTY`] where there is none.
//!
//! * `x` `[b, h, n, w]`; `out` `[b, h, g]`.
//! * `key_mask` `[b, h, n]`: 0 leaves a row out, whatever it holds; may be shared by heads.
//! * `starts` `[b, h, s]`: segment g is the rows `starts[g]` .. `starts[g + 1]`, g = s − 1 segments; may be shared by heads.
//!   They ascend; an empty segment repeats a number; rows before the first and from the last on are in none.
//! * Without `starts`, group g is the rows g · `rows` .. (g + 1) · `rows`. A second run over the chunks ends a long column:
//!   a maximum does not depend on the order, so it repeats to the bit.

use crate::error::Result;
use crate::graph::Graph;
use crate::kernel::wgsl_module::{BYTES, GROUP};
use crate::kernel::*;
use crate::kernels::laplacian::kernel_matrix::kept;
use crate::kernels::linalg::column_sums::check_chunks;
use crate::tensor::{DType, Dims, HostData, Tensor};
use crate::{cuda_shared, cuda_source, params, reference};
use std::sync::Arc;

/// The maximum over no row; far below every exponent, which end at ±1e38.
pub const EMPTY: f32 = -3e38;
/// Rows of a chunk.
pub const ROWS: u32 = 1024;

params! {
    /// Parameters of [`SPEC`].
    pub struct Params {
        /// rows of a chunk where there are no segments
        live rows: u32 = ROWS,
        /// the column to look at
        fixed column: u32 = 0,
    }
}

/// The boundaries of packed segments as a reference sees them; without them, all rows are one segment.
#[derive(Debug)]
pub(super) struct Segments {
    starts: Option<Arc<Vec<u32>>>,
    count: usize,
}

impl Segments {
    pub(super) fn of<T: Real>(args: &HostArgs<T>) -> Self {
        let starts = args.words_if("starts");
        let count = if starts.is_some() { args.dims.at("s").saturating_sub(1) } else { 1 };
        Self { starts, count }
    }

    /// Rows of segment `g`, at most `n`.
    pub(super) fn rows<T: Real>(&self, args: &HostArgs<T>, batch: usize, g: usize, n: usize) -> std::ops::Range<usize> {
        let Some(starts) = &self.starts else { return 0..n };
        let at = args.start("starts", batch) + g;
        (starts[at] as usize).min(n)..(starts[at + 1] as usize).min(n)
    }

    /// The segment of a row.
    pub(super) fn of_row<T: Real>(&self, args: &HostArgs<T>, batch: usize, row: usize) -> Option<usize> {
        (0..self.count).find(|&g| self.rows(args, batch, g, usize::MAX).contains(&row))
    }
}

/// Rows may be cut only where no boundary counts them from the beginning.
pub(super) fn row_windows(dims: &Dims, params: &[u8]) -> Vec<Unit> {
    if dims.find("s").is_some() { whole_heads(dims, params) } else { by_rows(dims, params) }
}

/// Whether there are boundaries for `g` segments.
pub(super) fn check_segments(dims: &Dims, g: u32) -> std::result::Result<(), String> {
    match dims.find("s") {
        Some(s) if s != g + 1 => Err(format!("starts [b, h, s] with s = {s} bound s − 1 segments, got g = {g}")),
        _ => Ok(()),
    }
}

fn check(dims: &Dims, params: &[u8]) -> std::result::Result<(), String> {
    let p = Params::from_bytes(params);
    if p.column >= dims.size("w") {
        return Err(format!("x has w = {} columns, there is no column {}", dims.size("w"), p.column));
    }
    check_segments(dims, dims.size("g"))?;
    match dims.find("s") {
        Some(_) => Ok(()),
        None => {
            let mut chunks = dims.clone();
            chunks.set("c", dims.size("g"));
            check_chunks(&chunks, p.rows)
        }
    }
}

fn reference<T: Real>(args: &mut HostArgs<T>) -> Result<()> {
    let p: Params = args.params();
    let (n, w, g, rows) = (args.dims.at("n"), args.dims.at("w"), args.dims.at("g"), p.rows as usize);
    let x = args.real("x");
    let shared = &*args;
    let segments = Segments::of(shared);
    let out = reference::rows(args.dims.batches() as usize, g, 1, |batch, group, line| {
        let range = match segments.starts {
            Some(_) => segments.rows(shared, batch, group, n),
            None => group * rows..((group + 1) * rows).min(n),
        };
        let kept = range.filter(|&i| kept(shared, "key_mask", batch, i));
        line[0] = kept.map(|i| x[(batch * n + i) * w + p.column as usize]).fold(T::of(EMPTY.into()), T::max);
    });
    args.set("out", out);
    Ok(())
}

/// Boundaries of segments for tests: an empty one, and rows before the first and after the last.
pub(super) fn packed(dims: &Dims) -> HostData {
    let (n, s, batches) = (dims.size("n"), dims.size("s"), dims.batches() as u32);
    let last = (n - n / 8).max(1);
    let distinct = |g: u32| if g == 2 { 1 } else { g };
    let of = move |b: u32| (0..s).map(move |g| (1 + b % 2) * u32::from(n > 8) + distinct(g) * last.saturating_sub(2) / s.max(2));
    HostData::U32((0..batches).flat_map(of).collect())
}

/// The kernel's description.
pub static SPEC: KernelSpec = KernelSpec {
    name: "segment_max",
    family: "feature",
    formula: "out[g] = max over the kept rows of chunk or segment g of x[i, column]",
    source: "definition",
    ports: &[
        Port::read("x", &["b", "h", "n", "w"]),
        Port::read("key_mask", &["b", "h", "n"]).of(DType::U8).broadcast().optional(),
        Port::read("starts", &["b", "h", "s"]).of(DType::U32).broadcast().optional(),
        Port::write("out", &["b", "h", "g"]),
    ],
    params: Params::FIELDS,
    defaults: Params::default_bytes,
    output_dims: Some(|dims, params| {
        let rows = Params::from_bytes(params).rows.max(1);
        let chunks = dims.size("n").div_ceil(rows).max(1);
        dims.set("g", dims.find("s").map_or(chunks, |s| s.saturating_sub(1)));
    }),
    check,
    wgpu: OnWgpu::Shader(&[Variant::only(
        "feature/segment_max.wgsl",
        include_str!("../../../shaders/feature/segment_max.wgsl"),
        &[GROUP, BYTES],
        |d, batches| batches * u64::from(d.size("g")),
        |d, _| Loads { storage: 2.0 * f64::from(d.size("n")), ..Loads::default() },
    )
    .rounds(|d| u64::from(d.size("n").div_ceil(64)) + 64)]),
    cuda: OnCuda::Source(&[cuda_source!("feature/segment_max.cu", 256, |d, _| d.batches() * u64::from(d.size("g")))
        .with(&[cuda_shared!("feature/rows.cuh")])]),
    reference: reference!(reference),
    window: whole_heads,
    cost: |d, _| {
        let (rows, out) = (d.batches() as f64 * f64::from(d.size("n")), d.batches() as f64 * f64::from(d.size("g")));
        Cost { flop: rows, exp: 0.0, stores: out, bytes: 4.0 * (rows + out), ..Cost::default() }
    },
    tolerance: Tolerance::EXACT,
    cases: &[
        Case::new("smallest", &[("b", 1), ("h", 1), ("n", 1), ("w", 1), ("g", 1)], Params::default_bytes)
            .without(&["key_mask", "starts"]),
        Case::new("odd", &[("b", 2), ("h", 3), ("n", 101), ("w", 2), ("g", 7)], || Params { rows: 16, column: 1 }.to_bytes())
            .without(&["starts"]),
        Case::new("packed", &[("b", 2), ("h", 2), ("n", 300), ("w", 2), ("g", 8), ("s", 9)], || {
            Params { column: 1, ..Params::default() }.to_bytes()
        })
        .filled(&[("starts", Fill::Made(packed))])
        .shared(&["key_mask"]),
        Case::new("no_row_kept", &[("b", 1), ("h", 2), ("n", 65), ("w", 1), ("g", 1)], Params::default_bytes)
            .without(&["starts"])
            .filled(&[("key_mask", Fill::Value(0.0)), ("x", Fill::Value(f32::NAN))]),
        Case::new("no_row", &[("b", 1), ("h", 2), ("n", 0), ("w", 1), ("g", 1)], Params::default_bytes).without(&["key_mask", "starts"]),
        Case::new("large_values", &[("b", 1), ("h", 2), ("n", 131), ("w", 1), ("g", 1)], Params::default_bytes)
            .without(&["key_mask", "starts"])
            .filled(&[("x", Fill::Uniform(-1e38, -1e37))]),
    ],
    vjp: None,
};

/// Rows of packed tokens that count; see the module.
#[derive(Clone, Copy, Debug, Default)]
pub struct Rows {
    /// Rows to keep.
    pub key_mask: Option<Tensor>,
    /// Boundaries of segments.
    pub starts: Option<Tensor>,
}

/// Records the maxima of a column of `x` `[b, h, n, w]` over every segment, or over all rows, into a new transient `[b, h, g]`.
///
/// Errors: shapes that do not fit, with the caller's place.
#[track_caller]
pub fn record(graph: &mut Graph, name: &str, x: Tensor, rows: Rows, column: u32) -> Result<Tensor> {
    let (b, h) = (x.dim(0), x.dim(1));
    let groups = match rows.starts {
        Some(starts) => starts.dim(2).saturating_sub(1),
        None => x.dim(2).div_ceil(ROWS).max(1),
    };
    let out = graph.transient(name, [b, h, groups], DType::F32);
    graph.pass(&SPEC, &Params { rows: ROWS, column }, &[Some(x), rows.key_mask, rows.starts, Some(out)])?;
    if rows.starts.is_some() || groups == 1 {
        return Ok(out);
    }
    let chunks = graph.reshape(out, [b, h, groups, 1])?;
    record(graph, name, chunks, Rows::default(), 0)
}
