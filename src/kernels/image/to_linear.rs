//! Display pixels to linear light, over white.
//!
//! out[row, col, c] = α · linear(pixels[row, col].c) + (1 − α), with the sRGB curve
//! linear(x) = x / 12.92 for x ≤ 0.04045, else ((x + 0.055) / 1.055)^2.4, of x = byte / 255.
//!
//! * `pixels` `[rows, cols]`: display bytes (gamma space), straight alpha.
//! * `out` `[rows, cols, 3]`: linear light in [0, 1].

use crate::error::Result;
use crate::graph::Graph;
use crate::kernel::wgsl_module::GROUP;
use crate::kernel::*;
use crate::{cuda_shared, cuda_source, reference};
use crate::tensor::{DType, Dims, Tensor};

fn linear<T: Real>(byte: u32) -> T {
    let c = T::of(f64::from(byte)) / T::of(255.0);
    if c <= T::of(0.04045) {
        c / T::of(12.92)
    } else {
        ((c + T::of(0.055)) / T::of(1.055)).powf(T::of(2.4))
    }
}

fn reference<T: Real>(args: &mut HostArgs<T>) -> Result<()> {
    let pixels = args.words("pixels");
    let out = reference::rows(1, pixels.len(), 3, |_, i, line| {
        let [r, g, b, a] = pixels[i].to_le_bytes().map(u32::from);
        let alpha = T::of(f64::from(a)) / T::of(255.0);
        for (y, byte) in line.iter_mut().zip([r, g, b]) {
            *y = linear::<T>(byte) * alpha + (T::one() - alpha);
        }
    });
    args.set("out", out);
    Ok(())
}

fn pixels(dims: &Dims) -> f64 {
    f64::from(dims.size("rows")) * f64::from(dims.size("cols"))
}

static VARIANTS: &[Variant] = &[Variant {
    name: "pixel",
    file: "image/to_linear.wgsl",
    body: include_str!("../../../shaders/image/to_linear.wgsl"),
    shared: &[GROUP],
    preferred_on: &[],
    classes: &[],
    vec4: &[],
    constants: no_constants,
    suits: always,
    grid: |d, _| (u64::from(d.size("rows")) * u64::from(d.size("cols"))).div_ceil(64),
    loads: |d, _| Loads {
        texture: pixels(d),
        ..Loads::default()
    },
    rounds: few_rounds,
    subgroup_lanes: 0,
}];

fn every_byte(dims: &Dims) -> crate::tensor::HostData {
    let count = dims.size("rows") * dims.size("cols");
    let pixel = |i: u32| {
        [
            i as u8,
            (255 - i % 256) as u8,
            (i * 7) as u8,
            if i.is_multiple_of(3) { 255 } else { (i * 5) as u8 },
        ]
    };
    crate::tensor::HostData::Rgba8((0..count).map(pixel).collect())
}

/// The kernel's description.
pub static SPEC: KernelSpec = KernelSpec {
    name: "to_linear",
    family: "image",
    formula: "out = α linear(rgb) + (1 − α), linear = the inverse of the sRGB curve",
    source: "IEC 61966-2-1 (sRGB); straight alpha over white, in linear light",
    ports: &[
        Port::read("pixels", &["rows", "cols"]).of(DType::Rgba8),
        Port::write("out", &["rows", "cols", "3"]),
    ],
    params: &[],
    defaults: Vec::new,
    output_dims: None,
    check: any_dims,
    wgpu: OnWgpu::Shader(VARIANTS),
    cuda: OnCuda::Source(&[cuda_source!("image/to_linear.cu", 256, |d, _| {
        (u64::from(d.size("rows")) * u64::from(d.size("cols"))).div_ceil(256)
    })
        .with(&[cuda_shared!("shared/places.cuh")])]),
    reference: reference!(reference),
    window: whole_heads,
    cost: |d, _| Cost {
        flop: 60.0 * pixels(d),
        exp: 0.0,
        stores: 3.0 * pixels(d),
        bytes: 16.0 * pixels(d),
        ..Cost::default()
    },
    tolerance: Tolerance::SUMS,
    cases: &[
        Case::new("smallest", &[("rows", 1), ("cols", 1)], Vec::new),
        Case::new("odd", &[("rows", 17), ("cols", 33)], Vec::new),
        Case::new("every_byte", &[("rows", 3), ("cols", 257)], Vec::new)
            .filled(&[("pixels", Fill::Made(every_byte))]),
        Case::new("photo_1024x768", &[("rows", 768), ("cols", 1024)], Vec::new).for_bench(),
    ],
    vjp: None,
};

/// Records the conversion of `pixels` `[rows, cols]` into a new transient `[rows, cols, 3]`.
///
/// Errors: another element type or rank, with the caller's place.
#[track_caller]
pub fn record(graph: &mut Graph, name: &str, pixels: Tensor) -> Result<Tensor> {
    let out = graph.transient(name, [pixels.dim(0), pixels.dim(1), 3], DType::F32);
    graph.pass(&SPEC, &NoParams {}, &[Some(pixels), Some(out)])?;
    Ok(out)
}
