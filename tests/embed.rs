//! The engine inside a host: on the host's device, in the host's encoder, with the host's handlers.

use libtest_mimic::{Arguments, Failed};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use support::{Sample, close, device_with, humble_device, random, segments};
use wgattn::Error;
use wgattn::attention::{Attention, Normalisation};
use wgattn::backend::cpu::CpuBackend;
use wgattn::backend::wgpu::{Options, WgpuBackend, WgpuProgram};
use wgattn::backend::{Backend, Program};
use wgattn::graph::{Graph, PassId};
use wgattn::kernels::image::{colormap, oklab, to_linear};
use wgattn::kernels::linalg::matmul;
use wgattn::tensor::{DType, HostData, HostTensor, Tensor};

mod support;

const fn assert_send<T: Send>() {}
const fn assert_sync<T: Sync>() {}
const _: () = {
    assert_send::<WgpuBackend>();
    assert_sync::<WgpuBackend>();
    assert_send::<WgpuProgram>();
    assert_sync::<WgpuProgram>();
    assert_send::<wgattn::backend::wgpu::Ticket>();
};

fn main() {
    let args = Arguments::from_args();
    let mut trials = support::adapter_trials(&[
        ("two_encodes_in_one_submit_keep_their_inputs_and_parameters", two_encodes),
        ("two_encoders_in_one_submit_keep_their_inputs_and_parameters", two_encoders),
        ("encode_does_not_submit", encode_does_not_submit),
        ("a_dropped_encoder_loses_no_constants", dropped_encoder),
        ("host_handlers_stay_in_place", host_handlers),
        ("no_features_and_default_limits_are_enough", humble_host),
        ("four_storage_buffers_run_or_name_the_limit", four_storage_buffers),
        ("after_notify_device_lost_everything_says_so", notified_loss),
        ("after_destroy_nothing_panics_and_a_rebuilt_program_gives_the_same", destroyed),
        ("a_hundred_tickets_in_one_frame_all_arrive", hundred_tickets),
        ("bindings_that_cannot_work_are_refused_before_they_spoil_the_encoder", refused_bindings),
        ("nan_left_in_workgroup_memory_does_not_matter", nan_in_workgroup_memory),
    ]);
    for (name, adapter) in support::adapters_by_name() {
        let test = format!("a_hosts_pipeline_cache_is_taken::{name}");
        trials.push(if adapter.features().contains(wgpu::Features::PIPELINE_CACHE) {
            libtest_mimic::Trial::test(test, move || pipeline_cache(&adapter))
        } else {
            support::absent(&test, "the adapter has no pipeline caches", false)
        });
    }
    libtest_mimic::run(&args, trials).exit();
}

fn encoder(device: &wgpu::Device) -> wgpu::CommandEncoder {
    device.create_command_encoder(&wgpu::CommandEncoderDescriptor::default())
}

fn wait(device: &wgpu::Device) -> Result<(), Failed> {
    device.poll(wgpu::PollType::wait_indefinitely())?;
    Ok(())
}

fn ensure(holds: bool, what: impl Into<String>) -> Result<(), Failed> {
    if holds { Ok(()) } else { Err(what.into().into()) }
}

/// out = α a W + γ I with W a constant 2 I: small, with an input, a constant and live parameters.
struct Product {
    graph: Graph,
    a: Tensor,
    out: Tensor,
    pass: PassId,
}

impl Product {
    fn new() -> wgattn::Result<Self> {
        let mut graph = Graph::new("product");
        let a = graph.input("a", [1, 1, 4, 4], DType::F32);
        let w = graph.constant("W", HostTensor::f32([1, 1, 4, 4], identity(2.0))?);
        let out = graph.transient("out", [1, 1, 4, 4], DType::F32);
        let pass =
            matmul::record_into(&mut graph, matmul::Inputs::new(a, w), matmul::Params::default(), out)?;
        graph.output(out)?;
        Ok(Self { graph, a, out, pass })
    }

    fn set(&self, program: &mut dyn Program, a: f32, alpha: f32) -> wgattn::Result<()> {
        program.write(self.a, &HostTensor::f32([1, 1, 4, 4], vec![a; 16])?)?;
        program.set_params(self.pass, &matmul::Params { alpha, ..Default::default() })
    }
}

