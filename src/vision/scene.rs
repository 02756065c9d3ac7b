//! A photograph's attention: the whole road from pixels to the rows of clicked queries, recorded as one graph.
//!
//! linear RGB → OKLab → patches → features per head (q = k) → landmarks → rows of the approximate attention matrix, and the
//! exact rows of the same queries beside them. Clicking elsewhere, another λ or another picture of the same size change
//! inputs only; nothing is compiled again.

use super::bandwidth::{DEFAULT_MEAN_KERNEL, MAX_LAMBDA_TOKENS, Metric, default_lambda};
use super::features::{FeatureBasis, FeatureError, FeatureOptions, sample_indices, token_place};
use super::grid::{GridError, TokenGrid};
use super::image::{ImageError, LinearImage, Photo};
use crate::attention::{Attention, Kernel, Masks, Normalisation};
use crate::backend::{Backend, Memory, Program, Timings};
use crate::error::Error;
use crate::graph::Graph;
use crate::kernels::attention::{exact_attention, exact_map, exact_row};
use crate::kernels::image::{oklab, patchify};
use crate::kernels::laplacian::pool_tokens;
use crate::kernels::linalg::matmul::{self, Inputs};
use crate::numbers::significant;
use crate::params::NoParams;
use crate::tensor::{DType, HostData, HostTensor, Shape, Tensor};
use crate::words::{counted, plural};
use glam::UVec2;

/// Tokens whose patches are held at once, at most (but never less than a row of the grid).
const STRIP_TOKENS: u64 = 65_536;

/// Pixels that are held in OKLab at once, at most: 48 MiB.
const STRIP_PIXELS: u64 = 4 << 20;

/// What can go wrong between a photograph and its map.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SceneError {
    /// The engine.
    #[error(transparent)]
    Engine(#[from] Error),
    /// The picture.
    #[error(transparent)]
    Image(#[from] ImageError),
    /// The token grid.
    #[error(transparent)]
    Grid(#[from] GridError),
    /// The features.
    #[error(transparent)]
    Feature(#[from] FeatureError),
}

/// Similarity of a map: the two kernels that have a Nyström form, and softmax for comparison.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum MapKernel {
    /// exp(−‖q − k‖₁/λ).
    #[default]
    Laplacian,
    /// exp(−‖q − k‖²/λ).
    Gaussian,
    /// softmax(f·f/√d) on the unscaled features f.
    Softmax,
}

/// How rows are computed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum MapPath {
    /// Exact where there are at most twice as many tokens as landmarks, Nyström otherwise.
    #[default]
    Auto,
    /// Always Nyström.
    Nystrom,
    /// Always exact.
    Exact,
}

/// Normalisation of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RowNormalisation {
    /// One of the Nyström forms; `None` also for exact rows.
    Map(Normalisation),
    /// Divided by the row's sum; exact rows only.
    Sum,
}

/// Tokens up to which `wgattn map` compares whitened rows with exact ones, whose statistics cost O(n² d).
pub const WHITENED_TWIN_TOKENS: usize = 16_384;

/// Everything that shapes a scene.
#[derive(Clone, Debug)]
pub struct SceneOptions {
    /// Side of a patch in working pixels.
    pub patch: u32,
    /// Distance of neighbouring tokens in working pixels.
    pub stride: u32,
    /// Most tokens; a larger picture is reduced first.
    pub max_tokens: usize,
    /// Heads.
    pub heads: usize,
    /// Features per head.
    pub head_dim: usize,
    /// Similarity.
    pub kernel: MapKernel,
    /// Nyström or exact.
    pub path: MapPath,
    /// Normalisation of the rows.
    pub normalisation: RowNormalisation,
    /// Bandwidth for all heads; `None` = per head such that the mean kernel value is 0.1.
    pub lambda: Option<f32>,
    /// Landmarks, ε, inverse. Its kernel and normalisation are set from the fields above.
    pub attention: Attention,
    /// Most tokens for which approximate rows under `row` and `col` get their exact twin beside them: its statistics meet
    /// every pair of tokens, O(n² d) per run. 0 = never. (Under `none` the twin costs O(n d) and is always there.)
    pub whitened_twin_tokens: usize,
}

