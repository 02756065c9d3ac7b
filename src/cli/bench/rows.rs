//! The rows of `wgattn bench`: kernels of the list on one or several devices, printed and exported as they come.

use super::{Args, compare, device_line, suites};
use crate::backend::device::{Missing, full_name};
use crate::backend::{Backend, DeviceKind};
use crate::bench::compare::{Options, against_baseline};
use crate::bench::document::{Document, Settings};
use crate::bench::published::{Document as Published, Point, Suite};
use crate::bench::{self, Candidate, Job, LeftOut, Plan, Row, Sweep, Wanted, Watcher};
use crate::cli::{Failure, Outcome, many, notice, print_line, progress, stage, unwritten};
use crate::error::Error;
use crate::whole_file::{check_target, write_whole};
use crate::words::counted;
use serde_json::json;
use std::io::Write as _;
use std::path::PathBuf;

/// What a file holds, by its suffix.
#[derive(Clone, Copy, Debug)]
enum Format {
    Json,
    Csv,
    Html,
    Markdown,
}

/// A file that is there from the beginning of a run and is written anew after every row, as a whole: whenever a run ends, also by a signal,
/// it holds what was measured until then.
#[derive(Debug)]
struct Export {
    path: PathBuf,
    format: Format,
}

impl Export {
    /// A file that can be written; nothing is there yet.
    fn to(path: PathBuf) -> Result<Self, Failure> {
        let suffix = path.extension().map(|s| s.to_string_lossy().to_lowercase());
        let format = match suffix.as_deref() {
            Some("json") => Format::Json,
            Some("csv") => Format::Csv,
            Some("html") => Format::Html,
            Some("md") => Format::Markdown,
            _ => {
                return Err(Failure(format!(
                    "--export {}: expected a name that ends in .json, .csv, .html or .md; rename it",
                    path.display()
                )));
            }
        };
        // Refused before minutes of work.
        check_target(&path).map_err(|e| unwritten(&path, &e))?;
        Ok(Self { path, format })
    }

    fn write(&self, document: &Document) -> Outcome {
        let text = match self.format {
            Format::Json => serde_json::to_string_pretty(&document.json())? + "\n",
            Format::Csv => document.csv(),
            Format::Html => bench::html(&document.json(), document.baseline.as_ref())?,
            Format::Markdown => bench::markdown(&document.json(), document.baseline.as_ref())?,
        };
        write_whole(&self.path, |mut file| file.write_all(text.as_bytes()))
            .map_err(|e| unwritten(&self.path, &e))
    }
}

/// Prints and exports a run as it goes on.
struct Printer {
    json: bool,
    exports: Vec<Export>,
    /// What could not be written, the first time.
    failed: Option<Failure>,
}

impl Printer {
    fn keep(&mut self, outcome: Outcome) {
        if let Err(failure) = outcome {
            self.failed.get_or_insert(failure);
        }
    }

    fn line(&mut self, text: &str) {
        if !self.json {
            let outcome = print_line(text);
            self.keep(outcome);
        }
    }

    fn export(&mut self, document: &Document) {
        let outcomes: Vec<Outcome> = self.exports.iter().map(|e| e.write(document)).collect();
        outcomes.into_iter().for_each(|outcome| self.keep(outcome));
    }
}

impl Watcher for Printer {
    fn opened(&mut self, backend: &dyn Backend, again: bool) {
        progress("");
        match again {
            true => notice(format_args!("{} was lost and is opened again", backend.info().name)),
            false => self.line(&device_line(backend)),
        }
    }

    fn begun(&mut self, document: &Document) {
        self.export(document);
    }

    fn stage(&mut self, what: &str) {
        stage(what);
    }

    fn next(&mut self, what: &str) {
        progress(what);
    }

    fn notice(&mut self, text: &str) {
        progress("");
        notice(text);
    }

    fn peaks(&mut self, document: &Document) {
        progress("");
        if let Some(device) = document.devices.last().filter(|d| d.info.kind != DeviceKind::Reference) {
            self.line(&device.peaks.text());
        }
        self.export(document);
    }

    fn row(&mut self, document: &Document, row: &Row) {
        progress("");
        if let Some(device) = document.devices.last() {
            self.line(&row.text(&device.peaks));
        }
        self.export(document);
    }

    fn point(&mut self, document: &Document, suite: &Suite, series: &str, point: &Point) {
        progress("");
        self.line(&bench::suites::point_text(suite, series, point));
        self.export(document);
    }

    fn suite(&mut self, document: &Document, suite: &Suite) {
        progress("");
        let on_cpu = document.devices.last().is_some_and(|d| d.info.kind >= DeviceKind::Software);
        bench::suites::summary(on_cpu, suite).iter().for_each(|told| self.line(told));
    }
}

