//! Results as a table for people and as JSON. The page in a browser exports the same JSON.

use super::suite::{Device, Outcome, Row, Tally};
use super::{Judged, is_exact};
use crate::backend::DeviceInfo;
use crate::backend::device::{Facts, Missing};
use crate::bench::system::{System, commit, date};
use crate::words::counted;
use serde_json::{Value, json};

/// Version of the JSON: raised when a field changes its meaning or goes away.
///
/// 1: `wgattn` was the version alone, and a device that could not be opened was one of `devices`, with its reason in `unusable`. 2: as
/// [`Document::json`] says.
pub const SCHEMA_VERSION: u32 = 2;

/// A run: what was asked for, when and on what machine.
#[derive(Clone, Debug)]
pub struct Document {
    /// When it began.
    pub date: String,
    /// Whether every case was tried on every device that was asked for.
    pub complete: bool,
    /// What the cases were chosen by.
    pub filter: Option<String>,
    /// The machine.
    pub system: System,
    /// Devices that were asked for and could not be opened, or were not reached before an interrupt.
    pub left_out: Vec<Missing>,
}

impl Document {
    /// A run that begins now on this machine.
    pub fn begun(filter: Option<String>) -> Self {
        let date = date(std::time::SystemTime::now());
        Self { date, complete: false, filter, system: System::here(), left_out: Vec::new() }
    }

    /// As JSON, with the devices that were opened so far; the schema is `wgattn-conformance`, version [`SCHEMA_VERSION`].
    ///
    /// `{schema, schema_version, wgattn, date, complete, left_out, filter, system, devices}`. `wgattn` is `{version, commit}`, `system`
    /// `{os, arch, cpu, cores, memory_bytes}`, and `left_out` lists `{asked, reason}` of devices that could not be opened or were not reached. `complete` is
    /// false until every case was tried, or told as not run, on every device that was asked for.
    ///
    /// A device is `{device, passed, failed, ignored, seconds, rows}`, whose `device` is `{name, backend, type, driver, index, pci, bus}`;
    /// the last three are its place in `wgattn devices`, its PCI vendor and device number and its place on the bus, null where it has
    /// none. A row is `{kernel, case, variant, outcome, why, seconds, outputs}` with `outcome` one of `passed`, `failed` and `ignored`, and
    /// an output `{port, error, allowed, naive, share, index, got, expected}`: errors are relative to the largest true value, `share` is
    /// the error in parts of what is allowed, `index` the worst element. What is not finite or not known is null.
    pub fn json<'a>(&self, devices: impl IntoIterator<Item = &'a Device>) -> Value {
        json!({
            "schema": "wgattn-conformance",
            "schema_version": SCHEMA_VERSION,
            "wgattn": { "version": env!("CARGO_PKG_VERSION"), "commit": commit() },
            "date": self.date,
            "complete": self.complete,
            "left_out": Missing::json(&self.left_out),
            "filter": self.filter,
            "system": self.system.json(),
            "devices": devices.into_iter().map(device_json).collect::<Vec<_>>(),
        })
    }
}

fn device_json(device: &Device) -> Value {
    let tally = device.tally();
    json!({
        "device": info_json(&device.info, &device.facts),
        "passed": tally.passed,
        "failed": tally.failed,
        "ignored": tally.ignored,
        "seconds": device.seconds,
        "rows": device.rows.iter().map(row_json).collect::<Vec<_>>(),
    })
}

pub(super) fn info_json(info: &DeviceInfo, facts: &Facts) -> Value {
    json!({
        "name": info.name, "backend": info.backend, "type": info.kind.to_string(), "driver": info.driver,
        "index": facts.index, "pci": facts.pci, "bus": facts.bus,
    })
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

/// Which device it is; with its place in the machine where there are several adapters.
pub(super) fn head(device: &Device, several: bool) -> String {
    let mut head = vec![device.info.told()];
    if several {
        let Facts { index, pci, bus, .. } = &device.facts;
        head.extend(index.map(|index| format!("adapter {index}")));
        let place = bus.as_ref().map_or_else(String::new, |bus| format!(" at {bus}"));
        head.extend(pci.as_ref().map(|pci| format!("PCI {pci}{place}")));
    }
    head.join(" · ")
}

/// One device as a table: a line per kernel, then why what was ignored was, then everything that failed. Where it is one of `several`
/// adapters of the machine, its head says which.
pub fn text(device: &Device, several: bool) -> String {
    let mut lines = vec![head(device, several)];
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
    if let Some(row) = &device.hung {
        lines.push(format!("LOST: the device stopped answering in {row}; what came after was not run"));
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
