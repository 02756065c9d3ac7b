//! Masks on networks in words: what `--mask` and `--graph` take.
//!
//! ```text
//! diffusion:t=10[,laplacian=combinatorial|symmetric|random-walk][,rtol=1e-4]       exp(−tL)
//! communicability:t=0.5[,rtol=1e-4]                                                exp(tA), up to a factor per component
//! walk:nodes=4,lambda=1,normalise=cosine[,walks=50,seed=0]                         discounted walks; sampled where walks is given
//! pagerank:restart=0.15[,rtol=1e-4]          steps:p=3
//! tree:rate=0.2                              tree:profile=inverse,size=8           along a spanning tree
//! spd:profile=exp,size=8[,hops=16]           by steps along edges, cut off after hops
//!
//! image[:sensitivity=8,reach=8,cut=0]    grid4    grid8    torus4    torus8
//! FILE[:numbering=zero|one|names,directed,nodes=9]                                 the options are for edge lists
//! ```
//!
//! Weights say how strongly nodes are joined, to all masks but `tree`: that takes a FILE's weights as lengths, and an image's colour
//! differences, so that `cut` has no meaning there. Its profiles exp and inverse fall with length, gauss, window and triangle with the number
//! of steps.

use super::{Diffusion, SampledWalks, Steps, WalkKernel};
use crate::error::{Error, Result};
use crate::mask::operator::{MaskOperator, SharedMask};
use crate::mask::{GridHeat, Profile, ShortestPath, TreeMask, TreePath};
use crate::numbers::Short;
use crate::topology::build::{Extreme, Picture, Reach, grid, spanning_forest, torus};
use crate::topology::declared::{Numbering, Options as Declared};
use crate::topology::kernel::Normalisation;
use crate::topology::{Laplacian, Network};
use crate::words::closest;
use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;
use std::sync::Arc;

const RTOL: f64 = 1e-4;

/// Least tolerance that words ask for: operators hold f32 numbers, whose own rounding is 6e-8. The types of masks take less, for their
/// matrices in f64.
pub const LEAST_RTOL: f64 = 1e-7;

/// What a tree's mask stands on where it does not look at lengths.
const STEPS_OF_TREE: &str = "spanning tree, by the number of steps along it, whatever their lengths: distances in it are at least those of the graph";

/// A mask by nearness along edges, before it knows the network.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum NetworkMaskSpec {
    /// exp(−tL).
    Diffusion {
        /// Time.
        t: f64,
        /// Which Laplacian.
        laplacian: Laplacian,
        /// Tolerance of the series.
        rtol: f64,
    },
    /// exp(tA) up to a factor per component.
    Communicability {
        /// Time.
        t: f64,
        /// Tolerance of the series.
        rtol: f64,
    },
    /// Discounted walks.
    Walk {
        /// Nodes of the longest walk.
        nodes: u32,
        /// Discount per step.
        lambda: f64,
        /// How the mask is made of the features.
        normalise: Normalisation,
        /// Number and seed of sampled walks; exact without.
        sampled: Option<(u32, u64)>,
    },
    /// Walkers that start again.
    PageRank {
        /// Probability of a new start.
        restart: f64,
        /// Tolerance of the sum.
        rtol: f64,
    },
    /// Walkers after a number of steps.
    Steps {
        /// Steps.
        p: u32,
    },
    /// By length along a spanning tree: exp(−rate · length).
    Tree {
        /// Rate per length.
        rate: f64,
    },
    /// By distance along a spanning tree, by a profile.
    TreeProfile {
        /// How weight falls.
        profile: Profile,
        /// How far it reaches.
        size: f64,
    },
    /// By steps along edges.
    ShortestPath {
        /// How weight falls.
        profile: Profile,
        /// How far it reaches, in steps.
        size: f64,
        /// Steps past which nothing is seen.
        hops: Option<u32>,
    },
}

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