impl Args {
    pub(super) fn sweep(&self) -> Sweep {
        let sizes = |list: &Option<Sizes>| list.as_ref().map_or_else(Vec::new, |s| s.0.clone());
        Sweep {
            tokens: sizes(&self.n),
            landmarks: sizes(&self.landmarks),
            heads: sizes(&self.heads),
            head_dim: sizes(&self.head_dim),
        }
    }

    /// The rows that are wanted beside suites.
    fn wanted(&self, filters: Vec<String>) -> Wanted {
        Wanted {
            filters,
            case: self.case.clone(),
            variant: self.variant.clone(),
            quick: self.quick,
            sweep: self.sweep(),
        }
    }

    /// The rows to run and what is left out of them, and the suites after them.
    fn plan(&self) -> Result<(Plan, Vec<&'static bench::suites::Kind>), Failure> {
        let (suites, filters) = suites::wanted(self)?;
        // Who names suites only wants no rows.
        let only_suites = !self.filter.is_empty() && filters.is_empty();
        let plan = if only_suites { Plan::default() } else { bench::plan(&self.wanted(filters))? };
        Ok((plan, suites))
    }

    fn settings(&self, suites: Vec<&'static bench::suites::Kind>) -> Settings {
        let seed = || {
            let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
            now.map_or(1, |d| u64::from(d.subsec_nanos()) ^ d.as_secs())
        };
        Settings {
            quick: self.quick,
            seconds: self.seconds.unwrap_or(if self.quick { 0.2 } else { 1.0 }),
            runs: if self.quick { 5 } else { 10 },
            order_seed: self.order_seed.unwrap_or_else(seed),
            filter: Some(self.filter.join(" ")).filter(|f| !f.is_empty()),
            case: self.case.clone(),
            cool_down_seconds: self.cool_down,
            max_dispatch_ms: self.max_dispatch_ms,
            suite_sizes: if suites.is_empty() { Vec::new() } else { self.sweep().tokens },
            suites,
            tuning: self.tune.when(),
        }
    }
}

/// Sizes as they are written on the command line.
#[derive(Clone, Debug)]
pub(super) struct Sizes(Vec<u32>);

/// Reads sizes.
pub(super) fn parse_sizes(text: &str) -> Result<Sizes, String> {
    bench::parse_sizes(text).map(Sizes)
}

/// The devices that were asked for, each able to be opened as often as need be.
fn candidates(args: &Args) -> Result<Vec<Candidate<'static>>, Failure> {
    let places = many::places(&args.device, &args.backend)?;
    if let Some(place) = places.iter().find(|place| place.starts_with("cuda:host")) {
        let reason = "says nothing about speed: it runs threads one after another, for `wgattn conformance`; ask for cuda:0";
        return Err(Error::NoDevice { asked: place.clone(), reason: reason.into() }.into());
    }
    let candidate = |asked: String| {
        let (place, tune) = (asked.clone(), args.tune);
        let mut told = false;
        let open = move || {
            let opened = tune.open(&place)?;
            if !std::mem::replace(&mut told, true) {
                opened.notices.iter().for_each(notice);
            }
            let facts = opened.facts();
            Ok((opened.backend, facts))
        };
        Candidate { asked: many::called(&asked), open: Box::new(open) }
    };
    Ok(places.into_iter().map(candidate).collect())
}

/// Prints what would run.
pub(super) fn list(args: &Args) -> Outcome {
    let (Plan { jobs, left_out }, kinds) = args.plan()?;
    let settings = args.settings(kinds);
    let reference = bench::reference_rows();
    let is_quick = |job: &Job| {
        job.variant.is_none() && reference.iter().any(|(s, c)| s.name == job.spec.name && c.name == job.name)
    };
    if args.json {
        let row = |job: &Job| {
            let sizes: serde_json::Map<_, _> = job.dims().iter().map(|(n, s)| (n.into(), json!(s))).collect();
            json!({
                "kernel": job.spec.name, "case": job.name, "variant": job.variant, "sizes": sizes,
                "quick": is_quick(job),
            })
        };
        let suites = settings.suites.iter().map(|kind| suites::listed_json(kind, &settings));
        let all = json!({
            "rows": jobs.iter().map(row).collect::<Vec<_>>(),
            "left_out": left_out
                .iter()
                .map(|l| json!({ "case": l.case, "sizes": l.sizes, "reason": l.why }))
                .collect::<Vec<_>>(),
            "suites": suites.collect::<Vec<_>>(),
        });
        return print_line(&serde_json::to_string_pretty(&all)?);
    }
    LeftOut::told(&left_out).iter().for_each(notice);
    for job in &jobs {
        let sizes: Vec<String> = job.dims().iter().map(|(n, s)| format!("{n}={s}")).collect();
        let quick = if is_quick(job) { "  (quick)" } else { "" };
        print_line(&format!("{:<44}  {}{quick}", job.label(), sizes.join(" ")))?;
    }
    if !jobs.is_empty() {
        print_line(&counted(jobs.len(), "row", "rows"))?;
    }
    settings.suites.iter().try_for_each(|kind| print_line(&suites::listed(kind, &settings)))
}

