//! Queries against one state: the end of linear attention without a mask, product, denominator and quotient in one pass.
//!
//! `out[i]` = `q[i]` S / `q[i]` z; `q` `[b, h, n, r]`, `state` `[b, h, s]` of r × e products S and r sums of keys z (see [`chunks`](super::chunks)).
//! Rows that `query_mask` leaves out, or whose denominator is 0, are zeros. `out` `[b, h, n, e]`, `den` `[b, h, n]` the denominators.

use super::chunks::check_state;
use super::divide_rows::divided;
use super::linear_attention::check_widths;
use crate::error::Result;
use crate::kernel::wgsl_module::{BYTES, GROUP, TEXELS};
use crate::kernel::*;
use crate::kernels::laplacian::kernel_matrix::kept;
use crate::{cuda_shared, cuda_source, reference};
use crate::tensor::{DType, Dims};

fn check(dims: &Dims, params: &[u8]) -> std::result::Result<(), String> {
    check_widths(dims, params)?;
    check_state(dims, 0)
}

fn reference<T: Real>(args: &mut HostArgs<T>) -> Result<()> {
    let [n, r, e, s] = ["n", "r", "e", "s"].map(|d| args.dims.at(d));
    let (q, states) = (args.real("q"), args.real("state"));
    let shared = &*args;
    let lines = reference::rows(args.dims.batches() as usize, n, e + 1, |batch, i, line| {
        if !kept(shared, "query_mask", batch, i) {
            return;
        }
        let (products, sums) = states[batch * s..][..s].split_at(r * e);
        for (l, x) in q[(batch * n + i) * r..][..r].iter().enumerate() {
            line[..e].iter_mut().zip(&products[l * e..]).for_each(|(sum, y)| *sum += *x * *y);
            line[e] += *x * sums[l];
        }
        let den = line[e];
        divided(&mut line[..e], den);
    });
    args.set("out", lines.chunks_exact(e + 1).flat_map(|line| &line[..e]).copied().collect());
    args.set("den", lines.chunks_exact(e + 1).map(|line| line[e]).collect());
    Ok(())
}

fn products(d: &Dims) -> f64 {
    f64::from(d.size("n")) * f64::from(d.size("s"))
}

/// Whether rows of queries and of the state are whole texels.
pub(super) fn whole_texels(d: &Dims) -> bool {
    let whole = |name| d.size(name) > 0 && d.size(name).is_multiple_of(4);
    whole("r") && whole("e")
}

fn groups(d: &Dims, batches: u64, rows: u32) -> u64 {
    batches * u64::from(d.size("n").div_ceil(rows)) * u64::from(d.size("e").div_ceil(32))
}

const FILL: [(&str, Fill); 2] = [("q", Fill::Uniform(0.0, 1.0)), ("state", Fill::Uniform(0.1, 1.0))];

/// 128 rows and 32 columns a block; `fours`: rows of queries and of products are whole `float4`s.
const fn source(fours: bool) -> cuda::Source {
    let words = cuda::Source {
        constants: |_| vec![("FOURS", Constant::Bool(false))],
        ..cuda_source!("linear/state_rows.cu", 256, |d, _| groups(d, d.batches(), 128))
    }
    .with(&[cuda_shared!("shared/divide.cuh"), cuda_shared!("shared/rows.cuh")]);
    match fours {
        false => words,
        // Products of a state are whole `float4`s where its columns are; the sums of keys behind them are read one by one.
        true => cuda::Source {
            name: "vectors",
            vec4: &["q", "state"],
            constants: |_| vec![("FOURS", Constant::Bool(true))],
            suits: |d, _| whole_texels(d),
            ..words
        },
    }
}

