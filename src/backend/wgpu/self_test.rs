//! Does this driver compute what it should? Four small graphs with known answers, run once per driver and version.
//!
//! Drivers have been seen to drop barriers, to lose the sum of 1 to 64, and to end loops early. The answers here are
//! whole numbers below 2²⁴, so every correct device gives them exactly, in whatever order it sums.
//!
//! A pass is remembered in the user's cache folder, keyed by adapter, driver with its version and our version, so that
//! start stays quick. A failure is never remembered: the next start looks again.

use super::{Backend, WgpuBackend};
use crate::backend::DeviceInfo;
use crate::backend::cache::{cache_folder, hash};
use crate::error::{Error, Result};
use crate::graph::Graph;
use crate::kernel::{KernelParams as _, KernelSpec};
use crate::kernels::linalg::{matmul, reduce_sum, scan, transpose};
use crate::tensor::{DType, HostTensor, Shape};
use std::path::Path;

/// Why an adapter must not be used.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SelfTestFailure {
    /// A wrong number.
    #[error(
        "{device}: self-test `{check}`: element {index} is {got}, expected {expected}; this driver computes wrongly: \
         update it or choose another adapter"
    )]
    Wrong {
        /// The adapter.
        device: String,
        /// `sum`, `scan`, `transpose` or `matmul`.
        check: &'static str,
        /// First wrong element.
        index: usize,
        /// What it must be.
        expected: f64,
        /// What it is.
        got: f64,
    },
    /// The driver refused.
    #[error("{device}: self-test `{check}`: {error}")]
    Refused {
        /// The adapter.
        device: String,
        /// `sum`, `scan`, `transpose` or `matmul`.
        check: &'static str,
        /// What it said.
        #[source]
        error: Box<Error>,
    },
}

/// A graph with its known answer.
struct Check {
    name: &'static str,
    kernel: &'static KernelSpec,
    params: Vec<u8>,
    /// Shape and numbers per input; the output is the last port, and ports between are left out.
    inputs: Vec<(Shape, Vec<f32>)>,
    out: Shape,
    expected: Vec<f64>,
}

fn whole_numbers(count: u32, number: impl Fn(u32) -> i32) -> Vec<f32> {
    (0..count).map(|i| number(i) as f32).collect()
}

fn checks() -> Vec<Check> {
    let (rows, cols) = (33_u32, 17_u32);
    let (n, k, p) = (17_u32, 33_u32, 65_u32);
    let left = |i: u32, t: u32| ((7 * i + 3 * t) % 11) as i32 - 5;
    let right = |t: u32, j: u32| ((5 * t + 2 * j) % 13) as i32 - 6;
    let entry = |at: u32| (0..k).map(|t| left(at / p, t) * right(t, at % p)).sum::<i32>();
    vec![
        Check {
            name: "sum",
            kernel: &reduce_sum::SPEC,
            params: Vec::new(),
            inputs: vec![([1, 1, 64].into(), whole_numbers(64, |i| i as i32 + 1))],
            out: [1, 1, 1].into(),
            expected: vec![2080.0],
        },
        Check {
            name: "scan",
            kernel: &scan::SPEC,
            params: Vec::new(),
            inputs: vec![([1, 1, 300].into(), whole_numbers(300, |i| i as i32 + 1))],
            out: [1, 1, 300].into(),
            expected: (1..=300).map(|i| f64::from(i * (i + 1) / 2)).collect(),
        },
        Check {
            name: "transpose",
            kernel: &transpose::SPEC,
            params: Vec::new(),
            inputs: vec![([1, 1, rows, cols].into(), whole_numbers(rows * cols, |at| at as i32))],
            out: [1, 1, cols, rows].into(),
            expected: (0..rows * cols).map(|at| f64::from(at % rows * cols + at / rows)).collect(),
        },
        Check {
            name: "matmul",
            kernel: &matmul::SPEC,
            params: matmul::Params::default().to_bytes(),
            inputs: vec![
                ([1, 1, n, k].into(), whole_numbers(n * k, |at| left(at / k, at % k))),
                ([1, 1, k, p].into(), whole_numbers(k * p, |at| right(at / p, at % p))),
            ],
            out: [1, 1, n, p].into(),
            expected: (0..n * p).map(|at| f64::from(entry(at))).collect(),
        },
    ]
}

