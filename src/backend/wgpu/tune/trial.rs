//! Tensors to try a step's variants on: of its shape where that is small enough, with numbers as its kernel's own cases have them.
//!
//! Two things make a step one that cannot be tried, so that it keeps its default: whole numbers that mean something together (a
//! network's links, places in a list) and are not constants of the graph, because made-up ones could lead a shader anywhere; and a
//! number of workgroups that an earlier step finds.

use crate::graph::{Schedule, Step};
use crate::kernel::case::{Concrete, Deviation, deviation, filled};
use crate::kernel::{Access, Caps, Fill, KernelSpec, Port, Variant};
use crate::tensor::{DType, Dims, HostTensor, Shape, Tensor};

/// What an exponential counts, in operations, as elsewhere.
const EXP_WORK: f64 = 8.0;

/// Operations of the reference that says how exact a kernel has to be.
const CHECK_WORK: f64 = 2e6;

/// How far two variants may be apart, relative to the largest value, where a kernel's reference takes too long to say: faults of
/// drivers that were seen (lost sums, barriers left out, loops ended early) change the leading digits.
const APART_UNKNOWN: f64 = 1e-3;

/// How large a trial may be.
#[derive(Clone, Copy, Debug)]
pub(super) struct Most {
    /// Bytes of all tensors.
    pub(super) bytes: f64,
    /// Operations of one run.
    pub(super) work: f64,
}

/// Tensors of a step, cut until they are small enough; `None` where the step cannot be tried.
pub(super) fn of_step(step: &Step, schedule: &Schedule, most: Most) -> Option<Concrete> {
    let spec = step.kernel;
    // Probes are the same work along different paths: to choose the quickest would measure something else.
    if spec.family == "probe" || spec.ports.iter().any(|p| p.groups) {
        return None;
    }
    let shapes: Vec<Option<Shape>> = step.args.iter().map(|a| a.map(|t| t.shape())).collect();
    let dims = cut(spec, &step.params, &step.dims, &shapes, |dims, shapes| {
        bytes(spec, shapes) <= most.bytes && work(spec, dims, &step.params) <= most.work
    })?;
    let kept = dims == step.dims;
    let shapes = reshaped(spec, &step.dims, &dims, &shapes)?;
    let known = |port: usize| step.args[port].filter(|_| kept).and_then(|tensor| constant(schedule, tensor));
    filled_with(spec, &step.params, dims, shapes, known)
}

/// How far the results of two right variants may be apart, for every port, relative to the largest value.
///
/// Each may be as far from the truth as the kernel's tolerance allows, which a part of the trial tells that is small enough for the f64
/// reference: twice that between two of them, and twice again because it is a part.
pub(super) fn apart(trial: &Concrete) -> Vec<f64> {
    let known = || -> Option<Vec<f64>> {
        let spec = trial.spec;
        let dims = cut(spec, &trial.params, &trial.dims, &trial.shapes, |dims, _| {
            work(spec, dims, &trial.params) <= CHECK_WORK
        })?;
        let shapes = reshaped(spec, &trial.dims, &dims, &trial.shapes)?;
        let whole = |port: usize| trial.inputs[port].clone().filter(|i| Some(i.shape()) == shapes[port]);
        let part = filled_with(spec, &trial.params, dims, shapes.clone(), whole)?;
        let (truth, naive) = (part.truth().ok()?, part.naive().ok()?);
        let allowed = truth.iter().zip(&naive).map(|pair| match pair {
            (Some(truth), Some(naive)) => {
                let Deviation { error, .. } = deviation(naive, truth).ok()?;
                Some(4.0 * (spec.tolerance.factor * error + spec.tolerance.floor))
            }
            _ => Some(0.0),
        });
        allowed.collect()
    };
    let allowed = known().filter(|all| all.iter().all(|x| x.is_finite()));
    allowed.unwrap_or_else(|| vec![APART_UNKNOWN; trial.spec.ports.len()])
}

