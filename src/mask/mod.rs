//! Masks as linear operators: any mask whose product with a vector is fast turns linear attention into masked attention.
//!
//! Attention (M ⊙ φ(Q)φ(K)ᵀ)V needs M only through products: with the values and a column of ones, every pair of a feature and a
//! value column is one channel, D = φ(K) ⊗ [V, 1], and Y = M D contracted with φ(Q) gives numerator and denominator
//! (method: topological masking, 1.2). So a mask here is what multiplies channels, `[b, h, n, c]` → `[b, h, n, c]`, not a matrix.
//!
//! * [`RelativeTable`] and [`Toeplitz`]: weights by relative position on grids, by FFT.
//! * [`network`]: weights by nearness along the edges of a graph.
//! * [`TreeMask`]: weights by distance in trees.
//! * [`ShortestPath`]: weights by steps between nodes of a network; [`Hypercube`], [`GridHeat`]: closed forms.
//! * [`operator`]: the trait, and the combinations that stay fast.

pub mod closed_forms;
pub mod network;
pub mod operator;
pub mod shortest_path;
pub mod spec;
pub mod table;
pub mod tree;

pub use closed_forms::{GridHeat, GridPath, Hypercube};
pub use operator::{Dense, Exactness, MaskOperator, Toeplitz};
pub use shortest_path::ShortestPath;
pub use spec::{MaskSpec, StencilSpec, ToeplitzSpec};
pub use table::{Distance, Profile, RelativeTable, Support};
pub use tree::{TreeMask, TreePath};
