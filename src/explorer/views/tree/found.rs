//! A tree and its two sweeps: which nodes are done after how many parts, and what they hold.

use crate::explorer::networks::{Loader, NetworkSettings, Plan, SweepBy, TreeSettings, reach};
use crate::explorer::tokens::Shot;
use crate::topology::build::{Extreme, Picture, spanning_forest};
use crate::topology::tree::{HeavyPaths, oracle};
use crate::topology::{Forest, NONE};
use std::sync::Arc;

/// Most tokens of a picture whose tree is shown.
pub(super) const MOST_TOKENS: usize = 262_144;

/// What the tree spans.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Ground {
    Picture(Shot),
    Network(NetworkSettings),
}

/// Question of the view.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Question {
    pub(super) ground: Ground,
    pub(super) settings: TreeSettings,
    pub(super) query: u32,
    /// Grows when files are to be read again.
    pub(super) generation: u64,
}

/// The tree, without the query's numbers.
#[derive(Debug)]
pub(super) struct Trunk {
    pub(super) forest: Forest,
    pub(super) paths: HeavyPaths,
    pub(super) depths: Vec<u32>,
    /// The network it spans, where it is none of a picture.
    pub(super) plan: Option<Arc<Plan>>,
}

/// Answer.
#[derive(Debug)]
pub(super) struct Found {
    pub(super) trunk: Arc<Trunk>,
    pub(super) ground: Ground,
    pub(super) query: u32,
    /// exp(−λ · distance) from the query; 0 in other trees.
    pub(super) row: Vec<f64>,
    /// What the sweep up leaves: sums over the nodes below.
    pub(super) up: Vec<f64>,
    /// Names these numbers.
    pub(super) number: u64,
    pub(super) rate: f64,
}

/// Keeps the tree until what it depends on changes.
#[derive(Default)]
pub(super) struct Finder {
    loader: Arc<Loader>,
    trunk: Option<(Question, Arc<Trunk>)>,
    count: u64,
}

impl Finder {
    pub(super) fn new(loader: Arc<Loader>) -> Self {
        Self { loader, ..Self::default() }
    }

    pub(super) fn answer(
        &mut self,
        asked: &Question,
        go_on: &dyn Fn() -> bool,
    ) -> Option<Result<Found, String>> {
        // Of the settings only those of edges make another tree.
        let key = Question {
            settings: TreeSettings { rate: 0.0, by: SweepBy::default(), ..asked.settings.clone() },
            query: 0,
            ..asked.clone()
        };
        self.count += 1;
        let trunk = match &self.trunk {
            Some((found, trunk)) if *found == key => Arc::clone(trunk),
            _ => {
                let made = self.grow(asked, go_on)?;
                if !go_on() {
                    return None;
                }
                let trunk = match made {
                    Ok(trunk) => Arc::new(trunk),
                    Err(why) => return Some(Err(why)),
                };
                self.trunk = Some((key, Arc::clone(&trunk)));
                trunk
            }
        };
        let (rate, n) = (asked.settings.rate, trunk.forest.nodes());
        let query = asked.query.min((n as u32).saturating_sub(1));
        let far = oracle::distances_from(&trunk.forest, query);
        let row = far.iter().map(|d| if d.is_finite() { (-rate * d).exp() } else { 0.0 }).collect();
        // Only nodes above the query have it below them.
        let mut up = vec![0.0; n];
        let mut node = query;
        while node != NONE {
            up[node as usize] = (-rate * far[node as usize]).exp();
            node = trunk.forest.parents()[node as usize];
        }
        let number = self.count;
        Some(Ok(Found { trunk, ground: asked.ground.clone(), query, row, up, number, rate }))
    }

    /// `None` where it was told to stop.
    fn grow(&self, asked: &Question, go_on: &dyn Fn() -> bool) -> Option<Result<Trunk, String>> {
        let (forest, plan) = match &asked.ground {
            Ground::Picture(shot) => (over_picture(shot, &asked.settings), None),
            Ground::Network(network) => match self.loader.plan(network, asked.generation, go_on)? {
                Ok(plan) => (over_network(&plan), Some(plan)),
                Err(why) => (Err(why), None),
            },
        };
        Some(forest.map(|forest| Trunk {
            paths: HeavyPaths::new(&forest),
            depths: forest.depths(),
            forest,
            plan,
        }))
    }
}

fn told(error: crate::error::Error) -> String {
    error.to_string()
}

/// The tree over the tokens of a picture.
fn over_picture(shot: &Shot, settings: &TreeSettings) -> Result<Forest, String> {
    let tokens = shot.grid.tokens();
    if tokens > MOST_TOKENS {
        return Err(format!(
            "{tokens} tokens are too many for this view: up to {MOST_TOKENS}; choose a larger stride"
        ));
    }
    let [rows, cols] = shot.sides();
    let colours = shot.colours()?;
    let picture = Picture::new(&colours, rows, cols).map_err(told)?;
    picture.tree(reach(settings.corners), 1.0, settings.sensitivity as f32).map_err(told)
}

