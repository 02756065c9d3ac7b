//! Where graphs run: one object-safe [`Backend`] with a [`Program`] per compiled graph.
//!
//! A backend that this build lacks is a value that answers with [`Error::NotBuilt`], so that callers carry no `cfg`.

#[cfg(any(feature = "wgpu", feature = "cuda"))]
pub(crate) mod cache;
pub mod cpu;
#[cfg(feature = "cuda")]
pub mod cuda;
#[cfg(not(feature = "cuda"))]
#[path = "cuda_absent.rs"]
pub mod cuda;
pub mod device;
pub mod recording;
mod tuning;
#[cfg(feature = "wgpu")]
pub mod wgpu;
#[cfg(not(feature = "wgpu"))]
#[path = "wgpu_absent.rs"]
pub mod wgpu;

use crate::error::{Error, Result};
use crate::graph::{Graph, PassId, Schedule};
use crate::kernel::{Caps, KernelParams};
use crate::tensor::{HostTensor, Tensor};
use recording::{Recording, Written};
use std::fmt::Debug;
pub use tuning::{Listener, Logged, Tuning};

/// What a device is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeviceInfo {
    /// Name for people.
    pub name: String,
    /// `cpu`, or wgpu's backend: `vulkan`, `metal`, `dx12`, `gl`.
    pub backend: String,
    /// `discrete`, `integrated`, `virtual`, `software` or `reference`.
    pub kind: DeviceKind,
    /// Driver with its version; empty for the CPU reference.
    pub driver: String,
}

impl DeviceInfo {
    /// In one line: name, backend, kind and driver, without what is empty.
    pub fn told(&self) -> String {
        let parts = [self.name.clone(), self.backend.clone(), self.kind.to_string(), self.driver.clone()];
        parts.into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join(" · ")
    }
}

/// Kinds of device in the order in which automatic choice prefers them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum DeviceKind {
    /// A GPU with its own memory.
    Discrete,
    /// A GPU that shares the system's memory.
    Integrated,
    /// A GPU seen through a virtual machine.
    Virtual,
    /// A driver that computes on the CPU.
    Software,
    /// The f64 reference.
    Reference,
}

impl std::fmt::Display for DeviceKind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Discrete => "discrete",
            Self::Integrated => "integrated",
            Self::Virtual => "virtual",
            Self::Software => "software",
            Self::Reference => "reference",
        })
    }
}

/// Where times come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TimingSource {
    /// Timestamps of the device.
    Timestamp,
    /// The host's clock around each pass, submission included.
    Wall,
}

impl std::fmt::Display for TimingSource {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Timestamp => "device timestamps",
            Self::Wall => "wall clock, submission included",
        })
    }
}

/// Time of one step.
#[derive(Clone, Debug)]
pub struct StepTime {
    /// Kernel name.
    pub kernel: &'static str,
    /// Variant that ran; `reference` on the CPU backend.
    pub variant: &'static str,
    /// Seconds.
    pub seconds: f64,
    /// Seconds of processor time of the whole process, where the device computes on the CPU; a submission is included.
    pub cpu_seconds: Option<f64>,
    /// Whether `seconds` are the host's and include a submission: the device could not time this step by itself.
    pub by_host: bool,
    /// Whether the step's work grows with the number of tokens (its kernel has dimension `n`).
    pub by_token: bool,
}

/// Times of one run.
#[derive(Clone, Debug)]
pub struct Timings {
    /// Where the step times come from.
    pub source: TimingSource,
    /// Steps in order; empty unless profiling is on.
    pub steps: Vec<StepTime>,
    /// Host seconds from encoding to completion.
    pub wall_seconds: f64,
    /// Seconds of processor time of the whole process, all threads: the figure to judge a software device by.
    pub cpu_seconds: f64,
}

