//! How far apart a head's tokens are, under both distances, and which bandwidths make the two kernels comparable.

use crate::explorer::snapshot::Distances;
use crate::vision::bandwidth::{Metric, bandwidth};
use crate::vision::features::FeatureError;
use rayon::prelude::*;

/// Bins of a histogram.
pub const BINS: usize = 64;

/// Histograms of ‖q − k‖₁ and ‖q − k‖² over pairs of tokens, and λ of the kernel that is not in use such that its mean
/// value over the same pairs is that of the one in use. Per head.
///
/// * `features`: `[h, n, d]`; q = k, a token never with itself.
/// * `metric` is the distance of the kernel in use and `lambda` its bandwidth, per head or one for all.
/// * All pairs where there are at most `sample_pairs`; otherwise that many, drawn by a fixed sequence, the same for
///   all heads, so that equal features give equal histograms.
/// * With fewer than two tokens the histograms are empty.
///
/// Errors: [`FeatureError::Zero`], [`FeatureError::Length`], [`FeatureError::NotFinite`], and
/// [`FeatureError::Option`] for a bandwidth that is not positive.
pub fn distances(
    features: &[f32],
    [heads, n, d]: [usize; 3],
    metric: Metric,
    lambda: &[f32],
    sample_pairs: usize,
) -> Result<Vec<Distances>, FeatureError> {
    for (what, count) in [("heads", heads), ("tokens", n), ("head_dim", d), ("sample_pairs", sample_pairs)] {
        if count == 0 {
            return Err(FeatureError::Zero { what });
        }
    }
    let expected = heads * n * d;
    if features.len() != expected {
        return Err(FeatureError::Length { what: "features", expected, got: features.len() });
    }
    if let Some(index) = features.iter().position(|v| !v.is_finite()) {
        return Err(FeatureError::NotFinite { what: "features", index });
    }
    if lambda.len() != heads && lambda.len() != 1 {
        return Err(FeatureError::Length { what: "lambda", expected: heads, got: lambda.len() });
    }
    if let Some(&got) = lambda.iter().find(|l| !(l.is_finite() && **l > 0.0)) {
        let expected = "a finite number above 0";
        return Err(FeatureError::Option { what: "lambda", got: got.into(), expected });
    }
    let pairs = pairs(n, sample_pairs);
    let of_head = |(head, features): (usize, &[f32])| {
        let lambda = f64::from(if lambda.len() == 1 { lambda[0] } else { lambda[head] });
        one_head(features, d, metric, lambda, &pairs)
    };
    Ok(features.par_chunks_exact(n * d).enumerate().map(of_head).collect())
}

fn one_head(features: &[f32], d: usize, metric: Metric, lambda: f64, pairs: &[(u32, u32)]) -> Distances {
    let token = |t: u32| &features[t as usize * d..(t as usize + 1) * d];
    let measured = |metric: Metric| -> Vec<f64> {
        pairs.iter().map(|&(a, b)| metric.distance(token(a), token(b))).collect()
    };
    let (l1, l2) = (measured(Metric::L1), measured(Metric::SquaredL2));
    let (own, other) = if metric == Metric::L1 { (&l1, &l2) } else { (&l2, &l1) };
    let matched = matching(own, lambda, other);
    let (lambda_laplacian, lambda_gaussian) =
        if metric == Metric::L1 { (lambda, matched) } else { (matched, lambda) };
    let ((l1, l1_end), (l2, l2_end)) = (histogram(&l1), histogram(&l2));
    Distances { l1, l1_end, l2, l2_end, lambda_laplacian, lambda_gaussian, pairs: pairs.len() as u64 }
}

/// λ of a kernel on `other` whose mean value is that of the kernel on `own`.
fn matching(own: &[f64], lambda: f64, other: &[f64]) -> f64 {
    let count = own.len().max(1) as f64;
    let mean = own.iter().map(|x| (-x / lambda).exp()).sum::<f64>() / count;
    let equal = other.iter().filter(|&&x| x == 0.0).count() as f64 / count;
    // Between "only equal pairs count" and "all pairs are equal" there is one such λ; at the ends any will do, so the
    // two distances are scaled alike.
    if mean > equal && mean < 1.0 {
        return bandwidth(other.to_vec(), mean);
    }
    let sum = |list: &[f64]| list.iter().sum::<f64>();
    if sum(own) > 0.0 { lambda * sum(other) / sum(own) } else { lambda }
}

/// Counts in [`BINS`] equal bins from 0 to the largest value, and where the last one ends.
fn histogram(values: &[f64]) -> (Vec<u32>, f64) {
    let largest = values.iter().copied().fold(0.0, f64::max);
    let end = if largest > 0.0 { largest } else { 1.0 };
    let mut counts = vec![0; BINS];
    for value in values {
        counts[((value / end * BINS as f64) as usize).min(BINS - 1)] += 1;
    }
    (counts, end)
}

/// Pairs of different tokens: all of them, or `most` from a fixed sequence of well-mixed numbers.
fn pairs(n: usize, most: usize) -> Vec<(u32, u32)> {
    let n = n.min(u32::MAX as usize) as u64;
    if n * n.saturating_sub(1) / 2 <= most as u64 {
        return (1..n as u32).flat_map(|a| (0..a).map(move |b| (a, b))).collect();
    }
    let pair = |index: u64| {
        let bits = mixed(index);
        // The high half picks a token, the low half the way from it to the other, which is never 0.
        let first = ((bits >> 32) * n) >> 32;
        let way = 1 + (((bits & 0xffff_ffff) * (n - 1)) >> 32);
        (first as u32, ((first + way) % n) as u32)
    };
    (0..most as u64).map(pair).collect()
}

/// A bijection of 64-bit numbers whose outputs look independent: multiply and fold, twice, off a counter in steps of
/// the golden ratio.
fn mixed(index: u64) -> u64 {
    let mut x = (index + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}
