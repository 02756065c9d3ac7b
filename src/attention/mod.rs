//! What users compose: a kernel, landmarks, a normalisation and masks, recorded as one attention.
//!
//! ```
//! use wgattn::attention::{Attention, Masks, Qkv};
//! use wgattn::graph::Graph;
//! use wgattn::tensor::DType;
//!
//! # fn main() -> wgattn::Result<()> {
//! let mut graph = Graph::new("attention");
//! let [q, k, v] = ["q", "k", "v"].map(|name| graph.input(name, [1, 4, 196, 32], DType::F32));
//! let lambda = graph.input("lambda", [4], DType::F32);
//! let attended = Attention::default().record(&mut graph, Qkv { q, k, v, lambda, grid: (14, 14) }, Masks::default())?;
//! graph.output(attended.out)?;
//! # Ok(())
//! # }
//! ```

mod exact;
mod features;
pub mod gkat;
mod landmarks;
mod linear;
mod masked;

use crate::error::{Error, Result};
use crate::graph::{Graph, PassId};
use crate::kernels::laplacian::{kernel_matrix, nystrom, nystrom_attention, nystrom_map};
use crate::tensor::{DType, Tensor};
pub use exact::{ExactAttended, ExactAttention, ExactNormalisation, Similarity, empty_rows};
pub use features::{FeatureMap, Published, Role};
pub use landmarks::Landmarks;
pub use linear::{LinearAttended, LinearAttention, ScanMask, Stepped, rows_without_keys};
pub use masked::{Mask, MaskedAttended, MaskedAttention};

/// The similarity of a query and a key.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Kernel {
    /// exp(−‖x − y‖₁/λ).
    #[default]
    Laplacian,
    /// exp(−‖x − y‖²/λ).
    Gaussian,
}

impl Kernel {
    /// Its number in kernel parameters.
    pub fn metric(self) -> u32 {
        match self {
            Self::Laplacian => kernel_matrix::LAPLACIAN,
            Self::Gaussian => kernel_matrix::GAUSSIAN,
        }
    }
}

/// What is done to the approximate kernel matrix before it multiplies the values.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Normalisation {
    /// Nothing.
    #[default]
    None,
    /// Centred over keys, whitened over queries.
    Row,
    /// Centred and whitened over queries.
    Col,
    /// The features whitened instead of the matrix.
    Cheap,
    /// Degrees of the landmark kernel.
    Softpp,
}

impl Normalisation {
    /// Its number in kernel parameters.
    pub fn number(self) -> u32 {
        self as u32
    }
}

/// Whether all queries meet all keys or only the landmarks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Path {
    /// Exact where there are at most twice as many keys as landmarks and the normalisation has an exact twin; the
    /// result says which was taken.
    Auto,
    /// Always through landmarks.
    #[default]
    Nystrom,
    /// Always exact.
    Exact,
}

/// Nyström attention with its settings.
#[derive(Clone, Debug)]
pub struct Attention {
    /// Nyström or exact.
    pub path: Path,
    /// Similarity.
    pub kernel: Kernel,
    /// Landmarks.
    pub landmarks: Landmarks,
    /// Landmarks of queries and keys by themselves instead of one shared set: a compatibility mode.
    pub two_sets: bool,
    /// Normalisation.
    pub normalisation: Normalisation,
    /// ε on the diagonal of the landmark matrix.
    pub epsilon: f32,
    /// ew under the inverse square roots.
    pub ew: f32,
    /// zs, divides the whitened map; `None` = number of keys.
    pub zs: Option<f32>,
    /// Mode of the inverse (see [`newton_schulz`](crate::kernels::linalg::newton_schulz)).
    pub inverse: u32,
    /// Steps of the inverse; `None` = from the a-priori bound.
    pub steps: Option<u32>,
}

impl Default for Attention {
    /// Laplacian, 7 × 7 strided landmarks, no normalisation, ε = 1e-3.
    fn default() -> Self {
        Self {
            path: Path::Nystrom,
            kernel: Kernel::Laplacian,
            landmarks: Landmarks::default(),
            two_sets: false,
            normalisation: Normalisation::None,
            epsilon: 1e-3,
            ew: 1e-5,
            zs: None,
            inverse: 0,
            steps: None,
        }
    }
}

