//! What the views of networks, trees and diffusions have set: where a network comes from, times and rates, nodes that were dragged; and
//! what was cut and linked on the picture. All of it is saved in sessions and goes through undo.
//!
//! `plan` reads or builds the network itself.

mod plan;

pub(super) use plan::{Loader, Plan};

use super::mask::MaskDocument;
use crate::error::Result;
use crate::mask::network::{GraphSpec, LEAST_RTOL, NetworkMask, NetworkMaskSpec};
use crate::topology::build::{
    Reach, binary_tree, erdos_renyi, grid, hypercube, preferential, random_tree, ring, small_world, star,
    torus,
};
use crate::topology::{Laplacian, Network};
use crate::vision::grid::TokenGrid;
use glam::{DVec2, UVec2};
use serde::{Deserialize, Serialize};

/// What numbers may be.
pub mod limits {
    use std::ops::RangeInclusive;

    /// Nodes of a built-in network.
    pub const NODES: RangeInclusive<u32> = 1..=4096;
    /// Time of a diffusion.
    pub const TIME: RangeInclusive<f64> = 0.0..=1e6;
    /// Nodes of a walk, the start counted.
    pub const WALK: RangeInclusive<u32> = 1..=64;
    /// Discount of a walk per step.
    pub const DISCOUNT: RangeInclusive<f64> = 0.0..=1.0;
    /// Rate of exponentials of distance.
    pub const RATE: RangeInclusive<f64> = 0.0..=100.0;
    /// Steps through time.
    pub const STEPS: RangeInclusive<u32> = 1..=1024;
    /// Colour sensitivity of a picture's network.
    pub const SENSITIVITY: RangeInclusive<f64> = 0.0..=1000.0;
    /// Relative tolerance of a series.
    pub const TOLERANCE: RangeInclusive<f64> = 1e-12..=0.1;
}

/// Most nodes of a network from a file that is shown.
pub const MOST_NODES: usize = 4096;

/// Built-in networks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Shape {
    /// A square grid.
    #[default]
    Grid,
    /// A square grid whose sides are joined.
    Torus,
    /// A ring.
    Ring,
    /// A star.
    Star,
    /// A ring of neighbours with some edges moved.
    SmallWorld,
    /// Nodes that join popular ones.
    Preferential,
    /// Pairs joined by chance.
    Random,
    /// A random tree.
    Tree,
    /// A full binary tree.
    BinaryTree,
    /// A cube of as many dimensions as suit the size.
    Hypercube,
}

/// Seed of built-in networks: the same every time.
const SEED: u64 = 7;

impl Shape {
    /// All of them, with a name and a sentence.
    pub const ALL: [(Self, &'static str, &'static str); 10] = [
        (Self::Grid, "Grid", "A square grid: every node is joined to those beside, above and below it."),
        (Self::Torus, "Torus", "A square grid whose opposite sides are joined."),
        (Self::Ring, "Ring", "Every node is joined to the one before and the one after it."),
        (Self::Star, "Star", "All nodes are joined to the first one."),
        (
            Self::SmallWorld,
            "Small world",
            "A ring of neighbours with a tenth of the edges moved to anywhere (Watts and Strogatz).",
        ),
        (
            Self::Preferential,
            "Hubs",
            "Nodes that come one after the other and join popular ones (Barabási and Albert).",
        ),
        (Self::Random, "Random", "Pairs joined by chance, three edges a node on average (Erdős and Rényi)."),
        (Self::Tree, "Random tree", "A tree drawn from all trees alike."),
        (Self::BinaryTree, "Binary tree", "Two nodes hang below every one."),
        (Self::Hypercube, "Hypercube", "Corners of a cube of many dimensions; as many as fit the size."),
    ];

    /// Name for people.
    pub fn name(self) -> &'static str {
        Self::ALL.iter().find(|(shape, ..)| *shape == self).map_or("", |(_, name, _)| name)
    }

    /// A network of about `nodes` nodes.
    ///
    /// Errors: none for sizes within [`limits::NODES`].
    pub fn network(self, nodes: u32) -> Result<Network> {
        let n = nodes.max(1) as usize;
        let side = (f64::from(nodes).sqrt().round() as usize).max(1);
        let other = n.div_ceil(side).max(1);
        match self {
            Self::Grid => grid(&[side, other], Reach::Sides),
            Self::Torus => torus(&[side, other], Reach::Sides),
            Self::Ring => ring(n),
            Self::Star => star(n),
            Self::SmallWorld if n > 4 => small_world(n, 4, 0.1, SEED),
            Self::SmallWorld => ring(n),
            Self::Preferential if n > 2 => preferential(n, 2, SEED),
            Self::Preferential => ring(n),
            Self::Random => erdos_renyi(n, (3.0 / (n as f64 - 1.0).max(1.0)).min(1.0), SEED),
            Self::Tree => random_tree(n, SEED)?.network(),
            Self::BinaryTree => binary_tree(n)?.network(),
            Self::Hypercube => hypercube(n.ilog2() as usize),
        }
    }
}

