//! Words of messages: counts with their nouns, and what the system says of files, without its error numbers and with a way out.

use num_traits::One;
use std::fmt::Display;
#[cfg(feature = "cli")]
use std::io;

/// The form of a word that goes with a count: `plural(1, "is", "are")` is `is`.
pub(crate) fn plural<'a, N: One + PartialEq>(count: N, one: &'a str, many: &'a str) -> &'a str {
    if count.is_one() { one } else { many }
}

/// A count with its noun: `1 pass`, `7 passes`.
pub(crate) fn counted<N: One + PartialEq + Display + Copy>(count: N, one: &str, many: &str) -> String {
    format!("{count} {}", plural(count, one, many))
}

#[cfg(feature = "vision")]
/// What a library or the system says, without the system's error number: `file exists`.
pub(crate) fn plain(error: impl Display) -> String {
    const CODE: &str = " (os error ";
    let text = error.to_string();
    let Some((before, rest)) = text.split_once(CODE) else { return text };
    let after = rest.split_once(')').map_or("", |(_, after)| after);
    let mut letters = before.chars();
    let first = letters.next().map(|c| c.to_lowercase().to_string()).unwrap_or_default();
    format!("{first}{}{after}", letters.as_str())
}

/// The same with what can be done about it: `permission denied; check its permissions`.
#[cfg(feature = "cli")]
pub(crate) fn told(error: &io::Error) -> String {
    use io::ErrorKind as Kind;
    let remedy = match error.kind() {
        Kind::NotFound => "check the name and its folder",
        Kind::PermissionDenied => "check its permissions",
        Kind::AlreadyExists => "choose another name",
        Kind::IsADirectory => "name a file, not a folder",
        Kind::NotADirectory => "a part of its path is a file; name a folder there",
        Kind::ReadOnlyFilesystem => "choose a folder that can be written",
        Kind::StorageFull | Kind::QuotaExceeded | Kind::FileTooLarge => "make room, or choose another disk",
        Kind::InvalidFilename => "choose a shorter name",
        _ if error.raw_os_error().is_some() => "try another place",
        // A reader's own words about what it read.
        _ => return plain(error),
    };
    format!("{}; {remedy}", plain(error))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_agree_with_their_nouns() {
        let passes = |n: usize| counted(n, "pass", "passes");
        assert_eq!([0, 1, 2].map(passes), ["0 passes", "1 pass", "2 passes"]);
        assert_eq!(plural(1_u64, "is", "are"), "is");
    }

    #[cfg(all(unix, feature = "cli"))]
    #[test]
    fn errors_of_the_system_have_a_remedy_and_no_number() {
        let told_of = |code| told(&io::Error::from_raw_os_error(code));
        assert_eq!(told_of(17), "file exists; choose another name");
        assert_eq!(told_of(13), "permission denied; check its permissions");
        assert_eq!(told_of(28), "no space left on device; make room, or choose another disk");
        assert_eq!(told(&io::Error::other("odd bytes")), "odd bytes");
        assert_eq!(plain("writing: No space (os error 28), twice"), "writing: No space, twice");
    }
}
