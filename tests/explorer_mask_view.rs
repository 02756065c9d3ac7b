//! Drives the mask view.
