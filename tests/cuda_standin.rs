//! The whole CUDA backend without a card: NVIDIA's four libraries are stood in for by strict ones of ours, and what comes out is compared
//! with the f64 reference.
//!
//! This shows that our calls fit the documents of CUDA as we read them: arguments, strides, plans, captures, handles, what is waited for
//! and given back, and what errors become. It does not show that a card accepts them, nor that its numbers are right; only a card does.
//!
//! The stand-ins are `tests/cuda_standin/*.cpp`, compiled by the host's C++ compiler into a folder on which programs are started. They keep
//! a diary of what they are asked, with a line for every mistake. Where there is no compiler, tests say so and pass, unless
//! `WGATTN_REQUIRE_NVRTC` is set, as it is in CI. `WGATTN_STANDIN_ALL=1` runs every case of every kernel.
#![cfg(target_os = "linux")]

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::OnceLock;
use wgattn::backend::cpu::CpuBackend;
use wgattn::backend::cuda::Precision;
use wgattn::backend::cuda::driver::CudaBackend;
use wgattn::backend::{Backend, Program, TimingSource};
use wgattn::conformance::Expected;
use wgattn::error::Error;
use wgattn::graph::Graph;
use wgattn::kernel::{Case, KernelParams as _, KernelSpec};
use wgattn::kernels::linalg::{matmul, scale_rows};
use wgattn::kernels::{KERNELS, find};
use wgattn::tensor::{DType, HostData, HostTensor, Shape, Tensor};

/// The stand-ins: their text, the library's name, and whether it stands upon the driver's.
const LIBRARIES: [(&str, &str, bool); 4] = [
    ("cuda", "libcuda.so.1", false),
    ("nvrtc", "libnvrtc.so.12", false),
    ("cublas", "libcublas.so.12", true),
    ("cufft", "libcufft.so.11", true),
];

/// The folder of the libraries, once they are made; `None` where there is no compiler.
fn libraries() -> Option<&'static Path> {
    static MADE: OnceLock<Option<PathBuf>> = OnceLock::new();
    MADE.get_or_init(|| {
        let compiler =
            std::env::var("CXX").ok().filter(|c| !c.trim().is_empty()).unwrap_or_else(|| "c++".into());
        if let Err(error) = Command::new(&compiler).arg("--version").output() {
            let required = std::env::var_os("WGATTN_REQUIRE_NVRTC").is_some_and(|v| !v.is_empty());
            assert!(!required, "a C++ compiler makes the stand-ins: `{compiler}`: {error}");
            println!("nothing is tested: `{compiler}` does not start ({error})");
            return None;
        }
        let here = Path::new(env!("CARGO_MANIFEST_DIR"));
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("standin");
        std::fs::create_dir_all(&folder).expect("a folder for libraries");
        for (source, library, above) in LIBRARIES {
            let mut command = Command::new(&compiler);
            command.args([
                "-std=c++17",
                "-O2",
                "-Wall",
                "-Wextra",
                "-Werror",
                "-shared",
                "-fPIC",
                "-fvisibility=hidden",
            ]);
            let shim = here.join("src/backend/cuda/host/shim.h");
            command.arg(format!("-DSHIM=\"{}\"", shim.display())).arg(format!("-Wl,-soname,{library}"));
            // Made beside and moved: another run of these tests may be using the one that is there.
            let beside = folder.join(format!("{library}.{}", std::process::id()));
            command.arg("-o").arg(&beside).arg(here.join(format!("tests/cuda_standin/{source}.cpp")));
            if above {
                command.arg(folder.join("libcuda.so.1"));
            }
            let made = command.arg("-ldl").status().expect("the compiler starts");
            assert!(made.success(), "{source}.cpp becomes {library}");
            std::fs::rename(beside, folder.join(library)).expect("it is moved to its place");
        }
        Some(folder)
    })
    .as_deref()
}

/// A place of a test's own: a diary, and a cache of compiled code.
struct Place(PathBuf);

impl Place {
    fn new(name: &str) -> Option<Self> {
        let path = libraries()?.join(format!("{name}-{}", std::process::id()));
        std::fs::create_dir_all(&path).expect("a folder for a test");
        Some(Self(path))
    }