/// What several runs in one submission took, each.
#[derive(Clone, Copy, Debug)]
pub struct Burst {
    /// Seconds of one run by the device's timestamps, copies between its steps included; `None` where there are none to
    /// be believed.
    pub device_seconds: Option<f64>,
    /// Seconds of one run by the host's clock, its share of encoding and submission included.
    pub wall_seconds: f64,
    /// Seconds of processor time of the whole process for one run, its share of encoding and submission included.
    pub cpu_seconds: f64,
}

/// What a run in several submissions took.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Parts {
    /// Host seconds from encoding to completion.
    pub wall_seconds: f64,
    /// Seconds of processor time of the whole process.
    pub cpu_seconds: f64,
    /// How many submissions there were.
    pub submissions: usize,
    /// Seconds of the longest one; 0 where there is no such thing.
    pub longest_seconds: f64,
    /// Seconds of the longest one that held a single dispatch.
    pub longest_dispatch_seconds: f64,
}

impl Parts {
    /// Counts one submission of some dispatches.
    #[cfg(feature = "wgpu")]
    pub(crate) fn add(&mut self, seconds: f64, dispatches: usize) {
        self.submissions += 1;
        self.longest_seconds = self.longest_seconds.max(seconds);
        if dispatches == 1 {
            self.longest_dispatch_seconds = self.longest_dispatch_seconds.max(seconds);
        }
    }
}

/// Bytes that a program holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Memory {
    /// Transients, whole buffers shared.
    pub transient: u64,
    /// The same transients with a buffer each.
    pub transient_unshared: u64,
    /// Inputs, constants and outputs.
    pub external: u64,
    /// Copies in uniform buffers and textures, parameters and staging, and what libraries work in.
    pub staging: u64,
}

impl Memory {
    /// Everything beyond inputs, constants and outputs.
    pub fn beyond_inputs_and_outputs(&self) -> u64 {
        self.transient + self.staging
    }
}

/// A device that runs graphs.
pub trait Backend: Debug + Send + Sync {
    /// What it is.
    fn info(&self) -> DeviceInfo;

    /// Makes everything a graph needs on this device.
    ///
    /// Errors: a graph that does not schedule, a slice that does not fit, a shader the driver refuses, a lost device.
    fn compile(&self, graph: &Graph) -> Result<Box<dyn Program>>;

    /// What it knows of itself beyond its name: nothing where its adapter tells that ([`Opened::facts`](device::Opened::facts)).
    fn facts(&self) -> device::Facts {
        device::Facts::default()
    }

    /// What it offers to kernels; `None` where kernels have no variants.
    fn device_caps(&self) -> Option<&Caps> {
        None
    }

    /// The same device with dispatches of at most so many operations (an exponential counted as eight); larger ones are cut into
    /// parts. `None` where nothing is dispatched.
    fn cut_to(&self, _operations: f64) -> Option<Box<dyn Backend>> {
        None
    }

    /// Searches now for the variants that [`Backend::compile`] would search for, where the device is tuned.
    ///
    /// Errors: a graph that does not schedule, a lost device.
    fn tune(&self, _graph: &Graph) -> Result<()> {
        Ok(())
    }

    /// The same device without tuning: kernels take the variants that its driver's class prefers. `None` where it is not tuned.
    fn untuned(&self) -> Option<Box<dyn Backend>> {
        None
    }

    /// The same device with some kernels held to given variants: `matmul/plain,kernel_matrix/tile64`.
    ///
    /// Errors: [`Error::Unsupported`] where kernels have no variants.
    fn held_to(&self, variants: &str) -> Result<Box<dyn Backend>> {
        Err(Error::Unsupported {
            device: self.info().name,
            missing: format!("has no variants such as {variants}; choose a GPU or a software adapter"),
        })
    }
}

/// Whose variants a device runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Realisation {
    /// The f64 reference, which has none.
    Reference,
    /// WGSL.
    Wgsl,
    /// CUDA C++, and NVIDIA's libraries.
    Cuda,
}

