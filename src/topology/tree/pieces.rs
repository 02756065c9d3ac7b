//! Pieces: a forest cut along its heavy paths into parts of bounded size, the parts again as nodes of a smaller forest, and so on, so
//! that sums over exponentials of distance need a few sweeps over short lists whatever the shape of the trees.
//!
//! A *piece* is a stretch of a heavy path with the small subtrees that hang from it, or a bundle of small subtrees that hang from one
//! node. It touches the rest at two points at most: the node outside that it hangs from, p, and its lowest path node b, from which
//! other pieces hang. Seen from outside it is a node with three numbers (with Q = exp(−λ d(p, b))): what it sends up to p by itself,
//! A = Σⱼ exp(−λ d(p, j)) xⱼ; what it adds to the sum at b, R = Σⱼ (exp(−λ d(b, j)) − exp(−λ (d(p, b) + d(p, j)))) xⱼ; and then
//!
//! ```text
//! up    S = Σ (A + Q S) of the pieces that hang from b
//! down  G = Q G(p) + R + (1 − Q²) S          the sum over all nodes, seen from b
//! ```
//!
//! A single node is a piece with A = e x, R = (1 − e²) x, Q = e, and these are the two sweeps of a tree; pieces of pieces obey the same
//! rules. Every number is a sum of positive terms for λ ≥ 0. A path is scanned in chunks this way, a star in bundles.

use super::Forest;
use crate::error::{Error, Result};
use crate::topology::NONE;

/// A piece has at most twice as many members.
pub const MEMBERS: usize = 32;
/// Pieces whose members lie in turns in memory: the first members of all, then the second ones. Neighbouring threads take neighbouring
/// pieces and then read neighbouring words. No more than the lanes of software drivers and the words of a sector of memory: with 64, each
/// stretch of lanes read every eighth line, and 10⁶ nodes took twice as long.
pub const SLICE: usize = 8;
/// Pieces that are put in order of size together, a whole number of slices.
const TOGETHER: usize = 64 * SLICE;
/// Bits of a piece's second word that hold its number of members; its place in its slice stands above them.
pub const MEMBER_BITS: u32 = 16;
/// Bit of a link: other members than the next one hang from this one.
pub const PARTIAL: u32 = 1 << 16;
/// Bit of a link: of the members that hang from the same one and do not follow it, this is the last.
pub const FIRST: u32 = 1 << 17;
/// Bit of a link: this is the piece's lowest path node.
pub const BOTTOM: u32 = 1 << 18;
/// Bit of a link: something hangs from this one, inside the piece or below its bottom.
pub const HELD: u32 = 1 << 19;
/// Bits of a link that hold the steps back to the member that this one hangs from, 0 where that is outside.
pub const BACK: u32 = PARTIAL - 1;

/// One level of pieces. *Spots* are its members in order: slice by slice of [`SLICE`] pieces, and in a slice in turns; of one piece the
/// path from its top down, then what hangs.
#[derive(Clone, Debug, PartialEq)]
pub struct Level {
    /// `[n, 2]` by spot: the node (at the lowest level; its own number above) and the link.
    pub links: Vec<u32>,
    /// `[r]` first spot of each turn of each slice.
    pub turns: Vec<u32>,
    /// `[g, 4]` by piece: the first turn of its slice; its members with its place in the slice ([`MEMBER_BITS`]); its own spot at the next
    /// level, and that of the piece that it hangs from; [`NONE`] for none. In a slice the pieces get no longer.
    pub pieces: Vec<u32>,
    /// Pieces that the next level has as spots: the first of the list. The others are whole trees.
    pub open: usize,
    /// `[n]` by spot: length from the point that it hangs from to its own lowest point.
    lengths: Vec<f64>,
    /// `[n]` whether nothing is above it.
    roots: Vec<bool>,
    /// `[n]` place in the piece of the path member nearest above, itself included; [`NONE`] where no path member is.
    forks: Vec<u32>,
}

