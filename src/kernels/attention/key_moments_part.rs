//! Mean and squared deviations over a range of queries of every key's kernel values; ranges follow one another.
//!
//! x = Gᵢⱼ − `row_shift`ᵢ over the kept queries i of this range and of all ranges before it.
//!
//! * `q` `[b, h, n, d]`, `k` `[b, h, m, d]`, `lambda` `[h]` or `[1]`, > 0 (not needed by softmax).
//! * `query_mask` `[b, h, n]`: 0 leaves a query out, whatever it holds; may be shared by heads.
//! * `row_shift` `[b, h, n, w]`: the first number of each row; so moments of rows can be given as they are.
//! * `before` `[b, h, m, 3]`: mean, sum of squared deviations and number of queries so far; left out for the first range.
//! * `moments` `[b, h, m, p]`: with p = 3 the same after this range, with p = 2 the end: mean and variance, 0 for no query.
//!
//! The n × m matrix exists nowhere. Deviations are taken from a running mean, never from sums of squares.

use super::attention_rows::{self, Operands, PAIR};
use super::key_moments::moments;
use crate::error::Result;
use crate::kernel::wgsl_module::{EXP, GROUP, Shared};
use crate::kernel::*;
use crate::kernels::laplacian::kernel_matrix::FILLED;
use crate::{cuda_source, params, reference};
use crate::tensor::{DType, Dims, HostData};

params! {
    /// Parameters of [`SPEC`].
    pub struct Params {
        /// factor of the product q·k (softmax only)
        live scale: f32 = 1.0,
        /// exponent of a pair: 0 softmax scale·q·k, 1 Laplacian −‖q−k‖₁/λ, 2 Gaussian −‖q−k‖²/λ
        fixed metric: u32 = 1,
    }
}

const MOMENTS: &Shared =
    &Shared { file: "attention/moments.wgsl", body: include_str!("../../../shaders/attention/moments.wgsl") };

fn check(dims: &Dims, params: &[u8]) -> std::result::Result<(), String> {
    let p = Params::from_bytes(params);
    attention_rows::check_choices(p.metric, 0)?;
    attention_rows::check_bandwidths(dims, p.metric)?;
    if !(2..=3).contains(&dims.size("p")) {
        return Err(format!("moments [b, h, m, p] are (mean, variance) or (mean, squares, count), got p = {}", dims.size("p")));
    }
    if dims.find("w") == Some(0) {
        return Err("row_shift [b, h, n, w] has no column; wants w ≥ 1".into());
    }
    Ok(())
}

fn reference<T: Real>(args: &mut HostArgs<T>) -> Result<()> {
    let p: Params = args.params();
    let operands = Operands::of(args, p.metric, p.scale);
    let (query_mask, row_shift, before) = (args.words_if("query_mask"), args.real_if("row_shift"), args.real_if("before"));
    let [n, m, w, columns] = ["n", "m", "w", "p"].map(|name| args.dims.at(name));
    let shared = &*args;
    let out = reference::rows(args.dims.batches() as usize, m, columns, |batch, j, line| {
        let kept = |i: &usize| query_mask.as_ref().is_none_or(|q| q[shared.start("query_mask", batch) + i] != 0);
        let shift = |i: usize| row_shift.as_ref().map_or(T::zero(), |r| r[(batch * n + i) * w]);
        let value = |i: usize| operands.exponent(&shared.dims, batch, i, j).exp() - shift(i);
        let values: Vec<T> = (0..n).filter(kept).map(value).collect();
        let count = T::of(values.len() as f64);
        let (mut mean, variance) = moments(&values);
        let (mut squares, mut taken) = (variance * count, count);
        if let Some(state) = before.as_ref().map(|b| &b[(batch * m + j) * 3..][..3]).filter(|s| s[2] > T::zero()) {
            taken += state[2];
            let apart = mean - state[0];
            mean = state[0] + apart * count / taken;
            squares += state[1] + apart * apart * state[2] * count / taken;
        }
        line[0] = mean;
        if columns == 2 {
            line[1] = squares / taken.max(T::one());
        } else {
            (line[1], line[2]) = (squares, taken);
        }
    });
    args.set("moments", out);
    Ok(())
}

fn pairs(dims: &Dims) -> f64 {
    f64::from(dims.size("n")) * f64::from(dims.size("m"))
}

/// Work of all pairs.
pub(super) fn cost(d: &Dims) -> Cost {
    let batches = d.batches() as f64;
    let [n, m, depth] = ["n", "m", "d"].map(|name| f64::from(d.size(name)));
    Cost {
        flop: batches * pairs(d) * (2.0 * depth + 5.0),
        exp: batches * pairs(d),
        stores: 2.0 * batches * m,
        bytes: 4.0 * batches * ((n + m) * depth + 2.0 * m),
        ..Cost::default()
    }
}

