//! What must hold whatever the numbers: limits in which Nyström is exact, the linear form against the dense one, which
//! token a row belongs to, what one head may do to another, and what extreme parameters do.

#![cfg(all(feature = "cli", feature = "wgpu"))]

use stored::{Dense, NORMALISATIONS, Operands, deviation, devices, run, worst};
use wgattn::attention::{Attention, Landmarks, Masks, Normalisation, Qkv};
use wgattn::backend::{Backend, cpu::CpuBackend};
use wgattn::graph::Graph;
use wgattn::kernel::KernelParams as _;
use wgattn::kernels::attention::{attention_merge, exact_attention};
use wgattn::kernels::laplacian::nystrom::Params;
use wgattn::kernels::laplacian::{nystrom_attention, nystrom_map};
use wgattn::kernels::linalg::newton_schulz;
use wgattn::tensor::{DType, HostData, HostTensor};

#[path = "support/stored.rs"]
mod stored;
mod support;

/// Numbers in [−scale, scale) that differ from index to index.
fn numbers(shape: [u32; 4], seed: u32, scale: f32) -> HostTensor {
    let mix = |i: u32| {
        let x = (i ^ seed.wrapping_mul(0x1234_5671)).wrapping_mul(0x9e37_79b9);
        let x = (x ^ (x >> 15)).wrapping_mul(0x85eb_ca6b);
        scale * ((x ^ (x >> 13)) as f32 / 2.0_f32.powi(31) - 1.0)
    };
    HostTensor::f32(shape, (0..shape.iter().product::<u32>()).map(mix).collect())
        .expect("the shape's own count")
}

fn bandwidths(list: &[f32]) -> HostTensor {
    HostTensor::f32([list.len() as u32], list.to_vec()).expect("a list")
}

/// `[1, h, n, d]` queries, `[1, h, t, d]` keys, `[1, h, t, 4]` values, every fourth key a landmark.
fn operands(h: u32, n: u32, t: u32, d: u32) -> Operands {
    let k = numbers([1, h, t, d], 2, 1.0);
    Operands {
        q: numbers([1, h, n, d], 1, 1.0),
        v: numbers([1, h, t, 4], 3, 1.0),
        landmarks: every_fourth(&k),
        k,
        landmarks_q: None,
        lambda: bandwidths(&vec![d as f32 / 3.0; h as usize]),
        key_mask: None,
        query_mask: None,
    }
}

/// Tokens 0, 4, 8, … of each head.
fn every_fourth(k: &HostTensor) -> HostTensor {
    let [b, h, t, d] = *k.shape().dims() else { panic!("keys are [b, h, t, d]") };
    let data = k.to_f32();
    let token = |head: u32, l: u32| data[((head * t + 4 * l) * d) as usize..][..d as usize].to_vec();
    let m = t.div_ceil(4);
    let rows = (0..b * h).flat_map(|head| (0..m).flat_map(move |l| token(head, l))).collect();
    HostTensor::f32([b, h, m, d], rows).expect("a quarter of the tokens")
}

fn mask(shape: [u32; 3], keep: impl Fn(u32) -> bool) -> HostTensor {
    let flags = (0..shape.iter().product::<u32>()).map(|i| u8::from(keep(i))).collect();
    HostTensor::new(shape, HostData::U8(flags)).expect("one flag per token")
}

/// Exact attention with the Laplacian kernel: out and log of the row sums.
fn exact(backend: &dyn Backend, x: &Operands, params: exact_attention::Params) -> [HostTensor; 2] {
    let [b, h, n, _] = *x.q.shape().dims() else { panic!("q is [b, h, n, d]") };
    let e = x.v.shape().dims()[3];
    let mut inputs = vec![("q", &x.q), ("k", &x.k), ("v", &x.v), ("lambda", &x.lambda)];
    inputs.extend(x.key_mask.iter().map(|m| ("key_mask", m)));
    let outputs = [("out", [b, h, n, e].into()), ("log_sum", [b, h, n].into())];
    let out = run(backend, &exact_attention::SPEC, &params.to_bytes(), &inputs, &outputs);
    out.try_into().expect("two outputs")
}

