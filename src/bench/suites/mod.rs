//! End-to-end suites: times of what users wait for over sizes, where rows time single kernels.
//!
//! A suite has several ways, each of which gives one or more series of points. Sizes grow, and a way ends at the first size at which a run
//! is predicted to take longer than a budget, which the device cannot do, or at which it fails; the last point of its first series says
//! which.

mod attention;
mod crossing;
mod crossover;
mod embedding;
mod frame;
mod rows;

use super::document::{Document, Settings};
use super::flags::{Clock, Flag};
use super::measure::Options;
use super::published::{Point, Series, Suite, positive};
use super::run::{LONGEST_RUN, MEMORY_PART, Session, Watcher};
use super::stats::{Summary, log_log_slope};
use super::units::{error, memory, share, spread};
use crate::backend::Backend;
use crate::error::{Error, Result};
use crate::numbers::{grouped, seconds};
use crate::words::{counted, one_line};
pub(crate) use crossing::{by_cpu, crossings, lines};
use serde_json::{Value, json};

/// A suite that there is.
#[derive(Debug)]
pub struct Kind {
    /// Short name, by which it is asked for.
    pub name: &'static str,
    /// What people call it.
    pub title: &'static str,
    /// What its sizes count.
    pub x: &'static str,
    /// Sizes of a full run.
    sizes: &'static [u32],
    /// Sizes of a short run.
    quick: &'static [u32],
    ways: &'static [Way],
}

/// One way to do what a suite is about.
#[derive(Debug)]
struct Way {
    /// Names of the series that it gives a point each; the time of the first is that of a whole run.
    series: &'static [&'static str],
    /// Whether it is part of a short run, where no sizes were asked for.
    of_quick: bool,
    /// Bytes that the host holds at a size, about.
    bytes: fn(u32) -> f64,
    /// Measures one size: a point for each series.
    measure: fn(&dyn Backend, u32, Options) -> Result<Vec<Point>>,
}

/// All suites.
pub static SUITES: [&Kind; 3] = [&crossover::KIND, &frame::KIND, &embedding::KIND];

/// The suite that also runs in a short run where nothing was asked for.
const OF_QUICK: &Kind = &crossover::KIND;

/// Seconds that one run may take: at the sizes of a short run, and at those of a full one. Sizes that were asked for may take as long as rows.
const LONGEST_QUICK: f64 = 1.0;
const LONGEST: f64 = 10.0;

/// Exponents of a time over sizes that are believed: a way does at least look at everything, and at most at all pairs.
const EXPONENTS: [f64; 2] = [1.0, 2.0];

/// Suites that parts of names ask for, and the parts that are left for kernels: all but those that are in the name of a suite and of no
/// kernel.
pub fn select(filters: &[String]) -> (Vec<&'static Kind>, Vec<String>) {
    let has = |kind: &&Kind, part: &String| !part.is_empty() && kind.name.contains(part.as_str());
    let kinds = SUITES.into_iter().filter(|kind| filters.iter().any(|part| has(kind, part))).collect();
    let of_kernels = |part: &String| {
        let is_kernel = crate::kernels::KERNELS.iter().any(|k| k.name.contains(part.as_str()));
        is_kernel || !SUITES.iter().any(|kind| has(kind, part))
    };
    (kinds, filters.iter().filter(|part| of_kernels(part)).cloned().collect())
}

/// Names of all suites.
pub fn names() -> impl Iterator<Item = &'static str> {
    SUITES.into_iter().map(|kind| kind.name)
}

/// Suites of a run in which nothing was asked for.
pub fn usual(quick: bool) -> Vec<&'static Kind> {
    if quick { vec![OF_QUICK] } else { SUITES.to_vec() }
}

impl Kind {
    /// Sizes at which a run measures it, the smallest first.
    pub fn sizes(&self, settings: &Settings) -> Vec<u32> {
        let mut sizes = match (&settings.suite_sizes[..], settings.quick) {
            ([], true) => self.quick,
            ([], false) => self.sizes,
            (asked, _) => asked,
        }
        .to_vec();
        sizes.sort_unstable();
        sizes.dedup();
        sizes
    }

