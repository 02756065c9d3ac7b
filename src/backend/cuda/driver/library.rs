#![allow(unsafe_code, reason = "cuBLAS and cuFFT are C libraries")]
//! Matrix products by cuBLAS and transforms by cuFFT, in f32 as they are: products in TF32 and BF16 only where a caller names them.

use super::device::{Block, Device};
use super::loader;
use crate::backend::cuda::Precision;
use crate::error::{Error, Result};
use crate::graph::Step;
use crate::kernel::{KernelParams, Library};
use crate::kernels::fft::fft;
use crate::kernels::linalg::matmul;
use cudarc::cublas::{result as blas, sys as blas_sys};
use cudarc::cufft::{result as fourier, sys as fourier_sys};
use cudarc::driver::sys::{CUDA_MEMCPY2D, CUdeviceptr, CUmemorytype, cuMemcpy2DAsync_v2};
use std::ffi::{c_int, c_longlong};
use std::sync::{Arc, Mutex, PoisonError};

/// Bytes that cuBLAS may work in: what it asks for by itself on large cards, given beforehand because it cannot be asked for while a run
/// is captured.
const WORKSPACE: u64 = 32 << 20;

/// cuBLAS on one stream, in one precision.
#[derive(Debug)]
pub(super) struct Blas {
    precision: Precision,
    handle: Mutex<blas_sys::cublasHandle_t>,
    device: Arc<Device>,
    _workspace: Block,
}

// SAFETY: the handle is behind a lock, and every use makes the context current first.
unsafe impl Send for Blas {}
// SAFETY: as above.
unsafe impl Sync for Blas {}

impl Blas {
    /// Errors: [`Error::Unsupported`] where the library is missing.
    pub(super) fn open(device: &Arc<Device>, precision: Precision) -> Result<Self> {
        if let Some(missing) = loader::cublas_lack() {
            return Err(Error::Unsupported { device: device.card.name.clone(), missing });
        }
        device.enter()?;
        let workspace = Block::new(device, "cuBLAS", WORKSPACE)?;
        let handle = blas::create_handle().map_err(|e| match e.0 {
            blas_sys::cublasStatus_t::CUBLAS_STATUS_ALLOC_FAILED => device.exhausted("cuBLAS", e),
            _ => device.library_failed("cuBLAS", e),
        })?;
        let opened =
            Self { precision, handle: Mutex::new(handle), device: Arc::clone(device), _workspace: workspace };
        // SAFETY: handle, stream and workspace live as long as `opened`.
        unsafe {
            blas::set_stream(handle, device.stream.cast()).map_err(|e| device.failed("cuBLAS", e))?;
            blas_sys::cublasSetWorkspace_v2(handle, opened._workspace.at as *mut _, WORKSPACE as usize)
                .result()
                .map_err(|e| device.failed("cuBLAS", e))?;
            // With this one it is every call that says what it computes in.
            blas_sys::cublasSetMathMode(handle, blas_sys::cublasMath_t::CUBLAS_DEFAULT_MATH)
                .result()
                .map_err(|e| device.failed("cuBLAS", e))?;
        }
        Ok(opened)
    }

