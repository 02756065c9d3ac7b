//! Newton–Schulz against stored arrays (`tests/data/laplacian`, made by an independent f64 program) and against its own
//! promises: the a-priori bound, the number of steps, what a hard head does to its neighbours.
//!
//! Tolerances in [`FILES`] come with the arrays: four times the error of a plain f32 evaluation, at least 1e-6, relative
//! to the largest value.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use wgattn::arrays::{Array, ArrayData, read};
use wgattn::backend::wgpu::{Options, WgpuBackend};
use wgattn::backend::{Backend, cpu::CpuBackend};
use wgattn::graph::Graph;
use wgattn::kernel::{Driver, KernelParams as _, KernelSpec};
use wgattn::kernels::linalg::newton_schulz::{self, bound::Bound, data, dense};
use wgattn::kernels::linalg::{newton_schulz_trace, newton_schulz_workgroup as workgroup};
use wgattn::tensor::{DType, Dims, HostData, HostTensor, Shape};

mod support;

/// Symmetric cases with the tolerance of X.
const FILES: [(&str, f64); 9] = [
    ("ns_m1", 1e-6),
    ("ns_m2_well", 1e-6),
    ("ns_m2_ill", 2e-4),
    ("ns_m49_well", 2e-6),
    ("ns_m49_mid", 4e-6),
    ("ns_m49_ill", 9e-4),
    ("ns_m49_duplicate", 4e-5),
    ("ns_m64_ill", 2e-5),
    ("ns_m100", 3e-6),
];

type Device = (String, Arc<dyn Backend>);

/// The CPU and every adapter of this machine.
fn devices() -> Vec<Device> {
    let mut list: Vec<Device> = vec![("cpu".into(), Arc::new(CpuBackend))];
    list.extend(support::backends().into_iter().map(|(name, b)| (name, Arc::new(b) as Arc<dyn Backend>)));
    list
}

/// Every adapter, made to believe it is a GPU, so that small matrices are one workgroup's work.
fn as_gpus() -> Vec<Device> {
    let open = |(name, adapter): (String, wgpu::Adapter)| {
        let options = Options { driver: Some(Driver::Gpu), ..Options::default() };
        let backend = WgpuBackend::on_adapter(&adapter, options).expect("the adapter gives a device");
        (format!("{name} as a GPU"), Arc::new(backend) as Arc<dyn Backend>)
    };
    support::adapters_by_name().into_iter().map(open).collect()
}

/// One stored case.
struct Stored(BTreeMap<String, Array>);

impl Stored {
    fn read(name: &str) -> Self {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/data/laplacian/{name}.npz"));
        Self(read(path).expect("the stored case is there"))
    }

    fn numbers(&self, name: &str) -> Vec<f64> {
        match &self.0[name].data {
            ArrayData::F32(v) => v.iter().map(|&x| f64::from(x)).collect(),
            ArrayData::F64(v) => v.clone(),
            ArrayData::I32(v) => v.iter().map(|&x| f64::from(x)).collect(),
            other => panic!("{name} is {}", other.dtype()),
        }
    }

    fn number(&self, name: &str) -> f64 {
        self.numbers(name)[0]
    }

    fn size(&self) -> u32 {
        self.0["A"].shape[0] as u32
    }

    fn matrix(&self) -> HostTensor {
        let m = self.size();
        HostTensor::f32([1, 1, m, m], self.numbers("A").iter().map(|&x| x as f32).collect())
            .expect("A is square")
    }
}

/// Runs one kernel and returns its outputs in port order.
fn run(
    device: &dyn Backend,
    spec: &'static KernelSpec,
    params: &[u8],
    a: &HostTensor,
    outputs: &[Shape],
) -> Vec<Vec<f64>> {
    let mut graph = Graph::new("inverse");
    let input = graph.input("a", a.shape(), DType::F32);
    let outputs: Vec<_> = outputs.iter().map(|&shape| graph.transient("out", shape, DType::F32)).collect();
    let args: Vec<_> = [input].iter().chain(&outputs).copied().map(Some).collect();
    graph.pass_bytes(spec, params, &args).expect("the pass fits");
    outputs.iter().for_each(|&out| graph.output(out).expect("a transient"));
    let mut program = device.compile(&graph).expect("the graph compiles");
    program.write(input, a).expect("the matrix fits");
    program.run().expect("the graph runs");
    outputs.iter().map(|&out| program.read(out).expect("an output").to_f64()).collect()
}

