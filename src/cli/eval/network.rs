//! What masks and layers on graphs need in `wgattn eval`: arrays by name with their shapes, the graph, and a run on the device.

use super::Args;
use crate::arrays::{Array, ArrayData};
use crate::backend::cpu::CpuBackend;
use crate::backend::{Backend, DeviceKind, Timings};
use crate::cli::{Failure, Outcome, notice, open_device};
use crate::graph::Graph;
use crate::mask::network::GraphSpec;
use crate::numbers::significant;
use crate::tensor::{HostData, HostTensor, Shape, Tensor};
use crate::topology::Network;
use crate::topology::read::{Options, read};
use crate::words::counted;
use std::collections::BTreeMap;
use std::fmt::Display;

/// The arrays of a file, taken one by one.
pub(super) struct Tensors<'a> {
    /// What they are for, as errors call it.
    pub(super) what: String,
    arrays: &'a BTreeMap<String, Array>,
    taken: Vec<&'static str>,
    allow_nonfinite: bool,
}

impl<'a> Tensors<'a> {
    pub(super) fn new(what: impl Into<String>, arrays: &'a BTreeMap<String, Array>, args: &Args) -> Self {
        Self { what: what.into(), arrays, taken: Vec::new(), allow_nonfinite: args.allow_nonfinite }
    }

    pub(super) fn has(&self, name: &str) -> bool {
        self.arrays.contains_key(name)
    }

    /// Names of all arrays, for errors.
    pub(super) fn names(&self) -> String {
        format!("[{}]", self.arrays.keys().map(String::as_str).collect::<Vec<_>>().join(", "))
    }

    /// The inputs are not what they should be.
    pub(super) fn wrong(&self, expected: &str, got: impl Display) -> Failure {
        Failure(format!(
            "{}: inputs: expected {expected}, got {got}; see `wgattn eval --describe`",
            self.what
        ))
    }

