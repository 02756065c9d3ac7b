//! Photographs from files: decoding, orientation, linear light.
//!
//! A [`Photo`] is one decoded picture, turned the way viewers show it. It is decoded by content, never by
//! its suffix. [`Photo::working`] gives the picture in linear light at the size the tokens need,
//! [`Photo::display`] gives 8-bit sRGB rows to draw on.

use crate::words::plain;
use std::path::Path;

use glam::UVec2;
use image::{DynamicImage, RgbImage, RgbaImage};
use rayon::prelude::*;

use super::colour::{srgb_encode8, srgb_to_linear};
use super::decode::Decoded;

pub use super::decode::{ImageError, MAX_DECODED_BYTES};

/// Linear-light RGB picture `[rows, cols, 3]`, f32, 0 = black, 1 = white of sRGB primaries (D65).
#[derive(Clone, Debug, PartialEq)]
pub struct LinearImage {
    rows: usize,
    cols: usize,
    data: Vec<f32>,
}

impl LinearImage {
    /// Wraps samples `[rows, cols, 3]`; `None` if their number is not `rows · cols · 3` or a side is 0.
    pub fn from_samples(rows: usize, cols: usize, data: Vec<f32>) -> Option<Self> {
        let wanted = rows.checked_mul(cols)?.checked_mul(3)?;
        (wanted > 0 && data.len() == wanted).then_some(Self { rows, cols, data })
    }

    /// Number of pixel rows.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Number of pixel columns.
    pub fn cols(&self) -> usize {
        self.cols
    }

    /// All samples `[rows, cols, 3]`, as uploaded to the device.
    pub fn samples(&self) -> &[f32] {
        &self.data
    }

    /// The pixel at (row, column), each clamped to the edge of the picture.
    pub fn pixel_clamped(&self, row: i64, col: i64) -> [f32; 3] {
        let row = row.clamp(0, self.rows as i64 - 1) as usize;
        let col = col.clamp(0, self.cols as i64 - 1) as usize;
        let at = (row * self.cols + col) * 3;
        [self.data[at], self.data[at + 1], self.data[at + 2]]
    }
}

/// The photograph as 8-bit sRGB for drawing, perhaps reduced.
#[derive(Clone, Debug)]
#[must_use]
pub struct Display {
    /// sRGB rows.
    pub picture: RgbImage,
    /// Size of the photograph these rows show, in its own pixels.
    pub photo_size: UVec2,
}

impl Display {
    /// Photograph pixels per drawn pixel along the longer side; 1 when nothing was reduced.
    pub fn reduction(&self) -> f64 {
        let drawn = self.picture.width().max(self.picture.height());
        f64::from(self.photo_size.max_element()) / f64::from(drawn)
    }

    /// "shown at 1:2.0 (4000x3000 of 8000x6000 pixels)" when the picture was reduced.
    pub fn notice(&self) -> Option<String> {
        let (w, h) = self.picture.dimensions();
        (UVec2::new(w, h) != self.photo_size).then(|| {
            format!(
                "shown at 1:{:.1} ({w}x{h} of {}x{} pixels)",
                self.reduction(),
                self.photo_size.x,
                self.photo_size.y
            )
        })
    }
}

/// One decoded photograph, oriented as viewers show it.
///
/// * 8 and 16 bits per sample, grey, grey with alpha, RGB, RGBA, palettes (PNG, GIF, BMP), CMYK (JPEG with an
///   Adobe marker, TIFF). 16-bit samples are kept. GIF and WebP animations give their first frame.
/// * All eight EXIF orientations are applied (JPEG, WebP, PNG, TIFF), so sizes and pixels are those on screen.
/// * Alpha is straight and composited in linear light over white.
/// * Samples are read as sRGB; float TIFF samples are read as linear light. An embedded colour profile that does
///   not name sRGB gives a notice.
#[derive(Clone, Debug)]
pub struct Photo {
    name: String,
    format: &'static str,
    pixels: DynamicImage,
    orientation: u8,
    notices: Vec<String>,
}

