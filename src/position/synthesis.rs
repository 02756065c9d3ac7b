//! Parameters for a prescribed template: which relative positions attention shall see, and what the noise of it will cost.
//!
//! A pair of filters has the template P(τ) = Σ_p w_q(p) w_k(p + τ), so the polynomial z^(P−1) Σ_τ P(τ) z^τ of degree 2P − 2 is the product
//! of two polynomials of degree P − 1, the keys' filter and the queries' reversed. Any real template of finite support can be taken
//! apart that way if its complex roots are shared out in conjugate pairs ([`conv_by_roots`]); with one filter a single tap there is
//! nothing to solve, but only P lags in a row can be prescribed ([`conv_by_delta`]). Sums of cosines reach a template only as K grows
//! ([`sine_greedy`]).
//!
//! Each fit says its residual and its *price* √(v_q v_k)/max|P|: by how much the noise of an entry exceeds the least possible, 1
//! (method: 6).

use super::sine::SineSizes;
use super::{ConvCode, SineCode, check_finite};
use crate::error::{Error, Result};
use nalgebra::linalg::balancing::balance_parlett_reinsch;
use nalgebra::{DMatrix, DVector};
use rustfft::num_complex::Complex;
use std::f64::consts::TAU;

/// Longest filter that [`conv_by_roots`] solves for: its cost is that of matrices of twice the size.
pub const MOST_SOLVED_TAPS: usize = 512;
/// Residual above which [`conv_by_roots`] gives no filters; it usually leaves 10⁻¹⁵.
pub const MOST_RESIDUAL: f64 = 1e-9;
/// Most lags that [`sine_greedy`] fits: its candidates take 64 bytes per pair of lags.
pub const MOST_FITTED_LAGS: usize = 1023;
/// A wave of which less than this is not already in the fit adds nothing: two of nearly the same frequency would cancel each other with
/// gains of thousands, which is all noise.
const LEAST_NEW: f64 = 0.03;
/// Most times that every frequency is moved.
const MOST_SWEEPS: usize = 10;
/// Most steps of all frequencies together.
const MOST_STEPS: usize = 100;

/// A pair of filters found for a template.
#[derive(Clone, Debug, PartialEq)]
pub struct ConvFit {
    /// Taps along each axis, slowest first.
    pub taps: Vec<u32>,
    /// Filter of queries `[p₁, …]`.
    pub q: Vec<f64>,
    /// Filter of keys `[p₁, …]`.
    pub k: Vec<f64>,
    /// max|P − target|/max|target| over the prescribed lags.
    pub residual: f64,
    /// √(v_q v_k)/max|P|.
    pub price: f64,
}

impl ConvFit {
    /// The code of fits `[h, d]`, one for each head's dimension.
    ///
    /// Errors: [`Error::Data`] for another number of fits; [`Error::Value`] for fits of different taps.
    pub fn code(fits: &[Self], heads: u32, width: u32) -> Result<ConvCode> {
        super::check_len("fits of filters", &[("h", heads.into()), ("d", width.into())], fits.len())?;
        let Some(first) = fits.first() else { return Err(no_fits()) };
        if let Some(other) = fits.iter().find(|fit| fit.taps != first.taps) {
            let (expected, got) = (format!("{:?}, as the first", first.taps), format!("{:?}", other.taps));
            return Err(Error::value("taps of a fit", expected, got, "fit all templates on equal lags"));
        }
        let q = fits.iter().flat_map(|fit| fit.q.clone()).collect();
        let k = fits.iter().flat_map(|fit| fit.k.clone()).collect();
        ConvCode::new(heads, width, &first.taps, q, k)
    }

