//! Files for others: the view as it is seen, the map's own numbers, a table, the settings, an animation of a sweep.
//!
//! Every file appears whole or not at all; what stood in its place is then untouched.

use super::document::Document;
use super::snapshot::{SEES_NOTHING, Snapshot};
use crate::arrays::{self, Array, ArrayData, ArrayError, NPY_NAME};
use crate::whole_file::write_whole;
use crate::words::told;
use eframe::egui::ColorImage;
use image::{ImageBuffer, ImageFormat, Luma};
use rayon::prelude::*;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::{self, BufWriter, Cursor, Write as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Why nothing was exported; one line each.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ExportError {
    /// The file cannot be written.
    #[error("cannot write `{path}`: {}", told(.reason))]
    Write {
        /// The file.
        path: PathBuf,
        /// The system's reason.
        reason: io::Error,
    },
    /// The suffix does not say what is written.
    #[error("cannot write `{path}`: expected the suffix {expected}")]
    Suffix {
        /// The file.
        path: PathBuf,
        /// What it may be.
        expected: &'static str,
    },
    /// Array files.
    #[error(transparent)]
    Arrays(#[from] ArrayError),
    /// The file is the picture itself.
    #[error("`{path}` is the picture itself; choose another name, so that it is not lost")]
    Input {
        /// The file.
        path: PathBuf,
    },
    /// A grey picture cannot hold what is not finite.
    #[error(
        "element {index} of the map is not finite, which a picture of grey values cannot say; export .npy instead"
    )]
    NotFinite {
        /// First such token.
        index: usize,
    },
    /// Frames that do not make an animation.
    #[error(
        "frame {index} has {got} pixels, the first one {expected}; keep the window's size during a sweep"
    )]
    Frames {
        /// Which frame.
        index: usize,
        /// Size of the first one.
        expected: String,
        /// Size of this one.
        got: String,
    },
    /// Nothing to write.
    #[error("there is nothing to export yet: wait for the first map")]
    Nothing,
    /// A mask hides every token from the clicked one.
    #[error("there is no row to export: {SEES_NOTHING}; change it, or click elsewhere")]
    Hidden,
    /// The encoder refused.
    #[error("cannot encode `{path}`: {reason}")]
    Encode {
        /// The file.
        path: PathBuf,
        /// The encoder's reason.
        reason: String,
    },
}

type Outcome = Result<(), ExportError>;

/// Refuses to write over the picture that is shown.
pub fn keep_input(input: Option<&Path>, target: &Path) -> Outcome {
    let real = |path: &Path| std::fs::canonicalize(path).ok();
    match (input.and_then(real), real(target)) {
        (Some(a), Some(b)) if a == b => Err(ExportError::Input { path: target.into() }),
        _ => Ok(()),
    }
}

/// Refuses a file that cannot be written, before anything is made for it.
pub(super) fn check(path: &Path, known: &[&str], expected: &'static str) -> Outcome {
    suffix(path, known, expected)?;
    crate::whole_file::check_target(path).map_err(|reason| ExportError::Write { path: path.into(), reason })
}

/// Saves the view as it was seen: `.png`.
pub fn view(path: &Path, seen: &ColorImage) -> Outcome {
    suffix(path, &["png"], ".png")?;
    let [width, height] = seen.size;
    let bytes: Vec<u8> = seen.pixels.iter().flat_map(|p| [p.r(), p.g(), p.b()]).collect();
    let picture =
        image::RgbImage::from_raw(width as u32, height as u32, bytes).ok_or(ExportError::Nothing)?;
    let mut encoded = Vec::new();
    picture
        .write_to(&mut Cursor::new(&mut encoded), ImageFormat::Png)
        .map_err(|e| ExportError::Encode { path: path.into(), reason: e.to_string() })?;
    whole(path, &encoded)
}

/// What the ends of an exported grey picture stand for.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct GreyRange {
    /// Black.
    pub low: f32,
    /// White.
    pub high: f32,
}

