//! Masked linear attention, pair by pair, against stored arrays, against its own special cases, and where rounding noise must be
//! found.
//!
//! `data/masking/` holds inputs in f32 and results that two f64 computations agree on; the tolerances are four times the error
//! of a plain f32 evaluation, at least 1e-6.

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};
use wgattn::arrays::{self, Array, ArrayData};
use wgattn::backend::{Backend, cpu::CpuBackend};
use wgattn::graph::Graph;
use wgattn::kernels::mask::relative::Params;
use wgattn::kernels::mask::{
    choose_rows, column_norms, noise_guard, relative_attention, relative_map, relative_rows,
};
use wgattn::mask::RelativeTable;
use wgattn::tensor::{DType, HostData, HostTensor, Tensor};

mod support;

type Device = (String, Arc<dyn Backend>);

/// The CPU and every adapter, opened once.
fn devices() -> Vec<Device> {
    static DEVICES: OnceLock<Vec<Device>> = OnceLock::new();
    let open = || {
        let adapters = support::backends().into_iter();
        let adapters = adapters.map(|(name, b)| (name, Arc::new(b) as Arc<dyn Backend>));
        std::iter::once(("cpu".into(), Arc::new(CpuBackend) as Arc<dyn Backend>)).chain(adapters).collect()
    };
    DEVICES.get_or_init(open).clone()
}

struct File(BTreeMap<String, Array>);

impl File {
    fn open(name: &str) -> Self {
        let path = format!("{}/tests/data/masking/{name}.npz", env!("CARGO_MANIFEST_DIR"));
        Self(arrays::read(path).expect("the file reads"))
    }

    fn numbers(&self, name: &str) -> Vec<f64> {
        match &self.0[name].data {
            ArrayData::F32(v) => v.iter().map(|&x| f64::from(x)).collect(),
            ArrayData::F64(v) => v.clone(),
            ArrayData::I32(v) => v.iter().map(|&x| f64::from(x)).collect(),
            ArrayData::U8(v) => v.iter().map(|&x| f64::from(x)).collect(),
            other => panic!("{name} holds {}", other.dtype()),
        }
    }

    /// A matrix as one head.
    fn head(&self, name: &str) -> HostTensor {
        let shape = &self.0[name].shape;
        let numbers = self.numbers(name).into_iter().map(|x| x as f32).collect();
        HostTensor::f32([1, 1, shape[0] as u32, shape[1] as u32], numbers).expect("a matrix")
    }

    fn table(&self, name: &str) -> HostTensor {
        let numbers: Vec<f32> = self.numbers(name).into_iter().map(|x| x as f32).collect();
        HostTensor::f32([1, numbers.len() as u32], numbers).expect("a table")
    }
}

/// Inputs of one masked attention.
#[derive(Clone)]
struct Inputs {
    q: HostTensor,
    k: HostTensor,
    v: HostTensor,
    table: Option<HostTensor>,
    key_mask: Option<HostTensor>,
    query_mask: Option<HostTensor>,
    segment: Option<HostTensor>,
    params: Params,
}

impl Inputs {
    fn of(file: &File, prefix: &str, params: Params) -> Self {
        let name = |x: &str| format!("{prefix}{x}");
        let table = file.0.contains_key(&name("table")).then(|| file.table(&name("table")));
        let [q, k, v] = ["Q", "K", "V"].map(|x| file.head(&name(x)));
        Self { q, k, v, table, key_mask: None, query_mask: None, segment: None, params }
    }

    /// The inputs in a graph, with what is to be written into each.
    fn declare(&self, graph: &mut Graph, writes: &mut Vec<(Tensor, HostTensor)>) -> Declared {
        let mut input = |name: &str, data: &HostTensor| {
            let tensor = graph.input(name, data.shape(), data.dtype());
            writes.push((tensor, data.clone()));
            tensor
        };
        Declared {
            q: input("q", &self.q),
            k: input("k", &self.k),
            v: input("v", &self.v),
            table: self.table.as_ref().map(|t| input("table", t)),
            key_mask: self.key_mask.as_ref().map(|t| input("key_mask", t)),
            query_mask: self.query_mask.as_ref().map(|t| input("query_mask", t)),
            segment: self.segment.as_ref().map(|t| input("segment", t)),
        }
    }
}

