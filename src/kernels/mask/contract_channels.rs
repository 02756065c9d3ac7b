//! Masked channels back to rows: what queries see of them.
//!
//! `out[i, c]` = `before[i, c]` + Σₛ `q[i, feature + s]` · `y[i, s, c]` (method: topological masking, 1.2, step 4): numerators, and in the
//! last column the denominator. `before` carries the sums of earlier slices of features.
//!
//! * `q` `[b, h, n, r]`, `y` `[b, h, n, s, p]`, `before`, `out` `[b, h, n, p]`.

use crate::error::Result;
use crate::kernel::wgsl_module::GROUP;
use crate::kernel::*;
use crate::tensor::Dims;
use crate::{params, reference};

params! {
    /// Parameters of [`SPEC`].
    pub struct Params {
        /// first feature of the slice
        live feature: u32 = 0,
    }
}

fn check(dims: &Dims, params: &[u8]) -> std::result::Result<(), String> {
    let (feature, r, s) = (Params::from_bytes(params).feature, dims.size("r"), dims.size("s"));
    match feature.checked_add(s) {
        Some(end) if end <= r => Ok(()),
        _ => Err(format!("features {feature} … {feature} + {s} are asked for, of {r}")),
    }
}

fn reference<T: Real>(args: &mut HostArgs<T>) -> Result<()> {
    let first = args.params::<Params>().feature as usize;
    let [n, r, s, p] = ["n", "r", "s", "p"].map(|d| args.dims.at(d));
    let (q, y, before) = (args.real("q"), args.real("y"), args.real_if("before"));
    let out = reference::rows(args.dims.batches() as usize, n, p, |batch, i, line| {
        let row = batch * n + i;
        for (c, x) in line.iter_mut().enumerate() {
            let begin = before.as_ref().map_or(T::zero(), |b| b[row * p + c]);
            *x = (0..s).fold(begin, |sum, slot| sum + q[row * r + first + slot] * y[(row * s + slot) * p + c]);
        }
    });
    args.set("out", out);
    Ok(())
}

fn products(d: &Dims) -> f64 {
    f64::from(d.size("n")) * f64::from(d.size("s")) * f64::from(d.size("p"))
}

const fn sizes(b: u32, h: u32, n: u32, r: u32, s: u32, p: u32) -> [(&'static str, u32); 6] {
    [("b", b), ("h", h), ("n", n), ("r", r), ("s", s), ("p", p)]
}

/// The kernel's description.
pub static SPEC: KernelSpec = KernelSpec {
    name: "contract_channels",
    family: "mask",
    formula: "out[i,c] = before[i,c] + Σₛ q[i,f+s] · y[i,s,c]",
    source: "Choromanski et al. 2022, Algorithm 1",
    ports: &[
        Port::read("q", &["b", "h", "n", "r"]),
        Port::read("y", &["b", "h", "n", "s", "p"]),
        Port::read("before", &["b", "h", "n", "p"]).optional(),
        Port::write("out", &["b", "h", "n", "p"]),
    ],
    params: Params::FIELDS,
    defaults: Params::default_bytes,
    output_dims: None,
    check,
    wgpu: OnWgpu::Shader(&[Variant::only(
        "mask/contract_channels.wgsl",
        include_str!("../../../shaders/mask/contract_channels.wgsl"),
        &[GROUP],
        |d, batches| batches * (u64::from(d.size("n")) * u64::from(d.size("p"))).div_ceil(64),
        |d| Loads { storage: 2.0 * products(d), ..Loads::default() },
    )
    .rounds(|d| u64::from(d.size("s")))]),
    cuda: OnCuda::Absent { reason: "one thread per column when the CUDA backend is built" },
    reference: reference!(reference),
    window: by_rows,
    cost: |d, _| {
        let (products, batches) = (products(d), d.batches() as f64);
        let out = f64::from(d.size("n")) * f64::from(d.size("p"));
        let q = f64::from(d.size("n")) * f64::from(d.size("s"));
        Cost { flop: 2.0 * batches * products, exp: 0.0, stores: batches * out, bytes: 4.0 * batches * (products + q + out) }
    },
    tolerance: Tolerance::SUMS,
    cases: &[
        Case::new("smallest", &sizes(1, 1, 1, 1, 1, 1), Params::default_bytes).without(&["before"]),
        Case::new("odd", &sizes(2, 3, 19, 7, 3, 6), || Params { feature: 4 }.to_bytes()),
        Case::new("whole_groups", &sizes(1, 2, 64, 8, 8, 4), Params::default_bytes).without(&["before"]),
        Case::new("no_slice", &sizes(1, 1, 5, 4, 0, 3), Params::default_bytes),
        Case::new("head_4096", &sizes(1, 1, 4096, 32, 8, 33), Params::default_bytes).for_bench(),
    ],
    vjp: None,
};
