//! The mask topology: who sees whom. Hidden keys, regions and links are painted on the photograph and shown as a table.
//!
//! `toolbar` chooses the tool, `gesture` turns what the pointer does into paint, `survey` counts tokens,
//! `overlay` holds the two textures over the photograph, `links` draws handles and arrows, `matrix` the table.

pub(super) mod gesture;
mod links;
mod matrix;
mod overlay;
mod survey;
mod toolbar;

use super::{TourPage, View, ViewContext, picture};
use crate::explorer::canvas::{Drag, Placed};
use crate::explorer::keys::Own;
use crate::explorer::mask::{Link, Paint};
use crate::explorer::settings::Settings;
use crate::explorer::snapshot::LayerId;
use crate::explorer::theme;
use crate::numbers::{grouped, percent};
use crate::words::plural;
use eframe::egui::{self, Color32, CursorIcon, Rect, Stroke, StrokeKind, TextStyle, pos2, vec2};
use gesture::Gesture;
use glam::UVec2;
use overlay::Overlay;
use survey::Survey;

/// What the left button does on the photograph.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Tool {
    /// A click chooses the query, a drag moves the picture.
    #[default]
    Query,
    Brush,
    Eraser,
    Rectangle,
    Fill,
    Link,
}

/// The view's own state; what is painted is in the document.
#[derive(Debug)]
pub struct MaskTopology {
    tool: Tool,
    paint: Paint,
    /// Diameter of brush and eraser in photograph pixels; `None` = in proportion to the photograph.
    brush: Option<f64>,
    /// Whether new links are mutual.
    mutual: bool,
    /// Regions of the selected link.
    selected: Option<(u8, u8)>,
    attention: bool,
    gesture: Option<Gesture>,
    survey: Survey,
    overlay: Overlay,
}

impl Default for MaskTopology {
    fn default() -> Self {
        Self {
            tool: Tool::default(),
            paint: Paint::Hidden,
            brush: None,
            mutual: true,
            selected: None,
            attention: false,
            gesture: None,
            survey: Survey::default(),
            overlay: Overlay::default(),
        }
    }
}

/// Diameter of the brush on a photograph until one is chosen.
fn usual_brush(photo: UVec2) -> f64 {
    (f64::from(photo.max_element()) / 12.0).round().max(1.0)
}

impl MaskTopology {
    fn brush(&self, photo: UVec2) -> f64 {
        self.brush.unwrap_or_else(|| usual_brush(photo))
    }

    /// What the tool in hand leaves behind.
    fn paint(&self) -> Paint {
        if self.tool == Tool::Eraser { Paint::Nothing } else { self.paint }
    }

    /// Keys that work while the view is on screen and no text is typed.
    fn keys(&mut self, ui: &egui::Ui, context: &mut ViewContext<'_>, photo: UVec2) {
        if ui.ctx().text_edit_focused() {
            return;
        }
        let ctx = ui.ctx();
        if matches!(self.tool, Tool::Brush | Tool::Eraser) {
            let (smaller, larger) = (Own::Less.pressed(ctx), Own::More.pressed(ctx));
            let now = self.brush(photo);
            let most = f64::from(photo.max_element().max(1));
            if smaller {
                self.brush = Some((now / 1.25).floor().max(1.0));
            }
            if larger {
                self.brush = Some((now * 1.25).ceil().min(most));
            }
        }
        if let Some((a, b)) = self.selected
            && Own::Remove.pressed(ctx)
        {
            context.mask.unlink(a, b);
            self.selected = None;
        }
        if (self.gesture.is_some() || self.selected.is_some()) && Own::GiveUp.pressed(ctx) {
            self.gesture = self.gesture.is_some().then_some(Gesture::Spent);
            self.selected = None;
        }
    }

