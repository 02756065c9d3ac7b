//! `wgattn conformance`: every kernel's test cases on the user's own devices, judged as the project's tests judge them.

use super::interrupt::{self, Interrupt};
use super::{Failure, Outcome, many, notice, print_line, progress, say, stage, unwritten};
use crate::backend::cpu::CpuBackend;
use crate::backend::cuda;
use crate::backend::device::{self, Missing};
use crate::conformance::{self, Device, Document, Dump, Finished, Keep, Open, Watcher};
use crate::error::{Error, Result as Attempt};
use crate::kernel::{Case, KernelSpec};
use crate::kernels::KERNELS;
use crate::whole_file::{check_target, write_whole};
use crate::words::{closest, counted, nearest, plain};
use serde_json::Value;
use std::io::{IsTerminal as _, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How often the file of results is written anew, which takes longer the more rows there are.
const WRITTEN_EVERY: Duration = Duration::from_secs(1);

/// How often a line tells how far a run is where there is no terminal.
const TOLD_EVERY: Duration = Duration::from_secs(10);

/// Arguments of `wgattn conformance`.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Parts of kernels' names, or KERNEL/CASE with a part of each; everything if left out
    filter: Vec<String>,
    /// auto, all, cpu, cuda:0, cuda:host (CUDA sources on the CPU), or the index, name or backend of an adapter (see `wgattn devices`);
    /// several with commas
    #[arg(long, value_delimiter = ',', value_parser = super::device_word)]
    device: Vec<String>,
    /// Only devices of these backends: vulkan, dx12, metal, gl, cuda, cpu; several with commas. Without --device, all of them
    #[arg(long, value_delimiter = ',')]
    backend: Vec<String>,
    /// Print JSON
    #[arg(long)]
    json: bool,
    /// Also write the results as JSON, from the beginning and anew about every second
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// Write a reproduction of each failing case into a new folder, to attach to a report to the driver's authors
    #[arg(long, value_name = "DIR")]
    dump: Option<PathBuf>,
    /// Write reproductions of cases that pass as well
    #[arg(long, requires = "dump")]
    dump_all: bool,
    /// Seconds after which a case is given up, and the device with it: a driver that hangs does not hang this program. Opening a device may
    /// take as long
    #[arg(long, value_name = "SECONDS", default_value_t = conformance::MOST_CASE_SECONDS, value_parser = parse_seconds)]
    max_case_seconds: f64,
    /// Write a page into a new folder that runs the suite in any browser with WebGPU, and run nothing here
    #[arg(long, value_name = "DIR", conflicts_with_all = ["device", "backend", "json", "out", "dump", "max_case_seconds"])]
    web: Option<PathBuf>,
}

type Cases = [(&'static KernelSpec, &'static Case)];

fn parse_seconds(text: &str) -> Result<f64, String> {
    let seconds = text.parse::<f64>().map_err(|e| e.to_string())?;
    match (0.1..=86_400.0).contains(&seconds) {
        true => Ok(seconds),
        false => Err("expected 0.1 to 86400".into()),
    }
}

/// Prints and writes a run as it goes on.
struct Printer<'a> {
    args: &'a Args,
    interrupt: &'a Interrupt,
    /// Whether the machine has several adapters, so that each is told with its place.
    several: bool,
    document: Document,
    /// Devices that are through.
    done: Vec<Device>,
    dump: Option<Dump>,
    /// What could not be written, the first time.
    failed: Option<Failure>,
    /// When the file of results was written last.
    written: Instant,
    /// When was told how far the run is.
    told: Instant,
    /// Cases done, of how many, on the device that runs.
    so_far: (usize, usize),
    /// Whether the interrupt was told.
    heard: bool,
}

impl Printer<'_> {
    fn note(&mut self, outcome: Outcome) {
        if let Err(failure) = outcome {
            self.failed.get_or_insert(failure);
        }
    }

    fn json(&self, running: Option<&Device>) -> Value {
        self.document.json(self.done.iter().chain(running))
    }

    /// Writes the file of results, with those of the device that runs.
    fn write(&mut self, running: Option<&Device>) {
        let Some(path) = &self.args.out else { return };
        let written =
            serde_json::to_string_pretty(&self.json(running)).map_err(Failure::from).and_then(|text| {
                write_whole(path, |mut file| writeln!(file, "{text}")).map_err(|e| unwritten(path, &e))
            });
        self.note(written);
        self.written = Instant::now();
    }
}

