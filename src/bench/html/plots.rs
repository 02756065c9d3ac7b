//! The plots of a report: roofline, error against speed, sweeps with their crossings, and shares of the bound.

use super::svg::{Anchor, Axis, Frame, Labels, Log, SERIES, Svg, power, width_of};
use crate::bench::published::{Device, Point, Row, Series, Suite, positive};
use crate::bench::suites::{self, by_cpu, crossings, lines};
use crate::bench::units::{error, prefixed, share, shortened, time, with_ends};
use crate::numbers::{grouped, seconds};
use std::collections::BTreeMap;

const WIDTH: f64 = 640.0;
const HEIGHT: f64 = 430.0;
/// Left, right, top and bottom of plots with axes.
const EDGES: [f64; 4] = [78.0, 624.0, 16.0, 346.0];

/// A plot with what is to be known to read it.
pub(super) struct Figure {
    pub(super) svg: String,
    pub(super) caption: String,
    /// Findings, one line each.
    pub(super) findings: Vec<String>,
}

/// Ranges of axes that all devices of a report share, so that plots side by side can be compared by eye.
#[derive(Debug, Default)]
pub(super) struct Ranges {
    intensity: Vec<f64>,
    speed: Vec<f64>,
    error: Vec<f64>,
    /// By suite: sizes and times.
    suites: BTreeMap<String, [Vec<f64>; 2]>,
    /// What bounds rows, in the order of their colours.
    limits: Vec<String>,
}

/// What a row does and what it needs: operations per byte, operations per second.
fn computed(device: &Device, row: &Row) -> Option<[f64; 2]> {
    let (flop, bytes, seconds) =
        (positive(row.flop)?, positive(row.bytes)?, positive(device.judged(row).median)?);
    Some([flop / bytes, flop / seconds]).filter(|p| p.iter().all(|x| positive(Some(*x)).is_some()))
}

/// The values that an axis is to hold: those of all devices, unless a device's own would lie in a corner of it.
fn shared_or_own<'a>(shared: &'a [f64], own: &'a [f64]) -> &'a [f64] {
    const CORNER: f64 = 1.7;
    let decades = |values: &[f64]| {
        let logs = || values.iter().filter_map(|x| positive(Some(*x))).map(f64::log10);
        (logs().fold(f64::NEG_INFINITY, f64::max) - logs().fold(f64::INFINITY, f64::min)).max(0.5)
    };
    if decades(shared) > CORNER * decades(own) { own } else { shared }
}

/// Rows with numbers.
fn good(device: &Device) -> impl Iterator<Item = &Row> {
    device.rows.iter().filter(|row| row.failure.is_none())
}

fn speed(device: &Device, row: &Row) -> Option<f64> {
    positive(Some(positive(row.flop)? / positive(device.judged(row).median)?))
}

impl Ranges {
    pub(super) fn of(devices: &[Device]) -> Self {
        let mut ranges = Self::default();
        for device in devices {
            for row in good(device) {
                if let Some([intensity, speed]) = computed(device, row) {
                    ranges.intensity.push(intensity);
                    ranges.speed.push(speed);
                }
                ranges.error.extend(speed(device, row).and(positive(row.max_error)));
                if let Some(limit) = &row.bound_by
                    && !ranges.limits.contains(limit)
                {
                    ranges.limits.push(limit.clone());
                }
            }
            let peak = device.roof("flop");
            if let Some([flop, bytes]) = peak.zip(device.roof("bytes")).map(|(f, b)| [f, b]) {
                // The ridge belongs into the picture.
                ranges.intensity.push(flop / bytes);
            }
            ranges.speed.extend(peak);
            for suite in &device.suites {
                let entry = ranges.suites.entry(suite.name.clone()).or_default();
                for [x, y] in lines(device.computes_on_cpu(), suite).into_iter().flatten() {
                    entry[0].push(x);
                    entry[1].push(y);
                }
            }
        }
        ranges.limits.sort();
        ranges
    }

