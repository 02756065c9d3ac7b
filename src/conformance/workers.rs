//! The threads that run cases: each takes the next case, runs it in all its variants, and has its place in a list where whoever waits sees
//! what it has in hand and since when. What is taken from that list is given up: a thread that comes back to find nothing there ends.

use super::suite::{Keep, MOST_LOSSES, Open, Outcome, Row};
use super::{Choice, Evidence, Expected, check, choices};
use crate::backend::{Backend, cuda};
use crate::error::{Error, Result};
use crate::kernel::{Case, KernelSpec};
use crate::numbers::shortest;
use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::Sender;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// A device that is opened again after a loss.
pub(super) struct Link {
    now: Mutex<(Option<Arc<dyn Backend>>, u32)>,
    open: Arc<Open>,
}

impl Link {
    pub(super) fn new(backend: Arc<dyn Backend>, open: Arc<Open>) -> Self {
        Self { now: Mutex::new((Some(backend), 0)), open }
    }

    /// The device, unless it was lost and did not come back, and how often it had been lost when it was opened.
    fn backend(&self) -> (Option<Arc<dyn Backend>>, u32) {
        locked(&self.now).clone()
    }

    /// Opens it again after its loss, unless another thread has done so since `losses` were counted. The caller holds nothing of it any more:
    /// some devices come back only when all that was lost is gone.
    fn reopen(&self, losses: u32) {
        let mut now = locked(&self.now);
        if now.1 != losses || now.0.is_none() {
            return;
        }
        *now = (None, losses + 1);
        if now.1 <= MOST_LOSSES {
            now.0 = (self.open)().ok();
        }
    }
}

/// A row that has ended, however it did.
pub(super) struct Ended {
    /// Its case, and its variant among those of the case.
    pub(super) place: (usize, usize),
    /// Whether it is the last of its case.
    pub(super) last: bool,
    pub(super) row: Row,
    /// What had to come out, unless there is no reference.
    pub(super) expected: Option<Arc<Expected>>,
    pub(super) evidence: Option<Evidence>,
}

/// A case that a thread has taken.
struct InHand {
    number: usize,
    spec: &'static KernelSpec,
    case: &'static Case,
    expected: Option<Arc<Expected>>,
    /// Its variants; none before they are known.
    choices: Arc<[Choice]>,
    /// The variant that runs, or runs next.
    place: usize,
    /// Since when it runs; `None` while nothing waits for the device.
    since: Option<Instant>,
}

impl InHand {
    fn variant(&self, place: usize) -> Option<&'static str> {
        self.choices.get(place).and_then(|choice| choice.variant)
    }

    fn ended(&self, place: usize, outcome: Outcome) -> Ended {
        let seconds = self.since.filter(|_| place == self.place).map_or(0.0, |t| t.elapsed().as_secs_f64());
        Ended {
            place: (self.number, place),
            last: place + 1 >= self.choices.len(),
            row: Row {
                kernel: self.spec.name,
                case: self.case.name,
                variant: self.variant(place),
                outcome,
                seconds,
            },
            expected: self.expected.clone(),
            evidence: None,
        }
    }

    /// The variants from one on, which do not run because the device stopped answering.
    fn rest(&self, from: usize, lost: &str) -> impl Iterator<Item = Ended> {
        // A case whose variants are not known yet has one row that says so.
        let many = self.choices.len().max(1);
        (from..many).map(move |place| self.ended(place, not_run(lost)))
    }
}

fn not_run(lost: &str) -> Outcome {
    Outcome::Ignored(format!("not run: the device stopped answering in {lost}"))
}

#[derive(Default)]
struct State {
    /// What each thread has in hand.
    hands: Vec<Option<InHand>>,
    /// The next case.
    next: usize,
    /// Whether nothing more is to begin.
    stopped: bool,
    /// The row from which the device did not come back.
    lost: Option<String>,
}

/// What the threads of a run and whoever waits for them share.
pub(super) struct Shared {
    cases: Vec<(&'static KernelSpec, &'static Case)>,
    link: Arc<Link>,
    keep: Keep,
    /// Seconds that a row may take.
    most_seconds: f64,
    state: Mutex<State>,
}

impl Shared {
    pub(super) fn new(
        cases: Vec<(&'static KernelSpec, &'static Case)>,
        link: Arc<Link>,
        keep: Keep,
        most_seconds: f64,
        workers: usize,
    ) -> Self {
        let state = State { hands: (0..workers).map(|_| None).collect(), ..State::default() };
        Self { cases, link, keep, most_seconds, state: Mutex::new(state) }
    }

