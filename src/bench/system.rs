//! The machine that a benchmark or a conformance run ran on, as far as the system tells without further libraries.

use serde_json::{Value, json};

/// System, processor and memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct System {
    /// Name and version of the operating system.
    pub os: String,
    /// Architecture the program was built for.
    pub arch: String,
    /// Name of the processor, where the system tells.
    pub cpu: Option<String>,
    /// Threads that may run at once.
    pub cores: Option<usize>,
    /// Bytes of memory, where the system tells.
    pub memory_bytes: Option<u64>,
}

/// The value of the first line `key<separator>value` of a text.
fn value_of(text: &str, key: &str, separator: char) -> Option<String> {
    let value = |line: &str| {
        let (name, value) = line.split_once(separator)?;
        (name.trim() == key).then(|| value.trim().trim_matches('"').to_string())
    };
    text.lines().find_map(value).filter(|v| !v.is_empty())
}

fn from_file(path: &str, key: &str, separator: char) -> Option<String> {
    value_of(&std::fs::read_to_string(path).ok()?, key, separator)
}

/// What macOS says of itself.
fn from_sysctl(name: &str) -> Option<String> {
    if std::env::consts::OS != "macos" {
        return None;
    }
    let output = std::process::Command::new("/usr/sbin/sysctl").args(["-n", name]).output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    Some(text.trim().to_string()).filter(|t| output.status.success() && !t.is_empty())
}

fn kib(text: &str) -> Option<u64> {
    text.strip_suffix("kB")?.trim().parse::<u64>().ok()?.checked_mul(1024)
}

impl System {
    /// This machine.
    pub fn here() -> Self {
        let os = std::env::consts::OS;
        let version = from_file("/etc/os-release", "PRETTY_NAME", '=')
            .or_else(|| from_sysctl("kern.osproductversion"))
            .or_else(|| std::env::var("OS").ok());
        Self {
            os: version.map_or_else(|| os.to_string(), |v| format!("{os}: {v}")),
            arch: std::env::consts::ARCH.into(),
            cpu: from_file("/proc/cpuinfo", "model name", ':')
                .or_else(|| from_sysctl("machdep.cpu.brand_string"))
                .or_else(|| std::env::var("PROCESSOR_IDENTIFIER").ok()),
            cores: std::thread::available_parallelism().ok().map(std::num::NonZero::get),
            memory_bytes: from_file("/proc/meminfo", "MemTotal", ':')
                .and_then(|t| kib(&t))
                .or_else(|| from_sysctl("hw.memsize")?.parse().ok()),
        }
    }

    /// As JSON; what the system does not tell is null.
    pub fn json(&self) -> Value {
        json!({
            "os": self.os, "arch": self.arch, "cpu": self.cpu, "cores": self.cores,
            "memory_bytes": self.memory_bytes,
        })
    }
}

/// The commit that was built, with `-dirty` after it where files differed from it; `None` in debug builds and where nobody knew (see
/// `build.rs`).
pub(crate) fn commit() -> Option<&'static str> {
    let is_hash = |c: &str| c.len() == 40 && c.bytes().all(|b| b.is_ascii_hexdigit());
    option_env!("WGATTN_COMMIT").filter(|c| is_hash(c.strip_suffix(DIRTY).unwrap_or(c)))
}

/// What stands behind a commit where the source differed from it.
const DIRTY: &str = "-dirty";

/// The first letters of a commit, which tell it from others.
pub(super) fn short_commit(commit: &str) -> String {
    let changed = if commit.ends_with(DIRTY) { DIRTY } else { "" };
    commit.trim_end_matches(DIRTY).chars().take(12).collect::<String>() + changed
}

/// A moment as `2026-11-30T12:00:00Z`.
pub(crate) fn date(time: std::time::SystemTime) -> String {
    let seconds = time.duration_since(std::time::UNIX_EPOCH).map_or(0, |d| d.as_secs());
    let (days, second) = (seconds / 86_400, seconds % 86_400);
    // The civil calendar from a count of days, in eras of 400 years that begin in March (Hinnant 2013).
    let shifted = days + 719_468;
    let (era, day_of_era) = (shifted / 146_097, shifted % 146_097);
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * from_march + 2) / 5 + 1;
    let month = if from_march < 10 { from_march + 3 } else { from_march - 9 };
    let year = 400 * era + year_of_era + u64::from(month <= 2);
    format!("{year:04}-{month:02}-{day:02}T{:02}:{:02}:{:02}Z", second / 3600, second / 60 % 60, second % 60)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::{Duration, UNIX_EPOCH};

    #[test]
    fn dates_are_those_of_the_calendar() {
        let at = |seconds| date(UNIX_EPOCH + Duration::from_secs(seconds));
        assert_eq!(at(0), "1970-01-01T00:00:00Z");
        assert_eq!(at(951_782_400), "2000-02-29T00:00:00Z");
        assert_eq!(at(1_796_042_096), "2026-11-30T12:34:56Z");
        assert_eq!(at(4_107_542_399), "2100-02-28T23:59:59Z");
        assert_eq!(at(4_107_542_400), "2100-03-01T00:00:00Z");
    }

    #[test]
    fn a_short_commit_keeps_its_mark() {
        let whole = "0123456789abcdef0123456789abcdef01234567";
        assert_eq!(short_commit(whole), "0123456789ab");
        assert_eq!(short_commit(&format!("{whole}-dirty")), "0123456789ab-dirty");
    }

    #[test]
    fn values_are_found_by_their_key() {
        let text = "NAME=x\nPRETTY_NAME=\"Some System 12\"\n";
        assert_eq!(value_of(text, "PRETTY_NAME", '='), Some("Some System 12".into()));
        assert_eq!(
            value_of("model name\t: A CPU @ 2 GHz: fast\n", "model name", ':'),
            Some("A CPU @ 2 GHz: fast".into())
        );
        assert_eq!(value_of(text, "VERSION", '='), None);
        assert_eq!(kib("16 kB"), Some(16_384));
        assert_eq!(kib("16 MB"), None);
    }

    #[test]
    fn this_machine_has_a_system_and_cores() {
        let here = System::here();
        assert!(!here.os.is_empty() && here.cores.is_some_and(|c| c > 0), "{here:?}");
    }
}