    fn colour(&self, limit: Option<&String>) -> usize {
        let known = limit.and_then(|l| self.limits.iter().position(|k| k == l));
        known.unwrap_or(self.limits.len()) % SERIES
    }

    fn legend(&self, device: &Device) -> Vec<(usize, &'static str, String)> {
        let has = |limit: Option<&String>| {
            good(device).any(|row| row.bound_by.as_ref() == limit && row.flop.is_some())
        };
        let mut entries: Vec<(usize, &'static str, String)> = self
            .limits
            .iter()
            .enumerate()
            .filter(|(_, limit)| has(Some(limit)))
            .map(|(i, limit)| (i % SERIES, "", format!("bound by {limit}")))
            .collect();
        if has(None) {
            entries.push((self.limits.len() % SERIES, "", "bound unknown".into()));
        }
        entries
    }
}

/// What a mark says when pointed at.
fn tip(device: &Device, row: &Row) -> String {
    let judged = device.judged(row);
    let clock = if judged == row.time { "" } else { " CPU" };
    let bound = row.bound_by.as_ref().map_or_else(String::new, |by| format!(" of the bound by {by}"));
    format!(
        "{}/{}\n{}{clock} ({} to {})\n{}\n{}{bound}\nerror {} ({})",
        row.kernel,
        row.case,
        time(judged.median),
        time(judged.p10),
        time(judged.p90),
        speed(device, row).map_or_else(|| "no floating-point work".into(), |s| prefixed(s, "FLOP/s")),
        share(row.share),
        error(row.max_error),
        row.checked.as_deref().unwrap_or("not checked")
    )
}

fn per_second(device: &Device) -> &'static str {
    if device.computes_on_cpu() { "FLOP per CPU second" } else { "FLOP per second" }
}

/// Names the fastest row of every kernel where there is room.
fn name_kernels(svg: &mut Svg, labels: &mut Labels, marks: &[([f64; 2], &Row)]) {
    let mut named: Vec<&str> = Vec::new();
    let mut order: Vec<&([f64; 2], &Row)> = marks.iter().collect();
    order.sort_by(|a, b| a.0[1].total_cmp(&b.0[1]));
    for (at, row) in order {
        if !named.contains(&row.kernel.as_str())
            && labels.write(
                svg,
                *at,
                [EDGES[0] + 2.0, EDGES[1], EDGES[2], EDGES[3]],
                &shortened(&row.kernel, 28),
            )
        {
            named.push(&row.kernel);
        }
    }
}

/// Arithmetic intensity against performance under the device's own roofs; `None` without rows that compute.
pub(super) fn roofline(device: &Device, ranges: &Ranges) -> Option<Figure> {
    let alone = Ranges::of(std::slice::from_ref(device));
    let [left, right, top, bottom] = EDGES;
    let frame = Frame {
        x: Log::around(
            shared_or_own(&ranges.intensity, &alone.intensity).iter().copied(),
            0.06,
            left,
            right,
        )?,
        y: Log::around(shared_or_own(&ranges.speed, &alone.speed).iter().copied(), 0.07, bottom, top)?,
    };
    let rows: Vec<([f64; 2], &Row)> = good(device)
        .filter_map(|row| Some((computed(device, row)?, row)))
        .map(|([x, y], row)| (frame.place(x, y), row))
        .collect();
    if rows.is_empty() {
        return None;
    }
    let (mut svg, mut labels) = (Svg::new(WIDTH, HEIGHT), Labels::default());
    let x = Axis {
        name: "arithmetic intensity (FLOP per byte that must move)",
        say: &|x| crate::numbers::number(x),
        at: None,
    };
    let name = per_second(device);
    let y = Axis { name, say: &|y| prefixed(y, ""), at: None };
    frame.draw(&mut svg, &x, &y);
    let roofs = roofs(&mut svg, &mut labels, device, &frame);
    rows.iter().for_each(|(at, _)| labels.keep_free(*at, 4.5));
    for (at, row) in &rows {
        let class = if row.is_wrong() { "wrong" } else { "" };
        svg.mark(ranges.colour(row.bound_by.as_ref()), class, *at, &tip(device, row));
    }
    name_kernels(&mut svg, &mut labels, &rows);
    svg.legend(&ranges.legend(device), [left, bottom + 62.0], right);
    let without = good(device).count() - rows.len();
    let rest = match without {
        0 => String::new(),
        n => format!(
            " {} without floating-point work {} not drawn here.",
            crate::words::counted(n, "row", "rows"),
            crate::words::plural(n, "is", "are")
        ),
    };
    Some(Figure {
        svg: svg.finish("Roofline: arithmetic intensity against performance"),
        findings: Vec::new(),
        caption: format!("Roofline. {roofs}{rest} Rows may pass the slope where their data stay in a cache."),
    })
}

