//! Products over tokens, AᵀW, chunk by chunk: the landmark statistics S = CᵀC and T = K̂ᵀV without a long dependent sum.
//!
//! `out[chunk]` = Σ over the chunk's rows of aᵢ wᵢᵀ; `a` `[b, h, n, m]`, `w` `[b, h, n, p]`, out `[b, h, c, m, p]`.
//! [`sum_chunks`] adds the chunks in a fixed order, so the result is the same on every run.

use crate::error::Result;
use crate::graph::Graph;
use crate::kernel::cuda::Source;
use crate::kernel::wgsl_module::{GROUP, TEXELS};
use crate::kernel::*;
use crate::kernels::linalg::matmul::{col_lanes, texel_tiles};
use crate::kernels::linalg::{column_sums::check_chunks, sum_chunks};
use crate::tensor::{DType, Dims, Tensor};
use crate::{cuda_shared, cuda_source, params, reference};

/// Rows of a chunk: enough products per partial result that writing it costs little.
pub const ROWS: u32 = 1024;

params! {
    /// Parameters of [`SPEC`].
    pub struct Params {
        /// rows of a chunk; the last one may be shorter
        live rows: u32 = ROWS,
    }
}

fn reference<T: Real>(args: &mut HostArgs<T>) -> Result<()> {
    let p: Params = args.params();
    let [n, c, m, cols] = ["n", "c", "m", "p"].map(|d| args.dims.at(d));
    let (a, w) = (args.real("a"), args.real("w"));
    let out = reference::rows(args.dims.batches() as usize, c, m * cols, |batch, chunk, block| {
        let first = chunk * p.rows as usize;
        for i in first..(first + p.rows as usize).min(n) {
            let row = &w[(batch * n + i) * cols..][..cols];
            for (x, line) in a[(batch * n + i) * m..][..m].iter().zip(block.chunks_mut(cols.max(1))) {
                line.iter_mut().zip(row).for_each(|(sum, y)| *sum += *x * *y);
            }
        }
    });
    args.set("out", out);
    Ok(())
}

fn products(d: &Dims) -> f64 {
    f64::from(d.size("n")) * f64::from(d.size("m")) * f64::from(d.size("p"))
}

const fn tile(name: &'static str, constants: fn(&Dims) -> Vec<(&'static str, Constant)>, suits: fn(&Dims, &[u8], &Caps) -> bool) -> Variant {
    Variant {
        name,
        file: "linalg/gram_tile.wgsl",
        body: include_str!("../../../shaders/linalg/gram_tile.wgsl"),
        shared: &[GROUP],
        preferred_on: &[Driver::Gpu],
        classes: &[],
        vec4: &[],
        constants,
        suits,
        grid: |d, batches| {
            batches * u64::from(d.size("c")) * u64::from(d.size("m").div_ceil(64)) * u64::from(d.size("p").div_ceil(64))
        },
        loads: |d, _| Loads { storage: products(d) / 32.0, workgroup: products(d) / 4.0, ..Loads::default() },
        rounds: |d| 3 * u64::from(d.size("n").div_ceil(d.size("c").max(1))),
        subgroup_lanes: 0,
    }
}

fn whole(d: &Dims, name: &str) -> bool {
    d.size(name).is_multiple_of(4)
}

/// The texture path: rows of both operands are whole texels, only W's are, or both are shifted into place.
const fn texture(name: &'static str, a_whole: bool, w_whole: bool) -> Variant {
    Variant {
        name,
        file: "linalg/gram_texture.wgsl",
        body: include_str!("../../../shaders/linalg/gram_texture.wgsl"),
        shared: &[GROUP, TEXELS],
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
            (true, _) => |d, _, _| suits_texture(d) && whole(d, "m") && whole(d, "p"),
            (false, true) => |d, _, _| suits_texture(d) && whole(d, "p"),
            (false, false) => |d, _, _| suits_texture(d),
        },
        grid: |d, batches| batches * u64::from(d.size("c")) * texel_tiles(d.size("m"), d.size("p")),
        loads: match (a_whole, w_whole) {
            // Per row: 2 texels of A and 2 of W for 8 x 8 sums, one more of each where they are shifted.
            (true, _) => |d, _| Loads { texture: products(d) * 16.0 / 64.0, ..Loads::default() },
            (false, true) => |d, _| Loads { texture: products(d) * 20.0 / 64.0, ..Loads::default() },
            (false, false) => |d, _| Loads { texture: products(d) * 24.0 / 64.0, ..Loads::default() },
        },
        rounds: |d| 3 * u64::from(d.size("n").div_ceil(d.size("c").max(1))),
        subgroup_lanes: 0,
    }
}

/// Enough work to pay for the copies.
fn suits_texture(d: &Dims) -> bool {
    d.size("m") >= 8 && d.size("p") >= 8 && d.batches() as f64 * products(d) >= 65_536.0
}

fn texture_constants(d: &Dims, a_whole: bool, w_whole: bool) -> Vec<(&'static str, Constant)> {
    vec![
        ("A_WHOLE", Constant::Bool(a_whole)),
        ("W_WHOLE", Constant::Bool(w_whole)),
        ("COL_LANES", Constant::U32(col_lanes(d.size("p")))),
    ]
}

/// Side of the tile of a CUDA block: small ones make more blocks of the few chunks there are.
fn tile_side(size: u32) -> u32 {
    if size <= 64 { 32 } else { 64 }
}

