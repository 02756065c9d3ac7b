//! Stochastic position codes on every device: numbers from counters bit for bit, codes against f64, published arrays from end to end,
//! decoding token by token, and what all this holds in memory.
//!
//! Tolerances are the method's (4.3): codes 2e-6 of the largest up to 4096 tokens and 5e-6 beyond, queries and keys 1e-5, attention 1e-4.

use wgattn::attention::{LinearAttention, Masks, ScanMask};
use wgattn::backend::Backend;
use wgattn::graph::Graph;
use wgattn::kernels::feature::feature_map::{self, Params};
use wgattn::kernels::feature::segment_max::Rows;
use wgattn::kernels::position::{conv_code, counter_noise, philox_words, sine_code};
use wgattn::position::apply::{Side, apply};
use wgattn::position::record::Given;
use wgattn::position::sine::{PUBLISHED_BIAS, SineSizes};
use wgattn::position::{Code, Codes, ConvCode, Encoding, Gate, Mode, Noise, Positions, SineCode, scale};
use wgattn::tensor::{DType, HostData, HostTensor, Tensor};

#[path = "support/spe.rs"]
mod published;
mod support;

use published::File;
use support::devices;

fn sine(file: &File) -> Encoding {
    Encoding::new(file.sine("param_"), file.gate()).expect("works")
}

fn conv(file: &File) -> Encoding {
    Encoding::new(file.conv(), file.gate()).expect("works")
}

/// Runs a graph of these inputs and reads its outputs.
fn run(
    backend: &dyn Backend,
    inputs: &[&HostTensor],
    record: impl FnOnce(&mut Graph, &[Tensor]) -> wgattn::Result<Vec<Tensor>>,
) -> Vec<HostTensor> {
    let mut graph = Graph::new("test");
    let dtype = |t: &HostTensor| if t.dtype() == DType::U32 { DType::U32 } else { DType::F32 };
    let tensors: Vec<Tensor> = inputs
        .iter()
        .enumerate()
        .map(|(i, t)| graph.input(&format!("input {i}"), t.shape(), dtype(t)))
        .collect();
    let outputs = record(&mut graph, &tensors).expect("records");
    outputs.iter().for_each(|t| graph.output(*t).expect("an output"));
    let mut program = backend.compile(&graph).expect("compiles");
    for (tensor, value) in tensors.iter().zip(inputs) {
        let value = match value.dtype() {
            DType::U32 => (*value).clone(),
            _ => HostTensor::f32(value.shape(), value.to_f32()).expect("works"),
        };
        program.write(*tensor, &value).expect("fits");
    }
    program.run().expect("runs");
    outputs.iter().map(|t| program.read(*t).expect("an output")).collect()
}

fn close(what: &str, got: &[f64], expected: &[f64], allowed: f64) {
    assert_eq!(got.len(), expected.len(), "{what}");
    let largest = expected.iter().fold(0.0_f64, |m, x| m.max(x.abs()));
    let gap = got.iter().zip(expected).map(|(a, b)| (a - b).abs()).fold(0.0, |m: f64, g| {
        if g >= m {
            g
        } else if g.is_nan() {
            f64::INFINITY
        } else {
            m
        }
    });
    assert!(
        gap <= allowed * largest,
        "{what}: off by {:e} of the largest, allowed {allowed:e}",
        gap / largest
    );
}

/// Codes `[n, h, d, r]` as the device's `[h, d, n, r]`.
fn by_channel(codes: &[f64], n: usize, channels: usize, r: usize) -> Vec<f64> {
    let places = (0..channels).flat_map(|c| (0..n).map(move |i| (i, c)));
    places.flat_map(|(i, c)| codes[(i * channels + c) * r..][..r].to_vec()).collect()
}

