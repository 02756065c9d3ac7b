//! Random walks that every backend repeats: a step is a function of a 32-bit word, and the word one of a counter.
//!
//! From a node with d edges of equal weight the step goes to neighbour ⌊word · d / 2³²⌋, the high half of a 32 × 32-bit product; the shares
//! of two neighbours differ by at most 2⁻³². With weights it goes to the first neighbour whose limit lies above the word, the limits being
//! ⌊2³² · cumulated share⌋, integers from the CPU. Neither needs a float, so nothing depends on rounding.

use super::Network;
use crate::error::{Error, Result};
use crate::random::{Place, Purpose};
use rayon::prelude::*;

/// Rows of a matrix whose values may have any sign: what walks leave behind.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Rows {
    /// `[n + 1]` beginnings of the rows.
    pub starts: Vec<u32>,
    /// `[z]` columns, ascending in each row.
    pub columns: Vec<u32>,
    /// `[z]` values.
    pub values: Vec<f64>,
}

impl Rows {
    fn of(lists: Vec<Vec<(u32, f64)>>) -> Self {
        let mut rows = Self { starts: vec![0], ..Self::default() };
        for mut list in lists {
            // Stable: visits of one node are added in the order of the walks.
            list.sort_by_key(|e| e.0);
            for same in list.chunk_by(|a, b| a.0 == b.0) {
                rows.columns.push(same[0].0);
                rows.values.push(same.iter().map(|e| e.1).sum());
            }
            rows.starts.push(rows.columns.len() as u32);
        }
        rows
    }

    /// All entries, `[n, n]`.
    pub fn dense(&self) -> Vec<f64> {
        let n = self.starts.len().saturating_sub(1);
        let mut out = vec![0.0; n * n];
        for i in 0..n {
            for e in self.starts[i] as usize..self.starts[i + 1] as usize {
                out[i * n + self.columns[e] as usize] = self.values[e];
            }
        }
        out
    }
}

/// Walks over one network.
#[derive(Clone, Debug)]
pub struct Walker<'a> {
    network: &'a Network,
    limits: Option<Vec<u32>>,
    /// Seed of the words.
    pub seed: u64,
    /// Which of up to 256 independent sets of walks.
    pub set: u32,
}

/// Most walks from one node: their number shares a word of the counter.
pub const MOST_WALKS: u32 = 1 << 20;
/// Most draws of one walk.
pub const MOST_DRAWS: u32 = 1 << 14;

impl<'a> Walker<'a> {
    /// Walks over `network` from a seed; `set` chooses one of 256 independent sets.
    ///
    /// Errors: [`Error::Value`] for a set of 256 or more.
    pub fn new(network: &'a Network, seed: u64, set: u32) -> Result<Self> {
        if set >= 256 {
            return Err(Error::value("set of walks", "0 to 255", set, "use another seed"));
        }
        Ok(Self { network, limits: network.weights().map(|_| limits(network)), seed, set })
    }

    /// `[z]` limits of a weighted network's steps; none where all weights are 1.
    pub fn limits(&self) -> Option<&[u32]> {
        self.limits.as_deref()
    }

    /// The word of a draw: word draw mod 4 of the counter (start, walk | (draw / 4) · 2²⁰, `u32::MAX`, 9 · 2²⁴ | set), see [`Place`]; 0 out of
    /// bounds.
    pub fn word(&self, start: u32, walk: u32, draw: u32) -> u32 {
        let place =
            Place { index: start, channel: walk, lane: draw, stream: self.set, ..Place::of(Purpose::Walk) };
        // In bounds: walks, draws and the set were checked before any walk began.
        place.word(self.seed).unwrap_or_default()
    }

    /// Position among all stored edges of the one that a word takes from `node`; none where there are no edges.
    pub fn step(&self, node: u32, word: u32) -> Option<usize> {
        let range = self.network.range(node);
        if range.is_empty() {
            return None;
        }
        let within = match &self.limits {
            None => ((u64::from(word) * range.len() as u64) >> 32) as usize,
            // The last limit stands for 2³², which a word cannot hold.
            Some(limits) => limits[range.start..range.end - 1].partition_point(|l| *l <= word),
        };
        Some(range.start + within)
    }

