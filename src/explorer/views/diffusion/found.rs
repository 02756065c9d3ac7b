//! A diffusion over the tokens of the picture: the network with what was cut and linked, and the query's row of exp(−tL).

use crate::explorer::networks::{Cuts, DiffusionSettings};
use crate::explorer::views::tokens::Shot;
use crate::topology::build::{Picture, Reach};
use crate::topology::chebyshev::Series;
use crate::topology::{Laplacian, Network, spectrum};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Most tokens of a picture that diffuse here.
pub(super) const MOST_TOKENS: usize = 262_144;

/// Weight of a link, and of an edge between equal colours.
const LINK: f32 = 1.0;

/// Question of the view.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Question {
    pub(super) shot: Shot,
    pub(super) settings: DiffusionSettings,
    pub(super) cuts: Cuts,
    pub(super) query: u32,
}

/// Answer.
#[derive(Debug)]
pub(super) struct Found {
    pub(super) shot: Shot,
    pub(super) query: u32,
    /// With obstacles and links.
    pub(super) network: Arc<Network>,
    pub(super) blocked: Arc<Vec<bool>>,
    /// `[token]` weights.
    pub(super) row: Vec<f64>,
    /// Products with the Laplacian.
    pub(super) terms: usize,
    /// What the terms left out add up to at most.
    pub(super) rest: f64,
    /// Greatest bound of the eigenvalues.
    pub(super) bound: f64,
    /// Series and products.
    pub(super) took: Duration,
    /// Names these numbers.
    pub(super) number: u64,
}

/// Keeps what was found before.
#[derive(Default)]
pub(super) struct Finder {
    plain: Option<((Shot, u64, bool), Arc<Network>)>,
    cut: Option<((Shot, u64, bool, Cuts), Arc<Network>, Arc<Vec<bool>>)>,
    count: u64,
}

impl Finder {
    pub(super) fn answer(
        &mut self,
        asked: &Question,
        go_on: &dyn Fn() -> bool,
    ) -> Option<Result<Found, String>> {
        self.count += 1;
        let (network, blocked) = match self.network(asked) {
            Ok(found) => found,
            Err(why) => return Some(Err(why)),
        };
        if !go_on() {
            return None;
        }
        let since = Instant::now();
        let row = row(&network, &asked.settings, asked.query);
        let took = since.elapsed();
        Some(row.map_err(|e| e.to_string()).map(|(row, series)| {
            let rest = series.coefficients.iter().map(|c| (1.0 - c.iter().sum::<f64>()).max(0.0));
            Found {
                shot: asked.shot.clone(),
                query: asked.query,
                network,
                blocked,
                row,
                terms: series.degree(),
                rest: rest.fold(0.0, f64::max),
                bound: series.bounds.iter().copied().fold(0.0, f64::max),
                took,
                number: self.count,
            }
        }))
    }

    fn network(&mut self, asked: &Question) -> Result<(Arc<Network>, Arc<Vec<bool>>), String> {
        let (shot, settings) = (&asked.shot, &asked.settings);
        let tokens = shot.grid.tokens();
        if tokens > MOST_TOKENS {
            return Err(format!(
                "{tokens} tokens are too many for this view: up to {MOST_TOKENS}; choose a larger stride"
            ));
        }
        let (sensitivity, corners) = (settings.sensitivity.to_bits(), settings.corners);
        let cut_key = (shot.clone(), sensitivity, corners, asked.cuts.clone());
        if let Some((found, network, blocked)) = &self.cut
            && *found == cut_key
        {
            return Ok((Arc::clone(network), Arc::clone(blocked)));
        }
        let told = |e: crate::error::Error| e.to_string();
        let key = (shot.clone(), sensitivity, corners);
        let plain = match &self.plain {
            Some((found, network)) if *found == key => Arc::clone(network),
            _ => {
                let colours = shot.colours()?;
                let [rows, cols] = shot.sides();
                let reach = if corners { Reach::Corners } else { Reach::Sides };
                let picture = Picture::new(&colours, rows, cols).map_err(told)?;
                let network = Arc::new(picture.network(reach, settings.sensitivity as f32).map_err(told)?);
                self.plain = Some((key, Arc::clone(&network)));
                network
            }
        };
        let blocked = Arc::new(asked.cuts.blocked(&shot.grid));
        let network = match asked.cuts.is_empty() {
            true => plain,
            false => {
                // A link reaches over obstacles, but not onto one.
                let ends = |(a, b): &(u32, u32)| !blocked[*a as usize] && !blocked[*b as usize];
                let links = asked.cuts.linked(&shot.grid).into_iter().filter(ends);
                let links: Vec<_> = links.map(|(a, b)| (a, b, LINK)).collect();
                Arc::new(plain.without_nodes(&blocked).and_then(|n| n.with_edges(&links)).map_err(told)?)
            }
        };
        self.cut = Some((cut_key, Arc::clone(&network), Arc::clone(&blocked)));
        Ok((network, blocked))
    }
}

