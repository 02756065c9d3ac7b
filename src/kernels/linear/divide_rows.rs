//! The end of linear attention: numerators divided by the denominator in the last column.
//!
//! `out[i, c]` = `x[i, c]` / `x[i, e]`; rows whose denominator is 0 (no key) or that the query mask leaves out are zeros.
//! `x` `[b, h, n, e + 1]`, `out` `[b, h, n, e]`, `den` `[b, h, n]` the denominators, 0 for rows left out. Nothing is added to a
//! denominator and none is clamped: what is wrong stays visible.

use super::append_one::check_width;
use crate::error::Result;
use crate::kernel::wgsl_module::{BYTES, GROUP};
use crate::kernel::*;
use crate::kernels::laplacian::kernel_matrix::kept;
use crate::{cuda_shared, cuda_source, reference};
use crate::tensor::{DType, Dims, HostData};

/// Numerators over a denominator, zeros where that is 0.
pub fn divided<T: Real>(values: &mut [T], den: T) {
    for value in values {
        *value = if den == T::zero() { T::zero() } else { *value / den };
    }
}

fn reference<T: Real>(args: &mut HostArgs<T>) -> Result<()> {
    let (n, e) = (args.dims.at("n"), args.dims.at("e"));
    let x = args.real("x");
    let shared = &*args;
    let lines = reference::rows(args.dims.batches() as usize, n, e + 1, |batch, i, line| {
        if kept(shared, "query_mask", batch, i) {
            line.copy_from_slice(&x[(batch * n + i) * (e + 1)..][..e + 1]);
            let den = line[e];
            divided(&mut line[..e], den);
        }
    });
    args.set("out", lines.chunks_exact(e + 1).flat_map(|line| &line[..e]).copied().collect());
    args.set("den", lines.chunks_exact(e + 1).map(|line| line[e]).collect());
    Ok(())
}

/// Positive numbers, but 0 in the last column of every third row.
fn some_empty(dims: &Dims) -> HostData {
    let p = dims.at("p");
    let number = |i: usize| if i % p == p - 1 && (i / p).is_multiple_of(3) { 0.0 } else { 0.5 + ((i * 37) % 101) as f32 / 50.0 };
    HostData::F32((0..dims.batches() as usize * dims.at("n") * p).map(number).collect())
}

/// The kernel's description.
pub static SPEC: KernelSpec = KernelSpec {
    name: "divide_rows",
    family: "linear",
    formula: "out[i,c] = x[i,c] / x[i,e], 0 where x[i,e] = 0",
    source: "definition",
    ports: &[
        Port::read("x", &["b", "h", "n", "p"]),
        Port::read("query_mask", &["b", "h", "n"]).of(DType::U8).broadcast().optional(),
        Port::write("out", &["b", "h", "n", "e"]),
        Port::write("den", &["b", "h", "n"]).optional(),
    ],
    params: params::NoParams::FIELDS,
    defaults: Vec::new,
    output_dims: Some(|dims, _| dims.set("e", dims.size("p").saturating_sub(1))),
    check: check_width,
    wgpu: OnWgpu::Shader(&[Variant::only(
        "linear/divide_rows.wgsl",
        include_str!("../../../shaders/linear/divide_rows.wgsl"),
        &[GROUP, BYTES],
        |d, batches| batches * (u64::from(d.size("n")) * u64::from(d.size("p"))).div_ceil(64),
        |d, _| Loads { storage: 2.0 * f64::from(d.size("n")) * f64::from(d.size("p")), ..Loads::default() },
    )]),
    cuda: OnCuda::Source(&[cuda_source!("linear/divide_rows.cu", 256, |d, _| {
        d.batches() * (u64::from(d.size("n")) * u64::from(d.size("p"))).div_ceil(256)
    })
    .with(&[cuda_shared!("shared/items.cuh")])]),
    reference: reference!(reference),
    window: by_rows,
    cost: |d, _| {
        let words = d.batches() as f64 * f64::from(d.size("n")) * f64::from(d.size("p"));
        Cost { flop: words, exp: 0.0, stores: words, bytes: 8.0 * words, ..Cost::default() }
    },
    tolerance: Tolerance::SUMS,
    cases: &[
        Case::new("smallest", &[("b", 1), ("h", 1), ("n", 1), ("p", 2), ("e", 1)], Vec::new).without(&["query_mask", "den"])
            .filled(&[("x", Fill::Uniform(0.5, 2.0))]),
        Case::new("odd", &[("b", 2), ("h", 3), ("n", 17), ("p", 6), ("e", 5)], Vec::new).filled(&[("x", Fill::Made(some_empty))]),
        Case::new("empty_rows", &[("b", 1), ("h", 2), ("n", 65), ("p", 34), ("e", 33)], Vec::new).without(&["query_mask"])
            .filled(&[("x", Fill::Made(some_empty))]),
        Case::new("all_left_out", &[("b", 1), ("h", 2), ("n", 5), ("p", 4), ("e", 3)], Vec::new)
            .filled(&[("x", Fill::Value(3e38)), ("query_mask", Fill::Value(0.0))]).shared(&["query_mask"]),
    ],
    vjp: None,
};
