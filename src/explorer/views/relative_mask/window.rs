//! The weights over the photograph: a window around the clicked query whose handles change its size.

use super::colours;
use crate::explorer::canvas::{Drag, Placed, WHOLE};
use crate::explorer::relative_mask::{MOST_STENCIL, resized};
use crate::explorer::settings::Look;
use crate::explorer::theme;
use crate::explorer::views::{ViewContext, picture};
use crate::mask::{Distance, MaskSpec};
use crate::numbers::significant;
use crate::vision::grid::TokenGrid;
use eframe::egui::{
    self, Color32, ColorImage, CursorIcon, Painter, Pos2, Rect, Role, Sense, Shape, Stroke, TextureHandle,
    TextureOptions, WidgetInfo, pos2, vec2,
};
use glam::{DVec2, dvec2};

/// Share of the largest weight that the logarithm begins at.
const LEAST: f64 = 1e-6;

/// Half the side of a handle, in points.
const HANDLE: f32 = 5.0;

/// Which number a handle changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Grip {
    Size,
    Rows,
    Columns,
}

impl Grip {
    fn label(self) -> &'static str {
        match self {
            Self::Size => "Size of the mask",
            Self::Rows => "Rows of the mask",
            Self::Columns => "Columns of the mask",
        }
    }
}

/// A handle in hand: which, and size over distance of the pointer where it was taken.
#[derive(Clone, Copy, Debug)]
struct Held {
    grip: Grip,
    factor: f64,
}

/// What the texture of weights was made from.
#[derive(Clone, Debug, PartialEq)]
struct Made {
    mask: MaskSpec,
    sides: [u32; 2],
    token: u32,
    grey: bool,
    log: bool,
    smooth: bool,
}

/// The window's texture and what is being dragged.
#[derive(Default)]
pub(super) struct Window {
    texture: Option<(TextureHandle, Made)>,
    /// Largest weight in it.
    largest: f32,
    held: Option<Held>,
}

impl std::fmt::Debug for Window {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let made = self.texture.as_ref().map(|(_, made)| made);
        f.debug_struct("Window").field("made", &made).field("held", &self.held).finish_non_exhaustive()
    }
}

impl Window {
    /// Draws the photograph with the weights over it.
    pub(super) fn show(&mut self, ui: &mut egui::Ui, context: &mut ViewContext<'_>, space: Rect) {
        let id = ui.scope_id().with("window");
        let Some(placed) = picture::show_layer_in(ui, context, id, &[], Drag::Pan, space) else { return };
        let Some(grid) = context.snapshot.map(|s| s.grid.clone()).filter(|g| g.photo_size() == placed.size)
        else {
            return;
        };
        if context.canvas.peek {
            return;
        }
        let Some((centre, token)) = grid.token_at(*context.query).ok().and_then(|token| {
            let centre = grid.token_rect(token).ok()?.centre();
            Some((centre, u32::try_from(token).ok()?))
        }) else {
            return;
        };
        self.grip(ui, context, &placed, &grid, centre);
        let painter = ui.painter_at(space);
        let look = context.settings.look.clone();
        let mask = context.settings.compute.mask.clone();
        self.overlay(ui, &painter, &placed, &grid, (&mask, token), &look);
        let mask = &context.settings.compute.mask;
        outline(&painter, &placed, &grid, centre, mask);
        picture::draw_marker(&painter, context, &placed);
        for (grip, at) in handles(mask, &placed, &grid, centre) {
            let hot = self.held.is_some_and(|held| held.grip == grip) || hovers(ui, at);
            draw_handle(&painter, at, hot);
        }
        let largest = f64::from(self.largest);
        let least = if look.log { LEAST * largest } else { 0.0 };
        let ends = [least, largest].map(|x| significant(x, 2));
        let middle = if look.log { "weight, log scale" } else { "weight" };
        let tint = colours(&look);
        context.canvas.texts.extend(picture::bar_of(&painter, |t| tint.at(t), ends, middle));
    }

