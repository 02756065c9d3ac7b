//! exp(−tL) and exp(tA) as Chebyshev series: coefficients from scaled Bessel functions in f64, as many as the asked accuracy needs.
//!
//! With a = t λ / 2 for eigenvalues in 0 … λ, and S = I − (2/λ) L,
//!
//! ```text
//! exp(−tL) = Σₖ cₖ Tₖ(S),   c₀ = e^−a I₀(a),   cₖ = 2 e^−a Iₖ(a),   Σ cₖ = 1
//! ```
//!
//! and exp(t(A − λ)) likewise with a = t λ and S = A / λ. All cₖ are positive and |Tₖ| ≤ 1 there, so the error of a cut series is at most
//! the sum of what was cut: that sum, not an estimate, decides the number of terms. The error is relative to max|X|; rows of the result that
//! are much smaller than X have fewer digits.

use super::spectrum::{Laplacian, adjacency, adjacency_bounds, check_values};
use super::{NONE, Network};
use crate::error::{Error, Result};

/// Greatest a = t λ / 2: some 14 000 terms for single precision.
pub const MOST_A: f64 = 1e7;
/// Least relative tolerance: below it f64 has no digits left.
pub const LEAST_RTOL: f64 = 1e-15;

/// exp(−a) Iₖ(a) for k = 0 … `count` − 1, a from 0 to [`MOST_A`]: the modified Bessel functions, scaled.
///
/// Miller's backward recurrence Iₖ₋₁ = Iₖ₊₁ + (2k/a) Iₖ from an order where Iₖ is negligible, normalised by I₀ + 2 Σ Iₖ = e^a: only positive
/// terms, so every value is good to a few units of f64.
///
/// Errors: [`Error::Value`] for a that is negative, not finite or greater.
pub fn scaled_bessel(count: usize, a: f64) -> Result<Vec<f64>> {
    if !(0.0..=MOST_A).contains(&a) {
        return Err(Error::value(
            "a = t λ / 2 of a diffusion",
            format!("0 to {MOST_A:e}"),
            format!("{a:e}"),
            "use a shorter time, or scale the weights down",
        ));
    }
    let mut out = vec![0.0; count];
    if count == 0 {
        return Ok(out);
    }
    if a < 1e-90 {
        // 2k/a could overflow; the first terms of the power series are exact.
        for (x, term) in out.iter_mut().zip([1.0, 0.5 * a, 0.125 * a * a]) {
            *x = term;
        }
        return Ok(out);
    }
    let start = negligible_order(a, 750.0).min(negligible_order(a, 90.0).max(count + 40));
    let (mut above, mut here) = (0.0_f64, 1e-290_f64);
    let mut sum = 0.0;
    for k in (1..=start).rev() {
        if k < count {
            out[k] = here;
        }
        sum += 2.0 * here;
        let below = above + 2.0 * k as f64 / a * here;
        (above, here) = (here, below);
        if here > 1e200 {
            // Everything shares the scale, so it can be changed on the way.
            let scale = 1e-200;
            (above, here, sum) = (above * scale, here * scale, sum * scale);
            for x in out.iter_mut().skip(k) {
                *x *= scale;
            }
        }
    }
    out[0] = here;
    sum += here;
    for x in &mut out {
        *x /= sum;
    }
    Ok(out)
}

/// An order k from which on Iₖ(a) / I₀(a) is below e^−`digits` (Debye's leading term).
fn negligible_order(a: f64, digits: f64) -> usize {
    let fall = |k: f64| k * (k / a).asinh() - ((k * k + a * a).sqrt() - a);
    let mut high = 1.0;
    while fall(high) < digits {
        high *= 2.0;
    }
    let mut low = 0.5 * high;
    while high - low > 1.0 {
        let middle = 0.5 * (low + high);
        if fall(middle) < digits { low = middle } else { high = middle }
    }
    high as usize + 8
}

/// cₖ for one a, cut where the sum of the rest is at most `rtol`.
///
/// Errors: [`Error::Value`] for a outside of 0 to [`MOST_A`] and `rtol` outside of [`LEAST_RTOL`] to 1.
pub fn coefficients(a: f64, rtol: f64) -> Result<Vec<f64>> {
    if !(LEAST_RTOL..1.0).contains(&rtol) {
        return Err(Error::value(
            "relative tolerance of a diffusion",
            format!("{LEAST_RTOL:e} to less than 1"),
            rtol,
            "f64 has no digits below; results in f32 are good to about 1e-6",
        ));
    }
    let count = if (0.0..=MOST_A).contains(&a) && a > 0.0 { negligible_order(a, 90.0) } else { 1 };
    let mut c = scaled_bessel(count, a)?;
    for x in c.iter_mut().skip(1) {
        *x *= 2.0;
    }
    let mut tail = 0.0;
    while c.len() > 1 {
        tail += c[c.len() - 1];
        if tail > rtol {
            break;
        }
        c.pop();
    }
    Ok(c)
}

/// A series for a whole network: components with different bounds have different coefficients.
///
/// Components whose bounds lie within a factor of 2^¼ share a *class* with the greatest of them, so there are few classes however many
/// components.
#[derive(Clone, Debug, PartialEq)]
pub struct Series {
    /// `[n]` class of each node.
    pub class_of: Vec<u32>,
    /// `[classes]` bound λ of the eigenvalues; 0 where there are no edges.
    pub bounds: Vec<f64>,
    /// `[classes]` coefficients of each class; the longest list has K + 1.
    pub coefficients: Vec<Vec<f64>>,
}

