//! Numbers of benchmark reports in words: rates with their prefix, errors, ratios. What was not measured is a dash.

use super::published::Times;
use crate::numbers::{number, percent, seconds, significant};

/// Stands where nothing was measured.
pub(crate) const NONE: &str = "–";

/// Prefixes of thousands, from 1.
const PREFIXES: [&str; 6] = ["", "k", "M", "G", "T", "P"];

/// A number with a prefix: `28.9 G`; without a space where there is no prefix.
pub(crate) fn prefixed(x: f64, unit: &str) -> String {
    if !x.is_finite() {
        return NONE.into();
    }
    // Rounded first: 999.7 k is 1 M.
    let rounded: f64 = format!("{x:.2e}").parse().unwrap_or(x);
    let step = if rounded.abs() < 1.0 { 0 } else { (rounded.abs().log10() / 3.0 + 1e-9) as usize };
    let step = step.min(PREFIXES.len() - 1);
    format!("{} {}{unit}", number(rounded / 1000_f64.powi(step as i32)), PREFIXES[step]).trim_end().into()
}

/// A quantity or a dash.
pub(crate) fn or_dash(x: Option<f64>, say: impl Fn(f64) -> String) -> String {
    x.filter(|x| x.is_finite()).map_or_else(|| NONE.into(), say)
}

/// Seconds or a dash.
pub(crate) fn time(x: Option<f64>) -> String {
    or_dash(x, seconds)
}

/// From one time to another; a unit that both have is said once.
pub(crate) fn between(low: f64, high: f64) -> String {
    let (from, to) = (seconds(low), seconds(high));
    match (from.rsplit_once(' '), to.rsplit_once(' ')) {
        (Some((number, a)), Some((_, b))) if a == b => format!("{number} – {to}"),
        _ => format!("{from} – {to}"),
    }
}

/// A time with how far from it a tenth of the runs lies below and above, in percent.
pub(crate) fn spread(median: f64, ends: Option<(f64, f64)>) -> String {
    let percent = |x: f64| 100.0 * (x - median) / median;
    let ends = ends.filter(|_| median > 0.0);
    let ends = ends
        .map_or_else(String::new, |(low, high)| format!(" ({:+.0} … {:+.0} %)", percent(low), percent(high)));
    seconds(median) + &ends
}

/// A time with the ends of its runs: `4.56 ms (4.50 – 4.70 ms)`; a dash without one.
pub(crate) fn with_ends(times: Times) -> String {
    let ends = times.p10.zip(times.p90).filter(|_| times.median.is_some());
    time(times.median) + &ends.map_or_else(String::new, |(low, high)| format!(" ({})", between(low, high)))
}

/// A share of 1 or a dash, in whole percent from ten on.
pub(crate) fn share(x: Option<f64>) -> String {
    or_dash(x, |x| if (0.1..1e4).contains(&x) { format!("{:.0} %", 100.0 * x) } else { percent(x) })
}

/// An error or a dash: two digits.
pub(crate) fn error(x: Option<f64>) -> String {
    or_dash(x, |x| if x == 0.0 { "0".into() } else { format!("{x:.1e}") })
}

/// A quotient of two times: `1.50×`.
pub(crate) fn ratio(x: Option<f64>) -> String {
    or_dash(x, |x| {
        let text = if (0.1..100.0).contains(&x) { format!("{x:.2}") } else { significant(x, 3) };
        format!("{text}×")
    })
}

/// A score: 1 is the reference.
pub(crate) fn score(x: Option<f64>) -> String {
    or_dash(x, |x| if x < 10.0 { format!("{x:.2}") } else { number(x) })
}

/// A moment as people write it: `2026-11-30 12:00 UTC`; what is no ISO 8601 stays as it is.
pub(crate) fn moment(text: &str) -> String {
    let parts = text.strip_suffix('Z').and_then(|t| t.split_once('T'));
    match parts.and_then(|(date, clock)| Some((date, clock.get(..5)?))) {
        Some((date, clock)) if date.len() == 10 => format!("{date} {clock} UTC"),
        _ => text.into(),
    }
}

