//! Queries and keys from the photograph itself: perceptual colour, texture, position.
//!
//! The device turns the linear-light picture into OKLab, cuts patches P `[n, p]` (p = patch · patch · 3; rows of the
//! patch slowest, channel fastest) and computes, per head,
//!
//! `q[h, i, :] = P[i, :] · W[h] + R[h, i, :]`,  k = q.
//!
//! This module fits W `[h, p, d]` and R once per source, in f64, so that a live picture does not flicker. R depends on
//! a token's place only and linearly, so it is kept as T `[h, 3, d]`: `R[h, i, :] = (xᵢ, yᵢ, 1) · T[h]`.
//!
//! The d columns of a head are shared among five parts (see [`Recipe`]), every part with mean square 1 over the
//! tokens; the L1 distance of two tokens is then the sum of the parts' distances, weighted by their shares:
//!
//! * **lightness**: the mean of OKLab's L over the patch;
//! * **chroma**: the mean of OKLab's (a, b) over the patch, projected onto directions spread over the half circle. The
//!   mean of |u · x| over all directions u is proportional to ‖x‖₂, so the L1 distance follows the perceptual distance
//!   whatever its direction. Apart from lightness, because shadows and highlights change lightness more than hue;
//! * **blocks**: the means of the four quarters of the patch, less the patch mean: coarse edges;
//! * **texture**: principal components of the patches, less the patch mean: fine structure;
//! * **position**: (x, y) projected onto directions spread over the half circle, for the same reason as chroma.

use crate::words::counted;
use glam::DVec2;
use rayon::prelude::*;

use super::colour::oklab;
use super::columns::{Samples, TEXTURE_CELLS};
use super::grid::TokenGrid;
use super::image::LinearImage;

/// Most patches from which the basis is fitted.
pub const MAX_FIT_PATCHES: usize = 4096;

/// Why features cannot be made. Every message is one line.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum FeatureError {
    /// No heads, no columns or no recipes were asked for.
    #[error("features: {what} is 0, expected at least 1")]
    Zero {
        /// Which count.
        what: &'static str,
    },
    /// An option is not a usable number.
    #[error("features: {what} is {got}, expected {expected}")]
    Option {
        /// Which option.
        what: &'static str,
        /// Its value.
        got: f64,
        /// Its range.
        expected: &'static str,
    },
    /// The picture is not the grid's working picture.
    #[error(
        "features: the grid wants a working picture of {want_cols}x{want_rows} pixels, got {cols}x{rows}"
    )]
    Picture {
        /// Columns the grid wants.
        want_cols: usize,
        /// Rows the grid wants.
        want_rows: usize,
        /// Columns given.
        cols: usize,
        /// Rows given.
        rows: usize,
    },
    /// An array has the wrong number of values.
    #[error("features: `{what}` wants {} ([h, n, d]), got {got}", counted(*.expected, "value", "values"))]
    Length {
        /// Which array.
        what: &'static str,
        /// Number of values expected.
        expected: usize,
        /// Number of values given.
        got: usize,
    },
    /// An array has a NaN or an infinity.
    #[error("features: `{what}` is not finite at index {index}")]
    NotFinite {
        /// Which array.
        what: &'static str,
        /// First such index.
        index: usize,
    },
}

/// Shares of a head's columns; only their ratios matter. A part without variance (a constant picture, a patch of one
/// pixel) gives its columns to the others.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Recipe {
    /// Patch mean of OKLab's L.
    pub lightness: f64,
    /// Patch mean of OKLab's a and b.
    pub chroma: f64,
    /// Means of the quarters of the patch.
    pub blocks: f64,
    /// Principal components of the patch.
    pub texture: f64,
    /// Place in the picture.
    pub position: f64,
}

/// The recipes of heads 0 to 3; further heads repeat them.
///
/// Every head has some position, because photographs show connected things: it keeps a map near its query when the
/// same colour also occurs elsewhere.
pub const DEFAULT_RECIPES: [Recipe; 4] = [
    Recipe { lightness: 0.03, chroma: 0.52, blocks: 0.00, texture: 0.00, position: 0.45 },
    Recipe { lightness: 0.00, chroma: 0.35, blocks: 0.00, texture: 0.15, position: 0.50 },
    Recipe { lightness: 0.03, chroma: 0.40, blocks: 0.03, texture: 0.07, position: 0.47 },
    Recipe { lightness: 0.00, chroma: 0.40, blocks: 0.00, texture: 0.00, position: 0.60 },
];

/// How features are made.
#[derive(Clone, Debug, PartialEq)]
pub struct FeatureOptions {
    /// Number of heads h.
    pub heads: usize,
    /// Columns d per head.
    pub head_dim: usize,
    /// Factor on all features; `None` = d^−½.
    pub qk_scale: Option<f64>,
    /// Recipe of head i is number i modulo their count.
    pub recipes: Vec<Recipe>,
}

impl Default for FeatureOptions {
    fn default() -> Self {
        Self { heads: 4, head_dim: 32, qk_scale: None, recipes: DEFAULT_RECIPES.to_vec() }
    }
}

