//! Position codes in words: what `--position` takes, and what the explorer copies back out.
//!
//! ```text
//! spe-sine:sinusoids=5,bias=-4,realizations=256,gate=0.5,seed=0
//! spe-conv:taps=8x8,realizations=256,gate=0.5,seed=0
//! spe-sine:file=model.safetensors,convention=pytorch,prefix=encoder.,gate-prefix=layer0.
//!
//! both:  mode=icdf|box-muller|rademacher    init=0 (seed of the parameters)    shared-heads (one noise for all heads)
//! ```
//!
//! Everything may be left out. Without a file the parameters are those that training begins with; with one, `init` and sizes have no
//! meaning and are refused. `gate-prefix=` with nothing behind it is for a gate of that very name.

#[cfg(feature = "cli")]
use super::weights::{self, Convention, Spelling};
use super::{Code, ConvCode, Encoding, Gate, Meaning, Mode, Noise, SineCode, noise};
use crate::error::{Error, Result};
use crate::position::sine::{PUBLISHED_BIAS, SineSizes};
use crate::words::counted;
use std::fmt;
use std::str::FromStr;

/// Realisations unless told otherwise.
pub const DEFAULT_REALIZATIONS: u32 = 256;
/// Sinusoids K unless told otherwise.
pub const DEFAULT_SINUSOIDS: u32 = 5;
/// Taps along an axis unless told otherwise: on a line, and on pictures and films.
pub const DEFAULT_TAPS: [u32; 2] = [16, 8];

/// Which code.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// Sums of cosines.
    Sine,
    /// Pairs of filters.
    Conv,
}

impl Kind {
    /// Both with the names that commands use.
    pub const ALL: [(&str, Self); 2] = [("spe-sine", Self::Sine), ("spe-conv", Self::Conv)];

    /// The name that commands use.
    pub fn name(self) -> &'static str {
        Self::ALL[self as usize].0
    }
}

/// Where a code's parameters come from.
#[derive(Clone, Debug, PartialEq)]
pub enum Parameters {
    /// As training begins with them, on as many axes as the tokens have.
    Sine {
        /// Sinusoids K.
        sinusoids: u32,
        /// Bias of the frequencies.
        bias: f64,
    },
    /// As training begins with them.
    Conv {
        /// Taps along each axis; `None` for [`DEFAULT_TAPS`] on the axes that the tokens have.
        taps: Option<Vec<u32>>,
    },
    /// A file of a published program.
    #[cfg(feature = "cli")]
    File {
        /// Which kind is expected there.
        kind: Kind,
        /// The file.
        path: std::path::PathBuf,
        /// How it is read; `heads` is filled in from the tokens.
        source: weights::Source,
    },
}

/// A position code and its noise, before it knows the tokens.
#[derive(Clone, Debug, PartialEq)]
pub struct EncodingSpec {
    /// Parameters.
    pub parameters: Parameters,
    /// Realisations R.
    pub realizations: u32,
    /// γ of a gate, 0 to 1, the same for all heads and dimensions.
    pub gate: Option<f64>,
    /// Seed of the noise.
    pub seed: u64,
    /// Seed of parameters as training begins with them.
    pub init: u64,
    /// Distribution of the noise.
    pub mode: Mode,
    /// Whether all heads see one noise.
    pub shared_heads: bool,
}

impl EncodingSpec {
    /// What is meant by a kind's name alone.
    pub fn of(kind: Kind) -> Self {
        let parameters = match kind {
            Kind::Sine => Parameters::Sine { sinusoids: DEFAULT_SINUSOIDS, bias: PUBLISHED_BIAS },
            Kind::Conv => Parameters::Conv { taps: None },
        };
        Self {
            parameters,
            realizations: DEFAULT_REALIZATIONS,
            gate: None,
            seed: 0,
            init: 0,
            mode: Mode::Icdf,
            shared_heads: false,
        }
    }

    /// Whether these words name a position code, right or wrong ones.
    pub fn is_meant(text: &str) -> bool {
        text.split(':').next().is_some_and(|kind| Kind::ALL.iter().any(|(name, _)| *name == kind))
    }

