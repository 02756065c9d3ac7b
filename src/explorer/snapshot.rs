//! What the engine's thread found: one value that the window shows until the next one replaces it.

use super::networks::DiffusionSettings;
use super::settings::{Compute, Look};
use crate::backend::{DeviceInfo, Memory, Timings};
use crate::graph::Schedule;
use crate::kernels::mask::path::Plan;
use crate::topology::Network;
use crate::vision::grid::TokenGrid;
use crate::vision::palette::Palette;
use glam::UVec2;
use std::sync::Arc;
use std::time::Duration;

/// What the views on screen ask for beyond the rows of the clicked query. Nothing else is computed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Needs {
    /// A picture per head.
    pub heads: bool,
    /// The exact row, and its difference from the approximate one.
    pub exact: bool,
    /// The residual of the landmark inverse after each step.
    pub trace: bool,
    /// Histograms of the distances between tokens.
    pub distances: bool,
    /// The same row by the f64 reference.
    pub parity: bool,
    /// Times of every pass.
    pub passes: bool,
    /// The row without the mask of relative positions, and which way masked attention would go.
    pub mask: bool,
    /// Masked attention of all tokens, for the rows that its noise guard flags.
    pub guard: bool,
    /// The row of a diffusion over the picture.
    pub diffusion: bool,
}

impl Needs {
    /// Either's.
    #[must_use]
    pub fn or(self, other: Self) -> Self {
        Self {
            heads: self.heads || other.heads,
            exact: self.exact || other.exact,
            trace: self.trace || other.trace,
            distances: self.distances || other.distances,
            parity: self.parity || other.parity,
            passes: self.passes || other.passes,
            mask: self.mask || other.mask,
            guard: self.guard || other.guard,
            diffusion: self.diffusion || other.diffusion,
        }
    }
}

/// Which picture a layer is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum LayerId {
    /// The row as computed, heads fused.
    Map,
    /// The row of one head.
    Head(usize),
    /// The exact row, heads fused.
    Exact,
    /// The row without the mask of relative positions, heads fused.
    Unmasked,
    /// Computed less exact, heads fused.
    Error,
    /// Computed less the f64 reference of the same computation, heads fused.
    Parity,
}

/// A picture of one pixel per token that lies in a texture of the window's device.
#[derive(Clone, Debug)]
pub struct Layer {
    /// Which.
    pub id: LayerId,
    /// Pixels, `rgba8unorm`, display bytes.
    pub texture: wgpu::Texture,
    /// Numbers at the ends of the colour map, in the units of the row (its logarithm to base 10 where `log`).
    pub range: (f32, f32),
    /// Colours.
    pub palette: Palette,
    /// Grey instead of `palette`.
    pub grey: bool,
    /// Whether `range` is of log₁₀ of magnitudes.
    pub log: bool,
}

/// Numbers of the clicked query's row.
#[derive(Clone, Debug, Default)]
pub struct Row {
    /// `[head][token]`.
    pub heads: Vec<Vec<f32>>,
    /// Heads fused as the look asks, `[token]`.
    pub fused: Vec<f32>,
}

/// State of one head's landmark inverse.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Inverse {
    /// ‖I − AX‖_F.
    pub residual: f32,
    /// Largest row sum of A.
    pub row_sum: f32,
    /// Steps.
    pub steps: u32,
    /// Code: 0 converged, 1 Cholesky, 2 Cholesky with 10 ε, 3 failed.
    pub code: u32,
}

/// The convergence of one head's inverse.
#[derive(Clone, Debug, PartialEq)]
pub struct Trace {
    /// ‖I − AX‖_F before the first step and after each.
    pub residuals: Vec<f64>,
    /// The a-priori bound on ‖I − AX‖₂ at the same places.
    pub bound: Vec<f64>,
    /// Smallest and largest eigenvalue of A.
    pub eigenvalues: (f64, f64),
    /// ε on the diagonal of A.
    pub epsilon: f64,
    /// Name of the device that measured the residuals.
    pub device: String,
}

impl Trace {
    /// Largest over smallest eigenvalue.
    pub fn condition(&self) -> f64 {
        self.eigenvalues.1 / self.eigenvalues.0
    }
}

/// Distances between tokens of one head.
#[derive(Clone, Debug, PartialEq)]
pub struct Distances {
    /// Histogram of ‖q − k‖₁ over sampled pairs: counts in equal bins from 0 to `l1_end`.
    pub l1: Vec<u32>,
    /// End of the last bin.
    pub l1_end: f64,
    /// Histogram of ‖q − k‖² over the same pairs: counts in equal bins from 0 to `l2_end`.
    pub l2: Vec<u32>,
    /// End of the last bin.
    pub l2_end: f64,
    /// λ of this head for the Laplacian kernel.
    pub lambda_laplacian: f64,
    /// λ of this head for the Gaussian kernel (mean kernel value as the Laplacian's).
    pub lambda_gaussian: f64,
    /// Pairs sampled.
    pub pairs: u64,
}

/// The row against the f64 reference.
#[derive(Clone, Debug, PartialEq)]
pub struct Parity {
    /// ‖device − reference‖₂ / ‖reference‖₂ over all heads.
    pub relative: f64,
    /// Largest |device − reference| over the row's largest magnitude.
    pub worst: f64,
    /// Token and head where that is.
    pub at: (usize, usize),
    /// Device less reference, `[head][token]`.
    pub difference: Vec<Vec<f32>>,
    /// Seconds that the reference took.
    pub seconds: f64,
}

