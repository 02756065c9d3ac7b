//! Numerators and denominators of linear attention under a relative-position mask, with the transforms in workgroup memory:
//! nothing between the inputs and the sums ever lies in global memory.
//!
//! `out[s, i, c]` = Σ over the features l of slice s of `q[i, l]` Σⱼ M(i − j)·`k[j, l]`·[v, 1]`[j, c]`, where M is the mask whose `spectrum`
//! is given. The slices together are what [`toeplitz_attention_sums`](super::toeplitz_attention_sums) computes by passes over memory.
//!
//! * `q`, `k` `[b, h, n, r]` mapped and not negative, `v` `[b, h, n, e]`, `key_mask` `[b, h, n]`; `out` `[b, h, s, n, w]`, w = e + 1.
//! * `spectrum` `[g, l1, l2, l3, 2]`: of a circulant with powers of two for sides, see
//!   [`toeplitz_spectrum::record_of_lengths`]. `roots` `[t, 2]`: exp(−2πi k/t), t at least every length.
//!
//! A workgroup takes two value columns of one head and goes through the features one by one; the columns of the denominator pair
//! features instead, because the larger of two channels in one complex number leaks into the smaller. The box of the circulant must
//! fit workgroup memory: 2 048 places in the 16 KiB that every device has, 4 096 in 32 KiB.

use super::grid::Grid;
use super::toeplitz_spectrum::{self, transform_box};
use crate::error::Result;
use crate::graph::Graph;
use crate::kernel::wgsl_module::{BYTES, GROUP};
use crate::kernel::*;
use crate::kernels::fft::fft::flop;
use crate::kernels::fft::fft_pass::COMPLEX;
use crate::kernels::laplacian::kernel_matrix::kept;
use crate::kernels::linalg::sum_chunks;
use crate::tensor::{DType, Dims, HostData, HostTensor, Tensor};
use crate::{cuda_source, params, reference};

params! {
    /// Parameters of [`SPEC`].
    pub struct Params {
        /// tokens along the first axis
        fixed n1: u32 = 1,
        /// tokens along the second axis
        fixed n2: u32 = 1,
        /// tokens along the last axis
        fixed n3: u32 = 1,
    }
}

/// Places of the largest box: what a thread holds of a larger one would not fit its registers.
pub const MOST_PLACES: u64 = 4096;
/// Invocations of a workgroup: what every device allows.
const MOST_THREADS: u32 = 256;
/// Workgroups that keep a large GPU busy.
const BUSY: u64 = 256;

/// The lengths of the circulant for a grid of `sides`: powers of two.
pub fn lengths(sides: [u32; 3]) -> [u32; 3] {
    match sides {
        [1, 1, 1] => [1, 1, 4],
        _ => sides.map(|n| n.saturating_mul(2).saturating_sub(1).max(1).checked_next_power_of_two().unwrap_or(u32::MAX)),
    }
}

/// Places of the circulant for a grid of `sides`; `None` if there are more than [`MOST_PLACES`].
pub fn places(sides: [u32; 3]) -> Option<u32> {
    let all = lengths(sides).iter().fold(1_u64, |product, l| product.saturating_mul(u64::from(*l)));
    u32::try_from(all).ok().filter(|_| all <= MOST_PLACES)
}

/// Whether a device can hold the transforms of a grid of `sides` in workgroup memory.
pub fn fits(sides: [u32; 3], caps: &Caps) -> bool {
    places(sides).is_some_and(|all| 8 * all <= caps.workgroup_bytes && threads(all) <= caps.invocations)
}

/// Invocations of a workgroup: eight places each where there are so many.
fn threads(places: u32) -> u32 {
    (places / 8).clamp(1, MOST_THREADS)
}

/// One pass: butterflies of 2^`bits` numbers that lie 2^`lo` places apart, along an axis (1, 2 or 3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Pass {
    lo: u32,
    bits: u32,
    axis: u32,
}

