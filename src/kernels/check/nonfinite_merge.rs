//! Second stage of [`find_nonfinite`](super::find_nonfinite): the parts of one list together.
//!
//! out = (Σₖ parts[k, 0], min {k · rows + parts[k, 1] : parts[k, 0] > 0}), 0xffffffff where every count is 0.
//!
//! * `parts` `[parts, 2]`, `out` `[2]`.

use super::find_nonfinite::NONE;
use crate::error::Result;
use crate::kernel::wgsl_module::GROUP;
use crate::kernel::*;
use crate::tensor::{DType, Dims, HostData};
use crate::{cuda_source, params, reference};

params! {
    /// Parameters of [`SPEC`].
    pub struct Params {
        /// elements of a part
        live rows: u32 = 8192,
    }
}

fn reference<T: Real>(args: &mut HostArgs<T>) -> Result<()> {
    let rows = args.params::<Params>().rows;
    let parts = args.words("parts");
    let counts = parts.chunks(2).map(|part| part[0]);
    let bad = parts.chunks(2).enumerate().find(|(_, part)| part[0] > 0);
    let first = bad.map_or(NONE, |(k, part)| {
        (k as u32).wrapping_mul(rows).wrapping_add(part[1])
    });
    let out = vec![counts.fold(0, u32::wrapping_add), first];
    args.set_words("out", out);
    Ok(())
}

static VARIANTS: &[Variant] = &[Variant {
    name: "group256",
    file: "check/nonfinite_merge.wgsl",
    body: include_str!("../../../shaders/check/nonfinite_merge.wgsl"),
    shared: &[GROUP],
    preferred_on: &[],
    classes: &[],
    vec4: &[],
    constants: no_constants,
    suits: always,
    grid: |_, _| 1,
    loads: |d, _| Loads {
        storage: 2.0 * f64::from(d.size("parts")),
        ..Loads::default()
    },
    rounds: few_rounds,
    subgroup_lanes: 0,
}];

/// Every seventh part from the third on has a count of its number, at place 11.
fn counted(dims: &Dims) -> HostData {
    HostData::U32(
        (0..dims.size("parts"))
            .flat_map(|k| if k % 7 == 3 { [k, 11] } else { [0, NONE] })
            .collect(),
    )
}

fn nothing(dims: &Dims) -> HostData {
    HostData::U32([0, NONE].repeat(dims.at("parts")))
}

/// The kernel's description.
pub static SPEC: KernelSpec = KernelSpec {
    name: "nonfinite_merge",
    family: "check",
    formula: "out = (Σₖ parts[k, 0], min {k rows + parts[k, 1] : parts[k, 0] > 0})",
    source: "definition",
    ports: &[
        Port::read("parts", &["parts", "2"]).of(DType::U32),
        Port::write("out", &["2"]).of(DType::U32),
    ],
    params: Params::FIELDS,
    defaults: Params::default_bytes,
    output_dims: None,
    check: any_dims,
    wgpu: OnWgpu::Shader(VARIANTS),
    cuda: OnCuda::Source(&[cuda_source!("check/nonfinite_merge.cu", 256, |_, _| 1)]),
    reference: reference!(reference),
    window: whole_heads,
    cost: |d, _| {
        let words = 2.0 * f64::from(d.size("parts"));
        Cost {
            flop: words,
            exp: 0.0,
            stores: 2.0,
            bytes: 4.0 * words + 8.0,
            ..Cost::default()
        }
    },
    tolerance: Tolerance::EXACT,
    cases: &[
        Case::new("smallest", &[("parts", 1)], Params::default_bytes)
            .filled(&[("parts", Fill::Made(nothing))]),
        Case::new("odd", &[("parts", 777)], Params::default_bytes).filled(&[("parts", Fill::Made(counted))]),
        Case::new("parts_512", &[("parts", 512)], Params::default_bytes)
            .filled(&[("parts", Fill::Made(counted))])
            .for_bench(),
    ],
    vjp: None,
};
