//! Graph-kernel attention: stored layers on every device, and the six mistakes of published code, each of which a test here would catch.
//!
//! `data/masking/gkat.npz` holds inputs in f32 and results that two f64 computations agree on.

use std::collections::BTreeMap;
use std::sync::Arc;
use wgattn::arrays::{self, Array, ArrayData};
use wgattn::attention::FeatureMap;
use wgattn::attention::gkat::{BatchMask, Gkat, GraphMask, Layer, Pairs, Readout, Scores, standardised};
use wgattn::backend::Backend;
use wgattn::graph::Graph;
use wgattn::mask::operator::Dense;
use wgattn::random::{gaussian, philox};
use wgattn::tensor::{HostTensor, Shape, Tensor};
use wgattn::topology::kernel::{Normalisation, walk_features};
use wgattn::topology::{Network, build};

mod support;

use support::devices;

/// Standard normal numbers.
fn normal(stream: u32, count: usize) -> Vec<f32> {
    let four = |block: u32| philox([block, 0, 0, stream], 7).map(gaussian);
    (0..count as u32).flat_map(four).take(count).collect()
}

/// What a graph gives on a device, in f64.
fn results(backend: &dyn Backend, graph: &mut Graph, tensors: &[Tensor]) -> Vec<Vec<f64>> {
    tensors.iter().for_each(|t| graph.output(*t).expect("an output"));
    let mut program = backend.compile(graph).expect("compiles");
    program.run().expect("runs");
    tensors.iter().map(|t| program.read(*t).expect("reads").to_f64()).collect()
}

fn distance(got: &[f64], expected: &[f64]) -> f64 {
    assert_eq!(got.len(), expected.len());
    let scale = expected.iter().fold(1e-30_f64, |m, x| m.max(x.abs()));
    let worst = got.iter().zip(expected).map(|(a, b)| if a == b { 0.0 } else { (a - b).abs() });
    worst.fold(0.0_f64, |m, x| if x.is_nan() { f64::INFINITY } else { m.max(x) }) / scale
}

fn close(what: &str, got: &[f64], expected: &[f64], tolerance: f64) {
    let error = distance(got, expected);
    assert!(error <= tolerance, "{what}: error {error:.2e} > {tolerance:.0e}");
}

/// One layer with random weights over random features, and everything of it in f64.
struct Case {
    nodes: usize,
    inputs: usize,
    heads: usize,
    width: usize,
    x: Vec<f32>,
    weights: [Vec<f32>; 3],
}

impl Case {
    fn new(nodes: usize, scale: f32) -> Self {
        let (inputs, heads, width) = (5, 2, 9);
        let matrix = |stream| normal(stream, heads * inputs * width).iter().map(|x| scale * x).collect();
        let weights = [matrix(1), matrix(2), normal(3, heads * inputs * width)];
        Self { nodes, inputs, heads, width, x: normal(4, nodes * inputs), weights }
    }

    fn layer(&self, graph: &mut Graph) -> (Tensor, Layer) {
        let [n, d, h, w] = [self.nodes, self.inputs, self.heads, self.width].map(|x| x as u32);
        let x = graph.constant("x", HostTensor::f32([1, 1, n, d], self.x.clone()).expect("features"));
        let [query, key, value] = [0, 1, 2].map(|at| {
            graph.constant("w", HostTensor::f32([1, h, d, w], self.weights[at].clone()).expect("a matrix"))
        });
        (x, Layer { scores: Scores::Products { query, key }, value })
    }

    fn on(&self, backend: &dyn Backend, mask: &BatchMask) -> Vec<f64> {
        let mut graph = Graph::new("a layer");
        let (x, layer) = self.layer(&mut graph);
        let pairs = Pairs::Exact(mask.record(&mut graph).expect("a sound mask"));
        let out = layer.record(&mut graph, x, &pairs).expect("records");
        results(backend, &mut graph, &[out]).remove(0)
    }

    /// The rows of nodes `from` on.
    fn of_nodes(&self, nodes: std::ops::Range<usize>) -> Self {
        let x = self.x[nodes.start * self.inputs..nodes.end * self.inputs].to_vec();
        Self { nodes: nodes.len(), x, weights: self.weights.clone(), ..*self }
    }

