//! What a mask means in tokens: counted when the mask, the grid or the query changes, not every frame.

use crate::explorer::mask::{REGIONS, RegionPlace, is_hidden, region_of};
use crate::explorer::views::ViewContext;
use crate::vision::grid::{PixelRect, TokenGrid};
use glam::{DVec2, UVec2};

/// Tokens of one region.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Tally {
    /// Those that can be keys.
    pub(super) shown: usize,
    /// Those hidden as keys.
    pub(super) hidden: usize,
}

/// Counts and places.
#[derive(Debug, Default)]
pub(super) struct Survey {
    revision: Option<u64>,
    grid: Option<TokenGrid>,
    labels: Vec<u8>,
    tallies: [Tally; REGIONS as usize + 1],
    places: Vec<RegionPlace>,
    query: Option<usize>,
    seen: Vec<u8>,
    seen_count: usize,
}

impl Survey {
    /// Brings everything up to date.
    pub(super) fn look(&mut self, context: &ViewContext<'_>, photo: UVec2) {
        // Planned here instead of taken from the engine's last answer, which may be of another picture.
        let compute = &context.settings.compute;
        let grid = TokenGrid::plan(photo, compute.patch, compute.stride, compute.max_tokens).ok();
        let revision = Some(context.mask.revision());
        let new_mask = self.revision != revision;
        let new_grid = self.grid != grid;
        if new_mask {
            self.places = context.mask.region_places();
        }
        if new_mask || new_grid {
            self.labels = grid.as_ref().map(|grid| context.mask.token_labels(grid)).unwrap_or_default();
            self.tallies = Default::default();
            for label in &self.labels {
                if let Some(tally) = self.tallies.get_mut(usize::from(region_of(*label))) {
                    *(if is_hidden(*label) { &mut tally.hidden } else { &mut tally.shown }) += 1;
                }
            }
        }
        let inside = context.query.min(photo.saturating_sub(UVec2::ONE));
        let query = grid.as_ref().and_then(|grid| grid.token_at(inside).ok());
        if new_mask || new_grid || self.query != query {
            self.query = query;
            self.seen = context.mask.seen(&self.labels, self.query_region());
            self.seen_count = self.seen.iter().filter(|seen| **seen == 1).count();
        }
        (self.revision, self.grid) = (revision, grid);
    }

    /// Whether the token at a place of the photograph is hidden as a key; `None` where the settings allow no grid.
    pub(super) fn hides(&self, at: DVec2) -> Option<bool> {
        let grid = self.grid.as_ref()?;
        let last = UVec2::new(grid.cols() as u32, grid.rows() as u32).saturating_sub(UVec2::ONE);
        let cell = (at.max(DVec2::ZERO) / grid.effective_stride()).as_uvec2().min(last);
        let label = self.labels.get(cell.y as usize * grid.cols() + cell.x as usize)?;
        Some(is_hidden(*label))
    }

    /// Number of tokens; `None` where the settings allow no grid.
    pub(super) fn tokens(&self) -> Option<usize> {
        self.grid.as_ref().map(TokenGrid::tokens)
    }

    /// The grid.
    pub(super) fn grid(&self) -> Option<&TokenGrid> {
        self.grid.as_ref()
    }

    /// Whether any region is painted.
    pub(super) fn has_regions(&self) -> bool {
        !self.places.is_empty()
    }

    /// Regions that have cells and where their handles are.
    pub(super) fn places(&self) -> &[RegionPlace] {
        &self.places
    }

    /// Tokens of a region.
    pub(super) fn tally(&self, region: u8) -> Tally {
        self.tallies.get(usize::from(region)).copied().unwrap_or_default()
    }

    /// Tokens hidden as keys.
    pub(super) fn hidden(&self) -> usize {
        self.tallies.iter().map(|tally| tally.hidden).sum()
    }

    /// Keys the query sees, 1 or 0, `[token]`.
    pub(super) fn seen_keys(&self) -> &[u8] {
        &self.seen
    }

    /// How many.
    pub(super) fn seen(&self) -> usize {
        self.seen_count
    }

    /// Region of the query.
    pub(super) fn query_region(&self) -> u8 {
        self.query.and_then(|token| self.labels.get(token)).map_or(0, |label| region_of(*label))
    }

    /// The query's token and where it lies.
    pub(super) fn query_rect(&self) -> Option<PixelRect> {
        self.grid.as_ref()?.token_rect(self.query?).ok()
    }
}
