//! Rows of the exact whitened attention matrix for chosen queries: the twin of
//! [`nystrom_map`](crate::kernels::laplacian::nystrom_map) under `row` and `col`.
//!
//! `out[j, q]` = (G(q, kⱼ) − c) / √(varⱼ + ew) / zs + 1/m
//!
//! * `row`: c = the mean over keys of query q's row; varⱼ is the variance over all queries i of Gᵢⱼ − meanⱼ Gᵢⱼ.
//! * `col`: c = meanᵢ Gᵢⱼ, the mean of key j over all queries; varⱼ is the variance over queries of Gᵢⱼ.
//! * `queries` `[b, h, r, d]`: whose rows are wanted; `q` `[b, h, n, d]`: all queries, which the statistics are over;
//!   `k` `[b, h, m, d]`, `lambda` `[h]` or `[1]`, > 0; m ≥ 1.
//! * Key-major `[b, h, m, r]`, so that windows of keys are contiguous.
//!
//! The statistics meet every pair of query and key once (`col`) or twice (`row`): O(n m d) work, O(n + m) memory.

use super::attention_rows::Operands;
use super::{exact_attention_whitened, exact_row, key_moments, whiten_rows};
use crate::error::Result;
use crate::graph::Expansion;
use crate::kernel::*;
use crate::reference;
use crate::tensor::{DType, Dims};

pub use super::exact_attention_whitened::Params;

fn reference<T: Real>(args: &mut HostArgs<T>) -> Result<()> {
    let p: Params = args.params();
    let all = Operands::of(args, p.metric, 1.0);
    let [n, m, r] = ["n", "m", "r"].map(|name| args.dims.at(name));
    let wanted = Operands::of(args, p.metric, 1.0).with_queries(args.real("queries"), r);
    let batches = args.dims.batches() as usize;
    let dims = &args.dims;
    let count = T::of(m as f64);
    let row_mean = |operands: &Operands<T>, batch: usize, i: usize| {
        (0..m).map(|j| operands.exponent(dims, batch, i, j).exp()).sum::<T>() / count
    };
    let means_of = |operands: &Operands<T>, rows: usize| {
        reference::rows(batches, rows, 1, |batch, i, line| {
            if p.mode == 0 {
                line[0] = row_mean(operands, batch, i);
            }
        })
    };
    let (row_means, wanted_means) = (means_of(&all, n), means_of(&wanted, r));
    let divisor = T::of(exact_attention_whitened::divisor(&p, m as u32));
    let out = reference::rows(batches, m, r, |batch, j, line| {
        let values: Vec<T> = (0..n).map(|i| all.exponent(dims, batch, i, j).exp() - row_means[batch * n + i]).collect();
        let (mean, variance) = key_moments::moments(&values);
        let less = if p.mode == 0 { T::zero() } else { mean };
        let factor = T::one() / (variance + T::of(f64::from(p.ew))).sqrt() / divisor;
        for (query, value) in line.iter_mut().enumerate() {
            let g = wanted.exponent(dims, batch, query, j).exp();
            *value = (g - wanted_means[batch * r + query] - less) * factor + T::one() / count;
        }
    });
    args.set("out", out);
    Ok(())
}

