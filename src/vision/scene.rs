//! A photograph's attention: the whole road from pixels to the rows of clicked queries, recorded as one graph.
//!
//! linear RGB → OKLab → patches → features per head (q = k) → landmarks → rows of the approximate attention matrix, and the
//! exact rows of the same queries beside them. Clicking elsewhere, another λ or another picture of the same size change
//! inputs only; nothing is compiled again.

mod position;
mod rows;

pub use position::PositionNoise;
#[cfg(feature = "explorer")]
pub(crate) use rows::record_mapped;
pub(crate) use rows::{MaskInputs, RecordedRows, RowPlan, RowsAsked, plan_rows, record_rows};

use super::bandwidth::{DEFAULT_MEAN_KERNEL, MAX_LAMBDA_TOKENS, Metric, default_lambda};
use super::colour::oklab as oklab_of;
use super::features::{FeatureBasis, FeatureError, FeatureOptions, sample_indices, token_place};
use super::grid::{GridError, TokenGrid};
use super::image::{ImageError, LinearImage, Photo};
use crate::attention::{Attention, FeatureMap, Normalisation};
use crate::backend::{Backend, Memory, Program, Timings};
use crate::error::Error;
use crate::graph::Graph;
use crate::kernels::image::{oklab, patchify};
use crate::kernels::linalg::matmul::{self, Inputs};
use crate::mask::MaskSpec;
use crate::mask::network::{GraphSpec, MadeMask, NetworkMask, Tokens};
use crate::numbers::significant;
use crate::params::NoParams;
use crate::position::spec::EncodingSpec;
use crate::tensor::{DType, HostData, HostTensor, Shape, Tensor};
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

/// Similarity of a map: the two kernels that have a Nyström form, softmax for comparison, and those of feature maps.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum MapKernel {
    /// exp(−‖q − k‖₁/λ).
    #[default]
    Laplacian,
    /// exp(−‖q − k‖²/λ).
    Gaussian,
    /// softmax(f·f/√d) on the unscaled features f.
    Softmax,
    /// φ(f)·φ(f) over its sum, on the unscaled features f: linear attention's rows.
    Feature(FeatureMap),
}

impl MapKernel {
    /// Whether it has a bandwidth λ.
    pub fn has_bandwidth(self) -> bool {
        matches!(self, Self::Laplacian | Self::Gaussian)
    }

    /// Whether its rows are made of logits: of softmax, or of features that stand for it.
    pub fn has_logits(self) -> bool {
        match self {
            Self::Softmax => true,
            Self::Feature(map) => map.approximates_softmax(),
            Self::Laplacian | Self::Gaussian => false,
        }
    }
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
    /// Mask of relative positions on the token grid; it multiplies the rows, which are divided by their sums after it.
    pub mask: MaskSpec,
    /// Mask on a graph of the tokens, in place of the one before or with it.
    pub network: Option<NetworkMask>,
    /// Code of relative positions on the token grid, which queries and keys go through before they meet a kernel of products.
    pub position: Option<EncodingSpec>,
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
            mask: MaskSpec::None,
            network: None,
            position: None,
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
    /// Similarity.
    pub kernel: MapKernel,
    /// The mask over the rows.
    pub mask: MaskSpec,
    /// Bandwidth per head (1 for kernels that have none).
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
    network: Option<OnNetwork>,
    position: Option<position::OnPosition>,
    inputs: SceneInputs,
    made: RecordedRows,
}

/// A mask on a graph, and whether the rows of clicked tokens are made.
#[derive(Clone, Debug)]
struct OnNetwork {
    mask: NetworkMask,
    made: MadeMask,
    weighed: Vec<UVec2>,
}

/// How rows of a mask on a graph came to be.
#[derive(Clone, Debug)]
pub struct Weighed {
    /// The mask in a line.
    pub described: String,
    /// The mask and what it stands on.
    pub made: MadeMask,
    /// Passes of the device.
    pub passes: usize,
    /// Seconds of the run, without compilation.
    pub seconds: f64,
    /// Device memory that the passes hold.
    pub memory: Memory,
    /// `[query][token]` the mask's own rows.
    pub rows: Vec<Vec<f32>>,
}

/// Rows `tokens` of a mask, by products with Mᵀ on the device.
///
/// Errors: tokens that are not there, a failing device.
pub fn mask_rows(backend: &dyn Backend, made: &MadeMask, tokens: &[u32]) -> Result<Weighed, Error> {
    weigh(backend, made, tokens, true)
}

/// The same without a time, in one run.
///
/// Errors: as [`mask_rows`].
pub fn mask_rows_untimed(
    backend: &dyn Backend,
    made: &MadeMask,
    tokens: &[u32],
) -> Result<Vec<Vec<f32>>, Error> {
    Ok(weigh(backend, made, tokens, false)?.rows)
}

