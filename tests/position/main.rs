//! Stochastic positional encoding on the CPU: against stored arrays of a published program, against its own formulas, and refusals.

mod claims;
mod numbers;
mod phases;
#[path = "../support/spe.rs"]
mod published;
mod refusals;
mod statistics;
mod stored;
mod synthesis;
mod weights;

use wgattn::position::sine::SineSizes;

/// Sizes of a sinusoidal code on a line.
fn sizes(heads: u32, width: u32, sinusoids: u32) -> SineSizes {
    SineSizes { heads, width, sinusoids, axes: 1 }
}

/// Panics at the worst of the places where two lists differ by more than `tolerance` · max|expected|.
#[track_caller]
fn assert_close(got: &[f64], expected: &[f64], tolerance: f64, what: &str) {
    assert_eq!(got.len(), expected.len(), "{what}: number of elements");
    let size = expected.iter().fold(0.0_f64, |m, x| m.max(x.abs()));
    let worst = (0..got.len())
        .max_by(|&i, &j| (got[i] - expected[i]).abs().total_cmp(&(got[j] - expected[j]).abs()))
        .expect("there are elements");
    let gap = (got[worst] - expected[worst]).abs();
    assert!(
        gap <= tolerance * size,
        "{what}: element {worst} is {} and should be {}: off by {:e} of the largest, {tolerance:e} allowed",
        got[worst],
        expected[worst],
        gap / size
    );
}