    fn run(&self, mut command: Command, settings: &[(&str, &str)]) -> Output {
        let modules = Path::new(env!("CARGO_TARGET_TMPDIR")).join("standin-modules");
        std::fs::create_dir_all(&modules).expect("a folder for compiled kernels");
        command
            .env("LD_LIBRARY_PATH", libraries().expect("they are made"))
            .env("WGATTN_STANDIN_MODULES", modules)
            .env("WGATTN_STANDIN_DIARY", self.0.join("diary"))
            .env("XDG_CACHE_HOME", &self.0)
            .env_remove("NVIDIA_TF32_OVERRIDE")
            .envs(settings.iter().map(|(name, value)| (format!("WGATTN_STANDIN_{name}"), value)));
        command.output().expect("it starts")
    }

    /// The program, which must end well.
    fn wgattn(&self, arguments: &[&str], settings: &[(&str, &str)]) -> String {
        let mut command = Command::new(env!("CARGO_BIN_EXE_wgattn"));
        command.args(arguments);
        let output = self.run(command, settings);
        let text = words(&output);
        assert!(output.status.success(), "{arguments:?}: {text}\n{}", self.diary());
        text
    }

    /// This program, for one of [`PARTS`], which must end well.
    fn part(&self, name: &str, settings: &[(&str, &str)]) -> String {
        let mut command = Command::new(std::env::current_exe().expect("this program"));
        command.args(["--exact", "part_of_another_test", "--ignored", "--nocapture"]).env(PART, name);
        let output = self.run(command, settings);
        let text = words(&output);
        assert!(output.status.success(), "{name}: {text}\n{}", self.mistakes().join("\n"));
        text
    }

    fn diary(&self) -> String {
        std::fs::read_to_string(self.0.join("diary")).unwrap_or_default()
    }

    /// Lines of the diary that begin with a word.
    fn lines(&self, word: &str) -> Vec<String> {
        self.diary().lines().filter(|l| l.split(' ').next() == Some(word)).map(String::from).collect()
    }

    fn mistakes(&self) -> Vec<String> {
        self.lines("mistake")
    }

