//! Tensors: element types, shapes, named dimensions, virtual handles of a graph, and data on the host.
//!
//! A [`Tensor`] is only a name with a shape; memory appears when a backend compiles the graph. Attention
//! tensors are `[b, h, n, d]` (batch, heads, tokens, head dimension), slowest dimension first.

use crate::error::{Error, Result};
use crate::words::counted;
use std::fmt;

/// Element type of a tensor.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum DType {
    /// 32-bit float.
    F32,
    /// 32-bit unsigned integer.
    U32,
    /// 32-bit signed integer.
    I32,
    /// Unsigned byte, four to a word on the GPU; masks (0 = leave out, anything else = keep).
    U8,
    /// Four display bytes (gamma space, straight alpha) of shape `[rows, cols]`: a texture on wgpu, a word elsewhere.
    Rgba8,
}

impl fmt::Display for DType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::F32 => "f32",
            Self::U32 => "u32",
            Self::I32 => "i32",
            Self::U8 => "u8",
            Self::Rgba8 => "rgba8",
        })
    }
}

impl DType {
    /// Bytes of one element.
    pub const fn bytes(self) -> u64 {
        match self {
            Self::U8 => 1,
            Self::F32 | Self::U32 | Self::I32 | Self::Rgba8 => 4,
        }
    }
}

/// Up to six dimensions, slowest first.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Shape {
    dims: [u32; Self::MAX_RANK],
    rank: u8,
}

impl Shape {
    /// The most dimensions a shape can have.
    pub const MAX_RANK: usize = 6;

    /// A shape from its dimensions, slowest first.
    ///
    /// Errors: [`Error::Value`] for more than six dimensions.
    pub fn new(dims: &[u32]) -> Result<Self> {
        if dims.len() > Self::MAX_RANK {
            return Err(Error::value(
                "shape",
                "at most 6 dimensions",
                format!("{dims:?}"),
                "join dimensions",
            ));
        }
        let mut all = [1; Self::MAX_RANK];
        all[..dims.len()].copy_from_slice(dims);
        Ok(Self { dims: all, rank: u8::try_from(dims.len()).expect("rank is at most 6") })
    }

    /// The dimensions, slowest first.
    pub fn dims(&self) -> &[u32] {
        &self.dims[..usize::from(self.rank)]
    }

    /// Number of elements.
    pub fn len(&self) -> u64 {
        self.dims().iter().map(|&d| u64::from(d)).product()
    }

    /// Whether there is no element at all.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl<const R: usize> From<[u32; R]> for Shape {
    fn from(dims: [u32; R]) -> Self {
        const { assert!(R <= Self::MAX_RANK, "a shape has at most six dimensions") };
        Self::new(&dims).expect("the rank was checked at compile time")
    }
}

impl fmt::Display for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.dims())
    }
}

