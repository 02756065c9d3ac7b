//! Masks on networks whose spectra are known: fast for large networks, and oracles for everything that works on any network
//! (method: topological masking, 2.5e).
//!
//! * [`Hypercube`]: any function of the Hamming distance, by Walsh–Hadamard transforms.
//! * [`GridHeat`]: exp(−tL), L = D − A, of paths, rings, grids and tori.
//!
//! On the whole line e^{−t(2 − 2 cos)} has the entries e^{−2t} I_d(2t), which are positive; a ring adds them up around itself, a path with walls adds
//! mirror images behind its ends. So every entry is a sum of positive numbers, right to a few units of f64 however small. A grid with walls has
//! *no* table of relative positions: near a wall the images differ.

use super::operator::{Exactness, MaskOperator, ParameterGradient, check};
use super::table::grid;
use crate::error::{Error, Result};
use crate::graph::Graph;
use crate::kernel::NoParams;
use crate::kernels::fft::walsh_hadamard;
use crate::kernels::linalg::{matmul, row_affine};
use crate::kernels::mask::grid::Grid;
use crate::kernels::mask::mirror_grid::{self, doubled};
use crate::kernels::mask::{toeplitz_product, toeplitz_spectrum};
use crate::tensor::{DType, HostTensor, Tensor};
use crate::topology::chebyshev::scaled_bessel;

/// Most dimensions of a hypercube: beyond them alternating sums of binomials cost f64 half of its digits.
pub const MOST_DIMENSIONS: u32 = 24;
/// Longest side of a bounded grid that is multiplied axis by axis as matrices; longer ones go through transforms.
pub const LONGEST_MATRIX: u32 = 1024;

fn check_times(times: &[f64]) -> Result<()> {
    if times.is_empty() {
        return Err(Error::value("times of a diffusion", "one per head, or one", "none", "give a time"));
    }
    match times.iter().find(|t| !(t.is_finite() && **t >= 0.0)) {
        None => Ok(()),
        Some(t) => Err(Error::value(
            "time of a diffusion",
            "a finite number of at least 0",
            t,
            "diffusion does not run back",
        )),
    }
}

/// The nearest f32, 0 for what only subnormal numbers hold: devices may flush those.
fn single(x: f64) -> f32 {
    let x = x as f32;
    if x.abs() < f32::MIN_POSITIVE { 0.0 } else { x }
}

/// A mask f(Hamming distance) on the 2^d corners of a cube; corner = integer, neighbours differ in one bit.
#[derive(Clone, Debug)]
pub struct Hypercube {
    dimensions: u32,
    /// f by distance, per head.
    by_distance: Vec<Vec<f64>>,
    /// Eigenvalues by the number of ones, divided by 2^d, per head.
    spectrum: Vec<Vec<f64>>,
}

impl Hypercube {
    fn check_dimensions(dimensions: u32) -> Result<()> {
        if dimensions <= MOST_DIMENSIONS {
            return Ok(());
        }
        let expected = format!("at most {MOST_DIMENSIONS}");
        Err(Error::value("dimensions of a hypercube", expected, dimensions, "use fewer"))
    }

    /// The heat kernel exp(−tL) = ((1 + e^{−2t})/2)^d tanh(t)^Hamming, with eigenvalues e^{−2tk}; a time per head, or one.
    ///
    /// Errors: no time, negative times or times that are not finite; more than [`MOST_DIMENSIONS`].
    pub fn heat(dimensions: u32, times: &[f64]) -> Result<Self> {
        Self::check_dimensions(dimensions)?;
        check_times(times)?;
        let size = f64::from(dimensions).exp2();
        let of = |t: f64, f: &dyn Fn(f64, i32) -> f64| (0..=dimensions as i32).map(|d| f(t, d)).collect();
        let kernel =
            |t: f64, d: i32| (0.5 * (1.0 + (-2.0 * t).exp())).powi(dimensions as i32) * t.tanh().powi(d);
        let eigenvalue = |t: f64, k: i32| (-2.0 * t * f64::from(k)).exp() / size;
        Ok(Self {
            dimensions,
            by_distance: times.iter().map(|t| of(*t, &kernel)).collect(),
            spectrum: times.iter().map(|t| of(*t, &eigenvalue)).collect(),
        })
    }

