#![allow(unsafe_code, reason = "libraries of the system are opened and asked for their functions")]
//! Which of NVIDIA's libraries this machine has, found out before any of them is called: a missing library, or one without a function
//! that we need, is an answer here and never a panic.

use cudarc::{cublas, cufft, driver, nvrtc};
use libloading::Library;
use std::ffi::c_int;

/// The oldest driver: the functions and the machine code of CUDA 12.
const OLDEST_DRIVER: i32 = 12_000;

/// A library with the functions that we call.
struct Needs {
    name: &'static str,
    remedy: &'static str,
    symbols: &'static [&'static str],
    is_present: unsafe fn() -> bool,
    open: unsafe fn() -> &'static Library,
}

const DRIVER: Needs = Needs {
    name: "the CUDA driver (libcuda.so.1 or nvcuda.dll)",
    remedy: "install NVIDIA's driver, version 525 or newer",
    symbols: &[
        "cuInit",
        "cuDriverGetVersion",
        "cuDeviceGet",
        "cuDeviceGetCount",
        "cuDeviceGetName",
        "cuDeviceGetAttribute",
        "cuDeviceGetPCIBusId",
        "cuDeviceTotalMem_v2",
        "cuDevicePrimaryCtxRetain",
        "cuDevicePrimaryCtxRelease_v2",
        "cuCtxSetCurrent",
        "cuStreamCreate",
        "cuStreamSynchronize",
        "cuStreamDestroy_v2",
        "cuStreamBeginCapture_v2",
        "cuStreamEndCapture",
        "cuGraphInstantiateWithFlags",
        "cuGraphLaunch",
        "cuGraphDestroy",
        "cuGraphExecDestroy",
        "cuMemAlloc_v2",
        "cuMemFree_v2",
        "cuMemGetInfo_v2",
        "cuMemcpyHtoDAsync_v2",
        "cuMemcpyDtoHAsync_v2",
        "cuMemcpy2DAsync_v2",
        "cuMemsetD8Async",
        "cuModuleLoadData",
        "cuModuleGetFunction",
        "cuModuleUnload",
        "cuLaunchKernel",
        "cuEventCreate",
        "cuEventRecord",
        "cuEventSynchronize",
        "cuEventElapsedTime",
        "cuEventDestroy_v2",
        "cuGetErrorName",
        "cuGetErrorString",
    ],
    is_present: driver::sys::is_culib_present,
    open: driver::sys::culib,
};

const NVRTC: Needs = Needs {
    name: "NVRTC (libnvrtc.so.12 or nvrtc64_120_0.dll)",
    remedy: "install the CUDA toolkit's NVRTC, or put its folder on the library path",
    symbols: &[
        "nvrtcVersion",
        "nvrtcGetNumSupportedArchs",
        "nvrtcGetSupportedArchs",
        "nvrtcCreateProgram",
        "nvrtcCompileProgram",
        "nvrtcDestroyProgram",
        "nvrtcGetCUBINSize",
        "nvrtcGetCUBIN",
        "nvrtcGetPTXSize",
        "nvrtcGetPTX",
        "nvrtcGetProgramLogSize",
        "nvrtcGetProgramLog",
    ],
    is_present: nvrtc::sys::is_culib_present,
    open: nvrtc::sys::culib,
};

const CUBLAS: Needs = Needs {
    name: "cuBLAS (libcublas.so.12 or cublas64_12.dll)",
    remedy: "install the CUDA toolkit's cuBLAS, or put its folder on the library path",
    symbols: &[
        "cublasGetProperty",
        "cublasCreate_v2",
        "cublasDestroy_v2",
        "cublasSetStream_v2",
        "cublasSetWorkspace_v2",
        "cublasSetMathMode",
        "cublasGemmStridedBatchedEx",
    ],
    is_present: cublas::sys::is_culib_present,
    open: cublas::sys::culib,
};

const CUFFT: Needs = Needs {
    name: "cuFFT (libcufft.so.11 or cufft64_11.dll)",
    remedy: "install the CUDA toolkit's cuFFT, or put its folder on the library path",
    symbols: &[
        "cufftGetProperty",
        "cufftCreate",
        "cufftMakePlanMany",
        "cufftSetStream",
        "cufftExecC2C",
        "cufftDestroy",
    ],
    is_present: cufft::sys::is_culib_present,
    open: cufft::sys::culib,
};

