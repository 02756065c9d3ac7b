//! Sources of pictures.
