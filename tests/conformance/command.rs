//! What the command says and writes, and what an interrupt and a compiler that hangs leave.

use super::*;

pub(super) fn table() -> std::result::Result<(), Failed> {
    let output = command(&folder("table"), &["transpose", "--device", "cpu"]);
    let (out, err) = said(&output);
    ensure!(output.status.success(), "{out}{err}");
    let cases = conformance::select(&["transpose"]).len();
    let line = out.lines().find(|l| l.starts_with("all ")).unwrap_or_default();
    let numbers: Vec<&str> = line.split_whitespace().skip(1).take(4).collect();
    let all = cases.to_string();
    ensure!(numbers == [all.as_str(), all.as_str(), "0", "0"], "{line} for {cases} cases");
    ensure!(out.contains("transpose") && out.contains("worst error"), "{out}");
    Ok(())
}

/// Every field that the documentation of `Document::json` promises.
pub(super) fn check_report(report: &Value, backend: &str) -> std::result::Result<(), Failed> {
    ensure!(report["schema"] == "wgattn-conformance" && report["schema_version"] == 2, "{report}");
    ensure!(report["wgattn"]["version"].is_string(), "no version");
    ensure!(report["date"].as_str().is_some_and(|d| d.len() == 20 && d.ends_with('Z')), "{}", report["date"]);
    ensure!(report["complete"] == true && report["left_out"] == json!([]), "{}", report["left_out"]);
    ensure!(
        report["system"]["os"].is_string() && report["system"]["cores"].is_number(),
        "{}",
        report["system"]
    );
    let devices = report["devices"].as_array().ok_or("no list of devices")?;
    ensure!(!devices.is_empty(), "no device");
    for device in devices {
        ensure!(device["device"]["backend"] == backend, "{}", device["device"]);
        for field in ["name", "type", "driver"] {
            ensure!(device["device"][field].is_string(), "{field}: {}", device["device"]);
        }
        for field in ["index", "pci", "bus"] {
            ensure!(device["device"].get(field).is_some(), "no {field}: {}", device["device"]);
        }
        ensure!(device["seconds"].is_number(), "{}", device["seconds"]);
        let rows = device["rows"].as_array().ok_or("no rows")?;
        let count = |outcome: &str| rows.iter().filter(|row| row["outcome"] == outcome).count();
        for outcome in ["passed", "failed", "ignored"] {
            ensure!(
                device[outcome] == count(outcome),
                "{outcome}: {} of {}",
                device[outcome],
                count(outcome)
            );
        }
        for row in rows {
            ensure!(row["kernel"].is_string() && row["case"].is_string(), "{row}");
            ensure!(row["why"].is_null() == (row["outcome"] == "passed"), "{row}");
            let outputs = row["outputs"].as_array().ok_or("no outputs")?;
            ensure!(row["outcome"] != "passed" || !outputs.is_empty(), "passed without a comparison: {row}");
            for output in outputs {
                for field in ["error", "allowed", "naive", "share", "index"] {
                    ensure!(output[field].is_number() || row["outcome"] == "failed", "{field}: {row}");
                }
            }
        }
    }
    Ok(())
}

pub(super) fn json() -> std::result::Result<(), Failed> {
    let folder = folder("json");
    let output = command(&folder, &["scan", "--device", "cpu", "--json", "--out", "report.json"]);
    let (out, err) = said(&output);
    ensure!(output.status.success(), "{out}{err}");
    let report: Value = serde_json::from_str(&out)?;
    check_report(&report, "cpu")?;
    let file: Value = serde_json::from_slice(&fs::read(folder.join("report.json"))?)?;
    ensure!(file == report && report["filter"] == "scan", "the file differs: {file}");
    Ok(())
}