    /// Names of all its series.
    pub fn series(&self) -> impl Iterator<Item = &'static str> {
        self.ways.iter().flat_map(|way| way.series.iter().copied())
    }

    /// The suite before anything was measured.
    fn empty(&self) -> Suite {
        let series = |name: &str| Series { name: name.into(), points: Vec::new() };
        Suite {
            name: self.name.into(),
            title: self.title.into(),
            x: self.x.into(),
            y: "seconds".into(),
            series: self.series().map(series).collect(),
        }
    }
}

impl Point {
    /// A size of which nothing is known yet.
    fn at(x: u32) -> Self {
        Self { x: Some(f64::from(x)), ..Self::default() }
    }

    /// The same with further numbers.
    fn with(mut self, numbers: &[(&str, f64)]) -> Self {
        self.numbers.extend(numbers.iter().map(|(name, x)| ((*name).to_string(), *x)));
        self
    }

    /// The same with what its runs took by the clock and in processor seconds, as far as that could be seen.
    fn timed(self, clock: Option<Summary>, cpu: Option<Summary>) -> Self {
        let [clock, cpu] = [clock, cpu].map(|s| s.filter(Summary::is_measurable));
        let ends = |s: Option<Summary>| s.filter(|s| s.samples > 1).map(|s| (s.p10, s.p90));
        Self {
            y: clock.map(|s| s.median),
            y_ends: ends(clock),
            cpu: cpu.map(|s| s.median),
            cpu_ends: ends(cpu),
            samples: clock.map(|s| s.samples as f64),
            ..self
        }
    }

    /// A size that was not run.
    fn skipped(x: u32, why: impl Into<String>) -> Self {
        Self { skipped: Some(why.into()), ..Self::at(x) }
    }

    /// A size that went wrong.
    fn failed(x: u32, why: impl Into<String>) -> Self {
        Self { failure: Some(why.into()), ..Self::at(x) }
    }

    /// As JSON; what is unknown is null.
    fn json(&self) -> Value {
        json!({
            "x": self.x, "y": self.y, "y_p10": self.y_ends.map(|e| e.0), "y_p90": self.y_ends.map(|e| e.1),
            "cpu": self.cpu, "cpu_p10": self.cpu_ends.map(|e| e.0), "cpu_p90": self.cpu_ends.map(|e| e.1),
            "samples": self.samples, "max_error": self.max_error, "checked": self.checked,
            "failure": self.failure, "skipped": self.skipped, "flags": self.flags, "numbers": self.numbers,
        })
    }
}

impl Suite {
    /// As JSON.
    pub(super) fn json(&self) -> Value {
        let series = |s: &Series| json!({ "name": s.name, "points": s.points.iter().map(Point::json).collect::<Vec<_>>() });
        json!({
            "name": self.name, "title": self.title, "x": self.x, "y": self.y,
            "series": self.series.iter().map(series).collect::<Vec<_>>(),
        })
    }
}

/// What points have in a table beside what rows have too.
pub(super) const OF_POINT: [&str; 6] = ["suite", "series", "size", "size_of", "skipped", "numbers"];

/// A point under the names that columns of tables have: those of rows for what rows have as well, and [`OF_POINT`].
pub(super) fn cells(computes_on_cpu: bool, suite: &Suite, series: &str, point: &Point) -> Value {
    let number = |name: &str| point.numbers.get(name);
    // What has a column of its own is not told twice.
    let rest = point
        .numbers
        .iter()
        .filter(|(name, _)| !["compile_seconds", "first_run_seconds"].contains(&name.as_str()));
    let numbers: Vec<String> = rest.map(|(name, x)| format!("{name}={x}")).collect();
    let (time, cpu) = (point.times(false), point.times(true));
    json!({
        "suite": suite.name, "series": series, "size": point.x, "size_of": suite.x, "skipped": point.skipped,
        "numbers": numbers.join("; "), "median_seconds": time.median, "p10_seconds": time.p10, "p90_seconds": time.p90,
        "cpu_seconds": cpu.median, "cpu_p10_seconds": cpu.p10, "cpu_p90_seconds": cpu.p90, "samples": point.samples,
        "judged_by": (computes_on_cpu && cpu.median.is_some()).then(|| Clock::Cpu.to_string()),
        "max_error": point.max_error, "checked": point.checked, "compile_seconds": number("compile_seconds"),
        "first_run_seconds": number("first_run_seconds"), "flags": point.flags, "failure": point.failure,
    })
}

