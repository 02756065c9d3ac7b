//! How far X is from the inverse of A.
//!
//! out = ‖I − AX‖_F
//!
//! * `a`, `x` `[b, h, m, m]`, `out` `[b, h, 1]`.

use super::newton_schulz::{check_rows, dense};
use super::{identity_distance, matmul};
use crate::error::Result;
use crate::graph::{Expansion, Graph};
use crate::kernel::*;
use crate::reference;
use crate::tensor::{DType, Tensor};

fn reference<T: Real>(args: &mut HostArgs<T>) -> Result<()> {
    let m = args.dims.at("m");
    let (a, x) = (args.real("a"), args.real("x"));
    let distance = |batch: usize| {
        let part = batch * m * m..(batch + 1) * m * m;
        dense::distance_from_identity(&dense::product(&a[part.clone()], &x[part], m), m, m)
    };
    args.set("out", (0..args.dims.batches() as usize).map(distance).collect());
    Ok(())
}

fn expand(e: &mut Expansion<'_>) -> Result<()> {
    let (a, x, out, size) = (e.port("a"), e.port("x"), e.port("out"), e.dims.size("m"));
    let y = matmul::record(
        e.graph,
        "A X",
        matmul::Inputs::new(a, x),
        matmul::Params::default(),
    )?;
    e.graph.pass(
        &identity_distance::SPEC,
        &identity_distance::Params { size },
        &[Some(y), Some(out)],
    )?;
    Ok(())
}

/// The kernel's description.
pub static SPEC: KernelSpec = KernelSpec {
    name: "inverse_residual",
    family: "linalg",
    formula: "out = ‖I − AX‖_F",
    source: "definition",
    ports: &[
        Port::read("a", &["b", "h", "m", "m"]),
        Port::read("x", &["b", "h", "m", "m"]),
        Port::write("out", &["b", "h", "1"]),
    ],
    params: &[],
    defaults: Vec::new,
    output_dims: None,
    check: |dims, _| check_rows(dims.size("m")),
    wgpu: OnWgpu::Expand(expand),
    cuda: OnCuda::Expand,
    reference: reference!(reference),
    window: whole_heads,
    cost: |d, _| {
        let (m, batches) = (f64::from(d.size("m")), d.batches() as f64);
        Cost {
            flop: 2.0 * batches * m * m * (m + 1.0),
            exp: batches,
            stores: batches,
            bytes: 8.0 * batches * m * m,
            ..Cost::default()
        }
    },
    tolerance: Tolerance::SUMS,
    cases: &[
        Case::new("smallest", &[("b", 1), ("h", 1), ("m", 1)], Vec::new),
        Case::new("odd", &[("b", 2), ("h", 3), ("m", 49)], Vec::new),
        Case::new("hundred", &[("b", 1), ("h", 1), ("m", 100)], Vec::new),
    ],
    vjp: None,
};

/// Records the residual of `x` into a new transient `[b, h, 1]`.
///
/// Errors: shapes that do not fit, with the caller's place.
#[track_caller]
pub fn record(graph: &mut Graph, name: &str, a: Tensor, x: Tensor) -> Result<Tensor> {
    let out = graph.transient(name, [a.dim(0), a.dim(1), 1], DType::F32);
    graph.pass_bytes(&SPEC, &[], &[Some(a), Some(x), Some(out)])?;
    Ok(out)
}
