#![allow(unsafe_code, reason = "NVRTC is a C library")]
//! From text to machine code: NVRTC, and what it has compiled before, on disk.

use super::loader;
use super::sys::{Nvrtc, Refusal};
use crate::error::{Error, Result};
use crate::kernel::cuda::{Source, origin};
use crate::words::told;
use cudarc::nvrtc::sys;
use std::ffi::{CString, c_char};
use std::path::PathBuf;
use std::sync::Once;
use std::sync::atomic::{AtomicU64, Ordering};

/// Machine code for one architecture.
#[derive(Clone, Debug)]
pub struct Code {
    /// A cubin, or PTX with a zero at its end where the card is newer than the compiler.
    pub image: Vec<u8>,
    /// What the compiler says, spills and registers included; empty where the code comes from disk.
    pub log: String,
}

/// NVRTC, if it is there.
#[derive(Clone, Copy)]
pub struct Compiler {
    nvrtc: &'static Nvrtc,
    version: (i32, i32),
}

impl std::fmt::Debug for Compiler {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "NVRTC {}", self.version())
    }
}

/// A program of NVRTC's.
struct Unit {
    nvrtc: &'static Nvrtc,
    program: sys::nvrtcProgram,
}

impl Unit {
    /// Of a text, by a name for the compiler's report.
    fn new(nvrtc: &'static Nvrtc, text: &CString, name: &CString) -> std::result::Result<Self, Refusal> {
        let (mut program, none) = (std::ptr::null_mut(), std::ptr::null());
        // SAFETY: text and name end with zeros and are copied; there are no headers.
        unsafe { nvrtc.nvrtcCreateProgram(&raw mut program, text.as_ptr(), name.as_ptr(), 0, none, none) }?;
        Ok(Self { nvrtc, program })
    }

    fn compile(&self, options: &[CString]) -> std::result::Result<(), Refusal> {
        let pointers: Vec<*const c_char> = options.iter().map(|option| option.as_ptr()).collect();
        let count = i32::try_from(pointers.len()).unwrap_or(i32::MAX);
        // SAFETY: the program is alive, and so are the options while it is compiled.
        unsafe { self.nvrtc.nvrtcCompileProgram(self.program, count, pointers.as_ptr()) }
    }

    /// What the compiler has to say; empty where that is not to be had.
    fn log(&self) -> String {
        let (nvrtc, program) = (self.nvrtc, self.program);
        // SAFETY: the program is alive.
        let size = |bytes| unsafe { nvrtc.nvrtcGetProgramLogSize(program, bytes) };
        // SAFETY: as above.
        let bytes = written(size, |to| unsafe { nvrtc.nvrtcGetProgramLog(program, to) });
        let bytes = bytes.unwrap_or_default();
        String::from_utf8_lossy(bytes.split(|b| *b == 0).next().unwrap_or_default()).into_owned()
    }

    /// The machine code, or for a card that the compiler does not know, PTX with the zero at its end.
    fn image(&self, native: bool) -> std::result::Result<Vec<u8>, Refusal> {
        let (nvrtc, program) = (self.nvrtc, self.program);
        // SAFETY: the program is alive, and has been compiled.
        let size = |bytes| unsafe {
            match native {
                true => nvrtc.nvrtcGetCUBINSize(program, bytes),
                false => nvrtc.nvrtcGetPTXSize(program, bytes),
            }
        };
        // SAFETY: as above.
        written(size, |to| unsafe {
            match native {
                true => nvrtc.nvrtcGetCUBIN(program, to),
                false => nvrtc.nvrtcGetPTX(program, to),
            }
        })
    }
}

impl Drop for Unit {
    fn drop(&mut self) {
        // SAFETY: nobody uses it any more.
        let _ = unsafe { self.nvrtc.nvrtcDestroyProgram(&raw mut self.program) };
    }
}

/// Bytes that NVRTC writes, once it has told how many there are.
fn written(
    size: impl FnOnce(*mut usize) -> std::result::Result<(), Refusal>,
    write: impl FnOnce(*mut c_char) -> std::result::Result<(), Refusal>,
) -> std::result::Result<Vec<u8>, Refusal> {
    let mut count = 0;
    size(&raw mut count)?;
    let mut bytes = vec![0_u8; count];
    write(bytes.as_mut_ptr().cast())?;
    Ok(bytes)
}

