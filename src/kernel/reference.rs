//! Running a kernel's definition on the CPU: the same generic function in f64 (the truth) and in naive f32 (the yardstick).

use crate::error::{Error, Result};
use crate::kernel::{Access, KernelParams, KernelSpec};
use crate::tensor::{DType, Dims, HostData, HostTensor, Shape};
use crate::words::counted;
use std::sync::Arc;

/// A floating-point type that references compute in.
pub trait Real:
    num_traits::Float
    + num_traits::NumAssign
    + std::iter::Sum
    + std::fmt::Debug
    + std::fmt::Display
    + Default
    + Send
    + Sync
    + 'static
{
    /// The nearest value of this type.
    fn of(x: f64) -> Self;
    /// The same value in f64.
    fn wide(self) -> f64;
}

impl Real for f64 {
    fn of(x: f64) -> Self {
        x
    }
    fn wide(self) -> f64 {
        self
    }
}

impl Real for f32 {
    fn of(x: f64) -> Self {
        x as Self
    }
    fn wide(self) -> f64 {
        f64::from(self)
    }
}

/// One argument's numbers: reals for floats, words for everything else (bytes and pixels one to a word).
#[derive(Clone, Debug)]
pub enum Buffer<T> {
    /// Floating-point numbers.
    Real(Arc<Vec<T>>),
    /// Integers, bytes or packed pixels.
    Word(Arc<Vec<u32>>),
}

impl<T: Real> Buffer<T> {
    /// The numbers of a host tensor.
    pub fn from_host(tensor: &HostTensor) -> Self {
        match tensor.data() {
            HostData::F32(v) => Self::Real(Arc::new(v.iter().map(|&x| T::of(f64::from(x))).collect())),
            HostData::F64(v) => Self::Real(Arc::new(v.iter().map(|&x| T::of(x)).collect())),
            HostData::U32(v) => Self::Word(Arc::new(v.clone())),
            HostData::I32(v) => Self::Word(Arc::new(v.iter().map(|x| x.cast_unsigned()).collect())),
            HostData::U8(v) => Self::Word(Arc::new(v.iter().map(|&x| u32::from(x)).collect())),
            HostData::Rgba8(v) => Self::Word(Arc::new(v.iter().map(|&p| u32::from_le_bytes(p)).collect())),
        }
    }

    /// A host tensor of the given shape; floats come back in f64.
    pub fn to_host(&self, shape: Shape, dtype: DType) -> Result<HostTensor> {
        let data = match (self, dtype) {
            (Self::Real(v), _) => HostData::F64(v.iter().map(|x| x.wide()).collect()),
            (Self::Word(v), DType::I32) => HostData::I32(v.iter().map(|x| x.cast_signed()).collect()),
            (Self::Word(v), DType::U8) => HostData::U8(v.iter().map(|&x| x as u8).collect()),
            (Self::Word(v), DType::Rgba8) => HostData::Rgba8(v.iter().map(|x| x.to_le_bytes()).collect()),
            (Self::Word(v), _) => HostData::U32(v.to_vec()),
        };
        HostTensor::new(shape, data)
    }

    /// Number of elements.
    pub fn len(&self) -> usize {
        match self {
            Self::Real(v) => v.len(),
            Self::Word(v) => v.len(),
        }
    }

    /// Whether there is no element.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// The arguments of one run of a reference.
#[derive(Debug)]
pub struct HostArgs<T> {
    spec: &'static KernelSpec,
    /// Sizes of the named dimensions.
    pub dims: Dims,
    params: Vec<u8>,
    ports: Vec<Option<Buffer<T>>>,
    shapes: Vec<Option<Shape>>,
}

impl<T: Real> HostArgs<T> {
    /// Arguments in port order; outputs are given as `None` buffers with a shape.
    pub fn new(
        spec: &'static KernelSpec,
        dims: Dims,
        params: Vec<u8>,
        ports: Vec<Option<Buffer<T>>>,
        shapes: Vec<Option<Shape>>,
    ) -> Self {
        Self { spec, dims, params, ports, shapes }
    }

    fn index(&self, port: &str) -> usize {
        self.spec.port_index(port).unwrap_or_else(|| panic!("{} has no port `{port}`", self.spec.name))
    }

    /// The parameter struct.
    pub fn params<P: KernelParams>(&self) -> P {
        P::from_bytes(&self.params)
    }

    /// Whether an optional port was given.
    pub fn has(&self, port: &str) -> bool {
        self.ports[self.index(port)].is_some()
    }

    /// The numbers of a float input that must be there.
    pub fn real(&self, port: &str) -> Arc<Vec<T>> {
        self.real_if(port).unwrap_or_else(|| panic!("{}: `{port}` was not given", self.spec.name))
    }

    /// The numbers of an optional float input.
    pub fn real_if(&self, port: &str) -> Option<Arc<Vec<T>>> {
        match &self.ports[self.index(port)] {
            Some(Buffer::Real(v)) => Some(Arc::clone(v)),
            _ => None,
        }
    }

