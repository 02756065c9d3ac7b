#![allow(unsafe_code, reason = "code that was compiled a moment ago is loaded and called")]
//! From joined sources to functions: the host's C++ compiler, and the libraries it makes.

use crate::backend::cuda::Launch;
use crate::error::{Error, Result};
use crate::kernel::Access;
use crate::kernel::KernelSpec;
use crate::kernel::cuda::{PRELUDE, element, origin};
use libloading::Library;
use std::collections::HashMap;
use std::ffi::{CStr, c_char, c_int, c_uint, c_void};
use std::fmt::Write as _;
use std::io::Write as _;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

/// Everything that a source may use, in terms of the host.
const SHIM: &str = include_str!("shim.h");

/// Runs all blocks of a launch: null, or what its threads did wrong, as a text that stays.
type Entry = unsafe extern "C" fn(c_uint, c_uint, *const c_void, *const *mut c_void, c_int) -> *const c_char;

/// A compiled source. Its shared memory and its threads exist once, so launches take turns.
#[derive(Debug)]
pub(super) struct Code {
    library: Mutex<Library>,
    name: String,
}

impl Code {
    /// Runs a launch.
    ///
    /// Errors: [`Error::Device`] where the threads of a block wait for each other for ever, or use asynchronous copies wrongly.
    ///
    /// # Safety
    ///
    /// `arguments` are null or the beginnings of tensors of the kernel's ports, and `params` are the words of its `Params`.
    pub(super) unsafe fn launch(
        &self,
        blocks: u32,
        threads: u32,
        params: &[u32],
        arguments: &[*mut c_void],
        backwards: bool,
    ) -> Result<()> {
        let failed = |message: String| Error::Device {
            device: super::NAME.into(),
            context: self.name.clone(),
            message,
        };
        let library = self.library.lock().unwrap_or_else(PoisonError::into_inner);
        // SAFETY: the library was made by `Compiler::library`, which ends every source with a function of this type.
        let entry = unsafe { library.get::<Entry>(b"launch\0") }.map_err(|e| failed(e.to_string()))?;
        // SAFETY: the caller's promise; the lock makes this the only launch.
        let result = unsafe {
            entry(blocks, threads, params.as_ptr().cast(), arguments.as_ptr(), c_int::from(backwards))
        };
        if result.is_null() {
            return Ok(());
        }
        // SAFETY: the shim's texts are constants of the library, which is loaded.
        Err(failed(unsafe { CStr::from_ptr(result) }.to_string_lossy().into_owned()))
    }
}

/// A text's code, once somebody has compiled it.
type Made = OnceLock<Result<Arc<Code>>>;

/// A C++ compiler, and what it has compiled in this process.
#[derive(Debug)]
pub(super) struct Compiler {
    command: String,
    version: String,
    /// Where sources are read from instead of those that were built in.
    sources: Option<PathBuf>,
    made: Mutex<HashMap<String, Arc<Made>>>,
}

/// A folder for one library: removed as soon as that is loaded, which it stays.
#[derive(Debug)]
struct Folder(PathBuf);

impl Folder {
    fn new() -> std::io::Result<Self> {
        static COUNT: std::sync::atomic::AtomicU32 = std::sync::atomic::AtomicU32::new(0);
        let number = COUNT.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("wgattn-cuda-host-{}-{number}", std::process::id()));
        std::fs::create_dir_all(&path)?;
        Ok(Self(path))
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // Nobody needs it any more, and nothing is lost where it stays.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

impl Compiler {
    /// Errors: why there is none, and what to do.
    pub(super) fn find(sources: Option<PathBuf>) -> std::result::Result<Self, String> {
        if !cfg!(unix) {
            return Err("the shim needs fibers of a C library on Linux or macOS".into());
        }
        let command =
            std::env::var("CXX").ok().filter(|c| !c.trim().is_empty()).unwrap_or_else(|| "c++".into());
        let output = Command::new(&command).arg("--version").stdin(Stdio::null()).output().map_err(|e| {
            format!("no C++ compiler: `{command}` does not start ({e}); install g++ or clang++, or name one with CXX")
        })?;
        let text = String::from_utf8_lossy(&output.stdout);
        let version = text.lines().next().unwrap_or_default().trim().to_string();
        if !output.status.success() || version.is_empty() {
            return Err(format!("`{command} --version` fails: name a C++ compiler with CXX"));
        }
        Ok(Self { command, version, sources, made: Mutex::default() })
    }

