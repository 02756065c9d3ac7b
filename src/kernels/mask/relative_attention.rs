//! Linear attention under a mask of relative positions, pair by pair: right for few tokens and for windows, and the
//! definition that the Fourier path is held to.
//!
//! out\[i\] = Σⱼ T[i − j] ⟨qᵢ, kⱼ⟩ vⱼ / Σⱼ T[i − j] ⟨qᵢ, kⱼ⟩ over the kept keys that the table's support reaches; see
//! [`relative`](super::relative) for grids, tables, global tokens and packed segments. No matrix of pairs is stored.
//!
//! * `q`, `k` `[b, h, n, r]` mapped queries and keys, `v` `[b, h, n, e]`.
//! * `table` `[h or 1, t]`; without it every pair in the support weighs 1.
//! * `key_mask` `[b, h, n]`: 0 leaves a key out, whatever it holds. `query_mask` `[b, h, n]`: 0 makes a row zeros.
//! * `segment` `[n, 2]`: first key and one past the last that a row sees.
//! * `out` `[b, h, n, p]`: with p = e the finished rows, zeros where the denominator is 0; with p = e + 1 the sums and then
//!   the denominator.

use super::relative::{Grid, Operands, Params, RELATIVE, check_grid, finish};
use crate::error::Result;
use crate::kernel::wgsl_module::{GROUP, Shared};
use crate::kernel::*;
use crate::{cuda_shared, cuda_source, reference};
use crate::tensor::{DType, Dims, HostData};

/// WGSL that the variants below share.
const END: &Shared =
    &Shared { file: "mask/relative_end.wgsl", body: include_str!("../../../shaders/mask/relative_end.wgsl") };

fn check(dims: &Dims, params: &[u8]) -> std::result::Result<(), String> {
    check_grid(dims, &Params::from_bytes(params))?;
    let (e, out) = (dims.size("e"), dims.size("p"));
    if out != e && out != e + 1 {
        return Err(format!("out has p = {out} columns; wants e = {e} or e + 1"));
    }
    Ok(())
}

fn reference<T: Real>(args: &mut HostArgs<T>) -> Result<()> {
    let operands = Operands::of(args, &args.params());
    let (v, asked) = (args.real("v"), args.words_if("query_mask"));
    let (n, e, width) = (args.dims.at("n"), args.dims.at("e"), args.dims.at("p"));
    let shared = &*args;
    let out = reference::rows(args.dims.batches() as usize, n, width, |batch, i, line| {
        if asked.as_ref().is_some_and(|m| m[shared.start("query_mask", batch) + i] == 0) {
            return;
        }
        let total = operands.attend(shared, batch, i, &v, &mut line[..e]);
        match line.get_mut(e) {
            Some(last) => *last = total,
            None => finish(line, total),
        }
    });
    args.set("out", out);
    Ok(())
}

/// Pairs that the variants visit in one head.
fn visited(dims: &Dims, params: &[u8]) -> f64 {
    Grid::of(dims, &Params::from_bytes(params)).pairs()
}

fn slices(dims: &Dims, columns: u32) -> f64 {
    f64::from(dims.size("e").div_ceil(columns))
}

fn groups(dims: &Dims, batches: u64, rows: u32, columns: u32) -> u64 {
    batches * u64::from(dims.size("n").div_ceil(rows)) * u64::from(dims.size("e").div_ceil(columns))
}

/// Whether a driver lets one invocation visit this many keys at `rounds` loop rounds each.
fn loops_fit(dims: &Dims, params: &[u8], caps: &Caps, rounds: u64) -> bool {
    Grid::of(dims, &Params::from_bytes(params)).visits().saturating_mul(rounds) <= caps.loop_rounds
}

/// The same for visiting every key once, and three more rounds for each line.
fn dense_fits(dims: &Dims, params: &[u8], caps: &Caps, rounds: u64) -> bool {
    let p = Params::from_bytes(params);
    let lines = u64::from(p.n1) * u64::from(p.n2);
    (u64::from(dims.size("n")) + 3 * lines).saturating_mul(rounds) <= caps.loop_rounds
}

