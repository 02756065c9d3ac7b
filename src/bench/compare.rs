//! Benchmark documents side by side: the same row, and the same point of a suite, on several machines, devices or days, as ratios to the
//! first.
//!
//! A difference counts only beyond noise ([`judge`]); what ran in one document alone, failed, became less exact, or runs other WGSL than
//! before is told as well. Processor seconds are compared where all devices of a group compute on the CPU, clock time otherwise.

mod cells;
mod json;
mod text;
mod verdict;

pub(super) use text::remark;
pub use verdict::{LEAST_CHANGE, LEAST_CPU_CHANGE, RULE, Spread, Verdict, judge};

use super::published::{Device, Document, Row, positive};
use crate::error::{Error, Result};
use crate::numbers::grouped;
use cells::{Entry, Key, cell, keyed};
use serde_json::Value;

/// What a comparison is to look for.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Options {
    /// Least change of a median that counts, as a share; [`LEAST_CHANGE`] or [`LEAST_CPU_CHANGE`] if not given.
    pub least: Option<f64>,
}

/// A device of a document.
#[derive(Clone, Debug)]
pub struct Column {
    /// What tells it from the other columns: the name of its file, or of the device within one file.
    pub label: String,
    /// The document's program, commit and date.
    pub run: [String; 3],
    /// The device without its rows.
    pub device: Device,
    /// Geometric mean of the ratios of rows that ran rightly in both.
    pub geometric_mean: Option<f64>,
    /// Rows in that mean.
    pub compared: usize,
    /// The same of points of suites.
    pub points_mean: Option<f64>,
    /// Points in that mean.
    pub points_compared: usize,
}

/// One row or point in one document.
#[derive(Clone, Debug)]
pub struct Cell {
    /// Against the first.
    pub verdict: Verdict,
    /// Time that was compared.
    pub time: Option<Spread>,
    /// Time over that of the first.
    pub ratio: Option<f64>,
    /// Largest error against the f64 reference.
    pub max_error: Option<f64>,
    /// Whether the error is above the tolerance.
    pub wrong: bool,
    /// Whether that of the first is: then the ratio says nothing.
    pub first_is_wrong: bool,
    /// Whether the error is more than twice that of the first, and more than rounding.
    pub error_grew: bool,
    /// Whether the kernel's WGSL is another one than in the first.
    pub kernel_changed: bool,
    /// Why there is no time.
    pub failure: Option<String>,
}

/// A row, or a point of a suite, in all documents.
#[derive(Clone, Debug)]
pub struct Line {
    /// Kernel; of a point the suite.
    pub kernel: String,
    /// Case of the kernel; of a point the series.
    pub case: String,
    /// Variant asked for.
    pub variant: Option<String>,
    /// Whether its tiles were searched for.
    pub tuned: bool,
    /// The size of a point and what it counts; `None` of a row.
    pub size: Option<(f64, String)>,
    /// One per column of the group.
    pub cells: Vec<Cell>,
}

/// Devices that are compared with each other.
#[derive(Clone, Debug)]
pub struct Group {
    /// The first is what the others are compared with.
    pub columns: Vec<Column>,
    /// Whether processor seconds are compared.
    pub by_cpu: bool,
    /// The least change that counts.
    pub least: f64,
    /// Rows of the first, then those that only others have; then points of suites, likewise.
    pub lines: Vec<Line>,
    /// Kernels whose WGSL is not the same in all columns.
    pub changed_kernels: Vec<String>,
}

/// All of it.
#[derive(Clone, Debug)]
pub struct Comparison {
    /// One per device of the first document.
    pub groups: Vec<Group>,
    /// What else the reader should know: other options, unfinished runs, devices without a counterpart.
    pub notes: Vec<String>,
    /// Documents, or devices of a single one, that have nothing to compare with the first: no row and no suite.
    pub apart: Vec<String>,
    /// Whether all columns are of one document.
    pub one_run: bool,
}

impl Comparison {
    /// Results with a larger error than they may have: of all but the first document, or of all devices of a single one.
    pub fn wrong(&self) -> usize {
        let first = usize::from(!self.one_run);
        let cells = self.groups.iter().flat_map(|g| &g.lines).flat_map(|l| l.cells.iter().skip(first));
        cells.filter(|c| c.wrong).count()
    }

