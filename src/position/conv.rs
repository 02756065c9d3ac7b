//! Convolutional position codes: a template of any shape that ends after the length of its filters.
//!
//! Head h and dimension d have two filters w of P taps along each of one to three axes; they slide over one noise z,
//!
//! q̄(n) = s Σ_p w_q(p) z(n + p),  k̄(n) = s Σ_p w_k(p) z(n + p),
//!
//! so the template is P(τ) = Σ_p w_q(p) w_k(p + τ), 0 for |τ| ≥ P (method: 1.3). Sums over the taps cost N·P; overlap-save blocks of
//! the FFT cost N·log(block) and are cheaper for long filters. Both are here, with the cost that decides.

use super::gate::{Gate, gate_factors, with_gate};
use super::gate::{KEY_TAP_STREAM, QUERY_TAP_STREAM};
use super::{Codes, Positions, check_finite, check_len, count, noise, scale};
use crate::error::{Error, Result};
use crate::kernel::reference::Real;
use crate::random::{Place, Purpose};
use rayon::prelude::*;
use rustfft::num_complex::Complex;
use rustfft::{Fft, FftPlanner};
use std::sync::Arc;

/// Most taps of one filter, all axes together.
pub const MOST_TAPS: u64 = 1 << 20;

/// How filters are applied.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum ConvPath {
    /// Sums over the taps: the definition. A position's code is the same bits however many tokens there are.
    #[default]
    Direct,
    /// Blocks of the FFT, each giving block − P + 1 tokens along an axis; equal up to rounding.
    OverlapSave {
        /// Samples of a block along each axis, slowest first; 1 beyond the axes.
        block: [u32; 3],
    },
}

/// Filters of all heads and dimensions.
#[derive(Clone, Debug, PartialEq)]
pub struct ConvCode {
    heads: u32,
    width: u32,
    taps: Vec<u32>,
    q: Vec<f64>,
    k: Vec<f64>,
}

/// Taps of a filter.
///
/// Errors: [`Error::Value`] for no axis, more than three, an axis without taps, or more than [`MOST_TAPS`].
fn check_taps(taps: &[u32]) -> Result<u64> {
    let product = taps.iter().try_fold(1_u64, |product, &p| product.checked_mul(p.into()));
    match product {
        Some(product @ 1..=MOST_TAPS) if (1..=3).contains(&taps.len()) => Ok(product),
        _ => Err(Error::value(
            "taps P of a convolutional position code",
            format!("one to three axes of at least 1, at most {MOST_TAPS} in all"),
            format!("{taps:?}"),
            "use 16 on a line or 8 along each axis of a picture; the published codes have 128 or 200 on a line",
        )),
    }
}

impl ConvCode {
    /// A code from its filters: `q` and `k` `[h, d, p₁, …]` of `taps` along each axis, slowest first.
    ///
    /// Errors: [`Error::Value`] for sizes of 0 or too large; [`Error::Data`] for other numbers of values, NaN and infinities.
    pub fn new(heads: u32, width: u32, taps: &[u32], q: Vec<f64>, k: Vec<f64>) -> Result<Self> {
        noise::check_channels(heads, width)?;
        check_taps(taps)?;
        let mut shape = vec![("h", heads.into()), ("d", width.into())];
        shape.extend(taps.iter().map(|&p| ("p", u64::from(p))));
        for (name, values) in [("filters of queries", &q), ("filters of keys", &k)] {
            check_len(name, &shape, values.len())?;
            check_finite(name, values)?;
        }
        Ok(Self { heads, width, taps: taps.to_vec(), q, k })
    }

    /// A code as training begins with it: taps from U[0, 1)/√(ΠP/2). Its template is nearly a triangle of height ½.
    ///
    /// Errors: [`Error::Value`] for sizes of 0 or too large.
    pub fn init(heads: u32, width: u32, taps: &[u32], seed: u64) -> Result<Self> {
        noise::check_channels(heads, width)?;
        let total = check_taps(taps)?;
        count("filters", &[("heads", heads.into()), ("width", width.into()), ("taps", total)])?;
        let unit = (1.0 / f64::from(1_u32 << 16) / f64::from(1_u32 << 16)) / (0.5 * total as f64).sqrt();
        let drawn = |stream| -> Result<Vec<f64>> {
            (0..heads * width)
                .flat_map(|channel| (0..total as u32).map(move |index| (channel, index)))
                .map(|(channel, index)| {
                    let place = Place { index, channel, stream, ..Place::of(Purpose::Parameters) };
                    Ok(f64::from(place.word(seed)?) * unit)
                })
                .collect()
        };
        let (q, k) = (drawn(QUERY_TAP_STREAM)?, drawn(KEY_TAP_STREAM)?);
        Self::new(heads, width, taps, q, k)
    }

