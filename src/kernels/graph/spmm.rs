//! A sparse matrix times blocks of channels: `y[i]` = α Σ_z `weights[z]` `x[columns[z]]` + `diagonal[i]` `x[i]` + β `prev[i]`.
//!
//! * `starts` `[n + 1]`, `columns` `[z]`, `weights` `[z]` (1 without them): row i lists places `starts[i]` to `starts[i + 1]`. Entries
//!   that occur twice count twice. [`checked`](super::csr::checked) says on the host what is wrong with such arrays; in a kernel,
//!   places past the lists and columns that are no node give nothing.
//! * `x`, `prev`, `y` `[b, h, n, c]`: nodes, then channels; `diagonal` `[n]`. All heads share the matrix.
//! * `longest`: edges of the longest row, which decides how rows are walked; 0 = not known, taken as all edges.
//!
//! Gathers in the order of the row: deterministic.

use super::csr::{self, Arrays, ROW};
use super::steps::{TEXTURE_BYTES, gathered};
use crate::error::Result;
use crate::kernel::wgsl_module::{GROUP, TEXELS};
use crate::kernel::*;
use crate::tensor::{DType, Dims};
use crate::{cuda_text, params, reference};

params! {
    /// Parameters of [`SPEC`].
    pub struct Params {
        /// factor of the edges' sum (α)
        live alpha: f32 = 1.0,
        /// factor of `prev` (β)
        live beta: f32 = 1.0,
        /// edges of the longest row, 0 = not known
        fixed longest: u32 = 0,
    }
}

fn given(params: &[u8]) -> u32 {
    Params::from_bytes(params).longest
}

fn reference<T: Real>(args: &mut HostArgs<T>) -> Result<()> {
    let p: Params = args.params();
    let (n, c) = (args.dims.at("n"), args.dims.at("c"));
    let (rows, x) = (Arrays::of(args), args.real("x"));
    let (diagonal, prev) = (args.real_if("diagonal"), args.real_if("prev"));
    let (alpha, beta) = (T::of(p.alpha.into()), T::of(p.beta.into()));
    let y = reference::rows(args.dims.batches() as usize, n, c, |batch, i, line| {
        gathered(&x[batch * n * c..][..n * c], c, line, |visit| rows.row(i, visit));
        let at = (batch * n + i) * c;
        for (channel, y) in line.iter_mut().enumerate() {
            *y *= alpha;
            if let Some(d) = &diagonal {
                *y += d[i] * x[at + channel];
            }
            if let Some(p) = &prev {
                *y += beta * p[at + channel];
            }
        }
    });
    args.set("y", y);
    Ok(())
}

fn numbers(d: &Dims) -> (f64, f64, f64) {
    (f64::from(d.size("n")), f64::from(d.size("z")), f64::from(d.size("c")))
}

fn vectors(d: &Dims) -> bool {
    d.size("c").is_multiple_of(4) && d.size("c") > 0
}

/// Words of x, and words beside it, with `per` threads for a node's channels.
fn words(d: &Dims, per: f64) -> (f64, f64) {
    let (n, z, c) = numbers(d);
    ((z + n) * c, n * c + per * (2.0 * z + 2.0 * n) + n * c / 4.0)
}

