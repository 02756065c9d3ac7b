//! Rows of exponents with their segment's maximum taken off, and rows that are left out marked.
//!
//! `out[i]` = (m, t − `maxima`[segment of i]) of `rows[i]` = (m, t), t alone without `maxima`, at least [`LOWEST`]; (0, [`LEFT_OUT`])
//! where the row is masked or in no segment, whatever the row holds.
//!
//! * `rows`, `out` `[b, h, n, 2]`; `maxima` `[b, h, g]`, may be shared by heads (then one number rules over several).
//! * `key_mask` `[b, h, n]`, `starts` `[b, h, s]`, s = g + 1: as in [`segment_max`](super::segment_max).

use super::segment_max::{Rows, Segments, check_segments, packed, row_windows};
use crate::error::Result;
use crate::graph::Graph;
use crate::kernel::wgsl_module::{BYTES, GROUP};
use crate::kernel::*;
use crate::kernels::laplacian::kernel_matrix::kept;
use crate::{cuda_shared, cuda_source, reference};
use crate::tensor::{DType, Dims, Tensor};

/// The least exponent that is written: e to it is 0 in f32 and in the arithmetic of every device.
pub const LOWEST: f32 = -500.0;
/// The exponent of a row that is left out.
pub const LEFT_OUT: f32 = -1000.0;

fn check(dims: &Dims, _: &[u8]) -> std::result::Result<(), String> {
    match (dims.find("g"), dims.find("s")) {
        (Some(g), Some(_)) => check_segments(dims, g),
        (Some(g), None) if g != 1 => Err(format!("without starts there is one maximum, got g = {g}")),
        (None, Some(0)) => Err("starts [b, h, s] bound s − 1 segments; wants s ≥ 1".into()),
        _ => Ok(()),
    }
}

fn reference<T: Real>(args: &mut HostArgs<T>) -> Result<()> {
    let n = args.dims.at("n");
    let (rows, maxima) = (args.real("rows"), args.real_if("maxima"));
    let shared = &*args;
    let segments = Segments::of(shared);
    let out = reference::rows(args.dims.batches() as usize, n, 2, |batch, i, line| {
        let segment = segments.of_row(shared, batch, i).filter(|_| kept(shared, "key_mask", batch, i));
        (line[0], line[1]) = match segment {
            None => (T::zero(), T::of(LEFT_OUT.into())),
            Some(g) => {
                let less = maxima.as_ref().map_or(T::zero(), |m| m[shared.start("maxima", batch) + g]);
                let at = (batch * n + i) * 2;
                (rows[at], (rows[at + 1] - less).max(T::of(LOWEST.into())))
            }
        };
    });
    args.set("out", out);
    Ok(())
}

const fn sizes(n: u32, g: u32, s: u32) -> [(&'static str, u32); 5] {
    [("b", 2), ("h", 3), ("n", n), ("g", g), ("s", s)]
}

/// The kernel's description.
pub static SPEC: KernelSpec = KernelSpec {
    name: "segment_shift",
    family: "feature",
    formula: "out[i] = (m, t − maxima[segment of i]) of rows[i] = (m, t); (0, −1000) where the row is left out",
    source: "definition",
    ports: &[
        Port::read("rows", &["b", "h", "n", "2"]),
        Port::read("maxima", &["b", "h", "g"]).broadcast().optional(),
        Port::read("key_mask", &["b", "h", "n"]).of(DType::U8).broadcast().optional(),
        Port::read("starts", &["b", "h", "s"]).of(DType::U32).broadcast().optional(),
        Port::write("out", &["b", "h", "n", "2"]),
    ],
    params: params::NoParams::FIELDS,
    defaults: Vec::new,
    output_dims: None,
    check,
    wgpu: OnWgpu::Shader(&[Variant::only(
        "feature/segment_shift.wgsl",
        include_str!("../../../shaders/feature/segment_shift.wgsl"),
        &[GROUP, BYTES],
        |d, batches| batches * u64::from(d.size("n").div_ceil(64)),
        |d, _| Loads { storage: 4.0 * f64::from(d.size("n")), ..Loads::default() },
    )
    .rounds(|_| 32)]),
    cuda: OnCuda::Source(&[cuda_source!("feature/segment_shift.cu", 256, |d, _| {
        (d.batches() * u64::from(d.size("n"))).div_ceil(256)
    })
    .with(&[cuda_shared!("shared/places.cuh"), cuda_shared!("feature/rows.cuh")])]),
    reference: reference!(reference),
    window: row_windows,
    cost: |d, _| {
        let rows = d.batches() as f64 * f64::from(d.size("n"));
        Cost { flop: rows, exp: 0.0, stores: 2.0 * rows, bytes: 20.0 * rows, ..Cost::default() }
    },
    tolerance: Tolerance::SUMS,
    cases: &[
        Case::new("smallest", &[("b", 1), ("h", 1), ("n", 1), ("g", 1)], Vec::new).without(&["key_mask", "starts"]),
        Case::new("odd", &[("b", 2), ("h", 3), ("n", 67)], Vec::new).without(&["maxima", "starts"]),
        Case::new("packed", &sizes(70, 5, 6), Vec::new).without(&["key_mask"]).filled(&[("starts", Fill::Made(packed))]),
        Case::new("packed_and_masked", &sizes(300, 8, 9), Vec::new)
            .filled(&[("starts", Fill::Made(packed))])
            .shared(&["key_mask"]),
        Case::new("one_for_all_heads", &[("b", 2), ("h", 3), ("n", 67), ("g", 1)], Vec::new)
            .without(&["key_mask", "starts"])
            .shared(&["maxima"]),
        Case::new("masked_garbage", &[("b", 1), ("h", 2), ("n", 65), ("g", 1)], Vec::new)
            .without(&["starts"])
            .filled(&[("key_mask", Fill::Value(0.0)), ("rows", Fill::Value(f32::NAN))]),
        Case::new("large_values", &[("b", 1), ("h", 2), ("n", 9), ("g", 1)], Vec::new)
            .without(&["key_mask", "starts"])
            .filled(&[("rows", Fill::Uniform(-1e38, 1e38)), ("maxima", Fill::Value(1e38))]),
    ],
    vjp: None,
};

/// Records the shifted rows into a new transient `[b, h, n, 2]`.
///
/// Errors: shapes that do not fit, with the caller's place.
#[track_caller]
pub fn record(graph: &mut Graph, name: &str, rows: Tensor, maxima: Option<Tensor>, of: Rows) -> Result<Tensor> {
    let out = graph.transient(name, rows.shape(), DType::F32);
    graph.pass(&SPEC, &NoParams {}, &[Some(rows), maxima, of.key_mask, of.starts, Some(out)])?;
    Ok(out)
}
