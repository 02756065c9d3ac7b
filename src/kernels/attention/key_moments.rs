//! Mean and variance over the queries of every key's kernel values: what whitening needs of the exact kernel matrix.
//!
//! x = Gᵢⱼ − `row_shift`ᵢ; `mean[j]` and `variance[j]` over the kept queries i (divided by their number), 0 where there is none.
//!
//! * `q` `[b, h, n, d]`, `k` `[b, h, m, d]`, `lambda` `[h]` or `[1]`, > 0 (not needed by softmax).
//! * `query_mask` `[b, h, n]`: 0 leaves a query out, whatever it holds; may be shared by heads.
//! * `row_shift` `[b, h, n, w]`: the first number of each row; so moments of rows can be given as they are.
//! * `moments` `[b, h, m, 2]`: mean, variance.
//!
//! The n × m matrix exists nowhere. Queries that exceed a binding or a driver's loops are taken in ranges, whose moments are
//! joined.

use super::attention_rows::{self, Operands};
use super::exact_attention::{blocks, head};
use super::key_moments_part;
use crate::error::Result;
use crate::graph::Expansion;
use crate::kernel::*;
use crate::reference;
use crate::tensor::{DType, Dims};

pub use super::key_moments_part::Params;

fn check(dims: &Dims, params: &[u8]) -> std::result::Result<(), String> {
    let p = Params::from_bytes(params);
    attention_rows::check_choices(p.metric, 0)?;
    attention_rows::check_bandwidths(dims, p.metric)?;
    if dims.find("w") == Some(0) {
        return Err("row_shift [b, h, n, w] has no column; wants w ≥ 1".into());
    }
    Ok(())
}

/// Mean and mean squared deviation of some numbers; zeros for none.
pub(crate) fn moments<T: Real>(values: &[T]) -> (T, T) {
    if values.is_empty() {
        return (T::zero(), T::zero());
    }
    let count = T::of(values.len() as f64);
    let mean = values.iter().copied().sum::<T>() / count;
    (mean, values.iter().map(|&x| (x - mean) * (x - mean)).sum::<T>() / count)
}

fn reference<T: Real>(args: &mut HostArgs<T>) -> Result<()> {
    let p: Params = args.params();
    let operands = Operands::of(args, p.metric, p.scale);
    let (query_mask, row_shift) = (args.words_if("query_mask"), args.real_if("row_shift"));
    let (n, m, w) = (args.dims.at("n"), args.dims.at("m"), args.dims.at("w"));
    let shared = &*args;
    let out = reference::rows(args.dims.batches() as usize, m, 2, |batch, j, line| {
        let kept = |i: &usize| query_mask.as_ref().is_none_or(|q| q[shared.start("query_mask", batch) + i] != 0);
        let shift = |i: usize| row_shift.as_ref().map_or(T::zero(), |r| r[(batch * n + i) * w]);
        let value = |i: usize| operands.exponent(&shared.dims, batch, i, j).exp() - shift(i);
        let values: Vec<T> = (0..n).filter(kept).map(value).collect();
        (line[0], line[1]) = moments(&values);
    });
    args.set("moments", out);
    Ok(())
}

/// Queries of one head that fit a binding and the loops of every variant the device might choose; whole blocks.
fn queries_per_range(dims: &Dims, caps: &Caps) -> u32 {
    const SAMPLE: u32 = 1024;
    let mut sample = dims.clone();
    sample.set("n", SAMPLE);
    let suited = key_moments_part::VARIANTS.iter().filter(|v| (v.suits)(&sample, &[], caps));
    let rounds = suited.map(|v| (v.rounds)(&sample)).max().unwrap_or(1).max(1);
    let by_loops = (caps.loop_rounds / rounds).saturating_mul(SAMPLE.into());
    let bytes = 4 * u64::from(dims.size("d").max(dims.find("w").unwrap_or(1)).max(1));
    let fit = (caps.storage_binding.saturating_sub(u64::from(caps.storage_alignment)) / bytes).min(by_loops.max(1));
    u32::try_from(if fit > 64 { fit / 64 * 64 } else { fit }).unwrap_or(u32::MAX).max(1)
}

