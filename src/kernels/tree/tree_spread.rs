//! Both sweeps of a sum over decaying distances within pieces of a forest.
//!
//! Up, S = Σ of what the spots that hang from it send, and at the bottom of a piece S of that piece above; a spot sends q (x + S), one of
//! pairs A + q S. Down, G = q G(parent) + (1 − q²)(x + S), one of pairs q G(parent) + R + (1 − q²) S; what hangs from outside has G of
//! the piece above. `out` = `weight` · G + `prev`, or the pairs (G, S).
//!
//! * `pieces` `[g, 4]`, `turns` `[r]`, `links` `[n, 2]` (see `layout` beside this); `factors` `[n, 2]`: q and 1 − q² by spot.
//! * `x`, `prev`, `out` `[b, h, n, w]`: rows of w channels, or with `paired` pairs (A, R) and (G, S) of w/2, no weight and no `prev`.
//! * `above` `[b, h, m, e]`: the pairs (G, S) of pieces by their rows, e twice the channels; without it pieces are whole trees.
//! * `longest`: members of the largest piece, 0 = not known.

use super::layout::{self, Arrays, PIECE, VECTORS, WORDS};
use crate::error::Result;
use crate::kernel::wgsl_module::{GROUP, Shared};
use crate::kernel::*;
use crate::tensor::{DType, Dims};
use crate::topology::tree::pieces::{BOTTOM, FIRST, HELD, PARTIAL};
use crate::{cuda_shared, cuda_source, params, reference};

params! {
    /// Parameters of [`SPEC`].
    pub struct Params {
        /// factor of the sums, where rows are not pairs
        live weight: f32 = 1.0,
        /// 1: rows are pairs
        fixed paired: u32 = 0,
        /// 1: sums are weighed, and added to prev where that is given
        fixed summed: u32 = 0,
        /// members of the largest piece, 0 = not known
        fixed longest: u32 = 0,
    }
}

fn check(d: &Dims, params: &[u8]) -> std::result::Result<(), String> {
    let p = Params::from_bytes(params);
    layout::check_pairs(d.size("w"), p.paired)?;
    let channels = d.size("w") / (1 + p.paired);
    if d.find("e").is_some_and(|e| e != 2 * channels) {
        return Err(format!("`above` has two words for each of {channels} channels, got {}", d.size("e")));
    }
    if d.size("m") > d.size("g") {
        return Err(format!("`above` has rows for some of {} pieces, got {}", d.size("g"), d.size("m")));
    }
    if p.summed > 1 || (p.summed == 1 && p.paired == 1) {
        return Err(format!("summed is 0, or 1 where rows are not pairs, got {}", p.summed));
    }
    Ok(())
}

fn reference<T: Real>(args: &mut HostArgs<T>) -> Result<()> {
    let p: Params = args.params();
    let [n, g, m, w] = ["n", "g", "m", "w"].map(|x| args.dims.at(x));
    let (arrays, q, x) = (Arrays::of(args), args.real("factors"), args.real("x"));
    let (above, prev) = (args.real_if("above"), args.real_if("prev"));
    let pairs = p.paired == 1;
    let channels = if pairs { w / 2 } else { w };
    let weight = T::of(p.weight.into());
    let finished = |sum: T, at: usize| weight * sum + prev.as_ref().map_or(T::zero(), |prev| prev[at]);
    let mut out = vec![T::zero(); x.len()];
    // Walked as the shader walks, so that what is left over by lists that are no layout agrees.
    for (batch, c) in (0..args.dims.batches() as usize).flat_map(|b| (0..channels).map(move |c| (b, c))) {
        let row = |spot: usize| (batch * n + arrays.node(spot)) * w + c;
        let sums = if pairs { channels } else { 0 };
        for piece in 0..g {
            let members = arrays.members(piece);
            let (mut given, mut hung) = (T::zero(), T::zero());
            if let Some(above) = &above {
                let pair = |at: usize| (batch * m + at) * 2 * channels + c;
                if arrays.above(piece) < m {
                    given = above[pair(arrays.above(piece))];
                }
                if arrays.own(piece) < m {
                    hung = above[pair(arrays.own(piece)) + channels];
                }
            }
            let mut carry = T::zero();
            for (place, &s) in members.iter().enumerate().rev() {
                let (link, back) = (arrays.link(s), arrays.back(s, place));
                let mut sum = carry;
                if link & PARTIAL != 0 {
                    sum += out[row(s) + sums];
                }
                if link & BOTTOM != 0 {
                    sum += hung;
                }
                let own = x[row(s)];
                sum += if pairs { T::zero() } else { own };
                if pairs || link & HELD != 0 {
                    out[row(s) + sums] = sum;
                }
                let mut sent = q[2 * s] * sum + if pairs { own } else { T::zero() };
                carry = if back == 1 { sent } else { T::zero() };
                if back > 1 {
                    let parent = row(members[place - back]) + sums;
                    if link & FIRST == 0 {
                        sent += out[parent];
                    }
                    out[parent] = sent;
                }
            }
            let mut last = T::zero();
            for (place, &s) in members.iter().enumerate() {
                let parent = match arrays.back(s, place) {
                    0 => given,
                    1 => last,
                    back => out[row(members[place - back])],
                };
                let held = pairs || arrays.link(s) & HELD != 0;
                let sum = if held { out[row(s) + sums] } else { x[row(s)] };
                last = q[2 * s] * parent + q[2 * s + 1] * sum;
                if pairs {
                    last += x[row(s) + channels];
                }
                let early = p.summed == 1 && arrays.link(s) & PARTIAL == 0;
                out[row(s)] = if early { finished(last, row(s)) } else { last };
            }
            for s in members.into_iter().filter(|s| p.summed == 1 && arrays.link(*s) & PARTIAL != 0) {
                out[row(s)] = finished(out[row(s)], row(s));
            }
        }
    }
    args.set("out", out);
    Ok(())
}

