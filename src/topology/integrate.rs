//! Diffusion as a differential equation, dX/dt = −L X, stepped through time: Crank–Nicolson and backward Euler. For comparison with the
//! kernel exp(−tL) itself, which [`chebyshev`](super::chebyshev) gives to any tolerance: these are not the production path.
//!
//! Both solve (I + hL) Y = B once per step, by conjugate gradients in f64. With m steps of t/m, backward Euler takes Y ← (I + (t/m) L)⁻¹ Y
//! and errs by O(1/m); Crank–Nicolson takes Y ← (I + (t/2m) L)⁻¹ (I − (t/2m) L) Y and errs by O(1/m²). Crank–Nicolson damps the fastest
//! waves by a factor near −1 only, so with few steps a sharp start rings: entries may be negative. Backward Euler never rings.

use super::Network;
use super::spectrum::{Laplacian, check_values, plain_degrees};
use crate::error::{Error, Result};

/// Most steps.
pub const MOST_STEPS: u32 = 1 << 16;

/// Residual of a solution, relative to its right-hand side, at which conjugate gradients stop.
const RESIDUAL: f64 = 1e-13;

/// A way through time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Scheme {
    /// Second order, may ring.
    CrankNicolson,
    /// First order, always smooth.
    BackwardEuler,
}

impl Scheme {
    /// Both with their names.
    pub const ALL: [(&str, Self); 2] =
        [("Crank–Nicolson", Self::CrankNicolson), ("backward Euler", Self::BackwardEuler)];

    /// Order of the error in the length of a step.
    pub fn order(self) -> u32 {
        match self {
            Self::CrankNicolson => 2,
            Self::BackwardEuler => 1,
        }
    }

    /// exp(−tL) X approximated by `steps` steps, for X `[n, channels]`, node by node; also the rounds of conjugate gradients in all.
    ///
    /// The random-walk Laplacian is not symmetric; it is stepped through as D^−½ L D^½, which is.
    ///
    /// Errors: [`Error::Value`] for t that is negative or not finite, 0 steps or more than [`MOST_STEPS`], a directed network, `x` of
    /// another size, and solutions that do not converge (t · λ far beyond f64). Source: method section 5, comparison C4b.
    pub fn heat(
        self,
        network: &Network,
        laplacian: Laplacian,
        (t, steps): (f64, u32),
        x: &[f64],
        channels: usize,
    ) -> Result<(Vec<f64>, u64)> {
        check_values(network, x, channels)?;
        network.check_symmetric("a differential equation of diffusion")?;
        if !(t >= 0.0 && t.is_finite()) {
            return Err(Error::value(
                "t of a diffusion",
                "at least 0 and finite",
                t,
                "diffusion does not run backwards",
            ));
        }
        if !(1..=MOST_STEPS).contains(&steps) {
            return Err(Error::value("steps through time", format!("1 to {MOST_STEPS}"), steps, "take 64"));
        }
        let system = System::of(network, laplacian);
        let length = t / f64::from(steps);
        let mut out = x.to_vec();
        let mut rounds = 0;
        for channel in 0..channels {
            let mut y: Vec<f64> = (0..network.nodes()).map(|i| x[i * channels + channel]).collect();
            system.forward(&mut y);
            for _ in 0..steps {
                let (right, h) = match self {
                    Self::BackwardEuler => (y.clone(), length),
                    Self::CrankNicolson => {
                        let product = system.times(&y);
                        let half = 0.5 * length;
                        (y.iter().zip(product).map(|(y, l)| y - half * l).collect(), half)
                    }
                };
                rounds += system.solve(h, &right, &mut y)?;
            }
            system.back(&mut y);
            for (i, y) in y.into_iter().enumerate() {
                out[i * channels + channel] = y;
            }
        }
        Ok((out, rounds))
    }
}

/// A symmetric Laplacian as rows, with what makes it so.
struct System {
    starts: Vec<u32>,
    columns: Vec<u32>,
    /// Off the diagonal, signs left out.
    weights: Vec<f64>,
    diagonal: Vec<f64>,
    /// √d of every node where the random-walk Laplacian was made symmetric.
    roots: Option<Vec<f64>>,
}

