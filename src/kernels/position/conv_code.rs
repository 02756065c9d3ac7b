//! Queries or keys under a convolutional stochastic code: filtered noise of every dimension, put on the tokens.
//!
//! out[i, r] = Σ_d x[i, d] · (constant[d, r] + Σ_p taps[d, p] · z[d, i + p, r])
//!
//! Positions and taps are places in boxes of one to three axes. The noise z is a function of its place ([`counter_noise`]) and is made,
//! filtered and put on tokens in pieces of heads and positions, so that memory never holds it for more tokens than the device's budget has
//! room for; or it is given. Filters work tap by tap, or by Fourier transforms of pieces that overlap by the taps less one (overlap-save),
//! whichever costs less.
//!
//! Queries and keys hear the same noise through filters of their own: it is made once for both where both are given.
//!
//! * `x` `[b, h, n, d]`; `out` `[b, h, n, r]`; `taps` `[b, h, d, p]`, shared by the batch. `y`, `y_taps`, `y_lags`, `y_out`: the other side.
//! * `lags` `[h · d, t]`: the same taps by lag ([`lags`]), which transforms need; without it filters work tap by tap.
//! * `constant` `[b, h, d, r]`: what a gate adds.
//! * `z` `[b, h, m, r]`, m = d · u: noise that is given, u places for each dimension, longer than the positions by the taps less one
//!   along each axis.

use super::sine_code::{elements, own, part, pieces};
use super::{apply_code, counter_noise, filter_noise};
use crate::error::Result;
use crate::graph::{Expansion, Graph};
use crate::kernel::*;
use crate::kernels::fft::fft::flop as transform_flop;
use crate::kernels::fft::plan::{self, Job, Rows, Spectrum, Strategy, Twiddles};
use crate::kernels::mask::grid::Grid;
use crate::kernels::mask::toeplitz_spectrum;
use crate::random;
use crate::tensor::{DType, Dims, HostData, HostTensor, Tensor};
use crate::{params, reference};

/// `path`: whichever costs less.
pub const BY_COST: u32 = 0;
/// `path`: tap by tap.
pub const DIRECT: u32 = 1;
/// `path`: by Fourier transforms.
pub const FOURIER: u32 = 2;

params! {
    /// Parameters of [`SPEC`].
    pub struct Params {
        /// axes of positions, 1 to 3
        fixed axes: u32 = 1,
        /// positions along the second axis
        fixed side_1: u32 = 1,
        /// positions along the third axis
        fixed side_2: u32 = 1,
        /// taps along the second axis
        fixed taps_1: u32 = 1,
        /// taps along the third axis
        fixed taps_2: u32 = 1,
        /// first position along the first axis
        fixed first_0: u32 = 0,
        /// first position along the second axis
        fixed first_1: u32 = 0,
        /// first position along the third axis
        fixed first_2: u32 = 0,
        /// low word of the seed
        fixed seed_low: u32 = 0,
        /// high word of the seed
        fixed seed_high: u32 = 0,
        /// step of training; 2³² − 1 outside
        fixed step: u32 = u32::MAX,
        /// purpose · 2²⁴ | layer · 2⁸ | stream
        fixed purpose: u32 = 0x0200_0000,
        /// 1: all heads see the noise of the first
        fixed heads_share: u32 = 0,
        /// 0 a table's Gaussian numbers, 1 those of Box and Muller, 2 signs
        fixed mode: u32 = counter_noise::TABLE,
        /// 0 by cost, 1 tap by tap, 2 by Fourier transforms
        fixed path: u32 = BY_COST,
    }
}

impl Params {
    /// Positions along all axes, the slowest first.
    fn sides(&self, n: u32) -> [u32; 3] {
        [n / (self.side_1 * self.side_2).max(1), self.side_1, self.side_2]
    }

    fn taps(&self, p: u32) -> [u32; 3] {
        [p / (self.taps_1 * self.taps_2).max(1), self.taps_1, self.taps_2]
    }

    /// The noise under `rows` of the slowest axis from row `first` on, of channels from `channel` on.
    fn noise(&self, first: u32, channel: u32, wide: [u32; 3]) -> counter_noise::Params {
        let (shift_0, shift_1) = match self.axes {
            1 => (0, 0),
            2 => (16, 0),
            _ => (22, 11),
        };
        counter_noise::Params {
            seed_low: self.seed_low,
            seed_high: self.seed_high,
            step: self.step,
            purpose: self.purpose,
            last_purpose: 0,
            channel,
            first_0: self.first_0.wrapping_add(first),
            first_1: self.first_1,
            first_2: self.first_2,
            side_1: wide[1],
            side_2: wide[2],
            shift_0,
            shift_1,
            mode: self.mode,
        }
    }
}