struct Declared {
    q: Tensor,
    k: Tensor,
    v: Tensor,
    table: Option<Tensor>,
    key_mask: Option<Tensor>,
    query_mask: Option<Tensor>,
    segment: Option<Tensor>,
}

/// Runs a graph and returns its outputs.
fn outputs(
    backend: &dyn Backend,
    mut graph: Graph,
    writes: &[(Tensor, HostTensor)],
    outputs: &[Tensor],
) -> Vec<HostTensor> {
    for output in outputs {
        graph.output(*output).expect("a transient");
    }
    let mut program = backend.compile(&graph).expect("the graph compiles");
    for (tensor, data) in writes {
        program.write(*tensor, data).expect("the input fits");
    }
    program.run().expect("the program runs");
    outputs.iter().map(|t| program.read(*t).expect("the output reads")).collect()
}

/// Finished rows, and the sums with their denominators.
fn attend(backend: &dyn Backend, inputs: &Inputs) -> (HostTensor, HostTensor) {
    let (mut graph, mut writes) = (Graph::new("masked"), Vec::new());
    let x = inputs.declare(&mut graph, &mut writes);
    let [b, h, n, e] = [x.q.dim(0), x.q.dim(1), x.q.dim(2), x.v.dim(3)];
    let mut record = |name: &str, columns: u32| {
        let out = graph.transient(name, [b, h, n, columns], DType::F32);
        let args = [Some(x.q), Some(x.k), Some(x.v), x.table, x.key_mask, x.query_mask, x.segment, Some(out)];
        graph.pass(&relative_attention::SPEC, &inputs.params, &args).expect("the shapes fit");
        out
    };
    let both = [record("out", e), record("sums", e + 1)];
    let mut got = outputs(backend, graph, &writes, &both);
    let sums = got.pop().expect("two outputs");
    (got.pop().expect("two outputs"), sums)
}

/// Rows `list` of the finished attention.
fn some_rows(backend: &dyn Backend, inputs: &Inputs, rows: &[u32]) -> Vec<f64> {
    let (mut graph, mut writes) = (Graph::new("rows"), Vec::new());
    let x = inputs.declare(&mut graph, &mut writes);
    let words = std::iter::once(rows.len() as u32).chain(rows.iter().copied()).collect();
    let list = HostTensor::new([rows.len() as u32 + 1], HostData::U32(words)).expect("a list");
    let listed = graph.input("list", list.shape(), DType::U32);
    writes.push((listed, list));
    let out = graph.transient("out", [rows.len() as u32, x.v.dim(3)], DType::F32);
    let args =
        [Some(x.q), Some(x.k), Some(x.v), x.table, x.key_mask, x.segment, Some(listed), None, Some(out)];
    graph.pass(&relative_rows::SPEC, &inputs.params, &args).expect("the shapes fit");
    outputs(backend, graph, &writes, &[out])[0].to_f64()
}

/// Weights of queries `rows`, `[n, rows]`, divided by their sums.
fn map(backend: &dyn Backend, inputs: &Inputs, rows: &[u32]) -> Vec<f64> {
    let (mut graph, mut writes) = (Graph::new("map"), Vec::new());
    let x = inputs.declare(&mut graph, &mut writes);
    let list = HostTensor::new([rows.len() as u32], HostData::U32(rows.to_vec())).expect("a list");
    let listed = graph.input("rows", list.shape(), DType::U32);
    writes.push((listed, list));
    let out = graph.transient("out", [1, 1, x.q.dim(2), rows.len() as u32], DType::F32);
    let args = [Some(x.q), Some(x.k), x.table, x.key_mask, x.segment, Some(listed), Some(out)];
    let params = relative_map::Params::of(inputs.params, false);
    graph.pass(&relative_map::SPEC, &params, &args).expect("the shapes fit");
    outputs(backend, graph, &writes, &[out])[0].to_f64()
}

