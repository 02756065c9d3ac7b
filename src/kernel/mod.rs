//! What a kernel *is*: one static [`KernelSpec`] that says what it computes and, per backend, how.
//!
//! Everything else is derived from the list of these: the parity and shader tests, benchmark rows, the
//! README's kernel table, `wgattn eval`. Adding a kernel means writing its own files and one list line
//! (see ARCHITECTURE.md).
//!
//! Conventions every kernel follows:
//!
//! * Tensors are row-major. A port whose dimensions begin with `b, h` is a batch of independent problems, and the
//!   dispatcher may cut it into windows of heads; a [`Port::broadcast`] port may have 1 there instead.
//! * A workgroup learns its number from [`crate::kernel::wgsl`]'s `linear_group`; kernels have no 2-D grids, so
//!   that any count can be folded under the limit of 65 535 groups per dimension.

pub mod case;
pub mod cuda;
pub mod params;
pub mod reference;
pub mod resize;
pub(crate) mod tile;
#[cfg(feature = "wgpu")]
pub mod wgsl;

use crate::error::Result;
use crate::graph::Expansion;
use crate::tensor::{DType, Dims, HostData};
pub use params::{Field, KernelParams, NoParams, Number, Role};
pub use reference::{HostArgs, Real, Reference};
pub use resize::Resize;

/// What a kernel does with a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Only reads it.
    Read,
    /// Writes every element of it.
    Write,
}

/// How a shader reaches a port on wgpu.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Class {
    /// A storage buffer, bound in place.
    Storage,
    /// A 64 KiB uniform buffer of `vec4f` into which the dispatcher copies a window of the tensor.
    Uniform,
    /// An `rgba32float` texture, 2048 texels wide, into which the dispatcher copies the tensor as a list of `vec4f`.
    Texture,
}

/// One named argument of a kernel.
#[derive(Clone, Copy, Debug)]
pub struct Port {
    /// Name: the same in Rust, WGSL and error messages.
    pub name: &'static str,
    /// Whether the kernel reads or writes it.
    pub access: Access,
    /// Element type.
    pub dtype: DType,
    /// Dimension names, slowest first; a number stands for itself. Equal names must have equal sizes.
    pub dims: &'static [&'static str],
    /// Whether it may be left out.
    pub optional: bool,
    /// Whether its leading `b, h` may be 1 for every head of every batch element.
    pub broadcast: bool,
    /// Whether every element must be a finite number above 0 (bandwidths); checked when the caller writes it.
    pub positive: bool,
    /// Whether it holds what a backend measured of itself (residuals, step counts): every backend has its own, so
    /// parity does not compare it.
    pub diagnostic: bool,
    /// Whether it is the number of workgroups to dispatch, in three dimensions, in place of [`Variant::grid`]'s.
    pub groups: bool,
}

impl Port {
    /// A required float input.
    pub const fn read(name: &'static str, dims: &'static [&'static str]) -> Self {
        Self {
            name,
            access: Access::Read,
            dtype: DType::F32,
            dims,
            optional: false,
            broadcast: false,
            diagnostic: false,
            positive: false,
            groups: false,
        }
    }

    /// A float output.
    pub const fn write(name: &'static str, dims: &'static [&'static str]) -> Self {
        Self {
            name,
            access: Access::Write,
            dtype: DType::F32,
            dims,
            optional: false,
            broadcast: false,
            diagnostic: false,
            positive: false,
            groups: false,
        }
    }

    /// The same port with another element type.
    pub const fn of(self, dtype: DType) -> Self {
        Self { dtype, ..self }
    }

    /// The same port, which may be left out.
    pub const fn optional(self) -> Self {
        Self { optional: true, ..self }
    }

    /// The same port, whose leading `b, h` may be 1.
    pub const fn broadcast(self) -> Self {
        Self { broadcast: true, ..self }
    }

    /// The same port, whose elements must be finite and above 0.
    pub const fn positive(self) -> Self {
        Self { positive: true, ..self }
    }

    /// A port `[3]` that an earlier pass fills with the number of workgroups to dispatch: an indirect dispatch, so that work
    /// found on the device needs no readback. The shader does not bind it, and [`Variant::grid`] says how many groups there
    /// may be at most: `params.groups`. If the step is cut into windows, each of them dispatches this number.
    pub const fn workgroups(name: &'static str) -> Self {
        Self { dtype: DType::U32, groups: true, ..Self::read(name, &["3"]) }
    }

    /// The same port, which holds what the backend measured of itself.
    pub const fn diagnostic(self) -> Self {
        Self { diagnostic: true, ..self }
    }
}

/// Software and hardware that want different shapes of the same kernel. Keyed by driver, not by adapter type: two
/// software drivers disagree by a factor of seven about what a uniform load costs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Driver {
    /// Any real GPU.
    Gpu,
    /// Mesa's llvmpipe and lavapipe.
    Llvmpipe,
    /// Google's SwiftShader.
    SwiftShader,
}

/// What a device offers that kernels ask about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Caps {
    /// Which variants it prefers.
    pub driver: Driver,
    /// Bytes of workgroup memory.
    pub workgroup_bytes: u32,
    /// Invocations in a workgroup.
    pub invocations: u32,
    /// Bytes of one storage binding.
    pub storage_binding: u64,
    /// Bytes of one buffer.
    pub buffer: u64,
    /// Storage buffers in one stage.
    pub storage_buffers: u32,
    /// Rows of a 2-D texture.
    pub texture_rows: u32,
    /// Alignment of a storage binding's offset, in bytes.
    pub storage_alignment: u32,
    /// Workgroups in one dimension of a dispatch.
    pub groups: u32,
    /// Loop rounds that one invocation may make in all. llvmpipe ends loops past 65 535 without any error.
    pub loop_rounds: u64,
    /// Threads that a subgroup has at least; 0 where subgroup operations may not be used.
    pub subgroup_lanes: u32,
    /// Transient bytes that a composed operation should stay under; it cuts heads into slices for it.
    pub memory_budget: u64,
}

