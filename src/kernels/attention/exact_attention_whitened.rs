//! Exact Laplacian or Gaussian attention with whitened kernel values: what the linear form approximates, term by term.
//!
//! `out[i]` = Σⱼ Zᵢⱼ `v[j]`,  Zᵢⱼ = (Gᵢⱼ − cᵢⱼ) / √(varⱼ + ew) / zs + 1/m
//!
//! * `row`: cᵢⱼ = meanⱼ Gᵢⱼ, the mean of query i; varⱼ is the variance over queries of Gᵢⱼ − cᵢⱼ.
//! * `col`: cᵢⱼ = meanᵢ Gᵢⱼ, the mean of key j; varⱼ is the variance over queries of Gᵢⱼ.
//! * `q` `[b, h, n, d]`, `k` `[b, h, m, d]`, `v` `[b, h, m, e]`, `lambda` `[h]` or `[1]`, > 0; `out` `[b, h, n, e]`; m ≥ 1.
//!
//! On a device, with `v'[j]` = `v[j]`/√(varⱼ + ew), `row` is Σⱼ Gᵢⱼ (`v'[j]` − meanⱼ v') / zs, because Σⱼ (Gᵢⱼ − cᵢⱼ) = 0, and `col` is
//! Pᵢ − meanᵢ P with P = Σⱼ Gᵢⱼ `v'[j]` / zs; each plus the mean of v. So a single key or query cancels to the last bit; the
//! difference of two separately rounded sums would be magnified by up to 1/√ew.

use super::attention_rows::{self, Operands};
use super::{exact_attention, key_moments};
use crate::error::{Error, Result};
use crate::graph::{Expansion, Graph};
use crate::kernel::*;
use crate::kernels::linalg::{matmul, scale_rows};
use crate::params;
use crate::reference;
use crate::tensor::{DType, Dims, HostTensor, Tensor};

params! {
    /// Parameters of [`SPEC`].
    pub struct Params {
        /// divisor of the whitened part; 0 stands for m
        live zs: f32 = 0.0,
        /// added to the variance, > 0
        live ew: f32 = 1e-5,
        /// 1 Laplacian exp(−‖q−k‖₁/λ), 2 Gaussian exp(−‖q−k‖²/λ)
        fixed metric: u32 = 1,
        /// 0 `row`, 1 `col`
        fixed mode: u32 = 0,
    }
}

pub(super) fn check(dims: &Dims, params: &[u8]) -> std::result::Result<(), String> {
    let p = Params::from_bytes(params);
    if !(1..=2).contains(&p.metric) || p.mode > 1 {
        return Err(format!("metric is 1 or 2 and mode 0 or 1, got {} and {}", p.metric, p.mode));
    }
    let positive = p.ew > 0.0 && p.ew.is_finite() && p.zs >= 0.0 && p.zs.is_finite();
    if !positive {
        return Err(format!("wants ew > 0 and zs ≥ 0 (0 stands for m), got ew = {} and zs = {}", p.ew, p.zs));
    }
    if dims.size("m") == 0 {
        return Err("needs at least one key: there is no mean over none".into());
    }
    attention_rows::check_bandwidths(dims, p.metric)
}

pub(super) fn divisor(p: &Params, m: u32) -> f64 {
    if p.zs == 0.0 { f64::from(m) } else { f64::from(p.zs) }
}