    /// Which code.
    pub fn kind(&self) -> Kind {
        match &self.parameters {
            Parameters::Sine { .. } => Kind::Sine,
            Parameters::Conv { .. } => Kind::Conv,
            #[cfg(feature = "cli")]
            Parameters::File { kind, .. } => *kind,
        }
    }

    /// The noise.
    pub fn noise(&self) -> Noise {
        Noise { seed: self.seed, mode: self.mode, shared_by_heads: self.shared_heads, ..Noise::default() }
    }

    /// The code for tokens on `axes` axes.
    ///
    /// Errors: [`Error::Value`] for sizes of 0 or beyond the noise's counters, taps of other axes, and a gate outside 0 to 1; for a
    /// file also what reading it says, and [`Error::Value`] where it holds the other kind, or other heads or dimensions.
    pub fn encoding(&self, heads: u32, width: u32, axes: usize) -> Result<Encoding> {
        let fit = |_, _| "take queries and keys of the model that the file belongs to".to_owned();
        self.encoding_noting(heads, width, axes, &fit).map(|(encoding, _)| encoding)
    }

    /// The same, with a sentence for the user where parameters of a file were left unused; `fit` says what to do about a file of other
    /// heads and dimensions, which it is given.
    ///
    /// Errors: as [`Self::encoding`].
    #[cfg_attr(not(feature = "cli"), expect(unused_variables, reason = "files are read by the command line"))]
    pub(crate) fn encoding_noting(
        &self,
        heads: u32,
        width: u32,
        axes: usize,
        fit: &dyn Fn(u32, u32) -> String,
    ) -> Result<(Encoding, Option<String>)> {
        noise::check_sizes(heads, width, self.realizations)?;
        let (code, note): (Code, Option<String>) = match &self.parameters {
            Parameters::Sine { sinusoids, bias } => {
                let sizes = SineSizes { heads, width, sinusoids: *sinusoids, axes: axes as u32 };
                (SineCode::init(sizes, *bias, self.init)?.into(), None)
            }
            Parameters::Conv { taps } => {
                let taps = taps.clone().unwrap_or_else(|| vec![DEFAULT_TAPS[usize::from(axes > 1)]; axes]);
                self.check_axes(taps.len(), axes)?;
                (ConvCode::init(heads, width, &taps, self.init)?.into(), None)
            }
            #[cfg(feature = "cli")]
            Parameters::File { kind, path, source } => {
                let (read, left) = from_file(path, *kind, source, heads)?;
                check_file(&read, path, (heads, width), fit)?;
                self.check_axes(read.code().axes(), axes)?;
                if self.gate.is_none() {
                    return Ok((read, left));
                }
                // Of two gates one was refused with the words.
                (read.code().clone(), left)
            }
        };
        let gate = self.gate.map(|share| even_gate(heads, width, share)).transpose()?.flatten();
        Ok((Encoding::new(code, gate)?, note))
    }

    /// Refuses a code on other axes than the tokens'.
    fn check_axes(&self, got: usize, axes: usize) -> Result<()> {
        if got == axes {
            return Ok(());
        }
        let remedy = match &self.parameters {
            Parameters::Sine { .. } | Parameters::Conv { .. } => {
                let example = ["taps=16", "taps=8x8", "taps=8x8x8"][axes.clamp(1, 3) - 1];
                format!("give taps for each axis, such as {example}")
            }
            #[cfg(feature = "cli")]
            Parameters::File { kind: Kind::Sine, .. } => {
                "sinusoids in files stand on one axis: give tokens of a sequence, or leave file= out".into()
            }
            #[cfg(feature = "cli")]
            Parameters::File { kind: Kind::Conv, .. } => {
                format!("the file's filters have {}: give tokens on as many", counted(got, "axis", "axes"))
            }
        };
        Err(Error::value(
            "axes of a position code",
            format!("{axes}, as the tokens have"),
            counted(got, "axis", "axes"),
            remedy,
        ))
    }
}

