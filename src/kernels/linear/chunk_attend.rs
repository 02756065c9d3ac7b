//! Attention of a chunk's queries: to the chunk's own keys pair by pair, and to everything before it through the state.
//!
//! `out[i]` = (Σⱼ γ^|i − j| ⟨qᵢ, kⱼ⟩ vⱼ + γ^(i − first + 1) qᵢ S) / (the same with 1 for v), over the keys j ≤ i of the chunk, or all of
//! them and a second state when two-sided. Layout and `reach`: see [`chunks`](super::chunks).
//!
//! * `q`, `k` `[b, h, n, r]`, `v` `[b, h, n, e]`, `powers` `[h or 1, t]`, `key_mask` `[b, h, n]`, `states` `[b, h, c, s]` with which chunks are entered.
//! * `out` `[b, h, n, p]`: p = e quotients, zeros in rows without keys; or p = e + 1 numerators and the denominator.

use super::chunks::{TOKENS, check_powers, check_state, key_counts, power, reach, sees};
use super::chunk_states::{POWERS, RAGGED, SEGMENTS};
use super::divide_rows::divided;
use crate::error::Result;
use crate::kernel::wgsl_module::{BYTES, GROUP, TEXELS};
use crate::kernel::*;
use crate::kernels::linalg::column_sums::check_chunks;
use crate::tensor::{DType, Dims};
use crate::{cuda_shared, cuda_source, params, reference};

params! {
    /// Parameters of [`SPEC`].
    pub struct Params {
        /// tokens of a chunk; the last one may be shorter
        live rows: u32 = 64,
        /// 1 to see later keys too
        fixed two_sided: u32 = 0,
        /// 1 to divide; 0 to leave the denominator as the last column
        fixed divide: u32 = 1,
    }
}

fn check(dims: &Dims, params: &[u8]) -> std::result::Result<(), String> {
    let p = Params::from_bytes(params);
    check_chunks(dims, p.rows)?;
    check_state(dims, p.two_sided)?;
    check_powers(dims, p.rows)?;
    let (e, columns) = (dims.size("e"), dims.size("p"));
    if p.divide > 1 || u64::from(columns) != u64::from(e) + u64::from(1 - p.divide) {
        return Err(format!("divide is 1 and p = e, or 0 and p = e + 1; got {}, e = {e}, p = {columns}", p.divide));
    }
    Ok(())
}

fn reference<T: Real>(args: &mut HostArgs<T>) -> Result<()> {
    let p: Params = args.params();
    let [n, c, r, e, s, columns] = ["n", "c", "r", "e", "s", "p"].map(|d| args.dims.at(d));
    let (q, k, v, states) = (args.real("q"), args.real("k"), args.real("v"), args.real("states"));
    let powers = args.real_if("powers");
    let powers = powers.as_ref().map(|p| p.as_slice());
    let two_sided = p.two_sided == 1;
    let shared = &*args;
    let out = reference::rows(args.dims.batches() as usize, n, columns, |batch, i, line| {
        let chunk = i / p.rows as usize;
        let (first, end) = (chunk * p.rows as usize, ((chunk + 1) * p.rows as usize).min(n));
        let query = &q[(batch * n + i) * r..][..r];
        let mut total = T::zero();
        let mut sums = vec![T::zero(); e];
        for j in (first..end).filter(|&j| key_counts(shared, batch, j) && sees(shared, batch, i, j, two_sided)) {
            let product: T = query.iter().zip(&k[(batch * n + j) * r..]).map(|(x, y)| *x * *y).sum();
            let weight = product * power(powers, &shared.dims, batch, i.abs_diff(j));
            total += weight;
            sums.iter_mut().zip(&v[(batch * n + j) * e..]).for_each(|(sum, x)| *sum += weight * *x);
        }
        let (before, after) = reach(shared, batch, i);
        let sides = [(before > i - first + 1, i - first + 1), (after > end - i, end - i)];
        for (side, (enters, distance)) in sides.into_iter().take(1 + usize::from(two_sided)).enumerate() {
            if !enters {
                continue;
            }
            let state = &states[(batch * c + chunk) * s + side * r * (e + 1)..][..r * (e + 1)];
            for (l, x) in query.iter().enumerate() {
                let weight = *x * power(powers, &shared.dims, batch, distance);
                total += weight * state[r * e + l];
                sums.iter_mut().zip(&state[l * e..]).for_each(|(sum, y)| *sum += weight * *y);
            }
        }
        if p.divide == 1 {
            divided(&mut sums, total);
        } else {
            line[e] = total;
        }
        line[..e].copy_from_slice(&sums);
    });
    args.set("out", out);
    Ok(())
}