/// The kernel's description.
pub static SPEC: KernelSpec = KernelSpec {
    name: "state_rows",
    family: "linear",
    formula: "out[i] = q[i] S / q[i] z",
    source: "Katharopoulos et al. 2020, eq. 5",
    ports: &[
        Port::read("q", &["b", "h", "n", "r"]),
        Port::read("state", &["b", "h", "s"]),
        Port::read("query_mask", &["b", "h", "n"]).of(DType::U8).broadcast().optional(),
        Port::write("out", &["b", "h", "n", "e"]),
        Port::write("den", &["b", "h", "n"]).optional(),
    ],
    params: params::NoParams::FIELDS,
    defaults: Vec::new,
    output_dims: Some(|dims, _| dims.set("e", (dims.size("s") / dims.size("r").max(1)).saturating_sub(1))),
    check,
    wgpu: OnWgpu::Shader(&[
        Variant {
            name: "texture",
            file: "linear/state_rows_texture.wgsl",
            body: include_str!("../../../shaders/linear/state_rows_texture.wgsl"),
            shared: &[GROUP, BYTES, TEXELS],
            preferred_on: &[Driver::Llvmpipe, Driver::SwiftShader],
            classes: &[("q", Class::Texture), ("state", Class::Texture)],
            vec4: &["q", "state"],
            constants: |d| vec![("WIDTH", Constant::U32((d.size("e") / 4).min(8)))],
            suits: |d, _, _| whole_texels(d),
            grid: |d, batches| groups(d, batches, 32),
            loads: |d, _| Loads { texture: products(d) / 4.0, ..Loads::default() },
            rounds: |d| 2 * u64::from(d.size("r")),
            subgroup_lanes: 0,
        },
        Variant {
            name: "plain",
            file: "linear/state_rows_plain.wgsl",
            body: include_str!("../../../shaders/linear/state_rows_plain.wgsl"),
            shared: &[GROUP, BYTES],
            preferred_on: &[Driver::Gpu, Driver::Llvmpipe, Driver::SwiftShader],
            classes: &[],
            vec4: &[],
            constants: no_constants,
            suits: always,
            grid: |d, batches| groups(d, batches, 64),
            loads: |d, _| Loads { storage: 2.0 * products(d), ..Loads::default() },
            rounds: |d| 33 * u64::from(d.size("r")) + 64,
            subgroup_lanes: 0,
        },
    ]),
    cuda: OnCuda::Source(&[source(true), source(false)]),
    reference: reference!(reference),
    window: by_rows,
    cost: |d, _| {
        let batches = d.batches() as f64;
        let [n, r, e, s] = ["n", "r", "e", "s"].map(|name| f64::from(d.size(name)));
        Cost { flop: 2.0 * batches * products(d), exp: 0.0, stores: batches * n * e, bytes: 4.0 * batches * (n * (r + e) + s), ..Cost::default() }
    },
    tolerance: Tolerance::SUMS,
    cases: &[
        Case::new("smallest", &[("b", 1), ("h", 1), ("n", 1), ("r", 1), ("s", 2), ("e", 1)], Vec::new).without(&["query_mask", "den"]).filled(&FILL),
        Case::new("odd", &[("b", 2), ("h", 3), ("n", 37), ("r", 5), ("s", 35), ("e", 6)], Vec::new).filled(&FILL),
        Case::new("whole_texels", &[("b", 1), ("h", 2), ("n", 65), ("r", 32), ("s", 1056), ("e", 32)], Vec::new)
            .without(&["query_mask", "den"]).filled(&FILL),
        Case::new("wide", &[("b", 1), ("h", 2), ("n", 33), ("r", 12), ("s", 444), ("e", 36)], Vec::new).filled(&FILL).shared(&["query_mask"]),
        Case::new("no_key", &[("b", 1), ("h", 2), ("n", 9), ("r", 4), ("s", 20), ("e", 4)], Vec::new).without(&["query_mask"])
            .filled(&[FILL[0], ("state", Fill::Value(0.0))]),
        Case::new("tokens_16384", &[("b", 1), ("h", 8), ("n", 16_384), ("r", 32), ("s", 1056), ("e", 32)], Vec::new)
            .without(&["query_mask", "den"]).filled(&FILL).for_bench(),
    ],
    vjp: None,
};
