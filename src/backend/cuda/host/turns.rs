#![allow(unsafe_code, reason = "launches take raw pointers")]
//! The steps of a graph on the host: one after another, each block of a launch in its turn.

use super::compiler::Code;
use super::memory::Block;
use crate::backend::cuda::program::{self, Machine, Seconds};
use crate::backend::cuda::{Action, param_words};
use crate::backend::{Stopwatch, TimingSource};
use crate::error::{Error, Result};
use crate::kernel::reference::Buffer;
use crate::kernel::{Access, HostArgs, KernelParams, Library};
use crate::kernels::fft::fft;
use crate::kernels::linalg::matmul;
use std::ffi::c_void;
use std::sync::Arc;

/// The compiled sources of a program's steps, and the order in which their threads have their turns.
#[derive(Debug)]
pub(super) struct Turns {
    code: Vec<Arc<Code>>,
    backwards: bool,
}

type Work = program::Work<Block>;

impl Turns {
    pub(super) fn new(code: Vec<Arc<Code>>, backwards: bool) -> Self {
        Self { code, backwards }
    }

    fn run_step(&self, work: &mut Work, index: usize) -> Result<()> {
        if let &Action::Library(library, _) = &work.actions[index] {
            stand_in(work, index, library)?;
        }
        let (step, action) = (&work.schedule.steps[index], &work.actions[index]);
        if !action.launches(step) {
            return Ok(());
        }
        let parts: Vec<_> = step.args.iter().map(|arg| arg.and_then(|tensor| work.part(tensor))).collect();
        let memory = &mut work.memory.blocks;
        // Null for a tensor that is left out.
        let pointer = |part: Option<(usize, u64)>| {
            part.map_or(std::ptr::null_mut(), |(block, at)| {
                memory[block].bytes_mut()[at as usize..].as_mut_ptr().cast()
            })
        };
        let arguments: Vec<*mut c_void> = parts.into_iter().map(pointer).collect();
        let launch = action.launch();
        let (blocks, threads) = (launch.blocks, launch.source.threads);
        // SAFETY: the pointers are those of the step's tensors in port order, alive until the end of the launch.
        unsafe { self.code[index].launch(blocks, threads, &param_words(step), &arguments, self.backwards) }?;
        match work.memory.damaged() {
            None => Ok(()),
            Some(id) => Err(Error::Device {
                device: super::NAME.into(),
                context: format!("{}/{}", step.kernel.name, launch.source.name),
                message: format!("writes beside `{}`", work.schedule.tensors[id as usize].name),
            }),
        }
    }
}

impl Machine for Turns {
    type Block = Block;
    const TIMES: TimingSource = TimingSource::Wall;

    fn run(&mut self, work: &mut Work) -> Result<()> {
        self.run_timed(work).map(drop)
    }

    fn run_timed(&mut self, work: &mut Work) -> Result<Vec<Seconds>> {
        work.memory.forget_transients();
        let timed = |index: usize| {
            let watch = Stopwatch::start();
            self.run_step(work, index)?;
            let (seconds, cpu_seconds) = watch.seconds();
            Ok((seconds, Some(cpu_seconds)))
        };
        (0..self.code.len()).map(timed).collect()
    }
}

/// In place of a library: the kernel's f64 reference, rounded, without what follows the library.
fn stand_in(work: &mut Work, index: usize, library: Library) -> Result<()> {
    let step = work.schedule.steps[index].clone();
    let mut params = step.params.clone();
    let mut undo = 1.0;
    match library {
        Library::Gemm => {
            params = matmul::Params { identity: 0.0, ..matmul::Params::from_bytes(&params) }.to_bytes();
        }
        // The library's inverse transforms lack their factor.
        Library::Fft => {
            let p = fft::Params::from_bytes(&params);
            let length = if p.length == 0 { step.dims.size("l") } else { p.length };
            undo = if p.inverse != 0 { f64::from(length) } else { 1.0 };
        }
    }
    let after = |port: &str| matches!(port, "residual" | "bias") && library == Library::Gemm;
    let mut ports = Vec::new();
    for (port, arg) in step.kernel.ports.iter().zip(&step.args) {
        ports.push(match arg {
            Some(t) if port.access == Access::Read && !after(port.name) => {
                Some(Buffer::from_host(&work.numbers(*t)?))
            }
            _ => None,
        });
    }
    let shapes = step.args.iter().map(|arg| arg.map(|t| t.shape())).collect();
    let mut args = HostArgs::<f64>::new(step.kernel, step.dims.clone(), params, ports, shapes);
    (step.kernel.reference.f64)(&mut args)?;
    for (value, target) in args.into_outputs()?.into_iter().zip(&step.args) {
        if let (Some(mut value), Some(target)) = (value, target) {
            if let Buffer::Real(numbers) = &mut value {
                Arc::make_mut(numbers).iter_mut().for_each(|x| *x *= undo);
            }
            let data = value.to_host(target.shape(), target.dtype())?;
            work.put(*target, &data)?;
        }
    }
    Ok(())
}