#[test]
fn numbers_from_counters_are_the_known_answers_bit_for_bit() {
    let file = File::open("rng_kat");
    let key = file.words("key");
    let counters = HostTensor::new([4096, 4], HostData::U32(file.words("ctr"))).expect("works");
    let table = HostTensor::new([512], HostData::U32(counter_noise::table_words())).expect("works");
    for (device, backend) in devices() {
        let of = |mode: u32| {
            run(&**backend, &[&counters, &table], |graph, t| {
                let words = graph.transient("words", [4096, 4], DType::U32);
                let out = graph.transient("numbers", [4096, 4], DType::F32);
                let params = philox_words::Params { seed_low: key[0], seed_high: key[1], mode };
                graph.pass(
                    &philox_words::SPEC,
                    &params,
                    &[Some(t[0]), Some(t[1]), Some(words), Some(out)],
                )?;
                Ok(vec![words, out])
            })
        };
        let [words, numbers] = &of(counter_noise::TABLE)[..] else { panic!("two outputs") };
        let HostData::U32(words) = words.data() else { panic!("words") };
        assert_eq!(*words, file.words("philox4x32_10"), "{device}: words");
        let units: Vec<f64> = numbers.to_f64().iter().map(|x| x * f64::from(1 << 20)).collect();
        assert_eq!(units, file.numbers("gauss_q20_i32"), "{device}: Gaussian numbers of the table");
        let by_transform = of(counter_noise::BOX_MULLER)[1].to_f64();
        let known = file.numbers("box_muller_f64");
        let worst = by_transform.iter().zip(&known).map(|(a, b)| (a - b).abs()).fold(0.0, f64::max);
        assert!(worst <= 1e-5, "{device}: Box and Muller off by {worst:e}");
        let signs = of(counter_noise::SIGNS)[1].to_f64();
        let expected: Vec<f64> = words.iter().map(|w| if w & 1 == 0 { 1.0 } else { -1.0 }).collect();
        assert_eq!(signs, expected, "{device}: signs");
    }
}

#[test]
fn corners_of_the_table_are_the_known_ones() {
    let file = File::open("rng_kat");
    let (words, known) = (file.words("edge_u"), file.numbers("edge_z"));
    for (word, z) in words.iter().zip(known) {
        assert_eq!(f64::from(wgattn::random::gaussian_units(*word)), z, "{word:#x}");
    }
}

const R: u32 = 24;

fn encodings() -> Vec<(&'static str, Encoding, Positions)> {
    let sizes = |axes| SineSizes { heads: 3, width: 5, sinusoids: 4, axes };
    let sine = |axes| SineCode::init(sizes(axes), -1.5, 3).expect("works");
    let conv = |taps: &[u32]| ConvCode::init(3, 5, taps, 4).expect("works");
    let gate = || Some(Gate::init(3, 5, 5).expect("works"));
    let line = |n| Positions::line(n).expect("works");
    let grid = |sides: &[u32]| Positions::grid(sides).expect("works");
    let made = |code: Code, gate| Encoding::new(code, gate).expect("works");
    vec![
        ("sine", made(sine(1).into(), None), line(77)),
        ("sine, gated", made(sine(1).into(), gate()), line(64)),
        ("sine of a picture", made(sine(2).into(), gate()), grid(&[7, 9])),
        ("sine of a film", made(sine(3).into(), None), grid(&[3, 4, 5])),
        ("conv", made(conv(&[6]).into(), None), line(77)),
        ("conv, gated", made(conv(&[9]).into(), gate()), line(64)),
        ("conv of a picture", made(conv(&[3, 4]).into(), gate()), grid(&[7, 9])),
        ("conv of a film", made(conv(&[2, 3, 2]).into(), None), grid(&[3, 4, 5])),
        ("conv longer than its tokens", made(conv(&[40]).into(), None), line(9)),
        ("one token", made(sine(1).into(), gate()), line(1)),
    ]
}

/// Codes in f64 from what every backend is given: integers of frequencies and phases.
fn truth(encoding: &Encoding, noise: &Noise, positions: &Positions) -> Codes {
    let Code::Sine(code) = encoding.code() else { return encoding.draw(noise, positions, R).expect("draws") };
    let table = code.table(encoding.gate()).expect("works");
    let (h, d, k) = (code.heads(), code.width(), code.sinusoids());
    let z = noise.sine(h, d, k, R).expect("draws");
    let epsilon = encoding.gate().map(|_| noise.gate(h, d, 2 * k, R).expect("draws"));
    let joined = table.join_noise(&z, epsilon.as_deref(), R).expect("fits");
    table.codes(positions, &joined, R).expect("works")
}

