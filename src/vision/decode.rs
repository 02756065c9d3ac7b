//! From bytes to samples: format by content, checks before memory is taken, errors in plain words.

use std::io::Cursor;
use std::path::Path;

use image::metadata::Orientation;
use image::{DynamicImage, ImageDecoder as _, ImageFormat};

/// Most bytes of decoded samples that [`Photo::open`](super::image::Photo::open) will allocate: 2 GiB.
///
/// An 8000×6000 photograph with 16-bit alpha takes 366 MiB.
pub const MAX_DECODED_BYTES: u64 = 2 << 30;

/// Why a file could not become a [`Photo`](super::image::Photo). Every message is one line: what, where, expected, got, remedy.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ImageError {
    /// The file could not be read at all.
    #[error("cannot read picture `{name}`: {reason}; check the path and its permissions")]
    Read {
        /// Path as given.
        name: String,
        /// The system's reason.
        reason: String,
    },
    /// The file has no bytes.
    #[error(
        "picture `{name}` is empty: expected PNG, JPEG, WebP, GIF, BMP or TIFF data, got 0 bytes; copy it again"
    )]
    Empty {
        /// Path or name as given.
        name: String,
    },
    /// The bytes are no picture that we know.
    #[error(
        "`{name}` is not a picture: expected PNG, JPEG, WebP, GIF, BMP or TIFF data, got {got}; {remedy}"
    )]
    NotAnImage {
        /// Path or name as given.
        name: String,
        /// What the first bytes look like.
        got: String,
        /// What to do about it.
        remedy: &'static str,
    },
    /// Width or height is zero.
    #[error("{format} picture `{name}` has size {width}x{height}: expected at least 1x1; save it again")]
    ZeroSize {
        /// Path or name as given.
        name: String,
        /// Format found in the bytes.
        format: &'static str,
        /// Width in pixels.
        width: u32,
        /// Height in pixels.
        height: u32,
    },
    /// The picture would need more memory than [`MAX_DECODED_BYTES`].
    #[error(
        "{format} picture `{name}` is too large: {width}x{height} needs {needed} bytes decoded, at most {allowed} are allowed; reduce it first"
    )]
    TooLarge {
        /// Path or name as given.
        name: String,
        /// Format found in the bytes.
        format: &'static str,
        /// Width in pixels, as the header claims.
        width: u32,
        /// Height in pixels, as the header claims.
        height: u32,
        /// Bytes that decoding would take.
        needed: u64,
        /// [`MAX_DECODED_BYTES`].
        allowed: u64,
    },
    /// The data end before the picture does.
    #[error("{format} picture `{name}` is truncated: {detail}; copy it again")]
    Truncated {
        /// Path or name as given.
        name: String,
        /// Format found in the bytes.
        format: &'static str,
        /// Where and how it ends.
        detail: String,
    },
    /// The data contradict their format.
    #[error("{format} picture `{name}` is damaged: {detail}; save it again from the original")]
    Damaged {
        /// Path or name as given.
        name: String,
        /// Format found in the bytes.
        format: &'static str,
        /// The decoder's reason.
        detail: String,
    },
    /// A form of the format that is not read here.
    #[error("{format} picture `{name}` is of a kind that is not read: {detail}; save it as RGB PNG or JPEG")]
    Unsupported {
        /// Path or name as given.
        name: String,
        /// Format found in the bytes.
        format: &'static str,
        /// Which kind.
        detail: String,
    },
    /// Samples in memory whose number does not fit the stated size.
    #[error(
        "picture `{name}` of {width}x{height} pixels: expected {expected} bytes, at least one pixel, got {got} bytes; check width, height and channels"
    )]
    Samples {
        /// Name as given.
        name: String,
        /// Width in pixels.
        width: u32,
        /// Height in pixels.
        height: u32,
        /// Bytes that this size takes.
        expected: u64,
        /// Bytes given.
        got: usize,
    },
    /// [`Photo::working`](super::image::Photo::working) was asked for a size that is not a reduction.
    #[error(
        "working size {wanted_width}x{wanted_height} of picture `{name}`: expected 1x1 to {width}x{height}; a working picture is never enlarged"
    )]
    WorkingSize {
        /// Path or name as given.
        name: String,
        /// Width asked for.
        wanted_width: u32,
        /// Height asked for.
        wanted_height: u32,
        /// Width of the photograph.
        width: u32,
        /// Height of the photograph.
        height: u32,
    },
}