impl Compiler {
    /// Errors: [`Error::Unsupported`] with what is missing.
    pub fn open() -> Result<Self> {
        let unsupported = |missing| Error::Unsupported { device: "CUDA".into(), missing };
        let nvrtc = loader::nvrtc().map_err(unsupported)?;
        let mut version = (0, 0);
        // SAFETY: writes two integers.
        unsafe { nvrtc.nvrtcVersion(&raw mut version.0, &raw mut version.1) }
            .map_err(|e| failed("NVRTC", e))?;
        Ok(Self { nvrtc, version })
    }

    /// `12.9`.
    pub fn version(self) -> String {
        format!("{}.{}", self.version.0, self.version.1)
    }

    /// Why it compiles nothing at all, such as for want of a library of its own; `None` where it does.
    pub(super) fn lack(self) -> Option<String> {
        let text = CString::new("extern \"C\" __global__ void nothing() {}").ok()?;
        let name = CString::new("nothing.cu").ok()?;
        let oldest = CString::new("--gpu-architecture=compute_75").ok()?;
        let refusal = Unit::new(self.nvrtc, &text, &name).and_then(|unit| unit.compile(&[oldest])).err()?;
        Some(format!(
            "NVRTC {} compiles nothing: {refusal:?}; its libnvrtc-builtins must lie beside it, of the same version",
            self.version()
        ))
    }

    /// Architectures that it knows, oldest first: 75, 80, 90…
    ///
    /// Errors: as NVRTC says.
    pub fn architectures(self) -> Result<Vec<i32>> {
        let mut count = 0;
        // SAFETY: writes one integer.
        unsafe { self.nvrtc.nvrtcGetNumSupportedArchs(&raw mut count) }.map_err(|e| failed("NVRTC", e))?;
        let mut list = vec![0; usize::try_from(count).unwrap_or(0)];
        // SAFETY: writes as many integers as it has just said.
        unsafe { self.nvrtc.nvrtcGetSupportedArchs(list.as_mut_ptr()) }.map_err(|e| failed("NVRTC", e))?;
        Ok(list)
    }

    /// Compiles a joined text for an architecture such as 80: for the newest that the compiler knows, as PTX, where that one is newer.
    ///
    /// Errors: [`Error::Shader`] with the compiler's report, [`Error::Device`].
    pub fn compile(self, kernel: &str, source: &Source, text: &str, architecture: i32) -> Result<Code> {
        let known = self.architectures()?;
        let newest = known.iter().copied().filter(|known| *known <= architecture).max().ok_or_else(|| {
            Error::Unsupported {
                device: "CUDA".into(),
                missing: format!("compiles for architectures {known:?}, and the card has {architecture}"),
            }
        })?;
        let native = known.contains(&architecture);
        let target = if native { format!("sm_{architecture}") } else { format!("compute_{newest}") };
        let words = |text: &str| CString::new(text).map_err(|e| failed(kernel, e));
        let options = [&format!("--gpu-architecture={target}"), "--std=c++17", "--ptxas-options=-v"];
        let options = options.into_iter().map(words).collect::<Result<Vec<_>>>()?;
        let unit = Unit::new(self.nvrtc, &words(text)?, &words(&format!("{kernel}.cu"))?)
            .map_err(|e| failed(kernel, e))?;
        let compiled = unit.compile(&options);
        let log = unit.log();
        let image = compiled.and_then(|()| unit.image(native));
        let image = image.map_err(|status| {
            let line =
                log.lines().find_map(|l| l.split_once(".cu(")?.1.split(')').next()?.parse::<usize>().ok());
            let place = line.map_or_else(String::new, |line| format!("{}: ", origin(source, text, line)));
            Error::Shader {
                kernel: format!("{kernel} (NVRTC {}, {target})", self.version()),
                // Not every failure leaves a word in the log.
                report: match log.trim() {
                    "" => format!("{status:?}"),
                    log => format!("{place}{log}"),
                },
            }
        })?;
        Ok(Code { image, log })
    }