/// X and status `[heads, 4]` of [`newton_schulz`].
fn invert(device: &dyn Backend, params: newton_schulz::Params, a: &HostTensor) -> (Vec<f64>, Vec<f64>) {
    let heads = a.shape().dims()[1];
    let mut out =
        run(device, &newton_schulz::SPEC, &params.to_bytes(), a, &[a.shape(), [1, heads, 4].into()]);
    let status = out.pop().expect("two outputs");
    (out.pop().expect("two outputs"), status)
}

/// X, residual and [u, steps] of [`workgroup`] for one matrix.
fn invert_in_workgroup(
    device: &dyn Backend,
    params: workgroup::Params,
    a: &HostTensor,
) -> (Vec<f64>, f64, [f64; 2]) {
    let out = run(
        device,
        &workgroup::SPEC,
        &params.to_bytes(),
        a,
        &[a.shape(), [1, 1, 1].into(), [1, 1, 2].into()],
    );
    (out[0].clone(), out[1][0], [out[2][0], out[2][1]])
}

/// Largest deviation relative to the largest expected magnitude.
fn deviation(got: &[f64], expected: &[f64]) -> f64 {
    assert_eq!(got.len(), expected.len());
    let scale = expected.iter().fold(0.0_f64, |m, x| m.max(x.abs()));
    // Not `max`: it would pass over a NaN.
    let worst =
        got.iter().zip(expected).map(|(g, e)| (g - e).abs()).reduce(|m, x| if x <= m { m } else { x });
    worst.unwrap_or(0.0) / scale
}

/// ‖R‖₂ by power iteration on RᵀR.
fn spectral_norm(r: &[f64], m: usize) -> f64 {
    let times = |r: &[f64], v: &[f64]| -> Vec<f64> {
        r.chunks(m).map(|row| row.iter().zip(v).map(|(x, y)| x * y).sum()).collect()
    };
    let turned = dense::transposed(r, m);
    let mut v: Vec<f64> = (0..m).map(|i| 1.0 + (i as f64 * 0.7).sin()).collect();
    let mut norm = 0.0;
    for _ in 0..300 {
        let length = v.iter().map(|x| x * x).sum::<f64>().sqrt();
        v.iter_mut().for_each(|x| *x /= length);
        v = times(&turned, &times(r, &v));
        norm = v.iter().map(|x| x * x).sum::<f64>().sqrt().sqrt();
    }
    norm
}

/// I − A X in f64.
fn residual_matrix(a: &HostTensor, x: &[f64], m: usize) -> Vec<f64> {
    let mut r = dense::product(&a.to_f64(), x, m);
    r.iter_mut().for_each(|x| *x = -*x);
    (0..m).for_each(|i| r[i * m + i] += 1.0);
    r
}

#[test]
fn recursion_and_number_of_steps_are_the_stored_ones() {
    for (name, _) in FILES {
        let stored = Stored::read(name);
        let mut bound = Bound::start(stored.number("u"), stored.number("eps"));
        assert_eq!(f64::from(bound.steps_to(stored.number("tol"))), stored.number("T"), "{name}");
        for delta in stored.numbers("delta") {
            assert!((bound.delta() - delta).abs() <= 1e-9 * delta, "{name}: {} and {delta}", bound.delta());
            bound = bound.step().1;
        }
    }
}

#[test]
fn scaled_inverse_is_the_exact_one_and_its_status_is_true() {
    for (device, backend) in devices().into_iter().chain(as_gpus()) {
        for (name, tolerance) in FILES {
            let stored = Stored::read(name);
            let (a, m) = (stored.matrix(), stored.size() as usize);
            let params = newton_schulz::Params {
                epsilon: stored.number("eps") as f32,
                tolerance: stored.number("tol") as f32,
                ..Default::default()
            };
            let (x, status) = invert(backend.as_ref(), params, &a);
            let error = deviation(&x, &stored.numbers("X"));
            println!("{device} {name}: error {error:.1e} (allowed {tolerance:.0e}), status {status:?}");
            assert!(error <= tolerance, "{name} on {device}: {error:e} > {tolerance:e}");
            let measured = dense::distance_from_identity(&dense::product(&a.to_f64(), &x, m), m, m);
            // The measured residual is itself rounded: m products of size |A| |X| per entry.
            let rounding = 2.0
                * f64::from(f32::EPSILON)
                * stored.number("u")
                * x.iter().map(|x| x * x).sum::<f64>().sqrt();
            assert!(
                (status[0] - measured).abs() <= 1e-3 * measured + rounding,
                "{name} on {device}: {} and {measured}",
                status[0]
            );
            assert!(
                (status[1] / stored.number("u") - 1.0).abs() < 1e-5,
                "{name} on {device}: u = {}",
                status[1]
            );
            assert!(status[2] > stored.number("T"), "{name} on {device}: {} steps", status[2]);
            assert_eq!(status[3], f64::from(newton_schulz::OK), "{name} on {device}");
        }
    }
}

