//! Nyström attention with the Laplacian or Gaussian kernel, in memory and time linear in the number of tokens.
//!
//! Ĝ = C X K̂ᵀ with C = k(q, L), K̂ = k(k, L), X = (k(L, L) + ε I)⁻¹; out = N(Ĝ) V, where N is one of five normalisations:
//!
//! * `none`: Ĝ V.
//! * `col`: Zᵢⱼ = (Ĝᵢⱼ − μⱼ)/√(varⱼ + ew)/zs + 1/M with mean and variance over queries; `row`: centred over keys instead.
//! * `cheap`: the columns of C whitened instead; `softpp`: X replaced by D X D, D = diag(row sums of k(L, L))^−½.
//!
//! Shapes: `q` `[b, h, n, d]`, `k` `[b, h, t, d]`, `v` `[b, h, t, e]`, `landmarks` `[b, h, m, d]` (shared; in two-set mode those
//! of the keys, with `landmarks_q`), `lambda` `[h]`, masks in bytes. Masked queries and rows without any key give zeros.
//! `status` `[b, h, 4]`: residual ‖I − A X‖, largest row sum of A, steps, code (see [`newton_schulz`](crate::kernels::linalg::newton_schulz)).
//!
//! Heads are worked in slices so that transients stay under the device's memory budget.

use crate::error::Result;
use crate::graph::Expansion;
use crate::kernel::reference::inverse;
use crate::kernel::*;
use crate::kernels::laplacian::kernel_matrix::{distance, kept};
use crate::kernels::laplacian::nystrom::{self, Mean, Params, Slice, centred, degrees, normalise, scaled, slice_heads, slices};
use crate::kernels::linalg::matmul::{self, Inputs};
use crate::kernels::linalg::row_affine::{self, Rows};
use crate::kernels::linalg::{gram, row_dot};
use crate::reference;
use crate::tensor::{DType, Dims, Tensor};

/// One slice with its values and outputs.
struct Task {
    slice: Slice,
    v: Tensor,
    out: Tensor,
    status: Tensor,
}

fn expand(x: &mut Expansion<'_>) -> Result<()> {
    let p: Params = x.params();
    let task = Task {
        slice: Slice::of(x),
        v: x.port("v"),
        out: x.port("out"),
        status: x.port("status"),
    };
    let [n, t, m, e] = ["n", "t", "m", "e"].map(|d| u64::from(x.dims.size(d)));
    // C and K̂, and for the whitened maps their centred copies and K̂ P; values once more where they are scaled.
    let copies = match p.normalise {
        normalise::ROW | normalise::COL => (2 * n + 3 * t) * m + t * e,
        normalise::CHEAP => (2 * n + t) * m + t * e,
        _ => (n + t) * m + t * e,
    };
    match slices(x.dims.size("b"), x.dims.size("h"), 4 * copies, x.caps.memory_budget) {
        None => record_task(x, &p, &task),
        Some(list) => list.into_iter().try_for_each(|(b, heads)| {
            let slice = task.slice.of_heads(x.graph, b, &heads)?;
            let mut cut = |tensor: Tensor| slice_heads(x.graph, tensor, b, &heads);
            let (v, out, status) = (cut(task.v)?, cut(task.out)?, cut(task.status)?);
            record_task(x, &p, &Task { slice, v, out, status })
        }),
    }
}

