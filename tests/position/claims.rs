//! What is claimed of stochastic position codes and can be checked without training (method: 6), claim by claim.
//!
//! Here are those that no other test is about: logits are those of exact relative positions on average, errors do not grow with the
//! sequence, values are left alone, and what a change of the realisations does to which kernel. The others are
//!
//! * prescribed cross-covariance, its error and slope, invariance to translation: `statistics`;
//! * any prescribed structure: `synthesis`; a number of parameters that does not grow with the tokens: `numbers`;
//! * kernels beyond softmax on stored arrays, time and memory without pairs of tokens: `position_devices`, and
//!   `wgattn bench position` for the slope of time.
//!
//! Gradients, and what trained models do, are not here.

use crate::assert_close;
use crate::statistics::{Case, cases, predicted_square, square_errors};
use wgattn::attention::{FeatureMap, LinearAttention, Masks, Role, ScanMask};
use wgattn::backend::Backend as _;
use wgattn::backend::cpu::CpuBackend;
use wgattn::graph::Graph;
use wgattn::position::apply::{Side, apply};
use wgattn::position::{Codes, Noise, Positions};
use wgattn::random::{Place, Purpose};
use wgattn::tensor::{DType, HostData, HostTensor, Tensor};

/// Gaussian numbers of a name's own.
fn drawn(count: usize, stream: u32) -> Vec<f64> {
    let place = |index: usize| Place { index: index as u32, stream, ..Place::of(Purpose::Data) };
    (0..count).map(|index| f64::from(place(index).gaussian(5).expect("a place"))).collect()
}

/// "Provably behaves like relative positions": every logit of a whole map, averaged over 400 draws, is (1/√D) Σ_d q_d P_d k_d, |z| < 4.
#[test]
fn maps_of_logits_are_those_of_exact_relative_positions_on_average() {
    let (draws, realizations) = (400_u32, 16);
    for Case { name, encoding, positions, mode } in cases() {
        let (n, d) = (positions.tokens(), encoding.code().width() as usize);
        let [q, k] = [1, 2].map(|stream| drawn(n * d, stream));
        let mut sum = vec![0.0; n * n];
        for seed in 0..draws {
            let noise = Noise { seed: u64::from(seed) + 9000, mode, ..Noise::default() };
            let codes = encoding.draw(&noise, &positions, realizations).expect("works");
            let [q, k] = [(Side::Query, &q), (Side::Key, &k)]
                .map(|(side, x)| apply(&codes, side, x, 1, n as u32).expect("works"));
            let r = realizations as usize;
            for (at, sum) in sum.iter_mut().enumerate() {
                let (q, k) = (&q[at / n * r..][..r], &k[at % n * r..][..r]);
                *sum += q.iter().zip(k).map(|(a, b)| a * b).sum::<f64>() / f64::from(realizations).sqrt();
            }
        }
        for (at, sum) in sum.iter().enumerate() {
            let (m, key) = (at / n, at % n);
            let (q, k) = (&q[m * d..][..d], &k[key * d..][..d]);
            let logit = encoding.logit(0, q, k, positions.lag(m, key), realizations).expect("works");
            let z = (sum / f64::from(draws) - logit.mean()) / (logit.variance() / f64::from(draws)).sqrt();
            assert!(z.abs() < 4.0, "{name}, query {m}, key {key}: z = {z}");
        }
    }
}

/// Extrapolation: over 12, 24 and 48 tokens the error of the template is what is predicted, and prediction hardly grows.
#[test]
fn errors_do_not_grow_with_the_sequence() {
    for mut case in cases().into_iter().filter(|case| case.positions.axes() == 1) {
        let mut predictions = Vec::new();
        for n in [12, 24, 48] {
            case.positions = Positions::line(n).expect("works");
            let (mean, error) = square_errors(&case, 64);
            let predicted = predicted_square(&case, 64);
            assert!(
                (mean - predicted).abs() < 3.5 * error,
                "{}, {n} tokens: {mean:e} ± {error:e}",
                case.name
            );
            predictions.push(predicted);
        }
        // (v_q v_k + P²)/R lies between once and twice v_q v_k/R whatever the lag.
        let (least, most) =
            (predictions.iter().copied().fold(f64::MAX, f64::min), predictions[0].max(predictions[2]));
        assert!(most < 2.0 * least, "{}: {predictions:?}", case.name);
    }
}

/// Numbers for the CPU, which keeps them as they are.
fn numbers(shape: [u32; 4], x: &[f64]) -> HostTensor {
    HostTensor::new(shape, HostData::F64(x.to_vec())).expect("works")
}

/// q, k under their codes and v through linear attention of ELU + 1 in f64: `[n, e]`.
fn attended(coded: [&[f64]; 2], n: usize, v: &[f64], causal: bool) -> Vec<f64> {
    let mut graph = Graph::new("values");
    let shape = |x: &[f64]| [1, 1, n as u32, (x.len() / n) as u32];
    let all = [coded[0], coded[1], v];
    let [q, k, values] = std::array::from_fn(|i| graph.input(["q", "k", "v"][i], shape(all[i]), DType::F32));
    let out = attention(&mut graph, [q, k, values], causal);
    graph.output(out).expect("an output");
    let mut program = CpuBackend.compile(&graph).expect("compiles");
    for (tensor, x) in [q, k, values].into_iter().zip(all) {
        program.write(tensor, &numbers(shape(x), x)).expect("fits");
    }
    program.run().expect("runs");
    program.read(out).expect("an output").to_f64()
}

fn attention(graph: &mut Graph, [q, k, v]: [Tensor; 3], causal: bool) -> Tensor {
    let phi_q = FeatureMap::Elu1.record(graph, q, Role::Query, None, None).expect("records");
    let phi_k = FeatureMap::Elu1.record(graph, k, Role::Key, None, None).expect("records");
    let mask = if causal { ScanMask::Causal } else { ScanMask::None };
    LinearAttention::of(mask).record(graph, (phi_q, phi_k, v), Masks::default()).expect("records").out
}

