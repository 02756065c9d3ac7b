//! The network of the settings, read or built, with places for its nodes: made once for all views that show it.

use super::{MOST_NODES, NetworkSettings, Source};
use crate::topology::{Network, Statistics, layout, read};
use crate::words::counted;
use std::path::Path;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// A network ready to be looked at.
#[derive(Debug)]
pub(in crate::explorer) struct Plan {
    /// As it is.
    pub(in crate::explorer) network: Network,
    /// With every edge both ways, as diffusions need it.
    pub(in crate::explorer) both: Network,
    /// Names of the nodes; empty where there are none.
    pub(in crate::explorer) names: Vec<String>,
    /// Places `[n]`, edges about 1 long, y downwards.
    pub(in crate::explorer) places: Vec<[f32; 2]>,
    /// Figures.
    pub(in crate::explorer) statistics: Statistics,
    /// Whether the file gives places.
    pub(in crate::explorer) given: bool,
    /// What the nodes of its file are called there.
    pub(in crate::explorer) numbering: read::Numbering,
}

/// What a plan depends on: source, nodes of a built-in one, places by forces, and how often files were read again.
type Key = (Source, u32, bool, u64);

/// How long one view waits for another one before it looks whether its own question still stands.
const TURN: Duration = Duration::from_millis(20);

/// Makes plans, one at a time, and keeps the last one: views ask for the same.
#[derive(Debug, Default)]
pub(in crate::explorer) struct Loader {
    state: Mutex<State>,
    free: Condvar,
}

#[derive(Debug, Default)]
struct State {
    busy: bool,
    kept: Option<(Key, Arc<Plan>)>,
}

/// Lets the next one make a plan, whatever became of this one.
struct Turn<'a>(&'a Loader);

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        self.0.lock().busy = false;
        self.0.free.notify_all();
    }
}

impl Loader {
    /// The plan of the settings; `generation` grows when files are to be read again. `None` where it was told to stop.
    ///
    /// Errors: one line for the user.
    pub(in crate::explorer) fn plan(
        &self,
        settings: &NetworkSettings,
        generation: u64,
        go_on: &dyn Fn() -> bool,
    ) -> Option<Result<Arc<Plan>, String>> {
        let nodes = if matches!(settings.source, Source::Built(_)) { settings.nodes } else { 0 };
        let key = (settings.source.clone(), nodes, settings.arrange, generation);
        let mut state = self.lock();
        while state.busy {
            if !go_on() {
                return None;
            }
            state = self.free.wait_timeout(state, TURN).unwrap_or_else(PoisonError::into_inner).0;
        }
        if let Some((_, plan)) = state.kept.as_ref().filter(|(found, _)| *found == key) {
            return Some(Ok(Arc::clone(plan)));
        }
        state.busy = true;
        drop(state);
        let _turn = Turn(self);
        let made = make(settings, go_on);
        // Places that were not waited for are not the final ones.
        if !go_on() {
            return None;
        }
        let plan = match made {
            Ok(plan) => Arc::new(plan),
            Err(why) => return Some(Err(why)),
        };
        self.lock().kept = Some((key, Arc::clone(&plan)));
        Some(Ok(plan))
    }

