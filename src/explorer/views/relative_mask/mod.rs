//! The mask of relative positions: a window over the picture around the clicked query, the map with and without it, its
//! block-Toeplitz matrix with the spectrum, and which way attention goes under it.
//!
//! `window` draws the weights over the photograph and lets their size be dragged, `table` edits a table by hand, `profile` draws
//! weights along the axes, `matrix` the matrix and the spectrum of a small grid, `facts` the line about ways and guard. (Masks
//! that are painted are in the view [`mask_topology`](super::mask_topology).)

mod facts;
mod matrix;
mod profile;
mod table;
mod window;

use super::picture::{caption, note, show_layer_in};
use super::{TourPage, View, ViewContext};
use crate::explorer::canvas::Drag;
use crate::explorer::panel::form_problem;
use crate::explorer::relative_mask::{self, Kind};
use crate::explorer::settings::{Colours, Look, Settings, Similarity};
use crate::explorer::snapshot::{LayerId, Needs};
use crate::explorer::widgets::{self, BarColours, Number};
use crate::mask::MaskSpec;
use crate::vision::palette::Palette;
use eframe::egui::{self, Rect, RichText, Vec2, pos2, vec2};

/// A part of the view where there is no room for all of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Part {
    #[default]
    Window,
    Maps,
    Weights,
    Matrix,
    Cost,
}

/// The view.
#[derive(Debug)]
pub(super) struct RelativeMask {
    part: Part,
    /// Side of the small grid whose matrix is shown, in tokens.
    side: u32,
    /// Spectrum by the logarithm.
    log: bool,
    /// Whether attention of all tokens is run for the guard.
    measure: bool,
    /// The mask when no button was held last: what is measured waits for the end of a drag.
    rested: MaskSpec,
    /// The mask in this frame.
    shown: MaskSpec,
    window: window::Window,
    table: table::Editor,
    matrix: matrix::Matrix,
}

impl Default for RelativeMask {
    fn default() -> Self {
        Self {
            part: Part::default(),
            side: 6,
            log: false,
            measure: true,
            rested: MaskSpec::None,
            shown: MaskSpec::None,
            window: window::Window::default(),
            table: table::Editor::default(),
            matrix: matrix::Matrix::default(),
        }
    }
}

/// Least size of the view that has room for all of it at once.
const ROOMY: Vec2 = vec2(760.0, 520.0);

/// Space between two parts.
const GAP: f32 = 4.0;

/// Height of the line of figures at the foot, in points.
const FOOT: f32 = 44.0;

/// Colours of weights: those of the maps, but for signs, which weights do not have.
fn colours(look: &Look) -> BarColours {
    match look.colours {
        Colours::Grey => BarColours::Grey,
        _ => BarColours::Palette(Palette::Sequential),
    }
}

impl View for RelativeMask {
    fn id(&self) -> &'static str {
        "relative-mask"
    }

    fn title(&self) -> &'static str {
        "Relative mask"
    }

    fn about(&self) -> &'static str {
        "A mask by relative position as a window around the query, the map with and without it, its matrix and spectrum."
    }

    fn needs(&self) -> Needs {
        Needs { mask: true, guard: self.measure && self.rested == self.shown, ..Needs::default() }
    }

    fn has_controls(&self) -> bool {
        true
    }

    fn controls(&mut self, ui: &mut egui::Ui, _: &mut ViewContext<'_>) {
        let side = Number::along(2.0..=8.0, 6.0).whole();
        widgets::slider(
            ui,
            "Small grid",
            "Side of the grid of tokens whose matrix is shown.",
            &mut self.side,
            &side,
        );
        widgets::switch(ui, "Logarithmic spectrum", "Shows what is faint in the spectrum.", &mut self.log);
        let hover = "Runs masked attention of all tokens by Fourier transforms, and counts the rows that their rounding \
                     noise could spoil: those are computed again, pair by pair.";
        widgets::switch(ui, "Measure the noise guard", hover, &mut self.measure);
    }

    fn ui(&mut self, ui: &mut egui::Ui, context: &mut ViewContext<'_>) {
        let space = ui.available_rect_before_wrap();
        ui.allocate_rect(space, egui::Sense::hover());
        if context.settings.compute.mask == MaskSpec::None {
            self.choose(ui, context, space);
        } else {
            match space.size().min(ROOMY) == ROOMY {
                true => self.everything(ui, context, space),
                false => self.one_part(ui, context, space),
            }
        }
        self.shown = context.settings.compute.mask.clone();
        if !ui.input(|i| i.pointer.any_down()) {
            if self.rested != self.shown {
                // What waited for the end of the drag is asked for with this frame.
                ui.ctx().request_repaint();
            }
            self.rested = self.shown.clone();
        }
    }

    fn tour(&self) -> Vec<TourPage> {
        vec![TourPage {
            title: "A window around the query",
            formula: "outᵢ = Σⱼ T[i − j] φ(qᵢ)·φ(kⱼ) vⱼ / Σⱼ T[i − j] φ(qᵢ)·φ(kⱼ)",
            text: "A mask of relative positions weighs every key by where it lies from the query, whatever the picture shows \
                   there. The first picture is that window: drag its handle, click elsewhere, and the window moves along. The \
                   other two are the map without it and with it, in the same colours.\n\n\
                   The weight depends on the offset i − j alone. That makes the mask's matrix block-Toeplitz: the same along \
                   every diagonal. Fourier transforms multiply such a matrix in N log N steps, and masked attention with a \
                   feature map φ costs little more than the transforms. Their rounding noise is the same for all rows, so rows \
                   with small sums are found and computed again: the line at the foot tells how many.\n\n\
                   Try the torus, which joins the borders, and a table by hand.",
            prepare: |settings: &mut Settings| {
                *settings = Settings { device: settings.device.clone(), ..Settings::default() };
                settings.compute.similarity = Similarity::Elu;
                settings.compute.mask = Kind::Distance.usual();
            },
        }]
    }
}