    /// Nothing was done that may not be, and everything was given back.
    fn is_clean(&self) {
        assert_eq!(self.mistakes(), Vec::<String>::new());
        let ends = self.lines("exit");
        assert!(!ends.is_empty(), "processes came to their ends");
        for end in ends {
            let given_back = "exit bytes=0 contexts=0 streams=0 modules=0 events=0 graphs=0 replays=0 ";
            assert!(end.starts_with(given_back), "{end}");
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn words(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr)
}

#[test]
fn the_stand_ins_have_the_functions_that_the_loader_asks_for_and_no_others() {
    // So whatever else we called would end in a panic in every other test here.
    let declared = include_str!("../src/backend/cuda/driver/sys.rs");
    let texts = [
        include_str!("cuda_standin/cuda.cpp"),
        include_str!("cuda_standin/nvrtc.cpp"),
        include_str!("cuda_standin/cublas.cpp"),
        include_str!("cuda_standin/cufft.cpp"),
    ];
    let has: BTreeSet<&str> = texts
        .iter()
        .flat_map(|text| {
            text.lines()
                .filter_map(|line| line.strip_prefix("API ")?.split('(').next()?.split(' ').next_back())
        })
        .map(|name| name.trim_start_matches('*'))
        .collect();
    let asked: BTreeSet<&str> = declared
        .lines()
        .filter_map(|line| {
            let line = line.strip_prefix("    ")?;
            line.strip_prefix("fn ").or_else(|| line.strip_prefix("told by "))?.split('(').next()
        })
        .filter(|name| ["cu", "nvrtc"].iter().any(|p| name.starts_with(p)))
        .collect();
    assert!(asked.len() > 50, "{asked:?}");
    assert_eq!(has, asked);
}

#[test]
fn kernels_conform_on_the_card_of_the_stand_in() {
    let Some(place) = Place::new("conformance") else { return };
    let some = ["reduce_sum", "scale_rows", "matmul", "fft/smallest", "fft/odd", "kernel_matrix/odd"];
    let all = std::env::var_os("WGATTN_STANDIN_ALL").is_some_and(|v| !v.is_empty());
    let filters: &[&str] = if all { &[] } else { &some };
    let arguments = [&["conformance"], filters, &["--device", "cuda:0", "--json"]].concat();
    let text = place.wgattn(&arguments, &[]);
    for told in
        ["\"Card of a stand-in\"", "\"bus\": \"0000:ab:00.0\"", "\"CUDA 12.4, sm_80\"", "\"failed\": 0"]
    {
        assert!(text.contains(told), "{told}: {text}");
    }
    for word in ["launch", "gemm", "fft"] {
        assert!(!place.lines(word).is_empty(), "no {word}");
    }
    place.is_clean();
}

#[test]
fn products_in_a_named_precision_are_less_exact_and_told_so() {
    let Some(place) = Place::new("precision") else { return };
    for (word, name, compute) in [("tf32", "TF32", 77), ("bf16", "BF16", 75)] {
        let text = place.wgattn(&["conformance", "matmul/odd", "--device", &format!("cuda:0:{word}")], &[]);
        assert!(
            text.contains(&format!("({name} products)"))
                && text.contains("products are rounded by request: error"),
            "{text}"
        );
        let last = place.lines("gemm").pop().unwrap_or_default();
        assert!(last.ends_with(&format!("compute={compute}")), "{}", place.diary());
    }
    place.is_clean();
}

#[test]
fn every_kernel_is_captured_and_replayed_with_new_inputs() {
    let Some(place) = Place::new("replays") else { return };
    place.part("replays", &[]);
    let (captures, replays) = (place.lines("capture").len(), place.lines("replay").len());
    assert!(captures > 30 && replays == 2 * captures, "{captures} captures, {replays} replays");
    place.is_clean();
}

#[test]
fn changed_parameters_reach_a_replayed_program() {
    let Some(place) = Place::new("parameters") else { return };
    place.part("parameters", &[]);
    assert!(place.lines("capture").len() >= 4, "{}", place.diary());
    place.is_clean();
}

#[test]
fn threads_share_a_card_while_one_of_them_captures() {
    let Some(place) = Place::new("threads") else { return };
    place.part("threads", &[]);
    place.is_clean();
}

#[test]
fn times_are_those_of_events() {
    let Some(place) = Place::new("times") else { return };
    place.part("times", &[]);
    place.is_clean();
}

#[test]
#[ignore = "a minute: all peaks of a card that is none"]
fn the_benchmark_measures_peaks_and_bounds_on_a_card() {
    let Some(place) = Place::new("bench") else { return };
    let export = place.0.join("bench.json");
    let export = export.to_str().expect("a path in UTF-8");
    let text = place.wgattn(
        &["bench", "--quick", "matmul", "--case", "square_256", "--device", "cuda:0", "--export", export],
        &[],
    );
    for told in ["matmul/cublas", "by device timestamps", "of the bound by arithmetic"] {
        assert!(text.contains(told), "{told}: {text}");
    }
    assert!(!text.contains("into textures"), "{text}");
    let document = std::fs::read_to_string(export).expect("it was exported");
    let document: serde_json::Value = serde_json::from_str(&document).expect("it is JSON");
    assert_eq!(document["complete"], true, "{document}");
    place.is_clean();
}

#[test]
fn an_illegal_address_loses_the_device_which_can_be_opened_again() {
    let Some(place) = Place::new("lost") else { return };
    place.part("lost", &[("FAULT_AT", "3")]);
    assert_eq!((place.lines("lost").len(), place.lines("context").len()), (1, 2), "{}", place.diary());
    assert_eq!(place.mistakes(), Vec::<String>::new());
}

#[test]
fn an_error_that_is_still_there_when_asked_again_loses_the_device() {
    // Unknown, contained, and one that no list has.
    for code in ["999", "226", "4242"] {
        let Some(place) = Place::new(&format!("lost{code}")) else { return };
        place.part("lost", &[("FAULT_AT", "3"), ("FAULT_CODE", code)]);
        place.is_clean();
    }
}

#[test]
fn statuses_that_no_list_has_are_told_by_their_numbers() {
    let Some(place) = Place::new("statuses") else { return };
    let failed = |filter: &str, settings: &[(&str, &str)]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_wgattn"));
        command.args(["conformance", filter, "--device", "cuda:0"]);
        let output = place.run(command, settings);
        let text = words(&output);
        assert_eq!(output.status.code(), Some(1), "{text}");
        text
    };
    let text = failed("matmul/odd", &[("GEMM_STATUS", "99")]);
    assert!(text.contains("Cublas error of no known name (99)"), "{text}");
    let text = failed("fft/odd", &[("FFT_STATUS", "77")]);
    assert!(text.contains("Cufft error of no known name (77)"), "{text}");
    let text = failed("fft/odd", &[("FFT_STATUS", "5")]);
    assert!(text.contains("CUFFT_INTERNAL_ERROR (5)"), "{text}");
    // With kernel, ports and tensors, as of launches.
    assert!(text.contains("fft/cufft (x = x, out = out)"), "{text}");
    place.is_clean();
}

#[test]
fn a_fault_is_told_with_its_kernels_and_on_request_with_its_tensors() {
    let Some(place) = Place::new("named") else { return };
    let told = |blocking: &str| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_wgattn"));
        command.args(["conformance", "nystrom_attention/smallest", "--device", "cuda:0"]);
        command.env("CUDA_LAUNCH_BLOCKING", blocking);
        words(&place.run(command, &[("FAULT_AT", "2")]))
    };
    let text = told("0");
    assert!(text.contains("a run of ") && text.contains("CUDA_LAUNCH_BLOCKING=1"), "{text}");
    let text = told("1");
    assert!(!text.contains("a run of ") && text.contains(" (") && text.contains(" = "), "{text}");
}