    /// The fit of the product of two templates on axes of their own: filters are outer products, this one's axes first.
    ///
    /// The residual is a bound: |ab − a'b'| ≤ |a − a'||b| + |a'||b − b'|.
    pub fn times(&self, other: &Self) -> Self {
        let outer = |a: &[f64], b: &[f64]| a.iter().flat_map(|x| b.iter().map(move |y| x * y)).collect();
        Self {
            taps: self.taps.iter().chain(&other.taps).copied().collect(),
            q: outer(&self.q, &other.q),
            k: outer(&self.k, &other.k),
            residual: self.residual + other.residual + self.residual * other.residual,
            price: self.price * other.price,
        }
    }
}

fn no_fits() -> Error {
    Error::value("fits of a code", "at least one", 0, "fit a template first")
}

fn norm(x: &[f64]) -> f64 {
    x.iter().map(|x| x * x).sum::<f64>().sqrt()
}

fn largest(x: &[f64]) -> f64 {
    x.iter().fold(0.0, |m, x| m.max(x.abs()))
}

/// Refuses targets without a number in them.
fn check_target(target: &[f64]) -> Result<()> {
    check_finite("template to be fitted", target)?;
    if largest(target) > f64::MIN_POSITIVE {
        return Ok(());
    }
    let remedy = "prescribe another value at some lag: for 0 everywhere no code is needed";
    Err(Error::value("template to be fitted", "a lag with another value than 0", "only zeros", remedy))
}

/// P(τ) for τ = −(P−1) … P−1.
fn correlated(q: &[f64], k: &[f64]) -> Vec<f64> {
    let taps = q.len();
    let mut out = vec![0.0; 2 * taps - 1];
    for (i, a) in q.iter().enumerate() {
        for (j, b) in k.iter().enumerate() {
            out[taps - 1 + j - i] += a * b;
        }
    }
    out
}

/// Filters of P taps along a line whose template is `target`, P(τ) for τ = −(P−1) … P−1.
///
/// The roots of the template's polynomial are shared out by size, small ones to the keys, and then exchanged while the price falls; a
/// few Gauss–Newton steps on the taps remove what rounding of the roots left.
///
/// Errors: [`Error::Value`] for an even number of lags, more than [`MOST_SOLVED_TAPS`] taps, zeros only, an even P whose
/// polynomial has no real root (two real polynomials of odd degree need one each), and a residual above [`MOST_RESIDUAL`];
/// [`Error::Data`] for NaN or infinities.
pub fn conv_by_roots(target: &[f64]) -> Result<ConvFit> {
    let taps = target.len().div_ceil(2);
    if target.len().is_multiple_of(2) || taps > MOST_SOLVED_TAPS {
        return Err(Error::value(
            "lags of a template to be factored",
            format!("an odd number 2P − 1, −(P−1) to P−1, with P at most {MOST_SOLVED_TAPS}"),
            target.len(),
            match target.len().is_multiple_of(2) {
                true => "write the template out on both sides of lag 0",
                false => {
                    "use fewer taps, or set the lags by single taps (`conv_by_delta`, --synthesis delta)"
                }
            },
        ));
    }
    check_target(target)?;
    let size = largest(target);
    let scaled: Vec<f64> = target.iter().map(|x| x / size).collect();
    let groups = roots(&scaled)?;
    let Some(mut to_keys) = by_size(&groups, taps - 1) else {
        return Err(Error::value(
            "taps P of a template to be factored",
            "an odd number, as this template's polynomial has no real roots",
            taps,
            "use an odd number of taps, or set the lags by single taps (`conv_by_delta`, --synthesis delta)",
        ));
    };
    let mut best = filters(&groups, &to_keys, &scaled);
    // Exchanges of equal sizes; each keeps the degrees.
    for _ in 0..4 {
        let before = best.price;
        for i in 0..groups.len() {
            for j in i + 1..groups.len() {
                if to_keys[i] == to_keys[j] || groups[i].len() != groups[j].len() {
                    continue;
                }
                to_keys.swap(i, j);
                let fit = filters(&groups, &to_keys, &scaled);
                if fit.price < best.price * (1.0 - 1e-9) && fit.residual < 1e-3 {
                    best = fit;
                } else {
                    to_keys.swap(i, j);
                }
            }
        }
        if best.price > 0.99 * before {
            break;
        }
    }
    let mut fit = polished(best, &scaled);
    if fit.residual.is_nan() || fit.residual > MOST_RESIDUAL {
        return Err(not_factored(format!("a residual of {:.1e} of the largest", fit.residual)));
    }
    let root = size.sqrt();
    for w in fit.q.iter_mut().chain(&mut fit.k) {
        *w *= root;
    }
    Ok(fit)
}

