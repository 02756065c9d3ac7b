//! Masks on networks against stored arrays, dense f64 oracles and their own laws, on every device: diffusion, growth, walk kernels,
//! PageRank, steps, sampled walks.
//!
//! Tolerances: Chebyshev series have absolute errors of a few units of the greatest entry of what they multiply (method: addendum 3), so
//! they are held to that, at twice what the method measured for f32; sums of positive terms are held to 2e-6 of the greatest entry.

use std::collections::BTreeMap;
use std::path::Path;
use wgattn::arrays::{Array, ArrayData, read};
use wgattn::attention::Masks;
use wgattn::backend::Backend;
use wgattn::graph::Graph;
use wgattn::mask::MaskOperator;
use wgattn::mask::network::{Diffusion, NetworkMaskSpec, SampledWalks, Steps, WalkKernel};
use wgattn::mask::operator::attend;
use wgattn::tensor::{DType, HostTensor};
use wgattn::topology::build::{
    Picture, Reach, caterpillar, complete, erdos_renyi, grid, path, preferential, star,
};
use wgattn::topology::kernel::Normalisation;
use wgattn::topology::walk::modulation;
use wgattn::topology::{Laplacian, Network};

mod support;

use support::devices;

const KINDS: [(&str, Laplacian); 3] =
    [("comb", Laplacian::Combinatorial), ("norm", Laplacian::Symmetric), ("rw", Laplacian::RandomWalk)];

struct Stored(BTreeMap<String, Array>);

impl Stored {
    fn read(name: &str) -> Self {
        let file = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/data/masking/{name}.npz"));
        Self(read(file).expect("the stored arrays are there"))
    }

    fn numbers(&self, name: &str) -> Vec<f64> {
        match &self.0.get(name).unwrap_or_else(|| panic!("no array {name}")).data {
            ArrayData::F32(v) => v.iter().map(|&x| f64::from(x)).collect(),
            ArrayData::F64(v) => v.clone(),
            ArrayData::I32(v) => v.iter().map(|&x| f64::from(x)).collect(),
            other => panic!("{name} is {}", other.dtype()),
        }
    }

    fn number(&self, name: &str) -> f64 {
        self.numbers(name)[0]
    }

    fn network(&self, prefix: &str) -> Network {
        let weights = self.0.contains_key(&format!("{prefix}weights"));
        let weights = weights.then(|| self.numbers(&format!("{prefix}weights")));
        let edges = self.numbers(&format!("{prefix}edges"));
        let edge = |(e, ij): (usize, &[f64])| {
            (ij[0] as u32, ij[1] as u32, weights.as_ref().map_or(1.0, |w| w[e] as f32))
        };
        let edges: Vec<_> = edges.chunks(2).enumerate().map(edge).collect();
        Network::undirected_weighted(self.number(&format!("{prefix}n")) as usize, &edges).expect("sound")
    }
}

/// Numbers in [0, 1) that differ from index to index.
fn units(count: usize, seed: u32) -> Vec<f64> {
    let mix = |i: u32| {
        let x = (i ^ seed.wrapping_mul(0x1234_5671)).wrapping_mul(0x9e37_79b9);
        let x = (x ^ (x >> 15)).wrapping_mul(0x85eb_ca6b);
        f64::from((x ^ (x >> 13)) >> 8) / f64::from(1 << 24)
    };
    (0..count as u32).map(mix).collect()
}

fn tensor(shape: [u32; 4], numbers: &[f64]) -> HostTensor {
    HostTensor::f32(shape, numbers.iter().map(|x| *x as f32).collect()).expect("the shape fits")
}

/// M x or Mᵀ x for `x` `[n, channels]`.
fn applied(backend: &dyn Backend, mask: &dyn MaskOperator, x: &[f64], transposed: bool) -> Vec<f64> {
    let n = mask.tokens();
    let c = (x.len() as u32).checked_div(n).unwrap_or(1);
    let mut graph = Graph::new("mask");
    let input = graph.input("x", [1, 1, n, c], DType::F32);
    let copy = graph.transient("y", [1, 1, n, c], DType::F32);
    let out =
        if transposed { mask.apply_transposed(&mut graph, input) } else { mask.apply(&mut graph, input) };
    // The identity gives its input back, which is no output.
    let none = wgattn::kernels::elementwise::weighted_sum::Params { alpha: 1.0, beta: 0.0 };
    let args = [Some(out.expect("it records")), Some(input), Some(copy)];
    graph.pass(&wgattn::kernels::elementwise::weighted_sum::SPEC, &none, &args).expect("fits");
    graph.output(copy).expect("a transient");
    let mut program = backend.compile(&graph).expect("it compiles");
    program.write(input, &tensor([1, 1, n, c], x)).expect("the input fits");
    program.run().expect("it runs");
    program.read(copy).expect("an output").to_f64()
}