/// What [`decode`] finds in a file.
pub(super) struct Decoded {
    /// Format by content, such as "JPEG".
    pub(super) format: &'static str,
    /// Samples, already turned by `orientation`; one of the ten kinds that `RowReader` reads.
    pub(super) pixels: DynamicImage,
    /// EXIF orientation that was applied, 1 to 8.
    pub(super) orientation: u8,
    /// What the user should know.
    pub(super) notices: Vec<String>,
}

/// Decodes a picture file; see `Photo::decode`.
pub(super) fn decode(bytes: &[u8], name: &str) -> Result<Decoded, ImageError> {
    let format = sniff(bytes, name)?;
    let label = format_label(format);
    let mut notices = Vec::new();
    notices.extend(suffix_notice(format, name));
    check_header(bytes, format, name)?;

    let fail = |e: image::ImageError| decode_error(e, name, label);
    let mut reader = image::ImageReader::with_format(Cursor::new(bytes), format);
    // Our own check below runs first and names the numbers; this one guards the decoders' inner buffers.
    let mut limits = image::Limits::no_limits();
    limits.max_alloc = Some(2 * MAX_DECODED_BYTES);
    reader.limits(limits);
    let mut decoder = reader.into_decoder().map_err(fail)?;
    let (width, height) = decoder.dimensions();
    refuse_zero(width, height, name, label)?;
    let needed = decoder.total_bytes();
    if needed > MAX_DECODED_BYTES {
        let (name, allowed) = (name.to_owned(), MAX_DECODED_BYTES);
        return Err(ImageError::TooLarge { name, format: label, width, height, needed, allowed });
    }
    // A TIFF file is itself laid out like an EXIF block; its own decoder does not report the tag.
    let orientation = match format {
        ImageFormat::Tiff => Orientation::from_exif_chunk(bytes).unwrap_or(Orientation::NoTransforms),
        _ => decoder.orientation().unwrap_or_else(|e| {
            notices.push(format!("`{name}` has EXIF data that cannot be read ({e}); shown as stored"));
            Orientation::NoTransforms
        }),
    };
    match decoder.icc_profile() {
        Ok(Some(profile)) if !names_srgb(&profile) => {
            notices.push(format!(
                "`{name}` carries a colour profile that is not sRGB; its colours are read as sRGB"
            ));
        }
        Ok(_) => {}
        Err(e) => {
            notices.push(format!("`{name}` has a colour profile that cannot be read ({e}); read as sRGB"));
        }
    }
    let mut pixels = DynamicImage::from_decoder(decoder).map_err(fail)?;
    check_finite(&pixels, name, label)?;
    pixels.apply_orientation(orientation);
    Ok(Decoded { format: label, pixels, orientation: orientation.to_exif(), notices })
}

/// Checks that the decoders leave out or word badly.
fn check_header(bytes: &[u8], format: ImageFormat, name: &str) -> Result<(), ImageError> {
    let label = format_label(format);
    match format {
        ImageFormat::Jpeg => check_jpeg(bytes, name)?,
        ImageFormat::WebP => check_webp(bytes, name)?,
        // Their decoders call a zero size an invalid header.
        ImageFormat::Png => {
            if let Some(&[w3, w2, w1, w0, h3, h2, h1, h0]) = bytes.get(16..24) {
                let (width, height) =
                    (u32::from_be_bytes([w3, w2, w1, w0]), u32::from_be_bytes([h3, h2, h1, h0]));
                refuse_zero(width, height, name, label)?;
            }
        }
        ImageFormat::Gif => {
            if let Some(&[w0, w1, h0, h1]) = bytes.get(6..10) {
                refuse_zero(
                    u16::from_le_bytes([w0, w1]).into(),
                    u16::from_le_bytes([h0, h1]).into(),
                    name,
                    label,
                )?;
            }
        }
        _ => {}
    }
    Ok(())
}

fn format_label(format: ImageFormat) -> &'static str {
    match format {
        ImageFormat::Png => "PNG",
        ImageFormat::Jpeg => "JPEG",
        ImageFormat::WebP => "WebP",
        ImageFormat::Gif => "GIF",
        ImageFormat::Bmp => "BMP",
        ImageFormat::Tiff => "TIFF",
        _ => "unknown",
    }
}

