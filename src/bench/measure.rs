//! One case on one device: compile, warm up, repeat, compare.

use super::expected::{Check, Checked, Expected, Found, wrong};
use super::flags::{self, Clock, Flag};
use super::stats::Summary;
use crate::backend::{Backend, Burst, DeviceKind, Program, Realisation, Stopwatch, TimingSource};
use crate::error::Result;
use crate::graph::Graph;
use crate::kernel::case::Concrete;
use crate::kernel::{Access, Case, Cost, KernelSpec, Loads, OnCuda, OnWgpu, Port, Variant};
use crate::tensor::{HostTensor, Tensor};
use std::time::Duration;

/// A submission is filled up to this time, so that submitting does not count for short kernels.
const BURST_SECONDS: f64 = 2e-3;
const MOST_REPEATS: u32 = 64;
/// A run this long needs no other one to warm up for it.
const LONG_SECONDS: f64 = 0.5;
/// Fewest runs where time is short: two could not tell which of them is odd.
const FEWEST_RUNS: usize = 3;
/// Operations of a dispatch where nothing is known of the device and dispatches are to be short.
const FIRST_WORK: f64 = 64e6;
/// How often a kernel is compiled anew with shorter dispatches.
const MOST_CUTS: usize = 5;
/// How often encoding is timed.
const ENCODES: usize = 5;

/// How long to measure, and how.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// At least this long.
    pub seconds: f64,
    /// At least this many runs.
    pub runs: usize,
    /// After this long no further run begins, even if `runs` are not reached, three excepted.
    pub most_seconds: Option<f64>,
    /// Operations that the reference behind the error may cost: of larger results a part is compared.
    pub check_work: f64,
    /// How long a single submission, and a single dispatch, should take at most.
    pub most_dispatch_seconds: Option<f64>,
    /// Operations that the device does in a second, if that is known: from these comes the size of the first dispatches.
    pub flop_per_second: Option<f64>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            seconds: 0.5,
            runs: 5,
            most_seconds: None,
            check_work: 4e9,
            most_dispatch_seconds: None,
            flop_per_second: None,
        }
    }
}

/// Words loaded by one run or step, by path.
pub type Words = Loads;

/// Work of a step, and how it gets done.
#[derive(Clone, Copy, Debug, Default)]
pub struct StepWork {
    /// What it computes.
    pub cost: Cost,
    /// What it loads, by path.
    pub words: Words,
    /// Bytes that are copied into textures or uniform buffers for it.
    pub copied_bytes: f64,
    /// Bytes of the largest of these copies.
    pub copy_bytes: f64,
    /// Dispatches.
    pub dispatches: f64,
}

/// What measuring one case gave.
#[derive(Clone, Debug)]
pub struct Measured {
    /// Kernel and variant of every step, repetitions left out.
    pub variants: Vec<String>,
    /// Whether any step runs in another variant than the device takes by itself, because a search found it quicker.
    pub tuned: bool,
    /// Seconds of one run.
    pub seconds: Summary,
    /// Where they come from.
    pub source: TimingSource,
    /// Processor seconds of one run, where the device computes on the CPU.
    pub cpu_seconds: Option<Summary>,
    /// Seconds of compiling: pipelines, memory, bind groups.
    pub compile_seconds: f64,
    /// Seconds that the host takes to encode one run; `None` where nothing is encoded.
    pub encode_seconds: Option<f64>,
    /// Seconds of the first run, by the host's clock: some drivers compile only then.
    pub first_seconds: f64,
    /// Useful work of one run.
    pub cost: Cost,
    /// Work and words loaded of every step; `None` where there are no variants to say.
    pub steps: Option<Vec<StepWork>>,
    /// Error against the f64 reference; `None` where nothing was compared.
    pub found: Option<Found>,
    /// How much was compared.
    pub checked: Checked,
    /// What to know before believing the numbers.
    pub flags: Vec<Flag>,
}

impl Measured {
    /// Words loaded by all steps.
    pub fn loaded(&self) -> Words {
        self.steps.iter().flatten().map(|step| step.words).fold(Words::default(), |sum, words| Words {
            storage: sum.storage + words.storage,
            uniform: sum.uniform + words.uniform,
            texture: sum.texture + words.texture,
            workgroup: sum.workgroup + words.workgroup,
            vector_stores: sum.vector_stores + words.vector_stores,
            many_sums: sum.many_sums + words.many_sums,
            padding: sum.padding + words.padding,
        })
    }