/// Places of noise along each axis.
fn wide(sides: [u32; 3], taps: [u32; 3]) -> [u32; 3] {
    [0, 1, 2].map(|a| (sides[a] + taps[a]).saturating_sub(1))
}

/// The same with the axes that there are at the end, as filters take them.
fn at_end(box_of: [u32; 3], axes: u32) -> [u32; 3] {
    let [a, b, c] = box_of;
    match axes {
        1 => [b, c, a],
        2 => [c, a, b],
        _ => box_of,
    }
}

fn count(box_of: [u32; 3]) -> u64 {
    box_of.iter().map(|side| u64::from(*side)).product()
}

fn check(d: &Dims, params: &[u8]) -> std::result::Result<(), String> {
    let p = Params::from_bytes(params);
    let (n, taps, width) = (d.size("n"), d.size("p"), d.size("d"));
    if !(1..=3).contains(&p.axes) || p.heads_share > 1 || p.mode > counter_noise::SIGNS || p.path > FOURIER {
        return Err(format!(
            "axes is 1 to 3, heads_share 0 or 1, mode and path 0 to 2; got {}, {}, {} and {}",
            p.axes, p.heads_share, p.mode, p.path
        ));
    }
    let alone = |axis: u32, side: u32, taps: u32| p.axes > axis || (side, taps) == (1, 1);
    if !alone(1, p.side_1, p.taps_1) || !alone(2, p.side_2, p.taps_2) {
        return Err(format!("positions and taps have 1 along axes beyond the {} that there are", p.axes));
    }
    let boxes = [(n, p.side_1, p.side_2), (taps, p.taps_1, p.taps_2)];
    if boxes.iter().any(|(all, a, b)| *a == 0 || *b == 0 || !u64::from(*all).is_multiple_of(u64::from(*a) * u64::from(*b)))
        || taps == 0
    {
        return Err(format!("{n} positions and {taps} taps are no boxes of the planes that were given"));
    }
    let lags: u64 = p.taps(taps).iter().map(|t| 2 * u64::from(*t) - 1).product();
    if let Some(t) = d.find("t").filter(|t| u64::from(*t) != lags) {
        return Err(format!("{taps} taps have {lags} lags, got {t}"));
    }
    if d.find("t").is_none() && p.path == FOURIER {
        return Err("Fourier transforms need `lags`".into());
    }
    if let Some(g) = d.find("g").filter(|g| u64::from(*g) != u64::from(width) * u64::from(d.size("h"))) {
        return Err(format!("lags have a row for each of {} · {width} channels, got {g}", d.size("h")));
    }
    let places = count(wide(p.sides(n), p.taps(taps)));
    if let Some(m) = d.find("m").filter(|m| n > 0 && u64::from(*m) != places * u64::from(width)) {
        return Err(format!("noise has {places} places for each of {width} dimensions, got {m}"));
    }
    if u64::from(d.size("h")) * u64::from(width) > 1 << 20 || d.size("r") > 1 << 14 {
        return Err(format!(
            "counters have room for 2²⁰ channels and 16384 lanes, got {} · {width} and {}",
            d.size("h"),
            d.size("r")
        ));
    }
    Ok(())
}