fn identity(diagonal: f32) -> Vec<f32> {
    (0..16).map(|i| if i % 5 == 0 { diagonal } else { 0.0 }).collect()
}

fn all_are(what: &str, got: &HostTensor, expected: f32) -> Result<(), Failed> {
    ensure(got.to_f32().iter().all(|x| *x == expected), format!("{what}: wanted {expected}, got {got:?}"))
}

fn two_encodes(adapter: &wgpu::Adapter) -> Result<(), Failed> {
    let (device, queue) = humble_device(adapter)?;
    let product = Product::new()?;
    let mut program = WgpuBackend::new(device.clone(), queue.clone())?.prepare(&product.graph)?;
    let mut encoder = encoder(&device);
    product.set(&mut program, 1.0, 2.0)?;
    program.encode(&mut encoder)?;
    let first = program.readback(product.out, &mut encoder)?;
    product.set(&mut program, 5.0, 3.0)?;
    program.encode(&mut encoder)?;
    let second = program.readback(product.out, &mut encoder)?;
    queue.submit([encoder.finish()]);
    wait(&device)?;
    all_are("first encode", &first.try_take().ok_or("the first ticket is still pending")??, 4.0)?;
    all_are("second encode", &second.try_take().ok_or("the second ticket is still pending")??, 30.0)
}

/// Attention whose ε may change without compiling again: the number of steps of the inverse does not follow it.
fn with_epsilon(epsilon: f32) -> Attention {
    Attention { epsilon, steps: Some(20), ..segments() }
}

/// The same in two encoders, with attention whose bandwidth and ε differ.
fn two_encoders(adapter: &wgpu::Adapter) -> Result<(), Failed> {
    let (device, queue) = humble_device(adapter)?;
    let backend = WgpuBackend::new(device.clone(), queue.clone())?;
    let sample = Sample::nystrom(&with_epsilon(1e-3), 2, 100, 8)?;
    let (lambda, _) = sample.inputs[3];
    let settings = [(4.0, 1e-3), (1.5, 0.3)];
    let apply = |program: &mut dyn Program, (width, epsilon): (f32, f32)| {
        program.write(lambda, &HostTensor::f32([2], vec![width; 2])?)?;
        program.set_params(sample.pass, &with_epsilon(epsilon).params())
    };
    let mut expected = Vec::new();
    for setting in settings {
        let mut alone = backend.prepare(&sample.graph)?;
        sample.write(&mut alone)?;
        apply(&mut alone, setting)?;
        alone.run()?;
        expected.push(alone.read(sample.out)?);
    }
    let mut program = backend.prepare(&sample.graph)?;
    sample.write(&mut program)?;
    let (mut commands, mut tickets) = (Vec::new(), Vec::new());
    for setting in settings {
        let mut encoder = encoder(&device);
        apply(&mut program, setting)?;
        program.encode(&mut encoder)?;
        tickets.push(program.readback(sample.out, &mut encoder)?);
        commands.push(encoder.finish());
    }
    queue.submit(commands);
    wait(&device)?;
    for (ticket, expected) in tickets.iter().zip(&expected) {
        let got = ticket.try_take().ok_or("a ticket is still pending")??;
        ensure(got == *expected, "an encode saw the values of the other")?;
    }
    ensure(expected[0] != expected[1], "the two settings give the same, so the test proves nothing")
}

fn encode_does_not_submit(adapter: &wgpu::Adapter) -> Result<(), Failed> {
    let (device, queue) = humble_device(adapter)?;
    let product = Product::new()?;
    let mut program = WgpuBackend::new(device.clone(), queue.clone())?.prepare(&product.graph)?;
    let out = device.create_buffer(&wgpu::BufferDescriptor {
        label: Some("host's result"),
        size: 64,
        usage: wgpu::BufferUsages::STORAGE | wgpu::BufferUsages::COPY_SRC | wgpu::BufferUsages::COPY_DST,
        mapped_at_creation: false,
    });
    queue.write_buffer(&out, 0, &[7_f32.to_le_bytes(); 16].concat());
    program.bind(product.out, &out, 0, 64)?;
    product.set(&mut program, 1.0, 1.0)?;
    let mut held_back = encoder(&device);
    program.encode(&mut held_back)?;
    let ticket = program.readback(product.out, &mut held_back)?;
    wait(&device)?;
    ensure(ticket.try_take().is_none(), "the ticket arrived before the host submitted")?;

    // What the host itself submits in the meantime still finds the old numbers.
    let mut meanwhile = encoder(&device);
    let before = program.readback(product.out, &mut meanwhile)?;
    queue.submit([meanwhile.finish()]);
    wait(&device)?;
    all_are("before the submit", &before.try_take().ok_or("pending")??, 7.0)?;
    ensure(ticket.try_take().is_none(), "the ticket arrived with another submission")?;

    queue.submit([held_back.finish()]);
    wait(&device)?;
    all_are("after the submit", &ticket.try_take().ok_or("pending")??, 2.0)
}

