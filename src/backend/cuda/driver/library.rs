#![allow(unsafe_code, reason = "cuBLAS and cuFFT are C libraries")]
//! Matrix products by cuBLAS and transforms by cuFFT, in f32 as they are: products in TF32 and BF16 only where a caller names them.

use super::device::{Block, Device};
use super::loader;
use super::stream::Told;
use super::sys::{Cublas, Cufft};
use crate::backend::cuda::Precision;
use crate::error::{Error, Result};
use crate::graph::{Schedule, Step};
use crate::kernel::{KernelParams, Library};
use crate::kernels::fft::fft;
use crate::kernels::linalg::matmul;
use cudarc::cublas::sys as blas_sys;
use cudarc::cufft::sys as fourier_sys;
use cudarc::driver::sys::{CUDA_MEMCPY2D, CUdeviceptr, CUmemorytype};
use std::ffi::{c_int, c_longlong};
use std::sync::{Arc, Mutex, PoisonError};

/// Bytes that cuBLAS may work in: what it asks for by itself on large cards, given beforehand because it cannot be asked for while a run
/// is captured.
pub(super) const WORKSPACE: u64 = 32 << 20;

/// cuBLAS on one stream, in one precision.
pub(super) struct Blas {
    cublas: &'static Cublas,
    precision: Precision,
    handle: Mutex<blas_sys::cublasHandle_t>,
    device: Arc<Device>,
    _workspace: Block,
}

impl std::fmt::Debug for Blas {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Blas").field("precision", &self.precision).finish_non_exhaustive()
    }
}

// SAFETY: the handle is behind a lock, and every use makes the context current first.
unsafe impl Send for Blas {}
// SAFETY: as above.
unsafe impl Sync for Blas {}

