#![allow(unsafe_code, reason = "libraries of the system are opened and asked for their versions")]
//! Which of NVIDIA's libraries this machine has: a missing library, a broken one, one without a function that we need or for another
//! driver is an answer here and never a panic.

use super::sys::{Answer, Cublas, Cufft, Driver, Functions, Nvrtc};
use cudarc::cublas::sys::libraryPropertyType as Part;
use cudarc::cufft::sys::libraryPropertyType as CufftPart;
use libloading::Library;
use std::ffi::c_int;
use std::sync::OnceLock;

/// The oldest driver: the functions and the machine code of CUDA 12.
const OLDEST_DRIVER: i32 = 12_000;

/// A library, by what people call it and what its file is called on this system.
struct Wanted {
    name: &'static str,
    /// Names of the file with the CUDA that each is of, newest first. Only names with a number: those without are for linking, and may be
    /// stubs.
    files: &'static [(&'static str, c_int)],
    remedy: &'static str,
}

/// One list for Windows, one for all else.
const fn files(
    windows: &'static [(&'static str, c_int)],
    others: &'static [(&'static str, c_int)],
) -> &'static [(&'static str, c_int)] {
    if cfg!(windows) { windows } else { others }
}

const DRIVER: Wanted = Wanted {
    name: "the CUDA driver (libcuda.so.1 or nvcuda.dll)",
    files: files(&[("nvcuda.dll", 0)], &[("libcuda.so.1", 0)]),
    remedy: "install NVIDIA's driver, version 525 or newer",
};

const NVRTC: Wanted = Wanted {
    name: "NVRTC (libnvrtc.so.12 or nvrtc64_120_0.dll)",
    files: files(
        &[("nvrtc64_130_0.dll", 13), ("nvrtc64_120_0.dll", 12)],
        &[("libnvrtc.so.13", 13), ("libnvrtc.so.12", 12)],
    ),
    remedy: "install the CUDA toolkit's NVRTC, or put its folder on the library path",
};

const CUBLAS: Wanted = Wanted {
    name: "cuBLAS (libcublas.so.12 or cublas64_12.dll)",
    files: files(
        &[("cublas64_13.dll", 13), ("cublas64_12.dll", 12)],
        &[("libcublas.so.13", 13), ("libcublas.so.12", 12)],
    ),
    remedy: "install the CUDA toolkit's cuBLAS, or put its folder on the library path",
};

const CUFFT: Wanted = Wanted {
    name: "cuFFT (libcufft.so.11 or cufft64_11.dll)",
    files: files(
        &[("cufft64_12.dll", 13), ("cufft64_11.dll", 12)],
        &[("libcufft.so.12", 13), ("libcufft.so.11", 12)],
    ),
    remedy: "install the CUDA toolkit's cuFFT, or put its folder on the library path",
};

impl Wanted {
    /// Opens the newest that the driver takes; where there is no driver, the newest.
    ///
    /// Errors: why it cannot be used, with what to do.
    fn open<F: Functions>(&self) -> Result<F, String> {
        let (name, remedy) = (self.name, self.remedy);
        let takes = DRIVER_VERSION.get().map_or(c_int::MAX, |version| version / 1000);
        let mut broken = None;
        // Those that are too new are opened only to tell that they are there.
        let (fit, newer): (Vec<_>, Vec<_>) = self.files.iter().copied().partition(|(_, cuda)| *cuda <= takes);
        for (file, cuda) in fit.into_iter().chain(newer) {
            // SAFETY: opening NVIDIA's libraries runs nothing but their own initialisers.
            match unsafe { Library::new(file) } {
                Err(error) => {
                    broken = broken.or_else(|| reason(file, &error).map(|reason| format!("{name} {reason}")));
                }
                Ok(library) if cuda > takes => {
                    // Not closed again: what its finalisers would do is its maker's business.
                    std::mem::forget(library);
                    let short = name.split(" (").next().unwrap_or(name);
                    broken = broken.or_else(|| {
                        Some(format!(
                            "{short}: {file} found here is for CUDA {cuda}, and the driver for CUDA {takes}: update the driver, or install \
                             that of CUDA {takes}"
                        ))
                    });
                }
                // It stays open as long as the program runs. Where one lacks functions, an older one may have them.
                Ok(library) => match self.functions(Box::leak(Box::new(library))) {
                    Ok(functions) => return Ok(functions),
                    Err(lack) => broken = broken.or(Some(lack)),
                },
            }
        }
        Err(broken.unwrap_or_else(|| format!("{name} is not on this machine; {remedy}")))
    }