    /// Heads H.
    pub fn heads(&self) -> u32 {
        self.heads
    }

    /// Dimensions D.
    pub fn width(&self) -> u32 {
        self.width
    }

    /// Taps along each axis, slowest first.
    pub fn taps(&self) -> &[u32] {
        &self.taps
    }

    /// Taps of one filter, all axes together.
    pub fn taps_in_all(&self) -> usize {
        self.taps.iter().map(|&p| p as usize).product()
    }

    /// Filters `[h, d, p₁, …]` of queries and of keys.
    pub fn filters(&self) -> [&[f64]; 2] {
        [&self.q, &self.k]
    }

    /// Filters `[p₁, …]` of one head's dimension: of queries and of keys.
    ///
    /// Panics, as slices do, for a head or dimension that it does not have.
    pub fn filters_of(&self, head: u32, dimension: u32) -> [&[f64]; 2] {
        let size = self.taps_in_all();
        let from = (head * self.width + dimension) as usize * size;
        [&self.q[from..][..size], &self.k[from..][..size]]
    }

    /// Floating-point operations of both codes on a path: 4 N H D R ΠP for sums; for blocks, three real transforms of
    /// 2.5 L log₂ L per block and channel, which the products between them do not add much to (method: 2.5).
    ///
    /// Errors: [`Error::Value`] for positions of other axes and a block that is shorter than the filters.
    pub fn flops(&self, positions: &Positions, realizations: u32, path: ConvPath) -> Result<f64> {
        positions.padded(&self.taps)?;
        let lines = f64::from(self.heads) * f64::from(self.width) * f64::from(realizations);
        Ok(lines
            * match path {
                ConvPath::Direct => 4.0 * positions.tokens() as f64 * self.taps_in_all() as f64,
                ConvPath::OverlapSave { block } => {
                    let hops = self.hops(block)?;
                    let blocks: f64 = positions
                        .sides()
                        .iter()
                        .zip(hops)
                        .map(|(&n, hop)| f64::from(n.div_ceil(hop)))
                        .product();
                    let samples: f64 = block.iter().map(|&l| f64::from(l)).product();
                    blocks * 3.0 * 2.5 * samples * samples.log2()
                }
            })
    }

    /// The path with the fewest operations: sums, or blocks of powers of two up to what covers all tokens, 2²⁰ samples at most.
    ///
    /// Errors: [`Error::Value`] for positions of other axes.
    pub fn plan(&self, positions: &Positions, realizations: u32) -> Result<ConvPath> {
        let padded = positions.padded(&self.taps)?;
        let mut best = (self.flops(positions, realizations, ConvPath::Direct)?, ConvPath::Direct);
        // Along an axis: from the first power of two that gives tokens at all to the first that gives all of them.
        let choices = |axis: usize| -> Vec<u32> {
            match (self.taps.get(axis), padded.sides().get(axis)) {
                (Some(&p), Some(&u)) => {
                    let (first, last) = (p.next_power_of_two(), u64::from(u).next_power_of_two());
                    (0..=20).map(|e| 1_u32 << e).filter(|&l| l >= first && u64::from(l) <= last).collect()
                }
                _ => vec![1],
            }
        };
        for a in choices(0) {
            for b in choices(1) {
                for c in choices(2) {
                    // A single sample has no transform, and the formula no cost for it.
                    if !(2..=1 << 20).contains(&(u64::from(a) * u64::from(b) * u64::from(c))) {
                        continue;
                    }
                    let path = ConvPath::OverlapSave { block: [a, b, c] };
                    let cost = self.flops(positions, realizations, path)?;
                    if cost < best.0 {
                        best = (cost, path);
                    }
                }
            }
        }
        Ok(best.1)
    }