/// The code in a file, with as many heads as it says itself or as are given, and what is to be told of the file.
///
/// Errors: as [`weights::read`]; [`Error::Value`] where it is of the other kind.
#[cfg(feature = "cli")]
pub fn from_file(
    path: &std::path::Path,
    kind: Kind,
    source: &weights::Source,
    heads: u32,
) -> Result<(Encoding, Option<String>)> {
    let source = weights::Source { heads: source.heads.or(Some(heads)), ..source.clone() };
    let (read, note) = weights::read_noting(path, &source)?;
    let found = match read.code() {
        Code::Sine(_) => Kind::Sine,
        Code::Conv(_) => Kind::Conv,
    };
    if found != kind {
        return Err(Error::value(
            format!("code in {}", path.display()),
            kind.name(),
            found.name(),
            match source.spelling {
                Spelling::Words => format!("write {}:file=…, or give another prefix", found.name()),
                Spelling::Flags => {
                    let other = found.name().trim_start_matches("spe-");
                    format!("use `wgattn spe {other}`, or give another --prefix")
                }
            },
        ));
    }
    Ok((read, note))
}

/// Refuses a file for other tokens.
#[cfg(feature = "cli")]
fn check_file(
    read: &Encoding,
    path: &std::path::Path,
    (heads, width): (u32, u32),
    fit: &dyn Fn(u32, u32) -> String,
) -> Result<()> {
    let got = (read.code().heads(), read.code().width());
    if got == (heads, width) {
        return Ok(());
    }
    Err(Error::value(
        format!("heads and dimensions of {}", path.display()),
        format!("{heads} and {width}, as queries and keys have"),
        format!("{} and {}", got.0, got.1),
        fit(got.0, got.1),
    ))
}

/// γ for all heads and dimensions; no gate for 0.
///
/// Errors: [`Error::Value`] outside 0 to 1.
pub fn even_gate(heads: u32, width: u32, share: f64) -> Result<Option<Gate>> {
    if !(0.0..=1.0).contains(&share) {
        let remedy = "0 is positions alone, 1 none of them";
        return Err(Error::value("gate γ of a position code", "0 to 1", share, remedy));
    }
    if share == 0.0 {
        return Ok(None);
    }
    // 1 − sigmoid is 0 in f64 from here on.
    let raw = if share == 1.0 { 800.0 } else { (share / (1.0 - share)).ln() };
    Gate::new(heads, width, vec![raw; (heads * width) as usize], Meaning::Paper).map(Some)
}

/// Numbers of a grid in words: `16` or `8x8`.
///
/// Errors: [`Error::Value`] for anything else, no or too many axes, and sides of 0.
pub fn sides(what: &str, text: &str) -> Result<Vec<u32>> {
    let wrong = || {
        let expected = "whole numbers of at least 1 for one to three axes";
        Error::value(what, expected, text, "for example: 16, or 8x8 on a picture")
    };
    let sides: Option<Vec<u32>> = text.split('x').map(|side| side.trim().parse().ok()).collect();
    sides.filter(|sides| sides.len() <= 3 && !sides.contains(&0)).ok_or_else(wrong)
}

/// Entry of a list of names.
fn named<T: Copy>(key: &str, list: &[(&str, T)], text: &str) -> Result<T> {
    let found = list.iter().find(|(name, _)| *name == text);
    found.map(|(_, entry)| *entry).ok_or_else(|| {
        let names: Vec<&str> = list.iter().map(|(name, _)| *name).collect();
        Error::value(format!("`{key}` of a position code"), names.join(", "), text, "choose one of them")
    })
}

/// The words after the kind.
struct Words<'a> {
    kind: &'static str,
    list: Vec<(&'a str, &'a str)>,
}

impl<'a> Words<'a> {
    fn take(&mut self, key: &str) -> Option<&'a str> {
        let at = self.list.iter().position(|(other, _)| *other == key)?;
        Some(self.list.remove(at).1)
    }

    fn read<T: FromStr>(&mut self, key: &str, default: T, expected: &str) -> Result<T> {
        match self.take(key) {
            None => Ok(default),
            Some(text) => text.parse().map_err(|_| {
                let remedy = format!("for example: {}", example(self.kind));
                Error::value(format!("`{key}` of `{}`", self.kind), expected, text, remedy)
            }),
        }
    }
}

