//! What the exponents of one row have in common: the largest product, and what the norm takes off.
//!
//! m = max over the columns of `u[i, c]` (`single`) or |`u[i, c]`| (`both`), 0 (`none`); half = Σ_c (`half` · `x[i, c]`)², 0 without `x`.
//! `rows[i]` = (m, t), t by `ends`: scale·m − half (`whole`; +half for `none`), 0 (`nothing`), −half (`norm`; at least
//! [`LOWEST`]).
//!
//! * `u` `[b, h, n, p]`, `x` `[b, h, n, d]`, `rows` `[b, h, n, 2]`.
//!
//! The two are kept apart because they differ by orders of magnitude: e^(u − m) keeps its digits within a row however large
//! the norm is. t ends at ±1e38, so that differences of two of them stay finite.

use super::segment_shift::LOWEST;
use crate::kernel::wgsl_module::{GROUP, TEXELS};
use crate::kernel::*;
use crate::tensor::Dims;
use crate::{cuda_shared, cuda_source, error::Result, params, reference};

/// `sides`: the exponent is +u only.
pub const SINGLE: u32 = 0;
/// `sides`: +u and −u.
pub const BOTH: u32 = 1;
/// `sides`: the exponent is the norm alone.
pub const NONE: u32 = 2;

/// `ends`: the row's whole largest exponent.
pub const WHOLE: u32 = 0;
/// `ends`: nothing is left, the row's own maximum is taken off.
pub const NOTHING: u32 = 1;
/// `ends`: the norm is left.
pub const NORM: u32 = 2;

/// Where t ends.
pub const LARGEST: f32 = 1e38;

params! {
    /// Parameters of [`SPEC`].
    pub struct Params {
        /// factor of m in t
        live scale: f32 = 1.0,
        /// factor of x under the square: scale/√2
        live half: f32 = 0.70710677,
        /// columns of u in m: 0 as they are, 1 their magnitudes, 2 none
        fixed sides: u32 = SINGLE,
        /// t: 0 whole exponent, 1 nothing, 2 norm only
        fixed ends: u32 = WHOLE,
    }
}

fn check(dims: &Dims, params: &[u8]) -> std::result::Result<(), String> {
    let p = Params::from_bytes(params);
    if p.sides > NONE || p.ends > NORM {
        return Err(format!("sides and ends are 0, 1 or 2, got {} and {}", p.sides, p.ends));
    }
    if dims.size("p") == 0 {
        return Err("u [b, h, n, p] has no column; wants p ≥ 1".into());
    }
    Ok(())
}

/// (m, t) of one row.
pub(super) fn row<T: Real>(p: &Params, u: &[T], x: Option<&[T]>) -> (T, T) {
    let m = match p.sides {
        SINGLE => u.iter().copied().fold(T::neg_infinity(), T::max),
        BOTH => u.iter().fold(T::zero(), |m, y| m.max(y.abs())),
        _ => T::zero(),
    };
    let factor = T::of(p.half.into());
    let half: T = x.map_or(T::zero(), |x| x.iter().map(|&y| (factor * y) * (factor * y)).sum());
    let t = match (p.ends, p.sides) {
        (WHOLE, NONE) => half,
        (WHOLE, _) => T::of(p.scale.into()) * m - half,
        (NOTHING, _) => T::zero(),
        _ => (-half).max(T::of(LOWEST.into())),
    };
    let largest = T::of(LARGEST.into());
    (m, t.max(-largest).min(largest))
}

fn reference<T: Real>(args: &mut HostArgs<T>) -> Result<()> {
    let p: Params = args.params();
    let (n, cols) = (args.dims.at("n"), args.dims.at("p"));
    let (u, x) = (args.real("u"), args.real_if("x"));
    let d = if x.is_some() { args.dims.at("d") } else { 0 };
    let out = reference::rows(args.dims.batches() as usize, n, 2, |batch, i, line| {
        let i = batch * n + i;
        (line[0], line[1]) = row(&p, &u[i * cols..][..cols], x.as_ref().map(|x| &x[i * d..][..d]));
    });
    args.set("rows", out);
    Ok(())
}

fn words(d: &Dims) -> f64 {
    f64::from(d.size("n")) * f64::from(d.size("p") + d.find("d").unwrap_or(0))
}

fn depth(d: &Dims) -> u64 {
    u64::from(d.size("p")) + u64::from(d.find("d").unwrap_or(0))
}

const fn variant(name: &'static str, file: &'static str, body: &'static str) -> Variant {
    Variant {
        name,
        file,
        body,
        shared: &[GROUP],
        preferred_on: &[Driver::Llvmpipe, Driver::SwiftShader],
        classes: &[],
        vec4: &[],
        constants: no_constants,
        suits: always,
        grid: |d, batches| batches * u64::from(d.size("n").div_ceil(64)),
        loads: |d, _| Loads { storage: words(d), ..Loads::default() },
        rounds: depth,
        subgroup_lanes: 0,
    }
}