    /// out = α op(A) op(W) of all heads: rows of ours are columns of the library's, so it computes the transposed product.
    ///
    /// Errors: as cuBLAS says.
    ///
    /// # Safety
    ///
    /// The pointers are the beginnings of the step's tensors on this card.
    pub(super) unsafe fn product(
        &self,
        step: &Step,
        a: CUdeviceptr,
        w: CUdeviceptr,
        out: CUdeviceptr,
    ) -> Result<()> {
        use blas_sys::cublasComputeType_t as Compute;
        use blas_sys::cublasOperation_t::{CUBLAS_OP_N, CUBLAS_OP_T};
        use blas_sys::{cublasGemmAlgo_t::CUBLAS_GEMM_DFALT, cudaDataType_t::CUDA_R_32F};
        let compute = match self.precision {
            Precision::F32 => Compute::CUBLAS_COMPUTE_32F,
            Precision::Tf32 => Compute::CUBLAS_COMPUTE_32F_FAST_TF32,
            Precision::Bf16 => Compute::CUBLAS_COMPUTE_32F_FAST_16BF,
        };
        let p = matmul::Params::from_bytes(&step.params);
        let size = |name: &str| step.dims.size(name) as c_int;
        let [b, h, n, cols] = ["b", "h", "n", "p"].map(size);
        let inner = if p.transpose_a == 0 { size("ac") } else { size("ar") };
        // Elements between the matrices of two batch elements, and of two heads; 0 where all share one.
        let strides = |port: usize| {
            let Some(tensor) = step.args[port] else { return (0, 0) };
            let elements = c_longlong::from(tensor.dim(2)) * c_longlong::from(tensor.dim(3));
            let batch = if tensor.dim(0) == 1 { 0 } else { elements * c_longlong::from(tensor.dim(1)) };
            let head = if tensor.dim(1) == 1 { 0 } else { elements };
            // With one head a step to the next matrix is one to the next batch element.
            (batch, if h == 1 { batch } else { head })
        };
        let (a_strides, w_strides) = (strides(0), strides(1));
        let out_stride = c_longlong::from(n) * c_longlong::from(cols);
        // One call for all heads where both operands step evenly through them, and one per batch element otherwise.
        let even = |(batch, head): (c_longlong, c_longlong)| b == 1 || batch == c_longlong::from(h) * head;
        let (calls, heads) = if even(a_strides) && even(w_strides) { (1, b * h) } else { (b, h) };
        let transposed = |flag: u32| if flag == 0 { CUBLAS_OP_N } else { CUBLAS_OP_T };
        let beta = 0.0_f32;
        let handle = self.handle.lock().unwrap_or_else(PoisonError::into_inner);
        for call in 0..calls {
            let at =
                |base: CUdeviceptr, stride: c_longlong| base + (4 * c_longlong::from(call) * stride) as u64;
            // SAFETY: the caller's promise about pointers; sizes and strides are those of the tensors.
            let done = unsafe {
                blas::gemm_strided_batched_ex(
                    *handle,
                    transposed(p.transpose_w),
                    transposed(p.transpose_a),
                    cols,
                    n,
                    inner,
                    (&raw const p.alpha).cast(),
                    at(w, w_strides.0) as *const _,
                    CUDA_R_32F,
                    size("wc").max(1),
                    w_strides.1,
                    at(a, a_strides.0) as *const _,
                    CUDA_R_32F,
                    size("ac").max(1),
                    a_strides.1,
                    (&raw const beta).cast(),
                    at(out, c_longlong::from(h) * out_stride) as *mut _,
                    CUDA_R_32F,
                    cols.max(1),
                    out_stride,
                    heads,
                    compute,
                    CUBLAS_GEMM_DFALT,
                )
            };
            done.map_err(|e| self.device.library_failed("matmul by cuBLAS", e))?;
        }
        Ok(())
    }
}

impl Drop for Blas {
    fn drop(&mut self) {
        if self.device.enter().is_ok() {
            let handle = self.handle.lock().unwrap_or_else(PoisonError::into_inner);
            // SAFETY: nobody uses it any more.
            let _ = unsafe { blas::destroy_handle(*handle) };
        }
    }
}

/// A plan of cuFFT for the lines of one step, with memory for whole lines where the tensors hold only parts of them.
#[derive(Debug)]
pub(super) struct Transform {
    device: Arc<Device>,
    plan: fourier_sys::cufftHandle,
    /// Rows `[b, h, o]` that one call transforms, and how many calls there are.
    calls: u64,
    /// Bytes between the rows of two calls, in whole lines.
    call_bytes: u64,
    whole: Option<Block>,
    /// Bytes of a row of x, of whole lines, and of out; and how many rows there are.
    row_bytes: [u64; 3],
    rows: u64,
    direction: c_int,
}

// SAFETY: plans are used by one thread at a time: their program is; every use makes the context current first.
unsafe impl Send for Transform {}

impl Transform {
    /// Errors: [`Error::Unsupported`] where the library is missing, [`Error::Limit`], as cuFFT says.
    pub(super) fn plan(device: &Arc<Device>, step: &Step) -> Result<Self> {
        if let Some(missing) = loader::cufft_lack() {
            return Err(Error::Unsupported { device: device.card.name.clone(), missing });
        }
        device.enter()?;
        let p = fft::Params::from_bytes(&step.params);
        let size = |name: &str| step.dims.size(name);
        let length = if p.length == 0 { size("l") } else { p.length };
        let rows = step.dims.batches() * u64::from(size("o"));
        let lines = size("a") / 2;
        // Lines of one row lie side by side; where a row is one line, rows follow each other, and all go together.
        let (stride, distance, batch, calls) = if lines == 1 {
            (1, length as c_int, rows, 1)
        } else {
            (lines as c_int, 1, u64::from(lines), rows)
        };
        let row_bytes = ["n", "", "l"].map(|name| {
            4 * u64::from(size("a")) * u64::from(if name.is_empty() { length } else { size(name) })
        });
        let is_whole = row_bytes[0] == row_bytes[1] && row_bytes[1] == row_bytes[2];
        let whole = (!is_whole)
            .then(|| Block::new(device, "lines of fft", (rows * row_bytes[1]).max(4)))
            .transpose()?;
        let plan = fourier::create().map_err(|e| device.failed("fft by cuFFT", e))?;
        let direction = if p.inverse == 0 { -1 } else { 1 };
        let made = Self {
            device: Arc::clone(device),
            plan,
            calls,
            call_bytes: row_bytes[1],
            whole,
            row_bytes,
            rows,
            direction,
        };
        let mut sides = [length as c_int];
        let batch = c_int::try_from(batch).map_err(|_| Error::Limit {
            what: "fft: lines of one plan".into(),
            requested: batch,
            allowed: c_int::MAX as u64,
            remedy: "use fewer lines".into(),
        })?;
        // SAFETY: the plan has just been made, and the sides are read before the call returns.
        unsafe {
            let sides = sides.as_mut_ptr();
            let kind = fourier_sys::cufftType::CUFFT_C2C;
            fourier::make_plan_many(
                plan, 1, sides, sides, stride, distance, sides, stride, distance, kind, batch,
            )
            .map_err(|e| match e.0 {
                fourier_sys::cufftResult::CUFFT_ALLOC_FAILED => device.exhausted("fft by cuFFT", e),
                _ => device.library_failed("fft by cuFFT", e),
            })?;
            fourier::set_stream(plan, device.stream.cast()).map_err(|e| device.failed("fft by cuFFT", e))?;
        }
        Ok(made)
    }