    /// Runs cases until there are no more.
    pub(super) fn work(&self, worker: usize, rows: &Sender<Ended>) {
        while let Some((number, spec, case)) = self.claim(worker) {
            let expected = reference(spec, case);
            // A device that is gone has nothing to choose from, and one row says so.
            let list: Arc<[Choice]> = match self.link.backend().0 {
                Some(backend) => choices(backend.device_caps(), spec, case).into(),
                None => [Choice { variant: None, lacks: None }].into(),
            };
            for (place, choice) in list.iter().enumerate() {
                let Some(since) = self.begin(worker, &expected, &list, place, rows) else { return };
                let (backend, losses) = self.link.backend();
                // Before the run is repeated for those who want its evidence.
                let mut spent = None;
                let (outcome, evidence, lost) =
                    outcome(backend.as_ref(), spec, choice, &expected, self.keep, &mut || {
                        spent = Some(since.elapsed());
                    });
                drop(backend);
                if lost {
                    self.link.reopen(losses);
                }
                let (variant, seconds) =
                    (choice.variant, spent.unwrap_or_else(|| since.elapsed()).as_secs_f64());
                // An answer that came while another row's was waited for.
                let outcome = match seconds > self.most_seconds && !outcome.is_failure() {
                    true => Outcome::Broken(format!(
                        "an answer only after more than {} s",
                        shortest(&self.most_seconds)
                    )),
                    false => outcome,
                };
                let row = Row { kernel: spec.name, case: case.name, variant, outcome, seconds };
                let (last, expected) = (place + 1 == list.len(), expected.as_ref().ok().cloned());
                let ended = Ended { place: (number, place), last, row, expected, evidence };
                if !self.end(worker, ended, rows) {
                    return;
                }
            }
        }
    }

    fn claim(&self, worker: usize) -> Option<(usize, &'static KernelSpec, &'static Case)> {
        let mut state = locked(&self.state);
        let number = state.next;
        let &(spec, case) = self.cases.get(number).filter(|_| !state.stopped && state.lost.is_none())?;
        state.next += 1;
        state.hands[worker] =
            Some(InHand { number, spec, case, expected: None, choices: [].into(), place: 0, since: None });
        Some((number, spec, case))
    }

    /// Begins a variant, unless there is a reason not to.
    fn begin(
        &self,
        worker: usize,
        expected: &std::result::Result<Arc<Expected>, String>,
        choices: &Arc<[Choice]>,
        place: usize,
        rows: &Sender<Ended>,
    ) -> Option<Instant> {
        let mut state = locked(&self.state);
        let mut hand = state.hands[worker].take()?;
        (hand.expected, hand.choices, hand.place) =
            (expected.as_ref().ok().cloned(), Arc::clone(choices), place);
        if let Some(lost) = &state.lost {
            // Nobody hears it only where nobody waits any more.
            hand.rest(place, lost).for_each(|ended| drop(rows.send(ended)));
            return None;
        }
        if state.stopped {
            return None;
        }
        let now = Instant::now();
        hand.since = Some(now);
        state.hands[worker] = Some(hand);
        Some(now)
    }

    /// Hands over a row in the same moment in which it is in hand no more. False where it was given up.
    fn end(&self, worker: usize, ended: Ended, rows: &Sender<Ended>) -> bool {
        let mut state = locked(&self.state);
        let Some(mut hand) = state.hands[worker].take() else { return false };
        if !ended.last {
            hand.since = None;
            state.hands[worker] = Some(hand);
        }
        rows.send(ended).is_ok()
    }

    /// Lets nothing more begin.
    pub(super) fn stop(&self) {
        locked(&self.state).stopped = true;
    }

    /// Whether nothing is in hand.
    pub(super) fn is_idle(&self) -> bool {
        locked(&self.state).hands.iter().all(Option::is_none)
    }

    /// Gives up the case that runs longest if it runs too long, and the device with it; the rows of that case, and the name of the first.
    pub(super) fn overdue(&self) -> Option<(String, Vec<Ended>)> {
        let mut state = locked(&self.state);
        if state.lost.is_some() {
            return None;
        }
        let most = Duration::try_from_secs_f64(self.most_seconds).unwrap_or(Duration::MAX);
        let runs = |hand: &Option<InHand>| hand.as_ref().and_then(|h| h.since).map(|since| since.elapsed());
        let (worker, _) = state
            .hands
            .iter()
            .enumerate()
            .filter_map(|(worker, hand)| Some((worker, runs(hand)?)))
            .filter(|(_, time)| *time > most)
            .max_by_key(|(_, time)| *time)?;
        let late = state.hands[worker].take()?;
        let why =
            format!("no answer within {} s, so the device counts as lost", shortest(&self.most_seconds));
        let broken = late.ended(late.place, Outcome::Broken(why));
        let name = broken.row.name();
        let rows = std::iter::once(broken).chain(late.rest(late.place + 1, &name)).collect();
        state.lost = Some(name.clone());
        Some((name, rows))
    }