/// A host may throw a frame away; the numbers of the graph itself must not go with it.
fn dropped_encoder(adapter: &wgpu::Adapter) -> Result<(), Failed> {
    let (device, queue) = humble_device(adapter)?;
    let product = Product::new()?;
    let mut program = WgpuBackend::new(device.clone(), queue)?.prepare(&product.graph)?;
    product.set(&mut program, 1.0, 1.0)?;
    let mut dropped = encoder(&device);
    program.encode(&mut dropped)?;
    drop(dropped);
    product.set(&mut program, 3.0, 1.0)?;
    program.run()?;
    all_are("after a dropped frame", &program.read(product.out)?, 6.0)
}

#[expect(clippy::disallowed_methods, reason = "here the test is the host, whose handlers these are")]
fn host_handlers(adapter: &wgpu::Adapter) -> Result<(), Failed> {
    let (device, queue) = humble_device(adapter)?;
    let (errors, losses) = (Arc::new(AtomicU32::new(0)), Arc::new(AtomicU32::new(0)));
    let (seen, lost) = (Arc::clone(&errors), Arc::clone(&losses));
    device.on_uncaptured_error(Arc::new(move |_| {
        seen.fetch_add(1, Ordering::Relaxed);
    }));
    device.set_device_lost_callback(move |_, _| {
        lost.fetch_add(1, Ordering::Relaxed);
    });
    let counts = || (errors.load(Ordering::Relaxed), losses.load(Ordering::Relaxed));

    let backend = WgpuBackend::new(device.clone(), queue)?;
    let product = Product::new()?;
    let mut program = backend.prepare(&product.graph)?;
    product.set(&mut program, 1.0, 1.0)?;
    program.run()?;
    program.read(product.out)?;
    // Our own mistakes and the caller's are returned, not thrown at the host's handler.
    let small = device.create_buffer(&wgpu::BufferDescriptor {
        label: None,
        size: 16,
        usage: wgpu::BufferUsages::STORAGE | wgpu::BufferUsages::COPY_SRC,
        mapped_at_creation: false,
    });
    ensure(program.bind(product.a, &small, 0, 64).is_err(), "a buffer that is too small was bound")?;
    ensure(counts() == (0, 0), format!("the engine set off the host's handlers: {:?}", counts()))?;

    // Both are still the host's.
    let _invalid = device.create_buffer(&wgpu::BufferDescriptor {
        label: Some("impossible"),
        size: 16,
        usage: wgpu::BufferUsages::MAP_READ | wgpu::BufferUsages::MAP_WRITE,
        mapped_at_creation: false,
    });
    ensure(counts() == (1, 0), format!("the host's error handler is gone: {:?}", counts()))?;
    device.destroy();
    let _ = device.poll(wgpu::PollType::Poll);
    ensure(counts().1 == 1, format!("the host's lost callback is gone: {:?}", counts()))
}

/// Photograph to colours: the kernels that bind textures.
fn picture() -> wgattn::Result<(Graph, Tensor, Tensor)> {
    let mut graph = Graph::new("picture");
    let pixels = graph.input("pixels", [9, 21], DType::Rgba8);
    let linear = to_linear::record(&mut graph, "linear", pixels)?;
    let lab = oklab::record(&mut graph, "lab", linear)?;
    let values = graph.reshape(lab, [9, 63])?;
    let greys = (0..256).map(|i| u32::from_le_bytes([i as u8, i as u8, i as u8, 255])).collect();
    let colours = graph.constant("greys", HostTensor::new([256], HostData::U32(greys))?);
    let out = colormap::record(
        &mut graph,
        "out",
        values,
        colours,
        colormap::Params { low: -1.0, ..Default::default() },
    )?;
    graph.output(out)?;
    Ok((graph, pixels, out))
}

