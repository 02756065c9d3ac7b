//! Tables of relative positions: a mask that depends only on how far, and in which direction, the key lies from the query.
//!
//! Tokens lie on a grid of one, two or three axes in raster order, and weight (i, j) is the table's entry at i − j on every axis:
//! a block-Toeplitz matrix, which the FFT multiplies in N log N. Additive biases become weights by their exponential
//! (method: softmax(qk + b) has weights exp(qk)·exp(b)), so T5 buckets, ALiBi and Swin tables are tables like any other.

use crate::error::{Error, Result};
use crate::kernels::mask::relative::Params;
use crate::tensor::HostTensor;

/// How the length of an offset is measured, in tokens.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Distance {
    /// Steps along the axes: Σ |Δ|.
    L1,
    /// As the crow flies.
    #[default]
    L2,
    /// The longest side: squares.
    LInf,
}

impl Distance {
    /// Length of an offset.
    pub fn of(self, offset: [i64; 3]) -> f64 {
        let sides = offset.map(|x| x.unsigned_abs() as f64);
        match self {
            Self::L1 => sides.iter().sum(),
            Self::L2 => sides.iter().map(|x| x * x).sum::<f64>().sqrt(),
            Self::LInf => sides.iter().copied().fold(0.0, f64::max),
        }
    }
}

/// How weight falls with distance; every profile is 1 at 0.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Profile {
    /// exp(−x/size).
    Exponential,
    /// exp(−x²/2 size²).
    Gaussian,
    /// 1 up to `size`, 0 beyond.
    Window,
    /// 1/(1 + x/size).
    Inverse,
    /// 1 − x/(size + 1), 0 beyond.
    Triangle,
}

impl Profile {
    /// All profiles with the names that commands and menus use.
    pub const ALL: [(&str, Self); 5] = [
        ("exp", Self::Exponential),
        ("gauss", Self::Gaussian),
        ("window", Self::Window),
        ("inverse", Self::Inverse),
        ("triangle", Self::Triangle),
    ];

    /// Weight at a distance; `size` in the distance's units.
    pub fn at(self, distance: f64, size: f64) -> f64 {
        let x = distance / size;
        match self {
            Self::Exponential => (-x).exp(),
            Self::Gaussian => (-0.5 * x * x).exp(),
            Self::Window => f64::from(u8::from(distance <= size)),
            Self::Inverse => 1.0 / (1.0 + x),
            Self::Triangle => (1.0 - distance / (size + 1.0)).max(0.0),
        }
    }
}

/// Lowest and highest offset per axis between which all weights lie; `lowest > highest` where there are none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Support {
    /// Lowest offset, query minus key.
    pub lowest: [i32; 3],
    /// Highest offset.
    pub highest: [i32; 3],
}

impl Support {
    /// Keys that a query may meet, at most.
    pub fn volume(&self) -> u64 {
        let side =
            |axis: usize| (i64::from(self.highest[axis]) - i64::from(self.lowest[axis]) + 1).max(0) as u64;
        side(0) * side(1) * side(2)
    }
}

/// Weights by relative position for tokens on a grid, one table per head or one for all.
///
/// Entry (o₁, o₂, o₃) of the table `[2 n₁ − 1, 2 n₂ − 1, 2 n₃ − 1]` stands at oₐ + nₐ − 1, last axis fastest, where o = query −
/// key. A sequence of n tokens is the grid 1 × 1 × n, a picture 1 × rows × columns.
#[derive(Clone, Debug, PartialEq)]
pub struct RelativeTable {
    sides: [u32; 3],
    heads: u32,
    values: Vec<f32>,
    signed: bool,
}