    /// Tokens that a block gives along each axis.
    fn hops(&self, block: [u32; 3]) -> Result<Vec<u32>> {
        let fits = self.taps.iter().zip(block).all(|(&p, l)| l >= p)
            && block[self.taps.len()..].iter().all(|&l| l == 1)
            && block.iter().map(|&l| u64::from(l)).product::<u64>() <= 1 << 26;
        if !fits {
            return Err(Error::value(
                "block of an overlap-save filter",
                format!("at least the taps {:?}, 1 beyond their axes, at most 2^26 samples", self.taps),
                format!("{block:?}"),
                "`plan` finds the cheapest",
            ));
        }
        Ok(self.taps.iter().zip(block).map(|(&p, l)| l - p + 1).collect())
    }

    /// Codes; `z` `[h, d, u₁, …, r]` as [`super::Noise::conv`] draws it, u over nₐ + Pₐ − 1 samples along each axis.
    ///
    /// Errors: [`Error::Value`] for positions of other axes and a block shorter than the filters; [`Error::Data`] for `z` of another size.
    pub fn codes(
        &self,
        positions: &Positions,
        z: &[f64],
        realizations: u32,
        path: ConvPath,
    ) -> Result<Codes> {
        match path {
            ConvPath::Direct => {
                let mut codes = Codes::zeros(positions, self.heads, self.width, realizations)?;
                sums(&mut codes, positions, &self.taps, [&self.q, &self.k], z)?;
                scaled(&mut codes);
                Ok(codes)
            }
            ConvPath::OverlapSave { block } => self.overlap_save(positions, z, realizations, block),
        }
    }

    /// What backends are given: filters in f32 with the gate in them.
    ///
    /// Errors: [`Error::Value`] for a gate of other heads or dimensions.
    pub fn table(&self, gate: Option<&Gate>) -> Result<ConvTable> {
        let factors = gate_factors(gate, self.heads, self.width)?;
        let size = self.taps_in_all();
        let narrow =
            |w: &[f64]| w.iter().enumerate().map(|(at, w)| (factors[at / size][0] * w) as f32).collect();
        Ok(ConvTable {
            heads: self.heads,
            width: self.width,
            taps: self.taps.clone(),
            q: narrow(&self.q),
            k: narrow(&self.k),
            gates: gate.map(|_| factors.iter().map(|[_, e]| *e as f32).collect()),
        })
    }

    fn overlap_save(
        &self,
        positions: &Positions,
        z: &[f64],
        realizations: u32,
        block: [u32; 3],
    ) -> Result<Codes> {
        let mut codes = Codes::zeros(positions, self.heads, self.width, realizations)?;
        let padded = check_noise(&codes, positions, &self.taps, z.len())?;
        let hops = self.hops(block)?;
        let (row, s) = (realizations as usize, scale(realizations, self.width));
        let (size, samples, tokens) = (self.taps_in_all(), padded.tokens(), positions.tokens());
        let transform = Block::new(block);
        // The first token of every block, and the tokens that it gives.
        let counts: Vec<u32> =
            positions.sides().iter().zip(&hops).map(|(&n, &hop)| n.div_ceil(hop)).collect();
        let blocks = Positions::grid(&counts)?;
        let given = Positions::grid(&hops)?;
        let inside = Positions::grid(&block[..hops.len()])?;
        let taps = Positions::grid(&self.taps)?;
        // [h·d][n, r] of both codes: a channel at a time, then put in order.
        let channels: Vec<Vec<Complex<f64>>> = (0..(self.heads * self.width) as usize)
            .into_par_iter()
            .map(|channel| {
                let mut filter = transform.zeros();
                for p in 0..size {
                    let at = index_in(inside.sides(), taps.at(p));
                    filter[at] = Complex::new(self.q[channel * size + p], 0.0);
                }
                let mut keys = transform.zeros();
                for p in 0..size {
                    let at = index_in(inside.sides(), taps.at(p));
                    keys[at] = Complex::new(self.k[channel * size + p], 0.0);
                }
                transform.forward(&mut filter);
                transform.forward(&mut keys);
                // Both answers are real, so one transform back gives them as real and imaginary part.
                for (q, k) in filter.iter_mut().zip(&keys) {
                    *q = q.conj() + Complex::<f64>::i() * k.conj();
                }
                let mut out = vec![Complex::default(); tokens * row];
                let mut data = transform.zeros();
                let noise = &z[channel * samples * row..][..samples * row];
                for b in 0..blocks.tokens() {
                    let start = times(blocks.at(b), &hops);
                    for r in 0..row {
                        for (i, x) in data.iter_mut().enumerate() {
                            let at = plus(start, inside.at(i));
                            *x = match within(padded.sides(), at) {
                                true => noise[index_in(padded.sides(), at) * row + r].into(),
                                false => Complex::default(),
                            };
                        }
                        transform.forward(&mut data);
                        for (x, w) in data.iter_mut().zip(&filter) {
                            *x *= w;
                        }
                        transform.inverse(&mut data);
                        for i in 0..given.tokens() {
                            let at = plus(start, given.at(i));
                            if within(positions.sides(), at) {
                                out[index_in(positions.sides(), at) * row + r] =
                                    data[index_in(inside.sides(), given.at(i))] * s;
                            }
                        }
                    }
                }
                out
            })
            .collect();
        let stride = codes.stride();
        for (channel, out) in channels.iter().enumerate() {
            for (n, line) in out.chunks(row).enumerate() {
                for (r, y) in line.iter().enumerate() {
                    let at = n * stride + channel * row + r;
                    (codes.q[at], codes.k[at]) = (y.re, y.im);
                }
            }
        }
        Ok(codes)
    }
}

