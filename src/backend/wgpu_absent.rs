//! The wgpu backend's name in a build without it.

use crate::error::{Error, Result};

/// Stands for the wgpu backend where the `wgpu` feature is off: there is no value of it.
#[derive(Debug)]
pub enum WgpuBackend {}

impl WgpuBackend {
    /// Always [`Error::NotBuilt`].
    ///
    /// Errors: always.
    pub fn headless() -> Result<Self> {
        Err(Error::NotBuilt { feature: "wgpu" })
    }
}
