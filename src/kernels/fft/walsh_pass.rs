//! Up to eight stages of a Walsh–Hadamard transform, the Fourier transform of the hypercube, in one pass over memory.
//!
//! Rows are numbered by bits: the highest in dimension o, then those that are transformed in p, then the lowest in i. With H the transform along
//! p, y = H x; with `spectrum` y = H diag(`spectrum[ones(row)]`) H x, where ones counts all bits of a row's number: there and back in one
//! pass, for rows whose other bits are transformed.
//!
//! * `x`, `y` `[b, h, o, p, i, c]`; o, p, i powers of two, p at most 256: 256 rows of 16 channels fill 16 KiB of workgroup memory.
//! * `spectrum` `[h or 1, k]`, k = log₂(o p i) + 1.

use crate::error::Result;
use crate::kernel::wgsl_module::{GROUP, Shared};
use crate::kernel::*;
use crate::{cuda_source, reference};
use crate::tensor::Dims;

/// Most stages of a pass.
pub const MOST_STAGES: u32 = 8;

const WALSH: &Shared =
    &Shared { file: "fft/walsh.wgsl", body: include_str!("../../../shaders/fft/walsh.wgsl") };

/// What is wrong with a spectrum of rows numbered by so many bits.
pub(super) fn check_spectrum(d: &Dims, bits: u32) -> std::result::Result<(), String> {
    let (k, tables) = (d.size("k"), d.size("tables"));
    if k > 0 && k != bits + 1 {
        return Err(format!("spectrum has {} entries for 0 to {bits} ones, got k = {k}", bits + 1));
    }
    if k > 0 && tables != 1 && tables != d.size("h") {
        return Err(format!("there is a spectrum for each of {} heads, or one, got {tables}", d.size("h")));
    }
    Ok(())
}

fn check(d: &Dims, _: &[u8]) -> std::result::Result<(), String> {
    let sizes = ["o", "p", "i"].map(|x| d.size(x));
    if sizes.iter().any(|x| !x.is_power_of_two()) || sizes[1] > 1 << MOST_STAGES {
        return Err(format!("o, p and i are powers of two, p at most 256, got {sizes:?}"));
    }
    check_spectrum(d, sizes.iter().map(|x| x.trailing_zeros()).sum())
}

/// Transforms bits `first` to `first + stages` − 1 of rows of `c` numbers in place.
pub(super) fn transform<T: Real>(rows: &mut [T], c: usize, first: u32, stages: u32) {
    for bit in first..first + stages {
        let half = c << bit;
        for block in rows.chunks_exact_mut((2 * half).max(1)) {
            let (low, high) = block.split_at_mut(half);
            low.iter_mut().zip(high).for_each(|(a, b)| (*a, *b) = (*a + *b, *a - *b));
        }
    }
}

/// Multiplies rows of `c` numbers by the spectrum's entries.
pub(super) fn multiply<T: Real>(rows: &mut [T], c: usize, spectrum: &[T]) {
    for (i, row) in rows.chunks_mut(c.max(1)).enumerate() {
        row.iter_mut().for_each(|x| *x *= spectrum[i.count_ones() as usize]);
    }
}

fn reference<T: Real>(args: &mut HostArgs<T>) -> Result<()> {
    let [o, p, i, c, k, tables, h] = ["o", "p", "i", "c", "k", "tables", "h"].map(|x| args.dims.at(x));
    let spectrum = args.real_if("spectrum");
    let (first, stages) = (i.trailing_zeros(), p.trailing_zeros());
    let mut y = args.real("x").to_vec();
    for (batch, rows) in y.chunks_mut((o * p * i * c).max(1)).enumerate() {
        transform(rows, c, first, stages);
        if let Some(list) = &spectrum {
            multiply(rows, c, &list[if tables == 1 { 0 } else { batch % h * k }..][..k]);
            transform(rows, c, first, stages);
        }
    }
    args.set("y", y);
    Ok(())
}

/// Numbers of a head.
fn numbers(d: &Dims) -> f64 {
    ["o", "p", "i", "c"].iter().map(|x| f64::from(d.size(x))).product()
}

/// Stages of the transform, there and back where there is a spectrum.
fn stages(d: &Dims) -> f64 {
    let stages = f64::from(d.size("p").max(1).trailing_zeros());
    if d.size("k") > 0 { 2.0 * stages } else { stages }
}

/// Numbers, or vectors, of a row that a group takes: fewer rows leave room for more.
fn lanes(d: &Dims, words: u32) -> u32 {
    let width = (d.size("c") / words).max(1);
    let room = 4096 / words / d.size("p").clamp(1, 256);
    width.next_power_of_two().min(room.min(64))
}

/// Bytes of workgroup memory.
fn tile_bytes(d: &Dims, words: u32) -> u32 {
    4 * words * lanes(d, words) * d.size("p").min(1 << MOST_STAGES)
}

fn constants(d: &Dims, words: u32) -> Vec<(&'static str, Constant)> {
    vec![
        ("STAGES", Constant::U32(d.size("p").max(1).trailing_zeros())),
        ("FIRST", Constant::U32(d.size("i").max(1).trailing_zeros())),
        ("LANES", Constant::U32(lanes(d, words))),
    ]
}

