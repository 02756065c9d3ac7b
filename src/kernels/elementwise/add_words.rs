//! Counters added: out = a + b, unsigned, modulo 2³². Without b a copy.
//!
//! `a`, `b`, `out` `[n]`.

use crate::error::Result;
use crate::kernel::wgsl_module::GROUP;
use crate::kernel::*;
use crate::{cuda_source, reference};
use crate::tensor::DType;

fn reference<T: Real>(args: &mut HostArgs<T>) -> Result<()> {
    let (a, b) = (args.words("a"), args.words_if("b"));
    let sum = a.iter().enumerate().map(|(i, x)| x.wrapping_add(b.as_ref().map_or(0, |b| b[i]))).collect();
    args.set_words("out", sum);
    Ok(())
}

/// The kernel's description.
pub static SPEC: KernelSpec = KernelSpec {
    name: "add_words",
    family: "elementwise",
    formula: "out = a + b of whole numbers",
    source: "definition",
    ports: &[
        Port::read("a", &["n"]).of(DType::U32),
        Port::read("b", &["n"]).of(DType::U32).optional(),
        Port::write("out", &["n"]).of(DType::U32),
    ],
    params: &[],
    defaults: Vec::new,
    output_dims: None,
    check: any_dims,
    wgpu: OnWgpu::Shader(&[Variant::only(
        "elementwise/add_words.wgsl",
        include_str!("../../../shaders/elementwise/add_words.wgsl"),
        &[GROUP],
        |d, _| u64::from(d.size("n")).div_ceil(64),
        |d, _| Loads { storage: 2.0 * f64::from(d.size("n")), ..Loads::default() },
    )]),
    cuda: OnCuda::Source(&[cuda_source!("elementwise/add_words.cu", 256, |d, _| {
        u64::from(d.size("n")).div_ceil(256)
    })]),
    reference: reference!(reference),
    window: whole_heads,
    cost: |d, _| {
        let n = f64::from(d.size("n"));
        Cost { flop: n, exp: 0.0, stores: n, bytes: 12.0 * n, ..Cost::default() }
    },
    tolerance: Tolerance::EXACT,
    cases: &[
        Case::new("smallest", &[("n", 1)], Vec::new).filled(&[("a", Fill::Below(9)), ("b", Fill::Below(9))]),
        Case::new("odd", &[("n", 131)], Vec::new).filled(&[("a", Fill::Below(1000)), ("b", Fill::Below(1000))]),
        Case::new("copy", &[("n", 64)], Vec::new).without(&["b"]).filled(&[("a", Fill::Below(1000))]),
        Case::new("words_2", &[("n", 2)], Vec::new)
            .filled(&[("a", Fill::Below(9)), ("b", Fill::Below(9))])
            .for_bench(),
    ],
    vjp: None,
};
