#![allow(unsafe_code, reason = "NVRTC is a C library")]
//! From text to machine code: NVRTC, and what it has compiled before, on disk.

use super::loader;
use crate::error::{Error, Result};
use crate::kernel::cuda::{Source, origin};
use crate::words::told;
use cudarc::nvrtc::{result, sys};
use std::ffi::{CString, c_char};
use std::path::PathBuf;
use std::sync::Once;

/// Machine code for one architecture.
#[derive(Clone, Debug)]
pub struct Code {
    /// A cubin, or PTX with a zero at its end where the card is newer than the compiler.
    pub image: Vec<u8>,
    /// What the compiler says, spills and registers included; empty where the code comes from disk.
    pub log: String,
}

/// NVRTC, if it is there.
#[derive(Clone, Copy, Debug)]
pub struct Compiler {
    version: (i32, i32),
}

impl Compiler {
    /// Errors: [`Error::Unsupported`] with what is missing.
    pub fn open() -> Result<Self> {
        if let Some(missing) = loader::nvrtc_lack() {
            return Err(Error::Unsupported { device: "CUDA".into(), missing });
        }
        let mut version = (0, 0);
        // SAFETY: the loader has found the function; it writes two integers.
        unsafe { sys::nvrtcVersion(&raw mut version.0, &raw mut version.1) }
            .result()
            .map_err(|e| failed("NVRTC", e))?;
        Ok(Self { version })
    }

    /// `12.9`.
    pub fn version(self) -> String {
        format!("{}.{}", self.version.0, self.version.1)
    }

    /// Architectures that it knows, oldest first: 75, 80, 90…
    ///
    /// Errors: as NVRTC says.
    pub fn architectures(self) -> Result<Vec<i32>> {
        let mut count = 0;
        // SAFETY: writes one integer.
        unsafe { sys::nvrtcGetNumSupportedArchs(&raw mut count) }.result().map_err(|e| failed("NVRTC", e))?;
        let mut list = vec![0; usize::try_from(count).unwrap_or(0)];
        // SAFETY: writes as many integers as it has just said.
        unsafe { sys::nvrtcGetSupportedArchs(list.as_mut_ptr()) }.result().map_err(|e| failed("NVRTC", e))?;
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
        let options =
            [format!("--gpu-architecture={target}"), "--std=c++17".into(), "--ptxas-options=-v".into()];
        let c_text = CString::new(text).map_err(|e| failed(kernel, e))?;
        let name = CString::new(format!("{kernel}.cu")).map_err(|e| failed(kernel, e))?;
        let program = result::create_program(&c_text, Some(&name)).map_err(|e| failed(kernel, e))?;
        // SAFETY: the program has just been made, and text and name outlive it.
        let compiled = unsafe { result::compile_program(program, &options) };
        // SAFETY: as above.
        let log = unsafe { result::get_program_log(program) }.map(|log| words(&log)).unwrap_or_default();
        // SAFETY: as above; sizes are asked before memory of that size is filled.
        let image = compiled.and_then(|()| unsafe { image(program, native) });
        // SAFETY: nobody uses it any more.
        let _ = unsafe { result::destroy_program(program) };
        let image = image.map_err(|status| {
            let line =
                log.lines().find_map(|l| l.split_once(".cu(")?.1.split(')').next()?.parse::<usize>().ok());
            let place = line.map_or_else(String::new, |line| format!("{}: ", origin(source, text, line)));
            Error::Shader {
                kernel: format!("{kernel} (NVRTC {}, {target})", self.version()),
                // Not every failure leaves a word in the log.
                report: match log.trim() {
                    "" => format!("{:?}", status.0),
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
            let beside = path.with_extension(format!("{}.part", std::process::id()));
            std::fs::write(&beside, packed(&code.image))?;
            std::fs::rename(&beside, &path)
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

fn words(bytes: &[c_char]) -> String {
    let bytes: Vec<u8> = bytes.iter().map(|c| c.to_ne_bytes()[0]).take_while(|b| *b != 0).collect();
    String::from_utf8_lossy(&bytes).into_owned()
}

/// # Safety
///
/// `program` has been compiled.
unsafe fn image(
    program: sys::nvrtcProgram,
    native: bool,
) -> std::result::Result<Vec<u8>, result::NvrtcError> {
    if !native {
        // SAFETY: the caller's promise.
        let ptx = unsafe { result::get_ptx(program) }?;
        return Ok(ptx.iter().map(|c| c.to_ne_bytes()[0]).collect());
    }
    let mut size = 0;
    // SAFETY: the caller's promise.
    unsafe { sys::nvrtcGetCUBINSize(program, &raw mut size) }.result()?;
    let mut bytes = vec![0_u8; size];
    // SAFETY: as many bytes as NVRTC has just asked for.
    unsafe { sys::nvrtcGetCUBIN(program, bytes.as_mut_ptr().cast()) }.result()?;
    Ok(bytes)
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
    let whole = &head[..8] == MARK && number(8)? == image.len() as u64;
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
