//! What undo goes through and a session saves: settings, the clicked pixel and the painted masks.

use super::mask::MaskDocument;
use super::networks::Cuts;
use super::settings::Settings;
use super::snapshot::Needs;
use glam::UVec2;
use serde::{Deserialize, Serialize};

/// Everything the user made.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Document {
    /// Settings.
    pub settings: Settings,
    /// Clicked pixel of the photograph, [x, y].
    pub query: [u32; 2],
    /// Painted masks.
    pub mask: MaskDocument,
    /// What diffusions are cut off from, and linked to, on the picture.
    pub cuts: Cuts,
}

impl Document {
    /// Clicked pixel.
    pub fn query(&self) -> UVec2 {
        UVec2::from_array(self.query)
    }

    /// Whether the engine finds the same for both: what views work out themselves does not count.
    pub fn maps_as(&self, other: &Self, needs: Needs) -> bool {
        let (a, b) = (&self.settings, &other.settings);
        let settings = (&a.compute, &a.look, &a.device) == (&b.compute, &b.look, &b.device);
        let diffusion = (&a.networks.diffusion, &self.cuts) == (&b.networks.diffusion, &other.cuts);
        settings && (self.query, &self.mask) == (other.query, &other.mask) && (diffusion || !needs.diffusion)
    }
}

/// Most states that can be gone back to.
const MOST_STATES: usize = 200;

/// States to go back and forth between. A drag is one step: a state is kept only when the pointer is up.
#[derive(Clone, Debug, Default)]
pub struct History {
    past: Vec<Document>,
    future: Vec<Document>,
    last: Option<Document>,
}

impl History {
    /// Looks at the document after a frame; `settled` when no button is held, so that a drag becomes one step.
    pub fn look(&mut self, now: &Document, settled: bool) {
        match &self.last {
            None => self.last = Some(now.clone()),
            Some(last) if settled && last != now => {
                self.past.push(last.clone());
                let extra = self.past.len().saturating_sub(MOST_STATES);
                self.past.drain(..extra);
                self.future.clear();
                self.last = Some(now.clone());
            }
            Some(_) => {}
        }
    }

    /// Takes the document as it is for the present state, without a step: what changed was not the user's doing.
    pub fn accept(&mut self, now: &Document) {
        self.last = Some(now.clone());
    }

    /// The state before, if there is one.
    pub fn undo(&mut self, now: &mut Document) -> bool {
        let Some(before) = self.past.pop() else { return false };
        self.future.push(std::mem::replace(now, before));
        self.last = Some(now.clone());
        true
    }

    /// The state that was undone last.
    pub fn redo(&mut self, now: &mut Document) -> bool {
        let Some(after) = self.future.pop() else { return false };
        self.past.push(std::mem::replace(now, after));
        self.last = Some(now.clone());
        true
    }

    /// Whether there is something to undo.
    pub fn can_undo(&self) -> bool {
        !self.past.is_empty()
    }

    /// Whether there is something to redo.
    pub fn can_redo(&self) -> bool {
        !self.future.is_empty()
    }
}