/// Attention under a mask; q, k `[n, r]`, v `[n, e]`.
fn attended(backend: &dyn Backend, mask: &dyn MaskOperator, [q, k, v]: [&[f64]; 3]) -> Vec<f64> {
    let n = mask.tokens();
    let columns = |x: &[f64]| x.len() as u32 / n;
    let mut graph = Graph::new("attention");
    let inputs =
        [("q", q), ("k", k), ("v", v)].map(|(name, x)| graph.input(name, [1, 1, n, columns(x)], DType::F32));
    let out =
        attend(&mut graph, mask, (inputs[0], inputs[1], inputs[2]), Masks::default(), 8).expect("records");
    graph.output(out).expect("a transient");
    let mut program = backend.compile(&graph).expect("it compiles");
    for (input, x) in inputs.iter().zip([q, k, v]) {
        program.write(*input, &tensor([1, 1, n, columns(x)], x)).expect("fits");
    }
    program.run().expect("it runs");
    program.read(out).expect("an output").to_f64()
}

/// Fails where two lists differ by more than `allowed`.
fn within(what: &str, got: &[f64], expected: &[f64], allowed: f64) {
    assert_eq!(got.len(), expected.len(), "{what}: length");
    for (i, (a, b)) in got.iter().zip(expected).enumerate() {
        assert!(
            (a - b).abs() <= allowed,
            "{what}: element {i} is {a:e}, expected {b:e}, allowed {allowed:e}"
        );
    }
}

fn greatest(x: &[f64]) -> f64 {
    x.iter().fold(0.0, |m: f64, x| m.max(x.abs()))
}

fn dense_product(m: &[f64], x: &[f64], n: usize, transposed: bool) -> Vec<f64> {
    let c = x.len() / n.max(1);
    let mut y = vec![0.0; x.len()];
    for i in 0..n {
        for j in 0..n {
            let w = if transposed { m[j * n + i] } else { m[i * n + j] };
            for at in 0..c {
                y[i * c + at] += w * x[j * c + at];
            }
        }
    }
    y
}

/// Small networks of all kinds.
fn networks() -> Vec<(&'static str, Network)> {
    let parts = [complete(6), path(9), Network::isolated(2), star(5)].map(|g| g.expect("made"));
    let weighted = erdos_renyi(30, 0.15, 6).expect("made");
    let weighted = weighted.reweighted(|i, j, _| 0.1 + (i.min(j) * 7 % 5) as f32 + (i.max(j) % 3) as f32);
    let loops = [(0, 0, 2.0), (0, 1, 1.5), (1, 2, 0.5), (4, 4, 1.0), (2, 0, 3.0)];
    vec![
        ("one node", Network::isolated(1).expect("made")),
        ("two nodes", path(2).expect("made")),
        ("no edges", Network::isolated(5).expect("made")),
        ("path", path(37).expect("made")),
        ("star", star(40).expect("made")),
        ("complete", complete(12).expect("made")),
        ("caterpillar", caterpillar(31, 10).and_then(|f| f.network()).expect("made")),
        ("random", erdos_renyi(50, 0.06, 3).expect("made")),
        ("preferential", preferential(60, 2, 5).expect("made")),
        ("components", Network::batch(&parts).expect("made")),
        ("weighted", weighted.expect("made")),
        ("loops", Network::undirected_weighted(6, &loops).expect("made")),
    ]
}

#[test]
fn diffusion_is_the_stored_one() {
    for file in ["er", "grid", "star", "ba", "weighted", "isolated", "two_components"] {
        let stored = Stored::read(&format!("heat_{file}"));
        let network = stored.network("");
        let (times, x) = (stored.numbers("t"), stored.numbers("X"));
        let [q, k, v] = ["Q", "K", "V"].map(|name| stored.numbers(name));
        for (kind, laplacian) in KINDS {
            for (at, t) in times.iter().enumerate() {
                let mask = Diffusion::heat(network.clone(), laplacian, *t, 1e-7).expect("sound");
                assert!(mask.bound() <= 1e-7);
                for (name, backend) in devices() {
                    let what = format!("{file}, {kind}, t = {t}, {name}");
                    let wanted = stored.numbers(&format!("MX_{kind}_t{at}"));
                    // Twice the worst f32 column of the method's table of a Chebyshev series: rounding grows with its length.
                    let allowed = 2.0 * f32_error(mask.degree()) * greatest(&x);
                    within(&what, &applied(backend.as_ref(), &mask, &x, false), &wanted, allowed);
                    let wanted = stored.numbers(&format!("Out_{kind}_t{at}"));
                    let got = attended(backend.as_ref(), &mask, [&q, &k, &v]);
                    within(&format!("{what}, attention"), &got, &wanted, 5e-5 * greatest(&v));
                }
            }
        }
    }
}

/// The f32 columns of method 2.5a: 2e-7 for 9 terms to 1e-5 for 291, 1e-4 for 235 on a star whose bound is far above its spectrum.
fn f32_error(degree: usize) -> f64 {
    (4e-8 * degree as f64).max(4e-7)
}

