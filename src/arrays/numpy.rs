//! NumPy's `.npy` (one array) and `.npz` (a zip archive of them), with npyz for the headers.
//!
//! The archive goes through `zip` itself: npyz's `npz` feature would bring C code (zstd, bzip2) that NumPy never uses.

use crate::words::plural;
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, BufReader, BufWriter, Read, Write};

use npyz::WriterBuilder as _;
use zip::{CompressionMethod, DateTime, ZipArchive, ZipWriter, result::ZipError, write::FileOptions};

use super::element::{Element, checked_size, decode};
use super::{Array, ArrayData, ArrayProblem, Fault, first_line};

/// NumPy's own limit for headers it does not trust; ours are below 200 bytes.
const MAX_HEADER_BYTES: usize = 10_000;

/// Brackets in a header deeper than this are not a shape or a dtype, and would recurse in the parser.
const MAX_NESTING: usize = 16;

pub(super) fn read_npz(file: BufReader<File>) -> Result<BTreeMap<String, Array>, Fault> {
    let mut archive = ZipArchive::new(file).map_err(|error| match error {
        ZipError::Io(source) => ArrayProblem::Read(source),
        other => ArrayProblem::Damaged(format!("{other}; truncated?")),
    })?;
    let mut arrays = BTreeMap::new();
    for index in 0..archive.len() {
        let mut entry = archive
            .by_index(index)
            .map_err(|error| ArrayProblem::Damaged(format!("entry {index}: {}", first_line(&error))))?;
        let Some(name) = npyz::npz::array_name_from_file_name(entry.name()).map(str::to_owned) else {
            return Err(ArrayProblem::Damaged(format!("entry `{}` is not a .npy array", entry.name())).into());
        };
        let array = read_npy(&mut entry).map_err(|problem| Fault::in_array(&name, problem))?;
        if arrays.insert(name.clone(), array).is_some() {
            return Err(Fault::in_array(&name, ArrayProblem::Duplicate));
        }
    }
    Ok(arrays)
}

pub(super) fn read_npy(reader: &mut impl Read) -> Result<Array, ArrayProblem> {
    let (header, shape) = read_header(reader).map_err(|error| match error.kind() {
        io::ErrorKind::UnexpectedEof => ArrayProblem::Damaged("it ends within the header".to_owned()),
        _ => ArrayProblem::Damaged(format!("header: {}", first_line(&error))),
    })?;
    let dtype = header.dtype();
    let plain = match &dtype {
        npyz::DType::Plain(plain) => Element::of_npy(plain),
        _ => None,
    };
    let (element, big_endian) = plain.ok_or_else(|| ArrayProblem::Dtype(dtype.descr()))?;
    let (shape, count) = checked_size(&shape, element)?;
    let data = decode(reader, element, big_endian, count)?;
    // Also reaches the end of a zip entry, where its checksum is compared.
    match io::copy(reader, &mut io::sink()) {
        Ok(0) => {}
        Ok(extra) => {
            return Err(ArrayProblem::Damaged(format!(
                "{} the array",
                plural(extra, "1 byte follows", &format!("{extra} bytes follow"))
            )));
        }
        Err(error) => return Err(ArrayProblem::Damaged(first_line(&error))),
    }
    let data = match header.order() {
        npyz::Order::C => data,
        npyz::Order::Fortran => data.c_from_fortran(&shape),
    };
    Ok(Array { shape, data })
}

/// Reads a header with npyz, after making sure that it cannot overflow there: npyz multiplies the dimensions and
/// recurses into brackets unchecked.
fn read_header(reader: &mut impl Read) -> io::Result<(npyz::NpyHeader, Vec<u64>)> {
    let invalid = |reason: &str| io::Error::new(io::ErrorKind::InvalidData, reason.to_owned());
    let mut bytes = vec![0; 10];
    reader.read_exact(&mut bytes)?;
    if bytes[..6] != *b"\x93NUMPY" {
        return Err(invalid("it does not begin with NumPy's magic bytes"));
    }
    let length = match bytes[6] {
        1 => usize::from(u16::from_le_bytes([bytes[8], bytes[9]])),
        2 | 3 => {
            bytes.resize(12, 0);
            reader.read_exact(&mut bytes[10..])?;
            u32::from_le_bytes([bytes[8], bytes[9], bytes[10], bytes[11]]) as usize
        }
        version => return Err(invalid(&format!("format version {version} is unknown"))),
    };
    if length > MAX_HEADER_BYTES {
        return Err(invalid(&format!("{length} bytes long, {MAX_HEADER_BYTES} are allowed")));
    }
    let start = bytes.len();
    bytes.resize(start + length, 0);
    reader.read_exact(&mut bytes[start..])?;
    let text = std::str::from_utf8(&bytes[start..]).map_err(|_| invalid("not UTF-8"))?;
    let shape = header_shape(text).ok_or_else(|| invalid("no `shape` of whole numbers below 2^63 in all"))?;
    let header = npyz::NpyHeader::from_reader(&bytes[..])?;
    if header.shape() != shape {
        return Err(invalid("more than one `shape`"));
    }
    Ok((header, shape))
}

