//! Queries, keys and values that all ways of attention in the suites share, and how a recorded attention is timed.

use crate::backend::{Backend, Burst, DeviceKind, Program, StepTime, TimingSource};
use crate::bench::flags::Flag;
use crate::bench::measure::{Options, Ready, clocked, repeat};
use crate::bench::operators::uniform;
use crate::bench::published::Point;
use crate::bench::run::LONGEST_RUN;
use crate::bench::stats::Summary;
use crate::error::Result;
use crate::graph::{Graph, Lowering};
use crate::numbers::seconds;
use crate::tensor::{DType, HostData, HostTensor, Shape, Tensor};

/// Heads and coordinates of a head.
pub(super) const HEADS: u32 = 8;
pub(super) const HEAD_DIM: u32 = 32;

/// Bytes that the host holds for so many tokens: queries, keys, values and the result, and each once more on its way.
pub(super) fn bytes(tokens: u32) -> f64 {
    8.0 * 4.0 * f64::from(HEADS * HEAD_DIM) * f64::from(tokens)
}

/// Rows and columns of the grid of so many tokens, as near to a square as there is one.
///
/// Errors: a number of tokens without a grid of 7 rows, on which landmarks lie.
pub(super) fn sides(tokens: u32) -> Result<[u32; 2]> {
    match (1..=tokens.isqrt()).rev().find(|rows| tokens.is_multiple_of(*rows)) {
        Some(rows) if rows >= 7 => Ok([rows, tokens / rows]),
        _ => super::refused("tokens of a suite", "a number with a grid of at least 7 rows", tokens),
    }
}

/// Numbers from −1 to 1 for so many tokens.
#[derive(Debug)]
pub(super) struct Data {
    pub(super) tokens: u32,
    /// Rows and columns of the token grid.
    pub(super) sides: [u32; 2],
    /// `[1, h, n, d]`, as keys and values.
    pub(super) q: HostTensor,
    pub(super) k: HostTensor,
    pub(super) v: HostTensor,
}

impl Data {
    /// Errors: as [`sides`]; too many tokens for a tensor.
    pub(super) fn new(tokens: u32) -> Result<Self> {
        let sides = sides(tokens)?;
        let shape = Shape::new(&[1, HEADS, tokens, HEAD_DIM])?;
        let Ok(count) = u32::try_from(shape.len()) else {
            return super::refused("tokens of a suite", "at most 16 777 215", tokens);
        };
        let tensor = |stream| HostTensor::f32(shape, uniform(stream, [-1.0, 1.0], count));
        Ok(Self { tokens, sides, q: tensor(0)?, k: tensor(1)?, v: tensor(2)? })
    }

    /// A graph with queries, keys and values as inputs.
    pub(super) fn graph(&self, label: &str) -> (Graph, [Tensor; 3]) {
        let mut graph = Graph::new(label);
        let inputs = ["q", "k", "v"].map(|name| graph.input(name, self.q.shape(), DType::F32));
        (graph, inputs)
    }

    /// What to write to these inputs.
    pub(super) fn inputs(&self, [q, k, v]: [Tensor; 3]) -> Vec<(Tensor, &HostTensor)> {
        vec![(q, &self.q), (k, &self.k), (v, &self.v)]
    }
}

/// The numbers of queries, keys or values.
pub(super) fn numbers(tensor: &HostTensor) -> &[f32] {
    match tensor.data() {
        HostData::F32(numbers) => numbers,
        _ => &[],
    }
}

/// Whether a device computes on the processor, so that processor seconds are what to judge by.
pub(super) fn on_cpu(backend: &dyn Backend) -> bool {
    matches!(backend.info().kind, DeviceKind::Software | DeviceKind::Reference)
}

