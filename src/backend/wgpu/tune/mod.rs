//! Choosing among a kernel's variants by running them: which tile, or which way to memory, is the quickest on *this* device.
//!
//! Without it a device takes the first variant that suits of those its driver's class prefers. With it, every step whose kernel has two
//! or more that suit is looked up by its class of shapes ([`class`]); for a class that nobody has met, each variant runs a few times on made-up
//! tensors of that shape ([`trial`], cut to a bounded size), the quickest is remembered in memory and on disk ([`kept`]), and every step
//! of the class takes it. What computes something else than the default is never taken.
//!
//! A search submits and waits, so a host's device is tuned only if the host asks for it.

mod class;
mod kept;
mod search;
mod trial;

use super::program::{Choice as Asked, Follow, WgpuProgram, allowed, in_order, is_suitable};
use super::{Core, Progress};
use crate::backend::{Listener, Logged, Program as _, Tuning};
use crate::error::{Error, Result};
use crate::graph::{Schedule, Step};
use crate::kernel::case::{Concrete, deviation};
use crate::kernel::{OnWgpu, Variant};
use crate::tensor::{HostData, HostTensor, Tensor};
use crate::words::{one_line, plural};
use class::Class;
use kept::{Choice, Choices};
use search::{Track, fastest};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use trial::Most;

/// Seconds that the searches of one program may take on a GPU, unless told otherwise.
pub const SEARCH_SECONDS: f64 = 2.0;
/// The same where the device computes on the CPU: compiling a variant alone takes a good part of a second there.
pub const SOFTWARE_SEARCH_SECONDS: f64 = 30.0;

/// What trials may hold and do on a GPU: a few milliseconds on one of 1 TFLOP/s, so that a window that shares it stays smooth.
const MOST: Most = Most { bytes: 64.0 * (1 << 20) as f64, work: 4e9 };
/// The same where the device computes on the CPU.
const MOST_SOFTWARE: Most = Most { bytes: 16.0 * (1 << 20) as f64, work: 1e8 };
/// A submission is filled up to this time, so that submitting does not count for short kernels.
const BURST_SECONDS: f64 = 1e-3;
const MOST_REPEATS: f64 = 64.0;

/// Whether and how a device's variants are chosen by measuring.
#[derive(Clone, Debug, Default)]
pub struct TuningOptions {
    /// When to do it. [`Tuning::Off`] unless told otherwise.
    pub when: Tuning,
    /// Folder in which choices are remembered, such as [`cache_folder`](super::cache_folder); in memory alone if `None`.
    pub folder: Option<PathBuf>,
    /// Seconds that the searches of one program may take; [`SEARCH_SECONDS`] or [`SOFTWARE_SEARCH_SECONDS`] if `None`. A search that
    /// has begun may take as long again; steps that were not reached keep their defaults, until a program is prepared again.
    pub seconds: Option<f64>,
    /// Who is told what should be known; the host's logger if `None`.
    pub listener: Option<Arc<dyn Listener>>,
}

/// A choice that is remembered, for people.
#[derive(Clone, Debug, PartialEq)]
pub struct TunedChoice {
    /// The kernel.
    pub kernel: String,
    /// The class of its shapes.
    pub shape: String,
    /// The variant that is taken.
    pub variant: String,
    /// What the device takes by itself.
    pub default: String,
    /// Seconds of one run of the variant, when it was tried.
    pub seconds: f64,
    /// Seconds of one run of the default.
    pub default_seconds: f64,
}

/// What is remembered of an adapter.
#[derive(Clone, Debug)]
pub struct TunedFile {
    /// Where; it need not exist.
    pub path: PathBuf,
    /// What it says, or why it is not used.
    pub choices: std::result::Result<Vec<TunedChoice>, String>,
}

impl TunedFile {
    /// What a folder remembers of an adapter with the driver it has now.
    pub fn of(folder: &Path, adapter: &::wgpu::AdapterInfo) -> Self {
        let identity = kept::identity(&super::device_info(adapter), adapter.vendor, adapter.device);
        let path = kept::file_of(folder, &identity);
        let choices = kept::read(&path, &identity).map(|choices| told(&choices));
        Self { path, choices }
    }
}

/// Choices for people.
fn told(choices: &Choices) -> Vec<TunedChoice> {
    let of = |(class, c): (&Class, &Choice)| TunedChoice {
        kernel: class.kernel.clone(),
        shape: class.shape.clone(),
        variant: c.variant.clone(),
        default: c.default.clone(),
        seconds: c.seconds,
        default_seconds: c.default_seconds,
    };
    choices.iter().map(of).collect()
}