/// Sizes of the noise under filters, checked.
fn check_noise<T>(codes: &Codes<T>, positions: &Positions, taps: &[u32], len: usize) -> Result<Positions> {
    let padded = positions.padded(taps)?;
    let mut shape = vec![("h", codes.heads.into()), ("d", codes.width.into())];
    shape.extend(padded.sides().iter().map(|&u| ("u", u64::from(u))));
    shape.push(("r", codes.realizations.into()));
    check_len("noise under filters", &shape, len)?;
    Ok(padded)
}

/// Adds Σ_p w(p) z(n + p) to both codes, taps in raster order; `filters` of queries and keys `[h, d, p₁, …]`.
fn sums<T: Real>(
    codes: &mut Codes<T>,
    positions: &Positions,
    taps: &[u32],
    [w_q, w_k]: [&[T]; 2],
    z: &[T],
) -> Result<()> {
    let padded = check_noise(codes, positions, taps, z.len())?;
    let (row, stride, samples) = (codes.realizations as usize, codes.stride(), padded.tokens());
    let taps = Positions::grid(taps)?;
    let size = taps.tokens();
    // Samples under each tap, counted from the sample under the first.
    let under: Vec<usize> = (0..size).map(|p| index_in(padded.sides(), taps.at(p))).collect();
    let tokens = Positions::grid(positions.sides())?;
    let both = codes.q.par_chunks_mut(stride).zip(codes.k.par_chunks_mut(stride)).enumerate();
    both.for_each(|(n, (q, key))| {
        let first = index_in(padded.sides(), tokens.at(n));
        for (channel, (q, key)) in q.chunks_mut(row).zip(key.chunks_mut(row)).enumerate() {
            let noise = &z[(channel * samples + first) * row..];
            let (w_q, w_k) = (&w_q[channel * size..], &w_k[channel * size..]);
            for (p, &offset) in under.iter().enumerate() {
                let sample = &noise[offset * row..][..row];
                for r in 0..row {
                    q[r] += w_q[p] * sample[r];
                    key[r] += w_k[p] * sample[r];
                }
            }
        }
    });
    Ok(())
}

/// Multiplies both codes with s.
fn scaled<T: Real>(codes: &mut Codes<T>) {
    let s = T::of(scale(codes.realizations, codes.width));
    for x in codes.q.iter_mut().chain(&mut codes.k) {
        *x *= s;
    }
}

/// Filters as every backend is given them.
#[derive(Clone, Debug, PartialEq)]
pub struct ConvTable {
    /// Heads H.
    pub heads: u32,
    /// Dimensions D.
    pub width: u32,
    /// Taps along each axis, slowest first.
    pub taps: Vec<u32>,
    /// `[h, d, p₁, …]` √(1−γ) w of queries.
    pub q: Vec<f32>,
    /// `[h, d, p₁, …]` √(1−γ) w of keys.
    pub k: Vec<f32>,
    /// `[h, d]` √γ, the gain of the gate's noise; absent without a gate.
    pub gates: Option<Vec<f32>>,
}