fn expand(x: &mut Expansion<'_>) -> Result<()> {
    let p: Params = x.params();
    let (queries, q, k, lambda, out) = (x.port("queries"), x.port("q"), x.port("k"), x.port_if("lambda"), x.port("out"));
    let [b, h, n, m, r] = ["b", "h", "n", "m", "r"].map(|name| x.dims.size(name));
    let graph = &mut *x.graph;
    let moments_of = key_moments::Params { scale: 1.0, metric: p.metric };
    // The kernels are symmetric, so the mean of a query over keys is the moment of a key over queries.
    let mut row_moments = |name: &str, of, rows| {
        let moments = graph.transient(name, [b, h, rows, 2], DType::F32);
        graph.pass(&key_moments::SPEC, &moments_of, &[Some(k), Some(of), lambda, None, None, Some(moments)])?;
        Ok::<_, crate::error::Error>(moments)
    };
    let (shift, row_shift) = if p.mode == 0 {
        (Some(row_moments("row moments of the queries", queries, r)?), Some(row_moments("row moments", q, n)?))
    } else {
        (None, None)
    };
    let moments = graph.transient("key moments", [b, h, m, 2], DType::F32);
    graph.pass(&key_moments::SPEC, &moments_of, &[Some(q), Some(k), lambda, None, row_shift, Some(moments)])?;
    let rows = graph.transient("kernel rows", [b, h, m, r], DType::F32);
    let bare = exact_row::Params { scale: 1.0, metric: p.metric };
    graph.pass(&exact_row::SPEC, &bare, &[Some(queries), Some(k), lambda, None, None, Some(rows)])?;
    let whitening = whiten_rows::Params {
        ew: p.ew,
        scale: (1.0 / exact_attention_whitened::divisor(&p, m)) as f32,
        constant: 1.0 / m as f32,
        centred: p.mode,
    };
    graph.pass(&whiten_rows::SPEC, &whitening, &[Some(rows), shift, Some(moments), Some(out)])?;
    Ok(())
}

fn check(dims: &Dims, params: &[u8]) -> std::result::Result<(), String> {
    exact_attention_whitened::check(dims, params)?;
    if dims.find("bandwidths") != dims.find("h") {
        return Err(format!("lambda needs a bandwidth per head, h = {}", dims.size("h")));
    }
    Ok(())
}

const fn sizes(n: u32, m: u32, d: u32, r: u32) -> [(&'static str, u32); 7] {
    [("b", 2), ("h", 2), ("bandwidths", 2), ("n", n), ("m", m), ("d", d), ("r", r)]
}

fn with(metric: u32, mode: u32) -> Vec<u8> {
    Params { metric, mode, ..Params::default() }.to_bytes()
}

const BANDWIDTH: (&str, Fill) = ("lambda", Fill::Uniform(1.0, 4.0));

/// The kernel's description.
pub static SPEC: KernelSpec = KernelSpec {
    name: "exact_map",
    family: "attention",
    formula: "out[j,q] = (G(q,kⱼ) − c) / √(varⱼ + ew) / zs + 1/m",
    source: "LaplacianFormer, injective feature map, applied to the exact kernel matrix",
    ports: &[
        Port::read("queries", &["b", "h", "r", "d"]),
        Port::read("q", &["b", "h", "n", "d"]),
        Port::read("k", &["b", "h", "m", "d"]),
        Port::read("lambda", &["bandwidths"]).positive().optional(),
        Port::write("out", &["b", "h", "m", "r"]),
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
        let passes = if Params::from_bytes(params).mode == 0 { 2.0 } else { 1.0 };
        let pairs = d.batches() as f64 * f64::from(d.size("n")) * f64::from(d.size("m"));
        let words = d.batches() as f64 * f64::from(d.size("m")) * f64::from(d.size("r"));
        Cost {
            flop: passes * pairs * (2.0 * f64::from(d.size("d")) + 5.0),
            exp: passes * pairs + words,
            stores: words,
            bytes: 4.0 * words,
            ..Cost::default()
        }
    },
    tolerance: Tolerance::SUMS,
    cases: &[
        Case::new("smallest", &[("b", 1), ("h", 1), ("bandwidths", 1), ("n", 1), ("m", 1), ("d", 1), ("r", 1)], || with(1, 0))
            .filled(&[BANDWIDTH]),
        Case::new("laplacian_row", &sizes(20, 37, 8, 3), || with(1, 0)).filled(&[BANDWIDTH]),
        Case::new("odd", &sizes(37, 21, 7, 2), || with(1, 1)).filled(&[BANDWIDTH]),
        Case::new("gaussian_row", &sizes(33, 65, 5, 1), || with(2, 0)).filled(&[BANDWIDTH]),
        Case::new("gaussian_col_as_printed", &sizes(65, 33, 4, 5), || Params { zs: 1.0, ew: 1e-3, metric: 2, mode: 1 }.to_bytes())
            .filled(&[BANDWIDTH]),
        Case::new("no_row", &sizes(9, 33, 4, 0), || with(1, 1)).filled(&[BANDWIDTH]),
    ],
    vjp: None,
};