impl Photo {
    /// Reads and decodes a file.
    ///
    /// Errors: every variant of [`ImageError`] except `WorkingSize`.
    pub fn open(path: impl AsRef<Path>) -> Result<Self, ImageError> {
        let path = path.as_ref();
        let name = path.display().to_string();
        let read_error = |reason: String| ImageError::Read { name: name.clone(), reason };
        let metadata = std::fs::metadata(path).map_err(|e| read_error(plain(e)))?;
        if metadata.is_dir() {
            return Err(read_error("it is a folder, expected a file".to_owned()));
        }
        if !metadata.is_file() {
            // Pipes and devices may never end.
            return Err(read_error("it is a pipe or device, expected a regular file".to_owned()));
        }
        if metadata.len() > MAX_DECODED_BYTES {
            let found = metadata.len();
            return Err(read_error(format!(
                "the file has {found} bytes, at most {MAX_DECODED_BYTES} are read"
            )));
        }
        let bytes = std::fs::read(path).map_err(|e| read_error(plain(e)))?;
        Self::decode(&bytes, &name)
    }

    /// Decodes the bytes of a picture file; `name` stands in messages, and its suffix, if any, is compared
    /// with the content (a contradiction is a notice, not an error).
    ///
    /// Errors: as [`Photo::open`], without `Read`.
    pub fn decode(bytes: &[u8], name: &str) -> Result<Self, ImageError> {
        let Decoded { format, pixels, orientation, notices } = super::decode::decode(bytes, name)?;
        Ok(Self { name: name.to_owned(), format, pixels, orientation, notices })
    }

    /// A picture from sRGB samples `[height, width, 3]`, such as a video frame.
    ///
    /// Errors: [`ImageError::Samples`] if `samples` does not hold `height · width · 3` bytes or a side is 0.
    pub fn from_rgb8(name: &str, width: u32, height: u32, samples: Vec<u8>) -> Result<Self, ImageError> {
        let got = samples.len();
        match RgbImage::from_raw(width, height, samples) {
            Some(rgb) if !rgb.is_empty() && rgb.len() == got => Ok(Self::of_samples(name, rgb.into())),
            _ => {
                let expected = u64::from(width).saturating_mul(u64::from(height)).saturating_mul(3);
                Err(ImageError::Samples { name: name.to_owned(), width, height, expected, got })
            }
        }
    }

    /// A picture from sRGB samples with straight alpha, which is composited as for a file.
    ///
    /// Errors: [`ImageError::Samples`] if a side is 0.
    pub fn from_rgba8(name: &str, picture: RgbaImage) -> Result<Self, ImageError> {
        let (width, height) = picture.dimensions();
        if picture.is_empty() {
            return Err(ImageError::Samples { name: name.to_owned(), width, height, expected: 0, got: 0 });
        }
        Ok(Self::of_samples(name, picture.into()))
    }

    fn of_samples(name: &str, pixels: DynamicImage) -> Self {
        let name = name.to_owned();
        Self { name, format: "samples", pixels, orientation: 1, notices: Vec::new() }
    }

    /// Samples as stored, in rows without gaps: to compare two frames.
    #[cfg(feature = "source")]
    pub(crate) fn stored_bytes(&self) -> &[u8] {
        self.pixels.as_bytes()
    }

