//! The table of all rows, failures included, which can be sorted by any column.

use super::{badge, device_name, escaped, number_cell};
use crate::bench::published::{Device, Document, Row};
use crate::bench::units::{NONE, error, or_dash, prefixed, share, time, work_rate};
use std::fmt::Write as _;

/// A heading that sorts its column.
pub(super) fn heading(class: &str, name: &str) -> String {
    format!("<th class=\"{class}\"><button type=\"button\">{}</button></th>", escaped(name))
}

/// A field that filters the table behind it; the script shows it.
pub(super) const FILTER: &str = "<input type=\"search\" hidden=\"hidden\" placeholder=\"filter rows: kernel, case, flag…\" aria-label=\"Filter rows\" />\n";

/// All rows of all devices.
pub(super) fn table(document: &Document) -> String {
    let several = document.devices.len() > 1;
    let any_cpu = document.devices.iter().flat_map(|d| &d.rows).any(|r| r.cpu.median.is_some());
    let mut text = format!("<h2>All rows</h2>\n{FILTER}<div class=\"scroll\"><table class=\"sortable\"><thead><tr>");
    if several {
        text += &heading("", "device");
    }
    text += &heading("", "kernel");
    text += &heading("", "case");
    text += &heading("n", "time");
    if any_cpu {
        text += &heading("n", "CPU time");
    }
    for name in ["rate", "of the bound", "error", "compile", "encode", "first run", "runs"] {
        text += &heading("n", name);
    }
    text += &heading("", "remarks");
    text += "</tr></thead><tbody>\n";
    for device in &document.devices {
        for row in &device.rows {
            text += &line(device, row, several, any_cpu);
        }
    }
    text + "</tbody></table></div>\n"
}

fn line(device: &Device, row: &Row, several: bool, any_cpu: bool) -> String {
    let bad = row.failure.is_some() || row.is_wrong();
    let mut text = String::from(if bad { "<tr class=\"bad\">" } else { "<tr>" });
    if several {
        let _ = write!(text, "<td>{}</td>", escaped(&device_name(device)));
    }
    let variants = match (&row.asked_variant, row.variants.is_empty()) {
        (Some(asked), _) => format!("held to {asked}"),
        (None, false) => row.variants.join(" + "),
        (None, true) => String::new(),
    };
    let variants = if variants.is_empty() { String::new() } else { format!("<small>{}</small>", escaped(&variants)) };
    let _ = write!(text, "<th>{}{variants}</th><td>{}</td>", escaped(&row.kernel), escaped(&row.case));
    let between = |low: Option<f64>, high: Option<f64>| match low.zip(high) {
        Some((low, high)) => format!("{} to {}", time(Some(low)), time(Some(high))),
        None => String::new(),
    };
    text += &number_cell("", row.time.median, &time(row.time.median), &between(row.time.p10, row.time.p90));
    if any_cpu {
        text += &number_cell("", row.cpu.median, &time(row.cpu.median), &between(row.cpu.p10, row.cpu.p90));
    }
    let unit = if device.computes_on_cpu() && row.cpu.median.is_some() { "per CPU second" } else { "" };
    match work_rate(row.flop, row.bytes, device.judged(row).median) {
        Some((rate, what)) => text += &number_cell("", Some(rate), &prefixed(rate, what), unit),
        None => text += &number_cell("", None, NONE, ""),
    }
    let by = row.bound_by.as_ref().map_or_else(String::new, |by| format!("by {by}"));
    text += &number_cell("", row.share, &share(row.share), if row.share.is_some() { &by } else { "" });
    let allowed = row.tolerance.map_or_else(String::new, |t| format!("of {} allowed", error(Some(t))));
    let class = if row.is_wrong() { "bad" } else { "" };
    text += &number_cell(class, row.max_error, &error(row.max_error), if row.max_error.is_some() { &allowed } else { "" });
    for seconds in [row.compile, row.encode, row.first_run] {
        text += &number_cell("", seconds, &time(seconds), "");
    }
    text += &number_cell("", row.samples, &or_dash(row.samples, |n| format!("{n:.0}")), "");
    text += &format!("<td class=\"words\">{}</td></tr>\n", remarks(row));
    text
}

/// Flags as badges, and why a row failed.
fn remarks(row: &Row) -> String {
    let mut text = String::new();
    if let Some(failure) = &row.failure {
        text += &badge("bad", "failed");
        text += &format!(" {} ", escaped(failure));
    }
    if row.is_wrong() {
        text += &badge("bad", "wrong result");
    }
    if row.tuned {
        text += &badge("good", "tuned");
    }
    for flag in &row.flags {
        text += &badge(if flag == "software" { "" } else { "warn" }, flag);
    }
    text
}