fn weigh(backend: &dyn Backend, made: &MadeMask, tokens: &[u32], timed: bool) -> Result<Weighed, Error> {
    let (n, r) = (made.operator.tokens(), narrow("queries", tokens.len())?);
    let mut graph = Graph::new("mask rows");
    let ones = graph.input("clicked tokens", [1, 1, n, r], DType::F32);
    let out = made.operator.apply_transposed(&mut graph, ones)?;
    graph.output(out)?;
    let mut program = backend.compile(&graph)?;
    let mut numbers = vec![0.0; n as usize * tokens.len()];
    for (column, token) in tokens.iter().enumerate() {
        let Some(one) = numbers.get_mut(*token as usize * tokens.len() + column) else {
            let remedy = "tokens are counted from 0";
            return Err(Error::value("row of a mask", format!("a token below {n}"), token, remedy));
        };
        *one = 1.0;
    }
    program.write(ones, &HostTensor::f32([1, 1, n, r], numbers)?)?;
    // The first run compiles shaders.
    let mut timings = program.run()?;
    if timed {
        program.set_profiling(true);
        timings = program.run()?;
    }
    let passes = timings.steps.len();
    let seconds = match timings.steps.iter().map(|s| s.seconds).sum::<f64>() {
        sum if sum > 0.0 => sum,
        _ => timings.wall_seconds,
    };
    let data = program.read(out)?.to_f32();
    let row = |column: usize| data.iter().skip(column).step_by(tokens.len().max(1)).copied().collect();
    let rows = (0..tokens.len()).map(row).collect();
    let described = made.operator.describe();
    Ok(Weighed { described, made: made.clone(), passes, seconds, memory: program.memory(), rows })
}

/// Mean OKLab colour of each token's cell `[rows · cols, 3]`.
pub fn token_colours(image: &LinearImage, grid: &TokenGrid) -> Vec<f32> {
    let stride = grid.stride() as usize;
    let mut out = Vec::with_capacity(3 * grid.tokens());
    for (row, col) in (0..grid.rows()).flat_map(|r| (0..grid.cols()).map(move |c| (r, c))) {
        let (mut sum, mut count) = ([0.0_f64; 3], 0.0);
        for y in row * stride..((row + 1) * stride).min(image.rows()) {
            for x in col * stride..((col + 1) * stride).min(image.cols()) {
                let lab = oklab_of(image.pixel_clamped(y as i64, x as i64).map(f64::from));
                sum.iter_mut().zip(lab).for_each(|(s, c)| *s += c);
                count += 1.0;
            }
        }
        out.extend(sum.map(|s| if count > 0.0 { (s / count) as f32 } else { 0.0 }));
    }
    out
}

#[derive(Clone, Copy, Debug)]
struct SceneInputs {
    image: Tensor,
    lambda: Tensor,
    cells: Tensor,
    mask: Option<MaskInputs>,
}

/// Rows of all queries after a run.
#[derive(Clone, Debug)]
pub struct Rows {
    /// `[query][head][token]`.
    pub rows: Vec<Vec<Vec<f32>>>,
    /// The exact rows of the same normalisation and mask where the map is approximate, unless [`Scene::no_twin`].
    pub exact: Option<Vec<Vec<Vec<f32>>>>,
    /// The rows without the mask, where there is one.
    pub unmasked: Option<Vec<Vec<Vec<f32>>>>,
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