    /// What is kept is whole at any time, even where a view's thread ended in a fault.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Builds or reads the network, and finds places.
fn make(settings: &NetworkSettings, go_on: &dyn Fn() -> bool) -> Result<Plan, String> {
    let (loaded, numbering) = match &settings.source {
        Source::Built(shape) => {
            let network = shape.network(settings.nodes).map_err(|e| e.to_string())?;
            let loaded = read::Loaded { network, names: Vec::new(), places: Vec::new(), dimensions: 0 };
            (loaded, read::Numbering::Zero)
        }
        Source::File(path) => {
            let as_numbered = |numbering| {
                let options = read::Options { numbering, ..read::Options::default() };
                read::read(Path::new(path), &options).map(|loaded| (loaded, numbering))
            };
            // Names are no numbers: an edge list may have either.
            let loaded = as_numbered(read::Numbering::Zero)
                .or_else(|why| as_numbered(read::Numbering::Names).map_err(|_| why));
            loaded.map_err(|e| e.to_string())?
        }
    };
    let read::Loaded { network, names, places, .. } = loaded;
    let n = network.nodes();
    if n == 0 {
        return Err("There is no node in it: nothing to show.".into());
    }
    if n > MOST_NODES {
        return Err(format!(
            "{} are too many to draw: up to {MOST_NODES} are shown here; `wgattn graph` tells of larger ones",
            counted(n, "node", "nodes")
        ));
    }
    let statistics = network.statistics();
    let both = if statistics.undirected { network.clone() } else { network.symmetrised() };
    let given = places.len() == n;
    let places = match given && !settings.arrange {
        true => flat(&places),
        // Large networks get fewer steps: the beginning is near enough.
        false => {
            let steps = (layout::USUAL_STEPS * 800 / n.max(1)).clamp(30, layout::USUAL_STEPS);
            layout::by_forces(&network, steps, go_on)
        }
    };
    Ok(Plan { network, both, names, places, statistics, given, numbering })
}

/// Places of a file in the plane, y downwards, seen a little from the side and above where there are three; scaled like those by forces.
fn flat(places: &[[f32; 3]]) -> Vec<[f32; 2]> {
    let flat: Vec<[f32; 2]> = places.iter().map(|[x, y, z]| [x + 0.45 * z, -(y + 0.3 * z)]).collect();
    let end = |a: usize, most: bool| {
        flat.iter().map(|p| p[a]).reduce(|x, y| if most { x.max(y) } else { x.min(y) }).unwrap_or(0.0)
    };
    let (low, high) = ([end(0, false), end(1, false)], [end(0, true), end(1, true)]);
    let wide = (high[0] - low[0]).max(high[1] - low[1]);
    let scale = if wide > 0.0 { (places.len() as f32).sqrt() / wide } else { 1.0 };
    let place = |p: &[f32; 2]| [0, 1].map(|a| (p[a] - 0.5 * (low[a] + high[a])) * scale);
    flat.iter().map(place).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::explorer::networks::Shape;
    use std::sync::atomic::{AtomicBool, Ordering};

    fn of(shape: Shape) -> NetworkSettings {
        NetworkSettings { source: Source::Built(shape), nodes: 40, ..Default::default() }
    }

    fn told(answer: Option<Result<Arc<Plan>, String>>) -> Arc<Plan> {
        answer.expect("nothing stops it").expect("a plan")
    }

    #[test]
    fn views_that_ask_for_the_same_share_one_plan() {
        let loader = Loader::default();
        let first = told(loader.plan(&of(Shape::Grid), 0, &|| true));
        // What is no part of the network does not lay it out again.
        let other = NetworkSettings { time: 9.0, query: 3, ..of(Shape::Grid) };
        assert!(Arc::ptr_eq(&first, &told(loader.plan(&other, 0, &|| true))));
        for (settings, generation) in [(of(Shape::Ring), 0), (of(Shape::Grid), 0), (of(Shape::Grid), 1)] {
            assert!(!Arc::ptr_eq(&first, &told(loader.plan(&settings, generation, &|| true))));
        }
    }

    #[test]
    fn one_waits_for_the_other_and_may_stop_waiting() {
        let (loader, held, waiting) = (Loader::default(), AtomicBool::new(true), AtomicBool::new(false));
        std::thread::scope(|scope| {
            let first = scope.spawn(|| {
                // Holds the loader until the others wait.
                let hold = || {
                    while held.load(Ordering::Acquire) {
                        std::thread::yield_now();
                    }
                    true
                };
                waiting.store(true, Ordering::Release);
                told(loader.plan(&of(Shape::Hypercube), 0, &hold))
            });
            while !(waiting.load(Ordering::Acquire) && loader.lock().busy) {
                std::thread::yield_now();
            }
            assert!(loader.plan(&of(Shape::Hypercube), 0, &|| false).is_none());
            let second = scope.spawn(|| told(loader.plan(&of(Shape::Hypercube), 0, &|| true)));
            held.store(false, Ordering::Release);
            let both = (first.join().expect("a plan"), second.join().expect("a plan"));
            assert!(Arc::ptr_eq(&both.0, &both.1));
        });
    }

    #[test]
    fn one_that_was_stopped_lets_the_next_one_in() {
        let loader = Loader::default();
        assert!(loader.plan(&of(Shape::Grid), 0, &|| false).is_none());
        assert_eq!(told(loader.plan(&of(Shape::Grid), 0, &|| true)).network.nodes(), 42);
        let missing =
            NetworkSettings { source: Source::File("/nowhere/at/all.mtx".into()), ..of(Shape::Grid) };
        let why = loader.plan(&missing, 0, &|| true).expect("an answer").expect_err("no file");
        assert!(why.contains("/nowhere/at/all.mtx"), "{why}");
    }

    #[test]
    fn what_is_high_in_a_file_stands_above() {
        let flat = flat(&[[0.0, 0.0, 0.0], [2.0, 4.0, 0.0]]);
        assert!(flat[0][1] > flat[1][1]);
    }
}
