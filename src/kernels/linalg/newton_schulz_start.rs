//! The start of [`newton_schulz`](super::newton_schulz): X₀ of the asked mode, ‖A‖_∞, and A in the side the products want.
//!
//! * `a` `[b, h, m, m]`; `a_padded` and `x0` `[b, h, s, s]` with s ≥ m, zero beyond m; `a_padded` may be left out.
//! * `bound` `[b, h, 2]`: u, the largest sum of magnitudes of a row, and the number of steps that follow.

use super::newton_schulz::{self as whole, dense};
use crate::kernel::wgsl_module::GROUP;
use crate::kernel::*;
use crate::{cuda_source, params, reference};
use crate::tensor::Dims;

params! {
    /// Parameters of [`SPEC`].
    pub struct Params {
        /// ε, what A has on its diagonal beyond W
        live epsilon: f32 = 1e-3,
        /// Number of steps to report
        live steps: u32 = 0,
        /// Start: 0 scaled, 1 authors, 2 authors fixed, 3 Nyströmformer, 4 plain, 5 identity
        fixed mode: u32 = 0,
    }
}

fn check(dims: &Dims, params: &[u8]) -> std::result::Result<(), String> {
    let p = Params::from_bytes(params);
    whole::check_bounds(p.epsilon, 1.0, 1.0)?;
    whole::check_rows(dims.size("s"))?;
    if p.mode > whole::IDENTITY {
        return Err(format!("mode is 0 to {}, got {}", whole::IDENTITY, p.mode));
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

/// `[m, m]` with zeros appended to `[s, s]`.
fn padded<T: Real>(a: &[T], m: usize, s: usize) -> impl Iterator<Item = T> + '_ {
    (0..s * s).map(move |at| {
        if at / s < m && at % s < m {
            a[at / s * m + at % s]
        } else {
            T::zero()
        }
    })
}

fn reference<T: Real>(args: &mut HostArgs<T>) -> crate::Result<()> {
    let p: Params = args.params();
    let (m, s) = (args.dims.at("m"), args.dims.at("s"));
    let a = args.real("a");
    let (mut wide, mut x0, mut bound) = (Vec::new(), Vec::new(), Vec::new());
    for batch in 0..args.dims.batches() as usize {
        let a = &a[batch * m * m..(batch + 1) * m * m];
        wide.extend(padded(a, m, s));
        x0.extend(padded(
            &whole::start(a, m, p.mode, T::of(f64::from(p.epsilon))),
            m,
            s,
        ));
        bound.extend([dense::row_norm(a, m), T::of(f64::from(p.steps))]);
    }
    args.set("a_padded", wide);
    args.set("x0", x0);
    args.set("bound", bound);
    Ok(())
}

static VARIANTS: &[Variant] = &[Variant {
    name: "workgroup",
    file: "linalg/newton_schulz_start.wgsl",
    body: include_str!("../../../shaders/linalg/newton_schulz_start.wgsl"),
    shared: &[GROUP],
    preferred_on: &[Driver::Gpu, Driver::Llvmpipe, Driver::SwiftShader],
    classes: &[],
    vec4: &[],
    constants: no_constants,
    suits: always,
    grid: |_, batches| batches,
    loads: |d, _| Loads {
        storage: 2.0 * f64::from(d.size("m")).powi(2),
        workgroup: 3072.0,
        ..Loads::default()
    },
    rounds: few_rounds,
    subgroup_lanes: 0,
}];

macro_rules! mode {
    ($mode:ident) => {
        || {
            Params {
                mode: whole::$mode,
                steps: 7,
                ..Default::default()
            }
            .to_bytes()
        }
    };
}

const TWO_SETS: &[(&str, Fill)] = &[("a", Fill::Made(whole::data::two_sets))];

/// The kernel's description.
pub static SPEC: KernelSpec = KernelSpec {
    name: "newton_schulz_start",
    family: "linalg",
    formula: "X₀ = 2/(u + ε) I and others, u = maxᵢ Σⱼ |Aᵢⱼ|",
    source: "see newton_schulz",
    ports: &[
        Port::read("a", &["b", "h", "m", "m"]),
        Port::write("a_padded", &["b", "h", "s", "s"]).optional(),
        Port::write("x0", &["b", "h", "s", "s"]),
        Port::write("bound", &["b", "h", "2"]),
    ],
    params: Params::FIELDS,
    defaults: Params::default_bytes,
    output_dims: None,
    check,
    wgpu: OnWgpu::Shader(VARIANTS),
    cuda: OnCuda::Source(&[cuda_source!("linalg/newton_schulz_start.cu", 256, |d, _| d.batches())]),
    reference: reference!(reference),
    window: whole_heads,
    cost: |d, _| {
        let batches = d.batches() as f64;
        let (a, s) = (f64::from(d.size("m")).powi(2), f64::from(d.size("s")).powi(2));
        Cost {
            flop: 2.0 * batches * a,
            exp: 0.0,
            stores: 2.0 * batches * s,
            bytes: 4.0 * batches * (a + 2.0 * s),
            ..Cost::default()
        }
    },
    tolerance: Tolerance::SUMS,
    cases: &[
        Case::new(
            "smallest",
            &[("b", 1), ("h", 1), ("m", 1), ("s", 1)],
            Params::default_bytes,
        )
        .without(&["a_padded"]),
        Case::new(
            "scaled_padded",
            &[("b", 2), ("h", 2), ("m", 49), ("s", 52)],
            mode!(SCALED),
        )
        .filled(TWO_SETS),
        Case::new(
            "scaled",
            &[("b", 1), ("h", 2), ("m", 65), ("s", 65)],
            mode!(SCALED),
        )
        .without(&["a_padded"]),
        Case::new(
            "authors",
            &[("b", 1), ("h", 2), ("m", 33), ("s", 36)],
            mode!(AUTHORS),
        )
        .filled(TWO_SETS),
        Case::new(
            "authors_fixed",
            &[("b", 1), ("h", 2), ("m", 33), ("s", 33)],
            mode!(AUTHORS_FIXED),
        )
        .filled(TWO_SETS),
        Case::new(
            "nystromformer",
            &[("b", 1), ("h", 2), ("m", 33), ("s", 36)],
            mode!(NYSTROMFORMER),
        )
        .filled(TWO_SETS),
        Case::new(
            "plain",
            &[("b", 1), ("h", 2), ("m", 100), ("s", 100)],
            mode!(PLAIN),
        )
        .without(&["a_padded"]),
        Case::new(
            "identity",
            &[("b", 1), ("h", 2), ("m", 17), ("s", 20)],
            mode!(IDENTITY),
        )
        .filled(TWO_SETS),
    ],
    vjp: None,
};