fn chunk_rows(d: &Dims) -> u64 {
    u64::from(d.size("n").div_ceil(d.size("c").max(1)))
}

/// Multiplications of all rows: with the keys of the chunk, and with the states.
fn products(d: &Dims) -> f64 {
    let [n, r, e, s] = ["n", "r", "e", "s"].map(|name| f64::from(d.size(name)));
    n * (chunk_rows(d) as f64 * (r + e + 1.0) + s)
}

/// Groups of `rows` queries and `columns` value columns.
fn groups(d: &Dims, batches: u64, rows: u32, columns: u32) -> u64 {
    batches * u64::from(d.size("n").div_ceil(rows)) * u64::from(d.size("e").div_ceil(columns))
}

/// Whether no group of `rows` queries lies in two chunks.
fn whole_groups(d: &Dims, params: &[u8], rows: u32) -> bool {
    d.size("e") > 0 && (d.size("c") == 1 && d.size("n") <= rows || Params::from_bytes(params).rows.is_multiple_of(rows))
}

const fn tile(name: &'static str, columns: u32) -> Variant {
    Variant {
        name,
        file: "linear/chunk_attend_tile.wgsl",
        body: include_str!("../../../shaders/linear/chunk_attend_tile.wgsl"),
        shared: &[GROUP, BYTES, TOKENS],
        preferred_on: &[Driver::Gpu],
        classes: &[],
        vec4: &[],
        constants: match columns {
            32 => |_| vec![("QUADS", Constant::U32(8)), ("WIDE", Constant::Bool(false))],
            _ => |_| vec![("QUADS", Constant::U32(16)), ("WIDE", Constant::Bool(true))],
        },
        suits: match columns {
            32 => |d, params, caps| caps.workgroup_bytes >= 14_336 && d.size("e") <= 32 && whole_groups(d, params, 64),
            _ => |d, params, caps| caps.workgroup_bytes >= 14_336 && whole_groups(d, params, 64),
        },
        grid: match columns {
            32 => |d, batches| groups(d, batches, 64, 32),
            _ => |d, batches| groups(d, batches, 64, 64),
        },
        loads: |d, _| Loads { storage: products(d) / 32.0, workgroup: products(d) / 3.0, ..Loads::default() },
        rounds: |d| (chunk_rows(d).div_ceil(32) + 2) * (70 + 20 * u64::from(d.size("r").div_ceil(16))),
        subgroup_lanes: 0,
    }
}

static VARIANTS: &[Variant] = &[
    tile("tile32", 32),
    tile("tile64", 64),
    Variant {
        name: "texture",
        file: "linear/chunk_attend_texture.wgsl",
        body: include_str!("../../../shaders/linear/chunk_attend_texture.wgsl"),
        shared: &[GROUP, BYTES, TEXELS, TOKENS],
        preferred_on: &[Driver::Llvmpipe, Driver::SwiftShader],
        classes: &[("q", Class::Texture), ("k", Class::Texture), ("v", Class::Texture), ("states", Class::Texture)],
        vec4: &["q", "k", "v", "states"],
        constants: |d| {
            let texels = |name| Constant::U32((d.size(name) / 4).min(8));
            vec![("HELD", texels("r")), ("WIDTH", texels("e"))]
        },
        suits: |d, params, _| {
            let whole = |name| d.size(name) > 0 && d.size(name).is_multiple_of(4);
            whole("r") && whole("e") && whole_groups(d, params, 32)
        },
        grid: |d, batches| groups(d, batches, 32, 32),
        loads: |d, _| Loads { texture: products(d) / 4.0 * f64::from(d.size("e").div_ceil(32)), ..Loads::default() },
        rounds: |d| 2 * chunk_rows(d) * (1 + u64::from((d.size("r") / 4).saturating_sub(8))) + 3 * u64::from(d.size("r")),
        subgroup_lanes: 0,
    },
    Variant {
        name: "plain",
        file: "linear/chunk_attend_plain.wgsl",
        body: include_str!("../../../shaders/linear/chunk_attend_plain.wgsl"),
        shared: &[GROUP, BYTES, TOKENS],
        preferred_on: &[Driver::Llvmpipe, Driver::SwiftShader],
        classes: &[],
        vec4: &[],
        constants: no_constants,
        suits: always,
        grid: |d, batches| batches * u64::from(d.size("n").div_ceil(64)) * u64::from(d.size("e").div_ceil(32).max(1)),
        loads: |d, _| Loads { storage: 2.0 * products(d), ..Loads::default() },
        rounds: |d| (chunk_rows(d) + 2 * u64::from(d.size("r"))) * (u64::from(d.size("r")) + 9),
        subgroup_lanes: 0,
    },
];

