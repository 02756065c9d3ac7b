//! Exact attention against stored arrays, and at the sizes where the dispatcher must cut and fold.
//!
//! `data/laplacian/` holds inputs in f32 and results that two f64 computations agree on; the tolerances are four times
//! the error of a plain f32 evaluation, at least 1e-6.

#![cfg(feature = "cli")]

use std::collections::BTreeMap;
use std::sync::Arc;
use wgattn::arrays::{self, Array, ArrayData};
use wgattn::backend::wgpu::{Options, WgpuBackend};
use wgattn::backend::{Backend, cpu::CpuBackend};
use wgattn::graph::Graph;
use wgattn::kernel::Driver;
use wgattn::kernel::case::deviation;
use wgattn::kernels::attention::{attention_merge, exact_attention, exact_attention_whitened, key_moments};
use wgattn::tensor::{DType, HostData, HostTensor, Tensor};

mod support;

fn devices() -> Vec<(String, Arc<dyn Backend>)> {
    let mut list: Vec<(String, Arc<dyn Backend>)> = vec![("cpu".into(), Arc::new(CpuBackend))];
    list.extend(support::backends().into_iter().map(|(name, b)| (name, Arc::new(b) as Arc<dyn Backend>)));
    list
}

struct File(BTreeMap<String, Array>);

impl File {
    fn open(name: &str) -> Self {
        let path = format!("{}/tests/data/laplacian/{name}.npz", env!("CARGO_MANIFEST_DIR"));
        Self(arrays::read(path).expect("works"))
    }

    /// An array as `[1, 1, rows, cols]` (or `[len]` for one axis).
    fn tensor(&self, name: &str) -> HostTensor {
        let array = &self.0[name];
        let data = match &array.data {
            ArrayData::F32(v) => HostData::F32(v.clone()),
            ArrayData::F64(v) => HostData::F64(v.clone()),
            ArrayData::U8(v) => HostData::U8(v.clone()),
            other => panic!("{name} holds {}", other.dtype()),
        };
        let sizes: Vec<u32> = array.shape.iter().map(|&x| x as u32).collect();
        match sizes[..] {
            [rows, cols] => HostTensor::new([1, 1, rows, cols], data).expect("works"),
            [len] => HostTensor::new([len], data).expect("works"),
            _ => panic!("{name} has shape {sizes:?}"),
        }
    }
}

/// One pass with its inputs; returns the outputs in the order given.
fn run(
    backend: &dyn Backend,
    record: impl FnOnce(&mut Graph, &[Tensor]) -> Vec<Tensor>,
    inputs: &[(&str, HostTensor)],
) -> Vec<HostTensor> {
    let mut graph = Graph::new("exact");
    let tensors: Vec<Tensor> =
        inputs.iter().map(|(name, t)| graph.input(name, t.shape(), t.dtype())).collect();
    let outputs = record(&mut graph, &tensors);
    for output in &outputs {
        graph.output(*output).expect("works");
    }
    let mut program = backend.compile(&graph).expect("works");
    for (tensor, (_, data)) in tensors.iter().zip(inputs) {
        program.write(*tensor, data).expect("works");
    }
    program.run().expect("works");
    outputs.iter().map(|t| program.read(*t).expect("works")).collect()
}

/// Records exact attention of q, k, v, λ and masks into new tensors `out` and `log_sum`.
fn attention(graph: &mut Graph, x: [Option<Tensor>; 7], params: exact_attention::Params) -> Vec<Tensor> {
    let [q, k, v, lambda, key_mask, mask, query_mask] = x;
    let (rows, values) = (q.expect("works"), v.expect("works"));
    let [b, h, n, e] = [rows.dim(0), rows.dim(1), rows.dim(2), values.dim(3)];
    let out = graph.transient("out", [b, h, n, e], DType::F32);
    let log_sum = graph.transient("log_sum", [b, h, n], DType::F32);
    let args = [q, k, v, lambda, key_mask, mask, query_mask, Some(out), Some(log_sum)];
    graph.pass(&exact_attention::SPEC, &params, &args).expect("works");
    vec![out, log_sum]
}

/// Where the truth is below the f32 range, the result must be too.
fn close(what: &str, got: &HostTensor, truth: &HostTensor, tolerance: f64) {
    if truth.to_f64().iter().all(|x| x.abs() < 1e-30) {
        assert!(got.to_f64().iter().all(|x| x.abs() < 1e-30), "{what} is not 0");
        return;
    }
    let found = deviation(got, truth).expect("works");
    println!("{what}: {:.1e} of {tolerance:.0e}", found.error);
    assert!(
        found.error <= tolerance,
        "{what}: error {:.3e} > {tolerance:e} at element {}: got {:e}, expected {:e}",
        found.error,
        found.index,
        found.got,
        found.expected
    );
}

