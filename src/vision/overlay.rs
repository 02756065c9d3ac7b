//! The picture of a map: the map over the photograph, the query marked, a colour bar with numbers.
//!
//! The photograph is drawn in grey beneath, so that every hue in the picture belongs to the map.

use crate::numbers::significant;
use crate::words::{counted, plain, told};
use std::io::{Cursor, Write as _};
use std::path::{Path, PathBuf};

use glam::{DVec2, IVec2, UVec2};
use image::{ImageFormat, Rgb, RgbImage};
use rayon::prelude::*;

use super::grid::TokenGrid;
use super::image::Photo;
use super::letters;

pub use super::palette::{NOT_FINITE_COLOUR, Palette};

/// Share of the largest magnitude that negative values must reach before the diverging map is chosen.
pub const NEGATIVE_SHARE: f64 = 0.02;

/// Pictures whose longer side is below this are drawn enlarged, each pixel as a square.
const MIN_DRAWN_SIDE: u32 = 400;
const PAPER: [u8; 3] = [255, 255, 255];
const INK: [u8; 3] = [20, 20, 20];

/// Why an overlay cannot be drawn or saved. Every message is one line.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OverlayError {
    /// The map does not belong to the grid.
    #[error("overlay: the map wants [rows, cols] = [{rows}, {cols}], {}, got {got}", counted(*.expected, "value", "values"))]
    MapLength {
        /// Rows of tokens.
        rows: usize,
        /// Columns of tokens.
        cols: usize,
        /// rows · cols.
        expected: usize,
        /// Number of values given.
        got: usize,
    },
    /// The grid was planned for another picture.
    #[error(
        "overlay: the token grid was planned for {want_width}x{want_height} pixels, the photograph has {width}x{height}"
    )]
    PhotoSize {
        /// Width the grid knows.
        want_width: u32,
        /// Height the grid knows.
        want_height: u32,
        /// Width of the photograph.
        width: u32,
        /// Height of the photograph.
        height: u32,
    },
    /// A query lies outside.
    #[error(transparent)]
    Query(#[from] super::grid::GridError),
    /// An option is not a usable number.
    #[error("overlay: {what} is {}, expected {expected}", significant(*.got, 7))]
    Option {
        /// Which option.
        what: &'static str,
        /// Its value.
        got: f64,
        /// Its range.
        expected: &'static str,
    },
    /// The output's suffix names no format that is written here.
    #[error(
        "cannot save picture `{path}`: suffix names no format that is written; use .png, .jpg, .webp, .bmp, .gif or .tiff"
    )]
    Suffix {
        /// Path as given.
        path: String,
    },
    /// The picture could not be written; nothing was left behind and an older file stays as it was.
    #[error("cannot save picture `{path}`: {reason}")]
    Write {
        /// Path as given.
        path: String,
        /// The reason, and what to do.
        reason: String,
    },
}

/// How an overlay is drawn.
#[derive(Clone, Debug, PartialEq)]
pub struct OverlayOptions {
    /// Weight of the map against the photograph, 0…1.
    pub opacity: f64,
    /// Longest side of the photograph as drawn, in pixels; larger ones are reduced, and a notice says so.
    pub max_side: u32,
    /// Colour map; `None` = diverging if a value is below −[`NEGATIVE_SHARE`] of the largest magnitude.
    pub palette: Option<Palette>,
    /// Values at the ends of the bar; `None` = 0 to the largest, or ± the largest magnitude.
    pub range: Option<(f64, f64)>,
}

impl Default for OverlayOptions {
    fn default() -> Self {
        Self { opacity: 0.6, max_side: 2048, palette: None, range: None }
    }
}

/// A drawn overlay.
#[derive(Clone, Debug)]
#[must_use]
pub struct Overlay {
    /// The picture: photograph with map to the left, colour bar to the right.
    pub picture: RgbImage,
    /// The colour map used.
    pub palette: Palette,
    /// Values at the ends of the bar.
    pub range: (f64, f64),
    /// What the picture does not show as it is: reduction, values beyond the bar, values that are not finite.
    pub notices: Vec<String>,
}

