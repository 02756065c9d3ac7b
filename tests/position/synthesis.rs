//! Prescribed templates: filters that have them exactly, cosines that come near, and what both say of themselves.

use crate::assert_close;
use wgattn::position::Encoding;
use wgattn::position::synthesis::{ConvFit, SineFit, conv_by_delta, conv_by_roots, sine_greedy};
use wgattn::random::{Place, Purpose};

fn lags(reach: i32, f: impl Fn(f64) -> f64) -> Vec<f64> {
    (-reach..=reach).map(|lag| f(f64::from(lag))).collect()
}

/// The template that the code of a fit has, by the code itself.
fn template_of(fit: &ConvFit, reach: i64) -> Vec<f64> {
    let code = ConvFit::code(std::slice::from_ref(fit), 1, 1).expect("works");
    let encoding = Encoding::new(code, None).expect("works");
    (-reach..=reach).map(|lag| encoding.template(0, 0, [lag, 0, 0]).expect("works")).collect()
}

fn drawn(count: u32, seed: u64) -> Vec<f64> {
    (0..count)
        .map(|index| f64::from(Place { index, ..Place::of(Purpose::Data) }.gaussian(seed).expect("works")))
        .collect()
}

#[test]
fn pairs_of_filters_have_any_template() {
    for taps in [1, 2, 3, 9, 33, 65] {
        let reach = taps - 1;
        let mut targets = vec![
            (
                "Gaussian",
                lags(reach, |lag| 3.0 * (-0.5 * (lag / (0.25 * f64::from(taps))).powi(2)).exp()),
                1.2,
            ),
            ("one-sided decay", lags(reach, |lag| if lag < 0.0 { 0.0 } else { (-lag / 16.0).exp() }), 12.0),
            ("one lag", lags(reach, |lag| f64::from(u8::from(lag == 0.0))), 1.0 + 1e-9),
        ];
        if taps % 2 == 1 {
            targets.push(("decay", lags(reach, |lag| (-lag.abs() / 4.0).exp()), 3.0));
            targets.push(("random", drawn(2 * reach as u32 + 1, 5), 600.0));
        }
        for (name, target, price) in targets {
            let fit = conv_by_roots(&target).unwrap_or_else(|e| panic!("{name} on {taps} taps: {e}"));
            let size = target.iter().fold(0.0_f64, |m, x| m.max(x.abs()));
            println!("{name:16} P={taps:2}: residual {:.1e}, price {:.2}", fit.residual, fit.price);
            assert_close(&template_of(&fit, reach.into()), &target, 1e-12, &format!("{name} on {taps} taps"));
            assert!(fit.residual < 1e-12, "{name} on {taps} taps: {:e}", fit.residual);
            assert!(
                fit.price > 1.0 - 1e-9 && fit.price < price,
                "{name} on {taps} taps: price {}",
                fit.price
            );
            // The price is what it says, from the filters.
            let squares = |w: &[f64]| w.iter().map(|x| x * x).sum::<f64>();
            let price = (squares(&fit.q) * squares(&fit.k)).sqrt() / size;
            assert!((fit.price / price - 1.0).abs() < 1e-9, "{name} on {taps} taps: {price}");
        }
    }
}

/// Templates that are not 0 at every g-th lag only: their polynomials are of z^g, and all roots of pulses lie on one circle.
#[test]
fn pulses_have_pairs_of_filters() {
    for (taps, apart) in [(17, 4), (17, 1), (17, 16), (17, 3), (33, 8), (9, 2), (13, 5)] {
        for sign in [1.0, -1.0] {
            let pulse = |lag: f64| f64::from(u8::from(lag.rem_euclid(f64::from(apart)) == 0.0));
            let target = lags(taps - 1, |lag| pulse(lag) * if lag == 0.0 { 1.0 } else { sign });
            let fit = conv_by_roots(&target).unwrap_or_else(|e| panic!("{apart} apart on {taps} taps: {e}"));
            let what = format!("{apart} apart on {taps} taps, sign {sign}");
            assert_close(&template_of(&fit, (taps - 1).into()), &target, 1e-11, &what);
        }
    }
}

/// z² + z + 1 has no real root to give to two polynomials of degree 1.
#[test]
fn an_even_number_of_taps_may_have_no_factors() {
    let error = conv_by_roots(&[1.0, 1.0, 1.0]).expect_err("is refused").to_string();
    assert!(error.contains("odd") && error.contains("real root"), "{error}");
    // With a lag of 0 on both sides it has.
    assert!(conv_by_roots(&[0.0, 1.0, 1.0, 1.0, 0.0]).expect("works").residual < 1e-12);
}