/// The forward passes over a box: the last axis first, each from its highest bits down; two at least.
fn passes(lengths: [u32; 3]) -> Vec<Pass> {
    let bits = lengths.map(u32::ilog2);
    let starts = [bits[2] + bits[1], bits[2], 0];
    let axes: Vec<usize> = (0..3).rev().filter(|a| bits[*a] > 0).collect();
    let mut list = Vec::new();
    for &axis in &axes {
        // As few as radix 8 allows, as equal as they can be, the larger ones first.
        let count = bits[axis].div_ceil(3).max(if axes.len() == 1 { 2 } else { 1 });
        let mut end = starts[axis] + bits[axis];
        for i in (0..count).rev() {
            let width = (bits[axis] + i) / count;
            end -= width;
            list.push(Pass { lo: end, bits: width, axis: axis as u32 + 1 });
        }
    }
    list
}

/// Words that one channel moves in workgroup memory, read and written.
pub fn words_per_channel(sides: [u32; 3]) -> f64 {
    let lengths = lengths(sides).map(f64::from);
    let lines = |axis: usize| -> f64 { (0..3).map(|a| if a + 1 < axis { f64::from(sides[a]) } else { lengths[a] }).product() };
    let list = passes(self::lengths(sides));
    // Between two passes all numbers are written and read, on the way there and on the way back.
    list.split_last().map_or(0.0, |(_, list)| list.iter().map(|p| 4.0 * lines(p.axis as usize)).sum())
}

fn lengths_of(d: &Dims) -> [u32; 3] {
    ["l1", "l2", "l3"].map(|l| d.size(l))
}

/// Pairs of columns, those of the denominator included.
fn pairs(d: &Dims) -> u64 {
    u64::from(d.size("e").div_ceil(2)) + 1
}

/// By the definition, quadratic in the tokens, with the mask that the spectrum stands for.
fn reference<T: Real>(args: &mut HostArgs<T>) -> Result<()> {
    let p: Params = args.params();
    let [n, r, e, w, s, g, h] = ["n", "r", "e", "w", "s", "g", "h"].map(|x| args.dims.at(x));
    let lengths = lengths_of(&args.dims).map(|l| l as usize);
    let places: usize = lengths.iter().product();
    let spectrum = args.real("spectrum");
    let columns: Vec<Vec<T>> = (0..g)
        .map(|head| {
            let mut box_ = spectrum[2 * head * places..][..2 * places].chunks(2).map(|z| [z[0], z[1]]).collect::<Vec<_>>();
            transform_box(&mut box_, lengths, true);
            box_.iter().map(|z| z[0] * T::of(places as f64)).collect()
        })
        .collect();
    let [_, n2, n3] = [p.n1, p.n2, p.n3].map(|n| n as usize);
    let coordinates = |t: usize| [t / (n3 * n2), t / n3 % n2, t % n3];
    let offset = |i: usize, j: usize| {
        let (i, j) = (coordinates(i), coordinates(j));
        (0..3).fold(0, |at, a| at * lengths[a] + (i[a] + lengths[a] - j[a]) % lengths[a])
    };
    let (q, k, v, shared) = (args.real("q"), args.real("k"), args.real("v"), &*args);
    let per_slice = r.div_ceil(4 * s) * 4;
    let out = reference::rows(args.dims.batches() as usize * s, n, w, |line, i, sums| {
        let (batch, slice) = (line / s, line % s);
        let features = (slice * per_slice).min(r)..((slice + 1) * per_slice).min(r);
        let query = &q[(batch * n + i) * r..][features.clone()];
        let column = &columns[if g == 1 { 0 } else { batch % h }];
        for j in (0..n).filter(|j| kept(shared, "key_mask", batch, *j)) {
            let key = &k[(batch * n + j) * r..][features.clone()];
            let weight = column[offset(i, j)] * query.iter().zip(key).map(|(a, b)| *a * *b).sum::<T>();
            sums.iter_mut().zip(&v[(batch * n + j) * e..][..e]).for_each(|(sum, x)| *sum += weight * *x);
            sums[e] += weight;
        }
    });
    args.set("out", out);
    Ok(())
}