/// Largest difference relative to the largest expected magnitude.
fn close(what: &str, got: &[f64], expected: &[f64], allowed: f64) {
    assert_eq!(got.len(), expected.len(), "{what}");
    let largest = expected.iter().fold(0.0_f64, |m, x| m.max(x.abs()));
    let scale = if largest < 1e-30 { 1.0 } else { largest };
    for (i, (got, expected)) in got.iter().zip(expected).enumerate() {
        let error = (got - expected).abs() / scale;
        assert!(
            error <= allowed,
            "{what}: element {i} is {got:e}, expected {expected:e}: {error:.2e} > {allowed:e}"
        );
    }
}

fn denominators(sums: &HostTensor) -> Vec<f64> {
    let width = sums.shape().dims()[3] as usize;
    sums.to_f64().chunks(width).map(|row| row[width - 1]).collect()
}

/// Compares the whole attention, its denominators and single rows with a file's `out` and `den`.
fn agrees(what: &str, inputs: &Inputs, out: &[f64], den: Option<&[f64]>, tolerance: f64) {
    for (device, backend) in devices() {
        let what = format!("{what} on {device}");
        let (rows, sums) = attend(&*backend, inputs);
        close(&what, &rows.to_f64(), out, tolerance);
        if let Some(den) = den {
            close(&format!("{what}, denominators"), &denominators(&sums), den, tolerance);
        }
        if inputs.query_mask.is_none() {
            let n = inputs.q.shape().dims()[2];
            let all: Vec<u32> = (0..n).rev().collect();
            let e = out.len() / n as usize;
            let turned: Vec<f64> = out.chunks(e).rev().flatten().copied().collect();
            close(&format!("{what}, listed rows"), &some_rows(&*backend, inputs, &all), &turned, tolerance);
        }
    }
}

/// A grid of these sides.
fn grid(sides: [u32; 3]) -> Params {
    Params { n1: sides[0], n2: sides[1], n3: sides[2], ..Params::default() }
}

fn stored(name: &str, prefix: &str, params: Params, tolerance: f64) {
    let file = File::open(name);
    let inputs = Inputs::of(&file, prefix, params);
    let (out, den) = (file.numbers(&format!("{prefix}Out")), file.numbers(&format!("{prefix}den")));
    agrees(&format!("{name} {prefix}"), &inputs, &out, Some(&den), tolerance);
}

#[test]
fn tables_of_sequences_agree_with_the_stored_arrays() {
    for n in [1, 2, 3, 17, 100, 257] {
        stored("table_1d", &format!("n{n}_"), grid([1, 1, n]), 3e-6);
    }
    stored("table_1d_spike", "n31_", grid([1, 1, 31]), 1e-6);
}

#[test]
fn windows_agree_whether_or_not_their_support_is_told() {
    for n in [23, 64] {
        stored("table_1d_window", &format!("n{n}_"), grid([1, 1, n]), 1e-6);
        // −6 ≤ i − j ≤ −2.
        let told = Params { first3: n - 1 - 6, last3: n - 1 - 2, ..grid([1, 1, n]) };
        stored("table_1d_window", &format!("n{n}_"), told, 1e-6);
    }
}

#[test]
fn the_support_of_a_table_is_found() {
    let window = File::open("table_1d_window").table("n64_table").to_f32();
    let found = Params::default().with_support(&window, 64);
    assert_eq!((found.first1, found.last1, found.first2, found.last2), (0, 0, 0, 0));
    assert_eq!((found.first3, found.last3), (63 - 6, 63 - 2));
    let two_heads = [window, vec![0.0; 126], vec![1.0]].concat();
    let found = Params::default().with_support(&two_heads, 64);
    assert_eq!((found.first3, found.last3), (63 - 6, 126));
    // One entry of a torus of 2 x 3, none of a line.
    let torus = Params { torus: 6, ..grid([1, 2, 3]) }.with_support(&[0.0, 0.0, 0.0, 0.0, 0.0, 2.0], 0);
    assert_eq!((torus.first2, torus.last2, torus.first3, torus.last3), (1, 1, 2, 2));
    let nothing = Params::default().with_support(&[0.0; 5], 3);
    assert!(nothing.first3 > nothing.last3);
}

