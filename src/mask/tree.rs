//! Masks on trees: the weight of a key falls with the length of the path from the query, exactly, in time linear or nearly so.
//!
//! * [`TreeMask::exponential`]: exp(−λ d) by two sweeps over pieces of heavy paths, O(n) for any shape.
//! * [`TreeMask::smooth`]: any smooth falling function as a fitted sum of such exponentials, all terms positive: the usual choice.
//! * [`TreeMask::of_distance`]: any function of the number of steps, by the nodes near each where they are few, by cuts at centroids
//!   and Hankel products otherwise; on request level by level.
//!
//! Nodes of different trees do not see each other. A forest that is to stand for a graph is a mask of its own: distances in it are not
//! the graph's (method: topological masking, 2.7).

use super::operator::{Exactness, MaskOperator, ParameterGradient};
use crate::error::{Error, Result};
use crate::graph::Graph;
use crate::kernels::graph::spmm;
use crate::kernels::tree::{hankel, levels, sweeps::Sweeps};
use crate::numbers::{Short, significant};
use crate::tensor::{DType, HostData, HostTensor, Tensor};
use crate::topology::tree::pieces::Factors;
use crate::topology::tree::{Exponentials, Pieces, oracle};
use crate::topology::{Forest, NONE};
use std::fmt;
use std::sync::Arc;

/// Weight by distance.
pub type Falling = Arc<dyn Fn(f64) -> f64 + Send + Sync>;

/// How a tree's mask is computed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TreePath {
    /// One pair of sweeps.
    Sweeps,
    /// A pair of sweeps for each term of a sum of exponentials.
    SumOfSweeps,
    /// A sparse product with the nodes that each node reaches.
    Balls,
    /// Histograms of what lies at each number of steps, one level after the other: only where asked for. Cuts took less time in every
    /// tree measured (10⁵ nodes of 8 channels, 2 to 33 steps: 1.4 to 10 times less, 60 times in a star); levels need no transforms.
    Levels,
    /// Histograms at centroids and Hankel products.
    Cuts,
}

impl fmt::Display for TreePath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Sweeps => "two sweeps",
            Self::SumOfSweeps => "two sweeps per exponential",
            Self::Balls => "a sparse product with the nodes in reach",
            Self::Levels => "histograms level by level",
            Self::Cuts => "Hankel products at centroids",
        })
    }
}

/// A mask f(dist(i, j)) on the nodes of a forest; 0 between trees. Shared by all heads.
#[derive(Clone)]
pub struct TreeMask {
    forest: Forest,
    rule: Rule,
}

#[derive(Clone)]
enum Rule {
    Exponential { lambda: f64, pieces: Pieces, factors: Vec<Factors> },
    Smooth { profile: Falling, sum: Exponentials, pieces: Pieces, factors: Vec<Vec<Factors>> },
    Balls { f: Vec<f64>, rows: Balls },
    Levels { f: Vec<f64>, plan: levels::Plan },
    Cuts { f: Vec<f64>, plan: hankel::Plan },
}

/// Sparse rows of the nodes in reach.
#[derive(Clone, Debug)]
struct Balls {
    starts: Vec<u32>,
    columns: Vec<u32>,
    weights: Vec<f32>,
    longest: u32,
}

impl fmt::Debug for TreeMask {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("TreeMask").field(&self.describe()).finish()
    }
}

/// Entries per node up to which a sparse product is the cheaper way: cuts cost about as many reads at a thousand nodes, and more at
/// larger forests.
const BALL: usize = 64;

fn some_nodes(forest: &Forest) -> Result<()> {
    if forest.nodes() > 0 {
        return Ok(());
    }
    Err(Error::value("nodes of a tree mask", "at least 1", 0, "give every token a node"))
}

impl TreeMask {
    /// exp(−λ · length of the path), λ ≥ 0; the forest's edge lengths count.
    ///
    /// Errors: [`Error::Value`] for no nodes, and λ that is not finite or negative; where the weights that a negative λ asks for would
    /// overflow f32 it says so.
    pub fn exponential(forest: Forest, lambda: f64) -> Result<Self> {
        some_nodes(&forest)?;
        let growth = -lambda * forest.diameter_length();
        if growth > oracle::MOST_GROWTH {
            return Err(Error::value(
                "−λ · longest path of a tree mask",
                format!("at most {}", oracle::MOST_GROWTH),
                format!("{} for λ = {}", significant(growth, 4), Short(lambda)),
                "such weights overflow: use λ ≥ 0",
            ));
        }
        let pieces = Pieces::new(&forest);
        let factors = pieces.factors(lambda)?;
        Ok(Self { forest, rule: Rule::Exponential { lambda, pieces, factors } })
    }