fn reference<T: Real>(args: &mut HostArgs<T>) -> Result<()> {
    let p: Params = args.params();
    let [n, d, r, taps] = ["n", "d", "r", "p"].map(|x| args.dims.at(x));
    let (x, weights, given, constant) = (args.real("x"), args.real("taps"), args.real_if("z"), args.real_if("constant"));
    let (sides, lengths) = (p.sides(n as u32), p.taps(taps as u32));
    let wide = wide(sides, lengths);
    let noise = p.noise(0, 0, wide);
    let seed = u64::from(p.seed_high) << 32 | u64::from(p.seed_low);
    let shared = &*args;
    let heads = args.dims.at("h").max(1);
    // Numbers are made once for all elements of the batch.
    let per = count(wide) as usize * r;
    let made: Vec<T> = if given.is_some() {
        Vec::new()
    } else {
        reference::rows(heads * d, count(wide) as usize, r, |channel, place, line| {
            let channel = if p.heads_share > 0 { channel % d } else { channel } as u32;
            for (quad, four) in line.chunks_mut(4).enumerate() {
                let counter = [noise.index(place as u32), channel | (quad as u32) << 20, p.step, p.purpose];
                let words = random::philox(counter, seed);
                four.iter_mut().enumerate().for_each(|(lane, y)| *y = T::of(noise.number(words, lane)));
            }
        })
    };
    let z = |batch: usize, dim: usize| match &given {
        Some(z) => &z[shared.start("z", batch) + dim * per..],
        None => &made[(batch % heads * d + dim) * per..],
    };
    let side = |x: &[T], weights: &[T], port: &str| reference::rows(shared.dims.batches() as usize, n, r, |batch, i, line| {
        let at = [i as u32 / (sides[1] * sides[2]), i as u32 / sides[2] % sides[1], i as u32 % sides[2]];
        for dim in 0..d {
            let (x, z) = (x[(batch * n + i) * d + dim], z(batch, dim));
            let weights = &weights[shared.start(port, batch) + dim * taps..];
            let mut code: Vec<T> = match &constant {
                Some(c) => c[shared.start("constant", batch) + dim * r..][..r].to_vec(),
                None => vec![T::zero(); r],
            };
            for (own, weight) in (0_u32..).zip(&weights[..taps]) {
                let tap_at = [own / (lengths[1] * lengths[2]), own / lengths[2] % lengths[1], own % lengths[2]];
                let [a, b, c] = [0, 1, 2].map(|axis| at[axis] + tap_at[axis]);
                let place = ((a * wide[1] + b) * wide[2] + c) as usize;
                code.iter_mut().zip(&z[place * r..]).for_each(|(code, z)| *code += *weight * *z);
            }
            line.iter_mut().zip(code).for_each(|(y, code)| *y += x * code);
        }
    });
    let other = shared.real_if("y").zip(shared.real_if("y_taps"));
    let out = side(&x, &weights, "taps");
    let other = other.map(|(y, taps)| side(&y, &taps, "y_taps"));
    args.set("out", out);
    if let Some(other) = other {
        args.set("y_out", other);
    }
    Ok(())
}

/// Taps by lag, as the mask `out[i]` = Σⱼ table(i − j) `z[j]` whose rows they are: `taps` `[g, p]` of a box `[p0, p1, p2]` become `[g, t]`, t the
/// product of 2 p − 1.
pub fn lags(taps: &[f32], box_of: [u32; 3]) -> Vec<f32> {
    let per = count(box_of).max(1) as usize;
    let [p0, p1, p2] = box_of.map(|p| p as usize);
    let wide = [2 * p0 - 1, 2 * p1 - 1, 2 * p2 - 1];
    let entries: usize = wide.iter().product();
    let mut table = vec![0.0; taps.len() / per * entries];
    for (channel, own) in taps.chunks(per).enumerate() {
        for (tap, weight) in own.iter().enumerate() {
            // z stands after the position by the tap: lag −p.
            let at = [p0 - 1 - tap / (p1 * p2), p1 - 1 - tap / p2 % p1, p2 - 1 - tap % p2];
            table[channel * entries + (at[0] * wide[1] + at[1]) * wide[2] + at[2]] = *weight;
        }
    }
    table
}

/// How a piece's filters are worked.
#[derive(Clone, Copy)]
struct Filter {
    /// Positions, slowest axis first, as there are axes.
    sides: [u32; 3],
    taps: [u32; 3],
    axes: u32,
}

impl Filter {
    /// Lengths of the transforms of a piece, its axes at the end: at least the noise's places, and twice the taps less one.
    fn lengths(&self) -> Option<[u32; 3]> {
        let (wide, taps) = (at_end(wide(self.sides, self.taps), self.axes), at_end(self.taps, self.axes));
        let length = |a: usize| match wide[a].max(2 * taps[a] - 1) {
            1 => Some(1),
            least => plan::candidates(least).into_iter().min_by(|a, b| transform_flop(*a).total_cmp(&transform_flop(*b))),
        };
        match [length(0)?, length(1)?, length(2)?] {
            [1, 1, 1] => Some([1, 1, 2]),
            lengths => (count(lengths) <= 1 << 28).then_some(lengths),
        }
    }

    /// Operations per channel and lane: tap by tap, and by transforms.
    fn flop(&self) -> [f64; 2] {
        let direct = 2.0 * count(self.sides) as f64 * count(self.taps) as f64;
        let Some(lengths) = self.lengths() else { return [direct, f64::INFINITY] };
        let all = count(lengths) as f64;
        let transforms: f64 = lengths.iter().filter(|l| **l > 1).map(|l| 2.0 * all / f64::from(*l) * transform_flop(*l)).sum();
        // Two lanes are one complex number.
        [direct, 0.5 * (transforms + 6.0 * all)]
    }
}

