//! What attention pair by pair has in common, whatever says which rows and keys belong together: scores, sums, variants' loads, and
//! distances as kernels take them.
//!
//! Distances are packed four (8 bits) or two (16 bits) to a word, lowest bits first, and every row begins with a word; the greatest
//! number means that there is no way.

use crate::error::{Error, Result};
use crate::kernel::wgsl_module::Shared;
use crate::kernel::{Constant, Loads, Real};
use crate::tensor::{Dims, HostData};

/// Weights are ⟨q, k⟩ · mask.
pub const LINEAR: u32 = 0;
/// Weights are exp(scale · ⟨q, k⟩) · mask.
pub const SOFTMAX: u32 = 1;
/// Weights are exp(scale · leaky(Σ (q + k))) · mask, the scores of graph attention networks.
pub const ADDITIVE: u32 = 2;

/// Looking up weights by distance.
pub(crate) const WEIGHTS: &Shared =
    &Shared { file: "distance/weights.wgsl", body: include_str!("../../../shaders/distance/weights.wgsl") };
/// Scores of pairs.
pub(crate) const SCORES: &Shared =
    &Shared { file: "distance/scores.wgsl", body: include_str!("../../../shaders/distance/scores.wgsl") };
/// The shader for GPUs, but for its bindings and masks.
pub(crate) const TILE: &Shared = &Shared {
    file: "distance/pairs_tile.wgsl",
    body: include_str!("../../../shaders/distance/pairs_tile.wgsl"),
};
/// The shader for software drivers, but for its bindings and masks.
pub(crate) const TEXTURE: &Shared = &Shared {
    file: "distance/pairs_texture.wgsl",
    body: include_str!("../../../shaders/distance/pairs_texture.wgsl"),
};

/// Words of a row of `n` distances.
pub fn words(n: u32, bits: u32) -> u32 {
    n.div_ceil(32 / bits.clamp(1, 32))
}

/// Rows of 8-bit distances in words.
pub fn packed8(rows: &[u8], n: usize) -> Vec<u32> {
    let four = |c: &[u8]| c.iter().rev().fold(0, |word, d| word << 8 | u32::from(*d));
    rows.chunks(n.max(1)).flat_map(|row| row.chunks(4).map(four)).collect()
}

/// Rows of 16-bit distances in words.
pub fn packed16(rows: &[u16], n: usize) -> Vec<u32> {
    let two = |c: &[u16]| c.iter().rev().fold(0, |word, d| word << 16 | u32::from(*d));
    rows.chunks(n.max(1)).flat_map(|row| row.chunks(2).map(two)).collect()
}

/// Distance of key `j` in a row of words.
pub(crate) fn unpacked(row: &[u32], bits: u32, j: usize) -> usize {
    let per = 32 / bits as usize;
    (row[j / per] >> (bits as usize * (j % per)) & ((1 << bits) - 1)) as usize
}

/// What is wrong with the sizes of distances and their table.
pub(crate) fn check_distances(d: &Dims, bits: u32) -> std::result::Result<(), String> {
    if bits != 8 && bits != 16 {
        return Err(format!("bits of a distance are 8 or 16, got {bits}"));
    }
    let (n, w, t, tables) = (d.size("n"), d.size("w"), d.size("t"), d.size("tables"));
    if w != words(n, bits) {
        return Err(format!("a row of {n} distances of {bits} bits has {} words, got w = {w}", words(n, bits)));
    }
    if t == 0 || t >= 1 << bits {
        return Err(format!("table has weights for 1 to {} distances, got t = {t}", (1_u32 << bits) - 1));
    }
    if tables != 1 && tables != d.size("h") {
        return Err(format!("there is a table for each of {} heads, or one, got {tables}", d.size("h")));
    }
    Ok(())
}

/// What is wrong with the kind of scores.
pub(crate) fn check_scores(scores: u32) -> std::result::Result<(), String> {
    match scores {
        LINEAR | SOFTMAX | ADDITIVE => Ok(()),
        _ => Err(format!("scores are 0 (linear), 1 (softmax) or 2 (additive), got {scores}")),
    }
}

/// The kind of scores of a kernel, with their numbers.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Scores<T> {
    pub(crate) kind: u32,
    pub(crate) scale: T,
    pub(crate) slope: T,
}

impl<T: Real> Scores<T> {
    pub(crate) fn of(kind: u32, scale: f32, slope: f32) -> Self {
        Self { kind, scale: T::of(scale.into()), slope: T::of(slope.into()) }
    }

    fn score(&self, q: &[T], k: &[T]) -> T {
        let pairs = q.iter().zip(k);
        match self.kind {
            LINEAR => pairs.map(|(a, b)| *a * *b).sum(),
            SOFTMAX => self.scale * pairs.map(|(a, b)| *a * *b).sum::<T>(),
            _ => {
                let sum: T = pairs.map(|(a, b)| *a + *b).sum();
                self.scale * if sum > T::zero() { sum } else { self.slope * sum }
            }
        }
    }

    /// One row's attention to the keys that `visit` names with weights other than 0; zeros where there are none. Softmax takes its
    /// largest score from those alone: a large score of a pair that the mask leaves out would push all others under the range.
    pub(crate) fn attend(
        &self,
        q: &[T],
        keys: impl Iterator<Item = (usize, T)>,
        (k, v): (&[T], &[T]),
        line: &mut [T],
    ) {
        let (r, e) = (q.len(), line.len());
        let mut list: Vec<(usize, T)> = Vec::new();
        let mut top = T::neg_infinity();
        let mut masks = Vec::new();
        for (j, mask) in keys.filter(|(_, mask)| *mask != T::zero()) {
            let score = self.score(q, &k[j * r..][..r]);
            top = top.max(score);
            list.push((j, score));
            masks.push(mask);
        }
        let mut total = T::zero();
        for ((j, score), mask) in list.into_iter().zip(masks) {
            let weight = mask * if self.kind == LINEAR { score } else { (score - top).exp() };
            total += weight;
            line.iter_mut().zip(&v[j * e..]).for_each(|(sum, x)| *sum += weight * *x);
        }
        for x in line {
            *x = if total == T::zero() { T::zero() } else { *x / total };
        }
    }
}

