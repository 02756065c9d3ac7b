//! A comparison of benchmarks as an HTML file, or as a section of a report: ratios to the first as a plot with the noise of both runs, and
//! all rows as a table.

use super::rows::{FILTER, heading};
use super::svg::{Anchor, Axis, Frame, Log, SERIES, Svg, width_of};
use super::{badge, escaped, fact, number_cell, page};
use crate::bench::compare::{Cell, Column, Comparison, Group, Line, RULE, Verdict};
use crate::bench::published::positive;
use crate::bench::system::short_commit;
use crate::bench::units::{LONGEST, between, error, moment, ratio, score, shortened, time};
use crate::words::counted;
use std::fmt::Write as _;

/// The comparison as a whole HTML file.
pub fn html_comparison(comparison: &Comparison) -> String {
    let title = "Benchmarks side by side";
    let mut body = format!("<h1>{title}</h1>\n");
    body += &findings(comparison);
    for group in &comparison.groups {
        body += &of_group(group, "h2");
    }
    let _ = writeln!(body, "<h2>How differences are told from noise</h2>\n<p>{}</p>", escaped(RULE));
    page(title, &body)
}

/// A run beside its baseline, as a section of its report.
pub(super) fn section(comparison: &Comparison) -> String {
    let mut body = "<h2>Beside the baseline</h2>\n".to_string() + &findings(comparison);
    for group in &comparison.groups {
        body += &of_group(group, "h3");
    }
    let _ = writeln!(body, "<p>{}</p>", escaped(RULE));
    body
}

/// Whether anything became worse, and what else is to be known.
fn findings(comparison: &Comparison) -> String {
    let mut body = match comparison.regressions() {
        0 => format!("<p>{}</p>\n", badge("good", "no regression beyond noise")),
        n => format!(
            "<p>{}</p>\n",
            badge("bad", &format!("{} beyond noise", counted(n, "regression", "regressions")))
        ),
    };
    for note in &comparison.notes {
        let _ = writeln!(body, "<p class=\"alert\">{}</p>", escaped(note));
    }
    body
}

fn of_group(group: &Group, heading: &str) -> String {
    let first = group.columns.first().map_or("", |c| c.device.name.as_str());
    let name = escaped(&shortened(first, LONGEST));
    let mut text = format!("<{heading}>{name}</{heading}>\n<div class=\"cards\">\n");
    for (at, column) in group.columns.iter().enumerate() {
        let count = |verdict| group.lines.iter().filter(|l| l.cells[at].verdict == verdict).count();
        let mut badges = badge("", &column.device.backend) + &badge("", &column.device.kind);
        for (verdict, class) in [
            (Verdict::Slower, "bad"),
            (Verdict::Failed, "bad"),
            (Verdict::Wrong, "bad"),
            (Verdict::Faster, "good"),
            (Verdict::Same, ""),
            (Verdict::Unclear, "warn"),
        ] {
            if count(verdict) > 0 {
                badges += &badge(class, &format!("{} {verdict}", count(verdict)));
            }
        }
        let mean = match at {
            0 => fact("big", "Ratios are to", "this one"),
            _ => fact("big", "Mean of ratios of time", &ratio(column.geometric_mean)),
        };
        let facts = mean
            + &fact("", "Score", &score(column.device.score))
            + &fact("", "Rows compared", &column.compared.to_string())
            + &points(at, column);
        let [program, commit, date] = &column.run;
        let _ = writeln!(
            text,
            "<section class=\"card\"><h3>{}</h3><p class=\"sub\">{} · {} · wgattn {} ({}) · {}</p><div>{badges}</div><dl class=\"facts\">{facts}</dl></section>",
            escaped(&column.label),
            escaped(&shortened(&column.device.name, LONGEST)),
            escaped(&shortened(column.device.driver.as_deref().unwrap_or("driver unknown"), LONGEST)),
            escaped(program),
            escaped(&short_commit(commit)),
            escaped(&moment(date))
        );
    }
    text += "</div>\n";
    if group.by_cpu {
        text += "<p>All of these devices compute on the CPU: CPU seconds are compared.</p>\n";
    }
    if !group.changed_kernels.is_empty() {
        let _ =
            writeln!(text, "<p>Kernels with other WGSL: {}.</p>", escaped(&group.changed_kernels.join(", ")));
    }
    if let Some((svg, caption)) = plot(group) {
        let _ = writeln!(
            text,
            "<div style=\"margin:16px 0\"><figure>{svg}<figcaption>{}</figcaption></figure></div>",
            escaped(&caption)
        );
    }
    text + &table(group)
}