/// Work of masked attention with `pairs` pairs in each head.
fn cost(dims: &Dims, params: &[u8]) -> Cost {
    let batches = dims.batches() as f64;
    let pairs = Grid::of(dims, &Params::from_bytes(params)).pairs();
    let [n, r, e, p] = ["n", "r", "e", "p"].map(|name| f64::from(dims.size(name)));
    Cost {
        flop: batches * pairs * (2.0 * (r + e) + 2.0),
        exp: 0.0,
        stores: batches * n * p,
        bytes: 4.0 * batches * n * (2.0 * r + e + p),
        ..Cost::default()
    }
}

static VARIANTS: &[Variant] = &[
    Variant {
        name: "tile",
        file: "mask/relative_attention_tile.wgsl",
        body: include_str!("../../../shaders/mask/relative_attention_tile.wgsl"),
        shared: &[GROUP, RELATIVE, END],
        preferred_on: &[Driver::Gpu],
        classes: &[],
        vec4: &[],
        constants: no_constants,
        suits: |_, _, caps| caps.workgroup_bytes >= 14_336,
        grid: |d, batches| groups(d, batches, 64, 64),
        loads: |d, params| {
            let (depth, columns) = (f64::from(d.size("r")), f64::from(d.size("e")));
            Loads {
                storage: visited(d, params)
                    * (slices(d, 64) * (depth * (1.0 / 64.0 + 1.0 / 32.0) + 1.0) + columns / 64.0),
                workgroup: visited(d, params)
                    * (slices(d, 64) * (depth * 12.0 / 32.0 + 1.0) + columns * 16.0 / 64.0),
                ..Loads::default()
            }
        },
        rounds: |d| u64::from(d.size("n").div_ceil(32)) * (66 + 22 * u64::from(d.size("r").div_ceil(16))),
        subgroup_lanes: 0,
    },
    Variant {
        name: "texture",
        file: "mask/relative_attention_texture.wgsl",
        body: include_str!("../../../shaders/mask/relative_attention_texture.wgsl"),
        shared: &[GROUP, RELATIVE, END],
        preferred_on: &[Driver::Llvmpipe, Driver::SwiftShader],
        classes: &[("q", Class::Texture), ("k", Class::Texture), ("v", Class::Texture)],
        vec4: &["q", "k", "v"],
        constants: |d| {
            let texels = |name| Constant::U32((d.size(name) / 4).min(16));
            vec![("HELD", texels("r")), ("WIDTH", texels("e"))]
        },
        suits: |d, p, caps| {
            let whole = |name| d.size(name) % 4 == 0 && d.size(name) > 0;
            // A thread's four rows see up to three more keys per line than one of them, but no key twice.
            let rounds = 1 + u64::from((d.size("r") / 4).saturating_sub(16));
            whole("r") && whole("e") && (loops_fit(d, p, caps, 4 * rounds) || dense_fits(d, p, caps, rounds))
        },
        grid: |d, batches| groups(d, batches, 8, 64),
        loads: |d, params| Loads {
            texture: visited(d, params) / 4.0 * (slices(d, 64) * f64::from(d.size("r")) + f64::from(d.size("e"))),
            storage: visited(d, params) / 4.0 * slices(d, 64),
            ..Loads::default()
        },
        rounds: few_rounds,
        subgroup_lanes: 0,
    },
    Variant {
        name: "plain",
        file: "mask/relative_attention_plain.wgsl",
        body: include_str!("../../../shaders/mask/relative_attention_plain.wgsl"),
        shared: &[GROUP, RELATIVE, END],
        preferred_on: &[Driver::Llvmpipe, Driver::SwiftShader],
        classes: &[],
        vec4: &[],
        constants: no_constants,
        suits: |d, p, caps| loops_fit(d, p, caps, 1 + u64::from(d.size("r").div_ceil(4))),
        grid: |d, batches| groups(d, batches, 64, 32),
        loads: |d, params| Loads {
            storage: visited(d, params) * (slices(d, 32) * f64::from(2 * d.size("r")) + f64::from(d.size("e"))),
            ..Loads::default()
        },
        rounds: few_rounds,
        subgroup_lanes: 0,
    },
];

