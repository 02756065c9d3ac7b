//! Rooted forests in breadth-first order, and what sums over their distances need.
//!
//! Everything is built with queues and loops, never by recursion: a path of a million nodes is a tree like any other.
//!
//! * [`Forest`]: parents, lengths and levels; the children of a node are contiguous in breadth-first order.
//! * [`HeavyPaths`]: long paths first, so that sums along a tree of any shape take at most log₂ n + 1 rounds of scans.
//! * [`Pieces`]: heavy paths in short stretches, stretches of stretches, for the same sums in even fewer sweeps.
//! * [`Centroids`]: a tree cut at its centres again and again, for sums of any function of the distance.
//! * [`oracle`]: the same sums in f64.

mod centroid;
mod exponentials;
mod forest;
mod heavy;
pub mod oracle;
pub mod pieces;

pub use centroid::Centroids;
pub use exponentials::{Exponentials, nonnegative_least_squares};
pub use forest::Forest;
pub use heavy::HeavyPaths;
pub use pieces::Pieces;
