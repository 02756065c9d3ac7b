//! How transforms are cut into passes: lengths 2ᵃ3ᵇ, radices, twiddles computed in f64, and the list of passes of a
//! transform or a filter over one to three axes.
//!
//! Normalisation: forward transforms are plain sums Σ x·exp(−2πi jk/L); inverse ones carry the factor 1/L.

use crate::error::Result;
use crate::graph::Graph;
use crate::kernel::Driver;
use crate::kernels::fft::{fft_line, fft_pass};
use crate::tensor::{DType, HostTensor, Tensor};
use std::collections::HashMap;

/// The longest transform: what 32-bit places in a binding of default size allow for a few lines.
pub const LONGEST: u32 = 1 << 22;

/// Radices of the passes of a transform of `length`, largest first; `None` unless the length is 2ᵃ3ᵇ, at most
/// [`LONGEST`]. A transform of one number has no pass.
pub fn radices(length: u32) -> Option<Vec<u32>> {
    if length == 0 || length > LONGEST {
        return None;
    }
    let twos = length.trailing_zeros();
    let mut rest = length >> twos;
    let mut list = vec![16; (twos / 4) as usize];
    match twos % 4 {
        0 => {}
        // 16 · 2 = 8 · 4: two passes either way, and neither of them small.
        1 if twos > 4 => list.splice(0..1, [8, 4]).for_each(drop),
        left => list.push(1 << left),
    }
    while rest.is_multiple_of(3) {
        rest /= 3;
        list.push(3);
    }
    list.sort_unstable_by(|a, b| b.cmp(a));
    (rest == 1).then_some(list)
}

/// Lengths 2ᵃ3ᵇ from `least` to below `2 · least`.
fn lengths(least: u32) -> impl Iterator<Item = u32> {
    let end = least.saturating_mul(2);
    (0..14).filter_map(move |b| {
        let odd = 3_u32.checked_pow(b)?;
        let mut length = odd;
        while length < least {
            length = length.checked_mul(2)?;
        }
        (length < end || length == least).then_some(length).filter(|l| radices(*l).is_some())
    })
}

/// Lengths worth trying for `least` numbers: all 2ᵃ3ᵇ up to the next power of two.
pub fn candidates(least: u32) -> Vec<u32> {
    let power = least.next_power_of_two();
    lengths(least).filter(|l| *l <= power).collect()
}

/// What a plan costs, in words: a store takes a software driver twice as long as a read, and on a GPU both move memory.
pub fn words_moved(passes: &[Pass], sides: [u32; 3]) -> f64 {
    weighed_words(passes, sides, |_| 1.0)
}

/// The same with each pass's words times its weight.
pub fn weighed_words(passes: &[Pass], sides: [u32; 3], weight: impl Fn(&Pass) -> f64) -> f64 {
    let mut sizes = sides.map(f64::from);
    let moved = |pass: &Pass| {
        let read: f64 = sizes.iter().product();
        sizes[pass.axis] = f64::from(pass.stored);
        // A filter also reads the spectrum.
        weight(pass) * (read + 2.0 * sizes.iter().product::<f64>() + if pass.filter { read } else { 0.0 })
    };
    passes.iter().map(moved).sum()
}

/// The same with radices up to 32, where a device would rather hold many numbers in registers (or in its first cache) than
/// pass over memory once more: software drivers. As few passes as can be, as equal as they can be. 64 only where that is all: as
/// one of two passes it took as long as three of 16 on llvmpipe, as the only one half as long as two of 8.
fn wide_radices(length: u32) -> Vec<u32> {
    if length == 64 {
        return vec![64];
    }
    let twos = length.trailing_zeros();
    let passes = twos.div_ceil(5);
    let mut list: Vec<u32> = (0..passes).map(|i| 1 << ((twos + i) / passes)).collect();
    let threes = radices(length).unwrap_or_default().into_iter().filter(|r| *r == 3);
    list.extend(threes);
    list.sort_unstable_by(|a, b| b.cmp(a));
    list
}

/// How transforms are cut, by what a device does best.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Strategy {
    /// Passes of radices up to 16, for rows of any width.
    Narrow,
    /// Passes of radices up to 32 and fewer of them, for rows of whole `vec4f` on software drivers.
    Wide,
    /// One pass for a whole line where it fits workgroup memory, for rows of whole `vec4f` on GPUs; narrow ones beyond.
    Lines,
}

impl Strategy {
    /// The best one on a driver for rows of `width` words.
    pub fn of(driver: Driver, width: u32) -> Self {
        match driver {
            _ if !width.is_multiple_of(4) => Self::Narrow,
            Driver::Gpu => Self::Lines,
            Driver::Llvmpipe | Driver::SwiftShader => Self::Wide,
        }
    }

    fn radices(self, length: u32) -> Vec<u32> {
        match self {
            Self::Lines if fft_line::fits(length) => vec![length],
            Self::Narrow | Self::Lines => radices(length).unwrap_or_default(),
            Self::Wide => wide_radices(length),
        }
    }

