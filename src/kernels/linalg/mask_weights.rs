//! A mask as weights that sum to one, so that means over kept tokens need no readback of how many there are.
//!
//! `keep` `[b, h, n]` (bytes) → `weights` `[b, h, n]` = keep / number kept, `inverse` `[b, h, 1]` = 1 / number kept;
//! all zero where nothing is kept.

use crate::error::Result;
use crate::graph::Graph;
use crate::kernel::wgsl_module::{BYTES, GROUP};
use crate::kernel::*;
use crate::kernels::laplacian::kernel_matrix::kept;
use crate::{cuda_source, reference};
use crate::tensor::{DType, Tensor};

fn reference<T: Real>(args: &mut HostArgs<T>) -> Result<()> {
    let (n, batches) = (args.dims.at("n"), args.dims.batches() as usize);
    let mut weights = Vec::with_capacity(batches * n);
    let mut inverse = Vec::with_capacity(batches);
    for batch in 0..batches {
        let flags: Vec<bool> = (0..n).map(|i| kept(args, "keep", batch, i)).collect();
        let count = flags.iter().filter(|k| **k).count();
        let share = if count == 0 { T::zero() } else { T::one() / T::of(count as f64) };
        weights.extend(flags.iter().map(|k| if *k { share } else { T::zero() }));
        inverse.push(share);
    }
    args.set("weights", weights);
    args.set("inverse", inverse);
    Ok(())
}

/// The kernel's description.
pub static SPEC: KernelSpec = KernelSpec {
    name: "mask_weights",
    family: "linalg",
    formula: "weights[i] = keep[i] / Σ keep",
    source: "definition",
    ports: &[
        Port::read("keep", &["b", "h", "n"]).of(DType::U8).broadcast(),
        Port::write("weights", &["b", "h", "n"]),
        Port::write("inverse", &["b", "h", "1"]),
    ],
    params: params::NoParams::FIELDS,
    defaults: Vec::new,
    output_dims: None,
    check: any_dims,
    wgpu: OnWgpu::Shader(&[Variant::only(
        "linalg/mask_weights.wgsl",
        include_str!("../../../shaders/linalg/mask_weights.wgsl"),
        &[GROUP, BYTES],
        |_, batches| batches,
        |d, _| Loads { storage: 2.0 * f64::from(d.size("n")), workgroup: 4096.0, ..Loads::default() },
    ).rounds(|d| 64 + 2 * u64::from(d.size("n").div_ceil(64)))]),
    cuda: OnCuda::Source(&[cuda_source!("linalg/mask_weights.cu", 256, |d, _| d.batches())]),
    reference: reference!(reference),
    window: whole_heads,
    cost: |d, _| {
        let words = d.batches() as f64 * f64::from(d.size("n"));
        Cost { flop: words, exp: 0.0, stores: words, bytes: 5.0 * words, ..Cost::default() }
    },
    tolerance: Tolerance::SUMS,
    cases: &[
        Case::new("smallest", &[("b", 1), ("h", 1), ("n", 1)], Vec::new),
        Case::new("odd", &[("b", 2), ("h", 3), ("n", 131)], Vec::new),
        Case::new("nothing_kept", &[("b", 1), ("h", 2), ("n", 65)], Vec::new).filled(&[("keep", Fill::Value(0.0))]).shared(&["keep"]),
    ],
    vjp: None,
};

/// Records weights `[b, h, n]` and the inverse count `[b, h, 1]` of a mask.
///
/// Errors: shapes that do not fit, with the caller's place.
#[track_caller]
pub fn record(graph: &mut Graph, name: &str, keep: Tensor, b: u32, h: u32) -> Result<(Tensor, Tensor)> {
    let weights = graph.transient(&format!("{name} weights"), [b, h, keep.dim(2)], DType::F32);
    let inverse = graph.transient(&format!("{name} inverse count"), [b, h, 1], DType::F32);
    graph.pass(&SPEC, &params::NoParams {}, &[Some(keep), Some(weights), Some(inverse)])?;
    Ok((weights, inverse))
}
