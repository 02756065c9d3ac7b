//! Attention under a mask by distance, pair by pair: `out[i]` = Σⱼ f(`d[i, j]`) a(qᵢ, kⱼ) vⱼ / Σⱼ f(`d[i, j]`) a(qᵢ, kⱼ), without a matrix of pairs.
//!
//! * `scores` 0: a = ⟨q, k⟩ of mapped features (linear attention); 1: a = exp(`scale` ⟨q, k⟩); 2: a = exp(`scale` leaky(Σ(q + k))), of which
//!   numbers below 0 are multiplied by `slope`. Exponentials are taken relative to the largest score of a pair that weighs more than 0.
//! * `q` `[b, h, m, r]`, `k` `[b, h, n, r]`, `v` `[b, h, n, e]`; `distances` and `table` as in [`distance_product`](super::distance_product).
//! * `key_mask` `[b, h, n]`: 0 leaves a key out, whatever it holds. `query_mask` `[b, h, m]`: 0 makes a row zeros.
//! * `out` `[b, h, m, e]`: zeros where a row has no key.

use super::pairs::{
    SCORES, Scores, TEXTURE, TILE, WEIGHTS, check_distances, check_scores, some_distances, some_tables, texels,
    texture_loads, texture_rounds, tile_loads, tile_rounds, unpacked, words,
};
use crate::error::Result;
use crate::kernel::wgsl_module::{BYTES, EXP, GROUP, Shared, TEXELS};
use crate::kernel::*;
use crate::kernels::laplacian::kernel_matrix::{FILLED, kept};
use crate::tensor::{DType, Dims, HostData};
use crate::{cuda_shared, cuda_source, params, reference};

params! {
    /// Parameters of [`SPEC`].
    pub struct Params {
        /// factor of scores of softmax
        live scale: f32 = 1.0,
        /// factor of sums below 0 in additive scores
        live slope: f32 = 0.2,
        /// bits of a distance, 8 or 16
        fixed bits: u32 = 8,
        /// 0 linear, 1 softmax of products, 2 softmax of sums
        fixed scores: u32 = super::pairs::LINEAR,
    }
}

/// Which rows see which keys.
const PLACES: &Shared = &Shared {
    file: "distance/distance_pairs.wgsl",
    body: include_str!("../../../shaders/distance/distance_pairs.wgsl"),
};

fn reference<T: Real>(args: &mut HostArgs<T>) -> Result<()> {
    let p: Params = args.params();
    let [m, n, r, e, w, t, tables, h] =
        ["m", "n", "r", "e", "w", "t", "tables", "h"].map(|x| args.dims.at(x));
    let (q, k, v) = (args.real("q"), args.real("k"), args.real("v"));
    let (distances, table) = (args.words("distances"), args.real("table"));
    let scores = Scores::of(p.scores, p.scale, p.slope);
    let shared = &*args;
    let out = reference::rows(args.dims.batches() as usize, m, e, |batch, i, line| {
        if !kept(shared, "query_mask", batch, i) {
            return;
        }
        let row = &distances[shared.start("distances", batch) + i * w..][..w];
        let f = &table[if tables == 1 { 0 } else { batch % h * t }..][..t];
        let keys = (0..n).filter(|j| kept(shared, "key_mask", batch, *j));
        let weighed = keys.filter_map(|j| Some((j, *f.get(unpacked(row, p.bits, j))?)));
        scores.attend(&q[(batch * m + i) * r..][..r], weighed, (&k[batch * n * r..], &v[batch * n * e..]), line);
    });
    args.set("out", out);
    Ok(())
}

fn pairs(d: &Dims) -> f64 {
    f64::from(d.size("m")) * f64::from(d.size("n"))
}

fn groups(d: &Dims, batches: u64, rows: u32) -> u64 {
    batches * u64::from(d.size("m").div_ceil(rows)) * u64::from(d.size("e").div_ceil(32))
}

static VARIANTS: &[Variant] = &[
    Variant {
        name: "tile",
        preferred_on: &[Driver::Gpu],
        suits: |d, _, caps| tile_rounds(d, d.size("n").into()) <= caps.loop_rounds,
        ..Variant::only(
            "distance/distance_attention_tile.wgsl",
            include_str!("../../../shaders/distance/distance_attention_tile.wgsl"),
            &[GROUP, BYTES, EXP, WEIGHTS, SCORES, PLACES, TILE],
            |d, batches| groups(d, batches, 64),
            |d, _| tile_loads(d, pairs(d), 1.25),
        )
    },
    Variant {
        name: "texture",
        preferred_on: &[Driver::Llvmpipe, Driver::SwiftShader],
        classes: &[("q", Class::Texture), ("k", Class::Texture), ("v", Class::Texture)],
        vec4: &["q", "k", "v"],
        constants: super::pairs::held,
        suits: |d, _, caps| texels(d) && texture_rounds(d, d.size("n").into()) <= caps.loop_rounds,
        ..Variant::only(
            "distance/distance_attention_texture.wgsl",
            include_str!("../../../shaders/distance/distance_attention_texture.wgsl"),
            &[GROUP, BYTES, EXP, TEXELS, WEIGHTS, SCORES, PLACES, TEXTURE],
            |d, batches| groups(d, batches, 32),
            |d, _| texture_loads(d, pairs(d), 1.25),
        )
    },
];

