#![allow(unsafe_code, reason = "the CUDA driver is a C library")]
//! A card: its context, its stream, its memory, and what its errors mean.

use super::loader;
use super::sys::{Answer, Driver, Refusal};
use crate::backend::cuda::program;
use crate::backend::device::CardFacts;
use crate::error::{Error, Result};
use cudarc::driver::sys;
use std::ffi::{CStr, CString, c_int, c_void};
use std::fmt::Display;
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

/// A text that the driver writes into a buffer, up to the zero that it ends it with.
fn told_by(
    write: impl FnOnce(*mut std::ffi::c_char, c_int) -> Answer,
) -> std::result::Result<String, Refusal> {
    let mut bytes = [0_u8; 256];
    write(bytes.as_mut_ptr().cast(), 256)?;
    let text = CStr::from_bytes_until_nul(&bytes).map(CStr::to_string_lossy);
    Ok(text.map(|text| text.trim().to_string()).unwrap_or_default())
}

/// How many cards the driver knows of.
///
/// Errors: as the driver says.
pub(super) fn count(cuda: &Driver) -> Result<usize> {
    let mut count = 0;
    // SAFETY: writes one integer.
    unsafe { cuda.cuDeviceGetCount(&raw mut count) }.map_err(|e| refused("CUDA", "number of cards", &e))?;
    Ok(usize::try_from(count).unwrap_or(0))
}

/// A card by its place in the driver's list, below [`count`]. Others are not asked.
///
/// Errors: as the driver says.
pub(super) fn card(cuda: &Driver, ordinal: usize) -> Result<Card> {
    let mut version = 0;
    // SAFETY: writes one integer.
    let asked = unsafe { cuda.cuDriverGetVersion(&raw mut version) };
    let ordinal = c_int::try_from(ordinal).unwrap_or(c_int::MAX);
    let read = asked.and_then(|()| read_card(cuda, ordinal, version));
    read.map_err(|e| refused(&format!("cuda:{ordinal}"), "what the card is", &e))
}

fn read_card(cuda: &Driver, ordinal: c_int, version: c_int) -> std::result::Result<Card, Refusal> {
    use sys::CUdevice_attribute as Attribute;
    let mut device = 0;
    // SAFETY: writes one integer.
    unsafe { cuda.cuDeviceGet(&raw mut device, ordinal) }?;
    let attribute = |which| {
        let mut value = 0;
        // SAFETY: writes one integer.
        unsafe { cuda.cuDeviceGetAttribute(&raw mut value, which, device) }.map(|()| value)
    };
    let major = attribute(Attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR)?;
    let minor = attribute(Attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR)?;
    // What a driver does not tell is no reason to do without the card; 0 of anything is not told.
    let told = |which, unit: u64| {
        attribute(which).ok().and_then(|n| u64::try_from(n).ok()).filter(|n| *n > 0).map(|n| n * unit)
    };
    let mut memory = 0;
    // SAFETY: writes one integer.
    let memory_told = unsafe { cuda.cuDeviceTotalMem_v2(&raw mut memory, device) };
    let facts = CardFacts {
        compute_capability: [major, minor].map(i32::unsigned_abs),
        multiprocessors: told(Attribute::CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, 1),
        memory_bytes: memory_told.ok().map(|()| memory as u64),
        l2_bytes: told(Attribute::CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE, 1),
        clock_hz: told(Attribute::CU_DEVICE_ATTRIBUTE_CLOCK_RATE, 1000),
        memory_clock_hz: told(Attribute::CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE, 1000),
        memory_bus_bits: told(Attribute::CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH, 1),
        driver: loader::told(version),
        ..CardFacts::default()
    };
    // SAFETY: each writes at most as many bytes as it is told, a zero included.
    let name = told_by(|text, length| unsafe { cuda.cuDeviceGetName(text, length, device) })?;
    // SAFETY: as above.
    let bus = told_by(|text, length| unsafe { cuda.cuDeviceGetPCIBusId(text, length, device) })?;
    let integrated = told(Attribute::CU_DEVICE_ATTRIBUTE_INTEGRATED, 1).is_some();
    let bus = bus.to_lowercase();
    Ok(Card { ordinal, name, architecture: 10 * major + minor, bus, integrated, facts })
}

