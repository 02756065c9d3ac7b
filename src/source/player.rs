//! A source on a thread of its own: it keeps the time, and the newest picture is at hand whenever it is asked for.

use std::collections::VecDeque;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::{Frame, Kind, Next, Source, SourceError};

/// A live source without a new picture for this long is frozen.
const STALLED: Duration = Duration::from_secs(2);

/// So many identical or black pictures in a row, and a live source is frozen.
const REPEATS: u64 = 60;

/// Samples up to this are black: a JPEG of black is not quite 0.
const BLACK: u8 = 2;

/// Pictures over which the rate is measured.
const RATE_FRAMES: usize = 30;

/// Pause after an error of a live source, which may come back at once and for ever.
const ERROR_PAUSE: Duration = Duration::from_millis(100);

/// How a player and its source are.
#[derive(Clone, Debug)]
pub struct Status {
    /// What sort of source it is.
    pub kind: Kind,
    /// Title of the source.
    pub name: String,
    /// Number of the newest picture.
    pub index: u64,
    /// Pictures that nobody took before the next one came.
    pub dropped: u64,
    /// Pictures dropped because their data was corrupt.
    pub faults: u64,
    /// Time since the newest picture came, or since the start.
    pub since_last_frame: Duration,
    /// Why a live source that plays seems to stand still, in words: no new picture for 2 s, or 60 identical or black ones.
    pub frozen: Option<String>,
    /// Whether the last picture was given; [`Player::set_playing`] starts over.
    pub ended: bool,
    /// Pictures per second of late, as they came; 0 while there are none.
    pub frames_per_second: f64,
}

/// A source on its own thread. The newest picture wins, and no call waits for the source.
///
/// * A clip starts playing and keeps the times of its frames; at its end it stops.
/// * A folder gives one picture and waits for [`Player::step`].
/// * A live source is asked for pictures all the time while it plays.
///
/// The thread ends after the player is dropped, as soon as the source answers.
#[derive(Debug)]
pub struct Player {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    state: Mutex<State>,
    /// Told of everything the caller changes.
    changed: Condvar,
}

#[derive(Debug)]
struct State {
    frame: Option<Frame>,
    error: Option<SourceError>,
    /// A picture asked for.
    wanted: Option<u64>,
    playing: bool,
    quit: bool,
    /// No more pictures until one is asked for.
    resting: bool,
    /// Picture `index` was given, or could not be had; otherwise it is the next one.
    begun: bool,
    ended: bool,
    kind: Kind,
    name: String,
    index: u64,
    dropped: u64,
    faults: u64,
    last_frame: Instant,
    arrivals: VecDeque<Instant>,
    repeats: Repeats,
}

/// Pictures in a row that are the same, or black.
#[derive(Debug, Default)]
struct Repeats {
    hash: u64,
    identical: u64,
    black: u64,
}

impl Repeats {
    fn see(&mut self, samples: &[u8]) {
        let mut hasher = DefaultHasher::new();
        samples.hash(&mut hasher);
        let hash = hasher.finish();
        self.identical = if self.identical > 0 && hash == self.hash { self.identical + 1 } else { 1 };
        self.hash = hash;
        self.black = if samples.iter().all(|s| *s <= BLACK) { self.black + 1 } else { 0 };
    }

    fn words(&self) -> Option<String> {
        if self.black >= REPEATS {
            return Some(format!("the last {} pictures are black", self.black));
        }
        (self.identical >= REPEATS).then(|| format!("the last {} pictures are identical", self.identical))
    }
}

impl Player {
    /// Starts `source`; `wake` is called on its thread after each new picture, error and end.
    pub fn start(source: Box<dyn Source>, wake: impl Fn() + Send + 'static) -> Self {
        let state = State {
            frame: None,
            error: None,
            wanted: None,
            playing: true,
            quit: false,
            resting: false,
            begun: false,
            ended: false,
            kind: source.kind(),
            name: source.name(),
            index: 0,
            dropped: 0,
            faults: 0,
            last_frame: Instant::now(),
            arrivals: VecDeque::new(),
            repeats: Repeats::default(),
        };
        let shared = Arc::new(Shared { state: Mutex::new(state), changed: Condvar::new() });
        let own = shared.clone();
        std::thread::spawn(move || own.run(source, wake));
        Self { shared }
    }

    /// The newest picture that was not taken yet, or what went wrong; `None` if nothing is new.
    pub fn take(&self) -> Option<Result<Frame, SourceError>> {
        let mut state = self.shared.lock();
        match state.error.take() {
            Some(error) => Some(Err(error)),
            None => state.frame.take().map(Ok),
        }
    }

    /// Plays on or pauses. A clip that has ended starts over.
    pub fn set_playing(&self, on: bool) {
        let mut state = self.shared.lock();
        if on && state.ended && matches!(state.kind, Kind::Clip { .. }) {
            state.wanted = Some(0);
        }
        if on && !state.playing {
            // A pause is no stall.
            state.last_frame = Instant::now();
            state.arrivals.clear();
        }
        state.playing = on;
        self.shared.changed.notify_all();
    }

    /// Whether it plays.
    pub fn playing(&self) -> bool {
        self.shared.lock().playing
    }

    /// Goes `by` pictures on, or back if negative, stopping at either end. A clip is paused by it.
    pub fn step(&self, by: i64) {
        let mut state = self.shared.lock();
        let last = match state.kind {
            Kind::Still => 0,
            Kind::Folder { count } => count.saturating_sub(1),
            Kind::Clip { frames } => frames.map_or(u64::MAX, |n| n.saturating_sub(1)),
            Kind::Live => u64::MAX,
        };
        if matches!(state.kind, Kind::Clip { .. }) {
            state.playing = false;
        }
        let from = state.wanted.unwrap_or(state.index);
        state.wanted = Some(from.saturating_add_signed(by).min(last));
        self.shared.changed.notify_all();
    }