/// A compile-time constant of a variant.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Constant {
    /// An unsigned integer.
    U32(u32),
    /// A truth value.
    Bool(bool),
}

/// Words that one run of a variant moves, by the path they take, and what its tile adds to the kernel's own work.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Loads {
    /// Words read from storage buffers.
    pub storage: f64,
    /// Words read from uniform buffers.
    pub uniform: f64,
    /// Words read from textures.
    pub texture: f64,
    /// Words read from workgroup memory.
    pub workgroup: f64,
    /// Words among [`Cost::stores`] that are written as `vec4f`, which software drivers do much faster.
    pub vector_stores: f64,
    /// Operations among [`Cost::flop`] and `padding` on more sums per thread than a processor has registers for.
    pub many_sums: f64,
    /// Operations on what a tile covers beyond the tensors, which [`Cost::flop`] does not count.
    pub padding: f64,
}

/// Work of one run, whatever computes it.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Cost {
    /// Floating-point operations (a multiply-add counts two, an |a−b| accumulate two).
    pub flop: f64,
    /// Absolute differences among them, of two operations each: many devices take longer for these than for a multiply-add.
    pub differences: f64,
    /// Exponentials and other special functions.
    pub exp: f64,
    /// Words stored.
    pub stores: f64,
    /// Bytes that must move between memory and the processor at least once.
    pub bytes: f64,
}

/// One WGSL realisation of a kernel.
#[derive(Debug)]
pub struct Variant {
    /// Short name: `tile64`, `texture`, `plain`.
    pub name: &'static str,
    /// Path of the shader below `shaders/`.
    pub file: &'static str,
    /// Its text.
    pub body: &'static str,
    /// Shared modules put in front of it.
    pub shared: &'static [&'static wgsl_module::Shared],
    /// Drivers on which it is the first choice where it suits.
    pub preferred_on: &'static [Driver],
    /// Ports that do not come as storage buffers.
    pub classes: &'static [(&'static str, Class)],
    /// Ports that the shader reads as `vec4f`: their rows and offsets must be multiples of four elements.
    pub vec4: &'static [&'static str],
    /// Constants put in front of the text, from the shape.
    pub constants: fn(&Dims) -> Vec<(&'static str, Constant)>,
    /// Whether the variant can do this shape on this device.
    pub suits: fn(&Dims, &[u8], &Caps) -> bool,
    /// Workgroups for `batches` heads of this shape.
    pub grid: fn(&Dims, u64) -> u64,
    /// Words loaded by path, for one head.
    pub loads: fn(&Dims, &[u8]) -> Loads,
    /// Loop rounds of one invocation, nested ones multiplied; the dispatcher refuses what a driver would cut short.
    pub rounds: fn(&Dims) -> u64,
    /// Threads that a subgroup must have at least; 0 without subgroup operations.
    pub subgroup_lanes: u32,
}

impl Variant {
    /// The one variant of a kernel that has no others: any shape, every port a storage buffer, one shader for all.
    pub const fn only(
        file: &'static str,
        body: &'static str,
        shared: &'static [&'static wgsl_module::Shared],
        grid: fn(&Dims, u64) -> u64,
        loads: fn(&Dims, &[u8]) -> Loads,
    ) -> Self {
        Self {
            name: "plain",
            file,
            body,
            shared,
            preferred_on: &[Driver::Gpu, Driver::Llvmpipe, Driver::SwiftShader],
            classes: &[],
            vec4: &[],
            constants: no_constants,
            suits: always,
            grid,
            loads,
            rounds: few_rounds,
            subgroup_lanes: 0,
        }
    }

    /// The same variant with loops that grow with the shape.
    pub const fn rounds(self, rounds: fn(&Dims) -> u64) -> Self {
        Self { rounds, ..self }
    }
}