impl Default for SceneOptions {
    fn default() -> Self {
        Self {
            patch: super::grid::DEFAULT_PATCH,
            stride: super::grid::DEFAULT_STRIDE,
            max_tokens: super::grid::DEFAULT_MAX_TOKENS,
            heads: 4,
            head_dim: 32,
            kernel: MapKernel::Laplacian,
            path: MapPath::Auto,
            normalisation: RowNormalisation::Map(Normalisation::None),
            lambda: None,
            attention: Attention::default(),
            whitened_twin_tokens: 0,
        }
    }
}

/// Why approximate rows have no exact ones beside them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoTwin {
    /// `cheap` and `softpp` whiten the approximation's own features: the exact kernel has no such form.
    NoExactForm,
    /// More tokens than [`SceneOptions::whitened_twin_tokens`].
    TooManyTokens {
        /// The limit.
        most: usize,
    },
}

/// A recorded scene.
#[derive(Debug)]
pub struct Scene {
    /// The token grid over the photograph.
    pub grid: TokenGrid,
    /// Bandwidth per head (1 for softmax, which has none).
    pub lambda: Vec<f32>,
    /// Landmarks in use; 0 on the exact path.
    pub landmarks: u32,
    /// Whether rows are exact.
    pub exact: bool,
    /// Normalisation of the rows.
    pub normalisation: RowNormalisation,
    /// Queries per run.
    pub queries: u32,
    /// What the user should know: a reduced picture, the path taken.
    pub notices: Vec<String>,
    /// Why approximate rows come without exact ones; `None` where they come with them, or are exact themselves.
    pub no_twin: Option<NoTwin>,
    graph: Graph,
    heads: u32,
    image: LinearImage,
    inputs: SceneInputs,
    row: Tensor,
    exact_row: Option<Tensor>,
    status: Option<Tensor>,
}

#[derive(Clone, Copy, Debug)]
struct SceneInputs {
    image: Tensor,
    lambda: Tensor,
    cells: Tensor,
}

/// Rows of all queries after a run.
#[derive(Clone, Debug)]
pub struct Rows {
    /// `[query][head][token]`.
    pub rows: Vec<Vec<Vec<f32>>>,
    /// The exact rows of the same normalisation where the map is approximate, unless [`Scene::no_twin`].
    pub exact: Option<Vec<Vec<Vec<f32>>>>,
    /// Per head: residual, largest row sum, steps, code; empty on the exact path.
    pub status: Vec<[f32; 4]>,
    /// Times of the run.
    pub timings: Timings,
    /// Memory the program holds.
    pub memory: Memory,
}

/// Mean over heads, or one head.
pub fn fuse(heads: &[Vec<f32>], head: Option<usize>) -> Vec<f32> {
    match head {
        Some(head) => heads.get(head).cloned().unwrap_or_default(),
        None => {
            let share = 1.0 / heads.len().max(1) as f32;
            let tokens = heads.first().map_or(0, Vec::len);
            (0..tokens).map(|t| heads.iter().map(|h| h[t]).sum::<f32>() * share).collect()
        }
    }
}

/// Divides by the largest magnitude, so that a map ends at ±1; a row of zeros stays.
pub fn scaled_to_one(map: &[f32]) -> Vec<f32> {
    let largest = map.iter().fold(0.0_f32, |m, x| m.max(x.abs()));
    let factor = if largest > 0.0 { largest } else { 1.0 };
    map.iter().map(|x| x / factor).collect()
}

/// ‖approximate − exact‖₂ / ‖exact‖₂.
pub fn relative_error(approximate: &[f32], exact: &[f32]) -> f64 {
    let square = |x: f32| f64::from(x) * f64::from(x);
    let gap: f64 = approximate.iter().zip(exact).map(|(a, b)| square(a - b)).sum();
    let size: f64 = exact.iter().map(|x| square(*x)).sum();
    if size > 0.0 { (gap / size).sqrt() } else { gap.sqrt() }
}