#[test]
fn codes_are_those_in_f64_on_every_device_and_by_every_way() {
    for (name, encoding, positions) in encodings() {
        let (n, channels) = (positions.tokens(), 15);
        let q = support::random(1, [2, 3, n as u32, 5]);
        let k = support::random(2, [2, 3, n as u32, 5]);
        for mode in [Mode::Icdf, Mode::BoxMuller, Mode::Rademacher] {
            let noise = Noise { seed: 11, mode, ..Noise::default() };
            let codes = truth(&encoding, &noise, &positions);
            let expected = [(Side::Query, &q), (Side::Key, &k)]
                .map(|(side, x)| apply(&codes, side, &x.to_f64(), 2, n as u32).expect("fits"));
            for (device, backend) in devices() {
                let what = format!("{name}, {mode:?} on {device}");
                let got = run(&**backend, &[&q, &k], |graph, t| {
                    let made = encoding.materialise(graph, &noise, &positions, R)?;
                    let put = made.record(graph, (t[0], t[1]))?;
                    let coded = encoding.record(graph, &noise, &positions, R, (t[0], t[1]))?;
                    Ok(vec![made.q, made.k, put.0, put.1, coded.0, coded.1])
                });
                if encoding.gate().is_none() || matches!(encoding.code(), Code::Sine(_)) {
                    for (side, (got, of)) in got[..2].iter().zip([&codes.q, &codes.k]).enumerate() {
                        let expected = by_channel(of, n, channels, R as usize);
                        // Pairs of Box and Muller agree to 1e-5.
                        let allowed = if mode == Mode::BoxMuller { 1e-5 } else { 2e-6 };
                        close(&format!("{what}: code {side}"), &got.to_f64(), &expected, allowed);
                    }
                }
                for (at, got) in got[2..].iter().enumerate() {
                    close(&format!("{what}: result {at}"), &got.to_f64(), &expected[at % 2], 1e-5);
                }
            }
        }
    }
}

#[test]
fn positions_do_not_drift_at_two_to_the_twentieth() {
    let (_, encoding, _) = encodings().swap_remove(1);
    let noise = Noise::default();
    for (first, allowed) in [(4080, 2e-6), (16_380, 5e-6), ((1 << 20) - 8, 5e-6), (u32::MAX - 9, 5e-6)] {
        let positions = Positions::line(8).expect("works").starting_at(&[first]).expect("works");
        let codes = truth(&encoding, &noise, &positions);
        for (device, backend) in devices() {
            let got = run(&**backend, &[], |graph, _| {
                let made = encoding.materialise(graph, &noise, &positions, R)?;
                Ok(vec![made.q, made.k])
            });
            for (got, of) in got.iter().zip([&codes.q, &codes.k]) {
                let expected = by_channel(of, 8, 15, R as usize);
                close(&format!("{device}, position {first}"), &got.to_f64(), &expected, allowed);
            }
        }
    }
}

/// A position's code does not depend on how many tokens there are, nor on how they are cut.
#[test]
fn a_longer_sequence_begins_with_the_codes_of_a_shorter_one() {
    for (name, encoding, _) in encodings().into_iter().filter(|(_, e, _)| e.code().axes() == 1) {
        for (device, backend) in devices() {
            let codes = |first: u32, n: u32| {
                let positions = Positions::line(n).expect("works").starting_at(&[first]).expect("works");
                let made = run(&**backend, &[], |graph, _| {
                    Ok(vec![encoding.materialise(graph, &Noise::default(), &positions, R)?.q])
                });
                made[0].to_f32()
            };
            let (short, long, late) = (codes(0, 64), codes(0, 512), codes(64, 64));
            for channel in 0..15 {
                let of = |codes: &[f32], n: usize, from: usize| {
                    codes[(channel * n + from) * 24..][..64 * 24].to_vec()
                };
                let pairs = [(of(&short, 64, 0), of(&long, 512, 0)), (of(&late, 64, 0), of(&long, 512, 64))];
                for (a, b) in pairs {
                    let gap = a.iter().zip(&b).map(|(x, y)| (x - y).abs()).fold(0.0, f32::max);
                    // Sums may be in another order; what they are made of is the same to the bit.
                    assert!(gap <= 2e-7, "{name} on {device}: {gap:e}");
                }
            }
        }
    }
}

