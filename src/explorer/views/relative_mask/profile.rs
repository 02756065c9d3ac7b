//! Weights along the query's row and column, as curves.

use super::super::plots::{self, Series};
use crate::mask::MaskSpec;
use crate::numbers::significant;
use eframe::egui::{Ui, Vec2};
use egui_plot::{AxisHints, GridMark, HoverPosition, Line, LineStyle, Plot, PlotPoints};

/// Offsets to each side of the query that are shown, at most.
const MOST: i64 = 48;

/// Weight of the keys `offset` tokens to the right of the query, or below it.
fn weight(mask: &MaskSpec, sides: [usize; 2], offset: i64, down: bool) -> f64 {
    let n = [1, sides[0] as u32, sides[1] as u32];
    // Masks count query − key.
    let offset = if down { [0, -offset, 0] } else { [0, 0, -offset] };
    f64::from(mask.at(n, offset))
}

/// Offsets along an axis of `side` tokens: on a torus those that are not another one's again.
fn far(mask: &MaskSpec, side: usize) -> i64 {
    let torus = match mask {
        MaskSpec::Toeplitz(spec) => spec.torus,
        MaskSpec::Stencil(spec) => spec.torus,
        _ => false,
    };
    let side = side as i64;
    if torus { side / 2 } else { side - 1 }
}

/// Offsets that are shown: as far as the mask reaches, and no farther than the grid.
fn half_width(mask: &MaskSpec, sides: [usize; 2]) -> i64 {
    let most = far(mask, sides[0]).max(far(mask, sides[1])).clamp(1, MOST);
    let seen = |offset: &i64| {
        let end = |offset| weight(mask, sides, offset, true).max(weight(mask, sides, offset, false));
        end(*offset).max(end(-offset)) >= 0.004
    };
    (1..=most).rev().find(seen).map_or(most, |last| (last + 1).clamp(4.min(most), most))
}

/// Draws the curves into all of `ui`.
pub(super) fn show(ui: &mut Ui, mask: &MaskSpec, sides: [usize; 2]) {
    let visuals = ui.visuals().clone();
    let [across_ink, down_ink] = [Series::Main, Series::Other].map(|series| series.colour(&visuals));
    ui.horizontal(|ui| {
        ui.spacing_mut().item_spacing.x = 4.0;
        ui.label("Weights along");
        ui.colored_label(across_ink, "the row");
        ui.label("and");
        ui.colored_label(down_ink, "the column (dashed)");
    });
    let size = ui.available_size().max(Vec2::splat(60.0));
    let half = half_width(mask, sides);
    let line = |down: bool| -> Vec<[f64; 2]> {
        let shown = half.min(far(mask, sides[usize::from(!down)]));
        (-shown..=shown).map(|offset| [offset as f64, weight(mask, sides, offset, down)]).collect()
    };
    let lines = [line(false), line(true)];
    let top = lines.iter().flatten().map(|p| p[1]).fold(0.0, f64::max).max(1e-9);
    let hover = |position: &HoverPosition<'_>| match position {
        HoverPosition::NearDataPoint { plot_name, position, .. } if !plot_name.is_empty() => {
            Some(format!("{plot_name}\noffset {:+.0}\nweight {}", position.x, significant(position.y, 3)))
        }
        _ => None,
    };
    let step = plots::even_step(2.0 * half as f64, f64::from(size.x / 40.0)).max(1.0);
    let offset = move |mark: GridMark, _: &_| match mark.value {
        // Marks at the border would be cut.
        value if value.abs() > half as f64 + 0.5 => String::new(),
        0.0 => "0".into(),
        value => format!("{value:+.0}"),
    };
    let tokens = AxisHints::new_x().label("Offset of the key, tokens").label_spacing(14.0..=22.0);
    let tokens = tokens.formatter(offset);
    let weights = AxisHints::new_y()
        .label("Weight")
        .min_thickness(40.0)
        .label_spacing(14.0..=20.0)
        .formatter(|mark: GridMark, _| significant(mark.value, 3));
    let ends = (1.08 * half as f64 + 0.5, 1.06 * top);
    let marks = plots::even_step(top, f64::from(size.y / 45.0));
    Plot::new("weights along the axes")
        .width(size.x)
        .height(size.y)
        .allow_zoom(false)
        .allow_drag(false)
        .allow_scroll(false)
        .allow_boxed_zoom(false)
        .show_crosshair(false)
        .set_margin_fraction(Vec2::ZERO)
        .custom_x_axes(vec![tokens])
        .custom_y_axes(vec![weights])
        .x_grid_spacer(egui_plot::uniform_grid_spacer(move |_| [step; 3]))
        .y_grid_spacer(egui_plot::uniform_grid_spacer(move |_| [marks; 3]))
        .grid_fade(0.6)
        .label_formatter(hover)
        .show(ui, |plot| {
            plot.set_plot_bounds_x(-ends.0..=ends.0);
            plot.set_plot_bounds_y(-0.03 * ends.1..=ends.1);
            let [across, down] = lines.map(PlotPoints::from);
            plot.line(Line::new("Along the row", across).color(across_ink).width(2.5));
            let dashed = LineStyle::Dashed { length: 6.0 };
            plot.line(Line::new("Along the column", down).color(down_ink).style(dashed).width(2.0));
        });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn curves_are_seen_from_the_query() {
        let right: MaskSpec = "stencil:1x3,0/1/2".parse().expect("a mask");
        assert_eq!([-1, 0, 1].map(|x| weight(&right, [4, 4], x, false)), [0.0, 1.0, 2.0]);
        assert_eq!([-1, 0, 1].map(|y| weight(&right, [4, 4], y, true)), [0.0, 1.0, 0.0]);
        assert_eq!([-1, 1].map(|x| weight(&MaskSpec::Causal, [4, 4], x, false)), [1.0, 0.0]);
    }

    #[test]
    fn as_much_is_shown_as_the_mask_reaches() {
        let small: MaskSpec = "toeplitz:window,size=3".parse().expect("a mask");
        assert_eq!(half_width(&small, [40, 40]), 4);
        let torus: MaskSpec = "toeplitz:gauss,size=30,torus".parse().expect("a mask");
        assert_eq!(half_width(&torus, [20, 30]), 15);
        assert_eq!(half_width(&MaskSpec::Causal, [40, 40]), 39);
        assert_eq!(half_width(&small, [2, 2]), 1);
        assert_eq!(half_width(&small, [1, 1]), 1);
    }
}
