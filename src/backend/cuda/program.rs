//! A compiled graph on a CUDA device, whichever that is: inputs given, parameters changed, steps run in order, outputs read.
//!
//! What the card and the host do differently, memory and the running itself, is a [`Machine`]; all else stands here once.

use super::record::record;
use super::{Action, CAPS};
use crate::backend::recording::Recording;
use crate::backend::{
    Burst, Memory as Held, Program, Realisation, StepForm, StepTime, Stopwatch, TimingSource, Timings,
    check_write, known,
};
use crate::error::{Error, Result};
use crate::graph::{Graph, Kind, Lowering, PassId, Schedule, TensorInfo, device_bytes};
use crate::tensor::{HostTensor, Tensor};
use std::fmt::Debug;

/// A piece of a machine's memory.
pub(super) trait Block: Debug + Send {
    /// Makes its first bytes zeros.
    ///
    /// Errors: as the device says.
    fn clear(&mut self, bytes: u64) -> Result<()>;

    /// Copies from the host, from byte `at` on. The bytes lie inside the block.
    ///
    /// Errors: as the device says.
    fn write(&mut self, at: u64, bytes: &[u8]) -> Result<()>;

    /// Copies to the host, from byte `at` on. The bytes lie inside the block.
    ///
    /// Errors: as the device says.
    fn read(&self, at: u64, bytes: &mut [u8]) -> Result<()>;
}

/// Memory of all tensors: a block for every slot that transients share, and one for every other tensor that is no view.
#[derive(Debug)]
pub(super) struct Memory<B> {
    pub(super) blocks: Vec<B>,
    /// The block of each tensor that owns memory; `None` for one that no step touches.
    pub(super) place: Vec<Option<usize>>,
    /// Blocks that transients share: the first ones.
    pub(super) slots: usize,
}

impl<B: Block> Memory<B> {
    /// For a schedule, with its constants in place. `new` makes a block of some bytes, and is told for what.
    ///
    /// Errors: those of `new`, and as the device says.
    pub(super) fn of(schedule: &Schedule, mut new: impl FnMut(&str, u64) -> Result<B>) -> Result<Self> {
        let slots = schedule.slots.len();
        let shared = schedule.slots.iter().map(|slot| new("transients", slot.bytes));
        let mut blocks = shared.collect::<Result<Vec<_>>>()?;
        let mut place = schedule.slot_of.clone();
        for (id, info) in schedule.tensors.iter().enumerate() {
            if info.base.is_none() && info.kind != Kind::Transient {
                let mut block = new(&info.name, device_bytes(info))?;
                // Outputs begin as zeros on every backend.
                block.clear(device_bytes(info))?;
                if let Some(constant) = &info.constant {
                    block.write(0, &constant.device_bytes())?;
                }
                place[id] = Some(blocks.len());
                blocks.push(block);
            }
        }
        Ok(Self { blocks, place, slots })
    }
}

/// What a program runs: its steps, how each is done, and the memory of their tensors.
#[derive(Debug)]
pub(super) struct Work<B> {
    pub(super) schedule: Schedule,
    /// One for each step.
    pub(super) actions: Vec<Action>,
    pub(super) memory: Memory<B>,
}

impl<B: Block> Work<B> {
    /// The block that a tensor lies in, and the byte at which it begins; `None` for one that no step touches.
    pub(super) fn part(&self, tensor: Tensor) -> Option<(usize, u64)> {
        let (base, from) = self.schedule.base(tensor);
        Some((self.memory.place[base as usize]?, from * tensor.dtype().bytes()))
    }

    /// Gives a tensor its numbers.
    pub(super) fn put(&mut self, tensor: Tensor, data: &HostTensor) -> Result<()> {
        let Some((block, at)) = self.part(tensor) else { return Ok(()) };
        let bytes = (data.shape().len() * data.dtype().bytes()) as usize;
        self.memory.blocks[block].write(at, &data.device_bytes()[..bytes])
    }

    /// A tensor's numbers; zeros for one that no step touches.
    pub(super) fn numbers(&self, tensor: Tensor) -> Result<HostTensor> {
        let mut bytes = vec![0; (tensor.shape().len() * tensor.dtype().bytes()) as usize];
        if let Some((block, at)) = self.part(tensor) {
            self.memory.blocks[block].read(at, &mut bytes)?;
        }
        bytes.resize(bytes.len().next_multiple_of(4), 0);
        HostTensor::from_device_bytes(tensor.shape(), tensor.dtype(), &bytes)
    }
}

/// Time of a step: seconds, and seconds of processor time where the device computes on the CPU.
pub(super) type Seconds = (f64, Option<f64>);

/// What runs the steps of a program.
pub(super) trait Machine: Debug + Send {
    /// Its memory.
    type Block: Block;
    /// Where its times come from.
    const TIMES: TimingSource;

    /// Runs all steps and waits.
    ///
    /// Errors: as the device says, with the kernel's name; a lost device.
    fn run(&mut self, work: &mut Work<Self::Block>) -> Result<()>;

    /// The same, step by step, with the time of each.
    ///
    /// Errors: as [`Machine::run`].
    fn run_timed(&mut self, work: &mut Work<Self::Block>) -> Result<Vec<Seconds>>;

    /// Runs all steps `repeats` times, waits once, and tells how many seconds they took by the device's own clock, if it has one.
    ///
    /// Errors: as [`Machine::run`].
    fn run_often(&mut self, work: &mut Work<Self::Block>, repeats: u32) -> Result<Option<f64>> {
        (0..repeats).try_for_each(|_| self.run(work)).map(|()| None)
    }

