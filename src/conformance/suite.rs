//! The suite on a device: several cases at a time, because software drivers take most of theirs to compile.

use super::{Choice, Expected, Judged, Ran, check, choices};
use crate::backend::{Backend, DeviceInfo, Stopwatch};
use crate::error::{Error, Result};
use crate::kernel::{Case, KernelSpec};
use crate::kernels::KERNELS;
use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Times that a lost device is opened again before its remaining cases are given up.
const MOST_LOSSES: u32 = 3;

/// Cases that run at a time, at most: each holds memory of its own.
const MOST_WORKERS: usize = 8;

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
    /// Why it could not be opened at all.
    pub unusable: Option<String>,
    /// What came of each case.
    pub rows: Vec<Row>,
    /// Seconds of the host's clock for all of them, references included.
    pub seconds: f64,
    backend: Option<Arc<dyn Backend>>,
    open: Open,
    losses: u32,
}

impl std::fmt::Debug for Device {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Device({}, {} rows, {:?})", self.info.name, self.rows.len(), self.unusable)
    }
}

impl Device {
    /// A device by how it is opened, now and after a loss; one that cannot be opened is a device with a failure.
    pub fn new(info: DeviceInfo, open: Open) -> Self {
        let (backend, unusable) = match open() {
            Ok(backend) => (Some(backend), None),
            Err(error) => (None, Some(error.to_string())),
        };
        Self { info, unusable, rows: Vec::new(), seconds: 0.0, backend, open, losses: 0 }
    }

    /// Whether something counts against it.
    pub fn fails(&self) -> bool {
        self.unusable.is_some() || self.rows.iter().any(|row| row.outcome.is_failure())
    }

    /// Its rows by what came of them.
    pub fn tally(&self) -> Tally {
        Tally::of(&self.rows)
    }

    /// Opens it again after `lost` was, unless another thread has done so.
    fn reopen(&mut self, lost: &Arc<dyn Backend>) {
        if self.backend.as_ref().is_none_or(|now| !Arc::ptr_eq(now, lost)) {
            return;
        }
        self.losses += 1;
        self.backend = if self.losses <= MOST_LOSSES { (self.open)().ok() } else { None };
    }

