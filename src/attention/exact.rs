//! Exact attention: every query meets every key, tile by tile, without the matrix. Baseline, oracle, and what few tokens
//! deserve.

use super::Masks;
use crate::error::{Error, Result};
use crate::graph::{Graph, PassId};
use crate::kernels::attention::{attention_merge, exact_attention, exact_attention_whitened};
use crate::tensor::{DType, HostTensor, Tensor};

/// The similarity of exact attention.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Similarity {
    /// e^(scale · q·k); scale is d^−½ in the usual softmax attention.
    DotProduct {
        /// Factor of the dot product.
        scale: f32,
    },
    /// e^(−‖q − k‖₁/λ).
    Laplacian,
    /// e^(−‖q − k‖²/λ).
    Gaussian,
}

/// What exact weights are divided by.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ExactNormalisation {
    /// The row's sum, as softmax does.
    #[default]
    Sum,
    /// Nothing.
    None,
    /// Centred over keys, whitened over queries; distance kernels only.
    Row,
    /// Centred and whitened over queries; distance kernels only.
    Col,
}

/// Exact attention with its settings.
#[derive(Clone, Copy, Debug)]
pub struct ExactAttention {
    /// Similarity.
    pub similarity: Similarity,
    /// Normalisation.
    pub normalisation: ExactNormalisation,
    /// ew under the inverse square roots of `row` and `col`.
    pub ew: f32,
    /// zs, divides the whitened map; `None` = number of keys.
    pub zs: Option<f32>,
}

/// What exact attention gives.
#[derive(Clone, Copy, Debug)]
pub struct ExactAttended {
    /// `[b, h, n, e]`; rows without any key are zero.
    pub out: Tensor,
    /// Logarithm of each row's sum `[b, h, n]`, for [`empty_rows`]; `row` and `col` have none.
    pub log_sum: Option<Tensor>,
    /// The pass, for changing its parameters.
    pub pass: PassId,
}

impl ExactAttention {
    /// Softmax attention of heads of width `d`.
    pub fn softmax(d: u32) -> Self {
        Self::of(Similarity::DotProduct { scale: 1.0 / (d.max(1) as f32).sqrt() })
    }

    /// Attention with a similarity, rows divided by their sums.
    pub fn of(similarity: Similarity) -> Self {
        Self { similarity, normalisation: ExactNormalisation::Sum, ew: 1e-5, zs: None }
    }

    /// Records attention of `q` `[b, h, n, d]` over `k` `[b, h, t, d]` and `v` `[b, h, t, e]`; `lambda` `[h]` for distance kernels.
    ///
    /// Errors: shapes that do not fit; masks with `row` or `col`, which have none; a dot product whitened.
    #[track_caller]
    pub fn record(
        &self,
        graph: &mut Graph,
        (q, k, v): (Tensor, Tensor, Tensor),
        lambda: Option<Tensor>,
        masks: Masks,
    ) -> Result<ExactAttended> {
        let (metric, scale) = match self.similarity {
            Similarity::DotProduct { scale } => (0, scale),
            Similarity::Laplacian => (1, 1.0),
            Similarity::Gaussian => (2, 1.0),
        };
        let out = graph.transient("attended", [q.dim(0), q.dim(1), q.dim(2), v.dim(3)], DType::F32);
        let mode = match self.normalisation {
            ExactNormalisation::Sum | ExactNormalisation::None => {
                let normalise = u32::from(self.normalisation == ExactNormalisation::None);
                let log_sum = graph.transient("log sum", [q.dim(0), q.dim(1), q.dim(2)], DType::F32);
                let params = exact_attention::Params { scale, metric, normalise };
                let (keys, queries) = (masks.keys, masks.queries);
                let args = [Some(q), Some(k), Some(v), lambda, keys, None, queries, Some(out), Some(log_sum)];
                let pass = graph.pass(&exact_attention::SPEC, &params, &args)?;
                return Ok(ExactAttended { out, log_sum: Some(log_sum), pass });
            }
            ExactNormalisation::Row => 0,
            ExactNormalisation::Col => 1,
        };
        if metric == 0 || masks.keys.is_some() || masks.queries.is_some() {
            return Err(Error::value(
                "exact attention with row or col normalisation",
                "a distance kernel without masks",
                match metric {
                    0 => "dot products",
                    _ => "masks",
                },
                "use sum or none",
            ));
        }
        let params =
            exact_attention_whitened::Params { zs: self.zs.unwrap_or(0.0), ew: self.ew, metric, mode };
        let args = [Some(q), Some(k), Some(v), lambda, Some(out)];
        let pass = graph.pass(&exact_attention_whitened::SPEC, &params, &args)?;
        Ok(ExactAttended { out, log_sum: None, pass })
    }
}

/// How many rows had no key at all, from the `log_sum` that was read back.
pub fn empty_rows(log_sum: &HostTensor) -> usize {
    log_sum.to_f32().iter().filter(|x| **x == attention_merge::EMPTY).count()
}
