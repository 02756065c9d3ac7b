//! The wgpu backend's name in a build without it.

use crate::error::{Error, Result};

<<<<<<< HEAD
/// Stands for the wgpu backend where the `wgpu` feature is off: there is no value of it.
=======
/// Stands for the wgpu backend where the `wgpu` feature is off; there is none.
>>>>>>> k6
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