fn example(kind: &str) -> &'static str {
    match kind {
        "spe-conv" => "spe-conv:taps=8x8,realizations=256",
        _ => "spe-sine:sinusoids=5,bias=-4,realizations=256",
    }
}

impl FromStr for EncodingSpec {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let (name, rest) = text.split_once(':').unwrap_or((text, ""));
        let Some(&(name, kind)) = Kind::ALL.iter().find(|(known, _)| *known == name) else {
            let names = Kind::ALL.map(|(name, _)| name).join(", ");
            return Err(Error::value("position code", names, name, format!("for example: {}", example(""))));
        };
        let mut words = Words { kind: name, list: Vec::new() };
        for word in rest.split(',').map(str::trim).filter(|word| !word.is_empty()) {
            let (key, value) = match word.split_once('=') {
                Some(pair) => pair,
                None if word == "shared-heads" => (word, "yes"),
                None => ("", word),
            };
            if key.is_empty() || words.list.iter().any(|(other, _)| *other == key) {
                let what = format!("option of `{name}`");
                let remedy = format!("for example: {}", example(name));
                return Err(Error::value(what, "key=value, each key once", word, remedy));
            }
            words.list.push((key, value));
        }
        #[cfg(feature = "cli")]
        let given: Vec<(&str, &str)> = words.list.clone();
        let mut spec = Self::of(kind);
        spec.realizations = words.read("realizations", spec.realizations, "a whole number")?;
        spec.seed = words.read("seed", 0, "a whole number from 0 to 2^64 − 1")?;
        spec.init = words.read("init", 0, "a whole number from 0 to 2^64 − 1")?;
        spec.gate = match words.list.iter().any(|(key, _)| *key == "gate") {
            true => Some(words.read("gate", 0.0, "a number from 0 to 1")?),
            false => None,
        };
        if let Some(mode) = words.take("mode") {
            spec.mode = named("mode", &Mode::ALL, mode)?;
        }
        spec.shared_heads = match words.take("shared-heads") {
            None | Some("no") => false,
            Some("yes") => true,
            Some(other) => {
                return Err(Error::value(
                    "`shared-heads` of a position code",
                    "yes or no",
                    other,
                    "leave it out",
                ));
            }
        };
        #[cfg(feature = "cli")]
        let of_file = file(&mut words, kind, &given, spec.gate)?;
        #[cfg(not(feature = "cli"))]
        let of_file: Option<Parameters> = None;
        spec.parameters = match (of_file, kind) {
            (Some(file), _) => file,
            (None, Kind::Sine) => Parameters::Sine {
                sinusoids: words.read("sinusoids", DEFAULT_SINUSOIDS, "a whole number")?,
                bias: words.read("bias", PUBLISHED_BIAS, "a number")?,
            },
            (None, Kind::Conv) => {
                let taps = words.take("taps").map(|text| sides("taps of a position code", text));
                Parameters::Conv { taps: taps.transpose()? }
            }
        };
        if let Some((key, value)) = words.list.first() {
            let own = match spec.parameters {
                Parameters::Sine { .. } => "sinusoids, bias",
                Parameters::Conv { .. } => "taps",
                #[cfg(feature = "cli")]
                Parameters::File { .. } => "file, convention, prefix, gate-prefix",
            };
            let of_file = own.starts_with("file");
            let init = if of_file { "" } else { " init," };
            return Err(Error::value(
                format!("option of `{name}`"),
                format!("{own}, realizations, gate, seed,{init} mode, shared-heads"),
                format!("{key}={value}"),
                format!("for example: {}", example(name)),
            ));
        }
        spec.check()?;
        Ok(spec)
    }
}