    /// Scores of a head divided by the root of the width, and its values.
    fn head(&self, head: usize) -> (Vec<f64>, Vec<f64>) {
        let (n, d, w) = (self.nodes, self.inputs, self.width);
        let project = |matrix: &[f32]| -> Vec<f64> {
            (0..n * w)
                .map(|at| {
                    let column = |c: usize| f64::from(matrix[(head * d + c) * w + at % w]);
                    (0..d).map(|c| f64::from(self.x[at / w * d + c]) * column(c)).sum()
                })
                .collect()
        };
        let [q, k, v] = [0, 1, 2].map(|at| project(&self.weights[at]));
        let score =
            |i: usize, j: usize| (0..w).map(|c| q[i * w + c] * k[j * w + c]).sum::<f64>() / (w as f64).sqrt();
        ((0..n * n).map(|at| score(at / n, at % n)).collect(), v)
    }

    /// The layer from whatever weights `rows` makes of a head's scores: `[n, n]` rows that are divided by their sums.
    fn by(&self, rows: impl Fn(&[f64]) -> Vec<f64>, normalised: impl Fn(&[f64], usize) -> f64) -> Vec<f64> {
        let (n, w) = (self.nodes, self.width);
        let mut out = vec![0.0; n * self.heads * w];
        for head in 0..self.heads {
            let (scores, v) = self.head(head);
            let weights = rows(&scores);
            for i in 0..n {
                let total = normalised(&weights, i);
                for c in 0..w {
                    let sum: f64 = (0..n).map(|j| weights[i * n + j] * v[j * w + c]).sum();
                    let y = if total == 0.0 { 0.0 } else { sum / total };
                    out[i * self.heads * w + head * w + c] = if y < 0.0 { y.exp_m1() } else { y };
                }
            }
        }
        out
    }

    /// The layer as the method defines it, for the mask of one graph.
    fn defined(&self, mask: &[f64]) -> Vec<f64> {
        let n = self.nodes;
        let weights = |scores: &[f64]| {
            (0..n * n)
                .map(|at| {
                    let row = at / n * n..at / n * n + n;
                    let seen = row.filter(|e| mask[*e] != 0.0);
                    let top = seen.map(|e| scores[e]).fold(f64::NEG_INFINITY, f64::max);
                    if mask[at] == 0.0 { 0.0 } else { mask[at] * (scores[at] - top).exp() }
                })
                .collect()
        };
        self.by(weights, |w, i| w[i * n..(i + 1) * n].iter().sum())
    }
}

fn wide(x: &[f32]) -> Vec<f64> {
    x.iter().map(|x| f64::from(*x)).collect()
}

struct File(BTreeMap<String, Array>);

impl File {
    fn open() -> Self {
        let path = format!("{}/tests/data/masking/gkat.npz", env!("CARGO_MANIFEST_DIR"));
        Self(arrays::read(path).expect("the file reads"))
    }

    fn numbers(&self, name: &str) -> Vec<f64> {
        match &self.0[name].data {
            ArrayData::F32(v) => v.iter().map(|&x| f64::from(x)).collect(),
            ArrayData::F64(v) => v.clone(),
            ArrayData::I32(v) => v.iter().map(|&x| f64::from(x)).collect(),
            other => panic!("{name} holds {}", other.dtype()),
        }
    }

    fn tensor(&self, graph: &mut Graph, name: &str, shape: impl Into<Shape>) -> Tensor {
        let numbers = self.numbers(name).into_iter().map(|x| x as f32).collect();
        graph.constant(name, HostTensor::f32(shape, numbers).expect("the file's shape"))
    }

    fn batch(&self) -> Network {
        let offsets: Vec<u32> = self.numbers("offsets").iter().map(|x| *x as u32).collect();
        let edges: Vec<(u32, u32)> =
            self.numbers("edges").chunks(2).map(|e| (e[0] as u32, e[1] as u32)).collect();
        let part = |range: &[u32]| {
            let own = edges.iter().filter(|e| (range[0]..range[1]).contains(&e.0));
            let list: Vec<_> = own.map(|e| (e.0 - range[0], e.1 - range[0])).collect();
            Network::undirected((range[1] - range[0]) as usize, &list).expect("sound")
        };
        Network::batch(&offsets.windows(2).map(part).collect::<Vec<_>>()).expect("sound")
    }
}

