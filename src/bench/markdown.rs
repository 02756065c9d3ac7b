//! The report of a benchmark as Markdown tables, for an issue or a README.

use super::compare::{Comparison, Group, Line, RULE, remark};
use super::html::{ROOFS, counts, mean_share};
use super::published::{Device, Document, Point, Row, Suite, Times};
use super::suites;
use super::system::short_commit;
use super::units::{
    LONGEST, between, error, memory, moment, or_dash, prefixed, ratio, score, share, shortened, time,
    with_ends, work_rate,
};
use crate::error::Result;
use crate::numbers::grouped;
use crate::words::counted;
use serde_json::Value;

/// Devices, what they can do, all rows and all suites, failures included; then the comparison with an earlier run, if there is one.
///
/// Errors: [`Error::Value`](crate::Error::Value) for what is no benchmark document of a version that is known here.
pub fn markdown(document: &Value, baseline: Option<&Comparison>) -> Result<String> {
    let document = Document::read("benchmark document", document)?;
    let mut parts = vec![head(&document), devices(&document.devices), peaks(&document.devices)];
    let several = document.devices.len() > 1;
    for device in &document.devices {
        parts.push(rows(device, several));
        parts.extend(device.suites.iter().map(|of| suite(device, of, several)));
    }
    parts.extend(baseline.iter().flat_map(|comparison| beside(comparison)));
    parts.retain(|part| !part.is_empty());
    Ok(parts.join("\n\n") + "\n")
}

/// A run beside its baseline: a table per device, and by which rule.
fn beside(comparison: &Comparison) -> Vec<String> {
    let found = match comparison.regressions() {
        0 => "No regression beyond noise.".into(),
        n => format!("**{} beyond noise.**", counted(n, "regression", "regressions")),
    };
    let notes: String = comparison.notes.iter().map(|note| format!("\n* {}", plain(note))).collect();
    let gap = if notes.is_empty() { "" } else { "\n" };
    let head = format!("### Beside the baseline\n\n{found}{gap}{notes}");
    std::iter::once(head).chain(comparison.groups.iter().map(group)).chain([plain(RULE)]).collect()
}

fn group(group: &Group) -> String {
    let mut head = vec!["row".to_string()];
    for (at, column) in group.columns.iter().enumerate() {
        head.push(column.label.clone());
        if at > 0 {
            head.extend(["ratio".to_string(), "verdict".to_string()]);
        }
    }
    let line = |line: &Line| {
        let mut cells = vec![line.name()];
        for (at, cell) in line.cells.iter().enumerate() {
            cells.push(time(cell.time.map(|t| t.median)));
            if at > 0 {
                cells.extend([ratio(cell.ratio), remark(cell)]);
            }
        }
        cells
    };
    let body: Vec<Vec<String>> = group.lines.iter().map(line).collect();
    let by = if group.by_cpu { "CPU seconds" } else { "Time" };
    let device = group.columns.first().map_or("", |c| c.device.name.as_str());
    let about = format!("{by} on {}", shortened(device, LONGEST));
    format!("{}:\n\n{}", plain(&about), table(&head, 1, &body))
}

/// Text that stays inside its cell and is taken for nothing else than text.
fn plain(text: &str) -> String {
    let mut out = String::new();
    for c in text.chars() {
        match c {
            '|' | '\\' | '`' | '*' | '_' | '[' | ']' | '~' | '#' | '$' => {
                out.push('\\');
                out.push(c);
            }
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '&' => out.push_str("&amp;"),
            // A name with `@` would call a person on many hosts.
            '@' => out.push_str("&#64;"),
            '\n' | '\r' | '\t' => out.push(' '),
            c if c.is_control() || matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}') => {
                out.push('\u{fffd}');
            }
            c => out.push(c),
        }
    }
    out
}

/// A table of cells that are escaped here; all columns after the first `words` are numbers.
fn table(head: &[String], words: usize, body: &[Vec<String>]) -> String {
    let line =
        |cells: &[String]| format!("| {} |", cells.iter().map(|c| plain(c)).collect::<Vec<_>>().join(" | "));
    let rule: Vec<&str> = (0..head.len()).map(|i| if i < words { "---" } else { "---:" }).collect();
    let mut lines = vec![line(head), format!("|{}|", rule.join("|"))];
    lines.extend(body.iter().map(|row| line(row)));
    lines.join("\n")
}

