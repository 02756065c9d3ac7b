//! Eigenvalues of the circulant that holds a block-Toeplitz mask, divided by its size: what [`toeplitz_product`](super::toeplitz_product)
//! multiplies by between its two transforms.
//!
//! `out[g, f]` = (1/L) Σ over offsets of table·exp(−2πi ⟨f, offset⟩/L); `table` `[g, t]` (see [`grid`](super::grid)), `out` `[g, f, 2]` with
//! f = L₁L₂L₃ as [`Grid::lengths`] gives them.

use super::circulant_embed;
use super::grid::Grid;
use crate::error::Result;
use crate::graph::{Expansion, Graph};
use crate::kernel::*;
use crate::kernels::fft::fft::{flop, transformed};
use crate::kernels::fft::plan::{self, Job, Rows, Strategy, Twiddles};
use crate::params;
use crate::reference;
use crate::tensor::{DType, Dims, Tensor};

params! {
    /// Parameters of [`SPEC`].
    pub struct Params {
        /// tokens along the first axis
        fixed n1: u32 = 1,
        /// tokens along the second axis
        fixed n2: u32 = 1,
        /// tokens along the last axis
        fixed n3: u32 = 1,
        /// 1: of the transposed mask
        fixed transpose: u32 = 0,
        /// 1: a table of offsets modulo the sides
        fixed torus: u32 = 0,
    }
}

impl Params {
    /// The parameters of a grid.
    pub fn of(grid: &Grid) -> Self {
        let [n1, n2, n3] = grid.sides;
        Self { n1, n2, n3, transpose: u32::from(grid.transpose), torus: u32::from(grid.torus) }
    }

    /// The grid they describe.
    pub fn grid(&self) -> Grid {
        Grid { sides: [self.n1, self.n2, self.n3], torus: self.torus != 0, transpose: self.transpose != 0 }
    }
}

/// A line of any number of tokens, for a case at other sizes.
pub(super) fn as_line(d: &mut Dims) -> std::result::Result<Vec<u8>, String> {
    resized(d, [1, 1, d.size("n")])
}

/// A plane of any number of tokens, for a case at other sizes.
pub(super) fn as_plane(d: &mut Dims) -> std::result::Result<Vec<u8>, String> {
    let [rows, cols] = resize::plane(d.size("n"));
    resized(d, [1, rows, cols])
}

fn resized(d: &mut Dims, sides: [u32; 3]) -> std::result::Result<Vec<u8>, String> {
    d.set("t", resize::offsets(&sides)?);
    Ok(Params::of(&Grid { sides, torus: false, transpose: false }).to_bytes())
}

/// Transforms complex numbers of a box `lengths` along all axes in place, on the CPU.
pub(super) fn transform_box<T: Real>(numbers: &mut [[T; 2]], lengths: [usize; 3], inverse: bool) {
    for axis in 0..3 {
        let (length, after) = (lengths[axis], lengths[axis + 1..].iter().product::<usize>());
        for start in (0..numbers.len()).filter(|at| at / after % length == 0) {
            let line = (0..length).map(|j| numbers[start + j * after]).collect();
            for (j, z) in transformed(line, inverse).into_iter().enumerate() {
                numbers[start + j * after] = z;
            }
        }
    }
}

fn reference<T: Real>(args: &mut HostArgs<T>) -> Result<()> {
    let p: Params = args.params();
    let grid = p.grid();
    let ([g, t, f], table) = (["g", "t", "f"].map(|x| args.dims.at(x)), args.real("table"));
    let lengths = grid.lengths().map(|l| l as usize);
    let n = grid.sides.map(|n| n as usize);
    let mut out = Vec::with_capacity(g * f * 2);
    for head in 0..g {
        let mut column = vec![[T::zero(); 2]; f];
        for (place, z) in column.iter_mut().enumerate() {
            let c = [place / (lengths[1] * lengths[2]), place / lengths[2] % lengths[1], place % lengths[2]];
            // A token of the last row or the first one, whichever makes this offset.
            let (mut i, mut j, mut inside) = (0, 0, true);
            for axis in 0..3 {
                let back = (lengths[axis] - c[axis]) % lengths[axis];
                inside &= c[axis] < n[axis] || back < n[axis];
                let (to, from) = if c[axis] < n[axis] { (c[axis], 0) } else { (0, back) };
                (i, j) = (i * n[axis] + to, j * n[axis] + from);
            }
            if inside {
                z[0] = table[head * t + grid.entry(i, j)] / T::of(f as f64);
            }
        }
        transform_box(&mut column, lengths, false);
        out.extend(column.into_iter().flatten());
    }
    args.set("out", out);
    Ok(())
}

fn expand(x: &mut Expansion<'_>) -> Result<()> {
    let p: Params = x.params();
    let (table, out) = (x.port("table"), x.port("out"));
    record_into(x.graph, &p.grid(), p.grid().lengths(), table, out)
}