    /// Any f: a list f(0) … f(d) for every head, or one for all. Eigenvalues are Σ f(j) K_j(k) with Krawtchouk's polynomials.
    ///
    /// Errors: no list, another length than d + 1, weights that are negative or not finite; more than [`MOST_DIMENSIONS`].
    pub fn of_distance(dimensions: u32, f: &[Vec<f32>]) -> Result<Self> {
        Self::check_dimensions(dimensions)?;
        let count = dimensions as usize + 1;
        if f.is_empty() || f.iter().any(|list| list.len() != count) {
            let got = format!("lists of {:?}", f.iter().map(Vec::len).collect::<Vec<_>>());
            let expected = format!("{count} weights for every head, or for all");
            return Err(Error::value("weights by Hamming distance", expected, got, "give f(0) to f(d)"));
        }
        for list in f {
            crate::kernels::distance::pairs::checked_table(list, 16)?;
        }
        let by_distance: Vec<Vec<f64>> =
            f.iter().map(|list| list.iter().map(|x| f64::from(*x)).collect()).collect();
        let d = f64::from(dimensions);
        let eigenvalue = |list: &[f64], k: f64| {
            // (j + 1) K_{j+1} = (d − 2k) K_j − (d − j + 1) K_{j−1}.
            let (mut before, mut now, mut sum) = (0.0, 1.0, 0.0);
            for (j, f) in list.iter().enumerate() {
                sum += f * now;
                let j = j as f64;
                (before, now) = (now, ((d - 2.0 * k) * now - (d - j + 1.0) * before) / (j + 1.0));
            }
            sum / d.exp2()
        };
        let spectrum = by_distance
            .iter()
            .map(|list| (0..=dimensions).map(|k| eigenvalue(list, k.into())).collect())
            .collect();
        Ok(Self { dimensions, by_distance, spectrum })
    }
}

impl MaskOperator for Hypercube {
    fn describe(&self) -> String {
        format!("function of the distance on the hypercube of {} dimensions", self.dimensions)
    }

    fn tokens(&self) -> u32 {
        1 << self.dimensions
    }

    fn heads(&self) -> u32 {
        self.by_distance.len() as u32
    }

    fn weight(&self, head: u32, i: u32, j: u32) -> f64 {
        let head = if self.by_distance.len() == 1 { 0 } else { head as usize };
        self.by_distance[head][(i ^ j).count_ones() as usize]
    }

    fn exactness(&self) -> Exactness {
        Exactness::Noise
    }

    fn flop(&self) -> f64 {
        f64::from(self.dimensions).exp2() * (2.0 * f64::from(self.dimensions) + 1.0)
    }

    fn apply(&self, graph: &mut Graph, x: Tensor) -> Result<Tensor> {
        check(self, x)?;
        let numbers = self.spectrum.iter().flatten().map(|x| *x as f32).collect();
        let spectrum = HostTensor::f32([self.heads(), self.dimensions + 1], numbers)?;
        let spectrum = graph.constant("spectrum of the mask", spectrum);
        let out = graph.transient("M x", x.shape(), DType::F32);
        graph.pass(&walsh_hadamard::SPEC, &NoParams {}, &[Some(x), Some(spectrum), Some(out)])?;
        Ok(out)
    }

    fn apply_transposed(&self, graph: &mut Graph, x: Tensor) -> Result<Tensor> {
        // The distance is the same in both directions.
        self.apply(graph, x)
    }

    fn parameter_gradient(&self) -> ParameterGradient {
        ParameterGradient::Declared(
            "df[d] = Σ_c Σ_{|i xor j| = d} dY_ic D_jc, from products of transforms by the number of ones",
        )
    }
}

/// Which way a bounded grid is multiplied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GridPath {
    /// Axis by axis with its matrix: sums of positive numbers, N · Σ sides.
    Matrices,
    /// Mirror images and Fourier transforms: N log N, with their noise.
    Transforms,
}

/// The heat kernel exp(−tL) of a grid of one to three axes, bounded by walls or closed to a torus, neighbours along sides; tokens in raster order.
#[derive(Clone, Debug)]
pub struct GridHeat {
    sides: [u32; 3],
    torus: bool,
    path: GridPath,
    /// Per head and axis, the kernel of the ring that the axis is, or that its mirror image closes: by distance.
    rings: Vec<[Vec<f64>; 3]>,
}

/// The heat kernel of a ring of n places by distance, `[n]`; a ring of 2 is one edge, of 1 a lone node.
///
/// Errors: times as [`scaled_bessel`].
pub fn ring(n: u32, t: f64) -> Result<Vec<f64>> {
    match n {
        0 | 1 => Ok(vec![1.0; n as usize]),
        2 => Ok(vec![0.5 * (1.0 + (-2.0 * t).exp()), -0.5 * (-2.0 * t).exp_m1()]),
        _ => doubled_ring(n, t),
    }
}

