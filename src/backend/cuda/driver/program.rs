#![allow(unsafe_code, reason = "launches take raw pointers")]
//! A graph on a card: one stream, memory from the schedule, and from the second run on one replayed capture of all launches.

use super::CudaBackend;
use super::device::{Block, Event, Function, Replay};
use super::library::Prepared;
use crate::backend::cuda::{Action, CAPS, param_bytes, record};
use crate::backend::recording::Recording;
use crate::backend::{
    Burst, Memory, Program, StepForm, StepTime, Stopwatch, TimingSource, Timings, check_write, known,
};
use crate::error::{Error, Result};
use crate::graph::{Graph, Kind, Lowering, PassId, Schedule, device_bytes};
use crate::tensor::{HostTensor, Tensor};
use cudarc::driver::sys::CUdeviceptr;
use std::sync::Arc;

/// A step, ready to run.
#[derive(Debug)]
pub(super) struct Ready {
    pub(super) action: Action,
    /// The launch's, also that after a library.
    pub(super) function: Arc<Function>,
    pub(super) library: Prepared,
}

/// A compiled graph on a card.
#[derive(Debug)]
pub(super) struct CudaProgram {
    // Before what it refers to, so that it goes first.
    replay: Option<Replay>,
    backend: CudaBackend,
    graph: Graph,
    schedule: Schedule,
    steps: Vec<Ready>,
    blocks: Vec<Block>,
    /// The block of each tensor that owns memory.
    place: Vec<Option<usize>>,
    given: Vec<bool>,
    runs: u64,
    profiling: bool,
}

impl CudaProgram {
    pub(super) fn new(
        backend: CudaBackend,
        graph: Graph,
        schedule: Schedule,
        steps: Vec<Ready>,
    ) -> Result<Self> {
        let device = &backend.device;
        let mut blocks = Vec::new();
        for slot in &schedule.slots {
            blocks.push(Block::new(device, "transients", slot.bytes.max(4))?);
        }
        let mut place = schedule.slot_of.clone();
        for (id, info) in schedule.tensors.iter().enumerate() {
            if info.base.is_none() && info.kind != Kind::Transient {
                let block = Block::new(device, &info.name, device_bytes(info))?;
                // Outputs begin as zeros on every backend.
                block.clear(device_bytes(info))?;
                if let Some(constant) = &info.constant {
                    block.write(0, &constant.device_bytes())?;
                }
                place[id] = Some(blocks.len());
                blocks.push(block);
            }
        }
        let given = vec![false; schedule.tensors.len()];
        Ok(Self {
            replay: None,
            backend,
            graph,
            schedule,
            steps,
            blocks,
            place,
            given,
            runs: 0,
            profiling: false,
        })
    }

    /// The memory that a tensor lies in, and the byte at which it begins.
    fn part(&self, tensor: Tensor) -> Option<(&Block, u64)> {
        let (base, from) = self.schedule.base(tensor);
        Some((&self.blocks[self.place[base as usize]?], from * tensor.dtype().bytes()))
    }

    fn pointer(&self, tensor: Option<Tensor>) -> CUdeviceptr {
        tensor.and_then(|t| self.part(t)).map_or(0, |(block, at)| block.at + at)
    }

    fn check_given(&self) -> Result<()> {
        let missing = |(info, given): &(&crate::graph::TensorInfo, &bool)| {
            info.kind == Kind::Input && info.base.is_none() && !**given
        };
        match self.schedule.tensors.iter().zip(&self.given).find(missing) {
            None => Ok(()),
            Some((info, _)) => Err(Error::Data {
                tensor: info.name.clone(),
                expected: "numbers: call `write` first".into(),
                got: "none".into(),
            }),
        }
    }

    /// Puts a step on the stream.
    fn launch(&self, index: usize) -> Result<()> {
        let (step, ready) = (&self.schedule.steps[index], &self.steps[index]);
        let mut pointers: Vec<CUdeviceptr> = step.args.iter().map(|arg| self.pointer(*arg)).collect();
        match &ready.library {
            Prepared::Nothing => {}
            // SAFETY: the pointers are those of the step's tensors, whose memory lives as long as the program.
            Prepared::Product => unsafe {
                self.backend.blas()?.product(step, pointers[0], pointers[1], pointers[4])?;
            },
            // SAFETY: as above.
            Prepared::Transform(transform) => unsafe { transform.run(pointers[0], pointers[1])? },
        }
        if !ready.action.launches(step) {
            return Ok(());
        }
        let launch = ready.action.launch();
        let mut words: Vec<u32> =
            param_bytes(step).chunks_exact(4).map(bytemuck::pod_read_unaligned).collect();
        // A struct without members has a byte all the same.
        words.push(0);
        let context = format!("{}/{}", step.kernel.name, launch.source.name);
        // SAFETY: as above, in port order.
        unsafe {
            ready.function.launch(&context, launch.blocks, launch.source.threads, &mut words, &mut pointers)
        }
    }

