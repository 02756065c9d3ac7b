//! Polynomials of P = D⁻¹A with weights of at least 0: walks of exactly p steps, and personalised PageRank.
//!
//! By Horner, y ← x aₗ + P y; every term is at least 0, so every entry of the result keeps its relative accuracy.

use super::{SparseRows, check_row, tokens};
use crate::error::{Error, Result};
use crate::graph::Graph;
use crate::mask::operator::{Exactness, MaskOperator, ParameterGradient, check};
use crate::tensor::Tensor;
use crate::topology::{Network, kernel};

/// Most steps of a walk.
const MOST_STEPS: u32 = 16_384;

#[derive(Clone, Copy, Debug, PartialEq)]
enum Kind {
    /// P^p.
    Power(u32),
    /// a Σ_{l ≤ terms} (1 − a)^l P^l.
    PageRank { restart: f64, terms: u32 },
}

/// P^p, or a Σ (1 − a)^l P^l.
#[derive(Clone, Debug)]
pub struct Steps {
    network: Network,
    kind: Kind,
    rows: SparseRows,
    turned: SparseRows,
}

impl Steps {
    /// The chance to be at j after p steps from i, in proportion to the edges' weights. A walker in a node without any edge stays there, so
    /// that the node's row is itself; one that edges led to where none leads on is lost, and its row sums to less than 1.
    ///
    /// Errors: more than 16 384 steps.
    pub fn power(network: Network, p: u32) -> Result<Self> {
        if p > MOST_STEPS {
            let remedy = "so long a walk forgets its start: use unmasked attention";
            return Err(Error::value("steps of a walk", format!("at most {MOST_STEPS}"), p, remedy));
        }
        Self::new(held(network)?, Kind::Power(p))
    }

    /// Personalised PageRank: the chance that a walker from i, who starts again with probability `restart` before every step, is at j; to
    /// `rtol`. Source: Page et al. 1999; method: topological masking, references `pagerank`.
    ///
    /// Errors: a restart outside of 0.001 to 1, `rtol` outside of 1e-15 to 1.
    pub fn pagerank(network: Network, restart: f64, rtol: f64) -> Result<Self> {
        if !(1e-3..=1.0).contains(&restart) {
            return Err(Error::value("restart of PageRank", "0.001 to 1", restart, "0.15 is usual"));
        }
        if !(1e-15..1.0).contains(&rtol) {
            return Err(Error::value(
                "rtol of PageRank",
                "1e-15 to less than 1",
                rtol,
                "single precision reaches 1e-7",
            ));
        }
        // What is left out has the weight (1 − a)^(terms + 1).
        let terms = if restart == 1.0 { 0.0 } else { (rtol.ln() / (-restart).ln_1p()).ceil() };
        Self::new(network, Kind::PageRank { restart, terms: terms as u32 })
    }

    fn new(network: Network, kind: Kind) -> Result<Self> {
        let (rows, turned) = (SparseRows::steps(&network, false)?, SparseRows::steps(&network, true)?);
        Ok(Self { network, kind, rows, turned })
    }

    /// Sparse products that a channel takes.
    pub fn products(&self) -> u32 {
        match self.kind {
            Kind::Power(p) => p,
            Kind::PageRank { terms, .. } => terms.max(1),
        }
    }

    /// Row `i` of M in f64.
    ///
    /// Errors: a row beyond the nodes.
    pub fn row(&self, i: u32) -> Result<Vec<f64>> {
        check_row(self.tokens(), i)?;
        let mut power = vec![0.0; self.network.nodes()];
        power[i as usize] = 1.0;
        let step = |x: &[f64]| kernel::step(&self.network, x, 1, true);
        match self.kind {
            Kind::Power(p) => {
                for _ in 0..p {
                    power = step(&power)?;
                }
                Ok(power)
            }
            Kind::PageRank { restart, .. } => {
                let mut sum: Vec<f64> = power.iter().map(|x| restart * x).collect();
                let (mut weight, terms) = (restart, (38.0 / restart).ceil() as u32);
                for _ in 0..terms {
                    power = step(&power)?;
                    weight *= 1.0 - restart;
                    sum.iter_mut().zip(&power).for_each(|(s, p)| *s += weight * p);
                }
                Ok(sum)
            }
        }
    }