/// The dimensions of a header's only `'shape': (…)`, if it is harmless.
fn header_shape(text: &str) -> Option<Vec<u64>> {
    let mut nesting = 0_usize;
    for byte in text.bytes() {
        match byte {
            b'(' | b'[' | b'{' => nesting += 1,
            b')' | b']' | b'}' => nesting = nesting.checked_sub(1)?,
            b'\\' => return None,
            _ => {}
        }
        if nesting > MAX_NESTING {
            return None;
        }
    }
    let (before, after) = text.split_once("shape")?;
    let quote = before.chars().last().filter(|quote| matches!(quote, '\'' | '"'))?;
    let after = after.strip_prefix(quote)?.trim_start().strip_prefix(':')?.trim_start();
    let (inside, rest) = after.strip_prefix(['(', '['])?.split_once([')', ']'])?;
    if rest.contains("shape") {
        return None;
    }
    let inside = inside.trim().strip_suffix(',').unwrap_or(inside).trim();
    let dims: Vec<u64> = match inside {
        "" => Vec::new(),
        // Python 2 wrote long integers as `3L`.
        _ => inside
            .split(',')
            .map(|dim| dim.trim().trim_end_matches('L').parse().ok())
            .collect::<Option<_>>()?,
    };
    dims.iter().try_fold(1_i64, |product, &dim| product.checked_mul(i64::try_from(dim.max(1)).ok()?))?;
    Some(dims)
}

pub(super) fn write_npy_file(file: &File, array: &Array) -> io::Result<()> {
    let mut writer = BufWriter::new(file);
    write_npy(&mut writer, array)?;
    writer.flush()
}

pub(super) fn write_npz(file: &File, arrays: &BTreeMap<String, Array>) -> io::Result<()> {
    let mut archive = ZipWriter::new(Held { file: BufWriter::new(file), error: None });
    for (name, array) in arrays {
        let bytes = array.data.len() * array.data.element_bytes();
        // Stored, as np.savez does: floats hardly deflate. A fixed date: equal arrays give equal files.
        let options = FileOptions::default()
            .compression_method(CompressionMethod::Stored)
            .last_modified_time(DateTime::default())
            .large_file(bytes + MAX_HEADER_BYTES > u32::MAX as usize);
        archive.start_file(npyz::npz::file_name_from_array_name(name), options)?;
        write_npy(&mut archive, array)?;
    }
    let mut held = archive.finish()?;
    held.file.flush()?;
    held.error.map_or(Ok(()), Err)
}

/// A file whose first error is kept for the end: an archive that is dropped half way would print one of its own.
struct Held<'a> {
    file: BufWriter<&'a File>,
    error: Option<io::Error>,
}

impl Held<'_> {
    fn keep<T: Default>(&mut self, outcome: io::Result<T>, otherwise: T) -> io::Result<T> {
        outcome.or_else(|error| {
            self.error.get_or_insert(error);
            Ok(otherwise)
        })
    }
}

impl Write for Held<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.error.is_some() {
            return Ok(bytes.len());
        }
        let outcome = self.file.write(bytes);
        self.keep(outcome, bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        let outcome = self.file.flush();
        self.keep(outcome, ())
    }
}

impl io::Seek for Held<'_> {
    fn seek(&mut self, to: io::SeekFrom) -> io::Result<u64> {
        let outcome = self.file.seek(to);
        self.keep(outcome, 0)
    }
}

fn write_npy(writer: &mut impl Write, array: &Array) -> io::Result<()> {
    let descr = match array.data {
        ArrayData::F32(_) => "<f4",
        ArrayData::F64(_) => "<f8",
        ArrayData::I32(_) => "<i4",
        ArrayData::U32(_) => "<u4",
        ArrayData::U8(_) => "|u1",
    };
    let dtype = npyz::DType::new_scalar(descr.parse().expect("a literal that NumPy itself writes"));
    let shape: Vec<u64> = array.shape.iter().map(|&dim| dim as u64).collect();
    npyz::WriteOptions::new_header_only()
        .dtype(dtype)
        .shape(&shape)
        .writer(&mut *writer)
        .write_header_only()?;
    array.data.write_le(writer)
}
