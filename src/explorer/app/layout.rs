//! Which views are open and where: tabs and tiles that can be dragged.

use crate::explorer::views::{View, ViewContext};
use eframe::egui;
use egui_tiles::{Behavior, SimplificationOptions, Tile, TileId, Tiles, Tree, UiResponse};

/// Tiles of views; a pane is the place of its view in the list.
pub(super) struct Layout {
    tree: Tree<usize>,
}

impl Layout {
    /// The views of the given ids side by side, the others as tabs behind the first; all as tabs if none is given.
    pub(super) fn new(views: &[Box<dyn View>], open: &[String]) -> Self {
        let mut tiles = Tiles::default();
        let place = |id: &String| views.iter().position(|v| v.id() == id);
        let wanted: Vec<usize> = open.iter().filter_map(place).collect();
        let first = wanted.first().copied().unwrap_or(0);
        let behind = (0..views.len()).filter(|v| !wanted.contains(v) || *v == first);
        let tabs: Vec<TileId> = behind.map(|v| tiles.insert_pane(v)).collect();
        let front = tabs.iter().copied().find(|t| tiles.get_pane(t) == Some(&first));
        let main = tiles.insert_tab_tile(tabs);
        if let (Some(Tile::Container(egui_tiles::Container::Tabs(tabs))), Some(front)) =
            (tiles.get_mut(main), front)
        {
            tabs.set_active(front);
        }
        let mut columns = vec![main];
        for view in wanted.into_iter().skip(1) {
            let pane = tiles.insert_pane(view);
            columns.push(tiles.insert_tab_tile(vec![pane]));
        }
        let root = if columns.len() == 1 { main } else { tiles.insert_horizontal_tile(columns) };
        Self { tree: Tree::new(egui::Id::unique("views"), root, tiles) }
    }

    /// Views on screen.
    pub(super) fn visible(&self) -> Vec<usize> {
        let active = self.tree.active_tiles().into_iter();
        active.filter_map(|tile| self.tree.tiles.get_pane(&tile).copied()).collect()
    }

    /// Ids of the views on screen.
    pub(super) fn open_ids(&self, views: &[Box<dyn View>]) -> Vec<String> {
        self.visible().into_iter().filter_map(|v| views.get(v)).map(|v| v.id().to_string()).collect()
    }

    /// Brings a view to the front.
    pub(super) fn show(&mut self, view: usize) {
        if !self.tree.make_active(|_, tile| *tile == Tile::Pane(view)) {
            let pane = self.tree.tiles.insert_pane(view);
            if let Some(root) = self.tree.root() {
                self.tree.move_tile_to_container(pane, root, usize::MAX, false);
            }
        }
    }

    /// The list of views as a menu.
    pub(super) fn menu(&mut self, ui: &mut egui::Ui, views: &[Box<dyn View>]) {
        ui.set_min_width(220.0);
        let visible = self.visible();
        for (place, view) in views.iter().enumerate() {
            let shown = visible.contains(&place);
            if ui.selectable_label(shown, view.title()).on_hover_text(view.about()).clicked() {
                self.show(place);
                ui.close();
            }
        }
        ui.separator();
        ui.weak("Drag tabs to place views side by side.");
    }

    /// Draws the tiles.
    pub(super) fn ui(
        &mut self,
        ui: &mut egui::Ui,
        views: &mut [Box<dyn View>],
        context: &mut ViewContext<'_>,
    ) {
        self.tree.ui(&mut Panes { views, context }, ui);
    }
}

struct Panes<'a, 'b> {
    views: &'a mut [Box<dyn View>],
    context: &'a mut ViewContext<'b>,
}

impl Behavior<usize> for Panes<'_, '_> {
    fn pane_ui(&mut self, ui: &mut egui::Ui, _: TileId, pane: &mut usize) -> UiResponse {
        if let Some(view) = self.views.get_mut(*pane) {
            // Ids of the view and not of the tiles around it: what egui remembers of a plot or a table goes along when its tile
            // is moved, and does not pile up with every move.
            let own = egui::UiBuilder::new().scope_id(egui::Id::unique(("view", view.id())));
            ui.scope_builder(own, |ui| view.ui(ui, self.context));
        }
        UiResponse::None
    }

    fn tab_title_for_pane(&mut self, pane: &usize) -> egui::WidgetText {
        self.views.get(*pane).map_or("", |v| v.title()).into()
    }

    fn simplification_options(&self) -> SimplificationOptions {
        SimplificationOptions { all_panes_must_have_tabs: true, ..SimplificationOptions::default() }
    }
}
