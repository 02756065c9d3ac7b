//! Element types as they stand in files, and the way to ours.

use std::fmt::Display;
use std::io::{self, Read, Write};

use ::safetensors::Dtype;

use super::{ArrayData, ArrayProblem, MAX_ARRAY_BYTES, first_line};

/// Bytes converted at a time: allocations follow what the file holds, not what its header claims.
const BLOCK_BYTES: usize = 1 << 20;

/// An element type as it stands in a file.
#[derive(Clone, Copy, Debug)]
pub(super) enum Element {
    Bool,
    I8,
    U8,
    I16,
    U16,
    F16,
    Bf16,
    I32,
    U32,
    F32,
    I64,
    U64,
    F64,
}

impl Element {
    /// The element and whether it is big-endian.
    pub(super) fn of_npy(plain: &npyz::TypeStr) -> Option<(Self, bool)> {
        use npyz::TypeChar::{Bool, Float, Int, Uint};
        let element = match (plain.type_char(), plain.size_field()) {
            (Bool, 1) => Self::Bool,
            (Int, 1) => Self::I8,
            (Int, 2) => Self::I16,
            (Int, 4) => Self::I32,
            (Int, 8) => Self::I64,
            (Uint, 1) => Self::U8,
            (Uint, 2) => Self::U16,
            (Uint, 4) => Self::U32,
            (Uint, 8) => Self::U64,
            (Float, 2) => Self::F16,
            (Float, 4) => Self::F32,
            (Float, 8) => Self::F64,
            _ => return None,
        };
        Some((element, plain.endianness() == npyz::Endianness::Big))
    }

    pub(super) fn of_safetensors(dtype: Dtype) -> Option<Self> {
        Some(match dtype {
            Dtype::BOOL => Self::Bool,
            Dtype::I8 => Self::I8,
            Dtype::U8 => Self::U8,
            Dtype::I16 => Self::I16,
            Dtype::U16 => Self::U16,
            Dtype::F16 => Self::F16,
            Dtype::BF16 => Self::Bf16,
            Dtype::I32 => Self::I32,
            Dtype::U32 => Self::U32,
            Dtype::F32 => Self::F32,
            Dtype::I64 => Self::I64,
            Dtype::U64 => Self::U64,
            Dtype::F64 => Self::F64,
            _ => return None,
        })
    }

    fn bytes(self) -> u64 {
        match self {
            Self::Bool | Self::I8 | Self::U8 => 1,
            Self::I16 | Self::U16 | Self::F16 | Self::Bf16 => 2,
            Self::I32 | Self::U32 | Self::F32 => 4,
            Self::I64 | Self::U64 | Self::F64 => 8,
        }
    }

    fn name(self) -> String {
        format!("{self:?}").to_lowercase()
    }
}

/// Shape and number of elements in this machine's integers, if the array may be that large.
pub(super) fn checked_size(shape: &[u64], element: Element) -> Result<(Vec<usize>, usize), ArrayProblem> {
    let count = shape.iter().try_fold(1_u64, |product, &dim| product.checked_mul(dim));
    let count = count.filter(|&count| count <= MAX_ARRAY_BYTES / element.bytes());
    let count = count.and_then(|count| usize::try_from(count).ok());
    let dims = shape.iter().map(|&dim| usize::try_from(dim).ok()).collect::<Option<Vec<_>>>();
    dims.zip(count).ok_or_else(|| ArrayProblem::TooLarge { shape: shape.to_vec(), dtype: element.name() })
}

/// Reads `count` elements, in file order.
pub(super) fn decode(
    reader: &mut impl Read,
    element: Element,
    big_endian: bool,
    count: usize,
) -> Result<ArrayData, ArrayProblem> {
    let mut blocks = Blocks { reader, big_endian, count };
    let data = match element {
        Element::Bool => blocks.read(|[byte]| u8::from(byte != 0)).map(ArrayData::U8),
        Element::U8 => blocks.read(|[byte]| byte).map(ArrayData::U8),
        Element::I8 => blocks.read(|bytes| i8::from_le_bytes(bytes).into()).map(ArrayData::I32),
        Element::I16 => blocks.read(|bytes| i16::from_le_bytes(bytes).into()).map(ArrayData::I32),
        Element::U16 => blocks.read(|bytes| u16::from_le_bytes(bytes).into()).map(ArrayData::U32),
        Element::F16 => blocks.read(|bytes| f32_from_f16(u16::from_le_bytes(bytes))).map(ArrayData::F32),
        Element::Bf16 => blocks.read(|bytes| f32_from_bf16(u16::from_le_bytes(bytes))).map(ArrayData::F32),
        Element::I32 => blocks.read(i32::from_le_bytes).map(ArrayData::I32),
        Element::U32 => blocks.read(u32::from_le_bytes).map(ArrayData::U32),
        Element::F32 => blocks.read(f32::from_le_bytes).map(ArrayData::F32),
        Element::F64 => blocks.read(f64::from_le_bytes).map(ArrayData::F64),
        Element::I64 => match blocks.read(i64::from_le_bytes) {
            Ok(values) => return narrow_i64(&values),
            Err(error) => Err(error),
        },
        Element::U64 => match blocks.read(u64::from_le_bytes) {
            Ok(values) => return narrow(&values, "u64").map(ArrayData::U32),
            Err(error) => Err(error),
        },
    };
    data.map_err(|error| match error.kind() {
        io::ErrorKind::UnexpectedEof => ArrayProblem::Truncated { elements: count, dtype: element.name() },
        _ => ArrayProblem::Damaged(first_line(&error)),
    })
}

