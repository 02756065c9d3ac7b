//! What `wgattn spe` measures: codes as a device makes them, their covariance and the logits that they give, beside what both should be.
//!
//! The tokens are unit vectors, one batch element for each dimension, so that queries and keys under the code are the code itself, and
//! in one more batch element Gaussian queries and keys, whose products are logits. All go through the passes that attention uses.

use super::Failure;
use crate::backend::Backend;
use crate::error::{Error, Result};
use crate::graph::Graph;
use crate::kernels::linalg::matmul;
use crate::position::template::{Logit, entry_variance, variance_within_lags};
use crate::position::{Encoding, Noise, Positions};
use crate::random::{Place, Purpose};
use crate::tensor::{DType, HostTensor};
use rayon::prelude::*;
use std::collections::BTreeMap;

/// Most numbers of one array on the device: 256 MiB.
const MOST: u64 = 1 << 26;

/// How codes are made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum CodeArg {
    /// Where they are used, in pieces
    Fused,
    /// In memory, for layers that share them
    Materialised,
}

/// What is measured at one number of realisations.
#[derive(Clone, Debug)]
pub(super) struct AtRealizations {
    pub(super) realizations: u32,
    /// √mean (P̂ − P)² over pairs of tokens, heads, dimensions and seeds.
    pub(super) rmse: f64,
    /// √mean (v_q v_k + P²)/R.
    pub(super) predicted: f64,
    /// Standard error of rmse/predicted by [`share_error`]; `None` for one seed.
    pub(super) ratio_error: Option<f64>,
    /// Deviation of logits from their exact value, and what it should be.
    pub(super) logit: [f64; 2],
    /// Mean of e^logit over pairs and seeds; what it should be, where it is finite; and e to the exact logit.
    pub(super) exponential: (f64, Option<f64>, f64),
    /// Variance within equal lags over all variance, of the first seed; `None` where a covariance is constant.
    pub(super) within: Option<f64>,
    /// `[n]` the shown row of P̂ of the first seed.
    pub(super) row: Vec<f64>,
}

impl AtRealizations {
    pub(super) fn ratio(&self) -> f64 {
        self.rmse / self.predicted
    }
}

/// Everything that does not depend on the noise.
pub(super) struct Truth<'a> {
    encoding: &'a Encoding,
    positions: &'a Positions,
    /// Which lag each pair of tokens has `[m, n]`.
    lag_of: Vec<u32>,
    /// Pairs of each lag.
    pairs: Vec<f64>,
    /// `[h · d][lag]` templates.
    templates: Vec<Vec<f64>>,
    /// `[h · d]` variances.
    variances: Vec<[f64; 2]>,
    /// `[h, n, d]` Gaussian queries and keys.
    tokens: [Vec<f64>; 2],
    /// `[h, m, n]` A·B and C of all logits.
    logits: Vec<[f64; 2]>,
    /// The query whose row is shown: the middle token.
    pub(super) middle: usize,
}

