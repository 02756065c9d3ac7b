//! States of chunks: what each chunk's keys and values contribute to the queries after it (and before it).
//!
//! `states[chunk]` = Σⱼ γ^(last − j) kⱼ [vⱼ, 1]ᵀ over the chunk's keys of the segment that its last token belongs to; two-sided also
//! Σⱼ γ^(j − first) kⱼ [vⱼ, 1]ᵀ over those of the segment of its first token. Layout and `reach`: see [`chunks`](super::chunks).
//!
//! * `k` `[b, h, n, r]`, `v` `[b, h, n, e]`, `powers` `[h or 1, t]` of the decay (1 where left out), `key_mask` `[b, h, n]`.
//! * `states` `[b, h, c, s]`, c chunks of `rows` tokens, s = r(e + 1), twice that for both sides.

use super::chunks::{TOKENS, check_powers, check_state, key_counts, power, sees};
use crate::error::Result;
use crate::kernel::wgsl_module::{BYTES, GROUP, TEXELS};
use crate::kernel::*;
use crate::kernels::linalg::column_sums::check_chunks;
use crate::kernels::linalg::matmul::{col_lanes, texel_tiles};
use crate::tensor::{DType, Dims, HostData};
use crate::{cuda_shared, cuda_source, params, reference};

params! {
    /// Parameters of [`SPEC`].
    pub struct Params {
        /// tokens of a chunk; the last one may be shorter
        live rows: u32 = 64,
        /// 1 for the states of both directions
        fixed two_sided: u32 = 0,
    }
}

fn check(dims: &Dims, params: &[u8]) -> std::result::Result<(), String> {
    let p = Params::from_bytes(params);
    check_chunks(dims, p.rows)?;
    check_state(dims, p.two_sided)?;
    check_powers(dims, p.rows)
}

fn reference<T: Real>(args: &mut HostArgs<T>) -> Result<()> {
    let p: Params = args.params();
    let [n, c, r, e, s] = ["n", "c", "r", "e", "s"].map(|d| args.dims.at(d));
    let (k, v, powers) = (args.real("k"), args.real("v"), args.real_if("powers"));
    let powers = powers.as_ref().map(|p| p.as_slice());
    let shared = &*args;
    let out = reference::rows(args.dims.batches() as usize, c, s, |batch, chunk, state| {
        let (first, end) = (chunk * p.rows as usize, ((chunk + 1) * p.rows as usize).min(n));
        for (side, state) in state.chunks_exact_mut((r * (e + 1)).max(1)).enumerate() {
            for j in (first..end).filter(|&j| key_counts(shared, batch, j)) {
                let edge = if side == 0 { end - 1 } else { first };
                if !sees(shared, batch, edge, j, true) {
                    continue;
                }
                let weight = power(powers, &shared.dims, batch, edge.abs_diff(j));
                let (products, sums) = state.split_at_mut(r * e);
                for l in 0..r {
                    let feature = weight * k[(batch * n + j) * r + l];
                    sums[l] += feature;
                    let row = &v[(batch * n + j) * e..][..e];
                    products[l * e..][..e].iter_mut().zip(row).for_each(|(sum, x)| *sum += feature * *x);
                }
            }
        }
    });
    args.set("states", out);
    Ok(())
}

fn products(d: &Dims) -> f64 {
    f64::from(d.size("n")) * sides(d) * f64::from(d.size("r")) * (f64::from(d.size("e")) + 1.0)
}

/// 1 or 2 directions, from the size of the state.
fn sides(d: &Dims) -> f64 {
    let one = u64::from(d.size("r")) * (u64::from(d.size("e")) + 1);
    if u64::from(d.size("s")) > one { 2.0 } else { 1.0 }
}

fn chunk_rows(d: &Dims) -> u64 {
    u64::from(d.size("n").div_ceil(d.size("c").max(1)))
}

/// Blocks of both directions, in numbers of a state.
fn blocks(d: &Dims, batches: u64, features: u32, columns: u32) -> u64 {
    batches * u64::from(d.size("c")) * (sides(d) as u64) * u64::from(d.size("r").div_ceil(features)) * u64::from(d.size("e").div_ceil(columns))
}

