//! The dispatcher: schedules as text, mistakes in recordings, shared memory, and parameters that change.

use proptest::prelude::*;
use wgattn::attention::{Attention, Landmarks, Masks, Normalisation, Qkv};
use wgattn::backend::{Backend, cpu::CpuBackend};
use wgattn::error::Error;
use wgattn::graph::{Graph, Kind, Lowering, PassId, Schedule};
use wgattn::kernel::{Caps, Driver, NoParams};
use wgattn::kernels::elementwise::exp_scale;
use wgattn::kernels::laplacian::kernel_matrix;
use wgattn::kernels::linalg::{gram, matmul, row_affine, transpose};
use wgattn::tensor::{DType, HostTensor, Tensor};

#[cfg(feature = "wgpu")]
mod support;

/// What WebGPU promises everywhere.
fn caps(driver: Driver) -> Caps {
    Caps {
        driver,
        workgroup_bytes: 16 << 10,
        invocations: 256,
        storage_binding: 128 << 20,
        buffer: 256 << 20,
        storage_buffers: 8,
        texture_rows: 8192,
        storage_alignment: 256,
        groups: 65_535,
        loop_rounds: if driver == Driver::Llvmpipe { 65_535 } else { u64::MAX },
        subgroup_lanes: 0,
        memory_budget: 256 << 20,
    }
}

/// Whitened attention of three heads, with masked keys, on a 6 × 8 grid.
fn attention() -> Graph {
    let mut graph = Graph::new("attention");
    let [q, k, v] = ["q", "k", "v"].map(|name| graph.input(name, [1, 3, 48, 16], DType::F32));
    let lambda = graph.input("lambda", [3], DType::F32);
    let mask = graph.input("key mask", [1, 1, 48], DType::U8);
    let attention = Attention {
        landmarks: Landmarks::Adaptive { side: 3 },
        normalisation: Normalisation::Col,
        ..Attention::default()
    };
    let masks = Masks { keys: Some(mask), queries: None };
    let attended = attention.record(&mut graph, Qkv { q, k, v, lambda, grid: (6, 8) }, masks);
    graph.output(attended.expect("attention is recorded").out).expect("a transient");
    graph
}

fn lowered(lowering: Lowering<'_>) -> String {
    let schedule = attention().schedule(lowering).expect("the graph schedules");
    let again = attention().schedule(lowering).expect("the graph schedules");
    assert_eq!(schedule.to_string(), again.to_string(), "two recordings of one graph print the same");
    format!("{schedule}\n{}", schedule.to_dot())
}

#[test]
fn attention_on_the_cpu_is_two_references() {
    insta::assert_snapshot!(lowered(Lowering::Reference));
}

#[test]
fn attention_on_a_gpu_inverts_in_one_workgroup() {
    insta::assert_snapshot!(lowered(Lowering::Device(&caps(Driver::Gpu))));
}

#[test]
fn attention_on_llvmpipe_inverts_by_products() {
    insta::assert_snapshot!(lowered(Lowering::Device(&caps(Driver::Llvmpipe))));
}

/// Tensors for mistakes: an input, a constant, and two transients of `[1, 2, 3, 4]` and its transpose.
fn tensors(graph: &mut Graph) -> [Tensor; 4] {
    let constant = HostTensor::f32([1, 2, 4, 3], vec![0.5; 24]).expect("24 numbers");
    [
        graph.input("x", [1, 2, 3, 4], DType::F32),
        graph.constant("c", constant),
        graph.transient("t", [1, 2, 3, 4], DType::F32),
        graph.transient("u", [1, 2, 4, 3], DType::F32),
    ]
}

#[test]
fn a_wrong_shape_names_kernel_port_sizes_and_place() {
    let mut graph = Graph::new("mistake");
    let [x, _, t, _] = tensors(&mut graph);
    let line = line!() + 1;
    let error = graph.pass(&transpose::SPEC, &NoParams {}, &[Some(x), Some(t)]).expect_err("not transposed");
    let (place, text) = (format!("tests/graph.rs:{line}"), error.to_string());
    assert!(matches!(error, Error::Shape { .. }), "{text}");
    for part in ["transpose", "`out`", "[b=1, h=2, m=4, n=3]", "[1, 2, 3, 4]", &place] {
        assert!(text.contains(part), "{text} lacks {part}");
    }
    let rank = graph.input("flat", [24], DType::F32);
    let text = graph.pass(&transpose::SPEC, &NoParams {}, &[Some(rank), Some(t)]).expect_err("no matrix");
    assert!(text.to_string().contains("`x` wants [b, h, n, m], got [24]"), "{text}");
    assert!(graph.passes().is_empty(), "what was refused is not recorded");
}