#[test]
fn tables_of_grids_agree_with_the_stored_arrays() {
    stored("table_2d", "n7x11_", grid([1, 7, 11]), 2e-6);
    stored("table_2d", "n14x14_", grid([1, 14, 14]), 2e-6);
    stored("table_2d", "n5x1_", grid([1, 5, 1]), 2e-6);
    stored("table_2d_13x29", "n13x29_", grid([1, 13, 29]), 2e-6);
    stored("table_2d_delta", "n4x5_", grid([1, 4, 5]), 1e-6);
    stored("table_3d", "n4x6x5_", grid([4, 6, 5]), 2e-6);
    stored("torus", "", Params { torus: 6, ..grid([1, 6, 10]) }, 2e-6);
    stored("cls_border", "", Params { globals: 1, ..grid([1, 7, 7]) }, 1e-6);
}

#[test]
fn packed_sequences_agree_with_the_stored_arrays() {
    for name in ["packing_6", "packing_10"] {
        let file = File::open(name);
        let lengths: Vec<u32> = file.numbers("lengths").into_iter().map(|x| x as u32).collect();
        let longest = lengths.iter().copied().max().expect("segments");
        let mut inputs = Inputs::of(&file, "", grid([1, 1, longest]));
        let mut starts = vec![0];
        lengths.iter().for_each(|l| starts.push(starts[starts.len() - 1] + l));
        // Left-over rows see nothing.
        let bounds = |s: f64| if s < 0.0 { [0, 0] } else { [starts[s as usize], starts[s as usize + 1]] };
        let words: Vec<u32> = file.numbers("segment").into_iter().flat_map(bounds).collect();
        let rows = words.len() as u32 / 2;
        inputs.segment = Some(HostTensor::new([rows, 2], HostData::U32(words)).expect("bounds"));
        agrees(name, &inputs, &file.numbers("Out_table"), Some(&file.numbers("den_table")), 1e-6);
    }
}

#[test]
fn padded_tokens_may_hold_anything() {
    for name in ["padding", "padding_all"] {
        let file = File::open(name);
        let mut inputs = Inputs::of(&file, "", Params::default());
        let keep: Vec<u8> = file.numbers("keep").into_iter().map(|x| x as u8).collect();
        let mask = HostTensor::new([1, 1, keep.len() as u32], HostData::U8(keep)).expect("a mask");
        (inputs.key_mask, inputs.query_mask) = (Some(mask.clone()), Some(mask));
        let den = file.0.contains_key("den").then(|| file.numbers("den"));
        agrees(name, &inputs, &file.numbers("Out"), den.as_deref(), 1e-6);
    }
}

/// Numbers in [0.05, 1.05) from a seed.
fn positive(seed: u32, shape: [u32; 4]) -> HostTensor {
    let numbers = support::random(seed, shape).to_f32().into_iter().map(|x| 0.55 + 0.5 * x).collect();
    HostTensor::f32(shape, numbers).expect("one number per element")
}

fn sample(n: u32, r: u32, e: u32, table: Vec<f32>, params: Params) -> Inputs {
    let entries = table.len() as u32;
    Inputs {
        q: positive(1, [1, 1, n, r]),
        k: positive(2, [1, 1, n, r]),
        v: support::random(3, [1, 1, n, e]),
        table: Some(HostTensor::f32([1, entries], table).expect("a table")),
        key_mask: None,
        query_mask: None,
        segment: None,
        params,
    }
}