/// With every token a landmark and queries among them, Ĝ = K (K + εI)⁻¹ K = K − εK(K + εI)⁻¹. The spectrum of
/// εK(K + εI)⁻¹ lies in [0, ε), so |out − K V| ≤ ε ‖V's column‖₂ for every entry.
///
/// Rounding comes on top: an inverse of condition κ = u/ε ≤ 37/ε is off by about 0.07 κ 2⁻²⁴ in f32 (method, table 6.2),
/// which is 1.5e-4 of the largest value at ε = 1e-3; no more than what ε itself allows.
#[test]
fn nystrom_with_all_tokens_for_landmarks_is_exact_within_epsilon() {
    let mut x = operands(2, 37, 37, 6);
    x.q = x.k.clone();
    x.landmarks = x.k.clone();
    let laplacian = exact_attention::Params { metric: 1, normalise: 1, ..Default::default() };
    let truth = exact(&CpuBackend, &x, laplacian)[0].to_f64();
    let largest = truth.iter().fold(0.0_f64, |m, x| m.max(x.abs()));
    let v = x.v.to_f64();
    let column =
        |head: usize, c: usize| (0..37).map(|j| v[(head * 37 + j) * 4 + c].powi(2)).sum::<f64>().sqrt();
    for (device, backend) in devices() {
        for epsilon in [1e-1_f32, 1e-2, 1e-3] {
            let (out, status) = x.attend(backend.as_ref(), &Params { epsilon, ..Params::default() });
            let rounding = 0.07 * status[1] / f64::from(epsilon) * 2.0_f64.powi(-24) * largest;
            let mut used = 0.0_f64;
            for (at, (got, truth)) in out.to_f64().iter().zip(&truth).enumerate() {
                let allowed = f64::from(epsilon) * column(at / (37 * 4), at % 4) + rounding;
                let gap = (got - truth).abs();
                assert!(
                    gap <= allowed,
                    "{device}, ε = {epsilon}: element {at} is off by {gap:e} > {allowed:e}"
                );
                used = used.max(gap / allowed);
            }
            println!("{device}, ε = {epsilon}: {:.0} % of the bound", 100.0 * used);
        }
    }
}

#[test]
fn linear_form_is_the_dense_form_for_every_normalisation() {
    let mut masked = operands(1, 33, 57, 9);
    masked.key_mask = Some(mask([1, 1, 57], |i| i % 5 != 2));
    masked.query_mask = Some(mask([1, 1, 33], |i| i % 7 != 3));
    let devices = devices();
    for (name, x) in [("plain", operands(1, 33, 57, 9)), ("masked", masked)] {
        for (number, norm) in (0..).zip(NORMALISATIONS) {
            for (metric, zs) in [(1, 0.0), (1, 1.0), (2, 3.5)] {
                let params = Params { normalise: number, epsilon: 1e-2, metric, zs, ..Params::default() };
                let dense = Dense::of(&x, params);
                let expected = dense.attend(&x.v);
                for (device, backend) in &devices {
                    let what = format!("{device} {name} {norm}, metric {metric}, zs {zs}");
                    let (out, _) = x.attend(backend.as_ref(), &params);
                    let error = deviation(&out.to_f64(), &expected);
                    // f64 leaves the condition number's share; f32 the method's table 6.6.
                    let allowed = if *device == "cpu" { 1e-11 } else { 2.4e-5 };
                    assert!(error <= allowed, "{what}: {error:e}, {}", worst(&out.to_f64(), &expected));
                    if metric == 1 && zs == 0.0 {
                        let (map, z) = (x.map(backend.as_ref(), &params), dense.z());
                        let (rows, z) = (kept_rows(&x, &map), z.transpose().as_slice().to_vec());
                        let error = deviation(&rows, &z);
                        assert!(error <= allowed, "map, {what}: {error:e}, {}", worst(&rows, &z));
                    }
                }
            }
        }
    }
}

