//! Transposed matrices.
//!
//! out[j, i] = x[i, j]
//!
//! * `x` `[b, h, n, m]`, `out` `[b, h, m, n]`.

use crate::error::Result;
use crate::graph::Graph;
use crate::kernel::cuda::Source;
use crate::kernel::wgsl_module::GROUP;
use crate::kernel::*;
use crate::{cuda_source, reference};
use crate::tensor::{DType, Dims, Tensor};

fn reference<T: Real>(args: &mut HostArgs<T>) -> Result<()> {
    let (n, m, batches) = (args.dims.at("n"), args.dims.at("m"), args.dims.batches() as usize);
    let x = args.real("x");
    let out = reference::rows(batches, m, n, |batch, col, line| {
        for (row, y) in line.iter_mut().enumerate() {
            *y = x[(batch * n + row) * m + col];
        }
    });
    args.set("out", out);
    Ok(())
}

fn words(dims: &Dims) -> f64 {
    f64::from(dims.size("n")) * f64::from(dims.size("m"))
}

static VARIANTS: &[Variant] = &[
    Variant {
        name: "tile32",
        file: "linalg/transpose_tile.wgsl",
        body: include_str!("../../../shaders/linalg/transpose_tile.wgsl"),
        shared: &[GROUP],
        preferred_on: &[Driver::Gpu],
        classes: &[],
        vec4: &[],
        constants: no_constants,
        suits: always,
        grid: |d, batches| {
            batches * u64::from(d.size("n").div_ceil(32)) * u64::from(d.size("m").div_ceil(32))
        },
        loads: |d, _| Loads {
            storage: words(d),
            workgroup: words(d),
            ..Loads::default()
        },
        rounds: few_rounds,
        subgroup_lanes: 0,
    },
    Variant {
        name: "plain",
        file: "linalg/transpose_plain.wgsl",
        body: include_str!("../../../shaders/linalg/transpose_plain.wgsl"),
        shared: &[GROUP],
        preferred_on: &[Driver::Llvmpipe, Driver::SwiftShader],
        classes: &[],
        vec4: &[],
        constants: no_constants,
        suits: always,
        grid: |d, batches| batches * (u64::from(d.size("n")) * u64::from(d.size("m"))).div_ceil(64),
        loads: |d, _| Loads {
            storage: words(d),
            ..Loads::default()
        },
        rounds: few_rounds,
        subgroup_lanes: 0,
    },
];

/// The kernel's description.
pub static SPEC: KernelSpec = KernelSpec {
    name: "transpose",
    family: "linalg",
    formula: "out[j, i] = x[i, j]",
    source: "definition",
    ports: &[
        Port::read("x", &["b", "h", "n", "m"]),
        Port::write("out", &["b", "h", "m", "n"]),
    ],
    params: &[],
    defaults: Vec::new,
    output_dims: None,
    check: any_dims,
    wgpu: OnWgpu::Shader(VARIANTS),
    cuda: OnCuda::Source(&[Source {
        name: "tile32",
        ..cuda_source!("linalg/transpose.cu", 256, |d, _| {
            d.batches() * u64::from(d.size("n").div_ceil(32)) * u64::from(d.size("m").div_ceil(32))
        })
    }]),
    reference: reference!(reference),
    window: whole_heads,
    cost: |d, _| {
        let words = d.batches() as f64 * words(d);
        Cost {
            flop: 0.0,
            exp: 0.0,
            stores: words,
            bytes: 8.0 * words,
            ..Cost::default()
        }
    },
    tolerance: Tolerance::EXACT,
    cases: &[
        Case::new("smallest", &[("b", 1), ("h", 1), ("n", 1), ("m", 1)], Vec::new),
        Case::new("odd", &[("b", 2), ("h", 3), ("n", 17), ("m", 33)], Vec::new),
        Case::new("tile", &[("b", 1), ("h", 2), ("n", 32), ("m", 64)], Vec::new),
        Case::new("row", &[("b", 1), ("h", 2), ("n", 1), ("m", 100)], Vec::new),
        Case::new("column", &[("b", 1), ("h", 2), ("n", 100), ("m", 1)], Vec::new),
        Case::new(
            "tile_plus_one",
            &[("b", 1), ("h", 2), ("n", 65), ("m", 97)],
            Vec::new,
        ),
        Case::new(
            "square_1024",
            &[("b", 1), ("h", 1), ("n", 1024), ("m", 1024)],
            Vec::new,
        )
        .for_bench(),
    ],
    vjp: None,
};

/// Records the transpose of `x` `[b, h, n, m]` into a new transient `[b, h, m, n]`.
///
/// Errors: `x` is no float tensor of four dimensions.
#[track_caller]
pub fn record(graph: &mut Graph, name: &str, x: Tensor) -> Result<Tensor> {
    let out = graph.transient(name, [x.dim(0), x.dim(1), x.dim(3), x.dim(2)], DType::F32);
    graph.pass_bytes(&SPEC, &[], &[Some(x), Some(out)])?;
    Ok(out)
}
