//! wgattn

#![deny(unsafe_code)]

pub mod backend;
pub mod error;
pub mod graph;
pub mod kernel;
pub mod kernels;
pub mod tensor;

pub use error::{Error, Result};