    /// The same from disk where it has been compiled before, and to disk where not. What cannot be read or written there is compiled anew
    /// and not kept.
    ///
    /// Errors: as [`Self::compile`].
    pub fn compile_cached(
        self,
        kernel: &str,
        source: &Source,
        text: &str,
        architecture: i32,
    ) -> Result<Code> {
        let Some(path) = self.kept_at(kernel, text, architecture) else {
            return self.compile(kernel, source, text, architecture);
        };
        match std::fs::read(&path) {
            Ok(bytes) => match unpacked(&bytes) {
                Some(image) => return Ok(Code { image, log: String::new() }),
                None => log::warn!("{} is damaged: {kernel} is compiled anew", path.display()),
            },
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
            Err(error) => {
                log::warn!(
                    "{} cannot be read, and {kernel} is compiled anew: {}",
                    path.display(),
                    told(&error)
                );
            }
        }
        let code = self.compile(kernel, source, text, architecture)?;
        let keep = || -> std::io::Result<()> {
            let folder = path.parent().ok_or(std::io::ErrorKind::NotFound)?;
            std::fs::create_dir_all(folder)?;
            // Written beside and moved, so that nobody ever reads half of it.
            // Threads that compile the same do not write one file.
            static WRITTEN: AtomicU64 = AtomicU64::new(0);
            let number = WRITTEN.fetch_add(1, Ordering::Relaxed);
            let beside = path.with_extension(format!("{}-{number}.part", std::process::id()));
            let moved =
                std::fs::write(&beside, packed(&code.image)).and_then(|()| std::fs::rename(&beside, &path));
            moved.inspect_err(|_| {
                // Half of it is of use to nobody.
                let _ = std::fs::remove_file(&beside);
            })
        };
        if let Err(error) = keep() {
            // Where one cannot be kept, none can.
            static TOLD: Once = Once::new();
            let folder = path.parent().unwrap_or(&path).display();
            TOLD.call_once(|| {
                log::warn!(
                    "compiled CUDA code is not kept in {folder}, and each start compiles it anew: {}",
                    told(&error)
                );
            });
        }
        Ok(code)
    }

    /// Keyed by the text, the architecture, the compiler's version and ours.
    fn kept_at(self, kernel: &str, text: &str, architecture: i32) -> Option<PathBuf> {
        let version = format!("{} {} {architecture}", env!("CARGO_PKG_VERSION"), self.version());
        let hash = crate::backend::cache::hash([version.as_str(), text]);
        Some(crate::backend::cache::cache_folder()?.join("cuda").join(format!("{kernel}-{hash:016x}.code")))
    }
}

fn failed(kernel: &str, error: impl std::fmt::Debug) -> Error {
    Error::Device { device: "CUDA".into(), context: kernel.into(), message: format!("{error:?}") }
}

/// What a file of code begins with.
const MARK: &[u8; 8] = b"wgattn01";

/// Code with a mark, its length and a sum, so that a damaged file is known as such.
fn packed(image: &[u8]) -> Vec<u8> {
    let sum = crate::backend::cache::hash_bytes(image);
    [MARK.as_slice(), &(image.len() as u64).to_le_bytes(), &sum.to_le_bytes(), image].concat()
}

fn unpacked(bytes: &[u8]) -> Option<Vec<u8>> {
    let (head, image) = bytes.split_at_checked(24)?;
    let number = |at: usize| Some(u64::from_le_bytes(head.get(at..at + 8)?.try_into().ok()?));
    let whole = &head[..8] == MARK && number(8)? == image.len() as u64 && !image.is_empty();
    (whole && number(16)? == crate::backend::cache::hash_bytes(image)).then(|| image.to_vec())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn damaged_code_is_not_taken() {
        let file = packed(b"machine code");
        assert_eq!(unpacked(&file).as_deref(), Some(b"machine code".as_slice()));
        assert_eq!(unpacked(&file[..file.len() - 1]), None);
        assert_eq!(unpacked(b""), None);
        let mut other = file;
        other[30] ^= 1;
        assert_eq!(unpacked(&other), None);
    }
}