const fn variant(name: &'static str, file: &'static str, body: &'static str) -> Variant {
    Variant {
        name,
        file,
        body,
        shared: &[GROUP, EXP, PAIR, MOMENTS],
        preferred_on: &[Driver::Llvmpipe, Driver::SwiftShader],
        classes: &[],
        vec4: &[],
        constants: no_constants,
        suits: always,
        grid: |d, batches| batches * u64::from(d.size("m").div_ceil(64)),
        loads: |d, _| Loads { storage: 1.25 * pairs(d) * f64::from(d.size("d")), ..Loads::default() },
        rounds: |d| u64::from(d.size("n")) * (2 + u64::from(d.size("d").div_ceil(4))),
        subgroup_lanes: 0,
    }
}

pub(super) static VARIANTS: &[Variant] = &[
    Variant {
        preferred_on: &[Driver::Gpu],
        suits: |_, _, caps| caps.workgroup_bytes >= 6_656,
        loads: |d, _| {
            let words = pairs(d) * f64::from(d.size("d"));
            Loads { storage: words * (1.0 / 64.0 + 1.0 / 32.0), workgroup: words * 12.0 / 32.0, ..Loads::default() }
        },
        ..variant(
            "tile",
            "attention/key_moments_part_tile.wgsl",
            include_str!("../../../shaders/attention/key_moments_part_tile.wgsl"),
        )
    },
    Variant {
        classes: &[("q", Class::Texture), ("k", Class::Texture)],
        vec4: &["q", "k"],
        constants: |d| vec![("HELD", Constant::U32((d.size("d") / 4).min(16)))],
        suits: |d, _, _| d.size("d") % 4 == 0 && d.size("d") > 0,
        grid: |d, batches| batches * u64::from(d.size("m").div_ceil(16)),
        loads: |d, _| Loads { texture: pairs(d) / 2.0 * f64::from(d.size("d")), ..Loads::default() },
        ..variant(
            "texture",
            "attention/key_moments_part_texture.wgsl",
            include_str!("../../../shaders/attention/key_moments_part_texture.wgsl"),
        )
    },
    variant(
        "plain",
        "attention/key_moments_part_plain.wgsl",
        include_str!("../../../shaders/attention/key_moments_part_plain.wgsl"),
    ),
];

