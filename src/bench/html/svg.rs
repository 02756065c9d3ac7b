//! Plots as inline SVG: logarithmic axes, marks with tooltips, and labels that do not cover each other. Colours are classes of the
//! page's style sheet, so that plots follow light, dark and print.

use super::escaped;
use crate::bench::units::shortened;
use std::fmt::Write as _;

/// Size of text in plots, in units of the picture.
pub(super) const TEXT: f64 = 12.0;
/// Series that differ in colour and shape.
pub(super) const SERIES: usize = 8;

/// Width of a text, roughly: letters of the fonts that readers have differ.
pub(super) fn width_of(text: &str) -> f64 {
    0.56 * TEXT * text.chars().count() as f64
}

/// A picture that is being drawn.
#[derive(Debug)]
pub(super) struct Svg {
    width: f64,
    height: f64,
    body: String,
}

/// Where a text stands against its point.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Anchor {
    Start,
    Middle,
    End,
}

impl Svg {
    pub(super) fn new(width: f64, height: f64) -> Self {
        Self { width, height, body: String::new() }
    }

    /// Makes it so high at least.
    pub(super) fn reach(&mut self, height: f64) {
        self.height = self.height.max(height);
    }

    // Writing to a string cannot fail.
    fn push(&mut self, element: std::fmt::Arguments<'_>) {
        let _ = self.body.write_fmt(element);
    }

    pub(super) fn line(&mut self, class: &str, [x1, y1]: [f64; 2], [x2, y2]: [f64; 2]) {
        self.push(format_args!(
            "<line class=\"{class}\" x1=\"{x1:.1}\" y1=\"{y1:.1}\" x2=\"{x2:.1}\" y2=\"{y2:.1}\" />"
        ));
    }

    pub(super) fn path(&mut self, class: &str, points: &[[f64; 2]]) {
        let mut d = String::new();
        for (i, [x, y]) in points.iter().enumerate() {
            let _ = write!(d, "{}{x:.1} {y:.1}", if i == 0 { "M" } else { "L" });
        }
        self.push(format_args!("<path class=\"{class}\" d=\"{d}\" />"));
    }

    pub(super) fn text(&mut self, class: &str, [x, y]: [f64; 2], anchor: Anchor, text: &str) {
        let anchor = match anchor {
            Anchor::Start => "start",
            Anchor::Middle => "middle",
            Anchor::End => "end",
        };
        self.push(format_args!(
            "<text class=\"{class}\" x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"{anchor}\">{}</text>",
            escaped(text)
        ));
    }

    /// A label of the vertical axis, from bottom to top.
    fn upright(&mut self, x: f64, y: f64, text: &str) {
        self.push(format_args!(
            "<text class=\"axis\" text-anchor=\"middle\" transform=\"translate({x:.1} {y:.1}) rotate(-90)\">{}</text>",
            escaped(text)
        ));
    }

    pub(super) fn bar(&mut self, class: &str, [x, y]: [f64; 2], [width, height]: [f64; 2], tip: &str) {
        self.push(format_args!(
            "<rect class=\"{class}\" x=\"{x:.1}\" y=\"{y:.1}\" width=\"{:.1}\" height=\"{height:.1}\" rx=\"1.5\"><title>{}</title></rect>",
            width.max(0.5),
            escaped(tip)
        ));
    }

    /// A mark whose shape tells series apart where colours do not.
    pub(super) fn mark(&mut self, series: usize, class: &str, [x, y]: [f64; 2], tip: &str) {
        let class = format!("mark s{} {class}", series % SERIES);
        let tip = escaped(tip);
        let polygon = |points: &[[f64; 2]]| {
            points.iter().map(|[dx, dy]| format!("{:.1},{:.1}", x + dx, y + dy)).collect::<Vec<_>>().join(" ")
        };
        let points = match series % 4 {
            0 => {
                self.push(format_args!(
                    "<circle class=\"{class}\" cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"4.2\"><title>{tip}</title></circle>"
                ));
                return;
            }
            1 => polygon(&[[-3.8, -3.8], [3.8, -3.8], [3.8, 3.8], [-3.8, 3.8]]),
            2 => polygon(&[[0.0, -5.0], [4.8, 3.6], [-4.8, 3.6]]),
            _ => polygon(&[[0.0, -5.2], [5.2, 0.0], [0.0, 5.2], [-5.2, 0.0]]),
        };
        self.push(format_args!(
            "<polygon class=\"{class}\" points=\"{points}\"><title>{tip}</title></polygon>"
        ));
    }

