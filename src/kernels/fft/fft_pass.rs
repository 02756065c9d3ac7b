//! One pass of a transform: butterflies of one radix along one axis, for all lines at once, in Stockham's order.
//!
//! `y[(i−k)·R + k + j·p]` = Σₗ x`[i + l·m]`·w^(k·l)·exp(−2πi jl/R), k = i mod p, w = exp(−2πi/(p·R)), 0 ≤ i < m = L/R.
//!
//! * `x` `[b, h, o, n, a]`: `o` lines beside one another, `n` ≤ L numbers of each (the rest are zeros that nobody stores), `a` words:
//!   `a/2` complex numbers of neighbouring lines, real and imaginary parts in turn. `y` `[b, h, o, l, e]` alike, the first `l` outputs.
//! * `w` `[t, g]`: t = p rows of twiddles (see [`twiddles`]).
//! * `s` `[r, f, 2]`: makes the pass the last forward one, a product with a spectrum, and the first inverse one.
//!
//! The rows of `x` or `y` may be wider than the part worked on (`x_from`, `y_from`), or lie in blocks of words that each hold all
//! rows: that is how channels are taken in slices without copying them. Lines that lie further apart need no transposes.

use crate::error::Result;
use crate::kernel::wgsl_module::{GROUP, Shared, TEXELS};
use crate::kernel::*;
use crate::kernels::fft::plan::{powers, twiddles};
use crate::{cuda_shared, cuda_source, params, reference};
use crate::tensor::{Dims, HostData};

params! {
    /// Parameters of [`SPEC`].
    pub struct Params {
        /// inputs of a butterfly: 2, 3, 4, 8, 16 or 32; 64 where that is the whole transform
        fixed radix: u32 = 2,
        /// 1: an inverse transform, without its factor 1/L
        fixed inverse: u32 = 0,
        /// 1: x lies in blocks of x_block words; 2: y in blocks of y_block; 3: both
        fixed blocked: u32 = 0,
        /// first word of x's rows
        live x_from: u32 = 0,
        /// first word of y's rows
        live y_from: u32 = 0,
        /// words of a block of x
        live x_block: u32 = 0,
        /// words of a block of y
        live y_block: u32 = 0,
        /// words with the same place on all axes, for the spectrum
        live channels: u32 = 2,
        /// heads in a row with the same spectrum
        live per: u32 = 1,
        /// factor of the outputs
        live scale: f32 = 1.0,
    }
}

/// Butterflies of a line: the last pass has a twiddle for each, and those before it have all outputs.
fn butterflies(d: &Dims, radix: u32) -> u32 {
    d.size("t").max(d.size("l").div_ceil(radix))
}

/// Groups of four words of a row.
fn quads(d: &Dims) -> u32 {
    d.size("a").div_ceil(4).min(d.size("e").div_ceil(4))
}

/// Word `q` of a row of a head, as in the shader.
fn word(rows: usize, row: usize, width: usize, block: Option<usize>, q: usize) -> usize {
    match block {
        None => row * width + q,
        Some(block) => (q / block * rows + row) * block + q % block,
    }
}

/// Places in a row of twiddles of the factors of w^j.
fn powers_in(radix: u32, j: usize) -> Vec<usize> {
    if radix <= 16 {
        return (0..4).filter(|bit| j >> bit & 1 == 1).collect();
    }
    let (eights, ones) = (j / 8, j % 8);
    [ones.checked_sub(1), eights.checked_sub(1).map(|e| e + 7)].into_iter().flatten().collect()
}

fn times<T: Real>(a: [T; 2], b: [T; 2]) -> [T; 2] {
    [a[0] * b[0] - a[1] * b[1], a[0] * b[1] + a[1] * b[0]]
}

/// DFT of a few numbers by its definition.
fn dft<T: Real>(u: &[[T; 2]]) -> Vec<[T; 2]> {
    let radix = u.len();
    let root = |at: usize| {
        let (sin, cos) = (-std::f64::consts::TAU * (at % radix) as f64 / radix as f64).sin_cos();
        [T::of(cos), T::of(sin)]
    };
    let sum = |j: usize| {
        u.iter().enumerate().fold([T::zero(); 2], |sum, (l, z)| {
            let term = times(*z, root(j * l));
            [sum[0] + term[0], sum[1] + term[1]]
        })
    };
    (0..radix).map(sum).collect()
}

