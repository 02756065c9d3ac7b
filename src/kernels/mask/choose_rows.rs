//! The last step of masked attention by Fourier transforms: rows that were computed again are taken from their list, the others
//! are divided by their denominators.
//!
//! * `sums` `[b, h, n, p]`: p = e + 1 sums and their denominator, or p = e finished rows.
//! * `slot` `[b, h, n]`: place of the row in `listed` `[c, e]`; numbers from c on mean that it has none.
//! * `query_mask` `[b, h, n]`: 0 makes a row zeros. `out` `[b, h, n, e]`, zeros where the denominator is 0.

use crate::error::Result;
use crate::kernel::wgsl_module::GROUP;
use crate::kernel::*;
use crate::{cuda_source, reference};
use crate::tensor::{DType, Dims, HostData};

fn check(dims: &Dims, _: &[u8]) -> std::result::Result<(), String> {
    let (e, p) = (dims.size("e"), dims.size("p"));
    if p != e && p != e + 1 {
        return Err(format!("sums have p = {p} columns; wants e = {e} or e + 1"));
    }
    Ok(())
}

fn reference<T: Real>(args: &mut HostArgs<T>) -> Result<()> {
    let (n, e, p, c) = (args.dims.at("n"), args.dims.at("e"), args.dims.at("p"), args.dims.at("c"));
    let (sums, slot, listed) = (args.real("sums"), args.words("slot"), args.real("listed"));
    let asked = args.words_if("query_mask");
    let shared = &*args;
    let out = reference::rows(args.dims.batches() as usize, n, e, |batch, i, line| {
        let row = batch * n + i;
        if asked.as_ref().is_some_and(|m| m[shared.start("query_mask", batch) + i] == 0) {
            return;
        }
        let place = slot[row] as usize;
        if place < c {
            line.copy_from_slice(&listed[place * e..][..e]);
            return;
        }
        line.copy_from_slice(&sums[row * p..][..e]);
        if p > e {
            super::relative::finish(line, sums[row * p + e]);
        }
    });
    args.set("out", out);
    Ok(())
}

/// Slots for every third row, and the others have none.
fn every_third(dims: &Dims) -> HostData {
    let rows = dims.batches() as u32 * dims.size("n");
    HostData::U32((0..rows).map(|i| if i % 3 == 0 { i / 3 } else { u32::MAX }).collect())
}

/// Numbers of which every fifth is 0.
fn fifth_is_zero(dims: &Dims) -> HostData {
    let words = dims.batches() as usize * dims.at("n") * dims.at("p");
    HostData::F32((0..words).map(|i| (i % 5) as f32 * 0.5).collect())
}

fn words(dims: &Dims) -> f64 {
    f64::from(dims.size("n")) * f64::from(dims.size("e"))
}

/// The kernel's description.
pub static SPEC: KernelSpec = KernelSpec {
    name: "choose_rows",
    family: "mask",
    formula: "out[i] = listed[slot[i]] where slot[i] < c, else sums[i] / sums[i,e]",
    source: "definition",
    ports: &[
        Port::read("sums", &["b", "h", "n", "p"]),
        Port::read("slot", &["b", "h", "n"]).of(DType::U32),
        Port::read("listed", &["c", "e"]),
        Port::read("query_mask", &["b", "h", "n"]).of(DType::U8).broadcast().optional(),
        Port::write("out", &["b", "h", "n", "e"]),
    ],
    params: &[],
    defaults: Vec::new,
    output_dims: None,
    check,
    wgpu: OnWgpu::Shader(&[Variant::only(
        "mask/choose_rows.wgsl",
        include_str!("../../../shaders/mask/choose_rows.wgsl"),
        &[GROUP],
        |d, batches| batches * (u64::from(d.size("n")) * u64::from(d.size("e"))).div_ceil(64),
        |d, _| Loads { storage: 3.0 * words(d), ..Loads::default() },
    )]),
    cuda: OnCuda::Source(&[cuda_source!("mask/choose_rows.cu", 256, |d, _| {
        d.batches() * (u64::from(d.size("n")) * u64::from(d.size("e"))).div_ceil(256)
    })]),
    reference: reference!(reference),
    window: by_rows,
    cost: |d, _| {
        let words = d.batches() as f64 * words(d);
        Cost { flop: words, exp: 0.0, stores: words, bytes: 12.0 * words, ..Cost::default() }
    },
    tolerance: Tolerance::SUMS,
    cases: &[
        Case::new("smallest", &[("b", 1), ("h", 1), ("n", 1), ("e", 1), ("p", 2), ("c", 1)], Vec::new)
            .without(&["query_mask"])
            .filled(&[("slot", Fill::Below(2))]),
        Case::new("odd", &[("b", 2), ("h", 3), ("n", 37), ("e", 5), ("p", 6), ("c", 80)], Vec::new)
            .filled(&[("slot", Fill::Made(every_third)), ("sums", Fill::Made(fifth_is_zero))]),
        Case::new("finished", &[("b", 1), ("h", 2), ("n", 65), ("e", 8), ("p", 8), ("c", 44)], Vec::new)
            .without(&["query_mask"])
            .filled(&[("slot", Fill::Made(every_third))]),
        Case::new("list_is_full", &[("b", 1), ("h", 2), ("n", 65), ("e", 8), ("p", 9), ("c", 3)], Vec::new)
            .without(&["query_mask"])
            .filled(&[("slot", Fill::Made(every_third)), ("sums", Fill::Uniform(0.5, 2.0))]),
        Case::new(
            "rows_8x4096",
            &[("b", 1), ("h", 8), ("n", 4096), ("e", 32), ("p", 33), ("c", 1024)],
            Vec::new,
        )
        .without(&["query_mask"])
        .filled(&[("slot", Fill::Made(every_third)), ("sums", Fill::Uniform(0.5, 2.0))])
        .any_size()
        .for_bench(),
    ],
    vjp: None,
};
