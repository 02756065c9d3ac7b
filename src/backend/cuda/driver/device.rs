#![allow(unsafe_code, reason = "the CUDA driver is a C library")]
//! A card: its context, its stream, its memory, and what its errors mean.

use crate::backend::cuda::program;
use crate::backend::device::CardFacts;
use crate::error::{Error, Result};
use cudarc::driver::{result, sys};
use std::ffi::{CStr, c_void};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};
use std::time::Duration;

/// What a card is.
#[derive(Clone, Debug)]
pub(super) struct Card {
    pub(super) ordinal: i32,
    pub(super) name: String,
    /// 80 for compute capability 8.0.
    pub(super) architecture: i32,
    /// `0000:65:00.0`.
    pub(super) bus: String,
    /// Whether it shares the memory of the system, as on a Jetson.
    pub(super) integrated: bool,
    /// What else the driver says of it; nothing of libraries.
    pub(super) facts: CardFacts,
}

/// PCI vendor and device number of what sits at `bus`, where the system tells.
pub(super) fn pci_numbers(bus: &str) -> Option<String> {
    let number = |name: &str| {
        let text = std::fs::read_to_string(format!("/sys/bus/pci/devices/{bus}/{name}")).ok()?;
        Some(text.trim().strip_prefix("0x")?.to_string())
    };
    Some(format!("{}:{}", number("vendor")?, number("device")?))
}

/// All cards, in the driver's order. The driver has been initialised.
///
/// Errors: as the driver says.
pub(super) fn cards() -> Result<Vec<Card>> {
    let say = |e: result::DriverError| refused("CUDA", "list of cards", e);
    let mut version = 0;
    // SAFETY: writes one integer.
    unsafe { sys::cuDriverGetVersion(&raw mut version) }.result().map_err(say)?;
    let count = result::device::get_count().map_err(say)?;
    (0..count)
        .map(|ordinal| {
            let device = result::device::get(ordinal).map_err(say)?;
            let attribute = |which| {
                // SAFETY: the device is one of the driver's.
                unsafe { result::device::get_attribute(device, which) }.map_err(say)
            };
            use sys::CUdevice_attribute as Attribute;
            let major = attribute(Attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR)?;
            let minor = attribute(Attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR)?;
            let mut bus = [0_i8; 32];
            // SAFETY: writes at most as many bytes as it is told, a zero included.
            unsafe { sys::cuDeviceGetPCIBusId(bus.as_mut_ptr().cast(), 32, device) }.result().map_err(say)?;
            // What a driver does not tell is no reason to do without the card; 0 of anything is not told.
            let told = |which, unit: u64| {
                attribute(which).ok().and_then(|n| u64::try_from(n).ok()).filter(|n| *n > 0).map(|n| n * unit)
            };
            // SAFETY: the device is one of the driver's.
            let memory_bytes = unsafe { result::device::total_mem(device) }.ok().map(|bytes| bytes as u64);
            let facts = CardFacts {
                compute_capability: [major, minor].map(i32::unsigned_abs),
                multiprocessors: told(Attribute::CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, 1),
                memory_bytes,
                l2_bytes: told(Attribute::CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE, 1),
                clock_hz: told(Attribute::CU_DEVICE_ATTRIBUTE_CLOCK_RATE, 1000),
                memory_clock_hz: told(Attribute::CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE, 1000),
                memory_bus_bits: told(Attribute::CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH, 1),
                driver: format!("{}.{}", version / 1000, version % 1000 / 10),
                ..CardFacts::default()
            };
            // SAFETY: the driver ended it with a zero.
            let bus = unsafe { CStr::from_ptr(bus.as_ptr().cast()) }.to_string_lossy().to_lowercase();
            Ok(Card {
                ordinal,
                name: result::device::get_name(device).map_err(say)?,
                architecture: 10 * major + minor,
                bus,
                integrated: told(Attribute::CU_DEVICE_ATTRIBUTE_INTEGRATED, 1).is_some(),
                facts,
            })
        })
        .collect()
}

/// An error of the driver that the device survives.
fn refused(device: &str, context: &str, error: result::DriverError) -> Error {
    Error::Device { device: device.into(), context: context.into(), message: format!("{error:?}") }
}

