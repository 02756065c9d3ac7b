//! `--tune`: whether the devices that a command opens choose their variants of kernels by measuring them.

use super::{notice, progress};
use crate::backend::device::{self, Opened};
use crate::backend::{Listener, Tuning};
use crate::error::Result;
use std::sync::Arc;

/// The flag.
#[derive(Clone, Copy, Debug, clap::Args)]
pub(super) struct TuneArg {
    /// Choose among the variants of kernels by short trials, which are remembered on disk: auto (unless the device computes on the CPU),
    /// on or off
    #[arg(long, value_enum, default_value_t = When::Auto, value_name = "WHEN", hide_possible_values = true)]
    tune: When,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum When {
    Auto,
    On,
    Off,
}

/// Notices go to stderr, as all that is no result.
#[derive(Debug)]
struct Told;

impl Listener for Told {
    fn notice(&self, text: &str) {
        progress("");
        notice(text);
    }
}

impl TuneArg {
    /// When to do it.
    pub(super) fn when(self) -> Tuning {
        match self.tune {
            When::Auto => Tuning::Auto,
            When::On => Tuning::On,
            When::Off => Tuning::Off,
        }
    }

    /// Opens a device.
    pub(super) fn open(self, asked: &str) -> Result<Opened> {
        device::open_tuned(asked, self.when(), Some(listener()))
    }
}

/// Who says what tuning has to say.
pub(super) fn listener() -> Arc<dyn Listener> {
    Arc::new(Told)
}
