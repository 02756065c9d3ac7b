//! Phases as integers: cosine and sine of every turn, and codes that do not drift.

use crate::sizes;
use wgattn::position::phase::{TURN, cos_sin_f32, cos_sin_f64, of_turns};
use wgattn::position::{Positions, SineCode};

/// 1.03·10⁻⁷ is what the method gives for the polynomials in f32; the stride meets every quarter in odd places, and the corners are added.
#[test]
fn cosines_and_sines_are_within_the_stated_error() {
    let corners =
        (0..8_u32).flat_map(|eighth| [u32::MAX, 0, 1].map(|step| (eighth << 29).wrapping_add(step)));
    let (mut worst, mut wide) = (0.0_f64, 0.0_f64);
    for phase in (0..u32::MAX).step_by(3989).chain(corners) {
        let (sine, cosine) = (std::f64::consts::TAU * f64::from(phase) / TURN).sin_cos();
        let (c, s) = cos_sin_f32(phase);
        worst = worst.max((f64::from(c) - cosine).abs()).max((f64::from(s) - sine).abs());
        let (c, s) = cos_sin_f64(phase);
        wide = wide.max((c - cosine).abs()).max((s - sine).abs());
    }
    assert!(worst < 1.04e-7, "f32: {worst:e}");
    assert!(wide < 1e-15, "f64: {wide:e}");
}

/// The corners are exact, so a code of frequency 0, ¼ or ½ is too.
#[test]
fn quarter_turns_are_exact_up_to_the_polynomials_own_error() {
    for (quarter, cosine, sine) in [(0, 1.0, 0.0), (1, 0.0, 1.0), (2, -1.0, 0.0), (3, 0.0, -1.0)] {
        assert_eq!(cos_sin_f32(quarter << 30), (cosine, sine), "{quarter} quarters");
    }
}

/// FNV-1a over the bits of 4096 phases: the same on every machine, or codes would differ between backends.
#[test]
fn cosines_are_the_same_bits_everywhere() {
    let hash = (0..4096_u32)
        .flat_map(|i| {
            let (c, s) = cos_sin_f32(i.wrapping_mul(0x9e37_79b9));
            [c.to_bits(), s.to_bits()]
        })
        .flat_map(u32::to_le_bytes)
        .fold(0xcbf2_9ce4_8422_2325_u64, |h, byte| (h ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3));
    assert_eq!(hash, 0xa8d2_9bf4_4bb2_79e0, "{hash:#x}");
}

#[test]
fn phases_wrap_around() {
    for (turns, phase) in [
        (0.0, 0),
        (0.25, 1 << 30),
        (-0.25, 3 << 30),
        (1.0, 0),
        (-7.5, 1 << 31),
        (1e300, of_turns(1e300_f64.rem_euclid(1.0))),
        // Nearer to the whole turn than to the last phase before it.
        (1.0 - 1e-11, 0),
    ] {
        assert_eq!(of_turns(turns), phase, "{turns} turns");
    }
}

/// The largest error of cos 2πfn over frequencies of (0, ½), in f32 as a shader would take 2π·f·n, and by integers. The method
/// measured 4e-4, 4e-3 and 1.4e-2 against 1.5e-6, 1.2e-5 and 4.8e-5 for n = 2047, 16 383 and 65 535.
#[test]
fn integer_phases_do_not_drift_as_floats_do() {
    let frequencies: Vec<f64> =
        (0..2000).map(|i| 0.5 * (f64::from(i) * 0.618_033_988_75).rem_euclid(1.0)).collect();
    let errors = |n: u32| {
        let mut worst = [0.0_f64; 2];
        for &f in &frequencies {
            let truth = (std::f64::consts::TAU * (f * f64::from(n)).rem_euclid(1.0)).cos();
            let float = (std::f32::consts::TAU * f as f32 * n as f32).cos();
            let integer = cos_sin_f32(of_turns(f).wrapping_mul(n)).0;
            worst[0] = worst[0].max((f64::from(float) - truth).abs());
            worst[1] = worst[1].max((f64::from(integer) - truth).abs());
        }
        worst
    };
    for (n, float, integer) in [(2047, 4e-4, 1.5e-6), (16_383, 4e-3, 1.2e-5), (65_535, 1.4e-2, 4.8e-5)] {
        let [got_float, got_integer] = errors(n);
        assert!(got_integer < 1.05 * integer + 1.1e-7, "n = {n}: {got_integer:e}, {integer:e} stated");
        assert!(got_float > 0.5 * float && got_float < 2.0 * float, "n = {n}: {got_float:e} by floats");
    }
    // 2π·n·2⁻³³ at n = 2²⁰ is 7.7e-4.
    let [float, integer] = errors(1 << 20);
    assert!(integer < 7.7e-4, "{integer:e}");
    assert!(float > 0.05, "{float:e}");
}

/// At the millionth token the code still is the exact one to 2π·n·2⁻³³, and in f32 no further from its table than at the first.
#[test]
fn codes_do_not_drift() {
    let code = SineCode::init(sizes(2, 3, 5), -4.0, 3).expect("works");
    let table = code.table(None).expect("works");
    let z: Vec<f64> = (0..2 * 3 * 10 * 8).map(|i| f64::from(i * 37 % 41) / 20.0 - 1.0).collect();
    let single: Vec<f32> = z.iter().map(|&x| x as f32).collect();
    for (origin, drift) in [(0, 1e-6), (1 << 20, 2e-3)] {
        let positions = Positions::line(64).and_then(|p| p.starting_at(&[origin])).expect("works");
        let exact = code.codes(&positions, &z, 8).expect("works");
        let truth = table.codes(&positions, &z, 8).expect("works");
        let naive = table.codes(&positions, &single, 8).expect("works");
        crate::assert_close(&truth.q, &exact.q, drift, &format!("table from token {origin}"));
        let wide: Vec<f64> = naive.q.iter().map(|&x| f64::from(x)).collect();
        // Noise of 1 decimal is not exact in f32; ten roundings.
        crate::assert_close(&wide, &truth.q, 6e-7, &format!("f32 from token {origin}"));
    }
}

/// Negative frequencies are complements, and products over the axes add up.
#[test]
fn frequencies_of_several_axes_add_up() {
    let sizes = wgattn::position::sine::SineSizes { heads: 1, width: 1, sinusoids: 1, axes: 3 };
    let code = SineCode::new(sizes, vec![0.25, -0.125, 0.5], vec![0.0], vec![1.0]).expect("works");
    let table = code.table(None).expect("works");
    assert_eq!(table.frequencies, [1 << 30, 7 << 29, 1 << 31]);
    // ¼·3 − ⅛·2 + ½·1 = 1 turn.
    assert_eq!(table.phase(0, [3, 2, 1]), 0);
    assert_eq!(table.phase(0, [0, 1, 0]), 7 << 29);
}
