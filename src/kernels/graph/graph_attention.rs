//! Attention inside every graph of a batch, pair by pair: small graphs whose masks are matrices. A group of threads has one graph, one
//! head and a tile of its queries; no node sees a node of another graph.
//!
//! `out[i]` = Σⱼ `mask[i, j]` a(qᵢ, kⱼ) vⱼ / Σⱼ `mask[i, j]` a(qᵢ, kⱼ) over the nodes j of i's graph.
//!
//! * `scores` 0: a = ⟨q, k⟩ of mapped features; 1: a = exp(`scale` ⟨q, k⟩); 2: a = exp(`scale` leaky(Σ(q + k))), of which numbers below 0 are
//!   multiplied by `slope`. Exponentials are taken relative to the largest score of a pair whose mask is not 0, never of the others.
//! * `q`, `k` `[b, h, n, r]`, `v` `[b, h, n, e]`.
//! * `offsets` `[s]`, s = graphs + 1: graph g has nodes `offsets[g]` to `offsets[g + 1]`, ascending from 0; nodes behind the last see nothing.
//! * `mask` `[h or 1, z]`, z = Σ n_g²: the matrices one after the other, row = query; that of graph g begins at `blocks[g]`, see [`blocks`]. Without
//!   it all nodes of a graph see each other.
//! * `largest`: nodes of the largest graph, 0 = not known; only drivers that cut loops short ask.
//! * `out` `[b, h, n, e]`: zeros where a row has no key. Nothing is added to denominators.

use crate::error::{Error, Result};
use crate::kernel::wgsl_module::{EXP, GROUP, Shared, TEXELS};
use crate::kernel::*;
use crate::kernels::distance::pairs::{
    self, SCORES, Scores, TEXTURE, TILE, check_scores, held, texels, texture_loads, texture_rounds, tile_loads,
    tile_rounds,
};
use crate::tensor::{DType, Dims, HostData};
use crate::words::or_none;
use crate::{cuda_shared, cuda_source, params, reference};

params! {
    /// Parameters of [`SPEC`].
    pub struct Params {
        /// factor of scores of softmax
        live scale: f32 = 1.0,
        /// factor of sums below 0 in additive scores
        live slope: f32 = 0.2,
        /// 0 linear, 1 softmax of products, 2 softmax of sums
        fixed scores: u32 = pairs::LINEAR,
        /// nodes of the largest graph, 0 = not known
        fixed largest: u32 = 0,
    }
}

/// Which rows see which keys.
const NODES: &Shared =
    &Shared { file: "graph/nodes.wgsl", body: include_str!("../../../shaders/graph/nodes.wgsl") };

/// Where the mask of every graph begins, and the length of all: `[s]` for offsets `[s]`; also the nodes of the largest graph.
///
/// Errors: [`Error::Value`] for offsets that do not begin with 0, fall, or pass `nodes`; masks of more than 2³² − 1 numbers.
pub fn blocks(nodes: u32, offsets: &[u32]) -> Result<(Vec<u32>, u32)> {
    let wrong = |expected: &str, got: String| {
        Err(Error::value("offsets of a batch of graphs", expected, got, "give the first node of every graph and the end"))
    };
    if offsets.first() != Some(&0) {
        return wrong("a list that begins with 0", or_none(offsets.first()));
    }
    let (mut starts, mut sum, mut largest) = (vec![0], 0_u64, 0);
    for (graph, pair) in offsets.windows(2).enumerate() {
        if pair[0] > pair[1] || pair[1] > nodes {
            return wrong(
                &format!("ascending nodes up to {nodes}"),
                format!("{} to {} for graph {graph}", pair[0], pair[1]),
            );
        }
        let size = pair[1] - pair[0];
        largest = largest.max(size);
        sum += u64::from(size) * u64::from(size);
        match u32::try_from(sum) {
            Ok(start) => starts.push(start),
            Err(_) => return wrong("masks of at most 4 Gi numbers in all", format!("more at graph {graph}")),
        }
    }
    Ok((starts, largest))
}

/// Graph of node `i`, its first node and its end; none behind the last graph.
fn graph_of(offsets: &[u32], n: usize, i: usize) -> Option<(usize, usize, usize)> {
    let at = |g: usize| if g == 0 { 0 } else { (offsets[g] as usize).min(n) };
    (0..offsets.len().saturating_sub(1)).map(|g| (g, at(g), at(g + 1))).find(|(_, from, to)| (*from..*to).contains(&i))
}