/// Saves the map itself, one number per token.
///
/// * `.png`: 16-bit grey, black at the smallest number (0 where nothing is negative) and white at the largest; those
///   numbers are returned, to be told.
/// * `.npy`: the fused row, f32 `[rows, cols]`.
/// * `.npz`, `.safetensors`: `fused` `[rows, cols]`, `heads` `[h, rows, cols]`, `lambda` `[h]`, `query` `[2]` as row and
///   column of its token, and `exact` `[rows, cols]` where there is one.
pub fn map(path: &Path, snapshot: &Snapshot) -> Result<Option<GreyRange>, ExportError> {
    let found = suffix(path, &["png", "npy", "npz", "safetensors"], ".png, .npy, .npz or .safetensors")?;
    if snapshot.sees_nothing() {
        return Err(ExportError::Hidden);
    }
    if snapshot.row.fused.len() != snapshot.grid.tokens() {
        return Err(ExportError::Nothing);
    }
    if found == "png" {
        return grey(path, snapshot).map(Some);
    }
    let (rows, cols) = (snapshot.grid.rows(), snapshot.grid.cols());
    let fused = Array { shape: vec![rows, cols], data: ArrayData::F32(snapshot.row.fused.clone()) };
    if found == "npy" {
        arrays::write(path, &BTreeMap::from([(NPY_NAME.to_string(), fused)]))?;
        return Ok(None);
    }
    let heads = &snapshot.row.heads;
    let cols_or_one = cols.max(1);
    let place = [snapshot.query_token / cols_or_one, snapshot.query_token % cols_or_one].map(|i| i as u32);
    let mut all = BTreeMap::from([
        ("fused".to_string(), fused),
        (
            "lambda".to_string(),
            Array { shape: vec![snapshot.lambda.len()], data: ArrayData::F32(snapshot.lambda.clone()) },
        ),
        ("query".to_string(), Array { shape: vec![2], data: ArrayData::U32(place.to_vec()) }),
    ]);
    if heads.iter().all(|head| head.len() == rows * cols) {
        let shape = vec![heads.len(), rows, cols];
        all.insert("heads".into(), Array { shape, data: ArrayData::F32(heads.concat()) });
    }
    if let Some(exact) = snapshot.exact_row.as_ref().filter(|row| row.fused.len() == rows * cols) {
        let data = ArrayData::F32(exact.fused.clone());
        all.insert("exact".into(), Array { shape: vec![rows, cols], data });
    }
    arrays::write(path, &all)?;
    Ok(None)
}

fn grey(path: &Path, snapshot: &Snapshot) -> Result<GreyRange, ExportError> {
    let values = &snapshot.row.fused;
    if let Some(index) = values.iter().position(|x| !x.is_finite()) {
        return Err(ExportError::NotFinite { index });
    }
    let low = values.iter().fold(0.0_f32, |a, b| a.min(*b));
    let high = values.iter().fold(low, |a, b| a.max(*b));
    let span = if high > low { f64::from(high) - f64::from(low) } else { 1.0 };
    let level = |x: &f32| ((f64::from(*x) - f64::from(low)) / span * 65_535.0).round() as u16;
    let levels: Vec<u16> = values.iter().map(level).collect();
    let (width, height) = (snapshot.grid.cols() as u32, snapshot.grid.rows() as u32);
    let picture: ImageBuffer<Luma<u16>, _> =
        ImageBuffer::from_raw(width, height, levels).ok_or(ExportError::Nothing)?;
    let mut encoded = Vec::new();
    picture
        .write_to(&mut Cursor::new(&mut encoded), ImageFormat::Png)
        .map_err(|e| ExportError::Encode { path: path.into(), reason: e.to_string() })?;
    whole(path, &encoded)?;
    Ok(GreyRange { low, high })
}

