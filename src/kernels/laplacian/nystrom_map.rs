//! Rows of the approximate attention matrix for chosen queries: what attention of a clicked pixel is.
//!
//! The row of query i is Ĝᵢ = C(qᵢ) X K̂ᵀ, or the same row of the whitened map Z; O(t m) per query and, for `none`, `cheap` and
//! `softpp`, without storing anything of size t m.
//!
//! Shapes: `queries` `[b, h, r, d]` (r chosen queries), `q` `[b, h, n, d]` (all queries, for the statistics of `row`, `col`
//! and `cheap`), `k` `[b, h, t, d]`; the rest as in [`nystrom_attention`]. out `[b, h, t, r]` is key-major;
//! masked keys give 0.

use crate::error::Result;
use crate::graph::{Expansion, Graph};
use crate::kernel::*;
use crate::kernels::laplacian::kernel_matrix::{distance, kept};
use crate::kernels::laplacian::nystrom::{self, Mean, Params, Slice, as_row, centred, degrees, normalise, scaled, slice_heads, slices};
use crate::kernels::laplacian::nystrom_attention::{self, HeadReference, product};
use crate::kernels::laplacian::nystrom_row;
use crate::kernels::linalg::matmul::{self, Inputs};
use crate::kernels::linalg::{mask_weights, row_dot};
use crate::reference;
use crate::tensor::{DType, HostTensor, Tensor};

struct Task {
    slice: Slice,
    queries: Tensor,
    out: Tensor,
    status: Tensor,
}

fn expand(x: &mut Expansion<'_>) -> Result<()> {
    let p: Params = x.params();
    let slice = Slice::of(x);
    let task = Task { slice, queries: x.port("queries"), out: x.port("out"), status: x.port("status") };
    let [n, t, m] = ["n", "t", "m"].map(|d| u64::from(x.dims.size(d)));
    let words = match p.normalise {
        normalise::ROW | normalise::COL => (2 * n + 3 * t) * m,
        normalise::CHEAP => n * m,
        _ => 0,
    };
    match slices(x.dims.size("b"), x.dims.size("h"), 4 * words, x.caps.memory_budget) {
        None => record_task(x.graph, &p, &task),
        Some(list) => list.into_iter().try_for_each(|(b, heads)| {
            let slice = task.slice.of_heads(x.graph, b, &heads)?;
            let mut cut = |tensor: Tensor| slice_heads(x.graph, tensor, b, &heads);
            let (queries, out, status) = (cut(task.queries)?, cut(task.out)?, cut(task.status)?);
            record_task(x.graph, &p, &Task { slice, queries, out, status })
        }),
    }
}

/// [I | 0]: m landmarks, then the place of the shift, then padding to whole vectors.
fn widening(graph: &mut Graph, m: u32, mw: u32) -> Result<Tensor> {
    let mut data = vec![0.0; (m * mw) as usize];
    (0..m).for_each(|l| data[(l * mw + l) as usize] = 1.0);
    Ok(graph.constant("[I 0]", HostTensor::f32([1, 1, m, mw], data)?))
}