    /// Rows and points that are worse than in the first document beyond doubt.
    pub fn regressions(&self) -> usize {
        let cells = self.groups.iter().flat_map(|g| &g.lines).flat_map(|l| &l.cells);
        cells.filter(|c| c.verdict.is_regression()).count()
    }
}

/// Documents side by side. Two or more: every device of the first with its counterpart in the others. One: its devices with each
/// other.
///
/// Errors: [`Error::Value`] for a document that cannot be read, for none, and for one with a single device.
pub fn compare(documents: &[(String, Value)], options: Options) -> Result<Comparison> {
    let read: Vec<(String, Document)> = documents
        .iter()
        .map(|(name, value)| Ok((name.clone(), Document::read(name, value)?)))
        .collect::<Result<_>>()?;
    let mut notes = Vec::new();
    let groups = match read.as_slice() {
        [] => return Err(Error::value("compare", "documents", "none", "name two or more")),
        [(name, one)] => vec![within(name, one, options)?],
        [first, others @ ..] => {
            if first.1.devices.is_empty() {
                let remedy = "nothing was measured in it: name another file first";
                return Err(Error::value(&first.0, "a device to compare with", "none", remedy));
            }
            across(first, others, options, &mut notes)?
        }
    };
    notes.extend(read.iter().filter(|(_, d)| !d.complete).map(|(name, _)| {
        format!("{name}: the run did not come to its end; rows that it lacks are told as not run")
    }));
    notes.extend(read.iter().skip(1).flat_map(|(name, d)| differing(&read[0], name, d)));
    let apart = match read.as_slice() {
        [(_, one)] => {
            one.devices.iter().skip(1).filter(|d| !share(&one.devices[..1], [*d])).map(label).collect()
        }
        [first, others @ ..] => {
            let apart = others.iter().filter(|(_, other)| !share(&first.1.devices, &other.devices));
            apart.map(|(name, _)| name.clone()).collect()
        }
        [] => Vec::new(),
    };
    Ok(Comparison { groups, notes, apart, one_run: read.len() == 1 })
}

/// A run beside an earlier one: what `wgattn bench --baseline FILE` says after its rows.
///
/// Errors: as those of [`compare`].
pub fn against_baseline(name: &str, baseline: &Value, run: &Value, options: Options) -> Result<Comparison> {
    let both = [(name.to_string(), baseline.clone()), ("this run".to_string(), run.clone())];
    compare(&both, options)
}

fn label(device: &Device) -> String {
    format!("{} · {}", device.name, device.backend)
}

/// Whether any row or suite of some devices is one of others, whatever became of it.
fn share<'a>(first: &[Device], other: impl IntoIterator<Item = &'a Device>) -> bool {
    let row = |row: &Row| (row.kernel.clone(), row.case.clone());
    let rows: std::collections::HashSet<_> = first.iter().flat_map(|d| &d.rows).map(row).collect();
    let has_suite = |name: &str| first.iter().flat_map(|d| &d.suites).any(|s| s.name == name);
    other
        .into_iter()
        .any(|d| d.rows.iter().any(|r| rows.contains(&row(r))) || d.suites.iter().any(|s| has_suite(&s.name)))
}

/// Options that make runs hard to compare.
fn differing(first: &(String, Document), name: &str, other: &Document) -> Vec<String> {
    let say = |key: &&str| {
        let told = |d: &Document| d.options.get(*key).map_or_else(|| "unknown".into(), ToString::to_string);
        let (a, b) = (told(&first.1), told(other));
        (a != b).then(|| format!("{name}: `{key}` was {b}, in {} {a}", first.0))
    };
    ["quick", "seconds", "runs", "max_dispatch_ms"].iter().filter_map(say).collect()
}

fn column(label: String, document: &Document, device: &Device) -> Column {
    Column {
        label,
        run: [
            document.program.clone(),
            document.commit.clone().unwrap_or_else(|| "unknown".into()),
            document.date.clone(),
        ],
        device: Device { rows: Vec::new(), suites: Vec::new(), ..device.clone() },
        geometric_mean: None,
        compared: 0,
        points_mean: None,
        points_compared: 0,
    }
}