/// A mask and the network it stands on.
#[derive(Clone, Debug, PartialEq)]
pub struct NetworkMask {
    /// The mask.
    pub spec: NetworkMaskSpec,
    /// Its network.
    pub graph: GraphSpec,
}

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
    fn picture(&self) -> Result<Picture<'_>> {
        let none =
            || Error::value("graph `image`", "a picture", "none", "name a picture, or use --graph grid8");
        Picture::new(self.colours.ok_or_else(none)?, self.rows, self.cols)
    }

    fn sides(&self) -> Result<(u32, u32)> {
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
    fn on_grid(&self) -> Option<Reach> {
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

    /// Kinds that this takes, for tests of what a mask's word is.
    pub const KINDS: [&str; 7] = ["diffusion", "communicability", "walk", "pagerank", "steps", "tree", "spd"];

    /// The same as they are written.
    pub(crate) const KNOWN: &str =
        "diffusion:t=…, communicability:t=…, walk:…, pagerank:…, steps:p=…, tree:…, spd:…";

    /// Whether the words begin as a mask on a network does.
    pub fn is_meant(text: &str) -> bool {
        Self::KINDS.contains(&text.split(':').next().unwrap_or_default().trim())
    }
}

impl fmt::Display for NetworkMaskSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let profile =
            |p: &Profile| Profile::ALL.iter().find(|(_, kind)| kind == p).map_or("", |(name, _)| *name);
        let tolerance = |rtol: &f64| if *rtol == RTOL { String::new() } else { format!(",rtol={rtol:e}") };
        match self {
            Self::Diffusion { t, laplacian, rtol } => {
                write!(f, "diffusion:t={}", Short(*t))?;
                if *laplacian != Laplacian::Combinatorial {
                    write!(f, ",laplacian={laplacian}")?;
                }
                f.write_str(&tolerance(rtol))
            }
            Self::Communicability { t, rtol } => {
                write!(f, "communicability:t={}{}", Short(*t), tolerance(rtol))
            }
            Self::Walk { nodes, lambda, normalise, sampled } => {
                let name = Normalisation::ALL
                    .iter()
                    .find(|(_, kind)| kind == normalise)
                    .map_or("", |(name, _)| *name);
                write!(f, "walk:nodes={nodes},lambda={},normalise={name}", Short(*lambda))?;
                sampled.map_or(Ok(()), |(walks, seed)| write!(f, ",walks={walks},seed={seed}"))
            }
            Self::PageRank { restart, rtol } => {
                write!(f, "pagerank:restart={}{}", Short(*restart), tolerance(rtol))
            }
            Self::Steps { p } => write!(f, "steps:p={p}"),
            Self::Tree { rate } => write!(f, "tree:rate={}", Short(*rate)),
            Self::TreeProfile { profile: p, size } => {
                write!(f, "tree:profile={},size={}", profile(p), Short(*size))
            }
            Self::ShortestPath { profile: p, size, hops } => {
                write!(f, "spd:profile={},size={}", profile(p), Short(*size))?;
                hops.map_or(Ok(()), |hops| write!(f, ",hops={hops}"))
            }
        }
    }
}

impl fmt::Display for GraphSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let number = |reach: &Reach| if *reach == Reach::Sides { 4 } else { 8 };
        match self {
            Self::Image { sensitivity, reach, cut } => {
                write!(f, "image:sensitivity={},reach={}", Short(*sensitivity), number(reach))?;
                if *cut > 0.0 { write!(f, ",cut={}", Short(*cut)) } else { Ok(()) }
            }
            Self::Grid(reach) => write!(f, "grid{}", number(reach)),
            Self::Torus(reach) => write!(f, "torus{}", number(reach)),
            Self::File { path, options } if *options == Declared::default() => {
                write!(f, "{}", path.display())
            }
            Self::File { path, options } => write!(f, "{}:{options}", path.display()),
        }
    }
}

/// Options of one mask or graph: `key=value`, each taken once.
struct Options<'a> {
    kind: &'a str,
    example: &'static str,
    list: Vec<(&'a str, &'a str)>,
}

impl<'a> Options<'a> {
    fn of(kind: &'a str, rest: &'a str, example: &'static str) -> Result<Self> {
        let mut list: Vec<(&str, &str)> = Vec::new();
        for option in rest.split(',').map(str::trim).filter(|o| !o.is_empty()) {
            let wrong = |got: &str| {
                let what = format!("option of `{kind}`");
                Error::value(what, "key=value, each key once", got, format!("for example: {example}"))
            };
            let (key, value) = option.split_once('=').ok_or_else(|| wrong(option))?;
            if list.iter().any(|(other, _)| *other == key) {
                return Err(wrong(option));
            }
            list.push((key, value));
        }
        Ok(Self { kind, example, list })
    }