#[test]
fn heads_and_layers_share_noise_where_they_are_told_to() {
    let (_, encoding, positions) = encodings().swap_remove(0);
    let q = support::random(1, [1, 3, positions.tokens() as u32, 5]);
    for (device, backend) in devices() {
        for shared_by_heads in [false, true] {
            let noise = Noise { shared_by_heads, ..Noise::default() };
            for encoding in [&encoding, &encodings()[4].1] {
                let codes = truth(encoding, &noise, &positions);
                let expected =
                    apply(&codes, Side::Query, &q.to_f64(), 1, positions.tokens() as u32).expect("fits");
                let got = run(&**backend, &[&q], |graph, t| {
                    Ok(vec![encoding.record(graph, &noise, &positions, R, (t[0], t[0]))?.0])
                });
                close(&format!("{device}, shared {shared_by_heads}"), &got[0].to_f64(), &expected, 1e-5);
            }
        }
    }
}

/// The published codes, with the noise that their program drew.
#[test]
fn published_queries_and_keys_come_out_of_every_device() {
    for name in ["sine_plain", "sine_gated", "conv1d_plain", "conv1d_gated"] {
        let file = File::open(name);
        let by_sine = name.starts_with("sine");
        let (encoding, z) =
            if by_sine { (sine(&file), file.numbers("noise")) } else { (conv(&file), file.samples()) };
        let epsilon = encoding.gate().map(|_| file.numbers("gate_noise"));
        let r = file.shape("qhat")[3];
        let positions = Positions::line(file.shape("q")[1]).expect("works");
        for (device, backend) in devices() {
            let got = run(&**backend, &[&file.by_head("q"), &file.by_head("k")], |graph, t| {
                let given = Given { z: &z, epsilon: epsilon.as_deref() };
                let (q, k) = encoding.record_given(graph, given, &positions, r, (t[0], t[1]))?;
                Ok(vec![q, k])
            });
            close(&format!("{name}: q̂ on {device}"), &got[0].to_f64(), &file.by_head("qhat").to_f64(), 1e-5);
            close(&format!("{name}: k̂ on {device}"), &got[1].to_f64(), &file.by_head("khat").to_f64(), 1e-5);
        }
    }
}

/// A published feature map with what its attention adds to denominators.
fn published(name: &str) -> (Params, bool) {
    let of = |map, maximum, eps| Params { map, maximum, eps, ..Params::default() };
    match name {
        n if n.contains("favor_idiap") || n.contains("_favor_") && n.starts_with("e2e") => {
            (of(feature_map::HYPERBOLIC, feature_map::WHOLE, 0.0), true)
        }
        n if n.contains("favor_lucid") => (of(feature_map::FAVOR, feature_map::PRODUCTS_OF_HEAD, 1e-4), true),
        n if n.contains("google_softmax") => {
            (of(feature_map::FAVOR, feature_map::PRODUCTS_OF_ALL, 1e-6), true)
        }
        n if n.contains("genrelu") => (of(feature_map::RELU, feature_map::WHOLE, 0.0), true),
        n if n.contains("relu") => (of(feature_map::RELU, feature_map::WHOLE, 1e-3), false),
        _ => (of(feature_map::ELU1, feature_map::WHOLE, 0.0), false),
    }
}

/// Linear attention of `q` and `k` through a published feature map, and its denominators.
fn attention(
    graph: &mut Graph,
    name: &str,
    causal: bool,
    [q, k, v, omega]: [Tensor; 4],
) -> wgattn::Result<Vec<Tensor>> {
    let (params, projected) = published(name);
    let mut phi = |x: Tensor, role| {
        let projection = projected.then_some(omega);
        let inputs = feature_map::Inputs { x, projection, rows: Rows::default() };
        feature_map::record(graph, "features", inputs, Params { role, ..params })
    };
    let (q, k) = (phi(q, feature_map::QUERY)?, phi(k, feature_map::KEY)?);
    let mask = if causal { ScanMask::Causal } else { ScanMask::None };
    let attention = LinearAttention { denominators: true, ..LinearAttention::of(mask) };
    let attended = attention.record(graph, (q, k, v), Masks::default())?;
    Ok([Some(attended.out), attended.denominators].into_iter().flatten().collect())
}

