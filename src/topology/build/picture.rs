//! Pictures as networks and trees: neighbouring tokens joined the more weakly the more their colours differ, the tree along the least
//! differences, and the quadtree of even squares.
//!
//! Colours are whatever the caller compares with: three numbers per token, `[n, 3]`, tokens in raster order.

use super::lattice::{Reach, check_size};
use super::spanning::{Extreme, kruskal};
use crate::error::{Error, Result};
use crate::topology::network::LEAST_WEIGHT;
use crate::topology::{Forest, NONE, Network};
use std::f64::consts::SQRT_2;

/// A picture of tokens, one colour each.
#[derive(Clone, Copy, Debug)]
pub struct Picture<'a> {
    colours: &'a [f32],
    rows: usize,
    cols: usize,
}

/// A picture's quadtree: squares split until each is even.
#[derive(Clone, Debug, PartialEq)]
pub struct Quadtree {
    /// The squares below those that were split; node 0 is the whole picture.
    pub forest: Forest,
    /// `[nodes]` first row, first column, rows and columns of each square.
    pub squares: Vec<[u32; 4]>,
    /// `[n]` the smallest square that each token lies in.
    pub leaf_of: Vec<u32>,
}

impl<'a> Picture<'a> {
    /// Colours `[rows · cols, 3]` in raster order.
    ///
    /// Errors: [`Error::Value`] for another number of them, or one that is not finite, by its token.
    pub fn new(colours: &'a [f32], rows: usize, cols: usize) -> Result<Self> {
        let tokens = rows.saturating_mul(cols);
        check_size("picture", tokens, tokens.saturating_mul(8))?;
        if colours.len() != 3 * tokens {
            return Err(Error::value(
                "colours of a picture",
                format!("{rows} × {cols} tokens × 3"),
                colours.len(),
                "give each token three numbers, in raster order",
            ));
        }
        if let Some(at) = colours.iter().position(|x| !x.is_finite()) {
            return Err(Error::value(
                format!("colour of token {} (row {}, column {})", at / 3, at / 3 / cols, at / 3 % cols),
                "finite numbers",
                colours[at],
                "repair the picture",
            ));
        }
        Ok(Self { colours, rows, cols })
    }

    /// Neighbours joined with weight exp(−sensitivity · ‖colour difference‖ / distance), where the distance is 1, or √2 on diagonals:
    /// what counts is how steeply colours change. Weights below 1e-30 are cuts.
    ///
    /// Obstacles are cut with [`Network::without_nodes`] or [`Network::without_edges`], links added with [`Network::with_edges`].
    ///
    /// Errors: [`Error::Value`] for a sensitivity that is negative or not finite.
    pub fn network(&self, reach: Reach, sensitivity: f32) -> Result<Network> {
        check_factor("sensitivity of a picture's network", sensitivity)?;
        let steps = reach.steps(2);
        let tokens = self.rows * self.cols;
        let mut starts = Vec::with_capacity(tokens + 1);
        starts.push(0);
        let mut columns = Vec::with_capacity(tokens * steps.len());
        let mut weights = Vec::with_capacity(tokens * steps.len());
        for i in 0..tokens {
            for step in &steps {
                let Some(j) = self.beside(i, step) else { continue };
                let distance = if step[0] != 0 && step[1] != 0 { SQRT_2 } else { 1.0 };
                let weight = (-f64::from(sensitivity) * self.difference(i, j) / distance).exp() as f32;
                if weight >= LEAST_WEIGHT {
                    columns.push(j as u32);
                    weights.push(weight);
                }
            }
            starts.push(columns.len() as u32);
        }
        Ok(Network::of_rows(starts, columns, Some(weights)))
    }

