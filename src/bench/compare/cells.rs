//! Rows and points of a device by what tells them apart, and what becomes of one beside that of the first document.

use super::{Cell, Spread, Verdict, judge};
use crate::bench::published::{Device, Point, Row, Suite, Times, positive};

/// Errors below a tenth of the tolerance, or this where there is none, are rounding: they vary with the order of sums.
const ROUNDING: f64 = 1e-6;

/// What tells rows and points apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Key<'a> {
    /// Kernel, or suite.
    pub(super) kernel: &'a str,
    /// Case, or series.
    pub(super) case: &'a str,
    pub(super) variant: Option<&'a str>,
    pub(super) tuned: bool,
    /// Bits of a point's size.
    pub(super) size: Option<u64>,
    /// The how-manieth of these it is.
    count: usize,
}

/// What is compared of a row or a point.
#[derive(Clone, Copy, Debug)]
pub(super) struct Entry<'a> {
    time: Times,
    cpu: Times,
    samples: Option<f64>,
    max_error: Option<f64>,
    tolerance: Option<f64>,
    failure: Option<&'a String>,
    /// What the size of a point counts.
    pub(super) unit: &'a str,
}

impl<'a> Entry<'a> {
    fn of_row(row: &'a Row) -> Self {
        Self {
            time: row.time,
            cpu: row.cpu,
            samples: row.samples,
            max_error: row.max_error,
            tolerance: row.tolerance,
            failure: row.failure.as_ref(),
            unit: "",
        }
    }

    fn of_point(suite: &'a Suite, point: &'a Point) -> Self {
        Self {
            time: point.times(false),
            cpu: point.times(true),
            samples: point.samples,
            max_error: point.max_error,
            tolerance: None,
            failure: point.failure.as_ref(),
            unit: &suite.x,
        }
    }

    /// Whether the error is above the tolerance. A point with such an error failed.
    fn is_wrong(&self) -> bool {
        matches!((self.max_error, self.tolerance), (Some(error), Some(tolerance)) if error > tolerance)
    }
}

pub(super) fn keyed(device: &Device) -> Vec<(Key<'_>, Entry<'_>)> {
    let of_rows = device.rows.iter().map(|row| {
        let key = Key {
            kernel: &row.kernel,
            case: &row.case,
            variant: row.asked_variant.as_deref(),
            tuned: row.tuned,
            size: None,
            count: 0,
        };
        (key, Entry::of_row(row))
    });
    let points = device.suites.iter().flat_map(|suite| {
        let points = suite.series.iter().flat_map(|series| series.points.iter().map(move |p| (series, p)));
        // What was not run is as good as not there.
        points.filter(|(_, point)| point.skipped.is_none()).filter_map(move |(series, point)| {
            let (kernel, case, size) = (suite.name.as_str(), series.name.as_str(), Some(point.x?.to_bits()));
            let key = Key { kernel, case, variant: None, tuned: false, size, count: 0 };
            Some((key, Entry::of_point(suite, point)))
        })
    });
    let mut seen = std::collections::HashMap::new();
    let numbered = of_rows.chain(points).map(|(key, entry)| {
        let count = seen.entry(key).or_insert(0_usize);
        *count += 1;
        (Key { count: *count - 1, ..key }, entry)
    });
    numbered.collect()
}

pub(super) fn cell(first: Option<&Entry<'_>>, other: Option<&Entry<'_>>, by_cpu: bool, least: f64) -> Cell {
    // Processor seconds of one and clock time of the other are never compared.
    let both_by_cpu = by_cpu && [first, other].iter().flatten().all(|row| row.cpu.median.is_some());
    let time_of = |row: &Entry<'_>| {
        let times = if both_by_cpu { row.cpu } else { row.time };
        Spread::of(times, row.samples).filter(|_| row.failure.is_none())
    };
    let time = other.and_then(time_of);
    let mut cell = Cell {
        verdict: Verdict::Missing,
        time,
        ratio: None,
        max_error: other.and_then(|row| row.max_error),
        wrong: other.is_some_and(Entry::is_wrong),
        first_is_wrong: first.is_some_and(Entry::is_wrong),
        error_grew: false,
        kernel_changed: false,
        failure: other.and_then(|row| row.failure.cloned()),
    };
    let Some(row) = other else { return cell };
    let Some(first) = first else {
        cell.verdict = Verdict::New;
        return cell;
    };
    let before = time_of(first);
    cell.ratio = positive(before.zip(time).map(|(a, b)| b.median / a.median));
    cell.error_grew = grew(first.max_error, row);
    cell.verdict = match (first.failure.is_some(), row.failure.is_some(), before, time) {
        (true, true, ..) => Verdict::FailedInBoth,
        (false, true, ..) => Verdict::Failed,
        _ if row.is_wrong() && !first.is_wrong() => Verdict::Wrong,
        (true, false, ..) => Verdict::Recovered,
        (_, _, Some(a), Some(b)) if cell.ratio.is_some() => judge(a, b, least),
        _ => Verdict::Unmeasured,
    };
    cell
}

/// Whether an error is more than twice what it was, and more than rounding.
fn grew(before: Option<f64>, row: &Entry<'_>) -> bool {
    let floor = row.tolerance.map_or(ROUNDING, |t| 0.1 * t);
    matches!((before, row.max_error), (Some(a), Some(b)) if b > 2.0 * a && b > floor)
}