pub(super) fn refusals() -> std::result::Result<(), Failed> {
    let folder = folder("refusals");
    fs::create_dir(folder.join("full"))?;
    fs::write(folder.join("full/mine.txt"), "mine")?;
    let cases: [(&[&str], &[&str]); 14] = [
        (&["matmull"], &["no kernel matches \"matmull\"", "did you mean matmul?"]),
        (&["scan", "matmull", "--device", "cpu"], &["did you mean matmul?"]),
        (&["scan", ""], &["no kernel matches \"\""]),
        (&["scan", "matmull", "--web", "page"], &["did you mean matmul?"]),
        (&["scan", "--max-case-seconds", "0"], &["0.1 to 86400"]),
        (&["scan", "--backend", "opencl"], &["expected one of [vulkan"]),
        (&["scan/nothing"], &["no case of \"scan\"", "the nearest of them are ["]),
        (&["scan", "--device", "cpu", "--dump", "full"], &["full", "not empty"]),
        (&["scan", "--web", "full"], &["full", "not empty"]),
        (&["scan", "--web", "no/where"], &["there is no folder no"]),
        (&["scan", "--device", "cpu", "--out", "no/where.json"], &["there is no folder no"]),
        (&["scan", "--device", "cpu,999"], &["999"]),
        (&["scan", "--dump-all"], &["--dump"]),
        (&["scan", "--web", "page", "--json"], &["--web", "--json"]),
    ];
    for (args, parts) in cases {
        let output = command(&folder, args);
        let (out, err) = said(&output);
        let line = err.lines().find(|l| l.starts_with("error:")).unwrap_or_default();
        ensure!(matches!(output.status.code(), Some(1 | 2)) && out.is_empty(), "{args:?}: {out}{err}");
        for part in parts {
            ensure!(err.contains(part), "{args:?}: no {part:?} in {line}");
        }
    }
    ensure!(fs::read(folder.join("full/mine.txt"))? == b"mine", "a refused folder was touched");
    Ok(())
}

pub(super) fn dump_all() -> std::result::Result<(), Failed> {
    let folder = folder("dump_all");
    let output = command(&folder, &["scan/smallest", "--device", "cpu", "--dump", "dump"]);
    let (out, err) = said(&output);
    ensure!(output.status.success() && err.contains("nothing failed"), "{out}{err}");
    ensure!(fs::read_dir(&folder)?.count() == 0, "something was left in {}", folder.display());
    let output = command(&folder, &["scan/smallest", "--device", "cpu", "--dump", "dump", "--dump-all"]);
    let (out, err) = said(&output);
    ensure!(output.status.success() && err.contains("in dump"), "{out}{err}");
    let manifest: Value =
        serde_json::from_slice(&fs::read(folder.join("dump/scan-smallest/manifest.json"))?)?;
    ensure!(manifest["unrecorded"].as_str().is_some_and(|why| why.contains("reference")), "{manifest}");
    Ok(())
}

pub(super) fn filters_and_devices() -> std::result::Result<(), Failed> {
    let folder = folder("filters");
    let args = ["scan/smallest", "transpose", "scan", "--device", "cpu,CPU", "--json"];
    let output = command(&folder, &args);
    let (out, err) = said(&output);
    ensure!(output.status.success(), "{out}{err}");
    let report: Value = serde_json::from_str(&out)?;
    check_report(&report, "cpu")?;
    let devices = report["devices"].as_array().ok_or("no devices")?;
    ensure!(devices.len() == 1 && report["filter"] == "scan/smallest transpose scan", "{report}");
    let rows = devices[0]["rows"].as_array().map_or(0, Vec::len);
    let wanted = conformance::select(&["scan", "transpose"]).len();
    ensure!(rows == wanted, "{rows} rows, and {wanted} cases");
    // Progress where there is no terminal.
    ensure!(err.contains(&format!("checking {wanted} cases on CPU")), "{err}");
    let Some(first) = wgattn::backend::device::list().into_iter().next() else { return Ok(()) };
    let word = first.name.replace(',', " ");
    let word = word.split_whitespace().next().unwrap_or_default();
    let output = command(&folder, &["transpose/smallest", "--device", &format!("0,auto,{word}"), "--json"]);
    let (out, err) = said(&output);
    let report: Value = serde_json::from_str(&out)?;
    ensure!(report["devices"].as_array().map_or(0, Vec::len) == 1, "{word}: {out}{err}");
    ensure!(report["devices"][0]["device"]["index"] == 0, "{out}");
    Ok(())
}