fn pixels() -> wgattn::Result<HostTensor> {
    HostTensor::new(
        [9, 21],
        HostData::Rgba8((0..9 * 21).map(|i: u32| [i as u8, (i * 7) as u8, (i * 31) as u8, 255]).collect()),
    )
}

/// Everything the demos do, on the smallest device a host may bring.
fn humble_samples() -> wgattn::Result<Vec<(String, Sample)>> {
    let normalisations = [
        Normalisation::None,
        Normalisation::Row,
        Normalisation::Col,
        Normalisation::Cheap,
        Normalisation::Softpp,
    ];
    let mut samples = Vec::new();
    for normalisation in normalisations {
        let attention = Attention { normalisation, zs: Some(1.0), ..segments() };
        samples.push((format!("Nyström {normalisation:?}"), Sample::nystrom(&attention, 2, 130, 12)?));
    }
    samples.push(("exact".into(), Sample::exact(0, 2, 130, 12)?));
    samples.push(("map".into(), Sample::map(2, 130, 12)?));
    Ok(samples)
}

fn humble_host(adapter: &wgpu::Adapter) -> Result<(), Failed> {
    let (device, queue) = humble_device(adapter)?;
    ensure(device.features().is_empty(), "the device has features")?;
    let backend = WgpuBackend::new(device, queue)?;
    for (name, sample) in humble_samples()? {
        // The parity tests know the exact bounds; here it is a question of running at all.
        close(&name, &sample.result(&backend)?, &sample.result(&CpuBackend)?, 2e-3)?;
    }
    let (graph, input, out) = picture()?;
    let mut program = backend.prepare(&graph)?;
    program.write(input, &pixels()?)?;
    program.run()?;
    let mut reference = CpuBackend.compile(&graph)?;
    reference.write(input, &pixels()?)?;
    reference.run()?;
    close("picture", &program.read(out)?, &reference.read(out)?, 1.5 / 255.0)
}

fn four_storage_buffers(adapter: &wgpu::Adapter) -> Result<(), Failed> {
    let limits =
        wgpu::Limits { max_storage_buffers_per_shader_stage: 4, ..wgpu::Limits::downlevel_defaults() };
    let (device, queue) = device_with(adapter, wgpu::Features::empty(), limits)?;
    let backend = WgpuBackend::new(device, queue)?;
    for (name, sample) in humble_samples()? {
        match sample.result(&backend) {
            Ok(got) => close(&name, &got, &sample.result(&CpuBackend)?, 2e-3)?,
            Err(Error::Limit { what, requested, allowed: 4, remedy }) => {
                let said = what.contains("storage buffers of") && requested > 4 && !remedy.is_empty();
                ensure(said, format!("{name}: {what}, {requested}, {remedy}"))?;
            }
            Err(other) => return Err(format!("{name}: {other}").into()),
        }
    }
    Ok(())
}

/// Calls every entry point; each must return this kind of error.
fn every_entry_point(
    backend: &WgpuBackend,
    program: &mut WgpuProgram,
    sample: &Sample,
    device: &wgpu::Device,
    mut check: impl FnMut(&str, Option<Error>) -> Result<(), Failed>,
) -> Result<(), Failed> {
    let (input, data) = &sample.inputs[0];
    let buffer = program_buffer(device, data);
    let texture = rgba_texture(device);
    let mut encoder = encoder(device);
    check("prepare", backend.prepare(&sample.graph).err())?;
    check("compile", backend.compile(&sample.graph).err())?;
    check("precompile", backend.precompile(&[&sample.graph], &mut |_, _, _| {}).err())?;
    check("rebuild", program.rebuild(backend).err())?;
    check("write", program.write(*input, data).err())?;
    check("set_params", (program as &mut dyn Program).set_params(sample.pass, &segments().params()).err())?;
    check("bind", program.bind(*input, &buffer, 0, buffer.size()).err())?;
    check("bind_texture", program.bind_texture(*input, &texture).err())?;
    check("buffer", program.buffer(*input).err())?;
    check("texture", program.texture(*input).err())?;
    check("encode", program.encode(&mut encoder).err())?;
    check("readback", program.readback(sample.out, &mut encoder).err())?;
    check("run", program.run().err())?;
    check("read", program.read(sample.out).err())?;
    program.set_profiling(true);
    check("profiled run", program.run().err())?;
    program.set_profiling(false);
    Ok(())
}

