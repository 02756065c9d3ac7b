//! What the kernels on pieces of forests share: their arrays on the CPU, made-up pieces for cases, their checks.
//!
//! * `pieces` `[g, 4]`: the first turn of its slice; its members, and above 16 bits its place in the slice; its own row one level up, and
//!   that of the piece that it hangs from, past all rows for none.
//! * `turns` `[r]`: the first spot of each turn of each slice. Member j of a piece is at spot `turns[first + j]` + its place.
//! * `links` `[n, 2]` by spot: the row of `x`, and steps back to the member that it hangs from with four bits
//!   (see [`pieces`](crate::topology::tree::pieces)).
//!
//! Turns past the list give nothing, rows and spots past the end are the last one; steps back that leave the piece end at its first member.

use crate::kernel::wgsl_module::Shared;
use crate::kernel::{Caps, HostArgs, Real};
use crate::tensor::{Dims, HostData};
use crate::topology::tree::pieces::{BACK, BOTTOM, MEMBER_BITS, PARTIAL, SLICE, mark};
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
    turns: Arc<Vec<u32>>,
    links: Arc<Vec<u32>>,
    nodes: usize,
}

impl Arrays {
    pub(super) fn of<T: Real>(args: &HostArgs<T>) -> Self {
        let [pieces, turns, links] = ["pieces", "turns", "links"].map(|port| args.words(port));
        Self { pieces, turns, links, nodes: args.dims.at("n") }
    }

    /// The spots of a piece, from its first member.
    pub(super) fn members(&self, piece: usize) -> Vec<usize> {
        let [first, word] = [self.pieces[4 * piece], self.pieces[4 * piece + 1]];
        let first = (first as usize).min(self.turns.len());
        let members = ((word & ((1 << MEMBER_BITS) - 1)) as usize).min(self.turns.len() - first);
        let spot = |turn: &u32| (turn.wrapping_add(word >> MEMBER_BITS) as usize).min(self.nodes - 1);
        self.turns[first..first + members].iter().map(spot).collect()
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
        (self.links[2 * spot] as usize).min(self.nodes - 1)
    }

    pub(super) fn link(&self, spot: usize) -> u32 {
        self.links[2 * spot + 1]
    }

