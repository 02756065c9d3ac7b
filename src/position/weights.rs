//! Parameters from `.safetensors` files (and NumPy's), as the two published programs name them, and with what they disagree in.
//!
//! | what | PyTorch | JAX (flax) |
//! |---|---|---|
//! | frequencies f̃, phases θ, gains g̃ `[h, d, k]` | `freqs`, `offsets`, `gains` | the same |
//! | filters | `conv_q.weight`, `conv_k.weight` `[h·d, 1, p₁, …]` | `conv_q/kernel`, `conv_k/kernel` `[p₁, …, 1, h·d]` |
//! | gate γ̃ `[h, d]` | `gate` | `gate`, of the other sign |
//!
//! ([`NAMES`] is this table for people at a command line.) Names stand behind a prefix, `.` and `/` alike. The PyTorch program filters for queries with what it calls `conv_k`: read by their
//! names its filters would have the template P(−τ). The method's reading of the JAX program has no such exchange; a published version of
//! it does, so that reading has a name too ([`Convention::ALL`]).

use super::{Code, ConvCode, Encoding, Gate, Meaning, SineCode, sine::SineSizes};
use crate::arrays::{self, Array, ArrayData};
use crate::error::{Error, Result};
use crate::words::counted;
use std::collections::BTreeMap;
use std::path::Path;

/// The names and shapes of parameters in files, as commands explain them.
pub const NAMES: &str = "\
Names in files of parameters (after --prefix or prefix=, and --gate-prefix or gate-prefix= for the gate; . and / are one):
  sinusoids  freqs, offsets, gains [h, d, k]                     convention pytorch, jax and jax-swapped
  filters    conv_q.weight, conv_k.weight [h·d, 1, p, …]         convention pytorch: conv_k filters the queries
             conv_q/kernel, conv_k/kernel [p, …, 1, h·d]         convention jax; in jax-swapped conv_k filters the queries
  gate       gate [h, d], sigmoid of it the share that ignores positions (pytorch) or that knows them (jax, jax-swapped)
Numbers are f32 or f64. freqs and gains are raw: sigmoid(freqs)/2 turns per token, softplus(gains); offsets are radians.";

/// How a program stores filters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Layout {
    /// `conv_q.weight` `[h·d, 1, p₁, …]`.
    ChannelsFirst,
    /// `conv_q/kernel` `[p₁, …, 1, h·d]`.
    ChannelsLast,
}

/// What a program means by its names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Convention {
    /// Layout and names of filters.
    pub layout: Layout,
    /// Whether `conv_k` is the filter of queries.
    pub swapped: bool,
    /// What the gate is the share of.
    pub gate: Meaning,
}

impl Convention {
    /// The PyTorch program: filters swapped, the paper's gate.
    pub const PYTORCH: Self = Self { layout: Layout::ChannelsFirst, swapped: true, gate: Meaning::Paper };
    /// The JAX program: filters by their names, the gate of the other sign.
    pub const JAX: Self =
        Self { layout: Layout::ChannelsLast, swapped: false, gate: Meaning::PositionalShare };
    /// The JAX program where it too filters for queries with `conv_k`.
    pub const JAX_SWAPPED: Self = Self { swapped: true, ..Self::JAX };

    /// All with the names that commands use.
    pub const ALL: [(&str, Self); 3] =
        [("pytorch", Self::PYTORCH), ("jax", Self::JAX), ("jax-swapped", Self::JAX_SWAPPED)];

    /// The name that commands use; `own` for none of them.
    pub fn name(self) -> &'static str {
        Self::ALL.iter().find(|(_, other)| *other == self).map_or("own", |(name, _)| name)
    }
}

/// How options are written, where a message tells of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Spelling {
    /// `prefix=encoder.`, as in the words of a code.
    #[default]
    Words,
    /// `--prefix encoder.`, as in a command.
    Flags,
}

impl Spelling {
    fn option(self, name: &str, value: &str) -> String {
        match self {
            Self::Words => format!("{name}={value}"),
            Self::Flags if value.is_empty() => format!("--{name} \"\""),
            Self::Flags => format!("--{name} {value}"),
        }
    }
}

/// Which parameters of a file, and how to read them.
#[derive(Clone, Debug, PartialEq)]
pub struct Source {
    /// Whose names and meanings.
    pub convention: Convention,
    /// What stands before the code's names, such as `encoder.spe.`.
    pub prefix: String,
    /// What stands before `gate`, empty for a gate of that very name; without it the code has no gate.
    pub gate_prefix: Option<String>,
    /// Heads, for filters without a gate: they are stored by h·d.
    pub heads: Option<u32>,
    /// How messages write these options.
    pub spelling: Spelling,
}