    fn take(&mut self, key: &str) -> Option<&'a str> {
        let at = self.list.iter().position(|(other, _)| *other == key)?;
        Some(self.list.remove(at).1)
    }

    fn error(&self, key: &str, expected: impl Into<String>, got: &str) -> Error {
        Error::value(
            format!("`{key}` of `{}`", self.kind),
            expected,
            got,
            format!("for example: {}", self.example),
        )
    }

    fn number(&mut self, key: &str, default: Option<f64>, (least, most): (f64, f64)) -> Result<f64> {
        let expected = || match (least, most) {
            (l, f64::MAX) if l > 0.0 => "a number above 0".to_string(),
            (l, f64::MAX) => format!("a finite number of at least {l}"),
            (l, m) if l > 0.0 && l < 1e-3 => format!("a number from {l:e} to {m}"),
            (l, m) => format!("a number from {l} to {m}"),
        };
        match (self.take(key), default) {
            (None, Some(x)) => Ok(x),
            (None, None) => Err(self.error(key, expected(), "none")),
            (Some(text), _) => {
                let found = text.parse::<f64>().ok().filter(|x| (least..=most).contains(x));
                found.ok_or_else(|| self.error(key, expected(), text))
            }
        }
    }

    /// The tolerance of a series or a sum.
    fn tolerance(&mut self) -> Result<f64> {
        let Some(text) = self.take("rtol") else { return Ok(RTOL) };
        let expected = || format!("a number from {LEAST_RTOL:e} to less than 1");
        match text.parse::<f64>() {
            Ok(x) if (LEAST_RTOL..1.0).contains(&x) => Ok(x),
            Ok(x) if x > 0.0 && x < LEAST_RTOL => Err(Error::value(
                format!("`rtol` of `{}`", self.kind),
                expected(),
                text,
                "results are f32, whose own rounding is 6e-8: ask for no less than they can hold",
            )),
            _ => Err(self.error("rtol", expected(), text)),
        }
    }

    fn whole(&mut self, key: &str, default: Option<u64>, least: u64) -> Result<u64> {
        let expected = || format!("a whole number of at least {least}");
        match (self.take(key), default) {
            (None, Some(x)) => Ok(x),
            (None, None) => Err(self.error(key, expected(), "none")),
            (Some(text), _) => {
                let found = text.parse::<u64>().ok().filter(|x| *x >= least);
                found.ok_or_else(|| self.error(key, expected(), text))
            }
        }
    }

    /// A whole number that a kernel can count.
    fn count(&mut self, key: &str, default: Option<u64>, least: u64) -> Result<u32> {
        let x = self.whole(key, default, least)?;
        u32::try_from(x).map_err(|_| self.error(key, "a whole number below 2³²", &x.to_string()))
    }

    fn named<T: FromStr<Err = Error> + Default>(&mut self, key: &str) -> Result<T> {
        self.take(key).map_or_else(|| Ok(T::default()), str::parse)
    }

    fn profile(&mut self) -> Result<(Profile, f64)> {
        let profile = match self.take("profile") {
            None => Profile::Exponential,
            Some(text) => {
                let names = Profile::ALL.map(|(name, _)| name).join(", ");
                let found = Profile::ALL.iter().find(|(name, _)| *name == text);
                found.ok_or_else(|| self.error("profile", names, text))?.1
            }
        };
        Ok((profile, self.number("size", Some(8.0), ABOVE_0)?))
    }

    fn end(self, known: &str) -> Result<()> {
        match self.list.first() {
            None => Ok(()),
            Some((key, value)) => Err(Error::value(
                format!("option of `{}`", self.kind),
                known,
                format!("{key}={value}"),
                format!("for example: {}", self.example),
            )),
        }
    }
}

const ABOVE_0: (f64, f64) = (f64::MIN_POSITIVE, f64::MAX);
const FROM_0: (f64, f64) = (0.0, f64::MAX);

