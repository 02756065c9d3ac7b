//! Laplacians of networks, bounds of their eigenvalues component by component, and their products in f64.
//!
//! A bound for the whole network is not enough where one component has much smaller eigenvalues than another: the series of
//! [`super::chebyshev`] would lose that component's values under the other's rounding (measured: relative error 3 in f32 for a complete
//! network beside a tree). So every bound here is one per component.

use super::Network;
use crate::error::{Error, Result};
use std::fmt;
use std::str::FromStr;

/// Which matrix diffuses. Loops do not count, and the row of a node without neighbours is 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Laplacian {
    /// D − A: rows of exp(−tL) sum to 1 and are symmetric.
    #[default]
    Combinatorial,
    /// I − D^−½ A D^−½: symmetric, eigenvalues 0 to 2 whatever the weights.
    Symmetric,
    /// I − D^−1 A: rows of exp(−tL) sum to 1, not symmetric, eigenvalues as above.
    RandomWalk,
}

impl Laplacian {
    /// All kinds with the names that commands use.
    pub const ALL: [(&str, Self); 3] = [
        ("combinatorial", Self::Combinatorial),
        ("symmetric", Self::Symmetric),
        ("random-walk", Self::RandomWalk),
    ];

    /// L X for X `[n, channels]`, node by node, in f64.
    ///
    /// Errors: [`Error::Value`] for `x` of another size.
    pub fn apply(self, network: &Network, x: &[f64], channels: usize) -> Result<Vec<f64>> {
        check_values(network, x, channels)?;
        let degrees = plain_degrees(network);
        let mut out = vec![0.0; x.len()];
        for i in 0..network.nodes() as u32 {
            let d = degrees[i as usize];
            if d == 0.0 {
                continue;
            }
            let row = &mut out[i as usize * channels..][..channels];
            for (j, w) in network.row(i).filter(|e| e.0 != i) {
                let w = f64::from(w)
                    * match self {
                        Self::Combinatorial => 1.0,
                        Self::Symmetric => 1.0 / (d.sqrt() * degrees[j as usize].sqrt()),
                        Self::RandomWalk => 1.0 / d,
                    };
                for (y, v) in row.iter_mut().zip(&x[j as usize * channels..]) {
                    *y -= w * v;
                }
            }
            let diagonal = if self == Self::Combinatorial { d } else { 1.0 };
            for (y, v) in row.iter_mut().zip(&x[i as usize * channels..]) {
                *y += diagonal * v;
            }
        }
        Ok(out)
    }

    /// Upper bounds of the eigenvalues, one per connected component, numbered as [`Network::components`] does; 0 for lone nodes.
    ///
    /// 2 for the normalised kinds; the greatest dᵢ + dⱼ of an edge for the combinatorial one (Anderson and Morley), which is at most
    /// twice the greatest degree.
    ///
    /// Errors: [`Error::Value`] for a directed network.
    pub fn bounds(self, network: &Network) -> Result<Vec<f64>> {
        network.check_symmetric("a Laplacian")?;
        let components = network.components();
        let degrees = plain_degrees(network);
        let mut bounds = vec![0.0_f64; components.count];
        for (i, j, _) in network.edges().filter(|(i, j, _)| i != j) {
            let bound = &mut bounds[components.of[i as usize] as usize];
            *bound = bound.max(match self {
                Self::Combinatorial => degrees[i as usize] + degrees[j as usize],
                Self::Symmetric | Self::RandomWalk => 2.0,
            });
        }
        Ok(bounds)
    }
}

impl fmt::Display for Laplacian {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = Self::ALL.iter().find(|(_, kind)| kind == self).map_or("", |(name, _)| *name);
        f.write_str(name)
    }
}

impl FromStr for Laplacian {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let found = Self::ALL.iter().find(|(name, _)| *name == text).map(|(_, kind)| *kind);
        found.ok_or_else(|| {
            Error::value("Laplacian", Self::ALL.map(|(name, _)| name).join(", "), text, "choose one of them")
        })
    }
}

