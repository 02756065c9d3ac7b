//! Numbers behind the explorer's plots that are not a by-product of a map: how the landmark inverse converges
//! ([`trace`]), and how far apart tokens are ([`distances`]). Nothing here draws.

mod distances;
mod trace;

pub use distances::{BINS, distances};
pub use trace::{trace, trace_watched};