#[test]
fn inverse_of_196_landmarks_agrees_in_stored_rows_products_and_trace() {
    let (stored, m) = (Stored::read("ns_m196"), 196);
    let a = stored.matrix();
    for (device, backend) in devices() {
        let params = newton_schulz::Params { epsilon: stored.number("eps") as f32, ..Default::default() };
        let (x, _) = invert(backend.as_ref(), params, &a);
        let rows: Vec<f64> =
            stored.numbers("row_index").iter().flat_map(|&i| x[i as usize * m..][..m].to_vec()).collect();
        let b = stored.numbers("B");
        let product: Vec<f64> =
            (0..m * 3).map(|at| (0..m).map(|k| x[at / 3 * m + k] * b[k * 3 + at % 3]).sum()).collect();
        let trace: f64 = (0..m).map(|i| x[i * m + i]).sum();
        for (what, got, expected) in
            [("rows", rows, "X_rows"), ("X B", product, "X_B"), ("trace", vec![trace], "trace_X")]
        {
            let error = deviation(&got, &stored.numbers(expected));
            assert!(error <= 5e-6, "{what} on {device}: {error:e}");
        }
    }
}

#[test]
fn workgroup_takes_one_step_more_than_the_bound_asks_for() {
    for (device, backend) in devices() {
        for (name, _) in FILES.into_iter().filter(|(n, _)| !["ns_m64_ill", "ns_m100"].contains(n)) {
            let stored = Stored::read(name);
            let (epsilon, tolerance) = (stored.number("eps") as f32, stored.number("tol") as f32);
            let params = workgroup::Params { epsilon, tolerance, ..Default::default() };
            let (_, _, [u, steps]) = invert_in_workgroup(backend.as_ref(), params, &stored.matrix());
            assert!((u / stored.number("u") - 1.0).abs() < 1e-5, "{name} on {device}: u = {u}");
            assert_eq!(steps, stored.number("T") + 1.0, "{name} on {device}");
        }
    }
}

#[test]
fn iterates_stay_within_the_a_priori_bound_and_end_at_the_stored_one() {
    for (device, backend) in devices() {
        for (name, tolerance) in FILES.into_iter().filter(|(n, _)| !["ns_m64_ill", "ns_m100"].contains(n)) {
            let stored = Stored::read(name);
            let (a, m) = (stored.matrix(), stored.size() as usize);
            let (epsilon, upper) = (stored.number("eps") as f32, stored.number("u") as f32);
            for (k, delta) in stored.numbers("delta").into_iter().enumerate() {
                let params = workgroup::Params { epsilon, upper, most_steps: k as u32, ..Default::default() };
                let (x, _, _) = invert_in_workgroup(backend.as_ref(), params, &a);
                let norm = spectral_norm(&residual_matrix(&a, &x, m), m);
                // 1e-5: rounding A to f32 moved its smallest eigenvalue; the rest: what f32 iterates cannot go below.
                let allowed = delta + 1e-5 + 4.0 * stored.number("residual_fro_f32");
                assert!(norm <= allowed, "{name} on {device}, step {k}: {norm:e} > {allowed:e}");
                if k as f64 == stored.number("T") {
                    let error = deviation(&x, &stored.numbers("X_T"));
                    assert!(error <= tolerance, "{name} on {device}: X_T off by {error:e} > {tolerance:e}");
                }
            }
        }
    }
}

#[test]
fn trace_shows_the_stored_residuals() {
    for (device, backend) in devices() {
        for name in ["ns_m2_well", "ns_m49_mid", "ns_m64_ill", "ns_m100"] {
            let stored = Stored::read(name);
            let m = f64::from(stored.size());
            let expected = stored.numbers("residual_fro");
            let params = newton_schulz_trace::Params {
                epsilon: stored.number("eps") as f32,
                // So that the worst case is this matrix's own u.
                largest: ((stored.number("u") - stored.number("eps")) / m) as f32,
                ..Default::default()
            };
            let shape = [expected.len() as u32, 1, 1].into();
            let got = run(
                backend.as_ref(),
                &newton_schulz_trace::SPEC,
                &params.to_bytes(),
                &stored.matrix(),
                &[shape],
            );
            for (k, (got, expected)) in got[0].iter().zip(&expected).enumerate() {
                let allowed = 1e-3 * expected + 4.0 * stored.number("residual_fro_f32");
                assert!(
                    (got - expected).abs() <= allowed,
                    "{name} on {device}, step {k}: {got:e} and {expected:e}"
                );
            }
        }
    }
}