fn reference<T: Real>(args: &mut HostArgs<T>) -> Result<()> {
    let p: Params = args.params();
    let [n, r, e, z, masks, h] = ["n", "r", "e", "z", "masks", "h"].map(|x| args.dims.at(x));
    let (q, k, v) = (args.real("q"), args.real("k"), args.real("v"));
    let (offsets, blocks, mask) = (args.words("offsets"), args.words("blocks"), args.real_if("mask"));
    let scores = Scores::of(p.scores, p.scale, p.slope);
    let out = reference::rows(args.dims.batches() as usize, n, e, |batch, i, line| {
        let Some((graph, from, to)) = graph_of(&offsets, n, i) else { return };
        let head = if masks > 1 { batch % h * z } else { 0 };
        let weight = |j: usize| match &mask {
            None => T::one(),
            Some(list) => {
                let at = blocks[graph] as usize + (i - from) * (to - from) + j - from;
                if at < z { list[head + at] } else { T::zero() }
            }
        };
        let keys = (from..to).map(|j| (j, weight(j)));
        scores.attend(&q[(batch * n + i) * r..][..r], keys, (&k[batch * n * r..], &v[batch * n * e..]), line);
    });
    args.set("out", out);
    Ok(())
}

/// Most keys of a row.
fn largest(d: &Dims, p: &[u8]) -> u64 {
    match Params::from_bytes(p).largest {
        0 => d.size("n").into(),
        known => known.into(),
    }
}

/// Pairs of a head: entries of the mask, or what the nodes' number says without one.
fn pairs_of(d: &Dims) -> f64 {
    let n = f64::from(d.size("n"));
    if d.size("z") > 0 { f64::from(d.size("z")) } else { n * n / f64::from(d.size("s").saturating_sub(1).max(1)) }
}

fn slots(d: &Dims, size: u32) -> u64 {
    u64::from(d.size("n") / size) + u64::from(d.size("s"))
}

fn slices(d: &Dims) -> u64 {
    d.size("e").div_ceil(32).into()
}

/// Rounds of finding a block's graph.
const SEARCH: u64 = 32;

static VARIANTS: &[Variant] = &[
    Variant {
        name: "tile",
        preferred_on: &[Driver::Gpu],
        suits: |d, p, caps| SEARCH + tile_rounds(d, largest(d, p)) <= caps.loop_rounds,
        ..Variant::only(
            "graph/graph_attention_tile.wgsl",
            include_str!("../../../shaders/graph/graph_attention_tile.wgsl"),
            &[GROUP, EXP, SCORES, NODES, TILE],
            |d, batches| batches * slots(d, 64) * slices(d),
            |d, _| tile_loads(d, pairs_of(d), 1.0),
        )
    },
    Variant {
        name: "texture",
        preferred_on: &[Driver::Llvmpipe, Driver::SwiftShader],
        classes: &[("q", Class::Texture), ("k", Class::Texture), ("v", Class::Texture)],
        vec4: &["q", "k", "v"],
        constants: held,
        suits: |d, p, caps| texels(d) && SEARCH + texture_rounds(d, largest(d, p)) <= caps.loop_rounds,
        ..Variant::only(
            "graph/graph_attention_texture.wgsl",
            include_str!("../../../shaders/graph/graph_attention_texture.wgsl"),
            &[GROUP, EXP, TEXELS, SCORES, NODES, TEXTURE],
            |d, batches| batches * slots(d, 4).div_ceil(8) * slices(d),
            |d, _| texture_loads(d, pairs_of(d), 1.0),
        )
    },
];

/// 64 queries of a graph and 8 to 64 value columns a block; `fours`: rows are whole `float4`s.
const fn source(fours: bool) -> cuda::Source {
    fn columns(d: &Dims) -> u32 {
        d.size("e").clamp(8, 64).next_power_of_two()
    }
    fn constants(d: &Dims, fours: bool) -> Vec<(&'static str, Constant)> {
        vec![("COLS", Constant::U32(columns(d))), ("FOURS", Constant::Bool(fours))]
    }
    let words = cuda::Source {
        constants: |d| constants(d, false),
        ..cuda_source!("graph/graph_attention.cu", 256, |d, _| {
            d.batches() * slots(d, 64) * u64::from(d.size("e").div_ceil(columns(d)))
        })
    }
    .with(&[cuda::EXP, cuda_shared!("shared/divide.cuh"), cuda_shared!("shared/rows.cuh")]);
    match fours {
        false => words,
        true => cuda::Source {
            name: "vectors",
            vec4: &["q", "k", "v"],
            constants: |d| constants(d, true),
            ..words
        },
    }
}

