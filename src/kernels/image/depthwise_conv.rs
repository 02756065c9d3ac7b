//! The convolution branch beside attention: 3 × 3, per head and channel, over the token grid.
//!
//! out[r, c, e] = residual[r, c, e] + Σ_{i, j ∈ −1..1} weight[e, 3 (i + 1) + j + 1] · v[r + i, c + j, e]
//!
//! with terms outside the grid 0. As in PyTorch the kernel is not mirrored.
//!
//! * `v`, `residual` (may be left out), `out`: `[b, h, rows, cols, e]`, which is `[b, h, n, e]` with n = rows · cols.
//! * `weight` `[h, e, 9]`, row by row from above left.

use crate::error::{Error, Result};
use crate::graph::Graph;
use crate::kernel::wgsl_module::GROUP;
use crate::kernel::*;
use crate::{cuda_shared, cuda_source, reference};
use crate::tensor::{DType, Dims, Tensor};

fn reference<T: Real>(args: &mut HostArgs<T>) -> Result<()> {
    let (rows, cols) = (args.dims.at("rows"), args.dims.at("cols"));
    let (n, e, heads) = (rows * cols, args.dims.at("e"), args.dims.at("h"));
    let (v, weight, residual) = (args.real("v"), args.real("weight"), args.real_if("residual"));
    let out = reference::rows(args.dims.batches() as usize, n, e, |batch, t, line| {
        let (r, c, head) = (t / cols, t % cols, batch % heads);
        for (channel, y) in line.iter_mut().enumerate() {
            for (k, w) in weight[(head * e + channel) * 9..][..9].iter().enumerate() {
                // One more than the neighbour's row and column, so that nothing is negative.
                let (row, col) = (r + k / 3, c + k % 3);
                if (1..=rows).contains(&row) && (1..=cols).contains(&col) {
                    *y += *w * v[(batch * n + (row - 1) * cols + col - 1) * e + channel];
                }
            }
            if let Some(x) = &residual {
                *y += x[(batch * n + t) * e + channel];
            }
        }
    });
    args.set("out", out);
    Ok(())
}

fn numbers(dims: &Dims) -> f64 {
    ["rows", "cols", "e"]
        .iter()
        .map(|n| f64::from(dims.size(n)))
        .product()
}

static VARIANTS: &[Variant] = &[Variant {
    name: "column4",
    file: "image/depthwise_conv.wgsl",
    body: include_str!("../../../shaders/image/depthwise_conv.wgsl"),
    shared: &[GROUP],
    preferred_on: &[],
    classes: &[],
    vec4: &[],
    constants: no_constants,
    suits: always,
    grid: |d, batches| {
        let threads =
            u64::from(d.size("rows").div_ceil(4)) * u64::from(d.size("cols")) * u64::from(d.size("e"));
        batches * threads.div_ceil(64)
    },
    loads: |d, _| Loads {
        storage: 7.75 * numbers(d),
        ..Loads::default()
    },
    rounds: few_rounds,
    subgroup_lanes: 0,
}];

/// The kernel's description.
pub static SPEC: KernelSpec = KernelSpec {
    name: "depthwise_conv",
    family: "image",
    formula: "out = R + W ∗ V over the token grid, 3 × 3 per head and channel, zeros outside",
    source: "Zhang et al., LaplacianFormer (the DWC(V) branch of the output)",
    ports: &[
        Port::read("v", &["b", "h", "rows", "cols", "e"]),
        Port::read("weight", &["h", "e", "9"]),
        Port::read("residual", &["b", "h", "rows", "cols", "e"]).optional(),
        Port::write("out", &["b", "h", "rows", "cols", "e"]),
    ],
    params: &[],
    defaults: Vec::new,
    output_dims: None,
    check: any_dims,
    wgpu: OnWgpu::Shader(VARIANTS),
    cuda: OnCuda::Source(&[cuda_source!("image/depthwise_conv.cu", 256, |d, _| {
        let strips = u64::from(d.size("rows").div_ceil(8));
        (d.batches() * strips * u64::from(d.size("cols")) * u64::from(d.size("e"))).div_ceil(256)
    })
        .with(&[cuda_shared!("shared/places.cuh")])]),
    reference: reference!(reference),
    window: whole_heads,
    cost: |d, _| {
        let all = d.batches() as f64 * numbers(d);
        let weights = 9.0 * f64::from(d.size("h")) * f64::from(d.size("e"));
        Cost {
            flop: 18.0 * all,
            exp: 0.0,
            stores: all,
            bytes: 8.0 * all + 4.0 * weights,
            ..Cost::default()
        }
    },
    tolerance: Tolerance::SUMS,
    cases: &[
        Case::new(
            "smallest",
            &[("b", 1), ("h", 1), ("rows", 1), ("cols", 1), ("e", 1)],
            Vec::new,
        )
        .without(&["residual"]),
        Case::new(
            "odd",
            &[("b", 2), ("h", 3), ("rows", 11), ("cols", 7), ("e", 5)],
            Vec::new,
        ),
        Case::new(
            "one_row",
            &[("b", 1), ("h", 2), ("rows", 1), ("cols", 9), ("e", 3)],
            Vec::new,
        )
        .without(&["residual"]),
        Case::new(
            "one_column",
            &[("b", 1), ("h", 2), ("rows", 9), ("cols", 1), ("e", 3)],
            Vec::new,
        ),
        Case::new(
            "whole_blocks",
            &[("b", 1), ("h", 2), ("rows", 8), ("cols", 8), ("e", 32)],
            Vec::new,
        ),
        Case::new(
            "tokens_3136",
            &[("b", 1), ("h", 8), ("rows", 56), ("cols", 56), ("e", 32)],
            Vec::new,
        )
        .for_bench(),
    ],
    vjp: None,
};

/// Records the convolution of `v` `[b, h, n, e]`, tokens in rows of `grid_cols`, with `weight` `[h, e, 9]`, added to
/// `residual` `[b, h, n, e]` if there is one, into a new transient `[b, h, n, e]`.
///
/// Errors: [`Error::Value`] if the tokens do not fill whole rows; shapes that do not fit, with the caller's place.
#[track_caller]
pub fn record(
    graph: &mut Graph,
    name: &str,
    v: Tensor,
    weight: Tensor,
    residual: Option<Tensor>,
    grid_cols: u32,
) -> Result<Tensor> {
    let [b, h, n, e] = [0, 1, 2, 3].map(|axis| v.dim(axis));
    if grid_cols == 0 || n % grid_cols != 0 {
        let expected = format!("a divisor of the number of tokens, {n}, of {}", v.shape());
        return Err(Error::value(
            "grid_cols of depthwise_conv",
            expected,
            grid_cols,
            "give the width of the token grid",
        ));
    }
    let grid = [b, h, n / grid_cols, grid_cols, e];
    let out = graph.transient(name, v.shape(), DType::F32);
    let residual = residual.map(|r| graph.reshape(r, grid)).transpose()?;
    let args = [
        Some(graph.reshape(v, grid)?),
        Some(weight),
        residual,
        Some(graph.reshape(out, grid)?),
    ];
    graph.pass(&SPEC, &NoParams {}, &args)?;
    Ok(out)
}
