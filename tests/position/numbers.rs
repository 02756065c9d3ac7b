//! Noise: its places, its prefixes, who shares it, and that codes of a position are the same bits whatever is around it.

use crate::sizes;
use wgattn::position::noise::{pack, packed_bits};
use wgattn::position::{Codes, ConvCode, ConvPath, Encoding, Gate, Layer, Mode, Noise, Positions, SineCode};
use wgattn::random::{EVALUATION, Purpose, box_muller, gaussian, philox, rademacher};

/// The layout of the method, written out by hand: index; channel | (r / 4) · 2²⁰; step; tag · 2²⁴ | layer · 2⁸ | draw.
#[test]
fn numbers_stand_where_the_method_puts_them() {
    let noise = Noise {
        seed: 0x0123_4567_89ab_cdef,
        step: 7,
        draw: 3,
        layer: Layer::Own(5),
        gate_layer: Layer::Shared,
        ..Noise::default()
    };
    assert_eq!(noise.key(), [0x89ab_cdef, 0x0123_4567]);
    assert_eq!(noise.counter_tail(Purpose::SineNoise).expect("works"), [7, 1 << 24 | 5 << 8 | 3]);
    assert_eq!(noise.counter_tail(Purpose::GateNoise).expect("works"), [7, 3 << 24 | 0xffff << 8 | 3]);
    assert_eq!(Noise::default().step, EVALUATION);
    let (heads, width, sinusoids, r) = (2, 3, 4, 10);
    let words = |index: u32, channel: u32, lane: u32, tag: u32, layer: u32| {
        philox([index, channel | (lane / 4) << 20, 7, tag << 24 | layer << 8 | 3], noise.seed)
    };
    for mode in Mode::ALL.map(|(_, mode)| mode) {
        let noise = Noise { mode, ..noise };
        let number = |words: [u32; 4], lane: u32| match mode {
            Mode::Icdf => f64::from(gaussian(words[lane as usize % 4])),
            Mode::BoxMuller => box_muller(words)[lane as usize % 4],
            Mode::Rademacher => f64::from(rademacher(words[lane as usize % 4])),
        };
        let z = noise.sine(heads, width, sinusoids, r).expect("works");
        let epsilon = noise.gate(heads, width, 2 * sinusoids, r).expect("works");
        let positions = Positions::grid(&[2, 3]).and_then(|p| p.starting_at(&[4, 9])).expect("works");
        let under = noise.conv(heads, width, &positions, &[2, 2], r).expect("works");
        assert_eq!((z.len(), epsilon.len(), under.len()), (2 * 3 * 8 * 10, 2 * 3 * 10, 2 * 3 * 3 * 4 * 10));
        for (channel, lane) in (0..6_u32).flat_map(|c| (0..r).map(move |r| (c, r))) {
            for row in 0..8_u32 {
                let at = ((channel * 8 + row) * r + lane) as usize;
                assert_eq!(
                    z[at],
                    number(words(row, channel, lane, 1, 5), lane),
                    "{mode:?}: Z[{channel}, {row}, {lane}]"
                );
            }
            let at = (channel * r + lane) as usize;
            assert_eq!(
                epsilon[at],
                number(words(8, channel, lane, 3, 0xffff), lane),
                "{mode:?}: ε[{channel}, {lane}]"
            );
            for (i, (a, b)) in (0..3_u32).flat_map(|a| (0..4_u32).map(move |b| (a, b))).enumerate() {
                let at = (channel as usize * 12 + i) * r as usize + lane as usize;
                let index = (a + 4) << 16 | (b + 9);
                assert_eq!(
                    under[at],
                    number(words(index, channel, lane, 2, 5), lane),
                    "{mode:?}: z[{channel}, {a}, {b}]"
                );
                assert_eq!(under[at], noise.number(Purpose::ConvNoise, index, channel, lane).expect("works"));
            }
        }
    }
}

