//! Work that exceeds a limit is cut, or refused with the numbers: with shrunken limits rather than huge data.

use libtest_mimic::{Arguments, Failed};
use support::{Sample, close, humble_device, random, segments};
use wgattn::Error;
use wgattn::attention::{Attention, Landmarks, Masks, Normalisation, Qkv};
use wgattn::backend::cpu::CpuBackend;
use wgattn::backend::wgpu::{Options, WgpuBackend};
use wgattn::backend::{Backend, Program};
use wgattn::graph::Graph;
use wgattn::kernels::attention::exact_attention;
use wgattn::kernels::linalg::row_affine::{self, Rows};
use wgattn::tensor::{DType, HostTensor, Tensor};

mod support;

/// A result in other windows differs by the order of its sums alone: some hundred roundings of the largest number.
const OTHER_ORDER: f64 = 256.0 * f32::EPSILON as f64;

const NORMALISATIONS: [Normalisation; 5] = [
    Normalisation::None,
    Normalisation::Row,
    Normalisation::Col,
    Normalisation::Cheap,
    Normalisation::Softpp,
];

fn main() {
    let args = Arguments::from_args();
    let trials = support::adapter_trials(&[
        ("bindings_of_1_mib_give_the_same_attention", mebibyte_bindings),
        ("bindings_smaller_than_a_head_give_the_same_attention", windows_of_tokens),
        ("a_head_too_large_to_pool_names_the_limit", pooling_names_the_limit),
        ("8_kib_of_workgroup_memory_give_the_same_attention", little_workgroup_memory),
        ("no_workgroup_memory_gives_the_same_or_names_the_limit", no_workgroup_memory),
        ("more_than_65535_groups_are_folded", folded_groups),
        ("no_tokens_at_all_is_no_error", no_tokens),
        ("seventy_thousand_heads_of_one_token", many_heads),
        ("default_limits_carry_32768_tokens_of_8_heads", default_limits),
        ("a_slice_that_cannot_fit_is_an_error_with_numbers_and_a_remedy", error_text),
        ("memory_at_262144_tokens_is_bounded", memory_of_many_tokens),
        ("slices_of_a_hosts_buffer_may_begin_anywhere", odd_offsets),
    ]);
    libtest_mimic::run(&args, trials).exit();
}

fn ensure(holds: bool, what: impl Into<String>) -> Result<(), Failed> {
    if holds { Ok(()) } else { Err(what.into().into()) }
}

/// One device with its own limits, and the same with smaller ones.
fn both(adapter: &wgpu::Adapter, options: Options) -> Result<(WgpuBackend, WgpuBackend), Failed> {
    let whole = WgpuBackend::on_adapter(adapter, Options::default())?;
    let shrunken = WgpuBackend::with_options(whole.device().clone(), whole.queue().clone(), options)?;
    Ok((whole, shrunken))
}

fn nystrom_of_every_normalisation(heads: u32, n: u32, d: u32) -> wgattn::Result<Vec<(String, Sample)>> {
    let sample = |normalisation| {
        let attention = Attention { normalisation, zs: Some(1.0), ..segments() };
        Ok((format!("Nyström {normalisation:?}"), Sample::nystrom(&attention, heads, n, d)?))
    };
    NORMALISATIONS.into_iter().map(sample).collect()
}

fn same_with(adapter: &wgpu::Adapter, options: Options, samples: &[(String, Sample)]) -> Result<(), Failed> {
    let (whole, shrunken) = both(adapter, options)?;
    for (name, sample) in samples {
        let expected = sample.result(&whole)?;
        let got = sample.result(&shrunken).map_err(|e| format!("{name}: {e}"))?;
        close(name, &got, &expected, OTHER_ORDER)?;
    }
    Ok(())
}

fn mebibyte_bindings(adapter: &wgpu::Adapter) -> Result<(), Failed> {
    // q, k, v and out are 2 MiB each, so at most three of the eight heads fit a binding.
    let mut samples = nystrom_of_every_normalisation(8, 2048, 32)?;
    samples.push(("exact sum".into(), Sample::exact(0, 8, 2048, 32)?));
    samples.push(("map".into(), Sample::map(8, 2048, 32)?));
    let options = || Options { storage_binding: Some(1 << 20), ..Options::default() };
    let (whole, shrunken) = both(adapter, options())?;
    let dispatches =
        |backend: &WgpuBackend| Ok::<_, Failed>(backend.prepare(&samples[0].1.graph)?.dispatches());
    ensure(dispatches(&shrunken)? > dispatches(&whole)?, "nothing was cut, so the test proves nothing")?;
    same_with(adapter, options(), &samples)
}