pub(super) fn left_out() -> std::result::Result<(), Failed> {
    let folder = folder("left_out");
    let filter = "transpose/smallest";
    let args = [filter, "--device", "cuda:99,cpu", "--json", "--out", "report.json"];
    let output = command(&folder, &args);
    let (out, err) = said(&output);
    ensure!(output.status.code() == Some(1), "{out}{err}");
    ensure!(err.contains("note: device cuda:99 is left out: "), "{err}");
    ensure!(err.contains("error: device cuda:99 could not be opened"), "{err}");
    let report: Value = serde_json::from_str(&out)?;
    ensure!(report["complete"] == false && report["left_out"][0]["asked"] == "device cuda:99", "{out}");
    ensure!(report["left_out"][0]["reason"].is_string() && report["devices"][0]["failed"] == 0, "{out}");
    ensure!(report["devices"][0]["device"]["backend"] == "cpu", "the others run: {out}");
    let file: Value = serde_json::from_slice(&fs::read(folder.join("report.json"))?)?;
    ensure!(file == report, "the file differs: {file}");
    // A backend that this system cannot have, among others.
    let absent = if cfg!(target_os = "macos") { "dx12" } else { "metal" };
    let output = command(&folder, &[filter, "--backend", &format!("cpu,{absent}")]);
    let (out, err) = said(&output);
    ensure!(output.status.success() && err.contains(&format!("no device of {absent}")), "{out}{err}");
    ensure!(!out.contains("·  ·") && !out.contains("· \n"), "an empty driver leaves no gap: {out}");
    Ok(())
}

/// Waits until a condition holds.
pub(super) fn until(what: &str, holds: &mut dyn FnMut() -> bool) -> std::result::Result<(), Failed> {
    let deadline = Instant::now() + Duration::from_secs(120);
    while !holds() {
        ensure!(Instant::now() < deadline, "{what}: not within two minutes");
        std::thread::yield_now();
    }
    Ok(())
}

/// A C++ compiler that says its version, and for a source does what the shell is told.
pub(super) fn compiler(folder: &Path, does: &str) -> std::result::Result<PathBuf, Failed> {
    let path = folder.join("c++");
    fs::write(&path, format!("#!/bin/sh\n[ \"$1\" = --version ] && echo 'false 1.0' && exit 0\n{does}\n"))?;
    ensure!(Command::new("chmod").arg("+x").arg(&path).status()?.success(), "chmod is a part of every Unix");
    Ok(path)
}

/// Ctrl-C in the midst of a run, as a terminal sends it. Every row fails after a while.
pub(super) fn interrupted() -> std::result::Result<(), Failed> {
    let folder = folder("interrupted");
    let slow = compiler(&folder, "sleep 0.2; exit 1")?;
    for (signal, number) in [("INT", 2), ("TERM", 15)] {
        let home = folder.join(signal);
        fs::create_dir(&home)?;
        let child = Command::new(env!("CARGO_BIN_EXE_wgattn"))
            .args([
                "conformance",
                "--device",
                "cuda:host",
                "--json",
                "--out",
                "report.json",
                "--dump",
                "dump",
            ])
            .env("CXX", &slow)
            .current_dir(&home)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()?;
        let read = |path: PathBuf| -> Value {
            fs::read(path).ok().and_then(|bytes| serde_json::from_slice(&bytes).ok()).unwrap_or_default()
        };
        let rows = |report: &Value| report["devices"][0]["rows"].as_array().map_or(0, Vec::len);
        until("a first row", &mut || rows(&read(home.join("report.json"))) > 0)?;
        let sent = Command::new("kill").args([&format!("-{signal}"), &child.id().to_string()]).status()?;
        ensure!(sent.success(), "kill is a part of every Unix");
        let output = child.wait_with_output()?;
        let (out, err) = said(&output);
        ensure!(signal_of(&output) == Some(number), "{:?}: {err}", output.status);
        ensure!(err.contains("interrupted") && err.contains("until the interrupt"), "{err}");
        let report: Value = serde_json::from_str(&out)?;
        let all = conformance::select::<&str>(&[]).len();
        ensure!(
            report["complete"] == false && (1..all).contains(&rows(&report)),
            "{} of {all}",
            rows(&report)
        );
        ensure!(read(home.join("report.json")) == report, "the file differs");
        let dumped = fs::read_dir(home.join("dump"))?.flatten().filter(|e| e.path().is_dir()).count();
        ensure!(dumped == rows(&report), "{dumped} reproductions of {}", rows(&report));
        ensure!(fs::read_dir(&home)?.count() == 2, "something is left beside file and folder");
    }
    Ok(())
}

#[cfg(unix)]
fn signal_of(output: &Output) -> Option<i32> {
    std::os::unix::process::ExitStatusExt::signal(&output.status)
}

#[cfg(not(unix))]
fn signal_of(_: &Output) -> Option<i32> {
    None
}

// ---- CUDA --------------------------------------------------------------------------------------------------------