#[test]
fn steps_that_cannot_be_captured_are_launched_one_by_one() {
    let Some(place) = Place::new("uncaptured") else { return };
    place.part("uncaptured", &[("INSTANTIATE", "801")]);
    // Of runs 2 to 6, the last two do not try any more.
    assert_eq!(place.lines("capture").len(), 3, "{}", place.diary());
    assert!(place.lines("replay").is_empty(), "{}", place.diary());
    place.is_clean();
}

#[test]
fn transforms_of_numbers_that_begin_anywhere_are_right() {
    let Some(place) = Place::new("unaligned") else { return };
    place.part("unaligned", &[]);
    assert!(!place.lines("fft").is_empty());
    place.is_clean();
}

#[test]
fn an_error_that_stays_with_the_process_is_told_as_such() {
    let Some(place) = Place::new("forever") else { return };
    place.part("forever", &[("FAULT_AT", "1"), ("FOREVER", "1")]);
    assert_eq!(place.mistakes(), Vec::<String>::new());
}

#[test]
fn a_lost_device_costs_conformance_few_rows() {
    let Some(place) = Place::new("few") else { return };
    let mut command = Command::new(env!("CARGO_BIN_EXE_wgattn"));
    command.args(["conformance", "reduce_sum", "scale_rows", "--device", "cuda:0"]);
    let output = place.run(command, &[("FAULT_AT", "2")]);
    let text = words(&output);
    assert!(!output.status.success() && text.contains("the device was lost"), "{text}");
    assert!(!text.contains("panicked") && place.lines("lost").len() == 1, "{text}");
    let passed = place.lines("launch").len();
    assert!(passed > 6, "others ran after the loss: {passed}\n{text}");
}

#[test]
fn a_full_card_is_a_limit_and_has_room_again_later() {
    let Some(place) = Place::new("memory") else { return };
    place.part("memory", &[("MEMORY", "40000000")]);
    place.is_clean();
}

#[test]
fn a_source_that_does_not_compile_is_named_with_its_file_and_line() {
    let Some(place) = Place::new("broken") else { return };
    place.part("broken", &[("BROKEN", "float sums[4]")]);
    place.part("builtins", &[("BUILTINS", "1")]);
    place.is_clean();
}