    /// A legend in one or more lines under each other, each filled from the left; where it ends.
    pub(super) fn legend(
        &mut self,
        entries: &[(usize, &str, String)],
        [left, top]: [f64; 2],
        right: f64,
    ) -> f64 {
        let (mut x, mut y) = (left, top);
        for (series, class, name) in entries {
            let name = shortened(name, 40);
            let wide = 20.0 + width_of(&name) + 14.0;
            if x > left && x + wide > right {
                (x, y) = (left, y + 18.0);
            }
            self.mark(*series, class, [x + 6.0, y - 4.0], &name);
            self.text("label", [x + 16.0, y], Anchor::Start, &name);
            x += wide;
        }
        y
    }

    /// The whole element; `told` says what it shows to those who cannot see it.
    pub(super) fn finish(self, told: &str) -> String {
        format!(
            "<svg viewBox=\"0 0 {:.0} {:.0}\" role=\"img\" aria-label=\"{}\">{}</svg>",
            self.width,
            self.height,
            escaped(told),
            self.body
        )
    }
}

/// A logarithmic axis from values to places.
#[derive(Clone, Copy, Debug)]
pub(super) struct Log {
    low: f64,
    high: f64,
    from: f64,
    to: f64,
}

impl Log {
    /// Around positive values with a margin of a part of the axis; `None` without any.
    pub(super) fn around(
        values: impl IntoIterator<Item = f64>,
        margin: f64,
        from: f64,
        to: f64,
    ) -> Option<Self> {
        let mut ends: Option<(f64, f64)> = None;
        for x in values.into_iter().filter(|x| x.is_finite() && *x > 0.0).map(f64::log10) {
            let (low, high) = ends.unwrap_or((x, x));
            ends = Some((low.min(x), high.max(x)));
        }
        let (low, high) = ends?;
        // A single value has half a decade to both sides.
        let room = if high - low < 0.1 { 0.5 } else { margin * (high - low) };
        Some(Self { low: low - room, high: high + room, from, to })
    }

    pub(super) fn at(&self, x: f64) -> f64 {
        self.at_log(x.log10())
    }

    /// The place of a power of ten.
    pub(super) fn at_log(&self, power: f64) -> f64 {
        self.from + (power - self.low) / (self.high - self.low) * (self.to - self.from)
    }

    /// The ends as powers of ten.
    pub(super) fn logs(&self) -> [f64; 2] {
        [self.low, self.high]
    }

    pub(super) fn holds(&self, x: f64) -> bool {
        x > 0.0 && (self.low..=self.high).contains(&x.log10())
    }

    pub(super) fn ends(&self) -> [f64; 2] {
        [self.low, self.high].map(|x| 10_f64.powf(x))
    }

    /// Round values with room for their labels: powers of ten, every n-th of them, or 1, 2 and 5 where they are few.
    fn ticks(&self, room: f64) -> Vec<f64> {
        let per_decade = (self.to - self.from).abs() / (self.high - self.low);
        let steps: &[f64] = match per_decade / room {
            x if x >= 3.4 => &[1.0, 2.0, 5.0],
            x if x >= 2.2 => &[1.0, 3.0],
            _ => &[1.0],
        };
        let every = (room / per_decade).ceil().max(1.0) as i32;
        let decades = self.low.floor() as i32..=self.high.ceil() as i32;
        let all = decades
            .filter(|d| d.rem_euclid(every) == 0)
            .flat_map(|d| steps.iter().map(move |s| s * 10_f64.powi(d)));
        let round: Vec<f64> = all.filter(|x| self.holds(*x)).collect();
        if round.len() > 2 { round } else { self.even_ticks() }
    }

