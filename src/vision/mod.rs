//! From a photograph to tokens and features, and from a map back to a picture.

pub mod bandwidth;
pub mod colour;
mod columns;
mod decode;
pub mod features;
pub mod grid;
pub mod image;
pub(crate) mod letters;
pub mod overlay;
pub mod palette;
pub mod scene;