/// A map with the rows of masked queries put to 0: the row of a query can be asked for though it is no part of the means.
fn kept_rows(x: &Operands, map: &[f64]) -> Vec<f64> {
    let t = x.k.shape().dims()[2] as usize;
    let keep = x.query_mask.as_ref().map(HostTensor::to_f64);
    let row = |at: usize| keep.as_ref().is_none_or(|k| k[at / t] != 0.0);
    map.iter().enumerate().map(|(at, z)| if row(at) { *z } else { 0.0 }).collect()
}

#[test]
fn a_hard_head_changes_no_bit_of_its_neighbours() {
    let easy = operands(3, 37, 53, 7);
    let mut hard = easy.clone();
    // The middle head: all its landmarks within 1e-6 of each other, huge values, a bandwidth that sees no difference.
    let middle = |tensor: &HostTensor, with: &dyn Fn(usize) -> f32| {
        let mut data = tensor.to_f32();
        let third = data.len() / 3;
        (third..2 * third).for_each(|at| data[at] = with(at));
        HostTensor::f32(tensor.shape(), data).expect("the same shape")
    };
    hard.landmarks = middle(&hard.landmarks, &|at| 0.5 + 1e-6 * (at % 5) as f32);
    hard.v = middle(&hard.v, &|at| 1e30 * (at % 3) as f32);
    hard.lambda = bandwidths(&[7.0 / 3.0, 1e6, 7.0 / 3.0]);
    for (device, backend) in devices() {
        for (number, norm) in (0..).zip(NORMALISATIONS) {
            let params = Params { normalise: number, ..Params::default() };
            let bits = |x: &Operands| {
                let (out, status) = x.attend(backend.as_ref(), &params);
                let bits: Vec<u64> = out.to_f64().iter().map(|x| x.to_bits()).collect();
                let third = bits.len() / 3;
                (bits[..third].to_vec(), bits[2 * third..].to_vec(), status[..4].to_vec())
            };
            assert!(bits(&easy) == bits(&hard), "{norm} on {device}");
        }
    }
}

#[test]
fn a_row_belongs_to_its_token_whatever_the_order() {
    // 53 and 37 are prime: no tile, window or vector divides them.
    let x = operands(2, 37, 53, 7);
    let moved = |tensor: &HostTensor, to: &dyn Fn(usize) -> usize| {
        let [_, h, n, d] = *tensor.shape().dims() else { panic!("[b, h, n, d]") };
        let (n, d, data) = (n as usize, d as usize, tensor.to_f32());
        let mut out = vec![0.0; data.len()];
        for at in 0..h as usize * n {
            let place = at / n * n + to(at % n);
            out[place * d..][..d].copy_from_slice(&data[at * d..][..d]);
        }
        HostTensor::f32(tensor.shape(), out).expect("the same shape")
    };
    let (query, key) = (|i: usize| (i * 5 + 11) % 37, |j: usize| (j * 17 + 4) % 53);
    let shuffled =
        Operands { q: moved(&x.q, &query), k: moved(&x.k, &key), v: moved(&x.v, &key), ..x.clone() };
    for (device, backend) in devices() {
        for (number, norm) in (0..).zip(NORMALISATIONS) {
            let params = Params { normalise: number, epsilon: 1e-2, ..Params::default() };
            let expected = moved(&x.attend(backend.as_ref(), &params).0, &query).to_f64();
            let got = shuffled.attend(backend.as_ref(), &params).0.to_f64();
            // Sums over tokens run in another order; the expected rows went through f32.
            let allowed = if device == "cpu" { 1e-7 } else { 1e-5 };
            let error = deviation(&got, &expected);
            assert!(error <= allowed, "{norm} on {device}: {error:e}, {}", worst(&got, &expected));
        }
    }
}

/// Ĝ of landmarks that see all tokens mixes future into past, so a causal form would be a lie: no port and no
/// parameter asks for one.
#[test]
fn nystrom_offers_no_causal_form() {
    for spec in [&nystrom_attention::SPEC, &nystrom_map::SPEC] {
        let ports = spec.ports.iter().filter(|p| p.dims.contains(&"n") && p.dims.contains(&"t"));
        assert_eq!(ports.count(), 0, "{} has a mask over pairs", spec.name);
        assert!(spec.params.iter().all(|f| !f.name.contains("causal")), "{}", spec.name);
    }
}

