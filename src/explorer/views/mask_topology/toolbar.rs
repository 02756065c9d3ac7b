//! Tools and paints above the picture.

use super::{MaskTopology, Tool, usual_brush};
use crate::explorer::mask::{Paint, REGIONS};
use crate::explorer::theme;
use crate::explorer::views::ViewContext;
use crate::explorer::widgets::{self, Number};
use eframe::egui::{
    self, Align2, Color32, FontId, Painter, Pos2, Rect, Response, Role, Sense, Shape, Stroke, StrokeKind,
    TextStyle, Ui, WidgetInfo, pos2, vec2,
};

/// Tools in the order of the bar: name and what they do.
const TOOLS: [(Tool, &str, &str); 6] = [
    (Tool::Query, "Query", "Click chooses the query; drag moves the picture"),
    (Tool::Brush, "Brush", "Drag paints; [ and ] change the size"),
    (Tool::Eraser, "Eraser", "Drag removes regions and hidden areas; [ and ] change the size"),
    (Tool::Rectangle, "Rectangle", "Drag from corner to corner"),
    (Tool::Fill, "Fill", "Click paints the connected area under the pointer"),
    (
        Tool::Link,
        "Link",
        "Drag from one region to another links them; click a link to select it, Delete removes it",
    ),
];

impl MaskTopology {
    /// Two rows: tools and what changes all of the mask; paints and options of the tool.
    pub(super) fn toolbar(&mut self, ui: &mut Ui, context: &mut ViewContext<'_>) {
        let photo = context.textures.photo().map(|photo| photo.size);
        ui.horizontal_wrapped(|ui| {
            ui.spacing_mut().item_spacing.x = 4.0;
            for (tool, name, about) in TOOLS {
                if tool_button(ui, tool, name, self.tool == tool).on_hover_text(about).clicked() {
                    self.tool = tool;
                    self.gesture = None;
                }
            }
            ui.separator();
            let invert = ui.add_enabled(photo.is_some(), egui::Button::new("Invert"));
            if invert.on_hover_text("Hides what is seen and shows what is hidden").clicked()
                && let Some(photo) = photo
            {
                context.mask.invert_hidden(photo);
            }
            let anything = !(context.mask.is_empty() && context.mask.links().is_empty());
            let clear = ui.add_enabled(anything, egui::Button::new("Clear"));
            if clear.on_hover_text("Removes everything painted and all links").clicked() {
                context.mask.clear();
                self.selected = None;
            }
        });
        ui.horizontal_wrapped(|ui| {
            ui.spacing_mut().item_spacing.x = 4.0;
            ui.label("Paint");
            let paints = [Paint::Hidden].into_iter().chain((1..=REGIONS).map(Paint::Region));
            for paint in paints.chain([Paint::Nothing]) {
                let chosen = self.paint == paint && self.tool != Tool::Eraser;
                if swatch(ui, paint, chosen).clicked() {
                    self.paint = paint;
                    if matches!(self.tool, Tool::Query | Tool::Eraser | Tool::Link) {
                        self.tool = Tool::Brush;
                    }
                }
            }
            match self.tool {
                Tool::Brush | Tool::Eraser => {
                    ui.separator();
                    self.size_slider(ui, photo.unwrap_or(glam::UVec2::splat(512)));
                }
                Tool::Link => {
                    ui.separator();
                    ui.label("New links go");
                    ui.selectable_value(&mut self.mutual, true, "Both ways")
                        .on_hover_text("Each region sees the other");
                    ui.selectable_value(&mut self.mutual, false, "One way")
                        .on_hover_text("Queries where the drag begins see keys where it ends");
                }
                Tool::Query | Tool::Rectangle | Tool::Fill => {
                    let about =
                        TOOLS.iter().find(|(tool, ..)| *tool == self.tool).map_or("", |(.., about)| about);
                    hint(ui, about);
                }
            }
        });
        ui.add_space(2.0);
    }