fn expand(x: &mut Expansion<'_>) -> Result<()> {
    let p: Params = x.params();
    let (q, k, lambda, moments) = (x.port("q"), x.port("k"), x.port_if("lambda"), x.port("moments"));
    let (query_mask, row_shift) = (x.port_if("query_mask"), x.port_if("row_shift"));
    let [b, h, n, m] = ["b", "h", "n", "m"].map(|name| x.dims.size(name));
    let range = queries_per_range(x.dims, x.caps);
    let graph = &mut *x.graph;
    if n <= range {
        let args = [Some(q), Some(k), lambda, query_mask, row_shift, None, Some(moments)];
        graph.pass(&key_moments_part::SPEC, &p, &args)?;
        return Ok(());
    }
    for at in (0..b).flat_map(|b| (0..h).map(move |h| (b, h))) {
        let keys = head(graph, k, at, 0..m)?;
        let ends = head(graph, moments, at, 0..m)?;
        let lambda = match lambda {
            Some(all) if all.dim(0) > 1 => Some(graph.slice(all, 0, at.1..at.1 + 1)?),
            same => same,
        };
        let mut before = None;
        for queries in blocks(n, range) {
            let last = queries.end == n;
            let rows = head(graph, q, at, queries.clone())?;
            let query_mask = query_mask.map(|t| head(graph, t, at, queries.clone())).transpose()?;
            let row_shift = row_shift.map(|t| head(graph, t, at, queries)).transpose()?;
            let out = if last { ends } else { graph.transient("moments so far", [1, 1, m, 3], DType::F32) };
            let args = [Some(rows), Some(keys), lambda, query_mask, row_shift, before, Some(out)];
            graph.pass(&key_moments_part::SPEC, &p, &args)?;
            before = Some(out);
        }
    }
    Ok(())
}

const fn sizes(n: u32, m: u32, d: u32) -> [(&'static str, u32); 7] {
    [("b", 2), ("h", 2), ("bandwidths", 2), ("n", n), ("m", m), ("d", d), ("w", 2)]
}

const LAPLACIAN: fn() -> Vec<u8> = || Params { metric: 1, scale: 1.0 }.to_bytes();
const BANDWIDTH: (&str, Fill) = ("lambda", Fill::Uniform(1.0, 4.0));
const BARE: &[&str] = &["query_mask", "row_shift"];

/// The kernel's description.
pub static SPEC: KernelSpec = KernelSpec {
    name: "key_moments",
    family: "attention",
    formula: "mean[j] = meanᵢ(Gᵢⱼ − rᵢ), variance[j] = meanᵢ(Gᵢⱼ − rᵢ − mean[j])²",
    source: "LaplacianFormer, injective feature map; running moments: Chan, Golub and LeVeque 1983",
    ports: &[
        Port::read("q", &["b", "h", "n", "d"]),
        Port::read("k", &["b", "h", "m", "d"]),
        Port::read("lambda", &["bandwidths"]).positive().optional(),
        Port::read("query_mask", &["b", "h", "n"]).of(DType::U8).broadcast().optional(),
        Port::read("row_shift", &["b", "h", "n", "w"]).optional(),
        Port::write("moments", &["b", "h", "m", "2"]),
    ],
    params: Params::FIELDS,
    defaults: Params::default_bytes,
    output_dims: None,
    check,
    wgpu: OnWgpu::Expand(expand),
    cuda: OnCuda::Expand,
    reference: reference!(reference),
    window: |_, _| vec![("m", 1)],
    cost: |d, _| key_moments_part::cost(d),
    tolerance: Tolerance::SUMS,
    cases: &[
        Case::new("smallest", &[("b", 1), ("h", 1), ("bandwidths", 1), ("n", 1), ("m", 1), ("d", 1)], LAPLACIAN)
            .without(BARE).filled(&[BANDWIDTH]),
        Case::new("odd", &sizes(37, 21, 7), LAPLACIAN).without(BARE).filled(&[BANDWIDTH]),
        Case::new("masked_and_shifted", &sizes(65, 65, 12), || Params { metric: 2, scale: 1.0 }.to_bytes()).filled(&[BANDWIDTH]),
        Case::new("softmax", &sizes(31, 63, 33), || Params { metric: 0, scale: 0.25 }.to_bytes()).without(&["lambda", "query_mask"]),
        Case::new("all_masked", &sizes(37, 21, 8), LAPLACIAN).filled(&[BANDWIDTH, ("query_mask", Fill::Value(0.0))]),
        Case::new("no_query", &sizes(0, 21, 8), LAPLACIAN).filled(&[BANDWIDTH]),
    ],
    vjp: None,
};
