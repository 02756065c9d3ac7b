//! What the kernels on pieces of forests share: their arrays on the CPU, made-up pieces for cases, their checks.
//!
//! * `pieces` `[g, 4]`: first spot, end, its own row one level up, and that of the piece that it hangs from; past all rows for none.
//! * `links` `[n, 3]` by spot: the row of `x`, steps back to the spot that it hangs from with four bits
//!   (see [`pieces`](crate::topology::tree::pieces)), and the row of that spot.
//!
//! Places past the lists give nothing; steps back that leave the piece end at its first spot.

use crate::kernel::wgsl_module::Shared;
use crate::kernel::{Caps, HostArgs, Real};
use crate::tensor::{Dims, HostData};
use crate::topology::tree::pieces::{BACK, BOTTOM, PARTIAL, mark};
use std::ops::Range;
use std::sync::Arc;

/// Members of a piece.
pub const PIECE: &Shared =
    &Shared { file: "tree/piece.wgsl", body: include_str!("../../../shaders/tree/piece.wgsl") };
/// One channel at a time.
pub const WORDS: &Shared =
    &Shared { file: "tree/words.wgsl", body: include_str!("../../../shaders/tree/words.wgsl") };
/// Four channels at a time.
pub const VECTORS: &Shared =
    &Shared { file: "tree/vectors.wgsl", body: include_str!("../../../shaders/tree/vectors.wgsl") };

/// The arrays of a reference.
pub(super) struct Arrays {
    pieces: Arc<Vec<u32>>,
    links: Arc<Vec<u32>>,
    nodes: usize,
}

impl Arrays {
    pub(super) fn of<T: Real>(args: &HostArgs<T>) -> Self {
        Self { pieces: args.words("pieces"), links: args.words("links"), nodes: args.dims.at("n") }
    }

    pub(super) fn members(&self, piece: usize) -> Range<usize> {
        let end = (self.pieces[4 * piece + 1] as usize).min(self.nodes);
        (self.pieces[4 * piece] as usize).min(end)..end
    }

    /// The piece's own row above.
    pub(super) fn own(&self, piece: usize) -> usize {
        self.pieces[4 * piece + 2] as usize
    }

    /// The row above of the piece that it hangs from.
    pub(super) fn above(&self, piece: usize) -> usize {
        self.pieces[4 * piece + 3] as usize
    }

    pub(super) fn node(&self, spot: usize) -> usize {
        (self.links[3 * spot] as usize).min(self.nodes - 1)
    }

    /// The row of the spot that `spot` hangs from.
    pub(super) fn parent_node(&self, spot: usize) -> usize {
        (self.links[3 * spot + 2] as usize).min(self.nodes - 1)
    }

    pub(super) fn link(&self, spot: usize) -> u32 {
        self.links[3 * spot + 1]
    }

    /// Steps back to the spot that `spot` hangs from, 0 for the outside.
    pub(super) fn back(&self, spot: usize, first: usize) -> usize {
        ((self.link(spot) & BACK) as usize).min(spot - first)
    }
}

/// Refuses rows of `x` that are not whole.
pub(super) fn check_pairs(words: u32, paired: u32) -> std::result::Result<(), String> {
    if paired > 1 {
        return Err(format!("paired is 0 or 1, got {paired}"));
    }
    if paired == 1 && !words.is_multiple_of(2) {
        return Err(format!("rows of pairs have an even number of words, got {words}"));
    }
    Ok(())
}

/// Whether one thread may walk the longest piece `loops` times; 0 = not known, taken as all spots.
pub(super) fn walkable(d: &Dims, longest: u32, loops: u64, caps: &Caps) -> bool {
    loops * u64::from(if longest == 0 { d.size("n") } else { longest }) <= caps.loop_rounds
}

/// The spots of piece `k` of `g` in cases.
fn share(k: u32, g: u32, n: u32) -> Range<u32> {
    let at = |k: u32| (u64::from(k) * u64::from(n) / u64::from(g.max(1))) as u32;
    at(k)..at(k + 1)
}

/// Made-up pieces: equal parts of all spots, most of which hang from one above.
pub(super) fn some_pieces(d: &Dims) -> HostData {
    let (n, g, m) = (d.size("n"), d.size("g"), d.size("m"));
    let one = |k: u32| {
        let part = share(k, g, n);
        // Those with rows above are the first.
        let own = if k < m { m - 1 - k } else { u32::MAX };
        [part.start, part.end, own, if k.is_multiple_of(5) { u32::MAX } else { (k * 7 + 3) % m.max(1) }]
    };
    HostData::U32((0..g).flat_map(one).collect())
}

/// Their members: paths, and what hangs from them; rows of x in another order.
pub(super) fn some_links(d: &Dims) -> HostData {
    let (n, g) = (d.size("n"), d.size("g"));
    let mut list = Vec::new();
    for k in 0..g {
        let part = share(k, g, n);
        let from = list.len();
        let length = part.end - part.start;
        for place in 0..length {
            let back = match place {
                0 => 0,
                p if p <= length / 3 || p % 3 == 0 => 1,
                p => 1 + (p * 7 + k) % p,
            };
            let bottom = if length > 1 && place == length / 3 { BOTTOM } else { 0 };
            let row = |place| row_of(part.start + place, n);
            list.extend([row(place), back | bottom, row(place - back)]);
        }
        mark(&mut list[from..]);
    }
    HostData::U32(list)
}

/// A rearrangement of rows.
fn row_of(spot: u32, n: u32) -> u32 {
    let step = [5_u32, 7, 11, 13].into_iter().find(|s| !n.is_multiple_of(*s)).unwrap_or(1);
    ((u64::from(spot) * u64::from(step) + 2) % u64::from(n)) as u32
}

/// Pieces that no layout has: backwards, past the end.
pub(super) fn bad_pieces(d: &Dims) -> HostData {
    let n = d.size("n");
    let one = |k: u32| match k % 4 {
        0 => [n + 4, 2, u32::MAX, k],
        1 if k == 1 => [n - 5, u32::MAX, u32::MAX, 0],
        _ => [n, u32::MAX - k, u32::MAX - k, 1],
    };
    HostData::U32((0..d.size("g")).flat_map(one).collect())
}

/// Links that no layout has: rows past the end, steps back past the beginning. Sums that are said to be there and are not would be
/// what the memory held before.
pub(super) fn bad_links(d: &Dims) -> HostData {
    HostData::U32((0..d.size("n")).flat_map(|s| [u32::MAX - s, (u32::MAX >> (s % 17)) & !PARTIAL, u32::MAX]).collect())
}

/// A path in pieces of 64.
pub(super) fn path_pieces(d: &Dims) -> HostData {
    let n = d.size("n");
    let one = |k: u32| [k * 64, (k * 64 + 64).min(n), k, if k == 0 { u32::MAX } else { k - 1 }];
    HostData::U32((0..d.size("g")).flat_map(one).collect())
}

/// See [`path_pieces`].
pub(super) fn path_links(d: &Dims) -> HostData {
    let n = d.size("n");
    let mut list: Vec<u32> = (0..n).flat_map(|s| [s, u32::from(s % 64 > 0), s.saturating_sub(1)]).collect();
    for piece in list.chunks_mut(3 * 64) {
        piece.chunks_mut(3).last().into_iter().for_each(|last| last[1] |= BOTTOM);
        mark(piece);
    }
    HostData::U32(list)
}