/// A part of the view to draw widgets into, which cannot reach beyond it.
fn child(ui: &mut egui::Ui, space: Rect) -> egui::Ui {
    let mut inside = ui.new_child(egui::UiBuilder::new().max_rect(space));
    inside.set_clip_rect(space.intersect(ui.clip_rect()));
    inside
}

/// Column `i` of `count` equal ones.
fn column(space: Rect, i: usize, count: usize) -> Rect {
    let width = (space.width() - GAP * (count as f32 - 1.0)) / count as f32;
    let left = space.left() + (width + GAP) * i as f32;
    Rect::from_min_size(pos2(left, space.top()), vec2(width.max(0.0), space.height()))
}

impl RelativeMask {
    /// Everything at once: pictures above, numbers below.
    fn everything(&mut self, ui: &mut egui::Ui, context: &mut ViewContext<'_>, space: Rect) {
        let (space, foot) = space.split_top_bottom_at_y(space.bottom() - FOOT);
        facts::line(&mut child(ui, foot.shrink2(vec2(10.0, 4.0))), context, self.measure);
        let (above, below) = space.split_top_bottom_at_y(space.top() + 0.52 * space.height());
        let above = above.with_max_y(above.bottom() - GAP);
        self.window(ui, context, column(above, 0, 3));
        maps(ui, context, [column(above, 1, 3), column(above, 2, 3)]);
        self.weights(ui, context, column(below, 0, 3));
        self.matrices(ui, context, [column(below, 1, 3), column(below, 2, 3)]);
    }

    /// One part, and buttons for the others.
    fn one_part(&mut self, ui: &mut egui::Ui, context: &mut ViewContext<'_>, space: Rect) {
        let bar = space.with_max_y((space.top() + 30.0).min(space.bottom()));
        let rest = space.with_min_y(bar.bottom());
        let parts = [
            (Part::Window, "Window"),
            (Part::Maps, "Maps"),
            (Part::Weights, "Weights"),
            (Part::Matrix, "Matrix"),
            (Part::Cost, "Cost"),
        ];
        let mut buttons = child(ui, bar.shrink2(vec2(8.0, 3.0)));
        buttons.horizontal(|ui| {
            for (part, name) in parts {
                ui.selectable_value(&mut self.part, part, name);
            }
        });
        let wide = rest.width() >= rest.height();
        let halves = match wide {
            true => [column(rest, 0, 2), column(rest, 1, 2)],
            false => {
                let (top, bottom) = rest.split_top_bottom_at_fraction(0.5);
                [top.with_max_y(top.bottom() - GAP), bottom]
            }
        };
        match self.part {
            Part::Window => self.window(ui, context, rest),
            Part::Maps => maps(ui, context, halves),
            Part::Weights => self.weights(ui, context, rest),
            Part::Matrix => self.matrices(ui, context, halves),
            Part::Cost => {
                let mut inside = child(ui, rest.shrink(10.0));
                egui::ScrollArea::vertical()
                    .auto_shrink([false, false])
                    .show(&mut inside, |ui| facts::page(ui, context, self.measure));
            }
        }
    }