impl Series {
    /// exp(−tL) to `rtol` of max|X|.
    ///
    /// Errors: [`Error::Value`] for t that is negative or not finite, `rtol` outside of [`LEAST_RTOL`] to 1, t · λ too large, and a directed
    /// network.
    pub fn heat(network: &Network, laplacian: Laplacian, t: f64, rtol: f64) -> Result<Self> {
        check_time("t of exp(−tL)", t)?;
        Self::new(network, &laplacian.bounds(network)?, 0.5 * t, rtol)
    }

    /// exp(t(A − λ)), where λ is each component's own bound: a factor per component, which cancels where rows are normalised.
    ///
    /// Errors: as [`Self::heat`].
    pub fn growth(network: &Network, t: f64, rtol: f64) -> Result<Self> {
        check_time("t of exp(tA)", t)?;
        Self::new(network, &adjacency_bounds(network, 32)?, t, rtol)
    }

    fn new(network: &Network, of_component: &[f64], factor: f64, rtol: f64) -> Result<Self> {
        let key = |bound: f64| if bound > 0.0 { (4.0 * bound.log2()).ceil() as i32 } else { i32::MIN };
        let mut keys: Vec<i32> = of_component.iter().map(|b| key(*b)).collect();
        keys.sort_unstable();
        keys.dedup();
        let mut bounds = vec![0.0_f64; keys.len()];
        let class: Vec<u32> = of_component
            .iter()
            .map(|b| {
                let class = keys.binary_search(&key(*b)).unwrap_or(0);
                bounds[class] = bounds[class].max(*b);
                class as u32
            })
            .collect();
        let of = network.components().of;
        let class_of = of.iter().map(|c| class.get(*c as usize).copied().unwrap_or(NONE)).collect();
        let coefficients =
            bounds.iter().map(|b| coefficients(factor * b, rtol)).collect::<Result<Vec<_>>>()?;
        Ok(Self { class_of, bounds, coefficients })
    }

    /// Degree K: products with the matrix that the series takes.
    pub fn degree(&self) -> usize {
        self.coefficients.iter().map(Vec::len).max().unwrap_or(1).saturating_sub(1)
    }

    /// `[classes, K + 1]` coefficients, zeros behind the shorter lists.
    pub fn table(&self) -> Vec<f64> {
        let width = self.degree() + 1;
        let padded = |list: &Vec<f64>| {
            let zeros = std::iter::repeat_n(0.0, width - list.len());
            list.iter().copied().chain(zeros).collect::<Vec<_>>()
        };
        self.coefficients.iter().flat_map(padded).collect()
    }

    /// exp(−tL) X in f64 for X `[n, channels]`; the series must have been made for this network and Laplacian by [`Self::heat`].
    ///
    /// Errors: [`Error::Value`] for `x` of another size.
    pub fn apply_heat(
        &self,
        network: &Network,
        laplacian: Laplacian,
        x: &[f64],
        channels: usize,
    ) -> Result<Vec<f64>> {
        self.apply(network, x, channels, |x| {
            let mut y = laplacian.apply(network, x, channels)?;
            for (at, y) in y.iter_mut().enumerate() {
                let bound = self.bounds[self.class_of[at / channels] as usize];
                *y = if bound > 0.0 { x[at] - 2.0 / bound * *y } else { x[at] };
            }
            Ok(y)
        })
    }

    /// exp(t(A − λ)) X in f64 for X `[n, channels]`; the series must have been made for this network by [`Self::growth`].
    ///
    /// Errors: [`Error::Value`] for `x` of another size.
    pub fn apply_growth(&self, network: &Network, x: &[f64], channels: usize) -> Result<Vec<f64>> {
        self.apply(network, x, channels, |x| {
            let mut y = adjacency(network, x, channels)?;
            for (at, y) in y.iter_mut().enumerate() {
                let bound = self.bounds[self.class_of[at / channels] as usize];
                *y = if bound > 0.0 { *y / bound } else { 0.0 };
            }
            Ok(y)
        })
    }

    /// Σ cₖ Tₖ(S) X by Tₖ₊₁ = 2 S Tₖ − Tₖ₋₁.
    fn apply(
        &self,
        network: &Network,
        x: &[f64],
        channels: usize,
        scaled: impl Fn(&[f64]) -> Result<Vec<f64>>,
    ) -> Result<Vec<f64>> {
        check_values(network, x, channels)?;
        if self.class_of.len() != network.nodes() {
            return Err(Error::value(
                "network of a series",
                format!("the one of {} nodes it was made for", self.class_of.len()),
                network.nodes(),
                "make a series for this network",
            ));
        }
        let c = |at: usize, k: usize| {
            let list = &self.coefficients[self.class_of[at / channels] as usize];
            list.get(k).copied().unwrap_or(0.0)
        };
        let mut out: Vec<f64> = x.iter().enumerate().map(|(at, x)| c(at, 0) * x).collect();
        let (mut before, mut here) = (x.to_vec(), x.to_vec());
        for k in 1..=self.degree() {
            let mut next = scaled(&here)?;
            if k > 1 {
                for (y, b) in next.iter_mut().zip(&before) {
                    *y = 2.0 * *y - b;
                }
            }
            for (at, (sum, y)) in out.iter_mut().zip(&next).enumerate() {
                *sum += c(at, k) * y;
            }
            before = std::mem::replace(&mut here, next);
        }
        Ok(out)
    }
}

fn check_time(what: &str, t: f64) -> Result<()> {
    match t >= 0.0 && t.is_finite() {
        true => Ok(()),
        false => Err(Error::value(what, "at least 0 and finite", t, "diffusion does not run backwards")),
    }
}
