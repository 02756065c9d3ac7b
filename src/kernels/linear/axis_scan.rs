//! Two-sided exponential weights along one axis of a grid: what a separable mask is made of, one axis after the other.
//!
//! `out[o, i, c]` = Σⱼ γ^|i − j| `x[o, j, c]`: the forward recurrence, plus the backward one less what both count
//!
//! `x`, `out` `[b, h, o, n, m]`: o places on the axes before, n along this axis, m on the axes after times channels; `decay` `[h]` or
//! `[1]`. Only additions of what is positive: relative accuracy is kept where a transform would lose it.

use crate::error::Result;
use crate::graph::Graph;
use crate::kernel::wgsl_module::GROUP;
use crate::kernel::*;
use crate::{cuda_shared, cuda_source, reference};
use crate::tensor::{DType, Dims, Tensor};

fn check(dims: &Dims, _: &[u8]) -> std::result::Result<(), String> {
    let (h, heads) = (dims.size("h"), dims.size("heads"));
    if heads != 1 && heads != h { Err(format!("decay has 1 or h = {h} numbers, got {heads}")) } else { Ok(()) }
}

fn reference<T: Real>(args: &mut HostArgs<T>) -> Result<()> {
    let [o, n, m, h, heads] = ["o", "n", "m", "h", "heads"].map(|d| args.dims.at(d));
    let (x, decay) = (args.real("x"), args.real("decay"));
    let out = reference::rows(args.dims.batches() as usize, o, n * m, |batch, place, lines| {
        let gamma = decay[batch % h.max(1) % heads.max(1)];
        let from = (batch * o + place) * n * m;
        for c in 0..m {
            let mut run = T::zero();
            for i in 0..n {
                run = gamma * run + x[from + i * m + c];
                lines[i * m + c] = run;
            }
            run = T::zero();
            for i in (0..n).rev() {
                lines[i * m + c] += gamma * run;
                run = gamma * run + x[from + i * m + c];
            }
        }
    });
    args.set("out", out);
    Ok(())
}

fn words(d: &Dims) -> f64 {
    f64::from(d.size("o")) * f64::from(d.size("n")) * f64::from(d.size("m"))
}

const fn sizes(o: u32, n: u32, m: u32) -> [(&'static str, u32); 6] {
    [("b", 2), ("h", 2), ("heads", 2), ("o", o), ("n", n), ("m", m)]
}

const FILL: &[(&str, Fill)] = &[("x", Fill::Uniform(0.0, 1.0)), ("decay", Fill::Uniform(0.3, 1.0))];

/// The kernel's description.
pub static SPEC: KernelSpec = KernelSpec {
    name: "axis_scan",
    family: "linear",
    formula: "out[o,i,c] = Σⱼ γ^|i−j| x[o,j,c]",
    source: "two first-order recurrences",
    ports: &[
        Port::read("x", &["b", "h", "o", "n", "m"]),
        Port::read("decay", &["heads"]),
        Port::write("out", &["b", "h", "o", "n", "m"]),
    ],
    params: params::NoParams::FIELDS,
    defaults: Vec::new,
    output_dims: None,
    check,
    wgpu: OnWgpu::Shader(&[Variant::only(
        "linear/axis_scan.wgsl",
        include_str!("../../../shaders/linear/axis_scan.wgsl"),
        &[GROUP],
        |d, batches| batches * (u64::from(d.size("o")) * u64::from(d.size("m"))).div_ceil(64),
        |d, _| Loads { storage: 3.0 * words(d), ..Loads::default() },
    )
    .rounds(|d| 2 * u64::from(d.size("n")))]),
    cuda: OnCuda::Source(&[cuda_source!("linear/axis_scan.cu", 128, |d, _| {
        d.batches() * (u64::from(d.size("o")) * u64::from(d.size("m"))).div_ceil(128)
    })
    .with(&[cuda_shared!("shared/items.cuh")])]),
    reference: reference!(reference),
    window: |_, _| vec![("o", 1)],
    cost: |d, _| {
        let words = d.batches() as f64 * words(d);
        Cost { flop: 5.0 * words, exp: 0.0, stores: words, bytes: 8.0 * words, ..Cost::default() }
    },
    tolerance: Tolerance::SUMS,
    cases: &[
        Case::new("smallest", &[("b", 1), ("h", 1), ("heads", 1), ("o", 1), ("n", 1), ("m", 1)], Vec::new).filled(FILL),
        Case::new("odd", &sizes(3, 17, 5), Vec::new).filled(FILL),
        Case::new("long", &sizes(1, 301, 33), Vec::new).filled(FILL),
        Case::new("identity", &sizes(2, 9, 4), Vec::new).filled(&[("decay", Fill::Value(0.0))]),
        Case::new("grid_64x64", &[("b", 1), ("h", 8), ("heads", 1), ("o", 64), ("n", 64), ("m", 132)], Vec::new).filled(FILL).for_bench(),
    ],
    vjp: None,
};

/// Records the sums along one axis of `x` `[b, h, o, n, m]` into a new transient.
///
/// Errors: shapes that do not fit, with the caller's place.
#[track_caller]
pub fn record(graph: &mut Graph, x: Tensor, decay: Tensor) -> Result<Tensor> {
    let out = graph.transient("sums along an axis", x.shape(), DType::F32);
    graph.pass(&SPEC, &params::NoParams {}, &[Some(x), Some(decay), Some(out)])?;
    Ok(out)
}
