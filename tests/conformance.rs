//! `wgattn conformance`: what it says and writes, that injected faults are told as designed, that a reproduction can be run from its
//! files alone, and that the page for browsers passes in one.

use libtest_mimic::{Arguments, Failed, Trial};
use serde_json::{Value, json};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};
use wgattn::backend::recording::{Recording, Written};
use wgattn::backend::wgpu::WgpuBackend;
use wgattn::backend::{Backend, DeviceInfo, Memory, Program, Timings, cpu::CpuBackend};
use wgattn::conformance::{self, Device, Document, Dump, Finished, Outcome};
use wgattn::error::{Error, Result};
use wgattn::graph::{Graph, PassId, Schedule};
use wgattn::kernel::{Caps, Case, KernelSpec};
use wgattn::kernels::KERNELS;
use wgattn::tensor::{HostData, HostTensor, Tensor};

mod support;

type Check = fn() -> std::result::Result<(), Failed>;

fn main() {
    let args = Arguments::from_args();
    let anywhere: [(&str, Check); 12] = [
        ("command::a_table_ends_well_where_everything_passes", table),
        ("command::json_is_only_json_and_the_file_holds_the_same", json),
        ("command::wrong_usage_is_told_in_one_line", refusals),
        ("command::nothing_that_failed_leaves_no_folder_and_all_can_be_asked_for", dump_all),
        ("command::several_filters_are_one_run_and_a_device_is_run_once", filters_and_devices),
        ("command::a_device_that_cannot_be_opened_is_left_out_and_told", left_out),
        ("fault::a_device_that_cannot_be_opened_says_why", unopened),
        ("fault::a_device_that_does_not_answer_costs_its_rows_and_no_more", hangs),
        ("fault::a_device_that_hangs_while_it_opens_is_given_up", hangs_opening),
        ("fault::a_lost_device_is_opened_again_and_costs_a_row", lost),
        ("fault::what_a_driver_refuses_is_a_row", refused),
        ("fault::a_panic_below_us_is_a_row", panicked),
    ];
    let mut trials: Vec<Trial> = anywhere.into_iter().map(|(name, check)| Trial::test(name, check)).collect();
    if cfg!(all(unix, feature = "cuda")) {
        // On sources that take their time to be compiled, so that a run is long on any machine.
        trials.push(Trial::test("command::an_interrupt_keeps_what_is_there", interrupted));
        trials.push(Trial::test("cuda::a_reproduction_holds_source_and_launch", cuda_dump));
        trials.push(Trial::test("cuda::a_compiler_that_hangs_hangs_nothing_else", cuda_hangs));
    }
    trials.extend(support::trials(&[
        ("fault::a_wrong_number_is_found_and_its_reproduction_runs", wrong_number),
        ("dump::what_each_dispatch_wrote_lies_beside_it", traced),
        ("words::what_no_variant_takes_is_told_with_its_sizes", unsuitable),
    ]));
    let page = "browser::the_page_passes_and_exports_the_same_json";
    trials.push(match support::browser_absent() {
        Some(reason) => support::absent(page, &reason, support::browser_required()),
        None => Trial::test(page, browser),
    });
    libtest_mimic::run(&args, trials).exit();
}

macro_rules! ensure {
    ($condition:expr, $($said:tt)+) => {
        if !$condition {
            return Err(format!($($said)+).into());
        }
    };
}

/// A folder of one test's own, empty at its start.
fn folder(test: &str) -> PathBuf {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join("conformance").join(test);
    if path.exists() {
        fs::remove_dir_all(&path).expect("what a former run left");
    }
    fs::create_dir_all(&path).expect("a folder for the test");
    path
}

fn command(folder: &Path, args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_wgattn"))
        .arg("conformance")
        .args(args)
        .current_dir(folder)
        .output()
        .expect("the program starts")
}

fn said(output: &Output) -> (String, String) {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (text(&output.stdout), text(&output.stderr))
}

// ---- The command -------------------------------------------------------------------------------------------------

fn table() -> std::result::Result<(), Failed> {
    let output = command(&folder("table"), &["transpose", "--device", "cpu"]);
    let (out, err) = said(&output);
    ensure!(output.status.success(), "{out}{err}");
    let cases = conformance::select(&["transpose"]).len();
    let line = out.lines().find(|l| l.starts_with("all ")).unwrap_or_default();
    let numbers: Vec<&str> = line.split_whitespace().skip(1).take(4).collect();
    let all = cases.to_string();
    ensure!(numbers == [all.as_str(), all.as_str(), "0", "0"], "{line} for {cases} cases");
    ensure!(out.contains("transpose") && out.contains("worst error"), "{out}");
    Ok(())
}