fn program_buffer(device: &wgpu::Device, data: &HostTensor) -> wgpu::Buffer {
    device.create_buffer(&wgpu::BufferDescriptor {
        label: None,
        size: data.shape().len() * 4,
        usage: wgpu::BufferUsages::STORAGE | wgpu::BufferUsages::COPY_SRC | wgpu::BufferUsages::COPY_DST,
        mapped_at_creation: false,
    })
}

fn rgba_texture(device: &wgpu::Device) -> wgpu::Texture {
    device.create_texture(&wgpu::TextureDescriptor {
        label: None,
        size: wgpu::Extent3d { width: 4, height: 4, depth_or_array_layers: 1 },
        mip_level_count: 1,
        sample_count: 1,
        dimension: wgpu::TextureDimension::D2,
        format: wgpu::TextureFormat::Rgba8Unorm,
        usage: wgpu::TextureUsages::TEXTURE_BINDING,
        view_formats: &[],
    })
}

fn notified_loss(adapter: &wgpu::Adapter) -> Result<(), Failed> {
    let (device, queue) = humble_device(adapter)?;
    let backend = WgpuBackend::new(device.clone(), queue.clone())?;
    let sample = Sample::nystrom(&segments(), 1, 64, 8)?;
    let mut program = backend.prepare(&sample.graph)?;
    sample.write(&mut program)?;
    let mut encoder = encoder(&device);
    program.encode(&mut encoder)?;
    let ticket = program.readback(sample.out, &mut encoder)?;
    backend.notify_device_lost("laptop slept");
    let lost = |what: &str, error: Option<Error>| match error {
        Some(Error::DeviceLost { reason, .. }) if reason == "laptop slept" => Ok(()),
        other => Err(format!("{what}: {other:?} instead of DeviceLost").into()),
    };
    lost("try_take", ticket.try_take().and_then(Result::err))?;
    lost("wait", ticket.wait().err())?;
    every_entry_point(&backend, &mut program, &sample, &device, lost)
}

fn destroyed(adapter: &wgpu::Adapter) -> Result<(), Failed> {
    let sample = Sample::nystrom(&with_epsilon(1e-3), 2, 100, 8)?;
    let changed = with_epsilon(0.05);
    let backend = WgpuBackend::on_adapter(adapter, Options::default())?;
    let mut program = backend.prepare(&sample.graph)?;
    sample.write(&mut program)?;
    (&mut program as &mut dyn Program).set_params(sample.pass, &changed.params())?;
    for _ in 0..10 {
        program.run()?;
    }
    let before = program.read(sample.out)?;

    // In the middle of a frame: encoded, not yet submitted.
    let device = backend.device().clone();
    let mut encoder = encoder(&device);
    program.encode(&mut encoder)?;
    let ticket = program.readback(sample.out, &mut encoder)?;
    device.destroy();
    ensure(ticket.wait().is_err(), "a ticket of a destroyed device arrived")?;
    let mut notices = Vec::new();
    for _ in 0..100 {
        let error = program.run().err().ok_or("a run on a destroyed device succeeded")?;
        if !notices.contains(&error.to_string()) {
            notices.push(error.to_string());
        }
    }
    ensure(notices.len() == 1 && notices[0].contains("lost"), format!("one notice, got {notices:#?}"))?;
    let lost = |what: &str, error: Option<Error>| match error {
        Some(Error::DeviceLost { .. }) => Ok(()),
        other => Err(format!("{what}: {other:?} instead of DeviceLost").into()),
    };
    let spare = WgpuBackend::on_adapter(adapter, Options::default())?;
    every_entry_point(&backend, &mut program, &sample, spare.device(), lost)?;

    let mut rebuilt = program.rebuild(&spare)?;
    sample.write(&mut rebuilt)?;
    rebuilt.run()?;
    ensure(rebuilt.read(sample.out)? == before, "the rebuilt program gives other numbers")?;

    // The host's own device, of whose loss nobody told us: errors, never a panic.
    let (device, queue) = humble_device(adapter)?;
    let backend = WgpuBackend::new(device.clone(), queue)?;
    let mut program = backend.prepare(&sample.graph)?;
    sample.write(&mut program)?;
    program.run()?;
    device.destroy();
    for _ in 0..100 {
        let _ = program.run();
        let _ = program.read(sample.out);
        let _ = backend.prepare(&sample.graph);
    }
    ensure(program.run().is_err(), "a run on a destroyed device succeeded")
}