/// Which way masked linear attention of all tokens goes under the mask of relative positions.
#[derive(Clone, Debug, PartialEq)]
pub enum MaskWay {
    /// The similarity is no feature map: rows are weighed entry by entry, and attention has no faster form.
    NoFeatures,
    /// Scans, in linear time.
    Scan,
    /// The f64 reference, which goes pair by pair.
    Reference,
    /// A table, by the cheaper of two ways.
    Table {
        /// Estimated costs of one head, and the cheaper way.
        plan: Plan,
        /// Tokens of a square grid from which on transforms cost less under this mask; `None` where they never do.
        crossover: Option<u64>,
        /// Features r.
        features: u32,
        /// Value columns e.
        columns: u32,
    },
}

/// What the noise guard of the Fourier way said.
#[derive(Clone, Debug, PartialEq)]
pub enum Guard {
    /// Rows that were computed again, and rows in all, of all heads.
    Measured {
        /// Flagged rows.
        flagged: u64,
        /// Rows in all.
        rows: u64,
        /// Whether the Fourier way was forced, where pairs are cheaper.
        forced: bool,
    },
    /// Not run, and why.
    NotMeasured(String),
}

/// The row of a diffusion over the tokens of the picture.
#[derive(Clone, Debug)]
pub struct Diffused {
    /// Tokens over the photograph.
    pub grid: TokenGrid,
    /// What it was computed with.
    pub settings: DiffusionSettings,
    /// Token of the query.
    pub query: u32,
    /// The tokens' network, with what was cut and linked.
    pub network: Arc<Network>,
    /// Tokens that are obstacles, `[token]`.
    pub blocked: Arc<Vec<bool>>,
    /// Weights of the query's row of exp(−tL), `[token]`.
    pub row: Vec<f32>,
    /// Products with the Laplacian, K.
    pub terms: usize,
    /// What the terms left out of the series add up to at most.
    pub rest: f64,
    /// Time on the device, in seconds.
    pub seconds: f64,
    /// Name of the device.
    pub device: String,
    /// Whether it went by the stencil of the grid, and not by sparse rows.
    pub stencil: bool,
    /// Names these numbers.
    pub number: u64,
}

/// The engine's answer to a request.
#[derive(Clone, Debug)]
pub struct Snapshot {
    /// Number of the request it answers.
    pub request: u64,
    /// What was computed.
    pub compute: Compute,
    /// How it is drawn.
    pub look: Look,
    /// Clicked pixel of the photograph.
    pub query: UVec2,
    /// Its token.
    pub query_token: usize,
    /// Tokens over the photograph.
    pub grid: TokenGrid,
    /// Where it was computed.
    pub device: DeviceInfo,
    /// Whether that is the window's own device.
    pub on_window_device: bool,
    /// Bandwidth per head.
    pub lambda: Vec<f32>,
    /// Number of landmarks; 0 on the exact road.
    pub landmarks: u32,
    /// Landmark cells: first and end row, first and end column of the token grid.
    pub landmark_cells: Vec<[u32; 4]>,
    /// Whether the rows are exact.
    pub exact: bool,
    /// The row as computed.
    pub row: Row,
    /// The exact row, where asked for and affordable.
    pub exact_row: Option<Row>,
    /// ‖row − exact‖ / ‖exact‖ of the fused rows.
    pub relative_error: Option<f64>,
    /// Why there is no exact row although one was asked for.
    pub no_exact: Option<String>,
    /// State of the inverse, per head.
    pub inverse: Vec<Inverse>,
    /// Convergence of the inverse, per head.
    pub trace: Option<Arc<Vec<Trace>>>,
    /// Distances, per head.
    pub distances: Option<Arc<Vec<Distances>>>,
    /// Parity with the reference.
    pub parity: Option<Arc<Parity>>,
    /// Why there is no parity although it was asked for.
    pub no_parity: Option<String>,
    /// The row without the mask of relative positions, where there is one and it was asked for.
    pub unmasked_row: Option<Row>,
    /// Weight of every key under the mask of relative positions, `[token]`; `None` where there is no mask.
    pub mask_weights: Option<Arc<Vec<f32>>>,
    /// Which way masked attention goes, where asked for and there is a mask.
    pub mask_way: Option<MaskWay>,
    /// The noise guard, where asked for and there is a mask.
    pub guard: Option<Arc<Guard>>,
    /// The diffusion, where asked for, or why there is none; it comes after the map.
    pub diffusion: Option<Arc<Result<Diffused, String>>>,
    /// Keys that the painted mask hides from the query; `None` where no mask is in force.
    pub hidden_keys: Option<usize>,
    /// Tokens that outshine all others in the fused row.
    pub sinks: Vec<usize>,
    /// What ran, and the times of every pass where asked for.
    pub schedules: Vec<Arc<Schedule>>,
    /// Times of the run: of every pass where asked for, and of the whole.
    pub timings: Timings,
    /// From request to answer.
    pub latency: Duration,
    /// What the programs hold.
    pub memory: Memory,
    /// What the user should know.
    pub notices: Vec<String>,
    /// Pictures.
    pub layers: Vec<Layer>,
}

/// Why there is no row where a mask hides all keys.
pub const SEES_NOTHING: &str = "the mask hides every token from the clicked one";

impl Snapshot {
    /// Whether masks hide every token from the clicked one: then there is no row and no picture of it.
    pub fn sees_nothing(&self) -> bool {
        self.hidden_keys.is_some_and(|hidden| hidden >= self.grid.tokens())
    }

    /// A picture by what it is.
    pub fn layer(&self, id: LayerId) -> Option<&Layer> {
        self.layers.iter().find(|layer| layer.id == id)
    }
}