/// Rounding has won.
fn not_factored(got: impl Into<String>) -> Error {
    Error::value(
        "factors of a template",
        format!("filters within {MOST_RESIDUAL:e} of it"),
        got.into(),
        "prescribe fewer lags, a smoother template, or set it by single taps (`conv_by_delta`, --synthesis delta)",
    )
}

/// Roots of Σ c_i z^i in groups that must stay together: real ones alone, others with their conjugates; 0 and ∞ stand for zero
/// coefficients at the ends.
fn roots(coefficients: &[f64]) -> Result<Vec<Vec<Complex<f64>>>> {
    // Beside the largest, 1, these are beyond f64; as roots near 0 and ∞ they would cost the others their digits.
    let negligible = |x: &&f64| x.abs() < 1e-18;
    let low = coefficients.iter().take_while(negligible).count();
    let high = coefficients.iter().rev().take_while(negligible).count();
    let inner = &coefficients[low..coefficients.len() - high];
    let mut groups = vec![vec![Complex::default()]; low];
    groups.extend(vec![vec![Complex::new(f64::INFINITY, 0.0)]; high]);
    // A polynomial of z^g has the g-th roots of another one's: without this, matrices of pulses stall the search, as all its shifts are 0.
    let step = (0..inner.len()).filter(|&i| inner[i].abs() >= 1e-18).fold(0, gcd);
    let inner: Vec<f64> = inner.iter().step_by(step.max(1)).copied().collect();
    let degree = inner.len() - 1;
    if degree == 0 {
        return Ok(groups);
    }
    let mut companion = DMatrix::zeros(degree, degree);
    for i in 0..degree {
        companion[(i, degree - 1)] = -inner[i] / inner[degree];
        if i > 0 {
            companion[(i, i - 1)] = 1.0;
        }
    }
    balance_parlett_reinsch(&mut companion);
    let Some(schur) = companion.try_schur(f64::EPSILON, 100 * degree.max(100)) else {
        return Err(not_factored("its roots were not found"));
    };
    for root in schur.complex_eigenvalues().iter() {
        let (size, turn) = (root.norm().powf(1.0 / step as f64), root.im.atan2(root.re) / step as f64);
        let around = (0..step).map(|k| turn + std::f64::consts::TAU * k as f64 / step as f64);
        match root.im {
            // Its conjugate gives the conjugates.
            below if below < 0.0 => {}
            0.0 => groups.extend(around.filter_map(|turn| real_or_pair(size, turn))),
            _ => groups.extend(around.map(|turn| {
                let root = Complex::from_polar(size, turn);
                vec![root, root.conj()]
            })),
        }
    }
    groups.sort_by(|a, b| a[0].norm().total_cmp(&b[0].norm()));
    Ok(groups)
}

/// Greatest common divisor; 0 is divided by all.
fn gcd(a: usize, b: usize) -> usize {
    if b == 0 { a } else { gcd(b, a % b) }
}

/// A root of a real number: alone where it is real, with its conjugate where it is above the real line, and nothing below.
fn real_or_pair(size: f64, turn: f64) -> Option<Vec<Complex<f64>>> {
    let root = Complex::from_polar(size, turn);
    let flat = root.im.abs() < 1e-9 * size;
    match (flat, root.im > 0.0) {
        (true, _) => Some(vec![Complex::new(root.re, 0.0)]),
        (_, true) => Some(vec![root, root.conj()]),
        _ => None,
    }
}

