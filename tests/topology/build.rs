//! Builders against counting and brute force, and the figures of random ones.

use crate::shapes::numbers;
use wgattn::topology::build::*;
use wgattn::topology::{Network, distance::steps};

/// A network from a rule for every pair.
fn by_rule(n: usize, rule: impl Fn(usize, usize) -> bool) -> Network {
    let pairs = (0..n).flat_map(|i| (i + 1..n).map(move |j| (i, j)));
    let edges: Vec<_> = pairs.filter(|&(i, j)| rule(i, j)).map(|(i, j)| (i as u32, j as u32)).collect();
    Network::undirected(n, &edges).expect("sound")
}

#[test]
fn lattices_follow_their_rules() {
    let gap = |a: usize, b: usize| a.abs_diff(b);
    for (rows, cols) in [(1, 1), (1, 7), (4, 5), (2, 2)] {
        let at = |i: usize| (i / cols, i % cols);
        let g = |reach| grid(&[rows, cols], reach).expect("made");
        let apart = |i, j| (gap(at(i).0, at(j).0), gap(at(i).1, at(j).1));
        assert_eq!(g(Reach::Sides), by_rule(rows * cols, |i, j| apart(i, j).0 + apart(i, j).1 == 1));
        assert_eq!(g(Reach::Corners), by_rule(rows * cols, |i, j| apart(i, j).0.max(apart(i, j).1) == 1));
        let round = |d: usize, side: usize| d.min(side - d);
        let t = torus(&[rows, cols], Reach::Sides).expect("made");
        let apart = |i, j| round(apart(i, j).0, rows) + round(apart(i, j).1, cols);
        assert_eq!(t, by_rule(rows * cols, |i, j| apart(i, j) == 1), "{rows} × {cols}");
    }
    let g = grid(&[3, 4, 5], Reach::Corners).expect("made");
    assert_eq!(g.neighbours(1 + 5 + 20).len(), 26);
    assert_eq!(grid(&[3, 4, 5], Reach::Sides).expect("made").neighbours(1 + 5 + 20).len(), 6);
    assert_eq!(hypercube(5).expect("made"), by_rule(32, |i, j| (i ^ j).count_ones() == 1));
    assert_eq!(complete(7).expect("made"), by_rule(7, |_, _| true));
    assert_eq!(star(7).expect("made"), by_rule(7, |i, _| i == 0));
    assert_eq!(ring(7).expect("made"), by_rule(7, |i, j| j - i == 1 || j - i == 6));
    assert_eq!(path(0).expect("made").nodes(), 0);
    assert_eq!(ring(2).expect("made").entries(), 2);
    assert_eq!(ring(1).expect("made").entries(), 0);
    for refused in
        [grid(&[], Reach::Sides), grid(&[70_000, 70_000], Reach::Sides), complete(100_000), hypercube(40)]
    {
        refused.expect_err("too large or empty");
    }
}

#[test]
fn nearest_points_are_the_nearest() {
    for (name, n, spread) in
        [("scattered", 200, 1.0), ("on few places", 90, 0.02), ("few", 3, 1.0), ("one", 1, 1.0)]
    {
        // Few places: coordinates are rounded to a coarse grid, so that many points coincide or are equally far.
        let round = |x: f64| if spread < 1.0 { (x * 2.0).round() } else { x };
        let points: Vec<[f32; 3]> = numbers(3 * n, 5)
            .chunks(3)
            .map(|p| [round(p[0]) as f32, round(p[1]) as f32, round(p[2]) as f32])
            .collect();
        for k in [0, 1, 4, 300] {
            let square = |i: usize, j: usize| -> f64 {
                points[i].iter().zip(points[j]).map(|(a, b)| (f64::from(*a) - f64::from(b)).powi(2)).sum()
            };
            let near = |i: usize| -> Vec<usize> {
                let mut others: Vec<usize> = (0..n).filter(|j| *j != i).collect();
                others.sort_by(|a, b| square(i, *a).total_cmp(&square(i, *b)).then(a.cmp(b)));
                others.truncate(k);
                others
            };
            let lists: Vec<Vec<usize>> = (0..n).map(near).collect();
            let expected = by_rule(n, |i, j| lists[i].contains(&j) || lists[j].contains(&i));
            let got = nearest(&points, k, |_| 1.0).expect("made");
            assert_eq!(got, expected, "{name}, k = {k}");
        }
    }
    let g = nearest(&[[0.0, 0.0, 0.0], [3.0, 4.0, 0.0]], 1, |d| 1.0 / d).expect("made");
    assert_eq!(g.between(0, 1), 0.2);
    let text = nearest(&[[0.0; 3], [f32::NAN, 0.0, 0.0]], 1, |_| 1.0).expect_err("not finite").to_string();
    assert!(text.contains("point 1"), "{text}");
}

