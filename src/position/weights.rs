//! Parameters from files.
