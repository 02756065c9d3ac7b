//! How the rows of clicked tokens come to be: which way, and the passes of it.
//!
//! A kernel gives bare rows: all pairs, through landmarks, or through a feature map. A mask multiplies them, entry by entry, and
//! where rows are divided by their sums they are divided again.

use super::{MapKernel, MapPath, NoTwin, RowNormalisation, SceneError, SceneOptions, narrow};
use crate::attention::{Attention, FeatureMap, Kernel, Masks, Normalisation, Role};
use crate::error::Error;
use crate::graph::Graph;
use crate::kernels::attention::{exact_attention, exact_map, exact_row};
use crate::kernels::feature::feature_map;
use crate::kernels::feature::segment_max::Rows;
use crate::kernels::laplacian::pool_tokens;
use crate::kernels::linalg::matmul;
use crate::kernels::mask::{relative, relative_map, weigh_rows};
use crate::mask::MaskSpec;
use crate::tensor::{DType, HostData, HostTensor, Tensor};
use crate::vision::grid::TokenGrid;
use crate::words::{counted, plural};

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

impl RowPlan {
    /// Exact rows.
    fn exact(notice: Option<String>) -> Self {
        Self { exact: true, landmarks: 0, no_twin: None, notice }
    }
}

/// Chooses how rows are computed, and whether approximate ones get exact ones beside them.
///
/// Errors: what does not go together, more landmarks than tokens.
pub(crate) fn plan_rows(options: &SceneOptions, grid: &TokenGrid) -> Result<RowPlan, SceneError> {
    check_mask(options)?;
    super::position::check_position(options)?;
    match options.kernel {
        MapKernel::Feature(map) => Ok(plan_features(options, map)?),
        MapKernel::Softmax => Ok(plan_softmax(options)?),
        MapKernel::Laplacian | MapKernel::Gaussian => plan_kernel(options, grid),
    }
}

/// Whether rows of this normalisation are numbers that a mask can weigh.
fn check_mask(options: &SceneOptions) -> Result<(), Error> {
    match options.normalisation {
        RowNormalisation::Map(n)
            if n != Normalisation::None && (options.mask != MaskSpec::None || options.network.is_some()) =>
        {
            let got = format!("{n:?}").to_lowercase();
            let remedy = "use --normalise none (presets bring their own), or sum for exact rows";
            Err(Error::value("normalisation of masked rows", "none or sum", got, remedy))
        }
        _ => Ok(()),
    }
}

/// Rows that are divided by their sums have no other form.
fn check_sums(kernel: &str, options: &SceneOptions) -> Result<(), Error> {
    match options.normalisation {
        RowNormalisation::Map(n) if n != Normalisation::None => {
            let got = format!("{n:?}").to_lowercase();
            let remedy = match options.position {
                Some(_) => "use --normalise none (presets bring their own)",
                None => "use the laplacian or gaussian kernel, or --normalise none (presets bring their own)",
            };
            Err(Error::value(format!("normalisation of {kernel} rows"), "none or sum", got, remedy))
        }
        _ => Ok(()),
    }
}

fn plan_softmax(options: &SceneOptions) -> Result<RowPlan, Error> {
    if options.path == MapPath::Nystrom {
        let remedy = match options.position {
            Some(_) => "leave --path out: rows under a position code meet all keys",
            None => "use --path exact, or the laplacian or gaussian kernel",
        };
        return Err(Error::value("path of the softmax kernel", "exact", "nystrom", remedy));
    }
    check_sums("softmax", options)?;
    Ok(RowPlan::exact(None))
}

fn plan_features(options: &SceneOptions, map: FeatureMap) -> Result<RowPlan, Error> {
    let what = || format!("path of the {} kernel", map.name());
    match options.path {
        MapPath::Nystrom => {
            let remedy = "leave --path out: rows of features have one way";
            return Err(Error::value(what(), "auto", "nystrom", remedy));
        }
        MapPath::Exact if map.approximates_softmax() => {
            let remedy = "use --kernel softmax for what it approximates";
            return Err(Error::value(what(), "auto", "exact", remedy));
        }
        MapPath::Auto | MapPath::Exact => {}
    }
    check_sums(map.name(), options)?;
    // Other maps define their own kernel.
    let exact = !map.approximates_softmax();
    Ok(RowPlan { exact, landmarks: 0, no_twin: None, notice: None })
}

