//! Which region sees which: links between regions, mutual or one way.

use super::{MaskDocument, REGIONS};
use serde::{Deserialize, Serialize};

/// A link: queries in region `from` see the keys of region `to`, and the other way round if `mutual`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Link {
    /// Region of the queries, 0…[`REGIONS`].
    pub from: u8,
    /// Region of the keys, 0…[`REGIONS`].
    pub to: u8,
    /// Whether `to` sees `from` as well.
    pub mutual: bool,
}

impl Link {
    /// Whether both regions exist and differ.
    pub fn is_valid(&self) -> bool {
        self.from != self.to && self.from <= REGIONS && self.to <= REGIONS
    }

    /// The same link with the smaller number first where direction says nothing.
    fn sorted(self) -> Self {
        let (from, to) = (self.from.min(self.to), self.from.max(self.to));
        if self.mutual { Self { from, to, mutual: true } } else { self }
    }

    fn joins(&self, a: u8, b: u8) -> bool {
        (self.from, self.to) == (a, b) || (self.from, self.to) == (b, a)
    }
}

impl MaskDocument {
    /// All links, at most one per pair of regions, sorted; a mutual one has `from` < `to`.
    pub fn links(&self) -> &[Link] {
        &self.links
    }

    /// The link between two regions, whatever its direction.
    pub fn link_between(&self, a: u8, b: u8) -> Option<Link> {
        self.links.iter().find(|link| link.joins(a, b)).copied()
    }

    /// Links two regions in place of any link between them. Whether that changed anything: a region cannot be linked to
    /// itself, which it sees anyway, or to one that does not exist.
    pub fn link(&mut self, link: Link) -> bool {
        let link = link.sorted();
        if !link.is_valid() || self.links.contains(&link) {
            return false;
        }
        self.links.retain(|other| !other.joins(link.from, link.to));
        let at = self.links.partition_point(|other| *other < link);
        self.links.insert(at, link);
        self.changed();
        true
    }

    /// Removes the link between two regions. Whether there was one.
    pub fn unlink(&mut self, a: u8, b: u8) -> bool {
        let before = self.links.len();
        self.links.retain(|link| !link.joins(a, b));
        let removed = self.links.len() < before;
        if removed {
            self.changed();
        }
        removed
    }

    /// Whether queries in region `from` see the keys of region `to`, once any region is painted. One step only: what a
    /// linked region is linked to is not seen through it.
    pub fn sees(&self, from: u8, to: u8) -> bool {
        let link = |link: &Link| {
            (link.from, link.to) == (from, to) || (link.mutual && (link.to, link.from) == (from, to))
        };
        from == to || self.links.iter().any(link)
    }

    /// Lets queries in region `from` see the keys of region `to`, or not; the other direction stays as it is. Whether
    /// that changed anything.
    pub fn set_sees(&mut self, from: u8, to: u8, seen: bool) -> bool {
        if from == to || self.sees(from, to) == seen {
            return false;
        }
        match (seen, self.sees(to, from)) {
            (true, mutual) => self.link(Link { from, to, mutual }),
            (false, true) => self.link(Link { from: to, to: from, mutual: false }),
            (false, false) => self.unlink(from, to),
        }
    }

    /// Regions whose keys queries in `region` see, in order: itself and those it is linked to.
    pub fn reach(&self, region: u8) -> Vec<u8> {
        (0..=REGIONS).filter(|to| self.sees(region, *to)).collect()
    }
}
