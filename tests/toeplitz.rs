//! Fourier transforms and the relative-position masks they multiply: accuracy over lengths and grids, one normalisation, stored
//! products, transposes, and the lengths that grids are embedded in.
//!
//! `data/masking/` holds tables and values in f32 and products that two f64 computations agree on. Errors are largest
//! deviations divided by the largest value of the output, as in the tables of the method whose f32 column is doubled here.

#![cfg(feature = "cli")]

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};
use wgattn::arrays::{self, Array, ArrayData};
use wgattn::backend::wgpu::{Options, WgpuBackend};
use wgattn::backend::{Backend, cpu::CpuBackend};
use wgattn::graph::{Graph, Lowering};
use wgattn::kernel::Driver;
use wgattn::kernel::case::deviation;
use wgattn::kernels::fft::{fft, plan};
use wgattn::kernels::mask::grid::Grid;
use wgattn::kernels::mask::{toeplitz_attention_sums, toeplitz_product, toeplitz_spectrum};
use wgattn::random::{gaussian, philox};
use wgattn::tensor::{DType, HostData, HostTensor, Shape};

mod support;

type Device = (String, Arc<dyn Backend>);

/// Every adapter, opened once, and one of them once more that is taken for a GPU: whole lines in workgroup memory.
fn devices() -> Vec<Device> {
    static DEVICES: OnceLock<Vec<Device>> = OnceLock::new();
    let open = || {
        let plain = support::backends().into_iter().map(|(n, b)| (n, Arc::new(b) as Arc<dyn Backend>));
        let mut list: Vec<Device> = plain.collect();
        if let Some((name, adapter)) = support::adapters_by_name().into_iter().next() {
            list.push((format!("{name} as a GPU"), Arc::new(as_gpu(&adapter))));
        }
        list
    };
    DEVICES.get_or_init(open).clone()
}

fn as_gpu(adapter: &wgpu::Adapter) -> WgpuBackend {
    let options = Options { driver: Some(Driver::Gpu), workgroup_bytes: Some(16_384), ..Options::default() };
    WgpuBackend::on_adapter(adapter, options).expect("the adapter gives a device")
}

/// What a GPU does with lines that fit workgroup memory, and with those that do not.
#[test]
fn lines_that_fit_are_one_pass_on_a_gpu() {
    let Some((_, adapter)) = support::adapters_by_name().into_iter().next() else { return };
    let backend = as_gpu(&adapter);
    let caps = *backend.device_caps().expect("a device has limits");
    for (sides, channels, expected) in [
        // 2-D on 128 × 64: two axes, of which the first filters; back along the second.
        ([1, 50, 30], 8, vec!["fft_line"; 3]),
        ([1, 1, 512], 8, vec!["fft_line"; 1]),
        ([1, 1, 512], 6, vec!["fft_pass"; 5]),
        ([1, 1, 513], 8, vec!["fft_pass"; 5]),
    ] {
        let (grid, mut graph) = (grid(sides), Graph::new("a product"));
        let (table, x) = operands(&grid, channels);
        let [t, x] =
            [("table", &table), ("x", &x)].map(|(n, value)| graph.input(n, value.shape(), DType::F32));
        let out = graph.transient("out", x.shape(), DType::F32);
        let params = toeplitz_spectrum::Params::of(&grid);
        graph.pass(&toeplitz_product::SPEC, &params, &[Some(x), Some(t), Some(out)]).expect("it records");
        graph.output(out).expect("an output");
        let schedule = graph.schedule(Lowering::Device(&caps)).expect("a schedule");
        // The spectrum of the table comes first, by passes over its few numbers.
        let names = schedule.steps.iter().map(|step| step.kernel.name);
        let made: Vec<_> = names.filter(|name| name.starts_with("fft")).collect();
        assert!(made.ends_with(&expected), "{sides:?}, {channels} channels: {made:?}");
        let lines = |list: &[&str]| list.iter().filter(|name| **name == "fft_line").count();
        assert_eq!(lines(&made), lines(&expected), "{sides:?}, {channels} channels");
    }
}

fn grid(sides: [u32; 3]) -> Grid {
    Grid { sides, torus: false, transpose: false }
}

/// Uniform numbers in [-1, 1] from a seed.
fn uniform(len: usize, seed: u64) -> Vec<f32> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 40) as f32 / (1_u32 << 23) as f32 - 1.0
    };
    (0..len).map(|_| next()).collect()
}

