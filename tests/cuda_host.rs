//! CUDA sources, thread by thread on the host, against the f64 reference: every kernel × case × source that suits it.
//!
//! Each runs twice, with threads and blocks in both orders: results that differ in any bit miss a barrier.

use libtest_mimic::{Arguments, Failed, Trial};
use wgattn::backend::Backend;
use wgattn::backend::cuda::host::HostBackend;
use wgattn::conformance::{self, Expected};
use wgattn::kernel::{Case, KernelSpec, OnCuda};
use wgattn::kernels::KERNELS;
use wgattn::tensor::HostTensor;

fn main() {
    let args = Arguments::from_args();
    // What is being written is tried without building: WGATTN_CUDA_SOURCES=shaders.
    let folder = std::env::var_os("WGATTN_CUDA_SOURCES").map(std::path::PathBuf::from);
    let backend = HostBackend::with_sources(folder).expect("a C++ compiler runs CUDA sources on the host");
    let mut trials = Vec::new();
    for spec in KERNELS {
        for case in spec.cases.iter().filter(|c| !c.bench) {
            match &spec.cuda {
                OnCuda::Source(sources) => {
                    let suits = |s: &&wgattn::kernel::cuda::Source| {
                        let dims = wgattn::tensor::Dims::of(case.dims);
                        (s.suits)(&dims, &(case.params)())
                            && s.vec4.iter().all(|port| ends_in_fours(spec, case, port))
                    };
                    for source in sources.iter().filter(suits) {
                        trials.push(trial(&backend, spec, case, Some(source.name)));
                    }
                }
                OnCuda::Library(..) | OnCuda::Expand => trials.push(trial(&backend, spec, case, None)),
            }
        }
    }
    libtest_mimic::run(&args, trials).exit();
}

/// Whether the rows of a port are whole `float4`s.
fn ends_in_fours(spec: &KernelSpec, case: &Case, port: &str) -> bool {
    let last = spec.ports.iter().find(|p| p.name == port).and_then(|p| p.dims.last());
    let size = |name: &&str| case.dims.iter().find(|(n, _)| n == name).map_or(1, |(_, size)| *size);
    last.is_some_and(|name| size(name).is_multiple_of(4))
}

fn trial(
    backend: &HostBackend,
    spec: &'static KernelSpec,
    case: &'static Case,
    source: Option<&'static str>,
) -> Trial {
    let suffix = source.map_or_else(String::new, |v| format!("/{v}"));
    let name = format!("{}{suffix}::{}", spec.name, case.name);
    let backend = backend.clone();
    Trial::test(name, move || check(&backend, spec, case, source).map_err(Failed::from))
}

fn check(
    backend: &HostBackend,
    spec: &'static KernelSpec,
    case: &'static Case,
    source: Option<&'static str>,
) -> Result<(), String> {
    let say = |e: wgattn::Error| e.to_string();
    let expected = Expected::of(spec, case).map_err(say)?;
    let mut results: Vec<Vec<HostTensor>> = Vec::new();
    for device in [backend.clone(), backend.backwards()] {
        let device = match source {
            None => Box::new(device) as Box<dyn Backend>,
            Some(source) => device.held_to(&format!("{}/{source}", spec.name)).map_err(say)?,
        };
        let ran = conformance::check(device.as_ref(), &expected).map_err(say)?;
        if let Some(failing) = ran.judged.iter().find(|judged| !judged.passes()) {
            return Err(failing.to_string());
        }
        results.push(ran.got);
    }
    let bytes = |of: &Vec<HostTensor>| of.iter().map(HostTensor::device_bytes).collect::<Vec<_>>();
    if bytes(&results[0]) != bytes(&results[1]) {
        return Err("the result depends on the order of threads: a barrier is missing".into());
    }
    Ok(())
}
