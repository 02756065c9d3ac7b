//! The wgpu backend: on the host's own device and queue, or headless.
//!
//! It runs on `Features::empty()` and `Limits::default()` and uses more only where the *device* has it. Inside a host's
//! frame it only encodes: it never submits, polls, blocks, writes to the queue or installs handlers.

mod adapters;
mod pipeline;
mod program;
mod readback;
mod self_test;
mod timing;
mod tune;
mod window;

use super::{Backend, DeviceInfo, DeviceKind, Program};
pub use crate::backend::cache::cache_folder;
use crate::error::{Error, Result};
use crate::graph::{Graph, Lowering};
use crate::kernel::{Caps, Driver};
pub(crate) use adapters::device_info;
pub use adapters::{AdapterReport, adapters, list_adapters};
pub use program::WgpuProgram;
pub use readback::Ticket;
pub use self_test::{SelfTestFailure, run_checks, self_test, self_test_in};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
pub use tune::{SEARCH_SECONDS, SOFTWARE_SEARCH_SECONDS, TunedChoice, TunedFile, TuningOptions};

/// Transient bytes that composed operations stay under unless told otherwise.
pub const DEFAULT_MEMORY_BUDGET: u64 = 192 << 20;

/// Pipelines that are kept although no program holds them, unless told otherwise: all that a few graphs of each kind need.
pub const DEFAULT_IDLE_PIPELINES: usize = 256;

/// Loop rounds of one invocation after which llvmpipe ends its loops, less a margin for fixed ones.
const LLVMPIPE_LOOP_ROUNDS: u64 = 65_000;

/// Called with the pipelines made so far, the pipelines in all, and the kernel's name.
pub type Progress<'a> = &'a mut dyn FnMut(usize, usize, &str);

/// What all programs of a device share.
pub(crate) struct Core {
    pub(crate) device: ::wgpu::Device,
    pub(crate) queue: ::wgpu::Queue,
    pub(crate) caps: Caps,
    pub(crate) info: DeviceInfo,
    pub(crate) software: bool,
    pub(crate) timestamps: bool,
    pub(crate) cache: Option<::wgpu::PipelineCache>,
    pub(crate) pipelines: Mutex<pipeline::Pipelines>,
    tuner: Option<tune::Tuner>,
    lost: Arc<Lost>,
    shared_queue: bool,
}

/// Time between two looks at a shared queue.
const SHARED_PAUSE: std::time::Duration = std::time::Duration::from_micros(100);

#[derive(Default)]
struct Lost {
    flag: AtomicBool,
    reason: Mutex<String>,
}

impl Lost {
    fn set(&self, reason: &str) {
        if let Ok(mut text) = self.reason.lock() {
            *text = reason.into();
        }
        self.flag.store(true, Ordering::Release);
    }
}

impl Core {
    /// Errors: [`Error::DeviceLost`] once the device is gone.
    pub(crate) fn alive(&self) -> Result<()> {
        if !self.lost.flag.load(Ordering::Acquire) {
            return Ok(());
        }
        let reason = self.lost.reason.lock().map_or_else(|_| "unknown".into(), |r| r.clone());
        Err(Error::DeviceLost { device: self.info.name.clone(), reason })
    }

    pub(crate) fn failed(&self, context: impl Into<String>, message: impl ToString) -> Error {
        match self.alive() {
            Err(lost) => lost,
            Ok(()) => Error::Device {
                device: self.info.name.clone(),
                context: context.into(),
                message: message.to_string().replace('\n', " "),
            },
        }
    }

    /// Runs something that makes wgpu objects and turns what wgpu finds wrong into an error.
    pub(crate) fn checked<T>(&self, context: &str, make: impl FnOnce() -> T) -> Result<T> {
        self.alive()?;
        let memory = self.device.push_error_scope(::wgpu::ErrorFilter::OutOfMemory);
        let validation = self.device.push_error_scope(::wgpu::ErrorFilter::Validation);
        let made = make();
        let found = [pollster::block_on(validation.pop()), pollster::block_on(memory.pop())];
        match found.into_iter().flatten().next() {
            Some(error) => Err(self.failed(context, error)),
            None => Ok(made),
        }
    }

