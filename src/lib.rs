//! wgattn

#![deny(unsafe_code)]

#[cfg(feature = "cli")]
pub mod arrays;
pub mod backend;
pub mod error;
pub mod graph;
pub mod kernel;
pub mod kernels;
pub mod tensor;
#[cfg(feature = "cli")]
mod whole_file;

pub use error::{Error, Result};
