//! `wgattn map` on videos and animations: a map for every frame, with the features and bandwidths of the first one.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::error::Error;
use std::io::{self, BufWriter, IsTerminal as _, Write};
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::time::Duration;

use glam::UVec2;
use image::codecs::gif::{GifEncoder, Repeat};
use image::{Delay, DynamicImage, RgbImage};
use serde_json::json;

use super::{
    Args, drawn_map, exact_name, kernel_name, path_of, relative_errors, setting_lines, zero_because,
};
use crate::backend::{Backend, Program};
use crate::bench::Summary;
use crate::cli::{Failure, Outcome, keep_input, notice, unwritten};
use crate::numbers::significant;
use crate::source::pixels::{Matrix, limited_planes};
use crate::source::{DEFAULT_FRAME_TIME, Frame, Kind, Next, Source, ffmpeg};
use crate::vision::overlay::{Overlay, OverlayOptions, save_picture};
use crate::vision::scene::{Rows, Scene, SceneOptions};
use crate::whole_file::{self, Pending};
use crate::words::{counted, plural};

/// Frames to take: from the first number, to before the second.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct FrameRange {
    from: u64,
    to: Option<u64>,
}

/// Reads "A..B", "A.." and "..B".
pub(super) fn parse_frames(text: &str) -> Result<FrameRange, String> {
    const WANTED: &str = "expected FROM..TO such as 10..20 for frames 10 to 19, or 10.., or ..20";
    let (from, to) = text.split_once("..").ok_or(WANTED)?;
    let number = |text: &str| match text.trim() {
        "" => Ok(None),
        text => text.parse::<u64>().map(Some).map_err(|_| WANTED),
    };
    let (from, to) = (number(from)?.unwrap_or(0), number(to)?);
    match to.is_some_and(|to| to <= from) {
        true => Err(format!("no frame lies in {text}; {WANTED}")),
        false => Ok(FrameRange { from, to }),
    }
}

/// What the maps of a clip are written to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Container {
    /// A folder of numbered PNG files.
    Folder,
    Y4m,
    Gif,
    /// Any other video, written by `ffmpeg`.
    Video,
}

impl Container {
    fn of(out: &Path) -> Result<Self, Failure> {
        let suffix = out.extension().map(|s| s.to_string_lossy().to_lowercase());
        match suffix.as_deref() {
            _ if out.is_dir() => Ok(Self::Folder),
            None => Ok(Self::Folder),
            Some("y4m") => Ok(Self::Y4m),
            Some("gif") => Ok(Self::Gif),
            Some(_) if ffmpeg::names_video(out) => Ok(Self::Video),
            // Names of folders may have dots.
            Some(suffix) if image::ImageFormat::from_extension(suffix).is_none() => Ok(Self::Folder),
            Some(_) => Err(Failure(format!(
                "{}: one picture cannot hold the maps of a clip; name a folder, or a .y4m, .gif or .mp4 file",
                out.display()
            ))),
        }
    }
}

/// Where the maps of `file` go.
fn target(args: &Args, several: bool, file: &Path) -> PathBuf {
    // Of `shot-%04d.png` the name is `shot`.
    let stem = file.file_stem().map_or_else(String::new, |s| s.to_string_lossy().into_owned());
    let stem = stem.split('%').next().map_or("", |s| s.trim_end_matches(['-', '_', '.']));
    let name = format!("{}-attention", if stem.is_empty() { "clip" } else { stem });
    match &args.out {
        Some(folder) if several => folder.join(name),
        Some(out) => out.clone(),
        None => PathBuf::from(name),
    }
}

/// Refuses a result that cannot be written, before any work is done for it.
fn check_target(input: &Path, out: &Path) -> Result<Container, Failure> {
    keep_input(input, out)?;
    let container = Container::of(out)?;
    match container {
        Container::Folder => {
            if out.exists() && !out.is_dir() {
                return Err(Failure(format!("{}: is a file; name a new folder", out.display())));
            }
            // Pictures of a numbered clip lie in a folder; ours must not fall among them.
            if let (false, Some(folder)) = (input.exists(), input.parent()) {
                let here = Path::new(".");
                keep_input(if folder.as_os_str().is_empty() { here } else { folder }, out)?;
            }
        }
        Container::Y4m | Container::Gif => whole_file::check_target(out).map_err(|e| unwritten(out, &e))?,
        Container::Video => {
            whole_file::check_target(out).map_err(|e| unwritten(out, &e))?;
            ffmpeg::check(ffmpeg::PROGRAM, out)?;
        }
    }
    Ok(container)
}

