//! Relative-position masks of tokens on a grid: which keys a query sees, and with what weight.
//!
//! The tokens of a head are `globals` global ones, which see and are seen by all with weight 1, and then a grid of sides
//! n1 × n2 × n3 in raster order (a sequence is 1 × 1 × n). Along an axis of side s, query i and key j meet at place
//! i − j + s − 1 of a table with 2s − 1 entries, on a torus at (i − j) mod s of a table with s entries. The three axes'
//! places, last axis fastest, index the `table` `[h or 1, t]`; without one every weight is 1. Pairs outside the places
//! `first` to `last` of any axis have weight 0 and are not visited, so a window costs as many pairs as it has entries.
//!
//! With `segment` `[n, 2]` the tokens are several sequences packed into one: row i sees keys `segment[i, 0]` up to
//! `segment[i, 1]` (not included), the same for all heads, and n3 is the length of the longest segment. A row whose
//! segment is empty sees nothing and is seen by nobody.
//!
//! Weights of pairs are table · ⟨q, k⟩ with mapped (non-negative) queries and keys. What left-out keys hold does not matter.

use crate::kernel::wgsl_module::Shared;
use crate::kernel::*;
use crate::params;
use crate::tensor::Dims;
use std::ops::Range;
use std::sync::Arc;

params! {
    /// The grid, its global tokens, and the support of its table.
    pub struct Params {
        /// first side of the grid
        live n1: u32 = 1,
        /// second side
        live n2: u32 = 1,
        /// third side, or the longest segment; 0 = all tokens that are not global
        live n3: u32 = 0,
        /// global tokens in front of the grid
        live globals: u32 = 0,
        /// first place of the first axis with an entry that is not 0
        live first1: u32 = 0,
        /// last such place; places past the table's end mean its end
        live last1: u32 = u32::MAX,
        /// first such place of the second axis
        live first2: u32 = 0,
        /// last such place of the second axis
        live last2: u32 = u32::MAX,
        /// first such place of the third axis
        live first3: u32 = 0,
        /// last such place of the third axis
        live last3: u32 = u32::MAX,
        /// axes whose ends meet: the sum of 1 for the first, 2 for the second, 4 for the third
        fixed torus: u32 = 0,
    }
}

impl Params {
    /// The same with the smallest support that holds every entry of `table` `[h or 1, t]` that is not 0.
    ///
    /// `line` is the third side where `n3` is 0. A table of zeros has an empty support; entries past the last whole table
    /// are not looked at.
    pub fn with_support(self, table: &[f32], line: u32) -> Self {
        let n3 = if self.n3 == 0 { line } else { self.n3 };
        let sides = [self.n1, self.n2, n3];
        let axis = |a: usize| Axis::new(sides[a], self.torus >> a & 1 == 1, 0, u32::MAX).places();
        let [x, y, z] = [axis(0), axis(1), axis(2)];
        // First and last place of each axis; first behind last where nothing was found.
        let mut bounds = [(1, 0); 3];
        if x * y * z > 0 {
            let entries = table.chunks_exact(x * y * z).flat_map(|head| head.iter().enumerate());
            for (at, _) in entries.filter(|(_, entry)| **entry != 0.0) {
                for (bound, place) in bounds.iter_mut().zip([at / z / y, at / z % y, at % z]) {
                    let place = place as u32;
                    *bound = if bound.0 > bound.1 {
                        (place, place)
                    } else {
                        (bound.0.min(place), bound.1.max(place))
                    };
                }
            }
        }
        let [(first1, last1), (first2, last2), (first3, last3)] = bounds;
        Self { first1, last1, first2, last2, first3, last3, ..self }
    }
}

/// WGSL of [`Grid`].
pub(crate) const RELATIVE: &Shared =
    &Shared { file: "mask/relative.wgsl", body: include_str!("../../../shaders/mask/relative.wgsl") };

/// WGSL of whole rows; the kernel adds `product`.
pub(crate) const RELATIVE_ROW: &Shared =
    &Shared { file: "mask/relative_row.wgsl", body: include_str!("../../../shaders/mask/relative_row.wgsl") };

/// One axis of a grid.
#[derive(Clone, Copy, Debug)]
struct Axis {
    side: usize,
    torus: bool,
    first: usize,
    last: usize,
}

impl Axis {
    fn new(side: u32, torus: bool, first: u32, last: u32) -> Self {
        let axis = Self { side: side as usize, torus, first: first as usize, last: 0 };
        Self { last: (last as usize).min(axis.places().saturating_sub(1)), ..axis }
    }

    /// Entries of the table.
    fn places(self) -> usize {
        if self.torus { self.side } else { (2 * self.side).saturating_sub(1) }
    }

    /// The place at which two coordinates meet, if it is in the support.
    fn place(self, query: usize, key: usize) -> Option<usize> {
        let place = match self.torus {
            true => (query + self.side - key) % self.side,
            false => (query + self.side - 1).checked_sub(key)?,
        };
        (self.first..=self.last).contains(&place).then_some(place)
    }

