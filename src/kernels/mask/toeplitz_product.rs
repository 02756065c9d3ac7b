//! A relative-position mask times values, without forming the mask: N log N for any grid in one, two or three dimensions.
//!
//! `out[i]` = Σⱼ table(i − j) `x[j]`: `x`, `out` `[b, h, n, c]`, `table` `[g, t]` with g = h, or 1 for all heads (see [`grid`](super::grid)).
//!
//! The mask is embedded in a circulant, which Fourier transforms diagonalise: axis by axis forward, where zeros of the padding are
//! never read and lines of them never transformed, times the spectrum, and back, where only the grid's own places are made. The mask
//! is real, so channels 2c and 2c + 1 are the two parts of one complex number. Rounding of the larger of the two leaks into the other
//! (relative error 2e-7 at equal sizes, 7e-6 at 100 : 1): give neighbouring channels similar magnitudes.
//!
//! Heads, and channels of a head, are worked in slices so that transients stay under the device's memory budget.

use super::grid::Grid;
use super::toeplitz_spectrum::{self, Params as GridParams, transform_box};
use crate::error::Result;
use crate::graph::{Expansion, Graph};
use crate::kernel::*;
use crate::kernels::fft::fft::flop;
use crate::kernels::fft::plan::{self, Job, Pass, Rows, Spectrum, Twiddles};
use crate::kernels::laplacian::nystrom::{slice_heads, slices};
use crate::reference;
use crate::tensor::{Dims, Tensor};

/// Bytes of a block of channels: a software driver's texture windows hold whole blocks.
const BLOCK_BYTES: u64 = 4 << 20;
/// Tokens above which the reference trusts the CPU's transforms: the direct sum would take minutes.
const DIRECT: usize = 4096;

fn reference<T: Real>(args: &mut HostArgs<T>) -> Result<()> {
    let grid = args.params::<GridParams>().grid();
    let [n, c, g, t, h] = ["n", "c", "g", "t", "h"].map(|x| args.dims.at(x));
    let (x, table) = (args.real("x"), args.real("table"));
    let batches = args.dims.batches() as usize;
    let weights = |batch: usize| &table[if g == 1 { 0 } else { batch % h } * t..][..t];
    let out = if n <= DIRECT {
        reference::rows(batches, n, c, |batch, i, line| {
            let weights = weights(batch);
            for j in 0..n {
                let weight = weights[grid.entry(i, j)];
                line.iter_mut().zip(&x[(batch * n + j) * c..][..c]).for_each(|(sum, v)| *sum += weight * *v);
            }
        })
    } else {
        let channel = |line: usize| {
            by_transform(&grid, weights(line / c), (0..n).map(|i| x[(line / c * n + i) * c + line % c]))
        };
        let lines: Vec<Vec<T>> = {
            use rayon::prelude::*;
            (0..batches * c).into_par_iter().map(channel).collect()
        };
        (0..batches * n * c).map(|at| lines[at / (n * c) * c + at % c][at / c % n]).collect()
    };
    args.set("out", out);
    Ok(())
}

/// One channel by an embedding of its own choice, twice the sides, so that the lengths of the kernel are not trusted.
pub(super) fn by_transform<T: Real>(grid: &Grid, weights: &[T], x: impl Iterator<Item = T>) -> Vec<T> {
    let n = grid.sides.map(|n| n as usize);
    let lengths = n.map(|n| if n > 1 { 2 * n } else { 1 });
    let size: usize = lengths.iter().product();
    let place = |t: usize| {
        let at = [t / (n[2] * n[1]), t / n[2] % n[1], t % n[2]];
        (at[0] * lengths[1] + at[1]) * lengths[2] + at[2]
    };
    let mut values = vec![[T::zero(); 2]; size];
    x.enumerate().for_each(|(t, v)| values[place(t)][0] = v);
    let mut column = vec![[T::zero(); 2]; size];
    for (at, z) in column.iter_mut().enumerate() {
        let c = [at / (lengths[1] * lengths[2]), at / lengths[2] % lengths[1], at % lengths[2]];
        let (mut i, mut j, mut inside) = (0, 0, true);
        for axis in 0..3 {
            let back = (lengths[axis] - c[axis]) % lengths[axis];
            inside &= c[axis] < n[axis] || back < n[axis];
            let (to, from) = if c[axis] < n[axis] { (c[axis], 0) } else { (0, back) };
            (i, j) = (i * n[axis] + to, j * n[axis] + from);
        }
        if inside {
            z[0] = weights[grid.entry(i, j)];
        }
    }
    transform_box(&mut values, lengths, false);
    transform_box(&mut column, lengths, false);
    for (v, w) in values.iter_mut().zip(&column) {
        *v = [v[0] * w[0] - v[1] * w[1], v[0] * w[1] + v[1] * w[0]];
    }
    transform_box(&mut values, lengths, true);
    (0..grid.tokens() as usize).map(|t| values[place(t)][0]).collect()
}