impl Attention {
    /// As printed in the paper: `col`, zs = 1, ε = 0.01, means over a 7 × 7 grid.
    pub fn paper() -> Self {
        let landmarks = Landmarks::Adaptive { side: 7 };
        Self { landmarks, normalisation: Normalisation::Col, zs: Some(1.0), epsilon: 1e-2, ..Self::default() }
    }

    /// The setting that trained best in the method's measurements: `softpp` on strided landmarks.
    pub fn train() -> Self {
        Self { normalisation: Normalisation::Softpp, ..Self::default() }
    }

    /// The authors' released operator: X₀ = 1.8/(row sum of W)² P, ε = 0.01, 20 steps.
    pub fn official() -> Self {
        Self { epsilon: 1e-2, inverse: 1, steps: Some(20), ..Self::paper() }
    }

    /// The same with the start scaled by P's own row sum, which cannot diverge for shared landmarks.
    pub fn official_fixed() -> Self {
        Self { inverse: 2, ..Self::official() }
    }

    /// A preset by its name.
    ///
    /// Errors: [`Error::Value`] with the list of names.
    pub fn preset(name: &str) -> Result<Self> {
        Ok(match name {
            "default" => Self::default(),
            "paper" => Self::paper(),
            "train" => Self::train(),
            "official" => Self::official(),
            "official_fixed" => Self::official_fixed(),
            other => {
                let names = "default, paper, train, official, official_fixed";
                return Err(Error::value("preset", format!("one of {names}"), other, "choose one of them"));
            }
        })
    }

    /// The parameters its kernels take.
    pub fn params(&self) -> nystrom::Params {
        nystrom::Params {
            epsilon: self.epsilon,
            ew: self.ew,
            zs: self.zs.unwrap_or(0.0),
            metric: self.kernel.metric(),
            normalise: self.normalisation.number(),
            inverse: self.inverse,
            steps: self.steps.unwrap_or(0),
        }
    }
}

/// Queries, keys and values of attention over a grid of tokens.
#[derive(Clone, Copy, Debug)]
pub struct Qkv {
    /// `[b, h, n, d]`.
    pub q: Tensor,
    /// `[b, h, t, d]`.
    pub k: Tensor,
    /// `[b, h, t, e]`.
    pub v: Tensor,
    /// Bandwidth λ > 0 per head `[h]`, in the units of the distance.
    pub lambda: Tensor,
    /// Rows and columns of the grid the keys lie on; (1, t) for a sequence.
    pub grid: (u32, u32),
}

/// Which tokens exist: bytes, 0 = leave out.
#[derive(Clone, Copy, Debug, Default)]
pub struct Masks {
    /// `[b, h, t]`, either of b and h may be 1.
    pub keys: Option<Tensor>,
    /// `[b, h, n]`, either of b and h may be 1.
    pub queries: Option<Tensor>,
}

/// What attention gives.
#[derive(Clone, Copy, Debug)]
pub struct Attended {
    /// `[b, h, n, e]`.
    pub out: Tensor,
    /// Whether the exact kernel was taken; then there is no inverse and no landmark.
    pub exact: bool,
    /// State of the landmark inverse `[b, h, 4]`: residual, largest row sum, steps, code.
    pub status: Option<Tensor>,
    /// Landmarks `[b, h, m, d]`.
    pub landmarks: Option<Tensor>,
    /// The pass, for changing its parameters.
    pub pass: PassId,
}

/// The tensors of landmarks: (shared or of the keys, of the queries in two-set mode, which exist).
type LandmarkTensors = (Tensor, Option<Tensor>, Option<Tensor>);

impl Attention {
    fn landmark_tensors(
        &self,
        graph: &mut Graph,
        q: Tensor,
        k: Tensor,
        grid: (u32, u32),
        masks: Masks,
    ) -> Result<LandmarkTensors> {
        if self.two_sets && !nystrom::Params::inverts_any_matrix(self.inverse) {
            return Err(Error::value(
                "inverse mode of two landmark sets",
                "3 or 4, because A is not symmetric",
                self.inverse,
                "use one of them, or one shared set",
            ));
        }
        let (landmarks, valid) = self.landmarks.record(graph, k, Some(q), grid, masks.keys)?;
        let keep = masks.keys.map(|_| valid);
        let of_queries = match self.two_sets {
            true => Some(self.landmarks.record(graph, q, None, grid, masks.queries)?.0),
            false => None,
        };
        Ok((landmarks, of_queries, keep))
    }

