//! A whole run: on every device the roofline first, then the rows in a random order, then the end-to-end suites; what fails is a row or
//! a point, and a lost device is opened again.

use super::document::{Device, Document, Settings};
use super::expected::{Check, Truths};
use super::measure::{Measured, Options, measure_with};
use super::peaks::Peaks;
use super::plan::{Job, order};
use super::published::{Point, Suite};
use super::report::Row;
use super::score::score;
use super::suites;
use crate::backend::device::{Facts, Missing, full_name};
use crate::backend::{Backend, DeviceKind, Tuning};
use crate::error::{Error, Result};
use crate::words::{counted, one_line};
use std::time::Duration;

/// How often a device may be lost before its remaining rows are given up.
const MOST_LOSSES: usize = 3;
/// Seconds that one run may take at the device's peak before it is not begun at all.
pub(super) const LONGEST_RUN: f64 = 60.0;
/// Part of the machine's memory that the tensors of a row may take on the host.
pub(super) const MEMORY_PART: f64 = 0.25;

/// Opens a device, with what is known of it beyond its name.
pub type Open<'a> = Box<dyn FnMut() -> Result<(Box<dyn Backend>, Facts)> + 'a>;

/// A device to measure.
pub struct Candidate<'a> {
    /// What it was asked for by, for messages.
    pub asked: String,
    /// Opens it, also once more after it was lost.
    pub open: Open<'a>,
}

impl std::fmt::Debug for Candidate<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Candidate({})", self.asked)
    }
}

/// Who is told how a run goes on.
pub trait Watcher {
    /// A device was opened, or opened again after it was lost.
    fn opened(&mut self, _backend: &dyn Backend, _again: bool) {}
    /// The run has begun, or a further device is open: of what the document names last, nothing is measured yet.
    fn begun(&mut self, _document: &Document) {}
    /// A stage that takes a while begins: the roofline of a device, its rows, a suite.
    fn stage(&mut self, _what: &str) {}
    /// What comes next.
    fn next(&mut self, _what: &str) {}
    /// Something that is no row but should be known.
    fn notice(&mut self, _text: &str) {}
    /// The roofline of the last device is there.
    fn peaks(&mut self, _document: &Document) {}
    /// A row was added to the last device.
    fn row(&mut self, _document: &Document, _row: &Row) {}
    /// A point was added to a series of the last suite of the last device.
    fn point(&mut self, _document: &Document, _suite: &Suite, _series: &str, _point: &Point) {}
    /// The last suite of the last device has all its points.
    fn suite(&mut self, _document: &Document, _suite: &Suite) {}
}

/// Nobody.
#[derive(Debug, Default)]
pub struct Nobody;

impl Watcher for Nobody {}

impl Settings {
    /// How long each row is measured.
    pub fn options(&self) -> Options {
        Options {
            seconds: self.seconds,
            runs: self.runs,
            most_seconds: self.quick.then_some(self.seconds),
            check_work: if self.quick { 1.5e8 } else { 2e9 },
            most_dispatch_seconds: self.max_dispatch_ms.map(|ms| 1e-3 * ms),
            flop_per_second: None,
        }
    }
}

/// One device, opened, with how often it was lost.
pub(super) struct Session<'a, 'b> {
    candidate: &'a mut Candidate<'b>,
    backend: Option<Box<dyn Backend>>,
    losses: usize,
}

impl Session<'_, '_> {
    /// The device, opened again if it was lost.
    fn backend(&mut self, watcher: &mut dyn Watcher) -> Result<&dyn Backend> {
        if self.losses > MOST_LOSSES {
            return Err(Error::DeviceLost {
                device: self.candidate.asked.clone(),
                reason: format!(
                    "it was lost {} times in this run, so its remaining rows are given up",
                    self.losses
                ),
            });
        }
        let opened = match self.backend.take() {
            Some(backend) => backend,
            None => {
                let (backend, _) = (self.candidate.open)()?;
                watcher.opened(backend.as_ref(), true);
                backend
            }
        };
        Ok(&**self.backend.insert(opened))
    }