/// The f32 columns of the method's table 2.5a, n = 400 and 8 channels, at t = 0.5, 5 and 50: twice as much of max|X| is allowed, because
/// the error of a series is one of the numbers it adds up (addendum 3).
#[test]
fn errors_are_those_of_the_methods_table() {
    use Laplacian::{Combinatorial, Symmetric};
    let random = erdos_renyi(400, 0.02, 1).expect("made");
    let grown = preferential(400, 3, 2).expect("made");
    let table: [(&str, Network, Laplacian, &[f64]); 6] = [
        ("random, symmetric", random.clone(), Symmetric, &[4e-7, 1e-6, 1e-6]),
        ("random", random, Combinatorial, &[8e-7, 2e-6, 5e-6]),
        ("grid", grid(&[20, 20], Reach::Sides).expect("made"), Combinatorial, &[2e-7, 8e-7, 3e-6]),
        // At t = 50 the table has no number: more than 400 terms.
        ("star", star(400).expect("made"), Combinatorial, &[3e-6, 1e-4]),
        ("preferential, symmetric", grown.clone(), Symmetric, &[4e-7, 9e-7, 1e-6]),
        ("preferential", grown, Combinatorial, &[9e-7, 6e-6, 1e-5]),
    ];
    let x = units(400 * 8, 77);
    for (graph, network, laplacian, column) in table {
        for (t, allowed) in [0.5, 5.0, 50.0].into_iter().zip(column) {
            let mask = Diffusion::heat(network.clone(), laplacian, t, 1e-7).expect("sound");
            let wanted = dense_product(&mask.dense(0), &x, 400, false);
            for (name, backend) in devices() {
                let what = format!("{graph}, t = {t}, {name}");
                let got = applied(backend.as_ref(), &mask, &x, false);
                within(&what, &got, &wanted, 2.0 * allowed * greatest(&x));
            }
        }
    }
}

#[test]
fn growth_is_the_stored_one_up_to_a_factor_per_component() {
    let stored = Stored::read("exp_adjacency");
    let prefixes: Vec<String> =
        stored.0.keys().filter_map(|k| k.strip_suffix("edges").map(str::to_owned)).collect();
    assert!(!prefixes.is_empty());
    for prefix in prefixes {
        let network = stored.network(&prefix);
        let [q, k, v] = ["Q", "K", "V"].map(|name| stored.numbers(&format!("{prefix}{name}")));
        for (at, t) in stored.numbers(&format!("{prefix}t")).iter().enumerate() {
            let mask = Diffusion::growth(network.clone(), *t, 1e-7).expect("sound");
            for (name, backend) in devices() {
                let got = attended(backend.as_ref(), &mask, [&q, &k, &v]);
                let wanted = stored.numbers(&format!("{prefix}Out_t{at}"));
                within(&format!("{prefix} t = {t}, {name}"), &got, &wanted, 5e-5 * greatest(&v));
            }
        }
    }
}

#[test]
fn pagerank_is_the_stored_one() {
    let stored = Stored::read("pagerank");
    let prefixes: Vec<String> =
        stored.0.keys().filter_map(|k| k.strip_suffix("edges").map(str::to_owned)).collect();
    for prefix in prefixes {
        let network = stored.network(&prefix);
        let [q, k, v] = ["Q", "K", "V"].map(|name| stored.numbers(&format!("{prefix}{name}")));
        let restarts: Vec<f64> = stored
            .0
            .keys()
            .filter(|key| key.starts_with(&prefix) && key.contains("restart"))
            .flat_map(|key| stored.numbers(key))
            .collect();
        assert!(!restarts.is_empty(), "{prefix}: {:?}", stored.0.keys().collect::<Vec<_>>());
        for (at, restart) in restarts.iter().enumerate() {
            let mask = Steps::pagerank(network.clone(), *restart, 1e-8).expect("sound");
            for (name, backend) in devices() {
                let got = attended(backend.as_ref(), &mask, [&q, &k, &v]);
                let wanted = stored.numbers(&format!("{prefix}Out_a{at}"));
                within(&format!("{prefix} restart {restart}, {name}"), &got, &wanted, 5e-6 * greatest(&v));
            }
        }
    }
}

#[test]
fn walk_kernels_are_the_stored_ones() {
    let stored = Stored::read("rwgnk");
    let prefixes: Vec<String> =
        stored.0.keys().filter_map(|k| k.strip_suffix("edges").map(str::to_owned)).collect();
    assert!(prefixes.len() >= 2);
    for prefix in prefixes {
        let network = stored.network(&prefix);
        let [q, k, v] = ["Q", "K", "V"].map(|name| stored.numbers(&format!("{prefix}{name}")));
        for case in (0..).take_while(|c| stored.0.contains_key(&format!("{prefix}c{c}_L"))) {
            let nodes = stored.number(&format!("{prefix}c{case}_L")) as u32;
            let lambda = stored.number(&format!("{prefix}c{case}_lambda"));
            for (kind, normalisation) in Normalisation::ALL {
                let mask = WalkKernel::new(network.clone(), nodes, lambda, normalisation).expect("sound");
                let wanted = stored.numbers(&format!("{prefix}Out_c{case}_{kind}"));
                for (name, backend) in devices() {
                    let got = attended(backend.as_ref(), &mask, [&q, &k, &v]);
                    within(&format!("{prefix}c{case} {kind} {name}"), &got, &wanted, 5e-6 * greatest(&v));
                }
            }
        }
    }
}

