//! How far apart tokens are, and what the two kernels make of it: histograms with the kernels laid over them, and in
//! numbers why the tail of the Laplacian matters.

use super::plots::{self, Series};
use super::{TourPage, View, ViewContext};
use crate::explorer::settings::{Road, RowForm, Settings, Similarity};
use crate::explorer::snapshot::{Distances, Needs, Snapshot};
use crate::numbers::{grouped, number, percent, percent_decimals, percent_to, significant};
use eframe::egui::{self, RichText};
use egui_plot::{
    AxisHints, Bar, BarChart, Corner, GridMark, HPlacement, HoverPosition, Legend, Line, LineStyle, Plot,
    PlotPoints, VLine,
};

/// Kernel value under which a pair no longer counts: a thousandth of what a token is to itself.
const TAIL: f64 = 1e-3;

/// Narrowest view that has room for both histograms side by side.
const WIDE: f32 = 720.0;

/// The view.
#[derive(Debug, Default)]
pub(super) struct DistancesView {
    head: usize,
}

impl View for DistancesView {
    fn id(&self) -> &'static str {
        "distances"
    }

    fn title(&self) -> &'static str {
        "Distances"
    }

    fn about(&self) -> &'static str {
        "How far apart tokens are, with the Laplacian and the Gaussian kernel laid over it."
    }

    fn needs(&self) -> Needs {
        Needs { distances: true, ..Needs::default() }
    }

    fn ui(&mut self, ui: &mut egui::Ui, context: &mut ViewContext<'_>) {
        plots::page(ui, |ui| {
            let Some(snapshot) = context.snapshot else { return plots::nothing_yet(ui) };
            if snapshot.sees_nothing() {
                return plots::nothing_seen(ui);
            }
            match snapshot.distances.as_deref().map(Vec::as_slice) {
                Some(heads) if heads.iter().any(|h| h.pairs > 0) => self.show(ui, snapshot, heads),
                Some(_) => plots::empty(
                    ui,
                    "No pairs of tokens",
                    "A distance needs two tokens. Choose a larger picture or a smaller stride.",
                ),
                None => plots::empty(
                    ui,
                    "No distances yet",
                    "The engine samples pairs of tokens. The histograms appear with its next answer.",
                ),
            }
        });
    }

    fn tour(&self) -> Vec<TourPage> {
        vec![TourPage {
            title: "Laplacian and Gaussian",
            formula: "exp(−‖q − k‖₁/λ)  and  exp(−‖q − k‖²/λ)",
            text: "Both kernels turn a distance into a similarity between 0 and 1. The bars count pairs of tokens by \
                   their distance, the curves are the kernels, with bandwidths that give the same mean. The \
                   Laplacian falls steeply at first and slowly later, the Gaussian the other way round: pairs in the \
                   tail still count a little under the Laplacian, and not at all under the Gaussian. Switch the \
                   kernel and compare the maps; then drag λ and watch how many pairs remain above a thousandth.",
            prepare: |settings: &mut Settings| {
                let compute = &mut settings.compute;
                compute.similarity = Similarity::Laplacian;
                compute.road = Road::Nystrom;
                compute.form = RowForm::None;
                compute.lambda = None;
            },
        }]
    }
}

/// One kernel over its own distance.
struct Side<'a> {
    name: &'static str,
    axis: &'static str,
    counts: &'a [u32],
    end: f64,
    lambda: f64,
    series: Series,
}

impl Side<'_> {
    fn kernel(&self, distance: f64) -> f64 {
        (-distance / self.lambda).exp()
    }

    fn bin(&self) -> f64 {
        self.end / self.counts.len().max(1) as f64
    }

    fn pairs(&self) -> f64 {
        self.counts.iter().map(|c| f64::from(*c)).sum::<f64>().max(1.0)
    }

    /// Share of pairs at most this far apart, as if they lay evenly within a bin.
    fn share_within(&self, distance: f64) -> f64 {
        let at = (distance / self.bin()).clamp(0.0, self.counts.len() as f64);
        let whole = at as usize;
        let below: f64 = self.counts[..whole].iter().map(|c| f64::from(*c)).sum();
        let part = self.counts.get(whole).map_or(0.0, |c| f64::from(*c) * at.fract());
        (below + part) / self.pairs()
    }

    /// Distance within which this share of pairs lies.
    fn distance_at(&self, share: f64) -> f64 {
        let wanted = share.clamp(0.0, 1.0) * self.pairs();
        let mut below = 0.0;
        for (index, count) in self.counts.iter().map(|c| f64::from(*c)).enumerate() {
            if count > 0.0 && below + count >= wanted {
                return (index as f64 + (wanted - below) / count) * self.bin();
            }
            below += count;
        }
        self.end
    }

    /// Share of pairs whose kernel value exceeds [`TAIL`].
    fn share_above_tail(&self) -> f64 {
        self.share_within(self.tail())
    }

    /// Distance at which the kernel value is [`TAIL`].
    fn tail(&self) -> f64 {
        -TAIL.ln() * self.lambda
    }

    /// Where the axis ends: the few farthest pairs would press all others against the left edge.
    fn axis_end(&self) -> f64 {
        let most = self.distance_at(0.995);
        if most > 0.0 { (1.04 * most).min(self.end) } else { self.end }
    }

    /// Mean kernel value, as if pairs lay evenly within a bin.
    fn mean(&self) -> f64 {
        let (bin, scale) = (self.bin(), self.lambda / self.bin());
        let over_bin = |index: usize| {
            let from = index as f64 * bin;
            scale * (self.kernel(from) - self.kernel(from + bin))
        };
        let sum: f64 = self.counts.iter().enumerate().map(|(i, c)| f64::from(*c) * over_bin(i)).sum();
        sum / self.pairs()
    }
}

