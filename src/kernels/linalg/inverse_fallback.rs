//! The end of [`newton_schulz`](super::newton_schulz): accepts an iterate, or inverts by Cholesky, and says which.
//!
//! * `a`, `x` `[b, h, m, m]`; `iterate` `[b, h, s, s]` with s ≥ m, of which the leading part counts; `residual` `[b, h, 1]`;
//!   `bound` `[b, h, 2]` (u and steps, passed on); `status` `[b, h, 4]` as in [`newton_schulz`](super::newton_schulz).
//! * One workgroup per matrix, in global memory: where it is needed at all it is slow but right. m ≤ [`MOST_ROWS`], or
//!   `fallback` 0.

use super::newton_schulz as whole;
use crate::kernel::cuda::Source;
use crate::kernel::wgsl_module::GROUP;
use crate::kernel::*;
use crate::{cuda_source, params, reference};
use crate::tensor::{Dims, HostData};

/// Largest matrix that Cholesky inverts: larger ones exceed the rounds of loops that llvmpipe allows a shader, which it
/// then ends in silence.
pub const MOST_ROWS: u32 = 200;

params! {
    /// Parameters of [`SPEC`].
    pub struct Params {
        /// ε, nine of which are added to the diagonal where A itself has no Cholesky factor
        live epsilon: f32 = 1e-3,
        /// 1 to let Cholesky take over where the residual exceeds 1e-2, 0 only to report it
        fixed fallback: u32 = 1,
    }
}

fn check(dims: &Dims, params: &[u8]) -> std::result::Result<(), String> {
    let p = Params::from_bytes(params);
    whole::check_bounds(p.epsilon, 1.0, 1.0)?;
    if p.fallback > 1 {
        return Err(format!("fallback is 0 or 1, got {}", p.fallback));
    }
    if p.fallback != 0 && dims.size("m") > MOST_ROWS {
        return Err(format!(
            "m is at most {MOST_ROWS} with fallback, got {}",
            dims.size("m")
        ));
    }
    if dims.size("s") < dims.size("m") {
        return Err(format!(
            "s must be at least m, got s={} and m={}",
            dims.size("s"),
            dims.size("m")
        ));
    }
    Ok(())
}

fn reference<T: Real>(args: &mut HostArgs<T>) -> crate::Result<()> {
    let p: Params = args.params();
    let (m, s) = (args.dims.at("m"), args.dims.at("s"));
    let (a, iterate) = (args.real("a"), args.real("iterate"));
    let (residual, bound) = (args.real("residual"), args.real("bound"));
    let (mut all, mut status) = (Vec::new(), Vec::new());
    for batch in 0..args.dims.batches() as usize {
        let a = &a[batch * m * m..(batch + 1) * m * m];
        let given = (0..m * m)
            .map(|at| iterate[batch * s * s + at / m * s + at % m])
            .collect();
        let epsilon = T::of(f64::from(p.epsilon));
        let (x, left, code) = whole::accept(a, given, residual[batch], m, epsilon, p.fallback != 0);
        all.extend(x);
        status.extend([
            left,
            bound[2 * batch],
            bound[2 * batch + 1],
            T::of(f64::from(code)),
        ]);
    }
    args.set("x", all);
    args.set("status", status);
    Ok(())
}

static VARIANTS: &[Variant] = &[Variant {
    name: "workgroup",
    file: "linalg/inverse_fallback.wgsl",
    body: include_str!("../../../shaders/linalg/inverse_fallback.wgsl"),
    shared: &[GROUP],
    preferred_on: &[Driver::Gpu, Driver::Llvmpipe, Driver::SwiftShader],
    classes: &[],
    vec4: &[],
    constants: no_constants,
    suits: always,
    grid: |_, batches| batches,
    // As a rule it only copies.
    loads: |d, _| Loads {
        storage: f64::from(d.size("m")).powi(2),
        ..Loads::default()
    },
    rounds: few_rounds,
    subgroup_lanes: 0,
}];