#[test]
fn random_networks_have_their_figures_and_repeat() {
    let g = erdos_renyi(400, 0.05, 1).expect("made");
    assert_eq!(g, erdos_renyi(400, 0.05, 1).expect("made"));
    assert_ne!(g, erdos_renyi(400, 0.05, 2).expect("made"));
    // 79 800 pairs: mean 3990, standard deviation 62; five of them are allowed.
    assert!((g.entries() as f64 / 2.0 - 3990.0).abs() < 310.0, "{} edges", g.entries() / 2);
    assert_eq!(erdos_renyi(9, 1.0, 1).expect("made"), complete(9).expect("made"));
    assert_eq!(erdos_renyi(9, 0.0, 1).expect("made").entries(), 0);
    assert_eq!(erdos_renyi(50, 1e-300, 1).expect("made").entries(), 0);
    // Every pair is as likely: over many seeds each of the 10 pairs of 5 nodes comes up half of the time (deviation 0.022).
    let mut counts = [0; 25];
    for seed in 0..500 {
        for (i, j, _) in erdos_renyi(5, 0.5, seed).expect("made").edges() {
            counts[(5 * i + j) as usize] += 1;
        }
    }
    for (at, count) in counts.iter().enumerate().filter(|(at, _)| at % 6 != 0) {
        assert!((f64::from(*count) / 500.0 - 0.5).abs() < 0.1, "pair {at}: {count} of 500");
    }
    let g = small_world(200, 6, 0.3, 1).expect("made");
    assert_eq!((g.entries(), g.weights()), (200 * 6, None), "edges are moved, never doubled");
    let moved = g.edges().filter(|(i, j, _)| i < j && (j - i).min(200 + i - j) > 3).count() as f64;
    // 600 edges, 0.3 of them moved, most beyond the ring's reach: deviation 11.
    assert!((moved - 180.0).abs() < 60.0, "{moved} of 600 edges moved");
    assert_eq!(
        small_world(20, 4, 0.0, 1).expect("made").edges().filter(|(i, j, _)| i.abs_diff(*j) == 1).count(),
        38
    );
    assert_eq!(small_world(5, 4, 1.0, 1).expect("full").entries(), 20);
    let g = preferential(500, 3, 1).expect("made");
    let s = g.statistics();
    assert_eq!((s.components, s.edges, g.weights()), (1, 3 + 496 * 3, None));
    assert!(s.degree.2 > 25, "hubs: the greatest degree is {}", s.degree.2);
    for refused in [
        erdos_renyi(5, -0.1, 1),
        erdos_renyi(5, f64::NAN, 1),
        small_world(5, 3, 0.1, 1),
        small_world(4, 4, 0.1, 1),
        preferential(5, 0, 1),
        preferential(5, 5, 1),
    ] {
        refused.expect_err("out of range");
    }
}

#[test]
fn random_trees_are_trees_and_labelled_ones_equally_likely() {
    for n in [0, 1, 2, 3, 50, 1000] {
        for f in
            [random_tree(n, 3), recursive_tree(n, 3), binary_tree(n), caterpillar(n, n.div_ceil(3).max(1))]
        {
            let f = f.expect("made");
            assert_eq!((f.nodes(), f.trees()), (n, n.min(1)));
        }
    }
    // 16 trees of 4 nodes, 1600 draws: 100 each, deviation 10.
    let mut counts = std::collections::BTreeMap::new();
    for seed in 0..1600 {
        *counts.entry(random_tree(4, seed).expect("made").parents().to_vec()).or_insert(0) += 1;
    }
    assert_eq!(counts.len(), 16);
    assert!(counts.values().all(|c| (50..150).contains(c)), "{counts:?}");
    caterpillar(3, 0).expect_err("no spine");
}

#[test]
fn spanning_forests_have_least_weight() {
    // Prim's algorithm on the dense matrix as the other way.
    for (name, g) in crate::shapes::networks() {
        let n = g.nodes();
        for (extreme, sign) in [(Extreme::Least, 1.0), (Extreme::Most, -1.0)] {
            let f = spanning_forest(&g, extreme).expect(&name);
            assert_eq!(f.trees(), g.components().count, "{name}");
            let got: f64 = f.edges().map(|e| f64::from(e.2)).sum();
            let mut best = vec![f64::INFINITY; n];
            let mut done = vec![false; n];
            let mut expected = 0.0;
            for _ in 0..n {
                let free = (0..n).filter(|i| !done[*i]);
                let Some(i) = free.min_by(|a, b| best[*a].total_cmp(&best[*b])) else { break };
                if best[i].is_finite() {
                    expected += best[i];
                }
                done[i] = true;
                for (j, w) in g.row(i as u32) {
                    let w = sign * f64::from(w);
                    best[j as usize] = best[j as usize].min(w);
                }
            }
            assert!((got - sign * expected).abs() < 1e-4, "{name}: {got}, expected {}", sign * expected);
        }
    }
}

