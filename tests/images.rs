//! Pixels and host memory on every adapter: row pitch, the host's own textures and buffers, many readbacks at once.

use wgattn::backend::Program as _;
use wgattn::backend::wgpu::WgpuBackend;
use wgattn::graph::Graph;
use wgattn::kernels::image::{colormap, to_linear};
use wgattn::kernels::linalg::matmul;
use wgattn::tensor::{DType, HostData, HostTensor, Tensor};

mod support;

/// Widths around the 64 pixels that fill one 256-byte row of a copy (case C23).
const WIDTHS: [u32; 6] = [1, 50, 63, 64, 65, 4097];
const ROWS: u32 = 3;

fn main() {
    let args = libtest_mimic::Arguments::from_args();
    let trials = support::trials(&[
        ("uploaded_pixels_come_back_at_every_width", |b| say(uploaded_pixels(b))),
        ("computed_pixels_come_back_at_every_width", |b| say(computed_pixels(b))),
        ("grey_ramp_keeps_its_display_bytes", |b| say(grey_ramp(b))),
        ("pixels_pass_between_kernels", |b| say(pixels_between_kernels(b))),
        ("host_textures_are_read_and_written", |b| say(host_textures(b))),
        ("unfit_host_textures_are_refused_with_the_numbers", |b| say(unfit_textures(b))),
        ("host_buffer_slices_at_any_offset_give_right_products", |b| say(odd_offsets(b))),
        ("host_buffer_slices_work_on_a_default_limits_device", |b| say(default_limits(b))),
        ("unfit_host_buffers_are_refused_with_the_numbers", |b| say(unfit_buffers(b))),
        ("a_copy_whose_callback_another_thread_holds_still_arrives", |b| say(held_callback(b))),
        ("a_hundred_readbacks_in_one_submit_all_arrive", |b| say(hundred_readbacks(b))),
    ]);
    libtest_mimic::run(&args, trials).exit();
}

#[derive(Debug)]
struct Wrong(String);

impl<E: std::error::Error> From<E> for Wrong {
    fn from(error: E) -> Self {
        Self(error.to_string())
    }
}

fn say(result: Result<(), Wrong>) -> Result<(), String> {
    result.map_err(|e| e.0)
}

fn wrong(text: impl Into<String>) -> Result<(), Wrong> {
    Err(Wrong(text.into()))
}

fn equal(what: &str, got: &HostTensor, expected: &HostTensor) -> Result<(), Wrong> {
    let (a, b) = (got.to_f64(), expected.to_f64());
    match a.iter().zip(&b).position(|(x, y)| x != y) {
        None if got.shape() == expected.shape() => Ok(()),
        None => wrong(format!("{what}: {} instead of {}", got.shape(), expected.shape())),
        Some(i) => wrong(format!("{what}: byte {i} is {}, expected {}", a[i], b[i])),
    }
}

/// Pixels whose bytes differ along and across rows.
fn picture(rows: u32, cols: u32) -> Result<HostTensor, Wrong> {
    let pixel = |i: u32| (i.wrapping_mul(2_654_435_761) ^ (i >> 3)).to_le_bytes();
    Ok(HostTensor::new([rows, cols], HostData::Rgba8((0..rows * cols).map(pixel).collect()))?)
}

fn greys() -> Result<HostTensor, Wrong> {
    Ok(HostTensor::new(
        [256],
        HostData::U32((0..256_u32).map(|i| u32::from_le_bytes([i as u8, i as u8, i as u8, 255])).collect()),
    )?)
}

/// Values k / 255 and the pixels that the grey table makes of them.
fn ramp(rows: u32, cols: u32) -> Result<(HostTensor, HostTensor), Wrong> {
    let byte = |i: u32| (i * 37 % 256) as u8;
    let values = (0..rows * cols).map(|i| f32::from(byte(i)) / 255.0).collect();
    let pixels = (0..rows * cols).map(|i| [byte(i), byte(i), byte(i), 255]).collect();
    Ok((HostTensor::f32([rows, cols], values)?, HostTensor::new([rows, cols], HostData::Rgba8(pixels))?))
}