/// One frame's facts.
struct Seen {
    index: u64,
    seconds: f64,
    errors: Result<Vec<f64>, String>,
}

/// Maps every frame of `source`: the report as JSON and as text.
pub(super) fn run(
    args: &Args,
    options: &SceneOptions,
    backend: &dyn Backend,
    file: &Path,
    mut source: Box<dyn Source>,
    several: bool,
) -> Result<(serde_json::Value, String), Failure> {
    if args.raw.is_some() {
        return Err(Failure(format!(
            "{}: --raw is for single pictures; leave it out for clips",
            file.display()
        )));
    }
    let out = target(args, several, file);
    let container = check_target(file, &out)?;
    let range = args.frames.unwrap_or(FrameRange { from: 0, to: None });
    if range.from > 0 {
        source.go_to(range.from)?;
    }
    let bar = progress_bar(source.as_ref(), range, several);
    let mut told = BTreeSet::new();
    let mut tell = |words: &str| {
        // A notice that holds for every frame is given once.
        if told.insert(words.to_owned()) {
            bar.suspend(|| notice(format_args!("{}: {words}", file.display())));
        }
    };
    let mut work: Option<Work> = None;
    let mut seen = Vec::new();
    let mut left_out = 0_u64;
    loop {
        let frame = match source.next() {
            Ok(Next::Frame(frame)) if range.to.is_none_or(|to| frame.index < to) => frame,
            Ok(Next::Frame(_) | Next::End) => break,
            Ok(Next::Wait(time)) => {
                std::thread::sleep(time);
                continue;
            }
            Err(error) => {
                left_out += 1;
                tell(&format!("left out: {}", Failure::from(error).0));
                continue;
            }
        };
        frame.notices.iter().for_each(|words| tell(words));
        let work = match &mut work {
            Some(work) => {
                work.scene
                    .set_photo(work.program.as_mut(), &frame.photo)
                    .map_err(|e| Failure(format!("{}, frame {}: {e}", file.display(), frame.index)))?;
                work
            }
            None => {
                let made = Work::new(args, options, backend, &frame, file)?;
                made.scene.notices.iter().for_each(|words| tell(words));
                work.insert(made)
            }
        };
        work.scene.weigh(backend, work.program.as_mut(), &args.at)?;
        let rows = work.scene.rows(work.program.as_mut(), &args.at)?;
        work.draw(args, file, &frame, &rows, (container, &out), &mut tell)?;
        seen.push(Seen {
            index: frame.index,
            seconds: rows.timings.wall_seconds,
            errors: relative_errors(&work.scene, &rows, args.head),
        });
        bar.inc(1);
    }
    bar.finish_and_clear();
    let Some(Work { scene, writer: Some(writer), size, .. }) = work else {
        return Err(Failure(format!("{}: no frame could be read in the range asked for", file.display())));
    };
    writer.finish().map_err(|e| unwritten(&out, e.as_ref()))?;
    if left_out > 0 {
        notice(format_args!(
            "{}: {} could not be read and {} left out",
            file.display(),
            counted(left_out, "frame", "frames"),
            plural(left_out, "is", "are")
        ));
    }
    let report = Report { args, backend, file, out: &out, scene: &scene, size, seen: &seen, left_out };
    Ok((report.json(), report.text()))
}

/// A bar with the frames to come, where somebody sees it.
fn progress_bar(source: &dyn Source, range: FrameRange, several: bool) -> indicatif::ProgressBar {
    // Several inputs have a bar of their own.
    if several || !io::stderr().is_terminal() {
        return indicatif::ProgressBar::hidden();
    }
    let count = match source.kind() {
        Kind::Clip { frames } => frames.into_iter().chain(range.to).min(),
        _ => range.to,
    };
    match count {
        Some(end) => indicatif::ProgressBar::new(end.saturating_sub(range.from)),
        None => indicatif::ProgressBar::new_spinner(),
    }
}

