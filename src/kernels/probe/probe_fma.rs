//! How many multiply-adds a device does when nothing else is in the way: the roof of every other kernel's FLOP/s.
//!
//! out\[i\] = Σ over ten chains c of s after 16 · rounds steps s ← factor · s + addend, from s = x\[i\] + c/8.
//!
//! * `x`, `out`: `[b, h, n]`. With |factor| < 1 the chains converge, so that any number of rounds stays exact enough.
//!
//! Ten sums stay in registers everywhere; the variant `many` has 60, as the tiles of products do: a processor must put most of them
//! away and fetch them again.

use crate::numbers::Short;
use crate::kernel::cuda::Source;
use crate::kernel::wgsl_module::GROUP;
use crate::kernel::*;
use crate::tensor::Dims;
use crate::{cuda_source, params, reference};

/// Chains of one thread.
const CHAINS: u32 = 10;
/// Steps of one round.
const STEPS: u32 = 16;
/// Rounds that every driver completes.
const MOST_ROUNDS: u32 = 50_000;

params! {
    /// Parameters of [`SPEC`].
    pub struct Params {
        /// multiplies; below 1 in magnitude
        live factor: f32 = 0.75,
        /// added
        live addend: f32 = 0.125,
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
    match p.factor.abs() < 1.0 && p.addend.is_finite() {
        true => Ok(()),
        false => Err(format!(
            "factor is below 1 in magnitude and addend finite, got {} and {}",
            Short(p.factor), Short(p.addend)
        )),
    }
}

fn reference<T: Real>(args: &mut HostArgs<T>) -> crate::Result<()> {
    let p: Params = args.params();
    let (factor, addend) = (T::of(f64::from(p.factor)), T::of(f64::from(p.addend)));
    let x = args.real("x");
    let chain = |from: T| (0..STEPS * p.rounds).fold(from, |s, _| s * factor + addend);
    let out = reference::rows(1, x.len(), 1, |_, i, line| {
        line[0] = (0..CHAINS).map(|c| chain(x[i] + T::of(f64::from(c) / 8.0))).sum();
    });
    args.set("out", out);
    Ok(())
}

/// The kernel's description.
pub static SPEC: KernelSpec = KernelSpec {
    name: "probe_fma",
    family: "probe",
    formula: "out = Σ_c s_c after 16 · rounds steps s ← factor · s + addend from x + c/8, c < 10",
    source: "definition",
    ports: &[Port::read("x", &["b", "h", "n"]), Port::write("out", &["b", "h", "n"])],
    params: Params::FIELDS,
    defaults: Params::default_bytes,
    output_dims: None,
    check,
    wgpu: OnWgpu::Shader(&[
        Variant {
            name: "registers",
            ..Variant::only(
                "probe/probe_fma.wgsl",
                include_str!("../../../shaders/probe/probe_fma.wgsl"),
                &[GROUP],
                |d, batches| batches * u64::from(d.size("n").div_ceil(64)),
                |d, _| Loads { storage: f64::from(d.size("n")), ..Loads::default() },
            )
        },
        Variant {
            name: "many",
            preferred_on: &[],
            ..Variant::only(
                "probe/probe_fma_many.wgsl",
                include_str!("../../../shaders/probe/probe_fma_many.wgsl"),
                &[GROUP],
                |d, batches| batches * u64::from(d.size("n").div_ceil(384)),
                |d, _| Loads { storage: f64::from(d.size("n")), ..Loads::default() },
            )
        },
    ]),
    cuda: OnCuda::Source(&[
        Source {
            name: "registers",
            constants: |_| vec![("PLACES", Constant::U32(1))],
            ..cuda_source!("probe/probe_fma.cu", 128, |d, _| {
                (d.batches() * u64::from(d.size("n"))).div_ceil(128)
            })
        },
        Source {
            name: "many",
            constants: |_| vec![("PLACES", Constant::U32(6))],
            ..cuda_source!("probe/probe_fma.cu", 128, |d, _| {
                (d.batches() * u64::from(d.size("n"))).div_ceil(768)
            })
        },
    ]),
    reference: reference!(reference),
    window: whole_heads,
    cost: |d, params| {
        let n = d.batches() as f64 * f64::from(d.size("n"));
        let steps = f64::from(STEPS) * f64::from(Params::from_bytes(params).rounds);
        Cost { flop: n * 2.0 * f64::from(CHAINS) * steps, exp: 0.0, stores: n, bytes: 8.0 * n, ..Cost::default() }
    },
    tolerance: Tolerance::SUMS,
    cases: &[
        Case::new("smallest", &[("b", 1), ("h", 1), ("n", 1)], Params::default_bytes),
        Case::new("odd", &[("b", 2), ("h", 3), ("n", 67)], || {
            Params { rounds: 3, ..Params::default() }.to_bytes()
        }),
        Case::new("peak", &[("b", 1), ("h", 1), ("n", 65_536)], || {
            Params { rounds: 200, ..Params::default() }.to_bytes()
        })
        .for_bench(),
    ],
    vjp: None,
};