/// The definition for a sequence: every pair with |i − j| ≤ `reach`, in f64.
fn by_definition(inputs: &Inputs, reach: usize) -> Vec<f64> {
    let [q, k, v] = [&inputs.q, &inputs.k, &inputs.v].map(HostTensor::to_f64);
    let table = inputs.table.as_ref().expect("a table").to_f64();
    let (n, r) = (inputs.q.shape().dims()[2] as usize, inputs.q.shape().dims()[3] as usize);
    let e = inputs.v.shape().dims()[3] as usize;
    let mut out = vec![0.0; n * e];
    for i in 0..n {
        let (mut total, row) = (0.0, &mut out[i * e..][..e]);
        for j in i.saturating_sub(reach)..(i + reach + 1).min(n) {
            let product: f64 = (0..r).map(|c| q[i * r + c] * k[j * r + c]).sum();
            let weight = table[i + n - 1 - j] * product;
            total += weight;
            row.iter_mut().zip(&v[j * e..]).for_each(|(y, x)| *y += weight * x);
        }
        row.iter_mut().for_each(|y| *y /= total);
    }
    out
}

/// Case C25, the sizes on which Fourier transforms have failed others: what the Fourier path is compared with must be right.
#[test]
fn awkward_lengths_agree_with_the_definition() {
    for n in [1, 2, 3, 5, 257, 606, 1208, 1515] {
        let table = (0..2 * n - 1).map(|i| 0.01 + (i as f32 * 0.37).sin().abs()).collect();
        let inputs = sample(n, 4, 4, table, Params::default());
        let truth = by_definition(&inputs, n as usize);
        for (device, backend) in devices() {
            close(&format!("{n} tokens on {device}"), &attend(&*backend, &inputs).0.to_f64(), &truth, 2e-5);
        }
    }
}

#[test]
fn a_window_over_many_tokens_visits_only_itself() {
    for n in [4095, 4096, 4097, 65_537] {
        let table =
            (0..2 * n - 1).map(|i: u32| if i.abs_diff(n - 1) <= 8 { 0.5 + (i % 7) as f32 } else { 0.0 });
        let params = Params { first3: n - 9, last3: n + 7, ..Params::default() };
        let inputs = sample(n, 4, 4, table.collect(), params);
        let truth = by_definition(&inputs, 8);
        for (device, backend) in devices() {
            close(&format!("{n} tokens on {device}"), &attend(&*backend, &inputs).0.to_f64(), &truth, 2e-5);
        }
    }
}

/// Case C26: an impulse moves values by its offset, and nothing is scaled.
#[test]
fn an_impulse_moves_values() {
    let n = 41;
    let table = (0..2 * n - 1).map(|i| if i == n - 1 + 3 { 2.5 } else { 0.0 }).collect();
    let inputs = sample(n, 5, 3, table, Params::default());
    let v = inputs.v.to_f64();
    let moved: Vec<f64> = (0..n as usize * 3).map(|i| if i < 9 { 0.0 } else { v[i - 9] }).collect();
    agrees("impulse", &inputs, &moved, None, 1e-6);
}

#[test]
fn equal_values_stay_and_a_constant_table_is_no_mask() {
    let n = 60;
    let mut inputs = sample(n, 8, 4, vec![0.75; 2 * n as usize - 1], Params::default());
    // Linear attention by its own formula: q · Σ k vᵀ / q · Σ k.
    let [q, k, v] = [&inputs.q, &inputs.k, &inputs.v].map(HostTensor::to_f64);
    let mut state = [0.0; 8 * 5];
    for j in 0..n as usize {
        for c in 0..8 {
            for (col, sum) in state[5 * c..5 * c + 5].iter_mut().enumerate() {
                *sum += k[8 * j + c] * if col == 4 { 1.0 } else { v[4 * j + col] };
            }
        }
    }
    let row = |i: usize| {
        let sum = |col: usize| (0..8).map(|c| q[8 * i + c] * state[5 * c + col]).sum::<f64>();
        [0, 1, 2, 3].map(|col| sum(col) / sum(4))
    };
    let unmasked: Vec<f64> = (0..n as usize).flat_map(row).collect();
    agrees("constant table", &inputs, &unmasked, None, 2e-6);
    inputs.v = HostTensor::f32([1, 1, n, 4], vec![1.0; 4 * n as usize]).expect("ones");
    agrees("equal values", &inputs, &vec![1.0; 4 * n as usize], None, 2e-6);
}

