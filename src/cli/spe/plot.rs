//! The picture of `wgattn spe`: a template with what drawn codes make of it, beside the error against the number of realisations.

use super::measure::{AtRealizations, slope};
use crate::numbers::significant;
use crate::position::Positions;
use crate::vision::palette::Palette;
use crate::words::counted;
use image::RgbImage;
use plotters::coord::Shift;
use plotters::coord::ranged1d::{DefaultFormatting, KeyPointHint, Ranged};
use plotters::prelude::*;
use plotters::style::{FontStyle, register_font};
use std::ops::Range;
use std::sync::OnceLock;

const WIDTH: u32 = 1680;
/// Where the template ends and the errors begin.
const SPLIT: u32 = 1020;
const FONT: &str = "sans-serif";
const TITLE: u32 = 26;
const TEXT: u32 = 21;
/// Most numbers of realisations that are drawn beside the exact template.
const MOST_DRAWN: usize = 3;
/// Most tokens of a line whose values are dots too: a curve through few of them hides which there are, and one has no curve.
const MOST_DOTS: usize = 24;
/// Room around a picture of lags for its caption and its axes: in all, and on the left of it.
const AROUND: (u32, u32) = (86, 98);
/// Least side of a picture of lags: cells of thin grids are longer than wide rather than too thin to be seen.
const LEAST_SIDE: u32 = 48;
/// Least distance of two numbers on an axis.
const LABEL_DISTANCE: f64 = 62.0;
const INK: RGBColor = RGBColor(30, 30, 36);
const FAINT: RGBColor = RGBColor(222, 222, 226);

/// What is drawn.
pub(super) struct Plot<'a> {
    pub(super) positions: &'a Positions,
    /// The query whose row is drawn.
    pub(super) middle: usize,
    /// Head and dimension, in words.
    pub(super) channel: String,
    /// `[n]` the exact row.
    pub(super) exact: &'a [f64],
    /// v_q and v_k.
    pub(super) variances: [f64; 2],
    pub(super) measured: &'a [AtRealizations],
    pub(super) seeds: usize,
}

type Area<'a> = DrawingArea<BitMapBackend<'a>, Shift>;
type Drawn = Result<(), Box<dyn std::error::Error>>;

/// The font once for all plots.
fn font() -> Result<(), String> {
    static KNOWN: OnceLock<bool> = OnceLock::new();
    let known = *KNOWN
        .get_or_init(|| register_font(FONT, FontStyle::Normal, epaint_default_fonts::UBUNTU_LIGHT).is_ok());
    if known { Ok(()) } else { Err("the built-in font cannot be read".into()) }
}

fn text(size: u32) -> TextStyle<'static> {
    (FONT, size).into_font().color(&INK)
}

fn colour(t: f64) -> RGBColor {
    let [r, g, b] = Palette::Sequential.colour(t);
    RGBColor(r, g, b)
}

