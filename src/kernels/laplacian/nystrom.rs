//! What Nyström attention and Nyström maps share: features, the landmark inverse, and the statistics of the normalised
//! map, recorded for one slice of heads.
//!
//! With C = k(q, L), K̂ = k(k, L), A = k(L, L) + ε I and X ≈ A⁻¹ the approximate kernel matrix is Ĝ = C X K̂ᵀ, which is
//! never formed (method: linear form of the injective map).

use crate::error::{Error, Result};
use crate::graph::{Expansion, Graph};
use crate::kernel::KernelParams as _;
use crate::kernels::laplacian::kernel_matrix;
use crate::kernels::linalg::column_sums::{self, Columns};
use crate::kernels::linalg::matmul::{self, Inputs};
use crate::kernels::linalg::row_affine::{self, Rows};
use crate::kernels::linalg::{gram, mask_weights, newton_schulz, row_dot};
use crate::params;
use crate::tensor::Tensor;
use crate::numbers::significant;
use std::ops::Range;

/// Numbers of the normalisations in parameters.
pub mod normalise {
    /// Ĝ as it is.
    pub const NONE: u32 = 0;
    /// Centred over keys, whitened over queries: the paper's printed equation.
    pub const ROW: u32 = 1;
    /// Centred and whitened over queries for each key: the paper's practical estimator.
    pub const COL: u32 = 2;
    /// The features' columns whitened instead of Ĝ's.
    pub const CHEAP: u32 = 3;
    /// X scaled by the landmark kernel's degrees (SOFT++).
    pub const SOFTPP: u32 = 4;
}

params! {
    /// Parameters of Nyström attention and maps.
    pub struct Params {
        /// ε, added on the diagonal of the landmark matrix
        live epsilon: f32 = 1e-3,
        /// ew, added to variances before the inverse square root
        live ew: f32 = 1e-5,
        /// zs, divides the whitened map; 0 = number of keys
        live zs: f32 = 0.0,
        /// 1 = Laplacian, 2 = Gaussian
        fixed metric: u32 = kernel_matrix::LAPLACIAN,
        /// 0 none, 1 row, 2 col, 3 cheap, 4 softpp
        fixed normalise: u32 = normalise::NONE,
        /// mode of the inverse, see newton_schulz
        fixed inverse: u32 = 0,
        /// steps of the inverse, 0 = from the a-priori bound
        fixed steps: u32 = 0,
    }
}

impl Params {
    /// What the parameters must satisfy.
    ///
    /// Errors: the parameter, its range and its value.
    pub fn check(bytes: &[u8]) -> std::result::Result<(), String> {
        let p = Self::from_bytes(bytes);
        let positive = |name: &str, x: f32| match x.is_finite() && x > 0.0 {
            true => Ok(()),
            false => Err(format!("{name} is a positive number, got {}", significant(x.into(), 7))),
        };
        positive("epsilon", p.epsilon)?;
        positive("ew", p.ew)?;
        if !(p.zs.is_finite() && p.zs >= 0.0) {
            return Err(format!("zs is a positive number, or 0 for the number of keys, got {}", significant(p.zs.into(), 7)));
        }
        if p.inverse > newton_schulz::IDENTITY {
            return Err(format!("inverse is a mode of newton_schulz, 0 to 5, got {}", p.inverse));
        }
        if !(1..=2).contains(&p.metric) || p.normalise > normalise::SOFTPP {
            return Err(format!("metric is 1 or 2 and normalise 0 to 4, got {} and {}", p.metric, p.normalise));
        }
        Ok(())
    }

    /// Whether an inverse mode takes matrices that are not symmetric, as two landmark sets make them.
    pub fn inverts_any_matrix(inverse: u32) -> bool {
        (newton_schulz::NYSTROMFORMER..=newton_schulz::PLAIN).contains(&inverse)
    }

    /// zs with 0 replaced by the number of keys.
    pub fn scale(&self, keys: u32) -> f32 {
        if self.zs > 0.0 { self.zs } else { keys.max(1) as f32 }
    }

    fn matrix(&self) -> kernel_matrix::Params {
        kernel_matrix::Params { metric: self.metric, ..Default::default() }
    }
}

/// Inputs of one slice of heads.
#[derive(Clone, Copy, Debug)]
pub struct Slice {
    /// Queries `[b, h, n, d]`.
    pub q: Tensor,
    /// Keys `[b, h, t, d]`.
    pub k: Tensor,
    /// Landmarks `[b, h, m, d]`; those of the keys in two-set mode.
    pub landmarks: Tensor,
    /// Landmarks of the queries in two-set mode.
    pub landmarks_q: Option<Tensor>,
    /// Which landmarks exist.
    pub landmark_keep: Option<Tensor>,
    /// Bandwidth per head.
    pub lambda: Tensor,
    /// Which keys exist.
    pub key_mask: Option<Tensor>,
    /// Which queries exist.
    pub query_mask: Option<Tensor>,
}

