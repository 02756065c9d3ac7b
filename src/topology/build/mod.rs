//! Networks from a rule: lattices, neighbours of points, random ones, pictures, and spanning trees of any.

mod lattice;
mod picture;
mod points;
mod random;
mod spanning;

pub use lattice::{Reach, complete, grid, hypercube, path, ring, star, torus};
pub use picture::{Picture, Quadtree};
pub use points::nearest;
pub use random::{
    binary_tree, caterpillar, erdos_renyi, preferential, random_tree, recursive_tree, small_world,
};
pub use spanning::{Extreme, spanning_forest};