impl Source {
    /// A code without prefix and gate.
    pub fn of(convention: Convention) -> Self {
        Self {
            convention,
            prefix: String::new(),
            gate_prefix: None,
            heads: None,
            spelling: Spelling::default(),
        }
    }
}

/// Reads a code and its gate from a file.
///
/// Errors: [`Error::Value`], naming the file, where it cannot be read; [`Error::Tensor`] for a name that is missing, with what the file
/// has in its place; [`Error::Data`], naming the tensor, for another shape, element type or numbers that are not finite;
/// [`Error::Value`] for filters whose heads are not known.
pub fn read(path: impl AsRef<Path>, source: &Source) -> Result<Encoding> {
    read_noting(path, source).map(|(encoding, _)| encoding)
}

/// The same, with a sentence for the user where parameters of the file were left unused.
///
/// Errors: as [`read`].
pub fn read_noting(path: impl AsRef<Path>, source: &Source) -> Result<(Encoding, Option<String>)> {
    let path = path.as_ref();
    let arrays = arrays::read(path).map_err(|error| {
        Error::value(
            format!("parameters from {}", path.display()),
            "a .safetensors, .npz or .npy file that can be read",
            match &error.array {
                Some(array) => format!("array `{array}`: {}", error.problem),
                None => error.problem.to_string(),
            },
            "give a file that a program saved parameters to",
        )
    })?;
    let encoding = from_arrays(&arrays, source)?;
    let note = unused(&arrays, source, encoding.code());
    Ok((encoding, note.map(|note| format!("{}: {note}", path.display()))))
}

/// What the parts of a code are called behind its prefix: sinusoids, or filters in a layout.
const SINUSOIDS: [&str; 3] = ["freqs", "offsets", "gains"];

const fn filters(layout: Layout) -> [&'static str; 2] {
    match layout {
        Layout::ChannelsFirst => ["conv_q.weight", "conv_k.weight"],
        Layout::ChannelsLast => ["conv_q.kernel", "conv_k.kernel"],
    }
}

/// The same from arrays that have been read.
///
/// Errors: as [`read`].
pub fn from_arrays(arrays: &BTreeMap<String, Array>, source: &Source) -> Result<Encoding> {
    let gate = match &source.gate_prefix {
        Some(prefix) => Some(gate(arrays, prefix, source)?),
        None => None,
    };
    let [q, k] = filters(source.convention.layout).map(|name| format!("{}{name}", source.prefix));
    let there = |name: &str| find(arrays, name).is_some();
    let code: Code = match (there(&format!("{}freqs", source.prefix)), there(&q)) {
        (true, _) => sine(arrays, source)?.into(),
        (_, true) => {
            let heads = gate.as_ref().map(Gate::heads).or(source.heads);
            let [q, k] = if source.convention.swapped { [k, q] } else { [q, k] };
            conv(arrays, [&q, &k], source, heads)?.into()
        }
        (false, false) => return Err(no_code(arrays, source)),
    };
    Encoding::new(code, gate)
}

/// One spelling for names that were joined by `.` or `/`.
fn spelling(name: &str) -> String {
    name.replace('/', ".")
}

fn find<'a>(arrays: &'a BTreeMap<String, Array>, name: &str) -> Option<(&'a str, &'a Array)> {
    let wanted = spelling(name);
    let found = arrays.iter().find(|(name, _)| spelling(name) == wanted)?;
    Some((found.0, found.1))
}

/// What stands before the last part of a name, if that is the given one and a whole part.
fn before<'a>(name: &'a str, last: &str) -> Option<&'a str> {
    let prefix = spelling(name).strip_suffix(last)?.len();
    (prefix == 0 || name[..prefix].ends_with(['.', '/'])).then(|| &name[..prefix])
}

/// Some names, and how many more there are.
fn some<S: AsRef<str>>(names: &[S]) -> String {
    let shown: Vec<String> = names.iter().take(6).map(|name| format!("`{}`", name.as_ref())).collect();
    match names.len().saturating_sub(6) {
        0 => shown.join(", "),
        more => format!("{} and {more} more", shown.join(", ")),
    }
}

/// The names of a file, for a message that misses one.
fn listed(arrays: &BTreeMap<String, Array>) -> String {
    match arrays.len() {
        0 => "the file is empty".into(),
        _ => format!("the file has {}", some(&arrays.keys().collect::<Vec<_>>())),
    }
}

