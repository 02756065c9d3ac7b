//! Masks on trees against all pairs in f64 and against stored arrays, on every device: two sweeps, sums of exponentials, balls and cuts.
//!
//! Tolerances: sums of positive terms keep the relative accuracy of every element, so they are held to 2e-6 elementwise, and to twice
//! what the two sweeps lose when they are written down plainly in f32. Ways that cancel or transform are held to the largest element.

use std::collections::BTreeMap;
use std::sync::Arc;
use wgattn::arrays::{self, Array, ArrayData};
use wgattn::attention::Masks;
use wgattn::backend::Backend;
use wgattn::bench::product;
use wgattn::graph::Graph;
use wgattn::mask::operator::{BlockDiagonal, SharedMask, attend};
use wgattn::mask::{Exactness, MaskOperator, TreeMask, TreePath};
use wgattn::random::philox;
use wgattn::tensor::{DType, HostTensor, Tensor};
use wgattn::topology::build::{binary_tree, caterpillar, random_tree, recursive_tree, star};
use wgattn::topology::tree::{Centroids, Exponentials, Pieces, nonnegative_least_squares, oracle};
use wgattn::topology::{Forest, NONE, Network};

mod support;

use support::devices;

/// A weight by distance.
type Weight = fn(f64) -> f64;

/// Numbers in [0, 1).
fn units(count: usize, seed: u32) -> Vec<f64> {
    let four =
        |block: u32| philox([block, 0, 0, seed], 9).map(|word| f64::from(word >> 8) / f64::from(1 << 24));
    (0..count.div_ceil(4) as u32).flat_map(four).take(count).collect()
}

/// Positive f32 numbers that span e^±15.
fn wide(count: usize, seed: u32) -> Vec<f64> {
    units(count, seed).into_iter().map(|u| f64::from((30.0 * u - 15.0).exp() as f32)).collect()
}

fn single(numbers: &[f64]) -> Vec<f32> {
    numbers.iter().map(|x| *x as f32).collect()
}

/// M x for `x` `[n, channels]`.
fn applied(backend: &dyn Backend, mask: &dyn MaskOperator, x: &[f64], channels: u32) -> Vec<f64> {
    let (graph, input, out) = product(mask, channels).expect("it records");
    let mut program = backend.compile(&graph).expect("it compiles");
    let x = HostTensor::f32(input.shape(), single(x)).expect("the shape fits");
    program.write(input, &x).expect("the input fits");
    program.run().expect("it runs");
    program.read(out).expect("an output").to_f64()
}

/// Lengths from 0 to about 2, a few of them 0.
fn uneven(forest: &Forest, seed: u32) -> Forest {
    let lengths: Vec<f32> = units(forest.nodes(), seed)
        .into_iter()
        .map(|u| if u < 0.05 { 0.0 } else { (2.0 * u) as f32 })
        .collect();
    Forest::from_parents(forest.parents(), Some(&lengths)).expect("the same parents")
}

fn star_of(n: usize, root: u32) -> Forest {
    Forest::from_network(&star(n).expect("made"), &[root]).expect("a star")
}

/// Shapes with uneven lengths, from one node on; sizes around those of pieces, and forests with lone nodes.
fn shapes() -> Vec<(String, Forest)> {
    let mut list: Vec<(String, Forest)> = Vec::new();
    let mut add = |name: &str, forest: Forest| list.push((name.into(), uneven(&forest, list.len() as u32)));
    let parents = |list: &[u32]| Forest::from_parents(list, None).expect("sound");
    add("one node", parents(&[NONE]));
    add("two nodes", parents(&[1, NONE]));
    for n in [31, 32, 33, 63, 64, 65, 66, 129] {
        add(&format!("path {n}"), caterpillar(n, n).expect("made"));
        add(&format!("star {n}"), star_of(n, 0));
    }
    add("path 5000", caterpillar(5000, 5000).expect("made"));
    add("star 3000", star_of(3000, 0));
    add("star 3000 from a leaf", star_of(3000, 17));
    add("caterpillar", caterpillar(3000, 700).expect("made"));
    add("binary", binary_tree(2047).expect("made"));
    add("Prüfer", random_tree(3000, 3).expect("made"));
    add("recursive", recursive_tree(3000, 4).expect("made"));
    // A path of hubs, each with more leaves than a piece holds.
    let hubs: Vec<u32> = (0..2000_u32)
        .map(|i| {
            if i == 0 {
                NONE
            } else if i % 100 == 0 {
                i - 100
            } else {
                i / 100 * 100
            }
        })
        .collect();
    add("hubs", parents(&hubs));
    let parts =
        [random_tree(400, 1), binary_tree(9), caterpillar(1, 1), caterpillar(300, 300), caterpillar(1, 1)];
    let parts = parts.map(|f| f.and_then(|f| f.network()).expect("a tree"));
    let batch = Network::batch(&parts).expect("sound");
    add("forest with lone nodes", Forest::from_network(&batch, &[]).expect("a forest"));
    add("nothing but lone nodes", parents(&[NONE; 300]));
    list
}

