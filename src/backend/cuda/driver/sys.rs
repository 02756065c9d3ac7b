#![allow(unsafe_code, reason = "functions of C libraries, called by their addresses")]
//! NVIDIA's libraries as C sees them: the functions that we call, and what they answer.
//!
//! A function is called by the address that its library has it at, and answers with a plain number. The declarations of cudarc name these
//! numbers by enumerations, which are undefined for any that they do not list, and a newer driver has more of them; all else of a
//! function is checked against its declaration when this is compiled.

use cudarc::cublas::sys as blas;
use cudarc::cufft::sys as fourier;
use cudarc::driver::sys as driver;
use cudarc::nvrtc::sys as nvrtc;
use libloading::Library;
use std::ffi::{CStr, c_char, c_int, c_longlong, c_uchar, c_uint, c_ulonglong, c_void};
use std::fmt::{Debug, Formatter};

/// What a function answered that did not succeed.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct Refusal {
    /// The number.
    pub(super) code: c_int,
    name: String,
}

impl Debug for Refusal {
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} ({})", self.name, self.code)
    }
}

/// What a function answers: nothing, or why not.
pub(super) type Answer = Result<(), Refusal>;

/// A library's functions, at their addresses.
pub(super) trait Functions: Sized + Send + Sync + 'static {
    /// Their names.
    const NAMES: &'static [&'static str];

    /// The functions of an opened library.
    ///
    /// # Safety
    ///
    /// The library is what its name says. It stays open as long as the functions are called.
    ///
    /// Errors: the names of those that it lacks.
    unsafe fn of(library: &Library) -> Result<Self, Vec<&'static str>>;
}

/// A library: its name, the module that declares it and the type of its answers; functions, which are checked against these declarations;
/// and, after `told by`, functions that name answers.
macro_rules! library {
    (
        $(#[$doc:meta])*
        $library:ident, $module:ident, $answer:ident;
        $(fn $function:ident($($argument:ident: $type:ty),* $(,)?);)*
        told by $($teller:ident($($told:ty),*) -> $telling:ty;)*
    ) => {
        $(#[$doc])*
        #[allow(non_snake_case, reason = "the names that the library gives its functions")]
        pub(super) struct $library {
            $($function: unsafe extern "C" fn($($type),*) -> c_int,)*
            $($teller: unsafe extern "C" fn($($told),*) -> $telling,)*
        }

        $(const _: unsafe fn($($type),*) -> $module::$answer = $module::$function;)*

        #[allow(non_snake_case, clippy::too_many_arguments, reason = "functions are as the library has them")]
        impl $library {
            fn answer(&self, code: c_int) -> Answer {
                if code == 0 {
                    return Ok(());
                }
                let unnamed = || format!(concat!(stringify!($library), " error of no known name"));
                Err(Refusal { code, name: self.name(code).unwrap_or_else(unnamed) })
            }

            $(
                /// # Safety
                ///
                /// As the library's documents say.
                pub(super) unsafe fn $function(&self, $($argument: $type),*) -> Answer {
                    // SAFETY: the caller's promise.
                    self.answer(unsafe { (self.$function)($($argument),*) })
                }
            )*
        }

        #[allow(non_snake_case, reason = "the names that the library gives its functions")]
        impl Functions for $library {
            const NAMES: &'static [&'static str] = &[$(stringify!($function),)* $(stringify!($teller)),*];

            unsafe fn of(library: &Library) -> Result<Self, Vec<&'static str>> {
                let mut lacking = Vec::new();
                $(
                    // SAFETY: the type is the declared one, but for its answer, a number either way.
                    let $function = unsafe { library.get::<unsafe extern "C" fn($($type),*) -> c_int>(stringify!($function)) };
                    if $function.is_err() { lacking.push(stringify!($function)); }
                )*
                $(
                    // SAFETY: as above.
                    let $teller = unsafe { library.get::<unsafe extern "C" fn($($told),*) -> $telling>(stringify!($teller)) };
                    if $teller.is_err() { lacking.push(stringify!($teller)); }
                )*
                let found = || {
                    Some(Self { $($function: *$function.ok()?,)* $($teller: *$teller.ok()?,)* })
                };
                found().ok_or(lacking)
            }
        }
    };
}

/// A text of a library, which is there for good.
///
/// # Safety
///
/// It is null, or ends with a zero.
unsafe fn text(told: *const c_char) -> Option<String> {
    // SAFETY: the caller's promise.
    (!told.is_null()).then(|| unsafe { CStr::from_ptr(told) }.to_string_lossy().into_owned())
}

