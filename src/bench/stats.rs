//! Middle and spread of a few measurements, and rates that are never infinite.

/// What a clock can tell apart; shorter times are not reported as numbers.
const RESOLUTION_SECONDS: f64 = 1e-9;

/// Summary of some measurements of the same thing.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Summary {
    /// The middle one (mean of the middle two).
    pub median: f64,
    /// A tenth of them are smaller.
    pub p10: f64,
    /// A tenth of them are larger.
    pub p90: f64,
    /// The smallest.
    pub min: f64,
    /// Median absolute deviation from the median.
    pub mad: f64,
    /// How many there are.
    pub samples: usize,
}

fn middle(sorted: &[f64]) -> Option<f64> {
    let half = sorted.len() / 2;
    match sorted.len() {
        0 => None,
        n if n % 2 == 1 => Some(sorted[half]),
        _ => Some(f64::midpoint(sorted[half - 1], sorted[half])),
    }
}

/// What lies at a part of the way through sorted numbers, between two of them by their distance.
fn quantile(sorted: &[f64], part: f64) -> Option<f64> {
    let place = part * (sorted.len().checked_sub(1)? as f64);
    let (below, above) = (sorted[place.floor() as usize], sorted[place.ceil() as usize]);
    Some(below + (above - below) * place.fract())
}

impl Summary {
    /// Of no measurements.
    pub const NOTHING: Self = Self { median: 0.0, p10: 0.0, p90: 0.0, min: 0.0, mad: 0.0, samples: 0 };

    /// Summary of the finite ones among some measurements; `None` if there are none.
    pub fn of(measurements: &[f64]) -> Option<Self> {
        let mut sorted: Vec<f64> = measurements.iter().copied().filter(|x| x.is_finite()).collect();
        sorted.sort_by(f64::total_cmp);
        let (median, min) = (middle(&sorted)?, *sorted.first()?);
        let (p10, p90) = (quantile(&sorted, 0.1)?, quantile(&sorted, 0.9)?);
        let mut gaps: Vec<f64> = sorted.iter().map(|x| (x - median).abs()).collect();
        gaps.sort_by(f64::total_cmp);
        Some(Self { median, p10, p90, min, mad: middle(&gaps)?, samples: sorted.len() })
    }

    /// Whether the clock can see this time.
    pub fn is_measurable(&self) -> bool {
        self.median >= RESOLUTION_SECONDS
    }
}

/// Work per second; `None` for no work, and for times that no clock can see.
pub fn rate(work: f64, seconds: f64) -> Option<f64> {
    let rate = work / seconds;
    (work > 0.0 && seconds >= RESOLUTION_SECONDS && rate.is_finite()).then_some(rate)
}

/// Slope of log y over log x by least squares: the exponent of y ∝ xˢ. `None` for fewer than two different, positive points.
pub fn log_log_slope(points: &[(f64, f64)]) -> Option<f64> {
    let logs: Vec<(f64, f64)> =
        points.iter().filter(|(x, y)| *x > 0.0 && *y > 0.0).map(|(x, y)| (x.ln(), y.ln())).collect();
    let count = logs.len() as f64;
    let (mx, my) = logs.iter().fold((0.0, 0.0), |(a, b), (x, y)| (a + x / count, b + y / count));
    let spread: f64 = logs.iter().map(|(x, _)| (x - mx).powi(2)).sum();
    let together: f64 = logs.iter().map(|(x, y)| (x - mx) * (y - my)).sum();
    let slope = together / spread;
    (logs.len() > 1 && spread > 0.0 && slope.is_finite()).then_some(slope)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn summary_of_odd_and_even_counts() {
        let odd = Summary::of(&[3.0, 1.0, 100.0]).expect("three numbers");
        assert_eq!((odd.median, odd.min, odd.mad, odd.samples), (3.0, 1.0, 2.0, 3));
        let even = Summary::of(&[4.0, 1.0, 2.0, 3.0]).expect("four numbers");
        assert_eq!((even.median, even.min, even.mad, even.samples), (2.5, 1.0, 1.0, 4));
    }

    #[test]
    fn tenths_lie_between_the_measurements() {
        let all: Vec<f64> = (0..=20).rev().map(f64::from).collect();
        let summary = Summary::of(&all).expect("21 numbers");
        assert_eq!((summary.p10, summary.p90), (2.0, 18.0));
        let two = Summary::of(&[1.0, 2.0]).expect("two numbers");
        assert!((two.p10 - 1.1).abs() < 1e-12 && (two.p90 - 1.9).abs() < 1e-12, "{two:?}");
        assert_eq!(Summary::of(&[7.0]).map(|s| (s.p10, s.p90)), Some((7.0, 7.0)));
    }

    #[test]
    fn what_is_not_finite_is_left_out() {
        assert_eq!(Summary::of(&[f64::NAN, f64::INFINITY]), None);
        assert_eq!(Summary::of(&[]), None);
        assert_eq!(Summary::of(&[f64::NAN, 2.0]).map(|s| (s.median, s.samples)), Some((2.0, 1)));
    }

    #[test]
    fn rates_are_finite_or_absent() {
        assert_eq!(rate(10.0, 2.0), Some(5.0));
        assert_eq!(rate(10.0, 0.0), None, "no time");
        assert_eq!(rate(0.0, 1.0), None, "no work");
        assert_eq!(rate(10.0, f64::NAN), None);
        assert!(!Summary::NOTHING.is_measurable());
    }

    #[test]
    fn slope_of_a_power_is_its_exponent() {
        let powers: Vec<(f64, f64)> = [4.0, 16.0, 64.0, 256.0].map(|x: f64| (x, 3.0 * x.powf(1.5))).to_vec();
        let slope = log_log_slope(&powers).expect("four points");
        assert!((slope - 1.5).abs() < 1e-12, "{slope}");
        assert_eq!(log_log_slope(&powers[..1]), None);
        assert_eq!(log_log_slope(&[(2.0, 1.0), (2.0, 5.0)]), None, "one x");
        assert_eq!(log_log_slope(&[(2.0, 0.0), (4.0, 5.0)]), None, "one positive point");
    }
}
