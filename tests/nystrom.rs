//! Nyström attention, maps and landmarks against stored arrays (`tests/data/laplacian`, made by an independent f64
//! program from dense definitions).
//!
//! Tolerances in [`FILES`] come with the arrays: four times the error of a plain f32 evaluation, at least 1e-6, relative
//! to the largest value. The stored X is the exact inverse; ours runs one step more than its bound asks for, so that
//! what the iteration leaves is below rounding.

#![cfg(all(feature = "cli", feature = "wgpu"))]

use stored::{Dense, NORMALISATIONS, Operands, Stored, deviation, devices, run, worst};
use wgattn::attention::Landmarks;
use wgattn::backend::Backend;
use wgattn::graph::Graph;
use wgattn::kernel::KernelParams as _;
use wgattn::kernels::laplacian::kernel_matrix;
use wgattn::kernels::laplacian::nystrom::Params;
use wgattn::kernels::linalg::newton_schulz;
use wgattn::tensor::{DType, HostData, HostTensor};

#[path = "support/stored.rs"]
mod stored;
mod support;

/// Files without their common prefix, with the tolerance of all their outputs.
const FILES: [(&str, f64); 13] = [
    ("lap_pool14x14", 3e-6),
    ("gauss_pool14x14", 2e-5),
    ("lap_strided8x12", 6e-6),
    ("lap_mixed8x12", 6e-6),
    ("gauss_mixed8x12", 5e-5),
    ("lap_segment100", 3e-6),
    ("lap_cross33x57", 3e-6),
    ("lap_cross33x57_keymask", 4e-6),
    ("lap_padded60", 4e-6),
    ("lap_twoset48x36", 2e-5),
    ("lap_m1", 2e-6),
    ("lap_n1", 1e-5),
    // The same tokens with worse garbage in the padded ones.
    ("lap_padded60 full of 3e38", 4e-6),
];

/// A stored case and its parameters.
fn case(name: &str) -> (Stored, Operands, Params) {
    let file = Stored::read(&format!("nystroem_{}", name.split(' ').next().unwrap_or(name)));
    let mut operands = Operands::of(&file);
    if name.ends_with("3e38") {
        let rows = [&mut operands.q, &mut operands.k, &mut operands.v];
        let masks = [&operands.query_mask, &operands.key_mask, &operands.key_mask];
        for (tensor, mask) in rows.into_iter().zip(masks) {
            let keep = mask.as_ref().expect("a padded case has masks").to_f64();
            let (cols, mut data) = (tensor.shape().dims()[3] as usize, tensor.to_f32());
            for (at, x) in data.iter_mut().enumerate().filter(|(at, _)| keep[at / cols] == 0.0) {
                *x = if at % 3 == 0 { -3e38 } else { 3e38 };
            }
            *tensor = HostTensor::f32(tensor.shape(), data).expect("the same shape");
        }
    }
    let params = Params {
        epsilon: file.number("eps") as f32,
        ew: file.number("ew") as f32,
        zs: file.number("zs") as f32,
        metric: if name.starts_with("gauss") { 2 } else { 1 },
        // A of two landmark sets is not symmetric.
        inverse: if file.has("L_q") { newton_schulz::PLAIN } else { newton_schulz::SCALED },
        ..Params::default()
    };
    (file, operands, params)
}

fn close(what: &str, got: &[f64], expected: &[f64], tolerance: f64) {
    let error = deviation(got, expected);
    println!("{what}: {error:.1e} of {tolerance:.0e}");
    assert!(error <= tolerance, "{what}: {error:.2e} > {tolerance:e} at {}", worst(got, expected));
}

#[test]
fn outputs_agree_with_the_stored_arrays() {
    for (device, backend) in devices() {
        for (name, tolerance) in FILES {
            let (file, operands, params) = case(name);
            for (number, norm) in (0..).zip(NORMALISATIONS) {
                let (out, status) =
                    operands.attend(backend.as_ref(), &Params { normalise: number, ..params });
                close(
                    &format!("{device} {name} {norm}"),
                    &out.to_f64(),
                    &file.numbers(&format!("O_{norm}")),
                    tolerance,
                );
                assert_eq!(status[3], f64::from(newton_schulz::OK), "{name} on {device}: {status:?}");
            }
        }
    }
}