/// Landmarks are an input here: pooling them needs a head's tokens in one binding, which the next test is about.
fn windows_of_tokens(adapter: &wgpu::Adapter) -> Result<(), Failed> {
    // A head of q is 256 KiB.
    let (heads, n, d) = (2, 2048, 32);
    let mut samples = Vec::new();
    for normalisation in NORMALISATIONS {
        let attention = Attention { normalisation, zs: Some(1.0), ..segments() };
        samples.push((format!("Nyström {normalisation:?}"), Sample::nystrom_given(&attention, heads, n, d)?));
    }
    samples.push(("exact sum".into(), Sample::exact(0, heads, n, d)?));
    samples.push(("exact none".into(), Sample::exact(1, heads, n, d)?));
    // Not less, because the reduction over tokens takes them 1024 at a time: 128 KiB.
    same_with(adapter, Options { storage_binding: Some(192 << 10), ..Options::default() }, &samples)
}

/// Landmarks are means over any tokens of a head, so a head's keys must fit one binding while they are made.
fn pooling_names_the_limit(adapter: &wgpu::Adapter) -> Result<(), Failed> {
    let (_, shrunken) = both(adapter, Options { storage_binding: Some(64 << 10), ..Options::default() })?;
    match Sample::nystrom(&segments(), 2, 2048, 32)?.result(&shrunken) {
        Err(Error::Limit { what, requested: 262_144, remedy, .. }) => {
            ensure(what.starts_with("pool_tokens") && !remedy.is_empty(), format!("{what}; {remedy}"))
        }
        other => Err(format!("{other:?} instead of an error about pool_tokens").into()),
    }
}

fn little_workgroup_memory(adapter: &wgpu::Adapter) -> Result<(), Failed> {
    let mut samples = nystrom_of_every_normalisation(2, 300, 32)?;
    samples.push(("exact".into(), Sample::exact(0, 2, 300, 32)?));
    samples.push(("map".into(), Sample::map(2, 300, 32)?));
    same_with(adapter, Options { workgroup_bytes: Some(8 << 10), ..Options::default() }, &samples)
}

fn no_workgroup_memory(adapter: &wgpu::Adapter) -> Result<(), Failed> {
    let (whole, shrunken) = both(adapter, Options { workgroup_bytes: Some(0), ..Options::default() })?;
    let mut samples = nystrom_of_every_normalisation(2, 300, 32)?;
    samples.push(("exact".into(), Sample::exact(0, 2, 300, 32)?));
    for (name, sample) in samples {
        match sample.result(&shrunken) {
            Ok(got) => close(&name, &got, &sample.result(&whole)?, OTHER_ORDER)?,
            Err(Error::Limit { what, requested, allowed: 0, .. }) => {
                let said = what.starts_with("workgroup memory of ") && requested > 0;
                ensure(said, format!("{name}: {what}, {requested}"))?;
            }
            Err(other) => return Err(format!("{name}: {other}").into()),
        }
    }
    Ok(())
}

/// out = x + 1 for `[1, heads, n, 1]`, through a kernel of one thread per element.
fn plus_one(heads: u32, n: u32) -> wgattn::Result<(Graph, Tensor, Tensor, Tensor)> {
    let mut graph = Graph::new("plus one");
    let x = graph.input("x", [1, heads, n, 1], DType::F32);
    let shift = graph.input("shift", [1, heads, 1], DType::F32);
    let out = row_affine::record(&mut graph, "out", x, Rows { shift: Some(shift), ..Rows::default() })?;
    graph.output(out)?;
    Ok((graph, x, shift, out))
}

fn run_plus_one(backend: &dyn Backend, heads: u32, n: u32) -> wgattn::Result<Vec<f32>> {
    let (graph, x, shift, out) = plus_one(heads, n)?;
    let mut program = backend.compile(&graph)?;
    // Whole numbers up to 2^24 are exact.
    program.write(x, &HostTensor::f32(x.shape(), (0..heads * n).map(|i| i as f32).collect())?)?;
    program.write(shift, &HostTensor::f32(shift.shape(), vec![-1.0; heads as usize])?)?;
    program.run()?;
    Ok(program.read(out)?.to_f32())
}

fn all_plus_one(got: &[f32], count: u32) -> Result<(), Failed> {
    ensure(got.len() == count as usize, format!("{} of {count} elements", got.len()))?;
    match got.iter().enumerate().find(|(i, x)| **x != (i + 1) as f32) {
        None => Ok(()),
        Some((i, x)) => Err(format!("element {i} is {x}").into()),
    }
}

/// One element more than 65 535 groups of 64 (case C01).
fn folded_groups(adapter: &wgpu::Adapter) -> Result<(), Failed> {
    let (device, queue) = humble_device(adapter)?;
    let n = 65_535 * 64 + 1;
    all_plus_one(&run_plus_one(&WgpuBackend::new(device, queue)?, 1, n)?, n)
}