/// "No interaction of positions and contents in values": y = S v with one S for all v, to the bit the same whether v was beside the codes
/// or not, and S knows codes by their products alone: realisations in another order make the same.
#[test]
fn values_are_untouched_by_codes() {
    let (n, e) = (12_usize, 3_usize);
    for Case { name, encoding, positions, mode } in cases() {
        let (d, r) = (encoding.code().width() as usize, 16_usize);
        let noise = Noise { mode, ..Noise::default() };
        let codes = encoding.draw(&noise, &positions, r as u32).expect("works");
        let [q, k, v] = [(1, d), (2, d), (3, e)].map(|(stream, width)| drawn(n * width, stream));
        let coded = |codes: &Codes| -> [Vec<f64>; 2] {
            [(Side::Query, &q), (Side::Key, &k)]
                .map(|(side, x)| apply(codes, side, x, 1, n as u32).expect("works"))
        };
        let [q_coded, k_coded] = coded(&codes);
        let unit: Vec<f64> = (0..n * n).map(|at| f64::from(u8::from(at / n == at % n))).collect();
        let turned = {
            let turn =
                |x: &[f64]| x.chunks(r).flat_map(|line| line.iter().rev().copied()).collect::<Vec<f64>>();
            coded(&Codes { q: turn(&codes.q), k: turn(&codes.k), ..codes.clone() })
        };
        for causal in [false, true] {
            let what = format!("{name}, causal: {causal}");
            let s = attended([&q_coded, &k_coded], n, &unit, causal);
            let y = attended([&q_coded, &k_coded], n, &v, causal);
            let product: Vec<f64> =
                (0..n * e).map(|at| (0..n).map(|j| s[at / e * n + j] * v[j * e + at % e]).sum()).collect();
            assert_close(&y, &product, 1e-13, &format!("{what}: y = S v"));
            let twice: Vec<f64> = v.iter().map(|x| 2.0 * x).collect();
            let doubled: Vec<f64> = y.iter().map(|x| 2.0 * x).collect();
            assert_eq!(attended([&q_coded, &k_coded], n, &twice, causal), doubled, "{what}: 2 v gives 2 y");
            let other = attended([&turned[0], &turned[1]], n, &unit, causal);
            assert_close(&other, &s, 1e-13, &format!("{what}: S of realisations in another order"));

            // Codes recorded in the graph of the attention, and q̂ and k̂ given to one that knows no codes.
            let mut graph = Graph::new("codes and values");
            let width = |w: usize| [1, 1, n as u32, w as u32];
            let inputs = [("q", d, &q), ("k", d, &k), ("v", e, &v)];
            let tensors = inputs.map(|(name, w, _)| graph.input(name, width(w), DType::F32));
            let pair = (tensors[0], tensors[1]);
            let (a, b) = encoding.record(&mut graph, &noise, &positions, r as u32, pair).expect("records");
            let out = attention(&mut graph, [a, b, tensors[2]], causal);
            [a, b, out].into_iter().for_each(|t| graph.output(t).expect("an output"));
            let mut program = CpuBackend.compile(&graph).expect("compiles");
            for (tensor, (_, w, x)) in tensors.into_iter().zip(inputs) {
                program.write(tensor, &numbers(width(w), x)).expect("fits");
            }
            program.run().expect("runs");
            let [a, b, out] = [a, b, out].map(|t| program.read(t).expect("an output").to_f64());
            let alone = attended([&a, &b], n, &v, causal);
            assert_eq!(out, alone, "{what}: values beside codes and without them");
        }
    }
}

/// Another number of realisations changes nothing but the noise of softmax's logits, and changes the function of ReLU's kernel: products
/// q̂·k̂ themselves grow as √(R/D), and with them what the kernel adds weighs less (method: 1.5).
#[test]
fn more_realisations_are_less_noise_to_softmax_and_another_kernel_to_relu() {
    let Case { encoding, positions, .. } = cases().swap_remove(0);
    let (n, d) = (positions.tokens(), encoding.code().width() as usize);
    let [q, k] = [1, 2].map(|stream| drawn(n * d, stream));
    let means = |realizations: u32| {
        let mut sums = [0.0; 2];
        for seed in 0..200 {
            let noise = Noise { seed, ..Noise::default() };
            let codes = encoding.draw(&noise, &positions, realizations).expect("works");
            let [q, k] = [(Side::Query, &q), (Side::Key, &k)]
                .map(|(side, x)| apply(&codes, side, x, 1, n as u32).expect("works"));
            let r = realizations as usize;
            // Query 3 and key 8.
            let pairs = || q[3 * r..][..r].iter().zip(&k[8 * r..][..r]);
            sums[0] += pairs().map(|(a, b)| a * b).sum::<f64>() / f64::from(realizations).sqrt() / 200.0;
            sums[1] += pairs().map(|(a, b)| a.max(0.0) * b.max(0.0)).sum::<f64>() / 200.0;
        }
        sums
    };
    let (few, many) = (means(64), means(1024));
    let logit =
        |r| encoding.logit(0, &q[3 * d..][..d], &k[8 * d..][..d], positions.lag(3, 8), r).expect("works");
    let error = (logit(64).variance() / 200.0).sqrt();
    assert!((few[0] - many[0]).abs() < 4.0 * error, "logits: {few:?}, {many:?}, ± {error}");
    // √(1024/64) = 4.
    let ratio = many[1] / few[1];
    assert!((3.6..4.4).contains(&ratio), "products of ReLU: {few:?}, {many:?}");
}
