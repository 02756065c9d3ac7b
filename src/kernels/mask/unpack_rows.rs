//! Rows of sequences put back where [`pack_rows`](super::pack_rows) took them from.
//!
//! `out[a, d, i]` = `x[p / m, a, d, p mod m]` for p = `place[i]` below s·m, else `base[a, d, i]`, or zeros without a base.
//!
//! `x` `[s, a, d, m, c]`, `place` `[n]`, `base` and `out` `[a, d, n, c]`: sequences, batch elements, heads, rows, columns.

use crate::error::Result;
use crate::graph::Graph;
use crate::kernel::wgsl_module::GROUP;
use crate::kernel::*;
use crate::{cuda_source, reference};
use crate::tensor::{DType, Dims, HostData, Tensor};

fn reference<T: Real>(args: &mut HostArgs<T>) -> Result<()> {
    let [a, d, n, c, s, m] = ["a", "d", "n", "c", "s", "m"].map(|x| args.dims.at(x));
    let (x, place, base) = (args.real("x"), args.words("place"), args.real_if("base"));
    let out = reference::rows(a * d, n, c, |head, i, line| {
        let p = place[i] as usize;
        if p < s * m {
            line.copy_from_slice(&x[((p / m * a * d + head) * m + p % m) * c..][..c]);
        } else if let Some(base) = &base {
            line.copy_from_slice(&base[(head * n + i) * c..][..c]);
        }
    });
    args.set("out", out);
    Ok(())
}

/// Refuses sequences without places, and more numbers than 32 bits count.
fn check(dims: &Dims, _: &[u8]) -> std::result::Result<(), String> {
    let [a, d, n, c, s, m] = ["a", "d", "n", "c", "s", "m"].map(|x| u64::from(dims.size(x)));
    if s * m == 0 || [s * a * d * m * c, a * d * n * c].iter().any(|words| *words > u64::from(u32::MAX)) {
        return Err(format!("[{s}, {a}, {d}, {m}, {c}] numbers to {n} rows: wants 1 place at least and fewer than 2³² numbers"));
    }
    Ok(())
}

fn words(d: &Dims) -> f64 {
    ["a", "d", "n", "c"].map(|x| f64::from(d.size(x))).iter().product()
}

/// Places in no order, every fourth row without one.
fn some_places(dims: &Dims) -> HostData {
    let (places, n) = (dims.size("s") * dims.size("m"), dims.size("n"));
    HostData::U32((0..n).map(|i| if i % 4 == 3 { u32::MAX } else { i * 5 % places }).collect())
}

const FILLS: [(&str, Fill); 1] = [("place", Fill::Made(some_places))];

/// Where a thread moves so many neighbouring words.
const fn in_cuda<const WORDS: u32>() -> cuda::Source {
    cuda::Source {
        constants: |_| vec![("WORDS", Constant::U32(WORDS))],
        ..cuda_source!("mask/unpack_rows.cu", 256, |d, _| (words(d) as u64 / u64::from(WORDS)).div_ceil(256))
        .with(&[cuda::VECTORS])
    }
}

/// The kernel's description.
pub static SPEC: KernelSpec = KernelSpec {
    name: "unpack_rows",
    family: "mask",
    formula: "out[a, d, i] = x[p / m, a, d, p mod m] for p = place[i], else base[a, d, i]",
    source: "definition",
    ports: &[
        Port::read("x", &["s", "a", "d", "m", "c"]),
        Port::read("place", &["n"]).of(DType::U32),
        Port::read("base", &["a", "d", "n", "c"]).optional(),
        Port::write("out", &["a", "d", "n", "c"]),
    ],
    params: params::NoParams::FIELDS,
    defaults: Vec::new,
    output_dims: None,
    check,
    wgpu: OnWgpu::Shader(&[Variant::only(
        "mask/unpack_rows.wgsl",
        include_str!("../../../shaders/mask/unpack_rows.wgsl"),
        &[GROUP],
        |d, _| (words(d) as u64).div_ceil(64),
        |d, _| Loads { storage: 2.0 * words(d), ..Loads::default() },
    )]),
    cuda: OnCuda::Source(&[
        cuda::Source {
            name: "vec4",
            vec4: &["x", "base", "out"],
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
            .without(&["base"])
            .filled(&FILLS),
        Case::new("odd", &[("a", 2), ("d", 3), ("n", 37), ("c", 5), ("s", 3), ("m", 16)], Vec::new).filled(&FILLS),
        Case::new("bare", &[("a", 1), ("d", 2), ("n", 21), ("c", 4), ("s", 1), ("m", 8)], Vec::new)
            .without(&["base"])
            .filled(&FILLS),
        Case::new("rows_65536", &[("a", 1), ("d", 8), ("n", 65_536), ("c", 32), ("s", 64), ("m", 1024)], Vec::new)
            .filled(&FILLS)
            .resized(|d| {
                d.set("m", d.size("n").div_ceil(d.size("s").max(1)));
                Ok(Vec::new())
            })
            .for_bench(),
    ],
    vjp: None,
};

/// Records the rows of `x` `[s·a, d, m, c]` at their places in a new transient `[a, d, n, c]`, over `base` where there is one.
///
/// Errors: shapes that do not fit, with the caller's place.
#[track_caller]
pub fn record(graph: &mut Graph, name: &str, x: Tensor, heads: [u32; 2], place: Tensor, base: Option<Tensor>) -> Result<Tensor> {
    let out = graph.transient(name, [heads[0], heads[1], place.dim(0), x.dim(3)], DType::F32);
    record_into(graph, x, place, base, out)?;
    Ok(out)
}

/// The same into a given tensor.
///
/// Errors: as [`record`].
#[track_caller]
pub fn record_into(graph: &mut Graph, x: Tensor, place: Tensor, base: Option<Tensor>, out: Tensor) -> Result<()> {
    let [a, d] = [out.dim(0), out.dim(1)];
    let x = graph.reshape(x, [x.dim(0) / a.max(1), a, d, x.dim(2), x.dim(3)])?;
    graph.pass(&SPEC, &params::NoParams {}, &[Some(x), Some(place), base, Some(out)])?;
    Ok(())
}