    fn size_slider(&mut self, ui: &mut Ui, photo: glam::UVec2) {
        let most = f64::from(photo.max_element().max(2));
        let mut size = self.brush(photo);
        let number = Number::along(1.0..=most, usual_brush(photo)).logarithmic().whole().unit(" px");
        let about = "Diameter in pixels of the photograph; [ and ] change it too.";
        ui.allocate_ui(vec2(320.0, ui.spacing().interact_size.y), |ui| {
            if widgets::slider(ui, "Brush size", about, &mut size, &number) {
                self.brush = Some(size);
            }
        });
    }
}

/// Advice at the end of a row, which gives way where there is no room.
fn hint(ui: &mut Ui, text: &str) {
    let text = egui::WidgetText::from(egui::RichText::new(text).weak());
    let galley = text.into_galley(ui, Some(egui::TextWrapMode::Extend), f32::INFINITY, TextStyle::Body);
    if galley.size().x + 20.0 < ui.available_size_before_wrap().x {
        ui.separator();
        ui.label(galley);
    }
}

/// A button with a small drawing.
fn tool_button(ui: &mut Ui, tool: Tool, name: &str, chosen: bool) -> Response {
    let padding = ui.spacing().button_padding;
    let font = TextStyle::Button.resolve(ui.style());
    let galley = ui.painter().layout_no_wrap(name.to_owned(), font, Color32::PLACEHOLDER);
    let icon = 14.0;
    let height = ui.spacing().interact_size.y.max(galley.size().y + 2.0 * padding.y) + 2.0;
    let size = vec2(galley.size().x + icon + 5.0 + 2.0 * padding.x.max(6.0), height);
    let (rect, response) = ui.allocate_exact_size(size, Sense::click());
    response.widget_info(|| WidgetInfo::selected(Role::Button, ui.is_enabled(), chosen, name));
    let visuals = ui.style().interact_selectable(&response, chosen);
    if chosen || response.hovered() || response.has_focus() {
        let rect = rect.expand(visuals.expansion);
        ui.painter().rect(
            rect,
            visuals.corner_radius,
            visuals.weak_bg_fill,
            visuals.bg_stroke,
            StrokeKind::Inside,
        );
    }
    let left = rect.left() + padding.x.max(6.0);
    let square = Rect::from_center_size(pos2(left + icon / 2.0, rect.center().y), vec2(icon, icon));
    draw_icon(ui.painter(), tool, square, Stroke::new(1.5, visuals.text_color()));
    let text = pos2(left + icon + 5.0, rect.center().y - galley.size().y / 2.0);
    ui.painter().galley(text, galley, visuals.text_color());
    response
}

/// A tool's drawing in a square.
fn draw_icon(painter: &Painter, tool: Tool, square: Rect, stroke: Stroke) {
    let at = |x: f32, y: f32| -> Pos2 { square.lerp_inside(vec2(x, y)) };
    let line = |points: &[(f32, f32)]| {
        painter.add(Shape::line(points.iter().map(|(x, y)| at(*x, *y)).collect(), stroke));
    };
    let shape = |points: &[(f32, f32)]| {
        painter.add(Shape::convex_polygon(
            points.iter().map(|(x, y)| at(*x, *y)).collect(),
            stroke.color,
            Stroke::NONE,
        ));
    };
    let side = square.width();
    match tool {
        Tool::Query => {
            painter.circle_stroke(at(0.5, 0.5), side * 0.3, stroke);
            for ends in [[(0.5, 0.0), (0.5, 0.34)], [(0.5, 0.66), (0.5, 1.0)]] {
                line(&ends);
                line(&ends.map(|(x, y)| (y, x)));
            }
        }
        Tool::Brush => {
            line(&[(0.98, 0.02), (0.5, 0.5)]);
            shape(&[(0.36, 0.42), (0.58, 0.64), (0.4, 0.88), (0.04, 0.98), (0.14, 0.6)]);
        }
        Tool::Eraser => {
            line(&[(0.6, 0.06), (0.96, 0.42), (0.44, 0.94), (0.08, 0.58), (0.6, 0.06)]);
            shape(&[(0.28, 0.38), (0.64, 0.74), (0.44, 0.94), (0.08, 0.58)]);
        }
        Tool::Rectangle => {
            let rect = Rect::from_min_max(at(0.06, 0.16), at(0.94, 0.84));
            painter.rect_stroke(rect, 1.0, stroke, StrokeKind::Middle);
        }
        Tool::Fill => {
            line(&[(0.44, 0.04), (0.84, 0.44), (0.4, 0.88), (0.04, 0.52), (0.44, 0.12)]);
            shape(&[(0.1, 0.5), (0.78, 0.5), (0.4, 0.86)]);
            painter.circle_filled(at(0.9, 0.8), side * 0.1, stroke.color);
        }
        Tool::Link => {
            painter.circle_stroke(at(0.2, 0.8), side * 0.17, stroke);
            painter.circle_stroke(at(0.8, 0.2), side * 0.17, stroke);
            line(&[(0.33, 0.67), (0.67, 0.33)]);
        }
    }
}