/// Roots of unity `[t, 2]`, exp(−2πi k/t), computed in f64.
fn roots(t: u32) -> Vec<f32> {
    let root = |k: u32| {
        let (sin, cos) = (-std::f64::consts::TAU * f64::from(k) / f64::from(t)).sin_cos();
        [cos as f32, sin as f32]
    };
    (0..t).flat_map(root).collect()
}

/// Records the sums `out` `[b, h, n, e + 1]` of `[q, k, v]` under the mask of a `table` `[g, t]`: what
/// [`toeplitz_attention_sums`](super::toeplitz_attention_sums) computes.
///
/// Few heads are cut into slices of features, one workgroup each, until they fill a GPU.
///
/// Errors: a grid that is too large for workgroup memory (see [`fits`]); shapes that do not fit.
#[track_caller]
pub fn record(
    graph: &mut Graph,
    caps: &Caps,
    grid: &Grid,
    [q, k, v, table]: [Tensor; 4],
    key_mask: Option<Tensor>,
    out: Tensor,
) -> Result<()> {
    let lengths = lengths(grid.sides);
    let spectrum = toeplitz_spectrum::record_of_lengths(graph, grid, lengths, table)?;
    let [l1, l2, l3] = lengths;
    let spectrum = graph.reshape(spectrum, [table.dim(0), l1, l2, l3, 2])?;
    let longest = l1.max(l2).max(l3);
    let roots = graph.constant("roots of unity", HostTensor::f32([longest, 2], roots(longest))?);
    let [b, h, n, w] = [0, 1, 2, 3].map(|axis| out.dim(axis));
    let groups = u64::from(b) * u64::from(h) * (u64::from((w - 1).div_ceil(2)) + 1);
    let slices = match caps.driver {
        // A slice has eight features at least, else reading its tokens and adding it up would cost too much.
        Driver::Gpu => (BUSY / groups.max(1)).clamp(1, u64::from(q.dim(3) / 8).max(1)) as u32,
        _ => 1,
    };
    let parts = if slices == 1 {
        graph.reshape(out, [b, h, 1, n, w])?
    } else {
        graph.transient("sums of slices of features", [b, h, slices, n, w], DType::F32)
    };
    let [n1, n2, n3] = grid.sides;
    let args = [Some(q), Some(k), Some(v), Some(spectrum), Some(roots), key_mask, Some(parts)];
    graph.pass(&SPEC, &Params { n1, n2, n3 }, &args)?;
    if slices > 1 {
        let parts = graph.reshape(parts, [b, h, slices, n * w])?;
        let sums = graph.reshape(out, [b, h, n * w])?;
        graph.pass(&sum_chunks::SPEC, &sum_chunks::Params::default(), &[Some(parts), None, Some(sums)])?;
    }
    Ok(())
}

fn check(d: &Dims, params: &[u8]) -> std::result::Result<(), String> {
    let p = Params::from_bytes(params);
    let (sides, lengths) = ([p.n1, p.n2, p.n3], lengths_of(d));
    let tokens: u64 = sides.iter().map(|n| u64::from(*n)).product();
    if tokens != u64::from(d.size("n")) || tokens == 0 {
        return Err(format!("n1 · n2 · n3 is the number of tokens {}, got {sides:?}", d.size("n")));
    }
    let holds = |n: u32, l: u32| l.is_power_of_two() && (n == 1 || n <= l / 2);
    let all = lengths.iter().fold(1_u64, |product, l| product.saturating_mul(u64::from(*l)));
    if !sides.iter().zip(lengths).all(|(n, l)| holds(*n, l)) || !(4..=MOST_PLACES).contains(&all) {
        return Err(format!(
            "the spectrum's sides are powers of two, twice the tokens at least, 4 to {MOST_PLACES} places in all; got {lengths:?} for \
             {sides:?}: larger grids are for toeplitz_attention_sums"
        ));
    }
    let longest = lengths.iter().copied().max().unwrap_or(1);
    if !d.size("t").is_power_of_two() || d.size("t") < longest {
        return Err(format!("roots has a power of two of rows, {longest} at least, got {}", d.size("t")));
    }
    if ![1, d.size("h")].contains(&d.size("g")) {
        return Err(format!("spectrum has one for each of {} heads, or one for all, got {}", d.size("h"), d.size("g")));
    }
    let (r, e, w, s) = (d.size("r"), d.size("e"), d.size("w"), d.size("s"));
    if r == 0 || e == 0 || w != e + 1 || s == 0 {
        return Err(format!(
            "out has a slice of features or more, a column for each channel of v and one for the denominator, got r = {r}, e = {e}, \
             s = {s}, w = {w}"
        ));
    }
    Ok(())
}