impl Overlay {
    /// Draws `map` `[rows, cols]` (row-major over the grid's tokens) over the photograph and marks the queries.
    ///
    /// Between token centres the map is bilinear; a pixel whose own token is not finite takes [`NOT_FINITE_COLOUR`].
    /// `queries` are photograph pixels (x, y).
    ///
    /// Errors: every variant of [`OverlayError`] except `Suffix` and `Write`.
    pub fn draw(
        photo: &Photo,
        grid: &TokenGrid,
        map: &[f32],
        queries: &[UVec2],
        options: &OverlayOptions,
    ) -> Result<Self, OverlayError> {
        let (rows, cols) = (grid.rows(), grid.cols());
        if map.len() != grid.tokens() {
            return Err(OverlayError::MapLength { rows, cols, expected: grid.tokens(), got: map.len() });
        }
        let (want, size) = (grid.photo_size(), photo.size());
        if want != size {
            let (UVec2 { x: want_width, y: want_height }, UVec2 { x: width, y: height }) = (want, size);
            return Err(OverlayError::PhotoSize { want_width, want_height, width, height });
        }
        for &query in queries {
            grid.token_at(query)?;
        }
        options.check()?;

        let mut notices = Vec::new();
        let scale = ValueScale::choose(map, options, &mut notices);
        let display = photo.display(options.max_side);
        notices.extend(display.notice());
        let enlarge = MIN_DRAWN_SIDE.div_ceil(display.picture.width().max(display.picture.height()));
        let drawn = UVec2::new(display.picture.width(), display.picture.height()) * enlarge;
        let has_gaps = map.iter().any(|v| !v.is_finite());
        let layout = Layout::of(drawn, scale.labels(), has_gaps);
        let mut picture = RgbImage::from_pixel(layout.canvas.x, layout.canvas.y, Rgb(PAPER));

        let table = scale.table();
        let sampler = Sampler { map, rows, cols };
        let photo_per_drawn = size.as_dvec2() / drawn.as_dvec2();
        let token_per_photo = DVec2::ONE / grid.effective_stride();
        let stride = layout.canvas.x as usize * 3;
        picture.par_chunks_exact_mut(stride).take(drawn.y as usize).enumerate().for_each(|(y, line)| {
            for (x, pixel) in line.chunks_exact_mut(3).take(drawn.x as usize).enumerate() {
                let at = (DVec2::new(x as f64, y as f64) + 0.5) * photo_per_drawn * token_per_photo - 0.5;
                let base = grey(display.picture.get_pixel(x as u32 / enlarge, y as u32 / enlarge).0);
                let colour = match sampler.at(at) {
                    Some(value) => table[scale.index(value)].map(|c| blend(base, c, options.opacity)),
                    None => NOT_FINITE_COLOUR,
                };
                pixel.copy_from_slice(&colour);
            }
        });
        let scale_of_mark = layout.text_scale;
        let hidden = Hidden { map, cols, tokens_per_drawn: photo_per_drawn * token_per_photo };
        let places: Vec<IVec2> =
            queries.iter().map(|q| ((q.as_dvec2() + 0.5) / photo_per_drawn).floor().as_ivec2()).collect();
        for (at, around) in places.iter().zip(hidden.around(&places, Mark::reach(scale_of_mark))) {
            mark(&mut picture, *at, drawn, &Mark::new(scale_of_mark, around));
        }
        layout.colour_bar(&mut picture, &scale);
        Ok(Self { picture, palette: scale.palette, range: (scale.low, scale.high), notices })
    }

    /// Saves the picture under `path`; see [`save_picture`].
    ///
    /// Errors: [`OverlayError::Suffix`], [`OverlayError::Write`].
    pub fn save(&self, path: impl AsRef<Path>) -> Result<(), OverlayError> {
        save_picture(&self.picture, path)
    }
}

/// The format that a target's suffix asks for, before any work is done for it.
///
/// Errors: [`OverlayError::Suffix`]; [`OverlayError::Write`] for a folder, a file that is read-only, or one in a folder that is not there
/// or takes no file.
pub fn check_target(path: &Path) -> Result<ImageFormat, OverlayError> {
    let shown = path.display().to_string();
    let format = match ImageFormat::from_path(path) {
        Ok(
            format @ (ImageFormat::Png
            | ImageFormat::Jpeg
            | ImageFormat::WebP
            | ImageFormat::Bmp
            | ImageFormat::Gif
            | ImageFormat::Tiff),
        ) => format,
        _ => return Err(OverlayError::Suffix { path: shown }),
    };
    if path.is_dir() {
        return Err(OverlayError::Write { path: shown, reason: "it is a folder; name a file".to_owned() });
    }
    match crate::whole_file::check_target(path) {
        Ok(()) => Ok(format),
        Err(reason) => Err(OverlayError::Write { path: shown, reason: told(&reason) }),
    }
}

