//! Rows of the approximate attention matrix on demand: the whole row of any query in O(n m), without the matrix.
//!
//! `out[j, q]` = (Σ_l `weights[q, l]` k(kⱼ, L_l) + `weights[q, m]`) · `scale[j]` + constant · share, 0 where key j is masked.
//!
//! * `k` `[b, h, n, d]` keys, `landmarks` `[b, h, m, d]`, `lambda` `[h]`.
//! * `weights` `[b, h, r, mw]`: for each of r queries m weights C(q) X and one shift; `mw` ≥ m + 1 is a multiple of 4 so
//!   that a row is whole vectors, and what lies beyond place m is not read.
//! * `scale` `[b, h, n]` whitens keys; `keep` `[b, h, n]` (bytes) masks them.
//! * `share` `[b, h, 1]` scales the constant of each head (1 where left out): 1/kept keys, where their number is data.
//! * Key-major `[b, h, n, r]`, so that windows of keys are contiguous.

use crate::error::Result;
use crate::kernel::wgsl_module::{BYTES, EXP, GROUP, TEXELS};
use crate::kernel::*;
use crate::kernels::laplacian::kernel_matrix::{DISTANCE, FILLED, LAPLACIAN, TOKEN, distance, kept};
use crate::tensor::{DType, Dims};
use crate::{cuda_shared, cuda_source, params, reference};

params! {
    /// Parameters of [`SPEC`].
    pub struct Params {
        /// added to every kept element (1/M of the whitened maps)
        live constant: f32 = 0.0,
        /// 1 = L1 distance (Laplacian), 2 = squared L2 distance (Gaussian)
        fixed metric: u32 = LAPLACIAN,
    }
}

fn reference<T: Real>(args: &mut HostArgs<T>) -> Result<()> {
    let p: Params = args.params();
    let [n, m, d, r, mw, heads] = ["n", "m", "d", "r", "mw", "h"].map(|x| args.dims.at(x));
    let (k, landmarks, weights) = (args.real("k"), args.real("landmarks"), args.real("weights"));
    let (lambda, scale, share) = (args.real("lambda"), args.real_if("scale"), args.real_if("share"));
    let constant = T::of(f64::from(p.constant));
    let shared = &*args;
    let out = reference::rows(args.dims.batches() as usize, n, r, |batch, j, line| {
        if !kept(shared, "keep", batch, j) {
            return;
        }
        let key = &k[(batch * n + j) * d..][..d];
        let value = |l: usize| {
            let sum = distance(p.metric, key, &landmarks[(batch * m + l) * d..][..d]);
            (-sum / lambda[batch % heads]).exp()
        };
        let features: Vec<T> = (0..m).map(value).collect();
        for (query, out) in line.iter_mut().enumerate() {
            let row = &weights[(batch * r + query) * mw..][..m + 1];
            let sum = row[m] + features.iter().zip(row).map(|(f, w)| *f * *w).sum::<T>();
            *out = sum * scale.as_ref().map_or(T::one(), |s| s[batch * n + j])
                + constant * share.as_ref().map_or(T::one(), |s| s[batch]);
        }
    });
    args.set("out", out);
    Ok(())
}

fn pairs(d: &Dims) -> f64 {
    f64::from(d.size("n")) * f64::from(d.size("r")) * f64::from(d.size("m")) * f64::from(d.size("d"))
}

/// Key in registers, landmarks and weights through the constant cache.
const UNIFORM: Variant = Variant {
    name: "uniform",
    file: "laplacian/nystrom_row_uniform.wgsl",
    body: include_str!("../../../shaders/laplacian/nystrom_row_uniform.wgsl"),
    shared: &[GROUP, EXP, BYTES, DISTANCE],
    preferred_on: &[Driver::Gpu],
    classes: &[("landmarks", Class::Uniform), ("weights", Class::Uniform)],
    vec4: &["k", "landmarks", "weights"],
    constants: |d| vec![("D4", Constant::U32(d.size("d") / 4))],
    suits: |d, _, _| {
        let words = |a: &str, b: &str| u64::from(d.size(a)) * u64::from(d.size(b));
        d.size("d") % 4 == 0 && (4..=64).contains(&d.size("d")) && words("m", "d") <= 16_384 && words("r", "mw") <= 16_384
    },
    grid: |d, batches| batches * u64::from(d.size("r")) * u64::from(d.size("n").div_ceil(64)),
    loads: |d, _| Loads { storage: f64::from(d.size("n")) * f64::from(d.size("d")), uniform: pairs(d), ..Loads::default() },
    rounds: |d| u64::from(d.size("m")),
    subgroup_lanes: 0,
};

