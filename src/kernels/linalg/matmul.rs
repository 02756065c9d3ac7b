//! Batched matrix product with transposes and a fused epilogue.
//!
//! out = α op(A) op(W) + β R + 1 biasᵀ + γ I, where op is the identity or the transpose.
//!
//! * `a` `[b, h, n, k]` (or `[b, h, k, n]` transposed), `w` `[b, h, k, p]` (or `[b, h, p, k]`); either may be shared by all
//!   heads (`b` or `h` = 1).
//! * `residual` `[b, h, n, p]` and `bias` `[b, h, p]` may be left out.

use crate::error::Result;
use crate::graph::{Graph, PassId};
use crate::kernel::tile::*;
use crate::kernel::wgsl_module::{GROUP, Shared, TEXELS};
use crate::kernel::*;
use crate::params;
use crate::reference;
use crate::tensor::{DType, Dims, Tensor};

params! {
    /// Parameters of [`SPEC`].
    pub struct Params {
        /// α, factor of the product
        live alpha: f32 = 1.0,
        /// β, factor of the residual
        live beta: f32 = 1.0,
        /// γ, added on the diagonal of the result
        live identity: f32 = 0.0,
        /// 1 to use A transposed
        fixed transpose_a: u32 = 0,
        /// 1 to use W transposed
        fixed transpose_w: u32 = 0,
    }
}

/// What every variant does to a finished sum.
const MATMUL_EPILOGUE: &Shared = &Shared {
    file: "linalg/matmul_epilogue.wgsl",
    body: include_str!("../../../shaders/linalg/matmul_epilogue.wgsl"),
};

fn depth(dims: &Dims, p: &Params) -> (u32, u32, u32, u32) {
    let (ar, ac, wr, wc) = (dims.size("ar"), dims.size("ac"), dims.size("wr"), dims.size("wc"));
    let (rows, inner) = if p.transpose_a == 0 { (ar, ac) } else { (ac, ar) };
    let (other, cols) = if p.transpose_w == 0 { (wr, wc) } else { (wc, wr) };
    (rows, inner, other, cols)
}

fn check(dims: &Dims, params: &[u8]) -> std::result::Result<(), String> {
    let p = Params::from_bytes(params);
    if p.transpose_a > 1 || p.transpose_w > 1 {
        return Err(format!("transpose_a and transpose_w are 0 or 1, got {} and {}", p.transpose_a, p.transpose_w));
    }
    let (rows, inner, other, cols) = depth(dims, &p);
    let (n, out) = (dims.size("n"), dims.size("p"));
    if inner != other || rows != n || cols != out {
        return Err(format!("[{rows}, {inner}] times [{other}, {cols}] does not give [{n}, {out}]"));
    }
    Ok(())
}

fn reference<T: Real>(args: &mut HostArgs<T>) -> Result<()> {
    let p: Params = args.params();
    let (n, inner, _, cols) = depth(&args.dims, &p);
    let (n, inner, cols) = (n as usize, inner as usize, cols as usize);
    let (a, w) = (args.real("a"), args.real("w"));
    let (ac, wc) = (args.dims.at("ac"), args.dims.at("wc"));
    let (residual, bias) = (args.real_if("residual"), args.real_if("bias"));
    let [alpha, beta, identity] = [p.alpha, p.beta, p.identity].map(|x| T::of(f64::from(x)));
    let batches = args.dims.batches() as usize;
    let shared = &*args;
    let out = reference::rows(batches, n, cols, |batch, i, line| {
        let (a0, w0) = (shared.start("a", batch), shared.start("w", batch));
        for k in 0..inner {
            let x = if p.transpose_a == 0 { a[a0 + i * ac + k] } else { a[a0 + k * ac + i] };
            for (j, y) in line.iter_mut().enumerate() {
                *y += x * if p.transpose_w == 0 { w[w0 + k * wc + j] } else { w[w0 + j * wc + k] };
            }
        }
        for (j, y) in line.iter_mut().enumerate() {
            *y *= alpha;
            if let Some(r) = &residual {
                *y += beta * r[shared.start("residual", batch) + i * cols + j];
            }
            if let Some(c) = &bias {
                *y += c[shared.start("bias", batch) + j];
            }
            if i == j {
                *y += identity;
            }
        }
    });
    args.set("out", out);
    Ok(())
}