/// What is to say of points of suites, where there are some.
fn points(at: usize, column: &Column) -> String {
    match column.points_compared {
        0 => String::new(),
        n if at == 0 => fact("", "Points compared", &n.to_string()),
        n => fact("", &format!("Mean of {}", counted(n, "point", "points")), &ratio(column.points_mean)),
    }
}

const WIDTH: f64 = 900.0;
/// Names to the left take so much at most.
const NAMES: f64 = 330.0;
const TO: f64 = 860.0;
const ROW: f64 = 17.0;

/// Ratios of all rows on a logarithmic axis; a line reaches from the best to the worst case of both intervals.
fn plot(group: &Group) -> Option<(String, String)> {
    let lines: Vec<&Line> =
        group.lines.iter().filter(|l| l.cells.iter().skip(1).any(|c| positive(c.ratio).is_some())).collect();
    let ratios = || lines.iter().flat_map(|l| l.cells.iter().skip(1)).filter_map(|c| positive(c.ratio));
    let longest = lines.iter().map(|l| width_of(&l.name()) + 20.0).fold(120.0, f64::max);
    let from = longest.min(NAMES);
    let x = Log::around(ratios().chain([0.8, 1.25]), 0.06, from, TO)?;
    if lines.is_empty() {
        return None;
    }
    let bottom = 14.0 + ROW * lines.len() as f64 + 6.0;
    let mut svg = Svg::new(WIDTH, bottom + 66.0);
    let frame = Frame { x, y: Log::around([1.0], 0.0, bottom, 6.0)? };
    let none = Axis { name: "", say: &|_| String::new(), at: Some(Vec::new()) };
    let along = Axis {
        name: "time as a multiple of the first (to the right: slower)",
        say: &|r| ratio(Some(r)),
        at: None,
    };
    frame.draw(&mut svg, &along, &none);
    svg.line("roof", [x.at(1.0), 6.0], [x.at(1.0), bottom]);
    for (i, line) in lines.iter().enumerate() {
        let y = 14.0 + ROW * (i as f64 + 0.5);
        let room = ((from - 16.0) / width_of("x")) as usize;
        svg.text("label", [from - 10.0, y + 4.0], Anchor::End, &shortened(&line.name(), room));
        for (at, cell) in line.cells.iter().enumerate().skip(1) {
            mark(&mut svg, &frame, (line, cell), &group.columns[at].label, at - 1, y);
        }
    }
    let mut legend: Vec<(usize, &str, String)> = group
        .columns
        .iter()
        .enumerate()
        .skip(1)
        .map(|(i, c)| ((i - 1) % SERIES, "", c.label.clone()))
        .collect();
    if lines.iter().flat_map(|l| &l.cells).any(|c| c.verdict.is_regression()) {
        legend.push((0, "wrong", "regression".into()));
    }
    svg.legend(&legend, [from, bottom + 58.0], WIDTH);
    let caption = format!(
        "Time as a multiple of {}. Lines span what the intervals of both runs allow; where they meet 1×, the difference may be noise.",
        group.columns.first().map_or("the first", |c| c.label.as_str())
    );
    Some((svg.finish("Ratios of times by row"), caption))
}

