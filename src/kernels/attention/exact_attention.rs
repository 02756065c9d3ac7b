//! Exact attention: every query averages (or sums) the values of all keys, weighted by softmax, Laplacian or Gaussian.
//!
//! `out[i]` = Σⱼ wᵢⱼ `v[j]` / Σⱼ wᵢⱼ (`sum`) or Σⱼ wᵢⱼ `v[j]` (`none`), wᵢⱼ = exp(scale·q·k), exp(−‖q−k‖₁/λ) or exp(−‖q−k‖²/λ).
//!
//! * `q` `[b, h, n, d]`, `k` `[b, h, m, d]`, `v` `[b, h, m, e]`, `lambda` `[h]` or `[1]`, > 0 (not needed by softmax).
//! * `key_mask` `[b, h, m]`, `mask` `[b, h, n, m]`, `query_mask` `[b, h, n]`: 0 = leave out; each may be shared by heads. What a
//!   left-out key and its value hold does not matter. A row without keys, or left out itself, is zeros.
//! * `out` `[b, h, n, e]`; `log_sum` `[b, h, n]`: ln Σⱼ wᵢⱼ, `f32::MIN` where there is no key.
//!
//! Never an n × m buffer. Keys and values of a head that exceed a binding are taken in ranges, whose states are joined.

use super::attention_merge::{self, log_sum};
use super::attention_rows::{self, Operands, cost, finish};
use crate::error::Result;
use crate::graph::{Expansion, Graph};
use crate::kernel::*;
use crate::params;
use crate::reference;
use crate::tensor::{DType, Dims, Shape, Tensor};
use std::ops::Range;

params! {
    /// Parameters of [`SPEC`].
    pub struct Params {
        /// factor of the product q·k (softmax only)
        live scale: f32 = 1.0,
        /// exponent of a pair: 0 softmax scale·q·k, 1 Laplacian −‖q−k‖₁/λ, 2 Gaussian −‖q−k‖²/λ
        fixed metric: u32 = 0,
        /// 0 `sum`: rows divided by their sum; 1 `none`: G·v
        fixed normalise: u32 = 0,
    }
}

fn check(dims: &Dims, params: &[u8]) -> std::result::Result<(), String> {
    let p = Params::from_bytes(params);
    attention_rows::check_choices(p.metric, p.normalise)?;
    attention_rows::check_bandwidths(dims, p.metric)
}

fn reference<T: Real>(args: &mut HostArgs<T>) -> Result<()> {
    let p: Params = args.params();
    let operands = Operands::of(args, p.metric, p.scale).with_values(args, 0);
    let query_mask = args.words_if("query_mask");
    let (n, e) = (args.dims.at("n"), args.dims.at("e"));
    let shared = &*args;
    // One column more for the logarithm of the sum.
    let rows = reference::rows(args.dims.batches() as usize, n, e + 1, |batch, i, line| {
        let kept = query_mask.as_ref().is_none_or(|m| m[shared.start("query_mask", batch) + i] != 0);
        let (values, last) = line.split_at_mut(e);
        last[0] = log_sum(T::zero(), T::zero());
        if kept {
            let (shift, total) = operands.attend(shared, batch, i, values);
            finish(p.normalise, values, shift, total);
            last[0] = log_sum(shift, total);
        }
    });
    args.set("log_sum", rows.chunks_exact(e + 1).map(|line| line[e]).collect());
    args.set("out", rows.chunks_exact(e + 1).flat_map(|line| &line[..e]).copied().collect());
    Ok(())
}

/// Tensors of one expansion, or of one head of it.
#[derive(Clone, Copy)]
struct Ports {
    q: Tensor,
    k: Tensor,
    v: Tensor,
    lambda: Option<Tensor>,
    key_mask: Option<Tensor>,
    mask: Option<Tensor>,
    query_mask: Option<Tensor>,
    out: Tensor,
    log_sum: Option<Tensor>,
}