/// Whether an error leaves its context unusable for good.
fn ends_context(status: sys::CUresult) -> bool {
    use sys::CUresult as Status;
    matches!(
        status,
        Status::CUDA_ERROR_ILLEGAL_ADDRESS
            | Status::CUDA_ERROR_MISALIGNED_ADDRESS
            | Status::CUDA_ERROR_INVALID_ADDRESS_SPACE
            | Status::CUDA_ERROR_INVALID_PC
            | Status::CUDA_ERROR_ILLEGAL_INSTRUCTION
            | Status::CUDA_ERROR_HARDWARE_STACK_ERROR
            | Status::CUDA_ERROR_LAUNCH_FAILED
            | Status::CUDA_ERROR_LAUNCH_TIMEOUT
            | Status::CUDA_ERROR_ASSERT
            | Status::CUDA_ERROR_ECC_UNCORRECTABLE
            | Status::CUDA_ERROR_CONTEXT_IS_DESTROYED
            | Status::CUDA_ERROR_DEINITIALIZED
            | Status::CUDA_ERROR_DEVICE_UNAVAILABLE
    )
}

/// Whether an error says that code was made for another driver or card than loads it.
fn is_foreign(status: sys::CUresult) -> bool {
    use sys::CUresult as Status;
    matches!(
        status,
        Status::CUDA_ERROR_INVALID_IMAGE
            | Status::CUDA_ERROR_INVALID_PTX
            | Status::CUDA_ERROR_UNSUPPORTED_PTX_VERSION
            | Status::CUDA_ERROR_NO_BINARY_FOR_GPU
            | Status::CUDA_ERROR_JIT_COMPILER_NOT_FOUND
    )
}

/// How many devices were lost and are still held by somebody, and who waits for them to go: a card has one primary context, and what ended it
/// ends with the last of them.
static LOST: (Mutex<usize>, Condvar) = (Mutex::new(0), Condvar::new());

/// How long a card that is opened again waits for them: whoever works with one gets an error at its next call.
const FAREWELL: Duration = Duration::from_secs(5);

/// Waits until no lost device is held; whether that came to pass.
fn lost_are_gone() -> bool {
    let count = LOST.0.lock().unwrap_or_else(PoisonError::into_inner);
    let waited = LOST.1.wait_timeout_while(count, FAREWELL, |count| *count > 0);
    *waited.unwrap_or_else(PoisonError::into_inner).0 == 0
}

/// An opened card: its primary context with a stream of our own.
#[derive(Debug)]
pub(super) struct Device {
    pub(super) card: Card,
    device: sys::CUdevice,
    context: sys::CUcontext,
    pub(super) stream: sys::CUstream,
    lost: AtomicBool,
    /// Whoever captures has the stream alone: what other threads put on it meanwhile would be captured too, and waiting would spoil it.
    turns: RwLock<()>,
}

// SAFETY: contexts and streams may be used from any thread that has made the context current, which every use here does first.
unsafe impl Send for Device {}
// SAFETY: as above; the driver guards itself.
unsafe impl Sync for Device {}

impl Device {
    /// Errors: as the driver says.
    pub(super) fn open(card: Card) -> Result<Arc<Self>> {
        let say = |e: result::DriverError| match ends_context(e.0) {
            // There is one context for a card, so an error that was left in it meets whoever opens the card again.
            true => Error::Device {
                device: card.name.clone(),
                context: "opening".into(),
                message: format!(
                    "{e:?} is left from before, and NVIDIA's driver may keep it until the program is started again"
                ),
            },
            false => refused(&card.name, "opening", e),
        };
        let device = result::device::get(card.ordinal).map_err(say)?;
        let (context, stream) = match Self::entered(device) {
            Err(error) if ends_context(error.0) && lost_are_gone() => Self::entered(device),
            entered => entered,
        }
        .map_err(say)?;
        let (lost, turns) = Default::default();
        Ok(Arc::new(Self { card, device, context, stream, lost, turns }))
    }

    /// A card's context, retained and current, with a new stream.
    fn entered(
        device: sys::CUdevice,
    ) -> std::result::Result<(sys::CUcontext, sys::CUstream), result::DriverError> {
        // SAFETY: the device is one of the driver's; it is released here, or when `Self` is dropped.
        let context = unsafe { result::primary_ctx::retain(device) }?;
        // SAFETY: the context has just been retained.
        let made = unsafe { result::ctx::set_current(context) }
            .and_then(|()| result::stream::create(result::stream::StreamKind::NonBlocking));
        made.map(|stream| (context, stream)).inspect_err(|_| {
            // SAFETY: nobody uses it; what went wrong before is what the caller hears.
            let _ = unsafe { result::primary_ctx::release(device) };
        })
    }