#[test]
fn stored_layers_come_out_on_every_device() {
    let file = File::open();
    let batch = file.batch();
    let mask = GraphMask::default().of(&batch).expect("a mask");
    for g in 0..4 {
        let (matrix, _) = mask.of_graph(g).expect("four graphs");
        close("mask", &wide(matrix), &file.numbers(&format!("mask_g{g}")), 1e-7);
    }
    assert!(mask.of_graph(4).is_none());
    for (name, device) in devices() {
        let mut graph = Graph::new("gkat");
        let x = file.tensor(&mut graph, "X", [1, 1, 31, 5]);
        let mut layer = |at: u32, inputs: u32, width: u32| {
            let [query, key, value] =
                ["q", "k", "v"].map(|w| file.tensor(&mut graph, &format!("W{w}{at}"), [1, 2, inputs, width]));
            Layer { scores: Scores::Products { query, key }, value }
        };
        let layers = vec![layer(0, 5, 9), layer(1, 18, 4)];
        let readout = Readout {
            weights: file.tensor(&mut graph, "W_out", [1, 1, 8, 2]),
            bias: file.tensor(&mut graph, "b_out", [1, 1, 2]),
        };
        let model = Gkat { layers, readout: Some(readout) };
        let pairs = Pairs::Exact(mask.record(&mut graph).expect("sound"));
        let outputs = model.record(&mut graph, x, &pairs).expect("records");
        let tensors = [outputs.layers[0], outputs.layers[1], outputs.logits.expect("a readout")];
        let got = results(device.as_ref(), &mut graph, &tensors);
        for (got, stored) in got.iter().zip(["layer0", "layer1", "logits"]) {
            close(&format!("{stored} on {name}"), got, &file.numbers(stored), 2e-6);
        }
    }
}

/// (a) A released refactoring multiplies exp(S) with the mask as matrices.
#[test]
fn the_mask_multiplies_weights_entry_by_entry() {
    let network = build::erdos_renyi(40, 0.1, 3).expect("a network");
    let mask = GraphMask::default().of(&network).expect("a mask");
    let case = Case::new(40, 0.3);
    let m = wide(&mask.weights);
    let right = case.defined(&m);
    let wrong = case.by(
        |scores| {
            let e = |i: usize, j: usize| scores[i * 40 + j].exp();
            (0..1600).map(|at| (0..40).map(|l| e(at / 40, l) * m[l * 40 + at % 40]).sum()).collect()
        },
        |w, i| w[i * 40..(i + 1) * 40].iter().sum(),
    );
    assert!(
        distance(&wrong, &right) > 0.05,
        "the matrix product is another model: {:.2e}",
        distance(&wrong, &right)
    );
    for (name, device) in devices() {
        close(name, &case.on(device.as_ref(), &mask), &right, 2e-6);
    }
}

/// (b) Released code leaves the mask of every batch's last graph empty, and a denominator of 1e-9 hides it as zeros.
#[test]
fn the_last_graph_of_a_batch_has_its_mask() {
    let graphs = [build::ring(9), build::star(1), Network::isolated(0), build::star(70), build::path(6)];
    let graphs = graphs.map(|g| g.expect("made"));
    let batch = Network::batch(&graphs).expect("a batch");
    let mask = GraphMask::default().of(&batch).expect("a mask");
    let (last, size) = mask.of_graph(4).expect("five graphs");
    assert!(size == 6 && last.iter().filter(|x| **x > 0.0).count() > 6, "{last:?}");
    let case = Case::new(86, 0.3);
    for (name, device) in devices() {
        let all = case.on(device.as_ref(), &mask);
        assert!(all[80 * 18..].iter().any(|x| x.abs() > 0.1), "{name}: the last graph gives zeros");
        for (g, network) in graphs.iter().enumerate() {
            let range = batch.offsets()[g] as usize..batch.offsets()[g + 1] as usize;
            if range.is_empty() {
                continue;
            }
            let alone = case.of_nodes(range.clone());
            let own = GraphMask::default().of(network).expect("a mask");
            let what = format!("{name}, graph {g}");
            let single = alone.on(device.as_ref(), &own);
            close(&what, &all[range.start * 18..range.end * 18], &single, 1e-6);
            close(&what, &single, &alone.defined(&wide(&own.weights)), 2e-6);
        }
    }
}

