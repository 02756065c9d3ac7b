//! Codes, gates, q̂ and k̂ of a published program on the noise that it drew.
//!
//! Its frequencies and taps are its own random ones, everything in f64; the tolerance 1e-13 of the largest number is some hundred
//! roundings.

use crate::{assert_close, sizes};
use std::collections::BTreeMap;
use std::path::Path;
use wgattn::arrays::{Array, ArrayData, read};
use wgattn::position::apply::{Side, apply};
use wgattn::position::{
    Codes, ConvCode, ConvPath, Encoding, Gate, Meaning, Noise, Positions, SineCode, scale,
};

const TOLERANCE: f64 = 1e-13;

pub(crate) struct File(BTreeMap<String, Array>);

impl File {
    pub(crate) fn open(name: &str) -> Self {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/data/spe/{name}.npz"));
        Self(read(path).expect("the stored arrays are there"))
    }

    pub(crate) fn has(&self, name: &str) -> bool {
        self.0.contains_key(name)
    }

    pub(crate) fn numbers(&self, name: &str) -> Vec<f64> {
        match &self.0[name].data {
            ArrayData::F64(v) => v.clone(),
            other => panic!("{name} is {}", other.dtype()),
        }
    }

    pub(crate) fn shape(&self, name: &str) -> Vec<u32> {
        self.0[name].shape.iter().map(|&x| x as u32).collect()
    }

    /// `[b, n, h, d]` as `[b, h, n, d]`.
    fn by_head(&self, name: &str) -> Vec<f64> {
        let &[b, n, h, d] = &self.0[name].shape[..] else { panic!("{name} has other axes") };
        let x = self.numbers(name);
        let at = |b, h, i| &x[((b * n + i) * h_of(&self.0[name].shape) + h) * d..][..d];
        let mut out = Vec::new();
        for element in 0..b {
            for head in 0..h {
                for i in 0..n {
                    out.extend_from_slice(at(element, head, i));
                }
            }
        }
        out
    }

    fn gate(&self) -> Option<Gate> {
        let &[h, d] = &self.shape("gate")[..] else { panic!("gate has other axes") };
        Some(Gate::new(h, d, self.numbers("gate"), Meaning::Paper).expect("works"))
    }

    /// Compares the codes, and what becomes of the stored q and k.
    fn check(&self, mut codes: Codes, what: &str) {
        assert_close(&codes.q, &self.numbers("qbar"), TOLERANCE, &format!("{what}: q̄"));
        assert_close(&codes.k, &self.numbers("kbar"), TOLERANCE, &format!("{what}: k̄"));
        if self.has("gate") {
            let epsilon = self.numbers("gate_noise");
            self.gate().expect("there is one").apply(&mut codes, &epsilon).expect("works");
        }
        let &[batch, tokens, ..] = &self.shape("q")[..] else { panic!("q has other axes") };
        for (side, input, output) in [(Side::Query, "q", "qhat"), (Side::Key, "k", "khat")] {
            let got = apply(&codes, side, &self.by_head(input), batch, tokens).expect("works");
            assert_close(&got, &self.by_head(output), TOLERANCE, &format!("{what}: {output}"));
        }
    }
}

fn h_of(shape: &[usize]) -> usize {
    shape[2]
}

pub(crate) fn sine_code(file: &File, prefix: &str) -> SineCode {
    let &[h, d, k] = &file.shape(&format!("{prefix}freqs"))[..] else { panic!("freqs has other axes") };
    let read = |name: &str| file.numbers(&format!("{prefix}{name}"));
    SineCode::from_raw(sizes(h, d, k), &read("freqs"), &read("offsets"), &read("gains")).expect("works")
}

#[test]
fn sinusoidal_codes_are_the_published_ones() {
    for name in ["sine_plain", "sine_gated"] {
        let file = File::open(name);
        let code = sine_code(&file, "param_");
        let &[1, tokens, .., realizations] = &file.shape("qbar")[..] else { panic!("q̄ has other axes") };
        let positions = Positions::line(tokens).expect("works");
        let codes = code.codes(&positions, &file.numbers("noise"), realizations).expect("works");
        file.check(codes, name);
    }
}

/// The same through the table that shaders are given: off by the rounding of frequencies to 2⁻³³ turns, n · 2π · 2⁻³³ and the phase's own,
/// and of gains to f32.
#[test]
fn tables_give_the_published_codes_up_to_their_rounding() {
    let file = File::open("sine_gated");
    let code = sine_code(&file, "param_");
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
        let &[1, tokens, heads, width, realizations] = &file.shape("qbar")[..] else { panic!("other axes") };
        let &[_, 1, taps] = &file.shape("param_conv_q.weight")[..] else { panic!("taps have other axes") };
        let code = ConvCode::new(
            heads,
            width,
            &[taps],
            file.numbers("param_conv_k.weight"),
            file.numbers("param_conv_q.weight"),
        )
        .expect("works");
        let (drawn, samples) = (file.numbers("noise"), (tokens + taps - 1) as usize);
        let (channels, length) = ((heads * width) as usize, (tokens + 4 * taps) as usize);
        let mut z = Vec::with_capacity(channels * samples * realizations as usize);
        for channel in 0..channels {
            for u in 0..samples {
                let at = |r: usize| drawn[(r * channels + channel) * length + taps as usize + u];
                z.extend((0..realizations as usize).map(at));
            }
        }
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
            file.check(codes, &format!("{name}, {path:?}"));
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
    let code = sine_code(&file, "");
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
