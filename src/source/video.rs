//! Uncompressed video, YUV4MPEG2 (`.y4m`): from a file, or from a program that writes it.
//!
//! 4:2:0, 4:2:2, 4:4:4 and grey, 8, 10 and 12 bits. The range is what `XCOLORRANGE` says, limited where it says nothing.

use crate::words::{counted, plain};
use std::fmt::{self, Debug};
use std::fs::File;
use std::io::{BufReader, Cursor, Read, Seek as _, SeekFrom};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use y4m::Colorspace;

use super::pixels::{Matrix, Planes, Range, check_size};
use super::{DEFAULT_FRAME_TIME, Frame, Kind, Next, Source, SourceError, file_name};

const MAGIC: &[u8] = b"YUV4MPEG2 ";

/// Line before each frame that states nothing.
const BARE_FRAME: &[u8] = b"FRAME\n";

/// Longest header that the reading crate takes.
const MAX_HEADER: usize = 1024;

type Stream = Box<dyn Read + Send>;

/// Whether a file holds YUV4MPEG2, by content.
pub(super) fn is_y4m(path: &Path) -> bool {
    path.is_file() && starts_with(path, MAGIC.len()).is_ok_and(|start| start == MAGIC)
}

/// The first `count` bytes of a file, fewer if it is shorter.
pub(super) fn starts_with(path: &Path, count: usize) -> std::io::Result<Vec<u8>> {
    let mut start = Vec::new();
    File::open(path)?.take(count as u64).read_to_end(&mut start)?;
    Ok(start)
}

/// Reads frames one after another.
pub(super) struct Y4m {
    name: String,
    decoder: y4m::Decoder<Counted>,
    bytes_read: Arc<AtomicU64>,
    /// Number of the next frame.
    pub(super) index: u64,
    size: (usize, usize),
    chroma: (usize, usize),
    range: Range,
    /// How long a frame stands.
    pub(super) frame_time: Duration,
    /// Notices of the stream, with the first frame read.
    notices: Vec<String>,
    broken: bool,
}

/// Counts what is read, to tell a stream that ends between frames from one that ends inside one.
struct Counted(Stream, Arc<AtomicU64>);

impl Read for Counted {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let count = self.0.read(buffer)?;
        self.1.fetch_add(count as u64, Ordering::Relaxed);
        Ok(count)
    }
}

impl Debug for Y4m {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Y4m").field("name", &self.name).field("index", &self.index).finish_non_exhaustive()
    }
}

/// The first line of a stream, with its end of line.
fn header(stream: &mut dyn Read, name: &str) -> Result<Vec<u8>, SourceError> {
    let damaged = |detail: String| SourceError::Damaged { name: name.to_owned(), index: 0, detail };
    let mut line = Vec::new();
    let mut byte = [0];
    while !line.ends_with(b"\n") {
        match stream.read(&mut byte) {
            Ok(1) if line.len() < MAX_HEADER => line.push(byte[0]),
            Ok(1) => return Err(damaged(format!("its header has no end within {MAX_HEADER} bytes"))),
            Ok(_) => {
                return Err(damaged(format!(
                    "the stream ends in its header after {}",
                    counted(line.len(), "byte", "bytes")
                )));
            }
            Err(e) => return Err(damaged(plain(e))),
        }
    }
    Ok(line)
}

impl Y4m {
    /// Reads the header of `stream`, whose first frame is number `index`.
    pub(super) fn new(mut stream: Stream, name: &str, index: u64) -> Result<Self, SourceError> {
        let line = header(&mut stream, name)?;
        Self::with_header(&line, stream, name, index)
    }