impl<'a> Truth<'a> {
    /// Evaluates templates and exact logits.
    pub(super) fn of(encoding: &'a Encoding, positions: &'a Positions, seed: u64) -> Result<Self, Failure> {
        let (heads, width, n) = (encoding.code().heads(), encoding.code().width(), positions.tokens());
        let all = (n as u64).saturating_mul(n as u64).saturating_mul(heads.into());
        if all > MOST {
            return Err(Failure(format!(
                "--tokens: {n} × {n} pairs of tokens in {} are {all}, at most {MOST} are compared; use fewer tokens",
                crate::words::counted(heads, "head", "heads")
            )));
        }
        let mut known: BTreeMap<[i64; 3], u32> = BTreeMap::new();
        let mut lags = Vec::new();
        let mut lag_of = Vec::with_capacity(n * n);
        let mut pairs = Vec::new();
        for (m, k) in (0..n).flat_map(|m| (0..n).map(move |k| (m, k))) {
            let lag = positions.lag(m, k);
            let index = *known.entry(lag).or_insert_with(|| {
                lags.push(lag);
                pairs.push(0.0);
                lags.len() as u32 - 1
            });
            pairs[index as usize] += 1.0;
            lag_of.push(index);
        }
        let channels: Vec<(u32, u32)> = (0..heads).flat_map(|h| (0..width).map(move |d| (h, d))).collect();
        let of_channel = |&(h, d): &(u32, u32)| {
            lags.iter().map(|lag| encoding.template(h, d, *lag)).collect::<Result<_>>()
        };
        let templates = channels.par_iter().map(of_channel).collect::<Result<Vec<Vec<f64>>>>()?;
        let variances = channels.iter().map(|&(h, d)| encoding.variances(h, d)).collect::<Result<_>>()?;
        let drawn = |stream: u32| -> Result<Vec<f64>> {
            let place = |(at, d): (u32, u32)| {
                let (h, token) = (at / n as u32, at % n as u32);
                Place { index: token, channel: h * width + d, stream, ..Place::of(Purpose::Data) }
            };
            let all = (0..heads * n as u32).flat_map(|at| (0..width).map(move |d| (at, d)));
            all.map(|at| place(at).gaussian(seed).map(f64::from)).collect()
        };
        let tokens = [drawn(0)?, drawn(1)?];
        let mut truth = Self {
            encoding,
            positions,
            lag_of,
            pairs,
            templates,
            variances,
            tokens,
            logits: Vec::new(),
            middle: middle(positions),
        };
        truth.logits = truth.exact_logits();
        Ok(truth)
    }

    fn sizes(&self) -> (usize, usize, usize) {
        let code = self.encoding.code();
        (code.heads() as usize, code.width() as usize, self.positions.tokens())
    }

    /// `[h, m, n]` A·B and C.
    fn exact_logits(&self) -> Vec<[f64; 2]> {
        let (heads, width, n) = self.sizes();
        let norms = |side: usize| -> Vec<f64> {
            let line = |(at, x): (usize, &[f64])| -> f64 {
                x.iter().enumerate().map(|(d, x)| x * x * self.variances[at / n * width + d][side]).sum()
            };
            self.tokens[side].chunks(width).enumerate().map(line).collect()
        };
        let norms = &[norms(0), norms(1)];
        let row = |at: usize| {
            let (h, m) = (at / n, at % n);
            let q = &self.tokens[0][at * width..][..width];
            (0..n).map(move |k| {
                let key = &self.tokens[1][(h * n + k) * width..][..width];
                let lag = self.lag_of[m * n + k] as usize;
                let template = |d: usize| self.templates[h * width + d][lag];
                let c: f64 = (0..width).map(|d| q[d] * key[d] * template(d)).sum();
                [norms[0][at] * norms[1][h * n + k], c]
            })
        };
        (0..heads * n).into_par_iter().flat_map_iter(row).collect()
    }

    /// `[n]` the exact row of the middle token in one head's dimension.
    pub(super) fn row(&self, channel: usize) -> Vec<f64> {
        let n = self.positions.tokens();
        let lags = &self.lag_of[self.middle * n..][..n];
        lags.iter().map(|lag| self.templates[channel][*lag as usize]).collect()
    }

    /// Whether no dimension has a code.
    pub(super) fn is_zero(&self) -> bool {
        self.variances.iter().flatten().all(|v| *v == 0.0)
    }

    /// Variances of one head's dimension.
    pub(super) fn variances(&self, channel: usize) -> [f64; 2] {
        self.variances[channel]
    }

    /// Mean (v_q v_k + P²)/R of a channel's entries.
    fn predicted_square(&self, channel: usize, realizations: u32) -> f64 {
        let entries = self.templates[channel].iter().zip(&self.pairs);
        let sum: f64 =
            entries.map(|(p, count)| count * entry_variance(self.variances[channel], *p, realizations)).sum();
        sum / self.pairs.iter().sum::<f64>()
    }

    fn logit(&self, [ab, c]: [f64; 2], realizations: u32) -> Logit {
        let width = self.encoding.code().width();
        Logit { query_norm: ab, key_norm: 1.0, product: c, width, realizations }
    }
}

/// The token in the middle of the grid.
fn middle(positions: &Positions) -> usize {
    positions.sides().iter().fold(0, |at, side| at * *side as usize + *side as usize / 2)
}