static VARIANTS: &[Variant] = &[
    Variant {
        name: "tile",
        file: "linear/chunk_states_tile.wgsl",
        body: include_str!("../../../shaders/linear/chunk_states_tile.wgsl"),
        shared: &[GROUP, BYTES, TOKENS],
        preferred_on: &[Driver::Gpu],
        classes: &[],
        vec4: &[],
        constants: no_constants,
        suits: |d, _, caps| caps.workgroup_bytes >= 8192 && d.size("e") > 0,
        grid: |d, batches| blocks(d, batches, 32, 32),
        loads: |d, _| Loads { storage: products(d) / 16.0, workgroup: products(d) / 2.0, ..Loads::default() },
        rounds: |d| 6 * chunk_rows(d),
        subgroup_lanes: 0,
    },
    Variant {
        name: "texture",
        file: "linear/chunk_states_texture.wgsl",
        body: include_str!("../../../shaders/linear/chunk_states_texture.wgsl"),
        shared: &[GROUP, BYTES, TEXELS, TOKENS],
        preferred_on: &[Driver::Llvmpipe, Driver::SwiftShader],
        classes: &[("k", Class::Texture), ("v", Class::Texture)],
        vec4: &["k", "v"],
        constants: |d| vec![("COL_LANES", Constant::U32(col_lanes(d.size("e"))))],
        suits: |d, _, _| d.size("r") % 4 == 0 && d.size("e") % 4 == 0 && d.size("r") > 0 && d.size("e") > 0,
        grid: |d, batches| batches * u64::from(d.size("c")) * (sides(d) as u64) * texel_tiles(d.size("r"), d.size("e")),
        // Per key: 2 texels of K and 2 of V for 8 x 8 sums.
        loads: |d, _| Loads { texture: products(d) / 4.0, ..Loads::default() },
        rounds: chunk_rows,
        subgroup_lanes: 0,
    },
    Variant {
        name: "plain",
        file: "linear/chunk_states_plain.wgsl",
        body: include_str!("../../../shaders/linear/chunk_states_plain.wgsl"),
        shared: &[GROUP, BYTES, TOKENS],
        preferred_on: &[Driver::Llvmpipe, Driver::SwiftShader],
        classes: &[],
        vec4: &[],
        constants: no_constants,
        suits: always,
        grid: |d, batches| {
            let blocks = u64::from(d.size("r").div_ceil(4)) * u64::from((d.size("e") + 1).div_ceil(4));
            batches * u64::from(d.size("c")) * (sides(d) as u64) * blocks.div_ceil(64)
        },
        loads: |d, _| Loads { storage: products(d) / 2.0, ..Loads::default() },
        rounds: |d| 6 * chunk_rows(d),
        subgroup_lanes: 0,
    },
];

/// Blocks of `side` features and columns, 4 × 4 a thread; `fours`: rows are whole `float4`s.
const fn source(side: u32, fours: bool) -> cuda::Source {
    fn groups(d: &Dims, params: &[u8], side: u32) -> u64 {
        let sides = u64::from(1 + Params::from_bytes(params).two_sided);
        let columns = d.size("e").div_ceil(side).max(1);
        d.batches() * u64::from(d.size("c")) * sides * u64::from(d.size("r").div_ceil(side)) * u64::from(columns)
    }
    let shared: &[&cuda::Shared] = &[cuda_shared!("shared/rows.cuh"), cuda_shared!("linear/tokens.cuh")];
    let narrow = |d: &Dims, _: &[u8]| d.size("r") <= 32 && d.size("e") <= 32;
    match (side, fours) {
        (32, false) => cuda::Source {
            name: "tile32_words",
            constants: |_| vec![("SIDE", Constant::U32(32)), ("FOURS", Constant::Bool(false))],
            suits: narrow,
            ..cuda_source!("linear/chunk_states.cu", 64, |d, p| groups(d, p, 32)).with(shared)
        },
        (32, true) => cuda::Source {
            name: "tile32",
            vec4: &["k", "v"],
            constants: |_| vec![("SIDE", Constant::U32(32)), ("FOURS", Constant::Bool(true))],
            ..source(32, false)
        },
        (_, false) => cuda::Source {
            name: "tile64_words",
            constants: |_| vec![("SIDE", Constant::U32(64)), ("FOURS", Constant::Bool(false))],
            ..cuda_source!("linear/chunk_states.cu", 256, |d, p| groups(d, p, 64)).with(shared)
        },
        (_, true) => cuda::Source {
            name: "tile64",
            vec4: &["k", "v"],
            constants: |_| vec![("SIDE", Constant::U32(64)), ("FOURS", Constant::Bool(true))],
            ..source(64, false)
        },
    }
}

static SOURCES: &[cuda::Source] = &[source(32, true), source(32, false), source(64, true), source(64, false)];

/// Two segments, cut at `cut`, of all tokens but the last two.
fn segments(n: u32, cut: u32) -> impl Iterator<Item = u32> {
    let end = n.saturating_sub(2);
    let of = move |i: u32| match i {
        i if i < cut => [i + 1, cut - i],
        i if i < end => [i - cut + 1, end - i],
        _ => [0, 0],
    };
    (0..n).flat_map(of)
}

/// The same segments for all heads.
fn shared_segments(dims: &Dims) -> HostData {
    let n = dims.size("n");
    HostData::U32(segments(n, n / 3).collect())
}

/// Other segments for each head.
fn ragged_segments(dims: &Dims) -> HostData {
    let n = dims.size("n");
    HostData::U32((0..dims.batches() as u32).flat_map(|head| segments(n, n / (2 + head))).collect())
}