impl Plot<'_> {
    /// The whole picture.
    pub(super) fn draw(&self) -> Result<RgbImage, String> {
        font()?;
        // Four pictures need more room than a curve.
        let size = (WIDTH, if self.along().is_some() { 720 } else { 980 });
        let mut pixels = vec![255; (size.0 * size.1 * 3) as usize];
        self.draw_into(&mut pixels, size).map_err(|e| format!("the plot cannot be drawn: {e}"))?;
        RgbImage::from_raw(size.0, size.1, pixels).ok_or_else(|| "the plot has another size".into())
    }

    fn draw_into(&self, pixels: &mut [u8], size: (u32, u32)) -> Drawn {
        let root = BitMapBackend::with_buffer(pixels, size).into_drawing_area();
        root.fill(&WHITE)?;
        let (left, right) = root.split_horizontally(SPLIT);
        match self.along() {
            Some(what) => self.line(&left, what)?,
            None => self.pictures(&left)?,
        }
        self.errors(&right)?;
        root.present()?;
        Ok(())
    }

    /// What the lags of a curve are in words, where tokens stand on one line: also on a grid of one row or one column, whose pictures
    /// would be strips.
    fn along(&self) -> Option<&'static str> {
        match self.positions.sides() {
            [_] => Some("lag τ = query − key (tokens)"),
            [1, _] => Some("lag τ = query − key (columns, in the only row)"),
            [_, 1] => Some("lag τ = query − key (rows, in the only column)"),
            _ => None,
        }
    }

    /// Which results stand beside the exact template: first, middle and last.
    fn shown(&self) -> Vec<&AtRealizations> {
        let count = self.measured.len();
        let mut picked: Vec<usize> = match count {
            0..=MOST_DRAWN => (0..count).collect(),
            _ => vec![0, count / 2, count - 1],
        };
        picked.dedup();
        picked.into_iter().map(|at| &self.measured[at]).collect()
    }

    /// Colour of the i-th shown result: few realisations are light, many dark.
    fn colour_of(i: usize, count: usize) -> RGBColor {
        let t = if count > 1 { i as f64 / (count - 1) as f64 } else { 0.5 };
        colour(0.72 - 0.62 * t)
    }

    /// The template along a line of tokens, with its estimates and the band that they should keep to.
    fn line(&self, area: &Area<'_>, lags: &str) -> Drawn {
        let n = self.exact.len();
        // τ = query − key; keys run the other way.
        let lag = |key: usize| self.middle as f64 - key as f64;
        let shown = self.shown();
        let deviation =
            |p: f64, r: u32| crate::position::template::entry_variance(self.variances, p, r).sqrt();
        let all = shown.iter().flat_map(|at| at.row.iter().copied()).chain(self.exact.iter().copied());
        let (low, high) = bounds(all);
        // Dots need room at both ends, and a single token an axis at all.
        let few = n <= MOST_DOTS;
        let room = if few { 0.5 } else { 0.0 };
        let (first, last) = (lag(n - 1) - room, lag(0) + room);
        let labels = (f64::from(area.dim_in_pixel().0) / (1.6 * LABEL_DISTANCE)) as usize;
        let mut chart = ChartBuilder::on(area)
            .caption(format!("Template of {} and its estimates", self.channel), text(TITLE))
            .margin(18)
            .x_label_area_size(58)
            .y_label_area_size(92)
            .build_cartesian_2d(Lags::between(first, last, labels), low..high)?;
        chart
            .configure_mesh()
            .light_line_style(TRANSPARENT)
            .bold_line_style(FAINT)
            .axis_style(INK)
            .x_desc(lags)
            .y_desc("covariance P(τ)")
            .label_style(text(TEXT))
            .axis_desc_style(text(TEXT))
            .x_labels(labels)
            .y_labels(8)
            .x_label_formatter(&|x| signed(*x))
            .y_label_formatter(&|y| signed(*y))
            .draw()?;
        // Wide bands first. That of a single token has a width too.
        for (i, at) in shown.iter().enumerate() {
            let colour = Self::colour_of(i, shown.len());
            let wide: &[f64] = if n == 1 { &[0.2, -0.2] } else { &[0.0] };
            let edge = |sign: f64| {
                let points = self.exact.iter().enumerate();
                points.flat_map(move |(key, p)| {
                    wide.iter().map(move |x| (lag(key) + x, p + sign * deviation(*p, at.realizations)))
                })
            };
            let mut outline: Vec<(f64, f64)> = edge(1.0).collect();
            let mut back: Vec<(f64, f64)> = edge(-1.0).collect();
            back.reverse();
            outline.extend(back);
            chart.draw_series(std::iter::once(Polygon::new(outline, colour.mix(0.16))))?;
        }
        for (i, at) in shown.iter().enumerate() {
            let colour = Self::colour_of(i, shown.len());
            let points = || at.row.iter().enumerate().map(|(key, p)| (lag(key), *p));
            let r = counted(at.realizations, "realisation", "realisations");
            chart
                .draw_series(LineSeries::new(points(), colour.stroke_width(2)))?
                .label(format!("{r}; band: predicted deviation"))
                .legend(move |(x, y)| {
                    Rectangle::new([(x, y - 5), (x + 26, y + 5)], colour.mix(0.75).filled())
                });
            if few {
                chart.draw_series(points().map(|at| Circle::new(at, 5, colour.filled())))?;
            }
        }
        let points = || self.exact.iter().enumerate().map(|(key, p)| (lag(key), *p));
        chart
            .draw_series(LineSeries::new(points(), INK.stroke_width(3)))?
            .label("exact")
            .legend(|(x, y)| PathElement::new([(x, y), (x + 26, y)], INK.stroke_width(3)));
        if few {
            chart.draw_series(points().map(|at| Circle::new(at, 4, INK.filled())))?;
        }
        chart
            .configure_series_labels()
            .position(SeriesLabelPosition::UpperRight)
            .background_style(WHITE.mix(0.85))
            .border_style(FAINT)
            .label_font(text(TEXT))
            .legend_area_size(36)
            .margin(12)
            .draw()?;
        Ok(())
    }

    fn pictures(&self, area: &Area<'_>) -> Drawn {
        let shown = self.shown();
        let title = format!("Template of {} around the middle token, and its estimates", self.channel);
        let area = area.margin(18, 8, 24, 0).titled(&title, text(TITLE))?;
        let (panels, bar) = area.split_horizontally(SPLIT - 150);
        let all = shown.iter().flat_map(|at| at.row.iter()).chain(self.exact);
        let most = at_least_visible(all.fold(0.0, |most, x| x.abs().max(most)));
        let [rows, cols] = [0, 1].map(|axis| self.positions.sides()[axis]);
        let cells = panels.split_evenly(arrangement(panels.dim_in_pixel(), 1 + shown.len(), (rows, cols)));
        let estimates = shown
            .iter()
            .map(|at| (counted(at.realizations, "realisation", "realisations"), at.row.as_slice()));
        let all = std::iter::once(("exact".to_owned(), self.exact)).chain(estimates);
        for (cell, (name, row)) in cells.iter().zip(all) {
            self.picture(cell, &name, row, most)?;
        }
        colour_bar(&bar, most)
    }

    fn picture(&self, area: &Area<'_>, name: &str, row: &[f64], most: f64) -> Drawn {
        let [rows, cols] = [0, 1].map(|axis| self.positions.sides()[axis] as usize);
        let (m_row, m_col) = (self.middle / cols, self.middle % cols);
        let lag = |middle: usize, at: usize| middle as f64 - at as f64;
        // Pixels of whole cells, so that no seams show.
        let (width, height) = area.dim_in_pixel();
        let cell = cell((width, height), (rows as u32, cols as u32));
        let drawn = (cell.0 * cols as u32, cell.1 * rows as u32);
        // In the middle of its place: captions and axes of narrow pictures are wider than they are.
        let spare = width.saturating_sub(drawn.0 + AROUND.0);
        let below = height.saturating_sub(drawn.1 + AROUND.1);
        let area = area.margin(4, below, 4 + spare / 2, spare - spare / 2);
        let ends = |middle: usize, count: usize| (lag(middle, count - 1) - 0.5, lag(middle, 0) + 0.5);
        let (across, down) = (ends(m_col, cols), ends(m_row, rows));
        let labels = |pixels: u32| ((f64::from(pixels) / LABEL_DISTANCE) as usize).clamp(1, 5);
        let wide = Lags::between(across.0, across.1, labels(drawn.0));
        let high = Lags::between(down.0, down.1, labels(2 * drawn.1));
        let mut chart = ChartBuilder::on(&area)
            .caption(name, text(TEXT))
            .x_label_area_size(48)
            .y_label_area_size(72)
            .build_cartesian_2d(wide, high)?;
        chart
            .configure_mesh()
            .disable_mesh()
            .axis_style(INK)
            .x_desc("lag in columns")
            .y_desc("lag in rows")
            .label_style(text(TEXT - 3))
            .axis_desc_style(text(TEXT - 2))
            .x_labels(labels(drawn.0))
            .y_labels(labels(2 * drawn.1))
            .x_label_formatter(&|x| signed(*x))
            .y_label_formatter(&|y| signed(*y))
            .draw()?;
        chart.draw_series(row.iter().enumerate().map(|(key, p)| {
            let (x, y) = (lag(m_col, key % cols), lag(m_row, key / cols));
            let [r, g, b] = Palette::Diverging.colour(0.5 + 0.5 * p / most);
            Rectangle::new([(x - 0.5, y - 0.5), (x + 0.5, y + 0.5)], RGBColor(r, g, b).filled())
        }))?;
        Ok(())
    }

    fn errors(&self, area: &Area<'_>) -> Drawn {
        let values = |of: fn(&AtRealizations) -> [f64; 2]| -> Vec<(f64, [f64; 2])> {
            self.measured.iter().map(|at| (f64::from(at.realizations), of(at))).collect()
        };
        let sets = [
            ("covariance", colour(0.12), values(|at| [at.rmse, at.predicted])),
            ("logit", colour(0.62), values(|at| at.logit)),
        ];
        let positive = |x: &f64| *x > 0.0 && x.is_finite();
        let all: Vec<f64> =
            sets.iter().flat_map(|set| set.2.iter().flat_map(|p| p.1)).filter(positive).collect();
        let low = all.iter().copied().fold(f64::INFINITY, f64::min) / 1.6;
        let high = all.iter().copied().fold(0.0, f64::max) * 4.0;
        if all.is_empty() {
            return Ok(());
        }
        let first = f64::from(self.measured.iter().map(|at| at.realizations).min().unwrap_or(1));
        let last = f64::from(self.measured.iter().map(|at| at.realizations).max().unwrap_or(1));
        let mut chart = ChartBuilder::on(area)
            .caption("Error against realisations", text(TITLE))
            .margin(18)
            .x_label_area_size(58)
            .y_label_area_size(92)
            .build_cartesian_2d(
                (first / 1.5..last * 1.5).log_scale().with_key_points(apart(
                    self.measured.iter().map(|at| f64::from(at.realizations)),
                    (last / first * 2.25).ln() * LABEL_DISTANCE / f64::from(WIDTH - SPLIT - 128),
                )),
                (low..high).log_scale().with_key_points(round_numbers(low, high)),
            )?;
        chart
            .configure_mesh()
            .light_line_style(TRANSPARENT)
            .bold_line_style(FAINT)
            .axis_style(INK)
            .x_desc("realisations R")
            .y_desc("root mean square error")
            .label_style(text(TEXT))
            .axis_desc_style(text(TEXT))
            .x_labels(6)
            .y_labels(6)
            .x_label_formatter(&|x| significant(*x, 3))
            .y_label_formatter(&|y| significant(*y, 2))
            .draw()?;
        for (name, colour, points) in &sets {
            // One number of realisations has no line, and a few near ones hardly: a dash stands for it.
            let dash = if last / first < 1.3 { 1.12 } else { 1.0 };
            let end =
                |at: Option<&(f64, [f64; 2])>, by: f64| at.map(|(r, [_, predicted])| (r * by, *predicted));
            let line = end(points.first(), 1.0 / dash)
                .into_iter()
                .chain(points.iter().map(|(r, [_, predicted])| (*r, *predicted)))
                .chain(end(points.last(), dash));
            let (colour, kind) = (*colour, *name);
            chart
                .draw_series(LineSeries::new(line, colour.stroke_width(2)))?
                .label(format!("{kind}, predicted"))
                .legend(move |(x, y)| PathElement::new([(x, y), (x + 26, y)], colour.stroke_width(2)));
            let told = match (kind, slope(self.measured)) {
                ("covariance", Some(slope)) => format!("{kind}, measured (slope {})", signed_to(slope, 3)),
                _ => format!("{kind}, measured"),
            };
            let dots = points.iter().filter(|(_, [measured, _])| positive(measured));
            chart
                .draw_series(dots.map(|(r, [measured, _])| Circle::new((*r, *measured), 6, colour.filled())))?
                .label(told)
                .legend(move |(x, y)| Circle::new((x + 13, y), 6, colour.filled()));
        }
        let bars = self.measured.iter().filter_map(|at| {
            let error = at.ratio_error? * at.predicted;
            let ends = [at.rmse - error, at.rmse + error].map(|y| (f64::from(at.realizations), y.max(low)));
            Some(PathElement::new(ends, sets[0].1.stroke_width(2)))
        });
        chart.draw_series(bars)?;
        chart
            .configure_series_labels()
            .position(SeriesLabelPosition::UpperRight)
            .background_style(WHITE.mix(0.85))
            .border_style(FAINT)
            .label_font(text(TEXT))
            .legend_area_size(36)
            .margin(12)
            .draw()?;
        let seeds = counted(self.seeds, "seed", "seeds");
        let (width, height) = area.dim_in_pixel();
        area.draw_text(&seeds, &text(TEXT - 2), (width as i32 - 92, height as i32 - 30))?;
        Ok(())
    }
}

