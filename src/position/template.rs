//! Templates: the covariance that a code has by its parameters, the one it is measured to have, and how far apart they should be.
//!
//! With R realisations the estimate P̂ of one entry has the variance (v_q v_k + P²)/R, v being the variances of q̄ and k̄ themselves. A
//! logit adds up D of them, so its error goes as √(D/R). All formulas hold for Gaussian noise (method: 1.9).

use super::{Code, Codes, Encoding, Positions, scale};
use crate::error::{Error, Result};
use std::collections::BTreeMap;
use std::f64::consts::TAU;

impl Code {
    /// P(τ) of a head's dimension without a gate; entries of `lag` beyond the axes do not count. The channel has been checked.
    fn template(&self, head: u32, dimension: u32, lag: [i64; 3]) -> f64 {
        match self {
            Self::Sine(code) => {
                let [frequencies, phases, gains] = code.sinusoids_of(head, dimension);
                let waves = frequencies.chunks(code.axes() as usize).zip(phases).zip(gains);
                let sum: f64 = waves
                    .map(|((f, theta), gain)| {
                        let turns: f64 = f.iter().zip(lag).map(|(f, n)| (f * n as f64).rem_euclid(1.0)).sum();
                        gain * gain * (TAU * turns + theta).cos()
                    })
                    .sum();
                sum / (2.0 * f64::from(code.sinusoids()))
            }
            Self::Conv(code) => {
                let [q, k] = code.filters_of(head, dimension);
                correlation(q, k, code.taps(), lag)
            }
        }
    }

    /// Variances of q̄ and k̄ over the draws, scale removed. The channel has been checked.
    fn variances(&self, head: u32, dimension: u32) -> [f64; 2] {
        match self {
            Self::Sine(code) => {
                let [.., gains] = code.sinusoids_of(head, dimension);
                [gains.iter().map(|g| g * g).sum::<f64>() / (2.0 * f64::from(code.sinusoids())); 2]
            }
            Self::Conv(code) => {
                code.filters_of(head, dimension).map(|w| w.iter().map(|x| x * x).sum::<f64>())
            }
        }
    }
}

/// Σ_p q(p) k(p + τ) over the taps that both have.
fn correlation(q: &[f64], k: &[f64], taps: &[u32], lag: [i64; 3]) -> f64 {
    let mut sum = 0.0;
    for (at, w) in q.iter().enumerate() {
        // p + τ axis by axis, last axis fastest.
        let (mut rest, mut index, mut step) = (at, 0, 1);
        let inside = (0..taps.len()).rev().all(|axis| {
            let side = taps[axis] as usize;
            let there = (rest % side) as i64 + lag[axis];
            rest /= side;
            index += there * step;
            step *= side as i64;
            (0..side as i64).contains(&there)
        });
        if inside {
            sum += w * k[index as usize];
        }
    }
    sum
}

impl Encoding {
    /// P̃(τ) = (1−γ) P(τ) + γ of a head's dimension, τ = query − key per axis; P(τ) itself without a gate. Entries of `lag` beyond the
    /// axes do not count.
    ///
    /// Errors: [`Error::Value`] for a head or dimension that the code does not have.
    pub fn template(&self, head: u32, dimension: u32, lag: [i64; 3]) -> Result<f64> {
        self.check_channel(head, dimension)?;
        Ok(self.through_gate(head, dimension, self.code().template(head, dimension, lag)))
    }

    /// Variances ṽ = (1−γ) v + γ of the gated codes of queries and keys, scale removed.
    ///
    /// Errors: as [`Self::template`].
    pub fn variances(&self, head: u32, dimension: u32) -> Result<[f64; 2]> {
        self.check_channel(head, dimension)?;
        Ok(self.code().variances(head, dimension).map(|v| self.through_gate(head, dimension, v)))
    }

    fn through_gate(&self, head: u32, dimension: u32, x: f64) -> f64 {
        match self.gate() {
            Some(gate) => {
                let [c, e] = gate.factors(head, dimension);
                c * c * x + e * e
            }
            None => x,
        }
    }

