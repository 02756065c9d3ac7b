//! From the samples of cameras and videos to sRGB: packed and planar Y′CbCr and Motion JPEG, with the range, the matrix
//! and the row lengths they come with.
//!
//! Y′ and C of `bits` bits become R′G′B′ by the equations of Rec. ITU-R BT.601 and BT.709: with Kr, Kb of the matrix,
//! R = Y + 2 (1 − Kr) Cr, B = Y + 2 (1 − Kb) Cb, G = (Y − Kr R − Kb B) / (1 − Kr − Kb). In the limited range Y goes from
//! 16 to 235 and C from 16 to 240 (times 2^(bits − 8)), in the full one both fill all codes. R′G′B′ are then read as sRGB.

use std::borrow::Cow;

use rayon::prelude::*;

use super::{Frame, SourceError};
use crate::vision::image::{ImageError, MAX_DECODED_BYTES, Photo};

/// How a camera packs a picture.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PixelFormat {
    /// Y Cb Y Cr for every two pixels of a row.
    Yuyv,
    /// Rows of Y, then rows of Cb Cr pairs, one for every 2 × 2 pixels.
    Nv12,
    /// A JPEG picture for each frame.
    Mjpeg,
}

/// Codes that black and white have.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Range {
    /// 16 to 235 of 255: what video has unless it says otherwise.
    #[default]
    Limited,
    /// 0 to 255 of 255.
    Full,
}

/// Weights of red and blue in Y.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Matrix {
    /// Standard definition and webcams: Kr = 0.299, Kb = 0.114.
    #[default]
    Bt601,
    /// High definition: Kr = 0.2126, Kb = 0.0722.
    Bt709,
}

impl Matrix {
    /// What video of `height` lines has where nothing is stated: BT.601 below 720 lines, BT.709 from there on.
    pub fn of_height(height: u32) -> Self {
        if height < 720 { Self::Bt601 } else { Self::Bt709 }
    }

    fn weights(self) -> (f32, f32) {
        match self {
            Self::Bt601 => (0.299, 0.114),
            Self::Bt709 => (0.2126, 0.0722),
        }
    }
}

/// What is wrong with the samples of a frame.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PixelError {
    /// Too few bytes.
    #[error(
        "{format:?} of {width}x{height}: expected {expected} bytes or more, got {got}; the frame is dropped"
    )]
    Short {
        /// Declared packing.
        format: PixelFormat,
        /// Declared width in pixels.
        width: u32,
        /// Declared height in pixels.
        height: u32,
        /// Bytes that such a frame takes.
        expected: u64,
        /// Bytes of this frame.
        got: usize,
    },
    /// A size that no picture has.
    #[error(
        "expected a frame of 1x1 to {MAX_DECODED_BYTES} bytes, got {width}x{height}; choose another mode"
    )]
    Size {
        /// Declared width in pixels.
        width: u32,
        /// Declared height in pixels.
        height: u32,
    },
    /// Rows that overlap.
    #[error(
        "{format:?} of width {width}: expected rows of {expected} bytes or more, got {got}; the driver misstates them"
    )]
    Stride {
        /// Declared packing.
        format: PixelFormat,
        /// Declared width in pixels.
        width: u32,
        /// Bytes that a row takes.
        expected: usize,
        /// Declared bytes from row to row.
        got: usize,
    },
    /// Neither a JPEG picture nor raw samples of the declared size.
    #[error(
        "declared as Mjpeg of {width}x{height}: expected JPEG data or {yuyv} bytes of Yuyv, got {got} bytes beginning {start:02x?}; the frame is dropped"
    )]
    NoJpeg {
        /// Declared width in pixels.
        width: u32,
        /// Declared height in pixels.
        height: u32,
        /// Bytes that the frame would have as YUYV.
        yuyv: u64,
        /// Bytes of this frame.
        got: usize,
        /// The first of them.
        start: Vec<u8>,
    },
    /// A JPEG picture that cannot be decoded.
    #[error(transparent)]
    Jpeg(#[from] ImageError),
}

