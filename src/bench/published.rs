//! Benchmark documents as they come back from files, which anyone may have written, cut short or edited.
//!
//! A document is the JSON that `wgattn bench` exports: `schema` is [`SCHEMA`], `version` at most [`VERSION`]. What could not be measured
//! is null there, and a key that is absent means the same; a value of another type is refused with its place. Times are seconds.

mod read;

pub use super::document::{SCHEMA, VERSION};
pub(super) use read::{DATA_FROM, DATA_TO};
pub use read::{parse, parse_bytes};

use serde_json::Value;
use std::collections::BTreeMap;

/// A whole document.
#[derive(Clone, Debug)]
pub struct Document {
    /// Version of the program that measured.
    pub program: String,
    /// Commit of its source.
    pub commit: Option<String>,
    /// When, as ISO 8601.
    pub date: String,
    /// Whether the run came to its end.
    pub complete: bool,
    /// What was asked for, by name, as JSON.
    pub options: BTreeMap<String, Value>,
    /// The machine around the devices.
    pub system: System,
    /// Hash of each kernel's WGSL.
    pub kernels: BTreeMap<String, String>,
    /// Devices in the order of the run.
    pub devices: Vec<Device>,
    /// Devices that were asked for and could not be opened, in words.
    pub left_out: Vec<String>,
}

/// The machine around the devices.
#[derive(Clone, Debug)]
pub struct System {
    /// Operating system.
    pub os: Option<String>,
    /// Instruction set.
    pub arch: Option<String>,
    /// Name of the processor.
    pub cpu: Option<String>,
    /// Its cores.
    pub cores: Option<f64>,
    /// Main memory.
    pub memory_bytes: Option<f64>,
}

/// One adapter with all that was measured on it.
#[derive(Clone, Debug)]
pub struct Device {
    /// Name by its driver.
    pub name: String,
    /// `vulkan`, `gl`, `cpu`…
    pub backend: String,
    /// `discrete`, `integrated`, `virtual`, `software` or `reference`.
    pub kind: String,
    /// Driver with its version.
    pub driver: Option<String>,
    /// Vendor and product.
    pub pci: Option<String>,
    /// Place on the bus: tells equal cards apart.
    pub bus: Option<String>,
    /// Index in `wgattn devices`.
    pub index: Option<f64>,
    /// Whether it keeps time by itself.
    pub timestamps: Option<bool>,
    /// Least and most lanes of a subgroup.
    pub subgroup: Vec<f64>,
    /// What CUDA says of a card, in words; nothing of other devices.
    pub card: Vec<String>,
    /// Limits by name.
    pub limits: BTreeMap<String, f64>,
    /// Its own roofline.
    pub peaks: Peaks,
    /// Measured cases, failures included.
    pub rows: Vec<Row>,
    /// End-to-end sweeps.
    pub suites: Vec<Suite>,
    /// Geometric mean of reference times over times.
    pub score: Option<f64>,
}

/// What a device does at best in a second by the clock, and in a second of the processor.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Roof {
    /// By the clock.
    pub per_second: Option<f64>,
    /// By processor seconds; only where the device computes on the CPU.
    pub per_cpu_second: Option<f64>,
}

/// Roofs by name (`flop`, `bytes`, `loads.storage`…), and overheads in seconds.
#[derive(Clone, Debug, Default)]
pub struct Peaks {
    /// Rates by name; those of `loads` as `loads.PATH`.
    pub roofs: BTreeMap<String, Roof>,
    /// Seconds of an empty dispatch.
    pub dispatch: Option<f64>,
    /// Seconds of an empty submission.
    pub submit: Option<f64>,
    /// Speeds of copies in memory, by bytes moved.
    pub memory: Vec<(f64, Roof)>,
    /// Speeds of copies into textures, by bytes copied.
    pub copies: Vec<(f64, Roof)>,
    /// How much of the shorter of arithmetic and loads hides behind the longer, 0 to 1.
    pub overlap: Option<f64>,
}

/// Spread of one quantity over the runs, in seconds.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Times {
    /// The middle.
    pub median: Option<f64>,
    /// A tenth of the runs took less.
    pub p10: Option<f64>,
    /// A tenth of the runs took more.
    pub p90: Option<f64>,
    /// Median absolute deviation from the median.
    pub mad: Option<f64>,
}

