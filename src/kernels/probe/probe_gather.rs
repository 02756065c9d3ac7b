//! How many words a device reads from anywhere in memory: the roof of sparse operators, whose neighbours are not near.
//!
//! out\[i\] = Σ over s < 16 of x\[scattered(16 · i + s) mod m\], where `scattered` mixes the bits of a number.
//!
//! * `x`: `[b, h, m]`, m a power of two; `out`: `[b, h, n]`.

use crate::kernel::cuda::Source;
use crate::kernel::wgsl_module::GROUP;
use crate::kernel::*;
use crate::{cuda_source, reference};
use crate::tensor::Dims;

/// Rounds of four words.
const ROUNDS: u32 = 4;
/// Words of one thread.
const WORDS: u32 = 4 * ROUNDS;

/// Mixes the bits of a number as the shader does.
fn scattered(number: u32) -> u32 {
    let z = (number ^ (number >> 16)).wrapping_mul(0x7feb_352d);
    let z = (z ^ (z >> 15)).wrapping_mul(0x846c_a68b);
    z ^ (z >> 16)
}

fn reference<T: Real>(args: &mut HostArgs<T>) -> crate::Result<()> {
    let (x, n, m) = (args.real("x"), args.dims.at("n"), args.dims.at("m"));
    let out = reference::rows(args.dims.batches() as usize, n, 1, |batch, i, line| {
        let word = |s: u32| x[batch * m + scattered((i as u32).wrapping_mul(WORDS) + s) as usize % m];
        line[0] = (0..WORDS).map(word).sum();
    });
    args.set("out", out);
    Ok(())
}

/// The kernel's description.
pub static SPEC: KernelSpec = KernelSpec {
    name: "probe_gather",
    family: "probe",
    formula: "out[i] = Σ_s x[scattered(16 · i + s) mod m], s < 16",
    source: "definition",
    ports: &[Port::read("x", &["b", "h", "m"]), Port::write("out", &["b", "h", "n"])],
    params: &[],
    defaults: Vec::new,
    output_dims: None,
    check: |d, _| match d.size("m") {
        m if m.is_power_of_two() => Ok(()),
        m => Err(format!("`x` has a power of two of words per head, got {m}")),
    },
    wgpu: OnWgpu::Shader(&[Variant {
        constants: |_: &Dims| vec![("ROUNDS", Constant::U32(ROUNDS))],
        ..Variant::only(
            "probe/probe_gather.wgsl",
            include_str!("../../../shaders/probe/probe_gather.wgsl"),
            &[GROUP],
            |d, batches| batches * u64::from(d.size("n").div_ceil(64)),
            |d, _| Loads { storage: f64::from(d.size("n")) * f64::from(WORDS), ..Loads::default() },
        )
    }]),
    cuda: OnCuda::Source(&[Source {
        constants: |_| vec![("ROUNDS", Constant::U32(ROUNDS))],
        ..cuda_source!("probe/probe_gather.cu", 256, |d, _| {
            d.batches() * u64::from(d.size("n").div_ceil(256))
        })
    }]),
    reference: reference!(reference),
    window: whole_heads,
    cost: |d, _| {
        let n = d.batches() as f64 * f64::from(d.size("n"));
        let words = n * f64::from(WORDS);
        Cost { flop: words, exp: 0.0, stores: n, bytes: 4.0 * (n + words), ..Cost::default() }
    },
    tolerance: Tolerance::SUMS,
    cases: &[
        Case::new("smallest", &[("b", 1), ("h", 1), ("m", 1), ("n", 1)], Vec::new),
        Case::new("odd", &[("b", 2), ("h", 3), ("m", 1024), ("n", 67)], Vec::new),
        // 64 MiB: past the caches of today's GPUs.
        Case::new("peak", &[("b", 1), ("h", 1), ("m", 16_777_216), ("n", 1_048_576)], Vec::new).for_bench(),
    ],
    vjp: None,
};
