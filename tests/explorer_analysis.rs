//! The numbers behind the explorer's plots, on matrices and token sets whose answers are known.

mod support;

use wgattn::backend::cpu::CpuBackend;
use wgattn::explorer::analysis::{BINS, distances, trace};
use wgattn::tensor::{HostData, HostTensor};
use wgattn::vision::bandwidth::Metric;

fn matrices(heads: u32, m: u32, data: Vec<f64>) -> HostTensor {
    HostTensor::new([1, heads, m, m], HostData::F64(data)).expect("as many numbers as the shape says")
}

/// W of landmarks on a line, exp(−|i − j|/λ), with ε added to its diagonal.
fn line_matrix(m: usize, lambda: f64, epsilon: f64) -> Vec<f64> {
    let entry = |at: usize| {
        let (i, j) = ((at / m) as f64, (at % m) as f64);
        (-(i - j).abs() / lambda).exp() + if i == j { epsilon } else { 0.0 }
    };
    (0..m * m).map(entry).collect()
}

#[test]
fn eigenvalues_of_small_matrices_are_the_known_ones() {
    // [[2, 1], [1, 2]] has 1 and 3; the second head is diagonal.
    let a = matrices(2, 2, vec![2.0, 1.0, 1.0, 2.0, 1.5, 0.0, 0.0, 1.25]);
    let traces = trace(&CpuBackend, &a, 1.0).expect("a trace of two heads");
    assert_eq!(traces.len(), 2);
    let near = |x: f64, y: f64| (x - y).abs() < 1e-12;
    assert!(near(traces[0].eigenvalues.0, 1.0) && near(traces[0].eigenvalues.1, 3.0), "{:?}", traces[0]);
    assert!(near(traces[1].eigenvalues.0, 1.25) && near(traces[1].eigenvalues.1, 1.5), "{:?}", traces[1]);
    assert!(near(traces[0].condition(), 3.0));
    assert_eq!(traces[0].epsilon, 1.0);
}

#[test]
fn residuals_of_a_diagonal_matrix_follow_the_scalar_recursion() {
    // On a diagonal matrix every entry goes its own way: e ← 1 − c (1 − e²) from e = 1 − 2 a/(u + ε).
    let (diagonal, epsilon, m) = ([1.0, 0.5, 0.25], 0.25, 3);
    let a = matrices(1, 3, (0..9).map(|at| if at / 3 == at % 3 { diagonal[at / 3] } else { 0.0 }).collect());
    let found = &trace(&CpuBackend, &a, epsilon).expect("a trace")[0];
    let mut gaps = diagonal.map(|x| 1.0 - 2.0 * x / (1.0 + epsilon));
    let mut delta = (f64::from(m)) / (f64::from(m) + 2.0 * epsilon);
    for (step, (residual, bound)) in found.residuals.iter().zip(&found.bound).enumerate() {
        let expected = gaps.iter().map(|e| e * e).sum::<f64>().sqrt();
        assert!((residual - expected).abs() < 1e-9, "step {step}: {residual}, expected {expected}");
        assert!((bound - delta).abs() < 1e-9, "step {step}: bound {bound}, expected {delta}");
        let factor = 2.0 / (2.0 - delta * delta);
        gaps = gaps.map(|e| 1.0 - factor * (1.0 - e * e));
        delta = delta * delta / (2.0 - delta * delta);
    }
    assert_eq!(found.residuals.len(), found.bound.len());
}

#[test]
fn residuals_stay_below_the_bound_times_the_root_of_m() {
    for (m, lambda, epsilon) in [(9, 2.0, 1e-2), (49, 6.0, 1e-3), (64, 30.0, 1e-3)] {
        let a = matrices(1, m as u32, line_matrix(m, lambda, epsilon));
        let found = &trace(&CpuBackend, &a, epsilon).expect("a trace")[0];
        let slack = (m as f64).sqrt();
        for (step, (residual, bound)) in found.residuals.iter().zip(&found.bound).enumerate() {
            // What f64 itself loses in products of this condition.
            let rounding = 1e-15 * found.condition() * slack;
            assert!(*residual <= slack * bound + rounding, "m {m}, step {step}: {residual} > √m · {bound}");
        }
        let last = found.residuals.last().expect("at least the start");
        assert!(*last < 1e-4, "m {m}: {last} after {} steps", found.residuals.len() - 1);
        assert!(found.eigenvalues.0 >= epsilon * (1.0 - 1e-6), "{:?}", found.eigenvalues);
    }
}