    /// Whether a pass of this radix is a whole line.
    fn is_line(self, radix: u32, length: u32) -> bool {
        self == Self::Lines && radix == length && fft_line::fits(length)
    }
}

/// The powers of w that a row of twiddles holds; the others are products of two to four of them.
pub fn powers(radix: u32) -> &'static [u32] {
    match radix {
        0..=4 => &[1, 2],
        5..=16 => &[1, 2, 4, 8],
        _ => &[1, 2, 3, 4, 5, 6, 7, 8, 16, 24],
    }
}

/// Factors of one pass `[p, 2 · powers]`: row k holds w = exp(−2πi k/(p·radix)) and some of its [`powers`].
pub fn twiddles(radix: u32, p: u32) -> Vec<f32> {
    let row = |k: u32| {
        powers(radix).iter().flat_map(move |j| {
            // Reduced in integers, so that the angle is exact to the last bit.
            let turns = f64::from(k * j % (p * radix)) / f64::from(p * radix);
            let (sin, cos) = (-std::f64::consts::TAU * turns).sin_cos();
            [cos as f32, sin as f32]
        })
    };
    (0..p).flat_map(row).collect()
}

/// One pass of a plan.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Pass {
    /// The axis it works along.
    pub axis: usize,
    /// Inputs of a butterfly.
    pub radix: u32,
    /// Product of the radices of the passes before it along this axis and in this direction.
    pub p: u32,
    /// Numbers on a line that are stored.
    pub stored: u32,
    /// Backwards.
    pub inverse: bool,
    /// The last forward pass of an axis, the spectrum and the first inverse pass in one.
    pub filter: bool,
    /// A whole line in workgroup memory, both ways where it filters.
    pub line: bool,
}

/// Passes of one transform along `axis`, of which the last stores only `stored` numbers.
pub fn transform(axis: usize, length: u32, stored: u32, inverse: bool, strategy: Strategy) -> Vec<Pass> {
    let mut list = strategy.radices(length);
    if inverse {
        list.reverse();
    }
    chain((axis, strategy), &list, 1, length, stored, inverse)
}

// The widest pass comes first on the way there and last on the way back: it is the one that meets numbers that are zero, or that nobody
// wants, and half of a wide butterfly is less work than a narrow one beside a whole wide one.

fn chain(
    (axis, strategy): (usize, Strategy),
    list: &[u32],
    from: u32,
    length: u32,
    stored: u32,
    inverse: bool,
) -> Vec<Pass> {
    let mut p = from;
    let mut passes = Vec::new();
    for (number, &radix) in list.iter().enumerate() {
        let stored = if number + 1 == list.len() { stored } else { length };
        let line = strategy.is_line(radix, length);
        passes.push(Pass { axis, radix, p, stored, inverse, filter: false, line });
        p *= radix;
    }
    passes
}

/// Passes of a filter: forward along all axes of `lengths` above 1 from the last to the first, the spectrum, and back,
/// storing `sides` numbers of each line. Numbers beyond the sides are never made where nobody needs them.
pub fn filter(sides: [u32; 3], lengths: [u32; 3], strategy: Strategy) -> Vec<Pass> {
    let axes: Vec<usize> = (0..3).filter(|a| lengths[*a] > 1).collect();
    let Some((&first, others)) = axes.split_first() else { return Vec::new() };
    let length = lengths[first];
    let mut list = strategy.radices(length);
    let mut passes: Vec<Pass> =
        others.iter().rev().flat_map(|a| transform(*a, lengths[*a], lengths[*a], false, strategy)).collect();
    let Some(last) = list.pop() else { return Vec::new() };
    passes.extend(chain((first, strategy), &list, 1, length, length, false));
    let p = length / last;
    let stored = if p == 1 { sides[first] } else { length };
    let line = strategy.is_line(last, length);
    passes.push(Pass { axis: first, radix: last, p, stored, inverse: false, filter: true, line });
    list.reverse();
    passes.extend(chain((first, strategy), &list, last, length, sides[first], true));
    passes.extend(others.iter().flat_map(|a| transform(*a, lengths[*a], sides[*a], true, strategy)));
    passes
}

/// Words per channel word that the passes need at the same time: the largest of what one pass reads and writes.
pub fn largest_pair(passes: &[Pass], sides: [u32; 3]) -> u64 {
    let mut sizes = sides.map(u64::from);
    let mut before = 0;
    let mut largest = 0;
    for (number, pass) in passes.iter().enumerate() {
        sizes[pass.axis] = u64::from(pass.stored);
        let after = if number + 1 == passes.len() { 0 } else { sizes.iter().product() };
        largest = largest.max(before + after);
        before = after;
    }
    largest
}

/// Tables of twiddles and roots of one expansion, each recorded once.
#[derive(Debug, Default)]
pub struct Twiddles {
    passes: HashMap<(u32, u32), Tensor>,
    lines: HashMap<u32, Tensor>,
}

