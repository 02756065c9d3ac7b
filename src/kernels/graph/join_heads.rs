//! The rows of several heads side by side, through ELU where asked: what stands between two attention layers.
//!
//! `y[i, h e + c]` = `x[h, i, c]`, or with `elu` 1: that where it is at least 0, e^x − 1 below.
//!
//! * `x` `[batch, heads, n, e]`, `y` `[batch, 1, n, p]`, p = heads · e.

use crate::error::Result;
use crate::graph::Graph;
use crate::kernel::wgsl_module::{EXP, GROUP};
use crate::kernel::*;
use crate::tensor::{DType, Dims, Tensor};
use crate::{cuda_shared, cuda_source, params, reference};

params! {
    /// Parameters of [`SPEC`].
    pub struct Params {
        /// 1 takes every number through ELU
        fixed elu: u32 = 0,
    }
}

fn check(d: &Dims, params: &[u8]) -> std::result::Result<(), String> {
    let (heads, e, p) = (d.size("heads"), d.size("e"), d.size("p"));
    if u64::from(heads) * u64::from(e) != u64::from(p) {
        return Err(format!("y has {heads} · {e} columns, got p = {p}"));
    }
    match Params::from_bytes(params).elu {
        0 | 1 => Ok(()),
        elu => Err(format!("elu is 0 or 1, got {elu}")),
    }
}

fn reference<T: Real>(args: &mut HostArgs<T>) -> Result<()> {
    let elu = args.params::<Params>().elu == 1;
    let [heads, n, e, p] = ["heads", "n", "e", "p"].map(|x| args.dims.at(x));
    let x = args.real("x");
    let y = reference::rows(args.dims.at("batch"), n, p, |batch, i, line| {
        for (at, y) in line.iter_mut().enumerate() {
            let value = x[((batch * heads + at / e) * n + i) * e + at % e];
            *y = if elu && value < T::zero() { value.exp_m1() } else { value };
        }
    });
    args.set("y", y);
    Ok(())
}

fn numbers(d: &Dims) -> u64 {
    ["batch", "n", "p"].iter().map(|x| u64::from(d.size(x))).product()
}

/// Blocks of threads that take `lanes` numbers, one batch element after the other.
fn blocks(d: &Dims, lanes: u32) -> u64 {
    u64::from(d.size("batch")) * (u64::from(d.size("n")) * u64::from(d.size("p") / lanes)).div_ceil(256)
}

static SHARED: &[&cuda::Shared] = &[cuda::EXP, cuda::VECTORS, cuda_shared!("shared/items.cuh")];

fn elu() -> Vec<u8> {
    Params { elu: 1 }.to_bytes()
}

/// The kernel's description.
pub static SPEC: KernelSpec = KernelSpec {
    name: "join_heads",
    family: "graph",
    formula: "y[i, h e + c] = elu(x[h, i, c]), or without elu",
    source: "Clevert et al. 2016 (ELU); definition",
    ports: &[
        Port::read("x", &["batch", "heads", "n", "e"]),
        Port::write("y", &["batch", "1", "n", "p"]),
    ],
    params: Params::FIELDS,
    defaults: Params::default_bytes,
    output_dims: Some(|d, _| d.set("p", d.size("heads").saturating_mul(d.size("e")))),
    check,
    wgpu: OnWgpu::Shader(&[Variant::only(
        "graph/join_heads.wgsl",
        include_str!("../../../shaders/graph/join_heads.wgsl"),
        &[GROUP, EXP],
        |d, _| numbers(d).div_ceil(64),
        |d, _| Loads { storage: numbers(d) as f64, ..Loads::default() },
    )]),
    cuda: OnCuda::Source(&[
        cuda::Source {
            name: "vectors",
            vec4: &["x", "y"],
            constants: |_| vec![("FOUR", Constant::Bool(true))],
            ..cuda_source!("graph/join_heads.cu", 256, |d, _| blocks(d, 4)).with(SHARED)
        },
        cuda::Source {
            constants: |_| vec![("FOUR", Constant::Bool(false))],
            ..cuda_source!("graph/join_heads.cu", 256, |d, _| blocks(d, 1)).with(SHARED)
        },
    ]),
    reference: reference!(reference),
    window: whole_heads,
    cost: |d, p| {
        let all = numbers(d) as f64;
        let exp = if Params::from_bytes(p).elu == 1 { all } else { 0.0 };
        Cost { flop: 0.0, exp, stores: all, bytes: 8.0 * all, ..Cost::default() }
    },
    tolerance: Tolerance::SUMS,
    cases: &[
        Case::new("smallest", &[("batch", 1), ("heads", 1), ("n", 1), ("e", 1), ("p", 1)], elu),
        Case::new("odd", &[("batch", 2), ("heads", 3), ("n", 17), ("e", 5), ("p", 15)], elu)
            .filled(&[("x", Fill::Uniform(-9.0, 9.0))]),
        Case::new("small_numbers", &[("batch", 1), ("heads", 2), ("n", 65), ("e", 4), ("p", 8)], elu)
            .filled(&[("x", Fill::Uniform(-1e-4, 1e-6))]),
        Case::new("as_they_are", &[("batch", 1), ("heads", 2), ("n", 9), ("e", 7), ("p", 14)], Params::default_bytes),
        Case::new("nodes_65536", &[("batch", 1), ("heads", 8), ("n", 65_536), ("e", 8), ("p", 64)], elu).for_bench(),
    ],
    vjp: None,
};

/// Records the joined heads of `x` `[b, h, n, e]` as `[b, 1, n, h · e]`.
///
/// Errors: shapes that do not fit, with the caller's place.
#[track_caller]
pub fn record(graph: &mut Graph, x: Tensor, elu: bool) -> Result<Tensor> {
    let [b, h, n, e] = [x.dim(0), x.dim(1), x.dim(2), x.dim(3)];
    let y = graph.transient("joined heads", [b, 1, n, h * e], DType::F32);
    graph.pass(&SPEC, &Params { elu: u32::from(elu) }, &[Some(x), Some(y)])?;
    Ok(y)
}
