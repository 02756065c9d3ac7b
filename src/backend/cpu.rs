//! The CPU backend: every pass runs its f64 reference, in parallel over rows and heads.
//!
//! Ground truth, and what a machine without any GPU driver falls back to by default. It is not a fast path and says so.

use super::{
    Backend, DeviceInfo, DeviceKind, Memory, Program, StepTime, Stopwatch, TimingSource, Timings,
    check_write, known,
};
use crate::error::{Error, Result};
use crate::graph::{Graph, Kind, Lowering, PassId, Schedule};
use crate::kernel::reference::Buffer;
use crate::kernel::{Access, HostArgs};
use crate::tensor::{HostTensor, Tensor};
use crate::words::counted;
use std::sync::Arc;

/// The f64 reference as a device.
#[derive(Clone, Copy, Debug, Default)]
pub struct CpuBackend;

impl Backend for CpuBackend {
    fn info(&self) -> DeviceInfo {
        let threads = rayon::current_num_threads();
        DeviceInfo {
            name: format!("CPU reference (f64, {})", counted(threads, "thread", "threads")),
            backend: "cpu".into(),
            kind: DeviceKind::Reference,
            driver: String::new(),
        }
    }

    fn compile(&self, graph: &Graph) -> Result<Box<dyn Program>> {
        let schedule = graph.schedule(Lowering::Reference)?;
        let constant = |t: &crate::graph::TensorInfo| t.constant.as_deref().map(Buffer::from_host);
        let buffers = schedule.tensors.iter().map(constant).collect();
        Ok(Box::new(CpuProgram { graph: graph.clone(), schedule, buffers, profiling: false }))
    }
}

/// A graph on the CPU.
#[derive(Debug)]
struct CpuProgram {
    graph: Graph,
    schedule: Schedule,
    buffers: Vec<Option<Buffer<f64>>>,
    profiling: bool,
}

impl CpuProgram {
    /// A tensor's numbers: the base's, or the part of it that a view shows.
    fn load(&self, tensor: Tensor) -> Result<Buffer<f64>> {
        let (base, from) = self.schedule.base(tensor);
        let info = &self.schedule.tensors[base as usize];
        let buffer = self.buffers[base as usize].as_ref().ok_or_else(|| Error::Data {
            tensor: info.name.clone(),
            expected: "numbers: call `write` before `run`".into(),
            got: "none".into(),
        })?;
        let (from, len) = (from as usize, tensor.shape().len() as usize);
        Ok(match buffer {
            whole if from == 0 && len == whole.len() => whole.clone(),
            Buffer::Real(v) => Buffer::Real(Arc::new(v[from..from + len].to_vec())),
            Buffer::Word(v) => Buffer::Word(Arc::new(v[from..from + len].to_vec())),
        })
    }

    fn store(&mut self, tensor: Tensor, value: Buffer<f64>) {
        let (base, from) = self.schedule.base(tensor);
        let whole = self.schedule.tensors[base as usize].shape.len() as usize;
        let slot = &mut self.buffers[base as usize];
        if value.len() == whole {
            *slot = Some(value);
            return;
        }
        let from = from as usize;
        match value {
            Buffer::Real(part) => {
                if !matches!(slot, Some(Buffer::Real(_))) {
                    *slot = Some(Buffer::Real(Arc::new(vec![0.0; whole])));
                }
                if let Some(Buffer::Real(all)) = slot {
                    Arc::make_mut(all)[from..from + part.len()].copy_from_slice(&part);
                }
            }
            Buffer::Word(part) => {
                if !matches!(slot, Some(Buffer::Word(_))) {
                    *slot = Some(Buffer::Word(Arc::new(vec![0; whole])));
                }
                if let Some(Buffer::Word(all)) = slot {
                    Arc::make_mut(all)[from..from + part.len()].copy_from_slice(&part);
                }
            }
        }
    }