    /// Lets the handles be dragged.
    fn grip(
        &mut self,
        ui: &mut egui::Ui,
        context: &mut ViewContext<'_>,
        placed: &Placed,
        grid: &TokenGrid,
        centre: DVec2,
    ) {
        let mask = &mut context.settings.compute.mask;
        let stride = grid.effective_stride();
        let mut still_held = false;
        for (grip, at) in handles(mask, placed, grid, centre) {
            let rect = Rect::from_center_size(at, egui::Vec2::splat(4.0 * HANDLE)).intersect(placed.clip);
            if !rect.is_positive() {
                continue;
            }
            // It lies over the picture, which would pan otherwise.
            let response = ui.interact(rect, ui.scope_id().with(grip), Sense::click_and_drag());
            response.widget_info(|| WidgetInfo::labeled(Role::Slider, true, grip.label()));
            if response.hovered() || response.dragged() {
                ui.ctx().set_cursor_icon(if grip == Grip::Rows {
                    CursorIcon::ResizeVertical
                } else {
                    CursorIcon::ResizeHorizontal
                });
            }
            let hover = format!("{}: {}. Drag it.", grip.label(), value(mask, grip));
            if !response.dragged() {
                response.clone().on_hover_text(hover);
            }
            let Some(pointer) = response.interact_pointer_pos() else { continue };
            let reach_at =
                |mask: &MaskSpec, at: Pos2| reach(mask, grip, (placed.to_place(at) - centre) / stride);
            if self.held.is_none_or(|held| held.grip != grip) {
                // A drag is known as one some points after the press.
                let pressed = ui.input(|i| i.pointer.press_origin()).unwrap_or(pointer);
                let (now, taken) = (reach_in_use(mask, grip), reach_at(mask, pressed));
                let factor = if taken > 0.05 { now / taken } else { 1.0 };
                self.held = Some(Held { grip, factor });
            }
            let reach = reach_at(mask, pointer);
            if let (Some(held), true) = (self.held, response.dragged()) {
                still_held = true;
                set(mask, grip, held.factor * reach);
            }
        }
        if !still_held {
            self.held = None;
        }
    }

    fn overlay(
        &mut self,
        ui: &egui::Ui,
        painter: &Painter,
        placed: &Placed,
        grid: &TokenGrid,
        (mask, token): (&MaskSpec, u32),
        look: &Look,
    ) {
        let (Ok(rows), Ok(cols)) = (u32::try_from(grid.rows()), u32::try_from(grid.cols())) else { return };
        let tint = colours(look);
        let made = Made {
            mask: mask.clone(),
            sides: [rows, cols],
            token,
            grey: tint == crate::explorer::widgets::BarColours::Grey,
            log: look.log,
            smooth: look.smooth,
        };
        if self.texture.as_ref().is_none_or(|(_, old)| *old != made) {
            // A mask out of range is told by the engine.
            let Ok(weights) = mask.row(&made.sides, token) else { return };
            self.largest = weights.iter().copied().fold(0.0, f32::max);
            let largest = f64::from(self.largest);
            let texel = |weight: &f32| tint.at(place(f64::from(*weight), largest, look.log));
            let image = ColorImage::new([cols as usize, rows as usize], weights.iter().map(texel).collect());
            let options = if look.smooth { TextureOptions::LINEAR } else { TextureOptions::NEAREST };
            let texture = match self.texture.take() {
                Some((mut texture, _)) => {
                    texture.set(image, options);
                    texture
                }
                None => ui.ctx().load_texture("weights of the relative mask", image, options),
            };
            self.texture = Some((texture, made));
        }
        let Some((texture, _)) = &self.texture else { return };
        let cells = dvec2(grid.cols() as f64, grid.rows() as f64) * grid.effective_stride();
        let over = Rect::from_min_max(placed.rect.min, placed.to_screen(cells));
        let painter = painter.with_clip_rect(placed.clip.intersect(placed.rect));
        let opacity = (look.opacity.clamp(0.0, 1.0) * 255.0).round() as u8;
        painter.image(texture.id(), over, WHOLE, Color32::from_white_alpha(opacity));
    }
}

/// Place of a weight along the colours, 0…1.
fn place(weight: f64, largest: f64, log: bool) -> f64 {
    match (largest > 0.0, log) {
        (false, _) => 0.0,
        (true, false) => weight / largest,
        (true, true) => 1.0 - (weight / largest).max(LEAST).log10() / LEAST.log10(),
    }
}

/// How far an offset in tokens (x right, y down) reaches in the measure of a handle.
fn reach(mask: &MaskSpec, grip: Grip, offset: DVec2) -> f64 {
    match (mask, grip) {
        (MaskSpec::Toeplitz(spec), _) => {
            let (x, y) = (offset.x.abs(), offset.y.abs());
            match spec.distance {
                Distance::L1 => x + y,
                Distance::L2 => x.hypot(y),
                Distance::LInf => x.max(y),
            }
        }
        (_, Grip::Rows) => offset.y.abs(),
        _ => offset.x.abs(),
    }
}

