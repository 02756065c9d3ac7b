//! Bad input: every refusal names what, the bounds and the value, and nothing panics.

use crate::sizes;
use wgattn::Result;
use wgattn::position::apply::{Side, apply};
use wgattn::position::noise::MOST_REALIZATIONS;
use wgattn::position::sine::SineSizes;
use wgattn::position::synthesis::{ConvFit, SineFit, conv_by_delta, conv_by_roots, sine_greedy};
use wgattn::position::template::{empirical, variance_within_lags};
use wgattn::position::{ConvCode, ConvPath, Encoding, Gate, Layer, Meaning, Noise, Positions, SineCode};

#[track_caller]
fn refused<T: std::fmt::Debug>(result: Result<T>, words: &[&str]) {
    let error = result.expect_err("is refused").to_string();
    for word in words {
        assert!(error.contains(word), "`{word}` is not in: {error}");
    }
}

#[test]
fn sizes_of_zero_and_beyond_the_counters_are_refused() {
    let noise = Noise::default();
    refused(noise.sine(0, 4, 2, 8), &["heads", "at least 1", "got 0"]);
    refused(noise.sine(4, 0, 2, 8), &["dimensions", "at least 1", "got 0"]);
    refused(noise.sine(2, 4, 0, 8), &["sinusoids", "1 to", "got 0"]);
    refused(noise.sine(2, 4, u32::MAX, 8), &["sinusoids", "4294967295"]);
    refused(noise.sine(2, 4, 2, 0), &["realisations", "1 to 16384", "got 0"]);
    refused(noise.sine(2, 4, 2, MOST_REALIZATIONS + 1), &["realisations", "16385"]);
    refused(noise.sine(1024, 1025, 2, 8), &["1048576", "1024 · 1025"]);
    refused(noise.sine(u32::MAX, u32::MAX, 2, 8), &["1048576"]);
    refused(noise.sine(1024, 1024, 1 << 16, 16_384), &["numbers on the CPU"]);
    refused(Noise { layer: Layer::Own(u16::MAX), ..noise }.sine(1, 1, 1, 1), &["layer", "65535"]);
    refused(Noise { gate_layer: Layer::Own(u16::MAX), ..noise }.gate(1, 1, 0, 1), &["layer", "65535"]);
    refused(Noise { draw: 256, ..noise }.sine(1, 1, 1, 1), &["draw", "below 256", "got 256"]);
    refused(SineCode::init(sizes(0, 1, 1), -4.0, 0), &["heads", "got 0"]);
    refused(SineCode::init(sizes(1, 0, 1), -4.0, 0), &["dimensions", "got 0"]);
    refused(SineCode::init(sizes(1, 1, 0), -4.0, 0), &["sinusoids", "got 0"]);
    refused(SineCode::init(SineSizes { axes: 0, ..sizes(1, 1, 1) }, -4.0, 0), &["axes", "1 to 3", "got 0"]);
    refused(SineCode::init(SineSizes { axes: 4, ..sizes(1, 1, 1) }, -4.0, 0), &["axes", "got 4"]);
    refused(SineCode::init(sizes(1, 1, 1), f64::NAN, 0), &["bias", "finite", "NaN"]);
    for taps in [&[][..], &[0], &[3, 0], &[1, 1, 1, 1], &[1 << 21], &[u32::MAX; 3]] {
        refused(ConvCode::init(1, 1, taps, 0), &["taps", "one to three axes", &format!("{taps:?}")]);
    }
    refused(ConvCode::init(1024, 1024, &[1 << 20], 0), &["filters", "numbers on the CPU"]);
    refused(Gate::init(0, 3, 0), &["heads", "got 0"]);
}

#[test]
fn the_largest_sizes_of_the_counters_are_not_refused() {
    let noise = Noise { layer: Layer::Own(u16::MAX - 1), draw: 255, ..Noise::default() };
    assert_eq!(noise.sine(1, 1, 1, MOST_REALIZATIONS).expect("works").len(), 2 * 16_384);
    assert_eq!(noise.gate(1 << 10, 1 << 10, 0, 1).expect("works").len(), 1 << 20);
    let last = Positions::line(2).and_then(|p| p.starting_at(&[u32::MAX - 2])).expect("works");
    assert_eq!(noise.conv(1, 1, &last, &[1], 1).expect("works").len(), 2);
}

