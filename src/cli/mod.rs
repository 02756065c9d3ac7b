//! The command line: one file per subcommand.
//!
//! Results go to stdout, everything else to stderr; with `--json`, stdout is only JSON. Exit codes: 0 done, 1 failed,
//! 2 wrong usage; whoever is ended by a signal has that signal's.

mod bench;
mod conformance;
mod devices;
mod eval;
#[cfg(feature = "explorer")]
mod explore;
mod graph;
mod interrupt;
mod many;
mod map;
mod mask;
mod node_link;
mod on_graph;
mod shaders;
mod spe;
mod tune;

use crate::words::{one_line, plain, told};
use clap::{CommandFactory as _, FromArgMatches as _, Parser, Subcommand};
use std::fmt::Display;
use std::process::ExitCode;

/// Attention of linear cost on any GPU: maps of photographs, kernels on arrays, devices and speed.
#[derive(Debug, Parser)]
#[command(name = "wgattn", version, about, arg_required_else_help = true)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Draw the attention of clicked pixels over photographs
    Map(map::Args),
    /// Draw the weights of a mask over a picture or a grid
    Mask(mask::Args),
    /// Open the explorer: a window with live attention maps
    #[cfg(feature = "explorer")]
    Explore(explore::Args),
    /// List adapters and what they offer
    Devices(devices::Args),
    /// Run any kernel, attention form or mask on arrays from a file
    Eval(eval::Args),
    /// Draw what stochastic position codes make of their template, against the number of realisations
    Spe(spe::Args),
    /// Tell the figures of a network in a file
    Graph(graph::Args),
    /// Time kernels and compare them with what the device can do
    Bench(bench::Args),
    /// Check every kernel on the devices of this machine against the f64 reference
    Conformance(conformance::Args),
    /// Print the joined WGSL of kernels
    Shaders(shaders::Args),
}

/// What stops a subcommand: one line for the user.
#[derive(Debug)]
struct Failure(String);

impl<E: std::error::Error> From<E> for Failure {
    fn from(error: E) -> Self {
        Self(one_line(error))
    }
}

type Outcome = Result<(), Failure>;

/// Something the user should know that is no result.
fn notice(text: impl Display) {
    say(format_args!("note: {text}"));
}

/// A line on stderr. Where that cannot be written there is nobody to tell.
fn say(line: impl Display) {
    use std::io::Write as _;
    let _ = writeln!(std::io::stderr(), "{line}");
}

/// Says what the library logs: its warnings, and whatever `RUST_LOG` asks for, of wgpu too.
fn say_what_is_logged() {
    use std::io::Write as _;
    let mut logger = env_logger::Builder::new();
    logger.filter_module("wgattn", log::LevelFilter::Warn).parse_default_env().format(|line, record| {
        progress("");
        match record.level() {
            log::Level::Warn if record.target().starts_with("wgattn") => {
                writeln!(line, "note: {}", record.args())
            }
            level => writeln!(line, "{level} {}: {}", record.target(), record.args()),
        }
    });
    // Whoever calls `main` from a program of theirs may have a logger already.
    let _ = logger.try_init();
}

/// Refuses to write a result over its own input.
fn keep_input(input: &std::path::Path, output: &std::path::Path) -> Outcome {
    let same = |a: &std::path::Path| std::fs::canonicalize(a).ok();
    match (same(input), same(output)) {
        (Some(a), Some(b)) if a == b => Err(Failure(format!(
            "{}: is the input itself; choose another output, so that the input is not lost",
            output.display()
        ))),
        _ => Ok(()),
    }
}

