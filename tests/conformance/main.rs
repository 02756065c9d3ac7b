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

macro_rules! ensure {
    ($condition:expr, $($said:tt)+) => {
        if !$condition {
            return Err(format!($($said)+).into());
        }
    };
}

mod command;
mod faults;
#[path = "../support/mod.rs"]
mod support;

use command::*;
use faults::*;

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

// ---- Reproductions -----------------------------------------------------------------------------------------------

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
