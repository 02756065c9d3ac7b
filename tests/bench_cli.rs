//! `wgattn bench` on whatever device this machine has: its document, its exports, what it refuses, and what happens when a run is cut
//! short; dispatches that are cut to a length; and what the tile variants promise by counting.

mod support;

use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};
use wgattn::backend::Program;
use wgattn::backend::wgpu::{Options, WgpuBackend, WgpuProgram};
use wgattn::kernel::case::Concrete;
use wgattn::kernel::{Driver, OnWgpu};
use wgattn::kernels::find;
use wgattn::tensor::{Dims, HostTensor, Tensor};

fn command(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_wgattn"));
    command.arg("bench").args(args);
    command
}

fn bench(args: &[&str]) -> Output {
    command(args).output().expect("the program built for this test starts")
}

fn json(output: &Output) -> Value {
    let text = String::from_utf8(output.stdout.clone()).expect("standard output is UTF-8");
    let errors = String::from_utf8_lossy(&output.stderr);
    serde_json::from_str(&text).unwrap_or_else(|e| panic!("{e}: {text}\n{errors}"))
}

/// A new folder that goes away with the test.
struct Folder(PathBuf);

impl Folder {
    fn new(test: &str) -> Self {
        let path = std::env::temp_dir().join(format!("wgattn-bench-{test}-{}", std::process::id()));
        std::fs::create_dir_all(&path).expect("a temporary folder");
        Self(path)
    }