/// A case of these shapes: inputs that are `known`, and others made up; `None` where they cannot be.
fn filled_with(
    spec: &'static KernelSpec,
    params: &[u8],
    dims: Dims,
    shapes: Vec<Option<Shape>>,
    known: impl Fn(usize) -> Option<HostTensor>,
) -> Option<Concrete> {
    let input = |(index, port): (usize, &Port)| {
        let Some(shape) = shapes[index].filter(|_| port.access == Access::Read) else { return Some(None) };
        if let Some(numbers) = known(index) {
            return Some(Some(numbers));
        }
        let seed = 0x7e57 + 7919 * index as u64;
        let data = filled(fill_of(spec, index)?, port.dtype, &dims, shape.len() as usize, seed);
        HostTensor::new(shape, data).ok().map(Some)
    };
    let inputs = spec.ports.iter().enumerate().map(input).collect::<Option<Vec<_>>>()?;
    Some(Concrete { spec, params: params.to_vec(), dims, shapes, inputs })
}

/// Whether variants must agree about a port.
pub(super) fn is_compared(spec: &KernelSpec, port: usize) -> bool {
    spec.ports[port].access == Access::Write && !spec.ports[port].diagnostic
}

/// Whether a variant can do a trial, by what it says of itself.
pub(super) fn suits(trial: &Concrete, variant: &Variant, caps: &Caps) -> bool {
    (variant.suits)(&trial.dims, &trial.params, caps)
}

/// Operations of one run.
pub(super) fn work(spec: &KernelSpec, dims: &Dims, params: &[u8]) -> f64 {
    let cost = (spec.cost)(dims, params);
    cost.flop + EXP_WORK * cost.exp
}

fn bytes(spec: &KernelSpec, shapes: &[Option<Shape>]) -> f64 {
    let of = |(port, shape): (&Port, &Option<Shape>)| {
        shape.map_or(0.0, |s| s.len() as f64 * port.dtype.bytes() as f64)
    };
    spec.ports.iter().zip(shapes).map(of).sum()
}

/// The numbers of a whole tensor that the graph knows beforehand.
fn constant(schedule: &Schedule, tensor: Tensor) -> Option<HostTensor> {
    let (id, from) = schedule.base(tensor);
    let numbers = schedule.tensors[id as usize].constant.as_ref()?;
    (from == 0 && numbers.shape().len() == tensor.shape().len() && numbers.dtype() == tensor.dtype())
        .then(|| HostTensor::new(tensor.shape(), numbers.data().clone()).ok())
        .flatten()
}

/// How a port is filled: as in the first of the kernel's cases that says so. `None` for whole numbers that mean something together.
fn fill_of(spec: &KernelSpec, index: usize) -> Option<Fill> {
    let port = &spec.ports[index];
    let given = spec.cases.iter().flat_map(|c| c.fill).filter(|(n, _)| *n == port.name).map(|(_, f)| *f);
    let mut given = given.peekable();
    let made = given.peek().is_some_and(|f| matches!(f, Fill::Made(_)));
    let plain = given.find(|f| !matches!(f, Fill::Made(_)));
    match port.dtype {
        DType::F32 if port.positive => Some(
            plain
                .filter(|f| matches!(f, Fill::Uniform(lo, _) if *lo > 0.0))
                .unwrap_or(Fill::Uniform(0.5, 2.0)),
        ),
        // The largest numbers of a case try overflow; here they should be ordinary.
        DType::F32 => {
            let ordinary = |f: &Fill| match f {
                Fill::Uniform(lo, hi) => lo.abs() <= 64.0 && hi.abs() <= 64.0,
                Fill::Value(x) => x.abs() <= 64.0,
                _ => true,
            };
            Some(plain.filter(ordinary).unwrap_or(Fill::Uniform(-1.0, 1.0)))
        }
        DType::U8 => Some(Fill::Below(2)),
        DType::Rgba8 => Some(Fill::Below(256)),
        DType::U32 | DType::I32 if made => None,
        DType::U32 | DType::I32 => plain,
    }
}

