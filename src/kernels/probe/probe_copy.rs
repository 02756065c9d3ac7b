//! How fast a device moves memory when it does nothing else: the roof of every other kernel's bytes per second.
//!
//! out = x; `x`, `out`: `[b, h, n]`.

use crate::kernel::cuda::Source;
use crate::kernel::wgsl_module::GROUP;
use crate::kernel::*;
use crate::{cuda_shared, cuda_source, reference};

/// Vectors that one thread of the variant `runs` copies.
const RUN: u32 = 512;

fn reference<T: Real>(args: &mut HostArgs<T>) -> crate::Result<()> {
    let x = args.real("x").to_vec();
    args.set("out", x);
    Ok(())
}

/// The kernel's description.
pub static SPEC: KernelSpec = KernelSpec {
    name: "probe_copy",
    family: "probe",
    formula: "out = x",
    source: "definition",
    ports: &[Port::read("x", &["b", "h", "n"]), Port::write("out", &["b", "h", "n"])],
    params: &[],
    defaults: Vec::new,
    output_dims: None,
    check: any_dims,
    wgpu: OnWgpu::Shader(&[
        Variant {
            name: "vec4",
            vec4: &["x", "out"],
            suits: |d, _, _| d.size("n") % 4 == 0,
            ..Variant::only(
                "probe/probe_copy_vec4.wgsl",
                include_str!("../../../shaders/probe/probe_copy_vec4.wgsl"),
                &[GROUP],
                |d, batches| batches * u64::from((d.size("n") / 4).div_ceil(64)),
                |d, _| Loads { storage: f64::from(d.size("n")), ..Loads::default() },
            )
        },
        // The first choice nowhere; on processors, where neighbours in a subgroup gain nothing by lying side by side, the fastest.
        Variant {
            name: "runs",
            vec4: &["x", "out"],
            preferred_on: &[],
            constants: |_| vec![("RUN", Constant::U32(RUN))],
            suits: |d, _, _| d.size("n") % 4 == 0,
            ..Variant::only(
                "probe/probe_copy_runs.wgsl",
                include_str!("../../../shaders/probe/probe_copy_runs.wgsl"),
                &[GROUP],
                |d, batches| batches * u64::from((d.size("n") / 4).div_ceil(8 * RUN)),
                |d, _| Loads { storage: f64::from(d.size("n")), ..Loads::default() },
            )
        },
        Variant {
            name: "word",
            ..Variant::only(
                "probe/probe_copy_word.wgsl",
                include_str!("../../../shaders/probe/probe_copy_word.wgsl"),
                &[GROUP],
                |d, batches| batches * u64::from(d.size("n").div_ceil(64)),
                |d, _| Loads { storage: f64::from(d.size("n")), ..Loads::default() },
            )
        },
    ]),
    cuda: OnCuda::Source(&[
        Source {
            name: "vec4",
            vec4: &["x", "out"],
            constants: |_| vec![("VECTORS", Constant::Bool(true))],
            ..cuda_source!("probe/probe_copy.cu", 256, |d, _| {
                (d.batches() * u64::from(d.size("n"))).div_ceil(1024)
            })
            .with(&[cuda_shared!("shared/vectors.cuh")])
        },
        Source {
            name: "word",
            constants: |_| vec![("VECTORS", Constant::Bool(false))],
            ..cuda_source!("probe/probe_copy.cu", 256, |d, _| {
                (d.batches() * u64::from(d.size("n"))).div_ceil(256)
            })
            .with(&[cuda_shared!("shared/vectors.cuh")])
        },
    ]),
    reference: reference!(reference),
    window: whole_heads,
    cost: |d, _| {
        let n = d.batches() as f64 * f64::from(d.size("n"));
        Cost { flop: 0.0, exp: 0.0, stores: n, bytes: 8.0 * n, ..Cost::default() }
    },
    tolerance: Tolerance::EXACT,
    cases: &[
        Case::new("smallest", &[("b", 1), ("h", 1), ("n", 1)], Vec::new),
        Case::new("odd", &[("b", 2), ("h", 3), ("n", 67)], Vec::new),
        Case::new("whole_vectors", &[("b", 1), ("h", 2), ("n", 260)], Vec::new),
        // Twice 32 MiB: past the caches of today's GPUs.
        Case::new("peak", &[("b", 1), ("h", 1), ("n", 8_388_608)], Vec::new).for_bench(),
    ],
    vjp: None,
};