/// Where a network comes from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Source {
    /// A built-in one.
    Built(Shape),
    /// A file, by its path.
    File(String),
}

/// Settings of the view of a network.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct NetworkSettings {
    /// Where it comes from.
    pub source: Source,
    /// Nodes of a built-in one, about.
    pub nodes: u32,
    /// Node whose row is shown; the last one there is where there are fewer.
    pub query: u32,
    /// Nodes that were dragged, ascending, with their places in edges' lengths.
    pub moved: Vec<(u32, [f32; 2])>,
    /// Places by forces although the file gives some.
    pub arrange: bool,
    /// Time t of heat.
    pub time: f64,
    /// Laplacian of heat.
    #[serde(with = "laplacian_text")]
    pub laplacian: Laplacian,
    /// Relative tolerance of the series.
    pub tolerance: f64,
    /// Nodes of a walk, the start counted.
    pub walk: u32,
    /// Discount of a walk per step.
    pub discount: f64,
    /// λ of exp(−λ · steps) along shortest paths.
    pub rate: f64,
    /// Steps through time of the differential equation.
    pub steps: u32,
}

impl Default for NetworkSettings {
    fn default() -> Self {
        Self {
            source: Source::Built(Shape::SmallWorld),
            nodes: 120,
            query: 0,
            moved: Vec::new(),
            arrange: false,
            time: 2.0,
            laplacian: Laplacian::Combinatorial,
            tolerance: 1e-6,
            walk: 6,
            discount: 0.8,
            rate: 0.5,
            steps: 8,
        }
    }
}

/// What a tree spans.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum TreeOf {
    /// The tokens of the picture, along the least differences of colour.
    #[default]
    Picture,
    /// The network of the view of networks, along its strongest edges.
    Network,
}

/// In which parts a sweep is shown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum SweepBy {
    /// Nodes as far from the root as each other.
    #[default]
    Levels,
    /// Paths with as many light edges above them as each other: how scans run.
    HeavyPaths,
}

/// Settings of the view of a tree.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct TreeSettings {
    /// What it spans.
    pub of: TreeOf,
    /// λ of exp(−λ · distance).
    pub rate: f64,
    /// How much colour counts beside the distance of tokens, in the length of an edge.
    pub sensitivity: f64,
    /// Whether tokens at corners are neighbours, too.
    pub corners: bool,
    /// In which parts the sweeps are shown.
    pub by: SweepBy,
}

impl Default for TreeSettings {
    fn default() -> Self {
        Self { of: TreeOf::Picture, rate: 0.06, sensitivity: 40.0, corners: true, by: SweepBy::HeavyPaths }
    }
}

/// Settings of the view of a diffusion over the picture.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct DiffusionSettings {
    /// Time t.
    pub time: f64,
    /// How fast edges grow weak with the difference of colours, which are 1 apart from black to white.
    pub sensitivity: f64,
    /// Whether tokens at corners are neighbours, too.
    pub corners: bool,
    /// Laplacian.
    #[serde(with = "laplacian_text")]
    pub laplacian: Laplacian,
    /// Relative tolerance of the series.
    pub tolerance: f64,
}

impl Default for DiffusionSettings {
    fn default() -> Self {
        Self {
            time: 60.0,
            sensitivity: 40.0,
            corners: true,
            laplacian: Laplacian::Combinatorial,
            tolerance: 1e-4,
        }
    }
}

/// Neighbours of a token.
pub(super) fn reach(corners: bool) -> Reach {
    if corners { Reach::Corners } else { Reach::Sides }
}

impl TreeSettings {
    /// The mask over the picture, as the command line takes it.
    pub fn mask(&self) -> NetworkMask {
        let graph = GraphSpec::Image { sensitivity: self.sensitivity, reach: reach(self.corners), cut: 0.0 };
        NetworkMask { spec: NetworkMaskSpec::Tree { rate: self.rate }, graph }
    }
}

