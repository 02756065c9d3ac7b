//! Weighted sums down the columns, chunk by chunk: the first half of a deterministic mean or variance over tokens.
//!
//! `out[chunk, c]` = Σ over the chunk's rows of wᵢ (`x[i, c]` − `shift[c]`)^power. A weight of 0 leaves the row out, whatever it
//! holds. [`sum_chunks`] adds the chunks.

use crate::error::Result;
use crate::graph::Graph;
use crate::kernel::wgsl_module::GROUP;
use crate::kernel::*;
use crate::kernels::linalg::sum_chunks;
use crate::tensor::{DType, Dims, Tensor};
use crate::{cuda_source, params, reference};

/// Rows of a chunk: long enough to keep partial results small, short enough to keep a GPU busy.
pub const ROWS: u32 = 256;

params! {
    /// Parameters of [`SPEC`].
    pub struct Params {
        /// rows of a chunk; the last one may be shorter
        live rows: u32 = ROWS,
        /// 1 = sums, 2 = sums of squares
        fixed power: u32 = 1,
    }
}

/// Whether `c` chunks of `rows` cover `n`.
pub fn check_chunks(dims: &Dims, rows: u32) -> std::result::Result<(), String> {
    let (n, c) = (dims.size("n"), dims.size("c"));
    if rows == 0 || n.div_ceil(rows).max(1) != c {
        return Err(format!("{n} rows in chunks of {rows} do not make c = {c} chunks"));
    }
    Ok(())
}

fn reference<T: Real>(args: &mut HostArgs<T>) -> Result<()> {
    let p: Params = args.params();
    let (n, m, c) = (args.dims.at("n"), args.dims.at("m"), args.dims.at("c"));
    let (x, shift, weight) = (args.real("x"), args.real_if("shift"), args.real_if("weight"));
    let out = reference::rows(args.dims.batches() as usize, c, m, |batch, chunk, line| {
        let first = chunk * p.rows as usize;
        for i in first..(first + p.rows as usize).min(n) {
            let factor = weight.as_ref().map_or(T::one(), |w| w[batch * n + i]);
            if factor == T::zero() {
                continue;
            }
            for (col, sum) in line.iter_mut().enumerate() {
                let value = x[(batch * n + i) * m + col] - shift.as_ref().map_or(T::zero(), |s| s[batch * m + col]);
                *sum += factor * if p.power == 2 { value * value } else { value };
            }
        }
    });
    args.set("out", out);
    Ok(())
}

/// The kernel's description.
pub static SPEC: KernelSpec = KernelSpec {
    name: "column_sums",
    family: "linalg",
    formula: "out[chunk,c] = Σ_{i in chunk} wᵢ (x[i,c] − shift[c])^power",
    source: "definition",
    ports: &[
        Port::read("x", &["b", "h", "n", "m"]),
        Port::read("shift", &["b", "h", "m"]).optional(),
        Port::read("weight", &["b", "h", "n"]).optional(),
        Port::write("out", &["b", "h", "c", "m"]),
    ],
    params: Params::FIELDS,
    defaults: Params::default_bytes,
    output_dims: Some(|dims, params| {
        let rows = Params::from_bytes(params).rows.max(1);
        dims.set("c", dims.size("n").div_ceil(rows).max(1));
    }),
    check: |dims, params| {
        let p = Params::from_bytes(params);
        if !(1..=2).contains(&p.power) {
            return Err(format!("power is 1 or 2, got {}", p.power));
        }
        check_chunks(dims, p.rows)
    },
    wgpu: OnWgpu::Shader(&[Variant::only(
        "linalg/column_sums.wgsl",
        include_str!("../../../shaders/linalg/column_sums.wgsl"),
        &[GROUP],
        |d, batches| batches * u64::from(d.size("c")) * u64::from(d.size("m").div_ceil(64)),
        |d, _| Loads { storage: 2.0 * f64::from(d.size("n")) * f64::from(d.size("m")), ..Loads::default() },
    ).rounds(|d| u64::from(d.size("n").div_ceil(d.size("c").max(1))) * 2)]),
    cuda: OnCuda::Source(&[cuda_source!("linalg/column_sums.cu", 256, |d, _| {
        d.batches() * u64::from(d.size("c")) * u64::from(d.size("m").div_ceil(32))
    })]),
    reference: reference!(reference),
    window: |_, params| vec![("n", Params::from_bytes(params).rows), ("c", 1)],
    cost: |d, _| {
        let words = d.batches() as f64 * f64::from(d.size("n")) * f64::from(d.size("m"));
        let out = d.batches() as f64 * f64::from(d.size("c")) * f64::from(d.size("m"));
        Cost { flop: 2.0 * words, exp: 0.0, stores: out, bytes: 4.0 * (words + out), ..Cost::default() }
    },
    tolerance: Tolerance::SUMS,
    cases: &[
        Case::new("smallest", &[("b", 1), ("h", 1), ("n", 1), ("c", 1), ("m", 1)], Params::default_bytes).without(&["shift", "weight"]),
        Case::new("odd", &[("b", 2), ("h", 3), ("n", 101), ("c", 7), ("m", 49)], || Params { rows: 16, power: 1 }.to_bytes()),
        Case::new("squares", &[("b", 1), ("h", 2), ("n", 513), ("c", 3), ("m", 65)], || Params { rows: 256, power: 2 }.to_bytes())
            .filled(&[("weight", Fill::Below(2))]),
    ],
    vjp: None,
};

/// What to sum; see the module.
#[derive(Clone, Copy, Debug, Default)]
pub struct Columns {
    /// Subtracted from every row first.
    pub shift: Option<Tensor>,
    /// Weight per row.
    pub weight: Option<Tensor>,
    /// Whether to square.
    pub squared: bool,
}

/// Records `alpha` times the weighted column sums of `x` `[b, h, n, m]` into a new transient `[b, h, m]`.
///
/// Errors: shapes that do not fit, with the caller's place.
#[track_caller]
pub fn record(graph: &mut Graph, name: &str, x: Tensor, columns: Columns, alpha: f32) -> Result<Tensor> {
    let chunks = x.dim(2).div_ceil(ROWS).max(1);
    let partial = graph.transient(&format!("{name} by chunk"), [x.dim(0), x.dim(1), chunks, x.dim(3)], DType::F32);
    let params = Params { rows: ROWS, power: if columns.squared { 2 } else { 1 } };
    graph.pass(&SPEC, &params, &[Some(x), columns.shift, columns.weight, Some(partial)])?;
    sum_chunks::record(graph, name, partial, None, alpha)
}