fn record_task(x: &mut Expansion<'_>, p: &Params, task: &Task) -> Result<()> {
    let graph = &mut *x.graph;
    let Task { slice, v, out, status } = task;
    let plain = matmul::Params::default();
    let keep = |name: &str, graph: &mut crate::graph::Graph, scale: Option<Tensor>| match (slice.key_mask, scale) {
        (None, None) => Ok(*v),
        // Masked values may hold anything, so they are selected away before any product.
        (keep, scale) => row_affine::record(graph, name, *v, Rows { shift: None, scale, keep }),
    };
    let inverse = slice.inverse(graph, p, *status)?;
    let keys = slice.key_features(graph, p)?;
    let c = slice.query_features(graph, p, slice.q, slice.query_mask)?;

    if matches!(p.normalise, normalise::NONE | normalise::SOFTPP) {
        let values = keep("kept V", graph, None)?;
        let mut t = gram::record(graph, "T", keys, values, None, 1.0)?;
        let g = if p.normalise == normalise::SOFTPP { Some(degrees(graph, p, inverse.a)?) } else { None };
        if let Some(g) = g {
            t = scaled(graph, "g T", t, g)?;
        }
        let mut mx = matmul::record(graph, "X T", Inputs::new(inverse.x, t), plain)?;
        if let Some(g) = g {
            mx = scaled(graph, "g X T", mx, g)?;
        }
        matmul::record_into(graph, Inputs::new(c, mx), plain, *out)?;
        return Ok(());
    }

    let queries = Mean::over(graph, "query", slice.query_mask, slice.q)?;
    let over_keys = Mean::over(graph, "key", slice.key_mask, slice.k)?;
    let vbar = over_keys.rows(graph, "mean V", *v, None, false)?;
    let cbar = queries.rows(graph, "mean C", c, None, false)?;
    let cc = centred(graph, "centred C", c, cbar, slice.query_mask)?;
    let mx = if p.normalise == normalise::CHEAP {
        let variance = queries.rows(graph, "var C", cc, None, true)?;
        let column = graph.reshape(variance, [variance.dim(0), variance.dim(1), variance.dim(2), 1])?;
        let inverse_root = row_dot::Params { offset: p.ew, inverse_sqrt: 1 };
        let s = row_dot::record(graph, "1/√var C", column, None, inverse_root)?;
        let values = keep("kept V", graph, None)?;
        let t = gram::record(graph, "T", keys, values, None, 1.0)?;
        let xt = matmul::record(graph, "X T", Inputs::new(inverse.x, t), plain)?;
        scaled(graph, "s X T", xt, s)?
    } else {
        let kc = if p.normalise == normalise::ROW {
            let u = over_keys.rows(graph, "mean K̂", keys, None, false)?;
            centred(graph, "centred K̂", keys, u, slice.key_mask)?
        } else {
            keys
        };
        let s = nystrom::whitening(graph, p, cc, &queries, inverse.x, kc)?;
        let values = keep("s V", graph, Some(s))?;
        let t = gram::record(graph, "T", kc, values, None, 1.0)?;
        matmul::record(graph, "X T", Inputs::new(inverse.x, t), plain)?
    };
    // Centred before the product, not as C M less c̄ M: where queries vary little, whitening magnifies M up to 1/√ew, and the
    // difference of the two products would keep only their rounding.
    let left = if p.normalise == normalise::ROW { c } else { cc };
    let inputs = Inputs { bias: Some(vbar), ..Inputs::new(left, mx) };
    let params = matmul::Params { alpha: 1.0 / p.scale(slice.k.dim(2)), ..plain };
    match slice.query_mask {
        None => matmul::record_into(graph, inputs, params, *out)?,
        Some(_) => {
            let all = matmul::record(graph, "out of all queries", inputs, params)?;
            let args = [Some(all), None, None, slice.query_mask, Some(*out)];
            graph.pass(&row_affine::SPEC, &params::NoParams {}, &args)?
        }
    };
    Ok(())
}

/// The features and statistics of one head in the reference.
pub(super) struct HeadReference<T> {
    /// C `[n, m]`, masked queries 0.
    pub c: Vec<T>,
    /// K̂ `[t, m]`, masked keys 0, centred in `row` mode.
    pub keys: Vec<T>,
    /// X `[m, m]`, degrees included in `softpp` mode.
    pub x: Vec<T>,
    /// Mean of C over kept queries.
    pub cbar: Vec<T>,
    /// Factor per feature (`cheap`) or 1.
    pub feature_scale: Vec<T>,
    /// Factor per key (`row`, `col`) or 1.
    pub key_scale: Vec<T>,
    /// 1 / number of kept keys, 0 if none.
    pub key_share: T,
    /// Residual, row sum, steps, code.
    pub status: [T; 4],
}

/// Dense product of `[n, m]` and `[m, p]`.
pub(super) fn product<T: Real>(a: &[T], w: &[T], m: usize, p: usize) -> Vec<T> {
    let rows = a.len().checked_div(m).unwrap_or(0);
    reference::rows(1, rows, p, |_, i, line| {
        for (l, &x) in a[i * m..][..m].iter().enumerate() {
            line.iter_mut().zip(&w[l * p..][..p]).for_each(|(sum, y)| *sum += x * *y);
        }
    })
}