const FILES: [(&str, f64); 5] = [
    ("exact_257", 4e-6),
    ("exact_37x53_mask", 1e-6),
    ("exact_far", 2e-4),
    ("exact_1x1", 1e-6),
    ("exact_65_causal", 2e-6),
];

#[test]
fn sums_and_products_agree_with_the_stored_arrays() {
    for (device, backend) in devices() {
        for (name, tolerance) in FILES {
            let file = File::open(name);
            let d = file.tensor("q").shape().dims()[3];
            for (output, metric, normalise) in [
                ("O_softmax", 0, 0),
                ("O_lap_sum", 1, 0),
                ("O_gauss_sum", 2, 0),
                ("O_lap_none", 1, 1),
                ("O_gauss_none", 2, 1),
            ] {
                let lambda = if metric == 2 { "lambda_gauss" } else { "lambda_l1" };
                let mut inputs = vec![];
                for port in ["q", "k", "v"] {
                    inputs.push((port, file.tensor(port)));
                }
                inputs.push(("lambda", file.tensor(lambda)));
                if file.0.contains_key("mask") {
                    inputs.push(("mask", file.tensor("mask")));
                }
                let params = exact_attention::Params { scale: 1.0 / (d as f32).sqrt(), metric, normalise };
                let record = |graph: &mut Graph, t: &[Tensor]| {
                    let x = [Some(t[0]), Some(t[1]), Some(t[2]), Some(t[3]), None, t.get(4).copied(), None];
                    attention(graph, x, params)
                };
                let result = run(&*backend, record, &inputs);
                close(&format!("{device} {name} {output}"), &result[0], &file.tensor(output), tolerance);
                let empty = result[1].to_f32().iter().filter(|x| **x == attention_merge::EMPTY).count();
                let expected = match name {
                    "exact_37x53_mask" => 3,
                    _ => 0,
                };
                assert_eq!(empty, expected, "{device} {name}: rows without keys");
            }
        }
    }
}

#[test]
fn whitened_forms_agree_with_the_stored_arrays() {
    for (device, backend) in devices() {
        for (name, tolerance) in
            FILES.into_iter().filter(|(name, _)| !name.contains("mask") && !name.contains("causal"))
        {
            let file = File::open(name);
            for (output, metric, mode) in
                [("O_lap_row", 1, 0), ("O_lap_col", 1, 1), ("O_gauss_row", 2, 0), ("O_gauss_col", 2, 1)]
            {
                let lambda = if metric == 2 { "lambda_gauss" } else { "lambda_l1" };
                let inputs = [("q", "q"), ("k", "k"), ("v", "v"), ("lambda", lambda)]
                    .map(|(port, array)| (port, file.tensor(array)));
                let ew = file.tensor("ew").to_f32()[0];
                let params = exact_attention_whitened::Params { zs: 0.0, ew, metric, mode };
                let record = |graph: &mut Graph, t: &[Tensor]| {
                    let out = graph.transient("out", [1, 1, t[0].dim(2), t[2].dim(3)], DType::F32);
                    let args = [Some(t[0]), Some(t[1]), Some(t[2]), Some(t[3]), Some(out)];
                    graph.pass(&exact_attention_whitened::SPEC, &params, &args).expect("works");
                    vec![out]
                };
                let result = run(&*backend, record, &inputs);
                close(&format!("{device} {name} {output}"), &result[0], &file.tensor(output), tolerance);
            }
        }
    }
}

/// With the identity for values, `none` writes the kernel matrix itself.
#[test]
fn kernel_values_agree_with_the_stored_arrays() {
    for (device, backend) in devices() {
        let file = File::open("kernels");
        for case in 0..6 {
            for (metric, lambda, output) in [(1, "lambda_l1", "k_l1"), (2, "lambda_gauss", "k_gauss")] {
                let at = |name: &str| file.tensor(&format!("c{case}_{name}"));
                let m = at("y").shape().dims()[2];
                let identity = (0..m * m).map(|i| if i % (m + 1) == 0 { 1.0 } else { 0.0 }).collect();
                let inputs = [
                    ("q", at("x")),
                    ("k", at("y")),
                    ("v", HostTensor::f32([1, 1, m, m], identity).expect("works")),
                    ("lambda", at(lambda)),
                ];
                let params = exact_attention::Params { metric, normalise: 1, ..Default::default() };
                let record = |graph: &mut Graph, t: &[Tensor]| {
                    attention(
                        graph,
                        [Some(t[0]), Some(t[1]), Some(t[2]), Some(t[3]), None, None, None],
                        params,
                    )
                };
                let result = run(&*backend, record, &inputs);
                close(&format!("{device} c{case} {output}"), &result[0], &at(output), 2e-6);
            }
        }
    }
}

