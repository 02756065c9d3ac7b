//! Parameters for a prescribed template.