fn constants(d: &Dims) -> Vec<(&'static str, Constant)> {
    let mut all = places_and_passes(d);
    all.push(("THREADS", Constant::U32(threads(lengths_of(d).map(|l| l.max(1)).iter().product()))));
    all
}

fn places_and_passes(d: &Dims) -> Vec<(&'static str, Constant)> {
    const NAMES: [[&str; 3]; 6] = [
        ["LO0", "BITS0", "AXIS0"],
        ["LO1", "BITS1", "AXIS1"],
        ["LO2", "BITS2", "AXIS2"],
        ["LO3", "BITS3", "AXIS3"],
        ["LO4", "BITS4", "AXIS4"],
        ["LO5", "BITS5", "AXIS5"],
    ];
    let lengths = lengths_of(d).map(|l| l.max(1));
    let [a1, a2, a3] = lengths.map(u32::ilog2);
    let places = lengths.iter().product::<u32>();
    let list = passes(lengths);
    let mut all = vec![
        ("PLACES", places),
        ("PASSES", list.len() as u32),
        ("ROOTS", d.size("t").max(1).ilog2()),
        ("A1", a1),
        ("A2", a2),
        ("A3", a3),
    ];
    for (i, names) in NAMES.iter().enumerate() {
        let pass = list.get(i).copied().unwrap_or(Pass { lo: 0, bits: 0, axis: 3 });
        all.extend(names.iter().copied().zip([pass.lo, pass.bits, pass.axis]));
    }
    all.into_iter().map(|(name, value)| (name, Constant::U32(value))).collect()
}

/// Loop rounds of an invocation: features, and for each a few rounds in every pass.
fn rounds(d: &Dims) -> u64 {
    let lengths = lengths_of(d).map(|l| l.max(1));
    let all = lengths.iter().product::<u32>();
    let per_pass = |p: &Pass| u64::from((all >> p.bits).div_ceil(threads(all)));
    let per_feature: u64 = passes(lengths).iter().map(|p| 2 * per_pass(p)).sum();
    let held = u64::from(all / threads(all));
    u64::from(d.size("r").div_ceil(d.size("s").max(1)) + 4) * (1 + per_feature + held) + 4 * held
}

fn cost(d: &Dims, params: &[u8]) -> Cost {
    let p = Params::from_bytes(params);
    let (sides, lengths) = ([p.n1, p.n2, p.n3].map(f64::from), lengths_of(d));
    let [n, r, e, w, s] = ["n", "r", "e", "w", "s"].map(|x| f64::from(d.size(x)));
    let batches = d.batches() as f64;
    let lines = |axis: usize| {
        (0..3)
            .filter(|a| *a != axis)
            .map(|a| if a < axis { sides[a] } else { f64::from(lengths[a]) })
            .product::<f64>()
    };
    let transforms: f64 = (0..3).filter(|a| lengths[*a] > 1).map(|a| 2.0 * lines(a) * flop(lengths[a])).sum();
    let places: f64 = lengths.iter().map(|l| f64::from(*l)).product();
    Cost {
        flop: batches * r * w * ((transforms + 6.0 * places) / 2.0 + 3.0 * n),
        exp: 0.0,
        stores: batches * s * n * w,
        bytes: 4.0 * (batches * n * (2.0 * r + e + s * w) + f64::from(d.size("g")) * 2.0 * places),
        ..Cost::default()
    }
}