/// One kernel on one case.
#[derive(Clone, Debug)]
pub struct Row {
    /// Kernel.
    pub kernel: String,
    /// Case of the kernel.
    pub case: String,
    /// Variant asked for.
    pub asked_variant: Option<String>,
    /// Variants that ran.
    pub variants: Vec<String>,
    /// Whether a search chose other variants than the device takes by itself; the same row without tuning stands beside it.
    pub tuned: bool,
    /// By the clock or the device's timestamps.
    pub time: Times,
    /// By processor seconds of the whole process.
    pub cpu: Times,
    /// Runs that were timed.
    pub samples: Option<f64>,
    /// Where `time` comes from.
    pub source: Option<String>,
    /// Which clock the share, the score and the warnings go by, as [`Clock`](crate::bench::Clock) names them.
    pub judged_by: Option<String>,
    /// Seconds of compilation.
    pub compile: Option<f64>,
    /// Seconds of encoding one run.
    pub encode: Option<f64>,
    /// Seconds of the first run.
    pub first_run: Option<f64>,
    /// Floating-point operations of one run.
    pub flop: Option<f64>,
    /// Bytes that one run must move at least.
    pub bytes: Option<f64>,
    /// Exponentials of one run.
    pub exp: Option<f64>,
    /// Least seconds that the device could take.
    pub bound: Option<f64>,
    /// What takes most of these.
    pub bound_by: Option<String>,
    /// Part of the bound that was reached.
    pub share: Option<f64>,
    /// Largest error against the f64 reference.
    pub max_error: Option<f64>,
    /// Error that the kernel may have.
    pub tolerance: Option<f64>,
    /// Which part of the result was checked.
    pub checked: Option<String>,
    /// What else is to be known.
    pub flags: Vec<String>,
    /// Why there are no numbers.
    pub failure: Option<String>,
}

/// Times of several ways over one size.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Suite {
    /// Short name.
    pub name: String,
    /// What people call it.
    pub title: String,
    /// What the size counts.
    pub x: String,
    /// What is measured.
    pub y: String,
    /// One per way.
    pub series: Vec<Series>,
}

/// One way over all sizes.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Series {
    /// Which way.
    pub name: String,
    /// By size.
    pub points: Vec<Point>,
}

/// One way at one size.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Point {
    /// The size.
    pub x: Option<f64>,
    /// By the clock: the middle of the runs.
    pub y: Option<f64>,
    /// A tenth of the runs took less than the first, a tenth more than the second; nothing of a single run.
    pub y_ends: Option<(f64, f64)>,
    /// By processor seconds: the middle of the runs.
    pub cpu: Option<f64>,
    /// As `y_ends`.
    pub cpu_ends: Option<(f64, f64)>,
    /// Runs that were timed.
    pub samples: Option<f64>,
    /// Largest error against the f64 reference.
    pub max_error: Option<f64>,
    /// Which part of the result was checked, or why none was.
    pub checked: Option<String>,
    /// What went wrong, so that there are no numbers.
    pub failure: Option<String>,
    /// Why it was not run, which is no failure.
    pub skipped: Option<String>,
    /// What else is to be known.
    pub flags: Vec<String>,
    /// What else was counted or timed, by name with its unit: `dispatches`, `staging_bytes`, `compile_seconds`.
    pub numbers: BTreeMap<String, f64>,
}

impl Point {
    /// The times by the clock, or by processor seconds.
    pub fn times(&self, cpu: bool) -> Times {
        let (median, ends) = if cpu { (self.cpu, self.cpu_ends) } else { (self.y, self.y_ends) };
        Times { median, p10: ends.map(|e| e.0), p90: ends.map(|e| e.1), mad: None }
    }
}

impl Device {
    /// Whether it computes on the CPU, so that processor seconds are the figure to judge by.
    pub fn computes_on_cpu(&self) -> bool {
        matches!(self.kind.as_str(), "software" | "reference" | "cpu")
    }

    /// A roof in the seconds that rows of this device are judged by.
    pub fn roof(&self, name: &str) -> Option<f64> {
        let roof = self.peaks.roofs.get(name)?;
        positive(if self.computes_on_cpu() { roof.per_cpu_second } else { roof.per_second })
    }

    /// The times that a row of this device is judged by: processor seconds where it computes on the CPU and they were measured.
    pub fn judged(&self, row: &Row) -> Times {
        if self.computes_on_cpu() && row.cpu.median.is_some() { row.cpu } else { row.time }
    }

    /// How many times as fast a tuned row is as the same row without tuning; `None` for other rows.
    pub fn gain(&self, row: &Row) -> Option<f64> {
        let of_row = |r: &&Row| {
            !r.tuned && (&r.kernel, &r.case, &r.asked_variant) == (&row.kernel, &row.case, &row.asked_variant)
        };
        let untuned = self.rows.iter().find(of_row).filter(|r| row.tuned && r.failure.is_none())?;
        Some(positive(self.judged(untuned).median)? / positive(self.judged(row).median)?)
    }

    /// What is to say about tuning of a row: `tuned, 1.30 times as fast`; nothing for rows that are not tuned.
    pub fn tuning(&self, row: &Row) -> Option<String> {
        let gain = self.gain(row).map_or_else(String::new, |gain| format!(", {gain:.2} times as fast"));
        row.tuned.then(|| format!("tuned{gain}"))
    }
}

impl Row {
    /// What went wrong, in words: a failure, or an error above the tolerance.
    pub fn is_wrong(&self) -> bool {
        matches!((self.max_error, self.tolerance), (Some(error), Some(tolerance)) if error > tolerance)
    }
}

/// A number that a logarithm or a quotient can take.
pub(crate) fn positive(x: Option<f64>) -> Option<f64> {
    x.filter(|x| x.is_finite() && *x > 0.0)
}