#[test]
fn positions_under_filters_are_packed_without_collisions() {
    assert_eq!(pack(&[u32::MAX]).expect("works"), u32::MAX);
    assert_eq!(pack(&[3, 5]).expect("works"), 3 << 16 | 5);
    assert_eq!(pack(&[1023, 2047, 2046]).expect("works"), u32::MAX - 1);
    assert_eq!(packed_bits(3), [10, 11, 11]);
    for (wrong, axis) in [
        (&[65_536, 0][..], "axis 1 of 2"),
        (&[0, 65_536], "axis 2 of 2"),
        (&[1024, 0, 0], "axis 1 of 3"),
        (&[0, 2048, 0], "axis 2 of 3"),
        (&[0, 0, 2048], "axis 3 of 3"),
        (&[], "[]"),
        (&[0; 4], "[0, 0, 0, 0]"),
    ] {
        let error = pack(wrong).expect_err("is refused").to_string();
        assert!(error.contains(axis), "{error}");
    }
}

fn bits(list: &[f64]) -> Vec<u64> {
    list.iter().map(|x| x.to_bits()).collect()
}

fn encodings() -> Vec<(&'static str, Encoding)> {
    let gate = || Some(Gate::init(2, 3, 9).expect("works"));
    let sine = SineCode::init(sizes(2, 3, 4), -4.0, 1).expect("works");
    let conv = ConvCode::init(2, 3, &[7], 2).expect("works");
    vec![
        ("sine", Encoding::new(sine.clone(), None).expect("works")),
        ("gated sine", Encoding::new(sine, gate()).expect("works")),
        ("conv", Encoding::new(conv.clone(), None).expect("works")),
        ("gated conv", Encoding::new(conv, gate()).expect("works")),
    ]
}

/// A code knows neither how many tokens follow nor how many realisations there are, and a piece in the middle is the piece of the whole.
#[test]
fn codes_of_a_position_do_not_depend_on_what_is_around_it() {
    for mode in Mode::ALL.map(|(_, mode)| mode) {
        let noise = Noise { seed: 11, mode, ..Noise::default() };
        for (name, encoding) in encodings() {
            let draw = |first: u32, n: u32, r: u32| {
                let positions = Positions::line(n).and_then(|p| p.starting_at(&[first])).expect("works");
                encoding.draw(&noise, &positions, r).expect("works")
            };
            let all = draw(0, 512, 8);
            let few = draw(0, 64, 8);
            let what = format!("{name}, {mode:?}");
            assert_eq!(bits(&few.q), bits(&all.q[..few.q.len()]), "{what}: first tokens");
            assert_eq!(bits(&few.k), bits(&all.k[..few.k.len()]), "{what}: first tokens");
            let piece = draw(300, 5, 8);
            assert_eq!(bits(&piece.k), bits(&all.k[all.at(300, 0, 0)..][..piece.k.len()]), "{what}: a piece");
        }
        // More realisations add numbers behind those there are; the scale is another, so noise is compared.
        let (many, few) = (noise.sine(2, 3, 4, 64).expect("works"), noise.sine(2, 3, 4, 6).expect("works"));
        for (row, few) in few.chunks(6).enumerate() {
            assert_eq!(bits(few), bits(&many[row * 64..][..6]), "{mode:?}: row {row}");
        }
    }
    // More sinusoids too only add rows.
    let noise = Noise::default();
    let (many, few) = (noise.sine(1, 1, 9, 4).expect("works"), noise.sine(1, 1, 2, 4).expect("works"));
    assert_eq!(few, many[..few.len()]);
}