/// Every field that the documentation of `Document::json` promises.
fn check_report(report: &Value, backend: &str) -> std::result::Result<(), Failed> {
    ensure!(report["schema"] == "wgattn-conformance" && report["schema_version"] == 2, "{report}");
    ensure!(report["wgattn"]["version"].is_string(), "no version");
    ensure!(report["date"].as_str().is_some_and(|d| d.len() == 20 && d.ends_with('Z')), "{}", report["date"]);
    ensure!(report["complete"] == true && report["left_out"] == json!([]), "{}", report["left_out"]);
    ensure!(
        report["system"]["os"].is_string() && report["system"]["cores"].is_number(),
        "{}",
        report["system"]
    );
    let devices = report["devices"].as_array().ok_or("no list of devices")?;
    ensure!(!devices.is_empty(), "no device");
    for device in devices {
        ensure!(device["device"]["backend"] == backend, "{}", device["device"]);
        for field in ["name", "type", "driver"] {
            ensure!(device["device"][field].is_string(), "{field}: {}", device["device"]);
        }
        for field in ["index", "pci", "bus"] {
            ensure!(device["device"].get(field).is_some(), "no {field}: {}", device["device"]);
        }
        ensure!(device["seconds"].is_number(), "{}", device["seconds"]);
        let rows = device["rows"].as_array().ok_or("no rows")?;
        let count = |outcome: &str| rows.iter().filter(|row| row["outcome"] == outcome).count();
        for outcome in ["passed", "failed", "ignored"] {
            ensure!(
                device[outcome] == count(outcome),
                "{outcome}: {} of {}",
                device[outcome],
                count(outcome)
            );
        }
        for row in rows {
            ensure!(row["kernel"].is_string() && row["case"].is_string(), "{row}");
            ensure!(row["why"].is_null() == (row["outcome"] == "passed"), "{row}");
            let outputs = row["outputs"].as_array().ok_or("no outputs")?;
            ensure!(row["outcome"] != "passed" || !outputs.is_empty(), "passed without a comparison: {row}");
            for output in outputs {
                for field in ["error", "allowed", "naive", "share", "index"] {
                    ensure!(output[field].is_number() || row["outcome"] == "failed", "{field}: {row}");
                }
            }
        }
    }
    Ok(())
}

fn json() -> std::result::Result<(), Failed> {
    let folder = folder("json");
    let output = command(&folder, &["scan", "--device", "cpu", "--json", "--out", "report.json"]);
    let (out, err) = said(&output);
    ensure!(output.status.success(), "{out}{err}");
    let report: Value = serde_json::from_str(&out)?;
    check_report(&report, "cpu")?;
    let file: Value = serde_json::from_slice(&fs::read(folder.join("report.json"))?)?;
    ensure!(file == report && report["filter"] == "scan", "the file differs: {file}");
    Ok(())
}

fn refusals() -> std::result::Result<(), Failed> {
    let folder = folder("refusals");
    fs::create_dir(folder.join("full"))?;
    fs::write(folder.join("full/mine.txt"), "mine")?;
    let cases: [(&[&str], &[&str]); 14] = [
        (&["matmull"], &["no kernel matches \"matmull\"", "did you mean matmul?"]),
        (&["scan", "matmull", "--device", "cpu"], &["did you mean matmul?"]),
        (&["scan", ""], &["no kernel matches \"\""]),
        (&["scan", "matmull", "--web", "page"], &["did you mean matmul?"]),
        (&["scan", "--max-case-seconds", "0"], &["0.1 to 86400"]),
        (&["scan", "--backend", "opencl"], &["expected one of [vulkan"]),
        (&["scan/nothing"], &["no case of \"scan\"", "the nearest of them are ["]),
        (&["scan", "--device", "cpu", "--dump", "full"], &["full", "not empty"]),
        (&["scan", "--web", "full"], &["full", "not empty"]),
        (&["scan", "--web", "no/where"], &["there is no folder no"]),
        (&["scan", "--device", "cpu", "--out", "no/where.json"], &["there is no folder no"]),
        (&["scan", "--device", "cpu,999"], &["999"]),
        (&["scan", "--dump-all"], &["--dump"]),
        (&["scan", "--web", "page", "--json"], &["--web", "--json"]),
    ];
    for (args, parts) in cases {
        let output = command(&folder, args);
        let (out, err) = said(&output);
        let line = err.lines().find(|l| l.starts_with("error:")).unwrap_or_default();
        ensure!(matches!(output.status.code(), Some(1 | 2)) && out.is_empty(), "{args:?}: {out}{err}");
        for part in parts {
            ensure!(err.contains(part), "{args:?}: no {part:?} in {line}");
        }
    }
    ensure!(fs::read(folder.join("full/mine.txt"))? == b"mine", "a refused folder was touched");
    Ok(())
}

fn dump_all() -> std::result::Result<(), Failed> {
    let folder = folder("dump_all");
    let output = command(&folder, &["scan/smallest", "--device", "cpu", "--dump", "dump"]);
    let (out, err) = said(&output);
    ensure!(output.status.success() && err.contains("nothing failed"), "{out}{err}");
    ensure!(fs::read_dir(&folder)?.count() == 0, "something was left in {}", folder.display());
    let output = command(&folder, &["scan/smallest", "--device", "cpu", "--dump", "dump", "--dump-all"]);
    let (out, err) = said(&output);
    ensure!(output.status.success() && err.contains("in dump"), "{out}{err}");
    let manifest: Value =
        serde_json::from_slice(&fs::read(folder.join("dump/scan-smallest/manifest.json"))?)?;
    ensure!(manifest["unrecorded"].as_str().is_some_and(|why| why.contains("reference")), "{manifest}");
    Ok(())
}

fn filters_and_devices() -> std::result::Result<(), Failed> {
    let folder = folder("filters");
    let args = ["scan/smallest", "transpose", "scan", "--device", "cpu,CPU", "--json"];
    let output = command(&folder, &args);
    let (out, err) = said(&output);
    ensure!(output.status.success(), "{out}{err}");
    let report: Value = serde_json::from_str(&out)?;
    check_report(&report, "cpu")?;
    let devices = report["devices"].as_array().ok_or("no devices")?;
    ensure!(devices.len() == 1 && report["filter"] == "scan/smallest transpose scan", "{report}");
    let rows = devices[0]["rows"].as_array().map_or(0, Vec::len);
    let wanted = conformance::select(&["scan", "transpose"]).len();
    ensure!(rows == wanted, "{rows} rows, and {wanted} cases");
    // Progress where there is no terminal.
    ensure!(err.contains(&format!("checking {wanted} cases on CPU")), "{err}");
    let Some(first) = wgattn::backend::device::list().into_iter().next() else { return Ok(()) };
    let word = first.name.replace(',', " ");
    let word = word.split_whitespace().next().unwrap_or_default();
    let output = command(&folder, &["transpose/smallest", "--device", &format!("0,auto,{word}"), "--json"]);
    let (out, err) = said(&output);
    let report: Value = serde_json::from_str(&out)?;
    ensure!(report["devices"].as_array().map_or(0, Vec::len) == 1, "{word}: {out}{err}");
    ensure!(report["devices"][0]["device"]["index"] == 0, "{out}");
    Ok(())
}