fn head(document: &Document) -> String {
    let system = &document.system;
    let cores = system.cores.map(|n| counted(n as u64, "core", "cores"));
    let memory = system.memory_bytes.map(memory);
    let machine: Vec<String> =
        [system.cpu.clone(), cores, memory, system.os.clone()].into_iter().flatten().collect();
    let commit = document.commit.as_ref().map_or_else(String::new, |c| format!(" ({})", short_commit(c)));
    let cut = if document.complete { "" } else { " **The run was cut short: rows are missing.**" };
    let left_out: String =
        document.left_out.iter().map(|device| format!(" **Left out: {}.**", plain(device))).collect();
    format!(
        "Measured with wgattn {}{} on {}: {}.{cut}{left_out}",
        plain(&document.program),
        plain(&commit),
        plain(&moment(&document.date)),
        plain(&machine.join(", "))
    )
}

fn devices(devices: &[Device]) -> String {
    let head = [
        "device",
        "backend",
        "type",
        "driver",
        "score",
        "mean share of the bound",
        "rows right",
        "failed",
        "wrong",
    ];
    let body = devices.iter().map(|d| {
        let driver = d.driver.as_deref().unwrap_or_default();
        let names = [&d.name, &d.backend, &d.kind, driver];
        let mut cells: Vec<String> = names.iter().map(|n| shortened(n, LONGEST)).collect();
        cells.extend([score(d.score), share(mean_share(d))]);
        cells.extend(counts(d).map(|n| n.to_string()));
        cells
    });
    table(&head.map(Into::into), 4, &body.collect::<Vec<_>>())
}

fn peaks(devices: &[Device]) -> String {
    if devices.is_empty() {
        return String::new();
    }
    let head: Vec<String> = std::iter::once("peak".into())
        .chain(devices.iter().map(|d| format!("{} ({})", shortened(&d.name, LONGEST), d.backend)))
        .collect();
    let mut body: Vec<Vec<String>> = Vec::new();
    for (name, words, unit) in ROOFS {
        let say = |d: &Device| {
            let roof = d.peaks.roofs.get(name).copied().unwrap_or_default();
            let cpu =
                roof.per_cpu_second.map_or_else(String::new, |x| format!(", {}/CPU s", prefixed(x, unit)));
            or_dash(roof.per_second, |x| prefixed(x, &format!("{unit}/s"))) + &cpu
        };
        body.push(std::iter::once(words.to_string()).chain(devices.iter().map(say)).collect());
    }
    for (words, of) in [
        ("dispatch", (|d| d.peaks.dispatch) as fn(&Device) -> Option<f64>),
        ("submission", |d| d.peaks.submit),
    ] {
        body.push(std::iter::once(words.to_string()).chain(devices.iter().map(|d| time(of(d)))).collect());
    }
    table(&head, 1, &body)
}

fn rows(device: &Device, several: bool) -> String {
    let cpu = device.computes_on_cpu();
    let mut head = vec!["kernel", "case", "time", "p10 to p90"];
    if cpu {
        head.extend(["CPU time", "CPU p10 to p90"]);
    }
    head.extend(["rate", "of the bound", "error", "remarks"]);
    let body: Vec<Vec<String>> = device.rows.iter().map(|row| line(device, row, cpu)).collect();
    let note = clocks(device, cpu).map_or_else(String::new, |note| format!("\n\n{}", plain(&note)));
    let title = if several {
        format!("### {} ({})\n\n", plain(&shortened(&device.name, LONGEST)), plain(&device.backend))
    } else {
        String::new()
    };
    let head: Vec<String> = head.into_iter().map(Into::into).collect();
    format!("{title}{}{note}", table(&head, 2, &body))
}

/// Where the times of a table come from, and which of them rates, shares and remarks go by; nothing without any time.
fn clocks(device: &Device, cpu: bool) -> Option<String> {
    let mut sources: Vec<(&str, usize)> = Vec::new();
    for source in device.rows.iter().filter_map(|row| row.source.as_deref()) {
        match sources.iter_mut().find(|(name, _)| *name == source) {
            Some((_, count)) => *count += 1,
            None => sources.push((source, 1)),
        }
    }
    let several = sources.len() > 1;
    let told = sources.iter().map(|(name, count)| match several {
        true => format!("{name} ({})", counted(*count, "row", "rows")),
        false => (*name).to_string(),
    });
    let told: Vec<String> = told.collect();
    let judged = if cpu { " Rates, shares of the bound and remarks on runs are by CPU time." } else { "" };
    (!told.is_empty()).then(|| format!("Time is by {}.{judged}", told.join(", ")))
}