/// Seconds that a run of a larger size is expected to take, from the sizes before.
fn predicted(line: &[(f64, f64)], x: f64) -> Option<f64> {
    let (last_x, last_y) = *line.last()?;
    let [least, most] = EXPONENTS;
    // The small sizes are all overhead, so that only the last two tell how it goes on.
    let slope = log_log_slope(&line[line.len().saturating_sub(2)..]).unwrap_or(most).clamp(least, most);
    Some(last_y * (x / last_x).powf(slope))
}

/// Why a size is not run; `None` where nothing speaks against it.
fn too_much(way: &Way, so_far: &[Point], x: u32, longest: f64, host: Option<u64>) -> Option<String> {
    let bytes = (way.bytes)(x);
    if let Some(host) = host.map(|m| m as f64).filter(|m| bytes > MEMORY_PART * m) {
        let allowed = memory(MEMORY_PART * host);
        return Some(format!(
            "it needs about {} of the host's memory, and may take {allowed}",
            memory(bytes)
        ));
    }
    let line: Vec<(f64, f64)> = so_far.iter().filter_map(|p| Some((p.x?, positive(p.y)?))).collect();
    let expected = predicted(&line, f64::from(x)).filter(|s| *s > longest)?;
    Some(format!("a run is expected to take {}, and may take {}", seconds(expected), seconds(longest)))
}

/// Puts a suite, or what there is of it so far, into the last device of a document.
fn keep(document: &mut Document, suite: &Suite) {
    let Some(device) = document.devices.last_mut() else { return };
    match device.suites.iter_mut().find(|s| s.name == suite.name) {
        Some(old) => old.clone_from(suite),
        None => device.suites.push(suite.clone()),
    }
}

/// Measures a suite on the last device of a document.
pub(super) fn run(
    document: &mut Document,
    session: &mut Session<'_, '_>,
    kind: &'static Kind,
    options: Options,
    watcher: &mut dyn Watcher,
) {
    let sizes = kind.sizes(&document.settings);
    let own_sizes = document.settings.suite_sizes.is_empty();
    let short = own_sizes && document.settings.quick;
    let longest = match (own_sizes, short) {
        (false, _) => LONGEST_RUN,
        (true, true) => LONGEST_QUICK,
        (true, false) => LONGEST,
    };
    let host = document.system.memory_bytes;
    let mut suite = kind.empty();
    keep(document, &suite);
    let mut ended = vec![false; kind.ways.len()];
    for &x in &sizes {
        let mut first = 0;
        for (way, ended) in kind.ways.iter().zip(&mut ended) {
            let at = first;
            first += way.series.len();
            if *ended {
                continue;
            }
            watcher.next(&format!(
                "{}: {} at {} {}",
                kind.name,
                way.series[0],
                grouped(f64::from(x)),
                kind.x
            ));
            let why = match short && !way.of_quick {
                true => Some("a short run leaves it out; ask for sizes with --n, or for a full run".into()),
                false => too_much(way, &suite.series[at].points, x, longest, host),
            };
            let points = match why {
                Some(why) => vec![Point::skipped(x, why)],
                None => match session.with(watcher, |backend, _| (way.measure)(backend, x, options)) {
                    Ok(points) => points,
                    // How far a device can go ends a sweep; whoever asks for a size wants it. Told once, not for every part of it.
                    Err(error @ (Error::Limit { .. } | Error::Unsupported { .. })) if own_sizes => {
                        vec![Point::skipped(x, one_line(error))]
                    }
                    Err(error) => vec![Point::failed(x, one_line(error))],
                },
            };
            // What fails or is lost at one size is not tried at a larger one.
            *ended = points.iter().all(|p| p.y.is_none());
            let count = points.len();
            for (series, point) in suite.series[at..].iter_mut().zip(points) {
                series.points.push(point);
            }
            keep(document, &suite);
            for series in &suite.series[at..at + count] {
                if let Some(point) = series.points.last() {
                    watcher.point(document, &suite, &series.name, point);
                }
            }
        }
    }
    watcher.suite(document, &suite);
}

