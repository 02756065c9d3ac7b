//! Masks from sampled walks: the walk kernel as its authors draw it, and graph random features.
//!
//! Both are products of sparse matrices, M = Φ₁ Φ₂ᵀ: two sparse products a channel, whatever the graph. The walks come from counters, so
//! every backend has the same.

use super::{SparseRows, check_row};
use crate::error::{Error, Result};
use crate::graph::Graph;
use crate::mask::operator::{Exactness, MaskOperator, ParameterGradient, check};
use crate::tensor::Tensor;
use crate::topology::Network;
use crate::topology::kernel::Normalisation;
use crate::topology::walk::{Rows, Walker};

/// M = Φ₁ Φ₂ᵀ, or Φ₁ alone.
#[derive(Clone, Debug)]
pub struct SampledWalks {
    what: String,
    left: SparseRows,
    left_turned: SparseRows,
    /// None: M = Φ₁.
    right: Option<(SparseRows, SparseRows)>,
    signs: bool,
}

impl SampledWalks {
    /// The walk kernel of [`super::WalkKernel`] from `walks` walks a node: its error falls with 1/√walks (0.14 of the mask with the authors'
    /// 50 walks of 4 nodes).
    ///
    /// Errors: as [`Walker::features`]; `minmax`, whose least entries a sample does not know.
    pub fn kernel(
        network: &Network,
        walks: u32,
        nodes: u32,
        lambda: f64,
        normalisation: Normalisation,
        seed: u64,
    ) -> Result<Self> {
        let f = Walker::new(network, seed, 0)?.features(walks, nodes, lambda)?;
        let what = format!("kernel of {walks} walks of {nodes} nodes from each of {}", network.nodes());
        let row = |i: usize| f.starts[i] as usize..f.starts[i + 1] as usize;
        let scaled = |factor: &dyn Fn(usize) -> f64| {
            let mut rows = f.clone();
            for i in 0..network.nodes() {
                let factor = factor(i);
                row(i).for_each(|at| rows.values[at] *= factor);
            }
            rows
        };
        match normalisation {
            Normalisation::Raw => Self::product(what, &f, Some(&f)),
            Normalisation::Cosine => {
                let rows = scaled(&|i| 1.0 / row(i).map(|at| f.values[at].powi(2)).sum::<f64>().sqrt());
                Self::product(what, &rows, Some(&rows))
            }
            Normalisation::Diagonal => {
                let own =
                    |i: usize| row(i).find(|at| f.columns[*at] as usize == i).map_or(1.0, |at| f.values[at]);
                Self::product(what, &scaled(&|i| 1.0 / own(i)), None)
            }
            Normalisation::MinMax => Err(Error::value(
                "normalisation of a sampled walk kernel",
                "raw, cosine or diag",
                "minmax",
                "use the exact kernel: leave walks out",
            )),
        }
    }

    /// Graph random features: Φ₁ Φ₂ᵀ with the mean Σ_k a_k W^k, where a is `modulation` folded with itself (see
    /// [`modulation`](crate::topology::walk::modulation)) and W the network's weights. Two independent sets of walks make it unbiased. Source:
    /// Reid et al., arXiv 2310.04859.
    ///
    /// Errors: as [`Walker::random_features`].
    pub fn random_features(
        network: &Network,
        walks: u32,
        halt: f64,
        modulation: &[f64],
        seed: u64,
    ) -> Result<Self> {
        let set = |set| Walker::new(network, seed, set)?.random_features(walks, halt, modulation);
        let what = format!("random features of {walks} walks from each of {} nodes", network.nodes());
        Self::product(what, &set(0)?, Some(&set(1)?))
    }

    fn product(what: String, left: &Rows, right: Option<&Rows>) -> Result<Self> {
        let signs =
            [Some(left), right].into_iter().flatten().any(|rows| rows.values.iter().any(|x| *x < 0.0));
        let sparse = |rows: &Rows| {
            let values = rows.values.iter().map(|x| *x as f32).collect();
            SparseRows::new(rows.starts.clone(), rows.columns.clone(), values)
        };
        let both = |rows: &Rows| -> Result<_> {
            let plain = sparse(rows)?;
            let turned = plain.transposed()?;
            Ok((plain, turned))
        };
        let (left, left_turned) = both(left)?;
        Ok(Self { what, left, left_turned, right: right.map(both).transpose()?, signs })
    }

    /// Whether features have signs, so that weights of the mask may be negative.
    pub fn has_signs(&self) -> bool {
        self.signs
    }

    /// Entries that both products read.
    pub fn entries(&self) -> usize {
        self.left.columns.len() + self.right.as_ref().map_or(0, |(rows, _)| rows.columns.len())
    }

    /// Row `i` of M in f64.
    ///
    /// Errors: a row beyond the nodes.
    pub fn row(&self, i: u32) -> Result<Vec<f64>> {
        check_row(self.tokens(), i)?;
        let n = self.tokens() as usize;
        let entries = |rows: &SparseRows, i: usize| {
            let range = rows.starts[i] as usize..rows.starts[i + 1] as usize;
            range.map(|at| (rows.columns[at] as usize, f64::from(rows.weights[at]))).collect::<Vec<_>>()
        };
        let mut features = vec![0.0; n];
        for (k, value) in entries(&self.left, i as usize) {
            features[k] += value;
        }
        let Some((right, _)) = &self.right else { return Ok(features) };
        Ok((0..n).map(|j| entries(right, j).into_iter().map(|(k, x)| features[k] * x).sum()).collect())
    }
}

impl MaskOperator for SampledWalks {
    fn describe(&self) -> String {
        self.what.clone()
    }

    fn tokens(&self) -> u32 {
        (self.left.starts.len() - 1) as u32
    }

    fn heads(&self) -> u32 {
        1
    }

    /// A whole row for one weight: ask for [`Self::row`].
    fn weight(&self, _: u32, i: u32, j: u32) -> f64 {
        self.row(i).ok().and_then(|row| row.get(j as usize).copied()).unwrap_or(f64::NAN)
    }

    fn exactness(&self) -> Exactness {
        if self.signs { Exactness::Noise } else { Exactness::Relative }
    }

    fn flop(&self) -> f64 {
        2.0 * self.entries() as f64
    }

    fn apply(&self, graph: &mut Graph, x: Tensor) -> Result<Tensor> {
        check(self, x)?;
        let left = self.left.declare(graph)?;
        let inner = match &self.right {
            None => x,
            Some((_, turned)) => turned.declare(graph)?.times(graph, x, 1.0, None)?,
        };
        left.times(graph, inner, 1.0, None)
    }

    fn apply_transposed(&self, graph: &mut Graph, x: Tensor) -> Result<Tensor> {
        check(self, x)?;
        let inner = self.left_turned.declare(graph)?.times(graph, x, 1.0, None)?;
        match &self.right {
            None => Ok(inner),
            Some((right, _)) => right.declare(graph)?.times(graph, inner, 1.0, None),
        }
    }

    fn parameter_gradient(&self) -> ParameterGradient {
        ParameterGradient::Declared(
            "dΦ₁ = (dY Dᵀ) Φ₂ at the entries of Φ₁; the modulation by the walks' loads",
        )
    }

    fn dense(&self, _: u32) -> Vec<f64> {
        let n = self.tokens() as usize;
        (0..self.tokens()).flat_map(|i| self.row(i).unwrap_or_else(|_| vec![f64::NAN; n])).collect()
    }
}
