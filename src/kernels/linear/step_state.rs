//! A scan's state in the layout of streaming steps: products and sums of keys side by side.
//!
//! `out[l]` = [S`[l]`, z`[l]`]; `state` `[b, h, s]` of r × e products S and r sums of keys z (see [`chunks`](super::chunks)), `out`
//! `[b, h, r, w]`, w = e + 1. Of a two-sided state, s = 2 r w, the first half is taken, which ran forward.

use crate::error::Result;
use crate::kernel::wgsl_module::GROUP;
use crate::kernel::*;
use crate::{cuda_shared, cuda_source, reference};
use crate::tensor::Dims;

fn check(dims: &Dims, _: &[u8]) -> std::result::Result<(), String> {
    let [s, r, w] = ["s", "r", "w"].map(|d| u64::from(dims.size(d)));
    let one = r * w;
    if w > 0 && (s == one || s == 2 * one) { Ok(()) } else { Err(format!("s is r · w = {one} or twice that, w at least 1; got s = {s}, w = {w}")) }
}

fn reference<T: Real>(args: &mut HostArgs<T>) -> Result<()> {
    let [s, r, w] = ["s", "r", "w"].map(|d| args.dims.at(d));
    let state = args.real("state");
    let e = w.saturating_sub(1);
    let out = reference::rows(args.dims.batches() as usize, r, w, |batch, l, line| {
        let (products, sums) = state[batch * s..][..s].split_at(r * e);
        line[..e].copy_from_slice(&products[l * e..][..e]);
        line[e] = sums[l];
    });
    args.set("out", out);
    Ok(())
}

/// The kernel's description.
pub static SPEC: KernelSpec = KernelSpec {
    name: "step_state",
    family: "linear",
    formula: "out[l] = [S[l], z[l]]",
    source: "definition",
    ports: &[Port::read("state", &["b", "h", "s"]), Port::write("out", &["b", "h", "r", "w"])],
    params: params::NoParams::FIELDS,
    defaults: Vec::new,
    output_dims: None,
    check,
    wgpu: OnWgpu::Shader(&[Variant::only(
        "linear/step_state.wgsl",
        include_str!("../../../shaders/linear/step_state.wgsl"),
        &[GROUP],
        |d, batches| batches * (u64::from(d.size("r")) * u64::from(d.size("w"))).div_ceil(64),
        |d, _| Loads { storage: f64::from(d.size("r")) * f64::from(d.size("w")), ..Loads::default() },
    )]),
    cuda: OnCuda::Source(&[cuda_source!("linear/step_state.cu", 256, |d, _| {
        d.batches() * (u64::from(d.size("r")) * u64::from(d.size("w"))).div_ceil(256)
    })
    .with(&[cuda_shared!("shared/items.cuh")])]),
    reference: reference!(reference),
    window: whole_heads,
    cost: |d, _| {
        let words = d.batches() as f64 * f64::from(d.size("r")) * f64::from(d.size("w"));
        Cost { flop: 0.0, exp: 0.0, stores: words, bytes: 8.0 * words, ..Cost::default() }
    },
    tolerance: Tolerance::EXACT,
    cases: &[
        Case::new("smallest", &[("b", 1), ("h", 1), ("s", 2), ("r", 1), ("w", 2)], Vec::new),
        Case::new("odd", &[("b", 2), ("h", 3), ("s", 77), ("r", 11), ("w", 7)], Vec::new),
        Case::new("two_sided", &[("b", 1), ("h", 2), ("s", 70), ("r", 5), ("w", 7)], Vec::new),
    ],
    vjp: None,
};