/// (c) A released notebook overwrites the walk kernel by the adjacency and so runs GAT under the other's name.
#[test]
fn a_mask_is_the_one_that_its_name_says() {
    let network = build::small_world(30, 4, 0.2, 5).expect("a network");
    let adjacency = GraphMask::Adjacency.of(&network).expect("a mask");
    let edges: Vec<f64> = (0..900)
        .map(|at| f64::from(u8::from(at / 30 == at % 30 || network.between(at / 30, at % 30) > 0.0)))
        .collect();
    assert_eq!(wide(&adjacency.weights), edges);
    let case = Case::new(30, 0.3);
    let gat = case.defined(&edges);
    for (name, normalisation) in Normalisation::ALL {
        let parsed: GraphMask = format!("{name}:nodes=4").parse().expect("a name");
        let mask = parsed.of(&network).expect("a mask");
        let features = walk_features(&network, 4, 1.0).expect("features");
        close(name, &wide(&mask.weights), &normalisation.mask(&features, 30), 1e-7);
        let expected = case.defined(&wide(&mask.weights));
        assert!(distance(&gat, &expected) > 0.02, "{name} is GAT");
        for (device, backend) in devices() {
            close(&format!("{name} on {device}"), &case.on(backend.as_ref(), &mask), &expected, 2e-6);
        }
        assert_eq!(parsed.to_string().parse::<GraphMask>().expect("its own text"), parsed);
    }
}

/// (d) A port of linear attention sums masked keys over positions, which gives every query the same normaliser.
#[test]
fn every_row_has_a_normaliser_of_its_own() {
    let network = build::star(33).expect("a network");
    let mask = GraphMask::default().of(&network).expect("a mask");
    let mut case = Case::new(33, 0.5);
    // Values that are 1 for every node: features 0 is 1, and so is its row of the matrix.
    case.x.chunks_mut(5).for_each(|x| x[0] = 1.0);
    case.weights[2].iter_mut().enumerate().for_each(|(at, w)| *w = f32::from(at / 9 % 5 == 0));
    let m = wide(&mask.weights);
    let shared = case.by(
        |scores| scores.iter().zip(&m).map(|(s, m)| m * s.exp()).collect(),
        |w, _| w.iter().sum::<f64>() / 33.0,
    );
    assert!(shared.iter().any(|y| (y - 1.0).abs() > 0.1), "one normaliser for all would not be seen here");
    for (name, device) in devices() {
        let got = case.on(device.as_ref(), &mask);
        assert!(got.iter().all(|y| (y - 1.0).abs() < 1e-6), "{name}: a row's weights do not sum to 1");
    }
}

/// (e) Degrees are the same everywhere on a regular graph: (x − mean) / deviation is 0 / 0.
#[test]
fn features_of_regular_graphs_are_standardised_to_zeros() {
    let network = build::torus(&[6, 7], build::Reach::Sides).expect("a network");
    // 0.1 is no sum of powers of two, so that the mean of equal numbers may be off them by a rounding.
    let degree = |i: usize| [network.degrees()[i] as f32, i as f32, 0.1];
    let features: Vec<f32> = (0..42).flat_map(degree).collect();
    let x = standardised(&features, 3).expect("features");
    assert!(x.chunks(3).all(|row| row[0] == 0.0 && row[2] == 0.0), "{x:?}");
    let column: Vec<f64> = x.chunks(3).map(|row| f64::from(row[1])).collect();
    let square: f64 = column.iter().map(|x| x * x).sum::<f64>() / 42.0;
    assert!((square - 1.0).abs() < 1e-6 && column.iter().sum::<f64>().abs() < 1e-5, "{column:?}");
    assert!(standardised(&[], 3).expect("no node").is_empty());
    let said = standardised(&[1.0, f32::NAN], 1).expect_err("not a number").to_string();
    assert!(said.contains("node 1"), "{said}");
    standardised(&[1.0; 5], 2).expect_err("half a row");
}