#[test]
fn one_query_gets_the_mean_of_the_values_in_centred_forms() {
    let mut x = operands(2, 1, 53, 7);
    x.key_mask = Some(mask([1, 2, 53], |i| i % 3 != 1));
    let v = x.v.to_f64();
    let kept: Vec<usize> = (0..106).filter(|i| i % 3 != 1).collect();
    let mean = |head: usize, c: usize| {
        let mine: Vec<f64> = kept.iter().filter(|i| *i / 53 == head).map(|i| v[i * 4 + c]).collect();
        mine.iter().sum::<f64>() / mine.len() as f64
    };
    let expected: Vec<f64> = (0..8).map(|at| mean(at / 4, at % 4)).collect();
    for (device, backend) in devices() {
        for normalise in [2, 3] {
            let out = x.attend(backend.as_ref(), &Params { normalise, ..Params::default() }).0.to_f64();
            // One mean over 53 numbers in f32, and a centred feature that is 0 but for the rounding of one subtraction,
            // magnified by 1/√ew = 316 and by sums over X.
            let error = deviation(&out, &expected);
            assert!(error <= 1e-5, "{normalise} on {device}: {error:e}");
        }
    }
}

#[test]
fn rows_without_keys_are_zero_and_counted() {
    for (device, backend) in devices() {
        let mut x = operands(2, 37, 53, 7);
        // Values of masked keys may be anything.
        x.v = HostTensor::f32(x.v.shape(), vec![3e38; 2 * 53 * 4]).expect("the same shape");
        x.key_mask = Some(mask([1, 1, 53], |_| false));
        for (number, norm) in (0..).zip(NORMALISATIONS) {
            let (out, _) = x.attend(backend.as_ref(), &Params { normalise: number, ..Params::default() });
            assert!(out.to_f64().iter().all(|x| *x == 0.0), "{norm} on {device}");
        }
        for normalise in [0, 1] {
            let params = exact_attention::Params { metric: 1, normalise, ..Default::default() };
            let [out, log_sum] = exact(backend.as_ref(), &x, params);
            assert!(out.to_f64().iter().all(|x| *x == 0.0), "exact {normalise} on {device}");
            let empty = log_sum.to_f32().iter().filter(|x| **x == attention_merge::EMPTY).count();
            assert_eq!(empty, 2 * 37, "exact {normalise} on {device}");
        }
    }
}

#[test]
fn extreme_bandwidths_give_finite_numbers() {
    let mut x = operands(1, 36, 36, 5);
    x.q = x.k.clone();
    x.landmarks = x.k.clone();
    let v = x.v.to_f64();
    let column_sum = |c: usize| (0..36).map(|j| v[j * 4 + c]).sum::<f64>();
    for (device, backend) in devices() {
        for (number, norm) in (0..).zip(NORMALISATIONS) {
            for lambda in [1e-30_f32, 1e-3, 1e6, 1e30] {
                x.lambda = bandwidths(&[lambda]);
                let params = Params { normalise: number, epsilon: 1e-2, ..Params::default() };
                let (out, status) = x.attend(backend.as_ref(), &params);
                let out = out.to_f64();
                assert!(out.iter().all(|x| x.is_finite()), "{norm}, λ = {lambda:e} on {device}");
                assert!(
                    status[3] < f64::from(newton_schulz::FAILED),
                    "{norm}, λ = {lambda:e} on {device}: {status:?}"
                );
                // All kernel values 0 but a token's own: Ĝ = I/(1 + ε). All 1: Ĝ = m/(m + ε).
                let expected: Option<Vec<f64>> = match (norm, lambda < 1.0) {
                    ("none", true) => Some(v.iter().map(|x| x / 1.01).collect()),
                    ("none", false) => Some((0..144).map(|at| column_sum(at % 4) * 36.0 / 36.01).collect()),
                    _ => None,
                };
                if let Some(expected) = expected {
                    let error = deviation(&out, &expected);
                    // 2.6e-3 is the floor of f32 where all landmarks are equal (method, table 6.2).
                    let allowed = if lambda < 1.0 { 2e-6 } else { 2.6e-3 };
                    assert!(error <= allowed, "λ = {lambda:e} on {device}: {error:e}");
                }
            }
        }
    }
}

