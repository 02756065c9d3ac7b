//! Choices that were found, in memory and in a file of the user's caches: one file per adapter, driver and version of ours.
//!
//! The file is lines of words between tabs, so that it needs no other library, and ends with the number of its lines, so that one that
//! was cut off is told from a whole one. Whatever is odd about a file costs a search and a notice, never a failure; the next choice that
//! is found replaces it. Several processes may write: each first takes in what the others found, and the file is always whole.

use super::class::Class;
use crate::backend::DeviceInfo;
use crate::backend::cache::hash;
use crate::whole_file::{read_input, write_whole};
use std::collections::BTreeMap;
use std::io::{ErrorKind, Write as _};
use std::path::{Path, PathBuf};

/// First line of a file.
const HEAD: &str = "wgattn tuned variants, format 1";
/// Larger files are none of ours.
const MOST_BYTES: u64 = 4 << 20;

/// What was found for a class of steps.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Choice {
    /// The variant to take.
    pub(super) variant: String,
    /// What the device takes by itself.
    pub(super) default: String,
    /// Seconds of one run of the variant, when it was tried.
    pub(super) seconds: f64,
    /// Seconds of one run of the default.
    pub(super) default_seconds: f64,
}

/// Choices by class.
pub(super) type Choices = BTreeMap<Class, Choice>;

/// What tells drivers apart: all of it has to agree.
pub(super) fn identity(info: &DeviceInfo, vendor: u32, device: u32) -> String {
    // A driver may say anything of itself; here it is one line each.
    let line = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
    format!(
        "adapter: {}\nbackend: {}\npci: {vendor:04x}:{device:04x}\ndriver: {}\nversion: {}\n",
        line(&info.name),
        line(&info.backend),
        line(&info.driver),
        env!("CARGO_PKG_VERSION")
    )
}

/// The file of an identity in a folder.
pub(super) fn file_of(folder: &Path, identity: &str) -> PathBuf {
    folder.join(format!("tuned-{:016x}.txt", hash([identity])))
}

/// What a file says.
///
/// Errors: what is wrong with it, in words.
fn parse(text: &str, identity: &str) -> Result<Choices, String> {
    let cut_off = || "it is cut off".to_string();
    let begins = format!("{HEAD}\n{identity}");
    let Some(body) = text.strip_prefix(&begins) else {
        return Err(match text {
            "" => "it is empty".to_string(),
            part if begins.starts_with(part) => cut_off(),
            other => unlike(other, &begins),
        });
    };
    let body = body.strip_suffix('\n').ok_or_else(cut_off)?;
    let mut lines: Vec<&str> = body.lines().collect();
    let count = lines.pop().and_then(|last| last.strip_prefix("end ")).ok_or_else(cut_off)?;
    if count != lines.len().to_string() {
        return Err(format!("it has {} choices and says {count}", lines.len()));
    }
    let mut choices = Choices::new();
    for (at, line) in lines.into_iter().enumerate() {
        // The line itself tells nobody anything.
        let number = begins.lines().count() + at + 1;
        let (class, choice) =
            parse_line(line).ok_or_else(|| format!("line {number} is no choice of a variant"))?;
        choices.insert(class, choice);
    }
    Ok(choices)
}

/// The first line in which a file is not what it should be.
fn unlike(text: &str, begins: &str) -> String {
    const MOST: usize = 80;
    let mut pairs = text.lines().zip(begins.lines()).filter(|(got, wanted)| got != wanted);
    match pairs.next() {
        // What begins otherwise may be anything, and is not repeated.
        Some((got, wanted)) => match (wanted.split_once(": "), got.split_once(": ")) {
            (Some((name, wanted)), Some((same, got))) if name == same => {
                let got: String = got.chars().take(MOST).collect();
                format!("it is of another {name}: {got:?} instead of {wanted:?}")
            }
            (Some((name, _)), _) => format!("it does not say of which {name} it is"),
            (None, _) => format!("it does not begin with \"{HEAD}\""),
        },
        None => "its beginning is damaged".into(),
    }
}

fn parse_line(line: &str) -> Option<(Class, Choice)> {
    let words: Vec<&str> = line.split('\t').collect();
    let [kernel, shape, candidates, variant, default, seconds, default_seconds] = words[..] else {
        return None;
    };
    let time = |word: &str| word.parse::<f64>().ok().filter(|s| s.is_finite() && *s >= 0.0);
    let names =
        |list: &str, name: &str| list.split(' ').next().is_some_and(|l| l.split(',').any(|n| n == name));
    if !names(candidates, variant) || !names(candidates, default) {
        return None;
    }
    let class = Class { kernel: kernel.into(), shape: shape.into(), candidates: candidates.into() };
    let (seconds, default_seconds) = (time(seconds)?, time(default_seconds)?);
    Some((class, Choice { variant: variant.into(), default: default.into(), seconds, default_seconds }))
}

