//! Euclidean norms of columns, chunk by chunk; norms of the chunks' norms are those of the whole column.
//!
//! `out[chunk, c]` = √ Σ x\[i, c\]² over the chunk's rows that `key_mask` `[b, h, n]` keeps, `x` `[b, h, n, r]`. Numbers are divided by the
//! largest before they are squared, so that squares neither overflow nor vanish.

use crate::error::Result;
use crate::graph::Graph;
use crate::kernel::wgsl_module::GROUP;
use crate::kernel::*;
use crate::kernels::linalg::column_sums::check_chunks;
use crate::tensor::{DType, Dims, HostData, Tensor};
use crate::{cuda_source, params, reference};

/// Rows of a chunk.
pub const ROWS: u32 = 256;

params! {
    /// Parameters of [`SPEC`].
    pub struct Params {
        /// rows of a chunk; the last one may be shorter
        live rows: u32 = ROWS,
    }
}

fn reference<T: Real>(args: &mut HostArgs<T>) -> Result<()> {
    let rows = args.params::<Params>().rows as usize;
    let (n, r, c) = (args.dims.at("n"), args.dims.at("r"), args.dims.at("c"));
    let (x, mask) = (args.real("x"), args.words_if("key_mask"));
    let shared = &*args;
    let out = reference::rows(args.dims.batches() as usize, c, r, |batch, chunk, line| {
        for (col, norm) in line.iter_mut().enumerate() {
            let kept = |i: &usize| mask.as_ref().is_none_or(|m| m[shared.start("key_mask", batch) + i] != 0);
            let number = |i: usize| x[(batch * n + i) * r + col];
            let chunk = || (chunk * rows..(chunk * rows + rows).min(n)).filter(kept).map(number);
            let largest = chunk().fold(T::zero(), |top, x| top.max(x.abs()));
            if largest > T::zero() {
                *norm = largest * chunk().map(|x| (x / largest) * (x / largest)).sum::<T>().sqrt();
            }
        }
    });
    args.set("out", out);
    Ok(())
}

/// Huge numbers in the first half of the rows, tiny ones in the other.
fn huge_and_tiny(dims: &Dims) -> HostData {
    let (n, r) = (dims.at("n"), dims.at("r"));
    let size = |i: usize| if i / r % n < n / 2 { 1e30 } else { 1e-30 };
    HostData::F32((0..dims.batches() as usize * n * r).map(|i| size(i) * (1.0 + (i % 7) as f32)).collect())
}

/// NaN in the odd rows.
fn garbage(dims: &Dims) -> HostData {
    let (n, r) = (dims.at("n"), dims.at("r"));
    let number = |i: usize| if i / r % n % 2 == 1 { f32::NAN } else { (i % 11) as f32 };
    HostData::F32((0..dims.batches() as usize * n * r).map(number).collect())
}

fn even_rows(dims: &Dims) -> HostData {
    HostData::U8(
        (0..dims.batches() as usize * dims.at("n"))
            .map(|i| u8::from((i % dims.at("n")).is_multiple_of(2)))
            .collect(),
    )
}

