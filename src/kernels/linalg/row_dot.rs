//! Dot products of corresponding rows, and their inverse square roots: variances and degrees.
//!
//! `out[i]` = Σ_c `x[i, c]` `y[i, c]` (y = 1 where it is left out); with `inverse_sqrt`, 1/√(max(that, 0) + offset). The
//! maximum is the method's own: a variance that rounding made negative counts as 0.

use crate::error::Result;
use crate::graph::Graph;
use crate::kernel::cuda::Source;
use crate::kernel::wgsl_module::GROUP;
use crate::kernel::*;
use crate::tensor::{DType, Dims, Tensor};
use crate::{cuda_source, params, reference};

params! {
    /// Parameters of [`SPEC`].
    pub struct Params {
        /// added under the root
        live offset: f32 = 0.0,
        /// 1 for the inverse square root
        fixed inverse_sqrt: u32 = 0,
    }
}

fn reference<T: Real>(args: &mut HostArgs<T>) -> Result<()> {
    let p: Params = args.params();
    let (n, m) = (args.dims.at("n"), args.dims.at("m"));
    let (x, y) = (args.real("x"), args.real_if("y"));
    let out = reference::rows(args.dims.batches() as usize, n, 1, |batch, i, line| {
        let start = (batch * n + i) * m;
        let sum: T = (start..start + m).map(|at| x[at] * y.as_ref().map_or(T::one(), |y| y[at])).sum();
        line[0] = match p.inverse_sqrt {
            0 => sum,
            _ => T::one() / (sum.max(T::zero()) + T::of(f64::from(p.offset))).sqrt(),
        };
    });
    args.set("out", out);
    Ok(())
}

/// Threads of a CUDA block that share a row.
fn lanes(d: &Dims) -> u32 {
    d.size("m").next_power_of_two().clamp(2, 32)
}

/// The kernel's description.
pub static SPEC: KernelSpec = KernelSpec {
    name: "row_dot",
    family: "linalg",
    formula: "out[i] = Σ_c x[i,c] y[i,c], or 1/√(max(Σ, 0) + offset)",
    source: "definition",
    ports: &[
        Port::read("x", &["b", "h", "n", "m"]),
        Port::read("y", &["b", "h", "n", "m"]).optional(),
        Port::write("out", &["b", "h", "n"]),
    ],
    params: Params::FIELDS,
    defaults: Params::default_bytes,
    output_dims: None,
    check: any_dims,
    wgpu: OnWgpu::Shader(&[Variant::only(
        "linalg/row_dot.wgsl",
        include_str!("../../../shaders/linalg/row_dot.wgsl"),
        &[GROUP],
        |d, batches| batches * u64::from(d.size("n").div_ceil(64)),
        |d, _| Loads { storage: 2.0 * f64::from(d.size("n")) * f64::from(d.size("m")), ..Loads::default() },
    ).rounds(|d| u64::from(d.size("m")))]),
    cuda: OnCuda::Source(&[Source {
        constants: |d| vec![("LANES", Constant::U32(lanes(d)))],
        ..cuda_source!("linalg/row_dot.cu", 256, |d, _| {
            (d.batches() * u64::from(d.size("n"))).div_ceil(u64::from(256 / lanes(d)))
        })
    }]),
    reference: reference!(reference),
    window: by_rows,
    cost: |d, _| {
        let words = d.batches() as f64 * f64::from(d.size("n")) * f64::from(d.size("m"));
        Cost { flop: 2.0 * words, exp: 0.0, stores: words / f64::from(d.size("m").max(1)), bytes: 8.0 * words, ..Cost::default() }
    },
    tolerance: Tolerance::SUMS,
    cases: &[
        Case::new("smallest", &[("b", 1), ("h", 1), ("n", 1), ("m", 1)], Params::default_bytes),
        Case::new("odd", &[("b", 2), ("h", 3), ("n", 67), ("m", 49)], Params::default_bytes),
        Case::new("degrees", &[("b", 1), ("h", 2), ("n", 49), ("m", 49)], || Params { offset: 0.01, inverse_sqrt: 1 }.to_bytes())
            .without(&["y"]).filled(&[("x", Fill::Uniform(0.0, 1.0))]),
    ],
    vjp: None,
};

/// Records the dot products into a new transient `[b, h, n]`.
///
/// Errors: shapes that do not fit, with the caller's place.
#[track_caller]
pub fn record(graph: &mut Graph, name: &str, x: Tensor, y: Option<Tensor>, params: Params) -> Result<Tensor> {
    let out = graph.transient(name, [x.dim(0), x.dim(1), x.dim(2)], DType::F32);
    graph.pass(&SPEC, &params, &[Some(x), y, Some(out)])?;
    Ok(out)
}