#[test]
fn compiled_code_is_kept_for_other_processes_and_damaged_code_is_not_used() {
    let Some(place) = Place::new("cache") else { return };
    let compiled = || place.lines("compile").len();
    let run =
        || place.wgattn(&["conformance", "reduce_sum/smallest", "scale_rows/odd", "--device", "cuda:0"], &[]);
    run();
    let first = compiled();
    assert!(first > 0);
    run();
    assert_eq!(compiled(), first, "the second process takes the code from disk");
    let folder = place.0.join("wgattn/cuda");
    for file in std::fs::read_dir(&folder).expect("code is kept") {
        let path = file.expect("a file").path();
        let mut bytes = std::fs::read(&path).expect("code");
        let middle = bytes.len() / 2;
        bytes[middle] ^= 1;
        std::fs::write(&path, bytes).expect("it is damaged");
    }
    let told = run();
    assert!(told.contains(" is damaged: reduce_sum is compiled anew"), "{told}");
    assert_eq!(compiled(), 2 * first);
    run();
    assert_eq!(compiled(), 2 * first, "what was damaged has been replaced");
    std::fs::remove_dir_all(&folder).expect("code is thrown away");
    std::fs::write(&folder, "no folder").expect("a file in its place");
    let told = run();
    assert_eq!(told.matches("compiled CUDA code is not kept in").count(), 1, "{told}");
    place.is_clean();
}

#[test]
fn a_card_newer_than_the_compiler_gets_ptx() {
    let Some(place) = Place::new("ptx") else { return };
    place.wgattn(&["conformance", "reduce_sum/smallest", "--device", "cuda:0"], &[("NEWEST", "75")]);
    assert_eq!(place.lines("compile"), ["compile reduce_sum.cu 75"]);
    place.is_clean();
}

#[test]
fn a_driver_that_does_not_know_the_compilers_ptx_is_told_as_such() {
    let Some(place) = Place::new("foreign") else { return };
    let mut command = Command::new(env!("CARGO_BIN_EXE_wgattn"));
    command.args(["conformance", "reduce_sum/smallest", "--device", "cuda:0"]);
    let output = place.run(command, &[("NEWEST", "75"), ("OLD_PTX", "1")]);
    let text = words(&output);
    assert_eq!(output.status.code(), Some(1), "{text}");
    assert!(
        text.contains("for CUDA 12.4, does not take what the NVRTC found here makes; update the driver"),
        "{text}"
    );
    place.is_clean();
}

#[test]
fn a_driver_that_is_too_old_is_refused_with_what_is_needed() {
    let Some(place) = Place::new("old") else { return };
    let text = place.wgattn(&["devices"], &[("DRIVER", "11080")]);
    assert!(text.contains("is for CUDA 11.8, and 12.0 is needed"), "{text}");
}

/// Names the part that the test below is to do.
const PART: &str = "WGATTN_STANDIN_PART";

/// What processes of their own do, with the stand-ins on their library path.
const PARTS: [(&str, fn()); 11] = [
    ("replays", replays),
    ("parameters", parameters),
    ("threads", threads),
    ("times", times),
    ("lost", lost),
    ("forever", forever),
    ("memory", memory),
    ("broken", broken),
    ("builtins", builtins),
    ("uncaptured", uncaptured),
    ("unaligned", unaligned),
];

#[test]
#[ignore = "started by the other tests with the stand-ins on its library path"]
fn part_of_another_test() {
    let Ok(name) = std::env::var(PART) else { return };
    let (_, part) = PARTS.iter().find(|(part, _)| *part == name).expect("a part");
    part();
}

fn card() -> CudaBackend {
    CudaBackend::open(0, Precision::F32).expect("the card of the stand-in")
}

fn case(kernel: &str, name: &str) -> (&'static KernelSpec, &'static Case) {
    let spec = find(kernel).unwrap_or_else(|| panic!("no kernel {kernel}"));
    (
        spec,
        spec.cases.iter().find(|c| c.name == name).unwrap_or_else(|| panic!("{kernel} has no case {name}")),
    )
}

/// A case as a program, with its tensors.
struct Ran {
    expected: Expected,
    pass: wgattn::graph::PassId,
    tensors: Vec<Option<Tensor>>,
    program: Box<dyn Program>,
}

impl Ran {
    fn new(backend: &dyn Backend, expected: Expected) -> Result<Self, Error> {
        let (graph, pass, tensors) = expected.concrete.graph()?;
        let program = backend.compile(&graph)?;
        let mut ran = Self { expected, pass, tensors, program };
        ran.give(|_, numbers| numbers.clone())?;
        Ok(ran)
    }