/// Draws the roofs of arithmetic and memory; what is to be said of them.
fn roofs(svg: &mut Svg, labels: &mut Labels, device: &Device, frame: &Frame) -> String {
    let [left, right, ..] = frame.edges();
    // In logarithms, where no product of theirs is too large or too small for a number.
    let [low, high] = frame.x.logs();
    let (flop, bytes) = (device.roof("flop"), device.roof("bytes"));
    let ridge = flop.zip(bytes).map(|(f, b)| f.log10() - b.log10());
    let unit = if device.computes_on_cpu() { "/CPU s" } else { "/s" };
    let mut told = Vec::new();
    if let Some(flop) = flop {
        let from = ridge.map_or(low, |r| r.clamp(low, high));
        let (x, y) = (frame.x.at_log(from), frame.y.at(flop));
        svg.line("roof", [x, y], [right, y]);
        let text = format!("fused multiply-adds {}", prefixed(flop, &format!("FLOP{unit}")));
        svg.text("rooflabel", [right - 4.0, y - 6.0], Anchor::End, &text);
        labels.keep_text([right - 4.0, y - 6.0], Anchor::End, &text);
        labels.keep_line([x, y], [right, y]);
        told.push("fused multiply-adds");
    }
    if let Some(bytes) = bytes {
        // From where it enters the picture to the ridge.
        let [floor, ceiling] = frame.y.logs();
        let slope = bytes.log10();
        let from = low.max(floor - slope);
        let to = ridge.unwrap_or(high).min(high).min(ceiling - slope);
        if from < to {
            let ends = [from, to].map(|x| [frame.x.at_log(x), frame.y.at_log(x + slope)]);
            svg.line("roof", ends[0], ends[1]);
            let text = format!("copy {}", prefixed(bytes, &format!("B{unit}")));
            let at = [
                (0.6 * ends[0][0] + 0.4 * ends[1][0] - 8.0).max(left + 4.0 + width_of(&text)),
                0.6 * ends[0][1] + 0.4 * ends[1][1] - 4.0,
            ];
            svg.text("rooflabel", at, Anchor::End, &text);
            labels.keep_text(at, Anchor::End, &text);
            labels.keep_line(ends[0], ends[1]);
        }
        told.push("a streaming copy");
    }
    match told.as_slice() {
        [] => "The device's own roofs were not measured.".into(),
        some => format!("Roofs: {}, measured on this device in the same run.", some.join(" and ")),
    }
}

