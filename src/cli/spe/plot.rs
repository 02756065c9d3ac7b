//! The picture of `wgattn spe`: a template with what drawn codes make of it, beside the error against the number of realisations.

use super::measure::{AtRealizations, slope};
use crate::numbers::significant;
use crate::position::Positions;
use crate::vision::palette::Palette;
use crate::words::counted;
use image::RgbImage;
use plotters::coord::Shift;
use plotters::prelude::*;
use plotters::style::{FontStyle, register_font};
use std::sync::OnceLock;

const WIDTH: u32 = 1680;
/// Where the template ends and the errors begin.
const SPLIT: u32 = 1020;
const FONT: &str = "sans-serif";
const TITLE: u32 = 26;
const TEXT: u32 = 21;
/// Most numbers of realisations that are drawn beside the exact template.
const MOST_DRAWN: usize = 3;
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
        let size = (WIDTH, if self.positions.axes() == 1 { 720 } else { 980 });
        let mut pixels = vec![255; (size.0 * size.1 * 3) as usize];
        self.draw_into(&mut pixels, size).map_err(|e| format!("the plot cannot be drawn: {e}"))?;
        RgbImage::from_raw(size.0, size.1, pixels).ok_or_else(|| "the plot has another size".into())
    }

    fn draw_into(&self, pixels: &mut [u8], size: (u32, u32)) -> Drawn {
        let root = BitMapBackend::with_buffer(pixels, size).into_drawing_area();
        root.fill(&WHITE)?;
        let (left, right) = root.split_horizontally(SPLIT);
        match self.positions.axes() {
            1 => self.line(&left)?,
            _ => self.pictures(&left)?,
        }
        self.errors(&right)?;
        root.present()?;
        Ok(())
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

    fn line(&self, area: &Area<'_>) -> Drawn {
        let n = self.exact.len();
        // τ = query − key; keys run the other way.
        let lag = |key: usize| self.middle as f64 - key as f64;
        let shown = self.shown();
        let deviation =
            |p: f64, r: u32| crate::position::template::entry_variance(self.variances, p, r).sqrt();
        let all = shown.iter().flat_map(|at| at.row.iter().copied()).chain(self.exact.iter().copied());
        let (low, high) = bounds(all);
        let mut chart = ChartBuilder::on(area)
            .caption(format!("Template of {} and its estimates", self.channel), text(TITLE))
            .margin(18)
            .x_label_area_size(58)
            .y_label_area_size(92)
            .build_cartesian_2d(lag(n - 1)..lag(0).max(lag(n - 1) + 1.0), low..high)?;
        chart
            .configure_mesh()
            .light_line_style(TRANSPARENT)
            .bold_line_style(FAINT)
            .axis_style(INK)
            .x_desc("lag τ = query − key (tokens)")
            .y_desc("covariance P(τ)")
            .label_style(text(TEXT))
            .axis_desc_style(text(TEXT))
            .x_labels(9)
            .y_labels(8)
            .x_label_formatter(&|x| signed(*x))
            .y_label_formatter(&|y| signed(*y))
            .draw()?;
        // Wide bands first.
        for (i, at) in shown.iter().enumerate() {
            let colour = Self::colour_of(i, shown.len());
            let edge = |sign: f64| {
                let point =
                    move |(key, p): (usize, &f64)| (lag(key), p + sign * deviation(*p, at.realizations));
                self.exact.iter().enumerate().map(point)
            };
            let mut outline: Vec<(f64, f64)> = edge(1.0).collect();
            outline.extend(edge(-1.0).rev());
            chart.draw_series(std::iter::once(Polygon::new(outline, colour.mix(0.16))))?;
        }
        for (i, at) in shown.iter().enumerate() {
            let colour = Self::colour_of(i, shown.len());
            let points = at.row.iter().enumerate().map(|(key, p)| (lag(key), *p));
            let r = counted(at.realizations, "realisation", "realisations");
            chart
                .draw_series(LineSeries::new(points, colour.stroke_width(2)))?
                .label(format!("{r}; band: predicted deviation"))
                .legend(move |(x, y)| {
                    Rectangle::new([(x, y - 5), (x + 26, y + 5)], colour.mix(0.75).filled())
                });
        }
        let points = self.exact.iter().enumerate().map(|(key, p)| (lag(key), *p));
        chart
            .draw_series(LineSeries::new(points, INK.stroke_width(3)))?
            .label("exact")
            .legend(|(x, y)| PathElement::new([(x, y), (x + 26, y)], INK.stroke_width(3)));
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
        let cells = panels.split_evenly((2, 2));
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
        let room = (width.saturating_sub(110), height.saturating_sub(110));
        let cell = (room.0 / cols as u32).min(room.1 / rows as u32).max(1);
        let drawn = (cell * cols as u32, cell * rows as u32);
        let area = area.margin(4, height.saturating_sub(drawn.1 + 98), 4, width.saturating_sub(drawn.0 + 86));
        let mut chart = ChartBuilder::on(&area)
            .caption(name, text(TEXT))
            .x_label_area_size(48)
            .y_label_area_size(72)
            .build_cartesian_2d(
                lag(m_col, cols - 1) - 0.5..lag(m_col, 0) + 0.5,
                lag(m_row, rows - 1) - 0.5..lag(m_row, 0) + 0.5,
            )?;
        chart
            .configure_mesh()
            .disable_mesh()
            .axis_style(INK)
            .x_desc("lag in columns")
            .y_desc("lag in rows")
            .label_style(text(TEXT - 3))
            .axis_desc_style(text(TEXT - 2))
            .x_labels(5)
            .y_labels(5)
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
                (first / 1.5..last * 1.5).log_scale().with_key_points(every_other(
                    self.measured.iter().map(|at| f64::from(at.realizations)).collect(),
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
            let line = points.iter().map(|(r, [_, predicted])| (*r, *predicted));
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

/// At most six of the values, at equal steps.
fn every_other(values: Vec<f64>) -> Vec<f64> {
    let step = values.len().div_ceil(6).max(1);
    values.into_iter().step_by(step).collect()
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
