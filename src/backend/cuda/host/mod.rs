//! CUDA sources on the host: compiled by a C++ compiler with a shim that runs the threads of a block in turns between barriers.
//!
//! It tells whether a source computes what its kernel promises, on any machine; it says nothing about speed. Threads run one after
//! another, forwards, and backwards where asked: a result that depends on that misses a barrier. Memory that nobody has written holds
//! NaN, and guards around every tensor find what writes beside it. Libraries are stood in for by the kernel's own f64 reference, rounded.

mod compiler;
mod memory;
mod turns;

use super::program::{CudaProgram, Memory, Work};
use super::{CAPS, plan};
use crate::backend::{Backend, DeviceInfo, DeviceKind, Program};
use crate::error::{Error, Result};
use crate::graph::{Graph, Lowering};
use compiler::Compiler;
use memory::Block;
use std::path::PathBuf;
use std::sync::Arc;
use turns::Turns;

/// The name by which the host is asked for.
pub const NAME: &str = "cuda:host";

/// The host as a CUDA device.
#[derive(Clone, Debug)]
pub struct HostBackend {
    compiler: Arc<Compiler>,
    backwards: bool,
    held: String,
}

impl HostBackend {
    /// Looks for a C++ compiler: the one that `CXX` names, or `c++`.
    ///
    /// Errors: [`Error::NoDevice`] where there is none, or where the shim does not run (it needs fibers of the C library).
    pub fn open() -> Result<Self> {
        Self::with_sources(None)
    }

    /// The same, with sources read from a folder as they are there now instead of those that were built in: to try changes without
    /// building. Their file names, constants and blocks stay as built.
    ///
    /// Errors: as [`Self::open`].
    pub fn with_sources(folder: Option<PathBuf>) -> Result<Self> {
        let compiler =
            Compiler::find(folder).map_err(|reason| Error::NoDevice { asked: NAME.into(), reason })?;
        Ok(Self { compiler: Arc::new(compiler), backwards: false, held: String::new() })
    }

    /// The same device with blocks, and threads between barriers, in the opposite order.
    pub fn backwards(&self) -> Self {
        Self { backwards: true, ..self.clone() }
    }
}

impl Backend for HostBackend {
    fn info(&self) -> DeviceInfo {
        DeviceInfo {
            name: "host CPU (CUDA sources)".into(),
            backend: NAME.into(),
            kind: DeviceKind::Software,
            driver: self.compiler.version().into(),
        }
    }

    fn compile(&self, graph: &Graph) -> Result<Box<dyn Program>> {
        let schedule = graph.schedule(Lowering::Cuda(&CAPS))?;
        let actions = schedule
            .steps
            .iter()
            .map(|step| plan(&schedule, step, &self.held))
            .collect::<Result<Vec<_>>>()?;
        let code = actions
            .iter()
            .zip(&schedule.steps)
            .map(|(action, step)| self.compiler.library(step.kernel, action.launch()))
            .collect::<Result<Vec<_>>>()?;
        let memory = Memory::of(&schedule, |_, bytes| Ok(Block::new(bytes)))?;
        let machine = Turns::new(code, self.backwards);
        Ok(Box::new(CudaProgram::new(machine, Work { schedule, actions, memory }, graph.clone())))
    }

    fn held_to(&self, variants: &str) -> Result<Box<dyn Backend>> {
        Ok(Box::new(Self { held: variants.into(), ..self.clone() }))
    }
}
