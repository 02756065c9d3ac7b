//! Attention over tokens: exact, and all ways of linear cost that the library has, of the same queries, keys and values of 8 heads of 32
//! numbers. Each is recorded as users record it, feature maps and landmarks included.

use super::attention::{Data, HEAD_DIM, HEADS, bytes, time};
use super::rows::{Weights, check};
use super::{Kind, Way};
use crate::attention::{
    Attention, ExactAttention, FeatureMap, LinearAttention, Mask, MaskedAttention, Masks, Qkv, Role,
};
use crate::backend::Backend;
use crate::backend::cpu::CpuBackend;
use crate::bench::expected::{Check, Expected, wrong};
use crate::bench::measure::Options;
use crate::bench::published::Point;
use crate::error::Result;
use crate::graph::Graph;
use crate::kernel::case::Concrete;
use crate::kernel::{KernelParams as _, Tolerance};
use crate::kernels::attention::exact_attention;
use crate::kernels::laplacian::nystrom_attention;
use crate::kernels::linear::linear_attention;
use crate::kernels::mask::masked_attention;
use crate::kernels::mask::path::Path;
use crate::mask::network::Diffusion;
use crate::mask::operator::attend;
use crate::mask::{Distance, Profile, RelativeTable};
use crate::tensor::{DType, Dims, HostTensor, Shape, Tensor};
use crate::topology::Laplacian;
use crate::topology::build::{Reach, grid};

pub(super) static KIND: Kind = Kind {
    name: "crossover",
    title: "Attention over tokens (8 heads, d = 32, 49 landmarks)",
    x: "tokens",
    sizes: &[256, 512, 1024, 2048, 4096, 8192, 16_384, 32_768, 65_536, 131_072, 262_144, 524_288, 1_048_576],
    quick: &[256, 512, 1024],
    ways: &[
        Way { series: &["exact attention"], of_quick: true, bytes, measure: exact },
        Way { series: &["Nyström–Laplacian"], of_quick: true, bytes, measure: nystrom },
        // Their transforms take some drivers seconds to compile, their terms others to run.
        Way { series: &["linear, Toeplitz mask"], of_quick: false, bytes, measure: toeplitz },
        Way { series: &["linear (elu + 1)"], of_quick: true, bytes, measure: linear },
        Way { series: &["linear, diffusion mask"], of_quick: false, bytes, measure: diffusion },
    ],
};

/// Bandwidth of the Laplacian kernel: a third of the mean distance of such queries and keys.
const LAMBDA: f32 = 8.0;
/// Size of the mask by position, in tokens.
const MASK_SIZE: f64 = 8.0;
/// Time of the diffusion, and how exact its series is.
const DIFFUSION: (f64, f64) = (2.0, 1e-6);
/// By what the truncated series may spoil a row, in terms of its tolerance: both sums of a quotient have it, and the mean of all keys may be
/// several times a row's own.
const OF_SERIES: f64 = 10.0;
/// Bytes of lifted keys and values at a time.
const LIFTED: u32 = 256 << 20;
/// Fewest features at a time: with the column of ones their channels are whole vectors of four, which have the faster kernels.
const LEAST_SLICE: u32 = 4;
/// How many times the work that a check should cost the reference of a single head may cost.
const MOST_OVER: f64 = 4.0;

fn exact(backend: &dyn Backend, tokens: u32, options: Options) -> Result<Vec<Point>> {
    let data = Data::new(tokens)?;
    let (mut graph, [q, k, v]) = data.graph("exact attention");
    let out = ExactAttention::softmax(HEAD_DIM).record(&mut graph, (q, k, v), None, Masks::default())?.out;
    graph.output(out)?;
    let of = (exact_attention::SPEC.name, exact_attention::SPEC.tolerance, 0.0);
    let point = time(backend, tokens, &graph, &data.inputs([q, k, v]), options, |program| {
        let (error, rows) = check(program, out, &data, Weights::Softmax, of, options.check_work)?;
        Ok((Some(error), rows))
    })?;
    Ok(vec![point])
}

/// Queries and keys through the feature map elu + 1.
fn mapped(graph: &mut Graph, [q, k, v]: [Tensor; 3]) -> Result<(Tensor, Tensor, Tensor)> {
    let map = FeatureMap::Elu1;
    let q = map.record(graph, q, Role::Query, None, None)?;
    let k = map.record(graph, k, Role::Key, None, None)?;
    Ok((q, k, v))
}