/// One frame as a camera delivers it, with everything needed to read it.
#[derive(Clone, Debug)]
pub struct RawFrame {
    /// Declared packing; drivers misstate it, so the bytes are looked at.
    pub format: PixelFormat,
    /// Width in pixels.
    pub width: u32,
    /// Height in pixels.
    pub height: u32,
    /// Bytes from row to row (of Y, and of the pairs under it); `None` = rows follow each other without a gap.
    pub stride: Option<usize>,
    /// Range of Y, Cb and Cr; JPEG has its own.
    pub range: Range,
    /// Matrix of Y, Cb and Cr; JPEG has its own.
    pub matrix: Matrix,
    /// The data.
    pub bytes: Vec<u8>,
}

impl RawFrame {
    /// Decodes the frame into a picture called `name`; what was odd about it is in the notices beside it.
    ///
    /// Errors: too few bytes, a truncated JPEG, and other [`PixelError`]s. Such a frame is best dropped.
    pub fn photo(&self, name: &str) -> Result<(Photo, Vec<String>), PixelError> {
        check_size(self.width, self.height)?;
        let is_jpeg = self.bytes.starts_with(&[0xff, 0xd8, 0xff]);
        match self.format {
            PixelFormat::Mjpeg if is_jpeg => self.jpeg(name),
            PixelFormat::Mjpeg if self.yuyv_row().is_some() => {
                let notice = format!("{name}: declared as Mjpeg, but holds Yuyv; read by content");
                Ok((self.yuyv(name)?, vec![notice]))
            }
            PixelFormat::Mjpeg => Err(PixelError::NoJpeg {
                width: self.width,
                height: self.height,
                yuyv: 2 * u64::from(self.width) * u64::from(self.height),
                got: self.bytes.len(),
                start: self.bytes.iter().take(4).copied().collect(),
            }),
            // Only where it cannot be raw samples: those may begin with any bytes.
            PixelFormat::Yuyv if is_jpeg && self.yuyv_row().is_none() => {
                let (photo, mut notices) = self.jpeg(name)?;
                notices.push(format!("{name}: declared as Yuyv, but holds Mjpeg; read by content"));
                Ok((photo, notices))
            }
            PixelFormat::Yuyv => Ok((self.yuyv(name)?, Vec::new())),
            PixelFormat::Nv12 => Ok((self.nv12(name)?, Vec::new())),
        }
    }

    fn jpeg(&self, name: &str) -> Result<(Photo, Vec<String>), PixelError> {
        let photo = Photo::decode(&with_tables(&self.bytes), name)?;
        let mut notices = photo.notices().to_vec();
        let size = photo.size();
        if (size.x, size.y) != (self.width, self.height) {
            notices.push(format!(
                "{name}: declared as {}x{}, but the JPEG is {}x{}",
                self.width, self.height, size.x, size.y
            ));
        }
        Ok((photo, notices))
    }

    /// Row lengths of YUYV without gaps: whole pairs of pixels, or an odd last pixel without its Cr.
    fn yuyv_rows(&self) -> [usize; 2] {
        let width = self.width as usize;
        [4 * width.div_ceil(2), 2 * width]
    }

    /// Bytes from row to row if the data is exactly as long as YUYV of this size.
    fn yuyv_row(&self) -> Option<usize> {
        let fits = |row: &usize| row.checked_mul(self.height as usize) == Some(self.bytes.len());
        self.stride.into_iter().chain(self.yuyv_rows()).find(fits)
    }

    fn yuyv(&self, name: &str) -> Result<Photo, PixelError> {
        let (width, height) = (self.width as usize, self.height as usize);
        let [whole, least] = self.yuyv_rows();
        let row = self.row(self.stride.or(self.yuyv_row()).unwrap_or(whole), least)?;
        self.long_enough(row.saturating_mul(height - 1).saturating_add(least))?;
        let convert = Converter::new(self.range, self.matrix, 8);
        Ok(photo(name, width, height, |y, out| {
            let line = &self.bytes[row * y..self.bytes.len().min(row * (y + 1))];
            let mut chroma = [128, 128];
            for (x, pixel) in out.chunks_exact_mut(3).enumerate() {
                let pair = &line[4 * (x / 2)..];
                if let (0, Some(&[_, cb, _, cr])) = (x % 2, pair.first_chunk()) {
                    chroma = [cb, cr];
                }
                pixel.copy_from_slice(&convert.rgb([pair[2 * (x % 2)], chroma[0], chroma[1]].map(u16::from)));
            }
        })?)
    }

