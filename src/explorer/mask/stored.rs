//! What a session writes of a mask: runs of equal labels instead of a quarter of a million cells.

use super::links::Link;
use super::{HIDDEN, LONG_SIDE, MaskDocument, REGIONS, region_of};
use crate::error::{Error, Result};
use crate::words::counted;
use glam::UVec2;
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// A mask in a file.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct Stored {
    /// Columns and rows of the bitmap.
    size: [u32; 2],
    /// Runs in raster order, length and label in turn.
    runs: Vec<u32>,
    /// Links.
    links: Vec<Link>,
}

impl From<MaskDocument> for Stored {
    fn from(mask: MaskDocument) -> Self {
        let runs = mask.cells.chunk_by(|a, b| a == b).flat_map(|run| {
            let label = run.first().copied().unwrap_or(0);
            [run.len() as u32, u32::from(label)]
        });
        Self { size: mask.size.to_array(), runs: runs.collect(), links: mask.links }
    }
}

impl TryFrom<Stored> for MaskDocument {
    type Error = Error;

    fn try_from(stored: Stored) -> Result<Self> {
        const AGAIN: &str = "the file is damaged or from a newer version: paint the mask again";
        let size = UVec2::from_array(stored.size);
        let (most, count) = (size.max_element(), u64::from(size.x) * u64::from(size.y));
        if most > LONG_SIDE || (count == 0) != (most == 0) {
            let got = format!("{}x{}", size.x, size.y);
            return Err(Error::value("size of the painted mask", "0x0 or sides 1 to 512", got, AGAIN));
        }
        let (runs, rest) = stored.runs.as_chunks::<2>();
        let total: u64 = runs.iter().map(|[length, _]| u64::from(*length)).sum();
        if total != count || !rest.is_empty() {
            let want = format!("runs over {}, length and label in turn", counted(count, "cell", "cells"));
            return Err(Error::value(
                "runs of the painted mask",
                want,
                counted(total, "cell", "cells"),
                AGAIN,
            ));
        }
        let mut cells = Vec::with_capacity(count as usize);
        for [length, label] in runs {
            let known = u8::try_from(*label).ok().filter(|label| region_of(*label) <= REGIONS);
            let Some(known) = known else {
                let want = format!("a region, 0 to {REGIONS}, plus {HIDDEN} where hidden");
                return Err(Error::value("a label of the painted mask", want, label, AGAIN));
            };
            cells.resize(cells.len() + *length as usize, known);
        }
        let mut mask = Self { size, cells: Arc::new(cells), ..Self::default() };
        for link in stored.links {
            if !link.is_valid() {
                let want = format!("two different regions, 0 to {REGIONS}");
                return Err(Error::value("a link of the painted mask", want, format!("{link:?}"), AGAIN));
            }
            mask.link(link);
        }
        mask.settle(true);
        Ok(mask)
    }
}