/// An error of the driver that the device survives.
fn refused(device: &str, context: &str, refusal: &Refusal) -> Error {
    Error::Device { device: device.into(), context: context.into(), message: format!("{refusal:?}") }
}

/// Whether an error is one of these.
fn is_among(refusal: &Refusal, list: &[sys::CUresult]) -> bool {
    list.iter().any(|status| *status as c_int == refusal.code)
}

/// Whether an error leaves its context unusable for good, by the driver's documents.
fn ends_context(refusal: &Refusal) -> bool {
    use sys::CUresult as Status;
    is_among(
        refusal,
        &[
            Status::CUDA_ERROR_DEINITIALIZED,
            Status::CUDA_ERROR_ECC_UNCORRECTABLE,
            Status::CUDA_ERROR_NVLINK_UNCORRECTABLE,
            Status::CUDA_ERROR_CONTAINED,
            Status::CUDA_ERROR_ILLEGAL_ADDRESS,
            Status::CUDA_ERROR_LAUNCH_TIMEOUT,
            Status::CUDA_ERROR_CONTEXT_IS_DESTROYED,
            Status::CUDA_ERROR_ASSERT,
            Status::CUDA_ERROR_HARDWARE_STACK_ERROR,
            Status::CUDA_ERROR_ILLEGAL_INSTRUCTION,
            Status::CUDA_ERROR_MISALIGNED_ADDRESS,
            Status::CUDA_ERROR_INVALID_ADDRESS_SPACE,
            Status::CUDA_ERROR_INVALID_PC,
            Status::CUDA_ERROR_LAUNCH_FAILED,
            Status::CUDA_ERROR_TENSOR_MEMORY_LEAK,
            Status::CUDA_ERROR_EXTERNAL_DEVICE,
        ],
    )
}

/// Whether an error says that code was made for another driver or card than loads it.
fn is_foreign(refusal: &Refusal) -> bool {
    use sys::CUresult as Status;
    is_among(
        refusal,
        &[
            Status::CUDA_ERROR_INVALID_IMAGE,
            Status::CUDA_ERROR_INVALID_PTX,
            Status::CUDA_ERROR_UNSUPPORTED_PTX_VERSION,
            Status::CUDA_ERROR_NO_BINARY_FOR_GPU,
            Status::CUDA_ERROR_JIT_COMPILER_NOT_FOUND,
        ],
    )
}

/// Whether an error is about the call that it answers and nothing else.
fn is_of_the_call(refusal: &Refusal) -> bool {
    use sys::CUresult as Status;
    is_among(
        refusal,
        &[
            Status::CUDA_ERROR_INVALID_VALUE,
            Status::CUDA_ERROR_OUT_OF_MEMORY,
            Status::CUDA_ERROR_INVALID_HANDLE,
            Status::CUDA_ERROR_NOT_FOUND,
            Status::CUDA_ERROR_NOT_SUPPORTED,
            Status::CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES,
        ],
    ) || is_foreign(refusal)
        // Those of captures.
        || (900..=908).contains(&refusal.code)
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
pub(super) struct Device {
    pub(super) card: Card,
    pub(super) cuda: &'static Driver,
    device: sys::CUdevice,
    context: sys::CUcontext,
    pub(super) stream: sys::CUstream,
    lost: AtomicBool,
    /// Whoever captures has the stream alone: what other threads put on it meanwhile would be captured too, and waiting would spoil it.
    turns: RwLock<()>,
}

impl std::fmt::Debug for Device {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Device").field("card", &self.card).finish_non_exhaustive()
    }
}

// SAFETY: contexts and streams may be used from any thread that has made the context current, which every use here does first.
unsafe impl Send for Device {}
// SAFETY: as above; the driver guards itself.
unsafe impl Sync for Device {}

