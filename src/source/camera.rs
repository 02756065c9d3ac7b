//! A camera under Linux (V4L2). The device is opened and read on a thread of its own, so that a driver that hangs holds up
//! nobody else; only its newest frame is kept.
//!
//! Raw formats come first, because JPEG blocks would show in features: YUYV, NV12, then Motion JPEG, near 640 × 480, where
//! even YUYV fits 30 frames a second through USB 2. V4L2 says that such data is BT.601 in the limited range unless a
//! driver states otherwise.

use crate::words::plain;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{SyncSender, sync_channel};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use linuxvideo::format::{FrameSizes, PixFormat, PixelFormat as FourCc};
use linuxvideo::{BufType, CapabilityFlags, Device, VideoCaptureDevice};

use super::pixels::{Matrix, PixelFormat, Range, RawDecoder, RawFrame};
use super::{Kind, Next, Source, SourceError};

/// Longest wait for a device to open.
const OPENING: Duration = Duration::from_secs(5);

/// Longest wait for a frame within one call.
const PATIENCE: Duration = Duration::from_millis(50);

/// Size asked for.
const WANTED: (u32, u32) = (640, 480);

/// Formats read here, best first.
const FORMATS: [(FourCc, PixelFormat); 4] = [
    (FourCc::YUYV, PixelFormat::Yuyv),
    (FourCc::from_fourcc(*b"NV12"), PixelFormat::Nv12),
    (FourCc::MJPG, PixelFormat::Mjpeg),
    (FourCc::JPEG, PixelFormat::Mjpeg),
];

/// A camera.
#[derive(Debug)]
pub(super) struct Camera {
    decoder: RawDecoder,
    slot: Arc<Slot>,
    thread: JoinHandle<()>,
    over: bool,
}

/// What the device's thread leaves for us.
#[derive(Debug, Default)]
struct Slot {
    state: Mutex<State>,
    arrived: Condvar,
}

#[derive(Debug, Default)]
struct State {
    newest: Option<RawFrame>,
    /// Frames that the driver itself calls corrupt.
    marked_corrupt: u64,
    lost: Option<String>,
    quit: bool,
}

impl Slot {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Camera {
    /// `None` = the first camera, digits = the device of that number, otherwise a device's path.
    pub(super) fn open(device: Option<&str>) -> Result<Self, SourceError> {
        let path = match device {
            None | Some("") => first()?,
            Some(number) if number.bytes().all(|b| b.is_ascii_digit()) => {
                PathBuf::from(format!("/dev/video{number}"))
            }
            Some(path) => PathBuf::from(path),
        };
        let name = format!("camera {}", path.display());
        let slot = Arc::new(Slot::default());
        let (answer, opened) = sync_channel(1);
        let own = slot.clone();
        let device = path.clone();
        let thread = std::thread::spawn(move || own.run(&device, &answer));
        match opened.recv_timeout(OPENING) {
            Ok(Ok(())) => Ok(Self { decoder: RawDecoder::new(name), slot, thread, over: false }),
            Ok(Err(error)) => Err(error),
            Err(_) => {
                slot.lock().quit = true;
                let reason = format!("no answer within {} s", OPENING.as_secs());
                Err(SourceError::Read {
                    what: name,
                    reason,
                    remedy: "plug it in again, or try another device",
                })
            }
        }
    }
}

impl Drop for Camera {
    fn drop(&mut self) {
        // Not joined: its driver may never answer.
        self.slot.lock().quit = true;
    }
}

impl Source for Camera {
    fn name(&self) -> String {
        self.decoder.name.clone()
    }

    fn kind(&self) -> Kind {
        Kind::Live
    }