fn uploaded_pixels(backend: &WgpuBackend) -> Result<(), Wrong> {
    for cols in WIDTHS {
        let mut graph = Graph::new("pixels");
        let pixels = graph.input("pixels", [ROWS, cols], DType::Rgba8);
        let linear = to_linear::record(&mut graph, "linear", pixels)?;
        graph.output(linear)?;
        let mut program = backend.prepare(&graph)?;
        let input = picture(ROWS, cols)?;
        program.write(pixels, &input)?;
        program.run()?;
        equal(&format!("width {cols}"), &program.read(pixels)?, &input)?;
    }
    Ok(())
}

struct Coloured {
    graph: Graph,
    values: Tensor,
    pixels: Tensor,
}

fn coloured(rows: u32, cols: u32) -> Result<Coloured, Wrong> {
    let mut graph = Graph::new("coloured");
    let values = graph.input("values", [rows, cols], DType::F32);
    let table = graph.constant("colours", greys()?);
    let pixels = colormap::record(&mut graph, "picture", values, table, colormap::Params::default())?;
    graph.output(pixels)?;
    Ok(Coloured { graph, values, pixels })
}

fn computed_pixels(backend: &WgpuBackend) -> Result<(), Wrong> {
    for cols in WIDTHS {
        let Coloured { graph, values, pixels } = coloured(ROWS, cols)?;
        let (input, expected) = ramp(ROWS, cols)?;
        let mut program = backend.prepare(&graph)?;
        program.write(values, &input)?;
        program.run()?;
        equal(&format!("width {cols}"), &program.read(pixels)?, &expected)?;
    }
    Ok(())
}

/// Case C29: what is written is what a screen shows, without another gamma curve.
fn grey_ramp(backend: &WgpuBackend) -> Result<(), Wrong> {
    let Coloured { graph, values, pixels } = coloured(1, 256)?;
    let mut program = backend.prepare(&graph)?;
    program
        .write(values, &HostTensor::f32([1, 256], (0..256_u16).map(|i| f32::from(i) / 255.0).collect())?)?;
    program.run()?;
    let expected = HostData::Rgba8((0..=255_u8).map(|i| [i, i, i, 255]).collect());
    equal("ramp", &program.read(pixels)?, &HostTensor::new([1, 256], expected)?)
}

fn pixels_between_kernels(backend: &WgpuBackend) -> Result<(), Wrong> {
    let mut graph = Graph::new("chain");
    let values = graph.input("values", [ROWS, 65], DType::F32);
    let table = graph.constant("colours", greys()?);
    let pixels = colormap::record(&mut graph, "picture", values, table, colormap::Params::default())?;
    let linear = to_linear::record(&mut graph, "linear", pixels)?;
    graph.output(linear)?;
    let (input, expected) = ramp(ROWS, 65)?;
    let mut program = backend.prepare(&graph)?;
    program.write(values, &input)?;
    program.run()?;
    let got = program.read(linear)?.to_f64();
    for (i, (got, byte)) in
        got.iter().zip(expected.to_f64().chunks(4).flat_map(|p| p[..3].to_vec())).enumerate()
    {
        let c = byte / 255.0;
        let truth = if c <= 0.04045 { c / 12.92 } else { ((c + 0.055) / 1.055).powf(2.4) };
        if (got - truth).abs() > 1e-6 {
            return wrong(format!("element {i} is {got}, expected {truth}"));
        }
    }
    Ok(())
}

fn texture(
    backend: &WgpuBackend,
    rows: u32,
    cols: u32,
    format: wgpu::TextureFormat,
    usage: wgpu::TextureUsages,
) -> wgpu::Texture {
    backend.device().create_texture(&wgpu::TextureDescriptor {
        label: Some("the host's"),
        size: wgpu::Extent3d { width: cols, height: rows, depth_or_array_layers: 1 },
        mip_level_count: 1,
        sample_count: 1,
        dimension: wgpu::TextureDimension::D2,
        format,
        usage,
        view_formats: &[],
    })
}

