//! Every CUDA source, as every case joins it, compiled by NVRTC for the architectures that we support; no card is needed.
//!
//! Registers that spill to memory are counted by the compiler and have a budget. Where NVRTC is not on this machine, the test says so and
//! is ignored; where `WGATTN_REQUIRE_NVRTC` is set, that is a failure. What is being written is tried without building:
//! `WGATTN_CUDA_SOURCES=shaders`; where `WGATTN_CUDA_FIGURES` is set, registers, shared memory and spills of all are printed.

use libtest_mimic::{Arguments, Failed, Trial};
use std::collections::BTreeSet;
use wgattn::backend::cuda::driver::nvrtc::Compiler;
use wgattn::kernel::cuda::{PRELUDE, Source, check_entry, join};
use wgattn::kernel::{Case, KernelSpec, OnCuda};
use wgattn::kernels::KERNELS;
use wgattn::tensor::Dims;

/// Turing, Ampere and Hopper.
const ARCHITECTURES: [i32; 3] = [75, 80, 90];
/// Bytes that a thread may spill: what the assembler parks outside the loops at a few dozen registers, wherever it is unrolled differently;
/// a tile that does not fit its registers spills hundreds.
const SPILLS: u64 = 64;

fn main() {
    let args = Arguments::from_args();
    let compiler = Compiler::open();
    let mut trials = Vec::new();
    for spec in KERNELS {
        let sources: Vec<&'static Source> = match &spec.cuda {
            OnCuda::Source(sources) => sources.iter().collect(),
            OnCuda::Library(_, after) => vec![*after],
            OnCuda::Expand => Vec::new(),
        };
        for source in sources {
            let name = format!("{}/{}", spec.name, source.name);
            trials.push(Trial::test(format!("{name}::entry"), move || {
                check_entry(spec, source).map_err(|e| Failed::from(e.to_string()))
            }));
            match &compiler {
                Ok(compiler) => {
                    let compiler = *compiler;
                    trials.push(Trial::test(name, move || compiles(compiler, spec, source)));
                }
                Err(error) => {
                    let required = std::env::var_os("WGATTN_REQUIRE_NVRTC").is_some_and(|v| !v.is_empty());
                    let error = error.to_string();
                    let trial = Trial::test(name, move || Err(Failed::from(error)));
                    trials.push(trial.with_ignored_flag(!required).with_kind("no NVRTC"));
                }
            }
        }
    }
    libtest_mimic::run(&args, trials).exit();
}

/// All different texts that the cases of a kernel make of a source.
fn texts(spec: &KernelSpec, source: &Source) -> BTreeSet<String> {
    let suits = |case: &&Case| (source.suits)(&Dims::of(case.dims), &(case.params)());
    let text = |case: &Case| {
        let present: Vec<bool> = spec.ports.iter().map(|p| !case.absent.contains(&p.name)).collect();
        current(source, join(spec, source, &Dims::of(case.dims), &(case.params)(), &present))
    };
    spec.cases.iter().filter(suits).map(text).collect()
}

/// The joined text, with files as they are now in the folder that `WGATTN_CUDA_SOURCES` names, if it is set.
fn current(source: &Source, text: String) -> String {
    let Some(folder) = std::env::var_os("WGATTN_CUDA_SOURCES").map(std::path::PathBuf::from) else {
        return text;
    };
    let shared = source.shared.iter().chain([&PRELUDE]).map(|shared| (shared.file, shared.body));
    shared.chain([(source.file, source.body)]).fold(text, |text, (file, body)| {
        let now = std::fs::read_to_string(folder.join(file));
        text.replacen(body, &now.unwrap_or_else(|e| panic!("{file}: {e}")), 1)
    })
}

fn compiles(compiler: Compiler, spec: &KernelSpec, source: &Source) -> Result<(), Failed> {
    let texts = texts(spec, source);
    if texts.is_empty() {
        return Err("no case suits it".into());
    }
    let figures_wanted = std::env::var_os("WGATTN_CUDA_FIGURES").is_some();
    for (number, text) in texts.iter().enumerate() {
        // All architectures of one text, and of the others one in turn: they differ in constants.
        for (which, architecture) in ARCHITECTURES.into_iter().enumerate() {
            if number > 0 && number % ARCHITECTURES.len() != which && !figures_wanted {
                continue;
            }
            let code = compiler.compile(spec.name, source, text, architecture).map_err(|e| e.to_string())?;
            let spilled = spills(&code.log).ok_or("the compiler does not tell spills")?;
            if figures_wanted {
                println!(
                    "{}/{} sm_{architecture} text {number}: {}",
                    spec.name,
                    source.name,
                    figures(&code.log)
                );
            }
            if spilled > SPILLS {
                return Err(
                    format!("spills {spilled} bytes on sm_{architecture}: {}", code.log.trim()).into()
                );
            }
        }
    }
    Ok(())
}

/// `168 registers, 40960 bytes smem, …, 0 bytes spill stores, …`, as the compiler tells it.
fn figures(log: &str) -> String {
    let told = log
        .lines()
        .filter_map(|l| l.split_once("Used ").map(|(_, used)| used).or(l.contains("spill").then_some(l)));
    told.map(str::trim).collect::<Vec<_>>().join(", ")
}

/// The most bytes that any function stores to spill, as the compiler tells it: `8 bytes stack frame, 4 bytes spill stores, …`.
fn spills(log: &str) -> Option<u64> {
    let told = log.lines().filter_map(|line| {
        let before =
            line.split("bytes spill stores").next().filter(|_| line.contains("bytes spill stores"))?;
        before.trim().rsplit([' ', ',']).next()?.parse().ok()
    });
    told.max()
}
