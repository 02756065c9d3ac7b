//! The scaled Newton–Schulz iteration of small matrices, one workgroup each, in one dispatch.
//!
//! A as a packed lower triangle, X whole and some rows of AX fill the workgroup's memory: m ≤ 51 in 16 KiB, m ≤ 73 in
//! 32 KiB. u and from it the number of steps and their factors are found inside. X is symmetric in exact arithmetic, but
//! iterating on half of it is unstable; the shader has the numbers. In the 48 KiB of a CUDA block, A, X and AX are whole for
//! m ≤ 60, and A comes from the cache beyond.
//!
//! * `a`, `x` `[b, h, m, m]`, symmetric; `residual` `[b, h, 1]`: ‖I − AX‖_F, if asked for; `bound` `[b, h, 2]`: u and the
//!   steps that were taken, counted as they were taken.

use super::newton_schulz::{self as whole, bound::MOST_STEPS, dense};
use crate::numbers::Short;
use crate::kernel::cuda::Source;
use crate::kernel::wgsl_module::GROUP;
use crate::kernel::*;
use crate::{cuda_shared, cuda_source, params};
use crate::tensor::Dims;

params! {
    /// Parameters of [`SPEC`].
    pub struct Params {
        /// ε, lower bound of A's spectrum
        live epsilon: f32 = 1e-3,
        /// Largest ‖I − AX‖₂ that the a-priori bound may leave before the last step
        live tolerance: f32 = 1e-4,
        /// No more steps than this
        live most_steps: u32 = MOST_STEPS,
        /// Upper bound of the spectrum that the factors come from, with exactly `most_steps` steps; 0 for the matrix's own
        /// u, with as many steps as its bound asks for and one more
        live upper: f32 = 0.0,
    }
}

/// Threads of a workgroup: one for each 8 × 4 block of X, and no fewer than rows.
fn threads(m: u32) -> u32 {
    (m.div_ceil(8) * m.div_ceil(4)).max(m).next_power_of_two().max(64)
}

/// Bytes of workgroup memory with so many rows of AX in it.
fn workgroup_bytes(m: u32, panel: u32) -> u32 {
    let array = |words: u32| (4 * words).next_multiple_of(16);
    array(m * (m + 1) / 2) + array((m * m).max(threads(m))) + 16 * panel * m.div_ceil(4)
}

/// Rows of AX at a time: as many as fit in 16 KiB, or else in 32 KiB, but no more than there are threads for.
fn panel(m: u32) -> u32 {
    let most = (threads(m) / m.div_ceil(4)).clamp(1, m);
    let fitting = |bytes: u32| (1..=most).rev().find(|&rows| workgroup_bytes(m, rows) <= bytes);
    fitting(16 << 10).or_else(|| fitting(32 << 10)).unwrap_or(1)
}

/// Whether a device has the workgroup memory and the threads for matrices of size m.
pub fn fits(m: u32, caps: &Caps) -> bool {
    (1..=MOST_ROWS).contains(&m)
        && threads(m) <= caps.invocations.min(256)
        && workgroup_bytes(m, panel(m)) <= caps.workgroup_bytes
}

fn check(_: &Dims, params: &[u8]) -> std::result::Result<(), String> {
    let p = Params::from_bytes(params);
    whole::check_bounds(p.epsilon, p.tolerance, 1.0)?;
    if p.most_steps > MOST_STEPS {
        return Err(format!(
            "most_steps is at most {MOST_STEPS}, got {}",
            p.most_steps
        ));
    }
    if !p.upper.is_finite() || p.upper < 0.0 {
        return Err(format!(
            "upper must be positive, or 0 for the matrix's own, got {}",
            Short(p.upper)
        ));
    }
    Ok(())
}

