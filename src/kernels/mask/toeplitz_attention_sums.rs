//! Numerators and denominators of linear attention under a relative-position mask, in N log N.
//!
//! `out[i, c]` = Σₗ `q[i, l]` Σⱼ table(i − j)·`k[j, l]`·[v, 1]`[j, c]`: the last column is the denominator. Nothing is divided here.
//!
//! * `q`, `k` `[b, h, n, r]` mapped and not negative, `v` `[b, h, n, e]`, `table` `[g, t]` (see [`grid`](super::grid)), `key_mask` `[b, h, n]`;
//!   `out` `[b, h, n, w]`, w = e + 1. Masked keys count as absent, whatever they and their values hold.
//! * Features are worked in slices, so that transients stay under the device's memory budget.
//!
//! Errors are those of the transforms: about 1e-7 of the largest sum in every row, however small the row's own sums are.

use super::toeplitz_product::Cut;
use super::toeplitz_spectrum::{self, Params as GridParams};
use super::{toeplitz_contract, toeplitz_lift};
use crate::error::Result;
use crate::graph::{Expansion, Graph};
use crate::kernel::*;
use crate::kernels::fft::fft::flop;
use crate::kernels::fft::plan::{self, Job, Rows, Spectrum, Twiddles};
use crate::kernels::laplacian::kernel_matrix::kept;
use crate::kernels::laplacian::nystrom::{slice_heads, slices};
use crate::reference;
use crate::tensor::{DType, Dims, Tensor};

/// By the definition, whatever the size: independent of the transforms, quadratic in the tokens.
fn reference<T: Real>(args: &mut HostArgs<T>) -> Result<()> {
    let grid = args.params::<GridParams>().grid();
    let [n, r, e, w, g, t, h] = ["n", "r", "e", "w", "g", "t", "h"].map(|x| args.dims.at(x));
    let (q, k, v, table, shared) =
        (args.real("q"), args.real("k"), args.real("v"), args.real("table"), &*args);
    let out = reference::rows(args.dims.batches() as usize, n, w, |batch, i, line| {
        let weights = &table[if g == 1 { 0 } else { batch % h } * t..][..t];
        let query = &q[(batch * n + i) * r..][..r];
        for j in (0..n).filter(|j| kept(shared, "key_mask", batch, *j)) {
            let key = &k[(batch * n + j) * r..][..r];
            let weight = weights[grid.entry(i, j)] * query.iter().zip(key).map(|(a, b)| *a * *b).sum::<T>();
            line.iter_mut().zip(&v[(batch * n + j) * e..][..e]).for_each(|(sum, x)| *sum += weight * *x);
            line[e] += weight;
        }
    });
    args.set("out", out);
    Ok(())
}

/// Tensors of one slice of heads.
#[derive(Clone, Copy)]
struct Task {
    q: Tensor,
    k: Tensor,
    v: Tensor,
    key_mask: Option<Tensor>,
    spectrum: Tensor,
    out: Tensor,
}

fn expand(x: &mut Expansion<'_>) -> Result<()> {
    let grid = x.params::<GridParams>().grid();
    let table = x.port("table");
    let (q, k, v, key_mask, out) =
        (x.port("q"), x.port("k"), x.port("v"), x.port_if("key_mask"), x.port("out"));
    let spectrum = toeplitz_spectrum::record(x.graph, &grid, table)?;
    let task = Task { q, k, v, key_mask, spectrum, out };
    let passes = plan::filter(grid.sides, grid.lengths(), plan::Strategy::of(x.caps.driver, 4));
    let [b, h, n, r, e] = ["b", "h", "n", "r", "e"].map(|d| x.dims.size(d));
    let (budget, caps) = (x.caps.memory_budget, *x.caps);
    // A slice holds the lifted channels, two tensors of the transforms, and the products.
    let per_channel = 4 * (plan::largest_pair(&passes, grid.sides) + u64::from(n));
    let features =
        |fit: u64| match u32::try_from(fit / u64::from(toeplitz_lift::channels(1, e))).unwrap_or(u32::MAX) {
            count if count >= r => r.next_multiple_of(2),
            0..4 => 2,
            count => count / 4 * 4,
        };
    let features = features(budget / per_channel);
    // The features are what the budget cuts; all their channels go together.
    let uncut = Caps { memory_budget: u64::MAX, ..caps };
    let slice =
        Slice { features, cut: Cut::of(&passes, &grid, toeplitz_lift::channels(features, e), &uncut) };
    let bytes = per_channel * u64::from(slice.cut.width);
    let mut twiddles = Twiddles::default();
    let mut some = |graph: &mut Graph, task: Task| {
        let job = Job {
            passes: &passes,
            sides: grid.sides,
            width: slice.cut.block,
            block: slice.cut.block,
            per: slice.cut.width / slice.cut.block,
            scale: 1.0,
            spectrum: Some(Spectrum { tensor: task.spectrum }),
        };
        slice.record(graph, &mut twiddles, &job, &task)
    };
    match slices(b, h, bytes, budget) {
        None => some(x.graph, task),
        Some(list) => list.into_iter().try_for_each(|(batch, heads)| {
            let graph = &mut *x.graph;
            let mut part = task;
            for tensor in [&mut part.q, &mut part.k, &mut part.v, &mut part.out]
                .into_iter()
                .chain(part.key_mask.as_mut())
            {
                *tensor = slice_heads(graph, *tensor, batch, &heads)?;
            }
            if part.spectrum.dim(0) > 1 {
                part.spectrum = graph.slice(part.spectrum, 0, heads)?;
            }
            some(graph, part)
        }),
    }
}