impl FromStr for NetworkMaskSpec {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let (kind, rest) = text.split_once(':').unwrap_or((text, ""));
        let options = |example| Options::of(kind, rest, example);
        let spec;
        match kind {
            "diffusion" => {
                let mut o = options("diffusion:t=100,laplacian=symmetric,rtol=1e-4")?;
                let t = o.number("t", None, FROM_0)?;
                spec = Self::Diffusion { t, laplacian: o.named("laplacian")?, rtol: o.tolerance()? };
                o.end("t=…, laplacian=…, rtol=…")?;
            }
            "communicability" => {
                let mut o = options("communicability:t=0.5")?;
                let t = o.number("t", None, FROM_0)?;
                spec = Self::Communicability { t, rtol: o.tolerance()? };
                o.end("t=…, rtol=…")?;
            }
            "walk" => {
                let mut o = options("walk:nodes=4,lambda=1,normalise=cosine,walks=50,seed=0")?;
                let (nodes, lambda) =
                    (o.count("nodes", Some(4), 1)?, o.number("lambda", Some(1.0), ABOVE_0)?);
                let normalise = o.named("normalise")?;
                let walks = if o.list.iter().any(|(key, _)| *key == "walks") {
                    Some(o.count("walks", None, 1)?)
                } else {
                    None
                };
                if let (None, Some(seed)) = (walks, o.list.iter().find(|(key, _)| *key == "seed")) {
                    return Err(o.error("seed", "walks=… beside it: exact walks are not drawn", seed.1));
                }
                let seed = o.whole("seed", Some(0), 0)?;
                spec = Self::Walk { nodes, lambda, normalise, sampled: walks.map(|walks| (walks, seed)) };
                o.end("nodes=…, lambda=…, normalise=…, walks=…, seed=…")?;
            }
            "pagerank" => {
                let mut o = options("pagerank:restart=0.15")?;
                let restart = o.number("restart", Some(0.15), (1e-3, 1.0))?;
                spec = Self::PageRank { restart, rtol: o.tolerance()? };
                o.end("restart=…, rtol=…")?;
            }
            "steps" => {
                let mut o = options("steps:p=3")?;
                spec = Self::Steps { p: o.count("p", None, 0)? };
                o.end("p=…")?;
            }
            "tree" => {
                let mut o = options("tree:rate=0.2 or tree:profile=inverse,size=8")?;
                let by_profile = o.list.iter().any(|(key, _)| matches!(*key, "profile" | "size"));
                spec = if by_profile {
                    let (profile, size) = o.profile()?;
                    Self::TreeProfile { profile, size }
                } else {
                    Self::Tree { rate: o.number("rate", Some(0.2), FROM_0)? }
                };
                o.end("rate=…, or profile=… and size=…")?;
            }
            "spd" => {
                let mut o = options("spd:profile=exp,size=8,hops=16")?;
                let (profile, size) = o.profile()?;
                let some = o.list.iter().any(|(key, _)| *key == "hops");
                let hops = if some { Some(o.count("hops", None, 0)?) } else { None };
                spec = Self::ShortestPath { profile, size, hops };
                o.end("profile=…, size=…, hops=…")?;
            }
            other => {
                let remedy = match closest(other.trim(), Self::KINDS) {
                    Some(kind) => format!("did you mean {kind}?"),
                    None => "for example: diffusion:t=100".into(),
                };
                return Err(Error::value("mask on a graph", Self::KNOWN, other, remedy));
            }
        }
        Ok(spec)
    }
}

/// A file with what stands behind its last colon, unless that is a part of its name.
fn file_of(text: &str) -> Result<GraphSpec> {
    let (path, words) = match text.rsplit_once(':') {
        Some((path, words)) if words.split(',').any(|word| word == "directed" || word.contains('=')) => {
            (path, words)
        }
        _ => (text, ""),
    };
    let mut options = Declared::default();
    let directed = |word: &&str| word.trim() == "directed";
    options.directed = words.split(',').any(|word| directed(&word));
    let rest: Vec<&str> = words.split(',').filter(|word| !directed(word)).collect();
    let rest = rest.join(",");
    let mut o = Options::of(path, &rest, "streets.csv:numbering=names,directed,nodes=9")?;
    if let Some(word) = o.take("numbering") {
        let names = Numbering::ALL.map(|(name, _)| name).join(", ");
        let found = Numbering::ALL.iter().find(|(name, _)| *name == word);
        options.numbering = found.ok_or_else(|| o.error("numbering", format!("one of {names}"), word))?.1;
    }
    if let Some(text) = o.take("nodes") {
        let number = text.parse::<usize>().ok();
        options.nodes = Some(number.ok_or_else(|| o.error("nodes", "a whole number", text))?);
    }
    o.end("numbering=…, directed, nodes=…")?;
    Ok(GraphSpec::File { path: path.into(), options })
}