fn reference<T: Real>(args: &mut HostArgs<T>) -> Result<()> {
    let p: Params = args.params();
    let [o, n, l, a, e, t, g, spectra, f] =
        ["o", "n", "l", "a", "e", "t", "g", "r", "f"].map(|x| args.dims.at(x));
    let (radix, m) = (p.radix as usize, butterflies(&args.dims, p.radix) as usize);
    let (x, w, s) = (args.real("x"), args.real("w"), args.real_if("s"));
    let pairs = 2 * quads(&args.dims) as usize;
    let block = |bit: u32, words: u32| (p.blocked & bit != 0).then_some(words as usize);
    let (x_block, y_block) = (block(1, p.x_block), block(2, p.y_block));
    let mut y = vec![T::zero(); args.dims.batches() as usize * o * l * e];
    for head in 0..args.dims.batches() as usize {
        let (from, to) = (&x[head * o * n * a..][..o * n * a], head * o * l * e);
        for item in 0..o * m * pairs {
            let (line, i, q) = (item / (m * pairs), item / pairs % m, 2 * (item % pairs));
            let k = i % t;
            let swap = |z: [T; 2]| [z[1], z[0]];
            let input = |j: usize| {
                let (number, column) = (i + j * m, p.x_from as usize + q);
                let part = |c: usize| match number < n && column + c < a {
                    true => from[word(o * n, line * n + number, a, x_block, column + c)],
                    false => T::zero(),
                };
                let z = [part(0), part(1)];
                let used = powers_in(p.radix, j).into_iter().filter(|_| t > 1);
                let power = used.map(|at| [w[k * g + 2 * at], w[k * g + 2 * at + 1]]);
                times(if p.inverse != 0 { swap(z) } else { z }, power.fold([T::one(), T::zero()], times))
            };
            let mut z = dft(&(0..radix).map(input).collect::<Vec<_>>());
            if let Some(s) = &s {
                let places = a / p.channels as usize;
                let spectrum = head / p.per as usize % spectra;
                for (j, z) in z.iter_mut().enumerate() {
                    let at = 2
                        * (spectrum * f + (line * radix * m + i + j * m) * places + q / p.channels as usize);
                    *z = swap(times(*z, [s[at], s[at + 1]]));
                }
                z = dft(&z);
            }
            for (j, z) in z.into_iter().enumerate() {
                let number = if s.is_some() { i * radix + j } else { (i - k) * radix + k + j * t };
                let z = if p.inverse != 0 || s.is_some() { swap(z) } else { z };
                let column = p.y_from as usize + q;
                for c in (0..2).filter(|c| number < l && column + c < e) {
                    y[to + word(o * l, line * l + number, e, y_block, column + c)] =
                        z[c] * T::of(f64::from(p.scale));
                }
            }
        }
    }
    args.set("y", y);
    Ok(())
}

/// CUDA text of transforms in registers.
pub(crate) const COMPLEX: &[&cuda::Shared] = &[cuda::VECTORS, cuda_shared!("fft/complex.cuh")];

pub(super) const PARTS: &Shared =
    &Shared { file: "fft/parts.wgsl", body: include_str!("../../../shaders/fft/parts.wgsl") };
const PASS: &Shared = &Shared { file: "fft/pass.wgsl", body: include_str!("../../../shaders/fft/pass.wgsl") };
const RADIX2: &Shared =
    &Shared { file: "fft/radix2.wgsl", body: include_str!("../../../shaders/fft/radix2.wgsl") };
const RADIX3: &Shared =
    &Shared { file: "fft/radix3.wgsl", body: include_str!("../../../shaders/fft/radix3.wgsl") };
const RADIX4: &Shared =
    &Shared { file: "fft/radix4.wgsl", body: include_str!("../../../shaders/fft/radix4.wgsl") };