    /// Path or name as given.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Format found in the bytes, such as "JPEG"; "samples" for a picture that was never a file.
    pub fn format(&self) -> &'static str {
        self.format
    }

    /// Width and height in pixels after orientation.
    pub fn size(&self) -> UVec2 {
        UVec2::new(self.pixels.width(), self.pixels.height())
    }

    /// EXIF orientation that was applied, 1 (none) to 8.
    pub fn orientation(&self) -> u8 {
        self.orientation
    }

    /// Things a user should know: a suffix that contradicts the content, a colour profile that is not used.
    pub fn notices(&self) -> &[String] {
        &self.notices
    }

    /// The picture in linear light `[size.y, size.x, 3]`, each pixel the mean over the area it covers.
    ///
    /// The area average is exact: source pixels cut by an edge count by the fraction that lies inside.
    ///
    /// Errors: [`ImageError::WorkingSize`] unless 1×1 ≤ `size` ≤ [`Photo::size`].
    pub fn working(&self, size: UVec2) -> Result<LinearImage, ImageError> {
        let full = self.size();
        if size.min_element() == 0 || size.cmpgt(full).any() {
            return Err(ImageError::WorkingSize {
                name: self.name.clone(),
                wanted_width: size.x,
                wanted_height: size.y,
                width: full.x,
                height: full.y,
            });
        }
        Ok(self.reduced(size))
    }

    /// sRGB rows to draw on, reduced (area average in linear light) so that no side exceeds `max_side` pixels;
    /// a `max_side` of 0 counts as 1.
    pub fn display(&self, max_side: u32) -> Display {
        let full = self.size();
        let longest = full.max_element();
        let max_side = max_side.max(1);
        let picture = if longest <= max_side {
            self.full_srgb8()
        } else {
            // Ratio in u64: sides up to u32::MAX times max_side do not fit 32 bits.
            let shrink =
                |side: u32| ((u64::from(side) * u64::from(max_side) / u64::from(longest)) as u32).max(1);
            let size = UVec2::new(shrink(full.x), shrink(full.y));
            let linear = self.reduced(size);
            let bytes = linear.data.par_iter().map(|&v| srgb_encode8(v)).collect();
            rgb_image(size, bytes)
        };
        Display { picture, photo_size: full }
    }

    fn full_srgb8(&self) -> RgbImage {
        match &self.pixels {
            DynamicImage::ImageRgb8(rgb) => rgb.clone(),
            _ => {
                let cols = self.pixels.width() as usize;
                let rows = RowReader::new(&self.pixels);
                let mut bytes = vec![0u8; cols * self.pixels.height() as usize * 3];
                bytes.par_chunks_exact_mut(cols * 3).enumerate().for_each_init(
                    || vec![0f32; cols * 3],
                    |line, (row, out)| {
                        rows.linear_row(row, line);
                        for (byte, &value) in out.iter_mut().zip(line.iter()) {
                            *byte = srgb_encode8(value);
                        }
                    },
                );
                rgb_image(self.size(), bytes)
            }
        }
    }

    /// Area average to `size`, which must be between 1×1 and the full size.
    fn reduced(&self, size: UVec2) -> LinearImage {
        let full = self.size();
        let (in_rows, in_cols) = (full.y as usize, full.x as usize);
        let (rows, cols) = (size.y as usize, size.x as usize);
        let reader = RowReader::new(&self.pixels);
        let columns: Vec<Coverage> = (0..cols).map(|c| Coverage::of(c, cols, in_cols)).collect();
        let mut data = vec![0f32; rows * cols * 3];
        data.par_chunks_exact_mut(cols * 3).enumerate().for_each_init(
            || (vec![0f32; in_cols * 3], vec![0f32; in_cols * 3]),
            |(line, sum), (row, out)| {
                if rows == in_rows && cols == in_cols {
                    reader.linear_row(row, out);
                    return;
                }
                sum.fill(0.0);
                let band = Coverage::of(row, rows, in_rows);
                for (source, weight) in band.weights() {
                    reader.linear_row(source, line);
                    for (s, &v) in sum.iter_mut().zip(line.iter()) {
                        *s += weight * v;
                    }
                }
                for (pixel, column) in out.chunks_exact_mut(3).zip(&columns) {
                    let mut mean = [0f32; 3];
                    for (source, weight) in column.weights() {
                        for (m, &v) in mean.iter_mut().zip(&sum[source * 3..source * 3 + 3]) {
                            *m += weight * v;
                        }
                    }
                    pixel.copy_from_slice(&mean);
                }
            },
        );
        LinearImage { rows, cols, data }
    }
}

/// Source pixels covered by one output pixel of a box filter, with weights that sum to 1.
struct Coverage {
    start: usize,
    count: usize,
    first: f32,
    middle: f32,
    last: f32,
}

impl Coverage {
    /// Output pixel `index` of `out` spans source interval `[index, index + 1) · source / out`.
    ///
    /// Positions are kept as integer multiples of 1/out, so coverage is exact.
    fn of(index: usize, out: usize, source: usize) -> Self {
        let (begin, end) = (index * source, (index + 1) * source);
        let start = begin / out;
        let stop = end.div_ceil(out);
        let total = source as f64;
        let part = |from: usize, to: usize| ((to.min(end) - from.max(begin)) as f64 / total) as f32;
        let weight = |pixel: usize| part(pixel * out, (pixel + 1) * out);
        Self {
            start,
            count: stop - start,
            first: weight(start),
            middle: (out as f64 / total) as f32,
            last: weight(stop - 1),
        }
    }