    /// The time to judge by: processor seconds where the device computes on the CPU.
    pub fn time(&self) -> Summary {
        self.cpu_seconds.unwrap_or(self.seconds)
    }

    /// The clock of `seconds`.
    pub fn clock(&self) -> Clock {
        clock_of(self.source)
    }

    /// The clock of the time to judge by.
    pub fn judged_by(&self) -> Clock {
        if self.cpu_seconds.is_some() { Clock::Cpu } else { self.clock() }
    }
}

/// The clock that a source of times is.
fn clock_of(source: TimingSource) -> Clock {
    match source {
        TimingSource::Timestamp => Clock::Device,
        TimingSource::Wall => Clock::Wall,
    }
}

/// Times one case.
///
/// Errors: whatever compiling, running or the reference reports, and a result that is not what the kernel promises.
pub fn measure(
    backend: &dyn Backend,
    spec: &'static KernelSpec,
    case: &Case,
    options: Options,
) -> Result<Measured> {
    let concrete = Concrete::of(spec, case)?;
    measure_with(backend, &concrete, options, &mut |c| Expected::of(c, Check::Work(options.check_work)))
}

/// Times concrete tensors; `expected` gives the truth about them once they have run.
///
/// Errors: as [`measure`].
pub fn measure_with<E: std::borrow::Borrow<Expected>>(
    backend: &dyn Backend,
    concrete: &Concrete,
    options: Options,
    expected: &mut dyn FnMut(&Concrete) -> Result<E>,
) -> Result<Measured> {
    let (graph, _, tensors) = concrete.graph()?;
    let inputs: Vec<(Tensor, &HostTensor)> = tensors
        .iter()
        .zip(&concrete.inputs)
        .filter_map(|(tensor, input)| Some(((*tensor)?, input.as_ref()?)))
        .collect();
    // Before the clock runs: a search is no compiling.
    backend.tune(&graph)?;
    let Ready { mut program, compile_seconds, first_seconds, exceeded } =
        Ready::make(backend, &graph, &inputs, options)?;
    let expected = expected(concrete)?;
    let found = expected.borrow().compare(concrete.spec, program.as_mut(), &tensors)?;
    if let Some(found) = found.filter(|f| !f.stands(program.as_ref())) {
        return Err(wrong(concrete.spec.name, found));
    }
    let cost = (concrete.spec.cost)(&concrete.dims, &concrete.params);
    let (variants, steps) = steps(program.as_ref());
    let tuned = program.tuned_steps() > 0;
    let bursts = repeat(program.as_mut(), options)?;
    let encode_seconds = encode_seconds(program.as_mut())?;
    let kind = backend.info().kind;
    let computes_on_cpu = matches!(kind, DeviceKind::Software | DeviceKind::Reference);
    let cpu: Vec<f64> = bursts.iter().map(|b| b.cpu_seconds).collect();
    let (source, times) = clocked(&bursts);
    let seconds = Summary::of(&times).unwrap_or(Summary::NOTHING);
    let mut flags: Vec<Flag> = Vec::new();
    let mut warn = |of: bool, flag: Flag| flags.extend(of.then_some(flag));
    warn(kind == DeviceKind::Software, Flag::Software);
    warn(kind != DeviceKind::Reference && source == TimingSource::Wall, Flag::NoTimestamps);
    warn(!seconds.is_measurable(), Flag::BelowResolution);
    warn(exceeded, Flag::LongDispatch);
    warn(program.untried_steps() > 0, Flag::HalfTuned);
    let (clock, judged) = if computes_on_cpu { (Clock::Cpu, &cpu) } else { (clock_of(source), &times) };
    flags.extend(flags::of_times(judged, clock));
    Ok(Measured {
        variants,
        tuned,
        seconds,
        source,
        cpu_seconds: Summary::of(&cpu).filter(|_| computes_on_cpu),
        compile_seconds,
        encode_seconds,
        first_seconds,
        cost,
        steps,
        found,
        checked: expected.borrow().checked,
        flags,
    })
}

/// A program that has run once.
pub(super) struct Ready {
    pub(super) program: Box<dyn Program>,
    pub(super) compile_seconds: f64,
    pub(super) first_seconds: f64,
    /// Whether a single dispatch takes longer than it should, however short they were cut.
    pub(super) exceeded: bool,
}