fn linear(backend: &dyn Backend, tokens: u32, options: Options) -> Result<Vec<Point>> {
    let record =
        |graph: &mut Graph, qkv| Ok(LinearAttention::default().record(graph, qkv, Masks::default())?.out);
    let of = (linear_attention::SPEC.name, linear_attention::SPEC.tolerance, 0.0);
    mapped_attention(backend, &Data::new(tokens)?, options, &record, Weights::Elu, of)
}

fn toeplitz(backend: &dyn Backend, tokens: u32, options: Options) -> Result<Vec<Point>> {
    let data = Data::new(tokens)?;
    let table = RelativeTable::profile(&data.sides, Distance::L2, Profile::Gaussian, MASK_SIZE)?;
    let row = |i: u32| Ok((0..tokens).map(|j| f64::from(table.weight(0, i, j))).collect());
    // By transforms also where pairs would be cheaper: it is their curve.
    let attention =
        MaskedAttention { path: Path::Fourier, ..MaskedAttention::of(Mask::table(table.clone())) };
    let record = |graph: &mut Graph, qkv| Ok(attention.record(graph, qkv, Masks::default())?.out);
    let of = (masked_attention::SPEC.name, masked_attention::SPEC.tolerance, 0.0);
    mapped_attention(backend, &data, options, &record, Weights::MaskedElu(&row), of)
}

fn diffusion(backend: &dyn Backend, tokens: u32, options: Options) -> Result<Vec<Point>> {
    let data = Data::new(tokens)?;
    let ([rows, cols], (t, rtol)) = (data.sides, DIFFUSION);
    let network = grid(&[rows as usize, cols as usize], Reach::Sides)?;
    let mask =
        Diffusion::heat(network, Laplacian::Combinatorial, t, rtol)?.on_grid(rows, cols, Reach::Sides)?;
    let row = |i: u32| mask.row(i);
    // As many features at a time as fit, by powers of two.
    let most = LIFTED / (4 * HEADS * (HEAD_DIM + 1)) / tokens;
    let slice = (1 << most.max(1).ilog2()).clamp(LEAST_SLICE, HEAD_DIM);
    let record = |graph: &mut Graph, qkv| attend(graph, &mask, qkv, Masks::default(), slice);
    let of = ("attention under a diffusion", Tolerance::SUMS, OF_SERIES * rtol);
    let mut points = mapped_attention(backend, &data, options, &record, Weights::MaskedElu(&row), of)?;
    if let Some(point) = points.pop() {
        points.push(point.with(&[("terms_of_the_series", mask.degree() as f64)]));
    }
    Ok(points)
}

/// Records what comes after the feature map.
type Record<'a> = &'a dyn Fn(&mut Graph, (Tensor, Tensor, Tensor)) -> Result<Tensor>;

fn mapped_attention(
    backend: &dyn Backend,
    data: &Data,
    options: Options,
    record: Record<'_>,
    weights: Weights<'_>,
    of: (&str, Tolerance, f64),
) -> Result<Vec<Point>> {
    let (mut graph, inputs) = data.graph(of.0);
    let qkv = mapped(&mut graph, inputs)?;
    let out = record(&mut graph, qkv)?;
    graph.output(out)?;
    let point = time(backend, data.tokens, &graph, &data.inputs(inputs), options, |program| {
        let (error, rows) = check(program, out, data, weights, of, options.check_work)?;
        Ok((Some(error), rows))
    })?;
    Ok(vec![point])
}

/// The library's Laplacian attention through 49 landmarks, the landmarks included.
pub(super) struct Landmarked {
    data: Data,
    lambda: HostTensor,
    pub(super) graph: Graph,
    inputs: [Tensor; 4],
    out: Tensor,
}

impl Landmarked {
    pub(super) fn new(tokens: u32) -> Result<Self> {
        let data = Data::new(tokens)?;
        let (mut graph, [q, k, v]) = data.graph("Laplacian attention");
        let lambda = graph.input("lambda", [HEADS], DType::F32);
        let qkv = Qkv { q, k, v, lambda, grid: data.sides.into() };
        let out = Attention::default().record(&mut graph, qkv, Masks::default())?.out;
        graph.output(out)?;
        let numbers = HostTensor::f32([HEADS], vec![LAMBDA; HEADS as usize])?;
        Ok(Self { data, lambda: numbers, graph, inputs: [q, k, v, lambda], out })
    }

