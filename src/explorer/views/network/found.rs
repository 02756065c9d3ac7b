//! What the view of a network shows, worked out on a thread of its own: three rows, and steps through time.
//!
//! Every part is kept until what it depends on changes: a slider of t does not lay the nodes out again.

use crate::explorer::networks::{Loader, NetworkSettings, Plan};
use crate::topology::chebyshev::Series;
use crate::topology::integrate::Scheme;
use crate::topology::{Laplacian, Network, distance, kernel, spectrum};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// A row of the clicked node.
#[derive(Clone, Debug)]
pub(super) struct Row {
    /// `[n]`; an error is one line for the user.
    pub(super) weights: Result<Vec<f64>, String>,
    /// What it took.
    pub(super) took: Duration,
}

/// What is known of the series of heat.
#[derive(Clone, Debug)]
pub(super) struct HeatFacts {
    /// Products with the Laplacian.
    pub(super) terms: usize,
    /// What the terms left out add up to at most: the error of every weight.
    pub(super) rest: f64,
    /// Greatest bound of the eigenvalues.
    pub(super) bound: f64,
}

/// Errors of steps through time.
#[derive(Clone, Debug, Default)]
pub(super) struct Steps {
    /// Per scheme in the order of [`Scheme::ALL`]: (steps, greatest error over the greatest weight).
    pub(super) errors: [Vec<(u32, f64)>; 2],
    /// Per scheme, with the number of steps that is set: the error and the rounds of conjugate gradients.
    pub(super) chosen: [Option<(f64, u64)>; 2],
    /// Why there are none.
    pub(super) problem: Option<String>,
}

/// Everything for one question.
#[derive(Debug)]
pub(super) struct Found {
    /// Node whose rows these are.
    pub(super) query: u32,
    /// The network.
    pub(super) plan: Arc<Plan>,
    /// Heat, random walk, shortest path.
    pub(super) rows: [Row; 3],
    /// Terms and bound of the first one.
    pub(super) heat: Option<HeatFacts>,
    /// Steps through time.
    pub(super) steps: Arc<Steps>,
}

type NormsKey = (u32, u64);
type StepsKey = (u32, u64, Laplacian, u32);

/// Keeps what was found before.
#[derive(Default)]
pub(super) struct Finder {
    loader: Arc<Loader>,
    plan: Option<Arc<Plan>>,
    norms: Option<(NormsKey, Arc<Vec<f64>>)>,
    steps: Option<(StepsKey, Arc<Steps>)>,
}

/// Question of the view: what is set, and a number that grows when files are to be read again.
pub(super) type Question = (NetworkSettings, u64);

impl Finder {
    pub(super) fn new(loader: Arc<Loader>) -> Self {
        Self { loader, ..Self::default() }
    }

    /// Answers it; `None` where it was told to stop.
    pub(super) fn answer(
        &mut self,
        (settings, generation): &Question,
        go_on: &dyn Fn() -> bool,
    ) -> Option<Result<Found, String>> {
        let plan = match self.loader.plan(settings, *generation, go_on)? {
            Ok(plan) => plan,
            Err(why) => return Some(Err(why)),
        };
        if self.plan.as_ref().is_none_or(|known| !Arc::ptr_eq(known, &plan)) {
            *self = Self { plan: Some(Arc::clone(&plan)), ..Self::new(Arc::clone(&self.loader)) };
        }
        let last = (plan.network.nodes() as u32).saturating_sub(1);
        let query = settings.query.min(last);
        let (heat, facts) = match timed(|| heat(&plan, settings, query)) {
            (Ok((weights, facts)), took) => (Row { weights: Ok(weights), took }, Some(facts)),
            (Err(why), took) => (Row { weights: Err(why), took }, None),
        };
        let (walk, took) = timed(|| self.walk(&plan, settings, query, go_on));
        let walk = Row { weights: walk?, took };
        let (path, took) = timed(|| path(&plan, settings, query));
        let path = Row { weights: path, took };
        let steps_key = (query, settings.time.to_bits(), settings.laplacian, settings.steps);
        let steps = match &self.steps {
            Some((found, steps)) if *found == steps_key => Arc::clone(steps),
            _ => {
                let steps = Arc::new(steps(&plan, settings, query, go_on)?);
                self.steps = Some((steps_key, Arc::clone(&steps)));
                steps
            }
        };
        Some(Ok(Found { query, plan, rows: [heat, walk, path], heat: facts, steps }))
    }

