//! Tells release builds which commit they are of, so that benchmarks that get published name it. Debug builds name none: they would be made
//! anew after every commit.

use std::path::Path;
use std::process::Command;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-env-changed=WGATTN_COMMIT");
    if std::env::var("PROFILE").as_deref() != Ok("release") {
        return;
    }
    let given = std::env::var("WGATTN_COMMIT").ok().filter(|commit| !commit.is_empty());
    if let Some(commit) = given.or_else(of_repository).or_else(of_package) {
        println!("cargo::rustc-env=WGATTN_COMMIT={commit}");
    }
}

fn git(arguments: &[&str]) -> Option<String> {
    let output = Command::new("git").args(arguments).output().ok().filter(|o| o.status.success())?;
    Some(String::from_utf8(output.stdout).ok()?.trim().to_string())
}

/// The commit that is checked out, marked where files differ from it; `None` where the source lies in no repository of its own.
fn of_repository() -> Option<String> {
    let top = git(&["rev-parse", "--show-toplevel"])?;
    let here = std::env::var("CARGO_MANIFEST_DIR").ok()?;
    if Path::new(&top).canonicalize().ok()? != Path::new(&here).canonicalize().ok()? {
        return None;
    }
    // The log of HEAD grows with every commit and checkout; changed files change the mark.
    let log = git(&["rev-parse", "--git-path", "logs/HEAD"])?;
    for path in [&log, "src", "shaders", "Cargo.toml", "Cargo.lock"] {
        println!("cargo::rerun-if-changed={path}");
    }
    let changed = git(&["status", "--porcelain", "--untracked-files=no"])?;
    Some(git(&["rev-parse", "HEAD"])? + if changed.is_empty() { "" } else { "-dirty" })
}

/// The commit that a published package was made from.
fn of_package() -> Option<String> {
    println!("cargo::rerun-if-changed=.cargo_vcs_info.json");
    let text = std::fs::read_to_string(".cargo_vcs_info.json").ok()?;
    let (_, rest) = text.split_once("\"sha1\"")?;
    Some(rest.split('"').nth(1)?.to_string())
}