impl Blas {
    /// Errors: [`Error::Unsupported`] where the library is missing.
    pub(super) fn open(device: &Arc<Device>, precision: Precision) -> Result<Self> {
        let unsupported = |missing| Error::Unsupported { device: device.card.name.clone(), missing };
        let cublas = loader::cublas().map_err(unsupported)?;
        device.enter()?;
        let workspace = Block::new(device, "cuBLAS", WORKSPACE)?;
        let mut handle = std::ptr::null_mut();
        // SAFETY: writes one pointer.
        unsafe { cublas.cublasCreate_v2(&raw mut handle) }.map_err(|e| {
            match e.code == blas_sys::cublasStatus_t::CUBLAS_STATUS_ALLOC_FAILED as c_int {
                true => device.exhausted("cuBLAS", e),
                false => device.library_failed("cuBLAS", e),
            }
        })?;
        let opened = Self {
            cublas,
            precision,
            handle: Mutex::new(handle),
            device: Arc::clone(device),
            _workspace: workspace,
        };
        // SAFETY: handle, stream and workspace live as long as `opened`.
        unsafe {
            cublas
                .cublasSetStream_v2(handle, device.stream.cast())
                // After the stream, which takes the workspace away.
                .and_then(|()| {
                    cublas.cublasSetWorkspace_v2(handle, opened._workspace.at as *mut _, WORKSPACE as usize)
                })
                // With this one it is every call that says what it computes in.
                .and_then(|()| cublas.cublasSetMathMode(handle, blas_sys::cublasMath_t::CUBLAS_DEFAULT_MATH))
        }
        .map_err(|e| device.library_failed("cuBLAS", e))?;
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
        context: Told<'_>,
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
        let size = |name: &str| number("matmul", u64::from(step.dims.size(name)));
        let (b, h, n, cols) = (size("b")?, size("h")?, size("n")?, size("p")?);
        let inner = if p.transpose_a == 0 { size("ac")? } else { size("ar")? };
        let (a_line, w_line) = (size("ac")?.max(1), size("wc")?.max(1));
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
        let (calls, heads) = if even(a_strides) && even(w_strides) {
            (1, number("matmul", step.dims.batches())?)
        } else {
            (b, h)
        };
        let transposed = |flag: u32| if flag == 0 { CUBLAS_OP_N } else { CUBLAS_OP_T };
        let beta = 0.0_f32;
        let handle = self.handle.lock().unwrap_or_else(PoisonError::into_inner);
        for call in 0..calls {
            let at =
                |base: CUdeviceptr, stride: c_longlong| base + (4 * c_longlong::from(call) * stride) as u64;
            // SAFETY: the caller's promise about pointers; sizes and strides are those of the tensors.
            let done = unsafe {
                self.cublas.cublasGemmStridedBatchedEx(
                    *handle,
                    transposed(p.transpose_w),
                    transposed(p.transpose_a),
                    cols,
                    n,
                    inner,
                    (&raw const p.alpha).cast(),
                    at(w, w_strides.0) as *const _,
                    CUDA_R_32F,
                    w_line,
                    w_strides.1,
                    at(a, a_strides.0) as *const _,
                    CUDA_R_32F,
                    a_line,
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
            done.map_err(|e| self.device.library_failed(context, e))?;
        }
        Ok(())
    }
}

impl Drop for Blas {
    fn drop(&mut self) {
        if self.device.enter().is_ok() {
            let handle = self.handle.lock().unwrap_or_else(PoisonError::into_inner);
            // SAFETY: nobody uses it any more.
            let _ = unsafe { self.cublas.cublasDestroy_v2(*handle) };
        }
    }
}

/// A number that a library takes as an `int`.
///
/// Errors: [`Error::Limit`].
fn number(what: &str, value: u64) -> Result<c_int> {
    c_int::try_from(value).map_err(|_| Error::Limit {
        what: format!("{what}: a size or a count of matrices or lines, for NVIDIA's library"),
        requested: value,
        allowed: c_int::MAX as u64,
        remedy: "use fewer tokens, heads or batch elements".into(),
    })
}

/// A plan of cuFFT for the lines of one step, with memory for whole lines where the tensors hold only parts of them.
pub(super) struct Transform {
    cufft: &'static Cufft,
    device: Arc<Device>,
    plan: fourier_sys::cufftHandle,
    /// How many calls there are.
    calls: u64,
    /// Bytes between what two calls begin at, in whole lines.
    call_bytes: u64,
    whole: Option<Block>,
    /// Bytes of a row of x, of whole lines, and of out; and how many rows `[b, h, o]` there are.
    row_bytes: [u64; 3],
    rows: u64,
    direction: c_int,
    /// Bytes that the library works in.
    work_bytes: u64,
}

impl std::fmt::Debug for Transform {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Transform")
            .field("plan", &self.plan)
            .field("calls", &self.calls)
            .finish_non_exhaustive()
    }
}

// SAFETY: plans are used by one thread at a time: their program is; every use makes the context current first.
unsafe impl Send for Transform {}

impl Transform {
    /// Errors: [`Error::Unsupported`] where the library is missing, [`Error::Limit`], as cuFFT says.
    pub(super) fn plan(device: &Arc<Device>, schedule: &Schedule, step: &Step) -> Result<Self> {
        let unsupported = |missing| Error::Unsupported { device: device.card.name.clone(), missing };
        let cufft = loader::cufft().map_err(unsupported)?;
        device.enter()?;
        let context = Told { schedule, step, by: Library::Fft.name() };
        let p = fft::Params::from_bytes(&step.params);
        let size = |name: &str| step.dims.size(name);
        let length = if p.length == 0 { size("l") } else { p.length };
        let rows = step.dims.batches() * u64::from(size("o"));
        // Those of a row are interleaved: [rows, length, lines] complex numbers.
        let lines = u64::from(size("a") / 2);
        let row = u64::from(length) * lines;
        // A call takes the lines of one row, or one line of every row, whichever makes fewer calls; a plan has no third way.
        let (distance, batch, calls, call_bytes) = match lines < rows {
            true => (row, rows, lines, 8),
            false => (1, lines, rows, 8 * row),
        };
        let (distance, batch) = (number("fft", distance)?, number("fft", batch)?);
        let (stride, side) = (number("fft", lines)?, number("fft", u64::from(length))?);
        let row_bytes = [size("n"), length, size("l")].map(|length| 8 * lines * u64::from(length));
        // The library takes only what begins at a whole complex number.
        let is_aligned =
            |port: usize| step.args[port].is_none_or(|tensor| schedule.base(tensor).1.is_multiple_of(2));
        let is_whole = row_bytes[0] == row_bytes[1] && row_bytes[1] == row_bytes[2];
        let whole = (!is_whole || !is_aligned(0) || !is_aligned(1))
            .then(|| Block::new(device, "lines of fft", (rows * row_bytes[1]).max(4)))
            .transpose()?;
        let mut plan = 0;
        // SAFETY: writes one number.
        unsafe { cufft.cufftCreate(&raw mut plan) }.map_err(|e| device.library_failed(context, e))?;
        let mut made = Self {
            cufft,
            device: Arc::clone(device),
            plan,
            calls,
            call_bytes,
            whole,
            row_bytes,
            rows,
            direction: if p.inverse == 0 { -1 } else { 1 },
            work_bytes: 0,
        };
        let (mut sides, mut work) = ([side], 0);
        let sides = sides.as_mut_ptr();
        let kind = fourier_sys::cufftType::CUFFT_C2C;
        // SAFETY: the plan has just been made, and the sides are read before the call returns.
        unsafe {
            cufft.cufftMakePlanMany(
                plan,
                1,
                sides,
                sides,
                stride,
                distance,
                sides,
                stride,
                distance,
                kind,
                batch,
                &raw mut work,
            )
        }
        .map_err(|e| match e.code == fourier_sys::cufftResult::CUFFT_ALLOC_FAILED as c_int {
            true => device.exhausted(context, e),
            false => device.library_failed(context, e),
        })?;
        // SAFETY: plan and stream are alive.
        unsafe { cufft.cufftSetStream(plan, device.stream.cast()) }
            .map_err(|e| device.library_failed(context, e))?;
        made.work_bytes = work as u64;
        Ok(made)
    }