fn sides(found: &Distances) -> [Side<'_>; 2] {
    [
        Side {
            name: "Laplacian",
            axis: "Distance ‖q − k‖₁",
            counts: &found.l1,
            end: found.l1_end,
            lambda: found.lambda_laplacian,
            series: Series::Main,
        },
        Side {
            name: "Gaussian",
            axis: "Squared distance ‖q − k‖²",
            counts: &found.l2,
            end: found.l2_end,
            lambda: found.lambda_gaussian,
            series: Series::Other,
        },
    ]
}

impl DistancesView {
    fn show(&mut self, ui: &mut egui::Ui, snapshot: &Snapshot, heads: &[Distances]) {
        self.head = self.head.min(heads.len() - 1);
        if heads.len() > 1 {
            ui.horizontal_wrapped(|ui| {
                ui.label("Head");
                for head in 0..heads.len() {
                    ui.selectable_value(&mut self.head, head, (head + 1).to_string());
                }
            });
        }
        let found = &heads[self.head];
        let [laplacian, gaussian] = sides(found);
        ui.label(sentence(&laplacian, &gaussian, snapshot.compute.similarity));
        ui.add_space(6.0);
        // The table and the small print below take more lines where the tile is narrow.
        let below = if ui.available_width() >= WIDE { 96.0 } else { 156.0 };
        let space = egui::vec2(ui.available_width(), (ui.available_height() - below).max(170.0));
        if space.x >= WIDE {
            ui.horizontal_top(|ui| {
                let size = egui::vec2(0.5 * (space.x - ui.spacing().item_spacing.x), space.y);
                plot(ui, &laplacian, &gaussian, size);
                plot(ui, &gaussian, &laplacian, size);
            });
        } else {
            let size = egui::vec2(space.x, (0.5 * (space.y - ui.spacing().item_spacing.y)).max(120.0));
            plot(ui, &laplacian, &gaussian, size);
            plot(ui, &gaussian, &laplacian, size);
        }
        ui.add_space(4.0);
        ui.scope(|ui| {
            ui.spacing_mut().scroll = egui::style::ScrollStyle::thin();
            egui::ScrollArea::horizontal().id_salt("table").show(ui, |ui| {
                table(ui, [&laplacian, &gaussian], snapshot.compute.similarity);
            });
        });
        ui.add_space(2.0);
        let similarity = snapshot.compute.similarity;
        let unused = match similarity.has_bandwidth() {
            true => String::new(),
            false => format!(" {} itself knows no distance.", similarity.name()),
        };
        let note = format!(
            "{} pairs of different tokens; the axes end where all but 0.5 % of them lie. A dashed curve is the other \
             kernel at pairs of the same rank.{unused}",
            grouped(found.pairs as f64)
        );
        ui.label(plots::caption(note));
    }
}

/// Why the tails matter, from the numbers.
fn sentence(laplacian: &Side<'_>, gaussian: &Side<'_>, in_use: Similarity) -> String {
    let (l, g) = (laplacian.share_above_tail(), gaussian.share_above_tail());
    let own = if in_use == Similarity::Gaussian { gaussian } else { laplacian };
    let mean = significant(own.mean(), 2);
    let ending = if l - g > 0.005 {
        "Far tokens still count a little under the Laplacian where the Gaussian has cut them off."
    } else if g - l > 0.005 {
        "Here it is the Gaussian that keeps more."
    } else if l > 0.99 {
        "At this bandwidth neither kernel cuts anything off."
    } else {
        "At this bandwidth the tails make no difference."
    };
    format!(
        "At the same mean value of {mean}, {} of the pairs keep a kernel value above {TAIL} under the Laplacian and {} \
         under the Gaussian. {ending}",
        percent(l),
        percent(g)
    )
}

/// Captions of the table and what they mean.
const COLUMNS: &[(&str, &str)] = &[
    ("Kernel", "The kernel in use, and the other with the same mean value"),
    ("λ", "Bandwidth, in the units of the kernel's own distance"),
    ("Nearest tenth", "Kernel value that the nearest tenth of the pairs exceeds"),
    ("Median pair", "Kernel value that half of the pairs exceed"),
    ("Farthest tenth", "Kernel value that the farthest tenth of the pairs stays below"),
    ("Above 0.001", "Share of pairs whose kernel value is more than a thousandth"),
];