#[test]
fn layers_steps_draws_and_heads_have_the_noise_that_is_asked_for() {
    let (_, encoding) = encodings().swap_remove(1);
    let positions = Positions::line(4).expect("works");
    let draw = |noise: &Noise| -> Codes { encoding.draw(noise, &positions, 8).expect("works") };
    let shared = Noise::default();
    for other in [
        Noise { seed: 1, ..shared },
        Noise { step: 0, ..shared },
        Noise { draw: 1, ..shared },
        Noise { layer: Layer::Own(0), ..shared },
        Noise { layer: Layer::Own(1), ..shared },
        Noise { gate_layer: Layer::Own(0), ..shared },
        Noise { mode: Mode::Rademacher, ..shared },
        Noise { shared_by_heads: true, ..shared },
    ] {
        assert_ne!(draw(&shared).q, draw(&other).q, "{other:?}");
        assert_eq!(draw(&other), draw(&other), "{other:?}");
    }
    // A gate's own layer leaves the code's noise as it is.
    let own = Noise { gate_layer: Layer::Own(3), ..shared };
    assert_eq!(own.sine(2, 3, 4, 8).expect("works"), shared.sine(2, 3, 4, 8).expect("works"));
    assert_ne!(own.gate(2, 3, 8, 8).expect("works"), shared.gate(2, 3, 8, 8).expect("works"));
    // Heads share head 0's noise.
    let heads = Noise { shared_by_heads: true, ..shared }.sine(2, 3, 4, 8).expect("works");
    assert_eq!(heads[..heads.len() / 2], heads[heads.len() / 2..]);
    assert_eq!(heads[..heads.len() / 2], shared.sine(2, 3, 4, 8).expect("works")[..heads.len() / 2]);
}

/// A gate's noise is neither the code's nor another row of it.
#[test]
fn gates_have_noise_of_their_own() {
    let noise = Noise::default();
    let z = noise.sine(1, 1, 8, 64).expect("works");
    for index in [0, 8, 16] {
        let epsilon = noise.gate(1, 1, index, 64).expect("works");
        for row in z.chunks(64) {
            assert_ne!(row, epsilon);
        }
    }
    let line = Positions::line(64).expect("works");
    assert_ne!(noise.conv(1, 1, &line, &[1], 64).expect("works")[..64], z[..64]);
}

/// Blocks of the FFT give what sums over the taps give, whatever the block, on one, two and three axes.
#[test]
fn blocks_of_the_fft_give_the_sums_over_the_taps() {
    for (sides, taps, blocks) in [
        (&[100][..], &[9][..], vec![[9, 1, 1], [16, 1, 1], [25, 1, 1], [128, 1, 1], [512, 1, 1]]),
        (&[1], &[33], vec![[33, 1, 1], [64, 1, 1]]),
        (&[13, 20], &[3, 5], vec![[4, 8, 1], [3, 5, 1], [16, 32, 1], [7, 30, 1]]),
        (&[5, 6, 7], &[2, 1, 3], vec![[2, 1, 4], [4, 4, 4], [8, 8, 16]]),
    ] {
        let code = ConvCode::init(2, 2, taps, 4).expect("works");
        let positions = Positions::grid(sides).expect("works");
        let z = Noise::default().conv(2, 2, &positions, taps, 3).expect("works");
        let truth = code.codes(&positions, &z, 3, ConvPath::Direct).expect("works");
        let planned = code.plan(&positions, 3).expect("works");
        for path in blocks.into_iter().map(|block| ConvPath::OverlapSave { block }).chain([planned]) {
            let codes = code.codes(&positions, &z, 3, path).expect("works");
            crate::assert_close(
                &codes.q,
                &truth.q,
                1e-14,
                &format!("q of {sides:?} under {taps:?}, {path:?}"),
            );
            crate::assert_close(
                &codes.k,
                &truth.k,
                1e-14,
                &format!("k of {sides:?} under {taps:?}, {path:?}"),
            );
        }
    }
}

/// The method's table: ListOps 33.6 against 7.6 · 10⁹ operations, AAN 16.8 against 3.2, and sums where filters are short.
#[test]
fn the_path_is_chosen_by_its_cost() {
    for (heads, width, tokens, direct, blocks) in [(8, 64, 2000, 33.6e9, 7.6e9), (4, 32, 4001, 16.8e9, 3.2e9)]
    {
        let code = ConvCode::init(heads, width, &[128], 0).expect("works");
        let positions = Positions::line(tokens).expect("works");
        let flops = |path| code.flops(&positions, 64, path).expect("works");
        assert!((flops(ConvPath::Direct) / direct - 1.0).abs() < 0.01, "{}", flops(ConvPath::Direct));
        let stated = ConvPath::OverlapSave { block: [1024, 1, 1] };
        assert!((flops(stated) / blocks - 1.0).abs() < 0.02, "{}", flops(stated));
        let planned = code.plan(&positions, 64).expect("works");
        assert!(flops(planned) <= flops(stated), "{planned:?}");
        assert_ne!(planned, ConvPath::Direct);
    }
    for taps in [1, 2, 8] {
        let short = ConvCode::init(1, 1, &[taps], 0).expect("works");
        let planned = short.plan(&Positions::line(1000).expect("works"), 4).expect("works");
        assert_eq!(planned, ConvPath::Direct, "{taps} taps");
    }
}

