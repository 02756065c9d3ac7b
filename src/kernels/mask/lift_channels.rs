//! Keys and values as channels: what a mask operator multiplies.
//!
//! `out[j, s·(e + 1) + c]` = `k[j, feature + s]` · `v[j, c]`, and for c = e the feature alone: every pair of a feature and a value
//! column is one channel, and a column of ones carries the denominator (method: topological masking, 1.2, steps 1 and 2).
//!
//! * `k` `[b, h, n, r]` mapped keys, `v` `[b, h, n, e]`; features `feature` … `feature` + s of r are taken, so that channels can be
//!   made slice by slice. `key_mask` `[b, h, n]`, may be shared: a left-out key gives zeros, whatever it and its value hold.
//! * `out` `[b, h, n, s, p]` with p = e + 1.

use crate::error::Result;
use crate::kernel::wgsl_module::{BYTES, GROUP};
use crate::kernel::*;
use crate::kernels::laplacian::kernel_matrix::kept;
use crate::tensor::{DType, Dims};
use crate::{params, reference};

params! {
    /// Parameters of [`SPEC`].
    pub struct Params {
        /// first feature of the slice
        live feature: u32 = 0,
    }
}

fn check(dims: &Dims, params: &[u8]) -> std::result::Result<(), String> {
    slice_check(dims, Params::from_bytes(params).feature)
}

/// Whether a slice of features lies within them, and whether there is one column more than values.
pub(super) fn slice_check(dims: &Dims, feature: u32) -> std::result::Result<(), String> {
    let [r, s, e, p] = ["r", "s", "e", "p"].map(|d| dims.size(d));
    if feature.checked_add(s).is_none_or(|end| end > r) {
        return Err(format!("features {feature} … {feature} + {s} are asked for, of {r}"));
    }
    if p != e + 1 {
        return Err(format!("channels have e + 1 = {} columns, got {p}", e + 1));
    }
    Ok(())
}

fn reference<T: Real>(args: &mut HostArgs<T>) -> Result<()> {
    let p: Params = args.params();
    let [n, r, e, s] = ["n", "r", "e", "s"].map(|d| args.dims.at(d));
    let (k, v) = (args.real("k"), args.real("v"));
    let shared = &*args;
    let out = reference::rows(args.dims.batches() as usize, n, s * (e + 1), |batch, j, line| {
        if !kept(shared, "key_mask", batch, j) {
            return;
        }
        let row = batch * n + j;
        for (slot, channel) in line.chunks_mut(e + 1).enumerate() {
            let feature = k[row * r + p.feature as usize + slot];
            for (c, x) in channel.iter_mut().enumerate() {
                *x = if c < e { feature * v[row * e + c] } else { feature };
            }
        }
    });
    args.set("out", out);
    Ok(())
}

fn words(d: &Dims) -> f64 {
    f64::from(d.size("n")) * f64::from(d.size("s")) * f64::from(d.size("p"))
}

const fn sizes(b: u32, h: u32, n: u32, r: u32, e: u32, s: u32) -> [(&'static str, u32); 7] {
    [("b", b), ("h", h), ("n", n), ("r", r), ("e", e), ("s", s), ("p", e + 1)]
}

/// The kernel's description.
pub static SPEC: KernelSpec = KernelSpec {
    name: "lift_channels",
    family: "mask",
    formula: "out[j,s,c] = k[j,f+s] · [v, 1][j,c]",
    source: "Choromanski et al. 2022, Algorithm 1",
    ports: &[
        Port::read("k", &["b", "h", "n", "r"]),
        Port::read("v", &["b", "h", "n", "e"]),
        Port::read("key_mask", &["b", "h", "n"]).of(DType::U8).broadcast().optional(),
        Port::write("out", &["b", "h", "n", "s", "p"]),
    ],
    params: Params::FIELDS,
    defaults: Params::default_bytes,
    output_dims: Some(|dims, params| {
        dims.set("s", dims.size("r").saturating_sub(Params::from_bytes(params).feature));
        dims.set("p", dims.size("e") + 1);
    }),
    check,
    wgpu: OnWgpu::Shader(&[Variant::only(
        "mask/lift_channels.wgsl",
        include_str!("../../../shaders/mask/lift_channels.wgsl"),
        &[GROUP, BYTES],
        |d, batches| batches * (words(d) as u64).div_ceil(64),
        |d| Loads { storage: 2.0 * words(d), ..Loads::default() },
    )]),
    cuda: OnCuda::Absent { reason: "one thread per channel when the CUDA backend is built" },
    reference: reference!(reference),
    window: by_rows,
    cost: |d, _| {
        let out = d.batches() as f64 * words(d);
        let read = d.batches() as f64 * f64::from(d.size("n")) * f64::from(d.size("r") + d.size("e"));
        Cost { flop: out, exp: 0.0, stores: out, bytes: 4.0 * (read + out) }
    },
    tolerance: Tolerance::SUMS,
    cases: &[
        Case::new("smallest", &sizes(1, 1, 1, 1, 1, 1), Params::default_bytes).without(&["key_mask"]),
        Case::new("odd", &sizes(2, 3, 19, 7, 5, 3), || Params { feature: 4 }.to_bytes()),
        Case::new("shared_mask", &sizes(2, 2, 65, 8, 4, 8), Params::default_bytes).shared(&["key_mask"]),
        Case::new("masked_garbage", &sizes(1, 1, 9, 3, 2, 2), Params::default_bytes)
            .filled(&[("key_mask", Fill::Value(0.0)), ("k", Fill::Value(3e38)), ("v", Fill::Value(3e38))]),
        Case::new("head_4096", &sizes(1, 1, 4096, 32, 32, 8), Params::default_bytes).without(&["key_mask"]).for_bench(),
    ],
    vjp: None,
};