/// Saves a picture whole or not at all: it is written beside `path` under another name, then renamed.
///
/// The format follows the suffix: png, jpg, webp, bmp, gif, tiff.
///
/// Errors: [`OverlayError::Suffix`], [`OverlayError::Write`]; a file that was there before is then untouched.
pub fn save_picture(picture: &RgbImage, path: impl AsRef<Path>) -> Result<(), OverlayError> {
    let path = path.as_ref();
    let shown = path.display().to_string();
    let fail = |reason: String| OverlayError::Write { path: shown.clone(), reason };
    let format = check_target(path)?;
    let mut bytes = Vec::new();
    picture.write_to(&mut Cursor::new(&mut bytes), format).map_err(|e| fail(e.to_string()))?;
    let part = part_path(path).ok_or_else(|| fail("it has no file name".to_owned()))?;
    let written = write_new(&part, &bytes).and_then(|()| std::fs::rename(&part, path));
    written.map_err(|e| {
        // Only a file of ours can be at `part`. If it cannot be removed either, the first reason is the one to tell.
        let left = if e.kind() != std::io::ErrorKind::AlreadyExists && part.exists() {
            std::fs::remove_file(&part)
                .err()
                .map(|r| format!(" (`{}` is left: {})", part.display(), plain(r)))
        } else {
            None
        };
        fail(format!("{}{}", told(&e), left.unwrap_or_default()))
    })
}

/// Hidden name beside the target, with the process id so that two runs do not meet.
fn part_path(path: &Path) -> Option<PathBuf> {
    let name = path.file_name()?.to_string_lossy();
    Some(path.with_file_name(format!(".{name}.{}.part", std::process::id())))
}

fn write_new(path: &Path, bytes: &[u8]) -> std::io::Result<()> {
    let mut file = std::fs::OpenOptions::new().write(true).create_new(true).open(path)?;
    file.write_all(bytes)?;
    file.sync_all()
}

impl OverlayOptions {
    fn check(&self) -> Result<(), OverlayError> {
        if !(0.0..=1.0).contains(&self.opacity) {
            return Err(OverlayError::Option { what: "opacity", got: self.opacity, expected: "0 to 1" });
        }
        if self.max_side == 0 {
            return Err(OverlayError::Option { what: "max_side", got: 0.0, expected: "at least 1 pixel" });
        }
        if let Some((low, high)) = self.range
            && !(low.is_finite() && high.is_finite() && low < high)
        {
            let expected = "finite ends with low < high";
            return Err(OverlayError::Option { what: "width of the value range", got: high - low, expected });
        }
        Ok(())
    }
}

/// From values to colours.
pub(crate) struct ValueScale {
    palette: Palette,
    low: f64,
    high: f64,
}

impl ValueScale {
    const STEPS: usize = 1024;
    const TICKS: usize = 5;

    pub(crate) fn choose(map: &[f32], options: &OverlayOptions, notices: &mut Vec<String>) -> Self {
        let finite = || map.iter().filter(|v| v.is_finite()).map(|&v| f64::from(v));
        let gaps = map.len() - finite().count();
        if gaps > 0 {
            notices.push(format!("{gaps} of {} map values are not finite; drawn in magenta", map.len()));
        }
        let (least, most) =
            finite().fold((f64::INFINITY, f64::NEG_INFINITY), |(a, b), v| (a.min(v), b.max(v)));
        let largest = finite().fold(0.0, |m: f64, v| m.max(v.abs()));
        let palette = options.palette.unwrap_or(if least < -NEGATIVE_SHARE * largest {
            Palette::Diverging
        } else {
            Palette::Sequential
        });
        // A map of zeros has no scale of its own.
        let top = |v: f64| if v > 0.0 { v } else { 1.0 };
        let (low, high) = options.range.unwrap_or(match palette {
            Palette::Diverging => (-top(largest), top(largest)),
            Palette::Sequential => (0.0, top(most)),
        });
        let beyond = finite().filter(|v| *v < low || *v > high).count();
        if beyond > 0 {
            notices.push(format!(
                "{beyond} of {} map values lie beyond the colour bar ({} to {}), from {} to {}; drawn in its end colours",
                map.len(),
                significant(low, 4),
                significant(high, 4),
                significant(least, 4),
                significant(most, 4)
            ));
        }
        Self { palette, low, high }
    }

