//! What a mask on a network or tree costs over the number of nodes: time and memory of one product, and how far it is from what the
//! device could do.

use super::measure::{Options, StepWork, clocked, repeat, steps};
use super::peaks::{Bound, Peaks};
use super::stats::{Summary, log_log_slope, rate};
use crate::backend::{Backend, DeviceKind, Stopwatch};
use crate::error::Result;
use crate::graph::Graph;
use crate::mask::MaskOperator;
use crate::random::philox;
use crate::tensor::{DType, HostTensor, Tensor};

/// One mask on one device.
#[derive(Clone, Debug)]
pub struct OperatorPoint {
    /// Nodes.
    pub nodes: u32,
    /// Channels of the product.
    pub channels: u32,
    /// What the mask says of itself.
    pub mask: String,
    /// Dispatches, expansions counted by their steps.
    pub dispatches: usize,
    /// Seconds of one product by the device's clock, or the host's.
    pub seconds: Summary,
    /// Processor seconds, where the device computes on the CPU.
    pub cpu_seconds: Option<Summary>,
    /// Bytes that the program holds, inputs and outputs included.
    pub memory: u64,
    /// Seconds of recording the mask and compiling, once for a network.
    pub first_seconds: f64,
    /// Work and words of every step; `None` where there are no variants to say.
    pub steps: Option<Vec<StepWork>>,
}

impl OperatorPoint {
    /// Compiles and times one product of `channels` channels with a mask.
    ///
    /// Errors: as compiling and running.
    pub fn measure(
        backend: &dyn Backend,
        mask: &dyn MaskOperator,
        channels: u32,
        options: Options,
    ) -> Result<Self> {
        let first = Stopwatch::start();
        let (graph, x, _) = product(mask, channels)?;
        let timed = Timed::of(backend, &graph, &[x], options)?;
        Ok(Self {
            nodes: mask.tokens(),
            channels,
            mask: mask.describe(),
            dispatches: timed.dispatches,
            seconds: timed.seconds,
            cpu_seconds: timed.cpu_seconds,
            memory: timed.memory,
            // Recording was before.
            first_seconds: first.seconds().0 - timed.repeated_seconds,
            steps: timed.steps,
        })
    }

    /// The time to judge by: processor seconds where the device computes on the CPU.
    pub fn time(&self) -> f64 {
        self.cpu_seconds.unwrap_or(self.seconds).median
    }

    /// The least time the device could take for these steps, and the part of it that was reached.
    pub fn bound(&self, peaks: &Peaks) -> Option<(Bound, f64)> {
        let bound = peaks.bound(self.steps.as_ref()?, self.cpu_seconds.is_some())?;
        Some((bound, rate(bound.seconds, self.time())?))
    }

    /// Exponent of the time over the nodes.
    pub fn slope(points: &[Self]) -> Option<f64> {
        log_log_slope(&points.iter().map(|p| (f64::from(p.nodes), p.time())).collect::<Vec<_>>())
    }
}

/// A graph's time and memory on one device.
#[derive(Clone, Debug)]
pub struct Timed {
    /// Dispatches, expansions counted by their steps.
    pub dispatches: usize,
    /// Seconds of one run by the device's clock, or the host's.
    pub seconds: Summary,
    /// Processor seconds, where the device computes on the CPU.
    pub cpu_seconds: Option<Summary>,
    /// Bytes that the program holds, inputs and outputs included.
    pub memory: u64,
    /// Seconds of all runs but the first.
    pub repeated_seconds: f64,
    /// Work and words of every step; `None` where there are no variants to say.
    pub steps: Option<Vec<StepWork>>,
}

impl Timed {
    /// Compiles a graph, fills its float inputs with numbers from 0.1 to 1, and times it.
    ///
    /// Errors: as compiling and running.
    pub fn of(backend: &dyn Backend, graph: &Graph, inputs: &[Tensor], options: Options) -> Result<Self> {
        let mut program = backend.compile(graph)?;
        for x in inputs {
            program.write(*x, &HostTensor::f32(x.shape(), numbers(x.shape().len() as u32))?)?;
        }
        program.run()?;
        let repeated = Stopwatch::start();
        let (_, steps) = steps(program.as_ref());
        let memory = program.memory();
        let bursts = repeat(program.as_mut(), options)?;
        let (_, seconds) = clocked(&bursts);
        let cpu: Vec<f64> = bursts.iter().map(|b| b.cpu_seconds).collect();
        let on_cpu = matches!(backend.info().kind, DeviceKind::Software | DeviceKind::Reference);
        Ok(Self {
            memory: memory.external + memory.beyond_inputs_and_outputs(),
            dispatches: program.schedule().steps.len(),
            seconds: Summary::of(&seconds).unwrap_or(Summary::NOTHING),
            cpu_seconds: Summary::of(&cpu).filter(|_| on_cpu),
            repeated_seconds: repeated.seconds().0,
            steps,
        })
    }

    /// The time to judge by: processor seconds where the device computes on the CPU.
    pub fn time(&self) -> f64 {
        self.cpu_seconds.unwrap_or(self.seconds).median
    }
}

/// One product of `channels` channels with a mask as a graph: `x` `[1, 1, n, channels]` to write, and the result of the same shape to
/// read.
///
/// Errors: as recording the mask.
pub fn product(mask: &dyn MaskOperator, channels: u32) -> Result<(Graph, Tensor, Tensor)> {
    let mut graph = Graph::new("mask");
    let x = graph.input("x", [1, 1, mask.tokens(), channels], DType::F32);
    let out = mask.apply(&mut graph, x)?;
    graph.output(out)?;
    Ok((graph, x, out))
}

/// Numbers from 0.1 to 1.
fn numbers(count: u32) -> Vec<f32> {
    uniform(0, [0.1, 1.0], count)
}

/// So many numbers from `low` to `high`, other ones for each stream.
pub(super) fn uniform(stream: u32, [low, high]: [f32; 2], count: u32) -> Vec<f32> {
    let four = |block: u32| {
        philox([block, 0, 0, stream], 1)
            .map(|word| low + (high - low) * (word >> 8) as f32 / (1 << 24) as f32)
    };
    (0..count.div_ceil(4)).flat_map(four).take(count as usize).collect()
}