#[test]
fn a_single_tap_prescribes_as_many_lags_as_there_are_taps() {
    let target = |lag: i64| (0.3 * lag as f64).sin() + 0.1 * lag as f64;
    for at in [0, 3, 8] {
        let fit = conv_by_delta(&[9], &[at], |lag| target(lag[0])).expect("works");
        let first = i64::from(at) - 8;
        for (lag, got) in (-8..=8).zip(template_of(&fit, 8)) {
            let expected = if lag >= first && lag <= i64::from(at) { target(lag) } else { 0.0 };
            assert!((got - expected).abs() < 1e-15, "tap {at}, lag {lag}: {got}, {expected}");
        }
    }
    // On a picture: the far corner prescribes the lags that come before.
    let fit = conv_by_delta(&[3, 4], &[2, 0], |[a, b, _]| (10 * a + b) as f64 + 1.0).expect("works");
    let encoding = Encoding::new(ConvFit::code(&[fit], 1, 1).expect("works"), None).expect("works");
    for (lag, expected) in
        [([2, -3, 0], 18.0), ([0, 0, 0], 1.0), ([1, -1, 0], 10.0), ([1, 1, 0], 0.0), ([-1, 0, 0], 0.0)]
    {
        assert_eq!(encoding.template(0, 0, lag).expect("works"), expected, "lag {lag:?}");
    }
}

#[test]
fn products_of_templates_have_outer_products_of_filters() {
    let rows = conv_by_roots(&lags(2, |lag| (-0.5 * lag * lag).exp())).expect("works");
    let columns = conv_by_roots(&lags(4, |lag| (-lag.abs()).exp() * (1.0 + 0.1 * lag))).expect("works");
    let both = rows.times(&columns);
    assert_eq!(both.taps, [3, 5]);
    let encoding = Encoding::new(ConvFit::code(&[both], 1, 1).expect("works"), None).expect("works");
    for (a, b) in (-2..=2).flat_map(|a| (-4..=4).map(move |b| (a, b))) {
        let (x, y) = (f64::from(a), f64::from(b));
        let expected = (-0.5 * x * x).exp() * (-y.abs()).exp() * (1.0 + 0.1 * y);
        let got = encoding.template(0, 0, [a.into(), b.into(), 0]).expect("works");
        assert!((got - expected).abs() < 1e-12, "lag [{a}, {b}]: {got}, {expected}");
    }
}

/// Relative residuals of K = 5, 10, 20 cosines on |τ| ≤ 127 from the method's table; ours may be smaller, not larger by more than its rounding.
#[test]
fn cosines_come_as_near_as_the_method_found() {
    let pulses = |lag: f64| f64::from(u8::from(lag.rem_euclid(16.0) == 0.0));
    let targets: [(&str, Vec<f64>, [f64; 3]); 4] = [
        ("decay", lags(127, |lag| (-lag.abs() / 16.0).exp()), [0.12, 0.045, 0.018]),
        ("Gaussian", lags(127, |lag| (-0.5 * (lag / 8.0).powi(2)).exp()), [0.22, 0.025, 0.002]),
        ("pulses", lags(127, pulses), [0.63, 5e-4, 5e-4]),
        ("one lag", lags(127, |lag| f64::from(u8::from(lag == 0.0))), [0.97, 0.94, 0.86]),
    ];
    let mut failures = Vec::new();
    for (name, target, stated) in targets {
        for (sinusoids, stated) in [5, 10, 20].into_iter().zip(stated) {
            let fit = sine_greedy(&target, sinusoids).expect("works");
            println!(
                "{name:9} K={sinusoids:2}: residual {:.4} (stated {stated}), price {:.2}",
                fit.residual, fit.price
            );
            if fit.residual > 1.02 * stated + 1e-5 {
                failures.push(format!("{name}, {sinusoids}: {}", fit.residual));
            }
            // The residual is that of the code's own template.
            let code = SineFit::code(std::slice::from_ref(&fit), 1, 1).expect("works");
            let encoding = Encoding::new(code, None).expect("works");
            let squares: f64 = (-127..=127)
                .zip(&target)
                .map(|(lag, x)| (encoding.template(0, 0, [lag, 0, 0]).expect("works") - x).powi(2))
                .sum();
            let residual = squares.sqrt() / target.iter().map(|x| x * x).sum::<f64>().sqrt();
            assert!(
                (residual - fit.residual).abs() < 1e-9,
                "{name}, {sinusoids}: {residual}, {}",
                fit.residual
            );
        }
    }
    assert!(failures.is_empty(), "{failures:?}");
}

#[test]
fn a_sum_of_cosines_is_found_again() {
    let target = lags(40, |lag| 0.7 * (0.31 * lag + 0.4).cos() + 0.2 * (2.0 * lag - 1.0).cos());
    let fit = sine_greedy(&target, 2).expect("works");
    assert!(fit.residual < 1e-5, "{}", fit.residual);
    // More than there are leave gains of 0.
    let more = sine_greedy(&lags(20, |lag| (0.25 * std::f64::consts::TAU * lag).cos()), 4).expect("works");
    assert!(more.residual < 1e-9 && more.gains.len() == 4, "{more:?}");
}
