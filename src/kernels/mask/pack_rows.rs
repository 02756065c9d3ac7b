//! Rows of all heads gathered into sequences of equal length, each of which becomes a batch element of its own: how packed
//! sequences, and the grid behind global tokens, come to transforms of their size.
//!
//! `out[s, a, d, m]` = `x[a, d, index[s, m]]`, zeros where the index is no row or `keep` leaves the row out, whatever it holds.
//!
//! * `x` `[a, d, n, c]`: batch elements, heads, rows, columns; `index` `[s, m]`: numbers from n on mean no row.
//! * `keep` `[a or 1, d or 1, n]`: 0 leaves a row out. `out` `[s, a, d, m, c]`, that is `[s·a, d, m, c]`.
//!
//! [`unpack_rows`](super::unpack_rows) is the way back.

use crate::error::Result;
use crate::graph::Graph;
use crate::kernel::wgsl_module::{BYTES, GROUP};
use crate::kernel::*;
use crate::{cuda_source, reference};
use crate::tensor::{DType, Dims, HostData, Tensor};

fn reference<T: Real>(args: &mut HostArgs<T>) -> Result<()> {
    let [a, d, n, c, s, m, ka, kd] = ["a", "d", "n", "c", "s", "m", "ka", "kd"].map(|x| args.dims.at(x));
    let (x, index, keep) = (args.real("x"), args.words("index"), args.words_if("keep"));
    let out = reference::rows(s, a * d * m, c, |sequence, place, line| {
        let (head, row) = (place / m, index[sequence * m + place % m] as usize);
        let kept = |mask: &Vec<u32>| mask[((head / d).min(ka - 1) * kd + (head % d).min(kd - 1)) * n + row] != 0;
        if row < n && keep.as_deref().is_none_or(kept) {
            line.copy_from_slice(&x[(head * n + row) * c..][..c]);
        }
    });
    args.set("out", out);
    Ok(())
}

/// Refuses masks of other batches, and more numbers than 32 bits count.
fn check(dims: &Dims, _: &[u8]) -> std::result::Result<(), String> {
    let [a, d, n, c, s, m] = ["a", "d", "n", "c", "s", "m"].map(|x| u64::from(dims.size(x)));
    let fits = |name: &str, full: u64| dims.find(name).is_none_or(|size| size == 1 || u64::from(size) == full);
    if !fits("ka", a) || !fits("kd", d) {
        return Err(format!("`keep` is for {a} batch elements and {d} heads, or for all alike"));
    }
    if n == 0 || [s * a * d * m * c, a * d * n * c].iter().any(|words| *words > u64::from(u32::MAX)) {
        return Err(format!("[{s}, {a}, {d}, {m}, {c}] numbers from rows 0 to {n}: wants 1 row at least and fewer than 2³² numbers"));
    }
    Ok(())
}

fn words(d: &Dims) -> f64 {
    ["s", "a", "d", "m", "c"].map(|x| f64::from(d.size(x))).iter().product()
}

/// Rows in no order, every fourth place empty.
fn some_rows(dims: &Dims) -> HostData {
    let (places, n) = (dims.size("s") * dims.size("m"), dims.size("n"));
    HostData::U32((0..places).map(|i| if i % 4 == 3 { u32::MAX } else { i * 7 % n }).collect())
}

const FILLS: [(&str, Fill); 1] = [("index", Fill::Made(some_rows))];

/// Where a thread moves so many neighbouring words.
const fn in_cuda<const WORDS: u32>() -> cuda::Source {
    cuda::Source {
        constants: |_| vec![("WORDS", Constant::U32(WORDS))],
        ..cuda_source!("mask/pack_rows.cu", 256, |d, _| (words(d) as u64 / u64::from(WORDS)).div_ceil(256))
        .with(&[cuda::VECTORS])
    }
}

/// The kernel's description.
pub static SPEC: KernelSpec = KernelSpec {
    name: "pack_rows",
    family: "mask",
    formula: "out[s, a, d, m] = x[a, d, index[s, m]], 0 where there is no such row",
    source: "definition",
    ports: &[
        Port::read("x", &["a", "d", "n", "c"]),
        Port::read("index", &["s", "m"]).of(DType::U32),
        Port::read("keep", &["ka", "kd", "n"]).of(DType::U8).optional(),
        Port::write("out", &["s", "a", "d", "m", "c"]),
    ],
    params: params::NoParams::FIELDS,
    defaults: Vec::new,
    output_dims: None,
    check,
    wgpu: OnWgpu::Shader(&[Variant::only(
        "mask/pack_rows.wgsl",
        include_str!("../../../shaders/mask/pack_rows.wgsl"),
        &[GROUP, BYTES],
        |d, _| (words(d) as u64).div_ceil(64),
        |d, _| Loads { storage: 2.0 * words(d), ..Loads::default() },
    )]),
    cuda: OnCuda::Source(&[
        cuda::Source {
            name: "vec4",
            vec4: &["x", "out"],
            suits: |d, _| d.size("c").is_multiple_of(4) && d.size("c") > 0,
            ..in_cuda::<4>()
        },
        in_cuda::<1>(),
    ]),
    reference: reference!(reference),
    window: whole_heads,
    cost: |d, _| Cost { flop: 0.0, exp: 0.0, stores: words(d), bytes: 8.0 * words(d), ..Cost::default() },
    tolerance: Tolerance::EXACT,
    cases: &[
        Case::new("smallest", &[("a", 1), ("d", 1), ("n", 1), ("c", 1), ("s", 1), ("m", 1)], Vec::new)
            .without(&["keep"])
            .filled(&FILLS),
        Case::new(
            "odd",
            &[("a", 2), ("d", 3), ("n", 37), ("c", 5), ("s", 3), ("m", 16), ("ka", 2), ("kd", 3)],
            Vec::new,
        )
        .filled(&FILLS),
        Case::new(
            "shared_garbage",
            &[("a", 2), ("d", 3), ("n", 21), ("c", 4), ("s", 1), ("m", 8), ("ka", 1), ("kd", 1)],
            Vec::new,
        )
        .filled(&[FILLS[0], ("keep", Fill::Value(0.0)), ("x", Fill::Value(3e38))]),
        Case::new("rows_65536", &[("a", 1), ("d", 8), ("n", 65_536), ("c", 32), ("s", 64), ("m", 1024)], Vec::new)
            .without(&["keep"])
            .filled(&FILLS)
            .resized(|d| {
                d.set("m", d.size("n").div_ceil(d.size("s").max(1)));
                Ok(Vec::new())
            })
            .for_bench(),
    ],
    vjp: None,
};

/// Records the rows of `x` `[a, d, n, c]` that `index` `[s, m]` names into a new transient `[s·a, d, m, c]`.
///
/// Errors: shapes that do not fit, with the caller's place.
#[track_caller]
pub fn record(graph: &mut Graph, name: &str, x: Tensor, index: Tensor, keep: Option<Tensor>) -> Result<Tensor> {
    let ([a, d, c], [s, m]) = ([0, 1, 3].map(|axis| x.dim(axis)), [index.dim(0), index.dim(1)]);
    let out = graph.transient(name, [s, a, d, m, c], DType::F32);
    graph.pass(&SPEC, &params::NoParams {}, &[Some(x), Some(index), keep, Some(out)])?;
    graph.reshape(out, [s * a, d, m, c])
}
