//! Curves: the template over the lag with the band that its draws should keep to, and errors by the number of realisations.

use super::super::plots::{self, Series};
use super::found::{Error, Found};
use super::map::Maps;
use crate::explorer::position::Axes;
use crate::numbers::significant;
use eframe::egui::{self, Ui, Vec2};
use egui_plot::{
    AxisHints, FilledArea, GridMark, HoverPosition, Line, LineStyle, Plot, PlotPoints, Points, VLine,
};

/// A plot that stays as it is.
fn still(name: &str, size: Vec2) -> Plot<'_> {
    Plot::new(name)
        .width(size.x)
        .height(size.y)
        .allow_zoom(false)
        .allow_drag(false)
        .allow_scroll(false)
        .allow_boxed_zoom(false)
        .show_crosshair(false)
        .set_margin_fraction(Vec2::ZERO)
        .grid_fade(0.6)
}

/// The template over the lag, drawn into all of `ui`.
pub(super) fn template(ui: &mut Ui, found: &Found) {
    let visuals = ui.visuals().clone();
    let [exact_ink, drawn_ink] = [Series::Main, Series::Other].map(|series| series.colour(&visuals));
    ui.horizontal_wrapped(|ui| {
        ui.spacing_mut().item_spacing.x = 4.0;
        ui.strong("Template P(τ):");
        ui.colored_label(exact_ink, "exact");
        ui.label("and");
        ui.colored_label(drawn_ink, format!("drawn with R = {}", found.settings.realizations));
    });
    let words = match found.settings.axes {
        Axes::Picture => {
            "Along a line of the picture. The band: one standard deviation of a draw, by the formula."
        }
        Axes::Line => "In reading order. The band: one standard deviation of a draw, by the formula.",
    };
    ui.add(egui::Label::new(plots::caption(words)).wrap());
    let size = ui.available_size().max(Vec2::splat(60.0));
    let half = f64::from(found.half);
    let part = found.profile();
    let lags: Vec<f64> = (0..part.len()).map(|i| i as f64 - half).collect();
    let points = |values: &[f64]| -> Vec<[f64; 2]> {
        lags.iter().zip(&values[part.clone()]).map(|(lag, p)| [*lag, *p]).collect()
    };
    let (exact, drawn) = (points(&found.exact), points(&found.drawn));
    let edge = |sign: f64| -> Vec<f64> {
        exact.iter().zip(&found.deviations[part.clone()]).map(|(p, s)| p[1] + sign * s).collect()
    };
    let (low, high) = (edge(-1.0), edge(1.0));
    let all = || low.iter().chain(&high).copied().chain(drawn.iter().map(|p| p[1]));
    let (least, most) = (all().fold(0.0, f64::min), all().fold(0.0, f64::max));
    // A code without a gain has no template: any height will do.
    let height = if most > least { most - least } else { 1.0 };
    let room = 0.06 * height;
    let hover = |position: &HoverPosition<'_>| match position {
        HoverPosition::NearDataPoint { plot_name, position, .. } if !plot_name.is_empty() => {
            Some(format!("{plot_name}\nlag {:+.0}\nP {}", position.x, significant(position.y, 3)))
        }
        _ => None,
    };
    let step = plots::even_step(2.0 * half, f64::from(size.x / 44.0)).max(1.0);
    let across = AxisHints::new_x().label("Lag τ: query − key, tokens").label_spacing(14.0..=22.0);
    let across = across.formatter(move |mark: GridMark, _| match mark.value {
        value if value.abs() > half + 0.5 => String::new(),
        0.0 => "0".into(),
        value => format!("{value:+.0}"),
    });
    let up = AxisHints::new_y().label("Likeness of the codes").min_thickness(46.0).label_spacing(14.0..=20.0);
    let up = up.formatter(|mark: GridMark, _| significant(mark.value, 2));
    let marks = plots::even_step(height, f64::from(size.y / 40.0));
    still("template over the lag", size)
        .custom_x_axes(vec![across])
        .custom_y_axes(vec![up])
        .x_grid_spacer(egui_plot::uniform_grid_spacer(move |_| [step; 3]))
        .y_grid_spacer(egui_plot::uniform_grid_spacer(move |_| [marks; 3]))
        .label_formatter(hover)
        .show(ui, |plot| {
            plot.set_plot_bounds_x(-1.04 * half..=1.04 * half);
            plot.set_plot_bounds_y(least - room..=most + room);
            let band = FilledArea::new("", &lags, &low, &high).fill_color(exact_ink.gamma_multiply(0.22));
            plot.add(band.allow_hover(false));
            plot.vline(VLine::new("", 0.0).color(visuals.weak_text_color().gamma_multiply(0.5)).width(1.0));
            plot.line(Line::new("Drawn", PlotPoints::from(drawn.clone())).color(drawn_ink).width(1.2));
            if lags.len() < 40 {
                plot.points(Points::new("Drawn", PlotPoints::from(drawn)).color(drawn_ink).radius(2.0));
            }
            plot.line(Line::new("Exact", PlotPoints::from(exact)).color(exact_ink).width(2.5));
        });
}