/// Runs a graph once, has its result checked, and times it: a point with time, error and the counts of its program.
///
/// Errors: as compiling, running and checking.
pub(super) fn time(
    backend: &dyn Backend,
    tokens: u32,
    graph: &Graph,
    inputs: &[(Tensor, &HostTensor)],
    options: Options,
    check: impl FnOnce(&mut dyn Program) -> Result<(Option<f64>, String)>,
) -> Result<Point> {
    if let Some(why) = too_long(backend, graph, options)? {
        return Ok(Point::skipped(tokens, why));
    }
    // Before the clock runs: a search is no compiling.
    backend.tune(graph)?;
    let Ready { mut program, compile_seconds, first_seconds, exceeded } =
        Ready::make(backend, graph, inputs, options)?;
    let (max_error, checked) = check(program.as_mut())?;
    // Long runs are timed once: a sweep has many of them.
    let bursts = repeat(program.as_mut(), Options { runs: 1, ..options })?;
    let (source, times) = clocked(&bursts);
    let cpu: Vec<f64> = bursts.iter().map(|b| b.cpu_seconds).collect();
    let cpu = Summary::of(&cpu).filter(|_| on_cpu(backend));
    let point = Point::at(tokens).timed(Summary::of(&times), cpu);
    let flags = flags(backend, program.as_ref(), (source, point.y.is_some(), exceeded));
    let point = Point { max_error, checked: Some(checked), flags, ..point };
    let numbers = [("compile_seconds", compile_seconds), ("first_run_seconds", first_seconds)];
    Ok(point.with(&numbers).with(&counts(program.as_ref())))
}

/// Whether what is timed as a whole, by turns with its parts, was run often enough: so many runs and seconds as a row wants, but not more than
/// 50; where it is long, three do.
pub(super) fn is_enough(runs: usize, seconds: f64, options: Options) -> bool {
    const MOST: usize = 50;
    /// Seconds from which on a few runs do, and how many these are.
    const LONG: (f64, usize) = (30.0, 3);
    let fewest = if seconds >= LONG.0 { LONG.1.min(options.runs) } else { options.runs };
    runs >= fewest.max(1) && (seconds >= options.seconds || runs >= MOST)
}

/// What there is to count in a program: its dispatches, and on a tuned device the steps that a search chose or had no time for.
pub(super) fn counts(program: &dyn Program) -> Vec<(&'static str, f64)> {
    let tuned = [("tuned_steps", program.tuned_steps()), ("untried_steps", program.untried_steps())];
    let tuned = tuned.into_iter().filter(|(_, steps)| *steps > 0);
    std::iter::once((super::DISPATCHES, program.dispatches()))
        .chain(tuned)
        .map(|(name, n)| (name, n as f64))
        .collect()
}

/// Why a graph is not run at all: its work, at the device's peak, takes longer than anybody waits. This is what holds at the first size,
/// from which no growth is known.
fn too_long(backend: &dyn Backend, graph: &Graph, options: Options) -> Result<Option<String>> {
    let Some(peak) = options.flop_per_second else { return Ok(None) };
    let lowering = backend.device_caps().map_or(Lowering::Reference, Lowering::Device);
    let schedule = graph.schedule(lowering)?;
    // What the device itself finds to do, possibly nothing, is not counted.
    let certain = schedule.steps.iter().filter(|s| s.group_counts().next().is_none());
    let costs = certain.map(|s| (s.kernel.cost)(&s.dims, &s.params));
    let least = costs.map(|c| c.flop + 8.0 * c.exp).sum::<f64>() / peak;
    Ok((least > LONGEST_RUN).then(|| {
        format!("a run takes {} at this device's peak, and may take {}", seconds(least), seconds(LONGEST_RUN))
    }))
}

/// What to know of a time: where it comes from, whether it could be seen, whether a dispatch took too long, and whether the search for
/// variants came to its end.
pub(super) fn flags(
    backend: &dyn Backend,
    program: &dyn Program,
    (source, seen, exceeded): (TimingSource, bool, bool),
) -> Vec<String> {
    let kind = backend.info().kind;
    let all = [
        (kind == DeviceKind::Software, Flag::Software),
        (kind != DeviceKind::Reference && source == TimingSource::Wall, Flag::NoTimestamps),
        (!seen, Flag::BelowResolution),
        (exceeded, Flag::LongDispatch),
        (program.untried_steps() > 0, Flag::HalfTuned),
    ];
    all.into_iter().filter(|(of, _)| *of).map(|(_, flag)| flag.to_string()).collect()
}