    fn table(&self) -> Vec<[u8; 3]> {
        (0..=Self::STEPS).map(|i| self.palette.colour(i as f64 / Self::STEPS as f64)).collect()
    }

    /// Numbers at equal steps from `high` down to `low`.
    fn labels(&self) -> Vec<String> {
        let largest = self.low.abs().max(self.high.abs());
        let last = Self::TICKS - 1;
        (0..=last)
            .map(|tick| number(self.high + (self.low - self.high) * tick as f64 / last as f64, largest))
            .collect()
    }

    /// The colour of a value, that of missing ones where it is not finite.
    pub(crate) fn colour(&self, value: f64) -> [u8; 3] {
        if !value.is_finite() {
            return NOT_FINITE_COLOUR;
        }
        self.palette.colour(self.index(value) as f64 / Self::STEPS as f64)
    }

    /// Index into [`Self::table`].
    fn index(&self, value: f64) -> usize {
        let t = ((value - self.low) / (self.high - self.low)).clamp(0.0, 1.0);
        (t * Self::STEPS as f64).round() as usize
    }
}

/// Bilinear reading of the map `[rows, cols]`.
struct Sampler<'a> {
    map: &'a [f32],
    rows: usize,
    cols: usize,
}

impl Sampler<'_> {
    /// Value at `at` = (column, row) in tokens, whole numbers being token centres; `None` if the nearest token is not
    /// finite. Other tokens that are not finite are left out of the mean.
    fn at(&self, at: DVec2) -> Option<f64> {
        let last = DVec2::new((self.cols - 1) as f64, (self.rows - 1) as f64);
        let at = at.clamp(DVec2::ZERO, last);
        let value = |col: f64, row: f64| f64::from(self.map[row as usize * self.cols + col as usize]);
        let near = at.round();
        if !value(near.x, near.y).is_finite() {
            return None;
        }
        let floor = at.floor();
        let part = at - floor;
        let next = (floor + 1.0).min(last);
        let corners = [
            (value(floor.x, floor.y), (1.0 - part.x) * (1.0 - part.y)),
            (value(next.x, floor.y), part.x * (1.0 - part.y)),
            (value(floor.x, next.y), (1.0 - part.x) * part.y),
            (value(next.x, next.y), part.x * part.y),
        ];
        let (sum, weight) = corners
            .iter()
            .filter(|(v, w)| v.is_finite() && *w > 0.0)
            .fold((0.0, 0.0), |(sum, weight), (v, w)| (sum + v * w, weight + w));
        Some(sum / weight)
    }
}

/// `drawn` with the bar of its colours beside it; room for the colour of missing values where it `has_gaps`.
pub(crate) fn with_bar(drawn: &RgbImage, scale: &ValueScale, has_gaps: bool) -> RgbImage {
    let layout = Layout::of(UVec2::new(drawn.width(), drawn.height()), scale.labels(), has_gaps);
    let mut picture = RgbImage::from_pixel(layout.canvas.x, layout.canvas.y, Rgb(PAPER));
    image::imageops::replace(&mut picture, drawn, 0, 0);
    layout.colour_bar(&mut picture, scale);
    picture
}

/// Where photograph, bar and numbers stand; pixels of the canvas.
struct Layout {
    canvas: UVec2,
    drawn: UVec2,
    /// Numbers from the top of the bar down.
    labels: Vec<String>,
    has_gaps: bool,
    /// Grows with the picture, 1 for small ones.
    text_scale: u32,
}

impl Layout {
    /// Pixels between things at scale 1.
    const UNIT: u32 = 8;
    /// Height of a line of text in those.
    const LINE: f32 = 1.5;
    const GAP_LABEL: &'static str = "no value";