/// The numbers of one level for one λ.
#[derive(Clone, Debug, PartialEq)]
pub struct Factors {
    /// `[n, 2]` Q and 1 − Q² of each spot.
    pub sweep: Vec<f32>,
    /// Of spots in open pieces, `[n, 2]` at the lowest level: what x gives to A and R; `[n, 3]` above: what A gives to A and R, and R to
    /// R.
    pub collect: Vec<f32>,
}

/// All levels, the nodes' first.
#[derive(Clone, Debug, PartialEq)]
pub struct Pieces {
    levels: Vec<Level>,
    nodes: usize,
    diameter: f64,
}

impl Pieces {
    /// Cuts a forest in O(n).
    pub fn new(forest: &Forest) -> Self {
        let mut trees = Tree {
            parents: forest.parents().to_vec(),
            lengths: forest.lengths().iter().map(|l| f64::from(*l)).collect(),
        };
        let mut cuts: Vec<(Tree, Cut)> = Vec::new();
        while !trees.parents.is_empty() {
            let cut = Cut::of(&trees);
            let next = cut.above(&trees);
            cuts.push((trees, cut));
            trees = next;
        }
        let mut levels: Vec<Level> = Vec::new();
        // From the top down: the order of a level's pieces is that of the spots above.
        let mut order: Vec<u32> = Vec::new();
        for (tree, cut) in cuts.iter().rev() {
            let (level, spots) = cut.laid_out(tree, &order, levels.is_empty());
            levels.push(level);
            order = spots;
        }
        levels.reverse();
        if let Some(first) = levels.first_mut() {
            first.links.chunks_mut(2).zip(&order).for_each(|(link, node)| link[0] = *node);
        }
        Self { levels, nodes: forest.nodes(), diameter: forest.diameter_length() }
    }

    /// Its levels, the nodes' first; none without nodes.
    pub fn levels(&self) -> &[Level] {
        &self.levels
    }

    /// Nodes of the forest.
    pub fn nodes(&self) -> usize {
        self.nodes
    }

    /// Longest path of the forest.
    pub fn diameter_length(&self) -> f64 {
        self.diameter
    }

    /// The nodes piece by piece: a forest whose nodes are numbered like this ([`Forest::renumbered`]) is swept from one end of memory to
    /// the other, and keeps this numbering. With numbers at random every row of every sweep is fetched by itself, which takes twice as
    /// long where the rows do not fit the caches (measured at 10⁶ nodes of 8 channels).
    pub fn order(&self) -> Vec<u32> {
        let Some(level) = self.levels.first() else { return Vec::new() };
        let spots = (0..level.pieces.len() / 4).flat_map(|piece| level.members(piece));
        spots.map(|spot| level.links[2 * spot]).collect()
    }

    /// Whether the nodes of pieces lie so far apart in so large a forest that several sweeps had better put the rows in order first. For
    /// one sweep that costs as much as it saves.
    pub fn is_scattered(&self) -> bool {
        const LARGE: usize = 1 << 16;
        /// Nodes that one page of memory holds, about.
        const NEAR: u32 = 128;
        if self.nodes < LARGE {
            return false;
        }
        let far = self.order().windows(2).filter(|pair| pair[0].abs_diff(pair[1]) > NEAR).count();
        4 * far > self.nodes
    }

    /// The numbers of every level for exp(−λ d), computed in f64.
    ///
    /// Errors: [`Error::Value`] for λ that is not finite, or negative: this form cancels then.
    pub fn factors(&self, lambda: f64) -> Result<Vec<Factors>> {
        if !(lambda.is_finite() && lambda >= 0.0) {
            let remedy = "weights that grow with distance have no all-positive scan: take a sum over siblings on the CPU \
                          (`topology::tree::oracle::exponential`), or a table of distances";
            return Err(Error::value("λ of a tree's decay", "finite, at least 0", lambda, remedy));
        }
        let lowest = |at: usize| at == 0;
        Ok(self.levels.iter().enumerate().map(|(at, level)| level.factors(lambda, lowest(at))).collect())
    }
}

