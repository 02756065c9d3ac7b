//! Every kernel × case × device against the f64 reference; on wgpu also every variant that suits the case.
//!
//! One process and one device per adapter. A device that this machine lacks is listed as ignored with the reason;
//! where `WGATTN_REQUIRE_ADAPTERS` names it, it is a failure.

use libtest_mimic::{Arguments, Failed, Trial};
use std::sync::Arc;
use wgattn::backend::wgpu::{Options, WgpuBackend};
use wgattn::backend::{Backend, cpu::CpuBackend};
use wgattn::kernel::case::{Concrete, deviation};
use wgattn::kernel::{Access, Case, KernelSpec, OnWgpu};
use wgattn::kernels::KERNELS;

mod support;

fn main() {
    let args = Arguments::from_args();
    let mut devices: Vec<(String, Option<wgpu::Adapter>)> = vec![("cpu".into(), None)];
    let found = support::adapters_by_name();
    devices.extend(found.iter().map(|(name, adapter)| (name.clone(), Some(adapter.clone()))));
    let mut trials = Vec::new();
    for (device, adapter) in devices {
        let mut backends: Vec<(String, Option<WgpuBackend>)> = vec![(String::new(), None)];
        if let Some(adapter) = &adapter {
            let backend =
                WgpuBackend::on_adapter(adapter, Options::default()).expect("the adapter gives a device");
            backends = vec![(String::new(), Some(backend))];
        }
        for spec in KERNELS {
            for case in spec.cases.iter().filter(|c| !c.bench) {
                for (_, backend) in &backends {
                    let variants: Vec<&'static str> = match (&backend, &spec.wgpu) {
                        (Some(_), OnWgpu::Shader(list)) => list.iter().map(|v| v.name).collect(),
                        _ => vec![""],
                    };
                    for variant in variants {
                        trials.push(trial(&device, backend.clone(), adapter.clone(), spec, case, variant));
                    }
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
    adapter: Option<wgpu::Adapter>,
    spec: &'static KernelSpec,
    case: &'static Case,
    variant: &'static str,
) -> Trial {
    let suffix = if variant.is_empty() { String::new() } else { format!("/{variant}") };
    let name = format!("{}{suffix}::{}::{device}", spec.name, case.name);
    let _ = adapter;
    Trial::test(name, move || check(backend, spec, case, variant).map_err(Failed::from))
}

/// Runs one case on one device, with one variant forced, and compares all outputs.
fn check(
    backend: Option<WgpuBackend>,
    spec: &'static KernelSpec,
    case: &'static Case,
    variant: &'static str,
) -> Result<(), String> {
    let say = |e: wgattn::Error| e.to_string();
    let concrete = Concrete::of(spec, case).map_err(say)?;
    let (graph, _, tensors) = concrete.graph().map_err(say)?;
    let backend: Arc<dyn Backend> = match backend {
        None => Arc::new(CpuBackend),
        Some(wgpu) if variant.is_empty() => Arc::new(wgpu),
        Some(wgpu) => {
            let OnWgpu::Shader(list) = &spec.wgpu else { return Err("no shader".into()) };
            let chosen = list.iter().find(|v| v.name == variant).ok_or("no such variant")?;
            if !(chosen.suits)(&concrete.dims, &concrete.params, wgpu.caps())
                || (chosen.subgroups && !wgpu.caps().subgroups)
            {
                return Ok(()); // the dispatcher would not choose it for this shape
            }
            let forced = format!("{}/{variant}", spec.name);
            Arc::new(wgpu.with_variants(Some(forced)))
        }
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