    /// Goes to picture `index` and shows it, playing or not. An index past the end is an error in [`Player::take`].
    pub fn go_to(&self, index: u64) {
        self.shared.lock().wanted = Some(index);
        self.shared.changed.notify_all();
    }

    /// How things are.
    pub fn status(&self) -> Status {
        let state = self.shared.lock();
        let since_last_frame = state.last_frame.elapsed();
        let frozen = match state.kind {
            Kind::Live if state.playing && !state.ended => {
                if since_last_frame >= STALLED {
                    Some(format!("no new picture for {:.0} s", since_last_frame.as_secs_f64().floor()))
                } else {
                    state.repeats.words()
                }
            }
            _ => None,
        };
        let frames_per_second = match (state.arrivals.front(), state.arrivals.back()) {
            (Some(first), Some(last)) if last > first => {
                let interval = (*last - *first).as_secs_f64() / (state.arrivals.len() - 1) as f64;
                let since = since_last_frame.as_secs_f64();
                // One that has become slow, or stopped, is not as fast as it was.
                1.0 / if since > 2.0 * interval { since } else { interval }
            }
            _ => 0.0,
        };
        Status {
            kind: state.kind,
            name: state.name.clone(),
            index: state.index,
            dropped: state.dropped,
            faults: state.faults,
            since_last_frame,
            frozen,
            ended: state.ended,
            frames_per_second,
        }
    }
}

impl Drop for Player {
    fn drop(&mut self) {
        self.shared.lock().quit = true;
        self.shared.changed.notify_all();
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        // No state is left half-written by a panic: each change is made under one lock, without calls that could panic.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn run(&self, mut source: Box<dyn Source>, wake: impl Fn()) {
        let mut due = Instant::now();
        while let Some(wanted) = self.turn(due) {
            if let Some(index) = wanted {
                due = Instant::now();
                match source.go_to(index) {
                    Ok(()) => self.goes_to(index),
                    Err(error) => {
                        self.failed(error, source.as_ref());
                        wake();
                        continue;
                    }
                }
            }
            let found = source.next();
            let now = Instant::now();
            match found {
                Ok(Next::Frame(frame)) => {
                    // From when it should have come, so that times do not drift; no catching up after a delay.
                    due = frame.shown_for.map_or(now, |time| (due + time).max(now));
                    self.arrived(frame, source.as_ref(), now);
                    wake();
                }
                Ok(Next::Wait(time)) => due = now + time,
                Ok(Next::End) => {
                    self.ended(source.as_ref());
                    wake();
                }
                Err(error) => {
                    due = now + ERROR_PAUSE;
                    self.passes_over();
                    self.failed(error, source.as_ref());
                    wake();
                }
            }
        }
    }

    /// Waits until the source is to be asked: `Some(Some(index))` for a certain picture, `Some(None)` for the next one,
    /// `None` when all is over.
    fn turn(&self, due: Instant) -> Option<Option<u64>> {
        let mut state = self.lock();
        loop {
            if state.quit {
                return None;
            }
            if let Some(index) = state.wanted.take() {
                return Some(Some(index));
            }
            let now = Instant::now();
            // The first picture of a file is shown even if it was paused at once.
            let plays = state.playing || (!state.begun && state.kind != Kind::Live);
            state = if !plays || state.resting {
                self.changed.wait(state).unwrap_or_else(PoisonError::into_inner)
            } else if due > now {
                self.changed.wait_timeout(state, due - now).unwrap_or_else(PoisonError::into_inner).0
            } else {
                return Some(None);
            };
        }
    }

    fn goes_to(&self, index: u64) {
        let mut state = self.lock();
        (state.resting, state.ended, state.begun) = (false, false, false);
        state.index = index;
    }

    /// A picture that cannot be had: its number is used up, and in a folder it is waited on like any other.
    fn passes_over(&self) {
        let mut state = self.lock();
        // Live, the next picture brings its number; a lost one is not the newest.
        if state.begun && state.kind != Kind::Live {
            state.index += 1;
        }
        state.begun = true;
        state.resting = matches!(state.kind, Kind::Still | Kind::Folder { .. });
    }

    fn failed(&self, error: SourceError, source: &dyn Source) {
        let mut state = self.lock();
        state.note(source);
        state.error = Some(error);
    }

    fn arrived(&self, frame: Frame, source: &dyn Source, now: Instant) {
        let mut state = self.lock();
        state.note(source);
        if state.kind == Kind::Live {
            state.repeats.see(frame.photo.stored_bytes());
        }
        state.resting = frame.shown_for.is_none() && state.kind != Kind::Live;
        (state.index, state.begun) = (frame.index, true);
        state.last_frame = now;
        state.arrivals.push_back(now);
        if state.arrivals.len() > RATE_FRAMES {
            state.arrivals.pop_front();
        }
        if state.frame.replace(frame).is_some() {
            state.dropped += 1;
        }
    }

    fn ended(&self, source: &dyn Source) {
        let mut state = self.lock();
        state.note(source);
        (state.resting, state.ended) = (true, true);
    }
}

impl State {
    fn note(&mut self, source: &dyn Source) {
        (self.kind, self.faults) = (source.kind(), source.faults());
    }
}