    /// Steps back from the member at `place` of its piece to the one that it hangs from, 0 for the outside.
    pub(super) fn back(&self, spot: usize, place: usize) -> usize {
        ((self.link(spot) & BACK) as usize).min(place)
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

/// How many members piece `k` of `g` has in cases: near equal parts of all spots, the larger ones first.
fn share(k: u32, g: u32, n: u32) -> u32 {
    n / g.max(1) + u32::from(k < n % g.max(1))
}

/// The pieces of cases with their spots in turns, slice by slice: what they and [`some_turns`] are made of.
fn slices(d: &Dims) -> (Vec<u32>, Vec<[u32; 2]>) {
    let (n, g) = (d.size("n"), d.size("g"));
    let (mut turns, mut pieces, mut spot) = (Vec::new(), Vec::new(), 0);
    let all: Vec<u32> = (0..g).collect();
    for slice in all.chunks(SLICE) {
        let first = turns.len() as u32;
        for (place, k) in slice.iter().enumerate() {
            pieces.push([first, share(*k, g, n) | (place as u32) << MEMBER_BITS]);
        }
        for turn in 0..share(slice[0], g, n) {
            turns.push(spot);
            spot += slice.iter().filter(|k| share(**k, g, n) > turn).count() as u32;
        }
    }
    (turns, pieces)
}

/// Turns of slices of equal parts of `n` spots over `g` pieces: the size of dimension r.
pub(super) const fn turns_of(n: u32, g: u32) -> u32 {
    let (mut first, mut turns) = (0, 0);
    while first < g {
        turns += n / g + if first < n % g { 1 } else { 0 };
        first += SLICE as u32;
    }
    turns
}

/// Made-up pieces: equal parts of all spots, most of which hang from one above.
pub(super) fn some_pieces(d: &Dims) -> HostData {
    let m = d.size("m");
    let one = |(k, [first, members]): (u32, [u32; 2])| {
        // Those with rows above are the first.
        let own = if k < m { m - 1 - k } else { u32::MAX };
        [first, members, own, if k.is_multiple_of(5) { u32::MAX } else { (k * 7 + 3) % m.max(1) }]
    };
    HostData::U32((0..).zip(slices(d).1).flat_map(one).collect())
}

/// Where their turns begin.
pub(super) fn some_turns(d: &Dims) -> HostData {
    HostData::U32(slices(d).0)
}

/// Their members: paths, and what hangs from them; rows of x in another order.
pub(super) fn some_links(d: &Dims) -> HostData {
    let link = |k: u32, place: u32, length: u32| {
        let back = match place {
            0 => 0,
            p if p <= length / 3 || p % 3 == 0 => 1,
            p => 1 + (p * 7 + k) % p,
        };
        back | if length > 1 && place == length / 3 { BOTTOM } else { 0 }
    };
    linked(d, |spot| row_of(spot, d.size("n")), link)
}

/// Links of all spots from what `link` says of piece, place and length.
fn linked(d: &Dims, row: impl Fn(u32) -> u32, link: impl Fn(u32, u32, u32) -> u32) -> HostData {
    let (turns, pieces) = slices(d);
    let mut list = vec![0; 2 * d.at("n")];
    for (k, [first, word]) in (0..).zip(pieces) {
        let length = word & ((1 << MEMBER_BITS) - 1);
        let mut of_piece: Vec<u32> = (0..length).map(|place| link(k, place, length)).collect();
        mark(&mut of_piece);
        for (turn, link) in turns[first as usize..].iter().zip(of_piece) {
            let spot = turn + (word >> MEMBER_BITS);
            (list[2 * spot as usize], list[2 * spot as usize + 1]) = (row(spot), link);
        }
    }
    HostData::U32(list)
}

/// A rearrangement of rows.
fn row_of(spot: u32, n: u32) -> u32 {
    let step = [5_u32, 7, 11, 13].into_iter().find(|s| !n.is_multiple_of(*s)).unwrap_or(1);
    ((u64::from(spot) * u64::from(step) + 2) % u64::from(n)) as u32
}

/// Pieces that no layout has: with turns past the end, and one whose members end with the list.
pub(super) fn bad_pieces(d: &Dims) -> HostData {
    let r = d.size("r");
    let one = |k: u32| match k % 4 {
        0 => [r + 4, 2, u32::MAX, k],
        1 if k == 1 => [r.saturating_sub(5), u32::MAX, u32::MAX, 0],
        _ => [r, u32::MAX - k, u32::MAX - k, 1],
    };
    HostData::U32((0..d.size("g")).flat_map(one).collect())
}

/// Turns that no layout has: past all spots.
pub(super) fn bad_turns(d: &Dims) -> HostData {
    HostData::U32((0..d.size("r")).map(|r| u32::MAX - 70_000 * r).collect())
}

/// Links that no layout has: rows past the end, steps back past the beginning. Sums that are said to be there and are not would be
/// what the memory held before.
pub(super) fn bad_links(d: &Dims) -> HostData {
    HostData::U32((0..d.size("n")).flat_map(|s| [u32::MAX - s, (u32::MAX >> (s % 17)) & !PARTIAL]).collect())
}

/// A path in pieces of 64, numbered along them.
pub(super) fn path_pieces(d: &Dims) -> HostData {
    let one = |(k, [first, members]): (u32, [u32; 2])| [first, members, k, k.wrapping_sub(1)];
    HostData::U32((0..).zip(slices(d).1).flat_map(one).collect())
}

/// See [`path_pieces`].
pub(super) fn path_links(d: &Dims) -> HostData {
    linked(d, |spot| spot, |_, place, length| u32::from(place > 0) | if place + 1 == length { BOTTOM } else { 0 })
}
