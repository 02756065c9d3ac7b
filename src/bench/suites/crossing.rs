//! Where other ways become faster than the exact one, and by how much they are at the largest size that both have.

use crate::bench::published::{Suite, positive};
use crate::bench::units::or_dash;
use crate::numbers::{grouped, significant};

/// Sizes and times of one series, by size.
pub(crate) type Line = Vec<[f64; 2]>;

/// How one way compares with the exact one.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Crossing {
    /// Number of its series.
    pub(crate) series: usize,
    /// Size and time from which on it is faster; `None` where that is at none of the sizes, or at all of them.
    pub(crate) at: Option<[f64; 2]>,
    /// The same in words.
    pub(crate) told: String,
}

/// Whether a suite is judged by processor seconds: where the device computes on the CPU and all points with a time have them.
pub(crate) fn by_cpu(computes_on_cpu: bool, suite: &Suite) -> bool {
    let mut points = suite.series.iter().flat_map(|s| &s.points).filter(|p| p.y.is_some());
    computes_on_cpu && points.all(|p| p.cpu.is_some())
}

/// All series as sizes and the times to judge by, what has none left out.
pub(crate) fn lines(computes_on_cpu: bool, suite: &Suite) -> Vec<Line> {
    let cpu = by_cpu(computes_on_cpu, suite);
    let line = |series: &crate::bench::published::Series| {
        let good = series.points.iter().filter(|p| p.failure.is_none());
        let mut line: Line =
            good.filter_map(|p| Some([positive(p.x)?, positive(if cpu { p.cpu } else { p.y })?])).collect();
        line.sort_by(|a, b| a[0].total_cmp(&b[0]));
        line
    };
    suite.series.iter().map(line).collect()
}

/// Compares every series with the one whose name begins with "exact", where there is one.
pub(crate) fn crossings(suite: &Suite, lines: &[Line]) -> Vec<Crossing> {
    let is_exact = |name: &str| name.to_lowercase().starts_with("exact");
    let Some(exact) = suite.series.iter().position(|s| is_exact(&s.name)) else { return Vec::new() };
    let others = lines.iter().enumerate().filter(|(i, _)| *i != exact);
    others.filter_map(|(series, line)| crossing(suite, series, line, exact, &lines[exact])).collect()
}

fn crossing(
    suite: &Suite,
    series: usize,
    line: &[[f64; 2]],
    exact: usize,
    of_exact: &[[f64; 2]],
) -> Option<Crossing> {
    let common: Vec<[f64; 3]> =
        line.iter().filter_map(|[x, y]| Some([*x, *y, of_exact.iter().find(|p| p[0] == *x)?[1]])).collect();
    let (first, last) = (common.first()?, common.last()?);
    let (name, rival) = (&suite.series[series].name, &suite.series[exact].name);
    let times = or_dash(Some(last[2] / last[1]), |times| significant(times, 2));
    let at_last = format!("{times} times at {} {}", grouped(last[0]), suite.x);
    let crossing = common.windows(2).rev().find(|w| w[0][1] >= w[0][2] && w[1][1] < w[1][2]);
    let (at, told) = if let Some([a, b]) = crossing.and_then(|w| <[[f64; 3]; 2]>::try_from(w).ok()) {
        // The logarithm of the quotient is taken as straight between two sizes.
        let [before, after] = [a, b].map(|p| (p[1] / p[2]).ln());
        let t = before / (before - after);
        let between = |k: usize| (a[k].ln() + t * (b[k] / a[k]).ln()).exp();
        let told = format!("faster than {rival} from about {} {} on, {at_last}", round(between(0)), suite.x);
        (Some([between(0), between(2)]), told)
    } else if common.iter().all(|p| p[1] < p[2]) {
        (None, format!("faster than {rival} at all sizes, {at_last}"))
    } else if first[1] >= first[2] && last[1] >= last[2] {
        (None, format!("not faster than {rival} up to {} {}", grouped(last[0]), suite.x))
    } else {
        (None, format!("not faster than {rival} at the largest sizes, {at_last}"))
    };
    Some(Crossing { series, at, told: format!("{name}: {told}") })
}

/// A size to two digits: where lines cross is not known better.
fn round(x: f64) -> String {
    let step = 10_f64.powf(x.log10().floor() - 1.0).max(1.0);
    grouped((x / step).round() * step)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::published::{Point, Series};

    fn suite(ways: &[(&str, &[f64])]) -> (Suite, Vec<Line>) {
        let point = |(i, y): (usize, &f64)| Point {
            x: Some(1024.0 * 4_f64.powi(i as i32)),
            y: Some(*y),
            ..Point::default()
        };
        let series = ways.iter().map(|(name, ys)| Series {
            name: (*name).into(),
            points: ys.iter().enumerate().map(point).collect(),
        });
        let suite = Suite {
            name: "crossover".into(),
            title: "t".into(),
            x: "tokens".into(),
            y: "seconds".into(),
            series: series.collect(),
        };
        let lines = lines(false, &suite);
        (suite, lines)
    }

    #[test]
    fn crossings_lie_between_the_sizes_where_the_order_changes() {
        // Quadratic against linear, equal at 2048.
        let (suite, lines) =
            suite(&[("exact attention", &[1.0, 16.0, 256.0]), ("nystrom", &[2.0, 8.0, 32.0])]);
        let found = crossings(&suite, &lines);
        assert_eq!((found.len(), found[0].series), (1, 1));
        let [x, y] = found[0].at.expect("they cross");
        assert!((x - 2048.0).abs() < 1e-6 && (y - 4.0).abs() < 1e-6, "{x} {y}");
        let told = "nystrom: faster than exact attention from about 2\u{2009}000 tokens on, 8 times at 16\u{2009}384 tokens";
        assert_eq!(found[0].told, told);
    }

    #[test]
    fn ways_that_never_cross_are_told_so() {
        let (suite, lines) = suite(&[
            ("exact", &[1.0, 4.0]),
            ("fast", &[0.5, 1.0]),
            ("slow", &[2.0, 8.0]),
            ("none", &[]),
            ("at first", &[0.5, 8.0]),
        ]);
        let told: Vec<String> = crossings(&suite, &lines).into_iter().map(|c| c.told).collect();
        assert_eq!(told.len(), 3, "{told:?}");
        assert!(told[0].contains("at all sizes, 4 times at"), "{told:?}");
        assert!(told[1].contains("slow: not faster than exact up to"), "{told:?}");
        assert!(told[2].contains("at the largest sizes, 0.5 times"), "{told:?}");
        let (suite, lines) = self::suite(&[("a", &[1.0]), ("b", &[2.0])]);
        assert!(crossings(&suite, &lines).is_empty(), "nothing is exact");
    }

    #[test]
    fn skipped_points_do_not_turn_a_suite_to_the_wall_clock() {
        let (mut suite, _) = suite(&[("exact", &[1.0, 4.0])]);
        let points = &mut suite.series[0].points;
        (points[0].cpu, points[1]) =
            (Some(0.25), Point { x: Some(4096.0), skipped: Some("too long".into()), ..Point::default() });
        assert_eq!(lines(true, &suite), [vec![[1024.0, 0.25]]]);
        assert_eq!(lines(false, &suite), [vec![[1024.0, 1.0]]]);
        suite.series[0].points[0].cpu = None;
        assert_eq!(lines(true, &suite), [vec![[1024.0, 1.0]]], "no processor seconds: the clock");
    }
}