/// The fitted W and R of one source; see the module text.
#[derive(Clone, Debug, PartialEq)]
pub struct FeatureBasis {
    heads: usize,
    head_dim: usize,
    patch_len: usize,
    weights: Vec<f32>,
    place: Vec<f32>,
}

impl FeatureBasis {
    /// Fits W and R to a working picture, whose size must be `grid.working_size()`.
    ///
    /// The columns have mean 0 and, per head, mean square `qk_scale`² over the tokens looked at (all, or
    /// [`MAX_FIT_PATCHES`] of them chosen deterministically). A picture without any variance in a head (one token) gives zeros.
    /// Signs are fixed: the largest entry of a principal component is positive.
    ///
    /// Errors: [`FeatureError::Zero`], [`FeatureError::Option`], [`FeatureError::Picture`].
    pub fn fit(
        image: &LinearImage,
        grid: &TokenGrid,
        options: &FeatureOptions,
    ) -> Result<Self, FeatureError> {
        options.check()?;
        check_picture(image, grid)?;
        let (heads, d, p) = (options.heads, options.head_dim, grid.patch_len());
        let scale = options.qk_scale.unwrap_or_else(|| (d as f64).powf(-0.5));
        let samples = Samples::take(image, grid);
        let most_texture = d.min(TEXTURE_CELLS * TEXTURE_CELLS * 3);
        let wants_texture = options.recipes.iter().any(|r| r.texture > 0.0);
        let texture = if wants_texture { samples.texture_axes(most_texture) } else { Vec::new() };

        let mut weights = vec![0f32; heads * p * d];
        let mut place = vec![0f32; heads * 3 * d];
        for head in 0..heads {
            let recipe = options.recipes[head % options.recipes.len()];
            let columns = samples.head_columns(recipe, d, &texture);
            for (j, column) in columns.iter().enumerate() {
                for (i, w) in column.patch.iter().enumerate() {
                    weights[(head * p + i) * d + j] = (w * scale) as f32;
                }
                for (i, t) in column.place.iter().enumerate() {
                    place[(head * 3 + i) * d + j] = (t * scale) as f32;
                }
            }
        }
        Ok(Self { heads, head_dim: d, patch_len: p, weights, place })
    }

    /// Number of heads h.
    pub fn heads(&self) -> usize {
        self.heads
    }

    /// Columns d per head.
    pub fn head_dim(&self) -> usize {
        self.head_dim
    }

    /// Length p of a patch vector.
    pub fn patch_len(&self) -> usize {
        self.patch_len
    }

    /// W `[h, p, d]`.
    pub fn weights(&self) -> &[f32] {
        &self.weights
    }

    /// T `[h, 3, d]`: factors of x, y and 1 (see [`token_place`]).
    pub fn place_weights(&self) -> &[f32] {
        &self.place
    }

    /// R `[h, n, d]`, written out.
    pub fn place_terms(&self, grid: &TokenGrid) -> Vec<f32> {
        let (n, d) = (grid.tokens(), self.head_dim);
        let mut terms = vec![0f32; self.heads * n * d];
        terms.par_chunks_exact_mut(d).enumerate().for_each(|(row, out)| {
            let (head, token) = (row / n, row % n);
            let at = token_place(grid, token);
            let t = &self.place[head * 3 * d..(head + 1) * 3 * d];
            for (j, o) in out.iter_mut().enumerate() {
                let sum = at.x * f64::from(t[j]) + at.y * f64::from(t[d + j]) + f64::from(t[2 * d + j]);
                *o = sum as f32;
            }
        });
        terms
    }

    /// q = k `[h, n, d]` on the CPU, summed in f64: the reference for the device's projection.
    ///
    /// Errors: [`FeatureError::Picture`]; [`FeatureError::Length`] if the grid's patch differs from the fitted one.
    pub fn project(&self, image: &LinearImage, grid: &TokenGrid) -> Result<Vec<f32>, FeatureError> {
        let all: Vec<usize> = (0..grid.tokens()).collect();
        self.project_tokens(image, grid, &all)
    }

    /// The features of some tokens `[h, len, d]` on the CPU, summed in f64.
    ///
    /// Errors: as [`Self::project`], and [`FeatureError::Length`] for a token outside the grid.
    pub fn project_tokens(
        &self,
        image: &LinearImage,
        grid: &TokenGrid,
        tokens: &[usize],
    ) -> Result<Vec<f32>, FeatureError> {
        check_picture(image, grid)?;
        if grid.patch_len() != self.patch_len {
            return Err(FeatureError::Length {
                what: "patch",
                expected: self.patch_len,
                got: grid.patch_len(),
            });
        }
        if let Some(&got) = tokens.iter().find(|t| **t >= grid.tokens()) {
            return Err(FeatureError::Length { what: "token", expected: grid.tokens(), got });
        }
        let (d, p) = (self.head_dim, self.patch_len);
        let lab = oklab_picture(image);
        let mut q = vec![0f32; self.heads * tokens.len() * d];
        q.par_chunks_exact_mut(d).enumerate().for_each_init(
            || (vec![0f64; p], vec![0f64; d]),
            |(patch, sum), (row, out)| {
                let (head, token) = (row / tokens.len(), tokens[row % tokens.len()]);
                let (at, t) = (token_place(grid, token), &self.place[head * 3 * d..(head + 1) * 3 * d]);
                for (j, s) in sum.iter_mut().enumerate() {
                    *s = at.x * f64::from(t[j]) + at.y * f64::from(t[d + j]) + f64::from(t[2 * d + j]);
                }
                read_patch(&lab, grid, token, patch);
                let w = &self.weights[head * p * d..(head + 1) * p * d];
                for (&value, line) in patch.iter().zip(w.chunks_exact(d)) {
                    for (s, &weight) in sum.iter_mut().zip(line) {
                        *s += value * f64::from(weight);
                    }
                }
                for (o, s) in out.iter_mut().zip(sum.iter()) {
                    *o = *s as f32;
                }
            },
        );
        Ok(q)
    }
}