fn loads(d: &Dims, _: &[u8]) -> Loads {
    let [n, r, e] = ["n", "r", "e"].map(|x| f64::from(d.size(x)));
    let lengths = lengths_of(d).map(|l| l.max(1));
    let all = f64::from(lengths.iter().product::<u32>());
    let (count, pairs) = (passes(lengths).len() as f64, pairs(d) as f64);
    // Features come four at a time for every pair; each pass but one has a root or three for eight places.
    let roots = 6.0 * all / 8.0 * 2.0 * (count - 1.0);
    Loads {
        storage: pairs * (2.0 * n * r + n * e + 2.0 * all) + r * pairs * roots,
        workgroup: r * pairs * 2.0 * all * (2.0 * count - 2.0),
        ..Loads::default()
    }
}

/// A spectrum of positive weights that fall with distance, by its definition: the transform of the circulant of a table.
fn spectrum(d: &Dims) -> HostData {
    let lengths = lengths_of(d).map(|l| l as usize);
    let places: usize = lengths.iter().product();
    let of_head = |head: usize| {
        let weight = |place: usize| {
            let at = [place / (lengths[1] * lengths[2]), place / lengths[2] % lengths[1], place % lengths[2]];
            let far: f64 = (0..3)
                .map(|a| {
                    // Uneven: the mask and its transpose differ.
                    let (c, l) = (at[a] as f64, lengths[a] as f64);
                    if 2.0 * c < l { 0.3 * c } else { 0.2 * (l - c) }
                })
                .sum();
            [1.0 / (1.0 + far + head as f64) / places as f64, 0.0]
        };
        let mut numbers: Vec<[f64; 2]> = (0..places).map(weight).collect();
        transform_box(&mut numbers, lengths, false);
        numbers.into_iter().flatten().map(|x| x as f32)
    };
    HostData::F32((0..d.at("g")).flat_map(of_head).collect())
}

fn roots_of(d: &Dims) -> HostData {
    HostData::F32(roots(d.size("t")))
}

const FILLS: [(&str, Fill); 4] = [
    ("q", Fill::Uniform(0.0, 1.0)),
    ("k", Fill::Uniform(0.0, 1.0)),
    ("spectrum", Fill::Made(spectrum)),
    ("roots", Fill::Made(roots_of)),
];
const BARE: &[&str] = &["key_mask"];