    /// Round values at equal steps, for less than a decade.
    fn even_ticks(&self) -> Vec<f64> {
        let [low, high] = self.ends();
        let power = 10_f64.powf(((high - low) / 5.0).log10().floor());
        let step = [1.0, 2.0, 5.0, 10.0].map(|s| s * power).into_iter().find(|s| (high - low) / s <= 6.0);
        let Some(step) = step.filter(|s| s.is_finite() && *s > 0.0) else { return Vec::new() };
        let count = ((high - low) / step) as u32 + 1;
        let first = (low / step).ceil();
        (0..=count).map(|i| (first + f64::from(i)) * step).filter(|x| self.holds(*x)).collect()
    }
}

/// Two logarithmic axes with grid and labels.
#[derive(Clone, Copy, Debug)]
pub(super) struct Frame {
    pub(super) x: Log,
    pub(super) y: Log,
}

/// How an axis is labelled.
pub(super) struct Axis<'a> {
    pub(super) name: &'a str,
    pub(super) say: &'a dyn Fn(f64) -> String,
    /// Values to label instead of round ones.
    pub(super) at: Option<Vec<f64>>,
}

impl Frame {
    pub(super) fn place(&self, x: f64, y: f64) -> [f64; 2] {
        [self.x.at(x), self.y.at(y)]
    }

    /// Left, right, top and bottom of the plot.
    pub(super) fn edges(&self) -> [f64; 4] {
        [self.x.from, self.x.to, self.y.to, self.y.from]
    }

    pub(super) fn draw(&self, svg: &mut Svg, x: &Axis<'_>, y: &Axis<'_>) {
        let [left, right, top, bottom] = self.edges();
        let given = |axis: &Axis<'_>, log: &Log, room| match &axis.at {
            Some(values) => values.iter().copied().filter(|v| log.holds(*v)).collect(),
            None => log.ticks(room),
        };
        let mut free_from = f64::NEG_INFINITY;
        for value in given(x, &self.x, 62.0) {
            let (at, text) = (self.x.at(value), (x.say)(value));
            let half = 0.5 * width_of(&text) + 4.0;
            if at - half < free_from {
                continue;
            }
            free_from = at + half;
            svg.line("grid", [at, top], [at, bottom]);
            svg.text("tick", [at, bottom + 16.0], Anchor::Middle, &text);
        }
        for value in given(y, &self.y, 30.0) {
            let at = self.y.at(value);
            svg.line("grid", [left, at], [right, at]);
            svg.text("tick", [left - 7.0, at + 4.0], Anchor::End, &(y.say)(value));
        }
        svg.line("frame", [left, bottom], [right, bottom]);
        svg.line("frame", [left, top], [left, bottom]);
        svg.text("axis", [0.5 * (left + right), bottom + 35.0], Anchor::Middle, x.name);
        svg.upright(14.0, 0.5 * (top + bottom), y.name);
    }
}

/// Places that are taken, so that a label is written where it can be read or not at all.
#[derive(Debug, Default)]
pub(super) struct Labels {
    /// Left, top, right, bottom.
    taken: Vec<[f64; 4]>,
}

impl Labels {
    /// Keeps a place free of labels.
    pub(super) fn keep_free(&mut self, [x, y]: [f64; 2], reach: f64) {
        self.taken.push([x - reach, y - reach, x + reach, y + reach]);
    }

    /// Keeps a line free of labels.
    pub(super) fn keep_line(&mut self, from: [f64; 2], to: [f64; 2]) {
        const STEPS: u32 = 40;
        for i in 0..=STEPS {
            let t = f64::from(i) / f64::from(STEPS);
            self.keep_free([0, 1].map(|k| from[k] + t * (to[k] - from[k])), 3.0);
        }
    }

    /// Keeps the place of a text free that stands there already.
    pub(super) fn keep_text(&mut self, [x, y]: [f64; 2], anchor: Anchor, text: &str) {
        self.taken.push(Self::rectangle([x, y], anchor, text));
    }

    fn rectangle([x, y]: [f64; 2], anchor: Anchor, text: &str) -> [f64; 4] {
        let wide = width_of(text);
        let left = match anchor {
            Anchor::Start => x,
            Anchor::Middle => x - 0.5 * wide,
            Anchor::End => x - wide,
        };
        [left, y - TEXT + 1.0, left + wide, y + 3.0]
    }

