//! Masks painted by hand: tokens that cannot be seen, regions that see only themselves and what they are linked to.

use crate::vision::grid::TokenGrid;
use glam::UVec2;
use serde::{Deserialize, Serialize};

/// What was painted.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct MaskDocument {}

impl MaskDocument {
    /// Whether nothing is painted.
    pub fn is_empty(&self) -> bool {
        true
    }

    /// Keys that the token under `query` may see: 1 or 0 per token of the grid; `None` where nothing is painted.
    pub fn keys(&self, _grid: &TokenGrid, _query: UVec2) -> Option<Vec<u8>> {
        None
    }
}