    /// `f[d]` for d steps, 0 past its end; edge lengths are not looked at. Takes whichever way is cheaper.
    ///
    /// Errors: [`Error::Value`] for no nodes and a weight that is not finite. Weights may be negative: a mask for attention must not have
    /// such ones.
    pub fn of_distance(forest: Forest, f: &[f64]) -> Result<Self> {
        Self::of_distance_by(forest, f, None)
    }

    /// [`Self::of_distance`] by a given way: [`TreePath::Balls`], [`TreePath::Levels`] or [`TreePath::Cuts`].
    ///
    /// Errors: as [`Self::of_distance`], and the other ways; balls of more than 2²⁷ entries.
    pub fn of_distance_by(forest: Forest, f: &[f64], path: Option<TreePath>) -> Result<Self> {
        some_nodes(&forest)?;
        if let Some(at) = f.iter().position(|w| !(*w as f32).is_finite()) {
            let remedy = "give one finite weight per number of steps";
            return Err(Error::value(format!("weight at {at} steps"), "a finite number", f[at], remedy));
        }
        // Distances are at most the diameter, and zeros at the end weigh nothing.
        let used = f.iter().rposition(|w| *w != 0.0).map_or(0, |last| last + 1);
        let f: Vec<f64> = f[..used.min(forest.diameter() as usize + 1)].to_vec();
        let reach = (f.len() as u32).saturating_sub(1);
        let limit = match path {
            None => BALL * forest.nodes(),
            Some(TreePath::Balls) => 1 << 27,
            Some(TreePath::Levels | TreePath::Cuts) => 0,
            Some(other) => {
                return Err(Error::value(
                    "way through a table of distances",
                    "balls, levels or cuts",
                    other.to_string(),
                    "use `exponential` or `smooth` for sweeps",
                ));
            }
        };
        if let Some(rows) = Balls::new(&forest, &f, limit) {
            return Ok(Self { forest, rule: Rule::Balls { f, rows } });
        }
        if path == Some(TreePath::Balls) {
            return Err(Error::value(
                "nodes in reach of a tree mask",
                format!("at most {limit} in all"),
                format!("more, for {} nodes and {reach} steps", forest.nodes()),
                "let the cost choose",
            ));
        }
        let rule = match path == Some(TreePath::Levels) {
            true => Rule::Levels { plan: levels::Plan::new(&forest, reach), f },
            false => Rule::Cuts { plan: hankel::Plan::new(&forest, reach), f },
        };
        Ok(Self { forest, rule })
    }

    /// A smooth positive falling function of the length of the path, as a sum of exponentials that is fitted to a relative error of 1e-7,
    /// or as good as it gets: [`Self::fit`] says how good.
    ///
    /// Errors: [`Error::Value`] for no nodes, values that are not finite or not above 0, and a fit that is off by more than 1 %: the
    /// function is not of this kind.
    pub fn smooth(forest: Forest, profile: Falling) -> Result<Self> {
        const WORST: f64 = 0.01;
        some_nodes(&forest)?;
        let longest = forest.diameter_length();
        let lengths = || forest.edges().map(|e| f64::from(e.2));
        let sum = if lengths().all(|l| l == 1.0) {
            Exponentials::on_steps(|d| profile(d), longest as u32, 1e-7)?
        } else {
            let shortest = lengths().filter(|l| *l > 0.0).fold(longest, f64::min);
            Exponentials::on_lengths(|d| profile(d), shortest, longest, 1e-7)?
        };
        if sum.error > WORST {
            return Err(Error::value(
                "fit of a smooth tree mask",
                format!("a relative error of at most {WORST}"),
                format!("{:.3e} with {} exponentials", sum.error, sum.terms.len()),
                "only functions that fall ever more slowly are sums of exponentials, and lengths must not be too far from theirs: scale them, or use a table of distances",
            ));
        }
        let pieces = Pieces::new(&forest);
        let factors = sum.terms.iter().map(|t| pieces.factors(t.1)).collect::<Result<Vec<_>>>()?;
        Ok(Self { forest, rule: Rule::Smooth { profile, sum, pieces, factors } })
    }

