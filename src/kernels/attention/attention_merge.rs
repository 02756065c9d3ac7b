//! Ends rows of [`attention_rows`](super::attention_rows) states, or joins the states of two ranges of keys.
//!
//! With states (a, x, t) of both sides and X = max(x, x'): a·exp(x − X) + a'·exp(x' − X), X, t·exp(x − X) + t'·exp(x' − X).
//!
//! * `left` and, where there is a second range, `right`: `[b, h, n, s]`, s = e + 2.
//! * `query_mask` `[b, h, n]`: 0 makes the row one without keys.
//! * `out` `[b, h, n, p]`: with p = s the joined state, with p = e the finished rows.
//! * `log_sum` `[b, h, n]`: the logarithm of the row's sum; `f32::MIN` where no key was kept.

use super::attention_rows::{NO_KEY, finish};
use crate::error::Result;
use crate::kernel::wgsl_module::{EXP, GROUP};
use crate::kernel::*;
use crate::{cuda_shared, cuda_source, params, reference};
use crate::tensor::{DType, Dims, HostData};

params! {
    /// Parameters of [`SPEC`].
    pub struct Params {
        /// 0 `sum`: rows divided by their sum; 1 `none`: G·v
        fixed normalise: u32 = 0,
    }
}

/// The logarithm of the sum of a row without keys.
pub const EMPTY: f32 = f32::MIN;

fn check(dims: &Dims, params: &[u8]) -> std::result::Result<(), String> {
    super::attention_rows::check_choices(0, Params::from_bytes(params).normalise)?;
    let (s, p) = (dims.size("s"), dims.size("p"));
    if s < 2 || (p != s && p != s - 2) {
        return Err(format!("states have s = {s} = e + 2 columns and out p = s or e, got p = {p}"));
    }
    Ok(())
}

/// The logarithm of a row's sum.
pub(crate) fn log_sum<T: Real>(shift: T, total: T) -> T {
    if total > T::zero() { shift + total.ln() } else { T::of(f64::from(EMPTY)) }
}

fn reference<T: Real>(args: &mut HostArgs<T>) -> Result<()> {
    let p: Params = args.params();
    let (n, s, width) = (args.dims.at("n"), args.dims.at("s"), args.dims.at("p"));
    let (left, right) = (args.real("left"), args.real_if("right"));
    let query_mask = args.words_if("query_mask");
    let shared = &*args;
    let joined = reference::rows(args.dims.batches() as usize, n, s, |batch, i, line| {
        let at = (batch * n + i) * s;
        if query_mask.as_ref().is_some_and(|m| m[shared.start("query_mask", batch) + i] == 0) {
            line[s - 2] = T::of(NO_KEY);
            return;
        }
        line.copy_from_slice(&left[at..at + s]);
        if let Some(right) = &right {
            let other = &right[at..at + s];
            let shift = line[s - 2].max(other[s - 2]);
            let (keep, keep_other) = ((line[s - 2] - shift).exp(), (other[s - 2] - shift).exp());
            for (x, y) in line.iter_mut().zip(other) {
                *x = *x * keep + *y * keep_other;
            }
            line[s - 2] = shift;
        }
    });
    let ends = joined.chunks_exact(s);
    args.set("log_sum", ends.clone().map(|line| log_sum(line[s - 2], line[s - 1])).collect());
    let mut out = Vec::with_capacity(joined.len() / s * width);
    for line in ends {
        let at = out.len();
        out.extend_from_slice(&line[..width]);
        if width < s {
            finish(p.normalise, &mut out[at..], line[s - 2], line[s - 1]);
        }
    }
    args.set("out", out);
    Ok(())
}

static VARIANTS: &[Variant] = &[Variant {
    name: "plain",
    file: "attention/attention_merge.wgsl",
    body: include_str!("../../../shaders/attention/attention_merge.wgsl"),
    shared: &[GROUP, EXP],
    preferred_on: &[],
    classes: &[],
    vec4: &[],
    constants: no_constants,
    suits: always,
    grid: |d, batches| batches * (u64::from(d.size("n")) * u64::from(d.size("p"))).div_ceil(64),
    loads: |d, _| Loads { storage: 4.0 * f64::from(d.size("n")) * f64::from(d.size("p")), ..Loads::default() },
    rounds: few_rounds,
    subgroup_lanes: 0,
}];

