//! Whether kernels' variants are chosen by measuring them, and who is told what comes of it.
//!
//! How it is done on a device stands in `wgpu/tune/`.

use super::DeviceKind;
use std::fmt::Debug;

/// When a device's variants of kernels are chosen by a measured search instead of by its driver's class.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Tuning {
    /// Never. A search submits work and waits, which inside a host's frame would be impolite, so a host has to ask for it.
    #[default]
    Off,
    /// Unless the device computes on the CPU: such drivers take longer to compile a variant than most runs take.
    Auto,
    /// Always.
    On,
}

impl Tuning {
    /// Whether a device of this kind is tuned.
    pub fn applies_to(self, kind: DeviceKind) -> bool {
        match self {
            Self::Off => false,
            Self::Auto => !matches!(kind, DeviceKind::Software | DeviceKind::Reference),
            Self::On => kind != DeviceKind::Reference,
        }
    }
}

impl std::fmt::Display for Tuning {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Off => "off",
            Self::Auto => "auto",
            Self::On => "on",
        })
    }
}

/// Who is told how a search goes, and may change what it sees: tests put their own times and faults in here.
pub trait Listener: Debug + Send + Sync {
    /// Something the user should know: a search cut short, a variant that computes wrongly, choices that cannot be kept.
    fn notice(&self, text: &str);

    /// A run of a variant took so many seconds; what comes back is believed.
    fn time(&self, _kernel: &str, _variant: &str, seconds: f64) -> f64 {
        seconds
    }

    /// The numbers of an output of a variant, before they are compared with those of the default.
    fn result(&self, _kernel: &str, _variant: &str, _numbers: &mut [f64]) {}
}

/// Notices go to the host's own logger.
#[derive(Clone, Copy, Debug, Default)]
pub struct Logged;

impl Listener for Logged {
    fn notice(&self, text: &str) {
        log::warn!("{text}");
    }
}
