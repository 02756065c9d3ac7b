//! From a kernel's description to CUDA C++: put the text together, and check its arguments against the ports by name.
//!
//! A source is a generated head (constants and the `Params` struct), the prelude, shared modules, and the kernel's own file, joined by
//! plain concatenation. Its entry is `extern "C" __global__ void NAME(Params params, …)`, NAME being the kernel's, with one pointer
//! per port in port order: `const` where it is read, null where an optional one is left out. `Params` holds the kernel's live parameters,
//! the size of every named dimension, and for each port that heads may share its strides `<port>_b` and `<port>_h` in elements. Pointers
//! stand at the first element of their tensor. Blocks are counted in `blockIdx.x` alone.

use crate::error::{Error, Result};
use crate::kernel::{Access, Constant, Field, KernelSpec, Number, Port, Role};
use crate::tensor::{DType, Dims};
use std::fmt::Write as _;

/// Shared CUDA text. What only the sources of one kernel share stands in that kernel's file.
#[derive(Debug)]
pub struct Shared {
    /// Path below `shaders/`.
    pub file: &'static str,
    /// Its text.
    pub body: &'static str,
}

/// Text below `shaders/` by its path.
#[macro_export]
macro_rules! cuda_text {
    ($file:expr) => {
        include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/shaders/", $file))
    };
}

/// A [`Shared`] module by its path below `shaders/`.
#[macro_export]
macro_rules! cuda_shared {
    ($file:literal) => {
        &$crate::kernel::cuda::Shared { file: $file, body: $crate::cuda_text!($file) }
    };
}

/// A [`Source`] by its path below `shaders/`: the threads of a block, and the blocks for a shape and parameters.
#[macro_export]
macro_rules! cuda_source {
    ($file:literal, $threads:expr, $blocks:expr) => {
        $crate::kernel::cuda::Source::of($file, $crate::cuda_text!($file), $threads, $blocks)
    };
}

/// In front of every source: types, and sums over warps and blocks.
pub const PRELUDE: &Shared = cuda_shared!("shared/prelude.cuh");
/// e^x within 2 ULP, as in WGSL.
pub const EXP: &Shared = cuda_shared!("shared/exp.cuh");
/// Asynchronous copies into shared memory, and the stages that they fill.
pub const ASYNC: &Shared = cuda_shared!("shared/async.cuh");
/// Arithmetic of `float2` and `float4`, and the choice between numbers and vectors.
pub const VECTORS: &Shared = cuda_shared!("shared/vectors.cuh");

/// One realisation of a kernel in CUDA C++.
#[derive(Debug)]
pub struct Source {
    /// Short name: `plain`, `tile64`.
    pub name: &'static str,
    /// Path below `shaders/`.
    pub file: &'static str,
    /// Its text.
    pub body: &'static str,
    /// Shared modules put in front of it, after the prelude.
    pub shared: &'static [&'static Shared],
    /// Threads of a block: the constant `THREADS` of the source.
    pub threads: u32,
    /// Ports that are read or written as `float4`: they begin, and their rows have, whole ones.
    pub vec4: &'static [&'static str],
    /// Constants put in front of the text, from the shape.
    pub constants: fn(&Dims) -> Vec<(&'static str, Constant)>,
    /// Whether the source can do this shape with these parameters.
    pub suits: fn(&Dims, &[u8]) -> bool,
    /// Blocks for all heads of this shape; where a port counts workgroups, the most that it may count.
    pub blocks: fn(&Dims, &[u8]) -> u64,
}

impl Source {
    /// A source for any shape that needs no other: named `plain`, without constants or shared modules.
    pub const fn of(
        file: &'static str,
        body: &'static str,
        threads: u32,
        blocks: fn(&Dims, &[u8]) -> u64,
    ) -> Self {
        Self {
            name: "plain",
            file,
            body,
            shared: &[],
            threads,
            vec4: &[],
            constants: super::no_constants,
            suits: |_, _| true,
            blocks,
        }
    }

    /// The same source with shared modules.
    pub const fn with(self, shared: &'static [&'static Shared]) -> Self {
        Self { shared, ..self }
    }
}

/// A word of `Params`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Word {
    /// A live parameter: its index in the parameter struct.
    Live(usize),
    /// Size of a dimension.
    Dim(&'static str),
    /// A shared port's elements per batch element.
    StrideB(usize),
    /// A shared port's elements per head.
    StrideH(usize),
}

/// The words of `Params` with their names and types, in order.
pub fn words(spec: &KernelSpec) -> Vec<(String, &'static str, Word)> {
    let live = spec.params.iter().enumerate().filter(|(_, f)| f.role == Role::Live);
    let mut words: Vec<_> = live.map(|(i, f)| (f.name.to_string(), scalar(f), Word::Live(i))).collect();
    words.extend(spec.dim_names().into_iter().map(|n| (n.to_string(), "u32", Word::Dim(n))));
    for (i, port) in spec.ports.iter().enumerate().filter(|(_, p)| p.broadcast) {
        words.push((format!("{}_b", port.name), "u32", Word::StrideB(i)));
        words.push((format!("{}_h", port.name), "u32", Word::StrideH(i)));
    }
    words
}