/// Numbers in [−1, 1) that differ from index to index.
fn numbers(shape: [u32; 4], seed: u32) -> HostTensor {
    let len = shape.iter().product::<u32>();
    let mix = |i: u32| {
        let x = (i ^ seed).wrapping_mul(0x9e37_79b9);
        let x = (x ^ (x >> 15)).wrapping_mul(0x85eb_ca6b);
        (x ^ (x >> 13)) as f32 / 2.0_f32.powi(31) - 1.0
    };
    HostTensor::f32(shape, (0..len).map(mix).collect()).expect("works")
}

/// C01: more heads than groups fit in one dimension.
#[test]
fn seventy_thousand_heads_of_one_token() {
    let shape = [1, 70_000, 1, 1];
    let inputs = [
        ("q", numbers(shape, 1)),
        ("k", numbers(shape, 2)),
        ("v", numbers(shape, 3)),
        ("lambda", HostTensor::f32([1], vec![2.0]).expect("works")),
    ];
    let params = exact_attention::Params { metric: 1, normalise: 1, ..Default::default() };
    let record = |graph: &mut Graph, t: &[Tensor]| {
        attention(graph, [Some(t[0]), Some(t[1]), Some(t[2]), Some(t[3]), None, None, None], params)
    };
    let truth = run(&CpuBackend, record, &inputs);
    for (device, backend) in devices() {
        let result = run(&*backend, record, &inputs);
        close(&format!("{device} values"), &result[0], &truth[0], 1e-6);
        close(&format!("{device} log_sum"), &result[1], &truth[1], 1e-6);
    }
}

/// C02: one head's keys and values exceed a binding, for every metric, with masks over all ranges.
#[test]
fn keys_beyond_one_binding_are_taken_in_ranges() {
    let (n, m, d) = (40, 4500, 64);
    let (q, k) = ([1, 2, n, d], [1, 2, m, d]);
    let keep = |i: u32, of: u32| u8::from(i.wrapping_mul(2_654_435_761) >> 16 & 7 < of);
    let mask = |shape: [u32; 4], of: u32| {
        let len = shape.iter().product::<u32>();
        HostTensor::new(shape, HostData::U8((0..len).map(|i| keep(i, of)).collect())).expect("works")
    };
    let key_mask = (0..2 * m).map(|i| keep(i, 6)).collect();
    let query_mask = (0..n).map(|i| u8::from(i % 7 != 3)).collect();
    let inputs = [
        ("q", numbers(q, 1)),
        ("k", numbers(k, 2)),
        ("v", numbers(k, 3)),
        ("lambda", HostTensor::f32([2], vec![8.0, 20.0]).expect("works")),
        ("key_mask", HostTensor::new([1, 2, m], HostData::U8(key_mask)).expect("works")),
        ("mask", mask([1, 1, n, m], 5)),
        ("query_mask", HostTensor::new([1, 1, n], HostData::U8(query_mask)).expect("works")),
    ];
    for (metric, normalise) in [(0, 0), (1, 0), (2, 1)] {
        let params = exact_attention::Params { scale: 0.125, metric, normalise };
        let record = |graph: &mut Graph, t: &[Tensor]| {
            attention(graph, [0, 1, 2, 3, 4, 5, 6].map(|i| Some(t[i])), params)
        };
        let truth = run(&CpuBackend, record, &inputs);
        for (device, adapter) in support::adapters_by_name() {
            let options = Options {
                storage_binding: Some(1 << 20),
                memory_budget: Some(64 << 10),
                ..Options::default()
            };
            let backend = WgpuBackend::on_adapter(&adapter, options).expect("works");
            let result = run(&backend, record, &inputs);
            // An average of 4500 random numbers is about 1/67 of their size, which magnifies every rounding so much.
            close(&format!("{device} metric {metric} values"), &result[0], &truth[0], 1e-5);
            // The masked queries' sentinel is the largest number by far, so the others are compared alone.
            let finite = |t: &HostTensor| {
                t.to_f64().into_iter().map(|x| if x < -1e38 { 0.0 } else { x }).collect::<Vec<_>>()
            };
            let empty = |t: &HostTensor| t.to_f64().iter().filter(|x| **x < -1e38).count();
            let same = |t: &HostTensor| HostTensor::new(t.shape(), HostData::F64(finite(t))).expect("works");
            assert_eq!(empty(&result[1]), empty(&truth[1]), "{device}: rows without keys");
            close(&format!("{device} metric {metric} log_sum"), &same(&result[1]), &same(&truth[1]), 2e-6);
        }
    }
}

