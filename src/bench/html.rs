//! The report of a benchmark as one HTML file that needs nothing else: plots are inline, the style follows light, dark and print, and
//! no address outside of it is named. It is well-formed XML too, so that other programs can read it.
//!
//! All text of a document is escaped; names of drivers are whatever their authors wrote.

mod comparison;
mod plots;
mod rows;
mod svg;
mod system;

pub use comparison::html_comparison;
pub(super) use system::{ROOFS, counts, mean_share};

use super::compare::Comparison;
use super::published::{DATA_FROM, DATA_TO, Device, Document};
use super::units::{LONGEST, NONE, shortened};
use crate::error::Result;
use crate::words::{counted, plural};
use plots::{Figure, Ranges};
use serde_json::Value;

const STYLE: &str = include_str!("html/page.css");
const SCRIPT: &str = include_str!("html/page.js");

/// The report of a benchmark document, a whole HTML file; with its comparison with an earlier run, if there is one.
///
/// Errors: [`Error::Value`](crate::Error::Value) for what is no benchmark document of a version that is known here.
pub fn html(document: &Value, baseline: Option<&Comparison>) -> Result<String> {
    let data = embedded(document);
    let document = Document::read("benchmark document", document)?;
    let names: Vec<&str> = document.devices.iter().map(|d| d.name.as_str()).collect();
    let title = match names.as_slice() {
        [one] => format!("Benchmark of {}", shortened(one, LONGEST)),
        several => format!("Benchmark of {}", counted(several.len(), "device", "devices")),
    };
    let mut body = system::head(&title, &document);
    body += &system::cards(&document);
    body += &baseline.map_or_else(String::new, comparison::section);
    body += &figures(&document);
    body += &rows::side_by_side(&document);
    body += &rows::table(&document);
    body += &rows::points(&document);
    body += &system::peaks(&document);
    body += &method(&document);
    body += &system::kernels(&document);
    Ok(page(&title, &(body + &data)))
}

/// The document itself, folded into the page: who has the report can compare with it.
fn embedded(document: &Value) -> String {
    let mut text = String::new();
    // All texts of JSON may be written with escapes, and only texts hold these characters.
    for c in document.to_string().chars() {
        match c {
            '<'
            | '>'
            | '&'
            | '\u{7f}'..='\u{9f}'
            | '\u{202a}'..='\u{202e}'
            | '\u{2066}'..='\u{2069}'
            | '\u{fffe}'
            | '\u{ffff}' => {
                text += &format!("\\u{:04x}", u32::from(c));
            }
            c => text.push(c),
        }
    }
    format!("{DATA_FROM}{text}{DATA_TO}\n")
}

/// A whole page around its body.
fn page(title: &str, body: &str) -> String {
    // No part of the page may load anything, whatever a name in it contains.
    const POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'";
    format!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\" />\n\
        <meta http-equiv=\"Content-Security-Policy\" content=\"{POLICY}\" />\n\
        <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\" />\n<title>{}</title>\n<style>\n{STYLE}</style>\n</head>\n\
        <body>\n<main>\n{body}</main>\n<script>\n{SCRIPT}</script>\n</body>\n</html>\n",
        escaped(title)
    )
}

/// Text as text in HTML and XML. What neither may hold, and marks that turn the direction of what follows, become U+FFFD.
fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            '\t' | '\n' => out.push(c),
            c if c.is_control() => out.push('\u{fffd}'),
            '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{fffe}' | '\u{ffff}' => {
                out.push('\u{fffd}');
            }
            c => out.push(c),
        }
    }
    out
}

/// A word that stands out: what a device or a row is to be judged with.
fn badge(class: &str, text: &str) -> String {
    format!("<span class=\"badge {class}\">{}</span>", escaped(text))
}

/// A name and its value.
fn fact(class: &str, name: &str, value: &str) -> String {
    format!("<div class=\"{class}\"><dt>{}</dt><dd>{}</dd></div>", escaped(name), escaped(value))
}

