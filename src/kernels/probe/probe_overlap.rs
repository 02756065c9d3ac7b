//! Whether a device loads while it computes: multiply-adds and texels in about equal parts of the time.
//!
//! out\[i\] = Σ over ten chains c < 10 of s after 512 rounds of seven times s ← s/2 + a, where a is component c mod 4 of texel i + r (mod
//! 256) in round r, from s = c.
//!
//! * `x` `[b, h, 1024]`: 256 texels of four words.
//! * `out` `[b, h, n]`.
//!
//! Where loads hide behind arithmetic, this takes as long as the longer of the two alone; where one stream of instructions does both, as
//! long as both together.

use crate::kernel::cuda::Source;
use crate::kernel::wgsl_module::{GROUP, TEXELS};
use crate::kernel::*;
use crate::{cuda_source, reference};

/// Texels of four words.
const COUNT: u32 = 256;
/// Rounds of one texel.
const ROUNDS: u32 = 512;
/// Multiply-adds of one round.
const STEPS: u32 = 70;

fn reference<T: Real>(args: &mut HostArgs<T>) -> crate::Result<()> {
    let (x, n, m) = (args.real("x"), args.dims.at("n"), args.dims.at("m"));
    let half = T::of(0.5);
    let out = reference::rows(args.dims.batches() as usize, n, 1, |batch, i, line| {
        let word = |t: usize, q: usize| x[batch * m + 4 * ((i + t) % COUNT as usize) + q];
        let chain = |c: usize| {
            (0..ROUNDS as usize).fold(T::of(c as f64), |s, round| {
                let a = word(round, c % 4);
                (0..7).fold(s, |s, _| s * half + a)
            })
        };
        line[0] = (0..10).map(chain).sum();
    });
    args.set("out", out);
    Ok(())
}

/// The kernel's description.
pub static SPEC: KernelSpec = KernelSpec {
    name: "probe_overlap",
    family: "probe",
    formula: "out[i] = Σ over ten chains after 512 rounds of seven times s ← s/2 + a, with a from texels",
    source: "definition",
    ports: &[Port::read("x", &["b", "h", "m"]), Port::write("out", &["b", "h", "n"])],
    params: &[],
    defaults: Vec::new,
    output_dims: None,
    check: |d, _| match d.size("m") {
        m if m == 4 * COUNT => Ok(()),
        m => Err(format!("`x` has 1024 words per head, got {m}")),
    },
    wgpu: OnWgpu::Shader(&[Variant {
        name: "texture",
        classes: &[("x", Class::Texture)],
        constants: |_| vec![("TEXELS", Constant::U32(COUNT)), ("ROUNDS", Constant::U32(ROUNDS))],
        ..Variant::only(
            "probe/probe_overlap.wgsl",
            include_str!("../../../shaders/probe/probe_overlap.wgsl"),
            &[GROUP, TEXELS],
            |d, batches| batches * u64::from(d.size("n").div_ceil(64)),
            |d, _| Loads { texture: f64::from(d.size("n")) * f64::from(4 * ROUNDS), ..Loads::default() },
        )
    }]),
    cuda: OnCuda::Source(&[
        Source {
            name: "vec4",
            vec4: &["x"],
            constants: |_| {
                vec![
                    ("TEXELS", Constant::U32(COUNT)),
                    ("ROUNDS", Constant::U32(ROUNDS)),
                    ("VECTORS", Constant::Bool(true)),
                ]
            },
            ..cuda_source!("probe/probe_overlap.cu", 128, |d, _| {
                d.batches() * u64::from(d.size("n").div_ceil(128))
            })
        },
        Source {
            name: "word",
            constants: |_| {
                vec![
                    ("TEXELS", Constant::U32(COUNT)),
                    ("ROUNDS", Constant::U32(ROUNDS)),
                    ("VECTORS", Constant::Bool(false)),
                ]
            },
            ..cuda_source!("probe/probe_overlap.cu", 128, |d, _| {
                d.batches() * u64::from(d.size("n").div_ceil(128))
            })
        },
    ]),
    reference: reference!(reference),
    window: whole_heads,
    cost: |d, _| {
        let n = d.batches() as f64 * f64::from(d.size("n"));
        Cost {
            flop: n * f64::from(2 * STEPS * ROUNDS),
            stores: n,
            bytes: 4.0 * (n + d.batches() as f64 * f64::from(d.size("m"))),
            ..Cost::default()
        }
    },
    tolerance: Tolerance::SUMS,
    cases: &[
        Case::new("smallest", &[("b", 1), ("h", 1), ("m", 1024), ("n", 1)], Vec::new),
        Case::new("odd", &[("b", 2), ("h", 3), ("m", 1024), ("n", 67)], Vec::new),
        Case::new("peak", &[("b", 1), ("h", 1), ("m", 1024), ("n", 16_384)], Vec::new).for_bench(),
    ],
    vjp: None,
};