    /// Finds its functions.
    fn functions<F: Functions>(&self, library: &'static Library) -> Result<F, String> {
        // SAFETY: the library is the one of that name, and is never closed.
        unsafe { F::of(library) }.map_err(|missing| {
            let first = missing.first().copied().unwrap_or_default();
            let others = match missing.len() {
                0 | 1 => String::new(),
                count => format!(" and {} more", count - 1),
            };
            let kind = if missing.len() == F::NAMES.len() { "a stub without functions" } else { "too old" };
            format!("{} is {kind}: it lacks `{first}`{others}; {}", self.name, self.remedy)
        })
    }
}

/// Why a file that is there cannot be opened; `None` where it is not there.
fn reason(file: &str, error: &libloading::Error) -> Option<String> {
    let mut told = error.to_string();
    // The system's own words come below libloading's.
    let mut source = std::error::Error::source(error);
    while let Some(error) = source {
        told = error.to_string();
        source = error.source();
    }
    let is_absent = match cfg!(windows) {
        true => told.contains("126"),
        // Of a library that this one needs glibc says the same with the name of that one, and musl who needs it.
        false => told.contains(file) && told.contains("No such file") && !told.contains("needed by"),
    };
    (!is_absent).then(|| format!("cannot be opened: {told}; reinstall it with what it needs, or take that file off the library path"))
}

/// The driver's version, once it has been asked: 12040 for CUDA 12.4.
static DRIVER_VERSION: OnceLock<c_int> = OnceLock::new();

/// The driver, which has been initialised.
///
/// Errors: why it cannot be used.
pub(super) fn driver() -> Result<&'static Driver, String> {
    static OPENED: OnceLock<Result<Driver, String>> = OnceLock::new();
    let driver = OPENED.get_or_init(|| DRIVER.open()).as_ref().map_err(String::clone)?;
    let (name, remedy) = (DRIVER.name, DRIVER.remedy);
    // SAFETY: it may be called as often as one likes.
    unsafe { driver.cuInit(0) }.map_err(|refusal| {
        format!("{name} does not start: {refusal:?}; is there an NVIDIA card, and may this user use it?")
    })?;
    let mut version = 0;
    // SAFETY: writes one integer.
    unsafe { driver.cuDriverGetVersion(&raw mut version) }
        .map_err(|refusal| format!("{name} does not tell its version: {refusal:?}"))?;
    if version < OLDEST_DRIVER {
        return Err(format!("{name} is for CUDA {}, and 12.0 is needed; {remedy}", told(version)));
    }
    DRIVER_VERSION.get_or_init(|| version);
    Ok(driver)
}

/// `12.4` for 12040.
pub(super) fn told(version: c_int) -> String {
    format!("{}.{}", version / 1000, version % 1000 / 10)
}

/// The compiler.
///
/// Errors: why it cannot be used.
pub(super) fn nvrtc() -> Result<&'static Nvrtc, String> {
    static OPENED: OnceLock<Result<Nvrtc, String>> = OnceLock::new();
    OPENED.get_or_init(|| NVRTC.open()).as_ref().map_err(String::clone)
}

/// Matrix products.
///
/// Errors: why there are none.
pub(super) fn cublas() -> Result<&'static Cublas, String> {
    static OPENED: OnceLock<Result<Cublas, String>> = OnceLock::new();
    OPENED.get_or_init(|| CUBLAS.open()).as_ref().map_err(String::clone)
}

/// Transforms.
///
/// Errors: why there are none.
pub(super) fn cufft() -> Result<&'static Cufft, String> {
    static OPENED: OnceLock<Result<Cufft, String>> = OnceLock::new();
    OPENED.get_or_init(|| CUFFT.open()).as_ref().map_err(String::clone)
}

/// The version of cuBLAS, `12.9.1`; `None` where it cannot be used.
pub(super) fn cublas_version() -> Option<String> {
    let library = cublas().ok()?;
    version([Part::MAJOR_VERSION, Part::MINOR_VERSION, Part::PATCH_LEVEL], |part, number| {
        // SAFETY: writes one integer.
        unsafe { library.cublasGetProperty(part, number) }
    })
}

/// The version of cuFFT, `11.4.1`; `None` where it cannot be used.
pub(super) fn cufft_version() -> Option<String> {
    let library = cufft().ok()?;
    let parts = [CufftPart::MAJOR_VERSION, CufftPart::MINOR_VERSION, CufftPart::PATCH_LEVEL];
    version(parts, |part, number| {
        // SAFETY: writes one integer.
        unsafe { library.cufftGetProperty(part, number) }
    })
}

/// The parts of a version with points between them, where `ask` tells all of them.
fn version<P>(parts: [P; 3], ask: impl Fn(P, *mut c_int) -> Answer) -> Option<String> {
    let number = |part| {
        let mut number = 0;
        ask(part, &raw mut number).ok().map(|()| number.to_string())
    };
    Some(parts.into_iter().map(number).collect::<Option<Vec<_>>>()?.join("."))
}
