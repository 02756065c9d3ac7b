//! Two tensors added with weights.
//!
//! out = α x + β y, all `[b, h, n, m]`.

use crate::error::Result;
use crate::graph::Graph;
use crate::kernel::cuda::Source;
use crate::kernel::wgsl_module::GROUP;
use crate::kernel::*;
use crate::tensor::{DType, Tensor};
use crate::{cuda_shared, cuda_source, params, reference};

params! {
    /// Parameters of [`SPEC`].
    pub struct Params {
        /// α
        live alpha: f32 = 1.0,
        /// β
        live beta: f32 = 1.0,
    }
}

fn reference<T: Real>(args: &mut HostArgs<T>) -> Result<()> {
    let p: Params = args.params();
    let (alpha, beta) = (T::of(f64::from(p.alpha)), T::of(f64::from(p.beta)));
    let sum = args.real("x").iter().zip(args.real("y").iter()).map(|(x, y)| alpha * *x + beta * *y).collect();
    args.set("out", sum);
    Ok(())
}

/// The kernel's description.
pub static SPEC: KernelSpec = KernelSpec {
    name: "weighted_sum",
    family: "elementwise",
    formula: "out = α x + β y",
    source: "definition",
    ports: &[
        Port::read("x", &["b", "h", "n", "m"]),
        Port::read("y", &["b", "h", "n", "m"]),
        Port::write("out", &["b", "h", "n", "m"]),
    ],
    params: Params::FIELDS,
    defaults: Params::default_bytes,
    output_dims: None,
    check: any_dims,
    wgpu: OnWgpu::Shader(&[Variant::only(
        "elementwise/weighted_sum.wgsl",
        include_str!("../../../shaders/elementwise/weighted_sum.wgsl"),
        &[GROUP],
        |d, batches| batches * (u64::from(d.size("n")) * u64::from(d.size("m"))).div_ceil(256),
        |d, _| Loads { storage: 2.0 * f64::from(d.size("n")) * f64::from(d.size("m")), ..Loads::default() },
    )]),
    cuda: OnCuda::Source(&[
        Source {
            name: "vec4",
            vec4: &["x", "y", "out"],
            constants: |_| vec![("VECTORS", Constant::Bool(true))],
            ..cuda_source!("elementwise/weighted_sum.cu", 256, |d, _| {
                (d.batches() * u64::from(d.size("n")) * u64::from(d.size("m"))).div_ceil(1024)
            })
            .with(&[cuda_shared!("shared/vectors.cuh")])
        },
        Source {
            constants: |_| vec![("VECTORS", Constant::Bool(false))],
            ..cuda_source!("elementwise/weighted_sum.cu", 256, |d, _| {
                (d.batches() * u64::from(d.size("n")) * u64::from(d.size("m"))).div_ceil(1024)
            })
            .with(&[cuda_shared!("shared/vectors.cuh")])
        },
    ]),
    reference: reference!(reference),
    window: by_rows,
    cost: |d, _| {
        let words = d.batches() as f64 * f64::from(d.size("n")) * f64::from(d.size("m"));
        Cost { flop: 3.0 * words, exp: 0.0, stores: words, bytes: 12.0 * words, ..Cost::default() }
    },
    tolerance: Tolerance::SUMS,
    cases: &[
        Case::new("smallest", &[("b", 1), ("h", 1), ("n", 1), ("m", 1)], Params::default_bytes),
        Case::new("odd", &[("b", 2), ("h", 3), ("n", 37), ("m", 19)], || Params { alpha: 0.5, beta: -2.0 }.to_bytes()),
        Case::new("whole_groups", &[("b", 1), ("h", 2), ("n", 64), ("m", 8)], Params::default_bytes),
        Case::new("large_values", &[("b", 1), ("h", 1), ("n", 9), ("m", 7)], Params::default_bytes)
            .filled(&[("x", Fill::Uniform(-1e38, 1e38)), ("y", Fill::Uniform(-1e38, 1e38))]),
        Case::new("channels_4096x256", &[("b", 1), ("h", 1), ("n", 4096), ("m", 256)], Params::default_bytes).for_bench(),
    ],
    vjp: None,
};

/// Records α x + β y into a new transient of their shape.
///
/// Errors: shapes that do not fit, with the caller's place.
#[track_caller]
pub fn record(graph: &mut Graph, name: &str, x: Tensor, y: Tensor, params: Params) -> Result<Tensor> {
    let out = graph.transient(name, x.shape(), DType::F32);
    graph.pass(&SPEC, &params, &[Some(x), Some(y), Some(out)])?;
    Ok(out)
}
