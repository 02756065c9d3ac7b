//! Random numbers by place: what stands at a channel, position and lane depends on the seed and on these, not on how many there are.
//!
//! out[c, u, r] = the number of counter (index(u), channel + c | ⌊r / 4⌋ · 2²⁰, step, purpose), word r mod 4 of Philox4x32-10.
//!
//! Positions are a box of `side_0` × `side_1` × `side_2`, row by row, whose first corner is (`first_0`, `first_1`, `first_2`), and index(u) =
//! i₀ · 2^`shift_0` | i₁ · 2^`shift_1` | i₂; `side_0` is u / (`side_1` · `side_2`).
//!
//! The last position may have a purpose of its own, as the noise of a gate stands behind that of a code.
//!
//! * `table` `[512]`: beginnings of the pieces of −Φ⁻¹, then what they add ([`crate::random::table`]); only mode 0 looks at it.
//! * `out` `[c, u, r]`: mode 0 Gaussian numbers of the table and mode 2 signs, the same to the bit everywhere; mode 1 Gaussian numbers by
//!   Box and Muller, in pairs of lanes.

use crate::error::Result;
use crate::graph::Graph;
use crate::kernel::wgsl_module::{GROUP, Shared};
use crate::kernel::*;
use crate::random::{self, table};
use crate::tensor::{DType, Dims, HostData, HostTensor, Tensor};
use crate::{cuda_shared, cuda_source, params, reference};

/// Philox.
pub const PHILOX: &Shared =
    &Shared { file: "shared/philox.wgsl", body: include_str!("../../../shaders/shared/philox.wgsl") };
/// Cosine and sine of a counted turn.
pub const TURNS: &Shared =
    &Shared { file: "shared/turns.wgsl", body: include_str!("../../../shaders/shared/turns.wgsl") };

/// What the CUDA sources of both kernels share.
pub(super) const CUDA: &[&cuda::Shared] = &[
    cuda_shared!("shared/philox.cuh"),
    cuda_shared!("shared/turns.cuh"),
    cuda_shared!("position/numbers.cuh"),
];

/// Numbers from words.
pub const NUMBERS: &Shared =
    &Shared { file: "position/numbers.wgsl", body: include_str!("../../../shaders/position/numbers.wgsl") };

/// `mode`: Gaussian numbers of the table.
pub const TABLE: u32 = 0;
/// `mode`: Gaussian numbers by Box and Muller.
pub const BOX_MULLER: u32 = 1;
/// `mode`: 1 or −1.
pub const SIGNS: u32 = 2;

params! {
    /// Parameters of [`SPEC`].
    pub struct Params {
        /// low word of the seed
        live seed_low: u32 = 0,
        /// high word of the seed
        live seed_high: u32 = 0,
        /// step of training; 2³² − 1 outside
        live step: u32 = u32::MAX,
        /// purpose · 2²⁴ | layer · 2⁸ | stream
        live purpose: u32 = 0x0100_0000,
        /// purpose of the last position's numbers; 0 that of all
        live last_purpose: u32 = 0,
        /// first channel
        live channel: u32 = 0,
        /// first corner of the box of positions, slowest axis
        live first_0: u32 = 0,
        /// middle axis
        live first_1: u32 = 0,
        /// fastest axis
        live first_2: u32 = 0,
        /// extent of the middle axis
        live side_1: u32 = 1,
        /// extent of the fastest axis
        live side_2: u32 = 1,
        /// bits to the left of the slowest axis
        live shift_0: u32 = 0,
        /// bits to the left of the middle axis
        live shift_1: u32 = 0,
        /// 0 a table's Gaussian numbers, 1 those of Box and Muller, 2 signs
        fixed mode: u32 = TABLE,
    }
}

impl Params {
    /// The index of a place of the box in its counter.
    pub(super) fn index(&self, place: u32) -> u32 {
        let i2 = self.first_2.wrapping_add(place % self.side_2);
        let i1 = self.first_1.wrapping_add(place / self.side_2 % self.side_1);
        let i0 = self.first_0.wrapping_add(place / (self.side_2 * self.side_1));
        (i0 << self.shift_0) | (i1 << self.shift_1) | i2
    }

    /// The number that a lane makes of its counter's words.
    pub(super) fn number(&self, words: [u32; 4], lane: usize) -> f64 {
        number(self.mode, words, lane)
    }
}