/// Errors by the number of realisations, both axes by the logarithm, drawn into all of `ui`.
pub(super) fn errors(ui: &mut Ui, found: &Found, maps: Option<&Maps>) {
    let visuals = ui.visuals().clone();
    let inks = [Series::Main, Series::Other].map(|series| series.colour(&visuals));
    ui.horizontal_wrapped(|ui| {
        ui.spacing_mut().item_spacing.x = 4.0;
        ui.strong("Noise by R:");
        ui.colored_label(inks[0], "template");
        if maps.is_some() {
            ui.label("and");
            ui.colored_label(inks[1], "logits (dashed)");
        }
    });
    let words = "Lines: by the formula. Points: measured, with standard errors. Four times R halves it.";
    ui.add(egui::Label::new(plots::caption(words)).wrap());
    let none = Vec::new();
    let series = [("Template", &found.errors), ("Logits", maps.map_or(&none, |maps| &maps.errors))];
    let size = ui.available_size().max(Vec2::splat(60.0));
    let values = || {
        let ends = |e: &Error| {
            let s = e.standard_error.unwrap_or(0.0);
            [e.predicted, e.measured - s, e.measured + s]
        };
        series
            .iter()
            .flat_map(|(_, errors)| errors.iter())
            .flat_map(ends)
            .filter(|x| *x > 0.0)
            .map(f64::log10)
    };
    let (low, high) = (values().fold(f64::INFINITY, f64::min), values().fold(f64::NEG_INFINITY, f64::max));
    if !(low.is_finite() && high.is_finite()) {
        ui.label("There is no noise: a gain of 0 leaves no code.");
        return;
    }
    let ends = |errors: &[Error]| errors.iter().map(|e| f64::from(e.realizations).log2()).fold(0.0, f64::max);
    let (first, last) = (f64::from(super::found::FEWEST).log2(), ends(series[0].1).max(ends(series[1].1)));
    let hover = |position: &HoverPosition<'_>| match position {
        HoverPosition::NearDataPoint { plot_name, position, .. } if !plot_name.is_empty() => {
            let (r, e) = (position.x.exp2().round(), 10.0_f64.powf(position.y));
            Some(format!("{plot_name}\nR = {r}\n{}", significant(e, 3)))
        }
        _ => None,
    };
    let across = AxisHints::new_x().label("Realisations R").label_spacing(14.0..=26.0);
    let across = across.formatter(|mark: GridMark, _| format!("{}", mark.value.exp2().round()));
    let up = AxisHints::new_y().label("Standard deviation").min_thickness(46.0).label_spacing(12.0..=18.0);
    let up = up.formatter(|mark: GridMark, _| significant(10.0_f64.powf(mark.value), 2));
    // 0.3 of a decade is a factor of two.
    let two = 2.0_f64.log10();
    let spacing = two * ((high - low) / two / f64::from(size.y / 26.0)).ceil().max(1.0);
    still("errors by realisations", size)
        .custom_x_axes(vec![across])
        .custom_y_axes(vec![up])
        .x_grid_spacer(egui_plot::uniform_grid_spacer(|_| [2.0; 3]))
        .y_grid_spacer(egui_plot::uniform_grid_spacer(move |_| [spacing; 3]))
        .label_formatter(hover)
        .show(ui, |plot| {
            // Room for the number under the last mark.
            plot.set_plot_bounds_x(first - 0.5..=last + 0.8);
            plot.set_plot_bounds_y(low - 0.12..=high + 0.12);
            let here = f64::from(found.settings.realizations).log2();
            plot.vline(VLine::new("", here).color(visuals.weak_text_color().gamma_multiply(0.6)).width(1.0));
            for (at, (name, errors)) in series.iter().enumerate() {
                let place = |e: &Error, y: f64| [f64::from(e.realizations).log2(), y.log10()];
                let predicted: Vec<[f64; 2]> =
                    errors.iter().filter(|e| e.predicted > 0.0).map(|e| place(e, e.predicted)).collect();
                let measured: Vec<[f64; 2]> =
                    errors.iter().filter(|e| e.measured > 0.0).map(|e| place(e, e.measured)).collect();
                let line = Line::new(format!("{name}, by the formula"), PlotPoints::from(predicted));
                let line = line.color(inks[at]).width(1.6);
                plot.line(if at == 1 { line.style(LineStyle::Dashed { length: 6.0 }) } else { line });
                let dots = Points::new(format!("{name}, measured"), PlotPoints::from(measured));
                plot.points(dots.color(inks[at]).radius(3.0));
                for e in errors.iter().filter(|e| e.measured > 0.0) {
                    let Some(s) = e.standard_error.filter(|s| *s < e.measured) else { continue };
                    let bar = vec![place(e, e.measured - s), place(e, e.measured + s)];
                    plot.line(
                        Line::new("", PlotPoints::from(bar)).color(inks[at]).width(1.2).allow_hover(false),
                    );
                }
            }
        });
}