/// Head `(b, h)` of a tensor whose leading dimensions may be 1, cut to a range of its third dimension.
pub(crate) fn head(graph: &mut Graph, tensor: Tensor, (b, h): (u32, u32), range: Range<u32>) -> Result<Tensor> {
    let dims = tensor.shape().dims().to_vec();
    let index = b.min(dims[0] - 1) * dims[1] + h.min(dims[1] - 1);
    let mut flat = vec![dims[0] * dims[1]];
    flat.extend(&dims[2..]);
    let all = graph.reshape(tensor, Shape::new(&flat)?)?;
    let one = graph.slice(all, 0, index..index + 1)?;
    let mut split = vec![1, 1];
    split.extend(&dims[2..]);
    let one = graph.reshape(one, Shape::new(&split)?)?;
    graph.slice(one, 2, range)
}

impl Ports {
    fn of(x: &Expansion<'_>) -> Self {
        Self {
            q: x.port("q"),
            k: x.port("k"),
            v: x.port("v"),
            lambda: x.port_if("lambda"),
            key_mask: x.port_if("key_mask"),
            mask: x.port_if("mask"),
            query_mask: x.port_if("query_mask"),
            out: x.port("out"),
            log_sum: x.port_if("log_sum"),
        }
    }

    /// Batch elements `range`, all heads and rows.
    fn of_elements(&self, graph: &mut Graph, range: &Range<u32>) -> Result<Self> {
        let whole = self.out.dim(0);
        let mut part = |t: Tensor| if t.dim(0) == whole { graph.slice(t, 0, range.clone()) } else { Ok(t) };
        Ok(Self {
            q: part(self.q)?,
            k: part(self.k)?,
            v: part(self.v)?,
            key_mask: self.key_mask.map(&mut part).transpose()?,
            mask: self.mask.map(&mut part).transpose()?,
            query_mask: self.query_mask.map(&mut part).transpose()?,
            out: part(self.out)?,
            log_sum: self.log_sum.map(&mut part).transpose()?,
            lambda: self.lambda,
        })
    }

    /// Rows `rows` of one head.
    fn rows_of_head(&self, graph: &mut Graph, at: (u32, u32), rows: &Range<u32>) -> Result<Self> {
        let mut part = |t: Tensor, range: Range<u32>| head(graph, t, at, range);
        let whole = |t: Tensor| 0..t.dim(2);
        let one = Self {
            q: part(self.q, rows.clone())?,
            k: part(self.k, whole(self.k))?,
            v: part(self.v, whole(self.v))?,
            key_mask: self.key_mask.map(|t| part(t, whole(t))).transpose()?,
            mask: self.mask.map(|t| part(t, rows.clone())).transpose()?,
            query_mask: self.query_mask.map(|t| part(t, rows.clone())).transpose()?,
            out: part(self.out, rows.clone())?,
            log_sum: self.log_sum.map(|t| part(t, rows.clone())).transpose()?,
            lambda: self.lambda,
        };
        let lambda = match self.lambda {
            Some(all) if all.dim(0) > 1 => Some(graph.slice(all, 0, at.1..at.1 + 1)?),
            same => same,
        };
        Ok(Self { lambda, ..one })
    }