fn mean<T: Real>(rows: &[T], m: usize, flags: &[bool]) -> (Vec<T>, T) {
    let count = flags.iter().filter(|f| **f).count();
    let share = if count == 0 { T::zero() } else { T::one() / T::of(count as f64) };
    let mut sum = vec![T::zero(); m];
    for (row, _) in rows.chunks(m.max(1)).zip(flags).filter(|(_, f)| **f) {
        sum.iter_mut().zip(row).for_each(|(s, x)| *s += *x);
    }
    (sum.into_iter().map(|s| s * share).collect(), share)
}

impl<T: Real> HeadReference<T> {
    pub(super) fn of(args: &HostArgs<T>, p: &Params, batch: usize) -> Self {
        let [n, t, m, d, heads] = ["n", "t", "m", "d", "h"].map(|x| args.dims.at(x));
        let lambda = args.real("lambda")[batch % heads];
        let part = |port: &str, rows: usize| args.real(port)[batch * rows * d..][..rows * d].to_vec();
        let (q, k, right) = (part("q", n), part("k", t), part("landmarks", m));
        let left = if args.has("landmarks_q") { part("landmarks_q", m) } else { right.clone() };
        let exists: Vec<bool> = (0..m).map(|l| args.words_if("landmark_keep").is_none_or(|w| w[batch * m + l] != 0)).collect();
        let flags = |port: &str, count: usize| -> Vec<bool> { (0..count).map(|i| kept(args, port, batch, i)).collect() };
        let (query_kept, key_kept) = (flags("query_mask", n), flags("key_mask", t));
        let features = |rows: &[T], flags: &[bool], landmarks: &[T]| {
            reference::rows(1, flags.len(), m, |_, i, line| {
                for (l, value) in line.iter_mut().enumerate().filter(|(l, _)| flags[i] && exists[*l]) {
                    let sum = distance(p.metric, &rows[i * d..][..d], &landmarks[l * d..][..d]);
                    *value = (-sum / lambda).exp();
                }
            })
        };
        let c = features(&q, &query_kept, &right);
        let mut keys = features(&k, &key_kept, &left);
        let mut a = features(&left, &exists, &right);
        for l in 0..m {
            let diagonal = if exists[l] { a[l * m + l] } else { T::one() };
            a[l * m + l] = diagonal + T::of(f64::from(p.epsilon));
        }
        let inverted = inverse(&a, m);
        let failed = inverted.is_none();
        let mut x = inverted.unwrap_or_else(|| vec![T::zero(); m * m]);
        let ax = product(&a, &x, m, m);
        let square = |i: usize| { let e = if i.is_multiple_of(m + 1) { T::one() } else { T::zero() }; (e - ax[i]) * (e - ax[i]) };
        let residual = (0..m * m).map(square).sum::<T>().sqrt();
        let row_sums: Vec<T> = (0..m).map(|r| a[r * m..][..m].iter().copied().sum()).collect();
        let largest = row_sums.iter().fold(T::zero(), |x, y| x.max(*y));
        let (cbar, query_share) = mean(&c, m, &query_kept);
        let (u, key_share) = mean(&keys, m, &key_kept);
        let mut feature_scale = vec![T::one(); m];
        let mut key_scale = vec![T::one(); t];
        let ew = T::of(f64::from(p.ew));
        let centred: Vec<T> = c.iter().enumerate().map(|(i, v)| if query_kept[i / m] { *v - cbar[i % m] } else { T::zero() }).collect();
        match p.normalise {
            normalise::SOFTPP => {
                let g: Vec<T> = row_sums.iter().map(|s| T::one() / (*s - T::of(f64::from(p.epsilon))).sqrt()).collect();
                x.iter_mut().enumerate().for_each(|(i, v)| *v *= g[i / m] * g[i % m]);
            }
            normalise::CHEAP => {
                for (l, s) in feature_scale.iter_mut().enumerate() {
                    let var: T = (0..n).map(|i| centred[i * m + l] * centred[i * m + l]).sum::<T>() * query_share;
                    *s = T::one() / (var + ew).sqrt();
                }
            }
            normalise::ROW | normalise::COL => {
                if p.normalise == normalise::ROW {
                    keys.iter_mut().enumerate().filter(|(i, _)| key_kept[i / m]).for_each(|(i, v)| *v -= u[i % m]);
                }
                let mut s = vec![T::zero(); m * m];
                for row in centred.chunks(m.max(1)) {
                    for (x, line) in row.iter().zip(s.chunks_mut(m.max(1))) {
                        line.iter_mut().zip(row).for_each(|(sum, y)| *sum += *x * *y * query_share);
                    }
                }
                let sx = product(&s, &x, m, m);
                let xt: Vec<T> = (0..m * m).map(|i| x[i % m * m + i / m]).collect();
                let y = product(&keys, &product(&xt, &sx, m, m), m, m);
                for (j, scale) in key_scale.iter_mut().enumerate() {
                    let var: T = (j * m..(j + 1) * m).map(|i| y[i] * keys[i]).sum();
                    *scale = T::one() / (var.max(T::zero()) + ew).sqrt();
                }
            }
            _ => {}
        }
        let code = if failed { 3.0 } else { 0.0 };
        let status = [residual, largest, T::zero(), T::of(code)];
        Self { c, keys, x, cbar, feature_scale, key_scale, key_share, status }
    }
}

