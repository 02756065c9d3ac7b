//! Whatever of NVIDIA's libraries a machine has or lacks, `wgattn` says so in one line and goes on without them.
#![cfg(target_os = "linux")]

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// A folder for libraries, removed at the end.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("wgattn-cuda-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&path).expect("a folder for libraries");
        Self(path)
    }

    /// A library of functions that all return a status.
    fn library(&self, name: &str, functions: &[&str], status: i32) {
        self.compiled(name, &returning(functions, status));
    }

    /// The driver of [`CARD`].
    fn card(&self) {
        self.driver(CARD);
    }

    /// A driver of a text in C, whose other functions succeed.
    fn driver(&self, text: &str) {
        let others: Vec<&str> =
            functions().into_iter().filter(|f| !text.contains(&format!("{f}("))).collect();
        self.compiled("libcuda.so.1", &(returning(&others, 0) + text));
    }

    /// A library of a text in C.
    fn compiled(&self, name: &str, text: &str) {
        let source = self.0.join("stub.c");
        std::fs::write(&source, text).expect("a source");
        let made = Command::new("cc")
            .args(["-shared", "-fPIC", "-o"])
            .arg(self.0.join(name))
            .arg(&source)
            .status()
            .expect("a C compiler");
        assert!(made.success(), "{name} is compiled");
    }
}

/// Functions that all return a status, in C.
fn returning(functions: &[&str], status: i32) -> String {
    functions.iter().map(|f| format!("int {f}(void) {{ return {status}; }}\n")).collect()
}

/// A driver for CUDA 12.4 that knows of one Turing card, as far as cards are told of.
const CARD: &str = r#"
#include <stdio.h>
#include <stddef.h>
int cuDriverGetVersion(int* version) { *version = 12040; return 0; }
int cuDeviceGetCount(int* count) { *count = 1; return 0; }
int cuDeviceGet(int* device, int ordinal) { *device = ordinal; return 0; }
int cuDeviceGetName(char* name, int length, int device) { snprintf(name, length, "Card of a stub"); return 0; }
int cuDeviceGetPCIBusId(char* bus, int length, int device) { snprintf(bus, length, "0000:AB:00.0"); return 0; }
int cuDeviceTotalMem_v2(size_t* bytes, int device) { *bytes = 1 << 30; return 0; }
int cuDeviceGetAttribute(int* value, int which, int device) {
  /* Major and minor compute capability, multiprocessors; nothing else is told. */
  *value = which == 75 ? 7 : which == 76 ? 5 : which == 16 ? 40 : 0;
  return 0;
}
"#;

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn wgattn(libraries: &Path, arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_wgattn"))
        .args(arguments)
        .env("LD_LIBRARY_PATH", libraries)
        .output()
        .expect("wgattn starts")
}

/// The line about CUDA of `wgattn devices`, which must end well.
fn told(libraries: &Path) -> String {
    let output = wgattn(libraries, &["devices"]);
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{text}{}", String::from_utf8_lossy(&output.stderr));
    let lines: Vec<&str> = text.lines().filter(|line| line.contains("CUDA:")).collect();
    assert_eq!(lines.len(), 1, "one line about CUDA: {text}");
    lines[0].to_string()
}

/// Every function of the driver that we call: they begin with `cu` and a capital.
fn functions() -> Vec<&'static str> {
    words_of("cu")
}

/// Every function that we call whose name is this and a capital behind it.
fn words_of(prefix: &str) -> Vec<&'static str> {
    let text = include_str!("../src/backend/cuda/driver/sys.rs");
    let words = text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
    let is_one = |word: &&str| {
        word.strip_prefix(prefix).is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_uppercase()))
    };
    let mut list: Vec<&str> =
        words.filter(is_one).filter(|word| text.contains(&format!("{word}("))).collect();
    list.sort_unstable();
    list.dedup();
    list
}

#[test]
fn a_library_without_functions_is_called_a_stub() {
    let folder = Folder::new("empty");
    folder.library("libcuda.so.1", &["nothing"], 0);
    let line = told(&folder.0);
    assert!(line.contains("not available") && line.contains("a stub without functions"), "{line}");
    // And everything else runs.
    assert!(wgattn(&folder.0, &["bench", "--list", "reduce_sum"]).status.success());
}