/// Which groups go to the keys: the smallest roots, `degree` of them. `None` if pairs alone cannot make an odd degree.
fn by_size(groups: &[Vec<Complex<f64>>], degree: usize) -> Option<Vec<bool>> {
    let mut left = degree;
    let mut to_keys: Vec<bool> = groups
        .iter()
        .map(|group| {
            let taken = group.len() <= left;
            left -= if taken { group.len() } else { 0 };
            taken
        })
        .collect();
    if left == 1 {
        // Only pairs are left over; a real root among the taken makes room for one of them.
        let single = (0..groups.len()).rev().find(|&i| to_keys[i] && groups[i].len() == 1)?;
        let pair = (0..groups.len()).find(|&i| !to_keys[i] && groups[i].len() == 2)?;
        (to_keys[single], to_keys[pair], left) = (false, true, 0);
    }
    (left == 0).then_some(to_keys)
}

/// The filters that belong to a sharing out of the roots, of equal norms, with the scale that fits best.
fn filters(groups: &[Vec<Complex<f64>>], to_keys: &[bool], target: &[f64]) -> ConvFit {
    let side = |keys: bool| -> Vec<f64> {
        let mine = groups.iter().zip(to_keys).filter(|(_, k)| **k == keys).map(|(group, _)| group);
        expanded(mine.collect())
    };
    let k = side(true);
    let mut q = side(false);
    q.reverse();
    let got = correlated(&q, &k);
    let squares: f64 = got.iter().map(|x| x * x).sum();
    let gain = got.iter().zip(target).map(|(a, b)| a * b).sum::<f64>() / squares;
    let (n_q, n_k) = (norm(&q), norm(&k));
    let root = (gain.abs() * n_q * n_k).sqrt();
    finished(
        q.iter().map(|x| x * root / n_q).collect(),
        k.iter().map(|x| x * (root / n_k).copysign(gain)).collect(),
        target,
    )
}

/// A fit with its residual and price.
fn finished(q: Vec<f64>, k: Vec<f64>, target: &[f64]) -> ConvFit {
    let got = correlated(&q, &k);
    let gaps: Vec<f64> = got.iter().zip(target).map(|(a, b)| a - b).collect();
    let residual = largest(&gaps) / largest(target);
    let price = norm(&q) * norm(&k) / largest(&got);
    ConvFit { taps: vec![q.len() as u32], q, k, residual, price }
}

/// Coefficients of Π (z − root)/max(1, |root|), lowest first; an infinite root only counts for the degree.
///
/// The next factor is the one whose root lies farthest from those before it: sizes of partial products then stay near that of the
/// result (Leja's order), where sorted roots lose all digits at degree 60.
fn expanded(mut groups: Vec<&Vec<Complex<f64>>>) -> Vec<f64> {
    let mut product = vec![1.0];
    let mut logs = vec![0.0_f64; groups.len()];
    while !groups.is_empty() {
        let next = (0..groups.len()).max_by(|&i, &j| logs[i].total_cmp(&logs[j])).unwrap_or(0);
        logs.swap_remove(next);
        let group = groups.swap_remove(next);
        let root = group[0];
        let size = root.norm().max(1.0);
        let factor = match (group.len(), root.re.is_infinite()) {
            (_, true) => vec![1.0, 0.0],
            (1, _) => vec![-root.re / size, 1.0 / size],
            _ => vec![(root.norm() / size).powi(2), -2.0 * root.re / size / size, 1.0 / size / size],
        };
        let mut longer = vec![0.0; product.len() + factor.len() - 1];
        for (i, a) in product.iter().enumerate() {
            for (j, b) in factor.iter().enumerate() {
                longer[i + j] += a * b;
            }
        }
        product = longer;
        if !root.re.is_infinite() {
            for (log, other) in logs.iter_mut().zip(&groups) {
                let gap =
                    |r: &Complex<f64>| ((other[0] - r).norm() / size.max(other[0].norm())).max(1e-30).ln();
                *log += if other[0].re.is_infinite() { 0.0 } else { group.iter().map(gap).sum() };
            }
        }
    }
    product
}