    pub(super) fn inputs(&self) -> Vec<(Tensor, &HostTensor)> {
        let [q, k, v, lambda] = self.inputs;
        let mut inputs = self.data.inputs([q, k, v]);
        inputs.push((lambda, &self.lambda));
        inputs
    }

    /// The first head as the kernel alone has it, landmarks given.
    fn first_head(&self) -> Result<Concrete> {
        let (n, settings) = (self.data.tokens, Attention::default());
        let shape = Shape::new(&[1, 1, n, HEAD_DIM])?;
        let Data { q, k, v, .. } = &self.data;
        let (q, k, v) = (q.beginning(shape)?, k.beginning(shape)?, v.beginning(shape)?);
        // Landmarks are tokens or means of a few: the reference has them at once.
        let mut graph = Graph::new("landmarks");
        let keys = graph.input("k", shape, DType::F32);
        let (landmarks, _) =
            settings.landmarks.record(&mut graph, keys, None, self.data.sides.into(), None)?;
        graph.output(landmarks)?;
        let mut program = CpuBackend.compile(&graph)?;
        program.write(keys, &k)?;
        program.run()?;
        let landmarks = program.read(landmarks)?;
        let m = landmarks.shape().dims()[2];
        let landmarks = HostTensor::f32(landmarks.shape(), landmarks.to_f32())?;
        let lambda = HostTensor::f32([1], vec![LAMBDA])?;
        let spec = &nystrom_attention::SPEC;
        let given = [("q", q), ("k", k), ("v", v), ("landmarks", landmarks), ("lambda", lambda)];
        let input = |name: &str| given.iter().find(|(n, _)| *n == name).map(|(_, t)| t.clone());
        let inputs: Vec<Option<HostTensor>> = spec.ports.iter().map(|p| input(p.name)).collect();
        let shapes = spec.ports.iter().zip(&inputs).map(|(port, input)| match port.name {
            "out" => Some(shape),
            "status" => Some(Shape::from([1, 1, 4])),
            _ => input.as_ref().map(HostTensor::shape),
        });
        let sizes = [("b", 1), ("h", 1), ("n", n), ("t", n), ("m", m), ("d", HEAD_DIM), ("e", HEAD_DIM)];
        let (shapes, dims) = (shapes.collect(), Dims::of(&sizes));
        Ok(Concrete { spec, params: settings.params().to_bytes(), dims, shapes, inputs })
    }

    /// The largest error of the first head, and how much was compared; no error where its reference would take too long.
    ///
    /// Errors: a result that is not what the kernel promises.
    pub(super) fn check(
        &self,
        program: &mut dyn crate::backend::Program,
        work: f64,
    ) -> Result<(Option<f64>, String)> {
        let head = self.first_head()?;
        let cost = (head.spec.cost)(&head.dims, &head.params);
        let whole = cost.flop + 8.0 * cost.exp;
        if whole > MOST_OVER * work {
            return Ok((None, "nothing, its reference would take too long".into()));
        }
        let expected = Expected::of(&head, Check::Work(whole))?;
        let tensors: Vec<Option<Tensor>> =
            head.spec.ports.iter().map(|p| (p.name == "out").then_some(self.out)).collect();
        match expected.compare(head.spec, program, &tensors)? {
            Some(found) if !found.stands(program) => Err(wrong(head.spec.name, found)),
            found => Ok((found.map(|f| f.error), "first head".into())),
        }
    }
}

fn nystrom(backend: &dyn Backend, tokens: u32, options: Options) -> Result<Vec<Point>> {
    let all = Landmarked::new(tokens)?;
    let check = |program: &mut dyn crate::backend::Program| all.check(program, options.check_work);
    Ok(vec![time(backend, tokens, &all.graph, &all.inputs(), options, check)?])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_way_is_right_on_the_reference() {
        let options = Options { seconds: 0.0, runs: 1, check_work: 1e8, ..Options::default() };
        for way in KIND.ways {
            let points = (way.measure)(&CpuBackend, 64, options).expect("64 tokens");
            let [point] = &points[..] else { panic!("{points:?}") };
            let error = point.max_error.expect("it is compared");
            // The reference computes in f64 what the definition says; the series of the diffusion is cut off.
            assert!(error < OF_SERIES * DIFFUSION.1, "{}: {error}", way.series[0]);
            assert!(point.y.is_some() && point.checked.is_some() && point.samples >= Some(1.0), "{point:?}");
        }
    }
}