fn reference<T: Real>(args: &mut HostArgs<T>) -> Result<()> {
    let p: Params = args.params();
    let operands = Operands::of(args, p.metric, 1.0);
    let v = args.real("v");
    let (n, m, e) = (args.dims.at("n"), args.dims.at("m"), args.dims.at("e"));
    let batches = args.dims.batches() as usize;
    let dims = &args.dims;
    let g = |batch: usize, i: usize, j: usize| operands.exponent(dims, batch, i, j).exp();
    let count = T::of(m as f64);
    let row_means = reference::rows(batches, n, 1, |batch, i, line| {
        if p.mode == 0 {
            line[0] = (0..m).map(|j| g(batch, i, j)).sum::<T>() / count;
        }
    });
    // Mean (0 for `row`) and factor of every key.
    let keys = reference::rows(batches, m, 2, |batch, j, line| {
        let values: Vec<T> = (0..n).map(|i| g(batch, i, j) - row_means[batch * n + i]).collect();
        let (mean, variance) = key_moments::moments(&values);
        line[0] = if p.mode == 0 { T::zero() } else { mean };
        line[1] = T::one() / (variance + T::of(f64::from(p.ew))).sqrt() / T::of(divisor(&p, m as u32));
    });
    let out = reference::rows(batches, n, e, |batch, i, line| {
        for j in 0..m {
            let [mean, factor] = [keys[2 * (batch * m + j)], keys[2 * (batch * m + j) + 1]];
            let z = (g(batch, i, j) - row_means[batch * n + i] - mean) * factor + T::one() / count;
            for (y, &value) in line.iter_mut().zip(&v[(batch * m + j) * e..]) {
                *y += z * value;
            }
        }
    });
    args.set("out", out);
    Ok(())
}

fn expand(x: &mut Expansion<'_>) -> Result<()> {
    let p: Params = x.params();
    let (q, k, v, lambda, out) = (x.port("q"), x.port("k"), x.port("v"), x.port_if("lambda"), x.port("out"));
    let [b, h, n, m, e] = ["b", "h", "n", "m", "e"].map(|name| x.dims.size(name));
    let share = (1.0 / divisor(&p, m)) as f32;
    let graph = &mut *x.graph;
    let mut ones = |rows, cols| {
        let values = vec![1.0; rows as usize * cols as usize];
        Ok::<_, Error>(graph.constant("ones", HostTensor::f32([1, 1, rows, cols], values)?))
    };
    let (over_keys, to_keys, over_queries, to_queries) = (ones(1, m)?, ones(m, 1)?, ones(1, n)?, ones(n, 1)?);
    let key_mean = matmul::Params { alpha: 1.0 / m as f32, ..matmul::Params::default() };
    let value_mean = matmul::record(graph, "mean value", matmul::Inputs::new(over_keys, v), key_mean)?;

    let moments = graph.transient("key moments", [b, h, m, 2], DType::F32);
    let moments_of = key_moments::Params { scale: 1.0, metric: p.metric };
    let row_moments = if p.mode == 0 {
        // The kernels are symmetric, so the mean of a query over keys is the moment of a key over queries.
        let rows = graph.transient("row moments", [b, h, n, 2], DType::F32);
        graph.pass(&key_moments::SPEC, &moments_of, &[Some(k), Some(q), lambda, None, None, Some(rows)])?;
        Some(rows)
    } else {
        None
    };
    graph.pass(&key_moments::SPEC, &moments_of, &[Some(q), Some(k), lambda, None, row_moments, Some(moments)])?;
    let whitening = scale_rows::Params { epsilon: p.ew, column: 1, operation: 1 };
    let mut values = scale_rows::record(graph, "whitened values", v, moments, whitening)?;
    if p.mode == 0 {
        values = centred(graph, values, over_keys, to_keys)?;
    }
    let mut product = graph.transient("kernel times values", [b, h, n, e], DType::F32);
    let none = exact_attention::Params { metric: p.metric, normalise: 1, ..exact_attention::Params::default() };
    let args = [Some(q), Some(k), Some(values), lambda, None, None, None, Some(product), None];
    graph.pass(&exact_attention::SPEC, &none, &args)?;
    if p.mode == 1 {
        product = centred(graph, product, over_queries, to_queries)?;
    }
    // A pass of its own: drivers may add the three terms of one epilogue in another order, and lose the cancellation.
    let end = matmul::Params { beta: share, ..matmul::Params::default() };
    graph.pass(&matmul::SPEC, &end, &[Some(to_queries), Some(value_mean), Some(product), None, Some(out)])?;
    Ok(())
}