    /// The keys of a line of `line` tokens that a query meets in the support, with their places.
    fn seen(self, query: usize, within: &Range<usize>) -> Vec<(usize, usize)> {
        let range = match self.torus {
            true => within.clone(),
            // Keys from query + side − 1 − last to query + side − 1 − first.
            false => {
                let start = (query + self.side).saturating_sub(1 + self.last).max(within.start);
                start..(query + self.side).saturating_sub(self.first).min(within.end).max(start)
            }
        };
        range.filter_map(|key| self.place(query, key).map(|place| (key, place))).collect()
    }

    /// Keys that all queries together see.
    fn pairs(self) -> f64 {
        (0..self.side).map(|query| self.count(query)).sum()
    }

    fn count(self, query: usize) -> f64 {
        if self.first > self.last {
            return 0.0;
        }
        if self.torus {
            return (self.last - self.first + 1) as f64;
        }
        let start = (query + self.side).saturating_sub(1 + self.last);
        let end = (query + self.side).saturating_sub(self.first).min(self.side);
        end.saturating_sub(start) as f64
    }
}

/// A grid of tokens with the support of its table.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Grid {
    axes: [Axis; 3],
    globals: usize,
    /// Tokens of a line: the last side, or all where they are segments.
    line: usize,
    tokens: usize,
}

impl Grid {
    /// The grid of a kernel with dimensions `n` and, where the tokens are segments, `s`.
    pub(crate) fn of(dims: &Dims, p: &Params) -> Self {
        let n3 = if p.n3 == 0 { dims.size("n").saturating_sub(p.globals) } else { p.n3 };
        let on_torus = |axis: u32| p.torus >> axis & 1 == 1;
        let axes = [
            Axis::new(p.n1, on_torus(0), p.first1, p.last1),
            Axis::new(p.n2, on_torus(1), p.first2, p.last2),
            Axis::new(n3, on_torus(2), p.first3, p.last3),
        ];
        let line = if dims.find("s").is_some() { dims.at("n") } else { n3 as usize };
        Self { axes, globals: p.globals as usize, line, tokens: dims.at("n") }
    }

    /// Entries of a head's table.
    pub(crate) fn entries(&self) -> u64 {
        self.axes.iter().map(|axis| axis.places() as u64).product()
    }

    /// Pairs of query and key that are visited, of one head; with segments the most there can be.
    pub(crate) fn pairs(&self) -> f64 {
        let [x, y, z] = self.axes;
        let (globals, tokens) = (self.globals as f64, self.tokens as f64);
        let lines = x.pairs() * y.pairs();
        let in_line = if self.line == z.side { z.pairs() } else { self.line as f64 * z.side as f64 };
        lines * in_line + globals * (2.0 * tokens - globals)
    }

    /// Keys that one query visits at most.
    pub(crate) fn visits(&self) -> u64 {
        let most = |axis: Axis| (axis.last + 1).saturating_sub(axis.first).min(axis.side) as u64;
        let block: u64 = self.axes.into_iter().map(most).product();
        if self.globals > 0 { self.tokens as u64 } else { block }
    }

    /// The keys that query `i` visits, and where in the table it meets them (`None`: weight 1).
    fn seen(&self, i: usize, segment: &Range<usize>) -> Vec<(usize, Option<usize>)> {
        if i < self.globals {
            return (0..self.tokens).map(|j| (j, None)).collect();
        }
        let [x, y, z] = self.axes;
        let at = i - self.globals;
        let (line, column) = (at / self.line, at % self.line);
        let (row, in_row) = (line / y.side, line % y.side);
        let mut list: Vec<(usize, Option<usize>)> = (0..self.globals).map(|j| (j, None)).collect();
        let in_line = z.seen(column, segment);
        for (key_x, place_x) in x.seen(row, &(0..x.side)) {
            for (key_y, place_y) in y.seen(in_row, &(0..y.side)) {
                let from = self.globals + (key_x * y.side + key_y) * self.line;
                let table = (place_x * y.places() + place_y) * z.places();
                list.extend(in_line.iter().map(|&(key, place)| (from + key, Some(table + place))));
            }
        }
        list
    }
}