    /// Runs the steps while `go_on` (done, all) says so; whether all were run.
    fn run_in_steps(&mut self, go_on: &mut dyn FnMut(usize, usize) -> bool) -> Result<(Timings, bool)> {
        let total = Stopwatch::start();
        let mut steps = Vec::new();
        let count = self.schedule.steps.len();
        let mut done = 0;
        while done < count && go_on(done, count) {
            let watch = Stopwatch::start();
            self.run_step(done)?;
            if self.profiling {
                let step = &self.schedule.steps[done];
                let ((seconds, cpu), by_token) = (watch.seconds(), step.dims.find("n").is_some());
                let cpu_seconds = Some(cpu);
                steps.push(StepTime {
                    kernel: step.kernel.name,
                    variant: "reference",
                    seconds,
                    cpu_seconds,
                    // Nothing is submitted here.
                    by_host: false,
                    by_token,
                });
            }
            done += 1;
        }
        let (wall_seconds, cpu_seconds) = total.seconds();
        Ok((Timings { source: TimingSource::Wall, steps, wall_seconds, cpu_seconds }, done == count))
    }

    fn run_step(&mut self, index: usize) -> Result<()> {
        let step = &self.schedule.steps[index];
        let mut ports = Vec::new();
        let mut shapes = Vec::new();
        for (port, arg) in step.kernel.ports.iter().zip(&step.args) {
            shapes.push(arg.map(|t| t.shape()));
            ports.push(match arg {
                Some(t) if port.access == Access::Read => Some(self.load(*t)?),
                _ => None,
            });
        }
        let mut args = HostArgs::new(step.kernel, step.dims.clone(), step.params.clone(), ports, shapes);
        (step.kernel.reference.f64)(&mut args)?;
        let targets = step.args.clone();
        for (value, target) in args.into_outputs()?.into_iter().zip(targets) {
            if let (Some(value), Some(target)) = (value, target) {
                self.store(target, value);
            }
        }
        // Transients go as soon as their last reader is done.
        for (id, span) in self.schedule.spans.iter().enumerate() {
            if span.is_some_and(|s| s.1 == index) && self.schedule.tensors[id].kind == Kind::Transient {
                self.buffers[id] = None;
            }
        }
        Ok(())
    }
}

impl Program for CpuProgram {
    fn write(&mut self, tensor: Tensor, data: &HostTensor) -> Result<()> {
        check_write(&self.schedule, tensor, data)?;
        self.buffers[tensor.id as usize] = Some(Buffer::from_host(data));
        Ok(())
    }

    fn set_param_bytes(&mut self, pass: PassId, params: &[u8]) -> Result<()> {
        let new = self.schedule.relower(&self.graph, pass, params, Lowering::Reference)?;
        for step in self.schedule.steps.iter_mut().filter(|s| s.pass == pass) {
            step.params.clone_from(&new[step.ordinal]);
        }
        Ok(())
    }

    fn run(&mut self) -> Result<Timings> {
        self.run_in_steps(&mut |_, _| true).map(|(timings, _)| timings)
    }

    fn run_watched(&mut self, watch: &mut dyn FnMut(usize, usize) -> bool) -> Result<Option<Timings>> {
        self.run_in_steps(watch).map(|(timings, whole)| whole.then_some(timings))
    }

    fn read(&mut self, tensor: Tensor) -> Result<HostTensor> {
        let info = known(&self.schedule, tensor)?;
        let base = self.schedule.base(tensor).0;
        if self.schedule.tensors[base as usize].kind == Kind::Transient {
            let reason = "is a transient; declare it with `Graph::output` to read it".into();
            return Err(Error::Tensor { tensor: info.name.clone(), reason });
        }
        self.load(tensor)?.to_host(tensor.shape(), tensor.dtype())
    }

    fn set_profiling(&mut self, on: bool) {
        self.profiling = on;
    }

    fn schedule(&self) -> &Schedule {
        &self.schedule
    }

    fn memory(&self) -> Memory {
        // Twice the device's figures: the reference computes in f64.
        Memory {
            transient: 2 * self.schedule.transient_bytes(),
            transient_unshared: 2 * self.schedule.transient_bytes_unshared(),
            external: 2 * self.schedule.external_bytes(),
            staging: 0,
        }
    }
}