#[test]
fn a_map_holds_the_weights_that_make_the_row() {
    let n = 99;
    let table = (0..197).map(|i| 0.1 + (i % 5) as f32).collect();
    let params = Params { globals: 0, first3: 60, last3: 140, ..Params::default() };
    let inputs = sample(n, 4, 4, table, params);
    let v = inputs.v.to_f64();
    for (device, backend) in devices() {
        let out = attend(&*backend, &inputs).0.to_f64();
        let rows = [0, 98, 50];
        let weights = map(&*backend, &inputs, &rows);
        for (number, &row) in rows.iter().enumerate() {
            let sum: f64 = (0..99).map(|j| weights[3 * j + number]).sum();
            assert!((sum - 1.0).abs() < 1e-5, "row {row} on {device}: weights sum to {sum}");
            let made = |c: usize| (0..99).map(|j| weights[3 * j + number] * v[4 * j + c]).sum();
            let made: Vec<f64> = (0..4).map(made).collect();
            close(&format!("row {row} on {device}"), &made, &out[4 * row as usize..][..4], 5e-6);
        }
    }
}

/// What a Fourier multiply would do to rows of very different sizes: the same absolute error everywhere.
#[test]
fn rows_that_noise_may_spoil_are_computed_again() {
    let (n, r, e) = (300_u32, 8_u32, 4_u32);
    let table: Vec<f32> =
        (0..2 * n - 1).map(|i| (-(f64::from(i) - f64::from(n - 1)).abs()).exp() as f32).collect();
    let mut inputs = sample(n, r, e, table.clone(), Params::default());
    // Keys of the second half are ten million times smaller, and one key in eight is left out.
    let keys = inputs.k.to_f32();
    let small = |i: usize| if i / r as usize >= 150 { 1e-7 } else { 1.0 };
    let keys = keys.iter().enumerate().map(|(i, x)| x * small(i)).collect();
    inputs.k = HostTensor::f32([1, 1, n, r], keys).expect("keys");
    let keep = (0..n).map(|i| u8::from(i % 8 != 5)).collect();
    inputs.key_mask = Some(HostTensor::new([1, 1, n], HostData::U8(keep)).expect("a mask"));
    let (truth, sums) = attend(&CpuBackend, &inputs);
    let norm = table.iter().map(|x| f64::from(*x) * f64::from(*x)).sum::<f64>().sqrt() as f32;
    let noise = 0.3 * 2.0_f32.powi(-24) * 10.0 * norm * 8.0 * 12.0;
    let jitter = support::random(9, [1, 1, n, e + 1]).to_f32();
    let noisy: Vec<f32> = sums.to_f32().iter().zip(&jitter).map(|(x, y)| x + noise * y).collect();
    let noisy = HostTensor::f32([1, 1, n, e + 1], noisy).expect("sums");
    for (device, backend) in devices() {
        let (mut graph, mut writes) = (Graph::new("guard"), Vec::new());
        let x = inputs.declare(&mut graph, &mut writes);
        let spoilt = graph.input("sums", noisy.shape(), DType::F32);
        writes.push((spoilt, noisy.clone()));
        let norms = column_norms::record(&mut graph, "norms", x.k, x.key_mask).expect("the shapes fit");
        let table_norm = graph.constant("table norm", HostTensor::f32([1], vec![norm]).expect("a number"));
        let slot = graph.transient("slot", [1, 1, n], DType::U32);
        let list = graph.transient("list", [n + 1], DType::U32);
        let dispatch = graph.transient("dispatch", [3], DType::U32);
        let status = graph.transient("status", [2], DType::U32);
        let args = [Some(spoilt), Some(x.q), Some(norms), Some(table_norm), None, Some(slot), Some(list)];
        let args = [&args[..], &[Some(dispatch), Some(status)]].concat();
        let params = noise_guard::Params { log2_length: 10.0, ..noise_guard::Params::default() };
        graph.pass(&noise_guard::SPEC, &params, &args).expect("the shapes fit");
        let again = graph.transient("rows", [n, e], DType::F32);
        let args = [
            Some(x.q),
            Some(x.k),
            Some(x.v),
            x.table,
            x.key_mask,
            x.segment,
            Some(list),
            Some(dispatch),
            Some(again),
        ];
        graph.pass(&relative_rows::SPEC, &inputs.params, &args).expect("the shapes fit");
        let out = graph.transient("out", [1, 1, n, e], DType::F32);
        let args = [Some(spoilt), Some(slot), Some(again), None, Some(out)];
        graph.pass(&choose_rows::SPEC, &wgattn::kernel::NoParams {}, &args).expect("the shapes fit");
        let got = outputs(&*backend, graph, &writes, &[out, status, list, dispatch]);
        let words = |t: &HostTensor| t.to_f64().into_iter().map(|x| x as u32).collect::<Vec<_>>();
        let (status, list, dispatch) = (words(&got[1]), words(&got[2]), words(&got[3]));
        println!("{device}: {} of {} rows computed again", status[0], status[1]);
        assert_eq!(status[1], n, "{device}");
        // Most rows of the small keys must be listed, and most of the others must not.
        assert!((120..200).contains(&status[0]), "{device}: {status:?}");
        assert_eq!(list[0], status[0], "{device}");
        assert_eq!(dispatch, [status[0], 1, 1], "{device}");
        assert!(list[1..=status[0] as usize].is_sorted_by(|a, b| a < b), "{device}: {list:?}");
        close(&format!("guarded on {device}"), &got[0].to_f64(), &truth.to_f64(), 5e-5);
    }
}

