//! Making a kernel's test cases concrete: inputs from a seed, the two references, and a one-pass graph.
//!
//! The parity test, `wgattn bench` and `wgattn eval` all come through here.

use crate::error::{Error, Result};
use crate::graph::{Graph, PassId};
use crate::kernel::reference::Buffer;
use crate::kernel::{Access, Case, Fill, HostArgs, KernelSpec, Real};
use crate::tensor::{DType, Dims, HostData, HostTensor, Shape, Tensor};

/// A kernel with concrete tensors.
#[derive(Clone, Debug)]
pub struct Concrete {
    /// The kernel.
    pub spec: &'static KernelSpec,
    /// Parameter bytes.
    pub params: Vec<u8>,
    /// Sizes of the named dimensions.
    pub dims: Dims,
    /// Shapes in port order; `None` for ports left out.
    pub shapes: Vec<Option<Shape>>,
    /// Inputs in port order; `None` for outputs and ports left out.
    pub inputs: Vec<Option<HostTensor>>,
}

/// Uniform bits from a counter: splitmix64, enough for test data.
fn bits(seed: u64, counter: u64) -> u64 {
    let mut z = seed.wrapping_add(counter.wrapping_mul(0x9e37_79b9_7f4a_7c15));
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// A number in [0, 1) with 24 bits.
fn unit(seed: u64, counter: u64) -> f32 {
    (bits(seed, counter) >> 40) as f32 / (1_u32 << 24) as f32
}

/// Data of so many elements by a rule, the same for the same seed.
pub(crate) fn filled(fill: Fill, dtype: DType, dims: &Dims, len: usize, seed: u64) -> HostData {
    let counters = 0..len as u64;
    match (fill, dtype) {
        (Fill::Made(make), _) => make(dims),
        (Fill::Uniform(lo, hi), DType::F32) => {
            HostData::F32(counters.map(|i| lo + (hi - lo) * unit(seed, i)).collect())
        }
        (Fill::Value(x), DType::F32) => HostData::F32(vec![x; len]),
        (Fill::Below(n), DType::F32) => {
            HostData::F32(counters.map(|i| (bits(seed, i) % u64::from(n)) as f32).collect())
        }
        (Fill::Value(x), DType::U8) => HostData::U8(vec![x as u8; len]),
        (fill, dtype) => {
            let below = if let Fill::Below(n) = fill { u64::from(n) } else { 256 };
            let word = |i| (bits(seed, i) % below) as u32;
            match dtype {
                DType::U8 => HostData::U8(counters.map(|i| word(i) as u8).collect()),
                DType::I32 => HostData::I32(counters.map(|i| word(i).cast_signed()).collect()),
                DType::Rgba8 => {
                    HostData::Rgba8(counters.map(|i| (bits(seed, i) as u32).to_le_bytes()).collect())
                }
                DType::U32 | DType::F32 => HostData::U32(counters.map(word).collect()),
            }
        }
    }
}

impl Concrete {
    /// A case's tensors.
    ///
    /// Errors: a case whose own data do not have its shapes.
    pub fn of(spec: &'static KernelSpec, case: &Case) -> Result<Self> {
        Self::with_dims(spec, case, Dims::of(case.dims))
    }

    /// A case's tensors with other sizes.
    ///
    /// Errors: as [`Self::of`].
    pub fn with_dims(spec: &'static KernelSpec, case: &Case, dims: Dims) -> Result<Self> {
        let mut shapes = Vec::new();
        let mut inputs = Vec::new();
        for (index, port) in spec.ports.iter().enumerate() {
            if case.absent.contains(&port.name) {
                shapes.push(None);
                inputs.push(None);
                continue;
            }
            let shared = case.broadcast.contains(&port.name);
            let size = |(axis, name): (usize, &&'static str)| match name.parse() {
                Ok(number) => number,
                Err(_) if shared && axis < 2 => 1,
                Err(_) => dims.size(name),
            };
            let shape = Shape::new(&port.dims.iter().enumerate().map(size).collect::<Vec<_>>())?;
            shapes.push(Some(shape));
            inputs.push(match port.access {
                Access::Write => None,
                Access::Read => {
                    let given = case.fill.iter().find(|(n, _)| *n == port.name).map(|(_, f)| *f);
                    let fill = given.unwrap_or(match port.dtype {
                        DType::U8 => Fill::Below(2),
                        _ => Fill::Uniform(-1.0, 1.0),
                    });
                    let seed = 1 + index as u64 * 7919 + spec.name.len() as u64 * 104_729;
                    Some(HostTensor::new(shape, filled(fill, port.dtype, &dims, shape.len() as usize, seed))?)
                }
            });
        }
        Ok(Self { spec, params: (case.params)(), dims, shapes, inputs })
    }

    fn run<T: Real>(&self, function: fn(&mut HostArgs<T>) -> Result<()>) -> Result<Vec<Option<HostTensor>>> {
        let ports = self.inputs.iter().map(|i| i.as_ref().map(Buffer::from_host)).collect();
        let mut args =
            HostArgs::new(self.spec, self.dims.clone(), self.params.clone(), ports, self.shapes.clone());
        function(&mut args)?;
        let outputs = args.into_outputs()?.into_iter().zip(&self.shapes).zip(self.spec.ports);
        outputs.map(|((b, s), p)| b.zip(*s).map(|(b, s)| b.to_host(s, p.dtype)).transpose()).collect()
    }

    /// The same numbers for the first head of the first batch element only: a sample for large cases.
    ///
    /// Errors: none for tensors that fit their ports.
    pub fn first_head(&self) -> Result<Self> {
        let mut part = self.clone();
        for name in ["b", "h"] {
            if self.dims.find(name).is_some() {
                part.dims.set(name, 1);
            }
        }
        for (index, port) in self.spec.ports.iter().enumerate() {
            let Some(shape) = self.shapes[index] else { continue };
            let one = |(&size, name): (&u32, &&str)| if matches!(*name, "b" | "h") { 1 } else { size };
            let shape = Shape::new(&shape.dims().iter().zip(port.dims).map(one).collect::<Vec<_>>())?;
            part.shapes[index] = Some(shape);
            part.inputs[index] = self.inputs[index].as_ref().map(|i| i.beginning(shape)).transpose()?;
        }
        Ok(part)
    }

    /// Outputs in port order, in f64.
    ///
    /// Errors: whatever the reference reports.
    pub fn truth(&self) -> Result<Vec<Option<HostTensor>>> {
        self.run(self.spec.reference.f64)
    }

    /// Outputs in port order, of the naive f32 computation.
    ///
    /// Errors: whatever the reference reports.
    pub fn naive(&self) -> Result<Vec<Option<HostTensor>>> {
        self.run(self.spec.reference.f32)
    }

    /// A graph of this one pass, with the tensors in port order.
    ///
    /// Errors: shapes or parameters the kernel refuses.
    pub fn graph(&self) -> Result<(Graph, PassId, Vec<Option<Tensor>>)> {
        let mut graph = Graph::new(self.spec.name);
        let mut tensors = Vec::new();
        for (port, shape) in self.spec.ports.iter().zip(&self.shapes) {
            tensors.push(shape.map(|shape| match port.access {
                Access::Read => graph.input(port.name, shape, port.dtype),
                Access::Write => graph.transient(port.name, shape, port.dtype),
            }));
        }
        let pass = graph.pass_bytes(self.spec, &self.params, &tensors)?;
        for (port, tensor) in self.spec.ports.iter().zip(&tensors) {
            if let (Access::Write, Some(tensor)) = (port.access, tensor) {
                graph.output(*tensor)?;
            }
        }
        Ok((graph, pass, tensors))
    }
}

/// How far a result is from the truth, relative to the truth's largest magnitude (absolute where that is 0).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Deviation {
    /// The largest relative deviation; infinite where only one of result and truth is NaN, or only one infinite.
    pub error: f64,
    /// Where it is.
    pub index: usize,
    /// The result there.
    pub got: f64,
    /// The truth there.
    pub expected: f64,
}