    fn picture(&mut self, ui: &mut egui::Ui, space: Rect, context: &mut ViewContext<'_>) {
        ui.painter().rect_filled(space, 0.0, ui.visuals().extreme_bg_color);
        if let Some(photo) = context.textures.photo().map(|photo| photo.size) {
            self.keys(ui, context, photo);
        }
        let drag = if self.tool == Tool::Query { Drag::Pan } else { Drag::Tool };
        let layers: &[LayerId] = if self.attention { &[LayerId::Map] } else { &[] };
        let id = ui.scope_id().with("mask topology");
        let Some(placed) = picture::show_layer_in(ui, context, id, layers, drag, space) else { return };
        self.survey.look(context, placed.size);
        self.gesture(ui, &placed, context);
        self.survey.look(context, placed.size);

        let painter = ui.painter_at(space);
        if !context.canvas.peek {
            self.overlay.show(ui, &painter, &placed, context.mask, &self.survey);
            self.links(&painter, &placed, context.mask, ui.visuals());
            if let Some(rect) = self.survey.query_rect() {
                frame(&painter, Rect::from_min_max(placed.to_screen(rect.min), placed.to_screen(rect.max)));
            }
            picture::draw_marker(&painter, context, &placed);
        }
        self.tool_outline(ui, &painter, &placed);
        self.cursor(ui, &placed);
        if context.mask.is_empty() && self.gesture.is_none() {
            let text = match self.tool {
                Tool::Query => {
                    "Nothing is painted yet. Choose a brush above to hide keys or to paint regions."
                }
                Tool::Link => "Nothing is painted yet. Paint two regions, then drag from one to the other.",
                Tool::Fill => "Click on the picture to paint all of it.",
                Tool::Eraser => "Nothing is painted yet: there is nothing to erase.",
                Tool::Brush | Tool::Rectangle => "Drag on the picture to paint.",
            };
            context.canvas.texts.push(notice(ui, space, text));
        }
    }

    /// The brush under the pointer, or the rectangle being drawn.
    fn tool_outline(&self, ui: &egui::Ui, painter: &egui::Painter, placed: &Placed) {
        let (line, rim) = theme::MARK;
        let lines = [Stroke::new(3.0, rim), Stroke::new(1.5, line)];
        if let Some(Gesture::Rectangle { from, to }) = self.gesture {
            let rect = Rect::from_two_pos(placed.to_screen(from), placed.to_screen(to));
            let fill = self.colour(ui.visuals()).gamma_multiply(0.35);
            painter.rect_filled(rect, 0.0, fill);
            for stroke in lines {
                painter.rect_stroke(rect, 0.0, stroke, StrokeKind::Middle);
            }
        }
        let over = placed.response.contains_pointer() || self.gesture.is_some();
        let pointer = ui.input(|i| i.pointer.latest_pos()).filter(|_| over);
        if let (Some(at), Tool::Brush | Tool::Eraser) = (pointer, self.tool) {
            let radius = (self.brush(placed.size) as f32 / 2.0 * placed.scale()).max(1.0);
            painter.circle_filled(at, radius, self.colour(ui.visuals()).gamma_multiply(0.25));
            for stroke in lines {
                painter.circle_stroke(at, radius, stroke);
            }
        }
    }

    /// Colour of the paint in hand.
    fn colour(&self, visuals: &egui::Visuals) -> Color32 {
        match self.paint() {
            Paint::Hidden => theme::hidden(visuals).0,
            Paint::Region(region) => theme::region(region, visuals),
            Paint::Nothing => Color32::TRANSPARENT,
        }
    }

    fn cursor(&self, ui: &egui::Ui, placed: &Placed) {
        let moving = Own::Grab.held(ui.ctx())
            || placed.response.dragged_by(egui::PointerButton::Middle)
            || (self.tool == Tool::Query && placed.response.dragged());
        if placed.response.contains_pointer() || self.gesture.is_some() {
            let cursor = match self.tool {
                _ if moving => CursorIcon::Grabbing,
                Tool::Link => CursorIcon::PointingHand,
                _ => CursorIcon::Crosshair,
            };
            ui.ctx().set_cursor_icon(cursor);
        }
    }

