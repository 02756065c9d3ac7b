//! Adds partial results in a fixed order: the second half of a deterministic reduction without float atomics.
//!
//! `out[c]` = α · factor · Σ_chunk `x[chunk, c]`; `factor` `[b, h, 1]` is one number per head and may be left out.

use crate::error::Result;
use crate::graph::Graph;
use crate::kernel::wgsl_module::GROUP;
use crate::kernel::*;
use crate::tensor::{DType, Tensor};
use crate::{cuda_source, params, reference};

params! {
    /// Parameters of [`SPEC`].
    pub struct Params {
        /// α, factor of all sums
        live alpha: f32 = 1.0,
    }
}

fn reference<T: Real>(args: &mut HostArgs<T>) -> Result<()> {
    let p: Params = args.params();
    let (c, m) = (args.dims.at("c"), args.dims.at("m"));
    let (x, factor) = (args.real("x"), args.real_if("factor"));
    let out = reference::rows(args.dims.batches() as usize, 1, m, |batch, _, line| {
        for (col, sum) in line.iter_mut().enumerate() {
            let total: T = (0..c).map(|chunk| x[(batch * c + chunk) * m + col]).sum();
            *sum = total * T::of(f64::from(p.alpha)) * factor.as_ref().map_or(T::one(), |f| f[batch]);
        }
    });
    args.set("out", out);
    Ok(())
}

/// The kernel's description.
pub static SPEC: KernelSpec = KernelSpec {
    name: "sum_chunks",
    family: "linalg",
    formula: "out[c] = α · factor · Σ_chunk x[chunk,c]",
    source: "definition",
    ports: &[
        Port::read("x", &["b", "h", "c", "m"]),
        Port::read("factor", &["b", "h", "1"]).optional(),
        Port::write("out", &["b", "h", "m"]),
    ],
    params: Params::FIELDS,
    defaults: Params::default_bytes,
    output_dims: None,
    check: any_dims,
    wgpu: OnWgpu::Shader(&[Variant::only(
        "linalg/sum_chunks.wgsl",
        include_str!("../../../shaders/linalg/sum_chunks.wgsl"),
        &[GROUP],
        |d, batches| batches * u64::from(d.size("m").div_ceil(64)),
        |d, _| Loads { storage: f64::from(d.size("c")) * f64::from(d.size("m")), ..Loads::default() },
    ).rounds(|d| u64::from(d.size("c")))]),
    cuda: OnCuda::Source(&[cuda_source!("linalg/sum_chunks.cu", 128, |d, _| {
        d.batches() * u64::from(d.size("m").div_ceil(128))
    })]),
    reference: reference!(reference),
    window: whole_heads,
    cost: |d, _| {
        let words = d.batches() as f64 * f64::from(d.size("c")) * f64::from(d.size("m"));
        let out = d.batches() as f64 * f64::from(d.size("m"));
        Cost { flop: words, exp: 0.0, stores: out, bytes: 4.0 * (words + out), ..Cost::default() }
    },
    tolerance: Tolerance::SUMS,
    cases: &[
        Case::new("smallest", &[("b", 1), ("h", 1), ("c", 1), ("m", 1)], Params::default_bytes).without(&["factor"]),
        Case::new("odd", &[("b", 2), ("h", 3), ("c", 7), ("m", 65)], || Params { alpha: 0.3 }.to_bytes()),
    ],
    vjp: None,
};

/// Records the sums of `x` `[b, h, c, m]` into a new transient `[b, h, m]`.
///
/// Errors: shapes that do not fit, with the caller's place.
#[track_caller]
pub fn record(graph: &mut Graph, name: &str, x: Tensor, factor: Option<Tensor>, alpha: f32) -> Result<Tensor> {
    let out = graph.transient(name, [x.dim(0), x.dim(1), x.dim(3)], DType::F32);
    graph.pass(&SPEC, &Params { alpha }, &[Some(x), factor, Some(out)])?;
    Ok(out)
}
