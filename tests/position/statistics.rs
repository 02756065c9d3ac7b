//! What codes are on average: their covariance, its error, and the logits they give, against the closed forms. Seeds are fixed.

use crate::sizes;
use wgattn::position::apply::{Side, apply};
use wgattn::position::sine::SineSizes;
use wgattn::position::template::{empirical, entry_variance, predicted_rmse, variance_within_lags};
use wgattn::position::{ConvCode, Encoding, Gate, Meaning, Mode, Noise, Positions, SineCode};

pub(crate) struct Case {
    pub(crate) name: &'static str,
    pub(crate) encoding: Encoding,
    pub(crate) positions: Positions,
    pub(crate) mode: Mode,
}

pub(crate) fn cases() -> Vec<Case> {
    let line = Positions::line(12).expect("works");
    let picture = Positions::grid(&[3, 4]).expect("works");
    let gate = || Some(Gate::new(1, 2, vec![-0.8, 0.3], Meaning::Paper).expect("works"));
    let sine = || SineCode::init(sizes(1, 2, 5), -1.5, 21).expect("works");
    let on_picture = SineSizes { heads: 1, width: 2, sinusoids: 5, axes: 2 };
    let conv = || ConvCode::init(1, 2, &[8], 22).expect("works");
    let make = |name, encoding: wgattn::Result<Encoding>, positions, mode| Case {
        name,
        encoding: encoding.expect("works"),
        positions,
        mode,
    };
    vec![
        make("sine", Encoding::new(sine(), None), line, Mode::Icdf),
        make("sine, Box–Muller", Encoding::new(sine(), None), line, Mode::BoxMuller),
        make("gated sine", Encoding::new(sine(), gate()), line, Mode::Icdf),
        make(
            "sine on a picture",
            Encoding::new(SineCode::init(on_picture, -1.5, 23).expect("works"), None),
            picture,
            Mode::Icdf,
        ),
        make("conv", Encoding::new(conv(), None), line, Mode::Icdf),
        make("gated conv", Encoding::new(conv(), gate()), line, Mode::Icdf),
        make(
            "conv on a picture",
            Encoding::new(ConvCode::init(1, 2, &[3, 5], 24).expect("works"), None),
            picture,
            Mode::Icdf,
        ),
    ]
}

/// Mean square error of P̂ over all entries, and its standard error, over as many draws as make that of its root at most 1.5 %.
pub(crate) fn square_errors(case: &Case, realizations: u32) -> (f64, f64) {
    let truths: Vec<Vec<f64>> =
        (0..2).map(|d| case.encoding.template_matrix(0, d, &case.positions).expect("works")).collect();
    let mut list = Vec::new();
    loop {
        for _ in 0..200 {
            let noise = Noise { seed: 1000 + list.len() as u64, mode: case.mode, ..Noise::default() };
            let codes = case.encoding.draw(&noise, &case.positions, realizations).expect("works");
            let errors = (0..).zip(&truths).map(|(d, truth)| {
                let got = empirical(&codes, 0, d).expect("works");
                truth.iter().zip(&got).map(|(a, b)| (a - b) * (a - b)).sum::<f64>() / truth.len() as f64
            });
            list.push(errors.sum::<f64>() / 2.0);
        }
        let mean = list.iter().sum::<f64>() / list.len() as f64;
        let variance = list.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / (list.len() - 1) as f64;
        let error = (variance / list.len() as f64).sqrt();
        // The root's relative error is half of the square's.
        if error < 2.0 * 0.015 * mean {
            return (mean, error);
        }
        assert!(list.len() < 5000, "{}: the errors of the covariance scatter too much", case.name);
    }
}

pub(crate) fn predicted_square(case: &Case, realizations: u32) -> f64 {
    let of = |d| {
        let truth = case.encoding.template_matrix(0, d, &case.positions).expect("works");
        predicted_rmse(case.encoding.variances(0, d).expect("works"), &truth, realizations).powi(2)
    };
    (of(0) + of(1)) / 2.0
}