/// The two sweeps written down plainly in f32.
fn naive(forest: &Forest, lambda: f64, x: &[f64], channels: usize) -> Vec<f64> {
    let decay = |i: u32| (-lambda * f64::from(forest.lengths()[i as usize])).exp() as f32;
    let rest = |i: u32| -(-2.0 * lambda * f64::from(forest.lengths()[i as usize])).exp_m1() as f32;
    let mut up = single(x);
    let edges = |i: u32| Some(forest.parents()[i as usize]).filter(|p| *p != NONE);
    for &i in forest.order().iter().rev() {
        if let Some(p) = edges(i) {
            for c in 0..channels {
                up[p as usize * channels + c] += decay(i) * up[i as usize * channels + c];
            }
        }
    }
    let mut down = up.clone();
    for &i in forest.order() {
        if let Some(p) = edges(i) {
            for c in 0..channels {
                let at = i as usize * channels + c;
                down[at] = decay(i) * down[p as usize * channels + c] + rest(i) * up[at];
            }
        }
    }
    down.into_iter().map(f64::from).collect()
}

/// Largest relative error of an element, and where.
fn elementwise(got: &[f64], expected: &[f64]) -> (f64, usize) {
    assert_eq!(got.len(), expected.len());
    let error = |i: usize| {
        let e = ((got[i] - expected[i]) / expected[i]).abs();
        // Nothing expected and nothing got is exact.
        if got[i] == expected[i] {
            0.0
        } else if e.is_nan() {
            f64::INFINITY
        } else {
            e
        }
    };
    (0..got.len()).map(|i| (error(i), i)).fold((0.0, 0), |worst, e| if e.0 > worst.0 { e } else { worst })
}

/// Largest error as a part of the largest expected magnitude.
fn overall(got: &[f64], expected: &[f64]) -> f64 {
    assert_eq!(got.len(), expected.len());
    let scale = expected.iter().fold(1e-30_f64, |m, x| m.max(x.abs()));
    got.iter()
        .zip(expected)
        .map(|(a, b)| if a.is_nan() { f64::INFINITY } else { (a - b).abs() })
        .fold(0.0, f64::max)
        / scale
}

#[test]
fn decaying_sums_keep_the_accuracy_of_every_element() {
    for (name, forest) in shapes() {
        for (k, lambda) in [0.0, 1e-4, 0.05, 0.7, 4.0].into_iter().enumerate() {
            let channels = [4, 3, 8, 1, 5][k];
            let x = wide(forest.nodes() * channels, 7);
            let expected = oracle::exponential(&forest, lambda, &x, channels).expect("sound");
            let plain = elementwise(&naive(&forest, lambda, &x, channels), &expected).0;
            let mask = TreeMask::exponential(forest.clone(), lambda).expect("sound");
            for (device, backend) in devices() {
                let got = applied(backend.as_ref(), &mask, &x, channels as u32);
                let (error, at) = elementwise(&got, &expected);
                let allowed = (2.0 * plain + 8.0 * f64::from(f32::EPSILON)).min(2e-6);
                assert!(
                    error <= allowed,
                    "{name}, λ = {lambda}, {device}: element {at} is {:e}, expected {:e}; error {error:.2e}, plain {plain:.2e}",
                    got[at],
                    expected[at]
                );
            }
        }
    }
}