/// Gauss–Newton on the taps: the shortest step that removes the residual to first order, as long as it does.
fn polished(mut fit: ConvFit, target: &[f64]) -> ConvFit {
    let taps = fit.q.len();
    for _ in 0..20 {
        if fit.residual < 4.0 * f64::EPSILON {
            break;
        }
        let mut jacobian = DMatrix::zeros(2 * taps - 1, 2 * taps);
        for i in 0..taps {
            for j in 0..taps {
                let lag = taps - 1 + j - i;
                jacobian[(lag, i)] += fit.k[j];
                jacobian[(lag, taps + j)] += fit.q[i];
            }
        }
        let got = correlated(&fit.q, &fit.k);
        let gap = DVector::from_iterator(got.len(), target.iter().zip(&got).map(|(a, b)| a - b));
        let Some(svd) = jacobian.try_svd(true, true, f64::EPSILON, 10_000) else { break };
        let cut = 1e-13 * svd.singular_values.max();
        let Ok(step) = svd.solve(&gap, cut) else { break };
        let moved = |w: &[f64], from: usize| w.iter().enumerate().map(|(i, x)| x + step[from + i]).collect();
        let next = finished(moved(&fit.q, 0), moved(&fit.k, taps), target);
        if next.residual < fit.residual {
            fit = next;
        } else {
            break;
        }
    }
    fit
}

/// Filters of which the keys' is a single tap at `at`: P(τ) = w_q(at − τ), exact for the lags at − (P − 1) … at on every axis
/// and 0 elsewhere.
///
/// `target` gives the template by lag, entries beyond the axes 0.
///
/// Errors: [`Error::Value`] for taps of no or too many axes and a tap outside of them; [`Error::Data`] for NaN or infinities.
pub fn conv_by_delta(taps: &[u32], at: &[u32], target: impl Fn([i64; 3]) -> f64) -> Result<ConvFit> {
    let grid = super::Positions::grid(taps)?;
    if at.len() != taps.len() || at.iter().zip(taps).any(|(a, p)| a >= p) {
        let got = format!("{at:?}");
        return Err(Error::value("the keys' single tap", format!("within {taps:?}"), got, "count from 0"));
    }
    let mut last = [0_i64; 3];
    for (last, &a) in last.iter_mut().zip(at) {
        *last = a.into();
    }
    let q: Vec<f64> = (0..grid.tokens())
        .map(|i| {
            let p = grid.at(i);
            target(std::array::from_fn(|axis| last[axis] - i64::from(p[axis])))
        })
        .collect();
    check_target(&q)?;
    let mut k = vec![0.0; q.len()];
    let index = at.iter().zip(taps).fold(0, |index, (&a, &p)| index * p as usize + a as usize);
    k[index] = 1.0;
    let price = norm(&q) / largest(&q);
    Ok(ConvFit { taps: taps.to_vec(), q, k, residual: 0.0, price })
}

/// A sum of cosines found for a template along a line.
#[derive(Clone, Debug, PartialEq)]
pub struct SineFit {
    /// Frequencies `[k]` in turns per token, 0 to ½.
    pub frequencies: Vec<f64>,
    /// Phases `[k]` in radians.
    pub phases: Vec<f64>,
    /// Gains λ `[k]`.
    pub gains: Vec<f64>,
    /// ‖P − target‖/‖target‖ over the prescribed lags.
    pub residual: f64,
    /// v/max|P|, the maximum over the prescribed lags.
    pub price: f64,
}