impl Level {
    /// Number of spots.
    pub fn spots(&self) -> usize {
        self.links.len() / 2
    }

    /// The spots of a piece, from its first member.
    fn members(&self, piece: usize) -> impl Iterator<Item = usize> + '_ {
        let (turn, word) = (self.pieces[4 * piece] as usize, self.pieces[4 * piece + 1]);
        let (members, place) = ((word & ((1 << MEMBER_BITS) - 1)) as usize, word >> MEMBER_BITS);
        self.turns[turn..turn + members].iter().map(move |first| (first + place) as usize)
    }

    fn factors(&self, lambda: f64, lowest: bool) -> Factors {
        let decay = |d: f64| (-lambda * d).exp();
        // 1 − exp(−2 λ d) without cancellation.
        let rest = |d: f64| -(-2.0 * lambda * d).exp_m1();
        let root = |s: usize| self.roots[s];
        let mut sweep = Vec::with_capacity(2 * self.spots());
        for s in 0..self.spots() {
            let length = self.lengths[s];
            sweep.extend(if root(s) { [0.0, 1.0] } else { [decay(length) as f32, rest(length) as f32] });
        }
        let width = if lowest { 2 } else { 3 };
        let held: usize = (0..self.open).map(|piece| self.members(piece).count()).sum();
        let mut collect = vec![0.0; width * held];
        let mut depths: Vec<f64> = Vec::new();
        for piece in 0..self.open {
            let spots: Vec<usize> = self.members(piece).collect();
            let link = |place: usize| self.links[2 * spots[place] + 1];
            let back = |place: usize| (link(place) & BACK) as usize;
            depths.clear();
            for (place, spot) in spots.iter().enumerate() {
                let above = if back(place) == 0 { 0.0 } else { depths[place - back(place)] };
                depths.push(above + self.lengths[*spot]);
            }
            let bottom = (0..spots.len()).find(|place| link(*place) & BOTTOM != 0);
            // Seen from the bottom, less what comes by p: the way back to the path, along it, and what lies above is not counted twice.
            let seen = |far: f64, fork: u32| match (bottom, fork) {
                (Some(b), fork) if fork != NONE => {
                    let on_path = depths[fork as usize];
                    let way = (far - on_path) + (depths[b] - on_path);
                    decay(way) * if root(spots[0]) { 1.0 } else { rest(on_path) }
                }
                _ => 0.0,
            };
            for (place, spot) in spots.iter().enumerate() {
                let depth = depths[place];
                let weights = &mut collect[width * spot..][..width];
                if lowest {
                    weights
                        .copy_from_slice(&[decay(depth), seen(depth, self.forks[*spot])].map(|x| x as f32));
                    continue;
                }
                let (far, fork) = match back(place) {
                    0 => (0.0, NONE),
                    back => (depths[place - back], self.forks[spots[place - back]]),
                };
                let on_path = self.forks[*spot] as usize == place;
                let along = bottom.filter(|_| on_path).map_or(0.0, |b| decay(depths[b] - depth));
                weights.copy_from_slice(&[decay(far), seen(far, fork), along].map(|x| x as f32));
            }
        }
        Factors { sweep, collect }
    }
}

/// The forest of one level while it is cut.
struct Tree {
    parents: Vec<u32>,
    lengths: Vec<f64>,
}

impl Tree {
    /// Children of all nodes, one after the other, and where each node's begin.
    fn children(&self) -> (Vec<u32>, Vec<u32>) {
        let n = self.parents.len();
        let mut starts = vec![0_u32; n + 1];
        let edges = || self.parents.iter().enumerate().filter(|(_, p)| **p != NONE);
        edges().for_each(|(_, p)| starts[*p as usize + 1] += 1);
        for i in 0..n {
            starts[i + 1] += starts[i];
        }
        let mut next = starts.clone();
        let mut children = vec![0; starts[n] as usize];
        for (i, p) in edges() {
            children[next[*p as usize] as usize] = i as u32;
            next[*p as usize] += 1;
        }
        (starts, children)
    }
}