/// Sizes of a case: b, h; n, r, e; heads with a spectrum of their own; lengths; slices.
const fn sizes([b, h]: [u32; 2], [n, r, e]: [u32; 3], g: u32, [l1, l2, l3]: [u32; 3], s: u32) -> [(&'static str, u32); 12] {
    let longest = if l3 > l2 { l3 } else { l2 };
    let longest = if longest > l1 { longest } else { l1 };
    [
        ("b", b),
        ("h", h),
        ("n", n),
        ("r", r),
        ("e", e),
        ("w", e + 1),
        ("g", g),
        ("l1", l1),
        ("l2", l2),
        ("l3", l3),
        ("t", longest),
        ("s", s),
    ]
}

fn grid<const A: u32, const B: u32, const C: u32>() -> Vec<u8> {
    Params { n1: A, n2: B, n3: C }.to_bytes()
}

/// A case on a grid of other sides: transforms of the least powers of two that hold them twice.
fn resized(d: &mut Dims, sides: [u32; 3]) -> std::result::Result<Vec<u8>, String> {
    let mut longest = 1;
    for (name, side) in ["l1", "l2", "l3"].into_iter().zip(sides) {
        let twice = resize::product(&[side, 2])?.checked_next_power_of_two();
        let length = twice.filter(|_| side > 1).unwrap_or(side);
        d.set(name, length);
        longest = longest.max(length);
    }
    d.set("t", longest);
    let [n1, n2, n3] = sides;
    Ok(Params { n1, n2, n3 }.to_bytes())
}

/// Blocks of so many threads, each with eight places or fewer.
const fn in_cuda<const T: u32>(name: &'static str) -> cuda::Source {
    cuda::Source {
        name,
        constants: places_and_passes,
        suits: |d, _| lengths_of(d).iter().product::<u32>() <= 8 * T,
        ..cuda_source!("mask/toeplitz_attention_fused.cu", T, |d, _| d.batches() * u64::from(d.size("s")) * pairs(d))
            .with(COMPLEX)
    }
}

/// The kernel's description.
pub static SPEC: KernelSpec = KernelSpec {
    name: "toeplitz_attention_fused",
    family: "mask",
    formula: "out[i, c] = Σₗ q[i, l] Σⱼ table[i − j] k[j, l] [v, 1][j, c], transforms in workgroup memory",
    source: "arXiv 2107.07999, algorithm 1; decimation in frequency and back in time",
    ports: &[
        Port::read("q", &["b", "h", "n", "r"]),
        Port::read("k", &["b", "h", "n", "r"]),
        Port::read("v", &["b", "h", "n", "e"]),
        Port::read("spectrum", &["g", "l1", "l2", "l3", "2"]),
        Port::read("roots", &["t", "2"]),
        Port::read("key_mask", &["b", "h", "n"]).of(DType::U8).broadcast().optional(),
        Port::write("out", &["b", "h", "s", "n", "w"]),
    ],
    params: Params::FIELDS,
    defaults: Params::default_bytes,
    output_dims: Some(|d, _| {
        d.set("s", 1);
        d.set("w", d.size("e") + 1);
    }),
    check,
    wgpu: OnWgpu::Shader(&[Variant {
        name: "workgroup",
        file: "mask/toeplitz_attention_fused.wgsl",
        body: include_str!("../../../shaders/mask/toeplitz_attention_fused.wgsl"),
        shared: &[GROUP, BYTES],
        preferred_on: &[Driver::Gpu, Driver::Llvmpipe, Driver::SwiftShader],
        classes: &[],
        vec4: &[],
        constants,
        suits: |d, _, caps| {
            let all = lengths_of(d).iter().product::<u32>();
            8 * all <= caps.workgroup_bytes && threads(all) <= caps.invocations
        },
        grid: |d, batches| batches * u64::from(d.size("s")) * pairs(d),
        loads,
        rounds,
        subgroup_lanes: 0,
    }]),
    cuda: OnCuda::Source(&[
        in_cuda::<32>("threads32"),
        in_cuda::<64>("threads64"),
        in_cuda::<128>("threads128"),
        cuda::Source { suits: |_, _| true, ..in_cuda::<256>("threads256") },
    ]),
    reference: reference!(reference),
    window: whole_heads,
    cost,
    tolerance: Tolerance {
        factor: 2.0,
        floor: 16.0 * f32::EPSILON as f64,
        reason: "method tables 2.2 and 2.3: transforms spread errors of 2e-7 to 5e-7 of the largest value over all rows",
    },
    cases: &[
        Case::new("smallest", &sizes([1, 1], [1, 1, 1], 1, [1, 1, 4], 1), grid::<1, 1, 1>).without(BARE).filled(&FILLS),
        Case::new("odd", &sizes([2, 3], [17, 5, 3], 3, [1, 1, 64], 1), grid::<1, 1, 17>).filled(&FILLS),
        Case::new("line_4", &sizes([1, 1], [2, 3, 2], 1, [1, 1, 4], 1), grid::<1, 1, 2>).without(BARE).filled(&FILLS),
        Case::new("line_8", &sizes([1, 2], [3, 4, 5], 1, [1, 1, 8], 1), grid::<1, 1, 3>).without(BARE).filled(&FILLS),
        Case::new("line_16_slices", &sizes([1, 2], [8, 17, 4], 1, [1, 1, 16], 3), grid::<1, 1, 8>).filled(&FILLS),
        Case::new("line_128", &sizes([1, 1], [57, 3, 2], 1, [1, 1, 128], 1), grid::<1, 1, 57>).without(BARE).filled(&FILLS),
        Case::new("line_512", &sizes([1, 1], [257, 2, 3], 1, [1, 1, 1024], 1), grid::<1, 1, 257>).filled(&FILLS),
        Case::new("line_2048", &sizes([1, 1], [1000, 3, 1], 1, [1, 1, 2048], 1), grid::<1, 1, 1000>).without(BARE).filled(&FILLS),
        Case::new("line_4096", &sizes([1, 1], [1500, 2, 2], 1, [1, 1, 4096], 1), grid::<1, 1, 1500>).without(BARE).filled(&FILLS),
        Case::new("first_axis", &sizes([1, 1], [9, 5, 3], 1, [32, 1, 1], 1), grid::<9, 1, 1>).filled(&FILLS),
        Case::new("plane_7x11", &sizes([1, 2], [77, 8, 4], 2, [1, 16, 32], 1), grid::<1, 7, 11>).without(BARE).filled(&FILLS),
        Case::new("masked_plane", &sizes([2, 2], [99, 4, 8], 1, [1, 32, 32], 2), grid::<1, 9, 11>)
            .filled(&FILLS)
            .shared(&["key_mask"]),
        Case::new("outer_axes", &sizes([1, 1], [15, 4, 4], 1, [8, 16, 1], 1), grid::<3, 5, 1>).without(BARE).filled(&FILLS),
        Case::new("space_4x6x5", &sizes([1, 2], [120, 3, 5], 2, [8, 16, 16], 1), grid::<4, 6, 5>).filled(&FILLS),
        Case::new("space_2x1x33", &sizes([1, 1], [66, 4, 2], 1, [4, 1, 128], 1), grid::<2, 1, 33>).without(BARE).filled(&FILLS),
        Case::new("six_passes", &sizes([1, 1], [336, 2, 1], 1, [16, 16, 16], 1), grid::<6, 8, 7>).without(BARE).filled(&FILLS),
        Case::new("no_keys", &sizes([1, 1], [20, 4, 4], 1, [1, 8, 16], 1), grid::<1, 4, 5>).filled(&[
            FILLS[0],
            ("k", Fill::Value(3e38)),
            ("v", Fill::Value(3e38)),
            FILLS[2],
            FILLS[3],
            ("key_mask", Fill::Value(0.0)),
        ]),
        Case::new("plane_16x16", &sizes([1, 8], [256, 32, 32], 1, [1, 32, 32], 1), grid::<1, 16, 16>)
            .without(BARE)
            .filled(&FILLS)
            .resized(|d| {
                let [rows, cols] = resize::plane(d.size("n"));
                resized(d, [1, rows, cols])
            })
            .for_bench(),
        Case::new("line_1024", &sizes([1, 8], [1024, 32, 32], 1, [1, 1, 2048], 1), grid::<1, 1, 1024>)
            .without(BARE)
            .filled(&FILLS)
            .resized(|d| resized(d, [1, 1, d.size("n")]))
            .for_bench(),
    ],
    vjp: None,
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn passes_cover_every_bit_once() {
        for lengths in [[1, 1, 4], [1, 1, 2048], [32, 1, 1], [4, 1, 128], [8, 16, 16], [2, 4, 512], [16, 16, 16], [1, 2, 2]] {
            let list = passes(lengths);
            let places: u32 = lengths.iter().product();
            let covered = list.iter().map(|p| ((1 << p.bits) - 1) << p.lo).fold(0, |all, bits| {
                assert_eq!(all & bits, 0, "{lengths:?}: {list:?}");
                all | bits
            });
            assert_eq!(covered, places - 1, "{lengths:?}: {list:?}");
            assert!((2..=6).contains(&list.len()), "{lengths:?}: {list:?}");
            assert!(list.iter().all(|p| (1..=3).contains(&p.bits)), "{lengths:?}: {list:?}");
        }
    }
}