/// Format by content; errors for empty data, other formats, and things that are no picture.
fn sniff(bytes: &[u8], name: &str) -> Result<ImageFormat, ImageError> {
    if bytes.is_empty() {
        return Err(ImageError::Empty { name: name.to_owned() });
    }
    let wrong = |got: String, remedy| ImageError::NotAnImage { name: name.to_owned(), got, remedy };
    let export = "export it as JPEG or PNG";
    if bytes.get(4..8) == Some(b"ftyp") {
        let brand = bytes.get(8..12).map(String::from_utf8_lossy).unwrap_or_default();
        let kind = match brand.as_ref() {
            "heic" | "heix" | "heim" | "heis" | "mif1" | "msf1" => "HEIC",
            "avif" | "avis" => "AVIF",
            _ => "video or another ISO media file",
        };
        return Err(wrong(format!("{kind} (brand `{}`)", brand.escape_default()), export));
    }
    match image::guess_format(bytes) {
        Ok(
            format @ (ImageFormat::Png
            | ImageFormat::Jpeg
            | ImageFormat::WebP
            | ImageFormat::Gif
            | ImageFormat::Bmp
            | ImageFormat::Tiff),
        ) => Ok(format),
        Ok(other) => Err(wrong(format!("{other:?} data"), export)),
        Err(_) => {
            let shown = &bytes[..bytes.len().min(8)];
            let got = match std::str::from_utf8(shown) {
                Ok(text) if !text.contains('\0') => format!("text beginning \"{}\"", text.escape_default()),
                _ => format!("{} bytes beginning {shown:02x?}", bytes.len()),
            };
            Err(wrong(got, "name a picture file"))
        }
    }
}

fn suffix_notice(format: ImageFormat, name: &str) -> Option<String> {
    let suffix = Path::new(name).extension()?.to_str()?;
    let named = ImageFormat::from_extension(suffix)?;
    (named != format).then(|| {
        format!(
            "`{name}` holds {} data although its suffix is .{suffix}; read by content",
            format_label(format)
        )
    })
}

/// Whether an ICC profile names sRGB, in ASCII or UTF-16.
fn names_srgb(profile: &[u8]) -> bool {
    profile.windows(4).any(|w| w == b"sRGB") || profile.windows(7).any(|w| w == b"s\0R\0G\0B")
}

fn check_finite(pixels: &DynamicImage, name: &str, format: &'static str) -> Result<(), ImageError> {
    let samples: &[f32] = match pixels {
        DynamicImage::ImageRgb32F(i) => i.as_raw(),
        DynamicImage::ImageRgba32F(i) => i.as_raw(),
        DynamicImage::ImageLuma8(_)
        | DynamicImage::ImageLumaA8(_)
        | DynamicImage::ImageRgb8(_)
        | DynamicImage::ImageRgba8(_)
        | DynamicImage::ImageLuma16(_)
        | DynamicImage::ImageLumaA16(_)
        | DynamicImage::ImageRgb16(_)
        | DynamicImage::ImageRgba16(_) => &[],
        other => {
            let detail = format!("samples are {:?}", other.color());
            return Err(ImageError::Unsupported { name: name.to_owned(), format, detail });
        }
    };
    match samples.iter().position(|v| !v.is_finite()) {
        None => Ok(()),
        Some(at) => {
            let detail = format!("float sample {at} is {}, expected a finite value", samples[at]);
            Err(ImageError::Damaged { name: name.to_owned(), format, detail })
        }
    }
}

/// Sorts the decoder's errors into ours. A decoder says "unexpected end" in many words, so all causes are read.
fn decode_error(error: image::ImageError, name: &str, format: &'static str) -> ImageError {
    let mut texts = vec![error.to_string()];
    let mut ended = false;
    let mut cause: Option<&dyn std::error::Error> = Some(&error);
    while let Some(e) = cause {
        if let Some(io) = e.downcast_ref::<std::io::Error>() {
            ended |= io.kind() == std::io::ErrorKind::UnexpectedEof;
        }
        texts.push(e.to_string());
        cause = e.source();
    }
    // One line for the user, whatever the decoder wrote.
    let detail = texts.last().map(|t| t.split_whitespace().collect::<Vec<_>>().join(" ")).unwrap_or_default();
    let all = texts.join(" ").to_lowercase();
    ended |=
        ["unexpected end", "unexpected eof", "failed to fill whole buffer", "no more bytes", "exhausted"]
            .iter()
            .any(|words| all.contains(words));
    let name = name.to_owned();
    match error {
        image::ImageError::Unsupported(_) => ImageError::Unsupported { name, format, detail },
        _ if ended => ImageError::Truncated { name, format, detail },
        _ => ImageError::Damaged { name, format, detail },
    }
}