/// Every operator that a network has, with what its products may be off by, relative to the greatest entry.
fn operators(network: &Network) -> Vec<(String, Box<dyn MaskOperator>, f64)> {
    let mut list: Vec<(String, Box<dyn MaskOperator>, f64)> = Vec::new();
    for (name, laplacian) in KINDS {
        for t in [0.0, 0.5, 20.0] {
            let mask = Diffusion::heat(network.clone(), laplacian, t, 1e-7).expect("sound");
            let allowed = 2.0 * f32_error(mask.degree());
            list.push((format!("heat {name} t = {t}"), Box::new(mask), allowed));
        }
    }
    let mask = Diffusion::growth(network.clone(), 0.7, 1e-7).expect("sound");
    let allowed = 2.0 * f32_error(mask.degree());
    list.push(("growth".into(), Box::new(mask), allowed));
    for p in [0, 1, 5] {
        let mask = Steps::power(network.clone(), p).expect("sound");
        list.push((format!("{p} steps"), Box::new(mask), 2e-6));
    }
    for restart in [0.15, 1.0] {
        let mask = Steps::pagerank(network.clone(), restart, 1e-7).expect("sound");
        list.push((format!("PageRank {restart}"), Box::new(mask), 2e-6));
    }
    for (name, normalisation) in Normalisation::ALL {
        for (nodes, lambda) in [(1, 1.0), (4, 1.0), (7, 0.6)] {
            let mask = WalkKernel::new(network.clone(), nodes, lambda, normalisation).expect("sound");
            list.push((format!("walks {name} {nodes} {lambda}"), Box::new(mask), 2e-6));
        }
    }
    for (name, normalisation) in &Normalisation::ALL[..3] {
        let mask = SampledWalks::kernel(network, 20, 4, 0.9, *normalisation, 11).expect("sound");
        list.push((format!("sampled {name}"), Box::new(mask), 2e-6));
    }
    let g = modulation(&[1.0, 1.0, 0.5, 1.0 / 6.0]).expect("a series");
    let features = SampledWalks::random_features(network, 10, 0.1, &g, 4).expect("sound");
    list.push(("random features".into(), Box::new(features), 2e-6));
    list
}

#[test]
fn products_are_those_of_the_dense_matrix_both_ways() {
    for (graph, network) in networks() {
        let n = network.nodes();
        // Five channels: no whole vectors. Eight: whole ones.
        for channels in [5, 8] {
            let x = units(n * channels, 3);
            for (mask_name, mask, allowed) in operators(&network) {
                let dense = mask.dense(0);
                assert!(dense.iter().all(|w| w.is_finite()), "{graph}, {mask_name}");
                for transposed in [false, true] {
                    let wanted = dense_product(&dense, &x, n, transposed);
                    let scale = greatest(&x).max(greatest(&wanted));
                    for (name, backend) in devices() {
                        let what = format!("{graph}, {mask_name}, {name}, transposed {transposed}");
                        within(
                            &what,
                            &applied(backend.as_ref(), mask.as_ref(), &x, transposed),
                            &wanted,
                            allowed * scale,
                        );
                    }
                }
            }
        }
    }
}

#[test]
fn rows_are_those_of_the_dense_matrix() {
    for (graph, network) in networks() {
        let n = network.nodes();
        let i = (n / 2) as u32;
        let own = |dense: &[f64]| dense[i as usize * n..][..n].to_vec();
        for (_, laplacian) in KINDS {
            let mask = Diffusion::heat(network.clone(), laplacian, 2.0, 1e-6).expect("sound");
            within(graph, &mask.row(i).expect("there"), &own(&mask.dense(0)), 1e-12);
            // Conservation: what leaves one node arrives in others.
            if laplacian != Laplacian::Symmetric {
                assert!((mask.row(i).expect("there").iter().sum::<f64>() - 1.0).abs() < 1e-12, "{graph}");
            }
        }
        for (_, normalisation) in Normalisation::ALL {
            if normalisation == Normalisation::MinMax && network.parts() > 1 {
                // The least entry is that of the node's own network in a batch.
                continue;
            }
            let mask = WalkKernel::new(network.clone(), 4, 0.8, normalisation).expect("sound");
            let f = wgattn::topology::kernel::walk_features(&network, 4, 0.8).expect("sound");
            within(graph, &mask.dense(0), &normalisation.mask(&f, n), 1e-12);
        }
        let mask = Steps::pagerank(network.clone(), 0.2, 1e-6).expect("sound");
        within(
            graph,
            &mask.dense(0),
            &wgattn::topology::kernel::pagerank(&network, 0.2).expect("sound"),
            1e-12,
        );
    }
}

#[test]
fn a_batch_is_its_networks_one_by_one() {
    let parts =
        [erdos_renyi(17, 0.2, 1), path(2), Network::isolated(1), grid(&[3, 4], Reach::Corners), star(9)];
    let parts = parts.map(|g| g.expect("made"));
    let batch = Network::batch(&parts).expect("sound");
    let x = units(batch.nodes() * 4, 9);
    for (name, backend) in devices() {
        for (index, (mask_name, mask, allowed)) in operators(&batch).into_iter().enumerate() {
            if mask_name.contains("growth") || mask_name.contains("sampled") || mask_name.contains("features")
            {
                // λ differs from part to part, and walks from node to node.
                continue;
            }
            let all = applied(backend.as_ref(), mask.as_ref(), &x, false);
            let mut first = 0;
            for part in &parts {
                let (_, alone, _) = operators(part).swap_remove(index);
                let range = 4 * first..4 * (first + part.nodes());
                let single = applied(backend.as_ref(), alone.as_ref(), &x[range.clone()], false);
                within(
                    &format!("{mask_name}, {name}, from node {first}"),
                    &all[range],
                    &single,
                    2.0 * allowed * greatest(&all).max(1.0),
                );
                first += part.nodes();
            }
        }
    }
}