    fn array(&mut self, name: &'static str, shape: &str) -> Result<&'a Array, Failure> {
        self.taken.push(name);
        self.arrays.get(name).ok_or_else(|| self.wrong(&format!("`{name}` {shape}"), self.names()))
    }

    fn misfit(&self, name: &str, expected: &str, array: &Array) -> Failure {
        self.wrong(&format!("`{name}` {expected}"), format!("{:?} of {}", array.shape, array.data.dtype()))
    }

    /// An array of numbers of this many axes; leading `b` and `h` that it does not have are 1. They are finite, unless others are taken.
    pub(super) fn take(&mut self, name: &'static str, dims: &[&str]) -> Result<HostTensor, Failure> {
        let tensor = self.take_any(name, dims)?;
        if !self.allow_nonfinite {
            tensor.check_finite(name)?;
        }
        Ok(tensor)
    }

    /// The same, whatever the numbers are.
    fn take_any(&mut self, name: &'static str, dims: &[&str]) -> Result<HostTensor, Failure> {
        let named = format!("[{}]", dims.join(", "));
        let array = self.array(name, &named)?;
        let expected = format!("{named} of f32 or f64");
        let misfit = || self.misfit(name, &expected, array);
        let missing = dims.len().checked_sub(array.shape.len()).ok_or_else(misfit)?;
        if dims[..missing].iter().any(|d| *d != "b" && *d != "h") {
            return Err(misfit());
        }
        let mut shape = vec![1; missing];
        for size in &array.shape {
            shape.push(u32::try_from(*size).map_err(|_| misfit())?);
        }
        let data = match &array.data {
            ArrayData::F32(x) => HostData::F32(x.clone()),
            // The device computes in f32; the CPU reference keeps the doubles.
            ArrayData::F64(x) => HostData::F64(x.clone()),
            _ => return Err(misfit()),
        };
        Ok(HostTensor::new(Shape::new(&shape)?, data)?)
    }

    /// An array of whole numbers of at least 0, with its shape.
    pub(super) fn words(
        &mut self,
        name: &'static str,
        shape: &str,
    ) -> Result<(&'a [usize], Vec<u32>), Failure> {
        let array = self.array(name, shape)?;
        let words = match &array.data {
            ArrayData::U32(x) => x.clone(),
            ArrayData::I32(x) => {
                let at = x.iter().position(|x| *x < 0);
                if let Some(at) = at {
                    let got = format!("{} at element {at}", x[at]);
                    return Err(self.wrong(&format!("`{name}` {shape} of numbers of at least 0"), got));
                }
                x.iter().map(|x| x.unsigned_abs()).collect()
            }
            ArrayData::U8(x) => x.iter().map(|x| u32::from(*x)).collect(),
            _ => return Err(self.misfit(name, &format!("{shape} of whole numbers"), array)),
        };
        Ok((array.shape.as_slice(), words))
    }

    /// Refuses arrays that nothing has asked for.
    pub(super) fn end(&self) -> Outcome {
        match self.arrays.keys().find(|name| !self.taken.contains(&name.as_str())) {
            None => Ok(()),
            Some(name) => Err(Failure(format!(
                "{}: the inputs hold `{name}`, which is no input here; expected [{}]",
                self.what,
                self.taken.join(", ")
            ))),
        }
    }
}

/// A graph was given twice.
pub(super) fn two_graphs(given: &Tensors<'_>, graph: &GraphSpec) -> Failure {
    Failure(format!(
        "{}: expected one graph, got --graph {graph} and `edges` among the inputs; leave one of them out",
        given.what
    ))
}

/// The network of `--graph FILE`, or of `edges` and `weights` among the inputs, with a node for each token.
pub(super) fn network(args: &Args, given: &mut Tensors<'_>, tokens: u32) -> Result<Network, Failure> {
    match (&args.graph, given.has("edges")) {
        (Some(graph), true) => Err(two_graphs(given, graph)),
        (None, false) => Err(Failure(format!(
            "{}: expected a graph, got none; give --graph FILE or --graph grid8 --grid ROWSxCOLS, or `edges` [m, 2] (and `weights` \
             [m]) among the inputs",
            given.what
        ))),
        (Some(GraphSpec::File { path, options }), false) => {
            let options = Options { directed: options.directed || args.directed, ..*options };
            let network = read(path, &options)?.network;
            if network.nodes() == tokens as usize {
                return Ok(network);
            }
            Err(Failure(format!(
                "{}: nodes of {}: expected as many as the arrays have tokens, {tokens}, got {}; give arrays with a row per node",
                given.what,
                path.display(),
                network.nodes()
            )))
        }
        (Some(graph), false) => Err(Failure(format!(
            "{}: --graph {graph}: expected a file whose nodes are the tokens; name one, or give `edges` [m, 2] among the inputs",
            given.what
        ))),
        (None, true) => of_edges(args, given, tokens),
    }
}

fn of_edges(args: &Args, given: &mut Tensors<'_>, tokens: u32) -> Result<Network, Failure> {
    let (shape, words) = given.words("edges", "[m, 2]")?;
    let &[count, 2] = shape else {
        return Err(given.wrong("`edges` [m, 2]", format!("{shape:?}")));
    };
    let weights = match given.has("weights") {
        false => vec![1.0; count],
        // The network itself says which edge a weight that is none belongs to.
        true => given.take_any("weights", &["m"])?.to_f32(),
    };
    if weights.len() != count {
        let expected = format!("`weights` [m] with one weight per edge, {count}");
        return Err(given.wrong(&expected, weights.len()));
    }
    let edges: Vec<_> = words.chunks_exact(2).zip(weights).map(|(e, w)| (e[0], e[1], w)).collect();
    Ok(match args.directed {
        true => Network::directed_weighted(tokens as usize, &edges)?,
        false => Network::undirected_weighted(tokens as usize, &edges)?,
    })
}

/// Runs a graph on the device and reads its outputs, which are called by name.
///
/// Errors: results that are not finite where those of the f64 reference are, unless they are taken.
pub(super) fn run(
    what: &str,
    args: &Args,
    graph: &mut Graph,
    inputs: &[(Tensor, &HostTensor)],
    outputs: &[(&str, Tensor)],
) -> Result<Vec<HostTensor>, Failure> {
    for (_, output) in outputs {
        graph.output(*output)?;
    }
    let backend = open_device(&args.device, args.tune)?;
    let (results, timings) = computed(backend.as_ref(), graph, inputs, outputs)?;
    notice(format_args!(
        "{what} on {}: {:.3} ms, shader compilation included",
        backend.info().name,
        1e3 * timings.wall_seconds
    ));
    let finite = || results.iter().zip(outputs).all(|(result, (name, _))| result.check_finite(name).is_ok());
    if !args.allow_nonfinite && backend.info().kind != DeviceKind::Reference && !finite() {
        notice(format_args!(
            "{what}: results are not finite, and are compared with those of the f64 reference"
        ));
        let (exact, _) = computed(&CpuBackend, graph, inputs, outputs)?;
        for ((result, exact), (name, _)) in results.iter().zip(&exact).zip(outputs) {
            check_range(what, name, result, exact)?;
        }
    }
    Ok(results)
}

fn computed(
    backend: &dyn Backend,
    graph: &Graph,
    inputs: &[(Tensor, &HostTensor)],
    outputs: &[(&str, Tensor)],
) -> Result<(Vec<HostTensor>, Timings), Failure> {
    let mut program = backend.compile(graph)?;
    for (tensor, data) in inputs {
        program.write(*tensor, data)?;
    }
    let timings = program.run()?;
    let results = outputs.iter().map(|(_, output)| program.read(*output)).collect::<Result<_, _>>()?;
    Ok((results, timings))
}

/// Refuses a result that left the range of f32 on its way.
fn check_range(what: &str, name: &str, result: &HostTensor, exact: &HostTensor) -> Outcome {
    let (result, exact) = (result.to_f64(), exact.to_f64());
    let left = |(_, (x, wanted)): &(usize, (&f64, &f64))| !x.is_finite() && wanted.is_finite();
    let mut all = result.iter().zip(&exact).enumerate().filter(left);
    let Some((at, (x, wanted))) = all.next() else { return Ok(()) };
    let more = match all.count() {
        0 => String::new(),
        more => format!(" (and {})", counted(more, "element more", "elements more")),
    };
    Err(Failure(format!(
        "{what}: element {at} of `{name}`{more}: expected {}, as the f64 reference has it, got {}: numbers on the way pass 3.4e38, the \
         greatest of f32; scale the inputs down, use --device cpu, or --allow-nonfinite writes it as it is",
        significant(*wanted, 4),
        significant(*x, 4)
    )))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_are_finite_where_the_reference_is() {
        let of = |numbers: &[f64]| {
            HostTensor::new([numbers.len() as u32], HostData::F64(numbers.to_vec())).expect("numbers")
        };
        let check = |got: &[f64], exact: &[f64]| {
            check_range("sum", "y", &of(got), &of(exact)).map_err(|Failure(why)| why)
        };
        let message = check(&[1.0, f64::NAN, f64::INFINITY], &[1.0, 6e38, 7e38]).expect_err("an overflow");
        for part in ["element 1 of `y` (and 1 element more)", "expected 6e38", "got NaN", "--device cpu"] {
            assert!(message.contains(part), "no {part} in {message}");
        }
        // What is infinite by its formula is so.
        assert_eq!(check(&[1.0, f64::INFINITY], &[1.0, f64::INFINITY]), Ok(()));
    }
}