fn scalar(field: &Field) -> &'static str {
    match field.number {
        Number::F32 => "float",
        Number::U32 => "u32",
    }
}

/// The type of a port's elements.
pub fn element(port: &Port) -> &'static str {
    match port.dtype {
        DType::F32 => "float",
        DType::I32 => "int",
        DType::U32 => "u32",
        DType::U8 => "u8",
        DType::Rgba8 => "uchar4",
    }
}

/// The declaration of a port among the arguments of an entry.
fn argument(port: &Port) -> String {
    let reads = if port.access == Access::Read { "const " } else { "" };
    format!("{reads}{}* __restrict__ {}", element(port), port.name)
}

/// Joins a source's text for one shape and one set of fixed parameters: `present[i]` says whether port `i` is given; an optional port
/// gets a constant `HAS_<PORT>`.
pub fn join(spec: &KernelSpec, source: &Source, dims: &Dims, params: &[u8], present: &[bool]) -> String {
    let mut text = format!("// {} ({}): {}\n", spec.name, source.name, spec.formula);
    text.push_str(PRELUDE.body);
    let _ = writeln!(text, "constexpr u32 THREADS = {}u;", source.threads);
    for (name, value) in (source.constants)(dims) {
        let _ = match value {
            Constant::U32(v) => writeln!(text, "constexpr u32 {name} = {v}u;"),
            Constant::Bool(v) => writeln!(text, "constexpr bool {name} = {v};"),
        };
    }
    for field in spec.params.iter().filter(|f| f.role == Role::Fixed) {
        let bytes = field.bytes_in(spec.params, params);
        let name = field.name.to_uppercase();
        let _ = match field.number {
            Number::U32 => {
                writeln!(text, "constexpr u32 {name} = {}u;", bytemuck::pod_read_unaligned::<u32>(bytes))
            }
            Number::F32 => {
                writeln!(text, "constexpr float {name} = {:e}f;", bytemuck::pod_read_unaligned::<f32>(bytes))
            }
        };
    }
    for (port, present) in spec.ports.iter().zip(present).filter(|(p, _)| p.optional) {
        let _ = writeln!(text, "constexpr bool HAS_{} = {present};", port.name.to_uppercase());
    }
    text.push_str("struct Params {\n");
    for (name, ty, _) in words(spec) {
        let _ = writeln!(text, "  {ty} {name};");
    }
    text.push_str("};\n");
    for shared in source.shared {
        text.push_str(shared.body);
    }
    text.push_str(source.body);
    text
}

/// The entry as a source has to declare it.
pub fn entry(spec: &KernelSpec) -> String {
    let arguments: Vec<String> =
        std::iter::once("Params params".to_string()).chain(spec.ports.iter().map(argument)).collect();
    format!("void __launch_bounds__(THREADS) {}({})", spec.name, arguments.join(", "))
}

/// Checks that a source declares its entry as the ports want it.
///
/// Errors: [`Error::Interface`] with what is there and what should be.
pub fn check_entry(spec: &KernelSpec, source: &Source) -> Result<()> {
    const BEGIN: &str = "extern \"C\" __global__ ";
    let one_line = |text: &str| {
        text.split_whitespace().collect::<Vec<_>>().join(" ").replace("( ", "(").replace(" )", ")")
    };
    let wanted = entry(spec);
    // A source may promise how many blocks a multiprocessor has to hold: left to itself, the compiler spills for the sake of one more.
    let bounds =
        |text: String| text.replace("__launch_bounds__(THREADS, RESIDENT)", "__launch_bounds__(THREADS)");
    let found =
        source.body.split(BEGIN).nth(1).and_then(|rest| rest.split('{').next()).map(one_line).map(bounds);
    if found.as_deref() == Some(wanted.as_str()) {
        return Ok(());
    }
    Err(Error::Interface {
        kernel: format!("{}/{}", spec.name, source.name),
        port: source.file.into(),
        reason: format!(
            "declares {}, and the ports want `{BEGIN}{wanted}`",
            found.map_or("no entry".into(), |f| format!("`{f}`"))
        ),
    })
}

/// The file and line that a line of the joined text comes from.
pub fn origin(source: &Source, text: &str, line: usize) -> String {
    let mut at = text.lines().count() - source.body.lines().count();
    if line > at {
        return format!("shaders/{}:{}", source.file, line - at);
    }
    for shared in source.shared.iter().rev() {
        at -= shared.body.lines().count();
        if line > at {
            return format!("shaders/{}:{}", shared.file, line - at);
        }
    }
    // The prelude follows one line of comment.
    match line {
        2.. if line <= 1 + PRELUDE.body.lines().count() => format!("shaders/{}:{}", PRELUDE.file, line - 1),
        _ => format!("generated head, line {line}"),
    }
}