#[test]
fn pictures_join_what_looks_alike() {
    // Two halves, black and white, and one grey token.
    let (rows, cols) = (4, 6);
    let colours: Vec<f32> = (0..rows * cols)
        .flat_map(|i| [if i == 7 { 0.5 } else { f32::from(u8::from(i % cols >= 3)) }; 3])
        .collect();
    let picture = Picture::new(&colours, rows, cols).expect("sound");
    let g = picture.network(Reach::Sides, 2.0).expect("made");
    assert!(g.is_symmetric());
    assert_eq!(g.between(0, 1), 1.0);
    let white = 3.0_f32.sqrt();
    assert!((g.between(2, 3) - (-2.0 * white).exp()).abs() < 1e-7);
    let corners = picture.network(Reach::Corners, 2.0).expect("made");
    assert!((corners.between(2, 9) - (-2.0 * white / 2.0_f32.sqrt()).exp()).abs() < 1e-7);
    // So sensitive that the halves fall apart.
    let cut = picture.network(Reach::Sides, 100.0).expect("made");
    assert_eq!(cut.components().count, 3);
    let linked = cut.with_edges(&[(0, 5, 1.0)]).expect("linked");
    assert_eq!(linked.components().count, 2);
    let tree = picture.tree(Reach::Sides, 1.0, 10.0).expect("made");
    assert_eq!(tree.trees(), 1);
    let longest = |f: &wgattn::topology::Forest| f.edges().filter(|e| e.2 > 1.0).count();
    assert_eq!(longest(&tree), 2, "one way to the grey token, one between the halves");
    let flat = picture.tree(Reach::Corners, 0.0, 1.0).expect("made");
    assert_eq!(flat.edges().filter(|e| e.2 > 0.0).count(), 2);
    flat.network().expect_err("edges of length 0 do not fit a network");
    let text = Picture::new(&[0.0, 0.0, f32::NAN], 1, 1).expect_err("not finite").to_string();
    assert!(text.contains("token 0 (row 0, column 0)"), "{text}");
    Picture::new(&[0.0; 5], 1, 2).expect_err("too short");
    // Colours whose squares no f32 holds: weightless where they count, equal where they do not.
    let vast = [0.0, 0.0, 0.0, 3e38, 3e38, 3e38];
    let vast = Picture::new(&vast, 1, 2).expect("finite");
    assert_eq!(vast.network(Reach::Sides, 1.0).expect("cut").entries(), 0);
    assert_eq!(vast.network(Reach::Sides, 0.0).expect("joined").between(0, 1), 1.0);
    let text = vast.tree(Reach::Sides, 1.0, 1.0).expect_err("too long").to_string();
    assert!(text.contains("1e30"), "{text}");
    picture.network(Reach::Sides, -1.0).expect_err("negative");
    picture.tree(Reach::Sides, f32::NAN, 1.0).expect_err("no number");
}

#[test]
fn quadtrees_cover_every_token_once() {
    for (rows, cols) in [(1, 1), (8, 8), (5, 13), (0, 4), (1, 9)] {
        let colours: Vec<f32> = numbers(3 * rows * cols, 9).iter().map(|x| *x as f32).collect();
        for evenness in [0.0, 0.7, 5.0] {
            let q = Picture::new(&colours, rows, cols).expect("sound").quadtree(evenness).expect("made");
            assert_eq!(q.forest.nodes(), q.squares.len());
            assert_eq!(q.forest.trees(), usize::from(rows * cols > 0));
            for (token, leaf) in q.leaf_of.iter().enumerate() {
                let [r, c, h, w] = q.squares[*leaf as usize].map(|x| x as usize);
                assert!((r..r + h).contains(&(token / cols)) && (c..c + w).contains(&(token % cols)));
            }
            let area = |i: usize| q.squares[i][2] * q.squares[i][3];
            for i in 0..q.squares.len() {
                let below: u32 =
                    (0..q.squares.len()).filter(|j| q.forest.parents()[*j] == i as u32).map(area).sum();
                assert!(below == 0 || below == area(i), "square {i}: {below} of {}", area(i));
            }
            if evenness == 5.0 {
                assert!(q.squares.len() <= 1);
            }
        }
    }
}

#[test]
fn tori_look_the_same_from_everywhere() {
    let t = torus(&[5, 6], Reach::Corners).expect("made");
    let table = steps::<u8>(&t).expect("fits");
    for i in 1..30 {
        let mut rows = [table[..30].to_vec(), table[i * 30..(i + 1) * 30].to_vec()];
        rows.iter_mut().for_each(|r| r.sort_unstable());
        assert_eq!(rows[0], rows[1]);
    }
}
