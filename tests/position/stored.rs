//! Codes, gates, q̂ and k̂ of a published program on the noise that it drew.
//!
//! Its frequencies and taps are its own random ones, everything in f64; the tolerance 1e-13 of the largest number is some hundred
//! roundings.

use crate::assert_close;
use crate::published::File;
use wgattn::position::apply::{Side, apply};
use wgattn::position::{Codes, ConvCode, ConvPath, Encoding, Gate, Meaning, Noise, Positions, scale};

const TOLERANCE: f64 = 1e-13;

/// Compares the codes, and what becomes of the stored q and k.
fn check(file: &File, mut codes: Codes, what: &str) {
    assert_close(&codes.q, &file.numbers("qbar"), TOLERANCE, &format!("{what}: q̄"));
    assert_close(&codes.k, &file.numbers("kbar"), TOLERANCE, &format!("{what}: k̄"));
    if let Some(gate) = file.gate() {
        gate.apply(&mut codes, &file.numbers("gate_noise")).expect("works");
    }
    let &[batch, tokens, ..] = &file.shape("q")[..] else { panic!("q has other axes") };
    for (side, input, output) in [(Side::Query, "q", "qhat"), (Side::Key, "k", "khat")] {
        let got = apply(&codes, side, &file.by_head(input).to_f64(), batch, tokens).expect("works");
        assert_close(&got, &file.by_head(output).to_f64(), TOLERANCE, &format!("{what}: {output}"));
    }
}

#[test]
fn sinusoidal_codes_are_the_published_ones() {
    for name in ["sine_plain", "sine_gated"] {
        let file = File::open(name);
        let code = file.sine("param_");
        let &[1, tokens, .., realizations] = &file.shape("qbar")[..] else { panic!("q̄ has other axes") };
        let positions = Positions::line(tokens).expect("works");
        let codes = code.codes(&positions, &file.numbers("noise"), realizations).expect("works");
        check(&file, codes, name);
    }
}

/// The same through the table that shaders are given: off by the rounding of frequencies to 2⁻³³ turns, n · 2π · 2⁻³³ and the phase's own,
/// and of gains to f32.
#[test]
fn tables_give_the_published_codes_up_to_their_rounding() {
    let file = File::open("sine_gated");
    let code = file.sine("param_");
    let gate = file.gate().expect("there is one");
    let &[1, tokens, heads, width, realizations] = &file.shape("qbar")[..] else { panic!("other axes") };
    let table = code.table(Some(&gate)).expect("works");
    let noise = table
        .join_noise(&file.numbers("noise"), Some(&file.numbers("gate_noise")), realizations)
        .expect("works");
    let positions = Positions::line(tokens).expect("works");
    let codes = table.codes(&positions, &noise, realizations).expect("works");
    let mut expected = code.codes(&positions, &file.numbers("noise"), realizations).expect("works");
    gate.apply(&mut expected, &file.numbers("gate_noise")).expect("works");
    assert_eq!((codes.heads, codes.width), (heads, width));
    assert_close(&codes.q, &expected.q, 2e-7, "q̄ of the table in f64");
    assert_close(&codes.k, &expected.k, 2e-7, "k̄ of the table in f64");
    let single: Vec<f32> = noise.iter().map(|&x| x as f32).collect();
    let naive = table.codes(&positions, &single, realizations).expect("works");
    let wide = |list: &[f32]| list.iter().map(|&x| f64::from(x)).collect::<Vec<_>>();
    // The method allows 2e-6 of the largest; a plain evaluation in f32 has some ten roundings.
    assert_close(&wide(&naive.q), &codes.q, 1e-6, "q̄ in f32");
    assert_close(&wide(&naive.k), &codes.k, 1e-6, "k̄ in f32");
}