fn host_textures(backend: &WgpuBackend) -> Result<(), Wrong> {
    let (rows, cols) = (ROWS, 65);
    let mut graph = Graph::new("host textures");
    let seen = graph.input("seen", [rows, cols], DType::Rgba8);
    let values = graph.input("values", [rows, cols], DType::F32);
    let table = graph.constant("colours", greys()?);
    let linear = to_linear::record(&mut graph, "linear", seen)?;
    let shown = colormap::record(&mut graph, "shown", values, table, colormap::Params::default())?;
    graph.output(linear)?;
    graph.output(shown)?;
    let input = picture(rows, cols)?;
    let (numbers, expected) = ramp(rows, cols)?;

    let format = wgpu::TextureFormat::Rgba8Unorm;
    let source = texture(
        backend,
        rows,
        cols,
        format,
        wgpu::TextureUsages::TEXTURE_BINDING | wgpu::TextureUsages::COPY_DST,
    );
    let target = texture(
        backend,
        rows,
        cols,
        format,
        wgpu::TextureUsages::STORAGE_BINDING | wgpu::TextureUsages::COPY_SRC,
    );
    let layout =
        wgpu::TexelCopyBufferLayout { offset: 0, bytes_per_row: Some(4 * cols), rows_per_image: None };
    backend.queue().write_texture(source.as_image_copy(), &input.device_bytes(), layout, source.size());

    let mut own = backend.prepare(&graph)?;
    own.write(seen, &input)?;
    own.write(values, &numbers)?;
    own.run()?;
    let mut bound = backend.prepare(&graph)?;
    bound.bind_texture(seen, &source)?;
    bound.bind_texture(shown, &target)?;
    bound.write(values, &numbers)?;
    bound.run()?;
    equal("linear light of the host's texture", &bound.read(linear)?, &own.read(linear)?)?;
    equal("picture in the host's texture", &bound.read(shown)?, &expected)?;
    if bound.texture(shown)? != &target {
        return wrong("the program's texture is not the one that was bound");
    }
    Ok(())
}

/// The message of an error that must come and name both sides.
fn refused<T>(what: &str, result: wgattn::Result<T>, words: &[&str]) -> Result<(), Wrong> {
    match result {
        Ok(_) => wrong(format!("{what} was accepted")),
        Err(error) => {
            let text = error.to_string();
            match words.iter().find(|w| !text.contains(**w)) {
                None => Ok(()),
                Some(word) => wrong(format!("{what}: the message lacks `{word}`: {text}")),
            }
        }
    }
}

fn unfit_textures(backend: &WgpuBackend) -> Result<(), Wrong> {
    use wgpu::{TextureFormat as Format, TextureUsages as Usage};
    let Coloured { graph, values, pixels } = coloured(4, 8)?;
    let mut program = backend.prepare(&graph)?;
    let size = texture(backend, 5, 8, Format::Rgba8Unorm, Usage::STORAGE_BINDING);
    refused("another size", program.bind_texture(pixels, &size), &["picture", "[4, 8]", "[5, 8]"])?;
    let format = texture(backend, 4, 8, Format::Rgba8UnormSrgb, Usage::TEXTURE_BINDING);
    refused(
        "an sRGB texture",
        program.bind_texture(pixels, &format),
        &["picture", "Rgba8Unorm", "Rgba8UnormSrgb"],
    )?;
    let usage = texture(backend, 4, 8, Format::Rgba8Unorm, Usage::TEXTURE_BINDING);
    refused(
        "a texture that cannot be written",
        program.bind_texture(pixels, &usage),
        &["picture", "STORAGE_BINDING"],
    )?;
    let fit = texture(backend, 4, 8, Format::Rgba8Unorm, Usage::STORAGE_BINDING | Usage::COPY_SRC);
    refused("a texture for a tensor of floats", program.bind_texture(values, &fit), &["values"])?;
    // What was refused left nothing behind.
    program.bind_texture(pixels, &fit)?;
    let (input, expected) = ramp(4, 8)?;
    program.write(values, &input)?;
    program.run()?;
    equal("picture after refusals", &program.read(pixels)?, &expected)
}