/// Grid sides, slowest first, of 1 to 3 axes, as three.
///
/// Errors: no axis, more than three, a side of 0, or more than 2³² − 1 tokens.
pub fn grid(sides: &[u32]) -> Result<[u32; 3]> {
    let wrong = |remedy: &str| {
        Err(Error::value("grid of a mask", "one to three sides of at least 1", format!("{sides:?}"), remedy))
    };
    if sides.is_empty() || sides.len() > 3 || sides.contains(&0) {
        return wrong("give the rows and columns of tokens, or their number");
    }
    let mut all = [1; 3];
    all[3 - sides.len()..].copy_from_slice(sides);
    match all.iter().try_fold(1_u32, |tokens, &side| tokens.checked_mul(side)) {
        // 2n − 1 must count in 32 bits too.
        Some(_) if all.iter().all(|&side| side <= 1 << 30) => Ok(all),
        _ => wrong("use fewer tokens"),
    }
}

impl RelativeTable {
    /// A table `[heads, 2n₁−1, …]` of weights that are multiplied with the scores.
    ///
    /// Errors: another number of entries; NaN, infinite or negative weights, with the place of the first.
    pub fn new(sides: &[u32], heads: u32, values: Vec<f32>) -> Result<Self> {
        let table = Self::signed(sides, heads, values)?;
        match table.values.iter().position(|x| *x < 0.0) {
            Some(at) => Err(Error::value(
                format!("entry {} of the mask's table", table.place(at)),
                "0 or more: a negative weight can make a row's sum 0 or negative",
                table.values[at],
                "take the exponential of a bias with `from_bias`, or say that signs are meant with `signed`",
            )),
            None => Ok(Self { signed: false, ..table }),
        }
    }

    /// The same with negative entries allowed: rows are still divided by their sums, which the caller must know to be positive.
    ///
    /// Errors: another number of entries; NaN or infinite weights.
    pub fn signed(sides: &[u32], heads: u32, values: Vec<f32>) -> Result<Self> {
        let sides = grid(sides)?;
        if heads == 0 {
            return Err(Error::value(
                "heads of a mask's table",
                "at least 1",
                heads,
                "1 table serves all heads",
            ));
        }
        let expected = u64::from(heads) * entries(sides);
        if values.len() as u64 != expected {
            let [a, b, c] = sides.map(|n| 2 * n - 1);
            return Err(Error::value(
                "table of a mask",
                format!("{expected} entries: {heads} × {a} × {b} × {c} for a grid of {sides:?}"),
                format!("{} entries", values.len()),
                "a table has 2n − 1 entries along an axis of n tokens",
            ));
        }
        let table = Self { sides, heads, signed: values.iter().any(|x| *x < 0.0), values };
        match table.values.iter().position(|x| !x.is_finite()) {
            Some(at) => Err(Error::value(
                format!("entry {} of the mask's table", table.place(at)),
                "a finite number",
                table.values[at],
                "store 0 for what must not be seen, never an infinity",
            )),
            None => Ok(table),
        }
    }

    /// exp(bias − the head's largest bias): the mask of an additive bias. −∞ becomes 0.
    ///
    /// Errors: another number of entries; NaN or +∞; a head whose biases are all −∞.
    pub fn from_bias(sides: &[u32], heads: u32, bias: &[f32]) -> Result<Self> {
        if let Some(at) = bias.iter().position(|x| x.is_nan() || *x == f32::INFINITY) {
            let remedy = "use −∞ or a number";
            return Err(Error::value(format!("entry {at} of the bias"), "a number or −∞", bias[at], remedy));
        }
        let mut values = Vec::with_capacity(bias.len());
        for (head, line) in
            bias.chunks(bias.len() / (heads.max(1) as usize).min(bias.len().max(1))).enumerate()
        {
            let largest = line.iter().copied().fold(f32::NEG_INFINITY, f32::max);
            if largest == f32::NEG_INFINITY {
                let what = format!("bias of head {head}");
                return Err(Error::value(what, "at least one finite entry", "only −∞", "leave the head out"));
            }
            values.extend(line.iter().map(|x| (f64::from(*x) - f64::from(largest)).exp() as f32));
        }
        Self::new(sides, heads, values)
    }