    /// The compiler's own words.
    pub(super) fn version(&self) -> &str {
        &self.version
    }

    /// The code of a launch.
    ///
    /// Errors: [`Error::Shader`] with what the compiler says.
    pub(super) fn library(&self, spec: &'static KernelSpec, launch: &Launch) -> Result<Arc<Code>> {
        let cell = {
            let mut made = self.made.lock().unwrap_or_else(PoisonError::into_inner);
            Arc::clone(made.entry(launch.text.clone()).or_default())
        };
        cell.get_or_init(|| self.compile(spec, launch).map(Arc::new)).clone()
    }

    /// The joined text, with the kernel's own file and what it shares as they are on disk now, where a folder was given.
    fn current(&self, launch: &Launch) -> std::io::Result<String> {
        let Some(folder) = &self.sources else { return Ok(launch.text.clone()) };
        let shared = launch.source.shared.iter().chain([&PRELUDE]).map(|shared| (shared.file, shared.body));
        shared
            .chain([(launch.source.file, launch.source.body)])
            .try_fold(launch.text.clone(), |text, (file, body)| {
                Ok(text.replacen(body, &std::fs::read_to_string(folder.join(file))?, 1))
            })
    }

    fn compile(&self, spec: &'static KernelSpec, launch: &Launch) -> Result<Code> {
        let name = format!("{}/{}", spec.name, launch.source.name);
        let failed =
            |message: String| Error::Shader { kernel: format!("{name} (CUDA on the host)"), report: message };
        let folder = Folder::new().map_err(|e| failed(format!("no folder for temporary files: {e}")))?;
        let path = folder.0.join(format!("{}.so", spec.name));
        let mut command = Command::new(&self.command);
        // Ctrl-C asks this program to end, which may want what it has begun; a terminal would send it to the compiler too.
        #[cfg(unix)]
        std::os::unix::process::CommandExt::process_group(&mut command, 0);
        let mut compiler = command
            .args([
                "-x",
                "c++",
                "-std=c++17",
                "-O1",
                "-w",
                "-shared",
                "-fPIC",
                "-U_FORTIFY_SOURCE",
                // Variables of templates would be one and the same for all libraries of the process.
                "-fvisibility=hidden",
                "-o",
            ])
            .arg(&path)
            .arg("-")
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .map_err(|e| failed(format!("`{}` does not start: {e}", self.command)))?;
        let joined = self.current(launch).map_err(|e| failed(e.to_string()))?;
        let text = translation(spec, &joined);
        if let Some(mut stdin) = compiler.stdin.take() {
            stdin.write_all(text.as_bytes()).map_err(|e| failed(e.to_string()))?;
        }
        let output = compiler.wait_with_output().map_err(|e| failed(e.to_string()))?;
        if !output.status.success() {
            let report = String::from_utf8_lossy(&output.stderr);
            let place =
                report.lines().find_map(|line| line.strip_prefix("joined:")?.split(':').next()?.parse().ok());
            let place =
                place.map_or_else(String::new, |line| format!("{}: ", origin(launch.source, &joined, line)));
            return Err(failed(format!("{place}{}", report.trim())));
        }
        // SAFETY: the library holds our own sources and the shim, and runs nothing when it is loaded.
        let library = unsafe { Library::new(&path) }.map_err(|e| failed(e.to_string()))?;
        Ok(Code { library: Mutex::new(library), name })
    }
}

/// The shim, the joined text, and a function that runs its entry for all threads.
fn translation(spec: &KernelSpec, joined: &str) -> String {
    let mut text = String::from(SHIM);
    text.push_str("#line 1 \"joined\"\n");
    text.push_str(joined);
    text.push_str("\nstatic const Params* given_params;\nstatic void* const* given;\n");
    let mut arguments = String::from("*given_params");
    for (i, port) in spec.ports.iter().enumerate() {
        let reads = if port.access == Access::Read { "const " } else { "" };
        let _ = write!(arguments, ", ({reads}{}*)given[{i}]", element(port));
    }
    let _ = write!(
        text,
        "static void one_thread() {{ {}({arguments}); }}\n\
         extern \"C\" __attribute__((visibility(\"default\"))) const char* launch(unsigned blocks, unsigned threads, const void* params, void* const* arguments, int backwards) {{\n\
         \x20 given_params = (const Params*)params;\n  given = arguments;\n\
         \x20 return run_grid(blocks, threads, backwards, one_thread);\n}}\n",
        spec.name
    );
    text
}