/// The operands' inner dimension, or more.
fn depth_bound(dims: &Dims) -> u64 {
    u64::from(dims.size("ac").max(dims.size("ar")).min(dims.size("wr").max(dims.size("wc"))))
}

fn flop(dims: &Dims) -> f64 {
    let inner = if dims.size("ar") == dims.size("n") { dims.size("ac") } else { dims.size("ar") };
    f64::from(dims.size("n")) * f64::from(inner) * f64::from(dims.size("p"))
}

/// The variant of a tile; a macro, because a list of variants holds functions and these cannot hold a tile.
macro_rules! tile {
    ($name:literal, $tile:ident, $preferred_on:expr) => {
        Variant {
            name: $name,
            file: "linalg/matmul_tile.wgsl",
            body: include_str!("../../../shaders/linalg/matmul_tile.wgsl"),
            shared: &[GROUP, MATMUL_EPILOGUE],
            preferred_on: $preferred_on,
            classes: &[],
            vec4: &[],
            constants: |_| $tile.constants(),
            // A is padded.
            suits: |_, _, caps| $tile.fits(caps, 1),
            grid: |d, batches| $tile.groups(batches, d.size("n"), d.size("p")),
            loads: |d, _| $tile.loads(flop(d)),
            rounds: |d| 2 * depth_bound(d),
            subgroup_lanes: 0,
        }
    };
}

/// Untransposed operands, and enough work to pay for the copies.
fn suits_texture(d: &Dims, params: &[u8]) -> bool {
    let p = Params::from_bytes(params);
    let work = d.batches() as f64 * flop(d);
    p.transpose_a == 0 && p.transpose_w == 0 && d.size("n") >= 8 && d.size("p") >= 8 && work >= 32_768.0
}

/// How many of a group's 8 threads lie side by side (the others below them), each with 8 x 8 sums, so that `cols` columns
/// waste few. The rows do not decide: a window may have fewer than the whole.
pub(crate) fn col_lanes(cols: u32) -> u32 {
    match cols {
        0..=8 => 1,
        9..=16 => 2,
        _ if (1..=32).contains(&(cols % 64)) => 4,
        _ => 8,
    }
}

/// Groups that cover `rows` x `cols`.
pub(crate) fn texel_tiles(rows: u32, cols: u32) -> u64 {
    let lanes = col_lanes(cols);
    u64::from(cols.div_ceil(8 * lanes)) * u64::from(rows.div_ceil(64 / lanes))
}

/// The texture path: rows of A and of W are whole texels, or are shifted into place.
const fn texture(name: &'static str, a_whole: bool, w_whole: bool) -> Variant {
    Variant {
        name,
        file: "linalg/matmul_texture.wgsl",
        body: include_str!("../../../shaders/linalg/matmul_texture.wgsl"),
        shared: &[GROUP, TEXELS, MATMUL_EPILOGUE],
        preferred_on: &[Driver::Llvmpipe, Driver::SwiftShader],
        classes: &[("a", Class::Texture), ("w", Class::Texture)],
        vec4: match (a_whole, w_whole) {
            (true, _) => &["a", "w"],
            (false, true) => &["w"],
            (false, false) => &[],
        },
        constants: match (a_whole, w_whole) {
            (true, _) => |d| texture_constants(d, true, true),
            (false, true) => |d| texture_constants(d, false, true),
            (false, false) => |d| texture_constants(d, false, false),
        },
        suits: match (a_whole, w_whole) {
            (true, _) => |d, params, _| suits_texture(d, params) && d.size("ac") % 4 == 0 && d.size("wc") % 4 == 0,
            (false, true) => |d, params, _| suits_texture(d, params) && d.size("wc") % 4 == 0,
            (false, false) => |d, params, _| suits_texture(d, params),
        },
        grid: |d, batches| batches * texel_tiles(d.size("n"), d.size("p")),
        loads: if w_whole {
            // Per four steps of the inner dimension: 8 texels of A and 8 of W for 8 x 8 sums.
            |d, _| Loads { texture: flop(d) * 64.0 / 256.0, many_sums: 2.0 * flop(d), ..Loads::default() }
        } else {
            |d, _| Loads { texture: flop(d) * 80.0 / 256.0, many_sums: 2.0 * flop(d), ..Loads::default() }
        },
        rounds: |d| depth_bound(d) / 4 + 1,
        subgroup_lanes: 0,
    }
}

