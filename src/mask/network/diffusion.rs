//! Diffusion: M = exp(−tL), what heat of one unit in a node leaves in every other after the time t, and exp(tA), walks of all lengths.
//!
//! The series is that of [`crate::topology::chebyshev`], with one bound for the whole network: a component with a smaller bound takes
//! the same terms and loses nothing, because exp(−tL) is of size 1 in all of them. exp(tA) is not; it is computed as exp(−t(λ − A)) with each
//! component's own λ on the diagonal, which is of size 1 again and differs by a factor per component, which rows that are divided by
//! their sums do not show (method: addendum 1).

use super::{check_row, tokens};
use crate::error::{Error, Result};
use crate::graph::Graph;
use crate::kernels::graph::chebyshev;
use crate::kernels::graph::csr;
use crate::kernels::graph::stencil_step::{self, SLOTS};
use crate::kernels::graph::steps::MOST_TERMS;
use crate::mask::operator::{Exactness, MaskOperator, ParameterGradient, check};
use crate::numbers::Short;
use crate::tensor::{DType, HostData, HostTensor, Tensor};
use crate::topology::build::Reach;
use crate::topology::chebyshev::{Series, coefficients};
use crate::topology::spectrum::plain_degrees;
use crate::topology::{Laplacian, Network};

/// Which exponential.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Kind {
    Heat(Laplacian),
    Growth,
}

/// exp(−tL), or exp(tA) up to a factor per component.
#[derive(Clone, Debug)]
pub struct Diffusion {
    network: Network,
    /// The network without loops, whose rows the kernels walk.
    plain: Network,
    kind: Kind,
    t: f64,
    /// Half the width of the spectrum: exp(a (S − 1)) with a = t · pace.
    pace: f64,
    coefficients: Vec<f64>,
    /// Weights of S beside the diagonal, entry by entry, and those of its transpose if they differ.
    edges: Vec<f32>,
    turned: Option<Vec<f32>>,
    diagonal: Vec<f32>,
    longest: u32,
    grid: Option<(u32, u32, Reach)>,
}

/// What a diffusion on a grid of tokens needs: see [`diffuse_on_grid`].
#[derive(Clone, Debug, PartialEq)]
pub struct GridArrays {
    /// `[rows, cols, 4 or 8]` weights of S, in the order of [`SLOTS`].
    pub weights: Vec<f32>,
    /// `[rows, cols]` diagonal of S.
    pub diagonal: Vec<f32>,
    /// `[k]` coefficients of the series.
    pub coefficients: Vec<f32>,
}

/// [`GridArrays`] in a graph.
#[derive(Clone, Copy, Debug)]
pub struct GridTensors {
    /// `[rows, cols, 4 or 8]`.
    pub weights: Tensor,
    /// `[rows, cols]`.
    pub diagonal: Tensor,
    /// `[k]`.
    pub coefficients: Tensor,
}

impl Diffusion {
    /// exp(−tL) to `rtol` of the greatest entry of what it multiplies.
    ///
    /// Loops do not count; a lone node keeps its heat. Rows sum to 1 for the combinatorial and the random-walk Laplacian. Source: Kondor and
    /// Lafferty 2002; method: topological masking, 2.5a.
    ///
    /// Errors: a directed network; t that is negative or not finite; `rtol` outside of 1e-15 to 1; a series of more than 16 384 terms.
    pub fn heat(network: Network, laplacian: Laplacian, t: f64, rtol: f64) -> Result<Self> {
        check_time(t)?;
        let bound = laplacian.bounds(&network)?.into_iter().fold(0.0, f64::max);
        let degrees = plain_degrees(&network);
        // S = I − (2/λ) L.
        let entry = |i: u32, j: u32, w: f32| {
            let (w, di, dj) = (f64::from(w), degrees[i as usize], degrees[j as usize]);
            match laplacian {
                Laplacian::Combinatorial => 2.0 * w / bound,
                Laplacian::Symmetric => w / (di * dj).sqrt(),
                Laplacian::RandomWalk => w / di,
            }
        };
        let own = |d: &f64| match laplacian {
            _ if *d == 0.0 => 1.0,
            Laplacian::Combinatorial => 1.0 - 2.0 * d / bound,
            Laplacian::Symmetric | Laplacian::RandomWalk => 0.0,
        };
        let diagonal = degrees.iter().map(own).collect();
        Self::new(network, Kind::Heat(laplacian), (t, 0.5 * bound), rtol, entry, diagonal)
    }