#[test]
fn a_library_that_lacks_functions_is_called_too_old() {
    let folder = Folder::new("old");
    let functions = functions();
    let old: Vec<&str> = functions.iter().copied().filter(|f| *f != "cuGraphInstantiateWithFlags").collect();
    assert!(old.len() > 30 && old.len() + 1 == functions.len(), "{functions:?}");
    folder.library("libcuda.so.1", &old, 0);
    let line = told(&folder.0);
    assert!(line.contains("too old: it lacks `cuGraphInstantiateWithFlags`"), "{line}");
}

#[test]
fn a_driver_that_does_not_start_says_so() {
    let folder = Folder::new("refusing");
    // 100 is CUDA_ERROR_NO_DEVICE.
    folder.library("libcuda.so.1", &functions(), 100);
    let line = told(&folder.0);
    assert!(line.contains("does not start") && line.contains("(100)"), "{line}");
}

#[test]
fn a_status_that_nobody_knows_is_told_by_its_number() {
    for status in [35, 36, 4242, -1] {
        let folder = Folder::new(&format!("status{status}"));
        folder.library("libcuda.so.1", &functions(), status);
        let line = told(&folder.0);
        assert!(
            line.contains(&format!("does not start: Driver error of no known name ({status})")),
            "{line}"
        );
    }
}

#[test]
fn a_file_that_is_no_library_is_told_with_the_systems_reason() {
    let folder = Folder::new("broken");
    let file = folder.0.join("libcuda.so.1");
    std::fs::write(&file, "not a library, but long enough to have a header of one").expect("a file");
    let line = told(&folder.0);
    assert!(line.contains("cannot be opened") && line.contains("libcuda.so.1: "), "{line}");
    std::fs::remove_file(&file).expect("the file goes");
    std::fs::create_dir(&file).expect("a folder in its place");
    let line = told(&folder.0);
    assert!(line.contains("cannot be opened") && line.contains("libcuda.so.1: "), "{line}");
}

#[test]
fn a_stub_for_linking_is_no_driver() {
    let folder = Folder::new("linking");
    folder.library("libcuda.so", &functions(), 34);
    let line = told(&folder.0);
    assert!(line.contains("is not on this machine"), "{line}");
}

#[test]
fn libraries_for_another_driver_or_without_what_they_need_are_told_as_such() {
    let folder = Folder::new("others");
    folder.card();
    // CUDA 13's, a broken one, and one that needs another.
    folder.library("libnvrtc.so.13", &["nothing"], 0);
    std::fs::write(
        folder.0.join("libcublas.so.12"),
        "no library at all, though it has the name of one of them",
    )
    .expect("a file");
    folder.library("libneeded.so", &["needed"], 0);
    folder.compiled("libcufft.so.11", "int needed(void); int cufftCreate(void) { return needed(); }");
    let made = Command::new("cc")
        .args(["-shared", "-fPIC", "-o"])
        .arg(folder.0.join("libcufft.so.11"))
        .arg(folder.0.join("stub.c"))
        .arg("-Wl,--no-as-needed")
        .arg(folder.0.join("libneeded.so"))
        .status()
        .expect("a C compiler");
    assert!(made.success());
    std::fs::remove_file(folder.0.join("libneeded.so")).expect("what it needs goes");
    let output = wgattn(&folder.0, &["devices"]);
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let line =
        text.lines().find(|line| line.starts_with("cuda:0")).unwrap_or_else(|| panic!("no card: {text}"));
    for told in [
        "cannot be used: NVRTC",
        "found here is for CUDA 13, and the driver for CUDA 12",
        "without products of matrices: cuBLAS (libcublas.so.12 or cublas64_12.dll) cannot be opened",
        "without transforms: cuFFT (libcufft.so.11 or cufft64_11.dll) cannot be opened",
        "libneeded.so",
    ] {
        assert!(line.contains(told), "{told}: {line}");
    }
    let json: serde_json::Value =
        serde_json::from_slice(&wgattn(&folder.0, &["devices", "--json"]).stdout).expect("JSON");
    let card = &json["cuda"]["cards"][0];
    assert_eq!((&card["device"], &card["pci"]["bus"]), (&"cuda:0".into(), &"0000:ab:00.0".into()), "{json}");
    assert_eq!(card["lacks"].as_array().map(Vec::len), Some(3), "{json}");
}

#[test]
fn a_driver_for_an_older_cuda_is_named_with_what_is_needed() {
    let folder = Folder::new("version");
    // Every call succeeds, and the version stays 0.
    folder.library("libcuda.so.1", &functions(), 0);
    let line = told(&folder.0);
    assert!(line.contains("is for CUDA 0.0, and 12.0 is needed"), "{line}");
}

