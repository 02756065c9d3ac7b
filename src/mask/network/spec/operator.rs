//! From words to operators: the mask on its network, by the way that costs least.

use super::graph::{GraphSpec, Tokens};
use super::{NetworkMask, NetworkMaskSpec};
use crate::error::{Error, Result};
use crate::mask::network::{Diffusion, SampledWalks, Steps, WalkKernel};
use crate::mask::operator::{MaskOperator, SharedMask};
use crate::mask::{GridHeat, Profile, ShortestPath, TreeMask, TreePath};
use crate::topology::build::{Extreme, Reach, spanning_forest};
use crate::topology::{Laplacian, Network};
use std::sync::Arc;

/// What a tree's mask stands on where it does not look at lengths.
const STEPS_OF_TREE: &str = "spanning tree, by the number of steps along it, whatever their lengths: distances in it are at least those of the graph";

/// An operator with what a report tells of it.
#[derive(Clone, Debug)]
pub struct MadeMask {
    /// The operator.
    pub operator: SharedMask,
    /// Terms of its series, products of its walk, or exponentials of its fit, where it has them.
    pub terms: Option<usize>,
    /// What is left out of a series at most, relative to 1.
    pub bound: Option<f64>,
    /// What the mask stands on, where that is not the network itself.
    pub stands_on: Option<&'static str>,
    /// Edges of the network, or of the tree, undirected ones once.
    pub edges: usize,
}

impl NetworkMask {
    /// The mask for the tokens of a grid.
    ///
    /// Heat on plain grids and tori takes its closed form where that costs less; on grids and pictures series run on kernels that read no
    /// lists. Trees of pictures stand on lengths, which grow with colour differences; on files they take the weights as lengths.
    ///
    /// Errors: as [`GraphSpec::network`] and [`NetworkMaskSpec::operator`]; a tree on an image graph with `cut`, whose weights are
    /// affinities.
    pub fn operator(&self, tokens: &Tokens<'_>) -> Result<MadeMask> {
        let on_tree = matches!(self.spec, NetworkMaskSpec::Tree { .. } | NetworkMaskSpec::TreeProfile { .. });
        if let (true, GraphSpec::Image { sensitivity, reach, cut }) = (on_tree, &self.graph) {
            if *cut > 0.0 {
                let remedy = "leave `cut` out: it drops edges by weight, and a tree keeps those of least length by itself";
                return Err(Error::value("`cut` of graph `image` under a tree", "0", cut, remedy));
            }
            let forest = tokens.picture()?.tree(*reach, 1.0, *sensitivity as f32)?;
            return self.spec.on_forest(forest);
        }
        let network = self.graph.network(tokens)?;
        let made = self
            .spec
            .series(&network, self.graph.on_grid().map(|reach| Ok((tokens.sides()?, reach))).transpose()?)?;
        let Some(made) = made else {
            return self.spec.operator(&network);
        };
        let (rows, cols) = tokens.sides()?;
        if let (
            NetworkMaskSpec::Diffusion { t, laplacian: Laplacian::Combinatorial, .. },
            GraphSpec::Grid(Reach::Sides) | GraphSpec::Torus(Reach::Sides),
        ) = (self.spec, &self.graph)
        {
            let closed = GridHeat::new(&[rows, cols], matches!(self.graph, GraphSpec::Torus(_)), &[t])?;
            if closed.flop() < made.operator.flop() {
                return Ok(MadeMask { operator: Arc::new(closed), terms: None, bound: None, ..made });
            }
        }
        Ok(made)
    }
}

fn edges_of(network: &Network) -> usize {
    let loops = network.edges().filter(|(i, j, _)| i == j).count();
    if network.is_symmetric() { (network.entries() - loops) / 2 } else { network.entries() - loops }
}