impl System {
    fn of(network: &Network, laplacian: Laplacian) -> Self {
        let degrees = plain_degrees(network);
        let kept = network.without_loops();
        let share = |i: u32, j: u32, w: f32| match laplacian {
            Laplacian::Combinatorial => f64::from(w),
            // Similar matrices: the random walk's is this one between D^−½ and D^½.
            Laplacian::Symmetric | Laplacian::RandomWalk => {
                f64::from(w) / (degrees[i as usize].sqrt() * degrees[j as usize].sqrt())
            }
        };
        let weights = kept.edges().map(|(i, j, w)| share(i, j, w)).collect();
        let diagonal = degrees.iter().map(|d| match laplacian {
            Laplacian::Combinatorial => *d,
            Laplacian::Symmetric | Laplacian::RandomWalk => f64::from(u8::from(*d > 0.0)),
        });
        let diagonal = diagonal.collect();
        let walks = laplacian == Laplacian::RandomWalk;
        // A lone node stays as it is: its row of L is 0.
        let roots = walks.then(|| degrees.iter().map(|d| if *d > 0.0 { d.sqrt() } else { 1.0 }).collect());
        Self { starts: kept.starts().to_vec(), columns: kept.columns().to_vec(), weights, diagonal, roots }
    }

    fn forward(&self, y: &mut [f64]) {
        for (y, root) in y.iter_mut().zip(self.roots.iter().flatten()) {
            *y *= root;
        }
    }

    fn back(&self, y: &mut [f64]) {
        for (y, root) in y.iter_mut().zip(self.roots.iter().flatten()) {
            *y /= root;
        }
    }

    /// L y.
    fn times(&self, y: &[f64]) -> Vec<f64> {
        let row = |(i, value): (usize, &f64)| {
            let range = self.starts[i] as usize..self.starts[i + 1] as usize;
            let others = self.columns[range.clone()].iter().zip(&self.weights[range]);
            self.diagonal[i] * value - others.map(|(j, w)| w * y[*j as usize]).sum::<f64>()
        };
        y.iter().enumerate().map(row).collect()
    }

    /// Solves (I + hL) y = `right` from where `y` is, preconditioned by the diagonal; the rounds it took.
    fn solve(&self, h: f64, right: &[f64], y: &mut [f64]) -> Result<u64> {
        let dot = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f64>();
        let scaled = |r: &[f64]| -> Vec<f64> {
            r.iter().zip(&self.diagonal).map(|(r, d)| r / (1.0 + h * d)).collect()
        };
        let whole = |y: &[f64]| -> Vec<f64> { self.times(y).iter().zip(y).map(|(l, y)| y + h * l).collect() };
        let goal = RESIDUAL * dot(right, right).sqrt();
        let mut rest: Vec<f64> = right.iter().zip(whole(y)).map(|(b, a)| b - a).collect();
        let mut better = scaled(&rest);
        let mut way = better.clone();
        let mut size = dot(&rest, &better);
        // Exact arithmetic ends after n rounds.
        let most = 10 * right.len() as u64 + 100;
        for round in 0..most {
            if dot(&rest, &rest).sqrt() <= goal {
                return Ok(round);
            }
            let product = whole(&way);
            let along = size / dot(&way, &product);
            if !along.is_finite() {
                break;
            }
            for ((y, r), (p, q)) in y.iter_mut().zip(&mut rest).zip(way.iter().zip(&product)) {
                *y += along * p;
                *r -= along * q;
            }
            better = scaled(&rest);
            let now = dot(&rest, &better);
            let turn = now / size;
            size = now;
            for (p, z) in way.iter_mut().zip(&better) {
                *p = z + turn * *p;
            }
        }
        Err(Error::value(
            "a step of a diffusion through time",
            "conjugate gradients that converge",
            format!("a residual above {RESIDUAL:e} after {most} rounds"),
            "use a shorter time, more steps, or the series of `chebyshev`",
        ))
    }
}