impl Ready {
    /// Compiles a graph, gives it its inputs and runs it; where dispatches are to be short, as often as it takes.
    pub(super) fn make(
        backend: &dyn Backend,
        graph: &Graph,
        inputs: &[(Tensor, &HostTensor)],
        options: Options,
    ) -> Result<Self> {
        let compiled = |backend: &dyn Backend| -> Result<(Box<dyn Program>, f64)> {
            let watch = Stopwatch::start();
            let mut program = backend.compile(graph)?;
            let seconds = watch.seconds().0;
            inputs.iter().try_for_each(|(tensor, input)| program.write(*tensor, input))?;
            Ok((program, seconds))
        };
        let first = Stopwatch::start;
        let Some(most) = options.most_dispatch_seconds else {
            let (mut program, compile_seconds) = compiled(backend)?;
            let watch = first();
            program.run()?;
            let first_seconds = watch.seconds().0;
            return Ok(Self { program, compile_seconds, first_seconds, exceeded: false });
        };
        let mut work = options.flop_per_second.map_or(FIRST_WORK, |f| 0.25 * f * most);
        let mut cuts = 0;
        loop {
            let cut = backend.cut_to(work);
            let (mut program, compile_seconds) = compiled(cut.as_deref().unwrap_or(backend))?;
            let watch = first();
            program.run_in_parts(Duration::from_secs_f64(most))?;
            let first_seconds = watch.seconds().0;
            // Once more: some drivers compile within the first run.
            let longest = program.run_in_parts(Duration::from_secs_f64(most))?.longest_dispatch_seconds;
            cuts += 1;
            if longest <= most || cut.is_none() || cuts == MOST_CUTS {
                return Ok(Self { program, compile_seconds, first_seconds, exceeded: longest > most });
            }
            work *= 0.7 * most / longest;
        }
    }
}

/// The middle of a few encodings; one that takes long is done once.
pub(super) fn encode_seconds(program: &mut dyn Program) -> Result<Option<f64>> {
    let mut times = Vec::new();
    while times.len() < ENCODES && times.iter().sum::<f64>() < 0.05 {
        match program.encode_seconds()? {
            Some(seconds) => times.push(seconds),
            None => return Ok(None),
        }
    }
    Ok(Summary::of(&times).map(|s| s.median))
}

/// Enough bursts of enough runs.
pub(super) fn repeat(program: &mut dyn Program, options: Options) -> Result<Vec<Burst>> {
    let allowed = options.most_dispatch_seconds;
    let in_parts = |program: &mut dyn Program, most: f64| -> Result<Burst> {
        let parts = program.run_in_parts(Duration::from_secs_f64(most))?;
        let (wall_seconds, cpu_seconds) = (parts.wall_seconds, parts.cpu_seconds);
        Ok(Burst { device_seconds: None, wall_seconds, cpu_seconds })
    };
    let single = match allowed {
        Some(most) => in_parts(program, most)?,
        None => program.run_burst(1)?,
    };
    // Work that does not fit one submission stays cut.
    let cut = allowed.filter(|most| single.wall_seconds > *most);
    let estimate = single.device_seconds.unwrap_or(single.wall_seconds).max(1e-9);
    let burst = allowed.unwrap_or(BURST_SECONDS).min(BURST_SECONDS);
    let repeats = (burst / estimate).ceil().clamp(1.0, f64::from(MOST_REPEATS)) as u32;
    // A long run that came after another is as good as any.
    let (counted, before) = match single.wall_seconds >= LONG_SECONDS {
        true => (Some(single), single.wall_seconds),
        false => (None, 0.0),
    };
    let total = Stopwatch::start();
    let mut bursts: Vec<Burst> = counted.into_iter().collect();
    let wanted = |runs: usize, seconds: f64| {
        let late = options.most_seconds.is_some_and(|most| seconds >= most && runs >= FEWEST_RUNS);
        !late && (runs < options.runs.max(1) || seconds < options.seconds)
    };
    while wanted(bursts.len(), before + total.seconds().0) {
        bursts.push(match cut {
            Some(most) => in_parts(program, most)?,
            None => program.run_burst(repeats)?,
        });
    }
    Ok(bursts)
}

/// One clock for all bursts: the device's, unless its timestamps failed in any of them.
pub(super) fn clocked(bursts: &[Burst]) -> (TimingSource, Vec<f64>) {
    let believed = |b: &Burst| b.device_seconds.filter(|s| s.is_finite() && *s > 0.0);
    match bursts.iter().map(believed).collect::<Option<Vec<f64>>>() {
        Some(seconds) if !seconds.is_empty() => (TimingSource::Timestamp, seconds),
        _ => (TimingSource::Wall, bursts.iter().map(|b| b.wall_seconds).collect()),
    }
}