impl NetworkMaskSpec {
    /// The mask on a network. Trees stand on its spanning forest of least weights, taken as lengths, whose distances are not the network's.
    ///
    /// Errors: an empty network; numbers out of range and directed networks, as the masks' own types tell.
    pub fn operator(&self, network: &Network) -> Result<MadeMask> {
        if let Some(made) = self.series(network, None)? {
            return Ok(made);
        }
        let made = |operator: SharedMask, terms: Option<usize>| MadeMask {
            operator,
            terms,
            bound: None,
            stands_on: None,
            edges: edges_of(network),
        };
        match *self {
            Self::Walk { nodes, lambda, normalise, sampled: None } => {
                let mask = WalkKernel::new(network.clone(), nodes, lambda, normalise)?;
                Ok(made(Arc::new(mask), Some(nodes as usize)))
            }
            Self::Walk { nodes, lambda, normalise, sampled: Some((walks, seed)) } => {
                let mask = SampledWalks::kernel(network, walks, nodes, lambda, normalise, seed)?;
                Ok(made(Arc::new(mask), None))
            }
            Self::PageRank { restart, rtol } => {
                let mask = Steps::pagerank(network.clone(), restart, rtol)?;
                let terms = mask.products() as usize;
                Ok(made(Arc::new(mask), Some(terms)))
            }
            Self::Steps { p } => Ok(made(Arc::new(Steps::power(network.clone(), p)?), Some(p as usize))),
            Self::ShortestPath { profile, size, hops } => {
                let most = network.nodes().saturating_sub(1).min(65_534) as u32;
                let reach = hops.unwrap_or(most).min(most);
                let f: Vec<f32> = (0..=reach)
                    .map(|d| profile.at(f64::from(d), size) as f32)
                    .take_while(|w| *w >= f32::MIN_POSITIVE)
                    .collect();
                Ok(made(Arc::new(ShortestPath::new(network, &[f])?), None))
            }
            Self::Tree { .. } | Self::TreeProfile { .. } => {
                let mut made = self.on_forest(spanning_forest(network, Extreme::Least)?)?;
                if network.weights().is_some() && made.stands_on != Some(STEPS_OF_TREE) {
                    made.stands_on = Some(
                        "spanning tree, the graph's weights taken as lengths: distances in it are at least those of the graph",
                    );
                }
                Ok(made)
            }
            Self::Diffusion { .. } | Self::Communicability { .. } => {
                // Made above.
                Err(Error::value("mask", "a series", self.to_string(), "report this"))
            }
        }
    }

    /// Diffusions, on a grid where the network is one. Refuses networks without nodes for all.
    fn series(&self, network: &Network, on: Option<((u32, u32), Reach)>) -> Result<Option<MadeMask>> {
        if network.nodes() == 0 {
            let remedy = "give the graph at least one node";
            return Err(Error::value("nodes of a mask's graph", "at least 1", 0, remedy));
        }
        let mut diffusion = match *self {
            Self::Diffusion { t, laplacian, rtol } => Diffusion::heat(network.clone(), laplacian, t, rtol)?,
            Self::Communicability { t, rtol } => Diffusion::growth(network.clone(), t, rtol)?,
            _ => return Ok(None),
        };
        if let Some(((rows, cols), reach)) = on {
            diffusion = diffusion.on_grid(rows, cols, reach)?;
        }
        let (terms, bound) = (Some(diffusion.degree()), Some(diffusion.bound()));
        let edges = edges_of(network);
        Ok(Some(MadeMask { operator: Arc::new(diffusion), terms, bound, stands_on: None, edges }))
    }

    fn on_forest(&self, forest: crate::topology::Forest) -> Result<MadeMask> {
        let edges = forest.nodes() - forest.trees();
        let lengths = forest.edges().any(|e| e.2 != 1.0);
        let mask = match *self {
            Self::TreeProfile { profile: Profile::Exponential, size } => {
                TreeMask::exponential(forest, 1.0 / size)?
            }
            // Falls ever more slowly, so that a sum of exponentials fits.
            Self::TreeProfile { profile: Profile::Inverse, size } => {
                TreeMask::smooth(forest, Arc::new(move |d| Profile::Inverse.at(d, size)))?
            }
            Self::TreeProfile { profile, size } => {
                let steps = (0..=forest.diameter()).map(|d| profile.at(f64::from(d), size));
                let f: Vec<f64> = steps.take_while(|w| *w >= 1e-30).collect();
                TreeMask::of_distance(forest, &f)?
            }
            Self::Tree { rate } => TreeMask::exponential(forest, rate)?,
            _ => return Err(Error::value("mask on a tree", "tree:…", self.to_string(), "use tree:rate=0.2")),
        };
        let terms = mask.fit().map(|sum| sum.terms.len());
        // Sweeps add lengths up, tables of distances count steps.
        let by_steps = matches!(mask.path(), TreePath::Balls | TreePath::Levels | TreePath::Cuts);
        let stands_on = Some(match by_steps && lengths {
            true => STEPS_OF_TREE,
            false => "spanning tree: distances in it are at least those of the graph",
        });
        Ok(MadeMask { operator: Arc::new(mask), terms, bound: None, stands_on, edges })
    }
}