const fn sizes(n: u32, m: u32, d: u32, p: u32) -> [(&'static str, u32); 8] {
    [("b", 2), ("h", 2), ("bandwidths", 2), ("n", n), ("m", m), ("d", d), ("w", 2), ("p", p)]
}

const LAPLACIAN: fn() -> Vec<u8> = || Params { metric: 1, scale: 1.0 }.to_bytes();
const GAUSSIAN: fn() -> Vec<u8> = || Params { metric: 2, scale: 1.0 }.to_bytes();
const SOFTMAX: fn() -> Vec<u8> = || Params { metric: 0, scale: 0.25 }.to_bytes();
const BANDWIDTH: (&str, Fill) = ("lambda", Fill::Uniform(1.0, 4.0));
const BARE: &[&str] = &["query_mask", "row_shift", "before"];
const STATE: (&str, Fill) = ("before", Fill::Made(states));

/// Moments of some queries that came before; every fifth key has met none.
fn states(dims: &Dims) -> HostData {
    let keys = dims.batches() as usize * dims.at("m");
    let state = |key: usize| match key % 5 {
        4 => [0.0; 3],
        rest => [0.05 * rest as f32 + 0.1, 0.3 + (key % 7) as f32, 10.0 + (key % 11) as f32],
    };
    HostData::F32((0..keys).flat_map(state).collect())
}

/// Every second query is left out and holds garbage.
fn garbage_queries(dims: &Dims) -> HostData {
    let (n, d) = (dims.at("n"), dims.at("d"));
    let number = |i: usize| if i / d % n % 2 == 1 { f32::NAN } else { ((i * 37) % 101) as f32 / 50.0 - 1.0 };
    HostData::F32((0..dims.batches() as usize * n * d).map(number).collect())
}

fn odd_queries_left_out(dims: &Dims) -> HostData {
    let n = dims.at("n");
    HostData::U8((0..dims.batches() as usize * n).map(|i| u8::from((i % n).is_multiple_of(2))).collect())
}

/// Keys of a block in CUDA.
fn cuda_rows(d: &Dims) -> u32 {
    if cuda_blocks(d, 64) < FILLED { 32 } else { 64 }
}

fn cuda_blocks(d: &Dims, rows: u32) -> u64 {
    d.batches() * u64::from(d.size("m").div_ceil(rows))
}

/// Coordinates word by word, or in fours.
const fn in_cuda<const FOURS: bool>() -> cuda::Source {
    cuda::Source {
        constants: |d| {
            let stay = Constant::Bool(d.size("d") <= 64);
            vec![("ROWS", Constant::U32(cuda_rows(d))), ("STAY", stay), ("FOURS", Constant::Bool(FOURS))]
        },
        ..cuda_source!("attention/key_moments_part.cu", 128, |d, _| cuda_blocks(d, cuda_rows(d)))
            .with(attention_rows::CUDA_PAIR)
    }
}

/// The kernel's description.
pub static SPEC: KernelSpec = KernelSpec {
    name: "key_moments_part",
    family: "attention",
    formula: "mean = meanᵢ(Gᵢⱼ − rᵢ), squares = Σᵢ(Gᵢⱼ − rᵢ − mean)², over this range of queries and those before",
    source: "Chan, Golub and LeVeque 1983",
    ports: &[
        Port::read("q", &["b", "h", "n", "d"]),
        Port::read("k", &["b", "h", "m", "d"]),
        Port::read("lambda", &["bandwidths"]).positive().optional(),
        Port::read("query_mask", &["b", "h", "n"]).of(DType::U8).broadcast().optional(),
        Port::read("row_shift", &["b", "h", "n", "w"]).optional(),
        Port::read("before", &["b", "h", "m", "3"]).optional(),
        Port::write("moments", &["b", "h", "m", "p"]),
    ],
    params: Params::FIELDS,
    defaults: Params::default_bytes,
    output_dims: None,
    check,
    wgpu: OnWgpu::Shader(VARIANTS),
    cuda: OnCuda::Source(&[cuda::Source { name: "vec4", vec4: &["q", "k"], ..in_cuda::<true>() }, in_cuda::<false>()]),
    reference: reference!(reference),
    window: |_, _| vec![("m", 1)],
    cost: |d, _| cost(d),
    tolerance: Tolerance::SUMS,
    cases: &[
        Case::new("smallest", &[("b", 1), ("h", 1), ("bandwidths", 1), ("n", 1), ("m", 1), ("d", 1), ("p", 2)], LAPLACIAN)
            .without(BARE).filled(&[BANDWIDTH]),
        Case::new("odd", &sizes(37, 21, 7, 3), LAPLACIAN).without(BARE).filled(&[BANDWIDTH]),
        Case::new("continued", &sizes(37, 21, 7, 3), LAPLACIAN).without(&["query_mask", "row_shift"]).filled(&[BANDWIDTH, STATE]),
        Case::new("ended", &sizes(65, 70, 12, 2), GAUSSIAN).filled(&[BANDWIDTH, STATE]),
        Case::new("gaussian_shifted", &sizes(65, 65, 12, 2), GAUSSIAN).without(&["before"]).filled(&[BANDWIDTH]),
        Case::new("softmax", &sizes(31, 63, 33, 2), SOFTMAX).without(&["lambda", "query_mask", "before"]),
        Case::new("deep_texels", &sizes(33, 70, 132, 3), LAPLACIAN).without(&["row_shift"])
            .filled(&[("lambda", Fill::Uniform(20.0, 40.0)), STATE]).shared(&["query_mask"]),
        Case::new("nearly_equal_values", &sizes(300, 20, 4, 2), LAPLACIAN).without(BARE).filled(&[("lambda", Fill::Uniform(3e3, 4e3))]),
        Case::new("garbage_in_masked_queries", &sizes(37, 21, 8, 2), LAPLACIAN).without(&["row_shift", "before"])
            .filled(&[BANDWIDTH, ("q", Fill::Made(garbage_queries)), ("query_mask", Fill::Made(odd_queries_left_out))]),
        Case::new("all_masked", &sizes(37, 21, 8, 2), LAPLACIAN).without(&["before"]).filled(&[BANDWIDTH, ("query_mask", Fill::Value(0.0))]),
        Case::new("nothing_new", &sizes(37, 21, 8, 3), LAPLACIAN).filled(&[BANDWIDTH, STATE, ("query_mask", Fill::Value(0.0))]),
        // So many that sources for cards take their largest tiles.
        Case::new("many_heads", &[("b", 11), ("h", 24), ("bandwidths", 24), ("n", 67), ("m", 9), ("d", 4), ("w", 2), ("p", 3)], LAPLACIAN)
            .filled(&[BANDWIDTH, STATE]),
        Case::new("no_query", &sizes(0, 21, 8, 2), LAPLACIAN).filled(&[BANDWIDTH, STATE]),
        Case::new("no_key", &sizes(5, 0, 8, 2), LAPLACIAN).without(&["before"]).filled(&[BANDWIDTH]),
    ],
    vjp: None,
};