/// C02: the queries, their masks and results exceed a binding, the keys do not; and the other way round for moments.
#[test]
fn rows_beyond_one_binding_are_taken_in_windows() {
    let (n, m, d) = (5000, 70, 64);
    let mask = (0..n * m).map(|i: u32| u8::from(i.wrapping_mul(2_654_435_761) >> 16 & 7 < 5)).collect();
    let inputs = [
        ("q", numbers([1, 2, n, d], 1)),
        ("k", numbers([1, 2, m, d], 2)),
        ("v", numbers([1, 2, m, d], 3)),
        ("lambda", HostTensor::f32([2], vec![8.0, 20.0]).expect("works")),
        ("mask", HostTensor::new([1, 1, n, m], HostData::U8(mask)).expect("works")),
    ];
    let params = exact_attention::Params { metric: 1, ..Default::default() };
    let record = |graph: &mut Graph, t: &[Tensor]| {
        let out = graph.transient("out", [1, 2, n, d], DType::F32);
        let args = [Some(t[0]), Some(t[1]), Some(t[2]), Some(t[3]), None, Some(t[4]), None, Some(out), None];
        graph.pass(&exact_attention::SPEC, &params, &args).expect("works");
        let moments = graph.transient("moments", [1, 2, n, 2], DType::F32);
        let args = [Some(t[1]), Some(t[0]), Some(t[3]), None, None, Some(moments)];
        graph.pass(&key_moments::SPEC, &key_moments::Params::default(), &args).expect("works");
        vec![out, moments]
    };
    let truth = run(&CpuBackend, record, &inputs);
    for (device, adapter) in support::adapters_by_name() {
        for variant in ["tile", "texture", "plain"] {
            let variants = format!("attention_rows/{variant},key_moments_part/{variant}");
            let options =
                Options { storage_binding: Some(1 << 20), variants: Some(variants), ..Options::default() };
            let backend = WgpuBackend::on_adapter(&adapter, options).expect("works");
            let result = run(&backend, record, &inputs);
            close(&format!("{device} {variant} values"), &result[0], &truth[0], 2e-6);
            close(&format!("{device} {variant} moments"), &result[1], &truth[1], 2e-6);
        }
    }
}

/// C02: the queries of one head exceed a binding, so their moments are taken in ranges that are joined, mask and shift too.
#[test]
fn moments_over_queries_beyond_one_binding_are_joined() {
    let (n, m, d) = (6000, 37, 64);
    let mask = (0..2 * n).map(|i: u32| u8::from(i.wrapping_mul(2_654_435_761) >> 16 & 7 < 5)).collect();
    let inputs = [
        ("q", numbers([1, 2, n, d], 1)),
        ("k", numbers([1, 2, m, d], 2)),
        ("lambda", HostTensor::f32([2], vec![8.0, 20.0]).expect("works")),
        ("query_mask", HostTensor::new([1, 2, n], HostData::U8(mask)).expect("works")),
        ("row_shift", numbers([1, 2, n, 2], 4)),
    ];
    let record = |graph: &mut Graph, t: &[Tensor]| {
        let moments = graph.transient("moments", [1, 2, m, 2], DType::F32);
        let args = [Some(t[0]), Some(t[1]), Some(t[2]), Some(t[3]), Some(t[4]), Some(moments)];
        graph.pass(&key_moments::SPEC, &key_moments::Params::default(), &args).expect("works");
        vec![moments]
    };
    let truth = run(&CpuBackend, record, &inputs);
    for (device, adapter) in support::adapters_by_name() {
        for variant in ["tile", "texture", "plain"] {
            let variants = Some(format!("key_moments_part/{variant}"));
            let options = Options { storage_binding: Some(1 << 20), variants, ..Options::default() };
            let backend = WgpuBackend::on_adapter(&adapter, options).expect("works");
            let result = run(&backend, record, &inputs);
            close(&format!("{device} {variant}"), &result[0], &truth[0], 2e-6);
        }
    }
}