impl EncodingSpec {
    /// What can be said before the tokens are known.
    fn check(&self) -> Result<()> {
        noise::check_sizes(1, 1, self.realizations)?;
        if let Some(gate) = self.gate {
            even_gate(1, 1, gate)?;
        }
        match &self.parameters {
            Parameters::Sine { sinusoids, bias } => {
                let sizes = SineSizes { heads: 1, width: 1, sinusoids: 1, axes: 1 };
                SineCode::init(sizes, *bias, 0)?;
                noise::sine_rows(*sinusoids).map(drop)
            }
            Parameters::Conv { .. } => Ok(()),
            #[cfg(feature = "cli")]
            Parameters::File { .. } => Ok(()),
        }
    }
}

/// The file that parameters come from; `given` are all words, `gate` is the share that they ask for.
#[cfg(feature = "cli")]
fn file(
    words: &mut Words<'_>,
    kind: Kind,
    given: &[(&str, &str)],
    gate: Option<f64>,
) -> Result<Option<Parameters>> {
    let refused = |key: &str, expected: &str, remedy: &str| {
        let (_, value) = given.iter().find(|(other, _)| *other == key)?;
        let what = format!("option of `{}`", kind.name());
        Some(Err(Error::value(what, expected, format!("{key}={value}"), remedy)))
    };
    let path = match words.take("file") {
        Some("") => {
            let remedy = "for example: file=model.safetensors";
            return Err(Error::value("`file` of a position code", "a file", "nothing", remedy));
        }
        Some(path) => path,
        None => {
            let keys = ["convention", "prefix", "gate-prefix"].into_iter();
            let expected = "file=…, which this is for";
            let found =
                keys.filter_map(|key| refused(key, expected, "name a file, or leave this out")).next();
            return found.unwrap_or(Ok(None));
        }
    };
    // What a file says itself.
    for key in ["init", "sinusoids", "bias", "taps"] {
        if let Some(error) = refused(key, "file=… without it", "leave it out: the file has the parameters")
        {
            return error;
        }
    }
    if gate.is_some()
        && let Some(error) = refused("gate-prefix", "one gate", "leave out one of gate= and gate-prefix=")
    {
        return error;
    }
    let convention = match words.take("convention") {
        None => Convention::PYTORCH,
        Some(text) => named("convention", &Convention::ALL, text)?,
    };
    let source = weights::Source {
        prefix: words.take("prefix").unwrap_or_default().to_owned(),
        gate_prefix: words.take("gate-prefix").map(str::to_owned),
        ..weights::Source::of(convention)
    };
    Ok(Some(Parameters::File { kind, path: path.into(), source }))
}