    /// The exact attention to record instead, if the path asks for one.
    fn exact_twin(&self, k: Tensor, grid: (u32, u32), masks: Masks) -> Result<Option<ExactAttention>> {
        let few =
            || self.landmarks.cells(grid.0, grid.1).is_ok_and(|c| u64::from(k.dim(2)) <= 2 * c.len() as u64);
        let masked = masks.keys.is_some() || masks.queries.is_some();
        let normalisation = match self.normalisation {
            Normalisation::None => Some(ExactNormalisation::None),
            Normalisation::Row if !masked => Some(ExactNormalisation::Row),
            Normalisation::Col if !masked => Some(ExactNormalisation::Col),
            _ => None,
        };
        let wanted = match self.path {
            Path::Nystrom => false,
            Path::Exact => true,
            Path::Auto => normalisation.is_some() && few(),
        };
        match (wanted, normalisation) {
            (false, _) => Ok(None),
            (true, Some(normalisation)) => {
                let similarity = match self.kernel {
                    Kernel::Laplacian => Similarity::Laplacian,
                    Kernel::Gaussian => Similarity::Gaussian,
                };
                Ok(Some(ExactAttention { similarity, normalisation, ew: self.ew, zs: self.zs }))
            }
            (true, None) => Err(Error::value(
                "normalisation of exact attention",
                "none, or row or col without masks",
                format!("{:?}", self.normalisation).to_lowercase(),
                "cheap and softpp have no exact twin: use the Nyström path",
            )),
        }
    }

    /// Records the attention of all queries.
    ///
    /// Errors: shapes that do not fit; parameters out of range; more landmarks than tokens.
    #[track_caller]
    pub fn record(&self, graph: &mut Graph, qkv: Qkv, masks: Masks) -> Result<Attended> {
        let Qkv { q, k, v, lambda, grid } = qkv;
        if let Some(exact) = self.exact_twin(k, grid, masks)? {
            let attended = exact.record(graph, (q, k, v), Some(lambda), masks)?;
            return Ok(Attended {
                out: attended.out,
                exact: true,
                status: None,
                landmarks: None,
                pass: attended.pass,
            });
        }
        let (landmarks, of_queries, keep) = self.landmark_tensors(graph, q, k, grid, masks)?;
        let out = graph.transient("attended", [q.dim(0), q.dim(1), q.dim(2), v.dim(3)], DType::F32);
        let status = graph.transient("status", [q.dim(0), q.dim(1), 4], DType::F32);
        let args = [
            Some(q),
            Some(k),
            Some(v),
            Some(landmarks),
            of_queries,
            keep,
            Some(lambda),
            masks.keys,
            masks.queries,
            Some(out),
            Some(status),
        ];
        let pass = graph.pass(&nystrom_attention::SPEC, &self.params(), &args)?;
        Ok(Attended { out, exact: false, status: Some(status), landmarks: Some(landmarks), pass })
    }

    /// Records the rows of the attention matrix of chosen queries `[b, h, r, d]`: out is `[b, h, t, r]`.
    ///
    /// Errors: as [`Self::record`].
    #[track_caller]
    pub fn record_map(
        &self,
        graph: &mut Graph,
        queries: Tensor,
        qk: (Tensor, Tensor),
        lambda: Tensor,
        grid: (u32, u32),
        masks: Masks,
    ) -> Result<Attended> {
        let (q, k) = qk;
        let (landmarks, of_queries, keep) = self.landmark_tensors(graph, q, k, grid, masks)?;
        let out = graph.transient("map", [k.dim(0), k.dim(1), k.dim(2), queries.dim(2)], DType::F32);
        let status = graph.transient("status", [k.dim(0), k.dim(1), 4], DType::F32);
        let args = [
            Some(queries),
            Some(q),
            Some(k),
            Some(landmarks),
            of_queries,
            keep,
            Some(lambda),
            masks.keys,
            masks.queries,
            Some(out),
            Some(status),
        ];
        let pass = graph.pass(&nystrom_map::SPEC, &self.params(), &args)?;
        Ok(Attended { out, exact: false, status: Some(status), landmarks: Some(landmarks), pass })
    }
}