#[test]
fn published_attention_comes_out_of_every_device() {
    let maps = ["favor_idiap", "favor_lucid", "elu", "genrelu", "google_softmax", "google_relu"];
    let names = maps.iter().flat_map(|map| ["full", "causal"].map(|kind| format!("attn_{map}_{kind}")));
    for name in names.chain(["attn_relu_full".to_string()]) {
        let file = File::open(&name);
        let omega = HostTensor::new([24, 16], HostData::F64(file.numbers("omega"))).expect("works");
        let inputs = [file.by_head("q"), file.by_head("k"), file.by_head("v"), omega];
        for (device, backend) in devices() {
            let got = run(&**backend, &inputs.each_ref(), |graph, t| {
                attention(graph, &name, name.ends_with("causal"), [t[0], t[1], t[2], t[3]])
            });
            // Their programs add 1e-6 to denominators, which counts where features are small.
            let eps = if name.contains("lucid") { 1e-6 } else { 0.0 };
            let denominators = got[1].to_f64();
            let y = got[0].to_f64();
            let y: Vec<f64> = y
                .iter()
                .enumerate()
                .map(|(at, y)| y * denominators[at / 8] / (denominators[at / 8] + eps))
                .collect();
            close(&format!("{name} on {device}"), &y, &file.by_head("y").to_f64(), 1e-4);
        }
    }
}

#[test]
fn published_attention_of_codes_comes_out_from_end_to_end() {
    for name in
        ["e2e_sine_favor_causal", "e2e_sine_favor_full", "e2e_sine_relu_causal", "e2e_conv_favor_causal"]
    {
        let file = File::open(name);
        let by_sine = name.contains("sine");
        let (encoding, z) =
            if by_sine { (sine(&file), file.numbers("noise")) } else { (conv(&file), file.samples()) };
        let epsilon = file.numbers("gate_noise");
        let r = file.shape("qhat")[3];
        let positions = Positions::line(file.shape("q")[1]).expect("works");
        let omega = HostTensor::new([8, 8], HostData::F64(file.numbers("omega"))).expect("works");
        let inputs = [file.by_head("q"), file.by_head("k"), file.by_head("v"), omega];
        for (device, backend) in devices() {
            let got = run(&**backend, &inputs.each_ref(), |graph, t| {
                let given = Given { z: &z, epsilon: Some(&epsilon) };
                let (q, k) = encoding.record_given(graph, given, &positions, r, (t[0], t[1]))?;
                let attended = attention(graph, name, name.ends_with("causal"), [q, k, t[2], t[3]])?;
                Ok(vec![q, k, attended[0]])
            });
            for (got, (expected, allowed)) in got.iter().zip([("qhat", 1e-5), ("khat", 1e-5), ("y", 1e-4)]) {
                close(
                    &format!("{name}: {expected} on {device}"),
                    &got.to_f64(),
                    &file.by_head(expected).to_f64(),
                    allowed,
                );
            }
        }
    }
}

