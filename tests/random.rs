//! Counter-based random numbers against published and stored words, and the projections drawn from them.

use std::collections::BTreeMap;
use std::path::Path;
use wgattn::arrays::{Array, ArrayData, read};
use wgattn::random::{
    EVALUATION, Norms, Place, Projection, Purpose, box_muller, gaussian, gaussian_units, philox, rademacher,
    table,
};

fn stored() -> BTreeMap<String, Array> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/spe/rng_kat.npz");
    read(path).expect("the stored words are there")
}

fn words(file: &BTreeMap<String, Array>, name: &str) -> Vec<u32> {
    match &file[name].data {
        ArrayData::U32(v) => v.clone(),
        ArrayData::I32(v) => v.iter().map(|x| x.cast_unsigned()).collect(),
        other => panic!("{name} is {}", other.dtype()),
    }
}

fn four(list: &[u32], i: usize) -> [u32; 4] {
    [list[4 * i], list[4 * i + 1], list[4 * i + 2], list[4 * i + 3]]
}

#[test]
fn philox_gives_its_published_words() {
    let pi = [0x243f_6a88, 0x85a3_08d3, 0x1319_8a2e, 0x0370_7344];
    for (counter, seed, expected) in [
        ([0; 4], 0, [0x6627_e8d5, 0xe169_c58d, 0xbc57_ac4c, 0x9b00_dbd8]),
        ([u32::MAX; 4], u64::MAX, [0x408f_276d, 0x41c8_3b0e, 0xa20b_c7c6, 0x6d54_51fd]),
        (pi, 0x299f_31d0_a409_3822, [0xd16c_fe09, 0x94fd_cceb, 0x5001_e420, 0x2412_6ea1]),
    ] {
        assert_eq!(philox(counter, seed), expected, "counter {counter:08x?}");
    }
}

#[test]
fn words_and_numbers_agree_with_the_stored_ones() {
    let file = stored();
    let key = words(&file, "key");
    let seed = u64::from(key[0]) | u64::from(key[1]) << 32;
    let (counters, expected) = (words(&file, "ctr"), words(&file, "philox4x32_10"));
    let units = words(&file, "gauss_q20_i32");
    let ArrayData::F64(pairs) = &file["box_muller_f64"].data else { panic!("box_muller_f64 is not f64") };
    for i in 0..counters.len() / 4 {
        let got = philox(four(&counters, i), seed);
        assert_eq!(got, four(&expected, i), "words of counter {i}");
        assert_eq!(
            got.map(|w| gaussian_units(w).cast_unsigned()),
            four(&units, i),
            "Gaussian numbers of counter {i}"
        );
        for (lane, x) in box_muller(got).into_iter().enumerate() {
            let gap = (x - pairs[4 * i + lane]).abs();
            assert!(gap < 1e-12, "Box–Muller number {lane} of counter {i}: off by {gap:e}");
        }
    }
    let (corners, values) = (words(&file, "edge_u"), words(&file, "edge_z"));
    for (word, value) in corners.iter().zip(values) {
        assert_eq!(gaussian_units(*word), value.cast_signed(), "word {word:#010x}");
    }
    assert_eq!(
        words(&file, "icdf_A"),
        table::START.as_flattened().iter().map(|x| x.cast_unsigned()).collect::<Vec<_>>()
    );
    assert_eq!(
        words(&file, "icdf_B"),
        table::SLOPE.as_flattened().iter().map(|x| x.cast_unsigned()).collect::<Vec<_>>()
    );
}

#[test]
fn numbers_have_the_moments_of_their_distribution() {
    let place = |i: u32| Place { index: i / 64, lane: i % 64, ..Place::of(Purpose::Data) };
    let list: Vec<u32> = (0..1 << 18).map(|i| place(i).word(3).expect("works")).collect();
    let mean = |f: &dyn Fn(u32) -> f64| list.iter().map(|w| f(*w)).sum::<f64>() / list.len() as f64;
    // Standard deviations of the means over 2^18 numbers: 0.002, 0.003, 0.019, 0.002; four of them are allowed.
    assert!(mean(&|w| gaussian(w).into()).abs() < 0.008);
    assert!((mean(&|w| f64::from(gaussian(w)).powi(2)) - 1.0).abs() < 0.012);
    assert!((mean(&|w| f64::from(gaussian(w)).powi(4)) - 3.0).abs() < 0.08);
    assert!(mean(&|w| rademacher(w).into()).abs() < 0.008);
}

