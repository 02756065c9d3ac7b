//! Exact attention over a range of keys, online: the one dispatch that [`exact_attention`](super::exact_attention)
//! and its whitened forms are made of.
//!
//! wᵢⱼ = exp(xᵢⱼ − xᵢ) over the kept keys j, where xᵢⱼ is the pair's exponent (see [`Params::metric`]) and xᵢ the largest of
//! its row, so that rows whose kernel values all underflow still have a nearest key of weight 1.
//!
//! * `q` `[b, h, n, d]`, `k` `[b, h, m, d]`, `v` `[b, h, m, e]`, `lambda` `[h]` or `[1]`, > 0 (needed by the distances only).
//! * `key_mask` `[b, h, mm]` and `mask` `[b, h, n, mm]`: 0 leaves a key (for all rows, for one row) out; either may be shared by
//!   heads. Key j is their column `key_from` + j. What a left-out key or its value holds does not matter.
//! * `out` `[b, h, n, p]`: with p = e the finished rows, zeros where no key was kept; with p = e + 2 the state of each row,
//!   Σⱼ wᵢⱼ vⱼ, then xᵢ (−2·10³⁸ where no key was kept), then Σⱼ wᵢⱼ, for [`attention_merge`](super::attention_merge).

use crate::error::Result;
use crate::kernel::wgsl_module::{EXP, GROUP, Shared};
use crate::kernel::*;
use crate::kernels::laplacian::kernel_matrix::FILLED;
use crate::{cuda_shared, cuda_source, params, reference};
use crate::tensor::{DType, Dims, HostData};
use std::sync::Arc;

params! {
    /// Parameters of [`SPEC`].
    pub struct Params {
        /// factor of the product q·k (softmax only)
        live scale: f32 = 1.0,
        /// column of the masks that belongs to the first key
        live key_from: u32 = 0,
        /// exponent of a pair: 0 softmax scale·q·k, 1 Laplacian −‖q−k‖₁/λ, 2 Gaussian −‖q−k‖²/λ
        fixed metric: u32 = 0,
        /// 0 `sum`: rows divided by their sum; 1 `none`: G·v
        fixed normalise: u32 = 0,
    }
}

/// WGSL that turns a pair of tokens into an exponent.
pub(crate) const PAIR: &Shared =
    &Shared { file: "attention/pair.wgsl", body: include_str!("../../../shaders/attention/pair.wgsl") };
/// WGSL that the variants below share.
const ROWS: &Shared =
    &Shared { file: "attention/rows.wgsl", body: include_str!("../../../shaders/attention/rows.wgsl") };
/// Queries and results in registers, for software drivers; how lines of keys and values come is the variant's.
const REGISTERS: &Shared = &Shared {
    file: "attention/attention_rows_registers.wgsl",
    body: include_str!("../../../shaders/attention/attention_rows_registers.wgsl"),
};

/// The exponent of a row without keys.
pub(crate) const NO_KEY: f64 = -2.0e38;

/// Refuses metrics and normalisations that do not exist.
pub(crate) fn check_choices(metric: u32, normalise: u32) -> std::result::Result<(), String> {
    if metric > 2 || normalise > 1 {
        return Err(format!("metric is 0, 1 or 2 and normalise 0 or 1, got {metric} and {normalise}"));
    }
    Ok(())
}

/// Refuses distances without a bandwidth for every head.
pub(crate) fn check_bandwidths(dims: &Dims, metric: u32) -> std::result::Result<(), String> {
    let h = dims.find("h").unwrap_or(1);
    match dims.find("bandwidths") {
        None if metric != 0 => Err("needs `lambda` [h] or [1] for this metric".into()),
        Some(size) if size != 1 && size != h => Err(format!("`lambda` has {size} numbers; wants h = {h} or 1")),
        _ => Ok(()),
    }
}

