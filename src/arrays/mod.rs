//! Named arrays in files: NumPy's `.npz` and `.npy`, and `.safetensors`.
//!
//! [`read`] takes what Python programs write — stored or deflated archives, Fortran order, big-endian numbers,
//! small and wide integers, half floats — and hands it over in C order as one of five element types, never
//! losing a digit: a number that does not fit is an error with its place. [`write()`] puts the whole file in the
//! target's place, or leaves what was there.

mod element;
mod numpy;
mod safetensors;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::fmt::{self, Display};
use std::fs::File;
use std::io::{self, BufReader, Read as _, Seek as _, Write};
use std::path::{Path, PathBuf};

use crate::whole_file::{check_target as check_file, open_input, write_whole};
use crate::words::{counted, told};
use element::{c_from_fortran, write_blocks};

/// Name under which the only array of a `.npy` file is read.
pub const NPY_NAME: &str = "data";

/// Largest array accepted from a file, so that a few deflated kilobytes cannot claim the machine's memory.
pub const MAX_ARRAY_BYTES: u64 = 1 << 34;

/// Elements of an array, in C order (last axis fastest).
#[derive(Clone, Debug, PartialEq)]
pub enum ArrayData {
    /// Also what f16 and bf16 widen to.
    F32(Vec<f32>),
    /// Doubles, kept as they are.
    F64(Vec<f64>),
    /// Also i8, i16, and i64 where every value fits.
    I32(Vec<i32>),
    /// Also u16, u64 where every value fits, and i64 where every value fits this but not i32.
    U32(Vec<u32>),
    /// Also bool, as 0 and 1.
    U8(Vec<u8>),
}

/// An array with its shape, slowest axis first; `[]` is a scalar of one element.
#[derive(Clone, Debug, PartialEq)]
pub struct Array {
    /// Sizes of the axes, slowest first.
    pub shape: Vec<usize>,
    /// As many elements as the product of `shape`, in C order.
    pub data: ArrayData,
}

/// What is wrong with which file, and with which of its arrays; prints as one line.
#[derive(Debug)]
pub struct ArrayError {
    /// The file.
    pub path: PathBuf,
    /// The array, where it is not the whole file.
    pub array: Option<String>,
    /// What is wrong.
    pub problem: ArrayProblem,
}

/// What can be wrong with an array file.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
#[allow(missing_docs, reason = "the messages explain the fields")]
pub enum ArrayProblem {
    #[error("cannot read: {}", told(.0))]
    Read(#[source] io::Error),
    /// What stood in the target's place is untouched.
    #[error("cannot write: {}", told(.0))]
    Write(#[source] io::Error),
    #[error("the suffix must be .npz, .npy or .safetensors")]
    Suffix,
    #[error("not a {wanted} file: {found}")]
    Format { wanted: &'static str, found: String },
    #[error("damaged: {0}")]
    Damaged(String),
    #[error("the file ends before the last of {} of {dtype}", counted(*.elements, "element", "elements"))]
    Truncated { elements: usize, dtype: String },
    #[error("dtype {0} is not supported; bool, 8 to 64-bit integers, f16, bf16, f32 and f64 are")]
    Dtype(String),
    #[error(
        "{dtype} {value} at element {index} (in file order) does not fit 32 bits; convert it before saving"
    )]
    Lossy { dtype: &'static str, value: String, index: usize },
    #[error("shape {shape:?} of {dtype} exceeds the {MAX_ARRAY_BYTES} bytes allowed")]
    TooLarge { shape: Vec<u64>, dtype: String },
    #[error("two arrays have this name")]
    Duplicate,
    #[error("shape {shape:?} does not have the {} given", counted(*.got, "element", "elements"))]
    Shape { shape: Vec<usize>, got: usize },
    #[error("a .npy file holds one array, got {0}; write .npz or .safetensors")]
    NotSingle(usize),
}

impl Display for ArrayError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: ", self.path.display())?;
        if let Some(name) = &self.array {
            write!(f, "array `{name}`: ")?;
        }
        self.problem.fmt(f)
    }
}