    /// Makes the card this thread's.
    ///
    /// Errors: [`Error::DeviceLost`].
    pub(super) fn enter(&self) -> Result<()> {
        if self.lost.load(Ordering::Acquire) {
            return Err(self.loss("an earlier error"));
        }
        // SAFETY: the context is retained as long as `self` lives.
        self.check("making the card current", unsafe { result::ctx::set_current(self.context) })
    }

    fn loss(&self, reason: &str) -> Error {
        Error::DeviceLost { device: self.card.name.clone(), reason: reason.into() }
    }

    /// What a status of the driver means here: some leave the context unusable for good.
    ///
    /// Errors: [`Error::DeviceLost`] for these, [`Error::Device`] for others.
    pub(super) fn check<T>(
        &self,
        context: &str,
        result: std::result::Result<T, result::DriverError>,
    ) -> Result<T> {
        result.map_err(|error| {
            if ends_context(error.0) {
                if !self.lost.swap(true, Ordering::AcqRel) {
                    *LOST.0.lock().unwrap_or_else(PoisonError::into_inner) += 1;
                }
                self.loss(&format!("{context}: {error:?}"))
            } else {
                refused(&self.card.name, context, error)
            }
        })
    }

    /// A failure of cuBLAS or cuFFT at work, whose own statuses hide what the driver says: a lost device is told as such.
    pub(super) fn library_failed(&self, context: &str, error: impl std::fmt::Debug) -> Error {
        // Not `wait`: whoever captures has the stream already, and a capture that this spoils has failed anyhow.
        // SAFETY: the stream lives as long as `self`.
        match self.check(context, unsafe { result::stream::synchronize(self.stream) }) {
            Err(lost @ Error::DeviceLost { .. }) => lost,
            _ => self.failed(context, error),
        }
    }

    /// A failure of a library for want of memory; it does not tell how much it wanted.
    pub(super) fn exhausted(&self, context: &str, error: impl std::fmt::Debug) -> Error {
        let free = result::mem_get_info().map_or(0, |(free, _)| free);
        Error::Device {
            device: self.card.name.clone(),
            context: context.into(),
            message: format!(
                "{error:?}: the library finds no room in the memory of the card, of which {free} bytes are free; use fewer tokens or heads, \
                 or close what else uses the card"
            ),
        }
    }

    /// The stream, among others that put something on it or wait for it.
    pub(super) fn shared(&self) -> RwLockReadGuard<'_, ()> {
        self.turns.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// The stream, alone.
    fn alone(&self) -> RwLockWriteGuard<'_, ()> {
        self.turns.write().unwrap_or_else(PoisonError::into_inner)
    }

    /// A failure of a library.
    pub(super) fn failed(&self, context: &str, error: impl std::fmt::Debug) -> Error {
        Error::Device {
            device: self.card.name.clone(),
            context: context.into(),
            message: format!("{error:?}"),
        }
    }

    /// Waits for everything on the stream.
    ///
    /// Errors: as [`Self::check`].
    pub(super) fn wait(&self, context: &str) -> Result<()> {
        let _turn = self.shared();
        // SAFETY: the stream lives as long as `self`.
        self.check(context, unsafe { result::stream::synchronize(self.stream) })
    }
}

impl Drop for Device {
    fn drop(&mut self) {
        // SAFETY: nobody uses them any more; errors have nobody left to hear them.
        unsafe {
            let _ = result::ctx::set_current(self.context);
            let _ = result::stream::destroy(self.stream);
            let _ = result::primary_ctx::release(self.device);
        }
        if *self.lost.get_mut() {
            *LOST.0.lock().unwrap_or_else(PoisonError::into_inner) -= 1;
            LOST.1.notify_all();
        }
    }
}

/// Memory on a card: plain, never managed.
#[derive(Debug)]
pub(super) struct Block {
    device: Arc<Device>,
    pub(super) at: sys::CUdeviceptr,
}