fn product(backend: &dyn Backend, grid: &Grid, table: &HostTensor, x: &HostTensor) -> HostTensor {
    let mut graph = Graph::new("product");
    let given = graph.input("x", x.shape(), x.dtype());
    let weights = graph.input("table", table.shape(), table.dtype());
    let out = graph.transient("out", x.shape(), x.dtype());
    let params = toeplitz_spectrum::Params::of(grid);
    graph
        .pass(&toeplitz_product::SPEC, &params, &[Some(given), Some(weights), Some(out)])
        .expect("the shapes fit");
    graph.output(out).expect("a transient");
    let mut program = backend.compile(&graph).expect("the graph compiles");
    program.write(given, x).expect("the data fits");
    program.write(weights, table).expect("the data fits");
    program.run().expect("the graph runs");
    program.read(out).expect("an output")
}

/// A table and values of one head for a grid.
fn operands(grid: &Grid, channels: u32) -> (HostTensor, HostTensor) {
    let (n, t) = (grid.tokens() as u32, grid.table() as u32);
    let table = HostTensor::f32([1, t], uniform(t as usize, 1)).expect("the count is right");
    let x = HostTensor::f32([1, 1, n, channels], uniform((n * channels) as usize, 2))
        .expect("the count is right");
    (table, x)
}

fn close(devices: &[Device], grid: &Grid, channels: u32, allowed: f64) {
    let (table, x) = operands(grid, channels);
    let truth = product(&CpuBackend, grid, &table, &x);
    for (name, backend) in devices {
        let found = deviation(&product(backend.as_ref(), grid, &table, &x), &truth).expect("equal shapes");
        assert!(
            found.error <= allowed,
            "{name}, {grid:?}: error {:.2e} > {allowed:.1e}; element {}: got {:e}, expected {:e}",
            found.error,
            found.index,
            found.got,
            found.expected
        );
    }
}

/// Errors of a plain f32 evaluation over lengths (method: topological masking, 2.2), where it names the length: the row of the nearest
/// length with a transform of 2ᵃ3ᵇ.
fn f32_error_of_length(n: u32) -> f64 {
    match n {
        1 => 4e-8,
        2 | 3 | 5 => 8e-8,
        _ => 2e-7,
    }
}

/// Normal numbers from a stream.
fn normal(stream: u32, count: usize) -> Vec<f32> {
    let four = |block: u32| philox([block, 0, 0, stream], 5).map(gaussian);
    (0..count as u32).flat_map(four).take(count).collect()
}

/// Rows of the product of one head by its definition in f64, the last axis fastest: `[rows, channels]`.
fn direct(grid: &Grid, table: &HostTensor, x: &HostTensor, rows: &[u32]) -> Vec<f64> {
    let (table, x) = (table.to_f64(), x.to_f64());
    let n = grid.tokens() as usize;
    let channels = x.len() / n;
    let row = |&i: &u32| {
        let mut sums = vec![0.0; channels];
        for (j, line) in x.chunks(channels).enumerate() {
            let weight = table[grid.entry(i as usize, j)];
            sums.iter_mut().zip(line).for_each(|(sum, v)| *sum += weight * v);
        }
        sums
    };
    rows.iter().flat_map(row).collect()
}

/// Case C25, sizes on which Fourier transforms have failed others; within twice the method's f32 errors of the definition. Asymmetric
/// tables exp(N(0, 1)) as in the method.
#[test]
fn c25_products_of_awkward_lengths_agree_with_the_definition() {
    let devices = devices();
    for n in [1, 2, 3, 5, 17, 100, 257, 606, 1208, 1515, 4095, 4096, 4097, 65_537] {
        let grid = grid([1, 1, n]);
        let channels = if n > 300 { 3 } else { 24 };
        let weights = normal(1, 2 * n as usize - 1).into_iter().map(f32::exp).collect();
        let table = HostTensor::f32([1, 2 * n - 1], weights).expect("a table");
        let x = HostTensor::f32([1, 1, n, channels], normal(2, (n * channels) as usize)).expect("channels");
        // All rows of short sequences, and of long ones the borders and some between.
        let step = (n / 97).max(1) as usize;
        let rows: Vec<u32> = (0..n).step_by(step).chain(n.saturating_sub(3)..n).collect();
        let truth = direct(&grid, &table, &x, &rows);
        let largest = truth.iter().fold(0.0_f64, |top, y| top.max(y.abs()));
        for (name, backend) in &devices {
            let got = product(backend.as_ref(), &grid, &table, &x).to_f64();
            let got = rows.iter().flat_map(|&row| &got[(row * channels) as usize..][..channels as usize]);
            let worst = got.zip(&truth).fold(0.0_f64, |worst, (a, b)| worst.max((a - b).abs())) / largest;
            let allowed = 2.0 * f32_error_of_length(n);
            println!("{n:>6} tokens on {name:>11}: {worst:.1e} of {allowed:.1e}");
            assert!(worst <= allowed, "{n} tokens on {name}: error {worst:.2e} > {allowed:.1e}");
        }
    }
}

