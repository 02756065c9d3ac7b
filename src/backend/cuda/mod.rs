//! Kernels in CUDA C++: on an NVIDIA card, or on the host, thread by thread, where their logic is to be tested without one.
//!
//! Both run the same schedule: a step is a launch of a source, or a call of a library. Which source, with how many blocks and which
//! bytes of parameters, is `plan.rs`'s business and needs no device.

pub mod driver;
pub mod host;
mod plan;
mod program;
mod record;
mod word;

use super::Backend;
use super::device::Card;
use super::recording::Recording;
use crate::error::Result;
use crate::graph::{Graph, Lowering};
use crate::kernel::Caps;
use crate::tensor::{HostTensor, Tensor};
use record::record;
use word::Asked;

pub(crate) use plan::{Action, CAPS, Launch, param_words, plan};
pub use word::Precision;

/// Whether a word asks for a CUDA device: `cuda`, `cuda:0`, `cuda:0:tf32`, `cuda:host`.
pub fn is_asked(word: &str) -> bool {
    word == "cuda" || word.starts_with("cuda:")
}

/// Opens what a word asks for: the first card, a card by its number, also with products in TF32 or BF16, or the host.
///
/// Errors: [`Error::NoDevice`](crate::error::Error::NoDevice) with what is missing or wrong.
pub fn open(asked: &str) -> Result<Box<dyn Backend>> {
    Ok(match Asked::read(asked)? {
        Asked::Host => Box::new(host::HostBackend::open()?),
        Asked::Card(number, precision) => Box::new(driver::CudaBackend::open(number, precision)?),
    })
}

/// What any card would be told to do for a graph with these inputs, as plain data; no card is needed for it.
///
/// Errors: a graph that does not schedule, or for a part of which no source suits.
pub fn recording(graph: &Graph, inputs: &[(Tensor, &HostTensor)]) -> Result<Recording> {
    let schedule = graph.schedule(Lowering::Cuda(&CAPS))?;
    let actions = schedule.steps.iter().map(|step| plan(&schedule, step, "")).collect::<Result<Vec<_>>>()?;
    Ok(record(&schedule, &actions, inputs))
}

/// What kernels may count on there.
pub fn caps() -> Option<&'static Caps> {
    Some(&CAPS)
}

/// The cards of this machine, `cuda:0` first; or why there are none.
pub fn cards() -> std::result::Result<Vec<Card>, String> {
    driver::cards()
}