const N: u32 = 21;
const K: u32 = 36;
const P: u32 = 52;

struct Product {
    graph: Graph,
    a: Tensor,
    w: Tensor,
    out: Tensor,
}

fn product() -> Result<Product, Wrong> {
    let mut graph = Graph::new("product");
    let a = graph.input("a", [1, 1, N, K], DType::F32);
    let w = graph.input("w", [1, 1, K, P], DType::F32);
    let out = matmul::record(&mut graph, "out", matmul::Inputs::new(a, w), matmul::Params::default())?;
    graph.output(out)?;
    Ok(Product { graph, a, w, out })
}

/// Small whole numbers, whose products are exact in any order.
fn whole(len: u32, step: u32) -> Vec<f32> {
    (0..len).map(|i| (i * step % 13) as f32 - 6.0).collect()
}

fn expected_product(a: &[f32], w: &[f32]) -> Vec<f32> {
    let at =
        |i: usize, j: usize| (0..K as usize).map(|k| a[i * K as usize + k] * w[k * P as usize + j]).sum();
    (0..(N * P) as usize).map(|i| at(i / P as usize, i % P as usize)).collect()
}

/// A buffer of the host with numbers from byte `offset` on and other numbers before and after.
fn host_buffer(
    backend: &WgpuBackend,
    usage: wgpu::BufferUsages,
    offset: u64,
    numbers: &[f32],
) -> Result<wgpu::Buffer, Wrong> {
    let size = offset + 4 * numbers.len() as u64 + 64;
    let mut bytes = 1e9_f32.to_le_bytes().repeat((size / 4) as usize);
    bytes[offset as usize..][..4 * numbers.len()].copy_from_slice(bytemuck::cast_slice(numbers));
    let buffer = backend.device().create_buffer(&wgpu::BufferDescriptor {
        label: None,
        size,
        usage,
        mapped_at_creation: true,
    });
    buffer.slice(..).get_mapped_range_mut()?.slice(..).copy_from_slice(&bytes);
    buffer.unmap();
    Ok(buffer)
}

fn product_at(backend: &WgpuBackend, offsets: [u64; 3]) -> Result<(), Wrong> {
    use wgpu::BufferUsages as Usage;
    let Product { graph, a, w, out } = product()?;
    let (left, right) = (whole(N * K, 5), whole(K * P, 7));
    let mut program = backend.prepare(&graph)?;
    let bytes = |t: Tensor| 4 * t.shape().len();
    let [of_a, of_w, of_out] = offsets;
    program.bind(a, &host_buffer(backend, Usage::STORAGE | Usage::COPY_SRC, of_a, &left)?, of_a, bytes(a))?;
    program.bind(
        w,
        &host_buffer(backend, Usage::STORAGE | Usage::COPY_SRC, of_w, &right)?,
        of_w,
        bytes(w),
    )?;
    let target =
        host_buffer(backend, Usage::STORAGE | Usage::COPY_SRC, of_out, &vec![0.0; (N * P) as usize])?;
    program.bind(out, &target, of_out, bytes(out))?;
    program.run()?;
    let expected = HostTensor::f32([1, 1, N, P], expected_product(&left, &right))?;
    equal(&format!("a at {of_a}, w at {of_w}, out at {of_out}"), &program.read(out)?, &expected)?;
    // What lies around the slice is the host's.
    let all = read_buffer(backend, &target)?;
    let (from, to) = ((of_out / 4) as usize, ((of_out + bytes(out)) / 4) as usize);
    match all.iter().enumerate().find(|(i, x)| !(from..to).contains(i) && **x != 1e9) {
        None => Ok(()),
        Some((i, x)) => wrong(format!("out at {of_out}: word {i} outside the slice became {x}")),
    }
}

