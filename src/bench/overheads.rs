//! What a device takes before and after it computes: dispatches, submissions, and getting numbers there and back.

use super::measure::Options;
use super::peaks::Peak;
use super::stats::rate;
use crate::backend::{Backend, Program, Stopwatch};
use crate::error::Result;
use crate::kernel::KernelSpec;
use crate::kernel::case::Concrete;
use crate::kernels::elementwise::add_words;
use crate::kernels::probe::probe_copy;
use crate::tensor::{Dims, HostTensor, Tensor};

/// Dispatches of one submission whose time is compared with that of one.
const DISPATCHES: u32 = 256;
/// Words of a copy that no watchdog minds: 1 MiB.
const SHORT_COPY: u32 = 262_144;
/// How often each is timed; the best counts, because a roof is what the device can do when nobody disturbs it.
const TRIES: usize = 5;

/// What is not computing.
#[derive(Clone, Copy, Debug, Default)]
pub struct Overheads {
    /// Seconds by which one more dispatch of two words prolongs a submission, by the host's clock; `None` where that is too little to
    /// see.
    pub dispatch_seconds: Option<f64>,
    /// Seconds of encoding, submitting and waiting for one such dispatch.
    pub submit_seconds: Option<f64>,
    /// Bytes from the host into a tensor.
    pub upload: Peak,
    /// Bytes from a tensor to the host.
    pub readback: Peak,
}

/// A kernel's benchmark case, ready to run, with its first input and its first output.
struct Probe {
    program: Box<dyn Program>,
    input: Option<(Tensor, HostTensor)>,
    output: Option<Tensor>,
}

impl Probe {
    /// With another size of dimension `n` if one is given.
    fn of(backend: &dyn Backend, spec: &'static KernelSpec, n: Option<u32>) -> Result<Option<Self>> {
        let Some(case) = spec.cases.iter().find(|c| c.bench) else { return Ok(None) };
        let mut dims = Dims::of(case.dims);
        n.into_iter().for_each(|n| dims.set("n", n));
        let concrete = Concrete::with_dims(spec, case, dims)?;
        let (graph, _, tensors) = concrete.graph()?;
        let mut program = backend.compile(&graph)?;
        let mut input = None;
        for (tensor, data) in tensors.iter().zip(&concrete.inputs) {
            if let (Some(tensor), Some(data)) = (tensor, data) {
                program.write(*tensor, data)?;
                input = input.or_else(|| Some((*tensor, data.clone())));
            }
        }
        program.run()?;
        Ok(Some(Self { program, input, output: tensors.last().copied().flatten() }))
    }
}

/// The least wall and processor time of several tries.
fn least(mut once: impl FnMut() -> Result<(f64, f64)>) -> Result<(f64, f64)> {
    let mut best = once()?;
    for _ in 1..TRIES {
        let (wall, cpu) = once()?;
        best = (best.0.min(wall), best.1.min(cpu));
    }
    Ok(best)
}

fn timed(work: impl FnOnce() -> Result<()>) -> Result<(f64, f64)> {
    let watch = Stopwatch::start();
    work()?;
    Ok(watch.seconds())
}

impl Overheads {
    /// Measures them.
    ///
    /// Errors: as compiling and running.
    pub fn of(backend: &dyn Backend, options: Options) -> Result<Self> {
        let mut all = Self::default();
        if let Some(mut tiny) = Probe::of(backend, &add_words::SPEC, None)? {
            let mut burst = |count: u32| {
                least(|| {
                    let burst = tiny.program.run_burst(count)?;
                    let share = f64::from(count);
                    Ok((share * burst.wall_seconds, share * burst.cpu_seconds))
                })
            };
            let (one, many) = (burst(1)?.0, burst(DISPATCHES)?.0);
            let dispatch = (many - one) / f64::from(DISPATCHES - 1);
            all.dispatch_seconds = Some(dispatch).filter(|s| *s > 0.0);
            all.submit_seconds = Some(one).filter(|s| *s > 0.0);
        }
        // Tens of MiB in one go, but one where the device must not be kept busy for long.
        let short = options.most_dispatch_seconds.map(|_| SHORT_COPY);
        if let Some(Probe { mut program, input: Some((tensor, data)), output: Some(output) }) =
            Probe::of(backend, &probe_copy::SPEC, short)?
        {
            let bytes = (data.shape().len() * data.dtype().bytes()) as f64;
            let run = least(|| timed(|| program.run().map(drop)))?;
            let with_upload = least(|| {
                timed(|| {
                    program.write(tensor, &data)?;
                    program.run().map(drop)
                })
            })?;
            let back = least(|| timed(|| program.read(output).map(drop)))?;
            let by_cpu = backend.info().kind >= crate::backend::DeviceKind::Software;
            let peak = |wall: f64, cpu: f64| Peak {
                per_second: rate(bytes, wall),
                per_cpu_second: rate(bytes, cpu).filter(|_| by_cpu),
            };
            all.upload = peak(with_upload.0 - run.0, with_upload.1 - run.1);
            all.readback = peak(back.0, back.1);
        }
        Ok(all)
    }
}