/// Lines of complex numbers `[lines, n]` through a transform of `length`, the first `l` numbers of each kept.
fn transform(backend: &dyn Backend, x: &HostTensor, l: u32, params: fft::Params) -> HostTensor {
    let mut graph = Graph::new("transform");
    let given = graph.input("x", x.shape(), DType::F32);
    let [b, h, o, _, a] = x.shape().dims()[..] else { panic!("x is [b, h, o, n, a]") };
    let out = graph.transient("out", [b, h, o, l, a], DType::F32);
    graph.pass(&fft::SPEC, &params, &[Some(given), Some(out)]).expect("the shapes fit");
    graph.output(out).expect("a transient");
    let mut program = backend.compile(&graph).expect("the graph compiles");
    program.write(given, x).expect("the data fits");
    program.run().expect("the graph runs");
    program.read(out).expect("an output")
}

/// Σⱼ xⱼ exp(∓2πi jk/L) in f64, angles reduced in whole numbers.
fn bin(x: &[f64], length: usize, k: usize) -> [f64; 2] {
    let mut sum = [0.0; 2];
    for (j, z) in x.chunks(2).enumerate() {
        let (sin, cos) = (-std::f64::consts::TAU * ((j * k) % length) as f64 / length as f64).sin_cos();
        sum[0] += z[0] * cos - z[1] * sin;
        sum[1] += z[0] * sin + z[1] * cos;
    }
    sum
}

/// Case C25: any length embeds in one of 2ᵃ3ᵇ; bins are what the direct sum says, and the inverse gives the numbers back.
#[test]
fn c25_transforms_of_awkward_lengths_come_back() {
    let mut devices = devices();
    devices.push(("cpu".into(), Arc::new(CpuBackend)));
    for n in [1, 2, 3, 5, 17, 100, 257, 606, 1208, 1515, 4095, 4096, 4097, 65_537] {
        let length = (n.max(2)..).find(|l| plan::radices(*l).is_some()).expect("a power of two comes");
        let numbers = HostTensor::f32([1, 1, 1, n, 2], normal(n, 2 * n as usize)).expect("numbers");
        let exact = numbers.to_f64();
        let scale = exact.chunks(2).map(|z| z[0] * z[0] + z[1] * z[1]).sum::<f64>().sqrt();
        for (name, backend) in &devices {
            let forward = fft::Params { inverse: 0, length };
            let spectrum = transform(backend.as_ref(), &numbers, length, forward);
            let bins = spectrum.to_f64();
            // The method's f32 error of a product holds two transforms and a table. A bin's natural size is the norm of the numbers.
            let allowed = if name == "cpu" { 1e-12 } else { 4e-7 };
            for k in [0, 1, 2, length / 3, length / 2, length - 1].map(|k| (k % length) as usize) {
                let expected = bin(&exact, length as usize, k);
                for (part, expected) in expected.iter().enumerate() {
                    let error = (bins[2 * k + part] - expected).abs() / scale;
                    assert!(
                        error <= allowed,
                        "{n} numbers on {name}, bin {k} of {length}: error {error:.1e}"
                    );
                }
            }
            let spectrum = HostTensor::f32(spectrum.shape(), spectrum.to_f32()).expect("numbers");
            let back = transform(backend.as_ref(), &spectrum, n, fft::Params { inverse: 1, length });
            let found = deviation(&back, &numbers).expect("equal shapes");
            assert!(found.error <= 4e-7, "{n} numbers on {name} come back with error {:.1e}", found.error);
        }
    }
}