    /// Takes `line` for the header of a stream that goes on with frame `index`.
    fn with_header(line: &[u8], stream: Stream, name: &str, index: u64) -> Result<Self, SourceError> {
        let damaged = |detail: String| SourceError::Damaged { name: name.to_owned(), index, detail };
        let text = String::from_utf8_lossy(line);
        let fields: Vec<&str> = text.split_ascii_whitespace().skip(1).collect();
        let field = |letter: char| fields.iter().find_map(|f| f.strip_prefix(letter));
        // Checked before the reading crate multiplies them.
        let side = |letter| field(letter).and_then(|side| side.parse::<u32>().ok()).unwrap_or(0);
        check_size(side('W'), side('H')).map_err(|e| damaged(e.to_string()))?;

        let bytes_read = Arc::new(AtomicU64::new(0));
        let stream: Stream = Box::new(Cursor::new(line.to_vec()).chain(stream));
        let decoder = y4m::decode(Counted(stream, bytes_read.clone())).map_err(|e| match e {
            y4m::Error::UnknownColorspace => SourceError::Unsupported {
                what: name.to_owned(),
                reason: format!("its chroma C{} is not read", field('C').unwrap_or_default()),
                remedy: "convert it to C420, C422, C444 or Cmono",
            },
            e => damaged(format!("its header `{}` cannot be read: {e}", text.trim_end())),
        })?;
        let mut notices = Vec::new();
        let rate = decoder.get_framerate();
        let frame_time = if rate.num == 0 || rate.den == 0 {
            notices.push(format!("{name} states no frame rate; played at 25 frames per second"));
            DEFAULT_FRAME_TIME
        } else {
            Duration::try_from_secs_f64(rate.den as f64 / rate.num as f64).unwrap_or(DEFAULT_FRAME_TIME)
        };
        let aspect = decoder.get_pixel_aspect();
        if aspect.num != aspect.den && aspect.num != 0 {
            notices.push(format!("{name} has pixels of {}:{}; shown as squares", aspect.num, aspect.den));
        }
        if field('I').is_some_and(|i| !matches!(i, "p" | "?")) {
            notices.push(format!("{name} is interlaced; its fields are shown woven"));
        }
        let full = fields.contains(&"XCOLORRANGE=FULL");
        let range = if full { Range::Full } else { Range::Limited };
        let chroma = match decoder.get_colorspace() {
            Colorspace::C444 | Colorspace::C444p10 | Colorspace::C444p12 => (1, 1),
            Colorspace::C422 | Colorspace::C422p10 | Colorspace::C422p12 => (2, 1),
            _ => (2, 2),
        };
        let size = (decoder.get_width(), decoder.get_height());
        let name = name.to_owned();
        Ok(Self { name, decoder, bytes_read, index, size, chroma, range, frame_time, notices, broken: false })
    }

    /// The next frame, or `None` at the end.
    ///
    /// Errors: [`SourceError::Damaged`]; nothing comes after it.
    pub(super) fn frame(&mut self) -> Result<Option<Frame>, SourceError> {
        let (name, index) = (self.name.clone(), self.index);
        let (chroma, range, (width, height)) = (self.chroma, self.range, self.size);
        let bits = self.decoder.get_bit_depth() as u32;
        let Some(frame) = self.read()? else {
            return Ok(None);
        };
        let planes = [frame.get_y_plane(), frame.get_u_plane(), frame.get_v_plane()];
        let matrix = Matrix::of_height(u32::try_from(height).unwrap_or(u32::MAX));
        let photo = Planes { width, height, planes, chroma, bits, range, matrix }.photo(&name)?;
        let notices = std::mem::take(&mut self.notices);
        Ok(Some(Frame { photo, index, shown_for: Some(self.frame_time), notices }))
    }

    /// Passes over `count` frames, or those that there are.
    pub(super) fn skip(&mut self, count: u64) -> Result<(), SourceError> {
        for _ in 0..count {
            if self.read()?.is_none() {
                break;
            }
        }
        Ok(())
    }

    fn read(&mut self) -> Result<Option<y4m::Frame<'_>>, SourceError> {
        if self.broken {
            return Ok(None);
        }
        let before = self.bytes_read.load(Ordering::Relaxed);
        let damaged =
            |detail: String| SourceError::Damaged { name: self.name.clone(), index: self.index, detail };
        match self.decoder.read_frame() {
            Ok(frame) => {
                self.index += 1;
                Ok(Some(frame))
            }
            Err(e) => {
                self.broken = true;
                let got = self.bytes_read.load(Ordering::Relaxed) - before;
                match e {
                    y4m::Error::EOF if got == 0 => Ok(None),
                    y4m::Error::EOF => Err(damaged(format!(
                        "the stream ends inside it, after {}",
                        counted(got, "byte", "bytes")
                    ))),
                    e => Err(damaged(plain(e))),
                }
            }
        }
    }
}