/// Residuals just inside, just outside, not a number and far outside what is accepted, in turn.
fn residuals(dims: &Dims) -> HostData {
    let values = [0.009, 0.011, f32::NAN, 3.0];
    HostData::F32(
        (0..dims.batches() as usize)
            .map(|head| values[head % values.len()])
            .collect(),
    )
}

const MIXED: &[(&str, Fill)] = &[
    ("a", Fill::Made(whole::data::spread)),
    ("residual", Fill::Made(residuals)),
];

/// The kernel's description.
pub static SPEC: KernelSpec = KernelSpec {
    name: "inverse_fallback",
    family: "linalg",
    formula: "X = iterate if ‖I − AX‖_F ≤ 0.01, else A⁻¹ or (A + 9ε I)⁻¹ by Cholesky",
    source: "see newton_schulz",
    ports: &[
        Port::read("a", &["b", "h", "m", "m"]),
        Port::read("iterate", &["b", "h", "s", "s"]),
        Port::read("residual", &["b", "h", "1"]),
        Port::read("bound", &["b", "h", "2"]),
        Port::write("x", &["b", "h", "m", "m"]),
        Port::write("status", &["b", "h", "4"]),
    ],
    params: Params::FIELDS,
    defaults: Params::default_bytes,
    output_dims: None,
    check,
    wgpu: OnWgpu::Shader(VARIANTS),
    cuda: OnCuda::Source(&[Source {
        constants: |_| vec![("MOST_ROWS", Constant::U32(MOST_ROWS))],
        ..cuda_source!("linalg/inverse_fallback.cu", 512, |d, _| d.batches())
    }]),
    reference: reference!(reference),
    window: whole_heads,
    cost: |d, _| {
        let words = d.batches() as f64 * f64::from(d.size("m")).powi(2);
        Cost {
            flop: 0.0,
            exp: 0.0,
            stores: words,
            bytes: 8.0 * words,
            ..Cost::default()
        }
    },
    tolerance: whole::SPEC.tolerance,
    cases: &[
        Case::new(
            "smallest",
            &[("b", 1), ("h", 2), ("m", 1), ("s", 1)],
            Params::default_bytes,
        )
        .filled(MIXED),
        Case::new(
            "mixed",
            &[("b", 2), ("h", 3), ("m", 49), ("s", 52)],
            Params::default_bytes,
        )
        .filled(MIXED),
        Case::new(
            "largest",
            &[("b", 1), ("h", 3), ("m", 200), ("s", 200)],
            Params::default_bytes,
        )
        .filled(MIXED),
        Case::new("shifted", &[("b", 1), ("h", 3), ("m", 18), ("s", 20)], || {
            Params {
                epsilon: 1e-2,
                ..Default::default()
            }
            .to_bytes()
        })
        .filled(&[
            ("a", Fill::Made(whole::data::indefinite)),
            ("residual", Fill::Value(2.0)),
        ]),
        Case::new(
            "beyond_help",
            &[("b", 1), ("h", 2), ("m", 5), ("s", 8)],
            Params::default_bytes,
        )
        .filled(&[("a", Fill::Value(-1.0)), ("residual", Fill::Value(2.0))]),
        Case::new(
            "larger_than_a_group",
            &[("b", 1), ("h", 2), ("m", 300), ("s", 300)],
            || {
                Params {
                    fallback: 0,
                    ..Default::default()
                }
                .to_bytes()
            },
        )
        .filled(&[("residual", Fill::Value(1.0))]),
        Case::new(
            "only_reported",
            &[("b", 1), ("h", 2), ("m", 9), ("s", 12)],
            || {
                Params {
                    fallback: 0,
                    ..Default::default()
                }
                .to_bytes()
            },
        )
        .filled(&[("residual", Fill::Value(2.0))]),
    ],
    vjp: None,
};