    fn record(&self, graph: &mut Graph, x: Tensor, rows: &SparseRows) -> Result<Tensor> {
        check(self, x)?;
        let rows = rows.declare(graph)?;
        let mut y = x;
        match self.kind {
            // No step leaves everything where it is; a pass all the same, as the result is a tensor of its own.
            Kind::Power(0) => y = rows.times(graph, x, 0.0, Some((x, 1.0)))?,
            Kind::Power(p) => {
                for _ in 0..p {
                    y = rows.times(graph, y, 1.0, None)?;
                }
            }
            Kind::PageRank { restart, terms } => {
                // The first product brings the factor of the innermost term.
                for l in 0..terms.max(1) {
                    let alpha = (1.0 - restart) * if l == 0 { restart } else { 1.0 };
                    y = rows.times(graph, y, alpha, Some((x, restart)))?;
                }
            }
        }
        Ok(y)
    }
}

/// The network with a loop at every node that no edge leads from or to.
fn held(network: Network) -> Result<Network> {
    let mut lone = network.starts().windows(2).map(|w| w[0] == w[1]).collect::<Vec<bool>>();
    network.columns().iter().for_each(|j| lone[*j as usize] = false);
    if !lone.contains(&true) {
        return Ok(network);
    }
    let loops = (0..tokens(&network)).filter(|i| lone[*i as usize]).map(|i| (i, i, 1.0));
    let edges: Vec<_> = network.edges().chain(loops).collect();
    Ok(Network::directed_weighted(network.nodes(), &edges)?.with_offsets(network.offsets().to_vec()))
}

impl MaskOperator for Steps {
    fn describe(&self) -> String {
        let n = self.network.nodes();
        match self.kind {
            Kind::Power(p) => format!("walks of {p} steps on {n} nodes"),
            Kind::PageRank { restart, terms } => {
                format!(
                    "PageRank with restart {}, {terms} terms on {n} nodes",
                    crate::numbers::Short(restart)
                )
            }
        }
    }

    fn tokens(&self) -> u32 {
        tokens(&self.network)
    }

    fn heads(&self) -> u32 {
        1
    }

    /// As many sparse products as the mask has, for one weight: ask for [`Self::row`].
    fn weight(&self, _: u32, i: u32, j: u32) -> f64 {
        self.row(i).ok().and_then(|row| row.get(j as usize).copied()).unwrap_or(f64::NAN)
    }

    fn exactness(&self) -> Exactness {
        Exactness::Relative
    }

    fn flop(&self) -> f64 {
        f64::from(self.products()) * (2.0 * self.network.entries() as f64 + 2.0 * self.network.nodes() as f64)
    }

    fn apply(&self, graph: &mut Graph, x: Tensor) -> Result<Tensor> {
        self.record(graph, x, &self.rows)
    }

    fn apply_transposed(&self, graph: &mut Graph, x: Tensor) -> Result<Tensor> {
        self.record(graph, x, &self.turned)
    }

    fn parameter_gradient(&self) -> ParameterGradient {
        match self.kind {
            Kind::Power(_) => ParameterGradient::None,
            Kind::PageRank { .. } => {
                ParameterGradient::Declared("dM/da = Σ_l d(a(1 − a)^l)/da P^l, by Horner")
            }
        }
    }

    fn dense(&self, _: u32) -> Vec<f64> {
        let rows = (0..self.tokens()).map(|i| self.row(i));
        let n = self.network.nodes();
        rows.flat_map(|row| row.unwrap_or_else(|_| vec![f64::NAN; n])).collect()
    }
}
