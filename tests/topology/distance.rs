//! Distances against Floyd and Warshall, Dijkstra against breadth-first search, and stored tables.

use crate::shapes::{Stored, close, networks};
use wgattn::topology::Network;
use wgattn::topology::build::{erdos_renyi, path};
use wgattn::topology::distance::{balls, lengths_from, steps};

fn floyd_warshall(g: &Network, weighted: bool) -> Vec<f64> {
    let n = g.nodes();
    let mut d = vec![f64::INFINITY; n * n];
    for i in 0..n {
        d[i * n + i] = 0.0;
    }
    for (i, j, w) in g.edges().filter(|(i, j, _)| i != j) {
        d[i as usize * n + j as usize] = if weighted { f64::from(w) } else { 1.0 };
    }
    for k in 0..n {
        for i in 0..n {
            for j in 0..n {
                d[i * n + j] = d[i * n + j].min(d[i * n + k] + d[k * n + j]);
            }
        }
    }
    d
}

#[test]
fn all_pairs_are_right_in_both_directions() {
    let mut list = networks();
    let arcs: Vec<_> = erdos_renyi(140, 0.02, 8).expect("made").edges().map(|e| (e.0, e.1)).collect();
    let one_way: Vec<_> = arcs.iter().copied().filter(|(i, j)| (i * 2 + j) % 5 < 3).collect();
    list.push(("directed".into(), Network::directed(140, &one_way).expect("sound")));
    for (name, g) in list {
        let expected = floyd_warshall(&g, false);
        let small = steps::<u8>(&g).expect(&name);
        let wide = steps::<u16>(&g).expect(&name);
        for (at, d) in expected.iter().enumerate() {
            let (a, b) = if d.is_finite() { (*d as u8, *d as u16) } else { (u8::MAX, u16::MAX) };
            assert_eq!((small[at], wide[at]), (a, b), "{name}: element {at}");
        }
        let expected = floyd_warshall(&g, true);
        for i in 0..g.nodes() {
            for (j, d) in lengths_from(&g, i as u32).expect(&name).into_iter().enumerate() {
                let other = expected[i * g.nodes() + j];
                assert!(
                    d == other || (d - other).abs() < 1e-9,
                    "{name}: {i} to {j} is {d}, expected {other}"
                );
            }
        }
        for radius in [0, 1, 3, 255] {
            let b = balls(&g, radius, 1 << 20).expect(&name);
            let mut at = 0;
            for i in 0..g.nodes() {
                for j in 0..g.nodes() {
                    let d = small[i * g.nodes() + j];
                    if d != 255 && d <= radius {
                        assert_eq!((b.columns[at], b.steps[at]), (j as u32, d), "{name}: {i} and {j}");
                        at += 1;
                    }
                }
                assert_eq!(b.starts[i + 1] as usize, at, "{name}");
            }
        }
    }
}

#[test]
fn distances_that_do_not_fit_are_refused() {
    let long = path(256).expect("made");
    let text = steps::<u8>(&long).expect_err("255 steps").to_string();
    assert!(text.contains("255") && text.contains("wider"), "{text}");
    assert_eq!(steps::<u16>(&long).expect("fits")[255], 255);
    assert_eq!(steps::<u8>(&path(255).expect("made")).expect("fits")[254], 254);
    let text = steps::<u8>(&Network::isolated(40_000).expect("made")).expect_err("1.5 GB").to_string();
    assert!(text.contains("1024 MiB"), "{text}");
    let text = balls(&path(100).expect("made"), 5, 50).expect_err("too many").to_string();
    assert!(text.contains("at most 50"), "{text}");
    lengths_from(&long, 256).expect_err("no node");
}

#[test]
fn stored_distances_come_out() {
    let file = Stored::read("shortest_path");
    for prefix in ["er_", "grid_", "two_components_", "isolated_"] {
        let g = file.network(prefix);
        let table = steps::<u8>(&g).expect(prefix);
        let numbers: Vec<f64> = table.iter().map(|d| f64::from(*d)).collect();
        assert_eq!(numbers, file.numbers(&format!("{prefix}dist")), "{prefix}");
        let f = file.numbers(&format!("{prefix}f"));
        let mask: Vec<f64> = table.iter().map(|d| if *d == 255 { 0.0 } else { f[*d as usize] }).collect();
        close(prefix, &file.attention(prefix, &mask), &file.numbers(&format!("{prefix}Out")), 1e-13);
    }
}
