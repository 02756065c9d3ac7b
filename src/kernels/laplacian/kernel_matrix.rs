//! The matrix of a distance kernel between tokens and landmarks, exponentiated as it is written.
//!
//! out[i, l] = e^(−D(xᵢ, y_l)/λ) with D the L1 distance (Laplacian) or the squared L2 distance (Gaussian).
//!
//! * `x` `[b, h, n, d]`, `y` `[b, h, m, d]`, `lambda` `[h]` > 0 in the units of D.
//! * `x_keep` (bytes) and `y_keep` (words): rows and columns with 0 give 0, whatever their coordinates hold.
//! * `square` = 1 for the landmarks' own matrix A = k(L, L) + ε I: the diagonal gets `diagonal` = ε, and a masked
//!   landmark an identity row and column, so that A stays invertible.
//! * `output` = 1 keeps the distances instead, so that a changed λ redoes only [`exp_scale`](crate::kernels).

use crate::error::Result;
use crate::graph::Graph;
use crate::kernel::tile::*;
use crate::kernel::wgsl_module::{EXP, GROUP, Shared, TEXELS};
use crate::kernel::*;
use crate::tensor::{DType, Dims, Tensor};
use crate::{cuda_shared, cuda_source, params, reference};

/// Number of the L1 metric in parameters; 2 is the squared L2 distance.
pub const LAPLACIAN: u32 = 1;
/// Number of the squared L2 metric in parameters.
pub const GAUSSIAN: u32 = 2;

params! {
    /// Parameters of [`SPEC`].
    pub struct Params {
        /// added on the diagonal of a square matrix (ε)
        live diagonal: f32 = 0.0,
        /// 1 = L1 distance (Laplacian), 2 = squared L2 distance (Gaussian)
        fixed metric: u32 = LAPLACIAN,
        /// 0 = kernel values, 1 = distances
        fixed output: u32 = 0,
        /// 1 = x is y: shift the diagonal, identity for masked landmarks
        fixed square: u32 = 0,
    }
}

/// Gaps and kernel values of the two distance kernels.
pub const DISTANCE: &Shared =
    &Shared { file: "laplacian/distance.wgsl", body: include_str!("../../../shaders/laplacian/distance.wgsl") };

/// Tokens in registers, and tokens that the threads of a subgroup load together.
pub const TOKEN: &Shared =
    &Shared { file: "laplacian/token.wgsl", body: include_str!("../../../shaders/laplacian/token.wgsl") };

/// What every variant does to a finished distance.
const KERNEL_MATRIX: &Shared = &Shared {
    file: "laplacian/kernel_matrix_common.wgsl",
    body: include_str!("../../../shaders/laplacian/kernel_matrix_common.wgsl"),
};

fn check(dims: &Dims, params: &[u8]) -> std::result::Result<(), String> {
    let p = Params::from_bytes(params);
    if !(LAPLACIAN..=GAUSSIAN).contains(&p.metric) || p.output > 1 || p.square > 1 {
        return Err(format!("metric is 1 or 2, output and square 0 or 1; got {}, {}, {}", p.metric, p.output, p.square));
    }
    if p.square == 1 && dims.size("n") != dims.size("m") {
        return Err(format!("a square matrix needs n = m, got {} and {}", dims.size("n"), dims.size("m")));
    }
    Ok(())
}

/// Distance of two points in the numbering of [`Params::metric`].
pub fn distance<T: Real>(metric: u32, x: &[T], y: &[T]) -> T {
    let gap = |(&a, &b): (&T, &T)| if metric == LAPLACIAN { (a - b).abs() } else { (a - b) * (a - b) };
    x.iter().zip(y).map(gap).sum()
}

/// Whether token `i` of a batch is kept by an optional mask port `[b, h, n]`.
pub fn kept<T: Real>(args: &HostArgs<T>, port: &str, batch: usize, i: usize) -> bool {
    args.words_if(port).is_none_or(|mask| mask[args.start(port, batch) + i] != 0)
}

