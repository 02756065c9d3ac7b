//! Rows of the exact attention matrix for chosen queries, in O(n d) each: ground truth at any number of tokens.
//!
//! `out[j, q]` = e^(score(q, kⱼ) − `log_sum[q]`), score = −‖q − k‖₁/λ, −‖q − k‖²/λ or scale · q·k; 0 where key j is masked.
//!
//! * `queries` `[b, h, r, d]`, `k` `[b, h, n, d]`, `lambda` `[h]` (not for the dot product).
//! * `log_sum` `[b, h, r]` from [`exact_attention`](super::exact_attention) of the same queries makes rows that sum to
//!   one; without it rows are the bare kernel values.
//! * Key-major `[b, h, n, r]`, so that windows of keys are contiguous.

use crate::error::Result;
use crate::kernel::wgsl_module::{BYTES, EXP, GROUP};
use crate::kernel::*;
use crate::kernels::laplacian::kernel_matrix::{distance, kept};
use crate::tensor::{DType, Dims};
use crate::{cuda_shared, cuda_source, params, reference};

params! {
    /// Parameters of [`SPEC`].
    pub struct Params {
        /// factor of the dot product (softmax only)
        live scale: f32 = 1.0,
        /// 0 = dot product (softmax), 1 = L1 distance (Laplacian), 2 = squared L2 distance (Gaussian)
        fixed metric: u32 = 1,
    }
}

fn reference<T: Real>(args: &mut HostArgs<T>) -> Result<()> {
    let p: Params = args.params();
    let [n, r, d, heads] = ["n", "r", "d", "h"].map(|x| args.dims.at(x));
    let (queries, k, lambda, log_sum) = (args.real("queries"), args.real("k"), args.real_if("lambda"), args.real_if("log_sum"));
    let shared = &*args;
    let out = reference::rows(args.dims.batches() as usize, n, r, |batch, j, line| {
        if !kept(shared, "keep", batch, j) {
            return;
        }
        let key = &k[(batch * n + j) * d..][..d];
        for (query, value) in line.iter_mut().enumerate() {
            let point = &queries[(batch * r + query) * d..][..d];
            let score = match &lambda {
                Some(lambda) if p.metric != 0 => -distance(p.metric, point, key) / lambda[batch % heads],
                _ => point.iter().zip(key).map(|(x, y)| *x * *y).sum::<T>() * T::of(f64::from(p.scale)),
            };
            *value = (score - log_sum.as_ref().map_or(T::zero(), |s| s[batch * r + query])).exp();
        }
    });
    args.set("out", out);
    Ok(())
}

fn pairs(d: &Dims) -> f64 {
    f64::from(d.size("n")) * f64::from(d.size("r")) * f64::from(d.size("d"))
}

/// Coordinates word by word, or in fours; eight lanes for each key.
const fn in_cuda<const FOURS: bool>() -> cuda::Source {
    cuda::Source {
        constants: |_| vec![("FOURS", Constant::Bool(FOURS))],
        ..cuda_source!("attention/exact_row.cu", 256, |d, _| d.batches() * u64::from(d.size("n").div_ceil(32)))
            .with(&[cuda::EXP, cuda::ASYNC, cuda_shared!("shared/pairs.cuh")])
    }
}

/// The kernel's description.
pub static SPEC: KernelSpec = KernelSpec {
    name: "exact_row",
    family: "attention",
    formula: "out[j,q] = e^(score(q, kⱼ) − log_sum[q])",
    source: "definition",
    ports: &[
        Port::read("queries", &["b", "h", "r", "d"]),
        Port::read("k", &["b", "h", "n", "d"]),
        Port::read("lambda", &["bandwidths"]).positive().optional(),
        Port::read("log_sum", &["b", "h", "r"]).optional(),
        Port::read("keep", &["b", "h", "n"]).of(DType::U8).broadcast().optional(),
        Port::write("out", &["b", "h", "n", "r"]),
    ],
    params: Params::FIELDS,
    defaults: Params::default_bytes,
    output_dims: None,
    check: |dims, params| match Params::from_bytes(params).metric {
        1..=2 if dims.find("bandwidths") != dims.find("h") => {
            Err(format!("lambda needs a bandwidth per head, h = {}", dims.size("h")))
        }
        0..=2 => Ok(()),
        other => Err(format!("metric is 0, 1 or 2, got {other}")),
    },
    wgpu: OnWgpu::Shader(&[Variant::only(
        "attention/exact_row.wgsl",
        include_str!("../../../shaders/attention/exact_row.wgsl"),
        &[GROUP, EXP, BYTES],
        |d, batches| batches * u64::from(d.size("r")) * u64::from(d.size("n").div_ceil(64)),
        |d, _| Loads { storage: 2.0 * pairs(d), ..Loads::default() },
    ).rounds(|d| u64::from(d.size("d")))]),
    cuda: OnCuda::Source(&[cuda::Source { name: "vec4", vec4: &["queries", "k"], ..in_cuda::<true>() }, in_cuda::<false>()]),
    reference: reference!(reference),
    window: by_rows,
    cost: |d, _| {
        let batches = d.batches() as f64;
        let (n, r, c) = (f64::from(d.size("n")), f64::from(d.size("r")), f64::from(d.size("d")));
        Cost { flop: 2.0 * batches * pairs(d), exp: batches * n * r, stores: batches * n * r, bytes: 4.0 * batches * n * (c + r), ..Cost::default() }
    },
    tolerance: Tolerance::SUMS,
    cases: &[
        Case::new("smallest", &[("b", 1), ("h", 1), ("r", 1), ("n", 1), ("d", 1), ("bandwidths", 1)], Params::default_bytes)
            .without(&["log_sum", "keep"]).filled(&[("lambda", Fill::Value(4.0))]),
        Case::new("odd", &[("b", 2), ("h", 3), ("r", 3), ("n", 67), ("d", 7), ("bandwidths", 3)], Params::default_bytes).filled(&[("lambda", Fill::Uniform(2.0, 6.0))]),
        Case::new("softmax", &[("b", 1), ("h", 2), ("r", 1), ("n", 65), ("d", 33)], || Params { scale: 0.17, metric: 0 }.to_bytes())
            .without(&["lambda", "keep"]),
        Case::new("gaussian", &[("b", 1), ("h", 1), ("r", 2), ("n", 130), ("d", 20), ("bandwidths", 1)], || Params { metric: 2, ..Params::default() }.to_bytes())
            .without(&["log_sum"]).filled(&[("lambda", Fill::Value(9.0))]).shared(&["keep"]),
    ],
    vjp: None,
};
