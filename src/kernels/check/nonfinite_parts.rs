//! First stage of [`find_nonfinite`](super::find_nonfinite): count and first place of NaN and infinities per part.
//!
//! Part k of a head holds elements k · rows up to (k + 1) · rows; the place counts from there, 0xffffffff where every
//! number is finite.
//!
//! * `x` `[b, h, n]`, `parts` `[b, h, g, 2]`, g = ⌈n / rows⌉.

use super::find_nonfinite::{count_and_first, sprinkled};
use crate::error::Result;
use crate::kernel::cuda::Source;
use crate::kernel::wgsl_module::GROUP;
use crate::kernel::*;
use crate::tensor::{DType, Dims, HostData};
use crate::{cuda_shared, cuda_source, params, reference};

params! {
    /// Parameters of [`SPEC`].
    pub struct Params {
        /// elements of a part
        fixed rows: u32 = 8192,
    }
}

fn check(dims: &Dims, params: &[u8]) -> std::result::Result<(), String> {
    let (n, g, rows) = (dims.size("n"), dims.size("g"), Params::from_bytes(params).rows);
    if rows == 0 || g != n.div_ceil(rows) {
        return Err(format!(
            "wants one part for every {rows} of {n} elements, got {g}"
        ));
    }
    Ok(())
}

fn reference<T: Real>(args: &mut HostArgs<T>) -> Result<()> {
    let rows = args.params::<Params>().rows as usize;
    let (x, n) = (args.real("x"), args.dims.at("n"));
    let parts = x
        .chunks(n.max(1))
        .flat_map(|head| head.chunks(rows))
        .flat_map(count_and_first)
        .collect();
    args.set_words("parts", parts);
    Ok(())
}

static VARIANTS: &[Variant] = &[Variant {
    name: "group256",
    file: "check/nonfinite_parts.wgsl",
    body: include_str!("../../../shaders/check/nonfinite_parts.wgsl"),
    shared: &[GROUP],
    preferred_on: &[],
    classes: &[],
    vec4: &[],
    constants: no_constants,
    suits: always,
    grid: |d, batches| batches * u64::from(d.size("g")),
    loads: |d, _| Loads {
        storage: f64::from(d.size("n")),
        ..Loads::default()
    },
    rounds: few_rounds,
    subgroup_lanes: 0,
}];

fn sprinkled_all(dims: &Dims) -> HostData {
    sprinkled(dims.batches() as usize * dims.at("n"))
}

/// The kernel's description.
pub static SPEC: KernelSpec = KernelSpec {
    name: "nonfinite_parts",
    family: "check",
    formula: "parts[k] = (#{i in part k : x[i] not finite}, min {i in part k : x[i] not finite})",
    source: "definition",
    ports: &[
        Port::read("x", &["b", "h", "n"]),
        Port::write("parts", &["b", "h", "g", "2"]).of(DType::U32),
    ],
    params: Params::FIELDS,
    defaults: Params::default_bytes,
    output_dims: Some(|dims, params| {
        let rows = Params::from_bytes(params).rows.max(1);
        dims.set("g", dims.size("n").div_ceil(rows));
    }),
    check,
    wgpu: OnWgpu::Shader(VARIANTS),
    cuda: OnCuda::Source(&[
        Source {
            name: "vec4",
            vec4: &["x"],
            suits: |_, params| Params::from_bytes(params).rows.is_multiple_of(4),
            constants: |_| vec![("VECTORS", Constant::Bool(true))],
            ..cuda_source!("check/nonfinite_parts.cu", 256, |d, _| d.batches() * u64::from(d.size("g")))
                .with(&[cuda_shared!("shared/vectors.cuh")])
        },
        Source {
            constants: |_| vec![("VECTORS", Constant::Bool(false))],
            ..cuda_source!("check/nonfinite_parts.cu", 256, |d, _| d.batches() * u64::from(d.size("g")))
                .with(&[cuda_shared!("shared/vectors.cuh")])
        },
    ]),
    reference: reference!(reference),
    window: |_, params| vec![("n", Params::from_bytes(params).rows), ("g", 1)],
    cost: |d, _| {
        let words = d.batches() as f64 * f64::from(d.size("n"));
        let stores = 2.0 * d.batches() as f64 * f64::from(d.size("g"));
        Cost {
            flop: words,
            exp: 0.0,
            stores,
            bytes: 4.0 * (words + stores),
            ..Cost::default()
        }
    },
    tolerance: Tolerance::EXACT,
    cases: &[
        Case::new(
            "smallest",
            &[("b", 1), ("h", 1), ("n", 1), ("g", 1)],
            Params::default_bytes,
        ),
        Case::new("odd", &[("b", 2), ("h", 3), ("n", 1237), ("g", 5)], || {
            Params { rows: 300 }.to_bytes()
        })
        .filled(&[("x", Fill::Made(sprinkled_all))]),
        Case::new("whole_vectors", &[("b", 1), ("h", 3), ("n", 1240), ("g", 5)], || {
            Params { rows: 300 }.to_bytes()
        })
        .filled(&[("x", Fill::Made(sprinkled_all))]),
        Case::new(
            "words_4m",
            &[("b", 1), ("h", 1), ("n", 4_194_304), ("g", 512)],
            Params::default_bytes,
        )
        .for_bench(),
    ],
    vjp: None,
};