/// Draws codes with the given seeds on a device and compares them with the truth; `shown` is the channel whose row is kept.
pub(super) fn measure(
    truth: &Truth<'_>,
    backend: &dyn Backend,
    path: CodeArg,
    noise: &Noise,
    seeds: &[u64],
    (realizations, shown): (u32, usize),
    tick: &dyn Fn(),
) -> Result<AtRealizations, Failure> {
    let (heads, width, n) = truth.sizes();
    let channels = heads * width;
    let squares: Vec<f64> = (0..channels).map(|c| truth.predicted_square(c, realizations)).collect();
    let exact: Vec<Logit> = truth.logits.iter().map(|at| truth.logit(*at, realizations)).collect();
    let (mut shares, mut logit_square, mut exponential) = (Vec::new(), 0.0, 0.0);
    let (mut within, mut row) = (None, Vec::new());
    for (number, seed) in seeds.iter().enumerate() {
        let noise = Noise { seed: *seed, ..*noise };
        let drawn = draw(truth, backend, path, &noise, realizations)?;
        if !drawn.covariances.iter().chain(&drawn.logits).all(|x| x.is_finite()) {
            return Err(Failure(format!(
                "codes of {realizations} realisations are not finite in f32: gains or taps of the parameters are too large for it; scale them down"
            )));
        }
        let one = |(channel, matrix): (usize, &[f64])| {
            let gap = |(p, lag): (&f64, &u32)| (p - truth.templates[channel][*lag as usize]).powi(2);
            let sum: f64 = matrix.iter().zip(&truth.lag_of).map(gap).sum();
            sum / matrix.len() as f64
        };
        let errors: Vec<f64> = drawn.covariances.par_chunks(n * n).enumerate().map(one).collect();
        // A dimension without a code has no error, and no weight.
        let share = |(error, square): (&f64, &f64)| if *square > 0.0 { error / square } else { 1.0 };
        shares.extend(errors.iter().zip(&squares).map(share));
        for (logit, exact) in drawn.logits.iter().zip(&exact) {
            logit_square += (logit - exact.mean()).powi(2);
            exponential += logit.exp();
        }
        if number == 0 {
            row = drawn.covariances[(shown * n + truth.middle) * n..][..n].to_vec();
            let all: Vec<Option<f64>> = drawn
                .covariances
                .par_chunks(n * n)
                .map(|matrix| variance_within_lags(matrix, truth.positions).ok())
                .collect();
            let all: Option<Vec<f64>> = all.into_iter().collect();
            within = all.map(|all| all.iter().sum::<f64>() / all.len() as f64);
        }
        tick();
    }
    let count = shares.len() as f64;
    let total: f64 = squares.iter().sum();
    let rmse_square: f64 = shares
        .chunks(channels)
        .flat_map(|s| s.iter().zip(&squares))
        .map(|(s, square)| s * square)
        .sum::<f64>()
        / count;
    let (rmse, predicted) = (rmse_square.sqrt(), (total / channels as f64).sqrt());
    let ratio_error = share_error(&shares, &squares).map(|error| error / (2.0 * rmse / predicted));
    let pairs = exact.len() as f64;
    let draws = pairs * seeds.len() as f64;
    let closed: Option<Vec<f64>> = exact.iter().map(Logit::mean_exponential).collect();
    Ok(AtRealizations {
        realizations,
        rmse,
        predicted,
        ratio_error,
        logit: [
            (logit_square / draws).sqrt(),
            (exact.iter().map(Logit::variance).sum::<f64>() / pairs).sqrt(),
        ],
        exponential: (
            exponential / draws,
            closed.map(|all| all.iter().sum::<f64>() / pairs),
            exact.iter().map(|logit| logit.mean().exp()).sum::<f64>() / pairs,
        ),
        within,
        row,
    })
}