fn texture_constants(d: &Dims, a_whole: bool, w_whole: bool) -> Vec<(&'static str, Constant)> {
    vec![
        ("A_WHOLE", Constant::Bool(a_whole)),
        ("W_WHOLE", Constant::Bool(w_whole)),
        ("COL_LANES", Constant::U32(col_lanes(d.size("p")))),
    ]
}

/// Whether columns waste less as tiles of 64 than of 32, which take 20 : 11 of the time.
fn is_wide(cols: u32) -> bool {
    20 * cols.div_ceil(64) <= 11 * cols.div_ceil(32)
}

/// Multiply-adds from which on 32 rows to a tile, a sixth faster than 16, are worth twice the time to compile them.
const LARGE: f64 = 1e8;

fn suits_broadcast(d: &Dims, params: &[u8]) -> bool {
    suits_texture(d, params) && d.size("n") > 8 && d.size("p") > 16
}

fn suits_whole(d: &Dims, params: &[u8]) -> bool {
    suits_broadcast(d, params) && d.size("ac").is_multiple_of(4) && d.size("wc").is_multiple_of(4)
}

/// Texels as for [`texture`], but those of A by way of subgroups, for `blocks` times eight rows: rows of A and of W are whole texels,
/// or are shifted into place.
const fn broadcast(
    name: &'static str,
    vec4: &'static [&'static str],
    constants: fn(&Dims) -> Vec<(&'static str, Constant)>,
    suits: fn(&Dims, &[u8], &Caps) -> bool,
    grid: fn(&Dims, u64) -> u64,
    loads: fn(&Dims, &[u8]) -> Loads,
) -> Variant {
    Variant {
        name,
        file: "linalg/matmul_broadcast.wgsl",
        body: include_str!("../../../shaders/linalg/matmul_broadcast.wgsl"),
        shared: &[GROUP, TEXELS, MATMUL_EPILOGUE],
        preferred_on: &[Driver::Llvmpipe],
        classes: &[("a", Class::Texture), ("w", Class::Texture)],
        vec4,
        constants,
        suits,
        grid,
        loads,
        rounds: |d| depth_bound(d) / 4 + 1,
        subgroup_lanes: 8,
    }
}

fn broadcast_constants(d: &Dims, blocks: u32, a_whole: bool, w_whole: bool) -> Vec<(&'static str, Constant)> {
    vec![
        ("A_WHOLE", Constant::Bool(a_whole)),
        ("W_WHOLE", Constant::Bool(w_whole)),
        ("WIDE", Constant::Bool(is_wide(d.size("p")))),
        ("BLOCKS", Constant::U32(blocks)),
    ]
}

fn broadcast_grid(d: &Dims, batches: u64, blocks: u32) -> u64 {
    let columns = if is_wide(d.size("p")) { 64 } else { 32 };
    batches * u64::from(d.size("n").div_ceil(8 * blocks)) * u64::from(d.size("p").div_ceil(columns))
}