/// Decoding token by token, with the state that attention carries and codes of positions that move, is the causal pass over all.
#[test]
fn decoding_is_the_whole_causal_pass() {
    let (n, e) = (23_u32, 6_u32);
    let noise = Noise { seed: 5, ..Noise::default() };
    for (name, encoding, _) in encodings().into_iter().filter(|(_, e, _)| e.code().axes() == 1) {
        let q = support::random(1, [2, 3, n, 5]);
        let k = support::random(2, [2, 3, n, 5]);
        let v = support::random(3, [2, 3, n, e]);
        let causal = LinearAttention::of(ScanMask::Causal);
        // A map whose keys need no shift, so that nothing of the future is known.
        let phi = |graph: &mut Graph, x: Tensor, role| {
            let inputs = feature_map::Inputs { x, projection: None, rows: Rows::default() };
            feature_map::record(
                graph,
                "features",
                inputs,
                Params { map: feature_map::ELU1, role, ..Params::default() },
            )
        };
        for (device, backend) in devices() {
            let positions = Positions::line(n).expect("works");
            let whole = run(&**backend, &[&q, &k, &v], |graph, t| {
                let (q, k) = encoding.record(graph, &noise, &positions, R, (t[0], t[1]))?;
                let (q, k) = (phi(graph, q, feature_map::QUERY)?, phi(graph, k, feature_map::KEY)?);
                Ok(vec![causal.record(graph, (q, k, t[2]), Masks::default())?.out])
            });
            let mut graph = Graph::new("a token");
            let [tq, tk] = ["q", "k"].map(|x| graph.input(x, [2, 3, 1, 5], DType::F32));
            let tv = graph.input("v", [2, 3, 1, e], DType::F32);
            let state = graph.input("state", [2, 3, R, e + 1], DType::F32);
            let one = Positions::line(1).expect("works");
            let coded = encoding.stream(&mut graph, &noise, &one, R, (tq, tk)).expect("records");
            let fq = phi(&mut graph, coded.q, feature_map::QUERY).expect("records");
            let fk = phi(&mut graph, coded.k, feature_map::KEY).expect("records");
            let next = causal.record_step(&mut graph, state, (fq, fk, tv), None).expect("records");
            graph.output(next.out).expect("an output");
            graph.output(next.state).expect("an output");
            let mut program = backend.compile(&graph).expect("compiles");
            let mut carried =
                HostTensor::f32([2, 3, R, e + 1], vec![0.0; (6 * R * (e + 1)) as usize]).expect("works");
            let expected = whole[0].to_f64();
            for i in 0..n {
                let row = |x: &HostTensor, w: u32| {
                    let all = x.to_f32();
                    let part =
                        (0..6).flat_map(|head| all[((head * n + i) * w) as usize..][..w as usize].to_vec());
                    HostTensor::f32([2, 3, 1, w], part.collect()).expect("works")
                };
                program.write(tq, &row(&q, 5)).expect("fits");
                program.write(tk, &row(&k, 5)).expect("fits");
                program.write(tv, &row(&v, e)).expect("fits");
                program.write(state, &carried).expect("fits");
                coded.seek(&mut *program, &[i]).expect("a position");
                program.run().expect("runs");
                let state = program.read(next.state).expect("an output");
                carried = HostTensor::f32(state.shape(), state.to_f32()).expect("works");
                let out = program.read(next.out).expect("an output").to_f64();
                let wanted: Vec<f64> = (0..6)
                    .flat_map(|h| expected[((h * n + i) * e) as usize..][..e as usize].to_vec())
                    .collect();
                close(&format!("{name} on {device}, token {i}"), &out, &wanted, 2e-5);
            }
        }
    }
}

/// Keys that are left out change nothing: the same as the sequence without its padding.
#[test]
fn padding_under_a_mask_is_no_padding() {
    let (_, encoding, _) = encodings().swap_remove(1);
    let noise = Noise::default();
    let (long, short) = (31_u32, 19_u32);
    let x = |seed| support::random(seed, [1, 3, long, 5]);
    let (q, k, v) = (x(1), x(2), x(3));
    let cut = |x: &HostTensor| {
        let all = x.to_f32();
        let rows = (0..3).flat_map(|h| all[h * 31 * 5..][..19 * 5].to_vec()).collect();
        HostTensor::f32([1, 3, short, 5], rows).expect("works")
    };
    let attend = |backend: &dyn Backend, inputs: [&HostTensor; 3], n: u32, keep: u32| {
        let mask = HostTensor::new([1, 1, n], HostData::U8((0..n).map(|i| u8::from(i < keep)).collect()))
            .expect("works");
        run(backend, &inputs, |graph, t| {
            let positions = Positions::line(n)?;
            let (q, k) = encoding.record(graph, &noise, &positions, R, (t[0], t[1]))?;
            let keys = Some(graph.constant("kept", mask));
            let rows = Rows { key_mask: keys, starts: None };
            let phi = |graph: &mut Graph, x, role, rows| {
                let inputs = feature_map::Inputs { x, projection: None, rows };
                feature_map::record(
                    graph,
                    "features",
                    inputs,
                    Params { map: feature_map::EXP, role, ..Params::default() },
                )
            };
            let q = phi(graph, q, feature_map::QUERY, Rows::default())?;
            let k = phi(graph, k, feature_map::KEY, rows)?;
            let masks = Masks { keys, queries: None };
            Ok(vec![LinearAttention::default().record(graph, (q, k, t[2]), masks)?.out])
        })
        .swap_remove(0)
    };
    for (device, backend) in devices() {
        let padded = cut(&attend(&**backend, [&q, &k, &v], long, short));
        let alone = attend(&**backend, [&cut(&q), &cut(&k), &cut(&v)], short, short);
        close(&format!("padding on {device}"), &padded.to_f64(), &alone.to_f64(), 1e-5);
        // No key at all: zeros, not NaN.
        let none = attend(&**backend, [&q, &k, &v], long, 0).to_f64();
        assert!(none.iter().all(|y| *y == 0.0), "{device}: a mask that hides every key");
    }
}