    /// Opens the device anew, so that nothing is left of what ran before. Where that fails, the next use of it says so.
    pub(super) fn afresh(&mut self) {
        // First gone, so that its memory is free.
        self.backend = None;
        self.backend = (self.candidate.open)().ok().map(|(backend, _)| backend);
    }

    /// Does something with the device, and notes whether it was lost meanwhile.
    pub(super) fn with<T>(
        &mut self,
        watcher: &mut dyn Watcher,
        work: impl FnOnce(&dyn Backend, &mut dyn Watcher) -> Result<T>,
    ) -> Result<T> {
        let result = self.backend(watcher).and_then(|backend| work(backend, watcher));
        if matches!(result, Err(Error::DeviceLost { .. })) && self.losses <= MOST_LOSSES {
            self.backend = None;
            self.losses += 1;
        }
        result
    }
}

/// Measures all jobs on all devices.
///
/// A device that does not open is told to the watcher, and is left out of the document's devices. `all_variants` leaves out
/// rows whose variant does not suit the device, instead of letting them fail.
pub fn run(
    mut document: Document,
    candidates: &mut [Candidate<'_>],
    jobs: &[Job],
    all_variants: bool,
    watcher: &mut dyn Watcher,
) -> Document {
    let asked_again = candidates.len() > 1
        || document.settings.tuning != Tuning::Off
        || jobs.iter().any(|job| job.variant.is_some());
    let mut truths = Truths::new(asked_again);
    watcher.begun(&document);
    for candidate in candidates {
        match (candidate.open)() {
            Ok((backend, facts)) => {
                watcher.opened(backend.as_ref(), false);
                document.devices.push(Device {
                    info: backend.info(),
                    facts,
                    caps: backend.device_caps().copied(),
                    peaks: Peaks::default(),
                    rows: Vec::new(),
                    suites: Vec::new(),
                    score: None,
                });
                watcher.begun(&document);
                let session = Session { candidate, backend: Some(backend), losses: 0 };
                of_device(&mut document, session, jobs, all_variants, &mut truths, watcher);
            }
            Err(error) => {
                let missing = Missing { asked: candidate.asked.clone(), reason: one_line(&error) };
                watcher.notice(&missing.to_string());
                document.left_out.push(missing);
                watcher.begun(&document);
            }
        }
    }
    document.complete = document.left_out.is_empty();
    document
}

fn of_device(
    document: &mut Document,
    mut session: Session<'_, '_>,
    jobs: &[Job],
    all_variants: bool,
    truths: &mut Truths,
    watcher: &mut dyn Watcher,
) {
    let options = document.settings.options();
    let Some((kind, name)) = document.devices.last().map(|d| (d.info.kind, full_name(&d.info, &d.facts)))
    else {
        return;
    };
    // The reference has no roofline worth comparing with.
    let peaks = match kind {
        DeviceKind::Reference => None,
        _ => {
            let stage = format!("measuring the roofline of {name}");
            watcher.stage(&stage);
            roofline(&mut session, options, &stage, watcher)
        }
    };
    let options = Options { flop_per_second: peaks.as_ref().and_then(|p| p.flop.per_second), ..options };
    if let (Some(device), Some(peaks)) = (document.devices.last_mut(), peaks) {
        device.peaks = peaks;
    }
    watcher.peaks(document);
    let places = order(jobs.len(), document.settings.order_seed);
    let memory = document.system.memory_bytes;
    if !jobs.is_empty() {
        watcher.stage(&format!("measuring {} on {name}", counted(jobs.len(), "row", "rows")));
    }
    for (number, &place) in places.iter().enumerate() {
        let job = &jobs[place];
        watcher.next(&format!("{}/{} {}", number + 1, jobs.len(), job.label()));
        if number > 0 {
            std::thread::sleep(Duration::from_secs_f64(document.settings.cool_down_seconds.max(0.0)));
        }
        let found = session.with(watcher, |backend, _| measured(backend, job, options, memory, truths));
        if all_variants && job.variant.is_some() && matches!(found, Err(Error::Unsupported { .. })) {
            continue;
        }
        let tuned = found.as_ref().is_ok_and(|m| m.tuned);
        put(document, place, job, found, watcher);
        if tuned {
            // The same as the device would do it by itself, so that what tuning is worth can be seen.
            watcher.next(&format!("{}/{} {} untuned", number + 1, jobs.len(), job.label()));
            let found = session.with(watcher, |backend, _| {
                let untuned = backend.untuned();
                measured(untuned.as_deref().unwrap_or(backend), job, options, memory, truths)
            });
            put(document, place, job, found, watcher);
        }
    }
    if let Some(device) = document.devices.last_mut() {
        let rows: Vec<Row> = device.rows.iter().map(|(_, row)| row.clone()).collect();
        device.score = score(&rows);
    }
    for (number, kind) in document.settings.suites.clone().into_iter().enumerate() {
        // Thousands of dispatches in one submission leave pools behind that make later ones slower for as long as the device is open.
        if number > 0 {
            session.afresh();
        }
        watcher.stage(&format!("measuring suite {} on {name}", kind.name));
        suites::run(document, &mut session, kind, options, watcher);
    }
}

/// Adds what came of a job to the last device; a row of the same place that is there already comes after it.
fn put(
    document: &mut Document,
    place: usize,
    job: &Job,
    measured: Result<Measured>,
    watcher: &mut dyn Watcher,
) {
    let row = Row {
        kernel: job.spec.name.into(),
        case: job.name.clone(),
        variant: job.variant.map(Into::into),
        lost: matches!(measured, Err(Error::DeviceLost { .. })),
        outcome: measured.map_err(one_line),
    };
    if let Some(device) = document.devices.last_mut() {
        device.put(place, row.clone());
    }
    watcher.row(document, &row);
}

/// The device's roofline; after a loss once more. `None` where it cannot be had: rows then have no bound.
fn roofline(
    session: &mut Session<'_, '_>,
    options: Options,
    stage: &str,
    watcher: &mut dyn Watcher,
) -> Option<Peaks> {
    for _ in 0..2 {
        let of = |backend: &dyn Backend, watcher: &mut dyn Watcher| {
            Peaks::of(backend, options, &mut |what| watcher.next(&format!("{stage}: {what}")))
        };
        match session.with(watcher, of) {
            Ok(peaks) => return Some(peaks),
            Err(error) => {
                let lost = matches!(error, Error::DeviceLost { .. });
                watcher.notice(&format!("the roofline could not be measured: {}", one_line(&error)));
                if !lost {
                    return None;
                }
            }
        }
    }
    None
}

/// Refuses rows that would take all memory of the host, or longer than anybody waits.
fn check_size(job: &Job, options: Options, memory: Option<u64>) -> Result<()> {
    let bytes = job.bytes();
    if let Some(memory) = memory.filter(|m| bytes > MEMORY_PART * *m as f64) {
        return Err(Error::Limit {
            what: format!("tensors of {} on the host", job.label()),
            // Sizes past 2⁶⁴ do not occur: dimensions are 32 bits and memory is not that large.
            requested: bytes as u64,
            allowed: (MEMORY_PART * memory as f64) as u64,
            remedy: "use fewer tokens or heads".into(),
        });
    }
    let cost = (job.spec.cost)(&job.dims(), &(job.case.params)());
    let seconds = options.flop_per_second.map_or(0.0, |f| cost.flop / f);
    if seconds > LONGEST_RUN {
        return Err(Error::value(
            format!("one run of {}", job.label()),
            format!("work of at most {LONGEST_RUN} s at this device's peak"),
            format!("{seconds:.0} s"),
            "use fewer tokens or heads",
        ));
    }
    Ok(())
}

fn measured(
    backend: &dyn Backend,
    job: &Job,
    options: Options,
    memory: Option<u64>,
    truths: &mut Truths,
) -> Result<Measured> {
    check_size(job, options, memory)?;
    let concrete = job.concrete()?;
    let held;
    let device = match job.variant {
        None => backend,
        Some(variant) => {
            held = backend.held_to(&format!("{}/{variant}", job.spec.name))?;
            held.as_ref()
        }
    };
    // The reference does not depend on the variant.
    let row = format!("{}/{}", job.spec.name, job.name);
    measure_with(device, &concrete, options, &mut |c| truths.find(&row, c, Check::Work(options.check_work)))
}

#[cfg(test)]
mod tests {
    use super::super::document::Document;
    use super::super::flags::Flag;
    use super::super::plan::{Wanted, plan};
    use super::*;
    use crate::backend::cpu::CpuBackend;
    use crate::backend::{Burst, DeviceInfo, Memory, Program, Timings};
    use crate::graph::{Graph, PassId, Schedule};
    use crate::tensor::{HostTensor, Tensor};
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    /// What goes wrong.
    #[derive(Clone, Copy, Debug, PartialEq)]
    enum Fault {
        None,
        /// Timestamps are there and all zero.
        ZeroTimestamps,
        /// Numbers are twice what they should be.
        WrongResult,
        /// Numbers are not numbers.
        NotNumbers,
        /// Everything is more than it can do.
        TooMuch,
        /// A search for variants had no time for a step.
        HalfTuned,
        /// The device is lost in so many runs, from the n-th run of all on.
        Lost {
            from: usize,
            times: usize,
        },
    }

    /// The reference with a fault.
    #[derive(Debug, Clone)]
    struct Faulty {
        fault: Fault,
        runs: Arc<AtomicUsize>,
        opened: Arc<AtomicUsize>,
    }

    #[derive(Debug)]
    struct FaultyProgram {
        inner: Box<dyn Program>,
        of: Faulty,
    }

    impl Backend for Faulty {
        fn info(&self) -> DeviceInfo {
            CpuBackend.info()
        }

        fn compile(&self, graph: &Graph) -> Result<Box<dyn Program>> {
            Ok(Box::new(FaultyProgram { inner: CpuBackend.compile(graph)?, of: self.clone() }))
        }
    }

    impl Program for FaultyProgram {
        fn write(&mut self, tensor: Tensor, data: &HostTensor) -> Result<()> {
            self.inner.write(tensor, data)
        }

        fn set_param_bytes(&mut self, pass: PassId, params: &[u8]) -> Result<()> {
            self.inner.set_param_bytes(pass, params)
        }

        fn run(&mut self) -> Result<Timings> {
            let run = self.of.runs.fetch_add(1, Ordering::Relaxed);
            match self.of.fault {
                Fault::TooMuch => Err(Error::Limit {
                    what: "loop rounds".into(),
                    requested: 2,
                    allowed: 1,
                    remedy: "use fewer tokens".into(),
                }),
                Fault::Lost { from, times } if (from..from + times).contains(&run) => {
                    Err(Error::DeviceLost { device: "faulty".into(), reason: "as it was told".into() })
                }
                _ => self.inner.run(),
            }
        }

        fn run_burst(&mut self, repeats: u32) -> Result<Burst> {
            (0..repeats).try_for_each(|_| self.run().map(drop))?;
            let device_seconds = (self.of.fault == Fault::ZeroTimestamps).then_some(0.0);
            Ok(Burst { device_seconds, wall_seconds: 0.25, cpu_seconds: 0.25 })
        }

        fn read(&mut self, tensor: Tensor) -> Result<HostTensor> {
            let right = self.inner.read(tensor)?;
            let factor = match self.of.fault {
                Fault::WrongResult => 2.0,
                Fault::NotNumbers => f32::NAN,
                _ => return Ok(right),
            };
            HostTensor::f32(right.shape(), right.to_f32().into_iter().map(|x| factor * x).collect())
        }

        fn set_profiling(&mut self, on: bool) {
            self.inner.set_profiling(on);
        }

        fn untried_steps(&self) -> usize {
            usize::from(self.of.fault == Fault::HalfTuned)
        }

        fn schedule(&self) -> &Schedule {
            self.inner.schedule()
        }

        fn memory(&self) -> Memory {
            self.inner.memory()
        }
    }

    fn jobs(kernels: &[&str]) -> Vec<Job> {
        let filters = kernels.iter().map(|k| (*k).to_string()).collect();
        plan(&Wanted { filters, ..Wanted::default() }).expect("kernels of the list").jobs
    }

    fn settings() -> Settings {
        Settings { quick: true, runs: 3, order_seed: 5, ..Settings::default() }
    }

    /// Runs small jobs on a device with a fault; also how often it was opened.
    fn ran(fault: Fault, jobs: &[Job]) -> (Document, usize) {
        ran_as(settings(), fault, jobs)
    }

    fn ran_as(settings: Settings, fault: Fault, jobs: &[Job]) -> (Document, usize) {
        let opened = Arc::new(AtomicUsize::new(0));
        let faulty = Faulty { fault, runs: Arc::default(), opened: Arc::clone(&opened) };
        let open = move || -> Result<(Box<dyn Backend>, Facts)> {
            faulty.opened.fetch_add(1, Ordering::Relaxed);
            Ok((Box::new(faulty.clone()), Facts::default()))
        };
        let mut candidates = [Candidate { asked: "faulty".into(), open: Box::new(open) }];
        let document = run(Document::begun(settings), &mut candidates, jobs, false, &mut Nobody);
        assert!(document.left_out.is_empty() && document.complete);
        (document, opened.load(Ordering::Relaxed))
    }

    const SMALL: &[&str] = &["philox_words", "count_flags", "nonfinite_merge"];

    #[test]
    fn a_run_without_faults_has_all_rows_in_the_order_of_the_plan() {
        let jobs = jobs(SMALL);
        let (document, opened) = ran(Fault::None, &jobs);
        let names: Vec<String> = document.rows().map(|r| format!("{}/{}", r.kernel, r.case)).collect();
        assert_eq!(names, jobs.iter().map(Job::label).collect::<Vec<_>>());
        for row in document.rows() {
            let m = row.outcome.as_ref().expect("nothing goes wrong");
            assert!(m.seconds.samples >= 3 && m.found.is_some_and(|f| f.is_right()), "{row:?}");
        }
        assert_eq!(opened, 1);
    }

    #[test]
    fn zero_timestamps_give_the_wall_clock() {
        let (document, _) = ran(Fault::ZeroTimestamps, &jobs(&["philox_words"]));
        let row = document.rows().next().expect("one row");
        let m = row.outcome.as_ref().expect("nothing goes wrong");
        assert_eq!((m.seconds.median, m.source), (0.25, crate::backend::TimingSource::Wall));
        let json = row.json(&Peaks::default());
        assert_eq!(json["timing_source"], "wall clock, submission included");
        assert!(json["bytes_per_second"].as_f64().is_some_and(f64::is_finite), "{json}");
    }

    #[test]
    fn a_wrong_result_is_a_failed_row_that_names_kernel_port_and_error() {
        for (fault, told) in [(Fault::WrongResult, "at most"), (Fault::NotNumbers, "NaN or infinities")] {
            let (document, _) = ran(fault, &jobs(&["weighted_sum"]));
            let failure = document.rows().next().and_then(Row::failure).expect("the row fails").to_string();
            assert!(failure.contains("weighted_sum: error of `out`") && failure.contains(told), "{failure}");
        }
    }

    #[test]
    fn a_lost_device_costs_one_row_and_the_run_goes_on() {
        let (document, opened) = ran(Fault::Lost { from: 0, times: 1 }, &jobs(SMALL));
        let lost: Vec<&Row> = document.rows().filter(|r| r.lost).collect();
        assert_eq!(lost.len(), 1);
        assert_eq!(lost[0].flags(), [Flag::DeviceLost]);
        assert!(lost[0].failure().is_some_and(|f| f.contains("the device was lost")), "{lost:?}");
        assert_eq!(document.rows().filter(|r| r.outcome.is_ok()).count(), document.rows().count() - 1);
        assert_eq!(opened, 2);
    }

    #[test]
    fn a_device_that_is_lost_again_and_again_is_given_up() {
        let (document, opened) = ran(
            Fault::Lost { from: 0, times: usize::MAX / 2 },
            &jobs(&["fft", "toeplitz_product", "philox"]),
        );
        assert!(document.rows().count() > MOST_LOSSES + 1 && document.rows().all(|r| r.lost));
        let given_up =
            document.rows().filter(|r| r.failure().is_some_and(|f| f.contains("given up"))).count();
        assert_eq!(given_up, document.rows().count() - (MOST_LOSSES + 1));
        assert_eq!(opened, MOST_LOSSES + 1);
    }

    /// The first suite at two small sizes, and how often the device was opened.
    fn crossover(fault: Fault) -> (Suite, usize) {
        let (suites, suite_sizes) = (suites::usual(true), vec![64, 128]);
        let (document, opened) = ran_as(Settings { suites, suite_sizes, ..settings() }, fault, &[]);
        let [suite] = &document.devices[0].suites[..] else { panic!("{:?}", document.devices[0].suites) };
        (suite.clone(), opened)
    }

    #[test]
    fn a_suite_without_faults_has_a_right_point_at_every_size() {
        let (suite, opened) = crossover(Fault::None);
        assert_eq!((suite.name.as_str(), suite.x.as_str(), opened), ("crossover", "tokens", 1));
        for series in &suite.series {
            let sizes: Vec<Option<f64>> = series.points.iter().map(|p| p.x).collect();
            assert_eq!(sizes, [Some(64.0), Some(128.0)], "{series:?}");
            let is_right = |p: &Point| p.y.is_some() && p.max_error.is_some_and(|e| e < 1e-4);
            assert!(series.points.iter().all(is_right), "{series:?}");
        }
    }

    #[test]
    fn a_lost_device_ends_one_series_of_a_suite_and_the_others_go_on() {
        let (suite, opened) = crossover(Fault::Lost { from: 0, times: 1 });
        assert_eq!(opened, 2);
        let [lost, others @ ..] = &suite.series[..] else { panic!("{suite:?}") };
        assert_eq!(lost.points.len(), 1, "{lost:?}");
        assert!(
            lost.points[0].failure.as_ref().is_some_and(|f| f.contains("the device was lost")),
            "{lost:?}"
        );
        assert!(
            others.iter().all(|s| s.points.len() == 2 && s.points.iter().all(|p| p.y.is_some())),
            "{others:?}"
        );
        let (suite, opened) = crossover(Fault::Lost { from: 0, times: usize::MAX / 2 });
        assert_eq!(opened, MOST_LOSSES + 1);
        let given_up = suite.series.iter().filter_map(|s| s.points[0].failure.as_ref());
        assert_eq!(
            given_up.filter(|f| f.contains("given up")).count(),
            suite.series.len() - (MOST_LOSSES + 1)
        );
    }

    #[test]
    fn limits_of_a_device_end_a_sweep_and_fail_sizes_that_were_asked_for() {
        let (asked, _) = crossover(Fault::TooMuch);
        assert!(
            asked.series.iter().all(|s| s.points.len() == 1 && s.points[0].failure.is_some()),
            "{asked:?}"
        );
        let settings = Settings { suites: suites::usual(true), ..settings() };
        let (document, _) = ran_as(settings, Fault::TooMuch, &[]);
        for series in &document.devices[0].suites[0].series {
            let [point] = &series.points[..] else { panic!("{series:?}") };
            assert!(point.failure.is_none() && point.skipped.is_some() && point.y.is_none(), "{point:?}");
        }
    }

    #[test]
    fn rows_and_points_say_that_a_search_was_cut_short() {
        let (document, _) = ran(Fault::HalfTuned, &jobs(&["philox_words"]));
        let row = document.rows().next().expect("one row");
        assert!(row.flags().contains(&Flag::HalfTuned), "{row:?}");
        let settings = Settings { suites: suites::SUITES.to_vec(), suite_sizes: vec![64], ..settings() };
        let (document, _) = ran_as(settings, Fault::HalfTuned, &[]);
        for suite in &document.devices[0].suites[..2] {
            let point = &suite.series[0].points[0];
            assert!(point.flags.contains(&"half tuned".to_string()), "{point:?}");
            assert_eq!(point.numbers.get("untried_steps"), Some(&1.0), "{point:?}");
            assert!(suites::point_text(suite, "x", point).contains("half tuned"));
        }
    }

    #[test]
    fn a_run_is_told_from_its_beginning_and_stage_by_stage() {
        #[derive(Default)]
        struct Heard(Vec<String>);
        impl Watcher for Heard {
            fn begun(&mut self, document: &Document) {
                self.0.push(format!(
                    "begun with {} devices and {} rows",
                    document.devices.len(),
                    document.rows().count()
                ));
            }
            fn stage(&mut self, what: &str) {
                self.0.push(what.into());
            }
            fn row(&mut self, _: &Document, row: &Row) {
                self.0.push(row.kernel.clone());
            }
        }
        let open = || -> Result<(Box<dyn Backend>, Facts)> { Ok((Box::new(CpuBackend), Facts::default())) };
        let mut candidates = [Candidate { asked: "cpu".into(), open: Box::new(open) }];
        let settings = Settings { suites: suites::usual(true), suite_sizes: vec![64], ..settings() };
        let mut heard = Heard::default();
        run(Document::begun(settings), &mut candidates, &jobs(&["philox_words"]), false, &mut heard);
        let name = full_name(&CpuBackend.info(), &Facts::default());
        let told = [
            "begun with 0 devices and 0 rows".to_string(),
            "begun with 1 devices and 0 rows".into(),
            format!("measuring 1 row on {name}"),
            "philox_words".into(),
            format!("measuring suite crossover on {name}"),
        ];
        assert_eq!(heard.0, told);
    }

    #[test]
    fn every_suite_but_the_first_has_a_device_of_its_own() {
        let settings = Settings { suites: suites::SUITES.to_vec(), suite_sizes: vec![64], ..settings() };
        let (document, opened) = ran_as(settings, Fault::None, &[]);
        assert_eq!((document.devices[0].suites.len(), opened), (3, 3));
    }

    #[test]
    fn a_wrong_result_is_a_failed_point() {
        for (fault, told) in [(Fault::WrongResult, "at most"), (Fault::NotNumbers, "NaN or infinities")] {
            let (suite, _) = crossover(fault);
            for series in &suite.series {
                let failure = series.points[0].failure.as_ref().expect("the point fails");
                assert!(failure.contains("of `out`") && failure.contains(told), "{failure}");
                assert_eq!(series.points.len(), 1, "what is wrong is not tried at larger sizes");
            }
        }
    }

    #[test]
    fn a_row_too_large_for_the_host_says_so() {
        let sweep = super::super::plan::Sweep { tokens: vec![1 << 30], ..Default::default() };
        let wanted = Wanted { filters: vec!["weighted_sum".into()], sweep, ..Wanted::default() };
        let (document, _) = ran(Fault::None, &plan(&wanted).expect("it has tokens").jobs);
        let failure = document.rows().next().and_then(Row::failure).expect("the row fails").to_string();
        assert!(failure.contains("on the host") && failure.contains("use fewer tokens"), "{failure}");
    }

    #[test]
    fn a_device_that_does_not_open_is_left_out_and_named() {
        struct Heard(Vec<String>);
        impl Watcher for Heard {
            fn notice(&mut self, text: &str) {
                self.0.push(text.into());
            }
        }
        let open = || Err(Error::NoDevice { asked: "broken".into(), reason: "it is broken".into() });
        let mut candidates = [Candidate { asked: "broken".into(), open: Box::new(open) }];
        let mut heard = Heard(Vec::new());
        let document = run(Document::begun(settings()), &mut candidates, &jobs(SMALL), false, &mut heard);
        assert!(document.devices.is_empty());
        assert_eq!(document.left_out.iter().map(|m| m.asked.as_str()).collect::<Vec<_>>(), ["broken"]);
        assert!(heard.0[0].contains("it is broken"), "{:?}", heard.0);
    }
}
