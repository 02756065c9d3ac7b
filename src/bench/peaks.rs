//! What the device can do at best, measured in the same run by the probe kernels.

use super::expected::{Check, Expected};
use super::measure::{Measured, Options, StepWork, measure_with};
use super::overheads::Overheads;
use super::stats::rate;
use crate::backend::{Backend, DeviceKind};
use crate::error::{Error, Result};
use crate::kernel::KernelSpec;
use crate::kernel::case::Concrete;
use crate::kernels::probe::{
    probe_abs_difference, probe_copy, probe_exp, probe_fma, probe_gather, probe_load, probe_overlap,
    probe_stage, probe_store,
};
use crate::tensor::Dims;

/// One roof.
#[derive(Clone, Copy, Debug, Default)]
pub struct Peak {
    /// Work in a second by the device's or the host's clock; `None` where the clock could not see the probe.
    pub per_second: Option<f64>,
    /// Work in a processor second, where the device computes on the CPU.
    pub per_cpu_second: Option<f64>,
}

impl Peak {
    /// The higher of two roofs.
    fn faster(self, other: Self) -> Self {
        let higher = |a: Option<f64>, b: Option<f64>| a.into_iter().chain(b).reduce(f64::max);
        Self {
            per_second: higher(self.per_second, other.per_second),
            per_cpu_second: higher(self.per_cpu_second, other.per_cpu_second),
        }
    }

    /// The part of the roof that some work reached, by processor seconds where both have them: they do not swell when other
    /// programs take the processor in between.
    pub fn share(&self, work: f64, seconds: f64, cpu_seconds: Option<f64>) -> Option<f64> {
        let by_clock = || rate(work, seconds).zip(self.per_second);
        let by_cpu = cpu_seconds.and_then(|s| rate(work, s)).zip(self.per_cpu_second);
        by_cpu.or_else(by_clock).and_then(|(speed, peak)| rate(speed, peak))
    }
}

/// A roof of moving memory, which stands the higher the less is moved, because that stays in a nearer cache: what was measured at some
/// sizes, smallest first.
#[derive(Clone, Copy, Debug, Default)]
pub struct Ladder([Rung; RUNGS]);

/// A size and what was measured there.
#[derive(Clone, Copy, Debug, Default)]
pub struct Rung {
    /// Bytes moved.
    pub bytes: f64,
    /// Bytes in a second.
    pub peak: Peak,
}

/// Sizes of a ladder at most.
const RUNGS: usize = 6;

impl Ladder {
    /// Of what was measured, smallest size first; sizes whose time was too short to see are left out.
    fn of(measured: impl IntoIterator<Item = Rung>) -> Self {
        let mut rungs = [Rung::default(); RUNGS];
        let seen = measured.into_iter().filter(|rung| rung.peak.per_second.is_some());
        rungs.iter_mut().zip(seen).for_each(|(to, rung)| *to = rung);
        Self(rungs)
    }

    /// What was measured.
    pub fn rungs(&self) -> impl Iterator<Item = &Rung> {
        self.0.iter().filter(|rung| rung.bytes > 0.0)
    }

    /// The roof of the largest size.
    pub fn largest(&self) -> Peak {
        self.rungs().last().map_or_else(Peak::default, |rung| rung.peak)
    }

    /// The roof for moving `bytes`: that of the largest size that is not larger. `None` for less than the smallest.
    fn roof(&self, bytes: f64) -> Option<Peak> {
        self.rungs().filter(|rung| rung.bytes <= bytes).last().map(|rung| rung.peak)
    }

    /// The same, but less than the smallest size is moved no faster than that; `None` where nothing was measured.
    fn roof_or_smallest(&self, bytes: f64) -> Option<Peak> {
        self.roof(bytes).or_else(|| self.rungs().next().map(|rung| rung.peak))
    }
}

