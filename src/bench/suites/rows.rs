//! Rows of attention by its definition, in f64: what results of any length are compared with. A row meets every key once, so that some rows
//! of a million tokens cost less than all rows of a thousand.

use super::attention::{Data, HEAD_DIM, HEADS, numbers};
use crate::backend::Program;
use crate::bench::expected::{Found, wrong};
use crate::error::Result;
use crate::kernel::case::deviation;
use crate::kernel::{Real, Tolerance};
use crate::tensor::{HostData, HostTensor, Tensor};

/// Rows that are compared where they cost nothing: two of every head.
const MOST_ROWS: u32 = 2 * HEADS;
/// Operations of a row for each key: products with queries and values, and an exponential.
const WORK: f64 = (4 * HEAD_DIM + 8) as f64;

/// Weights of the row of one query, by token.
pub(super) type MaskRow<'a> = &'a dyn Fn(u32) -> Result<Vec<f64>>;

/// How much a key counts for a query.
#[derive(Clone, Copy)]
pub(super) enum Weights<'a> {
    /// e^(q·k/√d).
    Softmax,
    /// φ(q)·φ(k), φ(x) = elu(x) + 1.
    Elu,
    /// The same times a mask.
    MaskedElu(MaskRow<'a>),
}

/// A row of the result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Spot {
    head: u32,
    row: u32,
}

/// Rows all over the tokens and heads, as many as may be looked at for so many operations; one at least.
fn spots(tokens: u32, work: f64) -> Vec<Spot> {
    let most = work / (WORK * f64::from(tokens.max(1)));
    let count = (most as u32).clamp(1, MOST_ROWS).min(tokens);
    let at = |i: u32| {
        let row = (2 * u64::from(i) + 1) * u64::from(tokens) / (2 * u64::from(count));
        // Less than the tokens.
        Spot { head: i % HEADS, row: row as u32 }
    };
    (0..count).map(at).collect()
}

fn feature<T: Real>(x: f32) -> T {
    let x = T::of(x.into());
    if x > T::zero() { x + T::one() } else { x.exp() }
}

/// One row of d numbers: Σ w v / Σ w.
fn row<T: Real>(data: &Data, softmax: bool, spot: Spot, mask: Option<&[f64]>) -> Vec<f64> {
    let d = HEAD_DIM as usize;
    let n = data.tokens as usize;
    let [q, k, v] = [&data.q, &data.k, &data.v].map(|t| &numbers(t)[spot.head as usize * n * d..][..n * d]);
    let q = &q[spot.row as usize * d..][..d];
    let map = |x: f32| if softmax { T::of(x.into()) } else { feature(x) };
    let q: Vec<T> = q.iter().map(|x| map(*x)).collect();
    let dot = |key: &[f32]| q.iter().zip(key).map(|(a, b)| *a * map(*b)).sum::<T>();
    let mut weights: Vec<T> = k.chunks_exact(d).map(dot).collect();
    if softmax {
        let scale = T::of(f64::from(HEAD_DIM).sqrt().recip());
        let largest = weights.iter().copied().fold(T::neg_infinity(), T::max);
        weights.iter_mut().for_each(|w| *w = ((*w - largest) * scale).exp());
    }
    if let Some(mask) = mask {
        weights.iter_mut().zip(mask).for_each(|(w, m)| *w *= T::of(*m));
    }
    let mut sums = vec![T::zero(); d];
    for (w, v) in weights.iter().zip(v.chunks_exact(d)) {
        sums.iter_mut().zip(v).for_each(|(sum, v)| *sum += *w * T::of((*v).into()));
    }
    let total: T = weights.iter().copied().sum();
    sums.into_iter().map(|x| (x / total).wide()).collect()
}

/// Compares rows of a program's result `[1, h, n, d]` with their definition: the largest error relative to the largest value, and how much
/// was compared. `extra` is added to what is allowed by the tolerance of `kernel`.
///
/// Errors: a result that is not what `kernel` promises; as reading.
pub(super) fn check(
    program: &mut dyn Program,
    out: Tensor,
    data: &Data,
    weights: Weights<'_>,
    (kernel, tolerance, extra): (&str, Tolerance, f64),
    work: f64,
) -> Result<(f64, String)> {
    let spots = spots(data.tokens, work);
    let (mut truth, mut naive) = (Vec::new(), Vec::new());
    for spot in &spots {
        let mask = match weights {
            Weights::MaskedElu(row) => Some(row(spot.row)?),
            _ => None,
        };
        let softmax = matches!(weights, Weights::Softmax);
        truth.extend(row::<f64>(data, softmax, *spot, mask.as_deref()));
        naive.extend(row::<f32>(data, softmax, *spot, mask.as_deref()));
    }
    let d = HEAD_DIM as usize;
    let whole = program.read(out)?;
    let first = |s: &Spot| (s.head as usize * data.tokens as usize + s.row as usize) * d;
    let places = spots.iter().flat_map(|s| first(s)..first(s) + d);
    let got: Vec<f64> = match whole.data() {
        HostData::F64(numbers) => places.map(|at| numbers[at]).collect(),
        // What devices give.
        _ => places.map(|at| f64::from(numbers(&whole)[at])).collect(),
    };
    let tensor = |numbers| HostTensor::new([spots.len() as u32, HEAD_DIM], HostData::F64(numbers));
    let truth = tensor(truth)?;
    let error = deviation(&tensor(got)?, &truth)?.error;
    let allowed = tolerance.factor * deviation(&tensor(naive)?, &truth)?.error + tolerance.floor + extra;
    let found = Found { error, tolerance: allowed, port: "out" };
    if !found.stands(program) {
        return Err(wrong(kernel, found));
    }
    Ok((error, crate::words::counted(spots.len(), "row", "rows")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_lie_all_over_and_are_fewer_where_they_are_long() {
        let few = spots(64, 1e9);
        assert_eq!(few.len(), MOST_ROWS as usize);
        assert!(few.iter().all(|s| s.row < 64 && s.head < HEADS), "{few:?}");
        assert!(few.windows(2).all(|w| w[0].row < w[1].row && w[0].head != w[1].head), "{few:?}");
        assert_eq!(spots(1 << 20, 1.0), [Spot { head: 0, row: 1 << 19 }]);
    }

    #[test]
    fn rows_of_equal_keys_are_means_of_values() {
        let mut data = Data::new(64).expect("a power of two");
        data.k = HostTensor::f32(data.k.shape(), vec![0.5; data.k.shape().len() as usize]).expect("a shape");
        let spot = Spot { head: 3, row: 9 };
        let (n, d) = (64, HEAD_DIM as usize);
        let v = &numbers(&data.v)[3 * n * d..][..n * d];
        let mean: f64 = v.iter().step_by(d).map(|x| f64::from(*x)).sum::<f64>() / n as f64;
        for softmax in [true, false] {
            let row = row::<f64>(&data, softmax, spot, None);
            assert!((row[0] - mean).abs() < 1e-12, "{} for {mean}", row[0]);
        }
        // A mask that shows one token gives its values.
        let mut mask = vec![0.0; n];
        mask[7] = 0.25;
        let only = row::<f64>(&data, false, spot, Some(&mask));
        assert!((only[1] - f64::from(v[7 * d + 1])).abs() < 1e-12, "{}", only[1]);
    }
}