/// Pieces of one level, before they are put in order.
struct Cut {
    /// Members of all pieces.
    members: Vec<u32>,
    starts: Vec<u32>,
    /// Steps back to the member each one hangs from, 0 for outside.
    back: Vec<u32>,
    /// By piece: how many of its first members are its path.
    paths: Vec<u32>,
    /// By piece: the node outside that it hangs from, and its bottom.
    hangs: Vec<u32>,
    bottoms: Vec<u32>,
    /// By node: its piece.
    piece_of: Vec<u32>,
}

/// What cutting needs to look at.
struct Shape<'a> {
    starts: &'a [u32],
    children: &'a [u32],
    sizes: &'a [u32],
}

impl Shape<'_> {
    fn below(&self, node: u32) -> impl DoubleEndedIterator<Item = u32> + '_ {
        self.children[self.starts[node as usize] as usize..self.starts[node as usize + 1] as usize]
            .iter()
            .copied()
    }

    fn is_small(&self, node: u32) -> bool {
        self.sizes[node as usize] as usize <= MEMBERS
    }
}

impl Cut {
    fn of(tree: &Tree) -> Self {
        let n = tree.parents.len();
        let (starts, children) = tree.children();
        let roots: Vec<u32> = (0..n as u32).filter(|i| tree.parents[*i as usize] == NONE).collect();
        let mut order = roots.clone();
        let mut at = 0;
        while at < order.len() {
            let i = order[at] as usize;
            order.extend_from_slice(&children[starts[i] as usize..starts[i + 1] as usize]);
            at += 1;
        }
        let mut sizes = vec![1_u32; n];
        for i in order.iter().rev().filter(|i| tree.parents[**i as usize] != NONE) {
            sizes[tree.parents[*i as usize] as usize] += sizes[*i as usize];
        }
        let shape = Shape { starts: &starts, children: &children, sizes: &sizes };
        let mut cut = Self {
            members: Vec::with_capacity(n),
            starts: vec![0],
            back: Vec::with_capacity(n),
            paths: Vec::new(),
            hangs: Vec::new(),
            bottoms: Vec::new(),
            piece_of: vec![0; n],
        };
        cut.bundles(&shape, roots.iter().copied().filter(|r| shape.is_small(*r)), NONE);
        let mut tops: Vec<(u32, u32)> =
            roots.iter().rev().filter(|r| !shape.is_small(**r)).map(|r| (*r, NONE)).collect();
        while let Some((top, from)) = tops.pop() {
            cut.path(&shape, top, from, &mut tops);
        }
        cut
    }

    /// Cuts the path that goes down from `top` through large subtrees, and leaves the large subtrees beside it for later.
    fn path(&mut self, shape: &Shape<'_>, top: u32, mut from: u32, tops: &mut Vec<(u32, u32)>) {
        const MOST: usize = 2 * MEMBERS;
        let mut path: Vec<u32> = Vec::new();
        let (mut node, mut held) = (top, 0);
        loop {
            let small: usize = shape
                .below(node)
                .filter(|c| shape.is_small(*c))
                .map(|c| shape.sizes[c as usize] as usize)
                .sum();
            let fat = small + 1 > MOST;
            if held + 1 + if fat { 0 } else { small } > MOST {
                from = self.stretch(shape, &path, from, true, true);
                path.clear();
                held = 0;
            }
            path.push(node);
            held += 1 + small;
            let large: Vec<u32> = shape.below(node).filter(|c| !shape.is_small(*c)).collect();
            if let (&[next], false) = (&large[..], fat) {
                node = next;
                continue;
            }
            self.stretch(shape, &path, from, !fat, fat || !large.is_empty());
            if fat {
                self.bundles(shape, shape.below(node).filter(|c| shape.is_small(*c)), node);
            }
            tops.extend(large.iter().rev().map(|c| (*c, node)));
            return;
        }
    }