/// The reach of the mask as it is.
fn reach_in_use(mask: &MaskSpec, grip: Grip) -> f64 {
    match (mask, grip) {
        (MaskSpec::Toeplitz(spec), _) => spec.size,
        (MaskSpec::Separable { rows, .. }, Grip::Rows) => *rows,
        (MaskSpec::Separable { cols, .. }, _) => *cols,
        (MaskSpec::Stencil(spec), Grip::Rows) => 0.5 * f64::from(spec.rows),
        (MaskSpec::Stencil(spec), _) => 0.5 * f64::from(spec.cols),
        _ => 0.0,
    }
}

/// Sets the number of a handle to a reach, in steps of a tenth of a token.
fn set(mask: &mut MaskSpec, grip: Grip, reach: f64) {
    let rounded = ((10.0 * reach).round() / 10.0).max(0.1);
    match (mask, grip) {
        (MaskSpec::Toeplitz(spec), _) => spec.size = rounded,
        (MaskSpec::Separable { rows, .. }, Grip::Rows) => *rows = rounded,
        (MaskSpec::Separable { cols, .. }, _) => *cols = rounded,
        (MaskSpec::Stencil(spec), _) => {
            // The side whose border is nearest: 1, 3, 5, …
            let now = if grip == Grip::Rows { spec.rows } else { spec.cols };
            let most = f64::from(now.max(MOST_STENCIL));
            let side = (2.0 * (reach - 0.5).round().max(0.0) + 1.0).min(most) as u32;
            let (rows, cols) = if grip == Grip::Rows { (side, spec.cols) } else { (spec.rows, side) };
            if (rows, cols) != (spec.rows, spec.cols) {
                *spec = resized(spec, rows, cols);
            }
        }
        _ => {}
    }
}

fn value(mask: &MaskSpec, grip: Grip) -> String {
    match (mask, grip) {
        (MaskSpec::Stencil(spec), Grip::Rows) => spec.rows.to_string(),
        (MaskSpec::Stencil(spec), _) => spec.cols.to_string(),
        _ => format!("{} tokens", significant(reach_in_use(mask, grip), 3)),
    }
}

/// The handles of a mask on screen: to the right of the query and below it, or on the other side where that lies outside.
fn handles(mask: &MaskSpec, placed: &Placed, grid: &TokenGrid, centre: DVec2) -> Vec<(Grip, Pos2)> {
    let grips: &[Grip] = match mask {
        MaskSpec::Toeplitz(_) => &[Grip::Size],
        MaskSpec::Separable { .. } | MaskSpec::Stencil(_) => &[Grip::Rows, Grip::Columns],
        MaskSpec::None | MaskSpec::Causal | MaskSpec::Decay { .. } => &[],
    };
    let inside = placed.rect.intersect(placed.clip).shrink(2.0 * HANDLE);
    let stride = grid.effective_stride();
    let at = |grip: Grip| {
        let reach = reach_in_use(mask, grip);
        let step = if grip == Grip::Rows { dvec2(0.0, reach) } else { dvec2(reach, 0.0) } * stride;
        let [after, before] = [centre + step, centre - step].map(|place| placed.to_screen(place));
        let chosen = if inside.contains(after) || !inside.contains(before) { after } else { before };
        // What reaches beyond the picture is held at its border.
        pos2(
            chosen.x.clamp(inside.left(), inside.right().max(inside.left())),
            chosen.y.clamp(inside.top(), inside.bottom().max(inside.top())),
        )
    };
    grips.iter().map(|grip| (*grip, at(*grip))).collect()
}

fn hovers(ui: &egui::Ui, at: Pos2) -> bool {
    ui.input(|i| i.pointer.hover_pos()).is_some_and(|pointer| pointer.distance(at) < 2.0 * HANDLE)
}

fn draw_handle(painter: &Painter, at: Pos2, hot: bool) {
    let (line, rim) = theme::MARK;
    let rect = Rect::from_center_size(at, vec2(2.0, 2.0) * if hot { HANDLE + 1.5 } else { HANDLE });
    painter.rect_filled(rect.expand(1.5), 2.0, rim);
    painter.rect_filled(rect, 1.0, line);
}