fn within(name: &str, document: &Document, options: Options) -> Result<Group> {
    if document.devices.len() < 2 {
        let got = crate::words::counted(document.devices.len(), "device", "devices");
        let remedy = "name a second file, or measure with `--device all`";
        return Err(Error::value(name, "two or more devices, as it is the only file", got, remedy));
    }
    let members = document.devices.iter().map(|device| {
        let twins =
            document.devices.iter().filter(|d| (&d.name, &d.backend) == (&device.name, &device.backend));
        let place = match (twins.count(), &device.bus, device.index) {
            (0 | 1, ..) => String::new(),
            (_, Some(bus), _) => format!(" at {bus}"),
            (_, None, index) => index.map_or_else(String::new, |i| format!(" #{i}")),
        };
        (format!("{}{place}", label(device)), document, device)
    });
    Ok(group(members.collect(), options))
}

fn across(
    first: &(String, Document),
    others: &[(String, Document)],
    options: Options,
    notes: &mut Vec<String>,
) -> Result<Vec<Group>> {
    let pairs: Vec<Vec<Option<usize>>> = others
        .iter()
        .map(|(name, other)| {
            let (pairs, by_order) = pair(&first.1.devices, &other.devices);
            if by_order && (first.1.devices.len() > 1 || other.devices.len() > 1) {
                notes.push(format!(
                    "{name}: none of its devices is one of {}: they are paired in order",
                    first.0
                ));
            }
            for (at, device) in other.devices.iter().enumerate() {
                if !pairs.contains(&Some(at)) {
                    notes.push(format!("{name}: {} ({}) is only here", device.name, device.backend));
                }
            }
            for (device, _) in first.1.devices.iter().zip(&pairs).filter(|(_, p)| p.is_none()) {
                notes.push(format!("{name}: has no {} ({})", device.name, device.backend));
            }
            pairs
        })
        .collect();
    let groups = first.1.devices.iter().enumerate().map(|(at, device)| {
        let mut members = vec![(first.0.clone(), &first.1, device)];
        for ((name, other), pairs) in others.iter().zip(&pairs) {
            members.extend(pairs[at].map(|at| (name.clone(), other, &other.devices[at])));
        }
        group(members, options)
    });
    // A device that no other document has is in the notes.
    let groups: Vec<Group> = groups.filter(|g| g.columns.len() > 1).collect();
    match groups.is_empty() {
        false => Ok(groups),
        true => {
            let what = others.iter().map(|(name, _)| name.as_str()).collect::<Vec<_>>().join(", ");
            let remedy = "nothing was measured there: export the run again";
            Err(Error::value(what, format!("a device to compare with those of {}", first.0), "none", remedy))
        }
    }
}

/// For every device of the first list the one of the second that is compared with it, and whether that was decided by their order.
///
/// Where both have one, these two; otherwise by name and backend, equal cards by their place on the bus; where no name agrees, in order.
fn pair(first: &[Device], other: &[Device]) -> (Vec<Option<usize>>, bool) {
    let in_order = || (0..first.len()).map(|i| (i < other.len()).then_some(i)).collect();
    if first.len() == 1 && other.len() == 1 {
        return (in_order(), true);
    }
    let mut taken = vec![false; other.len()];
    let mut pairs = vec![None; first.len()];
    for same_bus in [true, false] {
        for (device, found) in first.iter().zip(&mut pairs).filter(|(_, p)| p.is_none()) {
            let is_it = |(at, d): &(usize, &Device)| {
                !taken[*at]
                    && (&d.name, &d.backend) == (&device.name, &device.backend)
                    && (!same_bus || (d.bus.is_some() && d.bus == device.bus))
            };
            *found = other.iter().enumerate().find(is_it).map(|(at, _)| at);
            if let Some(at) = *found {
                taken[at] = true;
            }
        }
    }
    if pairs.iter().all(Option::is_none) { (in_order(), true) } else { (pairs, false) }
}