library! {
    /// The driver.
    Driver, driver, CUresult;
    fn cuInit(flags: c_uint);
    fn cuDriverGetVersion(version: *mut c_int);
    fn cuDeviceGet(device: *mut driver::CUdevice, ordinal: c_int);
    fn cuDeviceGetCount(count: *mut c_int);
    fn cuDeviceGetName(name: *mut c_char, length: c_int, device: driver::CUdevice);
    fn cuDeviceGetAttribute(value: *mut c_int, which: driver::CUdevice_attribute, device: driver::CUdevice);
    fn cuDeviceGetPCIBusId(bus: *mut c_char, length: c_int, device: driver::CUdevice);
    fn cuDeviceTotalMem_v2(bytes: *mut usize, device: driver::CUdevice);
    fn cuDevicePrimaryCtxRetain(context: *mut driver::CUcontext, device: driver::CUdevice);
    fn cuDevicePrimaryCtxRelease_v2(device: driver::CUdevice);
    fn cuCtxSetCurrent(context: driver::CUcontext);
    fn cuStreamCreate(stream: *mut driver::CUstream, flags: c_uint);
    fn cuStreamSynchronize(stream: driver::CUstream);
    fn cuStreamDestroy_v2(stream: driver::CUstream);
    fn cuStreamBeginCapture_v2(stream: driver::CUstream, mode: driver::CUstreamCaptureMode);
    fn cuStreamEndCapture(stream: driver::CUstream, graph: *mut driver::CUgraph);
    fn cuGraphInstantiateWithFlags(ready: *mut driver::CUgraphExec, graph: driver::CUgraph, flags: c_ulonglong);
    fn cuGraphLaunch(ready: driver::CUgraphExec, stream: driver::CUstream);
    fn cuGraphDestroy(graph: driver::CUgraph);
    fn cuGraphExecDestroy(ready: driver::CUgraphExec);
    fn cuMemAlloc_v2(at: *mut driver::CUdeviceptr, bytes: usize);
    fn cuMemFree_v2(at: driver::CUdeviceptr);
    fn cuMemGetInfo_v2(free: *mut usize, all: *mut usize);
    fn cuMemcpyHtoDAsync_v2(to: driver::CUdeviceptr, from: *const c_void, bytes: usize, stream: driver::CUstream);
    fn cuMemcpyDtoHAsync_v2(to: *mut c_void, from: driver::CUdeviceptr, bytes: usize, stream: driver::CUstream);
    fn cuMemcpy2DAsync_v2(copy: *const driver::CUDA_MEMCPY2D, stream: driver::CUstream);
    fn cuMemsetD8Async(at: driver::CUdeviceptr, byte: c_uchar, bytes: usize, stream: driver::CUstream);
    fn cuModuleLoadData(module: *mut driver::CUmodule, image: *const c_void);
    fn cuModuleGetFunction(function: *mut driver::CUfunction, module: driver::CUmodule, name: *const c_char);
    fn cuModuleUnload(module: driver::CUmodule);
    fn cuLaunchKernel(
        function: driver::CUfunction,
        blocks_x: c_uint,
        blocks_y: c_uint,
        blocks_z: c_uint,
        threads_x: c_uint,
        threads_y: c_uint,
        threads_z: c_uint,
        shared_bytes: c_uint,
        stream: driver::CUstream,
        arguments: *mut *mut c_void,
        extra: *mut *mut c_void,
    );
    fn cuEventCreate(event: *mut driver::CUevent, flags: c_uint);
    fn cuEventRecord(event: driver::CUevent, stream: driver::CUstream);
    fn cuEventElapsedTime(milliseconds: *mut f32, begin: driver::CUevent, end: driver::CUevent);
    fn cuEventDestroy_v2(event: driver::CUevent);
    told by cuGetErrorName(c_int, *mut *const c_char) -> c_int;
}

impl Driver {
    fn name(&self, code: c_int) -> Option<String> {
        let mut told = std::ptr::null();
        // SAFETY: writes one pointer, to a text of its own or null.
        unsafe {
            (self.cuGetErrorName)(code, &raw mut told);
            text(told)
        }
    }
}

library! {
    /// The compiler.
    Nvrtc, nvrtc, nvrtcResult;
    fn nvrtcVersion(major: *mut c_int, minor: *mut c_int);
    fn nvrtcGetNumSupportedArchs(count: *mut c_int);
    fn nvrtcGetSupportedArchs(list: *mut c_int);
    fn nvrtcCreateProgram(
        program: *mut nvrtc::nvrtcProgram,
        source: *const c_char,
        name: *const c_char,
        headers: c_int,
        texts: *const *const c_char,
        names: *const *const c_char,
    );
    fn nvrtcCompileProgram(program: nvrtc::nvrtcProgram, count: c_int, options: *const *const c_char);
    fn nvrtcDestroyProgram(program: *mut nvrtc::nvrtcProgram);
    fn nvrtcGetCUBINSize(program: nvrtc::nvrtcProgram, bytes: *mut usize);
    fn nvrtcGetCUBIN(program: nvrtc::nvrtcProgram, image: *mut c_char);
    fn nvrtcGetPTXSize(program: nvrtc::nvrtcProgram, bytes: *mut usize);
    fn nvrtcGetPTX(program: nvrtc::nvrtcProgram, image: *mut c_char);
    fn nvrtcGetProgramLogSize(program: nvrtc::nvrtcProgram, bytes: *mut usize);
    fn nvrtcGetProgramLog(program: nvrtc::nvrtcProgram, log: *mut c_char);
    told by nvrtcGetErrorString(c_int) -> *const c_char;
}