    /// Transforms, without the factor of inverse ones.
    ///
    /// Errors: as cuFFT and the driver say.
    ///
    /// # Safety
    ///
    /// The pointers are the beginnings of the step's tensors on this card.
    pub(super) unsafe fn run(&self, x: CUdeviceptr, out: CUdeviceptr) -> Result<()> {
        let [given, whole, wanted] = self.row_bytes;
        let (from, to) = match &self.whole {
            None => (x, out),
            Some(block) => {
                // Zeros behind what is given.
                // SAFETY: the block has room for all rows.
                let cleared = unsafe {
                    cudarc::driver::result::memset_d8_async(
                        block.at,
                        0,
                        (self.rows * whole) as usize,
                        self.device.stream,
                    )
                };
                self.device.check("fft", cleared)?;
                // SAFETY: rows of x into rows of the block.
                unsafe { self.rows_copied((x, given), (block.at, whole), given.min(whole)) }?;
                (block.at, block.at)
            }
        };
        for call in 0..self.calls {
            let at = |base: CUdeviceptr| (base + call * self.call_bytes) as *mut fourier_sys::cufftComplex;
            // SAFETY: the caller's promise; the plan covers the lines of one call.
            unsafe { fourier::exec_c2c(self.plan, at(from), at(to), self.direction) }
                .map_err(|e| self.device.library_failed("fft by cuFFT", e))?;
        }
        if let Some(block) = &self.whole {
            // SAFETY: rows of the block into rows of out.
            unsafe { self.rows_copied((block.at, whole), (out, wanted), wanted.min(whole)) }?;
        }
        Ok(())
    }

    /// # Safety
    ///
    /// All rows of both lie on this card.
    unsafe fn rows_copied(&self, from: (CUdeviceptr, u64), to: (CUdeviceptr, u64), bytes: u64) -> Result<()> {
        if bytes == 0 || self.rows == 0 {
            return Ok(());
        }
        let copy = CUDA_MEMCPY2D {
            srcXInBytes: 0,
            srcY: 0,
            srcMemoryType: CUmemorytype::CU_MEMORYTYPE_DEVICE,
            srcHost: std::ptr::null(),
            srcDevice: from.0,
            srcArray: std::ptr::null_mut(),
            srcPitch: from.1 as usize,
            dstXInBytes: 0,
            dstY: 0,
            dstMemoryType: CUmemorytype::CU_MEMORYTYPE_DEVICE,
            dstHost: std::ptr::null_mut(),
            dstDevice: to.0,
            dstArray: std::ptr::null_mut(),
            dstPitch: to.1 as usize,
            WidthInBytes: bytes as usize,
            Height: self.rows as usize,
        };
        // SAFETY: the caller's promise.
        self.device.check("fft", unsafe { cuMemcpy2DAsync_v2(&raw const copy, self.device.stream) }.result())
    }
}

impl Drop for Transform {
    fn drop(&mut self) {
        if self.device.enter().is_ok() {
            // SAFETY: nobody uses it any more.
            let _ = unsafe { fourier::destroy(self.plan) };
        }
    }
}

/// A library's part of a step, ready to run.
#[derive(Debug)]
pub(super) enum Prepared {
    /// A product.
    Product,
    /// A transform.
    Transform(Transform),
    /// Nothing: no element to compute.
    Nothing,
}

impl Prepared {
    /// Errors: as [`Transform::plan`].
    pub(super) fn of(device: &Arc<Device>, step: &Step, library: Library) -> Result<Self> {
        let empty = step.writes().any(|tensor| tensor.shape().is_empty());
        match library {
            _ if empty => Ok(Self::Nothing),
            Library::Gemm => Ok(Self::Product),
            Library::Fft => Transform::plan(device, step).map(Self::Transform),
        }
    }
}
