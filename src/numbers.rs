//! Numbers as people read them, on the command line and in the explorer alike: significant digits instead of decimals,
//! powers of ten outside of 1e-4 to 1e6, and units that suit the size.

use std::fmt::{Display, LowerExp};

/// A number with so many significant digits and no zeros behind: `0.001`, `12.5`, `3.2e-7`; `NaN`, `∞`.
pub(crate) fn significant(value: f64, digits: usize) -> String {
    match written(value, digits).split_once('e') {
        Some((mantissa, power)) => format!("{}e{power}", trimmed(mantissa)),
        None => trimmed(&written(value, digits)).to_string(),
    }
}

/// A number with three significant digits.
pub(crate) fn number(value: f64) -> String {
    significant(value, 3)
}

/// All seven significant digits that an f32 holds, zeros behind included, so that a column of them lines up.
pub(crate) fn full(value: f32) -> String {
    written(f64::from(value), 7)
}

/// The fewest digits that read back as the same number: `0.1`, `1e30`.
pub(crate) fn shortest<X: Copy + Into<f64> + Display + LowerExp>(value: &X) -> String {
    match is_plain((*value).into()) {
        true => value.to_string(),
        false => format!("{value:e}"),
    }
}

/// A number that is displayed as [`shortest`] writes it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Short<X>(pub(crate) X);

impl<X: Copy + Into<f64> + Display + LowerExp> Display for Short<X> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(&shortest(&self.0))
    }
}

/// Whether a number reads better without a power of ten.
fn is_plain(value: f64) -> bool {
    value == 0.0 || !value.is_finite() || (1e-4..1e6).contains(&value.abs())
}

fn written(value: f64, digits: usize) -> String {
    match value {
        v if v.is_infinite() => return (if v > 0.0 { "∞" } else { "−∞" }).into(),
        v if v == 0.0 || v.is_nan() => return format!("{}", v.abs()),
        _ => {}
    }
    // Rounded first: 999 999.7 is a million.
    let text = format!("{value:.*e}", digits.saturating_sub(1));
    let exponent: i32 = text.split_once('e').and_then(|(_, power)| power.parse().ok()).unwrap_or(0);
    if !(-4..6).contains(&exponent) {
        return text;
    }
    let decimals = (digits as i32 - 1 - exponent).max(0) as usize;
    format!("{value:.decimals$}")
}

fn trimmed(text: &str) -> &str {
    if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.') } else { text }
}

/// A whole number with its thousands apart: `16 384`.
pub(crate) fn grouped(value: f64) -> String {
    let digits = format!("{:.0}", value.abs());
    let mut text = String::from(if value < 0.0 { "−" } else { "" });
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            // A thin space, which the parser of numbers skips like any other.
            text.push('\u{2009}');
        }
        text.push(digit);
    }
    text
}

/// A count in four characters: `512`, `1.2k`, `34k`.
pub(crate) fn compact(count: usize) -> String {
    match count {
        0..1000 => count.to_string(),
        1000..10_000 => format!("{:.1}k", count as f64 / 1000.0),
        _ => format!("{}k", count / 1000),
    }
}

/// A share of 1 in percent: `87.3 %`, `3.4 %`, `0.02 %`; never 0 % or 100 % where it is not quite that.
pub(crate) fn percent(share: f64) -> String {
    let x = 100.0 * share;
    match x {
        _ if !x.is_finite() => "n/a".into(),
        _ if (99.95..100.0).contains(&x) => "almost 100 %".into(),
        _ => format!("{} %", number(x)),
    }
}

/// Decimals with which a column of shares in percent shows at least two digits of each, and of what is missing to 100 %;
/// four at most.
pub(crate) fn percent_decimals(shares: impl IntoIterator<Item = f64>) -> usize {
    let both = shares.into_iter().flat_map(|share| [share, 1.0 - share]);
    let sizes = both.map(|share| (100.0 * share).abs()).filter(|x| x.is_finite() && *x > 1e-9);
    let least = sizes.fold(f64::INFINITY, f64::min);
    if least.is_infinite() { 0 } else { (1.0 - least.log10().floor()).clamp(0.0, 4.0) as usize }
}

/// A share in percent as one of a column, with the [`percent_decimals`] of the column; what they cannot show is told as
/// less than the least they can.
pub(crate) fn percent_to(share: f64, decimals: usize) -> String {
    let (x, least) = (100.0 * share, 0.1_f64.powi(decimals as i32));
    match x {
        _ if !x.is_finite() => "n/a".into(),
        _ if x != 0.0 && x.abs() < 0.5 * least => format!("< {least:.decimals$} %"),
        _ => format!("{x:.decimals$} %"),
    }
}