/// An additive bias of softmax attention is a mask, its exponential: T5's buckets and ALiBi, against stored softmax outputs.
#[test]
fn biases_are_masks_of_their_exponentials() {
    let file = File::open("additive_bias");
    let (n, heads, d, e) = (150_u32, 2_u32, 6, 3);
    let (q, k, v) = (file.numbers("q"), file.numbers("k"), file.numbers("v"));
    let numbers = |name: &str| file.numbers(name).into_iter().map(|x| x as f32).collect::<Vec<f32>>();
    let t5 = RelativeTable::t5(n, 32, heads, 128, &numbers("t5_table")).expect("a table");
    let stored = file.numbers("t5_mask_table");
    for (at, (got, expected)) in t5.values().iter().zip(&stored).enumerate() {
        assert!((f64::from(*got) - expected).abs() < 1e-6, "entry {at}: {got} against {expected}");
    }
    let alibi = RelativeTable::alibi(n, &numbers("alibi_slopes")).expect("a table");
    let causal = alibi.times(&RelativeTable::causal(&[n]).expect("a table")).expect("a table");
    for (table, name) in [(&t5, "Out_t5"), (&alibi, "Out_alibi"), (&causal, "Out_alibi_causal")] {
        let expected = file.numbers(name);
        for (head, i) in (0..heads as usize).flat_map(|h| (0..n as usize).map(move |i| (h, i))) {
            let row = |t: &[f64], token: usize, width: usize| {
                t[(head * n as usize + token) * width..][..width].to_vec()
            };
            let weight = |j: usize| {
                let dot: f64 = row(&q, i, d).iter().zip(row(&k, j, d)).map(|(x, y)| x * y).sum();
                (dot / (d as f64).sqrt()).exp() * f64::from(table.weight(head as u32, i as u32, j as u32))
            };
            let total: f64 = (0..n as usize).map(weight).sum();
            for (c, wanted) in row(&expected, i, e).into_iter().enumerate() {
                let got = (0..n as usize).map(|j| weight(j) * row(&v, j, e)[c]).sum::<f64>() / total;
                assert!((got - wanted).abs() < 3e-6, "{name}, head {head}, row {i}: {got} against {wanted}");
            }
        }
    }
}
