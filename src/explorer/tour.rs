//! The guided tour: a window that goes through the pages of all views, sets things up for each, and leaves them to be
//! played with. The pages come from the list of views.

use super::keys::{ARROWS, Own};
use super::settings::{Compute, Fusion, Look, Settings};
use super::views::{TourPage, View};
use super::widgets::{formula, small_print};
use eframe::egui::{self, Context, RichText, Ui};

/// A page with the view it is about.
#[derive(Clone, Debug)]
pub struct Page {
    /// Id of the view to look at; `None` = whichever there is.
    pub view: Option<&'static str>,
    /// The page.
    pub page: TourPage,
}

/// What the tour asks of the program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TourRequest {
    /// Shows the view with this id.
    OpenView(&'static str),
    /// The tour is over.
    Ended,
}

/// The first page: what clicking does.
fn first_page() -> TourPage {
    TourPage {
        title: "Attention of a pixel",
        formula: "out[i] = Σⱼ w[i, j] v[j]",
        text: "The picture is cut into small squares, the tokens. To work out what one of them means, attention \
               looks at all of them and weighs each by how alike the two are.\n\n\
               Click anywhere in the picture. That token is now the query i, and the colours show its weights \
               w[i, j]: bright is where it looks. This is one row of a matrix with as many rows as there are tokens; \
               only the row that you ask for is ever computed.\n\n\
               Click on an edge, on a plain wall, on an eye. Rest the pointer anywhere to read the numbers.",
        prepare: |settings| {
            settings.compute = Compute::default();
            settings.look = Look { fusion: Fusion::Mean, ..Look::default() };
        },
    }
}

/// All pages: the first one, then those of the views in the order of their menu.
pub fn pages(views: &[Box<dyn View>]) -> Vec<Page> {
    let first_view = views.first().map(|view| view.id());
    let own = views.iter().flat_map(|view| {
        let id = view.id();
        view.tour().into_iter().map(move |page| Page { view: Some(id), page })
    });
    std::iter::once(Page { view: first_view, page: first_page() }).chain(own).collect()
}

/// Where a reader is.
#[derive(Clone, Debug, Default)]
pub struct Tour {
    open: bool,
    at: usize,
    /// The page that was set up last, so that it happens once.
    prepared: Option<usize>,
    /// Whether Esc ended it in this frame.
    left: bool,
}

impl Tour {
    /// Begins at the first page.
    pub fn start(&mut self) {
        *self = Self { open: true, ..Self::default() };
    }

    /// Whether it is under way.
    pub fn is_open(&self) -> bool {
        self.open
    }

    /// Takes the keys that turn its pages, and Esc, which ends it, while it is open: arrows, page up and down.
    ///
    /// Call it before any other keys are looked at. Text fields, menus and drags keep theirs, and a control that has the
    /// keyboard keeps its arrows.
    pub fn take_keys(&mut self, ctx: &Context, pages: usize) {
        let busy = ctx.text_edit_focused() || egui::Popup::is_any_open(ctx);
        if !self.open || busy || ctx.input(|input| input.pointer.any_down()) {
            return;
        }
        let focused = ctx.memory(|memory| memory.focused().is_some());
        let kept: &[egui::Key] = if focused { &ARROWS } else { &[] };
        let (next, back) =
            (Own::NextPage.pressed_but_for(ctx, kept), Own::PreviousPage.pressed_but_for(ctx, kept));
        if next {
            self.at = (self.at + 1).min(pages.saturating_sub(1));
        } else if back {
            self.at = self.at.saturating_sub(1);
        }
        self.left = Own::Close.pressed(ctx);
    }

    /// Draws the window, and changes the settings to those of a page when it is turned to.
    ///
    /// A picture is best kept in sight beside it: it opens at the lower left, and can be moved.
    pub fn show(&mut self, ctx: &Context, pages: &[Page], settings: &mut Settings) -> Vec<TourRequest> {
        let mut requests = Vec::new();
        if !self.open || pages.is_empty() {
            return requests;
        }
        self.at = self.at.min(pages.len() - 1);
        let page = &pages[self.at];
        if self.prepared != Some(self.at) {
            self.prepared = Some(self.at);
            (page.page.prepare)(settings);
            requests.extend(page.view.map(TourRequest::OpenView));
        }
        let screen = ctx.content_rect();
        let mut open = !self.left;
        let mut turn = None;
        egui::Window::new("Guided tour")
            .open(&mut open)
            .collapsible(false)
            .resizable(false)
            .pivot(egui::Align2::LEFT_BOTTOM)
            .default_pos(screen.left_bottom() + egui::vec2(20.0, -44.0))
            .default_width(WIDTH)
            .constrain(true)
            .show(ctx, |ui| {
                ui.set_width(WIDTH.min(screen.width() - 40.0));
                turn = draw(ui, page, self.at, pages.len());
            });
        match turn {
            Some(Turn::Back) => self.at = self.at.saturating_sub(1),
            Some(Turn::Next) if self.at + 1 < pages.len() => self.at += 1,
            Some(Turn::Next | Turn::Skip) => open = false,
            None => {}
        }
        if !open {
            *self = Self::default();
            requests.push(TourRequest::Ended);
        }
        requests
    }
}

/// Width of the window's content, in points.
const WIDTH: f32 = 400.0;

enum Turn {
    Back,
    Next,
    Skip,
}

fn draw(ui: &mut Ui, page: &Page, at: usize, of: usize) -> Option<Turn> {
    let last = at + 1 == of;
    ui.spacing_mut().item_spacing.y = 8.0;
    ui.add_space(2.0);
    ui.label(RichText::new(page.page.title).heading().strong());
    if !page.page.formula.is_empty() {
        egui::Frame::new()
            .fill(ui.visuals().faint_bg_color)
            .stroke(ui.visuals().widgets.noninteractive.bg_stroke)
            .corner_radius(6.0)
            .inner_margin(egui::Margin::symmetric(12, 8))
            .show(ui, |ui| {
                ui.set_width(ui.available_width());
                formula(ui, page.page.formula);
            });
    }
    for paragraph in page.page.text.split("\n\n") {
        let text = RichText::new(paragraph).color(ui.visuals().widgets.inactive.text_color());
        ui.add(egui::Label::new(text).wrap());
    }
    if last {
        let end = "That was the tour. Everything stays as it is: go on from here. F1 begins it again.";
        ui.label(RichText::new(end).weak());
    }
    ui.add_space(2.0);
    let mut turn = None;
    ui.horizontal(|ui| {
        let count = RichText::new(format!("{} of {of}", at + 1)).size(small_print(ui)).weak();
        ui.label(count);
        ui.with_layout(egui::Layout::right_to_left(egui::Align::Center), |ui| {
            let width = egui::vec2(72.0, 24.0);
            let next = egui::Button::new(if last { "Finish" } else { "Next" }).min_size(width).selected(true);
            if ui.add(next).clicked() {
                turn = Some(Turn::Next);
            }
            if ui.add_enabled(at > 0, egui::Button::new("Back").min_size(width)).clicked() {
                turn = Some(Turn::Back);
            }
            if !last && ui.add(egui::Button::new("Skip tour").frame(false)).clicked() {
                turn = Some(Turn::Skip);
            }
        });
    });
    turn
}