        let network = options.network.as_ref().map(|mask| on_network(mask, &image, &grid)).transpose()?;
        let position = options.position.as_ref();
        let position =
            position.map(|spec| position::OnPosition::of(spec, options, &grid, &basis)).transpose()?;
        let (position, note) = position.unzip();
        notices.extend(note.flatten());
        let recorded = record(&basis, &grid, &image, options, (exact, no_twin.is_none()), queries)?;
        Ok(Self {
            grid,
            kernel: options.kernel,
            mask: options.mask.clone(),
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
            network,
            position,
            inputs: recorded.inputs,
            made: recorded.made,
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
        if let Some(table) = self.inputs.mask.and_then(|mask| mask.table) {
            program.write(table, &mask_table(&self.mask, &self.grid)?)?;
        }
        Ok(program)
    }

    /// The mask on a graph, where there is one.
    pub fn network(&self) -> Option<&NetworkMask> {
        self.network.as_ref().map(|on| &on.mask)
    }

    /// Makes the rows of the mask on a graph for these pixels and gives them to a compiled program: before [`Self::rows`], for each picture
    /// and each click. `None` where there is no such mask.
    ///
    /// Errors: pixels outside the photograph, a failing device.
    pub fn weigh(
        &mut self,
        backend: &dyn Backend,
        program: &mut dyn Program,
        at: &[UVec2],
    ) -> Result<Option<Weighed>, SceneError> {
        let given = self.inputs.mask.and_then(|mask| mask.given);
        let (Some(on), Some(given)) = (&mut self.network, given) else { return Ok(None) };
        let tokens = at
            .iter()
            .map(|pixel| Ok(narrow("token", self.grid.token_at(*pixel)?)?))
            .collect::<Result<Vec<_>, SceneError>>()?;
        let weighed = mask_rows(backend, &on.made, &tokens)?;
        let n = self.grid.tokens();
        let data = (0..n).flat_map(|t| weighed.rows.iter().map(move |row| row[t])).collect();
        program.write(given, &HostTensor::f32(given.shape(), data)?)?;
        on.weighed = at.to_vec();
        Ok(Some(weighed))
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
        if let Some(on) = &self.network {
            self.network = Some(on_network(&on.mask, &self.image, &self.grid)?);
        }
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
        if self.network.as_ref().is_some_and(|on| on.weighed != at) {
            let remedy = "call Scene::weigh for these pixels first";
            return Err(Error::value(
                "rows of the mask on a graph",
                "rows of these pixels",
                "others",
                remedy,
            )
            .into());
        }
        let (mut cells, mut tokens) = (Vec::new(), Vec::new());
        for pixel in at {
            let token = narrow("token", self.grid.token_at(*pixel)?)?;
            cells.extend([0, 0, 1, token, token + 1]);
            tokens.push(token);
        }
        let cells = HostTensor::new(Shape::from([self.queries, 5]), HostData::U32(cells))?;
        program.write(self.inputs.cells, &cells)?;
        if let Some(mask) = self.inputs.mask {
            program.write(mask.tokens, &HostTensor::new([self.queries], HostData::U32(tokens))?)?;
        }
        let timings = program.run()?;
        let mut read = |tensor: Tensor| Ok::<_, Error>(self.split(&program.read(tensor)?));
        let rows = read(self.made.row)?;
        let exact = self.made.exact_row.map(&mut read).transpose()?;
        let unmasked = self.made.unmasked.map(&mut read).transpose()?;
        let status = match self.made.status {
            Some(tensor) => {
                program.read(tensor)?.to_f32().chunks_exact(4).map(|c| [c[0], c[1], c[2], c[3]]).collect()
            }
            None => Vec::new(),
        };
        Ok(Rows { rows, exact, unmasked, status, timings, memory: program.memory() })
    }

    /// `[1, h, n, r]` as `[query][head][token]`.
    fn split(&self, tensor: &HostTensor) -> Vec<Vec<Vec<f32>>> {
        let (data, tokens, queries) = (tensor.to_f32(), self.grid.tokens(), self.queries as usize);
        let head = |q: usize, h: usize| (0..tokens).map(|t| data[(h * tokens + t) * queries + q]).collect();
        (0..queries).map(|q| (0..self.heads as usize).map(|h| head(q, h)).collect()).collect()
    }
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
        MapKernel::Softmax | MapKernel::Feature(_) => return Ok(vec![1.0; options.heads]),
        MapKernel::Laplacian => Metric::L1,
        MapKernel::Gaussian => Metric::SquaredL2,
    };
    let tokens = sample_indices(grid.tokens(), MAX_LAMBDA_TOKENS);
    let sample = basis.project_tokens(image, grid, &tokens)?;
    let shape = [options.heads, tokens.len(), options.head_dim];
    Ok(default_lambda(&sample, shape, metric, DEFAULT_MEAN_KERNEL)?.into_iter().map(|x| x as f32).collect())
}

/// The mask on the graph of this picture's tokens.
fn on_network(mask: &NetworkMask, image: &LinearImage, grid: &TokenGrid) -> Result<OnNetwork, Error> {
    let colours = matches!(mask.graph, GraphSpec::Image { .. }).then(|| token_colours(image, grid));
    let tokens = Tokens { rows: grid.rows(), cols: grid.cols(), colours: colours.as_deref() };
    let made = mask.operator(&tokens)?;
    Ok(OnNetwork { mask: mask.clone(), made, weighed: Vec::new() })
}

struct Recorded {
    graph: Graph,
    inputs: SceneInputs,
    made: RecordedRows,
}

/// Inputs for a mask over rows of `queries` clicked tokens; `None` where nothing is masked.
pub(crate) fn mask_inputs(
    graph: &mut Graph,
    options: &SceneOptions,
    grid: &TokenGrid,
    queries: u32,
) -> Result<Option<MaskInputs>, Error> {
    let mask = &options.mask;
    if *mask == MaskSpec::None && options.network.is_none() {
        return Ok(None);
    }
    let table = match mask {
        MaskSpec::None => None,
        _ => Some(graph.input("mask table", mask_table(mask, grid)?.shape(), DType::F32)),
    };
    let tokens_of_grid = narrow("tokens", grid.tokens())?;
    let given = options.network.as_ref();
    let given = given.map(|_| graph.input("rows of the mask", [1, 1, tokens_of_grid, queries], DType::F32));
    let tokens = graph.input("query tokens", [queries], DType::U32);
    Ok(Some(MaskInputs { table, given, tokens }))
}

/// The mask's weights of relative positions, `[1, t]`.
pub(crate) fn mask_table(mask: &MaskSpec, grid: &TokenGrid) -> Result<HostTensor, Error> {
    mask.table(&[narrow("grid rows", grid.rows())?, narrow("grid columns", grid.cols())?])?.tensor()
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
    let mask = mask_inputs(&mut graph, options, grid, queries)?;
    let inputs = SceneInputs { image: pixels, lambda, cells, mask };

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
        mask,
        exact,
        exact_rows,
    };
    let made = record_rows(&mut graph, options, &ask)?;
    Ok(Recorded { graph, inputs, made })
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
