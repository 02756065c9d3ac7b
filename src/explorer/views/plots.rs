//! What the plots and tables of the explorer have in common: numbers as people read them, formulas, colours of series,
//! captioned figures, and what a view shows while it has nothing to show.

use crate::vision::colour::srgb_from_polar;
use eframe::egui::text::{LayoutJob, TextFormat};
use eframe::egui::{self, Align, Color32, FontId, RichText, TextStyle, Visuals};

/// Exponents that are written out: 0.001 to 9999.
const PLAIN_EXPONENTS: std::ops::Range<i32> = -3..4;

/// A number with three significant digits (fewer where they are zeros): `0.1`, `12.3`, `1540`, `3.12·10⁻⁶`.
pub(super) fn number(x: f64) -> String {
    if x == 0.0 || !x.is_finite() {
        return if x.is_nan() {
            "not a number".into()
        } else if x == 0.0 {
            "0".into()
        } else {
            (if x > 0.0 { "∞" } else { "−∞" }).into()
        };
    }
    // Rounded first, so that 0.9996 has the exponent of 1.
    let written = format!("{:.2e}", x.abs());
    let (mantissa, exponent) = written.split_once('e').unwrap_or((&written, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    let sign = if x < 0.0 { "−" } else { "" };
    if PLAIN_EXPONENTS.contains(&exponent) {
        let decimals = (2 - exponent).max(0) as usize;
        return format!("{sign}{}", trimmed(&format!("{:.decimals$}", x.abs())));
    }
    match trimmed(mantissa) {
        "1" => format!("{sign}{}", power_of_ten(exponent)),
        mantissa => format!("{sign}{mantissa}·{}", power_of_ten(exponent)),
    }
}

fn trimmed(written: &str) -> &str {
    if written.contains('.') { written.trim_end_matches('0').trim_end_matches('.') } else { written }
}

/// `10⁻⁶`.
pub(super) fn power_of_ten(exponent: i32) -> String {
    const DIGITS: [char; 10] = ['⁰', '¹', '²', '³', '⁴', '⁵', '⁶', '⁷', '⁸', '⁹'];
    let raised = exponent.unsigned_abs().to_string();
    let raised = raised.bytes().map(|digit| DIGITS[usize::from(digit - b'0') % 10]);
    let sign = if exponent < 0 { "⁻" } else { "" };
    format!("10{sign}{}", raised.collect::<String>())
}

/// A share of 1 in percent: `87 %`, `3.4 %`, `0.02 %`; never 0 % or 100 % where it is not quite that.
pub(super) fn percent(share: f64) -> String {
    let x = 100.0 * share;
    match x {
        _ if !x.is_finite() => "–".into(),
        _ if x <= 0.0 => "0 %".into(),
        _ if x < 0.01 => "below 0.01 %".into(),
        _ if x < 1.0 => format!("{x:.2} %"),
        _ if x < 10.0 => format!("{x:.1} %"),
        _ if x >= 99.95 && x < 100.0 => "almost 100 %".into(),
        _ if x >= 99.0 && x < 100.0 => format!("{x:.1} %"),
        _ => format!("{x:.0} %"),
    }
}

/// Seconds with a unit: `850 ns`, `12.3 µs`, `4.56 ms`, `1.23 s`.
pub(super) fn seconds(x: f64) -> String {
    let (scaled, unit) = match x.abs() {
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

/// `1 pass`, `7 passes`.
pub(super) fn counted(count: usize, one: &str, many: &str) -> String {
    format!("{count} {}", if count == 1 { one } else { many })
}

/// A formula as it is laid out: letters that Unicode has raised or lowered but the fonts lack are set smaller, at the
/// height they belong.
pub(super) fn formula(ui: &egui::Ui, text: &str) -> LayoutJob {
    let font = TextStyle::Body.resolve(ui.style());
    let colour = ui.visuals().text_color();
    let small = FontId::new(0.72 * font.size, font.family.clone());
    let mut job = LayoutJob::default();
    for letter in text.chars() {
        let (written, place) = match letter {
            'ᵢ' => ("i", Some(Align::BOTTOM)),
            'ⱼ' => ("j", Some(Align::BOTTOM)),
            'ₖ' => ("k", Some(Align::BOTTOM)),
            'ₗ' => ("l", Some(Align::BOTTOM)),
            'ₘ' => ("m", Some(Align::BOTTOM)),
            'ₙ' => ("n", Some(Align::BOTTOM)),
            'ᵀ' => ("T", Some(Align::TOP)),
            '\u{302}' => ("^", Some(Align::TOP)),
            '∛' => ("³√", None),
            '∗' => ("*", None),
            _ => {
                let plain = TextFormat::simple(font.clone(), colour);
                job.append(letter.encode_utf8(&mut [0; 4]), 0.0, plain);
                continue;
            }
        };
        let format = match place {
            Some(valign) => TextFormat { valign, ..TextFormat::simple(small.clone(), colour) },
            None => TextFormat::simple(font.clone(), colour),
        };
        job.append(written, 0.0, format);
    }
    job
}

/// The colours of series, the same in every plot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Series {
    /// What the eye should follow.
    Main,
    /// What it is compared with.
    Other,
    /// The rest.
    Quiet,
    /// One of many: memory slots, told apart by number.
    Numbered(usize),
}

impl Series {
    /// Its colour on the background of these visuals. Main and other are blue and orange, which colour-blind readers can
    /// tell apart; numbered ones go around the hues in steps of the golden angle.
    pub(super) fn colour(self, visuals: &Visuals) -> Color32 {
        let lift = if visuals.dark_mode { 0.14 } else { 0.0 };
        let [r, g, b] = match self {
            Self::Main => srgb_from_polar(0.56 + lift, 0.15, 255.0),
            Self::Other => srgb_from_polar(0.62 + lift, 0.15, 55.0),
            Self::Quiet => srgb_from_polar(0.70 - 1.4 * lift, 0.02, 255.0),
            Self::Numbered(index) => {
                let lightness = [0.60, 0.68, 0.52][index % 3] + 0.5 * lift;
                srgb_from_polar(lightness, 0.11, 255.0 + 137.508 * index as f64)
            }
        };
        Color32::from_rgb(r, g, b)
    }
}

/// Text that stands on a fill of this colour: black or white, whichever is easier to read.
pub(super) fn text_on(fill: Color32) -> Color32 {
    let luma = 0.299 * f32::from(fill.r()) + 0.587 * f32::from(fill.g()) + 0.114 * f32::from(fill.b());
    if luma > 140.0 { Color32::BLACK } else { Color32::WHITE }
}

/// A figure with its caption above, for rows of figures.
pub(super) fn figure(ui: &mut egui::Ui, caption: &str, value: impl Into<String>) -> egui::Response {
    let column = ui.vertical(|ui| {
        ui.spacing_mut().item_spacing.y = 1.0;
        ui.add(egui::Label::new(RichText::new(caption).small().weak()).extend());
        ui.add(egui::Label::new(RichText::new(value.into()).strong()).extend());
    });
    column.response
}

/// A row of figures that breaks into lines where it must.
pub(super) fn figures(ui: &mut egui::Ui, add: impl FnOnce(&mut egui::Ui)) {
    ui.horizontal_wrapped(|ui| {
        ui.spacing_mut().item_spacing = egui::vec2(24.0, 6.0);
        add(ui);
    });
}

/// The margin around everything a view draws.
pub(super) fn page(ui: &mut egui::Ui, add: impl FnOnce(&mut egui::Ui)) {
    egui::Frame::new().inner_margin(egui::Margin::same(10)).show(ui, |ui| {
        ui.set_min_size(ui.available_size());
        add(ui);
    });
}

/// A view with nothing to show: what is missing, and what to do about it.
pub(super) fn empty(ui: &mut egui::Ui, title: &str, hint: &str) {
    let space = ui.available_size();
    ui.allocate_ui_with_layout(space, egui::Layout::top_down(Align::Center), |ui| {
        ui.add_space((0.5 * space.y - 40.0).max(8.0));
        ui.label(RichText::new(title).heading());
        ui.add_space(4.0);
        ui.set_max_width(space.x.min(420.0));
        ui.label(RichText::new(hint).weak());
    });
}

/// What every view says before the engine's first answer.
pub(super) fn nothing_yet(ui: &mut egui::Ui) {
    empty(ui, "Nothing computed yet", "The first map is on its way. Click the picture to choose a query.");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_keep_three_digits_and_lose_zeros() {
        let cases = [
            (0.0, "0"),
            (1.0, "1"),
            (0.1, "0.1"),
            (0.9996, "1"),
            (12.34, "12.3"),
            (1540.0, "1540"),
            (3.123e-6, "3.12·10⁻⁶"),
            (1e-9, "10⁻⁹"),
            (-2.5e7, "−2.5·10⁷"),
            (f64::INFINITY, "∞"),
        ];
        for (x, expected) in cases {
            assert_eq!(number(x), expected, "{x}");
        }
    }

    #[test]
    fn percents_are_never_rounded_to_all_or_nothing() {
        let cases = [
            (0.0, "0 %"),
            (1e-6, "below 0.01 %"),
            (0.034, "3.4 %"),
            (0.9999, "almost 100 %"),
            (1.0, "100 %"),
        ];
        for (share, expected) in cases {
            assert_eq!(percent(share), expected, "{share}");
        }
    }

    #[test]
    fn times_carry_the_unit_that_suits_them() {
        assert_eq!(seconds(4.2e-7), "420 ns");
        assert_eq!(seconds(0.00456), "4.56 ms");
        assert_eq!(seconds(12.34), "12.3 s");
    }
}
