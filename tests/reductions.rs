//! Sums and scans beyond the parity cases: accuracy that does not rest on compensated arithmetic, subgroups of any width,
//! and rows too long for a driver's loops.

use std::sync::Arc;
use wgattn::backend::Backend;
use wgattn::graph::Graph;
use wgattn::kernel::KernelSpec;
use wgattn::kernels::linalg::{reduce_sum, scan};
use wgattn::tensor::{DType, HostTensor};

mod support;

/// Runs a kernel of rows on one row.
fn run(backend: &dyn Backend, spec: &'static KernelSpec, row: &[f32], out: u32) -> Vec<f64> {
    let mut graph = Graph::new("reduction");
    let shape = [1, 1, row.len() as u32];
    let x = graph.input("x", shape, DType::F32);
    let out = graph.transient("out", [1, 1, out], DType::F32);
    graph.pass_bytes(spec, &[], &[Some(x), Some(out)]).expect("the row fits");
    graph.output(out).expect("a transient");
    let mut program = backend.compile(&graph).expect("the graph compiles");
    program.write(x, &HostTensor::f32(shape, row.to_vec()).expect("a row")).expect("the row fits");
    program.run().expect("the graph runs");
    program.read(out).expect("an output").to_f64()
}

/// Fast mathematics may reassociate, so accuracy must come from short chains: here a plain loop would lose 1 %.
#[test]
fn a_million_small_numbers_are_not_lost_beside_a_large_one() {
    let mut row = vec![1e-8_f32; 1_000_000];
    row[0] = 1.0;
    let expected: f64 = row.iter().map(|&x| f64::from(x)).sum();
    for (name, backend) in support::backends() {
        for variant in ["workgroup", "subgroup"] {
            let backend = backend.with_variants(Some(format!("reduce_sum/{variant}")));
            if variant == "subgroup" && backend.caps().subgroup_lanes == 0 {
                continue;
            }
            let got = run(&backend, &reduce_sum::SPEC, &row, 1)[0];
            assert!((got - expected).abs() <= 1e-4, "{variant} on {name}: {got} and {expected}");
        }
    }
}

#[test]
fn sums_in_subgroups_equal_sums_without_to_the_bit_on_whole_numbers() {
    for (name, backend) in support::backends() {
        if backend.caps().subgroup_lanes == 0 {
            println!("{name} has no subgroups");
            continue;
        }
        for n in [1_u32, 2, 3, 7, 63, 64, 65, 129, 500, 1000] {
            let row: Vec<f32> = (1..=n).map(|i| i as f32).collect();
            let sum = |variant: &str| {
                let backend = Arc::new(backend.with_variants(Some(format!("reduce_sum/{variant}"))));
                run(backend.as_ref(), &reduce_sum::SPEC, &row, 1)[0]
            };
            let expected = f64::from(n * (n + 1) / 2);
            assert_eq!((sum("workgroup"), sum("subgroup")), (expected, expected), "1 to {n} on {name}");
        }
    }
}

/// llvmpipe ends an invocation's loops after 65 535 rounds; the longest rows must stay below that.
#[test]
fn the_longest_rows_are_summed_to_their_end() {
    for (name, backend) in support::backends() {
        let row = vec![1.0_f32; reduce_sum::LONGEST_ROW as usize];
        for variant in ["workgroup", "subgroup"] {
            let backend = backend.with_variants(Some(format!("reduce_sum/{variant}")));
            if variant == "workgroup" || backend.caps().subgroup_lanes > 0 {
                assert_eq!(
                    run(&backend, &reduce_sum::SPEC, &row, 1)[0],
                    row.len() as f64,
                    "{variant} on {name}"
                );
            }
        }
        let row = vec![1.0_f32; scan::LONGEST_ROW as usize];
        let last = run(&backend, &scan::SPEC, &row, scan::LONGEST_ROW)[row.len() - 1];
        assert_eq!(last, row.len() as f64, "scan on {name}");
    }
}

#[test]
fn longer_rows_are_refused() {
    for (spec, longest) in [(&reduce_sum::SPEC, reduce_sum::LONGEST_ROW), (&scan::SPEC, scan::LONGEST_ROW)] {
        let mut graph = Graph::new("too long");
        let x = graph.input("x", [1, 1, longest + 1], DType::F32);
        let out =
            graph.transient("out", [1, 1, if spec.name == "scan" { longest + 1 } else { 1 }], DType::F32);
        let error = graph.pass_bytes(spec, &[], &[Some(x), Some(out)]).expect_err("the row is too long");
        assert!(error.to_string().contains(&longest.to_string()), "{error}");
    }
}