const RADIX8: &Shared =
    &Shared { file: "fft/radix8.wgsl", body: include_str!("../../../shaders/fft/radix8.wgsl") };
const DFT8: &Shared = &Shared { file: "fft/dft8.wgsl", body: include_str!("../../../shaders/fft/dft8.wgsl") };
const RADIX32: &Shared =
    &Shared { file: "fft/radix32.wgsl", body: include_str!("../../../shaders/fft/radix32.wgsl") };
const RADIX64: &Shared =
    &Shared { file: "fft/radix64.wgsl", body: include_str!("../../../shaders/fft/radix64.wgsl") };
const RADIX16: &Shared =
    &Shared { file: "fft/radix16.wgsl", body: include_str!("../../../shaders/fft/radix16.wgsl") };

/// What the text leaves out or guards: inputs that are zero, outputs that nobody wants.
fn constants<const R: u32>(d: &Dims) -> Vec<(&'static str, Constant)> {
    let m = butterflies(d, R).max(1);
    let (filled, stored) = (d.size("n").div_ceil(m).min(R), d.size("l").div_ceil(m));
    vec![
        ("TWIDDLED", Constant::Bool(d.size("t") > 1)),
        ("FILLED", Constant::U32(filled)),
        ("STORED", Constant::U32(stored)),
        ("RAGGED_INPUT", Constant::Bool(filled * m != d.size("n"))),
        ("RAGGED_OUTPUT", Constant::Bool(stored * m != d.size("l"))),
    ]
}

fn of_radix(params: &[u8], radix: u32) -> bool {
    Params::from_bytes(params).radix == radix
}

/// Rows of whole texels, and parts of them that begin with one.
fn whole(d: &Dims, params: &[u8]) -> bool {
    let p = Params::from_bytes(params);
    let blocks = [(1, p.x_block), (2, p.y_block)]
        .into_iter()
        .filter(|(bit, _)| p.blocked & bit != 0)
        .map(|(_, words)| words);
    [d.size("a"), d.size("e"), p.x_from, p.y_from]
        .into_iter()
        .chain(blocks)
        .all(|words| words.is_multiple_of(4))
}

/// Words read by one head: inputs, twiddles, and with a spectrum two more for each output.
fn words(d: &Dims, radix: u32) -> [f64; 3] {
    let [o, n, t] = ["o", "n", "t"].map(|x| f64::from(d.size(x)));
    let (rows, quads) = (o * f64::from(butterflies(d, radix)), f64::from(quads(d)));
    let factors = if d.size("f") > 0 { rows * quads * f64::from(radix) } else { 0.0 };
    [4.0 * o * n * quads, if t > 1.0 { rows * quads * f64::from(d.size("g")) } else { 0.0 }, factors]
}

fn groups<const R: u32>(d: &Dims, batches: u64) -> u64 {
    batches * (u64::from(d.size("o")) * u64::from(butterflies(d, R)) * u64::from(quads(d))).div_ceil(64)
}

const fn radix_text(radix: u32) -> &'static [&'static Shared] {
    match radix {
        2 => &[GROUP, PARTS, PASS, RADIX2],
        3 => &[GROUP, PARTS, PASS, RADIX3],
        4 => &[GROUP, PARTS, PASS, RADIX4],
        8 => &[GROUP, PARTS, PASS, DFT8, RADIX8],
        16 => &[GROUP, PARTS, PASS, RADIX16],
        32 => &[GROUP, PARTS, PASS, DFT8, RADIX32],
        _ => &[GROUP, PARTS, PASS, DFT8, RADIX64],
    }
}

const fn texel_text(radix: u32) -> &'static [&'static Shared] {
    match radix {
        2 => &[GROUP, TEXELS, PARTS, PASS, RADIX2],
        3 => &[GROUP, TEXELS, PARTS, PASS, RADIX3],
        4 => &[GROUP, TEXELS, PARTS, PASS, RADIX4],
        8 => &[GROUP, TEXELS, PARTS, PASS, DFT8, RADIX8],
        16 => &[GROUP, TEXELS, PARTS, PASS, RADIX16],
        32 => &[GROUP, TEXELS, PARTS, PASS, DFT8, RADIX32],
        _ => &[GROUP, TEXELS, PARTS, PASS, DFT8, RADIX64],
    }
}

