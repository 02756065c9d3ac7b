#![allow(unsafe_code, reason = "launches take raw pointers")]
//! The steps of a graph on a card's stream: one by one the first time, and from the second run on as one replayed capture of them all.

use super::CudaBackend;
use super::device::{Block, Event, Function, Replay};
use super::library::Prepared;
use crate::backend::TimingSource;
use crate::backend::cuda::program::{self, Machine, Seconds};
use crate::backend::cuda::{Precision, param_words};
use crate::error::Result;
use crate::tensor::Tensor;
use cudarc::driver::sys::CUdeviceptr;
use std::sync::Arc;

/// What a step needs on a card.
#[derive(Debug)]
pub(super) struct Ready {
    /// The launch's, also that after a library.
    pub(super) function: Arc<Function>,
    pub(super) library: Prepared,
}

/// A card's stream, and what the steps of one program need there.
#[derive(Debug)]
pub(super) struct Stream {
    // Before what it refers to, so that it goes first.
    replay: Option<Replay>,
    backend: CudaBackend,
    steps: Vec<Ready>,
    runs: u64,
}

type Work = program::Work<Block>;

impl Stream {
    pub(super) fn new(backend: CudaBackend, steps: Vec<Ready>) -> Self {
        Self { replay: None, backend, steps, runs: 0 }
    }

    /// Puts a step on the stream, which the caller has.
    fn launch(&self, work: &Work, index: usize) -> Result<()> {
        let pointer = |tensor: Option<Tensor>| {
            tensor.and_then(|t| work.part(t)).map_or(0, |(block, at)| work.memory.blocks[block].at + at)
        };
        let (step, action, ready) = (&work.schedule.steps[index], &work.actions[index], &self.steps[index]);
        let mut pointers: Vec<CUdeviceptr> = step.args.iter().map(|arg| pointer(*arg)).collect();
        match &ready.library {
            Prepared::Nothing => {}
            // SAFETY: the pointers are those of the step's tensors, whose memory lives as long as the program.
            Prepared::Product => unsafe {
                self.backend.blas()?.product(step, pointers[0], pointers[1], pointers[4])?;
            },
            // SAFETY: as above.
            Prepared::Transform(transform) => unsafe { transform.run(pointers[0], pointers[1])? },
        }
        if !action.launches(step) {
            return Ok(());
        }
        let launch = action.launch();
        let mut words = param_words(step);
        let context = format!("{}/{}", step.kernel.name, launch.source.name);
        // SAFETY: as above, in port order.
        unsafe {
            ready.function.launch(&context, launch.blocks, launch.source.threads, &mut words, &mut pointers)
        }
    }

    fn launch_all(&self, work: &Work) -> Result<()> {
        (0..self.steps.len()).try_for_each(|index| self.launch(work, index))
    }

    /// Captures a run if it will be replayed: from the second with the same parameters on. The first loads what the libraries need.
    fn prepare(&mut self, work: &Work) -> Result<()> {
        if self.replay.is_none() && self.runs > 0 {
            self.replay = Some(Replay::capture(&self.backend.device, || self.launch_all(work))?);
        }
        Ok(())
    }

    /// Puts one run on the stream: step by step the first time, and as a replay after that.
    fn start(&mut self, work: &Work) -> Result<()> {
        self.prepare(work)?;
        match &self.replay {
            Some(replay) => replay.play()?,
            None => {
                let _turn = self.backend.device.shared();
                self.launch_all(work)?;
            }
        }
        self.runs += 1;
        Ok(())
    }
}

impl Machine for Stream {
    type Block = Block;
    const TIMES: TimingSource = TimingSource::Timestamp;

    fn run(&mut self, work: &mut Work) -> Result<()> {
        self.backend.device.enter()?;
        self.start(work)?;
        self.backend.device.wait("run")
    }

    fn run_timed(&mut self, work: &mut Work) -> Result<Vec<Seconds>> {
        let device = &self.backend.device;
        device.enter()?;
        let mut moments = vec![Event::record(device)?];
        for index in 0..self.steps.len() {
            {
                let _turn = device.shared();
                self.launch(work, index)?;
            }
            moments.push(Event::record(device)?);
        }
        device.wait("run")?;
        moments.windows(2).map(|pair| Ok((pair[0].seconds_to(&pair[1])?, None))).collect()
    }

    fn run_often(&mut self, work: &mut Work, repeats: u32) -> Result<Option<f64>> {
        self.backend.device.enter()?;
        // Capturing is the host's work, and no part of what the device takes.
        self.prepare(work)?;
        let begin = Event::record(&self.backend.device)?;
        (0..repeats).try_for_each(|_| self.start(work))?;
        let end = Event::record(&self.backend.device)?;
        self.backend.device.wait("run")?;
        begin.seconds_to(&end).map(Some)
    }

    fn rounds_products(&self) -> bool {
        self.backend.precision != Precision::F32
    }

    fn params_changed(&mut self) {
        // A capture holds the old ones. Another is made once a run with the new ones has been followed by a second: parameters that change
        // before every run are cheaper step by step, and a kernel that they call for the first time is loaded outside a capture.
        self.replay = None;
        self.runs = 0;
    }
}