/// Memory grows with the tokens and holds no code of all tokens, dimensions and lanes.
#[test]
fn memory_is_linear_and_holds_no_codes() {
    let sizes = SineSizes { heads: 8, width: 32, sinusoids: 5, axes: 1 };
    let sine = Encoding::new(SineCode::init(sizes, PUBLISHED_BIAS, 1).expect("works"), None).expect("works");
    let conv = Encoding::new(ConvCode::init(8, 32, &[32], 1).expect("works"), None).expect("works");
    let Some((device, backend)) = devices().iter().find(|(name, _)| name == "lavapipe") else { return };
    for encoding in [&sine, &conv] {
        let held = |n: u32| {
            let mut graph = Graph::new("memory");
            let [q, k] = ["q", "k"].map(|name| graph.input(name, [1, 8, n, 32], DType::F32));
            let positions = Positions::line(n).expect("works");
            let (q, k) =
                encoding.record(&mut graph, &Noise::default(), &positions, 64, (q, k)).expect("records");
            graph.output(q).expect("an output");
            graph.output(k).expect("an output");
            let memory = backend.compile(&graph).expect("compiles").memory();
            memory.transient
        };
        let (small, large) = (held(16_384), held(65_536));
        // Queries and keys under their codes are 8 · 64 numbers of a token each; a code would be 32 times that.
        let results = |n: u64| 2 * n * 8 * 64 * 4;
        let codes = |n: u64| n * 8 * 32 * 64 * 4;
        assert!(large < 5 * small, "{device}: {small} and {large} bytes");
        assert!(large < 3 * results(65_536) && large < codes(65_536) / 4, "{device}: {large} bytes");
    }
}

/// Waves and noise of one head beyond a binding are cut: 65 536 tokens of 10 sinusoids hold 176 MB, of 64 taps and 64 lanes 1 GB.
#[test]
fn long_sequences_of_wide_heads_fit_bindings() {
    let sizes = SineSizes { heads: 1, width: 32, sinusoids: 10, axes: 1 };
    let sine = Encoding::new(SineCode::init(sizes, PUBLISHED_BIAS, 1).expect("works"), None).expect("works");
    let conv = Encoding::new(ConvCode::init(1, 32, &[64], 1).expect("works"), None).expect("works");
    let n = 65_536;
    let x = support::random(1, [1, 1, n, 32]);
    let Some((device, backend)) = devices().iter().find(|(name, _)| name == "lavapipe") else { return };
    for encoding in [&sine, &conv] {
        let whole = run(&**backend, &[&x], |graph, t| {
            let positions = Positions::line(n)?;
            Ok(vec![encoding.record(graph, &Noise::default(), &positions, 16, (t[0], t[0]))?.0])
        });
        // Its last tokens by themselves.
        let last = 64;
        let tail = HostTensor::f32([1, 1, last, 32], x.to_f32()[((n - last) * 32) as usize..].to_vec())
            .expect("works");
        let alone = run(&**backend, &[&tail], |graph, t| {
            let positions = Positions::line(last)?.starting_at(&[n - last])?;
            Ok(vec![encoding.record(graph, &Noise::default(), &positions, 16, (t[0], t[0]))?.0])
        });
        let end = whole[0].to_f64()[((n - last) * 16) as usize..].to_vec();
        close(&format!("the end of a long sequence on {device}"), &end, &alone[0].to_f64(), 1e-5);
    }
}