    fn file(&self, name: &str) -> String {
        self.0.join(name).to_str().expect("a UTF-8 path").into()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // What is left of a failed test does no harm.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// No number in it is zero where a time or a rate is meant, and nothing is NaN or infinite (JSON has neither).
fn check_row(row: &Value, computes_on_cpu: bool) {
    assert!(row["failure"].is_null(), "{row}");
    for name in [
        "median_seconds",
        "p10_seconds",
        "p90_seconds",
        "min_seconds",
        "first_run_seconds",
        "compile_seconds",
        "bytes_per_second",
    ] {
        assert!(row[name].as_f64().is_some_and(|x| x > 0.0), "{name}: {row}");
    }
    assert!(row["samples"].as_u64().is_some_and(|n| n >= 3), "{row}");
    assert!(row["timing_source"].as_str().is_some_and(|s| !s.is_empty()), "{row}");
    assert!(row["variants"].as_array().is_some_and(|v| !v.is_empty()), "{row}");
    let (error, tolerance) = (row["max_error"].as_f64(), row["tolerance"].as_f64());
    assert!(error.zip(tolerance).is_some_and(|(e, t)| e <= t), "{row}");
    assert_eq!(row["cpu_seconds"].is_number(), computes_on_cpu, "{row}");
    let flags = row["flags"].as_array().expect("a list of flags");
    assert!(!flags.iter().any(|f| f == "below timer resolution" || f == "device lost"), "{row}");
}

/// Every peak of a roofline, and every other number of it.
fn peaks(device: &Value) -> Vec<(String, Value)> {
    let all = device["peaks"].as_object().expect("peaks by name");
    let speed = |(name, peak): (&String, &Value)| (name.clone(), peak["per_second"].clone());
    let loads = all["loads"].as_object().expect("loads by path").iter().map(speed);
    let single = all.iter().filter(|(n, p)| p.is_object() && *n != "loads").map(speed);
    loads.chain(single).collect()
}

#[test]
fn several_devices_make_one_document_and_its_exports() {
    let folder = Folder::new("devices");
    let (file, table) = (folder.file("all.json"), folder.file("rows.csv"));
    let output = bench(&[
        "transpose",
        "count_flags",
        "--quick",
        "--seconds",
        "0",
        "--device",
        "cpu,auto",
        "--order-seed",
        "9",
        "--json",
        "--export",
        &file,
        "--export",
        &table,
    ]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let all = json(&output);
    assert_eq!((&all["schema"], &all["version"]), (&"wgattn-bench".into(), &1.into()));
    assert_eq!((&all["complete"], &all["options"]["order_seed"]), (&true.into(), &9.into()));
    assert!(all["system"]["cores"].as_u64().is_some_and(|c| c > 0), "{}", all["system"]);
    let devices = all["devices"].as_array().expect("a list of devices");
    // `auto` is the reference too where there is no adapter; a second opening of it is a device of its own.
    assert_eq!(devices.len(), 2);
    for device in devices {
        let reference = device["type"] == "reference";
        let computes_on_cpu = reference || device["type"] == "software";
        let rows = device["rows"].as_array().expect("a list of rows");
        assert_eq!(rows.len(), 2, "{device}");
        for row in rows {
            check_row(row, computes_on_cpu);
            assert_eq!(row["share_of_bound"].as_f64().is_some_and(|s| s > 0.0), !reference, "{row}");
            assert_eq!(row["encode_seconds"].as_f64().is_some_and(|s| s > 0.0), !reference, "{row}");
        }
        for (name, peak) in peaks(device) {
            assert_eq!(peak.as_f64().is_some_and(|p| p > 0.0), !reference, "{name}: {peak}");
        }
        let submit = device["peaks"]["submit_seconds"].as_f64();
        assert_eq!(submit.is_some_and(|s| s > 0.0), !reference, "{}", device["peaks"]);
    }
    let written: Value =
        serde_json::from_str(&std::fs::read_to_string(&file).expect("the file was written")).expect("JSON");
    assert_eq!(written, all, "the export is what was printed");
    let csv = std::fs::read_to_string(&table).expect("the file was written");
    assert_eq!(csv.lines().count(), 5, "{csv}");
    assert!(csv.starts_with("device_name,"), "{csv}");
    // Nobody watches a terminal, so every stage is a line, and standard output stays pure.
    let errors = String::from_utf8_lossy(&output.stderr);
    for device in devices {
        let of = |key: &str| device[key].as_str().expect("a text");
        let place = device["bus"].as_str().map_or_else(String::new, |bus| format!(" · {bus}"));
        let name = format!("{} · {}{place}", of("name"), of("backend"));
        let rows = format!("measuring 2 rows on {name}");
        assert!(errors.lines().any(|l| l == rows), "{rows} is missing in: {errors}");
        let roofline = format!("measuring the roofline of {name}");
        let told = errors.lines().any(|l| l == roofline);
        assert_eq!(told, device["type"] != "reference", "{roofline}: {errors}");
    }
}

#[test]
fn text_says_what_ran_and_in_which_order() {
    let output = bench(&["transpose", "--quick", "--device", "cpu", "--order-seed", "4"]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(text.contains("--order-seed 4") && text.contains("transpose/square_1024"), "{text}");
    assert!(text.contains("error ") && text.contains("wall clock") && !text.contains("inf"), "{text}");
    assert!(text.contains("CPU time") && text.contains("/CPU s"), "which clock is said: {text}");
}

#[test]
fn lists_tell_what_would_run_and_run_nothing() {
    let text = bench(&["matmul", "--variant", "plain", "--list", "--n", "1k..4k", "--case", "features"]);
    let text = String::from_utf8_lossy(&text.stdout).into_owned();
    assert!(
        text.contains("matmul/features_4096 [ar=1024 n=1024] as plain") && text.contains("3 rows"),
        "{text}"
    );
    let quick = json(&bench(&["--quick", "--list", "--json"]));
    let rows = quick["rows"].as_array().expect("a list of rows");
    assert!(rows.len() >= 10 && rows.iter().all(|r| r["quick"] == true), "{quick}");
    let all = json(&bench(&["--list", "--json"]));
    assert!(all["rows"].as_array().is_some_and(|r| r.len() > 3 * rows.len()), "{all}");
}

#[test]
fn the_description_says_what_numbers_mean() {
    let output = bench(&["--describe"]);
    let text = String::from_utf8_lossy(&output.stdout);
    for word in [
        "Roofline.",
        "Bound.",
        "Score.",
        "Suites.",
        "\"crossover\"",
        "\"frame\"",
        "\"embedding\"",
        "--max-dispatch-ms",
        "multiply-add counted as two",
        "throttled",
    ] {
        assert!(text.contains(word), "{word} is missing in:\n{text}");
    }
    assert!(!text.contains("{origin}"), "{text}");
}

#[test]
fn suites_are_listed_with_their_sizes_and_refuse_what_only_rows_have() {
    let text = bench(&["crossover", "--list"]);
    let text = String::from_utf8_lossy(&text.stdout).into_owned();
    assert!(
        text.contains("suite crossover")
            && text.contains("exact attention")
            && text.contains("16\u{2009}384")
    );
    assert!(!text.contains("rows"), "no rows beside a suite that was asked for: {text}");
    let names = |args: &[&str]| -> Vec<String> {
        let all = json(&bench(args));
        all["suites"]
            .as_array()
            .into_iter()
            .flatten()
            .filter_map(|s| s["name"].as_str().map(Into::into))
            .collect()
    };
    assert_eq!(names(&["--list", "--json"]), ["crossover", "frame", "embedding"]);
    assert_eq!(names(&["--quick", "--list", "--json"]), ["crossover"]);
    assert_eq!(names(&["--case", "square", "--list", "--json"]), [""; 0], "certain cases alone");
    let both = json(&bench(&["transpose", "frame", "--list", "--json", "--n", "256"]));
    assert_eq!(both["suites"][0]["sizes"], json!([256]));
    assert_eq!(both["rows"][0]["kernel"], "transpose");
    for option in [&["--variant", "plain"][..], &["--case", "x"], &["--heads", "4"], &["--d", "16"]] {
        let output = bench(&[&["crossover"], option].concat());
        let errors = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{option:?}: {errors}");
        assert!(errors.contains(option[0]) && errors.contains("give --n"), "{errors}");
    }
}

#[test]
fn suites_fill_the_document_and_nothing_else_is_printed() {
    let folder = Folder::new("suites");
    let [file, page, tables, csv] =
        ["all.json", "all.html", "all.md", "all.csv"].map(|name| folder.file(name));
    let output = bench(&[
        "crossover",
        "frame",
        "embedding",
        "--quick",
        "--seconds",
        "0",
        "--device",
        "cpu",
        "--n",
        "64,128",
        "--json",
        "--export",
        &file,
        "--export",
        &page,
        "--export",
        &tables,
        "--export",
        &csv,
    ]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    // All of standard output is the document.
    let all = json(&output);
    let read = |path: &str| std::fs::read_to_string(path).expect("the file was written");
    assert_eq!(serde_json::from_str::<Value>(&read(&file)).expect("JSON"), all);
    assert_eq!(all["options"]["suite_sizes"], json!([64, 128]), "{}", all["options"]);
    let device = &all["devices"][0];
    assert_eq!(device["rows"], Value::Array(Vec::new()));
    let suites = device["suites"].as_array().expect("suites");
    assert_eq!(
        suites.iter().filter_map(|s| s["name"].as_str()).collect::<Vec<_>>(),
        ["crossover", "frame", "embedding"]
    );
    for suite in suites {
        assert_eq!((&suite["x"], &suite["y"]), (&"tokens".into(), &"seconds".into()));
        for series in suite["series"].as_array().expect("series") {
            for point in series["points"].as_array().expect("points") {
                assert!(point["failure"].is_null() && point["x"].is_number(), "{series}");
                let skipped = point["skipped"].is_string();
                assert_eq!(point["y"].as_f64().is_some_and(|y| y > 0.0), !skipped, "{series}");
                assert_eq!(point["cpu"].as_f64().is_some_and(|y| y > 0.0), !skipped, "{series}");
                // What happens once, and what is not run at all, has no spread.
                let spreads = point["samples"].as_f64().is_some_and(|n| n > 1.0);
                assert_eq!(point["y_p90"].is_number() && point["cpu_p10"].is_number(), spreads, "{series}");
            }
        }
    }
    let frame = &suites[1]["series"][0]["points"][0];
    assert!(frame["samples"].as_f64().is_some_and(|n| n >= 5.0), "{frame}");
    let points =
        |suite: usize, series: usize| suites[suite]["series"][series]["points"].as_array().map(Vec::len);
    assert_eq!((points(0, 0), points(1, 0)), (Some(2), Some(2)));
    let counts = suites.iter().flat_map(|s| s["series"].as_array().into_iter().flatten());
    let count: usize = counts.map(|s| s["points"].as_array().map_or(0, Vec::len)).sum();
    let csv = read(&csv);
    assert_eq!(csv.lines().count(), 1 + count, "{csv}");
    assert!(csv.lines().skip(1).all(|line| line.contains(",point,")), "{csv}");
    // The reference encodes nothing, and says so once.
    assert_eq!((points(2, 0), points(2, 1)), (Some(1), Some(0)));
    assert!(
        read(&page).contains("Attention over tokens")
            && read(&tables).contains("| tokens | exact attention |")
    );
}

#[test]
fn suites_on_a_device_say_what_they_measured() {
    let output =
        bench(&["crossover", "embedding", "--quick", "--seconds", "0", "--device", "auto", "--n", "256"]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8_lossy(&output.stdout);
    for told in [
        "exact attention",
        "(16 rows)",
        "(first head)",
        "linear, diffusion mask",
        "crossover: linear (elu + 1): ",
    ] {
        assert!(text.contains(told), "{told} is missing in:\n{text}");
    }
    let encodes = !text.contains("nothing is encoded");
    // Few tokens may be too little to see beside the submissions of single steps.
    let of_kernels = text.contains("kernels take ") || text.contains("below timer resolution");
    assert_eq!(of_kernels && text.contains("staging "), encodes, "{text}");
    assert!(!text.contains("FAILED") && !text.contains("NaN"), "{text}");
}

#[test]
fn sizes_can_be_swept() {
    let output =
        bench(&["transpose", "--quick", "--seconds", "0", "--device", "cpu", "--n", "96,100", "--json"]);
    let all = json(&output);
    let names: Vec<&str> = all["devices"][0]["rows"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(|r| r["case"].as_str())
        .collect();
    assert_eq!(names, ["square_1024 [n=96 m=96]", "square_1024 [n=100 m=100]"], "{all}");
}

/// Every kernel that is listed at a size runs at it; the reference is enough to know, and small sizes are.
#[test]
fn what_is_listed_at_other_sizes_runs() {
    for sweep in [
        &["--n", "64"][..],
        &["--landmarks", "10"],
        &["--heads", "2", "--n", "36"],
        &["--d", "8", "--n", "64"],
    ] {
        let listed = json(&bench(&[&["--list", "--json"], sweep].concat()));
        let rows = listed["rows"].as_array().expect("a list of rows");
        let left_out = listed["left_out"].as_array().expect("what is left out");
        assert!(rows.len() > 5 && !left_out.is_empty(), "{sweep:?}");
        assert!(left_out.iter().all(|l| l["reason"].as_str().is_some_and(|r| !r.is_empty())), "{left_out:?}");
        let names =
            rows.iter().filter_map(|r| r["kernel"].as_str()).collect::<std::collections::BTreeSet<_>>();
        let args = ["--quick", "--seconds", "0", "--device", "cpu", "--json"];
        let names: Vec<&str> = names.into_iter().collect();
        let output = bench(&[&names[..], &args, sweep].concat());
        let all = json(&output);
        let rows = all["devices"][0]["rows"].as_array().expect("a list of rows");
        for row in rows {
            assert!(row["failure"].is_null(), "{sweep:?}: {row}");
        }
        assert!(output.status.success() && rows.len() >= names.len(), "{sweep:?}");
    }
}

#[test]
fn a_comparison_with_the_baseline_is_exported() {
    let folder = Folder::new("baseline");
    let [first, json_file, page, tables] =
        ["a.json", "b.json", "b.html", "b.md"].map(|name| folder.file(name));
    let run = ["matmul", "--case", "256", "--device", "cpu", "--quick", "--seconds", "0"];
    let output = bench(&[&run[..], &["--export", &first]].concat());
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let read = |file: &str| std::fs::read_to_string(file).expect("an export");
    let document = |file: &str| serde_json::from_str::<Value>(&read(file)).expect("JSON");
    assert!(document(&first)["baseline"].is_null());
    let exports = ["--export", &json_file, "--export", &page, "--export", &tables];
    let output = bench(&[&run[..], &["--baseline", &first], &exports[..]].concat());
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let compared = &document(&json_file)["baseline"];
    assert_eq!(compared["schema"], "wgattn-bench-comparison");
    assert_eq!(compared["groups"][0]["rows"][0]["kernel"], "matmul", "{compared}");
    for file in [&page, &tables] {
        assert!(read(file).contains("Beside the baseline"), "{file}");
    }
    // The reference computes by ways of its own: no rates of operations that it may not do.
    let row = &document(&first)["devices"][0]["rows"][0];
    assert!(row["bytes"].is_number() && row["flop"].is_null() && row["flop_per_second"].is_null(), "{row}");
}

#[test]
fn lists_and_descriptions_refuse_what_they_would_not_look_at() {
    let folder = Folder::new("list");
    let file = folder.file("x.json");
    for args in [
        &["--list", "--export", &file][..],
        &["--list", "--baseline", &file],
        &["--list", "--device", "cpu"],
        &["--list", "--seconds", "1"],
        &["--list", "--tune", "on"],
        &["--describe", "--json"],
        &["--describe", "matmul"],
        &["--describe", "--export", &file],
    ] {
        let output = bench(args);
        let errors = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{args:?}: {errors}");
        assert!(output.stdout.is_empty() && errors.contains("cannot be used with"), "{args:?}: {errors}");
    }
    assert!(!Path::new(&file).exists());
}

#[test]
fn what_cannot_run_at_a_size_is_told_beside_what_can() {
    let output = bench(&["gram", "graph_attention", "--n", "512,4k", "--list"]);
    assert!(output.status.success());
    let (text, told) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(text.contains("gram/features_4096 [n=512 c=1]") && text.contains("2 rows"), "{text}");
    assert!(told.contains("graph_attention/graphs_128_of_100 is left out at n=512, n=4096: "), "{told}");
    let output = bench(&["graph_attention", "--n", "512", "--device", "cpu"]);
    assert_eq!(output.status.code(), Some(1));
    let told = String::from_utf8_lossy(&output.stderr);
    assert!(told.contains("ask for other sizes") && output.stdout.is_empty(), "{told}");
}

/// Waits until a file holds a document with a row, or says what it holds instead.
fn first_row(file: &Path) -> Value {
    let deadline = Instant::now() + Duration::from_secs(120);
    loop {
        let text = std::fs::read_to_string(file).unwrap_or_default();
        let document: Value = serde_json::from_str(&text).unwrap_or_default();
        if document["devices"][0]["rows"].as_array().is_some_and(|r| !r.is_empty()) {
            return document;
        }
        // A file is replaced as a whole, so what is there is always a document.
        assert!(text.is_empty() || document.is_object(), "{text}");
        assert!(Instant::now() < deadline, "no row after two minutes: {text}");
        std::thread::yield_now();
    }
}

#[test]
fn a_run_that_is_cut_short_leaves_what_it_had() {
    let folder = Folder::new("partial");
    let file = folder.file("part.json");
    // After the first row it waits for an hour.
    let mut child = command(&[
        "philox",
        "count_flags",
        "--quick",
        "--device",
        "cpu",
        "--cool-down",
        "3600",
        "--export",
        &file,
    ])
    .stdout(Stdio::null())
    .spawn()
    .expect("the program built for this test starts");
    let document = first_row(Path::new(&file));
    child.kill().expect("it was running");
    child.wait().expect("it was killed");
    assert_eq!(document["complete"], false);
    assert_eq!(document["devices"][0]["rows"].as_array().map(Vec::len), Some(1), "{document}");
    check_row(&document["devices"][0]["rows"][0], true);
}

/// Waits until a file is there.
fn written(file: &str) -> String {
    let deadline = Instant::now() + Duration::from_secs(120);
    loop {
        if let Ok(text) = std::fs::read_to_string(file) {
            return text;
        }
        assert!(Instant::now() < deadline, "{file}: nothing after two minutes");
        std::thread::yield_now();
    }
}

#[test]
fn exports_are_there_from_the_beginning_and_stay_whole_when_a_run_is_ended() {
    for device in ["cpu", "auto"] {
        let folder = Folder::new(&format!("begun-{device}"));
        let files = ["x.json", "x.csv", "x.md", "x.html"].map(|name| folder.file(name));
        let mut args = vec!["transpose", "count_flags", "--device", device, "--cool-down", "3600"];
        files.iter().for_each(|file| args.extend(["--export", file]));
        let mut child = command(&args)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("the program built for this test starts");
        // The last of them is there before a device is: it ends in the midst of the probes, or of the first row.
        written(&files[3]);
        end(&mut child);
        let texts = files.each_ref().map(|file| written(file));
        let document: Value = serde_json::from_str(&texts[0]).expect("a whole document");
        assert_eq!((&document["schema"], &document["complete"]), (&json!("wgattn-bench"), &json!(false)));
        assert!(document["system"]["cores"].as_u64().is_some_and(|c| c > 0), "{document}");
        assert!(document["devices"].is_array(), "{document}");
        assert!(texts[1].starts_with("device_name,") && texts[1].ends_with('\n'), "{}", texts[1]);
        assert!(texts[2].contains("The run was cut short"), "{}", texts[2]);
        assert!(texts[3].contains("cut short or is still going on") && texts[3].ends_with("</html>\n"));
    }
}

/// Ends a program as a user does, who has no other means than a signal; elsewhere than on Unix there are none.
fn end(child: &mut std::process::Child) {
    if cfg!(unix) {
        let sent = Command::new("kill").args(["-TERM", &child.id().to_string()]).status();
        assert!(sent.expect("kill is a part of every Unix").success());
    } else {
        child.kill().expect("it was running");
    }
    assert!(!child.wait().expect("it was ended").success());
}

#[test]
fn a_row_that_cannot_run_is_reported_and_fails_at_the_end() {
    // The reference has no variants, so holding a kernel to one fails.
    let output = bench(&["transpose", "--seconds", "0", "--device", "cpu", "--variant", "tile32", "--json"]);
    assert_eq!(output.status.code(), Some(1));
    let all = json(&output);
    let rows = all["devices"][0]["rows"].as_array().expect("a list of rows");
    assert!(!rows.is_empty() && rows.iter().all(|r| r["failure"].is_string()), "{all}");
    assert!(rows[0]["median_seconds"].is_null() && rows[0]["samples"].is_null(), "{all}");
}

#[test]
fn what_does_not_exist_or_cannot_be_written_is_refused_in_one_line() {
    let folder = Folder::new("refused");
    let (nowhere, text) = (folder.file("nowhere/x.json"), folder.file("x.txt"));
    for (args, told) in [
        (&["nothing_like_this"][..], "--list"),
        (&["matmul", "nothing_like_this"], "got \"nothing_like_this\""),
        (&["mtmul"], "such as matmul,"),
        (&["transpose", "crosover"], "such as crossover,"),
        (&[""], "--list"),
        (&["matmul", "--case", "sqare_512"], "square_512"),
        (&["matmul", "--variant", "tile46"], "tile64"),
        (&["matmul", "--device", "no_such"], "no_such"),
        (&["matmul", "--backend", "cuda"], "reached through vulkan"),
        (&["matmul", "--export", &nowhere], "there is no folder"),
        (&["matmul", "--export", &text], ".json, .csv, .html or .md"),
        (&["matmul", "--tokens", "64"], "--n"),
        (&["scaling", "matmul"], "alone"),
        (&["scaling", "--quick"], "no meaning"),
        (&["position", "--device", "all"], "one device"),
        (&["scaling", "crossover"], "alone"),
    ] {
        let output = bench(args);
        let errors = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{args:?}: {errors}");
        assert!(output.stdout.is_empty(), "{args:?}");
        assert_eq!(errors.lines().filter(|l| l.starts_with("error: ")).count(), 1, "{args:?}: {errors}");
        assert!(errors.contains(told), "{args:?}: {errors}");
    }
    for args in [&["--n", "0"][..], &["--seconds", "-1"], &["--max-dispatch-ms", "0"], &["--order-seed", "x"]]
    {
        assert_eq!(bench(args).status.code(), Some(2), "{args:?}");
    }
}

/// The adapters of this machine; none is told, because a test cannot be ignored while it runs.
fn backends() -> Vec<(String, WgpuBackend)> {
    let found = support::adapters_by_name();
    if found.is_empty() {
        println!("no adapter on this machine: nothing was tested");
    }
    let open = |(name, adapter): &(String, wgpu::Adapter)| {
        let backend =
            WgpuBackend::on_adapter(adapter, Options::default()).expect("the adapter gives a device");
        (name.clone(), backend)
    };
    found.iter().map(open).collect()
}

/// A compiled case with its inputs and its tensors.
fn prepared(backend: &WgpuBackend, concrete: &Concrete) -> (WgpuProgram, Vec<Option<Tensor>>) {
    let (graph, _, tensors) = concrete.graph().expect("a case makes a graph");
    let mut program = backend.prepare(&graph).expect("it compiles");
    for (tensor, input) in tensors.iter().zip(&concrete.inputs) {
        if let (Some(tensor), Some(input)) = (tensor, input) {
            program.write(*tensor, input).expect("an input of the case");
        }
    }
    (program, tensors)
}

#[test]
fn dispatches_cut_into_parts_compute_the_same_bits() {
    // One that is cut by rows, one by heads with copies into textures, a tile, one of few groups, and one without arithmetic.
    let cases = [
        ("exact_attention", "odd"),
        ("kernel_matrix", "odd"),
        ("matmul", "odd"),
        ("scan", "odd_long"),
        ("transpose", "odd"),
    ];
    for (name, backend) in backends() {
        for (kernel, case) in cases {
            let spec = find(kernel).expect("a kernel of the list");
            let case = spec.cases.iter().find(|c| c.name == case).expect("one of its cases");
            let concrete = Concrete::of(spec, case).expect("a case");
            let results: Vec<(usize, Vec<HostTensor>)> = [None, Some(1.0)]
                .into_iter()
                .map(|most| {
                    let (mut program, tensors) = prepared(&backend.with_most_work(most), &concrete);
                    let parts = program.run_in_parts(Duration::from_millis(50)).expect("it runs");
                    assert!(parts.submissions >= 1 && parts.longest_seconds > 0.0, "{parts:?}");
                    let outputs = spec
                        .ports
                        .iter()
                        .zip(&tensors)
                        .filter(|(p, _)| p.access == wgattn::kernel::Access::Write);
                    let read = outputs
                        .filter_map(|(_, t)| *t)
                        .map(|t| program.read(t).expect("an output"))
                        .collect();
                    (program.dispatches(), read)
                })
                .collect();
            assert!(results[1].0 > results[0].0, "{name} {kernel}: {} dispatches", results[1].0);
            assert_eq!(results[0].1, results[1].1, "{name} {kernel}");
        }
    }
}

/// C03: long work comes in dispatches of about the length that was asked for.
#[test]
fn no_dispatch_is_much_longer_than_allowed() {
    const ALLOWED: f64 = 0.05;
    let large = |kernel: &str, case: &str, sizes: &[(&'static str, u32)]| {
        let spec = find(kernel).expect("a kernel of the list");
        let case = spec.cases.iter().find(|c| c.name == case).expect("one of its cases");
        Concrete::with_dims(spec, case, Dims::of(sizes)).expect("sizes of the kernel")
    };
    // Arithmetic only, and none at all.
    let attention = [("b", 1), ("h", 2), ("n", 2048), ("m", 2048), ("d", 64), ("e", 64)];
    let cases = [
        large("exact_attention", "softmax_1024", &attention),
        large("transpose", "odd", &[("b", 1), ("h", 1), ("n", 4096), ("m", 4096)]),
    ];
    for ((name, backend), concrete) in
        backends().into_iter().flat_map(|b| cases.iter().map(move |c| (b.clone(), c)))
    {
        let options = wgattn::bench::Options {
            seconds: 0.0,
            runs: 3,
            check_work: 1e7,
            most_dispatch_seconds: Some(ALLOWED),
            ..Default::default()
        };
        let mut expected =
            |c: &Concrete| wgattn::bench::Expected::of(c, wgattn::bench::Check::Work(options.check_work));
        let measured =
            wgattn::bench::measure_with(&backend, concrete, options, &mut expected).expect("it runs");
        assert!(measured.found.is_some_and(|f| f.is_right()), "{name}: {measured:?}");
        // As long as the benchmark would have cut them by itself.
        let (mut program, _) = prepared(&backend.with_most_work(Some(0.25 * 64e6)), concrete);
        program.run().expect("it runs");
        let parts = program.run_in_parts(Duration::from_secs_f64(ALLOWED)).expect("it runs");
        let longest = parts.longest_dispatch_seconds;
        let kernel = concrete.spec.name;
        assert!(longest <= 4.0 * ALLOWED, "{name} {kernel}: a dispatch took {longest} s");
    }
}

/// C24: many heads and layers are few dispatches, and encoding them is cheap.
#[test]
fn twelve_layers_are_few_dispatches_and_encode_quickly() {
    use wgattn::graph::Graph;
    use wgattn::tensor::DType;
    let spec = find("exact_attention").expect("a kernel of the list");
    let case = spec.cases.iter().find(|c| c.name == "softmax_1024").expect("one of its cases");
    for (name, backend) in backends() {
        let mut graph = Graph::new("twelve layers");
        let shape = [1, 6, 257, 32];
        let first = graph.input("x", shape, DType::F32);
        let mut x = first;
        for layer in 0..12 {
            let out = graph.transient(&format!("layer {layer}"), shape, DType::F32);
            let port = |name: &str| match name {
                "q" | "k" | "v" => Some(x),
                "out" => Some(out),
                _ => None,
            };
            let args: Vec<Option<Tensor>> = spec.ports.iter().map(|p| port(p.name)).collect();
            graph.pass_bytes(spec, &(case.params)(), &args).expect("shapes of the kernel");
            x = out;
        }
        graph.output(x).expect("a tensor of the graph");
        let mut program = backend.prepare(&graph).expect("it compiles");
        let numbers = (0..6 * 257 * 32).map(|i| (i % 17) as f32 / 17.0).collect();
        program.write(first, &HostTensor::f32(shape, numbers).expect("so many numbers")).expect("an input");
        program.run().expect("it runs");
        assert!(program.dispatches() <= 40, "{name}: {} dispatches", program.dispatches());
        let least = |times: [f64; 3]| times.into_iter().fold(f64::MAX, f64::min);
        let encode =
            least([0; 3].map(|_| {
                program.encode_seconds().expect("it encodes").expect("there is something to encode")
            }));
        let total = least([0; 3].map(|_| program.run().expect("it runs").wall_seconds));
        assert!(encode < 0.2 * total, "{name}: encoding took {encode} of {total} s");
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
    let loads = (variant.loads)(&Dims::of(dims), &(spec.defaults)());
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