fn reference<T: Real>(args: &mut HostArgs<T>) -> Result<()> {
    let p: Params = args.params();
    let (n, m, d, heads) = (args.dims.at("n"), args.dims.at("m"), args.dims.at("d"), args.dims.at("h"));
    let (x, y, lambda) = (args.real("x"), args.real("y"), args.real("lambda"));
    let shared = &*args;
    let out = reference::rows(args.dims.batches() as usize, n, m, |batch, i, line| {
        let row = &x[(batch * n + i) * d..][..d];
        for (l, value) in line.iter_mut().enumerate() {
            let kept = kept(shared, "x_keep", batch, i)
                && kept(shared, "y_keep", batch, l)
                && (p.square == 0 || kept(shared, "y_keep", batch, i));
            if kept {
                let sum = distance(p.metric, row, &y[(batch * m + l) * d..][..d]);
                *value = if p.output == 1 { sum } else { (-sum / lambda[batch % heads]).exp() };
            }
            if p.square == 1 && i == l {
                *value = if kept { *value } else { T::one() } + T::of(f64::from(p.diagonal));
            }
        }
    });
    args.set("out", out);
    Ok(())
}

fn pairs(d: &Dims) -> f64 {
    f64::from(d.size("n")) * f64::from(d.size("m")) * f64::from(d.size("d"))
}

/// The variant of a tile; a macro, because a list of variants holds functions and these cannot hold a tile.
macro_rules! tile {
    ($name:literal, $tile:ident, $preferred_on:expr) => {
        Variant {
            name: $name,
            file: "laplacian/kernel_matrix_tile.wgsl",
            body: include_str!("../../../shaders/laplacian/kernel_matrix_tile.wgsl"),
            shared: &[GROUP, EXP, DISTANCE, KERNEL_MATRIX],
            preferred_on: $preferred_on,
            classes: &[],
            vec4: &[],
            constants: |_| $tile.constants(),
            // Both operands are padded.
            suits: |_, _, caps| $tile.fits(caps, 2),
            grid: |d, batches| $tile.groups(batches, d.size("n"), d.size("m")),
            loads: |d, _| $tile.loads(pairs(d)),
            rounds: |d| 2 * u64::from(d.size("d")),
            subgroup_lanes: 0,
        }
    };
}

/// Rows in registers, landmarks through the constant cache.
const UNIFORM: Variant = Variant {
    name: "uniform",
    file: "laplacian/kernel_matrix_uniform.wgsl",
    body: include_str!("../../../shaders/laplacian/kernel_matrix_uniform.wgsl"),
    shared: &[GROUP, TEXELS, EXP, DISTANCE, KERNEL_MATRIX],
    preferred_on: &[Driver::Llvmpipe, Driver::SwiftShader],
    classes: &[("x", Class::Texture), ("y", Class::Uniform)],
    vec4: &["x", "y"],
    constants: |d| vec![("D4", Constant::U32(d.size("d") / 4))],
    suits: |d, _, _| {
        let words = u64::from(d.size("m")) * u64::from(d.size("d"));
        d.size("d") % 4 == 0 && (4..=64).contains(&d.size("d")) && words <= 16_384
    },
    grid: |d, batches| batches * u64::from(d.size("n").div_ceil(64)),
    loads: |d, _| Loads {
        texture: f64::from(d.size("n")) * f64::from(d.size("d")),
        uniform: pairs(d) / 2.0,
        ..Loads::default()
    },
    rounds: |d| u64::from(d.size("m")),
    subgroup_lanes: 0,
};

static VARIANTS: &[Variant] = &[
    tile!("tile64", TILE64, &[Driver::Gpu]),
    tile!("tile64_shallow", TILE64_SHALLOW, &[Driver::Gpu]),
    Variant {
        name: "broadcast",
        file: "laplacian/kernel_matrix_broadcast.wgsl",
        body: include_str!("../../../shaders/laplacian/kernel_matrix_broadcast.wgsl"),
        shared: &[GROUP, TEXELS, EXP, DISTANCE, TOKEN, KERNEL_MATRIX],
        preferred_on: &[Driver::Llvmpipe],
        grid: |d, batches| batches * u64::from(d.size("n").div_ceil(32)),
        // Eight threads with four rows each load a landmark once, in vectors of eight lanes.
        loads: |d, _| Loads {
            texture: f64::from(d.size("n")) * f64::from(d.size("d")),
            uniform: f64::from(d.size("n").div_ceil(32)) * f64::from(d.size("m")) * 32.0 * f64::from(d.size("d").div_ceil(32)),
            ..Loads::default()
        },
        subgroup_lanes: 8,
        ..UNIFORM
    },
    UNIFORM,
    Variant {
        name: "plain",
        file: "laplacian/kernel_matrix_plain.wgsl",
        body: include_str!("../../../shaders/laplacian/kernel_matrix_plain.wgsl"),
        shared: &[GROUP, EXP, DISTANCE, KERNEL_MATRIX],
        preferred_on: &[Driver::Llvmpipe, Driver::SwiftShader],
        classes: &[],
        vec4: &[],
        constants: no_constants,
        suits: always,
        grid: |d, batches| {
            let blocks = u64::from(d.size("n").div_ceil(4)) * u64::from(d.size("m").div_ceil(4));
            batches * blocks.div_ceil(64)
        },
        loads: |d, _| Loads { storage: pairs(d) / 2.0, ..Loads::default() },
        rounds: |d| u64::from(d.size("d")),
        subgroup_lanes: 0,
    },
    // No device's first choice: tuning takes them where they are quicker.
    tile!("tile128x64", TILE128X64, &[]),
    tile!("tile32", TILE32, &[]),
];