const SOFTWARE: &[Driver] = &[Driver::Llvmpipe, Driver::SwiftShader];

const fn texture<const R: u32>(name: &'static str) -> Variant {
    Variant {
        name,
        file: "fft/fft_pass_texture.wgsl",
        body: include_str!("../../../shaders/fft/fft_pass_texture.wgsl"),
        shared: texel_text(R),
        preferred_on: SOFTWARE,
        classes: &[("x", Class::Texture), ("w", Class::Texture)],
        vec4: &["x", "w", "y"],
        constants: constants::<R>,
        suits: |d, params, _| of_radix(params, R) && d.size("f") == 0 && whole(d, params),
        grid: groups::<R>,
        loads: |d, _| {
            let [x, w, _] = words(d, R);
            Loads { texture: x + w, ..Loads::default() }
        },
        rounds: few_rounds,
        subgroup_lanes: 0,
    }
}

const fn filter<const R: u32>(name: &'static str) -> Variant {
    Variant {
        file: "fft/fft_pass_filter.wgsl",
        body: include_str!("../../../shaders/fft/fft_pass_filter.wgsl"),
        classes: &[("x", Class::Texture), ("w", Class::Texture), ("s", Class::Texture)],
        suits: |d, params, _| of_radix(params, R) && d.size("f") > 0 && whole(d, params),
        loads: |d, _| {
            let [x, w, s] = words(d, R);
            // A texel holds two factors, of which one is wanted.
            Loads { texture: x + w + 4.0 * s, ..Loads::default() }
        },
        ..texture::<R>(name)
    }
}

const fn vec4<const R: u32>(name: &'static str) -> Variant {
    Variant {
        file: "fft/fft_pass_vec4.wgsl",
        body: include_str!("../../../shaders/fft/fft_pass_vec4.wgsl"),
        shared: radix_text(R),
        preferred_on: &[Driver::Gpu],
        classes: &[],
        suits: |d, params, _| of_radix(params, R) && whole(d, params),
        loads: |d, _| {
            let [x, w, s] = words(d, R);
            Loads { storage: x + w + 2.0 * s, ..Loads::default() }
        },
        ..texture::<R>(name)
    }
}

const fn plain<const R: u32>(name: &'static str) -> Variant {
    Variant {
        file: "fft/fft_pass_plain.wgsl",
        body: include_str!("../../../shaders/fft/fft_pass_plain.wgsl"),
        preferred_on: &[Driver::Gpu, Driver::Llvmpipe, Driver::SwiftShader],
        vec4: &[],
        suits: |_, params, _| of_radix(params, R),
        ..vec4::<R>(name)
    }
}

/// For rows of any width, in blocks of `T` threads.
const fn in_cuda<const T: u32>(name: &'static str, suits: fn(&Dims, &[u8]) -> bool) -> cuda::Source {
    cuda::Source {
        name,
        constants: |_| vec![("WHOLE", Constant::Bool(false))],
        suits,
        ..cuda_source!("fft/fft_pass.cu", T, |d, params| {
            let radix = Params::from_bytes(params).radix;
            // A thread has two lines, or one where a line fills it.
            let parts = u64::from(quads(d)) * if radix <= 8 { 1 } else { 2 };
            d.batches() * (u64::from(d.size("o")) * u64::from(butterflies(d, radix)) * parts).div_ceil(T.into())
        })
        .with(COMPLEX)
    }
}

/// The same for rows of whole `float4`s.
const fn vec4_in_cuda(source: cuda::Source) -> cuda::Source {
    cuda::Source { vec4: &["x", "w", "y"], constants: |_| vec![("WHOLE", Constant::Bool(true))], ..source }
}