/// The truth is the exact inverse where the iteration is left to converge; see [`whole`].
fn reference<T: Real>(args: &mut HostArgs<T>, exact: bool) -> crate::Result<()> {
    let p: Params = args.params();
    let m = args.dims.at("m");
    let a = args.real("a");
    let (mut all, mut residuals, mut bounds) = (Vec::new(), Vec::new(), Vec::new());
    for batch in 0..args.dims.batches() as usize {
        let a = &a[batch * m * m..(batch + 1) * m * m];
        let upper = dense::row_norm(a, m);
        let own = p.upper == 0.0;
        let spectrum = if own { upper.wide() } else { f64::from(p.upper) };
        let bound = whole::bound::Bound::start(spectrum, f64::from(p.epsilon));
        let needed = bound.steps_to(f64::from(p.tolerance)) + 1;
        let steps = if own {
            needed.min(p.most_steps)
        } else {
            p.most_steps
        };
        let converging = own && steps == needed;
        let x = Some(converging && exact)
            .filter(|x| *x)
            .and_then(|_| dense::cholesky_inverse(a, m))
            .unwrap_or_else(|| {
                let mut x = whole::start(a, m, whole::SCALED, T::of(f64::from(p.epsilon)));
                for factor in bound.factors(steps) {
                    x = whole::step(a, &x, m, whole::SCALED, T::of(factor));
                }
                x
            });
        residuals.push(dense::distance_from_identity(&dense::product(a, &x, m), m, m));
        bounds.extend([upper, T::of(f64::from(steps))]);
        all.extend(x);
    }
    args.set("x", all);
    args.set("residual", residuals);
    args.set("bound", bounds);
    Ok(())
}

static VARIANTS: &[Variant] = &[Variant {
    name: "workgroup",
    file: "linalg/newton_schulz_workgroup.wgsl",
    body: include_str!("../../../shaders/linalg/newton_schulz_workgroup.wgsl"),
    shared: &[GROUP],
    preferred_on: &[Driver::Gpu, Driver::Llvmpipe, Driver::SwiftShader],
    classes: &[],
    vec4: &[],
    constants: |d| {
        let m = d.size("m");
        let constant = |name, value| (name, Constant::U32(value));
        vec![
            constant("M", m),
            constant("THREADS", threads(m)),
            constant("PANEL", panel(m)),
        ]
    },
    suits: |d, _, caps| fits(d.size("m"), caps),
    grid: |_, batches| batches,
    loads: |d, _| {
        let m = f64::from(d.size("m"));
        // Ten steps: five words for four multiply-adds of AX, twelve for 32 of the other product.
        Loads {
            storage: m * m,
            workgroup: 10.0 * m * m * m * (5.0 / 4.0 + 12.0 / 32.0),
            ..Loads::default()
        }
    },
    rounds: few_rounds,
    subgroup_lanes: 0,
}];

/// Largest matrix.
const MOST_ROWS: u32 = 88;
/// Largest matrix of which a CUDA block keeps A, X and AX whole.
const WHOLE_A: u32 = 60;

/// Constants of a CUDA source: rows padded to whole `float4`s, and rows of AX at a time, as many as fit beside X in 48 KiB less
/// what sums over warps take, in equal panels.
fn block_constants(d: &Dims, a_shared: bool) -> Vec<(&'static str, Constant)> {
    let side = d.size("m").next_multiple_of(4);
    let most = ((48 << 10) - 256 - 4 * side * side) / (4 * side) / 4 * 4;
    let panel = side.div_ceil(side.div_ceil(most)).next_multiple_of(4);
    vec![
        ("M", Constant::U32(d.size("m"))),
        ("SIDE", Constant::U32(side)),
        ("PANEL", Constant::U32(panel)),
        ("A_SHARED", Constant::Bool(a_shared)),
    ]
}

const SPREAD: &[(&str, Fill)] = &[("a", Fill::Made(whole::data::spread))];

