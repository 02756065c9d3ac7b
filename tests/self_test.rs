//! The self-test of adapters: what passes, what an injected fault does, and how passes are remembered.

use std::cell::Cell;
use std::path::{Path, PathBuf};
use wgattn::backend::cpu::CpuBackend;
use wgattn::backend::wgpu::{SelfTestFailure, run_checks, self_test_in};

mod support;

/// A folder of this test's own, empty.
fn empty_folder(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    if folder.exists() {
        std::fs::remove_dir_all(&folder).expect("the old folder goes away");
    }
    folder
}

/// Runs the test on the CPU and says how many checks really ran.
fn checks_run(folder: Option<&Path>) -> usize {
    let count = Cell::new(0);
    self_test_in(folder, &CpuBackend, &mut |_, _| count.set(count.get() + 1))
        .expect("the reference is right");
    count.get()
}

#[test]
fn every_adapter_passes() {
    run_checks(&CpuBackend, &mut |_, _| {}).expect("the reference is right");
    for (name, backend) in support::backends() {
        run_checks(&backend, &mut |_, _| {}).unwrap_or_else(|failure| panic!("{name}: {failure}"));
    }
}

#[test]
fn an_injected_wrong_result_fails_its_check_by_name_and_number() {
    for wrong in ["sum", "scan", "transpose", "matmul"] {
        let mut spoil = |name: &'static str, got: &mut Vec<f64>| {
            if name == wrong {
                *got.last_mut().expect("an answer") += 1.0;
            }
        };
        let failure = run_checks(&CpuBackend, &mut spoil).expect_err("the fault is found");
        let SelfTestFailure::Wrong { check, expected, got, .. } = failure else { panic!("{failure}") };
        assert_eq!((check, got), (wrong, expected + 1.0));
    }
}

#[test]
fn a_missing_or_nan_answer_fails() {
    for spoil in [
        &mut (|_: &str, got: &mut Vec<f64>| got.clear()) as &mut dyn FnMut(&'static str, &mut Vec<f64>),
        &mut |_, got| {
            got.fill(f64::NAN);
        },
    ] {
        run_checks(&CpuBackend, spoil).expect_err("the fault is found");
    }
}

#[test]
fn a_pass_is_remembered_and_a_failure_is_not() {
    let folder = empty_folder("self_test_remembered");
    let spoilt = self_test_in(Some(&folder), &CpuBackend, &mut |_, got| got[0] += 1.0);
    spoilt.expect_err("the fault is found");
    assert_eq!(checks_run(Some(&folder)), 4);
    assert_eq!(checks_run(Some(&folder)), 0);
}

#[test]
fn a_corrupt_file_counts_as_absent_and_is_replaced() {
    let folder = empty_folder("self_test_corrupt");
    assert_eq!(checks_run(Some(&folder)), 4);
    for file in std::fs::read_dir(&folder).expect("the folder was made") {
        std::fs::write(file.expect("an entry").path(), [0xff, 0x00, 0xfe]).expect("the file can be spoilt");
    }
    assert_eq!(checks_run(Some(&folder)), 4);
    assert_eq!(checks_run(Some(&folder)), 0);
}

#[test]
fn a_folder_that_cannot_be_written_does_not_matter() {
    let file = empty_folder("self_test_in_the_way");
    std::fs::write(&file, "a file where the folder should be").expect("the file can be written");
    assert_eq!(checks_run(Some(&file)), 4);
    assert_eq!(checks_run(Some(&file)), 4);
    assert_eq!(checks_run(None), 4);
    std::fs::remove_file(&file).expect("the file goes away");
}