fn plan_kernel(options: &SceneOptions, grid: &TokenGrid) -> Result<RowPlan, SceneError> {
    let (rows, cols) = (narrow("grid rows", grid.rows())?, narrow("grid columns", grid.cols())?);
    let unlike =
        matches!(options.normalisation, RowNormalisation::Map(Normalisation::Cheap | Normalisation::Softpp));
    // More landmarks than tokens is an error of the Nyström path; under `auto` it only means that there are few tokens.
    let wanted = options.attention.landmarks.wanted(rows * cols);
    let few = !unlike && (grid.tokens() as u64 <= 2 * wanted || grid.tokens() <= 2);
    if options.path == MapPath::Exact || (options.path == MapPath::Auto && few) {
        if unlike && let RowNormalisation::Map(n) = options.normalisation {
            let (expected, remedy) = ("none, sum, row or col", "use --path nystrom for cheap and softpp");
            let got = format!("{n:?}").to_lowercase();
            return Err(Error::value("normalisation of exact rows", expected, got, remedy).into());
        }
        let notice = (options.path == MapPath::Auto).then(|| {
            format!(
                "{} {} at most twice the landmarks: the exact kernel is used instead of Nyström",
                counted(grid.tokens(), "token", "tokens"),
                plural(grid.tokens(), "is", "are")
            )
        });
        return Ok(RowPlan::exact(notice));
    }
    if options.normalisation == RowNormalisation::Sum {
        let remedy = "an approximate row can sum to 0 or less; use --path exact";
        let (what, expected) = ("normalisation of Nyström rows", "none, row, col, cheap or softpp");
        return Err(Error::value(what, expected, "sum", remedy).into());
    }
    let cells = options.attention.landmarks.cells(rows, cols)?;
    let no_twin = match options.normalisation {
        RowNormalisation::Map(Normalisation::Row | Normalisation::Col)
            if grid.tokens() > options.whitened_twin_tokens =>
        {
            Some(NoTwin::TooManyTokens { most: options.whitened_twin_tokens })
        }
        _ => unlike.then_some(NoTwin::NoExactForm),
    };
    Ok(RowPlan { exact: false, landmarks: narrow("landmarks", cells.len())?, no_twin, notice: None })
}

/// A mask over the rows, and which of its rows.
#[derive(Clone, Copy, Debug)]
pub(crate) struct MaskInputs {
    /// Weights of relative positions `[1, t]` for the whole token grid.
    pub(crate) table: Option<Tensor>,
    /// Weights of the clicked tokens' own rows `[1, 1, n, r]`.
    pub(crate) given: Option<Tensor>,
    /// Numbers of the clicked tokens `[r]`, u32.
    pub(crate) tokens: Tensor,
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
    /// The mask, where there is one.
    pub(crate) mask: Option<MaskInputs>,
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
    /// The same rows without the mask.
    pub(crate) unmasked: Option<Tensor>,
    /// State of the landmark inverse `[1, h, 4]`.
    pub(crate) status: Option<Tensor>,
}

/// Records the rows of clicked tokens, under the position code and the mask, and their exact twins.
pub(crate) fn record_rows(
    graph: &mut Graph,
    options: &SceneOptions,
    ask: &RowsAsked,
) -> Result<RecordedRows, Error> {
    let ask = &match &options.position {
        Some(spec) => super::position::under_code(graph, spec, ask)?,
        None => *ask,
    };
    let bare = record_bare(graph, options, ask)?;
    let mut rows = bare;
    if let Some(mask) = ask.mask {
        let mut weigh = |name: &str, bare: Tensor| -> Result<Tensor, Error> {
            let (n1, n2, n3) = (1, ask.sides.0, ask.sides.1);
            let grid = relative::Params { n1, n2, n3, ..relative::Params::default() };
            let params = relative_map::Params::of(grid, !sums_to_one(options));
            let out = graph.transient(name, bare.shape(), DType::F32);
            let args = [Some(bare), mask.table, None, None, Some(mask.tokens), mask.given, Some(out)];
            graph.pass(&weigh_rows::SPEC, &params, &args)?;
            Ok(out)
        };
        rows.row = weigh("masked row", bare.row)?;
        rows.exact_row = bare.exact_row.map(|row| weigh("masked exact row", row)).transpose()?;
        rows.unmasked = Some(bare.row);
    }
    for output in [Some(rows.row), rows.exact_row, rows.unmasked, rows.status].into_iter().flatten() {
        graph.output(output)?;
    }
    Ok(rows)
}

/// Whether rows are divided by their sums.
fn sums_to_one(options: &SceneOptions) -> bool {
    let by_kernel = matches!(options.kernel, MapKernel::Softmax | MapKernel::Feature(_));
    by_kernel || options.normalisation == RowNormalisation::Sum
}