    /// A piece of a path with the small subtrees of its nodes, those of the last one only where `last`; gives its lowest node.
    fn stretch(&mut self, shape: &Shape<'_>, path: &[u32], from: u32, last: bool, bottom: bool) -> u32 {
        let first = self.members.len();
        for (at, node) in path.iter().enumerate() {
            self.add(*node, u32::from(at > 0));
        }
        for (at, node) in path.iter().enumerate().rev() {
            if last || at + 1 < path.len() {
                for child in shape.below(*node).filter(|c| shape.is_small(*c)) {
                    self.subtree(shape, child, Some(first + at));
                }
            }
        }
        let lowest = path.last().copied().unwrap_or(NONE);
        self.end(if bottom { path.len() as u32 } else { 0 }, from, if bottom { lowest } else { NONE });
        lowest
    }

    /// Small subtrees that hang from one node, in pieces; or small trees.
    fn bundles(&mut self, shape: &Shape<'_>, tops: impl Iterator<Item = u32>, from: u32) {
        let mut held = 0;
        for top in tops {
            let size = shape.sizes[top as usize] as usize;
            if held > 0 && held + size > 2 * MEMBERS {
                self.end(0, from, NONE);
                held = 0;
            }
            self.subtree(shape, top, None);
            held += size;
        }
        if held > 0 {
            self.end(0, from, NONE);
        }
    }

    fn add(&mut self, node: u32, back: u32) {
        self.members.push(node);
        self.back.push(back);
        self.piece_of[node as usize] = self.paths.len() as u32;
    }

    /// All of a small subtree, the largest child after its parent.
    fn subtree(&mut self, shape: &Shape<'_>, top: u32, parent: Option<usize>) {
        let mut stack = vec![(top, parent)];
        while let Some((node, parent)) = stack.pop() {
            let place = self.members.len();
            self.add(node, parent.map_or(0, |p| (place - p) as u32));
            let before = stack.len();
            // The last one is taken first: the heaviest, then the others as they are numbered. Nodes that are numbered in this order
            // are laid out in it again.
            stack.extend(shape.below(node).rev().map(|c| (c, Some(place))));
            let heavy = (before..stack.len()).max_by_key(|at| shape.sizes[stack[*at].0 as usize]);
            if let Some(heavy) = heavy {
                stack[heavy..].rotate_left(1);
            }
        }
    }

    fn end(&mut self, path: u32, from: u32, bottom: u32) {
        self.starts.push(self.members.len() as u32);
        self.paths.push(path);
        self.hangs.push(from);
        self.bottoms.push(bottom);
    }

    fn is_open(&self, piece: usize) -> bool {
        self.hangs[piece] != NONE || self.bottoms[piece] != NONE
    }

    /// The forest of the open pieces.
    fn above(&self, tree: &Tree) -> Tree {
        let mut number = vec![NONE; self.paths.len()];
        let open: Vec<usize> = (0..self.paths.len()).filter(|p| self.is_open(*p)).collect();
        open.iter().enumerate().for_each(|(at, p)| number[*p] = at as u32);
        let parent = |p: &usize| match self.hangs[*p] {
            NONE => NONE,
            node => number[self.piece_of[node as usize] as usize],
        };
        let length = |p: &usize| {
            let path = self.starts[*p] as usize..(self.starts[*p] + self.paths[*p]) as usize;
            self.members[path].iter().map(|i| tree.lengths[*i as usize]).sum()
        };
        Tree { parents: open.iter().map(parent).collect(), lengths: open.iter().map(length).collect() }
    }