impl ConvTable {
    /// Codes from the table by sums, gate included, in f64 (the truth of the table) or in f32 (a plain evaluation); `z` `[h, d, u₁, …, r]`,
    /// `epsilon` `[h, d, r]` if and only if there is a gate.
    ///
    /// Errors: [`Error::Value`] for positions of other axes and sizes of 0; [`Error::Data`] for noise of another size, and a table whose
    /// lists are not of its sizes.
    pub fn codes<T: Real>(
        &self,
        positions: &Positions,
        z: &[T],
        epsilon: Option<&[T]>,
        realizations: u32,
    ) -> Result<Codes<T>> {
        check_taps(&self.taps)?;
        let mut shape = vec![("h", self.heads.into()), ("d", self.width.into())];
        if let Some(gates) = &self.gates {
            check_len("table of gates", &shape, gates.len())?;
        }
        shape.extend(self.taps.iter().map(|&p| ("p", u64::from(p))));
        check_len("table of queries' filters", &shape, self.q.len())?;
        check_len("table of keys' filters", &shape, self.k.len())?;
        let mut codes = Codes::zeros(positions, self.heads, self.width, realizations)?;
        let wide = |w: &[f32]| w.iter().map(|&x| T::of(x.into())).collect::<Vec<T>>();
        if let Some((gates, epsilon)) = with_gate(self.gates.as_deref(), epsilon)? {
            let shape = [("h", self.heads.into()), ("d", self.width.into()), ("r", realizations.into())];
            check_len("gate noise", &shape, epsilon.len())?;
            let row = realizations as usize;
            for (at, (q, k)) in codes.q.chunks_mut(row).zip(codes.k.chunks_mut(row)).enumerate() {
                let channel = at % gates.len();
                let gate = T::of(gates[channel].into());
                for ((q, k), &e) in q.iter_mut().zip(k).zip(&epsilon[channel * row..]) {
                    (*q, *k) = (gate * e, gate * e);
                }
            }
        }
        sums(&mut codes, positions, &self.taps, [&wide(&self.q), &wide(&self.k)], z)?;
        scaled(&mut codes);
        Ok(codes)
    }
}

/// Raster index of a position on a grid of sides; entries beyond the axes do not count.
fn index_in(sides: &[u32], position: [u32; 3]) -> usize {
    sides.iter().zip(position).fold(0, |index, (&side, at)| index * side as usize + at as usize)
}

fn within(sides: &[u32], position: [u32; 3]) -> bool {
    sides.iter().zip(position).all(|(&side, at)| at < side)
}

fn plus(a: [u32; 3], b: [u32; 3]) -> [u32; 3] {
    std::array::from_fn(|axis| a[axis] + b[axis])
}

fn times(a: [u32; 3], hops: &[u32]) -> [u32; 3] {
    std::array::from_fn(|axis| a[axis] * hops.get(axis).copied().unwrap_or(1))
}

/// The FFT of a block of one to three axes, unnormalised forwards and divided by the size backwards.
struct Block {
    sides: [usize; 3],
    plans: [[Arc<dyn Fft<f64>>; 2]; 3],
}

impl Block {
    fn new(sides: [u32; 3]) -> Self {
        let mut planner = FftPlanner::new();
        let sides = sides.map(|l| l as usize);
        let plans = sides.map(|l| [planner.plan_fft_forward(l), planner.plan_fft_inverse(l)]);
        Self { sides, plans }
    }

    fn zeros(&self) -> Vec<Complex<f64>> {
        vec![Complex::default(); self.sides.iter().product()]
    }

    fn forward(&self, data: &mut [Complex<f64>]) {
        self.transform(data, 0);
    }

    fn inverse(&self, data: &mut [Complex<f64>]) {
        self.transform(data, 1);
        let factor = 1.0 / data.len() as f64;
        for x in data {
            *x *= factor;
        }
    }

    fn transform(&self, data: &mut [Complex<f64>], direction: usize) {
        // Lines along an axis lie `step` apart; the last axis is contiguous.
        let mut step = 1;
        for axis in (0..3).rev() {
            let len = self.sides[axis];
            let plan = &self.plans[axis][direction];
            if len > 1 && step == 1 {
                plan.process(data);
            } else if len > 1 {
                let mut line = vec![Complex::default(); len];
                for outer in data.chunks_mut(len * step) {
                    for inner in 0..step {
                        for (i, x) in line.iter_mut().enumerate() {
                            *x = outer[i * step + inner];
                        }
                        plan.process(&mut line);
                        for (i, x) in line.iter().enumerate() {
                            outer[i * step + inner] = *x;
                        }
                    }
                }
            }
            step *= len;
        }
    }
}
