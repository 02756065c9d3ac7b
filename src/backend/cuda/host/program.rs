#![allow(unsafe_code, reason = "launches take raw pointers")]
//! A graph on the host.

use super::compiler::Code;
use super::memory::Memory;
use crate::backend::cuda::{Action, CAPS, param_bytes, record};
use crate::backend::recording::Recording;
use crate::backend::{
    Memory as Held, Program, StepForm, StepTime, Stopwatch, TimingSource, Timings, check_write, known,
};
use crate::error::{Error, Result};
use crate::graph::{Graph, Kind, Lowering, PassId, Schedule, Step};
use crate::kernel::reference::Buffer;
use crate::kernel::{Access, HostArgs, KernelParams, Library};
use crate::kernels::fft::fft;
use crate::kernels::linalg::matmul;
use crate::tensor::{HostTensor, Tensor};
use std::ffi::c_void;
use std::sync::Arc;

/// A compiled graph on the host.
#[derive(Debug)]
pub(super) struct HostProgram {
    graph: Graph,
    schedule: Schedule,
    actions: Vec<Action>,
    code: Vec<Arc<Code>>,
    memory: Memory,
    given: Vec<bool>,
    backwards: bool,
    profiling: bool,
}

impl HostProgram {
    pub(super) fn new(
        graph: Graph,
        schedule: Schedule,
        actions: Vec<Action>,
        code: Vec<Arc<Code>>,
        memory: Memory,
        backwards: bool,
    ) -> Self {
        let given = vec![false; schedule.tensors.len()];
        Self { graph, schedule, actions, code, memory, given, backwards, profiling: false }
    }

    /// Where a tensor begins; null for one that is left out.
    fn pointer(&mut self, tensor: Option<Tensor>) -> *mut c_void {
        let Some(tensor) = tensor else { return std::ptr::null_mut() };
        let (base, from) = self.schedule.base(tensor);
        let Some(block) = self.memory.block(base) else { return std::ptr::null_mut() };
        let at = (from * tensor.dtype().bytes()) as usize;
        block.bytes_mut()[at..].as_mut_ptr().cast()
    }

    fn numbers(&mut self, tensor: Tensor) -> Result<HostTensor> {
        let (base, from) = self.schedule.base(tensor);
        let (at, bytes) = (from * tensor.dtype().bytes(), tensor.shape().len() * tensor.dtype().bytes());
        let range = at as usize..(at + bytes) as usize;
        let mut part = self.memory.block(base).map_or_else(Vec::new, |block| block.bytes()[range].to_vec());
        part.resize(part.len().next_multiple_of(4), 0);
        HostTensor::from_device_bytes(tensor.shape(), tensor.dtype(), &part)
    }

    fn put(&mut self, tensor: Tensor, data: &HostTensor) {
        let (base, from) = self.schedule.base(tensor);
        let at = (from * tensor.dtype().bytes()) as usize;
        let bytes = (data.shape().len() * data.dtype().bytes()) as usize;
        if let Some(block) = self.memory.block(base) {
            block.bytes_mut()[at..at + bytes].copy_from_slice(&data.device_bytes()[..bytes]);
        }
    }

    /// In place of a library: the kernel's f64 reference, rounded, without what follows the library.
    fn stand_in(&mut self, step: &Step, library: Library) -> Result<()> {
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
                    Some(Buffer::from_host(&self.numbers(*t)?))
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
                self.put(*target, &data);
            }
        }
        Ok(())
    }

    fn run_step(&mut self, index: usize) -> Result<()> {
        let step = self.schedule.steps[index].clone();
        if let Action::Library(library, _) = &self.actions[index] {
            self.stand_in(&step, *library)?;
        }
        let action = &self.actions[index];
        if !action.launches(&step) {
            return Ok(());
        }
        let launch = action.launch();
        let (blocks, threads, source) = (launch.blocks, launch.source.threads, launch.source.name);
        let code = Arc::clone(&self.code[index]);
        let arguments: Vec<*mut c_void> = step.args.iter().map(|arg| self.pointer(*arg)).collect();
        // SAFETY: the pointers are those of the step's tensors in port order, alive until the end of the launch.
        unsafe { code.launch(blocks, threads, &param_bytes(&step), &arguments, self.backwards) }?;
        match self.memory.damaged() {
            None => Ok(()),
            Some(id) => Err(Error::Device {
                device: super::NAME.into(),
                context: format!("{}/{source}", step.kernel.name),
                message: format!("writes beside `{}`", self.schedule.tensors[id as usize].name),
            }),
        }
    }
}

