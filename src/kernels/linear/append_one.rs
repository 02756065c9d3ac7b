//! Values with a ones column: the denominator of linear attention is then one more value channel.
//!
//! `out[i]` = [`x[i]`, 1] where token i is kept, zeros elsewhere; `x` `[b, h, n, e]`, out `[b, h, n, e + 1]`.

use crate::error::Result;
use crate::graph::Graph;
use crate::kernel::wgsl_module::{BYTES, GROUP};
use crate::kernel::*;
use crate::kernels::laplacian::kernel_matrix::kept;
use crate::{cuda_shared, cuda_source, reference};
use crate::tensor::{DType, Dims, Tensor};

/// Whether `p` is one more than `e`.
pub fn check_width(dims: &Dims, _: &[u8]) -> std::result::Result<(), String> {
    let (e, p) = (dims.size("e"), dims.size("p"));
    if u64::from(p) == u64::from(e) + 1 { Ok(()) } else { Err(format!("p is e + 1 = {}, got {p}", u64::from(e) + 1)) }
}

fn reference<T: Real>(args: &mut HostArgs<T>) -> Result<()> {
    let (n, e) = (args.dims.at("n"), args.dims.at("e"));
    let x = args.real("x");
    let shared = &*args;
    let out = reference::rows(args.dims.batches() as usize, n, e + 1, |batch, i, line| {
        if kept(shared, "keep", batch, i) {
            line[..e].copy_from_slice(&x[(batch * n + i) * e..][..e]);
            line[e] = T::one();
        }
    });
    args.set("out", out);
    Ok(())
}

/// The kernel's description.
pub static SPEC: KernelSpec = KernelSpec {
    name: "append_one",
    family: "linear",
    formula: "out[i] = [x[i], 1], 0 where token i is masked",
    source: "definition",
    ports: &[
        Port::read("x", &["b", "h", "n", "e"]),
        Port::read("keep", &["b", "h", "n"]).of(DType::U8).broadcast().optional(),
        Port::write("out", &["b", "h", "n", "p"]),
    ],
    params: params::NoParams::FIELDS,
    defaults: Vec::new,
    output_dims: Some(|dims, _| dims.set("p", dims.size("e") + 1)),
    check: check_width,
    wgpu: OnWgpu::Shader(&[Variant::only(
        "linear/append_one.wgsl",
        include_str!("../../../shaders/linear/append_one.wgsl"),
        &[GROUP, BYTES],
        |d, batches| batches * (u64::from(d.size("n")) * u64::from(d.size("p"))).div_ceil(64),
        |d, _| Loads { storage: f64::from(d.size("n")) * f64::from(d.size("p")), ..Loads::default() },
    )]),
    cuda: OnCuda::Source(&[cuda_source!("linear/append_one.cu", 256, |d, _| {
        d.batches() * (u64::from(d.size("n")) * u64::from(d.size("p"))).div_ceil(256)
    })
    .with(&[cuda_shared!("shared/items.cuh")])]),
    reference: reference!(reference),
    window: by_rows,
    cost: |d, _| {
        let words = d.batches() as f64 * f64::from(d.size("n")) * f64::from(d.size("p"));
        Cost { flop: 0.0, exp: 0.0, stores: words, bytes: 8.0 * words, ..Cost::default() }
    },
    tolerance: Tolerance::EXACT,
    cases: &[
        Case::new("smallest", &[("b", 1), ("h", 1), ("n", 1), ("e", 1), ("p", 2)], Vec::new).without(&["keep"]),
        Case::new("odd", &[("b", 2), ("h", 3), ("n", 17), ("e", 6), ("p", 7)], Vec::new),
        Case::new("masked_garbage", &[("b", 1), ("h", 2), ("n", 65), ("e", 3), ("p", 4)], Vec::new)
            .filled(&[("keep", Fill::Value(0.0)), ("x", Fill::Value(3e38))]).shared(&["keep"]),
    ],
    vjp: None,
};

/// Records values with their ones column into a new transient.
///
/// Errors: shapes that do not fit, with the caller's place.
#[track_caller]
pub fn record(graph: &mut Graph, x: Tensor, keep: Option<Tensor>) -> Result<Tensor> {
    let out = graph.transient("values and ones", [x.dim(0), x.dim(1), x.dim(2), x.dim(3) + 1], DType::F32);
    graph.pass(&SPEC, &params::NoParams {}, &[Some(x), keep, Some(out)])?;
    Ok(out)
}
