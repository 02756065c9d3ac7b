//! Which way a masked attention goes: pair by pair, or by Fourier transforms.
//!
//! Both costs are counted from shapes and multiplied by what a pair and a transformed channel were measured to cost on the kind
//! of driver at hand. Only their ratio matters; a wrong guess near the crossover costs little, far from it nothing is wrong.

use super::grid::Grid;
use crate::kernel::{Caps, Driver};
use crate::kernels::fft::plan;
use std::fmt;

/// A way to compute masked attention.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Path {
    /// The cheaper one.
    #[default]
    Auto,
    /// Every pair of query and key within the table's support.
    Pairs,
    /// The block-Toeplitz product by Fourier transforms, with the noise guard.
    Fourier,
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
        })
    }
}

/// What the ways would cost, and which is taken.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Plan {
    /// The cheaper way.
    pub chosen: Path,
    /// Estimated milliseconds of one head pair by pair, processor time on drivers that compute on the CPU.
    pub pairs_ms: f64,
    /// The same by Fourier transforms, the guard included, no row computed again.
    pub fourier_ms: f64,
}

impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { chosen, pairs_ms, fourier_ms } = self;
        write!(f, "{chosen} (estimated per head: pairs {pairs_ms:.3} ms, fourier {fourier_ms:.3} ms)")
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
    /// Whatever the size: dispatches and copies.
    fixed: f64,
}

/// Measured: software drivers on two processor cores. For GPUs reckoned from arithmetic and memory bandwidth of a middling card.
fn costs(driver: Driver) -> Costs {
    match driver {
        Driver::Llvmpipe => Costs { pair: 2.0, pair_column: 0.165, word: 0.6, fixed: 5e5 },
        Driver::SwiftShader => Costs { pair: 12.0, pair_column: 0.9, word: 2.7, fixed: 2e6 },
        Driver::Gpu => Costs { pair: 5e-4, pair_column: 3e-4, word: 0.02, fixed: 1e5 },
    }
}

/// Plans one head of masked attention: `pairs` pairs within the support on a grid of `sides`, `r` features, `e` value columns.
pub fn plan(caps: &Caps, sides: [u32; 3], pairs: f64, r: u32, e: u32) -> Plan {
    let costs = costs(caps.driver);
    let (r, e) = (f64::from(r), f64::from(e));
    let pairs_ns = pairs * (costs.pair + costs.pair_column * (r + e));
    let grid = Grid { sides, torus: false, transpose: false };
    let passes = plan::filter(sides, grid.lengths(), caps.driver != Driver::Gpu);
    // Two channels share a complex number, which is two words; lifting and contracting move each channel three times more.
    let tokens: f64 = sides.iter().map(|&n| f64::from(n)).product();
    let channels = r * (e + 1.0);
    let words = channels * (plan::words_moved(&passes, sides) as f64 + 3.0 * tokens);
    let fourier_ns = words * costs.word + costs.fixed;
    let chosen = if pairs_ns <= fourier_ns { Path::Pairs } else { Path::Fourier };
    Plan { chosen, pairs_ms: pairs_ns * 1e-6, fourier_ms: fourier_ns * 1e-6 }
}
