//! `wgattn eval` with masks and graph attention layers, against dense matrices in f64.

use super::*;
use wgattn::mask::MaskSpec;
use wgattn::topology::build::{Extreme, spanning_forest};
use wgattn::topology::tree::oracle;
use wgattn::topology::{Forest, Network, distance, kernel};

/// Zachary's karate club, 34 nodes.
const KARATE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/assets/graphs/karate.csv");

/// Edges of 9 nodes: a ring with chords and a loop, a pair, and a node by itself.
const EDGES: [(u32, u32, f32); 9] = [
    (0, 1, 1.0),
    (1, 2, 0.5),
    (2, 3, 2.0),
    (3, 4, 1.5),
    (4, 5, 1.0),
    (5, 0, 0.25),
    (1, 4, 3.0),
    (2, 2, 0.5),
    (6, 7, 1.25),
];
const N: usize = 9;

fn singles(shape: &[usize], values: &[f64]) -> Array {
    Array { shape: shape.to_vec(), data: ArrayData::F32(values.iter().map(|x| *x as f32).collect()) }
}

/// Numbers of 0.1 to 1.1 that a single holds.
fn numbers(count: usize, seed: usize) -> Vec<f64> {
    (0..count).map(|i| f64::from((0.1 + ((i * 37 + seed * 101) % 97) as f64 / 97.0) as f32)).collect()
}

fn list_of(array: &Array) -> Vec<f64> {
    match &array.data {
        ArrayData::F32(v) => v.iter().map(|x| f64::from(*x)).collect(),
        ArrayData::F64(v) => v.clone(),
        other => panic!("the result is {}", other.dtype()),
    }
}

fn write(folder: &Folder, name: &str, entries: &[(&str, Array)]) {
    let map: BTreeMap<String, Array> = entries.iter().map(|(n, a)| ((*n).to_string(), a.clone())).collect();
    arrays::write(folder.at(name), &map).expect("arrays are written");
}