fn walkable(d: &Dims, params: &[u8], caps: &Caps) -> bool {
    layout::walkable(d, Params::from_bytes(params).longest, 3, caps)
}

/// Words that are loaded with `per` threads for a piece: x, what came together, and the parent's or the partial sum at about half of the
/// spots.
fn words(d: &Dims, per: f64) -> Loads {
    let [n, w, g, m, e] = ["n", "w", "g", "m", "e"].map(|x| f64::from(d.size(x)));
    Loads { storage: 2.0 * n * w + per * (11.0 * n + 5.0 * g) + m * e, ..Loads::default() }
}

const fn variant(shared: &'static [&'static Shared]) -> Variant {
    Variant {
        suits: walkable,
        ..Variant::only(
            "tree/tree_spread.wgsl",
            include_str!("../../../shaders/tree/tree_spread.wgsl"),
            shared,
            |d, batches| batches * (u64::from(d.size("g")) * u64::from(d.size("w"))).div_ceil(64),
            |d, _| words(d, f64::from(d.size("w"))),
        )
    }
}

static VARIANTS: &[Variant] = &[
    Variant {
        name: "vectors",
        vec4: &["x", "above", "prev", "out"],
        suits: |d, p, caps| {
            let channels = d.size("w") / (1 + Params::from_bytes(p).paired);
            channels.is_multiple_of(4) && channels > 0 && walkable(d, p, caps)
        },
        grid: |d, batches| batches * (u64::from(d.size("g")) * u64::from(d.size("w") / 4)).div_ceil(64),
        loads: |d, _| words(d, f64::from(d.size("w") / 4)),
        ..variant(&[GROUP, VECTORS, PIECE])
    },
    variant(&[GROUP, WORDS, PIECE]),
];

/// A thread takes four channels, or one.
const fn source(fours: bool) -> cuda::Source {
    fn blocks(d: &Dims, params: &[u8], lanes: u32) -> u64 {
        d.batches() * (u64::from(d.size("g")) * u64::from((d.size("w") / (1 + Params::from_bytes(params).paired)) / lanes)).div_ceil(128)
    }
    let words = cuda::Source {
        constants: |_| vec![("FOUR", Constant::Bool(false))],
        ..cuda_source!("tree/tree_spread.cu", 128, |d, p| blocks(d, p, 1))
    }
    .with(&[cuda::VECTORS, cuda_shared!("shared/items.cuh"), cuda_shared!("tree/pieces.cuh")]);
    match fours {
        false => words,
        true => cuda::Source {
            name: "vectors",
            vec4: &["x", "above", "prev", "out"],
            constants: |_| vec![("FOUR", Constant::Bool(true))],
            suits: |d, p| (d.size("w") / (1 + Params::from_bytes(p).paired)).is_multiple_of(4) && d.size("w") > 0,
            blocks: |d, p| blocks(d, p, 4),
            ..words
        },
    }
}