#[test]
fn mistakes_in_arguments_are_named() {
    let mut graph = Graph::new("mistakes");
    let [x, c, t, u] = tensors(&mut graph);
    let words = graph.input("words", [1, 2, 3, 4], DType::U32);
    let mut other = Graph::new("other");
    let foreign = other.input("y", [1, 2, 3, 4], DType::F32);
    let mut refused = |args: &[Option<Tensor>]| {
        let error = graph.pass(&transpose::SPEC, &NoParams {}, args).expect_err("a mistake");
        error.to_string()
    };
    let cases = [
        (refused(&[Some(words), Some(u)]), "port `x` wants f32 elements, got u32"),
        (refused(&[None, Some(u)]), "needs port `x`"),
        (refused(&[Some(x)]), "has 2 ports, got 1 tensor"),
        (refused(&[Some(x), Some(u), Some(t)]), "has 2 ports, got 3 tensors"),
        (refused(&[Some(foreign), Some(u)]), "not of the graph \"mistakes\""),
        (refused(&[Some(t), Some(c)]), "writes port `out` to `c`, which is an input or a constant"),
    ];
    for (text, expected) in cases {
        assert!(text.contains(expected), "{text} lacks {expected}");
    }
    let square = graph.transient("square", [1, 1, 3, 3], DType::F32);
    let text = graph
        .pass(&transpose::SPEC, &NoParams {}, &[Some(square), Some(square)])
        .expect_err("read and written")
        .to_string();
    assert!(text.contains("`square`") && text.contains("either read or written"), "{text}");
    let text = graph
        .pass(&transpose::SPEC, &matmul::Params::default(), &[Some(x), Some(u)])
        .expect_err("parameters of matmul")
        .to_string();
    assert!(text.contains("has 0 parameter bytes, got 20: the struct of another kernel?"), "{text}");
    let text = graph.output(x).expect_err("an input is no output").to_string();
    assert!(text.contains("`x`") && text.contains("cannot be an output"), "{text}");
    assert!(graph.output(foreign).is_err());
}

#[test]
fn mistakes_in_views_are_named() {
    let mut graph = Graph::new("views");
    let [x, ..] = tensors(&mut graph);
    let text = graph.slice(x, 1, 1..3).expect_err("two heads").to_string();
    assert!(text.contains("1..3") && text.contains("`x`") && text.contains("[1, 2, 3, 4]"), "{text}");
    assert!(graph.slice(x, 4, 0..1).is_err(), "no dimension 4");
    assert!(graph.slice(x, 2, 0..1).is_err(), "rows of two heads are not contiguous");
    let text = graph.reshape(x, [1, 2, 3, 5]).expect_err("30 elements").to_string();
    assert!(text.contains("24 elements") && text.contains("[1, 2, 3, 5]"), "{text}");
    let head = graph.slice(x, 1, 1..2).expect("one head");
    let part = graph.slice(head, 2, 1..3).expect("two rows of it");
    assert_eq!(part.shape().dims(), [1, 1, 2, 4]);
    let reversed = std::ops::Range { start: 2, end: 1 };
    assert!(graph.slice(x, 1, reversed).is_err());
}

#[test]
fn reading_what_nothing_wrote_is_an_error() {
    let mut graph = Graph::new("unwritten");
    let [_, _, t, u] = tensors(&mut graph);
    graph.pass(&transpose::SPEC, &NoParams {}, &[Some(t), Some(u)]).expect("shapes fit");
    graph.output(u).expect("a transient");
    let text = graph.schedule(Lowering::Reference).expect_err("t is not written").to_string();
    assert!(text.contains("`t`") && text.contains("transpose"), "{text}");
    let mut graph = Graph::new("unwritten output");
    let [_, _, t, _] = tensors(&mut graph);
    graph.output(t).expect("a transient");
    let text = graph.schedule(Lowering::Reference).expect_err("t is not written").to_string();
    assert!(text.contains("`t`") && text.contains("the caller (output)"), "{text}");
}

