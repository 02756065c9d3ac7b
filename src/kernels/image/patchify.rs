//! Patches of a picture as token rows: row-major within a patch, channel fastest.
//!
//! Token t (counted from `first_token`) is cell (r, c) = (t / grid_cols, t mod grid_cols). Its patch is centred on the
//! cell; with integer division rounding down, and pixels outside the picture repeating the edge,
//!
//! out[t, (i · patch_size + j) · channels + k] = image[clamp(r · stride + stride / 2 − patch_size / 2 + i), clamp(c · stride + stride / 2 − patch_size / 2 + j), k].
//!
//! * `image` `[rows, cols, channels]`.
//! * `out` `[1, 1, n, p]`, p = patch_size² · channels. A large grid is made in strips: one pass per strip, each with
//!   its `first_token`.

use crate::error::Result;
use crate::graph::Graph;
use crate::kernel::wgsl_module::GROUP;
use crate::kernel::*;
use crate::tensor::{DType, Dims, Tensor};
use crate::{cuda_shared, cuda_source, params, reference};

params! {
    /// Parameters of [`SPEC`].
    pub struct Params {
        /// side of a patch in pixels
        live patch_size: u32 = 8,
        /// pixels from one token to the next, both ways
        live stride: u32 = 8,
        /// tokens in a row of the grid
        live grid_cols: u32 = 1,
        /// the first token of the result, counted over the whole grid
        live first_token: u32 = 0,
        /// the picture's row at which the given rows begin, where only a part of it is given
        live first_row: u32 = 0,
    }
}

fn check(dims: &Dims, params: &[u8]) -> std::result::Result<(), String> {
    let p = Params::from_bytes(params);
    if dims.batches() != 1 {
        return Err(format!(
            "makes one list of tokens, so b and h are 1, got {} and {}",
            dims.size("b"),
            dims.size("h")
        ));
    }
    if p.patch_size == 0 || p.stride == 0 || p.grid_cols == 0 {
        let (patch, stride, cols) = (p.patch_size, p.stride, p.grid_cols);
        return Err(format!(
            "patch_size, stride and grid_cols are at least 1, got {patch}, {stride} and {cols}"
        ));
    }
    if p.first_row > i32::MAX.cast_unsigned() {
        return Err(format!("first_row is below 2^31, got {}", p.first_row));
    }
    if dims.size("rows") == 0 || dims.size("cols") == 0 || dims.size("channels") == 0 {
        return Err("the image has no pixels".into());
    }
    let (width, wanted) = (
        u64::from(dims.size("p")),
        u64::from(p.patch_size)
            .pow(2)
            .saturating_mul(dims.size("channels").into()),
    );
    if width != wanted {
        return Err(format!("p is patch_size² · channels = {wanted}, got {width}"));
    }
    // The shader counts positions in 32 bits with a sign.
    let last = u64::from(p.first_token) + u64::from(dims.size("n"));
    let reach = (last.div_ceil(p.grid_cols.into()).max(p.grid_cols.into()) + 1) * u64::from(p.stride)
        + u64::from(p.patch_size);
    if reach > u64::from(i32::MAX.cast_unsigned()) {
        return Err(format!(
            "the grid reaches pixel {reach}, at most {} are counted",
            i32::MAX
        ));
    }
    Ok(())
}

fn reference<T: Real>(args: &mut HostArgs<T>) -> Result<()> {
    let p: Params = args.params();
    let image = args.real("image");
    let (n, width, channels) = (args.dims.at("n"), args.dims.at("p"), args.dims.at("channels"));
    let (rows, cols) = (args.dims.at("rows"), args.dims.at("cols"));
    let [patch, stride, grid_cols, first] =
        [p.patch_size, p.stride, p.grid_cols, p.first_token].map(|x| x as usize);
    let place = |cell: usize, inside: usize, size: usize, before: usize| {
        (cell * stride + stride / 2 + inside).saturating_sub(patch / 2 + before).min(size - 1)
    };
    let above = p.first_row as usize;
    let out = reference::rows(1, n, width, |_, t, line| {
        let (r, c) = ((first + t) / grid_cols, (first + t) % grid_cols);
        for (pixel, colour) in line.chunks_mut(channels).enumerate() {
            let from = (place(r, pixel / patch, rows, above) * cols + place(c, pixel % patch, cols, 0)) * channels;
            colour.copy_from_slice(&image[from..from + channels]);
        }
    });
    args.set("out", out);
    Ok(())
}

fn numbers(dims: &Dims) -> f64 {
    f64::from(dims.size("n")) * f64::from(dims.size("p"))
}

static VARIANTS: &[Variant] = &[Variant {
    name: "pixel",
    file: "image/patchify.wgsl",
    body: include_str!("../../../shaders/image/patchify.wgsl"),
    shared: &[GROUP],
    preferred_on: &[],
    classes: &[],
    vec4: &[],
    constants: no_constants,
    suits: always,
    grid: |d, _| (u64::from(d.size("n")) * u64::from(d.size("p") / d.size("channels").max(1))).div_ceil(64),
    loads: |d, _| Loads {
        storage: numbers(d),
        ..Loads::default()
    },
    rounds: |d| u64::from(d.size("channels")),
    subgroup_lanes: 0,
}];

