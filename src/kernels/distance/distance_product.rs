//! A mask by distance times channels, without forming the mask: `y[i]` = Σⱼ f(`d[i, j]`) `x[j]`.
//!
//! * `x` `[b, h, n, c]`, `y` `[b, h, m, c]`.
//! * `distances` `[b, h, m, w]`, usually shared by all heads (`[1, 1, m, w]`): packed as in [`pairs`](super::pairs), `bits` each.
//! * `table` `[h or 1, t]`: f by distance. Distances of t and more, and the greatest number (no way), weigh 0.
//!
//! Sums run over keys in order: deterministic.

use super::pairs::{WEIGHTS, check_distances, some_distances, some_tables, unpacked, words};
use crate::error::Result;
use crate::kernel::wgsl_module::{GROUP, TEXELS};
use crate::kernel::*;
use crate::kernels::laplacian::kernel_matrix::FILLED;
use crate::tensor::{DType, Dims, HostData};
use crate::{cuda_shared, cuda_source, params, reference};

params! {
    /// Parameters of [`SPEC`].
    pub struct Params {
        /// bits of a distance, 8 or 16
        fixed bits: u32 = 8,
    }
}

fn bits(params: &[u8]) -> u32 {
    Params::from_bytes(params).bits
}

fn reference<T: Real>(args: &mut HostArgs<T>) -> Result<()> {
    let bits = args.params::<Params>().bits;
    let [m, n, c, w, t, tables, h] = ["m", "n", "c", "w", "t", "tables", "h"].map(|x| args.dims.at(x));
    let (x, distances, table) = (args.real("x"), args.words("distances"), args.real("table"));
    let shared = &*args;
    let y = reference::rows(args.dims.batches() as usize, m, c, |batch, i, line| {
        let row = &distances[shared.start("distances", batch) + i * w..][..w];
        let f = &table[if tables == 1 { 0 } else { batch % h * t }..][..t];
        for j in 0..n {
            let Some(weight) = f.get(unpacked(row, bits, j)) else { continue };
            line.iter_mut().zip(&x[(batch * n + j) * c..]).for_each(|(sum, x)| *sum += *weight * *x);
        }
    });
    args.set("y", y);
    Ok(())
}

fn pairs(d: &Dims) -> f64 {
    f64::from(d.size("m")) * f64::from(d.size("n"))
}

fn groups(d: &Dims, batches: u64, rows: u32, channels: u32) -> u64 {
    batches * u64::from(d.size("m").div_ceil(rows)) * u64::from(d.size("c").div_ceil(channels))
}

static VARIANTS: &[Variant] = &[
    Variant {
        name: "tile",
        preferred_on: &[Driver::Gpu],
        suits: |d, _, caps| u64::from(d.size("n").div_ceil(16)) * 23 <= caps.loop_rounds,
        ..Variant::only(
            "distance/distance_product_tile.wgsl",
            include_str!("../../../shaders/distance/distance_product_tile.wgsl"),
            &[GROUP, WEIGHTS],
            |d, batches| groups(d, batches, 64, 32),
            |d, _| {
                let (slices, c) = (f64::from(d.size("c").div_ceil(32)), f64::from(d.size("c")));
                Loads {
                    storage: pairs(d) * (1.25 * slices + c / 64.0),
                    workgroup: pairs(d) * (slices + c),
                    ..Loads::default()
                }
            },
        )
    },
    Variant {
        name: "texture",
        preferred_on: &[Driver::Llvmpipe, Driver::SwiftShader],
        classes: &[("x", Class::Texture)],
        vec4: &["x", "y"],
        suits: |d, _, caps| {
            let quads = d.size("c").is_multiple_of(4) && d.size("c") > 0;
            quads && u64::from(d.size("n").div_ceil(4)) <= caps.loop_rounds
        },
        ..Variant::only(
            "distance/distance_product_texture.wgsl",
            include_str!("../../../shaders/distance/distance_product_texture.wgsl"),
            &[GROUP, TEXELS, WEIGHTS],
            |d, batches| groups(d, batches, 32, 16),
            |d, _| {
                let slices = f64::from(d.size("c").div_ceil(16));
                Loads {
                    storage: 1.25 * slices * pairs(d),
                    texture: pairs(d) / 4.0 * f64::from(d.size("c")),
                    ..Loads::default()
                }
            },
        )
    },
];