#[test]
fn every_device_draws_the_curve_of_the_reference_down_to_its_rounding() {
    let (m, epsilon) = (49, 1e-2);
    let a = matrices(2, m as u32, [line_matrix(m, 3.0, epsilon), line_matrix(m, 8.0, epsilon)].concat());
    let truth = trace(&CpuBackend, &a, epsilon).expect("the reference");
    for (name, backend) in support::backends() {
        let found = trace(&backend, &a, epsilon).expect("a trace on a device");
        for (head, (found, truth)) in found.iter().zip(&truth).enumerate() {
            assert_eq!((found.residuals.len(), &found.bound), (truth.residuals.len(), &truth.bound));
            assert_eq!(found.eigenvalues, truth.eigenvalues);
            for (step, (x, y)) in found.residuals.iter().zip(&truth.residuals).enumerate() {
                // Single precision levels off near 5e-8 times the condition number; a step before that it is near too.
                let gap = 1e-3 * y + 5e-7 * truth.condition();
                assert!((x - y).abs() <= gap, "{name}, head {head}, step {step}: {x} and {y}");
            }
        }
    }
}

#[test]
fn what_cannot_be_traced_is_refused_by_name() {
    let square = matrices(1, 2, vec![1.0; 4]);
    let message =
        |a: &HostTensor, epsilon: f64| trace(&CpuBackend, a, epsilon).expect_err("refused").to_string();
    assert!(message(&square, 0.0).contains("epsilon"), "{}", message(&square, 0.0));
    let flat = HostTensor::new([2, 2], HostData::F64(vec![1.0; 4])).expect("a tensor");
    assert!(message(&flat, 1.0).contains("[1, h, m, m]"), "{}", message(&flat, 1.0));
    let bad = matrices(1, 2, vec![1.0, f64::NAN, 0.0, 1.0]);
    assert!(message(&bad, 1.0).contains("element 1"), "{}", message(&bad, 1.0));
}

#[test]
fn distances_of_a_known_set_fall_into_the_right_bins() {
    // Four tokens on a line at 0, 1, 3, 7 with two equal features each: L1 = 2 |a − b|, squared L2 = 2 (a − b)².
    let places = [0.0_f32, 1.0, 3.0, 7.0];
    let features: Vec<f32> = places.iter().flat_map(|x| [*x, *x]).collect();
    let found = &distances(&features, [1, 4, 2], Metric::L1, &[4.0], 1000).expect("distances")[0];
    assert_eq!(found.pairs, 6);
    assert_eq!((found.l1.len(), found.l2.len()), (BINS, BINS));
    assert_eq!((found.l1_end, found.l2_end), (14.0, 98.0));
    let bin = |x: f64, end: f64| ((x / end * BINS as f64) as usize).min(BINS - 1);
    let mut expected = (vec![0_u32; BINS], vec![0_u32; BINS]);
    for gap in [1.0, 3.0, 7.0, 2.0, 6.0, 4.0] {
        expected.0[bin(2.0 * gap, 14.0)] += 1;
        expected.1[bin(2.0 * gap * gap, 98.0)] += 1;
    }
    assert_eq!((&found.l1, &found.l2), (&expected.0, &expected.1));
    assert_eq!(found.lambda_laplacian, 4.0);
}

/// Features that look random, from a seed.
fn features(count: usize) -> Vec<f32> {
    let mut state = 7_u32;
    let mut next = || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 8) as f32 / (1 << 24) as f32 - 0.5
    };
    (0..count).map(|_| next() + next() + next()).collect()
}

