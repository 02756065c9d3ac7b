//! The suite on a device: several cases at a time, because software drivers take most of theirs to compile.
//!
//! They run on threads of their own, which nobody joins: a driver may never come back from a case. Whoever asked for the run is told of
//! every row as it ends, and says between rows whether to go on.

use super::workers::{Ended, Link, Shared};
use super::{Evidence, Expected, Judged};
use crate::backend::device::{Facts, facts};
use crate::backend::{Backend, DeviceInfo, Stopwatch};
use crate::error::{Error, Result};
use crate::kernel::{Case, KernelSpec};
use crate::kernels::KERNELS;
use crate::numbers::shortest;
use std::sync::Arc;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

/// Seconds after which a case is given up unless told otherwise: seven times what the slowest of all took on software drivers, on two cores that
/// had other work besides (2026-11-30).
pub const MOST_CASE_SECONDS: f64 = 60.0;

/// Times that a lost device is opened again before its remaining cases are given up.
pub(super) const MOST_LOSSES: u32 = 3;

/// Cases that run at a time, at most: each holds memory of its own.
const MOST_WORKERS: usize = 8;

/// How often whoever asked for a run is asked whether to go on.
const TICK: Duration = Duration::from_millis(50);

/// What other cases in hand may still take once a device has stopped answering: some are behind the same lock, and some are not.
const GRACE: Duration = Duration::from_secs(2);

/// Opens a device anew.
pub type Open = Box<dyn Fn() -> Result<Arc<dyn Backend>> + Send + Sync>;

/// What came of one case in one variant.
#[derive(Clone, Debug)]
pub enum Outcome {
    /// Every output is as close as it must be.
    Passed(Vec<Judged>),
    /// Some output is not.
    Wrong(Vec<Judged>),
    /// It did not run: the driver refused it, the device was lost, or there is no reference.
    Broken(String),
    /// It was not tried, and why.
    Ignored(String),
}

impl Outcome {
    /// Whether it counts against the device.
    pub fn is_failure(&self) -> bool {
        matches!(self, Self::Wrong(_) | Self::Broken(_))
    }

    /// The judged output that is furthest from passing.
    pub fn worst(&self) -> Option<&Judged> {
        match self {
            Self::Passed(all) | Self::Wrong(all) => all.iter().max_by(|a, b| a.share().total_cmp(&b.share())),
            Self::Broken(_) | Self::Ignored(_) => None,
        }
    }

    /// Why it did not pass.
    pub fn why(&self) -> Option<String> {
        match self {
            Self::Passed(_) => None,
            Self::Wrong(all) => {
                let failing: Vec<String> =
                    all.iter().filter(|j| !j.passes()).map(ToString::to_string).collect();
                Some(failing.join("; "))
            }
            Self::Broken(why) | Self::Ignored(why) => Some(why.clone()),
        }
    }
}

/// One case in one variant on one device.
#[derive(Clone, Debug)]
pub struct Row {
    /// Kernel.
    pub kernel: &'static str,
    /// Case of the kernel.
    pub case: &'static str,
    /// Variant that the kernel was held to; `None` where there is nothing to choose.
    pub variant: Option<&'static str>,
    /// What came of it.
    pub outcome: Outcome,
    /// Seconds of the host's clock, compiling included and the references not.
    pub seconds: f64,
}

impl Row {
    /// `kernel/variant · case`.
    pub fn name(&self) -> String {
        let variant = self.variant.map_or_else(String::new, |v| format!("/{v}"));
        format!("{}{variant} · {}", self.kernel, self.case)
    }
}

/// Rows by what came of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// As close as they must be.
    pub passed: usize,
    /// Wrong or broken.
    pub failed: usize,
    /// Not tried.
    pub ignored: usize,
}

impl Tally {
    /// Counts rows.
    pub fn of<'a>(rows: impl IntoIterator<Item = &'a Row>) -> Self {
        rows.into_iter().fold(Self::default(), |mut tally, row| {
            match row.outcome {
                Outcome::Passed(_) => tally.passed += 1,
                Outcome::Wrong(_) | Outcome::Broken(_) => tally.failed += 1,
                Outcome::Ignored(_) => tally.ignored += 1,
            }
            tally
        })
    }

    /// All of them.
    pub fn all(&self) -> usize {
        self.passed + self.failed + self.ignored
    }
}

