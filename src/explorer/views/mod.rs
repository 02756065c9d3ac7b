//! What the explorer can show: one trait, one list. Menu, tiles, tour, documentation and snapshot tests come from the list.
//!
//! A new view is one file with a `View`, and one line in [`views`].

mod attention;
mod compare;
mod convergence;
mod diffusion;
mod distances;
mod edges;
mod landmarks;
pub mod mask_topology;
mod network;
mod parity;
pub mod picture;
mod plots;
mod position;
mod relative_mask;
mod schedule;
mod tree;

#[cfg(test)]
pub(super) use {
    network::rows_of as network_rows, position::row_of as position_row, tree::grown_over as network_tree,
};

use super::canvas::Canvas;
use super::command::{Copied, Input};
use super::document::Document;
use super::mask::MaskDocument;
use super::networks::{Cuts, Loader};
use super::settings::Settings;
use super::snapshot::{Needs, Snapshot};
use super::textures::Textures;
use crate::vision::image::Photo;
use eframe::egui;
use glam::UVec2;
use std::sync::Arc;

/// What a view sees and may change while it is drawn. Changes take effect with the next frame; they can be undone.
pub struct ViewContext<'a> {
    /// Settings.
    pub settings: &'a mut Settings,
    /// Clicked pixel of the photograph.
    pub query: &'a mut UVec2,
    /// Pan, zoom and pointer of all pictures: linked.
    pub canvas: &'a mut Canvas,
    /// Painted masks and regions.
    pub mask: &'a mut MaskDocument,
    /// What was cut and linked for diffusions.
    pub cuts: &'a mut Cuts,
    /// The photograph itself.
    pub photo: Option<&'a Arc<Photo>>,
    /// What the engine found last; `None` before its first answer.
    pub snapshot: Option<&'a Snapshot>,
    /// The photograph and the engine's pictures as egui draws them.
    pub textures: &'a mut Textures,
}

/// A page of the guided tour.
#[derive(Clone, Debug)]
pub struct TourPage {
    /// Heading.
    pub title: &'static str,
    /// The formula, one line.
    pub formula: &'static str,
    /// What there is to see, and what to try.
    pub text: &'static str,
    /// Changes the settings to those of the page.
    pub prepare: fn(&mut Settings),
}

/// Something to look at.
pub trait View {
    /// Short name for sessions, tests and file names: `attention`.
    fn id(&self) -> &'static str;

    /// Name for people: "Attention".
    fn title(&self) -> &'static str;

    /// One sentence: what it shows.
    fn about(&self) -> &'static str;

    /// What it needs computed while it is on screen.
    fn needs(&self) -> Needs {
        Needs::default()
    }

    /// Its own controls, drawn in the side panel under the common ones while it is on screen.
    fn controls(&mut self, _ui: &mut egui::Ui, _context: &mut ViewContext<'_>) {}

    /// Whether [`View::controls`] draws anything.
    fn has_controls(&self) -> bool {
        false
    }

    /// Whether it is still at work on what it shows.
    fn is_busy(&self) -> bool {
        false
    }

    /// The command line of what it shows, where that is not the map; `input` is the picture in sight.
    ///
    /// Errors: what the command line cannot say, in one line for the user.
    fn command(
        &self,
        _document: &Document,
        _input: &Result<Input, String>,
    ) -> Option<Result<Copied, String>> {
        None
    }

    /// Looks again at what it read from files.
    fn reload(&mut self) {}

    /// Draws it into all of `ui`.
    fn ui(&mut self, ui: &mut egui::Ui, context: &mut ViewContext<'_>);

    /// Its pages of the tour.
    fn tour(&self) -> Vec<TourPage> {
        Vec::new()
    }
}

/// All views, in the order of the menu.
pub fn views() -> Vec<Box<dyn View>> {
    let networks = Arc::<Loader>::default();
    vec![
        Box::new(attention::Attention::default()),
        Box::new(compare::Compare),
        Box::new(landmarks::Landmarks),
        Box::<convergence::Convergence>::default(),
        Box::<distances::DistancesView>::default(),
        Box::<schedule::ScheduleView>::default(),
        Box::<parity::ParityView>::default(),
        Box::new(mask_topology::MaskTopology::default()),
        Box::<relative_mask::RelativeMask>::default(),
        Box::<diffusion::DiffusionView>::default(),
        Box::new(network::NetworkView::new(Arc::clone(&networks))),
        Box::new(tree::TreeView::new(networks)),
        Box::<position::PositionView>::default(),
    ]
}

/// The list as a Markdown table.
pub fn markdown_table() -> String {
    let line = |view: Box<dyn View>| format!("| {} | `{}` | {} |\n", view.title(), view.id(), view.about());
    let lines: String = views().into_iter().map(line).collect();
    format!("| view | `--view` | shows |\n|---|---|---|\n{lines}")
}