/// Largest error against speed; `None` without rows that have both.
pub(super) fn errors(device: &Device, ranges: &Ranges) -> Option<Figure> {
    let [left, right, top, bottom] = EDGES;
    // Exact results have no logarithm: they lie on a line of their own.
    let exact_at = bottom - 14.0;
    let alone = Ranges::of(std::slice::from_ref(device));
    let x = Log::around(shared_or_own(&ranges.speed, &alone.speed).iter().copied(), 0.07, left, right)?;
    let y = Log::around(ranges.error.iter().copied().chain([1e-8, 1e-5]), 0.08, bottom - 34.0, top)?;
    let frame = Frame { x, y };
    let place = |row: &Row| {
        let at = x.at(speed(device, row)?);
        match row.max_error? {
            0.0 => Some([at, exact_at]),
            e => Some([at, y.at(positive(Some(e))?)]),
        }
    };
    let rows: Vec<([f64; 2], &Row)> = good(device).filter_map(|row| Some((place(row)?, row))).collect();
    if rows.is_empty() {
        return None;
    }
    let (mut svg, mut labels) = (Svg::new(WIDTH, HEIGHT), Labels::default());
    // The strip of exact results has the same sizes below as the plot above.
    let whole = Frame { x, y: Log::around([1.0], 0.0, bottom, top)? };
    let none = || Axis { name: "", say: &|_| String::new(), at: Some(Vec::new()) };
    whole.draw(&mut svg, &Axis { name: per_second(device), say: &|v| prefixed(v, ""), at: None }, &none());
    frame.draw(&mut svg, &none(), &Axis { name: "largest error against f64", say: &|v| power(v), at: None });
    svg.text("tick", [left - 7.0, exact_at + 4.0], Anchor::End, "exact");
    rows.iter().for_each(|(at, _)| labels.keep_free(*at, 4.5));
    for (at, row) in &rows {
        if let Some(tolerance) = positive(row.tolerance).filter(|t| y.holds(*t)) {
            let allowed = y.at(tolerance);
            svg.line("allowed", [at[0], at[1]], [at[0], allowed]);
            svg.line("allowed", [at[0] - 3.0, allowed], [at[0] + 3.0, allowed]);
        }
    }
    for (at, row) in &rows {
        let class = if row.is_wrong() { "wrong" } else { "" };
        svg.mark(ranges.colour(row.bound_by.as_ref()), class, *at, &tip(device, row));
    }
    name_kernels(&mut svg, &mut labels, &rows);
    let mut legend = ranges.legend(device);
    if rows.iter().any(|(_, row)| row.is_wrong()) {
        legend.push((0, "wrong", "above its tolerance".into()));
    }
    svg.legend(&legend, [left, bottom + 62.0], right);
    Some(Figure {
        svg: svg.finish("Largest error against speed"),
        findings: Vec::new(),
        caption: "Error and speed. Lower is more exact, further right is faster; a thin line reaches to the error that is allowed.".into(),
    })
}