static VARIANTS: &[Variant] = &[
    Variant {
        name: "broadcast",
        file: "laplacian/nystrom_row_broadcast.wgsl",
        body: include_str!("../../../shaders/laplacian/nystrom_row_broadcast.wgsl"),
        shared: &[GROUP, TEXELS, EXP, BYTES, DISTANCE, TOKEN],
        preferred_on: &[Driver::Llvmpipe],
        classes: &[("k", Class::Texture), ("landmarks", Class::Uniform), ("weights", Class::Uniform)],
        grid: |d, batches| batches * u64::from(d.size("r")) * u64::from(d.size("n").div_ceil(32)),
        // Eight threads with four keys each load a landmark once and its weight, in vectors of eight lanes.
        loads: |d, _| Loads {
            texture: f64::from(d.size("r")) * f64::from(d.size("n")) * f64::from(d.size("d")),
            uniform: f64::from(d.size("r"))
                * f64::from(d.size("n").div_ceil(32))
                * f64::from(d.size("m"))
                * 32.0
                * f64::from(1 + d.size("d").div_ceil(32)),
            ..Loads::default()
        },
        subgroup_lanes: 8,
        ..UNIFORM
    },
    Variant {
        name: "texture",
        file: "laplacian/nystrom_row_texture.wgsl",
        body: include_str!("../../../shaders/laplacian/nystrom_row_texture.wgsl"),
        shared: &[GROUP, TEXELS, EXP, BYTES, DISTANCE],
        preferred_on: &[Driver::Llvmpipe, Driver::SwiftShader],
        classes: &[("k", Class::Texture), ("landmarks", Class::Uniform), ("weights", Class::Uniform)],
        loads: |d, _| Loads { texture: f64::from(d.size("n")) * f64::from(d.size("d")), uniform: pairs(d) / 2.0, ..Loads::default() },
        ..UNIFORM
    },
    UNIFORM,
    Variant {
        preferred_on: &[Driver::SwiftShader],
        ..Variant::only(
            "laplacian/nystrom_row_plain.wgsl",
            include_str!("../../../shaders/laplacian/nystrom_row_plain.wgsl"),
            &[GROUP, EXP, BYTES, DISTANCE],
            |d, batches| batches * u64::from(d.size("r")) * u64::from(d.size("n").div_ceil(64)),
            |d, _| Loads { storage: 2.0 * pairs(d), ..Loads::default() },
        ).rounds(|d| u64::from(d.size("m")) * u64::from(d.size("d")))
    },
];

const LAMBDA: &[(&str, Fill)] = &[("lambda", Fill::Uniform(2.0, 6.0))];

/// Keys of a block in CUDA.
fn cuda_rows(d: &Dims) -> u32 {
    if cuda_blocks(d, 64) < FILLED { 32 } else { 64 }
}

/// Queries of a block: so many share its kernel values.
fn cuda_queries(d: &Dims) -> u32 {
    d.size("r").clamp(1, 4)
}

fn cuda_blocks(d: &Dims, rows: u32) -> u64 {
    d.batches() * u64::from(d.size("n").div_ceil(rows)) * u64::from(d.size("r").div_ceil(cuda_queries(d)))
}

/// Coordinates word by word, or in fours.
const fn in_cuda<const FOURS: bool>() -> cuda::Source {
    cuda::Source {
        constants: |d| {
            let (rows, queries) = (Constant::U32(cuda_rows(d)), Constant::U32(cuda_queries(d)));
            vec![("ROWS", rows), ("QUERIES", queries), ("FOURS", Constant::Bool(FOURS))]
        },
        ..cuda_source!("laplacian/nystrom_row.cu", 128, |d, _| cuda_blocks(d, cuda_rows(d)))
            .with(&[
            cuda::EXP,
            cuda_shared!("shared/divide.cuh"),
            cuda::ASYNC,
            cuda_shared!("shared/pairs.cuh"),
        ])
    }
}