    /// The row of the cosine kernel of walks: with F = Σ_l (λP)^l, F Fᵀ scaled to a diagonal of 1.
    fn walk(
        &mut self,
        plan: &Plan,
        settings: &NetworkSettings,
        query: u32,
        go_on: &dyn Fn() -> bool,
    ) -> Option<Result<Vec<f64>, String>> {
        let key = (settings.walk, settings.discount.to_bits());
        let norms = match &self.norms {
            Some((found, norms)) if *found == key => Arc::clone(norms),
            _ => {
                let norms = match norms(&plan.network, settings, go_on)? {
                    Ok(norms) => Arc::new(norms),
                    Err(why) => return Some(Err(why)),
                };
                self.norms = Some((key, Arc::clone(&norms)));
                norms
            }
        };
        let product = || -> crate::error::Result<Vec<f64>> {
            let n = plan.network.nodes();
            let sum = |x: Vec<f64>, transposed: bool| -> crate::error::Result<Vec<f64>> {
                let (mut power, mut sum) = (x.clone(), x);
                for _ in 1..settings.walk {
                    power = kernel::step(&plan.network, &power, 1, transposed)?;
                    power.iter_mut().for_each(|x| *x *= settings.discount);
                    sum.iter_mut().zip(&power).for_each(|(s, p)| *s += p);
                }
                Ok(sum)
            };
            // Fᵀ e is the query's row of F; F times it are the products of all rows with it.
            let row = sum(unit(n, query), true)?;
            let own = norms.get(query as usize).copied().unwrap_or(1.0);
            let products = sum(row, false)?;
            Ok(products.iter().zip(norms.iter()).map(|(p, norm)| p / (norm * own)).collect())
        };
        Some(product().map_err(|e| e.to_string()))
    }
}

fn timed<T>(work: impl FnOnce() -> T) -> (T, Duration) {
    let since = Instant::now();
    let value = work();
    (value, since.elapsed())
}

fn unit(n: usize, at: u32) -> Vec<f64> {
    (0..n).map(|i| if i == at as usize { 1.0 } else { 0.0 }).collect()
}

/// The query's row of exp(−tL).
fn heat(plan: &Plan, settings: &NetworkSettings, query: u32) -> Result<(Vec<f64>, HeatFacts), String> {
    let (network, laplacian) = (&plan.both, settings.laplacian);
    let found = || -> crate::error::Result<(Vec<f64>, HeatFacts)> {
        let series = Series::heat(network, laplacian, settings.time, settings.tolerance)?;
        let mut row = series.apply_heat(network, laplacian, &unit(network.nodes(), query), 1)?;
        if laplacian == Laplacian::RandomWalk {
            // That was a column; the matrix is D^−1 times a symmetric one.
            let degrees = spectrum::plain_degrees(network);
            let own = degrees.get(query as usize).copied().unwrap_or(0.0);
            if own > 0.0 {
                row.iter_mut().zip(degrees).for_each(|(x, d)| *x *= d / own);
            }
        }
        let rest = series.coefficients.iter().map(|c| (1.0 - c.iter().sum::<f64>()).max(0.0));
        let facts = HeatFacts {
            terms: series.degree(),
            rest: rest.fold(0.0, f64::max),
            bound: series.bounds.iter().copied().fold(0.0, f64::max),
        };
        Ok((row, facts))
    };
    found().map_err(|e| e.to_string())
}

/// exp(−λ · steps) along shortest paths; 0 where there is none.
fn path(plan: &Plan, settings: &NetworkSettings, query: u32) -> Result<Vec<f64>, String> {
    let far = distance::lengths_from(&plan.network.unweighted(), query).map_err(|e| e.to_string())?;
    Ok(far.into_iter().map(|d| if d.is_finite() { (-settings.rate * d).exp() } else { 0.0 }).collect())
}

/// Lengths of all rows of F, in blocks of nodes, so that memory stays linear.
fn norms(
    network: &Network,
    settings: &NetworkSettings,
    go_on: &dyn Fn() -> bool,
) -> Option<Result<Vec<f64>, String>> {
    const BLOCK: usize = 32;
    let n = network.nodes();
    let mut out = Vec::with_capacity(n);
    for first in (0..n).step_by(BLOCK) {
        let width = BLOCK.min(n - first);
        let mut power = vec![0.0; n * width];
        for c in 0..width {
            power[(first + c) * width + c] = 1.0;
        }
        let mut sum = power.clone();
        for _ in 1..settings.walk {
            if !go_on() {
                return None;
            }
            power = match kernel::step(network, &power, width, true) {
                Ok(next) => next.iter().map(|x| settings.discount * x).collect(),
                Err(error) => return Some(Err(error.to_string())),
            };
            sum.iter_mut().zip(&power).for_each(|(s, p)| *s += p);
        }
        out.extend((0..width).map(|c| (0..n).map(|i| sum[i * width + c].powi(2)).sum::<f64>().sqrt()));
    }
    Some(Ok(out))
}

/// Entries of the network times steps up to which the differential equation is stepped through: it is far dearer than the series.
const MOST_WORK: u64 = 40_000_000;

