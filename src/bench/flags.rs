//! What a reader should know of a row before believing its numbers.

use super::stats::Summary;

/// Which clock a time, or a warning about times, goes by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Clock {
    /// Processor seconds of the whole process.
    Cpu,
    /// The device's own timestamps.
    Device,
    /// The host's clock, submission included.
    Wall,
}

impl std::fmt::Display for Clock {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Cpu => "CPU time",
            Self::Device => "device time",
            Self::Wall => "wall clock",
        })
    }
}

/// A warning about a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Flag {
    /// The device computes on the processor: judge by processor time.
    Software,
    /// The times are the host's, submission included.
    NoTimestamps,
    /// The time is too short for the clock.
    BelowResolution,
    /// The first measured run took longer than the others, although the kernel had run before.
    SlowFirstRun(Clock),
    /// Some runs took much longer than the others.
    Outliers(Clock),
    /// The last third of the runs was slower than the first: the device heats up, or something else took its time.
    Throttled(Clock),
    /// The device was lost while it ran.
    DeviceLost,
    /// A single dispatch took longer than was allowed.
    LongDispatch,
    /// The search for variants ended at its limit before all steps had their turn; the others run in the device's defaults.
    HalfTuned,
    /// Parts that were timed in runs of their own add up to more than the whole.
    PartsExceed,
}

impl std::fmt::Display for Flag {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (name, clock) = match self {
            Self::Software => ("software", None),
            Self::NoTimestamps => ("no timestamps", None),
            Self::BelowResolution => ("below timer resolution", None),
            Self::SlowFirstRun(clock) => ("slow first run", Some(clock)),
            Self::Outliers(clock) => ("outliers", Some(clock)),
            Self::Throttled(clock) => ("throttled", Some(clock)),
            Self::DeviceLost => ("device lost", None),
            Self::LongDispatch => ("dispatch longer than allowed", None),
            Self::HalfTuned => ("half tuned", None),
            Self::PartsExceed => ("parts exceed the whole", None),
        };
        // Which of the times beside it a warning is about cannot be guessed.
        match clock {
            Some(clock) => write!(f, "{name} by {clock}"),
            None => f.write_str(name),
        }
    }
}

/// How many median absolute deviations a measurement may be away: for normal noise 15 of them are ten standard deviations.
const FAR_DEVIATIONS: f64 = 15.0;
/// Deviations can be tiny, so it must be by this part of the median too.
const FAR_PART: f64 = 0.2;
/// The same for the difference of two medians.
const DRIFT_DEVIATIONS: f64 = 3.0;
const DRIFT_PART: f64 = 0.15;
/// Runs in each third without which nothing is said of drift.
const LEAST_IN_THIRD: usize = 3;

/// What the measurements of one row by one clock, in the order in which they were made, have to be warned of.
pub(super) fn of_times(times: &[f64], clock: Clock) -> Vec<Flag> {
    let Some(all) = Summary::of(times) else { return Vec::new() };
    let far = all.median + (FAR_DEVIATIONS * all.mad).max(FAR_PART * all.median);
    let mut flags = Vec::new();
    let slow: Vec<bool> = times.iter().map(|t| *t > far).collect();
    if times.len() >= LEAST_IN_THIRD && slow[0] {
        flags.push(Flag::SlowFirstRun(clock));
    }
    if times.len() >= LEAST_IN_THIRD && slow[1..].contains(&true) {
        flags.push(Flag::Outliers(clock));
    }
    let third = times.len() / 3;
    if third >= LEAST_IN_THIRD {
        let ends = [&times[..third], &times[times.len() - third..]].map(Summary::of);
        if let [Some(first), Some(last)] = ends {
            let noise = (DRIFT_DEVIATIONS * first.mad.max(last.mad)).max(DRIFT_PART * first.median);
            if last.median > first.median + noise {
                flags.push(Flag::Throttled(clock));
            }
        }
    }
    flags
}

#[cfg(test)]
mod tests {
    use super::*;

    const CLOCK: Clock = Clock::Device;

    /// Numbers around 1, by at most a hundredth.
    fn steady(count: usize) -> Vec<f64> {
        (0..count).map(|i| 1.0 + 0.01 * ((i * 7 % 11) as f64 / 10.0 - 0.5)).collect()
    }

    #[test]
    fn steady_times_have_no_flags() {
        for count in [0, 1, 2, 5, 30] {
            assert_eq!(of_times(&steady(count), CLOCK), [], "{count}");
        }
    }

    #[test]
    fn a_slow_first_run_and_outliers_are_told_apart() {
        let mut times = steady(30);
        times[0] = 2.0;
        assert_eq!(of_times(&times, CLOCK), [Flag::SlowFirstRun(CLOCK)]);
        times[17] = 3.0;
        assert_eq!(of_times(&times, CLOCK), [Flag::SlowFirstRun(CLOCK), Flag::Outliers(CLOCK)]);
        times[0] = 1.0;
        assert_eq!(of_times(&times, CLOCK), [Flag::Outliers(CLOCK)]);
    }

    #[test]
    fn a_device_that_slows_down_is_throttled() {
        let times: Vec<f64> =
            steady(30).iter().enumerate().map(|(i, t)| t * (1.0 + 0.01 * i as f64)).collect();
        assert_eq!(of_times(&times, CLOCK), [Flag::Throttled(CLOCK)]);
        let faster: Vec<f64> = times.into_iter().rev().collect();
        assert_eq!(of_times(&faster, CLOCK), []);
    }

    #[test]
    fn warnings_about_runs_say_which_clock_they_go_by() {
        let mut times = steady(30);
        (times[0], times[17]) = (2.0, 3.0);
        let told = |clock| of_times(&times, clock).iter().map(ToString::to_string).collect::<Vec<_>>();
        assert_eq!(told(Clock::Cpu), ["slow first run by CPU time", "outliers by CPU time"]);
        assert_eq!(told(Clock::Device), ["slow first run by device time", "outliers by device time"]);
        assert_eq!(told(Clock::Wall), ["slow first run by wall clock", "outliers by wall clock"]);
    }
}