fn hundred_tickets(adapter: &wgpu::Adapter) -> Result<(), Failed> {
    let (device, queue) = humble_device(adapter)?;
    let product = Product::new()?;
    let mut program = WgpuBackend::new(device.clone(), queue.clone())?.prepare(&product.graph)?;
    let mut encoder = encoder(&device);
    let mut tickets = Vec::new();
    for i in 0..100 {
        product.set(&mut program, i as f32, 0.5)?;
        program.encode(&mut encoder)?;
        tickets.push(program.readback(product.out, &mut encoder)?);
    }
    ensure(tickets.iter().all(|t| t.try_take().is_none()), "a ticket arrived before the submit")?;
    queue.submit([encoder.finish()]);
    wait(&device)?;
    for (i, ticket) in tickets.iter().enumerate() {
        all_are(
            &format!("ticket {i}"),
            &ticket.try_take().ok_or(format!("ticket {i} is pending"))??,
            i as f32,
        )?;
    }
    ensure(tickets[0].try_take().is_none(), "a ticket gave its numbers twice")?;
    ensure(tickets[0].wait().is_err(), "waiting for a ticket that was taken succeeded")
}

/// What wgpu would only find at `finish`, when the host's whole frame is lost.
fn refused_bindings(adapter: &wgpu::Adapter) -> Result<(), Failed> {
    let (device, queue) = humble_device(adapter)?;
    let product = Product::new()?;
    let mut program = WgpuBackend::new(device.clone(), queue.clone())?.prepare(&product.graph)?;
    let buffer = |usage| {
        device.create_buffer(&wgpu::BufferDescriptor {
            label: None,
            size: 1024,
            usage,
            mapped_at_creation: false,
        })
    };
    let (storage, source) = (wgpu::BufferUsages::STORAGE, wgpu::BufferUsages::COPY_SRC);
    let shared = buffer(storage | source);
    let bare = buffer(storage);
    ensure(program.bind(product.a, &bare, 0, 64).is_err(), "an input without COPY_SRC")?;
    ensure(program.bind(product.a, &shared, 2, 64).is_err(), "an odd offset")?;
    ensure(program.bind(product.a, &shared, 0, 60).is_err(), "too few bytes")?;
    ensure(program.bind(product.a, &shared, 1000, 64).is_err(), "past the end")?;
    ensure(program.bind_texture(product.a, &rgba_texture(&device)).is_err(), "a texture for floats")?;
    // A buffer cannot be read and written by one dispatch, whatever the slices.
    program.bind(product.a, &shared, 0, 64)?;
    let error = program.bind(product.out, &shared, 512, 64).err().ok_or("input and output in one buffer")?;
    ensure(error.to_string().contains("`out`") && error.to_string().contains("`a`"), error.to_string())?;
    // A host's buffer that cannot be copied to or from.
    ensure(
        program.write(product.a, &random(1, [1, 1, 4, 4])).is_err(),
        "wrote to a buffer without COPY_DST",
    )?;
    program.bind(product.out, &bare, 0, 64)?;
    let mut encoder = encoder(&device);
    program.encode(&mut encoder)?;
    ensure(program.readback(product.out, &mut encoder).is_err(), "read a buffer without COPY_SRC")?;
    // After all these refusals the program and the frame are as good as before.
    queue.submit([encoder.finish()]);
    wait(&device)
}