/// Blocks of `rows` queries of a chunk and 32 value columns, or 64 where there are more; `fours`: rows are whole `float4`s.
const fn source(rows: u32, fours: bool) -> cuda::Source {
    fn columns(d: &Dims) -> u32 {
        if d.size("e") <= 32 { 32 } else { 64 }
    }
    fn groups(d: &Dims, rows: u32) -> u64 {
        // As long as chunks can be that make c of n tokens.
        let longest = match d.size("c") {
            0 | 1 => d.size("n"),
            c => d.size("n").saturating_sub(1) / (c - 1),
        };
        let tiles = u64::from(longest.div_ceil(rows)) * u64::from(d.size("e").div_ceil(columns(d)).max(1));
        d.batches() * u64::from(d.size("c")) * tiles
    }
    fn constants(d: &Dims, rows: u32, fours: bool) -> Vec<(&'static str, Constant)> {
        vec![("ROWS", Constant::U32(rows)), ("COLS", Constant::U32(columns(d))), ("FOURS", Constant::Bool(fours))]
    }
    let shared: &[&cuda::Shared] = &[cuda_shared!("shared/divide.cuh"), cuda_shared!("shared/rows.cuh"), cuda_shared!("linear/tokens.cuh")];
    match (rows, fours) {
        (32, false) => cuda::Source {
            name: "tile32_words",
            constants: |d| constants(d, 32, false),
            suits: |d, p| d.size("n").min(Params::from_bytes(p).rows) <= 32,
            ..cuda_source!("linear/chunk_attend.cu", 256, |d, _| groups(d, 32)).with(shared)
        },
        (32, true) => cuda::Source {
            name: "tile32",
            vec4: &["q", "k", "v", "states"],
            constants: |d| constants(d, 32, true),
            ..source(32, false)
        },
        (_, false) => cuda::Source {
            name: "tile64_words",
            constants: |d| constants(d, 64, false),
            ..cuda_source!("linear/chunk_attend.cu", 256, |d, _| groups(d, 64)).with(shared)
        },
        (_, true) => cuda::Source {
            name: "tile64",
            vec4: &["q", "k", "v", "states"],
            constants: |d| constants(d, 64, true),
            ..source(64, false)
        },
    }
}

static SOURCES: &[cuda::Source] = &[source(32, true), source(32, false), source(64, true), source(64, false)];

const NUMBERS: [(&str, Fill); 3] =
    [("q", Fill::Uniform(0.0, 1.0)), ("k", Fill::Uniform(0.0, 1.0)), ("states", Fill::Uniform(0.0, 4.0))];
const MASKED: &[(&str, Fill)] = &[NUMBERS[0], NUMBERS[1], NUMBERS[2], POWERS, SEGMENTS];
const BY_HEAD: &[(&str, Fill)] = &[NUMBERS[0], NUMBERS[1], NUMBERS[2], POWERS, RAGGED];