    /// exp(t(A − λ)), where λ bounds the eigenvalues of each component: walks of all lengths, weighted by tᵏ/k!. Loops count.
    ///
    /// Errors: as [`Self::heat`].
    pub fn growth(network: Network, t: f64, rtol: f64) -> Result<Self> {
        let series = Series::growth(&network, t, rtol)?;
        let most = series.bounds.iter().copied().fold(0.0, f64::max);
        // S = I − (λ − A)/most, whose eigenvalues are −1 to 1.
        let own = |i: u32| match series.bounds[series.class_of[i as usize] as usize] {
            bound if most > 0.0 => 1.0 - (bound - f64::from(network.between(i, i))) / most,
            _ => 1.0,
        };
        let diagonal = (0..tokens(&network)).map(own).collect();
        Self::new(network, Kind::Growth, (t, most), rtol, |_, _, w| f64::from(w) / most, diagonal)
    }

    fn new(
        network: Network,
        kind: Kind,
        (t, pace): (f64, f64),
        rtol: f64,
        entry: impl Fn(u32, u32, f32) -> f64,
        diagonal: Vec<f64>,
    ) -> Result<Self> {
        let coefficients = series(t * pace, rtol)?;
        let plain = network.without_loops();
        let edges: Vec<f32> = plain.edges().map(|(i, j, w)| entry(i, j, w) as f32).collect();
        let turned = (kind == Kind::Heat(Laplacian::RandomWalk))
            .then(|| plain.edges().map(|(i, j, w)| entry(j, i, w) as f32).collect());
        let longest = csr::checked(tokens(&plain), plain.starts(), plain.columns(), Some(&edges))?;
        let diagonal = diagonal.into_iter().map(|x| x as f32).collect();
        Ok(Self { network, plain, kind, t, pace, coefficients, edges, turned, diagonal, longest, grid: None })
    }

    /// Another time and tolerance: S does not depend on them, so that nothing but the coefficients is made anew. After an error all is as it
    /// was.
    ///
    /// Errors: as [`Self::heat`].
    pub fn set_time(&mut self, t: f64, rtol: f64) -> Result<()> {
        check_time(t)?;
        self.coefficients = series(t * self.pace, rtol)?;
        self.t = t;
        Ok(())
    }

    /// The same diffusion by kernels that know the neighbours of a grid and read no lists.
    ///
    /// Errors: another number of nodes than rows × cols, an edge that leads elsewhere than to a neighbour.
    pub fn on_grid(mut self, rows: u32, cols: u32, reach: Reach) -> Result<Self> {
        if u64::from(rows) * u64::from(cols) != self.network.nodes() as u64 {
            let expected = format!("{} nodes", self.network.nodes());
            let got = format!("{rows} × {cols}");
            return Err(Error::value("grid of a diffusion", expected, got, "give the grid of its network"));
        }
        if let Some((i, j, _)) = self.plain.edges().find(|(i, j, _)| slot(cols, *i, *j, reach).is_none()) {
            let got = format!("an edge from node {i} to node {j}");
            let remedy = "leave on_grid out: sparse rows take any edge";
            return Err(Error::value("network of a grid", "edges between neighbours", got, remedy));
        }
        self.grid = Some((rows, cols, reach));
        Ok(self)
    }