impl Scene {
    /// Reads the photograph's tokens and features and records the graph for `queries` clicked tokens at a time.
    ///
    /// Errors: options out of range, more landmarks than tokens, a normalisation the path does not have.
    pub fn new(photo: &Photo, options: &SceneOptions, queries: u32) -> Result<Self, SceneError> {
        check(options)?;
        let grid = TokenGrid::plan(photo.size(), options.patch, options.stride, options.max_tokens)?;
        let image = photo.working(grid.working_size())?;
        let fit =
            FeatureOptions { heads: options.heads, head_dim: options.head_dim, ..FeatureOptions::default() };
        let basis = FeatureBasis::fit(&image, &grid, &fit)?;
        let mut notices: Vec<String> = photo.notices().to_vec();
        notices.extend(grid.notice());

        let RowPlan { exact, landmarks, no_twin, notice } = plan_rows(options, &grid)?;
        notices.extend(notice);
        let lambda = bandwidths(options, &basis, &image, &grid)?;

        let recorded = record(&basis, &grid, &image, options, (exact, no_twin.is_none()), queries)?;
        Ok(Self {
            grid,
            lambda,
            landmarks,
            exact,
            normalisation: options.normalisation,
            queries,
            notices,
            no_twin,
            graph: recorded.graph,
            heads: narrow("heads", options.heads)?,
            image,
            inputs: recorded.inputs,
            row: recorded.row,
            exact_row: recorded.exact_row,
            status: recorded.status,
        })
    }

    /// The recorded graph.
    pub fn graph(&self) -> &Graph {
        &self.graph
    }

    /// Compiles the scene and gives it the picture.
    ///
    /// Errors: as [`Backend::compile`].
    pub fn compile(&self, backend: &dyn Backend) -> Result<Box<dyn Program>, SceneError> {
        let mut program = backend.compile(&self.graph)?;
        let shape = [self.image.rows() as u32, self.image.cols() as u32, 3];
        program.write(self.inputs.image, &HostTensor::f32(shape, self.image.samples().to_vec())?)?;
        program.write(self.inputs.lambda, &HostTensor::f32([self.heads], self.lambda.clone())?)?;
        Ok(program)
    }

    /// Gives a compiled program another picture of the same size, such as the next frame of a video. Features and λ stay
    /// those of the first one, so that maps of one pixel can be compared from frame to frame; nothing is compiled again.
    ///
    /// Errors: a picture of another size, a failing device.
    pub fn set_photo(&mut self, program: &mut dyn Program, photo: &Photo) -> Result<(), SceneError> {
        let (expected, got) = (self.grid.photo_size(), photo.size());
        if expected != got {
            let shown = |size: UVec2| format!("{}x{}", size.x, size.y);
            let remedy = "use pictures of one size, or make a new scene";
            return Err(Error::value("size of the next picture", shown(expected), shown(got), remedy).into());
        }
        self.image = photo.working(self.grid.working_size())?;
        let shape = [self.image.rows() as u32, self.image.cols() as u32, 3];
        program.write(self.inputs.image, &HostTensor::f32(shape, self.image.samples().to_vec())?)?;
        Ok(())
    }

    /// Rows of the attention matrix for photograph pixels, one per query of the scene.
    ///
    /// Errors: pixels outside the photograph, a number of them that is not the scene's, a failing device.
    pub fn rows(&self, program: &mut dyn Program, at: &[UVec2]) -> Result<Rows, SceneError> {
        if at.len() != self.queries as usize {
            let remedy = "make the scene for as many queries as you ask";
            return Err(Error::value("queries", self.queries.to_string(), at.len(), remedy).into());
        }
        let mut cells = Vec::new();
        for pixel in at {
            let token = narrow("token", self.grid.token_at(*pixel)?)?;
            cells.extend([0, 0, 1, token, token + 1]);
        }
        let cells = HostTensor::new(Shape::from([self.queries, 5]), HostData::U32(cells))?;
        program.write(self.inputs.cells, &cells)?;
        let timings = program.run()?;
        let rows = self.split(&program.read(self.row)?);
        let exact = match self.exact_row {
            Some(tensor) => Some(self.split(&program.read(tensor)?)),
            None => None,
        };
        let status = match self.status {
            Some(tensor) => {
                program.read(tensor)?.to_f32().chunks_exact(4).map(|c| [c[0], c[1], c[2], c[3]]).collect()
            }
            None => Vec::new(),
        };
        Ok(Rows { rows, exact, status, timings, memory: program.memory() })
    }