    fn of(drawn: UVec2, labels: Vec<String>, has_gaps: bool) -> Self {
        let text_scale = (f64::from(drawn.max_element()) / 300.0).round().clamp(1.0, 5.0) as u32;
        let unit = Self::UNIT * text_scale;
        let gap_label = has_gaps.then_some(Self::GAP_LABEL);
        let widths = labels.iter().map(String::as_str).chain(gap_label);
        let widest = widths.map(|words| letters::width(words, Self::LINE * unit as f32)).fold(0.0, f32::max);
        // Margin, bar, tick and margin; the text; margin.
        let bar_width = unit + (unit + unit / 2) + unit + widest.ceil() as u32 + unit / 2;
        let least_height = unit * 2 * (labels.len() as u32 + 3);
        let canvas = UVec2::new(drawn.x + bar_width, drawn.y.max(least_height));
        Self { canvas, drawn, labels, has_gaps, text_scale }
    }

    fn colour_bar(&self, picture: &mut RgbImage, scale: &ValueScale) {
        let unit = Self::UNIT * self.text_scale;
        let height_of_text = Self::LINE * unit as f32;
        let left = self.drawn.x + unit;
        let width = unit + unit / 2;
        let top = unit;
        let foot = if self.has_gaps { 3 * unit } else { unit };
        let height = self.canvas.y - top - foot;
        let table = scale.table();
        for y in 0..height {
            let t = 1.0 - (f64::from(y) + 0.5) / f64::from(height);
            let colour = table[(t * ValueScale::STEPS as f64).round() as usize];
            fill(picture, left, top + y, width, 1, colour);
        }
        let line = self.text_scale.div_ceil(2);
        outline(picture, left, top, width, height, line);
        for (tick, label) in self.labels.iter().enumerate() {
            let t = tick as f64 / (self.labels.len() - 1) as f64;
            let y = top + ((f64::from(height - line)) * t).round() as u32;
            fill(picture, left + width, y, unit / 2, line, INK);
            let beside = ((left + width + unit) as f32, (y as f32 - 0.5 * height_of_text).max(0.0));
            letters::write(picture, beside, height_of_text, label, INK);
        }
        if self.has_gaps {
            let y = self.canvas.y - unit - unit / 2;
            fill(picture, left, y, width, unit, NOT_FINITE_COLOUR);
            outline(picture, left, y, width, unit, line);
            let middle = y as f32 + 0.5 * (unit as f32 - height_of_text);
            let beside = ((left + width + unit) as f32, middle);
            letters::write(picture, beside, height_of_text, Self::GAP_LABEL, INK);
        }
    }
}

/// A number for the bar: two decimals near 1, exponent far from it. `largest` sets the form for the whole bar.
fn number(value: f64, largest: f64) -> String {
    // Also no "-0.00".
    if value.abs() < 1e-9 * largest {
        return "0".to_owned();
    }
    if (0.095..1000.0).contains(&largest) { format!("{value:.2}") } else { format!("{value:.1e}") }
}

/// What of a map a mark would hide.
struct Hidden<'a> {
    map: &'a [f32],
    cols: usize,
    tokens_per_drawn: DVec2,
}

impl Hidden<'_> {
    /// Share of the largest magnitude that is to be seen.
    const SEEN: f32 = 0.02;
    /// Share of what is to be seen near a query that its mark may hide.
    const MOST: f64 = 0.3;

    /// For every query, how many drawn pixels what there is to see reaches around it, where a mark of this `reach` would hide too much of it.
    /// Each token counts for the query that it is nearest to.
    fn around(&self, queries: &[IVec2], reach: f64) -> Vec<Option<f64>> {
        let largest = self.map.iter().filter(|v| v.is_finite()).fold(0.0, |most: f32, v| most.max(v.abs()));
        let half = 0.5 / self.tokens_per_drawn;
        if half.min_element() >= reach {
            // It lies within its own token.
            return vec![None; queries.len()];
        }
        // Tokens under the mark, all tokens, and how far they reach.
        let mut found = vec![(0_usize, 0_usize, 0.0_f64); queries.len()];
        for (token, value) in self.map.iter().enumerate() {
            if largest == 0.0 || !value.is_finite() || value.abs() < Self::SEEN * largest {
                continue;
            }
            let cell = DVec2::new((token % self.cols) as f64, (token / self.cols) as f64);
            let middle = (cell + 0.5) / self.tokens_per_drawn;
            let far = |query: &IVec2| (query.as_dvec2() + 0.5 - middle).abs();
            let nearest = queries.iter().map(|query| far(query).max_element()).enumerate();
            let Some((query, distance)) = nearest.min_by(|a, b| a.1.total_cmp(&b.1)) else { continue };
            let (under, all, most) = &mut found[query];
            *under += usize::from(distance <= reach);
            *all += 1;
            *most = most.max((far(&queries[query]) + half).max_element());
        }
        let much = |(under, all, _): &(usize, usize, f64)| *under as f64 > Self::MOST * *all as f64;
        found.iter().map(|found| much(found).then_some(found.2)).collect()
    }
}