/// Whether a thread holds a butterfly in registers; others wait in 32 KiB of shared memory.
fn is_narrow(params: &[u8]) -> bool {
    Params::from_bytes(params).radix <= 16
}

fn check(d: &Dims, params: &[u8]) -> std::result::Result<(), String> {
    let p = Params::from_bytes(params);
    if ![2, 3, 4, 8, 16, 32, 64].contains(&p.radix) || p.inverse > 1 || p.blocked > 3 {
        return Err(format!(
            "radix is 2, 3, 4, 8, 16, 32 or 64, inverse 0 or 1 and blocked 0 to 3, got {}, {} and {}",
            p.radix, p.inverse, p.blocked
        ));
    }
    let m = butterflies(d, p.radix);
    if p.radix == 64 && (d.size("t") != 1 || m != 1) {
        return Err(format!("radix 64 is a whole transform: w has 1 row and a line 64 numbers, got {} rows", d.size("t")));
    }
    let length = u64::from(m) * u64::from(p.radix);
    let wanted = 2 * powers(p.radix).len() as u32;
    if d.size("t") == 0 || !m.is_multiple_of(d.size("t")) || d.size("g") != wanted {
        return Err(format!(
            "w has p rows of {wanted} words, p a divisor of the {m} butterflies, got [{}, {}]",
            d.size("t"),
            d.size("g")
        ));
    }
    if u64::from(d.size("n")) > length || u64::from(d.size("l")) > length {
        return Err(format!("lines have at most {length} numbers, got {} and {}", d.size("n"), d.size("l")));
    }
    if p.x_from >= d.size("a").max(1) || p.y_from >= d.size("e").max(1) {
        return Err(format!(
            "rows begin inside {} and {} words, got {} and {}",
            d.size("a"),
            d.size("e"),
            p.x_from,
            p.y_from
        ));
    }
    for (name, bit, block, width) in [("x", 1, p.x_block, d.size("a")), ("y", 2, p.y_block, d.size("e"))] {
        if p.blocked & bit != 0 && (block == 0 || !width.is_multiple_of(block)) {
            return Err(format!("{name}_block divides the {width} words of a row, got {block}"));
        }
    }
    if d.size("o") >= 1 << 21 || m >= 1 << 21 {
        return Err(format!(
            "fewer than 2^21 lines and butterflies in one pass, got {} and {m}",
            d.size("o")
        ));
    }
    if d.find("f").is_some() {
        let frequencies = u64::from(d.size("o")) * length * u64::from(d.size("a") / p.channels.max(1));
        if p.channels == 0
            || p.channels % 2 == 1 && p.channels != d.size("a")
            || p.per == 0
            || p.inverse != 0
            || p.blocked != 0
            || d.size("r") == 0
            || frequencies != u64::from(d.size("f"))
        {
            return Err(format!(
                "a filter runs forward, and its spectrum has one factor for each of {frequencies} places, got {}",
                d.size("f")
            ));
        }
        if d.size("t") != m {
            return Err(format!(
                "a filter is the last pass, with a row of w for each of {m} butterflies, got {}",
                d.size("t")
            ));
        }
    }
    Ok(())
}

fn cost(d: &Dims, params: &[u8]) -> Cost {
    let p = Params::from_bytes(params);
    let radix = f64::from(p.radix);
    let [o, n, l] = ["o", "n", "l"].map(|x| f64::from(d.size(x)));
    let batches = d.batches() as f64;
    let lines = 2.0 * f64::from(quads(d));
    let butterflies = batches * lines * o * f64::from(butterflies(d, p.radix));
    let transforms = if d.size("f") > 0 { 2.0 } else { 1.0 };
    let multiplied =
        if d.size("t") > 1 { 6.0 * (radix - 1.0) } else { 0.0 } + 6.0 * radix * (transforms - 1.0);
    let (read, stores) = (2.0 * batches * lines * o * n, 2.0 * batches * lines * o * l);
    Cost {
        flop: butterflies * (5.0 * radix * radix.log2() * transforms + multiplied),
        exp: 0.0,
        stores,
        bytes: 4.0 * (read + stores),
        ..Cost::default()
    }
}