/// A ring where both neighbours of a place count, though they be one.
fn doubled_ring(n: u32, t: f64) -> Result<Vec<f64>> {
    if n == 1 {
        return Ok(vec![1.0]);
    }
    let a = 2.0 * t;
    // e^{−a} I_d(a) falls like e^{−d²/2a}: beyond this many steps it is below 1e-40, and small a fall faster still.
    let reach = (14.0 * a.sqrt()).ceil() as usize + 60;
    let line = scaled_bessel(reach + 1, a)?;
    let mut out = vec![0.0; n as usize];
    // The smallest first.
    for d in (1..=reach).rev() {
        out[d % n as usize] += line[d];
        out[(n as usize - d % n as usize) % n as usize] += line[d];
    }
    out[0] += line[0];
    Ok(out)
}

impl GridHeat {
    /// The kernel at a time per head, or one for all. Bounded grids are multiplied as [`GridPath::Matrices`] up to sides of [`LONGEST_MATRIX`].
    ///
    /// Errors: sides as [`grid`]; no time, negative times or times that are not finite; more than 1e7 / 2.
    pub fn new(sides: &[u32], torus: bool, times: &[f64]) -> Result<Self> {
        let sides = grid(sides)?;
        check_times(times)?;
        if !torus && doubled(sides).iter().try_fold(1_u32, |all, n| all.checked_mul(*n)).is_none() {
            return Err(Error::value(
                "grid of a diffusion",
                "at most 2³² tokens with its mirror images",
                format!("{sides:?}"),
                "use fewer tokens",
            ));
        }
        let axis = |n: u32, t: f64| match (torus, n) {
            (true, _) => ring(n, t),
            (false, 1) => Ok(vec![1.0]),
            (false, _) => doubled_ring(2 * n, t),
        };
        let rings = times
            .iter()
            .map(|t| Ok([axis(sides[0], *t)?, axis(sides[1], *t)?, axis(sides[2], *t)?]))
            .collect::<Result<_>>()?;
        let long = sides.iter().any(|n| *n > LONGEST_MATRIX);
        let path = if torus || long { GridPath::Transforms } else { GridPath::Matrices };
        Ok(Self { sides, torus, path, rings })
    }

    /// The same mask, multiplied another way; a torus has only transforms.
    #[must_use]
    pub fn by(self, path: GridPath) -> Self {
        let path = if self.torus { GridPath::Transforms } else { path };
        Self { path, ..self }
    }

    /// How it is multiplied.
    pub fn path(&self) -> GridPath {
        self.path
    }

    /// Weight of two places of an axis.
    fn on_axis(&self, head: usize, axis: usize, i: usize, j: usize) -> f64 {
        let ring = &self.rings[head][axis];
        let n = self.sides[axis] as usize;
        match (self.torus, n) {
            (_, 1) => 1.0,
            (true, _) => ring[(i + n - j) % n],
            (false, _) => ring[(i + 2 * n - j) % (2 * n)] + ring[(i + j + 1) % (2 * n)],
        }
    }

    /// Table of the torus on which the transforms work: products of its rings.
    fn table(&self) -> Result<HostTensor> {
        let count: usize = self.rings[0].iter().map(Vec::len).product();
        let mut numbers = Vec::with_capacity(self.rings.len() * count);
        for [a, b, c] in &self.rings {
            for (x, y) in a.iter().flat_map(|x| b.iter().map(move |y| (x, y))) {
                numbers.extend(c.iter().map(|z| single(x * y * z)));
            }
        }
        HostTensor::f32([self.heads(), count as u32], numbers)
    }

    fn by_transforms(&self, graph: &mut Graph, x: Tensor) -> Result<Tensor> {
        let [b, h, c] = [x.dim(0), x.dim(1), x.dim(3)];
        let table = graph.constant("mask table", self.table()?);
        let [n1, n2, n3] = self.sides;
        let mirror = mirror_grid::Params { n1, n2, n3, crop: 0 };
        let (sides, input) = match self.torus {
            true => (self.sides, x),
            false => {
                let sides = doubled(self.sides);
                let tokens = sides.iter().product();
                let images = graph.transient("grid and its mirror images", [b, h, tokens, c], DType::F32);
                graph.pass(&mirror_grid::SPEC, &mirror, &[Some(x), Some(images)])?;
                (sides, images)
            }
        };
        let product = graph.transient("M x", input.shape(), DType::F32);
        let params = toeplitz_spectrum::Params::of(&Grid { sides, torus: true, transpose: false });
        graph.pass(&toeplitz_product::SPEC, &params, &[Some(input), Some(table), Some(product)])?;
        if self.torus {
            return Ok(product);
        }
        let out = graph.transient("M x", x.shape(), DType::F32);
        let crop = mirror_grid::Params { crop: 1, ..mirror };
        graph.pass(&mirror_grid::SPEC, &crop, &[Some(product), Some(out)])?;
        Ok(out)
    }