/// A sweep over sizes with the sizes where ways cross; `None` without points.
pub(super) fn sweep(device: &Device, suite: &Suite, ranges: &Ranges) -> Option<Figure> {
    let [left, right, top, _] = EDGES;
    let names: Vec<(usize, &str, String)> =
        suite.series.iter().enumerate().map(|(i, s)| (i % SERIES, "", s.name.clone())).collect();
    let bottom = EDGES[3];
    let [xs, ys] = ranges.suites.get(&suite.name)?;
    let alone = Ranges::of(std::slice::from_ref(device));
    let [_, own] = alone.suites.get(&suite.name)?;
    // Names stand at the ends of curves; a legend is needed where they are too long for that.
    const LONGEST: f64 = 170.0;
    let cpu = by_cpu(device.computes_on_cpu(), suite);
    let lines = lines(device.computes_on_cpu(), suite);
    let drawn = suite.series.iter().zip(&lines).filter(|(_, line)| !line.is_empty());
    let longest = drawn.map(|(s, _)| width_of(&s.name)).fold(0.0, f64::max);
    let frame = Frame {
        x: Log::around(xs.iter().copied(), 0.03, left, right + 4.0 - longest.min(LONGEST))?,
        y: Log::around(shared_or_own(ys, own).iter().copied(), 0.07, bottom, top)?,
    };
    if lines.iter().all(Vec::is_empty) {
        return None;
    }
    let mut svg = Svg::new(WIDTH, bottom + 44.0);
    let mut sizes: Vec<f64> = xs.clone();
    sizes.sort_by(f64::total_cmp);
    sizes.dedup();
    let is_time = suite.y == "seconds";
    let name = match (is_time, cpu) {
        (true, true) => "CPU seconds",
        (true, false) => "time",
        _ => suite.y.as_str(),
    };
    let say_y = |y: f64| if is_time { tidy(&seconds(y)) } else { prefixed(y, "") };
    frame.draw(
        &mut svg,
        &Axis { name: &suite.x, say: &|x| grouped(x), at: Some(sizes) },
        &Axis { name, say: &say_y, at: None },
    );
    let mut ends: Vec<(usize, [f64; 2])> = Vec::new();
    for (i, line) in lines.iter().enumerate() {
        let places: Vec<[f64; 2]> = line.iter().map(|[x, y]| frame.place(*x, *y)).collect();
        svg.path(&format!("curve s{}", i % SERIES), &places);
        for ([x, y], at) in line.iter().zip(&places) {
            let point = suite.series[i].points.iter().find(|p| p.x == Some(*x));
            let times = point.map(|p| p.times(cpu)).unwrap_or_default();
            let told = if is_time { with_ends(times) } else { prefixed(*y, "") };
            let ends = times.p10.zip(times.p90).filter(|(a, b)| frame.y.holds(*a) && frame.y.holds(*b));
            if let Some((low, high)) = ends {
                svg.line("whisker", [at[0], frame.y.at(low)], [at[0], frame.y.at(high)]);
            }
            let rest = point.map_or_else(String::new, point_tip);
            let name = &suite.series[i].name;
            svg.mark(i, "", *at, &format!("{name}\n{} {}\n{told}{rest}", grouped(*x), suite.x));
        }
        ends.extend(places.last().map(|at| (i, *at)));
    }
    for [x, y] in crossings(suite, &lines).iter().filter_map(|c| c.at).filter(|[x, _]| frame.x.holds(*x)) {
        let at = frame.place(x, y);
        svg.line("crossing", [at[0], at[1]], [at[0], bottom]);
    }
    label_ends(&mut svg, &mut ends, suite, [top, bottom]);
    if longest > LONGEST {
        let end = svg.legend(&names, [left, bottom + 58.0], right);
        svg.reach(end + 12.0);
    }
    let failed: usize = suite.series.iter().flat_map(|s| &s.points).filter(|p| p.failure.is_some()).count();
    let mut caption = format!("{}.", suite.title.trim_end_matches('.'));
    if cpu {
        caption += " By CPU seconds.";
    }
    if suite.series.iter().flat_map(|s| &s.points).any(|p| p.times(cpu).p10.is_some()) {
        caption += " Whiskers: p10 to p90 of the runs.";
    }
    if failed > 0 {
        caption += &format!(
            " {} failed and {} left out.",
            crate::words::counted(failed, "point", "points"),
            crate::words::plural(failed, "is", "are")
        );
    }
    let mut findings = suites::findings(device.computes_on_cpu(), suite);
    findings.extend(not_run(suite));
    Some(Figure { svg: svg.finish(&suite.title), caption, findings })
}

/// What is known of a point beside its time.
fn point_tip(point: &Point) -> String {
    let mut text = point
        .samples
        .map_or_else(String::new, |n| format!("\n{}", crate::words::counted(n as u64, "run", "runs")));
    text += &match (point.max_error, &point.checked) {
        (Some(x), of) => format!("\nerror {} ({})", error(Some(x)), of.as_deref().unwrap_or("all")),
        (None, Some(why)) => format!("\nchecked: {why}"),
        (None, None) => String::new(),
    };
    text.extend(suites::numbers(point).iter().map(|told| format!("\n{told}")));
    // That a device is software stands beside its name.
    text.extend(point.flags.iter().filter(|f| *f != "software").map(|flag| format!("\n{flag}")));
    text
}