const NO_MASKS: &[&str] = &["x_keep", "y_keep"];
const WIDE: &[(&str, Fill)] = &[("lambda", Fill::Uniform(2.0, 6.0))];

fn gaussian() -> Vec<u8> {
    Params { metric: GAUSSIAN, ..Params::default() }.to_bytes()
}

/// Blocks that give each multiprocessor of a large card two of them; sources make smaller tiles where larger ones would be fewer.
pub(crate) const FILLED: u64 = 264;

/// Rows and columns of a block in CUDA: 8 × 8 or 4 × 8 pairs a thread, 4 columns for few landmarks.
fn cuda_tile(d: &Dims) -> (u32, u32) {
    let cols = if d.size("m") <= 32 { 32 } else { 64 };
    if cuda_blocks(d, 128, cols) < FILLED { (64, cols) } else { (128, cols) }
}

fn cuda_blocks(d: &Dims, rows: u32, cols: u32) -> u64 {
    d.batches() * u64::from(d.size("n").div_ceil(rows)) * u64::from(d.size("m").div_ceil(cols))
}

/// Coordinates word by word, or in fours.
const fn in_cuda<const FOURS: bool>() -> cuda::Source {
    cuda::Source {
        constants: |d| {
            let (rows, cols) = cuda_tile(d);
            vec![("ROWS", Constant::U32(rows)), ("COLS", Constant::U32(cols)), ("FOURS", Constant::Bool(FOURS))]
        },
        ..cuda_source!("laplacian/kernel_matrix.cu", 128, |d, _| {
            let (rows, cols) = cuda_tile(d);
            cuda_blocks(d, rows, cols)
        })
        .with(&[
            cuda::EXP,
            cuda_shared!("shared/divide.cuh"),
            cuda::ASYNC,
            cuda_shared!("shared/pairs.cuh"),
        ])
    }
}