/// What is made for the first frame and used for all.
struct Work {
    scene: Scene,
    program: Box<dyn Program>,
    writer: Option<Writer>,
    /// Colours of the first map: they must not jump from frame to frame.
    overlay: OverlayOptions,
    size: UVec2,
}

impl Work {
    fn new(
        args: &Args,
        options: &SceneOptions,
        backend: &dyn Backend,
        frame: &Frame,
        file: &Path,
    ) -> Result<Self, Failure> {
        let queries = u32::try_from(args.at.len()).map_err(|_| Failure("too many --at".into()))?;
        let scene = Scene::new(&frame.photo, options, queries)?;
        for pixel in &args.at {
            scene.grid.token_at(*pixel).map_err(|e| Failure(format!("{}: {e}", file.display())))?;
        }
        let program = scene.compile(backend)?;
        let size = frame.photo.size();
        Ok(Self { scene, program, writer: None, overlay: OverlayOptions::default(), size })
    }

    /// Draws a frame's map and writes it.
    fn draw(
        &mut self,
        args: &Args,
        file: &Path,
        frame: &Frame,
        rows: &Rows,
        (container, out): (Container, &Path),
        tell: &mut dyn FnMut(&str),
    ) -> Outcome {
        let map = drawn_map(args, &self.scene, rows)
            .map_err(|why| Failure(format!("{}, frame {}: {why}", file.display(), frame.index)))?;
        if map.shown.iter().all(|x| *x == 0.0) {
            tell(&format!("the map is zero everywhere in some frames: {}", zero_because(&self.scene)));
        }
        let overlay = Overlay::draw(&frame.photo, &self.scene.grid, &map.shown, &args.at, &self.overlay)?;
        overlay.notices.iter().for_each(|words| tell(words));
        let writer = match &mut self.writer {
            Some(writer) => writer,
            None => {
                self.overlay.palette = Some(overlay.palette);
                self.overlay.range = Some(overlay.range);
                let time = frame.shown_for.unwrap_or(DEFAULT_FRAME_TIME);
                let (width, height) = overlay.picture.dimensions();
                let writer = Writer::open(container, out, UVec2::new(width, height), time);
                self.writer.insert(writer.map_err(|e| unwritten(out, e.as_ref()))?)
            }
        };
        let time = frame.shown_for.unwrap_or(DEFAULT_FRAME_TIME);
        writer.write(overlay.picture, frame.index, time).map_err(|e| unwritten(out, e.as_ref()))
    }
}

/// Takes pictures of one size one after another. A file is whole or absent: without [`Writer::finish`] it goes away again.
struct Writer {
    size: UVec2,
    to: Sink,
}

enum Sink {
    Folder(PathBuf),
    Y4m { encoder: y4m::Encoder<Shared>, matrix: Matrix, stream: Shared, end: End },
    Gif { encoder: Box<GifEncoder<Shared>>, stream: Shared, end: End },
}

/// What is to do once everything is written. If it is not, the program ends before its file is taken away.
struct End {
    ffmpeg: Option<ffmpeg::Writing>,
    pending: Pending,
}

/// A writer that an encoder holds and that we flush, to hear of errors which the encoder's own end would swallow.
#[derive(Clone)]
struct Shared(Rc<RefCell<Option<Box<dyn Write>>>>);

impl Shared {
    fn new(writer: impl Write + 'static) -> Self {
        Self(Rc::new(RefCell::new(Some(Box::new(BufWriter::new(writer))))))
    }

    /// Writes what is held back and closes.
    fn close(&self) -> io::Result<()> {
        let writer = self.0.borrow_mut().take();
        writer.map_or(Ok(()), |mut writer| writer.flush())
    }
}

impl Write for Shared {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self.0.borrow_mut().as_mut() {
            Some(writer) => writer.write(bytes),
            None => Err(io::ErrorKind::BrokenPipe.into()),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.borrow_mut().as_mut().map_or(Ok(()), |writer| writer.flush())
    }
}