/// What the programs of a device share.
#[derive(Debug)]
pub(super) struct Tuner {
    seconds: f64,
    most: Most,
    listener: Arc<dyn Listener>,
    /// Where choices are remembered, and what tells this driver from others.
    file: Option<PathBuf>,
    identity: String,
    known: Mutex<Known>,
}

#[derive(Debug, Default)]
struct Known {
    choices: Choices,
    /// What cannot be tried, so that nobody tries again.
    not_tried: BTreeSet<Class>,
    /// Whether the file was looked at.
    read: bool,
    /// Whether it was told that nothing can be written.
    unwritten_told: bool,
}

impl Tuner {
    /// A device's tuner; `None` where it is not to be tuned.
    pub(super) fn new(
        options: &TuningOptions,
        info: &crate::backend::DeviceInfo,
        adapter: &::wgpu::AdapterInfo,
    ) -> Option<Self> {
        let software = info.kind == crate::backend::DeviceKind::Software;
        let otherwise = if software { SOFTWARE_SEARCH_SECONDS } else { SEARCH_SECONDS };
        let identity = kept::identity(info, adapter.vendor, adapter.device);
        options.when.applies_to(info.kind).then(|| Self {
            // Longer than a day is for ever, and no duration is negative.
            seconds: options.seconds.unwrap_or(otherwise).clamp(0.0, 86_400.0),
            most: if software { MOST_SOFTWARE } else { MOST },
            listener: options.listener.clone().unwrap_or_else(|| Arc::new(Logged)),
            file: options.folder.as_ref().map(|folder| kept::file_of(folder, &identity)),
            identity,
            known: Mutex::default(),
        })
    }

    /// The variant for every step.
    ///
    /// Errors: [`Error::DeviceLost`]; whatever else goes wrong with a variant only means that it is not taken.
    pub(super) fn choose(
        &self,
        core: &Arc<Core>,
        schedule: &Schedule,
        asked: &Asked,
        progress: Progress<'_>,
    ) -> Result<Chosen> {
        // Held while it searches: two searches at a time would measure each other.
        let mut known = self.known.lock().map_err(|_| {
            core.failed("tuning", "another thread panicked while it chose variants; open the device again")
        })?;
        self.read(&mut known);
        let begun = Instant::now();
        let mut new = Choices::new();
        let mut left: Vec<&str> = Vec::new();
        let mut chosen = Chosen { variants: Vec::new(), untried: 0 };
        for (index, step) in schedule.steps.iter().enumerate() {
            let candidates = candidates(core, step, asked);
            let class = Class::of(step, schedule, &candidates);
            let is_known =
                |known: &Known| known.choices.contains_key(&class) || known.not_tried.contains(&class);
            if candidates.len() > 1 && !is_known(&known) && !left.contains(&step.kernel.name) {
                if begun.elapsed().as_secs_f64() >= self.seconds {
                    left.push(step.kernel.name);
                } else {
                    progress(index, schedule.steps.len(), &format!("tuning {}", step.kernel.name));
                    match self.search(core, step, schedule, &candidates, begun)? {
                        Searched::Found(choice) => {
                            known.choices.insert(class.clone(), choice.clone());
                            new.insert(class.clone(), choice);
                        }
                        Searched::Late => left.push(step.kernel.name),
                        Searched::NotTried => {
                            known.not_tried.insert(class.clone());
                        }
                    }
                }
            }
            chosen.untried += usize::from(candidates.len() > 1 && !is_known(&known));
            let found = known.choices.get(&class).filter(|c| c.variant != c.default);
            chosen
                .variants
                .push(found.and_then(|c| candidates.iter().map(|v| v.name).find(|name| *name == c.variant)));
        }
        if !left.is_empty() {
            self.listener.notice(&format!(
                "tuning \"{}\" ended after {:.1} s: {} of [{}] {} defaults until it is prepared again",
                schedule.label,
                begun.elapsed().as_secs_f64(),
                plural(left.len(), "the step", "steps"),
                left.join(", "),
                plural(left.len(), "keeps its", "keep their"),
            ));
        }
        self.write(&mut known, &new);
        Ok(chosen)
    }

    /// What is remembered, in memory and in the file.
    pub(super) fn choices(&self) -> Vec<TunedChoice> {
        let Ok(mut known) = self.known.lock() else { return Vec::new() };
        self.read(&mut known);
        told(&known.choices)
    }

    /// The file in which choices are remembered, if they are.
    pub(super) fn file(&self) -> Option<&Path> {
        self.file.as_deref()
    }

