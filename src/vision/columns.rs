//! The columns of W and T, part by part, fitted to a sample of patches in f64. See [`super::features`] for the parts.

use glam::DVec2;
use nalgebra::{DMatrix, SymmetricEigen};

use super::features::{MAX_FIT_PATCHES, Recipe, oklab_picture, read_patch, sample_indices, token_place};
use super::grid::TokenGrid;
use super::image::LinearImage;

/// Cells per side into which a patch is averaged before its principal components are taken, so that a large patch
/// costs no more than one of 8 × 8 pixels.
pub(super) const TEXTURE_CELLS: usize = 8;

/// One column of W and T, in f64.
#[derive(Clone)]
pub(super) struct Column {
    pub(super) patch: Vec<f64>,
    pub(super) place: [f64; 3],
}

/// The patches from which the basis is fitted.
pub(super) struct Samples {
    side: usize,
    /// `[m, p]`
    patches: DMatrix<f64>,
    /// `[m]`
    places: Vec<DVec2>,
}

impl Samples {
    pub(super) fn take(image: &LinearImage, grid: &TokenGrid) -> Self {
        let lab = oklab_picture(image);
        let tokens = sample_indices(grid.tokens(), MAX_FIT_PATCHES);
        let mut patches = DMatrix::zeros(tokens.len(), grid.patch_len());
        let mut patch = vec![0f64; grid.patch_len()];
        for (i, &token) in tokens.iter().enumerate() {
            read_patch(&lab, grid, token, &mut patch);
            for (j, &value) in patch.iter().enumerate() {
                patches[(i, j)] = value;
            }
        }
        let places = tokens.iter().map(|&token| token_place(grid, token)).collect();
        Self { side: grid.patch() as usize, patches, places }
    }

    /// d columns of one head; each part present has mean 0 and mean square 1 over the samples.
    pub(super) fn head_columns(&self, recipe: Recipe, d: usize, texture: &[Column]) -> Vec<Column> {
        let mut shares = recipe.shares();
        loop {
            let counts = share_columns(shares, d);
            let parts = [
                self.mean_columns(vec![[1.0, 0.0, 0.0]; counts[0]]),
                self.mean_columns(circle_directions(counts[1]).map(|u| [0.0, u.x, u.y]).collect()),
                self.block_columns(counts[2]),
                texture
                    .iter()
                    .cycle()
                    .take(if texture.is_empty() { 0 } else { counts[3] })
                    .cloned()
                    .collect(),
                circle_directions(counts[4])
                    .map(|u| Column { patch: Vec::new(), place: [u.x, u.y, 0.0] })
                    .collect(),
            ];
            let mut columns = Vec::with_capacity(d);
            let mut flat = None;
            for (part, (group, wanted)) in parts.into_iter().zip(counts).enumerate() {
                match self.normalised(group) {
                    Some(group) if group.len() == wanted => columns.extend(group),
                    _ if wanted == 0 => {}
                    _ => flat = Some(part),
                }
            }
            match flat {
                None => return columns,
                // This part has no variance here: its columns go to the rest, in the end to place.
                Some(part) => {
                    shares[part] = 0.0;
                    if shares.iter().sum::<f64>() <= 0.0 {
                        if part == 4 {
                            let zero = Column { patch: vec![0.0; self.patches.ncols()], place: [0.0; 3] };
                            return vec![zero; d];
                        }
                        shares[4] = 1.0;
                    }
                }
            }
        }
    }

    /// Shifts every column to mean 0 and scales the group to mean square 1; `None` if it has no variance.
    fn normalised(&self, mut group: Vec<Column>) -> Option<Vec<Column>> {
        let m = self.places.len() as f64;
        let mut square = 0.0;
        for column in &mut group {
            column.patch.resize(self.patches.ncols(), 0.0);
            let values = self.values(column);
            let mean = values.iter().sum::<f64>() / m;
            column.place[2] -= mean;
            square += values.iter().map(|v| (v - mean) * (v - mean)).sum::<f64>() / m;
        }
        let rms = (square / group.len() as f64).sqrt();
        // Far below any visible difference (8-bit steps are about 4e-3 in OKLab) but above f32 rounding of equal patches.
        if rms.is_nan() || rms < 1e-6 {
            return None;
        }
        for column in &mut group {
            column.patch.iter_mut().chain(&mut column.place).for_each(|v| *v /= rms);
        }
        Some(group)
    }

    fn values(&self, column: &Column) -> Vec<f64> {
        let mut values: Vec<f64> = self
            .places
            .iter()
            .map(|at| at.x * column.place[0] + at.y * column.place[1] + column.place[2])
            .collect();
        for (j, &w) in column.patch.iter().enumerate() {
            if w != 0.0 {
                for (v, x) in values.iter_mut().zip(self.patches.column(j).iter()) {
                    *v += w * x;
                }
            }
        }
        values
    }

    /// Patch mean of OKLab along each direction.
    fn mean_columns(&self, directions: Vec<[f64; 3]>) -> Vec<Column> {
        let pixels = self.side * self.side;
        let column =
            |u: [f64; 3]| Column { patch: u.map(|v| v / pixels as f64).repeat(pixels), place: [0.0; 3] };
        directions.into_iter().map(column).collect()
    }

