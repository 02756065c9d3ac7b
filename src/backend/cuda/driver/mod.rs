//! Graphs on an NVIDIA card, by the CUDA driver, NVRTC, cuBLAS and cuFFT, all of them looked for at run time.

mod device;
mod library;
mod loader;
pub mod nvrtc;
mod stream;
mod sys;

use super::program::{CudaProgram, Memory, Work};
use super::{Action, CAPS, Precision, plan};
use crate::backend::device::{Card as ListedCard, CardFacts, Facts};
use crate::backend::{Backend, DeviceInfo, DeviceKind, Program};
use crate::error::{Error, Result};
use crate::graph::{Graph, Lowering, Schedule, Step};
use crate::words::counted;
use device::{Block, Card, Device, Function};
use library::{Blas, Prepared};
use rayon::prelude::*;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use stream::{Ready, Stream};

/// The oldest architecture that sources are written for: Turing.
const OLDEST: i32 = 75;

/// Kernels that the programs of a card share, by their texts.
type Functions = Mutex<HashMap<String, Arc<Function>>>;

/// The cards of this machine in the driver's order, or why there are none. Nothing here panics, whatever libraries there are.
pub(super) fn cards() -> std::result::Result<Vec<ListedCard>, String> {
    let cuda = loader::driver()?;
    let count = device::count(cuda).map_err(|error| error.to_string())?;
    if count == 0 {
        return Err("the driver knows of no card".into());
    }
    let (nvrtc, nothing) = match compiler() {
        Err(lack) => (None, Some(lack)),
        Ok(compiler) => (Some(compiler.version()), compiler.lack()),
    };
    let unusable = |reason: String| format!("cannot be used: {reason}");
    let lacks: Vec<String> = [
        overridden(Precision::F32).or(nothing).map(unusable),
        loader::cublas().err().map(|lack| format!("without products of matrices: {lack}")),
        loader::cufft().err().map(|lack| format!("without transforms: {lack}")),
    ]
    .into_iter()
    .flatten()
    .collect();
    let told = |ordinal: usize| match device::card(cuda, ordinal) {
        Ok(card) => ListedCard {
            device: format!("cuda:{ordinal}"),
            info: info(&card),
            facts: facts(&card, nvrtc.clone(), None),
            lacks: too_old(&card).map(unusable).into_iter().chain(lacks.clone()).collect(),
        },
        // The others may be well.
        Err(error) => ListedCard {
            device: format!("cuda:{ordinal}"),
            info: DeviceInfo {
                name: "a card that does not answer".into(),
                backend: "cuda".into(),
                kind: DeviceKind::Discrete,
                driver: "CUDA".into(),
            },
            facts: Facts { index: Some(ordinal), ..Facts::default() },
            lacks: vec![unusable(error.to_string())],
        },
    };
    Ok((0..count).map(told).collect())
}

/// The compiler, or why there is none.
fn compiler() -> std::result::Result<nvrtc::Compiler, String> {
    loader::nvrtc().and_then(|_| nvrtc::Compiler::open().map_err(|error| error.to_string()))
}

/// Why the environment does not let products be computed in a precision, if it does not.
fn overridden(precision: Precision) -> Option<String> {
    precision.overridden(std::env::var("NVIDIA_TF32_OVERRIDE").ok().as_deref())
}

/// Why a card is older than the sources are for, if it is.
fn too_old(card: &Card) -> Option<String> {
    (card.architecture < OLDEST).then(|| {
        format!(
            "{} has compute capability {}.{}, and 7.5 is needed; it is reached through vulkan",
            card.name,
            card.architecture / 10,
            card.architecture % 10
        )
    })
}

fn info(card: &Card) -> DeviceInfo {
    DeviceInfo {
        name: card.name.clone(),
        backend: "cuda".into(),
        kind: if card.integrated { DeviceKind::Integrated } else { DeviceKind::Discrete },
        driver: format!("CUDA {}, sm_{}", card.facts.driver, card.architecture),
    }
}

/// What the driver and the libraries tell of a card.
fn facts(card: &Card, nvrtc: Option<String>, products: Option<&'static str>) -> Facts {
    Facts {
        index: usize::try_from(card.ordinal).ok(),
        pci: device::pci_numbers(&card.bus),
        bus: Some(card.bus.clone()),
        timestamps: true,
        subgroup: Some([CAPS.subgroup_lanes; 2]),
        card: Some(CardFacts {
            nvrtc,
            cublas: loader::cublas_version(),
            cufft: loader::cufft_version(),
            products,
            ..card.facts.clone()
        }),
    }
}

