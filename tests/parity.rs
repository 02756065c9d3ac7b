//! Every kernel × case × device against the f64 reference; on wgpu also every variant that suits the case.
//!
//! One process and one device per adapter. A device that this machine lacks is listed as ignored with the reason;
//! where `WGATTN_REQUIRE_ADAPTERS` names it, it is a failure.

use libtest_mimic::{Arguments, Failed, Trial};
use std::sync::Arc;
use wgattn::backend::wgpu::{Options, WgpuBackend};
use wgattn::backend::{Backend, cpu::CpuBackend};
use wgattn::kernel::case::{Concrete, deviation};
use wgattn::kernel::{Access, Case, KernelSpec, OnWgpu, Variant};
use wgattn::kernels::KERNELS;
use wgattn::tensor::Dims;

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
                for variant in variants(backend.as_ref(), spec, case) {
                    trials.push(trial(device, backend.clone(), spec, case, variant));
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

/// The variants that could run a case on a device; one nameless choice where there is nothing to choose.
fn variants(
    backend: Option<&WgpuBackend>,
    spec: &'static KernelSpec,
    case: &Case,
) -> Vec<Option<&'static str>> {
    let (Some(backend), OnWgpu::Shader(list)) = (backend, &spec.wgpu) else { return vec![None] };
    let (dims, params, caps) = (Dims::of(case.dims), (case.params)(), backend.caps());
    let suits = |v: &&Variant| (v.suits)(&dims, &params, caps) && (!v.subgroups || caps.subgroups);
    list.iter().filter(suits).map(|v| Some(v.name)).collect()
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

/// Runs one case on one device, with one variant forced, and compares all outputs.
fn check(
    backend: Option<WgpuBackend>,
    spec: &'static KernelSpec,
    case: &'static Case,
    variant: Option<&'static str>,
) -> Result<(), String> {
    let say = |e: wgattn::Error| e.to_string();
    let concrete = Concrete::of(spec, case).map_err(say)?;
    let (graph, _, tensors) = concrete.graph().map_err(say)?;
    let backend: Arc<dyn Backend> = match backend {
        None => Arc::new(CpuBackend),
        Some(wgpu) => Arc::new(wgpu.with_variants(variant.map(|v| format!("{}/{v}", spec.name)))),
    };
    let mut program = backend.compile(&graph).map_err(say)?;
    for (tensor, input) in tensors.iter().zip(&concrete.inputs) {
        if let (Some(tensor), Some(input)) = (tensor, input) {
            program.write(*tensor, input).map_err(say)?;
        }
    }
    program.run().map_err(say)?;
    let truth = concrete.truth().map_err(say)?;
    let naive = concrete.naive().map_err(say)?;
    for (index, port) in
        spec.ports.iter().enumerate().filter(|(_, p)| p.access == Access::Write && !p.diagnostic)
    {
        let (Some(tensor), Some(truth), Some(naive)) = (&tensors[index], &truth[index], &naive[index]) else {
            continue;
        };
        let got = program.read(*tensor).map_err(say)?;
        let found = deviation(&got, truth).map_err(say)?;
        let yardstick = deviation(naive, truth).map_err(say)?;
        let allowed = spec.tolerance.factor * yardstick.error + spec.tolerance.floor;
        if found.error.is_nan() || found.error > allowed {
            return Err(format!(
                "{}: error {:.3e} > {allowed:.3e} ({} × naive {:.3e} + {:.1e}); element {}: got {:e}, expected {:e}",
                port.name,
                found.error,
                spec.tolerance.factor,
                yardstick.error,
                spec.tolerance.floor,
                found.index,
                found.got,
                found.expected
            ));
        }
    }
    Ok(())
}