/// Half the width of the interval that holds the weighted mean of the shares' expectations in two of three cases: its standard error,
/// times what few seeds leave open of it.
///
/// `shares` `[seed, channel]` are squared errors over what they should be, `squares` `[channel]` their weights. Channels have noise of
/// their own and shares that spread by their own templates, so each one's spread is that over its seeds; pooling them would take the
/// spread of many faint dimensions for that of a loud one. `None` for one seed.
fn share_error(shares: &[f64], squares: &[f64]) -> Option<f64> {
    let (channels, seeds) = (squares.len(), shares.len() / squares.len().max(1));
    if seeds < 2 {
        return None;
    }
    let total: f64 = squares.iter().sum();
    let count = seeds as f64;
    let variances = squares.iter().enumerate().map(|(channel, square)| {
        let of = || shares.iter().skip(channel).step_by(channels);
        let mean = of().sum::<f64>() / count;
        let spread = of().map(|share| (share - mean).powi(2)).sum::<f64>() / (count - 1.0);
        (square / total).powi(2) * spread / count
    });
    let (sum, squared) = variances.fold((0.0, 0.0), |(sum, squared), v| (sum + v, squared + v * v));
    if sum == 0.0 {
        return Some(0.0);
    }
    // Welch's and Satterthwaite's number of degrees of freedom, and Student's quantile of one standard deviation for it, by the first
    // terms of its series (Cornish and Fisher): 1.75 for one degree, where it is 1.84, and right to 0.3 % from three on.
    let freedom = (count - 1.0) * sum * sum / squared;
    Some(sum.sqrt() * (1.0 + 0.5 / freedom + 0.25 / (freedom * freedom)))
}

/// What one draw gives.
struct Drawn {
    /// `[h, d, m, n]` P̂.
    covariances: Vec<f64>,
    /// `[h, m, n]`.
    logits: Vec<f64>,
}

/// Queries under the code times keys under the code, on the device, for as many batch elements at a time as fit.
fn draw(
    truth: &Truth<'_>,
    backend: &dyn Backend,
    path: CodeArg,
    noise: &Noise,
    realizations: u32,
) -> Result<Drawn, Failure> {
    let (heads, width, n) = truth.sizes();
    let per = (heads * n) as u64 * u64::from(realizations).max(n as u64);
    let at_once = (MOST / per.max(1)).clamp(1, width as u64 + 1) as usize;
    let mut covariances = vec![0.0; heads * width * n * n];
    let mut logits = Vec::new();
    let root = f64::from(realizations).sqrt();
    let covariance_scale = (width as f64).sqrt() / root;
    for first in (0..=width).step_by(at_once) {
        let elements: Vec<usize> = (first..(first + at_once).min(width + 1)).collect();
        let products = run(truth, backend, path, noise, realizations, &elements)?;
        for (element, block) in elements.iter().zip(products.chunks(heads * n * n)) {
            if *element == width {
                logits = block.iter().map(|x| x / root).collect();
                continue;
            }
            for (h, matrix) in block.chunks(n * n).enumerate() {
                let to = &mut covariances[(h * width + element) * n * n..][..n * n];
                to.iter_mut().zip(matrix).for_each(|(to, x)| *to = x * covariance_scale);
            }
        }
    }
    Ok(Drawn { covariances, logits })
}

/// `[element, h, m, n]` ⟨q̂, k̂⟩ of unit vectors along each element, and of the Gaussian tokens for element D.
fn run(
    truth: &Truth<'_>,
    backend: &dyn Backend,
    path: CodeArg,
    noise: &Noise,
    realizations: u32,
    elements: &[usize],
) -> Result<Vec<f64>, Error> {
    let (heads, width, n) = truth.sizes();
    let rows = heads * n;
    let mut sides = [vec![0.0_f32; elements.len() * rows * width], vec![0.0; elements.len() * rows * width]];
    for (side, tokens) in sides.iter_mut().zip(&truth.tokens) {
        for (element, block) in elements.iter().zip(side.chunks_mut(rows * width)) {
            if *element == width {
                block.iter_mut().zip(tokens).for_each(|(x, token)| *x = *token as f32);
                continue;
            }
            block.chunks_mut(width).for_each(|token| token[*element] = 1.0);
        }
    }
    let shape = [elements.len() as u32, heads as u32, n as u32, width as u32];
    let mut graph = Graph::new("position codes");
    let [q, k] = ["q", "k"].map(|name| graph.input(name, shape, DType::F32));
    let (coded_q, coded_k) = match path {
        CodeArg::Fused => truth.encoding.record(&mut graph, noise, truth.positions, realizations, (q, k))?,
        CodeArg::Materialised => {
            let code = truth.encoding.materialise(&mut graph, noise, truth.positions, realizations)?;
            code.record(&mut graph, (q, k))?
        }
    };
    let params = matmul::Params { transpose_w: 1, ..matmul::Params::default() };
    let products = matmul::record(&mut graph, "products", matmul::Inputs::new(coded_q, coded_k), params)?;
    graph.output(products)?;
    let mut program = backend.compile(&graph)?;
    for (tensor, side) in [q, k].into_iter().zip(sides) {
        program.write(tensor, &HostTensor::f32(shape, side)?)?;
    }
    program.run()?;
    Ok(program.read(products)?.to_f64())
}

