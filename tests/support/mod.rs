//! What several test programs share: the adapters of this machine by the names the tests use.
#![allow(dead_code, reason = "each test program uses a part of this")]

use libtest_mimic::{Failed, Trial};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, OnceLock};
use wgattn::attention::{Attention, Landmarks, Masks, Qkv};
use wgattn::backend::wgpu::{Options, WgpuBackend, adapters};
use wgattn::backend::{Backend, Program, cpu::CpuBackend};
use wgattn::graph::{Graph, PassId};
use wgattn::kernels::attention::exact_attention;
use wgattn::kernels::laplacian::nystrom_attention;
use wgattn::tensor::{DType, HostTensor, Shape, Tensor};

/// Software adapters the suite is meant to run on.
pub(crate) const EXPECTED: [&str; 3] = ["lavapipe", "swiftshader", "gl"];

/// Name of an adapter for tests: one of [`EXPECTED`], or `gpu` with its index.
pub(crate) fn test_name(index: usize, info: &wgpu::AdapterInfo) -> String {
    let name = info.name.to_lowercase();
    match info.backend {
        wgpu::Backend::Gl => "gl".into(),
        _ if name.contains("llvmpipe") => "lavapipe".into(),
        _ if name.contains("swiftshader") => "swiftshader".into(),
        backend => format!("gpu{index}-{}", backend.to_str()),
    }
}

/// Every adapter of this machine with its test name; `WGATTN_TEST_ADAPTERS` (a list of names) narrows it.
pub(crate) fn adapters_by_name() -> Vec<(String, wgpu::Adapter)> {
    let wanted = std::env::var("WGATTN_TEST_ADAPTERS").ok();
    let named = adapters().into_iter().enumerate().map(|(i, a)| (test_name(i, &a.get_info()), a));
    let mut list: Vec<(String, wgpu::Adapter)> = Vec::new();
    for (name, adapter) in named {
        let asked = wanted.as_ref().is_none_or(|w| w.split(',').any(|x| x == name));
        if asked && list.iter().all(|(n, _)| *n != name) {
            list.push((name, adapter));
        }
    }
    list
}

/// Expected adapters that are not there.
pub(crate) fn missing_adapters(found: &[(String, wgpu::Adapter)]) -> Vec<String> {
    EXPECTED.iter().filter(|e| found.iter().all(|(n, _)| n != *e)).map(ToString::to_string).collect()
}

/// Whether the environment says that an adapter must be there.
pub(crate) fn required(name: &str) -> bool {
    std::env::var("WGATTN_REQUIRE_ADAPTERS").is_ok_and(|list| list.split(',').any(|x| x == name))
}

/// A backend on every adapter of this machine.
pub(crate) fn backends() -> Vec<(String, WgpuBackend)> {
    let open = |(name, adapter): (String, wgpu::Adapter)| {
        let backend =
            WgpuBackend::on_adapter(&adapter, Options::default()).expect("the adapter gives a device");
        (name, backend)
    };
    adapters_by_name().into_iter().map(open).collect()
}

/// The CPU and every adapter of this machine, opened once.
pub(crate) fn devices() -> &'static [(String, Arc<dyn Backend>)] {
    static DEVICES: OnceLock<Vec<(String, Arc<dyn Backend>)>> = OnceLock::new();
    DEVICES.get_or_init(|| {
        let adapters = backends().into_iter().map(|(name, b)| (name, Arc::new(b) as Arc<dyn Backend>));
        std::iter::once(("cpu".into(), Arc::new(CpuBackend) as Arc<dyn Backend>)).chain(adapters).collect()
    })
}

/// A test on a backend, and what went wrong.
pub(crate) type OnBackend = fn(&WgpuBackend) -> Result<(), String>;

/// One trial per test and adapter; an adapter that this machine lacks is ignored with the reason, or fails where the
/// environment requires it.
pub(crate) fn trials(tests: &[(&str, OnBackend)]) -> Vec<Trial> {
    let found = adapters_by_name();
    let mut trials = Vec::new();
    for (device, adapter) in &found {
        let backend =
            WgpuBackend::on_adapter(adapter, Options::default()).expect("the adapter gives a device");
        for &(name, test) in tests {
            let backend = backend.clone();
            trials
                .push(Trial::test(format!("{name}::{device}"), move || test(&backend).map_err(Failed::from)));
        }
    }
    for missing in missing_adapters(&found) {
        let reason = format!("no {missing} adapter on this machine");
        trials.push(absent(&format!("adapter::{missing}"), &reason, required(&missing)));
    }
    trials
}

/// A test that makes its own devices on an adapter, and what went wrong.
pub(crate) type OnAdapter = fn(&wgpu::Adapter) -> Result<(), Failed>;

/// [`trials`] of tests that make their own devices.
pub(crate) fn adapter_trials(tests: &[(&str, OnAdapter)]) -> Vec<Trial> {
    let found = adapters_by_name();
    let mut trials = Vec::new();
    for (device, adapter) in &found {
        for &(name, test) in tests {
            let adapter = adapter.clone();
            trials.push(Trial::test(format!("{name}::{device}"), move || test(&adapter)));
        }
    }
    for missing in missing_adapters(&found) {
        let reason = format!("no {missing} adapter on this machine");
        trials.push(absent(&format!("adapter::{missing}"), &reason, required(&missing)));
    }
    trials
}