/// How the channels of a product are cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cut {
    /// Channels of a slice, a multiple of 4 and of `block`.
    pub width: u32,
    /// Channels of a block, a multiple of 4.
    pub block: u32,
    /// Bytes of one head's transients.
    pub bytes: u64,
}

impl Cut {
    /// For `channels` channels of a grid on a device.
    pub fn of(passes: &[Pass], grid: &Grid, channels: u32, caps: &Caps) -> Self {
        let per_channel = 4 * plan::largest_pair(passes, grid.sides);
        let places: u64 = grid.lengths().iter().map(|l| u64::from(*l)).product();
        let binding = match caps.driver {
            Driver::Gpu => caps.storage_binding.saturating_sub(u64::from(caps.storage_alignment)),
            _ => BLOCK_BYTES,
        };
        let fours = |words: u64| u32::try_from(words / 4 * 4).unwrap_or(u32::MAX - 3).max(4);
        let all = channels.next_multiple_of(4).max(4);
        let within_budget = fours(caps.memory_budget / per_channel.max(1)).min(all);
        let block = fours(binding / (4 * places).max(1)).min(within_budget);
        // Whole blocks: the last one may hold channels that nobody has.
        let blocks = if within_budget < all { within_budget / block } else { all.div_ceil(block) };
        // As many blocks, as equal as they can be.
        let block = if within_budget < all { block } else { all.div_ceil(blocks).next_multiple_of(4) };
        Self { width: block * blocks, block, bytes: per_channel * u64::from(block * blocks) }
    }
}

fn expand(x: &mut Expansion<'_>) -> Result<()> {
    let grid = x.params::<GridParams>().grid();
    let (input, table, output) = (x.port("x"), x.port("table"), x.port("out"));
    let spectrum = toeplitz_spectrum::record(x.graph, &grid, table)?;
    let (caps, mut twiddles) = (*x.caps, Twiddles::default());
    record(x.graph, &mut twiddles, &grid, &caps, [input, spectrum, output])
}

/// Records the product of `[x, spectrum, out]` with the grid's mask.
///
/// Errors: shapes that do not fit.
pub fn record(
    graph: &mut Graph,
    twiddles: &mut Twiddles,
    grid: &Grid,
    caps: &Caps,
    [x, spectrum, out]: [Tensor; 3],
) -> Result<()> {
    let passes =
        plan::filter(grid.sides, grid.lengths(), plan::Strategy::of(caps.driver, x.dim(3)));
    let (b, h, channels) = (x.dim(0), x.dim(1), x.dim(3));
    let cut = Cut::of(&passes, grid, channels, caps);
    let mut some = |graph: &mut Graph, [x, spectrum, out]: [Tensor; 3]| {
        let single = passes.len() == 1;
        let job = Job {
            passes: &passes,
            sides: grid.sides,
            width: if single { channels } else { cut.width },
            block: if single { channels } else { cut.block },
            per: 1,
            scale: 1.0,
            spectrum: Some(Spectrum { tensor: spectrum }),
        };
        // One pass has no transients, so it takes all channels.
        let step = if single { channels } else { cut.width };
        (0..channels).step_by(step.max(1) as usize).try_for_each(|at| {
            plan::record(graph, twiddles, &job, Rows { tensor: x, at }, Rows { tensor: out, at })
        })
    };
    match slices(b, h, cut.bytes, caps.memory_budget) {
        None => some(graph, [x, spectrum, out]),
        Some(list) => list.into_iter().try_for_each(|(batch, heads)| {
            let x = slice_heads(graph, x, batch, &heads)?;
            let out = slice_heads(graph, out, batch, &heads)?;
            let spectrum =
                if spectrum.dim(0) == 1 { spectrum } else { graph.slice(spectrum, 0, heads.clone())? };
            some(graph, [x, spectrum, out])
        }),
    }
}

/// What tables, tokens and heads must satisfy.
fn check(d: &Dims, params: &[u8]) -> std::result::Result<(), String> {
    GridParams::from_bytes(params).grid().check(Some(d.size("n")), d.size("t"))?;
    if ![1, d.size("h")].contains(&d.size("g")) {
        return Err(format!(
            "table has a row for each of {} heads, or one for all, got {}",
            d.size("h"),
            d.size("g")
        ));
    }
    Ok(())
}

fn cost(d: &Dims, params: &[u8]) -> Cost {
    let grid = GridParams::from_bytes(params).grid();
    let (sides, lengths) = (grid.sides.map(f64::from), grid.lengths());
    let pairs = d.batches() as f64 * (f64::from(d.size("c")) / 2.0);
    // Lines that are not all zeros, axis by axis, there and back.
    let lines = |axis: usize| {
        (0..3)
            .filter(|a| *a != axis)
            .map(|a| if a < axis { sides[a] } else { f64::from(lengths[a]) })
            .product::<f64>()
    };
    let transforms: f64 = (0..3).filter(|a| lengths[*a] > 1).map(|a| 2.0 * lines(a) * flop(lengths[a])).sum();
    let places: f64 = lengths.iter().map(|l| f64::from(*l)).product();
    let words = d.batches() as f64 * f64::from(d.size("n")) * f64::from(d.size("c"));
    Cost {
        flop: pairs * (transforms + 6.0 * places),
        exp: 0.0,
        stores: words,
        bytes: 4.0 * (2.0 * words + f64::from(d.size("g")) * f64::from(d.size("t"))),
        ..Cost::default()
    }
}

