//! The other end of [`outer_rows`](super::outer_rows): masked channels weighed by the query's features and added up.
//!
//! `out[i, c]` = `sum[i, c]` + Σ_l `q[i, first + l]` · `y[i, l (e + 1) + c]`
//!
//! `q` `[b, h, n, r]`, `y` `[b, h, n, s]`, `sum` (what earlier slices gave; may be left out) and `out` `[b, h, n, p]`, p = e + 1.

use super::append_one::check_width;
use super::outer_rows::check_slice;
use crate::error::Result;
use crate::kernel::wgsl_module::GROUP;
use crate::kernel::*;
use crate::tensor::Dims;
use crate::{cuda_shared, cuda_source, params, reference};

params! {
    /// Parameters of [`SPEC`].
    pub struct Params {
        /// the first feature of the slice
        live first: u32 = 0,
    }
}

/// `e` is no dimension of a port: it follows from p.
fn check(dims: &Dims, params: &[u8]) -> std::result::Result<(), String> {
    let mut with_e = dims.clone();
    with_e.set("e", dims.size("p").saturating_sub(1));
    check_width(&with_e, params)?;
    check_slice(&with_e, Params::from_bytes(params).first)
}

fn reference<T: Real>(args: &mut HostArgs<T>) -> Result<()> {
    let p: Params = args.params();
    let [n, r, s, width] = ["n", "r", "s", "p"].map(|d| args.dims.at(d));
    let (q, y, before) = (args.real("q"), args.real("y"), args.real_if("sum"));
    let out = reference::rows(args.dims.batches() as usize, n, width, |batch, i, line| {
        let at = batch * n + i;
        if let Some(before) = &before {
            line.copy_from_slice(&before[at * width..][..width]);
        }
        for (x, row) in q[at * r + p.first as usize..].iter().zip(y[at * s..][..s].chunks_exact(width)) {
            line.iter_mut().zip(row).for_each(|(sum, value)| *sum += *x * *value);
        }
    });
    args.set("out", out);
    Ok(())
}

/// The kernel's description.
pub static SPEC: KernelSpec = KernelSpec {
    name: "contract_rows",
    family: "linear",
    formula: "out[i,c] = sum[i,c] + Σ_l q[i, first+l] · y[i, l(e+1)+c]",
    source: "Choromanski et al. 2022, masked attention from a mask's product, step 3",
    ports: &[
        Port::read("q", &["b", "h", "n", "r"]),
        Port::read("y", &["b", "h", "n", "s"]),
        Port::read("sum", &["b", "h", "n", "p"]).optional(),
        Port::write("out", &["b", "h", "n", "p"]),
    ],
    params: Params::FIELDS,
    defaults: Params::default_bytes,
    output_dims: Some(|dims, params| {
        let features = dims.size("r").saturating_sub(Params::from_bytes(params).first).max(1);
        dims.set("p", dims.size("s") / features);
    }),
    check,
    wgpu: OnWgpu::Shader(&[Variant::only(
        "linear/contract_rows.wgsl",
        include_str!("../../../shaders/linear/contract_rows.wgsl"),
        &[GROUP],
        |d, batches| batches * (u64::from(d.size("n")) * u64::from(d.size("p"))).div_ceil(64),
        |d, _| Loads { storage: 2.0 * f64::from(d.size("n")) * f64::from(d.size("s")), ..Loads::default() },
    )
    .rounds(|d| u64::from(d.size("s") / d.size("p").max(1)))]),
    cuda: OnCuda::Source(&[cuda_source!("linear/contract_rows.cu", 256, |d, _| {
        d.batches() * (u64::from(d.size("n")) * u64::from(d.size("p"))).div_ceil(256)
    })
    .with(&[cuda_shared!("shared/items.cuh")])]),
    reference: reference!(reference),
    window: by_rows,
    cost: |d, _| {
        let [n, s, p] = ["n", "s", "p"].map(|name| f64::from(d.size(name)));
        let batches = d.batches() as f64;
        Cost { flop: 2.0 * batches * n * s, exp: 0.0, stores: batches * n * p, bytes: 4.0 * batches * n * (s + p), ..Cost::default() }
    },
    tolerance: Tolerance::SUMS,
    cases: &[
        Case::new("smallest", &[("b", 1), ("h", 1), ("n", 1), ("r", 1), ("s", 2), ("p", 2)], Params::default_bytes).without(&["sum"]),
        Case::new("odd", &[("b", 2), ("h", 3), ("n", 17), ("r", 7), ("s", 18), ("p", 6)], || Params { first: 3 }.to_bytes()),
        Case::new("wide", &[("b", 1), ("h", 2), ("n", 65), ("r", 8), ("s", 264), ("p", 33)], Params::default_bytes),
    ],
    vjp: None,
};