/// Attention as users record it: out and status.
fn recorded(
    backend: &dyn Backend,
    attention: &Attention,
    x: &Operands,
    grid: (u32, u32),
) -> (Vec<f64>, Vec<f64>) {
    let mut graph = Graph::new("preset");
    let inputs = [("q", &x.q), ("k", &x.k), ("v", &x.v), ("lambda", &x.lambda)];
    let tensors = inputs.map(|(name, data)| graph.input(name, data.shape(), DType::F32));
    let [q, k, v, lambda] = tensors;
    let qkv = Qkv { q, k, v, lambda, grid };
    let attended = attention.record(&mut graph, qkv, Masks::default()).expect("attention is recorded");
    graph.output(attended.out).expect("a transient");
    let status = attended.status.expect("the Nyström path has a status");
    graph.output(status).expect("a transient");
    let mut program = backend.compile(&graph).expect("the graph compiles");
    for (tensor, (_, data)) in tensors.iter().zip(inputs) {
        program.write(*tensor, data).expect("the data fits");
    }
    program.run().expect("the graph runs");
    let mut read = |tensor| program.read(tensor).expect("an output").to_f64();
    (read(attended.out), read(status))
}

#[test]
fn presets_run_on_every_device_and_agree() {
    let x = operands(2, 14 * 15, 14 * 15, 8);
    for preset in ["default", "paper", "train", "official", "official_fixed"] {
        let attention = Attention::preset(preset).expect("a preset");
        let (truth, _) = recorded(&CpuBackend, &attention, &x, (14, 15));
        for (device, backend) in devices() {
            let (out, status) = recorded(backend.as_ref(), &attention, &x, (14, 15));
            let error = deviation(&out, &truth);
            println!("{preset} on {device}: error {error:.1e}, status {status:?}");
            // 20 steps of the authors' start reach rounding at these condition numbers (method, table 6.2).
            assert!(error <= 2.4e-5, "{preset} on {device}: {error:e}, status {status:?}");
            assert!(status.chunks(4).all(|s| s[3] == 0.0), "{preset} on {device}: {status:?}");
        }
    }
    let refused = Attention::preset("newest").expect_err("no such preset").to_string();
    assert!(refused.contains("paper") && refused.contains("newest"), "{refused}");
}

/// Two sets may see nothing of each other. Then the authors' factor 1.8/(largest row sum of W)², which leaves ε out, is far
/// too large for W + εI: it overflows at once (method, table 6.2, two-set at λ = 0.5), and the status says so.
#[test]
fn the_authors_start_on_distant_sets_fails_and_says_so() {
    let entry = |at: u32| {
        let (i, j) = (at / 9, at % 9);
        3e-4 * (1.0 + ((5 * i + 3 * j) % 7) as f32 / 7.0) + if i == j { 1e-2 } else { 0.0 }
    };
    let a = HostTensor::f32([1, 1, 9, 9], (0..81).map(entry).collect()).expect("nine landmarks");
    for (device, backend) in devices().into_iter().filter(|(device, _)| device != "cpu") {
        for (mode, expected) in [
            (newton_schulz::AUTHORS, newton_schulz::FAILED),
            (newton_schulz::AUTHORS_FIXED, newton_schulz::OK),
            (newton_schulz::NYSTROMFORMER, newton_schulz::OK),
            (newton_schulz::PLAIN, newton_schulz::OK),
        ] {
            for fallback in [0, 1] {
                let params =
                    newton_schulz::Params { epsilon: 1e-2, mode, steps: 20, fallback, ..Default::default() };
                let outputs = [("x", a.shape()), ("status", [1, 1, 4].into())];
                let out =
                    run(backend.as_ref(), &newton_schulz::SPEC, &params.to_bytes(), &[("a", &a)], &outputs);
                let status = out[1].to_f64();
                println!("{device}, mode {mode}, fallback {fallback}: {status:?}");
                if fallback == 1 && mode == newton_schulz::AUTHORS {
                    // Cholesky reads one triangle; whether that is near enough or not, the code tells of it.
                    assert!(status[3] != f64::from(newton_schulz::OK), "mode {mode} on {device}: {status:?}");
                } else {
                    assert_eq!(status[3], f64::from(expected), "mode {mode} on {device}: {status:?}");
                }
            }
        }
    }
}