/// A device under test, with its rows so far.
pub struct Device {
    /// What it is.
    pub info: DeviceInfo,
    /// Where it is, and what it has.
    pub facts: Facts,
    /// What came of each case, in the order of the cases.
    pub rows: Vec<Row>,
    /// Seconds of the host's clock for all of them, references included.
    pub seconds: f64,
    /// The row from which the device did not come back; nothing is run on it any more.
    pub hung: Option<String>,
    /// Where each row belongs: its case, and its variant among those of the case.
    places: Vec<(usize, usize)>,
    link: Arc<Link>,
}

impl std::fmt::Debug for Device {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Device({}, {} rows, hung: {})", self.info.name, self.rows.len(), self.hung.is_some())
    }
}

/// What whoever is told of a row wants to have of its run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Keep {
    /// Nothing beyond the row.
    #[default]
    Nothing,
    /// Results, recording and trace of what failed.
    Failures,
    /// Those of everything that ran.
    Everything,
}

impl Keep {
    /// Whether that of a row is wanted.
    pub(super) fn wants(self, outcome: &Outcome) -> bool {
        match self {
            Self::Nothing => false,
            Self::Failures => outcome.is_failure(),
            Self::Everything => true,
        }
    }
}

/// Who is told how a run goes.
pub trait Watcher {
    /// What is wanted of the runs.
    fn keep(&self) -> Keep {
        Keep::Nothing
    }

    /// A row is there.
    fn row(&mut self, finished: &Finished<'_>);

    /// Whether to go on; asked some times a second, also while no row ends. After a no, rows in hand end and no others begin.
    fn goes_on(&mut self, _device: &Device) -> bool {
        true
    }
}

/// A function is told of the rows, with everything of their runs.
impl<F: FnMut(&Finished<'_>)> Watcher for F {
    fn keep(&self) -> Keep {
        Keep::Everything
    }

    fn row(&mut self, finished: &Finished<'_>) {
        self(finished);
    }
}

impl Device {
    /// Opens a device, in at most so many seconds; `open` is called again after a loss. `asked` is what the user calls it, `index` its place
    /// in the list of adapters, if it has one there.
    ///
    /// Errors: those of opening it; [`Error::NoDevice`] where that takes longer.
    pub fn open(asked: &str, index: Option<usize>, most_seconds: f64, open: Open) -> Result<Self> {
        let open = Arc::new(open);
        let (sender, receiver) = mpsc::channel();
        let opens = Arc::clone(&open);
        // Nobody is there to hear it where it comes too late.
        thread::spawn(move || drop(sender.send(opens())));
        let most = Duration::try_from_secs_f64(most_seconds).unwrap_or(Duration::MAX);
        let backend = receiver.recv_timeout(most).map_err(|error| {
            let reason = match error {
                RecvTimeoutError::Timeout => {
                    let limit = shortest(&most_seconds);
                    format!(
                        "its driver did not open it within {limit} s (--max-case-seconds gives it longer)"
                    )
                }
                RecvTimeoutError::Disconnected => "its driver's layer panicked".into(),
            };
            Error::NoDevice { asked: asked.into(), reason }
        })??;
        let (info, facts) = (backend.info(), facts(index, backend.as_ref()));
        let link = Arc::new(Link::new(backend, open));
        Ok(Self { info, facts, rows: Vec::new(), seconds: 0.0, hung: None, places: Vec::new(), link })
    }

    /// Whether rows were asked for and none of them tells anything of the device. Those whose products are rounded by request do.
    pub fn checked_nothing(&self) -> bool {
        let tally = self.tally();
        let rounded =
            self.facts.card.as_ref().and_then(|card| card.products).is_some_and(|word| word != "f32");
        tally.ignored > 0 && tally.passed + tally.failed == 0 && !rounded
    }

    /// Whether something counts against it.
    pub fn fails(&self) -> bool {
        self.hung.is_some() || self.rows.iter().any(|row| row.outcome.is_failure())
    }

    /// Its rows by what came of them.
    pub fn tally(&self) -> Tally {
        Tally::of(&self.rows)
    }

