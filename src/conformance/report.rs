//! Results as a table for people and as JSON. The page in a browser exports the same JSON.

use super::suite::{Device, Outcome, Row, Tally};
use super::{Judged, is_exact};
use crate::backend::DeviceInfo;
use crate::words::counted;
use serde_json::{Value, json};

/// Version of the JSON: raised when a field changes its meaning or goes away.
pub const SCHEMA_VERSION: u32 = 1;

/// All devices as JSON.
///
/// `{schema, schema_version, wgattn, filter, devices}`; a device is `{device, unusable, passed, failed, ignored, seconds, rows}`, a
/// row `{kernel, case, variant, outcome, why, seconds, outputs}` with `outcome` one of `passed`, `failed` and `ignored`, and an
/// output `{port, error, allowed, naive, share, index, got, expected}`: errors are relative to the largest true value, `share` is
/// the error in parts of what is allowed, `index` the worst element. What is not finite is null.
pub fn json(filter: Option<&str>, devices: &[Device]) -> Value {
    json!({
        "schema": "wgattn-conformance",
        "schema_version": SCHEMA_VERSION,
        "wgattn": env!("CARGO_PKG_VERSION"),
        "filter": filter,
        "devices": devices.iter().map(device_json).collect::<Vec<_>>(),
    })
}

fn device_json(device: &Device) -> Value {
    let tally = device.tally();
    json!({
        "device": info_json(&device.info),
        "unusable": device.unusable,
        "passed": tally.passed,
        "failed": tally.failed,
        "ignored": tally.ignored,
        "seconds": device.seconds,
        "rows": device.rows.iter().map(row_json).collect::<Vec<_>>(),
    })
}

pub(super) fn info_json(info: &DeviceInfo) -> Value {
    json!({ "name": info.name, "backend": info.backend, "type": info.kind.to_string(), "driver": info.driver })
}

fn row_json(row: &Row) -> Value {
    let (outcome, judged): (_, &[Judged]) = match &row.outcome {
        Outcome::Passed(judged) => ("passed", judged),
        Outcome::Wrong(judged) => ("failed", judged),
        Outcome::Broken(_) => ("failed", &[]),
        Outcome::Ignored(_) => ("ignored", &[]),
    };
    json!({
        "kernel": row.kernel,
        "case": row.case,
        "variant": row.variant,
        "outcome": outcome,
        "why": row.outcome.why(),
        "seconds": row.seconds,
        "outputs": judged.iter().map(judged_json).collect::<Vec<_>>(),
    })
}

pub(super) fn judged_json(judged: &Judged) -> Value {
    json!({
        "port": judged.port,
        "error": judged.found.error,
        "allowed": judged.allowed,
        "naive": judged.naive,
        "share": judged.share(),
        "index": judged.found.index,
        "got": judged.found.got,
        "expected": judged.found.expected,
    })
}

/// One device as a table: a line per kernel, then why what was ignored was, then everything that failed.
pub fn text(device: &Device) -> String {
    let info = &device.info;
    let mut lines = vec![
        format!("{} · {} · {} · {}", info.name, info.backend, info.kind, info.driver)
            .trim_end_matches(" · ")
            .into(),
    ];
    if let Some(why) = &device.unusable {
        lines.push(format!("FAILED: {why}"));
        return lines.join("\n");
    }
    let kernels = in_order(device.rows.iter().map(|row| row.kernel));
    let wide = kernels.iter().map(|k| k.len()).max().unwrap_or(0).max("kernel".len());
    lines.push(format!("{:wide$}  checks  passed  failed  ignored  worst error", "kernel"));
    let line = |name: &str, rows: &[&Row]| {
        let tally = Tally::of(rows.iter().copied());
        let (all, Tally { passed, failed, ignored }) = (tally.all(), tally);
        format!("{name:wide$}  {all:6}  {passed:6}  {failed:6}  {ignored:7}  {}", worst(rows))
    };
    for kernel in &kernels {
        let rows: Vec<&Row> = device.rows.iter().filter(|row| row.kernel == *kernel).collect();
        lines.push(line(kernel, &rows));
    }
    let all: Vec<&Row> = device.rows.iter().collect();
    lines.push(line("all", &all));
    let reasons = in_order(device.rows.iter().filter_map(|row| match &row.outcome {
        Outcome::Ignored(why) => Some(why.as_str()),
        _ => None,
    }));
    for reason in reasons {
        let of_it = |row: &&Row| matches!(&row.outcome, Outcome::Ignored(why) if why == reason);
        let names: Vec<String> = device.rows.iter().filter(of_it).map(Row::name).collect();
        let shown = names.iter().take(3).cloned().collect::<Vec<_>>().join(", ");
        let more = if names.len() > 3 { ", …" } else { "" };
        lines.push(format!("ignored {}: {reason} ({shown}{more})", counted(names.len(), "check", "checks")));
    }
    for row in device.rows.iter().filter(|row| row.outcome.is_failure()) {
        lines.push(format!("FAILED {}: {}", row.name(), row.outcome.why().unwrap_or_default()));
    }
    lines.push(format!("{:.1} s, compiling and references included", device.seconds));
    lines.join("\n")
}

/// The largest error of some rows in parts of what is allowed, and whose it is.
fn worst(rows: &[&Row]) -> String {
    let judged = rows.iter().filter_map(|row| Some((row, row.outcome.worst()?)));
    match judged.max_by(|(_, a), (_, b)| a.share().total_cmp(&b.share())) {
        None => "-".into(),
        Some((_, judged)) if judged.found.error == 0.0 => "none".into(),
        Some((row, judged)) if is_exact(judged) => {
            format!("{:.1e}, and none is allowed ({})", judged.found.error, row.name())
        }
        Some((row, judged)) => {
            format!("{:.2} of what is allowed ({:.1e}, {})", judged.share(), judged.found.error, row.name())
        }
    }
}

fn in_order<'a>(names: impl Iterator<Item = &'a str>) -> Vec<&'a str> {
    let mut found = Vec::new();
    for name in names {
        if !found.contains(&name) {
            found.push(name);
        }
    }
    found
}