const fn sizes(m: u32, n: u32, c: u32, w: u32, t: u32) -> [(&'static str, u32); 8] {
    [("b", 2), ("h", 2), ("m", m), ("n", n), ("c", c), ("w", w), ("tables", 2), ("t", t)]
}

fn wide() -> Vec<u8> {
    Params { bits: 16 }.to_bytes()
}

fn bytes(d: &Dims) -> HostData {
    some_distances(d, 8)
}

fn halves(d: &Dims) -> HostData {
    some_distances(d, 16)
}

const FILL: &[(&str, Fill)] = &[("distances", Fill::Made(bytes)), ("table", Fill::Made(some_tables))];
const WIDE: &[(&str, Fill)] = &[("distances", Fill::Made(halves)), ("table", Fill::Made(some_tables))];
const SHARED: &[&str] = &["distances"];

/// Rows of a block in CUDA.
fn cuda_rows(d: &Dims) -> u32 {
    if cuda_blocks(d, 64) < FILLED { 32 } else { 64 }
}

fn cuda_blocks(d: &Dims, rows: u32) -> u64 {
    d.batches() * u64::from(d.size("m").div_ceil(rows)) * u64::from(d.size("c").div_ceil(64))
}

/// Rows word by word, or in fours.
const fn in_cuda<const FOURS: bool>() -> cuda::Source {
    cuda::Source {
        constants: |d| vec![("ROWS", Constant::U32(cuda_rows(d))), ("FOURS", Constant::Bool(FOURS))],
        ..cuda_source!("distance/distance_product.cu", 128, |d, _| cuda_blocks(d, cuda_rows(d))).with(&[
            cuda::ASYNC,
            cuda_shared!("shared/pairs.cuh"),
            cuda_shared!("distance/weights.cuh"),
        ])
    }
}

/// The kernel's description.
pub static SPEC: KernelSpec = KernelSpec {
    name: "distance_product",
    family: "distance",
    formula: "y[i] = Σⱼ f(d[i,j]) x[j], f by a table",
    source: "Choromanski et al., arXiv 2107.07999: masks by shortest paths, by definition",
    ports: &[
        Port::read("x", &["b", "h", "n", "c"]),
        Port::read("distances", &["b", "h", "m", "w"]).of(DType::U32).broadcast(),
        Port::read("table", &["tables", "t"]),
        Port::write("y", &["b", "h", "m", "c"]),
    ],
    params: Params::FIELDS,
    defaults: Params::default_bytes,
    output_dims: None,
    check: |d, p| check_distances(d, bits(p)),
    wgpu: OnWgpu::Shader(VARIANTS),
    cuda: OnCuda::Source(&[cuda::Source { name: "vec4", vec4: &["x"], ..in_cuda::<true>() }, in_cuda::<false>()]),
    reference: reference!(reference),
    window: |_, _| vec![("m", 1)],
    cost: |d, p| {
        let (batches, c) = (d.batches() as f64, f64::from(d.size("c")));
        let [m, n] = ["m", "n"].map(|x| f64::from(d.size(x)));
        Cost {
            flop: 2.0 * batches * pairs(d) * c,
            exp: 0.0,
            stores: batches * m * c,
            bytes: 4.0 * (batches * (m + n) * c + m * f64::from(words(d.size("n"), bits(p)))),
            ..Cost::default()
        }
    },
    tolerance: Tolerance::SUMS,
    cases: &[
        Case::new(
            "smallest",
            &[("b", 1), ("h", 1), ("m", 1), ("n", 1), ("c", 1), ("w", 1), ("tables", 1), ("t", 1)],
            Params::default_bytes,
        )
        .filled(FILL)
        .shared(SHARED),
        Case::new("odd", &sizes(37, 37, 5, 10, 20), Params::default_bytes).filled(FILL).shared(SHARED),
        Case::new("odd_wide", &sizes(35, 37, 7, 19, 20), wide).filled(WIDE).shared(SHARED),
        Case::new("tile", &sizes(64, 64, 32, 16, 30), Params::default_bytes).filled(FILL).shared(SHARED),
        Case::new("tile_plus_one", &sizes(65, 65, 36, 17, 9), Params::default_bytes).filled(FILL).shared(SHARED),
        Case::new("tile_minus_one", &sizes(63, 63, 28, 16, 9), Params::default_bytes).filled(FILL).shared(SHARED),
        Case::new("wide", &sizes(50, 49, 20, 25, 300), wide).filled(WIDE).shared(SHARED),
        Case::new("wide_words", &sizes(33, 31, 3, 16, 23), wide).filled(WIDE).shared(SHARED),
        Case::new(
            "one_table",
            &[("b", 1), ("h", 3), ("m", 9), ("n", 70), ("c", 8), ("w", 18), ("tables", 1), ("t", 12)],
            Params::default_bytes,
        )
        .filled(FILL)
        .shared(SHARED),
        Case::new("only_near", &sizes(41, 41, 12, 11, 1), Params::default_bytes).filled(FILL).shared(SHARED),
        // So many that sources for cards take their largest tiles.
        Case::new(
            "many_heads",
            &[("b", 11), ("h", 24), ("m", 9), ("n", 67), ("c", 4), ("w", 17), ("tables", 24), ("t", 9)],
            Params::default_bytes,
        )
        .filled(FILL)
        .shared(SHARED),
        Case::new("no_keys", &sizes(5, 0, 4, 0, 9), Params::default_bytes).filled(FILL).shared(SHARED),
        Case::new(
            "nodes_4096",
            &[("b", 1), ("h", 1), ("m", 4096), ("n", 4096), ("c", 64), ("w", 1024), ("tables", 1), ("t", 23)],
            Params::default_bytes,
        )
        .filled(FILL)
        .shared(SHARED)
        .resized(|d| {
            d.set("w", d.size("n").div_ceil(4));
            Ok(Params::default_bytes())
        })
        .for_bench(),
    ],
    vjp: None,
};