fn mark(svg: &mut Svg, frame: &Frame, (line, cell): (&Line, &Cell), label: &str, series: usize, y: f64) {
    let Some(reached) = positive(cell.ratio) else { return };
    let first = &line.cells[0];
    if let Some(((a_low, a_high), (b_low, b_high))) =
        first.time.and_then(|t| t.interval).zip(cell.time.and_then(|t| t.interval))
    {
        let [low, high] = frame.x.ends();
        let least = positive(Some(b_low / a_high)).unwrap_or(low).clamp(low, high);
        let most = positive(Some(b_high / a_low)).unwrap_or(high).clamp(low, high);
        svg.line("whisker", [frame.x.at(least), y], [frame.x.at(most), y]);
    }
    let tip = format!(
        "{}\n{label}: {} against {}\n{} ({})",
        line.name(),
        time(cell.time.map(|t| t.median)),
        time(first.time.map(|t| t.median)),
        ratio(Some(reached)),
        cell.verdict
    );
    svg.mark(series, if cell.verdict.is_regression() { "wrong" } else { "" }, [frame.x.at(reached), y], &tip);
}

fn table(group: &Group) -> String {
    let mut text = format!("{FILTER}<div class=\"scroll\"><table class=\"sortable\"><thead><tr>");
    let has_points = group.lines.iter().any(|l| l.size.is_some());
    text += &heading("", if has_points { "row or point" } else { "row" });
    for (at, column) in group.columns.iter().enumerate() {
        text += &heading("n", &shortened(&column.label, 36));
        if at > 0 {
            text += &heading("n", "ratio");
            text += &heading("", "verdict");
        }
    }
    text += "</tr></thead><tbody>\n";
    for line in &group.lines {
        let bad = line.cells.iter().any(|c| c.verdict.is_regression());
        let _ =
            write!(text, "<tr{}><th>{}</th>", if bad { " class=\"bad\"" } else { "" }, escaped(&line.name()));
        for (at, cell) in line.cells.iter().enumerate() {
            let below = cell
                .time
                .and_then(|t| t.interval)
                .map_or_else(String::new, |(low, high)| between(low.max(0.0), high));
            let seconds = cell.time.map(|t| t.median);
            text += &number_cell("", seconds, &time(seconds), &below);
            if at > 0 {
                let class = match cell.verdict {
                    Verdict::Slower => "bad",
                    Verdict::Faster => "good",
                    _ => "",
                };
                text += &number_cell(class, cell.ratio, &ratio(cell.ratio), "");
                let rest = if at + 1 == line.cells.len() { " rest" } else { "" };
                text += &format!("<td class=\"words{rest}\">{}</td>", verdict(cell));
            } else if let Some(failure) = &cell.failure {
                // The first has no column for words: its failures stand below.
                text.truncate(text.len() - "</td>".len());
                text += &format!("<small class=\"why\">failed: {}</small></td>", escaped(failure));
            }
        }
        text += "</tr>\n";
    }
    text + "</tbody></table></div>\n"
}

fn verdict(cell: &Cell) -> String {
    let class = match cell.verdict {
        v if v.is_regression() => "bad",
        Verdict::Faster | Verdict::Recovered => "good",
        Verdict::Unclear => "warn",
        _ => "",
    };
    let mut text = badge(class, &cell.verdict.to_string());
    if cell.wrong && cell.verdict != Verdict::Wrong {
        text += &badge("bad", "wrong");
    }
    if cell.first_is_wrong {
        text += &badge("bad", "wrong in the first");
    }
    if cell.error_grew {
        text += &badge("warn", &format!("error grew to {}", error(cell.max_error)));
    }
    if cell.kernel_changed {
        text += &badge("", "other WGSL");
    }
    if let Some(failure) = &cell.failure {
        text += &format!(" <span class=\"why\">{}</span>", escaped(failure));
    }
    text
}