/// The part of a tensor for heads `heads` of batch element `b`; dimensions that all share (1) are kept.
///
/// Errors: none for tensors that passed the port check.
pub fn slice_heads(graph: &mut Graph, tensor: Tensor, b: u32, heads: &Range<u32>) -> Result<Tensor> {
    let outer = if tensor.dim(0) == 1 { tensor } else { graph.slice(tensor, 0, b..b + 1)? };
    if outer.dim(1) == 1 && heads.end > 1 { Ok(outer) } else { graph.slice(outer, 1, heads.clone()) }
}

/// Slices of heads whose transients of `bytes_per_head` stay under a budget: (batch element, heads), or `None` if
/// everything fits at once.
pub fn slices(b: u32, h: u32, bytes_per_head: u64, budget: u64) -> Option<Vec<(u32, Range<u32>)>> {
    let fit = budget / bytes_per_head.max(1);
    if fit >= u64::from(b) * u64::from(h) {
        return None;
    }
    let step = u32::try_from(fit.clamp(1, u64::from(h.max(1)))).unwrap_or(1);
    let heads = move |b| (0..h).step_by(step as usize).map(move |from| (b, from..(from + step).min(h)));
    Some((0..b).flat_map(heads).collect())
}

/// The landmark matrix A and its inverse X.
#[derive(Clone, Copy, Debug)]
pub struct Inverse {
    /// A `[b, h, m, m]`.
    pub a: Tensor,
    /// X `[b, h, m, m]`.
    pub x: Tensor,
}

impl Slice {
    /// The shared ports of Nyström attention and maps, all heads.
    pub fn of(x: &Expansion<'_>) -> Self {
        Self {
            q: x.port("q"),
            k: x.port("k"),
            landmarks: x.port("landmarks"),
            landmarks_q: x.port_if("landmarks_q"),
            landmark_keep: x.port_if("landmark_keep"),
            lambda: x.port("lambda"),
            key_mask: x.port_if("key_mask"),
            query_mask: x.port_if("query_mask"),
        }
    }

    /// The part for heads `heads` of batch element `b`.
    ///
    /// Errors: none for tensors that passed the port check.
    pub fn of_heads(&self, graph: &mut Graph, b: u32, heads: &Range<u32>) -> Result<Self> {
        let lambda = graph.slice(self.lambda, 0, heads.clone())?;
        let mut cut = |tensor: Tensor| slice_heads(graph, tensor, b, heads);
        Ok(Self {
            q: cut(self.q)?,
            k: cut(self.k)?,
            landmarks: cut(self.landmarks)?,
            landmarks_q: self.landmarks_q.map(&mut cut).transpose()?,
            landmark_keep: self.landmark_keep.map(&mut cut).transpose()?,
            lambda,
            key_mask: self.key_mask.map(&mut cut).transpose()?,
            query_mask: self.query_mask.map(&mut cut).transpose()?,
        })
    }

    /// Records A and X; the state of the iteration goes to `status` `[b, h, 4]`.
    ///
    /// Errors: as recording passes.
    pub fn inverse(&self, graph: &mut Graph, p: &Params, status: Tensor) -> Result<Inverse> {
        if self.landmarks_q.is_some() && !Params::inverts_any_matrix(p.inverse) {
            let (what, expected) = ("inverse mode of two landmark sets", "3 or 4, because A is not symmetric");
            return Err(Error::value(what, expected, p.inverse, "use one of them, or one shared set"));
        }
        let square = kernel_matrix::Params { diagonal: p.epsilon, square: 1, ..p.matrix() };
        let (rows, keep) = (self.landmarks_q.unwrap_or(self.landmarks), self.landmark_keep);
        let inputs = kernel_matrix::Inputs { x: rows, y: self.landmarks, lambda: self.lambda, x_keep: None, y_keep: keep };
        let a = kernel_matrix::record(graph, "A", inputs, square)?;
        let x = graph.transient("X", a.shape(), a.dtype());
        let params = newton_schulz::Params { epsilon: p.epsilon, mode: p.inverse, steps: p.steps, ..Default::default() };
        graph.pass(&newton_schulz::SPEC, &params, &[Some(a), Some(x), Some(status)])?;
        Ok(Inverse { a, x })
    }

    /// Records C for some queries, masked ones 0.
    ///
    /// Errors: as recording passes.
    pub fn query_features(&self, graph: &mut Graph, p: &Params, queries: Tensor, keep: Option<Tensor>) -> Result<Tensor> {
        let (y, y_keep) = (self.landmarks, self.landmark_keep);
        let inputs = kernel_matrix::Inputs { x: queries, y, lambda: self.lambda, x_keep: keep, y_keep };
        kernel_matrix::record(graph, "C", inputs, p.matrix())
    }