    /// The nodes of a walk: the start and up to `nodes` − 1 more; it ends early where no edge leads on. Step l takes draw l.
    pub fn walk(&self, start: u32, walk: u32, nodes: u32) -> impl Iterator<Item = u32> + '_ {
        let mut draw = 0;
        std::iter::successors((nodes > 0).then_some(start), move |&node| {
            if draw + 1 >= nodes {
                return None;
            }
            let edge = self.step(node, self.word(start, walk, draw));
            draw += 1;
            edge.map(|e| self.network.columns()[e])
        })
    }

    /// The random-walk kernel's F as `walks` walks per node show it: F(i, k) is the mean over the walks from i of Σ_l λ^l [at k at step l],
    /// l below `nodes`. The expectation is [`super::kernel::walk_features`].
    ///
    /// Errors: [`Error::Value`] for more than [`MOST_WALKS`] walks or [`MOST_DRAWS`] nodes, none of them, or λ that is not in 0 to 1.
    pub fn features(&self, walks: u32, nodes: u32, lambda: f64) -> Result<Rows> {
        check_walks(walks, nodes)?;
        super::kernel::check_lambda(lambda)?;
        let share = 1.0 / f64::from(walks);
        let row = |start: u32| -> Vec<(u32, f64)> {
            let visits = (0..walks).flat_map(|w| self.walk(start, w, nodes).enumerate());
            visits.map(|(l, k)| (k, share * lambda.powi(l as i32))).collect()
        };
        Ok(Rows::of((0..self.network.nodes() as u32).into_par_iter().map(row).collect()))
    }

    /// Graph random features: Φ with E[Φ₁ Φ₂ᵀ] = Σ_k a_k W^k for two sets of walks, where a is `modulation` folded with itself and W the
    /// network's weights, loops included.
    ///
    /// A walk leaves load · `modulation[l]` where it stands at step l, ends with probability `halt` (draw 2l) or where no edge leads on, and
    /// else goes to any neighbour with equal chances (draw 2l + 1), the load being multiplied by W · degree / (1 − halt). It ends for certain
    /// behind the modulation's last entry. Source: general graph random features (arXiv 2310.04859).
    ///
    /// Errors: [`Error::Value`] for `halt` outside of 0 to 0.99, too many walks, or a modulation that is empty or too long.
    pub fn random_features(&self, walks: u32, halt: f64, modulation: &[f64]) -> Result<Rows> {
        let length = u32::try_from(modulation.len()).unwrap_or(u32::MAX);
        check_walks(walks, length.saturating_mul(2))?;
        if !(0.0..=0.99).contains(&halt) {
            return Err(Error::value("chance to halt a walk", "0 to 0.99", halt, "0.1 is usual"));
        }
        let threshold = (halt * 2.0_f64.powi(32)) as u32;
        // The chance that the threshold stands for, or the estimate would be biased by its rounding.
        let on = 1.0 - f64::from(threshold) / 2.0_f64.powi(32);
        let share = 1.0 / f64::from(walks);
        let row = |start: u32| -> Vec<(u32, f64)> {
            let mut list = Vec::new();
            for walk in 0..walks {
                let (mut node, mut load) = (start, share);
                for l in 0..length {
                    list.push((node, load * modulation[l as usize]));
                    let range = self.network.range(node);
                    let degree = range.len();
                    if l + 1 == length || degree == 0 || self.word(start, walk, 2 * l) < threshold {
                        break;
                    }
                    let word = self.word(start, walk, 2 * l + 1);
                    let edge = range.start + ((u64::from(word) * degree as u64) >> 32) as usize;
                    let weight = self.network.weights().map_or(1.0, |w| f64::from(w[edge]));
                    load *= weight * degree as f64 / on;
                    node = self.network.columns()[edge];
                }
            }
            list
        };
        Ok(Rows::of((0..self.network.nodes() as u32).into_par_iter().map(row).collect()))
    }
}

/// ⌊2³² · cumulated share⌋ of every edge within its row; the last of a row is never looked at.
fn limits(network: &Network) -> Vec<u32> {
    let mut out = Vec::with_capacity(network.entries());
    for i in 0..network.nodes() as u32 {
        let total: f64 = network.row(i).map(|e| f64::from(e.1)).sum();
        let mut sum = 0.0;
        for (_, w) in network.row(i) {
            sum += f64::from(w);
            out.push((sum / total * 2.0_f64.powi(32)).min(f64::from(u32::MAX)) as u32);
        }
    }
    out
}

fn check_walks(walks: u32, draws: u32) -> Result<()> {
    if (1..=MOST_WALKS).contains(&walks) && (1..=MOST_DRAWS).contains(&draws) {
        return Ok(());
    }
    Err(Error::value(
        "walks from a node, and draws of a walk",
        format!("1 to {MOST_WALKS}, and 1 to {MOST_DRAWS}"),
        format!("{walks} and {draws}"),
        "take several sets of walks, or shorter ones",
    ))
}

/// The modulation g with (g * g)_k = a_k, so that random features have the kernel Σ a_k W^k: g₀ = √a₀, then term by term.
///
/// Errors: [`Error::Value`] for an empty list, a₀ ≤ 0, or a number that is not finite.
pub fn modulation(a: &[f64]) -> Result<Vec<f64>> {
    if a.first().is_none_or(|x| *x <= 0.0) || a.iter().any(|x| !x.is_finite()) {
        return Err(Error::value(
            "power series of a kernel of walks",
            "finite terms, the first above 0",
            format!("{a:?}"),
            "scale the kernel so that its first term is positive",
        ));
    }
    let mut g = vec![a[0].sqrt()];
    for k in 1..a.len() {
        let known: f64 = (1..k).map(|j| g[j] * g[k - j]).sum();
        g.push((a[k] - known) / (2.0 * g[0]));
    }
    Ok(g)
}