/// Where series end because larger sizes were not run, and why.
fn not_run(suite: &Suite) -> Vec<String> {
    let of = |series: &Series| {
        let (x, why) = series.points.iter().find_map(|p| Some((p.x, p.skipped.as_ref()?)))?;
        let size = x.map_or_else(String::new, |x| format!(" at {} {}", grouped(x), suite.x));
        Some(format!("{}: not run{size}: {why}", series.name))
    };
    suite.series.iter().filter_map(of).collect()
}

/// `1 ms` instead of `1.00 ms`.
fn tidy(text: &str) -> String {
    match text.split_once(' ') {
        Some((number, unit)) if number.contains('.') => {
            format!("{} {unit}", number.trim_end_matches('0').trim_end_matches('.'))
        }
        _ => text.into(),
    }
}

/// Names at the right end of curves; those that would cover each other are moved apart.
fn label_ends(svg: &mut Svg, ends: &mut [(usize, [f64; 2])], suite: &Suite, [top, bottom]: [f64; 2]) {
    const APART: f64 = 14.0;
    ends.sort_by(|a, b| a.1[1].total_cmp(&b.1[1]));
    let mut placed: Vec<Label> = Vec::new();
    for (series, [x, y]) in ends.iter() {
        let left = x + 9.0;
        let room = ((WIDTH - left - 3.0) / width_of("x")) as usize;
        let text = shortened(&suite.series[*series].name, room.max(4));
        let right = left + width_of(&text);
        let beside = placed.iter().filter(|p| p.left < right && left < p.right);
        let y = beside.map(|p| p.y + APART).fold(*y, f64::max);
        placed.push(Label { series: *series, text, left, right, y });
    }
    // Back up where they would pass the bottom, the lowest first.
    let mut lowest = bottom - 6.0;
    for label in placed.iter_mut().rev().filter(|l| l.y > bottom - 6.0) {
        label.y = lowest.max(top);
        lowest -= APART;
    }
    for label in placed {
        let class = format!("label t{}", label.series % SERIES);
        svg.text(&class, [label.left, label.y + 4.0], Anchor::Start, &label.text);
    }
}

/// A name at the end of a curve.
struct Label {
    series: usize,
    text: String,
    left: f64,
    right: f64,
    y: f64,
}

/// Rows of a chart of bars, which is as high as it needs.
const BAR: f64 = 11.0;
const ROW: f64 = 17.0;
/// Left of the bars are names, which take so much at most.
const NAMES: f64 = 300.0;
const BARS_TO: f64 = 580.0;

/// Kernels with the rows whose bound is known, best kernel first.
pub(super) fn kernels_by_share(device: &Device) -> Vec<(&str, Vec<&Row>)> {
    let mut kernels: Vec<(&str, Vec<&Row>)> = Vec::new();
    for row in good(device).filter(|row| positive(row.share).is_some()) {
        match kernels.iter_mut().find(|(name, _)| *name == row.kernel) {
            Some((_, rows)) => rows.push(row),
            None => kernels.push((&row.kernel, vec![row])),
        }
    }
    let mean = |rows: &[&Row]| {
        rows.iter().filter_map(|r| positive(r.share)).map(f64::ln).sum::<f64>() / rows.len().max(1) as f64
    };
    kernels.sort_by(|a, b| mean(&b.1).total_cmp(&mean(&a.1)));
    kernels
}

fn case_of(row: &Row) -> String {
    let variant = row.asked_variant.as_ref().map_or_else(String::new, |v| format!(" ({v})"));
    let tuned = if row.tuned { " tuned" } else { "" };
    format!("{}{variant}{tuned}", row.case)
}