/// No code stands where the source looks for it: what there is instead, and the options that take it.
fn no_code(arrays: &BTreeMap<String, Array>, source: &Source) -> Error {
    let Source { convention, prefix, spelling, .. } = source;
    let [wanted, _] = filters(convention.layout);
    // A convention that is none of ours is taken for the first of its layout.
    let of = |layout: Layout| match layout {
        _ if layout == convention.layout => *convention,
        Layout::ChannelsFirst => Convention::PYTORCH,
        Layout::ChannelsLast => Convention::JAX,
    };
    let layouts = [Layout::ChannelsFirst, Layout::ChannelsLast];
    let kinds = std::iter::once((SINUSOIDS[0], *convention))
        .chain(layouts.map(|layout| (filters(layout)[0], of(layout))));
    let kinds: Vec<(&str, Convention)> = kinds.collect();
    let found = arrays.keys().find_map(|name| {
        kinds.iter().find_map(|(last, convention)| Some((name, before(name, last)?, *convention)))
    });
    let reason = match found {
        Some((name, there, of)) => {
            let mut options = Vec::new();
            let mut why = String::new();
            if of != *convention {
                why = format!(", which is a name of convention {}, not of {}", of.name(), convention.name());
                options.push(spelling.option("convention", of.name()));
            }
            if self::spelling(there) != self::spelling(prefix) {
                options.push(spelling.option("prefix", there));
            }
            let join = if *spelling == Spelling::Flags { " " } else { "," };
            format!("the file has `{name}`{why}; use {}", options.join(join))
        }
        None => format!(
            "{}, and none of them ends in freqs, conv_q.weight or conv_q/kernel; give a file that holds a code",
            listed(arrays)
        ),
    };
    Error::Tensor {
        tensor: format!("{prefix}freqs` or `{prefix}{wanted}"),
        reason: format!("there is neither, by convention {}: {reason}", convention.name()),
    }
}

/// Parameters of codes that the file has and nothing was made of.
fn unused(arrays: &BTreeMap<String, Array>, source: &Source, code: &Code) -> Option<String> {
    let own: Vec<&str> = match code {
        Code::Sine(_) => SINUSOIDS.to_vec(),
        Code::Conv(_) => filters(source.convention.layout).to_vec(),
    };
    let mut taken: Vec<String> =
        own.iter().map(|name| spelling(&format!("{}{name}", source.prefix))).collect();
    taken.extend(source.gate_prefix.iter().map(|prefix| spelling(&format!("{prefix}gate"))));
    let left: Vec<&String> = arrays.keys().filter(|name| !taken.contains(&spelling(name))).collect();
    let gates: Vec<&&String> = left.iter().filter(|name| before(name, "gate").is_some()).collect();
    match (gates.first(), left.len()) {
        (_, 0) => None,
        (Some(gate), count) if source.gate_prefix.is_none() => {
            let option = source.spelling.option("gate-prefix", before(gate, "gate").unwrap_or_default());
            let rest = match count - gates.len() {
                0 => String::new(),
                rest => format!("; {} not used", counted(rest, "other array is", "other arrays are")),
            };
            Some(format!("without its gate, as none is asked for: {option} takes {}{rest}", some(&gates)))
        }
        _ => Some(format!("not used: {}", some(&left))),
    }
}

/// Numbers and shape of a named array of floats.
fn numbers(arrays: &BTreeMap<String, Array>, name: &str, axes: &str) -> Result<(Vec<f64>, Vec<u32>)> {
    let missing = || Error::Tensor {
        tensor: name.to_owned(),
        reason: format!("{}; a code has all its arrays under one prefix: save them together", listed(arrays)),
    };
    let (name, array) = find(arrays, name).ok_or_else(missing)?;
    let wrong = |expected: String, got: String| Error::Data { tensor: name.to_owned(), expected, got };
    let values = match &array.data {
        ArrayData::F32(v) => v.iter().map(|&x| f64::from(x)).collect(),
        ArrayData::F64(v) => v.clone(),
        other => return Err(wrong("f32 or f64 numbers".into(), other.dtype().into())),
    };
    if let Some(at) = values.iter().position(|x: &f64| !x.is_finite()) {
        return Err(wrong("finite numbers".into(), format!("{} at element {at}", values[at])));
    }
    let shape: Option<Vec<u32>> =
        array.shape.iter().map(|&n| u32::try_from(n).ok().filter(|n| *n > 0)).collect();
    let shape = shape.ok_or_else(|| wrong(axes.to_owned(), format!("{:?}", array.shape)))?;
    Ok((values, shape))
}