#[test]
fn features_and_inverse_agree_with_the_stored_arrays() {
    for (device, backend) in devices() {
        for (name, tolerance) in [("lap_strided8x12", 6e-6), ("lap_cross33x57", 3e-6)] {
            let (file, x, params) = case(name);
            let m = x.landmarks.shape().dims()[2];
            let matrix = |rows: &HostTensor, params: kernel_matrix::Params| {
                let inputs = [("x", rows), ("y", &x.landmarks), ("lambda", &x.lambda)];
                let shape = [1, 1, rows.shape().dims()[2], m].into();
                run(backend.as_ref(), &kernel_matrix::SPEC, &params.to_bytes(), &inputs, &[("out", shape)])
                    .remove(0)
            };
            for (what, rows) in [("C", &x.q), ("K_hat", &x.k), ("W", &x.landmarks)] {
                let got = matrix(rows, kernel_matrix::Params::default());
                // The tolerance of kernel values, from the table beside the arrays.
                close(&format!("{device} {name} {what}"), &got.to_f64(), &file.numbers(what), 2e-6);
            }
            let square = kernel_matrix::Params { diagonal: params.epsilon, square: 1, ..Default::default() };
            let a = matrix(&x.landmarks, square);
            let a = HostTensor::f32(a.shape(), a.to_f32()).expect("the same shape");
            let inverse = newton_schulz::Params { epsilon: params.epsilon, ..Default::default() };
            let outputs = [("x", a.shape()), ("status", [1, 1, 4].into())];
            let got =
                run(backend.as_ref(), &newton_schulz::SPEC, &inverse.to_bytes(), &[("a", &a)], &outputs);
            close(&format!("{device} {name} X"), &got[0].to_f64(), &file.numbers("X"), tolerance);
        }
    }
}

#[test]
fn map_rows_are_rows_of_the_dense_matrix() {
    for (device, backend) in devices() {
        for (name, tolerance) in [("lap_strided8x12", 6e-6), ("lap_cross33x57", 3e-6)] {
            let (file, operands, params) = case(name);
            let map = operands.map(backend.as_ref(), &params);
            close(&format!("{device} {name} Ĝ"), &map, &file.numbers("G_hat"), tolerance);
        }
    }
}

/// Values that are the columns of the identity make attention write its own matrix, whatever the normalisation; masked
/// keys are no columns of it.
#[test]
fn maps_are_attention_with_the_identity_for_values() {
    let names = ["gauss_mixed8x12", "lap_cross33x57", "lap_cross33x57_keymask", "lap_twoset48x36", "lap_n1"];
    for (device, backend) in devices() {
        for (name, tolerance) in FILES.into_iter().filter(|(name, _)| names.contains(name)) {
            let (_, mut operands, params) = case(name);
            let t = operands.k.shape().dims()[2];
            let identity = (0..t * t).map(|at| f32::from(u8::from(at / t == at % t))).collect();
            operands.v = HostTensor::f32([1, 1, t, t], identity).expect("a square");
            for (number, norm) in (0..).zip(NORMALISATIONS) {
                let params = Params { normalise: number, ..params };
                let (out, _) = operands.attend(backend.as_ref(), &params);
                let map = operands.map(backend.as_ref(), &params);
                // Twice: both are rounded, and single elements lack the averaging of a product with values.
                let allowed = 2.0 * tolerance;
                close(&format!("{device} {name} {norm} map"), &map, &out.to_f64(), allowed);
                let dense = Dense::of(&operands, params).z().transpose().as_slice().to_vec();
                close(&format!("{device} {name} {norm} dense"), &map, &dense, allowed);
            }
        }
    }
}

/// Landmarks `[m, d]` of stored tokens on a grid.
fn landmarks(
    backend: &dyn Backend,
    file: &Stored,
    case: &str,
    rows_cols: (u32, u32),
    of: &Landmarks,
) -> Vec<f64> {
    let k = file.tensor(&format!("{case}_k"));
    let q = file.has(&format!("{case}_q")).then(|| file.tensor(&format!("{case}_q")));
    let mut graph = Graph::new("landmarks");
    let keys = graph.input("k", k.shape(), DType::F32);
    let queries = q.as_ref().map(|q| graph.input("q", q.shape(), DType::F32));
    let (out, valid) = of.record(&mut graph, keys, queries, rows_cols, None).expect("landmarks fit the grid");
    graph.output(out).expect("a transient");
    graph.output(valid).expect("a transient");
    let mut program = backend.compile(&graph).expect("the graph compiles");
    program.write(keys, &k).expect("keys fit");
    if let (Some(tensor), Some(q)) = (queries, &q) {
        program.write(tensor, q).expect("queries fit");
    }
    program.run().expect("the graph runs");
    assert!(program.read(valid).expect("an output").to_f64().iter().all(|v| *v == 1.0));
    program.read(out).expect("an output").to_f64()
}