/// A `.y4m` file.
#[derive(Debug)]
pub(super) struct Y4mFile {
    path: PathBuf,
    name: String,
    header: Vec<u8>,
    /// Bytes from frame to frame where each begins with a bare line, as nearly all do.
    frame_bytes: u64,
    frames: Option<u64>,
    reader: Y4m,
    faults: u64,
}

impl Y4mFile {
    pub(super) fn open(path: &Path) -> Result<Self, SourceError> {
        let name = file_name(path);
        let mut file = BufReader::new(open_at(path, 0)?);
        let header = header(&mut file, &name)?;
        let start = header.len() as u64;
        let bare = starts_with(path, header.len() + BARE_FRAME.len())
            .is_ok_and(|first| first.ends_with(BARE_FRAME) || first.len() == header.len());
        let reader = Y4m::with_header(&header, Box::new(file), &name, 0)?;
        let frame_bytes = BARE_FRAME.len() as u64 + reader.bytes_per_frame();
        let length = std::fs::metadata(path).map_or(0, |m| m.len());
        // A frame that is cut off counts: whoever asks for it is told.
        let frames = bare.then(|| length.saturating_sub(start).div_ceil(frame_bytes));
        Ok(Self { path: path.to_owned(), name, header, frame_bytes, frames, reader, faults: 0 })
    }
}

impl Source for Y4mFile {
    fn name(&self) -> String {
        self.name.clone()
    }

    fn kind(&self) -> Kind {
        Kind::Clip { frames: self.frames }
    }

    fn next(&mut self) -> Result<Next, SourceError> {
        match self.reader.frame().inspect_err(|_| self.faults += 1)? {
            Some(frame) => Ok(Next::Frame(frame)),
            None => {
                self.frames = self.frames.or(Some(self.reader.index));
                Ok(Next::End)
            }
        }
    }

    fn go_to(&mut self, index: u64) -> Result<(), SourceError> {
        if let Some(frames) = self.frames.filter(|n| index >= *n) {
            let last = frames.saturating_sub(1);
            return Err(SourceError::NoFrame { name: self.name.clone(), index, last });
        }
        let start = self.header.len() as u64;
        let there = start + index.saturating_mul(self.frame_bytes);
        let mut file = open_at(&self.path, there)?;
        let mut line = [0; BARE_FRAME.len()];
        if file.read_exact(&mut line).is_ok() && line == BARE_FRAME {
            let stream = Box::new(BufReader::new(open_at(&self.path, there)?));
            self.reader = Y4m::with_header(&self.header, stream, &self.name, index)?;
        } else {
            // Lines of different lengths: everything before has to be read.
            let stream = Box::new(BufReader::new(open_at(&self.path, start)?));
            self.reader = Y4m::with_header(&self.header, stream, &self.name, 0)?;
            self.reader.skip(index)?;
        }
        Ok(())
    }

    fn faults(&self) -> u64 {
        self.faults
    }
}

impl Y4m {
    fn bytes_per_frame(&self) -> u64 {
        let (width, height) = self.size;
        let (across, down) = self.chroma;
        let chroma = match self.decoder.get_colorspace() {
            Colorspace::Cmono | Colorspace::Cmono12 => 0,
            _ => width.div_ceil(across) * height.div_ceil(down),
        };
        ((width * height + 2 * chroma) * self.decoder.get_bytes_per_sample()) as u64
    }
}

fn open_at(path: &Path, position: u64) -> Result<File, SourceError> {
    let opened = File::open(path).and_then(|mut file| file.seek(SeekFrom::Start(position)).map(|_| file));
    opened.map_err(|e| SourceError::Read {
        what: path.display().to_string(),
        reason: plain(e),
        remedy: "check the path and its permissions",
    })
}