    fn read(&self, known: &mut Known) {
        let Some(file) = self.file.as_ref().filter(|_| !std::mem::replace(&mut known.read, true)) else {
            return;
        };
        match kept::read(file, &self.identity) {
            Ok(choices) => known.choices = choices,
            Err(why) => self.listener.notice(&format!(
                "tuned variants: {why}; variants are searched for again; delete the file if it is told again, or turn tuning off (--tune off)"
            )),
        }
    }

    fn write(&self, known: &mut Known, new: &Choices) {
        let Some(file) = self.file.as_ref().filter(|_| !new.is_empty()) else { return };
        if let Err(why) = kept::add(file, &self.identity, new)
            && !std::mem::replace(&mut known.unwritten_told, true)
        {
            self.listener.notice(&format!(
                "tuned variants: {why}; they are searched for again at the next start; make the folder writable, or turn tuning off (--tune off)"
            ));
        }
    }

    /// Runs a step's variants against each other.
    fn search(
        &self,
        core: &Arc<Core>,
        step: &Step,
        schedule: &Schedule,
        candidates: &[&'static Variant],
        begun: Instant,
    ) -> Result<Searched> {
        let Some(concrete) = trial::of_step(step, schedule, self.most) else { return Ok(Searched::NotTried) };
        let mut track = OnDevice {
            tuner: self,
            core,
            apart: trial::apart(&concrete),
            runs: candidates.iter().map(|_| None).collect(),
            candidates,
            trial: concrete,
            expected: None,
            stamped: core.timestamps,
            failed: false,
        };
        let end = begun + Duration::from_secs_f64(2.0 * self.seconds);
        let mut found = fastest(&mut track, candidates.len(), Some(end));
        if std::mem::take(&mut track.failed) {
            // One clock for all: the host's, where timestamps failed once.
            track.stamped = false;
            track.expected = None;
            found = fastest(&mut track, candidates.len(), Some(end));
        }
        let found = match found {
            Err(error @ Error::DeviceLost { .. }) => return Err(error),
            Err(error) => {
                let kernel = step.kernel.name;
                self.listener.notice(&format!("{kernel} is not tuned: {}", one_line(error)));
                return Ok(Searched::NotTried);
            }
            Ok(found) => found,
        };
        Ok(match found {
            Some(found) => Searched::Found(Choice {
                variant: candidates[found.best].name.into(),
                default: candidates[found.default].name.into(),
                seconds: found.seconds,
                default_seconds: found.default_seconds,
            }),
            None if Instant::now() >= end => Searched::Late,
            None => Searched::NotTried,
        })
    }
}

/// What came of the searches for a program.
#[derive(Debug)]
pub(super) struct Chosen {
    /// By step: `None` where it is the device's default, or nothing is known better.
    pub(super) variants: Vec<Option<&'static str>>,
    /// Steps that there was no time for.
    pub(super) untried: usize,
}

/// What came of a search.
enum Searched {
    Found(Choice),
    /// There was no time.
    Late,
    /// The step is none that can be tried, or no variant ran.
    NotTried,
}

/// The variants among which a step may choose, in the device's order; none where the caller holds the kernel to some.
fn candidates(core: &Core, step: &Step, asked: &Asked) -> Vec<&'static Variant> {
    let OnWgpu::Shader(variants) = &step.kernel.wgpu else { return Vec::new() };
    let held = asked
        .variants
        .as_deref()
        .is_some_and(|list| variants.iter().any(|v| !allowed(list, step.kernel.name, v.name)));
    let suiting = in_order(variants, core.caps.driver).filter(|v| is_suitable(v, step, &core.caps));
    if held { Vec::new() } else { suiting.collect() }
}

/// A step's variants on the device.
struct OnDevice<'a> {
    tuner: &'a Tuner,
    core: &'a Arc<Core>,
    trial: Concrete,
    candidates: &'a [&'static Variant],
    /// Programs that may run again, with how often they run in a submission.
    runs: Vec<Option<(WgpuProgram, u32)>>,
    /// What the default computed, by port.
    expected: Option<Vec<Option<HostTensor>>>,
    /// How far from it others may be.
    apart: Vec<f64>,
    /// Whether times are the device's timestamps, and whether any of them could not be believed.
    stamped: bool,
    failed: bool,
}