    /// A table from a function of head and offset (query − key per axis).
    ///
    /// Errors: as [`Self::new`].
    pub fn from_fn(sides: &[u32], heads: u32, weight: impl Fn(u32, [i64; 3]) -> f64) -> Result<Self> {
        let n = grid(sides)?.map(i64::from);
        let mut values = Vec::new();
        for head in 0..heads {
            for a in 1 - n[0]..n[0] {
                for b in 1 - n[1]..n[1] {
                    values.extend((1 - n[2]..n[2]).map(|c| weight(head, [a, b, c]) as f32));
                }
            }
        }
        Self::new(sides, heads, values)
    }

    /// Weight by distance, the same for all heads; `size` in tokens.
    ///
    /// Errors: a size that is not above 0.
    pub fn profile(sides: &[u32], distance: Distance, profile: Profile, size: f64) -> Result<Self> {
        if !(size.is_finite() && size > 0.0) {
            return Err(Error::value(
                "size of the mask's profile",
                "a number of tokens above 0",
                size,
                "try 8",
            ));
        }
        Self::from_fn(sides, 1, |_, offset| profile.at(distance.of(offset), size))
    }

    /// Every weight 1: the mask that masks nothing.
    ///
    /// Errors: a grid without tokens.
    pub fn ones(sides: &[u32]) -> Result<Self> {
        Self::from_fn(sides, 1, |_, _| 1.0)
    }

    /// Keys that do not come after the query in raster order: the first axis on which they differ decides, which the offset tells.
    ///
    /// Errors: a grid without tokens.
    pub fn causal(sides: &[u32]) -> Result<Self> {
        Self::from_fn(sides, 1, |_, offset| f64::from(u8::from(offset >= [0, 0, 0])))
    }

    /// ALiBi: exp(−slope |i − j|), one slope per head (Press et al. 2022, eq. 2).
    ///
    /// Errors: a slope that is negative or not finite.
    pub fn alibi(n: u32, slopes: &[f32]) -> Result<Self> {
        if let Some(head) = slopes.iter().position(|s| !(s.is_finite() && *s >= 0.0)) {
            let what = format!("ALiBi slope of head {head}");
            return Err(Error::value(
                what,
                "a number of at least 0",
                slopes[head],
                "the usual ones are 2^(−8h/H)",
            ));
        }
        let heads = u32::try_from(slopes.len()).unwrap_or(u32::MAX);
        Self::from_fn(&[n], heads, |head, offset| {
            (-f64::from(slopes[head as usize]) * offset[2].abs() as f64).exp()
        })
    }

    /// T5's buckets (Raffel et al. 2020): `bias` `[buckets, heads]`, both directions, logarithmic beyond a quarter of the buckets.
    ///
    /// Errors: an odd or too small number of buckets, another number of biases, a largest distance within the exact range.
    pub fn t5(n: u32, buckets: u32, heads: u32, largest_distance: u32, bias: &[f32]) -> Result<Self> {
        let wanted = u64::from(buckets) * u64::from(heads);
        if buckets < 4
            || !buckets.is_multiple_of(4)
            || largest_distance <= buckets / 4
            || bias.len() as u64 != wanted
        {
            return Err(Error::value(
                "T5 biases",
                format!(
                    "buckets × heads = {wanted} numbers, buckets a multiple of 4, distances beyond {}",
                    buckets / 4
                ),
                format!("{} numbers, {buckets} buckets, distances to {largest_distance}", bias.len()),
                "T5 itself has 32 buckets up to distance 128",
            ));
        }
        grid(&[n])?;
        let line = |head: u32| {
            // T5 counts key − query.
            (1 - i64::from(n)..i64::from(n))
                .map(move |o| bias[(t5_bucket(-o, buckets, largest_distance) * heads + head) as usize])
        };
        let all: Vec<f32> = (0..heads).flat_map(line).collect();
        Self::from_bias(&[n], heads, &all)
    }