impl Twiddles {
    /// The table of a pass, see [`twiddles`].
    ///
    /// Errors: none for radices of a plan.
    pub fn of(&mut self, graph: &mut Graph, radix: u32, p: u32) -> Result<Tensor> {
        if let Some(table) = self.passes.get(&(radix, p)) {
            return Ok(*table);
        }
        let data = twiddles(radix, p);
        let table = HostTensor::f32([p, data.len() as u32 / p], data)?;
        let tensor = graph.constant(&format!("twiddles {radix}·{p}"), table);
        self.passes.insert((radix, p), tensor);
        Ok(tensor)
    }

    /// The roots of a whole line, see [`fft_line::roots`].
    fn of_line(&mut self, graph: &mut Graph, length: u32) -> Result<Tensor> {
        if let Some(table) = self.lines.get(&length) {
            return Ok(*table);
        }
        let table = HostTensor::f32([length, 2], fft_line::roots(length))?;
        let tensor = graph.constant(&format!("roots of {length}"), table);
        self.lines.insert(length, tensor);
        Ok(tensor)
    }
}

/// Rows of channel words at the beginning or the end of a plan: a tensor `[b, h, numbers, width]` of which the passes take
/// `width` words from `at` on.
#[derive(Clone, Copy, Debug)]
pub struct Rows {
    /// The tensor.
    pub tensor: Tensor,
    /// First word of a row.
    pub at: u32,
}

/// A spectrum `[r, f, 2]`: batch element and head `i` of the rows takes spectrum `i mod r`.
#[derive(Clone, Copy, Debug)]
pub struct Spectrum {
    /// The tensor, 1/L included.
    pub tensor: Tensor,
}

/// What [`record`] works on.
#[derive(Clone, Copy, Debug)]
pub struct Job<'a> {
    /// The passes in order.
    pub passes: &'a [Pass],
    /// Numbers along each axis of the input.
    pub sides: [u32; 3],
    /// Channel words of the slice, a multiple of 4 unless there is one pass only.
    pub width: u32,
    /// Channel words of a block, a multiple of 4 that divides `width`: blocks lie one behind another between the passes.
    pub block: u32,
    /// Heads of the rows in a row that share a spectrum.
    pub per: u32,
    /// Factor of the result.
    pub scale: f32,
    /// What to multiply by in the pass that filters.
    pub spectrum: Option<Spectrum>,
}

/// Records all passes, from rows `x` `[b, h, numbers, a]` to rows `y` `[b, h, numbers, e]`.
///
/// Errors: shapes that do not fit.
pub fn record(graph: &mut Graph, twiddles: &mut Twiddles, job: &Job<'_>, x: Rows, y: Rows) -> Result<()> {
    let (b, h) = (x.tensor.dim(0), x.tensor.dim(1));
    let blocks = job.width / job.block.max(1);
    let mut sizes = job.sides;
    let mut current = x.tensor;
    let count = job.passes.len();
    for (number, pass) in job.passes.iter().enumerate() {
        let (first, last) = (number == 0, number + 1 == count);
        let before: u32 = sizes[..pass.axis].iter().product();
        let places: u32 = sizes[pass.axis + 1..].iter().product();
        let taken = sizes[pass.axis];
        sizes[pass.axis] = pass.stored;
        // Between the passes blocks are heads of their own; at the ends they are columns of the rows.
        let heads = if first || last { h } else { h * blocks };
        let inside = places * if first || last { job.width } else { job.block };
        let blocked = blocks > 1;
        let (a, e) = (
            if first { x.tensor.dim(3) * places } else { inside },
            if last { y.tensor.dim(3) * places } else { inside },
        );
        let input = graph.reshape(current, [b, heads, before, taken, a])?;
        let (name, shape) = (format!("pass {number}"), [b, heads, before, pass.stored, e]);
        let output =
            if last { graph.reshape(y.tensor, shape)? } else { graph.transient(&name, shape, DType::F32) };
        let (x_blocked, y_blocked) = (blocked && last && !first, blocked && first && !last);
        let spectrum = job.spectrum.filter(|_| pass.filter).map(|s| s.tensor);
        let (inverse, blocked) = (u32::from(pass.inverse), u32::from(x_blocked) + 2 * u32::from(y_blocked));
        let (x_from, y_from) = (if first { x.at } else { 0 }, if last { y.at } else { 0 });
        let (x_block, y_block, channels) = (job.block, job.block, a / places);
        let per = job.per * if first || last { 1 } else { blocks };
        let scale = if last { job.scale } else { 1.0 };
        if pass.line {
            let params = fft_line::Params {
                inverse,
                blocked,
                x_from,
                y_from,
                x_block,
                y_block,
                channels,
                per,
                scale,
            };
            let roots = twiddles.of_line(graph, pass.radix)?;
            graph.pass(&fft_line::SPEC, &params, &[Some(input), Some(roots), spectrum, Some(output)])?;
        } else {
            let radix = pass.radix;
            let params = fft_pass::Params {
                radix,
                inverse,
                blocked,
                x_from,
                y_from,
                x_block,
                y_block,
                channels,
                per,
                scale,
            };
            let table = twiddles.of(graph, radix, pass.p)?;
            graph.pass(&fft_pass::SPEC, &params, &[Some(input), Some(table), spectrum, Some(output)])?;
        }
        current = output;
    }
    Ok(())
}
