//! Sums of decaying exponentials, f(d) ≈ Σ w exp(−λ d) with w ≥ 0: what turns any smooth falling weight into a few sweeps of a tree.
//!
//! The rates λ lie evenly on a logarithmic scale; the weights are the non-negative least squares of the *relative* error, so that far
//! and near are fitted alike, and an all-positive sum keeps its relative accuracy. Completely monotone functions (powers of 1 + d, stretched
//! exponentials) are fitted to rounding; steps, Gaussians and functions that rise are not, and the error says so.

use crate::error::{Error, Result};
use nalgebra::{DMatrix, DVector};

/// A sum of exponentials with the error of its fit.
#[derive(Clone, Debug, PartialEq)]
pub struct Exponentials {
    /// (weight, rate), rates falling.
    pub terms: Vec<(f64, f64)>,
    /// Largest relative error on the fitted distances and between them.
    pub error: f64,
}

/// Distances that a fit looks at, at most.
const SAMPLES: usize = 700;
/// Rates per factor of e that it may choose from: the first that is good enough is taken, for it needs the fewest terms. At 5 most
/// completely monotone functions are fitted to rounding, at 9 also those that fall by twenty powers of ten.
const DENSITIES: [f64; 5] = [1.5, 2.0, 3.0, 5.0, 9.0];
/// Denser rates must be this many times better to be worth their terms.
const BETTER: f64 = 4.0;

impl Exponentials {
    /// Fits f on whole distances from 0 to `longest`, all of them up to 128 and then fewer and fewer.
    ///
    /// `rtol`: terms are added until the relative error is below; 0 = as good as it gets, 1e-7 = to f32.
    ///
    /// Errors: [`Error::Value`] for a value of f that is not finite or not above 0.
    pub fn on_steps(f: impl Fn(f64) -> f64, longest: u32, rtol: f64) -> Result<Self> {
        let mut at: Vec<f64> = (0..=longest.min(128)).map(f64::from).collect();
        let far = SAMPLES - 129;
        if longest > 128 {
            let ratio = (f64::from(longest) / 128.0).ln() / far as f64;
            at.extend((1..=far).map(|k| (128.0 * (ratio * k as f64).exp()).round().min(f64::from(longest))));
            at.dedup();
        }
        Self::fit(f, &at, rtol)
    }

    /// Fits f on lengths from 0 to `longest`, evenly on a logarithmic scale from `shortest` on.
    ///
    /// Errors: as [`Self::on_steps`].
    pub fn on_lengths(f: impl Fn(f64) -> f64, shortest: f64, longest: f64, rtol: f64) -> Result<Self> {
        let low = (shortest / 4.0).max(longest * 1e-9);
        if longest <= 0.0 {
            return Self::fit(f, &[0.0], rtol);
        }
        let step = (longest / low).ln() / (SAMPLES - 2) as f64;
        let far = (0..SAMPLES - 1).map(|k| low * (step * k as f64).exp());
        Self::fit(f, &std::iter::once(0.0).chain(far).collect::<Vec<f64>>(), rtol)
    }

    fn fit(f: impl Fn(f64) -> f64, at: &[f64], rtol: f64) -> Result<Self> {
        let values: Vec<f64> = at.iter().map(|d| f(*d)).collect();
        if let Some(bad) = values.iter().position(|v| !(v.is_finite() && *v > 0.0)) {
            let remedy = "fit positive falling functions; take tables of distances for others";
            return Err(Error::value(
                format!("weight at distance {}", at[bad]),
                "finite and above 0",
                values[bad],
                remedy,
            ));
        }
        let longest = at.last().copied().unwrap_or(0.0);
        let nearest = at.iter().copied().find(|d| *d > 0.0).unwrap_or(1.0);
        if longest == 0.0 {
            return Ok(Self { terms: vec![(values[0], 0.0)], error: 0.0 });
        }
        // From what is nearly constant over the longest distance to what is gone at the shortest.
        let (slow, fast) = (1e-2 / longest, 20.0 / nearest);
        let span = (fast / slow).ln();
        let mut best: Option<Self> = None;
        for density in DENSITIES {
            let steps = (span * density).ceil();
            let rates: Vec<f64> = std::iter::once(0.0)
                .chain((0..=steps as usize).map(|k| slow * (span * k as f64 / steps).exp()))
                .collect();
            let fitted = Self::with_rates(&values, at, &rates, rtol);
            if best
                .as_ref()
                .is_none_or(|b| fitted.error * BETTER < b.error || (fitted.error <= rtol && b.error > rtol))
            {
                best = Some(fitted);
            }
            if best.as_ref().is_some_and(|b| b.error <= rtol) {
                break;
            }
        }
        Ok(best.unwrap_or(Self { terms: Vec::new(), error: f64::INFINITY }))
    }