const fn sizes(n: u32, r: u32, e: u32, p: u32, t: u32) -> [(&'static str, u32); 8] {
    [("b", 1), ("h", 2), ("n", n), ("r", r), ("e", e), ("p", p), ("tables", 2), ("t", t)]
}

const fn untabled(n: u32, r: u32, e: u32, p: u32) -> [(&'static str, u32); 6] {
    [("b", 1), ("h", 2), ("n", n), ("r", r), ("e", e), ("p", p)]
}

/// Sizes with segments.
const fn packed(n: u32, r: u32, e: u32, p: u32, t: u32) -> [(&'static str, u32); 9] {
    [("b", 1), ("h", 2), ("n", n), ("r", r), ("e", e), ("p", p), ("tables", 2), ("t", t), ("s", n)]
}

/// Positive features and tables.
const POSITIVE: [(&str, Fill); 3] =
    [("q", Fill::Uniform(0.0, 1.0)), ("k", Fill::Uniform(0.0, 1.0)), ("table", Fill::Uniform(0.1, 1.0))];
const POSITIVE_TOKENS: [(&str, Fill); 2] = [POSITIVE[0], POSITIVE[1]];
const NO_MASKS: &[&str] = &["key_mask", "query_mask", "segment"];
const NO_SEGMENT: &[&str] = &["segment"];

fn line() -> Vec<u8> {
    Params::default_bytes()
}

/// A grid of these sides after `globals` tokens, with `torus` axes.
fn grid(sides: [u32; 3], globals: u32, torus: u32) -> Params {
    Params { n1: sides[0], n2: sides[1], n3: sides[2], globals, torus, ..Params::default() }
}

/// A plane whose tokens see those up to `far` rows and columns away.
fn window(sides: [u32; 2], far: u32) -> Params {
    let [first2, first3] = sides.map(|side| side - 1 - far);
    let [last2, last3] = sides.map(|side| side - 1 + far);
    Params { first2, last2, first3, last3, ..grid([1, sides[0], sides[1]], 0, 0) }
}

/// Four segments of 1, 0 (no row at all), 30 and 13 tokens, then rows of no segment, of which the last hold nothing.
pub(crate) fn segments(dims: &Dims) -> HostData {
    let n = dims.size("n");
    let lengths = [1, 30, 13];
    let mut list = Vec::new();
    let mut from = 0;
    for length in lengths {
        for _ in 0..length {
            list.extend([from, from + length]);
        }
        from += length;
    }
    list.resize(2 * n as usize, 0);
    HostData::U32(list)
}

/// Positive numbers, except garbage in the odd tokens, which `odd_left_out` leaves out.
fn garbage_in_odd(columns: &'static str) -> impl Fn(&Dims) -> HostData {
    move |dims| {
        let (n, c) = (dims.at("n"), dims.at(columns));
        let garbage = [f32::NAN, 3e38, -3e38, f32::INFINITY];
        let number =
            |i: usize| if i / c % n % 2 == 1 { garbage[i % 4] } else { ((i * 37) % 101) as f32 / 101.0 };
        HostData::F32((0..dims.batches() as usize * n * c).map(number).collect())
    }
}

fn garbage_features(dims: &Dims) -> HostData {
    garbage_in_odd("r")(dims)
}

fn garbage_values(dims: &Dims) -> HostData {
    garbage_in_odd("e")(dims)
}

fn odd_left_out(dims: &Dims) -> HostData {
    HostData::U8(
        (0..dims.batches() as usize * dims.at("n"))
            .map(|i| u8::from((i % dims.at("n")).is_multiple_of(2)))
            .collect(),
    )
}

/// As [`garbage_in_odd`] in the rows that [`segments`] leaves over.
fn garbage_in_slack(columns: &'static str) -> impl Fn(&Dims) -> HostData {
    move |dims| {
        let (n, c) = (dims.at("n"), dims.at(columns));
        let number = |i: usize| {
            if i / c % n >= 44 { [f32::NAN, 3e38][i % 2] } else { ((i * 37) % 101) as f32 / 101.0 }
        };
        HostData::F32((0..dims.batches() as usize * n * c).map(number).collect())
    }
}

fn slack_features(dims: &Dims) -> HostData {
    garbage_in_slack("r")(dims)
}

fn slack_values(dims: &Dims) -> HostData {
    garbage_in_slack("e")(dims)
}

/// Large and tiny entries side by side, and zeros.
fn steep(dims: &Dims) -> HostData {
    let entry = |i: usize| [1e4, 1e-3, 0.0, 1.0, 1e-6][i % 5];
    HostData::F32((0..dims.at("tables") * dims.at("t")).map(entry).collect())
}

/// Rows word by word.
const IN_CUDA: cuda::Source = cuda::Source {
    constants: |_| vec![("FOURS", Constant::Bool(false))],
    ..cuda_source!("mask/relative_attention.cu", 128, |d, _| groups(d, d.batches(), 64, 64)).with(&[
        cuda::VECTORS,
        cuda::ASYNC,
        cuda_shared!("shared/pairs.cuh"),
        cuda_shared!("mask/relative.cuh"),
    ])
};

/// The kernel's description.
pub static SPEC: KernelSpec = KernelSpec {
    name: "relative_attention",
    family: "mask",
    formula: "out[i] = Σⱼ T[i−j] ⟨q[i],k[j]⟩ v[j] / Σⱼ T[i−j] ⟨q[i],k[j]⟩, or the sums and the denominator",
    source: "Choromanski et al., arXiv 2107.07999: block-Toeplitz masks, by definition",
    ports: &[
        Port::read("q", &["b", "h", "n", "r"]),
        Port::read("k", &["b", "h", "n", "r"]),
        Port::read("v", &["b", "h", "n", "e"]),
        Port::read("table", &["tables", "t"]).optional(),
        Port::read("key_mask", &["b", "h", "n"]).of(DType::U8).broadcast().optional(),
        Port::read("query_mask", &["b", "h", "n"]).of(DType::U8).broadcast().optional(),
        Port::read("segment", &["s", "2"]).of(DType::U32).optional(),
        Port::write("out", &["b", "h", "n", "p"]),
    ],
    params: Params::FIELDS,
    defaults: Params::default_bytes,
    output_dims: None,
    check,
    wgpu: OnWgpu::Shader(VARIANTS),
    cuda: OnCuda::Source(&[
        cuda::Source {
            name: "vec4",
            vec4: &["q", "k", "v"],
            constants: |_| vec![("FOURS", Constant::Bool(true))],
            ..IN_CUDA
        },
        IN_CUDA,
    ]),
    reference: reference!(reference),
    window: whole_heads,
    cost,
    tolerance: Tolerance::SUMS,
    cases: &[
        Case::new(
            "smallest",
            &[("b", 1), ("h", 1), ("n", 1), ("r", 1), ("e", 1), ("p", 1), ("tables", 1), ("t", 1)],
            line,
        )
        .without(NO_MASKS)
        .filled(&POSITIVE),
        Case::new("odd", &sizes(67, 5, 3, 3, 133), line).without(NO_MASKS).filled(&POSITIVE),
        Case::new("line_texels", &sizes(70, 8, 12, 12, 139), line).without(NO_MASKS).filled(&POSITIVE),
        Case::new("tile", &sizes(64, 16, 64, 64, 127), line).without(NO_MASKS).filled(&POSITIVE),
        Case::new("tile_plus_one", &sizes(65, 17, 65, 65, 129), line).without(NO_MASKS).filled(&POSITIVE),
        Case::new("tile_minus_one", &sizes(63, 15, 31, 31, 125), line).without(NO_MASKS).filled(&POSITIVE),
        Case::new("deep_texels", &sizes(37, 100, 72, 72, 73), line).without(NO_MASKS).filled(&POSITIVE),
        Case::new("sums", &sizes(41, 8, 8, 9, 81), line).without(NO_MASKS).filled(&POSITIVE),
        Case::new("sums_odd", &sizes(41, 7, 5, 6, 81), line).without(NO_MASKS).filled(&POSITIVE),
        Case::new("no_table", &untabled(45, 4, 4, 4), line)
            .without(&["table", "key_mask", "query_mask", "segment"])
            .filled(&POSITIVE_TOKENS),
        Case::new(
            "one_table",
            &[("b", 2), ("h", 3), ("n", 21), ("r", 4), ("e", 4), ("p", 4), ("tables", 1), ("t", 41)],
            line,
        )
        .without(NO_MASKS)
        .filled(&POSITIVE),
        Case::new("window", &sizes(150, 8, 8, 8, 299), || {
            Params { first3: 140, last3: 155, ..Params::default() }.to_bytes()
        })
        .without(NO_MASKS)
        .filled(&POSITIVE),
        Case::new("keys_behind", &sizes(73, 8, 8, 8, 145), || {
            Params { first3: 80, last3: 90, ..Params::default() }.to_bytes()
        })
        .without(NO_MASKS)
        .filled(&POSITIVE),
        Case::new("window_of_ones", &untabled(73, 3, 4, 5), || {
            Params { first3: 70, last3: 75, ..Params::default() }.to_bytes()
        })
        .without(&["table", "key_mask", "query_mask", "segment"])
        .filled(&POSITIVE_TOKENS),
        Case::new("no_support", &sizes(20, 4, 4, 4, 39), || {
            Params { first3: 7, last3: 6, ..Params::default() }.to_bytes()
        })
        .without(NO_MASKS)
        .filled(&POSITIVE),
        Case::new("grid", &sizes(91, 8, 8, 8, 13 * 25), || grid([1, 7, 13], 0, 0).to_bytes())
            .without(NO_MASKS)
            .filled(&POSITIVE),
        Case::new("grid_window", &sizes(299, 4, 8, 8, 25 * 45), || {
            Params { first2: 9, last2: 14, first3: 20, last3: 25, ..grid([1, 13, 23], 0, 0) }.to_bytes()
        })
        .without(NO_MASKS)
        .filled(&POSITIVE),
        Case::new("grid_3d", &sizes(120, 4, 4, 4, 7 * 11 * 9), || grid([4, 6, 5], 0, 0).to_bytes())
            .without(NO_MASKS)
            .filled(&POSITIVE),
        Case::new("grid_3d_window", &sizes(168, 4, 4, 4, 11 * 7 * 13), || {
            Params { first1: 4, last1: 6, first2: 2, last2: 5, first3: 5, last3: 8, ..grid([6, 4, 7], 0, 0) }
                .to_bytes()
        })
        .without(NO_MASKS)
        .filled(&POSITIVE),
        Case::new("torus", &sizes(60, 4, 4, 4, 60), || grid([1, 6, 10], 0, 6).to_bytes())
            .without(NO_MASKS)
            .filled(&POSITIVE),
        Case::new("torus_window", &sizes(130, 4, 8, 8, 19 * 13), || {
            Params { first2: 8, last2: 11, first3: 1, last3: 4, ..grid([1, 10, 13], 0, 4) }.to_bytes()
        })
        .without(NO_MASKS)
        .filled(&POSITIVE),
        Case::new("torus_3d", &sizes(105, 5, 3, 3, 105), || {
            Params { first1: 1, last1: 1, first3: 2, last3: 3, ..grid([3, 5, 7], 0, 7) }.to_bytes()
        })
        .without(NO_MASKS)
        .filled(&POSITIVE),
        Case::new("global_tokens", &sizes(54, 4, 4, 4, 13 * 13), || grid([1, 7, 7], 5, 0).to_bytes())
            .without(NO_MASKS)
            .filled(&POSITIVE),
        Case::new("global_tokens_window", &sizes(201, 8, 4, 5, 19 * 39), || {
            Params { first2: 8, last2: 10, first3: 17, last3: 21, ..grid([1, 10, 20], 1, 0) }.to_bytes()
        })
        .without(NO_MASKS)
        .filled(&POSITIVE),
        Case::new(
            "only_global_tokens",
            &[("b", 1), ("h", 1), ("n", 6), ("r", 4), ("e", 4), ("p", 4)],
            || Params { globals: 6, ..Params::default() }.to_bytes(),
        )
        .without(&["table", "key_mask", "query_mask", "segment"])
        .filled(&POSITIVE_TOKENS),
        Case::new("packed", &packed(50, 4, 4, 4, 59), || Params { n3: 30, ..Params::default() }.to_bytes())
            .without(&["key_mask", "query_mask"])
            .filled(&[
                ("q", Fill::Made(slack_features)),
                ("k", Fill::Made(slack_features)),
                ("v", Fill::Made(slack_values)),
                ("table", Fill::Uniform(0.1, 1.0)),
                ("segment", Fill::Made(segments)),
            ]),
        Case::new("packed_window_odd", &packed(131, 7, 5, 6, 59), || {
            Params { n3: 30, first3: 25, last3: 30, ..Params::default() }.to_bytes()
        })
        .without(&["key_mask", "query_mask"])
        .filled(&[
            ("q", Fill::Made(slack_features)),
            ("k", Fill::Made(slack_features)),
            ("v", Fill::Made(slack_values)),
            ("table", Fill::Uniform(0.1, 1.0)),
            ("segment", Fill::Made(segments)),
        ]),
        Case::new(
            "masks",
            &[("b", 2), ("h", 2), ("n", 45), ("r", 8), ("e", 4), ("p", 4), ("tables", 2), ("t", 89)],
            line,
        )
        .without(NO_SEGMENT)
        .filled(&POSITIVE),
        Case::new(
            "shared_masks",
            &[("b", 2), ("h", 3), ("n", 45), ("r", 5), ("e", 4), ("p", 5), ("tables", 3), ("t", 89)],
            line,
        )
        .without(NO_SEGMENT)
        .filled(&POSITIVE)
        .shared(&["key_mask", "query_mask"]),
        Case::new("all_masked", &sizes(33, 4, 4, 4, 65), line).without(&["query_mask", "segment"]).filled(&[
            POSITIVE[0],
            POSITIVE[1],
            POSITIVE[2],
            ("key_mask", Fill::Value(0.0)),
        ]),
        Case::new("garbage_in_masked_tokens", &sizes(46, 8, 8, 8, 91), line).without(NO_SEGMENT).filled(&[
            ("q", Fill::Made(garbage_features)),
            ("k", Fill::Made(garbage_features)),
            ("v", Fill::Made(garbage_values)),
            POSITIVE[2],
            ("key_mask", Fill::Made(odd_left_out)),
            ("query_mask", Fill::Made(odd_left_out)),
        ]),
        Case::new("steep_table", &sizes(77, 8, 8, 8, 153), line).without(NO_MASKS).filled(&[
            POSITIVE[0],
            POSITIVE[1],
            ("table", Fill::Made(steep)),
        ]),
        Case::new("large_values", &sizes(40, 8, 8, 8, 79), line).without(NO_MASKS).filled(&[
            ("q", Fill::Uniform(0.0, 1e9)),
            ("k", Fill::Uniform(0.0, 1e9)),
            ("v", Fill::Uniform(-1e15, 1e15)),
            POSITIVE[2],
        ]),
        Case::new("no_row", &[("b", 1), ("h", 2), ("n", 0), ("r", 4), ("e", 4), ("p", 4)], || {
            Params { n3: 0, ..Params::default() }.to_bytes()
        })
        .without(&["table", "key_mask", "query_mask", "segment"]),
        Case::new(
            "line_1024",
            &[("b", 1), ("h", 8), ("n", 1024), ("r", 32), ("e", 32), ("p", 32), ("tables", 8), ("t", 2047)],
            line,
        )
        .without(NO_MASKS)
        .filled(&POSITIVE)
        .resized(|d| {
            d.set("t", resize::offsets(&[d.size("n")])?);
            Ok(line())
        })
        .for_bench(),
        Case::new(
            "window_9x9_of_64x64",
            &[
                ("b", 1),
                ("h", 8),
                ("n", 4096),
                ("r", 32),
                ("e", 32),
                ("p", 32),
                ("tables", 8),
                ("t", 127 * 127),
            ],
            || window([64, 64], 4).to_bytes(),
        )
        .without(NO_MASKS)
        .filled(&POSITIVE)
        .resized(|d| {
            let [rows, cols] = resize::plane(d.size("n"));
            if rows <= 4 {
                return Err(format!("a window of 9 x 9 is larger than a grid of {rows} x {cols}"));
            }
            d.set("t", resize::offsets(&[rows, cols])?);
            Ok(window([rows, cols], 4).to_bytes())
        })
        .for_bench(),
    ],
    vjp: None,
};
