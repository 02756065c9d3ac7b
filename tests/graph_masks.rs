//! Masks by shortest paths and closed forms as operators: stored arrays, definitions entry by entry, both forms and both ways, on every device.

use std::collections::BTreeMap;
use wgattn::arrays::{self, Array, ArrayData};
use wgattn::attention::Masks;
use wgattn::backend::Backend;
use wgattn::graph::Graph;
use wgattn::kernels::distance::distance_attention;
use wgattn::kernels::distance::pairs::SOFTMAX;
use wgattn::mask::closed_forms::ring;
use wgattn::mask::operator::attend;
use wgattn::mask::{GridHeat, GridPath, Hypercube, MaskOperator, RelativeTable, ShortestPath, Toeplitz};
use wgattn::random::{gaussian, philox};
use wgattn::tensor::{HostTensor, Tensor};
use wgattn::topology::spectrum::Laplacian;
use wgattn::topology::{Network, build, chebyshev};

mod support;

use support::devices;

/// Standard normal numbers.
fn normal(stream: u32, count: usize) -> Vec<f32> {
    let four = |block: u32| philox([block, 0, 0, stream], 7).map(gaussian);
    (0..count as u32).flat_map(four).take(count).collect()
}

fn result(backend: &dyn Backend, graph: &mut Graph, tensor: Tensor) -> Vec<f64> {
    graph.output(tensor).expect("an output");
    let mut program = backend.compile(graph).expect("compiles");
    program.run().expect("runs");
    program.read(tensor).expect("reads").to_f64()
}

/// Largest difference relative to the largest expected number.
fn error(got: &[f64], expected: &[f64]) -> f64 {
    assert_eq!(got.len(), expected.len());
    let scale = expected.iter().fold(1e-30_f64, |m, x| m.max(x.abs()));
    let worst = got.iter().zip(expected).map(|(a, b)| (a - b).abs());
    worst.fold(0.0_f64, |m, x| if x.is_nan() { f64::INFINITY } else { m.max(x) }) / scale
}

fn close(what: &str, got: &[f64], expected: &[f64], tolerance: f64) {
    let error = error(got, expected);
    assert!(error <= tolerance, "{what}: error {error:.2e} > {tolerance:.0e}");
}

struct File(BTreeMap<String, Array>);

impl File {
    fn open(name: &str) -> Self {
        let path = format!("{}/tests/data/masking/{name}.npz", env!("CARGO_MANIFEST_DIR"));
        Self(arrays::read(path).expect("the file reads"))
    }

    fn numbers(&self, name: &str) -> Vec<f64> {
        match &self.0[name].data {
            ArrayData::F32(v) => v.iter().map(|&x| f64::from(x)).collect(),
            ArrayData::F64(v) => v.clone(),
            ArrayData::I32(v) => v.iter().map(|&x| f64::from(x)).collect(),
            ArrayData::U8(v) => v.iter().map(|&x| f64::from(x)).collect(),
            other => panic!("{name} holds {}", other.dtype()),
        }
    }

    fn singles(&self, name: &str) -> Vec<f32> {
        self.numbers(name).into_iter().map(|x| x as f32).collect()
    }

    /// A matrix as one head of a graph's constants.
    fn head(&self, graph: &mut Graph, name: &str) -> Tensor {
        let shape = &self.0[name].shape;
        let dims = [1, 1, shape[0] as u32, shape[1] as u32];
        graph.constant(name, HostTensor::f32(dims, self.singles(name)).expect("a matrix"))
    }

    fn network(&self, prefix: &str) -> Network {
        let edges = self.numbers(&format!("{prefix}edges"));
        let list: Vec<_> = edges.chunks(2).map(|e| (e[0] as u32, e[1] as u32)).collect();
        Network::undirected(self.numbers(&format!("{prefix}n"))[0] as usize, &list).expect("sound")
    }

    /// Masked attention of the file's `prefix` Q, K, V under an operator.
    fn attended(&self, backend: &dyn Backend, prefix: &str, mask: &dyn MaskOperator) -> Vec<f64> {
        let mut graph = Graph::new("stored");
        let qkv = ["Q", "K", "V"].map(|x| self.head(&mut graph, &format!("{prefix}{x}")));
        let out = attend(&mut graph, mask, (qkv[0], qkv[1], qkv[2]), Masks::default(), 3).expect("records");
        result(backend, &mut graph, out)
    }
}

