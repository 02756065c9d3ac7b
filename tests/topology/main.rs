//! Networks, trees, spectra, walks and distances on the CPU: against stored arrays, other formulas, and their definitions.

#![cfg(feature = "cli")]

mod build;
mod distance;
mod integrate;
mod layout;
mod network;
mod read;
mod shapes;
mod spectrum;
mod tree;
mod walk;