/// The kernel's description.
pub static SPEC: KernelSpec = KernelSpec {
    name: "nystrom_row",
    family: "laplacian",
    formula: "out[j,q] = (Σ_l w[q,l] k(kⱼ, L_l) + w[q,m]) · s[j] + c · share",
    source: "derived from LaplacianFormer's Nyström form, one row at a time",
    ports: &[
        Port::read("k", &["b", "h", "n", "d"]),
        Port::read("landmarks", &["b", "h", "m", "d"]),
        Port::read("weights", &["b", "h", "r", "mw"]),
        Port::read("lambda", &["h"]).positive(),
        Port::read("scale", &["b", "h", "n"]).optional(),
        Port::read("keep", &["b", "h", "n"]).of(DType::U8).broadcast().optional(),
        Port::read("share", &["b", "h", "1"]).optional(),
        Port::write("out", &["b", "h", "n", "r"]),
    ],
    params: Params::FIELDS,
    defaults: Params::default_bytes,
    output_dims: None,
    check: |dims, params| {
        let p = Params::from_bytes(params);
        if !(1..=2).contains(&p.metric) {
            return Err(format!("metric is 1 or 2, got {}", p.metric));
        }
        if dims.size("mw") <= dims.size("m") {
            return Err(format!("weights need m + 1 = {} columns, got {}", dims.size("m") + 1, dims.size("mw")));
        }
        Ok(())
    },
    wgpu: OnWgpu::Shader(VARIANTS),
    cuda: OnCuda::Source(&[
        cuda::Source { name: "vec4", vec4: &["k", "landmarks"], ..in_cuda::<true>() },
        in_cuda::<false>(),
    ]),
    reference: reference!(reference),
    window: by_rows,
    cost: |d, params| {
        let batches = d.batches() as f64;
        let (n, r, c) = (f64::from(d.size("n")), f64::from(d.size("r")), f64::from(d.size("d")));
        let exp = n * r * f64::from(d.size("m"));
        Cost {
            flop: batches * (2.0 * pairs(d) + 2.0 * exp),
            differences: if Params::from_bytes(params).metric == LAPLACIAN { batches * pairs(d) } else { 0.0 },
            exp: batches * exp,
            stores: batches * n * r,
            bytes: 4.0 * batches * n * (c + r),
        }
    },
    tolerance: Tolerance::SUMS,
    cases: &[
        Case::new("smallest", &[("b", 1), ("h", 1), ("n", 1), ("m", 1), ("d", 1), ("r", 1), ("mw", 4)], Params::default_bytes)
            .without(&["scale", "keep", "share"]).filled(LAMBDA),
        Case::new("odd", &[("b", 2), ("h", 3), ("n", 67), ("m", 13), ("d", 7), ("r", 3), ("mw", 16)], || Params { constant: 0.25, ..Params::default() }.to_bytes())
            .filled(LAMBDA),
        Case::new("whole_vectors", &[("b", 1), ("h", 2), ("n", 130), ("m", 49), ("d", 32), ("r", 2), ("mw", 52)], Params::default_bytes)
            .without(&["scale", "share"]).filled(LAMBDA).shared(&["keep"]),
        Case::new("gaussian", &[("b", 1), ("h", 1), ("n", 65), ("m", 20), ("d", 64), ("r", 1), ("mw", 24)], || Params { metric: 2, ..Params::default() }.to_bytes())
            .without(&["keep", "share"]).filled(&[("lambda", Fill::Value(20.0))]),
        // So many that sources for cards take their largest tiles.
        Case::new("many_heads", &[("b", 11), ("h", 24), ("n", 9), ("m", 67), ("d", 4), ("r", 5), ("mw", 68)], Params::default_bytes)
            .without(&["scale", "keep", "share"]).filled(LAMBDA),
        Case::new("tokens_16384", &[("b", 1), ("h", 4), ("n", 16384), ("m", 49), ("d", 32), ("r", 1), ("mw", 52)], Params::default_bytes)
            .without(&["scale", "keep", "share"]).filled(&[("lambda", Fill::Value(8.0))])
            .resized(|d| {
                // A landmark more, and whole vectors.
                d.set("mw", resize::product(&[d.size("m") / 4 + 1, 4])?);
                Ok(Params::default_bytes())
            })
            .for_bench(),
    ],
    vjp: None,
};