    /// `[1, h, n, r]` as `[query][head][token]`.
    fn split(&self, tensor: &HostTensor) -> Vec<Vec<Vec<f32>>> {
        let (data, tokens, queries) = (tensor.to_f32(), self.grid.tokens(), self.queries as usize);
        let head = |q: usize, h: usize| (0..tokens).map(|t| data[(h * tokens + t) * queries + q]).collect();
        (0..queries).map(|q| (0..self.heads as usize).map(|h| head(q, h)).collect()).collect()
    }
}

/// How the rows of a scene come to be.
#[derive(Clone, Debug)]
pub(crate) struct RowPlan {
    /// Whether they are exact.
    pub(crate) exact: bool,
    /// Number of landmarks; 0 for exact rows.
    pub(crate) landmarks: u32,
    /// Why there are no exact rows beside approximate ones.
    pub(crate) no_twin: Option<NoTwin>,
    /// What the user should know about the choice.
    pub(crate) notice: Option<String>,
}

/// Chooses between Nyström and exact rows, and whether approximate ones get exact ones beside them.
///
/// Errors: what does not go together, more landmarks than tokens.
pub(crate) fn plan_rows(options: &SceneOptions, grid: &TokenGrid) -> Result<RowPlan, SceneError> {
    let (rows, cols) = (narrow("grid rows", grid.rows())?, narrow("grid columns", grid.cols())?);
    let mut notice = None;
    let count = options.attention.landmarks.cells(rows, cols).map(|c| c.len());
    let exact = match (options.path, options.kernel) {
        (MapPath::Nystrom, MapKernel::Softmax) => {
            let remedy = "use --path exact, or the laplacian or gaussian kernel";
            return Err(Error::value("path of the softmax kernel", "exact", "nystrom", remedy).into());
        }
        (MapPath::Exact, _) | (MapPath::Auto, MapKernel::Softmax) => true,
        (MapPath::Nystrom, _) => false,
        (MapPath::Auto, _) => {
            // More landmarks than tokens is an error of the Nyström path; here it only means that there are few tokens.
            let wanted = options.attention.landmarks.wanted(rows * cols);
            let exact_form = !matches!(
                options.normalisation,
                RowNormalisation::Map(Normalisation::Cheap | Normalisation::Softpp)
            );
            let small = exact_form && (grid.tokens() as u64 <= 2 * wanted || grid.tokens() <= 2);
            if small {
                notice = Some(format!(
                    "{} {} at most twice the landmarks: the exact kernel is used instead of Nyström",
                    counted(grid.tokens(), "token", "tokens"),
                    plural(grid.tokens(), "is", "are")
                ));
            }
            small
        }
    };
    let landmarks = if exact { 0 } else { narrow("landmarks", count?)? };
    if let (true, RowNormalisation::Map(n)) = (exact, options.normalisation)
        && matches!(n, Normalisation::Cheap | Normalisation::Softpp)
    {
        let (expected, remedy) = ("none, sum, row or col", "use --path nystrom for cheap and softpp");
        return Err(Error::value(
            "normalisation of exact rows",
            expected,
            format!("{n:?}").to_lowercase(),
            remedy,
        )
        .into());
    }
    if let (false, RowNormalisation::Sum) = (exact, options.normalisation) {
        let remedy = "an approximate row can sum to 0 or less; use --path exact";
        return Err(Error::value(
            "normalisation of Nyström rows",
            "none, row, col, cheap or softpp",
            "sum",
            remedy,
        )
        .into());
    }
    if options.kernel == MapKernel::Softmax
        && let RowNormalisation::Map(n @ (Normalisation::Row | Normalisation::Col)) = options.normalisation
    {
        let remedy = "use the laplacian or gaussian kernel";
        let got = format!("{n:?}").to_lowercase();
        return Err(Error::value("normalisation of softmax rows", "none or sum", got, remedy).into());
    }
    let no_twin = match options.normalisation {
        _ if exact => None,
        RowNormalisation::Map(Normalisation::Cheap | Normalisation::Softpp) => Some(NoTwin::NoExactForm),
        RowNormalisation::Map(Normalisation::Row | Normalisation::Col)
            if grid.tokens() > options.whitened_twin_tokens =>
        {
            Some(NoTwin::TooManyTokens { most: options.whitened_twin_tokens })
        }
        _ => None,
    };
    Ok(RowPlan { exact, landmarks, no_twin, notice })
}