/// A device as the humblest host asks for it: no features and default limits, less where the adapter has less.
pub(crate) fn humble_device(adapter: &wgpu::Adapter) -> Result<(wgpu::Device, wgpu::Queue), Failed> {
    let limits = wgpu::Limits::default().or_worse_values_from(&adapter.limits());
    device_with(adapter, wgpu::Features::empty(), limits)
}

/// A device with these features and limits.
pub(crate) fn device_with(
    adapter: &wgpu::Adapter,
    required_features: wgpu::Features,
    required_limits: wgpu::Limits,
) -> Result<(wgpu::Device, wgpu::Queue), Failed> {
    let descriptor =
        wgpu::DeviceDescriptor { required_features, required_limits, ..wgpu::DeviceDescriptor::default() };
    Ok(pollster::block_on(adapter.request_device(&descriptor))?)
}

/// Numbers in [−1, 1) from a seed.
pub(crate) fn random(seed: u32, shape: impl Into<Shape>) -> HostTensor {
    let shape = shape.into();
    let mut state = u64::from(seed) + 1;
    let next = |_| {
        state = state.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
        (state >> 40) as f32 / (1 << 23) as f32 - 1.0
    };
    HostTensor::f32(shape, (0..shape.len()).map(next).collect()).expect("one number per element")
}

/// Says where two results differ by more than `allowed` of the largest expected number, if they do.
pub(crate) fn close(what: &str, got: &HostTensor, expected: &HostTensor, allowed: f64) -> Result<(), Failed> {
    let (got, expected) = (got.to_f64(), expected.to_f64());
    if got.len() != expected.len() {
        return Err(format!("{what}: {} numbers, expected {}", got.len(), expected.len()).into());
    }
    let largest = expected.iter().fold(0.0_f64, |m, x| m.max(x.abs()));
    let gap = |i: &usize| (got[*i] - expected[*i]).abs();
    let worse = |a: &usize, b: &usize| gap(a).total_cmp(&gap(b));
    // NaN is never within.
    let within = |i: &usize| gap(i) <= allowed * largest;
    match (0..got.len()).max_by(worse) {
        Some(i) if !within(&i) => Err(format!(
            "{what}: element {i} is {:e}, expected {:e}; allowed {allowed:e} of the largest, {largest:e}",
            got[i], expected[i]
        )
        .into()),
        _ => Ok(()),
    }
}

/// Attention over random tokens: what the tests of embedding and limits run.
pub(crate) struct Sample {
    /// The recording.
    pub(crate) graph: Graph,
    /// Its inputs with their numbers.
    pub(crate) inputs: Vec<(Tensor, HostTensor)>,
    /// Its output.
    pub(crate) out: Tensor,
    /// The attention pass.
    pub(crate) pass: PassId,
}

impl Sample {
    /// Nyström attention over one batch of `[heads, n, d]` tokens on a grid of one row.
    pub(crate) fn nystrom(attention: &Attention, heads: u32, n: u32, d: u32) -> wgattn::Result<Self> {
        let mut graph = Graph::new("nystrom");
        let [q, k, v] = ["q", "k", "v"].map(|name| graph.input(name, [1, heads, n, d], DType::F32));
        let lambda = graph.input("lambda", [heads], DType::F32);
        let qkv = Qkv { q, k, v, lambda, grid: (1, n) };
        let attended = attention.record(&mut graph, qkv, Masks::default())?;
        graph.output(attended.out)?;
        Ok(Self { graph, inputs: numbers(&[q, k, v], lambda, d), out: attended.out, pass: attended.pass })
    }

    /// The same with the first 32 keys of each head as landmarks that the caller gives.
    pub(crate) fn nystrom_given(attention: &Attention, heads: u32, n: u32, d: u32) -> wgattn::Result<Self> {
        let mut graph = Graph::new("nystrom of given landmarks");
        let [q, k, v] = ["q", "k", "v"].map(|name| graph.input(name, [1, heads, n, d], DType::F32));
        let lambda = graph.input("lambda", [heads], DType::F32);
        let landmarks = graph.input("landmarks", [1, heads, 32, d], DType::F32);
        let out = graph.transient("out", [1, heads, n, d], DType::F32);
        let status = graph.transient("status", [1, heads, 4], DType::F32);
        let given = [Some(q), Some(k), Some(v), Some(landmarks), None, None, Some(lambda), None, None];
        let args = [&given[..], &[Some(out), Some(status)]].concat();
        let pass = graph.pass(&nystrom_attention::SPEC, &attention.params(), &args)?;
        graph.output(out)?;
        let mut inputs = numbers(&[q, k, v], lambda, d);
        let head = (n * d) as usize;
        let keys = inputs[1].1.to_f32();
        let first = keys.chunks(head).flat_map(|k| &k[..32 * d as usize]).copied().collect();
        inputs.push((landmarks, HostTensor::f32(landmarks.shape(), first)?));
        Ok(Self { graph, inputs, out, pass })
    }

