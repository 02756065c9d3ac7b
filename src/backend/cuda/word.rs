//! Words that ask for a CUDA device: a card by its number, with the precision of its products, or the host.

use super::host;
use crate::error::{Error, Result};

/// What products are computed in by cuBLAS: their operands are f32, and so are their results and sums.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Precision {
    /// Operands as they are.
    #[default]
    F32,
    /// Operands rounded to 10 bits behind the point.
    Tf32,
    /// Operands rounded to 7 bits behind the point.
    Bf16,
}

impl Precision {
    /// What a device's name says of it; nothing of f32, which is what everybody expects.
    pub fn in_name(self) -> &'static str {
        match self {
            Self::F32 => "",
            Self::Tf32 => " (TF32 products)",
            Self::Bf16 => " (BF16 products)",
        }
    }

    /// The word for it.
    pub fn word(self) -> &'static str {
        match self {
            Self::F32 => "f32",
            Self::Tf32 => "tf32",
            Self::Bf16 => "bf16",
        }
    }

    /// What a word for a card ends with.
    pub(super) fn suffix(self) -> String {
        if self == Self::F32 { String::new() } else { format!(":{}", self.word()) }
    }

    /// The oldest architecture whose tensor cores have it; 0 where all do.
    pub(super) fn oldest(self) -> i32 {
        if self == Self::F32 { 0 } else { 80 }
    }

    /// Why it cannot be had where the environment says `value` for `NVIDIA_TF32_OVERRIDE`, which NVIDIA's libraries obey whatever a program
    /// asks of them.
    pub(super) fn overridden(self, value: Option<&str>) -> Option<String> {
        let value = value.map(str::trim).filter(|v| !v.is_empty())?;
        let (what, remedy) = match (self, value) {
            (Self::F32, "0") | (Self::Bf16, _) => return None,
            (Self::F32, _) => {
                ("lets cuBLAS round products to TF32", "unset it, or name the precision: cuda:0:tf32")
            }
            (Self::Tf32, "0") => ("keeps cuBLAS from TF32", "unset it, or ask for cuda:0"),
            (Self::Tf32, _) => return None,
        };
        Some(format!(
            "NVIDIA_TF32_OVERRIDE={value} in the environment {what} whatever it is asked for; {remedy}"
        ))
    }
}

/// What a word asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Asked {
    /// A card by its place in the driver's list.
    Card(usize, Precision),
    /// Sources on the host.
    Host,
}

impl Asked {
    /// Reads `cuda` (the first card), `cuda:1`, `cuda:1:tf32` or `cuda:host`, in small letters.
    ///
    /// Errors: [`Error::NoDevice`] with what could be asked for.
    pub(super) fn read(word: &str) -> Result<Self> {
        let wrong = |reason: String| Error::NoDevice { asked: word.into(), reason };
        let mut parts = word.split(':').skip(1);
        let (place, precision, more) = (parts.next(), parts.next(), parts.next());
        let precision = match (precision, more) {
            (None, _) => Some(Precision::F32),
            (Some("tf32"), None) => Some(Precision::Tf32),
            (Some("bf16"), None) => Some(Precision::Bf16),
            _ => None,
        };
        match (place, precision) {
            (None, _) => Ok(Self::Card(0, Precision::F32)),
            (Some("host"), Some(Precision::F32)) => Ok(Self::Host),
            (Some("host"), _) => Err(wrong(format!(
                "{} has one precision: cuBLAS is stood in for there by the f64 reference, rounded to f32; ask for {} or for a card, cuda:0:tf32",
                host::NAME,
                host::NAME
            ))),
            (Some(number), precision) => {
                number.parse().ok().zip(precision).map(|(number, p)| Self::Card(number, p)).ok_or_else(|| {
                    wrong(
                        "ask for cuda, cuda:0 (a card by its number), cuda:0:tf32 or cuda:0:bf16 (with products in that \
                         precision instead of f32), or cuda:host (sources on the host, for tests)"
                            .into(),
                    )
                })
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_name_a_card_its_precision_or_the_host() {
        use Precision::{Bf16, F32, Tf32};
        for (word, expected) in [
            ("cuda", Asked::Card(0, F32)),
            ("cuda:0", Asked::Card(0, F32)),
            ("cuda:12", Asked::Card(12, F32)),
            ("cuda:0:tf32", Asked::Card(0, Tf32)),
            ("cuda:3:bf16", Asked::Card(3, Bf16)),
            ("cuda:host", Asked::Host),
        ] {
            assert_eq!(Asked::read(word).expect("a word"), expected, "{word}");
        }
    }

    #[test]
    fn other_words_are_refused_with_what_there_is() {
        for word in [
            "cuda:",
            "cuda:x",
            "cuda:-1",
            "cuda:tf32",
            "cuda:0:",
            "cuda:0:f16",
            "cuda:0:tf32:bf16",
            "cuda:0:0",
        ] {
            let told = Asked::read(word).expect_err("no such device").to_string();
            assert!(told.contains(word) && told.contains("cuda:0:tf32 or cuda:0:bf16"), "{word}: {told}");
        }
        for word in ["cuda:host:tf32", "cuda:host:x", "cuda:host:"] {
            let told = Asked::read(word).expect_err("no such device").to_string();
            assert!(told.contains("has one precision"), "{word}: {told}");
        }
    }

    #[test]
    fn an_environment_that_overrules_the_precision_is_told() {
        use Precision::{Bf16, F32, Tf32};
        for (precision, value, told) in [
            (F32, None, None),
            (F32, Some("0"), None),
            (F32, Some(""), None),
            (F32, Some("1"), Some("cuda:0:tf32")),
            (Tf32, Some("1"), None),
            (Tf32, Some("0"), Some("keeps cuBLAS from TF32")),
            (Bf16, Some("0"), None),
        ] {
            let found = precision.overridden(value);
            assert_eq!(found.is_some(), told.is_some(), "{precision:?} {value:?}: {found:?}");
            assert!(
                told.is_none_or(|told| found.is_some_and(|f| f.contains(told))),
                "{precision:?} {value:?}"
            );
        }
    }
}