    /// Degree K of the series: sparse products that a channel takes.
    pub fn degree(&self) -> usize {
        self.coefficients.len() - 1
    }

    /// What the left-out terms can add to a result, relative to the greatest entry of what is multiplied; at most the asked tolerance.
    pub fn bound(&self) -> f64 {
        // All terms sum to 1.
        (1.0 - self.coefficients.iter().sum::<f64>()).max(0.0)
    }

    /// The time.
    pub fn time(&self) -> f64 {
        self.t
    }

    /// The network.
    pub fn network(&self) -> &Network {
        &self.network
    }

    /// Row `i` of M in f64, by the series with each component's own bound, to 1e-14: the oracle. K sparse products.
    ///
    /// Errors: a row beyond the nodes.
    pub fn row(&self, i: u32) -> Result<Vec<f64>> {
        check_row(self.tokens(), i)?;
        let mut one = vec![0.0; self.network.nodes()];
        one[i as usize] = 1.0;
        self.rows(&one, 1, i as usize)
    }

    /// Rows `first` … of M, one per column, where the columns of `x` are the ones of those nodes.
    fn rows(&self, x: &[f64], channels: usize, first: usize) -> Result<Vec<f64>> {
        let Kind::Heat(laplacian) = self.kind else {
            return Series::growth(&self.network, self.t, ORACLE)?.apply_growth(&self.network, x, channels);
        };
        let series = Series::heat(&self.network, laplacian, self.t, ORACLE)?;
        let mut y = series.apply_heat(&self.network, laplacian, x, channels)?;
        if laplacian == Laplacian::RandomWalk {
            // dᵢ Mᵢⱼ = dⱼ Mⱼᵢ turns a column into a row.
            let degrees = plain_degrees(&self.network);
            for (at, y) in y.iter_mut().enumerate() {
                let (j, i) = (at / channels, first + at % channels);
                if degrees[i] > 0.0 {
                    *y *= degrees[j] / degrees[i];
                }
            }
        }
        Ok(y)
    }

    /// What [`diffuse_on_grid`] takes, for a live source whose graph stays while its weights change.
    ///
    /// Errors: a diffusion that is not [`Self::on_grid`].
    pub fn grid_arrays(&self) -> Result<GridArrays> {
        self.arrays(false)
    }

    fn arrays(&self, transposed: bool) -> Result<GridArrays> {
        let Some((_, cols, reach)) = self.grid else {
            let remedy = "say which grid its network is, with on_grid";
            return Err(Error::value(
                "arrays of a grid",
                "a diffusion on a grid",
                "one on sparse rows",
                remedy,
            ));
        };
        let e = neighbours(reach) as usize;
        let mut weights = vec![0.0; self.network.nodes() * e];
        for ((i, j, _), w) in self.plain.edges().zip(self.entries(transposed)) {
            if let Some(slot) = slot(cols, i, j, reach) {
                weights[i as usize * e + slot] = *w;
            }
        }
        Ok(GridArrays { weights, diagonal: self.diagonal.clone(), coefficients: self.single() })
    }

    fn entries(&self, transposed: bool) -> &[f32] {
        self.turned.as_deref().filter(|_| transposed).unwrap_or(&self.edges)
    }

    fn single(&self) -> Vec<f32> {
        self.coefficients.iter().map(|c| *c as f32).collect()
    }