fn narrow_i64(values: &[i64]) -> Result<ArrayData, ArrayProblem> {
    let beyond_i32 = values.iter().any(|&value| value > i32::MAX.into());
    if beyond_i32 && values.iter().all(|&value| value >= 0) {
        narrow(values, "i64").map(ArrayData::U32)
    } else {
        narrow(values, "i64").map(ArrayData::I32)
    }
}

/// Wide integers as narrow ones, or the first that does not fit.
fn narrow<W, T>(values: &[W], dtype: &'static str) -> Result<Vec<T>, ArrayProblem>
where
    W: Copy + Display + TryInto<T>,
{
    let fit = |(index, &value): (usize, &W)| {
        value.try_into().map_err(|_| ArrayProblem::Lossy { dtype, value: value.to_string(), index })
    };
    values.iter().enumerate().map(fit).collect()
}

/// Reads `count` numbers of `N` bytes, a block at a time.
struct Blocks<'a, R> {
    reader: &'a mut R,
    big_endian: bool,
    count: usize,
}

impl<R: Read> Blocks<'_, R> {
    fn read<const N: usize, T>(&mut self, from_le: impl Fn([u8; N]) -> T) -> io::Result<Vec<T>> {
        let mut values = Vec::new();
        let mut block = vec![0; BLOCK_BYTES.min(self.count.saturating_mul(N))];
        let mut left = self.count;
        while left > 0 {
            let count = left.min(BLOCK_BYTES / N);
            let bytes = &mut block[..count * N];
            self.reader.read_exact(bytes)?;
            let (numbers, _) = bytes.as_chunks_mut::<N>();
            if self.big_endian {
                for number in numbers.iter_mut() {
                    number.reverse();
                }
            }
            values.extend(numbers.iter().map(|&number| from_le(number)));
            left -= count;
        }
        Ok(values)
    }
}

/// The upper half of a single float.
fn f32_from_bf16(brain: u16) -> f32 {
    f32::from_bits(u32::from(brain) << 16)
}

/// Exact: every half float is a single float.
pub(super) fn f32_from_f16(half: u16) -> f32 {
    let sign = u32::from(half & 0x8000) << 16;
    let fraction = u32::from(half & 0x03ff);
    let magnitude = match (half >> 10) & 0x1f {
        0 => (fraction as f32 * 2.0_f32.powi(-24)).to_bits(),
        31 => 0x7f80_0000 | fraction << 13,
        exponent => (u32::from(exponent) + 127 - 15) << 23 | fraction << 13,
    };
    f32::from_bits(sign | magnitude)
}

pub(super) fn write_blocks<const N: usize, T: Copy>(
    writer: &mut impl Write,
    values: &[T],
    to_le: impl Fn(T) -> [u8; N],
) -> io::Result<()> {
    let mut block = Vec::with_capacity(BLOCK_BYTES.min(values.len() * N));
    for chunk in values.chunks(BLOCK_BYTES / N) {
        block.clear();
        block.extend(chunk.iter().flat_map(|&value| to_le(value)));
        writer.write_all(&block)?;
    }
    Ok(())
}

/// Elements of a Fortran-ordered array (first axis fastest) in C order (last axis fastest).
pub(super) fn c_from_fortran<T: Copy>(shape: &[usize], fortran: &[T]) -> Vec<T> {
    let strides: Vec<usize> = shape
        .iter()
        .scan(1, |stride, &dim| {
            let this = *stride;
            *stride *= dim;
            Some(this)
        })
        .collect();
    let mut index = vec![0; shape.len()];
    let mut source = 0;
    let mut c_order = Vec::with_capacity(fortran.len());
    for _ in 0..fortran.len() {
        c_order.push(fortran[source]);
        for axis in (0..shape.len()).rev() {
            index[axis] += 1;
            source += strides[axis];
            if index[axis] < shape[axis] {
                break;
            }
            source -= strides[axis] * shape[axis];
            index[axis] = 0;
        }
    }
    c_order
}
