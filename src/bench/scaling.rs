//! Whether Nyström attention is linear: time and memory over the number of tokens, and the slope in logarithms.

use super::stats::{Summary, log_log_slope};
use crate::backend::{Backend, Memory, Stopwatch};
use crate::error::{Error, Result};
use crate::graph::Lowering;
use crate::kernel::case::Concrete;
use crate::kernel::{Caps, KernelSpec};
use crate::kernels::laplacian::nystrom_attention;
use crate::tensor::Dims;

/// Heads, landmarks and coordinates of every point.
const HEADS: u32 = 8;
const LANDMARKS: u32 = 49;
const HEAD_DIM: u32 = 32;

/// One number of tokens.
#[derive(Clone, Copy, Debug)]
pub struct Point {
    /// Tokens, queries and keys alike.
    pub tokens: u32,
    /// Seconds of the steps whose work grows with the tokens.
    pub seconds: f64,
    /// Their processor seconds, where the device computes on the CPU.
    pub cpu_seconds: Option<f64>,
    /// Seconds of the other steps (the landmarks' inverse), where there are any.
    pub other_seconds: Option<f64>,
    /// Whole profiled run by the host's clock.
    pub wall_seconds: f64,
    /// Profiled runs behind the medians.
    pub samples: usize,
    /// What the program holds.
    pub memory: Memory,
    /// Transients if heads were not worked in slices; `None` where there are no slices.
    pub unsliced: Option<u64>,
}

/// Points with their slopes.
#[derive(Clone, Debug, Default)]
pub struct Scaling {
    /// In the order asked for.
    pub points: Vec<Point>,
}

impl Scaling {
    fn slope(&self, of: impl Fn(&Point) -> f64) -> Option<f64> {
        log_log_slope(&self.points.iter().map(|p| (f64::from(p.tokens), of(p))).collect::<Vec<_>>())
    }

    /// Exponent of the time of the growing steps: processor seconds where the device computes on the CPU.
    pub fn time_slope(&self) -> Option<f64> {
        self.slope(|p| p.cpu_seconds.unwrap_or(p.seconds))
    }

    /// Exponent of the same by the clock.
    pub fn clock_slope(&self) -> Option<f64> {
        self.slope(|p| p.seconds)
    }

    /// Exponent of everything the program holds. Slices of heads keep transients under a budget, and copies have a fixed
    /// size, which both bend it below 1.
    pub fn memory_slope(&self) -> Option<f64> {
        self.slope(|p| (p.memory.external + p.memory.beyond_inputs_and_outputs()) as f64)
    }

    /// Exponent of inputs, outputs and transients if heads were not worked in slices. Copies in uniform buffers and textures
    /// have a fixed size, so they are left out here.
    pub fn unsliced_slope(&self) -> Option<f64> {
        self.slope(|p| (p.memory.external + p.unsliced.unwrap_or(p.memory.transient)) as f64)
    }
}

impl Point {
    /// Compiles, warms up and profiles one number of tokens: once more while that fits `seconds`, five times at most.
    ///
    /// Errors: as compiling and running; [`Error::Value`] for fewer tokens than landmarks.
    pub fn measure(backend: &dyn Backend, tokens: u32, seconds: f64) -> Result<Self> {
        if tokens <= LANDMARKS {
            let expected = format!("more tokens than the {LANDMARKS} landmarks");
            return Err(Error::value("tokens", expected, tokens, "ask for 4096 or more"));
        }
        let spec: &'static KernelSpec = &nystrom_attention::SPEC;
        let missing = || Error::value("benchmark", "a case of nystrom_attention", "none", "add one");
        let case = spec.cases.iter().find(|c| c.bench).ok_or_else(missing)?;
        let dims = Dims::of(&[
            ("b", 1),
            ("h", HEADS),
            ("n", tokens),
            ("t", tokens),
            ("m", LANDMARKS),
            ("d", HEAD_DIM),
            ("e", HEAD_DIM),
        ]);
        let concrete = Concrete::with_dims(spec, case, dims)?;
        let (graph, _, tensors) = concrete.graph()?;
        let unsliced = match backend.device_caps() {
            None => None,
            Some(caps) => {
                let caps = Caps { memory_budget: u64::MAX, ..*caps };
                Some(graph.schedule(Lowering::Device(&caps))?.transient_bytes())
            }
        };
        let mut program = backend.compile(&graph)?;
        for (tensor, input) in tensors.iter().zip(&concrete.inputs) {
            if let (Some(tensor), Some(input)) = (tensor, input) {
                program.write(*tensor, input)?;
            }
        }
        drop(concrete);
        program.run()?;
        program.set_profiling(true);
        let total = Stopwatch::start();
        let mut runs = Vec::new();
        loop {
            runs.push(program.run()?);
            let spent = total.seconds().0;
            if runs.len() >= 5 || spent + spent / runs.len() as f64 > seconds {
                break;
            }
        }
        let steps = &program.schedule().steps;
        // Small matrices have rows too, so it is the size of a dimension that tells, not its name.
        let grows: Vec<bool> = steps.iter().map(|s| s.dims.iter().any(|(_, size)| size == tokens)).collect();
        let sums = |of: &dyn Fn(&crate::backend::StepTime) -> f64, growing: bool| {
            let run = |t: &crate::backend::Timings| -> f64 {
                t.steps.iter().zip(&grows).filter(|(_, g)| **g == growing).map(|(s, _)| of(s)).sum()
            };
            Summary::of(&runs.iter().map(run).collect::<Vec<_>>()).map_or(0.0, |s| s.median)
        };
        let on_cpu = runs.iter().flat_map(|r| &r.steps).all(|s| s.cpu_seconds.is_some());
        let walls: Vec<f64> = runs.iter().map(|r| r.wall_seconds).collect();
        Ok(Self {
            tokens,
            seconds: sums(&|s| s.seconds, true),
            cpu_seconds: on_cpu.then(|| sums(&|s| s.cpu_seconds.unwrap_or(0.0), true)),
            other_seconds: grows.contains(&false).then(|| sums(&|s| s.seconds, false)),
            wall_seconds: Summary::of(&walls).map_or(0.0, |s| s.median),
            samples: runs.len(),
            memory: program.memory(),
            unsliced,
        })
    }
}
