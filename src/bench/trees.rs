//! What a tree mask costs over the number of nodes: time of one product, and how far it is from what the device could do.

use super::measure::{Options, StepWork, clocked, repeat, steps};
use super::peaks::{Bound, Peaks};
use super::stats::{Summary, log_log_slope, rate};
use crate::backend::{Backend, DeviceKind, Stopwatch};
use crate::error::Result;
use crate::graph::Graph;
use crate::mask::{MaskOperator as _, TreeMask, TreePath};
use crate::random::philox;
use crate::tensor::{DType, HostTensor, Tensor};

/// One forest on one device.
#[derive(Clone, Debug)]
pub struct TreePoint {
    /// Nodes.
    pub nodes: u32,
    /// Channels of the product.
    pub channels: u32,
    /// How the mask is computed.
    pub path: TreePath,
    /// Dispatches, expansions counted by their steps.
    pub dispatches: usize,
    /// Seconds of one product by the device's clock, or the host's.
    pub seconds: Summary,
    /// Processor seconds, where the device computes on the CPU.
    pub cpu_seconds: Option<Summary>,
    /// Seconds of laying the tree out and compiling, once for a forest.
    pub first_seconds: f64,
    /// Work and words of every step; `None` where there are no variants to say.
    pub steps: Option<Vec<StepWork>>,
}

impl TreePoint {
    /// Compiles and times one product of `channels` channels with a mask.
    ///
    /// Errors: as compiling and running.
    pub fn measure(backend: &dyn Backend, mask: &TreeMask, channels: u32, options: Options) -> Result<Self> {
        let first = Stopwatch::start();
        let (graph, x, _) = product(mask, channels)?;
        let mut program = backend.compile(&graph)?;
        program.write(x, &HostTensor::f32(x.shape(), numbers(x.shape().len() as u32))?)?;
        program.run()?;
        let first_seconds = first.seconds().0;
        let (_, steps) = steps(program.as_mut())?;
        let bursts = repeat(program.as_mut(), options)?;
        let (_, seconds) = clocked(&bursts);
        let cpu: Vec<f64> = bursts.iter().map(|b| b.cpu_seconds).collect();
        let on_cpu = matches!(backend.info().kind, DeviceKind::Software | DeviceKind::Reference);
        let nothing = Summary { median: 0.0, min: 0.0, mad: 0.0, samples: 0 };
        Ok(Self {
            nodes: mask.tokens(),
            channels,
            path: mask.path(),
            dispatches: program.schedule().steps.len(),
            seconds: Summary::of(&seconds).unwrap_or(nothing),
            cpu_seconds: Summary::of(&cpu).filter(|_| on_cpu),
            first_seconds,
            steps,
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

/// One product of `channels` channels with a mask as a graph: `x` `[1, 1, n, channels]` to write, and the result of the same shape to
/// read.
///
/// Errors: as recording the mask.
pub fn product(mask: &TreeMask, channels: u32) -> Result<(Graph, Tensor, Tensor)> {
    let mut graph = Graph::new("tree mask");
    let x = graph.input("x", [1, 1, mask.tokens(), channels], DType::F32);
    let out = mask.apply(&mut graph, x)?;
    graph.output(out)?;
    Ok((graph, x, out))
}

/// Numbers from 0.1 to 1.
fn numbers(count: u32) -> Vec<f32> {
    let four = |block: u32| {
        philox([block, 0, 0, 0], 1).map(|word| 0.1 + 0.9 * (word >> 8) as f32 / (1 << 24) as f32)
    };
    (0..count.div_ceil(4)).flat_map(four).take(count as usize).collect()
}
