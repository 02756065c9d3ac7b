//! The table of all rows, failures included, which can be sorted by any column.

use super::{badge, device_name, escaped, number_cell};
use crate::bench::published::{Device, Document, Point, Row, Suite, Times, positive};
use crate::bench::suites;
use crate::bench::units::{
    NONE, between, error, or_dash, prefixed, ratio, share, shortened, time, work_rate,
};
use crate::numbers::grouped;
use crate::words::counted;
use std::collections::HashMap;
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
    let mut text =
        format!("<h2>All rows</h2>\n{FILTER}<div class=\"scroll\"><table class=\"sortable\"><thead><tr>");
    if several {
        text += &heading("", "device");
    }
    text += &heading("", "kernel");
    text += &heading("", "case");
    // Before the numbers, where no narrow window hides them.
    text += &heading("", "remarks");
    text += &heading("n", "time");
    if any_cpu {
        text += &heading("n", "CPU time");
    }
    for name in ["rate", "of the bound", "error", "compile", "encode", "runs"] {
        text += &heading("n", name);
    }
    text += "</tr></thead><tbody>\n";
    for device in &document.devices {
        for row in &device.rows {
            text += &line(device, row, several, any_cpu);
        }
    }
    text += "</tbody></table></div>\n";
    if any_cpu {
        text += "<p class=\"note\">Below each time p10 to p90 of its runs by the same clock. On devices that compute on the CPU, rates, \
            shares of the bound and remarks on runs are by CPU time.</p>\n";
    }
    text
}

/// The same row on every device, as time and as a multiple of the first; nothing for a single device.
pub(super) fn side_by_side(document: &Document) -> String {
    let [first, others @ ..] = document.devices.as_slice() else { return String::new() };
    if others.is_empty() {
        return String::new();
    }
    // A resumed run may hold a row twice: the later one counts.
    let key = |row: &Row| (row.kernel.clone(), row.case.clone(), row.asked_variant.clone(), row.tuned);
    let tables: Vec<HashMap<_, &Row>> =
        document.devices.iter().map(|d| d.rows.iter().map(|row| (key(row), row)).collect()).collect();
    let mut text = format!(
        "<h2>Devices side by side</h2>\n{FILTER}<div class=\"scroll\"><table class=\"sortable\"><thead><tr>"
    );
    text += &heading("", "kernel");
    text += &heading("", "case");
    for device in &document.devices {
        text += &heading("n", &device_name(device));
    }
    text += "</tr></thead><tbody>\n";
    for row in &first.rows {
        let key = key(row);
        let times: Vec<Option<f64>> = tables
            .iter()
            .zip(&document.devices)
            .map(|(table, device)| {
                positive(device.judged(table.get(&key).filter(|r| r.failure.is_none())?).median)
            })
            .collect();
        let least = times.iter().flatten().copied().fold(f64::INFINITY, f64::min);
        let variant = row.asked_variant.as_ref().map_or_else(String::new, |v| format!(" ({v})"));
        let tuned = if row.tuned { " tuned" } else { "" };
        let _ = write!(
            text,
            "<tr><th>{}</th><td>{}</td>",
            escaped(&row.kernel),
            escaped(&format!("{}{variant}{tuned}", row.case))
        );
        for (at, (seconds, device)) in times.iter().zip(&document.devices).enumerate() {
            let cpu = if device.computes_on_cpu() && seconds.is_some() { " CPU" } else { "" };
            let multiple = times[0].zip(*seconds).filter(|_| at > 0).map(|(a, b)| b / a);
            let class = if *seconds == Some(least) { "good" } else { "" };
            let below = if multiple.is_some() { ratio(multiple) } else { String::new() };
            text += &number_cell(class, *seconds, &format!("{}{cpu}", time(*seconds)), &below);
        }
        text += "</tr>\n";
    }
    text + "</tbody></table></div>\n<p class=\"note\">Below each time its multiple of the first device's; the least is green.</p>\n"
}

/// All points of all suites, with what their figures have no room for; folded, because figures come first.
pub(super) fn points(document: &Document) -> String {
    let several = document.devices.len() > 1;
    let any_cpu = document.devices.iter().any(Device::computes_on_cpu);
    let points = |device: &'_ Device| {
        device.suites.iter().flat_map(|s| &s.series).map(|s| s.points.len()).sum::<usize>()
    };
    let count: usize = document.devices.iter().map(points).sum();
    if count == 0 {
        return String::new();
    }
    let mut text = format!(
        "<h2>All points of suites</h2>\n<details><summary>{}</summary>\n{FILTER}<div class=\"scroll\"><table \
         class=\"sortable\"><thead><tr>",
        counted(count, "point", "points")
    );
    if several {
        text += &heading("", "device");
    }
    for name in ["suite", "series"] {
        text += &heading("", name);
    }
    text += &heading("n", "size");
    text += &heading("", "remarks");
    text += &heading("n", "time");
    if any_cpu {
        text += &heading("n", "CPU time");
    }
    for name in ["runs", "error"] {
        text += &heading("n", name);
    }
    text += &heading("", "numbers");
    text += "</tr></thead><tbody>\n";
    for device in &document.devices {
        for suite in &device.suites {
            for (series, point) in suite.series.iter().flat_map(|s| s.points.iter().map(move |p| (s, p))) {
                text += if point.failure.is_some() { "<tr class=\"bad\">" } else { "<tr>" };
                if several {
                    let _ = write!(text, "<td class=\"whole\">{}</td>", escaped(&device_name(device)));
                }
                text += &of_point(device, suite, &series.name, point, any_cpu);
            }
        }
    }
    text + "</tbody></table></div>\n</details>\n"
}