#[test]
fn landmarks_agree_with_the_stored_arrays() {
    let file = Stored::read("landmarks");
    for (device, backend) in devices() {
        let check = |case: &str, what: &str, rows_cols: (u32, u32), of: Landmarks| {
            let got = landmarks(backend.as_ref(), &file, case, rows_cols, &of);
            let expected = file.numbers(&format!("{case}_{what}"));
            close(&format!("{device} {case} {what}"), &got, &expected, 1e-6);
        };
        for case in ["g0", "g1", "g2"] {
            let grid = file.numbers(&format!("{case}_grid"));
            let (rows, cols, cell) = (grid[0] as u32, grid[1] as u32, grid[2] as u32);
            check(case, "pool", (rows, cols), Landmarks::Pooled { cell });
            check(case, "mixed", (rows, cols), Landmarks::Mixed { cell });
            let (down, across) = (rows / cell, cols / cell);
            if down == across {
                check(case, "strided", (rows, cols), Landmarks::Strided { side: down });
            }
            let centre = |l: u32| (l / across * cell + cell / 2) * cols + l % across * cell + cell / 2;
            let tokens = (0..down * across).map(centre).collect();
            check(case, "strided", (rows, cols), Landmarks::Given { tokens });
        }
        for case in ["s0", "s1", "s2"] {
            let (m, sizes) = (file.number(&format!("{case}_m")), file.numbers(&format!("{case}_sizes")));
            let tokens = file.tensor(&format!("{case}_k")).shape().dims()[2];
            let of = Landmarks::Segments { count: m as u32 };
            let cells = of.cells(1, tokens).expect("segments fit");
            let lengths: Vec<f64> = cells.iter().map(|c| f64::from(c[4] - c[3])).collect();
            assert_eq!(lengths, sizes, "{case}");
            check(case, "segment_means", (1, tokens), of);
        }
        for case in ["a0", "a1"] {
            let grid = file.numbers(&format!("{case}_grid"));
            check(
                case,
                "adaptive",
                (grid[0] as u32, grid[1] as u32),
                Landmarks::Adaptive { side: grid[2] as u32 },
            );
        }
    }
}

#[test]
fn masked_keys_stay_out_of_landmark_means() {
    let mask = [1, 0, 1, 1, 0, 0, 1, 1];
    let values = [1.0, 3e38, 3.0, 5.0, -3e38, 7.0, 2.0, 4.0];
    let k = HostTensor::f32([1, 1, 8, 1], values.to_vec()).expect("eight tokens");
    let mask = HostTensor::new([1, 1, 8], HostData::U8(mask.to_vec())).expect("eight flags");
    for (device, backend) in devices() {
        let mut graph = Graph::new("masked landmarks");
        let keys = graph.input("k", k.shape(), DType::F32);
        let keep = graph.input("mask", mask.shape(), DType::U8);
        let of = Landmarks::Segments { count: 4 };
        let (out, valid) = of.record(&mut graph, keys, None, (2, 4), Some(keep)).expect("four segments");
        graph.output(out).expect("a transient");
        graph.output(valid).expect("a transient");
        let mut program = backend.compile(&graph).expect("the graph compiles");
        program.write(keys, &k).expect("keys fit");
        program.write(keep, &mask).expect("the mask fits");
        program.run().expect("the graph runs");
        assert_eq!(program.read(out).expect("an output").to_f32(), [1.0, 4.0, 0.0, 3.0], "{device}");
        assert_eq!(program.read(valid).expect("an output").to_f32(), [1.0, 1.0, 0.0, 1.0], "{device}");
    }
}

#[test]
fn landmarks_that_do_not_fit_are_refused_with_the_numbers() {
    let refused =
        |of: Landmarks, rows: u32, cols: u32| of.cells(rows, cols).expect_err("refused").to_string();
    let few = refused(Landmarks::Strided { side: 7 }, 4, 12);
    assert!(few.contains("48 tokens of the 12 × 4 grid") && few.contains("49"), "{few}");
    assert!(refused(Landmarks::Adaptive { side: 70_000 }, 4, 12).contains("48 tokens"));
    assert!(refused(Landmarks::Strided { side: 0 }, 4, 12).contains("got 0"));
    assert!(refused(Landmarks::Pooled { cell: 5 }, 10, 12).contains("divisor of both sides"));
    assert!(refused(Landmarks::Segments { count: 0 }, 4, 12).contains("got 0"));
    assert!(refused(Landmarks::Given { tokens: vec![3, 48] }, 4, 12).contains("0 to 47, got 48"));
    assert!(refused(Landmarks::Given { tokens: vec![] }, 4, 12).contains("got 0"));
}
