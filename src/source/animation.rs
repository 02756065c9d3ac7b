//! Animated GIF, PNG and WebP files: frames composed, with their times.
//!
//! A thread decodes a few frames ahead; going back starts it again from the first frame, since every frame is drawn over
//! the ones before.

use std::fs::File;
use std::io::{BufReader, Cursor};
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, sync_channel};
use std::time::Duration;

use image::codecs::{gif::GifDecoder, png::PngDecoder, webp::WebPDecoder};
use image::{AnimationDecoder as _, Frames, ImageDecoder as _, ImageError, ImageFormat, Rgba, RgbaImage};

use super::video::starts_with;
use super::{Frame, Kind, Next, Source, SourceError, file_name};
use crate::vision::image::{MAX_DECODED_BYTES, Photo};
use crate::words::plain;

/// Frames decoded ahead.
const AHEAD: usize = 2;

/// What browsers take for a frame that states no time.
const UNTIMED: Duration = Duration::from_millis(100);

type Decoded = Result<(RgbaImage, Duration), String>;

/// An animation of two frames or more.
#[derive(Debug)]
pub(super) struct Animation {
    name: String,
    file: Arc<[u8]>,
    format: ImageFormat,
    frames: u64,
    decoded: Receiver<Decoded>,
    /// Number of the frame that `decoded` gives next.
    decoded_at: u64,
    at: u64,
    faults: u64,
    /// Notices of the file, with its first frame.
    notices: Vec<String>,
}

impl Animation {
    /// `None` if the file is no animation, or one of a single frame.
    ///
    /// Errors: as [`Photo::open`]; an animation whose first frame cannot be composed.
    pub(super) fn open(path: &Path) -> Result<Option<Self>, SourceError> {
        let Some(format) = format(path).filter(|format| count(path, *format) > 1) else {
            return Ok(None);
        };
        // It is checked like any picture, and what is wrong with it is told in the same words.
        let notices = Photo::open(path)?.notices().to_vec();
        let file: Arc<[u8]> = std::fs::read(path)
            .map_err(|e| SourceError::Read {
                what: path.display().to_string(),
                reason: plain(e),
                remedy: "check the path and its permissions",
            })?
            .into();
        // The first frame decides whether it can be shown as an animation at all.
        let (name, frames) = (file_name(path), count(path, format));
        if let Ok(Err(detail)) = start(file.clone(), format).recv() {
            return Err(SourceError::Damaged { name, index: 0, detail });
        }
        let decoded = start(file.clone(), format);
        Ok(Some(Self { name, file, format, frames, decoded, decoded_at: 0, at: 0, faults: 0, notices }))
    }
}

impl Source for Animation {
    fn name(&self) -> String {
        self.name.clone()
    }

    fn kind(&self) -> Kind {
        Kind::Clip { frames: Some(self.frames) }
    }

    fn next(&mut self) -> Result<Next, SourceError> {
        if self.at >= self.frames {
            return Ok(Next::End);
        }
        if self.at < self.decoded_at {
            self.decoded = start(self.file.clone(), self.format);
            self.decoded_at = 0;
        }
        loop {
            let index = self.decoded_at;
            let decoded = self.decoded.recv();
            self.decoded_at += 1;
            let detail = match decoded {
                Ok(Ok(_)) if index < self.at => continue,
                Ok(Ok((picture, time))) => {
                    self.at += 1;
                    let photo = Photo::from_rgba8(&self.name, picture)?;
                    let notices = if index == 0 { self.notices.clone() } else { Vec::new() };
                    return Ok(Next::Frame(Frame { photo, index, shown_for: Some(time), notices }));
                }
                Ok(Err(detail)) => detail,
                Err(_) => "the file ends before this frame".to_owned(),
            };
            // Later frames are drawn over this one, so none of them can be shown.
            self.frames = index;
            self.at = index;
            self.faults += 1;
            return Err(SourceError::Damaged { name: self.name.clone(), index, detail });
        }
    }