impl fmt::Debug for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Named dimensions with their sizes, in the order in which they were first met.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Dims(Vec<(&'static str, u32)>);

impl Dims {
    /// Dimensions from a list of names and sizes.
    pub fn of(list: &[(&'static str, u32)]) -> Self {
        Self(list.to_vec())
    }

    /// Size of a named dimension, if it is known.
    pub fn find(&self, name: &str) -> Option<u32> {
        self.0.iter().find(|(n, _)| *n == name).map(|&(_, size)| size)
    }

    /// Size of a named dimension; 0 where the port that carries it was left out.
    pub fn size(&self, name: &str) -> u32 {
        self.find(name).unwrap_or(0)
    }

    /// The same as `usize`, for indexing on the host.
    pub fn at(&self, name: &str) -> usize {
        self.size(name) as usize
    }

    /// Heads of all batch elements together: `b · h`.
    pub fn batches(&self) -> u64 {
        u64::from(self.find("b").unwrap_or(1)) * u64::from(self.find("h").unwrap_or(1))
    }

    /// Sets or replaces a dimension.
    pub fn set(&mut self, name: &'static str, size: u32) {
        match self.0.iter_mut().find(|(n, _)| *n == name) {
            Some(entry) => entry.1 = size,
            None => self.0.push((name, size)),
        }
    }

    /// As messages show them: `n = 5, d = 3`.
    pub fn told(&self) -> String {
        self.iter().map(|(name, size)| format!("{name} = {size}")).collect::<Vec<_>>().join(", ")
    }

    /// Names and sizes in order.
    pub fn iter(&self) -> impl Iterator<Item = (&'static str, u32)> + '_ {
        self.0.iter().copied()
    }
}

/// A virtual tensor of one graph: a handle with shape and element type, without memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Tensor {
    pub(crate) graph: u32,
    pub(crate) id: u32,
    pub(crate) shape: Shape,
    pub(crate) dtype: DType,
}

impl Tensor {
    /// Shape, slowest dimension first.
    pub fn shape(&self) -> Shape {
        self.shape
    }

    /// Element type.
    pub fn dtype(&self) -> DType {
        self.dtype
    }

    /// Size of dimension `axis`; 1 beyond the rank.
    pub fn dim(&self, axis: usize) -> u32 {
        self.shape.dims().get(axis).copied().unwrap_or(1)
    }
}

/// The numbers of a [`HostTensor`].
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum HostData {
    /// Single precision, what every GPU tensor of floats holds.
    F32(Vec<f32>),
    /// Double precision, what the CPU reference gives.
    F64(Vec<f64>),
    /// Unsigned words.
    U32(Vec<u32>),
    /// Signed words.
    I32(Vec<i32>),
    /// Bytes.
    U8(Vec<u8>),
    /// Pixels, red first.
    Rgba8(Vec<[u8; 4]>),
}

impl HostData {
    /// Number of elements.
    pub fn len(&self) -> usize {
        match self {
            Self::F32(v) => v.len(),
            Self::F64(v) => v.len(),
            Self::U32(v) => v.len(),
            Self::I32(v) => v.len(),
            Self::U8(v) => v.len(),
            Self::Rgba8(v) => v.len(),
        }
    }

    /// Whether there is no element.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Element type of the tensor that can hold these numbers (f64 is rounded to f32 on a GPU).
    pub fn dtype(&self) -> DType {
        match self {
            Self::F32(_) | Self::F64(_) => DType::F32,
            Self::U32(_) => DType::U32,
            Self::I32(_) => DType::I32,
            Self::U8(_) => DType::U8,
            Self::Rgba8(_) => DType::Rgba8,
        }
    }
}

/// Numbers on the host with their shape.
#[derive(Clone, Debug, PartialEq)]
pub struct HostTensor {
    shape: Shape,
    data: HostData,
}

impl HostTensor {
    /// Data with its shape.
    ///
    /// Errors: [`Error::Data`] if the count differs from the shape's.
    pub fn new(shape: impl Into<Shape>, data: HostData) -> Result<Self> {
        let shape = shape.into();
        if shape.len() != data.len() as u64 {
            return Err(Error::Data {
                tensor: "host tensor".into(),
                expected: format!("{} for shape {shape}", counted(shape.len(), "element", "elements")),
                got: counted(data.len(), "element", "elements"),
            });
        }
        Ok(Self { shape, data })
    }

    /// Single-precision data with its shape.
    ///
    /// Errors: [`Error::Data`] if the count differs from the shape's.
    pub fn f32(shape: impl Into<Shape>, data: Vec<f32>) -> Result<Self> {
        Self::new(shape, HostData::F32(data))
    }

    /// Shape, slowest dimension first.
    pub fn shape(&self) -> Shape {
        self.shape
    }

    /// The numbers.
    pub fn data(&self) -> &HostData {
        &self.data
    }

    /// Element type of the tensor that can hold these numbers.
    pub fn dtype(&self) -> DType {
        self.data.dtype()
    }

    /// The first elements, as a tensor of another shape.
    ///
    /// Errors: [`Error::Data`] if there are fewer than the shape needs.
    pub fn beginning(&self, shape: Shape) -> Result<Self> {
        let len = shape.len() as usize;
        if self.data.len() < len {
            return Err(Error::Data {
                tensor: "beginning".into(),
                expected: format!("at least {}", counted(shape.len(), "element", "elements")),
                got: self.data.len().to_string(),
            });
        }
        Self::new(
            shape,
            match &self.data {
                HostData::F32(v) => HostData::F32(v[..len].to_vec()),
                HostData::F64(v) => HostData::F64(v[..len].to_vec()),
                HostData::U32(v) => HostData::U32(v[..len].to_vec()),
                HostData::I32(v) => HostData::I32(v[..len].to_vec()),
                HostData::U8(v) => HostData::U8(v[..len].to_vec()),
                HostData::Rgba8(v) => HostData::Rgba8(v[..len].to_vec()),
            },
        )
    }

    /// The numbers as single precision, whatever they are stored as (pixels as their four bytes in a row).
    pub fn to_f32(&self) -> Vec<f32> {
        self.to_f64().into_iter().map(|x| x as f32).collect()
    }

    /// The numbers as double precision, whatever they are stored as (pixels as their four bytes in a row).
    pub fn to_f64(&self) -> Vec<f64> {
        match &self.data {
            HostData::F32(v) => v.iter().map(|&x| f64::from(x)).collect(),
            HostData::F64(v) => v.clone(),
            HostData::U32(v) => v.iter().map(|&x| f64::from(x)).collect(),
            HostData::I32(v) => v.iter().map(|&x| f64::from(x)).collect(),
            HostData::U8(v) => v.iter().map(|&x| f64::from(x)).collect(),
            HostData::Rgba8(v) => v.iter().flatten().map(|&x| f64::from(x)).collect(),
        }
    }

    /// The bytes a GPU buffer of this tensor holds: little-endian words, f64 rounded to f32, bytes padded to a word.
    pub fn device_bytes(&self) -> Vec<u8> {
        match &self.data {
            HostData::F32(v) => bytemuck::cast_slice(v).to_vec(),
            HostData::F64(v) => v.iter().flat_map(|&x| (x as f32).to_le_bytes()).collect(),
            HostData::U32(v) => bytemuck::cast_slice(v).to_vec(),
            HostData::I32(v) => bytemuck::cast_slice(v).to_vec(),
            HostData::U8(v) => {
                let mut bytes = v.clone();
                bytes.resize(v.len().next_multiple_of(4), 0);
                bytes
            }
            HostData::Rgba8(v) => bytemuck::cast_slice(v).to_vec(),
        }
    }

    /// The inverse of [`Self::device_bytes`].
    #[cfg(any(feature = "wgpu", feature = "cuda"))]
    pub(crate) fn from_device_bytes(shape: Shape, dtype: DType, bytes: &[u8]) -> Result<Self> {
        let words = || bytes.chunks_exact(4).map(|c| [c[0], c[1], c[2], c[3]]);
        let data = match dtype {
            DType::F32 => HostData::F32(words().map(f32::from_le_bytes).collect()),
            DType::U32 => HostData::U32(words().map(u32::from_le_bytes).collect()),
            DType::I32 => HostData::I32(words().map(i32::from_le_bytes).collect()),
            DType::U8 => HostData::U8(bytes[..shape.len() as usize].to_vec()),
            DType::Rgba8 => HostData::Rgba8(words().collect()),
        };
        Self::new(shape, data)
    }

    /// Refuses NaN and infinities by their bits (comparisons with NaN are not to be trusted on every driver).
    ///
    /// Errors: [`Error::NotFinite`] with `name`, the first index and the count.
    pub fn check_finite(&self, name: &str) -> Result<()> {
        const EXPONENT: u32 = 0x7f80_0000;
        let bad = |bits: &u32| bits & EXPONENT == EXPONENT;
        let bits: Box<dyn Iterator<Item = u32> + '_> = match &self.data {
            HostData::F32(v) => Box::new(v.iter().map(|x| x.to_bits())),
            HostData::F64(v) => Box::new(v.iter().map(|&x| (x as f32).to_bits())),
            _ => return Ok(()),
        };
        let mut found = bits.enumerate().filter(|(_, b)| bad(b));
        match found.next() {
            None => Ok(()),
            Some((index, bits)) => {
                Err(Error::NotFinite { tensor: name.into(), index, bits, count: 1 + found.count() })
            }
        }
    }
}
