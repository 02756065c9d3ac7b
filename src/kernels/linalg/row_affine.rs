//! Rows shifted, scaled and masked: centring of features, whitening, and masked rows set to zero.
//!
//! `out[i, c]` = (`x[i, c]` − `shift[c]`) · `scale[i]` where row i is kept, 0 elsewhere.

use crate::error::Result;
use crate::graph::Graph;
use crate::kernel::cuda::Source;
use crate::kernel::wgsl_module::{BYTES, GROUP};
use crate::kernel::*;
use crate::kernels::laplacian::kernel_matrix::kept;
use crate::{cuda_shared, cuda_source, reference};
use crate::tensor::{DType, Tensor};

fn reference<T: Real>(args: &mut HostArgs<T>) -> Result<()> {
    let (n, m) = (args.dims.at("n"), args.dims.at("m"));
    let (x, shift, scale) = (args.real("x"), args.real_if("shift"), args.real_if("scale"));
    let shared = &*args;
    let out = reference::rows(args.dims.batches() as usize, n, m, |batch, i, line| {
        if !kept(shared, "keep", batch, i) {
            return;
        }
        let factor = scale.as_ref().map_or(T::one(), |s| s[batch * n + i]);
        for (c, value) in line.iter_mut().enumerate() {
            let less = shift.as_ref().map_or(T::zero(), |s| s[batch * m + c]);
            *value = (x[(batch * n + i) * m + c] - less) * factor;
        }
    });
    args.set("out", out);
    Ok(())
}

/// The kernel's description.
pub static SPEC: KernelSpec = KernelSpec {
    name: "row_affine",
    family: "linalg",
    formula: "out[i,c] = (x[i,c] − shift[c]) · scale[i], 0 where row i is masked",
    source: "definition",
    ports: &[
        Port::read("x", &["b", "h", "n", "m"]),
        Port::read("shift", &["b", "h", "m"]).optional(),
        Port::read("scale", &["b", "h", "n"]).optional(),
        Port::read("keep", &["b", "h", "n"]).of(DType::U8).broadcast().optional(),
        Port::write("out", &["b", "h", "n", "m"]),
    ],
    params: params::NoParams::FIELDS,
    defaults: Vec::new,
    output_dims: None,
    check: any_dims,
    wgpu: OnWgpu::Shader(&[Variant::only(
        "linalg/row_affine.wgsl",
        include_str!("../../../shaders/linalg/row_affine.wgsl"),
        &[GROUP, BYTES],
        |d, batches| batches * (u64::from(d.size("n")) * u64::from(d.size("m"))).div_ceil(64),
        |d, _| Loads { storage: 3.0 * f64::from(d.size("n")) * f64::from(d.size("m")), ..Loads::default() },
    )]),
    cuda: OnCuda::Source(&[
        Source {
            name: "vec4",
            vec4: &["x", "shift", "out"],
            constants: |_| vec![("VECTORS", Constant::Bool(true))],
            ..cuda_source!("linalg/row_affine.cu", 256, |d, _| {
                d.batches() * (u64::from(d.size("n")) * u64::from(d.size("m"))).div_ceil(4096)
            })
            .with(&[cuda_shared!("shared/vectors.cuh"), cuda_shared!("linalg/stretch.cuh")])
        },
        Source {
            constants: |_| vec![("VECTORS", Constant::Bool(false))],
            ..cuda_source!("linalg/row_affine.cu", 256, |d, _| {
                d.batches() * (u64::from(d.size("n")) * u64::from(d.size("m"))).div_ceil(1024)
            })
            .with(&[cuda_shared!("shared/vectors.cuh"), cuda_shared!("linalg/stretch.cuh")])
        },
    ]),
    reference: reference!(reference),
    window: by_rows,
    cost: |d, _| {
        let words = d.batches() as f64 * f64::from(d.size("n")) * f64::from(d.size("m"));
        Cost { flop: 2.0 * words, exp: 0.0, stores: words, bytes: 8.0 * words, ..Cost::default() }
    },
    tolerance: Tolerance::SUMS,
    cases: &[
        Case::new("smallest", &[("b", 1), ("h", 1), ("n", 1), ("m", 1)], Vec::new).without(&["shift", "scale", "keep"]),
        Case::new("odd", &[("b", 2), ("h", 3), ("n", 17), ("m", 5)], Vec::new),
        Case::new("whole_vectors", &[("b", 1), ("h", 2), ("n", 67), ("m", 20)], Vec::new),
        Case::new("masked_garbage", &[("b", 1), ("h", 2), ("n", 65), ("m", 3)], Vec::new).without(&["shift"])
            .filled(&[("keep", Fill::Value(0.0)), ("x", Fill::Value(3e38)), ("scale", Fill::Value(316.0))]),
        Case::new("shared_mask", &[("b", 2), ("h", 2), ("n", 9), ("m", 33)], Vec::new).without(&["scale"]).shared(&["keep"]),
    ],
    vjp: None,
};

/// What to do to the rows; see the module.
#[derive(Clone, Copy, Debug, Default)]
pub struct Rows {
    /// Subtracted from every row.
    pub shift: Option<Tensor>,
    /// Factor per row.
    pub scale: Option<Tensor>,
    /// Rows to keep.
    pub keep: Option<Tensor>,
}

/// Records the rows into a new transient of `x`'s shape.
///
/// Errors: shapes that do not fit, with the caller's place.
#[track_caller]
pub fn record(graph: &mut Graph, name: &str, x: Tensor, rows: Rows) -> Result<Tensor> {
    let out = graph.transient(name, x.shape(), DType::F32);
    graph.pass(&SPEC, &params::NoParams {}, &[Some(x), rows.shift, rows.scale, rows.keep, Some(out)])?;
    Ok(out)
}
