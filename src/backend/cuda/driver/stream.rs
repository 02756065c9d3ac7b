#![allow(unsafe_code, reason = "launches take raw pointers")]
//! The steps of a graph on a card's stream: one by one the first time, and from the second run on as one replayed capture of them all.
//!
//! A card tells of a fault when it is waited for, long after the launch that made it. With NVIDIA's `CUDA_LAUNCH_BLOCKING=1` in the environment
//! every step is waited for, so that a fault is told with its kernel and its tensors.

use super::CudaBackend;
use super::device::{Block, Event, Function, Replay};
use super::library::{Prepared, WORKSPACE};
use crate::backend::TimingSource;
use crate::backend::cuda::program::{self, Machine, Seconds};
use crate::backend::cuda::{Precision, param_words};
use crate::error::{Error, Result};
use crate::graph::{Schedule, Step};
use crate::tensor::Tensor;
use cudarc::driver::sys::CUdeviceptr;
use std::fmt::{Display, Formatter};
use std::sync::Arc;

/// What a step needs on a card.
#[derive(Debug)]
pub(super) struct Ready {
    /// The launch's, also that after a library.
    pub(super) function: Arc<Function>,
    pub(super) library: Prepared,
}

/// How often a capture is tried that fails: another thread may be in its way once.
const CAPTURES: u32 = 3;

/// A card's stream, and what the steps of one program need there.
#[derive(Debug)]
pub(super) struct Stream {
    // Before what it refers to, so that it goes first.
    replay: Option<Replay>,
    backend: CudaBackend,
    steps: Vec<Ready>,
    runs: u64,
    /// Whether every step is waited for; nothing is captured then.
    is_blocking: bool,
    /// Captures that have failed. After [`CAPTURES`] of them steps are launched one by one for good.
    failed_captures: u32,
}

/// A step, for errors: `reduce_sum/tree (x = scores, out = sums)`.
#[derive(Clone, Copy)]
pub(super) struct Told<'a> {
    pub(super) schedule: &'a Schedule,
    pub(super) step: &'a Step,
    /// The source's name, or the library's.
    pub(super) by: &'static str,
}

impl<'a> Told<'a> {
    fn of(work: &'a Work, index: usize) -> Self {
        let (schedule, by) = (&work.schedule, work.actions[index].name());
        Self { schedule, step: &schedule.steps[index], by }
    }
}

impl Display for Told<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        let Self { schedule, step, by } = self;
        write!(f, "{}/{by} (", step.kernel.name)?;
        let given = step.kernel.ports.iter().zip(&step.args).filter_map(|(port, arg)| Some((port, (*arg)?)));
        for (number, (port, tensor)) in given.enumerate() {
            let name = &schedule.tensors[tensor.id as usize].name;
            write!(f, "{}{} = {name}", if number > 0 { ", " } else { "" }, port.name)?;
        }
        f.write_str(")")
    }
}

/// A whole run, for errors that do not tell which of its steps they are of.
struct Run<'a> {
    work: &'a Work,
    is_blocking: bool,
}

impl Display for Run<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        let steps = &self.work.schedule.steps;
        if steps.len() == 1 {
            return Told::of(self.work, 0).fmt(f);
        }
        let mut names: Vec<&str> = Vec::new();
        for step in steps {
            if !names.contains(&step.kernel.name) {
                names.push(step.kernel.name);
            }
        }
        write!(f, "a run of {}", names.join(", "))?;
        match self.is_blocking {
            true => Ok(()),
            false => f.write_str(" (which of them, it tells with CUDA_LAUNCH_BLOCKING=1 in the environment)"),
        }
    }
}

type Work = program::Work<Block>;

impl Stream {
    pub(super) fn new(backend: CudaBackend, steps: Vec<Ready>) -> Self {
        let is_blocking = std::env::var("CUDA_LAUNCH_BLOCKING").is_ok_and(|value| value.trim() == "1");
        Self { replay: None, backend, steps, runs: 0, is_blocking, failed_captures: 0 }
    }

