//! Options behind the colon: `key=value`, with what a mistake is told with.

use crate::error::{Error, Result};
use crate::mask::Profile;
use std::str::FromStr;

/// Tolerance where none is given.
pub(super) const RTOL: f64 = 1e-4;

/// Least tolerance that words ask for: operators hold f32 numbers, whose own rounding is 6e-8. The types of masks take less, for their
/// matrices in f64.
pub const LEAST_RTOL: f64 = 1e-7;

/// Options of one mask or graph: `key=value`, each taken once.
pub(super) struct Options<'a> {
    kind: &'a str,
    example: &'static str,
    pub(super) list: Vec<(&'a str, &'a str)>,
}

impl<'a> Options<'a> {
    pub(super) fn of(kind: &'a str, rest: &'a str, example: &'static str) -> Result<Self> {
        let mut list: Vec<(&str, &str)> = Vec::new();
        for option in rest.split(',').map(str::trim).filter(|o| !o.is_empty()) {
            let wrong = |got: &str| {
                let what = format!("option of `{kind}`");
                Error::value(what, "key=value, each key once", got, format!("for example: {example}"))
            };
            let (key, value) = option.split_once('=').ok_or_else(|| wrong(option))?;
            if list.iter().any(|(other, _)| *other == key) {
                return Err(wrong(option));
            }
            list.push((key, value));
        }
        Ok(Self { kind, example, list })
    }

    pub(super) fn take(&mut self, key: &str) -> Option<&'a str> {
        let at = self.list.iter().position(|(other, _)| *other == key)?;
        Some(self.list.remove(at).1)
    }

    pub(super) fn error(&self, key: &str, expected: impl Into<String>, got: &str) -> Error {
        Error::value(
            format!("`{key}` of `{}`", self.kind),
            expected,
            got,
            format!("for example: {}", self.example),
        )
    }

    pub(super) fn number(
        &mut self,
        key: &str,
        default: Option<f64>,
        (least, most): (f64, f64),
    ) -> Result<f64> {
        let expected = || match (least, most) {
            (l, f64::MAX) if l > 0.0 => "a number above 0".to_string(),
            (l, f64::MAX) => format!("a finite number of at least {l}"),
            (l, m) if l > 0.0 && l < 1e-3 => format!("a number from {l:e} to {m}"),
            (l, m) => format!("a number from {l} to {m}"),
        };
        match (self.take(key), default) {
            (None, Some(x)) => Ok(x),
            (None, None) => Err(self.error(key, expected(), "none")),
            (Some(text), _) => {
                let found = text.parse::<f64>().ok().filter(|x| (least..=most).contains(x));
                found.ok_or_else(|| self.error(key, expected(), text))
            }
        }
    }

    /// The tolerance of a series or a sum.
    pub(super) fn tolerance(&mut self) -> Result<f64> {
        let Some(text) = self.take("rtol") else { return Ok(RTOL) };
        let expected = || format!("a number from {LEAST_RTOL:e} to less than 1");
        match text.parse::<f64>() {
            Ok(x) if (LEAST_RTOL..1.0).contains(&x) => Ok(x),
            Ok(x) if x > 0.0 && x < LEAST_RTOL => Err(Error::value(
                format!("`rtol` of `{}`", self.kind),
                expected(),
                text,
                "results are f32, whose own rounding is 6e-8: ask for no less than they can hold",
            )),
            _ => Err(self.error("rtol", expected(), text)),
        }
    }

    pub(super) fn whole(&mut self, key: &str, default: Option<u64>, least: u64) -> Result<u64> {
        let expected = || format!("a whole number of at least {least}");
        match (self.take(key), default) {
            (None, Some(x)) => Ok(x),
            (None, None) => Err(self.error(key, expected(), "none")),
            (Some(text), _) => {
                let found = text.parse::<u64>().ok().filter(|x| *x >= least);
                found.ok_or_else(|| self.error(key, expected(), text))
            }
        }
    }

    /// A whole number that a kernel can count.
    pub(super) fn count(&mut self, key: &str, default: Option<u64>, least: u64) -> Result<u32> {
        let x = self.whole(key, default, least)?;
        u32::try_from(x).map_err(|_| self.error(key, "a whole number below 2³²", &x.to_string()))
    }

    pub(super) fn named<T: FromStr<Err = Error> + Default>(&mut self, key: &str) -> Result<T> {
        self.take(key).map_or_else(|| Ok(T::default()), str::parse)
    }

    pub(super) fn profile(&mut self) -> Result<(Profile, f64)> {
        let profile = match self.take("profile") {
            None => Profile::Exponential,
            Some(text) => {
                let names = Profile::ALL.map(|(name, _)| name).join(", ");
                let found = Profile::ALL.iter().find(|(name, _)| *name == text);
                found.ok_or_else(|| self.error("profile", names, text))?.1
            }
        };
        Ok((profile, self.number("size", Some(8.0), ABOVE_0)?))
    }

    pub(super) fn end(self, known: &str) -> Result<()> {
        match self.list.first() {
            None => Ok(()),
            Some((key, value)) => Err(Error::value(
                format!("option of `{}`", self.kind),
                known,
                format!("{key}={value}"),
                format!("for example: {}", self.example),
            )),
        }
    }
}

/// Bounds of a number.
pub(super) const ABOVE_0: (f64, f64) = (f64::MIN_POSITIVE, f64::MAX);
/// Bounds of a number.
pub(super) const FROM_0: (f64, f64) = (0.0, f64::MAX);