    /// The level with its open pieces in the given order (numbers of [`Self::above`]), and its nodes by spot.
    fn laid_out(&self, tree: &Tree, order: &[u32], top: bool) -> (Level, Vec<u32>) {
        let all = 0..self.paths.len();
        let open: Vec<usize> = all.clone().filter(|p| self.is_open(*p)).collect();
        debug_assert!(!top || open.is_empty());
        let mut list: Vec<usize> =
            order.iter().map(|o| open[*o as usize]).chain(all.filter(|p| !self.is_open(*p))).collect();
        // The spot that a piece is above.
        let mut spot_above = vec![NONE; self.paths.len()];
        order.iter().enumerate().for_each(|(at, o)| spot_above[open[*o as usize]] = at as u32);
        // By size among near ones only: what lies together in memory is worked together.
        let (of_trees, whole) = list.split_at_mut(open.len());
        for near in of_trees.chunks_mut(TOGETHER).chain(whole.chunks_mut(TOGETHER)) {
            near.sort_by_key(|p| std::cmp::Reverse(self.starts[*p + 1] - self.starts[*p]));
        }
        let n = self.members.len();
        let (links, forks) = self.linked();
        let mut level = Level {
            links: Vec::with_capacity(2 * n),
            turns: Vec::new(),
            pieces: Vec::with_capacity(4 * list.len()),
            open: open.len(),
            lengths: Vec::with_capacity(n),
            roots: Vec::with_capacity(n),
            forks: Vec::with_capacity(n),
        };
        let mut spots: Vec<u32> = Vec::with_capacity(n);
        let size = |p: usize| (self.starts[p + 1] - self.starts[p]) as usize;
        let (of_trees, whole) = list.split_at(open.len());
        for slice in of_trees.chunks(SLICE).chain(whole.chunks(SLICE)) {
            let first = level.turns.len() as u32;
            for (place, p) in slice.iter().enumerate() {
                let above = match self.hangs[*p] {
                    NONE => NONE,
                    node => spot_above[self.piece_of[node as usize] as usize],
                };
                let members = size(*p) as u32 | (place as u32) << MEMBER_BITS;
                level.pieces.extend([first, members, spot_above[*p], above]);
            }
            for turn in 0..slice.first().map_or(0, |p| size(*p)) {
                level.turns.push(spots.len() as u32);
                for p in slice.iter().take_while(|p| size(**p) > turn) {
                    let member = self.starts[*p] as usize + turn;
                    let node = self.members[member];
                    level.links.extend([spots.len() as u32, links[member]]);
                    level.forks.push(forks[member]);
                    level.lengths.push(tree.lengths[node as usize]);
                    level.roots.push(tree.parents[node as usize] == NONE);
                    spots.push(node);
                }
            }
        }
        (level, spots)
    }

    /// By member: its link, and the place of the path member nearest above, itself included.
    fn linked(&self) -> (Vec<u32>, Vec<u32>) {
        let mut links = self.back.clone();
        let mut forks: Vec<u32> = Vec::with_capacity(links.len());
        for p in 0..self.paths.len() {
            let range = self.starts[p] as usize..self.starts[p + 1] as usize;
            for member in range.clone() {
                let (place, back) = ((member - range.start) as u32, self.back[member] as usize);
                forks.push(match back {
                    _ if place < self.paths[p] => place,
                    0 => NONE,
                    back => forks[member - back],
                });
                if self.bottoms[p] == self.members[member] {
                    links[member] |= BOTTOM;
                }
            }
            mark(&mut links[range]);
        }
        (links, forks)
    }
}

/// Sets the bits of a piece's links that say how sums are handed up, member by member from the last.
pub fn mark(links: &mut [u32]) {
    for place in (0..links.len()).rev() {
        let link = links[place];
        if link & BOTTOM != 0 {
            links[place] |= HELD;
        }
        let back = (link & BACK) as usize;
        if back > 0 {
            links[place - back] |= HELD;
        }
        if back > 1 && links[place - back] & PARTIAL == 0 {
            links[place] |= FIRST;
            links[place - back] |= PARTIAL;
        }
    }
}