fn group(members: Vec<(String, &Document, &Device)>, options: Options) -> Group {
    let by_cpu = members.iter().all(|(_, _, device)| device.computes_on_cpu());
    let least = options.least.unwrap_or(if by_cpu { LEAST_CPU_CHANGE } else { LEAST_CHANGE });
    let rows: Vec<Vec<(Key<'_>, Entry<'_>)>> = members.iter().map(|(_, _, device)| keyed(device)).collect();
    let mut keys: Vec<Key<'_>> = Vec::new();
    let mut known = std::collections::HashSet::new();
    for (key, _) in rows.iter().flatten() {
        if known.insert(*key) {
            keys.push(*key);
        }
    }
    keys.sort_by_key(|key| key.size.is_some());
    let tables: Vec<std::collections::HashMap<Key<'_>, Entry<'_>>> =
        rows.into_iter().map(|rows| rows.into_iter().collect()).collect();
    let hash = |member: usize, kernel: &str| members[member].1.kernels.get(kernel);
    let changed = |member: usize, kernel: &str| match (hash(0, kernel), hash(member, kernel)) {
        (Some(a), Some(b)) => a != b,
        _ => false,
    };
    let line = |key: &Key<'_>| {
        let first = tables[0].get(key);
        let cells = tables.iter().enumerate().map(|(member, table)| {
            let mut cell = cell(first, table.get(key), by_cpu, least);
            cell.kernel_changed = key.size.is_none() && changed(member, key.kernel);
            if member == 0 && cell.verdict != Verdict::Missing {
                cell.verdict = Verdict::First;
            }
            cell
        });
        let cells = cells.collect();
        let unit = tables.iter().find_map(|table| table.get(key)).map_or("", |entry| entry.unit);
        Line {
            kernel: key.kernel.into(),
            case: key.case.into(),
            variant: key.variant.map(Into::into),
            tuned: key.tuned,
            size: key.size.map(|bits| (f64::from_bits(bits), unit.into())),
            cells,
        }
    };
    let lines: Vec<Line> = keys.iter().map(line).collect();
    let mut columns: Vec<Column> =
        members.iter().map(|(label, document, device)| column(label.clone(), document, device)).collect();
    for (at, column) in columns.iter_mut().enumerate() {
        let mean = |points: bool| {
            let lines = lines.iter().filter(|l| l.size.is_some() == points && l.counts(at));
            let logs: Vec<f64> = lines.filter_map(|l| positive(l.cells[at].ratio)).map(f64::ln).collect();
            let mean = (!logs.is_empty()).then(|| (logs.iter().sum::<f64>() / logs.len() as f64).exp());
            (mean, logs.len())
        };
        (column.geometric_mean, column.compared) = mean(false);
        (column.points_mean, column.points_compared) = mean(true);
    }
    let mut changed_kernels: Vec<String> =
        lines.iter().filter(|l| l.cells.iter().any(|c| c.kernel_changed)).map(|l| l.kernel.clone()).collect();
    changed_kernels.sort();
    changed_kernels.dedup();
    Group { columns, by_cpu, least, lines, changed_kernels }
}

impl Line {
    /// Whether a column's ratio belongs into the mean: a fast wrong result is no gain.
    fn counts(&self, at: usize) -> bool {
        ![0, at].iter().any(|at| self.cells[*at].wrong)
    }