    /// Writes all inputs, changed.
    fn give(&mut self, change: impl Fn(DType, &HostTensor) -> HostTensor) -> Result<(), Error> {
        for (tensor, input) in self.tensors.iter().zip(&self.expected.concrete.inputs) {
            if let (Some(tensor), Some(input)) = (tensor, input) {
                self.program.write(*tensor, &change(tensor.dtype(), input))?;
            }
        }
        Ok(())
    }

    fn passes(&mut self, expected: &Expected) -> Result<(), String> {
        let got: Result<Vec<HostTensor>, Error> = expected
            .outputs
            .iter()
            .map(|wanted| self.program.read(self.tensors[wanted.index].expect("an output")))
            .collect();
        let judged = got.and_then(|got| expected.judge(&got)).map_err(|e| e.to_string())?;
        match judged.iter().find(|judged| !judged.passes()) {
            None => Ok(()),
            Some(failing) => Err(failing.to_string()),
        }
    }
}

fn of(kernel: &str, name: &str) -> Expected {
    let (spec, case) = case(kernel, name);
    Expected::of(spec, case).expect("references")
}

/// Halves instead of real numbers, which every bandwidth may be: whoever sees them gives another result.
fn halves(dtype: DType, numbers: &HostTensor) -> HostTensor {
    if dtype != DType::F32 {
        return numbers.clone();
    }
    let count = numbers.shape().len() as usize;
    HostTensor::new(numbers.shape(), HostData::F32(vec![0.5; count])).expect("as many numbers")
}

fn replays() {
    let backend = card();
    let mut wrong = Vec::new();
    for spec in KERNELS {
        let small =
            |c: &&Case| !c.bench && c.dims.iter().map(|(_, n)| u64::from(*n)).product::<u64>() < 20_000_000;
        // One that does not fit the smallest of everything, where there is one.
        let list: Vec<_> = spec.cases.iter().filter(small).collect();
        let Some(case) = list.iter().find(|c| c.name == "odd").or(list.first()) else { continue };
        let say = |what: &str, error: &dyn std::fmt::Display| {
            format!("{}::{} {what}: {error}", spec.name, case.name)
        };
        let result = (|| -> Result<(), String> {
            let expected = Expected::of(spec, case).map_err(|e| say("reference", &e))?;
            let again = Expected::of(spec, case).map_err(|e| say("reference", &e))?;
            let mut ran = Ran::new(&backend, expected).map_err(|e| say("compiling", &e))?;
            ran.program.run().map_err(|e| say("step by step", &e))?;
            ran.passes(&again).map_err(|e| say("step by step", &e))?;
            // Captured with other inputs, and replayed with the right ones.
            ran.give(halves).map_err(|e| say("other inputs", &e))?;
            ran.program.run().map_err(|e| say("captured", &e))?;
            ran.give(|_, numbers| numbers.clone()).map_err(|e| say("inputs", &e))?;
            ran.program.run().map_err(|e| say("replayed", &e))?;
            ran.passes(&again).map_err(|e| say("replayed", &e))
        })();
        wrong.extend(result.err());
    }
    assert!(wrong.is_empty(), "{} kernels are wrong:\n{}", wrong.len(), wrong.join("\n"));
}

