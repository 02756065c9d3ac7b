//! The default bandwidth λ of a kernel exp(−distance/λ), from the features themselves.

use rayon::prelude::*;

use super::features::{FeatureError, sample_indices};

/// Mean kernel value at which [`default_lambda`] sets the bandwidth.
pub const DEFAULT_MEAN_KERNEL: f64 = 0.1;

/// Most tokens whose pairs [`default_lambda`] looks at.
pub const MAX_LAMBDA_TOKENS: usize = 512;

/// Distance inside the kernel exp(−distance/λ).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Metric {
    /// ‖x − y‖₁, the Laplacian kernel.
    L1,
    /// ‖x − y‖₂², the Gaussian kernel.
    SquaredL2,
}

/// Bandwidth λ per head such that the mean kernel value exp(−distance/λ) over pairs of tokens is `mean_kernel`.
///
/// * `q`: `[h, n, d]`; λ is in the units of the distance.
/// * Pairs: all of at most [`MAX_LAMBDA_TOKENS`] tokens chosen deterministically, a token never with itself.
/// * If so many tokens are equal that no λ gives this mean, equal pairs are left out; if all are equal, or there is one
///   token, λ = 1.
///
/// Errors: [`FeatureError::Zero`], [`FeatureError::Length`], [`FeatureError::NotFinite`], [`FeatureError::Option`] unless 0 < `mean_kernel` < 1.
pub fn default_lambda(
    q: &[f32],
    [heads, n, d]: [usize; 3],
    metric: Metric,
    mean_kernel: f64,
) -> Result<Vec<f64>, FeatureError> {
    for (what, count) in [("heads", heads), ("tokens", n), ("head_dim", d)] {
        if count == 0 {
            return Err(FeatureError::Zero { what });
        }
    }
    let expected = heads * n * d;
    if q.len() != expected {
        return Err(FeatureError::Length { what: "q", expected, got: q.len() });
    }
    if let Some(index) = q.iter().position(|v| !v.is_finite()) {
        return Err(FeatureError::NotFinite { what: "q", index });
    }
    if !(mean_kernel > 0.0 && mean_kernel < 1.0) {
        let expected = "a number between 0 and 1";
        return Err(FeatureError::Option { what: "mean kernel value", got: mean_kernel, expected });
    }
    let tokens = sample_indices(n, MAX_LAMBDA_TOKENS);
    let lambdas = q.par_chunks_exact(n * d).map(|head| {
        let row = |token: usize| &head[token * d..(token + 1) * d];
        let mut distances = Vec::with_capacity(tokens.len() * tokens.len() / 2);
        for (i, &a) in tokens.iter().enumerate() {
            distances.extend(tokens[..i].iter().map(|&b| metric.distance(row(a), row(b))));
        }
        bandwidth(distances, mean_kernel)
    });
    Ok(lambdas.collect())
}

impl Metric {
    /// Distance of two feature vectors.
    pub fn distance(self, x: &[f32], y: &[f32]) -> f64 {
        let differences = x.iter().zip(y).map(|(a, b)| f64::from(*a) - f64::from(*b));
        match self {
            Self::L1 => differences.map(f64::abs).sum(),
            Self::SquaredL2 => differences.map(|v| v * v).sum(),
        }
    }
}

/// λ with mean exp(−distance/λ) = `target`, by bisection of log λ.
pub(crate) fn bandwidth(mut distances: Vec<f64>, target: f64) -> f64 {
    let equal = distances.iter().filter(|&&v| v == 0.0).count();
    if equal as f64 >= target * distances.len() as f64 {
        distances.retain(|&v| v > 0.0);
    }
    if distances.is_empty() {
        return 1.0;
    }
    let mean =
        |lambda: f64| distances.iter().map(|v| (-v / lambda).exp()).sum::<f64>() / distances.len() as f64;
    let largest = distances.iter().copied().fold(0.0, f64::max);
    // At `high` every kernel value is at least the target. `low` is where only equal pairs would count.
    let mut high = (largest / -target.ln()).ln();
    let mut low = high - 60.0;
    for _ in 0..80 {
        let middle = 0.5 * (low + high);
        if mean(middle.exp()) < target { low = middle } else { high = middle }
    }
    (0.5 * (low + high)).exp()
}