/// The number that a lane makes of its counter's words.
pub(super) fn number(mode: u32, words: [u32; 4], lane: usize) -> f64 {
    match mode {
        BOX_MULLER => random::box_muller(words)[lane],
        SIGNS => random::rademacher(words[lane]).into(),
        _ => random::gaussian(words[lane]).into(),
    }
}

fn check(d: &Dims, params: &[u8]) -> std::result::Result<(), String> {
    let p = Params::from_bytes(params);
    let (c, u, r) = (d.size("c"), d.size("u"), d.size("r"));
    if p.mode > SIGNS {
        return Err(format!("mode is 0, 1 or 2, got {}", p.mode));
    }
    if u64::from(p.channel) + u64::from(c) > 1 << 20 || r > 1 << 14 {
        return Err(format!(
            "counters have room for 2²⁰ channels and 16384 lanes, got channels {} to {} and {r} lanes",
            p.channel,
            u64::from(p.channel) + u64::from(c)
        ));
    }
    if d.size("t") != 2 * LENGTH {
        return Err(format!("the table has {} words, got {}", 2 * LENGTH, d.size("t")));
    }
    let plane = u64::from(p.side_1) * u64::from(p.side_2);
    if plane == 0 || plane > u64::from(u32::MAX) || !u64::from(u).is_multiple_of(plane) {
        return Err(format!("{u} positions are no box of whole planes {} × {}", p.side_1, p.side_2));
    }
    if p.shift_0 > 31 || p.shift_1 > 31 {
        return Err(format!("shifts are below 32, got {} and {}", p.shift_0, p.shift_1));
    }
    // Axes must not run into each other's bits.
    let axes = [(p.first_2, p.side_2, 0), (p.first_1, p.side_1, p.shift_1), (p.first_0, u / plane as u32, p.shift_0)];
    let mut free = 0;
    for (first, side, shift) in axes {
        let last = (u64::from(first) + u64::from(side)).saturating_sub(1);
        if last == 0 {
            continue;
        }
        if shift < free || u64::from(shift) + u64::from(64 - last.leading_zeros()) > 32 {
            return Err(format!(
                "positions up to {last}, {shift} bits to the left, run beyond the bits that their axis has in a counter"
            ));
        }
        free = shift + 64 - last.leading_zeros();
    }
    Ok(())
}

/// Words of one half of the table.
pub(super) const LENGTH: u32 = (table::ROWS * table::PIECES) as u32;

/// The table as the port takes it.
pub fn table_words() -> Vec<u32> {
    let halves = [&table::START, &table::SLOPE];
    halves.iter().flat_map(|half| half.iter().flatten().map(|x| x.cast_unsigned())).collect()
}

fn reference<T: Real>(args: &mut HostArgs<T>) -> Result<()> {
    let p: Params = args.params();
    let [c, u, r] = ["c", "u", "r"].map(|x| args.dims.at(x));
    let seed = u64::from(p.seed_high) << 32 | u64::from(p.seed_low);
    let out = reference::rows(c, u, r, |channel, place, line| {
        for (quad, four) in line.chunks_mut(4).enumerate() {
            let lane = (quad as u32) << 20;
            let channel = (p.channel + channel as u32) | lane;
            let other = place + 1 == u && p.last_purpose > 0;
            let purpose = if other { p.last_purpose } else { p.purpose };
            let words = random::philox([p.index(place as u32), channel, p.step, purpose], seed);
            four.iter_mut().enumerate().for_each(|(lane, y)| *y = T::of(p.number(words, lane)));
        }
    });
    args.set("out", out);
    Ok(())
}

fn quads(d: &Dims) -> u64 {
    u64::from(d.size("c")) * u64::from(d.size("u")) * u64::from(d.size("r").div_ceil(4))
}

const CUDA_SOURCE: cuda::Source = cuda::Source {
    constants: |_| vec![("WHOLE", Constant::Bool(false))],
    ..cuda_source!("position/counter_noise.cu", 256, |d, _| quads(d).div_ceil(256)).with(CUDA)
};

static VARIANTS: &[Variant] = &[Variant::only(
    "position/counter_noise.wgsl",
    include_str!("../../../shaders/position/counter_noise.wgsl"),
    &[GROUP, PHILOX, TURNS, NUMBERS],
    |d, _| quads(d).div_ceil(64),
    |d, _| Loads { storage: 8.0 * quads(d) as f64, ..Loads::default() },
)];

pub(super) fn words(_: &Dims) -> HostData {
    HostData::U32(table_words())
}