fn of_point(device: &Device, suite: &Suite, series: &str, point: &Point, any_cpu: bool) -> String {
    let mut remarks = String::new();
    for (why, word, class) in [(&point.failure, "failed", "bad"), (&point.skipped, "not run", "")] {
        if let Some(why) = why {
            remarks += &format!("{} <span class=\"why\">{}</span> ", badge(class, word), escaped(why));
        }
    }
    if let (None, Some(why)) = (point.max_error, &point.checked) {
        remarks += &format!("<span class=\"why\">checked: {}</span> ", escaped(why));
    }
    for flag in point.flags.iter().filter(|flag| !(device.computes_on_cpu() && *flag == "software")) {
        remarks += &badge("warn", flag);
    }
    let size = or_dash(point.x, |x| format!("{} {}", grouped(x), suite.x));
    let mut text = format!("<th>{}</th><td>{}</td>", escaped(&suite.name), escaped(series));
    text += &number_cell("", point.x, &size, "");
    text += &format!("<td class=\"words\">{remarks}</td>");
    for cpu in [false, true].into_iter().filter(|cpu| !cpu || any_cpu) {
        let times = point.times(cpu);
        let range = times.p10.zip(times.p90).map_or_else(String::new, |(low, high)| between(low, high));
        text += &number_cell("", times.median, &time(times.median), &range);
    }
    text += &number_cell("", point.samples, &or_dash(point.samples, |n| format!("{n:.0}")), "");
    let checked = point.checked.as_deref().filter(|_| point.max_error.is_some());
    text += &number_cell("", point.max_error, &error(point.max_error), checked.unwrap_or(""));
    text + &format!("<td>{}</td></tr>\n", escaped(&suites::numbers(point).join(", ")))
}

fn line(device: &Device, row: &Row, several: bool, any_cpu: bool) -> String {
    let bad = row.failure.is_some() || row.is_wrong();
    let mut text = String::from(if bad { "<tr class=\"bad\">" } else { "<tr>" });
    if several {
        let _ = write!(
            text,
            "<td class=\"whole\" title=\"{}\">{}<small>{}</small></td>",
            escaped(&device.name),
            escaped(&shortened(&device.name, 20)),
            escaped(
                &[Some(&device.backend), device.bus.as_ref()]
                    .into_iter()
                    .flatten()
                    .cloned()
                    .collect::<Vec<_>>()
                    .join(" · ")
            )
        );
    }
    let variants = match (&row.asked_variant, row.variants.is_empty()) {
        (Some(asked), _) => format!("held to {asked}"),
        // Its own name need not be said again.
        (None, false) => {
            let own = format!("{}/", row.kernel);
            row.variants.iter().map(|v| v.strip_prefix(&own).unwrap_or(v)).collect::<Vec<_>>().join(" + ")
        }
        (None, true) => String::new(),
    };
    let variants =
        if variants.is_empty() { String::new() } else { format!("<small>{}</small>", escaped(&variants)) };
    let _ = write!(text, "<th>{}{variants}</th><td>{}</td>", escaped(&row.kernel), escaped(&row.case));
    text += &format!("<td class=\"words\">{}</td>", remarks(device, row));
    let range =
        |times: &Times| times.p10.zip(times.p90).map_or_else(String::new, |(low, high)| between(low, high));
    text += &number_cell("", row.time.median, &time(row.time.median), &range(&row.time));
    if any_cpu {
        text += &number_cell("", row.cpu.median, &time(row.cpu.median), &range(&row.cpu));
    }
    let unit = if device.computes_on_cpu() && row.cpu.median.is_some() { "by CPU time" } else { "" };
    match work_rate(row.flop, row.bytes, device.judged(row).median) {
        Some((rate, what)) => text += &number_cell("", Some(rate), &prefixed(rate, what), unit),
        None => text += &number_cell("", None, NONE, ""),
    }
    let by = row.bound_by.as_ref().map_or_else(String::new, |by| format!("by {by}"));
    text += &number_cell("", row.share, &share(row.share), if row.share.is_some() { &by } else { "" });
    let allowed = row.tolerance.map_or_else(String::new, |t| format!("≤ {}", error(Some(t))));
    let class = if row.is_wrong() { "bad" } else { "" };
    text += &number_cell(
        class,
        row.max_error,
        &error(row.max_error),
        if row.max_error.is_some() { &allowed } else { "" },
    );
    let first_run = row.first_run.map_or_else(String::new, |s| format!("first {}", time(Some(s))));
    text += &number_cell("", row.compile, &time(row.compile), &first_run);
    text += &number_cell("", row.encode, &time(row.encode), "");
    text += &number_cell("", row.samples, &or_dash(row.samples, |n| format!("{n:.0}")), "");
    text + "</tr>\n"
}

/// Flags as badges, and why a row failed.
fn remarks(device: &Device, row: &Row) -> String {
    let mut text = String::new();
    if let Some(failure) = &row.failure {
        text += &badge("bad", "failed");
        text += &format!(" <span class=\"why\">{}</span> ", escaped(failure));
    }
    if row.is_wrong() {
        text += &badge("bad", "wrong result");
    }
    if let Some(tuning) = device.tuning(row) {
        text += &badge("good", &tuning);
    }
    // That a device is software stands beside its name.
    for flag in row.flags.iter().filter(|flag| !(device.computes_on_cpu() && *flag == "software")) {
        text += &badge(if flag == "software" { "" } else { "warn" }, flag);
    }
    text
}