/// M x and Mᵀ x of an operator against its own weights, entry by entry in f64, for 2 batch elements and `heads` heads.
fn matches_its_weights(what: &str, mask: &dyn MaskOperator, heads: u32, tolerance: f64) {
    let (n, c) = (mask.tokens() as usize, 5);
    let x = normal(5, 2 * heads as usize * n * c);
    for transpose in [false, true] {
        let mut expected = vec![0.0; x.len()];
        for batch in 0..2 * heads as usize {
            let m = mask.dense((batch % heads as usize) as u32);
            for (i, j) in (0..n).flat_map(|i| (0..n).map(move |j| (i, j))) {
                let w = if transpose { m[j * n + i] } else { m[i * n + j] };
                (0..c).for_each(|ch| {
                    expected[(batch * n + i) * c + ch] += w * f64::from(x[(batch * n + j) * c + ch]);
                });
            }
        }
        for (name, device) in devices() {
            let mut graph = Graph::new("product");
            let input = HostTensor::f32([2, heads, n as u32, c as u32], x.clone()).expect("channels");
            let input = graph.constant("x", input);
            let out = match transpose {
                false => mask.apply(&mut graph, input),
                true => mask.apply_transposed(&mut graph, input),
            };
            let got = result(device.as_ref(), &mut graph, out.expect("records"));
            close(&format!("{what} on {name}, transposed {transpose}"), &got, &expected, tolerance);
        }
    }
}

#[test]
fn stored_shortest_paths_come_out_in_both_forms() {
    let file = File::open("shortest_path");
    for prefix in ["er_", "grid_", "two_components_", "isolated_"] {
        let network = file.network(prefix);
        let f = vec![file.singles(&format!("{prefix}f"))];
        let dense = ShortestPath::dense(&network, &f).expect(prefix);
        let sparse = ShortestPath::sparse(&network, &f, 1 << 20).expect(prefix);
        let expected = file.numbers(&format!("{prefix}Out"));
        let n = network.nodes() as u32;
        let far = |i, j| file.numbers(&format!("{prefix}dist"))[(i * n + j) as usize] == 255.0;
        assert!((0..n).all(|j| !far(0, j) || dense.weight(0, 0, j) == 0.0 && sparse.weight(0, 0, j) == 0.0));
        for (name, device) in devices() {
            for mask in [&dense, &sparse] {
                let what = format!("{prefix}{} on {name}", mask.describe());
                close(&what, &file.attended(device.as_ref(), prefix, mask), &expected, 1e-6);
                let mut graph = Graph::new("its own way");
                let [q, k, v] = ["Q", "K", "V"].map(|x| file.head(&mut graph, &format!("{prefix}{x}")));
                let out = mask.attend(&mut graph, (q, k, v), Masks::default(), 4).expect("records");
                close(&what, &result(device.as_ref(), &mut graph, out), &expected, 1e-6);
            }
        }
    }
}

/// Edges in one direction only, so that M is not symmetric; a table per head.
fn one_way() -> Network {
    let arcs = build::erdos_renyi(60, 0.05, 8).expect("made");
    let list: Vec<_> = arcs.edges().filter(|(i, j, _)| (i * 2 + j) % 5 < 3).map(|e| (e.0, e.1)).collect();
    Network::directed(60, &list).expect("sound")
}

#[test]
fn products_match_the_weights_in_both_directions() {
    let network = one_way();
    let f = vec![vec![1.0, 0.5, 0.25, 0.0, 0.125], vec![0.0, 1.0, 0.0, 2.0, 0.0, 0.0]];
    let dense = ShortestPath::dense(&network, &f).expect("dense");
    let sparse = ShortestPath::sparse(&network, &f, 1 << 20).expect("sparse");
    assert_eq!(dense.dense(1), sparse.dense(1));
    let asymmetric = (0..60).any(|i| (0..60).any(|j| dense.weight(0, i, j) != dense.weight(0, j, i)));
    assert!(asymmetric, "the network tests no direction");
    matches_its_weights("dense", &dense, 2, 1e-6);
    matches_its_weights("sparse", &sparse, 2, 1e-6);
    let one = ShortestPath::dense(&network, &f[..1]).expect("dense");
    matches_its_weights("one table", &one, 3, 1e-6);
    // 300 steps need 16 bits.
    let long = build::path(301).expect("made");
    let f = vec![(0..301).map(|d| 1.0 / (1.0 + d as f32)).collect::<Vec<f32>>()];
    let wide = ShortestPath::dense(&long, &f).expect("16 bits");
    assert!(wide.describe().contains("16 bits") && wide.weight(0, 0, 300) == f64::from(f[0][300]));
    matches_its_weights("16 bits", &wide, 1, 1e-6);
    // The same path and a mask that ends early: 8 bits, what is farther is as good as unreachable.
    let near = ShortestPath::dense(&long, &[f[0][..20].to_vec()]).expect("8 bits");
    assert!(
        near.describe().contains("8 bits") && near.weight(0, 0, 20) == 0.0 && near.weight(0, 0, 300) == 0.0
    );
}