#[test]
fn heads_and_batches_are_worked_apart() {
    let forest = uneven(&random_tree(500, 8).expect("made"), 2);
    let mask = TreeMask::exponential(forest.clone(), 0.3).expect("sound");
    let x = wide(2 * 3 * 500 * 4, 5);
    for (device, backend) in devices() {
        let mut graph = Graph::new("heads");
        let input = graph.input("x", [2, 3, 500, 4], DType::F32);
        let out = mask.apply(&mut graph, input).expect("it records");
        let turned = mask.apply_transposed(&mut graph, input).expect("it records");
        [out, turned].iter().for_each(|t| graph.output(*t).expect("a transient"));
        let mut program = backend.compile(&graph).expect("it compiles");
        program.write(input, &HostTensor::f32(input.shape(), single(&x)).expect("fits")).expect("fits");
        program.run().expect("it runs");
        let got = program.read(out).expect("an output").to_f64();
        for (head, (got, x)) in got.chunks(2000).zip(x.chunks(2000)).enumerate() {
            let expected = oracle::exponential(&forest, 0.3, x, 4).expect("sound");
            assert!(elementwise(got, &expected).0 < 2e-6, "{device}, head {head}");
        }
        assert_eq!(got, program.read(turned).expect("an output").to_f64(), "{device}: a symmetric mask");
    }
}

#[test]
fn a_million_nodes_take_a_dozen_dispatches() {
    let n = 1_000_000;
    let hub = star_of(n, n as u32 - 1);
    let list = [
        ("path", caterpillar(n, n).expect("made"), 7),
        ("star", hub, 9),
        ("random", random_tree(n, 1).expect("made"), 9),
        ("recursive", recursive_tree(n, 1).expect("made"), 9),
        ("binary", binary_tree(n).expect("made"), 9),
        ("lone nodes", Forest::from_parents(&vec![NONE; n], None).expect("sound"), 1),
    ];
    for (name, forest, most) in list {
        let mask = TreeMask::exponential(forest.clone(), 0.1).expect("sound");
        let (graph, _, _) = product(&mask, 8).expect("it records");
        assert!(graph.passes().len() <= most, "{name}: {} dispatches", graph.passes().len());
        let pieces = Pieces::new(&forest);
        let mut seen = vec![false; n];
        let lowest = &pieces.levels()[0];
        lowest.links.chunks(2).for_each(|l| seen[l[0] as usize] = true);
        assert!(lowest.spots() == n && seen.iter().all(|s| *s), "{name}: every node has one spot");
        for level in pieces.levels() {
            assert!(
                level.pieces.chunks(4).all(|p| (1..=64).contains(&(p[1] & 0xffff))),
                "{name}: sizes of pieces"
            );
        }
    }
}

#[test]
fn large_trees_come_out_on_every_device() {
    let n = 100_000;
    let list = [
        ("path", caterpillar(n, n).expect("made")),
        ("star", star_of(n, 0)),
        ("random", random_tree(n, 2).expect("made")),
    ];
    for (name, forest) in list {
        let forest = uneven(&forest, 1);
        let x = wide(n * 4, 3);
        let expected = oracle::exponential(&forest, 0.2, &x, 4).expect("sound");
        let mask = TreeMask::exponential(forest, 0.2).expect("sound");
        for (device, backend) in devices() {
            let error = elementwise(&applied(backend.as_ref(), &mask, &x, 4), &expected).0;
            assert!(error < 2e-6, "{name}, {device}: {error:.2e}");
        }
    }
}