/// The published program makes queries' codes with the filter that it calls `conv_k`, and hears only samples P … P + n + P − 2 of its noise
/// `[r, h·d, n + 4P]`.
#[test]
fn convolutional_codes_are_the_published_ones() {
    for name in ["conv1d_plain", "conv1d_gated"] {
        let file = File::open(name);
        let &[1, tokens, .., realizations] = &file.shape("qbar")[..] else { panic!("other axes") };
        let (code, z) = (file.conv(), file.samples());
        let taps = code.taps()[0];
        let positions = Positions::line(tokens).expect("works");
        let paths = [
            ConvPath::Direct,
            code.plan(&positions, realizations).expect("works"),
            ConvPath::OverlapSave { block: [taps, 1, 1] },
            ConvPath::OverlapSave { block: [taps + 3, 1, 1] },
            ConvPath::OverlapSave { block: [64, 1, 1] },
        ];
        for path in paths {
            let codes = code.codes(&positions, &z, realizations, path).expect("works");
            check(&file, codes, &format!("{name}, {path:?}"));
        }
    }
}

/// Filters as backends are given them: off by their rounding to f32, and in f32 by that of some ten sums.
#[test]
fn tables_of_filters_give_the_published_codes_up_to_their_rounding() {
    let (positions, realizations) = (Positions::grid(&[4, 5]).expect("works"), 6);
    let code = ConvCode::init(2, 3, &[3, 2], 1).expect("works");
    let z = Noise::default().conv(2, 3, &positions, &[3, 2], realizations).expect("works");
    let epsilon = Noise::default().gate(2, 3, 0, realizations).expect("works");
    let gate = Gate::init(2, 3, 1).expect("works");
    let mut expected = code.codes(&positions, &z, realizations, ConvPath::Direct).expect("works");
    let plain = code.table(None).expect("works").codes(&positions, &z, None, realizations).expect("works");
    assert_close(&plain.q, &expected.q, 2e-7, "q̄ of the table without a gate");
    gate.apply(&mut expected, &epsilon).expect("works");
    let table = code.table(Some(&gate)).expect("works");
    let wide = table.codes(&positions, &z, Some(&epsilon), realizations).expect("works");
    assert_close(&wide.q, &expected.q, 2e-7, "q̄ of the table in f64");
    assert_close(&wide.k, &expected.k, 2e-7, "k̄ of the table in f64");
    let single = |list: &[f64]| list.iter().map(|&x| x as f32).collect::<Vec<_>>();
    let naive = table.codes(&positions, &single(&z), Some(&single(&epsilon)), realizations).expect("works");
    let naive: Vec<f64> = naive.k.iter().map(|&x| f64::from(x)).collect();
    assert_close(&naive, &wide.k, 1e-6, "k̄ in f32");
}

/// What the published `get_posattn_matrix` returns is 2K times the template.
#[test]
fn templates_are_the_published_ones() {
    let file = File::open("sine_template_repo");
    let code = file.sine("");
    let &[1, heads, width, tokens, _] = &file.shape("posattn")[..] else { panic!("other axes") };
    let positions = Positions::line(tokens).expect("works");
    let factor = 2.0 * f64::from(code.sinusoids());
    let encoding = Encoding::new(code, None).expect("works");
    let mut all = Vec::new();
    for (h, d) in (0..heads).flat_map(|h| (0..width).map(move |d| (h, d))) {
        all.extend(encoding.template_matrix(h, d, &positions).expect("works").iter().map(|p| factor * p));
    }
    assert_close(&all, &file.numbers("posattn"), TOLERANCE, "templates");
}

#[test]
fn gates_of_the_other_program_have_the_other_sign() {
    let raw = vec![-3.0, 0.5, 40.0, -800.0];
    let paper = Gate::new(2, 2, raw.clone(), Meaning::Paper).expect("works");
    let other = Gate::new(2, 2, raw.iter().map(|x| -x).collect(), Meaning::PositionalShare).expect("works");
    assert_eq!(paper, other);
    assert_eq!(other.raw(Meaning::Paper), raw);
    // Its formula: √sigmoid on the code, √(1 − sigmoid) on the noise.
    let gamma = 1.0 / (1.0 + (-3.0_f64).exp());
    let [c, e] = other.factors(0, 0);
    assert!((c - gamma.sqrt()).abs() < 1e-15 && (e - (1.0 - gamma).sqrt()).abs() < 1e-15);
    // Far from 0 the small share keeps its digits, and is 0 only where f64 has no smaller number.
    assert!((paper.factors(1, 0)[0] / (-20.0_f64).exp() - 1.0).abs() < 1e-14);
    assert_eq!(paper.factors(1, 1), [1.0, 0.0]);
    assert_eq!(scale(64, 64), 64.0_f64.powf(-0.5));
}
