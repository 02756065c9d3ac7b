//! Powers of a decay, accurate to a rounding however long the chain: what scans multiply their weights from.
//!
//! `powers[h, t]` = decay`[h]`^t, t = 0 … . 0⁰ = 1. Squared and multiplied in pairs of floats, because γ² rounded once and
//! squared five times more would be another decay: off by half an ulp of γ, which a thousand tokens later is seen.

use crate::error::Result;
use crate::graph::Graph;
use crate::kernel::wgsl_module::GROUP;
use crate::kernel::*;
use crate::{cuda_shared, cuda_source, reference};
use crate::tensor::{DType, Tensor};

fn reference<T: Real>(args: &mut HostArgs<T>) -> Result<()> {
    let (heads, t) = (args.dims.at("heads"), args.dims.at("t"));
    let decay = args.real("decay");
    let mut powers = Vec::with_capacity(heads * t);
    for &base in decay.iter() {
        let mut power = T::one();
        for _ in 0..t {
            powers.push(power);
            power *= base;
        }
    }
    args.set("powers", powers);
    Ok(())
}

/// The kernel's description.
pub static SPEC: KernelSpec = KernelSpec {
    name: "decay_powers",
    family: "linear",
    formula: "powers[h,t] = decay[h]^t",
    source: "binary powers; products of pairs of floats after Dekker 1971",
    ports: &[Port::read("decay", &["heads"]), Port::write("powers", &["heads", "t"])],
    params: params::NoParams::FIELDS,
    defaults: Vec::new,
    output_dims: Some(|dims, _| dims.set("t", 65)),
    check: any_dims,
    wgpu: OnWgpu::Shader(&[Variant::only(
        "linear/decay_powers.wgsl",
        include_str!("../../../shaders/linear/decay_powers.wgsl"),
        &[GROUP],
        |d, _| (u64::from(d.size("heads")) * u64::from(d.size("t"))).div_ceil(64),
        |d, _| Loads { storage: f64::from(d.size("heads")) * f64::from(d.size("t")), ..Loads::default() },
    )]),
    cuda: OnCuda::Source(&[cuda_source!("linear/decay_powers.cu", 128, |d, _| {
        (u64::from(d.size("heads")) * u64::from(d.size("t"))).div_ceil(128)
    })
    .with(&[cuda_shared!("shared/items.cuh")])]),
    reference: reference!(reference),
    window: whole_heads,
    cost: |d, _| {
        let powers = f64::from(d.size("heads")) * f64::from(d.size("t"));
        Cost { flop: 200.0 * powers, exp: 0.0, stores: powers, bytes: 4.0 * (powers + f64::from(d.size("heads"))), ..Cost::default() }
    },
    tolerance: Tolerance::SUMS,
    cases: &[
        Case::new("smallest", &[("heads", 1), ("t", 1)], Vec::new),
        Case::new("odd", &[("heads", 5), ("t", 67)], Vec::new).filled(&[("decay", Fill::Uniform(0.0, 1.0))]),
        Case::new("slow", &[("heads", 3), ("t", 257)], Vec::new).filled(&[("decay", Fill::Uniform(0.99, 1.0))]),
        Case::new("nothing", &[("heads", 2), ("t", 9)], Vec::new).filled(&[("decay", Fill::Value(0.0))]),
        Case::new("one", &[("heads", 2), ("t", 129)], Vec::new).filled(&[("decay", Fill::Value(1.0))]),
        Case::new("underflow", &[("heads", 1), ("t", 65)], Vec::new).filled(&[("decay", Fill::Value(1e-3))]),
    ],
    vjp: None,
};

/// Records powers 0 … `last` of `decay` `[heads]` into a new transient `[heads, last + 1]`.
///
/// Errors: shapes that do not fit, with the caller's place.
#[track_caller]
pub fn record(graph: &mut Graph, decay: Tensor, last: u32) -> Result<Tensor> {
    let powers = graph.transient("powers of the decay", [decay.dim(0), last + 1], DType::F32);
    graph.pass(&SPEC, &params::NoParams {}, &[Some(decay), Some(powers)])?;
    Ok(powers)
}
