//! Commands that run on one device after another, `bench` and `conformance`: which devices are meant, each once, and what is wrong
//! where one of them could not be opened.

use super::{Failure, notice};
use crate::backend::device::{self, Missing};
use crate::error::Error;
use crate::words::one_line;

/// The devices that `--device` and `--backend` ask for, as [`device::open`] wants to be asked, each once; tells what there is none of.
///
/// Errors: as [`device::select`].
pub(super) fn places(asked: &[String], backends: &[String]) -> Result<Vec<String>, Failure> {
    let (places, told) = device::select(&device::list(), asked, backends)?;
    told.iter().for_each(notice);
    Ok(places)
}

/// What a device is called in messages and documents.
pub(super) fn called(place: &str) -> String {
    format!("device {place}")
}

/// A device that could not be opened.
pub(super) fn missing(place: &str, error: &Error) -> Missing {
    Missing { asked: called(place), reason: one_line(error) }
}