fn parameters() {
    let backend = card();
    let (spec, case) = case("scale_rows", "whitening");
    let mut ran = Ran::new(&backend, Expected::of(spec, case).expect("references")).expect("it compiles");
    let mut check = |change: fn(scale_rows::Params) -> scale_rows::Params| {
        let mut other = Expected::of(spec, case).expect("references").concrete;
        other.params = change(scale_rows::Params::from_bytes(&other.params)).to_bytes();
        let truth = other.truth().expect("a reference");
        ran.program.set_param_bytes(ran.pass, &other.params).expect("live parameters");
        for run in 0..3 {
            ran.program.run().expect("it runs");
            for (tensor, truth) in ran.tensors.iter().zip(&truth) {
                if let (Some(tensor), Some(truth)) = (tensor, truth) {
                    let got = ran.program.read(*tensor).expect("an output");
                    let found = wgattn::kernel::case::deviation(&got, truth).expect("one shape");
                    assert!(found.error < 1e-5, "run {run}: {found:?}");
                }
            }
        }
    };
    check(|p| p);
    check(|p| scale_rows::Params { epsilon: 0.25, ..p });
    check(|p| scale_rows::Params { epsilon: 1.5, column: 0, ..p });
    // The launch after the library is needed by the second parameters only, and begins in a program that has been replayed.
    let mut ran = Ran::new(&backend, of("matmul", "odd")).expect("it compiles");
    for identity in [0.0, 2.5] {
        let mut other = of("matmul", "odd").concrete;
        other.params =
            matmul::Params { identity, alpha: 0.5, ..matmul::Params::from_bytes(&other.params) }.to_bytes();
        let truth = other.truth().expect("a reference").into_iter().flatten().next().expect("an output");
        let output = ran.tensors[4].expect("an output");
        ran.program.set_param_bytes(ran.pass, &other.params).expect("live parameters");
        for run in 0..3 {
            ran.program.run().expect("it runs");
            let got = ran.program.read(output).expect("an output");
            let found = wgattn::kernel::case::deviation(&got, &truth).expect("one shape");
            assert!(found.error < 1e-5, "identity {identity}, run {run}: {found:?}");
        }
    }
}

fn threads() {
    let backend = card();
    std::thread::scope(|scope| {
        for kernel in ["reduce_sum", "matmul", "scale_rows", "reduce_sum"] {
            let backend = &backend;
            scope.spawn(move || {
                let name = case(kernel, if kernel == "reduce_sum" { "below_a_group" } else { "odd" }).1.name;
                for _ in 0..10 {
                    let mut ran = Ran::new(backend, of(kernel, name)).expect("it compiles");
                    for run in 0..4 {
                        ran.give(halves).expect("inputs");
                        ran.give(|_, numbers| numbers.clone()).expect("inputs");
                        ran.program.run().unwrap_or_else(|e| panic!("{kernel}, run {run}: {e}"));
                        ran.passes(&of(kernel, name)).unwrap_or_else(|e| panic!("{kernel}, run {run}: {e}"));
                    }
                }
            });
        }
    });
}

fn times() {
    let mut ran = Ran::new(&card(), of("matmul", "odd")).expect("it compiles");
    let burst = ran.program.run_burst(3).expect("it runs");
    assert!(burst.device_seconds.is_some_and(|s| s > 0.0 && s < burst.wall_seconds + 1e-3), "{burst:?}");
    ran.program.set_profiling(true);
    let timings = ran.program.run().expect("it runs");
    assert_eq!(timings.source, TimingSource::Timestamp);
    assert!(!timings.steps.is_empty() && timings.steps.iter().all(|step| step.seconds > 0.0), "{timings:?}");
}

fn lost() {
    let backend = card();
    let mut ran = Ran::new(&backend, of("reduce_sum", "below_a_group")).expect("it compiles");
    ran.program.run().expect("the first run");
    ran.program.run().expect("the second run");
    for _ in 0..2 {
        let error = ran.program.run().expect_err("the third launch reads a wrong address");
        let told = error.to_string();
        assert!(matches!(error, Error::DeviceLost { .. }) && told.contains("Card of a stand-in"), "{told}");
    }
    assert!(matches!(Ran::new(&backend, of("matmul", "odd")), Err(Error::DeviceLost { .. })));
    // As the bench does it: what is lost goes first.
    drop((ran, backend));
    let expected = of("reduce_sum", "below_a_group");
    let mut ran = Ran::new(&card(), of("reduce_sum", "below_a_group")).expect("it compiles again");
    ran.program.run().expect("it runs again");
    ran.passes(&expected).expect("and is right");
}

fn forever() {
    let backend = card();
    let mut ran = Ran::new(&backend, of("reduce_sum", "below_a_group")).expect("it compiles");
    assert!(matches!(ran.program.run(), Err(Error::DeviceLost { .. })));
    drop((ran, backend));
    let told = CudaBackend::open(0, Precision::F32).expect_err("it stays").to_string();
    assert!(
        told.contains("CUDA_ERROR_ILLEGAL_ADDRESS") && told.contains("until the program is started again"),
        "{told}"
    );
}

