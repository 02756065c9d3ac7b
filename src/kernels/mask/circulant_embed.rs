//! Relative-position tables laid out as the first column of a circulant: what a Fourier transform turns into the mask's
//! eigenvalues.
//!
//! `out[g, c]` = the table entry at the offset that is c modulo the lengths, as a complex number; 0 where there is none.
//! `table` `[g, t]`, `out` `[g, f, 2]`, f = l1 · l2 · l3.

use super::grid::Grid;
use crate::error::Result;
use crate::kernel::wgsl_module::GROUP;
use crate::kernel::*;
use crate::{cuda_source, params, reference};

params! {
    /// Parameters of [`SPEC`].
    pub struct Params {
        /// tokens along the first axis
        fixed n1: u32 = 1,
        /// tokens along the second axis
        fixed n2: u32 = 1,
        /// tokens along the last axis
        fixed n3: u32 = 1,
        /// length of the circulant along the first axis
        fixed l1: u32 = 1,
        /// along the second
        fixed l2: u32 = 1,
        /// along the last
        fixed l3: u32 = 1,
        /// 1: the transposed mask
        fixed transpose: u32 = 0,
        /// 1: a table of offsets modulo the sides
        fixed torus: u32 = 0,
    }
}

impl Params {
    /// The parameters for a grid.
    pub fn of(grid: &Grid) -> Self {
        let ([n1, n2, n3], [l1, l2, l3]) = (grid.sides, grid.lengths());
        Self { n1, n2, n3, l1, l2, l3, transpose: u32::from(grid.transpose), torus: u32::from(grid.torus) }
    }

    fn grid(&self) -> Grid {
        Grid { sides: [self.n1, self.n2, self.n3], torus: self.torus != 0, transpose: self.transpose != 0 }
    }
}

fn reference<T: Real>(args: &mut HostArgs<T>) -> Result<()> {
    let p: Params = args.params();
    let grid = p.grid();
    let ([g, t, f], table) = (["g", "t", "f"].map(|x| args.dims.at(x)), args.real("table"));
    let lengths = [p.l1, p.l2, p.l3].map(|l| l as usize);
    let mut out = vec![T::zero(); g * f * 2];
    // Every pair of tokens with one of them at a corner gives one offset; all offsets come from pairs of tokens.
    let n = grid.sides.map(|n| n as usize);
    let offsets = |a: usize| (1 - n[a] as isize)..n[a] as isize;
    for (a, b, c) in offsets(0).flat_map(|a| offsets(1).flat_map(move |b| offsets(2).map(move |c| (a, b, c))))
    {
        let (offset, mut i, mut j, mut place) = ([a, b, c], 0, 0, 0);
        for axis in 0..3 {
            let size = offset[axis].unsigned_abs();
            let (from, to) = if offset[axis] >= 0 { (size, 0) } else { (0, size) };
            (i, j) = (i * n[axis] + from, j * n[axis] + to);
            place = place * lengths[axis] + offset[axis].rem_euclid(lengths[axis] as isize) as usize;
        }
        for head in 0..g {
            out[2 * (head * f + place)] = table[head * t + grid.entry(i, j)];
        }
    }
    args.set("out", out);
    Ok(())
}

fn check(d: &crate::tensor::Dims, params: &[u8]) -> std::result::Result<(), String> {
    let p = Params::from_bytes(params);
    p.grid().check(None, d.size("t"))?;
    let fits = |n: u32, l: u32| l >= 2 * n - 1 || p.torus == 1 && l == n;
    if ![(p.n1, p.l1), (p.n2, p.l2), (p.n3, p.l3)].into_iter().all(|(n, l)| fits(n, l)) {
        return Err(format!(
            "a circulant has at least 2n − 1 places on each axis, got {}, {}, {}",
            p.l1, p.l2, p.l3
        ));
    }
    let places = u64::from(p.l1) * u64::from(p.l2) * u64::from(p.l3);
    if places != u64::from(d.size("f")) {
        return Err(format!("out has l1 · l2 · l3 = {places} places, got {}", d.size("f")));
    }
    Ok(())
}

/// The kernel's description.
pub static SPEC: KernelSpec = KernelSpec {
    name: "circulant_embed",
    family: "mask",
    formula: "out[g, c] = table[g, offset ≡ c mod L], 0 where there is no such offset",
    source: "definition of a circulant that holds a block-Toeplitz matrix",
    ports: &[Port::read("table", &["g", "t"]), Port::write("out", &["g", "f", "2"])],
    params: Params::FIELDS,
    defaults: Params::default_bytes,
    output_dims: Some(|d, params| {
        let p = Params::from_bytes(params);
        d.set("f", p.l1 * p.l2 * p.l3);
    }),
    check,
    wgpu: OnWgpu::Shader(&[Variant::only(
        "mask/circulant_embed.wgsl",
        include_str!("../../../shaders/mask/circulant_embed.wgsl"),
        &[GROUP],
        |d, _| (u64::from(d.size("g")) * u64::from(d.size("f"))).div_ceil(64),
        |d, _| Loads { storage: f64::from(d.size("g")) * f64::from(d.size("t")), ..Loads::default() },
    )]),
    cuda: OnCuda::Source(&[cuda_source!("mask/circulant_embed.cu", 256, |d, _| {
        (2 * u64::from(d.size("g")) * u64::from(d.size("f"))).div_ceil(256)
    })]),
    reference: reference!(reference),
    window: whole_heads,
    cost: |d, _| {
        let [g, t, f] = ["g", "t", "f"].map(|x| f64::from(d.size(x)));
        Cost { flop: 0.0, exp: 0.0, stores: 2.0 * g * f, bytes: 4.0 * g * (t + 2.0 * f), ..Cost::default() }
    },
    tolerance: Tolerance::EXACT,
    cases: &[
        Case::new("smallest", &[("g", 1), ("t", 1), ("f", 1)], Params::default_bytes),
        Case::new("odd", &[("g", 3), ("t", 33), ("f", 35)], || {
            Params { n3: 17, l3: 35, ..Params::default() }.to_bytes()
        }),
        Case::new("plane_transposed", &[("g", 2), ("t", 45), ("f", 96)], || {
            Params { n2: 3, n3: 5, l2: 8, l3: 12, transpose: 1, ..Params::default() }.to_bytes()
        }),
        Case::new("space", &[("g", 1), ("t", 105), ("f", 192)], || {
            Params { n1: 3, n2: 2, n3: 4, l1: 6, l2: 4, l3: 8, ..Params::default() }.to_bytes()
        }),
        Case::new("torus", &[("g", 2), ("t", 60), ("f", 120)], || {
            Params { n2: 6, n3: 10, l2: 6, l3: 20, torus: 1, transpose: 1, ..Params::default() }.to_bytes()
        }),
    ],
    vjp: None,
};
