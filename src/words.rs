//! Words of messages: counts with their nouns, and what the system says of files, without its error numbers and with a way out.

use num_traits::One;
use std::fmt::Display;
#[cfg(any(feature = "cli", feature = "cuda", feature = "vision", feature = "wgpu"))]
use std::io;

/// The form of a word that goes with a count: `plural(1, "is", "are")` is `is`.
pub(crate) fn plural<'a, N: One + PartialEq>(count: N, one: &'a str, many: &'a str) -> &'a str {
    if count.is_one() { one } else { many }
}

/// A count with its noun: `1 pass`, `7 passes`.
pub(crate) fn counted<N: One + PartialEq + Display + Copy>(count: N, one: &str, many: &str) -> String {
    format!("{count} {}", plural(count, one, many))
}

/// A value that may be missing, in a message: `7`, or `none`.
pub(crate) fn or_none(value: Option<impl Display>) -> String {
    value.map_or_else(|| "none".into(), |value| value.to_string())
}

/// The word of a list that another one was probably meant to be: a third of its letters may be wrong, missing, too many or swapped with
/// the next.
pub(crate) fn closest<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let far = |other: &&str| slips(word, other);
    let best = known.into_iter().min_by_key(far)?;
    (slips(word, best) <= word.chars().count().max(best.chars().count()) / 3).then_some(best)
}

/// The few words of a list that are nearest to another one, or one of whose parts between underscores is: `newtn` is near to
/// `newton_schulz`.
#[cfg(feature = "cli")]
pub(crate) fn nearest<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> Vec<&'a str> {
    const MOST: usize = 3;
    let far = |other: &str| {
        let part = other.split('_').map(|part| slips(word, part)).min().unwrap_or(usize::MAX);
        let whole = slips(word, other);
        (part.min(whole), whole)
    };
    let mut all: Vec<((usize, usize), &str)> = known.into_iter().map(|other| (far(other), other)).collect();
    all.sort_unstable();
    all.dedup();
    all.into_iter().take(MOST).map(|(_, other)| other).collect()
}

/// Letters to change, leave out, add, or swap with the next one, until a word is another (optimal string alignment).
fn slips(a: &str, b: &str) -> usize {
    let [a, b] = [a, b].map(|word| word.to_lowercase().chars().collect::<Vec<_>>());
    let mut rows: Vec<Vec<usize>> = vec![(0..=b.len()).collect()];
    for i in 1..=a.len() {
        let mut row = vec![i];
        for j in 1..=b.len() {
            let other = usize::from(a[i - 1] != b[j - 1]);
            let mut least = (rows[i - 1][j] + 1).min(row[j - 1] + 1).min(rows[i - 1][j - 1] + other);
            if i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] {
                least = least.min(rows[i - 2][j - 2] + 1);
            }
            row.push(least);
        }
        rows.push(row);
    }
    rows[a.len()][b.len()]
}

#[cfg(any(feature = "cuda", feature = "vision", feature = "wgpu"))]
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

/// An error as one line without the place in our own source, which tells a user of the command line nothing.
#[cfg(any(feature = "cli", feature = "wgpu"))]
pub(crate) fn one_line(error: impl Display) -> String {
    // Drivers' messages may span lines.
    let line = plain(error).lines().map(str::trim).collect::<Vec<_>>().join(" ");
    match line.rfind(" (src") {
        Some(at) if line.ends_with(')') => line[..at].to_string(),
        _ => line,
    }
}

/// The same with what can be done about it: `permission denied; check its permissions`.
#[cfg(any(feature = "cli", feature = "cuda", feature = "vision", feature = "wgpu"))]
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

    #[test]
    fn what_is_missing_is_none() {
        assert_eq!([or_none(Some(7)), or_none(None::<u32>)], ["7", "none"]);
    }

    #[test]
    fn slips_of_a_word_are_few() {
        let known = ["diffusion", "toeplitz", "tree", "steps", "spd"];
        for (word, meant) in [
            ("difusion", Some("diffusion")),
            ("Diffusoin", Some("diffusion")),
            ("toplitz", Some("toeplitz")),
            ("tre", Some("tree")),
            ("step", Some("steps")),
            ("sdp", Some("spd")),
            ("causal", None),
            ("", None),
        ] {
            assert_eq!(closest(word, known), meant, "{word}");
        }
        assert_eq!(closest("tree", []), None);
        assert_eq!([slips("ab", "ba"), slips("abc", "ac"), slips("", "xy")], [1, 1, 2]);
    }

    #[cfg(feature = "cli")]
    #[test]
    fn the_nearest_words_come_first() {
        let known = ["fft", "matmul", "newton_schulz", "newton_schulz_workgroup", "scan", "matmul"];
        assert_eq!(nearest("mtmul", known)[0], "matmul");
        assert_eq!(nearest("newtn", known)[..2], ["newton_schulz", "newton_schulz_workgroup"]);
        assert_eq!(nearest("x", ["a", "b"]), ["a", "b"]);
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