    /// Waits for everything submitted.
    pub(crate) fn wait(&self, context: &str) -> Result<()> {
        self.wait_for(None, context)
    }

    /// Waits for one submission, or for everything submitted so far.
    ///
    /// On a shared queue by looking again and again: a wait of wgpu's with another thread looking meanwhile can end in a
    /// panic (its assertion about an empty queue), and holds up what that thread does.
    pub(crate) fn wait_for(&self, submission: Option<::wgpu::SubmissionIndex>, context: &str) -> Result<()> {
        self.alive()?;
        if !self.shared_queue {
            let wait = ::wgpu::PollType::Wait { submission_index: submission, timeout: None };
            self.device.poll(wait).map_err(|e| self.failed(context, e))?;
            return self.alive();
        }
        let done = Arc::new(AtomicBool::new(false));
        let flag = Arc::clone(&done);
        self.queue.on_submitted_work_done(move || flag.store(true, Ordering::Release));
        while !done.load(Ordering::Acquire) {
            self.device.poll(::wgpu::PollType::Poll).map_err(|e| self.failed(context, e))?;
            self.alive()?;
            std::thread::sleep(SHARED_PAUSE);
        }
        self.alive()
    }
}

impl std::fmt::Debug for Core {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Core({}, {:?})", self.info.name, self.caps)
    }
}

/// Graphs on one wgpu device. Cheap to clone.
#[derive(Clone, Debug)]
pub struct WgpuBackend {
    pub(crate) core: Arc<Core>,
    /// Variants to use whatever the driver prefers, and how long dispatches may be.
    choice: program::Choice,
}

/// Options of a backend on a given device.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// The host's pipeline cache.
    pub pipeline_cache: Option<::wgpu::PipelineCache>,
    /// Transient bytes composed operations stay under; [`DEFAULT_MEMORY_BUDGET`] if `None`.
    pub memory_budget: Option<u64>,
    /// Most pipelines that are kept for later although no program holds them; [`DEFAULT_IDLE_PIPELINES`] if `None`. A software
    /// driver needs up to 1 MiB for each.
    pub idle_pipelines: Option<usize>,
    /// Which kernel variants to prefer; recognised from the adapter's name if `None`.
    pub driver: Option<Driver>,
    /// Variants to use whatever the driver prefers: `matmul/plain,kernel_matrix/tile64`. Kernels not named are free.
    pub variants: Option<String>,
    /// Smaller limits than the device's, for tests of how work is cut: bytes of a storage binding.
    pub storage_binding: Option<u64>,
    /// Smaller limits than the device's: bytes of workgroup memory.
    pub workgroup_bytes: Option<u32>,
    /// Another thread submits to the queue too, say a window's: [`Program::run`] waits so that it is
    /// not held up.
    pub shared_queue: bool,
    /// Whether variants are chosen by measuring them, which submits and waits while a graph is prepared; never unless told otherwise.
    pub tuning: TuningOptions,
}