    fn check_channel(&self, head: u32, dimension: u32) -> Result<()> {
        let (heads, width) = (self.code().heads(), self.code().width());
        if head < heads && dimension < width {
            return Ok(());
        }
        Err(Error::value(
            "head and dimension of a template",
            format!("below {heads} and {width}"),
            format!("{head} and {dimension}"),
            "count both from 0",
        ))
    }

    /// `[m, n]` P̃ of all pairs of tokens, queries m and keys n.
    ///
    /// Errors: as [`Self::template`]; [`Error::Value`] for positions of other axes, or too many pairs.
    pub fn template_matrix(&self, head: u32, dimension: u32, positions: &Positions) -> Result<Vec<f64>> {
        self.check_channel(head, dimension)?;
        if positions.axes() != self.code().axes() {
            return Err(Error::value(
                "positions of a template",
                format!("{}, as its code has", crate::words::counted(self.code().axes(), "axis", "axes")),
                positions.axes(),
                "give positions on a grid of as many axes as the code",
            ));
        }
        let tokens = positions.tokens();
        super::count("template", &[("queries", tokens as u64), ("keys", tokens as u64)])?;
        let mut known = BTreeMap::new();
        let pairs = (0..tokens).flat_map(|m| (0..tokens).map(move |n| positions.lag(m, n)));
        pairs
            .map(|lag| match known.get(&lag) {
                Some(p) => Ok(*p),
                None => {
                    let p = self.template(head, dimension, lag)?;
                    known.insert(lag, p);
                    Ok(p)
                }
            })
            .collect()
    }

    /// What the logit of a query and a key at lag τ is distributed like over the draws; `q`, `k` `[d]`.
    ///
    /// Errors: as [`Self::template`]; [`Error::Data`] for vectors of another size.
    pub fn logit(&self, head: u32, q: &[f64], k: &[f64], lag: [i64; 3], realizations: u32) -> Result<Logit> {
        let width = self.code().width();
        self.check_channel(head, 0)?;
        super::noise::check_sizes(self.code().heads(), width, realizations)?;
        super::check_len("query of a logit", &[("d", width.into())], q.len())?;
        super::check_len("key of a logit", &[("d", width.into())], k.len())?;
        let mut logit = Logit { query_norm: 0.0, key_norm: 0.0, product: 0.0, width, realizations };
        for (d, (q, k)) in (0..width).zip(q.iter().zip(k)) {
            let [v_q, v_k] = self.variances(head, d)?;
            logit.query_norm += q * q * v_q;
            logit.key_norm += k * k * v_k;
            logit.product += q * k * self.template(head, d, lag)?;
        }
        Ok(logit)
    }
}

/// `[m, n]` P̂ = Σ_r q̄(m, r) k̄(n, r)/(R s²): the covariance that drawn codes have in one head's dimension.
///
/// Errors: [`Error::Value`] for a head or dimension that the codes do not have, or too many pairs of tokens.
pub fn empirical(codes: &Codes, head: u32, dimension: u32) -> Result<Vec<f64>> {
    codes.check()?;
    if head >= codes.heads || dimension >= codes.width {
        return Err(Error::value(
            "head and dimension of drawn codes",
            format!("below {} and {}", codes.heads, codes.width),
            format!("{head} and {dimension}"),
            "count both from 0",
        ));
    }
    super::count("covariance", &[("queries", codes.tokens as u64), ("keys", codes.tokens as u64)])?;
    let row = codes.realizations as usize;
    let factor = 1.0 / (f64::from(codes.realizations) * scale(codes.realizations, codes.width).powi(2));
    let line = |list: &[f64], n: usize| -> Vec<f64> { list[codes.at(n, head, dimension)..][..row].to_vec() };
    let queries: Vec<Vec<f64>> = (0..codes.tokens).map(|n| line(&codes.q, n)).collect();
    let keys: Vec<Vec<f64>> = (0..codes.tokens).map(|n| line(&codes.k, n)).collect();
    let product = |q: &Vec<f64>, k: &Vec<f64>| factor * q.iter().zip(k).map(|(a, b)| a * b).sum::<f64>();
    Ok(queries.iter().flat_map(|q| keys.iter().map(move |k| product(q, k))).collect())
}