/// The kernel's description.
pub static SPEC: KernelSpec = KernelSpec {
    name: "kernel_matrix",
    family: "laplacian",
    formula: "out[i,l] = exp(−‖xᵢ − y_l‖₁/λ), or exp(−‖xᵢ − y_l‖²/λ)",
    source: "LaplacianFormer (arXiv 2604.20368), kernel; SOFT for the Gaussian",
    ports: &[
        Port::read("x", &["b", "h", "n", "d"]),
        Port::read("y", &["b", "h", "m", "d"]),
        Port::read("lambda", &["h"]).positive(),
        Port::read("x_keep", &["b", "h", "n"]).of(DType::U8).broadcast().optional(),
        Port::read("y_keep", &["b", "h", "m"]).of(DType::U32).broadcast().optional(),
        Port::write("out", &["b", "h", "n", "m"]),
    ],
    params: Params::FIELDS,
    defaults: Params::default_bytes,
    output_dims: None,
    check,
    wgpu: OnWgpu::Shader(VARIANTS),
    cuda: OnCuda::Source(&[cuda::Source { name: "vec4", vec4: &["x", "y"], ..in_cuda::<true>() }, in_cuda::<false>()]),
    reference: reference!(reference),
    // A square matrix compares row and column numbers, so its rows are not cut.
    window: |_, params| if Params::from_bytes(params).square == 0 { vec![("n", 1)] } else { Vec::new() },
    cost: |d, params| {
        let batches = d.batches() as f64;
        let (n, m, c) = (f64::from(d.size("n")), f64::from(d.size("m")), f64::from(d.size("d")));
        let exp = if Params::from_bytes(params).output == 0 { n * m } else { 0.0 };
        Cost {
            flop: batches * 2.0 * pairs(d),
            differences: if Params::from_bytes(params).metric == LAPLACIAN { batches * pairs(d) } else { 0.0 },
            exp: batches * exp,
            stores: batches * n * m,
            bytes: 4.0 * batches * (n * c + m * c + n * m),
        }
    },
    tolerance: Tolerance::SUMS,
    cases: &[
        Case::new("smallest", &[("b", 1), ("h", 1), ("n", 1), ("m", 1), ("d", 1)], Params::default_bytes).without(NO_MASKS).filled(WIDE),
        Case::new("odd", &[("b", 2), ("h", 3), ("n", 37), ("m", 13), ("d", 7)], Params::default_bytes).filled(WIDE),
        Case::new("whole_vectors", &[("b", 2), ("h", 2), ("n", 65), ("m", 49), ("d", 32)], Params::default_bytes).without(NO_MASKS).filled(WIDE),
        Case::new("wide_heads", &[("b", 1), ("h", 1), ("n", 63), ("m", 64), ("d", 64)], Params::default_bytes).without(&["y_keep"]).filled(WIDE).shared(&["x_keep"]),
        Case::new("tile_plus_one", &[("b", 1), ("h", 1), ("n", 65), ("m", 66), ("d", 17)], Params::default_bytes).without(NO_MASKS).filled(WIDE),
        Case::new("gaussian", &[("b", 1), ("h", 2), ("n", 50), ("m", 20), ("d", 12)], gaussian).without(NO_MASKS).filled(WIDE),
        Case::new("square_masked", &[("b", 1), ("h", 2), ("n", 21), ("m", 21), ("d", 8)], || {
            Params { diagonal: 0.01, square: 1, ..Params::default() }.to_bytes()
        }).without(&["x_keep"]).filled(&[("lambda", Fill::Value(4.0)), ("y_keep", Fill::Below(2))]),
        Case::new("distances", &[("b", 1), ("h", 1), ("n", 30), ("m", 10), ("d", 20)], || {
            Params { output: 1, ..Params::default() }.to_bytes()
        }).without(NO_MASKS).filled(WIDE),
        Case::new("far_apart", &[("b", 1), ("h", 1), ("n", 9), ("m", 5), ("d", 4)], Params::default_bytes).without(NO_MASKS)
            .filled(&[("lambda", Fill::Value(0.5)), ("x", Fill::Uniform(-1e18, 1e18))]),
        // So many that sources for cards take their largest tiles.
        Case::new("many_heads", &[("b", 11), ("h", 24), ("n", 9), ("m", 35), ("d", 4)], Params::default_bytes).without(NO_MASKS).filled(WIDE),
        Case::new("no_rows", &[("b", 1), ("h", 1), ("n", 0), ("m", 5), ("d", 4)], Params::default_bytes).without(NO_MASKS).filled(WIDE),
        Case::new("tokens_3136x49", &[("b", 1), ("h", 8), ("n", 3136), ("m", 49), ("d", 32)], Params::default_bytes).without(NO_MASKS)
            .filled(&[("lambda", Fill::Value(32.0))]).for_bench(),
        Case::new("tokens_16384x256", &[("b", 1), ("h", 1), ("n", 16_384), ("m", 256), ("d", 64)], Params::default_bytes).without(NO_MASKS)
            .filled(&[("lambda", Fill::Value(64.0))]).for_bench(),
    ],
    vjp: None,
};

/// Tensors of a kernel matrix; see the module.
#[derive(Clone, Copy, Debug)]
pub struct Inputs {
    /// Rows.
    pub x: Tensor,
    /// Columns.
    pub y: Tensor,
    /// Bandwidth per head.
    pub lambda: Tensor,
    /// Rows to keep.
    pub x_keep: Option<Tensor>,
    /// Columns to keep.
    pub y_keep: Option<Tensor>,
}

/// Records the matrix into a new transient `[b, h, n, m]`.
///
/// Errors: shapes that do not fit, with the caller's place.
#[track_caller]
pub fn record(graph: &mut Graph, name: &str, inputs: Inputs, params: Params) -> Result<Tensor> {
    let Inputs { x, y, lambda, x_keep, y_keep } = inputs;
    let out = graph.transient(name, [x.dim(0), x.dim(1), x.dim(2), y.dim(2)], DType::F32);
    graph.pass(&SPEC, &params, &[Some(x), Some(y), Some(lambda), x_keep, y_keep, Some(out)])?;
    Ok(out)
}