/// √mean((v_q v_k + P²)/R) is what is found, within three standard errors, and it falls with R^−½.
#[test]
fn errors_of_the_covariance_are_the_predicted_ones() {
    for case in cases() {
        let mut points = Vec::new();
        for realizations in [16, 64, 256, 1024, 4096] {
            let (mean, error) = square_errors(&case, realizations);
            let predicted = predicted_square(&case, realizations);
            println!(
                "{:18} R={realizations:4}: rmse {:.5}, predicted {:.5}, {:+.2} standard errors of {:.1} %",
                case.name,
                mean.sqrt(),
                predicted.sqrt(),
                (mean - predicted) / error,
                50.0 * error / mean
            );
            assert!(
                (mean - predicted).abs() < 3.0 * error,
                "{}, R = {realizations}: {mean:e} ± {error:e}, {predicted:e} predicted",
                case.name
            );
            points.push((f64::from(realizations).ln(), 0.5 * mean.ln(), 0.5 * error / mean));
        }
        let (x, y) = points.iter().fold((0.0, 0.0), |(a, b), p| (a + p.0 / 5.0, b + p.1 / 5.0));
        let squares: f64 = points.iter().map(|p| (p.0 - x).powi(2)).sum();
        let slope = points.iter().map(|p| (p.0 - x) * (p.1 - y)).sum::<f64>() / squares;
        let error = points.iter().map(|p| ((p.0 - x) * p.2 / squares).powi(2)).sum::<f64>().sqrt();
        println!("{:18} slope {slope:.4} ± {error:.4}", case.name);
        assert!((slope + 0.5).abs() < 3.5 * error && error < 0.02, "{}: slope {slope} ± {error}", case.name);
    }
}

/// Every entry of P̂, averaged over draws, is P: |z| below 4 for each of two thousand entries (144 of 14 dimensions), and their squares
/// near 1 on average.
#[test]
fn covariances_are_the_template_on_average() {
    let (draws, realizations) = (400_u32, 16);
    for case in cases() {
        for d in 0..2 {
            let truth = case.encoding.template_matrix(0, d, &case.positions).expect("works");
            let mut sum = vec![0.0; truth.len()];
            for seed in 0..draws {
                let noise = Noise { seed: u64::from(seed) + 77, mode: case.mode, ..Noise::default() };
                let codes = case.encoding.draw(&noise, &case.positions, realizations).expect("works");
                for (sum, x) in sum.iter_mut().zip(empirical(&codes, 0, d).expect("works")) {
                    *sum += x / f64::from(draws);
                }
            }
            let variances = case.encoding.variances(0, d).expect("works");
            let z: Vec<f64> = sum
                .iter()
                .zip(&truth)
                .map(|(got, p)| {
                    (got - p) / (entry_variance(variances, *p, realizations) / f64::from(draws)).sqrt()
                })
                .collect();
            let worst = z.iter().fold(0.0_f64, |m, z| m.max(z.abs()));
            assert!(worst < 4.0, "{}, dimension {d}: |z| = {worst}", case.name);
            // Wrong means would show long before: entries share noise, so few of these are independent.
            let square = z.iter().map(|z| z * z).sum::<f64>() / z.len() as f64;
            assert!((0.2..3.0).contains(&square), "{}, dimension {d}: mean z² = {square}", case.name);
        }
    }
}

/// Signs have the same covariance; the error of an entry is smaller by the fourth moments that they lack, never larger.
#[test]
fn signs_do_as_well_as_gaussian_noise() {
    for mut case in cases() {
        case.mode = Mode::Rademacher;
        let (mean, error) = square_errors(&case, 64);
        let predicted = predicted_square(&case, 64);
        assert!(mean < predicted + 3.0 * error, "{}: {mean:e}, {predicted:e}", case.name);
        assert!(mean > 0.4 * predicted, "{}: {mean:e}, {predicted:e}", case.name);
    }
}

/// How far a drawn covariance is from depending on the lag alone falls as 1/R; an exact template is not far at all.
#[test]
fn covariances_become_invariant_to_translation() {
    for case in cases() {
        let truth = case.encoding.template_matrix(0, 0, &case.positions).expect("works");
        assert!(variance_within_lags(&truth, &case.positions).expect("works") < 1e-25, "{}", case.name);
        let at = |realizations: u32| {
            let draws = 300;
            let of = |seed: u64| {
                let noise = Noise { seed, mode: case.mode, ..Noise::default() };
                let codes = case.encoding.draw(&noise, &case.positions, realizations).expect("works");
                variance_within_lags(&empirical(&codes, 0, 0).expect("works"), &case.positions)
                    .expect("works")
            };
            (0..draws).map(of).sum::<f64>() / draws as f64
        };
        let (few, many) = (at(512), at(2048));
        println!("{:18} within/total at R = 512, 2048: {few:.4}, {many:.4}", case.name);
        assert!((3.0..5.0).contains(&(few / many)), "{}: {few} at 512, {many} at 2048", case.name);
    }
}