#[test]
fn positions_that_do_not_fit_are_refused() {
    for sides in [&[][..], &[0], &[3, 0], &[1, 1, 1, 1]] {
        refused(Positions::grid(sides), &["positions", "one to three sides", &format!("{sides:?}")]);
    }
    refused(Positions::grid(&[u32::MAX, u32::MAX]), &["positions", "side 4294967295"]);
    let line = Positions::line(10).expect("works");
    refused(line.starting_at(&[1, 2]), &["first position", "[1, 2]"]);
    refused(line.starting_at(&[u32::MAX]), &["first position", "2^32"]);
    let noise = Noise::default();
    refused(noise.conv(1, 1, &line, &[3, 3], 4), &["axes", "got 1"]);
    let far = line.starting_at(&[u32::MAX - 10]).expect("works");
    refused(noise.conv(1, 1, &far, &[3], 4), &["2^32"]);
    let picture = Positions::grid(&[1, 4]).and_then(|p| p.starting_at(&[0, 65_533])).expect("works");
    refused(noise.conv(1, 1, &picture, &[1, 1], 4), &["axis 2 of 2", "2^16", "65536"]);
    let film = Positions::grid(&[1025, 1, 1]).expect("works");
    refused(noise.conv(1, 1, &film, &[1, 1, 1], 4), &["axis 1 of 3", "2^10", "1024"]);
    let code = SineCode::init(sizes(1, 1, 1), -4.0, 0).expect("works");
    refused(code.codes(&picture, &[0.0; 8], 4), &["positions", "1 axis", "got 2"]);
    refused(code.table(None).expect("works").codes(&picture, &[0.0_f64; 8], 4), &["positions", "1 axis"]);
    let encoding = Encoding::new(code, None).expect("works");
    refused(encoding.template_matrix(0, 0, &picture), &["positions", "1 axis"]);
    refused(encoding.draw(&noise, &picture, 4), &["positions", "1 axis"]);
    refused(encoding.draw(&noise, &line, 0), &["realisations", "got 0"]);
    refused(
        encoding.draw(&noise, &Positions::line(1 << 30).expect("works"), 64),
        &["codes", "numbers on the CPU"],
    );
}

#[test]
fn parameters_of_other_sizes_and_not_finite_are_refused() {
    let size = sizes(1, 2, 3);
    let six = || vec![0.1; 6];
    refused(SineCode::new(size, vec![0.1; 5], six(), six()), &["frequencies", "h=1, d=2, k=3", "5 numbers"]);
    refused(SineCode::new(size, six(), vec![], six()), &["phases", "0 numbers"]);
    refused(SineCode::new(size, six(), six(), vec![0.1; 7]), &["gains", "7 numbers"]);
    refused(SineCode::new(SineSizes { axes: 2, ..size }, six(), six(), six()), &["frequencies", "axes=2"]);
    let with = |at: usize, value: f64| {
        let mut list = six();
        list[at] = value;
        list
    };
    refused(SineCode::new(size, with(4, f64::NAN), six(), six()), &["frequencies", "NaN at element 4"]);
    refused(SineCode::new(size, with(4, 0.51), six(), six()), &["frequencies", "½", "0.51 at element 4"]);
    refused(SineCode::new(size, six(), with(1, f64::INFINITY), six()), &["phases", "inf at element 1"]);
    refused(SineCode::new(size, six(), six(), with(2, -1.0)), &["gains", "-1 at element 2"]);
    refused(SineCode::from_raw(size, &with(0, f64::INFINITY), &six(), &six()), &["frequencies", "inf"]);
    refused(SineCode::from_raw(size, &six(), &six(), &with(0, f64::NEG_INFINITY)), &["gains", "-inf"]);
    refused(ConvCode::new(1, 2, &[3], six(), vec![0.0; 5]), &["filters of keys", "p=3", "5 numbers"]);
    refused(ConvCode::new(1, 2, &[3], with(5, f64::NAN), six()), &["filters of queries", "NaN at element 5"]);
    refused(Gate::new(1, 2, vec![0.0; 3], Meaning::Paper), &["gate", "h=1, d=2", "3 numbers"]);
    refused(Gate::new(1, 2, vec![0.0, f64::NAN], Meaning::Paper), &["gate", "NaN at element 1"]);
    let other = Gate::init(2, 2, 0).expect("works");
    let code = SineCode::init(size, -4.0, 0).expect("works");
    refused(code.table(Some(&other)), &["gate", "[1, 2]", "[2, 2]"]);
    refused(Encoding::new(code, Some(other)), &["gate", "[1, 2]", "[2, 2]"]);
}