    /// The words of an optional integer, mask or pixel input.
    pub fn words_if(&self, port: &str) -> Option<Arc<Vec<u32>>> {
        match &self.ports[self.index(port)] {
            Some(Buffer::Word(v)) => Some(Arc::clone(v)),
            _ => None,
        }
    }

    /// The words of an integer, mask or pixel input that must be there.
    pub fn words(&self, port: &str) -> Arc<Vec<u32>> {
        self.words_if(port).unwrap_or_else(|| panic!("{}: `{port}` was not given", self.spec.name))
    }

    /// Element at which batch `batch`'s part of a port begins, honouring ports shared by all heads.
    pub fn start(&self, port: &str, batch: usize) -> usize {
        let Some(shape) = self.shapes[self.index(port)] else { return 0 };
        let dims = shape.dims();
        let inner: usize = dims[2..].iter().map(|&d| d as usize).product();
        let heads = self.dims.at("h").max(1);
        let (b, h) = (batch / heads, batch % heads);
        let b = if dims[0] == 1 { 0 } else { b };
        let h = if dims[1] == 1 { 0 } else { h };
        (b * dims[1] as usize + h) * inner
    }

    /// Stores a float output.
    pub fn set(&mut self, port: &str, values: Vec<T>) {
        let index = self.index(port);
        self.ports[index] = Some(Buffer::Real(Arc::new(values)));
    }

    /// Stores an integer or pixel output.
    pub fn set_words(&mut self, port: &str, values: Vec<u32>) {
        let index = self.index(port);
        self.ports[index] = Some(Buffer::Word(Arc::new(values)));
    }

    /// Takes the outputs in port order, checking that each has the size of its shape.
    ///
    /// Errors: [`Error::Interface`] if the reference left an output out or sized it wrongly.
    pub fn into_outputs(mut self) -> Result<Vec<Option<Buffer<T>>>> {
        for (i, port) in self.spec.ports.iter().enumerate() {
            if port.access == Access::Read {
                self.ports[i] = None;
                continue;
            }
            let Some(shape) = self.shapes[i] else { continue };
            let got = self.ports[i].as_ref().map_or(0, Buffer::len);
            if got as u64 != shape.len() || self.ports[i].is_none() {
                return Err(Error::Interface {
                    kernel: format!("{} (reference)", self.spec.name),
                    port: port.name.into(),
                    reason: format!("has {} for shape {shape}", counted(got, "element", "elements")),
                });
            }
        }
        Ok(self.ports)
    }
}

/// A kernel's definition, twice instantiated.
#[derive(Clone, Copy, Debug)]
pub struct Reference {
    /// The truth.
    pub f64: fn(&mut HostArgs<f64>) -> Result<()>,
    /// The same sums in the same order in single precision.
    pub f32: fn(&mut HostArgs<f32>) -> Result<()>,
}

/// Instantiates one generic reference function for f64 and f32.
#[macro_export]
macro_rules! reference {
    ($function:ident) => {
        $crate::kernel::Reference { f64: $function::<f64>, f32: $function::<f32> }
    };
}

/// Fills `[batches, n, width]` row by row in parallel: `f(batch, row, line)` writes one zeroed line.
pub fn rows<T: Real>(
    batches: usize,
    n: usize,
    width: usize,
    f: impl Fn(usize, usize, &mut [T]) + Sync,
) -> Vec<T> {
    use rayon::prelude::*;
    let mut out = vec![T::zero(); batches * n * width];
    if width > 0 {
        out.par_chunks_mut(width).enumerate().for_each(|(line, chunk)| f(line / n, line % n, chunk));
    }
    out
}

/// Inverse of a row-major `[m, m]` matrix by elimination with partial pivoting; `None` if it is singular.
pub fn inverse<T: Real>(matrix: &[T], m: usize) -> Option<Vec<T>> {
    let mut a = matrix.to_vec();
    let mut x = vec![T::zero(); m * m];
    (0..m).for_each(|i| x[i * m + i] = T::one());
    for col in 0..m {
        let size = |row: &usize| a[row * m + col].abs();
        let pivot =
            (col..m).max_by(|i, j| size(i).partial_cmp(&size(j)).unwrap_or(std::cmp::Ordering::Equal))?;
        if !a[pivot * m + col].is_normal() {
            return None;
        }
        for c in 0..m {
            a.swap(col * m + c, pivot * m + c);
            x.swap(col * m + c, pivot * m + c);
        }
        let scale = T::one() / a[col * m + col];
        for c in 0..m {
            a[col * m + c] *= scale;
            x[col * m + c] *= scale;
        }
        for row in (0..m).filter(|r| *r != col) {
            let factor = a[row * m + col];
            if factor == T::zero() {
                continue;
            }
            for c in 0..m {
                let (from_a, from_x) = (a[col * m + c], x[col * m + c]);
                a[row * m + c] -= factor * from_a;
                x[row * m + c] -= factor * from_x;
            }
        }
    }
    Some(x)
}