/// How a step of a schedule runs on a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StepForm {
    /// What `variant` is one of.
    pub realisation: Realisation,
    /// The kernel's variant; `reference` where kernels have none.
    pub variant: &'static str,
    /// Dispatches: several where the step was cut into windows of heads or rows.
    pub dispatches: usize,
    /// Bytes that are copied into textures or uniform buffers before them, where the variant reads such.
    pub copied_bytes: u64,
    /// Bytes of the largest of these copies.
    pub largest_copy_bytes: u64,
}

/// A compiled graph.
pub trait Program: Debug + Send {
    /// Gives an input its numbers, from the next run on.
    ///
    /// Errors: [`Error::Data`] for another shape or element type, [`Error::Tensor`] for what is no input.
    fn write(&mut self, tensor: Tensor, data: &HostTensor) -> Result<()>;

    /// Changes the parameters of a recorded pass, from the next run on.
    ///
    /// Errors: [`Error::Recompile`] where a compile-time parameter or the list of steps would change.
    fn set_param_bytes(&mut self, pass: PassId, params: &[u8]) -> Result<()>;

    /// Runs all steps and waits.
    ///
    /// Errors: an input that was never given, a lost device.
    fn run(&mut self) -> Result<Timings>;

    /// Runs all steps in parts and waits; between parts `watch` is told how many steps of how many are done and says
    /// whether to go on. `None` where it said no: outputs are then half old and half new.
    ///
    /// Errors: as [`Program::run`].
    fn run_watched(&mut self, watch: &mut dyn FnMut(usize, usize) -> bool) -> Result<Option<Timings>> {
        let steps = self.schedule().steps.len();
        if watch(0, steps) { self.run().map(Some) } else { Ok(None) }
    }

    /// Runs all steps in submissions that are estimated to take at most `most` each, and waits: what one dispatch takes by itself
    /// is the least. Where nothing is submitted, as [`Program::run`].
    ///
    /// Errors: as [`Program::run`].
    fn run_in_parts(&mut self, _most: std::time::Duration) -> Result<Parts> {
        let Timings { wall_seconds, cpu_seconds, .. } = self.run()?;
        Ok(Parts { wall_seconds, cpu_seconds, ..Parts::default() })
    }

    /// Seconds that encoding all steps once takes the host, with nothing submitted; `None` where nothing is encoded. After a run:
    /// inputs written since then would be lost.
    ///
    /// Errors: as [`Program::run`].
    fn encode_seconds(&mut self) -> Result<Option<f64>> {
        Ok(None)
    }

    /// Runs all steps `repeats` times, in one submission where there is such a thing, and waits.
    ///
    /// Errors: as [`Program::run`].
    fn run_burst(&mut self, repeats: u32) -> Result<Burst> {
        let watch = Stopwatch::start();
        (0..repeats).try_for_each(|_| self.run().map(drop))?;
        let ((wall, cpu), share) = (watch.seconds(), f64::from(repeats.max(1)));
        Ok(Burst { device_seconds: None, wall_seconds: wall / share, cpu_seconds: cpu / share })
    }

    /// The numbers of an output after the last run (f64 from the CPU backend).
    ///
    /// Errors: [`Error::Tensor`] for what is no output.
    fn read(&mut self, tensor: Tensor) -> Result<HostTensor>;

    /// One run with these inputs as plain data, for other programs that run WebGPU or CUDA; `None` where nothing is dispatched.
    ///
    /// Errors: [`Error::Tensor`] for what is no tensor of the graph, a lost device.
    fn recording(&self, _inputs: &[(Tensor, &HostTensor)]) -> Result<Option<Recording>> {
        Ok(None)
    }

    /// Runs once more, dispatch by dispatch, and tells what each left in the buffers it writes: to find in a long run the first
    /// dispatch that goes wrong. One list for each dispatch of [`Program::recording`]; empty where nothing is dispatched.
    ///
    /// Errors: as [`Program::run`].
    fn trace(&self) -> Result<Vec<Vec<Written>>> {
        Ok(Vec::new())
    }

    /// Whether to time every step by itself, which slows the run as a whole.
    fn set_profiling(&mut self, on: bool);