#[test]
fn noise_codes_and_queries_of_other_sizes_are_refused() {
    let line = Positions::line(4).expect("works");
    let sine = SineCode::init(sizes(1, 2, 3), -4.0, 0).expect("works");
    refused(sine.codes(&line, &[0.0; 7], 4), &["noise of sinusoids", "rows=6", "7 numbers"]);
    let gate = Gate::init(1, 2, 0).expect("works");
    let table = sine.table(Some(&gate)).expect("works");
    refused(table.codes(&line, &[0.0_f32; 48], 4), &["noise of sinusoids", "rows=7", "48 numbers"]);
    refused(table.join_noise(&[0.0; 48], None, 4), &["gate noise", "a gate without noise"]);
    refused(table.join_noise(&[0.0; 48], Some(&[0.0; 7]), 4), &["gate noise", "7 numbers"]);
    refused(table.join_noise(&[], Some(&[]), 0), &["realisations", "got 0"]);
    let mut short = table.clone();
    short.phases.pop();
    refused(short.codes(&line, &[0.0_f32; 56], 4), &["table of phases", "5 numbers"]);
    let plain = sine.table(None).expect("works");
    refused(plain.join_noise(&[0.0; 48], Some(&[0.0; 8]), 4), &["gate noise", "noise without a gate"]);
    let conv = ConvCode::init(1, 2, &[3], 0).expect("works");
    refused(conv.codes(&line, &[0.0; 7], 4, ConvPath::Direct), &["noise under filters", "u=6", "7 numbers"]);
    let z = Noise::default().conv(1, 2, &line, &[3], 4).expect("works");
    let filters = conv.table(Some(&gate)).expect("works");
    refused(filters.codes(&line, &z, None, 4), &["gate noise", "a gate without noise"]);
    refused(filters.codes(&line, &z, Some(&[0.0; 7]), 4), &["gate noise", "7 numbers"]);
    refused(filters.codes(&line, &[0.0; 7], Some(&[0.0; 8]), 4), &["noise under filters", "7 numbers"]);
    let mut short = filters.clone();
    short.k.pop();
    refused(short.codes(&line, &z, Some(&[0.0; 8]), 4), &["table of keys' filters", "5 numbers"]);
    let plain_filters = conv.table(None).expect("works");
    refused(plain_filters.codes(&line, &z, Some(&[0.0; 8]), 4), &["gate noise", "noise without a gate"]);
    refused(conv.table(Some(&Gate::init(2, 2, 0).expect("works"))), &["gate", "[1, 2]", "[2, 2]"]);
    for block in [[2, 1, 1], [0, 1, 1], [4, 2, 1], [1 << 27, 1, 1]] {
        let path = ConvPath::OverlapSave { block };
        refused(conv.codes(&line, &z, 4, path), &["block", "[3]", &format!("{block:?}")]);
        refused(conv.flops(&line, 4, path), &["block", &format!("{block:?}")]);
    }
    let mut codes = conv.codes(&line, &z, 4, ConvPath::Direct).expect("works");
    refused(gate.apply(&mut codes, &[0.0; 7]), &["gate noise", "r=4", "7 numbers"]);
    let mut cut = codes.clone();
    cut.k.pop();
    refused(apply(&cut, Side::Key, &[0.0; 8], 1, 4), &["codes of keys", "31 numbers"]);
    refused(empirical(&cut, 0, 0), &["codes of keys", "31 numbers"]);
    refused(gate.apply(&mut cut, &[0.0; 8]), &["codes of keys", "31 numbers"]);
    refused(Gate::init(2, 2, 0).expect("works").apply(&mut codes, &[0.0; 16]), &["gate", "[1, 2]", "[2, 2]"]);
    refused(
        apply(&codes, Side::Query, &[0.0; 9], 1, 4),
        &["queries or keys", "b=1, h=1, n=4, d=2", "9 numbers"],
    );
    refused(apply(&codes, Side::Key, &[0.0; 10], 1, 5), &["position code", "at least 5 tokens", "4 tokens"]);
    // A longer code gives its first tokens.
    assert_eq!(apply(&codes, Side::Key, &[1.0; 6], 1, 3).expect("works").len(), 12);
    refused(empirical(&codes, 1, 0), &["head and dimension", "1 and 0"]);
    refused(empirical(&codes, 0, 2), &["head and dimension", "0 and 2"]);
    let encoding = Encoding::new(conv, None).expect("works");
    refused(encoding.template(0, 2, [0; 3]), &["below 1 and 2", "0 and 2"]);
    refused(encoding.variances(1, 0), &["below 1 and 2", "1 and 0"]);
    refused(encoding.logit(0, &[1.0], &[1.0; 2], [0; 3], 4), &["query of a logit", "1 number"]);
    refused(encoding.logit(0, &[1.0; 2], &[1.0; 2], [0; 3], 0), &["realisations"]);
    refused(variance_within_lags(&[0.0; 15], &line), &["covariance", "15 numbers"]);
    refused(variance_within_lags(&[1.0; 16], &line), &["above 0"]);
}