/// The kernel's description.
pub static SPEC: KernelSpec = KernelSpec {
    name: "gram",
    family: "linalg",
    formula: "out[chunk] = Σ_{i in chunk} aᵢ wᵢᵀ",
    source: "definition",
    ports: &[
        Port::read("a", &["b", "h", "n", "m"]),
        Port::read("w", &["b", "h", "n", "p"]),
        Port::write("out", &["b", "h", "c", "m", "p"]),
    ],
    params: Params::FIELDS,
    defaults: Params::default_bytes,
    output_dims: Some(|dims, params| {
        let rows = Params::from_bytes(params).rows.max(1);
        dims.set("c", dims.size("n").div_ceil(rows).max(1));
    }),
    check: |dims, params| check_chunks(dims, Params::from_bytes(params).rows),
    wgpu: OnWgpu::Shader(&[
        tile("tile64", |_| vec![("TILE_K", Constant::U32(16))], |_, _, caps| caps.workgroup_bytes >= 8192),
        tile("tile64_shallow", |_| vec![("TILE_K", Constant::U32(8))], |_, _, caps| caps.workgroup_bytes >= 4096),
        texture("texture", true, true),
        texture("texture_shift_a", false, true),
        texture("texture_shift", false, false),
        Variant {
            name: "plain",
            file: "linalg/gram_plain.wgsl",
            body: include_str!("../../../shaders/linalg/gram_plain.wgsl"),
            shared: &[GROUP],
            preferred_on: &[Driver::Llvmpipe, Driver::SwiftShader],
            classes: &[],
            vec4: &[],
            constants: no_constants,
            suits: always,
            grid: |d, batches| {
                let blocks = u64::from(d.size("m").div_ceil(4)) * u64::from(d.size("p").div_ceil(4));
                batches * u64::from(d.size("c")) * blocks.div_ceil(64)
            },
            loads: |d, _| Loads { storage: products(d) / 2.0, ..Loads::default() },
            rounds: |d| 3 * u64::from(d.size("n").div_ceil(d.size("c").max(1))),
            subgroup_lanes: 0,
        },
    ]),
    cuda: OnCuda::Source(&[Source {
        name: "tile",
        constants: |d| {
            vec![("TILE_M", Constant::U32(tile_side(d.size("m")))), ("TILE_P", Constant::U32(tile_side(d.size("p"))))]
        },
        ..cuda_source!("linalg/gram.cu", 256, |d, _| {
            let tiles = |name| u64::from(d.size(name).div_ceil(tile_side(d.size(name))));
            d.batches() * u64::from(d.size("c")) * tiles("m") * tiles("p")
        })
        .with(&[cuda_shared!("shared/vectors.cuh")])
    }]),
    reference: reference!(reference),
    window: |_, params| vec![("n", Params::from_bytes(params).rows), ("c", 1)],
    cost: |d, _| {
        let batches = d.batches() as f64;
        let out = f64::from(d.size("c")) * f64::from(d.size("m")) * f64::from(d.size("p"));
        let read = f64::from(d.size("n")) * f64::from(d.size("m") + d.size("p"));
        Cost { flop: 2.0 * batches * products(d), exp: 0.0, stores: batches * out, bytes: 4.0 * batches * (read + out), ..Cost::default() }
    },
    tolerance: Tolerance::SUMS,
    cases: &[
        Case::new("smallest", &[("b", 1), ("h", 1), ("n", 1), ("c", 1), ("m", 1), ("p", 1)], Params::default_bytes),
        Case::new("odd", &[("b", 2), ("h", 3), ("n", 101), ("c", 7), ("m", 49), ("p", 33)], || Params { rows: 16 }.to_bytes()),
        Case::new("tile_plus_one", &[("b", 1), ("h", 2), ("n", 65), ("c", 2), ("m", 65), ("p", 66)], || Params { rows: 33 }.to_bytes()),
        Case::new("narrow_and_wide", &[("b", 1), ("h", 2), ("n", 70), ("c", 2), ("m", 20), ("p", 70)], || Params { rows: 40 }.to_bytes()),
        Case::new("whole_texels", &[("b", 1), ("h", 2), ("n", 70), ("c", 2), ("m", 20), ("p", 32)], || Params { rows: 40 }.to_bytes()),
        Case::new("whole_columns", &[("b", 1), ("h", 3), ("n", 90), ("c", 1), ("m", 49), ("p", 32)], Params::default_bytes),
        Case::new("features_4096", &[("b", 1), ("h", 8), ("n", 4096), ("c", 4), ("m", 49), ("p", 32)], Params::default_bytes).for_bench(),
        Case::new("one_column", &[("b", 1), ("h", 1), ("n", 300), ("c", 1), ("m", 5), ("p", 1)], Params::default_bytes),
    ],
    vjp: None,
};

/// Records `factor` times AᵀW, summed over all chunks, into a new transient `[b, h, m, p]`.
///
/// Errors: shapes that do not fit, with the caller's place.
#[track_caller]
pub fn record(graph: &mut Graph, name: &str, a: Tensor, w: Tensor, factor: Option<Tensor>, alpha: f32) -> Result<Tensor> {
    let (b, h, m, p) = (a.dim(0), a.dim(1), a.dim(3), w.dim(3));
    let chunks = a.dim(2).div_ceil(ROWS).max(1);
    let partial = graph.transient(&format!("{name} by chunk"), [b, h, chunks, m, p], DType::F32);
    graph.pass(&SPEC, &Params { rows: ROWS }, &[Some(a), Some(w), Some(partial)])?;
    let flat = graph.reshape(partial, [b, h, chunks, m * p])?;
    let sum = sum_chunks::record(graph, name, flat, factor, alpha)?;
    graph.reshape(sum, [b, h, m, p])
}