/// Colours of covariances from −most to most.
fn colour_bar(area: &Area<'_>, most: f64) -> Drawn {
    const STEPS: usize = 240;
    let mut chart = ChartBuilder::on(area)
        .margin_top(60)
        .margin_bottom(90)
        .x_label_area_size(0)
        .y_label_area_size(74)
        .build_cartesian_2d(0.0..1.0, -most..most)?;
    chart
        .configure_mesh()
        .disable_mesh()
        .disable_x_axis()
        .axis_style(INK)
        .label_style(text(TEXT - 2))
        .y_labels(7)
        .y_label_formatter(&|y| signed_to(*y, 2))
        .draw()?;
    chart.draw_series((0..STEPS).map(|i| {
        let [low, high] = [i, i + 1].map(|i| most * (2.0 * i as f64 / STEPS as f64 - 1.0));
        let [r, g, b] = Palette::Diverging.colour((i as f64 + 0.5) / STEPS as f64);
        Rectangle::new([(0.0, low), (1.0, high)], RGBColor(r, g, b).filled())
    }))?;
    Ok(())
}

/// How many pictures stand above and beside each other so that their cells are largest.
fn arrangement(room: (u32, u32), count: usize, sides: (u32, u32)) -> (usize, usize) {
    let square = count.div_ceil(2);
    let size = |(down, across): (usize, usize)| {
        let place = (room.0 / across as u32, room.1 / down as u32);
        let (width, height) = cell(place, sides);
        u64::from(width.min(height)) << 32 | u64::from(width * height)
    };
    let all = [(count, 1), (1, count), (square, count.div_ceil(square))];
    all.into_iter().max_by_key(|shape| size(*shape)).unwrap_or((count, 1))
}