    /// The best weights of given rates.
    fn with_rates(values: &[f64], at: &[f64], rates: &[f64], rtol: f64) -> Self {
        let mut matrix =
            DMatrix::from_fn(at.len(), rates.len(), |i, k| (-rates[k] * at[i]).exp() / values[i]);
        // Columns of one length: where f falls by many powers of ten, slow rates would drown the others.
        let sizes: Vec<f64> = matrix.column_iter().map(|c| c.norm()).collect();
        matrix.column_iter_mut().zip(&sizes).for_each(|(mut c, size)| c /= *size);
        let enough = |x: &DVector<f64>| rtol > 0.0 && (&matrix * x).iter().all(|y| (y - 1.0).abs() <= rtol);
        let weights = solve(&matrix, &DVector::repeat(at.len(), 1.0), &enough);
        let scaled = weights.iter().zip(&sizes).map(|(w, size)| w / size);
        let mut terms: Vec<(f64, f64)> =
            scaled.zip(rates.iter().copied()).filter(|(w, _)| *w > 0.0).collect();
        terms.reverse();
        let mut fitted = Self { terms, error: 0.0 };
        fitted.error =
            at.iter().zip(values).map(|(d, v)| (fitted.at(*d) / v - 1.0).abs()).fold(0.0, f64::max);
        fitted
    }

    /// The sum at a distance.
    pub fn at(&self, distance: f64) -> f64 {
        self.terms.iter().map(|(w, rate)| w * (-rate * distance).exp()).sum()
    }
}

/// x ≥ 0 with the least |A x − b|: `matrix` is A `[rows, columns]` row by row, b has its rows; the result its columns.
///
/// Source: Lawson and Hanson, Solving least squares problems (1974), chapter 23.
///
/// Errors: [`Error::Value`] for lists of other sizes.
pub fn nonnegative_least_squares(matrix: &[f64], right: &[f64]) -> Result<Vec<f64>> {
    if right.is_empty() || !matrix.len().is_multiple_of(right.len()) {
        return Err(Error::value(
            "matrix of non-negative least squares",
            format!("a whole number of columns for {} rows", right.len()),
            matrix.len(),
            "give it row by row",
        ));
    }
    let a = DMatrix::from_row_slice(right.len(), matrix.len() / right.len(), matrix);
    Ok(solve(&a, &DVector::from_column_slice(right), &|_| false).as_slice().to_vec())
}

/// Columns join the positive ones by steepest gain and leave when they would turn negative; ends early where `enough` says so.
///
/// Gains are those of the parts of columns that the positive ones do not span, with a residual made orthogonal to these: nearly dependent
/// columns gain less than what rounding leaves of the plain products, at residuals of 1e-10 already.
fn solve(a: &DMatrix<f64>, b: &DVector<f64>, enough: &dyn Fn(&DVector<f64>) -> bool) -> DVector<f64> {
    let columns = a.ncols();
    let mut x = DVector::zeros(columns);
    let mut positive: Vec<usize> = Vec::new();
    let mut span: Option<DMatrix<f64>> = None;
    // Columns that came back negative at once, until something else changes: rounding, not gain.
    let mut refused = vec![false; columns];
    for _ in 0..3 * columns {
        let mut left = b - a * &x;
        if left.amax() <= 4.0 * f64::EPSILON * b.amax() || enough(&x) {
            break;
        }
        let gain = match &span {
            Some(q) => {
                for _ in 0..2 {
                    left -= q * q.tr_mul(&left);
                }
                (a - q * q.tr_mul(a)).tr_mul(&left)
            }
            None => a.tr_mul(&left),
        };
        let best = (0..columns)
            .filter(|k| !positive.contains(k) && !refused[*k] && gain[*k] > 0.0)
            .max_by(|i, j| gain[*i].total_cmp(&gain[*j]));
        let Some(new) = best else { break };
        positive.push(new);
        let mut first = true;
        loop {
            let Some((free, q)) = least_squares(a, b, &positive) else {
                positive.retain(|k| *k != new);
                refused[new] = true;
                break;
            };
            if first && free[positive.len() - 1] <= 0.0 {
                positive.pop();
                refused[new] = true;
                break;
            }
            if first {
                refused.fill(false);
            }
            first = false;
            if free.iter().all(|v| *v > 0.0) {
                x.fill(0.0);
                positive.iter().zip(free.iter()).for_each(|(k, v)| x[*k] = *v);
                span = Some(q);
                break;
            }
            // As far towards the free solution as all stay at least 0; the one that gets there leaves.
            let steps = positive.iter().zip(free.iter()).filter(|(_, v)| **v <= 0.0);
            let Some((leaves, step)) =
                steps.map(|(k, v)| (*k, x[*k] / (x[*k] - v))).min_by(|a, b| a.1.total_cmp(&b.1))
            else {
                break;
            };
            for (k, v) in positive.iter().zip(free.iter()) {
                x[*k] += step * (v - x[*k]);
            }
            x[leaves] = 0.0;
            positive.iter().for_each(|k| x[*k] = x[*k].max(0.0));
            positive.retain(|k| x[*k] > 0.0);
            if positive.is_empty() {
                span = None;
                break;
            }
        }
    }
    x
}

/// The least squares of some columns by orthogonal factors, and an orthonormal basis of what they span; `None` where they depend on each
/// other.
fn least_squares(
    a: &DMatrix<f64>,
    b: &DVector<f64>,
    columns: &[usize],
) -> Option<(DVector<f64>, DMatrix<f64>)> {
    let qr = a.select_columns(columns).qr();
    let (q, r) = (qr.q(), qr.r());
    let x = r.solve_upper_triangular(&q.tr_mul(b)).filter(|x| x.iter().all(|v| v.is_finite()))?;
    Some((x, q))
}