/// Roofs of the roofline.
#[derive(Clone, Copy, Debug)]
pub struct Peaks {
    /// Floating-point operations (two per multiply-add).
    pub flop: Peak,
    /// The same on more sums than a processor has registers for.
    pub many_sums: Peak,
    /// Bytes read and written, by how many they are.
    pub memory: Ladder,
    /// Bytes copied into textures for variants that read such, by how many go into one.
    pub copies: Ladder,
    /// Exponentials.
    pub exp: Peak,
    /// Words read from near, by path.
    pub loads: PathPeaks,
    /// Absolute differences that are added up: two operations each.
    pub abs_difference: Peak,
    /// Words read from anywhere in memory.
    pub gather: Peak,
    /// Words written one by one.
    pub stores: Peak,
    /// Words written as vectors.
    pub vector_stores: Peak,
    /// How much of the shorter of arithmetic and loads hides behind the longer: 1 where a device does both at once, 0 where one stream of
    /// instructions does one after the other. 1 where it could not be measured.
    pub overlap: f64,
    /// Dispatches, submissions, and the way to the device and back.
    pub overheads: Overheads,
}

impl Default for Peaks {
    /// Nothing is known; so memory bounds nothing, and nothing waits for anything else.
    fn default() -> Self {
        let unknown = Peak::default();
        Self {
            flop: unknown,
            many_sums: unknown,
            memory: Ladder::default(),
            copies: Ladder::default(),
            exp: unknown,
            loads: PathPeaks::default(),
            abs_difference: unknown,
            gather: unknown,
            stores: unknown,
            vector_stores: unknown,
            overlap: 1.0,
            overheads: Overheads::default(),
        }
    }
}

/// Roofs of loads, in words.
#[derive(Clone, Copy, Debug, Default)]
pub struct PathPeaks {
    /// Storage buffers, by words or by vectors, whichever is faster.
    pub storage: Peak,
    /// Uniform buffers.
    pub uniform: Peak,
    /// Textures.
    pub texture: Peak,
    /// Workgroup memory.
    pub workgroup: Peak,
}

/// What bounds work on a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Limit {
    /// Operations and exponentials.
    Arithmetic,
    /// Loads by their paths.
    Loads,
    /// Stores.
    Stores,
    /// Bytes that must come from memory and go there.
    Memory,
    /// Bytes that are copied into textures.
    Copies,
    /// Getting its dispatches under way.
    Launch,
}

impl std::fmt::Display for Limit {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Arithmetic => "arithmetic",
            Self::Loads => "loads",
            Self::Stores => "stores",
            Self::Memory => "memory",
            Self::Copies => "copies",
            Self::Launch => "launch",
        })
    }
}

/// The least time that some work takes on a device.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Bound {
    /// Seconds; processor seconds where the device computes on the CPU.
    pub seconds: f64,
    /// What takes most of them.
    pub limit: Limit,
}

/// Seconds for which a probe runs, and how often it runs at least: however long rows are, a roof is the best run, and the best of a few is
/// the best of many but for a few percent.
const PROBE_SECONDS: f64 = 0.1;
const PROBE_RUNS: usize = 5;
/// Least length that dispatches of probes are allowed.
const PROBE_DISPATCH_SECONDS: f64 = 0.05;

/// Seconds that one run of a probe takes at least on a graphics card, where more rows make it longer: on fewer a large card has idle
/// processors, and its launches take longer than its work.
const FILLED_SECONDS: f64 = 3e-3;
/// Rows of a probe at most, each with a word of its result: 256 MiB.
const MOST_ROWS: u32 = 1 << 26;
/// How many times the rows of a probe grow at once at most, and how often they do: a card that was not filled takes no longer for more.
const MOST_GROWTH: f64 = 64.0;
const GROWTHS: usize = 3;

/// Rows of a probe that are compared with the reference.
const CHECKED_ROWS: u32 = 64;

/// Words of the tensors whose copy is the roof of memory: 1, 4, 16 and 32 MiB, 128 MiB on graphics cards, whose caches are large, and
/// 512 MiB on those that copy that in less than a millisecond.
const COPIED: [u32; RUNGS] = [1 << 18, 1 << 20, 1 << 22, 1 << 23, 1 << 25, 1 << 27];
/// Copies that devices which compute on the CPU are measured by, and that graphics cards are at least.
const COPIED_ON_CPU: usize = 4;
const COPIED_ON_CARDS: usize = 5;
/// Words of the tensors that are copied into a texture: 2, 4, 16 and 64 MiB. Smaller ones take no longer than their dispatch.
const STAGED: [u32; 4] = [1 << 19, 1 << 20, 1 << 22, 1 << 24];

