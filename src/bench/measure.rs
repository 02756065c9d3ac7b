//! One case on one device: compile, warm up, repeat, compare.

use super::stats::Summary;
use crate::backend::{Backend, Burst, DeviceKind, Program, Stopwatch, TimingSource};
use crate::error::Result;
use crate::kernel::case::{Concrete, deviation};
use crate::kernel::{Access, Case, Cost, KernelSpec, Loads, OnWgpu};
use crate::tensor::Tensor;

/// Work above which only the first head is compared with the reference.
const LARGE_FLOP: f64 = 4e9;
/// A submission is filled up to this time, so that submitting does not count for short kernels.
const BURST_SECONDS: f64 = 2e-3;
const MOST_REPEATS: u32 = 64;

/// How long to measure.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// At least this long.
    pub seconds: f64,
    /// At least this many runs.
    pub runs: usize,
}

impl Default for Options {
    fn default() -> Self {
        Self { seconds: 0.5, runs: 5 }
    }
}

/// How much of a result was compared with the reference.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Checked {
    /// Every number.
    All,
    /// The first head of the first batch element.
    FirstHead,
}

impl std::fmt::Display for Checked {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(if *self == Self::All { "all" } else { "first head" })
    }
}

/// Words loaded by one run or step, by path.
pub type Words = Loads;

/// Work of a step and the words it loads.
pub type StepWork = (Cost, Words);

/// What measuring one case gave.
#[derive(Clone, Debug)]
pub struct Measured {
    /// Kernel and variant of every step, repetitions left out.
    pub variants: Vec<String>,
    /// Seconds of one run.
    pub seconds: Summary,
    /// Where they come from.
    pub source: TimingSource,
    /// Processor seconds of one run, where the device computes on the CPU.
    pub cpu_seconds: Option<Summary>,
    /// Compiling and the first run, by the host's clock.
    pub first_seconds: f64,
    /// Useful work of one run.
    pub cost: Cost,
    /// Work and words loaded of every step; `None` where there are no variants to say.
    pub steps: Option<Vec<StepWork>>,
    /// Largest error against the f64 reference, relative to the largest value of the output.
    pub error: f64,
    /// How much was compared.
    pub checked: Checked,
}

impl Measured {
    /// Words loaded by all steps.
    pub fn loaded(&self) -> Words {
        self.steps.iter().flatten().fold(Words::default(), |sum, (_, words)| Words {
            storage: sum.storage + words.storage,
            uniform: sum.uniform + words.uniform,
            texture: sum.texture + words.texture,
            workgroup: sum.workgroup + words.workgroup,
        })
    }
}

/// Times one case.
///
/// Errors: whatever compiling, running or the reference reports.
pub fn measure(
    backend: &dyn Backend,
    spec: &'static KernelSpec,
    case: &Case,
    options: Options,
) -> Result<Measured> {
    let concrete = Concrete::of(spec, case)?;
    let (graph, _, tensors) = concrete.graph()?;
    let first = Stopwatch::start();
    let mut program = backend.compile(&graph)?;
    for (tensor, input) in tensors.iter().zip(&concrete.inputs) {
        if let (Some(tensor), Some(input)) = (tensor, input) {
            program.write(*tensor, input)?;
        }
    }
    program.run()?;
    let first_seconds = first.seconds().0;
    let cost = (spec.cost)(&concrete.dims, &concrete.params);
    let (error, checked) = largest_error(&concrete, program.as_mut(), &tensors, cost.flop > LARGE_FLOP)?;
    let (variants, steps) = steps(program.as_mut())?;
    let bursts = repeat(program.as_mut(), options)?;
    let computes_on_cpu = matches!(backend.info().kind, DeviceKind::Software | DeviceKind::Reference);
    let cpu: Vec<f64> = bursts.iter().map(|b| b.cpu_seconds).collect();
    let (source, seconds) = clocked(&bursts);
    let nothing = Summary { median: 0.0, min: 0.0, mad: 0.0, samples: 0 };
    Ok(Measured {
        variants,
        seconds: Summary::of(&seconds).unwrap_or(nothing),
        source,
        cpu_seconds: Summary::of(&cpu).filter(|_| computes_on_cpu),
        first_seconds,
        cost,
        steps,
        error,
        checked,
    })
}