#[test]
fn two_sets_need_an_inverse_for_unsymmetric_matrices() {
    let mut graph = Graph::new("two sets");
    let [q, k, v] = ["q", "k", "v"].map(|name| graph.input(name, [1, 2, 36, 4], DType::F32));
    let lambda = graph.input("lambda", [2], DType::F32);
    let mut record = |inverse| {
        let landmarks = Landmarks::Strided { side: 3 };
        let attention = Attention { two_sets: true, inverse, landmarks, ..Attention::official() };
        attention.record(&mut graph, Qkv { q, k, v, lambda, grid: (6, 6) }, Masks::default())
    };
    for symmetric in [newton_schulz::SCALED, newton_schulz::AUTHORS, newton_schulz::AUTHORS_FIXED] {
        let refused = record(symmetric).expect_err("A is not symmetric").to_string();
        assert!(refused.contains("two landmark sets") && refused.contains("3 or 4"), "{refused}");
    }
    for general in [newton_schulz::NYSTROMFORMER, newton_schulz::PLAIN] {
        record(general).expect("meant for any matrix");
    }
}

#[test]
fn every_way_to_invert_gives_the_same_attention() {
    let x = operands(2, 40, 60, 6);
    for (device, backend) in devices() {
        let with = |inverse, steps| Attention {
            inverse,
            steps,
            epsilon: 1e-2,
            landmarks: Landmarks::Segments { count: 11 },
            normalisation: Normalisation::Col,
            ..Attention::default()
        };
        let (truth, _) = recorded(&CpuBackend, &with(newton_schulz::SCALED, None), &x, (6, 10));
        for (mode, steps) in [
            (newton_schulz::SCALED, None),
            (newton_schulz::AUTHORS, Some(24)),
            (newton_schulz::AUTHORS_FIXED, Some(24)),
            (newton_schulz::NYSTROMFORMER, Some(12)),
            (newton_schulz::PLAIN, Some(24)),
            (newton_schulz::IDENTITY, Some(20)),
        ] {
            let (out, status) = recorded(backend.as_ref(), &with(mode, steps), &x, (6, 10));
            let error = deviation(&out, &truth);
            assert!(error <= 2.4e-5, "mode {mode} on {device}: {error:e}, status {status:?}");
            assert!(status.chunks(4).all(|s| s[3] == 0.0), "mode {mode} on {device}: {status:?}");
        }
    }
}

#[test]
fn bandwidths_that_are_not_positive_are_refused_when_written() {
    for (name, backend) in devices() {
        let mut graph = Graph::new("bandwidth");
        let [q, k, v] = ["q", "k", "v"].map(|n| graph.input(n, [1, 2, 16, 4], DType::F32));
        let lambda = graph.input("lambda", [2], DType::F32);
        let attention = Attention { landmarks: Landmarks::Strided { side: 2 }, ..Attention::default() };
        let qkv = Qkv { q, k, v, lambda, grid: (4, 4) };
        let attended = attention.record(&mut graph, qkv, Masks::default()).expect("records");
        graph.output(attended.out).expect("a transient");
        let mut program = backend.compile(&graph).expect("compiles");
        for bad in [0.0, -1.0, f32::NAN, f32::INFINITY] {
            let data = HostTensor::f32([2], vec![1.0, bad]).expect("the size fits");
            let error = program.write(lambda, &data).expect_err("a bandwidth must be positive").to_string();
            assert!(error.contains("element 1 of `lambda`") && error.contains("> 0"), "{name}: {error}");
        }
    }
}