fn record_into(graph: &mut Graph, grid: &Grid, lengths: [u32; 3], table: Tensor, out: Tensor) -> Result<()> {
    let heads = table.dim(0);
    let numbers: u32 = lengths.iter().product();
    let column = graph.transient("circulant", [heads, numbers, 2], DType::F32);
    let [l1, l2, l3] = lengths;
    let embedding = circulant_embed::Params { l1, l2, l3, ..circulant_embed::Params::of(grid) };
    graph.pass(&circulant_embed::SPEC, &embedding, &[Some(table), Some(column)])?;
    let axes = (0..3).rev().filter(|a| lengths[*a] > 1);
    let passes: Vec<_> =
        axes.flat_map(|a| plan::transform(a, lengths[a], lengths[a], false, Strategy::Narrow)).collect();
    let scale = (1.0 / f64::from(numbers)) as f32;
    let job = Job { passes: &passes, sides: lengths, width: 2, block: 2, per: 1, scale, spectrum: None };
    let from = Rows { tensor: graph.reshape(column, [1, heads, numbers, 2])?, at: 0 };
    let to = Rows { tensor: graph.reshape(out, [1, heads, numbers, 2])?, at: 0 };
    plan::record(graph, &mut Twiddles::default(), &job, from, to)
}

/// Records the spectrum `[g, f, 2]` of tables `[g, t]` into a new transient.
///
/// Errors: a table of another size than the grid's.
#[track_caller]
pub fn record(graph: &mut Graph, grid: &Grid, table: Tensor) -> Result<Tensor> {
    let numbers: u32 = grid.lengths().iter().product();
    let out = graph.transient("spectrum", [table.dim(0), numbers, 2], DType::F32);
    graph.pass(&SPEC, &Params::of(grid), &[Some(table), Some(out)])?;
    Ok(out)
}

/// The same for a circulant of other lengths 2ᵃ3ᵇ, each at least twice a side less one: `[g, l1 l2 l3, 2]`.
///
/// Errors: a table of another size than the grid's, lengths that do not hold it.
#[track_caller]
pub fn record_of_lengths(graph: &mut Graph, grid: &Grid, lengths: [u32; 3], table: Tensor) -> Result<Tensor> {
    let numbers: u32 = lengths.iter().product();
    let out = graph.transient("spectrum", [table.dim(0), numbers, 2], DType::F32);
    record_into(graph, grid, lengths, table, out)?;
    Ok(out)
}

fn check(d: &Dims, params: &[u8]) -> std::result::Result<(), String> {
    let grid = Params::from_bytes(params).grid();
    grid.check(None, d.size("t"))?;
    let places: u64 = grid.lengths().iter().map(|l| u64::from(*l)).product();
    if places != u64::from(d.size("f")) {
        return Err(format!(
            "out has one number for each of {places} places of the circulant, got {}",
            d.size("f")
        ));
    }
    Ok(())
}

/// The kernel's description.
pub static SPEC: KernelSpec = KernelSpec {
    name: "toeplitz_spectrum",
    family: "mask",
    formula: "out = (1/L) FFT(circulant column of the table)",
    source: "circulant embedding of a block-Toeplitz matrix",
    ports: &[Port::read("table", &["g", "t"]), Port::write("out", &["g", "f", "2"])],
    params: Params::FIELDS,
    defaults: Params::default_bytes,
    output_dims: Some(|d, params| d.set("f", Params::from_bytes(params).grid().lengths().iter().product())),
    check,
    wgpu: OnWgpu::Expand(expand),
    cuda: OnCuda::Expand,
    reference: reference!(reference),
    window: whole_heads,
    cost: |d, params| {
        let lengths = Params::from_bytes(params).grid().lengths();
        let [g, t, f] = ["g", "t", "f"].map(|x| f64::from(d.size(x)));
        let flops: f64 = lengths.iter().map(|l| f / f64::from(*l) * flop(*l)).sum();
        Cost { flop: g * flops, exp: 0.0, stores: 2.0 * g * f, bytes: 4.0 * g * (t + 2.0 * f), ..Cost::default() }
    },
    tolerance: Tolerance {
        factor: 2.0,
        floor: 16.0 * f32::EPSILON as f64,
        reason: "the yardstick is a careful f32 transform with few roundings per number: one more per pass is allowed",
    },
    cases: &[
        Case::new("smallest", &[("g", 1), ("t", 1), ("f", 2)], Params::default_bytes),
        Case::new("odd", &[("g", 3), ("t", 33), ("f", 64)], || {
            Params { n3: 17, ..Params::default() }.to_bytes()
        }),
        Case::new("plane_transposed", &[("g", 2), ("t", 273), ("f", 512)], || {
            Params { n2: 7, n3: 11, transpose: 1, ..Params::default() }.to_bytes()
        }),
        Case::new("space", &[("g", 1), ("t", 693), ("f", 1152)], || {
            Params { n1: 4, n2: 6, n3: 5, ..Params::default() }.to_bytes()
        }),
        Case::new("torus", &[("g", 1), ("t", 60), ("f", 192)], || {
            Params { n2: 6, n3: 10, torus: 1, ..Params::default() }.to_bytes()
        }),
    ],
    vjp: None,
};