/// Shared WGSL text, available without the wgpu feature too so that specs are the same everywhere. What only the
/// variants of one kernel share stands in that kernel's file.
pub mod wgsl_module {
    /// A WGSL module without bindings that variants name in [`super::Variant::shared`].
    #[derive(Debug)]
    pub struct Shared {
        /// Path below `shaders/`.
        pub file: &'static str,
        /// Its text.
        pub body: &'static str,
    }

    /// e^x within 2 ULP, whatever the driver's own `exp` does.
    pub const EXP: &Shared =
        &Shared { file: "shared/exp.wgsl", body: include_str!("../../shaders/shared/exp.wgsl") };
    /// The number of a workgroup in a folded dispatch.
    pub const GROUP: &Shared =
        &Shared { file: "shared/group.wgsl", body: include_str!("../../shaders/shared/group.wgsl") };
    /// Reading a byte mask four to a word.
    pub const BYTES: &Shared =
        &Shared { file: "shared/bytes.wgsl", body: include_str!("../../shaders/shared/bytes.wgsl") };
    /// Reading tensors that come as textures.
    pub const TEXELS: &Shared =
        &Shared { file: "shared/texels.wgsl", body: include_str!("../../shaders/shared/texels.wgsl") };
}

/// A function that records the smaller passes of a kernel.
pub type Expand = fn(&mut Expansion<'_>) -> Result<()>;

/// How a kernel runs on wgpu.
#[derive(Debug)]
pub enum OnWgpu {
    /// One dispatch of one of these variants.
    Shader(&'static [Variant]),
    /// Smaller entries, chosen from shape and device.
    Expand(Expand),
}

/// What a library of the card's maker computes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Library {
    /// A batched matrix product by cuBLAS, with what follows it by a kernel.
    Gemm,
    /// Transforms of many lines by cuFFT.
    Fft,
}

impl Library {
    /// Its name, as steps that it does are called in lists of variants.
    pub fn name(self) -> &'static str {
        match self {
            Self::Gemm => "cublas",
            Self::Fft => "cufft",
        }
    }

    /// Its name as its makers write it.
    pub fn title(self) -> &'static str {
        match self {
            Self::Gemm => "cuBLAS",
            Self::Fft => "cuFFT",
        }
    }
}

/// How a kernel runs on CUDA.
#[derive(Debug)]
pub enum OnCuda {
    /// One launch of the first of these that suits.
    Source(&'static [cuda::Source]),
    /// A library, and the launch that follows where the library does only part of the kernel's work.
    Library(Library, &'static cuda::Source),
    /// The same smaller entries as on a GPU by wgpu.
    Expand,
}

/// How close a result must come to the f64 reference: error ≤ `factor` × the naive f32 error + `floor`, both relative
/// to the largest reference value of the output.
#[derive(Clone, Copy, Debug)]
pub struct Tolerance {
    /// Times the error of the naive f32 computation.
    pub factor: f64,
    /// Added to it.
    pub floor: f64,
    /// Why the floor is what it is.
    pub reason: &'static str,
}

impl Tolerance {
    /// Twice the naive error plus eight f32 roundings, for sums in another order.
    pub const SUMS: Self = Self {
        factor: 2.0,
        floor: 8.0 * f32::EPSILON as f64,
        reason: "sums in another order: a few roundings even where the naive order happens to be exact",
    };
    /// Bits must agree.
    pub const EXACT: Self = Self { factor: 0.0, floor: 0.0, reason: "copies and integers have no rounding" };
}

/// How a test case fills an input.
#[derive(Clone, Copy, Debug)]
pub enum Fill {
    /// Uniform between two bounds.
    Uniform(f32, f32),
    /// The same number everywhere.
    Value(f32),
    /// Whole numbers from 0 below the bound (masks and labels).
    Below(u32),
    /// Data made for this case.
    Made(fn(&Dims) -> HostData),
}

/// One shape with its parameters, for parity tests and benchmark rows.
#[derive(Debug)]
pub struct Case {
    /// Name within the kernel: `smallest`, `odd`, `tile_plus_one`, `large_values`.
    pub name: &'static str,
    /// Sizes of all dimensions.
    pub dims: &'static [(&'static str, u32)],
    /// Parameter bytes.
    pub params: fn() -> Vec<u8>,
    /// Ports left out.
    pub absent: &'static [&'static str],
    /// How inputs are filled; uniform in [−1, 1] where nothing is said.
    pub fill: &'static [(&'static str, Fill)],
    /// Ports whose leading `b, h` are 1.
    pub broadcast: &'static [&'static str],
    /// Whether `wgattn bench` runs it (and the parity test, if it is small) .
    pub bench: bool,
    /// How it follows other sizes.
    pub resize: Resize,
}

