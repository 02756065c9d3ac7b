//! How fast a device writes words when it reads nothing: the roof of kernels that store much.
//!
//! out = value; `out`: `[b, h, n]`.

use crate::kernel::cuda::Source;
use crate::kernel::wgsl_module::GROUP;
use crate::kernel::*;
use crate::{cuda_shared, cuda_source, params, reference};

params! {
    /// Parameters of [`SPEC`].
    pub struct Params {
        /// what is written
        live value: f32 = 1.5,
    }
}

fn reference<T: Real>(args: &mut HostArgs<T>) -> crate::Result<()> {
    let value = T::of(f64::from(args.params::<Params>().value));
    let words = args.dims.batches() as usize * args.dims.at("n");
    args.set("out", vec![value; words]);
    Ok(())
}

/// The kernel's description.
pub static SPEC: KernelSpec = KernelSpec {
    name: "probe_store",
    family: "probe",
    formula: "out = value",
    source: "definition",
    ports: &[Port::write("out", &["b", "h", "n"])],
    params: Params::FIELDS,
    defaults: Params::default_bytes,
    output_dims: None,
    check: any_dims,
    wgpu: OnWgpu::Shader(&[
        Variant {
            name: "word",
            ..Variant::only(
                "probe/probe_store_word.wgsl",
                include_str!("../../../shaders/probe/probe_store_word.wgsl"),
                &[GROUP],
                |d, batches| batches * u64::from(d.size("n").div_ceil(1024)),
                |_, _| Loads::default(),
            )
        },
        Variant {
            name: "vec4",
            vec4: &["out"],
            suits: |d, _, _| d.size("n") % 4 == 0,
            ..Variant::only(
                "probe/probe_store_vec4.wgsl",
                include_str!("../../../shaders/probe/probe_store_vec4.wgsl"),
                &[GROUP],
                |d, batches| batches * u64::from(d.size("n").div_ceil(4096)),
                |_, _| Loads::default(),
            )
        },
    ]),
    cuda: OnCuda::Source(&[
        Source {
            name: "vec4",
            vec4: &["out"],
            constants: |_| vec![("VECTORS", Constant::Bool(true))],
            ..cuda_source!("probe/probe_store.cu", 256, |d, _| {
                (d.batches() * u64::from(d.size("n"))).div_ceil(4096)
            })
            .with(&[cuda_shared!("shared/vectors.cuh")])
        },
        Source {
            name: "word",
            constants: |_| vec![("VECTORS", Constant::Bool(false))],
            ..cuda_source!("probe/probe_store.cu", 256, |d, _| {
                (d.batches() * u64::from(d.size("n"))).div_ceil(1024)
            })
            .with(&[cuda_shared!("shared/vectors.cuh")])
        },
    ]),
    reference: reference!(reference),
    window: whole_heads,
    cost: |d, _| {
        let n = d.batches() as f64 * f64::from(d.size("n"));
        Cost { flop: 0.0, exp: 0.0, stores: n, bytes: 4.0 * n, ..Cost::default() }
    },
    tolerance: Tolerance::EXACT,
    cases: &[
        Case::new("smallest", &[("b", 1), ("h", 1), ("n", 1)], Params::default_bytes),
        Case::new("odd", &[("b", 2), ("h", 3), ("n", 1091)], Params::default_bytes),
        Case::new("whole_vectors", &[("b", 1), ("h", 2), ("n", 4100)], Params::default_bytes),
        Case::new("peak", &[("b", 1), ("h", 1), ("n", 8_388_608)], Params::default_bytes).for_bench(),
    ],
    vjp: None,
};