/// Powers 1, 0.9, 0.81 … of the first head, faster ones of the others.
pub(super) fn falling(dims: &Dims) -> HostData {
    let power = |h: u32, t: u32| (0.9 - 0.2 * f64::from(h)).powi(t as i32) as f32;
    HostData::F32((0..dims.size("heads")).flat_map(|h| (0..dims.size("t")).map(move |t| power(h, t))).collect())
}

pub(super) const POWERS: (&str, Fill) = ("powers", Fill::Made(falling));
pub(super) const SEGMENTS: (&str, Fill) = ("reach", Fill::Made(shared_segments));
pub(super) const RAGGED: (&str, Fill) = ("reach", Fill::Made(ragged_segments));
const KEYS: (&str, Fill) = ("k", Fill::Uniform(0.0, 1.0));

const fn sizes(n: u32, c: u32, r: u32, e: u32, s: u32) -> [(&'static str, u32); 9] {
    [("b", 2), ("h", 2), ("heads", 2), ("n", n), ("c", c), ("r", r), ("e", e), ("s", s), ("t", 66)]
}

const fn plain_sizes(b: u32, h: u32, n: u32, c: u32, r: u32, e: u32, s: u32) -> [(&'static str, u32); 7] {
    [("b", b), ("h", h), ("n", n), ("c", c), ("r", r), ("e", e), ("s", s)]
}

fn with(rows: u32, two_sided: u32) -> Vec<u8> {
    Params { rows, two_sided }.to_bytes()
}

const BARE: &[&str] = &["powers", "key_mask", "reach"];

/// The kernel's description.
pub static SPEC: KernelSpec = KernelSpec {
    name: "chunk_states",
    family: "linear",
    formula: "states[chunk] = Σⱼ γ^(last − j) k[j] [v[j], 1]ᵀ",
    source: "Katharopoulos et al. 2020, eq. 18–19, chunk by chunk; decay: Sun et al. 2023, eq. 7",
    ports: &[
        Port::read("k", &["b", "h", "n", "r"]),
        Port::read("v", &["b", "h", "n", "e"]),
        Port::read("powers", &["heads", "t"]).optional(),
        Port::read("key_mask", &["b", "h", "n"]).of(DType::U8).broadcast().optional(),
        Port::read("reach", &["b", "h", "n", "2"]).of(DType::U32).broadcast().optional(),
        Port::write("states", &["b", "h", "c", "s"]),
    ],
    params: Params::FIELDS,
    defaults: Params::default_bytes,
    output_dims: Some(|dims, params| {
        let p = Params::from_bytes(params);
        dims.set("c", dims.size("n").div_ceil(p.rows.max(1)).max(1));
        dims.set("s", dims.size("r") * (dims.size("e") + 1) * (1 + p.two_sided.min(1)));
    }),
    check,
    wgpu: OnWgpu::Shader(VARIANTS),
    cuda: OnCuda::Source(SOURCES),
    reference: reference!(reference),
    window: |_, params| vec![("n", Params::from_bytes(params).rows), ("c", 1)],
    cost: |d, _| {
        let batches = d.batches() as f64;
        let out = f64::from(d.size("c")) * f64::from(d.size("s"));
        let read = f64::from(d.size("n")) * f64::from(d.size("r") + d.size("e"));
        Cost { flop: 2.0 * batches * products(d), exp: 0.0, stores: batches * out, bytes: 4.0 * batches * (read + out), ..Cost::default() }
    },
    tolerance: Tolerance::SUMS,
    cases: &[
        Case::new("smallest", &plain_sizes(1, 1, 1, 1, 1, 1, 2), Params::default_bytes).without(BARE),
        Case::new("odd", &sizes(101, 7, 5, 6, 70), || with(16, 1)).filled(&[KEYS, POWERS, SEGMENTS]).shared(&["reach"]),
        Case::new("tile", &plain_sizes(1, 2, 128, 2, 32, 32, 1056), || with(64, 0)).without(BARE).filled(&[KEYS]),
        Case::new("tile_plus_one", &sizes(129, 3, 36, 36, 1332), || with(64, 0)).filled(&[KEYS, POWERS, RAGGED]),
        Case::new("two_sided", &sizes(100, 4, 8, 12, 208), || with(32, 1)).without(&["key_mask"]).filled(&[KEYS, POWERS, RAGGED]),
        Case::new("two_sided_wide", &sizes(70, 2, 68, 68, 9384), || with(64, 1)).without(&["reach"]).filled(&[KEYS, POWERS]),
        Case::new("masked_garbage", &sizes(40, 2, 8, 4, 40), || with(32, 0)).without(&["reach"])
            .filled(&[("k", Fill::Value(1e30)), ("v", Fill::Value(3e38)), ("key_mask", Fill::Value(0.0)), POWERS]),
        Case::new("tokens_16384", &plain_sizes(1, 8, 16_384, 512, 32, 32, 1056), || with(32, 0)).without(BARE).filled(&[KEYS]).for_bench(),
    ],
    vjp: None,
};