/// `x` `[b, h, r, c]` less the mean of its rows; `over` `[1, 1, 1, r]` and `to` `[1, 1, r, 1]` are ones.
fn centred(graph: &mut Graph, x: Tensor, over: Tensor, to: Tensor) -> Result<Tensor> {
    let mean_of = matmul::Params { alpha: 1.0 / x.dim(2).max(1) as f32, ..matmul::Params::default() };
    let mean = matmul::record(graph, "mean", matmul::Inputs::new(over, x), mean_of)?;
    let less = matmul::Params { alpha: -1.0, ..matmul::Params::default() };
    matmul::record(graph, "centred", matmul::Inputs { residual: Some(x), ..matmul::Inputs::new(to, mean) }, less)
}

const fn sizes(n: u32, m: u32, d: u32, e: u32) -> [(&'static str, u32); 7] {
    [("b", 2), ("h", 2), ("bandwidths", 2), ("n", n), ("m", m), ("d", d), ("e", e)]
}

fn with(metric: u32, mode: u32) -> Vec<u8> {
    Params { metric, mode, ..Params::default() }.to_bytes()
}

const BANDWIDTH: (&str, Fill) = ("lambda", Fill::Uniform(1.0, 4.0));

/// The kernel's description.
pub static SPEC: KernelSpec = KernelSpec {
    name: "exact_attention_whitened",
    family: "attention",
    formula: "out[i] = Σⱼ ((Gᵢⱼ − cᵢⱼ) / √(varⱼ + ew) / zs + 1/m) v[j]",
    source: "LaplacianFormer, injective feature map, applied to the exact kernel matrix",
    ports: &[
        Port::read("q", &["b", "h", "n", "d"]),
        Port::read("k", &["b", "h", "m", "d"]),
        Port::read("v", &["b", "h", "m", "e"]),
        Port::read("lambda", &["bandwidths"]).positive().optional(),
        Port::write("out", &["b", "h", "n", "e"]),
    ],
    params: Params::FIELDS,
    defaults: Params::default_bytes,
    output_dims: None,
    check,
    wgpu: OnWgpu::Expand(expand),
    cuda: OnCuda::Expand,
    reference: reference!(reference),
    window: by_rows,
    cost: |d, params| {
        let passes = if Params::from_bytes(params).mode == 0 { 3.0 } else { 2.0 };
        let one = attention_rows::cost(d);
        Cost { flop: passes * one.flop, exp: passes * one.exp, ..one }
    },
    tolerance: Tolerance {
        factor: 2.0,
        floor: 16.0 * f32::EPSILON as f64,
        reason: "means are taken off values or products in f32 instead of off every kernel value",
    },
    cases: &[
        Case::new("smallest", &[("b", 1), ("h", 1), ("bandwidths", 1), ("n", 1), ("m", 1), ("d", 1), ("e", 1)], || with(1, 0))
            .filled(&[BANDWIDTH]),
        Case::new("laplacian_row", &sizes(20, 37, 8, 12), || with(1, 0)).filled(&[BANDWIDTH]),
        Case::new("odd", &sizes(37, 20, 7, 5), || with(1, 1)).filled(&[BANDWIDTH]),
        Case::new("gaussian_row", &sizes(33, 65, 5, 3), || with(2, 0)).filled(&[BANDWIDTH]),
        Case::new("gaussian_col_as_printed", &sizes(65, 33, 4, 8), || Params { zs: 1.0, ew: 1e-3, metric: 2, mode: 1 }.to_bytes())
            .filled(&[BANDWIDTH]),
        Case::new("no_row", &sizes(0, 33, 4, 8), || with(1, 1)).filled(&[BANDWIDTH]),
    ],
    vjp: None,
};