/// Enough bursts of enough runs.
pub(super) fn repeat(program: &mut dyn Program, options: Options) -> Result<Vec<Burst>> {
    let total = Stopwatch::start();
    let single = program.run_burst(1)?;
    let estimate = single.device_seconds.unwrap_or(single.wall_seconds).max(1e-9);
    let repeats = (BURST_SECONDS / estimate).ceil().clamp(1.0, f64::from(MOST_REPEATS)) as u32;
    let mut bursts = Vec::new();
    while bursts.len() < options.runs.max(1) || total.seconds().0 < options.seconds {
        bursts.push(program.run_burst(repeats)?);
    }
    Ok(bursts)
}

/// One clock for all bursts: the device's, unless its timestamps failed in any of them.
pub(super) fn clocked(bursts: &[Burst]) -> (TimingSource, Vec<f64>) {
    match bursts.iter().map(|b| b.device_seconds).collect::<Option<Vec<f64>>>() {
        Some(seconds) if !seconds.is_empty() => (TimingSource::Timestamp, seconds),
        _ => (TimingSource::Wall, bursts.iter().map(|b| b.wall_seconds).collect()),
    }
}

/// The variants that ran, and the work of each step.
pub(super) fn steps(program: &mut dyn Program) -> Result<(Vec<String>, Option<Vec<StepWork>>)> {
    program.set_profiling(true);
    let profiled = program.run();
    program.set_profiling(false);
    let times = profiled?.steps;
    let mut names: Vec<String> = Vec::new();
    let mut work = Some(Vec::new());
    for (step, time) in program.schedule().steps.iter().zip(&times) {
        let name = format!("{}/{}", time.kernel, time.variant);
        if !names.contains(&name) {
            names.push(name);
        }
        let variant = match &step.kernel.wgpu {
            OnWgpu::Shader(list) => list.iter().find(|v| v.name == time.variant),
            OnWgpu::Expand(_) => None,
        };
        let done = variant.map(|variant| {
            let (one, heads) = ((variant.loads)(&step.dims), step.dims.batches() as f64);
            let words = Words {
                storage: heads * one.storage,
                uniform: heads * one.uniform,
                texture: heads * one.texture,
                workgroup: heads * one.workgroup,
            };
            ((step.kernel.cost)(&step.dims, &step.params), words)
        });
        work = work.zip(done).map(|(mut list, done)| {
            list.push(done);
            list
        });
    }
    Ok((names, work))
}

/// Largest error of the program's outputs against the f64 reference, of all of it or of the first head.
///
/// Errors: whatever reading or the reference reports.
pub fn largest_error(
    concrete: &Concrete,
    program: &mut dyn Program,
    tensors: &[Option<Tensor>],
    large: bool,
) -> Result<(f64, Checked)> {
    let checked = if large { Checked::FirstHead } else { Checked::All };
    let truth = if large { concrete.first_head()?.truth()? } else { concrete.truth()? };
    let mut worst = 0.0_f64;
    for (index, port) in concrete.spec.ports.iter().enumerate() {
        let (Some(tensor), Some(truth)) = (tensors[index], &truth[index]) else { continue };
        if port.access == Access::Write && !port.diagnostic {
            let got = program.read(tensor)?.beginning(truth.shape())?;
            worst = worst.max(deviation(&got, truth)?.error);
        }
    }
    Ok((worst, checked))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_failed_timestamp_turns_all_times_to_the_wall_clock() {
        let burst = |device_seconds| Burst { device_seconds, wall_seconds: 3.0, cpu_seconds: 1.0 };
        let both = [burst(Some(2.0)), burst(Some(2.5))];
        assert_eq!(clocked(&both), (TimingSource::Timestamp, vec![2.0, 2.5]));
        assert_eq!(clocked(&[burst(Some(2.0)), burst(None)]), (TimingSource::Wall, vec![3.0, 3.0]));
    }
}