impl fmt::Display for EncodingSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:", self.kind().name())?;
        match &self.parameters {
            Parameters::Sine { sinusoids, bias } => write!(f, "sinusoids={sinusoids},bias={bias},")?,
            Parameters::Conv { taps: Some(taps) } => {
                let taps: Vec<String> = taps.iter().map(ToString::to_string).collect();
                write!(f, "taps={},", taps.join("x"))?;
            }
            Parameters::Conv { taps: None } => {}
            #[cfg(feature = "cli")]
            Parameters::File { path, source, .. } => {
                write!(f, "file={},convention={},", path.display(), source.convention.name())?;
                if !source.prefix.is_empty() {
                    write!(f, "prefix={},", source.prefix)?;
                }
                if let Some(prefix) = &source.gate_prefix {
                    write!(f, "gate-prefix={prefix},")?;
                }
            }
        }
        write!(f, "realizations={}", self.realizations)?;
        if let Some(gate) = self.gate {
            write!(f, ",gate={gate}")?;
        }
        write!(f, ",seed={}", self.seed)?;
        if self.init != 0 {
            write!(f, ",init={}", self.init)?;
        }
        if self.mode != Mode::Icdf {
            write!(f, ",mode={}", Mode::ALL[self.mode.number() as usize].0)?;
        }
        if self.shared_heads {
            write!(f, ",shared-heads")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_again() {
        for text in [
            "spe-sine:sinusoids=5,bias=-4,realizations=256,seed=0",
            "spe-sine:sinusoids=3,bias=-1.5,realizations=64,gate=0.5,seed=18446744073709551615,init=2,mode=rademacher",
            "spe-conv:realizations=256,seed=0",
            "spe-conv:taps=8x4,realizations=16384,gate=1,seed=7,mode=box-muller,shared-heads",
        ] {
            let spec: EncodingSpec = text.parse().expect(text);
            assert_eq!(spec.to_string(), text);
            assert!(EncodingSpec::is_meant(text));
        }
        for (_, kind) in Kind::ALL {
            let spec = EncodingSpec::of(kind);
            assert_eq!(spec.to_string().parse::<EncodingSpec>().expect("its own words"), spec);
            assert_eq!(kind.name().parse::<EncodingSpec>().expect("the name alone"), spec);
        }
    }

    #[test]
    fn wrong_words_are_refused_by_name() {
        for (text, part) in [
            ("sine", "spe-sine, spe-conv"),
            ("spe-sine:taps=8", "taps=8"),
            ("spe-conv:bias=-4", "bias=-4"),
            ("spe-sine:sinusoids=0", "sinusoids K"),
            ("spe-sine:sinusoids=2000000000", "sinusoids K"),
            ("spe-sine:bias=NaN", "bias"),
            ("spe-sine:realizations=0", "realisations R"),
            ("spe-sine:realizations=16385", "16384"),
            ("spe-sine:seed=-1", "seed"),
            ("spe-sine:seed=18446744073709551616", "seed"),
            ("spe-sine:gate=1.5", "gate"),
            ("spe-sine:gate=NaN", "gate"),
            ("spe-sine:gate=0,gate=1", "each key once"),
            ("spe-sine:mode=uniform", "rademacher"),
            ("spe-conv:taps=0", "taps"),
            ("spe-conv:taps=8x", "taps"),
            ("spe-conv:taps=2x2x2x2", "taps"),
            ("spe-conv:taps", "key=value"),
        ] {
            let error = text.parse::<EncodingSpec>().expect_err(text).to_string();
            assert!(error.contains(part), "{text}: {error}");
        }
    }

    #[cfg(feature = "cli")]
    #[test]
    fn what_contradicts_a_file_is_refused_before_it_is_read() {
        for (text, part) in [
            ("spe-conv:prefix=a.", "file="),
            ("spe-conv:gate-prefix=", "file="),
            ("spe-conv:convention=jax", "file="),
            ("spe-sine:file=", "`file`"),
            ("spe-sine:file=a.npz,init=7", "init=7; leave it out"),
            ("spe-sine:file=a.npz,init=0", "init=0"),
            ("spe-conv:file=a.npz,taps=3", "taps=3; leave it out"),
            ("spe-sine:file=a.npz,sinusoids=3", "sinusoids=3"),
            ("spe-sine:file=a.npz,bias=-4", "bias=-4"),
            ("spe-sine:file=a.npz,gate=0,gate-prefix=", "leave out one of"),
            ("spe-sine:file=a.npz,convention=torch", "pytorch, jax, jax-swapped"),
            ("spe-sine:file=a.npz,what=3", "gate, seed, mode"),
        ] {
            let error = text.parse::<EncodingSpec>().expect_err(text).to_string();
            assert!(error.contains(part), "{text}: {error}");
        }
        let text = "spe-sine:file=a.npz,convention=jax,gate-prefix=,realizations=256,seed=0";
        assert_eq!(text.parse::<EncodingSpec>().expect("a gate without a prefix").to_string(), text);
    }

    #[test]
    fn an_even_gate_is_exact_at_both_ends() {
        assert_eq!(even_gate(1, 2, 0.0).expect("no gate"), None);
        let gate = even_gate(1, 2, 1.0).expect("a gate").expect("a gate");
        assert_eq!(gate.factors(0, 1), [0.0, 1.0]);
        let gate = even_gate(1, 2, 0.25).expect("a gate").expect("a gate");
        assert!((gate.fraction(0, 0) - 0.25).abs() < 1e-15);
    }
}