impl Case {
    /// A case with nothing special about it.
    pub const fn new(
        name: &'static str,
        dims: &'static [(&'static str, u32)],
        params: fn() -> Vec<u8>,
    ) -> Self {
        Self {
            name,
            dims,
            params,
            absent: &[],
            fill: &[],
            broadcast: &[],
            bench: false,
            resize: Resize::Plain,
        }
    }

    /// The same case without some optional ports.
    pub const fn without(self, absent: &'static [&'static str]) -> Self {
        Self { absent, ..self }
    }

    /// The same case with special inputs.
    pub const fn filled(self, fill: &'static [(&'static str, Fill)]) -> Self {
        Self { fill, ..self }
    }

    /// The same case with some ports shared by all heads.
    pub const fn shared(self, broadcast: &'static [&'static str]) -> Self {
        Self { broadcast, ..self }
    }

    /// A case that only the benchmark runs.
    pub const fn for_bench(self) -> Self {
        Self { bench: true, ..self }
    }
}

/// A third dimension of ports along which a head may be cut, and how many of its elements one unit of a window covers.
pub type Unit = (&'static str, u32);

/// Everything the project knows about one kernel.
#[derive(Debug)]
pub struct KernelSpec {
    /// Name = file stem = shader stem = test prefix = benchmark row.
    pub name: &'static str,
    /// Folder below `src/kernels/` and `shaders/`.
    pub family: &'static str,
    /// One line of mathematics.
    pub formula: &'static str,
    /// Paper and equation, or derivation.
    pub source: &'static str,
    /// Arguments in binding order.
    pub ports: &'static [Port],
    /// Parameters, in the order of the `Params` struct.
    pub params: &'static [Field],
    /// Parameter values `wgattn eval` starts from.
    pub defaults: fn() -> Vec<u8>,
    /// Completes dimensions that only outputs have, from the inputs' and the parameters, for callers that give only
    /// inputs (`wgattn eval`); `None` where every dimension is an input's.
    pub output_dims: Option<fn(&mut Dims, &[u8])>,
    /// What the dimensions and parameters must satisfy beyond equal names; the message says what is wrong.
    pub check: fn(&Dims, &[u8]) -> std::result::Result<(), String>,
    /// How it runs on wgpu.
    pub wgpu: OnWgpu,
    /// How it runs on CUDA.
    pub cuda: OnCuda,
    /// The computation itself, in f64 and in naive f32.
    pub reference: Reference,
    /// How a head may be cut where a binding would be too large: third dimensions of its ports and how many of their
    /// elements one unit of the window covers. Empty: a head is bound whole.
    pub window: fn(&Dims, &[u8]) -> Vec<Unit>,
    /// Work of one run.
    pub cost: fn(&Dims, &[u8]) -> Cost,
    /// How close it must come.
    pub tolerance: Tolerance,
    /// Shapes to test and to time.
    pub cases: &'static [Case],
    /// The entry that computes its vector-Jacobian product; gradients arrive with their own issue.
    pub vjp: Option<&'static Self>,
}

impl KernelSpec {
    /// Index of a port by name.
    pub fn port_index(&self, name: &str) -> Option<usize> {
        self.ports.iter().position(|p| p.name == name)
    }

    /// Names of all dimensions in order of first appearance, numbers left out.
    pub fn dim_names(&self) -> Vec<&'static str> {
        let mut names = Vec::new();
        for dim in self.ports.iter().flat_map(|p| p.dims) {
            if dim.parse::<u32>().is_err() && !names.contains(dim) {
                names.push(*dim);
            }
        }
        names
    }
}

/// The window of a kernel whose heads are bound whole.
pub fn whole_heads(_: &Dims, _: &[u8]) -> Vec<(&'static str, u32)> {
    Vec::new()
}

/// The window of a kernel whose query rows `n` are independent.
pub fn by_rows(_: &Dims, _: &[u8]) -> Vec<(&'static str, u32)> {
    vec![("n", 1)]
}

/// The loop rounds of a variant whose loops do not grow with the shape, or whose kernel checks its sizes itself.
pub fn few_rounds(_: &Dims) -> u64 {
    0
}

/// The constants of a variant that has none.
pub fn no_constants(_: &Dims) -> Vec<(&'static str, Constant)> {
    Vec::new()
}

/// The test of a variant that can do any shape anywhere.
pub fn always(_: &Dims, _: &[u8], _: &Caps) -> bool {
    true
}

/// The check of a kernel that has nothing to add to equal names.
pub fn any_dims(_: &Dims, _: &[u8]) -> std::result::Result<(), String> {
    Ok(())
}
