//! Linear light to OKLab, in which equal distances look about equally different.
//!
//! out = M₂ ∛(M₁ rgb) per pixel; the cube root keeps the sign, so colours outside the gamut stay finite.
//!
//! * `rgb` `[rows, cols, 3]`: linear light (sRGB primaries), 1 = white.
//! * `out` `[rows, cols, 3]`: lightness in [0, 1], then green–red and blue–yellow, about ±0.4.

use crate::error::Result;
use crate::graph::Graph;
use crate::kernel::wgsl_module::GROUP;
use crate::kernel::*;
use crate::{cuda_shared, cuda_source, reference};
use crate::tensor::{DType, Dims, Tensor};

/// Linear sRGB to cone responses.
const CONES: [[f64; 3]; 3] = [
    [0.412_221_470_8, 0.536_332_536_3, 0.051_445_992_9],
    [0.211_903_498_2, 0.680_699_545_1, 0.107_396_956_6],
    [0.088_302_461_9, 0.281_718_837_6, 0.629_978_700_5],
];
/// Cube roots of cone responses to lightness and two opponent colours.
const OPPONENT: [[f64; 3]; 3] = [
    [0.210_454_255_3, 0.793_617_785_0, -0.004_072_046_8],
    [1.977_998_495_1, -2.428_592_205_0, 0.450_593_709_9],
    [0.025_904_037_1, 0.782_771_766_2, -0.808_675_766_0],
];

fn times<T: Real>(matrix: &[[f64; 3]; 3], x: [T; 3]) -> [T; 3] {
    matrix.map(|row| T::of(row[0]) * x[0] + T::of(row[1]) * x[1] + T::of(row[2]) * x[2])
}

fn reference<T: Real>(args: &mut HostArgs<T>) -> Result<()> {
    let rgb = args.real("rgb");
    let out = reference::rows(1, rgb.len() / 3, 3, |_, i, line| {
        let cones = times(&CONES, [rgb[3 * i], rgb[3 * i + 1], rgb[3 * i + 2]]);
        line.copy_from_slice(&times(&OPPONENT, cones.map(T::cbrt)));
    });
    args.set("out", out);
    Ok(())
}

fn pixels(dims: &Dims) -> f64 {
    f64::from(dims.size("rows")) * f64::from(dims.size("cols"))
}

static VARIANTS: &[Variant] = &[Variant {
    name: "pixel",
    file: "image/oklab.wgsl",
    body: include_str!("../../../shaders/image/oklab.wgsl"),
    shared: &[GROUP],
    preferred_on: &[],
    classes: &[],
    vec4: &[],
    constants: no_constants,
    suits: always,
    grid: |d, _| (u64::from(d.size("rows")) * u64::from(d.size("cols"))).div_ceil(64),
    loads: |d, _| Loads {
        storage: 3.0 * pixels(d),
        ..Loads::default()
    },
    rounds: few_rounds,
    subgroup_lanes: 0,
}];

/// The kernel's description.
pub static SPEC: KernelSpec = KernelSpec {
    name: "oklab",
    family: "image",
    formula: "out = M₂ ∛(M₁ rgb)",
    source: "B. Ottosson, A perceptual color space for image processing (2020)",
    ports: &[
        Port::read("rgb", &["rows", "cols", "3"]),
        Port::write("out", &["rows", "cols", "3"]),
    ],
    params: &[],
    defaults: Vec::new,
    output_dims: None,
    check: any_dims,
    wgpu: OnWgpu::Shader(VARIANTS),
    cuda: OnCuda::Source(&[cuda_source!("image/oklab.cu", 256, |d, _| {
        (u64::from(d.size("rows")) * u64::from(d.size("cols"))).div_ceil(256)
    })
        .with(&[cuda_shared!("shared/places.cuh")])]),
    reference: reference!(reference),
    window: whole_heads,
    cost: |d, _| Cost {
        flop: 75.0 * pixels(d),
        exp: 0.0,
        stores: 3.0 * pixels(d),
        bytes: 24.0 * pixels(d),
        ..Cost::default()
    },
    tolerance: Tolerance::SUMS,
    cases: &[
        Case::new("smallest", &[("rows", 1), ("cols", 1)], Vec::new)
            .filled(&[("rgb", Fill::Uniform(0.0, 1.0))]),
        Case::new("odd", &[("rows", 17), ("cols", 33)], Vec::new).filled(&[("rgb", Fill::Uniform(0.0, 1.0))]),
        Case::new("black", &[("rows", 2), ("cols", 3)], Vec::new).filled(&[("rgb", Fill::Value(0.0))]),
        Case::new("dark", &[("rows", 9), ("cols", 9)], Vec::new)
            .filled(&[("rgb", Fill::Uniform(1e-9, 1e-7))]),
        // All of one sign: where a cone response cancels to 0 the root amplifies rounding without bound.
        Case::new("negative", &[("rows", 9), ("cols", 9)], Vec::new)
            .filled(&[("rgb", Fill::Uniform(-1.0, -0.01))]),
        Case::new("large_values", &[("rows", 9), ("cols", 9)], Vec::new)
            .filled(&[("rgb", Fill::Uniform(1e30, 1e37))]),
        Case::new("photo_1024x768", &[("rows", 768), ("cols", 1024)], Vec::new)
            .filled(&[("rgb", Fill::Uniform(0.0, 1.0))])
            .for_bench(),
    ],
    vjp: None,
};

/// Records the conversion of `rgb` `[rows, cols, 3]` into a new transient `[rows, cols, 3]`.
///
/// Errors: another element type or shape, with the caller's place.
#[track_caller]
pub fn record(graph: &mut Graph, name: &str, rgb: Tensor) -> Result<Tensor> {
    let out = graph.transient(name, rgb.shape(), DType::F32);
    graph.pass(&SPEC, &NoParams {}, &[Some(rgb), Some(out)])?;
    Ok(out)
}