const FILL: &[(&str, Fill)] = &[("table", Fill::Made(words))];

const fn sizes(c: u32, u: u32, r: u32) -> [(&'static str, u32); 4] {
    [("c", c), ("u", u), ("r", r), ("t", 2 * LENGTH)]
}

fn with(mode: u32) -> Vec<u8> {
    Params { seed_low: 7, seed_high: 0x8000_0001, channel: 3, first_0: 11, mode, ..Params::default() }.to_bytes()
}

/// Of numbers from counters.
pub(super) const TOLERANCE: Tolerance = Tolerance {
    factor: 2.0,
    floor: 1e-6,
    reason: "logarithm and root of Box and Muller are each off by a few units in the last place; the other modes are exact",
};

/// The kernel's description.
pub static SPEC: KernelSpec = KernelSpec {
    name: "counter_noise",
    family: "position",
    formula: "out[c, u, r] = number of counter (u, c, ⌊r/4⌋, step, purpose), word r mod 4",
    source: "Salmon et al. 2011, Philox4x32-10; inverse distribution by a table: derivation",
    ports: &[
        Port::read("table", &["t"]).of(DType::U32),
        Port::write("out", &["c", "u", "r"]),
    ],
    params: Params::FIELDS,
    defaults: Params::default_bytes,
    output_dims: None,
    check,
    wgpu: OnWgpu::Shader(VARIANTS),
    cuda: OnCuda::Source(&[
        cuda::Source {
            name: "vec4",
            vec4: &["out"],
            constants: |_| vec![("WHOLE", Constant::Bool(true))],
            ..CUDA_SOURCE
        },
        CUDA_SOURCE,
    ]),
    reference: reference!(reference),
    window: whole_heads,
    cost: |d, _| {
        let (four, stores) = (quads(d) as f64, quads(d) as f64 * 4.0);
        Cost { flop: 300.0 * four, exp: 0.0, stores, bytes: 4.0 * stores, ..Cost::default() }
    },
    tolerance: TOLERANCE,
    cases: &[
        Case::new("smallest", &sizes(1, 1, 1), Params::default_bytes).filled(FILL),
        Case::new("odd", &sizes(3, 7, 13), || with(TABLE)).filled(FILL),
        Case::new("box_muller", &sizes(3, 29, 13), || with(BOX_MULLER)).filled(FILL),
        Case::new("signs", &sizes(3, 29, 13), || with(SIGNS)).filled(FILL),
        Case::new("last_of_another_purpose", &sizes(2, 7, 6), || {
            Params { last_purpose: 0x0300_0000, ..Params::default() }.to_bytes()
        })
        .filled(FILL),
        Case::new("plane", &sizes(2, 35, 6), || {
            Params { first_0: 5, first_1: 9, side_1: 7, shift_0: 16, ..Params::default() }.to_bytes()
        })
        .filled(FILL),
        Case::new("solid", &sizes(2, 60, 4), || {
            let box_of = Params { first_0: 1, first_1: 2, first_2: 3, side_1: 4, side_2: 5, ..Params::default() };
            Params { shift_0: 22, shift_1: 11, ..box_of }.to_bytes()
        })
        .filled(FILL),
        Case::new("last_position", &sizes(1, 2, 4), || {
            Params { first_0: u32::MAX - 1, ..Params::default() }.to_bytes()
        })
        .filled(FILL),
        Case::new("nothing", &sizes(2, 0, 4), Params::default_bytes).filled(FILL),
        Case::new("channels_64_of_2048", &sizes(64, 2048, 64), Params::default_bytes).filled(FILL).for_bench(),
    ],
    vjp: None,
};

/// The table as a constant of a graph.
///
/// Errors: none for this table.
pub fn table(graph: &mut Graph) -> Result<Tensor> {
    Ok(graph.constant("table of Gaussian numbers", HostTensor::new([2 * LENGTH], HostData::U32(table_words()))?))
}

/// Records numbers `[c, u, r]` into a new transient, with the [`table()`].
///
/// Errors: places beyond the counter's bits.
#[track_caller]
pub fn record(graph: &mut Graph, name: &str, table: Tensor, [c, u, r]: [u32; 3], params: Params) -> Result<Tensor> {
    let out = graph.transient(name, [c, u, r], DType::F32);
    graph.pass(&SPEC, &params, &[Some(table), Some(out)])?;
    Ok(out)
}