    /// Offsets that wrap around the grid's borders: `values` `[heads, n₁, n₂, n₃]` at (query − key) mod n on the axes that wrap (all
    /// that are longer than 1).
    ///
    /// Errors: as [`Self::new`].
    pub fn torus(sides: &[u32], heads: u32, values: &[f32]) -> Result<Self> {
        let n = grid(sides)?;
        let tokens = n.iter().map(|&x| u64::from(x)).product::<u64>();
        if values.len() as u64 != tokens * u64::from(heads) {
            return Err(Error::value(
                "table of a torus",
                format!("{heads} × {tokens} entries, one per offset"),
                format!("{} entries", values.len()),
                "offsets are counted modulo the sides",
            ));
        }
        let wrap = |offset: i64, side: u32| offset.rem_euclid(i64::from(side)) as usize;
        let at = |head: u32, [a, b, c]: [i64; 3]| {
            let row = (head as usize * n[0] as usize + wrap(a, n[0])) * n[1] as usize + wrap(b, n[1]);
            f64::from(values[row * n[2] as usize + wrap(c, n[2])])
        };
        Self::from_fn(sides, heads, at)
    }

    /// The same weights with offsets that wrap around: each axis takes the shorter way. For symmetric and asymmetric tables alike,
    /// (query − key) is brought into −n/2 … n/2.
    ///
    /// Errors: none that the table did not have.
    pub fn wrapped(&self) -> Result<Self> {
        let n = self.sides;
        let near = |offset: i64, side: u32| {
            let (side, half) = (i64::from(side), i64::from(side / 2));
            (offset + half).rem_euclid(side) - half
        };
        let at = |head: u32, o: [i64; 3]| {
            f64::from(self.entry(head, [near(o[0], n[0]), near(o[1], n[1]), near(o[2], n[2])]))
        };
        Self::from_fn(&n, self.heads, at)
    }

    /// Both masks at once: entry by entry the product, which is again a table (causal × decay × window stay one table).
    ///
    /// Errors: other grids, or numbers of heads that differ and are both above 1.
    pub fn times(&self, other: &Self) -> Result<Self> {
        if self.sides != other.sides || (self.heads != other.heads && self.heads.min(other.heads) != 1) {
            return Err(Error::value(
                "product of two tables",
                format!("the same grid {:?} and as many heads ({}) or one", self.sides, self.heads),
                format!("{:?}, {} heads", other.sides, other.heads),
                "make both tables for the same tokens",
            ));
        }
        let at = |h: u32, o| f64::from(self.entry(h, o)) * f64::from(other.entry(h, o));
        let (n, heads) = (self.sides, self.heads.max(other.heads));
        if self.signed || other.signed {
            let values =
                (0..heads).flat_map(|h| offsets(n).map(move |o| (h, o))).map(|(h, o)| at(h, o) as f32);
            return Self::signed(&n, heads, values.collect());
        }
        Self::from_fn(&n, heads, at)
    }

    /// The mask seen from the keys: entry (j, i) in place of (i, j).
    pub fn transposed(&self) -> Self {
        let mut values = self.values.clone();
        values.chunks_mut(self.entries()).for_each(<[f32]>::reverse);
        Self { values, ..self.clone() }
    }

    /// One head's table.
    ///
    /// Errors: a head that it does not have.
    pub fn of_head(&self, head: u32) -> Result<Self> {
        let at = if self.heads == 1 { 0 } else { head };
        if at >= self.heads {
            return Err(Error::value(
                "head of a table",
                format!("below {}", self.heads),
                head,
                "heads count from 0",
            ));
        }
        let values =
            self.values.chunks(self.entries()).nth(at as usize).map(<[f32]>::to_vec).unwrap_or_default();
        Self::signed(&self.sides, 1, values)
    }

    /// Grid sides, slowest first.
    pub fn sides(&self) -> [u32; 3] {
        self.sides
    }

    /// Tokens of the grid.
    pub fn tokens(&self) -> u32 {
        self.sides.iter().product()
    }

    /// Tables: 1 is shared by all heads.
    pub fn heads(&self) -> u32 {
        self.heads
    }