#[test]
fn programs_refuse_what_is_no_input_and_no_output() {
    let mut graph = Graph::new("program");
    let [x, _, t, u] = tensors(&mut graph);
    graph.pass(&transpose::SPEC, &NoParams {}, &[Some(x), Some(u)]).expect("shapes fit");
    graph.pass(&transpose::SPEC, &NoParams {}, &[Some(u), Some(t)]).expect("shapes fit");
    graph.output(t).expect("a transient");
    let mut program = CpuBackend.compile(&graph).expect("the graph compiles");
    let numbers = HostTensor::f32([1, 2, 3, 4], vec![1.0; 24]).expect("24 numbers");
    let text = program.run().expect_err("x was never given").to_string();
    assert!(text.contains("`x`") && text.contains("write"), "{text}");
    assert!(program.write(t, &numbers).expect_err("an output").to_string().contains("not an input"));
    let fewer = HostTensor::f32([1, 2, 3, 3], vec![1.0; 18]).expect("18 numbers");
    let text = program.write(x, &fewer).expect_err("too few").to_string();
    assert!(text.contains("[1, 2, 3, 4]") && text.contains("[1, 2, 3, 3]"), "{text}");
    program.write(x, &numbers).expect("x is an input");
    program.run().expect("the graph runs");
    assert_eq!(
        program.read(t).expect("an output"),
        HostTensor::new([1, 2, 3, 4], wgattn::tensor::HostData::F64(vec![1.0; 24])).expect("24 numbers")
    );
    assert!(program.read(u).expect_err("a transient").to_string().contains("transient"));
    let foreign = Graph::new("other").input("y", [1, 2, 3, 4], DType::F32);
    assert!(program.read(foreign).is_err() && program.write(foreign, &numbers).is_err());
}

#[test]
fn passes_that_nobody_reads_are_dropped() {
    let mut graph = Graph::new("pruned");
    let [x, _, t, u] = tensors(&mut graph);
    let used = graph.pass(&transpose::SPEC, &NoParams {}, &[Some(x), Some(u)]).expect("shapes fit");
    let unused = graph.pass(&transpose::SPEC, &NoParams {}, &[Some(u), Some(t)]).expect("shapes fit");
    graph.output(u).expect("a transient");
    let schedule = graph.schedule(Lowering::Reference).expect("the graph schedules");
    assert_eq!(schedule.dropped, [unused]);
    assert!(schedule.steps.iter().all(|s| s.pass == used));
}

/// Products with a live factor: a small graph whose result is 2 alpha alpha.
fn doubling() -> (Graph, Tensor, Tensor, [PassId; 2]) {
    let mut graph = Graph::new("parameters");
    let x = graph.input("x", [1, 1, 1, 2], DType::F32);
    let w = graph.constant("w", HostTensor::f32([1, 1, 2, 2], vec![1.0; 4]).expect("four ones"));
    let [t, out] = ["t", "out"].map(|name| graph.transient(name, [1, 1, 1, 2], DType::F32));
    let params = matmul::Params::default();
    let first = matmul::record_into(&mut graph, matmul::Inputs::new(x, w), params, t).expect("shapes fit");
    let second = matmul::record_into(&mut graph, matmul::Inputs::new(t, w), params, out).expect("shapes fit");
    graph.output(out).expect("a transient");
    (graph, x, out, [first, second])
}

#[test]
fn parameters_change_results_without_another_schedule() {
    let mut backends: Vec<(String, Box<dyn Backend>)> = vec![("cpu".into(), Box::new(CpuBackend))];
    #[cfg(feature = "wgpu")]
    backends.extend(support::backends().into_iter().map(|(name, b)| (name, Box::new(b) as Box<dyn Backend>)));
    for (device, backend) in backends {
        let (graph, x, out, [first, second]) = doubling();
        let mut program = backend.compile(&graph).expect("the graph compiles");
        program.write(x, &HostTensor::f32([1, 1, 1, 2], vec![1.0, 2.0]).expect("two")).expect("x fits");
        let steps = program.schedule().to_string();
        for (alpha, beta, expected) in [(1.0, 1.0, 6.0), (3.0, 1.0, 18.0), (3.0, -0.5, -9.0), (0.0, 1.0, 0.0)]
        {
            let set = |alpha| matmul::Params { alpha, ..Default::default() };
            program.set_params(first, &set(alpha)).expect("alpha is live");
            program.set_params(second, &set(beta)).expect("alpha is live");
            program.run().expect("the graph runs");
            assert_eq!(program.read(out).expect("an output").to_f32(), [expected; 2], "{device}");
        }
        assert_eq!(program.schedule().to_string(), steps, "{device}");
        let turned = matmul::Params { transpose_w: 1, ..Default::default() };
        let error = program.set_params(first, &turned).expect_err("a fixed parameter");
        assert!(matches!(error, Error::Recompile { .. }), "{device}: {error}");
        let error = program.set_params(first, &NoParams {}).expect_err("another kernel's");
        assert!(matches!(error, Error::Recompile { .. }), "{device}: {error}");
        program.set_params(first, &matmul::Params::default()).expect("a refusal changes nothing");
        program.run().expect("the graph runs");
        assert_eq!(program.read(out).expect("an output").to_f32(), [6.0; 2], "{device}");
    }
}

