//! How many of our exponentials a device does: the roof for kernels whose time goes into e^x.
//!
//! out\[i\] = Σ over 4 chains c of s after rounds steps s ← e^−s, from s = x\[i\] + c/4; all run into 0.567.
//!
//! * `x`, `out`: `[b, h, n]`.

use crate::kernel::cuda;
use crate::kernel::wgsl_module::{EXP, GROUP};
use crate::kernel::*;
use crate::{cuda_source, params, reference};

/// Chains of one thread.
const CHAINS: u32 = 4;

params! {
    /// Parameters of [`SPEC`].
    pub struct Params {
        /// steps of each chain
        live rounds: u32 = 1,
    }
}

fn reference<T: Real>(args: &mut HostArgs<T>) -> crate::Result<()> {
    let p: Params = args.params();
    let x = args.real("x");
    let chain = |from: T| (0..p.rounds).fold(from, |s, _| (-s).exp());
    let out = reference::rows(1, x.len(), 1, |_, i, line| {
        line[0] = (0..CHAINS).map(|c| chain(x[i] + T::of(f64::from(c) / 4.0))).sum();
    });
    args.set("out", out);
    Ok(())
}

/// The kernel's description.
pub static SPEC: KernelSpec = KernelSpec {
    name: "probe_exp",
    family: "probe",
    formula: "out = Σ_c s_c after rounds steps s ← exp(−s) from x + c/4, c < 4",
    source: "definition",
    ports: &[Port::read("x", &["b", "h", "n"]), Port::write("out", &["b", "h", "n"])],
    params: Params::FIELDS,
    defaults: Params::default_bytes,
    output_dims: None,
    // llvmpipe ends longer loops without any error.
    check: |_, params| match Params::from_bytes(params).rounds {
        0..=50_000 => Ok(()),
        rounds => Err(format!("rounds is at most 50000, got {rounds}")),
    },
    wgpu: OnWgpu::Shader(&[Variant::only(
        "probe/probe_exp.wgsl",
        include_str!("../../../shaders/probe/probe_exp.wgsl"),
        &[GROUP, EXP],
        |d, batches| batches * u64::from(d.size("n").div_ceil(64)),
        |d, _| Loads { storage: f64::from(d.size("n")), ..Loads::default() },
    )]),
    cuda: OnCuda::Source(&[cuda_source!("probe/probe_exp.cu", 128, |d, _| {
        (d.batches() * u64::from(d.size("n"))).div_ceil(128)
    })
    .with(&[cuda::EXP])]),
    reference: reference!(reference),
    window: whole_heads,
    cost: |d, params| {
        let n = d.batches() as f64 * f64::from(d.size("n"));
        let exp = n * f64::from(CHAINS) * f64::from(Params::from_bytes(params).rounds);
        Cost { flop: 0.0, exp, stores: n, bytes: 8.0 * n, ..Cost::default() }
    },
    tolerance: Tolerance::SUMS,
    cases: &[
        Case::new("smallest", &[("b", 1), ("h", 1), ("n", 1)], Params::default_bytes),
        Case::new("odd", &[("b", 2), ("h", 3), ("n", 67)], || Params { rounds: 5 }.to_bytes()),
        Case::new("peak", &[("b", 1), ("h", 1), ("n", 65_536)], || Params { rounds: 256 }.to_bytes())
            .for_bench(),
    ],
    vjp: None,
};
