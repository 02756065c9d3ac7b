//! How many absolute differences a device does: the roof of kernels by L1 distance, which are two operations for each coordinate.
//!
//! out\[i\] = Σ over eight chains c of s after 16 · rounds steps s ← height − |s − centre|, from s = x\[i\] + c/8.
//!
//! * `x`, `out`: `[b, h, n]`. The chains neither grow nor shrink their errors: each step is a shift or a reflection.

use crate::kernel::wgsl_module::GROUP;
use crate::kernel::*;
use crate::tensor::Dims;
use crate::{cuda_source, params, reference};

/// Chains of one thread.
const CHAINS: u32 = 8;
/// Steps of one round.
const STEPS: u32 = 16;
/// Rounds that every driver completes.
const MOST_ROUNDS: u32 = 50_000;

params! {
    /// Parameters of [`SPEC`].
    pub struct Params {
        /// what numbers are compared with
        live centre: f32 = 0.5,
        /// what the distance is taken from
        live height: f32 = 1.0,
        /// rounds of 16 steps
        live rounds: u32 = 1,
    }
}

fn check(_: &Dims, params: &[u8]) -> std::result::Result<(), String> {
    let p = Params::from_bytes(params);
    // llvmpipe ends longer loops without any error.
    if p.rounds > MOST_ROUNDS {
        return Err(format!("rounds is at most {MOST_ROUNDS}, got {}", p.rounds));
    }
    match p.centre.is_finite() && p.height.is_finite() {
        true => Ok(()),
        false => Err(format!("centre and height are finite, got {} and {}", p.centre, p.height)),
    }
}

fn reference<T: Real>(args: &mut HostArgs<T>) -> crate::Result<()> {
    let p: Params = args.params();
    let (centre, height) = (T::of(f64::from(p.centre)), T::of(f64::from(p.height)));
    let x = args.real("x");
    let chain = |from: T| (0..STEPS * p.rounds).fold(from, |s, _| height - (s - centre).abs());
    let out = reference::rows(1, x.len(), 1, |_, i, line| {
        line[0] = (0..CHAINS).map(|c| chain(x[i] + T::of(f64::from(c) / 8.0))).sum();
    });
    args.set("out", out);
    Ok(())
}

/// Absolute differences of one run of the kernel.
pub fn differences(dims: &Dims, params: &[u8]) -> f64 {
    let steps = f64::from(STEPS) * f64::from(Params::from_bytes(params).rounds);
    dims.batches() as f64 * f64::from(dims.size("n")) * f64::from(CHAINS) * steps
}

/// The kernel's description.
pub static SPEC: KernelSpec = KernelSpec {
    name: "probe_abs_difference",
    family: "probe",
    formula: "out = Σ_c s_c after 16 · rounds steps s ← height − |s − centre| from x + c/8, c < 8",
    source: "definition",
    ports: &[Port::read("x", &["b", "h", "n"]), Port::write("out", &["b", "h", "n"])],
    params: Params::FIELDS,
    defaults: Params::default_bytes,
    output_dims: None,
    check,
    wgpu: OnWgpu::Shader(&[Variant::only(
        "probe/probe_abs_difference.wgsl",
        include_str!("../../../shaders/probe/probe_abs_difference.wgsl"),
        &[GROUP],
        |d, batches| batches * u64::from(d.size("n").div_ceil(64)),
        |d, _| Loads { storage: f64::from(d.size("n")), ..Loads::default() },
    )]),
    cuda: OnCuda::Source(&[cuda_source!("probe/probe_abs_difference.cu", 128, |d, _| {
        (d.batches() * u64::from(d.size("n"))).div_ceil(128)
    })]),
    reference: reference!(reference),
    window: whole_heads,
    cost: |d, params| {
        let n = d.batches() as f64 * f64::from(d.size("n"));
        Cost { flop: 2.0 * differences(d, params), exp: 0.0, stores: n, bytes: 8.0 * n, ..Cost::default() }
    },
    tolerance: Tolerance::SUMS,
    cases: &[
        Case::new("smallest", &[("b", 1), ("h", 1), ("n", 1)], Params::default_bytes),
        Case::new("odd", &[("b", 2), ("h", 3), ("n", 67)], || {
            Params { rounds: 3, ..Params::default() }.to_bytes()
        }),
        Case::new("peak", &[("b", 1), ("h", 1), ("n", 65_536)], || {
            Params { rounds: 100, ..Params::default() }.to_bytes()
        })
        .for_bench(),
    ],
    vjp: None,
};
