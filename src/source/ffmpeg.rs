//! Every kind of video that is not read here, through the program `ffmpeg`, where it is installed.
//!
//! It is run as a child process that writes YUV4MPEG2 into a pipe, and is ended with the source. Going to a frame far
//! away starts it again at that time, which is exact for videos of a constant frame rate.

use crate::words::plain;
use std::fmt::Debug;
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread::JoinHandle;

use super::video::{Y4m, starts_with};
use super::{Kind, Next, Source, SourceError, file_name};

/// Name of the program.
pub const PROGRAM: &str = "ffmpeg";

/// What to tell those who lack it.
const INSTALL: &str = "install ffmpeg (your system's packages have it, or ffmpeg.org), or convert the file to .y4m or .gif elsewhere";

/// Frames that are rather read than jumped over.
const READ_OVER: u64 = 50;

/// Suffixes that name videos.
const SUFFIXES: [&str; 17] = [
    "mp4", "m4v", "mov", "mkv", "webm", "avi", "mpg", "mpeg", "ts", "m2ts", "mts", "ogv", "wmv", "flv",
    "3gp", "mjpeg", "h264",
];

/// Whether a file is a video of any kind but y4m, by its first bytes, or by its suffix if they tell nothing.
pub fn is_video(path: &Path) -> bool {
    if !path.is_file() {
        return false;
    }
    match starts_with(path, 12).unwrap_or_default().as_slice() {
        [] => false,
        [_, _, _, _, b'f', b't', b'y', b'p', brand @ ..] => {
            // Pictures in the same wrapping.
            !matches!(brand, b"heic" | b"heix" | b"heim" | b"heis" | b"mif1" | b"msf1" | b"avif" | b"avis")
        }
        [0x1a, 0x45, 0xdf, 0xa3, ..] | [b'O', b'g', b'g', b'S', ..] | [b'F', b'L', b'V', ..] => true,
        [b'R', b'I', b'F', b'F', _, _, _, _, b'A', b'V', b'I', b' '] => true,
        start => image::guess_format(start).is_err() && names_video(path),
    }
}

/// Whether a path has the suffix of a video.
pub fn names_video(path: &Path) -> bool {
    let suffix = path.extension().map(|s| s.to_string_lossy().to_lowercase());
    suffix.is_some_and(|s| SUFFIXES.contains(&s.as_str()))
}

/// Refuses where `program` cannot be run; `what` is the file it is needed for.
///
/// Errors: [`SourceError::NoProgram`], or [`SourceError::Read`] if it is there and cannot be run.
pub fn check(program: &str, what: &Path) -> Result<(), SourceError> {
    let mut command = Command::new(program);
    command.arg("-version").stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command.status().map(drop).map_err(|e| start_error(&e, program, what))
}

/// Why `program` did not start.
pub(crate) fn start_error(error: &std::io::Error, program: &str, what: &Path) -> SourceError {
    let what = what.display().to_string();
    match error.kind() {
        std::io::ErrorKind::NotFound => {
            SourceError::NoProgram { what, program: program.to_owned(), remedy: INSTALL }
        }
        _ => SourceError::Read {
            what: format!("{what} with `{program}`"),
            reason: plain(error),
            remedy: INSTALL,
        },
    }
}

/// A video that `ffmpeg` reads for us.
#[derive(Debug)]
pub struct Video {
    path: PathBuf,
    program: String,
    name: String,
    running: Running,
    /// Known once the end was seen.
    frames: Option<u64>,
    faults: u64,
}

/// A child and what it writes. It is killed when it is no longer wanted.
#[derive(Debug)]
struct Running {
    child: Child,
    video: Y4m,
    complaint: Option<JoinHandle<String>>,
}