impl SineFit {
    /// The code of fits `[h, d]`, one for each head's dimension.
    ///
    /// Errors: [`Error::Data`] for another number of fits; [`Error::Value`] for fits of different K.
    pub fn code(fits: &[Self], heads: u32, width: u32) -> Result<SineCode> {
        super::check_len("fits of sinusoids", &[("h", heads.into()), ("d", width.into())], fits.len())?;
        let Some(first) = fits.first() else { return Err(no_fits()) };
        let sinusoids = first.gains.len() as u32;
        if let Some(other) = fits.iter().find(|fit| fit.gains.len() != first.gains.len()) {
            let (expected, got) = (format!("{sinusoids}, as the first"), other.gains.len());
            return Err(Error::value("sinusoids of a fit", expected, got, "fit all templates with equal K"));
        }
        let all = |of: fn(&Self) -> &Vec<f64>| fits.iter().flat_map(|fit| of(fit).clone()).collect();
        let sizes = SineSizes { heads, width, sinusoids, axes: 1 };
        SineCode::new(sizes, all(|fit| &fit.frequencies), all(|fit| &fit.phases), all(|fit| &fit.gains))
    }
}

/// Columns cos and sin 2πfτ over the lags −L … L.
fn waves(frequency: f64, lags: usize) -> [Vec<f64>; 2] {
    let reach = (lags / 2) as f64;
    let angle = |i: usize| TAU * frequency * (i as f64 - reach);
    [(0..lags).map(|i| angle(i).cos()).collect(), (0..lags).map(|i| angle(i).sin()).collect()]
}

/// Takes from a vector its parts along orthonormal ones.
fn reduce(x: &mut [f64], basis: &[Vec<f64>]) {
    for b in basis {
        let part: f64 = b.iter().zip(&*x).map(|(a, b)| a * b).sum();
        for (x, b) in x.iter_mut().zip(b) {
            *x -= part * b;
        }
    }
}

/// The reduced columns made orthonormal; columns of which nothing is left are dropped.
fn orthonormal(columns: [Vec<f64>; 2]) -> Vec<Vec<f64>> {
    let floor = LEAST_NEW * (columns[0].len() as f64).sqrt();
    let mut out: Vec<Vec<f64>> = Vec::new();
    for mut column in columns {
        reduce(&mut column, &out);
        let size = norm(&column);
        if size > floor {
            column.iter_mut().for_each(|x| *x /= size);
            out.push(column);
        }
    }
    out
}

/// How much of the target's squared norm two more columns explain.
fn explained(columns: [Vec<f64>; 2], rest: &[f64]) -> f64 {
    let parts = orthonormal(columns);
    parts.iter().map(|b| b.iter().zip(rest).map(|(a, b)| a * b).sum::<f64>().powi(2)).sum()
}