fn table(ui: &mut egui::Ui, sides: [&Side<'_>; 2], in_use: Similarity) {
    let decimals = percent_decimals(sides.map(Side::share_above_tail));
    egui::Grid::new("kernels").striped(true).spacing([18.0, 4.0]).show(ui, |ui| {
        for (caption, about) in COLUMNS {
            ui.label(plots::caption(*caption)).on_hover_text(*about);
        }
        ui.end_row();
        for side in sides {
            let used = match in_use {
                Similarity::Laplacian => side.series == Series::Main,
                Similarity::Gaussian => side.series == Series::Other,
                _ => false,
            };
            let name = RichText::new(side.name).color(side.series.colour(ui.visuals())).strong();
            ui.horizontal(|ui| {
                ui.label(name);
                if used {
                    ui.label(plots::caption("in use"));
                }
            });
            ui.label(number(side.lambda));
            for share in [0.1, 0.5, 0.9] {
                ui.label(number(side.kernel(side.distance_at(share))));
            }
            ui.label(percent_to(side.share_above_tail(), decimals));
            ui.end_row();
        }
    });
}

fn plot(ui: &mut egui::Ui, own: &Side<'_>, other: &Side<'_>, size: egui::Vec2) {
    let visuals = ui.visuals().clone();
    let most = own.counts.iter().copied().max().unwrap_or(0).max(1);
    let peak = f64::from(most) / own.pairs();
    let bin = own.bin();
    let fill = Series::Quiet.colour(&visuals).gamma_multiply(0.6);
    let end = own.axis_end();
    let bars: Vec<Bar> = own
        .counts
        .iter()
        .enumerate()
        .map(|(index, count)| {
            Bar::new((index as f64 + 0.5) * bin, f64::from(*count) / f64::from(most))
                .width(0.9 * bin)
                .fill(fill)
                .stroke(egui::Stroke::NONE)
        })
        .collect();
    const SAMPLES: usize = 160;
    let places = || (0..=SAMPLES).map(|i| end * i as f64 / SAMPLES as f64);
    let curve: Vec<[f64; 2]> = places().map(|x| [x, own.kernel(x)]).collect();
    let equal_rank = |x: f64| other.kernel(other.distance_at(own.share_within(x)));
    let others: Vec<[f64; 2]> = places().map(|x| [x, equal_rank(x)]).collect();
    let hover = |at: &HoverPosition<'_>| match at {
        HoverPosition::NearDataPoint { plot_name, position, .. } if !plot_name.is_empty() => {
            Some(format!("{plot_name}\ndistance {}\nvalue {}", number(position.x), number(position.y)))
        }
        _ => None,
    };
    let decimals = percent_decimals([0.25, 0.5, 0.75].map(|mark| mark * peak));
    let shares = AxisHints::new_y()
        .placement(HPlacement::Right)
        .label("Share of pairs")
        .label_spacing(14.0..=20.0)
        .formatter(move |mark: GridMark, _| percent_to(mark.value * peak, decimals));
    let values = AxisHints::new_y()
        .label("Kernel value")
        .label_spacing(14.0..=20.0)
        .formatter(|mark: GridMark, _| number(mark.value));
    let step = plots::even_step(end, f64::from(size.x / 60.0));
    let distances = AxisHints::new_x()
        .label(own.axis)
        .label_spacing(14.0..=22.0)
        .formatter(|mark: GridMark, _| number(mark.value));
    let plot = Plot::new(own.name)
        .width(size.x)
        .height(size.y)
        .allow_zoom(false)
        .allow_drag(false)
        .allow_scroll(false)
        .allow_boxed_zoom(false)
        .show_crosshair(false)
        .set_margin_fraction(egui::Vec2::ZERO)
        .custom_x_axes(vec![distances])
        .custom_y_axes(vec![values, shares])
        .show_grid([false, true])
        .grid_fade(0.6)
        .x_grid_spacer(egui_plot::uniform_grid_spacer(move |_| [step; 3]))
        .y_grid_spacer(egui_plot::uniform_grid_spacer(|_| [0.25; 3]))
        .label_formatter(hover)
        .legend(Legend::default().position(Corner::RightTop).follow_insertion_order(true));
    plot.show(ui, |plot| {
        plot.set_plot_bounds_x(0.0..=end);
        plot.set_plot_bounds_y(0.0..=1.05);
        plot.bar_chart(BarChart::new("Pairs", bars).color(fill).allow_hover(false));
        let own_name = format!("{}, λ = {}", own.name, number(own.lambda));
        let main = own.series.colour(&visuals);
        plot.line(Line::new(own_name, PlotPoints::from(curve)).color(main).width(2.5).id("own"));
        let dashed = LineStyle::Dashed { length: 6.0 };
        let second = other.series.colour(&visuals);
        let name = format!("{}, same rank", other.name);
        plot.line(
            Line::new(name, PlotPoints::from(others)).color(second).width(1.5).style(dashed).id("other"),
        );
        if own.tail() < end {
            let line = VLine::new(format!("{} is {TAIL}", own.name), own.tail()).color(main).width(1.0);
            plot.vline(line.style(LineStyle::Dotted { spacing: 4.0 }).id("tail"));
        }
    });
}