impl Nvrtc {
    fn name(&self, code: c_int) -> Option<String> {
        // SAFETY: it takes any number, and answers with a text of its own.
        unsafe { text((self.nvrtcGetErrorString)(code)) }
    }
}

library! {
    /// Matrix products.
    Cublas, blas, cublasStatus_t;
    fn cublasGetProperty(which: blas::libraryPropertyType, value: *mut c_int);
    fn cublasCreate_v2(handle: *mut blas::cublasHandle_t);
    fn cublasDestroy_v2(handle: blas::cublasHandle_t);
    fn cublasSetStream_v2(handle: blas::cublasHandle_t, stream: blas::cudaStream_t);
    fn cublasSetWorkspace_v2(handle: blas::cublasHandle_t, workspace: *mut c_void, bytes: usize);
    fn cublasSetMathMode(handle: blas::cublasHandle_t, mode: blas::cublasMath_t);
    fn cublasGemmStridedBatchedEx(
        handle: blas::cublasHandle_t,
        transpose_a: blas::cublasOperation_t,
        transpose_b: blas::cublasOperation_t,
        m: c_int,
        n: c_int,
        k: c_int,
        alpha: *const c_void,
        a: *const c_void,
        a_type: blas::cudaDataType,
        a_line: c_int,
        a_stride: c_longlong,
        b: *const c_void,
        b_type: blas::cudaDataType,
        b_line: c_int,
        b_stride: c_longlong,
        beta: *const c_void,
        c: *mut c_void,
        c_type: blas::cudaDataType,
        c_line: c_int,
        c_stride: c_longlong,
        batch: c_int,
        compute: blas::cublasComputeType_t,
        algorithm: blas::cublasGemmAlgo_t,
    );
    told by cublasGetStatusName(c_int) -> *const c_char;
}

impl Cublas {
    fn name(&self, code: c_int) -> Option<String> {
        // SAFETY: it takes any number, and answers with a text of its own.
        unsafe { text((self.cublasGetStatusName)(code)) }
    }
}

library! {
    /// Transforms.
    Cufft, fourier, cufftResult;
    fn cufftGetProperty(which: fourier::libraryPropertyType, value: *mut c_int);
    fn cufftCreate(plan: *mut fourier::cufftHandle);
    fn cufftMakePlanMany(
        plan: fourier::cufftHandle,
        rank: c_int,
        sides: *mut c_int,
        in_sides: *mut c_int,
        in_stride: c_int,
        in_distance: c_int,
        out_sides: *mut c_int,
        out_stride: c_int,
        out_distance: c_int,
        kind: fourier::cufftType,
        batch: c_int,
        work_bytes: *mut usize,
    );
    fn cufftSetStream(plan: fourier::cufftHandle, stream: fourier::cudaStream_t);
    fn cufftExecC2C(
        plan: fourier::cufftHandle,
        x: *mut fourier::cufftComplex,
        out: *mut fourier::cufftComplex,
        direction: c_int,
    );
    fn cufftDestroy(plan: fourier::cufftHandle);
    told by
}

impl Cufft {
    /// The library has no function for that.
    #[allow(clippy::unused_self, reason = "as the other libraries")]
    fn name(&self, code: c_int) -> Option<String> {
        const NAMES: [&str; 21] = [
            "SUCCESS",
            "INVALID_PLAN",
            "ALLOC_FAILED",
            "INVALID_TYPE",
            "INVALID_VALUE",
            "INTERNAL_ERROR",
            "EXEC_FAILED",
            "SETUP_FAILED",
            "INVALID_SIZE",
            "UNALIGNED_DATA",
            "INCOMPLETE_PARAMETER_LIST",
            "INVALID_DEVICE",
            "PARSE_ERROR",
            "NO_WORKSPACE",
            "NOT_IMPLEMENTED",
            "LICENSE_ERROR",
            "NOT_SUPPORTED",
            "MISSING_DEPENDENCY",
            "NVRTC_FAILURE",
            "NVJITLINK_FAILURE",
            "NVSHMEM_FAILURE",
        ];
        Some(format!("CUFFT_{}", NAMES.get(usize::try_from(code).ok()?)?))
    }
}