/// Features at a time, and how their channels are cut into blocks.
struct Slice {
    features: u32,
    cut: Cut,
}

impl Slice {
    fn record(&self, graph: &mut Graph, twiddles: &mut Twiddles, job: &Job<'_>, task: &Task) -> Result<()> {
        let [b, h, n, r] = [0, 1, 2, 3].map(|a| task.q.dim(a));
        let (blocks, block) = (self.cut.width / self.cut.block, self.cut.block);
        let mut prior = None;
        for first in (0..r).step_by(self.features as usize) {
            let shape = [b, h, blocks, n, block];
            let rows = [b, h * blocks, n, block];
            let lifted = graph.transient("keys times values", shape, DType::F32);
            let params = toeplitz_lift::Params { first, features: self.features };
            graph.pass(
                &toeplitz_lift::SPEC,
                &params,
                &[Some(task.k), Some(task.v), task.key_mask, Some(lifted)],
            )?;
            let masked = graph.transient("masked", shape, DType::F32);
            let from = Rows { tensor: graph.reshape(lifted, rows)?, at: 0 };
            let to = Rows { tensor: graph.reshape(masked, rows)?, at: 0 };
            plan::record(graph, twiddles, job, from, to)?;
            let last = first + self.features >= r;
            let sums = if last { task.out } else { graph.transient("sums", task.out.shape(), DType::F32) };
            let params = toeplitz_contract::Params { first, features: self.features };
            graph.pass(
                &toeplitz_contract::SPEC,
                &params,
                &[Some(task.q), Some(masked), prior, Some(sums)],
            )?;
            prior = Some(sums);
        }
        Ok(())
    }
}

fn check(d: &Dims, params: &[u8]) -> std::result::Result<(), String> {
    GridParams::from_bytes(params).grid().check(Some(d.size("n")), d.size("t"))?;
    if ![1, d.size("h")].contains(&d.size("g")) {
        return Err(format!(
            "table has a row for each of {} heads, or one for all, got {}",
            d.size("h"),
            d.size("g")
        ));
    }
    if d.size("r") == 0 || d.size("e") == 0 || d.size("w") != d.size("e") + 1 {
        return Err(format!(
            "out has a column for each channel of v and one for the denominator, got r = {}, e = {}, w = {}",
            d.size("r"),
            d.size("e"),
            d.size("w")
        ));
    }
    Ok(())
}

fn cost(d: &Dims, params: &[u8]) -> Cost {
    let grid = GridParams::from_bytes(params).grid();
    let (sides, lengths) = (grid.sides.map(f64::from), grid.lengths());
    let [n, r, e, w] = ["n", "r", "e", "w"].map(|x| f64::from(d.size(x)));
    let batches = d.batches() as f64;
    let lines = |axis: usize| {
        (0..3)
            .filter(|a| *a != axis)
            .map(|a| if a < axis { sides[a] } else { f64::from(lengths[a]) })
            .product::<f64>()
    };
    let transforms: f64 = (0..3).filter(|a| lengths[*a] > 1).map(|a| 2.0 * lines(a) * flop(lengths[a])).sum();
    let places: f64 = lengths.iter().map(|l| f64::from(*l)).product();
    Cost {
        flop: batches * r * w * ((transforms + 6.0 * places) / 2.0 + 3.0 * n),
        exp: 0.0,
        stores: batches * n * w,
        bytes: 4.0 * (batches * n * (2.0 * r + e + w) + f64::from(d.size("g")) * f64::from(d.size("t"))),
        ..Cost::default()
    }
}