#[test]
fn a_grid_takes_the_same_way_as_rows() {
    let colours: Vec<f32> = units(3 * 13 * 9, 2).iter().map(|x| *x as f32).collect();
    let picture = Picture::new(&colours, 13, 9).expect("finite");
    for reach in [Reach::Sides, Reach::Corners] {
        // One link cut, one token cut off.
        let network = picture.network(reach, 6.0).expect("sound").without_edges(&[(0, 1)]);
        let wall: Vec<bool> = (0..117).map(|i| i == 40).collect();
        let network = network.without_nodes(&wall).expect("sound");
        let x = units(117 * 8, 5);
        for (kind, laplacian) in KINDS {
            let rows = Diffusion::heat(network.clone(), laplacian, 9.0, 1e-7).expect("sound");
            let stencil = rows.clone().on_grid(13, 9, reach).expect("a grid");
            let dense = rows.dense(0);
            for transposed in [false, true] {
                let wanted = dense_product(&dense, &x, 117, transposed);
                for (name, backend) in devices() {
                    let got = applied(backend.as_ref(), &stencil, &x, transposed);
                    within(
                        &format!("{kind}, {name}"),
                        &got,
                        &wanted,
                        2.0 * f32_error(rows.degree()) * greatest(&wanted).max(1.0),
                    );
                }
            }
        }
    }
    let wrong = Diffusion::heat(path(6).expect("made"), Laplacian::Combinatorial, 1.0, 1e-5).expect("sound");
    let told = |e: wgattn::Result<Diffusion>| e.expect_err("wrong").to_string();
    assert!(told(wrong.clone().on_grid(2, 3, Reach::Sides)).contains("from node 2 to node 3"));
    assert!(told(wrong.on_grid(2, 2, Reach::Sides)).contains("6 nodes"));
}

#[test]
fn growth_keeps_components_whose_eigenvalues_are_small() {
    // The trap of addendum 1: with one λ for all, the tree's rows drown in the complete network's rounding.
    let network = Network::batch(&[
        complete(11).expect("made"),
        caterpillar(20, 8).and_then(|f| f.network()).expect("made"),
    ])
    .expect("sound");
    let n = network.nodes();
    let mask = Diffusion::growth(network, 3.0, 1e-7).expect("sound");
    let dense = mask.dense(0);
    let (q, k, v) = (vec![1.0; n], vec![1.0; n], units(2 * n, 8));
    let numerators = dense_product(&dense, &v, n, false);
    let sums = dense_product(&dense, &vec![1.0; n], n, false);
    let wanted: Vec<f64> = numerators.iter().enumerate().map(|(at, y)| y / sums[at / 2]).collect();
    for (name, backend) in devices() {
        within(name, &attended(backend.as_ref(), &mask, [&q, &k, &v]), &wanted, 2e-5);
    }
}

#[test]
fn diffusion_composes_and_forgets() {
    let network = erdos_renyi(40, 0.2, 8).expect("made");
    assert_eq!(network.components().count, 1);
    let x = units(40 * 4, 1);
    let heat = |t| Diffusion::heat(network.clone(), Laplacian::Combinatorial, t, 1e-7).expect("sound");
    for (name, backend) in devices() {
        let backend = backend.as_ref();
        let once = applied(backend, &heat(1.5), &x, false);
        let twice = applied(backend, &heat(0.5), &applied(backend, &heat(1.0), &x, false), false);
        within(name, &twice, &once, 5e-6);
        within(name, &applied(backend, &heat(0.0), &x, false), &x, 0.0);
        let mean: Vec<f64> =
            (0..160).map(|at| (0..40).map(|i| x[4 * i + at % 4]).sum::<f64>() / 40.0).collect();
        within(name, &applied(backend, &heat(1e3), &x, false), &mean, 2e-4);
    }
}

#[test]
fn a_directed_walk_follows_its_edges() {
    let network =
        Network::directed_weighted(5, &[(0, 1, 2.0), (1, 2, 1.0), (1, 3, 3.0), (3, 0, 1.0)]).expect("sound");
    let mask = Steps::power(network.clone(), 2).expect("sound");
    let wanted = [0.0, 0.0, 0.25, 0.75, 0.0];
    for (name, backend) in devices() {
        let one: Vec<f64> = (0..5).map(|i| f64::from(u8::from(i == 0))).collect();
        within(name, &applied(backend.as_ref(), &mask, &one, true), &wanted, 1e-7);
    }
    let told =
        Diffusion::heat(network, Laplacian::Combinatorial, 1.0, 1e-5).expect_err("directed").to_string();
    assert!(told.contains("direct") || told.contains("symmetric"), "{told}");
}