/// Saves a table with a line per token: token, row, col, its centre x and y in pixels of the photograph, every head, the
/// fused number, and the exact one where there is one. Numbers are written such that reading them gives the same bits.
pub fn csv(path: &Path, snapshot: &Snapshot) -> Outcome {
    suffix(path, &["csv"], ".csv")?;
    let (grid, row) = (&snapshot.grid, &snapshot.row);
    if snapshot.sees_nothing() {
        return Err(ExportError::Hidden);
    }
    if row.fused.len() != grid.tokens() {
        return Err(ExportError::Nothing);
    }
    let exact = snapshot.exact_row.as_ref().map(|row| &row.fused);
    let write = |file: &std::fs::File| -> io::Result<()> {
        let mut out = BufWriter::new(file);
        write!(out, "token,row,col,x,y")?;
        (1..=row.heads.len()).try_for_each(|h| write!(out, ",head_{h}"))?;
        writeln!(out, ",fused{}", if exact.is_some() { ",exact" } else { "" })?;
        let cols = grid.cols().max(1);
        let mut line = String::new();
        for (token, fused) in row.fused.iter().enumerate() {
            let centre = grid.token_rect(token).map_err(io::Error::other)?.centre();
            line.clear();
            let _ = write!(line, "{token},{},{},{},{}", token / cols, token % cols, centre.x, centre.y);
            let heads = row.heads.iter().map(|head| head.get(token).copied().unwrap_or(f32::NAN));
            let rest = exact.map(|exact| exact.get(token).copied().unwrap_or(f32::NAN));
            for value in heads.chain([*fused]).chain(rest) {
                let _ = write!(line, ",{value}");
            }
            writeln!(out, "{line}")?;
        }
        out.flush()
    };
    write_whole(path, write).map_err(|reason| ExportError::Write { path: path.into(), reason })
}

/// Saves the document, settings and masks, as JSON.
pub fn settings(path: &Path, document: &Document) -> Outcome {
    suffix(path, &["json"], ".json")?;
    let text = serde_json::to_string_pretty(document)
        .map_err(|e| ExportError::Encode { path: path.into(), reason: e.to_string() })?;
    whole(path, text.as_bytes())
}

/// Saves the frames of a sweep as an endless animation: `.gif`, `delay` between frames rounded to hundredths of a second.
pub fn animation(path: &Path, frames: &[ColorImage], delay: Duration) -> Outcome {
    suffix(path, &["gif"], ".gif")?;
    let first = frames.first().ok_or(ExportError::Nothing)?;
    let encode = |reason: String| ExportError::Encode { path: path.into(), reason };
    if let Some(index) = frames.iter().position(|frame| frame.size != first.size) {
        let text = |size: [usize; 2]| format!("{} × {}", size[0], size[1]);
        return Err(ExportError::Frames { index, expected: text(first.size), got: text(frames[index].size) });
    }
    let [width, height] = first.size.map(u16::try_from);
    let (Ok(width), Ok(height)) = (width, height) else {
        return Err(encode("an animated GIF has at most 65 535 pixels a side".into()));
    };
    let hundredths = u16::try_from(delay.as_millis() / 10).unwrap_or(u16::MAX);
    // Viewers take anything below 2 for their own default, which is slow.
    let hundredths = hundredths.max(2);
    let still: Vec<gif::Frame<'_>> = frames
        .par_iter()
        .map(|frame| {
            let mut bytes: Vec<u8> = frame.pixels.iter().flat_map(|p| [p.r(), p.g(), p.b(), 255]).collect();
            let mut frame = gif::Frame::from_rgba_speed(width, height, &mut bytes, 10);
            frame.delay = hundredths;
            frame.make_lzw_pre_encoded();
            frame
        })
        .collect();
    let mut bytes = Vec::new();
    let mut write = || -> Result<(), gif::EncodingError> {
        let mut encoder = gif::Encoder::new(&mut bytes, width, height, &[])?;
        encoder.set_repeat(gif::Repeat::Infinite)?;
        still.iter().try_for_each(|frame| encoder.write_lzw_pre_encoded_frame(frame))
    };
    write().map_err(|e| encode(e.to_string()))?;
    whole(path, &bytes)
}

/// The suffix in lower case, if it is one of those.
fn suffix(path: &Path, known: &[&str], expected: &'static str) -> Result<String, ExportError> {
    let found = path.extension().map(|suffix| suffix.to_string_lossy().to_lowercase());
    found
        .filter(|suffix| known.contains(&suffix.as_str()))
        .ok_or_else(|| ExportError::Suffix { path: path.into(), expected })
}

fn whole(path: &Path, bytes: &[u8]) -> Outcome {
    write_whole(path, |mut file| file.write_all(bytes))
        .map_err(|reason| ExportError::Write { path: path.into(), reason })
}
