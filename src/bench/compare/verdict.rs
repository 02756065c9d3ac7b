//! Whether a difference of two measurements is more than their noise.

use crate::bench::published::{Times, positive};

/// How a difference is told from noise, for readers of reports.
pub const RULE: &str = "A row, or a point of a suite, counts as slower or faster only if the intervals of both runs are apart and the medians differ by the least \
    change: 5 %, or 15 % for processor seconds of devices that compute on the CPU, where two runs of one program differ as much. An \
    interval reaches from p10 to p90 of the runs, and at least three deviations (1.4826 times the median absolute deviation, where known) to both \
    sides of the median; fewer than five runs give none: such a row or point counts only if the medians differ by a factor of two, and is unclear otherwise.";

/// Least change of a median that counts, where the device keeps its own time.
pub const LEAST_CHANGE: f64 = 0.05;
/// The same for processor seconds, which two runs of one program on a shared machine give within 15 %.
pub const LEAST_CPU_CHANGE: f64 = 0.15;
/// Runs from which p10 and p90 mean something.
const LEAST_RUNS: f64 = 5.0;
/// How far medians have to be apart to count where there are fewer.
const FEW_RUNS_FACTOR: f64 = 2.0;
/// Standard deviations that an interval reaches to both sides at least.
const DEVIATIONS: f64 = 3.0;
/// Standard deviations in a median absolute deviation, of normal noise.
const OF_MAD: f64 = 1.4826;

/// A time with the interval in which runs lie.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Spread {
    /// The middle, above 0.
    pub median: f64,
    /// Lower and upper end, where enough runs tell it.
    pub interval: Option<(f64, f64)>,
}

impl Spread {
    /// Of the times of a row; `None` where there is no median.
    pub fn of(times: Times, runs: Option<f64>) -> Option<Self> {
        let median = positive(times.median)?;
        let enough = runs.is_some_and(|n| n >= LEAST_RUNS);
        let ends = times.p10.zip(times.p90);
        let reach = times.mad.map(|mad| DEVIATIONS * OF_MAD * mad.abs());
        let by_mad = reach.map(|reach| (median - reach, median + reach));
        let interval = match (ends, by_mad) {
            (Some((low, high)), Some((least, most))) => Some((low.min(least), high.max(most))),
            (ends, by_mad) => ends.or(by_mad),
        };
        let interval = interval.map(|(low, high)| (low.min(median), high.max(median)));
        Some(Self { median, interval: interval.filter(|_| enough) })
    }
}

/// What became of a row against the first document.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Verdict {
    /// It is the first.
    First,
    /// Within noise.
    Same,
    /// Beyond noise.
    Faster,
    /// Beyond noise: a regression.
    Slower,
    /// Both ran, but too few runs tell the noise.
    Unclear,
    /// One of the two has no time to compare.
    Unmeasured,
    /// Failed here and not in the first: a regression.
    Failed,
    /// Its error is above its tolerance here and was not in the first: a regression.
    Wrong,
    /// Failed in the first and runs here.
    Recovered,
    /// Failed in both.
    FailedInBoth,
    /// Only in the first.
    Missing,
    /// Not in the first.
    New,
}

impl Verdict {
    /// Whether this is worse than the first beyond doubt.
    pub fn is_regression(self) -> bool {
        matches!(self, Self::Slower | Self::Failed | Self::Wrong)
    }
}

impl std::fmt::Display for Verdict {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::First => "first",
            Self::Same => "within noise",
            Self::Faster => "faster",
            Self::Slower => "slower",
            Self::Unclear => "unclear",
            Self::Unmeasured => "not measured",
            Self::Failed => "fails now",
            Self::Wrong => "wrong now",
            Self::Recovered => "runs now",
            Self::FailedInBoth => "fails in both",
            Self::Missing => "not run",
            Self::New => "only here",
        })
    }
}

/// Slower, faster, the same or unclear, by the [`RULE`]; `least` is the least change that counts, as a share.
pub fn judge(first: Spread, other: Spread, least: f64) -> Verdict {
    let ratio = other.median / first.median;
    let (Some(a), Some(b)) = (first.interval, other.interval) else {
        // Noise is unknown, but it is not that large.
        return match ratio {
            _ if ratio >= FEW_RUNS_FACTOR => Verdict::Slower,
            _ if ratio <= 1.0 / FEW_RUNS_FACTOR => Verdict::Faster,
            _ => Verdict::Unclear,
        };
    };
    match () {
        () if b.0 > a.1 && ratio >= 1.0 + least => Verdict::Slower,
        () if b.1 < a.0 && ratio <= 1.0 / (1.0 + least) => Verdict::Faster,
        () => Verdict::Same,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn times(median: f64, p10: f64, p90: f64, mad: f64) -> Times {
        Times { median: Some(median), p10: Some(p10), p90: Some(p90), mad: Some(mad) }
    }

    fn spread(median: f64, p10: f64, p90: f64) -> Spread {
        Spread::of(times(median, p10, p90, 0.0), Some(10.0)).expect("a median")
    }

    #[test]
    fn half_again_as_slow_with_tight_intervals_is_a_regression() {
        let (a, b) = (spread(1.0, 0.99, 1.01), spread(1.5, 1.48, 1.52));
        assert_eq!(judge(a, b, LEAST_CHANGE), Verdict::Slower);
        assert_eq!(judge(a, b, LEAST_CPU_CHANGE), Verdict::Slower);
        assert_eq!(judge(b, a, LEAST_CHANGE), Verdict::Faster);
    }

    #[test]
    fn overlapping_intervals_are_noise_however_far_the_medians() {
        let (a, b) = (spread(1.0, 0.9, 1.6), spread(1.5, 1.55, 3.0));
        assert_eq!(judge(a, b, LEAST_CHANGE), Verdict::Same);
        // A wide deviation widens what narrow ends would tell.
        let loose = Spread::of(times(1.5, 1.49, 1.51, 0.12), Some(10.0)).expect("a median");
        assert_eq!(judge(spread(1.0, 0.99, 1.01), loose, LEAST_CHANGE), Verdict::Same);
    }

    #[test]
    fn small_changes_are_not_marked_though_intervals_are_apart() {
        let (a, b) = (spread(1.0, 0.999, 1.001), spread(1.04, 1.039, 1.041));
        assert_eq!(judge(a, b, LEAST_CHANGE), Verdict::Same);
        assert_eq!(judge(a, b, 0.03), Verdict::Slower);
    }

    #[test]
    fn too_few_runs_and_no_spread_are_unclear() {
        let few = Spread::of(times(1.0, 1.0, 1.0, 0.0), Some(4.0)).expect("a median");
        assert_eq!(judge(few, spread(1.9, 1.9, 1.9), LEAST_CHANGE), Verdict::Unclear);
        assert_eq!(
            judge(few, spread(9.0, 9.0, 9.0), LEAST_CHANGE),
            Verdict::Slower,
            "no noise is a factor of 2"
        );
        assert_eq!(judge(few, spread(0.1, 0.1, 0.1), LEAST_CHANGE), Verdict::Faster);
        let bare = Spread::of(Times { median: Some(1.0), ..Times::default() }, Some(10.0)).expect("a median");
        assert_eq!(bare.interval, None);
        assert_eq!(Spread::of(Times { median: Some(0.0), ..Times::default() }, Some(10.0)), None, "no time");
    }
}