/// Rows of the slowest axis, at most, whose transforms are no longer than they need to be.
fn fourier_rows(taps: [u32; 3], rows: u32) -> u32 {
    // Overlap costs a tenth where pieces are ten times as long as filters.
    const LEAST: u32 = 1024;
    (10 * taps[0]).max(LEAST).next_power_of_two().saturating_sub(taps[0] - 1).max(taps[0]).min(rows)
}

fn expand(e: &mut Expansion<'_>) -> Result<()> {
    let p: Params = e.params();
    let d = e.dims;
    let [b, h, n, r, width, taps] = ["b", "h", "n", "r", "d", "p"].map(|x| d.size(x));
    let of = |x: &str, taps: &str, lags: &str, out: &str| {
        Some(Side { x: e.port_if(x)?, taps: e.port_if(taps)?, lags: e.port_if(lags), out: e.port_if(out)? })
    };
    let both: Vec<Side> =
        [of("x", "taps", "lags", "out"), of("y", "y_taps", "y_lags", "y_out")].into_iter().flatten().collect();
    if n == 0 {
        let code = e.graph.constant("no codes", HostTensor::f32([1, 1, 0, r], Vec::new())?);
        for Side { x, out, .. } in both {
            e.graph.pass(&apply_code::SPEC, &NoParams {}, &[Some(x), Some(code), None, Some(out)])?;
        }
        return Ok(());
    }
    let (sides, lengths) = (p.sides(n), p.taps(taps));
    let plane = sides[1] * sides[2];
    let whole = Filter { sides, taps: lengths, axes: p.axes };
    let rows = fourier_rows(lengths, sides[0]);
    let part_of = Filter { sides: [rows, sides[1], sides[2]], ..whole };
    let fourier = match p.path {
        DIRECT => false,
        FOURIER => true,
        _ => {
            let [direct, transforms] = part_of.flop();
            let weight = if e.caps.driver == Driver::Gpu { WEIGHT_ON_GPUS } else { WEIGHT_ON_PROCESSORS };
            both.iter().all(|side| side.lags.is_some()) && weight * transforms < direct
        }
    };
    let (constant, given) = (e.port_if("constant"), e.port_if("z"));
    // Noise and codes of one row of positions, and what transforms hold besides.
    let copies = if fourier { 4 } else { 2 };
    let row_bytes = 4 * copies * u64::from(width) * u64::from(r) * count(wide([1, sides[1], sides[2]], [1, lengths[1], lengths[2]]));
    // The noise of a piece is one binding, and stands under its filters' overlap too.
    let overlap = lengths[0] - 1;
    let row_of_noise = row_bytes / copies;
    let binding = e.caps.storage_binding.saturating_sub(e.caps.storage_alignment.into());
    let fitting = u32::try_from(binding / row_of_noise.max(1)).unwrap_or(u32::MAX).saturating_sub(overlap).max(1);
    let most = if fourier { rows } else { sides[0] }.min(fitting);
    let tall = row_bytes.saturating_mul(u64::from(sides[0]) + u64::from(overlap)).div_ceil(sides[0].into());
    let mut list = pieces(h, sides[0], tall, e.caps.memory_budget.min(copies.saturating_mul(binding)));
    if given.is_some() {
        // The places of one dimension lie together: positions of several cannot be cut.
        list = (0..h).map(|head| (head..head + 1, 0..sides[0])).collect();
    } else if p.heads_share > 0 || (h > 1 && both.iter().any(|side| side.taps.dim(1) == 1)) || list.iter().any(|piece| piece.1.len() as u32 > most) {
        let heads = |piece: &(std::ops::Range<u32>, std::ops::Range<u32>)| -> Vec<u32> { piece.0.clone().collect() };
        let cut = |range: std::ops::Range<u32>| {
            range.clone().step_by(most as usize).map(move |from| from..from.saturating_add(most).min(range.end))
        };
        list = list.iter().flat_map(|piece| {
            let rows = piece.1.clone();
            heads(piece).into_iter().flat_map(move |head| cut(rows.clone()).map(move |rows| (head..head + 1, rows)))
        }).collect();
    }
    // Either noise that is given, or the table that it is made with.
    let source = given.map_or_else(|| counter_noise::table(e.graph), Ok)?;
    let mut work = Work { caps: *e.caps, fourier, twiddles: Twiddles::default(), spectra: Vec::new() };
    // What elements of the batch do not share is made for each of them.
    let apart = both.iter().map(|side| Some(side.taps)).chain([constant, given]).flatten().any(|t| t.dim(0) > 1);
    let each: Vec<Option<u32>> = if apart { (0..b).map(Some).collect() } else { vec![None] };
    for ((heads, rows), element) in list.iter().flat_map(|piece| each.iter().map(move |b| (piece.clone(), *b))) {
        let filter = Filter { sides: [rows.end - rows.start, sides[1], sides[2]], ..whole };
        let places = wide(filter.sides, lengths);
        let channels = (heads.end - heads.start) * width;
        let z = if given.is_some() {
            own(e.graph, source, element, &heads)?
        } else {
            let channel = if p.heads_share > 0 { 0 } else { heads.start * width };
            let params = p.noise(rows.start, channel, places);
            let size = u32::try_from(count(places)).unwrap_or(u32::MAX);
            counter_noise::record(e.graph, "noise", source, [channels, size, r], params)?
        };
        let constant = constant.map(|t| own(e.graph, t, element, &heads)).transpose()?;
        let tokens = (rows.end - rows.start) * plane;
        let piece = (heads.clone(), rows.start * plane..rows.end * plane);
        for (number, side) in both.iter().enumerate() {
            let taps = own(e.graph, side.taps, element, &heads)?;
            let lags = side.lags.filter(|_| fourier).map(|t| match channels == t.dim(0) {
                true => Ok(t),
                false => e.graph.slice(t, 0, heads.start * width..heads.end * width),
            });
            let named = lags.transpose()?.map(|lags| (lags, (number, heads.start)));
            let code = work.filtered(e.graph, filter, [z, taps], named, channels)?;
            let code = e.graph.reshape(code, [1, heads.end - heads.start, width * tokens, r])?;
            for b in element.map_or_else(|| elements(b, h, n, &piece), |b| vec![Some(b)]) {
                let (x, out) = (part(e.graph, side.x, b, &piece)?, part(e.graph, side.out, b, &piece)?);
                e.graph.pass(&apply_code::SPEC, &NoParams {}, &[Some(x), Some(code), constant, Some(out)])?;
            }
        }
    }
    Ok(())
}