/// One operation of a random chain; numbers choose among what exists.
#[derive(Clone, Debug)]
enum Op {
    Product { a: usize, w: usize, turned: bool },
    Turn { x: usize },
    Decay { x: usize },
    Shift { x: usize, by: usize },
    Gram { a: usize, w: usize },
    Halves { x: usize, y: usize },
}

fn op() -> impl Strategy<Value = Op> {
    let any = || 0..64_usize;
    prop_oneof![
        (any(), any(), prop::bool::ANY).prop_map(|(a, w, turned)| Op::Product { a, w, turned }),
        any().prop_map(|x| Op::Turn { x }),
        any().prop_map(|x| Op::Decay { x }),
        (any(), any()).prop_map(|(x, by)| Op::Shift { x, by }),
        (any(), any()).prop_map(|(a, w)| Op::Gram { a, w }),
        (any(), any()).prop_map(|(x, y)| Op::Halves { x, y }),
    ]
}

/// Heads and sides, for slots of different sizes.
const HEADS: u32 = 2;
const SIDE: u32 = 5;

/// A recorded chain: square matrices of two heads, each made of earlier ones.
struct Chain {
    graph: Graph,
    inputs: Vec<Tensor>,
    matrices: Vec<Tensor>,
}

fn record(ops: &[Op]) -> Chain {
    let mut graph = Graph::new("chain");
    let shape = [1, HEADS, SIDE, SIDE];
    let x = graph.input("x", shape, DType::F32);
    let lambda = graph.input("lambda", [HEADS], DType::F32);
    let mut matrices = vec![x];
    for (number, op) in ops.iter().enumerate() {
        let pick = |at: usize| matrices[at % matrices.len()];
        let out = graph.transient(&format!("m{number}"), shape, DType::F32);
        let alpha = 0.25;
        let recorded = match *op {
            Op::Product { a, w, turned } => {
                let params = matmul::Params { alpha, transpose_w: u32::from(turned), ..Default::default() };
                matmul::record_into(&mut graph, matmul::Inputs::new(pick(a), pick(w)), params, out)
            }
            Op::Turn { x } => graph.pass(&transpose::SPEC, &NoParams {}, &[Some(pick(x)), Some(out)]),
            Op::Decay { x } => {
                graph.pass(&exp_scale::SPEC, &NoParams {}, &[Some(pick(x)), Some(lambda), Some(out)])
            }
            Op::Shift { x, by } => {
                // The first row of each head of another matrix, by way of a view and a smaller transient.
                let (x, by) = (pick(x), pick(by));
                let row = graph.transient(&format!("row{number}"), [1, HEADS, SIDE], DType::F32);
                for head in 0..HEADS {
                    let from = graph.slice(by, 1, head..head + 1).and_then(|m| graph.slice(m, 2, 0..1));
                    let from = from.expect("the first row");
                    let to = graph.slice(row, 1, head..head + 1).expect("one head");
                    let to = graph.reshape(to, [1, 1, SIDE, 1]).expect("a column");
                    graph.pass(&transpose::SPEC, &NoParams {}, &[Some(from), Some(to)]).expect("shapes fit");
                }
                graph.pass(&row_affine::SPEC, &NoParams {}, &[Some(x), Some(row), None, None, Some(out)])
            }
            Op::Gram { a, w } => {
                let sum = gram::record(&mut graph, &format!("gram{number}"), pick(a), pick(w), None, 0.1);
                let sum = sum.expect("shapes fit");
                graph.pass(&transpose::SPEC, &NoParams {}, &[Some(sum), Some(out)])
            }
            Op::Halves { x, y } => {
                // Each head from another matrix, written through views of one tensor.
                let mut last = None;
                for (head, source) in (0..HEADS).zip([pick(x), pick(y)]) {
                    let from = graph.slice(source, 1, head..head + 1).expect("one head");
                    let to = graph.slice(out, 1, head..head + 1).expect("one head");
                    last = Some(graph.pass(&transpose::SPEC, &NoParams {}, &[Some(from), Some(to)]));
                }
                last.expect("two heads")
            }
        };
        recorded.expect("shapes fit");
        matrices.push(out);
    }
    Chain { graph, inputs: vec![x, lambda], matrices }
}

