//! The `.safetensors` format, through the crate of that name.

use crate::words::counted;
use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::{self, BufReader, Read as _, Write as _};

use ::safetensors::{Dtype, SafeTensors, View, serialize};

use super::element::{Element, checked_size, decode};
use super::{Array, ArrayData, ArrayProblem, Fault, first_line};

pub(super) fn read(mut file: BufReader<File>) -> Result<BTreeMap<String, Array>, Fault> {
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes).map_err(ArrayProblem::Read)?;
    let (length, rest) =
        bytes.split_first_chunk().ok_or_else(|| ArrayProblem::Damaged("truncated".into()))?;
    let length = u64::from_le_bytes(*length);
    let Some(header) = usize::try_from(length).ok().and_then(|length| rest.get(..length)) else {
        let reason = format!(
            "the header claims {}, the file goes on for {}; truncated?",
            counted(length, "byte", "bytes"),
            rest.len()
        );
        return Err(ArrayProblem::Damaged(reason).into());
    };
    if let Some(name) = repeated_key(header) {
        return Err(Fault::in_array(&name, ArrayProblem::Duplicate));
    }
    let tensors =
        SafeTensors::deserialize(&bytes).map_err(|error| ArrayProblem::Damaged(first_line(&error)))?;
    let mut arrays = BTreeMap::new();
    for (name, tensor) in tensors.tensors() {
        let read = || {
            let dtype = tensor.dtype();
            let element =
                Element::of_safetensors(dtype).ok_or_else(|| ArrayProblem::Dtype(dtype.to_string()))?;
            let shape: Vec<u64> = tensor.shape().iter().map(|&dim| dim as u64).collect();
            let (shape, count) = checked_size(&shape, element)?;
            Ok(Array { shape, data: decode(&mut tensor.data(), element, false, count)? })
        };
        let array = read().map_err(|problem| Fault::in_array(&name, problem))?;
        arrays.insert(name, array);
    }
    Ok(arrays)
}

pub(super) fn write(mut file: &File, arrays: &BTreeMap<String, Array>) -> io::Result<()> {
    let views = arrays.iter().map(|(name, array)| (name, TensorView(array)));
    // Not `serialize_to_file`: its temporary file leaves the target readable by its owner only.
    let bytes = serialize(views, None).map_err(|error| io::Error::other(first_line(&error)))?;
    file.write_all(&bytes)
}

/// The first key that a JSON object has twice at its top level; a JSON parser would keep the last in silence.
fn repeated_key(json: &[u8]) -> Option<String> {
    let mut seen = BTreeSet::new();
    let (mut depth, mut at) = (0_usize, 0);
    while at < json.len() {
        match json[at] {
            b'{' | b'[' => depth += 1,
            b'}' | b']' => depth = depth.saturating_sub(1),
            b'"' => {
                let start = at + 1;
                at = start;
                while at < json.len() && json[at] != b'"' {
                    at += if json[at] == b'\\' { 2 } else { 1 };
                }
                let text = json.get(start..at)?;
                let next = json.get(at + 1..)?.iter().find(|byte| !byte.is_ascii_whitespace());
                if depth == 1 && next == Some(&b':') && !seen.insert(text) {
                    return Some(String::from_utf8_lossy(text).into_owned());
                }
            }
            _ => {}
        }
        at += 1;
    }
    None
}

struct TensorView<'a>(&'a Array);

impl View for TensorView<'_> {
    fn dtype(&self) -> Dtype {
        match self.0.data {
            ArrayData::F32(_) => Dtype::F32,
            ArrayData::F64(_) => Dtype::F64,
            ArrayData::I32(_) => Dtype::I32,
            ArrayData::U32(_) => Dtype::U32,
            ArrayData::U8(_) => Dtype::U8,
        }
    }

    fn shape(&self) -> &[usize] {
        &self.0.shape
    }

    fn data(&self) -> Cow<'_, [u8]> {
        let mut bytes = Vec::with_capacity(self.data_len());
        self.0.data.write_le(&mut bytes).expect("writing to memory cannot fail");
        bytes.into()
    }

    fn data_len(&self) -> usize {
        self.0.data.len() * self.0.data.element_bytes()
    }
}