    /// What runs.
    fn schedule(&self) -> &Schedule;

    /// How every step runs, in order.
    fn step_forms(&self) -> Vec<StepForm> {
        vec![
            StepForm {
                realisation: Realisation::Reference,
                variant: "reference",
                dispatches: 0,
                copied_bytes: 0,
                largest_copy_bytes: 0
            };
            self.schedule().steps.len()
        ]
    }

    /// Dispatches of one run: a step is several where it was cut into windows of heads or rows.
    fn dispatches(&self) -> usize {
        self.schedule().steps.len()
    }

    /// How many steps run in another variant than the device takes by itself, because a search found it quicker.
    fn tuned_steps(&self) -> usize {
        0
    }

    /// How many steps run in the device's default because a search ended at its limit before they had their turn.
    fn untried_steps(&self) -> usize {
        0
    }

    /// Whether products are rounded to less than f32 because somebody asked for that by name: errors above a kernel's tolerance are then
    /// what was asked for.
    fn rounds_products(&self) -> bool {
        false
    }

    /// What it holds.
    fn memory(&self) -> Memory;
}

impl dyn Program + '_ {
    /// [`Program::set_param_bytes`] with a parameter struct.
    ///
    /// Errors: as there.
    pub fn set_params<P: KernelParams>(&mut self, pass: PassId, params: &P) -> Result<()> {
        self.set_param_bytes(pass, &params.to_bytes())
    }
}

/// The name of an input tensor after checking that data fits it.
pub(crate) fn check_write(schedule: &Schedule, tensor: Tensor, data: &HostTensor) -> Result<String> {
    let info = known(schedule, tensor)?;
    if info.kind != crate::graph::Kind::Input || info.base.is_some() {
        return Err(Error::Tensor {
            tensor: info.name.clone(),
            reason: "is not an input of the graph; write only inputs".into(),
        });
    }
    if data.shape() != tensor.shape() || data.dtype() != tensor.dtype() {
        return Err(Error::Data {
            tensor: info.name.clone(),
            expected: format!("{} {}", tensor.dtype(), tensor.shape()),
            got: format!("{} {}", data.dtype(), data.shape()),
        });
    }
    let name = info.name.clone();
    let must_be_positive = schedule.steps.iter().any(|step| {
        let ports = step.kernel.ports.iter().zip(&step.args);
        ports.filter(|(p, _)| p.positive).any(|(_, a)| a.is_some_and(|t| schedule.base(t).0 == tensor.id))
    });
    if must_be_positive {
        let values = data.to_f32();
        if let Some(index) = values.iter().position(|x| !(x.is_finite() && *x > 0.0)) {
            return Err(Error::value(
                format!("element {index} of `{name}`"),
                "a finite number > 0",
                values[index],
                "bandwidths are in the units of the distance; a larger one widens the kernel",
            ));
        }
    }
    Ok(name)
}

/// What the schedule knows about a tensor of its graph.
pub(crate) fn known(schedule: &Schedule, tensor: Tensor) -> Result<&crate::graph::TensorInfo> {
    schedule.tensors.get(tensor.id as usize).filter(|_| tensor.graph == schedule.graph).ok_or_else(|| {
        Error::Tensor {
            tensor: format!("#{}", tensor.id),
            reason: format!("the handle is not of the graph \"{}\"", schedule.label),
        }
    })
}

/// A stopwatch for wall and processor time together.
pub(crate) struct Stopwatch {
    wall: std::time::Instant,
    cpu: cpu_time::ProcessTime,
}

impl Stopwatch {
    pub(crate) fn start() -> Self {
        Self { wall: std::time::Instant::now(), cpu: cpu_time::ProcessTime::now() }
    }

    /// Seconds of wall and processor time since the start.
    pub(crate) fn seconds(&self) -> (f64, f64) {
        (self.wall.elapsed().as_secs_f64(), self.cpu.elapsed().as_secs_f64())
    }
}