    /// Bytes of the card's memory that it holds beside the step's tensors.
    pub(super) fn held_bytes(&self) -> u64 {
        self.work_bytes + if self.whole.is_some() { self.rows * self.row_bytes[1] } else { 0 }
    }

    /// Transforms, without the factor of inverse ones.
    ///
    /// Errors: as cuFFT and the driver say.
    ///
    /// # Safety
    ///
    /// The pointers are the beginnings of the step's tensors on this card.
    pub(super) unsafe fn run(&self, context: Told<'_>, x: CUdeviceptr, out: CUdeviceptr) -> Result<()> {
        let [given, whole, wanted] = self.row_bytes;
        let (from, to) = match &self.whole {
            None => (x, out),
            Some(block) => {
                // Zeros behind what is given.
                // SAFETY: the block has room for all rows.
                let cleared = unsafe {
                    let bytes = (self.rows * whole) as usize;
                    self.device.cuda.cuMemsetD8Async(block.at, 0, bytes, self.device.stream)
                };
                self.device.check(context, cleared)?;
                // SAFETY: rows of x into rows of the block.
                unsafe { self.rows_copied(context, (x, given), (block.at, whole), given.min(whole)) }?;
                (block.at, block.at)
            }
        };
        for call in 0..self.calls {
            let at = |base: CUdeviceptr| (base + call * self.call_bytes) as *mut fourier_sys::cufftComplex;
            // SAFETY: the caller's promise; the plan covers the lines of one call.
            unsafe { self.cufft.cufftExecC2C(self.plan, at(from), at(to), self.direction) }
                .map_err(|e| self.device.library_failed(context, e))?;
        }
        if let Some(block) = &self.whole {
            // SAFETY: rows of the block into rows of out.
            unsafe { self.rows_copied(context, (block.at, whole), (out, wanted), wanted.min(whole)) }?;
        }
        Ok(())
    }

    /// # Safety
    ///
    /// All rows of both lie on this card.
    unsafe fn rows_copied(
        &self,
        context: Told<'_>,
        from: (CUdeviceptr, u64),
        to: (CUdeviceptr, u64),
        bytes: u64,
    ) -> Result<()> {
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
        self.device.check(context, unsafe {
            self.device.cuda.cuMemcpy2DAsync_v2(&raw const copy, self.device.stream)
        })
    }
}

impl Drop for Transform {
    fn drop(&mut self) {
        if self.device.enter().is_ok() {
            // SAFETY: nobody uses it any more.
            let _ = unsafe { self.cufft.cufftDestroy(self.plan) };
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
    pub(super) fn of(
        device: &Arc<Device>,
        schedule: &Schedule,
        step: &Step,
        library: Library,
    ) -> Result<Self> {
        let empty = step.writes().any(|tensor| tensor.shape().is_empty());
        match library {
            _ if empty => Ok(Self::Nothing),
            Library::Gemm => Ok(Self::Product),
            Library::Fft => Transform::plan(device, schedule, step).map(Self::Transform),
        }
    }
}