/// Sizes of graphs of cases: empty ones among them, and the last one small.
const GRAPHS: [u32; 9] = [9, 0, 1, 64, 65, 0, 63, 2, 5];

fn made_offsets(d: &Dims) -> Vec<u32> {
    let (n, graphs) = (d.size("n"), d.at("s").saturating_sub(1));
    let mut list = vec![0];
    for g in 0..graphs {
        let last = list[g];
        // Graphs of cases with other sizes than these are equal parts.
        let size = if graphs == GRAPHS.len() { GRAPHS[g] } else { n / graphs as u32 };
        list.push((last + size).min(n));
    }
    list
}

fn some_offsets(d: &Dims) -> HostData {
    HostData::U32(made_offsets(d))
}

fn some_blocks(d: &Dims) -> HostData {
    HostData::U32(blocks(d.size("n"), &made_offsets(d)).map(|b| b.0).unwrap_or_default())
}

/// A third of the entries 0, and all of every seventh row.
fn some_mask(d: &Dims) -> HostData {
    let entry = |i: u32| if i % 3 == 1 || i / 40 % 7 == 3 { 0.0 } else { ((i * 37) % 101) as f32 / 101.0 };
    HostData::F32((0..d.size("masks") * d.size("z")).map(entry).collect())
}

/// Entries of the masks of [`GRAPHS`].
const Z: u32 = 81 + 1 + 4096 + 4225 + 3969 + 4 + 25;

