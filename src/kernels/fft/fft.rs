//! Complex transforms of many lines along one axis, of any length 2ᵃ3ᵇ.
//!
//! forward: out`[k]` = Σⱼ x`[j]` exp(−2πi jk/L); inverse: out`[k]` = (1/L) Σⱼ x`[j]` exp(2πi jk/L).
//!
//! * `x` `[b, h, o, n, a]`: `o` · `a/2` lines of `n` ≤ L numbers, the rest zeros; real and imaginary parts in turn along `a`.
//! * `out` `[b, h, o, l, a]`: the first `l` ≤ L numbers of each transform. L = `length`, or `l` where that is 0.
//!
//! One [`fft_pass`](super::fft_pass) per radix. The reference is rustfft, in f64 and in f32.

use super::plan::{self, Job, Rows, Strategy, Twiddles};
use crate::error::Result;
use crate::graph::Expansion;
use crate::kernel::*;
use crate::params;
use crate::reference;
use crate::tensor::Dims;
use rustfft::num_complex::Complex;

params! {
    /// Parameters of [`SPEC`].
    pub struct Params {
        /// 1: the inverse transform, which carries the factor 1/L
        fixed inverse: u32 = 0,
        /// L, or 0 for the numbers of a line of out
        fixed length: u32 = 0,
    }
}

fn length(d: &Dims, p: &Params) -> u32 {
    if p.length == 0 { d.size("l") } else { p.length }
}

fn reference<T: Real>(args: &mut HostArgs<T>) -> Result<()> {
    let p: Params = args.params();
    let [o, n, l, a] = ["o", "n", "l", "a"].map(|x| args.dims.at(x));
    let long = length(&args.dims, &p) as usize;
    let x = args.real("x");
    let rows = args.dims.batches() as usize * o;
    let mut out = vec![T::zero(); rows * l * a];
    let lines = reference::rows(1, rows * (a / 2), 2 * l, |_, line, numbers| {
        let (row, q) = (line / (a / 2), line % (a / 2));
        let given = (0..long)
            .map(|j| if j < n { [0, 1].map(|c| x[(row * n + j) * a + 2 * q + c]) } else { [T::zero(); 2] });
        for (k, z) in transformed(given.collect(), p.inverse != 0).into_iter().take(l).enumerate() {
            numbers[2 * k..2 * k + 2].copy_from_slice(&z);
        }
    });
    for (line, numbers) in lines.chunks(2 * l).enumerate().filter(|_| l > 0) {
        let (row, q) = (line / (a / 2), line % (a / 2));
        for (k, z) in numbers.chunks(2).enumerate() {
            out[(row * l + k) * a + 2 * q..][..2].copy_from_slice(z);
        }
    }
    args.set("out", out);
    Ok(())
}

/// One transform by the CPU's library, in the precision of the numbers.
pub fn transformed<T: Real>(numbers: Vec<[T; 2]>, inverse: bool) -> Vec<[T; 2]> {
    let scale = if inverse { 1.0 / numbers.len().max(1) as f64 } else { 1.0 };
    let direction = if inverse { rustfft::FftDirection::Inverse } else { rustfft::FftDirection::Forward };
    let len = numbers.len();
    // T is f32 or f64; rustfft wants to see which.
    if std::mem::size_of::<T>() == 4 {
        let mut data: Vec<Complex<f32>> =
            numbers.iter().map(|z| Complex::new(z[0].wide() as f32, z[1].wide() as f32)).collect();
        rustfft::FftPlanner::new().plan_fft(len, direction).process(&mut data);
        data.iter().map(|z| [z.re, z.im].map(|x| T::of(f64::from(x * scale as f32)))).collect()
    } else {
        let mut data: Vec<Complex<f64>> =
            numbers.iter().map(|z| Complex::new(z[0].wide(), z[1].wide())).collect();
        rustfft::FftPlanner::new().plan_fft(len, direction).process(&mut data);
        data.iter().map(|z| [z.re, z.im].map(|x| T::of(x * scale))).collect()
    }
}

fn expand(x: &mut Expansion<'_>) -> Result<()> {
    let p: Params = x.params();
    let [o, n, l, a] = ["o", "n", "l", "a"].map(|d| x.dims.size(d));
    let long = length(x.dims, &p);
    let passes =
        plan::transform(1, long, l, p.inverse != 0, Strategy::of(x.caps.driver, a));
    let job = Job {
        passes: &passes,
        sides: [o, n, 1],
        width: a,
        block: a,
        per: 1,
        scale: if p.inverse != 0 { 1.0 / long as f32 } else { 1.0 },
        spectrum: None,
    };
    let (input, output) = (x.port("x"), x.port("out"));
    let rows = |tensor, numbers| (tensor, [x.dims.size("b"), x.dims.size("h"), numbers, a]);
    let ((input, input_shape), (output, output_shape)) = (rows(input, o * n), rows(output, o * l));
    let from = Rows { tensor: x.graph.reshape(input, input_shape)?, at: 0 };
    let to = Rows { tensor: x.graph.reshape(output, output_shape)?, at: 0 };
    plan::record(x.graph, &mut Twiddles::default(), &job, from, to)
}