impl Watcher for Printer<'_> {
    fn keep(&self) -> Keep {
        self.dump.as_ref().map_or(Keep::Nothing, Dump::keep)
    }

    fn row(&mut self, finished: &Finished<'_>) {
        let (done, all) = finished.done;
        self.so_far = finished.done;
        progress(&format!("{}: {done}/{all} {}", name_of(finished.device), finished.row.name()));
        if let (Some(dump), Some(path)) = (&mut self.dump, &self.args.dump) {
            let added = dump.add(finished).map_err(|e| folder_unwritten(path, &e));
            self.note(added);
        }
        if self.written.elapsed() > WRITTEN_EVERY {
            self.write(Some(finished.device));
        }
    }

    fn goes_on(&mut self, device: &Device) -> bool {
        let raised = self.interrupt.is_raised();
        let (done, all) = self.so_far;
        if raised && !std::mem::replace(&mut self.heard, true) {
            progress("");
            notice("interrupted: what is in hand is finished first; once more ends at once");
        }
        if self.told.elapsed() > TOLD_EVERY && !std::io::stderr().is_terminal() {
            say(format_args!("{}: {done} of {}", name_of(device), counted(all, "case", "cases")));
            self.told = Instant::now();
        }
        !raised
    }
}

/// Runs the subcommand.
pub(super) fn run(args: &Args) -> Outcome {
    let cases = cases(&args.filter)?;
    let filter = Some(args.filter.join(" ")).filter(|f| !f.is_empty());
    if let Some(folder) = &args.web {
        return web(folder, filter.as_deref(), &cases);
    }
    // Refused before a minute of work.
    if let Some(path) = &args.out {
        check_target(path).map_err(|e| unwritten(path, &e))?;
    }
    let dump = match &args.dump {
        Some(path) => Some(Dump::beside(path, args.dump_all).map_err(|e| folder_unwritten(path, &e))?),
        None => None,
    };
    let places = places(args)?;
    let interrupt = Interrupt::listen()?;
    let now = Instant::now();
    let mut printer = Printer {
        args,
        interrupt: &interrupt,
        several: device::list().len() > 1,
        document: Document::begun(filter),
        done: Vec::new(),
        dump,
        failed: None,
        written: now,
        told: now,
        so_far: (0, cases.len()),
        heard: false,
    };
    printer.write(None);
    let mut unreached = Vec::new();
    for place in &places {
        match interrupt.is_raised() {
            true => {
                let reason = "the run was interrupted before it".to_string();
                unreached.push(Missing { asked: many::called(place), reason });
            }
            false => check(place, &cases, &mut printer),
        }
    }
    printer.document.complete = printer.document.left_out.is_empty() && !interrupt.is_raised();
    // A driver may also have hung while it was opened.
    let stuck = !printer.document.left_out.is_empty() || printer.done.iter().any(|d| d.hung.is_some());
    unreached.iter().for_each(notice);
    printer.document.left_out.extend(unreached);
    let outcome = finish(printer);
    if stuck {
        // Neither its threads nor what waits for them at the end of a process can be counted on.
        if let Err(Failure(message)) = outcome {
            say(format_args!("error: {message}"));
        }
        interrupt.end();
        interrupt::leave();
    }
    interrupt.end();
    outcome
}

/// Opens a device and runs the cases on it. One that cannot be opened is left out, and told.
fn check(place: &str, cases: &Cases, printer: &mut Printer<'_>) {
    let most = printer.args.max_case_seconds;
    let mut device = match opened(place, most) {
        Ok(device) => device,
        Err(error) => {
            let missing = many::missing(place, &error);
            notice(&missing);
            printer.document.left_out.push(missing);
            printer.write(None);
            return;
        }
    };
    stage(&format!("checking {} on {}", counted(cases.len(), "case", "cases"), name_of(&device)));
    (printer.so_far, printer.told) = ((0, cases.len()), Instant::now());
    device.run(cases, most, printer);
    progress("");
    printer.dump.iter_mut().for_each(Dump::next_device);
    if !printer.args.json {
        let printed = print_line(&format!("{}\n", conformance::text(&device, printer.several)));
        printer.note(printed);
        let (done, all) = printer.so_far;
        if printer.interrupt.is_raised() && done < all {
            let printed =
                print_line(&format!("interrupted: {done} of {} were run\n", counted(all, "case", "cases")));
            printer.note(printed);
        }
    }
    printer.done.push(device);
    printer.write(None);
}