pub(crate) fn check(options: &SceneOptions) -> Result<(), Error> {
    if let Some(lambda) = options.lambda.filter(|l| !(l.is_finite() && *l > 0.0)) {
        return Err(Error::value(
            "lambda",
            "a finite number > 0",
            significant(f64::from(lambda), 7),
            "leave it out to have it chosen from the picture",
        ));
    }
    let epsilon = options.attention.epsilon;
    if !(epsilon.is_finite() && epsilon > 0.0) {
        return Err(Error::value(
            "epsilon",
            "a finite number > 0",
            significant(f64::from(epsilon), 7),
            "use 1e-3",
        ));
    }
    Ok(())
}

pub(crate) fn narrow(what: &str, x: usize) -> Result<u32, Error> {
    u32::try_from(x).map_err(|_| Error::value(what, "fewer than 2^32", x, "use a smaller picture"))
}

pub(crate) fn bandwidths(
    options: &SceneOptions,
    basis: &FeatureBasis,
    image: &LinearImage,
    grid: &TokenGrid,
) -> Result<Vec<f32>, SceneError> {
    if let Some(lambda) = options.lambda {
        return Ok(vec![lambda; options.heads]);
    }
    let metric = match options.kernel {
        MapKernel::Softmax => return Ok(vec![1.0; options.heads]),
        MapKernel::Laplacian => Metric::L1,
        MapKernel::Gaussian => Metric::SquaredL2,
    };
    let tokens = sample_indices(grid.tokens(), MAX_LAMBDA_TOKENS);
    let sample = basis.project_tokens(image, grid, &tokens)?;
    let shape = [options.heads, tokens.len(), options.head_dim];
    Ok(default_lambda(&sample, shape, metric, DEFAULT_MEAN_KERNEL)?.into_iter().map(|x| x as f32).collect())
}

struct Recorded {
    graph: Graph,
    inputs: SceneInputs,
    row: Tensor,
    exact_row: Option<Tensor>,
    status: Option<Tensor>,
}

fn record(
    basis: &FeatureBasis,
    grid: &TokenGrid,
    image: &LinearImage,
    options: &SceneOptions,
    (exact, exact_rows): (bool, bool),
    queries: u32,
) -> Result<Recorded, Error> {
    let mut graph = Graph::new("map");
    let shape = [narrow("rows", image.rows())?, narrow("columns", image.cols())?, 3];
    let pixels = graph.input("image", shape, DType::F32);
    let (heads, d) = (narrow("heads", options.heads)?, narrow("head_dim", options.head_dim)?);
    let lambda = graph.input("lambda", [heads], DType::F32);
    let cells = graph.input("query cells", [queries, 5], DType::U32);
    let inputs = SceneInputs { image: pixels, lambda, cells };

    let tokens = narrow("tokens", grid.tokens())?;
    let features = graph.transient("features", [1, heads, tokens, d], DType::F32);
    record_features(&mut graph, basis, grid, pixels, features)?;

    let ask = RowsAsked {
        queries: None,
        scale: None,
        features,
        lambda,
        cells,
        sides: (narrow("grid rows", grid.rows())?, narrow("grid columns", grid.cols())?),
        keep: None,
        exact,
        exact_rows,
    };
    let rows = record_rows(&mut graph, options, &ask)?;
    Ok(Recorded { graph, inputs, row: rows.row, exact_row: rows.exact_row, status: rows.status })
}

/// What rows of clicked tokens are made from.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RowsAsked {
    /// Features of keys `[1, h, n, d]`, and of queries where those are not given.
    pub(crate) features: Tensor,
    /// Features of queries `[1, h, n, d]`.
    pub(crate) queries: Option<Tensor>,
    /// Factor of the dot product; √d if not given, for features that carry d^−½ on both sides where f·f/√d is meant.
    pub(crate) scale: Option<f32>,
    /// Bandwidths `[h]`.
    pub(crate) lambda: Tensor,
    /// Cells of the clicked tokens `[r, 5]` on a grid of one row.
    pub(crate) cells: Tensor,
    /// Rows and columns of the token grid.
    pub(crate) sides: (u32, u32),
    /// Keys that may be seen, bytes `[1, 1, n]`.
    pub(crate) keep: Option<Tensor>,
    /// Whether the rows themselves are exact.
    pub(crate) exact: bool,
    /// Whether exact rows are wanted at all.
    pub(crate) exact_rows: bool,
}