#[test]
fn sampled_kernels_come_close_to_what_they_estimate() {
    let network = erdos_renyi(60, 0.08, 21).expect("made");
    let exact = WalkKernel::new(network.clone(), 4, 1.0, Normalisation::Cosine).expect("sound").dense(0);
    let eye = identities(60, 1);
    for (name, backend) in devices() {
        let error = |walks| {
            let mask =
                SampledWalks::kernel(&network, walks, 4, 1.0, Normalisation::Cosine, 5).expect("sound");
            let sampled = applied(backend.as_ref(), &mask, &eye, false);
            let off: f64 = sampled.iter().zip(&exact).map(|(a, b)| (a - b).powi(2)).sum();
            (off / exact.iter().map(|x| x * x).sum::<f64>()).sqrt()
        };
        let (few, many) = (error(50), error(800));
        // Errors fall with the root of the number: a factor of 4, give or take a fifth for one seed.
        assert!(
            (0.05..0.25).contains(&few) && (3.2..4.8).contains(&(few / many)),
            "{name}: {few} and {many}"
        );
    }
}

/// `copies` identities `[n, n]` one under the other.
fn identities(n: usize, copies: usize) -> Vec<f64> {
    (0..copies * n * n).map(|at| f64::from(u8::from(at / n % n == at % n))).collect()
}

/// Fails where means of samples `[samples, n²]` are not those expected: no element by more than 4.5 of its standard deviations, which one of
/// 100 exceeds by chance once in 1500 runs, and all together by as much as chance has them.
fn unbiased(what: &str, samples: &[f64], mean: &[f64], looked_at: impl Fn(usize) -> bool) {
    let count = (samples.len() / mean.len()) as f64;
    let mut squares = Vec::new();
    for at in (0..mean.len()).filter(|at| looked_at(*at)) {
        let own = || samples.iter().skip(at).step_by(mean.len());
        let got = own().sum::<f64>() / count;
        let variance = own().map(|x| (x - got).powi(2)).sum::<f64>() / (count - 1.0);
        let off = got - mean[at];
        if variance < 1e-12 {
            assert!(off.abs() < 1e-6, "{what}: element {at} is {got} without chance, expected {}", mean[at]);
            continue;
        }
        let z = off / (variance / count).sqrt();
        assert!(z.abs() < 4.5, "{what}: element {at} is {got}, expected {}, z = {z:.2}", mean[at]);
        squares.push(z * z);
    }
    assert!(squares.len() > 20, "{what}: {} elements vary", squares.len());
    // 1 by chance; elements of a row share walks, so the band is wide.
    let all = squares.iter().sum::<f64>() / squares.len() as f64;
    println!("{what}: {} elements, mean z² {all:.2}", squares.len());
    assert!((0.5..1.7).contains(&all), "{what}: mean of z² is {all:.3}");
}

/// Walks are drawn by the number of their first node, so the copies of a network in a batch are independent samples, and one product with
/// identities reads them all.
#[test]
fn sampled_masks_are_unbiased_on_every_device() {
    const COPIES: usize = 1500;
    let ring = [(0, 1, 1.0), (1, 2, 0.5), (2, 3, 2.0), (3, 4, 1.5), (4, 5, 1.0), (5, 0, 0.25), (1, 4, 3.0)];
    let weighted = Network::undirected_weighted(7, &ring).expect("sound");
    let plain = Network::undirected(7, &ring.map(|e| (e.0, e.1))).expect("sound");
    let n = 7;
    for (graph, network) in [("plain", plain), ("weighted", weighted)] {
        let batch = Network::batch(&vec![network.clone(); COPIES]).expect("sound");
        let x = identities(n, COPIES);
        // Rows of F from different nodes are independent: F Fᵀ is unbiased beside the diagonal, which holds squares of one sample.
        let kernel = SampledWalks::kernel(&batch, 3, 4, 0.8, Normalisation::Raw, 17).expect("sound");
        let exact = WalkKernel::new(network.clone(), 4, 0.8, Normalisation::Raw).expect("sound").dense(0);
        // exp(W) to four terms; two sets of walks leave no bias anywhere.
        let series = [1.0, 1.0, 0.5, 1.0 / 6.0];
        let small = wgattn::topology::spectrum::normalised(&network).expect("symmetric");
        let mean = wgattn::topology::kernel::power_series(&small, &series).expect("sound");
        let small = Network::batch(&vec![small; COPIES]).expect("sound");
        let g = modulation(&series).expect("a series");
        // The product of two series of four terms has more: what the features estimate is g folded with itself.
        let folded: Vec<f64> = (0..2 * g.len() - 1)
            .map(|k| (0..=k).filter_map(|l| Some(g.get(l)? * g.get(k - l)?)).sum())
            .collect();
        assert!(folded.iter().zip(series).all(|(a, b)| (a - b).abs() < 1e-12));
        let tail = wgattn::topology::kernel::power_series(&network_of(&small, n), &folded).expect("sound");
        assert!(tail.iter().zip(&mean).any(|(a, b)| (a - b).abs() > 1e-6), "the tail counts");
        let features = SampledWalks::random_features(&small, 2, 0.2, &g, 23).expect("sound");
        for (name, backend) in devices() {
            let what = |mask: &str| format!("{graph}, {mask}, {name}");
            let samples = applied(backend.as_ref(), &kernel, &x, false);
            unbiased(&what("walk kernel"), &samples, &exact, |at| at / n != at % n);
            let samples = applied(backend.as_ref(), &features, &x, false);
            unbiased(&what("random features"), &samples, &tail, |_| true);
        }
    }
}

/// The first network of a batch of networks of `n` nodes.
fn network_of(batch: &Network, n: usize) -> Network {
    let part = batch.part(0).expect("there is one");
    assert_eq!(part.nodes(), n);
    part
}