#[test]
fn the_cheaper_form_is_taken_and_neither_is_refused_with_both_reasons() {
    let line = build::path(2000).expect("made");
    let window = vec![vec![1.0; 9]];
    assert!(ShortestPath::new(&line, &window).expect("balls of 17").is_sparse());
    let knot = build::complete(60).expect("made");
    assert!(!ShortestPath::new(&knot, &window).expect("all near").is_sparse());
    let star = build::star(20_000).expect("made");
    let said = ShortestPath::new(&star, &window).expect_err("400 million pairs").to_string();
    assert!(
        said.contains("20000 nodes") && said.contains("381 MiB") && said.contains("steps apart"),
        "{said}"
    );
    for (f, wanted) in [
        (vec![], "per head"),
        (vec![vec![1.0, f32::NAN]], "distance 1"),
        (vec![vec![1.0, -0.5]], "distance 1"),
        (vec![vec![]], "weights by distance"),
    ] {
        let said = ShortestPath::new(&knot, &f).expect_err(wanted).to_string();
        assert!(said.contains(wanted), "{said}");
    }
}

#[test]
fn keys_left_out_are_not_seen_and_rows_without_keys_are_zeros() {
    let network = build::grid(&[6, 7], build::Reach::Sides).expect("made");
    let mask = ShortestPath::dense(&network, &[vec![0.0, 1.0]]).expect("neighbours alone");
    let keep: Vec<u8> = (0..42).map(|i| u8::from(i % 2 == 0)).collect();
    let features = |stream| normal(stream, 42 * 4).iter().map(|x| x.abs()).collect::<Vec<f32>>();
    let (q, k) = (features(1), features(2));
    let mut v = normal(3, 42 * 4);
    // Whatever a key that is left out holds.
    (0..42).filter(|i| i % 2 == 1).for_each(|i| v[i * 4] = f32::NAN);
    for (name, device) in devices() {
        for scores in [
            distance_attention::Params::default(),
            distance_attention::Params { scores: SOFTMAX, ..Default::default() },
        ] {
            let mut graph = Graph::new("masked");
            let [q, k, v] = [&q, &k, &v]
                .map(|x| graph.constant("x", HostTensor::f32([1, 1, 42, 4], x.clone()).expect("rows")));
            let keep = graph.constant(
                "keep",
                HostTensor::new([1, 1, 42], wgattn::tensor::HostData::U8(keep.clone())).expect("bytes"),
            );
            let masks = Masks { keys: Some(keep), queries: None };
            let out = mask.attend_scores(&mut graph, (q, k, v), masks, scores).expect("records");
            let got = result(device.as_ref(), &mut graph, out);
            for i in 0..42_u32 {
                let seen = network.neighbours(i).iter().any(|j| j % 2 == 0);
                let row = &got[i as usize * 4..][..4];
                assert!(row.iter().all(|x| x.is_finite()), "{name}: row {i} is {row:?}");
                assert_eq!(row.iter().any(|x| *x != 0.0), seen, "{name}: row {i} is {row:?}");
            }
        }
    }
}