fn shape_error(name: &str, expected: String, got: &[u32]) -> Error {
    Error::Data { tensor: name.to_owned(), expected, got: format!("{got:?}") }
}

fn sine(arrays: &BTreeMap<String, Array>, source: &Source) -> Result<SineCode> {
    let prefix = &source.prefix;
    let name = format!("{prefix}freqs");
    let (frequencies, shape) = numbers(arrays, &name, "[h, d, k]")?;
    let &[heads, width, sinusoids] = &shape[..] else {
        return Err(shape_error(&name, "[h, d, k]".into(), &shape));
    };
    let others = ["offsets", "gains"].map(|other| {
        let name = format!("{prefix}{other}");
        let (values, got) = numbers(arrays, &name, "[h, d, k]")?;
        match got == shape {
            true => Ok(values),
            false => Err(shape_error(&name, format!("{shape:?}, as `{prefix}freqs` has"), &got)),
        }
    });
    let [offsets, gains] = others;
    let sizes = SineSizes { heads, width, sinusoids, axes: 1 };
    SineCode::from_raw(sizes, &frequencies, &offsets?, &gains?)
}

fn conv(
    arrays: &BTreeMap<String, Array>,
    names: [&str; 2],
    source: &Source,
    heads: Option<u32>,
) -> Result<ConvCode> {
    let layout = source.convention.layout;
    let axes = match layout {
        Layout::ChannelsFirst => "[h·d, 1, p] with one to three axes of taps",
        Layout::ChannelsLast => "[p, 1, h·d] with one to three axes of taps",
    };
    let filter = |name: &str| -> Result<(Vec<f64>, u32, Vec<u32>)> {
        let (values, shape) = numbers(arrays, name, axes)?;
        let wrong = || shape_error(name, axes.into(), &shape);
        match layout {
            Layout::ChannelsFirst => match &shape[..] {
                [channels, 1, taps @ ..] if (1..=3).contains(&taps.len()) => {
                    Ok((values, *channels, taps.to_vec()))
                }
                _ => Err(wrong()),
            },
            Layout::ChannelsLast => match &shape[..] {
                [taps @ .., 1, channels] if (1..=3).contains(&taps.len()) => {
                    let (c, taps) = (*channels as usize, taps.to_vec());
                    let turned = (0..c).flat_map(|i| values.iter().skip(i).step_by(c).copied()).collect();
                    Ok((turned, *channels, taps))
                }
                _ => Err(wrong()),
            },
        }
    };
    let (q, channels, taps) = filter(names[0])?;
    let (k, other_channels, other_taps) = filter(names[1])?;
    if (channels, &taps) != (other_channels, &other_taps) {
        return Err(Error::Data {
            tensor: names[1].to_owned(),
            expected: format!("{channels} channels of {taps:?} taps, as `{}` has", names[0]),
            got: format!("{other_channels} channels of {other_taps:?} taps"),
        });
    }
    match heads {
        Some(heads) if heads > 0 && channels.is_multiple_of(heads) => {
            ConvCode::new(heads, channels / heads, &taps, q, k)
        }
        _ => Err(Error::value(
            format!("heads of the filters `{}`", names[0]),
            format!("a divisor of their {channels} channels h·d"),
            heads.map_or("none".to_owned(), |h| h.to_string()),
            match source.spelling {
                Spelling::Words => {
                    "take queries and keys with the model's number of heads (`wgattn map` has --heads)"
                }
                Spelling::Flags => "give the model's number of heads with --heads",
            },
        )),
    }
}

fn gate(arrays: &BTreeMap<String, Array>, prefix: &str, source: &Source) -> Result<Gate> {
    let name = format!("{prefix}gate");
    if find(arrays, &name).is_none() {
        let option = |prefix: &str| source.spelling.option("gate-prefix", prefix);
        let remedy = match arrays.keys().find_map(|name| before(name, "gate")) {
            Some(there) => format!("use {}", option(there)),
            None => "it has no gate at all: leave the gate's prefix out".into(),
        };
        return Err(Error::Tensor { tensor: name, reason: format!("{}; {remedy}", listed(arrays)) });
    }
    let (values, shape) = numbers(arrays, &name, "[h, d]")?;
    match &shape[..] {
        &[heads, width] => Gate::new(heads, width, values, source.convention.gate),
        _ => Err(shape_error(&name, "[h, d]".into(), &shape)),
    }
}