/// Counts of the method: 3HDK, 2HDP and HD, independent of the tokens.
#[test]
fn parameters_do_not_grow_with_the_tokens() {
    let sine = SineCode::init(sizes(8, 64, 5), -4.0, 0).expect("works");
    assert_eq!(Encoding::new(sine, None).expect("works").parameters(), 7680);
    let conv = ConvCode::init(8, 64, &[128], 0).expect("works");
    let gate = Gate::init(8, 64, 0).expect("works");
    assert_eq!(Encoding::new(conv, Some(gate)).expect("works").parameters(), 131_072 + 512);
}

/// Published initial values: median frequency 0.0093 and 5–95 % from 0.0018 to 0.043; mean gain 0.84 at K = 10.
#[test]
fn training_begins_with_the_published_parameters() {
    let code = SineCode::init(sizes(16, 64, 10), -4.0, 0).expect("works");
    let mut frequencies = code.frequencies().to_vec();
    frequencies.sort_by(f64::total_cmp);
    let quantile = |q: f64| frequencies[(q * frequencies.len() as f64) as usize];
    for (q, stated) in [(0.5, 0.0093), (0.05, 0.0018), (0.95, 0.043)] {
        assert!((quantile(q) / stated - 1.0).abs() < 0.06, "quantile {q}: {}", quantile(q));
    }
    let mean = code.gains().iter().sum::<f64>() / code.gains().len() as f64;
    assert!((mean / 0.84 - 1.0).abs() < 0.02, "mean gain {mean}");
    // v and its standard deviation over dimensions from 400 000 numbers of another generator; E cos θ = e^−½.
    for (k, v, deviation) in [(1, 0.960, 1.23), (5, 0.621, 0.357), (10, 0.513, 0.196)] {
        let encoding =
            Encoding::new(SineCode::init(sizes(64, 64, k), -4.0, 1).expect("works"), None).expect("works");
        let mean = |of: &dyn Fn(u32, u32) -> f64| {
            (0..64).flat_map(|h| (0..64).map(move |d| (h, d))).map(|(h, d)| of(h, d)).sum::<f64>() / 4096.0
        };
        let got_v = mean(&|h, d| encoding.variances(h, d).expect("works")[0]);
        let got_p = mean(&|h, d| encoding.template(h, d, [0; 3]).expect("works"));
        let allowed = 3.5 * deviation / 64.0;
        assert!((got_v - v).abs() < allowed, "K = {k}: v = {got_v}");
        assert!((got_p - v * (-0.5_f64).exp()).abs() < allowed, "K = {k}: P(0) = {got_p}");
    }
    // Filters: nearly a triangle of height ½, variances near ⅔.
    let conv = Encoding::new(ConvCode::init(16, 16, &[128], 0).expect("works"), None).expect("works");
    let mean = |of: &dyn Fn(u32, u32) -> f64| {
        (0..16).flat_map(|h| (0..16).map(move |d| (h, d))).map(|(h, d)| of(h, d)).sum::<f64>() / 256.0
    };
    for lag in [-96_i64, -32, 0, 64, 127] {
        let got = mean(&|h, d| conv.template(h, d, [lag, 0, 0]).expect("works"));
        let triangle = 0.5 * (1.0 - lag.unsigned_abs() as f64 / 128.0);
        assert!((got - triangle).abs() < 0.012, "lag {lag}: {got}, {triangle}");
    }
    let got = mean(&|h, d| conv.variances(h, d).expect("works")[1]);
    assert!((got - 2.0 / 3.0).abs() < 0.015, "v = {got}");
}
