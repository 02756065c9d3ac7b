//! Networks for the tokens of a grid: neighbours in a picture, on a grid or a torus, and networks from files.

use crate::error::{Error, Result};
use crate::topology::Network;
use crate::topology::build::{Picture, Reach, grid, torus};
use crate::topology::declared::Options as Declared;
use std::path::PathBuf;

/// A network for the tokens of a grid.
#[derive(Clone, Debug, PartialEq)]
pub enum GraphSpec {
    /// Neighbours, joined the more weakly the more their colours differ.
    Image {
        /// Weight is exp(−sensitivity · ‖colour difference‖ / distance), colours in OKLab.
        sensitivity: f64,
        /// 4 or 8 neighbours.
        reach: Reach,
        /// Edges of less weight are left out.
        cut: f64,
    },
    /// Neighbours on the grid, all alike.
    Grid(Reach),
    /// The same, with borders joined.
    Torus(Reach),
    /// A file whose nodes are the tokens.
    File {
        /// Where it is.
        path: PathBuf,
        /// What it does not say itself, where it is an edge list.
        options: Declared,
    },
}

impl Default for GraphSpec {
    fn default() -> Self {
        Self::Image { sensitivity: 8.0, reach: Reach::Corners, cut: 0.0 }
    }
}

/// What a network is made for: the tokens, with their colours where there is a picture.
#[derive(Clone, Copy, Debug)]
pub struct Tokens<'a> {
    /// Rows of tokens.
    pub rows: usize,
    /// Columns of tokens.
    pub cols: usize,
    /// OKLab colours `[rows · cols, 3]`.
    pub colours: Option<&'a [f32]>,
}

impl Tokens<'_> {
    pub(super) fn picture(&self) -> Result<Picture<'_>> {
        let none =
            || Error::value("graph `image`", "a picture", "none", "name a picture, or use --graph grid8");
        Picture::new(self.colours.ok_or_else(none)?, self.rows, self.cols)
    }

    pub(super) fn sides(&self) -> Result<(u32, u32)> {
        let side = |n: usize| {
            u32::try_from(n).map_err(|_| Error::value("side of a grid", "below 2³²", n, "use fewer tokens"))
        };
        Ok((side(self.rows)?, side(self.cols)?))
    }
}

impl GraphSpec {
    /// The network for the tokens.
    ///
    /// Errors: an image graph without colours; a file that cannot be read, or has another number of nodes than there are tokens.
    pub fn network(&self, tokens: &Tokens<'_>) -> Result<Network> {
        let sides = [tokens.rows, tokens.cols];
        match self {
            Self::Image { sensitivity, reach, cut } => {
                let network = tokens.picture()?.network(*reach, *sensitivity as f32)?;
                if *cut == 0.0 {
                    return Ok(network);
                }
                let kept: Vec<_> =
                    network.edges().filter(|(i, j, w)| i < j && f64::from(*w) >= *cut).collect();
                Network::undirected_weighted(network.nodes(), &kept)
            }
            Self::Grid(reach) => grid(&sides, *reach),
            Self::Torus(reach) => torus(&sides, *reach),
            Self::File { path, options } => {
                let network = from_file(path, options)?;
                if network.nodes() != tokens.rows * tokens.cols {
                    return Err(Error::value(
                        format!("nodes of {}", path.display()),
                        format!(
                            "one per token: {} × {} = {}",
                            tokens.rows,
                            tokens.cols,
                            tokens.rows * tokens.cols
                        ),
                        network.nodes(),
                        "choose --stride or --grid so that tokens and nodes are as many, or use --graph image",
                    ));
                }
                Ok(network)
            }
        }
    }

    /// The neighbours of a grid without joined borders, where the network has no other edges.
    pub(super) fn on_grid(&self) -> Option<Reach> {
        match self {
            Self::Image { reach, .. } | Self::Grid(reach) => Some(*reach),
            Self::Torus(_) | Self::File { .. } => None,
        }
    }
}

#[cfg(feature = "cli")]
fn from_file(path: &std::path::Path, options: &Declared) -> Result<Network> {
    crate::topology::read::read(path, options).map(|loaded| loaded.network)
}

#[cfg(not(feature = "cli"))]
fn from_file(path: &std::path::Path, _: &Declared) -> Result<Network> {
    let remedy = "build with the feature `cli`, or make the network yourself";
    Err(Error::value(format!("network file {}", path.display()), "a reader", "none", remedy))
}