    fn window(&mut self, ui: &mut egui::Ui, context: &mut ViewContext<'_>, space: Rect) {
        self.window.show(ui, context, space);
        let words = sentence(&relative_mask::in_words(&context.settings.compute.mask));
        context.canvas.texts.push(caption(ui, space, &words));
    }

    fn weights(&mut self, ui: &mut egui::Ui, context: &mut ViewContext<'_>, space: Rect) {
        let mut inside = child(ui, space.shrink(8.0));
        let tint = colours(&context.settings.look);
        match &mut context.settings.compute.mask {
            MaskSpec::Stencil(spec) => self.table.show(&mut inside, spec, tint),
            mask => {
                let sides = context.snapshot.map(|s| [s.grid.rows(), s.grid.cols()]);
                profile::show(&mut inside, mask, sides.unwrap_or([16, 16]));
            }
        }
    }

    fn matrices(&mut self, ui: &mut egui::Ui, context: &mut ViewContext<'_>, spaces: [Rect; 2]) {
        let sides = context.snapshot.map_or([16, 16], |s| [s.grid.rows(), s.grid.cols()]);
        self.matrix.update(&context.settings.compute.mask, sides, self.side);
        let tint = colours(&context.settings.look);
        self.matrix.show_matrix(&mut child(ui, spaces[0].shrink(8.0)), tint);
        self.matrix.show_spectrum(&mut child(ui, spaces[1].shrink(8.0)), tint, self.log);
    }

    /// Without a mask: the picture, and masks to choose from.
    fn choose(&mut self, ui: &mut egui::Ui, context: &mut ViewContext<'_>, space: Rect) {
        let (picture, words) = match space.width() > 1.1 * space.height() {
            true => space.split_left_right_at_fraction(0.55),
            false => space.split_top_bottom_at_fraction(0.5),
        };
        let id = ui.scope_id().with("no mask");
        show_layer_in(ui, context, id, &[LayerId::Map], Drag::Pan, picture);
        let mut inside = child(ui, words.shrink(20.0));
        egui::ScrollArea::vertical().show(&mut inside, |ui| {
            ui.label(RichText::new("No relative mask").heading());
            ui.add_space(4.0);
            ui.label(
                "Every query sees every token alike. A mask weighs keys by where they lie from the query:",
            );
            ui.add_space(10.0);
            let mut chosen = None;
            // Three fit into a line of the smallest window.
            let mut button = |ui: &mut egui::Ui, kind: Kind| {
                let button = egui::Button::new(kind.name()).min_size(vec2(90.0, 26.0));
                if ui.add(button).on_hover_text(kind.about()).clicked() {
                    chosen = Some(kind);
                }
            };
            let kinds = Kind::ALL.into_iter().filter(|kind| *kind != Kind::None);
            if words.height() < ROOMY.y {
                ui.horizontal_wrapped(|ui| kinds.for_each(|kind| button(ui, kind)));
            } else {
                for kind in kinds {
                    button(ui, kind);
                    ui.add_space(2.0);
                    ui.label(RichText::new(kind.about()).weak());
                    ui.add_space(10.0);
                }
            }
            if let Some(kind) = chosen {
                relative_mask::set(&mut context.settings.compute, kind.usual());
            }
        });
    }
}

/// Words as a sentence begins.
fn sentence(words: &str) -> String {
    let mut letters = words.chars();
    letters.next().map(|c| c.to_uppercase().chain(letters).collect()).unwrap_or_default()
}

/// The map without the mask and with it, in the same colours.
fn maps(ui: &mut egui::Ui, context: &mut ViewContext<'_>, spaces: [Rect; 2]) {
    let parts = [(LayerId::Unmasked, "Without the mask"), (LayerId::Map, "Under the mask")];
    let compute = &context.settings.compute;
    let problem = form_problem(compute, compute.form);
    for ((layer, title), space) in parts.into_iter().zip(spaces) {
        let missing = context.snapshot.is_none_or(|s| s.layer(layer).is_none() && !s.sees_nothing());
        match (problem, missing && context.textures.photo().is_some()) {
            (Some(problem), _) => note(ui, space, problem),
            (None, true) => note(ui, space, "Computing the map…"),
            (None, false) => {
                show_layer_in(ui, context, ui.scope_id().with(title), &[layer], Drag::Pan, space);
            }
        }
        context.canvas.texts.push(caption(ui, space, title));
    }
}