    /// What the clicked query sees, in words.
    fn footer(&self, ui: &mut egui::Ui, context: &ViewContext<'_>) {
        let survey = &self.survey;
        let (Some(all), false) = (survey.tokens(), context.mask.is_empty()) else {
            if let Some(all) = survey.tokens() {
                ui.weak(format!(
                    "Every query sees all {} {}",
                    grouped(all as f64),
                    plural(all, "key", "keys")
                ));
            }
            return;
        };
        let share = percent(survey.seen() as f64 / all.max(1) as f64);
        let (place, own) = (*context.query, survey.query_region());
        let from = match own {
            _ if !survey.has_regions() => String::new(),
            0 => " in the unpainted region 0".into(),
            own => format!(" in region {own}"),
        };
        let sees = format!(
            "sees {} of {} {} ({share})",
            grouped(survey.seen() as f64),
            grouped(all as f64),
            plural(all, "key", "keys")
        );
        let text = format!("The query at ({}, {}){from} {sees}", place.x, place.y);
        if survey.seen() == 0 {
            let advice = ": no attention from here. Unhide an area, or link the region to another one";
            ui.colored_label(ui.visuals().warn_fg_color, format!("{text}{advice}"));
        } else {
            ui.label(text);
        }
    }
}

impl View for MaskTopology {
    fn id(&self) -> &'static str {
        "mask-topology"
    }

    fn title(&self) -> &'static str {
        "Mask topology"
    }

    fn about(&self) -> &'static str {
        "Hidden keys, regions and the links between them, painted on the picture, and what the clicked query may see."
    }

    fn has_controls(&self) -> bool {
        true
    }

    fn controls(&mut self, ui: &mut egui::Ui, context: &mut ViewContext<'_>) {
        ui.checkbox(&mut self.attention, "Attention under the mask")
            .on_hover_text("Draws the row of the clicked query between the picture and the mask");
        ui.add_space(6.0);
        self.link_list(ui, context.mask);
    }

    fn ui(&mut self, ui: &mut egui::Ui, context: &mut ViewContext<'_>) {
        self.toolbar(ui, context);
        let (rest, gap) = (ui.available_rect_before_wrap(), 8.0);
        let footer_height = ui.text_style_height(&TextStyle::Body) + 2.0;
        let (above, footer) = rest.split_top_bottom_at_y((rest.bottom() - footer_height).max(rest.top()));
        let above = above.with_max_y((above.bottom() - 4.0).max(above.top()));
        // The table's place depends on the window alone: it must not move the picture under the brush.
        let (picture, table) = if above.width() >= 640.0 {
            let width = (above.width() * 0.34).clamp(220.0, 380.0);
            let (left, right) = above.split_left_right_at_x(above.right() - width);
            (left.with_max_x(left.right() - gap), Some(right))
        } else if above.height() >= 600.0 {
            let (top, bottom) =
                above.split_top_bottom_at_y(above.bottom() - (above.height() * 0.36).clamp(220.0, 340.0));
            (top.with_max_y(top.bottom() - gap), Some(bottom))
        } else {
            (above, None)
        };
        self.picture(ui, picture, context);
        if let Some(space) = table {
            let mut inside = ui.new_child(egui::UiBuilder::new().max_rect(space));
            inside.set_clip_rect(space.intersect(ui.clip_rect()));
            egui::ScrollArea::vertical()
                .id_salt("table")
                .show(&mut inside, |ui| self.matrix(ui, context.mask));
        }
        let mut line = ui.new_child(egui::UiBuilder::new().max_rect(footer));
        line.style_mut().wrap_mode = Some(egui::TextWrapMode::Truncate);
        self.footer(&mut line, context);
        ui.advance_cursor_after_rect(rest);
    }

    fn tour(&self) -> Vec<TourPage> {
        vec![TourPage {
            title: "Masks painted by hand",
            formula: "outᵢ = Σⱼ mᵢⱼ wᵢⱼ vⱼ / Σⱼ mᵢⱼ wᵢⱼ,  mᵢⱼ = 1 where query i may see key j, else 0",
            text: "A mask decides which keys a query may look at; the weights of all others count as 0. Choose Brush and \
                   paint over something bright in the map: its keys are hidden, and the rest of the row shares its \
                   weight. Then paint two regions: a query sees only the keys of its own region, until you choose Link \
                   and drag from one to the other. The table beside the picture is the same mask as a matrix, one block \
                   per pair of regions; click a block to open or close it.",
            prepare: |settings| {
                *settings = Settings { device: settings.device.clone(), ..Settings::default() }
            },
        }]
    }
}