/// Slope of ln rmse over ln R by least squares; `None` for one R.
pub(super) fn slope(all: &[AtRealizations]) -> Option<f64> {
    let points: Vec<(f64, f64)> =
        all.iter().map(|at| (f64::from(at.realizations).ln(), at.rmse.ln())).collect();
    let count = points.len() as f64;
    let (x, y) = points.iter().fold((0.0, 0.0), |(x, y), p| (x + p.0 / count, y + p.1 / count));
    let spread: f64 = points.iter().map(|p| (p.0 - x).powi(2)).sum();
    (spread > 0.0).then(|| points.iter().map(|p| (p.0 - x) * (p.1 - y)).sum::<f64>() / spread)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Shares like those of codes: means of few squares of Gaussian numbers, which are skewed.
    fn drawn(seed: u64, seeds: usize, squares: &[(f64, u32)]) -> Vec<f64> {
        let one = |(s, c): (usize, usize)| {
            let terms = squares[c].1;
            let number = |i: u32| {
                let place = Place { index: s as u32 * 64 + i, channel: c as u32, ..Place::of(Purpose::Data) };
                f64::from(place.gaussian(seed).expect("a place"))
            };
            (0..terms).map(|i| number(i).powi(2)).sum::<f64>() / f64::from(terms)
        };
        (0..seeds).flat_map(|s| (0..squares.len()).map(move |c| (s, c))).map(one).collect()
    }

    /// How often 1, the truth, is within the error of the mean.
    fn covered(seeds: usize, squares: &[(f64, u32)]) -> f64 {
        let weights: Vec<f64> = squares.iter().map(|(w, _)| *w).collect();
        let total: f64 = weights.iter().sum();
        let runs = 4000;
        let within = (0..runs).filter(|run| {
            let shares = drawn(*run, seeds, squares);
            let lines = shares.chunks(weights.len());
            let sum: f64 = lines.flat_map(|l| l.iter().zip(&weights)).map(|(s, w)| s * w).sum();
            let mean = sum / (total * seeds as f64);
            (mean - 1.0).abs() <= share_error(&shares, &weights).expect("of several seeds")
        });
        within.count() as f64 / runs as f64
    }

    #[test]
    fn the_error_holds_the_truth_as_often_as_it_should() {
        // 68 % of Gaussian shares; skewed ones lose a little of that.
        for (seeds, squares) in [
            (4, &[(1.0, 8)][..]),
            (3, &[(1.0, 8), (1.0, 8)]),
            (2, &[(1.0, 16); 4]),
            // One loud dimension that few numbers decide, among many faint ones that spread little.
            (4, &[(30.0, 4), (1.0, 60), (1.0, 60), (1.0, 60), (1.0, 60), (1.0, 60), (1.0, 60), (1.0, 60)]),
            (16, &[(1.0, 4)]),
        ] {
            let share = covered(seeds, squares);
            assert!((0.60..0.76).contains(&share), "{seeds} seeds of {squares:?}: {share}");
        }
    }

    #[test]
    fn one_seed_has_no_error_and_equal_shares_have_none_to_tell() {
        assert_eq!(share_error(&[1.0, 0.5], &[1.0, 1.0]), None);
        assert_eq!(share_error(&[1.0, 0.5, 1.0, 0.5], &[1.0, 1.0]), Some(0.0));
        // Two seeds of one channel: |a − b|/2, times 1.75.
        let error = share_error(&[1.0, 3.0], &[2.0]).expect("of two");
        assert!((error - 1.75).abs() < 1e-12, "{error}");
    }
}