/// Large enough for rows to be put in order before the sweeps of a sum of exponentials.
#[test]
fn rows_put_in_order_come_back() {
    let forest = random_tree(70_000, 6).expect("made");
    let x = wide(70_000 * 4, 8);
    let pieces = Pieces::new(&forest);
    assert!(pieces.is_scattered());
    let mask = TreeMask::smooth(forest.clone(), Arc::new(|d| 1.0 / (1.0 + d))).expect("sound");
    let terms = mask.fit().expect("a sum").terms.clone();
    assert!(terms.len() > 2);
    let mut expected = vec![0.0; x.len()];
    for (weight, rate) in terms {
        let sum = oracle::exponential(&forest, rate, &x, 4).expect("sound");
        expected.iter_mut().zip(sum).for_each(|(e, s)| *e += weight * s);
    }
    for (device, backend) in devices() {
        let error = elementwise(&applied(backend.as_ref(), &mask, &x, 4), &expected).0;
        assert!(error < 2e-6, "{device}: {error:.2e}");
    }
    let along = forest.renumbered(&pieces.order()).expect("an order");
    let again = Pieces::new(&along).order();
    let next = again.windows(2).filter(|pair| pair[1] == pair[0] + 1).count();
    assert!(
        !Pieces::new(&along).is_scattered() && next * 20 > 19 * again.len(),
        "pieces lie in one stretch each"
    );
    let (old, new) = (oracle::distances_from(&forest, pieces.order()[5]), oracle::distances_from(&along, 5));
    assert!(pieces.order().iter().zip(new).all(|(node, d)| old[*node as usize] == d), "the same distances");
    forest.renumbered(&[0; 70_000]).expect_err("one node twice");
    forest.renumbered(&[1, 0]).expect_err("too few");
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
            other => panic!("{name} holds {}", other.dtype()),
        }
    }

    fn forest(&self, prefix: &str, weighted: bool) -> Forest {
        let parents: Vec<u32> =
            self.numbers(&format!("{prefix}parent")).iter().map(|p| *p as i64 as u32).collect();
        let lengths = weighted.then(|| single(&self.numbers(&format!("{prefix}weight"))));
        Forest::from_parents(&parents, lengths.as_deref()).expect("a forest")
    }

    /// Attention over the stored queries, keys and values.
    fn attended(&self, prefix: &str, backend: &dyn Backend, mask: &TreeMask) -> Vec<f64> {
        let mut graph = Graph::new("attention over a tree");
        let n = mask.tokens();
        let given: Vec<(Tensor, HostTensor)> = ["Q", "K", "V"]
            .into_iter()
            .map(|name| {
                let numbers = single(&self.numbers(&format!("{prefix}{name}")));
                let data = HostTensor::f32([1, 1, n, numbers.len() as u32 / n], numbers).expect("a matrix");
                (graph.input(name, data.shape(), DType::F32), data)
            })
            .collect();
        let qkv = (given[0].0, given[1].0, given[2].0);
        let out = attend(&mut graph, mask, qkv, Masks::default(), 2).expect("it records");
        graph.output(out).expect("a transient");
        let mut program = backend.compile(&graph).expect("it compiles");
        given.iter().for_each(|(tensor, data)| program.write(*tensor, data).expect("fits"));
        program.run().expect("it runs");
        program.read(out).expect("an output").to_f64()
    }
}

const STORED: [&str; 5] = ["path", "star", "caterpillar", "random", "binary"];

#[test]
fn stored_decaying_masks_come_out() {
    for shape in STORED {
        let file = File::open(&format!("tree_exp_{shape}"));
        for n in [1, 2, 7, 200] {
            let prefix = format!("n{n}_");
            let forest = file.forest(&prefix, true);
            let v = file.numbers(&format!("{prefix}V"));
            for (l, lambda) in file.numbers(&format!("{prefix}lambda")).into_iter().enumerate() {
                let mask = TreeMask::exponential(forest.clone(), lambda).expect("sound");
                for (device, backend) in devices() {
                    let what = format!("{shape}, {n} nodes, λ = {lambda}, {device}");
                    let error = overall(
                        &applied(backend.as_ref(), &mask, &v, 3),
                        &file.numbers(&format!("{prefix}MV_l{l}")),
                    );
                    assert!(error < 1e-6, "{what}: products {error:.2e}");
                    let out = file.attended(&prefix, backend.as_ref(), &mask);
                    let error = overall(&out, &file.numbers(&format!("{prefix}Out_l{l}")));
                    assert!(error < 1e-6, "{what}: attention {error:.2e}");
                }
            }
        }
    }
}