impl std::error::Error for ArrayError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.problem.source()
    }
}

impl ArrayData {
    /// Number of elements.
    #[must_use]
    pub fn len(&self) -> usize {
        match self {
            Self::F32(values) => values.len(),
            Self::F64(values) => values.len(),
            Self::I32(values) => values.len(),
            Self::U32(values) => values.len(),
            Self::U8(values) => values.len(),
        }
    }

    /// Whether there are no elements.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Name of the element type: `f32`, `f64`, `i32`, `u32` or `u8`.
    #[must_use]
    pub fn dtype(&self) -> &'static str {
        match self {
            Self::F32(_) => "f32",
            Self::F64(_) => "f64",
            Self::I32(_) => "i32",
            Self::U32(_) => "u32",
            Self::U8(_) => "u8",
        }
    }

    fn element_bytes(&self) -> usize {
        match self {
            Self::F64(_) => 8,
            Self::F32(_) | Self::I32(_) | Self::U32(_) => 4,
            Self::U8(_) => 1,
        }
    }

    fn c_from_fortran(self, shape: &[usize]) -> Self {
        match self {
            Self::F32(values) => Self::F32(c_from_fortran(shape, &values)),
            Self::F64(values) => Self::F64(c_from_fortran(shape, &values)),
            Self::I32(values) => Self::I32(c_from_fortran(shape, &values)),
            Self::U32(values) => Self::U32(c_from_fortran(shape, &values)),
            Self::U8(values) => Self::U8(c_from_fortran(shape, &values)),
        }
    }

    /// Writes the elements in little-endian order.
    fn write_le(&self, writer: &mut impl Write) -> io::Result<()> {
        match self {
            Self::F32(values) => write_blocks(writer, values, f32::to_le_bytes),
            Self::F64(values) => write_blocks(writer, values, f64::to_le_bytes),
            Self::I32(values) => write_blocks(writer, values, i32::to_le_bytes),
            Self::U32(values) => write_blocks(writer, values, u32::to_le_bytes),
            Self::U8(values) => writer.write_all(values),
        }
    }
}

/// Reads every array of a `.npz`, `.npy` (as [`NPY_NAME`]) or `.safetensors` file, by name.
pub fn read(path: impl AsRef<Path>) -> Result<BTreeMap<String, Array>, ArrayError> {
    let path = path.as_ref();
    let arrays = || {
        let format = Format::of(path)?;
        let mut file = format.open(path)?;
        match format {
            Format::Npz => numpy::read_npz(file),
            Format::Npy => {
                let array =
                    numpy::read_npy(&mut file).map_err(|problem| Fault::in_array(NPY_NAME, problem))?;
                Ok(BTreeMap::from([(NPY_NAME.to_owned(), array)]))
            }
            Format::SafeTensors => safetensors::read(file),
        }
    };
    arrays().map_err(|fault: Fault| fault.at(path))
}

/// Writes arrays to a `.npz` (stored), `.npy` (exactly one array; its name is not kept) or `.safetensors` file.
///
/// The target appears whole or not at all; a file that stood there before is replaced only by a whole one.
pub fn write(path: impl AsRef<Path>, arrays: &BTreeMap<String, Array>) -> Result<(), ArrayError> {
    let path = path.as_ref();
    let written = || {
        let format = Format::of(path)?;
        for (name, Array { shape, data }) in arrays {
            let wanted = shape.iter().try_fold(1_usize, |product, &dim| product.checked_mul(dim));
            if wanted != Some(data.len()) {
                let (shape, got) = (shape.clone(), data.len());
                return Err(Fault::in_array(name, ArrayProblem::Shape { shape, got }));
            }
        }
        let single = arrays.values().next().filter(|_| arrays.len() == 1);
        let outcome = match (format, single) {
            (Format::Npz, _) => write_whole(path, |file| numpy::write_npz(file, arrays)),
            (Format::Npy, Some(array)) => write_whole(path, |file| numpy::write_npy_file(file, array)),
            (Format::Npy, None) => return Err(ArrayProblem::NotSingle(arrays.len()).into()),
            (Format::SafeTensors, _) => write_whole(path, |file| safetensors::write(file, arrays)),
        };
        outcome.map_err(|error| ArrayProblem::Write(error).into())
    };
    written().map_err(|fault: Fault| fault.at(path))
}