fn numbers(len: u32, from: f32) -> Vec<f32> {
    (0..len).map(|i| from + (i.wrapping_mul(2_654_435_761) >> 20) as f32 / 4096.0).collect()
}

/// Bits of the chain's results at some places: a long chain may well overflow.
fn results(backend: &dyn Backend, chain: &Chain, read: &[usize]) -> Vec<Vec<u64>> {
    let mut program = backend.compile(&chain.graph).expect("the graph compiles");
    let x = HostTensor::f32([1, HEADS, SIDE, SIDE], numbers(HEADS * SIDE * SIDE, -0.5)).expect("matrices");
    let lambda = HostTensor::f32([HEADS], numbers(HEADS, 0.5)).expect("bandwidths");
    program.write(chain.inputs[0], &x).expect("x fits");
    program.write(chain.inputs[1], &lambda).expect("lambda fits");
    program.run().expect("the graph runs");
    let bits = |t: HostTensor| t.to_f64().iter().map(|x| x.to_bits()).collect();
    read.iter().map(|&i| bits(program.read(chain.matrices[i]).expect("an output"))).collect()
}

/// What must hold of every schedule's memory.
fn check_slots(schedule: &Schedule) -> Result<(), TestCaseError> {
    let placed: Vec<(usize, usize, (usize, usize))> = (0..schedule.tensors.len())
        .filter_map(|id| Some((id, schedule.slot_of[id]?, schedule.spans[id]?)))
        .collect();
    for (at, (a, slot_a, (first_a, last_a))) in placed.iter().enumerate() {
        for (b, slot_b, (first_b, last_b)) in &placed[at + 1..] {
            let together = first_a <= last_b && first_b <= last_a;
            prop_assert!(
                !together || slot_a != slot_b,
                "{a} and {b} live together in slot {slot_a}\n{schedule}"
            );
        }
        let info = &schedule.tensors[*a];
        prop_assert!(info.kind == Kind::Transient && info.base.is_none());
        prop_assert!(schedule.slots[*slot_a].bytes >= info.shape.len() * info.dtype.bytes());
        prop_assert!(schedule.slots[*slot_a].tensors.contains(&(*a as u32)));
    }
    let slot = |tensor: Tensor| schedule.slot_of[schedule.base(tensor).0 as usize];
    for step in &schedule.steps {
        for written in step.writes() {
            let shared = step.reads().any(|read| slot(read).is_some() && slot(read) == slot(written));
            prop_assert!(!shared, "{} reads and writes one slot\n{schedule}", step.kernel.name);
            let twice = step.writes().filter(|w| slot(*w).is_some() && slot(*w) == slot(written)).count();
            prop_assert!(twice <= 1, "{} writes one slot twice\n{schedule}", step.kernel.name);
        }
    }
    prop_assert!(schedule.transient_bytes() <= schedule.transient_bytes_unshared());
    Ok(())
}

/// Marks outputs: those wanted, the last matrix at least.
fn choose(chain: &mut Chain, wanted: &[bool]) -> Vec<usize> {
    let last = chain.matrices.len() - 1;
    let chosen: Vec<usize> =
        (1..=last).filter(|&i| i == last || wanted.get(i).copied().unwrap_or(false)).collect();
    chosen.iter().for_each(|&i| chain.graph.output(chain.matrices[i]).expect("a transient"));
    chosen
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn living_transients_never_share_memory(
        ops in prop::collection::vec(op(), 1..24),
        wanted in prop::collection::vec(prop::bool::weighted(0.1), 25),
    ) {
        let mut chain = record(&ops);
        choose(&mut chain, &wanted);
        let gpu = caps(Driver::Gpu);
        let llvmpipe = caps(Driver::Llvmpipe);
        for lowering in [Lowering::Reference, Lowering::Device(&gpu), Lowering::Device(&llvmpipe)] {
            let schedule = chain.graph.schedule(lowering).expect("the graph schedules");
            check_slots(&schedule)?;
            for pass in &schedule.dropped {
                prop_assert!(schedule.steps.iter().all(|s| s.pass != *pass));
            }
        }
    }

    /// A graph in which every matrix is an output shares nothing and drops nothing.
    #[test]
    fn sharing_and_dropping_change_no_result(
        ops in prop::collection::vec(op(), 1..24),
        wanted in prop::collection::vec(prop::bool::weighted(0.1), 25),
    ) {
        let mut chain = record(&ops);
        let chosen = choose(&mut chain, &wanted);
        let mut everything = record(&ops);
        choose(&mut everything, &[true; 32]);
        prop_assert_eq!(results(&CpuBackend, &chain, &chosen), results(&CpuBackend, &everything, &chosen));
    }
}