    /// Quarter means less the patch mean: L, then a, then b of all four quarters, then again.
    fn block_columns(&self, count: usize) -> Vec<Column> {
        if self.side < 2 {
            return Vec::new();
        }
        let half = self.side / 2;
        let total = (self.side * self.side) as f64;
        let column = |i: usize| {
            let (quarter, channel) = (i % 4, i / 4 % 3);
            let rows = if quarter / 2 == 0 { 0..half } else { half..self.side };
            let cols = if quarter % 2 == 0 { 0..half } else { half..self.side };
            let area = (rows.len() * cols.len()) as f64;
            let mut patch = vec![0.0; self.side * self.side * 3];
            for (pixel, out) in patch.chunks_exact_mut(3).enumerate() {
                let inside = rows.contains(&(pixel / self.side)) && cols.contains(&(pixel % self.side));
                let weight = if inside { 1.0 / area } else { 0.0 } - 1.0 / total;
                out[channel] = weight;
            }
            Column { patch, place: [0.0; 3] }
        };
        (0..count).map(column).collect()
    }

    /// The first `count` principal components of the patches less their mean colour, largest variance first.
    pub(super) fn texture_axes(&self, count: usize) -> Vec<Column> {
        let cells = self.side.min(TEXTURE_CELLS);
        let (m, width) = (self.patches.nrows(), cells * cells * 3);
        // [p] → [cells, cells, 3]: area means, less the mean over the patch.
        let cell_of = |at: usize| at * cells / self.side;
        let cell_index = |j: usize| {
            let pixel = j / 3;
            (cell_of(pixel / self.side) * cells + cell_of(pixel % self.side)) * 3 + j % 3
        };
        let mut area = vec![0f64; width];
        (0..self.patches.ncols()).for_each(|j| area[cell_index(j)] += 1.0);
        let mut pooled = DMatrix::<f64>::zeros(m, width);
        for j in 0..self.patches.ncols() {
            let to = cell_index(j);
            for i in 0..m {
                pooled[(i, to)] += self.patches[(i, j)] / area[to];
            }
        }
        for i in 0..m {
            for channel in 0..3 {
                let mean =
                    (channel..width).step_by(3).map(|c| pooled[(i, c)]).sum::<f64>() / (cells * cells) as f64;
                (channel..width).step_by(3).for_each(|c| pooled[(i, c)] -= mean);
            }
        }
        for mut column in pooled.column_iter_mut() {
            let mean = column.mean();
            column.add_scalar_mut(-mean);
        }
        let covariance = pooled.tr_mul(&pooled) / m as f64;
        let eigen = SymmetricEigen::new(covariance);
        let mut order: Vec<usize> = (0..width).collect();
        order.sort_by(|&a, &b| eigen.eigenvalues[b].total_cmp(&eigen.eigenvalues[a]));
        order
            .into_iter()
            .take(count)
            .map(|c| {
                let mut axis: Vec<f64> = eigen.eigenvectors.column(c).iter().copied().collect();
                fix_sign(&mut axis);
                // Back to pixels, with the mean colour removed on the weights' side.
                for channel in 0..3 {
                    let mean = axis.iter().skip(channel).step_by(3).sum::<f64>() / (cells * cells) as f64;
                    axis.iter_mut().skip(channel).step_by(3).for_each(|v| *v -= mean);
                }
                let patch =
                    (0..self.patches.ncols()).map(|j| axis[cell_index(j)] / area[cell_index(j)]).collect();
                Column { patch, place: [0.0; 3] }
            })
            .collect()
    }
}

/// `count` unit vectors spread evenly over the half circle, none along an axis.
fn circle_directions(count: usize) -> impl Iterator<Item = DVec2> {
    (0..count).map(move |i| DVec2::from_angle(std::f64::consts::PI * (i as f64 + 0.25) / count as f64))
}

/// Whole columns for each share by largest remainder; every positive share gets one while there are enough.
fn share_columns(shares: [f64; 5], d: usize) -> [usize; 5] {
    let sum: f64 = shares.iter().sum();
    let wanted = shares.map(|s| s / sum * d as f64);
    let mut counts = wanted.map(|w| w.floor() as usize);
    let mut order = [0, 1, 2, 3, 4];
    let lack = |part: usize, counts: &[usize; 5]| {
        let first = if counts[part] == 0 && shares[part] > 0.0 { 1.0 } else { 0.0 };
        wanted[part] - counts[part] as f64 + first
    };
    while counts.iter().sum::<usize>() < d {
        order.sort_by(|&a, &b| lack(b, &counts).total_cmp(&lack(a, &counts)));
        counts[order[0]] += 1;
    }
    counts
}

/// Turns a vector so that its largest entry (the first among equals) is positive.
fn fix_sign(axis: &mut [f64]) {
    let largest =
        axis.iter().copied().fold(0.0, |best: f64, v| if v.abs() > best.abs() + 1e-12 { v } else { best });
    if largest < 0.0 {
        axis.iter_mut().for_each(|v| *v = -*v);
    }
}