fn reference<T: Real>(args: &mut HostArgs<T>) -> Result<()> {
    let p: Params = args.params();
    let [n, t, m, e] = ["n", "t", "m", "e"].map(|x| args.dims.at(x));
    let (v, zs) = (args.real("v"), T::of(f64::from(p.scale(t as u32))));
    let whitened = !matches!(p.normalise, normalise::NONE | normalise::SOFTPP);
    let mut out = Vec::with_capacity(args.dims.batches() as usize * n * e);
    let mut status = Vec::new();
    for batch in 0..args.dims.batches() as usize {
        let head = HeadReference::of(args, &p, batch);
        status.extend(head.status);
        let mut sum = vec![T::zero(); m * e];
        let mut vbar = vec![T::zero(); e];
        for j in (0..t).filter(|j| kept(args, "key_mask", batch, *j)) {
            let row = &v[(batch * t + j) * e..][..e];
            vbar.iter_mut().zip(row).for_each(|(s, x)| *s += *x * head.key_share);
            for (f, line) in head.keys[j * m..][..m].iter().zip(sum.chunks_mut(e.max(1))) {
                line.iter_mut().zip(row).for_each(|(s, x)| *s += *f * *x * head.key_scale[j]);
            }
        }
        let mut mx = product(&head.x, &sum, m, e);
        mx.iter_mut().enumerate().for_each(|(i, x)| *x *= head.feature_scale[i / e]);
        let left: Vec<T> = if matches!(p.normalise, normalise::COL | normalise::CHEAP) {
            head.c.iter().enumerate().map(|(i, x)| *x - head.cbar[i % m]).collect()
        } else {
            head.c
        };
        let mut rows = product(&left, &mx, m, e);
        for (i, x) in rows.iter_mut().enumerate() {
            if !kept(args, "query_mask", batch, i / e) {
                *x = T::zero();
            } else if whitened {
                *x = *x / zs + vbar[i % e];
            }
        }
        out.extend(rows);
    }
    args.set("out", out);
    args.set("status", status);
    Ok(())
}

/// Work of the features, sums and products of one run, the landmark inverse left out.
pub(super) fn cost(d: &Dims, params: &[u8]) -> Cost {
    let p = Params::from_bytes(params);
    let [n, t, m, c, e] = ["n", "t", "m", "d", "e"].map(|x| f64::from(d.size(x)));
    let pairs = (n + t + m) * m * c;
    let whitening = if matches!(p.normalise, normalise::ROW | normalise::COL) { (n + t) * m * m } else { 0.0 };
    let batches = d.batches() as f64;
    Cost {
        flop: 2.0 * batches * (pairs + whitening + (n + t + m) * m * e),
        exp: batches * (n + t + m) * m,
        stores: batches * ((n + t) * m + n * e),
        bytes: 4.0 * batches * ((n + t) * c + (n + t) * e),
        ..Cost::default()
    }
}