#[test]
fn stored_hypercubes_come_out() {
    let file = File::open("hypercube");
    let cubes: Vec<u32> =
        file.0.keys().filter_map(|k| k.strip_prefix('d')?.strip_suffix("_Q")?.parse().ok()).collect();
    assert!(!cubes.is_empty());
    for d in cubes {
        let prefix = format!("d{d}_");
        for (at, t) in file.numbers(&format!("{prefix}t")).into_iter().enumerate() {
            let mask = Hypercube::heat(d, &[t]).expect("a mask");
            let stored = file.numbers(&format!("{prefix}by_hamming_t{at}"));
            let own: Vec<f64> = (0..=d).map(|k| mask.weight(0, 0, (1 << k) - 1)).collect();
            close(&format!("{prefix}{t}"), &own, &stored, 1e-13);
            let expected = file.numbers(&format!("{prefix}Out_t{at}"));
            for (name, device) in devices() {
                close(
                    &format!("{prefix}{t} on {name}"),
                    &file.attended(device.as_ref(), &prefix, &mask),
                    &expected,
                    2e-6,
                );
            }
        }
        let any = Hypercube::of_distance(d, &[file.singles(&format!("{prefix}f"))]).expect("a mask");
        for (name, device) in devices() {
            let expected = file.numbers(&format!("{prefix}Out_f"));
            close(
                &format!("{prefix}f on {name}"),
                &file.attended(device.as_ref(), &prefix, &any),
                &expected,
                2e-6,
            );
        }
    }
}

#[test]
fn hypercubes_match_their_weights_and_the_general_diffusion() {
    for d in [0, 1, 3, 9] {
        let mask = Hypercube::heat(d, &[0.3, 0.05]).expect("a mask");
        matches_its_weights(&format!("cube of {d}"), &mask, 2, 2e-6);
        let f = (0..=d).map(|x| 1.0 / (1.0 + x as f32 * x as f32)).collect();
        matches_its_weights("any f", &Hypercube::of_distance(d, &[f]).expect("a mask"), 1, 2e-6);
    }
    let network = build::hypercube(6).expect("made");
    let identity: Vec<f64> = (0..64 * 64).map(|at| f64::from(u8::from(at % 65 == 0))).collect();
    let series = chebyshev::Series::heat(&network, Laplacian::Combinatorial, 0.7, 1e-13).expect("a series");
    let general = series.apply_heat(&network, Laplacian::Combinatorial, &identity, 64).expect("applies");
    close("cube of 6", &Hypercube::heat(6, &[0.7]).expect("a mask").dense(0), &general, 1e-12);
    Hypercube::heat(25, &[1.0]).expect_err("too many dimensions");
    Hypercube::heat(3, &[-1.0]).expect_err("back in time");
    Hypercube::of_distance(3, &[vec![1.0; 3]]).expect_err("4 weights");
}

#[test]
fn stored_paths_rings_and_grids_come_out() {
    let file = File::open("path_cycle_grid");
    let names: Vec<String> = file.0.keys().filter_map(|k| k.strip_suffix("_t").map(str::to_owned)).collect();
    assert!(names.len() >= 3, "{names:?}");
    for name in names {
        let digits: Vec<u32> =
            name.split(|c: char| !c.is_ascii_digit()).filter_map(|x| x.parse().ok()).collect();
        let torus = name.contains("cycle");
        let ways =
            if torus { vec![GridPath::Transforms] } else { vec![GridPath::Matrices, GridPath::Transforms] };
        for (at, t) in file.numbers(&format!("{name}_t")).into_iter().enumerate() {
            let mask = GridHeat::new(&digits, torus, &[t]).expect("a mask");
            for way in &ways {
                let mask = mask.clone().by(*way);
                assert_eq!(mask.path(), *way);
                for (device, backend) in devices() {
                    let what = format!("{name}, t = {t}, {way:?} on {device}");
                    let mut graph = Graph::new("product");
                    let x = file.head(&mut graph, &format!("{name}_X"));
                    let out = mask.apply(&mut graph, x).expect("records");
                    let got = result(backend.as_ref(), &mut graph, out);
                    close(&what, &got, &file.numbers(&format!("{name}_MX_t{at}")), 2e-6);
                    let got = file.attended(backend.as_ref(), &format!("{name}_"), &mask);
                    close(&what, &got, &file.numbers(&format!("{name}_Out_t{at}")), 2e-6);
                }
            }
        }
    }
}