/// Refuses tables, sides and segments that do not fit the tokens.
pub(crate) fn check_grid(dims: &Dims, p: &Params) -> std::result::Result<(), String> {
    let n = dims.size("n");
    let grid = Grid::of(dims, p);
    if let Some(empty) = ["r", "e"].into_iter().find(|name| dims.find(name) == Some(0)) {
        let (r, e) = (dims.size("r"), dims.find("e").map_or_else(String::new, |e| format!(" and e = {e}")));
        return Err(format!("{empty} is at least 1, got r = {r}{e}"));
    }
    if p.torus > 7 {
        return Err(format!("torus is a sum of 1, 2 and 4, got {}", p.torus));
    }
    match dims.find("s") {
        Some(s) if s != n => return Err(format!("`segment` has {s} rows for n = {n} tokens")),
        Some(_) if (p.n1, p.n2, p.torus, p.globals) != (1, 1, 0, 0) => {
            return Err("packed segments are sequences: n1 = n2 = 1, no torus, no global tokens".into());
        }
        Some(_) => {}
        None => {
            let side = if p.n3 == 0 { n.saturating_sub(p.globals) } else { p.n3 };
            let tokens = u64::from(p.n1) * u64::from(p.n2) * u64::from(side) + u64::from(p.globals);
            if tokens != u64::from(n) {
                return Err(format!(
                    "a grid of {} x {} x {side} and {} global tokens is not n = {n} tokens",
                    p.n1, p.n2, p.globals
                ));
            }
        }
    }
    // The shader counts places in signed numbers.
    if grid.entries() > 1 << 31 {
        return Err(format!("a table of {} entries has more than 2³¹", grid.entries()));
    }
    let Some(t) = dims.find("t") else { return Ok(()) };
    let (tables, h) = (dims.size("tables"), dims.size("h"));
    if tables != 1 && tables != h {
        return Err(format!("`table` has {tables} heads; wants h = {h} or 1"));
    }
    if u64::from(t) != grid.entries() {
        return Err(format!("`table` has {t} entries per head; this grid wants {}", grid.entries()));
    }
    Ok(())
}

/// Inputs of a masked attention, as its definition reads them.
pub(crate) struct Operands<T> {
    grid: Grid,
    q: Arc<Vec<T>>,
    k: Arc<Vec<T>>,
    table: Option<Arc<Vec<T>>>,
    key_mask: Option<Arc<Vec<u32>>>,
    segment: Option<Arc<Vec<u32>>>,
}

impl<T: Real> Operands<T> {
    /// The inputs of a kernel with the ports of `relative_attention`.
    pub(crate) fn of(args: &HostArgs<T>, p: &Params) -> Self {
        Self { q: args.real("q"), k: args.real("k"), ..Self::without_products(args, p) }
    }

    /// The same for a kernel that has its products from elsewhere.
    pub(crate) fn without_products(args: &HostArgs<T>, p: &Params) -> Self {
        Self {
            grid: Grid::of(&args.dims, p),
            q: Arc::default(),
            k: Arc::default(),
            table: args.real_if("table"),
            key_mask: args.words_if("key_mask"),
            segment: args.words_if("segment"),
        }
    }

    fn segment_of(&self, token: usize) -> Range<usize> {
        match &self.segment {
            None => 0..self.grid.line,
            Some(list) => list[2 * token] as usize..(list[2 * token + 1] as usize).min(self.grid.tokens),
        }
    }

    fn keeps(&self, args: &HostArgs<T>, batch: usize, j: usize) -> bool {
        let key = self.key_mask.as_ref().is_none_or(|m| m[args.start("key_mask", batch) + j] != 0);
        key && (self.segment.is_none() || !self.segment_of(j).is_empty())
    }

    /// The kept keys of query `i` with their weights.
    pub(crate) fn weights(&self, args: &HostArgs<T>, batch: usize, i: usize) -> Vec<(usize, T)> {
        let (n, r) = (args.dims.at("n"), args.dims.at("r"));
        let q = &self.q[(batch * n + i) * r..][..r];
        let product = |j: usize| {
            let k = &self.k[(batch * n + j) * r..][..r];
            q.iter().zip(k).map(|(&x, &y)| x * y).sum::<T>()
        };
        self.weights_of(args, batch, i, product)
    }

    /// The same for products that are already there.
    pub(crate) fn weights_of(
        &self,
        args: &HostArgs<T>,
        batch: usize,
        i: usize,
        product: impl Fn(usize) -> T,
    ) -> Vec<(usize, T)> {
        let (entries, tables) =
            (args.dims.find("t").unwrap_or(0) as usize, args.dims.find("tables").unwrap_or(1));
        let table_from = batch % args.dims.at("h").max(1) % (tables.max(1) as usize) * entries;
        let seen = self.grid.seen(i, &self.segment_of(i)).into_iter();
        let entry = |place: Option<usize>| match (&self.table, place) {
            (Some(table), Some(place)) => table[table_from + place],
            _ => T::one(),
        };
        seen.map(|(j, place)| (j, entry(place)))
            .filter(|&(j, entry)| entry != T::zero() && self.keeps(args, batch, j))
            .map(|(j, entry)| (j, entry * product(j)))
            .collect()
    }

    /// Adds a row's weighted values to `values` and returns the sum of its weights.
    pub(crate) fn attend(&self, args: &HostArgs<T>, batch: usize, i: usize, v: &[T], values: &mut [T]) -> T {
        let (n, e) = (args.dims.at("n"), args.dims.at("e"));
        let mut total = T::zero();
        for (j, weight) in self.weights(args, batch, i) {
            total += weight;
            for (y, &value) in values.iter_mut().zip(&v[(batch * n + j) * e..][..e]) {
                *y += weight * value;
            }
        }
        total
    }
}

/// Divides a row by its denominator; zeros where that is 0.
pub(crate) fn finish<T: Real>(values: &mut [T], total: T) {
    let finished = |y: T| if total == T::zero() { T::zero() } else { y / total };
    values.iter_mut().for_each(|y| *y = finished(*y));
}
