//! The differential equation beside the kernel: errors of Crank–Nicolson and backward Euler by the number of steps through time.

use super::super::plots::{self, Series};
use super::found::Steps;
use crate::explorer::networks::NetworkSettings;
use crate::numbers::significant;
use crate::topology::integrate::Scheme;
use eframe::egui::{self, Ui, Vec2};
use egui_plot::{AxisHints, GridMark, HoverPosition, Line, LineStyle, Plot, PlotPoints, Points};

/// Draws it into all of `ui`.
pub(super) fn show(ui: &mut Ui, settings: &NetworkSettings, steps: &Steps) {
    let visuals = ui.visuals().clone();
    let inks = [Series::Main, Series::Other].map(|series| series.colour(&visuals));
    ui.horizontal_wrapped(|ui| {
        ui.spacing_mut().item_spacing.x = 4.0;
        ui.strong("dx/dt = −L x in time steps:");
        ui.colored_label(inks[0], "Crank–Nicolson");
        ui.label("and");
        ui.colored_label(inks[1], "backward Euler (dashed)");
    });
    ui.add(egui::Label::new(plots::caption(words(settings, steps))).wrap());
    if steps.errors.iter().all(Vec::is_empty) {
        return;
    }
    let size = ui.available_size().max(Vec2::splat(50.0));
    let log = |list: &[(u32, f64)]| -> Vec<[f64; 2]> {
        list.iter().map(|(m, e)| [f64::from(*m).log2(), e.max(1e-16).log10()]).collect()
    };
    let lines = [log(&steps.errors[0]), log(&steps.errors[1])];
    let all = || lines.iter().flatten().map(|p| p[1]);
    let (low, high) = (all().fold(0.0, f64::min).floor(), all().fold(-16.0, f64::max).ceil().max(0.0));
    let right = lines.iter().flatten().map(|p| p[0]).fold(1.0, f64::max);
    let hover = |position: &HoverPosition<'_>| match position {
        HoverPosition::NearDataPoint { plot_name, position, .. } if !plot_name.is_empty() => {
            let (m, e) = (position.x.exp2().round(), 10.0_f64.powf(position.y));
            Some(format!("{plot_name}\n{m} steps\nerror {}", significant(e, 2)))
        }
        _ => None,
    };
    let across = AxisHints::new_x().label("Steps").label_spacing(14.0..=22.0);
    let across = across.formatter(|mark: GridMark, _| {
        if mark.value < -0.1 { String::new() } else { format!("{}", mark.value.exp2().round()) }
    });
    let up = AxisHints::new_y().label("Error").min_thickness(46.0).label_spacing(12.0..=18.0);
    let up = up.formatter(|mark: GridMark, _| significant(10.0_f64.powf(mark.value), 1));
    let decades = ((high - low) / f64::from(size.y / 34.0)).ceil().max(1.0);
    Plot::new("errors by steps through time")
        .width(size.x)
        .height(size.y)
        .allow_zoom(false)
        .allow_drag(false)
        .allow_scroll(false)
        .allow_boxed_zoom(false)
        .show_crosshair(false)
        .set_margin_fraction(Vec2::ZERO)
        .custom_x_axes(vec![across])
        .custom_y_axes(vec![up])
        .x_grid_spacer(egui_plot::uniform_grid_spacer(|_| [1.0; 3]))
        .y_grid_spacer(egui_plot::uniform_grid_spacer(move |_| [decades; 3]))
        .grid_fade(0.6)
        .label_formatter(hover)
        .show(ui, |plot| {
            plot.set_plot_bounds_x(-0.3..=right + 0.3);
            plot.set_plot_bounds_y(low - 0.2..=high + 0.2);
            for (at, points) in lines.into_iter().enumerate() {
                let name = Scheme::ALL[at].0;
                let dots = Points::new(name, PlotPoints::from(points.clone())).color(inks[at]).radius(2.5);
                let line = Line::new(name, PlotPoints::from(points)).color(inks[at]).width(2.0);
                let dashed = LineStyle::Dashed { length: 6.0 };
                plot.line(if at == 1 { line.style(dashed) } else { line });
                plot.points(dots);
                if let Some((error, _)) = steps.chosen[at] {
                    let place = [f64::from(settings.steps).log2(), error.max(1e-16).log10()];
                    let ring = Points::new("", PlotPoints::from(vec![place])).color(inks[at]);
                    plot.points(ring.radius(5.0).filled(false));
                }
            }
        });
}

/// What there is to tell in a line.
fn words(settings: &NetworkSettings, steps: &Steps) -> String {
    if let Some(why) = &steps.problem {
        return format!("Not stepped through: {why}");
    }
    let chosen = steps.chosen.map(|chosen| chosen.map(|(error, _)| significant(error, 2)));
    let [Some(second), Some(first)] = chosen else { return String::new() };
    let rounds: u64 = steps.chosen.iter().flatten().map(|chosen| chosen.1).sum();
    format!(
        "Time steps, not the production path. With {}: error {second} and {first} of the greatest weight, {rounds} rounds of conjugate \
         gradients.",
        crate::words::counted(settings.steps, "step", "steps")
    )
}