/// What a submission of nothing takes, which is not the work of a step that was submitted by itself.
#[derive(Clone, Copy, Debug)]
pub(super) struct Empty {
    wall: f64,
    cpu: f64,
}

impl Empty {
    /// The middle of several that were measured.
    pub(super) fn middle(bursts: &[Burst]) -> Self {
        let middle = |of: fn(&Burst) -> f64| {
            Summary::of(&bursts.iter().map(of).collect::<Vec<_>>()).map_or(0.0, |s| s.median)
        };
        Self { wall: middle(|b| b.wall_seconds), cpu: middle(|b| b.cpu_seconds) }
    }

    /// What the submissions in the seconds, and in the processor seconds, of some steps took.
    pub(super) fn within(self, steps: &[StepTime]) -> (f64, f64) {
        let count = |of: fn(&&StepTime) -> bool| steps.iter().filter(of).count() as f64;
        (count(|s| s.by_host) * self.wall, count(|s| s.cpu_seconds.is_some()) * self.cpu)
    }
}

/// Seconds and processor seconds of some steps.
pub(super) fn sum<'a>(steps: impl Iterator<Item = &'a StepTime>) -> (f64, f64) {
    steps.fold((0.0, 0.0), |sum, s| (sum.0 + s.seconds, sum.1 + s.cpu_seconds.unwrap_or(0.0)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backend::cpu::CpuBackend;

    #[test]
    fn steps_are_told_without_the_submissions_that_they_were_timed_with() {
        let step = |seconds, cpu_seconds, by_host| StepTime {
            kernel: "matmul",
            variant: "plain",
            seconds,
            cpu_seconds,
            by_host,
            by_token: true,
        };
        let steps = [step(1.0, Some(2.0), false), step(3.0, Some(4.0), true)];
        let empty = Empty { wall: 0.5, cpu: 0.25 };
        // Timestamps of the device hold no submission, processor time always does.
        assert_eq!((sum(steps.iter()), empty.within(&steps)), ((4.0, 6.0), (0.5, 0.5)));
        let unknown = [step(1.0, None, false)];
        assert_eq!((sum(unknown.iter()), empty.within(&unknown)), ((1.0, 0.0), (0.0, 0.0)));
    }

    #[test]
    fn work_that_takes_minutes_at_the_peak_is_not_begun() {
        let data = Data::new(64).expect("a grid");
        let (mut graph, qkv) = data.graph("q k");
        let (q, k) = (qkv[0], qkv[1]);
        let params = crate::kernels::linalg::matmul::Params { transpose_w: 1, ..Default::default() };
        let inputs = crate::kernels::linalg::matmul::Inputs::new(q, k);
        let out = crate::kernels::linalg::matmul::record(&mut graph, "q k", inputs, params).expect("fits");
        graph.output(out).expect("of the graph");
        let flop = 2.0 * f64::from(HEADS * 64 * 64 * HEAD_DIM);
        let at = |peak| Options { flop_per_second: peak, ..Options::default() };
        let why = too_long(&CpuBackend, &graph, at(Some(flop / 100.0))).expect("it schedules");
        assert!(why.as_ref().is_some_and(|w| w.contains("100 s at this device's peak")), "{why:?}");
        for peak in [Some(flop), None] {
            assert_eq!(too_long(&CpuBackend, &graph, at(peak)).expect("it schedules"), None);
        }
    }

    #[test]
    fn grids_are_as_near_to_squares_as_there_are() {
        assert_eq!(sides(256).expect("a grid"), [16, 16]);
        assert_eq!(sides(512).expect("a grid"), [16, 32]);
        assert_eq!(sides(7 * 11).expect("a grid"), [7, 11]);
        for tokens in [0, 1, 13, 36, 257] {
            let error = sides(tokens).expect_err("no grid").to_string();
            assert!(error.contains("power of two") && error.contains(&tokens.to_string()), "{error}");
        }
    }
}
