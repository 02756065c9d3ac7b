//! Kernels of nodes made of walks, exactly and densely in f64: oracles for small networks.
//!
//! P = D⁻¹A steps along an edge in proportion to its weight; from a node without edges nothing goes on, so its row of P is 0 and a walk
//! from it is the node itself.

use super::Network;
use crate::error::{Error, Result};
use std::str::FromStr;

/// How masks M are made of F.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Normalisation {
    /// F Fᵀ.
    Raw,
    /// F Fᵀ with rows of F of length 1: the diagonal is 1.
    #[default]
    Cosine,
    /// Fᵢⱼ / Fᵢᵢ, not symmetric.
    Diagonal,
    /// (Fᵢⱼ − minⱼ Fᵢⱼ) / (maxⱼ Fᵢⱼ − minⱼ Fᵢⱼ); a row of equal values gives zeros.
    MinMax,
}

impl Normalisation {
    /// All of them with the names that commands use.
    pub const ALL: [(&str, Self); 4] =
        [("raw", Self::Raw), ("cosine", Self::Cosine), ("diag", Self::Diagonal), ("minmax", Self::MinMax)];

    /// The mask `[n, n]` of features F `[n, n]`.
    pub fn mask(self, f: &[f64], n: usize) -> Vec<f64> {
        let row = |i: usize| &f[i * n..(i + 1) * n];
        let dot = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f64>();
        let quotient = |a: f64, b: f64| if b > 0.0 { a / b } else { 0.0 };
        let lengths: Vec<f64> = (0..n).map(|i| dot(row(i), row(i)).sqrt()).collect();
        let mut out = Vec::with_capacity(n * n);
        for i in 0..n {
            let (low, high) =
                row(i).iter().fold((f64::INFINITY, f64::NEG_INFINITY), |(l, h), x| (l.min(*x), h.max(*x)));
            out.extend((0..n).map(|j| match self {
                Self::Raw => dot(row(i), row(j)),
                Self::Cosine => quotient(dot(row(i), row(j)), lengths[i] * lengths[j]),
                Self::Diagonal => quotient(row(i)[j], row(i)[i]),
                Self::MinMax => quotient(row(i)[j] - low, high - low),
            }));
        }
        out
    }
}

impl FromStr for Normalisation {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let found = Self::ALL.iter().find(|(name, _)| *name == text).map(|(_, kind)| *kind);
        found.ok_or_else(|| {
            let names = Self::ALL.map(|(name, _)| name).join(", ");
            Error::value("normalisation of a walk kernel", names, text, "choose one of them")
        })
    }
}

/// P X or Pᵀ X for X `[n, channels]`, node by node.
///
/// Errors: [`Error::Value`] for `x` of another size.
pub fn step(network: &Network, x: &[f64], channels: usize, transposed: bool) -> Result<Vec<f64>> {
    super::spectrum::check_values(network, x, channels)?;
    let degrees = network.degrees();
    let mut out = vec![0.0; x.len()];
    for (i, j, w) in network.edges() {
        let share = f64::from(w) / degrees[i as usize];
        let (to, from) = if transposed { (j, i) } else { (i, j) };
        for c in 0..channels {
            out[to as usize * channels + c] += share * x[from as usize * channels + c];
        }
    }
    Ok(out)
}

/// F = Σ_{l < nodes} λ^l P^l, `[n, n]`: expected discounted visits of walks of so many nodes, the start counted.
///
/// Errors: [`Error::Value`] for λ outside of 0 to 1, and walks of no node.
pub fn walk_features(network: &Network, nodes: u32, lambda: f64) -> Result<Vec<f64>> {
    check_lambda(lambda)?;
    if nodes == 0 {
        return Err(Error::value("nodes of a walk", "at least 1", nodes, "the start counts"));
    }
    let n = network.nodes();
    let mut power = identity(n);
    let mut sum = power.clone();
    for _ in 1..nodes {
        power = step(network, &power, n, false)?.iter().map(|x| lambda * x).collect();
        for (s, p) in sum.iter_mut().zip(&power) {
            *s += p;
        }
    }
    Ok(sum)
}

/// Personalised PageRank a Σ_l (1 − a)^l P^l, `[n, n]`; row i is the walker that starts again at i with probability a per step.
///
/// Errors: [`Error::Value`] for a restart not above 1e-3 and up to 1: the series would need more than 40 000 terms.
pub fn pagerank(network: &Network, restart: f64) -> Result<Vec<f64>> {
    if !(1e-3..=1.0).contains(&restart) {
        return Err(Error::value("restart of PageRank", "0.001 to 1", restart, "0.15 is usual"));
    }
    let n = network.nodes();
    let mut power: Vec<f64> = identity(n).iter().map(|x| restart * x).collect();
    let mut sum = power.clone();
    // What is left out is less than (1 − a)^terms of 1.
    let terms = (38.0 / restart).ceil() as usize;
    for _ in 0..terms {
        power = step(network, &power, n, false)?.iter().map(|x| (1.0 - restart) * x).collect();
        if power.iter().all(|x| *x == 0.0) {
            break;
        }
        for (s, p) in sum.iter_mut().zip(&power) {
            *s += p;
        }
    }
    Ok(sum)
}

/// Σ_k a_k W^k, `[n, n]`, W the network's weights: what graph random features estimate.
///
/// Errors: none but those of a network too large for memory.
pub fn power_series(network: &Network, a: &[f64]) -> Result<Vec<f64>> {
    let n = network.nodes();
    let mut power = identity(n);
    let mut sum = vec![0.0; n * n];
    for (k, a) in a.iter().enumerate() {
        if k > 0 {
            power = super::spectrum::adjacency(network, &power, n)?;
        }
        for (s, p) in sum.iter_mut().zip(&power) {
            *s += a * p;
        }
    }
    Ok(sum)
}

pub(crate) fn check_lambda(lambda: f64) -> Result<()> {
    match (0.0..=1.0).contains(&lambda) {
        true => Ok(()),
        false => Err(Error::value("λ of a walk kernel", "0 to 1", lambda, "1 weighs all steps alike")),
    }
}

fn identity(n: usize) -> Vec<f64> {
    (0..n * n).map(|at| if at % (n + 1) == 0 { 1.0 } else { 0.0 }).collect()
}