/// A X in f64, loops included.
///
/// Errors: [`Error::Value`] for `x` of another size than `[n, channels]`.
pub fn adjacency(network: &Network, x: &[f64], channels: usize) -> Result<Vec<f64>> {
    check_values(network, x, channels)?;
    let mut out = vec![0.0; x.len()];
    for (i, j, w) in network.edges() {
        for c in 0..channels {
            out[i as usize * channels + c] += f64::from(w) * x[j as usize * channels + c];
        }
    }
    Ok(out)
}

/// Upper bounds of the greatest eigenvalue of A, one per connected component (0 for lone nodes without a loop), for exp(tA).
///
/// The greatest row sum, tightened by `steps` power steps: for any positive x, no eigenvalue exceeds the greatest (A x)ᵢ / xᵢ (Collatz and
/// Wielandt). Half the first bound is added to the diagonal meanwhile, or bipartite networks would swing between two vectors.
///
/// Errors: [`Error::Value`] for a directed network.
pub fn adjacency_bounds(network: &Network, steps: usize) -> Result<Vec<f64>> {
    network.check_symmetric("exp(tA)")?;
    let components = network.components();
    let greatest = |values: &[f64]| {
        let mut most = vec![0.0_f64; components.count];
        for (v, c) in values.iter().zip(&components.of) {
            most[*c as usize] = most[*c as usize].max(*v);
        }
        most
    };
    let mut bounds = greatest(&network.degrees());
    let shift: Vec<f64> = bounds.iter().map(|b| 0.5 * b).collect();
    let shift_of = |i: usize| shift[components.of[i] as usize];
    let mut x = vec![1.0; network.nodes()];
    for _ in 0..steps {
        let mut y = adjacency(network, &x, 1)?;
        let ratios: Vec<f64> = y.iter().zip(&x).map(|(y, x)| y / x).collect();
        for (bound, ratio) in bounds.iter_mut().zip(greatest(&ratios)) {
            // The quotient is rounded; a part in 10¹⁴ more keeps it a bound.
            *bound = bound.min(ratio * (1.0 + 1e-14));
        }
        for (i, y) in y.iter_mut().enumerate() {
            *y += shift_of(i) * x[i];
        }
        let sizes = greatest(&y);
        for (i, x) in x.iter_mut().enumerate() {
            let size = sizes[components.of[i] as usize];
            // Far from the hubs entries would sink to 0; any positive x is allowed.
            *x = if size > 0.0 { (y[i] / size).max(1e-100) } else { 1.0 };
        }
    }
    Ok(bounds)
}

/// The network with weights wᵢⱼ / √(dᵢ dⱼ), degrees without loops, loops dropped: eigenvalues between −1 and 1.
///
/// Errors: [`Error::Value`] for a directed network, or weights so uneven that one leaves 1e±30.
pub fn normalised(network: &Network) -> Result<Network> {
    network.check_symmetric("a normalised network")?;
    let degrees = plain_degrees(network);
    let plain = network.without_loops();
    plain.reweighted(|i, j, w| (f64::from(w) / (degrees[i as usize] * degrees[j as usize]).sqrt()) as f32)
}

/// `[n]` sums of weights, loops left out.
pub fn plain_degrees(network: &Network) -> Vec<f64> {
    let row = |i| network.row(i).filter(|e| e.0 != i).map(|e| f64::from(e.1)).sum();
    (0..network.nodes() as u32).map(row).collect()
}

pub(super) fn check_values(network: &Network, x: &[f64], channels: usize) -> Result<()> {
    if x.len() == network.nodes() * channels {
        return Ok(());
    }
    Err(Error::value(
        "values at the nodes of a network",
        format!("{} nodes × {channels} channels", network.nodes()),
        x.len(),
        "give every node its channels, one node after the other",
    ))
}