/// Case C26: forward without a factor, inverse with 1/L.
#[test]
fn c26_transforms_have_one_normalisation() {
    let mut devices = devices();
    devices.push(("cpu".into(), Arc::new(CpuBackend)));
    for length in [2_u32, 3, 12, 16, 27, 96, 512] {
        let complex = |f: &dyn Fn(usize) -> f32| {
            let numbers = (0..2 * length as usize).map(|i| if i % 2 == 0 { f(i / 2) } else { 0.0 }).collect();
            HostTensor::f32([1, 1, 1, length, 2], numbers).expect("numbers")
        };
        for (name, backend) in &devices {
            let run = |x: &HostTensor, inverse| {
                transform(backend.as_ref(), x, length, fft::Params { inverse, length }).to_f64()
            };
            let is = |what: &str, got: Vec<f64>, expected: &dyn Fn(usize) -> [f64; 2]| {
                for (k, z) in got.chunks(2).enumerate() {
                    let error = (0..2).map(|part| (z[part] - expected(k)[part]).abs()).fold(0.0, f64::max);
                    let allowed = 4e-7 * f64::from(length);
                    assert!(error <= allowed, "{what}, length {length} on {name}: bin {k} is {z:?}");
                }
            };
            let (impulse, ones) = (complex(&|i| f32::from(u8::from(i == 0))), complex(&|_| 1.0));
            let whole = f64::from(length);
            is("impulse", run(&impulse, 0), &|_| [1.0, 0.0]);
            is("ones", run(&ones, 0), &|k| if k == 0 { [whole, 0.0] } else { [0.0; 2] });
            is("ones back", run(&ones, 1), &|k| if k == 0 { [1.0, 0.0] } else { [0.0; 2] });
            is("impulse back", run(&impulse, 1), &|_| [1.0 / whole, 0.0]);
            // An impulse at 1 turns by −2π k/L.
            let late = complex(&|i| f32::from(u8::from(i == 1)));
            is("late impulse", run(&late, 0), &|k| {
                let (sin, cos) = (-std::f64::consts::TAU * k as f64 / whole).sin_cos();
                [cos, sin]
            });
        }
    }
}

/// Twice the f32 errors of the method's table of grids (§2.3).
#[test]
fn grids_reach_the_tables_accuracy() {
    let devices = devices();
    let grids = [
        ([1, 7, 11], 2e-7),
        ([1, 14, 14], 2e-7),
        ([1, 16, 16], 3e-7),
        ([1, 32, 32], 2e-7),
        ([1, 13, 29], 2e-7),
        ([4, 6, 5], 1e-7),
        ([8, 14, 14], 2e-7),
        ([1, 1, 1], 2e-7),
        ([1, 5, 1], 2e-7),
        ([3, 1, 9], 2e-7),
        ([2, 3, 1], 2e-7),
    ];
    for (sides, error) in grids {
        let grid = grid(sides);
        let (n, t) = (grid.tokens() as u32, grid.table() as u32);
        let table = normal(3, t as usize).into_iter().map(f32::exp).collect();
        let table = HostTensor::f32([1, t], table).expect("a table");
        let x = HostTensor::f32([1, 1, n, 16], normal(4, 16 * n as usize)).expect("channels");
        let truth = product(&CpuBackend, &grid, &table, &x);
        for (name, backend) in &devices {
            let found =
                deviation(&product(backend.as_ref(), &grid, &table, &x), &truth).expect("equal shapes");
            println!("{sides:?} on {name:>11}: {:.1e} of {:.1e}", found.error, 2.0 * error);
            assert!(
                found.error <= 2.0 * error,
                "{name}, {sides:?}: error {:.2e} > {:.1e}; element {}: got {:e}, expected {:e}",
                found.error,
                2.0 * error,
                found.index,
                found.got,
                found.expected
            );
        }
    }
}

#[test]
fn every_short_length_embeds() {
    let devices = devices();
    for n in (4..131).step_by(9) {
        close(&devices, &grid([1, 1, n]), 4, 8e-7);
    }
}