impl Device {
    /// Errors: as the driver says.
    pub(super) fn open(cuda: &'static Driver, card: Card) -> Result<Arc<Self>> {
        let say = |e: Refusal| {
            let unavailable = is_among(&e, &[sys::CUresult::CUDA_ERROR_DEVICE_UNAVAILABLE]);
            let message = match ends_context(&e) {
                // There is one context for a card, so an error that was left in it meets whoever opens the card again.
                true => format!(
                    "{e:?} is left from before, and NVIDIA's driver may keep it until the program is started again"
                ),
                false if unavailable => format!(
                    "{e:?}: another program may have the card for itself (`nvidia-smi -q -d COMPUTE` tells), or its administrator \
                     allows no computing on it"
                ),
                false => format!("{e:?}"),
            };
            Error::Device { device: card.name.clone(), context: "opening".into(), message }
        };
        let mut device = 0;
        // SAFETY: writes one integer.
        unsafe { cuda.cuDeviceGet(&raw mut device, card.ordinal) }.map_err(say)?;
        let (context, stream) = match Self::entered(cuda, device) {
            Err(error) if ends_context(&error) && lost_are_gone() => Self::entered(cuda, device),
            entered => entered,
        }
        .map_err(say)?;
        let (lost, turns) = Default::default();
        Ok(Arc::new(Self { card, cuda, device, context, stream, lost, turns }))
    }

