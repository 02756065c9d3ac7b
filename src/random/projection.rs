//! Random projections with orthogonal rows: what positive random features multiply tokens with.
//!
//! Rows come in blocks of d: d Gaussian vectors made orthonormal one after the other, each then given a length of its own. A
//! row depends only on the seed and on the Gaussian vectors of its block before it, so more features only add rows.

use super::{EVALUATION, Place, Purpose};
use crate::error::{Error, Result};
use crate::tensor::HostTensor;
use nalgebra::DMatrix;

/// Lengths of the rows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Norms {
    /// That of an independent Gaussian vector of the same dimension: the features are unbiased.
    #[default]
    Chi,
    /// √d for all.
    Sqrt,
}

/// A projection to be drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Projection {
    /// Features it serves; maps that use ±w or cosine and sine have half as many rows.
    pub features: u32,
    /// Seed.
    pub seed: u64,
    /// Layer: others get other rows from the same seed.
    pub layer: u32,
    /// Training step at which it is drawn; [`EVALUATION`] otherwise.
    pub step: u32,
    /// Lengths of the rows.
    pub norms: Norms,
}

impl Default for Projection {
    /// 64 features of seed 0.
    fn default() -> Self {
        Self { features: 64, seed: 0, layer: 0, step: EVALUATION, norms: Norms::Chi }
    }
}

impl Projection {
    fn gaussian(&self, index: u32, lane: u32, stream: u32) -> Result<f64> {
        let (step, layer) = (self.step, self.layer);
        let place = Place { index, lane, step, layer, stream, ..Place::of(Purpose::Projection) };
        place.gaussian(self.seed).map(f64::from)
    }

    /// Row-major `[rows, d]` in f64.
    ///
    /// Only sums, products, quotients and square roots are used, so the bits are the same on every machine.
    ///
    /// Errors: [`Error::Value`] if `rows` or `d` is 0, or d exceeds 16 384.
    pub fn rows_f64(&self, rows: u32, d: u32) -> Result<Vec<f64>> {
        if rows == 0 || d == 0 {
            let got = format!("[{rows}, {d}]");
            return Err(Error::value(
                "projection [rows, d]",
                "at least one of each",
                got,
                "ask for some features",
            ));
        }
        let size = d as usize;
        let mut out = Vec::with_capacity(rows as usize * size);
        for first in (0..rows).step_by(size) {
            // Vector j of the block is column j.
            let drawn: Result<Vec<f64>> = (0..d)
                .flat_map(|j| (0..d).map(move |c| (j, c)))
                .map(|(j, c)| self.gaussian(first + j, c, 0))
                .collect();
            let block = DMatrix::from_vec(size, size, drawn?);
            let orthonormal = block.clone().qr().q();
            for j in 0..d.min(rows - first) {
                let (axis, drawn) = (orthonormal.column(j as usize), block.column(j as usize));
                // The axis points to the side of its vector: without this, rows are not uniform on the sphere.
                let sign = if axis.dot(&drawn) < 0.0 { -1.0 } else { 1.0 };
                let length = match self.norms {
                    Norms::Sqrt => f64::from(d).sqrt(),
                    Norms::Chi => {
                        let squares: Result<Vec<f64>> =
                            (0..d).map(|c| self.gaussian(first + j, c, 1).map(|x| x * x)).collect();
                        squares?.iter().sum::<f64>().sqrt()
                    }
                };
                out.extend(axis.iter().map(|x| sign * length * x));
            }
        }
        Ok(out)
    }

    /// The same rounded to f32, as the tensor `[rows, d]` that every backend is given.
    ///
    /// Errors: as [`Self::rows_f64`].
    pub fn draw(&self, rows: u32, d: u32) -> Result<HostTensor> {
        HostTensor::f32([rows, d], self.rows_f64(rows, d)?.iter().map(|&x| x as f32).collect())
    }
}