impl Peaks {
    /// The least time of steps one after another, each bound by its arithmetic, its loads by their paths and its stores, of which a device
    /// hides the shorter ones behind the longest as far as its overlap goes; or by memory, where that takes longer; and each after its
    /// copies into textures and launched as often as it is dispatched. What takes most of it all, copies and launches included, is the
    /// limit. `None` where a roof is missing.
    pub fn bound(&self, steps: &[StepWork], by_cpu: bool) -> Option<Bound> {
        let time = |peak: Peak, work: f64| -> Option<f64> {
            let roof = if by_cpu { peak.per_cpu_second } else { peak.per_second };
            if work == 0.0 { Some(0.0) } else { rate(work, roof?) }
        };
        let mut totals: Vec<(Limit, f64)> = Vec::new();
        let mut add = |limit: Limit, seconds: f64| match totals.iter_mut().find(|(kind, _)| *kind == limit) {
            Some((_, total)) => *total += seconds,
            None => totals.push((limit, seconds)),
        };
        for StepWork { cost, words, copied_bytes, copy_bytes, dispatches } in steps {
            let paths = [
                (self.loads.storage, words.storage),
                (self.loads.uniform, words.uniform),
                (self.loads.texture, words.texture),
                (self.loads.workgroup, words.workgroup),
            ];
            let loads: f64 = paths.into_iter().map(|(peak, work)| time(peak, work)).sum::<Option<f64>>()?;
            let others = (cost.flop - 2.0 * cost.differences + words.padding - words.many_sums).max(0.0);
            let arithmetic = time(self.flop, others)?
                + time(self.many_sums, words.many_sums)?
                + time(self.abs_difference, cost.differences)?
                + time(self.exp, cost.exp)?;
            let stores = time(self.stores, cost.stores - words.vector_stores)?
                + time(self.vector_stores, words.vector_stores)?;
            let kinds = [(Limit::Arithmetic, arithmetic), (Limit::Loads, loads), (Limit::Stores, stores)];
            let (mut limit, longest) = kinds.into_iter().max_by(|a, b| a.1.total_cmp(&b.1))?;
            let mut seconds = longest + (1.0 - self.overlap) * (arithmetic + loads + stores - longest);
            let memory = self.memory.roof(cost.bytes).map_or(Some(0.0), |roof| time(roof, cost.bytes))?;
            if memory > seconds {
                (limit, seconds) = (Limit::Memory, memory);
            }
            // A step waits for the one before it, and a dispatch for its copies, so these come on top.
            if *copied_bytes > 0.0 {
                add(Limit::Copies, time(self.copies.roof_or_smallest(*copy_bytes)?, *copied_bytes)?);
            }
            add(Limit::Launch, dispatches * self.overheads.dispatch_seconds.unwrap_or(0.0));
            add(limit, seconds);
        }
        if steps.is_empty() {
            return None;
        }
        let seconds = totals.iter().map(|(_, time)| time).sum();
        let (limit, _) = totals.into_iter().max_by(|a, b| a.1.total_cmp(&b.1))?;
        Some(Bound { seconds, limit })
    }

    /// Runs the probes, each for a time of its own: of the options only those count that say how long a dispatch may take. `progress` is
    /// told what comes next.
    ///
    /// Errors: as [`measure_with`].
    pub fn of(backend: &dyn Backend, options: Options, progress: &mut dyn FnMut(&str)) -> Result<Self> {
        let options = probing(options);
        progress("overheads");
        let overheads = Overheads::of(backend, options)?;
        let mut probes = Probes { backend, options, progress };
        let storage: fn(&Measured) -> f64 = |m| m.loaded().storage;
        let load = &probe_load::SPEC;
        let operations: fn(&Measured) -> f64 = |m| m.cost.flop;
        let flop = probes.peak(Some("registers"), &probe_fma::SPEC, operations)?;
        let many_sums = probes.peak(Some("many"), &probe_fma::SPEC, operations)?;
        let abs_difference = probes.peak(None, &probe_abs_difference::SPEC, |m| m.cost.flop / 2.0)?;
        let exp = probes.peak(None, &probe_exp::SPEC, |m| m.cost.exp)?;
        let gather = probes.peak(None, &probe_gather::SPEC, storage)?;
        let written: fn(&Measured) -> f64 = |m| m.cost.stores;
        let stores = probes.peak(Some("word"), &probe_store::SPEC, written)?;
        let vector_stores = probes.peak(Some("vec4"), &probe_store::SPEC, written)?;
        let loads = PathPeaks {
            storage: probes.peak(Some("word"), load, storage)?.faster(probes.peak(
                Some("vec4"),
                load,
                storage,
            )?),
            uniform: probes.peak(Some("uniform"), load, |m| m.loaded().uniform)?,
            texture: probes.peak(Some("texture"), load, |m| m.loaded().texture)?,
            workgroup: probes.peak(Some("workgroup"), load, |m| m.loaded().workgroup)?,
        };
        let mixed = probes.run_filling(None, &probe_overlap::SPEC)?;
        let overlap = mixed.and_then(|m| overlap(&m, flop, loads.texture)).unwrap_or(1.0);
        Ok(Self {
            flop,
            many_sums,
            abs_difference,
            exp,
            memory: probes.memory()?,
            copies: probes.copies(&overheads)?,
            gather,
            stores,
            vector_stores,
            loads,
            overlap,
            overheads,
        })
    }
}