#[test]
fn a_card_that_is_not_there_is_an_error_with_its_reason() {
    let folder = Folder::new("asked");
    folder.library("libcuda.so.1", &["nothing"], 0);
    for arguments in [
        &["conformance", "reduce_sum", "--device", "cuda:0"][..],
        &["bench", "reduce_sum", "--device", "cuda"],
        &["bench", "reduce_sum", "--backend", "cuda"],
        &["bench", "reduce_sum", "--device", "cuda:host"],
        &["bench", "reduce_sum", "--device", "cuda:x"],
    ] {
        let output = wgattn(&folder.0, arguments);
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(
            !output.status.success() && text.contains("cuda") && !text.contains("panicked"),
            "{arguments:?}: {text}"
        );
    }
}

/// What a command says that must end badly.
fn refusal(libraries: &Path, arguments: &[&str], tf32_override: &str) -> String {
    let output = Command::new(env!("CARGO_BIN_EXE_wgattn"))
        .args(arguments)
        .env("LD_LIBRARY_PATH", libraries)
        .env("NVIDIA_TF32_OVERRIDE", tf32_override)
        .output()
        .expect("wgattn starts");
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!output.status.success() && !text.contains("panicked"), "{arguments:?}: {text}");
    text
}

#[test]
fn a_card_is_told_with_its_place_and_what_is_missing() {
    let folder = Folder::new("card");
    folder.card();
    let output = wgattn(&folder.0, &["devices"]);
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let line =
        text.lines().find(|line| line.starts_with("cuda:0")).unwrap_or_else(|| panic!("no card: {text}"));
    for told in ["Card of a stub · CUDA 12.4, sm_75", "PCI 0000:ab:00.0", "40 multiprocessors"] {
        assert!(line.contains(told), "{told}: {line}");
    }
    // Turing has no such tensor cores, and f32 in place of them would be no answer.
    let text = refusal(&folder.0, &["conformance", "reduce_sum", "--device", "cuda:0:tf32"], "");
    assert!(text.contains("has compute capability 7.5") && text.contains("need 8.0"), "{text}");
    let text = refusal(&folder.0, &["conformance", "reduce_sum", "--device", "cuda:1"], "");
    assert!(text.contains("knows of 1 card"), "{text}");
}

#[test]
fn a_precision_that_cannot_be_had_is_refused_with_what_can() {
    let folder = Folder::new("precision");
    folder.library("libcuda.so.1", &["nothing"], 0);
    for (device, tf32_override, told) in [
        ("cuda:host:tf32", "", "has one precision"),
        ("cuda:0:f16", "", "cuda:0:tf32 or cuda:0:bf16"),
        ("cuda:tf32", "", "cuda:0:tf32 or cuda:0:bf16"),
        ("cuda:0", "1", "NVIDIA_TF32_OVERRIDE=1"),
        ("cuda:0:tf32", "0", "NVIDIA_TF32_OVERRIDE=0"),
        ("cuda:0:bf16", "0", "a stub without functions"),
    ] {
        let text = refusal(&folder.0, &["conformance", "reduce_sum", "--device", device], tf32_override);
        assert!(text.contains(told), "{device}: {text}");
    }
}

#[test]
fn a_newer_library_without_functions_does_not_hide_an_older_one() {
    let folder = Folder::new("newer");
    folder.card();
    std::fs::write(folder.0.join("libcublas.so.13"), "not looked at by a driver for CUDA 12")
        .expect("a file");
    let all: Vec<&str> = words_of("cublas");
    folder.library("libcublas.so.12", &all, 0);
    let line = |folder: &Folder| {
        let output = wgattn(&folder.0, &["devices"]);
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        text.lines().find(|line| line.starts_with("cuda:0")).expect("a card").to_string()
    };
    let told = line(&folder);
    assert!(!told.contains("products of matrices"), "{told}");
    // A driver for CUDA 13, and a stub of its library beside that of CUDA 12.
    folder.driver(&CARD.replace("12040", "13000"));
    std::fs::remove_file(folder.0.join("libcublas.so.13")).expect("the file goes");
    folder.library("libcublas.so.13", &["nothing"], 0);
    let told = line(&folder);
    assert!(!told.contains("products of matrices"), "{told}");
    std::fs::remove_file(folder.0.join("libcublas.so.12")).expect("the older one goes");
    let told = line(&folder);
    assert!(
        told.contains("products of matrices: cuBLAS") && told.contains("a stub without functions"),
        "{told}"
    );
}