    /// Runs cases on it, several at a time. Whatever goes wrong is a row.
    ///
    /// A row that takes longer than `most_seconds`, its reference left out, is broken, and the device counts as lost for good: what it
    /// has in hand is waited for a little longer, and all that remains is ignored with the reason.
    pub fn run(
        &mut self,
        cases: &[(&'static KernelSpec, &'static Case)],
        most_seconds: f64,
        watcher: &mut dyn Watcher,
    ) {
        let (watch, before) = (Stopwatch::start(), self.seconds);
        let workers = thread::available_parallelism().map_or(1, usize::from).min(MOST_WORKERS);
        let shared = Arc::new(Shared::new(
            cases.to_vec(),
            Arc::clone(&self.link),
            watcher.keep(),
            most_seconds,
            workers,
        ));
        // Without bounds, because rows are handed over under a lock.
        let (sender, receiver) = mpsc::channel();
        for worker in 0..workers {
            let (shared, sender) = (Arc::clone(&shared), sender.clone());
            thread::spawn(move || shared.work(worker, &sender));
        }
        drop(sender);
        // Rows of an earlier run stay in front.
        let first = self.places.last().map_or(0, |(case, _)| case + 1);
        let mut done = 0;
        let mut take = |device: &mut Self, ended: Ended, watcher: &mut dyn Watcher| {
            done += usize::from(ended.last);
            device.seconds = before + watch.seconds().0;
            device.put(first, ended, (done, cases.len()), watcher);
        };
        let mut silent: Option<Instant> = None;
        loop {
            match receiver.recv_timeout(TICK) {
                Ok(ended) => take(self, ended, watcher),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => break,
            }
            if !watcher.goes_on(self) {
                shared.stop();
            }
            if let Some((row, rows)) = shared.overdue() {
                self.hung = Some(row);
                silent = Some(Instant::now());
                rows.into_iter().for_each(|ended| take(self, ended, watcher));
            }
            if silent.is_some_and(|since| since.elapsed() > GRACE || shared.is_idle()) {
                break;
            }
        }
        // The thread that did not come back keeps its end of the channel open, so that nothing else tells the end of the run.
        if silent.is_some() {
            let abandoned = shared.abandoned();
            receiver.try_iter().chain(abandoned).for_each(|ended| take(self, ended, watcher));
        }
        self.seconds = before + watch.seconds().0;
    }

    /// Puts a row in its place, and tells of it.
    fn put(&mut self, first: usize, ended: Ended, done: (usize, usize), watcher: &mut dyn Watcher) {
        let Ended { place: (case, variant), row, expected, evidence, .. } = ended;
        let place = (first + case, variant);
        let at = self.places.partition_point(|p| *p < place);
        self.places.insert(at, place);
        self.rows.insert(at, row);
        let finished = Finished {
            device: self,
            row: &self.rows[at],
            expected: expected.as_deref(),
            evidence: evidence.as_ref(),
            done,
        };
        watcher.row(&finished);
    }
}

/// A row that has just ended.
#[derive(Debug)]
pub struct Finished<'a> {
    /// The device, which has the row already.
    pub device: &'a Device,
    /// The row.
    pub row: &'a Row,
    /// What had to come out, unless there is no reference.
    pub expected: Option<&'a Expected>,
    /// What is known of its run, if there was one and somebody wanted to know.
    pub evidence: Option<&'a Evidence>,
    /// Cases done, of how many.
    pub done: (usize, usize),
}

/// Parity cases that filters name, each once: a filter is a part of a kernel's name, or `KERNEL/CASE` with a part of each; all without
/// one. Cases that only the benchmark runs are left out.
pub fn select<S: AsRef<str>>(filters: &[S]) -> Vec<(&'static KernelSpec, &'static Case)> {
    let fits = |filter: &S, spec: &KernelSpec, case: &Case| {
        let (kernel, part) = filter.as_ref().split_once('/').unwrap_or((filter.as_ref(), ""));
        spec.name.contains(kernel) && case.name.contains(part)
    };
    let cases = |spec: &'static KernelSpec| spec.cases.iter().map(move |case| (spec, case));
    let all = KERNELS.iter().copied().flat_map(cases).filter(|(_, case)| !case.bench);
    all.filter(|(spec, case)| filters.is_empty() || filters.iter().any(|f| fits(f, spec, case))).collect()
}