fn check(d: &Dims, params: &[u8]) -> std::result::Result<(), String> {
    let p = Params::from_bytes(params);
    let long = length(d, &p);
    if p.inverse > 1 {
        return Err(format!("inverse is 0 or 1, got {}", p.inverse));
    }
    if d.size("a") % 2 == 1 {
        return Err(format!(
            "a line is a pair of words, real and imaginary part: a is even, got {}",
            d.size("a")
        ));
    }
    if plan::radices(long).is_none_or(|list| list.is_empty()) {
        return Err(format!(
            "lengths are 2^a 3^b from 2 to {}, got {long}: embed others in a longer one",
            plan::LONGEST
        ));
    }
    if d.size("n") > long || d.size("l") > long {
        return Err(format!("a line has at most {long} numbers, got {} and {}", d.size("n"), d.size("l")));
    }
    Ok(())
}

/// 5 L log₂ L per line, the usual count, whatever computes it.
pub fn flop(length: u32) -> f64 {
    5.0 * f64::from(length) * f64::from(length).log2()
}

/// The kernel's description.
pub static SPEC: KernelSpec = KernelSpec {
    name: "fft",
    family: "fft",
    formula: "out[k] = Σⱼ x[j] exp(∓2πi jk/L), inverse with 1/L",
    source: "definition",
    ports: &[Port::read("x", &["b", "h", "o", "n", "a"]), Port::write("out", &["b", "h", "o", "l", "a"])],
    params: Params::FIELDS,
    defaults: Params::default_bytes,
    output_dims: Some(|d, params| {
        let p = Params::from_bytes(params);
        d.set("l", if p.length == 0 { d.size("n") } else { p.length });
    }),
    check,
    wgpu: OnWgpu::Expand(expand),
    cuda: OnCuda::Library(
        Library::Fft,
        &crate::cuda_source!("fft/fft.cu", 256, |d, _| {
            (d.batches() * ["o", "l", "a"].map(|x| u64::from(d.size(x))).iter().product::<u64>()).div_ceil(1024)
        }),
    ),
    reference: reference!(reference),
    window: whole_heads,
    cost: |d, params| {
        let long = length(d, &Params::from_bytes(params));
        let [o, n, l, a] = ["o", "n", "l", "a"].map(|x| f64::from(d.size(x)));
        let lines = d.batches() as f64 * o * a / 2.0;
        Cost { flop: lines * flop(long), exp: 0.0, stores: 2.0 * lines * l, bytes: 8.0 * lines * (n + l), ..Cost::default() }
    },
    tolerance: Tolerance {
        factor: 2.0,
        floor: 16.0 * f32::EPSILON as f64,
        reason: "the yardstick is a careful f32 transform with few roundings per number: one more per pass is allowed",
    },
    cases: &[
        Case::new(
            "smallest",
            &[("b", 1), ("h", 1), ("o", 1), ("n", 2), ("l", 2), ("a", 2)],
            Params::default_bytes,
        ),
        Case::new(
            "odd",
            &[("b", 2), ("h", 3), ("o", 5), ("n", 17), ("l", 27), ("a", 6)],
            Params::default_bytes,
        ),
        Case::new("two_passes", &[("b", 1), ("h", 2), ("o", 3), ("n", 64), ("l", 64), ("a", 12)], || {
            Params { inverse: 1, length: 0 }.to_bytes()
        }),
        Case::new("pruned", &[("b", 1), ("h", 2), ("o", 1), ("n", 57), ("l", 55), ("a", 8)], || {
            Params { inverse: 1, length: 128 }.to_bytes()
        }),
        Case::new(
            "threes",
            &[("b", 1), ("h", 1), ("o", 2), ("n", 30), ("l", 54), ("a", 4)],
            Params::default_bytes,
        ),
        Case::new(
            "length_4096",
            &[("b", 1), ("h", 1), ("o", 1), ("n", 4096), ("l", 4096), ("a", 4)],
            Params::default_bytes,
        ),
        Case::new(
            "length_13122",
            &[("b", 1), ("h", 1), ("o", 1), ("n", 13_000), ("l", 13_122), ("a", 2)],
            || Params { inverse: 1, length: 0 }.to_bytes(),
        ),
        Case::new(
            "large_values",
            &[("b", 1), ("h", 1), ("o", 1), ("n", 48), ("l", 48), ("a", 4)],
            Params::default_bytes,
        )
        .filled(&[("x", Fill::Uniform(-1e30, 1e30))]),
        Case::new(
            "lines_512",
            &[("b", 1), ("h", 32), ("o", 1), ("n", 4096), ("l", 4096), ("a", 32)],
            Params::default_bytes,
        )
        .for_bench(),
        Case::new(
            "channels_512",
            &[("b", 1), ("h", 1), ("o", 1), ("n", 4096), ("l", 4096), ("a", 1024)],
            Params::default_bytes,
        )
        .for_bench(),
    ],
    vjp: None,
};
