//! Where a stage of the work runs: on the window's device, on another one, or on the CPU; and how stages hand on numbers.
//!
//! On a device, the next stage reads the buffer that the last one wrote. On the CPU, numbers are copied.

use crate::backend::cpu::CpuBackend;
use crate::backend::wgpu::{Options, TuningOptions, WgpuBackend, WgpuProgram};
use crate::backend::{Backend, DeviceInfo, Program, Timings, cuda};
use crate::error::{Error, Result};
use crate::explorer::settings::Device;
use crate::graph::Graph;
use crate::kernel::Caps;
use crate::tensor::{HostTensor, Tensor};
use std::sync::Arc;

/// Pipelines that are kept while no stage needs them: those of a handful of settings to go back to. Each takes a software driver
/// up to 1 MiB, and there are hundreds of settings.
const IDLE_PIPELINES: usize = 24;

/// The device that draws: where textures live, and where stages run unless asked otherwise.
#[derive(Clone, Debug)]
pub struct Window {
    /// Device.
    pub device: wgpu::Device,
    /// Queue.
    pub queue: wgpu::Queue,
    /// The engine on it; none where the device has no compute shaders.
    pub backend: Option<WgpuBackend>,
    /// How variants are chosen on this device and on others.
    tuning: TuningOptions,
}

impl Window {
    /// The engine on a window's device and queue, which the window's own thread submits to as well.
    ///
    /// Errors: none for a device without compute shaders, which then only draws; others as
    /// [`WgpuBackend::with_options`].
    pub fn new(device: wgpu::Device, queue: wgpu::Queue, tuning: TuningOptions) -> Result<Self> {
        let options = Options { shared_queue: true, ..options(&tuning) };
        let backend = match WgpuBackend::with_options(device.clone(), queue.clone(), options) {
            Ok(backend) => Some(backend),
            Err(Error::Unsupported { .. }) => None,
            Err(error) => return Err(error),
        };
        Ok(Self { device, queue, backend, tuning })
    }
}

/// Options of a device that stages run on.
fn options(tuning: &TuningOptions) -> Options {
    Options { idle_pipelines: Some(IDLE_PIPELINES), tuning: tuning.clone(), ..Options::default() }
}

/// A device that stages run on.
#[derive(Clone, Debug)]
pub(super) enum Machine {
    /// A wgpu device; whether it is the window's own.
    Wgpu(WgpuBackend, bool),
    /// The f64 reference.
    Cpu,
    /// A card by CUDA.
    Cuda(Arc<dyn Backend>),
}

impl Machine {
    /// Opens what was asked for.
    ///
    /// Errors: as [`open`](crate::backend::device::open).
    pub(super) fn open(device: &Device, window: &Window) -> Result<Self> {
        match device {
            Device::Window => match &window.backend {
                Some(backend) => Ok(Self::Wgpu(backend.clone(), true)),
                None => Err(Error::Unsupported {
                    device: window.device.adapter_info().name,
                    missing: "no compute shaders; choose another device, or the CPU reference".into(),
                }),
            },
            Device::Named(name) if name.eq_ignore_ascii_case("cpu") => Ok(Self::Cpu),
            Device::Named(name) if cuda::is_asked(&name.to_lowercase()) => {
                Ok(Self::Cuda(cuda::open(&name.to_lowercase())?.into()))
            }
            Device::Named(name) => {
                use crate::backend::wgpu::{adapters, device_info, self_test};
                let list = adapters();
                let infos: Vec<_> = list.iter().map(|a| device_info(&a.get_info())).collect();
                let (index, _) = crate::backend::device::choose(&infos, name)?;
                let backend = WgpuBackend::on_adapter(&list[index], options(&window.tuning))?;
                self_test(&backend.without_tuning()).map_err(|e| Error::Unsupported {
                    device: infos[index].name.clone(),
                    missing: format!("{e}; choose another device"),
                })?;
                Ok(Self::Wgpu(backend, false))
            }
        }
    }

    pub(super) fn info(&self) -> DeviceInfo {
        match self {
            Self::Wgpu(backend, _) => backend.info(),
            Self::Cpu => CpuBackend.info(),
            Self::Cuda(backend) => backend.info(),
        }
    }

    /// What costs are reckoned with; `None` for the reference.
    pub(super) fn caps(&self) -> Option<&Caps> {
        match self {
            Self::Wgpu(backend, _) => Some(backend.caps()),
            Self::Cpu => None,
            Self::Cuda(_) => cuda::caps(),
        }
    }

    /// Whether textures made here can be drawn by the window as they are.
    pub(super) fn draws(&self) -> bool {
        matches!(self, Self::Wgpu(_, true))
    }

    /// Compiles a stage.
    pub(super) fn stage(&self, graph: &Graph, progress: &mut dyn FnMut(usize, usize)) -> Result<Stage> {
        Ok(match self {
            Self::Wgpu(backend, _) => {
                Stage::Wgpu(Box::new(backend.prepare_with(graph, &mut |done, all, _| progress(done, all))?))
            }
            Self::Cpu => Stage::Copied(CpuBackend.compile(graph)?),
            Self::Cuda(backend) => Stage::Copied(backend.compile(graph)?),
        })
    }
}

/// A compiled part of the work.
#[derive(Debug)]
pub(super) enum Stage {
    Wgpu(Box<WgpuProgram>),
    /// Its numbers come and go by way of the host: the reference, CUDA.
    Copied(Box<dyn Program>),
}

impl Stage {
    pub(super) fn program(&mut self) -> &mut dyn Program {
        match self {
            Self::Wgpu(program) => program.as_mut(),
            Self::Copied(program) => program.as_mut(),
        }
    }

    /// Lets `input` be what `from` gave as `output`. On a wgpu device once is enough; elsewhere after every run of `from`.
    pub(super) fn link(&mut self, input: Tensor, from: &mut Self, output: Tensor) -> Result<()> {
        match (&mut *self, &mut *from) {
            (Self::Wgpu(to), Self::Wgpu(from)) => {
                let (buffer, offset, _) = from.buffer(output)?;
                let bytes = output.shape().len() * output.dtype().bytes();
                to.bind(input, buffer, offset, bytes)
            }
            _ => {
                let numbers = from.program().read(output)?;
                let numbers = HostTensor::new(input.shape(), numbers.data().clone())?;
                self.program().write(input, &as_input(&numbers)?)
            }
        }
    }

    /// Runs it in parts; `None` where `watch` ended it.
    pub(super) fn run(&mut self, watch: &mut dyn FnMut(usize, usize) -> bool) -> Result<Option<Timings>> {
        self.program().run_watched(watch)
    }

    pub(super) fn is_copied(&self) -> bool {
        matches!(self, Self::Copied(_))
    }
}

/// The CPU gives f64; inputs are f32.
fn as_input(numbers: &HostTensor) -> Result<HostTensor> {
    match numbers.dtype() {
        crate::tensor::DType::F32 => HostTensor::f32(numbers.shape(), numbers.to_f32()),
        _ => Ok(numbers.clone()),
    }
}