    fn weights(&self) -> impl Iterator<Item = (usize, f32)> + '_ {
        (0..self.count).map(|i| {
            let weight = if i == 0 {
                self.first
            } else if i + 1 == self.count {
                self.last
            } else {
                self.middle
            };
            (self.start + i, weight)
        })
    }
}

/// Turns stored rows into linear light, one row at a time, so that no second full-size copy exists.
struct RowReader<'a> {
    pixels: &'a DynamicImage,
    /// Linear value of every 8- or 16-bit code.
    table: Vec<f32>,
}

impl<'a> RowReader<'a> {
    fn new(pixels: &'a DynamicImage) -> Self {
        let codes: usize = match pixels {
            DynamicImage::ImageLuma8(_)
            | DynamicImage::ImageLumaA8(_)
            | DynamicImage::ImageRgb8(_)
            | DynamicImage::ImageRgba8(_) => 256,
            DynamicImage::ImageRgb32F(_) | DynamicImage::ImageRgba32F(_) => 1,
            _ => 65_536,
        };
        let top = (codes.max(2) - 1) as f64;
        let table = (0..codes).map(|code| srgb_to_linear(code as f64 / top) as f32).collect();
        Self { pixels, table }
    }

    /// Writes row `row` as linear RGB `[cols, 3]`, alpha composited over white.
    fn linear_row(&self, row: usize, out: &mut [f32]) {
        let cols = self.pixels.width() as usize;
        let look = |code: usize| self.table[code];
        macro_rules! row_of {
            ($image:expr, $channels:literal) => {
                $image.as_raw()[row * cols * $channels..(row + 1) * cols * $channels].chunks_exact($channels)
            };
        }
        macro_rules! fill {
            ($image:expr, $channels:literal, $pixel:expr) => {
                for (o, p) in out.chunks_exact_mut(3).zip(row_of!($image, $channels)) {
                    o.copy_from_slice(&$pixel(p));
                }
            };
        }
        let over = |rgb: [f32; 3], alpha: f32| rgb.map(|v| alpha * v + (1.0 - alpha));
        match self.pixels {
            DynamicImage::ImageLuma8(i) => fill!(i, 1, |p: &[u8]| [look(p[0].into()); 3]),
            DynamicImage::ImageLumaA8(i) => {
                fill!(i, 2, |p: &[u8]| over([look(p[0].into()); 3], f32::from(p[1]) / 255.0))
            }
            DynamicImage::ImageRgb8(i) => fill!(i, 3, |p: &[u8]| [p[0], p[1], p[2]].map(|c| look(c.into()))),
            DynamicImage::ImageRgba8(i) => fill!(i, 4, |p: &[u8]| over(
                [p[0], p[1], p[2]].map(|c| look(c.into())),
                f32::from(p[3]) / 255.0
            )),
            DynamicImage::ImageLuma16(i) => fill!(i, 1, |p: &[u16]| [look(p[0].into()); 3]),
            DynamicImage::ImageLumaA16(i) => {
                fill!(i, 2, |p: &[u16]| over([look(p[0].into()); 3], f32::from(p[1]) / 65_535.0))
            }
            DynamicImage::ImageRgb16(i) => {
                fill!(i, 3, |p: &[u16]| [p[0], p[1], p[2]].map(|c| look(c.into())))
            }
            DynamicImage::ImageRgba16(i) => fill!(i, 4, |p: &[u16]| over(
                [p[0], p[1], p[2]].map(|c| look(c.into())),
                f32::from(p[3]) / 65_535.0
            )),
            DynamicImage::ImageRgb32F(i) => fill!(i, 3, |p: &[f32]| [p[0], p[1], p[2]]),
            DynamicImage::ImageRgba32F(i) => fill!(i, 4, |p: &[f32]| over([p[0], p[1], p[2]], p[3])),
            // `DynamicImage` is non-exhaustive; decode refuses any kind that is not listed above.
            _ => out.fill(f32::NAN),
        }
    }
}

fn rgb_image(size: UVec2, bytes: Vec<u8>) -> RgbImage {
    RgbImage::from_raw(size.x, size.y, bytes).expect("byte count was computed from this size")
}