/// Per four steps of the inner dimension and group of eight threads: a texel of A per block and thread; of W four times one or two per
/// thread, and one more each where they are shifted.
fn broadcast_loads(d: &Dims, blocks: u32, a_whole: bool, w_whole: bool) -> Loads {
    let texels = 4 * (if is_wide(d.size("p")) { 2 } else { 1 } + u32::from(!w_whole)) + blocks;
    let rounds = depth_bound(d).div_ceil(4) as f64 * broadcast_grid(d, 1, blocks) as f64;
    let columns = if is_wide(d.size("p")) { 64 } else { 32 };
    let covered = f64::from(2 * 4 * columns * 8 * blocks) * rounds;
    // Nine selections put a texel's words into place, eight more end a row of A.
    let shifts = if w_whole { 0 } else { 4 * 9 * columns / 32 } + if a_whole { 0 } else { 17 * blocks };
    Loads {
        texture: 32.0 * f64::from(texels) * rounds,
        many_sums: covered,
        padding: covered + 8.0 * f64::from(shifts) * rounds - 2.0 * flop(d),
        ..Loads::default()
    }
}

static VARIANTS: &[Variant] = &[
    tile!("tile64", TILE64, &[Driver::Gpu]),
    tile!("tile64_shallow", TILE64_SHALLOW, &[Driver::Gpu]),
    broadcast(
        "broadcast_32",
        &["a", "w"],
        |d| broadcast_constants(d, 4, true, true),
        |d, params, _| suits_whole(d, params) && d.batches() as f64 * flop(d) >= LARGE,
        |d, batches| broadcast_grid(d, batches, 4),
        |d, _| broadcast_loads(d, 4, true, true),
    ),
    broadcast(
        "broadcast",
        &["a", "w"],
        |d| broadcast_constants(d, 2, true, true),
        |d, params, _| suits_whole(d, params),
        |d, batches| broadcast_grid(d, batches, 2),
        |d, _| broadcast_loads(d, 2, true, true),
    ),
    broadcast(
        "broadcast_shift_a",
        &["w"],
        |d| broadcast_constants(d, 2, false, true),
        |d, params, _| suits_broadcast(d, params) && d.size("wc") % 4 == 0,
        |d, batches| broadcast_grid(d, batches, 2),
        |d, _| broadcast_loads(d, 2, false, true),
    ),
    broadcast(
        "broadcast_shift",
        &[],
        |d| broadcast_constants(d, 2, false, false),
        |d, params, _| suits_broadcast(d, params),
        |d, batches| broadcast_grid(d, batches, 2),
        |d, _| broadcast_loads(d, 2, false, false),
    ),
    texture("texture", true, true),
    texture("texture_shift_a", false, true),
    texture("texture_shift", false, false),
    Variant {
        name: "plain",
        file: "linalg/matmul_plain.wgsl",
        body: include_str!("../../../shaders/linalg/matmul_plain.wgsl"),
        shared: &[GROUP, MATMUL_EPILOGUE],
        preferred_on: &[Driver::Llvmpipe, Driver::SwiftShader],
        classes: &[],
        vec4: &[],
        constants: no_constants,
        suits: always,
        grid: |d, batches| {
            let blocks = u64::from(d.size("n").div_ceil(4)) * u64::from(d.size("p").div_ceil(4));
            batches * blocks.div_ceil(64)
        },
        loads: |d, _| Loads { storage: flop(d) / 2.0, ..Loads::default() },
        rounds: depth_bound,
        subgroup_lanes: 0,
    },
    // No device's first choice: tuning takes them where they are quicker.
    tile!("tile128x64", TILE128X64, &[]),
    tile!("tile128x32", TILE128X32, &[]),
    tile!("tile32", TILE32, &[]),
];