/// A cell of a number with the value that it is sorted by.
fn number_cell(class: &str, value: Option<f64>, text: &str, below: &str) -> String {
    let sort = value.filter(|x| x.is_finite()).map_or_else(String::new, |x| format!("{x:e}"));
    let below = if below.is_empty() { String::new() } else { format!("<small>{}</small>", escaped(below)) };
    format!("<td class=\"n {class}\" data-v=\"{sort}\">{}{below}</td>", escaped(text))
}

/// The figure of a device; its name above where there are several.
fn figure(device: &Device, name: bool, figure: &Figure) -> String {
    let name = if name { format!("<h3>{}</h3>", escaped(&device_name(device))) } else { String::new() };
    let findings: String = figure.findings.iter().map(|f| format!("<li>{}</li>", escaped(f))).collect();
    let findings = if findings.is_empty() { findings } else { format!("<ul>{findings}</ul>") };
    format!(
        "<figure>{name}{}<figcaption>{}{findings}</figcaption></figure>\n",
        figure.svg,
        escaped(&figure.caption)
    )
}

/// Name and backend; with its place where equal ones are told apart by it.
fn device_name(device: &Device) -> String {
    let place = device.bus.as_ref().map_or_else(String::new, |bus| format!(" · {bus}"));
    format!("{} · {}{place}", shortened(&device.name, LONGEST), device.backend)
}

fn section(title: &str, figures: &[String]) -> String {
    match figures {
        [] => String::new(),
        some => format!("<h2>{}</h2>\n<div class=\"plots\">\n{}</div>\n", escaped(title), some.concat()),
    }
}

/// One device: plots beside each other. Several: the same plot of all devices beside each other, with the same axes.
fn figures(document: &Document) -> String {
    let (devices, ranges) = (&document.devices, Ranges::of(&document.devices));
    let several = devices.len() > 1;
    let of = |draw: &dyn Fn(&Device) -> Option<Figure>| -> Vec<String> {
        devices.iter().filter_map(|d| Some(figure(d, several, &draw(d)?))).collect()
    };
    let rooflines = of(&|d| plots::roofline(d, &ranges));
    let errors = of(&|d| plots::errors(d, &ranges));
    let mut names: Vec<(&str, &str)> = Vec::new();
    for suite in devices.iter().flat_map(|d| &d.suites) {
        if !names.iter().any(|(name, _)| *name == suite.name) {
            names.push((&suite.name, &suite.title));
        }
    }
    let sweeps: Vec<(&str, Vec<String>)> = names
        .iter()
        .map(|(name, title)| {
            let draw = |d: &Device| plots::sweep(d, d.suites.iter().find(|s| s.name == *name)?, &ranges);
            (*title, of(&draw))
        })
        .collect();
    let bars = bars(devices, &ranges, several);
    if several {
        let sweeps = sweeps.iter().map(|(title, figures)| section(title, figures)).collect::<String>();
        return section("Roofline", &rooflines)
            + &sweeps
            + &section("Share of the bound", &bars)
            + &section("Error and speed", &errors);
    }
    let sweeps: Vec<String> = sweeps.into_iter().flat_map(|(_, figures)| figures).collect();
    section("Speed and error", &[rooflines, errors].concat())
        + &section("End to end", &sweeps)
        + &section("Share of the bound", &bars)
}

/// Bars of a single device fill two columns where they are many.
fn bars(devices: &[Device], ranges: &Ranges, several: bool) -> Vec<String> {
    const MANY: usize = 24;
    let mut all = Vec::new();
    for device in devices {
        let kernels = plots::kernels_by_share(device);
        let total: usize = kernels.iter().map(|(_, rows)| rows.len()).sum();
        let mut half = kernels.len();
        if !several && total > MANY {
            let mut seen = 0;
            half = kernels
                .iter()
                .take_while(|(_, rows)| {
                    seen += rows.len();
                    seen <= total.div_ceil(2)
                })
                .count();
        }
        let (first, rest) = kernels.split_at(half);
        all.extend(
            [first, rest]
                .into_iter()
                .filter_map(|k| Some(figure(device, several, &plots::bars(device, k, ranges)?))),
        );
    }
    all
}

