//! Which way a masked attention goes: pair by pair, or by Fourier transforms.
//!
//! Both costs are counted from shapes and multiplied by what a pair and a transformed channel were measured to cost on the kind
//! of driver at hand. Only their ratio matters; a wrong guess near the crossover costs little, far from it nothing is wrong.

use super::grid::Grid;
use super::toeplitz_attention_fused;
use crate::kernel::{Caps, Driver};
use crate::kernels::fft::plan;
use crate::numbers::significant;
use std::fmt;
use std::ops::Range;

/// A way to compute masked attention.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Path {
    /// The cheaper one.
    #[default]
    Auto,
    /// Every pair of query and key within the table's support.
    Pairs,
    /// The block-Toeplitz product by Fourier transforms, with the noise guard: the cheaper of the next two.
    Fourier,
    /// Transforms in workgroup memory, where they fit: [`toeplitz_attention_fused`].
    Fused,
    /// Transforms that pass over memory: [`toeplitz_attention_sums`](super::toeplitz_attention_sums).
    Passes,
}

impl Path {
    /// Its number in kernel parameters.
    pub fn number(self) -> u32 {
        self as u32
    }
}

impl fmt::Display for Path {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Auto => "auto",
            Self::Pairs => "pairs",
            Self::Fourier => "fourier",
            Self::Fused => "fused",
            Self::Passes => "passes",
        })
    }
}

/// What the ways would cost, and which is taken.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Plan {
    /// The cheaper way: pairs or Fourier transforms.
    pub chosen: Path,
    /// Whether the Fourier way would keep its transforms in workgroup memory.
    pub fused: bool,
    /// Estimated milliseconds of one head pair by pair, processor time on drivers that compute on the CPU.
    pub pairs_ms: f64,
    /// The same by Fourier transforms, the guard included, no row computed again.
    pub fourier_ms: f64,
}

impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { chosen, fused, pairs_ms, fourier_ms } = self;
        let kind = if *fused { "fused" } else { "fourier" };
        let [pairs, fourier] = [*pairs_ms, *fourier_ms].map(|ms| significant(ms, 3));
        write!(f, "{chosen} (estimated per head: pairs {pairs} ms, {kind} {fourier} ms)")
    }
}

/// What work costs on a kind of driver, in nanoseconds.
struct Costs {
    /// A pair of query and key, apart from its features and columns.
    pair: f64,
    /// One feature or value column of a pair.
    pair_column: f64,
    /// A word moved by the passes of the transforms.
    word: f64,
    /// How many times as much in a pass of radix 64.
    times_64: f64,
    /// A word read or written in workgroup memory by such passes.
    fused_word: f64,
    /// Whatever the size: dispatches and copies.
    fixed: f64,
    /// The same where the transforms are one dispatch.
    fused_fixed: f64,
}

/// Measured: software drivers on two processor cores. For GPUs reckoned from arithmetic and bandwidths of a middling card, whose
/// workgroup memory moves 1.6e12 words a second; the arithmetic of a transform takes it as long again.
fn costs(driver: Driver) -> Costs {
    match driver {
        Driver::Llvmpipe => {
            Costs { pair: 2.0, pair_column: 0.165, word: 0.6, times_64: 2.1, fused_word: 1.8, fixed: 5e5, fused_fixed: 5e5 }
        }
        Driver::SwiftShader => {
            Costs { pair: 12.0, pair_column: 0.9, word: 2.7, times_64: 1.3, fused_word: 9.0, fixed: 2e6, fused_fixed: 2e6 }
        }
        Driver::Gpu => {
            Costs { pair: 5e-4, pair_column: 3e-4, word: 0.02, times_64: 1.0, fused_word: 1.3e-3, fixed: 1e5, fused_fixed: 6e4 }
        }
    }
}

/// Plans one head of masked attention: `pairs` pairs within the support on a grid of `sides`, `r` features, `e` value columns.
pub fn plan(caps: &Caps, sides: [u32; 3], pairs: f64, r: u32, e: u32) -> Plan {
    plan_of(caps, &[(sides, 1)], pairs, r, e)
}