    /// Whether negative entries were asked for and are there.
    pub fn has_signs(&self) -> bool {
        self.signed
    }

    /// Entries of one head's table.
    pub fn entries(&self) -> usize {
        entries(self.sides) as usize
    }

    /// The weights `[heads, entries]`.
    pub fn values(&self) -> &[f32] {
        &self.values
    }

    /// The weights as a tensor `[heads, entries]`.
    ///
    /// Errors: a table of more entries than a dimension can count.
    pub fn tensor(&self) -> Result<HostTensor> {
        let too_large = |_| {
            Error::value("table of a mask", "fewer than 2³² entries", self.entries(), "use a smaller grid")
        };
        let entries = u32::try_from(self.entries()).map_err(too_large)?;
        HostTensor::f32([self.heads, entries], self.values.clone())
    }

    /// Weight at an offset, query − key per axis; heads beyond a shared table are the first.
    pub fn entry(&self, head: u32, offset: [i64; 3]) -> f32 {
        let n = self.sides.map(i64::from);
        let place = |axis: usize| offset[axis] + n[axis] - 1;
        let at = (place(0) * (2 * n[1] - 1) + place(1)) * (2 * n[2] - 1) + place(2);
        let head = if self.heads == 1 { 0 } else { head as usize };
        self.values[head * self.entries() + at as usize]
    }

    /// Weight of key `j` for query `i`, both numbered in raster order.
    pub fn weight(&self, head: u32, i: u32, j: u32) -> f32 {
        let [_, rows, cols] = self.sides;
        let place = |t: u32| [t / (rows * cols), t / cols % rows, t % cols].map(i64::from);
        let (query, key) = (place(i), place(j));
        self.entry(head, [query[0] - key[0], query[1] - key[1], query[2] - key[2]])
    }

    /// The box around all entries that are not 0, over all heads.
    pub fn support(&self) -> Support {
        let [n1, n2, n3] = self.sides;
        let grid = Params { n1, n2, n3, ..Params::default() }.with_support(&self.values, n3);
        // Places in the table count from the lowest offset, 1 − n.
        let offset =
            |place: u32, side: u32| i32::try_from(i64::from(place) - i64::from(side) + 1).unwrap_or(i32::MAX);
        Support {
            lowest: [offset(grid.first1, n1), offset(grid.first2, n2), offset(grid.first3, n3)],
            highest: [offset(grid.last1, n1), offset(grid.last2, n2), offset(grid.last3, n3)],
        }
    }

    /// Where an entry stands, for messages.
    fn place(&self, index: usize) -> String {
        let (head, at) = (index / self.entries(), index % self.entries());
        let [_, b, c] = self.sides.map(|n| 2 * n as usize - 1);
        let corner = self.sides.map(|n| n as i64 - 1);
        let offset =
            [(at / (b * c)) as i64 - corner[0], (at / c % b) as i64 - corner[1], (at % c) as i64 - corner[2]];
        let axes = self.sides.iter().position(|&n| n > 1).unwrap_or(2);
        format!("{at} (offset {:?}) of head {head}", &offset[axes..])
    }
}

fn entries(sides: [u32; 3]) -> u64 {
    sides.iter().map(|&n| 2 * u64::from(n) - 1).product()
}

/// All offsets in the order of the table.
fn offsets(sides: [u32; 3]) -> impl Iterator<Item = [i64; 3]> {
    let n = sides.map(i64::from);
    (1 - n[0]..n[0])
        .flat_map(move |a| (1 - n[1]..n[1]).flat_map(move |b| (1 - n[2]..n[2]).map(move |c| [a, b, c])))
}