const fn case(name: &'static str, dims: &'static [(&'static str, u32)], params: fn() -> Vec<u8>) -> Case {
    Case::new(name, dims, params)
}

fn transposed(a: u32, w: u32) -> Vec<u8> {
    Params { transpose_a: a, transpose_w: w, ..Params::default() }.to_bytes()
}

/// The kernel's description.
pub static SPEC: KernelSpec = KernelSpec {
    name: "matmul",
    family: "linalg",
    formula: "out = α op(A) op(W) + β R + 1 biasᵀ + γ I",
    source: "definition",
    ports: &[
        Port::read("a", &["b", "h", "ar", "ac"]).broadcast(),
        Port::read("w", &["b", "h", "wr", "wc"]).broadcast(),
        Port::read("residual", &["b", "h", "n", "p"]).broadcast().optional(),
        Port::read("bias", &["b", "h", "p"]).broadcast().optional(),
        Port::write("out", &["b", "h", "n", "p"]),
    ],
    params: Params::FIELDS,
    defaults: Params::default_bytes,
    output_dims: Some(|dims, params| {
        let (rows, _, _, cols) = depth(dims, &Params::from_bytes(params));
        dims.set("n", rows);
        dims.set("p", cols);
    }),
    check,
    wgpu: OnWgpu::Shader(VARIANTS),
    cuda: OnCuda::Library(
        Library::Gemm,
        &crate::cuda_source!("linalg/matmul.cu", 256, |d, _| (d.batches() * u64::from(d.size("n")) * u64::from(d.size("p"))).div_ceil(1024)),
    ),
    reference: reference!(reference),
    window: |_, params| if Params::from_bytes(params).transpose_a == 0 { vec![("n", 1), ("ar", 1)] } else { Vec::new() },
    cost: |d, _| {
        let batches = d.batches() as f64;
        let words = |a: &str, b: &str| f64::from(d.size(a)) * f64::from(d.size(b));
        Cost {
            flop: 2.0 * batches * flop(d),
            exp: 0.0,
            stores: batches * words("n", "p"),
            bytes: 4.0 * batches * (words("ar", "ac") + words("wr", "wc") + words("n", "p")),
            ..Cost::default()
        }
    },
    tolerance: Tolerance::SUMS,
    cases: &[
        case("smallest", &[("b", 1), ("h", 1), ("ar", 1), ("ac", 1), ("wr", 1), ("wc", 1), ("n", 1), ("p", 1)], Params::default_bytes)
            .without(&["residual", "bias"]),
        case("odd", &[("b", 2), ("h", 3), ("ar", 17), ("ac", 33), ("wr", 33), ("wc", 65), ("n", 17), ("p", 65)], || {
            Params { alpha: 0.7, beta: -0.3, identity: 0.25, ..Params::default() }.to_bytes()
        }),
        case("tile_minus_one", &[("b", 1), ("h", 2), ("ar", 63), ("ac", 15), ("wr", 15), ("wc", 63), ("n", 63), ("p", 63)], Params::default_bytes)
            .without(&["residual"]),
        case("tile_plus_one", &[("b", 1), ("h", 1), ("ar", 65), ("ac", 17), ("wr", 17), ("wc", 66), ("n", 65), ("p", 66)], Params::default_bytes)
            .without(&["bias"]),
        case("transposed_a", &[("b", 1), ("h", 2), ("ar", 37), ("ac", 21), ("wr", 37), ("wc", 19), ("n", 21), ("p", 19)], || transposed(1, 0))
            .without(&["residual", "bias"]),
        case("transposed_w", &[("b", 1), ("h", 2), ("ar", 21), ("ac", 37), ("wr", 19), ("wc", 37), ("n", 21), ("p", 19)], || transposed(0, 1))
            .without(&["residual", "bias"]),
        case("both_transposed", &[("b", 1), ("h", 1), ("ar", 70), ("ac", 21), ("wr", 19), ("wc", 70), ("n", 21), ("p", 19)], || transposed(1, 1))
            .without(&["residual", "bias"]),
        case("shared_weights", &[("b", 2), ("h", 3), ("ar", 20), ("ac", 24), ("wr", 24), ("wc", 36), ("n", 20), ("p", 36)], Params::default_bytes)
            .without(&["residual"]).shared(&["w", "bias"]),
        case("whole_texels", &[("b", 1), ("h", 2), ("ar", 50), ("ac", 52), ("wr", 52), ("wc", 100), ("n", 50), ("p", 100)], Params::default_bytes)
            .without(&["residual", "bias"]),
        case("large_tiles", &[("b", 1), ("h", 1), ("ar", 1033), ("ac", 388), ("wr", 388), ("wc", 260), ("n", 1033), ("p", 260)], Params::default_bytes)
            .without(&["residual"]),
        case("narrow", &[("b", 1), ("h", 2), ("ar", 50), ("ac", 49), ("wr", 49), ("wc", 32), ("n", 50), ("p", 32)], Params::default_bytes),
        case("large_values", &[("b", 1), ("h", 1), ("ar", 20), ("ac", 40), ("wr", 40), ("wc", 20), ("n", 20), ("p", 20)], Params::default_bytes)
            .without(&["residual", "bias"]).filled(&[("a", Fill::Uniform(-1e18, 1e18)), ("w", Fill::Uniform(-1e18, 1e18))]),
        case("square_256", &[("b", 1), ("h", 1), ("ar", 256), ("ac", 256), ("wr", 256), ("wc", 256), ("n", 256), ("p", 256)], Params::default_bytes)
            .without(&["residual", "bias"]).for_bench(),
        case("features_4096", &[("b", 1), ("h", 8), ("ar", 4096), ("ac", 49), ("wr", 49), ("wc", 32), ("n", 4096), ("p", 32)], Params::default_bytes)
            .without(&["residual", "bias"]).for_bench(),
        case("square_512", &[("b", 1), ("h", 1), ("ar", 512), ("ac", 512), ("wr", 512), ("wc", 512), ("n", 512), ("p", 512)], Params::default_bytes)
            .without(&["residual", "bias"]).for_bench(),
        case("square_1024", &[("b", 1), ("h", 1), ("ar", 1024), ("ac", 1024), ("wr", 1024), ("wc", 1024), ("n", 1024), ("p", 1024)], Params::default_bytes)
            .without(&["residual", "bias"]).for_bench(),
        case("batch_8x196", &[("b", 1), ("h", 8), ("ar", 196), ("ac", 196), ("wr", 196), ("wc", 196), ("n", 196), ("p", 196)], Params::default_bytes)
            .without(&["residual", "bias"]).for_bench(),
        case("batch_64x49", &[("b", 1), ("h", 64), ("ar", 49), ("ac", 49), ("wr", 49), ("wc", 49), ("n", 49), ("p", 49)], Params::default_bytes)
            .without(&["residual", "bias"]).for_bench(),
    ],
    vjp: None,
};

/// Tensors of a product; see the module.
#[derive(Clone, Copy, Debug)]
pub struct Inputs {
    /// Left operand.
    pub a: Tensor,
    /// Right operand.
    pub w: Tensor,
    /// Added after scaling by β.
    pub residual: Option<Tensor>,
    /// Added to every row.
    pub bias: Option<Tensor>,
}

impl Inputs {
    /// A bare product.
    pub fn new(a: Tensor, w: Tensor) -> Self {
        Self { a, w, residual: None, bias: None }
    }
}

/// Records the product into a new transient `[b, h, n, p]`.
///
/// Errors: shapes that do not fit, with the caller's place.
#[track_caller]
pub fn record(graph: &mut Graph, name: &str, inputs: Inputs, params: Params) -> Result<Tensor> {
    let Inputs { a, w, .. } = inputs;
    let rows = a.dim(if params.transpose_a == 0 { 2 } else { 3 });
    let cols = w.dim(if params.transpose_w == 0 { 3 } else { 2 });
    let out = graph.transient(name, [a.dim(0).max(w.dim(0)), a.dim(1).max(w.dim(1)), rows, cols], DType::F32);
    record_into(graph, inputs, params, out)?;
    Ok(out)
}

/// Records the product into a given tensor `[b, h, n, p]`.
///
/// Errors: shapes that do not fit, with the caller's place.
#[track_caller]
pub fn record_into(graph: &mut Graph, inputs: Inputs, params: Params, out: Tensor) -> Result<PassId> {
    let Inputs { a, w, residual, bias } = inputs;
    graph.pass(&SPEC, &params, &[Some(a), Some(w), residual, bias, Some(out)])
}