#[test]
fn templates_that_cannot_be_prescribed_are_refused() {
    refused(conv_by_roots(&[]), &["lags", "odd", "got 0"]);
    refused(conv_by_roots(&[1.0, 2.0]), &["lags", "odd", "got 2"]);
    refused(conv_by_roots(&[0.0; 5]), &["only zeros"]);
    refused(conv_by_roots(&[1.0, f64::NAN, 1.0]), &["NaN at element 1"]);
    refused(conv_by_roots(&vec![1.0; 1025]), &["512", "1025"]);
    // Ends that vanish beside the rest do no harm.
    for ends in [1e-3, 1e-9, 1e-12, 1e-17, 1e-100, 1e-200, 1e-310] {
        let target = [ends, 0.0, 1.0, 0.5, 0.5 * ends];
        let fit = conv_by_roots(&target).unwrap_or_else(|error| panic!("{ends:e}: {error}"));
        assert!(fit.residual < 1e-12 && fit.price < 10.0, "{ends:e}: {fit:?}");
    }
    refused(sine_greedy(&[1.0, 2.0], 1), &["lags", "odd", "got 2"]);
    refused(sine_greedy(&[1.0; 3], 0), &["sinusoids", "1 to 3", "got 0"]);
    refused(sine_greedy(&[1.0; 3], 4), &["sinusoids", "got 4"]);
    refused(sine_greedy(&[0.0; 3], 1), &["only zeros"]);
    refused(sine_greedy(&vec![1.0; 1025], 1), &["1023", "1025"]);
    refused(conv_by_delta(&[4], &[4], |_| 1.0), &["single tap", "[4]"]);
    refused(conv_by_delta(&[4, 4], &[1], |_| 1.0), &["single tap", "[1]"]);
    refused(conv_by_delta(&[0], &[0], |_| 1.0), &["sides"]);
    refused(conv_by_delta(&[4], &[0], |_| f64::NAN), &["NaN at element 0"]);
    refused(conv_by_delta(&[4], &[0], |_| 0.0), &["only zeros"]);
    let (three, one) = (conv_by_roots(&[1.0; 5]).expect("works"), conv_by_roots(&[1.0]).expect("works"));
    refused(ConvFit::code(&[three, one.clone()], 1, 2), &["taps of a fit", "[3]", "[1]"]);
    refused(ConvFit::code(&[one], 1, 2), &["fits of filters", "1 number"]);
    let fit = |k| sine_greedy(&[1.0, 2.0, 1.0], k).expect("works");
    refused(SineFit::code(&[fit(1), fit(2)], 1, 2), &["sinusoids of a fit", "got 2"]);
    refused(SineFit::code(&[], 0, 0), &["at least one"]);
}
