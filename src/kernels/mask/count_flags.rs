//! How many flags are set in each part of a long list: second pass of [`noise_guard`](super::noise_guard).
//!
//! * `flags` `[total]`, `counts` `[parts]`, parts = ⌈total / part⌉, at least 1.

use crate::error::Result;
use crate::kernel::wgsl_module::GROUP;
use crate::kernel::*;
use crate::tensor::{DType, Dims};
use crate::{cuda_source, params, reference};

/// Flags of a part: 32 for each of 64 threads.
pub const PART: u32 = 2048;

params! {
    /// Parameters of [`SPEC`].
    pub struct Params {
        /// flags of a part, a multiple of 64
        fixed part: u32 = PART,
    }
}

/// Refuses another number of parts than the flags make.
pub(crate) fn check_parts(dims: &Dims, part: u32) -> std::result::Result<(), String> {
    let (total, parts) = (dims.size("total"), dims.size("parts"));
    if part == 0 || !part.is_multiple_of(64) || parts != total.div_ceil(part).max(1) {
        return Err(format!("{total} flags in parts of {part} (a multiple of 64) do not make {parts} parts"));
    }
    Ok(())
}

fn reference<T: Real>(args: &mut HostArgs<T>) -> Result<()> {
    let (part, flags) = (args.params::<Params>().part as usize, args.words("flags"));
    let mut counts: Vec<u32> =
        flags.chunks(part).map(|part| part.iter().map(|f| u32::from(*f != 0)).sum()).collect();
    counts.resize(args.dims.at("parts"), 0);
    args.set_words("counts", counts);
    Ok(())
}

/// The kernel's description.
pub static SPEC: KernelSpec = KernelSpec {
    name: "count_flags",
    family: "mask",
    formula: "counts[k] = #{i in part k : flags[i] ≠ 0}",
    source: "definition",
    ports: &[
        Port::read("flags", &["total"]).of(DType::U32),
        Port::write("counts", &["parts"]).of(DType::U32),
    ],
    params: Params::FIELDS,
    defaults: Params::default_bytes,
    output_dims: Some(|dims, params| {
        let part = Params::from_bytes(params).part.max(1);
        dims.set("parts", dims.size("total").div_ceil(part).max(1));
    }),
    check: |dims, params| check_parts(dims, Params::from_bytes(params).part),
    wgpu: OnWgpu::Shader(&[Variant::only(
        "mask/count_flags.wgsl",
        include_str!("../../../shaders/mask/count_flags.wgsl"),
        &[GROUP],
        |d, _| u64::from(d.size("parts")),
        |d, _| Loads { storage: f64::from(d.size("total")).max(1.0), ..Loads::default() },
    )]),
    cuda: OnCuda::Source(&[cuda_source!("mask/count_flags.cu", 256, |d, _| u64::from(d.size("parts")))]),
    reference: reference!(reference),
    window: whole_heads,
    cost: |d, _| {
        let (total, parts) = (f64::from(d.size("total")), f64::from(d.size("parts")));
        Cost { flop: total, exp: 0.0, stores: parts, bytes: 4.0 * (total + parts), ..Cost::default() }
    },
    tolerance: Tolerance::EXACT,
    cases: &[
        Case::new("smallest", &[("total", 1), ("parts", 1)], Params::default_bytes)
            .filled(&[("flags", Fill::Below(2))]),
        Case::new("odd", &[("total", 1237), ("parts", 10)], || Params { part: 128 }.to_bytes())
            .filled(&[("flags", Fill::Below(2))]),
        Case::new("two_parts", &[("total", 2049), ("parts", 2)], Params::default_bytes)
            .filled(&[("flags", Fill::Below(3))]),
        Case::new("flags_1m", &[("total", 1_048_576), ("parts", 512)], Params::default_bytes)
            .filled(&[("flags", Fill::Below(2))])
            .for_bench(),
    ],
    vjp: None,
};