/// What a suite shows, in sentences.
pub(crate) fn findings(computes_on_cpu: bool, suite: &Suite) -> Vec<String> {
    let cpu = by_cpu(computes_on_cpu, suite);
    let clock = if cpu { " (by CPU time)" } else { "" };
    let crossings = crossings(suite, &lines(computes_on_cpu, suite)).into_iter().map(|c| c.told + clock);
    let points = || suite.series.first().into_iter().flat_map(|s| &s.points);
    let size = |p: &Point| Some(format!("{} {}", grouped(p.x?), suite.x));
    let number = |p: &Point, name| p.numbers.get(name).copied();
    let shares = points().filter_map(|p| {
        let kernels = share(Some(number(p, KERNEL_SHARE)?));
        let dispatches = grouped(number(p, DISPATCHES)?);
        Some(format!(
            "{}: kernels take {kernels} of a submission of {dispatches} dispatches{clock}",
            size(p)?
        ))
    });
    let exceeding = points().filter(|p| p.flags.contains(&Flag::PartsExceed.to_string())).filter_map(|p| {
        let parts = positive(number(p, if cpu { PARTS_CPU } else { PARTS }))?;
        let whole = positive(if cpu { p.cpu } else { p.y })?;
        Some(format!(
            "{}: the parts add up to {}, {} more than the whole of {}{clock}; features, row and colours are timed step by step in \
             runs of their own, so the excess is noise and the submissions of single steps: take the whole for the time, and the parts for \
             how it divides",
            size(p)?,
            seconds(parts),
            share(Some(parts / whole - 1.0)),
            seconds(whole),
        ))
    });
    crossings.chain(shares).chain(exceeding).collect()
}

/// Names of numbers that sentences are made of: the part of a submission's time in which kernels run, and its dispatches.
const KERNEL_SHARE: &str = "kernel_share";
const DISPATCHES: &str = "dispatches";
/// The sum of the parts of a whole, by the clock and in processor seconds.
const PARTS: &str = "parts_seconds";
const PARTS_CPU: &str = "parts_cpu_seconds";

/// Further numbers of a point for people, each with its name.
pub(crate) fn numbers(point: &Point) -> Vec<String> {
    let say = |(name, x): (&String, &f64)| {
        let words = |ending: &str| name.strip_suffix(ending).map(|rest| rest.replace('_', " "));
        if let Some(name) = words("_seconds") {
            return format!("{name} {}", seconds(*x));
        }
        if let Some(name) = words("_bytes") {
            return format!("{name} {}", memory(*x));
        }
        if let Some(name) = words("_share") {
            return format!("{name} share {}", share(Some(*x)));
        }
        format!("{} {}", name.replace('_', " "), grouped(*x))
    };
    point.numbers.iter().map(say).collect()
}

/// A point in a line for people.
pub fn point_text(suite: &Suite, series: &str, point: &Point) -> String {
    let size = point.x.map_or_else(String::new, |x| format!("{} {}", grouped(x), suite.x));
    let head = format!("{:<10} {size:>16}  {series:<40}", suite.name);
    if let Some(why) = &point.failure {
        return format!("{head}  FAILED: {why}");
    }
    if let Some(why) = &point.skipped {
        return format!("{head}  not run: {why}");
    }
    let mut parts = vec![point.y.map_or_else(|| "too short to see".into(), |y| spread(y, point.y_ends))];
    parts.extend(point.cpu.map(|s| format!("{} {}", spread(s, point.cpu_ends), Clock::Cpu)));
    parts.extend(point.samples.map(|n| counted(n as u64, "run", "runs")));
    parts.extend(match (point.max_error, &point.checked) {
        (Some(x), of) => Some(format!("error {} ({})", error(Some(x)), of.as_deref().unwrap_or("all"))),
        (None, why) => why.as_ref().map(|why| format!("checked: {why}")),
    });
    parts.extend(numbers(point));
    // Said once for the device, not in every line.
    parts.extend(point.flags.iter().filter(|f| **f != Flag::Software.to_string()).cloned());
    format!("{head}  {}", parts.join(", "))
}