    fn record(&self, graph: &mut Graph, x: Tensor, transposed: bool) -> Result<Tensor> {
        check(self, x)?;
        if let Some((rows, cols, reach)) = self.grid {
            let arrays = self.arrays(transposed)?;
            let shape = [rows, cols, neighbours(reach)];
            let terms = arrays.coefficients.len() as u32;
            let tensors = GridTensors {
                weights: graph.constant("weights of neighbours", HostTensor::f32(shape, arrays.weights)?),
                diagonal: graph.constant("diagonal", HostTensor::f32([rows, cols], arrays.diagonal)?),
                coefficients: graph.constant("coefficients", HostTensor::f32([terms], arrays.coefficients)?),
            };
            return diffuse_on_grid(graph, x, &tensors);
        }
        let words = |list: &[u32]| HostTensor::new([list.len() as u32], HostData::U32(list.to_vec()));
        let starts = graph.constant("starts of rows", words(self.plain.starts())?);
        let columns = graph.constant("columns of rows", words(self.plain.columns())?);
        let all: Vec<f32> = self.entries(transposed).iter().chain(&self.diagonal).copied().collect();
        let weights = graph.constant("weights and diagonal", HostTensor::f32([all.len() as u32], all)?);
        let single = self.single();
        let coefficients = graph.constant("coefficients", HostTensor::f32([single.len() as u32], single)?);
        let out = graph.transient("diffused", x.shape(), DType::F32);
        graph.pass(
            &chebyshev::SPEC,
            &chebyshev::Params { longest: self.longest },
            &[Some(starts), Some(columns), Some(weights), Some(coefficients), Some(x), Some(out)],
        )?;
        Ok(out)
    }
}

impl MaskOperator for Diffusion {
    fn describe(&self) -> String {
        let kind = match self.kind {
            Kind::Heat(laplacian) => format!("exp(−tL), t = {}, {laplacian} Laplacian", Short(self.t)),
            Kind::Growth => format!("exp(tA), t = {}", Short(self.t)),
        };
        let way = if self.grid.is_some() { ", on a grid" } else { "" };
        format!("{kind}, {} terms on {} nodes{way}", self.degree(), self.network.nodes())
    }

    fn tokens(&self) -> u32 {
        tokens(&self.network)
    }

    fn heads(&self) -> u32 {
        1
    }

    /// K sparse products for one weight: ask for [`Self::row`].
    fn weight(&self, _: u32, i: u32, j: u32) -> f64 {
        self.row(i).ok().and_then(|row| row.get(j as usize).copied()).unwrap_or(f64::NAN)
    }

    fn exactness(&self) -> Exactness {
        Exactness::Noise
    }

    fn flop(&self) -> f64 {
        self.degree() as f64 * (2.0 * self.plain.entries() as f64 + 6.0 * self.plain.nodes() as f64)
    }

    fn apply(&self, graph: &mut Graph, x: Tensor) -> Result<Tensor> {
        self.record(graph, x, false)
    }

    fn apply_transposed(&self, graph: &mut Graph, x: Tensor) -> Result<Tensor> {
        self.record(graph, x, true)
    }

    fn parameter_gradient(&self) -> ParameterGradient {
        match self.kind {
            Kind::Heat(_) => ParameterGradient::Declared("d/dt exp(−tL) X = −L exp(−tL) X"),
            Kind::Growth => ParameterGradient::Declared("d/dt exp(tA) X = A exp(tA) X"),
        }
    }

    fn dense(&self, _: u32) -> Vec<f64> {
        let n = self.network.nodes();
        let ones: Vec<f64> = (0..n * n).map(|at| f64::from(u8::from(at % (n + 1) == 0))).collect();
        // Column i of the product is row i of M.
        let turned = self.rows(&ones, n, 0).unwrap_or_else(|_| vec![f64::NAN; n * n]);
        (0..n * n).map(|at| turned[at % n * n + at / n]).collect()
    }
}

