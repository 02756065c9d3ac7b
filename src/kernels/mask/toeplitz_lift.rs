//! Keys times values, channel by channel: what a mask multiplies in linear attention.
//!
//! `out[i, (l, c)]` = `k[i, l]`·`v[i, c]` for the features l of a slice and the channels c of `v`, rounded up to a multiple of four, and
//! behind them `out[i, l]` = `k[i, l]`, the channels of the denominator. Masked keys give zeros, whatever they and their values hold.
//!
//! * `k` `[b, h, n, r]`, `v` `[b, h, n, e]`, `key_mask` `[b, h, n]`; `out` `[b, h, u, n, y]`: `u` blocks of `y` channels, each with all rows.
//! * Two neighbouring channels become one complex number of a transform: values are paired with values of the same feature,
//!   features of the denominator with each other, so that neither drowns in the other's rounding.

use crate::error::Result;
use crate::kernel::wgsl_module::{BYTES, GROUP, Shared, TEXELS};
use crate::kernel::*;
use crate::kernels::laplacian::kernel_matrix::kept;
use crate::{cuda_source, params, reference};
use crate::tensor::{DType, Dims};

params! {
    /// Parameters of [`SPEC`].
    pub struct Params {
        /// first feature, an even number
        live first: u32 = 0,
        /// features of the slice: 2 or a multiple of 4, or any even number from feature 0; those past the last are zeros
        live features: u32 = 2,
    }
}

/// Channels of a slice of `features` features for values of `e` channels.
pub fn channels(features: u32, e: u32) -> u32 {
    features * (e.next_multiple_of(4) + 1)
}

/// What slices of features must satisfy.
pub(super) fn check_slice(first: u32, features: u32) -> std::result::Result<(), String> {
    let aligned = first == 0 || features == 2 || first.is_multiple_of(4);
    if features == 0 || features % 2 == 1 || first % 2 == 1 || !aligned {
        return Err(format!("features are taken by two or by fours, got {features} from {first}"));
    }
    Ok(())
}

fn reference<T: Real>(args: &mut HostArgs<T>) -> Result<()> {
    let p: Params = args.params();
    let [n, r, e, u, y] = ["n", "r", "e", "u", "y"].map(|x| args.dims.at(x));
    let (k, v, shared) = (args.real("k"), args.real("v"), &*args);
    let (wide, features) = (e.next_multiple_of(4), p.features as usize);
    let out = reference::rows(args.dims.batches() as usize * u, n, y, |place, i, line| {
        let (batch, block) = (place / u, place % u);
        if !kept(shared, "key_mask", batch, i) {
            return;
        }
        let row = batch * n + i;
        let key = |l: usize| {
            if l < features && p.first as usize + l < r {
                k[row * r + p.first as usize + l]
            } else {
                T::zero()
            }
        };
        for (at, value) in line.iter_mut().enumerate() {
            let channel = block * y + at;
            *value = match channel.checked_sub(features * wide) {
                Some(l) => key(l),
                None if channel % wide < e => key(channel / wide) * v[row * e + channel % wide],
                None => T::zero(),
            };
        }
    });
    args.set("out", out);
    Ok(())
}

pub(super) const PARTS: &Shared =
    &Shared { file: "fft/parts.wgsl", body: include_str!("../../../shaders/fft/parts.wgsl") };
const LIFT: &Shared = &Shared {
    file: "mask/toeplitz_lift.wgsl",
    body: include_str!("../../../shaders/mask/toeplitz_lift.wgsl"),
};

fn words(d: &Dims) -> f64 {
    ["u", "n", "y"].map(|x| f64::from(d.size(x))).into_iter().product()
}

const PLAIN: Variant = Variant {
    name: "plain",
    file: "mask/toeplitz_lift_plain.wgsl",
    body: include_str!("../../../shaders/mask/toeplitz_lift_plain.wgsl"),
    shared: &[GROUP, BYTES, PARTS, LIFT],
    preferred_on: &[Driver::Gpu, Driver::Llvmpipe, Driver::SwiftShader],
    classes: &[],
    vec4: &["out"],
    constants: no_constants,
    suits: always,
    grid: |d, batches| {
        batches * (u64::from(d.size("u")) * u64::from(d.size("n")) * u64::from(d.size("y") / 4)).div_ceil(64)
    },
    loads: |d, _| Loads { storage: 2.0 * words(d), ..Loads::default() },
    rounds: few_rounds,
    subgroup_lanes: 0,
};

