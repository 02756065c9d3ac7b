//! The `wgattn` program: parse, run a subcommand, turn errors into one line and an exit code.

use std::process::ExitCode;

fn main() -> ExitCode {
    wgattn::cli::main()
}