impl Block {
    /// Errors: [`Error::Limit`] where the card has no more.
    pub(super) fn new(device: &Arc<Device>, what: &str, bytes: u64) -> Result<Self> {
        device.enter()?;
        let size = usize::try_from(bytes).unwrap_or(usize::MAX);
        // SAFETY: freed when it is dropped.
        match unsafe { result::malloc_sync(size) } {
            Ok(at) => Ok(Self { device: Arc::clone(device), at }),
            Err(error) if error.0 == sys::CUresult::CUDA_ERROR_OUT_OF_MEMORY => Err(Error::Limit {
                what: format!("{what} in the memory of {}", device.card.name),
                requested: bytes,
                allowed: result::mem_get_info().map_or(0, |(free, _)| free as u64),
                remedy: "use fewer tokens or heads, or close what else uses the card".into(),
            }),
            Err(error) => device.check(what, Err(error)),
        }
    }
}

impl program::Block for Block {
    fn clear(&mut self, bytes: u64) -> Result<()> {
        self.device.enter()?;
        if bytes == 0 {
            return Ok(());
        }
        {
            let _turn = self.device.shared();
            // SAFETY: callers stay inside the block.
            let cleared = unsafe { result::memset_d8_async(self.at, 0, bytes as usize, self.device.stream) };
            self.device.check("clearing", cleared)?;
        }
        self.device.wait("clearing")
    }

    fn write(&mut self, at: u64, bytes: &[u8]) -> Result<()> {
        self.device.enter()?;
        if bytes.is_empty() {
            return Ok(());
        }
        {
            let _turn = self.device.shared();
            // SAFETY: callers stay inside the block; the host's bytes live until the copy has been waited for.
            let copied = unsafe { result::memcpy_htod_async(self.at + at, bytes, self.device.stream) };
            self.device.check("upload", copied)?;
        }
        self.device.wait("upload")
    }

    fn read(&self, at: u64, bytes: &mut [u8]) -> Result<()> {
        self.device.enter()?;
        if bytes.is_empty() {
            return Ok(());
        }
        {
            let _turn = self.device.shared();
            // SAFETY: as for `write`.
            let copied = unsafe { result::memcpy_dtoh_async(bytes, self.at + at, self.device.stream) };
            self.device.check("readback", copied)?;
        }
        self.device.wait("readback")
    }
}

impl Drop for Block {
    fn drop(&mut self) {
        if self.device.enter().is_ok() {
            // SAFETY: nobody uses it any more.
            let _ = unsafe { result::free_sync(self.at) };
        }
    }
}

/// A moment on the stream.
#[derive(Debug)]
pub(super) struct Event {
    device: Arc<Device>,
    event: sys::CUevent,
}

// SAFETY: events may be used from any thread that has made their context current.
unsafe impl Send for Event {}

impl Event {
    /// Now.
    ///
    /// Errors: as the driver says.
    pub(super) fn record(device: &Arc<Device>) -> Result<Self> {
        let made = result::event::create(sys::CUevent_flags::CU_EVENT_DEFAULT);
        let event = Self { device: Arc::clone(device), event: device.check("timing", made)? };
        let _turn = device.shared();
        // SAFETY: event and stream are alive.
        device.check("timing", unsafe { result::event::record(event.event, device.stream) })?;
        Ok(event)
    }

    /// Seconds until a later one, both being over.
    ///
    /// Errors: as the driver says.
    pub(super) fn seconds_to(&self, later: &Self) -> Result<f64> {
        // SAFETY: both are alive and were recorded on one stream.
        let milliseconds = unsafe { result::event::elapsed(self.event, later.event) };
        Ok(f64::from(self.device.check("timing", milliseconds)?) * 1e-3)
    }
}

impl Drop for Event {
    fn drop(&mut self) {
        // SAFETY: nobody uses it any more.
        let _ = unsafe { result::event::destroy(self.event) };
    }
}

/// A loaded kernel.
#[derive(Debug)]
pub(super) struct Function {
    device: Arc<Device>,
    module: sys::CUmodule,
    function: sys::CUfunction,
}

// SAFETY: modules may be used from any thread that has made their context current.
unsafe impl Send for Function {}
// SAFETY: as above.
unsafe impl Sync for Function {}