impl Writer {
    /// Pictures of `size`, the first standing for `time`.
    fn open(container: Container, out: &Path, size: UVec2, time: Duration) -> Result<Self, Box<dyn Error>> {
        let to = match container {
            Container::Folder => {
                std::fs::create_dir_all(out)?;
                if std::fs::read_dir(out)?.next().is_some() {
                    notice(format_args!(
                        "{}: files that were there before stay beside the new ones",
                        out.display()
                    ));
                }
                Sink::Folder(out.to_owned())
            }
            Container::Gif => {
                let (pending, file) = Pending::beside(out)?;
                let stream = Shared::new(file);
                // Quantised by sampling every tenth pixel: thirty times as fast as all, and maps are smooth.
                let mut encoder = Box::new(GifEncoder::new_with_speed(stream.clone(), 10));
                encoder.set_repeat(Repeat::Infinite)?;
                Sink::Gif { encoder, stream, end: End { ffmpeg: None, pending } }
            }
            Container::Y4m | Container::Video => {
                let (pending, file) = Pending::beside(out)?;
                let (stream, ffmpeg) = if container == Container::Video {
                    drop(file);
                    let (writing, pipe) = ffmpeg::Writing::start(pending.path())?;
                    (Shared::new(pipe), Some(writing))
                } else {
                    (Shared::new(file), None)
                };
                let sides = (size.x as usize, size.y as usize);
                let encoder = y4m::encode(sides.0, sides.1, rate(time))
                    .with_colorspace(y4m::Colorspace::C444)
                    .write_header(stream.clone())?;
                let matrix = Matrix::of_height(size.y);
                Sink::Y4m { encoder, matrix, stream, end: End { ffmpeg, pending } }
            }
        };
        Ok(Self { size, to })
    }

    fn write(&mut self, picture: RgbImage, index: u64, time: Duration) -> Result<(), Box<dyn Error>> {
        let (width, height) = picture.dimensions();
        if UVec2::new(width, height) != self.size {
            let UVec2 { x, y } = self.size;
            return Err(
                format!("expected pictures of {x}x{y}, got {width}x{height} for frame {index}").into()
            );
        }
        self.encode(picture, index, time).map_err(|error| match &mut self.to {
            Sink::Y4m { stream, end: End { ffmpeg, .. }, .. } => {
                // A program that has failed has closed its pipe; what it says is worth more than that.
                let _ = stream.close();
                let words = ffmpeg.take().and_then(|ffmpeg| ffmpeg.finish().err());
                words.map_or(error, Into::into)
            }
            _ => error,
        })
    }

    fn encode(&mut self, picture: RgbImage, index: u64, time: Duration) -> Result<(), Box<dyn Error>> {
        match &mut self.to {
            Sink::Folder(folder) => save_picture(&picture, folder.join(format!("{index:06}.png")))?,
            Sink::Y4m { encoder, matrix, .. } => {
                let [y, cb, cr] = limited_planes(&picture, *matrix);
                encoder.write_frame(&y4m::Frame::new([&y, &cb, &cr], None))?;
            }
            Sink::Gif { encoder, .. } => {
                let rgba = DynamicImage::from(picture).into_rgba8();
                let delay = Delay::from_saturating_duration(time);
                encoder.encode_frame(image::Frame::from_parts(rgba, 0, 0, delay))?;
            }
        }
        Ok(())
    }

    fn finish(self) -> Result<(), Box<dyn Error>> {
        let (stream, end) = match self.to {
            Sink::Folder(_) => return Ok(()),
            Sink::Y4m { stream, end, .. } => (stream, end),
            Sink::Gif { encoder, stream, end } => {
                // Its end writes the file's.
                drop(encoder);
                (stream, end)
            }
        };
        let closed = stream.close();
        // If the program has failed, what it says is worth more than that its pipe is closed.
        if let Some(ffmpeg) = end.ffmpeg {
            ffmpeg.finish()?;
        }
        closed?;
        Ok(end.pending.put_in_place()?)
    }
}