fn read_buffer(backend: &WgpuBackend, buffer: &wgpu::Buffer) -> Result<Vec<f32>, Wrong> {
    let device = backend.device();
    let usage = wgpu::BufferUsages::MAP_READ | wgpu::BufferUsages::COPY_DST;
    let copy = device.create_buffer(&wgpu::BufferDescriptor {
        label: None,
        size: buffer.size(),
        usage,
        mapped_at_creation: false,
    });
    let mut encoder = device.create_command_encoder(&wgpu::CommandEncoderDescriptor::default());
    encoder.copy_buffer_to_buffer(buffer, 0, &copy, 0, buffer.size());
    backend.queue().submit([encoder.finish()]);
    copy.map_async(wgpu::MapMode::Read, .., |_| {});
    device.poll(wgpu::PollType::wait_indefinitely())?;
    let view = copy.slice(..).get_mapped_range()?;
    Ok(bytemuck::pod_collect_to_vec(&view))
}

/// Case C18: offsets that are multiples of no alignment a driver asks for.
const OFFSETS: [[u64; 3]; 5] = [[0, 0, 0], [64, 272, 4], [272, 64, 256], [4, 8, 12], [16, 48, 252]];

fn odd_offsets(backend: &WgpuBackend) -> Result<(), Wrong> {
    OFFSETS.iter().try_for_each(|&offsets| product_at(backend, offsets))?;
    let whole = [64, 272, 4];
    for (variant, offsets) in
        [("tile64", whole), ("plain", whole), ("texture", whole), ("texture_shift", [4, 8, 12])]
    {
        let held = backend.with_variants(Some(format!("matmul/{variant}")));
        product_at(&held, offsets).map_err(|e| Wrong(format!("{variant}: {}", e.0)))?;
    }
    Ok(())
}

/// A device as a host makes it that asks for nothing: offsets must be multiples of 256 there.
fn default_limits(backend: &WgpuBackend) -> Result<(), Wrong> {
    let name = backend.device().adapter_info();
    let found = support::adapters_by_name().into_iter().find(|(_, adapter)| {
        let info = adapter.get_info();
        (info.name.as_str(), info.backend) == (name.name.as_str(), name.backend)
    });
    let Some((_, adapter)) = found else {
        return wrong("the adapter is gone");
    };
    let request = adapter.request_device(&wgpu::DeviceDescriptor::default());
    let (device, queue) = pollster::block_on(request)?;
    let plain = WgpuBackend::new(device, queue)?;
    OFFSETS.iter().try_for_each(|&offsets| product_at(&plain, offsets))
}

fn unfit_buffers(backend: &WgpuBackend) -> Result<(), Wrong> {
    use wgpu::BufferUsages as Usage;
    let Product { graph, a, w, out } = product()?;
    let mut program = backend.prepare(&graph)?;
    let (left, bytes) = (whole(N * K, 5), u64::from(4 * N * K));
    let good = host_buffer(backend, Usage::STORAGE | Usage::COPY_SRC, 64, &left)?;
    refused("an offset inside a number", program.bind(a, &good, 66, bytes), &["`a`", "66"])?;
    refused("a slice of another size", program.bind(a, &good, 64, bytes - 4), &["`a`", &bytes.to_string()])?;
    refused("a slice past the end", program.bind(a, &good, 1 << 20, bytes), &["`a`", "1048576"])?;
    refused("an offset near 2^64", program.bind(a, &good, u64::MAX - 3, bytes), &["`a`"])?;
    let uniform = host_buffer(backend, Usage::UNIFORM | Usage::COPY_SRC, 64, &left)?;
    refused("a buffer without STORAGE", program.bind(a, &uniform, 64, bytes), &["`a`", "STORAGE"])?;
    let silent = host_buffer(backend, Usage::STORAGE, 64, &left)?;
    refused("an input without COPY_SRC", program.bind(a, &silent, 64, bytes), &["`a`", "COPY_SRC"])?;
    // What was refused left nothing behind.
    program.write(a, &HostTensor::f32(a.shape(), left.clone())?)?;
    let right = whole(K * P, 7);
    program.write(w, &HostTensor::f32(w.shape(), right.clone())?)?;
    program.run()?;
    equal(
        "product after refusals",
        &program.read(out)?,
        &HostTensor::f32(out.shape(), expected_product(&left, &right))?,
    )
}