/// Where the mask's size ends: a circle, square or diamond, the box of a table; on a torus all copies of it.
fn outline(painter: &Painter, placed: &Placed, grid: &TokenGrid, centre: DVec2, mask: &MaskSpec) {
    const STEPS: usize = 96;
    let diamond = |x: f64, y: f64| vec![dvec2(x, 0.0), dvec2(0.0, y), dvec2(-x, 0.0), dvec2(0.0, -y)];
    let square = |x: f64, y: f64| vec![dvec2(x, y), dvec2(-x, y), dvec2(-x, -y), dvec2(x, -y)];
    let (shape, torus) = match mask {
        MaskSpec::Toeplitz(spec) => {
            let size = spec.size;
            let shape = match spec.distance {
                Distance::L1 => diamond(size, size),
                Distance::LInf => square(size, size),
                Distance::L2 => {
                    let turn = |step: usize| std::f64::consts::TAU * step as f64 / STEPS as f64;
                    (0..STEPS).map(|step| size * DVec2::from_angle(turn(step))).collect()
                }
            };
            (shape, spec.torus)
        }
        MaskSpec::Separable { rows, cols } => (diamond(*cols, *rows), false),
        MaskSpec::Stencil(spec) => {
            (square(0.5 * f64::from(spec.cols), 0.5 * f64::from(spec.rows)), spec.torus)
        }
        MaskSpec::None | MaskSpec::Causal | MaskSpec::Decay { .. } => return,
    };
    let painter = painter.with_clip_rect(painter.clip_rect().intersect(placed.rect));
    let stride = grid.effective_stride();
    let whole = dvec2(grid.cols() as f64, grid.rows() as f64);
    let around: &[f64] = if torus { &[-1.0, 0.0, 1.0] } else { &[0.0] };
    for shift in around.iter().flat_map(|y| around.iter().map(|x| dvec2(*x, *y))) {
        let place = |offset: &DVec2| placed.to_screen(centre + (*offset + shift * whole) * stride);
        let points: Vec<Pos2> = shape.iter().map(place).collect();
        let (line, rim) = theme::MARK;
        painter.add(Shape::closed_line(points.clone(), Stroke::new(3.0, rim.gamma_multiply(0.7))));
        painter.add(Shape::closed_line(points, Stroke::new(1.2, line)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::explorer::relative_mask::Kind;

    #[test]
    fn what_is_dragged_is_what_is_measured() {
        for (text, grip, offset, expected) in [
            (
                "toeplitz:gauss,size=4,distance=l2",
                Grip::Size,
                dvec2(3.0, 4.0),
                "toeplitz:gauss,size=5,distance=l2",
            ),
            (
                "toeplitz:gauss,size=4,distance=l1",
                Grip::Size,
                dvec2(3.0, -4.0),
                "toeplitz:gauss,size=7,distance=l1",
            ),
            (
                "toeplitz:gauss,size=4,distance=linf",
                Grip::Size,
                dvec2(3.0, 4.0),
                "toeplitz:gauss,size=4,distance=linf",
            ),
            ("separable:size=2", Grip::Rows, dvec2(9.0, 3.26), "separable:rows=3.3,cols=2"),
            ("separable:size=2", Grip::Columns, dvec2(0.0, 3.0), "separable:rows=2,cols=0.1"),
            ("stencil:1x1,7", Grip::Columns, dvec2(1.4, 0.0), "stencil:1x3,0/7/0"),
            ("stencil:1x3,1/7/2", Grip::Columns, dvec2(0.6, 0.0), "stencil:1x1,7"),
        ] {
            let mut mask: MaskSpec = text.parse().expect(text);
            let reach = reach(&mask, grip, offset);
            set(&mut mask, grip, reach);
            assert_eq!(mask.to_string(), expected, "{text}");
        }
    }

    #[test]
    fn reach_that_is_kept_changes_nothing() {
        for kind in Kind::ALL {
            let before = kind.usual();
            for grip in [Grip::Size, Grip::Rows, Grip::Columns] {
                let mut mask = before.clone();
                set(&mut mask, grip, reach_in_use(&before, grip));
                assert_eq!(mask, before, "{grip:?}");
            }
        }
    }

    #[test]
    fn weights_lie_along_the_colours() {
        assert_eq!([0.0, 1.0, 2.0].map(|w| place(w, 2.0, false)), [0.0, 0.5, 1.0]);
        assert_eq!(place(0.0, 0.0, true), 0.0);
        for (weight, expected) in [(1.0, 1.0), (1e-3, 0.5), (1e-6, 0.0), (0.0, 0.0)] {
            assert!((place(weight, 1.0, true) - expected).abs() < 1e-12, "{weight}");
        }
    }
}