fn no_tokens(adapter: &wgpu::Adapter) -> Result<(), Failed> {
    let (device, queue) = humble_device(adapter)?;
    let backend = WgpuBackend::new(device, queue)?;
    all_plus_one(&run_plus_one(&backend, 1, 0)?, 0)?;
    all_plus_one(&run_plus_one(&backend, 0, 5)?, 0)?;
    let empty = Sample::exact(0, 2, 0, 8)?.result(&backend)?;
    ensure(empty.shape().is_empty(), "attention of nothing is something")
}

fn many_heads(adapter: &wgpu::Adapter) -> Result<(), Failed> {
    let (device, queue) = humble_device(adapter)?;
    let backend = WgpuBackend::new(device, queue)?;
    all_plus_one(&run_plus_one(&backend, 70_000, 1)?, 70_000)?;
    // Each head's one query sees its one key, so the result is the value.
    let sample = Sample::exact(0, 70_000, 1, 4)?;
    close("one key", &sample.result(&backend)?, &sample.inputs[2].1, 1e-6)
}

/// Case C02: no buffer or binding over the limits of a device made with the defaults; n² numbers would be 4 GiB a head.
fn default_limits(adapter: &wgpu::Adapter) -> Result<(), Failed> {
    let (device, queue) = humble_device(adapter)?;
    let software_but_slow =
        !adapter.get_info().name.contains("llvmpipe") || adapter.get_info().backend == wgpu::Backend::Gl;
    let slow = software_but_slow && adapter.get_info().device_type != wgpu::DeviceType::DiscreteGpu;
    let backend = WgpuBackend::new(device.clone(), queue)?;
    let (heads, n, d, few) = (8, 32_768, 64, 16);
    // Queries by themselves, so that the reference needs only a few of them against all keys.
    let record = |queries: u32| -> wgattn::Result<(Graph, [Tensor; 4], Tensor)> {
        let mut graph = Graph::new("default limits");
        let q = graph.input("q", [1, heads, queries, d], DType::F32);
        let [k, v] = ["k", "v"].map(|name| graph.input(name, [1, heads, n, d], DType::F32));
        let lambda = graph.input("lambda", [heads], DType::F32);
        let qkv = Qkv { q, k, v, lambda, grid: (128, 256) };
        let attended = Attention::default().record(&mut graph, qkv, Masks::default())?;
        graph.output(attended.out)?;
        Ok((graph, [q, k, v, lambda], attended.out))
    };
    let (graph, inputs, out) = record(n)?;
    let mut program = backend.prepare(&graph)?;
    let limits = device.limits();
    for (info, bytes) in program.schedule().slots.iter().map(|s| ("transient", s.bytes)) {
        ensure(bytes <= limits.max_buffer_size, format!("{info} of {bytes} bytes"))?;
    }
    if slow {
        return Ok(()); // compiled within the limits; running it takes a minute here and shows nothing new
    }
    let values = |seed: u32, tensor: &Tensor| random(seed, tensor.shape());
    let [q, k, v] = [0, 1, 2].map(|i| values(i as u32, &inputs[i]));
    let lambda = HostTensor::f32([heads], vec![32.0; heads as usize])?;
    for (tensor, data) in inputs.iter().zip([&q, &k, &v, &lambda]) {
        program.write(*tensor, data)?;
    }
    program.run()?;
    let got = program.read(out)?.to_f32();

    let (graph, inputs, out) = record(few)?;
    let all = q.to_f32();
    let first = |all: &[f32]| -> wgattn::Result<HostTensor> {
        let head = (n * d) as usize;
        let part = |h: usize| all[h * head..][..(few * d) as usize].to_vec();
        HostTensor::f32([1, heads, few, d], (0..heads as usize).flat_map(part).collect())
    };
    let mut reference = CpuBackend.compile(&graph)?;
    for (tensor, data) in inputs.iter().zip([&first(&all)?, &k, &v, &lambda]) {
        reference.write(*tensor, data)?;
    }
    reference.run()?;
    // ε = 1e-3 lets the landmark inverse magnify f32 rounding a thousandfold.
    close("first queries of each head", &first(&got)?, &reference.read(out)?, 1e-3)
}