fn refuse_zero(width: u32, height: u32, name: &str, format: &'static str) -> Result<(), ImageError> {
    if width == 0 || height == 0 {
        return Err(ImageError::ZeroSize { name: name.to_owned(), format, width, height });
    }
    Ok(())
}

/// A WebP file states its length; its decoder calls a shorter one corrupt.
fn check_webp(bytes: &[u8], name: &str) -> Result<(), ImageError> {
    let stated = bytes.get(4..8).map_or(0, |b| u64::from(u32::from_le_bytes([b[0], b[1], b[2], b[3]])) + 8);
    if stated <= bytes.len() as u64 {
        return Ok(());
    }
    let detail = format!("its header states {stated} bytes, got {}", bytes.len());
    Err(ImageError::Truncated { name: name.to_owned(), format: "WebP", detail })
}

/// Walks the JPEG markers before decoding.
///
/// The decoder fills a missing end with grey and guesses the colours of four components; both must be said
/// instead: a file without its end marker is truncated, four components are read only with Adobe's marker
/// (which fixes the stored sense of CMYK), any number but 1, 3 and 4 is refused.
fn check_jpeg(bytes: &[u8], name: &str) -> Result<(), ImageError> {
    let (owned, format) = (name.to_owned(), "JPEG");
    let truncated = |at: usize, what: &str| ImageError::Truncated {
        name: owned.clone(),
        format,
        detail: format!("{what} at byte {at} of {}", bytes.len()),
    };
    let unsupported = |detail: String| ImageError::Unsupported { name: owned.clone(), format, detail };
    let mut frame: Option<&[u8]> = None;
    let mut adobe: Option<u8> = None;
    let mut in_scan = false;
    let mut at = 2;
    let complete = loop {
        // To the next marker: 0xFF followed by neither stuffing (0), fill (0xFF) nor a restart (D0–D7).
        let Some(skip) = bytes[at.min(bytes.len())..].iter().position(|&b| b == 0xff) else {
            break false;
        };
        at += skip;
        let Some(&marker) = bytes.get(at + 1) else {
            break false;
        };
        match marker {
            0x00 | 0xd0..=0xd8 | 0x01 => {
                at += 2;
                continue;
            }
            0xff => {
                at += 1;
                continue;
            }
            0xd9 => break true,
            _ => {}
        }
        let Some(length) = bytes.get(at + 2..at + 4).map(|b| usize::from(b[0]) << 8 | usize::from(b[1]))
        else {
            break false;
        };
        let Some(payload) = bytes.get(at + 4..at + 2 + length.max(2)) else {
            return Err(truncated(bytes.len(), &format!("segment {marker:#04x} ends early")));
        };
        match marker {
            0xc0..=0xc3 | 0xc5..=0xc7 | 0xc9..=0xcb | 0xcd..=0xcf => frame = frame.or(Some(payload)),
            0xee if payload.starts_with(b"Adobe") => adobe = payload.get(11).copied(),
            0xda => in_scan = true,
            _ => {}
        }
        at += 2 + length.max(2);
    };
    if let Some(frame) = frame {
        if let &[_, h1, h0, w1, w0, ..] = frame {
            refuse_zero(
                u16::from_be_bytes([w1, w0]).into(),
                u16::from_be_bytes([h1, h0]).into(),
                name,
                format,
            )?;
        }
        let components = frame.get(5).copied().unwrap_or(0);
        let sampling: Vec<u8> = frame.get(6..).unwrap_or_default().chunks_exact(3).map(|c| c[1]).collect();
        match (components, adobe) {
            (1 | 3, _) => {}
            // Usual subsampling keeps black with luma and the two chroma planes alike; anything else is unproven.
            (4, Some(0 | 2)) if sampling.first() == sampling.get(3) && sampling.get(1) == sampling.get(2) => {
            }
            (4, Some(0 | 2)) => {
                return Err(unsupported(format!("CMYK with component sampling {sampling:02x?}")));
            }
            (4, _) => {
                let detail = "4 components without Adobe's CMYK or YCCK marker, so their sense is unknown";
                return Err(unsupported(detail.to_owned()));
            }
            (other, _) => {
                return Err(unsupported(format!("{other} colour components, expected 1, 3 or 4")));
            }
        }
    }
    match (complete, frame.is_some(), in_scan) {
        (true, _, _) => Ok(()),
        (false, true, true) => Err(truncated(bytes.len(), "no end marker")),
        (false, _, _) => Err(truncated(bytes.len(), "the header ends")),
    }
}