#[test]
fn the_transposed_product_is_the_adjoint() {
    for (name, backend) in devices() {
        for sides in [[1, 1, 37], [1, 5, 7], [3, 4, 2]] {
            let forward = grid(sides);
            let (table, x) = operands(&forward, 4);
            let y = HostTensor::f32(x.shape(), uniform(x.data().len(), 3)).expect("the count is right");
            let dot = |a: &HostTensor, b: &HostTensor| {
                a.to_f64().iter().zip(b.to_f64()).map(|(a, b)| a * b).sum::<f64>()
            };
            let there = dot(&product(backend.as_ref(), &forward, &table, &x), &y);
            let back = dot(&x, &product(backend.as_ref(), &Grid { transpose: true, ..forward }, &table, &y));
            assert!(
                (there - back).abs() <= 1e-5 * there.abs().max(1.0),
                "{name}, {sides:?}: <Mx, y> = {there}, <x, Mᵀy> = {back}"
            );
        }
    }
}

struct File(BTreeMap<String, Array>);

impl File {
    fn open(name: &str) -> Self {
        let path = format!("{}/tests/data/masking/{name}.npz", env!("CARGO_MANIFEST_DIR"));
        Self(arrays::read(path).expect("the stored case is there"))
    }

    fn numbers(&self, name: &str) -> Vec<f64> {
        match &self.0[name].data {
            ArrayData::F32(v) => v.iter().map(|x| f64::from(*x)).collect(),
            ArrayData::F64(v) => v.clone(),
            other => panic!("{name} holds {}", other.dtype()),
        }
    }
}

#[test]
fn stored_products_are_met_by_every_device() {
    let mut devices = devices();
    devices.push(("cpu".into(), Arc::new(CpuBackend)));
    let cases = [
        ("table_1d", "n1_", [1, 1, 1], false),
        ("table_1d", "n2_", [1, 1, 2], false),
        ("table_1d", "n3_", [1, 1, 3], false),
        ("table_1d", "n17_", [1, 1, 17], false),
        ("table_1d", "n100_", [1, 1, 100], false),
        ("table_1d", "n257_", [1, 1, 257], false),
        ("table_2d", "n7x11_", [1, 7, 11], false),
        ("table_2d", "n14x14_", [1, 14, 14], false),
        ("table_2d", "n5x1_", [1, 5, 1], false),
        ("table_2d_13x29", "n13x29_", [1, 13, 29], false),
        ("table_3d", "n4x6x5_", [4, 6, 5], false),
        ("torus", "", [1, 6, 10], true),
    ];
    for (file, prefix, sides, torus) in cases {
        let stored = File::open(file);
        let grid = Grid { torus, ..grid(sides) };
        let single = |name: &str| {
            stored.numbers(&format!("{prefix}{name}")).iter().map(|x| *x as f32).collect::<Vec<_>>()
        };
        let (table, v) = (single("table"), single("V"));
        let (n, channels) = (grid.tokens() as u32, v.len() as u32 / grid.tokens() as u32);
        let table = HostTensor::f32([1, grid.table() as u32], table).expect("a table of the grid");
        let x = HostTensor::f32([1, 1, n, channels], v).expect("a row for each token");
        let expected =
            HostTensor::new(x.shape(), HostData::F64(stored.numbers(&format!("{prefix}MV")))).expect("as V");
        for (name, backend) in &devices {
            let found =
                deviation(&product(backend.as_ref(), &grid, &table, &x), &expected).expect("equal shapes");
            let allowed = if name == "cpu" { 1e-12 } else { 2e-6 };
            assert!(
                found.error <= allowed,
                "{file} {prefix}, {name}: error {:.2e} > {allowed:.0e} at {}",
                found.error,
                found.index
            );
        }
    }
}

#[test]
fn grids_are_embedded_in_lengths_that_hold_them() {
    for sides in [
        [1, 1, 1],
        [1, 1, 17],
        [1, 14, 14],
        [1, 64, 64],
        [4, 6, 5],
        [8, 14, 14],
        [1, 1, 65_537],
        [16, 56, 56],
    ] {
        let lengths = grid(sides).lengths();
        for (n, l) in sides.into_iter().zip(lengths) {
            assert!(l >= 2 * n - 1 && (l == 1 || plan::radices(l).is_some()), "{sides:?} in {lengths:?}");
        }
    }
    assert_eq!(grid([1, 64, 64]).lengths(), [1, 128, 128]);
    assert_eq!(
        Grid { torus: true, ..grid([1, 6, 10]) }.lengths()[1],
        6,
        "a torus whose side is 2^a 3^b needs no padding"
    );
    let space: u32 = grid([8, 14, 14]).lengths().iter().product();
    assert!(space <= 16 * 32 * 32, "threes are to keep 3-D padding small, got {space}");
}

