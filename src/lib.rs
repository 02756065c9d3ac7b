#![cfg_attr(feature = "wgpu", doc = include_str!("../README.md"))]
#![cfg_attr(
    not(feature = "wgpu"),
    doc = "Attention of linear cost: the graph and the CPU reference, without the wgpu backend."
)]

#[cfg(feature = "cli")]
pub mod arrays;
pub mod attention;
pub mod backend;
#[cfg(feature = "cli")]
pub mod bench;
#[cfg(feature = "cli")]
pub mod cli;
pub mod conformance;
pub mod error;
#[cfg(feature = "explorer")]
pub mod explorer;
pub mod graph;
pub mod kernel;
pub mod kernels;
pub mod mask;
#[cfg_attr(not(feature = "explorer"), allow(dead_code, reason = "the explorer uses the rest"))]
mod numbers;
pub mod position;
pub mod random;
#[cfg(feature = "source")]
pub mod source;
pub mod tensor;
pub mod topology;
#[cfg(feature = "vision")]
pub mod vision;
#[cfg(any(feature = "cli", feature = "vision", feature = "wgpu"))]
#[cfg_attr(not(feature = "cli"), allow(dead_code, reason = "the command line uses the rest"))]
mod whole_file;
mod words;

pub use error::{Error, Result};
pub use kernel::params;
#[cfg(feature = "wgpu")]
pub use wgpu;