fn check(dims: &Dims, params: &[u8]) -> std::result::Result<(), String> {
    let p = Params::from_bytes(params);
    check_choices(p.metric, p.normalise)?;
    check_bandwidths(dims, p.metric)?;
    let (e, out) = (dims.size("e"), dims.size("p"));
    if out != e && out != e + 2 {
        return Err(format!("out has p = {out} columns; wants e = {e} or e + 2"));
    }
    let last = u64::from(p.key_from) + u64::from(dims.size("m"));
    match dims.find("mm") {
        Some(mm) if u64::from(mm) < last => Err(format!("masks have {mm} columns; the keys need {last}")),
        _ => Ok(()),
    }
}

/// The exponents and values of a step's rows, as its definition reads them.
pub(crate) struct Operands<T> {
    q: Arc<Vec<T>>,
    /// Queries of one head.
    rows: usize,
    k: Arc<Vec<T>>,
    v: Option<Arc<Vec<T>>>,
    lambda: Option<Arc<Vec<T>>>,
    key_mask: Option<Arc<Vec<u32>>>,
    mask: Option<Arc<Vec<u32>>>,
    metric: u32,
    scale: T,
    key_from: usize,
    mask_width: usize,
}

impl<T: Real> Operands<T> {
    /// The queries, keys and bandwidths of a kernel with this one's port names.
    pub(crate) fn of(args: &HostArgs<T>, metric: u32, scale: f32) -> Self {
        Self {
            q: args.real("q"),
            rows: args.dims.at("n"),
            k: args.real("k"),
            v: None,
            lambda: args.real_if("lambda"),
            key_mask: None,
            mask: None,
            metric,
            scale: T::of(f64::from(scale)),
            key_from: 0,
            mask_width: 0,
        }
    }

    /// The same with other queries: `rows` of them per head.
    pub(crate) fn with_queries(self, q: Arc<Vec<T>>, rows: usize) -> Self {
        Self { q, rows, ..self }
    }

    /// The same with the values and masks, whose column `key_from` belongs to the first key.
    pub(crate) fn with_values(self, args: &HostArgs<T>, key_from: usize) -> Self {
        Self {
            v: Some(args.real("v")),
            key_mask: args.words_if("key_mask"),
            mask: args.words_if("mask"),
            key_from,
            mask_width: args.dims.find("mm").unwrap_or(args.dims.size("m")) as usize,
            ..self
        }
    }

    /// The exponent of query `i` and key `j` of one head.
    pub(crate) fn exponent(&self, dims: &Dims, batch: usize, i: usize, j: usize) -> T {
        let d = dims.at("d");
        let q = &self.q[(batch * self.rows + i) * d..][..d];
        let k = &self.k[(batch * dims.at("m") + j) * d..][..d];
        let pairs = q.iter().zip(k);
        let bandwidth = self.lambda.as_ref().map_or(T::one(), |l| l[batch % l.len().max(1)]);
        match self.metric {
            0 => pairs.map(|(&x, &y)| x * y).sum::<T>() * self.scale,
            1 => -pairs.map(|(&x, &y)| (x - y).abs()).sum::<T>() / bandwidth,
            _ => -pairs.map(|(&x, &y)| (x - y) * (x - y)).sum::<T>() / bandwidth,
        }
    }

    fn keeps(&self, args: &HostArgs<T>, batch: usize, i: usize, j: usize) -> bool {
        let column = self.key_from + j;
        let key = self.key_mask.as_ref().is_none_or(|m| m[args.start("key_mask", batch) + column] != 0);
        key && self.mask.as_ref().is_none_or(|m| m[args.start("mask", batch) + i * self.mask_width + column] != 0)
    }