    /// Puts a step on the stream, which the caller has.
    fn launch(&self, work: &Work, index: usize) -> Result<()> {
        let pointer = |tensor: Option<Tensor>| {
            tensor.and_then(|t| work.part(t)).map_or(0, |(block, at)| work.memory.blocks[block].at + at)
        };
        let (step, action, ready) = (&work.schedule.steps[index], &work.actions[index], &self.steps[index]);
        let told = Told::of(work, index);
        let mut pointers: Vec<CUdeviceptr> = step.args.iter().map(|arg| pointer(*arg)).collect();
        match &ready.library {
            Prepared::Nothing => {}
            // SAFETY: the pointers are those of the step's tensors, whose memory lives as long as the program.
            Prepared::Product => unsafe {
                self.backend.blas()?.product(step, told, pointers[0], pointers[1], pointers[4])?;
            },
            // SAFETY: as above.
            Prepared::Transform(transform) => unsafe { transform.run(told, pointers[0], pointers[1])? },
        }
        if !action.launches(step) {
            return Ok(());
        }
        let launch = action.launch();
        let mut words = param_words(step);
        // SAFETY: as above, in port order.
        unsafe {
            ready.function.launch(told, launch.blocks, launch.source.threads, &mut words, &mut pointers)
        }
    }

    fn launch_all(&self, work: &Work) -> Result<()> {
        (0..self.steps.len()).try_for_each(|index| self.launch(work, index))
    }

    /// The same, waiting for each.
    fn launch_one_by_one(&self, work: &Work) -> Result<()> {
        let device = &self.backend.device;
        (0..self.steps.len()).try_for_each(|index| {
            let turn = device.shared();
            self.launch(work, index)?;
            drop(turn);
            device.wait(Told::of(work, index))
        })
    }

    /// Captures a run if it will be replayed: from the second with the same parameters on. The first loads what the libraries need.
    ///
    /// Errors: a lost device. Where steps cannot be captured they are launched one by one, which takes the host longer.
    fn prepare(&mut self, work: &Work) -> Result<()> {
        if self.replay.is_none() && self.runs > 0 && !self.is_blocking && self.failed_captures < CAPTURES {
            match Replay::capture(&self.backend.device, || self.launch_all(work)) {
                Ok(replay) => self.replay = Some(replay),
                Err(lost @ Error::DeviceLost { .. }) => return Err(lost),
                Err(error) => {
                    if self.failed_captures == 0 {
                        log::warn!("{error}: steps are launched one by one");
                    }
                    self.failed_captures += 1;
                }
            }
        }
        Ok(())
    }

    /// Puts one run on the stream: step by step the first time, and as a replay after that.
    fn start(&mut self, work: &Work) -> Result<()> {
        self.prepare(work)?;
        self.put(work)
    }

    /// The same as things are, without a capture.
    fn put(&mut self, work: &Work) -> Result<()> {
        match &self.replay {
            Some(replay) => replay.play(Run { work, is_blocking: self.is_blocking })?,
            None if self.is_blocking => self.launch_one_by_one(work)?,
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
        self.backend.device.wait(Run { work, is_blocking: self.is_blocking })
    }

    // From one event to the next: where the host launches more slowly than the card computes, the time of a step holds that.
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
            if self.is_blocking {
                device.wait(Told::of(work, index))?;
            }
        }
        device.wait(Run { work, is_blocking: self.is_blocking })?;
        moments.windows(2).map(|pair| Ok((pair[0].seconds_to(&pair[1])?, None))).collect()
    }

    fn run_often(&mut self, work: &mut Work, repeats: u32) -> Result<Option<f64>> {
        self.backend.device.enter()?;
        // Capturing is the host's work, and no part of what the device takes: what has not been captured by now is not.
        self.prepare(work)?;
        let begin = Event::record(&self.backend.device)?;
        (0..repeats).try_for_each(|_| self.put(work))?;
        let end = Event::record(&self.backend.device)?;
        self.backend.device.wait(Run { work, is_blocking: self.is_blocking })?;
        begin.seconds_to(&end).map(Some)
    }

    fn rounds_products(&self) -> bool {
        self.backend.precision != Precision::F32
    }

    fn held_bytes(&self) -> u64 {
        let of = |ready: &Ready| match &ready.library {
            Prepared::Transform(transform) => transform.held_bytes(),
            Prepared::Product | Prepared::Nothing => 0,
        };
        let products = self.steps.iter().any(|ready| matches!(ready.library, Prepared::Product));
        self.steps.iter().map(of).sum::<u64>() + if products { WORKSPACE } else { 0 }
    }

    fn params_changed(&mut self) {
        // A capture holds the old ones. Another is made once a run with the new ones has been followed by a second: parameters that change
        // before every run are cheaper step by step, and a kernel that they call for the first time is loaded outside a capture.
        self.replay = None;
        self.runs = 0;
    }
}
