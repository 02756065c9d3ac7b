//! What can go wrong with a source. Every message is one line: what, where, expected, got, remedy.

use super::pixels::PixelError;
use crate::vision::image::ImageError;

/// Why a source, or one of its pictures, cannot be had.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SourceError {
    /// A picture file.
    #[error(transparent)]
    Image(#[from] ImageError),
    /// Samples of one frame of a camera.
    #[error("frame {index} of {name}: {error}")]
    Pixels {
        /// Title of the source.
        name: String,
        /// Number of the frame.
        index: u64,
        /// What is wrong with its samples.
        error: PixelError,
    },
    /// The system refuses.
    #[error("cannot read {what}: {reason}; {remedy}")]
    Read {
        /// File, folder or device.
        what: String,
        /// The system's reason.
        reason: String,
        /// What to do about it.
        remedy: &'static str,
    },
    /// A folder or pattern without pictures.
    #[error(
        "{what}: no pictures there (png, jpg, webp, gif, bmp, tiff); name a folder or pattern that has some"
    )]
    NoPictures {
        /// Folder or pattern.
        what: String,
    },
    /// An argument of a source.
    #[error("{what}: expected {expected}")]
    Argument {
        /// The argument as given.
        what: String,
        /// What it should look like.
        expected: String,
    },
    /// A picture past the end.
    #[error("{name}: expected a frame from 0 to {last}, got {index}")]
    NoFrame {
        /// Title of the source.
        name: String,
        /// Number asked for.
        index: u64,
        /// Number of the last frame.
        last: u64,
    },
    /// A video or animation that cannot be followed.
    #[error("{name}, frame {index}: {detail}; make the file again")]
    Damaged {
        /// Title of the source.
        name: String,
        /// Number of the frame that cannot be had.
        index: u64,
        /// What is wrong.
        detail: String,
    },
    /// Something that is not done here.
    #[error("{what}: {reason}; {remedy}")]
    Unsupported {
        /// Source or request.
        what: String,
        /// Why not.
        reason: String,
        /// What to do instead.
        remedy: &'static str,
    },
    /// A program that is needed and not there.
    #[error("{what}: the program `{program}` is needed to read or write it and was not found; {remedy}")]
    NoProgram {
        /// File.
        what: String,
        /// Program.
        program: String,
        /// How to get it.
        remedy: &'static str,
    },
    /// A live source that has gone.
    #[error("{name} is gone: {reason}; connect it and open it again")]
    Lost {
        /// Title of the source.
        name: String,
        /// What the system says.
        reason: String,
    },
}

impl SourceError {
    /// A live source was asked for a certain frame.
    pub(super) fn live(name: &str, index: u64) -> Self {
        Self::Unsupported {
            what: name.to_owned(),
            reason: format!("it is live, so frame {index} cannot be gone to"),
            remedy: "pause it, or record a video and open the file",
        }
    }
}