    /// Adds a row's weighted values to `values` and returns its largest exponent and its sum.
    pub(crate) fn attend(&self, args: &HostArgs<T>, batch: usize, i: usize, values: &mut [T]) -> (T, T) {
        let (m, e) = (args.dims.at("m"), args.dims.at("e"));
        let kept: Vec<(usize, T)> = (0..m)
            .filter(|&j| self.keeps(args, batch, i, j))
            .map(|j| (j, self.exponent(&args.dims, batch, i, j)))
            .collect();
        let shift = kept.iter().fold(T::of(NO_KEY), |top, &(_, x)| top.max(x));
        let mut total = T::zero();
        for (j, x) in kept {
            let weight = (x - shift).exp();
            total += weight;
            if let Some(v) = &self.v {
                for (y, &value) in values.iter_mut().zip(&v[(batch * m + j) * e..]) {
                    *y += weight * value;
                }
            }
        }
        (shift, total)
    }
}

/// Ends a row: divides by its sum, or takes the shift back.
pub(crate) fn finish<T: Real>(normalise: u32, values: &mut [T], shift: T, total: T) {
    let factor = match normalise {
        0 if total > T::zero() => T::one() / total,
        0 => T::zero(),
        _ => shift.exp(),
    };
    values.iter_mut().for_each(|y| *y *= factor);
}

fn reference<T: Real>(args: &mut HostArgs<T>) -> Result<()> {
    let p: Params = args.params();
    let operands = Operands::of(args, p.metric, p.scale).with_values(args, p.key_from as usize);
    let (n, e, width) = (args.dims.at("n"), args.dims.at("e"), args.dims.at("p"));
    let shared = &*args;
    let out = reference::rows(args.dims.batches() as usize, n, width, |batch, i, line| {
        let (shift, total) = operands.attend(shared, batch, i, &mut line[..e]);
        if width > e {
            line[e] = shift;
            line[e + 1] = total;
        } else {
            finish(p.normalise, line, shift, total);
        }
    });
    args.set("out", out);
    Ok(())
}

fn pairs(dims: &Dims) -> f64 {
    f64::from(dims.size("n")) * f64::from(dims.size("m"))
}

fn slices(dims: &Dims, columns: u32) -> f64 {
    f64::from(dims.size("e").div_ceil(columns))
}

/// Work of exact attention with values of `dims`' `e` columns.
pub(crate) fn cost(dims: &Dims) -> Cost {
    let batches = dims.batches() as f64;
    let [n, m, d, e] = ["n", "m", "d", "e"].map(|name| f64::from(dims.size(name)));
    Cost {
        flop: 2.0 * batches * n * m * (d + e),
        exp: batches * n * m,
        stores: batches * n * e,
        bytes: 4.0 * batches * ((n + m) * d + (m + n) * e),
        ..Cost::default()
    }
}

fn groups(dims: &Dims, batches: u64, rows: u32, columns: u32) -> u64 {
    batches * u64::from(dims.size("n").div_ceil(rows)) * u64::from(dims.size("e").div_ceil(columns))
}

/// Queries and results in registers, keys and values as lines of texels.
const TEXTURE: Variant = Variant {
    name: "texture",
    file: "attention/attention_rows_texture.wgsl",
    body: include_str!("../../../shaders/attention/attention_rows_texture.wgsl"),
    shared: &[GROUP, EXP, PAIR, ROWS, REGISTERS],
    preferred_on: &[Driver::Llvmpipe, Driver::SwiftShader],
    classes: &[("q", Class::Texture), ("k", Class::Texture), ("v", Class::Texture)],
    vec4: &["q", "k", "v"],
    constants: |d| {
        let texels = |name| Constant::U32((d.size(name) / 4).min(16));
        vec![("HELD", texels("d")), ("WIDTH", texels("e"))]
    },
    suits: |d, _, _| d.size("d") % 4 == 0 && d.size("e") % 4 == 0 && d.size("d") > 0 && d.size("e") > 0,
    grid: |d, batches| groups(d, batches, 32, 64),
    loads: |d, _| Loads {
        texture: pairs(d) / 4.0 * (slices(d, 64) * f64::from(d.size("d")) + f64::from(d.size("e"))),
        ..Loads::default()
    },
    // Every key twice, and sixteen of them at a time.
    rounds: |d| u64::from(d.size("m")) * (2 + u64::from((d.size("d") / 4).saturating_sub(16))) + u64::from(d.size("m").div_ceil(16)),
    subgroup_lanes: 0,
};

