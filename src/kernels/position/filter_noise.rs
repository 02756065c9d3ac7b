//! Noise under a short filter, in one to three dimensions: the codes of convolutional relative positions, tap by tap.
//!
//! `out[i, r]` = Σ_p `taps[p]` · `z[i + p, r]`, positions and taps being places in boxes, without mirroring
//!
//! * `z` `[b, h, u0, u1, u2, r]`: along every axis longer than the positions by the taps less one.
//! * `taps` `[b, h, t0, t1, t2]`; may be shared by the batch.
//! * `out` `[b, h, n0, n1, n2, r]`; a line of positions is 1 × 1 × n.

use crate::error::Result;
use crate::graph::Graph;
use crate::kernel::wgsl_module::{GROUP, Shared};
use crate::kernel::*;
use crate::kernels::tree::layout::{VECTORS, WORDS};
use crate::{cuda_source, reference};
use crate::tensor::{DType, Dims, Tensor};

/// Names of what belongs to each axis: noise, taps, positions.
const AXES: [[&str; 3]; 3] = [["u0", "t0", "n0"], ["u1", "t1", "n1"], ["u2", "t2", "n2"]];

fn check(d: &Dims, _: &[u8]) -> std::result::Result<(), String> {
    for names in AXES {
        let [u, t, n] = names.map(|name| d.size(name));
        if t == 0 || u64::from(u) + 1 != u64::from(n) + u64::from(t) {
            return Err(format!(
                "{n} positions under {t} taps need {} places of noise and at least 1 tap, got {} = {u}",
                (u64::from(n) + u64::from(t)).saturating_sub(1),
                names[0]
            ));
        }
    }
    Ok(())
}

fn reference<T: Real>(args: &mut HostArgs<T>) -> Result<()> {
    let sizes = AXES.map(|names| names.map(|name| args.dims.at(name)));
    let [[u0, t0, n0], [u1, t1, n1], [u2, t2, n2]] = sizes;
    let r = args.dims.at("r");
    let (z, w) = (args.real("z"), args.real("taps"));
    let shared = &*args;
    let out = reference::rows(args.dims.batches() as usize, n0 * n1 * n2, r, |batch, i, line| {
        let at = [i / (n1 * n2), i / n2 % n1, i % n2];
        for tap in 0..t0 * t1 * t2 {
            let tap_at = [tap / (t1 * t2), tap / t2 % t1, tap % t2];
            let [x, y, v] = [0, 1, 2].map(|axis| at[axis] + tap_at[axis]);
            let place = ((batch * u0 + x) * u1 + y) * u2 + v;
            let w = w[shared.start("taps", batch) + tap];
            line.iter_mut().zip(&z[place * r..]).for_each(|(sum, z)| *sum += w * *z);
        }
    });
    args.set("out", out);
    Ok(())
}

fn product(d: &Dims, which: usize) -> f64 {
    AXES.iter().map(|names| f64::from(d.size(names[which]))).product()
}

/// Threads of a head without lanes.
fn strips(d: &Dims) -> u64 {
    u64::from(d.size("n0")) * u64::from(d.size("n1")) * u64::from(d.size("n2").div_ceil(4))
}

/// Words of noise and taps for each thread of so many lanes.
fn words(d: &Dims, lanes: f64) -> Loads {
    let (lines, t2) = (f64::from(d.size("t0")) * f64::from(d.size("t1")), f64::from(d.size("t2")));
    let threads = strips(d) as f64 * f64::from(d.size("r")) / lanes;
    Loads { storage: threads * lines * (lanes * (t2 + 3.0) + t2), ..Loads::default() }
}

const fn variant(shared: &'static [&'static Shared]) -> Variant {
    Variant::only(
        "position/filter_noise.wgsl",
        include_str!("../../../shaders/position/filter_noise.wgsl"),
        shared,
        |d, batches| batches * (strips(d) * u64::from(d.size("r"))).div_ceil(64),
        |d, _| words(d, 1.0),
    )
    .rounds(|d| product(d, 1) as u64)
}

/// Where a thread makes so many neighbouring words.
const fn in_cuda<const WORDS: u32>() -> cuda::Source {
    cuda::Source {
        constants: |_| vec![("WORDS", Constant::U32(WORDS))],
        ..cuda_source!("position/filter_noise.cu", 256, |d, _| {
            d.batches() * (strips(d) * u64::from(d.size("r") / WORDS)).div_ceil(256)
        }).with(&[cuda::VECTORS])
    }
}

