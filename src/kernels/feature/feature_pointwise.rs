//! Feature maps that act on single numbers: ELU + 1 and ReLU.
//!
//! y = scale · `u[i, c]`; `out[i, c]` = y + 1 or e^y (`elu1`, for y above 0 and not), max(y, 0) + eps (`relu`).
//!
//! * `u` `[b, h, n, p]`: the tokens themselves, or their products with a projection.
//! * `key_mask` `[b, h, n]`: 0 makes the row zeros, whatever it holds; may be shared by heads.
//! * `starts` `[b, h, s]`: boundaries of packed segments, see [`segment_max`](super::segment_max); a row in none is zeros.
//! * `out` `[b, h, n, p]`.

use super::segment_max::{Segments, row_windows};
use crate::error::Result;
use crate::kernel::wgsl_module::{BYTES, EXP, GROUP, TEXELS};
use crate::kernel::*;
use crate::kernels::laplacian::kernel_matrix::kept;
use crate::tensor::{DType, Dims};
use crate::{cuda_shared, cuda_source, params, reference};

/// ELU + 1.
pub const ELU1: u32 = 0;
/// ReLU.
pub const RELU: u32 = 1;

params! {
    /// Parameters of [`SPEC`].
    pub struct Params {
        /// factor of the input
        live scale: f32 = 1.0,
        /// added to ReLU; above 0 only in published forms
        live eps: f32 = 0.0,
        /// 0 ELU + 1, 1 ReLU
        fixed map: u32 = ELU1,
    }
}

fn check(_: &Dims, params: &[u8]) -> std::result::Result<(), String> {
    let p = Params::from_bytes(params);
    if p.map > RELU {
        return Err(format!("map is 0 (ELU + 1) or 1 (ReLU), got {}", p.map));
    }
    Ok(())
}

/// The map of one number.
pub(super) fn value<T: Real>(map: u32, eps: T, y: T) -> T {
    match (map, y > T::zero()) {
        (ELU1, true) => y + T::one(),
        (ELU1, false) => y.exp(),
        _ => y.max(T::zero()) + eps,
    }
}

fn reference<T: Real>(args: &mut HostArgs<T>) -> Result<()> {
    let p: Params = args.params();
    let (n, cols) = (args.dims.at("n"), args.dims.at("p"));
    let u = args.real("u");
    let (scale, eps) = (T::of(p.scale.into()), T::of(p.eps.into()));
    let shared = &*args;
    let segments = Segments::of(shared);
    let out = reference::rows(args.dims.batches() as usize, n, cols, |batch, i, line| {
        if kept(shared, "key_mask", batch, i) && segments.of_row(shared, batch, i).is_some() {
            for (y, &x) in line.iter_mut().zip(&u[(batch * n + i) * cols..]) {
                *y = value(p.map, eps, scale * x);
            }
        }
    });
    args.set("out", out);
    Ok(())
}

fn words(d: &Dims) -> f64 {
    f64::from(d.size("n")) * f64::from(d.size("p"))
}

static VARIANTS: &[Variant] = &[
    Variant {
        name: "texture",
        file: "feature/feature_pointwise_texture.wgsl",
        body: include_str!("../../../shaders/feature/feature_pointwise_texture.wgsl"),
        shared: &[GROUP, BYTES, EXP, TEXELS],
        preferred_on: &[Driver::Llvmpipe, Driver::SwiftShader],
        classes: &[("u", Class::Texture)],
        vec4: &["u"],
        constants: no_constants,
        suits: |d, _, _| d.size("p") % 4 == 0 && d.size("p") > 0,
        grid: |d, batches| batches * (u64::from(d.size("n")) * u64::from(d.size("p") / 4)).div_ceil(64),
        loads: |d, _| Loads { texture: words(d), storage: words(d) / 4.0, ..Loads::default() },
        rounds: few_rounds,
        subgroup_lanes: 0,
    },
    Variant {
        name: "plain",
        file: "feature/feature_pointwise_plain.wgsl",
        body: include_str!("../../../shaders/feature/feature_pointwise_plain.wgsl"),
        shared: &[GROUP, BYTES, EXP],
        preferred_on: &[Driver::Gpu, Driver::Llvmpipe, Driver::SwiftShader],
        classes: &[],
        vec4: &[],
        constants: no_constants,
        suits: always,
        grid: |d, batches| batches * (u64::from(d.size("n")) * u64::from(d.size("p"))).div_ceil(64),
        loads: |d, _| Loads { storage: 2.0 * words(d), ..Loads::default() },
        rounds: few_rounds,
        subgroup_lanes: 0,
    },
];