impl Function {
    /// Errors: as the driver says.
    pub(super) fn load(device: &Arc<Device>, name: &str, image: &[u8]) -> Result<Self> {
        device.enter()?;
        // SAFETY: the image is a cubin, or PTX that ends with a zero, as NVRTC made it.
        let module = match unsafe { result::module::load_data(image.as_ptr().cast()) } {
            Err(error) if is_foreign(error.0) => return Err(device.failed(
                name,
                format_args!(
                    "{error:?}: the driver, for CUDA {}, does not take what the NVRTC found here makes; update the driver, or install the \
                     NVRTC of its version",
                    device.card.facts.driver
                ),
            )),
            loaded => device.check(name, loaded)?,
        };
        let entry = std::ffi::CString::new(name).map_err(|e| device.failed(name, e))?;
        // SAFETY: the module has just been loaded.
        let function = unsafe { result::module::get_function(module, entry) };
        match function {
            Ok(function) => Ok(Self { device: Arc::clone(device), module, function }),
            Err(error) => {
                // SAFETY: nobody has used it.
                let _ = unsafe { result::module::unload(module) };
                device.check(name, Err(error))
            }
        }
    }

    /// Launches it on the stream: the bytes of `Params`, then a pointer per port.
    ///
    /// Errors: as [`Device::check`], with the kernel's name.
    ///
    /// # Safety
    ///
    /// `pointers` are zero or the beginnings of tensors of the kernel's ports, on this card, in port order.
    pub(super) unsafe fn launch(
        &self,
        context: &str,
        blocks: u32,
        threads: u32,
        params: &mut [u32],
        pointers: &mut [sys::CUdeviceptr],
    ) -> Result<()> {
        let first: *mut c_void = params.as_mut_ptr().cast();
        let others = pointers.iter_mut().map(|p| std::ptr::from_mut(p).cast());
        let mut arguments: Vec<*mut c_void> = std::iter::once(first).chain(others).collect();
        // SAFETY: the caller's promise; the driver copies the arguments before it returns.
        let launched = unsafe {
            result::launch_kernel(
                self.function,
                (blocks, 1, 1),
                (threads, 1, 1),
                0,
                self.device.stream,
                &mut arguments,
            )
        };
        self.device.check(context, launched)
    }
}

impl Drop for Function {
    fn drop(&mut self) {
        if self.device.enter().is_ok() {
            // SAFETY: nobody uses it any more.
            let _ = unsafe { result::module::unload(self.module) };
        }
    }
}

/// A captured run, to be played again.
#[derive(Debug)]
pub(super) struct Replay {
    device: Arc<Device>,
    graph: sys::CUgraph,
    ready: sys::CUgraphExec,
}

// SAFETY: graphs are used by one thread at a time: their program is.
unsafe impl Send for Replay {}

impl Replay {
    /// Captures what `record` puts on the stream, which does not run yet. `record` neither waits nor asks for the stream: it has it.
    ///
    /// Errors: those of `record`, and as the driver says.
    pub(super) fn capture(device: &Arc<Device>, record: impl FnOnce() -> Result<()>) -> Result<Self> {
        let mode = sys::CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_THREAD_LOCAL;
        let turn = device.alone();
        // SAFETY: the stream lives as long as the device.
        device.check("capture", unsafe { result::stream::begin_capture(device.stream, mode) })?;
        let recorded = record();
        // The capture must end whatever came of it, or the stream stays unusable.
        // SAFETY: it has begun above.
        let graph = unsafe { result::stream::end_capture(device.stream) };
        drop(turn);
        if let Err(error) = recorded {
            if let Ok(graph) = graph {
                // SAFETY: nobody uses what was captured until then.
                let _ = unsafe { result::graph::destroy(graph) };
            }
            return Err(error);
        }
        let graph = device.check("capture", graph)?;
        // SAFETY: the graph has just been made.
        match unsafe { result::graph::instantiate(graph, sys::CUgraphInstantiate_flags(0)) } {
            Ok(ready) => Ok(Self { device: Arc::clone(device), graph, ready }),
            Err(error) => {
                // SAFETY: nobody uses it.
                let _ = unsafe { result::graph::destroy(graph) };
                device.check("capture", Err(error))
            }
        }
    }

    /// Plays it.
    ///
    /// Errors: as [`Device::check`].
    pub(super) fn play(&self) -> Result<()> {
        let _turn = self.device.shared();
        // SAFETY: graph and stream are alive.
        self.device.check("replay", unsafe { result::graph::launch(self.ready, self.device.stream) })
    }
}

impl Drop for Replay {
    fn drop(&mut self) {
        if self.device.enter().is_ok() {
            // SAFETY: nobody uses them any more.
            unsafe {
                let _ = result::graph::exec_destroy(self.ready);
                let _ = result::graph::destroy(self.graph);
            }
        }
    }
}