/// Converging cases leave the residual out: there it is nothing but rounding.
const fn converging(name: &'static str, dims: &'static [(&'static str, u32)]) -> Case {
    Case::new(name, dims, Params::default_bytes)
        .without(&["residual"])
        .filled(SPREAD)
}

macro_rules! exactly {
    ($steps:literal) => {
        || {
            Params {
                most_steps: $steps,
                upper: 31.0,
                ..Default::default()
            }
            .to_bytes()
        }
    };
}

/// The kernel's description.
pub static SPEC: KernelSpec = KernelSpec {
    name: "newton_schulz_workgroup",
    family: "linalg",
    formula: "X = A⁻¹ by X ← c (2X − XAX), one workgroup per matrix",
    source: "see newton_schulz",
    ports: &[
        Port::read("a", &["b", "h", "m", "m"]),
        Port::write("x", &["b", "h", "m", "m"]),
        Port::write("residual", &["b", "h", "1"]).optional(),
        Port::write("bound", &["b", "h", "2"]),
    ],
    params: Params::FIELDS,
    defaults: Params::default_bytes,
    output_dims: None,
    check,
    wgpu: OnWgpu::Shader(VARIANTS),
    cuda: OnCuda::Source(&[
        Source {
            name: "whole",
            constants: |d| block_constants(d, true),
            suits: |d, _| (1..=WHOLE_A).contains(&d.size("m")),
            ..cuda_source!("linalg/newton_schulz_workgroup.cu", 256, |d, _| d.batches())
                .with(&[cuda_shared!("shared/vectors.cuh")])
        },
        Source {
            name: "panel",
            constants: |d| block_constants(d, false),
            suits: |d, _| (1..=MOST_ROWS).contains(&d.size("m")),
            ..cuda_source!("linalg/newton_schulz_workgroup.cu", 512, |d, _| d.batches())
                .with(&[cuda_shared!("shared/vectors.cuh")])
        },
    ]),
    reference: Reference {
        f64: |args| reference(args, true),
        f32: |args| reference(args, false),
    },
    window: whole_heads,
    cost: |d, _| {
        let (m, batches) = (f64::from(d.size("m")), d.batches() as f64);
        Cost {
            flop: batches * 21.0 * 2.0 * m * m * m,
            exp: 0.0,
            stores: batches * m * m,
            bytes: 8.0 * batches * m * m,
            ..Cost::default()
        }
    },
    tolerance: whole::SPEC.tolerance,
    cases: &[
        converging("smallest", &[("b", 1), ("h", 1), ("m", 1)]),
        converging("two", &[("b", 1), ("h", 3), ("m", 2)]),
        converging("sixteen", &[("b", 2), ("h", 2), ("m", 16)]),
        converging("forty_nine", &[("b", 1), ("h", 4), ("m", 49)]),
        converging("largest_in_16_kib", &[("b", 1), ("h", 2), ("m", 51)]),
        converging("beyond_16_kib", &[("b", 1), ("h", 2), ("m", 60)]),
        converging("largest_in_32_kib", &[("b", 1), ("h", 1), ("m", 73)]),
        Case::new("equal_points", &[("b", 1), ("h", 1), ("m", 49)], || {
            Params {
                epsilon: 1e-2,
                ..Default::default()
            }
            .to_bytes()
        })
        .without(&["residual"])
        .filled(&[("a", Fill::Made(whole::data::equal))]),
        converging("one_hard_head", &[("b", 1), ("h", 3), ("m", 49)])
            .filled(&[("a", Fill::Made(whole::data::one_hard))]),
        Case::new("no_step", &[("b", 1), ("h", 2), ("m", 6)], exactly!(0)).filled(SPREAD),
        Case::new("three_steps", &[("b", 1), ("h", 2), ("m", 30)], exactly!(3)).filled(SPREAD),
        converging("batch_8x49", &[("b", 1), ("h", 8), ("m", 49)]).any_size().for_bench(),
    ],
    vjp: None,
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_of_the_documentation_are_the_largest_that_fit() {
        let largest = |bytes| (1..=88).filter(|&m| workgroup_bytes(m, panel(m)) <= bytes).max();
        assert_eq!((largest(16 << 10), largest(32 << 10)), (Some(51), Some(73)));
    }
}