#[test]
fn the_other_kernel_gets_the_bandwidth_with_the_same_mean() {
    let (heads, n, d) = (2, 40, 8);
    let data = features(heads * n * d);
    for metric in [Metric::L1, Metric::SquaredL2] {
        let found = distances(&data, [heads, n, d], metric, &[1.5, 3.0], usize::MAX).expect("distances");
        for (head, found) in found.iter().enumerate() {
            let token = |t: usize| &data[(head * n + t) * d..(head * n + t + 1) * d];
            let mean = |metric: Metric, lambda: f64| {
                let pairs = (1..n).flat_map(|a| (0..a).map(move |b| (a, b)));
                let values: Vec<f64> =
                    pairs.map(|(a, b)| (-metric.distance(token(a), token(b)) / lambda).exp()).collect();
                values.iter().sum::<f64>() / values.len() as f64
            };
            let laplacian = mean(Metric::L1, found.lambda_laplacian);
            let gaussian = mean(Metric::SquaredL2, found.lambda_gaussian);
            assert!((laplacian - gaussian).abs() < 1e-9, "head {head}: {laplacian} and {gaussian}");
        }
        let own = |d: &wgattn::explorer::snapshot::Distances| match metric {
            Metric::L1 => d.lambda_laplacian,
            Metric::SquaredL2 => d.lambda_gaussian,
        };
        assert_eq!((own(&found[0]), own(&found[1])), (1.5, 3.0));
    }
}

#[test]
fn samples_repeat_and_never_pair_a_token_with_itself() {
    let (n, d) = (300, 4);
    // All tokens differ, so a distance of 0 would be a token with itself.
    let data: Vec<f32> = (0..n * d).map(|i| (i / d) as f32).collect();
    let first = distances(&data, [1, n, d], Metric::L1, &[50.0], 5000).expect("distances");
    let again = distances(&data, [1, n, d], Metric::L1, &[50.0], 5000).expect("distances");
    assert_eq!(first, again);
    assert_eq!((first[0].pairs, first[0].l1.iter().sum::<u32>()), (5000, 5000));
    // Nearest pairs are 4 apart; the largest bin edge below that holds nothing.
    let width = first[0].l1_end / BINS as f64;
    assert!(width > 4.0 || first[0].l1[0] == 0, "{:?}", first[0].l1);
    // Sampled tails are those of all pairs.
    let all = &distances(&data, [1, n, d], Metric::L1, &[50.0], usize::MAX).expect("distances")[0];
    let far = |h: &[u32]| f64::from(h[BINS / 2..].iter().sum::<u32>()) / f64::from(h.iter().sum::<u32>());
    assert!((far(&first[0].l1) - far(&all.l1)).abs() < 0.03, "{} and {}", far(&first[0].l1), far(&all.l1));
}

#[test]
fn degenerate_sets_have_answers() {
    let one = &distances(&[1.0, 2.0], [1, 1, 2], Metric::L1, &[2.0], 10).expect("one token")[0];
    assert_eq!((one.pairs, one.l1.iter().sum::<u32>()), (0, 0));
    let equal = &distances(&[3.0; 8], [1, 4, 2], Metric::L1, &[2.0], 10).expect("equal tokens")[0];
    assert_eq!((equal.pairs, equal.l1[0], equal.l1_end), (6, 6, 1.0));
    assert!(equal.lambda_gaussian.is_finite() && equal.lambda_gaussian > 0.0);
    // A bandwidth so small that no pair but none counts still gives a positive partner.
    let far = &distances(&[0.0, 1e6, 3e6], [1, 3, 1], Metric::L1, &[1e-3], 10).expect("far tokens")[0];
    assert!(far.lambda_gaussian.is_finite() && far.lambda_gaussian > 0.0, "{}", far.lambda_gaussian);
}

#[test]
fn wrong_features_are_refused_by_name() {
    let refused = |data: &[f32], shape: [usize; 3], lambda: &[f32]| {
        distances(data, shape, Metric::L1, lambda, 10).expect_err("refused").to_string()
    };
    assert!(refused(&[0.0; 3], [1, 2, 2], &[1.0]).contains("features"));
    assert!(refused(&[0.0; 4], [1, 2, 2], &[0.0]).contains("lambda"));
    assert!(refused(&[f32::NAN; 4], [1, 2, 2], &[1.0]).contains("finite"));
    assert!(refused(&[0.0; 4], [1, 2, 2], &[1.0, 2.0, 3.0]).contains("lambda"));
}