/// Rows as recorded; all are outputs.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RecordedRows {
    /// `[1, h, n, r]`.
    pub(crate) row: Tensor,
    /// The exact rows beside approximate ones.
    pub(crate) exact_row: Option<Tensor>,
    /// State of the landmark inverse `[1, h, 4]`.
    pub(crate) status: Option<Tensor>,
}

/// Records the rows of clicked tokens, and their exact twins.
pub(crate) fn record_rows(
    graph: &mut Graph,
    options: &SceneOptions,
    ask: &RowsAsked,
) -> Result<RecordedRows, Error> {
    let RowsAsked { features, lambda, cells, sides, keep, exact, exact_rows, .. } = *ask;
    let all_queries = ask.queries.unwrap_or(features);
    let [heads, tokens, d] = [1, 2, 3].map(|axis| features.dim(axis));
    let queries = cells.dim(0);
    // The clicked tokens' features: "pooling" over cells of one token each, on a grid of one row.
    let clicked = graph.transient("queries", [1, heads, queries, d], DType::F32);
    let found = graph.transient("queries exist", [1, heads, queries], DType::U32);
    let params = pool_tokens::Params { grid_cols: tokens };
    graph.pass(
        &pool_tokens::SPEC,
        &params,
        &[Some(all_queries), None, Some(cells), None, Some(clicked), Some(found)],
    )?;

    let metric = match options.kernel {
        MapKernel::Softmax => 0,
        MapKernel::Laplacian => Kernel::Laplacian.metric(),
        MapKernel::Gaussian => Kernel::Gaussian.metric(),
    };
    // Queries and keys carry d^−½ each; softmax wants f·f/√d of the features without it, which is √d q·k.
    let scale = ask.scale.unwrap_or((d as f32).sqrt());
    let bandwidth = (metric != 0).then_some(lambda);
    let normalised = options.normalisation == RowNormalisation::Sum || metric == 0;
    let whitened_mode = match options.normalisation {
        RowNormalisation::Map(Normalisation::Row) => Some(0),
        RowNormalisation::Map(Normalisation::Col) => Some(1),
        _ => None,
    };
    let mut exact_row = None;
    if let (true, Some(mode)) = (exact_rows, whitened_mode) {
        if keep.is_some() {
            let remedy = "paint no mask, or use the Nyström path";
            return Err(Error::value("mask of exact whitened rows", "none", "a key mask", remedy));
        }
        let row = graph.transient("exact whitened row", [1, heads, tokens, queries], DType::F32);
        let attention = &options.attention;
        let params = exact_map::Params { zs: attention.zs.unwrap_or(0.0), ew: attention.ew, metric, mode };
        let args = [Some(clicked), Some(all_queries), Some(features), bandwidth, Some(row)];
        graph.pass(&exact_map::SPEC, &params, &args)?;
        graph.output(row)?;
        exact_row = Some(row);
    } else if exact_rows {
        let log_sum = if normalised {
            let ones = graph.constant(
                "ones",
                HostTensor::f32([1, heads, tokens, 1], vec![1.0; (heads * tokens) as usize])?,
            );
            let sums = graph.transient("row of ones", [1, heads, queries, 1], DType::F32);
            let log_sum = graph.transient("log sum", [1, heads, queries], DType::F32);
            let params = exact_attention::Params { scale, metric, ..Default::default() };
            let args = [
                Some(clicked),
                Some(features),
                Some(ones),
                bandwidth,
                keep,
                None,
                None,
                Some(sums),
                Some(log_sum),
            ];
            graph.pass(&exact_attention::SPEC, &params, &args)?;
            Some(log_sum)
        } else {
            None
        };
        let row = graph.transient("exact row", [1, heads, tokens, queries], DType::F32);
        let params = exact_row::Params { scale, metric };
        graph.pass(
            &exact_row::SPEC,
            &params,
            &[Some(clicked), Some(features), bandwidth, log_sum, keep, Some(row)],
        )?;
        graph.output(row)?;
        exact_row = Some(row);
    }
    if let (true, Some(row)) = (exact, exact_row) {
        return Ok(RecordedRows { row, exact_row: None, status: None });
    }
    let normalisation = match options.normalisation {
        RowNormalisation::Map(n) => n,
        RowNormalisation::Sum => Normalisation::None,
    };
    let kernel = if metric == 2 { Kernel::Gaussian } else { Kernel::Laplacian };
    let attention = Attention { kernel, normalisation, ..options.attention.clone() };
    let masks = Masks { keys: keep, queries: None };
    let map = attention.record_map(graph, clicked, (all_queries, features), lambda, sides, masks)?;
    graph.output(map.out)?;
    if let Some(status) = map.status {
        graph.output(status)?;
    }
    Ok(RecordedRows { row: map.out, exact_row, status: map.status })
}