    /// Writes a text beside a point where nothing else stands, inside of `edges`; whether there was a place.
    pub(super) fn write(
        &mut self,
        svg: &mut Svg,
        [x, y]: [f64; 2],
        [left, right, top, bottom]: [f64; 4],
        text: &str,
    ) -> bool {
        let places = [
            ([x + 8.0, y + 4.0], Anchor::Start),
            ([x - 8.0, y + 4.0], Anchor::End),
            ([x, y - 8.0], Anchor::Middle),
            ([x, y + 17.0], Anchor::Middle),
            ([x + 7.0, y - 7.0], Anchor::Start),
            ([x + 7.0, y + 14.0], Anchor::Start),
        ];
        for (at, anchor) in places {
            let [l, t, r, b] = Self::rectangle(at, anchor, text);
            let inside = l >= left && r <= right && t >= top && b <= bottom;
            if inside && self.taken.iter().all(|o| r < o[0] || l > o[2] || b < o[1] || t > o[3]) {
                self.taken.push([l, t, r, b]);
                svg.text("label", at, anchor, text);
                return true;
            }
        }
        false
    }
}

/// A power of ten with its exponent raised: `10⁻⁷`, `3·10⁻⁷`.
pub(super) fn power(x: f64) -> String {
    let text = format!("{x:.0e}");
    let Some((mantissa, exponent)) = text.split_once('e') else { return text };
    let raised = |c: char| match c {
        '-' => '⁻',
        '0'..='9' => ['⁰', '¹', '²', '³', '⁴', '⁵', '⁶', '⁷', '⁸', '⁹'][c as usize - '0' as usize],
        other => other,
    };
    let exponent: String = exponent.chars().map(raised).collect();
    if mantissa == "1" { format!("10{exponent}") } else { format!("{mantissa}·10{exponent}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn axes_have_round_ticks_at_any_range() {
        let axis = |low, high| Log::around([low, high], 0.0, 0.0, 400.0).expect("two values");
        assert_eq!(axis(1.0, 1e4).ticks(60.0), [1.0, 10.0, 100.0, 1e3, 1e4]);
        assert!(axis(1e-150, 1e150).ticks(60.0).len() <= 8, "labels have room");
        assert!(axis(1.0, 9.0).ticks(60.0).len() >= 3);
        assert!(axis(5.0, 5.0).ticks(60.0).len() >= 2, "a single value has an axis");
        let narrow = axis(0.8, 1.5).ticks(60.0);
        assert!(narrow.len() >= 4 && narrow.iter().any(|x| (x - 1.0).abs() < 1e-9), "{narrow:?}");
        assert!(Log::around([0.0, f64::NAN, -1.0], 0.1, 0.0, 1.0).is_none());
    }

    #[test]
    fn labels_do_not_cover_each_other() {
        let (mut svg, mut labels) = (Svg::new(100.0, 100.0), Labels::default());
        let edges = [0.0, 100.0, 0.0, 100.0];
        let written = (0..20).filter(|_| labels.write(&mut svg, [50.0, 50.0], edges, "matmul")).count();
        assert!((1..=6).contains(&written), "{written}");
        for (i, a) in labels.taken.iter().enumerate() {
            assert!(
                labels.taken[i + 1..]
                    .iter()
                    .all(|b| a[2] < b[0] || a[0] > b[2] || a[3] < b[1] || a[1] > b[3])
            );
        }
    }

    #[test]
    fn texts_cannot_leave_their_place() {
        let mut svg = Svg::new(10.0, 10.0);
        svg.text("label", [0.0, 0.0], Anchor::Start, "</text><script>");
        svg.mark(0, "", [0.0, 0.0], "\"]]><b>");
        let text = svg.finish("a \"quote\"");
        assert!(
            !text.contains("<script>") && !text.contains("<b>") && text.contains("&quot;quote&quot;"),
            "{text}"
        );
        assert_eq!([power(1e-7), power(3e12)], ["10⁻⁷", "3·10¹²"]);
    }
}