    /// A card's context, retained and current, with a new stream.
    fn entered(
        cuda: &Driver,
        device: sys::CUdevice,
    ) -> std::result::Result<(sys::CUcontext, sys::CUstream), Refusal> {
        let (mut context, mut stream) = (std::ptr::null_mut(), std::ptr::null_mut());
        // One that waits for nobody else's.
        let flags = sys::CUstream_flags::CU_STREAM_NON_BLOCKING as u32;
        // SAFETY: the device is one of the driver's; its context is released here, or when `Self` is dropped.
        unsafe { cuda.cuDevicePrimaryCtxRetain(&raw mut context, device) }?;
        // SAFETY: the context has just been retained.
        let made = unsafe {
            cuda.cuCtxSetCurrent(context).and_then(|()| cuda.cuStreamCreate(&raw mut stream, flags))
        };
        made.map(|()| (context, stream)).inspect_err(|_| {
            // SAFETY: nobody uses it; what went wrong before is what the caller hears.
            let _ = unsafe { cuda.cuDevicePrimaryCtxRelease_v2(device) };
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
        self.check("making the card current", unsafe { self.cuda.cuCtxSetCurrent(self.context) })
    }

    fn loss(&self, reason: &str) -> Error {
        Error::DeviceLost { device: self.card.name.clone(), reason: reason.into() }
    }

    /// What an answer of the driver means here: some errors leave the context unusable for good, and any that is not of the call alone
    /// does if it is still there when the stream is asked again.
    ///
    /// Errors: [`Error::DeviceLost`] for these, [`Error::Device`] for others.
    pub(super) fn check(&self, context: impl Display, answer: Answer) -> Result<()> {
        answer.map_err(|refusal| {
            let stays = || {
                // SAFETY: the stream lives as long as `self`.
                let again = unsafe { self.cuda.cuStreamSynchronize(self.stream) };
                again.is_err_and(|again| again.code == refusal.code || ends_context(&again))
            };
            if ends_context(&refusal) || (!is_of_the_call(&refusal) && stays()) {
                if !self.lost.swap(true, Ordering::AcqRel) {
                    *LOST.0.lock().unwrap_or_else(PoisonError::into_inner) += 1;
                }
                self.loss(&format!("{context}: {refusal:?}"))
            } else {
                refused(&self.card.name, &context.to_string(), &refusal)
            }
        })
    }

    /// A failure of cuBLAS or cuFFT at work, whose own statuses hide what the driver says: a lost device is told as such.
    pub(super) fn library_failed(&self, context: impl Display, error: impl std::fmt::Debug) -> Error {
        // Not `wait`: whoever captures has the stream already, and a capture that this spoils has failed anyhow.
        // SAFETY: the stream lives as long as `self`.
        match self.check(&context, unsafe { self.cuda.cuStreamSynchronize(self.stream) }) {
            Err(lost @ Error::DeviceLost { .. }) => lost,
            _ => self.failed(context, error),
        }
    }

    /// A failure of a library for want of memory; it does not tell how much it wanted.
    pub(super) fn exhausted(&self, context: impl Display, error: impl std::fmt::Debug) -> Error {
        let free = self.free();
        Error::Device {
            device: self.card.name.clone(),
            context: context.to_string(),
            message: format!(
                "{error:?}: the library finds no room in the memory of the card, of which {free} bytes are free; use fewer tokens or heads, \
                 or close what else uses the card"
            ),
        }
    }

    /// Bytes of its memory that are free; 0 where the driver does not tell.
    fn free(&self) -> u64 {
        let (mut free, mut all) = (0, 0);
        // SAFETY: writes two integers.
        let asked = unsafe { self.cuda.cuMemGetInfo_v2(&raw mut free, &raw mut all) };
        asked.map_or(0, |()| free as u64)
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
    pub(super) fn failed(&self, context: impl Display, error: impl std::fmt::Debug) -> Error {
        Error::Device {
            device: self.card.name.clone(),
            context: context.to_string(),
            message: format!("{error:?}"),
        }
    }

    /// Waits for everything on the stream.
    ///
    /// Errors: as [`Self::check`].
    pub(super) fn wait(&self, context: impl Display) -> Result<()> {
        let _turn = self.shared();
        // SAFETY: the stream lives as long as `self`.
        self.check(context, unsafe { self.cuda.cuStreamSynchronize(self.stream) })
    }
}

impl Drop for Device {
    fn drop(&mut self) {
        // SAFETY: nobody uses them any more; errors have nobody left to hear them.
        unsafe {
            let _ = self.cuda.cuCtxSetCurrent(self.context);
            let _ = self.cuda.cuStreamDestroy_v2(self.stream);
            let _ = self.cuda.cuDevicePrimaryCtxRelease_v2(self.device);
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
        let mut at = 0;
        // SAFETY: writes one pointer; freed when it is dropped.
        match unsafe { device.cuda.cuMemAlloc_v2(&raw mut at, size) } {
            Err(refusal) if is_among(&refusal, &[sys::CUresult::CUDA_ERROR_OUT_OF_MEMORY]) => {
                Err(Error::Limit {
                    what: format!("{what} in the memory of {}", device.card.name),
                    requested: bytes,
                    allowed: device.free(),
                    remedy: "use fewer tokens or heads, or close what else uses the card".into(),
                })
            }
            answer => device.check(what, answer).map(|()| Self { device: Arc::clone(device), at }),
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
            let cleared =
                unsafe { self.device.cuda.cuMemsetD8Async(self.at, 0, bytes as usize, self.device.stream) };
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
            let copied = unsafe {
                let from = bytes.as_ptr().cast();
                self.device.cuda.cuMemcpyHtoDAsync_v2(self.at + at, from, bytes.len(), self.device.stream)
            };
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
            let copied = unsafe {
                let to = bytes.as_mut_ptr().cast();
                self.device.cuda.cuMemcpyDtoHAsync_v2(to, self.at + at, bytes.len(), self.device.stream)
            };
            self.device.check("readback", copied)?;
        }
        self.device.wait("readback")
    }
}

impl Drop for Block {
    fn drop(&mut self) {
        if self.device.enter().is_ok() {
            // SAFETY: nobody uses it any more.
            let _ = unsafe { self.device.cuda.cuMemFree_v2(self.at) };
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
        let mut event = std::ptr::null_mut();
        // SAFETY: writes one pointer.
        device.check("timing", unsafe { device.cuda.cuEventCreate(&raw mut event, 0) })?;
        let event = Self { device: Arc::clone(device), event };
        let _turn = device.shared();
        // SAFETY: event and stream are alive.
        device.check("timing", unsafe { device.cuda.cuEventRecord(event.event, device.stream) })?;
        Ok(event)
    }

    /// Seconds until a later one, both being over.
    ///
    /// Errors: as the driver says.
    pub(super) fn seconds_to(&self, later: &Self) -> Result<f64> {
        let mut milliseconds = 0.0;
        // SAFETY: both are alive and were recorded on one stream.
        let asked =
            unsafe { self.device.cuda.cuEventElapsedTime(&raw mut milliseconds, self.event, later.event) };
        self.device.check("timing", asked).map(|()| f64::from(milliseconds) * 1e-3)
    }
}

impl Drop for Event {
    fn drop(&mut self) {
        // SAFETY: nobody uses it any more.
        let _ = unsafe { self.device.cuda.cuEventDestroy_v2(self.event) };
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
        let (cuda, mut module, mut function) = (device.cuda, std::ptr::null_mut(), std::ptr::null_mut());
        // SAFETY: the image is a cubin, or PTX that ends with a zero, as NVRTC made it.
        match unsafe { cuda.cuModuleLoadData(&raw mut module, image.as_ptr().cast()) } {
            Err(refusal) if is_foreign(&refusal) => {
                return Err(device.failed(
                    name,
                    format_args!(
                        "{refusal:?}: the driver, for CUDA {}, does not take what the NVRTC found here makes; update the driver, or \
                         install the NVRTC of its version",
                        device.card.facts.driver
                    ),
                ));
            }
            loaded => device.check(name, loaded)?,
        }
        let entry = CString::new(name).map_err(|e| device.failed(name, e))?;
        // SAFETY: the module has just been loaded.
        let found = unsafe { cuda.cuModuleGetFunction(&raw mut function, module, entry.as_ptr()) };
        if found.is_err() {
            // SAFETY: nobody has used it.
            let _ = unsafe { cuda.cuModuleUnload(module) };
        }
        device.check(name, found).map(|()| Self { device: Arc::clone(device), module, function })
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
        context: impl Display,
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
            self.device.cuda.cuLaunchKernel(
                self.function,
                blocks,
                1,
                1,
                threads,
                1,
                1,
                0,
                self.device.stream,
                arguments.as_mut_ptr(),
                std::ptr::null_mut(),
            )
        };
        self.device.check(context, launched)
    }
}

impl Drop for Function {
    fn drop(&mut self) {
        if self.device.enter().is_ok() {
            // SAFETY: nobody uses it any more.
            let _ = unsafe { self.device.cuda.cuModuleUnload(self.module) };
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
        let (cuda, mut graph, mut ready) = (device.cuda, std::ptr::null_mut(), std::ptr::null_mut());
        let turn = device.alone();
        // SAFETY: the stream lives as long as the device.
        device.check("capture", unsafe { cuda.cuStreamBeginCapture_v2(device.stream, mode) })?;
        let recorded = record();
        // The capture must end whatever came of it, or the stream stays unusable.
        // SAFETY: it has begun above.
        let ended = unsafe { cuda.cuStreamEndCapture(device.stream, &raw mut graph) };
        drop(turn);
        let made = recorded.and_then(|()| device.check("capture", ended)).and_then(|()| {
            // SAFETY: the graph has just been made.
            device.check("capture", unsafe { cuda.cuGraphInstantiateWithFlags(&raw mut ready, graph, 0) })
        });
        if made.is_err() && !graph.is_null() {
            // SAFETY: nobody uses what was captured until then.
            let _ = unsafe { cuda.cuGraphDestroy(graph) };
        }
        made.map(|()| Self { device: Arc::clone(device), graph, ready })
    }

    /// Plays it.
    ///
    /// Errors: as [`Device::check`].
    pub(super) fn play(&self, what: impl Display) -> Result<()> {
        let _turn = self.device.shared();
        // SAFETY: graph and stream are alive.
        self.device.check(what, unsafe { self.device.cuda.cuGraphLaunch(self.ready, self.device.stream) })
    }
}

impl Drop for Replay {
    fn drop(&mut self) {
        if self.device.enter().is_ok() {
            // SAFETY: nobody uses them any more.
            unsafe {
                let _ = self.device.cuda.cuGraphExecDestroy(self.ready);
                let _ = self.device.cuda.cuGraphDestroy(self.graph);
            }
        }
    }
}