    /// What people call it: `matmul/512x512x512 (tile64, tuned)`, `crossover: exact attention at 1 024 tokens`.
    pub fn name(&self) -> String {
        if let Some((size, unit)) = &self.size {
            return format!("{}: {} at {} {unit}", self.kernel, self.case, grouped(*size));
        }
        let marks = self.variant.iter().cloned().chain(self.tuned.then(|| "tuned".into()));
        let marks: Vec<String> = marks.collect();
        let marks = if marks.is_empty() { String::new() } else { format!(" ({})", marks.join(", ")) };
        format!("{}/{}{marks}", self.kernel, self.case)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn device(name: &str, backend: &str, bus: Option<&str>) -> Value {
        json!({ "name": name, "backend": backend, "type": "discrete", "bus": bus, "rows": [] })
    }

    fn devices(list: &[Value]) -> Vec<Device> {
        let value = json!({ "schema": "wgattn-bench", "version": 1, "devices": list });
        Document::read("x", &value).expect("readable").devices
    }

    #[test]
    fn devices_pair_by_name_and_equal_cards_by_their_bus() {
        let card = |bus| device("card", "vulkan", Some(bus));
        let first = devices(&[card("1"), card("2"), device("llvmpipe", "gl", None)]);
        let other = devices(&[device("llvmpipe", "gl", None), card("2"), card("1")]);
        assert_eq!(pair(&first, &other), (vec![Some(2), Some(1), Some(0)], false));
        let alone = devices(&[device("other", "metal", None)]);
        assert_eq!(pair(&first[..1], &alone), (vec![Some(0)], true), "one and one");
        let strangers = devices(&[device("x", "dx12", None), device("y", "dx12", None)]);
        assert_eq!(pair(&first, &strangers), (vec![Some(0), Some(1), None], true));
    }

    fn row(seconds: f64, error: f64, failure: Option<&str>) -> Value {
        json!({
            "kernel": "matmul", "case": "x", "median_seconds": seconds, "p10_seconds": seconds, "p90_seconds": seconds,
            "mad_seconds": 0.0, "samples": 10, "max_error": error, "tolerance": 1e-6, "failure": failure,
        })
    }

    fn of_rows(rows: &[Value], hash: &str) -> Value {
        let device = json!({ "name": "card", "backend": "vulkan", "type": "discrete", "rows": rows });
        json!({ "schema": "wgattn-bench", "version": 1, "complete": true, "kernels": { "matmul": hash }, "devices": [device] })
    }

    fn second_cell(a: Value, b: Value) -> (Cell, Comparison) {
        let both = [("a".to_string(), a), ("b".to_string(), b)];
        let comparison = compare(&both, Options::default()).expect("comparable");
        (comparison.groups[0].lines[0].cells[1].clone(), comparison)
    }

    #[test]
    fn failures_wrong_results_and_other_shaders_are_told() {
        let ok = || of_rows(&[row(1.0, 1e-7, None)], "aa");
        let (cell, all) = second_cell(ok(), of_rows(&[row(1.0, 1e-7, Some("lost"))], "bb"));
        assert_eq!((cell.verdict, cell.ratio, cell.kernel_changed), (Verdict::Failed, None, true));
        assert_eq!((all.regressions(), all.groups[0].changed_kernels.len()), (1, 1));
        let (cell, all) = second_cell(ok(), of_rows(&[row(0.1, 1e-3, None)], "aa"));
        assert_eq!((cell.verdict, cell.error_grew), (Verdict::Wrong, true));
        assert_eq!(all.groups[0].columns[1].geometric_mean, None, "a fast wrong row is no gain");
        let wrong = || of_rows(&[row(1.0, 1e-3, None)], "aa");
        let (cell, all) = second_cell(wrong(), wrong());
        assert_eq!((cell.verdict, cell.wrong), (Verdict::Same, true), "as wrong as before");
        assert_eq!(all.groups[0].columns[1].compared, 0);
        let (cell, _) = second_cell(of_rows(&[row(1.0, 1e-7, Some("lost"))], "aa"), ok());
        assert_eq!((cell.verdict, cell.ratio), (Verdict::Recovered, None));
        let (cell, all) = second_cell(ok(), of_rows(&[], "aa"));
        assert_eq!((cell.verdict, all.regressions()), (Verdict::Missing, 0));
        let (cell, _) = second_cell(of_rows(&[], "aa"), ok());
        assert_eq!(cell.verdict, Verdict::New);
    }

    #[test]
    fn errors_that_grow_within_rounding_are_not_told() {
        let of = |error| of_rows(&[row(1.0, error, None)], "aa");
        assert!(!second_cell(of(1e-9), of(9e-8)).0.error_grew, "below a tenth of the tolerance");
        assert!(second_cell(of(1e-7), of(3e-7)).0.error_grew);
        assert!(!second_cell(of(3e-7), of(1e-7)).0.error_grew);
    }

    #[test]
    fn ratios_have_a_geometric_mean_at_any_size() {
        let rows = |times: [f64; 2]| of_rows(&times.map(|t| row(t, 0.0, None)), "aa");
        let (cell, all) = second_cell(rows([1e-9, 1e9]), rows([1e9, 1e-9]));
        assert_eq!((cell.verdict, cell.ratio), (Verdict::Slower, Some(1e18)));
        let mean = all.groups[0].columns[1].geometric_mean.expect("two rows");
        assert!((mean - 1.0).abs() < 1e-9, "{mean}");
        let (cell, _) = second_cell(rows([1e-300, 1.0]), rows([1e300, 1.0]));
        assert_eq!(cell.verdict, Verdict::Unmeasured, "a quotient that no number holds");
    }

    #[test]
    fn one_file_needs_two_devices() {
        let one = [("a.json".to_string(), of_rows(&[], "aa"))];
        let message = compare(&one, Options::default()).expect_err("one device").to_string();
        assert!(message.contains("a.json") && message.contains("--device all"), "{message}");
        assert!(compare(&[], Options::default()).is_err());
        let empty = json!({ "schema": "wgattn-bench", "version": 1, "devices": [] });
        let message = against_baseline("a.json", &one[0].1, &empty, Options::default()).expect_err("none");
        assert!(
            message.to_string().contains("this run") && message.to_string().contains("a.json"),
            "{message}"
        );
    }

    fn of_points(points: &[Value]) -> Value {
        let suite = json!({
            "name": "crossover", "title": "t", "x": "tokens", "y": "seconds",
            "series": [{ "name": "exact attention", "points": points }],
        });
        let device =
            json!({ "name": "card", "backend": "vulkan", "type": "discrete", "rows": [], "suites": [suite] });
        json!({ "schema": "wgattn-bench", "version": 1, "complete": true, "devices": [device] })
    }

    #[test]
    fn points_of_suites_are_compared_like_rows() {
        let point = |x: u32, y: f64, runs: u32| json!({ "x": x, "y": y, "y_p10": 0.99 * y, "y_p90": 1.01 * y, "samples": runs, "max_error": 1e-7 });
        let failed = |x: u32| json!({ "x": x, "failure": "no room" });
        let skipped = |x: u32| json!({ "x": x, "skipped": "too long" });
        let first = of_points(&[
            point(1024, 1.0, 10),
            point(2048, 2.0, 10),
            point(4096, 4.0, 1),
            point(8192, 8.0, 9),
        ]);
        let other =
            of_points(&[point(1024, 1.0, 10), point(2048, 3.0, 10), point(4096, 6.0, 1), skipped(8192)]);
        let (cell, all) = second_cell(first.clone(), other);
        let lines = &all.groups[0].lines;
        assert_eq!((cell.verdict, lines.len()), (Verdict::Same, 4));
        assert_eq!(lines[1].name(), "crossover: exact attention at 2\u{2009}048 tokens");
        let verdicts: Vec<Verdict> = lines.iter().map(|l| l.cells[1].verdict).collect();
        assert_eq!(verdicts, [Verdict::Same, Verdict::Slower, Verdict::Unclear, Verdict::Missing]);
        assert_eq!((all.regressions(), all.groups[0].columns[1].compared), (1, 0));
        let column = &all.groups[0].columns[1];
        assert_eq!(column.points_compared, 3);
        assert!(column.points_mean.is_some_and(|m| (m - 2.25_f64.cbrt()).abs() < 1e-9), "{column:?}");
        let (json, text) = (all.json(), all.text());
        assert_eq!(json["groups"][0]["rows"], json!([]));
        let told = &json["groups"][0]["points"][1];
        assert_eq!((&told["suite"], &told["series"]), (&json!("crossover"), &json!("exact attention")));
        assert_eq!((&told["size"], &told["cells"][1]["verdict"]), (&json!(2048.0), &json!("slower")));
        assert!(text.contains("SLOWER") && text.contains("of 3 points 1.31×"), "{text}");
        let (cell, all) = second_cell(first, of_points(&[failed(1024)]));
        assert_eq!((cell.verdict, all.regressions()), (Verdict::Failed, 1));
    }

    #[test]
    fn a_point_and_a_row_of_one_name_are_not_mixed_up() {
        let mut value = of_points(&[json!({ "x": 64, "y": 1.0 })]);
        value["devices"][0]["suites"][0]["name"] = json!("matmul");
        value["devices"][0]["suites"][0]["series"][0]["name"] = json!("x");
        value["devices"][0]["rows"] = json!([row(9.0, 1e-7, None)]);
        let (_, all) = second_cell(value.clone(), value);
        let names: Vec<String> = all.groups[0].lines.iter().map(Line::name).collect();
        assert_eq!(names, ["matmul/x", "matmul: x at 64 tokens"]);
    }
}
