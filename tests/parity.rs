//! Every kernel × case × device against the f64 reference; on wgpu also every variant that suits the case.
//!
//! One process and one device per adapter. A device that this machine lacks is listed as ignored with the reason;
//! where `WGATTN_REQUIRE_ADAPTERS` names it, it is a failure.

use libtest_mimic::{Arguments, Failed, Trial};
use std::sync::Arc;
use wgattn::backend::wgpu::{Options, WgpuBackend};
use wgattn::backend::{Backend, cpu::CpuBackend};
use wgattn::conformance::{self, Expected, choices};
use wgattn::kernel::{Case, KernelSpec};
use wgattn::kernels::KERNELS;

mod support;

fn main() {
    let args = Arguments::from_args();
    let found = support::adapters_by_name();
    let mut devices: Vec<(String, Option<WgpuBackend>)> = vec![("cpu".into(), None)];
    for (name, adapter) in &found {
        let backend =
            WgpuBackend::on_adapter(adapter, Options::default()).expect("the adapter gives a device");
        devices.push((name.clone(), Some(backend)));
    }
    let mut trials = Vec::new();
    for (device, backend) in &devices {
        for spec in KERNELS {
            for case in spec.cases.iter().filter(|c| !c.bench) {
                // A variant that the device lacks something for is no trial.
                let suiting = choices(backend.as_ref().map(WgpuBackend::caps), spec, case);
                for choice in suiting.into_iter().filter(|c| c.lacks.is_none()) {
                    trials.push(trial(device, backend.clone(), spec, case, choice.variant));
                }
            }
        }
    }
    for missing in support::missing_adapters(&found) {
        let required = support::required(&missing);
        let (name, kind) = (format!("parity::{missing}"), format!("absent: {missing}"));
        trials.push(
            Trial::test(name, move || Err(Failed::from(format!("no {missing} adapter on this machine"))))
                .with_ignored_flag(!required)
                .with_kind(kind),
        );
    }
    libtest_mimic::run(&args, trials).exit();
}

fn trial(
    device: &str,
    backend: Option<WgpuBackend>,
    spec: &'static KernelSpec,
    case: &'static Case,
    variant: Option<&'static str>,
) -> Trial {
    let suffix = variant.map_or_else(String::new, |v| format!("/{v}"));
    let name = format!("{}{suffix}::{}::{device}", spec.name, case.name);
    Trial::test(name, move || check(backend, spec, case, variant).map_err(Failed::from))
}

/// Runs one case on one device, with one variant forced, and judges all outputs as `wgattn conformance` does.
fn check(
    backend: Option<WgpuBackend>,
    spec: &'static KernelSpec,
    case: &'static Case,
    variant: Option<&'static str>,
) -> Result<(), String> {
    let say = |e: wgattn::Error| e.to_string();
    let expected = Expected::of(spec, case).map_err(say)?;
    let backend: Arc<dyn Backend> = match backend {
        None => Arc::new(CpuBackend),
        Some(wgpu) => Arc::new(wgpu.with_variants(variant.map(|v| format!("{}/{v}", spec.name)))),
    };
    let ran = conformance::check(backend.as_ref(), &expected).map_err(say)?;
    match ran.judged.iter().find(|judged| !judged.passes()) {
        Some(failing) => Err(failing.to_string()),
        None => Ok(()),
    }
}
