//! How fast a device reads words that are near: the roof of kernels whose loads, not their arithmetic, take the time.
//!
//! out\[i\] = Σ over 8 · 128 texels t = (i + s) mod 256 from s = 0, of the sum of texel t's four words.
//!
//! * `x` `[b, h, 1024]`: 4 KiB, which stay in the nearest cache. Where the words of a texel lie differs between paths, as do the
//!   paths' best layouts: side by side, or 256 words apart.
//! * `out` `[b, h, n]`.
//!
//! Each variant is a path: words or vectors of a storage buffer, a uniform buffer, a texture, workgroup memory.

use crate::kernel::cuda::Source;
use crate::kernel::wgsl_module::{GROUP, Shared, TEXELS};
use crate::kernel::*;
use crate::{cuda_shared, cuda_source, reference};
use crate::tensor::Dims;

/// Texels of four words.
const COUNT: u32 = 256;
/// Rounds of eight texels.
const ROUNDS: u32 = 128;
/// Words that one thread reads.
const WORDS: u32 = 32 * ROUNDS;

const WALK: &Shared =
    &Shared { file: "probe/probe_load.wgsl", body: include_str!("../../../shaders/probe/probe_load.wgsl") };

fn reference<T: Real>(args: &mut HostArgs<T>) -> crate::Result<()> {
    let (x, n, m) = (args.real("x"), args.dims.at("n"), args.dims.at("m"));
    // Over a whole number of walks around, the sum is the same for every thread and layout: all words, as often as they are met.
    let out = reference::rows(args.dims.batches() as usize, n, 1, |batch, i, line| {
        let texel = |t: usize| -> T {
            (0..4).map(|c| x[batch * m + (i + t) % COUNT as usize + c * COUNT as usize]).sum()
        };
        line[0] = (0..8 * ROUNDS as usize).map(texel).sum();
    });
    args.set("out", out);
    Ok(())
}

fn constants(_: &Dims) -> Vec<(&'static str, Constant)> {
    vec![("TEXELS", Constant::U32(COUNT)), ("ROUNDS", Constant::U32(ROUNDS))]
}

fn path_constants(vectors: bool, staged: bool) -> Vec<(&'static str, Constant)> {
    let mut all = constants(&Dims::default());
    all.extend([("VECTORS", Constant::Bool(vectors)), ("STAGED", Constant::Bool(staged))]);
    all
}

fn grid(d: &Dims, batches: u64) -> u64 {
    batches * u64::from(d.size("n").div_ceil(64))
}

fn words(d: &Dims) -> f64 {
    f64::from(d.size("n")) * f64::from(WORDS)
}

/// A path; it is the first choice nowhere, because a device has all of them.
macro_rules! path {
    ($name:literal, $loads:expr, $shared:expr) => {
        Variant {
            name: $name,
            constants,
            preferred_on: &[],
            ..Variant::only(
                concat!("probe/probe_load_", $name, ".wgsl"),
                include_str!(concat!("../../../shaders/probe/probe_load_", $name, ".wgsl")),
                $shared,
                grid,
                $loads,
            )
        }
    };
}

/// The kernel's description.
pub static SPEC: KernelSpec = KernelSpec {
    name: "probe_load",
    family: "probe",
    formula: "out[i] = Σ over 1024 texels from the i-th on, of 256 in a ring, of their four words",
    source: "definition",
    ports: &[Port::read("x", &["b", "h", "m"]), Port::write("out", &["b", "h", "n"])],
    params: &[],
    defaults: Vec::new,
    output_dims: None,
    check: |d, _| match d.size("m") {
        m if m == 4 * COUNT => Ok(()),
        m => Err(format!("`x` has 1024 words per head, got {m}")),
    },
    wgpu: OnWgpu::Shader(&[
        Variant {
            preferred_on: &[Driver::Gpu, Driver::Llvmpipe, Driver::SwiftShader],
            ..path!("word", |d, _| Loads { storage: words(d), ..Loads::default() }, &[GROUP, WALK])
        },
        Variant {
            vec4: &["x"],
            ..path!("vec4", |d, _| Loads { storage: words(d), ..Loads::default() }, &[GROUP, WALK])
        },
        Variant {
            classes: &[("x", Class::Uniform)],
            ..path!("uniform", |d, _| Loads { uniform: words(d), ..Loads::default() }, &[GROUP, WALK])
        },
        Variant {
            classes: &[("x", Class::Texture)],
            ..path!("texture", |d, _| Loads { texture: words(d), ..Loads::default() }, &[GROUP, TEXELS, WALK])
        },
        path!("workgroup", |d, _| Loads { workgroup: words(d), ..Loads::default() }, &[GROUP, WALK]),
    ]),
    cuda: OnCuda::Source(&[
        Source {
            name: "vec4",
            vec4: &["x"],
            constants: |_| path_constants(true, false),
            ..cuda_source!("probe/probe_load.cu", 128, |d, _| {
                d.batches() * u64::from(d.size("n").div_ceil(128))
            })
            .with(&[cuda_shared!("shared/vectors.cuh")])
        },
        Source {
            name: "word",
            constants: |_| path_constants(false, false),
            ..cuda_source!("probe/probe_load.cu", 128, |d, _| {
                d.batches() * u64::from(d.size("n").div_ceil(128))
            })
            .with(&[cuda_shared!("shared/vectors.cuh")])
        },
        Source {
            name: "workgroup",
            constants: |_| path_constants(false, true),
            ..cuda_source!("probe/probe_load.cu", 128, |d, _| {
                d.batches() * u64::from(d.size("n").div_ceil(128))
            })
            .with(&[cuda_shared!("shared/vectors.cuh")])
        },
    ]),
    reference: reference!(reference),
    window: whole_heads,
    cost: |d, _| {
        let n = d.batches() as f64 * f64::from(d.size("n"));
        let flop = n * f64::from(WORDS);
        Cost { flop, exp: 0.0, stores: n, bytes: 4.0 * (n + d.batches() as f64 * f64::from(d.size("m"))), ..Cost::default() }
    },
    tolerance: Tolerance::SUMS,
    cases: &[
        Case::new("smallest", &[("b", 1), ("h", 1), ("m", 1024), ("n", 1)], Vec::new),
        Case::new("odd", &[("b", 2), ("h", 3), ("m", 1024), ("n", 67)], Vec::new),
        Case::new("peak", &[("b", 1), ("h", 1), ("m", 1024), ("n", 16_384)], Vec::new).for_bench(),
    ],
    vjp: None,
};