const fn grid3<const A: u32, const B: u32, const C: u32>() -> GridParams {
    GridParams { n1: A, n2: B, n3: C, transpose: 0, torus: 0 }
}

fn line<const N: u32>() -> Vec<u8> {
    grid3::<1, 1, N>().to_bytes()
}

fn plane<const A: u32, const B: u32>() -> Vec<u8> {
    grid3::<1, A, B>().to_bytes()
}

fn space<const A: u32, const B: u32, const C: u32>() -> Vec<u8> {
    grid3::<A, B, C>().to_bytes()
}

/// The kernel's description.
pub static SPEC: KernelSpec = KernelSpec {
    name: "toeplitz_product",
    family: "mask",
    formula: "out[i] = Σⱼ table[i − j] x[j] over a grid in 1, 2 or 3 dimensions",
    source: "circulant embedding by pruned axis passes; arXiv 2107.07999 for its use as a mask",
    ports: &[
        Port::read("x", &["b", "h", "n", "c"]),
        Port::read("table", &["g", "t"]),
        Port::write("out", &["b", "h", "n", "c"]),
    ],
    params: GridParams::FIELDS,
    defaults: GridParams::default_bytes,
    output_dims: None,
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
        Case::new("smallest", &[("b", 1), ("h", 1), ("n", 1), ("c", 1), ("g", 1), ("t", 1)], line::<1>),
        Case::new("odd", &[("b", 2), ("h", 3), ("n", 17), ("c", 5), ("g", 3), ("t", 33)], line::<17>),
        Case::new("two_tokens", &[("b", 1), ("h", 2), ("n", 2), ("c", 3), ("g", 1), ("t", 3)], line::<2>),
        Case::new(
            "line_100_transposed",
            &[("b", 1), ("h", 2), ("n", 100), ("c", 8), ("g", 2), ("t", 199)],
            || GridParams { transpose: 1, ..grid3::<1, 1, 100>() }.to_bytes(),
        ),
        Case::new(
            "first_axis",
            &[("b", 1), ("h", 1), ("n", 9), ("c", 4), ("g", 1), ("t", 17)],
            space::<9, 1, 1>,
        ),
        Case::new(
            "plane_7x11",
            &[("b", 2), ("h", 2), ("n", 77), ("c", 6), ("g", 2), ("t", 273)],
            plane::<7, 11>,
        ),
        Case::new(
            "plane_14x14",
            &[("b", 1), ("h", 2), ("n", 196), ("c", 12), ("g", 1), ("t", 729)],
            plane::<14, 14>,
        ),
        Case::new(
            "space_4x6x5",
            &[("b", 1), ("h", 2), ("n", 120), ("c", 4), ("g", 2), ("t", 693)],
            space::<4, 6, 5>,
        ),
        Case::new("torus_6x10", &[("b", 1), ("h", 2), ("n", 60), ("c", 4), ("g", 2), ("t", 60)], || {
            GridParams { torus: 1, ..grid3::<1, 6, 10>() }.to_bytes()
        }),
        Case::new(
            "large_values",
            &[("b", 1), ("h", 1), ("n", 33), ("c", 4), ("g", 1), ("t", 65)],
            line::<33>,
        )
        .filled(&[("x", Fill::Uniform(-1e30, 1e30))]),
        Case::new(
            "line_4096",
            &[("b", 1), ("h", 1), ("n", 4096), ("c", 512), ("g", 1), ("t", 8191)],
            line::<4096>,
        )
        .resized(toeplitz_spectrum::as_line)
        .for_bench(),
        Case::new(
            "plane_64x64",
            &[("b", 1), ("h", 1), ("n", 4096), ("c", 64), ("g", 1), ("t", 16_129)],
            plane::<64, 64>,
        )
        .resized(toeplitz_spectrum::as_plane)
        .for_bench(),
        Case::new(
            "plane_56x56",
            &[("b", 1), ("h", 1), ("n", 3136), ("c", 64), ("g", 1), ("t", 12_321)],
            plane::<56, 56>,
        )
        .resized(toeplitz_spectrum::as_plane)
        .for_bench(),
        Case::new(
            "plane_64x64_1024",
            &[("b", 1), ("h", 16), ("n", 4096), ("c", 64), ("g", 1), ("t", 16_129)],
            plane::<64, 64>,
        )
        .resized(toeplitz_spectrum::as_plane)
        .for_bench(),
        Case::new(
            "plane_56x56_1024",
            &[("b", 1), ("h", 16), ("n", 3136), ("c", 64), ("g", 1), ("t", 12_321)],
            plane::<56, 56>,
        )
        .resized(toeplitz_spectrum::as_plane)
        .for_bench(),
    ],
    vjp: None,
};
