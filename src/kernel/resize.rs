//! A case at other sizes than its own: what follows when a benchmark asks for more tokens, landmarks, heads or coordinates.
//!
//! Most dimensions are free of each other. Where one follows from others (a table over offsets, the sides of a grid, rows of
//! weights), the case says how, so that a sweep needs to know nothing of the kernel.

use super::{Case, Fill, KernelSpec};
use crate::tensor::Dims;

/// Completes the dimensions that follow from the others and gives the parameters; or why these sizes cannot be.
pub type By = fn(&mut Dims) -> Result<Vec<u8>, String>;

/// How a case follows other sizes.
#[derive(Clone, Copy, Debug, Default)]
pub enum Resize {
    /// Its parameters fit any sizes; data that are [`Fill::Made`] fit its own alone.
    #[default]
    Plain,
    /// Both fit any sizes.
    Free,
    /// Made data fit any sizes, and so do the parameters and dimensions that this gives.
    By(By),
}

impl Case {
    /// The same case, whose made data fit any sizes.
    pub const fn any_size(self) -> Self {
        Self { resize: Resize::Free, ..self }
    }

    /// The same case with a rule for other sizes.
    pub const fn resized(self, by: By) -> Self {
        Self { resize: Resize::By(by), ..self }
    }

    /// All dimensions and the parameters at other sizes: those that only outputs have are completed, and those that the case
    /// itself says.
    ///
    /// Errors: why the case or its kernel cannot have these sizes, in words.
    pub fn at(&self, spec: &KernelSpec, sizes: &Dims) -> Result<(Dims, Vec<u8>), String> {
        let mut dims = sizes.clone();
        let own = Dims::of(self.dims);
        let is_other = sizes.iter().any(|(name, size)| own.find(name) != Some(size));
        let made = self.fill.iter().find(|(_, fill)| matches!(fill, Fill::Made(_)));
        if let (Some((port, _)), Resize::Plain, true) = (made, self.resize, is_other) {
            return Err(format!("the data of `{port}` are made for the sizes of the case alone"));
        }
        let params = match self.resize {
            Resize::By(by) if is_other => by(&mut dims)?,
            _ => (self.params)(),
        };
        if let (Some(complete), true) = (spec.output_dims, is_other) {
            complete(&mut dims, &params);
        }
        (spec.check)(&dims, &params)?;
        Ok((dims, params))
    }
}

/// Rows and columns of a grid of so many tokens, as near to each other as its divisors allow: 64 × 64, 32 × 64, 1 × 61.
pub(crate) fn plane(tokens: u32) -> [u32; 2] {
    let rows = (1..=tokens.isqrt()).rev().find(|rows| tokens.is_multiple_of(*rows)).unwrap_or(1);
    [rows, tokens / rows]
}

/// Offsets between tokens of a grid: Π (2 sides − 1).
///
/// Errors: more than a dimension holds.
pub(crate) fn offsets(sides: &[u32]) -> Result<u32, String> {
    let all = sides.iter().map(|side| 2.0 * f64::from(*side) - 1.0).product::<f64>();
    if all <= f64::from(u32::MAX) {
        Ok(all as u32)
    } else {
        Err(format!("a table of {all} offsets is too large"))
    }
}

/// A product of sizes.
///
/// Errors: more than a dimension holds.
pub(crate) fn product(sizes: &[u32]) -> Result<u32, String> {
    let all = sizes.iter().map(|size| f64::from(*size)).product::<f64>();
    if all <= f64::from(u32::MAX) {
        Ok(all as u32)
    } else {
        Err(format!("a dimension of {all} is too large"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn planes_have_sides_near_to_each_other() {
        let all = [1, 4096, 2048, 3136, 61, 1000, u32::MAX].map(plane);
        assert_eq!(all, [[1, 1], [64, 64], [32, 64], [56, 56], [1, 61], [25, 40], [65_535, 65_537]]);
    }

    #[test]
    fn offsets_and_products_end_where_a_dimension_does() {
        assert_eq!((offsets(&[64, 64]), offsets(&[1024])), (Ok(127 * 127), Ok(2047)));
        assert!(offsets(&[65_536, 65_536]).is_err() && offsets(&[u32::MAX]).is_err());
        assert_eq!(product(&[3, 4, 5]), Ok(60));
        assert!(product(&[1 << 16, 1 << 16]).is_err());
    }
}
