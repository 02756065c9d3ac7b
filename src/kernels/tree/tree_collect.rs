//! What pieces of a forest send up by themselves, and what they add at their bottoms: weighted sums over their members.
//!
//! `sums[own row of p]` = (A, R) = (Σ `w[s, 0]` x, Σ `w[s, 1]` x + `w[s, 2]` x′), s in piece p, x the row of spot s (its first half where rows are
//! pairs, x′ the second).
//!
//! * `pieces` `[g, 4]`, `turns` `[r]`, `links` `[n, 2]` (see `layout` beside this); `weights` `[k, t]` for the first k spots.
//! * `x` `[b, h, n, w]`: rows of w channels, t = 2; with `paired` of w/2 channels twice, t = 3.
//! * `sums` `[b, h, m, e]`: the first m ≤ g pieces, which have the rows below m; e is twice the channels, all A of a piece before all R.
//! * `longest`: members of the largest piece, 0 = not known.

use super::layout::{self, Arrays, PIECE, VECTORS, WORDS};
use crate::error::Result;
use crate::kernel::wgsl_module::{GROUP, Shared};
use crate::kernel::*;
use crate::tensor::{DType, Dims};
use crate::{cuda_shared, cuda_source, params, reference};

params! {
    /// Parameters of [`SPEC`].
    pub struct Params {
        /// 1: rows of x are pairs (A, R)
        fixed paired: u32 = 0,
        /// members of the largest piece, 0 = not known
        fixed longest: u32 = 0,
    }
}

fn check(d: &Dims, params: &[u8]) -> std::result::Result<(), String> {
    let p = Params::from_bytes(params);
    layout::check_pairs(d.size("w"), p.paired)?;
    let channels = d.size("w") / (1 + p.paired);
    if d.size("e") != 2 * channels {
        return Err(format!("`sums` has two words for each of {channels} channels, got {}", d.size("e")));
    }
    if d.size("t") != 2 + p.paired {
        return Err(format!("`weights` has {} numbers for a spot, got {}", 2 + p.paired, d.size("t")));
    }
    if d.size("m") > d.size("g") || d.size("k") > d.size("n") {
        return Err(format!(
            "sums are of some of {} pieces and weights of some of {} spots, got {} and {}",
            d.size("g"),
            d.size("n"),
            d.size("m"),
            d.size("k")
        ));
    }
    Ok(())
}

fn reference<T: Real>(args: &mut HostArgs<T>) -> Result<()> {
    let p: Params = args.params();
    let [n, w, t, k, m, e] = ["n", "w", "t", "k", "m", "e"].map(|x| args.dims.at(x));
    let (arrays, weights, x) = (Arrays::of(args), args.real("weights"), args.real("x"));
    let channels = e / 2;
    let by_piece = reference::rows(args.dims.batches() as usize, m, e, |batch, piece, line| {
        let (up, at_bottom) = line.split_at_mut(channels);
        for s in arrays.members(piece).into_iter().take_while(|s| *s < k) {
            let row = &x[(batch * n + arrays.node(s)) * w..][..w];
            for c in 0..channels {
                up[c] += weights[s * t] * row[c];
                at_bottom[c] += weights[s * t + 1] * row[c];
                if p.paired == 1 {
                    at_bottom[c] += weights[s * t + 2] * row[channels + c];
                }
            }
        }
    });
    let mut sums = vec![T::zero(); by_piece.len()];
    for (at, line) in by_piece.chunks(e.max(1)).enumerate() {
        let row = arrays.own(at % m);
        if row < m {
            sums[(at / m * m + row) * e..][..e].copy_from_slice(line);
        }
    }
    args.set("sums", sums);
    Ok(())
}

fn vectors(d: &Dims) -> bool {
    d.size("e").is_multiple_of(8) && d.size("e") > 0
}

fn walkable(d: &Dims, params: &[u8], caps: &Caps) -> bool {
    layout::walkable(d, Params::from_bytes(params).longest, 1, caps)
}

/// Words that are loaded with `per` threads for a piece.
fn words(d: &Dims, per: f64) -> Loads {
    let [k, w, t, m] = ["k", "w", "t", "m"].map(|x| f64::from(d.size(x)));
    Loads { storage: k * w + per * (k * (2.0 + t) + 3.0 * m), ..Loads::default() }
}

const fn variant(shared: &'static [&'static Shared]) -> Variant {
    Variant {
        suits: walkable,
        ..Variant::only(
            "tree/tree_collect.wgsl",
            include_str!("../../../shaders/tree/tree_collect.wgsl"),
            shared,
            |d, batches| batches * (u64::from(d.size("m")) * u64::from(d.size("e") / 2)).div_ceil(64),
            |d, _| words(d, f64::from(d.size("e") / 2)),
        )
    }
}

static VARIANTS: &[Variant] = &[
    Variant {
        name: "vectors",
        vec4: &["x", "sums"],
        suits: |d, p, caps| vectors(d) && walkable(d, p, caps),
        grid: |d, batches| batches * (u64::from(d.size("m")) * u64::from(d.size("e") / 8)).div_ceil(64),
        loads: |d, _| words(d, f64::from(d.size("e") / 8)),
        ..variant(&[GROUP, VECTORS, PIECE])
    },
    variant(&[GROUP, WORDS, PIECE]),
];

