//! What several test programs share: the adapters of this machine by the names the tests use.
#![allow(dead_code, reason = "each test program uses a part of this")]

use libtest_mimic::{Failed, Trial};
use wgattn::backend::wgpu::{Options, WgpuBackend, adapters};

/// Software adapters the suite is meant to run on.
pub const EXPECTED: [&str; 3] = ["lavapipe", "swiftshader", "gl"];

/// Name of an adapter for tests: one of [`EXPECTED`], or `gpu` with its index.
pub fn test_name(index: usize, info: &wgpu::AdapterInfo) -> String {
    let name = info.name.to_lowercase();
    match info.backend {
        wgpu::Backend::Gl => "gl".into(),
        _ if name.contains("llvmpipe") => "lavapipe".into(),
        _ if name.contains("swiftshader") => "swiftshader".into(),
        backend => format!("gpu{index}-{}", backend.to_str()),
    }
}

/// Every adapter of this machine with its test name; `WGATTN_TEST_ADAPTERS` (a list of names) narrows it.
pub fn adapters_by_name() -> Vec<(String, wgpu::Adapter)> {
    let wanted = std::env::var("WGATTN_TEST_ADAPTERS").ok();
    let named = adapters().into_iter().enumerate().map(|(i, a)| (test_name(i, &a.get_info()), a));
    let mut list: Vec<(String, wgpu::Adapter)> = Vec::new();
    for (name, adapter) in named {
        let asked = wanted.as_ref().is_none_or(|w| w.split(',').any(|x| x == name));
        if asked && list.iter().all(|(n, _)| *n != name) {
            list.push((name, adapter));
        }
    }
    list
}

/// Expected adapters that are not there.
pub fn missing_adapters(found: &[(String, wgpu::Adapter)]) -> Vec<String> {
    EXPECTED.iter().filter(|e| found.iter().all(|(n, _)| n != *e)).map(ToString::to_string).collect()
}

/// Whether the environment says that an adapter must be there.
pub fn required(name: &str) -> bool {
    std::env::var("WGATTN_REQUIRE_ADAPTERS").is_ok_and(|list| list.split(',').any(|x| x == name))
}

/// A backend on every adapter of this machine.
pub fn backends() -> Vec<(String, WgpuBackend)> {
    let open = |(name, adapter): (String, wgpu::Adapter)| {
        let backend =
            WgpuBackend::on_adapter(&adapter, Options::default()).expect("the adapter gives a device");
        (name, backend)
    };
    adapters_by_name().into_iter().map(open).collect()
}

/// A test on a backend, and what went wrong.
pub type OnBackend = fn(&WgpuBackend) -> Result<(), String>;

/// One trial per test and adapter; an adapter that this machine lacks is ignored with the reason, or fails where the
/// environment requires it.
pub fn trials(tests: &[(&str, OnBackend)]) -> Vec<Trial> {
    let found = adapters_by_name();
    let mut trials = Vec::new();
    for (device, adapter) in &found {
        let backend =
            WgpuBackend::on_adapter(adapter, Options::default()).expect("the adapter gives a device");
        for &(name, test) in tests {
            let backend = backend.clone();
            trials
                .push(Trial::test(format!("{name}::{device}"), move || test(&backend).map_err(Failed::from)));
        }
    }
    for missing in missing_adapters(&found) {
        let reason = format!("no {missing} adapter on this machine");
        trials.push(absent(&format!("adapter::{missing}"), &reason, required(&missing)));
    }
    trials
}

/// A test that cannot run here: ignored with the reason, or failed where it must run.
pub fn absent(name: &str, reason: &str, required: bool) -> Trial {
    let reason = reason.to_string();
    Trial::ignorable_test(name, move || {
        if required { Err(Failed::from(reason)) } else { Ok(libtest_mimic::Completion::ignored_with(reason)) }
    })
}