/// The last words: the document, the reproductions, and what failed.
fn finish(mut printer: Printer<'_>) -> Outcome {
    printer.write(None);
    if printer.args.json {
        let text = serde_json::to_string_pretty(&printer.json(None)).map_err(Failure::from);
        let printed = text.and_then(|text| print_line(&text));
        printer.note(printed);
    }
    if let (Some(dump), Some(path)) = (printer.dump.take(), &printer.args.dump) {
        match dump.put_in_place() {
            Err(error) => drop(printer.failed.get_or_insert(folder_unwritten(path, &error))),
            Ok(0) => notice(format_args!(
                "nothing failed, so {} is not written; --dump-all takes what passes",
                path.display()
            )),
            Ok(count) => notice(format_args!(
                "{} in {}",
                counted(count, "reproduction is", "reproductions are"),
                path.display()
            )),
        }
    }
    if let Some(failure) = printer.failed {
        return Err(failure);
    }
    if printer.interrupt.is_raised() {
        let rows: usize = printer.done.iter().map(|device| device.rows.len()).sum();
        notice(format_args!("{} until the interrupt", counted(rows, "check was made", "checks were made")));
    }
    verdict(&printer.done, &printer.document.left_out, printer.args.dump.is_some())
}

/// The cases that filters name, each of which has to name some.
fn cases(filters: &[String]) -> Result<Vec<(&'static KernelSpec, &'static Case)>, Failure> {
    for filter in filters {
        // An empty word is part of every name.
        if filter.is_empty() || conformance::select(&[filter]).is_empty() {
            return Err(Failure(unmatched(filter)));
        }
    }
    Ok(conformance::select(filters))
}

/// What to say of a filter that matches nothing.
fn unmatched(filter: &str) -> String {
    let (kernel, case) = filter.split_once('/').unwrap_or((filter, ""));
    let of_kernel = conformance::select(&[kernel]);
    if !of_kernel.is_empty() && !filter.is_empty() {
        let names = nearest(case, of_kernel.iter().map(|(_, c)| c.name));
        return format!(
            "no case of {kernel:?} matches {case:?}; the nearest of them are [{}]; `wgattn conformance {kernel}` runs all",
            names.join(", ")
        );
    }
    let meant = closest(kernel, KERNELS.iter().map(|k| k.name));
    let meant = meant.map_or_else(String::new, |name| format!("did you mean {name}? "));
    format!("no kernel matches {kernel:?}; {meant}`wgattn eval --list` lists them")
}

/// Ends with a failure where something counts against a device, or one could not be opened.
fn verdict(devices: &[Device], left_out: &[Missing], dumped: bool) -> Outcome {
    let mut told = Vec::new();
    for device in devices.iter().filter(|d| d.fails()) {
        let (name, tally) = (name_of(device), device.tally());
        told.push(format!(
            "{} of {} failed on {name}",
            tally.failed,
            counted(tally.all(), "check", "checks")
        ));
        if let Some(row) = &device.hung {
            told.push(format!("{name} stopped answering in {row} (--max-case-seconds gives it longer)"));
        }
    }
    let dumped = dumped || told.is_empty();
    for device in devices.iter().filter(|device| device.checked_nothing()) {
        told.push(format!("nothing was checked on {}: nothing that was asked for fits it", name_of(device)));
    }
    told.extend(Missing::failure(left_out));
    let advice = if dumped { "" } else { "; --dump DIR writes what a report to the driver's authors needs" };
    match told.is_empty() {
        true => Ok(()),
        false => Err(Failure(format!("{}{advice}", told.join("; ")))),
    }
}

fn name_of(device: &Device) -> String {
    device::full_name(&device.info, &device.facts)
}

fn folder_unwritten(path: &Path, error: &std::io::Error) -> Failure {
    Failure(format!("writing {}: {}", path.display(), plain(error)))
}

/// Where the devices are that were asked for, each once: `cpu`, a card, or a place in the list of adapters.
fn places(args: &Args) -> Result<Vec<String>, Failure> {
    let mut places = Vec::new();
    for place in many::places(&args.device, &args.backend)? {
        // No self-test chooses the adapter: here it is the device that is asked about.
        let place = match place.as_str() {
            "auto" if !device::list().is_empty() => "0".into(),
            "auto" => {
                notice(match cfg!(feature = "wgpu") {
                    true => {
                        "no GPU driver was found: there is only the CPU reference, which is right by definition"
                    }
                    false => "built without the wgpu feature: there is only the CPU reference",
                });
                "cpu".into()
            }
            _ => place,
        };
        if !places.contains(&place) {
            places.push(place);
        }
    }
    Ok(places)
}

/// Opens a device. Unlike elsewhere no self-test comes first.
fn opened(place: &str, most_seconds: f64) -> Attempt<Device> {
    let open: Open = match place {
        "cpu" => Box::new(|| Ok(Arc::new(CpuBackend))),
        word if cuda::is_asked(word) => {
            let word = word.to_string();
            Box::new(move || Ok(Arc::from(cuda::open(&word)?)))
        }
        _ => adapter(place)?,
    };
    Device::open(place, place.parse().ok(), most_seconds, open)
}

