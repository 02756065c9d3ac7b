//! Kernels in CUDA C++: on an NVIDIA card, or on the host, thread by thread, where their logic is to be tested without one.
//!
//! Both run the same schedule: a step is a launch of a source, or a call of a library. Which source, with how many blocks and which
//! bytes of parameters, is [`plan`]'s business and needs no device.

pub mod driver;
pub mod host;
mod plan;

pub(crate) use plan::{Action, CAPS, Launch, param_bytes, plan};
