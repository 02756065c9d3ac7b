//! Where pictures come from: one file, a folder, an animation, a video, a camera, the screen, or a scene drawn here.
//!
//! [`open`] turns a word, a path or a pattern into a [`Source`], which is asked for one picture after another; a [`Player`]
//! does the asking on a thread of its own and keeps the newest one at hand.
//!
//! Colours: every [`Frame`] holds sRGB samples, whatever it was made from. Video is converted with the range that its
//! file or driver states (limited where none is stated), and with the matrix of BT.601 below 720 lines and of BT.709 from
//! there on, since neither y4m files nor cameras state one. Half and quarter chroma is repeated, not interpolated.

mod animation;
pub mod built_in;
#[cfg(target_os = "linux")]
mod camera;
mod error;
pub mod fake;
pub mod ffmpeg;
mod files;
pub mod pixels;
mod player;
#[cfg(target_os = "linux")]
mod screen;
pub mod synthetic;
mod video;

use std::fmt::Debug;
use std::path::Path;
use std::time::Duration;

use crate::vision::image::Photo;

pub use error::SourceError;
pub use player::{Player, Status};

/// Time between pictures where a sequence states none: 25 pictures a second.
pub const DEFAULT_FRAME_TIME: Duration = Duration::from_millis(40);

/// A picture and when it belongs.
#[derive(Clone, Debug)]
pub struct Frame {
    /// The picture.
    pub photo: Photo,
    /// Its number, from 0.
    pub index: u64,
    /// How long it stands; `None` = until further notice (a still picture, a live one).
    pub shown_for: Option<Duration>,
    /// What the user should know.
    pub notices: Vec<String>,
}

/// What [`Source::next`] found.
#[derive(Debug)]
pub enum Next {
    /// The next picture.
    Frame(Frame),
    /// Nothing new yet; ask again after this time.
    Wait(Duration),
    /// There is no more.
    End,
}

/// What sort of source it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// One picture.
    Still,
    /// Pictures without times, gone through by hand.
    Folder {
        /// How many.
        count: u64,
    },
    /// Pictures with times, and any of them can be gone to.
    Clip {
        /// How many; `None` = not known yet, or endless.
        frames: Option<u64>,
    },
    /// Pictures as they happen.
    Live,
}

/// Something that gives one picture after another.
pub trait Source: Send + Debug {
    /// Title for people: the file's name, "camera /dev/video0", "synthetic scene".
    fn name(&self) -> String;

    /// What sort of source it is.
    fn kind(&self) -> Kind;

    /// The next picture. A live source answers within 100 ms; a file takes as long as decoding does.
    ///
    /// Errors: a picture that cannot be had. Its number is used up: asking again gives the one after it, or the end.
    fn next(&mut self) -> Result<Next, SourceError>;

    /// Makes [`Source::next`] give picture `index`.
    ///
    /// Errors: [`SourceError::NoFrame`] past the end, [`SourceError::Unsupported`] where pictures are live.
    fn go_to(&mut self, index: u64) -> Result<(), SourceError>;

    /// Pictures dropped so far because their data was corrupt.
    fn faults(&self) -> u64 {
        0
    }
}

/// Opens a source.
///
/// * `cat`: the built-in photograph, see [`built_in`].
/// * `synthetic`: the built-in moving scene, see [`synthetic`].
/// * `camera`, `camera:1`, `camera:/dev/video1`: a camera (Linux).
/// * `screen`, `screen:X,Y,WIDTHxHEIGHT`: the screen or a part of it, in pixels (X11).
/// * a picture, an animation (GIF, PNG, WebP) or a video: y4m is read here, any other kind by the program `ffmpeg`.
/// * a folder of pictures.
/// * `shots/%04d.png`, or a pattern with `*`, `?` or `[`: pictures in the order of their numbers, 25 a second.
///
/// An existing file or folder comes before a pattern; write `./camera` for a file of that name.
///
/// Errors: nothing of that name, or it cannot be read; see [`SourceError`].
pub fn open(what: &str) -> Result<Box<dyn Source>, SourceError> {
    let (word, rest) = what.split_once(':').map_or((what, None), |(word, rest)| (word, Some(rest)));
    match (word, rest) {
        ("synthetic", None) => return Ok(Box::new(synthetic::Synthetic::new())),
        ("camera", device) => return open_camera(device),
        ("screen", region) => return open_screen(region),
        _ => {}
    }
    if built_in::is_meant(what) {
        return Ok(Box::new(files::Still::new(built_in::photo()?, None)));
    }
    let path = Path::new(what);
    if path.is_dir() {
        return Ok(Box::new(files::Folder::open(path)?));
    }
    if !path.exists()
        && let Some(sequence) = files::Sequence::open(what)?
    {
        return Ok(Box::new(sequence));
    }
    open_file(path)
}