#[test]
fn stored_masks_of_any_distance_come_out_all_ways() {
    for shape in STORED {
        let file = File::open(&format!("tree_general_{shape}"));
        for n in [1, 2, 7, 120] {
            let prefix = format!("n{n}_");
            let forest = file.forest(&prefix, false);
            let v = file.numbers(&format!("{prefix}V"));
            for rule in ["inv", "step", "signed"] {
                let f = file.numbers(&format!("{prefix}f_{rule}"));
                for path in [TreePath::Balls, TreePath::Levels, TreePath::Cuts] {
                    let mask = TreeMask::of_distance_by(forest.clone(), &f, Some(path)).expect("sound");
                    assert_eq!(mask.path(), path);
                    for (device, backend) in devices() {
                        let what = format!("{shape}, {n} nodes, {rule}, {path}, {device}");
                        let error = overall(
                            &applied(backend.as_ref(), &mask, &v, 3),
                            &file.numbers(&format!("{prefix}MV_{rule}")),
                        );
                        assert!(error < 2e-6, "{what}: products {error:.2e}");
                        if rule != "signed" {
                            let out = file.attended(&prefix, backend.as_ref(), &mask);
                            let error = overall(&out, &file.numbers(&format!("{prefix}Out_{rule}")));
                            assert!(error < 4e-6, "{what}: attention {error:.2e}");
                        }
                    }
                }
            }
        }
    }
}

#[test]
fn any_function_of_the_distance_comes_out_on_all_shapes() {
    let tables: [(&str, Weight); 4] = [
        ("falling", |d| (-0.2 * d).exp()),
        ("three steps", |d| f64::from(u8::from(d <= 3.0))),
        ("signs", |d| (0.8 * d).cos()),
        ("slow", |d| 1.0 / (1.0 + d)),
    ];
    for (name, forest) in shapes() {
        let unit = Forest::from_parents(forest.parents(), None).expect("the same");
        let cuts = Centroids::new(&unit);
        for (k, (rule, f)) in tables.into_iter().enumerate() {
            let table: Vec<f64> = (0..=unit.diameter()).map(|d| f(f64::from(d))).collect();
            let channels = [4, 3, 8, 2][k];
            let x = units(unit.nodes() * channels, 4);
            let single_table: Vec<f64> = table.iter().map(|w| f64::from(*w as f32)).collect();
            let expected = oracle::by_centroids(&unit, &cuts, &single_table, &x, channels).expect("sound");
            // Lengths do not count.
            // As many levels as a path has steps would be as many passes.
            let low = unit.diameter() <= 64;
            for path in [TreePath::Cuts, TreePath::Levels].into_iter().take(1 + usize::from(low)) {
                let mask = TreeMask::of_distance_by(forest.clone(), &table, Some(path)).expect("sound");
                for (device, backend) in devices() {
                    let error = overall(&applied(backend.as_ref(), &mask, &x, channels as u32), &expected);
                    assert!(error < 4e-6, "{name}, {rule}, {path}, {device}: {error:.2e}");
                }
            }
            let chosen = TreeMask::of_distance(forest.clone(), &table).expect("sound");
            if chosen.path() == TreePath::Balls && k < 2 {
                let got = applied(devices()[0].1.as_ref(), &chosen, &x, channels as u32);
                assert!(elementwise(&got, &expected).0 < 1e-9, "{name}, {rule}, balls");
            }
        }
    }
}

#[test]
fn the_cheaper_way_is_chosen() {
    let of = |forest: Forest, steps: usize| {
        TreeMask::of_distance(forest, &vec![1.0; steps]).expect("sound").path()
    };
    let path = || caterpillar(2000, 2000).expect("made");
    assert_eq!(of(path(), 4), TreePath::Balls);
    assert_eq!(of(path(), 40), TreePath::Cuts);
    assert_eq!(of(path(), 1), TreePath::Balls);
    // A star reaches everything in two steps.
    assert_eq!(of(star_of(2000, 0), 3), TreePath::Cuts);
    assert_eq!(of(star_of(40, 0), 3), TreePath::Balls);
    let zeros = TreeMask::of_distance(path(), &[0.0, 0.0]).expect("sound");
    assert_eq!(applied(devices()[0].1.as_ref(), &zeros, &[1.0; 2000], 1), vec![0.0; 2000]);
}