    /// Exact Laplacian attention of the same shape: 0 divided by the sum of each row, 1 not.
    pub(crate) fn exact(normalise: u32, heads: u32, n: u32, d: u32) -> wgattn::Result<Self> {
        let mut graph = Graph::new("exact");
        let [q, k, v] = ["q", "k", "v"].map(|name| graph.input(name, [1, heads, n, d], DType::F32));
        let lambda = graph.input("lambda", [heads], DType::F32);
        let out = graph.transient("out", [1, heads, n, d], DType::F32);
        let params = exact_attention::Params { scale: 1.0, metric: 1, normalise };
        let args = [Some(q), Some(k), Some(v), Some(lambda), None, None, None, Some(out), None];
        let pass = graph.pass(&exact_attention::SPEC, &params, &args)?;
        graph.output(out)?;
        Ok(Self { graph, inputs: numbers(&[q, k, v], lambda, d), out, pass })
    }

    /// Rows of the approximate map of the first two tokens.
    pub(crate) fn map(heads: u32, n: u32, d: u32) -> wgattn::Result<Self> {
        let mut graph = Graph::new("map");
        let k = graph.input("k", [1, heads, n, d], DType::F32);
        let queries = graph.input("queries", [1, heads, 2, d], DType::F32);
        let lambda = graph.input("lambda", [heads], DType::F32);
        let grid = (1, n);
        let map = segments().record_map(&mut graph, queries, (k, k), lambda, grid, Masks::default())?;
        graph.output(map.out)?;
        Ok(Self { graph, inputs: numbers(&[k, queries], lambda, d), out: map.out, pass: map.pass })
    }

    /// Gives a program all its inputs.
    pub(crate) fn write(&self, program: &mut dyn Program) -> wgattn::Result<()> {
        self.inputs.iter().try_for_each(|(tensor, data)| program.write(*tensor, data))
    }

    /// Compiles, runs and reads on a backend.
    pub(crate) fn result(&self, backend: &dyn Backend) -> wgattn::Result<HostTensor> {
        let mut program = backend.compile(&self.graph)?;
        self.write(program.as_mut())?;
        program.run()?;
        program.read(self.out)
    }
}

/// Nyström attention with 32 segment means: any number of tokens from 32.
pub(crate) fn segments() -> Attention {
    Attention { landmarks: Landmarks::Segments { count: 32 }, ..Attention::default() }
}

fn numbers(tensors: &[Tensor], lambda: Tensor, d: u32) -> Vec<(Tensor, HostTensor)> {
    // The mean distance of two random tokens is 2d/3, so kernel values are about e^−1.3.
    let bandwidth = 0.5 * d as f32;
    let heads = lambda.dim(0) as usize;
    let widths = HostTensor::f32(lambda.shape(), vec![bandwidth; heads]).expect("one bandwidth per head");
    let random = |(seed, tensor): (usize, &Tensor)| (*tensor, random(seed as u32, tensor.shape()));
    tensors.iter().enumerate().map(random).chain([(lambda, widths)]).collect()
}

/// A test that cannot run here: ignored with the reason, or failed where it must run.
pub(crate) fn absent(name: &str, reason: &str, required: bool) -> Trial {
    let reason = reason.to_string();
    Trial::ignorable_test(name, move || {
        if required { Err(Failed::from(reason)) } else { Ok(libtest_mimic::Completion::ignored_with(reason)) }
    })
}

/// What drives a browser.
pub(crate) fn browser_scripts() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("scripts/webgpu")
}

/// Node.js, as the environment names it.
pub(crate) fn node() -> String {
    std::env::var("NODE").ok().filter(|n| !n.is_empty()).unwrap_or_else(|| "node".into())
}

/// Whether the environment says that a browser must be there.
pub(crate) fn browser_required() -> bool {
    let on = |name: &str| std::env::var(name).is_ok_and(|v| !["", "0", "false"].contains(&v.as_str()));
    on("CI") || on("WGATTN_REQUIRE_BROWSER")
}

/// Why no browser can be driven here.
pub(crate) fn browser_absent() -> Option<String> {
    if !browser_scripts().join("check.mjs").is_file() {
        return Some("no scripts/webgpu/check.mjs in this package".into());
    }
    if !Command::new(node()).arg("--version").output().is_ok_and(|o| o.status.success()) {
        return Some("no Node.js; install nodejs or set NODE".into());
    }
    let in_path = |name: &str| {
        let path = std::env::var_os("PATH").unwrap_or_default();
        std::env::split_paths(&path).any(|folder| folder.join(name).is_file())
    };
    let named = std::env::var("CHROMIUM").is_ok_and(|c| Path::new(&c).is_file());
    if !named && !["chromium", "chromium-browser", "google-chrome"].into_iter().any(in_path) {
        return Some("no browser; install chromium or set CHROMIUM".into());
    }
    let missing = !browser_scripts().join("node_modules/playwright-core").is_dir();
    missing.then(|| "no playwright-core; run `npm ci` in scripts/webgpu".into())
}
