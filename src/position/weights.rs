//! Parameters from `.safetensors` files (and NumPy's), as the two published programs name them, and with what they disagree in.
//!
//! | what | PyTorch | JAX (flax) |
//! |---|---|---|
//! | frequencies f̃, phases θ, gains g̃ `[h, d, k]` | `freqs`, `offsets`, `gains` | the same |
//! | filters | `conv_q.weight`, `conv_k.weight` `[h·d, 1, p₁, …]` | `conv_q/kernel`, `conv_k/kernel` `[p₁, …, 1, h·d]` |
//! | gate γ̃ `[h, d]` | `gate` | `gate`, of the other sign |
//!
//! Names stand behind a prefix, `.` and `/` alike. The PyTorch program filters for queries with what it calls `conv_k`: read by their
//! names its filters would have the template P(−τ). The method's reading of the JAX program has no such exchange; a published version of
//! it does, so that reading has a name too ([`Convention::ALL`]).

use super::{Code, ConvCode, Encoding, Gate, Meaning, SineCode, sine::SineSizes};
use crate::arrays::{self, Array, ArrayData};
use crate::error::{Error, Result};
use std::collections::BTreeMap;
use std::path::Path;

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
}

/// Which parameters of a file, and how to read them.
#[derive(Clone, Debug, PartialEq)]
pub struct Source {
    /// Whose names and meanings.
    pub convention: Convention,
    /// What stands before the code's names, such as `encoder.spe.`.
    pub prefix: String,
    /// What stands before `gate`; without it the code has no gate.
    pub gate_prefix: Option<String>,
    /// Heads, for filters without a gate: they are stored by h·d.
    pub heads: Option<u32>,
}

impl Source {
    /// A code without prefix and gate.
    pub fn of(convention: Convention) -> Self {
        Self { convention, prefix: String::new(), gate_prefix: None, heads: None }
    }
}

/// Reads a code and its gate from a file.
///
/// Errors: [`Error::Tensor`] for a file that cannot be read and a name that is missing; [`Error::Data`], naming the tensor, for another
/// shape, element type or numbers that are not finite; [`Error::Value`] for filters whose heads are not known.
pub fn read(path: impl AsRef<Path>, source: &Source) -> Result<Encoding> {
    let arrays = arrays::read(&path).map_err(|error| Error::Tensor {
        tensor: error.array.clone().unwrap_or_else(|| "all".into()),
        reason: error.to_string(),
    })?;
    from_arrays(&arrays, source)
}

/// The same from arrays that have been read.
///
/// Errors: as [`read`].
pub fn from_arrays(arrays: &BTreeMap<String, Array>, source: &Source) -> Result<Encoding> {
    let gate = match &source.gate_prefix {
        Some(prefix) => Some(gate(arrays, prefix, source.convention)?),
        None => None,
    };
    let filter = |of: &str| match source.convention.layout {
        Layout::ChannelsFirst => format!("{}conv_{of}.weight", source.prefix),
        Layout::ChannelsLast => format!("{}conv_{of}.kernel", source.prefix),
    };
    let code: Code = match (find(arrays, &format!("{}freqs", source.prefix)), find(arrays, &filter("q"))) {
        (Ok(_), _) => sine(arrays, &source.prefix)?.into(),
        (_, Ok(_)) => {
            let heads = gate.as_ref().map(Gate::heads).or(source.heads);
            let [q, k] = [filter("q"), filter("k")];
            let [q, k] = if source.convention.swapped { [k, q] } else { [q, k] };
            conv(arrays, [&q, &k], source.convention.layout, heads)?.into()
        }
        (Err(error), Err(_)) => return Err(error),
    };
    Encoding::new(code, gate)
}

/// One spelling for names that were joined by `.` or `/`.
fn spelling(name: &str) -> String {
    name.replace('/', ".")
}

fn find<'a>(arrays: &'a BTreeMap<String, Array>, name: &str) -> Result<(&'a str, &'a Array)> {
    let wanted = spelling(name);
    if let Some((found, array)) = arrays.iter().find(|(name, _)| spelling(name) == wanted) {
        return Ok((found, array));
    }
    let names: Vec<&str> = arrays.keys().map(String::as_str).collect();
    let listed = match names.len() {
        0 => "it has none".to_owned(),
        1..=12 => format!("it has {}", names.join(", ")),
        many => format!("it has {many}, such as {}", names[..6].join(", ")),
    };
    let reason =
        format!("the file has no array of this name ({listed}); give the prefix of the code's names");
    Err(Error::Tensor { tensor: name.to_owned(), reason })
}

/// Numbers and shape of a named array of floats.
fn numbers(arrays: &BTreeMap<String, Array>, name: &str, axes: &str) -> Result<(Vec<f64>, Vec<u32>)> {
    let (name, array) = find(arrays, name)?;
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

fn sine(arrays: &BTreeMap<String, Array>, prefix: &str) -> Result<SineCode> {
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
    layout: Layout,
    heads: Option<u32>,
) -> Result<ConvCode> {
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
            "give the number of heads of the model",
        )),
    }
}

fn gate(arrays: &BTreeMap<String, Array>, prefix: &str, convention: Convention) -> Result<Gate> {
    let name = format!("{prefix}gate");
    let (values, shape) = numbers(arrays, &name, "[h, d]")?;
    match &shape[..] {
        &[heads, width] => Gate::new(heads, width, values, convention.gate),
        _ => Err(shape_error(&name, "[h, d]".into(), &shape)),
    }
}