/// Shapes of ports when named dimensions change; what is 1 for all heads stays 1.
fn reshaped(
    spec: &KernelSpec,
    old: &Dims,
    new: &Dims,
    shapes: &[Option<Shape>],
) -> Option<Vec<Option<Shape>>> {
    let of_port = |(port, shape): (&Port, &Option<Shape>)| {
        let Some(shape) = shape else { return Some(None) };
        let size = |(&size, name): (&u32, &&'static str)| match old.find(name) {
            Some(whole) if whole == size => new.size(name),
            _ => size,
        };
        Shape::new(&shape.dims().iter().zip(port.dims).map(size).collect::<Vec<_>>()).ok().map(Some)
    };
    spec.ports.iter().zip(shapes).map(of_port).collect()
}

/// Sizes that are small enough: batch elements and heads are left out first, then the largest dimension is halved, with all others of its
/// size (they often have to be equal), as long as the kernel accepts it. `None` where it does not accept what would be small enough.
fn cut(
    spec: &KernelSpec,
    params: &[u8],
    dims: &Dims,
    shapes: &[Option<Shape>],
    is_small: impl Fn(&Dims, &[Option<Shape>]) -> bool,
) -> Option<Dims> {
    let mut now = dims.clone();
    loop {
        if is_small(&now, &reshaped(spec, dims, &now, shapes)?) {
            return Some(now);
        }
        let next = |names: &[&'static str]| {
            let mut next = now.clone();
            for &name in names {
                next.set(name, half(now.size(name)));
            }
            (next != now && (spec.check)(&next, params).is_ok()).then_some(next)
        };
        let mut sizes: Vec<u32> =
            now.iter().filter(|(n, _)| !matches!(*n, "b" | "h")).map(|(_, s)| s).collect();
        sizes.sort_unstable();
        sizes.dedup();
        let of_size = |size: u32| -> Vec<&'static str> {
            now.iter().filter(|(n, s)| *s == size && !matches!(*n, "b" | "h")).map(|(n, _)| n).collect()
        };
        let larger = sizes.into_iter().rev().filter(|s| *s > 1).map(of_size);
        now = [vec!["b"], vec!["h"]].into_iter().chain(larger).find_map(|names| next(&names))?;
    }
}

/// Half of a size; multiples of four stay ones, for which many variants ask.
fn half(size: u32) -> u32 {
    let half = size.div_ceil(2);
    if size.is_multiple_of(4) && size > 4 { half.next_multiple_of(4) } else { half }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernels::find;

    fn cut_case(kernel: &str, case: &str, most: f64) -> Option<Dims> {
        let spec = find(kernel).expect("a kernel of the list");
        let case = spec.cases.iter().find(|c| c.name == case).expect("one of its cases");
        let concrete = Concrete::of(spec, case).expect("a case");
        cut(spec, &concrete.params, &concrete.dims, &concrete.shapes, |d, _| {
            work(spec, d, &concrete.params) <= most
        })
    }

    #[test]
    fn heads_are_left_out_before_rows_and_equal_sizes_stay_equal() {
        let whole = 2.0 * 8.0 * 4096.0 * 49.0 * 32.0;
        let dims = cut_case("matmul", "features_4096", whole / 8.0).expect("one head");
        assert_eq!((dims.size("h"), dims.size("n"), dims.size("ar")), (1, 4096, 4096));
        let dims = cut_case("matmul", "features_4096", whole / 16.0).expect("half of its rows");
        assert_eq!((dims.size("h"), dims.size("n"), dims.size("ar"), dims.size("wc")), (1, 2048, 2048, 32));
        let dims = cut_case("matmul", "square_256", 1e5).expect("a small square");
        assert_eq!(dims.size("n"), dims.size("wc"));
    }

    #[test]
    fn what_cannot_be_cut_is_not_tried() {
        assert_eq!(cut_case("matmul", "square_256", 0.5), None);
    }

    #[test]
    fn whole_numbers_that_mean_something_are_not_made_up() {
        let spec = find("spmm").expect("a kernel of the list");
        let columns = spec.port_index("columns").expect("one of its ports");
        assert!(fill_of(spec, columns).is_none());
        let matmul = find("matmul").expect("a kernel of the list");
        assert!(matches!(fill_of(matmul, 0), Some(Fill::Uniform(lo, hi)) if lo >= -64.0 && hi <= 64.0));
    }
}
