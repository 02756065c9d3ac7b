//! Timing kernels as users run them, beside what the device can do at best and beside their error.
//!
//! Rows come from the registry: every case marked [`for_bench`](crate::kernel::Case::for_bench) is one. A row holds time, work by
//! second, words loaded by path, the share of the device's own peaks (measured in the same run by the `probe` kernels),
//! and the largest error against the f64 reference: a fast wrong kernel shows.

pub mod compare;
mod html;
mod markdown;
mod masked;
mod measure;
mod operators;
mod peaks;
pub mod positions;
pub mod published;
mod report;
mod scaling;
mod stats;
mod units;

pub use html::{html, html_comparison};
pub use markdown::markdown;
pub use masked::{LARGE, MaskedPoint, fourier_slope};
pub use measure::{Checked, Measured, Options, StepWork, Words, largest_error, measure};
pub use operators::{OperatorPoint, Timed, product};
pub use peaks::{Bound, Limit, PathPeaks, Peak, Peaks};
pub use positions::PositionPoint;
pub use report::{Row, csv};
pub use scaling::{Point, Scaling};
pub use stats::{Summary, log_log_slope, rate};

use crate::kernel::{Case, KernelSpec, OnWgpu};
use crate::kernels::KERNELS;

/// Cases to time: kernels whose name contains `filter`, cases whose name contains `case`. Probes come only when asked for.
pub fn select(filter: Option<&str>, case: Option<&str>) -> Vec<(&'static KernelSpec, &'static Case)> {
    let holds = |name: &str, part: Option<&str>| part.is_none_or(|p| name.contains(p));
    let kernels = KERNELS.iter().copied().filter(|k| match filter {
        Some(part) => k.name.contains(part),
        None => k.family != "probe",
    });
    kernels
        .flat_map(|k| k.cases.iter().map(move |c| (k, c)))
        .filter(|(_, c)| c.bench && holds(c.name, case))
        .collect()
}

/// Names of a kernel's variants; none for composed kernels.
pub fn variants_of(spec: &'static KernelSpec) -> Vec<&'static str> {
    match &spec.wgpu {
        OnWgpu::Shader(list) => list.iter().map(|v| v.name).collect(),
        OnWgpu::Expand(_) => Vec::new(),
    }
}