/// Loads of the tile variant for `pairs` pairs of a head, beside their masks.
pub(crate) fn tile_loads(d: &Dims, pairs: f64, mask: f64) -> Loads {
    let [r, e] = ["r", "e"].map(|x| f64::from(d.size(x)));
    let slices = (e / 32.0).ceil();
    Loads {
        storage: pairs * (slices * (r / 16.0 + r / 64.0 + mask) + e / 64.0),
        workgroup: pairs * (slices * (r + 1.0) + e),
        ..Loads::default()
    }
}

/// Loads of the texture variant.
pub(crate) fn texture_loads(d: &Dims, pairs: f64, mask: f64) -> Loads {
    let [r, e] = ["r", "e"].map(|x| f64::from(d.size(x)));
    let slices = (e / 32.0).ceil();
    // Features beyond 32 are read again for the queries.
    let again = (r - 32.0).max(0.0);
    Loads {
        texture: pairs / 4.0 * (slices * (r + 4.0 * again) + e),
        storage: pairs * slices * mask,
        ..Loads::default()
    }
}

/// Loop rounds of one invocation per key: of the tile variant, and of the texture variant.
pub(crate) fn tile_rounds(d: &Dims, keys: u64) -> u64 {
    // Of 16 keys: two loads of values, the features' slices of five, 16 products.
    keys.div_ceil(16) * (19 + 5 * u64::from(d.size("r").div_ceil(16)))
}

/// See [`tile_rounds`].
pub(crate) fn texture_rounds(d: &Dims, keys: u64) -> u64 {
    keys.div_ceil(4) * 5 + keys * u64::from((d.size("r") / 4).saturating_sub(8)) + 128
}

/// Texels that the texture variant holds of a query, and makes of a row.
pub(crate) fn held(d: &Dims) -> Vec<(&'static str, Constant)> {
    let texels = |name| Constant::U32((d.size(name) / 4).min(8));
    vec![("HELD", texels("r")), ("WIDTH", texels("e"))]
}

/// Whether features and values come as texels.
pub(crate) fn texels(d: &Dims) -> bool {
    ["r", "e"].iter().all(|x| d.size(x).is_multiple_of(4) && d.size(x) > 0)
}

/// Distances of a made-up graph for cases: some near, some far, some beyond any table, every fifth row without a way to anywhere.
pub(crate) fn some_distances(d: &Dims, bits: u32) -> HostData {
    let (m, n) = (d.size("m"), d.size("n"));
    let far = (1 << bits) - 1;
    let one = |i: u32, j: u32| {
        let d = (i * 7 + j * 5 + i.wrapping_mul(j) / 3) % 23;
        if i % 5 == 4 || d == 11 { far } else { d }
    };
    let heads = 1;
    let per = 32 / bits;
    HostData::U32(
        (0..heads * m)
            .flat_map(|i| {
                (0..words(n, bits)).map(move |w| {
                    (0..per).filter(|p| w * per + p < n).fold(0, |word, p| word | one(i, w * per + p) << (bits * p))
                })
            })
            .collect(),
    )
}

/// A table that falls with distance, or lists of them: entry d of head h is 1 / (1 + d (h + 1)).
pub(crate) fn some_tables(d: &Dims) -> HostData {
    let (tables, t) = (d.size("tables"), d.size("t"));
    HostData::F32(
        (0..tables).flat_map(|h| (0..t).map(move |d| 1.0 / (1.0 + (d * (h + 1)) as f32))).collect(),
    )
}

/// Weights by distance as kernels take them.
///
/// Errors: [`Error::Value`] for weights that are negative or not finite, no weights, or more than distances of these bits.
pub fn checked_table(values: &[f32], bits: u32) -> Result<()> {
    let most = (1_usize << bits) - 1;
    if values.is_empty() || values.len() > most {
        let expected = format!("1 to {most} for distances of {bits} bits");
        return Err(Error::value(
            "weights by distance",
            expected,
            values.len(),
            "cut the table off: what it does not hold weighs 0",
        ));
    }
    match values.iter().position(|x| !(x.is_finite() && *x >= 0.0)) {
        None => Ok(()),
        Some(at) => Err(Error::value(
            format!("weight of distance {at}"),
            "a finite number of at least 0",
            values[at],
            "use 0 for what must not be seen",
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::{packed8, packed16, unpacked};

    #[test]
    fn packed_rows_give_their_distances_back() {
        let rows: Vec<u8> = (0..3 * 7).map(|i| (i * 37 % 256) as u8).collect();
        let words = packed8(&rows, 7);
        assert_eq!(words.len(), 3 * 2);
        let wide: Vec<u16> = rows.iter().map(|d| u16::from(*d) * 257).collect();
        let pairs = packed16(&wide, 7);
        assert_eq!(pairs.len(), 3 * 4);
        for (at, d) in rows.iter().enumerate() {
            let (i, j) = (at / 7, at % 7);
            assert_eq!(unpacked(&words[i * 2..], 8, j), usize::from(*d));
            assert_eq!(unpacked(&pairs[i * 4..], 16, j), usize::from(*d) * 257);
        }
    }
}