/// The tree over a network.
pub(in crate::explorer) fn over_network(plan: &Plan) -> Result<Forest, String> {
    let spanning = spanning_forest(&plan.both, Extreme::Most).map_err(told)?;
    // Weights say how near nodes are, not how far: every edge counts as one step.
    Forest::from_parents(spanning.parents(), None).map_err(told)
}

/// Where a sweep is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    Before,
    /// Part `.0` of as many as there are, upwards.
    Up(u32),
    Down(u32),
}

/// The parts of the two sweeps.
#[derive(Clone, Copy, Debug)]
pub(super) struct Parts<'a> {
    pub(super) trunk: &'a Trunk,
    pub(super) by: SweepBy,
}

impl Parts<'_> {
    /// Parts of the sweep up, and of that down.
    pub(super) fn of_each(&self) -> [u32; 2] {
        match self.by {
            SweepBy::Levels => [self.trunk.forest.height() as u32; 2],
            SweepBy::HeavyPaths => [self.trunk.paths.round_count() as u32; 2],
        }
    }

    /// Parts in all.
    pub(super) fn count(&self) -> u32 {
        self.of_each().iter().sum()
    }

    pub(super) fn phase(&self, step: u32) -> Phase {
        let [up, _] = self.of_each();
        match step {
            0 => Phase::Before,
            step if step <= up => Phase::Up(step),
            step => Phase::Down(step - up),
        }
    }

    /// Level or round of a node.
    fn rank(&self, node: usize) -> u32 {
        match self.by {
            SweepBy::Levels => self.trunk.depths[node],
            SweepBy::HeavyPaths => self.round(node),
        }
    }

    fn round(&self, node: usize) -> u32 {
        let paths = &self.trunk.paths;
        let path = paths.path_of[paths.spots[node] as usize];
        paths.rounds.partition_point(|first| *first <= path) as u32 - 1
    }

    /// What a node holds after `step` parts of a sweep that begins with 1 at the query.
    pub(super) fn value(&self, found: &Found, node: usize, step: u32) -> f64 {
        let ([up, _], rank) = (self.of_each(), self.rank(node));
        let (has_sum, has_all) = match self.by {
            // A level adds to the one above it.
            SweepBy::Levels => (up.saturating_sub(rank), up + rank),
            SweepBy::HeavyPaths => (up - rank, up + rank + 1),
        };
        match step {
            step if step >= has_all => found.row[node],
            step if step >= has_sum => found.up[node],
            _ => f64::from(u8::from(node as u32 == found.query)),
        }
    }

    /// Whether the edge from `child` to its parent is worked on in part `step`.
    pub(super) fn works(&self, child: usize, parent: usize, step: u32) -> bool {
        let [up, _] = self.of_each();
        match (self.phase(step), self.by) {
            (Phase::Before, _) => false,
            (Phase::Up(part), SweepBy::Levels) => self.rank(child) == up + 1 - part,
            (Phase::Up(part), SweepBy::HeavyPaths) => self.rank(parent) == up - part,
            (Phase::Down(part), SweepBy::Levels) => self.rank(child) == part,
            (Phase::Down(part), SweepBy::HeavyPaths) => self.rank(child) == part - 1,
        }
    }

    /// What happens in part `step`, in words.
    pub(super) fn words(&self, step: u32) -> String {
        let [up, down] = self.of_each();
        let paths = |round: u32| {
            let rounds = &self.trunk.paths.rounds;
            let count = rounds[round as usize + 1] - rounds[round as usize];
            crate::words::counted(count, "path", "paths")
        };
        match (self.phase(step), self.by) {
            (Phase::Before, _) if up == 0 => "One node alone: there is nothing to sweep.".into(),
            (Phase::Before, _) => "Before: the query holds 1, all others 0.".into(),
            (Phase::Up(part), SweepBy::Levels) => {
                format!(
                    "Up {part} of {up}: level {} adds e^(−λ·length) of its sums to its parents.",
                    up + 1 - part
                )
            }
            (Phase::Up(part), SweepBy::HeavyPaths) => {
                format!(
                    "Up {part} of {up}: {} at once, each one scan from its lower end to its top.",
                    paths(up - part)
                )
            }
            (Phase::Down(part), SweepBy::Levels) => {
                format!(
                    "Down {part} of {down}: level {part} takes e·F of its parents and (1 − e²) of its own sums."
                )
            }
            (Phase::Down(part), SweepBy::HeavyPaths) => {
                format!(
                    "Down {part} of {down}: {} at once, each one scan from its top to its lower end.",
                    paths(part - 1)
                )
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backend::cpu::CpuBackend;
    use crate::explorer::networks::{Shape, Source, TreeOf};
    use crate::mask::network::{NetworkMask, Tokens};
    use crate::vision::grid::TokenGrid;
    use crate::vision::image::Photo;
    use crate::vision::scene::{mask_rows, token_colours};

    fn found(nodes: u32, query: u32) -> Found {
        let network =
            NetworkSettings { source: Source::Built(Shape::Tree), nodes, ..NetworkSettings::default() };
        let settings = TreeSettings { of: TreeOf::Network, ..TreeSettings::default() };
        let asked = Question { ground: Ground::Network(network), settings, query, generation: 0 };
        Finder::default().answer(&asked, &|| true).expect("nothing stops it").expect("a tree")
    }

    #[test]
    fn sweeps_end_with_the_row_and_pass_through_the_sums_below() {
        let found = found(60, 23);
        let forest = &found.trunk.forest;
        let x: Vec<f64> = (0..60).map(|i| f64::from(u8::from(i == 23))).collect();
        let row = oracle::exponential(forest, found.rate, &x, 1).expect("the oracle");
        let mut below = x.clone();
        for i in forest.order().iter().rev() {
            let p = forest.parents()[*i as usize];
            if p != NONE {
                below[p as usize] +=
                    (-found.rate * f64::from(forest.lengths()[*i as usize])).exp() * below[*i as usize];
            }
        }
        for by in [SweepBy::Levels, SweepBy::HeavyPaths] {
            let parts = Parts { trunk: &found.trunk, by };
            let [up, down] = parts.of_each();
            for node in 0..60 {
                assert_eq!(parts.value(&found, node, 0), x[node], "{by:?} before");
                assert!((parts.value(&found, node, up + down) - row[node]).abs() < 1e-12, "{by:?} after");
                let middle = parts.value(&found, node, up);
                let is_root = forest.parents()[node] == NONE;
                assert!((middle - below[node]).abs() < 1e-12 || is_root, "{by:?} between, {node}");
            }
            // Every edge is worked on once upwards and once downwards.
            for (child, parent, _) in forest.edges() {
                let works = |steps: std::ops::RangeInclusive<u32>| {
                    steps.filter(|s| parts.works(child as usize, parent as usize, *s)).count()
                };
                assert_eq!((works(1..=up), works(up + 1..=up + down)), (1, 1), "{by:?} {child}");
            }
            assert!((0..=up + down).all(|step| !parts.words(step).is_empty()));
        }
    }

    #[test]
    fn the_row_over_a_picture_is_that_of_the_command_line() {
        let (width, height) = (45, 37);
        let colour = |i: u32| [(i % width * 5) as u8, (i / width * 6) as u8, (i * i % 251) as u8];
        let bytes: Vec<u8> = (0..width * height).flat_map(colour).collect();
        let photo = Arc::new(Photo::from_rgb8("colours", width, height, bytes).expect("a picture"));
        let grid = TokenGrid::plan(photo.size(), 8, 4, 1000).expect("a grid");
        let colours = token_colours(&photo.working(grid.working_size()).expect("whole"), &grid);
        let tokens = Tokens { rows: grid.rows(), cols: grid.cols(), colours: Some(&colours) };
        let shot = Shot { photo, grid: grid.clone() };
        for corners in [false, true] {
            let settings = TreeSettings { corners, ..TreeSettings::default() };
            let mask = settings.mask();
            let asked =
                Question { ground: Ground::Picture(shot.clone()), settings, query: 50, generation: 0 };
            let found =
                Finder::default().answer(&asked, &|| true).expect("nothing stops it").expect("a tree");
            let spec = mask.spec.to_string().parse().expect("a mask");
            let graph = mask.graph.to_string().parse().expect("a graph");
            let made = NetworkMask { spec, graph }.operator(&tokens).expect("a mask");
            let said = mask_rows(&CpuBackend, &made, &[50]).expect("a row").rows;
            for (t, (a, b)) in found.row.iter().zip(&said[0]).enumerate() {
                // The largest weight is the token's own, 1.
                assert!((a - f64::from(*b)).abs() < 1e-5, "{t}: {a} {b}");
            }
        }
    }

    #[test]
    fn a_node_alone_has_no_sweep_to_show() {
        let found = found(1, 0);
        for by in [SweepBy::Levels, SweepBy::HeavyPaths] {
            let parts = Parts { trunk: &found.trunk, by };
            assert_eq!(parts.value(&found, 0, parts.count()), 1.0);
            assert!(!parts.words(parts.count()).is_empty());
        }
    }
}