    /// Axis by axis: `[b h before, n_a, after c]` times the axis's matrix from the left.
    fn by_matrices(&self, graph: &mut Graph, x: Tensor) -> Result<Tensor> {
        let shape = x.shape();
        let [b, h, c] = [x.dim(0), x.dim(1), x.dim(3)];
        let mut rows = x;
        for axis in (0..3).filter(|a| self.sides[*a] > 1) {
            let n = self.sides[axis];
            let before: u32 = self.sides[..axis].iter().product();
            let after: u32 = self.sides[axis + 1..].iter().product();
            let weights = |head: usize| {
                let all = (0..n as usize).flat_map(|i| (0..n as usize).map(move |j| (i, j)));
                all.map(move |(i, j)| single(self.on_axis(head, axis, i, j)))
            };
            let heads = self.rings.len();
            // Heads with matrices of their own lie before the axis, so that every batch element repeats them.
            let copies = if heads == 1 { 1 } else { b as usize };
            let numbers = (0..copies).flat_map(|_| (0..heads).flat_map(weights)).collect();
            let matrix = HostTensor::f32([(copies * heads) as u32, 1, n, n], numbers)?;
            let matrix = graph.constant("diffusion along an axis", matrix);
            let lines = graph.reshape(rows, [b * h, before, n, after * c])?;
            rows =
                matmul::record(graph, "M x", matmul::Inputs::new(matrix, lines), matmul::Params::default())?;
        }
        graph.reshape(rows, shape)
    }
}

impl MaskOperator for GridHeat {
    fn describe(&self) -> String {
        let sides: Vec<String> = self.sides.iter().filter(|n| **n > 1).map(u32::to_string).collect();
        let sides = if sides.is_empty() { "1".into() } else { sides.join(" × ") };
        format!("heat kernel of the {} {sides}", if self.torus { "torus" } else { "grid" })
    }

    fn tokens(&self) -> u32 {
        self.sides.iter().product()
    }

    fn heads(&self) -> u32 {
        self.rings.len() as u32
    }

    fn weight(&self, head: u32, i: u32, j: u32) -> f64 {
        let head = if self.rings.len() == 1 { 0 } else { head as usize };
        let [_, n2, n3] = self.sides.map(|n| n as usize);
        let place = |t: u32| [t as usize / (n2 * n3), t as usize / n3 % n2, t as usize % n3];
        let (i, j) = (place(i), place(j));
        (0..3).map(|a| self.on_axis(head, a, i[a], j[a])).product()
    }

    fn exactness(&self) -> Exactness {
        match self.path {
            GridPath::Matrices => Exactness::Relative,
            GridPath::Transforms => Exactness::Noise,
        }
    }

    fn flop(&self) -> f64 {
        let tokens: f64 = self.sides.iter().map(|n| f64::from(*n)).product();
        match self.path {
            GridPath::Matrices => {
                2.0 * tokens * self.sides.iter().filter(|n| **n > 1).map(|n| f64::from(*n)).sum::<f64>()
            }
            GridPath::Transforms => {
                let sides = if self.torus { self.sides } else { doubled(self.sides) };
                let places: f64 = sides.iter().map(|n| f64::from(*n)).product();
                5.0 * places * places.log2().max(1.0) + 3.0 * places
            }
        }
    }

    fn apply(&self, graph: &mut Graph, x: Tensor) -> Result<Tensor> {
        check(self, x)?;
        if self.tokens() == 1 {
            // A copy: who multiplies expects another tensor.
            return row_affine::record(graph, "M x", x, row_affine::Rows::default());
        }
        match self.path {
            GridPath::Matrices => self.by_matrices(graph, x),
            GridPath::Transforms => self.by_transforms(graph, x),
        }
    }

    fn apply_transposed(&self, graph: &mut Graph, x: Tensor) -> Result<Tensor> {
        // Diffusion without direction is symmetric.
        self.apply(graph, x)
    }

    fn parameter_gradient(&self) -> ParameterGradient {
        ParameterGradient::Declared("d/dt exp(−tL) x = −L exp(−tL) x")
    }
}