/// Width and height of a cell of a picture of so many rows and columns; square unless the picture would be too thin to be seen.
fn cell(place: (u32, u32), (rows, cols): (u32, u32)) -> (u32, u32) {
    let room = (place.0.saturating_sub(AROUND.0 + 24) / cols, place.1.saturating_sub(AROUND.1 + 12) / rows);
    let square = room.0.min(room.1).max(1);
    let side = |room: u32, count: u32| square.max(room.min(LEAST_SIDE.div_ceil(count))).max(1);
    (side(room.0, cols), side(room.1, rows))
}

/// Those of ascending values that are apart by a step of their logarithm at least.
fn apart(values: impl Iterator<Item = f64>, step: f64) -> Vec<f64> {
    let mut kept: Vec<f64> = Vec::new();
    for value in values {
        if kept.last().is_none_or(|last| (value / last).ln() >= step) {
            kept.push(value);
        }
    }
    kept
}

/// An axis of lags, numbered at whole ones only.
struct Lags {
    low: f64,
    high: f64,
    numbered: Vec<f64>,
}

impl Lags {
    fn between(low: f64, high: f64, most: usize) -> Self {
        Self { low, high, numbered: whole_numbers(low, high, most) }
    }
}

impl Ranged for Lags {
    type FormatOption = DefaultFormatting;
    type ValueType = f64;