/// The query's row of exp(−tL).
fn row(
    network: &Network,
    settings: &DiffusionSettings,
    query: u32,
) -> crate::error::Result<(Vec<f64>, Series)> {
    let laplacian = settings.laplacian;
    let series = Series::heat(network, laplacian, settings.time, settings.tolerance)?;
    let start: Vec<f64> = (0..network.nodes()).map(|i| if i == query as usize { 1.0 } else { 0.0 }).collect();
    let mut row = series.apply_heat(network, laplacian, &start, 1)?;
    if laplacian == Laplacian::RandomWalk {
        // That was a column; the matrix is D^−1 times a symmetric one.
        let degrees = spectrum::plain_degrees(network);
        let own = degrees.get(query as usize).copied().unwrap_or(0.0);
        if own > 0.0 {
            row.iter_mut().zip(degrees).for_each(|(x, d)| *x *= d / own);
        }
    }
    // Below the tolerance a truncated series may be a little negative; masks are not.
    row.iter_mut().for_each(|x| *x = x.max(0.0));
    Ok((row, series))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::explorer::mask::Paint;
    use crate::vision::grid::TokenGrid;
    use crate::vision::image::Photo;
    use glam::{DVec2, UVec2};

    fn asked(change: impl FnOnce(&mut Question)) -> Question {
        // Dark at the left, bright at the right.
        let bytes: Vec<u8> = (0..48 * 64).flat_map(|i| [if i % 64 < 32 { 30 } else { 220 }; 3]).collect();
        let photo = Arc::new(Photo::from_rgb8("halves", 64, 48, bytes).expect("a picture"));
        let grid = TokenGrid::plan(UVec2::new(64, 48), 8, 8, 1000).expect("a grid");
        let mut question = Question {
            shot: Shot { photo, grid },
            settings: DiffusionSettings { time: 20.0, tolerance: 1e-9, ..DiffusionSettings::default() },
            cuts: Cuts::default(),
            query: 2 * 8 + 1,
        };
        change(&mut question);
        question
    }

    fn found(question: &Question) -> Found {
        Finder::default().answer(question, &|| true).expect("nothing stops it").expect("a row")
    }

    #[test]
    fn it_stays_among_like_colours_and_weights_sum_to_one() {
        let found = found(&asked(|_| {}));
        assert!((found.row.iter().sum::<f64>() - 1.0).abs() < 1e-6);
        let (left, right) = (found.row[2 * 8 + 3], found.row[2 * 8 + 4]);
        assert!(left > 100.0 * right, "{left} {right}");
        assert!(found.terms > 5 && found.rest <= 1e-9);
    }

    #[test]
    fn obstacles_cut_off_and_links_join() {
        let photo = UVec2::new(64, 48);
        let wall = |q: &mut Question| {
            q.settings.sensitivity = 0.0;
            q.cuts.obstacles.rectangle(photo, DVec2::new(32.5, 0.0), DVec2::new(39.5, 48.0), Paint::Hidden);
        };
        let walled = found(&asked(wall));
        assert_eq!(walled.blocked.iter().filter(|b| **b).count(), 6);
        let beyond: f64 = (0..48).filter(|t| t % 8 > 4).map(|t| walled.row[t]).sum();
        assert_eq!(beyond, 0.0, "nothing gets through");
        let linked = found(&asked(|q| {
            wall(q);
            q.cuts.links = vec![[[4, 4], [60, 40]]];
        }));
        let beyond: f64 = (0..48).filter(|t| t % 8 > 4).map(|t| linked.row[t]).sum();
        assert!(beyond > 0.01, "{beyond}");
        let alone = found(&asked(|q| {
            wall(q);
            q.query = 4;
        }));
        assert!(alone.row[4] == 1.0 && alone.row.iter().sum::<f64>() == 1.0, "an obstacle sees itself alone");
    }

    #[test]
    fn rows_of_walks_sum_to_one_whatever_the_colours() {
        let found = found(&asked(|q| q.settings.laplacian = Laplacian::RandomWalk));
        assert!((found.row.iter().sum::<f64>() - 1.0).abs() < 1e-6);
    }
}