/// Share of the bound of every row, with the p10 and p90 of its runs; `None` without any.
pub(super) fn bars(device: &Device, kernels: &[(&str, Vec<&Row>)], ranges: &Ranges) -> Option<Figure> {
    let count: usize = kernels.iter().map(|(_, rows)| rows.len()).sum();
    if count == 0 {
        return None;
    }
    let height = 30.0 + ROW * count as f64 + 5.0 * kernels.len() as f64 + 44.0;
    let bottom = height - 44.0;
    // 100 % and a little; what is beyond is cut with a mark.
    const MOST: f64 = 1.2;
    let wide = |(kernel, rows): &(&str, Vec<&Row>)| {
        let cases = rows.iter().enumerate().map(|(i, row)| {
            let kernel = if i == 0 { kernel.chars().count() + 5 } else { 0 };
            width_of("x") * (kernel + case_of(row).chars().count()) as f64
        });
        cases.fold(0.0, f64::max)
    };
    let from = (kernels.iter().map(wide).fold(100.0, f64::max) + 18.0).min(NAMES);
    let at = |share: f64| from + share.min(MOST) / MOST * (BARS_TO - from);
    let mut svg = Svg::new(WIDTH, height);
    for tick in [0.0, 0.25, 0.5, 0.75, 1.0] {
        svg.line(if tick == 1.0 { "roof" } else { "grid" }, [at(tick), 22.0], [at(tick), bottom]);
        svg.text("tick", [at(tick), 14.0], Anchor::Middle, &format!("{:.0} %", 100.0 * tick));
    }
    let mut y = 30.0;
    for (kernel, rows) in kernels {
        for (i, row) in rows.iter().enumerate() {
            let Some(reached) = positive(row.share) else { continue };
            let case = case_of(row);
            let room = ((from - 14.0) / width_of("x")) as usize;
            // Where both names have no room, cases are shortened first.
            let mut left_for_case = room;
            if i == 0 {
                let name = shortened(kernel, room.saturating_sub(case.chars().count().min(14) + 3));
                svg.text("strong", [4.0, y + 9.5], Anchor::Start, &name);
                left_for_case = room.saturating_sub(name.chars().count() + 3);
            }
            svg.text("label", [from - 8.0, y + 9.5], Anchor::End, &shortened(&case, left_for_case));
            let series = ranges.colour(row.bound_by.as_ref());
            svg.bar(&format!("bar s{series}"), [from, y], [at(reached) - from, BAR], &tip(device, row));
            let times = device.judged(row);
            if let Some((low, high)) =
                times.median.zip(times.p90.zip(times.p10)).and_then(|(m, (p90, p10))| {
                    Some((positive(Some(reached * m / p90))?, positive(Some(reached * m / p10))?))
                })
            {
                let middle = y + 0.5 * BAR;
                svg.line("whisker", [at(low), middle], [at(high), middle]);
                for end in [low, high].into_iter().filter(|x| *x < MOST) {
                    svg.line("whisker", [at(end), middle - 3.0], [at(end), middle + 3.0]);
                }
            }
            svg.text("label", [BARS_TO + 8.0, y + 9.5], Anchor::Start, &share(Some(reached)));
            y += ROW;
        }
        y += 5.0;
    }
    let mut legend = ranges.legend(device);
    legend.retain(|(series, ..)| {
        kernels.iter().flat_map(|(_, rows)| rows).any(|r| ranges.colour(r.bound_by.as_ref()) == *series)
    });
    svg.legend(&legend, [4.0, bottom + 26.0], WIDTH);
    Some(Figure {
        svg: svg.finish("Share of the device's bound by kernel and case"),
        findings: Vec::new(),
        caption: "Share of the bound: 100 % is the least time this device could take for the arithmetic, loads, stores and memory that the \
            kernel needs, at its measured peaks. Whiskers: p10 to p90 of the runs"
            .to_string()
            + if device.computes_on_cpu() { ", as all of it by CPU time." } else { "." },
    })
}