fn memory() {
    // Room for the memory of cuBLAS and little else.
    let backend = card();
    let (spec, case) = case("probe_copy", "odd");
    let large = wgattn::tensor::Shape::new(&[1, 1, 3_000_000]).expect("a shape");
    let mut graph = wgattn::graph::Graph::new("large");
    let x = graph.input("x", large, DType::F32);
    let out = graph.transient("out", large, DType::F32);
    graph.pass_bytes(spec, &(case.params)(), &[Some(x), Some(out)]).expect("a pass");
    graph.output(out).expect("an output");
    let held = backend.compile(&graph).expect("the first fits");
    let limit = |error: Error| match error {
        Error::Limit { what, requested, allowed, .. } => (what, requested, allowed),
        other => panic!("no limit: {other}"),
    };
    let (what, requested, allowed) = limit(backend.compile(&graph).expect_err("the second does not"));
    assert!(
        what.contains("Card of a stand-in") && requested > allowed && allowed > 0,
        "{what} {requested} {allowed}"
    );
    let (what, ..) = limit(Ran::new(&backend, of("matmul", "odd")).map(drop).expect_err("nor does cuBLAS"));
    assert!(what.contains("cuBLAS"), "{what}");
    drop(held);
    let mut ran = Ran::new(&backend, of("matmul", "odd")).expect("there is room again");
    ran.program.run().expect("it runs");
    ran.passes(&of("matmul", "odd")).expect("it is right");
}

fn broken() {
    let told = Ran::new(&card(), of("reduce_sum", "below_a_group"))
        .map(drop)
        .expect_err("it does not compile")
        .to_string();
    let text = include_str!("../shaders/linalg/reduce_sum.cu");
    let line = 1 + text.lines().position(|line| line.contains("float sums[4]")).expect("the line");
    for part in
        ["reduce_sum", &format!("shaders/linalg/reduce_sum.cu:{line}: "), "is undefined", "NVRTC 12.9, sm_80"]
    {
        assert!(told.contains(part), "{part}: {told}");
    }
}

fn builtins() {
    let told =
        Ran::new(&card(), of("scale_rows", "odd")).map(drop).expect_err("it does not compile").to_string();
    assert!(told.contains("NVRTC_ERROR_BUILTIN_OPERATION_FAILURE"), "{told}");
}

fn uncaptured() {
    let expected = of("reduce_sum", "below_a_group");
    let mut ran = Ran::new(&card(), of("reduce_sum", "below_a_group")).expect("it compiles");
    for _ in 0..6 {
        ran.program.run().expect("it runs");
        ran.passes(&expected).expect("it is right");
    }
}

fn unaligned() {
    // A line of 6 complex numbers, from the second number of its tensor on, and its transform by the f64 reference.
    let line = |backend: &dyn Backend, begin: u32| -> Vec<f32> {
        let numbers: Vec<f32> = (0..12).map(|i| (i as f32).sin()).collect();
        let mut given = vec![7.0; begin as usize];
        given.extend(&numbers);
        let whole = Shape::new(&[begin + 12]).expect("a shape");
        let row = Shape::new(&[1, 1, 1, 6, 2]).expect("a shape");
        let mut graph = Graph::new("unaligned");
        let x = graph.input("x", whole, DType::F32);
        let part = graph.slice(x, 0, begin..begin + 12).expect("a part");
        let part = graph.reshape(part, row).expect("a line");
        let out = graph.transient("out", row, DType::F32);
        let (spec, case) = case("fft", "smallest");
        graph.pass_bytes(spec, &(case.params)(), &[Some(part), Some(out)]).expect("a pass");
        graph.output(out).expect("an output");
        let mut program = backend.compile(&graph).expect("it compiles");
        program.write(x, &HostTensor::f32(whole, given).expect("numbers")).expect("it is written");
        program.run().expect("it runs");
        program.read(out).expect("it is read").to_f32()
    };
    let card = card();
    let expected = line(&CpuBackend, 0);
    for begin in [0, 1, 2, 3] {
        let got = line(&card, begin);
        let far = got.iter().zip(&expected).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
        assert!(got.len() == 12 && far < 1e-5, "from {begin}: {got:?}, expected {expected:?}");
    }
}