#[test]
fn weights_and_matrices_are_the_definition() {
    let parts = [random_tree(23, 1).expect("made"), caterpillar(1, 1).expect("made"), star_of(8, 0)];
    let batch = Network::batch(&parts.map(|f| f.network().expect("a tree"))).expect("sound");
    let forest = uneven(&Forest::from_network(&batch, &[]).expect("a forest"), 6);
    let n = forest.nodes();
    let masks = [
        TreeMask::exponential(forest.clone(), 0.4).expect("sound"),
        TreeMask::smooth(forest.clone(), Arc::new(|d| 1.0 / (1.0 + d))).expect("sound"),
        TreeMask::of_distance_by(forest.clone(), &[1.0, 0.5, 0.25], Some(TreePath::Balls)).expect("sound"),
        TreeMask::of_distance_by(forest.clone(), &[1.0, 0.5, 0.25], Some(TreePath::Levels)).expect("sound"),
        TreeMask::of_distance_by(forest.clone(), &[1.0, 0.5, 0.25], Some(TreePath::Cuts)).expect("sound"),
    ];
    for mask in masks {
        let what = mask.describe();
        let all = mask.dense(0);
        let roots = forest.roots();
        for (at, weight) in all.iter().enumerate() {
            let (i, j) = (at / n, at % n);
            assert_eq!(*weight, mask.weight(0, i as u32, j as u32), "{what}");
            assert_eq!(*weight, all[j * n + i], "{what}: symmetric");
            assert!(roots[i] == roots[j] || *weight == 0.0, "{what}: {i} and {j} are not of one tree");
        }
        let eye: Vec<f64> = (0..n * n).map(|at| f64::from(u8::from(at / n == at % n))).collect();
        for (device, backend) in devices() {
            let error = overall(&applied(backend.as_ref(), &mask, &eye, n as u32), &all);
            assert!(error < 1e-6, "{what}, {device}: {error:.2e}");
        }
    }
}

/// Trees one after the other as one forest.
fn forest_of(trees: &[Forest]) -> Forest {
    let (mut parents, mut lengths) = (Vec::new(), Vec::new());
    for tree in trees {
        let first = parents.len() as u32;
        parents.extend(tree.parents().iter().map(|p| if *p == NONE { NONE } else { p + first }));
        lengths.extend_from_slice(tree.lengths());
    }
    Forest::from_parents(&parents, Some(&lengths)).expect("sound")
}

#[test]
fn a_batch_of_trees_is_each_tree_alone() {
    let lone = || caterpillar(1, 1).expect("made");
    let grown = |n: usize, seed: u32| uneven(&random_tree(n, seed.into()).expect("made"), seed);
    // The largest in the middle; the last one short of a piece, and once more a lone node last.
    let trees = [
        lone(),
        grown(300, 1),
        star_of(50, 3),
        grown(900, 2),
        caterpillar(200, 150).expect("made"),
        grown(29, 4),
    ];
    let other_end = [grown(29, 4), uneven(&binary_tree(127).expect("made"), 5), lone()];
    let table = [1.0, 0.75, 0.5, 0.25, 0.125];
    type Make = fn(Forest, &[f64]) -> wgattn::Result<TreeMask>;
    let kinds: [(&str, Make); 5] = [
        ("exponential", |forest, _| TreeMask::exponential(forest, 0.4)),
        ("smooth", |forest, _| TreeMask::smooth(forest, Arc::new(|d| 1.0 / (1.0 + d)))),
        ("balls", |forest, f| TreeMask::of_distance_by(forest, f, Some(TreePath::Balls))),
        ("levels", |forest, f| TreeMask::of_distance_by(forest, f, Some(TreePath::Levels))),
        ("cuts", |forest, f| TreeMask::of_distance_by(forest, f, Some(TreePath::Cuts))),
    ];
    for trees in [&trees[..], &other_end] {
        let forest = forest_of(trees);
        assert_eq!(forest.trees(), trees.len());
        let channels = 4;
        let x = units(forest.nodes() * channels, 7);
        for (kind, make) in kinds {
            let batch = make(forest.clone(), &table).expect("sound");
            let alone: Vec<Arc<TreeMask>> =
                trees.iter().map(|tree| Arc::new(make(tree.clone(), &table).expect("sound"))).collect();
            let blocks = alone.iter().map(|mask| Arc::clone(mask) as SharedMask).collect();
            let blocks = BlockDiagonal::new(blocks).expect("sound");
            // Fits of a forest and of its trees differ by what both are off; sums of positive terms keep elements, the others the largest.
            let fit = |mask: &TreeMask| mask.fit().map_or(0.0, |sum| sum.error);
            let allowed = 2e-6 + 2.0 * (fit(&batch) + alone.iter().map(|m| fit(m)).fold(0.0, f64::max));
            let error = |got: &[f64], wanted: &[f64]| match batch.exactness() {
                Exactness::Relative => elementwise(got, wanted).0,
                Exactness::Noise => overall(got, wanted),
            };
            for (device, backend) in devices() {
                let all = applied(backend.as_ref(), &batch, &x, channels as u32);
                let mut first = 0;
                for (mask, tree) in alone.iter().zip(trees) {
                    let range = channels * first..channels * (first + tree.nodes());
                    let single = applied(backend.as_ref(), mask.as_ref(), &x[range.clone()], channels as u32);
                    let error = error(&all[range], &single);
                    assert!(error < allowed, "{kind}, {device}, tree from node {first}: {error:.2e}");
                    first += tree.nodes();
                }
                assert_eq!(first, forest.nodes(), "the last tree is looked at");
                let error = error(&all, &applied(backend.as_ref(), &blocks, &x, channels as u32));
                assert!(error < allowed, "{kind}, {device}, block diagonal: {error:.2e}");
            }
        }
    }
}