/// The kernel's description.
pub static SPEC: KernelSpec = KernelSpec {
    name: "column_norms",
    family: "mask",
    formula: "out[chunk,c] = √ Σ_{i in chunk} x[i,c]²",
    source: "definition",
    ports: &[
        Port::read("x", &["b", "h", "n", "r"]),
        Port::read("key_mask", &["b", "h", "n"]).of(DType::U8).broadcast().optional(),
        Port::write("out", &["b", "h", "c", "r"]),
    ],
    params: Params::FIELDS,
    defaults: Params::default_bytes,
    output_dims: Some(|dims, params| {
        let rows = Params::from_bytes(params).rows.max(1);
        dims.set("c", dims.size("n").div_ceil(rows).max(1));
    }),
    check: |dims, params| check_chunks(dims, Params::from_bytes(params).rows),
    wgpu: OnWgpu::Shader(&[Variant::only(
        "mask/column_norms.wgsl",
        include_str!("../../../shaders/mask/column_norms.wgsl"),
        &[GROUP],
        |d, batches| batches * u64::from(d.size("c")) * u64::from(d.size("r").div_ceil(64)),
        |d, _| Loads { storage: 2.0 * f64::from(d.size("n")) * f64::from(d.size("r")), ..Loads::default() },
    )
    .rounds(|d| u64::from(d.size("n").div_ceil(d.size("c").max(1))) * 4)]),
    cuda: OnCuda::Source(&[cuda_source!("mask/column_norms.cu", 256, |d, _| {
        d.batches() * u64::from(d.size("c")) * u64::from(d.size("r").div_ceil(32))
    })]),
    reference: reference!(reference),
    window: |_, params| vec![("n", Params::from_bytes(params).rows), ("c", 1)],
    cost: |d, _| {
        let words = d.batches() as f64 * f64::from(d.size("n")) * f64::from(d.size("r"));
        let out = d.batches() as f64 * f64::from(d.size("c")) * f64::from(d.size("r"));
        Cost { flop: 3.0 * words, exp: 0.0, stores: out, bytes: 4.0 * (words + out), ..Cost::default() }
    },
    tolerance: Tolerance::SUMS,
    cases: &[
        Case::new("smallest", &[("b", 1), ("h", 1), ("n", 1), ("r", 1), ("c", 1)], Params::default_bytes)
            .without(&["key_mask"]),
        Case::new("odd", &[("b", 2), ("h", 3), ("n", 101), ("r", 7), ("c", 7)], || {
            Params { rows: 16 }.to_bytes()
        }),
        Case::new("wide", &[("b", 1), ("h", 2), ("n", 513), ("r", 65), ("c", 3)], Params::default_bytes)
            .shared(&["key_mask"]),
        Case::new("large_values", &[("b", 1), ("h", 2), ("n", 40), ("r", 4), ("c", 2)], || {
            Params { rows: 20 }.to_bytes()
        })
        .without(&["key_mask"])
        .filled(&[("x", Fill::Made(huge_and_tiny))]),
        Case::new(
            "garbage_in_masked_rows",
            &[("b", 1), ("h", 2), ("n", 41), ("r", 5), ("c", 1)],
            Params::default_bytes,
        )
        .filled(&[("x", Fill::Made(garbage)), ("key_mask", Fill::Made(even_rows))]),
        Case::new("none_kept", &[("b", 1), ("h", 1), ("n", 9), ("r", 5), ("c", 1)], Params::default_bytes)
            .filled(&[("key_mask", Fill::Value(0.0))]),
        Case::new(
            "keys_8x4096",
            &[("b", 1), ("h", 8), ("n", 4096), ("r", 32), ("c", 16)],
            Params::default_bytes,
        )
        .without(&["key_mask"])
        .for_bench(),
    ],
    vjp: None,
};

/// Records the norms of the columns of `x` `[b, h, n, r]` over its kept rows into a new transient `[b, h, r]`.
///
/// Errors: shapes that do not fit, with the caller's place.
#[track_caller]
pub fn record(graph: &mut Graph, name: &str, x: Tensor, key_mask: Option<Tensor>) -> Result<Tensor> {
    let [b, h, r] = [0, 1, 3].map(|axis| x.dim(axis));
    let (mut part, mut mask) = (x, key_mask);
    loop {
        let chunks = part.dim(2).div_ceil(ROWS).max(1);
        let norms = graph.transient(name, [b, h, chunks, r], DType::F32);
        graph.pass(&SPEC, &Params::default(), &[Some(part), mask, Some(norms)])?;
        if chunks == 1 {
            return graph.reshape(norms, [b, h, r]);
        }
        (part, mask) = (norms, None);
    }
}