#[test]
fn radices_multiply_to_the_length_or_refuse_it() {
    for length in 1..2000_u32 {
        let (mut rest, twos) = (length, length.trailing_zeros());
        rest >>= twos;
        while rest % 3 == 0 {
            rest /= 3;
        }
        match plan::radices(length) {
            Some(list) => assert_eq!(list.iter().product::<u32>(), length),
            None => assert_ne!(rest, 1, "{length} is 2^a 3^b"),
        }
    }
}

#[test]
fn tables_of_another_size_are_refused_with_the_numbers() {
    let mut graph = Graph::new("refused");
    let (x, table) = (grid([1, 3, 4]), grid([1, 4, 3]).table() as u32 + 1);
    let args = [
        Some(graph.input("x", [1, 1, 12, 4], DType::F32)),
        Some(graph.input("table", [1, table], DType::F32)),
        Some(graph.transient("out", [1, 1, 12, 4], DType::F32)),
    ];
    let error = graph
        .pass(&toeplitz_product::SPEC, &toeplitz_spectrum::Params::of(&x), &args)
        .expect_err("36 is not 35");
    assert!(error.to_string().contains("1 · 5 · 7") && error.to_string().contains("36"), "{error}");
}

/// Numerators and denominators of two heads.
fn sums(backend: &dyn Backend, grid: &Grid, r: u32, e: u32) -> HostTensor {
    let (n, t) = (grid.tokens() as u32, grid.table() as u32);
    let mut graph = Graph::new("sums");
    let shapes: [(&str, Shape); 4] = [
        ("q", [1, 2, n, r].into()),
        ("k", [1, 2, n, r].into()),
        ("v", [1, 2, n, e].into()),
        ("table", [2, t].into()),
    ];
    let inputs = shapes.map(|(name, shape)| (graph.input(name, shape, DType::F32), shape));
    let out = graph.transient("out", [1, 2, n, e + 1], DType::F32);
    let [q, k, v, table] = inputs.map(|(tensor, _)| Some(tensor));
    let params = toeplitz_spectrum::Params::of(grid);
    graph
        .pass(&toeplitz_attention_sums::SPEC, &params, &[q, k, v, table, None, Some(out)])
        .expect("the shapes fit");
    graph.output(out).expect("a transient");
    let mut program = backend.compile(&graph).expect("the graph compiles");
    for (number, (tensor, shape)) in inputs.into_iter().enumerate() {
        let data = uniform(shape.len() as usize, 10 + number as u64).iter().map(|x| x.abs()).collect();
        program
            .write(tensor, &HostTensor::f32(shape, data).expect("the count is right"))
            .expect("the data fits");
    }
    program.run().expect("the graph runs");
    program.read(out).expect("an output")
}

#[test]
fn slices_under_a_small_budget_give_the_same_results() {
    // One head of the plane takes 2 · 4 · 32 · 64 bytes per channel and more: heads, channels and features are cut.
    let grid = grid([1, 13, 29]);
    let (table, x) = operands(&grid, 22);
    let (truth, truth_of_sums) = (product(&CpuBackend, &grid, &table, &x), sums(&CpuBackend, &grid, 10, 6));
    for (name, adapter) in support::adapters_by_name() {
        for budget in [40_000, 150_000, 400_000] {
            let options = Options { memory_budget: Some(budget), ..Options::default() };
            let backend = WgpuBackend::on_adapter(&adapter, options).expect("the adapter gives a device");
            let found = deviation(&product(&backend, &grid, &table, &x), &truth).expect("equal shapes");
            assert!(
                found.error <= 6e-7,
                "{name}, {budget} bytes: error {:.2e} at {}",
                found.error,
                found.index
            );
            let found = deviation(&sums(&backend, &grid, 10, 6), &truth_of_sums).expect("equal shapes");
            assert!(
                found.error <= 1e-6,
                "{name}, {budget} bytes: sums err {:.2e} at {}",
                found.error,
                found.index
            );
        }
    }
}