fn left_out() -> std::result::Result<(), Failed> {
    let folder = folder("left_out");
    let filter = "transpose/smallest";
    let args = [filter, "--device", "cuda:99,cpu", "--json", "--out", "report.json"];
    let output = command(&folder, &args);
    let (out, err) = said(&output);
    ensure!(output.status.code() == Some(1), "{out}{err}");
    ensure!(err.contains("note: device cuda:99 is left out: "), "{err}");
    ensure!(err.contains("error: device cuda:99 could not be opened"), "{err}");
    let report: Value = serde_json::from_str(&out)?;
    ensure!(report["complete"] == false && report["left_out"][0]["asked"] == "device cuda:99", "{out}");
    ensure!(report["left_out"][0]["reason"].is_string() && report["devices"][0]["failed"] == 0, "{out}");
    ensure!(report["devices"][0]["device"]["backend"] == "cpu", "the others run: {out}");
    let file: Value = serde_json::from_slice(&fs::read(folder.join("report.json"))?)?;
    ensure!(file == report, "the file differs: {file}");
    // A backend that this system cannot have, among others.
    let absent = if cfg!(target_os = "macos") { "dx12" } else { "metal" };
    let output = command(&folder, &[filter, "--backend", &format!("cpu,{absent}")]);
    let (out, err) = said(&output);
    ensure!(output.status.success() && err.contains(&format!("no device of {absent}")), "{out}{err}");
    ensure!(!out.contains("·  ·") && !out.contains("· \n"), "an empty driver leaves no gap: {out}");
    Ok(())
}

/// Waits until a condition holds.
fn until(what: &str, holds: &mut dyn FnMut() -> bool) -> std::result::Result<(), Failed> {
    let deadline = Instant::now() + Duration::from_secs(120);
    while !holds() {
        ensure!(Instant::now() < deadline, "{what}: not within two minutes");
        std::thread::yield_now();
    }
    Ok(())
}

/// A C++ compiler that says its version, and for a source does what the shell is told.
fn compiler(folder: &Path, does: &str) -> std::result::Result<PathBuf, Failed> {
    let path = folder.join("c++");
    fs::write(&path, format!("#!/bin/sh\n[ \"$1\" = --version ] && echo 'false 1.0' && exit 0\n{does}\n"))?;
    ensure!(Command::new("chmod").arg("+x").arg(&path).status()?.success(), "chmod is a part of every Unix");
    Ok(path)
}

/// Ctrl-C in the midst of a run, as a terminal sends it. Every row fails after a while.
fn interrupted() -> std::result::Result<(), Failed> {
    let folder = folder("interrupted");
    let slow = compiler(&folder, "sleep 0.2; exit 1")?;
    for (signal, number) in [("INT", 2), ("TERM", 15)] {
        let home = folder.join(signal);
        fs::create_dir(&home)?;
        let child = Command::new(env!("CARGO_BIN_EXE_wgattn"))
            .args([
                "conformance",
                "--device",
                "cuda:host",
                "--json",
                "--out",
                "report.json",
                "--dump",
                "dump",
            ])
            .env("CXX", &slow)
            .current_dir(&home)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()?;
        let read = |path: PathBuf| -> Value {
            fs::read(path).ok().and_then(|bytes| serde_json::from_slice(&bytes).ok()).unwrap_or_default()
        };
        let rows = |report: &Value| report["devices"][0]["rows"].as_array().map_or(0, Vec::len);
        until("a first row", &mut || rows(&read(home.join("report.json"))) > 0)?;
        let sent = Command::new("kill").args([&format!("-{signal}"), &child.id().to_string()]).status()?;
        ensure!(sent.success(), "kill is a part of every Unix");
        let output = child.wait_with_output()?;
        let (out, err) = said(&output);
        ensure!(signal_of(&output) == Some(number), "{:?}: {err}", output.status);
        ensure!(err.contains("interrupted") && err.contains("until the interrupt"), "{err}");
        let report: Value = serde_json::from_str(&out)?;
        let all = conformance::select::<&str>(&[]).len();
        ensure!(
            report["complete"] == false && (1..all).contains(&rows(&report)),
            "{} of {all}",
            rows(&report)
        );
        ensure!(read(home.join("report.json")) == report, "the file differs");
        let dumped = fs::read_dir(home.join("dump"))?.flatten().filter(|e| e.path().is_dir()).count();
        ensure!(dumped == rows(&report), "{dumped} reproductions of {}", rows(&report));
        ensure!(fs::read_dir(&home)?.count() == 2, "something is left beside file and folder");
    }
    Ok(())
}

#[cfg(unix)]
fn signal_of(output: &Output) -> Option<i32> {
    std::os::unix::process::ExitStatusExt::signal(&output.status)
}

#[cfg(not(unix))]
fn signal_of(_: &Output) -> Option<i32> {
    None
}

// ---- CUDA --------------------------------------------------------------------------------------------------------

