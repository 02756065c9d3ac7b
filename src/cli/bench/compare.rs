//! `wgattn bench compare`: exported benchmarks side by side, as a table, as JSON, and as an HTML file.

use crate::bench::compare::{Comparison, Options, compare};
use crate::bench::{html_comparison, published};
use crate::cli::{Failure, Outcome, keep_input, print_line, unwritten};
use crate::whole_file::{check_target, read_input, write_whole};
use crate::words::{counted, told};
use serde_json::Value;
use std::io::Write as _;
use std::path::{Path, PathBuf};

/// What `wgattn bench` does besides measuring; no kernel is called like one of these.
#[derive(Debug, clap::Subcommand)]
pub(super) enum Command {
    /// Put exported benchmarks side by side, with ratios to the first and what differs beyond noise
    Compare(Args),
}

/// Arguments of `wgattn bench compare`.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// What `wgattn bench --export` wrote, .json or .html; the others are compared with the first. A single one: its devices with each
    /// other
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    /// Print JSON
    #[arg(long)]
    json: bool,
    /// Also write the comparison as an HTML file that opens offline
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    /// Least change of a median that counts, in percent (5 if not given, 15 for processor seconds of devices that compute on the CPU)
    #[arg(long, value_name = "PERCENT", value_parser = percent)]
    least: Option<f64>,
    /// Exit with 1 also if a row is slower beyond noise, or fails and did not in the first. Results that are wrong, and files that have
    /// nothing in common with the first, always end with 1
    #[arg(long)]
    fail_on_regression: bool,
}

fn percent(text: &str) -> Result<f64, String> {
    let share = text.trim_end_matches('%').parse::<f64>().map_err(|e| e.to_string())? / 100.0;
    if (0.0..=100.0).contains(&share) { Ok(share) } else { Err("expected 0 to 10000".into()) }
}

/// Larger files are no benchmark: a whole run is some hundred kilobytes.
const MOST_BYTES: u64 = 256 << 20;

/// Reads an exported benchmark, for a comparison or as a baseline.
pub(super) fn load(path: &Path) -> Result<Value, Failure> {
    let bytes =
        read_input(path, MOST_BYTES).map_err(|e| Failure(format!("{}: {}", path.display(), told(&e))))?;
    Ok(published::parse_bytes(&path.display().to_string(), &bytes)?)
}

/// Names of columns: those of the files, with their folders where these alone tell them apart.
fn labels(files: &[PathBuf]) -> Vec<String> {
    let short: Vec<String> = files
        .iter()
        .map(|f| f.file_name().map_or_else(|| f.display().to_string(), |n| n.to_string_lossy().into_owned()))
        .collect();
    let is_twice = |name: &String| short.iter().filter(|other| *other == name).count() > 1;
    let label = |(name, file): (&String, &PathBuf)| {
        if is_twice(name) { file.display().to_string() } else { name.clone() }
    };
    short.iter().zip(files).map(label).collect()
}

/// Runs the subcommand.
pub(super) fn run(args: &Args) -> Outcome {
    if let Some(path) = &args.html {
        args.files.iter().try_for_each(|file| keep_input(file, path))?;
        if !path.extension().is_some_and(|suffix| suffix.eq_ignore_ascii_case("html")) {
            return Err(Failure(format!(
                "--html {}: expected a name that ends in .html; rename it",
                path.display()
            )));
        }
        check_target(path).map_err(|e| unwritten(path, &e))?;
    }
    let values: Vec<Value> = args.files.iter().map(|f| load(f)).collect::<Result<_, _>>()?;
    let documents: Vec<(String, Value)> = labels(&args.files).into_iter().zip(values).collect();
    let comparison = compare(&documents, Options { least: args.least })?;
    if let Some(path) = &args.html {
        let text = html_comparison(&comparison);
        write_whole(path, |mut file| file.write_all(text.as_bytes())).map_err(|e| unwritten(path, &e))?;
    }
    match args.json {
        true => print_line(&serde_json::to_string_pretty(&comparison.json())?)?,
        false => print_line(&comparison.text())?,
    }
    outcome(&comparison, args.fail_on_regression)
}

/// Fails where a result is wrong or there is nothing to compare, and, if so asked, where something became worse.
pub(super) fn outcome(comparison: &Comparison, fail_on_regression: bool) -> Outcome {
    let mut reasons = Vec::new();
    match comparison.wrong() {
        0 => {}
        wrong => reasons.push(format!(
            "{} wrong: the error is larger than it may be",
            counted(wrong, "result is", "results are")
        )),
    }
    match comparison.regressions() {
        n if n > 0 && fail_on_regression => {
            reasons.push(format!("{} beyond noise", counted(n, "regression", "regressions")));
        }
        _ => {}
    }
    if !comparison.apart.is_empty() {
        reasons.push(format!(
            "no row or suite in common with the first: {}; measure the same kernels and suites on both",
            comparison.apart.join(", ")
        ));
    }
    if reasons.is_empty() { Ok(()) } else { Err(Failure(reasons.join("; "))) }
}
