//! Networks of nodes and edges, and everything about them that is known before a kernel runs: how they are built, read, cut and
//! joined, their trees, spectra, walks and distances. Nothing here needs a GPU, and every oracle is f64.
//!
//! | module | what it answers |
//! |---|---|
//! | [`network`], [`change`], [`statistics`] | what a network is (rows of columns and weights), its changes, its figures |
//! | [`build`] | grids, rings, cubes, neighbours of points, random ones, pictures, spanning trees |
//! | [`declared`], `read` (feature `cli`) | edge lists and what they do not say themselves, Matrix Market, GraphML, OBJ |
//! | [`tree`] | rooted forests, heavy paths, centroids, and sums over them |
//! | [`spectrum`], [`chebyshev`] | Laplacians, bounds of their eigenvalues, series for exp(−tL) and exp(tA) |
//! | [`integrate`] | the same diffusion as a differential equation, stepped through time, to compare with |
//! | [`layout`] | places of nodes in the plane by forces |
//! | [`walk`], [`kernel`] | walks that every backend repeats, and the kernels of nodes made of them |
//! | [`distance`] | steps and lengths of shortest paths |
//!
//! The word *graph* belongs to the dispatcher ([`crate::graph`]); here it is a [`Network`].

pub mod build;
pub mod change;
pub mod chebyshev;
pub mod declared;
pub mod distance;
pub mod integrate;
pub mod kernel;
pub mod layout;
pub mod network;
#[cfg(feature = "cli")]
pub mod read;
pub mod spectrum;
pub mod statistics;
pub mod tree;
pub mod walk;

pub use network::Network;
pub use spectrum::Laplacian;
pub use statistics::{Components, Statistics};
pub use tree::Forest;

/// No node: the parent of a root, a node that a map leaves out.
pub const NONE: u32 = u32::MAX;
