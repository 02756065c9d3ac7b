//! The photograph that is part of the program: what the explorer shows when nothing else is asked for, and what `cat` means
//! wherever a picture is named and no file is called so.

use crate::vision::image::{ImageError, Photo};
use std::path::Path;

/// The word for it on the command line.
pub const WORD: &str = "cat";

/// Its file, in the public domain.
const FILE: &[u8] = include_bytes!("../../assets/chelsea.png");

/// Name of the file.
const NAME: &str = "chelsea.png";

/// The photograph: 451 × 300 pixels.
///
/// Errors: none, unless the program's own file was replaced when it was built.
pub fn photo() -> Result<Photo, ImageError> {
    Photo::decode(FILE, NAME)
}

/// Whether a word means the built-in photograph: an existing file of that name comes first.
pub fn is_meant(what: &str) -> bool {
    what == WORD && !Path::new(what).exists()
}