const fn sizes(n: u32, r: u32, e: u32) -> [(&'static str, u32); 8] {
    [("b", 2), ("h", 2), ("n", n), ("r", r), ("e", e), ("s", 10), ("masks", 2), ("z", Z)]
}

const FILL: &[(&str, Fill)] = &[
    ("offsets", Fill::Made(some_offsets)),
    ("blocks", Fill::Made(some_blocks)),
    ("mask", Fill::Made(some_mask)),
    ("q", Fill::Uniform(0.0, 1.0)),
    ("k", Fill::Uniform(0.0, 1.0)),
];
const STEEP: &[(&str, Fill)] = &[
    ("offsets", Fill::Made(some_offsets)),
    ("blocks", Fill::Made(some_blocks)),
    ("mask", Fill::Made(some_mask)),
    ("q", Fill::Uniform(-9.0, 9.0)),
    ("k", Fill::Uniform(-9.0, 9.0)),
];

fn softmax() -> Vec<u8> {
    Params { scores: pairs::SOFTMAX, scale: 0.7, ..Params::default() }.to_bytes()
}

fn additive() -> Vec<u8> {
    Params { scores: pairs::ADDITIVE, ..Params::default() }.to_bytes()
}

/// The kernel's description.
pub static SPEC: KernelSpec = KernelSpec {
    name: "graph_attention",
    family: "graph",
    formula: "out[i] = Σⱼ mask[i,j] a(q[i],k[j]) v[j] / Σⱼ mask[i,j] a(q[i],k[j]) over the nodes of i's graph",
    source: "Choromanski et al., arXiv 2107.07999, GKAT; Velickovic et al. 2018, eq. 3 (additive scores)",
    ports: &[
        Port::read("q", &["b", "h", "n", "r"]),
        Port::read("k", &["b", "h", "n", "r"]),
        Port::read("v", &["b", "h", "n", "e"]),
        Port::read("offsets", &["s"]).of(DType::U32),
        Port::read("blocks", &["s"]).of(DType::U32),
        Port::read("mask", &["masks", "z"]).optional(),
        Port::write("out", &["b", "h", "n", "e"]),
    ],
    params: Params::FIELDS,
    defaults: Params::default_bytes,
    output_dims: None,
    check: |d, p| {
        let masks = d.size("masks");
        if masks > 1 && masks != d.size("h") {
            return Err(format!("there is a mask for each of {} heads, or one, got {masks}", d.size("h")));
        }
        if d.size("s") == 0 {
            return Err("`offsets` has an entry more than there are graphs, got none".into());
        }
        check_scores(Params::from_bytes(p).scores)
    },
    wgpu: OnWgpu::Shader(VARIANTS),
    cuda: OnCuda::Source(&[source(true), source(false)]),
    reference: reference!(reference),
    window: whole_heads,
    cost: |d, p| {
        let batches = d.batches() as f64;
        let [n, r, e] = ["n", "r", "e"].map(|x| f64::from(d.size(x)));
        let masks = f64::from(d.size("masks")) * f64::from(d.size("z"));
        Cost {
            flop: batches * pairs_of(d) * (2.0 * (r + e) + 2.0),
            exp: if Params::from_bytes(p).scores == pairs::LINEAR { 0.0 } else { batches * pairs_of(d) },
            stores: batches * n * e,
            bytes: 4.0 * (batches * n * (2.0 * r + 2.0 * e) + masks),
            ..Cost::default()
        }
    },
    tolerance: Tolerance::SUMS,
    cases: &[
        Case::new(
            "smallest",
            &[("b", 1), ("h", 1), ("n", 1), ("r", 1), ("e", 1), ("s", 2), ("masks", 1), ("z", 1)],
            Params::default_bytes,
        )
        .filled(FILL),
        Case::new("odd", &sizes(209, 9, 9), Params::default_bytes).filled(FILL),
        Case::new("texels", &sizes(209, 8, 12), Params::default_bytes).filled(FILL),
        Case::new("nodes_left_over", &sizes(231, 8, 12), softmax).filled(FILL),
        Case::new("nodes_left_over_words", &sizes(231, 3, 1), softmax).filled(FILL),
        Case::new("softmax", &sizes(209, 8, 36), softmax).filled(FILL),
        Case::new("softmax_odd", &sizes(209, 9, 35), softmax).filled(FILL),
        Case::new("softmax_steep", &sizes(209, 8, 8), softmax).filled(STEEP),
        Case::new("softmax_steep_odd", &sizes(209, 17, 5), softmax).filled(STEEP),
        Case::new("deep_texels", &sizes(209, 44, 72), softmax).filled(FILL),
        Case::new("additive", &sizes(209, 4, 8), additive).filled(STEEP),
        Case::new("additive_words", &sizes(209, 1, 9), additive).filled(STEEP),
        Case::new(
            "one_mask",
            &[("b", 1), ("h", 3), ("n", 209), ("r", 4), ("e", 4), ("s", 10), ("masks", 1), ("z", Z)],
            softmax,
        )
        .filled(FILL),
        Case::new("no_mask", &[("b", 1), ("h", 2), ("n", 209), ("r", 8), ("e", 8), ("s", 10)], softmax)
            .without(&["mask"])
            .filled(&FILL_BARE),
        Case::new(
            "large_graphs",
            &[("b", 1), ("h", 1), ("n", 1030), ("r", 8), ("e", 8), ("s", 3), ("masks", 1), ("z", 530_450)],
            softmax,
        )
        .filled(FILL),
        Case::new(
            "large_graphs_words",
            &[("b", 1), ("h", 1), ("n", 1030), ("r", 9), ("e", 9), ("s", 3), ("masks", 1), ("z", 530_450)],
            softmax,
        )
        .filled(FILL),
        Case::new(
            "no_nodes",
            &[("b", 1), ("h", 1), ("n", 0), ("r", 4), ("e", 4), ("s", 4), ("masks", 1), ("z", 0)],
            softmax,
        )
        .filled(FILL),
        Case::new("no_graphs", &[("b", 1), ("h", 2), ("n", 7), ("r", 4), ("e", 4), ("s", 1)], softmax)
            .without(&["mask"])
            .filled(&FILL_BARE),
        Case::new(
            "graphs_128_of_100",
            &[("b", 1), ("h", 8), ("n", 12_800), ("r", 8), ("e", 8), ("s", 129), ("masks", 1), ("z", 1_280_000)],
            || Params { scores: pairs::SOFTMAX, scale: 0.35, largest: 100, ..Params::default() }.to_bytes(),
        )
        .filled(FILL)
        .for_bench(),
    ],
    vjp: None,
};

const FILL_BARE: [(&str, Fill); 4] = [FILL[0], FILL[1], FILL[3], FILL[4]];

#[cfg(test)]
mod tests {
    use super::blocks;

    #[test]
    fn blocks_of_masks_follow_each_other() {
        assert_eq!(blocks(9, &[0, 3, 3, 5, 9]).expect("sound"), (vec![0, 9, 9, 13, 29], 4));
        assert_eq!(blocks(0, &[0]).expect("no graph"), (vec![0], 0));
    }

    #[test]
    fn offsets_that_are_wrong_are_named() {
        for (offsets, wanted) in
            [(&[1, 2][..], "begins with 0, got 1;"), (&[0, 4, 2], "graph 1"), (&[0, 10], "up to 9"), (&[], "got none;")]
        {
            let said = blocks(9, offsets).expect_err("wrong").to_string();
            assert!(said.contains(wanted), "`{said}` does not say `{wanted}`");
        }
    }
}