    /// The spanning tree along the least colour differences, rooted at token 0; an edge is `step` · distance + `sensitivity` ·
    /// ‖colour difference‖ long (distance 1, or √2 on diagonals). With `step` 0 lengths between equal colours are 0.
    ///
    /// Errors: [`Error::Value`] for factors that are negative or not finite, and lengths beyond 1e±30.
    pub fn tree(&self, reach: Reach, step: f32, sensitivity: f32) -> Result<Forest> {
        check_factor("step of a picture's tree", step)?;
        check_factor("sensitivity of a picture's tree", sensitivity)?;
        let forward: Vec<_> =
            reach.steps(2).into_iter().filter(|s| s[0] > 0 || (s[0] == 0 && s[1] > 0)).collect();
        let tokens = self.rows * self.cols;
        let mut edges = Vec::with_capacity(tokens * forward.len());
        for i in 0..tokens {
            for s in &forward {
                let Some(j) = self.beside(i, s) else { continue };
                let distance = if s[0] != 0 && s[1] != 0 { SQRT_2 } else { 1.0 };
                let length = f64::from(step) * distance + f64::from(sensitivity) * self.difference(i, j);
                edges.push((i as u32, j as u32, length as f32));
            }
        }
        let kept = kruskal(tokens, &edges, Extreme::Least);
        // Through rows without weights: a network cannot hold an edge of length 0, a forest can.
        let pairs: Vec<_> = kept.iter().map(|e| (e.0, e.1)).collect();
        let shape = Forest::from_network(&Network::undirected(tokens, &pairs)?, &[])?;
        let mut lengths = vec![0.0; tokens];
        for (i, j, length) in kept {
            let child = if shape.parents()[i as usize] == j { i } else { j };
            lengths[child as usize] = length;
        }
        Forest::from_parents(shape.parents(), Some(&lengths))
    }

    /// Squares split in four (by halves, the first half the larger) until no channel differs by more than `evenness` within any, or they
    /// are single tokens; edges have length 1.
    ///
    /// Errors: [`Error::Value`] for an evenness that is negative or not finite.
    pub fn quadtree(&self, evenness: f32) -> Result<Quadtree> {
        check_factor("evenness of a quadtree", evenness)?;
        let mut leaf_of = vec![NONE; self.rows * self.cols];
        let (mut squares, mut parents) = (Vec::new(), Vec::new());
        if !leaf_of.is_empty() {
            squares.push([0, 0, self.rows as u32, self.cols as u32]);
            parents.push(NONE);
        }
        let mut at = 0;
        while at < squares.len() {
            let square @ [row, col, rows, cols] = squares[at];
            if self.spread(square) <= evenness {
                for r in row..row + rows {
                    let first = r as usize * self.cols + col as usize;
                    leaf_of[first..first + cols as usize].fill(at as u32);
                }
            } else {
                let halves = |from: u32, length: u32| {
                    let first = length.div_ceil(2);
                    [(from, first), (from + first, length - first)]
                };
                for (r, h) in halves(row, rows) {
                    for (c, w) in halves(col, cols).into_iter().filter(|_| h > 0) {
                        if w > 0 {
                            squares.push([r, c, h, w]);
                            parents.push(at as u32);
                        }
                    }
                }
            }
            at += 1;
        }
        Ok(Quadtree { forest: Forest::from_parents(&parents, None)?, squares, leaf_of })
    }

    /// Greatest difference of a channel within a square.
    fn spread(&self, [row, col, rows, cols]: [u32; 4]) -> f32 {
        let (mut low, mut high) = ([f32::INFINITY; 3], [f32::NEG_INFINITY; 3]);
        for r in row..row + rows {
            for c in col..col + cols {
                for (channel, x) in self.colour(r as usize * self.cols + c as usize).iter().enumerate() {
                    low[channel] = low[channel].min(*x);
                    high[channel] = high[channel].max(*x);
                }
            }
        }
        low.iter().zip(high).map(|(l, h)| h - l).fold(0.0, f32::max)
    }

    fn colour(&self, token: usize) -> &[f32] {
        &self.colours[3 * token..3 * token + 3]
    }

    /// In f64: squares of large colours would overflow f32.
    fn difference(&self, i: usize, j: usize) -> f64 {
        let gaps = self.colour(i).iter().zip(self.colour(j)).map(|(a, b)| f64::from(*a) - f64::from(*b));
        gaps.map(|gap| gap * gap).sum::<f64>().sqrt()
    }

    fn beside(&self, token: usize, step: &[i64]) -> Option<usize> {
        let (r, c) = ((token / self.cols) as i64 + step[0], (token % self.cols) as i64 + step[1]);
        let inside = (0..self.rows as i64).contains(&r) && (0..self.cols as i64).contains(&c);
        inside.then(|| r as usize * self.cols + c as usize)
    }
}

fn check_factor(what: &str, x: f32) -> Result<()> {
    match (0.0..f32::INFINITY).contains(&x) {
        true => Ok(()),
        false => Err(Error::value(what, "at least 0 and finite", x, "use a positive number")),
    }
}