fn record_task(graph: &mut Graph, p: &Params, task: &Task) -> Result<()> {
    let Task { slice, queries, out, status } = task;
    let (m, t) = (slice.landmarks.dim(2), slice.k.dim(2));
    let mw = (m + 1).next_multiple_of(4);
    let plain = matmul::Params::default();
    let inverse = slice.inverse(graph, p, *status)?;
    let mut features = slice.query_features(graph, p, *queries, None)?;
    let wide = widening(graph, m, mw)?;
    let (mut left, mut right) = (inverse.x, wide);
    let (mut scale, mut share) = (None, None);
    let (mut alpha, mut constant) = (1.0, 0.0);
    if !matches!(p.normalise, normalise::NONE | normalise::SOFTPP) {
        let over_queries = Mean::over(graph, "query", slice.query_mask, slice.q)?;
        let c = slice.query_features(graph, p, slice.q, slice.query_mask)?;
        let cbar = over_queries.rows(graph, "mean C", c, None, false)?;
        (alpha, constant) = (1.0 / p.scale(t), 1.0 / t.max(1) as f32);
        if let Some(mask) = slice.key_mask {
            // The number of kept keys is data.
            (share, constant) = (Some(mask_weights::record(graph, "key", mask, slice.k.dim(0), slice.k.dim(1))?.1), 1.0);
        }
        if p.normalise == normalise::CHEAP {
            let variance = over_queries.rows(graph, "var C", c, Some(cbar), true)?;
            let column = graph.reshape(variance, [variance.dim(0), variance.dim(1), variance.dim(2), 1])?;
            let inverse_root = row_dot::Params { offset: p.ew, inverse_sqrt: 1 };
            let s = row_dot::record(graph, "1/√var C", column, None, inverse_root)?;
            left = scaled(graph, "s X", left, s)?;
        } else {
            let cc = centred(graph, "centred C", c, cbar, slice.query_mask)?;
            let keys = slice.key_features(graph, p)?;
            let kc = if p.normalise == normalise::ROW {
                let over_keys = Mean::over(graph, "key", slice.key_mask, slice.k)?;
                let u = over_keys.rows(graph, "mean K̂", keys, None, false)?;
                right = shifted(graph, u, wide)?;
                centred(graph, "centred K̂", keys, u, slice.key_mask)?
            } else {
                keys
            };
            scale = Some(nystrom::whitening(graph, p, cc, &over_queries, inverse.x, kc)?);
        }
        if p.normalise != normalise::ROW {
            features = centred(graph, "centred C of queries", features, cbar, None)?;
        }
    } else if p.normalise == normalise::SOFTPP {
        let g = degrees(graph, p, inverse.a)?;
        left = scaled(graph, "g X", left, g)?;
        let copies = graph.transient("[I 0] per head", [slice.k.dim(0), slice.k.dim(1), m, mw], DType::F32);
        // g scales rows, so the shared [I 0] is first copied to every head by a product with nothing added.
        let unit = graph.constant("I", identity(m)?);
        let filled = matmul::Inputs::new(unit, wide);
        matmul::record_into(graph, filled, plain, copies)?;
        right = scaled(graph, "g [I 0]", copies, g)?;
    }
    let xr = matmul::record(graph, "X [I 0]", Inputs::new(left, right), plain)?;
    let weights = matmul::record(graph, "row weights", Inputs::new(features, xr), matmul::Params { alpha, ..plain })?;
    let landmarks = slice.landmarks_q.unwrap_or(slice.landmarks);
    let params = nystrom_row::Params { constant, metric: p.metric };
    // Landmarks that do not exist have zero features, so their weights must not meet e^(−distance): X keeps them apart
    // from all others, and C is 0 there, so their weights are 0.
    let args = [Some(slice.k), Some(landmarks), Some(weights), Some(slice.lambda), scale, slice.key_mask, share, Some(*out)];
    graph.pass(&nystrom_row::SPEC, &params, &args)?;
    Ok(())
}

fn identity(m: u32) -> Result<HostTensor> {
    let data = (0..m * m).map(|i| if i % (m + 1) == 0 { 1.0 } else { 0.0 }).collect();
    HostTensor::f32([1, 1, m, m], data)
}

/// [I | −u | 0], so that a row's weights times it carry the shift −w u of centred keys at place m.
fn shifted(graph: &mut Graph, u: Tensor, wide: Tensor) -> Result<Tensor> {
    let (m, mw) = (wide.dim(2), wide.dim(3));
    let mut place = vec![0.0; mw as usize];
    place[m as usize] = -1.0;
    let place = graph.constant("shift place", HostTensor::f32([1, 1, 1, mw], place)?);
    let column = as_row(graph, u)?;
    let inputs = Inputs { residual: Some(wide), ..Inputs::new(column, place) };
    matmul::record(graph, "[I −u]", inputs, matmul::Params { transpose_a: 1, ..Default::default() })
}