fn line(device: &Device, row: &Row, cpu: bool) -> Vec<String> {
    let judged = device.judged(row);
    let mut cells = vec![row.kernel.clone(), row.case.clone()];
    // Quantiles beside the time that they belong to.
    let mut put = |times: &Times| {
        let ends = times.p10.zip(times.p90);
        cells.extend([time(times.median), ends.map_or_else(|| time(None), |(a, b)| between(a, b))]);
    };
    put(&row.time);
    if cpu {
        put(&row.cpu);
    }
    let rate = work_rate(row.flop, row.bytes, judged.median);
    let per = |what: &str| if judged == row.time { what.into() } else { what.replace("/s", "/CPU s") };
    cells.push(rate.map_or_else(|| time(None), |(rate, what)| prefixed(rate, &per(what))));
    let by = row
        .bound_by
        .as_ref()
        .filter(|_| row.share.is_some())
        .map_or_else(String::new, |by| format!(" ({by})"));
    cells.push(share(row.share) + &by);
    cells.push(error(row.max_error));
    let mut remarks: Vec<String> = row.failure.iter().map(|why| format!("FAILED: {why}")).collect();
    remarks.extend(row.is_wrong().then(|| format!("WRONG: at most {} is allowed", error(row.tolerance))));
    remarks.extend(row.asked_variant.iter().map(|v| format!("held to {v}")));
    remarks.extend(device.tuning(row));
    remarks.extend(row.flags.iter().cloned());
    cells.push(remarks.join(", "));
    cells
}

/// What brackets in a suite's table mean, and how many runs stand behind its times; nothing where all were timed once.
fn spread_note(suite: &Suite) -> Option<String> {
    let runs = suite.series.iter().flat_map(|s| &s.points).filter_map(|p| p.samples);
    let (least, most) = runs.fold((f64::INFINITY, 0.0_f64), |(a, b), n| (a.min(n), b.max(n)));
    let runs = if least < most { format!("{least:.0} to {most:.0}") } else { format!("{most:.0}") };
    (most > 1.0).then(|| format!("in brackets p10 to p90 of {runs} runs"))
}

/// Sizes down, series across; below it what it shows, the errors, and what was not run or went wrong.
fn suite(device: &Device, suite: &Suite, several: bool) -> String {
    let cpu = suites::by_cpu(device.computes_on_cpu(), suite);
    let mut sizes: Vec<f64> = suite.series.iter().flat_map(|s| &s.points).filter_map(|p| p.x).collect();
    sizes.sort_by(f64::total_cmp);
    sizes.dedup();
    if sizes.is_empty() {
        return String::new();
    }
    let head = std::iter::once(suite.x.clone()).chain(suite.series.iter().map(|s| s.name.clone()));
    let cell = |points: &[Point], x: f64| match points.iter().find(|p| p.x == Some(x)) {
        Some(p) if p.failure.is_some() => "FAILED".into(),
        Some(p) if p.skipped.is_some() => "not run".into(),
        Some(p) => with_ends(p.times(cpu)),
        None => String::new(),
    };
    let line = |x: &f64| {
        std::iter::once(grouped(*x)).chain(suite.series.iter().map(|s| cell(&s.points, *x))).collect()
    };
    let body: Vec<Vec<String>> = sizes.iter().map(line).collect();
    let by = if cpu { ", CPU seconds" } else { "" };
    let of = if several {
        format!(" · {} ({})", shortened(&device.name, LONGEST), device.backend)
    } else {
        String::new()
    };
    let mut notes: Vec<String> = spread_note(suite).into_iter().collect();
    notes.extend(suites::findings(device.computes_on_cpu(), suite));
    for series in &suite.series {
        let worst = series.points.iter().filter_map(|p| p.max_error).reduce(f64::max);
        notes.extend(worst.map(|x| format!("{}: error at most {}", series.name, error(Some(x)))));
        for point in &series.points {
            let size = or_dash(point.x, grouped);
            let why = point.failure.as_ref().map(|why| format!("FAILED: {why}"));
            let why = why.or_else(|| point.skipped.as_ref().map(|why| format!("not run: {why}")));
            notes.extend(why.map(|why| format!("{} at {size} {}: {why}", series.name, suite.x)));
        }
    }
    let notes: String = notes.iter().map(|note| format!("\n* {}", plain(note))).collect();
    let gap = if notes.is_empty() { "" } else { "\n" };
    let title = plain(&format!("{}{by}{of}", suite.title));
    format!("### {title}\n\n{}{gap}{notes}", table(&head.collect::<Vec<_>>(), 1, &body))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_stays_in_its_cell() {
        assert_eq!(plain("a|b\n<script> `x` @y"), "a\\|b &lt;script&gt; \\`x\\` &#64;y");
        let text = table(&["a".into(), "b".into()], 1, &[vec!["x|y".into(), "1".into()]]);
        assert_eq!(text.lines().collect::<Vec<_>>(), ["| a | b |", "|---|---:|", "| x\\|y | 1 |"]);
    }
}