#[test]
fn smooth_masks_are_as_good_as_their_fit_says() {
    let profiles: [(&str, Weight); 4] = [
        ("1/(1+d)", |d| 1.0 / (1.0 + d)),
        ("(1+d)^-2", |d| (1.0 + d).powi(-2)),
        ("exp(-sqrt d)", |d| (-d.sqrt()).exp()),
        ("1/(1+log(1+d))", |d| 1.0 / (1.0 + d.ln_1p())),
    ];
    let trees = [
        ("path", caterpillar(2001, 2001).expect("made")),
        ("random", random_tree(2000, 5).expect("made")),
        ("weighted", uneven(&random_tree(500, 5).expect("made"), 3)),
        ("one node", caterpillar(1, 1).expect("made")),
    ];
    for (name, forest) in trees {
        for (rule, f) in profiles {
            let mask = TreeMask::smooth(forest.clone(), Arc::new(f)).expect("a smooth function");
            let fit = mask.fit().expect("a sum").clone();
            assert!(mask.exactness() == Exactness::Relative && mask.path() == TreePath::SumOfSweeps);
            assert!(
                fit.error < 2e-5 && fit.terms.len() <= 45,
                "{name}, {rule}: {:e}, {}",
                fit.error,
                fit.terms.len()
            );
            let x = units(2 * forest.nodes(), 1);
            let expected = oracle::dense(&forest, f, &x, 2).expect("sound");
            for (device, backend) in devices() {
                let error = elementwise(&applied(backend.as_ref(), &mask, &x, 2), &expected).0;
                // Between the fitted lengths the fit may be off by a little more.
                assert!(
                    error < 2.0 * fit.error + 2e-6,
                    "{name}, {rule}, {device}: {error:.2e}, fit {:.2e}",
                    fit.error
                );
            }
        }
    }
}