#[test]
fn grids_match_the_general_diffusion_and_their_weights() {
    for (sides, torus) in [
        (&[1][..], false),
        (&[2], true),
        (&[7], false),
        (&[2, 5], true),
        (&[1, 6], false),
        (&[4, 6], false),
        (&[3, 1, 4], true),
        (&[3, 2, 4], false),
    ] {
        let reach = build::Reach::Sides;
        let as_usize: Vec<usize> = sides.iter().map(|n| *n as usize).collect();
        let network = if torus { build::torus(&as_usize, reach) } else { build::grid(&as_usize, reach) };
        let network = network.expect("made");
        let n = network.nodes();
        let identity: Vec<f64> = (0..n * n).map(|at| f64::from(u8::from(at % (n + 1) == 0))).collect();
        let what = format!("{sides:?}, torus {torus}");
        for t in [0.0, 0.4, 3.0, 200.0] {
            let series =
                chebyshev::Series::heat(&network, Laplacian::Combinatorial, t, 1e-13).expect("a series");
            let general =
                series.apply_heat(&network, Laplacian::Combinatorial, &identity, n).expect("applies");
            close(&what, &GridHeat::new(sides, torus, &[t]).expect("a mask").dense(0), &general, 1e-12);
        }
        let mask = GridHeat::new(sides, torus, &[0.8, 3.0]).expect("a mask");
        matches_its_weights(&what, &mask, 2, 2e-6);
        matches_its_weights(&what, &mask.clone().by(GridPath::Transforms), 2, 2e-6);
        matches_its_weights(&what, &GridHeat::new(sides, torus, &[0.8]).expect("a mask"), 2, 2e-6);
    }
}

/// A wall sends heat back, so that weights depend on more than the offset: a grid's heat kernel is no table, and not the torus's.
#[test]
fn a_bounded_grid_is_neither_a_table_nor_a_torus() {
    let (sides, t) = ([8, 9], 2.0);
    let grid = GridHeat::new(&sides, false, &[t]).expect("a mask");
    let torus = GridHeat::new(&sides, true, &[t]).expect("a mask");
    assert!(error(&torus.dense(0), &grid.dense(0)) > 0.1, "the torus");
    // The table that fits the middle of the grid: what an infinite grid would have.
    let line = |d: i64| ring(512, t).expect("a ring")[d.rem_euclid(512) as usize];
    let entry = |o: usize| (line(o as i64 / 17 - 7) * line(o as i64 % 17 - 8)) as f32;
    let table = RelativeTable::new(&sides, 1, (0..15 * 17).map(entry).collect()).expect("a table");
    let table = Toeplitz(table);
    let middle = 4 * 9 + 4;
    assert!(
        (table.weight(0, middle, middle) / grid.weight(0, middle, middle) - 1.0).abs() < 0.05,
        "in the middle they agree"
    );
    assert!(error(&table.dense(0), &grid.dense(0)) > 0.3, "in the corner they do not");
    let x = HostTensor::f32([1, 1, 72, 1], vec![1.0; 72]).expect("ones");
    for (name, device) in devices() {
        let mut graph = Graph::new("ones");
        let ones = graph.constant("x", x.clone());
        let kept = grid.apply(&mut graph, ones).expect("records");
        let kept = result(device.as_ref(), &mut graph, kept);
        assert!(kept.iter().all(|y| (y - 1.0).abs() < 1e-6), "{name}: walls keep the heat");
        let mut graph = Graph::new("ones");
        let ones = graph.constant("x", x.clone());
        let lost = table.apply(&mut graph, ones).expect("records");
        let lost = result(device.as_ref(), &mut graph, lost);
        assert!(lost[0] < 0.5, "{name}: the table loses it at the border, {}", lost[0]);
    }
}

/// Entries far below the largest keep their digits, which eigenvalues in floating point would lose.
#[test]
fn tiny_entries_of_a_path_are_right() {
    let mask = GridHeat::new(&[40], false, &[1e-3]).expect("a mask");
    // e^{-2t} I_d(2t) ~ t^d / d! for small t.
    let expected = 1e-3_f64.powi(9) / 362_880.0;
    let got = mask.weight(0, 3, 12);
    assert!((got / expected - 1.0).abs() < 3e-3, "{got:e}, about {expected:e}");
    GridHeat::new(&[4], false, &[f64::NAN]).expect_err("no time");
    GridHeat::new(&[], false, &[1.0]).expect_err("no axis");
    GridHeat::new(&[4], false, &[]).expect_err("no head");
    GridHeat::new(&[4], false, &[1e9]).expect_err("too long");
    assert_eq!(GridHeat::new(&[3000], false, &[1.0]).expect("long").path(), GridPath::Transforms);
}
