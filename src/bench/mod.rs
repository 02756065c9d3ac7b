//! Timing kernels as users run them, beside what the device can do at best and beside their error.
//!
//! Rows come from the registry: every case marked [`for_bench`](crate::kernel::Case::for_bench) is one. A row holds time, work by
//! second, words loaded by path, the share of the device's own peaks (measured in the same run by the `probe` kernels),
//! and the largest error against the f64 reference: a fast wrong kernel fails. [`run`] does this on several devices and fills a
//! [`document`].

pub mod compare;
pub mod document;
mod expected;
mod flags;
mod html;
mod markdown;
mod masked;
mod measure;
mod operators;
mod overheads;
mod peaks;
mod plan;
pub mod positions;
pub mod published;
mod report;
mod run;
mod scaling;
mod score;
mod stats;
pub mod suites;
mod units;

pub use html::{html, html_comparison};
pub use markdown::markdown;
pub(crate) mod system;

pub use expected::{Check, Checked, Expected, Found, Truths};
pub use flags::{Clock, Flag};
pub use masked::{LARGE, MaskedPoint, fourier_slope};
pub use measure::{Measured, Options, StepWork, Words, measure, measure_with};
pub use operators::{OperatorPoint, Timed, product};
pub use overheads::Overheads;
pub use peaks::{Bound, Ladder, Limit, PathPeaks, Peak, Peaks, Rung};
pub use plan::{Job, LeftOut, Plan, Sweep, TABLES, Wanted, hash, order, parse_sizes, plan};
pub use positions::PositionPoint;
pub use report::Row;
pub use run::{Candidate, Nobody, Open, Watcher, run};
pub use scaling::{Point, Scaling};
pub use score::{origin, rows as reference_rows, score};
pub use stats::{Summary, log_log_slope, rate};

use crate::kernel::{Case, KernelSpec, OnWgpu};
use crate::kernels::KERNELS;

/// Cases to time: kernels whose name contains one of `filters`, cases whose name contains `case`. Probes come only when asked for.
pub fn select(filters: &[String], case: Option<&str>) -> Vec<(&'static KernelSpec, &'static Case)> {
    let kernels = KERNELS.iter().copied().filter(|k| match filters {
        [] => k.family != "probe",
        parts => parts.iter().any(|part| k.name.contains(part.as_str())),
    });
    kernels
        .flat_map(|k| k.cases.iter().map(move |c| (k, c)))
        .filter(|(_, c)| c.bench && case.is_none_or(|part| c.name.contains(part)))
        .collect()
}

/// Names of a kernel's variants; none for composed kernels.
pub fn variants_of(spec: &'static KernelSpec) -> Vec<&'static str> {
    match &spec.wgpu {
        OnWgpu::Shader(list) => list.iter().map(|v| v.name).collect(),
        OnWgpu::Expand(_) => Vec::new(),
    }
}