/// Records φ of queries and keys `[1, h, ·, d]`, which share one projection. Keys that `keep` leaves out are zeros.
///
/// Tokens are scaled so that random features stand for the same softmax as the exact kernel with this `scale` of q·k; √d if not
/// given, for features that carry d^−½ on both sides.
pub(crate) fn record_mapped(
    graph: &mut Graph,
    map: FeatureMap,
    (queries, keys): (Tensor, Tensor),
    scale: Option<f32>,
    keep: Option<Tensor>,
) -> Result<(Tensor, Tensor), Error> {
    let d = keys.dim(3);
    let root = f64::from(d).sqrt();
    let tokens = (f64::from(scale.unwrap_or(root as f32)) * root).sqrt();
    let projection = map.record_projection(graph, keys)?;
    let mut mapped = |name: &str, x: Tensor, role: Role, key_mask: Option<Tensor>| {
        let mut params = map.params(role, d);
        params.scale = (tokens * params.scale_of(d)) as f32;
        let inputs = feature_map::Inputs { x, projection, rows: Rows { key_mask, starts: None } };
        feature_map::record(graph, name, inputs, params)
    };
    let q = mapped("features of the queries", queries, Role::Query, None)?;
    let k = mapped("features of the keys", keys, Role::Key, keep)?;
    Ok((q, k))
}

/// Rows φ(q)·φ(k) over their sums: `clicked` `[1, h, r, d]`.
fn record_feature_rows(
    graph: &mut Graph,
    map: FeatureMap,
    (clicked, keys): (Tensor, Tensor),
    scale: Option<f32>,
    keep: Option<Tensor>,
) -> Result<Tensor, Error> {
    let (q, k) = record_mapped(graph, map, (clicked, keys), scale, keep)?;
    let params = matmul::Params { transpose_w: 1, ..matmul::Params::default() };
    let products = matmul::record(graph, "products of features", matmul::Inputs::new(k, q), params)?;
    let (heads, n, r) = (keys.dim(1), keys.dim(2), clicked.dim(2));
    let any = graph.constant("any row", HostTensor::new([r], HostData::U32(vec![0; r as usize]))?);
    let out = graph.transient("feature row", [1, heads, n, r], DType::F32);
    let args = [Some(products), None, keep, None, Some(any), None, Some(out)];
    graph.pass(&weigh_rows::SPEC, &relative_map::Params::default(), &args)?;
    Ok(out)
}

/// Records the rows of clicked tokens, and their exact twins, without a mask.
fn record_bare(graph: &mut Graph, options: &SceneOptions, ask: &RowsAsked) -> Result<RecordedRows, Error> {
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
        MapKernel::Softmax | MapKernel::Feature(_) => 0,
        MapKernel::Laplacian => Kernel::Laplacian.metric(),
        MapKernel::Gaussian => Kernel::Gaussian.metric(),
    };
    // Queries and keys carry d^−½ each; softmax wants f·f/√d of the features without it, which is √d q·k.
    let scale = ask.scale.unwrap_or((d as f32).sqrt());
    let bandwidth = (metric != 0).then_some(lambda);
    let normalised = sums_to_one(options);
    let whitened_mode = match options.normalisation {
        RowNormalisation::Map(Normalisation::Row) => Some(0),
        RowNormalisation::Map(Normalisation::Col) => Some(1),
        _ => None,
    };
    let features_row = match options.kernel {
        MapKernel::Feature(map) => {
            Some(record_feature_rows(graph, map, (clicked, features), ask.scale, keep)?)
        }
        _ => None,
    };
    if let (true, Some(row)) = (exact, features_row) {
        return Ok(RecordedRows { row, exact_row: None, unmasked: None, status: None });
    }
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
        exact_row = Some(row);
    }
    if let (true, Some(row)) = (exact, exact_row) {
        return Ok(RecordedRows { row, exact_row: None, unmasked: None, status: None });
    }
    if let Some(row) = features_row {
        return Ok(RecordedRows { row, exact_row, unmasked: None, status: None });
    }
    let normalisation = match options.normalisation {
        RowNormalisation::Map(n) => n,
        RowNormalisation::Sum => Normalisation::None,
    };
    let kernel = if metric == 2 { Kernel::Gaussian } else { Kernel::Laplacian };
    let attention = Attention { kernel, normalisation, ..options.attention.clone() };
    let masks = Masks { keys: keep, queries: None };
    let map = attention.record_map(graph, clicked, (all_queries, features), lambda, sides, masks)?;
    Ok(RecordedRows { row: map.out, exact_row, unmasked: None, status: map.status })
}