impl Needs {
    /// Why it cannot be used, if it cannot.
    fn lack(&self) -> Option<String> {
        // SAFETY: opening NVIDIA's libraries runs nothing but their own initialisers.
        if !unsafe { (self.is_present)() } {
            return Some(format!("{} is not on this machine; {}", self.name, self.remedy));
        }
        // SAFETY: it is present, so opening it does not end in a panic.
        let library = unsafe { (self.open)() };
        // SAFETY: only whether the function is there is asked; nothing is called.
        let has = |symbol: &&str| unsafe { library.get::<unsafe extern "C" fn()>(symbol.as_bytes()) }.is_ok();
        let missing: Vec<&str> = self.symbols.iter().copied().filter(|symbol| !has(symbol)).collect();
        let (first, others) = missing.split_first()?;
        let others = if others.is_empty() { String::new() } else { format!(" and {} more", others.len()) };
        let kind = if missing.len() == self.symbols.len() { "a stub without functions" } else { "too old" };
        Some(format!("{} is {kind}: it lacks `{first}`{others}; {}", self.name, self.remedy))
    }
}

/// Why the driver cannot be used; `None` once it has been initialised.
pub(super) fn driver_lack() -> Option<String> {
    if let Some(reason) = DRIVER.lack() {
        return Some(reason);
    }
    if let Err(error) = driver::result::init() {
        return Some(format!(
            "{} does not start: {error:?}; is there an NVIDIA card, and may this user use it?",
            DRIVER.name
        ));
    }
    let mut version = 0;
    // SAFETY: the function is there, and writes one integer.
    let asked = unsafe { driver::sys::cuDriverGetVersion(&raw mut version) }.result();
    match asked {
        Err(error) => Some(format!("{} does not tell its version: {error:?}", DRIVER.name)),
        Ok(()) if version < OLDEST_DRIVER => Some(format!(
            "{} is for CUDA {}.{}, and 12.0 is needed; {}",
            DRIVER.name,
            version / 1000,
            version % 1000 / 10,
            DRIVER.remedy
        )),
        Ok(()) => None,
    }
}

/// Why sources cannot be compiled, if they cannot.
pub(super) fn nvrtc_lack() -> Option<String> {
    NVRTC.lack()
}

/// Why there are no matrix products, if there are none.
pub(super) fn cublas_lack() -> Option<String> {
    CUBLAS.lack()
}

/// Why there are no transforms, if there are none.
pub(super) fn cufft_lack() -> Option<String> {
    CUFFT.lack()
}

/// The version of cuBLAS, `12.9.1`; `None` where it cannot be used.
pub(super) fn cublas_version() -> Option<String> {
    use cublas::sys::{cublasGetProperty, libraryPropertyType_t};
    if CUBLAS.lack().is_some() {
        return None;
    }
    // SAFETY: the function is there, and writes one integer.
    version(
        |part: libraryPropertyType_t, n| unsafe { cublasGetProperty(part, n) }.result().is_ok(),
        [
            libraryPropertyType_t::MAJOR_VERSION,
            libraryPropertyType_t::MINOR_VERSION,
            libraryPropertyType_t::PATCH_LEVEL,
        ],
    )
}

/// The version of cuFFT, `11.4.1`; `None` where it cannot be used.
pub(super) fn cufft_version() -> Option<String> {
    use cufft::sys::{cufftGetProperty, libraryPropertyType_t};
    if CUFFT.lack().is_some() {
        return None;
    }
    // SAFETY: the function is there, and writes one integer.
    version(
        |part: libraryPropertyType_t, n| unsafe { cufftGetProperty(part, n) }.result().is_ok(),
        [
            libraryPropertyType_t::MAJOR_VERSION,
            libraryPropertyType_t::MINOR_VERSION,
            libraryPropertyType_t::PATCH_LEVEL,
        ],
    )
}

/// The parts of a version with points between them, where `ask` tells all of them.
fn version<P>(ask: impl Fn(P, *mut c_int) -> bool, parts: [P; 3]) -> Option<String> {
    let number = |part| {
        let mut number = 0;
        ask(part, &raw mut number).then(|| number.to_string())
    };
    Some(parts.into_iter().map(number).collect::<Option<Vec<_>>>()?.join("."))
}