impl OnDevice<'_> {
    fn name(&self, candidate: usize) -> (&'static str, &'static str) {
        (self.trial.spec.name, self.candidates[candidate].name)
    }

    /// The program of one variant, run once, and what it computed.
    fn made(&self, candidate: usize) -> Result<(WgpuProgram, u32, Vec<Option<HostTensor>>)> {
        let (kernel, variant) = self.name(candidate);
        let (graph, _, tensors) = self.trial.graph()?;
        let asked = Asked {
            variants: Some(format!("{kernel}/{variant}")),
            follow: Follow::Trial,
            ..Asked::default()
        };
        let mut program = WgpuProgram::new(Arc::clone(self.core), &graph, asked, &mut |_, _, _| {})?;
        for (tensor, input) in tensors.iter().zip(&self.trial.inputs) {
            if let (Some(tensor), Some(input)) = (tensor, input) {
                program.write(*tensor, input)?;
            }
        }
        program.run()?;
        let results = self.results(&mut program, &tensors, candidate)?;
        // Once more: some drivers compile within the first run.
        let single = program.run_burst(1)?;
        let seconds = single.device_seconds.unwrap_or(single.wall_seconds).max(1e-9);
        // A small number, whatever the time.
        let repeats = (BURST_SECONDS / seconds).ceil().clamp(1.0, MOST_REPEATS) as u32;
        Ok((program, repeats, results))
    }

    fn results(
        &self,
        program: &mut WgpuProgram,
        tensors: &[Option<Tensor>],
        candidate: usize,
    ) -> Result<Vec<Option<HostTensor>>> {
        let (kernel, variant) = self.name(candidate);
        let read = |(port, tensor): (usize, &Option<Tensor>)| {
            let Some(tensor) = tensor.filter(|_| trial::is_compared(self.trial.spec, port)) else {
                return Ok(None);
            };
            let mut numbers = program.read(tensor)?.to_f64();
            self.tuner.listener.result(kernel, variant, &mut numbers);
            // A pixel is four of them, so the shape may be another one.
            let count = u32::try_from(numbers.len()).unwrap_or(u32::MAX);
            HostTensor::new([count], HostData::F64(numbers)).map(Some)
        };
        tensors.iter().enumerate().map(read).collect()
    }

    /// Whether results agree with those of the default; what does not is told.
    fn agrees(
        &self,
        candidate: usize,
        expected: &[Option<HostTensor>],
        got: &[Option<HostTensor>],
    ) -> Result<bool> {
        let (kernel, variant) = self.name(candidate);
        for (port, pair) in expected.iter().zip(got).enumerate() {
            let (Some(expected), Some(got)) = pair else { continue };
            let worst = deviation(got, expected)?;
            if worst.error > self.apart[port] {
                self.tuner.listener.notice(&format!(
                    "{}: {kernel}/{variant} differs from {} by {:.1e} of the largest value of `{}` (at most {:.1e} is rounding): \
                     element {} is {} instead of {}; it is not used; `wgattn conformance` tells which of the two is wrong",
                    self.core.info.name,
                    self.candidates[self.default()].name,
                    worst.error,
                    self.trial.spec.ports[port].name,
                    self.apart[port],
                    worst.index,
                    worst.got,
                    worst.expected,
                ));
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// The first candidate that ran.
    fn default(&self) -> usize {
        self.runs.iter().position(Option::is_some).unwrap_or(0)
    }
}

impl Track for OnDevice<'_> {
    fn ready(&mut self, candidate: usize) -> Result<bool> {
        if !trial::suits(&self.trial, self.candidates[candidate], &self.core.caps) {
            return Ok(false);
        }
        let (program, repeats, results) = match self.made(candidate) {
            Ok(made) => made,
            Err(error @ Error::DeviceLost { .. }) => return Err(error),
            // What a device cannot run it does not take without tuning either.
            Err(Error::Limit { .. } | Error::Unsupported { .. }) => return Ok(false),
            Err(error) => {
                let (kernel, variant) = self.name(candidate);
                self.tuner
                    .listener
                    .notice(&format!("tuning leaves out {kernel}/{variant}: {}", one_line(error)));
                return Ok(false);
            }
        };
        let agrees = match &self.expected {
            None => {
                self.expected = Some(results);
                true
            }
            Some(expected) => self.agrees(candidate, expected, &results)?,
        };
        self.runs[candidate] = agrees.then_some((program, repeats));
        Ok(agrees)
    }

    fn time(&mut self, candidate: usize) -> Result<f64> {
        let (kernel, variant) = self.name(candidate);
        let Some((program, repeats)) = &mut self.runs[candidate] else { return Ok(f64::INFINITY) };
        let burst = program.run_burst(*repeats)?;
        // The figure by which software devices are judged does not swell under other load.
        let seconds = match burst.device_seconds {
            _ if self.core.software => burst.cpu_seconds,
            Some(seconds) if self.stamped => seconds,
            _ => {
                self.failed |= self.stamped;
                burst.wall_seconds
            }
        };
        Ok(self.tuner.listener.time(kernel, variant, seconds))
    }

    fn done(&mut self, candidate: usize) {
        self.runs[candidate] = None;
    }
}
