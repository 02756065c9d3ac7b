//! `wgattn bench` on whatever device this machine has, and what the tile variants promise by counting.

use serde_json::Value;
use std::process::{Command, Output};
use wgattn::kernel::{Driver, OnWgpu};
use wgattn::kernels::find;
use wgattn::tensor::Dims;

fn bench(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_wgattn"))
        .arg("bench")
        .args(args)
        .output()
        .expect("the program built for this test starts")
}

fn json(output: &Output) -> Value {
    let text = String::from_utf8(output.stdout.clone()).expect("standard output is UTF-8");
    let errors = String::from_utf8_lossy(&output.stderr);
    serde_json::from_str(&text).unwrap_or_else(|e| panic!("{e}: {text}\n{errors}"))
}

/// No number in it is zero where a time or a rate is meant, and nothing is NaN or infinite (JSON has neither).
fn check_row(row: &Value, computes_on_cpu: bool) {
    assert!(row["failure"].is_null(), "{row}");
    for name in ["median_seconds", "min_seconds", "first_run_seconds", "bytes_per_second"] {
        assert!(row[name].as_f64().is_some_and(|x| x > 0.0), "{name}: {row}");
    }
    assert!(row["samples"].as_u64().is_some_and(|n| n >= 5), "{row}");
    assert_eq!(row["below_timer_resolution"], false);
    assert!(row["timing_source"].as_str().is_some_and(|s| !s.is_empty()), "{row}");
    assert!(row["variants"].as_array().is_some_and(|v| !v.is_empty()), "{row}");
    assert!(row["max_error"].as_f64().is_some_and(|e| e < 1e-4), "{row}");
    assert_eq!(row["cpu_seconds"].is_number(), computes_on_cpu, "{row}");
}

#[test]
fn json_is_only_json_and_every_row_is_complete() {
    let output = bench(&["transpose", "--seconds", "0", "--json"]);
    let all = json(&output);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let device = &all["device"];
    assert!(device["name"].as_str().is_some_and(|n| !n.is_empty()), "{device}");
    let reference = device["type"] == "reference";
    let computes_on_cpu = reference || device["type"] == "software";
    let rows = all["rows"].as_array().expect("a list of rows");
    assert!(!rows.is_empty());
    for row in rows {
        check_row(row, computes_on_cpu);
        let share = row["share_of_peak_bytes"].as_f64();
        assert_eq!(share.is_some_and(|s| s > 0.0), !reference, "{row}");
    }
    for (name, peak) in all["peaks"].as_object().expect("peaks by name") {
        assert_eq!(peak["per_second"].as_f64().is_some_and(|p| p > 0.0), !reference, "{name}: {peak}");
    }
}