/// A card as a device.
#[derive(Clone, Debug)]
pub struct CudaBackend {
    device: Arc<Device>,
    compiler: nvrtc::Compiler,
    functions: Arc<Functions>,
    precision: Precision,
    blas: Arc<OnceLock<Blas>>,
    held: String,
}

impl CudaBackend {
    /// Opens a card by its place in the driver's list, with products in a precision.
    ///
    /// Errors: [`Error::NoDevice`] with what is missing, also where the card or the environment do not allow that precision.
    pub fn open(ordinal: usize, precision: Precision) -> Result<Self> {
        let none = |reason: String| Error::NoDevice {
            asked: format!("cuda:{ordinal}{}", precision.suffix()),
            reason,
        };
        if let Some(reason) = overridden(precision) {
            return Err(none(reason));
        }
        let cuda = loader::driver().map_err(none)?;
        let count = device::count(cuda)?;
        if ordinal >= count {
            let cards = counted(count, "card", "cards");
            return Err(none(format!("the driver knows of {cards}, numbered from 0; see `wgattn devices`")));
        }
        let card = device::card(cuda, ordinal)?;
        if let Some(reason) = too_old(&card) {
            return Err(none(reason));
        }
        if card.architecture < precision.oldest() {
            return Err(none(format!(
                "{} has compute capability {}.{}, and products in TF32 or BF16 need 8.0; ask for cuda:{ordinal}, in f32",
                card.name,
                card.architecture / 10,
                card.architecture % 10
            )));
        }
        let compiler = compiler().map_err(none)?;
        let device = Device::open(cuda, card)?;
        let (functions, blas) = Default::default();
        Ok(Self { device, compiler, functions, precision, blas, held: String::new() })
    }

    fn blas(&self) -> Result<&Blas> {
        if let Some(blas) = self.blas.get() {
            return Ok(blas);
        }
        // A failure is not kept: there may be memory for it later.
        let opened = Blas::open(&self.device, self.precision)?;
        Ok(self.blas.get_or_init(|| opened))
    }

    fn function(&self, step: &Step, action: &Action) -> Result<Arc<Function>> {
        let launch = action.launch();
        let kept = || self.functions.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(function) = kept().get(&launch.text) {
            return Ok(Arc::clone(function));
        }
        // Others may go on meanwhile; who compiles the same takes what was there first.
        let name = step.kernel.name;
        let code =
            self.compiler.compile_cached(name, launch.source, &launch.text, self.device.card.architecture)?;
        let function = Arc::new(Function::load(&self.device, name, &code.image)?);
        Ok(Arc::clone(kept().entry(launch.text.clone()).or_insert(function)))
    }

    fn ready(&self, schedule: &Schedule, step: &Step, action: &Action) -> Result<Ready> {
        let function = self.function(step, action)?;
        let library = match action {
            Action::Launch(_) => Prepared::Nothing,
            Action::Library(library, _) => {
                if *library == crate::kernel::Library::Gemm {
                    self.blas()?;
                }
                Prepared::of(&self.device, schedule, step, *library)?
            }
        };
        Ok(Ready { function, library })
    }
}

impl Backend for CudaBackend {
    fn info(&self) -> DeviceInfo {
        let info = info(&self.device.card);
        DeviceInfo { name: format!("{}{}", info.name, self.precision.in_name()), ..info }
    }

    fn facts(&self) -> Facts {
        facts(&self.device.card, Some(self.compiler.version()), Some(self.precision.word()))
    }

    fn compile(&self, graph: &Graph) -> Result<Box<dyn Program>> {
        self.device.enter()?;
        let schedule = graph.schedule(Lowering::Cuda(&CAPS))?;
        let actions = schedule
            .steps
            .iter()
            .map(|step| plan(&schedule, step, &self.held))
            .collect::<Result<Vec<_>>>()?;
        // Each new text takes the compiler a tenth of a second, on a processor of its own.
        schedule
            .steps
            .par_iter()
            .zip(&actions)
            .try_for_each(|(step, action)| self.function(step, action).map(drop))?;
        let steps = schedule
            .steps
            .iter()
            .zip(&actions)
            .map(|(step, action)| self.ready(&schedule, step, action))
            .collect::<Result<Vec<_>>>()?;
        let memory = Memory::of(&schedule, |what, bytes| Block::new(&self.device, what, bytes.max(4)))?;
        let machine = Stream::new(self.clone(), steps);
        Ok(Box::new(CudaProgram::new(machine, Work { schedule, actions, memory }, graph.clone())))
    }

    fn held_to(&self, variants: &str) -> Result<Box<dyn Backend>> {
        Ok(Box::new(Self { held: variants.into(), ..self.clone() }))
    }
}