/// K cosines for the template `target`, P(τ) for τ = −L … L, one after the other.
///
/// Each is the frequency with which a least-squares fit together with those before it leaves least, found on a grid of 4(2L + 1)
/// frequencies and refined between its neighbours; then every one is moved with the others held, and at last all together, until that helps no more.
///
/// Errors: [`Error::Value`] for an even number of lags, more than [`MOST_FITTED_LAGS`], no sinusoid, more sinusoids than lags, and
/// zeros only; [`Error::Data`] for NaN or infinities.
pub fn sine_greedy(target: &[f64], sinusoids: u32) -> Result<SineFit> {
    let lags = target.len();
    if lags.is_multiple_of(2) || lags > MOST_FITTED_LAGS {
        return Err(Error::value(
            "lags of a template to be fitted",
            format!("an odd number 2L + 1 up to {MOST_FITTED_LAGS}, −L to L"),
            lags,
            match lags.is_multiple_of(2) {
                true => "write the template out on both sides of lag 0",
                false => "leave out the farthest lags",
            },
        ));
    }
    check_target(target)?;
    let count = sinusoids as usize;
    if count == 0 || count > lags {
        let expected = format!("1 to {lags}, the number of lags");
        let remedy = if count == 0 { "use at least 1" } else { "use fewer: more cannot fit better" };
        return Err(Error::value("sinusoids K of a fit", expected, sinusoids, remedy));
    }
    let steps = 4 * lags;
    let grid = |j: usize| 0.5 * j as f64 / steps as f64;
    let mut candidates: Vec<[Vec<f64>; 2]> = (0..=steps).map(|j| waves(grid(j), lags)).collect();
    let (mut chosen, mut basis, mut rest) = (Vec::new(), Vec::<Vec<f64>>::new(), target.to_vec());
    for _ in 0..count {
        if norm(&rest) <= 1e-14 * norm(target) {
            break;
        }
        let scores: Vec<f64> = candidates.iter().map(|c| explained(c.clone(), &rest)).collect();
        let best = (0..=steps).max_by(|&i, &j| scores[i].total_cmp(&scores[j])).unwrap_or(0);
        let (from, to) = (grid(best.saturating_sub(1)), grid((best + 1).min(steps)));
        let frequency = refined(from, to, grid(best), &basis, &rest, lags);
        let mut columns = waves(frequency, lags);
        columns.iter_mut().for_each(|c| reduce(c, &basis));
        let added = orthonormal(columns);
        reduce(&mut rest, &added);
        for candidate in candidates.iter_mut().flatten() {
            reduce(candidate, &added);
        }
        basis.extend(added);
        chosen.push(frequency);
    }
    let window = 0.5 / lags as f64;
    let mut fit = fitted(&chosen, target, count)?;
    for _ in 0..MOST_SWEEPS {
        for i in 0..chosen.len() {
            let others = basis_of(chosen.iter().enumerate().filter(|(j, _)| *j != i).map(|(_, f)| *f), lags);
            let mut rest = target.to_vec();
            reduce(&mut rest, &others);
            let (from, to) = ((chosen[i] - window).max(0.0), (chosen[i] + window).min(0.5));
            chosen[i] = refined(from, to, chosen[i], &others, &rest, lags);
        }
        let next = fitted(&chosen, target, count)?;
        let done = next.residual > 0.995 * fit.residual;
        if next.residual < fit.residual {
            fit = next;
        }
        if done {
            break;
        }
    }
    // The last sweep may have been no better.
    chosen = fit.frequencies[..chosen.len()].to_vec();
    together(chosen, fit, target, count)
}

/// Moves all frequencies at once: Levenberg–Marquardt on what the best amplitudes leave (variable projection, of which the projected
/// derivatives are the leading part). One by one they move slowly where the best places are a little farther apart for all of them.
fn together(mut chosen: Vec<f64>, mut fit: SineFit, target: &[f64], count: usize) -> Result<SineFit> {
    let lags = target.len();
    let reach = (lags / 2) as f64;
    let mut damping = 1e-2;
    let mut steps = 0;
    while steps < MOST_STEPS && damping < 1e6 && fit.residual > 1e-12 {
        steps += 1;
        let basis = basis_of(chosen.iter().copied(), lags);
        let mut rest = target.to_vec();
        reduce(&mut rest, &basis);
        // ∂P/∂f of a cos(2πfτ + θ), without what the waves themselves can take up.
        let slopes = chosen.iter().zip(fit.gains.iter().zip(&fit.phases)).flat_map(|(f, (gain, theta))| {
            let amplitude = gain * gain / (2.0 * count as f64);
            let mut slope: Vec<f64> = (0..lags)
                .map(|i| {
                    let tau = i as f64 - reach;
                    -TAU * tau * amplitude * (TAU * f * tau + theta).sin()
                })
                .collect();
            reduce(&mut slope, &basis);
            slope
        });
        let jacobian = DMatrix::from_vec(lags, chosen.len(), slopes.collect());
        let goal = jacobian.tr_mul(&DVector::from_column_slice(&rest));
        let mut normal = jacobian.tr_mul(&jacobian);
        let floor = 1e-9 * normal.diagonal().max();
        for i in 0..chosen.len() {
            normal[(i, i)] = normal[(i, i)] * (1.0 + damping) + floor;
        }
        let Some(cholesky) = normal.cholesky() else { break };
        let step = cholesky.solve(&goal);
        let moved: Vec<f64> = chosen.iter().zip(step.iter()).map(|(f, s)| (f + s).clamp(0.0, 0.5)).collect();
        let next = fitted(&moved, target, count)?;
        if next.residual < fit.residual && next.price < 1.5 * fit.price.max(1.0) {
            let gained = 1.0 - next.residual / fit.residual;
            (chosen, fit, damping) = (moved, next, damping / 3.0);
            if gained < 1e-4 {
                break;
            }
        } else {
            damping *= 4.0;
        }
    }
    Ok(fit)
}