const fn rows(
    name: &'static str,
    preferred_on: &'static [Driver],
    constants: fn(&Dims) -> Vec<(&'static str, Constant)>,
    grid: fn(&Dims, u64) -> u64,
    loads: fn(&Dims, &[u8]) -> Loads,
) -> Variant {
    Variant {
        name,
        file: "graph/spmm_rows.wgsl",
        body: include_str!("../../../shaders/graph/spmm_rows.wgsl"),
        shared: &[GROUP, ROW],
        preferred_on,
        classes: &[],
        vec4: &["x", "prev", "y"],
        constants,
        suits: |d, p, caps| vectors(d) && csr::one_thread(d, given(p), caps),
        grid,
        loads,
        rounds: few_rounds,
        subgroup_lanes: 0,
    }
}

fn groups(d: &Dims, batches: u64, channels: u32) -> u64 {
    batches * (u64::from(d.size("n")) * u64::from(d.size("c").div_ceil(channels))).div_ceil(64)
}

const fn rows4() -> Variant {
    rows(
        "rows4",
        &[Driver::Llvmpipe],
        |_| vec![("WIDTH", Constant::U32(4))],
        |d, batches| groups(d, batches, 16),
        |d, _| {
            let (x, beside) = words(d, f64::from(d.size("c").div_ceil(16)));
            Loads { storage: x + beside, ..Loads::default() }
        },
    )
}

static VARIANTS: &[Variant] = &[
    rows(
        "rows",
        &[Driver::Gpu],
        |_| vec![("WIDTH", Constant::U32(1))],
        |d, batches| groups(d, batches, 4),
        |d, _| {
            let (x, beside) = words(d, f64::from(d.size("c") / 4));
            Loads { storage: x + beside, ..Loads::default() }
        },
    ),
    rows4(),
    Variant {
        name: "texture",
        file: "graph/spmm_texture.wgsl",
        body: include_str!("../../../shaders/graph/spmm_texture.wgsl"),
        shared: &[GROUP, TEXELS, ROW],
        preferred_on: &[Driver::SwiftShader],
        classes: &[("x", Class::Texture)],
        suits: |d, p, caps| {
            let bytes = 4 * u64::from(d.size("n")) * u64::from(d.size("c"));
            vectors(d) && csr::one_thread(d, given(p), caps) && bytes <= TEXTURE_BYTES
        },
        loads: |d, _| {
            let (x, beside) = words(d, f64::from(d.size("c").div_ceil(16)));
            Loads { texture: x, storage: beside, ..Loads::default() }
        },
        ..rows4()
    },
    Variant {
        suits: |d, p, caps| csr::one_thread(d, given(p), caps),
        ..Variant::only(
            "graph/spmm_plain.wgsl",
            include_str!("../../../shaders/graph/spmm_plain.wgsl"),
            &[GROUP, ROW],
            |d, batches| groups(d, batches, 1),
            |d, _| {
                let (x, beside) = words(d, f64::from(d.size("c")));
                Loads { storage: x + beside, ..Loads::default() }
            },
        )
    },
    Variant {
        name: "split",
        suits: |d, p, caps| csr::many_threads(d, given(p), caps),
        ..Variant::only(
            "graph/spmm_split.wgsl",
            include_str!("../../../shaders/graph/spmm_split.wgsl"),
            &[GROUP, ROW],
            |d, batches| batches * u64::from(d.size("n")) * u64::from(d.size("c").div_ceil(4)),
            |d, _| {
                let (x, beside) = words(d, f64::from(d.size("c").div_ceil(4)));
                Loads {
                    storage: x + beside,
                    workgroup: 64.0 * f64::from(d.size("n")) * f64::from(d.size("c")),
                    ..Loads::default()
                }
            },
        )
    },
];

struct Spmm;

impl csr::Gather for Spmm {
    const CHANNELS: &'static str = "c";

    fn vectors(d: &Dims, _: &[u8]) -> bool {
        vectors(d)
    }

    fn longest(params: &[u8]) -> u32 {
        given(params)
    }
}

static SOURCES: [cuda::Source; 4] =
    csr::sources::<Spmm>("graph/spmm.cu", cuda_text!("graph/spmm.cu"), &["x", "prev", "y"]);

const fn sizes(n: u32, z: u32, c: u32) -> [(&'static str, u32); 6] {
    [("b", 2), ("h", 2), ("n", n), ("s", n + 1), ("z", z), ("c", c)]
}

const FILLS: &[(&str, Fill)] =
    &[("starts", Fill::Made(csr::some_starts)), ("columns", Fill::Made(csr::some_columns))];
const BAD: &[(&str, Fill)] =
    &[("starts", Fill::Made(csr::bad_starts)), ("columns", Fill::Made(csr::bad_columns))];
const GRID: &[(&str, Fill)] =
    &[("starts", Fill::Made(csr::grid_starts)), ("columns", Fill::Made(csr::grid_columns))];

fn scaled() -> Vec<u8> {
    Params { alpha: 0.7, beta: -1.3, longest: 0 }.to_bytes()
}

/// The kernel's description.
pub static SPEC: KernelSpec = KernelSpec {
    name: "spmm",
    family: "graph",
    formula: "y[i] = α Σ_z weights[z] x[columns[z]] + diagonal[i] x[i] + β prev[i], z in row i",
    source: "definition",
    ports: &[
        Port::read("starts", &["s"]).of(DType::U32),
        Port::read("columns", &["z"]).of(DType::U32),
        Port::read("weights", &["z"]).optional(),
        Port::read("diagonal", &["n"]).optional(),
        Port::read("x", &["b", "h", "n", "c"]),
        Port::read("prev", &["b", "h", "n", "c"]).optional(),
        Port::write("y", &["b", "h", "n", "c"]),
    ],
    params: Params::FIELDS,
    defaults: Params::default_bytes,
    output_dims: None,
    check: |d, p| csr::check(d, given(p)),
    wgpu: OnWgpu::Shader(VARIANTS),
    cuda: OnCuda::Source(&SOURCES),
    reference: reference!(reference),
    window: whole_heads,
    cost: |d, _| {
        let (n, z, c) = numbers(d);
        let batches = d.batches() as f64;
        Cost {
            flop: batches * c * (2.0 * z + 4.0 * n),
            exp: 0.0,
            stores: batches * n * c,
            bytes: 4.0 * (3.0 * batches * n * c + 2.0 * z + 2.0 * n),
            ..Cost::default()
        }
    },
    tolerance: Tolerance::SUMS,
    cases: &[
        Case::new(
            "smallest",
            &[("b", 1), ("h", 1), ("n", 1), ("s", 2), ("z", 1), ("c", 1)],
            Params::default_bytes,
        )
        .filled(FILLS),
        Case::new("odd", &sizes(37, 91, 5), scaled).filled(FILLS),
        Case::new("vectors", &sizes(41, 120, 12), scaled).filled(FILLS),
        Case::new("wide", &sizes(17, 40, 72), scaled).filled(FILLS),
        Case::new("tile_minus_one", &sizes(63, 150, 4), scaled).filled(FILLS),
        Case::new("tile_plus_one", &sizes(65, 150, 4), scaled).filled(FILLS),
        Case::new("only_edges", &sizes(30, 77, 8), scaled)
            .without(&["weights", "diagonal", "prev"])
            .filled(FILLS),
        Case::new("only_edges_words", &sizes(30, 77, 7), scaled)
            .without(&["weights", "diagonal", "prev"])
            .filled(FILLS),
        Case::new("no_edges", &sizes(9, 0, 8), scaled).filled(FILLS),
        Case::new("hub", &sizes(20, 3000, 8), scaled).filled(FILLS),
        Case::new("hub_words", &sizes(20, 3000, 3), scaled).filled(FILLS),
        Case::new(
            "very_long_row",
            &[("b", 1), ("h", 1), ("n", 8), ("s", 9), ("z", 70_000), ("c", 4)],
            scaled,
        )
        .filled(FILLS),
        Case::new("bad_indices", &sizes(21, 50, 8), scaled).filled(BAD),
        Case::new("bad_indices_words", &sizes(21, 50, 3), scaled).filled(BAD),
        Case::new("no_nodes", &sizes(0, 0, 8), scaled).filled(FILLS),
        Case::new(
            "grid_512x512",
            &[("b", 1), ("h", 1), ("n", 262_144), ("s", 262_145), ("z", 1_046_528), ("c", 64)],
            || Params { alpha: 0.7, beta: -1.0, longest: 4 }.to_bytes(),
        )
        .filled(GRID)
        .resized(|d| csr::square_grid(d).map(|()| Params { alpha: 0.7, beta: -1.0, longest: 4 }.to_bytes()))
        .for_bench(),
    ],
    vjp: None,
};