impl FeatureOptions {
    fn check(&self) -> Result<(), FeatureError> {
        let counts = [("heads", self.heads), ("head_dim", self.head_dim), ("recipes", self.recipes.len())];
        if let Some(&(what, _)) = counts.iter().find(|(_, count)| *count == 0) {
            return Err(FeatureError::Zero { what });
        }
        let positive = "a finite number > 0";
        let scale = self.qk_scale.unwrap_or(1.0);
        if !(scale.is_finite() && scale > 0.0) {
            return Err(FeatureError::Option { what: "qk_scale", got: scale, expected: positive });
        }
        for recipe in &self.recipes {
            let shares = recipe.shares();
            if let Some(&got) = shares.iter().find(|s| !(s.is_finite() && **s >= 0.0)) {
                return Err(FeatureError::Option {
                    what: "recipe share",
                    got,
                    expected: "a finite number >= 0",
                });
            }
            let sum: f64 = shares.iter().sum();
            if sum <= 0.0 {
                return Err(FeatureError::Option {
                    what: "sum of recipe shares",
                    got: sum,
                    expected: positive,
                });
            }
        }
        Ok(())
    }
}

impl Recipe {
    /// Lightness, chroma, blocks, texture, position.
    pub(super) fn shares(&self) -> [f64; 5] {
        [self.lightness, self.chroma, self.blocks, self.texture, self.position]
    }
}

/// Place (x, y) of a token's cell centre: from the middle of the photograph, in units of its longer side.
pub fn token_place(grid: &TokenGrid, token: usize) -> DVec2 {
    let (row, col) = (token / grid.cols(), token % grid.cols());
    // The full cell, not the one cut at the edge: place must be linear in (row, col) for the device.
    let cell = DVec2::new(col as f64 + 0.5, row as f64 + 0.5) * grid.effective_stride();
    let size = grid.photo_size().as_dvec2();
    (cell - size * 0.5) / size.max_element()
}

/// At most `most` of the indices 0…n: all, or those visited by the golden-ratio sequence, sorted, without repeats.
pub(crate) fn sample_indices(n: usize, most: usize) -> Vec<usize> {
    if n <= most {
        return (0..n).collect();
    }
    let golden = (5f64.sqrt() - 1.0) / 2.0;
    let mut indices: Vec<usize> =
        (0..most).map(|i| ((i as f64 * golden).fract() * n as f64) as usize).collect();
    indices.sort_unstable();
    indices.dedup();
    indices
}

fn check_picture(image: &LinearImage, grid: &TokenGrid) -> Result<(), FeatureError> {
    let (want_cols, want_rows) = (grid.working_size().x as usize, grid.working_size().y as usize);
    let (cols, rows) = (image.cols(), image.rows());
    if (cols, rows) == (want_cols, want_rows) {
        Ok(())
    } else {
        Err(FeatureError::Picture { want_cols, want_rows, cols, rows })
    }
}

/// OKLab picture `[rows, cols, 3]` in f32, the precision the device works in.
pub(super) fn oklab_picture(image: &LinearImage) -> LinearImage {
    let mut lab = vec![0f32; image.samples().len()];
    lab.par_chunks_exact_mut(3).zip(image.samples().par_chunks_exact(3)).for_each(|(out, rgb)| {
        let value = oklab([f64::from(rgb[0]), f64::from(rgb[1]), f64::from(rgb[2])]);
        out.copy_from_slice(&value.map(|v| v as f32));
    });
    LinearImage::from_samples(image.rows(), image.cols(), lab).expect("same shape as a valid picture")
}

/// Patch vector `[p]` of one token, edge pixels repeated.
pub(super) fn read_patch(lab: &LinearImage, grid: &TokenGrid, token: usize, out: &mut [f64]) {
    let (row, col) = grid.patch_origin(token).expect("caller iterates over the grid's tokens");
    let side = grid.patch() as usize;
    for (i, pixel) in out.chunks_exact_mut(3).enumerate() {
        let value = lab.pixel_clamped(row + (i / side) as i64, col + (i % side) as i64);
        for (o, v) in pixel.iter_mut().zip(value) {
            *o = f64::from(v);
        }
    }
}
