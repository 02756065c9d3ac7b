//! CUDA sources, thread by thread on the host, against the f64 reference: every kernel × case × source that suits it.
//!
//! Each runs twice, with threads and blocks in both orders: results that differ in any bit miss a barrier. That wrong uses of
//! asynchronous copies are seen, too, is tested by a source that makes them.

use libtest_mimic::{Arguments, Failed, Trial};
use wgattn::backend::Backend;
use wgattn::backend::cuda::host::HostBackend;
use wgattn::conformance::{self, Expected};
use wgattn::kernel::cuda::{ASYNC, PRELUDE};
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
    trials.extend(USES.map(|(name, right, change)| {
        Trial::test(format!("asynchronous_copies::{name}"), move || {
            use_copies(right, change).map_err(Failed::from)
        })
    }));
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

/// out = x through shared memory, in place of `probe_copy`: halves of x from two groups of copies, each read by another thread than
/// the one that copied it.
const COPIES: &str = r#"
extern "C" __global__ void __launch_bounds__(THREADS) probe_copy(
    Params params, const float* __restrict__ x, float* __restrict__ out) {
  __shared__ float first[THREADS];
  __shared__ float second[THREADS];
  const u32 items = params.b * params.h * params.n;
  const u32 from = blockIdx.x * THREADS;
  const bool inside = from + threadIdx.x < items;
  copy_async_4(&first[threadIdx.x], x + from + threadIdx.x, inside);
  commit_copies();
  copy_async_4(&second[threadIdx.x], x + from + threadIdx.x, inside);
  commit_copies(); // the second group
  wait_copies<1u>();
  __syncthreads(); // the first group is there
  const u32 other = THREADS - 1u - threadIdx.x;
  const float half = 0.5f * first[other];
  wait_copies<0u>();
  __syncthreads(); // the second group is there
  if (from + other < items) { out[from + other] = half + 0.5f * second[other]; }
}
"#;

/// Names of uses of asynchronous copies, whether they are right, and what they replace in [`COPIES`] by what.
const USES: [(&str, bool, (&str, &str)); 7] = [
    ("arrive_when_they_are_waited_for", true, ("", "")),
    ("miss_without_a_wait", false, ("wait_copies<0u>();", "")),
    ("miss_with_too_few_groups", false, ("wait_copies<0u>();", "wait_copies<1u>();")),
    ("miss_in_an_open_group", false, ("commit_copies(); // the second group", "")),
    ("miss_without_a_barrier", false, ("__syncthreads(); // the second group is there", "")),
    ("miss_where_what_others_read_is_filled_anew", false, ("&second[", "&first[")),
    ("miss_at_the_end_of_a_block", false, ("  if (from", "  copy_async_4(&first[0], x, false);\n  if (from")),
];

fn use_copies(right: bool, (from, to): (&str, &str)) -> Result<(), String> {
    static COUNT: std::sync::atomic::AtomicU32 = std::sync::atomic::AtomicU32::new(0);
    let number = COUNT.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
    let folder = std::env::temp_dir().join(format!("wgattn-copies-{}-{number}", std::process::id()));
    let spec = KERNELS.iter().find(|spec| spec.name == "probe_copy").ok_or("no kernel `probe_copy`")?;
    let OnCuda::Source(sources) = &spec.cuda else { return Err("probe_copy has no source".into()) };
    let source = sources.iter().find(|s| s.name == "word").ok_or("probe_copy has no source `word`")?;
    let body = format!("{}{}", ASYNC.body, COPIES.replacen(from, to, 1));
    let shared = source.shared.iter().chain([&PRELUDE]).map(|shared| (shared.file, shared.body.to_string()));
    for (file, text) in shared.chain([(source.file, body)]) {
        let path = folder.join(file);
        let written = std::fs::create_dir_all(path.parent().unwrap_or(&folder))
            .and_then(|()| std::fs::write(&path, text));
        written.map_err(|e| format!("{}: {e}", path.display()))?;
    }
    let backend = HostBackend::with_sources(Some(folder.clone())).map_err(|e| e.to_string())?;
    let case = spec.cases.iter().find(|c| c.name == "odd").ok_or("probe_copy has no case `odd`")?;
    let result = check(&backend, spec, case, Some(source.name));
    std::fs::remove_dir_all(&folder).map_err(|e| format!("{}: {e}", folder.display()))?;
    match (right, result) {
        (true, result) => result,
        (false, Err(_)) => Ok(()),
        (false, Ok(())) => Err("a wrong use of copies gives the right result".into()),
    }
}
