//! The suites of `wgattn bench`: which are wanted, and how they are listed.

use super::Args;
use crate::bench::document::Settings;
use crate::bench::suites::{self, Kind};
use crate::cli::Failure;
use crate::numbers::grouped;
use serde_json::{Value, json};

/// The suites that a command line asks for, and the filters that are left for kernels.
///
/// Where nothing at all is asked for, the usual ones follow the rows: a run of certain cases, variants or sizes is about these.
///
/// Errors: options that only rows have, with suites and no kernel.
pub(super) fn wanted(args: &Args) -> Result<(Vec<&'static Kind>, Vec<String>), Failure> {
    let (kinds, filters) = suites::select(&args.filter);
    if args.filter.is_empty() {
        let asked = args.case.is_some() || args.variant.is_some() || !args.sweep().is_empty();
        return Ok((if asked { Vec::new() } else { suites::usual(args.quick) }, filters));
    }
    let of_rows = [
        ("--variant", args.variant.is_some()),
        ("--case", args.case.is_some()),
        ("--landmarks", args.landmarks.is_some()),
        ("--heads", args.heads.is_some()),
        ("--d", args.head_dim.is_some()),
    ];
    match of_rows.iter().find(|(_, given)| *given && filters.is_empty()) {
        Some((name, _)) => Err(Failure(format!(
            "{name}: suites have heads, landmarks and kernels of their own; give --n for their sizes, or name kernels too"
        ))),
        None => Ok((kinds, filters)),
    }
}

/// A suite with its sizes, for people.
pub(super) fn listed(kind: &Kind, settings: &Settings) -> String {
    let sizes: Vec<String> = kind.sizes(settings).iter().map(|n| grouped(f64::from(*n))).collect();
    format!(
        "suite {:<10}  {}: {} at {} {}",
        kind.name,
        kind.title,
        ways(kind).join(", "),
        sizes.join(", "),
        kind.x
    )
}

fn ways(kind: &Kind) -> Vec<&'static str> {
    kind.series().collect()
}

/// The same as JSON.
pub(super) fn listed_json(kind: &Kind, settings: &Settings) -> Value {
    json!({
        "name": kind.name, "title": kind.title, "x": kind.x, "sizes": kind.sizes(settings), "series": ways(kind),
    })
}
