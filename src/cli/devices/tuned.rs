//! `wgattn devices --tuned` and `--forget-tuned`: the variants that tuning chose on the adapters of this machine.

use crate::backend::wgpu::{TunedChoice, TunedFile, adapters, cache_folder};
use crate::cli::{Failure, Outcome, print_line};
use crate::words::{self, counted};
use serde_json::{Value, json};
use std::io::ErrorKind;
use std::path::Path;

/// Lists what is remembered, or forgets it.
pub(super) fn run(as_json: bool, forget: bool) -> Outcome {
    let Some(folder) = cache_folder() else {
        return Err(Failure(
            "this system names no folder for caches: set XDG_CACHE_HOME or HOME (LOCALAPPDATA on Windows)"
                .into(),
        ));
    };
    match forget {
        true => forget_all(&folder, as_json),
        false => list(&folder, as_json),
    }
}

/// Lists what is remembered.
fn list(folder: &Path, as_json: bool) -> Outcome {
    let mut devices = Vec::new();
    for (index, adapter) in adapters().iter().enumerate() {
        let info = adapter.get_info();
        let file = TunedFile::of(folder, &info);
        let path = file.path.display().to_string();
        if !as_json {
            print_line(&format!("{index}    {} · {}", info.name, info.backend.to_str()))?;
            match &file.choices {
                Ok(choices) if choices.is_empty() => print_line("     nothing is remembered")?,
                Ok(choices) => {
                    let count = counted(choices.len(), "choice", "choices");
                    let other = choices.iter().filter(|c| c.variant != c.default).count();
                    print_line(&format!("     {count}, {other} other than the default, in {path}"))?;
                    choices.iter().try_for_each(|c| print_line(&format!("     {}", line(c))))?;
                }
                Err(why) => {
                    let remedy = match file.path.is_dir() {
                        true => "remove it by hand",
                        false => "`wgattn devices --forget-tuned` removes it",
                    };
                    print_line(&format!("     {why}; {remedy}"))?;
                }
            }
        }
        devices.push(json!({
            "index": index,
            "name": info.name,
            "backend": info.backend.to_str(),
            "file": path,
            "choices": file.choices.as_ref().ok().map(|all| all.iter().map(choice).collect::<Vec<_>>()),
            "failure": file.choices.as_ref().err(),
        }));
    }
    told(as_json, &devices)
}

/// Forgets it: a file that cannot be removed does not keep the others.
fn forget_all(folder: &Path, as_json: bool) -> Outcome {
    let mut devices = Vec::new();
    let mut kept = Vec::new();
    for (index, adapter) in adapters().iter().enumerate() {
        let info = adapter.get_info();
        let path = TunedFile::of(folder, &info).path;
        let removed = remove(&path);
        if !as_json {
            let what = match &removed {
                Ok(true) => format!("{} is removed", path.display()),
                Ok(false) => "nothing was remembered".into(),
                Err(why) => why.clone(),
            };
            print_line(&format!("{index}    {} · {}: {what}", info.name, info.backend.to_str()))?;
        }
        devices.push(json!({
            "index": index,
            "name": info.name,
            "backend": info.backend.to_str(),
            "file": path.display().to_string(),
            "removed": removed.as_ref().is_ok_and(|removed| *removed),
            "failure": removed.as_ref().err(),
        }));
        kept.extend(removed.err());
    }
    told(as_json, &devices)?;
    if kept.is_empty() { Ok(()) } else { Err(Failure(kept.join("; "))) }
}

/// Removes a file of choices; whether there was one.
///
/// Errors: why it is still there, in words that name it.
fn remove(path: &Path) -> Result<bool, String> {
    let shown = path.display();
    if path.is_dir() {
        return Err(format!("{shown} is a folder, where a file of choices belongs: remove it by hand"));
    }
    match std::fs::remove_file(path) {
        Ok(()) => Ok(true),
        // A folder of caches that is a file itself holds nothing either.
        Err(e) if matches!(e.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => Ok(false),
        Err(e) => Err(format!("{shown} cannot be removed: {}", words::told(&e))),
    }
}

fn told(as_json: bool, devices: &[Value]) -> Outcome {
    match (as_json, devices.is_empty()) {
        (true, _) => print_line(&serde_json::to_string_pretty(&json!({ "devices": devices }))?),
        (false, true) => print_line("no adapters: no Vulkan, Metal, DX12 or GL driver was found"),
        (false, false) => Ok(()),
    }
}

fn line(c: &TunedChoice) -> String {
    let name = format!("{}/{}", c.kernel, c.variant);
    let gain = c.default_seconds / c.seconds;
    let what = match c.variant == c.default {
        true => "the default".into(),
        false if gain.is_finite() => format!("{gain:.2} times as fast as {}", c.default),
        false => format!("instead of {}", c.default),
    };
    format!("{name:<36}  {what}  ({})", c.shape)
}

fn choice(c: &TunedChoice) -> Value {
    json!({
        "kernel": c.kernel,
        "shape": c.shape,
        "variant": c.variant,
        "default": c.default,
        "seconds": c.seconds,
        "default_seconds": c.default_seconds,
    })
}