const fn sizes(n: u32, s: u32, p: u32) -> [(&'static str, u32); 5] {
    [("b", 2), ("h", 2), ("n", n), ("s", s), ("p", p)]
}

/// States whose shifts lie within ±30 and whose sums lie within 1..9; every fifth row met no key.
fn states(dims: &Dims) -> HostData {
    let s = dims.at("s");
    let rows = dims.batches() as usize * dims.at("n");
    let mut data = Vec::with_capacity(rows * s);
    for row in 0..rows {
        let empty = row % 5 == 4;
        for col in 0..s {
            let x = ((row * 31 + col * 17) % 97) as f32 / 97.0;
            data.push(match (s - col, empty) {
                (2, true) => NO_KEY as f32,
                (2, false) => 60.0 * x - 30.0,
                (_, true) => 0.0,
                (1, false) => 1.0 + 8.0 * x,
                (_, false) => 2.0 * x - 1.0,
            });
        }
    }
    HostData::F32(data)
}

/// The same with all rows met by keys.
fn full_states(dims: &Dims) -> HostData {
    let HostData::F32(mut data) = states(dims) else { return HostData::F32(Vec::new()) };
    let s = dims.at("s");
    for (row, line) in data.chunks_exact_mut(s).enumerate().filter(|(row, _)| row % 5 == 4) {
        line[s - 2] = (row % 7) as f32;
        line[s - 1] = 2.0;
    }
    HostData::F32(data)
}

const NONE: fn() -> Vec<u8> = || Params { normalise: 1 }.to_bytes();

/// The kernel's description.
pub static SPEC: KernelSpec = KernelSpec {
    name: "attention_merge",
    family: "attention",
    formula: "a = a·exp(x − X) + a'·exp(x' − X), X = max(x, x')",
    source: "Milakov and Gimelshein, arXiv 1805.02867, section 3.1",
    ports: &[
        Port::read("left", &["b", "h", "n", "s"]),
        Port::read("right", &["b", "h", "n", "s"]).optional(),
        Port::read("query_mask", &["b", "h", "n"]).of(DType::U8).broadcast().optional(),
        Port::write("out", &["b", "h", "n", "p"]),
        Port::write("log_sum", &["b", "h", "n"]).optional(),
    ],
    params: Params::FIELDS,
    defaults: Params::default_bytes,
    output_dims: None,
    check,
    wgpu: OnWgpu::Shader(VARIANTS),
    cuda: OnCuda::Source(&[cuda_source!("attention/attention_merge.cu", 256, |d, _| {
        (d.batches() * u64::from(d.size("n")) * u64::from(d.size("p"))).div_ceil(256)
    })
    .with(&[cuda::EXP, cuda_shared!("shared/places.cuh")])]),
    reference: reference!(reference),
    window: by_rows,
    cost: |d, _| {
        let words = d.batches() as f64 * f64::from(d.size("n")) * f64::from(d.size("p"));
        Cost { flop: 4.0 * words, exp: 2.0 * words, stores: words, bytes: 12.0 * words, ..Cost::default() }
    },
    tolerance: Tolerance::SUMS,
    cases: &[
        Case::new("smallest", &[("b", 1), ("h", 1), ("n", 1), ("s", 3), ("p", 1)], Params::default_bytes)
            .without(&["right", "query_mask", "log_sum"]).filled(&[("left", Fill::Made(full_states))]),
        Case::new("odd", &sizes(17, 9, 7), Params::default_bytes).without(&["query_mask", "log_sum"])
            .filled(&[("left", Fill::Made(states)), ("right", Fill::Made(full_states))]),
        Case::new("both_empty", &sizes(17, 9, 7), Params::default_bytes).without(&["query_mask"])
            .filled(&[("left", Fill::Made(states)), ("right", Fill::Made(states))]),
        Case::new("log_sum", &sizes(17, 9, 7), NONE).without(&["query_mask"])
            .filled(&[("left", Fill::Made(full_states)), ("right", Fill::Made(full_states))]),
        Case::new("joined_state", &sizes(33, 66, 66), Params::default_bytes).without(&["query_mask", "log_sum"])
            .filled(&[("left", Fill::Made(full_states)), ("right", Fill::Made(full_states))]),
        Case::new("query_mask", &sizes(13, 6, 4), Params::default_bytes).without(&["log_sum"])
            .filled(&[("left", Fill::Made(states)), ("right", Fill::Made(states))]),
        Case::new("no_row", &sizes(0, 6, 4), Params::default_bytes).without(&["right", "query_mask"]),
    ],
    vjp: None,
};