fn reference<T: Real>(args: &mut HostArgs<T>) -> Result<()> {
    let p: Params = args.params();
    let [t, m, r, d, heads] = ["t", "m", "r", "d", "h"].map(|x| args.dims.at(x));
    let (queries, landmarks, lambda) = (args.real("queries"), args.real("landmarks"), args.real("lambda"));
    let whitened = !matches!(p.normalise, normalise::NONE | normalise::SOFTPP);
    let zs = if whitened { T::of(f64::from(p.scale(t as u32))) } else { T::one() };
    let mut out = Vec::new();
    let mut status = Vec::new();
    for batch in 0..args.dims.batches() as usize {
        let head = HeadReference::of(args, &p, batch);
        status.extend(head.status);
        let constant = if whitened { head.key_share } else { T::zero() };
        let mut features = vec![T::zero(); r * m];
        for (i, value) in features.iter_mut().enumerate() {
            let (query, l) = (i / m, i % m);
            if args.words_if("landmark_keep").is_some_and(|w| w[batch * m + l] == 0) {
                continue;
            }
            let point = &queries[(batch * r + query) * d..][..d];
            let sum = distance(p.metric, point, &landmarks[(batch * m + l) * d..][..d]);
            *value = (-sum / lambda[batch % heads]).exp();
            if matches!(p.normalise, normalise::COL | normalise::CHEAP) {
                *value -= head.cbar[l];
            }
            *value *= head.feature_scale[l];
        }
        let weights = product(&features, &head.x, m, m);
        let shared = &*args;
        out.extend(reference::rows(1, t, r, |_, j, line| {
            if !kept(shared, "key_mask", batch, j) {
                return;
            }
            for (query, value) in line.iter_mut().enumerate() {
                let dot: T = weights[query * m..][..m].iter().zip(&head.keys[j * m..][..m]).map(|(w, f)| *w * *f).sum();
                *value = dot * head.key_scale[j] / zs + constant;
            }
        }));
    }
    args.set("out", out);
    args.set("status", status);
    Ok(())
}

const BARE: &[&str] = &["landmarks_q", "landmark_keep", "key_mask", "query_mask"];
const DIMS: &[(&str, u32)] = &[("b", 2), ("h", 3), ("r", 3), ("n", 37), ("t", 53), ("m", 9), ("d", 7)];
const LAMBDA: &[(&str, Fill)] = &[("lambda", Fill::Uniform(2.0, 6.0))];

fn with(normalise: u32) -> Vec<u8> {
    Params { epsilon: 0.01, normalise, ..Params::default() }.to_bytes()
}

/// The kernel's description.
pub static SPEC: KernelSpec = KernelSpec {
    name: "nystrom_map",
    family: "laplacian",
    formula: "out[j,q] = N(C X K̂ᵀ)[q,j] for chosen queries q",
    source: "rows of nystrom_attention's matrix",
    ports: &[
        Port::read("queries", &["b", "h", "r", "d"]),
        Port::read("q", &["b", "h", "n", "d"]),
        Port::read("k", &["b", "h", "t", "d"]),
        Port::read("landmarks", &["b", "h", "m", "d"]),
        Port::read("landmarks_q", &["b", "h", "m", "d"]).optional(),
        Port::read("landmark_keep", &["b", "h", "m"]).of(DType::U32).optional(),
        Port::read("lambda", &["h"]).positive(),
        Port::read("key_mask", &["b", "h", "t"]).of(DType::U8).broadcast().optional(),
        Port::read("query_mask", &["b", "h", "n"]).of(DType::U8).broadcast().optional(),
        Port::write("out", &["b", "h", "t", "r"]),
        Port::write("status", &["b", "h", "4"]).diagnostic(),
    ],
    params: Params::FIELDS,
    defaults: Params::default_bytes,
    output_dims: None,
    check: |dims, params| match dims.size("m") {
        0 => Err("at least one landmark is needed, got m = 0".into()),
        _ => Params::check(params),
    },
    wgpu: OnWgpu::Expand(expand),
    cuda: OnCuda::Expand,
    reference: reference!(reference),
    window: whole_heads,
    cost: |d, params| {
        let mut rows = d.clone();
        rows.set("e", d.size("r"));
        nystrom_attention::cost(&rows, params)
    },
    tolerance: Tolerance { factor: 2.0, floor: 2e-5, reason: "method table 6.6: 1e-6 to 2.4e-5 for the iterated inverse in f32" },
    cases: &[
        Case::new("smallest", &[("b", 1), ("h", 1), ("r", 1), ("n", 1), ("t", 1), ("m", 1), ("d", 1)], || with(0)).without(BARE).filled(LAMBDA),
        Case::new("odd", DIMS, || with(normalise::NONE)).without(BARE).filled(LAMBDA),
        Case::new("row", DIMS, || with(normalise::ROW)).without(BARE).filled(LAMBDA),
        Case::new("col", DIMS, || with(normalise::COL)).without(BARE).filled(LAMBDA),
        Case::new("cheap", DIMS, || with(normalise::CHEAP)).without(BARE).filled(LAMBDA),
        Case::new("softpp", DIMS, || with(normalise::SOFTPP)).without(BARE).filled(LAMBDA),
        Case::new("masked", DIMS, || with(normalise::ROW)).without(&["landmarks_q"]).filled(LAMBDA),
    ],
    vjp: None,
};