/// Errors of both schemes, with 1, 2, 4 … steps and as many as are set.
fn steps(plan: &Plan, settings: &NetworkSettings, query: u32, go_on: &dyn Fn() -> bool) -> Option<Steps> {
    let (network, laplacian, t) = (&plan.both, settings.laplacian, settings.time);
    let x = unit(network.nodes(), query);
    let exact = Series::heat(network, laplacian, t, 1e-13)
        .and_then(|series| series.apply_heat(network, laplacian, &x, 1));
    let exact = match exact {
        Ok(exact) => exact,
        Err(error) => return Some(Steps { problem: Some(error.to_string()), ..Steps::default() }),
    };
    let largest = exact.iter().copied().fold(f64::MIN_POSITIVE, f64::max);
    let mut out = Steps::default();
    let mut spent = 0_u64;
    let work = network.entries() as u64 + network.nodes() as u64;
    let run = |scheme: Scheme, count: u32| -> Result<(f64, u64), String> {
        let (y, rounds) = scheme.heat(network, laplacian, (t, count), &x, 1).map_err(|e| e.to_string())?;
        let worst = y.iter().zip(&exact).map(|(a, b)| (a - b).abs()).fold(0.0, f64::max);
        Ok((worst / largest, rounds))
    };
    for (at, (_, scheme)) in Scheme::ALL.into_iter().enumerate() {
        match run(scheme, settings.steps) {
            Ok(found) => {
                spent += found.1 * work;
                out.chosen[at] = Some(found);
            }
            Err(why) => out.problem = Some(why),
        }
    }
    for power in 0..9 {
        for (at, (_, scheme)) in Scheme::ALL.into_iter().enumerate() {
            if !go_on() {
                return None;
            }
            if spent > MOST_WORK || out.problem.is_some() {
                continue;
            }
            if let Ok((error, rounds)) = run(scheme, 1 << power) {
                spent += rounds * work;
                out.errors[at].push((1 << power, error));
            }
        }
    }
    Some(out)
}

/// The three rows of a question, for tests of what gives the same.
#[cfg(test)]
pub(in crate::explorer) fn rows_of(settings: &NetworkSettings) -> Vec<Vec<f64>> {
    let found = Finder::default().answer(&(settings.clone(), 0), &|| true).expect("nothing stops it");
    found.expect("it is found").rows.into_iter().map(|row| row.weights.expect("a row")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::explorer::networks::{Shape, Source};
    use crate::topology::kernel::{Normalisation, walk_features};

    fn found(settings: &NetworkSettings) -> Found {
        let found = Finder::default().answer(&(settings.clone(), 0), &|| true).expect("nothing stops it");
        found.expect("it is found")
    }

    #[test]
    fn rows_are_those_of_the_dense_kernels() {
        let mut settings = NetworkSettings { nodes: 40, query: 11, tolerance: 1e-12, ..Default::default() };
        for (_, laplacian) in Laplacian::ALL {
            settings.laplacian = laplacian;
            let found = found(&settings);
            let network = &found.plan.network;
            let n = network.nodes();
            let series = Series::heat(network, laplacian, settings.time, 1e-13).expect("a series");
            let all: Vec<f64> = (0..n * n).map(|at| if at % (n + 1) == 0 { 1.0 } else { 0.0 }).collect();
            let dense = series.apply_heat(network, laplacian, &all, n).expect("the matrix");
            let heat = found.rows[0].weights.as_ref().expect("heat");
            let f = walk_features(network, settings.walk, settings.discount).expect("features");
            let mask = Normalisation::Cosine.mask(&f, n);
            let walk = found.rows[1].weights.as_ref().expect("walk");
            for j in 0..n {
                assert!((heat[j] - dense[11 * n + j]).abs() < 1e-11, "{laplacian} {j}");
                assert!((walk[j] - mask[11 * n + j]).abs() < 1e-12, "{j}");
            }
            assert!((walk[11] - 1.0).abs() < 1e-12);
        }
        let path = found(&settings);
        let path = path.rows[2].weights.as_ref().expect("path");
        assert!(path[11] == 1.0 && path.iter().all(|x| *x > 0.0 && *x <= 1.0));
    }

    #[test]
    fn steps_through_time_come_nearer_and_fewer_nodes_keep_a_query() {
        let settings = NetworkSettings {
            source: Source::Built(Shape::Grid),
            nodes: 25,
            query: 900,
            ..Default::default()
        };
        let found = found(&settings);
        assert_eq!(found.query, 24);
        assert!(found.steps.problem.is_none());
        for errors in &found.steps.errors {
            let (first, last) = (errors[0].1, errors[errors.len() - 1].1);
            assert!(errors.len() == 9 && last < 0.02 * first, "{errors:?}");
        }
        let facts = found.heat.expect("facts");
        assert!(facts.terms > 4 && facts.rest <= settings.tolerance && facts.bound > 0.0);
    }

    #[test]
    fn what_cannot_be_shown_is_told() {
        let missing = Source::File("/nowhere/at/all.mtx".into());
        let settings = NetworkSettings { source: missing, ..Default::default() };
        let answer = Finder::default().answer(&(settings, 0), &|| true).expect("an answer");
        assert!(answer.expect_err("no file").contains("/nowhere/at/all.mtx"));
    }
}