#[test]
fn places_do_not_run_into_each_other() {
    let place =
        Place { index: 5, channel: 3, lane: 6, step: 9, purpose: Purpose::Projection, layer: 2, stream: 1 };
    assert_eq!(place.counter().expect("works"), [5, 3 | 1 << 20, 9, 4 << 24 | 2 << 8 | 1]);
    assert_eq!(Place::of(Purpose::Data).step, EVALUATION);
    for (wrong, name) in [
        (Place { channel: 1 << 20, ..place }, "channel"),
        (Place { lane: 1 << 14, ..place }, "lane"),
        (Place { layer: 1 << 16, ..place }, "layer"),
        (Place { stream: 256, ..place }, "stream"),
    ] {
        let error = wrong.counter().expect_err("is refused").to_string();
        assert!(error.contains(name), "{error}");
    }
}

fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(x, y)| x * y).sum()
}

#[test]
fn rows_of_a_block_are_orthogonal_and_blocks_are_cut_short() {
    for (rows, d) in [(1, 1), (5, 1), (3, 7), (7, 7), (20, 8), (64, 32)] {
        for norms in [Norms::Chi, Norms::Sqrt] {
            let projection = Projection { seed: 11, norms, ..Projection::default() };
            let w = projection.rows_f64(rows, d).expect("works");
            let row = |i: u32| &w[(i * d) as usize..][..d as usize];
            for i in 0..rows {
                let length = dot(row(i), row(i)).sqrt();
                match norms {
                    Norms::Sqrt => assert!((length - f64::from(d).sqrt()).abs() < 1e-12 * length),
                    Norms::Chi => assert!(length > 0.0 && length < f64::from(d).sqrt() + 6.5),
                }
                for j in (0..i).filter(|j| j / d == i / d) {
                    let cosine = dot(row(i), row(j)) / length / dot(row(j), row(j)).sqrt();
                    assert!(cosine.abs() < 1e-13, "[{rows}, {d}]: rows {i} and {j} have cosine {cosine:e}");
                }
            }
        }
    }
}

/// The first row of every block is a Gaussian vector's own direction, signs included.
#[test]
fn rows_point_where_their_vectors_do() {
    let projection = Projection { seed: 4, ..Projection::default() };
    let w = projection.rows_f64(24, 8).expect("works");
    for block in [0, 8, 16] {
        let drawn: Vec<f64> = (0..8)
            .map(|lane| {
                let place = Place { index: block, lane, ..Place::of(Purpose::Projection) };
                f64::from(place.gaussian(4).expect("works"))
            })
            .collect();
        let row = &w[block as usize * 8..][..8];
        let cosine = dot(row, &drawn) / (dot(row, row) * dot(&drawn, &drawn)).sqrt();
        assert!((cosine - 1.0).abs() < 1e-12, "block {block}: cosine {cosine}");
    }
}

#[test]
fn a_seed_gives_the_same_bits_and_more_features_only_add_rows() {
    let draw = |seed, layer, rows| {
        let projection = Projection { seed, layer, ..Projection::default() };
        projection.rows_f64(rows, 12).expect("works").iter().map(|x| x.to_bits()).collect::<Vec<_>>()
    };
    let few = draw(7, 0, 30);
    assert_eq!(few, draw(7, 0, 30));
    assert_eq!(few, draw(7, 0, 100)[..30 * 12]);
    assert_ne!(few, draw(8, 0, 30));
    assert_ne!(few, draw(7, 1, 30));
}

/// The bits themselves: results stored with a seed must not change with a machine or a library. FNV-1a over the f32 bits.
#[test]
fn projections_are_the_same_everywhere() {
    let w = Projection { seed: 7, ..Projection::default() }.draw(64, 32).expect("works");
    let hash = w
        .to_f32()
        .iter()
        .flat_map(|x| x.to_bits().to_le_bytes())
        .fold(0xcbf2_9ce4_8422_2325_u64, |h, byte| (h ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3));
    assert_eq!(hash, 0xe7a4_fcf5_3a6c_6d48, "{hash:#x}; first numbers {:?}", &w.to_f32()[..4]);
}

#[test]
fn empty_projections_are_refused() {
    for (rows, d) in [(0, 4), (4, 0)] {
        let error = Projection::default().draw(rows, d).expect_err("is refused").to_string();
        assert!(error.contains(&format!("[{rows}, {d}]")), "{error}");
    }
}