const WITHOUT: &[&str] = &["s"];

/// A table of twiddles for a case.
fn table<const R: u32, const P: u32>(_: &Dims) -> HostData {
    HostData::F32(twiddles(R, P))
}

const fn of<const R: u32, const P: u32>() -> &'static [(&'static str, Fill)] {
    &[("w", Fill::Made(table::<R, P>))]
}

fn with<const R: u32>() -> Vec<u8> {
    Params { radix: R, ..Params::default() }.to_bytes()
}

fn backwards<const R: u32>() -> Vec<u8> {
    Params { radix: R, inverse: 1, scale: 0.125, ..Params::default() }.to_bytes()
}

/// The kernel's description.
pub static SPEC: KernelSpec = KernelSpec {
    name: "fft_pass",
    family: "fft",
    formula: "y[(i−k)R + k + jp] = Σₗ x[i + lm] w^(kl) exp(−2πi jl/R), k = i mod p",
    source: "Stockham's self-sorting order of Cooley and Tukey's transform",
    ports: &[
        Port::read("x", &["b", "h", "o", "n", "a"]),
        Port::read("w", &["t", "g"]),
        Port::read("s", &["r", "f", "2"]).optional(),
        Port::write("y", &["b", "h", "o", "l", "e"]),
    ],
    params: Params::FIELDS,
    defaults: Params::default_bytes,
    output_dims: Some(|d, params| {
        let radix = Params::from_bytes(params).radix;
        d.set("l", d.size("n").next_multiple_of((d.size("t") * radix).max(1)));
        d.set("e", d.size("a"));
    }),
    check,
    wgpu: OnWgpu::Shader(&[
        texture::<2>("texture2"),
        texture::<3>("texture3"),
        texture::<4>("texture4"),
        texture::<8>("texture8"),
        texture::<16>("texture16"),
        texture::<32>("texture32"),
        texture::<64>("texture64"),
        filter::<2>("filter2"),
        filter::<3>("filter3"),
        filter::<4>("filter4"),
        filter::<8>("filter8"),
        filter::<16>("filter16"),
        filter::<32>("filter32"),
        filter::<64>("filter64"),
        vec4::<2>("vec4_2"),
        vec4::<3>("vec4_3"),
        vec4::<4>("vec4_4"),
        vec4::<8>("vec4_8"),
        vec4::<16>("vec4_16"),
        vec4::<32>("vec4_32"),
        vec4::<64>("vec4_64"),
        plain::<2>("plain2"),
        plain::<3>("plain3"),
        plain::<4>("plain4"),
        plain::<8>("plain8"),
        plain::<16>("plain16"),
        plain::<32>("plain32"),
    ]),
    cuda: OnCuda::Source(&[
        vec4_in_cuda(in_cuda::<128>("vec4", |d, p| is_narrow(p) && whole(d, p))),
        in_cuda::<128>("plain", |_, p| is_narrow(p)),
        vec4_in_cuda(in_cuda::<64>("wide_vec4", whole)),
        in_cuda::<64>("wide", |_, _| true),
    ]),
    reference: reference!(reference),
    window: |_, params| if Params::from_bytes(params).blocked == 0 { vec![("o", 1)] } else { Vec::new() },
    cost,
    tolerance: Tolerance::SUMS,
    cases: &[
        Case::new(
            "smallest",
            &[("b", 1), ("h", 1), ("o", 1), ("n", 2), ("a", 2), ("t", 1), ("g", 4), ("l", 2), ("e", 2)],
            with::<2>,
        )
        .without(WITHOUT)
        .filled(of::<2, 1>()),
        Case::new(
            "odd",
            &[("b", 2), ("h", 3), ("o", 5), ("n", 7), ("a", 5), ("t", 3), ("g", 4), ("l", 9), ("e", 5)],
            with::<3>,
        )
        .without(WITHOUT)
        .filled(of::<3, 3>()),
        Case::new(
            "radix2",
            &[("b", 1), ("h", 2), ("o", 3), ("n", 12), ("a", 12), ("t", 3), ("g", 4), ("l", 12), ("e", 12)],
            with::<2>,
        )
        .without(WITHOUT)
        .filled(of::<2, 3>()),
        Case::new(
            "radix3",
            &[("b", 1), ("h", 2), ("o", 3), ("n", 11), ("a", 4), ("t", 2), ("g", 4), ("l", 12), ("e", 4)],
            with::<3>,
        )
        .without(WITHOUT)
        .filled(of::<3, 2>()),
        Case::new(
            "radix4",
            &[("b", 1), ("h", 1), ("o", 2), ("n", 33), ("a", 8), ("t", 16), ("g", 4), ("l", 37), ("e", 8)],
            backwards::<4>,
        )
        .without(WITHOUT)
        .filled(of::<4, 16>()),
        Case::new(
            "radix4_first_odd",
            &[("b", 1), ("h", 1), ("o", 2), ("n", 33), ("a", 6), ("t", 1), ("g", 4), ("l", 64), ("e", 6)],
            with::<4>,
        )
        .without(WITHOUT)
        .filled(of::<4, 1>()),
        Case::new(
            "radix8",
            &[("b", 1), ("h", 2), ("o", 3), ("n", 64), ("a", 16), ("t", 8), ("g", 8), ("l", 33), ("e", 16)],
            backwards::<8>,
        )
        .without(WITHOUT)
        .filled(of::<8, 8>()),
        Case::new(
            "radix8_middle_odd",
            &[("b", 1), ("h", 2), ("o", 3), ("n", 128), ("a", 3), ("t", 4), ("g", 8), ("l", 128), ("e", 3)],
            with::<8>,
        )
        .without(WITHOUT)
        .filled(of::<8, 4>()),
        Case::new(
            "radix16",
            &[("b", 1), ("h", 2), ("o", 2), ("n", 100), ("a", 36), ("t", 1), ("g", 8), ("l", 256), ("e", 36)],
            with::<16>,
        )
        .without(WITHOUT)
        .filled(of::<16, 1>()),
        Case::new(
            "radix16_last",
            &[("b", 1), ("h", 2), ("o", 2), ("n", 256), ("a", 8), ("t", 16), ("g", 8), ("l", 100), ("e", 8)],
            backwards::<16>,
        )
        .without(WITHOUT)
        .filled(of::<16, 16>()),
        Case::new(
            "radix32",
            &[("b", 1), ("h", 2), ("o", 3), ("n", 96), ("a", 4), ("t", 3), ("g", 20), ("l", 50), ("e", 4)],
            backwards::<32>,
        )
        .without(WITHOUT)
        .filled(of::<32, 3>()),
        Case::new(
            "radix64",
            &[("b", 1), ("h", 2), ("o", 3), ("n", 33), ("a", 12), ("t", 1), ("g", 20), ("l", 50), ("e", 12)],
            backwards::<64>,
        )
        .without(WITHOUT)
        .filled(of::<64, 1>()),
        Case::new(
            "filter64",
            &[
                ("b", 1),
                ("h", 2),
                ("o", 1),
                ("n", 31),
                ("a", 24),
                ("t", 1),
                ("g", 20),
                ("r", 2),
                ("f", 192),
                ("l", 32),
                ("e", 24),
            ],
            || Params { radix: 64, channels: 8, ..Params::default() }.to_bytes(),
        )
        .filled(of::<64, 1>()),
        Case::new(
            "filter32",
            &[
                ("b", 1),
                ("h", 2),
                ("o", 1),
                ("n", 40),
                ("a", 4),
                ("t", 2),
                ("g", 20),
                ("r", 2),
                ("f", 64),
                ("l", 64),
                ("e", 4),
            ],
            || Params { radix: 32, channels: 4, ..Params::default() }.to_bytes(),
        )
        .filled(of::<32, 2>()),
        Case::new(
            "large_values",
            &[("b", 1), ("h", 1), ("o", 1), ("n", 16), ("a", 4), ("t", 1), ("g", 8), ("l", 16), ("e", 4)],
            with::<16>,
        )
        .without(WITHOUT)
        .filled(&[("w", Fill::Made(table::<16, 1>)), ("x", Fill::Uniform(-1e30, 1e30))]),
        Case::new(
            "blocks_out",
            &[("b", 1), ("h", 2), ("o", 3), ("n", 5), ("a", 21), ("t", 1), ("g", 8), ("l", 16), ("e", 16)],
            || Params { radix: 8, blocked: 2, x_from: 12, y_block: 8, ..Params::default() }.to_bytes(),
        )
        .without(WITHOUT)
        .filled(of::<8, 1>()),
        Case::new(
            "blocks_in",
            &[("b", 1), ("h", 2), ("o", 3), ("n", 16), ("a", 16), ("t", 2), ("g", 8), ("l", 5), ("e", 28)],
            || {
                Params { radix: 8, blocked: 1, inverse: 1, x_block: 4, y_from: 20, ..Params::default() }
                    .to_bytes()
            },
        )
        .without(WITHOUT)
        .filled(of::<8, 2>()),
        Case::new(
            "filter2",
            &[
                ("b", 2),
                ("h", 3),
                ("o", 1),
                ("n", 4),
                ("a", 8),
                ("t", 2),
                ("g", 4),
                ("r", 3),
                ("f", 8),
                ("l", 4),
                ("e", 8),
            ],
            || Params { channels: 4, ..Params::default() }.to_bytes(),
        )
        .filled(of::<2, 2>()),
        Case::new(
            "filter3",
            &[
                ("b", 1),
                ("h", 4),
                ("o", 1),
                ("n", 5),
                ("a", 4),
                ("t", 3),
                ("g", 4),
                ("r", 2),
                ("f", 9),
                ("l", 9),
                ("e", 4),
            ],
            || Params { radix: 3, channels: 4, per: 2, ..Params::default() }.to_bytes(),
        )
        .filled(of::<3, 3>()),
        Case::new(
            "filter4_whole",
            &[
                ("b", 1),
                ("h", 2),
                ("o", 1),
                ("n", 2),
                ("a", 12),
                ("t", 1),
                ("g", 4),
                ("r", 1),
                ("f", 12),
                ("l", 3),
                ("e", 12),
            ],
            || Params { radix: 4, channels: 4, ..Params::default() }.to_bytes(),
        )
        .filled(of::<4, 1>()),
        Case::new(
            "filter8",
            &[
                ("b", 1),
                ("h", 2),
                ("o", 1),
                ("n", 64),
                ("a", 4),
                ("t", 8),
                ("g", 8),
                ("r", 2),
                ("f", 64),
                ("l", 64),
                ("e", 4),
            ],
            || Params { radix: 8, channels: 4, ..Params::default() }.to_bytes(),
        )
        .filled(of::<8, 8>()),
        Case::new(
            "filter16",
            &[
                ("b", 1),
                ("h", 2),
                ("o", 1),
                ("n", 32),
                ("a", 24),
                ("t", 2),
                ("g", 8),
                ("r", 1),
                ("f", 96),
                ("l", 32),
                ("e", 24),
            ],
            || Params { radix: 16, channels: 8, ..Params::default() }.to_bytes(),
        )
        .filled(of::<16, 2>()),
        Case::new(
            "filter_odd",
            &[
                ("b", 1),
                ("h", 2),
                ("o", 1),
                ("n", 5),
                ("a", 3),
                ("t", 1),
                ("g", 8),
                ("r", 2),
                ("f", 16),
                ("l", 9),
                ("e", 3),
            ],
            || Params { radix: 16, channels: 3, ..Params::default() }.to_bytes(),
        )
        .filled(of::<16, 1>()),
        Case::new(
            "lines_512",
            &[
                ("b", 1),
                ("h", 32),
                ("o", 1),
                ("n", 4096),
                ("a", 32),
                ("t", 16),
                ("g", 8),
                ("l", 4096),
                ("e", 32),
            ],
            with::<16>,
        )
        .without(WITHOUT)
        .filled(of::<16, 16>())
        .for_bench(),
    ],
    vjp: None,
};
