//! `wgattn conformance`: every kernel's test cases on the user's own devices, judged as the project's tests judge them.

use super::{Failure, Outcome, notice, print_line, progress, unwritten};
use crate::backend::cpu::CpuBackend;
use crate::backend::{Backend, cuda};
use crate::conformance::{self, Device, Dump};
use crate::error::Error;
use crate::kernel::{Case, KernelSpec};
use crate::kernels::KERNELS;
use crate::whole_file::{check_target, write_whole};
use crate::words::{closest, counted, nearest, plain};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Arguments of `wgattn conformance`.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Part of a kernel's name, or KERNEL/CASE with a part of each; everything if left out
    filter: Option<String>,
    /// auto, all, cpu, cuda:0, cuda:host (CUDA sources on the CPU), or indices, names or backends of adapters, separated by commas (see `wgattn devices`)
    #[arg(long, default_value = "auto", value_parser = super::device_word)]
    device: String,
    /// Print JSON
    #[arg(long)]
    json: bool,
    /// Also write the results as JSON
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// Write a reproduction of each failing case into a new folder, to attach to a report to the driver's authors
    #[arg(long, value_name = "DIR")]
    dump: Option<PathBuf>,
    /// Write reproductions of cases that pass as well
    #[arg(long, requires = "dump")]
    dump_all: bool,
    /// Write a page into a new folder that runs the suite in any browser with WebGPU, and run nothing here
    #[arg(long, value_name = "DIR", conflicts_with_all = ["device", "json", "out", "dump"])]
    web: Option<PathBuf>,
}

type Cases = [(&'static KernelSpec, &'static Case)];

/// Runs the subcommand.
pub(super) fn run(args: &Args) -> Outcome {
    let cases = cases(args.filter.as_deref())?;
    if let Some(folder) = &args.web {
        return web(folder, args.filter.as_deref(), &cases);
    }
    // Refused before a minute of work.
    if let Some(path) = &args.out {
        check_target(path).map_err(|e| unwritten(path, &e))?;
    }
    let mut dump = match &args.dump {
        Some(path) => Some(Dump::beside(path, args.dump_all).map_err(|e| folder_unwritten(path, &e))?),
        None => None,
    };
    let mut devices = devices(&args.device)?;
    let mut dumped = Ok(());
    for device in &mut devices {
        let name = device.info.name.clone();
        device.run(&cases, &mut |finished| {
            let (done, all) = finished.done;
            progress(&format!("{name}: {done}/{all} {}", finished.row.name()));
            if let (Some(dump), Ok(())) = (&mut dump, &dumped) {
                dumped = dump.add(finished);
            }
        });
        progress("");
        dump.iter_mut().for_each(Dump::next_device);
        if !args.json {
            print_line(&format!("{}\n", conformance::text(device)))?;
        }
    }
    let report = serde_json::to_string_pretty(&conformance::json(args.filter.as_deref(), &devices))?;
    if args.json {
        print_line(&report)?;
    }
    if let Some(path) = &args.out {
        write_whole(path, |mut file| writeln!(file, "{report}")).map_err(|e| unwritten(path, &e))?;
    }
    if let (Some(dump), Some(path)) = (dump, &args.dump) {
        let written = dumped.and_then(|()| dump.put_in_place()).map_err(|e| folder_unwritten(path, &e))?;
        match written {
            0 => notice(format_args!(
                "nothing failed, so {} is not written; --dump-all takes what passes",
                path.display()
            )),
            count => notice(format_args!(
                "{} in {}",
                counted(count, "reproduction is", "reproductions are"),
                path.display()
            )),
        }
    }
    verdict(&devices, args.dump.is_some())
}

/// The cases that a filter names.
fn cases(filter: Option<&str>) -> Result<Vec<(&'static KernelSpec, &'static Case)>, Failure> {
    let cases = conformance::select(filter);
    // An empty word is part of every name.
    match (cases.is_empty() || filter == Some(""), filter) {
        (true, Some(filter)) => Err(Failure(unmatched(filter))),
        _ => Ok(cases),
    }
}