/// Largest relative errors of the method's table (2.6d), or better; what is rounding there may be a few roundings more here.
#[test]
fn sums_of_exponentials_reach_the_known_errors() {
    let rules: [(&str, Weight, [f64; 3]); 4] = [
        ("1/(1+d)", |d| 1.0 / (1.0 + d), [1e-13, 1e-13, 1e-13]),
        ("(1+d)^-2", |d| (1.0 + d).powi(-2), [1e-13, 1e-13, 1e-13]),
        ("exp(-sqrt d)", |d| (-d.sqrt()).exp(), [1e-13, 1e-13, 8.5e-6]),
        ("1/(1+log(1+d))", |d| 1.0 / (1.0 + d.ln_1p()), [1e-13, 1e-13, 1e-13]),
    ];
    let mut wrong = Vec::new();
    for (name, f, allowed) in rules {
        for (longest, allowed) in [30, 200, 2000].into_iter().zip(allowed) {
            let best = Exponentials::on_steps(f, longest, 0.0).expect("positive");
            let short = Exponentials::on_steps(f, longest, 1e-7).expect("positive");
            println!(
                "{name} to {longest}: {:.1e} with {} terms; {:.1e} with {}",
                best.error,
                best.terms.len(),
                short.error,
                short.terms.len()
            );
            let all: f64 =
                (0..=longest).map(f64::from).map(|d| (best.at(d) / f(d) - 1.0).abs()).fold(0.0, f64::max);
            if all > allowed || best.terms.iter().any(|t| t.0 <= 0.0 || t.1 < 0.0) {
                wrong.push(format!("{name} to {longest}: {all:.1e} with {} terms", best.terms.len()));
            }
            if short.terms.len() > best.terms.len() {
                wrong.push(format!("{name} to {longest}: {} terms for f32", short.terms.len()));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn least_squares_stay_above_zero_and_cannot_be_bettered() {
    // The free solution is (2, −1): the second stays at 0.
    let x = nonnegative_least_squares(&[1.0, 1.0, 1.0, 0.0, 0.0, 1.0], &[1.0, 2.0, -1.0]).expect("sound");
    assert!((x[0] - 1.5).abs() < 1e-12 && x[1] == 0.0, "{x:?}");
    for seed in 0..20 {
        let (rows, columns) = (12 + seed as usize, 5 + seed as usize % 9);
        let a: Vec<f64> = units(rows * columns, seed).into_iter().map(|u| 2.0 * u - 1.0).collect();
        let b: Vec<f64> = units(rows, 100 + seed).into_iter().map(|u| 2.0 * u - 1.0).collect();
        let x = nonnegative_least_squares(&a, &b).expect("sound");
        let left: Vec<f64> =
            (0..rows).map(|i| b[i] - (0..columns).map(|k| a[i * columns + k] * x[k]).sum::<f64>()).collect();
        for k in 0..columns {
            let gain: f64 = (0..rows).map(|i| a[i * columns + k] * left[i]).sum();
            assert!(x[k] >= 0.0 && gain < 1e-9, "seed {seed}: column {k} is {} and gains {gain:e}", x[k]);
            assert!(x[k] == 0.0 || gain.abs() < 1e-9, "seed {seed}: column {k} gains {gain:e}");
        }
    }
    nonnegative_least_squares(&[1.0, 2.0, 3.0], &[1.0, 2.0]).expect_err("no whole columns");
    nonnegative_least_squares(&[], &[]).expect_err("no rows");
}

#[test]
fn what_cannot_be_done_is_said() {
    let message = |result: wgattn::Result<TreeMask>| result.expect_err("refused").to_string();
    let path = |n: usize| caterpillar(n, n).expect("made");
    assert!(message(TreeMask::exponential(path(1000), -0.1)).contains("99.9"));
    assert!(message(TreeMask::exponential(path(100), -0.1)).contains("at least 0"));
    assert!(message(TreeMask::exponential(path(100), f64::NAN)).contains("finite"));
    let empty = || Forest::from_parents(&[], None).expect("sound");
    assert!(message(TreeMask::exponential(empty(), 1.0)).contains("nodes of a tree mask"));
    assert!(message(TreeMask::of_distance(empty(), &[1.0])).contains("nodes of a tree mask"));
    assert!(message(TreeMask::of_distance(path(4), &[1.0, f64::INFINITY])).contains("weight at 1 steps"));
    assert!(message(TreeMask::smooth(path(100), Arc::new(|d| (-0.01 * d * d).exp()))).contains("fit"));
    assert!(message(TreeMask::smooth(path(100), Arc::new(|d| 1.0 - 0.1 * d))).contains("above 0"));
    assert!(
        message(TreeMask::of_distance_by(path(4), &[1.0], Some(TreePath::Sweeps)))
            .contains("balls, levels or cuts")
    );
    let mask = TreeMask::exponential(path(5), 1.0).expect("sound");
    let mut graph = Graph::new("other tokens");
    let x = graph.input("x", [1, 1, 4, 2], DType::F32);
    let said = mask.apply(&mut graph, x).expect_err("other tokens").to_string();
    assert!(said.contains("[batch, heads, 5, channels]"), "{said}");
}
