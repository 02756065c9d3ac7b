//! The dispatcher's front: record passes in the order they run; nothing is computed yet.
//!
//! A pass is data (kernel, parameters, tensors), not a closure, so the same graph runs on the CPU and on wgpu, can be
//! printed, compared and drawn. [`Graph::schedule`] turns the recording into a [`Schedule`].

mod dump;
mod schedule;

use crate::error::{Error, Result};
use crate::kernel::{Access, Caps, KernelParams, KernelSpec, Port};
use crate::tensor::{DType, Dims, HostTensor, Shape, Tensor};
use crate::words::counted;
pub use dump::human_bytes;
#[cfg(any(feature = "wgpu", feature = "cuda"))]
pub(crate) use schedule::device_bytes;
pub use schedule::{Lowering, Schedule, Slot, Step};
use std::ops::Range;
use std::panic::Location;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

/// What keeps a tensor alive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// The caller writes or binds it.
    Input,
    /// Its numbers are part of the graph.
    Constant,
    /// Lives between two passes; its memory is shared with others.
    Transient,
    /// The caller reads or binds it.
    Output,
}

/// What a graph knows about one tensor.
#[derive(Clone, Debug)]
pub struct TensorInfo {
    /// Name for messages and dumps.
    pub name: String,
    /// Shape, slowest dimension first.
    pub shape: Shape,
    /// Element type.
    pub dtype: DType,
    /// What keeps it alive; a view has its base's.
    pub kind: Kind,
    /// For a view: the tensor it looks into and the element at which it begins.
    pub base: Option<(u32, u64)>,
    /// For a constant: its numbers.
    pub constant: Option<Arc<HostTensor>>,
}

/// One recorded use of a kernel.
#[derive(Clone, Debug)]
pub struct Pass {
    /// The kernel.
    pub kernel: &'static KernelSpec,
    /// Its parameter bytes.
    pub params: Vec<u8>,
    /// Its tensors in port order.
    pub args: Vec<Option<Tensor>>,
    /// Sizes of its named dimensions.
    pub dims: Dims,
}

/// Names a recorded pass, for [`set_param_bytes`](crate::backend::Program::set_param_bytes).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct PassId(pub(crate) usize);

/// A linear recording of passes over virtual tensors.
#[derive(Clone, Debug)]
pub struct Graph {
    pub(crate) id: u32,
    pub(crate) label: String,
    pub(crate) tensors: Vec<TensorInfo>,
    pub(crate) passes: Vec<Pass>,
}

