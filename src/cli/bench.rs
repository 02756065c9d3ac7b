//! `wgattn bench`.

use super::Outcome;

/// Arguments of `wgattn bench`.
#[derive(Debug, clap::Args)]
pub(super) struct Args {}

/// Runs the subcommand.
pub(super) fn run(_: &Args) -> Outcome {
    Ok(())
}