    /// Bytes of its memory that it holds beside tensors, for what libraries work in.
    fn held_bytes(&self) -> u64 {
        0
    }

    /// As [`Program::rounds_products`].
    fn rounds_products(&self) -> bool {
        false
    }

    /// Hears that parameters of steps have changed: what was prepared with the old ones goes.
    fn params_changed(&mut self) {}
}

/// A compiled graph.
#[derive(Debug)]
pub(super) struct CudaProgram<M: Machine> {
    // Before the memory, so that what refers to it goes first.
    machine: M,
    work: Work<M::Block>,
    graph: Graph,
    /// The tensors that have been written.
    given: Vec<bool>,
    profiling: bool,
}

impl<M: Machine> CudaProgram<M> {
    pub(super) fn new(machine: M, work: Work<M::Block>, graph: Graph) -> Self {
        let given = vec![false; work.schedule.tensors.len()];
        Self { machine, work, graph, given, profiling: false }
    }

    fn check_given(&self) -> Result<()> {
        let is_missing = |(info, given): &(&TensorInfo, &bool)| {
            info.kind == Kind::Input && info.base.is_none() && !**given
        };
        match self.work.schedule.tensors.iter().zip(&self.given).find(is_missing) {
            None => Ok(()),
            Some((info, _)) => Err(Error::Data {
                tensor: info.name.clone(),
                expected: "numbers: call `write` first".into(),
                got: "none".into(),
            }),
        }
    }

    fn step_times(&self, seconds: Vec<Seconds>) -> Vec<StepTime> {
        let steps = self.work.schedule.steps.iter().zip(&self.work.actions).zip(seconds);
        let time =
            |((step, action), (seconds, cpu_seconds)): ((&crate::graph::Step, &Action), Seconds)| StepTime {
                kernel: step.kernel.name,
                variant: action.name(),
                seconds,
                cpu_seconds,
                by_host: false,
                by_token: step.dims.find("n").is_some(),
            };
        steps.map(time).collect()
    }
}

impl<M: Machine> Program for CudaProgram<M> {
    fn write(&mut self, tensor: Tensor, data: &HostTensor) -> Result<()> {
        check_write(&self.work.schedule, tensor, data)?;
        self.work.put(tensor, data)?;
        self.given[tensor.id as usize] = true;
        Ok(())
    }

    fn set_param_bytes(&mut self, pass: PassId, params: &[u8]) -> Result<()> {
        let schedule = &mut self.work.schedule;
        let new = schedule.relower(&self.graph, pass, params, Lowering::Cuda(&CAPS))?;
        for step in schedule.steps.iter_mut().filter(|s| s.pass == pass) {
            step.params.clone_from(&new[step.ordinal]);
        }
        self.machine.params_changed();
        Ok(())
    }

    fn run(&mut self) -> Result<Timings> {
        self.check_given()?;
        let total = Stopwatch::start();
        let steps = if self.profiling {
            let seconds = self.machine.run_timed(&mut self.work)?;
            self.step_times(seconds)
        } else {
            self.machine.run(&mut self.work)?;
            Vec::new()
        };
        let (wall_seconds, cpu_seconds) = total.seconds();
        Ok(Timings { source: M::TIMES, steps, wall_seconds, cpu_seconds })
    }

    fn run_burst(&mut self, repeats: u32) -> Result<Burst> {
        self.check_given()?;
        let watch = Stopwatch::start();
        let device_seconds = self.machine.run_often(&mut self.work, repeats)?;
        let ((wall, cpu), share) = (watch.seconds(), f64::from(repeats.max(1)));
        Ok(Burst {
            device_seconds: device_seconds.map(|seconds| seconds / share),
            wall_seconds: wall / share,
            cpu_seconds: cpu / share,
        })
    }

    fn read(&mut self, tensor: Tensor) -> Result<HostTensor> {
        let schedule = &self.work.schedule;
        let info = known(schedule, tensor)?;
        if schedule.tensors[schedule.base(tensor).0 as usize].kind == Kind::Transient {
            let reason = "is a transient; declare it with `Graph::output` to read it".into();
            return Err(Error::Tensor { tensor: info.name.clone(), reason });
        }
        self.work.numbers(tensor)
    }

    fn recording(&self, inputs: &[(Tensor, &HostTensor)]) -> Result<Option<Recording>> {
        Ok(Some(record(&self.work.schedule, &self.work.actions, inputs)))
    }

    fn set_profiling(&mut self, on: bool) {
        self.profiling = on;
    }

    fn schedule(&self) -> &Schedule {
        &self.work.schedule
    }

    fn step_forms(&self) -> Vec<StepForm> {
        let form = |action: &Action| StepForm {
            realisation: Realisation::Cuda,
            variant: action.name(),
            dispatches: 1,
            copied_bytes: 0,
            largest_copy_bytes: 0,
        };
        self.work.actions.iter().map(form).collect()
    }

    fn rounds_products(&self) -> bool {
        self.machine.rounds_products()
    }

    fn memory(&self) -> Held {
        Held {
            transient: self.work.schedule.transient_bytes(),
            transient_unshared: self.work.schedule.transient_bytes_unshared(),
            external: self.work.schedule.external_bytes(),
            staging: self.machine.held_bytes(),
        }
    }
}