    /// Gives up everything in hand on a lost device; its rows, and those of the cases that were not begun, unless the run was stopped.
    pub(super) fn abandoned(&self) -> Vec<Ended> {
        let mut state = locked(&self.state);
        let Some(lost) = state.lost.clone() else { return Vec::new() };
        let mut all = Vec::new();
        for hand in state.hands.iter_mut().filter_map(Option::take) {
            if hand.since.is_some() {
                let why = format!("not finished: the device stopped answering in {lost}");
                all.push(hand.ended(hand.place, Outcome::Ignored(why)));
                all.extend(hand.rest(hand.place + 1, &lost));
            } else {
                all.extend(hand.rest(hand.place, &lost));
            }
        }
        let next = std::mem::replace(&mut state.next, self.cases.len());
        if !state.stopped {
            for (number, &(spec, case)) in self.cases.iter().enumerate().skip(next) {
                let hand =
                    InHand { number, spec, case, expected: None, choices: [].into(), place: 0, since: None };
                all.extend(hand.rest(0, &lost));
            }
        }
        all
    }
}

/// What a lock holds. Nothing is left half done under one.
fn locked<T: ?Sized>(lock: &Mutex<T>) -> MutexGuard<'_, T> {
    lock.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What must come out of a case, or why that is not known.
fn reference(spec: &'static KernelSpec, case: &Case) -> std::result::Result<Arc<Expected>, String> {
    match catch_unwind(AssertUnwindSafe(|| Expected::of(spec, case))) {
        Ok(Ok(expected)) => Ok(Arc::new(expected)),
        Ok(Err(error)) => Err(format!("the reference: {error}")),
        Err(panic) => Err(format!("the reference panicked: {}", words_of(panic.as_ref()))),
    }
}

/// Runs one choice, and says whether the device was lost over it; a wrong or broken one is an outcome like any other. `judged` is called
/// once the results are judged.
fn outcome(
    backend: Option<&Arc<dyn Backend>>,
    spec: &'static KernelSpec,
    choice: &Choice,
    expected: &std::result::Result<Arc<Expected>, String>,
    keep: Keep,
    judged: &mut dyn FnMut(),
) -> (Outcome, Option<Evidence>, bool) {
    if let Some(lacks) = &choice.lacks {
        return (Outcome::Ignored(lacks.clone()), None, false);
    }
    let expected = match expected {
        Ok(expected) => expected,
        Err(why) => return (Outcome::Broken(why.clone()), None, false),
    };
    let Some(backend) = backend else {
        let why = "not run: the device was lost before and did not come back";
        return (Outcome::Ignored(why.into()), None, false);
    };
    let mut run = || -> Result<(Outcome, Option<Evidence>)> {
        let ran = match choice.variant {
            None => check(backend.as_ref(), expected),
            Some(name) => {
                let held = backend.held_to(&format!("{}/{name}", spec.name));
                held.and_then(|held| check(held.as_ref(), expected))
            }
        }?;
        judged();
        let outcome = match (ran.passes(), ran.rounded_by_request()) {
            (true, _) => Outcome::Passed(ran.judged.clone()),
            (false, Some(why)) => Outcome::Ignored(why),
            (false, None) => Outcome::Wrong(ran.judged.clone()),
        };
        let evidence = keep.wants(&outcome).then(|| ran.evidence(expected));
        Ok((outcome, evidence))
    };
    // What a driver's layer panics about is that driver's failure, not the end of the suite; the device is opened again after
    // it, as after a loss, because nobody knows its state.
    let ran = match catch_unwind(AssertUnwindSafe(&mut run)) {
        Ok(ran) => ran,
        Err(panic) => {
            return (Outcome::Broken(format!("panicked: {}", words_of(panic.as_ref()))), None, true);
        }
    };
    match ran {
        Ok((outcome, evidence)) => (outcome, evidence, false),
        // A device that is too small for a case does not compute it wrongly. No card is: there it is a library that is missing, or memory
        // that others have.
        Err(error @ (Error::Limit { .. } | Error::Unsupported { .. }))
            if !cuda::is_asked(&backend.info().backend) =>
        {
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
