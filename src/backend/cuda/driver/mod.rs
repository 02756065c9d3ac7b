//! Graphs on an NVIDIA card, by the CUDA driver, NVRTC, cuBLAS and cuFFT, all of them looked for at run time.

mod device;
mod library;
mod loader;
pub mod nvrtc;
mod program;

use super::{Action, CAPS, plan};
use crate::backend::{Backend, DeviceInfo, DeviceKind, Program};
use crate::error::{Error, Result};
use crate::graph::{Graph, Lowering, Schedule, Step};
use device::{Card, Device, Function};
use library::{Blas, Prepared};
use program::{CudaProgram, Ready};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

/// The oldest architecture that sources are written for: Turing.
const OLDEST: i32 = 75;

/// Kernels that the programs of a card share, by their texts.
type Functions = Mutex<HashMap<String, Arc<Function>>>;

/// What this machine has of CUDA.
#[derive(Clone, Debug)]
pub struct Report {
    /// Cards in the driver's order.
    pub cards: Vec<CardReport>,
    /// Why there are none, or what the cards lack; `None` where all is well.
    pub lack: Option<String>,
}

/// A card as `wgattn devices` tells of it.
#[derive(Clone, Debug)]
pub struct CardReport {
    /// What it is.
    pub info: DeviceInfo,
    /// Where it sits on the PCI bus.
    pub bus: String,
}

/// What this machine has of CUDA. Nothing here panics, whatever libraries it has or lacks.
pub fn report() -> Report {
    if let Some(lack) = loader::driver_lack() {
        return Report { cards: Vec::new(), lack: Some(lack) };
    }
    match device::cards() {
        Err(error) => Report { cards: Vec::new(), lack: Some(error.to_string()) },
        Ok(cards) if cards.is_empty() => {
            Report { cards: Vec::new(), lack: Some("the driver knows of no card".into()) }
        }
        Ok(cards) => {
            let lack =
                [loader::nvrtc_lack(), loader::cublas_lack(), loader::cufft_lack()].into_iter().flatten();
            let lack = lack.collect::<Vec<_>>().join("; ");
            let told = cards.iter().map(|card| CardReport { info: info(card), bus: card.bus.clone() });
            Report { cards: told.collect(), lack: Some(lack).filter(|text| !text.is_empty()) }
        }
    }
}

fn info(card: &Card) -> DeviceInfo {
    DeviceInfo {
        name: card.name.clone(),
        backend: "cuda".into(),
        kind: DeviceKind::Discrete,
        driver: format!("{}, sm_{}", card.driver, card.architecture),
    }
}

/// A card as a device.
#[derive(Clone, Debug)]
pub struct CudaBackend {
    device: Arc<Device>,
    compiler: nvrtc::Compiler,
    functions: Arc<Functions>,
    blas: Arc<OnceLock<Result<Blas>>>,
    held: String,
}

impl CudaBackend {
    /// Opens a card by its place in the driver's list.
    ///
    /// Errors: [`Error::NoDevice`] with what is missing.
    pub fn open(ordinal: usize) -> Result<Self> {
        let none = |reason: String| Error::NoDevice { asked: format!("cuda:{ordinal}"), reason };
        if let Some(lack) = loader::driver_lack() {
            return Err(none(lack));
        }
        let cards = device::cards()?;
        let count = cards.len();
        let card = cards.into_iter().nth(ordinal).ok_or_else(|| {
            none(format!("the driver knows of {count} cards, numbered from 0; see `wgattn devices`"))
        })?;
        if card.architecture < OLDEST {
            return Err(none(format!(
                "{} has compute capability {}.{}, and 7.5 is needed; it is reached through vulkan",
                card.name,
                card.architecture / 10,
                card.architecture % 10
            )));
        }
        let compiler = nvrtc::Compiler::open().map_err(|e| none(e.to_string()))?;
        let device = Device::open(card)?;
        Ok(Self { device, compiler, functions: Arc::default(), blas: Arc::default(), held: String::new() })
    }

    fn blas(&self) -> Result<&Blas> {
        self.blas.get_or_init(|| Blas::open(&self.device)).as_ref().map_err(Clone::clone)
    }

    fn function(&self, step: &Step, action: &Action) -> Result<Arc<Function>> {
        let launch = action.launch();
        let mut functions = self.functions.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(function) = functions.get(&launch.text) {
            return Ok(Arc::clone(function));
        }
        let name = step.kernel.name;
        let code =
            self.compiler.compile_cached(name, launch.source, &launch.text, self.device.card.architecture)?;
        let function = Arc::new(Function::load(&self.device, name, &code.image)?);
        functions.insert(launch.text.clone(), Arc::clone(&function));
        Ok(function)
    }

    fn ready(&self, schedule: &Schedule, step: &Step) -> Result<Ready> {
        let action = plan(schedule, step, &self.held)?;
        let function = self.function(step, &action)?;
        let library = match &action {
            Action::Launch(_) => Prepared::Nothing,
            Action::Library(library, _) => {
                if *library == crate::kernel::Library::Gemm {
                    self.blas()?;
                }
                Prepared::of(&self.device, step, *library)?
            }
        };
        Ok(Ready { action, function, library })
    }
}

impl Backend for CudaBackend {
    fn info(&self) -> DeviceInfo {
        info(&self.device.card)
    }

    fn compile(&self, graph: &Graph) -> Result<Box<dyn Program>> {
        self.device.enter()?;
        let schedule = graph.schedule(Lowering::Cuda(&CAPS))?;
        let steps =
            schedule.steps.iter().map(|step| self.ready(&schedule, step)).collect::<Result<Vec<_>>>()?;
        Ok(Box::new(CudaProgram::new(self.clone(), graph.clone(), schedule, steps)?))
    }

    fn held_to(&self, variants: &str) -> Result<Box<dyn Backend>> {
        Ok(Box::new(Self { held: variants.into(), ..self.clone() }))
    }
}