/// (f) Released code takes a row's largest score over all nodes, those that the mask leaves out among them: the others' exponentials vanish.
#[test]
fn the_largest_score_is_that_of_a_seen_pair() {
    let network = build::ring(12).expect("a network");
    let mask = GraphMask::Adjacency.of(&network).expect("a mask");
    // Scores of thousands, so that those of unseen pairs exceed a row's own by hundreds.
    let case = Case::new(12, 12.0);
    let m = wide(&mask.weights);
    let lost = |scores: &[f64]| {
        let top = |i: usize| scores[i * 12..][..12].iter().copied().fold(f64::NEG_INFINITY, f64::max) as f32;
        let entry = |at: usize| f64::from((scores[at] as f32 - top(at / 12)).exp()) * m[at];
        (0..144).map(entry).collect::<Vec<f64>>()
    };
    let empty = |w: &[f64]| (0..12).filter(|i| w[i * 12..][..12].iter().all(|x| *x == 0.0)).count();
    assert!(empty(&lost(&case.head(0).0)) > 2, "no row would be lost here");
    let expected = case.defined(&m);
    for (name, device) in devices() {
        // Scores of thousands carry an error of 1e-4 in f32, and so do their exponentials.
        close(name, &case.on(device.as_ref(), &mask), &expected, 5e-3);
    }
}

#[test]
fn additive_scores_are_those_of_graph_attention_networks() {
    let network = build::small_world(70, 4, 0.2, 5).expect("a network");
    let mask = GraphMask::Adjacency.of(&network).expect("a mask");
    let case = Case::new(70, 0.5);
    let (left, right) = (normal(8, 18), normal(9, 18));
    let m = wide(&mask.weights);
    let mut expected = vec![0.0; 70 * 18];
    for head in 0..2 {
        let (_, v) = case.head(head);
        let dot =
            |a: &[f32], i: usize| (0..9).map(|c| f64::from(a[head * 9 + c]) * v[i * 9 + c]).sum::<f64>();
        for i in 0..70 {
            let score = |j: usize| {
                let sum = dot(&left, i) + dot(&right, j);
                if sum > 0.0 { sum } else { 0.2 * sum }
            };
            let weights: Vec<f64> = (0..70).map(|j| m[i * 70 + j] * score(j).exp()).collect();
            for c in 0..9 {
                let y = (0..70).map(|j| weights[j] * v[j * 9 + c]).sum::<f64>() / weights.iter().sum::<f64>();
                expected[i * 18 + head * 9 + c] = if y < 0.0 { y.exp_m1() } else { y };
            }
        }
    }
    for (name, device) in devices() {
        let mut graph = Graph::new("gat");
        let (x, layer) = case.layer(&mut graph);
        let [left, right] = [&left, &right]
            .map(|a| graph.constant("a", HostTensor::f32([1, 2, 9, 1], a.clone()).expect("a vector")));
        let layer = Layer { scores: Scores::Additive { left, right }, ..layer };
        let pairs = Pairs::Exact(mask.record(&mut graph).expect("sound"));
        let out = layer.record(&mut graph, x, &pairs).expect("records");
        close(name, &results(device.as_ref(), &mut graph, &[out])[0], &expected, 2e-6);
    }
}

#[test]
fn low_rank_weights_go_through_any_mask_operator() {
    let graphs = [build::ring(20), build::star(15)].map(|g| g.expect("made"));
    let batch = Network::batch(&graphs).expect("a batch");
    let mask = GraphMask::default().of(&batch).expect("a mask");
    let mut dense = vec![0.0_f32; 35 * 35];
    for (g, first) in [(0, 0), (1, 20)] {
        let (matrix, n) = mask.of_graph(g).expect("two graphs");
        (0..n * n).for_each(|at| dense[(first + at / n) * 35 + first + at % n] = matrix[at]);
    }
    let case = Case::new(35, 0.3);
    let elu1 = |x: f64| if x > 0.0 { x + 1.0 } else { x.exp() };
    // ELU + 1 of queries and keys in place of the exponential of their product.
    let mut expected = vec![0.0; 35 * 18];
    for head in 0..2 {
        let (_, v) = case.head(head);
        let project = |at: usize, i: usize, c: usize| {
            let w = |d: usize| f64::from(case.weights[at][(head * 5 + d) * 9 + c]);
            (0..5).map(|d| f64::from(case.x[i * 5 + d]) * w(d)).sum::<f64>()
        };
        for i in 0..35 {
            let weight = |j: usize| {
                f64::from(dense[i * 35 + j])
                    * (0..9).map(|c| elu1(project(0, i, c)) * elu1(project(1, j, c))).sum::<f64>()
            };
            let total: f64 = (0..35).map(weight).sum();
            for c in 0..9 {
                let y = (0..35).map(|j| weight(j) * v[j * 9 + c]).sum::<f64>() / total;
                expected[i * 18 + head * 9 + c] = if y < 0.0 { y.exp_m1() } else { y };
            }
        }
    }
    for (name, device) in devices() {
        let mut graph = Graph::new("low rank");
        let (x, layer) = case.layer(&mut graph);
        let operator = Dense::new(1, 35, dense.clone()).expect("a mask");
        let offsets = mask.record(&mut graph).expect("sound").offsets;
        let pairs = Pairs::LowRank { map: FeatureMap::Elu1, mask: Arc::new(operator), slice: 4, offsets };
        let out = layer.record(&mut graph, x, &pairs).expect("records");
        close(name, &results(device.as_ref(), &mut graph, &[out])[0], &expected, 3e-6);
    }
}