    /// Records all heads, with keys in ranges of at most `chunk`.
    fn record(&self, graph: &mut Graph, p: &Params, chunk: u32) -> Result<()> {
        let (m, e) = (self.k.dim(2), self.v.dim(3));
        let inner = attention_rows::Params { scale: p.scale, key_from: 0, metric: p.metric, normalise: p.normalise };
        let args = |k, v, out| [Some(self.q), Some(k), Some(v), self.lambda, self.key_mask, self.mask, Some(out)];
        if m <= chunk && self.query_mask.is_none() && self.log_sum.is_none() {
            graph.pass(&attention_rows::SPEC, &inner, &args(self.k, self.v, self.out))?;
            return Ok(());
        }
        let [b, h, n] = [0, 1, 2].map(|axis| self.out.dim(axis));
        let merge = attention_merge::Params { normalise: p.normalise };
        let mut before = None;
        let mut key = 0_u32;
        loop {
            let to = key.saturating_add(chunk).min(m);
            let (k, v) = if to - key == m { (self.k, self.v) } else {
                (graph.slice(self.k, 2, key..to)?, graph.slice(self.v, 2, key..to)?)
            };
            let state = graph.transient("attention state", [b, h, n, e + 2], DType::F32);
            graph.pass(&attention_rows::SPEC, &attention_rows::Params { key_from: key, ..inner }, &args(k, v, state))?;
            let (left, right) = before.map_or((state, None), |old| (old, Some(state)));
            if to == m {
                let args = [Some(left), right, self.query_mask, Some(self.out), self.log_sum];
                graph.pass(&attention_merge::SPEC, &merge, &args)?;
                return Ok(());
            }
            before = Some(match right {
                None => state,
                Some(_) => {
                    let joined = graph.transient("attention state", [b, h, n, e + 2], DType::F32);
                    graph.pass(&attention_merge::SPEC, &merge, &[Some(left), right, None, Some(joined), None])?;
                    joined
                }
            });
            key = to;
        }
    }
}

/// Keys of one head that fit a binding and the loops of every variant the device might choose; whole tiles.
fn keys_per_range(dims: &Dims, caps: &Caps) -> u32 {
    const SAMPLE: u32 = 1024;
    let mut sample = dims.clone();
    sample.set("m", SAMPLE);
    let suited = attention_rows::VARIANTS.iter().filter(|v| (v.suits)(&sample, &[], caps));
    let rounds = suited.map(|v| (v.rounds)(&sample)).max().unwrap_or(1).max(1);
    let by_loops = match caps.loop_rounds / rounds {
        // Long rows: not even the sample fits.
        0 => caps.loop_rounds * u64::from(SAMPLE) / rounds,
        samples => samples.saturating_mul(SAMPLE.into()),
    };
    let bytes = 4 * u64::from(dims.size("d").max(dims.size("e")).max(1));
    let fit = (caps.storage_binding.saturating_sub(u64::from(caps.storage_alignment)) / bytes).min(by_loops.max(1));
    let fit = if fit > 64 { fit / 64 * 64 } else { fit };
    u32::try_from(fit).unwrap_or(u32::MAX).max(1)
}

fn expand(x: &mut Expansion<'_>) -> Result<()> {
    let p: Params = x.params();
    let ports = Ports::of(x);
    let chunk = keys_per_range(x.dims, x.caps);
    let (n, m, e) = (x.dims.size("n"), x.dims.size("m"), x.dims.size("e"));
    let row_bytes = 4 * (u64::from(e) + 2);
    let batches = x.dims.batches();
    let direct = m <= chunk && ports.query_mask.is_none() && ports.log_sum.is_none();
    if direct || batches == 0 {
        return ports.record(x.graph, &p, u32::MAX);
    }
    let (b, h) = (x.dims.size("b"), x.dims.size("h"));
    let budget = x.caps.memory_budget;
    let per_element = u64::from(h) * u64::from(n) * row_bytes;
    if m <= chunk && per_element <= budget {
        // States of as many batch elements at a time as the budget holds.
        let elements = u32::try_from(budget / per_element.max(1)).unwrap_or(u32::MAX);
        return blocks(b, elements).try_for_each(|range| ports.of_elements(x.graph, &range)?.record(x.graph, &p, chunk));
    }
    // At most three states are alive at a time.
    let rows = u32::try_from(budget / 3 / row_bytes).unwrap_or(u32::MAX).max(64);
    for at in (0..b).flat_map(|b| (0..h).map(move |h| (b, h))) {
        blocks(n, rows).try_for_each(|range| ports.rows_of_head(x.graph, at, &range)?.record(x.graph, &p, chunk))?;
    }
    Ok(())
}