/// Case C22: probes are copied in one submission and arrive with one wait.
fn hundred_readbacks(backend: &WgpuBackend) -> Result<(), Wrong> {
    let Product { graph, a, w, out } = product()?;
    let (left, right) = (whole(N * K, 5), whole(K * P, 7));
    let mut program = backend.prepare(&graph)?;
    program.write(a, &HostTensor::f32(a.shape(), left.clone())?)?;
    program.write(w, &HostTensor::f32(w.shape(), right.clone())?)?;
    let mut encoder = backend.device().create_command_encoder(&wgpu::CommandEncoderDescriptor::default());
    program.encode(&mut encoder)?;
    let tickets = (0..100).map(|_| program.readback(out, &mut encoder)).collect::<Result<Vec<_>, _>>()?;
    if tickets.iter().any(|t| t.try_take().is_some()) {
        return wrong("a ticket was full before anything was submitted");
    }
    backend.queue().submit([encoder.finish()]);
    backend.device().poll(wgpu::PollType::wait_indefinitely())?;
    let expected = HostTensor::f32(out.shape(), expected_product(&left, &right))?;
    for (i, ticket) in tickets.iter().enumerate() {
        let Some(got) = ticket.try_take() else {
            return wrong(format!("ticket {i} is empty after the wait"));
        };
        equal(&format!("ticket {i}"), &got?, &expected)?;
        if ticket.try_take().is_some() {
            return wrong(format!("ticket {i} was taken twice"));
        }
    }
    Ok(())
}

/// wgpu collects callbacks under its locks and calls them afterwards, on whichever thread polled: our own poll can return
/// while another thread, here held up in a callback of the host's, has yet to call ours.
fn held_callback(backend: &WgpuBackend) -> Result<(), Wrong> {
    use std::sync::mpsc::channel;
    let device = backend.device();
    let Product { graph, a, w, out } = product()?;
    let (left, right) = (whole(N * K, 5), whole(K * P, 7));
    let mut program = backend.prepare(&graph)?;
    program.write(a, &HostTensor::f32(a.shape(), left.clone())?)?;
    program.write(w, &HostTensor::f32(w.shape(), right.clone())?)?;
    let mut encoder = device.create_command_encoder(&wgpu::CommandEncoderDescriptor::default());
    program.encode(&mut encoder)?;
    let usage = wgpu::BufferUsages::MAP_READ | wgpu::BufferUsages::COPY_DST;
    let hosts = wgpu::BufferDescriptor { label: None, size: 16, usage, mapped_at_creation: false };
    let hosts = device.create_buffer(&hosts);
    encoder.clear_buffer(&hosts, 0, None);
    let (started, has_started) = channel();
    let (release, released) = channel::<()>();
    encoder.map_buffer_on_submit(&hosts, wgpu::MapMode::Read, .., move |_| {
        let _ = started.send(());
        // Nobody releases it: it holds its thread for this long.
        let _ = released.recv_timeout(std::time::Duration::from_millis(200));
    });
    let ticket = program.readback(out, &mut encoder)?;
    backend.queue().submit([encoder.finish()]);
    let got = std::thread::scope(|scope| {
        scope.spawn(|| device.poll(wgpu::PollType::wait_indefinitely()));
        has_started.recv().map_err(|e| Wrong(e.to_string()))?;
        ticket.wait().map_err(Wrong::from)
    })?;
    drop(release);
    equal("product", &got, &HostTensor::f32(out.shape(), expected_product(&left, &right))?)
}