fn cuda_dump() -> std::result::Result<(), Failed> {
    let folder = folder("cuda_dump");
    let args = ["scale_rows", "fft/small", "--device", "cuda:host", "--dump", "dump", "--dump-all"];
    let output = command(&folder, &args);
    let (out, err) = said(&output);
    ensure!(output.status.success(), "{out}{err}");
    let (mut launches, mut calls) = (0, 0);
    for entry in fs::read_dir(folder.join("dump"))?.flatten().filter(|e| e.path().is_dir()) {
        let case = entry.path();
        let manifest: Value = serde_json::from_slice(&fs::read(case.join("manifest.json"))?)?;
        ensure!(manifest["unrecorded"].is_null(), "{}", manifest["unrecorded"]);
        let run = &manifest["run"];
        for command in run["commands"].as_array().ok_or("no commands")? {
            calls += usize::from(command["do"] == "library");
            if command["do"] != "launch" {
                continue;
            }
            launches += 1;
            ensure!(
                command["blocks"].as_u64() > Some(0) && command["threads"].as_u64() > Some(0),
                "{command}"
            );
            let params = command["params"].as_array().ok_or("no params")?;
            ensure!(
                params.iter().all(|word| word["bits"].is_string() && word["name"].is_string()),
                "{command}"
            );
            let source = &run["sources"][command["source"].as_u64().ok_or("no source")? as usize];
            let text = fs::read_to_string(case.join(source["text"].as_str().ok_or("no text")?))?;
            let entry = source["entry_point"].as_str().ok_or("no entry")?;
            ensure!(
                text.contains("extern \"C\" __global__") && text.contains(&format!(" {entry}(")),
                "{text}"
            );
            for argument in command["arguments"].as_array().ok_or("no arguments")? {
                let buffer = argument["buffer"].as_u64();
                ensure!(buffer.is_none_or(|at| !run["buffers"][at as usize].is_null()), "{argument}");
            }
        }
        let output = &manifest["outputs"][0];
        ensure!(!output["place"].is_null() && output["expected"].is_string(), "{output}");
        let readme = fs::read_to_string(case.join("README.txt"))?;
        ensure!(readme.contains("NVRTC") && !readme.contains("WebGPU implementation"), "{readme}");
    }
    ensure!(launches > 0 && calls > 0, "{launches} launches and {calls} calls of a library");
    Ok(())
}

/// A compiler that says its version and then never ends, as a driver's may: the device is given up, the other one runs, and the program
/// ends with everything written.
fn cuda_hangs() -> std::result::Result<(), Failed> {
    let folder = folder("cuda_hangs");
    let compiler = compiler(&folder, "exec sleep 30")?;
    let since = Instant::now();
    let args = [
        "transpose",
        "scale_rows",
        "--device",
        "cuda:host,cpu",
        "--max-case-seconds",
        "3",
        "--json",
        "--out",
        "report.json",
        "--dump",
        "dump",
    ];
    let output = Command::new(env!("CARGO_BIN_EXE_wgattn"))
        .arg("conformance")
        .args(args)
        .env("CXX", &compiler)
        .current_dir(&folder)
        .output()?;
    let (out, err) = said(&output);
    ensure!(output.status.code() == Some(1) && since.elapsed() < Duration::from_secs(25), "{out}{err}");
    ensure!(err.contains("stopped answering in ") && err.contains("--max-case-seconds"), "{err}");
    let report: Value = serde_json::from_str(&out)?;
    let (host, cpu) = (&report["devices"][0], &report["devices"][1]);
    let all = conformance::select(&["transpose", "scale_rows"]).len();
    ensure!(host["failed"] == 1 && host["ignored"] == all - 1, "{host}");
    ensure!(cpu["passed"] == all, "{cpu}");
    let rows = host["rows"].as_array().ok_or("no rows")?;
    let failed = rows.iter().find(|r| r["outcome"] == "failed").ok_or("no failed row")?;
    ensure!(failed["why"].as_str().is_some_and(|w| w.contains("no answer within 3 s")), "{failed}");
    let told =
        |row: &&Value| row["why"].as_str().is_some_and(|why| why.contains("the device stopped answering in"));
    ensure!(rows.iter().filter(told).count() == all - 1, "{rows:?}");
    let file: Value = serde_json::from_slice(&fs::read(folder.join("report.json"))?)?;
    ensure!(file == report, "the file differs");
    // What the card would have been told to do is known all the same.
    let case =
        fs::read_dir(folder.join("dump"))?.flatten().find(|e| e.path().is_dir()).ok_or("no folder")?.path();
    let sources = fs::read_dir(&case)?.flatten().filter(|e| e.path().extension().is_some_and(|x| x == "cu"));
    ensure!(sources.count() > 0, "no source in {}", case.display());
    Ok(())
}

// ---- Faults ------------------------------------------------------------------------------------------------------

