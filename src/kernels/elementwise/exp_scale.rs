//! Distances to kernel values: a changed bandwidth redoes only this.
//!
//! out[i, j] = exp(−x[i, j] / λ\[head\]), within 2 ULP plus the rounding of the quotient; 0 where the true value is below the
//! smallest normal number.
//!
//! * `x`, `out`: `[b, h, n, m]`; `lambda` `[h]`, greater than 0, in the units of `x`.

use crate::error::Result;
use crate::graph::Graph;
use crate::kernel::cuda::{self, Source};
use crate::kernel::wgsl_module::{EXP, GROUP};
use crate::kernel::*;
use crate::{cuda_shared, cuda_source, reference};
use crate::tensor::{DType, Dims, HostData, Tensor};

fn reference<T: Real>(args: &mut HostArgs<T>) -> Result<()> {
    let (x, lambda) = (args.real("x"), args.real("lambda"));
    let (n, m, heads) = (args.dims.at("n"), args.dims.at("m"), args.dims.at("h"));
    let out = reference::rows(args.dims.batches() as usize, n, m, |batch, i, line| {
        let from = (batch * n + i) * m;
        for (y, &x) in line.iter_mut().zip(&x[from..from + m]) {
            *y = (-x / lambda[batch % heads]).exp();
        }
    });
    args.set("out", out);
    Ok(())
}

fn numbers(dims: &Dims) -> f64 {
    f64::from(dims.size("n")) * f64::from(dims.size("m"))
}

static VARIANTS: &[Variant] = &[Variant {
    name: "element4",
    file: "elementwise/exp_scale.wgsl",
    body: include_str!("../../../shaders/elementwise/exp_scale.wgsl"),
    shared: &[GROUP, EXP],
    preferred_on: &[],
    classes: &[],
    vec4: &[],
    constants: no_constants,
    suits: always,
    grid: |d, batches| batches * (u64::from(d.size("n")) * u64::from(d.size("m"))).div_ceil(256),
    loads: |d, _| Loads {
        storage: numbers(d),
        ..Loads::default()
    },
    rounds: few_rounds,
    subgroup_lanes: 0,
}];

fn bandwidths(dims: &Dims) -> HostData {
    HostData::F32((0..dims.size("h")).map(|head| 0.5 + head as f32).collect())
}

const BANDWIDTHS: (&str, Fill) = ("lambda", Fill::Made(bandwidths));

/// The kernel's description.
pub static SPEC: KernelSpec = KernelSpec {
    name: "exp_scale",
    family: "elementwise",
    formula: "out = exp(−x / λ[head])",
    source: "definition",
    ports: &[
        Port::read("x", &["b", "h", "n", "m"]),
        Port::read("lambda", &["h"]).positive(),
        Port::write("out", &["b", "h", "n", "m"]),
    ],
    params: &[],
    defaults: Vec::new,
    output_dims: None,
    check: any_dims,
    wgpu: OnWgpu::Shader(VARIANTS),
    cuda: OnCuda::Source(&[
        Source {
            name: "vec4",
            vec4: &["x", "out"],
            constants: |_| vec![("VECTORS", Constant::Bool(true))],
            ..cuda_source!("elementwise/exp_scale.cu", 256, |d, _| {
                d.batches() * (u64::from(d.size("n")) * u64::from(d.size("m"))).div_ceil(1024)
            })
            .with(&[cuda::EXP, cuda_shared!("shared/vectors.cuh")])
        },
        Source {
            constants: |_| vec![("VECTORS", Constant::Bool(false))],
            ..cuda_source!("elementwise/exp_scale.cu", 256, |d, _| {
                d.batches() * (u64::from(d.size("n")) * u64::from(d.size("m"))).div_ceil(1024)
            })
            .with(&[cuda::EXP, cuda_shared!("shared/vectors.cuh")])
        },
    ]),
    reference: reference!(reference),
    window: by_rows,
    cost: |d, _| {
        let all = d.batches() as f64 * numbers(d);
        Cost {
            flop: 2.0 * all,
            exp: all,
            stores: all,
            bytes: 8.0 * all + 4.0 * f64::from(d.size("h")),
            ..Cost::default()
        }
    },
    tolerance: Tolerance::SUMS,
    cases: &[
        Case::new("smallest", &[("b", 1), ("h", 1), ("n", 1), ("m", 1)], Vec::new).filled(&[BANDWIDTHS]),
        Case::new("odd", &[("b", 2), ("h", 3), ("n", 37), ("m", 19)], Vec::new)
            .filled(&[BANDWIDTHS, ("x", Fill::Uniform(0.0, 8.0))]),
        Case::new(
            "whole_groups",
            &[("b", 1), ("h", 2), ("n", 64), ("m", 8)],
            Vec::new,
        )
        .filled(&[BANDWIDTHS, ("x", Fill::Uniform(0.0, 8.0))]),
        Case::new(
            "large_values",
            &[("b", 1), ("h", 1), ("n", 11), ("m", 13)],
            Vec::new,
        )
        .filled(&[BANDWIDTHS, ("x", Fill::Uniform(0.0, 3e38))]),
        Case::new(
            "landmarks_3136x49",
            &[("b", 1), ("h", 8), ("n", 3136), ("m", 49)],
            Vec::new,
        )
        .filled(&[BANDWIDTHS, ("x", Fill::Uniform(0.0, 8.0))])
        .any_size()
        .for_bench(),
    ],
    vjp: None,
};

/// Records exp(−x / λ) of `x` `[b, h, n, m]` with `lambda` `[h]` into a new transient `[b, h, n, m]`.
///
/// Errors: shapes that do not fit, with the caller's place.
#[track_caller]
pub fn record(graph: &mut Graph, name: &str, x: Tensor, lambda: Tensor) -> Result<Tensor> {
    let out = graph.transient(name, x.shape(), DType::F32);
    graph.pass(&SPEC, &NoParams {}, &[Some(x), Some(lambda), Some(out)])?;
    Ok(out)
}