    fn map(&self, value: &f64, (from, to): (i32, i32)) -> i32 {
        let share = (value - self.low) / (self.high - self.low);
        from + (share * f64::from(to - from)).round() as i32
    }

    fn key_points<Hint: KeyPointHint>(&self, _: Hint) -> Vec<f64> {
        self.numbered.clone()
    }

    fn range(&self) -> Range<f64> {
        self.low..self.high
    }
}

/// Whole numbers within a range at even steps, about as many as asked for: lags are no fractions.
fn whole_numbers(low: f64, high: f64, most: usize) -> Vec<f64> {
    let least = (high - low) / most.max(1) as f64;
    let powers = (0..).map(|power| 10_f64.powi(power));
    let mut steps = powers.flat_map(|power| [1.0, 2.0, 5.0].map(|step| step * power));
    let step = steps.find(|step| *step >= least).unwrap_or(1.0);
    let (first, last) = ((low / step).ceil() as i64, (high / step).floor() as i64);
    (first..=last).map(|at| at as f64 * step).collect()
}

/// 1, 2 and 5 times powers of ten within a range; the powers alone where those would be many.
fn round_numbers(low: f64, high: f64) -> Vec<f64> {
    let decades = low.log10().floor() as i32..=high.log10().ceil() as i32;
    let steps: &[f64] = if (high / low).log10() < 2.5 { &[1.0, 2.0, 5.0] } else { &[1.0] };
    let all = decades.flat_map(|decade| steps.iter().map(move |step| step * 10_f64.powi(decade)));
    all.filter(|x| (low..=high).contains(x)).collect()
}

/// An axis needs a length, even for a template of zeros.
fn at_least_visible(length: f64) -> f64 {
    if length > 1e-30 { length } else { 1.0 }
}

/// The range of values with some room, more above for the legend.
fn bounds(values: impl Iterator<Item = f64>) -> (f64, f64) {
    let (low, high) = values.fold((0.0_f64, 0.0_f64), |(low, high), x| (low.min(x), high.max(x)));
    let room = at_least_visible(high - low);
    (low - 0.06 * room, high + 0.32 * room)
}

