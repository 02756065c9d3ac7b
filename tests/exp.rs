//! The shared `exp_accurate` on every adapter against f64: drivers' own exponentials err by up to 65 ULP.

use wgattn::backend::Program as _;
use wgattn::backend::wgpu::{Options, WgpuBackend};
use wgattn::graph::Graph;
use wgattn::kernels::elementwise::exp_scale;
use wgattn::tensor::{DType, HostTensor};

mod support;

fn main() {
    let args = libtest_mimic::Arguments::from_args();
    let trials = support::trials(&[
        ("exp_of_negative_numbers_is_within_two_ulp", |b| within_two_ulp(b, -87.0, 0.0)),
        ("exp_of_positive_numbers_is_within_two_ulp", |b| within_two_ulp(b, 0.0, 88.0)),
        ("exp_is_finite_and_accurate_up_to_the_largest_number", |b| within_two_ulp(b, 88.0, 88.72)),
        ("exp_below_the_normal_range_is_zero_or_true", tail_is_zero_or_true),
        ("exp_of_huge_arguments_is_finite", huge_arguments),
        ("bandwidths_stay_with_their_heads_across_windows", |b| {
            across_windows(b).map_err(|e| e.to_string())?
        }),
    ]);
    libtest_mimic::run(&args, trials).exit();
}

const POINTS: usize = 20_000;

fn points(low: f64, high: f64) -> Vec<f32> {
    (0..POINTS).map(|i| (low + (high - low) * i as f64 / (POINTS - 1) as f64) as f32).collect()
}

/// e^x of each number: `exp_scale` with λ = 1 and the sign turned round.
fn exp(backend: &WgpuBackend, x: &[f32]) -> Result<Vec<f32>, wgattn::Error> {
    let mut graph = Graph::new("exp");
    let distances = graph.input("x", [1, 1, 1, x.len() as u32], DType::F32);
    let lambda = graph.constant("lambda", HostTensor::f32([1], vec![1.0])?);
    let out = exp_scale::record(&mut graph, "out", distances, lambda)?;
    graph.output(out)?;
    let mut program = backend.prepare(&graph)?;
    program.write(distances, &HostTensor::f32(distances.shape(), x.iter().map(|x| -x).collect())?)?;
    program.run()?;
    Ok(program.read(out)?.to_f32())
}

/// Distance to the next f32 above a normal number.
fn ulp(x: f64) -> f64 {
    f64::from(f32::from_bits((x as f32).to_bits() + 1)) - f64::from(x as f32)
}

fn within_two_ulp(backend: &WgpuBackend, low: f64, high: f64) -> Result<(), String> {
    let x = points(low, high);
    let got = exp(backend, &x).map_err(|e| e.to_string())?;
    let mut worst = (0.0, 0);
    for (i, (&x, &y)) in x.iter().zip(&got).enumerate() {
        let truth = f64::from(x).exp();
        let error = (f64::from(y) - truth).abs() / ulp(truth.min(3.0e38));
        if error.is_nan() || error > worst.0 {
            worst = (error, i);
        }
    }
    let (error, i) = worst;
    println!("{}: {error:.3} ULP at {}", wgattn::backend::Backend::info(backend).name, x[i]);
    if error <= 2.0 {
        return Ok(());
    }
    Err(format!(
        "{error:.3} ULP at point {i}, x = {:e}: got {:e}, expected {:e}",
        x[i],
        got[i],
        f64::from(x[i]).exp()
    ))
}

/// Devices may flush subnormal numbers, so 0 is right where the true value is one.
fn tail_is_zero_or_true(backend: &WgpuBackend) -> Result<(), String> {
    let x = points(-103.0, -87.34);
    let got = exp(backend, &x).map_err(|e| e.to_string())?;
    for (&x, &y) in x.iter().zip(&got) {
        let truth = f64::from(x).exp();
        if y != 0.0 && (f64::from(y) - truth).abs() > f64::from(f32::from_bits(2)) {
            return Err(format!("x = {x:e}: got {y:e}, expected 0 or {truth:e}"));
        }
    }
    Ok(())
}

fn huge_arguments(backend: &WgpuBackend) -> Result<(), String> {
    let got = exp(backend, &[1e4, f32::MAX, -1e4, f32::MIN, -0.0]).map_err(|e| e.to_string())?;
    let large = got[0].is_finite() && got[1].is_finite() && got[0] > 3e38 && got[1] > 3e38;
    if large && got[2..] == [0.0, 0.0, 1.0] { Ok(()) } else { Err(format!("got {got:?}")) }
}

/// Windows of heads, and of rows within a head, against the same work in one piece.
fn across_windows(backend: &WgpuBackend) -> Result<Result<(), String>, wgattn::Error> {
    let mut graph = Graph::new("windows");
    let x = graph.input("x", [2, 3, 300, 50], DType::F32);
    let lambda = graph.constant("lambda", HostTensor::f32([3], vec![0.5, 1.0, 2.0])?);
    let out = exp_scale::record(&mut graph, "out", x, lambda)?;
    graph.output(out)?;
    let numbers = (0..x.shape().len()).map(|i| (i % 977) as f32 / 100.0).collect();
    let input = HostTensor::f32(x.shape(), numbers)?;
    let mut results = Vec::new();
    for (binding, dispatches) in [(1 << 27, 1), (130_000, 3), (20_000, 24)] {
        let options = Options { storage_binding: Some(binding), ..Options::default() };
        let small = WgpuBackend::with_options(backend.device().clone(), backend.queue().clone(), options)?;
        let mut program = small.prepare(&graph)?;
        if program.dispatches() < dispatches {
            let (got, wanted) = (program.dispatches(), dispatches);
            return Ok(Err(format!(
                "{got} dispatches with bindings of {binding} bytes, expected at least {wanted}"
            )));
        }
        program.write(x, &input)?;
        program.run()?;
        results.push(program.read(out)?);
    }
    let equal = results.iter().all(|r| *r == results[0]);
    Ok(if equal { Ok(()) } else { Err("windows change the result".into()) })
}