impl Drop for Running {
    fn drop(&mut self) {
        // It may have ended by itself; there is nobody to tell.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Video {
    /// Starts `program`, usually [`PROGRAM`], on a file.
    ///
    /// Errors: [`SourceError::NoProgram`]; what the program says if it cannot read the file.
    pub fn open(path: &Path, program: &str) -> Result<Self, SourceError> {
        let name = file_name(path);
        let running = run(path, program, &name, 0, None)?;
        Ok(Self {
            path: path.to_owned(),
            program: program.to_owned(),
            name,
            running,
            frames: None,
            faults: 0,
        })
    }
}

/// Runs the program from frame `index` on, which is at `seconds`.
fn run(
    path: &Path,
    program: &str,
    name: &str,
    index: u64,
    seconds: Option<f64>,
) -> Result<Running, SourceError> {
    let mut command = Command::new(program);
    command.args(["-v", "error", "-nostdin"]);
    if let Some(seconds) = seconds {
        command.args(["-ss", &format!("{seconds:.6}")]);
    }
    // A name that begins with `-` or holds a colon is still a file's.
    let file = path.canonicalize().unwrap_or_else(|_| path.to_owned());
    command.arg("-i").arg(file);
    // The kinds that y4m has; the filter takes the nearest one.
    command.args(["-map", "0:v:0", "-vf", "format=yuv420p|yuv422p|yuv444p|gray"]);
    command.args(["-f", "yuv4mpegpipe", "-"]);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().map_err(|e| start_error(&e, program, path))?;
    let complaint = complaint(&mut child);
    let Some(stdout) = child.stdout.take() else {
        return Err(start_error(&std::io::Error::other("its output cannot be read"), program, path));
    };
    match Y4m::new(Box::new(BufReader::new(stdout)), name, index) {
        Ok(video) => Ok(Running { child, video, complaint }),
        Err(error) => {
            // Without a header it has failed or writes something else.
            let _ = child.kill();
            let _ = child.wait();
            let words = complaint.and_then(|c| c.join().ok()).unwrap_or_default();
            Err(if words.is_empty() { error } else { refused(name, index, program, &words) })
        }
    }
}

/// The last line that a child complains with. A full pipe would stop it, so they are read while it works.
fn complaint(child: &mut Child) -> Option<JoinHandle<String>> {
    let stderr = child.stderr.take()?;
    Some(std::thread::spawn(move || {
        let lines = BufReader::new(stderr).lines().map_while(Result::ok);
        lines.filter(|line| !line.trim().is_empty()).last().unwrap_or_default()
    }))
}

fn refused(name: &str, index: u64, program: &str, words: &str) -> SourceError {
    SourceError::Damaged { name: name.to_owned(), index, detail: format!("{program} says: {}", words.trim()) }
}

impl Running {
    /// How the program ended, with its last words.
    fn outcome(&mut self) -> (Option<ExitStatus>, String) {
        let status = self.child.wait().ok();
        (status, self.complaint.take().and_then(|c| c.join().ok()).unwrap_or_default())
    }
}

impl Source for Video {
    fn name(&self) -> String {
        self.name.clone()
    }

    fn kind(&self) -> Kind {
        Kind::Clip { frames: self.frames }
    }

    fn next(&mut self) -> Result<Next, SourceError> {
        let video = &mut self.running.video;
        if let Some(frame) = video.frame().inspect_err(|_| self.faults += 1)? {
            return Ok(Next::Frame(frame));
        }
        let frames = video.index;
        let first_time = self.frames.replace(frames) != Some(frames);
        let (status, words) = self.running.outcome();
        if first_time && status.is_some_and(|s| !s.success()) {
            self.faults += 1;
            return Err(refused(&self.name, frames, &self.program, &words));
        }
        Ok(Next::End)
    }

    fn go_to(&mut self, index: u64) -> Result<(), SourceError> {
        if let Some(frames) = self.frames.filter(|n| index >= *n) {
            let last = frames.saturating_sub(1);
            return Err(SourceError::NoFrame { name: self.name.clone(), index, last });
        }
        let video = &mut self.running.video;
        if let Some(ahead) = index.checked_sub(video.index).filter(|n| *n <= READ_OVER) {
            return video.skip(ahead);
        }
        // A quarter of a frame early, so that rounding does not pass over it.
        let frame_time = video.frame_time.as_secs_f64();
        let seconds = (index > 0).then_some((index as f64 - 0.25) * frame_time);
        self.running = run(&self.path, &self.program, &self.name, index, seconds)?;
        Ok(())
    }

    fn faults(&self) -> u64 {
        self.faults
    }
}

/// The program at work on a video of ours, which it reads as YUV4MPEG2. It is killed if it is not finished with.
#[cfg(feature = "cli")]
#[derive(Debug)]
pub(crate) struct Writing {
    child: Child,
    complaint: Option<JoinHandle<String>>,
}

#[cfg(feature = "cli")]
impl Writing {
    /// Starts it on the new or empty file `out`; it reads from the pipe beside it.
    pub(crate) fn start(out: &Path) -> Result<(Self, std::process::ChildStdin), SourceError> {
        let mut command = Command::new(PROGRAM);
        command.args(["-v", "error", "-y", "-f", "yuv4mpegpipe", "-i", "-"]);
        // What players can show everywhere: half chroma, and so even sides.
        command.args(["-vf", "pad=ceil(iw/2)*2:ceil(ih/2)*2", "-pix_fmt", "yuv420p"]);
        command.arg(out).stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::piped());
        let mut child = command.spawn().map_err(|e| start_error(&e, PROGRAM, out))?;
        let complaint = complaint(&mut child);
        match child.stdin.take() {
            Some(pipe) => Ok((Self { child, complaint }, pipe)),
            None => Err(start_error(&std::io::Error::other("its input cannot be written"), PROGRAM, out)),
        }
    }

    /// Waits for it after its pipe was closed. The error is what it says if it failed.
    pub(crate) fn finish(mut self) -> Result<(), String> {
        let status = self.child.wait().map_err(plain)?;
        let words = self.complaint.take().and_then(|c| c.join().ok()).unwrap_or_default();
        match status.success() {
            true => Ok(()),
            false => Err(format!("{PROGRAM} says: {}", words.trim())),
        }
    }
}

#[cfg(feature = "cli")]
impl Drop for Writing {
    fn drop(&mut self) {
        // It may have ended by itself; there is nobody to tell.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
