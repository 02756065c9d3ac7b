//! A picture of numbers in the colours of a table.
//!
//! out[row, col] = colours at 255 · (values[row, col] − low) / (high − low), values outside [low, high] taken as the
//! nearer end, and neighbouring colours blended linearly byte by byte. NaN and infinities get colours of their own.
//!
//! * `values` `[rows, cols]`.
//! * `colours` `[256]`: display bytes (gamma space), red in the lowest byte, alpha in the highest.
//! * `out` `[rows, cols]`: pixels of display bytes; blending stays in gamma space, in which colour maps are drawn.

use crate::numbers::Short;
use crate::error::Result;
use crate::graph::Graph;
use crate::kernel::wgsl_module::GROUP;
use crate::kernel::*;
use crate::tensor::{DType, Dims, HostData, Tensor};
use crate::{cuda_shared, cuda_source, params, reference};

params! {
    /// Parameters of [`SPEC`].
    pub struct Params {
        /// the number that gets the first colour
        live low: f32 = 0.0,
        /// the number that gets the last colour, more than `low`
        live high: f32 = 1.0,
        /// colour of NaN, packed like `colours`
        live nan: u32 = 0xffff_00ff,
        /// colour of infinities, packed like `colours`
        live infinite: u32 = 0xffff_00ff,
    }
}

fn check(_: &Dims, params: &[u8]) -> std::result::Result<(), String> {
    let Params { low, high, .. } = Params::from_bytes(params);
    if high > low && (high - low).is_finite() {
        return Ok(());
    }
    Err(format!(
        "wants finite low < high with a finite difference, got {} and {}",
        Short(low),
        Short(high)
    ))
}

fn blend<T: Real>(colours: &[u32], place: T) -> u32 {
    let below = place.floor().wide() as usize;
    let [lower, upper] =
        [below, (below + 1).min(255)].map(|i| colours[i].to_le_bytes().map(|b| T::of(f64::from(b))));
    let rest = place - place.floor();
    let byte = |i: usize| {
        (lower[i] + (upper[i] - lower[i]) * rest + T::of(0.5))
            .floor()
            .wide() as u8
    };
    u32::from_le_bytes([0, 1, 2, 3].map(byte))
}

fn reference<T: Real>(args: &mut HostArgs<T>) -> Result<()> {
    let p: Params = args.params();
    let [low, high] = [p.low, p.high].map(|x| T::of(f64::from(x)));
    let (values, colours) = (args.real("values"), args.words("colours"));
    let colour = |&x: &T| {
        if x.is_nan() {
            return p.nan;
        }
        if !x.is_finite() {
            return p.infinite;
        }
        blend(
            &colours,
            T::of(255.0) * ((x.max(low).min(high) - low) / (high - low)),
        )
    };
    let out = values.iter().map(colour).collect();
    args.set_words("out", out);
    Ok(())
}

fn pixels(dims: &Dims) -> f64 {
    f64::from(dims.size("rows")) * f64::from(dims.size("cols"))
}

static VARIANTS: &[Variant] = &[Variant {
    name: "pixel",
    file: "image/colormap.wgsl",
    body: include_str!("../../../shaders/image/colormap.wgsl"),
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

fn greys(_: &Dims) -> HostData {
    HostData::U32(
        (0..256)
            .map(|i| u32::from_le_bytes([i as u8, i as u8, i as u8, 255]))
            .collect(),
    )
}

fn rainbow(_: &Dims) -> HostData {
    HostData::U32(
        (0..256_u32)
            .map(|i| u32::from_le_bytes([i as u8, (255 - i) as u8, (i / 2) as u8, (255 - i / 4) as u8]))
            .collect(),
    )
}

fn not_numbers(dims: &Dims) -> HostData {
    let odd = [
        f32::NAN,
        f32::INFINITY,
        f32::NEG_INFINITY,
        -f32::NAN,
        0.25,
        f32::MAX,
        f32::MIN,
        -0.0,
        1e-40,
    ];
    HostData::F32(
        (0..dims.at("rows") * dims.at("cols"))
            .map(|i| odd[i % odd.len()])
            .collect(),
    )
}

const GREYS: (&str, Fill) = ("colours", Fill::Made(greys));
const RAINBOW: (&str, Fill) = ("colours", Fill::Made(rainbow));

/// The kernel's description.
pub static SPEC: KernelSpec = KernelSpec {
    name: "colormap",
    family: "image",
    formula: "out = colours at 255 (values − low) / (high − low), blended linearly; NaN and ±∞ have their own colour",
    source: "definition",
    ports: &[
        Port::read("values", &["rows", "cols"]),
        Port::read("colours", &["256"]).of(DType::U32),
        Port::write("out", &["rows", "cols"]).of(DType::Rgba8),
    ],
    params: Params::FIELDS,
    defaults: Params::default_bytes,
    output_dims: None,
    check,
    wgpu: OnWgpu::Shader(VARIANTS),
    cuda: OnCuda::Source(&[cuda_source!("image/colormap.cu", 256, |d, _| {
        (u64::from(d.size("rows")) * u64::from(d.size("cols"))).div_ceil(256)
    })
        .with(&[cuda_shared!("shared/places.cuh")])]),
    reference: reference!(reference),
    window: whole_heads,
    cost: |d, _| Cost {
        flop: 25.0 * pixels(d),
        exp: 0.0,
        stores: pixels(d),
        bytes: 8.0 * pixels(d) + 1024.0,
        ..Cost::default()
    },
    tolerance: Tolerance {
        factor: 2.0,
        floor: 1.0001 / 255.0,
        reason: "a number within rounding of half a display step may fall to either side",
    },
    cases: &[
        Case::new("smallest", &[("rows", 1), ("cols", 1)], Params::default_bytes).filled(&[GREYS]),
        Case::new("odd", &[("rows", 17), ("cols", 33)], || {
            Params {
                low: -0.8,
                high: 0.9,
                ..Params::default()
            }
            .to_bytes()
        })
        .filled(&[RAINBOW]),
        Case::new("not_finite", &[("rows", 3), ("cols", 7)], || {
            Params {
                low: -1.0,
                high: 1.0,
                nan: 0x8040_20ff,
                infinite: 0x80ff_2040,
            }
            .to_bytes()
        })
        .filled(&[RAINBOW, ("values", Fill::Made(not_numbers))]),
        Case::new(
            "photo_1024x768",
            &[("rows", 768), ("cols", 1024)],
            Params::default_bytes,
        )
        .filled(&[RAINBOW])
        .for_bench(),
    ],
    vjp: None,
};

/// Records the picture of `values` `[rows, cols]` in `colours` `[256]` into a new transient of pixels `[rows, cols]`.
///
/// Errors: low ≥ high, another element type or shape, with the caller's place.
#[track_caller]
pub fn record(
    graph: &mut Graph,
    name: &str,
    values: Tensor,
    colours: Tensor,
    params: Params,
) -> Result<Tensor> {
    let out = graph.transient(name, values.shape(), DType::Rgba8);
    graph.pass(&SPEC, &params, &[Some(values), Some(colours), Some(out)])?;
    Ok(out)
}