static VARIANTS: &[Variant] = &[
    Variant {
        name: "vectors",
        vec4: &["z", "out"],
        suits: |d, _, _| d.size("r").is_multiple_of(4) && d.size("r") > 0,
        grid: |d, batches| batches * (strips(d) * u64::from(d.size("r") / 4)).div_ceil(64),
        loads: |d, _| words(d, 4.0),
        ..variant(&[GROUP, VECTORS])
    },
    variant(&[GROUP, WORDS]),
];

const fn sizes(n: [u32; 3], t: [u32; 3], r: u32) -> [(&'static str, u32); 12] {
    [
        ("b", 2),
        ("h", 3),
        ("u0", n[0] + t[0] - 1),
        ("u1", n[1] + t[1] - 1),
        ("u2", n[2] + t[2] - 1),
        ("r", r),
        ("t0", t[0]),
        ("t1", t[1]),
        ("t2", t[2]),
        ("n0", n[0]),
        ("n1", n[1]),
        ("n2", n[2]),
    ]
}

/// The kernel's description.
pub static SPEC: KernelSpec = KernelSpec {
    name: "filter_noise",
    family: "position",
    formula: "out[i, r] = Σ_p taps[p] z[i + p, r], places in one to three dimensions",
    source: "Liutkus et al. 2021, eq. 20 and 21",
    ports: &[
        Port::read("z", &["b", "h", "u0", "u1", "u2", "r"]),
        Port::read("taps", &["b", "h", "t0", "t1", "t2"]).broadcast(),
        Port::write("out", &["b", "h", "n0", "n1", "n2", "r"]),
    ],
    params: &[],
    defaults: Vec::new,
    output_dims: Some(|d, _| {
        for [u, t, n] in AXES {
            d.set(n, (d.size(u) + 1).saturating_sub(d.size(t)));
        }
    }),
    check,
    wgpu: OnWgpu::Shader(VARIANTS),
    cuda: OnCuda::Source(&[
        cuda::Source {
            name: "vec4",
            vec4: &["z", "out"],
            suits: |d, _| d.size("r").is_multiple_of(4) && d.size("r") > 0,
            ..in_cuda::<4>()
        },
        in_cuda::<1>(),
    ]),
    reference: reference!(reference),
    window: whole_heads,
    cost: |d, _| {
        let r = f64::from(d.size("r"));
        let [noise, taps, out] = [0, 1, 2].map(|which| d.batches() as f64 * product(d, which));
        let flop = 2.0 * out * product(d, 1) * r;
        Cost { flop, exp: 0.0, stores: out * r, bytes: 4.0 * ((noise + out) * r + taps), ..Cost::default() }
    },
    tolerance: Tolerance::SUMS,
    cases: &[
        Case::new("smallest", &[
            ("b", 1), ("h", 1), ("u0", 1), ("u1", 1), ("u2", 1), ("r", 1), ("t0", 1), ("t1", 1), ("t2", 1),
            ("n0", 1), ("n1", 1), ("n2", 1),
        ], Vec::new),
        Case::new("odd", &sizes([1, 1, 13], [1, 1, 5], 3), Vec::new),
        Case::new("longer_than_the_line", &sizes([1, 1, 3], [1, 1, 9], 4), Vec::new).shared(&["taps"]),
        Case::new("plane", &sizes([1, 5, 7], [1, 3, 4], 8), Vec::new),
        Case::new("solid", &sizes([3, 2, 5], [2, 3, 2], 5), Vec::new).shared(&["taps"]),
        Case::new("one_tap", &sizes([1, 1, 70], [1, 1, 1], 4), Vec::new),
        Case::new("no_positions", &sizes([1, 1, 0], [1, 1, 3], 4), Vec::new),
        Case::new("taps_128_of_2048", &[
            ("b", 1), ("h", 16), ("u0", 1), ("u1", 1), ("u2", 2175), ("r", 64), ("t0", 1), ("t1", 1), ("t2", 128),
            ("n0", 1), ("n1", 1), ("n2", 2048),
        ], Vec::new)
        .for_bench(),
    ],
    vjp: None,
};

/// Records noise `[b, h, u0, u1, u2, r]` under taps `[b, h, t0, t1, t2]` into a new transient `[b, h, n0, n1, n2, r]`.
///
/// Errors: shapes that do not fit, with the caller's place.
#[track_caller]
pub fn record(graph: &mut Graph, name: &str, z: Tensor, taps: Tensor) -> Result<Tensor> {
    let n = |axis: usize| (z.dim(axis) + 1).saturating_sub(taps.dim(axis));
    let out = graph.transient(name, [z.dim(0), z.dim(1), n(2), n(3), n(4), z.dim(5)], DType::F32);
    graph.pass(&SPEC, &NoParams {}, &[Some(z), Some(taps), Some(out)])?;
    Ok(out)
}