/// Bytes by powers of two.
pub(crate) fn memory(x: f64) -> String {
    const UNITS: [&str; 5] = ["B", "KiB", "MiB", "GiB", "TiB"];
    let mut scaled = x;
    let mut unit = 0;
    while scaled.abs() >= 1024.0 && unit + 1 < UNITS.len() {
        scaled /= 1024.0;
        unit += 1;
    }
    format!("{} {}", number(scaled), UNITS[unit])
}

/// What a row does by second: operations where it computes, bytes where it only moves them.
pub(crate) fn work_rate(
    flop: Option<f64>,
    bytes: Option<f64>,
    seconds: Option<f64>,
) -> Option<(f64, &'static str)> {
    let by = |work: Option<f64>| super::published::positive(Some(work? / seconds?));
    by(flop).map(|rate| (rate, "FLOP/s")).or_else(|| by(bytes).map(|rate| (rate, "B/s")))
}

/// A text of anyone's as part of a line: no control characters, which terminals obey, and no line breaks.
pub(crate) fn one_line(text: &str) -> String {
    let plain = |c: char| match c {
        c if c.is_whitespace() => ' ',
        c if c.is_control() || matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}') => '\u{fffd}',
        c => c,
    };
    text.chars().map(plain).collect()
}

/// Longest name of a device or driver that is written in full.
pub(crate) const LONGEST: usize = 120;

/// The first letters of a long name, with a mark where it was cut.
pub(crate) fn shortened(text: &str, most: usize) -> String {
    match text.chars().count() {
        n if n <= most => text.into(),
        _ => text.chars().take(most.saturating_sub(1)).chain(['…']).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_have_prefixes_and_gaps_have_dashes() {
        for (x, text) in [
            (28.94e9, "28.9 GB/s"),
            (999.7e3, "1 MB/s"),
            (1e9, "1 GB/s"),
            (12.0, "12 B/s"),
            (0.5, "0.5 B/s"),
            (3.3e19, "33000 PB/s"),
            (f64::INFINITY, NONE),
        ] {
            assert_eq!(prefixed(x, "B/s"), text);
        }
        assert_eq!([time(None), share(None), error(None), ratio(Some(f64::NAN))], [NONE; 4]);
    }

    #[test]
    fn ratios_and_shares_stay_readable_at_any_size() {
        assert_eq!([ratio(Some(1.5)), ratio(Some(1e9)), ratio(Some(3e-7))], ["1.50×", "1e9×", "3e-7×"]);
        assert_eq!([share(Some(0.823)), share(Some(0.0004)), share(Some(1.1))], ["82 %", "0.04 %", "110 %"]);
        assert_eq!([score(Some(0.978)), score(Some(512.34)), score(None)], ["0.98", "512", NONE]);
        assert_eq!([moment("2026-11-30T12:00:59Z"), moment("Tuesday")], ["2026-11-30 12:00 UTC", "Tuesday"]);
        assert_eq!([between(0.001, 0.002), between(9e-4, 0.001)], ["1.00 – 2.00 ms", "900 µs – 1.00 ms"]);
        assert_eq!(memory(25e9), "23.3 GiB");
        assert_eq!(shortened("abcdef", 4), "abc…");
    }

    #[test]
    fn texts_of_files_do_not_move_the_cursor() {
        assert_eq!(one_line("a\nb\u{1b}[2Jc\u{202e}d"), "a b\u{fffd}[2Jc\u{fffd}d");
    }

    #[test]
    fn rows_without_arithmetic_are_told_in_bytes() {
        assert_eq!(work_rate(Some(4.0), Some(8.0), Some(2.0)), Some((2.0, "FLOP/s")));
        assert_eq!(work_rate(Some(0.0), Some(8.0), Some(2.0)), Some((4.0, "B/s")));
        assert_eq!(work_rate(Some(4.0), Some(8.0), None), None);
    }
}
