//! The CUDA backend's name in a build without it.

use super::Backend;
use super::device::Card;
use super::recording::Recording;
use crate::error::{Error, Result};
use crate::graph::Graph;
use crate::kernel::Caps;
use crate::tensor::{HostTensor, Tensor};

/// Whether a word asks for a CUDA device: `cuda`, `cuda:0`, `cuda:0:tf32`, `cuda:host`.
pub fn is_asked(word: &str) -> bool {
    word == "cuda" || word.starts_with("cuda:")
}

/// Always [`Error::NotBuilt`].
///
/// Errors: always.
pub fn open(_: &str) -> Result<Box<dyn Backend>> {
    Err(Error::NotBuilt { feature: "cuda" })
}

/// Always [`Error::NotBuilt`].
///
/// Errors: always.
pub fn recording(_: &Graph, _: &[(Tensor, &HostTensor)]) -> Result<Recording> {
    Err(Error::NotBuilt { feature: "cuda" })
}

/// Nothing: there is no such device.
pub fn caps() -> Option<&'static Caps> {
    None
}

/// No card: built without the feature.
pub fn cards() -> std::result::Result<Vec<Card>, String> {
    Err("built without the cuda feature".into())
}