/// Queries or keys.
#[derive(Clone, Copy)]
struct Side {
    x: Tensor,
    taps: Tensor,
    lags: Option<Tensor>,
    out: Tensor,
}

/// What an operation of a transform weighs beside one of a tap: on processors about as much at 16 taps (measured, 4096 tokens); on GPUs
/// several passes through memory stand behind it.
const WEIGHT_ON_PROCESSORS: f64 = 0.6;
const WEIGHT_ON_GPUS: f64 = 3.0;

/// Whose spectrum: side and first head.
type Owner = (usize, u32);

/// What the pieces of an expansion have in common.
struct Work {
    caps: Caps,
    fourier: bool,
    twiddles: Twiddles,
    /// Spectra that are there already, by whose they are and their lengths.
    spectra: Vec<(Owner, [u32; 3], Tensor)>,
}

impl Work {
    /// Codes `[1, channels, n0, n1, n2, r]` of noise and taps.
    fn filtered(
        &mut self,
        graph: &mut Graph,
        filter: Filter,
        [z, taps]: [Tensor; 2],
        lags: Option<(Tensor, Owner)>,
        channels: u32,
    ) -> Result<Tensor> {
        let r = z.dim(if z.shape().dims().len() == 3 { 2 } else { 3 });
        let [u0, u1, u2] = at_end(wide(filter.sides, filter.taps), filter.axes);
        let [t0, t1, t2] = at_end(filter.taps, filter.axes);
        let [n0, n1, n2] = at_end(filter.sides, filter.axes);
        let (Some((lags, owner)), Some(lengths), true) = (lags, filter.lengths(), self.fourier) else {
            let z = graph.reshape(z, [1, channels, u0, u1, u2, r])?;
            let taps = graph.reshape(taps, [1, channels, t0, t1, t2])?;
            return filter_noise::record(graph, "codes", z, taps);
        };
        let spectrum = match self.spectra.iter().find(|(own, of, _)| *own == owner && *of == lengths) {
            Some((_, _, spectrum)) => *spectrum,
            None => {
                let grid = Grid { sides: [t0, t1, t2], torus: false, transpose: false };
                let spectrum = toeplitz_spectrum::record_of_lengths(graph, &grid, lengths, lags)?;
                self.spectra.push((owner, lengths, spectrum));
                spectrum
            }
        };
        let passes = plan::filter([n0, n1, n2], lengths, Strategy::of(self.caps.driver, r));
        // Words of four channels lie together; what is left over is transformed as zeros would be, and not stored.
        let width = if passes.len() == 1 { r } else { r.next_multiple_of(4) };
        let job = Job {
            passes: &passes,
            sides: [u0, u1, u2],
            width,
            block: width,
            per: 1,
            scale: 1.0,
            spectrum: Some(Spectrum { tensor: spectrum }),
        };
        let z = graph.reshape(z, [1, channels, u0 * u1 * u2, r])?;
        let out = graph.transient("codes", [1, channels, n0 * n1 * n2, r], DType::F32);
        let (x, y) = (Rows { tensor: z, at: 0 }, Rows { tensor: out, at: 0 });
        plan::record(graph, &mut self.twiddles, &job, x, y)?;
        Ok(out)
    }
}