const fn plane<const A: u32, const B: u32>() -> GridParams {
    GridParams { n1: 1, n2: A, n3: B, transpose: 0, torus: 0 }
}

const POSITIVE: &[(&str, Fill)] =
    &[("q", Fill::Uniform(0.0, 1.0)), ("k", Fill::Uniform(0.0, 1.0)), ("table", Fill::Uniform(0.0, 1.0))];
const BARE: &[&str] = &["key_mask"];

/// The kernel's description.
pub static SPEC: KernelSpec = KernelSpec {
    name: "toeplitz_attention_sums",
    family: "mask",
    formula: "out[i, c] = Σₗ q[i, l] Σⱼ table[i − j] k[j, l] [v, 1][j, c]",
    source: "arXiv 2107.07999, algorithm 1",
    ports: &[
        Port::read("q", &["b", "h", "n", "r"]),
        Port::read("k", &["b", "h", "n", "r"]),
        Port::read("v", &["b", "h", "n", "e"]),
        Port::read("table", &["g", "t"]),
        Port::read("key_mask", &["b", "h", "n"]).of(DType::U8).broadcast().optional(),
        Port::write("out", &["b", "h", "n", "w"]),
    ],
    params: GridParams::FIELDS,
    defaults: GridParams::default_bytes,
    output_dims: Some(|d, _| d.set("w", d.size("e") + 1)),
    check,
    wgpu: OnWgpu::Expand(expand),
    cuda: OnCuda::Expand,
    reference: reference!(reference),
    window: whole_heads,
    cost,
    tolerance: Tolerance {
        factor: 2.0,
        floor: 16.0 * f32::EPSILON as f64,
        reason: "method tables 2.2 and 2.3: transforms spread errors of 2e-7 to 5e-7 of the largest value over all rows",
    },
    cases: &[
        Case::new(
            "smallest",
            &[("b", 1), ("h", 1), ("n", 1), ("r", 1), ("e", 1), ("w", 2), ("g", 1), ("t", 1)],
            || plane::<1, 1>().to_bytes(),
        )
        .without(BARE)
        .filled(POSITIVE),
        Case::new(
            "odd",
            &[("b", 2), ("h", 3), ("n", 17), ("r", 5), ("e", 3), ("w", 4), ("g", 3), ("t", 33)],
            || plane::<1, 17>().to_bytes(),
        )
        .filled(POSITIVE),
        Case::new(
            "plane_7x11",
            &[("b", 1), ("h", 2), ("n", 77), ("r", 8), ("e", 4), ("w", 5), ("g", 2), ("t", 273)],
            || plane::<7, 11>().to_bytes(),
        )
        .without(BARE)
        .filled(POSITIVE),
        Case::new(
            "masked_plane",
            &[("b", 2), ("h", 2), ("n", 99), ("r", 4), ("e", 8), ("w", 9), ("g", 1), ("t", 357)],
            || plane::<9, 11>().to_bytes(),
        )
        .filled(POSITIVE)
        .shared(&["key_mask"]),
        Case::new(
            "no_keys",
            &[("b", 1), ("h", 1), ("n", 20), ("r", 4), ("e", 4), ("w", 5), ("g", 1), ("t", 63)],
            || plane::<4, 5>().to_bytes(),
        )
        .filled(&[
            ("key_mask", Fill::Value(0.0)),
            ("v", Fill::Value(3e38)),
            ("k", Fill::Value(3e38)),
        ]),
        Case::new(
            "plane_64x64",
            &[("b", 1), ("h", 1), ("n", 4096), ("r", 32), ("e", 32), ("w", 33), ("g", 1), ("t", 16_129)],
            || plane::<64, 64>().to_bytes(),
        )
        .without(BARE)
        .filled(POSITIVE)
        .resized(toeplitz_spectrum::as_plane)
        .for_bench(),
    ],
    vjp: None,
};