static VARIANTS: &[Variant] = &[
    Variant {
        preferred_on: &[Driver::Gpu],
        grid: |d, batches| batches * u64::from(d.size("n").div_ceil(16)),
        loads: |d, _| Loads { storage: words(d), workgroup: 32.0 * f64::from(d.size("n")), ..Loads::default() },
        rounds: |d| depth(d) / 16 + 18,
        ..variant("lanes", "feature/feature_rows_lanes.wgsl", include_str!("../../../shaders/feature/feature_rows_lanes.wgsl"))
    },
    Variant {
        shared: &[GROUP, TEXELS],
        classes: &[("u", Class::Texture), ("x", Class::Texture)],
        vec4: &["u", "x"],
        suits: |d, _, _| d.size("p") % 4 == 0 && d.find("d").is_some_and(|x| x % 4 == 0),
        loads: |d, _| Loads { texture: words(d), ..Loads::default() },
        rounds: |d| depth(d) / 4 + 1,
        ..variant(
            "texture",
            "feature/feature_rows_texture.wgsl",
            include_str!("../../../shaders/feature/feature_rows_texture.wgsl"),
        )
    },
    // A port that is left out cannot be a texture.
    Variant {
        shared: &[GROUP, TEXELS],
        classes: &[("u", Class::Texture)],
        vec4: &["u"],
        suits: |d, _, _| d.size("p") % 4 == 0 && d.find("d").is_none(),
        loads: |d, _| Loads { texture: words(d), ..Loads::default() },
        rounds: |d| depth(d) / 4 + 1,
        ..variant(
            "texture_bare",
            "feature/feature_rows_texture_bare.wgsl",
            include_str!("../../../shaders/feature/feature_rows_texture_bare.wgsl"),
        )
    },
    variant("plain", "feature/feature_rows_plain.wgsl", include_str!("../../../shaders/feature/feature_rows_plain.wgsl")),
];

const fn sizes(n: u32, p: u32, d: u32) -> [(&'static str, u32); 5] {
    [("b", 2), ("h", 2), ("n", n), ("p", p), ("d", d)]
}

/// On words, or on vectors of four; eight lanes for each row.
const fn in_cuda<const WORDS: u32>() -> cuda::Source {
    cuda::Source {
        constants: |_| vec![("FOURS", Constant::Bool(WORDS == 4))],
        ..cuda_source!("feature/feature_rows.cu", 256, |d, _| {
            (d.batches() * u64::from(d.size("n"))).div_ceil(32)
        }).with(&[cuda_shared!("shared/places.cuh")])
    }
}

/// The kernel's description.
pub static SPEC: KernelSpec = KernelSpec {
    name: "feature_rows",
    family: "feature",
    formula: "rows[i] = (m, scale·m − ‖half·x[i]‖²), m = max_c u[i,c] or max_c |u[i,c]|",
    source: "derivation: the stabiliser of positive features with the norm in it",
    ports: &[
        Port::read("u", &["b", "h", "n", "p"]),
        Port::read("x", &["b", "h", "n", "d"]).optional(),
        Port::write("rows", &["b", "h", "n", "2"]),
    ],
    params: Params::FIELDS,
    defaults: Params::default_bytes,
    output_dims: None,
    check,
    wgpu: OnWgpu::Shader(VARIANTS),
    cuda: OnCuda::Source(&[cuda::Source { name: "vec4", vec4: &["u", "x"], ..in_cuda::<4>() }, in_cuda::<1>()]),
    reference: reference!(reference),
    window: by_rows,
    cost: |d, _| {
        let (words, rows) = (d.batches() as f64 * words(d), d.batches() as f64 * f64::from(d.size("n")));
        Cost { flop: 2.0 * words, exp: 0.0, stores: 2.0 * rows, bytes: 4.0 * words + 8.0 * rows, ..Cost::default() }
    },
    tolerance: Tolerance::SUMS,
    cases: &[
        Case::new("smallest", &[("b", 1), ("h", 1), ("n", 1), ("p", 1), ("d", 1)], Params::default_bytes),
        Case::new("odd", &sizes(17, 33, 7), || Params { half: 0.4, scale: 0.9, ..Params::default() }.to_bytes()),
        Case::new("whole_texels", &sizes(67, 36, 8), Params::default_bytes),
        Case::new("without_norm", &[("b", 2), ("h", 2), ("n", 19), ("p", 20)], Params::default_bytes).without(&["x"]),
        Case::new("both_sides", &sizes(65, 12, 20), || Params { sides: BOTH, ..Params::default() }.to_bytes()),
        Case::new("norm_alone", &sizes(15, 12, 20), || Params { sides: NONE, ..Params::default() }.to_bytes()),
        Case::new("query", &[("b", 2), ("h", 2), ("n", 15), ("p", 12)], || Params { ends: NOTHING, ..Params::default() }.to_bytes()).without(&["x"]),
        Case::new("published_query", &sizes(15, 12, 20), || Params { ends: NORM, ..Params::default() }.to_bytes()),
        Case::new("large_values", &sizes(15, 12, 20), Params::default_bytes)
            .filled(&[("x", Fill::Uniform(-1e18, 1e18)), ("u", Fill::Uniform(-1e19, 1e19))]),
        Case::new("features_4096", &[("b", 1), ("h", 8), ("n", 4096), ("p", 64), ("d", 32)], Params::default_bytes).for_bench(),
    ],
    vjp: None,
};