/// The kernel's description.
pub static SPEC: KernelSpec = KernelSpec {
    name: "toeplitz_lift",
    family: "mask",
    formula: "out[i, (l, c)] = k[i, l] · [v, 1][i, c]",
    source: "arXiv 2107.07999, algorithm 1",
    ports: &[
        Port::read("k", &["b", "h", "n", "r"]),
        Port::read("v", &["b", "h", "n", "e"]),
        Port::read("key_mask", &["b", "h", "n"]).of(DType::U8).broadcast().optional(),
        Port::write("out", &["b", "h", "u", "n", "y"]),
    ],
    params: Params::FIELDS,
    defaults: Params::default_bytes,
    output_dims: Some(|d, params| {
        d.set("u", 1);
        d.set("y", channels(Params::from_bytes(params).features, d.size("e")).next_multiple_of(4));
    }),
    check: |d, params| {
        let p = Params::from_bytes(params);
        check_slice(p.first, p.features)?;
        let needed = channels(p.features, d.size("e"));
        if !d.size("y").is_multiple_of(4)
            || u64::from(d.size("u")) * u64::from(d.size("y")) < u64::from(needed)
            || d.size("e") == 0
            || d.size("r") == 0
        {
            return Err(format!(
                "out has at least {needed} channels in blocks of a multiple of 4, got {} blocks of {}",
                d.size("u"),
                d.size("y")
            ));
        }
        Ok(())
    },
    wgpu: OnWgpu::Shader(&[
        Variant {
            name: "texture",
            file: "mask/toeplitz_lift_texture.wgsl",
            body: include_str!("../../../shaders/mask/toeplitz_lift_texture.wgsl"),
            shared: &[GROUP, BYTES, TEXELS, PARTS, LIFT],
            preferred_on: &[Driver::Llvmpipe, Driver::SwiftShader],
            classes: &[("k", Class::Texture), ("v", Class::Texture)],
            vec4: &["k", "v", "out"],
            suits: |d, _, _| d.size("r").is_multiple_of(4) && d.size("e").is_multiple_of(4),
            loads: |d, _| Loads { texture: 2.0 * words(d), ..Loads::default() },
            ..PLAIN
        },
        PLAIN,
    ]),
    cuda: OnCuda::Source(&[cuda::Source {
        vec4: &["out"],
        ..cuda_source!("mask/toeplitz_lift.cu", 256, |d, _| {
            let quads = u64::from(d.size("u")) * u64::from(d.size("n")) * u64::from(d.size("y") / 4);
            d.batches() * quads.div_ceil(256)
        })
    }]),
    reference: reference!(reference),
    window: whole_heads,
    cost: |d, _| {
        let words = d.batches() as f64 * words(d);
        let read = d.batches() as f64 * f64::from(d.size("n")) * f64::from(d.size("r") + d.size("e"));
        Cost { flop: words, exp: 0.0, stores: words, bytes: 4.0 * (words + read), ..Cost::default() }
    },
    tolerance: Tolerance::SUMS,
    cases: &[
        Case::new(
            "smallest",
            &[("b", 1), ("h", 1), ("n", 1), ("r", 1), ("e", 1), ("u", 1), ("y", 12)],
            Params::default_bytes,
        )
        .without(&["key_mask"]),
        Case::new("odd", &[("b", 2), ("h", 3), ("n", 17), ("r", 5), ("e", 3), ("u", 4), ("y", 8)], || {
            Params { first: 0, features: 6 }.to_bytes()
        }),
        Case::new(
            "whole_texels",
            &[("b", 1), ("h", 2), ("n", 33), ("r", 12), ("e", 8), ("u", 3), ("y", 12)],
            || Params { first: 4, features: 4 }.to_bytes(),
        )
        .shared(&["key_mask"]),
        Case::new(
            "pair_of_features",
            &[("b", 1), ("h", 1), ("n", 9), ("r", 8), ("e", 4), ("u", 1), ("y", 12)],
            || Params { first: 6, features: 2 }.to_bytes(),
        ),
        Case::new(
            "masked_garbage",
            &[("b", 1), ("h", 1), ("n", 9), ("r", 4), ("e", 4), ("u", 1), ("y", 20)],
            || Params { first: 0, features: 4 }.to_bytes(),
        )
        .filled(&[
            ("key_mask", Fill::Value(0.0)),
            ("v", Fill::Value(3e38)),
            ("k", Fill::Value(3e38)),
        ]),
    ],
    vjp: None,
};