/// Orthonormal columns that span the waves of some frequencies.
fn basis_of(frequencies: impl Iterator<Item = f64>, lags: usize) -> Vec<Vec<f64>> {
    let mut basis = Vec::new();
    for frequency in frequencies {
        let mut columns = waves(frequency, lags);
        columns.iter_mut().for_each(|c| reduce(c, &basis));
        basis.extend(orthonormal(columns));
    }
    basis
}

/// The best frequency between two by golden sections, or `start` where none is better.
fn refined(from: f64, to: f64, start: f64, basis: &[Vec<f64>], rest: &[f64], lags: usize) -> f64 {
    let score = |frequency: f64| {
        let mut columns = waves(frequency, lags);
        columns.iter_mut().for_each(|c| reduce(c, basis));
        explained(columns, rest)
    };
    let section = 0.5 * (5.0_f64.sqrt() - 1.0);
    let (mut low, mut high) = (from, to);
    let (mut a, mut b) = (high - section * (high - low), low + section * (high - low));
    let (mut at_a, mut at_b) = (score(a), score(b));
    for _ in 0..40 {
        if at_a > at_b {
            (high, b, at_b) = (b, a, at_a);
            a = high - section * (high - low);
            at_a = score(a);
        } else {
            (low, a, at_a) = (a, b, at_b);
            b = low + section * (high - low);
            at_b = score(b);
        }
    }
    let (found, best) = if at_a > at_b { (a, at_a) } else { (b, at_b) };
    if best > score(start) { found } else { start }
}

/// Amplitudes and phases by least squares, and what they leave.
fn fitted(chosen: &[f64], target: &[f64], count: usize) -> Result<SineFit> {
    let lags = target.len();
    let columns: Vec<f64> = chosen.iter().flat_map(|&f| waves(f, lags)).flatten().collect();
    let matrix = DMatrix::from_vec(lags, 2 * chosen.len(), columns);
    let goal = DVector::from_column_slice(target);
    let svd = matrix.clone().svd(true, true);
    let solved = svd.solve(&goal, 1e-12 * svd.singular_values.max()).map_err(|reason| {
        Error::value(
            "template to be fitted",
            "one that least squares can solve",
            reason,
            "use fewer sinusoids",
        )
    })?;
    let got = &matrix * &solved;
    let (mut frequencies, mut phases, mut gains) = (chosen.to_vec(), Vec::new(), Vec::new());
    let mut variance = 0.0;
    for pair in solved.as_slice().chunks(2) {
        let amplitude = pair[0].hypot(pair[1]);
        // α cos x + β sin x = a cos(x + θ).
        phases.push((-pair[1]).atan2(pair[0]));
        gains.push((2.0 * count as f64 * amplitude).sqrt());
        variance += amplitude;
    }
    frequencies.resize(count, 0.0);
    phases.resize(count, 0.0);
    gains.resize(count, 0.0);
    let residual = (&got - goal).norm() / norm(target);
    Ok(SineFit { frequencies, phases, gains, residual, price: variance / largest(got.as_slice()) })
}
