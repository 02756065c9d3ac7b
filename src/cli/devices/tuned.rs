//! `wgattn devices --tuned` and `--forget-tuned`: the variants that tuning chose on the adapters of this machine.

use crate::backend::wgpu::{TunedChoice, TunedFile, adapters, cache_folder};
use crate::cli::{Failure, Outcome, print_line};
use crate::words::{counted, told};
use serde_json::{Value, json};

/// Lists what is remembered, or forgets it.
pub(super) fn run(as_json: bool, forget: bool) -> Outcome {
    let Some(folder) = cache_folder() else {
        return Err(Failure(
            "this system names no folder for caches: set XDG_CACHE_HOME or HOME (LOCALAPPDATA on Windows)"
                .into(),
        ));
    };
    let mut devices = Vec::new();
    for (index, adapter) in adapters().iter().enumerate() {
        let info = adapter.get_info();
        let file = TunedFile::of(&folder, &info);
        let path = file.path.display().to_string();
        if forget {
            match std::fs::remove_file(&file.path) {
                Err(e) if e.kind() != std::io::ErrorKind::NotFound => {
                    return Err(Failure(format!("removing {path}: {}", told(&e))));
                }
                Err(_) => {}
                Ok(()) if as_json => {}
                Ok(()) => print_line(&format!("{index}    {}: {path} is removed", info.name))?,
            }
        } else if !as_json {
            print_line(&format!("{index}    {} · {}", info.name, info.backend.to_str()))?;
            match &file.choices {
                Ok(choices) if choices.is_empty() => print_line("     nothing is remembered")?,
                Ok(choices) => {
                    let count = counted(choices.len(), "choice", "choices");
                    let other = choices.iter().filter(|c| c.variant != c.default).count();
                    print_line(&format!("     {count}, {other} other than the default, in {path}"))?;
                    choices.iter().try_for_each(|c| print_line(&format!("     {}", line(c))))?;
                }
                Err(why) => print_line(&format!("     {why}; `wgattn devices --forget-tuned` removes it"))?,
            }
        }
        let file = if forget { TunedFile::of(&folder, &info) } else { file };
        devices.push(json!({
            "index": index,
            "name": info.name,
            "backend": info.backend.to_str(),
            "file": path,
            "choices": file.choices.as_ref().ok().map(|all| all.iter().map(choice).collect::<Vec<_>>()),
            "failure": file.choices.as_ref().err(),
        }));
    }
    if as_json {
        print_line(&serde_json::to_string_pretty(&json!({ "devices": devices }))?)?;
    }
    Ok(())
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