/// Refuses a target that [`write()`] would refuse whatever the arrays: another suffix, a folder, a folder that is missing.
pub fn check_target(path: impl AsRef<Path>) -> Result<(), ArrayError> {
    let path = path.as_ref();
    let checked = || -> Result<(), Fault> {
        Format::of(path)?;
        check_file(path).map_err(|error| ArrayProblem::Write(error).into())
    };
    checked().map_err(|fault| fault.at(path))
}

/// Refuses a file that [`write()`] would refuse for so many arrays: `.npy` holds one.
///
/// Errors: [`ArrayProblem::NotSingle`], [`ArrayProblem::Suffix`].
pub fn check_count(path: impl AsRef<Path>, arrays: usize) -> Result<(), ArrayError> {
    let path = path.as_ref();
    let problem = match Format::of(path) {
        Ok(Format::Npy) if arrays != 1 => ArrayProblem::NotSingle(arrays),
        Ok(_) => return Ok(()),
        Err(problem) => problem,
    };
    Err(Fault::from(problem).at(path))
}

/// An error on its way up to where the path is known.
#[derive(Debug)]
struct Fault {
    array: Option<String>,
    problem: ArrayProblem,
}

impl Fault {
    fn in_array(name: &str, problem: ArrayProblem) -> Self {
        Self { array: Some(name.to_owned()), problem }
    }

    fn at(self, path: &Path) -> ArrayError {
        ArrayError { path: path.to_owned(), array: self.array, problem: self.problem }
    }
}

impl From<ArrayProblem> for Fault {
    fn from(problem: ArrayProblem) -> Self {
        Self { array: None, problem }
    }
}

#[derive(Clone, Copy, PartialEq)]
enum Format {
    Npz,
    Npy,
    SafeTensors,
}

impl Format {
    fn of(path: &Path) -> Result<Self, ArrayProblem> {
        match path.extension().map(|suffix| suffix.to_string_lossy().to_lowercase()).as_deref() {
            Some("npz") => Ok(Self::Npz),
            Some("npy") => Ok(Self::Npy),
            Some("safetensors") => Ok(Self::SafeTensors),
            _ => Err(ArrayProblem::Suffix),
        }
    }

    fn suffix(self) -> &'static str {
        match self {
            Self::Npz => ".npz",
            Self::Npy => ".npy",
            Self::SafeTensors => ".safetensors",
        }
    }

    /// What the first bytes of a file say it is.
    fn sniff(head: &[u8]) -> Option<Self> {
        match head {
            [b'P', b'K', 3 | 5, 4 | 6, ..] => Some(Self::Npz),
            [0x93, b'N', b'U', b'M', b'P', b'Y', ..] => Some(Self::Npy),
            [_, _, _, _, _, _, _, _, b'{', ..] => Some(Self::SafeTensors),
            _ => None,
        }
    }

    /// Opens a file and checks by its first bytes that the suffix tells the truth.
    fn open(self, path: &Path) -> Result<BufReader<File>, ArrayProblem> {
        let mut file = open_input(path).map_err(ArrayProblem::Read)?;
        let mut head = Vec::new();
        (&file).take(9).read_to_end(&mut head).map_err(ArrayProblem::Read)?;
        file.rewind().map_err(ArrayProblem::Read)?;
        let found = match Self::sniff(&head) {
            Some(format) if format == self => return Ok(BufReader::new(file)),
            Some(format) => format!("the content is that of a {} file", format.suffix()),
            None if head.is_empty() => "the file is empty".to_owned(),
            None => format!("it begins with the bytes {head:02x?}"),
        };
        Err(ArrayProblem::Format { wanted: self.suffix(), found })
    }
}

/// Parsers below us print pictures of the place; an error of ours is one line.
fn first_line(error: &impl Display) -> String {
    error.to_string().lines().next().unwrap_or_default().trim().to_owned()
}