/// What a suite shows, for people: the sizes from which other ways are faster, and the like.
pub fn summary(computes_on_cpu: bool, suite: &Suite) -> Vec<String> {
    findings(computes_on_cpu, suite).into_iter().map(|told| format!("{}: {told}", suite.name)).collect()
}

/// Refuses a size that a suite has no data for.
fn refused<T>(what: &str, expected: &str, got: u32) -> Result<T> {
    Err(Error::value(what, expected, got, "ask for a power of two from 256 on"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_grow_as_they_did_between_the_last_two_sizes() {
        let line = [(256.0, 1.0), (512.0, 1.0), (1024.0, 3.0)];
        let slope = 3.0_f64.log2();
        assert_eq!(
            predicted(&line, 2048.0).map(|s| (s / 2.0_f64.powf(slope) - 3.0).abs() < 1e-9),
            Some(true)
        );
        assert_eq!(predicted(&line[..2], 1024.0), Some(2.0), "at least linear");
        assert_eq!(predicted(&[(256.0, 1.0), (512.0, 40.0)], 1024.0), Some(160.0), "at most quadratic");
        assert_eq!(predicted(&line[..1], 512.0), Some(4.0), "with one size the worst is reckoned with");
        assert_eq!(predicted(&[], 512.0), None);
    }

    #[test]
    fn filters_name_suites_and_kernels() {
        let of = |words: &[&str]| select(&words.iter().map(|w| (*w).to_string()).collect::<Vec<_>>());
        let names = |kinds: &[&Kind]| kinds.iter().map(|k| k.name).collect::<Vec<_>>();
        let (kinds, rest) = of(&["crossover"]);
        assert_eq!((names(&kinds), rest.len()), (vec!["crossover"], 0));
        let (kinds, rest) = of(&["frame", "matmul", "embed"]);
        // `circulant_embed` is a kernel.
        assert_eq!(
            (names(&kinds), rest),
            (vec!["frame", "embedding"], vec!["matmul".into(), "embed".into()])
        );
        let (kinds, rest) = of(&["no_such"]);
        assert_eq!(
            (kinds.len(), rest),
            (0, vec!["no_such".to_string()]),
            "what nobody knows is told by the plan"
        );
        assert_eq!((names(&usual(true)), usual(false).len()), (vec!["crossover"], SUITES.len()));
    }

    #[test]
    fn points_come_back_from_their_json() {
        let numbers = [("dispatches".to_string(), 3.0), ("staging_bytes".to_string(), 2048.0)].into();
        let point = Point { y: Some(0.5), checked: Some("16 rows".into()), numbers, ..Point::at(1024) };
        let suite = Suite {
            series: vec![Series {
                name: "a".into(),
                points: vec![point.clone(), Point::skipped(2048, "too long")],
            }],
            ..crossover::KIND.empty()
        };
        let device =
            json!({ "name": "a", "backend": "b", "type": "discrete", "rows": [], "suites": [suite.json()] });
        let value = json!({ "schema": super::super::published::SCHEMA, "version": 1, "devices": [device] });
        let read = super::super::published::Document::read("a.json", &value).expect("readable");
        assert_eq!(read.devices[0].suites, [suite]);
        let text = point_text(&read.devices[0].suites[0], "a", &point);
        assert!(text.contains("checked: 16 rows, dispatches 3, staging 2 KiB"), "{text}");
    }
}