/// Nothing of ours reads workgroup memory it has not written, so clearing it first is not needed (case C09).
fn nan_in_workgroup_memory(adapter: &wgpu::Adapter) -> Result<(), Failed> {
    let (device, queue) = humble_device(adapter)?;
    let backend = WgpuBackend::new(device.clone(), queue.clone())?;
    let spoil = spoiler(&device);
    let sink = device.create_buffer(&wgpu::BufferDescriptor {
        label: Some("sink"),
        size: 64 * 4,
        usage: wgpu::BufferUsages::STORAGE,
        mapped_at_creation: false,
    });
    let sink = device.create_bind_group(&wgpu::BindGroupDescriptor {
        label: Some("sink"),
        layout: &spoil.get_bind_group_layout(0),
        entries: &[wgpu::BindGroupEntry { binding: 0, resource: sink.as_entire_binding() }],
    });
    for (name, sample) in humble_samples()? {
        let clean = sample.result(&backend)?;
        let mut program = backend.prepare(&sample.graph)?;
        sample.write(&mut program)?;
        let mut encoder = encoder(&device);
        let mut pass = encoder.begin_compute_pass(&wgpu::ComputePassDescriptor::default());
        pass.set_pipeline(&spoil);
        pass.set_bind_group(0, &sink, &[]);
        pass.dispatch_workgroups(64, 1, 1);
        drop(pass);
        program.encode(&mut encoder)?;
        let ticket = program.readback(sample.out, &mut encoder)?;
        queue.submit([encoder.finish()]);
        ensure(ticket.wait()? == clean, format!("{name}: NaN left in workgroup memory changed the result"))?;
    }
    Ok(())
}

/// A host's dispatch that leaves NaN in all 16 KiB of workgroup memory.
fn spoiler(device: &wgpu::Device) -> wgpu::ComputePipeline {
    let source = "
        var<workgroup> memory: array<u32, 4096>;
        @group(0) @binding(0) var<storage, read_write> sink: array<u32>;
        @compute @workgroup_size(64) fn main(@builtin(local_invocation_index) i: u32) {
            for (var at = i; at < 4096u; at += 64u) { memory[at] = 0x7fc00000u; }
            workgroupBarrier();
            // Without a reader the compiler would drop the stores.
            sink[i] = memory[(i * 67u) % 4096u];
        }";
    let module = device.create_shader_module(wgpu::ShaderModuleDescriptor {
        label: Some("spoiler"),
        source: wgpu::ShaderSource::Wgsl(source.into()),
    });
    device.create_compute_pipeline(&wgpu::ComputePipelineDescriptor {
        label: Some("spoiler"),
        layout: None,
        module: &module,
        entry_point: Some("main"),
        compilation_options: wgpu::PipelineCompilationOptions {
            zero_initialize_workgroup_memory: false,
            ..Default::default()
        },
        cache: None,
    })
}

fn pipeline_cache(adapter: &wgpu::Adapter) -> Result<(), Failed> {
    let limits = wgpu::Limits::default().or_worse_values_from(&adapter.limits());
    let (device, queue) = device_with(adapter, wgpu::Features::PIPELINE_CACHE, limits)?;
    let make = |data: Option<&[u8]>| {
        let descriptor = wgpu::PipelineCacheDescriptor { label: Some("host's cache"), data, fallback: true };
        // SAFETY: the data, if any, comes from `get_data` of a cache of the same device.
        #[expect(unsafe_code, reason = "wgpu has no safe way to make a pipeline cache")]
        unsafe {
            device.create_pipeline_cache(&descriptor)
        }
    };
    let product = Product::new()?;
    let run = |cache: &wgpu::PipelineCache| -> Result<HostTensor, Failed> {
        let options = Options { pipeline_cache: Some(cache.clone()), ..Options::default() };
        let backend = WgpuBackend::with_options(device.clone(), queue.clone(), options)?;
        let mut program = backend.prepare(&product.graph)?;
        product.set(&mut program, 1.0, 1.0)?;
        program.run()?;
        Ok(program.read(product.out)?)
    };
    let cache = make(None);
    all_are("with an empty cache", &run(&cache)?, 2.0)?;
    // What a driver keeps is its own affair: these software drivers keep no more than a header.
    let data = cache.get_data().ok_or("the cache has no data")?;
    all_are("with the data of the first run", &run(&make(Some(&data)))?, 2.0)
}
