//! How far matrices are from the identity.
//!
//! out = ‖I − P‖_F over the leading `size` rows and columns
//!
//! * `p` `[b, h, m, m]`, `out` `[b, h, 1]`.

use super::newton_schulz::{check_rows, dense};
use crate::kernel::wgsl_module::GROUP;
use crate::kernel::*;
use crate::{cuda_source, params, reference};
use crate::tensor::Dims;

params! {
    /// Parameters of [`SPEC`].
    pub struct Params {
        /// Rows and columns that count
        live size: u32 = 1,
    }
}

fn check(dims: &Dims, params: &[u8]) -> std::result::Result<(), String> {
    let p = Params::from_bytes(params);
    check_rows(dims.size("m"))?;
    if p.size > dims.size("m") {
        return Err(format!("size is at most m = {}, got {}", dims.size("m"), p.size));
    }
    Ok(())
}

fn reference<T: Real>(args: &mut HostArgs<T>) -> crate::Result<()> {
    let p: Params = args.params();
    let m = args.dims.at("m");
    let matrices = args.real("p");
    let distance = |batch: usize| {
        dense::distance_from_identity(&matrices[batch * m * m..(batch + 1) * m * m], m, p.size as usize)
    };
    args.set("out", (0..args.dims.batches() as usize).map(distance).collect());
    Ok(())
}

static VARIANTS: &[Variant] = &[Variant {
    name: "workgroup",
    file: "linalg/identity_distance.wgsl",
    body: include_str!("../../../shaders/linalg/identity_distance.wgsl"),
    shared: &[GROUP],
    preferred_on: &[Driver::Gpu, Driver::Llvmpipe, Driver::SwiftShader],
    classes: &[],
    vec4: &[],
    constants: no_constants,
    suits: always,
    grid: |_, batches| batches,
    loads: |d, _| Loads {
        storage: f64::from(d.size("m")).powi(2),
        workgroup: 512.0,
        ..Loads::default()
    },
    rounds: few_rounds,
    subgroup_lanes: 0,
}];

/// The kernel's description.
pub static SPEC: KernelSpec = KernelSpec {
    name: "identity_distance",
    family: "linalg",
    formula: "out = ‖I − P‖_F",
    source: "definition",
    ports: &[
        Port::read("p", &["b", "h", "m", "m"]),
        Port::write("out", &["b", "h", "1"]),
    ],
    params: Params::FIELDS,
    defaults: Params::default_bytes,
    output_dims: None,
    check,
    wgpu: OnWgpu::Shader(VARIANTS),
    cuda: OnCuda::Source(&[cuda_source!("linalg/identity_distance.cu", 256, |d, _| d.batches())]),
    reference: reference!(reference),
    window: whole_heads,
    cost: |d, _| {
        let (words, batches) = (
            d.batches() as f64 * f64::from(d.size("m")).powi(2),
            d.batches() as f64,
        );
        Cost {
            flop: 2.0 * words,
            exp: batches,
            stores: batches,
            bytes: 4.0 * (words + batches),
            ..Cost::default()
        }
    },
    tolerance: Tolerance::SUMS,
    cases: &[
        Case::new("smallest", &[("b", 1), ("h", 1), ("m", 1)], Params::default_bytes),
        Case::new("leading_part", &[("b", 2), ("h", 3), ("m", 52)], || {
            Params { size: 49 }.to_bytes()
        }),
        Case::new("odd", &[("b", 1), ("h", 2), ("m", 131)], || {
            Params { size: 131 }.to_bytes()
        }),
    ],
    vjp: None,
};