/// What to say of a filter that matches nothing.
fn unmatched(filter: &str) -> String {
    let (kernel, case) = filter.split_once('/').unwrap_or((filter, ""));
    let of_kernel = conformance::select(Some(kernel));
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

/// Ends with a failure where something counts against a device.
fn verdict(devices: &[Device], dumped: bool) -> Outcome {
    let failing = devices.iter().filter(|d| d.fails());
    let told: Vec<String> = failing
        .map(|d| match (&d.unusable, d.tally()) {
            (Some(_), _) => format!("{} cannot be used", d.info.name),
            (None, tally) => format!(
                "{} of {} failed on {}",
                tally.failed,
                counted(tally.all(), "check", "checks"),
                d.info.name
            ),
        })
        .collect();
    let advice = if dumped { "" } else { "; --dump DIR writes what a report to the driver's authors needs" };
    match told.is_empty() {
        true => Ok(()),
        false => Err(Failure(format!("{}{advice}", told.join(", ")))),
    }
}

fn folder_unwritten(path: &Path, error: &std::io::Error) -> Failure {
    Failure(format!("writing {}: {}", path.display(), plain(error)))
}

fn reference() -> Device {
    Device::new(CpuBackend.info(), Box::new(|| Ok(Arc::new(CpuBackend))))
}

/// The devices that were asked for, opened. Unlike elsewhere no self-test comes first: here it is the device that is asked about.
fn devices(asked: &str) -> Result<Vec<Device>, Failure> {
    let words: Vec<&str> = asked.split(',').map(str::trim).collect();
    let mut found = Vec::new();
    for word in words {
        match word {
            "cpu" => found.push(reference()),
            word if cuda::is_asked(word) => {
                let backend: Arc<dyn Backend> = cuda::open(word)?.into();
                found.push(Device::new(backend.info(), Box::new(move || Ok(Arc::clone(&backend)))));
            }
            _ => found.extend(adapters(word)?),
        }
    }
    Ok(found)
}

#[cfg(not(feature = "wgpu"))]
fn adapters(asked: &str) -> Result<Vec<Device>, Failure> {
    if asked == "auto" {
        notice("built without the wgpu feature: there is only the CPU reference");
        return Ok(vec![reference()]);
    }
    Err(Error::NotBuilt { feature: "wgpu" }.into())
}

#[cfg(feature = "wgpu")]
fn adapters(asked: &str) -> Result<Vec<Device>, Failure> {
    use crate::backend::device::choose;
    use crate::backend::wgpu::{Options, WgpuBackend, adapters, device_info};
    let list = adapters();
    let infos: Vec<_> = list.iter().map(|a| device_info(&a.get_info())).collect();
    let wanted: Vec<usize> = match (asked, infos.is_empty()) {
        ("auto", true) => {
            notice("no GPU driver was found: there is only the CPU reference, which is right by definition");
            return Ok(vec![reference()]);
        }
        ("auto", false) => vec![0],
        ("all", false) => (0..infos.len()).collect(),
        ("all", true) => {
            let reason = "there is no adapter; install a driver (Debian: mesa-vulkan-drivers)".into();
            return Err(Error::NoDevice { asked: asked.into(), reason }.into());
        }
        _ => {
            let (index, told) = choose(&infos, asked)?;
            told.iter().for_each(notice);
            vec![index]
        }
    };
    let device = |index: usize| {
        let adapter = list[index].clone();
        // Several cases run at a time.
        let options = || Options { shared_queue: true, ..Options::default() };
        let open = move || {
            let backend = WgpuBackend::on_adapter(&adapter, options())?;
            Ok(Arc::new(backend) as Arc<dyn crate::backend::Backend>)
        };
        Device::new(infos[index].clone(), Box::new(open))
    };
    Ok(wanted.into_iter().map(device).collect())
}

#[cfg(not(feature = "wgpu"))]
fn web(_: &Path, _: Option<&str>, _: &Cases) -> Outcome {
    Err(Error::NotBuilt { feature: "wgpu" }.into())
}

/// Writes the page for browsers.
#[cfg(feature = "wgpu")]
fn web(folder: &Path, filter: Option<&str>, cases: &Cases) -> Outcome {
    conformance::check_folder(folder).map_err(|e| folder_unwritten(folder, &e))?;
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
            "{out} of {} stay out, most of them because they are large; the page lists each with its reason",
            counted(cases.len(), "case", "cases")
        )),
    }
    print_line(&format!(
        "{}: {}, {:.1} MB; open it in any browser with WebGPU",
        folder.join("index.html").display(),
        counted(page.cases(), "case", "cases"),
        bytes as f64 * 1e-6
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backend::DeviceInfo;

    #[test]
    fn a_device_that_fails_ends_with_its_name_and_the_way_to_report_it() {
        let info = DeviceInfo { name: "Broken GPU".into(), ..CpuBackend.info() };
        let unusable = || {
            Device::new(
                info.clone(),
                Box::new(|| Err(Error::NoDevice { asked: "Broken GPU".into(), reason: "no".into() })),
            )
        };
        let Err(Failure(said)) = verdict(&[reference(), unusable()], false) else {
            panic!("a device that cannot be opened is a failure")
        };
        assert!(said.contains("Broken GPU cannot be used") && said.contains("--dump"), "{said}");
        assert!(verdict(&[reference()], false).is_ok());
    }

    #[test]
    fn a_misspelt_kernel_is_told_with_the_word_that_was_probably_meant() {
        assert!(unmatched("matmull").contains("did you mean matmul?"), "{}", unmatched("matmull"));
        assert!(unmatched("matmul/smalest").contains("[smallest,"), "{}", unmatched("matmul/smalest"));
        assert!(unmatched("").contains("no kernel matches \"\""), "{}", unmatched(""));
    }
}