impl Program for HostProgram {
    fn write(&mut self, tensor: Tensor, data: &HostTensor) -> Result<()> {
        check_write(&self.schedule, tensor, data)?;
        self.put(tensor, data);
        self.given[tensor.id as usize] = true;
        Ok(())
    }

    fn set_param_bytes(&mut self, pass: PassId, params: &[u8]) -> Result<()> {
        let new = self.schedule.relower(&self.graph, pass, params, Lowering::Cuda(&CAPS))?;
        for step in self.schedule.steps.iter_mut().filter(|s| s.pass == pass) {
            step.params.clone_from(&new[step.ordinal]);
        }
        Ok(())
    }

    fn run(&mut self) -> Result<Timings> {
        let missing = self.schedule.tensors.iter().zip(&self.given);
        if let Some((info, _)) =
            missing.into_iter().find(|(t, given)| t.kind == Kind::Input && t.base.is_none() && !**given)
        {
            return Err(Error::Data {
                tensor: info.name.clone(),
                expected: "numbers: call `write` first".into(),
                got: "none".into(),
            });
        }
        let total = Stopwatch::start();
        let mut steps = Vec::new();
        self.memory.forget_transients();
        for index in 0..self.schedule.steps.len() {
            let watch = Stopwatch::start();
            self.run_step(index)?;
            if self.profiling {
                let step = &self.schedule.steps[index];
                let (seconds, cpu) = watch.seconds();
                steps.push(StepTime {
                    kernel: step.kernel.name,
                    variant: self.actions[index].name(),
                    seconds,
                    cpu_seconds: Some(cpu),
                    by_host: false,
                    by_token: step.dims.find("n").is_some(),
                });
            }
        }
        let (wall_seconds, cpu_seconds) = total.seconds();
        Ok(Timings { source: TimingSource::Wall, steps, wall_seconds, cpu_seconds })
    }

    fn read(&mut self, tensor: Tensor) -> Result<HostTensor> {
        let info = known(&self.schedule, tensor)?;
        let base = self.schedule.base(tensor).0;
        if self.schedule.tensors[base as usize].kind == Kind::Transient {
            let reason = "is a transient; declare it with `Graph::output` to read it".into();
            return Err(Error::Tensor { tensor: info.name.clone(), reason });
        }
        self.numbers(tensor)
    }

    fn recording(&self, inputs: &[(Tensor, &HostTensor)]) -> Result<Option<Recording>> {
        Ok(Some(record(&self.schedule, &self.actions, inputs)))
    }

    fn set_profiling(&mut self, on: bool) {
        self.profiling = on;
    }

    fn schedule(&self) -> &Schedule {
        &self.schedule
    }

    fn step_forms(&self) -> Vec<StepForm> {
        let form = |action: &Action| StepForm {
            variant: action.name(),
            dispatches: 1,
            copied_bytes: 0,
            largest_copy_bytes: 0,
        };
        self.actions.iter().map(form).collect()
    }

    fn memory(&self) -> Held {
        Held {
            transient: self.schedule.transient_bytes(),
            transient_unshared: self.schedule.transient_bytes_unshared(),
            external: self.schedule.external_bytes(),
            staging: 0,
        }
    }
}
