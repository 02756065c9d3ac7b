//! How fast tensors are copied into the textures that some variants read: a kernel that wants one word of all that is copied.
//!
//! out = the first word of each head of x; `x`: `[b, h, m]`, `out`: `[b, h]`.

use crate::kernel::cuda::Source;
use crate::kernel::wgsl_module::{GROUP, TEXELS};
use crate::kernel::*;
use crate::{cuda_source, reference};

fn reference<T: Real>(args: &mut HostArgs<T>) -> crate::Result<()> {
    let (x, m) = (args.real("x"), args.dims.at("m"));
    let out = (0..args.dims.batches() as usize).map(|head| x[head * m]).collect();
    args.set("out", out);
    Ok(())
}

/// The kernel's description.
pub static SPEC: KernelSpec = KernelSpec {
    name: "probe_stage",
    family: "probe",
    formula: "out = x[0]",
    source: "definition",
    ports: &[Port::read("x", &["b", "h", "m"]), Port::write("out", &["b", "h"])],
    params: &[],
    defaults: Vec::new,
    output_dims: None,
    check: |d, _| match d.size("m") {
        0 => Err("heads have a first word, got m = 0".into()),
        _ => Ok(()),
    },
    wgpu: OnWgpu::Shader(&[
        Variant {
            name: "word",
            ..Variant::only(
                "probe/probe_stage_word.wgsl",
                include_str!("../../../shaders/probe/probe_stage_word.wgsl"),
                &[GROUP],
                |_, batches| batches,
                |_, _| Loads { storage: 1.0, ..Loads::default() },
            )
        },
        // The first choice nowhere: to read one word, nobody copies them all.
        Variant {
            name: "texture",
            classes: &[("x", Class::Texture)],
            preferred_on: &[],
            ..Variant::only(
                "probe/probe_stage_texture.wgsl",
                include_str!("../../../shaders/probe/probe_stage_texture.wgsl"),
                &[GROUP, TEXELS],
                |_, batches| batches,
                |_, _| Loads { texture: 4.0, ..Loads::default() },
            )
        },
    ]),
    cuda: OnCuda::Source(&[Source {
        name: "word",
        ..cuda_source!("probe/probe_stage.cu", 32, |d, _| d.batches().div_ceil(32))
    }]),
    reference: reference!(reference),
    window: whole_heads,
    cost: |d, _| {
        let heads = d.batches() as f64;
        Cost { flop: 0.0, exp: 0.0, stores: heads, bytes: 8.0 * heads, ..Cost::default() }
    },
    tolerance: Tolerance::EXACT,
    cases: &[
        Case::new("smallest", &[("b", 1), ("h", 1), ("m", 1)], Vec::new),
        Case::new("odd", &[("b", 2), ("h", 3), ("m", 67)], Vec::new),
        // 16 MiB.
        Case::new("peak", &[("b", 1), ("h", 1), ("m", 4_194_304)], Vec::new).for_bench(),
    ],
    vjp: None,
};