/// The text of a file.
fn text(choices: &Choices, identity: &str) -> String {
    let line = |(class, c): (&Class, &Choice)| {
        let Class { kernel, shape, candidates } = class;
        format!(
            "{kernel}\t{shape}\t{candidates}\t{}\t{}\t{:e}\t{:e}\n",
            c.variant, c.default, c.seconds, c.default_seconds
        )
    };
    let lines: String = choices.iter().map(line).collect();
    format!("{HEAD}\n{identity}{lines}end {}\n", choices.len())
}

/// What a file says; nothing where there is none.
///
/// Errors: why it is not used, in words that name it.
pub(super) fn read(file: &Path, identity: &str) -> Result<Choices, String> {
    let why = |why: String| format!("{}: is not used: {why}", file.display());
    if std::fs::metadata(file)
        .is_err_and(|e| matches!(e.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory))
    {
        return Ok(Choices::new());
    }
    if file.is_dir() {
        return Err(why("it is a folder, where a file of choices belongs".into()));
    }
    let bytes = read_input(file, MOST_BYTES).map_err(|e| why(crate::words::told(&e)))?;
    let text = String::from_utf8(bytes).map_err(|_| why("it is no text".into()))?;
    parse(&text, identity).map_err(why)
}

/// Puts choices into a file, beside those that are there.
///
/// Errors: why that cannot be, in words that name it.
pub(super) fn add(file: &Path, identity: &str, new: &Choices) -> Result<(), String> {
    // What cannot be read was told when it was read first, and is replaced.
    let mut all = read(file, identity).unwrap_or_default();
    all.extend(new.iter().map(|(class, choice)| (class.clone(), choice.clone())));
    let folder = file.parent().unwrap_or(Path::new("."));
    let written = std::fs::create_dir_all(folder)
        .and_then(|()| write_whole(file, |mut out| out.write_all(text(&all, identity).as_bytes())));
    written.map_err(|e| format!("{}: cannot be written: {}", file.display(), crate::words::told(&e)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backend::DeviceKind;

    fn info(driver: &str) -> DeviceInfo {
        DeviceInfo {
            name: "A card".into(),
            backend: "vulkan".into(),
            kind: DeviceKind::Discrete,
            driver: driver.into(),
        }
    }

    fn some() -> Choices {
        let class = |n: u32| Class {
            kernel: "matmul".into(),
            shape: format!("n={n}:4 xx--x"),
            candidates: "tile64,plain 0123456789abcdef".into(),
        };
        let choice = Choice {
            variant: "plain".into(),
            default: "tile64".into(),
            seconds: 1.25e-4,
            default_seconds: 3.0e-4,
        };
        [(class(64), choice.clone()), (class(128), Choice { variant: "tile64".into(), ..choice })].into()
    }

    #[test]
    fn what_is_written_is_read_again() {
        let identity = identity(&info("one\ntwo"), 0x10de, 0x2330);
        assert!(
            identity.contains("driver: one two\n") && identity.contains("pci: 10de:2330\n"),
            "{identity}"
        );
        assert_eq!(parse(&text(&some(), &identity), &identity), Ok(some()));
        assert_eq!(parse(&text(&Choices::new(), &identity), &identity), Ok(Choices::new()));
    }

    #[test]
    fn other_drivers_and_cards_have_other_files() {
        let folder = Path::new("caches");
        let all = [("1.0", 1), ("1.1", 1), ("1.0", 2)]
            .map(|(driver, device)| file_of(folder, &identity(&info(driver), 1, device)));
        assert!(all[0] != all[1] && all[0] != all[2] && all[1] != all[2], "{all:?}");
    }

    #[test]
    fn whatever_is_odd_is_told() {
        let identity = identity(&info("1.0"), 1, 2);
        let whole = text(&some(), &identity);
        for (text, told) in [
            (String::new(), "empty"),
            ("{}".into(), "does not begin"),
            (whole.replace("format 1", "format 2"), "does not begin"),
            (whole.replace("driver: 1.0", "driver: 1.1"), "of another driver: \"1.1\" instead of \"1.0\""),
            (whole.replace("pci: ", "bus: "), "does not say of which pci it is"),
            (whole[..20].into(), "cut off"),
            (whole[..HEAD.len() + 12].into(), "cut off"),
            (whole[..whole.len() - 3].into(), "cut off"),
            (whole[..whole.len() - 8].into(), "cut off"),
            (whole.replace("end 2", "end 3"), "has 2 choices and says 3"),
            (whole.replace("\tplain\t", "\tnobody\t"), "line 8 is no choice"),
            (whole.replace("1.25e-4", "NaN"), "is no choice"),
            (whole.replace("matmul\t", "matmul "), "is no choice"),
        ] {
            let why = parse(&text, &identity).expect_err(told);
            assert!(why.contains(told), "{why}");
        }
        // Cut anywhere, it is never taken for a whole one, nor for another adapter's.
        for end in 1..whole.len() {
            let why = parse(&whole[..end], &identity).expect_err("cut");
            assert!(["cut off", "choices and says"].iter().any(|told| why.contains(told)), "{end}: {why}");
        }
    }
}