/// Ranges of at most `size` that cover 0..total; one empty range for nothing, so that outputs are still written.
pub(super) fn blocks(total: u32, size: u32) -> impl Iterator<Item = Range<u32>> {
    let starts = (0..total.max(1)).step_by(size.max(1) as usize);
    starts.map(move |start| start..start.saturating_add(size).min(total))
}

const fn sizes(n: u32, m: u32, d: u32, e: u32) -> [(&'static str, u32); 7] {
    [("b", 2), ("h", 2), ("bandwidths", 2), ("n", n), ("m", m), ("d", d), ("e", e)]
}

fn with(metric: u32, normalise: u32) -> Vec<u8> {
    Params { scale: 0.25, metric, normalise }.to_bytes()
}

const BANDWIDTH: (&str, Fill) = ("lambda", Fill::Uniform(0.5, 4.0));

/// The kernel's description.
pub static SPEC: KernelSpec = KernelSpec {
    name: "exact_attention",
    family: "attention",
    formula: "out[i] = Σⱼ wᵢⱼ v[j] / Σⱼ wᵢⱼ or Σⱼ wᵢⱼ v[j], w = exp(scale·q·k), exp(−‖q−k‖₁/λ) or exp(−‖q−k‖²/λ)",
    source: "Vaswani et al. 2017, eq. 1; Laplacian and Gaussian: definition",
    ports: &[
        Port::read("q", &["b", "h", "n", "d"]),
        Port::read("k", &["b", "h", "m", "d"]),
        Port::read("v", &["b", "h", "m", "e"]),
        Port::read("lambda", &["bandwidths"]).positive().optional(),
        Port::read("key_mask", &["b", "h", "m"]).of(DType::U8).broadcast().optional(),
        Port::read("mask", &["b", "h", "n", "m"]).of(DType::U8).broadcast().optional(),
        Port::read("query_mask", &["b", "h", "n"]).of(DType::U8).broadcast().optional(),
        Port::write("out", &["b", "h", "n", "e"]),
        Port::write("log_sum", &["b", "h", "n"]).optional(),
    ],
    params: Params::FIELDS,
    defaults: Params::default_bytes,
    output_dims: None,
    check,
    wgpu: OnWgpu::Expand(expand),
    cuda: OnCuda::Expand,
    reference: reference!(reference),
    window: by_rows,
    cost: |d, _| cost(d),
    tolerance: Tolerance::SUMS,
    cases: &[
        Case::new("smallest", &[("b", 1), ("h", 1), ("n", 1), ("m", 1), ("d", 1), ("e", 1)], || with(0, 0))
            .without(&["lambda", "key_mask", "mask", "query_mask", "log_sum"]),
        Case::new("log_sum", &sizes(20, 37, 8, 12), || with(1, 0)).without(&["key_mask", "mask", "query_mask"]).filled(&[BANDWIDTH]),
        Case::new("odd", &sizes(20, 37, 6, 5), || with(2, 0)).without(&["log_sum"]).filled(&[BANDWIDTH]),
        Case::new("shared_masks", &sizes(20, 37, 8, 4), || with(1, 1)).without(&["log_sum"])
            .filled(&[BANDWIDTH]).shared(&["key_mask", "mask", "query_mask"]),
        Case::new("empty_rows_are_told", &sizes(20, 37, 8, 4), || with(0, 0)).without(&["lambda", "mask"])
            .filled(&[("key_mask", Fill::Value(0.0))]),
        Case::new("no_row", &sizes(0, 3, 4, 4), || with(1, 0)).without(&["key_mask", "mask"]).filled(&[BANDWIDTH]),
        Case::new("softmax_1024", &[("b", 1), ("h", 8), ("n", 1024), ("m", 1024), ("d", 64), ("e", 64)], || {
            Params { scale: 0.125, ..Params::default() }.to_bytes()
        }).without(&["lambda", "key_mask", "mask", "query_mask", "log_sum"]).for_bench(),
    ],
    vjp: None,
};
