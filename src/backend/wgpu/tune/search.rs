//! Which of several candidates is the quickest, by running each a few times: no device in here, so that tests can say what takes how
//! long.

use crate::error::Result;
use std::time::Instant;

/// A candidate whose first run takes so many times as long as the best one's is not run again.
const HOPELESS: f64 = 2.0;
/// Fewest runs of a candidate that is not hopeless.
const RUNS: usize = 3;
/// Runs of the default and of the quickest, in turns, before the one takes the place of the other.
const LAST_RUNS: usize = 5;
/// Runs go on until they have taken this long together, so that short ones are not judged by three.
const SECONDS: f64 = 0.02;
/// But not for ever.
const MOST_RUNS: usize = 24;
/// How much quicker than the default another one must be. Less is within what a run differs from the next, and the choice would
/// change from start to start.
const GAIN: f64 = 1.05;

/// Candidates that can be run, by their numbers. The first that can be made ready is the default.
pub(super) trait Track {
    /// Makes a candidate and runs it once to warm up; false where it cannot run here, or computes wrongly.
    fn ready(&mut self, candidate: usize) -> Result<bool>;

    /// Runs it; seconds of one run.
    fn time(&mut self, candidate: usize) -> Result<f64>;

    /// It will not be run again.
    fn done(&mut self, candidate: usize);
}

/// What a search found.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Found {
    /// The first candidate that ran.
    pub(super) default: usize,
    /// What one of its runs takes.
    pub(super) default_seconds: f64,
    /// The one to take: the default, unless another one is quicker beyond doubt.
    pub(super) best: usize,
    /// What one of its runs takes.
    pub(super) seconds: f64,
}

/// Runs `count` candidates against each other; `None` where none runs, or where it is `end` before all have.
///
/// Errors: what running reports.
pub(super) fn fastest(track: &mut dyn Track, count: usize, end: Option<Instant>) -> Result<Option<Found>> {
    let mut default: Option<(usize, f64)> = None;
    let mut best: Option<(usize, f64)> = None;
    for candidate in 0..count {
        if end.is_some_and(|end| Instant::now() >= end) {
            return Ok(None);
        }
        if !track.ready(candidate)? {
            track.done(candidate);
            continue;
        }
        let mut times = vec![track.time(candidate)?];
        let hopeless = best.is_some_and(|(_, best)| times[0] > HOPELESS * best);
        while !hopeless
            && (times.len() < RUNS || times.len() < MOST_RUNS && times.iter().sum::<f64>() < SECONDS)
        {
            times.push(track.time(candidate)?);
        }
        let seconds = least(&times);
        default.get_or_insert((candidate, seconds));
        match best {
            Some((_, least)) if seconds >= least => track.done(candidate),
            old => {
                // The default may have to run once more at the end.
                if let Some((old, _)) = old.filter(|(old, _)| default.is_some_and(|(d, _)| d != *old)) {
                    track.done(old);
                }
                best = Some((candidate, seconds));
            }
        }
    }
    let (Some((default, default_seconds)), Some((best, seconds))) = (default, best) else { return Ok(None) };
    let kept = Found { default, default_seconds, best: default, seconds: default_seconds };
    if best == default || default_seconds <= GAIN * seconds {
        return Ok(Some(kept));
    }
    // In turns, because a device that was idle is slow at first, and the default ran first.
    let (mut of_default, mut of_best) = (Vec::new(), Vec::new());
    for _ in 0..LAST_RUNS {
        of_default.push(track.time(default)?);
        of_best.push(track.time(best)?);
    }
    let (default_seconds, seconds) = (least(&of_default), least(&of_best));
    Ok(Some(match default_seconds > GAIN * seconds {
        true => Found { default, default_seconds, best, seconds },
        false => Found { default_seconds, seconds: default_seconds, ..kept },
    }))
}

/// The least of some times: whatever else the machine does makes a run longer, never shorter.
fn least(times: &[f64]) -> f64 {
    times.iter().copied().fold(f64::INFINITY, f64::min)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Candidates with the times of their runs, the last of which repeats; none for one that cannot run.
    struct Scripted {
        times: Vec<Vec<f64>>,
        runs: Vec<usize>,
        alive: Vec<bool>,
    }

    impl Scripted {
        fn of(times: &[&[f64]]) -> Self {
            let times: Vec<Vec<f64>> = times.iter().map(|t| t.to_vec()).collect();
            Self { runs: vec![0; times.len()], alive: vec![false; times.len()], times }
        }

        fn found(&mut self) -> Option<Found> {
            let count = self.times.len();
            fastest(self, count, None).expect("nothing fails")
        }
    }

    impl Track for Scripted {
        fn ready(&mut self, candidate: usize) -> Result<bool> {
            self.alive[candidate] = true;
            Ok(!self.times[candidate].is_empty())
        }

        fn time(&mut self, candidate: usize) -> Result<f64> {
            assert!(self.alive[candidate], "{candidate} was given back");
            let times = &self.times[candidate];
            let time = times[self.runs[candidate].min(times.len() - 1)];
            self.runs[candidate] += 1;
            Ok(time)
        }

        fn done(&mut self, candidate: usize) {
            self.alive[candidate] = false;
        }
    }

    #[test]
    fn the_quickest_wins_if_it_is_quicker_beyond_doubt() {
        for (times, best) in [
            (&[&[1.0][..], &[0.5], &[0.7]][..], 1),
            (&[&[1.0], &[0.7], &[0.5]], 2),
            (&[&[1.0], &[1.1]], 0),
            // Four per cent are no reason to change.
            (&[&[1.0], &[0.96]], 0),
            (&[&[1.0], &[0.94]], 1),
            (&[&[1.0]], 0),
        ] {
            let found = Scripted::of(times).found().expect("they run");
            assert_eq!((found.default, found.best), (0, best), "{times:?}");
        }
    }

    #[test]
    fn a_hopeless_one_runs_once_and_short_ones_run_longer() {
        let mut track = Scripted::of(&[&[0.1], &[0.25], &[0.15]]);
        track.found().expect("they run");
        assert_eq!(track.runs, [3, 1, 3]);
        let mut track = Scripted::of(&[&[1.0 / 1024.0], &[1e-5]]);
        assert_eq!(track.found().map(|f| f.best), Some(1));
        assert_eq!(track.runs, [21 + LAST_RUNS, MOST_RUNS + LAST_RUNS]);
    }

    #[test]
    fn a_device_that_wakes_up_slowly_does_not_make_its_default_lose() {
        let mut track = Scripted::of(&[&[2.0, 2.0, 2.0, 1.0], &[1.0]]);
        let found = track.found().expect("they run");
        assert_eq!((found.best, found.default_seconds), (0, 1.0));
    }

    #[test]
    fn the_default_is_the_first_that_runs() {
        let found = Scripted::of(&[&[], &[1.0], &[0.5]]).found().expect("two run");
        assert_eq!((found.default, found.best), (1, 2));
        assert_eq!(Scripted::of(&[&[], &[]]).found(), None);
    }

    #[test]
    fn losers_are_given_back_and_a_late_search_ends() {
        let mut track = Scripted::of(&[&[1.0], &[0.9], &[0.5], &[0.6]]);
        track.found().expect("they run");
        assert_eq!(track.alive, [true, false, true, false]);
        let mut track = Scripted::of(&[&[1.0], &[0.5]]);
        assert_eq!(fastest(&mut track, 2, Some(Instant::now())).expect("nothing fails"), None);
        assert_eq!(track.runs, [0, 0]);
    }
}