/// Ring and cross around a query, or four arms that point at it from outside of what there is to see.
struct Mark {
    /// Half the width of its lines.
    unit: f64,
    /// Radius of the ring, where there is one.
    radius: Option<f64>,
    /// Where arms begin and end.
    arms: (f64, f64),
}

impl Mark {
    /// Pixels from the middle to the end of the usual one.
    fn reach(text_scale: u32) -> f64 {
        9.5 * (f64::from(text_scale) + 1.0)
    }

    fn new(text_scale: u32, around: Option<f64>) -> Self {
        let unit = f64::from(text_scale) + 1.0;
        match around {
            None => Self { unit, radius: Some(5.0 * unit), arms: (2.0 * unit, 8.5 * unit) },
            Some(around) => Self { unit, radius: None, arms: (around + 1.5 * unit, around + 8.0 * unit) },
        }
    }
}

/// Draws a mark, black under white so that it shows on any colour; cut at the photograph's edge.
fn mark(picture: &mut RgbImage, at: IVec2, drawn: UVec2, Mark { unit, radius, arms }: &Mark) {
    let reach = (arms.1 + unit).ceil() as i32;
    let distance = |p: DVec2| {
        let ring = radius.map_or(f64::INFINITY, |radius| (p.length() - radius).abs());
        let bar = |along: f64, across: f64| {
            let beyond = (along.abs() - arms.1).max(arms.0 - along.abs()).max(0.0);
            beyond.hypot(across)
        };
        ring.min(bar(p.x, p.y)).min(bar(p.y, p.x))
    };
    for dy in -reach..=reach {
        for dx in -reach..=reach {
            let pixel = at + IVec2::new(dx, dy);
            if pixel.min_element() < 0 || pixel.cmpge(drawn.as_ivec2()).any() {
                continue;
            }
            let near = distance(DVec2::new(f64::from(dx), f64::from(dy)));
            let colour = if near <= 0.4 * unit {
                [255; 3]
            } else if near <= 0.95 * unit {
                [0; 3]
            } else {
                continue;
            };
            picture.put_pixel(pixel.x as u32, pixel.y as u32, Rgb(colour));
        }
    }
}

fn fill(picture: &mut RgbImage, left: u32, top: u32, width: u32, height: u32, colour: [u8; 3]) {
    for y in top..(top + height).min(picture.height()) {
        for x in left..(left + width).min(picture.width()) {
            picture.put_pixel(x, y, Rgb(colour));
        }
    }
}

fn outline(picture: &mut RgbImage, left: u32, top: u32, width: u32, height: u32, line: u32) {
    fill(picture, left, top, width, line, INK);
    fill(picture, left, top + height - line, width, line, INK);
    fill(picture, left, top, line, height, INK);
    fill(picture, left + width - line, top, line, height, INK);
}

/// Grey of equal luma, a little compressed so that the map's colours stay clear on black and on white.
fn grey([r, g, b]: [u8; 3]) -> f64 {
    let luma = 0.2126 * f64::from(r) + 0.7152 * f64::from(g) + 0.0722 * f64::from(b);
    16.0 + luma * (223.0 / 255.0)
}

fn blend(base: f64, colour: u8, opacity: f64) -> u8 {
    (base + (f64::from(colour) - base) * opacity).round() as u8
}