#[cfg(not(feature = "wgpu"))]
fn adapter(_: &str) -> Attempt<Open> {
    Err(Error::NotBuilt { feature: "wgpu" })
}

/// How the adapter at a place of the list is opened.
#[cfg(feature = "wgpu")]
fn adapter(place: &str) -> Attempt<Open> {
    use crate::backend::Backend;
    use crate::backend::wgpu::{Options, WgpuBackend, adapters};
    let adapter = place.parse::<usize>().ok().and_then(|index| adapters().into_iter().nth(index));
    let adapter = adapter.ok_or_else(|| Error::NoDevice {
        asked: place.into(),
        reason: "it is not there any more; see `wgattn devices`".into(),
    })?;
    let open = move || {
        // Several cases run at a time.
        let options = Options { shared_queue: true, ..Options::default() };
        Ok(Arc::new(WgpuBackend::on_adapter(&adapter, options)?) as Arc<dyn Backend>)
    };
    Ok(Box::new(open))
}

#[cfg(not(feature = "wgpu"))]
fn web(_: &Path, _: Option<&str>, _: &Cases) -> Outcome {
    Err(Error::NotBuilt { feature: "wgpu" }.into())
}

/// Writes the page for browsers.
#[cfg(feature = "wgpu")]
fn web(folder: &Path, filter: Option<&str>, cases: &Cases) -> Outcome {
    conformance::check_folder(folder).map_err(|e| folder_unwritten(folder, &e))?;
    stage(&format!("recording {} for the page", counted(cases.len(), "case", "cases")));
    let page = conformance::page(filter, cases, &mut |done, all| progress(&format!("{done}/{all}")))?;
    progress("");
    if page.cases() == 0 {
        let reasons: Vec<String> =
            page.left_out().map(|(kernel, case, why)| format!("{kernel} · {case}: {why}")).collect();
        return Err(Failure(format!(
            "no case is left for the page ({}); widen the filter",
            reasons.join(", ")
        )));
    }
    let bytes = page.write(folder).map_err(|e| folder_unwritten(folder, &e))?;
    match page.left_out().count() {
        0 => {}
        out => notice(format_args!(
            "{out} of {} stay out; the page lists each with its reason",
            counted(cases.len(), "case", "cases")
        )),
    }
    print_line(&format!(
        "{}: {}, {}; open it in any browser with WebGPU",
        folder.join("index.html").display(),
        counted(page.cases(), "case", "cases"),
        crate::graph::human_bytes(bytes as u64)
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(list: &[&str]) -> Vec<String> {
        list.iter().map(|word| (*word).to_string()).collect()
    }

    #[test]
    fn what_could_not_be_opened_fails_and_is_named() {
        let reference = || opened("cpu", 10.0).expect("the reference is always there");
        let missing = Missing { asked: "device cuda:0".into(), reason: "no driver".into() };
        let Err(Failure(said)) = verdict(&[reference()], &[missing], false) else {
            panic!("a device that cannot be opened is a failure")
        };
        assert_eq!(said, "device cuda:0 could not be opened");
        assert!(verdict(&[reference()], &[], false).is_ok());
    }

    #[test]
    fn every_filter_has_to_match_and_a_case_is_taken_once() {
        let Ok(both) = cases(&words(&["scan/small", "transpose", "scan/smallest"])) else {
            panic!("all are there")
        };
        let Ok(apart) = cases(&words(&["transpose"])) else { panic!("it is there") };
        assert!(
            both.len() > apart.len() && both.iter().any(|(spec, _)| spec.name == "scan"),
            "{}",
            both.len()
        );
        let mut names: Vec<_> = both.iter().map(|(spec, case)| (spec.name, case.name)).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), both.len(), "each once");
        let Err(Failure(said)) = cases(&words(&["transpose", "matmull"])) else {
            panic!("one does not match")
        };
        assert!(said.contains("did you mean matmul?"), "{said}");
    }

    #[test]
    fn a_misspelt_kernel_is_told_with_the_word_that_was_probably_meant() {
        assert!(unmatched("matmull").contains("did you mean matmul?"), "{}", unmatched("matmull"));
        assert!(unmatched("matmul/smalest").contains("[smallest,"), "{}", unmatched("matmul/smalest"));
        assert!(unmatched("").contains("no kernel matches \"\""), "{}", unmatched(""));
    }
}