/// Why a result could not be written.
fn unwritten(out: &std::path::Path, error: &(dyn std::error::Error + 'static)) -> Failure {
    let why = std::iter::successors(Some(error), |e| e.source()).find_map(|e| match e.downcast_ref() {
        Some(image::ImageError::IoError(io)) => Some(io),
        _ => e.downcast_ref::<std::io::Error>(),
    });
    Failure(format!("writing {}: {}", out.display(), why.map_or_else(|| plain(error), told)))
}

/// Says on a terminal what is being done, and wipes it out again.
fn progress(text: &str) {
    use std::io::{IsTerminal as _, Write as _};
    let mut err = std::io::stderr();
    if err.is_terminal() {
        let _ = write!(err, "\r\x1b[2K{text}");
        let _ = err.flush();
    }
}

/// Says that something begins which takes a while: on a terminal until the next such word, elsewhere as a line.
fn stage(what: &str) {
    use std::io::IsTerminal as _;
    match std::io::stderr().is_terminal() {
        true => progress(what),
        false => say(what),
    }
}

/// Prints a line of results; a closed pipe ends the program quietly, as in any filter.
fn print_line(text: &str) -> Outcome {
    use std::io::Write as _;
    match writeln!(std::io::stdout(), "{text}") {
        Err(e) if e.kind() != std::io::ErrorKind::BrokenPipe => {
            Err(Failure(format!("writing to standard output: {}", told(&e))))
        }
        _ => Ok(()),
    }
}

/// A word that asks for a device. An empty one, as an unset variable of a script leaves it, is part of every name.
fn device_word(text: &str) -> Result<String, String> {
    match text.trim().is_empty() {
        false => Ok(text.into()),
        true => {
            let expected = "expected auto, cpu, cuda:0, or the index, name or backend of an adapter";
            Err(format!("{expected}; see `wgattn devices`, or leave --device out"))
        }
    }
}

/// Opens a device and tells what there is to tell about it.
fn open_device(asked: &str, tune: tune::TuneArg) -> Result<Box<dyn crate::backend::Backend>, Failure> {
    let opened = tune.open(asked)?;
    opened.notices.iter().for_each(notice);
    Ok(opened.backend)
}

/// Reads a command line.
///
/// A negative number after an option is its value, which then is refused with what the option takes, instead of an option that nobody
/// knows.
fn parsed<T: Into<std::ffi::OsString> + Clone>(
    words: impl IntoIterator<Item = T>,
) -> Result<Cli, clap::Error> {
    let negative = |arg: clap::Arg| match !arg.is_positional() && arg.get_action().takes_values() {
        true => arg.allow_negative_numbers(true),
        false => arg,
    };
    let command = Cli::command().mut_subcommands(|command| {
        command.mut_args(negative).mut_subcommands(|command| command.mut_args(negative))
    });
    let mut matches = command.try_get_matches_from(words)?;
    Cli::from_arg_matches_mut(&mut matches)
}

/// What clap has to say: help to stdout, or what is wrong in one line before the usage.
fn usage(error: &clap::Error) -> ExitCode {
    if !error.use_stderr() {
        // A closed pipe ends help quietly.
        let _ = error.print();
        return ExitCode::SUCCESS;
    }
    let text = error.to_string();
    let (what, rest) = text.split_once("\n\n").unwrap_or((&text, ""));
    // Whoever writes a negative number does not mean a file or a filter of that name.
    let rest = rest.lines().filter(|line| !line.trim_start().starts_with("tip: to pass '-"));
    let rest = rest.skip_while(|line| line.is_empty()).collect::<Vec<_>>().join("\n");
    say(format_args!("{}\n\n{}", what.lines().map(str::trim).collect::<Vec<_>>().join(" "), rest.trim_end()));
    ExitCode::from(2)
}

/// What `wgattn map` computes unless told otherwise, for those who write its command lines.
#[cfg(feature = "explorer")]
pub(crate) fn map_defaults() -> Result<crate::vision::scene::SceneOptions, String> {
    map_options(&["picture.png".into(), "--at".into(), "0,0".into()])
}

/// What `wgattn map` computes with these arguments.
///
/// Errors: as the command says them.
#[cfg(feature = "explorer")]
pub(crate) fn map_options(arguments: &[String]) -> Result<crate::vision::scene::SceneOptions, String> {
    let words = ["wgattn", "map"].into_iter().chain(arguments.iter().map(String::as_str));
    match parsed(words).map_err(|e| e.to_string())?.command {
        Command::Map(args) => args.options().map_err(|Failure(why)| why),
        _ => Err("not a map".into()),
    }
}

/// Runs the program with the process's arguments.
pub fn main() -> ExitCode {
    let cli = match parsed(std::env::args_os()) {
        Ok(cli) => cli,
        Err(e) => return usage(&e),
    };
    say_what_is_logged();
    let outcome = match cli.command {
        Command::Map(args) => map::run(&args),
        Command::Mask(args) => mask::run(&args),
        #[cfg(feature = "explorer")]
        Command::Explore(args) => match explore::run(&args) {
            Ok(Some(code)) => return code,
            other => other.map(drop),
        },
        Command::Devices(args) => devices::run(&args),
        Command::Eval(args) => eval::run(&args),
        Command::Spe(args) => spe::run(&args),
        Command::Graph(args) => graph::run(&args),
        Command::Bench(args) => bench::run(&args),
        Command::Conformance(args) => conformance::run(&args),
        Command::Shaders(args) => shaders::run(&args),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(Failure(message)) => {
            // A command that has reported each failure by itself has nothing to add.
            if !message.is_empty() {
                say(format_args!("error: {message}"));
            }
            ExitCode::FAILURE
        }
    }
}