/// exp(A) by a Taylor series of A / 2¹² and squares, in f64.
fn exponential(a: &[f64], n: usize) -> Vec<f64> {
    let small: Vec<f64> = a.iter().map(|x| x / 4096.0).collect();
    let (mut sum, mut term) = (identities(n, 1), identities(n, 1));
    for k in 1..20 {
        term = dense_product(&term, &small, n, false).iter().map(|x| x / f64::from(k)).collect();
        sum.iter_mut().zip(&term).for_each(|(s, t)| *s += t);
    }
    (0..12).fold(sum, |m, _| dense_product(&m, &m, n, false))
}

/// Steps between all pairs by Floyd and Warshall; ∞ where there is no way.
fn steps_between(edges: &[(u32, u32)], n: usize) -> Vec<f64> {
    let mut d: Vec<f64> =
        identities(n, 1).iter().map(|own| if *own == 1.0 { 0.0 } else { f64::INFINITY }).collect();
    for (i, j) in edges.iter().map(|(i, j)| (*i as usize, *j as usize)) {
        (d[i * n + j], d[j * n + i]) = (1.0, 1.0);
    }
    for k in 0..n {
        for at in 0..n * n {
            d[at] = d[at].min(d[at / n * n + k] + d[k * n + at % n]);
        }
    }
    d
}

/// A spanning tree of edges of equal weight: each edge, in order, that joins two parts.
fn spanning(edges: &[(u32, u32)], n: usize) -> Vec<(u32, u32)> {
    let mut part: Vec<u32> = (0..n as u32).collect();
    let mut sorted = edges.to_vec();
    sorted.sort_unstable();
    sorted.retain(|(i, j)| {
        let (a, b) = (part[*i as usize], part[*j as usize]);
        part.iter_mut().filter(|p| **p == b).for_each(|p| *p = a);
        a != b
    });
    sorted
}

#[test]
fn the_karate_club_attends_under_every_mask() {
    let edges: Vec<(u32, u32)> = include_str!("../assets/graphs/karate.csv")
        .lines()
        .skip(1)
        .map(|line| {
            let (i, j) = line.split_once(',').expect("two members");
            let [i, j] = [i, j].map(|m| m.trim().parse::<u32>().expect("a number"));
            (i.min(j), i.max(j))
        })
        .collect();
    let n = 34;
    assert_eq!(edges.len(), 78);
    let club = Network::undirected(n, &edges).expect("sound");
    let joined = |i: usize, j: usize| edges.contains(&((i.min(j)) as u32, (i.max(j)) as u32));
    let a: Vec<f64> = (0..n * n).map(|at| f64::from(u8::from(joined(at / n, at % n)))).collect();
    let degree: Vec<f64> = a.chunks(n).map(|row| row.iter().sum()).collect();
    let each = |f: &dyn Fn(usize, usize) -> f64| (0..n * n).map(|at| f(at / n, at % n)).collect::<Vec<f64>>();
    let own = |i: usize, j: usize| if i == j { degree[i] } else { 0.0 };
    let laplacian = each(&|i, j| own(i, j) - a[i * n + j]);
    let heat = |t: f64, scale: &dyn Fn(usize, usize) -> f64| {
        exponential(&each(&|i, j| -t * laplacian[i * n + j] * scale(i, j)), n)
    };
    let p = each(&|i, j| a[i * n + j] / degree[i]);
    let mut f = identities(n, 1);
    for _ in 1..4 {
        f = dense_product(&p, &f, n, false)
            .iter()
            .zip(identities(n, 1))
            .map(|(x, own)| 0.75 * x + own)
            .collect();
    }
    let length = |i: usize| f[i * n..][..n].iter().map(|x| x * x).sum::<f64>().sqrt();
    let dot = |i: usize, j: usize| (0..n).map(|k| f[i * n + k] * f[j * n + k]).sum::<f64>();
    let steps = steps_between(&edges, n);
    let along = steps_between(&spanning(&edges, n), n);
    let cases: [(&str, Vec<f64>); 8] = [
        ("diffusion:t=0.5,rtol=1e-7", heat(0.5, &|_, _| 1.0)),
        (
            "diffusion:t=3,laplacian=symmetric,rtol=1e-7",
            heat(3.0, &|i, j| 1.0 / (degree[i] * degree[j]).sqrt()),
        ),
        ("diffusion:t=3,laplacian=random-walk,rtol=1e-7", heat(3.0, &|i, _| 1.0 / degree[i])),
        ("walk:nodes=4,lambda=0.75,normalise=cosine", each(&|i, j| dot(i, j) / (length(i) * length(j)))),
        ("walk:nodes=4,lambda=0.75,normalise=diag", each(&|i, j| f[i * n + j] / f[i * n + i])),
        ("spd:profile=exp,size=2", steps.iter().map(|d| (-d / 2.0).exp()).collect()),
        ("tree:rate=0.3", along.iter().map(|d| (-0.3 * d).exp()).collect()),
        ("tree:profile=inverse,size=2", along.iter().map(|d| 1.0 / (1.0 + d / 2.0)).collect()),
    ];
    attends(&club, &cases);
}