const fn sizes(m: u32, n: u32, r: u32, e: u32, w: u32, t: u32) -> [(&'static str, u32); 9] {
    [("b", 2), ("h", 2), ("m", m), ("n", n), ("r", r), ("e", e), ("w", w), ("tables", 2), ("t", t)]
}

fn softmax() -> Vec<u8> {
    Params { scores: super::pairs::SOFTMAX, scale: 0.7, ..Params::default() }.to_bytes()
}

fn additive() -> Vec<u8> {
    Params { scores: super::pairs::ADDITIVE, ..Params::default() }.to_bytes()
}

fn wide() -> Vec<u8> {
    Params { bits: 16, ..Params::default() }.to_bytes()
}

fn bytes(d: &Dims) -> HostData {
    some_distances(d, 8)
}

fn halves(d: &Dims) -> HostData {
    some_distances(d, 16)
}

const POSITIVE: Fill = Fill::Uniform(0.0, 1.0);
const FILL: &[(&str, Fill)] = &[
    ("distances", Fill::Made(bytes)),
    ("table", Fill::Made(some_tables)),
    ("q", POSITIVE),
    ("k", POSITIVE),
];
const WIDE: &[(&str, Fill)] = &[
    ("distances", Fill::Made(halves)),
    ("table", Fill::Made(some_tables)),
    ("q", POSITIVE),
    ("k", POSITIVE),
];
const STEEP: &[(&str, Fill)] = &[
    ("distances", Fill::Made(bytes)),
    ("table", Fill::Made(some_tables)),
    ("q", Fill::Uniform(-9.0, 9.0)),
    ("k", Fill::Uniform(-9.0, 9.0)),
];
const GARBAGE: &[(&str, Fill)] = &[
    ("distances", Fill::Made(bytes)),
    ("table", Fill::Made(some_tables)),
    ("k", Fill::Value(3e38)),
    ("v", Fill::Value(f32::INFINITY)),
    ("key_mask", Fill::Value(0.0)),
];
const NO_MASKS: &[&str] = &["key_mask", "query_mask"];
const SHARED: &[&str] = &["distances"];

/// Rows of a block in CUDA.
fn cuda_rows(d: &Dims) -> u32 {
    if cuda_blocks(d, 64) < FILLED { 32 } else { 64 }
}

fn cuda_blocks(d: &Dims, rows: u32) -> u64 {
    d.batches() * u64::from(d.size("m").div_ceil(rows)) * u64::from(d.size("e").div_ceil(64))
}

/// Rows word by word, or in fours.
const fn in_cuda<const FOURS: bool>() -> cuda::Source {
    cuda::Source {
        constants: |d| {
            let stay = Constant::Bool(d.size("r") <= 64);
            vec![("ROWS", Constant::U32(cuda_rows(d))), ("STAY", stay), ("FOURS", Constant::Bool(FOURS))]
        },
        ..cuda_source!("distance/distance_attention.cu", 128, |d, _| cuda_blocks(d, cuda_rows(d))).with(&[
            cuda::EXP,
            cuda_shared!("shared/divide.cuh"),
            cuda::ASYNC,
            cuda_shared!("shared/pairs.cuh"),
            cuda_shared!("distance/weights.cuh"),
            cuda_shared!("distance/scores.cuh"),
        ])
    }
}

/// The kernel's description.
pub static SPEC: KernelSpec = KernelSpec {
    name: "distance_attention",
    family: "distance",
    formula: "out[i] = Σⱼ f(d[i,j]) a(q[i],k[j]) v[j] / Σⱼ f(d[i,j]) a(q[i],k[j]), f by a table",
    source: "Choromanski et al., arXiv 2107.07999: masks by shortest paths, by definition",
    ports: &[
        Port::read("q", &["b", "h", "m", "r"]),
        Port::read("k", &["b", "h", "n", "r"]),
        Port::read("v", &["b", "h", "n", "e"]),
        Port::read("distances", &["b", "h", "m", "w"]).of(DType::U32).broadcast(),
        Port::read("table", &["tables", "t"]),
        Port::read("key_mask", &["b", "h", "n"]).of(DType::U8).broadcast().optional(),
        Port::read("query_mask", &["b", "h", "m"]).of(DType::U8).broadcast().optional(),
        Port::write("out", &["b", "h", "m", "e"]),
    ],
    params: Params::FIELDS,
    defaults: Params::default_bytes,
    output_dims: None,
    check: |d, p| {
        let p = Params::from_bytes(p);
        check_distances(d, p.bits)?;
        check_scores(p.scores)
    },
    wgpu: OnWgpu::Shader(VARIANTS),
    cuda: OnCuda::Source(&[cuda::Source { name: "vec4", vec4: &["q", "k", "v"], ..in_cuda::<true>() }, in_cuda::<false>()]),
    reference: reference!(reference),
    window: |_, _| vec![("m", 1)],
    cost: |d, p| {
        let p = Params::from_bytes(p);
        let batches = d.batches() as f64;
        let [m, n, r, e] = ["m", "n", "r", "e"].map(|x| f64::from(d.size(x)));
        Cost {
            flop: batches * pairs(d) * (2.0 * (r + e) + 2.0),
            exp: if p.scores == super::pairs::LINEAR { 0.0 } else { batches * pairs(d) },
            stores: batches * m * e,
            bytes: 4.0 * (batches * (m + n) * (r + e) + m * f64::from(words(d.size("n"), p.bits))),
            ..Cost::default()
        }
    },
    tolerance: Tolerance::SUMS,
    cases: &[
        Case::new(
            "smallest",
            &[("b", 1), ("h", 1), ("m", 1), ("n", 1), ("r", 1), ("e", 1), ("w", 1), ("tables", 1), ("t", 1)],
            Params::default_bytes,
        )
        .without(NO_MASKS)
        .filled(FILL)
        .shared(SHARED),
        Case::new("odd", &sizes(37, 37, 5, 3, 10, 20), Params::default_bytes)
            .without(NO_MASKS)
            .filled(FILL)
            .shared(SHARED),
        Case::new("masks", &sizes(67, 67, 8, 12, 17, 20), Params::default_bytes).filled(FILL).shared(SHARED),
        Case::new("masks_words", &sizes(43, 66, 9, 9, 17, 20), softmax).filled(FILL).shared(SHARED),
        Case::new("masked_garbage", &sizes(33, 33, 8, 8, 9, 20), Params::default_bytes)
            .without(&["query_mask"])
            .filled(GARBAGE)
            .shared(SHARED),
        Case::new("tile", &sizes(64, 64, 16, 32, 16, 23), Params::default_bytes)
            .without(NO_MASKS)
            .filled(FILL)
            .shared(SHARED),
        Case::new("tile_plus_one", &sizes(65, 65, 17, 33, 17, 23), Params::default_bytes)
            .without(NO_MASKS)
            .filled(FILL)
            .shared(SHARED),
        Case::new("tile_minus_one", &sizes(63, 63, 15, 31, 16, 23), Params::default_bytes)
            .without(NO_MASKS)
            .filled(FILL)
            .shared(SHARED),
        Case::new("deep_texels", &sizes(30, 37, 44, 72, 10, 23), Params::default_bytes)
            .without(NO_MASKS)
            .filled(FILL)
            .shared(SHARED),
        Case::new("wide", &sizes(50, 49, 4, 8, 25, 300), wide).without(NO_MASKS).filled(WIDE).shared(SHARED),
        Case::new("wide_words", &sizes(33, 31, 3, 5, 16, 23), wide).without(NO_MASKS).filled(WIDE).shared(SHARED),
        Case::new("softmax", &sizes(41, 41, 8, 8, 11, 9), softmax).without(NO_MASKS).filled(FILL).shared(SHARED),
        Case::new("softmax_steep", &sizes(41, 41, 8, 8, 11, 9), softmax)
            .without(NO_MASKS)
            .filled(STEEP)
            .shared(SHARED),
        Case::new("additive", &sizes(41, 41, 4, 8, 11, 9), additive)
            .without(NO_MASKS)
            .filled(STEEP)
            .shared(SHARED),
        Case::new("additive_words", &sizes(41, 41, 1, 7, 11, 9), additive)
            .without(NO_MASKS)
            .filled(STEEP)
            .shared(SHARED),
        // So many that sources for cards take their largest tiles.
        Case::new(
            "many_heads",
            &[("b", 11), ("h", 24), ("m", 9), ("n", 67), ("r", 4), ("e", 4), ("w", 17), ("tables", 24), ("t", 9)],
            softmax,
        )
        .without(NO_MASKS)
        .filled(FILL)
        .shared(SHARED),
        Case::new("no_keys", &sizes(5, 0, 4, 4, 0, 9), softmax).without(NO_MASKS).filled(FILL).shared(SHARED),
        Case::new("no_rows", &sizes(0, 5, 4, 4, 2, 9), softmax).without(NO_MASKS).filled(FILL).shared(SHARED),
        Case::new(
            "nodes_2048",
            &[("b", 1), ("h", 4), ("m", 2048), ("n", 2048), ("r", 32), ("e", 32), ("w", 512), ("tables", 1), ("t", 23)],
            Params::default_bytes,
        )
        .without(NO_MASKS)
        .filled(FILL)
        .shared(SHARED)
        .resized(|d| {
            d.set("w", d.size("n").div_ceil(4));
            Ok(Params::default_bytes())
        })
        .for_bench(),
    ],
    vjp: None,
};