/// Variance of an entry of P̂ around P: (v_q v_k + P²)/R for Gaussian noise.
pub fn entry_variance([v_q, v_k]: [f64; 2], template: f64, realizations: u32) -> f64 {
    (v_q * v_k + template * template) / f64::from(realizations)
}

/// Standard deviation that the error of a whole matrix is predicted to have: √mean((v_q v_k + P²)/R) over the entries of `template`.
pub fn predicted_rmse(variances: [f64; 2], template: &[f64], realizations: u32) -> f64 {
    let sum: f64 = template.iter().map(|&p| entry_variance(variances, p, realizations)).sum();
    (sum / template.len() as f64).sqrt()
}

/// Distribution of one logit ⟨q̂(m), k̂(n)⟩/√R over the draws.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Logit {
    /// A = Σ_d q_d² ṽ_q: squared norm of the query's exact feature.
    pub query_norm: f64,
    /// B = Σ_d k_d² ṽ_k: squared norm of the key's.
    pub key_norm: f64,
    /// C = Σ_d q_d k_d P̃_d: their product.
    pub product: f64,
    /// Dimensions D.
    pub width: u32,
    /// Realisations R.
    pub realizations: u32,
}

impl Logit {
    /// C/√D: the logit of an exact relative encoding.
    pub fn mean(&self) -> f64 {
        self.product / f64::from(self.width).sqrt()
    }

    /// (A·B + C²)/(R·D).
    pub fn variance(&self) -> f64 {
        let sizes = f64::from(self.realizations) * f64::from(self.width);
        (self.query_norm * self.key_norm + self.product * self.product) / sizes
    }

    /// E e^logit = [(1 − C/(R√D))² − A·B/(R²D)]^(−R/2): what a weight of softmax attention is on average, always above e^mean.
    ///
    /// `None` where it is infinite: R√D ≤ C + √(A·B), too few realisations for such long queries and keys.
    pub fn mean_exponential(&self) -> Option<f64> {
        let (r, d) = (f64::from(self.realizations), f64::from(self.width));
        let spread = (self.query_norm * self.key_norm).sqrt();
        if r * d.sqrt() <= self.product + spread {
            return None;
        }
        let (c, ab) = (self.product / (r * d.sqrt()), spread / (r * d.sqrt()));
        // (1 − c)² − ab² as a product of two positive factors.
        Some((-0.5 * r * ((-c - ab).ln_1p() + (-c + ab).ln_1p())).exp())
    }
}

/// How far a matrix `[m, n]` is from depending on the lag alone: variance within entries of equal lag over variance of all entries.
/// 0 for an exact relative encoding, falling as 1/R for drawn codes.
///
/// Errors: [`Error::Data`] for a matrix of another size; [`Error::Value`] for one whose entries are all the same.
pub fn variance_within_lags(matrix: &[f64], positions: &Positions) -> Result<f64> {
    let tokens = positions.tokens();
    super::check_len("covariance", &[("m", tokens as u64), ("n", tokens as u64)], matrix.len())?;
    let mut by_lag: BTreeMap<[i64; 3], (f64, f64)> = BTreeMap::new();
    let pairs = (0..tokens).flat_map(|m| (0..tokens).map(move |n| positions.lag(m, n)));
    let lags: Vec<[i64; 3]> = pairs.collect();
    for (lag, x) in lags.iter().zip(matrix) {
        let (count, sum) = by_lag.entry(*lag).or_default();
        *count += 1.0;
        *sum += x;
    }
    let mean = matrix.iter().sum::<f64>() / matrix.len() as f64;
    let total: f64 = matrix.iter().map(|x| (x - mean) * (x - mean)).sum();
    let within: f64 = lags
        .iter()
        .zip(matrix)
        .map(|(lag, x)| {
            let (count, sum) = by_lag[lag];
            (x - sum / count).powi(2)
        })
        .sum();
    if total > 0.0 && total.is_finite() {
        return Ok(within / total);
    }
    Err(Error::value(
        "variance of a covariance's entries",
        "above 0 and finite",
        total,
        "a constant matrix depends on no lag",
    ))
}