impl Graph {
    /// An empty recording.
    pub fn new(label: impl Into<String>) -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(1);
        let id = NEXT.fetch_add(1, Ordering::Relaxed);
        Self { id, label: label.into(), tensors: Vec::new(), passes: Vec::new() }
    }

    fn add(&mut self, info: TensorInfo) -> Tensor {
        let id = u32::try_from(self.tensors.len()).expect("fewer than 2^32 tensors in a graph");
        let tensor = Tensor { graph: self.id, id, shape: info.shape, dtype: info.dtype };
        self.tensors.push(info);
        tensor
    }

    fn declare(&mut self, name: &str, shape: Shape, dtype: DType, kind: Kind) -> Tensor {
        self.add(TensorInfo { name: name.into(), shape, dtype, kind, base: None, constant: None })
    }

    /// A tensor that the caller writes or binds before each run.
    pub fn input(&mut self, name: &str, shape: impl Into<Shape>, dtype: DType) -> Tensor {
        self.declare(name, shape.into(), dtype, Kind::Input)
    }

    /// A tensor whose numbers belong to the graph.
    pub fn constant(&mut self, name: &str, value: HostTensor) -> Tensor {
        let (shape, dtype) = (value.shape(), value.dtype());
        let constant = Some(Arc::new(value));
        self.add(TensorInfo { name: name.into(), shape, dtype, kind: Kind::Constant, base: None, constant })
    }

    /// The numbers of a constant; `None` for any other tensor, views of constants included.
    pub fn constant_numbers(&self, tensor: Tensor) -> Option<Arc<HostTensor>> {
        let info = self.tensors.get(tensor.id as usize).filter(|_| tensor.graph == self.id)?;
        info.constant.clone().filter(|_| info.base.is_none())
    }

    /// A tensor that lives between passes.
    pub fn transient(&mut self, name: &str, shape: impl Into<Shape>, dtype: DType) -> Tensor {
        self.declare(name, shape.into(), dtype, Kind::Transient)
    }

    /// Keeps a tensor past the run, so that it can be read or bound. A view keeps its base.
    ///
    /// Errors: [`Error::Tensor`] for a handle of another graph, an input or a constant.
    pub fn output(&mut self, tensor: Tensor) -> Result<()> {
        let id = self.resolve(tensor)?.0 as usize;
        let info = &mut self.tensors[id];
        match info.kind {
            Kind::Transient | Kind::Output => {
                info.kind = Kind::Output;
                Ok(())
            }
            Kind::Input | Kind::Constant => Err(Error::Tensor {
                tensor: info.name.clone(),
                reason: "is an input or a constant: it is already the caller's, so it cannot be an output"
                    .into(),
            }),
        }
    }

    /// The part `range` of dimension `axis`, without copying.
    ///
    /// Errors: [`Error::Value`] if the range is outside or the part is not contiguous (a dimension before `axis`
    /// exceeds 1).
    pub fn slice(&mut self, tensor: Tensor, axis: usize, range: Range<u32>) -> Result<Tensor> {
        let dims = tensor.shape.dims();
        let name = self.resolve(tensor)?.1;
        let fits = axis < dims.len() && range.start <= range.end && range.end <= dims[axis];
        if !fits || dims[..axis].iter().any(|&d| d != 1) {
            return Err(Error::value(
                format!("slice {range:?} of dimension {axis} of `{name}`"),
                format!("a contiguous part of {}", tensor.shape),
                format!("{range:?}"),
                "slice outer dimensions to 1 first",
            ));
        }
        let inner: u64 = dims[axis + 1..].iter().map(|&d| u64::from(d)).product();
        let mut shape = dims.to_vec();
        shape[axis] = range.end - range.start;
        self.view(tensor, Shape::new(&shape)?, u64::from(range.start) * inner)
    }

    /// The same elements under another shape.
    ///
    /// Errors: [`Error::Value`] if the counts differ.
    pub fn reshape(&mut self, tensor: Tensor, shape: impl Into<Shape>) -> Result<Tensor> {
        let shape = shape.into();
        if shape.len() != tensor.shape.len() {
            let name = self.resolve(tensor)?.1;
            return Err(Error::value(
                format!("reshape of `{name}`"),
                format!("{} as in {}", counted(tensor.shape.len(), "element", "elements"), tensor.shape),
                shape,
                "give a shape of the same size",
            ));
        }
        self.view(tensor, shape, 0)
    }

    fn view(&mut self, tensor: Tensor, shape: Shape, offset: u64) -> Result<Tensor> {
        let (base, name) = self.resolve(tensor)?;
        let from = self.tensors[tensor.id as usize].base.map_or(0, |(_, at)| at);
        let kind = self.tensors[base as usize].kind;
        Ok(self.add(TensorInfo {
            name,
            shape,
            dtype: tensor.dtype,
            kind,
            base: Some((base, from + offset)),
            constant: None,
        }))
    }

    /// The tensor that owns the memory, and the name.
    fn resolve(&self, tensor: Tensor) -> Result<(u32, String)> {
        match self.tensors.get(tensor.id as usize) {
            Some(info) if tensor.graph == self.id => {
                Ok((info.base.map_or(tensor.id, |(base, _)| base), info.name.clone()))
            }
            _ => Err(Error::Tensor {
                tensor: format!("#{}", tensor.id),
                reason: format!(
                    "the handle is not of the graph \"{}\"; use handles where they were made",
                    self.label
                ),
            }),
        }
    }

    /// Name of a tensor, for messages.
    pub fn name(&self, tensor: Tensor) -> &str {
        self.tensors.get(tensor.id as usize).map_or("?", |t| &t.name)
    }

    /// Records one use of a kernel with its tensors in port order (`None` for an optional port left out).
    ///
    /// Errors: [`Error::Arguments`], [`Error::Shape`], [`Error::DType`], [`Error::Tensor`], [`Error::Value`], each
    /// with the caller's file and line where shapes are concerned.
    #[track_caller]
    pub fn pass<P: KernelParams>(
        &mut self,
        kernel: &'static KernelSpec,
        params: &P,
        args: &[Option<Tensor>],
    ) -> Result<PassId> {
        self.pass_bytes(kernel, &params.to_bytes(), args)
    }

    /// [`Self::pass`] with the parameters as bytes.
    ///
    /// Errors: as [`Self::pass`].
    #[track_caller]
    pub fn pass_bytes(
        &mut self,
        kernel: &'static KernelSpec,
        params: &[u8],
        args: &[Option<Tensor>],
    ) -> Result<PassId> {
        let at = Location::caller();
        let wrong = |message: String| Error::Arguments { kernel: kernel.name.into(), message, at };
        if args.len() != kernel.ports.len() {
            return Err(wrong(format!(
                "has {}, got {}",
                counted(kernel.ports.len(), "port", "ports"),
                counted(args.len(), "tensor", "tensors")
            )));
        }
        if params.len() != 4 * kernel.params.len() {
            return Err(wrong(format!(
                "has {} parameter bytes, got {}: the struct of another kernel?",
                4 * kernel.params.len(),
                params.len()
            )));
        }
        let dims = unify(kernel, args, at)?;
        let mut read = Vec::new();
        for (port, arg) in kernel.ports.iter().zip(args) {
            let Some(tensor) = arg else { continue };
            let base = self.resolve(*tensor)?.0;
            if port.access == Access::Read {
                read.push(base);
            }
        }
        let mut written: Vec<u32> = Vec::new();
        for (port, arg) in kernel.ports.iter().zip(args).filter(|(p, _)| p.access == Access::Write) {
            let Some(tensor) = arg else { continue };
            let (base, name) = self.resolve(*tensor)?;
            if matches!(self.tensors[base as usize].kind, Kind::Input | Kind::Constant) {
                return Err(wrong(format!(
                    "writes port `{}` to `{name}`, which is an input or a constant",
                    port.name
                )));
            }
            if read.contains(&base) || written.contains(&base) {
                return Err(wrong(format!(
                    "uses `{name}` for port `{}` and another port: a buffer is either read or written in one pass",
                    port.name
                )));
            }
            written.push(base);
        }
        (kernel.check)(&dims, params).map_err(wrong)?;
        self.passes.push(Pass { kernel, params: params.to_vec(), args: args.to_vec(), dims });
        Ok(PassId(self.passes.len() - 1))
    }

    /// The recorded passes in order.
    pub fn passes(&self) -> &[Pass] {
        &self.passes
    }

    /// Validates, drops what nobody reads, finds lifetimes and shares memory.
    ///
    /// Errors: [`Error::ReadBeforeWrite`], and whatever an expansion reports.
    pub fn schedule(&self, lowering: Lowering<'_>) -> Result<Schedule> {
        Schedule::of(self, lowering)
    }
}