/// Whether there is something of that name, as far as that can be told without opening it.
///
/// Errors: as [`open`] for a path or a pattern that leads to no file. Words such as `camera` are taken for granted.
pub fn check(what: &str) -> Result<(), SourceError> {
    if is_word(what) || built_in::is_meant(what) || Path::new(what).exists() {
        return Ok(());
    }
    match files::Sequence::open(what)? {
        Some(_) => Ok(()),
        None => Ok(Photo::open(what).map(drop)?),
    }
}

/// Whether a source is named by a word rather than by a path.
fn is_word(what: &str) -> bool {
    let word = what.split_once(':').map_or(what, |(word, _)| word);
    what == "synthetic" || matches!(word, "camera" | "screen")
}

/// The same source, named such that it is found from any folder: paths and patterns become absolute.
#[must_use]
pub fn anywhere(what: &str) -> String {
    if is_word(what) || built_in::is_meant(what) {
        return what.to_owned();
    }
    std::path::absolute(what).map_or_else(|_| what.to_owned(), |path| path.display().to_string())
}

/// Opens what lies in files and has frames with times: a video, an animation of several frames, or `name%04d.png`. `None` for
/// anything else, such as a single picture.
///
/// Errors: as [`open`].
pub fn open_clip(path: &Path) -> Result<Option<Box<dyn Source>>, SourceError> {
    if !path.exists() {
        let sequence = path.to_str().map(files::Sequence::numbered).transpose()?.flatten();
        return Ok(sequence.map(|sequence| Box::new(sequence) as _));
    }
    match open_video(path)? {
        Some(video) => Ok(Some(video)),
        None => Ok(animation::Animation::open(path)?.map(|animation| Box::new(animation) as _)),
    }
}

fn open_video(path: &Path) -> Result<Option<Box<dyn Source>>, SourceError> {
    if video::is_y4m(path) {
        return Ok(Some(Box::new(video::Y4mFile::open(path)?)));
    }
    if ffmpeg::is_video(path) {
        return Ok(Some(Box::new(ffmpeg::Video::open(path, ffmpeg::PROGRAM)?)));
    }
    Ok(None)
}

fn open_file(path: &Path) -> Result<Box<dyn Source>, SourceError> {
    if let Some(video) = open_video(path)? {
        return Ok(video);
    }
    let notice = match animation::Animation::open(path) {
        Ok(Some(animation)) => return Ok(Box::new(animation)),
        Ok(None) => None,
        // A picture that can be decoded is something to show.
        Err(e) => Some(format!("only the first picture of the animation is shown: {e}")),
    };
    Ok(Box::new(files::Still::new(Photo::open(path)?, notice)))
}

#[cfg(target_os = "linux")]
fn open_camera(device: Option<&str>) -> Result<Box<dyn Source>, SourceError> {
    Ok(Box::new(camera::Camera::open(device)?))
}

#[cfg(not(target_os = "linux"))]
fn open_camera(_: Option<&str>) -> Result<Box<dyn Source>, SourceError> {
    Err(SourceError::Unsupported {
        what: "camera".into(),
        reason: "cameras are read on Linux only; the feature `camera` for other systems is not built yet"
            .into(),
        remedy: "record a video and open the file",
    })
}

#[cfg(target_os = "linux")]
fn open_screen(region: Option<&str>) -> Result<Box<dyn Source>, SourceError> {
    Ok(Box::new(screen::Screen::open(region)?))
}

#[cfg(not(target_os = "linux"))]
fn open_screen(_: Option<&str>) -> Result<Box<dyn Source>, SourceError> {
    Err(SourceError::Unsupported {
        what: "screen".into(),
        reason: "the screen is read through X11 on Linux only".into(),
        remedy: "open a screenshot or a screen recording",
    })
}

/// The last part of a path, for titles.
fn file_name(path: &Path) -> String {
    path.file_name().map_or_else(|| path.display().to_string(), |name| name.to_string_lossy().into_owned())
}