fn error_text(adapter: &wgpu::Adapter) -> Result<(), Failed> {
    let (_, shrunken) = both(adapter, Options { storage_binding: Some(1024), ..Options::default() })?;
    let Err(error) = Sample::nystrom(&segments(), 2, 2048, 32)?.result(&shrunken) else {
        return Err("landmarks of 4 KiB fitted a binding of 1 KiB".into());
    };
    let Error::Limit { what, requested, allowed, remedy } = &error else {
        return Err(format!("{error} is not about a limit").into());
    };
    ensure(requested > allowed && *allowed <= 1024, format!("requested {requested}, allowed {allowed}"))?;
    ensure(what.contains('`') && !remedy.is_empty(), format!("{what}; {remedy}"))?;
    let text = error.to_string();
    for part in [what.as_str(), &requested.to_string(), &allowed.to_string(), remedy.as_str()] {
        ensure(text.contains(part), format!("{part:?} is not in {text:?}"))?;
    }
    Ok(())
}

/// Compiled, not run: what the engine needs beyond inputs and outputs.
fn memory_of_many_tokens(adapter: &wgpu::Adapter) -> Result<(), Failed> {
    let backend = WgpuBackend::on_adapter(adapter, Options::default())?;
    let landmarks = Landmarks::Strided { side: 7 };
    let mib = |bytes: u64| bytes as f64 / f64::from(1 << 20);
    for normalisation in NORMALISATIONS {
        let mut graph = Graph::new("many tokens");
        let [q, k, v] = ["q", "k", "v"].map(|name| graph.input(name, [1, 8, 262_144, 32], DType::F32));
        let lambda = graph.input("lambda", [8], DType::F32);
        let attention = Attention { normalisation, landmarks: landmarks.clone(), ..Attention::default() };
        let qkv = Qkv { q, k, v, lambda, grid: (512, 512) };
        let attended = attention.record(&mut graph, qkv, Masks::default())?;
        graph.output(attended.out)?;
        let program = backend.prepare(&graph)?;
        let bytes = program.memory().beyond_inputs_and_outputs();
        let what = format!("{normalisation:?}: {:.0} MiB beyond inputs and outputs", mib(bytes));
        ensure(bytes <= 256 << 20, format!("{what}; {:?}\n{}", program.memory(), program.schedule()))?;
    }
    let mut graph = Graph::new("exact");
    let [q, k, v] = ["q", "k", "v"].map(|name| graph.input(name, [1, 8, 16_384, 32], DType::F32));
    let lambda = graph.input("lambda", [8], DType::F32);
    let out = graph.transient("out", [1, 8, 16_384, 32], DType::F32);
    let log_sum = graph.transient("log sum", [1, 8, 16_384], DType::F32);
    let params = exact_attention::Params { scale: 1.0, metric: 1, normalise: 0 };
    let args = [Some(q), Some(k), Some(v), Some(lambda), None, None, None, Some(out), Some(log_sum)];
    graph.pass(&exact_attention::SPEC, &params, &args)?;
    graph.output(out)?;
    graph.output(log_sum)?;
    let memory = backend.prepare(&graph)?.memory();
    let bytes = memory.beyond_inputs_and_outputs();
    ensure(bytes <= 200 << 20, format!("exact: {:.0} MiB beyond inputs and outputs", mib(bytes)))
}

/// Multiples of four, none of them of the device's alignment (case C18).
fn odd_offsets(adapter: &wgpu::Adapter) -> Result<(), Failed> {
    let (device, queue) = humble_device(adapter)?;
    let backend = WgpuBackend::new(device.clone(), queue.clone())?;
    let mut samples = nystrom_of_every_normalisation(2, 101, 8)?;
    samples.push(("exact".into(), Sample::exact(0, 2, 101, 8)?));
    for (name, sample) in samples {
        let expected = sample.result(&backend)?;
        let mut program = backend.prepare(&sample.graph)?;
        let mut offset = 4;
        let mut place = |tensor: Tensor| {
            let (at, bytes) = (offset, tensor.shape().len() * 4);
            // 64 apart and then 272, as in the case.
            offset = (offset + bytes).next_multiple_of(64) + 272;
            (at, bytes)
        };
        let places: Vec<(u64, u64)> = sample.inputs.iter().map(|(t, _)| place(*t)).collect();
        let make = |size| {
            device.create_buffer(&wgpu::BufferDescriptor {
                label: Some("host's arena"),
                size,
                usage: wgpu::BufferUsages::STORAGE
                    | wgpu::BufferUsages::COPY_SRC
                    | wgpu::BufferUsages::COPY_DST,
                mapped_at_creation: false,
            })
        };
        let arena = make(1 << 20);
        for ((tensor, data), (at, bytes)) in sample.inputs.iter().zip(&places) {
            queue.write_buffer(&arena, *at, &data.device_bytes());
            program.bind(*tensor, &arena, *at, *bytes)?;
        }
        let bytes = sample.out.shape().len() * 4;
        program.bind(sample.out, &make(1 << 20), 316, bytes)?;
        program.run()?;
        close(&name, &program.read(sample.out)?, &expected, OTHER_ORDER)?;
    }
    Ok(())
}