/// Seconds with a unit: `850 ns`, `12.3 µs`, `4.56 ms`, `1.23 s`.
pub(crate) fn seconds(x: f64) -> String {
    let (scaled, unit) = match x.abs() {
        _ if !x.is_finite() => return "n/a".into(),
        0.0 => return "0 s".into(),
        s if s < 1e-6 => (x * 1e9, "ns"),
        s if s < 1e-3 => (x * 1e6, "µs"),
        s if s < 1.0 => (x * 1e3, "ms"),
        _ => (x, "s"),
    };
    let decimals = match scaled.abs() {
        s if s < 10.0 => 2,
        s if s < 100.0 => 1,
        _ => 0,
    };
    format!("{scaled:.decimals$} {unit}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_read_as_people_write_them() {
        let cases = [
            (0.001, "0.001"),
            (f64::from(0.72_f32), "0.72"),
            (12.5, "12.5"),
            (-1234.56, "-1235"),
            (3.2e-7, "3.2e-7"),
            (1e-4, "0.0001"),
            (9.99e-5, "9.99e-5"),
            (999_949.0, "999949"),
            (999_999.7, "1e6"),
            (f64::from(1e30_f32), "1e30"),
            (0.0, "0"),
            (-0.0, "0"),
            (f64::NAN, "NaN"),
            (f64::NEG_INFINITY, "−∞"),
        ];
        for (x, expected) in cases {
            assert_eq!(significant(x, 4), expected, "{x}");
        }
        assert_eq!(number(12.34), "12.3");
        assert_eq!(number(3.123e-6), "3.12e-6");
    }

    #[test]
    fn seven_digits_are_all_an_f32_holds() {
        assert_eq!(full(0.5), "0.5000000");
        assert_eq!(full(1.234_567_8e-5), "1.234568e-5");
        assert_eq!(full(12.345_678), "12.34568");
        assert_eq!(full(f32::NAN), "NaN");
    }

    #[test]
    fn the_shortest_form_reads_back_the_same() {
        assert_eq!([1e30_f32, 0.1, f32::INFINITY].map(|x| shortest(&x)), ["1e30", "0.1", "inf"]);
        assert_eq!(
            [1e300, 1e-300, 999_999.5, -1e6, 0.0].map(|x| shortest(&x)),
            ["1e300", "1e-300", "999999.5", "-1e6", "0"]
        );
        for bits in (1..0x7f00_0000_u32).step_by(0x0123_4567) {
            let x = f32::from_bits(bits);
            assert_eq!(shortest(&x).parse::<f32>().ok(), Some(x), "{x}");
            assert!(shortest(&x).len() <= 15, "{}", shortest(&x));
        }
    }

    #[test]
    fn whole_numbers_are_grouped_or_compact() {
        assert_eq!(grouped(16_384.0), "16\u{2009}384");
        assert_eq!(grouped(512.0), "512");
        assert_eq!([compact(7), compact(1234), compact(34_567)], ["7", "1.2k", "34k"]);
    }

    #[test]
    fn percents_are_never_rounded_to_all_or_nothing() {
        let cases = [
            (0.0, "0 %"),
            (1e-8, "1e-6 %"),
            (0.034, "3.4 %"),
            (0.8734, "87.3 %"),
            (0.9999, "almost 100 %"),
            (1.0, "100 %"),
            (f64::NAN, "n/a"),
        ];
        for (share, expected) in cases {
            assert_eq!(percent(share), expected, "{share}");
        }
    }

    #[test]
    fn percents_of_a_column_have_the_same_decimals() {
        let shares = [0.873, 0.034, 0.0, f64::NAN];
        let decimals = percent_decimals(shares);
        assert_eq!(shares.map(|s| percent_to(s, decimals)), ["87.3 %", "3.4 %", "0.0 %", "n/a"]);
        let decimals = percent_decimals([0.5, 1e-9]);
        assert_eq!([0.5, 1e-9].map(|s| percent_to(s, decimals)), ["50.0000 %", "< 0.0001 %"]);
        assert_eq!(percent_decimals([0.0, 1.0]), 0);
        let decimals = percent_decimals([0.999, 0.669]);
        assert_eq!([0.999, 0.669].map(|s| percent_to(s, decimals)), ["99.90 %", "66.90 %"]);
    }

    #[test]
    fn times_carry_the_unit_that_suits_them() {
        assert_eq!(seconds(4.2e-7), "420 ns");
        assert_eq!(seconds(0.00456), "4.56 ms");
        assert_eq!(seconds(12.34), "12.3 s");
        assert_eq!(seconds(f64::INFINITY), "n/a");
    }
}
