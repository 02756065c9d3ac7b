//! Centroids: every tree is cut at a node that leaves no part with more than half of it, and the parts again, so that a node meets
//! at most log₂ n + 1 cuts and any two nodes of a tree are joined through exactly one of them.
//!
//! Sums Y(i) = Σⱼ f(dist(i, j)) X(j) become sums over cuts: with a histogram h of X by depth below the cut, Y at depth a gets
//! Σ_b f(a + b) h(b) (a Hankel product), less the same within each branch, whose nodes the cut does not join.

use super::Forest;
use crate::topology::NONE;

/// A forest's cuts, every node being one of them.
///
/// Members of a cut are listed by branch and, within a branch, by depth: a *row* is one depth of one branch. The branches of a cut
/// come with falling height, so those that reach depth d are its first ones. Lists are nested: levels of cuts, cuts of branches,
/// branches of rows, rows of members.
#[derive(Clone, Debug, PartialEq)]
pub struct Centroids {
    /// `[levels + 1]` cuts of each level; those of one level share no node.
    pub levels: Vec<u32>,
    /// `[n]` the node of each cut.
    pub nodes: Vec<u32>,
    /// `[n + 1]` branches of each cut.
    pub branch_starts: Vec<u32>,
    /// `[branches + 1]` rows of each branch; row r of branch b has depth 1 + r − `row_starts[b]`.
    pub row_starts: Vec<u32>,
    /// `[rows + 1]` members of each row.
    pub member_starts: Vec<u32>,
    /// Members: nodes, at most n log₂ n of them.
    pub members: Vec<u32>,
}

impl Centroids {
    /// Cuts a forest in O(n log n).
    pub fn new(forest: &Forest) -> Self {
        let n = forest.nodes();
        let mut build = Build {
            forest,
            cut: vec![false; n],
            from: vec![NONE; n],
            size: vec![0; n],
            queue: Vec::with_capacity(n),
            ends: Vec::new(),
            out: Self {
                levels: vec![0],
                nodes: Vec::with_capacity(n),
                branch_starts: vec![0],
                row_starts: vec![0],
                member_starts: vec![0],
                members: Vec::new(),
            },
        };
        let mut pieces: Vec<u32> = forest.order()[..forest.trees()].to_vec();
        while !pieces.is_empty() {
            let mut next = Vec::new();
            for piece in pieces {
                build.cut_piece(piece, &mut next);
            }
            build.out.levels.push(build.out.nodes.len() as u32);
            pieces = next;
        }
        build.out
    }

    /// The depth of the lowest member of a cut.
    pub fn height(&self, cut: usize) -> usize {
        let (first, last) = (self.branch_starts[cut] as usize, self.branch_starts[cut + 1] as usize);
        if first == last { 0 } else { (self.row_starts[first + 1] - self.row_starts[first]) as usize }
    }
}

/// Memory that all cuts share; only what a piece touches is written, so a level costs O(n).
struct Build<'a> {
    forest: &'a Forest,
    cut: Vec<bool>,
    from: Vec<u32>,
    size: Vec<u32>,
    queue: Vec<u32>,
    ends: Vec<usize>,
    out: Centroids,
}

impl Build<'_> {
    /// Lists a piece from `start` in breadth-first order, not crossing cuts, with the ends of its depths.
    fn walk(&mut self, start: u32) {
        self.queue.clear();
        self.ends.clear();
        self.queue.push(start);
        self.from[start as usize] = NONE;
        let mut at = 0;
        while at < self.queue.len() {
            let end = self.queue.len();
            self.ends.push(end);
            for place in at..end {
                let i = self.queue[place];
                let (cut, from) = (&self.cut, self.from[i as usize]);
                for j in around(self.forest, i).filter(|j| *j != from && !cut[*j as usize]) {
                    self.from[j as usize] = i;
                    self.queue.push(j);
                }
            }
            at = end;
        }
    }

    /// The node of the piece around `start` that leaves no part with more than half of it.
    fn centre(&mut self, start: u32) -> u32 {
        self.walk(start);
        let total = self.queue.len() as u32;
        for i in &self.queue {
            self.size[*i as usize] = 1;
        }
        // The last node with at least half of the piece below it, itself included: below it no part has more than half, and above
        // it less than half.
        for &i in self.queue.iter().rev() {
            if 2 * u64::from(self.size[i as usize]) >= u64::from(total) {
                return i;
            }
            self.size[self.from[i as usize] as usize] += self.size[i as usize];
        }
        start
    }

    fn cut_piece(&mut self, start: u32, next: &mut Vec<u32>) {
        let centre = self.centre(start);
        self.cut[centre as usize] = true;
        let mut branches: Vec<Branch> = Vec::new();
        let mut ends: Vec<usize> = Vec::new();
        let mut listed: Vec<u32> = Vec::new();
        for j in around(self.forest, centre) {
            if self.cut[j as usize] {
                continue;
            }
            self.walk(j);
            branches.push(Branch { height: self.ends.len(), first_end: ends.len(), begin: listed.len() });
            ends.extend(self.ends.iter().map(|e| e + listed.len()));
            listed.extend_from_slice(&self.queue);
            next.push(j);
        }
        branches.sort_by_key(|b| std::cmp::Reverse(b.height));
        let out = &mut self.out;
        for b in branches {
            let mut begin = b.begin;
            for end in &ends[b.first_end..b.first_end + b.height] {
                out.members.extend_from_slice(&listed[begin..*end]);
                out.member_starts.push(out.members.len() as u32);
                begin = *end;
            }
            out.row_starts.push(out.member_starts.len() as u32 - 1);
        }
        out.branch_starts.push(out.row_starts.len() as u32 - 1);
        out.nodes.push(centre);
    }
}

/// A branch as it was listed: how many depths it has, the first of their ends, and where its nodes begin.
struct Branch {
    height: usize,
    first_end: usize,
    begin: usize,
}

/// Parent and children of a node.
fn around(forest: &Forest, node: u32) -> impl Iterator<Item = u32> + '_ {
    let place = forest.places()[node as usize] as usize;
    let children = forest.child_starts()[place] as usize..forest.child_starts()[place + 1] as usize;
    let parent = Some(forest.parents()[node as usize]).filter(|p| *p != NONE);
    parent.into_iter().chain(forest.order()[children].iter().copied())
}