/// T5's bucket of a relative position key − query. The limits are exact: a logarithm in f32 misplaces whole powers.
fn t5_bucket(relative: i64, buckets: u32, largest_distance: u32) -> u32 {
    let half = buckets / 2;
    let exact = half / 2;
    let ahead = if relative > 0 { half } else { 0 };
    let distance = relative.unsigned_abs();
    if distance < u64::from(exact) {
        return ahead + distance as u32;
    }
    let share =
        (distance as f64 / f64::from(exact)).ln() / (f64::from(largest_distance) / f64::from(exact)).ln();
    // No whole distance lies as near below a limit as 1e-9, so this only mends the rounding at the limits themselves.
    let step = (share * f64::from(half - exact) + 1e-9).floor();
    ahead + exact + (step as u32).min(half - exact - 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_stand_where_they_are_said_to() {
        let table = RelativeTable::from_fn(&[2, 3], 1, |_, [_, b, c]| (10 * (b + 5) + c + 5) as f64)
            .expect("a table");
        assert_eq!(table.entries(), 3 * 5);
        assert_eq!(table.values()[0], 43.0);
        assert_eq!(table.weight(0, 5, 0), 67.0);
        assert_eq!(table.weight(0, 0, 5), 43.0);
        assert_eq!(table.transposed().weight(0, 0, 5), 67.0);
    }

    #[test]
    fn the_support_is_the_box_of_what_is_not_zero() {
        let window =
            RelativeTable::from_fn(&[9], 1, |_, [_, _, o]| f64::from(u8::from((-6..=-2).contains(&o))));
        let support = window.expect("a table").support();
        assert_eq!((support.lowest, support.highest, support.volume()), ([0, 0, -6], [0, 0, -2], 5));
        let none = RelativeTable::from_fn(&[4], 1, |_, _| 0.0).expect("a table").support();
        assert_eq!(none.volume(), 0);
    }

    #[test]
    fn buckets_have_exact_limits() {
        let buckets: Vec<u32> = [0, 7, 8, 11, 12, 15, 16, 31, 32, 63, 64, 127, 128, 9999]
            .into_iter()
            .map(|d| t5_bucket(-d, 32, 128))
            .collect();
        assert_eq!(buckets, [0, 7, 8, 8, 9, 9, 10, 11, 12, 13, 14, 15, 15, 15]);
        assert_eq!(t5_bucket(1, 32, 128), 17);
    }

    #[test]
    fn raster_order_is_a_function_of_the_offset() {
        let table = RelativeTable::causal(&[3, 4]).expect("a table");
        for (i, j) in (0..12).flat_map(|i| (0..12).map(move |j| (i, j))) {
            assert_eq!(table.weight(0, i, j), f32::from(u8::from(j <= i)), "query {i}, key {j}");
        }
    }

    #[test]
    fn a_torus_takes_the_short_way() {
        let line = RelativeTable::profile(&[8], Distance::L1, Profile::Exponential, 2.0).expect("a table");
        let ring = line.wrapped().expect("a table");
        assert_eq!(ring.weight(0, 0, 7), line.weight(0, 0, 1));
        assert_eq!(ring.weight(0, 7, 0), line.weight(0, 1, 0));
    }

    #[test]
    fn bad_tables_are_told_with_their_place() {
        let message = |r: Result<RelativeTable>| r.expect_err("a bad table").to_string();
        let negative = message(RelativeTable::new(&[2, 2], 1, vec![0., 1., 1., 1., -0.5, 1., 1., 1., 1.]));
        assert!(
            negative.contains("entry 4 (offset [0, 0]) of head 0") && negative.contains("-0.5"),
            "{negative}"
        );
        let short = message(RelativeTable::new(&[2, 2], 1, vec![1.0; 8]));
        assert!(short.contains("9 entries") && short.contains("8 entries"), "{short}");
        let nan = message(RelativeTable::new(&[2], 2, vec![1., 1., 1., 1., f32::NAN, 1.]));
        assert!(nan.contains("of head 1"), "{nan}");
        assert!(RelativeTable::signed(&[2], 1, vec![1.0, -1.0, 1.0]).is_ok());
        assert!(message(RelativeTable::ones(&[0, 3])).contains("at least 1"));
        assert!(RelativeTable::from_bias(&[2], 1, &[f32::NEG_INFINITY; 3]).is_err());
    }
}