/// C16: a GPU that grants too little workgroup memory for the tiles gets the kernel without any.
#[test]
fn eight_kibibytes_of_workgroup_memory_suffice() {
    let shape = [1, 2, 70, 8];
    let inputs = [("q", numbers(shape, 1)), ("k", numbers(shape, 2)), ("v", numbers(shape, 3))];
    let record = |graph: &mut Graph, t: &[Tensor]| {
        attention(
            graph,
            [Some(t[0]), Some(t[1]), Some(t[2]), None, None, None, None],
            exact_attention::Params::default(),
        )
    };
    let truth = run(&CpuBackend, record, &inputs);
    for (device, adapter) in support::adapters_by_name() {
        let options =
            Options { driver: Some(Driver::Gpu), workgroup_bytes: Some(8192), ..Options::default() };
        let backend = WgpuBackend::on_adapter(&adapter, options).expect("works");
        let result = run(&backend, record, &inputs);
        close(&format!("{device} values"), &result[0], &truth[0], 2e-6);
    }
}

#[test]
fn missing_bandwidths_and_bad_choices_are_named() {
    let mut graph = Graph::new("refused");
    let x = graph.input("x", [1, 2, 3, 4], DType::F32);
    let lambda = graph.input("lambda", [3], DType::F32);
    let out = graph.transient("out", [1, 2, 3, 4], DType::F32);
    let mut refused = |lambda, params: exact_attention::Params| {
        let args = [Some(x), Some(x), Some(x), lambda, None, None, None, Some(out), None];
        graph.pass(&exact_attention::SPEC, &params, &args).unwrap_err().to_string()
    };
    let laplacian = exact_attention::Params { metric: 1, ..Default::default() };
    assert!(refused(None, laplacian).contains("needs `lambda` [h] or [1]"));
    assert!(refused(Some(lambda), laplacian).contains("`lambda` has 3 numbers; wants h = 2 or 1"));
    assert!(refused(None, exact_attention::Params { metric: 7, ..Default::default() }).contains("got 7"));
}

/// States of all heads exceed the memory budget, so batch elements come one after the other.
#[test]
fn states_stay_within_the_memory_budget() {
    let shape = [3, 2, 40, 12];
    let key_mask = (0..2 * 40).map(|i| u8::from(i % 3 != 0)).collect();
    let inputs = [
        ("q", numbers(shape, 1)),
        ("k", numbers(shape, 2)),
        ("v", numbers(shape, 3)),
        ("lambda", HostTensor::f32([2], vec![2.0, 5.0]).unwrap()),
        ("key_mask", HostTensor::new([1, 2, 40], HostData::U8(key_mask)).unwrap()),
    ];
    let params = exact_attention::Params { metric: 1, ..Default::default() };
    let record = |graph: &mut Graph, t: &[Tensor]| {
        attention(graph, [Some(t[0]), Some(t[1]), Some(t[2]), Some(t[3]), Some(t[4]), None, None], params)
    };
    let truth = run(&CpuBackend, record, &inputs);
    for (device, adapter) in support::adapters_by_name() {
        for budget in [5000, 10_000] {
            let options = Options { memory_budget: Some(budget), ..Options::default() };
            let backend = WgpuBackend::on_adapter(&adapter, options).unwrap();
            let result = run(&backend, record, &inputs);
            close(&format!("{device} values"), &result[0], &truth[0], 2e-6);
            close(&format!("{device} log_sum"), &result[1], &truth[1], 2e-6);
        }
    }
}

#[test]
fn nothing_at_all_is_no_error() {
    let mut devices: Vec<_> = devices();
    for (device, adapter) in support::adapters_by_name() {
        let options = Options { storage_binding: Some(1 << 20), ..Options::default() };
        devices.push((device, Arc::new(WgpuBackend::on_adapter(&adapter, options).unwrap())));
    }
    for (device, backend) in devices {
        for (b, n, m) in [(1, 0, 5000), (0, 7, 5000), (1, 7, 0), (1, 0, 0)] {
            let inputs = [
                ("q", numbers([b, 2, n, 64], 1)),
                ("k", numbers([b, 2, m, 64], 2)),
                ("v", numbers([b, 2, m, 64], 3)),
            ];
            let record = |graph: &mut Graph, t: &[Tensor]| {
                attention(
                    graph,
                    [Some(t[0]), Some(t[1]), Some(t[2]), None, None, None, None],
                    exact_attention::Params::default(),
                )
            };
            let result = run(&*backend, record, &inputs);
            assert!(result[0].to_f32().iter().all(|x| *x == 0.0), "{device}: b = {b}, n = {n}, m = {m}");
            assert!(
                result[1].to_f32().iter().all(|x| *x == attention_merge::EMPTY),
                "{device}: b = {b}, n = {n}, m = {m}"
            );
        }
    }
}