#[test]
fn two_landmark_sets_converge_from_the_transposed_start() {
    let stored = Stored::read("ns_twoset_m25");
    let a = stored.matrix();
    for (device, backend) in devices() {
        for (steps, expected) in [(stored.number("T") as u32, "X_T"), (0, "X")] {
            let params = newton_schulz::Params { mode: newton_schulz::PLAIN, steps, ..Default::default() };
            let (x, status) = invert(backend.as_ref(), params, &a);
            let error = deviation(&x, &stored.numbers(expected));
            println!("{device} ns_twoset_m25 {expected}: error {error:.1e}, status {status:?}");
            assert!(error <= 2e-5, "{expected} on {device}: {error:e}");
            assert_eq!(status[3], f64::from(newton_schulz::OK));
        }
        let params = newton_schulz::Params { mode: newton_schulz::PLAIN, steps: 2, ..Default::default() };
        let (_, status) = invert(backend.as_ref(), params, &a);
        assert_eq!(status[3], f64::from(newton_schulz::FAILED), "Cholesky must not be tried on {device}");
    }
}

#[test]
fn loops_make_as_many_rounds_as_asked() {
    let dims = Dims::of(&[("b", 1), ("h", 1), ("m", 6)]);
    let a = HostTensor::new([1, 1, 6, 6], data::spread(&dims)).expect("a matrix");
    for (device, backend) in devices() {
        for k in [0, 1, 2, 7, 30] {
            let params = workgroup::Params { upper: 6.0, most_steps: k, ..Default::default() };
            let (x, _, [_, steps]) = invert_in_workgroup(backend.as_ref(), params, &a);
            assert_eq!(steps, f64::from(k), "{device}");
            assert!(x.iter().all(|x| x.is_finite()), "{device}, {k} steps");
            if k > 0 {
                let params = newton_schulz::Params { steps: k, fallback: 0, ..Default::default() };
                assert_eq!(invert(backend.as_ref(), params, &a).1[2], f64::from(k), "{device}");
            }
        }
    }
}

/// Three heads of m landmarks, the middle one with nearly coinciding landmarks.
fn mixed_heads(m: u32) -> (HostTensor, Vec<HostTensor>) {
    let dims = Dims::of(&[("b", 1), ("h", 3), ("m", m)]);
    let HostData::F32(all) = data::one_hard(&dims) else { panic!("matrices are f32") };
    let alone =
        all.chunks((m * m) as usize).map(|a| HostTensor::f32([1, 1, m, m], a.to_vec()).expect("a matrix"));
    let alone = alone.collect();
    (HostTensor::f32([1, 3, m, m], all).expect("three matrices"), alone)
}

#[test]
fn a_hard_head_changes_no_bit_of_its_neighbours() {
    for (device, backend) in devices().into_iter().chain(as_gpus()) {
        for m in [49, 100] {
            let (together, alone) = mixed_heads(m);
            let (x, status) = invert(backend.as_ref(), newton_schulz::Params::default(), &together);
            for (head, a) in alone.iter().enumerate() {
                let (own, own_status) = invert(backend.as_ref(), newton_schulz::Params::default(), a);
                let part = &x[head * own.len()..(head + 1) * own.len()];
                assert!(part == own, "head {head} of m={m} on {device}");
                assert_eq!(status[4 * head..4 * head + 4], own_status, "head {head} of m={m} on {device}");
            }
        }
    }
}

#[test]
fn equal_landmarks_give_finite_numbers() {
    for (device, backend) in devices().into_iter().chain(as_gpus()) {
        for m in [16_u32, 49, 196] {
            let entry = |at: u32| if at / m == at % m { 1.01 } else { 1.0 };
            let a = HostTensor::f32([1, 1, m, m], (0..m * m).map(entry).collect()).expect("a matrix");
            let params = newton_schulz::Params { epsilon: 1e-2, ..Default::default() };
            let (x, status) = invert(backend.as_ref(), params, &a);
            println!("{device} equal landmarks m={m}: status {status:?}");
            assert!(x.iter().all(|x| x.is_finite()), "m={m} on {device}");
            assert!(status[0] <= 1e-2 && status[3] < 3.0, "m={m} on {device}: {status:?}");
        }
    }
}