/// features = patches W + places T, strip by strip of token rows, so that neither the picture in OKLab nor the patches ever
/// exist all at once where they are large.
pub(crate) fn record_features(
    graph: &mut Graph,
    basis: &FeatureBasis,
    grid: &TokenGrid,
    pixels: Tensor,
    features: Tensor,
) -> Result<(), Error> {
    let (heads, tokens, d) = (features.dim(1), features.dim(2), features.dim(3));
    let p = narrow("patch", basis.patch_len())?;
    let weights = graph.constant("W", HostTensor::f32([1, heads, p, d], basis.weights().to_vec())?);
    let place_weights =
        graph.constant("T", HostTensor::f32([1, heads, 3, d], basis.place_weights().to_vec())?);
    let place = |token: u32| {
        let at = token_place(grid, token as usize);
        [at.x as f32, at.y as f32, 1.0]
    };
    let (grid_rows, cols) = (narrow("grid rows", grid.rows())?, narrow("grid columns", grid.cols())?);
    let (height, width) = (pixels.dim(0), pixels.dim(1));
    let by_pixels = STRIP_PIXELS / u64::from(width.max(1)) / u64::from(grid.stride().max(1));
    let by_tokens = STRIP_TOKENS / u64::from(cols.max(1));
    let strip_rows =
        u32::try_from(by_pixels.min(by_tokens).clamp(1, u64::from(grid_rows.max(1)))).unwrap_or(1);
    let plain = matmul::Params::default();
    for first_row in (0..grid_rows).step_by(strip_rows as usize) {
        let end_row = (first_row + strip_rows).min(grid_rows);
        // Pixel rows that the strip's patches touch; where they pass the picture's edge, the edge repeats.
        let top = (first_row * grid.stride()).saturating_sub(grid.patch());
        let bottom = (end_row * grid.stride() + grid.patch()).min(height);
        let part = graph.slice(pixels, 0, top..bottom)?;
        let lab = graph.transient("OKLab", [bottom - top, width, 3], DType::F32);
        graph.pass(&oklab::SPEC, &NoParams {}, &[Some(part), Some(lab)])?;
        let (first, count) = (first_row * cols, (end_row - first_row) * cols);
        let patches = graph.transient("patches", [1, 1, count, p], DType::F32);
        let params = patchify::Params {
            patch_size: grid.patch(),
            stride: grid.stride(),
            grid_cols: cols,
            first_token: first,
            first_row: top,
        };
        graph.pass(&patchify::SPEC, &params, &[Some(lab), Some(patches)])?;
        let places: Vec<f32> = (first..first + count).flat_map(place).collect();
        let places = graph.constant("places", HostTensor::f32([1, 1, count, 3], places)?);
        // All heads at once where the strip is everything; a strip of one head is contiguous, of several it is not.
        let step = if count == tokens { heads.max(1) } else { 1 };
        for head in (0..heads).step_by(step as usize) {
            let w = graph.slice(weights, 1, head..head + step)?;
            let t = graph.slice(place_weights, 1, head..head + step)?;
            let whole = graph.slice(features, 1, head..head + step)?;
            let out = if count == tokens { whole } else { graph.slice(whole, 2, first..first + count)? };
            let terms = matmul::record(graph, "place terms", Inputs::new(places, t), plain)?;
            let inputs = Inputs { residual: Some(terms), ..Inputs::new(patches, w) };
            matmul::record_into(graph, inputs, plain, out)?;
        }
    }
    Ok(())
}