impl WgpuBackend {
    /// What we would like of an adapter: everything it has in limits, and timestamps and subgroups if it has them. A host
    /// may ask for less: `Features::empty()` and `Limits::default()` suffice.
    pub fn device_descriptor(adapter: &::wgpu::Adapter) -> ::wgpu::DeviceDescriptor<'static> {
        let wanted = ::wgpu::Features::TIMESTAMP_QUERY | ::wgpu::Features::SUBGROUP;
        ::wgpu::DeviceDescriptor {
            label: Some("wgattn"),
            required_features: adapter.features() & wanted,
            required_limits: adapter.limits(),
            ..Default::default()
        }
    }

    /// A backend on the host's device. Nothing is installed on it.
    ///
    /// Errors: [`Error::Unsupported`] if the device has no compute shaders.
    pub fn new(device: ::wgpu::Device, queue: ::wgpu::Queue) -> Result<Self> {
        Self::with_options(device, queue, Options::default())
    }

    /// A backend on the host's device with options.
    ///
    /// Errors: [`Error::Unsupported`] if the device has no compute shaders.
    pub fn with_options(device: ::wgpu::Device, queue: ::wgpu::Queue, options: Options) -> Result<Self> {
        let limits = device.limits();
        let features = device.features();
        let adapter = device.adapter_info();
        let info = adapters::device_info(&adapter);
        if limits.max_compute_invocations_per_workgroup == 0 {
            return Err(Error::Unsupported {
                device: info.name,
                missing: "no compute shaders; choose another adapter".into(),
            });
        }
        let driver = options.driver.unwrap_or(match info.name.to_lowercase() {
            name if name.contains("llvmpipe") => Driver::Llvmpipe,
            name if name.contains("swiftshader") => Driver::SwiftShader,
            _ => Driver::Gpu,
        });
        let binding = limits.max_storage_buffer_binding_size;
        let caps = Caps {
            driver,
            workgroup_bytes: options
                .workgroup_bytes
                .unwrap_or(u32::MAX)
                .min(limits.max_compute_workgroup_storage_size),
            invocations: limits.max_compute_invocations_per_workgroup,
            storage_binding: options.storage_binding.unwrap_or(u64::MAX).min(binding) & !3,
            buffer: limits.max_buffer_size & !3,
            storage_buffers: limits.max_storage_buffers_per_shader_stage,
            texture_rows: limits.max_texture_dimension_2d,
            storage_alignment: limits.min_storage_buffer_offset_alignment,
            groups: limits.max_compute_workgroups_per_dimension,
            loop_rounds: if driver == Driver::Llvmpipe { LLVMPIPE_LOOP_ROUNDS } else { u64::MAX },
            subgroup_lanes: match features.contains(::wgpu::Features::SUBGROUP) {
                true => adapter.subgroup_min_size,
                false => 0,
            },
            memory_budget: options.memory_budget.unwrap_or(DEFAULT_MEMORY_BUDGET),
        };
        let choice = program::Choice { variants: options.variants, ..program::Choice::default() };
        let core = Core {
            software: info.kind == DeviceKind::Software,
            timestamps: features.contains(::wgpu::Features::TIMESTAMP_QUERY),
            cache: options.pipeline_cache,
            pipelines: Mutex::new(pipeline::Pipelines::new(
                options.idle_pipelines.unwrap_or(DEFAULT_IDLE_PIPELINES),
            )),
            tuner: tune::Tuner::new(&options.tuning, &info, &adapter),
            lost: Arc::default(),
            shared_queue: options.shared_queue,
            device,
            queue,
            caps,
            info,
        };
        Ok(Self { core: Arc::new(core), choice })
    }

    /// A device of our own on an adapter; its loss is noticed without help.
    ///
    /// Errors: [`Error::NoDevice`] if the adapter refuses.
    pub fn on_adapter(adapter: &::wgpu::Adapter, options: Options) -> Result<Self> {
        let request = adapter.request_device(&Self::device_descriptor(adapter));
        let (device, queue) = pollster::block_on(request).map_err(|e| Error::NoDevice {
            asked: adapter.get_info().name,
            reason: format!("the adapter gave no device: {e}"),
        })?;
        let backend = Self::with_options(device, queue, options)?;
        let lost = Arc::clone(&backend.core.lost);
        #[expect(clippy::disallowed_methods, reason = "this device is ours, not a host's")]
        backend
            .core
            .device
            .set_device_lost_callback(move |reason, message| lost.set(&format!("{reason:?}: {message}")));
        Ok(backend)
    }

    /// A device of our own on the best adapter (discrete before integrated, virtual and software).
    ///
    /// Errors: [`Error::NoDevice`] if there is none.
    pub fn headless() -> Result<Self> {
        let best = adapters::adapters().into_iter().next().ok_or_else(|| Error::NoDevice {
            asked: "auto".into(),
            reason: "no Vulkan, Metal, DX12 or GL driver was found; install one (Debian: mesa-vulkan-drivers) or use --device cpu".into(),
        })?;
        Self::on_adapter(&best, Options::default())
    }

    /// The same device with some kernels held to given variants: `matmul/plain,kernel_matrix/tile64`.
    #[must_use]
    pub fn with_variants(&self, list: Option<String>) -> Self {
        let choice = program::Choice { variants: list, ..self.choice.clone() };
        Self { core: Arc::clone(&self.core), choice }
    }

    /// The same device with dispatches of at most so many operations (floating-point operations, an exponential counted as eight):
    /// larger ones are cut into parts of whole workgroups. `None`: uncut.
    #[must_use]
    pub fn with_most_work(&self, operations: Option<f64>) -> Self {
        let choice = program::Choice { most_work: operations, ..self.choice.clone() };
        Self { core: Arc::clone(&self.core), choice }
    }

    /// The same device without tuning: its kernels take the variants that its driver's class prefers.
    #[must_use]
    pub fn without_tuning(&self) -> Self {
        let choice = program::Choice { follow: program::Follow::Defaults, ..self.choice.clone() };
        Self { core: Arc::clone(&self.core), choice }
    }

    /// Whether variants are chosen by measuring them.
    pub fn is_tuned(&self) -> bool {
        self.core.tuner.is_some() && self.choice.follow == program::Follow::Found
    }

    /// The variants that were chosen by measuring so far, by this process and by others before it; none on a device that is not tuned.
    pub fn tuned_choices(&self) -> Vec<TunedChoice> {
        self.core.tuner.as_ref().map_or_else(Vec::new, tune::Tuner::choices)
    }

    /// The file in which they are remembered, if they are.
    pub fn tuned_file(&self) -> Option<&std::path::Path> {
        self.core.tuner.as_ref()?.file()
    }

    /// Searches now for the variants that preparing a graph would search for.
    ///
    /// Errors: a graph that does not schedule, a lost device.
    pub fn tune_with(&self, graph: &Graph, progress: Progress<'_>) -> Result<()> {
        let Some(tuner) = self.core.tuner.as_ref().filter(|_| self.is_tuned()) else { return Ok(()) };
        let schedule = graph.schedule(Lowering::Device(&self.core.caps))?;
        tuner.choose(&self.core, &schedule, &self.choice, progress).map(drop)
    }

    /// The host tells that its device was lost; from then on everything returns [`Error::DeviceLost`].
    pub fn notify_device_lost(&self, reason: &str) {
        self.core.lost.set(reason);
    }

    /// What the device offers to kernels.
    pub fn caps(&self) -> &Caps {
        &self.core.caps
    }

    /// The device.
    pub fn device(&self) -> &::wgpu::Device {
        &self.core.device
    }

    /// The queue.
    pub fn queue(&self) -> &::wgpu::Queue {
        &self.core.queue
    }

    /// Makes everything a graph needs, with progress per pipeline.
    ///
    /// Errors: as [`Backend::compile`].
    pub fn prepare_with(&self, graph: &Graph, progress: Progress<'_>) -> Result<WgpuProgram> {
        WgpuProgram::new(Arc::clone(&self.core), graph, self.choice.clone(), progress)
    }

    /// Makes everything a graph needs.
    ///
    /// Errors: as [`Backend::compile`].
    pub fn prepare(&self, graph: &Graph) -> Result<WgpuProgram> {
        self.prepare_with(graph, &mut |_, _, _| {})
    }

    /// Makes and keeps the pipelines of several graphs, so that preparing them later is quick: up to
    /// [`Options::idle_pipelines`] of them.
    ///
    /// Errors: as [`Backend::compile`].
    pub fn precompile(&self, graphs: &[&Graph], progress: Progress<'_>) -> Result<()> {
        graphs.iter().try_for_each(|graph| self.prepare_with(graph, progress).map(drop))
    }
}

impl Backend for WgpuBackend {
    fn info(&self) -> DeviceInfo {
        self.core.info.clone()
    }

    fn compile(&self, graph: &Graph) -> Result<Box<dyn Program>> {
        Ok(Box::new(self.prepare(graph)?))
    }

    fn tune(&self, graph: &Graph) -> Result<()> {
        self.tune_with(graph, &mut |_, _, _| {})
    }

    fn untuned(&self) -> Option<Box<dyn Backend>> {
        self.is_tuned().then(|| Box::new(self.without_tuning()) as Box<dyn Backend>)
    }

    fn device_caps(&self) -> Option<&Caps> {
        Some(self.caps())
    }

    fn held_to(&self, variants: &str) -> Result<Box<dyn Backend>> {
        Ok(Box::new(self.with_variants(Some(variants.into()))))
    }

    fn cut_to(&self, operations: f64) -> Option<Box<dyn Backend>> {
        Some(Box::new(self.with_most_work(Some(operations))))
    }
}