/// The edges as arrays, with what is computed.
fn with_edges(more: &[(&'static str, Array)]) -> Vec<(&'static str, Array)> {
    let words = EDGES.iter().flat_map(|e| [e.0, e.1]).collect();
    let weights = EDGES.iter().map(|e| f64::from(e.2)).collect::<Vec<_>>();
    let edges = Array { shape: vec![EDGES.len(), 2], data: ArrayData::U32(words) };
    let mut list = vec![("edges", edges), ("weights", singles(&[EDGES.len()], &weights))];
    list.extend_from_slice(more);
    list
}

fn eval(folder: &Folder, name: &str, more: &[&str]) -> Run {
    let base = ["eval", name, "--inputs", "in.npz", "--device", "cpu", "--out", "out.npz"];
    folder.run(&[&base[..], more].concat())
}

#[track_caller]
fn result(folder: &Folder, name: &str, shape: &[usize], expected: &[f64], allowed: f64) {
    let array = &arrays::read(folder.at("out.npz")).expect("results")["y"];
    assert_eq!(array.shape, shape, "{name}");
    let most = expected.iter().fold(1.0, |m: f64, x| m.max(x.abs()));
    for (at, (got, wanted)) in list_of(array).iter().zip(expected).enumerate() {
        assert!((got - wanted).abs() <= allowed * most, "{name}: element {at} is {got}, expected {wanted}");
    }
}

fn product(a: &[f64], x: &[f64], n: usize) -> Vec<f64> {
    let c = x.len() / n;
    (0..n * c).map(|at| (0..n).map(|j| a[at / c * n + j] * x[j * c + at % c]).sum()).collect()
}

fn turned(a: &[f64], n: usize) -> Vec<f64> {
    (0..n * n).map(|at| a[at % n * n + at / n]).collect()
}

/// exp(A) by a Taylor series of A / 2¹² and squares.
fn exponential(a: &[f64], n: usize) -> Vec<f64> {
    let eye: Vec<f64> = (0..n * n).map(|at| f64::from(u8::from(at % (n + 1) == 0))).collect();
    let small: Vec<f64> = a.iter().map(|x| x / 4096.0).collect();
    let (mut sum, mut term) = (eye.clone(), eye);
    for k in 1..20 {
        term = product(&term, &small, n).iter().map(|x| x / f64::from(k)).collect();
        sum.iter_mut().zip(&term).for_each(|(s, t)| *s += t);
    }
    (0..12).fold(sum, |m, _| product(&m, &m, n))
}

/// Attention by the definition: q, k `[n, r]`, v `[n, e]`.
fn attended(m: &[f64], [q, k, v]: [&[f64]; 3], n: usize) -> Vec<f64> {
    let (r, e) = (q.len() / n, v.len() / n);
    let mut out = vec![0.0; n * e];
    for i in 0..n {
        let weight = |j: usize| m[i * n + j] * (0..r).map(|c| q[i * r + c] * k[j * r + c]).sum::<f64>();
        let sum: f64 = (0..n).map(weight).sum();
        if sum > 0.0 {
            (0..e).for_each(|c| out[i * e + c] = (0..n).map(|j| weight(j) * v[j * e + c]).sum::<f64>() / sum);
        }
    }
    out
}

/// −tL of a network, by the definition; loops do not count.
fn minus_laplacian(network: &Network, t: f64, kind: &str) -> Vec<f64> {
    let n = network.nodes();
    let mut out = vec![0.0; n * n];
    let between =
        |i: usize, j: usize| if i == j { 0.0 } else { f64::from(network.between(i as u32, j as u32)) };
    let degree: Vec<f64> = (0..n).map(|i| (0..n).map(|j| between(i, j)).sum()).collect();
    for (i, j) in (0..n).flat_map(|i| (0..n).map(move |j| (i, j))) {
        let own = if i == j { degree[i] } else { 0.0 };
        let l = own - between(i, j);
        out[i * n + j] = -t
            * match kind {
                "symmetric" if degree[i] * degree[j] > 0.0 => l / (degree[i] * degree[j]).sqrt(),
                "random-walk" if degree[i] > 0.0 => l / degree[i],
                "combinatorial" => l,
                _ => 0.0,
            };
    }
    out
}

#[test]
fn masks_along_edges_are_their_dense_matrices() {
    let folder = Folder::new("eval-masks");
    let network = Network::undirected_weighted(N, &EDGES).expect("sound");
    let heat = |t, kind| exponential(&minus_laplacian(&network, t, kind), N);
    let features = kernel::walk_features(&network, 4, 0.75).expect("sound");
    let walk = |name: &str| name.parse::<kernel::Normalisation>().expect("a name").mask(&features, N);
    let step: Vec<f64> = (0..N)
        .flat_map(|i| {
            let row: Vec<f64> = (0..N).map(|j| f64::from(network.between(i as u32, j as u32))).collect();
            let sum: f64 = row.iter().sum();
            // A walker in a node without edges stays.
            (0..N).map(move |j| if sum > 0.0 { row[j] / sum } else { f64::from(u8::from(i == j)) })
        })
        .collect();
    let steps = distance::steps::<u8>(&network).expect("few nodes");
    let near = steps.iter().map(|d| if *d <= 2 { (-f64::from(*d) / 1.5).exp() } else { 0.0 }).collect();
    let eye: Vec<f64> = (0..N * N).map(|at| f64::from(u8::from(at % (N + 1) == 0))).collect();
    let forest = spanning_forest(&network, Extreme::Least).expect("undirected");
    let tree = |f: fn(f64) -> f64| oracle::dense(&forest, f, &eye, N).expect("sound");
    let cases: [(&str, Vec<f64>); 12] = [
        ("diffusion:t=10,rtol=1e-7", heat(10.0, "combinatorial")),
        ("diffusion:t=10,laplacian=symmetric,rtol=1e-7", heat(10.0, "symmetric")),
        ("diffusion:t=0.5,laplacian=random-walk,rtol=1e-7", heat(0.5, "random-walk")),
        ("diffusion:t=0", eye.clone()),
        ("walk:nodes=4,lambda=0.75,normalise=cosine", walk("cosine")),
        ("walk:nodes=4,lambda=0.75,normalise=diag", walk("diag")),
        ("pagerank:restart=0.2,rtol=1e-7", kernel::pagerank(&network, 0.2).expect("sound")),
        ("steps:p=0", eye.clone()),
        ("steps:p=3", product(&step, &product(&step, &step, N), N)),
        ("spd:profile=exp,size=1.5,hops=2", near),
        ("tree:rate=0.3", tree(|d| (-0.3 * d).exp())),
        ("tree:profile=inverse,size=2", tree(|d| 1.0 / (1.0 + d / 2.0))),
    ];
    let (x, q, k, v) = (numbers(3 * N, 1), numbers(2 * N, 2), numbers(2 * N, 3), numbers(3 * N, 4));
    for (mask, m) in &cases {
        write(&folder, "in.npz", &with_edges(&[("x", singles(&[N, 3], &x))]));
        let run = eval(&folder, mask, &[]).done();
        assert!(run.stdout.contains("y [9, 3] -> out.npz") && run.stderr.contains("note: "), "{}", run.all());
        assert_eq!(run.stderr.contains("taken as lengths"), mask.starts_with("tree"), "{}", run.all());
        // Heat of an f32 series, and fits of 1e-7.
        result(&folder, mask, &[N, 3], &product(m, &x, N), 2e-6);
        eval(&folder, mask, &["--transposed"]).done();
        result(&folder, mask, &[N, 3], &product(&turned(m, N), &x, N), 2e-6);
        let qkv = [("q", singles(&[N, 2], &q)), ("k", singles(&[N, 2], &k)), ("v", singles(&[N, 3], &v))];
        write(&folder, "in.npz", &with_edges(&qkv));
        eval(&folder, mask, &[]).done();
        result(&folder, mask, &[N, 3], &attended(m, [&q, &k, &v], N), 2e-6);
    }
    // exp(tA) is told to have a factor per component: rows divided by their sums are those of the definition.
    let a: Vec<f64> =
        (0..N * N).map(|at| 0.5 * f64::from(network.between((at / N) as u32, (at % N) as u32))).collect();
    let run = eval(&folder, "communicability:t=0.5,rtol=1e-7", &[]).done();
    assert!(run.stderr.contains("a factor for each component"), "{}", run.all());
    result(&folder, "exp(tA)", &[N, 3], &attended(&exponential(&a, N), [&q, &k, &v], N), 2e-6);
    // Tables of distances count steps, and lengths that they do not look at are told.
    let run = eval(&folder, "tree:profile=window,size=1", &[]).done();
    assert!(run.stderr.contains("by the number of steps along it, whatever their lengths"), "{}", run.all());
    let all = oracle::dense(
        &Forest::from_parents(forest.parents(), None).expect("the same"),
        |d| f64::from(u8::from(d <= 1.0)),
        &eye,
        N,
    );
    result(&folder, "window", &[N, 3], &attended(&all.expect("sound"), [&q, &k, &v], N), 2e-6);
    // One way only: from 0 to 1 and no farther in one step.
    let one_way = Array { shape: vec![2, 2], data: ArrayData::I32(vec![0, 1, 1, 2]) };
    write(&folder, "in.npz", &[("edges", one_way), ("x", singles(&[3, 1], &[1.0, 10.0, 100.0]))]);
    eval(&folder, "steps:p=1", &["--directed"]).done();
    result(&folder, "one way", &[3, 1], &[10.0, 100.0, 0.0], 0.0);
}

#[test]
fn masks_by_relative_position_are_their_tables() {
    let folder = Folder::new("eval-positions");
    for (mask, grid) in [
        ("none", None),
        ("causal", None),
        ("decay:0.8", None),
        ("decay:0.8,both", Some("3x4")),
        ("separable:rows=2,cols=3", Some("3x4")),
        ("toeplitz:gauss,size=2", Some("3x4")),
        ("toeplitz:exp,size=2,distance=l1,torus,causal", Some("4x3")),
        ("stencil:3x3,0/1/2/3/4/5/6/7/8", Some("3x4")),
    ] {
        let sides = match grid {
            None => vec![12],
            Some("4x3") => vec![4, 3],
            Some(_) => vec![3, 4],
        };
        let spec: MaskSpec = mask.parse().expect(mask);
        let m: Vec<f64> = (0..12).flat_map(|i| spec.row(&sides, i).expect(mask)).map(f64::from).collect();
        let more: Vec<&str> = grid.map_or_else(Vec::new, |grid| vec!["--grid", grid]);
        // Batch and heads as they come: two heads, the second twice the first.
        let x = numbers(24, 5);
        let two: Vec<f64> = x.iter().copied().chain(x.iter().map(|x| 2.0 * x)).collect();
        write(&folder, "in.npz", &[("x", singles(&[1, 2, 12, 2], &two))]);
        let both = |m: &[f64]| {
            let y = product(m, &x, 12);
            y.iter().copied().chain(y.iter().map(|y| 2.0 * y)).collect::<Vec<f64>>()
        };
        eval(&folder, mask, &more).done();
        result(&folder, mask, &[1, 2, 12, 2], &both(&m), 1e-6);
        eval(&folder, mask, &[&more[..], &["--transposed"]].concat()).done();
        result(&folder, mask, &[1, 2, 12, 2], &both(&turned(&m, 12)), 1e-6);
        let (q, k, v) = (numbers(24, 6), numbers(24, 7), numbers(12, 8));
        write(
            &folder,
            "in.npz",
            &[("q", singles(&[12, 2], &q)), ("k", singles(&[12, 2], &k)), ("v", singles(&[12, 1], &v))],
        );
        eval(&folder, mask, &more).done();
        result(&folder, mask, &[12, 1], &attended(&m, [&q, &k, &v], 12), 2e-6);
    }
}

#[test]
fn graphs_are_named_as_elsewhere() {
    let folder = Folder::new("eval-graphs");
    let x = numbers(34, 1);
    write(&folder, "in.npz", &[("x", singles(&[34, 1], &x))]);
    eval(&folder, "steps:p=1", &["--graph", KARATE]).done();
    let edges: Vec<(u32, u32)> = fs::read_to_string(KARATE)
        .expect("the club")
        .lines()
        .skip(1)
        .map(|line| {
            let (from, to) = line.split_once(',').expect("two nodes");
            (from.parse().expect("a number"), to.trim().parse().expect("a number"))
        })
        .collect();
    let friends = |i: u32| {
        edges.iter().filter_map(move |(a, b)| if *a == i { Some(*b) } else { (*b == i).then_some(*a) })
    };
    let mean = |i: u32| friends(i).map(|j| x[j as usize]).sum::<f64>() / friends(i).count() as f64;
    result(&folder, "karate", &[34, 1], &(0..34).map(mean).collect::<Vec<_>>(), 1e-6);

    // A token's neighbours on a grid of 2 × 3, and a picture whose right column is of another colour.
    let ones = singles(&[6, 1], &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0]);
    write(&folder, "in.npz", &[("x", ones.clone())]);
    eval(&folder, "steps:p=1", &["--graph", "grid4", "--grid", "2x3"]).done();
    result(&folder, "grid4", &[6, 1], &[3.0, 3.0, 4.0, 3.0, 4.0, 4.0], 1e-6);
    let colours: Vec<f64> = (0..18).map(|at| f64::from(u8::from(at / 3 % 3 == 2))).collect();
    write(&folder, "in.npz", &[("x", ones), ("colours", singles(&[6, 3], &colours))]);
    eval(&folder, "steps:p=1", &["--graph", "image:sensitivity=40,reach=4", "--grid", "2x3"]).done();
    // The right column has itself alone, and the left part has next to nothing of it.
    result(&folder, "image", &[6, 1], &[3.0, 3.0, 6.0, 3.0, 3.0, 3.0], 1e-6);
}

#[test]
fn a_layer_of_graph_attention_is_the_definition() {
    let folder = Folder::new("eval-gkat");
    let network = Network::undirected_weighted(N, &EDGES).expect("sound");
    let (heads, inputs, width) = (2, 3, 2);
    let signed = |count, seed| numbers(count, seed).into_iter().map(|x| x - 0.6).collect::<Vec<f64>>();
    let x = signed(N * inputs, 1);
    let [query, key, value] = [2, 3, 4].map(|seed| signed(heads * inputs * width, seed));
    let [left, right] = [5, 6].map(|seed| signed(heads * width, seed));
    // By definition, head by head.
    let layer = |m: &[f64], additive: bool| {
        let project = |w: &[f64], h: usize| -> Vec<f64> {
            let w = &w[h * inputs * width..][..inputs * width];
            (0..N * width)
                .map(|at| (0..inputs).map(|c| x[at / width * inputs + c] * w[c * width + at % width]).sum())
                .collect()
        };
        let mut out = vec![0.0; N * heads * width];
        for h in 0..heads {
            let [q, k, v] = [&query, &key, &value].map(|w| project(w, h));
            let dot = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f64>();
            let row = |m: &[f64], i: usize| m[i * width..(i + 1) * width].to_vec();
            for i in 0..N {
                let score = |j: usize| match additive {
                    false => dot(&row(&q, i), &row(&k, j)) / (width as f64).sqrt(),
                    true => {
                        let sum = dot(&row(&v, i), &left[h * width..(h + 1) * width])
                            + dot(&row(&v, j), &right[h * width..(h + 1) * width]);
                        if sum > 0.0 { sum } else { 0.2 * sum }
                    }
                };
                let weight = |j: usize| m[i * N + j] * score(j).exp();
                let sum: f64 = (0..N).map(weight).sum();
                for c in 0..width {
                    let y = (0..N).map(|j| weight(j) * v[j * width + c]).sum::<f64>() / sum;
                    out[i * heads * width + h * width + c] = if y > 0.0 { y } else { y.exp_m1() };
                }
            }
        }
        out
    };
    let weights = |list: &[f64]| singles(&[heads, inputs, width], list);
    let nodes = [("x", singles(&[N, inputs], &x)), ("value", weights(&value))];
    let products = [&nodes[..], &[("query", weights(&query)), ("key", weights(&key))]].concat();
    let features = kernel::walk_features(&network, 4, 1.0).expect("sound");
    let cosine = layer(&kernel::Normalisation::Cosine.mask(&features, N), false);
    let columns = heads * width;
    write(&folder, "in.npz", &with_edges(&products));
    for name in ["gkat", "gkat:cosine:nodes=4"] {
        eval(&folder, name, &[]).done();
        result(&folder, name, &[N, columns], &cosine, 2e-6);
    }
    let additive = [("left", singles(&[heads, width], &left)), ("right", singles(&[heads, width], &right))];
    write(&folder, "in.npz", &with_edges(&[&nodes[..], &additive].concat()));
    eval(&folder, "gkat:adjacency", &[]).done();
    let joined: Vec<f64> = (0..N * N)
        .map(|at| (at / N, at % N))
        .map(|(i, j)| f64::from(u8::from(i == j || network.between(i as u32, j as u32) > 0.0)))
        .collect();
    result(&folder, "gat", &[N, columns], &layer(&joined, true), 2e-6);
    // Three graphs of a batch, and a number for each.
    let offsets = Array { shape: vec![4], data: ArrayData::U32(vec![0, 6, 8, 9]) };
    let readout = [
        ("offsets", offsets),
        ("readout", singles(&[columns, 1], &[1.0, -1.0, 0.5, 2.0])),
        ("bias", singles(&[1], &[0.25])),
    ];
    write(&folder, "in.npz", &with_edges(&[&products[..], &readout].concat()));
    eval(&folder, "gkat", &[]).done();
    result(&folder, "batch", &[N, columns], &cosine, 2e-6);
    let logits = &arrays::read(folder.at("out.npz")).expect("results")["logits"];
    assert_eq!(logits.shape, [3, 1]);
    for (graph, got) in [0..6, 6..8, 8..9].into_iter().zip(list_of(logits)) {
        let sum = |c: usize| graph.clone().map(|i| cosine[i * columns + c]).sum::<f64>() / graph.len() as f64;
        let wanted = sum(0) - sum(1) + 0.5 * sum(2) + 2.0 * sum(3) + 0.25;
        assert!((got - wanted).abs() < 2e-6, "{got}, expected {wanted}");
    }
    let offsets = Array { shape: vec![3], data: ArrayData::U32(vec![0, 5, 9]) };
    write(&folder, "in.npz", &with_edges(&[&products[..], &[("offsets", offsets)]].concat()));
    eval(&folder, "gkat", &[]).refused(&["gkat", "edges within the graphs", "0 → 5"]);
    let offsets = Array { shape: vec![2], data: ArrayData::U32(vec![0, 5]) };
    write(&folder, "in.npz", &with_edges(&[&products[..], &[("offsets", offsets)]].concat()));
    eval(&folder, "gkat", &[]).refused(&["the last of them the 9 nodes", "[2] that ends with 5;"]);
    eval(&folder, "gkat:softmax", &[]).refused(&["softmax", "adjacency"]);
}

#[test]
fn masks_are_listed_and_described() {
    let folder = Folder::new("eval-mask-list");
    let list = folder.run(&["eval", "--list"]).done().stdout;
    for kind in ["none", "toeplitz", "diffusion", "walk", "pagerank", "steps", "tree", "spd", "gkat"] {
        assert!(list.lines().any(|l| l.split_whitespace().next() == Some(kind)), "{kind}: {list}");
        let text = folder.run(&["eval", "--describe", kind]).done().stdout;
        for words in ["in  x ", "out y ", "source: "] {
            assert!(text.contains(words), "{kind}: {text}");
        }
    }
    folder.run(&["eval", "--describe", "difusion"]).refused(&["difusion", "did you mean diffusion?"]);
    folder.run(&["eval", "gkta"]).refused(&["gkta", "did you mean gkat?"]);
    folder.run(&["eval", "difusion:t=1"]).refused(&["did you mean diffusion?"]);
    folder.run(&["eval", "diffusion:t=1"]).refused(&["diffusion:t=1", "--inputs", "--out"]);
}

#[test]
fn what_does_not_fit_a_mask_is_refused() {
    let folder = Folder::new("eval-mask-refused");
    let column = |n: usize| ("x", singles(&[n, 1], &vec![1.0; n]));
    let words =
        |shape: &[usize], list: &[u32]| Array { shape: shape.to_vec(), data: ArrayData::U32(list.to_vec()) };
    let pair = ("edges", words(&[1, 2], &[0, 1]));
    let with = |entries: &[(&str, Array)]| write(&folder, "in.npz", entries);
    type Case<'a> = (&'a [(&'static str, Array)], &'a str, &'a [&'a str], &'a [&'a str]);
    let ones = |shape: &[usize]| singles(shape, &vec![1.0; shape.iter().product()]);
    let cases: &[Case<'_>] = &[
        (&[column(9)], "diffusion:t=1", &[], &["a graph", "--graph FILE", "`edges`"]),
        (&[column(9)], "diffusion:t=1", &["--graph", KARATE], &["karate.csv", "9", "got 34"]),
        (&[column(9)], "diffusion:t=1", &["--graph", "grid8"], &["--graph grid8", "--grid"]),
        (&[column(9)], "diffusion:t=1", &["--graph", "grid8", "--grid", "2x4"], &["9", "2 × 4 = 8"]),
        (
            &[column(9)],
            "diffusion:t=1",
            &["--graph", "image", "--grid", "3x3"],
            &["`colours` [9, 3]", "grid8"],
        ),
        (&[column(9)], "diffusion:t=1", &["--graph", "grid6"], &["grid6", "torus8"]),
        (&[column(9)], "diffusion:t=1", &["--grid", "3"], &["ROWSxCOLS"]),
        (&[column(9), pair.clone()], "diffusion:t=1", &["--graph", "grid8", "--grid", "3x3"], &["one graph"]),
        (&[column(9), pair.clone()], "diffusion:t=1", &["--grid", "3x3"], &["--grid", "leave it out"]),
        (&[column(9), pair.clone()], "diffusion:t=1", &["--directed"], &["undirected", "0 → 1"]),
        (&[column(9), pair.clone()], "diffusion:t=1", &["--param", "t=2"], &["--param", "its name"]),
        (&[column(9), pair.clone()], "causal", &[], &["no meaning", "diffusion:t=10"]),
        (&[column(9)], "causal", &["--graph", "grid4"], &["no meaning", "diffusion:t=10"]),
        (&[column(9)], "causal", &["--grid", "2x4"], &["9", "2 × 4 = 8"]),
        (&[column(9)], "diffusion:t=-1", &[], &["`t`", "at least 0", "-1"]),
        (&[column(9)], "toeplitz:gaus", &[], &["gaus", "gauss"]),
        (&[column(9), ("z", ones(&[1]))], "causal", &[], &["`z`", "[x]"]),
        (&[column(9), ("q", ones(&[9, 1]))], "causal", &[], &["either `x`", "[q, x]"]),
        (&[("q", ones(&[9, 1]))], "causal", &[], &["either `x`", "[q]"]),
        (&[("x", ones(&[9]))], "causal", &[], &["`x` [b, h, n, c]", "[9] of f32"]),
        (&[("x", words(&[9, 1], &[1; 9]))], "causal", &[], &["`x`", "u32"]),
        (&[("x", singles(&[2, 1], &[1.0, f64::NAN]))], "causal", &[], &["`x`", "element 1", "not finite"]),
        (&[("x", ones(&[0, 1]))], "causal", &[], &["at least one token"]),
        (&[column(2), ("edges", words(&[2], &[0, 1]))], "walk", &[], &["`edges` [m, 2]", "[2]"]),
        (&[column(2), ("edges", ones(&[1, 2]))], "walk", &[], &["`edges`", "whole numbers", "f32"]),
        (&[column(2), ("edges", words(&[1, 2], &[0, 2]))], "walk", &[], &["edge 0 (0 → 2)", "0 to 1"]),
        (
            &[column(2), pair.clone(), ("weights", ones(&[2]))],
            "walk",
            &[],
            &["`weights`", "one weight per edge, 1"],
        ),
        (
            &[column(2), pair.clone(), ("weights", singles(&[1], &[-1.0]))],
            "walk",
            &[],
            &["edge 0 (0 → 1)", "-1", "at least 0"],
        ),
        (
            &[column(2), pair.clone(), ("weights", singles(&[1], &[f64::NAN]))],
            "walk",
            &[],
            &["edge 0 (0 → 1)", "NaN", "leave the edge out"],
        ),
        (&[column(2), ("weights", ones(&[1]))], "walk", &["--graph", KARATE], &["34"]),
        (
            &[("q", singles(&[2, 1], &[1.0, -0.5])), ("k", ones(&[2, 1])), ("v", ones(&[2, 1]))],
            "causal",
            &[],
            &["element 1 of `q`", "-0.5", "--unchecked"],
        ),
        (
            &[("q", ones(&[2, 1])), ("k", ones(&[2, 2])), ("v", ones(&[2, 1]))],
            "causal",
            &[],
            &["same b, h, n and r"],
        ),
        (
            &[("q", ones(&[2, 1])), ("k", ones(&[2, 1])), ("v", ones(&[3, 1]))],
            "causal",
            &[],
            &["same b, h, n and r"],
        ),
        (
            &[("q", ones(&[2, 1])), ("k", ones(&[2, 1])), ("v", ones(&[2, 1]))],
            "causal",
            &["--transposed"],
            &["--transposed", "attention"],
        ),
        (
            &[("a", ones(&[2, 2])), ("w", ones(&[2, 2]))],
            "matmul",
            &["--grid", "1x2"],
            &["--grid", "a kernel"],
        ),
    ];
    for (entries, name, more, parts) in cases {
        with(entries);
        let run = eval(&folder, name, more).refused(parts);
        assert!(!folder.0.join("out.npz").exists(), "{}", run.all());
    }
}