/// Attention under masks on a network, in words, against attention under their entries `[n, n]`.
fn attends(network: &Network, cases: &[(&str, Vec<f64>)]) {
    let n = network.nodes();
    let (q, k, v) = (units(6 * n, 1), units(6 * n, 2), units(5 * n, 3));
    for (words, m) in cases {
        let made = words.parse::<NetworkMaskSpec>().expect(words).operator(network).expect(words);
        let weight =
            |i: usize, j: usize| m[i * n + j] * (0..6).map(|c| q[6 * i + c] * k[6 * j + c]).sum::<f64>();
        let mut wanted = Vec::new();
        for i in 0..n {
            let sum: f64 = (0..n).map(|j| weight(i, j)).sum();
            wanted.extend((0..5).map(|c| (0..n).map(|j| weight(i, j) * v[5 * j + c]).sum::<f64>() / sum));
        }
        for (name, backend) in devices() {
            let got = attended(backend.as_ref(), made.operator.as_ref(), [&q, &k, &v]);
            let worst = got.iter().zip(&wanted).map(|(a, b)| (a - b).abs()).fold(0.0, f64::max);
            println!("{words}, {name}: {worst:.1e}");
            // Some roundings of f32 at values below 1; heat of a series is of size 1 in every component.
            within(&format!("{words}, {name}"), &got, &wanted, 1e-6);
        }
    }
}

#[test]
fn streets_of_a_town_attend_under_masks_along_them() {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("assets/graphs/bautzen.graphml");
    let streets = wgattn::topology::read::read(&file, &Default::default()).expect("streets");
    let (network, n) = (&streets.network, streets.network.nodes());
    let edges: Vec<(u32, u32)> = network.edges().filter(|(i, j, _)| i < j).map(|(i, j, _)| (i, j)).collect();
    assert_eq!((n, edges.len(), streets.dimensions), (350, 359, 2));
    // A step is about 20 m, and what bends is cut short.
    for (i, j) in &edges {
        let ([ax, ay, _], [bx, by, _]) = (streets.places[*i as usize], streets.places[*j as usize]);
        let long = (ax - bx).hypot(ay - by);
        assert!((7.0..30.0).contains(&long), "{long} m from {i} to {j}");
    }
    let mut laplacian = vec![0.0; n * n];
    for (i, j) in edges.iter().map(|(i, j)| (*i as usize, *j as usize)) {
        for (i, j) in [(i, j), (j, i)] {
            laplacian[i * n + j] -= 1.0;
            laplacian[i * n + i] += 1.0;
        }
    }
    let heat = exponential(&laplacian.iter().map(|l| -8.0 * l).collect::<Vec<f64>>(), n);
    let steps = steps_between(&edges, n);
    let along = steps_between(&spanning(&edges, n), n);
    let gauss = |d: &f64| (-0.5 * (d / 15.0).powi(2)).exp();
    attends(
        network,
        &[
            ("diffusion:t=8,rtol=1e-7", heat),
            ("spd:profile=gauss,size=15", steps.iter().map(gauss).collect()),
            ("tree:rate=0.05", along.iter().map(|d| (-0.05 * d).exp()).collect()),
        ],
    );
}

#[test]
fn what_cannot_be_is_refused_with_a_reason() {
    let g = path(4).expect("made");
    let told = |e: wgattn::Result<Box<dyn MaskOperator>>| e.expect_err("refused").to_string();
    let boxed = |m: wgattn::Result<Diffusion>| m.map(|m| Box::new(m) as Box<dyn MaskOperator>);
    let heat = |t, rtol| boxed(Diffusion::heat(g.clone(), Laplacian::Combinatorial, t, rtol));
    assert!(told(heat(-1.0, 1e-5)).contains("backwards"));
    assert!(told(heat(f64::NAN, 1e-5)).contains("finite"));
    assert!(told(heat(1.0, 0.0)).contains("tolerance"));
    assert!(told(heat(1e12, 1e-5)).contains("shorter time"));
    assert!(told(heat(4e6, 1e-9)).contains("terms of a diffusion"));
    assert!(told(boxed(Diffusion::growth(g.clone(), -0.5, 1e-5))).contains("t of"));
    let steps = |m: wgattn::Result<Steps>| m.map(|m| Box::new(m) as Box<dyn MaskOperator>);
    assert!(told(steps(Steps::pagerank(g.clone(), 0.0, 1e-5))).contains("restart"));
    assert!(told(steps(Steps::power(g.clone(), 1 << 20))).contains("at most"));
    let walks = |m: wgattn::Result<WalkKernel>| m.map(|m| Box::new(m) as Box<dyn MaskOperator>);
    assert!(told(walks(WalkKernel::new(g.clone(), 0, 1.0, Normalisation::Cosine))).contains("start counts"));
    assert!(told(walks(WalkKernel::new(g.clone(), 3, 1.5, Normalisation::Cosine))).contains('λ'));
    let sampled = SampledWalks::kernel(&g, 10, 4, 1.0, Normalisation::MinMax, 0);
    assert!(sampled.expect_err("refused").to_string().contains("minmax"));
    // No nodes: nothing to do, and nothing breaks.
    let empty = Network::isolated(0).expect("empty");
    let mask = Diffusion::heat(empty, Laplacian::Combinatorial, 3.0, 1e-5).expect("sound");
    for (_, backend) in devices() {
        assert!(applied(backend.as_ref(), &mask, &[], false).is_empty());
    }
}