#[test]
fn a_head_that_is_not_finite_is_reported_and_spoils_no_other() {
    for (device, backend) in devices().into_iter().chain(as_gpus()) {
        let m = 49;
        let (together, _) = mixed_heads(m);
        let (clean, _) = invert(backend.as_ref(), newton_schulz::Params::default(), &together);
        let mut spoilt = together.to_f32();
        for (i, j) in [(0, 7), (7, 0)] {
            spoilt[(m * m + i * m + j) as usize] = f32::NAN;
        }
        let spoilt = HostTensor::f32(together.shape(), spoilt).expect("three matrices");
        let (x, status) = invert(backend.as_ref(), newton_schulz::Params::default(), &spoilt);
        let size = (m * m) as usize;
        assert!(x[..size] == clean[..size] && x[2 * size..] == clean[2 * size..], "{device}");
        assert_eq!([status[3], status[7], status[11]], [0.0, 3.0, 0.0], "{device}: {status:?}");
    }
}

#[test]
fn small_workgroup_memory_sends_small_matrices_through_products() {
    let (a, stored) = (Stored::read("ns_m49_mid").matrix(), Stored::read("ns_m49_mid"));
    for (name, adapter) in support::adapters_by_name() {
        for (bytes, first) in [(8 << 10, "newton_schulz_start"), (16 << 10, "newton_schulz_workgroup")] {
            let options =
                Options { driver: Some(Driver::Gpu), workgroup_bytes: Some(bytes), ..Options::default() };
            let backend = WgpuBackend::on_adapter(&adapter, options).expect("the adapter gives a device");
            let mut graph = Graph::new("inverse");
            let input = graph.input("a", a.shape(), DType::F32);
            let params = newton_schulz::Params { epsilon: stored.number("eps") as f32, ..Default::default() };
            let (x, _) = newton_schulz::record(&mut graph, "x", input, params).expect("a square matrix");
            graph.output(x).expect("a transient");
            let mut program = backend.compile(&graph).expect("the graph compiles");
            assert_eq!(program.schedule().steps[0].kernel.name, first, "{bytes} bytes on {name}");
            program.write(input, &a).expect("the matrix fits");
            program.run().expect("the graph runs");
            let error = deviation(&program.read(x).expect("an output").to_f64(), &stored.numbers("X"));
            assert!(error <= 4e-6, "{bytes} bytes on {name}: {error:e}");
        }
    }
}

#[test]
fn epsilon_may_change_while_the_number_of_steps_stays() {
    let (a, _) = mixed_heads(20);
    for (device, backend) in devices() {
        let mut graph = Graph::new("inverse");
        let input = graph.input("a", a.shape(), DType::F32);
        let x = graph.transient("x", a.shape(), DType::F32);
        let params = |epsilon| newton_schulz::Params { epsilon, ..Default::default() };
        let pass = graph
            .pass(&newton_schulz::SPEC, &params(1e-3), &[Some(input), Some(x), None])
            .expect("a square matrix");
        graph.output(x).expect("a transient");
        let mut program = backend.compile(&graph).expect("the graph compiles");
        program.set_params(pass, &params(1.01e-3)).unwrap_or_else(|e| panic!("{device}: {e}"));
        let far = program.set_params(pass, &params(0.5));
        assert_eq!(
            far.is_err(),
            device != "cpu",
            "another number of steps needs another schedule on {device}"
        );
    }
}

#[test]
fn large_equal_landmarks_get_ten_times_epsilon_and_say_so() {
    // 256 equal landmarks: the condition number 256/ε is past what f32 inverts to 1e-2 at ε = 0.03, and within at 10 ε.
    let (m, epsilon) = (256_u32, 0.03_f32);
    let entries = (0..m * m).map(|i| if i % (m + 1) == 0 { 1.0 + epsilon } else { 1.0 }).collect();
    let a = HostTensor::f32([1, 1, m, m], entries).expect("the size fits");
    let params = newton_schulz::Params { epsilon, ..Default::default() };
    for (name, device) in devices().into_iter().filter(|(name, _)| name != "cpu") {
        let (x, status) = invert(device.as_ref(), params, &a);
        assert_eq!(status[3], 2.0, "{name}: {status:?}");
        assert!(status[0] <= 1e-2, "{name}: {status:?}");
        // (1 1ᵀ + s I)⁻¹ = (I − 1 1ᵀ/(m + s))/s with s = 10 ε.
        let shift = 10.0 * f64::from(epsilon);
        let expected = |i: usize| {
            let unit = if i.is_multiple_of(m as usize + 1) { 1.0 } else { 0.0 };
            (unit - 1.0 / (f64::from(m) + shift)) / shift
        };
        let worst = x.iter().enumerate().map(|(i, v)| (v - expected(i)).abs()).fold(0.0, f64::max);
        assert!(worst * shift <= 1e-2, "{name}: off by {worst}");
    }
}