fn answer(backend: &dyn Backend, check: &Check) -> Result<Vec<f64>> {
    let mut graph = Graph::new(format!("self-test: {}", check.name));
    let inputs: Vec<_> = check.inputs.iter().map(|(shape, _)| graph.input("x", *shape, DType::F32)).collect();
    let out = graph.transient("out", check.out, DType::F32);
    let mut args: Vec<_> = inputs.iter().copied().map(Some).collect();
    args.resize(check.kernel.ports.len() - 1, None);
    args.push(Some(out));
    graph.pass_bytes(check.kernel, &check.params, &args)?;
    graph.output(out)?;
    let mut program = backend.compile(&graph)?;
    for (tensor, (shape, numbers)) in inputs.iter().zip(&check.inputs) {
        program.write(*tensor, &HostTensor::f32(*shape, numbers.clone())?)?;
    }
    program.run()?;
    Ok(program.read(out)?.to_f64())
}

/// Runs all checks, whatever the cache says. `observe` sees, and may change, every answer before it is judged: tests
/// inject their faults there.
///
/// Errors: the first check that fails.
pub fn run_checks(
    backend: &dyn Backend,
    observe: &mut dyn FnMut(&'static str, &mut Vec<f64>),
) -> std::result::Result<(), SelfTestFailure> {
    for check in checks() {
        let (device, name) = (backend.info().name, check.name);
        let mut got = answer(backend, &check).map_err(|error| SelfTestFailure::Refused {
            device: device.clone(),
            check: name,
            error: Box::new(error),
        })?;
        observe(name, &mut got);
        got.resize(check.expected.len(), f64::NAN);
        let wrong = got.iter().zip(&check.expected).position(|(got, expected)| got != expected);
        if let Some(index) = wrong {
            let (expected, got) = (check.expected[index], got[index]);
            return Err(SelfTestFailure::Wrong { device, check: name, index, expected, got });
        }
    }
    Ok(())
}

/// Tests a device, unless this driver passed before.
///
/// Errors: the first check that fails.
pub fn self_test(backend: &WgpuBackend) -> std::result::Result<(), SelfTestFailure> {
    self_test_in(cache_folder().as_deref(), backend, &mut |_, _| {})
}

/// [`self_test`] with the folder that remembers passes (`None`: nothing is remembered) and an observer as in
/// [`run_checks`]. A file that cannot be read, or does not say exactly what it should, counts as absent; one that cannot be
/// written costs the next start the time of the test and nothing else.
///
/// Errors: the first check that fails.
pub fn self_test_in(
    folder: Option<&Path>,
    backend: &dyn Backend,
    observe: &mut dyn FnMut(&'static str, &mut Vec<f64>),
) -> std::result::Result<(), SelfTestFailure> {
    let record = record(&backend.info());
    let file = folder.map(|f| f.join(file_name(&record)));
    if file.as_ref().is_some_and(|f| std::fs::read_to_string(f).is_ok_and(|text| text == record)) {
        return Ok(());
    }
    run_checks(backend, observe)?;
    if let (Some(folder), Some(file)) = (folder, file) {
        // Another process may be writing the same words; either's file is right.
        let partial = file.with_extension(format!("{}.partial", std::process::id()));
        let written = std::fs::create_dir_all(folder)
            .and_then(|()| std::fs::write(&partial, &record))
            .and_then(|()| std::fs::rename(&partial, &file));
        if written.is_err() {
            let _ = std::fs::remove_file(&partial);
        }
    }
    Ok(())
}

/// What the file of a passed test says.
fn record(info: &DeviceInfo) -> String {
    format!(
        "wgattn self-test passed\nadapter: {}\nbackend: {}\ndriver: {}\nversion: {}\n",
        info.name,
        info.backend,
        info.driver,
        env!("CARGO_PKG_VERSION")
    )
}

/// A name for the file: the record's FNV-1a hash.
fn file_name(record: &str) -> String {
    let hash = hash([record]);
    format!("self-test-{hash:016x}.txt")
}