pub(super) static VARIANTS: &[Variant] = &[
    Variant {
        name: "tile",
        file: "attention/attention_rows_tile.wgsl",
        body: include_str!("../../../shaders/attention/attention_rows_tile.wgsl"),
        shared: &[GROUP, EXP, PAIR, ROWS],
        preferred_on: &[Driver::Gpu],
        classes: &[],
        vec4: &[],
        constants: no_constants,
        suits: |_, _, caps| caps.workgroup_bytes >= 14_336,
        grid: |d, batches| groups(d, batches, 64, 64),
        loads: |d, _| {
            let (depth, columns) = (f64::from(d.size("d")), f64::from(d.size("e")));
            Loads {
                storage: pairs(d) * (slices(d, 64) * depth * (1.0 / 64.0 + 1.0 / 32.0) + columns / 64.0),
                workgroup: pairs(d) * (slices(d, 64) * depth * 12.0 / 32.0 + columns * 16.0 / 64.0),
                ..Loads::default()
            }
        },
        rounds: |d| u64::from(d.size("m").div_ceil(32)) * (64 + 24 * u64::from(d.size("d").div_ceil(16))),
        subgroup_lanes: 0,
    },
    Variant {
        name: "broadcast",
        file: "attention/attention_rows_broadcast.wgsl",
        body: include_str!("../../../shaders/attention/attention_rows_broadcast.wgsl"),
        preferred_on: &[Driver::Llvmpipe],
        // Eight threads with four rows each load a line once, in texels of eight lanes.
        loads: |d, _| {
            let lines = |name: &str| f64::from((d.size(name) / 4).min(16).div_ceil(8));
            let beyond = f64::from((d.size("d") / 4).saturating_sub(16));
            Loads {
                texture: pairs(d) / 32.0 * slices(d, 64) * 32.0 * (lines("d") + lines("e") + 5.0 * beyond),
                many_sums: 2.0 * pairs(d) * f64::from(d.size("e")),
                ..Loads::default()
            }
        },
        subgroup_lanes: 8,
        ..TEXTURE
    },
    TEXTURE,
    Variant {
        name: "plain",
        file: "attention/attention_rows_plain.wgsl",
        body: include_str!("../../../shaders/attention/attention_rows_plain.wgsl"),
        shared: &[GROUP, EXP, PAIR, ROWS],
        preferred_on: &[Driver::Llvmpipe, Driver::SwiftShader],
        classes: &[],
        vec4: &[],
        constants: no_constants,
        suits: always,
        grid: |d, batches| groups(d, batches, 64, 32),
        loads: |d, _| Loads {
            storage: pairs(d) * (slices(d, 32) * f64::from(d.size("d")) * 1.25 + f64::from(d.size("e"))),
            ..Loads::default()
        },
        rounds: |d| u64::from(d.size("m").div_ceil(4)) * (u64::from(d.size("d")) + 20),
        subgroup_lanes: 0,
    },
];