/// The probe kernels on a device.
struct Probes<'a> {
    backend: &'a dyn Backend,
    options: Options,
    progress: &'a mut dyn FnMut(&str),
}

impl Probes<'_> {
    /// Measures a probe at its own sizes but for those given, held to a variant where one is named; `None` where the device lacks it.
    fn run(
        &mut self,
        path: Option<&str>,
        spec: &'static KernelSpec,
        sizes: &[(&'static str, u32)],
    ) -> Result<Option<Measured>> {
        self.run_for(path, spec, sizes, self.options)
    }

    /// The same, for another time.
    fn run_for(
        &mut self,
        path: Option<&str>,
        spec: &'static KernelSpec,
        sizes: &[(&'static str, u32)],
        options: Options,
    ) -> Result<Option<Measured>> {
        let Some(case) = spec.cases.iter().find(|c| c.bench) else { return Ok(None) };
        let at: String = sizes.iter().map(|(name, size)| format!(" {name} = {size}")).collect();
        (self.progress)(&format!("{}{}{at}", spec.name, path.map_or(String::new(), |p| format!("/{p}"))));
        let mut dims = Dims::of(case.dims);
        sizes.iter().for_each(|(name, size)| dims.set(name, *size));
        let concrete = Concrete::with_dims(spec, case, dims)?;
        // Rows of probes do not depend on each other, so a few of them tell whether the loops were cut short.
        let run = |device: &dyn Backend| {
            measure_with(device, &concrete, options, &mut |c| Expected::of(c, Check::Rows(CHECKED_ROWS)))
        };
        let Some(path) = path else { return run(self.backend).map(Some) };
        // One that lacks a path, as CUDA has no texture that is filled beforehand, says so here or there, and has no roof for it.
        let held = self.backend.held_to(&format!("{}/{path}", spec.name));
        match held.and_then(|held| run(held.as_ref())) {
            Ok(measured) => Ok(Some(measured)),
            Err(Error::Unsupported { .. }) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// The same with as many rows as fill a graphics card for some milliseconds; its own sizes elsewhere.
    fn run_filling(&mut self, path: Option<&str>, spec: &'static KernelSpec) -> Result<Option<Measured>> {
        let own = spec.cases.iter().find(|case| case.bench).map(|case| Dims::of(case.dims));
        let Some(own) = own.filter(|_| self.backend.info().kind < DeviceKind::Software) else {
            return self.run(path, spec, &[]);
        };
        let mut rows = own.size("n");
        let most = MOST_ROWS.min(u32::try_from(self.room() / 4).unwrap_or(u32::MAX));
        let short = Options { seconds: 0.0, runs: 1, ..self.options };
        let long =
            self.options.most_dispatch_seconds.map_or(FILLED_SECONDS, |most| FILLED_SECONDS.min(0.5 * most));
        for _ in 0..GROWTHS {
            let Some(measured) = self.run_for(path, spec, &[("n", rows)], short)? else { return Ok(None) };
            match grown(rows, most, measured.seconds.min, long) {
                more if more == rows => break,
                more => rows = more,
            }
        }
        self.run(path, spec, &[("n", rows)])
    }

    /// Bytes that a tensor may have.
    fn room(&self) -> u64 {
        self.backend.device_caps().map_or(u64::MAX, |caps| caps.storage_binding.min(caps.buffer))
    }

    /// The best of several runs: a roof is what the device can do when nobody disturbs it.
    fn peak(
        &mut self,
        path: Option<&str>,
        spec: &'static KernelSpec,
        work: fn(&Measured) -> f64,
    ) -> Result<Peak> {
        let measured = self.run_filling(path, spec)?;
        Ok(measured.map_or_else(Peak::default, |m| best(&m, work(&m), 0.0)))
    }

    /// Copies from memory to memory, each by the way that is faster on the device.
    fn memory(&mut self) -> Result<Ladder> {
        let kind = self.backend.info().kind;
        let sizes = match kind {
            // One number after the other: it is not memory that the reference waits for.
            DeviceKind::Reference => 0,
            DeviceKind::Software => COPIED_ON_CPU,
            _ => RUNGS,
        };
        let mut rungs: Vec<Rung> = Vec::new();
        for (index, words) in COPIED[..sizes].iter().enumerate() {
            let mut peak = Peak::default();
            if index >= COPIED_ON_CARDS {
                let before = rungs.last().and_then(|rung| Some(rung.bytes / rung.peak.per_second?));
                if 4 * u64::from(*words) > self.room() || !before.is_some_and(|seconds| 4.0 * seconds < 1e-3)
                {
                    break;
                }
            }
            for path in ["vec4", "runs"] {
                let measured = self.run(Some(path), &probe_copy::SPEC, &[("n", *words)])?;
                peak = measured.map_or(peak, |m| peak.faster(best(&m, m.cost.bytes, 0.0)));
            }
            rungs.push(Rung { bytes: 8.0 * f64::from(*words), peak });
        }
        Ok(Ladder::of(rungs))
    }

    /// Copies into textures, without their dispatches.
    fn copies(&mut self, overheads: &Overheads) -> Result<Ladder> {
        let mut rungs = Vec::new();
        for words in STAGED {
            let measured = self.run(Some("texture"), &probe_stage::SPEC, &[("m", words)])?;
            let Some((step, m)) = measured.as_ref().and_then(|m| Some((m.steps.as_ref()?.first()?, m)))
            else {
                continue;
            };
            let launches = step.dispatches * overheads.dispatch_seconds.unwrap_or(0.0);
            rungs.push(Rung { bytes: step.copy_bytes, peak: best(m, step.copied_bytes, launches) });
        }
        Ok(Ladder::of(rungs))
    }
}

/// How many rows, `most` at most, take `long` seconds where `rows` took fewer: a power of two times as many.
fn grown(rows: u32, most: u32, seconds: f64, long: f64) -> u32 {
    let room = most / rows.max(1);
    if seconds.is_nan() || seconds >= long || room < 2 {
        return rows;
    }
    // A clock that saw nothing tells nothing but that.
    let times = if seconds > 0.0 { (long / seconds).min(MOST_GROWTH) } else { MOST_GROWTH };
    rows << (times.log2().ceil() as u32).min(room.ilog2())
}

/// Work per second in the shortest run, less some seconds for what is no work.
fn best(measured: &Measured, work: f64, less: f64) -> Peak {
    Peak {
        per_second: rate(work, measured.seconds.min - less),
        per_cpu_second: measured.cpu_seconds.and_then(|s| rate(work, s.min - less)),
    }
}

/// How long probes run, whatever rows do. Their dispatches may be as long as no watchdog minds: shorter ones would measure launches.
fn probing(options: Options) -> Options {
    let most_dispatch_seconds = options.most_dispatch_seconds.map(|most| most.max(PROBE_DISPATCH_SECONDS));
    let most_seconds = Some(PROBE_SECONDS);
    Options { seconds: PROBE_SECONDS, runs: PROBE_RUNS, most_seconds, most_dispatch_seconds, ..options }
}

/// How much of the shorter part of a mixture of multiply-adds and texels hides behind the longer one.
fn overlap(mixed: &Measured, flop: Peak, texels: Peak) -> Option<f64> {
    let (seconds, flop, texels) = match mixed.cpu_seconds {
        Some(cpu) => (cpu.min, flop.per_cpu_second?, texels.per_cpu_second?),
        None => (mixed.seconds.min, flop.per_second?, texels.per_second?),
    };
    let (arithmetic, loads) = (rate(mixed.cost.flop, flop)?, rate(mixed.loaded().texture, texels)?);
    let hidden = rate(arithmetic + loads - seconds, arithmetic.min(loads));
    Some(hidden.unwrap_or(0.0).clamp(0.0, 1.0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::{Cost, Loads};

    #[test]
    fn each_step_is_bound_by_what_is_slowest_in_it() {
        let roof = |x: f64| Peak { per_second: Some(x), per_cpu_second: Some(x / 2.0) };
        let loads = PathPeaks {
            storage: roof(10.0),
            uniform: roof(10.0),
            texture: roof(20.0),
            workgroup: roof(10.0),
        };
        let memory = |from: f64| Ladder::of([Rung { bytes: from, peak: roof(1.0) }]);
        let peaks = Peaks {
            flop: roof(100.0),
            memory: memory(2e6),
            exp: roof(50.0),
            loads,
            stores: roof(5.0),
            ..Peaks::default()
        };
        let step = |flop: f64, stores: f64, texture: f64| {
            let cost = Cost { flop, exp: 0.0, stores, bytes: 1e6, ..Cost::default() };
            StepWork { cost, words: Loads { texture, ..Loads::default() }, ..StepWork::default() }
        };
        // 3 s of arithmetic, then 4 s of loads, then 1 s of stores.
        let steps = [step(300.0, 1.0, 1.0), step(1.0, 1.0, 80.0), step(1.0, 5.0, 1.0)];
        assert_eq!(peaks.bound(&steps, false), Some(Bound { seconds: 8.0, limit: Limit::Loads }));
        assert_eq!(peaks.bound(&steps, true).map(|b| b.seconds), Some(16.0));
        // What is copied comes on top, at the speed of the smallest copy measured; and so does every dispatch.
        let copies =
            Ladder::of([Rung { bytes: 100.0, peak: roof(5.0) }, Rung { bytes: 1e9, peak: roof(1.0) }]);
        let overheads = Overheads { dispatch_seconds: Some(0.25), ..Overheads::default() };
        let staged = Peaks { copies, overheads, ..peaks };
        let step = StepWork { copied_bytes: 50.0, copy_bytes: 25.0, dispatches: 2.0, ..steps[0] };
        assert_eq!(
            staged.bound(&[step], false),
            Some(Bound { seconds: 3.0 + 10.0 + 0.5, limit: Limit::Copies })
        );
        let step = StepWork { copied_bytes: 1e9, copy_bytes: 1e9, ..steps[0] };
        assert_eq!(staged.bound(&[step], false).map(|b| b.seconds), Some(3.0 + 1e9));
        // Less than the smallest copy of memory may stay in a cache.
        let memory = Peaks { memory: memory(1e6), ..peaks };
        assert_eq!(memory.bound(&steps, false), Some(Bound { seconds: 3e6, limit: Limit::Memory }));
        let unknown = Peaks { flop: Peak::default(), ..peaks };
        assert_eq!(unknown.bound(&steps, false), None);
        // Where nothing hides behind anything else, all parts are added: 3.25 s, 4.21 s and 1.06 s.
        let in_turn = Peaks { overlap: 0.0, ..peaks };
        let seconds = in_turn.bound(&steps, false).map_or(0.0, |b| b.seconds);
        assert!((seconds - 8.52).abs() < 1e-9, "{seconds}");
    }

    #[test]
    fn absolute_differences_and_what_tiles_cover_beyond_the_tensors_count_at_their_own_speed() {
        let roof = |x: f64| Peak { per_second: Some(x), per_cpu_second: None };
        let peaks = Peaks { flop: roof(100.0), abs_difference: roof(10.0), ..Peaks::default() };
        let cost = Cost { flop: 100.0, differences: 30.0, ..Cost::default() };
        let loads = Loads { padding: 60.0, ..Loads::default() };
        // 40 operations and 60 beyond the tensors at 100 a second, 30 differences at 10.
        assert_eq!(
            peaks.bound(&[StepWork { cost, words: loads, ..StepWork::default() }], false).map(|b| b.seconds),
            Some(4.0)
        );
        // Half of these on more sums than registers hold, at 50 a second.
        let peaks = Peaks { many_sums: roof(50.0), ..peaks };
        let loads = Loads { many_sums: 50.0, ..loads };
        assert_eq!(
            peaks.bound(&[StepWork { cost, words: loads, ..StepWork::default() }], false).map(|b| b.seconds),
            Some(4.5)
        );
    }

    #[test]
    fn what_takes_longer_to_launch_than_to_run_is_bound_by_its_launches() {
        let roof = |x: f64| Peak { per_second: Some(x), per_cpu_second: None };
        let overheads = Overheads { dispatch_seconds: Some(2.0), ..Overheads::default() };
        let peaks = Peaks { flop: roof(100.0), stores: roof(10.0), overheads, ..Peaks::default() };
        let step = |flop: f64, stores: f64| StepWork {
            cost: Cost { flop, stores, ..Cost::default() },
            dispatches: 1.0,
            ..StepWork::default()
        };
        // 1 s of arithmetic and a launch of 2 s.
        assert_eq!(
            peaks.bound(&[step(100.0, 0.0)], false),
            Some(Bound { seconds: 3.0, limit: Limit::Launch })
        );
        // Launches of all steps count together: 5 s and 3 s of work, two times 2 s.
        let steps = [step(500.0, 0.0), step(0.0, 30.0)];
        assert_eq!(peaks.bound(&steps, false), Some(Bound { seconds: 12.0, limit: Limit::Arithmetic }));
        let steps = [step(300.0, 0.0), step(0.0, 30.0)];
        assert_eq!(peaks.bound(&steps, false), Some(Bound { seconds: 10.0, limit: Limit::Launch }));
        assert_eq!(peaks.bound(&[], false), None);
    }

    #[test]
    fn rows_of_a_probe_grow_until_they_fill_a_card() {
        // Long enough, not seen by the clock, or no number: the last says nothing about more rows.
        let to = |rows, seconds| grown(rows, MOST_ROWS, seconds, 3e-3);
        assert_eq!(to(65_536, 3e-3), 65_536);
        assert_eq!(to(65_536, 0.0), 64 * 65_536);
        assert_eq!(to(65_536, f64::NAN), 65_536);
        // 30 times is 32 times, and 1000 times is as far as it goes at once.
        assert_eq!(to(65_536, 1e-4), 32 * 65_536);
        assert_eq!(to(16_384, 3e-6), 64 * 16_384);
        // A result has 256 MiB at most, or what the device binds, and rows never become fewer.
        assert_eq!(grown(65_536, 200_000, 0.0, 3e-3), 131_072);
        assert_eq!(to(8_388_608, 7e-6), MOST_ROWS);
        assert_eq!(to(MOST_ROWS + 1, 1e-6), MOST_ROWS + 1);
    }

    #[test]
    fn a_path_that_a_device_lacks_has_no_roof_and_others_have_one() {
        let backend = match crate::backend::cuda::open("cuda:host") {
            Ok(backend) => backend,
            Err(why) => return println!("ignored: {why}"),
        };
        let options = probing(Options::default());
        let mut probes = Probes { backend: backend.as_ref(), options, progress: &mut |_| {} };
        // Lacking paths are known only once a graph is compiled there.
        let lacking = probes.run(Some("uniform"), &probe_load::SPEC, &[("n", 64)]);
        assert!(lacking.expect("no failure").is_none());
        let found = probes.run(Some("word"), &probe_store::SPEC, &[("n", 1024)]).expect("no failure");
        assert!(found.is_some_and(|m| m.steps.is_some() && m.cost.stores == 1024.0));
    }

    #[test]
    fn probes_take_no_longer_for_longer_rows() {
        let most_dispatch_seconds = Some(0.05);
        let of =
            |seconds, runs| probing(Options { seconds, runs, most_dispatch_seconds, ..Options::default() });
        for (seconds, runs) in [(0.0, 1), (1.0, 10), (3600.0, 1000)] {
            let options = of(seconds, runs);
            assert_eq!((options.seconds, options.runs), (PROBE_SECONDS, PROBE_RUNS));
            assert_eq!(options.most_seconds, Some(PROBE_SECONDS), "long runs end it as well");
            assert_eq!(options.most_dispatch_seconds, most_dispatch_seconds, "no watchdog fires");
        }
        let short = Options { most_dispatch_seconds: Some(1e-3), ..Options::default() };
        assert_eq!(
            probing(short).most_dispatch_seconds,
            Some(PROBE_DISPATCH_SECONDS),
            "launches are no peak"
        );
    }
}