pub(super) fn cuda_dump() -> std::result::Result<(), Failed> {
    let folder = folder("cuda_dump");
    let args = ["scale_rows", "fft/small", "--device", "cuda:host", "--dump", "dump", "--dump-all"];
    let output = command(&folder, &args);
    let (out, err) = said(&output);
    ensure!(output.status.success(), "{out}{err}");
    let (mut launches, mut calls) = (0, 0);
    for entry in fs::read_dir(folder.join("dump"))?.flatten().filter(|e| e.path().is_dir()) {
        let case = entry.path();
        let manifest: Value = serde_json::from_slice(&fs::read(case.join("manifest.json"))?)?;
        ensure!(manifest["unrecorded"].is_null(), "{}", manifest["unrecorded"]);
        let run = &manifest["run"];
        for command in run["commands"].as_array().ok_or("no commands")? {
            calls += usize::from(command["do"] == "library");
            if command["do"] != "launch" {
                continue;
            }
            launches += 1;
            ensure!(
                command["blocks"].as_u64() > Some(0) && command["threads"].as_u64() > Some(0),
                "{command}"
            );
            let params = command["params"].as_array().ok_or("no params")?;
            ensure!(
                params.iter().all(|word| word["bits"].is_string() && word["name"].is_string()),
                "{command}"
            );
            let source = &run["sources"][command["source"].as_u64().ok_or("no source")? as usize];
            let text = fs::read_to_string(case.join(source["text"].as_str().ok_or("no text")?))?;
            let entry = source["entry_point"].as_str().ok_or("no entry")?;
            ensure!(
                text.contains("extern \"C\" __global__") && text.contains(&format!(" {entry}(")),
                "{text}"
            );
            for argument in command["arguments"].as_array().ok_or("no arguments")? {
                let buffer = argument["buffer"].as_u64();
                ensure!(buffer.is_none_or(|at| !run["buffers"][at as usize].is_null()), "{argument}");
            }
        }
        let output = &manifest["outputs"][0];
        ensure!(!output["place"].is_null() && output["expected"].is_string(), "{output}");
        let readme = fs::read_to_string(case.join("README.txt"))?;
        ensure!(readme.contains("NVRTC") && !readme.contains("WebGPU implementation"), "{readme}");
    }
    ensure!(launches > 0 && calls > 0, "{launches} launches and {calls} calls of a library");
    Ok(())
}

/// A compiler that says its version and then never ends, as a driver's may: the device is given up, the other one runs, and the program
/// ends with everything written.
pub(super) fn cuda_hangs() -> std::result::Result<(), Failed> {
    let folder = folder("cuda_hangs");
    let compiler = compiler(&folder, "exec sleep 30")?;
    let since = Instant::now();
    let args = [
        "transpose",
        "scale_rows",
        "--device",
        "cuda:host,cpu",
        "--max-case-seconds",
        "3",
        "--json",
        "--out",
        "report.json",
        "--dump",
        "dump",
    ];
    let output = Command::new(env!("CARGO_BIN_EXE_wgattn"))
        .arg("conformance")
        .args(args)
        .env("CXX", &compiler)
        .current_dir(&folder)
        .output()?;
    let (out, err) = said(&output);
    ensure!(output.status.code() == Some(1) && since.elapsed() < Duration::from_secs(25), "{out}{err}");
    ensure!(err.contains("stopped answering in ") && err.contains("--max-case-seconds"), "{err}");
    let report: Value = serde_json::from_str(&out)?;
    let (host, cpu) = (&report["devices"][0], &report["devices"][1]);
    let all = conformance::select(&["transpose", "scale_rows"]).len();
    ensure!(host["failed"] == 1 && host["ignored"] == all - 1, "{host}");
    ensure!(cpu["passed"] == all, "{cpu}");
    let rows = host["rows"].as_array().ok_or("no rows")?;
    let failed = rows.iter().find(|r| r["outcome"] == "failed").ok_or("no failed row")?;
    ensure!(failed["why"].as_str().is_some_and(|w| w.contains("no answer within 3 s")), "{failed}");
    let told =
        |row: &&Value| row["why"].as_str().is_some_and(|why| why.contains("the device stopped answering in"));
    ensure!(rows.iter().filter(told).count() == all - 1, "{rows:?}");
    let file: Value = serde_json::from_slice(&fs::read(folder.join("report.json"))?)?;
    ensure!(file == report, "the file differs");
    // What the card would have been told to do is known all the same.
    let case =
        fs::read_dir(folder.join("dump"))?.flatten().find(|e| e.path().is_dir()).ok_or("no folder")?.path();
    let sources = fs::read_dir(&case)?.flatten().filter(|e| e.path().extension().is_some_and(|x| x == "cu"));
    ensure!(sources.count() > 0, "no source in {}", case.display());
    Ok(())
}