    fn go_to(&mut self, index: u64) -> Result<(), SourceError> {
        if index >= self.frames {
            let last = self.frames.saturating_sub(1);
            return Err(SourceError::NoFrame { name: self.name.clone(), index, last });
        }
        self.at = index;
        Ok(())
    }

    fn faults(&self) -> u64 {
        self.faults
    }
}

/// Decodes from the first frame on, on a thread that ends with its receiver. A thread, because the decoders'
/// iterators cannot be moved to another one.
fn start(file: Arc<[u8]>, format: ImageFormat) -> Receiver<Decoded> {
    let (sender, receiver) = sync_channel(AHEAD);
    std::thread::spawn(move || {
        let one_line = |e: ImageError| e.to_string().split_whitespace().collect::<Vec<_>>().join(" ");
        let frames = match frames(file, format) {
            Ok(frames) => frames,
            Err(e) => return drop(sender.send(Err(one_line(e)))),
        };
        for frame in frames {
            let decoded = frame.map_err(one_line).map(|frame| {
                let time = Duration::from(frame.delay());
                (frame.into_buffer(), if time.is_zero() { UNTIMED } else { time })
            });
            let last = decoded.is_err();
            // An error here means that nobody wants more.
            if sender.send(decoded).is_err() || last {
                return;
            }
        }
    });
    receiver
}

fn frames(file: Arc<[u8]>, format: ImageFormat) -> Result<Frames<'static>, ImageError> {
    let mut limits = image::Limits::no_limits();
    limits.max_alloc = Some(MAX_DECODED_BYTES);
    let file = Cursor::new(file);
    Ok(match format {
        ImageFormat::Gif => {
            let mut decoder = GifDecoder::new(file)?;
            decoder.set_limits(limits)?;
            decoder.into_frames()
        }
        ImageFormat::WebP => {
            let mut decoder = WebPDecoder::new(file)?;
            decoder.set_limits(limits)?;
            // Without a background nothing is disposed. For opaque files it is left out: their frames cover what was
            // there, and image-webp 0.2.4 clears the wrong pixels under lossy ones.
            if decoder.color_type().has_alpha() {
                decoder.set_background_color(Rgba([0; 4]))?;
            }
            decoder.into_frames()
        }
        _ => PngDecoder::with_limits(file, limits)?.apng()?.into_frames(),
    })
}

/// The format of a file by its first bytes, if it is one that has animations.
fn format(path: &Path) -> Option<ImageFormat> {
    // A pipe would be waited for, and what was read of it be gone.
    if !path.is_file() {
        return None;
    }
    let format = image::guess_format(&starts_with(path, 16).ok()?).ok()?;
    matches!(format, ImageFormat::Gif | ImageFormat::Png | ImageFormat::WebP).then_some(format)
}

/// Frames that the file states, or that are found before its data goes wrong; no frame is decoded for it.
fn count(path: &Path, format: ImageFormat) -> u64 {
    let Ok(file) = File::open(path).map(BufReader::new) else {
        return 0;
    };
    match format {
        ImageFormat::Gif => {
            let mut options = gif::DecodeOptions::new();
            options.skip_frame_decoding(true);
            let Ok(mut decoder) = options.read_info(file) else {
                return 0;
            };
            let mut frames = 0;
            loop {
                match decoder.next_frame_info() {
                    Ok(Some(_)) => frames += 1,
                    Ok(None) => return frames,
                    // The frame that cannot be had counts: whoever asks for it is told why.
                    Err(_) => return frames + 1,
                }
            }
        }
        ImageFormat::Png => {
            let info = png::Decoder::new(file).read_info();
            info.ok().and_then(|r| r.info().animation_control().map(|a| a.num_frames.into())).unwrap_or(0)
        }
        _ => image_webp::WebPDecoder::new(file).map_or(0, |decoder| decoder.num_frames().into()),
    }
}