    /// The forest.
    pub fn forest(&self) -> &Forest {
        &self.forest
    }

    /// How products are computed.
    pub fn path(&self) -> TreePath {
        match &self.rule {
            Rule::Exponential { .. } => TreePath::Sweeps,
            Rule::Smooth { .. } => TreePath::SumOfSweeps,
            Rule::Balls { .. } => TreePath::Balls,
            Rule::Levels { .. } => TreePath::Levels,
            Rule::Cuts { .. } => TreePath::Cuts,
        }
    }

    /// The sum of exponentials, where it is one.
    pub fn fit(&self) -> Option<&Exponentials> {
        match &self.rule {
            Rule::Smooth { sum, .. } => Some(sum),
            _ => None,
        }
    }

    /// The weight at a distance, by definition.
    fn at(&self, distance: f64) -> f64 {
        if distance.is_infinite() {
            return 0.0;
        }
        match &self.rule {
            Rule::Exponential { lambda, .. } => (-lambda * distance).exp(),
            Rule::Smooth { profile, .. } => profile(distance),
            Rule::Balls { f, .. } | Rule::Levels { f, .. } | Rule::Cuts { f, .. } => {
                f.get(distance.round() as usize).copied().unwrap_or(0.0)
            }
        }
    }

    /// Distances as the mask counts them: lengths, or steps.
    fn distances_from(&self, node: u32) -> Result<Vec<f64>> {
        match &self.rule {
            Rule::Exponential { .. } | Rule::Smooth { .. } => Ok(oracle::distances_from(&self.forest, node)),
            Rule::Balls { .. } | Rule::Levels { .. } | Rule::Cuts { .. } => {
                let steps = Forest::from_parents(self.forest.parents(), None)?;
                Ok(oracle::distances_from(&steps, node))
            }
        }
    }

    fn record(&self, graph: &mut Graph, x: Tensor) -> Result<Tensor> {
        super::operator::check(self, x)?;
        match &self.rule {
            Rule::Exponential { pieces, factors, .. } => {
                Sweeps::new(graph, pieces, 1)?.record(graph, [(1.0, factors.as_slice())], x)
            }
            Rule::Smooth { sum, pieces, factors, .. } => {
                let terms = sum.terms.iter().map(|term| term.0).zip(factors.iter().map(Vec::as_slice));
                Sweeps::new(graph, pieces, sum.terms.len())?.record(graph, terms, x)
            }
            Rule::Balls { rows, .. } => rows.record(graph, x),
            Rule::Levels { f, plan } => plan.record(graph, f, x),
            Rule::Cuts { f, plan } => plan.record(graph, f, x),
        }
    }
}

impl Balls {
    /// The nodes that each one reaches; `None` where they are more than `limit` in all.
    fn new(forest: &Forest, f: &[f64], limit: usize) -> Option<Self> {
        let n = forest.nodes();
        let reach = f.len().saturating_sub(1);
        let mut balls = Self { starts: vec![0], columns: Vec::new(), weights: Vec::new(), longest: 0 };
        let mut row: Vec<(u32, u32, u32)> = Vec::new();
        let (order, starts) = (forest.order(), forest.child_starts());
        for i in 0..n as u32 {
            row.clear();
            row.push((i, NONE, 0));
            let mut at = 0;
            while at < row.len() && balls.columns.len() + row.len() <= limit {
                let (node, from, steps) = row[at];
                at += 1;
                if steps as usize >= reach {
                    continue;
                }
                let place = forest.places()[node as usize] as usize;
                let children = order[starts[place] as usize..starts[place + 1] as usize].iter().copied();
                let parent = Some(forest.parents()[node as usize]).filter(|p| *p != NONE);
                row.extend(children.chain(parent).filter(|j| *j != from).map(|j| (j, node, steps + 1)));
            }
            if balls.columns.len() + row.len() > limit {
                return None;
            }
            row.sort_unstable_by_key(|r| r.0);
            let near = row.iter().map(|(j, _, d)| (*j, f.get(*d as usize).copied().unwrap_or(0.0)));
            near.filter(|r| r.1 != 0.0).for_each(|(j, w)| {
                balls.columns.push(j);
                balls.weights.push(w as f32);
            });
            let end = balls.columns.len() as u32;
            balls.longest = balls.longest.max(end - balls.starts.last().copied().unwrap_or(0));
            balls.starts.push(end);
        }
        Some(balls)
    }