/// What is refused, and that the message says where.
#[test]
fn impossible_codes_are_refused_when_they_are_recorded() {
    let (_, encoding, positions) = encodings().swap_remove(0);
    let (_, picture, _) = encodings().swap_remove(2);
    let mut graph = Graph::new("refused");
    let n = positions.tokens() as u32;
    let [q, k] = ["q", "k"].map(|name| graph.input(name, [1, 3, n, 5], DType::F32));
    let wide = graph.input("wide", [1, 3, n, 6], DType::F32);
    let mut refused = |encoding: &Encoding,
                       noise: &Noise,
                       positions: &Positions,
                       r: u32,
                       pair: (Tensor, Tensor),
                       words: &[&str]| {
        let error = encoding.record(&mut graph, noise, positions, r, pair).expect_err("refused").to_string();
        for word in words {
            assert!(error.contains(word), "no {word:?} in: {error}");
        }
    };
    let noise = Noise::default();
    refused(&encoding, &noise, &positions, 0, (q, k), &["realisations R", "1 to 16384", "0"]);
    refused(&encoding, &noise, &positions, 16_385, (q, k), &["realisations R", "16385"]);
    refused(&encoding, &noise, &positions, 8, (wide, k), &["queries", "[b, 3, 77, 5]"]);
    refused(&encoding, &noise, &positions, 8, (q, wide), &["keys"]);
    refused(&encoding, &noise, &Positions::line(n + 1).expect("works"), 8, (q, k), &["queries", "78"]);
    refused(&picture, &noise, &positions, 8, (q, k), &["positions", "2 axes"]);
    refused(&encoding, &Noise { draw: 256, ..noise }, &positions, 8, (q, k), &["256"]);
    let far = Positions::line(n).expect("works").starting_at(&[u32::MAX - n]).expect("works");
    refused(&encodings()[4].1, &noise, &far, 8, (q, k), &["2^32"]);
}

/// Both ways through sinusoids and both through filters, whatever costs less.
#[test]
fn ways_agree() {
    let x = support::random(1, [2, 2, 300, 4]);
    let paths = [(sine_code::WAVES, conv_code::DIRECT), (sine_code::CODES, conv_code::FOURIER)];
    for (device, backend) in devices() {
        let of = |(sine, conv): (u32, u32)| {
            run(&**backend, &[&x], |graph, t| {
                let words = |graph: &mut Graph, name: &str, shape: [u32; 4]| {
                    let count = shape.iter().product::<u32>();
                    let all = (0..count).map(|i| i.wrapping_mul(0x9e37_79b9)).collect();
                    graph.constant(name, HostTensor::new(shape, HostData::U32(all)).expect("works"))
                };
                let places = HostTensor::new([300, 1], HostData::U32((0..300).collect()))?;
                let waves = wgattn::kernels::position::sine_features::Waves {
                    places: graph.constant("places", places),
                    frequency: words(graph, "frequency", [1, 2, 4, 3]),
                    phase: Some(words(graph, "phase", [1, 2, 4, 3])),
                    gain: graph.constant("gain", support::random(5, [1, 2, 4, 3])),
                    constant: None,
                };
                let noise = graph.constant("noise", support::random(6, [1, 2, 24, 8]));
                let by_sines = sine_code::record(graph, "sines", t[0], waves, noise, sine)?;
                let taps = support::random(7, [1, 2, 4, 33]);
                let by_lag = conv_code::lags(&taps.to_f32(), [1, 1, 33]);
                let lags = Some(graph.constant("lags", HostTensor::f32([8, 65], by_lag)?));
                let taps = graph.constant("taps", taps);
                let side = conv_code::Tokens { x: t[0], taps, lags };
                let params = conv_code::Params { path: conv, ..conv_code::Params::default() };
                let [by_filters] = conv_code::record(graph, [side], conv_code::Common::default(), 8, params)?;
                Ok(vec![by_sines, by_filters])
            })
        };
        let [one, other] = paths.map(of);
        for (a, b) in one.iter().zip(&other) {
            close(&format!("ways on {device}"), &a.to_f64(), &b.to_f64(), 1e-5);
        }
    }
}

/// The scale that both sides of these tests have in common.
#[test]
fn codes_bear_the_scale_of_the_method() {
    assert!((scale(64, 16) - 1024_f64.powf(-0.25)).abs() < 1e-15);
}