/// The same where memory is really shared. Bits must agree: the kernels are the same.
#[cfg(feature = "wgpu")]
#[test]
fn sharing_and_dropping_change_no_bit_on_adapters() {
    use proptest::test_runner::{Config, TestRunner};
    for (device, backend) in support::backends() {
        let config = Config { cases: 12, failure_persistence: None, ..Config::default() };
        let chains =
            (prop::collection::vec(op(), 4..24), prop::collection::vec(prop::bool::weighted(0.1), 25));
        let outcome = TestRunner::new(config).run(&chains, |(ops, wanted)| {
            let mut chain = record(&ops);
            let chosen = choose(&mut chain, &wanted);
            let mut everything = record(&ops);
            choose(&mut everything, &[true; 32]);
            prop_assert_eq!(results(&backend, &chain, &chosen), results(&backend, &everything, &chosen));
            Ok(())
        });
        outcome.unwrap_or_else(|e| panic!("{device}: {e}"));
    }
}

#[test]
fn attention_schedules_share_memory_too() {
    for driver in [Driver::Gpu, Driver::Llvmpipe, Driver::SwiftShader] {
        let schedule = attention().schedule(Lowering::Device(&caps(driver))).expect("the graph schedules");
        check_slots(&schedule).unwrap_or_else(|e| panic!("{driver:?}: {e}"));
        assert!(schedule.transient_bytes() < schedule.transient_bytes_unshared(), "{driver:?}");
    }
    // Slices of heads share what one slice leaves.
    let small = Caps { memory_budget: 1 << 14, ..caps(Driver::Gpu) };
    let schedule = attention().schedule(Lowering::Device(&small)).expect("the graph schedules");
    check_slots(&schedule).unwrap_or_else(|e| panic!("{e}"));
    let whole = attention().schedule(Lowering::Device(&caps(Driver::Gpu))).expect("the graph schedules");
    assert!(schedule.transient_bytes() < whole.transient_bytes(), "slices save nothing");
}

#[test]
fn kept_distances_serve_every_bandwidth() {
    let mut graph = Graph::new("distances");
    let x = graph.input("x", [1, 1, 3, 2], DType::F32);
    let lambda = graph.input("lambda", [1], DType::F32);
    let params = kernel_matrix::Params { output: 1, ..Default::default() };
    let inputs = kernel_matrix::Inputs { x, y: x, lambda, x_keep: None, y_keep: None };
    let distances = kernel_matrix::record(&mut graph, "distances", inputs, params).expect("shapes fit");
    let values = graph.transient("values", distances.shape(), DType::F32);
    graph
        .pass(&exp_scale::SPEC, &NoParams {}, &[Some(distances), Some(lambda), Some(values)])
        .expect("shapes fit");
    graph.output(values).expect("a transient");
    let mut program = CpuBackend.compile(&graph).expect("the graph compiles");
    let points = HostTensor::f32([1, 1, 3, 2], vec![0.0, 0.0, 1.0, 0.0, 1.0, 2.0]).expect("three points");
    program.write(x, &points).expect("x fits");
    for bandwidth in [0.5_f32, 4.0] {
        program.write(lambda, &HostTensor::f32([1], vec![bandwidth]).expect("one")).expect("lambda fits");
        program.run().expect("the graph runs");
        let value = |d: f64| (-d / f64::from(bandwidth)).exp();
        let expected = [0.0, 1.0, 3.0, 1.0, 0.0, 2.0, 3.0, 2.0, 0.0].map(value);
        assert_eq!(program.read(values).expect("an output").to_f64(), expected);
    }
}
