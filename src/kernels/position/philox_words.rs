//! The words of given counters, and the numbers made of them: the generator by itself, to check it against known answers.
//!
//! `words[n]` = Philox4x32-10 of `counters[n]` with the seed as key; `out[n]` = its four numbers, as
//! [`counter_noise`](super::counter_noise) makes them.
//!
//! `counters`, `words` `[n, 4]`; `table` `[512]`; `out` `[n, 4]`.

use super::counter_noise::{CUDA, LENGTH, NUMBERS, PHILOX, SIGNS, TABLE, TOLERANCE, TURNS, number, words};
use crate::error::Result;
use crate::kernel::wgsl_module::GROUP;
use crate::kernel::*;
use crate::random::philox;
use crate::tensor::{DType, Dims, HostData};
use crate::{cuda_source, params, reference};

params! {
    /// Parameters of [`SPEC`].
    pub struct Params {
        /// low word of the seed
        live seed_low: u32 = 0,
        /// high word of the seed
        live seed_high: u32 = 0,
        /// 0 a table's Gaussian numbers, 1 those of Box and Muller, 2 signs
        fixed mode: u32 = TABLE,
    }
}

fn check(d: &Dims, params: &[u8]) -> std::result::Result<(), String> {
    let mode = Params::from_bytes(params).mode;
    match (mode <= SIGNS, d.size("t") == 2 * LENGTH) {
        (false, _) => Err(format!("mode is 0, 1 or 2, got {mode}")),
        (_, false) => Err(format!("the table has {} words, got {}", 2 * LENGTH, d.size("t"))),
        _ => Ok(()),
    }
}

fn reference<T: Real>(args: &mut HostArgs<T>) -> Result<()> {
    let p: Params = args.params();
    let seed = u64::from(p.seed_high) << 32 | u64::from(p.seed_low);
    let made: Vec<[u32; 4]> =
        args.words("counters").chunks_exact(4).map(|c| philox([c[0], c[1], c[2], c[3]], seed)).collect();
    let numbers = made.iter().flat_map(|words| (0..4).map(|lane| T::of(number(p.mode, *words, lane))));
    args.set("out", numbers.collect());
    args.set_words("words", made.concat());
    Ok(())
}

/// Words with all their bits in use.
fn counters(d: &Dims) -> HostData {
    HostData::U32((0..4 * d.size("n")).map(|i| i.wrapping_add(3).wrapping_mul(0x9e37_79b9)).collect())
}

const FILL: &[(&str, Fill)] = &[("counters", Fill::Made(counters)), ("table", Fill::Made(words))];

const fn sizes(n: u32) -> [(&'static str, u32); 2] {
    [("n", n), ("t", 2 * LENGTH)]
}

/// The kernel's description.
pub static SPEC: KernelSpec = KernelSpec {
    name: "philox_words",
    family: "position",
    formula: "words = Philox4x32-10(counters, seed), and the numbers made of them",
    source: "Salmon et al. 2011",
    ports: &[
        Port::read("counters", &["n", "4"]).of(DType::U32),
        Port::read("table", &["t"]).of(DType::U32),
        Port::write("words", &["n", "4"]).of(DType::U32),
        Port::write("out", &["n", "4"]),
    ],
    params: Params::FIELDS,
    defaults: Params::default_bytes,
    output_dims: None,
    check,
    wgpu: OnWgpu::Shader(&[Variant::only(
        "position/philox_words.wgsl",
        include_str!("../../../shaders/position/philox_words.wgsl"),
        &[GROUP, PHILOX, TURNS, NUMBERS],
        |d, _| u64::from(d.size("n")).div_ceil(64),
        |d, _| Loads { storage: 12.0 * f64::from(d.size("n")), ..Loads::default() },
    )]),
    cuda: OnCuda::Source(&[
        cuda_source!("position/philox_words.cu", 256, |d, _| u64::from(d.size("n")).div_ceil(256)).with(CUDA)
    ]),
    reference: reference!(reference),
    window: whole_heads,
    cost: |d, _| {
        let n = f64::from(d.size("n"));
        Cost { flop: 300.0 * n, exp: 0.0, stores: 8.0 * n, bytes: 48.0 * n, ..Cost::default() }
    },
    tolerance: TOLERANCE,
    cases: &[
        Case::new("smallest", &sizes(1), Params::default_bytes).filled(FILL),
        Case::new("odd", &sizes(131), || Params { seed_low: 5, seed_high: 0xffff_fff1, ..Params::default() }.to_bytes()).filled(FILL),
        Case::new("box_muller", &sizes(77), || Params { mode: 1, ..Params::default() }.to_bytes()).filled(FILL),
        Case::new("signs", &sizes(77), || Params { mode: SIGNS, ..Params::default() }.to_bytes()).filled(FILL),
        Case::new("counters_65536", &sizes(65_536), Params::default_bytes).filled(FILL).any_size().for_bench(),
    ],
    vjp: None,
};