/// Logits of a query and a key: mean, variance and mean exponential over draws against the closed forms, with standard errors.
#[test]
fn logits_have_the_moments_of_the_closed_forms() {
    for (d, k, r, size) in [(8, 10, 32, 1.0), (32, 5, 64, 0.8), (8, 5, 16, 1.2)] {
        let gate = Gate::init(1, d, 3).expect("works");
        let code = SineCode::init(sizes(1, d, k), -4.0, 4).expect("works");
        let encoding = Encoding::new(code, Some(gate)).expect("works");
        let positions = Positions::line(6).expect("works");
        let of = |seed: u32| -> Vec<f64> {
            (0..d).map(|i| size * f64::from((i * 7 + seed) % 5) / 2.0 - 0.7 * size).collect()
        };
        let (query, key) = (of(1), of(2));
        let logit = encoding.logit(0, &query, &key, [5, 0, 0], r).expect("works");
        // q̂ of token 5 and k̂ of token 0.
        let rows = |x: &[f64]| -> Vec<f64> { (0..6).flat_map(|_| x.to_vec()).collect() };
        let (q, key_rows) = (rows(&query), rows(&key));
        let draws = 20_000;
        let list: Vec<f64> = (0..draws)
            .map(|seed| {
                let noise = Noise { seed, ..Noise::default() };
                let codes = encoding.draw(&noise, &positions, r).expect("works");
                let q = apply(&codes, Side::Query, &q, 1, 6).expect("works");
                let k = apply(&codes, Side::Key, &key_rows, 1, 6).expect("works");
                let n = r as usize;
                q[5 * n..].iter().zip(&k[..n]).map(|(a, b)| a * b).sum::<f64>() / f64::from(r).sqrt()
            })
            .collect();
        let moments = |f: &dyn Fn(f64) -> f64| {
            let mean = list.iter().map(|x| f(*x)).sum::<f64>() / draws as f64;
            let variance = list.iter().map(|x| (f(*x) - mean).powi(2)).sum::<f64>() / draws as f64;
            (mean, (variance / draws as f64).sqrt())
        };
        let expected = logit.mean_exponential().expect("is finite");
        for (what, (got, error), stated) in [
            ("mean", moments(&|x| x), logit.mean()),
            ("variance", moments(&|x| (x - logit.mean()).powi(2)), logit.variance()),
            ("mean exponential", moments(&f64::exp), expected),
        ] {
            println!("D={d} K={k} R={r}: {what} {got:.4} ± {error:.4}, stated {stated:.4}");
            assert!(
                (got - stated).abs() < 3.5 * error,
                "D={d} K={k} R={r}: {what} {got} ± {error}, stated {stated}"
            );
        }
        // The bias that e^mean has is seen: the test can tell the two apart.
        let (got, error) = moments(&f64::exp);
        assert!(got - logit.mean().exp() > 6.0 * error, "{got} ± {error} against {}", logit.mean().exp());
    }
}

/// R√D ≤ C + √(AB): a softmax weight has no mean there.
#[test]
fn a_mean_exponential_may_be_infinite() {
    let code = SineCode::init(sizes(1, 4, 2), -4.0, 4).expect("works");
    let encoding = Encoding::new(code, None).expect("works");
    let at =
        |size: f64| encoding.logit(0, &[size; 4], &[size; 4], [0; 3], 4).expect("works").mean_exponential();
    assert!(at(0.5).is_some());
    assert_eq!(at(10.0), None);
    // And at D = R = 64 with unit vectors it is the product's form, near its approximation exp(mean + variance/2).
    let code = SineCode::init(sizes(1, 64, 5), -4.0, 4).expect("works");
    let encoding = Encoding::new(code, None).expect("works");
    let logit = encoding.logit(0, &[1.0; 64], &[1.0; 64], [0; 3], 4096).expect("works");
    let approximate = (logit.mean() + 0.5 * logit.variance()).exp();
    assert!((logit.mean_exponential().expect("is finite") / approximate - 1.0).abs() < 1e-3);
}
