//! Position codes on pictures: the rows of clicked tokens with relative positions in them, and what their noise is expected to be.
//!
//! Features of queries and keys go through the code before they meet the kernel, so every kernel of products takes codes: softmax, and
//! feature maps. Kernels of distances do not: what a code keeps in the mean is the product of a query and a key.

use super::{MapKernel, RowsAsked, Scene, SceneError, SceneOptions, fuse, narrow, relative_error};
use crate::error::Error;
use crate::graph::Graph;
use crate::mask::MaskSpec;
use crate::position::spec::EncodingSpec;
use crate::position::{Encoding, Positions};
use crate::vision::features::{FeatureBasis, sample_indices};
use crate::vision::grid::TokenGrid;
use glam::UVec2;
use rayon::prelude::*;

/// Most tokens whose row is also computed with exact relative positions, on the CPU in f64.
const MOST_EXACT: usize = 16_384;
/// Keys that a row's noise is predicted from where there are more tokens than that.
const SAMPLED: usize = 4096;

/// A scene's code, and what its noise is predicted from.
#[derive(Clone, Debug)]
pub(super) struct OnPosition {
    pub(super) spec: EncodingSpec,
    encoding: Encoding,
    positions: Positions,
    basis: FeatureBasis,
}

/// What a code does to the rows of clicked tokens.
#[derive(Clone, Debug)]
pub struct PositionNoise {
    /// Standard deviation that a logit ⟨q̂, k̂⟩/√R is predicted to have over the draws of the noise, over all queries, heads and keys
    /// (method: 1.9). Kernels without logits take their features of q̂ and k̂ themselves; their products are this noisy nevertheless.
    pub logit_std: f64,
    /// How far the exact ones spread over the keys: where this is smaller, noise is what a row shows.
    pub logit_spread: f64,
    /// `[query][head][token]` softmax rows with exact relative positions, up to 16 384 tokens.
    pub exact: Option<Vec<Vec<Vec<f32>>>>,
}

/// Whether the kernel is one of products.
pub(super) fn check_position(options: &SceneOptions) -> Result<(), Error> {
    let name = match (&options.position, options.kernel) {
        (Some(_), MapKernel::Laplacian) => "laplacian",
        (Some(_), MapKernel::Gaussian) => "gaussian",
        _ => return Ok(()),
    };
    Err(Error::value(
        "kernel under a position code",
        "softmax or a feature map such as favor+, whose rows are made of products of queries and keys",
        format!("{name}, a kernel of distances"),
        "leave --kernel out, or use --kernel softmax",
    ))
}

/// The token grid as positions of a code.
fn grid_positions(grid: (u32, u32)) -> Result<Positions, Error> {
    Positions::grid(&[grid.0, grid.1])
}

/// The code for a picture's features, and what is to be told of its file.
fn encoding_of(spec: &EncodingSpec, heads: u32, width: u32) -> Result<(Encoding, Option<String>), Error> {
    let fit = |h: u32, d: u32| match d == width {
        true => format!("use --heads {h}"),
        false => {
            format!("features of pictures have {width} dimensions: code arrays of {d} with `wgattn eval`")
        }
    };
    spec.encoding_noting(heads, width, 2, &fit)
}

/// The same rows with queries and keys under the code.
///
/// With R realisations a logit is ⟨q̂, k̂⟩/√R where it was q·k/√d (method: 1.5).
pub(super) fn under_code(
    graph: &mut Graph,
    spec: &EncodingSpec,
    ask: &RowsAsked,
) -> Result<RowsAsked, Error> {
    let (heads, d) = (ask.features.dim(1), ask.features.dim(3));
    let (encoding, _) = encoding_of(spec, heads, d)?;
    let positions = grid_positions(ask.sides)?;
    let tokens = (ask.queries.unwrap_or(ask.features), ask.features);
    let (q, k) = encoding.record(graph, &spec.noise(), &positions, spec.realizations, tokens)?;
    let root = f64::from(d).sqrt();
    let scale = ask.scale.map_or(root, f64::from) * root / f64::from(spec.realizations).sqrt();
    Ok(RowsAsked { queries: Some(q), features: k, scale: Some(scale as f32), ..*ask })
}