/// Compares element by element.
///
/// Errors: [`Error::Data`] if the shapes differ.
pub fn deviation(got: &HostTensor, truth: &HostTensor) -> Result<Deviation> {
    if got.shape() != truth.shape() {
        return Err(Error::Data {
            tensor: "comparison".into(),
            expected: truth.shape().to_string(),
            got: got.shape().to_string(),
        });
    }
    let (got, truth) = (got.to_f64(), truth.to_f64());
    let scale = truth.iter().fold(0.0_f64, |m, x| m.max(x.abs()));
    let scale = if scale > 0.0 && scale.is_finite() { scale } else { 1.0 };
    let first = |list: &[f64]| list.first().copied().unwrap_or(0.0);
    let mut worst = Deviation { error: 0.0, index: 0, got: first(&got), expected: first(&truth) };
    for (index, (&got, &expected)) in got.iter().zip(&truth).enumerate() {
        let same = got == expected || (got.is_nan() && expected.is_nan());
        let error = if same { 0.0 } else { (got - expected).abs() / scale };
        let error = if error.is_nan() { f64::INFINITY } else { error };
        if error > worst.error {
            worst = Deviation { error, index, got, expected };
        }
    }
    Ok(worst)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn between(got: [f32; 3], truth: [f32; 3]) -> f64 {
        let tensor = |numbers: [f32; 3]| HostTensor::f32([3], numbers.to_vec()).expect("three numbers");
        deviation(&tensor(got), &tensor(truth)).expect("of one shape").error
    }

    #[test]
    fn a_nan_is_right_where_the_truth_is_one_and_nowhere_else() {
        let gap = [1.0, f32::NAN, -2.0];
        assert_eq!(between(gap, gap), 0.0);
        assert!(between([1.0, 0.0, -2.0], gap).is_infinite(), "a number in the place of a NaN");
        assert!(between(gap, [1.0, 0.0, -2.0]).is_infinite(), "a NaN in the place of a number");
        assert_eq!(between([1.5, f32::NAN, -2.0], gap), 0.25, "the others are judged as ever");
    }
}