/// On words, or on vectors of four.
const fn in_cuda<const WORDS: u32>() -> cuda::Source {
    cuda::Source {
        constants: |_| vec![("FOURS", Constant::Bool(WORDS == 4))],
        ..cuda_source!("feature/feature_pointwise.cu", 256, |d, _| {
            (d.batches() * u64::from(d.size("n")) * u64::from(d.size("p") / WORDS)).div_ceil(256)
        }).with(&[cuda::EXP, cuda_shared!("shared/places.cuh"), cuda_shared!("feature/rows.cuh")])
    }
}

/// The kernel's description.
pub static SPEC: KernelSpec = KernelSpec {
    name: "feature_pointwise",
    family: "feature",
    formula: "φ = elu(scale·u) + 1 or max(scale·u, 0) + eps, 0 where the row is masked",
    source: "Katharopoulos et al. 2020, eq. 7; Choromanski et al. 2021, ReLU kernel",
    ports: &[
        Port::read("u", &["b", "h", "n", "p"]),
        Port::read("key_mask", &["b", "h", "n"]).of(DType::U8).broadcast().optional(),
        Port::read("starts", &["b", "h", "s"]).of(DType::U32).broadcast().optional(),
        Port::write("out", &["b", "h", "n", "p"]),
    ],
    params: Params::FIELDS,
    defaults: Params::default_bytes,
    output_dims: None,
    check,
    wgpu: OnWgpu::Shader(VARIANTS),
    cuda: OnCuda::Source(&[cuda::Source { name: "vec4", vec4: &["u", "out"], ..in_cuda::<4>() }, in_cuda::<1>()]),
    reference: reference!(reference),
    window: row_windows,
    cost: |d, _| {
        let words = d.batches() as f64 * f64::from(d.size("n")) * f64::from(d.size("p"));
        Cost { flop: 2.0 * words, exp: words, stores: words, bytes: 8.0 * words, ..Cost::default() }
    },
    tolerance: Tolerance::SUMS,
    cases: &[
        Case::new("smallest", &[("b", 1), ("h", 1), ("n", 1), ("p", 1)], Params::default_bytes)
            .without(&["key_mask", "starts"]),
        Case::new("odd", &[("b", 2), ("h", 3), ("n", 17), ("p", 5)], Params::default_bytes)
            .without(&["starts"])
            .filled(&[("u", Fill::Uniform(-9.0, 9.0))]),
        Case::new("relu", &[("b", 2), ("h", 3), ("n", 17), ("p", 5)], || {
            Params { scale: 0.7, eps: 1e-3, map: RELU }.to_bytes()
        })
        .without(&["starts"])
        .shared(&["key_mask"]),
        Case::new("packed", &[("b", 2), ("h", 2), ("n", 40), ("p", 7), ("s", 6)], Params::default_bytes)
            .filled(&[("starts", Fill::Made(super::segment_max::packed))]),
        Case::new("masked_garbage", &[("b", 1), ("h", 2), ("n", 65), ("p", 3)], Params::default_bytes)
            .without(&["starts"])
            .filled(&[("key_mask", Fill::Value(0.0)), ("u", Fill::Value(f32::NAN))]),
        Case::new("whole_texels", &[("b", 2), ("h", 3), ("n", 17), ("p", 12)], Params::default_bytes)
            .without(&["starts"])
            .filled(&[("u", Fill::Uniform(-9.0, 9.0))])
            .shared(&["key_mask"]),
        Case::new("packed_texels", &[("b", 2), ("h", 2), ("n", 40), ("p", 8), ("s", 6)], || {
            Params { scale: 0.7, eps: 1e-3, map: RELU }.to_bytes()
        })
        .filled(&[("starts", Fill::Made(super::segment_max::packed))]),
        Case::new("large_values", &[("b", 1), ("h", 1), ("n", 33), ("p", 6)], Params::default_bytes)
            .without(&["key_mask", "starts"])
            .filled(&[("u", Fill::Uniform(-1e18, 1e18))]),
    ],
    vjp: None,
};