/// A paint to choose.
fn swatch(ui: &mut Ui, paint: Paint, chosen: bool) -> Response {
    let side = ui.spacing().interact_size.y + 2.0;
    let (rect, response) = ui.allocate_exact_size(vec2(side, side), Sense::click());
    let (name, about) = match paint {
        Paint::Hidden => ("Hidden".to_owned(), "Hidden: no query sees these keys".to_owned()),
        Paint::Region(region) => {
            let about =
                format!("Region {region}: its queries see only its own keys and those of linked regions");
            (format!("Region {region}"), about)
        }
        Paint::Nothing => ("Unpainted".to_owned(), "Unpainted: removes regions and hidden areas".to_owned()),
    };
    response.widget_info(|| WidgetInfo::selected(Role::RadioButton, ui.is_enabled(), chosen, &name));
    let visuals = ui.visuals();
    let inner = rect.shrink(3.0);
    match paint {
        Paint::Region(region) => filled(ui.painter(), inner, region, visuals),
        Paint::Hidden => hatched(ui.painter(), inner, visuals),
        Paint::Nothing => {
            let stroke = Stroke::new(1.0, visuals.weak_text_color());
            ui.painter().rect_stroke(inner, 3.0, stroke, StrokeKind::Inside);
            ui.painter().line_segment([inner.left_bottom(), inner.right_top()], stroke);
        }
    }
    if chosen || response.hovered() || response.has_focus() {
        let colour = if chosen { visuals.selection.stroke.color } else { visuals.weak_text_color() };
        ui.painter().rect_stroke(rect, 5.0, Stroke::new(2.0, colour), StrokeKind::Inside);
    }
    response.on_hover_text(about)
}

/// A square in a region's colour with its number.
fn filled(painter: &Painter, rect: Rect, region: u8, visuals: &egui::Visuals) {
    let (fill, text) = match region {
        0 => (visuals.window_fill, visuals.text_color()),
        region => {
            let colour = theme::region(region, visuals);
            (colour, theme::text_on(colour))
        }
    };
    painter.rect(rect, 3.0, fill, Stroke::new(1.0, visuals.weak_text_color()), StrokeKind::Inside);
    let font = FontId::proportional((rect.height() * 0.75).min(13.0));
    painter.text(rect.center(), Align2::CENTER_CENTER, region.to_string(), font, text);
}

/// A hatched square: hidden keys.
pub(super) fn hatched(painter: &Painter, rect: Rect, visuals: &egui::Visuals) {
    let (scrim, _) = theme::hidden(visuals);
    painter.rect_filled(rect, 3.0, scrim);
    let stroke = Stroke::new(1.2, visuals.text_color());
    let inside = painter.with_clip_rect(rect.intersect(painter.clip_rect()));
    let mut x = rect.left() - rect.height();
    while x < rect.right() {
        inside.line_segment([pos2(x, rect.bottom()), pos2(x + rect.height(), rect.top())], stroke);
        x += 4.5;
    }
    painter.rect_stroke(rect, 3.0, Stroke::new(1.0, visuals.weak_text_color()), StrokeKind::Inside);
}

/// A region's square in a line of text.
pub(super) fn chip(ui: &mut Ui, region: u8) {
    let side = ui.text_style_height(&TextStyle::Body);
    let (rect, _) = ui.allocate_exact_size(vec2(side, side), Sense::hover());
    filled(ui.painter(), rect, region, ui.visuals());
}

/// The same at a given place.
pub(super) fn chip_at(painter: &Painter, rect: Rect, region: u8, visuals: &egui::Visuals) {
    filled(painter, rect, region, visuals);
}
