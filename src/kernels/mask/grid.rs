//! Grids of tokens and their relative-position tables: sides, offsets, and the circulant lengths they are embedded in.
//!
//! Tokens of a grid n₁ × n₂ × n₃ are in raster order, the last axis fastest; shorter grids have leading sides of 1. A table
//! holds a weight for every offset i − j of a query i and a key j: (2n₁−1)(2n₂−1)(2n₃−1) entries, at iₐ − jₐ + nₐ − 1 on each axis, or
//! on a torus n₁n₂n₃ entries, at (iₐ − jₐ) mod nₐ.

use crate::kernels::fft::plan;

/// Sides of a grid and how its tables are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Grid {
    /// n₁, n₂, n₃.
    pub sides: [u32; 3],
    /// Whether opposite borders touch.
    pub torus: bool,
    /// Whether to take the mask's transpose: offsets j − i in place of i − j.
    pub transpose: bool,
}

impl Grid {
    /// Tokens.
    pub fn tokens(&self) -> u64 {
        self.sides.iter().map(|n| u64::from(*n)).product()
    }

    /// Entries of a table along one axis.
    pub fn entries(&self, axis: usize) -> u32 {
        if self.torus { self.sides[axis] } else { (2 * self.sides[axis]).saturating_sub(1) }
    }

    /// Entries of a table.
    pub fn table(&self) -> u64 {
        (0..3).map(|a| u64::from(self.entries(a))).product()
    }

    /// Place in a table of the weight of key `j` for query `i`, both given by their number in raster order.
    pub fn entry(&self, i: usize, j: usize) -> usize {
        let (i, j) = if self.transpose { (j, i) } else { (i, j) };
        let [_, n2, n3] = self.sides.map(|n| n as usize);
        let place = |t: usize| [t / (n3 * n2), t / n3 % n2, t % n3];
        let (i, j) = (place(i), place(j));
        (0..3).fold(0, |at, a| {
            let n = self.sides[a] as usize;
            let offset = if self.torus { (i[a] + n - j[a]) % n } else { i[a] + n - 1 - j[a] };
            at * self.entries(a) as usize + offset
        })
    }

    /// The lengths of the circulant that holds the mask: at least 2n − 1 on each axis, or n on a torus whose side is itself a
    /// length of a transform. Of all lengths 2ᵃ3ᵇ those whose passes move the fewest words; for one and two axes powers of
    /// two unless others move a quarter less.
    pub fn lengths(&self) -> [u32; 3] {
        let axes = self.sides.iter().filter(|n| **n > 1).count();
        let choices = self.sides.map(|n| match n {
            0 | 1 => vec![1],
            n if self.torus && plan::radices(n).is_some() => vec![n],
            n => plan::candidates(n.saturating_mul(2) - 1),
        });
        let cost = |lengths: [u32; 3]| {
            plan::words_moved(&plan::filter(self.sides, lengths, plan::Strategy::Narrow), self.sides)
        };
        // Candidates end with the power of two.
        let powers = [0, 1, 2].map(|a| choices[a].iter().copied().max().unwrap_or(1));
        let all = choices[0]
            .iter()
            .flat_map(|a| choices[1].iter().flat_map(|b| choices[2].iter().map(|c| [*a, *b, *c])));
        let best = all.min_by(|a, b| cost(*a).total_cmp(&cost(*b))).unwrap_or(powers);
        match axes {
            // A transform of one number has no pass.
            0 => [1, 1, 2],
            1 | 2 if cost(best) > 0.75 * cost(powers) => powers,
            _ => best,
        }
    }

    /// What the sides must satisfy for `tokens` tokens and a table of `table` entries.
    ///
    /// Errors: what was expected and what was given.
    pub fn check(&self, tokens: Option<u32>, table: u32) -> Result<(), String> {
        let [n1, n2, n3] = self.sides;
        if self.sides.contains(&0) {
            return Err(format!("the sides n1, n2, n3 are at least 1, got {n1}, {n2}, {n3}"));
        }
        if let Some(n) = tokens.filter(|n| u64::from(*n) != self.tokens()) {
            return Err(format!("n1 · n2 · n3 is the number of tokens {n}, got {n1} · {n2} · {n3}"));
        }
        if u64::from(table) != self.table() {
            let [t1, t2, t3] = [0, 1, 2].map(|a| self.entries(a));
            return Err(format!(
                "table has {t1} · {t2} · {t3} entries for each offset of the grid {n1} × {n2} × {n3}, got {table}"
            ));
        }
        // A place in the spectrum is a 32-bit number of words.
        let [l1, l2, l3] = self.lengths().map(u64::from);
        if [l1, l2, l3].iter().any(|l| *l > u64::from(plan::LONGEST)) || l1 * l2 * l3 > 1 << 28 {
            return Err(format!(
                "the grid is embedded in {l1} × {l2} × {l3} places, too many for one transform"
            ));
        }
        Ok(())
    }
}