const fn sizes(b: u32, n: u32, d: u32, p: u32, r: u32) -> [(&'static str, u32); 6] {
    [("b", b), ("h", 2), ("n", n), ("d", d), ("p", p), ("r", r)]
}

/// The same with lags.
const fn with_lags(b: u32, n: u32, d: u32, p: u32, r: u32, t: u32) -> [(&'static str, u32); 8] {
    [("b", b), ("h", 2), ("n", n), ("d", d), ("p", p), ("r", r), ("g", 2 * d), ("t", t)]
}

fn some_taps(count: usize) -> Vec<f32> {
    (0..count).map(|i| ((i * 37 + 11) % 23) as f32 / 23.0 - 0.3).collect()
}

fn taps_of(d: &Dims) -> HostData {
    HostData::F32(some_taps(d.at("b") * d.at("h") * d.at("d") * d.at("p")))
}

fn shared_taps(d: &Dims) -> HostData {
    HostData::F32(some_taps(d.at("d") * d.at("p")))
}

/// The lags of taps that all heads share.
fn shared_lags(d: &Dims, box_of: [u32; 3]) -> HostData {
    let of_head = lags(&some_taps(d.at("d") * d.at("p")), box_of);
    HostData::F32(of_head.repeat(d.at("h")))
}

/// The lags of these taps, of a line; the batch is of one element.
fn lags_of(d: &Dims) -> HostData {
    HostData::F32(lags(&some_taps(d.at("h") * d.at("d") * d.at("p")), [1, 1, d.size("p")]))
}

fn shared_lags_of(d: &Dims) -> HostData {
    shared_lags(d, [1, 1, d.size("p")])
}

/// Taps of the other side that all heads share.
fn other_taps(d: &Dims) -> HostData {
    HostData::F32(some_taps(d.at("d") * d.at("p")).iter().map(|w| 0.4 - w).collect())
}

fn other_lags(d: &Dims) -> HostData {
    let HostData::F32(taps) = other_taps(d) else { return HostData::F32(Vec::new()) };
    HostData::F32(lags(&taps, [1, 1, d.size("p")]).repeat(d.at("h")))
}

/// Of 3 × 4 taps.
fn lags_of_plane(d: &Dims) -> HostData {
    shared_lags(d, [1, 3, 4])
}

const TAPS: (&str, Fill) = ("taps", Fill::Made(taps_of));
const FILL: &[(&str, Fill)] = &[TAPS];
const LAGS: &[(&str, Fill)] = &[TAPS, ("lags", Fill::Made(lags_of))];
const ONE: (&str, Fill) = ("taps", Fill::Made(shared_taps));
const FILL_SHARED: &[(&str, Fill)] = &[ONE];
const LAGS_SHARED: &[(&str, Fill)] = &[ONE, ("lags", Fill::Made(shared_lags_of))];
const PLANE: &[(&str, Fill)] = &[ONE, ("lags", Fill::Made(lags_of_plane))];
const OTHER: (&str, Fill) = ("y_taps", Fill::Made(other_taps));
const BOTH: &[(&str, Fill)] = &[ONE, OTHER];
const BOTH_LAGS: &[(&str, Fill)] =
    &[ONE, OTHER, ("lags", Fill::Made(shared_lags_of)), ("y_lags", Fill::Made(other_lags))];
const SHARED: &[&str] = &["taps", "y_taps", "constant", "z"];

fn plane(path: u32) -> Vec<u8> {
    Params { axes: 2, side_1: 7, taps_1: 4, first_0: 3, first_1: 60_000, path, ..Params::default() }.to_bytes()
}

/// The kernel's description.
pub static SPEC: KernelSpec = KernelSpec {
    name: "conv_code",
    family: "position",
    formula: "out[i, r] = Σ_d x[i, d] (constant[d, r] + Σ_p taps[d, p] z[d, i + p, r])",
    source: "Liutkus et al. 2021, eq. 20 and 21; pieces and transforms: overlap-save",
    ports: &[
        Port::read("x", &["b", "h", "n", "d"]),
        Port::read("taps", &["b", "h", "d", "p"]).broadcast(),
        Port::read("lags", &["g", "t"]).optional(),
        Port::read("constant", &["b", "h", "d", "r"]).broadcast().optional(),
        Port::read("z", &["b", "h", "m", "r"]).broadcast().optional(),
        Port::read("y", &["b", "h", "n", "d"]).optional(),
        Port::read("y_taps", &["b", "h", "d", "p"]).broadcast().optional(),
        Port::read("y_lags", &["g", "t"]).optional(),
        Port::write("out", &["b", "h", "n", "r"]),
        Port::write("y_out", &["b", "h", "n", "r"]).optional(),
    ],
    params: Params::FIELDS,
    defaults: Params::default_bytes,
    output_dims: None,
    check,
    wgpu: OnWgpu::Expand(expand),
    cuda: OnCuda::Expand,
    reference: reference!(reference),
    window: whole_heads,
    cost: |d, params| {
        let p = Params::from_bytes(params);
        let [b, h, n, r, width] = ["b", "h", "n", "r", "d"].map(|x| f64::from(d.size(x)));
        let (sides, taps) = (p.sides(d.size("n")), p.taps(d.size("p")));
        let rows = fourier_rows(taps, sides[0]).max(1);
        let filter = Filter { sides: [rows, sides[1], sides[2]], taps, axes: p.axes };
        let [direct, transforms] = filter.flop();
        let parts = f64::from(sides[0]) / f64::from(rows);
        let filters = match p.path {
            DIRECT => direct,
            FOURIER => transforms,
            _ if d.find("t").is_some() => direct.min(transforms),
            _ => direct,
        };
        // A quarter of Philox's 300 operations for each number.
        let noise = if d.find("m").is_some() { 0.0 } else { 75.0 * count(wide(sides, taps)) as f64 };
        let (stores, x) = (b * h * n * r, b * h * n * width);
        Cost {
            flop: h * width * r * (parts * filters + noise) + 2.0 * stores * width,
            exp: 0.0,
            stores,
            bytes: 4.0 * (stores + x),
            ..Cost::default()
        }
    },
    tolerance: Tolerance {
        factor: 2.0,
        floor: 16.0 * f32::EPSILON as f64,
        reason: "transforms spread errors of 2e-7 to 5e-7 of the largest value over all positions",
    },
    cases: &[
        Case::new("smallest", &[("b", 1), ("h", 1), ("n", 1), ("d", 1), ("p", 1), ("r", 1)], Params::default_bytes)
            .without(&["y", "y_taps", "y_lags", "y_out", "lags", "constant", "z"]).filled(FILL),
        Case::new("line", &sizes(2, 13, 3, 5, 6), Params::default_bytes).without(&["y", "y_taps", "y_lags", "y_out", "lags", "z"]).filled(FILL_SHARED).shared(SHARED),
        Case::new("own_of_every_element", &sizes(2, 13, 3, 5, 6), Params::default_bytes).without(&["y", "y_taps", "y_lags", "y_out", "lags", "z"]).filled(FILL),
        Case::new("both_sides", &sizes(2, 13, 3, 5, 6), Params::default_bytes).without(&["lags", "y_lags", "z"]).filled(BOTH).shared(SHARED),
        Case::new("both_sides_fourier", &with_lags(1, 40, 3, 9, 6, 17), || Params { path: FOURIER, ..Params::default() }.to_bytes())
            .without(&["z"]).filled(BOTH_LAGS).shared(SHARED),
        Case::new("fourier_of_heads", &with_lags(1, 40, 3, 9, 6, 17), || Params { path: FOURIER, ..Params::default() }.to_bytes())
            .without(&["y", "y_taps", "y_lags", "y_out", "z"]).filled(LAGS),
        Case::new("given", &[("b", 2), ("h", 2), ("n", 9), ("d", 3), ("p", 4), ("r", 5), ("m", 36)], Params::default_bytes)
            .without(&["y", "y_taps", "y_lags", "y_out", "lags", "constant"]).filled(FILL_SHARED).shared(SHARED),
        Case::new("shared_by_heads", &sizes(1, 9, 3, 4, 4), || Params { heads_share: 1, seed_low: 9, ..Params::default() }.to_bytes())
            .without(&["y", "y_taps", "y_lags", "y_out", "lags", "constant", "z"]).filled(FILL_SHARED).shared(SHARED),
        Case::new("plane", &sizes(2, 35, 2, 12, 4), || plane(DIRECT)).without(&["y", "y_taps", "y_lags", "y_out", "lags", "z"]).filled(FILL_SHARED).shared(SHARED),
        Case::new("solid", &sizes(1, 24, 2, 12, 4), || {
            Params { axes: 3, side_1: 3, side_2: 4, taps_1: 3, taps_2: 2, ..Params::default() }.to_bytes()
        })
        .without(&["y", "y_taps", "y_lags", "y_out", "lags", "constant", "z"]).filled(FILL_SHARED).shared(SHARED),
        Case::new("fourier", &with_lags(2, 40, 3, 9, 6, 17), || Params { path: FOURIER, ..Params::default() }.to_bytes())
            .without(&["y", "y_taps", "y_lags", "y_out", "z"]).filled(LAGS_SHARED).shared(SHARED),
        Case::new("fourier_odd_lanes", &with_lags(1, 50, 2, 7, 3, 13), || Params { path: FOURIER, first_0: 77, ..Params::default() }.to_bytes())
            .without(&["y", "y_taps", "y_lags", "y_out", "z", "constant"]).filled(LAGS_SHARED).shared(SHARED),
        Case::new("fourier_plane", &with_lags(1, 35, 2, 12, 4, 35), || plane(FOURIER)).without(&["y", "y_taps", "y_lags", "y_out", "constant", "z"]).filled(PLANE).shared(SHARED),
        Case::new("fourier_one_tap", &with_lags(1, 5, 1, 1, 4, 1), || Params { path: FOURIER, ..Params::default() }.to_bytes())
            .without(&["y", "y_taps", "y_lags", "y_out", "constant", "z"]).filled(LAGS_SHARED).shared(SHARED),
        Case::new("fourier_in_pieces", &with_lags(1, 2200, 1, 5, 4, 9), || Params { path: FOURIER, ..Params::default() }.to_bytes())
            .without(&["y", "y_taps", "y_lags", "y_out", "constant", "z"]).filled(LAGS_SHARED).shared(SHARED),
        Case::new("no_tokens", &sizes(2, 0, 3, 4, 4), Params::default_bytes).without(&["y", "y_taps", "y_lags", "y_out", "lags", "constant", "z"]).filled(FILL_SHARED).shared(SHARED),
        Case::new("line_2048_p128", &with_lags(1, 2048, 16, 128, 64, 255), || Params { path: FOURIER, ..Params::default() }.to_bytes())
            .without(&["y", "y_taps", "y_lags", "y_out", "constant", "z"]).filled(LAGS_SHARED).shared(SHARED)
            .resized(|d| {
                d.set("g", resize::product(&[d.size("h"), d.size("d")])?);
                Ok(Params { path: FOURIER, ..Params::default() }.to_bytes())
            })
            .for_bench(),
        Case::new("line_2048_p128_by_taps", &sizes(1, 2048, 16, 128, 64), || Params { path: DIRECT, ..Params::default() }.to_bytes())
            .without(&["y", "y_taps", "y_lags", "y_out", "lags", "constant", "z"]).filled(FILL_SHARED).shared(SHARED).any_size().for_bench(),
    ],
    vjp: None,
};

/// One side of a code: queries or keys.
#[derive(Clone, Copy, Debug)]
pub struct Tokens {
    /// Tokens `[b, h, n, d]`.
    pub x: Tensor,
    /// Taps `[1, h, d, p]`.
    pub taps: Tensor,
    /// Taps by lag `[h · d, t]`.
    pub lags: Option<Tensor>,
}

/// What both sides have in common.
#[derive(Clone, Copy, Debug, Default)]
pub struct Common {
    /// What a gate adds.
    pub constant: Option<Tensor>,
    /// Noise that is given.
    pub z: Option<Tensor>,
}

/// Records one side under a code of `r` lanes, or both, into new transients `[b, h, n, r]`.
///
/// Errors: shapes that do not fit, with the caller's place.
#[track_caller]
pub fn record<const SIDES: usize>(
    graph: &mut Graph,
    sides: [Tokens; SIDES],
    common: Common,
    r: u32,
    params: Params,
) -> Result<[Tensor; SIDES]> {
    const { assert!(SIDES == 1 || SIDES == 2, "a code has one or two sides") };
    let outs = sides.map(|side| {
        graph.transient("under its code", [side.x.dim(0), side.x.dim(1), side.x.dim(2), r], DType::F32)
    });
    let (first, other) = (sides[0], sides.get(1));
    graph.pass(
        &SPEC,
        &params,
        &[
            Some(first.x),
            Some(first.taps),
            first.lags,
            common.constant,
            common.z,
            other.map(|side| side.x),
            other.map(|side| side.taps),
            other.and_then(|side| side.lags),
            Some(outs[0]),
            outs.get(1).copied(),
        ],
    )?;
    Ok(outs)
}