    /// Records K̂, masked keys 0.
    ///
    /// Errors: as recording passes.
    pub fn key_features(&self, graph: &mut Graph, p: &Params) -> Result<Tensor> {
        let y = self.landmarks_q.unwrap_or(self.landmarks);
        let (x_keep, y_keep) = (self.key_mask, self.landmark_keep);
        let inputs = kernel_matrix::Inputs { x: self.k, y, lambda: self.lambda, x_keep, y_keep };
        kernel_matrix::record(graph, "K̂", inputs, p.matrix())
    }
}

/// A mean over kept tokens: weights and inverse count where there is a mask, 1/count where there is none.
#[derive(Clone, Copy, Debug)]
pub struct Mean {
    weights: Option<Tensor>,
    inverse: Option<Tensor>,
    share: f32,
}

impl Mean {
    /// The mean over `tokens` tokens of `[b, h, tokens, …]` under an optional mask.
    ///
    /// Errors: as recording passes.
    pub fn over(graph: &mut Graph, name: &str, mask: Option<Tensor>, of: Tensor) -> Result<Self> {
        let share = 1.0 / of.dim(2).max(1) as f32;
        Ok(match mask {
            None => Self { weights: None, inverse: None, share },
            Some(mask) => {
                let (weights, inverse) = mask_weights::record(graph, name, mask, of.dim(0), of.dim(1))?;
                Self { weights: Some(weights), inverse: Some(inverse), share: 1.0 }
            }
        })
    }

    /// Mean (or mean square about `shift`) of the rows of `x`: `[b, h, m]`.
    ///
    /// Errors: as recording passes.
    pub fn rows(&self, graph: &mut Graph, name: &str, x: Tensor, shift: Option<Tensor>, squared: bool) -> Result<Tensor> {
        column_sums::record(graph, name, x, Columns { shift, weight: self.weights, squared }, self.share)
    }

    /// Mean of aᵢ wᵢᵀ, for rows that are 0 where masked: `[b, h, m, p]`.
    ///
    /// Errors: as recording passes.
    pub fn products(&self, graph: &mut Graph, name: &str, a: Tensor, w: Tensor) -> Result<Tensor> {
        gram::record(graph, name, a, w, self.inverse, self.share)
    }
}

/// A vector per head `[b, h, m]` as a matrix of one row `[b, h, 1, m]`.
///
/// Errors: none for vectors.
pub fn as_row(graph: &mut Graph, vector: Tensor) -> Result<Tensor> {
    graph.reshape(vector, [vector.dim(0), vector.dim(1), 1, vector.dim(2)])
}

/// Whitening of keys: s = 1/√(var + ew) with var_j = k̂ⱼᵀ P k̂ⱼ, P = Xᵀ S X, S the mean of centred query features.
///
/// `keys` is K̂, or K̂ centred over keys.
///
/// Errors: as recording passes.
pub fn whitening(graph: &mut Graph, p: &Params, centred: Tensor, queries: &Mean, x: Tensor, keys: Tensor) -> Result<Tensor> {
    let s = queries.products(graph, "S", centred, centred)?;
    let plain = matmul::Params::default();
    let sx = matmul::record(graph, "S X", Inputs::new(s, x), plain)?;
    let xsx = matmul::record(graph, "P", Inputs::new(x, sx), matmul::Params { transpose_a: 1, ..plain })?;
    let y = matmul::record(graph, "K̂ P", Inputs::new(keys, xsx), plain)?;
    row_dot::record(graph, "s", y, Some(keys), row_dot::Params { offset: p.ew, inverse_sqrt: 1 })
}

/// Inverse square roots of the landmark kernel's degrees (SOFT++), without ε.
///
/// Errors: as recording passes.
pub fn degrees(graph: &mut Graph, p: &Params, a: Tensor) -> Result<Tensor> {
    row_dot::record(graph, "g", a, None, row_dot::Params { offset: -p.epsilon, inverse_sqrt: 1 })
}

/// Rows of `x` times `scale`.
///
/// Errors: as recording passes.
pub fn scaled(graph: &mut Graph, name: &str, x: Tensor, scale: Tensor) -> Result<Tensor> {
    row_affine::record(graph, name, x, Rows { scale: Some(scale), ..Rows::default() })
}

/// Rows of `x` less `shift`, masked rows 0.
///
/// Errors: as recording passes.
pub fn centred(graph: &mut Graph, name: &str, x: Tensor, shift: Tensor, keep: Option<Tensor>) -> Result<Tensor> {
    row_affine::record(graph, name, x, Rows { shift: Some(shift), scale: None, keep })
}