/// Frames per second as video knows them: whole, or 1000/1001 of it, or to the microsecond.
fn rate(time: Duration) -> y4m::Ratio {
    let seconds = time.as_secs_f64().max(1e-6);
    for base in [1.0, 1001.0] {
        let count = (base / seconds).round();
        let unit = if base == 1.0 { count } else { (count / 1000.0).round() * 1000.0 };
        if unit >= 1.0 && (unit * seconds / base - 1.0).abs() < 1e-5 {
            return y4m::Ratio::new(unit as usize, base as usize);
        }
    }
    y4m::Ratio::new(1_000_000, (1e6 * seconds).round() as usize)
}

/// The facts of all frames, told twice.
struct Report<'a> {
    args: &'a Args,
    backend: &'a dyn Backend,
    file: &'a Path,
    out: &'a Path,
    scene: &'a Scene,
    size: UVec2,
    seen: &'a [Seen],
    left_out: u64,
}

impl Report<'_> {
    /// Median time of the frames after the first, which has shaders to compile; of the first if it is the only one.
    fn median_seconds(&self) -> f64 {
        let later = self.seen.get(1..).filter(|later| !later.is_empty()).unwrap_or(self.seen);
        median(later.iter().map(|s| s.seconds))
    }

    /// Median error of each query, or why there is none.
    fn errors(&self) -> Result<Vec<f64>, &str> {
        let of_frames: Result<Vec<&Vec<f64>>, _> = self.seen.iter().map(|s| s.errors.as_ref()).collect();
        let of_frames = of_frames.map_err(String::as_str)?;
        Ok((0..self.args.at.len()).map(|q| median(of_frames.iter().map(|errors| errors[q]))).collect())
    }

    fn json(&self) -> serde_json::Value {
        let (info, grid) = (self.backend.info(), &self.scene.grid);
        let errors = self.errors();
        json!({
            "clip": self.file.display().to_string(),
            "at": self.args.at.iter().map(|p| [p.x, p.y]).collect::<Vec<_>>(),
            "device": { "name": info.name, "backend": info.backend, "type": info.kind.to_string(), "driver": info.driver },
            "tokens": grid.tokens(),
            "grid": { "rows": grid.rows(), "columns": grid.cols() },
            "kernel": kernel_name(self.scene.kernel),
            "mask": self.scene.mask.to_string(),
            "position": self.scene.position().map(ToString::to_string),
            "path": path_of(self.scene).0,
            "landmarks": self.scene.landmarks,
            "lambda": self.scene.lambda,
            "frames": self.seen.iter().map(|s| json!({
                "index": s.index, "seconds": s.seconds, "relative_error": s.errors.as_ref().ok(),
            })).collect::<Vec<_>>(),
            "median_seconds": self.median_seconds(),
            "first_run_seconds": self.seen.first().map(|s| s.seconds),
            "relative_error": errors.as_ref().ok(),
            "relative_error_note": errors.as_ref().err(),
            "left_out": self.left_out,
            "out": self.out.display().to_string(),
        })
    }

    fn text(&self) -> String {
        let at: Vec<String> = self.args.at.iter().map(|p| format!("{},{}", p.x, p.y)).collect();
        let UVec2 { x, y } = self.size;
        let frames = counted(self.seen.len(), "frame", "frames");
        let mut lines = vec![format!("{} ({frames} of {x} × {y}) at {}", self.file.display(), at.join(" "))];
        lines.extend(setting_lines(self.backend, self.scene));
        lines.push(match self.errors() {
            Ok(errors) => {
                let list: Vec<String> = errors.iter().map(|e| significant(*e, 3)).collect();
                let exact = exact_name(self.scene);
                format!("  error      {} of {exact}, median over frames", list.join(" "))
            }
            Err(why) => format!("  error      {why}"),
        });
        let first = self.seen.first().map_or(0.0, |s| s.seconds);
        lines.push(format!(
            "  time       {:.1} ms per frame, median; first run {:.0} ms with shader compilation",
            1e3 * self.median_seconds(),
            1e3 * first
        ));
        lines.push(format!("  wrote      {}", self.out.display()));
        lines.join("\n")
    }
}

/// 0 of none.
fn median(values: impl Iterator<Item = f64>) -> f64 {
    Summary::of(&values.collect::<Vec<_>>()).map_or(0.0, |summary| summary.median)
}