/// What goes wrong on a device, for graphs of one kernel.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Fault {
    /// The last number of every output is one more.
    Wrong(&'static str),
    /// The driver does not compile it.
    Refuses(&'static str),
    /// Something below us panics.
    Panics(&'static str),
    /// The device goes away the first time.
    Loses(&'static str),
    /// The driver never comes back.
    Hangs(&'static str),
}

/// A device with a fault.
#[derive(Clone, Debug)]
struct Faulty {
    inner: Arc<dyn Backend>,
    fault: Fault,
    losses: Arc<AtomicUsize>,
}

impl Faulty {
    fn new(inner: Arc<dyn Backend>, fault: Fault) -> Self {
        Self { inner, fault, losses: Arc::default() }
    }

    /// A device under test; opening it counts.
    fn device(self, openings: Arc<AtomicUsize>) -> Device {
        let open = move || {
            openings.fetch_add(1, Ordering::Relaxed);
            Ok(Arc::new(self.clone()) as Arc<dyn Backend>)
        };
        opened(Box::new(open))
    }
}

/// A device under test that opens.
fn opened(open: conformance::Open) -> Device {
    Device::open("the test's device", None, PATIENCE, open).expect("it opens")
}

/// Seconds that a case may take here: none comes near.
const PATIENCE: f64 = conformance::MOST_CASE_SECONDS;

impl Backend for Faulty {
    fn info(&self) -> DeviceInfo {
        self.inner.info()
    }

    fn compile(&self, graph: &Graph) -> Result<Box<dyn Program>> {
        let inner = self.inner.compile(graph)?;
        let kernel = inner.schedule().label.clone();
        match self.fault {
            Fault::Refuses(name) if name == kernel => Err(Error::Device {
                device: self.info().name,
                context: kernel,
                message: "internal compiler error".into(),
            }),
            Fault::Panics(name) if name == kernel && self.losses.fetch_add(1, Ordering::Relaxed) == 0 => {
                panic!("on purpose: internal error: entered unreachable code")
            }
            Fault::Loses(name) if name == kernel && self.losses.fetch_add(1, Ordering::Relaxed) == 0 => {
                Err(Error::DeviceLost { device: self.info().name, reason: "unplugged".into() })
            }
            Fault::Hangs(name) if name == kernel => loop {
                std::thread::park();
            },
            Fault::Wrong(name) => Ok(Box::new(FaultyProgram { inner, wrong: name == kernel })),
            _ => Ok(inner),
        }
    }

    fn device_caps(&self) -> Option<&Caps> {
        self.inner.device_caps()
    }

    fn held_to(&self, variants: &str) -> Result<Box<dyn Backend>> {
        let inner = Arc::from(self.inner.held_to(variants)?);
        Ok(Box::new(Self { inner, fault: self.fault, losses: Arc::clone(&self.losses) }))
    }
}

#[derive(Debug)]
struct FaultyProgram {
    inner: Box<dyn Program>,
    wrong: bool,
}

impl Program for FaultyProgram {
    fn write(&mut self, tensor: Tensor, data: &HostTensor) -> Result<()> {
        self.inner.write(tensor, data)
    }

    fn set_param_bytes(&mut self, pass: PassId, params: &[u8]) -> Result<()> {
        self.inner.set_param_bytes(pass, params)
    }

    fn run(&mut self) -> Result<Timings> {
        self.inner.run()
    }

    fn read(&mut self, tensor: Tensor) -> Result<HostTensor> {
        let mut numbers = self.inner.read(tensor)?.to_f32();
        if let (true, Some(last)) = (self.wrong, numbers.last_mut()) {
            *last += 1.0;
        }
        HostTensor::new(tensor.shape(), HostData::F32(numbers))
    }

    fn recording(&self, inputs: &[(Tensor, &HostTensor)]) -> Result<Option<Recording>> {
        self.inner.recording(inputs)
    }

    fn trace(&self) -> Result<Vec<Vec<Written>>> {
        self.inner.trace()
    }

    fn set_profiling(&mut self, on: bool) {
        self.inner.set_profiling(on);
    }

    fn schedule(&self) -> &Schedule {
        self.inner.schedule()
    }

    fn memory(&self) -> Memory {
        self.inner.memory()
    }
}

type Cases = Vec<(&'static KernelSpec, &'static Case)>;

/// Cases of two kernels, one of which gets the fault.
fn of_two() -> Cases {
    conformance::select(&["row_affine", "scale_rows"])
}

fn unopened() -> std::result::Result<(), Failed> {
    let why = || Error::NoDevice { asked: "it".into(), reason: "the adapter gave no device".into() };
    let opened = Device::open("it", None, PATIENCE, Box::new(move || Err(why())));
    let said = opened.err().ok_or("it does not open")?.to_string();
    ensure!(said.contains("gave no device"), "{said}");
    let panics = || panic!("on purpose: a driver's layer");
    let opened = Device::open("it", None, PATIENCE, Box::new(panics));
    let said = opened.err().ok_or("it does not open")?.to_string();
    ensure!(said.contains("panicked"), "{said}");
    Ok(())
}

fn hangs_opening() -> std::result::Result<(), Failed> {
    let never = || loop {
        std::thread::park();
    };
    let opened = Device::open("it", None, 0.5, Box::new(never));
    let said = opened.err().ok_or("it does not open")?.to_string();
    ensure!(said.contains("\"it\"") && said.contains("did not open it within 0.5 s"), "{said}");
    Ok(())
}

/// Rows before the hang stay, the row that hangs is broken, those after it are told, and another device runs.
fn hangs() -> std::result::Result<(), Failed> {
    let mut device = Faulty::new(Arc::new(CpuBackend), Fault::Hangs("scale_rows")).device(Arc::default());
    let (cases, mut told) = (of_two(), 0);
    device.run(&cases, 3.0, &mut |_: &Finished<'_>| told += 1);
    ensure!(
        device.rows.len() == cases.len() && told == cases.len(),
        "{} rows, {told} told",
        device.rows.len()
    );
    let places: Vec<_> = device.rows.iter().map(|row| (row.kernel, row.case)).collect();
    let wanted: Vec<_> = cases.iter().map(|(spec, case)| (spec.name, case.name)).collect();
    ensure!(places == wanted, "in another order: {places:?}");
    let tally = device.tally();
    ensure!(tally.failed == 1 && device.fails(), "{tally:?}");
    let row = device.hung.clone().ok_or("it hung")?;
    ensure!(row.starts_with("scale_rows"), "{row}");
    let text = conformance::text(&device, false);
    ensure!(text.contains(&format!("FAILED {row}: no answer within 3 s")), "{text}");
    ensure!(text.contains(&format!("the device stopped answering in {row}")), "{text}");
    let mut other = opened(Box::new(|| Ok(Arc::new(CpuBackend))));
    other.run(&cases, PATIENCE, &mut |_: &Finished<'_>| {});
    ensure!(other.tally().passed == cases.len() && !other.fails(), "{:?}", other.tally());
    Ok(())
}

fn lost() -> std::result::Result<(), Failed> {
    let openings = Arc::new(AtomicUsize::new(0));
    let faulty = Faulty::new(Arc::new(CpuBackend), Fault::Loses("scale_rows"));
    let mut device = faulty.device(Arc::clone(&openings));
    device.run(&of_two(), PATIENCE, &mut |_: &Finished<'_>| {});
    let tally = device.tally();
    ensure!(tally.failed == 1 && tally.passed == of_two().len() - 1, "{tally:?}");
    ensure!(openings.load(Ordering::Relaxed) == 2, "opened {openings:?} times");
    let text = conformance::text(&device, false);
    ensure!(text.contains("FAILED scale_rows") && text.contains("unplugged"), "{text}");
    Ok(())
}

fn panicked() -> std::result::Result<(), Failed> {
    let openings = Arc::new(AtomicUsize::new(0));
    let faulty = Faulty::new(Arc::new(CpuBackend), Fault::Panics("scale_rows"));
    let mut device = faulty.device(Arc::clone(&openings));
    device.run(&of_two(), PATIENCE, &mut |_: &Finished<'_>| {});
    let (tally, text) = (device.tally(), conformance::text(&device, false));
    ensure!(tally.failed == 1 && tally.passed == of_two().len() - 1, "{tally:?}");
    ensure!(text.contains("panicked: on purpose"), "{text}");
    ensure!(openings.load(Ordering::Relaxed) == 2, "opened {openings:?} times");
    Ok(())
}

fn refused() -> std::result::Result<(), Failed> {
    let faulty = Faulty::new(Arc::new(CpuBackend), Fault::Refuses("scale_rows"));
    let mut device = faulty.device(Arc::default());
    let folder = folder("refused").join("dump");
    let (mut dump, mut added) = (Dump::beside(&folder, false)?, Ok(()));
    device.run(&of_two(), PATIENCE, &mut |finished: &Finished<'_>| {
        if added.is_ok() {
            added = dump.add(finished);
        }
    });
    added?;
    let cases = conformance::select(&["scale_rows"]).len();
    ensure!(device.tally().failed == cases, "{:?}", device.tally());
    ensure!(dump.put_in_place()? == cases, "a reproduction for each");
    let broken = |row: &&conformance::Row| matches!(&row.outcome, Outcome::Broken(why) if why.contains("compiler error"));
    let of_it = device.rows.iter().filter(|row| row.kernel == "scale_rows");
    ensure!(of_it.filter(broken).count() == cases, "{:?}", device.rows);
    let mut shapes = fs::read_dir(&folder)?.count();
    shapes -= 1;
    ensure!(shapes == cases, "{shapes} folders for {cases} cases");
    Ok(())
}

fn wrong_number(backend: &WgpuBackend) -> std::result::Result<(), String> {
    check_wrong_number(backend).map_err(|e| e.message().unwrap_or("failed").to_string())
}

/// A wrong result is a failing row; its reproduction, run from the files alone, gives what should have come out, since the
/// device itself is right.
fn check_wrong_number(backend: &WgpuBackend) -> std::result::Result<(), Failed> {
    let faulty = Faulty::new(Arc::new(backend.clone()), Fault::Wrong("scale_rows"));
    let mut device = faulty.device(Arc::default());
    let name = device_word(backend);
    let folder = folder(&format!("wrong-{name}")).join("dump");
    let (mut dump, mut added) = (Dump::beside(&folder, false)?, Ok(()));
    device.run(&of_two(), PATIENCE, &mut |finished: &Finished<'_>| {
        if added.is_ok() {
            added = dump.add(finished);
        }
    });
    added?;
    ensure!(!folder.exists(), "the folder appears at the end");
    dump.put_in_place()?;
    // An empty result has no last number.
    let failing: Vec<_> = device.rows.iter().filter(|row| row.outcome.is_failure()).collect();
    ensure!(!failing.is_empty() && failing.iter().all(|row| row.kernel == "scale_rows"), "{failing:?}");
    let text = conformance::text(&device, false);
    ensure!(text.contains("FAILED scale_rows/") && text.contains("; element "), "{text}");
    let json = Document::begun(Some("scale".into())).json([&device]);
    let row =
        json["devices"][0]["rows"].as_array().and_then(|rows| rows.iter().find(|r| r["outcome"] == "failed"));
    ensure!(row.is_some_and(|row| row["outputs"][0]["share"].as_f64() > Some(1.0)), "{row:?}");
    let mut replayed = 0;
    for entry in fs::read_dir(&folder)? {
        let case = entry?.path();
        if case.is_dir() {
            replay(backend, &case)?;
            replayed += 1;
        }
    }
    ensure!(replayed > 0, "no reproduction in {}", folder.display());
    Ok(())
}

fn device_word(backend: &WgpuBackend) -> String {
    let info = backend.info();
    let word: String = info.name.chars().filter(char::is_ascii_alphanumeric).collect();
    format!("{word}-{}", info.backend)
}

/// Runs a reproduction as its README says, on buffers alone, and compares with the expected file.
fn replay(backend: &WgpuBackend, case: &Path) -> std::result::Result<(), Failed> {
    use wgpu::util::DeviceExt as _;
    let (device, queue) = (backend.device(), backend.queue());
    let manifest: Value = serde_json::from_slice(&fs::read(case.join("manifest.json"))?)?;
    let readme = fs::read_to_string(case.join("README.txt"))?;
    ensure!(readme.contains("little-endian") && manifest["failure"].is_string(), "{readme}");
    let run = &manifest["run"];
    let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
    let number = |value: &Value| value.as_u64().unwrap_or_default();
    let file = |name: &Value| fs::read(case.join(name.as_str().unwrap_or_default()));
    let usage = wgpu::BufferUsages::COPY_SRC | wgpu::BufferUsages::COPY_DST;
    let mut buffers = Vec::new();
    for buffer in list(&run["buffers"]) {
        let mut bytes = if buffer["contents"].is_null() { Vec::new() } else { file(&buffer["contents"])? };
        bytes.resize(number(&buffer["bytes"]) as usize, 0);
        let uniform = list(&buffer["usage"]).iter().any(|u| u == "uniform");
        let kind = if uniform { wgpu::BufferUsages::UNIFORM } else { wgpu::BufferUsages::STORAGE };
        buffers.push(device.create_buffer_init(&wgpu::util::BufferInitDescriptor {
            label: None,
            contents: &bytes,
            usage: usage | kind,
        }));
    }
    ensure!(list(&run["textures"]).is_empty(), "this kernel has no textures here: {}", run["textures"]);
    let mut encoder = device.create_command_encoder(&wgpu::CommandEncoderDescriptor::default());
    for command in list(&run["commands"]) {
        ensure!(command["do"] == "dispatch", "this kernel is one dispatch: {command}");
        let shader = &run["shaders"][number(&command["shader"]) as usize];
        let text = String::from_utf8(file(&shader["source"])?)?;
        let module = device.create_shader_module(wgpu::ShaderModuleDescriptor {
            label: None,
            source: wgpu::ShaderSource::Wgsl(text.into()),
        });
        let entry = |binding: &Value| wgpu::BindGroupLayoutEntry {
            binding: number(&binding["binding"]) as u32,
            visibility: wgpu::ShaderStages::COMPUTE,
            ty: wgpu::BindingType::Buffer {
                ty: match binding["kind"].as_str() {
                    Some("uniform") => wgpu::BufferBindingType::Uniform,
                    kind => wgpu::BufferBindingType::Storage { read_only: kind == Some("read-only-storage") },
                },
                has_dynamic_offset: false,
                min_binding_size: None,
            },
            count: None,
        };
        let entries: Vec<_> = list(&shader["bindings"]).iter().map(entry).collect();
        let layout = device
            .create_bind_group_layout(&wgpu::BindGroupLayoutDescriptor { label: None, entries: &entries });
        let pipeline_layout = device.create_pipeline_layout(&wgpu::PipelineLayoutDescriptor {
            label: None,
            bind_group_layouts: &[Some(&layout)],
            ..Default::default()
        });
        let pipeline = device.create_compute_pipeline(&wgpu::ComputePipelineDescriptor {
            label: None,
            layout: Some(&pipeline_layout),
            module: &module,
            entry_point: shader["entry_point"].as_str(),
            compilation_options: wgpu::PipelineCompilationOptions::default(),
            cache: None,
        });
        let bound = list(&command["bindings"]);
        let entries: Vec<_> = bound
            .iter()
            .map(|b| wgpu::BindGroupEntry {
                binding: number(&b["binding"]) as u32,
                resource: wgpu::BindingResource::Buffer(wgpu::BufferBinding {
                    buffer: &buffers[number(&b["buffer"]) as usize],
                    offset: number(&b["offset"]),
                    size: wgpu::BufferSize::new(number(&b["bytes"])),
                }),
            })
            .collect();
        let group = device.create_bind_group(&wgpu::BindGroupDescriptor {
            label: None,
            layout: &layout,
            entries: &entries,
        });
        let mut pass = encoder.begin_compute_pass(&wgpu::ComputePassDescriptor::default());
        pass.set_pipeline(&pipeline);
        pass.set_bind_group(0, &group, &[]);
        let [x, y, z] = [0, 1, 2].map(|axis| number(&command["workgroups"][axis]) as u32);
        pass.dispatch_workgroups(x, y, z);
    }
    let output = &manifest["outputs"][0];
    let (expected, got) = (file(&output["expected"])?, file(&output["got"])?);
    ensure!(expected.len() == got.len() && expected != got, "the injected fault is not in the file");
    let place = &output["place"];
    let read = device.create_buffer(&wgpu::BufferDescriptor {
        label: None,
        size: expected.len() as u64,
        usage: wgpu::BufferUsages::MAP_READ | wgpu::BufferUsages::COPY_DST,
        mapped_at_creation: false,
    });
    let from = &buffers[number(&place["buffer"]) as usize];
    encoder.copy_buffer_to_buffer(from, number(&place["offset"]), &read, 0, expected.len() as u64);
    queue.submit([encoder.finish()]);
    read.slice(..).map_async(wgpu::MapMode::Read, |_| {});
    device.poll(wgpu::PollType::wait_indefinitely())?;
    let bytes = read.slice(..).get_mapped_range()?.to_vec();
    let floats = |bytes: &[u8]| -> Vec<f32> {
        bytes.chunks_exact(4).map(|c| f32::from_le_bytes([c[0], c[1], c[2], c[3]])).collect()
    };
    let (found, wanted) = (floats(&bytes), floats(&expected));
    let largest = wanted.iter().fold(0.0_f32, |m, x| m.max(x.abs()));
    let allowed = output["allowed"].as_f64().ok_or("no tolerance")? as f32 * largest.max(f32::MIN_POSITIVE);
    let close = found.iter().zip(&wanted).all(|(f, w)| (f - w).abs() <= allowed);
    ensure!(close, "{}: {found:?}, expected {wanted:?}", case.display());
    Ok(())
}

fn unsuitable(backend: &WgpuBackend) -> std::result::Result<(), String> {
    let (spec, case) = conformance::select(&["scale_rows"])[0];
    let expected = conformance::Expected::of(spec, case).map_err(|e| e.to_string())?;
    let held = backend.held_to("scale_rows/nothing").map_err(|e| e.to_string())?;
    let said = match conformance::check(held.as_ref(), &expected) {
        Ok(_) => return Err("there is no such variant".into()),
        Err(error) => error.to_string(),
    };
    let sizes: Vec<String> = case.dims.iter().map(|(name, size)| format!("{name} = {size}")).collect();
    match sizes.iter().all(|size| said.contains(size)) && !said.contains("Dims") && !said.contains("(\"") {
        true => Ok(()),
        false => Err(said),
    }
}

/// A kernel of several dispatches: the files hold what each of them wrote, down to the result.
fn traced(backend: &WgpuBackend) -> std::result::Result<(), String> {
    check_traced(backend).map_err(|e| e.message().unwrap_or("failed").to_string())
}

fn check_traced(backend: &WgpuBackend) -> std::result::Result<(), Failed> {
    let folder = folder(&format!("traced-{}", device_word(backend))).join("dump");
    let (mut dump, mut added) = (Dump::beside(&folder, true)?, Ok(()));
    let backend: Arc<dyn Backend> = Arc::new(backend.clone());
    let open = move || Ok(Arc::clone(&backend));
    let mut device = opened(Box::new(open));
    let mut cases = conformance::select(&["nystrom_attention"]);
    cases.truncate(1);
    device.run(&cases, PATIENCE, &mut |finished: &Finished<'_>| {
        if added.is_ok() {
            added = dump.add(finished);
        }
    });
    added?;
    ensure!(dump.put_in_place()? == 1, "{:?}", device.rows);
    let case = fs::read_dir(&folder)?.flatten().find(|e| e.path().is_dir()).ok_or("no folder")?.path();
    let manifest: Value = serde_json::from_slice(&fs::read(case.join("manifest.json"))?)?;
    let commands = manifest["run"]["commands"].as_array().ok_or("no commands")?;
    let dispatches: Vec<&Value> = commands.iter().filter(|c| c["do"] == "dispatch").collect();
    ensure!(dispatches.len() > 1, "{} dispatches", dispatches.len());
    let output = &manifest["outputs"][0];
    let got = fs::read(case.join(output["got"].as_str().ok_or("no result")?))?;
    let mut found = false;
    for dispatch in dispatches {
        for wrote in dispatch["wrote"].as_array().ok_or("a dispatch without what it wrote")? {
            let bytes = fs::read(case.join(wrote["contents"].as_str().ok_or("no file")?))?;
            let mut bound = dispatch["bindings"].as_array().into_iter().flatten();
            let bound = bound.find(|b| b["binding"] == wrote["binding"]).ok_or("binds nothing there")?;
            ensure!(bound["bytes"] == bytes.len(), "{bound}: {} bytes", bytes.len());
            found |= bound["buffer"] == output["place"]["buffer"] && bytes.starts_with(&got);
        }
    }
    ensure!(found, "no dispatch wrote the result: {output}");
    Ok(())
}

// ---- The page ----------------------------------------------------------------------------------------------------

/// The first case of every kernel in a browser: all of the page takes minutes on a software driver.
fn browser() -> std::result::Result<(), Failed> {
    let folder = folder("browser");
    let of = |spec: &'static KernelSpec| {
        let case = spec.cases.iter().find(|c| !c.bench)?;
        Some((spec, case))
    };
    let cases: Cases = KERNELS.iter().copied().filter_map(of).collect();
    let page = conformance::page(None, &cases, &mut |_, _| {})?;
    let left_out: Vec<_> = page.left_out().collect();
    ensure!(page.cases() == cases.len(), "the first case of a kernel is small, but {left_out:?} stay out");
    page.write(&folder.join("page"))?;
    let results = folder.join("results.json");
    let output = Command::new(support::node())
        .arg(support::browser_scripts().join("page.mjs"))
        .args([folder.join("page/index.html"), results.clone(), folder.join("page.png")])
        .output()?;
    let (out, err) = said(&output);
    ensure!(output.status.success(), "{out}{err}");
    let report: Value = serde_json::from_slice(&fs::read(&results)?)?;
    check_report(&report, "webgpu")?;
    let device = &report["devices"][0];
    let failed: Vec<&Value> =
        device["rows"].as_array().into_iter().flatten().filter(|r| r["outcome"] == "failed").collect();
    ensure!(failed.is_empty(), "{failed:?}\n{out}");
    ensure!(device["passed"] == cases.len(), "{} of {} passed\n{out}", device["passed"], cases.len());
    ensure!(!out.contains("page error"), "{out}");
    println!("{} cases in {:.1} s: {}", cases.len(), device["seconds"].as_f64().unwrap_or(0.0), out.trim());
    // The program's own of the same cases has the same fields.
    let open = || Ok(Arc::new(CpuBackend) as Arc<dyn Backend>);
    let mut own = opened(Box::new(open));
    own.run(&cases[..1], PATIENCE, &mut |_: &Finished<'_>| {});
    let own = Document::begun(None).json([&own]);
    let fields = |value: &Value| value.as_object().map(|o| o.keys().cloned().collect::<Vec<_>>());
    for pointer in [
        "",
        "/wgattn",
        "/system",
        "/devices/0",
        "/devices/0/device",
        "/devices/0/rows/0",
        "/devices/0/rows/0/outputs/0",
    ] {
        let [page, program] = [&report, &own].map(|r| r.pointer(pointer).and_then(fields));
        ensure!(page == program, "{pointer}: the page has {page:?}, the program {program:?}");
    }
    Ok(())
}