const fn sizes(n: u32, g: u32, m: u32, c: u32, paired: u32) -> [(&'static str, u32); 8] {
    [("b", 2), ("h", 2), ("n", n), ("g", g), ("r", layout::turns_of(n, g)), ("m", m), ("w", c * (1 + paired)), ("e", 2 * c)]
}

/// The same without rows above.
const fn alone(n: u32, g: u32, c: u32, paired: u32) -> [(&'static str, u32); 6] {
    [("b", 2), ("h", 2), ("n", n), ("g", g), ("r", layout::turns_of(n, g)), ("w", c * (1 + paired))]
}

const FILLS: &[(&str, Fill)] = &[
    ("pieces", Fill::Made(layout::some_pieces)),
    ("turns", Fill::Made(layout::some_turns)),
    ("links", Fill::Made(layout::some_links)),
    ("factors", Fill::Uniform(0.0, 1.0)),
];
const BAD: &[(&str, Fill)] = &[
    ("pieces", Fill::Made(layout::bad_pieces)),
    ("turns", Fill::Made(layout::bad_turns)),
    ("links", Fill::Made(layout::bad_links)),
    ("factors", Fill::Uniform(0.0, 1.0)),
];
const PATH: &[(&str, Fill)] = &[
    ("pieces", Fill::Made(layout::path_pieces)),
    ("turns", Fill::Made(layout::some_turns)),
    ("links", Fill::Made(layout::path_links)),
    ("factors", Fill::Uniform(0.0, 1.0)),
];

fn paired() -> Vec<u8> {
    Params { paired: 1, ..Params::default() }.to_bytes()
}

fn summed() -> Vec<u8> {
    Params { weight: 0.6, summed: 1, ..Params::default() }.to_bytes()
}

/// The kernel's description.
pub static SPEC: KernelSpec = KernelSpec {
    name: "tree_spread",
    family: "tree",
    formula: "S = Σ q (x + S) from below; out = weight · G + prev, G = q G(parent) + (1 − q²)(x + S)",
    source: "two sweeps of a tree; derivation for pieces in topology::tree::pieces",
    ports: &[
        Port::read("pieces", &["g", "4"]).of(DType::U32),
        Port::read("turns", &["r"]).of(DType::U32),
        Port::read("links", &["n", "2"]).of(DType::U32),
        Port::read("factors", &["n", "2"]),
        Port::read("x", &["b", "h", "n", "w"]),
        Port::read("above", &["b", "h", "m", "e"]).optional(),
        Port::read("prev", &["b", "h", "n", "w"]).optional(),
        Port::write("out", &["b", "h", "n", "w"]),
    ],
    params: Params::FIELDS,
    defaults: Params::default_bytes,
    output_dims: None,
    check,
    wgpu: OnWgpu::Shader(VARIANTS),
    cuda: OnCuda::Source(&[source(true), source(false)]),
    reference: reference!(reference),
    window: whole_heads,
    cost: |d, _| {
        let [n, w, g, m, e, r] = ["n", "w", "g", "m", "e", "r"].map(|x| f64::from(d.size(x)));
        let batches = d.batches() as f64;
        Cost {
            flop: batches * 7.0 * n * w,
            exp: 0.0,
            stores: batches * 2.0 * n * w,
            bytes: 4.0 * (batches * (2.0 * n * w + m * e) + 4.0 * n + r + 4.0 * g),
            ..Cost::default()
        }
    },
    tolerance: Tolerance::SUMS,
    cases: &[
        Case::new(
            "smallest",
            &[("b", 1), ("h", 1), ("n", 1), ("g", 1), ("r", 1), ("w", 1)],
            Params::default_bytes,
        )
        .without(&["above", "prev"])
        .filled(FILLS),
        Case::new("odd", &sizes(37, 5, 3, 5, 0), summed).filled(FILLS),
        Case::new("vectors", &sizes(130, 17, 17, 12, 0), summed).filled(FILLS),
        Case::new("plain_sums", &sizes(130, 17, 9, 8, 0), Params::default_bytes)
            .without(&["prev"])
            .filled(FILLS),
        Case::new("weighed", &sizes(43, 6, 6, 3, 0), summed).without(&["prev"]).filled(FILLS),
        Case::new("pairs", &sizes(37, 5, 4, 3, 1), paired).without(&["prev"]).filled(FILLS),
        Case::new("pairs_vectors", &sizes(65, 9, 8, 4, 1), paired).without(&["prev"]).filled(FILLS),
        Case::new("whole_trees", &alone(129, 5, 8, 0), Params::default_bytes)
            .without(&["above", "prev"])
            .filled(FILLS),
        Case::new("whole_trees_pairs", &alone(40, 2, 4, 1), paired)
            .without(&["above", "prev"])
            .filled(FILLS),
        Case::new("single_members", &sizes(65, 65, 64, 4, 0), summed).filled(FILLS),
        Case::new("bad_places", &sizes(21, 6, 6, 4, 0), summed).filled(BAD),
        Case::new("bad_places_words", &sizes(21, 6, 6, 3, 1), paired).without(&["prev"]).filled(BAD),
        Case::new("no_pieces", &sizes(0, 0, 0, 4, 0), summed).filled(FILLS),
        Case::new(
            "path_1000000x8",
            &[("b", 1), ("h", 1), ("n", 1_000_000), ("g", 15_625), ("r", layout::turns_of(1_000_000, 15_625)), ("m", 15_625), ("w", 8), ("e", 16)],
            || Params { longest: 64, ..Params::default() }.to_bytes(),
        )
        .without(&["prev"])
        .filled(PATH)
        .for_bench(),
    ],
    vjp: None,
};