/// Prints what the numbers mean.
pub(super) fn describe() -> Outcome {
    print_line(include_str!("describe.txt").replace("{origin}", &bench::origin()).trim_end())
}

/// Measures what was asked for.
pub(super) fn run(args: &Args) -> Outcome {
    let (Plan { jobs, left_out }, kinds) = args.plan()?;
    let exports = args.export.iter().cloned().map(Export::to).collect::<Result<Vec<_>, _>>()?;
    // Read before minutes of work, too.
    let baseline = args.baseline.as_deref().map(compare::load).transpose()?;
    if let (Some(file), Some(value)) = (&args.baseline, &baseline) {
        Published::read(&file.display().to_string(), value)?;
        let same = |export: &&PathBuf| match (export.canonicalize(), file.canonicalize()) {
            (Ok(export), Ok(file)) => export == file,
            _ => false,
        };
        if let Some(export) = args.export.iter().find(same) {
            let remedy = "export to another file: this one is what the run is compared with";
            return Err(Error::value(
                "--export",
                "a file other than the baseline",
                export.display().to_string(),
                remedy,
            )
            .into());
        }
    }
    let mut candidates = candidates(args)?;
    let settings = args.settings(kinds);
    LeftOut::told(&left_out).iter().for_each(notice);
    if !args.json {
        let mut parts = Vec::new();
        if !jobs.is_empty() {
            let rows = counted(jobs.len(), "row", "rows");
            parts.push(format!("{rows} in random order (--order-seed {})", settings.order_seed));
        }
        parts.extend(settings.suites.iter().map(|kind| format!("suite {}", kind.name)));
        print_line(&format!("{}; `wgattn bench --describe` says what the numbers mean", parts.join(", ")))?;
    }
    let mut printer = Printer { json: args.json, exports, failed: None };
    let all_variants = args.variant.as_deref() == Some("all");
    let document = Document::begun(settings);
    let mut document = bench::run(document, &mut candidates, &jobs, all_variants, &mut printer);
    let compared = match (&args.baseline, baseline) {
        (Some(file), Some(baseline)) => {
            let name = file.display().to_string();
            let compared = against_baseline(&name, &baseline, &document.json(), Options::default());
            compared.map(|comparison| document.baseline = Some(comparison))
        }
        _ => Ok(()),
    };
    // What was measured is written whether or not it can be compared.
    let outcome = finish(args, &document, printer);
    compared?;
    if let Some(comparison) = &document.baseline {
        // The document alone goes to stdout where JSON is asked for.
        match args.json {
            true => notice(comparison.text()),
            false => print_line(&comparison.text())?,
        }
    }
    outcome
}

/// The last words: scores, the document, and what failed.
fn finish(args: &Args, document: &Document, mut printer: Printer) -> Outcome {
    for device in &document.devices {
        if let Some(score) = device.score {
            let score = format!(
                "score of {}: {score:.2} (1 is {})",
                full_name(&device.info, &device.facts),
                bench::origin()
            );
            printer.line(&score);
        }
    }
    printer.export(document);
    if args.json {
        print_line(&serde_json::to_string_pretty(&document.json())?)?;
    }
    if let Some(failure) = printer.failed {
        return Err(failure);
    }
    let failed = document.rows().filter(|r| r.failure().is_some()).count();
    let mut reasons = Vec::new();
    if failed > 0 {
        reasons.push(format!("{failed} of {} failed", counted(document.rows().count(), "row", "rows")));
    }
    let points =
        || document.devices.iter().flat_map(|d| &d.suites).flat_map(|s| &s.series).flat_map(|s| &s.points);
    let failed = points().filter(|p| p.failure.is_some()).count();
    if failed > 0 {
        reasons.push(format!("{failed} of {} failed", counted(points().count(), "point", "points")));
    }
    reasons.extend(Missing::failure(&document.left_out));
    if reasons.is_empty() { Ok(()) } else { Err(Failure(reasons.join("; "))) }
}