#[test]
fn sampled_kernels_repeat_and_do_not_depend_on_the_batch() {
    let graphs = [build::ring(12), build::erdos_renyi(40, 0.1, 4)].map(|g| g.expect("made"));
    let batch = Network::batch(&graphs).expect("a batch");
    let sampled: GraphMask = "cosine:nodes=4,walks=50,seed=3".parse().expect("a mask");
    let all = sampled.of(&batch).expect("a mask");
    assert_eq!(all, sampled.of(&batch).expect("a mask"));
    for (g, network) in graphs.iter().enumerate() {
        let alone = sampled.of(network).expect("a mask");
        assert_eq!(all.of_graph(g).expect("a graph").0, alone.weights, "graph {g}");
        let exact = GraphMask::default().of(network).expect("a mask");
        let square =
            |a: &[f32], b: &[f32]| a.iter().zip(b).map(|(a, b)| f64::from(a - b).powi(2)).sum::<f64>();
        let error = (square(&alone.weights, &exact.weights)
            / square(&exact.weights, &vec![0.0; exact.weights.len()]))
        .sqrt();
        assert!(error > 0.01 && error < 0.3, "graph {g}: relative error {error:.3} of 50 walks");
    }
}

#[test]
fn what_does_not_fit_is_refused_by_name() {
    let network = build::ring(9).expect("a network");
    let mask = GraphMask::default().of(&network).expect("a mask");
    let case = Case::new(8, 0.3);
    let mut graph = Graph::new("refused");
    let (x, layer) = case.layer(&mut graph);
    let tensors = mask.record(&mut graph).expect("sound");
    let said = layer.record(&mut graph, x, &Pairs::Exact(tensors)).expect_err("8 of 9 nodes").to_string();
    assert!(said.contains("[batch, 1, 9, inputs]") && said.contains("[1, 1, 8, 5]"), "{said}");
    let short = BatchMask { weights: vec![1.0; 80], ..mask.clone() };
    let said = short.record(&mut graph).expect_err("80 of 81").to_string();
    assert!(said.contains("81 weights") && said.contains("80 weights"), "{said}");
    let said = BatchMask::of_matrices(&[vec![1.0; 4], vec![1.0; 5]]).expect_err("no square").to_string();
    assert!(said.contains("graph 1") && said.contains("5 weights"), "{said}");
    let said = BatchMask::of_matrices(&[vec![1.0, -2.0, 0.0, 1.0]]).expect_err("negative").to_string();
    assert!(said.contains("-2 at 0, 1"), "{said}");
    for (text, wanted) in [
        ("cosin", "adjacency"),
        ("cosine:nodes", "nodes="),
        ("cosine:steps=3", "steps=3"),
        ("cosine:seed=3", "walks="),
        ("adjacency:nodes=3", "adjacency"),
    ] {
        let said = text.parse::<GraphMask>().expect_err(text).to_string();
        assert!(said.contains(wanted), "{text}: {said}");
    }
    let none = Gkat::default();
    none.record(&mut graph, x, &Pairs::Exact(tensors)).expect_err("no layer");
    "cosine:nodes=0".parse::<GraphMask>().expect("parses").of(&network).expect_err("no node");
    "cosine:lambda=1.5".parse::<GraphMask>().expect("parses").of(&network).expect_err("grows");
}