const fn sizes(n: u32, m: u32, d: u32, e: u32, p: u32) -> [(&'static str, u32); 8] {
    [("b", 1), ("h", 2), ("bandwidths", 2), ("n", n), ("m", m), ("d", d), ("e", e), ("p", p)]
}

fn with(metric: u32, normalise: u32) -> Vec<u8> {
    Params { metric, normalise, scale: 0.25, ..Params::default() }.to_bytes()
}

/// Ones, except zeros for the first 40 keys of the first head, so that whole tiles are left out.
fn first_keys_left_out(dims: &Dims) -> HostData {
    let m = dims.at("mm");
    HostData::U8((0..dims.batches() as usize * m).map(|i| u8::from(i >= m || i % m >= 40)).collect())
}

/// Row i sees keys 0..i, so row 0 sees none.
fn strictly_causal(dims: &Dims) -> HostData {
    let (n, m) = (dims.at("n"), dims.at("mm"));
    HostData::U8((0..n * m).map(|i| u8::from(i % m < i / m)).collect())
}

/// Numbers in [−1, 1], except garbage in the odd keys, which `odd_keys_left_out` leaves out.
fn garbage_in_odd_keys(columns: &'static str) -> impl Fn(&Dims) -> HostData {
    move |dims| {
        let (m, c) = (dims.at("m"), dims.at(columns));
        let garbage = [f32::NAN, 3e38, -3e38, f32::INFINITY];
        let number = |i: usize| if i / c % m % 2 == 1 { garbage[i % 4] } else { ((i * 37) % 101) as f32 / 50.0 - 1.0 };
        HostData::F32((0..dims.batches() as usize * m * c).map(number).collect())
    }
}

fn garbage_keys(dims: &Dims) -> HostData {
    garbage_in_odd_keys("d")(dims)
}

fn garbage_values(dims: &Dims) -> HostData {
    garbage_in_odd_keys("e")(dims)
}

fn odd_keys_left_out(dims: &Dims) -> HostData {
    let m = dims.at("mm");
    HostData::U8((0..dims.batches() as usize * m).map(|i| u8::from((i % m).is_multiple_of(2))).collect())
}

fn odd_pairs_left_out(dims: &Dims) -> HostData {
    let m = dims.at("mm");
    HostData::U8((0..dims.batches() as usize * dims.at("n") * m).map(|i| u8::from((i % m).is_multiple_of(2))).collect())
}

const BANDWIDTH: (&str, Fill) = ("lambda", Fill::Uniform(0.5, 4.0));
const NO_MASKS: &[&str] = &["key_mask", "mask"];

/// CUDA text that turns a pair of tokens into an exponent, after that for all pairs of a tile.
pub(super) const CUDA_PAIR: &[&cuda::Shared] = &[
    cuda::EXP,
    cuda_shared!("shared/divide.cuh"),
    cuda::ASYNC,
    cuda_shared!("shared/pairs.cuh"),
    cuda_shared!("attention/pair.cuh"),
];

/// Rows of a block in CUDA.
fn cuda_rows(d: &Dims) -> u32 {
    if cuda_blocks(d, 64) < FILLED { 32 } else { 64 }
}

/// The state of a row is written even where there are no values.
fn cuda_blocks(d: &Dims, rows: u32) -> u64 {
    d.batches() * u64::from(d.size("n").div_ceil(rows)) * u64::from(d.size("e").div_ceil(64).max(1))
}

/// Rows word by word, or in fours.
const fn in_cuda<const FOURS: bool>() -> cuda::Source {
    cuda::Source {
        constants: |d| {
            let stay = Constant::Bool(d.size("d") <= 64);
            vec![("ROWS", Constant::U32(cuda_rows(d))), ("STAY", stay), ("FOURS", Constant::Bool(FOURS))]
        },
        ..cuda_source!("attention/attention_rows.cu", 128, |d, _| cuda_blocks(d, cuda_rows(d))).with(CUDA_PAIR)
    }
}

/// The kernel's description.
pub static SPEC: KernelSpec = KernelSpec {
    name: "attention_rows",
    family: "attention",
    formula: "out[i] = Σⱼ wᵢⱼ v[j] / Σⱼ wᵢⱼ or Σⱼ Gᵢⱼ v[j], or the row's state",
    source: "definition; online sums as in Milakov and Gimelshein, arXiv 1805.02867",
    ports: &[
        Port::read("q", &["b", "h", "n", "d"]),
        Port::read("k", &["b", "h", "m", "d"]),
        Port::read("v", &["b", "h", "m", "e"]),
        Port::read("lambda", &["bandwidths"]).positive().optional(),
        Port::read("key_mask", &["b", "h", "mm"]).of(DType::U8).broadcast().optional(),
        Port::read("mask", &["b", "h", "n", "mm"]).of(DType::U8).broadcast().optional(),
        Port::write("out", &["b", "h", "n", "p"]),
    ],
    params: Params::FIELDS,
    defaults: Params::default_bytes,
    output_dims: None,
    check,
    wgpu: OnWgpu::Shader(VARIANTS),
    cuda: OnCuda::Source(&[cuda::Source { name: "vec4", vec4: &["q", "k", "v"], ..in_cuda::<true>() }, in_cuda::<false>()]),
    reference: reference!(reference),
    window: by_rows,
    cost: |d, _| cost(d),
    tolerance: Tolerance::SUMS,
    cases: &[
        Case::new("smallest", &[("b", 1), ("h", 1), ("bandwidths", 1), ("n", 1), ("m", 1), ("d", 1), ("e", 1), ("p", 1)], || with(0, 0))
            .without(&["lambda", "key_mask", "mask"]),
        Case::new("odd", &sizes(17, 33, 7, 5, 5), || with(0, 0)).without(&["lambda", "key_mask", "mask"]),
        Case::new("laplacian_odd", &sizes(37, 65, 33, 9, 9), || with(1, 0)).without(NO_MASKS).filled(&[BANDWIDTH]),
        Case::new("gaussian_odd", &sizes(65, 31, 65, 3, 3), || with(2, 0)).without(NO_MASKS).filled(&[BANDWIDTH]),
        Case::new("laplacian_none", &sizes(63, 32, 16, 65, 65), || with(1, 1)).without(NO_MASKS).filled(&[BANDWIDTH]),
        Case::new("gaussian_none_texels", &sizes(64, 65, 12, 68, 68), || with(2, 1)).without(NO_MASKS).filled(&[BANDWIDTH]),
        Case::new("softmax_texels", &sizes(65, 64, 64, 64, 64), || with(0, 0)).without(&["lambda", "key_mask", "mask"]),
        Case::new("deep_texels", &sizes(33, 40, 200, 20, 20), || with(1, 0)).without(NO_MASKS).filled(&[("lambda", Fill::Uniform(20.0, 40.0))]),
        Case::new("deep_odd", &sizes(9, 20, 201, 130, 130), || with(0, 0)).without(&["lambda", "key_mask", "mask"]),
        Case::new("one_coordinate", &sizes(5, 6, 1, 2, 2), || with(1, 0)).without(NO_MASKS).filled(&[BANDWIDTH]),
        Case::new("one_key", &sizes(20, 1, 4, 4, 4), || with(2, 0)).without(NO_MASKS).filled(&[BANDWIDTH]),
        Case::new("no_key", &sizes(20, 0, 4, 4, 4), || with(1, 0)).without(NO_MASKS).filled(&[BANDWIDTH]),
        Case::new("no_row", &sizes(0, 3, 4, 4, 4), || with(1, 0)).without(NO_MASKS).filled(&[BANDWIDTH]),
        Case::new("state", &sizes(21, 70, 8, 12, 14), || with(1, 0)).without(NO_MASKS).filled(&[BANDWIDTH]),
        Case::new("state_odd", &sizes(21, 70, 5, 67, 69), || with(0, 0)).without(&["lambda", "key_mask", "mask"]),
        Case::new("key_mask", &[("b", 2), ("h", 2), ("bandwidths", 2), ("n", 20), ("m", 70), ("d", 8), ("e", 8), ("p", 8), ("mm", 70)], || with(1, 0))
            .without(&["mask"]).filled(&[BANDWIDTH, ("key_mask", Fill::Made(first_keys_left_out))]),
        Case::new("all_masked", &[("b", 1), ("h", 2), ("bandwidths", 2), ("n", 20), ("m", 33), ("d", 8), ("e", 8), ("p", 8), ("mm", 33)], || with(1, 0))
            .without(&["mask"]).filled(&[BANDWIDTH, ("key_mask", Fill::Value(0.0))]).shared(&["key_mask"]),
        Case::new("strictly_causal", &[("b", 2), ("h", 2), ("bandwidths", 2), ("n", 35), ("m", 35), ("d", 12), ("e", 12), ("p", 12), ("mm", 35)], || with(0, 0))
            .without(&["lambda", "key_mask"]).filled(&[("mask", Fill::Made(strictly_causal))]).shared(&["mask"]),
        Case::new("both_masks", &[("b", 2), ("h", 3), ("bandwidths", 3), ("n", 19), ("m", 41), ("d", 12), ("e", 8), ("p", 8), ("mm", 41)], || with(2, 1))
            .filled(&[BANDWIDTH]),
        Case::new("masks_of_a_range", &[("b", 1), ("h", 2), ("bandwidths", 2), ("n", 19), ("m", 41), ("d", 4), ("e", 8), ("p", 8), ("mm", 53)], || {
            Params { metric: 1, key_from: 11, ..Params::default() }.to_bytes()
        }).filled(&[BANDWIDTH]),
        Case::new("garbage_in_masked_keys", &[("b", 1), ("h", 2), ("bandwidths", 2), ("n", 18), ("m", 45), ("d", 8), ("e", 8), ("p", 8), ("mm", 45)], || with(0, 0))
            .without(&["lambda", "mask"])
            .filled(&[("k", Fill::Made(garbage_keys)), ("v", Fill::Made(garbage_values)), ("key_mask", Fill::Made(odd_keys_left_out))]),
        Case::new("garbage_in_masked_pairs", &[("b", 1), ("h", 2), ("bandwidths", 2), ("n", 18), ("m", 45), ("d", 8), ("e", 8), ("p", 8), ("mm", 45)], || with(1, 0))
            .without(&["key_mask"])
            .filled(&[BANDWIDTH, ("k", Fill::Made(garbage_keys)), ("v", Fill::Made(garbage_values)), ("mask", Fill::Made(odd_pairs_left_out))]),
        Case::new("all_underflow", &sizes(18, 40, 8, 8, 8), || with(1, 0)).without(NO_MASKS)
            .filled(&[("q", Fill::Uniform(-1.0, 1.0)), ("k", Fill::Uniform(500.0, 501.0)), BANDWIDTH]),
        Case::new("all_underflow_none", &sizes(18, 40, 8, 8, 8), || with(2, 1)).without(NO_MASKS)
            .filled(&[("k", Fill::Uniform(500.0, 501.0)), BANDWIDTH]),
        Case::new("far_apart", &sizes(18, 40, 8, 8, 8), || with(2, 0)).without(NO_MASKS)
            .filled(&[("q", Fill::Uniform(-1e18, 1e18)), ("k", Fill::Uniform(-1e18, 1e18)), BANDWIDTH]),
        // So many that sources for cards take their largest tiles.
        Case::new("many_heads", &[("b", 11), ("h", 24), ("bandwidths", 24), ("n", 9), ("m", 67), ("d", 4), ("e", 4), ("p", 4)], || with(1, 0))
            .without(NO_MASKS).filled(&[BANDWIDTH]),
        Case::new("softmax_1024", &[("b", 1), ("h", 8), ("bandwidths", 8), ("n", 1024), ("m", 1024), ("d", 64), ("e", 64), ("p", 64)], || {
            Params { scale: 0.125, ..Params::default() }.to_bytes()
        }).without(&["lambda", "key_mask", "mask"]).for_bench(),
        Case::new("laplacian_1024", &[("b", 1), ("h", 8), ("bandwidths", 8), ("n", 1024), ("m", 1024), ("d", 64), ("e", 64), ("p", 64)], || with(1, 0))
            .without(NO_MASKS).filled(&[("lambda", Fill::Value(16.0))]).for_bench(),
    ],
    vjp: None,
};