const fn sizes(n: u32, c: u32, r: u32, e: u32, s: u32, p: u32) -> [(&'static str, u32); 10] {
    [("b", 2), ("h", 2), ("heads", 2), ("n", n), ("c", c), ("r", r), ("e", e), ("s", s), ("p", p), ("t", 66)]
}

const fn plain_sizes(h: u32, n: u32, c: u32, r: u32, e: u32, s: u32) -> [(&'static str, u32); 8] {
    [("b", 1), ("h", h), ("n", n), ("c", c), ("r", r), ("e", e), ("s", s), ("p", e)]
}

fn with(rows: u32, two_sided: u32, divide: u32) -> Vec<u8> {
    Params { rows, two_sided, divide }.to_bytes()
}

const BARE: &[&str] = &["powers", "key_mask", "reach"];

/// The kernel's description.
pub static SPEC: KernelSpec = KernelSpec {
    name: "chunk_attend",
    family: "linear",
    formula: "out[i] = (Σⱼ γ^|i−j| ⟨q[i], k[j]⟩ v[j] + γ^(i−first+1) q[i] S) / (the same of ones)",
    source: "Katharopoulos et al. 2020, eq. 9, within a chunk; Sun et al. 2023, eq. 7, across chunks",
    ports: &[
        Port::read("q", &["b", "h", "n", "r"]),
        Port::read("k", &["b", "h", "n", "r"]),
        Port::read("v", &["b", "h", "n", "e"]),
        Port::read("powers", &["heads", "t"]).optional(),
        Port::read("key_mask", &["b", "h", "n"]).of(DType::U8).broadcast().optional(),
        Port::read("reach", &["b", "h", "n", "2"]).of(DType::U32).broadcast().optional(),
        Port::read("states", &["b", "h", "c", "s"]),
        Port::write("out", &["b", "h", "n", "p"]),
    ],
    params: Params::FIELDS,
    defaults: Params::default_bytes,
    output_dims: Some(|dims, params| dims.set("p", dims.size("e") + 1 - Params::from_bytes(params).divide.min(1))),
    check,
    wgpu: OnWgpu::Shader(VARIANTS),
    cuda: OnCuda::Source(SOURCES),
    reference: reference!(reference),
    window: |_, params| vec![("n", Params::from_bytes(params).rows), ("c", 1)],
    cost: |d, _| {
        let batches = d.batches() as f64;
        let [n, c, r, e, s, p] = ["n", "c", "r", "e", "s", "p"].map(|name| f64::from(d.size(name)));
        Cost {
            flop: 2.0 * batches * products(d),
            exp: 0.0,
            stores: batches * n * p,
            bytes: 4.0 * batches * (n * (2.0 * r + e + p) + c * s),
            ..Cost::default()
        }
    },
    tolerance: Tolerance::SUMS,
    cases: &[
        Case::new("smallest", &plain_sizes(1, 1, 1, 1, 1, 2), Params::default_bytes).without(BARE).filled(&NUMBERS),
        Case::new("odd", &sizes(101, 7, 5, 6, 70, 6), || with(16, 1, 1)).filled(MASKED).shared(&["reach"]),
        Case::new("tile", &plain_sizes(2, 128, 2, 32, 32, 1056), || with(64, 0, 1)).without(BARE).filled(&NUMBERS),
        Case::new("tile_plus_one", &sizes(129, 3, 36, 36, 1332, 37), || with(64, 0, 0)).filled(BY_HEAD),
        Case::new("two_sided", &sizes(100, 4, 8, 12, 208, 12), || with(32, 1, 1)).without(&["key_mask"]).filled(BY_HEAD),
        Case::new("narrow_tile", &sizes(70, 2, 24, 20, 1008, 20), || with(64, 1, 1)).filled(BY_HEAD),
        Case::new("two_sided_wide", &sizes(70, 2, 68, 68, 9384, 68), || with(64, 1, 1)).without(&["reach"])
            .filled(&[NUMBERS[0], NUMBERS[1], NUMBERS[2], POWERS]),
        Case::new("masked_garbage", &sizes(40, 2, 8, 4, 40, 4), || with(32, 0, 1)).without(&["reach"])
            .filled(&[NUMBERS[0], ("k", Fill::Value(1e30)), ("v", Fill::Value(3e38)), NUMBERS[2], ("key_mask", Fill::Value(0.0)), POWERS]),
        Case::new("nothing_to_see", &sizes(40, 2, 8, 4, 40, 4), || with(32, 0, 1)).without(&["reach"])
            .filled(&[NUMBERS[0], ("k", Fill::Value(1e30)), ("v", Fill::Value(3e38)), ("states", Fill::Value(0.0)), ("key_mask", Fill::Value(0.0)), POWERS]),
        Case::new("tokens_16384", &plain_sizes(8, 16_384, 512, 32, 32, 1056), || with(32, 0, 1)).without(BARE).filled(&NUMBERS)
            .resized(|d| {
                d.set("c", d.size("n").div_ceil(32));
                Ok(with(32, 0, 1))
            })
            .for_bench(),
    ],
    vjp: None,
};