    /// Runs cases on it, several at a time. `observe` sees every row once, in the order in which they end; [`Self::rows`] holds
    /// them in the order of the cases. Whatever goes wrong is a row.
    pub fn run(
        &mut self,
        cases: &[(&'static KernelSpec, &'static Case)],
        observe: &mut (dyn FnMut(&Finished<'_>) + Send),
    ) {
        if self.unusable.is_some() {
            return;
        }
        let watch = Stopwatch::start();
        let info = self.info.clone();
        let (next, done) = (AtomicUsize::new(0), AtomicUsize::new(0));
        // Rows with the place of their case, and who is told of them.
        let rows: Mutex<Vec<(usize, Row)>> = Mutex::new(Vec::new());
        let (device, observe) = (Mutex::new(&mut *self), Mutex::new(observe));
        let work = || {
            while let Some((number, &(spec, case))) = {
                let number = next.fetch_add(1, Ordering::Relaxed);
                cases.get(number).map(|case| (number, case))
            } {
                let expected = Expected::of(spec, case);
                let backend = locked(&device).backend.clone();
                // A device that is gone has nothing to choose from, and one row says so.
                let list = match &backend {
                    Some(backend) => choices(backend.device_caps(), spec, case),
                    None => vec![Choice { variant: None, lacks: None }],
                };
                let last = list.len() - 1;
                for (place, choice) in list.into_iter().enumerate() {
                    let watch = Stopwatch::start();
                    let backend = locked(&device).backend.clone();
                    let (outcome, ran, lost) = outcome(backend.as_ref(), spec, &choice, &expected);
                    if let (Some(backend), true) = (&backend, lost) {
                        locked(&device).reopen(backend);
                    }
                    let (variant, seconds) = (choice.variant, watch.seconds().0);
                    let row = Row { kernel: spec.name, case: case.name, variant, outcome, seconds };
                    let done = match place == last {
                        true => done.fetch_add(1, Ordering::Relaxed) + 1,
                        false => done.load(Ordering::Relaxed),
                    };
                    locked(&observe)(&Finished {
                        device: &info,
                        row: &row,
                        expected: expected.as_ref().ok(),
                        ran: ran.as_ref(),
                        done: (done, cases.len()),
                    });
                    locked(&rows).push((number, row));
                }
            }
        };
        let workers = std::thread::available_parallelism().map_or(1, usize::from).min(MOST_WORKERS);
        std::thread::scope(|scope| (0..workers).for_each(|_| drop(scope.spawn(work))));
        let mut rows = rows.into_inner().unwrap_or_else(PoisonError::into_inner);
        // Stable: variants of a case stay in their order, as one worker took all of them.
        rows.sort_by_key(|(number, _)| *number);
        self.rows.extend(rows.into_iter().map(|(_, row)| row));
        self.seconds += watch.seconds().0;
    }
}

/// What a lock holds. A worker that panicked ends the run anyway when the scope joins it.
fn locked<T: ?Sized>(lock: &Mutex<T>) -> MutexGuard<'_, T> {
    lock.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Runs one choice, and says whether the device was lost over it; a wrong or broken one is an outcome like any other.
fn outcome(
    backend: Option<&Arc<dyn Backend>>,
    spec: &'static KernelSpec,
    choice: &Choice,
    expected: &Result<Expected>,
) -> (Outcome, Option<Ran>, bool) {
    if let Some(lacks) = &choice.lacks {
        return (Outcome::Ignored(lacks.clone()), None, false);
    }
    let expected = match expected {
        Ok(expected) => expected,
        Err(error) => return (Outcome::Broken(format!("the reference: {error}")), None, false),
    };
    let Some(backend) = backend else {
        let why = "not run: the device was lost before and did not come back";
        return (Outcome::Ignored(why.into()), None, false);
    };
    let run = || match choice.variant {
        None => check(backend.as_ref(), expected),
        Some(name) => {
            let held = backend.held_to(&format!("{}/{name}", spec.name));
            held.and_then(|held| check(held.as_ref(), expected))
        }
    };
    // What a driver's layer panics about is that driver's failure, not the end of the suite; the device is opened again after
    // it, as after a loss, because nobody knows its state.
    let ran = match catch_unwind(AssertUnwindSafe(run)) {
        Ok(ran) => ran,
        Err(panic) => {
            return (Outcome::Broken(format!("panicked: {}", words_of(panic.as_ref()))), None, true);
        }
    };
    match ran {
        Ok(ran) if ran.passes() => (Outcome::Passed(ran.judged.clone()), Some(ran), false),
        Ok(ran) => (Outcome::Wrong(ran.judged.clone()), Some(ran), false),
        // A device that is too small for a case does not compute it wrongly.
        Err(error @ (Error::Limit { .. } | Error::Unsupported { .. })) => {
            (Outcome::Ignored(error.to_string()), None, false)
        }
        Err(error) => {
            let lost = matches!(error, Error::DeviceLost { .. });
            (Outcome::Broken(error.to_string()), None, lost)
        }
    }
}

/// What a panic said.
fn words_of(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("without a word")
}

/// A row that has just ended.
#[derive(Debug)]
pub struct Finished<'a> {
    /// The device.
    pub device: &'a DeviceInfo,
    /// The row.
    pub row: &'a Row,
    /// What had to come out, unless there is no reference.
    pub expected: Option<&'a Expected>,
    /// What ran, if anything did.
    pub ran: Option<&'a Ran>,
    /// Cases done, of how many.
    pub done: (usize, usize),
}

/// Parity cases that a filter names: part of a kernel's name, or `KERNEL/CASE` with a part of each; all without one. Cases
/// that only the benchmark runs are left out.
pub fn select(filter: Option<&str>) -> Vec<(&'static KernelSpec, &'static Case)> {
    let (kernel, case) = filter.map_or(("", ""), |f| f.split_once('/').unwrap_or((f, "")));
    let cases = |spec: &'static KernelSpec| spec.cases.iter().map(move |case| (spec, case));
    let all = KERNELS.iter().copied().filter(|spec| spec.name.contains(kernel)).flat_map(cases);
    all.filter(|(_, c)| !c.bench && c.name.contains(case)).collect()
}
