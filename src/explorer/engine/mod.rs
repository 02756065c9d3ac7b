//! The engine's own thread: it takes the newest request, works in parts that frames of the window pass between, and answers
//! with a [`Snapshot`].
//!
//! There is one place for a request. A newer one replaces it, so a slider that is dragged neither queues up work nor grows
//! memory; work that is under way goes on for a quarter of a second and then gives way, but never twice in a row, and never to
//! the next picture of a moving source: on a slow device something is shown all the same. Only work that would still take
//! seconds gives way in any case.

mod layers;
mod machine;
mod ranges;
mod worker;

pub use machine::Window;

use super::arrays_source::ModelArrays;
use super::networks::{Cuts, DiffusionSettings};
use super::settings::{Compute, Device, Look};
use super::snapshot::{Needs, Snapshot};
use crate::vision::image::Photo;
use glam::UVec2;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};

/// What to compute.
#[derive(Clone, Debug)]
pub struct Request {
    /// The photograph; another `Arc` counts as another picture.
    pub photo: Arc<Photo>,
    /// Queries and keys of the user's own model, in place of features of the picture.
    pub arrays: Option<Arc<ModelArrays>>,
    /// Whether the picture is one of a sequence: the feature basis of the first one is kept, so that the map does not flicker.
    pub live: bool,
    /// Clicked pixel.
    pub query: UVec2,
    /// What to compute.
    pub compute: Compute,
    /// How to draw it.
    pub look: Look,
    /// What the views on screen need.
    pub needs: Needs,
    /// Painted masks.
    pub mask: super::mask::MaskDocument,
    /// Settings of the diffusion over the picture, with what was cut and linked for it.
    pub diffusion: (DiffusionSettings, Cuts),
    /// Where.
    pub device: Device,
}

/// The engine's answer.
#[derive(Clone, Debug)]
pub enum Answer {
    /// Done.
    Found(Arc<Snapshot>),
    /// Not possible; one line for the user.
    Failed(String),
    /// The device is gone.
    Lost(String),
}

/// What the engine is doing.
#[derive(Clone, Debug)]
pub struct Progress {
    /// In words.
    pub what: &'static str,
    /// Steps done.
    pub done: usize,
    /// Steps in all; 0 if not known.
    pub total: usize,
    /// Since the request was taken.
    pub since: Duration,
    /// How long the rest takes, as far as can be told by what was done.
    pub left: Option<Duration>,
}

#[derive(Default)]
struct Mailbox {
    request: Option<(u64, Request, Instant)>,
    answer: Option<Answer>,
    stop: bool,
}

/// What the window's thread and the engine's share.
#[derive(Default)]
struct Shared {
    mailbox: Mutex<Mailbox>,
    bell: Condvar,
    /// A request is waiting.
    newer: AtomicBool,
    /// The present request is finished whatever comes: it is live, or the one before it gave way.
    finish: AtomicBool,
    cancelled: AtomicBool,
    busy: Mutex<Option<(&'static str, Instant)>>,
    done: AtomicUsize,
    total: AtomicUsize,
    /// When the first steps of what is under way were done, and how many those were: compiling comes before.
    first: Mutex<Option<(Instant, usize)>>,
}

impl Shared {
    fn working_on(&self, what: &'static str, since: Instant) {
        self.done.store(0, Ordering::Relaxed);
        self.total.store(0, Ordering::Relaxed);
        if let Ok(mut first) = self.first.lock() {
            *first = None;
        }
        if let Ok(mut busy) = self.busy.lock() {
            *busy = Some((what, since));
        }
    }

    fn idle(&self) {
        if let Ok(mut busy) = self.busy.lock() {
            *busy = None;
        }
    }

    /// Notes how far work is; whether to go on with it.
    fn step(&self, done: usize, total: usize, since: Instant) -> bool {
        self.done.store(done, Ordering::Relaxed);
        self.total.store(total, Ordering::Relaxed);
        if let Ok(mut first) = self.first.lock()
            && first.is_none_or(|(_, from)| from > done)
        {
            *first = Some((Instant::now(), done));
        }
        let waiting = self.newer.load(Ordering::Acquire);
        let patience = match self.finish.load(Ordering::Acquire) {
            // What is nearly done is finished.
            true if self.left().is_none_or(|left| left < LONG) => Duration::MAX,
            true => LONG,
            false => PATIENCE,
        };
        let give_way = waiting && since.elapsed() > patience;
        !(self.cancelled.load(Ordering::Acquire) || give_way)
    }