    fn next(&mut self) -> Result<Next, SourceError> {
        if self.over {
            return Ok(Next::End);
        }
        let mut state = self.slot.lock();
        if state.newest.is_none() && state.lost.is_none() && !self.thread.is_finished() {
            let waited = self.slot.arrived.wait_timeout(state, PATIENCE);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        self.decoder.faults += std::mem::take(&mut state.marked_corrupt);
        if let Some(raw) = state.newest.take() {
            drop(state);
            return Ok(Next::Frame(self.decoder.frame(&raw)?));
        }
        if state.lost.is_some() || self.thread.is_finished() {
            self.over = true;
            let reason = state.lost.take().unwrap_or_else(|| "its thread has ended".into());
            return Err(SourceError::Lost { name: self.decoder.name.clone(), reason });
        }
        Ok(Next::Wait(Duration::from_millis(1)))
    }

    fn go_to(&mut self, index: u64) -> Result<(), SourceError> {
        Err(SourceError::live(&self.decoder.name, index))
    }

    fn faults(&self) -> u64 {
        self.decoder.faults
    }
}

impl Slot {
    /// The device's thread.
    fn run(&self, path: &Path, answer: &SyncSender<Result<(), SourceError>>) {
        let (capture, format) = match negotiate(path) {
            Ok(found) => found,
            Err(error) => return drop(answer.send(Err(error))),
        };
        let (width, height) = (capture.format().width(), capture.format().height());
        let stride = match (format, capture.format().bytes_per_line()) {
            (PixelFormat::Mjpeg, _) | (_, 0) => None,
            (_, bytes) => Some(bytes as usize),
        };
        let mut stream = match capture.into_stream() {
            Ok(stream) => stream,
            Err(error) => return drop(answer.send(Err(refused(path, &error)))),
        };
        // Nobody waits any more if the device took too long.
        if answer.send(Ok(())).is_err() {
            return;
        }
        while !self.lock().quit {
            let frame = stream.dequeue(|data| Ok((!data.is_error()).then(|| data.to_vec())));
            let mut state = self.lock();
            match frame {
                Ok(Some(bytes)) => {
                    let (range, matrix) = (Range::Limited, Matrix::Bt601);
                    state.newest = Some(RawFrame { format, width, height, stride, range, matrix, bytes });
                }
                Ok(None) => state.marked_corrupt += 1,
                Err(error) => state.lost = Some(plain(error)),
            }
            let lost = state.lost.is_some();
            drop(state);
            self.arrived.notify_all();
            if lost {
                return;
            }
        }
    }
}

fn refused(path: &Path, error: &io::Error) -> SourceError {
    let remedy = match error.kind() {
        io::ErrorKind::NotFound => "name a device that exists, such as camera:0, or use `synthetic`",
        io::ErrorKind::PermissionDenied => "let your user use it (on most systems: the group `video`)",
        io::ErrorKind::ResourceBusy => "close the program that uses it",
        _ => "try another device",
    };
    SourceError::Read { what: format!("camera {}", path.display()), reason: plain(error), remedy }
}

/// The device with the lowest number that says it captures video; one that cannot be asked is left to say why itself.
fn first() -> Result<PathBuf, SourceError> {
    let (answer, found) = sync_channel(1);
    std::thread::spawn(move || {
        let captures = |path: &PathBuf| match Device::open(path).and_then(|device| device.capabilities()) {
            Ok(can) => can.device_capabilities().contains(CapabilityFlags::VIDEO_CAPTURE),
            Err(_) => true,
        };
        let paths = (0..64).map(|i| PathBuf::from(format!("/dev/video{i}"))).filter(|p| p.exists());
        // Nobody waits any more if that took too long.
        let _ = answer.send(paths.into_iter().find(captures));
    });
    let none = |reason: &str| SourceError::Read {
        what: "camera".into(),
        reason: reason.into(),
        remedy: "plug one in, or use `synthetic`",
    };
    match found.recv_timeout(OPENING) {
        Ok(path) => path.ok_or_else(|| none("this machine has none (no /dev/video0 to /dev/video63)")),
        Err(_) => Err(none("the drivers did not answer")),
    }
}

/// Opens a device and agrees on a format and a size.
fn negotiate(path: &Path) -> Result<(VideoCaptureDevice, PixelFormat), SourceError> {
    let fail = |error: io::Error| refused(path, &error);
    let device = Device::open(path).map_err(fail)?;
    let offered: Vec<FourCc> =
        device.formats(BufType::VIDEO_CAPTURE).map_while(Result::ok).map(|f| f.pixel_format()).collect();
    let none = |offered: &[FourCc]| SourceError::Unsupported {
        what: format!("camera {}", path.display()),
        reason: format!("expected YUYV, NV12 or MJPG, got {offered:?}"),
        remedy: "choose another device",
    };
    let (code, _) = *FORMATS.iter().find(|(code, _)| offered.contains(code)).ok_or_else(|| none(&offered))?;
    let (width, height) = match device.frame_sizes(code) {
        Ok(FrameSizes::Discrete(sizes)) => {
            let gap = |size: &(u32, u32)| size.0.abs_diff(WANTED.0) + size.1.abs_diff(WANTED.1);
            sizes.iter().map(|s| (s.width(), s.height())).min_by_key(gap).unwrap_or(WANTED)
        }
        _ => WANTED,
    };
    let capture = device.video_capture(PixFormat::new(width, height, code)).map_err(fail)?;
    // The driver may have chosen something else.
    let chosen = capture.format().pixel_format();
    match FORMATS.iter().find(|(code, _)| *code == chosen) {
        Some((_, format)) => Ok((capture, *format)),
        None => Err(none(&[chosen])),
    }
}