/// A thread takes four channels, or one.
const fn source(fours: bool) -> cuda::Source {
    fn blocks(d: &Dims, _: &[u8], lanes: u32) -> u64 {
        d.batches() * (u64::from(d.size("m")) * u64::from((d.size("e") / 2) / lanes)).div_ceil(128)
    }
    let words = cuda::Source {
        constants: |_| vec![("FOUR", Constant::Bool(false))],
        ..cuda_source!("tree/tree_collect.cu", 128, |d, p| blocks(d, p, 1))
    }
    .with(&[cuda::VECTORS, cuda_shared!("shared/items.cuh"), cuda_shared!("tree/pieces.cuh")]);
    match fours {
        false => words,
        true => cuda::Source {
            name: "vectors",
            vec4: &["x", "sums"],
            constants: |_| vec![("FOUR", Constant::Bool(true))],
            suits: |d, _| vectors(d),
            blocks: |d, p| blocks(d, p, 4),
            ..words
        },
    }
}

const fn sizes(n: u32, g: u32, m: u32, k: u32, c: u32, paired: u32) -> [(&'static str, u32); 10] {
    [
        ("b", 2),
        ("h", 2),
        ("n", n),
        ("g", g),
        ("m", m),
        ("k", k),
        ("r", layout::turns_of(n, g)),
        ("t", 2 + paired),
        ("w", c * (1 + paired)),
        ("e", 2 * c),
    ]
}

const FILLS: &[(&str, Fill)] =
    &[
    ("pieces", Fill::Made(layout::some_pieces)),
    ("turns", Fill::Made(layout::some_turns)),
    ("links", Fill::Made(layout::some_links)),
];
const BAD: &[(&str, Fill)] =
    &[
    ("pieces", Fill::Made(layout::bad_pieces)),
    ("turns", Fill::Made(layout::bad_turns)),
    ("links", Fill::Made(layout::bad_links)),
];
const PATH: &[(&str, Fill)] =
    &[
    ("pieces", Fill::Made(layout::path_pieces)),
    ("turns", Fill::Made(layout::some_turns)),
    ("links", Fill::Made(layout::path_links)),
];

fn paired() -> Vec<u8> {
    Params { paired: 1, longest: 0 }.to_bytes()
}

/// The kernel's description.
pub static SPEC: KernelSpec = KernelSpec {
    name: "tree_collect",
    family: "tree",
    formula: "sums[row of p] = (Σ w[s, 0] x, Σ w[s, 1] x + w[s, 2] x′), s in piece p",
    source: "derivation in topology::tree::pieces",
    ports: &[
        Port::read("pieces", &["g", "4"]).of(DType::U32),
        Port::read("turns", &["r"]).of(DType::U32),
        Port::read("links", &["n", "2"]).of(DType::U32),
        Port::read("weights", &["k", "t"]),
        Port::read("x", &["b", "h", "n", "w"]),
        Port::write("sums", &["b", "h", "m", "e"]),
    ],
    params: Params::FIELDS,
    defaults: Params::default_bytes,
    output_dims: Some(|d, p| {
        d.set("m", d.size("g"));
        d.set("e", 2 * d.size("w") / (1 + Params::from_bytes(p).paired));
    }),
    check,
    wgpu: OnWgpu::Shader(VARIANTS),
    cuda: OnCuda::Source(&[source(true), source(false)]),
    reference: reference!(reference),
    window: whole_heads,
    cost: |d, _| {
        let [k, w, t, m, e, r] = ["k", "w", "t", "m", "e", "r"].map(|x| f64::from(d.size(x)));
        let batches = d.batches() as f64;
        Cost {
            flop: batches * 4.0 * k * w,
            exp: 0.0,
            stores: batches * m * e,
            bytes: 4.0 * (batches * (k * w + m * e) + k * (1.0 + t) + r + 3.0 * m),
            ..Cost::default()
        }
    },
    tolerance: Tolerance::SUMS,
    cases: &[
        Case::new(
            "smallest",
            &[
                ("b", 1),
                ("h", 1),
                ("n", 1),
                ("g", 1),
                ("r", 1),
                ("m", 1),
                ("k", 1),
                ("t", 2),
                ("w", 1),
                ("e", 2),
            ],
            Params::default_bytes,
        )
        .filled(FILLS),
        Case::new("odd", &sizes(37, 5, 3, 29, 5, 0), Params::default_bytes).filled(FILLS),
        Case::new("vectors", &sizes(130, 17, 17, 130, 12, 0), Params::default_bytes).filled(FILLS),
        Case::new("pairs", &sizes(37, 5, 4, 37, 3, 1), paired).filled(FILLS),
        Case::new("pairs_vectors", &sizes(65, 9, 8, 60, 4, 1), paired).filled(FILLS),
        Case::new("single_members", &sizes(65, 65, 64, 65, 4, 0), Params::default_bytes).filled(FILLS),
        Case::new("bad_places", &sizes(21, 6, 6, 21, 4, 0), Params::default_bytes).filled(BAD),
        Case::new("bad_places_words", &sizes(21, 6, 6, 21, 3, 1), paired).filled(BAD),
        Case::new("no_pieces", &sizes(0, 0, 0, 0, 4, 0), Params::default_bytes).filled(FILLS),
        Case::new(
            "path_1000000x8",
            &[
                ("b", 1),
                ("h", 1),
                ("n", 1_000_000),
                ("g", 15_625),
                ("r", layout::turns_of(1_000_000, 15_625)),
                ("m", 15_625),
                ("k", 1_000_000),
                ("t", 2),
                ("w", 8),
                ("e", 16),
            ],
            || Params { paired: 0, longest: 64 }.to_bytes(),
        )
        .filled(PATH)
        .for_bench(),
    ],
    vjp: None,
};