fn groups(d: &Dims, batches: u64, words: u32) -> u64 {
    let lines = u64::from(d.size("o")) * u64::from(d.size("i"));
    batches * lines * u64::from((d.size("c") / words).div_ceil(lanes(d, words)))
}

fn loads(d: &Dims, _: &[u8]) -> Loads {
    Loads {
        storage: numbers(d) * if d.size("k") > 0 { 1.25 } else { 1.0 },
        workgroup: numbers(d) * ((stages(d) / 4.0).ceil() + 1.0),
        ..Loads::default()
    }
}

/// On words, or on vectors of four.
const fn in_cuda<const WORDS: u32>() -> cuda::Source {
    cuda::Source {
        constants: |d| {
            let mut all = constants(d, WORDS);
            all.push(("WORDS", Constant::U32(WORDS)));
            all
        },
        ..cuda_source!("fft/walsh_pass.cu", 256, |d, _| groups(d, d.batches(), WORDS)).with(&[cuda::VECTORS])
    }
}

static VARIANTS: &[Variant] = &[
    Variant {
        name: "vec4",
        vec4: &["x", "y"],
        constants: |d| constants(d, 4),
        suits: |d, _, caps| {
            let whole = d.size("c").is_multiple_of(4) && d.size("c") > 0;
            whole && caps.workgroup_bytes >= tile_bytes(d, 4)
        },
        ..Variant::only(
            "fft/walsh_pass_vec4.wgsl",
            include_str!("../../../shaders/fft/walsh_pass_vec4.wgsl"),
            &[GROUP, WALSH],
            |d, batches| groups(d, batches, 4),
            loads,
        )
    },
    Variant {
        constants: |d| constants(d, 1),
        suits: |d, _, caps| caps.workgroup_bytes >= tile_bytes(d, 1),
        ..Variant::only(
            "fft/walsh_pass_plain.wgsl",
            include_str!("../../../shaders/fft/walsh_pass_plain.wgsl"),
            &[GROUP, WALSH],
            |d, batches| groups(d, batches, 1),
            loads,
        )
    },
];

const fn sizes(o: u32, p: u32, i: u32, c: u32, k: u32) -> [(&'static str, u32); 8] {
    [("b", 2), ("h", 2), ("o", o), ("p", p), ("i", i), ("c", c), ("tables", 2), ("k", k)]
}

const NO_SPECTRUM: &[&str] = &["spectrum"];

/// The kernel's description.
pub static SPEC: KernelSpec = KernelSpec {
    name: "walsh_pass",
    family: "fft",
    formula: "y = H x along p, or H diag(spectrum[ones(row)]) H x",
    source: "definition (fast Walsh–Hadamard transform)",
    ports: &[
        Port::read("x", &["b", "h", "o", "p", "i", "c"]),
        Port::read("spectrum", &["tables", "k"]).optional(),
        Port::write("y", &["b", "h", "o", "p", "i", "c"]),
    ],
    params: NoParams::FIELDS,
    defaults: Vec::new,
    output_dims: None,
    check,
    wgpu: OnWgpu::Shader(VARIANTS),
    cuda: OnCuda::Source(&[
        cuda::Source {
            name: "vec4",
            vec4: &["x", "y"],
            suits: |d, _| d.size("c").is_multiple_of(4) && d.size("c") > 0,
            ..in_cuda::<4>()
        },
        in_cuda::<1>(),
    ]),
    reference: reference!(reference),
    window: whole_heads,
    cost: |d, _| {
        let all = d.batches() as f64 * numbers(d);
        Cost { flop: all * (stages(d) + f64::from(u8::from(d.size("k") > 0))), exp: 0.0, stores: all, bytes: 8.0 * all, ..Cost::default() }
    },
    tolerance: Tolerance::SUMS,
    cases: &[
        Case::new(
            "smallest",
            &[("b", 1), ("h", 1), ("o", 1), ("p", 1), ("i", 1), ("c", 1), ("tables", 1), ("k", 1)],
            Vec::new,
        ),
        Case::new("odd", &sizes(4, 8, 2, 5, 7), Vec::new),
        Case::new("odd_stages", &sizes(1, 32, 1, 7, 6), Vec::new),
        Case::new("no_spectrum", &sizes(2, 16, 8, 9, 9), Vec::new).without(NO_SPECTRUM),
        Case::new("all_stages", &sizes(1, 256, 2, 20, 10), Vec::new),
        Case::new("all_stages_words", &sizes(2, 256, 1, 17, 10), Vec::new),
        Case::new("vectors", &sizes(2, 4, 4, 36, 6), Vec::new),
        Case::new("vectors_no_spectrum", &sizes(2, 128, 2, 12, 10), Vec::new).without(NO_SPECTRUM),
        Case::new(
            "one_spectrum",
            &[("b", 1), ("h", 3), ("o", 2), ("p", 64), ("i", 1), ("c", 4), ("tables", 1), ("k", 8)],
            Vec::new,
        ),
        Case::new(
            "rows_65536",
            &[("b", 1), ("h", 1), ("o", 1), ("p", 256), ("i", 256), ("c", 64), ("tables", 1), ("k", 17)],
            Vec::new,
        )
        .for_bench(),
    ],
    vjp: None,
};