const BARE: &[&str] = &["landmarks_q", "landmark_keep", "key_mask", "query_mask"];
const DIMS: &[(&str, u32)] = &[("b", 2), ("h", 3), ("n", 37), ("t", 53), ("m", 9), ("d", 7), ("e", 5)];
const LAMBDA: &[(&str, Fill)] = &[("lambda", Fill::Uniform(2.0, 6.0))];

fn with(normalise: u32) -> Vec<u8> {
    Params { epsilon: 0.01, normalise, ..Params::default() }.to_bytes()
}

/// The kernel's description.
pub static SPEC: KernelSpec = KernelSpec {
    name: "nystrom_attention",
    family: "laplacian",
    formula: "out = N(C X K̂ᵀ) V, C = k(q, L), K̂ = k(k, L), X = (k(L, L) + ε I)⁻¹",
    source: "LaplacianFormer (arXiv 2604.20368); SOFT, SOFT++ and Nyströmformer for the relatives",
    ports: &[
        Port::read("q", &["b", "h", "n", "d"]),
        Port::read("k", &["b", "h", "t", "d"]),
        Port::read("v", &["b", "h", "t", "e"]),
        Port::read("landmarks", &["b", "h", "m", "d"]),
        Port::read("landmarks_q", &["b", "h", "m", "d"]).optional(),
        Port::read("landmark_keep", &["b", "h", "m"]).of(DType::U32).optional(),
        Port::read("lambda", &["h"]).positive(),
        Port::read("key_mask", &["b", "h", "t"]).of(DType::U8).broadcast().optional(),
        Port::read("query_mask", &["b", "h", "n"]).of(DType::U8).broadcast().optional(),
        Port::write("out", &["b", "h", "n", "e"]),
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
    cost,
    // The inverse is computed by another method than the naive one, and its error is the condition number's share.
    tolerance: Tolerance { factor: 2.0, floor: 2e-5, reason: "method table 6.6: 1e-6 to 2.4e-5 for the iterated inverse in f32" },
    cases: &[
        Case::new("smallest", &[("b", 1), ("h", 1), ("n", 1), ("t", 1), ("m", 1), ("d", 1), ("e", 1)], || with(0)).without(BARE).filled(LAMBDA),
        Case::new("odd", DIMS, || with(normalise::NONE)).without(BARE).filled(LAMBDA),
        Case::new("row", DIMS, || with(normalise::ROW)).without(BARE).filled(LAMBDA),
        Case::new("col", DIMS, || with(normalise::COL)).without(BARE).filled(LAMBDA),
        Case::new("cheap", DIMS, || with(normalise::CHEAP)).without(BARE).filled(LAMBDA),
        Case::new("softpp", DIMS, || with(normalise::SOFTPP)).without(BARE).filled(LAMBDA),
        Case::new("masked_none", DIMS, || with(normalise::NONE)).without(&["landmarks_q"]).filled(LAMBDA),
        Case::new("masked_row", DIMS, || with(normalise::ROW)).without(&["landmarks_q"]).filled(LAMBDA).shared(&["key_mask"]),
        Case::new("masked_col", DIMS, || with(normalise::COL)).without(&["landmarks_q", "landmark_keep"]).filled(LAMBDA),
        Case::new("masked_cheap", DIMS, || with(normalise::CHEAP)).without(&["landmarks_q", "landmark_keep"]).filled(LAMBDA),
        Case::new("no_keys", DIMS, || with(normalise::COL)).without(&["landmarks_q", "landmark_keep", "query_mask"])
            .filled(&[("lambda", Fill::Value(4.0)), ("key_mask", Fill::Value(0.0)), ("v", Fill::Value(3e38))]),
        Case::new("gaussian", DIMS, || Params { metric: 2, epsilon: 0.01, ..Params::default() }.to_bytes()).without(BARE).filled(LAMBDA),
        Case::new("tokens_4096", &[("b", 1), ("h", 8), ("n", 4096), ("t", 4096), ("m", 49), ("d", 32), ("e", 32)], Params::default_bytes)
            .without(BARE).filled(&[("lambda", Fill::Value(8.0))]).for_bench(),
    ],
    vjp: None,
};
