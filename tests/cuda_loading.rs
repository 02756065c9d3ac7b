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
        let source = self.0.join("stub.c");
        let text: String =
            functions.iter().map(|f| format!("int {f}(void) {{ return {status}; }}\n")).collect();
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

/// Every function of the driver that we call.
fn functions() -> Vec<&'static str> {
    let text = include_str!("../src/backend/cuda/driver/loader.rs");
    let driver = text.split("const NVRTC").next().expect("the driver comes first");
    driver.split('"').filter(|word| word.starts_with("cu") && !word.contains(' ')).collect()
}

#[test]
fn a_library_without_functions_is_called_a_stub() {
    let folder = Folder::new("empty");
    folder.library("libcuda.so", &["nothing"], 0);
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
    folder.library("libcuda.so", &old, 0);
    let line = told(&folder.0);
    assert!(line.contains("too old: it lacks `cuGraphInstantiateWithFlags`"), "{line}");
}

#[test]
fn a_driver_that_does_not_start_says_so() {
    let folder = Folder::new("refusing");
    // 100 is CUDA_ERROR_NO_DEVICE.
    folder.library("libcuda.so", &functions(), 100);
    let line = told(&folder.0);
    assert!(line.contains("does not start") && line.contains("CUDA_ERROR_NO_DEVICE"), "{line}");
}

#[test]
fn a_driver_for_an_older_cuda_is_named_with_what_is_needed() {
    let folder = Folder::new("version");
    // Every call succeeds, and the version stays 0.
    folder.library("libcuda.so", &functions(), 0);
    let line = told(&folder.0);
    assert!(line.contains("is for CUDA 0.0, and 12.0 is needed"), "{line}");
}

#[test]
fn a_card_that_is_not_there_is_an_error_with_its_reason() {
    let folder = Folder::new("asked");
    folder.library("libcuda.so", &["nothing"], 0);
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