    fn record(&self, graph: &mut Graph, x: Tensor) -> Result<Tensor> {
        let words = |graph: &mut Graph, name: &str, list: &[u32]| -> Result<Tensor> {
            Ok(graph.constant(name, HostTensor::new([list.len() as u32], HostData::U32(list.to_vec()))?))
        };
        let starts = words(graph, "starts of balls", &self.starts)?;
        let columns = words(graph, "nodes in reach", &self.columns)?;
        let weights = HostTensor::f32([self.weights.len() as u32], self.weights.clone())?;
        let weights = graph.constant("their weights", weights);
        let out = graph.transient("M x", x.shape(), DType::F32);
        graph.pass(
            &spmm::SPEC,
            &spmm::Params { longest: self.longest, ..spmm::Params::default() },
            &[Some(starts), Some(columns), Some(weights), None, Some(x), None, Some(out)],
        )?;
        Ok(out)
    }
}

impl MaskOperator for TreeMask {
    fn describe(&self) -> String {
        let (nodes, trees) = (self.forest.nodes(), self.forest.trees());
        let what = match &self.rule {
            Rule::Exponential { lambda, .. } => format!("exp(−{} · distance)", Short(*lambda)),
            Rule::Smooth { sum, .. } => {
                format!("smooth weights within {:.1e} by {} exponentials", sum.error, sum.terms.len())
            }
            Rule::Balls { f, .. } | Rule::Levels { f, .. } | Rule::Cuts { f, .. } => {
                format!("weights of up to {} steps", f.len().saturating_sub(1))
            }
        };
        let trees = if trees == 1 { "a tree".to_string() } else { format!("{trees} trees") };
        format!("{what} on {trees} of {nodes} nodes, by {}", self.path())
    }

    fn tokens(&self) -> u32 {
        self.forest.nodes() as u32
    }

    fn heads(&self) -> u32 {
        1
    }

    fn weight(&self, _: u32, i: u32, j: u32) -> f64 {
        self.distances_from(i)
            .ok()
            .and_then(|list| list.get(j as usize).copied())
            .map_or(0.0, |distance| self.at(distance))
    }

    fn exactness(&self) -> Exactness {
        match &self.rule {
            Rule::Levels { .. } | Rule::Cuts { .. } => Exactness::Noise,
            // Signed weights cancel.
            Rule::Balls { f, .. } if f.iter().any(|w| *w < 0.0) => Exactness::Noise,
            _ => Exactness::Relative,
        }
    }

    fn flop(&self) -> f64 {
        let n = f64::from(self.tokens());
        match &self.rule {
            Rule::Exponential { .. } => 11.0 * n,
            Rule::Smooth { sum, .. } => 13.0 * n * sum.terms.len() as f64,
            Rule::Balls { rows, .. } => 2.0 * rows.columns.len() as f64,
            Rule::Levels { plan, .. } => plan.flop(),
            Rule::Cuts { plan, .. } => plan.flop(),
        }
    }

    fn apply(&self, graph: &mut Graph, x: Tensor) -> Result<Tensor> {
        self.record(graph, x)
    }

    /// The same: distances are symmetric.
    fn apply_transposed(&self, graph: &mut Graph, x: Tensor) -> Result<Tensor> {
        self.record(graph, x)
    }

    fn parameter_gradient(&self) -> ParameterGradient {
        ParameterGradient::Declared(match self.path() {
            TreePath::Sweeps => {
                "dλ = −Σ_c Σ_ij dY_ic dist(i, j) exp(−λ dist(i, j)) D_jc, by sweeps of x and of distances times x"
            }
            TreePath::SumOfSweeps => "dw_k = Σ_c Σ_i dY_ic (M_k D)_ic for the weight of each exponential",
            _ => "df[d] = Σ_c Σ_{dist(i, j) = d} dY_ic D_jc, by the histograms of the forward pass",
        })
    }

    fn dense(&self, _: u32) -> Vec<f64> {
        let row = |i| self.distances_from(i).unwrap_or_default();
        (0..self.tokens()).flat_map(row).map(|d| self.at(d)).collect()
    }
}