/// A number with a proper minus.
fn signed_to(x: f64, digits: usize) -> String {
    significant(if x.abs() < 1e-12 { 0.0 } else { x }, digits).replacen('-', "−", 1)
}

fn signed(x: f64) -> String {
    signed_to(x, 3)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn measured(realizations: &[u32], tokens: usize) -> Vec<AtRealizations> {
        let one = |(i, r): (usize, &u32)| AtRealizations {
            realizations: *r,
            rmse: 0.4 / f64::from(*r).sqrt(),
            predicted: 0.4 / f64::from(*r).sqrt(),
            ratio_error: Some(0.1),
            logit: [0.2; 2],
            exponential: (1.0, Some(1.0), 1.0),
            within: None,
            row: (0..tokens).map(|n| 0.2 + 0.15 * i as f64 + 0.01 * (n % 7) as f64).collect(),
        };
        realizations.iter().enumerate().map(one).collect()
    }

    fn drawn(sides: &[u32], realizations: &[u32]) -> RgbImage {
        let positions = Positions::grid(sides).expect("a grid");
        let n = positions.tokens();
        let exact = vec![0.5; n];
        let measured = measured(realizations, n);
        let middle = sides.iter().fold(0, |at, side| at * *side as usize + *side as usize / 2);
        let plot = Plot {
            positions: &positions,
            middle,
            channel: "head 0, dimension 0".into(),
            exact: &exact,
            variances: [1.0; 2],
            measured: &measured,
            seeds: 1,
        };
        let picture = plot.draw().expect("a picture");
        if let Some(folder) = std::env::var_os("WGATTN_KEEP_IMAGES") {
            let name = format!("spe-{sides:?}-{realizations:?}.png");
            picture.save(std::path::Path::new(&folder).join(name)).expect("kept to be looked at");
        }
        picture
    }

    fn count(picture: &RgbImage, within: Range<u32>, colour: RGBColor) -> usize {
        let wanted = [colour.0, colour.1, colour.2];
        picture.enumerate_pixels().filter(|(x, y, p)| within.contains(x) && *y > 190 && p.0 == wanted).count()
    }

    #[test]
    fn one_token_and_one_row_show_the_template_and_every_estimate() {
        for sides in [&[1][..], &[2], &[1, 1], &[1, 40], &[40, 1]] {
            let picture = drawn(sides, &[16, 64]);
            for i in 0..2 {
                // The legend is above this part.
                let seen = count(&picture, 120..SPLIT, Plot::colour_of(i, 2));
                assert!(seen > 40, "{sides:?}: {seen} pixels of estimate {i}");
            }
        }
    }

    #[test]
    fn one_number_of_realisations_still_shows_what_is_predicted() {
        let picture = drawn(&[20], &[64]);
        // A dash of three pixels' height beside the dot.
        let seen = count(&picture, SPLIT + 100..WIDTH, colour(0.62));
        assert!(seen > 150, "{seen} pixels of a logit's prediction and measurement");
    }

    #[test]
    fn lags_are_whole_numbers() {
        assert_eq!(whole_numbers(-0.5, 0.5, 6), [0.0]);
        assert_eq!(whole_numbers(-1.5, 0.5, 6), [-1.0, 0.0]);
        assert_eq!(whole_numbers(-9.0, 10.0, 4), [-5.0, 0.0, 5.0, 10.0]);
        assert_eq!(whole_numbers(-511.0, 512.0, 6), [-400.0, -200.0, 0.0, 200.0, 400.0]);
    }

    #[test]
    fn thin_grids_are_stacked_the_way_that_shows_most() {
        let room = (870, 900);
        assert_eq!(arrangement(room, 4, (3, 30)), (4, 1));
        assert_eq!(arrangement(room, 4, (30, 3)), (1, 4));
        assert_eq!(arrangement(room, 4, (20, 20)), (2, 2));
        assert_eq!(arrangement(room, 4, (2, 200)), (4, 1));
        // Two rows of 200 tokens are as high as they can be seen.
        let place = (870, 225);
        assert_eq!(cell(place, (2, 200)), (3, 24));
        for sides in [[2, 200], [200, 2], [3, 30], [2, 2]] {
            drawn(&sides, &[16, 64, 256]);
        }
    }

    #[test]
    fn numbers_on_an_axis_keep_apart() {
        let close = [1000.0, 1001.0, 1002.0, 2000.0];
        assert_eq!(apart(close.into_iter(), 0.2), [1000.0, 2000.0]);
    }
}
