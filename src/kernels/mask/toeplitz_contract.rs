//! Sums over features of queries times masked products: the numerators and denominators of masked linear attention.
//!
//! `out[i, c]` = `prior[i, c]` + Σₗ `q[i, l]`·`x[i, (l, c)]`, and in the last column Σₗ `q[i, l]`·`x[i, l]` of the denominator's channels.
//!
//! * `q` `[b, h, n, r]`; `x` `[b, h, u, n, y]`: channels as [`toeplitz_lift`](super::toeplitz_lift) lays them out.
//! * `prior` `[b, h, n, w]`: sums of the slices before; `out` `[b, h, n, w]`, w − 1 channels of the values and one of the denominator.

use super::toeplitz_lift::{PARTS, channels, check_slice};
use crate::error::Result;
use crate::kernel::wgsl_module::{GROUP, Shared, TEXELS};
use crate::kernel::*;
use crate::{cuda_source, params, reference};
use crate::tensor::Dims;

params! {
    /// Parameters of [`SPEC`].
    pub struct Params {
        /// first feature, an even number
        live first: u32 = 0,
        /// features of the slice, as they were lifted
        live features: u32 = 2,
    }
}

fn reference<T: Real>(args: &mut HostArgs<T>) -> Result<()> {
    let p: Params = args.params();
    let [n, r, w, u, y] = ["n", "r", "w", "u", "y"].map(|x| args.dims.at(x));
    let (q, x, prior) = (args.real("q"), args.real("x"), args.real_if("prior"));
    let (wide, features) = ((w - 1).next_multiple_of(4), p.features as usize);
    let out = reference::rows(args.dims.batches() as usize, n, w, |batch, i, line| {
        for (c, sum) in line.iter_mut().enumerate() {
            for l in (0..features).filter(|l| p.first as usize + l < r) {
                let channel = if c + 1 == w { features * wide + l } else { l * wide + c };
                let value = x[((batch * u + channel / y) * n + i) * y + channel % y];
                *sum += q[(batch * n + i) * r + p.first as usize + l] * value;
            }
            if let Some(prior) = &prior {
                *sum += prior[(batch * n + i) * w + c];
            }
        }
    });
    args.set("out", out);
    Ok(())
}

const CONTRACT: &Shared = &Shared {
    file: "mask/toeplitz_contract.wgsl",
    body: include_str!("../../../shaders/mask/toeplitz_contract.wgsl"),
};

fn words(d: &Dims) -> f64 {
    ["u", "n", "y"].map(|x| f64::from(d.size(x))).into_iter().product()
}

const PLAIN: Variant = Variant {
    name: "plain",
    file: "mask/toeplitz_contract_plain.wgsl",
    body: include_str!("../../../shaders/mask/toeplitz_contract_plain.wgsl"),
    shared: &[GROUP, PARTS, CONTRACT],
    preferred_on: &[Driver::Gpu, Driver::Llvmpipe, Driver::SwiftShader],
    classes: &[],
    vec4: &["x"],
    constants: no_constants,
    suits: always,
    grid: |d, batches| {
        batches * (u64::from(d.size("n")) * u64::from((d.size("w").max(1) - 1).div_ceil(4) + 1)).div_ceil(64)
    },
    loads: |d, _| Loads { storage: 1.25 * words(d), ..Loads::default() },
    rounds: |d| u64::from(d.size("u")) * u64::from(d.size("y")),
    subgroup_lanes: 0,
};

/// The kernel's description.
pub static SPEC: KernelSpec = KernelSpec {
    name: "toeplitz_contract",
    family: "mask",
    formula: "out[i, c] = prior[i, c] + Σₗ q[i, l] x[i, (l, c)]",
    source: "arXiv 2107.07999, algorithm 1",
    ports: &[
        Port::read("q", &["b", "h", "n", "r"]),
        Port::read("x", &["b", "h", "u", "n", "y"]),
        Port::read("prior", &["b", "h", "n", "w"]).optional(),
        Port::write("out", &["b", "h", "n", "w"]),
    ],
    params: Params::FIELDS,
    defaults: Params::default_bytes,
    output_dims: None,
    check: |d, params| {
        let p = Params::from_bytes(params);
        check_slice(p.first, p.features)?;
        let needed = channels(p.features, d.size("w").max(1) - 1);
        if d.size("w") < 2
            || !d.size("y").is_multiple_of(4)
            || u64::from(d.size("u")) * u64::from(d.size("y")) < u64::from(needed)
            || d.size("r") == 0
        {
            return Err(format!(
                "x has at least {needed} channels in blocks of a multiple of 4, got {} blocks of {}",
                d.size("u"),
                d.size("y")
            ));
        }
        Ok(())
    },
    wgpu: OnWgpu::Shader(&[
        Variant {
            name: "texture",
            file: "mask/toeplitz_contract_texture.wgsl",
            body: include_str!("../../../shaders/mask/toeplitz_contract_texture.wgsl"),
            shared: &[GROUP, TEXELS, PARTS, CONTRACT],
            preferred_on: &[Driver::Llvmpipe, Driver::SwiftShader],
            classes: &[("q", Class::Texture), ("x", Class::Texture)],
            vec4: &["q", "x"],
            suits: |d, _, _| d.size("r").is_multiple_of(4),
            loads: |d, _| Loads { texture: 1.25 * words(d), ..Loads::default() },
            ..PLAIN
        },
        PLAIN,
    ]),
    cuda: OnCuda::Source(&[cuda::Source {
        vec4: &["x"],
        ..cuda_source!("mask/toeplitz_contract.cu", 256, |d, _| {
            let per_row = u64::from((d.size("w").max(1) - 1).div_ceil(4) + 1);
            d.batches() * (u64::from(d.size("n")) * per_row).div_ceil(256)
        })
        .with(&[cuda::VECTORS])
    }]),
    reference: reference!(reference),
    window: whole_heads,
    cost: |d, _| {
        let batches = d.batches() as f64;
        let out = f64::from(d.size("n")) * f64::from(d.size("w"));
        let read = words(d) + f64::from(d.size("n")) * f64::from(d.size("r"));
        Cost {
            flop: 2.0 * batches * words(d),
            exp: 0.0,
            stores: batches * out,
            bytes: 4.0 * batches * (read + out),
            ..Cost::default()
        }
    },
    tolerance: Tolerance::SUMS,
    cases: &[
        Case::new(
            "smallest",
            &[("b", 1), ("h", 1), ("n", 1), ("r", 1), ("u", 1), ("y", 12), ("w", 2)],
            Params::default_bytes,
        )
        .without(&["prior"]),
        Case::new("odd", &[("b", 2), ("h", 3), ("n", 17), ("r", 5), ("u", 4), ("y", 8), ("w", 4)], || {
            Params { first: 0, features: 6 }.to_bytes()
        }),
        Case::new(
            "whole_texels",
            &[("b", 1), ("h", 2), ("n", 33), ("r", 12), ("u", 3), ("y", 12), ("w", 9)],
            || Params { first: 4, features: 4 }.to_bytes(),
        ),
        Case::new(
            "pair_of_features",
            &[("b", 1), ("h", 1), ("n", 9), ("r", 8), ("u", 1), ("y", 12), ("w", 4)],
            || Params { first: 6, features: 2 }.to_bytes(),
        )
        .without(&["prior"]),
    ],
    vjp: None,
};