impl OnPosition {
    pub(super) fn of(
        spec: &EncodingSpec,
        options: &SceneOptions,
        grid: &TokenGrid,
        basis: &FeatureBasis,
    ) -> Result<(Self, Option<String>), Error> {
        let heads = narrow("heads", options.heads)?;
        let (encoding, note) = encoding_of(spec, heads, narrow("head_dim", options.head_dim)?)?;
        let sides = (narrow("grid rows", grid.rows())?, narrow("grid columns", grid.cols())?);
        let positions = grid_positions(sides)?;
        Ok((Self { spec: spec.clone(), encoding, positions, basis: basis.clone() }, note))
    }
}

impl Scene {
    /// The position code, where there is one.
    pub fn position(&self) -> Option<&EncodingSpec> {
        self.position.as_ref().map(|on| &on.spec)
    }

    /// What the code does to the rows of these pixels; `None` where there is no code.
    ///
    /// Errors: pixels outside the photograph.
    pub fn position_noise(&self, at: &[UVec2]) -> Result<Option<PositionNoise>, SceneError> {
        let Some(on) = &self.position else { return Ok(None) };
        let n = self.grid.tokens();
        let whole = n <= MOST_EXACT;
        let keys = if whole { (0..n).collect() } else { sample_indices(n, SAMPLED) };
        let (heads, d) = (self.heads as usize, on.encoding.code().width() as usize);
        // Features carry d^−½ each, and codes take them without it.
        let project = |tokens: &[usize]| -> Result<Vec<f64>, SceneError> {
            let features = on.basis.project_tokens(&self.image, &self.grid, tokens)?;
            Ok(features.iter().map(|x| f64::from(*x) * (d as f64).sqrt()).collect())
        };
        let queries = at.iter().map(|pixel| self.grid.token_at(*pixel)).collect::<Result<Vec<_>, _>>()?;
        let (of_queries, of_keys) = (project(&queries)?, project(&keys)?);
        let (mut variance, mut spread) = (0.0, 0.0);
        let mut exact = Vec::new();
        for (row, &m) in queries.iter().enumerate() {
            let mut rows = Vec::new();
            for head in 0..heads {
                let q = &of_queries[(head * queries.len() + row) * d..][..d];
                let one = |(at, &n): (usize, &usize)| -> Result<(f64, f64), Error> {
                    let k = &of_keys[(head * keys.len() + at) * d..][..d];
                    let lag = on.positions.lag(m, n);
                    let logit = on.encoding.logit(head as u32, q, k, lag, on.spec.realizations)?;
                    Ok((logit.mean(), logit.variance()))
                };
                let logits = keys.par_iter().enumerate().map(one).collect::<Result<Vec<_>, Error>>()?;
                let count = logits.len() as f64;
                let mean = logits.iter().map(|l| l.0).sum::<f64>() / count;
                variance += logits.iter().map(|l| l.1).sum::<f64>() / count;
                spread += logits.iter().map(|l| (l.0 - mean).powi(2)).sum::<f64>() / count;
                rows.push(softmax(logits.iter().map(|l| l.0)));
            }
            exact.push(rows);
        }
        let rows = (heads * queries.len()).max(1) as f64;
        Ok(Some(PositionNoise {
            logit_std: (variance / rows).sqrt(),
            logit_spread: (spread / rows).sqrt(),
            exact: whole.then_some(exact),
        }))
    }

    /// Error of each query's row against the one with exact relative positions, for rows that softmax makes or that features
    /// approximate; `None` for others, under a mask, and where [`PositionNoise::exact`] is missing.
    pub fn position_errors(
        &self,
        noise: &PositionNoise,
        rows: &super::Rows,
        head: Option<usize>,
    ) -> Option<Vec<f64>> {
        let exact = noise.exact.as_ref().filter(|_| self.kernel.has_logits())?;
        if self.mask != MaskSpec::None || self.network().is_some() {
            return None;
        }
        let pairs = rows.rows.iter().zip(exact);
        Some(pairs.map(|(a, b)| relative_error(&fuse(a, head), &fuse(b, head))).collect())
    }
}

/// e^x over its sum.
fn softmax(logits: impl Iterator<Item = f64> + Clone) -> Vec<f32> {
    let most = logits.clone().fold(f64::NEG_INFINITY, f64::max);
    let sum: f64 = logits.clone().map(|x| (x - most).exp()).sum();
    logits.map(|x| ((x - most).exp() / sum) as f32).collect()
}
