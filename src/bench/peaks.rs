//! What the device can do at best, measured in the same run by the probe kernels.

use super::measure::{Measured, Options, measure};
use super::stats::rate;
use crate::backend::Backend;
use crate::error::Result;
use crate::kernel::KernelSpec;
use crate::kernels::probe::{probe_copy, probe_exp, probe_fma};

/// One roof.
#[derive(Clone, Copy, Debug, Default)]
pub struct Peak {
    /// Work in a second by the device's or the host's clock; `None` where the clock could not see the probe.
    pub per_second: Option<f64>,
    /// Work in a processor second, where the device computes on the CPU.
    pub per_cpu_second: Option<f64>,
}

impl Peak {
    /// The part of the roof that some work reached, by processor seconds where both have them: they do not swell when other
    /// programs take the processor in between.
    pub fn share(&self, work: f64, seconds: f64, cpu_seconds: Option<f64>) -> Option<f64> {
        let by_clock = || rate(work, seconds).zip(self.per_second);
        let by_cpu = cpu_seconds.and_then(|s| rate(work, s)).zip(self.per_cpu_second);
        by_cpu.or_else(by_clock).and_then(|(speed, peak)| rate(speed, peak))
    }
}

/// Roofs of the roofline.
#[derive(Clone, Copy, Debug, Default)]
pub struct Peaks {
    /// Floating-point operations (two per multiply-add).
    pub flop: Peak,
    /// Bytes read and written.
    pub bytes: Peak,
    /// Exponentials.
    pub exp: Peak,
}

impl Peaks {
    /// Runs the probes.
    ///
    /// Errors: as [`measure`].
    pub fn of(backend: &dyn Backend, options: Options) -> Result<Self> {
        let probe = |spec: &'static KernelSpec, work: fn(&Measured) -> f64| -> Result<Peak> {
            let Some(case) = spec.cases.iter().find(|c| c.bench) else { return Ok(Peak::default()) };
            let measured = measure(backend, spec, case, options)?;
            // The best of several runs: a roof is what the device can do when nobody disturbs it.
            Ok(Peak {
                per_second: rate(work(&measured), measured.seconds.min),
                per_cpu_second: measured.cpu_seconds.and_then(|s| rate(work(&measured), s.min)),
            })
        };
        Ok(Self {
            flop: probe(&probe_fma::SPEC, |m| m.cost.flop)?,
            bytes: probe(&probe_copy::SPEC, |m| m.cost.bytes)?,
            exp: probe(&probe_exp::SPEC, |m| m.cost.exp)?,
        })
    }
}