/// Records Σ c_k T_k(S) x for `x` `[b, h, rows · cols, c]` on a grid, S and c from [`GridArrays`].
///
/// Errors: another number of nodes than rows × cols.
pub fn diffuse_on_grid(graph: &mut Graph, x: Tensor, grid: &GridTensors) -> Result<Tensor> {
    let [rows, cols, neighbours] = [0, 1, 2].map(|axis| grid.weights.dim(axis));
    let [b, h, c] = [0, 1, 3].map(|axis| x.dim(axis));
    let terms = grid.coefficients.dim(0);
    let shape = [b, h, rows, cols, c];
    let (mut cur, mut prev, mut sum) = (graph.reshape(x, shape)?, None, None);
    for term in terms.min(2) - 1..terms {
        let last = term + 1 == terms;
        let next = (!last).then(|| graph.transient("term of the diffusion", shape, DType::F32));
        let out = graph.transient("sum of terms", shape, DType::F32);
        let params = stencil_step::Params { term, neighbours, ..stencil_step::Params::default() };
        let args = [
            Some(cur),
            prev,
            sum,
            Some(grid.weights),
            Some(grid.diagonal),
            Some(grid.coefficients),
            next,
            Some(out),
        ];
        graph.pass(&stencil_step::SPEC, &params, &args)?;
        sum = Some(out);
        if let Some(next) = next {
            prev = Some(std::mem::replace(&mut cur, next));
        }
    }
    let sum = sum.ok_or_else(|| {
        Error::value("coefficients of a diffusion", "at least 1", terms, "make the series for its graph")
    })?;
    graph.reshape(sum, x.shape())
}

/// Tolerance of the oracle.
const ORACLE: f64 = 1e-14;

/// Coefficients of exp(a (S − 1)).
fn series(a: f64, rtol: f64) -> Result<Vec<f64>> {
    let coefficients = coefficients(a, rtol)?;
    if coefficients.len() > MOST_TERMS as usize {
        return Err(Error::value(
            "terms of a diffusion",
            format!("at most {MOST_TERMS}"),
            coefficients.len(),
            "use a shorter time, a larger rtol, or smaller weights",
        ));
    }
    Ok(coefficients)
}

fn check_time(t: f64) -> Result<()> {
    if t >= 0.0 && t.is_finite() {
        return Ok(());
    }
    Err(Error::value("t of a diffusion", "at least 0 and finite", t, "diffusion does not run backwards"))
}

const fn neighbours(reach: Reach) -> u32 {
    match reach {
        Reach::Sides => 4,
        Reach::Corners => 8,
    }
}

/// The slot in which node `j` lies from node `i`, on a grid of `cols` columns.
fn slot(cols: u32, i: u32, j: u32, reach: Reach) -> Option<usize> {
    let place = |node: u32| ((node / cols) as i32, (node % cols) as i32);
    let ((ri, ci), (rj, cj)) = (place(i), place(j));
    SLOTS[..neighbours(reach) as usize].iter().position(|(down, along)| (ri + down, ci + along) == (rj, cj))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::topology::build::small_world;

    #[test]
    fn another_time_is_as_if_it_had_been_the_first() {
        let network = small_world(30, 4, 0.2, 5).expect("a network");
        let heat = |t, rtol| Diffusion::heat(network.clone(), Laplacian::Symmetric, t, rtol).expect("heat");
        let growth = |t, rtol| Diffusion::growth(network.clone(), t, rtol).expect("growth");
        for (mut kept, anew) in [(heat(1.0, 1e-6), heat(7.5, 1e-3)), (growth(1.0, 1e-6), growth(7.5, 1e-3))] {
            let before = (kept.coefficients.clone(), kept.time());
            for (t, rtol) in [(-1.0, 1e-3), (f64::NAN, 1e-3), (1.0, 0.0), (1e12, 1e-3)] {
                assert!(kept.set_time(t, rtol).is_err(), "{t} {rtol}");
                assert_eq!((kept.coefficients.clone(), kept.time()), before, "all is as it was");
            }
            kept.set_time(7.5, 1e-3).expect("another time");
            assert_eq!((&kept.coefficients, kept.time()), (&anew.coefficients, anew.time()));
            assert_eq!(
                (kept.describe(), kept.row(3).expect("a row")),
                (anew.describe(), anew.row(3).expect("a row"))
            );
        }
    }
}