/// The variants that ran, and the work of each step.
pub(super) fn steps(program: &dyn Program) -> (Vec<String>, Option<Vec<StepWork>>) {
    let mut names: Vec<String> = Vec::new();
    let mut work = Some(Vec::new());
    for (step, form) in program.schedule().steps.iter().zip(program.step_forms()) {
        let name = format!("{}/{}", step.kernel.name, form.variant);
        if !names.contains(&name) {
            names.push(name);
        }
        let declared = match form.realisation {
            Realisation::Reference => None,
            Realisation::Wgsl => on_wgpu(&step.kernel.wgpu, form.variant)
                .map(|v| ((v.loads)(&step.dims, &step.params), v.vec4)),
            // What CUDA sources and libraries load, and by which path, nobody has counted: arithmetic, stores and memory bound them.
            Realisation::Cuda => {
                on_cuda(&step.kernel.cuda, form.variant).map(|vec4| (Words::default(), vec4))
            }
        };
        let done = declared.map(|(one, vec4)| {
            let heads = step.dims.batches() as f64;
            let cost = (step.kernel.cost)(&step.dims, &step.params);
            let writes = |port: &&Port| port.access != Access::Read && vec4.contains(&port.name);
            let words = Words {
                vector_stores: if step.kernel.ports.iter().any(|port| writes(&port)) {
                    cost.stores
                } else {
                    0.0
                },
                storage: heads * one.storage,
                uniform: heads * one.uniform,
                texture: heads * one.texture,
                workgroup: heads * one.workgroup,
                many_sums: heads * one.many_sums,
                padding: heads * one.padding,
            };
            // How many workgroups run is found on the device, possibly none, so such a step bounds nothing.
            match step.group_counts().next() {
                Some(_) => StepWork::default(),
                None => StepWork {
                    cost,
                    words,
                    copied_bytes: form.copied_bytes as f64,
                    copy_bytes: form.largest_copy_bytes as f64,
                    dispatches: form.dispatches as f64,
                },
            }
        });
        work = work.zip(done).map(|(mut list, done)| {
            list.push(done);
            list
        });
    }
    (names, work)
}

/// A variant by its name.
fn on_wgpu(how: &OnWgpu, name: &str) -> Option<&'static Variant> {
    match how {
        OnWgpu::Shader(list) => list.iter().find(|v| v.name == name),
        OnWgpu::Expand(_) => None,
    }
}

/// The ports that a source reads and writes as vectors, or a library all of them; `None` where there is neither of that name.
fn on_cuda(how: &OnCuda, name: &str) -> Option<&'static [&'static str]> {
    match how {
        OnCuda::Source(sources) => sources.iter().find(|s| s.name == name).map(|s| s.vec4),
        OnCuda::Library(library, _) => (library.name() == name).then_some(&["out"] as &[_]),
        OnCuda::Expand => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_on_cuda_are_known_by_their_sources_and_libraries() {
        use crate::kernels::{fft::fft, linalg::matmul, probe::probe_store};
        assert_eq!(on_cuda(&matmul::SPEC.cuda, "cublas"), Some(&["out"] as &[_]));
        assert_eq!(on_cuda(&fft::SPEC.cuda, "cufft"), Some(&["out"] as &[_]));
        assert_eq!(on_cuda(&probe_store::SPEC.cuda, "vec4"), Some(&["out"] as &[_]));
        for name in ["reference", "cufft", "plain"] {
            assert_eq!(on_cuda(&matmul::SPEC.cuda, name), None, "{name}");
        }
    }

    #[test]
    fn one_failed_timestamp_turns_all_times_to_the_wall_clock() {
        let burst = |device_seconds| Burst { device_seconds, wall_seconds: 3.0, cpu_seconds: 1.0 };
        let both = [burst(Some(2.0)), burst(Some(2.5))];
        assert_eq!(clocked(&both), (TimingSource::Timestamp, vec![2.0, 2.5]));
        for bad in [None, Some(0.0), Some(-1.0), Some(f64::NAN), Some(f64::INFINITY)] {
            let times = clocked(&[burst(Some(2.0)), burst(bad)]);
            assert_eq!(times, (TimingSource::Wall, vec![3.0, 3.0]), "{bad:?}");
        }
    }
}