    fn nv12(&self, name: &str) -> Result<Photo, PixelError> {
        let (width, height) = (self.width as usize, self.height as usize);
        let pairs = width.div_ceil(2);
        let row = self.row(self.stride.unwrap_or(width), width)?;
        // Where the driver states no length, rows of pairs are as long as their pairs.
        let pair_row = self.stride.unwrap_or(2 * pairs);
        let chroma_at = row.saturating_mul(height);
        // An odd last pixel may lack its Cr where rows are as long as the width.
        let last = (2 * pairs).min(pair_row);
        let before_last = pair_row.saturating_mul(height.div_ceil(2) - 1);
        self.long_enough(chroma_at.saturating_add(before_last).saturating_add(last))?;
        let convert = Converter::new(self.range, self.matrix, 8);
        Ok(photo(name, width, height, |y, out| {
            let luma = &self.bytes[row * y..];
            let line = &self.bytes[chroma_at + pair_row * (y / 2)..];
            let line = &line[..line.len().min(pair_row)];
            let mut chroma = [128, 128];
            for (x, pixel) in out.chunks_exact_mut(3).enumerate() {
                if let (0, Some(&pair)) = (x % 2, line[2 * (x / 2)..].first_chunk()) {
                    chroma = pair;
                }
                pixel.copy_from_slice(&convert.rgb([luma[x], chroma[0], chroma[1]].map(u16::from)));
            }
        })?)
    }

    fn row(&self, row: usize, expected: usize) -> Result<usize, PixelError> {
        let (format, width) = (self.format, self.width);
        if row < expected {
            return Err(PixelError::Stride { format, width, expected, got: row });
        }
        Ok(row)
    }

    fn long_enough(&self, expected: usize) -> Result<(), PixelError> {
        let (format, width, height, got) = (self.format, self.width, self.height, self.bytes.len());
        if got < expected {
            return Err(PixelError::Short { format, width, height, expected: expected as u64, got });
        }
        Ok(())
    }
}

/// Decodes frame after frame of one camera and keeps count.
#[derive(Debug)]
pub(super) struct RawDecoder {
    pub(super) name: String,
    pub(super) index: u64,
    pub(super) faults: u64,
}

impl RawDecoder {
    pub(super) fn new(name: String) -> Self {
        Self { name, index: 0, faults: 0 }
    }

    /// Errors: [`SourceError::Pixels`]; the frame is dropped and counted.
    pub(super) fn frame(&mut self, raw: &RawFrame) -> Result<Frame, SourceError> {
        let index = self.index;
        self.index += 1;
        match raw.photo(&self.name) {
            Ok((photo, notices)) => Ok(Frame { photo, index, shown_for: None, notices }),
            Err(error) => {
                self.faults += 1;
                Err(SourceError::Pixels { name: self.name.clone(), index, error })
            }
        }
    }
}

/// Planes of one frame of a video, rows without gaps.
#[derive(Clone, Copy, Debug)]
pub(super) struct Planes<'a> {
    pub(super) width: usize,
    pub(super) height: usize,
    /// Y, Cb, Cr; bytes, or pairs of bytes (low one first) above 8 bits. No Cb and Cr = grey.
    pub(super) planes: [&'a [u8]; 3],
    /// Pixels per sample of Cb and Cr, across and down.
    pub(super) chroma: (usize, usize),
    pub(super) bits: u32,
    pub(super) range: Range,
    pub(super) matrix: Matrix,
}

impl Planes<'_> {
    /// Errors: [`ImageError::Samples`] if a side is 0. The planes must be as long as their size says.
    pub(super) fn photo(&self, name: &str) -> Result<Photo, ImageError> {
        let convert = Converter::new(self.range, self.matrix, self.bits);
        let (across, down) = self.chroma;
        let chroma_cols = self.width.div_ceil(across);
        let sample = |plane: usize, at: usize| -> u16 {
            let data = self.planes[plane];
            match (data.is_empty(), self.bits) {
                (true, bits) => 1 << (bits - 1),
                (false, 8) => data[at].into(),
                _ => u16::from_le_bytes([data[2 * at], data[2 * at + 1]]),
            }
        };
        photo(name, self.width, self.height, |y, out| {
            for (x, pixel) in out.chunks_exact_mut(3).enumerate() {
                let chroma_at = y / down * chroma_cols + x / across;
                let codes = [sample(0, y * self.width + x), sample(1, chroma_at), sample(2, chroma_at)];
                pixel.copy_from_slice(&convert.rgb(codes));
            }
        })
    }
}