#[test]
fn csv_holds_the_rows_and_text_says_what_ran() {
    let folder = std::env::temp_dir().join(format!("wgattn-bench-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a temporary folder");
    let file = folder.join("rows.csv");
    let path = file.to_str().expect("a UTF-8 path");
    let output = bench(&["transpose", "--seconds", "0", "--device", "cpu", "--csv", path]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(text.contains("transpose/") && text.contains("error ") && !text.contains("inf"), "{text}");
    let csv = std::fs::read_to_string(&file).expect("the file was written");
    assert!(csv.starts_with("kernel,case,") && csv.lines().count() >= 2, "{csv}");
    std::fs::remove_dir_all(&folder).expect("the folder is ours");
}

#[test]
fn a_row_that_cannot_run_is_reported_and_fails_at_the_end() {
    // The reference has no variants, so holding a kernel to one fails.
    let output = bench(&["transpose", "--seconds", "0", "--device", "cpu", "--variant", "tile32", "--json"]);
    assert_eq!(output.status.code(), Some(1));
    let all = json(&output);
    let rows = all["rows"].as_array().expect("a list of rows");
    assert!(!rows.is_empty() && rows.iter().all(|r| r["failure"].is_string()), "{all}");
}

#[test]
fn what_does_not_exist_is_refused_in_one_line() {
    for args in [
        &["nothing_like_this"][..],
        &["matmul", "--variant", "no_such"],
        &["matmul", "--device", "no_such"],
        &["matmul", "--tokens", "64"],
        // Tables of their own look at nothing else.
        &["scaling", "--csv", "x.csv"],
        &["masked", "--case", "large"],
    ] {
        let output = bench(args);
        let errors = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{args:?}: {errors}");
        assert!(output.stdout.is_empty(), "{args:?}");
        assert_eq!(errors.lines().filter(|l| l.starts_with("error: ")).count(), 1, "{args:?}: {errors}");
    }
}

#[test]
fn scaling_reports_points_and_slopes() {
    let output = bench(&["scaling", "--device", "cpu", "--tokens", "512,1024", "--seconds", "0", "--json"]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let all = json(&output);
    assert_eq!(all["points"].as_array().map(Vec::len), Some(2), "{all}");
    assert!(all["slopes"]["memory"].as_f64().is_some_and(|s| (0.9..=1.1).contains(&s)), "{all}");
}

/// Multiply-adds (or pairs) of one head per word loaded, by the count that the benchmark prints too.
fn intensities(kernel: &str, variant: &str, dims: &[(&'static str, u32)], sums: f64) -> (f64, f64) {
    let spec = find(kernel).expect("a kernel of the list");
    let OnWgpu::Shader(variants) = &spec.wgpu else { panic!("{kernel} is composed") };
    let variant = variants.iter().find(|v| v.name == variant).expect("a variant of the kernel");
    assert!(variant.preferred_on.contains(&Driver::Gpu), "{kernel}: GPUs prefer the tile");
    let loads = (variant.loads)(&Dims::of(dims));
    (sums / loads.workgroup, sums / loads.storage)
}

#[test]
fn gpu_tiles_do_enough_work_per_word() {
    let gemm = [
        ("b", 1),
        ("h", 1),
        ("ar", 1024),
        ("ac", 1024),
        ("wr", 1024),
        ("wc", 1024),
        ("n", 1024),
        ("p", 1024),
    ];
    let pairs = [("b", 1), ("h", 1), ("n", 16_384), ("m", 256), ("d", 64)];
    for (kernel, dims, sums) in
        [("matmul", &gemm[..], 1024_f64.powi(3)), ("kernel_matrix", &pairs[..], 16_384.0 * 256.0 * 64.0)]
    {
        for variant in ["tile64", "tile64_shallow"] {
            let (workgroup, storage) = intensities(kernel, variant, dims, sums);
            assert!(workgroup >= 4.0, "{kernel}/{variant}: {workgroup} per word of workgroup memory");
            assert!(storage >= 32.0, "{kernel}/{variant}: {storage} per word of storage");
        }
    }
}

#[test]
fn declared_loads_of_tiles_are_those_of_the_text() {
    // 64 threads; per step of the inner dimension each reads 4 vec4f from workgroup memory for 64 sums, and the group
    // loads 128 words for 4096. The layout is fixed in the shaders: count their reads.
    for kernel in ["matmul", "kernel_matrix"] {
        let OnWgpu::Shader(variants) = &find(kernel).expect("a kernel of the list").wgpu else {
            panic!("composed")
        };
        let text = variants.iter().find(|v| v.name == "tile64").expect("the tile").body;
        let reads =
            text.lines().filter(|l| l.trim_start().starts_with("let ") && l.contains("= tile_")).count();
        assert_eq!(reads, 4, "{kernel}: vec4f reads of workgroup memory per step");
        let sums = text
            .lines()
            .filter(|l| l.trim_start().starts_with('c'))
            .map(|l| l.matches("+=").count())
            .sum::<usize>();
        assert_eq!(sums, 16, "{kernel}: vec4f sums per step");
    }
}