/// How the numbers came about.
fn method(document: &Document) -> String {
    let option = |key: &str| match document.options.get(key) {
        None | Some(Value::Null) => NONE.to_string(),
        Some(Value::String(text)) => text.clone(),
        Some(other) => other.to_string(),
    };
    let mut sources: Vec<(&str, usize)> = Vec::new();
    let mut runs: Option<(f64, f64)> = None;
    for row in document.devices.iter().flat_map(|d| &d.rows) {
        if let Some(source) = &row.source {
            match sources.iter_mut().find(|(name, _)| name == source) {
                Some((_, count)) => *count += 1,
                None => sources.push((source, 1)),
            }
        }
        if let Some(samples) = row.samples {
            let (least, most) = runs.unwrap_or((samples, samples));
            runs = Some((least.min(samples), most.max(samples)));
        }
    }
    let sources: Vec<String> =
        sources.iter().map(|(name, count)| format!("{name} ({})", counted(*count, "row", "rows"))).collect();
    let runs = runs.map_or_else(|| NONE.into(), |(least, most)| format!("{least:.0} to {most:.0}"));
    let facts = [
        (
            "Mode",
            if document.options.get("quick") == Some(&Value::Bool(true)) {
                "quick".into()
            } else {
                "full".to_string()
            },
        ),
        ("Least seconds of a row", option("seconds")),
        ("Least runs of a row", option("runs")),
        ("Runs of rows", runs),
        ("Seed of the order", option("order_seed")),
        ("Kernels", option("filter")),
        ("Cases", option("case")),
        ("Seconds of rest between rows", option("cool_down_seconds")),
        ("Longest dispatch, ms", option("max_dispatch_ms")),
    ];
    let facts: String = facts.iter().map(|(name, value)| fact("", name, value)).collect();
    let software = document.devices.iter().filter(|d| d.computes_on_cpu()).count();
    let judged = match software {
        0 => String::new(),
        n => format!(
            " {} on the CPU {} judged by the CPU seconds of the whole process, not by the clock: a busy machine changes the clock more.",
            counted(n, "device that computes", "devices that compute"),
            plural(n, "is", "are")
        ),
    };
    let sources = if sources.is_empty() { NONE.into() } else { sources.join("; ") };
    format!(
        "<h2>How these numbers were obtained</h2>\n<dl class=\"facts\">{facts}</dl>\n<p>Every row is run until both least numbers are \
        reached, or three times where that would take long, after a run that is not timed, in an order drawn at random. Times are medians with p10 and p90 of the runs by the same clock. \
        Times come from: {}.{}</p>\n<p>Every result is compared with an f64 computation of the same inputs; the error is the largest difference \
        relative to the largest value. The bound of a row is the least time that this device could take for the arithmetic, exponentials, \
        loads by path, stores, memory traffic and launches of the kernel's own tile, at the peaks measured in the same run; the share is bound over \
        time. The score is the geometric mean of reference time over time on a fixed set of rows: 2 is twice as fast as the reference. A \
        row that fails is listed with its reason, and what could not be measured is a dash, never a zero.</p>\n",
        escaped(&sources),
        escaped(&judged)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_in_a_text_is_taken_for_markup() {
        assert_eq!(escaped("<a href='x'>\"&"), "&lt;a href=&#39;x&#39;&gt;&quot;&amp;");
        assert_eq!(escaped("a\u{0}b\u{1b}[0m\u{202e}c"), "a\u{fffd}b\u{fffd}[0m\u{fffd}c");
    }

    #[test]
    fn style_and_script_are_xml_text() {
        for text in [STYLE, SCRIPT] {
            assert!(
                !text.contains(['<', '&']) && !text.contains("http"),
                "they stand in the page as they are"
            );
        }
    }
}