/// Y, Cb and Cr planes of a picture, 8 bits, limited range: what every player takes a y4m file for.
#[cfg(feature = "cli")]
pub(crate) fn limited_planes(picture: &image::RgbImage, matrix: Matrix) -> [Vec<u8>; 3] {
    let (kr, kb) = matrix.weights();
    let plane = |code: &(dyn Fn(f32, f32, f32) -> f32 + Sync)| -> Vec<u8> {
        let pixels = picture.as_raw().par_chunks_exact(3);
        pixels
            .map(|p| {
                let [r, g, b] = [p[0], p[1], p[2]].map(|c| f32::from(c) / 255.0);
                code(r, b, kr * r + (1.0 - kr - kb) * g + kb * b).round().clamp(1.0, 254.0) as u8
            })
            .collect()
    };
    [
        plane(&|_, _, y| 16.0 + 219.0 * y),
        plane(&|_, b, y| 128.0 + 224.0 * (b - y) / (2.0 - 2.0 * kb)),
        plane(&|r, _, y| 128.0 + 224.0 * (r - y) / (2.0 - 2.0 * kr)),
    ]
}

/// The equations above for one range, matrix and number of bits.
struct Converter {
    black: f32,
    /// 1 / (code of white − code of black), times 255.
    luma: f32,
    grey: f32,
    /// Factors of Cr in red, Cb and Cr in green, Cb in blue; times 255.
    chroma: [f32; 4],
}

impl Converter {
    fn new(range: Range, matrix: Matrix, bits: u32) -> Self {
        let unit = (1u32 << (bits - 8)) as f32;
        let top = ((1u32 << bits) - 1) as f32;
        let (black, white, span) = match range {
            Range::Limited => (16.0 * unit, 235.0 * unit, 224.0 * unit),
            Range::Full => (0.0, top, top),
        };
        let (kr, kb) = matrix.weights();
        let kg = 1.0 - kr - kb;
        let (red, blue) = (2.0 * (1.0 - kr), 2.0 * (1.0 - kb));
        let chroma = [red, -kb * blue / kg, -kr * red / kg, blue].map(|f| 255.0 * f / span);
        Self { black, luma: 255.0 / (white - black), grey: 128.0 * unit, chroma }
    }

    /// Codes of Y, Cb, Cr to sRGB.
    fn rgb(&self, codes: [u16; 3]) -> [u8; 3] {
        let [y, cb, cr] = codes.map(f32::from);
        let (y, cb, cr) = (self.luma * (y - self.black), cb - self.grey, cr - self.grey);
        let [red, green_cb, green_cr, blue] = self.chroma;
        [y + red * cr, y + green_cb * cb + green_cr * cr, y + blue * cb]
            .map(|c| c.round().clamp(0.0, 255.0) as u8)
    }
}

/// Motion JPEG may leave out its Huffman tables, which are always the same. The decoder puts them in for data that carries
/// the mark of an AVI file, and many cameras leave that out too.
fn with_tables(jpeg: &[u8]) -> Cow<'_, [u8]> {
    const TABLES: [u8; 2] = [0xff, 0xc4];
    const MARK: &[u8] = b"\xff\xe0\x00\x08AVI1\0\0";
    match jpeg.split_first_chunk::<2>() {
        Some((start, rest)) if !jpeg.windows(2).any(|pair| pair == TABLES) => {
            Cow::Owned([start.as_slice(), MARK, rest].concat())
        }
        _ => Cow::Borrowed(jpeg),
    }
}

pub(super) fn check_size(width: u32, height: u32) -> Result<(), PixelError> {
    let bytes = u64::from(width).saturating_mul(u64::from(height)).saturating_mul(3);
    if bytes == 0 || bytes > MAX_DECODED_BYTES {
        return Err(PixelError::Size { width, height });
    }
    Ok(())
}

/// A picture made row by row, rows in parallel.
fn photo(
    name: &str,
    width: usize,
    height: usize,
    row: impl Fn(usize, &mut [u8]) + Sync,
) -> Result<Photo, ImageError> {
    let mut samples = vec![0; 3 * width * height];
    samples.par_chunks_exact_mut((3 * width).max(1)).enumerate().for_each(|(y, out)| row(y, out));
    Photo::from_rgb8(name, width as u32, height as u32, samples)
}