impl DiffusionSettings {
    /// The mask without what was cut and linked, as the command line takes it: with no tolerance below its least.
    pub fn mask(&self) -> NetworkMask {
        let graph = GraphSpec::Image { sensitivity: self.sensitivity, reach: reach(self.corners), cut: 0.0 };
        let rtol = self.tolerance.max(LEAST_RTOL);
        let spec = NetworkMaskSpec::Diffusion { t: self.time, laplacian: self.laplacian, rtol };
        NetworkMask { spec, graph }
    }
}

/// Settings of all three views.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Networks {
    /// A network of its own.
    pub network: NetworkSettings,
    /// A tree.
    pub tree: TreeSettings,
    /// A diffusion over the picture.
    pub diffusion: DiffusionSettings,
}

/// What was cut and linked on the picture, for diffusions.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Cuts {
    /// Painted obstacles: tokens below what is hidden here lose all their edges.
    pub obstacles: MaskDocument,
    /// Pairs of pixels of the photograph whose tokens are joined.
    pub links: Vec<[[u32; 2]; 2]>,
}

impl Cuts {
    /// Whether there is nothing.
    pub fn is_empty(&self) -> bool {
        self.obstacles.is_empty() && self.links.is_empty()
    }

    /// Tokens that are obstacles, `[token]`.
    pub fn blocked(&self, grid: &TokenGrid) -> Vec<bool> {
        if self.obstacles.is_empty() {
            return vec![false; grid.tokens()];
        }
        self.obstacles.token_labels(grid).into_iter().map(super::mask::is_hidden).collect()
    }

    /// Pairs of tokens that are linked; those outside of the picture, or within one token, are none.
    pub fn linked(&self, grid: &TokenGrid) -> Vec<(u32, u32)> {
        let token = |at: [u32; 2]| grid.token_at(UVec2::from_array(at)).ok().map(|t| t as u32);
        let pair = |link: &[[u32; 2]; 2]| token(link[0]).zip(token(link[1])).filter(|(a, b)| a != b);
        self.links.iter().filter_map(pair).collect()
    }

    /// Removes links that begin or end within `radius` of the segment `from`–`to`.
    pub fn unlink(&mut self, from: DVec2, to: DVec2, radius: f64) {
        let near = |at: [u32; 2]| {
            let (at, along) = (UVec2::from_array(at).as_dvec2() + 0.5, to - from);
            let length = along.length_squared();
            let share = if length > 0.0 { ((at - from).dot(along) / length).clamp(0.0, 1.0) } else { 0.0 };
            at.distance(from + share * along) <= radius.max(1.0)
        };
        self.links.retain(|link| !link.iter().any(|end| near(*end)));
    }
}

/// Laplacians in sessions: the names that commands take.
mod laplacian_text {
    use super::Laplacian;
    use serde::de::Error as _;
    use serde::{Deserialize as _, Deserializer, Serializer};

    pub(super) fn serialize<S: Serializer>(laplacian: &Laplacian, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(laplacian)
    }

    pub(super) fn deserialize<'a, D: Deserializer<'a>>(of: D) -> Result<Laplacian, D::Error> {
        String::deserialize(of)?.parse().map_err(D::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_shape_of_every_size_is_a_network() {
        for (shape, name, _) in Shape::ALL {
            for nodes in [1, 2, 3, 5, 30, 257] {
                let network = shape.network(nodes).expect(name);
                let n = network.nodes();
                let fits = n >= 1 && (n as u32).abs_diff(nodes) <= nodes / 2 + 1;
                assert!(fits && network.is_symmetric(), "{name} {nodes}: {n}");
            }
        }
    }

    #[test]
    fn cuts_and_links_are_of_tokens() {
        let grid = TokenGrid::plan(UVec2::new(64, 48), 8, 8, 1000).expect("a grid");
        let mut cuts = Cuts::default();
        assert!(cuts.is_empty() && cuts.blocked(&grid).iter().all(|b| !b));
        cuts.obstacles.rectangle(
            UVec2::new(64, 48),
            DVec2::new(9.0, 9.0),
            DVec2::new(14.0, 14.0),
            crate::explorer::mask::Paint::Hidden,
        );
        let blocked = cuts.blocked(&grid);
        assert_eq!(blocked.iter().filter(|b| **b).count(), 1);
        assert!(blocked[9]);
        cuts.links = vec![[[1, 1], [60, 44]], [[1, 1], [2, 2]], [[1, 1], [900, 2]]];
        assert_eq!(cuts.linked(&grid), [(0, 47)]);
        cuts.unlink(DVec2::new(59.0, 40.0), DVec2::new(61.0, 47.0), 3.0);
        assert_eq!(cuts.links.len(), 2);
    }
}