/// Plans one head whose tokens are several grids, as packed sequences are: the sides of their transforms, and how many of each.
pub fn plan_of(caps: &Caps, grids: &[([u32; 3], u32)], pairs: f64, r: u32, e: u32) -> Plan {
    let costs = costs(caps.driver);
    let pairs_ns = pairs * (costs.pair + costs.pair_column * (f64::from(r) + f64::from(e)));
    let (mut fourier_ns, mut fused) = (0.0, !grids.is_empty());
    for &(sides, copies) in grids {
        let (ns, is_fused) = fourier(caps, sides, copies, r, e);
        fourier_ns += ns;
        fused &= is_fused;
    }
    let chosen = if pairs_ns <= fourier_ns || grids.is_empty() { Path::Pairs } else { Path::Fourier };
    Plan { chosen, fused, pairs_ms: pairs_ns * 1e-6, fourier_ms: fourier_ns * 1e-6 }
}

/// Pairs of packed sequences of which each row visits `most` keys at most.
pub fn pairs_of_sequences(sequences: &[Range<u32>], most: u64) -> f64 {
    sequences.iter().map(|range| (range.end - range.start, u64::from(range.end - range.start).min(most))).map(|(n, keys)| f64::from(n) * keys as f64).sum()
}

/// Whether the transforms of a grid are better kept in workgroup memory.
pub fn fuses(caps: &Caps, sides: [u32; 3], r: u32, e: u32) -> bool {
    fourier(caps, sides, 1, r, e).1
}

/// Nanoseconds by Fourier transforms on `copies` grids of `sides`, and whether they stay in workgroup memory.
fn fourier(caps: &Caps, sides: [u32; 3], copies: u32, r: u32, e: u32) -> (f64, bool) {
    let costs = costs(caps.driver);
    let grid = Grid { sides, torus: false, transpose: false };
    let passes = plan::filter(sides, grid.lengths(), plan::Strategy::of(caps.driver, 4));
    // Two channels share a complex number, which is two words; lifting and contracting move each channel three times more.
    let tokens: f64 = sides.iter().map(|&n| f64::from(n)).product();
    let channels = f64::from(copies) * f64::from(r) * (f64::from(e) + 1.0);
    let moved = plan::weighed_words(&passes, sides, |pass| if pass.radix == 64 { costs.times_64 } else { 1.0 });
    let passes_ns = channels * (moved + 3.0 * tokens) * costs.word + costs.fixed;
    let fused_ns = toeplitz_attention_fused::fits(sides, caps).then(|| {
        channels * toeplitz_attention_fused::words_per_channel(sides) * costs.fused_word + costs.fused_fixed
    });
    match fused_ns {
        Some(ns) if ns < passes_ns => (ns, true),
        _ => (passes_ns, false),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// WebGPU's default limits.
    fn caps(driver: Driver) -> Caps {
        Caps {
            driver,
            workgroup_bytes: 16_384,
            invocations: 256,
            storage_binding: 128 << 20,
            buffer: 256 << 20,
            storage_buffers: 8,
            texture_rows: 8192,
            storage_alignment: 256,
            groups: 65_535,
            loop_rounds: u64::MAX,
            subgroup_lanes: 0,
            memory_budget: 1 << 30,
        }
    }

    #[test]
    fn gpus_keep_transforms_in_workgroup_memory_where_they_fit() {
        let fused = |driver, sides: [u32; 3]| {
            let n: f64 = sides.iter().map(|&n| f64::from(n)).product();
            plan(&caps(driver), sides, n * n, 32, 32).fused
        };
        for (sides, fits) in [([1, 1, 1024], true), ([1, 16, 16], true), ([4, 8, 8], true), ([1, 1, 1025], false), ([1, 17, 32], false)]
        {
            assert_eq!(fused(Driver::Gpu, sides), fits, "{sides:?} on a GPU");
            assert!(!fused(Driver::Llvmpipe, sides), "{sides:?} on llvmpipe");
            assert!(!fused(Driver::SwiftShader, sides), "{sides:?} on SwiftShader");
        }
    }
}
