//! `wgattn explore`: the window.

use super::{Failure, say};
use crate::explorer::{ExploreError, Options, run as open};
use std::path::PathBuf;
use std::process::ExitCode;

/// Arguments of `wgattn explore`.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Pictures, folders, videos, `camera`, `screen`, `screen:X,Y,WIDTHxHEIGHT`, `synthetic`, or `cat` [default: cat, the built-in photograph]
    sources: Vec<String>,
    /// Device to compute on: cpu, cuda:0, or the index, name or backend of an adapter [default: the one that draws]
    #[arg(long, value_parser = super::device_word)]
    device: Option<String>,
    #[command(flatten)]
    tune: super::tune::TuneArg,
    /// Views to open side by side, by id; may be given several times
    #[arg(long = "view")]
    views: Vec<String>,
    /// Colours of the window [default: the system's]
    #[arg(long, value_enum)]
    theme: Option<Theme>,
    /// Go back to the session of the last time
    #[arg(long, conflicts_with = "sources")]
    resume: bool,
    /// Go back to the session of a file
    #[arg(long, conflicts_with_all = ["sources", "resume"])]
    session: Option<PathBuf>,
    /// Save a picture of the window, 1280 × 800 points, there once the map is done, and close
    #[arg(long)]
    screenshot: Option<PathBuf>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Theme {
    Dark,
    Light,
}

/// Runs the subcommand. Without a display the exit code is 2: the command cannot be used here at all.
pub(super) fn run(args: &Args) -> Result<Option<ExitCode>, Failure> {
    let known: Vec<&str> = crate::explorer::views::views().iter().map(|v| v.id()).collect();
    if let Some(unknown) = args.views.iter().find(|v| !known.contains(&v.as_str())) {
        return Err(Failure(format!("view {unknown:?}: expected one of {}", known.join(", "))));
    }
    if let Some(target) = &args.screenshot {
        crate::vision::overlay::check_target(target)?;
    }
    let options = Options {
        sources: args.sources.clone(),
        device: args.device.clone(),
        tuning: crate::backend::wgpu::TuningOptions {
            when: args.tune.when(),
            folder: crate::backend::wgpu::cache_folder(),
            listener: Some(super::tune::listener()),
            ..Default::default()
        },
        views: args.views.clone(),
        dark: args.theme.map(|t| t == Theme::Dark),
        screenshot: args.screenshot.clone(),
        keep_session: args.screenshot.is_none(),
        resume: args.resume,
        session: args.session.clone(),
        ..Options::default()
    };
    match open(&options) {
        Ok(()) => Ok(None),
        Err(error @ ExploreError::NoDisplay { .. }) => {
            say(format_args!("error: {error}"));
            Ok(Some(ExitCode::from(2)))
        }
        Err(error) => Err(Failure(error.to_string())),
    }
}