impl FromStr for GraphSpec {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let plain = match text {
            "grid4" => Some(Self::Grid(Reach::Sides)),
            "grid8" => Some(Self::Grid(Reach::Corners)),
            "torus4" => Some(Self::Torus(Reach::Sides)),
            "torus8" => Some(Self::Torus(Reach::Corners)),
            _ => None,
        };
        if let Some(plain) = plain {
            return Ok(plain);
        }
        let (kind, rest) = text.split_once(':').unwrap_or((text, ""));
        if kind == "image" {
            let mut o = Options::of(kind, rest, "image:sensitivity=8,reach=8")?;
            let sensitivity = o.number("sensitivity", Some(8.0), (0.0, 1e6))?;
            let reach = match o.take("reach") {
                None | Some("8") => Reach::Corners,
                Some("4") => Reach::Sides,
                Some(other) => return Err(o.error("reach", "4 or 8 neighbours", other)),
            };
            let cut = o.number("cut", Some(0.0), (0.0, 1.0))?;
            o.end("sensitivity=…, reach=4 or 8, cut=…")?;
            return Ok(Self::Image { sensitivity, reach, cut });
        }
        // A slip in a name has no dot; files of networks are told apart by their suffix.
        if text.contains(['.', '/', '\\']) {
            return file_of(text);
        }
        let known = "image[:sensitivity=…,reach=4|8,cut=…], grid4, grid8, torus4, torus8, or a file";
        Err(Error::value("graph", known, text, "files are told by their suffix, such as streets.graphml"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_again() {
        for text in [
            "diffusion:t=10",
            "diffusion:t=1e300",
            "tree:rate=3e-7",
            "diffusion:t=0,laplacian=random-walk,rtol=1e-6",
            "communicability:t=0.5",
            "walk:nodes=4,lambda=1,normalise=cosine",
            "walk:nodes=3,lambda=0.5,normalise=diag,walks=50,seed=7",
            "pagerank:restart=0.15",
            "steps:p=3",
            "tree:rate=0.2",
            "tree:profile=inverse,size=8",
            "spd:profile=exp,size=8",
            "spd:profile=gauss,size=2,hops=5",
        ] {
            let spec: NetworkMaskSpec = text.parse().expect(text);
            assert_eq!(spec.to_string(), text);
            assert!(NetworkMaskSpec::is_meant(text));
        }
        for text in [
            "image:sensitivity=8,reach=8",
            "image:sensitivity=0,reach=4,cut=0.5",
            "grid4",
            "torus8",
            "a/b.mtx",
            "c.csv:numbering=names",
            "c:/d.csv:numbering=one,directed,nodes=9",
            "e.csv:f",
        ] {
            assert_eq!(text.parse::<GraphSpec>().expect(text).to_string(), text);
        }
        assert_eq!("image".parse::<GraphSpec>().expect("image"), GraphSpec::default());
        assert!(!NetworkMaskSpec::is_meant("toeplitz:gauss"));
    }

    #[test]
    fn mistakes_are_told_with_what_would_do() {
        for (text, named) in [
            ("difusion:t=1", "diffusion:t=…"),
            ("difusion:t=1", "did you mean diffusion?"),
            ("diffusion", "at least 0"),
            ("diffusion:t=-1", "at least 0"),
            ("diffusion:t=nan", "at least 0"),
            ("diffusion:t=1,t=2", "each key once"),
            ("diffusion:t=1,rtol=2", "1e-7 to less than 1"),
            ("communicability:t=1,rtol=1", "1e-7 to less than 1"),
            ("diffusion:t=1,rtol=1e-15", "results are f32"),
            ("pagerank:rtol=9e-8", "results are f32"),
            ("pagerank:rtol=-1", "1e-7 to less than 1"),
            ("diffusion:t=1,laplacian=signless", "random-walk"),
            ("walk:normalise=softmax", "cosine"),
            ("walk:seed=3", "walks=…"),
            ("walk:walks=0", "at least 1"),
            ("pagerank:restart=0", "from 0.001"),
            ("steps", "whole number"),
            ("tree:rate=-1", "at least 0"),
            ("tree:profile=exp,size=0", "above 0"),
            ("tree:rate=1,size=2", "profile=…"),
            ("spd:profile=linear", "triangle"),
            ("spd:hops=-1", "whole number"),
        ] {
            let message = text.parse::<NetworkMaskSpec>().expect_err(text).to_string();
            assert!(message.contains(named), "{text}: {message}");
        }
        for (text, named) in [
            ("grid6", "torus8"),
            ("image:reach=6", "4 or 8"),
            ("image:sensitivity=-1", "from 0"),
            ("a.csv:numbering=two", "zero, one, names"),
            ("a.csv:nodes=many", "whole number"),
            ("a.csv:numbring=one", "numbering=…, directed"),
            ("a.csv:directed,way=1", "numbering=…, directed"),
        ] {
            let message = text.parse::<GraphSpec>().expect_err(text).to_string();
            assert!(message.contains(named), "{text}: {message}");
        }
    }

    #[test]
    fn fast_ways_are_the_mask_itself() {
        let (rows, cols) = (5, 6);
        let colours: Vec<f32> = (0..3 * rows * cols).map(|i| (i * 37 % 11) as f32 / 20.0).collect();
        let tokens = Tokens { rows, cols, colours: Some(&colours) };
        for graph in ["grid4", "grid8", "torus4", "torus8", "image", "image:sensitivity=3,reach=4,cut=0.3"] {
            for mask in [
                "diffusion:t=2,rtol=1e-7",
                "diffusion:t=2,laplacian=random-walk,rtol=1e-7",
                "communicability:t=0.3",
            ] {
                let (spec, graph): (NetworkMaskSpec, GraphSpec) =
                    (mask.parse().expect(mask), graph.parse().expect(graph));
                let plain =
                    spec.operator(&graph.network(&tokens).expect("a network")).expect(mask).operator.dense(0);
                let made = NetworkMask { spec, graph: graph.clone() }.operator(&tokens).expect(mask);
                let worst =
                    made.operator.dense(0).iter().zip(&plain).map(|(a, b)| (a - b).abs()).fold(0.0, f64::max);
                // Closed forms leave nothing out.
                assert!(worst < 2e-7, "{mask} on {graph}: {worst}");
            }
        }
    }

    #[test]
    fn trees_take_lengths_and_refuse_affinities() {
        let colours: Vec<f32> = (0..12).map(|i| i as f32 / 20.0).collect();
        let tokens = Tokens { rows: 2, cols: 2, colours: Some(&colours) };
        let on = |mask: &str, graph: &str| {
            let (spec, graph) = (mask.parse().expect(mask), graph.parse().expect(graph));
            NetworkMask { spec, graph }.operator(&tokens)
        };
        for mask in ["tree:rate=0.2", "tree:profile=gauss,size=2"] {
            let message = on(mask, "image:cut=0.25").expect_err(mask).to_string();
            assert!(message.contains("`cut`") && message.contains("0.25"), "{message}");
            assert_eq!(on(mask, "image").expect(mask).edges, 3);
        }
        assert!(on("spd:hops=1", "image:cut=0.25").is_ok());
        // Neighbours a step apart: exp(−0.2).
        let beside = on("tree:rate=0.2", "grid4").expect("a tree").operator.weight(0, 0, 1);
        assert!((beside - (-0.2_f64).exp()).abs() < 1e-6, "{beside}");
    }

    #[test]
    fn what_does_not_fit_is_refused() {
        let tokens = Tokens { rows: 2, cols: 2, colours: None };
        let message = GraphSpec::default().network(&tokens).expect_err("no picture").to_string();
        assert!(message.contains("a picture"), "{message}");
        let empty = Network::isolated(0).expect("no nodes");
        for text in ["diffusion:t=1", "tree:rate=1", "spd:hops=2", "steps:p=1", "walk", "pagerank"] {
            let spec: NetworkMaskSpec = text.parse().expect(text);
            let message = spec.operator(&empty).expect_err(text).to_string();
            assert!(message.contains("at least 1"), "{text}: {message}");
            // One lone node sees itself.
            let lone = spec.operator(&Network::isolated(1).expect("a node")).expect(text).operator;
            assert!(lone.weight(0, 0, 0) > 0.0, "{text}");
        }
    }
}