    /// How long the rest takes if it goes on as it did.
    fn left(&self) -> Option<Duration> {
        let (begun, from) = (*self.first.lock().ok()?)?;
        let (done, total) = (self.done.load(Ordering::Relaxed), self.total.load(Ordering::Relaxed));
        let (made, rest) = (done.checked_sub(from)?, total.checked_sub(done)?);
        // Of the first moment nothing can be told.
        let spent = begun.elapsed().as_secs_f64();
        let known = made > 0 && spent > 0.5;
        known.then(|| Duration::from_secs_f64((spent * rest as f64 / made as f64).min(1e6)))
    }
}

/// How long work goes on although there is a newer request.
const PATIENCE: Duration = Duration::from_millis(250);

/// Work that takes longer than this gives way although another one did before.
const LONG: Duration = Duration::from_secs(2);

/// How long a window that closes waits for the engine.
const FAREWELL: Duration = Duration::from_millis(700);

/// The window's end of the engine.
pub struct Engine {
    shared: Arc<Shared>,
    thread: Option<std::thread::JoinHandle<()>>,
    asked: u64,
}

impl std::fmt::Debug for Engine {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Engine").field("asked", &self.asked).finish()
    }
}

impl Engine {
    /// Starts the thread. `window` is the device that draws; `wake` is called after each answer.
    ///
    /// Errors: the system gives no thread.
    pub fn start(window: Window, wake: impl Fn() + Send + 'static) -> std::io::Result<Self> {
        let shared = Arc::new(Shared::default());
        let theirs = Arc::clone(&shared);
        let thread = std::thread::Builder::new().name("engine".into()).spawn(move || {
            worker::Worker::new(window, theirs, Box::new(wake)).work();
        })?;
        Ok(Self { shared, thread: Some(thread), asked: 0 })
    }

    /// Asks for something; what was asked before and not begun is forgotten. The number comes back in the snapshot.
    pub fn ask(&mut self, request: Request) -> u64 {
        self.asked += 1;
        if let Ok(mut mailbox) = self.shared.mailbox.lock() {
            mailbox.request = Some((self.asked, request, Instant::now()));
            self.shared.cancelled.store(false, Ordering::Release);
            self.shared.newer.store(true, Ordering::Release);
        }
        self.shared.bell.notify_one();
        self.asked
    }

    /// The newest answer, once.
    pub fn take(&self) -> Option<Answer> {
        self.shared.mailbox.lock().ok()?.answer.take()
    }

    /// Gives up what is under way and what waits.
    pub fn cancel(&self) {
        if let Ok(mut mailbox) = self.shared.mailbox.lock() {
            mailbox.request = None;
        }
        self.shared.cancelled.store(true, Ordering::Release);
    }

    /// Number of the newest request.
    pub fn latest(&self) -> u64 {
        self.asked
    }

    /// What is under way.
    pub fn progress(&self) -> Option<Progress> {
        let (what, since) = (*self.shared.busy.lock().ok()?)?;
        let done = self.shared.done.load(Ordering::Relaxed);
        let total = self.shared.total.load(Ordering::Relaxed);
        Some(Progress { what, done, total, since: since.elapsed(), left: self.shared.left() })
    }

    /// Whether there is neither work nor a request.
    pub fn is_idle(&self) -> bool {
        let waiting = self.shared.mailbox.lock().is_ok_and(|m| m.request.is_some() || m.answer.is_some());
        !waiting && self.progress().is_none()
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        self.cancel();
        if let Ok(mut mailbox) = self.shared.mailbox.lock() {
            mailbox.stop = true;
        }
        self.shared.bell.notify_one();
        let Some(thread) = self.thread.take() else { return };
        // It stops at the next look; what a driver compiles or runs meanwhile cannot be cut short, and nobody waits for it.
        let until = Instant::now() + FAREWELL;
        while !thread.is_finished() {
            if Instant::now() > until {
                return log::debug!("the engine is left behind at its work");
            }
            std::thread::sleep(Duration::from_millis(2));
        }
        // A thread that panicked has nothing more to say.
        let _ = thread.join();
    }
}