impl MaskTopology {
    /// Links as a list whose direction can be chosen.
    fn link_list(&mut self, ui: &mut egui::Ui, mask: &mut crate::explorer::mask::MaskDocument) {
        ui.strong("Links between regions");
        if mask.links().is_empty() {
            ui.weak("None. Choose Link above the picture and drag from one region to another.");
            return;
        }
        for link in mask.links().to_vec() {
            let Link { from, to, mutual } = link;
            let (a, b) = (from.min(to), from.max(to));
            ui.horizontal(|ui| {
                toolbar::chip(ui, a);
                let forms = [
                    (Link { from: a, to: b, mutual: true }, format!("{a} and {b} see each other")),
                    (Link { from: a, to: b, mutual: false }, format!("{a} sees {b}")),
                    (Link { from: b, to: a, mutual: false }, format!("{b} sees {a}")),
                ];
                let same = |other: &Link| if mutual { other.mutual } else { *other == link };
                let shown = forms.iter().find(|(form, _)| same(form)).map_or("", |(_, text)| text.as_str());
                let list = egui::ComboBox::from_id_salt(("link", a, b)).selected_text(shown).width(176.0);
                let chosen = list.show_ui(ui, |ui| {
                    for (form, text) in &forms {
                        if ui.selectable_label(same(form), text).clicked() {
                            mask.link(*form);
                        }
                    }
                });
                chosen.response.accessible_name(format!("Direction of the link {a} to {b}"));
                toolbar::chip(ui, b);
                if ui
                    .button("Remove")
                    .on_hover_text(format!("Removes the link between {a} and {b}"))
                    .clicked()
                {
                    mask.unlink(a, b);
                }
            });
        }
    }
}

/// A frame round the query's token where tokens are large enough to be told apart.
fn frame(painter: &egui::Painter, token: Rect) {
    let (line, rim) = theme::MARK;
    if token.width() >= 20.0 {
        painter.rect_stroke(token, 0.0, Stroke::new(3.0, rim), StrokeKind::Middle);
        painter.rect_stroke(token, 0.0, Stroke::new(1.5, line), StrokeKind::Middle);
    }
}

/// A line of advice on the picture; where it was drawn.
fn notice(ui: &egui::Ui, space: Rect, text: &str) -> Rect {
    let visuals = ui.visuals();
    let font = TextStyle::Body.resolve(ui.style());
    let wrap = (space.width() - 40.0).max(60.0);
    let galley = ui.painter().layout(text.to_owned(), font, visuals.strong_text_color(), wrap);
    let size = galley.size() + vec2(20.0, 12.0);
    let anchor = pos2(space.center().x, space.bottom() - 12.0 - size.y / 2.0);
    let rect = Rect::from_center_size(anchor, size);
    let painter = ui.painter_at(space);
    painter.rect(
        rect,
        6.0,
        visuals.window_fill.gamma_multiply(0.92),
        visuals.window_stroke,
        StrokeKind::Inside,
    );
    painter.galley(rect.min + vec2(10.0, 6.0), galley, visuals.strong_text_color());
    rect
}