    fn launch_all(&self) -> Result<()> {
        (0..self.steps.len()).try_for_each(|index| self.launch(index))
    }

    /// Puts one run on the stream: step by step the first time, which loads what the libraries need, and as a replay after that.
    fn start(&mut self) -> Result<()> {
        match (&self.replay, self.runs) {
            (Some(replay), _) => replay.play()?,
            (None, 0) => self.launch_all()?,
            (None, _) => {
                let replay = Replay::capture(&self.backend.device, || self.launch_all())?;
                replay.play()?;
                self.replay = Some(replay);
            }
        }
        self.runs += 1;
        Ok(())
    }
}

impl Program for CudaProgram {
    fn write(&mut self, tensor: Tensor, data: &HostTensor) -> Result<()> {
        check_write(&self.schedule, tensor, data)?;
        if let Some((block, at)) = self.part(tensor) {
            let bytes = (data.shape().len() * data.dtype().bytes()) as usize;
            block.write(at, &data.device_bytes()[..bytes])?;
        }
        self.given[tensor.id as usize] = true;
        Ok(())
    }

    fn set_param_bytes(&mut self, pass: PassId, params: &[u8]) -> Result<()> {
        let new = self.schedule.relower(&self.graph, pass, params, Lowering::Cuda(&CAPS))?;
        for step in self.schedule.steps.iter_mut().filter(|s| s.pass == pass) {
            step.params.clone_from(&new[step.ordinal]);
        }
        // A capture holds the old ones.
        self.replay = None;
        Ok(())
    }

    fn run(&mut self) -> Result<Timings> {
        self.check_given()?;
        self.backend.device.enter()?;
        let total = Stopwatch::start();
        let mut steps = Vec::new();
        if self.profiling {
            let mut moments = vec![Event::record(&self.backend.device)?];
            for index in 0..self.steps.len() {
                self.launch(index)?;
                moments.push(Event::record(&self.backend.device)?);
            }
            self.backend.device.wait("run")?;
            for (index, pair) in moments.windows(2).enumerate() {
                let step = &self.schedule.steps[index];
                steps.push(StepTime {
                    kernel: step.kernel.name,
                    variant: self.steps[index].action.name(),
                    seconds: pair[0].seconds_to(&pair[1])?,
                    cpu_seconds: None,
                    by_host: false,
                    by_token: step.dims.find("n").is_some(),
                });
            }
        } else {
            self.start()?;
            self.backend.device.wait("run")?;
        }
        let (wall_seconds, cpu_seconds) = total.seconds();
        Ok(Timings { source: TimingSource::Timestamp, steps, wall_seconds, cpu_seconds })
    }

    fn run_burst(&mut self, repeats: u32) -> Result<Burst> {
        self.check_given()?;
        self.backend.device.enter()?;
        let watch = Stopwatch::start();
        let begin = Event::record(&self.backend.device)?;
        (0..repeats).try_for_each(|_| self.start())?;
        let end = Event::record(&self.backend.device)?;
        self.backend.device.wait("run")?;
        let ((wall, cpu), share) = (watch.seconds(), f64::from(repeats.max(1)));
        Ok(Burst {
            device_seconds: Some(begin.seconds_to(&end)? / share),
            wall_seconds: wall / share,
            cpu_seconds: cpu / share,
        })
    }

    fn read(&mut self, tensor: Tensor) -> Result<HostTensor> {
        let info = known(&self.schedule, tensor)?;
        let base = self.schedule.base(tensor).0;
        if self.schedule.tensors[base as usize].kind == Kind::Transient {
            let reason = "is a transient; declare it with `Graph::output` to read it".into();
            return Err(Error::Tensor { tensor: info.name.clone(), reason });
        }
        let bytes = (tensor.shape().len() * tensor.dtype().bytes()) as usize;
        let mut data = vec![0_u8; bytes];
        if let Some((block, at)) = self.part(tensor) {
            block.read(at, &mut data)?;
        }
        data.resize(bytes.next_multiple_of(4), 0);
        HostTensor::from_device_bytes(tensor.shape(), tensor.dtype(), &data)
    }

    fn recording(&self, inputs: &[(Tensor, &HostTensor)]) -> Result<Option<Recording>> {
        Ok(Some(record(&self.schedule, self.steps.iter().map(|ready| &ready.action), inputs)))
    }

    fn set_profiling(&mut self, on: bool) {
        self.profiling = on;
    }

    fn schedule(&self) -> &Schedule {
        &self.schedule
    }

    fn step_forms(&self) -> Vec<StepForm> {
        let form = |ready: &Ready| StepForm {
            variant: ready.action.name(),
            dispatches: 1,
            copied_bytes: 0,
            largest_copy_bytes: 0,
        };
        self.steps.iter().map(form).collect()
    }

    fn memory(&self) -> Memory {
        Memory {
            transient: self.schedule.transient_bytes(),
            transient_unshared: self.schedule.transient_bytes_unshared(),
            external: self.schedule.external_bytes(),
            staging: 0,
        }
    }
}
