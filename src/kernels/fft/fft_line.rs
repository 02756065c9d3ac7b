//! Whole transforms of lines in workgroup memory: what a GPU does where a line fits, in place of several passes over memory.
//!
//! y`[k]` = scale · Σⱼ x`[j]` exp(∓2πi jk/L) for L a power of two from [`LEAST`] to [`MOST`]; with a spectrum `s` the transform runs
//! forward, is multiplied by it, and runs back, so that a filter along an axis is one pass.
//!
//! * `x` `[b, h, o, n, a]`, `y` `[b, h, o, l, e]`, `s` `[r, f, 2]`, and how rows may be wider than the part worked on or lie in blocks: as in
//!   [`fft_pass`](super::fft_pass). Words come in fours, two lines side by side.
//! * `roots` `[t, 2]`: exp(−2πi k/L), t = L (see [`roots`]).

use super::fft::transformed;
use super::fft_pass::{COMPLEX, PARTS};
use crate::error::Result;
use crate::kernel::wgsl_module::GROUP;
use crate::kernel::*;
use crate::{cuda_source, params, reference};
use crate::tensor::{Dims, HostData};

params! {
    /// Parameters of [`SPEC`].
    pub struct Params {
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

/// The shortest transform.
pub const LEAST: u32 = 4;
/// The longest: two lines of it fill the 16 KiB that every device has.
pub const MOST: u32 = 1024;
/// Threads of a workgroup; each holds four pairs of numbers.
const THREADS: u32 = 256;
/// Threads where workgroup memory is half of what WebGPU promises.
const FEW_THREADS: u32 = 128;

/// Whether lines of `length` numbers fit workgroup memory.
pub fn fits(length: u32) -> bool {
    length.is_power_of_two() && (LEAST..=MOST).contains(&length)
}

/// exp(−2πi k/L), `[L, 2]`.
pub fn roots(length: u32) -> Vec<f32> {
    let root = |k: u32| {
        let (sin, cos) = (-std::f64::consts::TAU * f64::from(k) / f64::from(length)).sin_cos();
        [cos as f32, sin as f32]
    };
    (0..length).flat_map(root).collect()
}

/// Pairs of lines that a workgroup of `threads` transforms together.
fn tile(length: u32, threads: u32) -> u32 {
    (4 * threads / length.max(1)).max(1)
}

fn quads(d: &Dims) -> u32 {
    d.size("a").min(d.size("e")) / 4
}

fn check(d: &Dims, params: &[u8]) -> std::result::Result<(), String> {
    let p = Params::from_bytes(params);
    let [o, n, l, a, e, t] = ["o", "n", "l", "a", "e", "t"].map(|name| d.size(name));
    if p.inverse > 1 || p.blocked > 3 {
        return Err(format!("inverse is 0 or 1 and blocked 0 to 3, got {} and {}", p.inverse, p.blocked));
    }
    if !fits(t) {
        return Err(format!("roots has a row for each number of a line, a power of two from {LEAST} to {MOST}, got {t}"));
    }
    if n > t || l > t {
        return Err(format!("lines have at most {t} numbers, got {n} and {l}"));
    }
    let blocks = [("x", 1, p.x_block, a), ("y", 2, p.y_block, e)];
    for (name, bit, block, width) in blocks.into_iter().filter(|(_, bit, ..)| p.blocked & bit != 0) {
        if block == 0 || !width.is_multiple_of(block) || !block.is_multiple_of(4) {
            return Err(format!("{name}_block (bit {bit}) is a multiple of 4 that divides the {width} words of a row, got {block}"));
        }
    }
    if [a, e, p.x_from, p.y_from].into_iter().any(|words| !words.is_multiple_of(4)) {
        return Err(format!("rows of x and y have and begin at whole fours of words, got {a} and {e}, {} and {}", p.x_from, p.y_from));
    }
    let width = a.min(e);
    if u64::from(p.x_from) + u64::from(width) > u64::from(a) || u64::from(p.y_from) + u64::from(width) > u64::from(e) {
        return Err(format!("rows of {width} words begin inside {a} and {e}, got {} and {}", p.x_from, p.y_from));
    }
    if d.find("f").is_none() {
        return Ok(());
    }
    let frequencies = u64::from(o) * u64::from(t) * u64::from(a / p.channels.max(1));
    let whole = p.channels > 0 && p.channels.is_multiple_of(4) && p.per > 0 && p.inverse == 0 && p.blocked == 0;
    match whole && d.size("r") > 0 && frequencies == u64::from(d.size("f")) {
        true => Ok(()),
        false => Err(format!(
            "a filter runs forward over whole fours of channels, and its spectrum has one factor for each of {frequencies} places, got {}",
            d.size("f")
        )),
    }
}

fn reference<T: Real>(args: &mut HostArgs<T>) -> Result<()> {
    let p: Params = args.params();
    let [o, n, l, a, e, t, spectra, f] = ["o", "n", "l", "a", "e", "t", "r", "f"].map(|x| args.dims.at(x));
    let (x, s) = (args.real("x"), args.real_if("s"));
    let word = |rows: usize, row: usize, width: usize, bit: u32, block: u32, q: usize| match p.blocked & bit {
        0 => row * width + q,
        _ => (q / block as usize * rows + row) * block as usize + q % block as usize,
    };
    let mut y = vec![T::zero(); args.dims.batches() as usize * o * l * e];
    for head in 0..args.dims.batches() as usize {
        let (given, to) = (&x[head * o * n * a..][..o * n * a], head * o * l * e);
        for item in 0..o * 2 * quads(&args.dims) as usize {
            let pairs = 2 * quads(&args.dims) as usize;
            let (line, q) = (item / pairs, 2 * (item % pairs));
            let number = |j: usize| {
                let at = |c: usize| given[word(o * n, line * n + j, a, 1, p.x_block, p.x_from as usize + q + c)];
                if j < n { [at(0), at(1)] } else { [T::zero(); 2] }
            };
            let unscaled = |z: Vec<[T; 2]>| z.into_iter().map(|z| z.map(|x| x * T::of(t as f64))).collect();
            let mut z: Vec<[T; 2]> = transformed((0..t).map(number).collect(), p.inverse != 0);
            if p.inverse != 0 {
                z = unscaled(z);
            }
            if let Some(s) = &s {
                let places = a / p.channels as usize;
                let spectrum = head / p.per as usize % spectra;
                for (j, z) in z.iter_mut().enumerate() {
                    let at = 2 * (spectrum * f + (line * t + j) * places + q / p.channels as usize);
                    *z = [z[0] * s[at] - z[1] * s[at + 1], z[0] * s[at + 1] + z[1] * s[at]];
                }
                z = unscaled(transformed(z, true));
            }
            for (j, z) in z.into_iter().take(l).enumerate() {
                for c in 0..2 {
                    y[to + word(o * l, line * l + j, e, 2, p.y_block, p.y_from as usize + q + c)] =
                        z[c] * T::of(f64::from(p.scale));
                }
            }
        }
    }
    args.set("y", y);
    Ok(())
}

/// Words that one head reads from memory, and from workgroup memory between the passes.
fn loads(d: &Dims, _: &[u8]) -> Loads {
    let [o, n, t] = ["o", "n", "t"].map(|name| f64::from(d.size(name)));
    let quads = f64::from(quads(d));
    let transforms = if d.find("f").is_some() { 2.0 } else { 1.0 };
    let passes = (t.log2() / 2.0).ceil();
    let spectrum = if transforms > 1.0 { 2.0 * o * t * quads } else { 0.0 };
    // Three roots for each four numbers and pass.
    let roots = transforms * passes * 1.5 * o * t * quads;
    Loads {
        storage: 4.0 * o * n * quads + spectrum + roots,
        workgroup: 4.0 * o * t * quads * (transforms * passes - 1.0),
        ..Loads::default()
    }
}

/// What the texts for `T` threads are told of the shape.
fn constants<const T: u32>(d: &Dims) -> Vec<(&'static str, Constant)> {
    let length = d.size("t").max(LEAST);
    vec![
        ("LENGTH", Constant::U32(length)),
        ("TILE", Constant::U32(tile(length, T))),
        ("ODD", Constant::Bool(length.trailing_zeros() % 2 == 1)),
    ]
}

fn groups<const T: u32>(d: &Dims, batches: u64) -> u64 {
    let items = u64::from(d.size("o")) * u64::from(quads(d));
    batches * items.div_ceil(u64::from(tile(d.size("t"), T)))
}

const fn workgroup<const T: u32>(name: &'static str) -> Variant {
    Variant {
        name,
        vec4: &["x", "y"],
        constants: |d| {
            let mut all = constants::<T>(d);
            all.push(("THREADS", Constant::U32(T)));
            all
        },
        suits: |d, _, caps| {
            caps.workgroup_bytes >= 64 * T && caps.invocations >= T && d.size("t") <= 4 * T
        },
        ..Variant::only(
            "fft/fft_line.wgsl",
            include_str!("../../../shaders/fft/fft_line.wgsl"),
            &[GROUP, PARTS],
            groups::<T>,
            loads,
        )
    }
}

const fn sizes(o: u32, n: u32, a: u32, t: u32, l: u32, e: u32) -> [(&'static str, u32); 8] {
    [("b", 1), ("h", 2), ("o", o), ("n", n), ("a", a), ("t", t), ("l", l), ("e", e)]
}

fn table(d: &Dims) -> HostData {
    HostData::F32(roots(d.size("t")))
}

const ROOTS: &[(&str, Fill)] = &[("roots", Fill::Made(table))];
const WITHOUT: &[&str] = &["s"];

fn back() -> Vec<u8> {
    Params { inverse: 1, scale: 0.125, ..Params::default() }.to_bytes()
}

/// The kernel's description.
pub static SPEC: KernelSpec = KernelSpec {
    name: "fft_line",
    family: "fft",
    formula: "y[k] = Σⱼ x[j] exp(∓2πi jk/L), or the same forward, times s, and back",
    source: "Stockham's self-sorting order of Cooley and Tukey's transform",
    ports: &[
        Port::read("x", &["b", "h", "o", "n", "a"]),
        Port::read("roots", &["t", "2"]),
        Port::read("s", &["r", "f", "2"]).optional(),
        Port::write("y", &["b", "h", "o", "l", "e"]),
    ],
    params: Params::FIELDS,
    defaults: Params::default_bytes,
    output_dims: Some(|d, _| {
        d.set("l", d.size("t"));
        d.set("e", d.size("a"));
    }),
    check,
    wgpu: OnWgpu::Shader(&[workgroup::<THREADS>("workgroup"), workgroup::<FEW_THREADS>("workgroup_small")]),
    cuda: OnCuda::Source(&[cuda::Source {
        vec4: &["x", "y"],
        constants: constants::<THREADS>,
        ..cuda_source!("fft/fft_line.cu", THREADS, |d, _| groups::<THREADS>(d, d.batches())).with(COMPLEX)
    }]),
    reference: reference!(reference),
    window: whole_heads,
    cost: |d, _| {
        let [o, n, l, t] = ["o", "n", "l", "t"].map(|x| f64::from(d.size(x)));
        let lines = d.batches() as f64 * o * 2.0 * f64::from(quads(d));
        let transforms = if d.find("f").is_some() { 2.0 } else { 1.0 };
        let multiplied = 6.0 * t * (transforms - 1.0);
        Cost {
            flop: lines * (transforms * super::fft::flop(d.size("t").max(1)) + multiplied),
            exp: 0.0,
            stores: 2.0 * lines * l,
            bytes: 8.0 * lines * (n + l),
            ..Cost::default()
        }
    },
    tolerance: Tolerance {
        factor: 2.0,
        floor: 16.0 * f32::EPSILON as f64,
        reason: "the yardstick is a careful f32 transform with few roundings per number: one more per pass is allowed",
    },
    cases: &[
        Case::new("smallest", &[("b", 1), ("h", 1), ("o", 1), ("n", 1), ("a", 4), ("t", 4), ("l", 1), ("e", 4)], Params::default_bytes)
            .without(WITHOUT)
            .filled(ROOTS),
        Case::new("odd", &sizes(5, 7, 12, 8, 5, 12), Params::default_bytes).without(WITHOUT).filled(ROOTS),
        Case::new("length16_back", &sizes(3, 16, 36, 16, 16, 36), back).without(WITHOUT).filled(ROOTS),
        Case::new("length32", &sizes(3, 17, 20, 32, 31, 20), Params::default_bytes).without(WITHOUT).filled(ROOTS),
        Case::new("length64", &sizes(2, 64, 16, 64, 33, 16), back).without(WITHOUT).filled(ROOTS),
        Case::new("length128", &sizes(1, 65, 8, 128, 128, 8), Params::default_bytes).without(WITHOUT).filled(ROOTS),
        Case::new("length256", &sizes(1, 256, 20, 256, 256, 20), back).without(WITHOUT).filled(ROOTS),
        Case::new("length512", &sizes(1, 300, 12, 512, 400, 12), Params::default_bytes).without(WITHOUT).filled(ROOTS),
        Case::new("length1024", &sizes(2, 1024, 4, 1024, 1024, 4), back).without(WITHOUT).filled(ROOTS),
        Case::new("blocks_out", &sizes(3, 13, 24, 16, 16, 16), || {
            Params { blocked: 2, x_from: 8, y_block: 8, ..Params::default() }.to_bytes()
        })
        .without(WITHOUT)
        .filled(ROOTS),
        Case::new("blocks_in", &sizes(3, 16, 16, 16, 5, 28), || {
            Params { blocked: 1, inverse: 1, x_block: 4, y_from: 12, ..Params::default() }.to_bytes()
        })
        .without(WITHOUT)
        .filled(ROOTS),
        Case::new(
            "filter",
            &[("b", 1), ("h", 4), ("o", 1), ("n", 33), ("a", 24), ("t", 64), ("r", 2), ("f", 192), ("l", 40), ("e", 24)],
            || Params { channels: 8, per: 2, scale: 1.0 / 64.0, ..Params::default() }.to_bytes(),
        )
        .filled(ROOTS),
        Case::new(
            "filter_odd",
            &[("b", 1), ("h", 2), ("o", 1), ("n", 57), ("a", 4), ("t", 128), ("r", 1), ("f", 128), ("l", 57), ("e", 4)],
            || Params { channels: 4, ..Params::default() }.to_bytes(),
        )
        .filled(ROOTS),
        Case::new("large_values", &sizes(1, 16, 4, 16, 16, 4), Params::default_bytes)
            .without(WITHOUT)
            .filled(&[("roots", Fill::Made(table)), ("x", Fill::Uniform(-1e30, 1e30))]),
        Case::new(
            "lines_512",
            &[("b", 1), ("h", 32), ("o", 1), ("n", 1024), ("a", 32), ("t", 1024), ("l", 1024), ("e", 32)],
            Params::default_bytes,
        )
        .without(WITHOUT)
        .filled(ROOTS)
        .any_size()
        .for_bench(),
    ],
    vjp: None,
};