/// What an expansion sees: its tensors, parameters and the device, and the graph in which to record smaller passes.
#[derive(Debug)]
pub struct Expansion<'a> {
    /// Where the smaller passes go.
    pub graph: &'a mut Graph,
    /// Sizes of the named dimensions.
    pub dims: &'a Dims,
    /// What the device offers.
    pub caps: &'a Caps,
    pub(crate) pass: &'a Pass,
}

impl Expansion<'_> {
    /// The parameter struct.
    pub fn params<P: KernelParams>(&self) -> P {
        P::from_bytes(&self.pass.params)
    }

    /// An optional port's tensor.
    pub fn port_if(&self, name: &str) -> Option<Tensor> {
        self.pass.kernel.port_index(name).and_then(|i| self.pass.args[i])
    }

    /// A required port's tensor.
    pub fn port(&self, name: &str) -> Tensor {
        self.port_if(name).unwrap_or_else(|| panic!("{} needs `{name}`", self.pass.kernel.name))
    }

    /// A float transient of `[b, h, rows, cols]` for this pass's batch.
    pub fn batch_transient(&mut self, name: &str, rows: u32, cols: u32) -> Tensor {
        let (b, h) = (self.dims.size("b"), self.dims.size("h"));
        self.graph.transient(name, [b, h, rows, cols], DType::F32)
    }
}

/// Gives every named dimension its one size, or says which port disagrees.
fn unify(kernel: &KernelSpec, args: &[Option<Tensor>], at: &'static Location<'static>) -> Result<Dims> {
    let mut dims = Dims::default();
    let pairs = || kernel.ports.iter().zip(args);
    // Ports that may be shared by all heads cannot tell how many heads there are, so they come last.
    let ordered = pairs().filter(|(p, _)| !p.broadcast).chain(pairs().filter(|(p, _)| p.broadcast));
    for (port, arg) in ordered {
        let Some(tensor) = arg else {
            if port.optional {
                continue;
            }
            let message = format!("needs port `{}` [{}]", port.name, port.dims.join(", "));
            return Err(Error::Arguments { kernel: kernel.name.into(), message, at });
        };
        if tensor.dtype != port.dtype {
            let (expected, got) = (port.dtype, tensor.dtype);
            return Err(Error::DType {
                kernel: kernel.name.into(),
                port: port.name.into(),
                expected,
                got,
                at,
            });
        }
        let sizes = tensor.shape.dims();
        let mismatch = |dims: &Dims| Error::Shape {
            kernel: kernel.name.into(),
            port: port.name.into(),
            expected: expected_shape(port, dims),
            got: tensor.shape,
            at,
        };
        if sizes.len() != port.dims.len() {
            return Err(mismatch(&dims));
        }
        for (axis, (&name, &size)) in port.dims.iter().zip(sizes).enumerate() {
            if port.broadcast && axis < 2 && size == 1 {
                continue;
            }
            let known = name.parse().ok().or_else(|| dims.find(name));
            match known {
                Some(expected) if expected != size => return Err(mismatch(&dims)),
                Some(_) => {}
                None => dims.set(name, size),
            }
        }
    }
    for name in kernel.dim_names() {
        if dims.find(name).is_none() && (name == "b" || name == "h") {
            dims.set(name, 1);
        }
    }
    Ok(dims)
}

fn expected_shape(port: &Port, dims: &Dims) -> String {
    let one = |(axis, name): (usize, &&str)| {
        let size = dims.find(name).map_or_else(|| (*name).to_string(), |s| format!("{name}={s}"));
        if port.broadcast && axis < 2 { format!("{size} or 1") } else { size }
    };
    format!("[{}]", port.dims.iter().enumerate().map(one).collect::<Vec<_>>().join(", "))
}