/// A place of a picture's own number, so that a wrong pixel shows.
fn numbered(dims: &Dims) -> crate::tensor::HostData {
    let count = dims.size("rows") * dims.size("cols") * dims.size("channels");
    crate::tensor::HostData::F32((0..count).map(|i| i as f32).collect())
}

const NUMBERED: &[(&str, Fill)] = &[("image", Fill::Made(numbered))];

/// The kernel's description.
pub static SPEC: KernelSpec = KernelSpec {
    name: "patchify",
    family: "image",
    formula: "out[t, (i, j, k)] = image[r s + s/2 − P/2 + i, c s + s/2 − P/2 + j, k], edges repeated",
    source: "definition",
    ports: &[
        Port::read("image", &["rows", "cols", "channels"]),
        Port::write("out", &["b", "h", "n", "p"]),
    ],
    params: Params::FIELDS,
    defaults: Params::default_bytes,
    output_dims: None,
    check,
    wgpu: OnWgpu::Shader(VARIANTS),
    cuda: OnCuda::Source(&[cuda_source!("image/patchify.cu", 256, |d, _| {
        (u64::from(d.size("n")) * u64::from(d.size("p"))).div_ceil(256)
    })
        .with(&[cuda_shared!("shared/places.cuh")])]),
    reference: reference!(reference),
    window: whole_heads,
    cost: |d, _| {
        let image = f64::from(d.size("rows")) * f64::from(d.size("cols")) * f64::from(d.size("channels"));
        Cost {
            flop: numbers(d),
            exp: 0.0,
            stores: numbers(d),
            bytes: 4.0 * (numbers(d) + image),
            ..Cost::default()
        }
    },
    tolerance: Tolerance::EXACT,
    cases: &[
        Case::new(
            "smallest",
            &[
                ("b", 1),
                ("h", 1),
                ("rows", 1),
                ("cols", 1),
                ("channels", 1),
                ("n", 1),
                ("p", 1),
            ],
            || {
                Params {
                    patch_size: 1,
                    stride: 1,
                    ..Params::default()
                }
                .to_bytes()
            },
        ),
        Case::new(
            "odd",
            &[
                ("b", 1),
                ("h", 1),
                ("rows", 17),
                ("cols", 23),
                ("channels", 3),
                ("n", 48),
                ("p", 75),
            ],
            || {
                Params {
                    patch_size: 5,
                    stride: 3,
                    grid_cols: 8,
                    first_token: 0, first_row: 0 }
                .to_bytes()
            },
        )
        .filled(NUMBERED),
        Case::new(
            "even_patch_over_odd_stride",
            &[
                ("b", 1),
                ("h", 1),
                ("rows", 13),
                ("cols", 11),
                ("channels", 2),
                ("n", 12),
                ("p", 32),
            ],
            || {
                Params {
                    patch_size: 4,
                    stride: 3,
                    grid_cols: 3,
                    first_token: 0, first_row: 0 }
                .to_bytes()
            },
        )
        .filled(NUMBERED),
        Case::new(
            "patch_larger_than_image",
            &[
                ("b", 1),
                ("h", 1),
                ("rows", 2),
                ("cols", 3),
                ("channels", 3),
                ("n", 6),
                ("p", 147),
            ],
            || {
                Params {
                    patch_size: 7,
                    stride: 1,
                    grid_cols: 3,
                    first_token: 0, first_row: 0 }
                .to_bytes()
            },
        )
        .filled(NUMBERED),
        Case::new(
            "strip",
            &[
                ("b", 1),
                ("h", 1),
                ("rows", 32),
                ("cols", 40),
                ("channels", 3),
                ("n", 7),
                ("p", 192),
            ],
            || {
                Params {
                    patch_size: 8,
                    stride: 8,
                    grid_cols: 5,
                    first_token: 11, first_row: 0 }
                .to_bytes()
            },
        )
        .filled(NUMBERED),
        Case::new(
            "photo_1024x768",
            &[
                ("b", 1),
                ("h", 1),
                ("rows", 768),
                ("cols", 1024),
                ("channels", 3),
                ("n", 12_288),
                ("p", 192),
            ],
            || {
                Params {
                    patch_size: 8,
                    stride: 8,
                    grid_cols: 128,
                    first_token: 0, first_row: 0 }
                .to_bytes()
            },
        )
        .for_bench(),
    ],
    vjp: None,
};

/// Records `n` patches of `image` `[rows, cols, channels]` into a new transient `[1, 1, n, patch_size² · channels]`.
///
/// Errors: parameters of 0, an image without pixels or of another rank, with the caller's place.
#[track_caller]
pub fn record(graph: &mut Graph, name: &str, image: Tensor, n: u32, params: Params) -> Result<Tensor> {
    let width = params
        .patch_size
        .saturating_mul(params.patch_size)
        .saturating_mul(image.dim(2));
    let out = graph.transient(name, [1, 1, n, width], DType::F32);
    graph.pass(&SPEC, &params, &[Some(image), Some(out)])?;
    Ok(out)
}
