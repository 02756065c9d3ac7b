//! Rows, changes and figures of networks.

use crate::shapes::networks;
use proptest::prelude::*;
use wgattn::topology::build::{complete, erdos_renyi, path, ring, star};
use wgattn::topology::{Network, Statistics};

fn message<T: std::fmt::Debug>(result: wgattn::Result<T>) -> String {
    result.expect_err("this must be refused").to_string()
}

#[test]
fn edges_become_sorted_rows_and_parallel_ones_add_up() {
    let g =
        Network::undirected_weighted(4, &[(2, 0, 1.0), (0, 1, 0.5), (0, 2, 2.0), (3, 3, 4.0), (1, 2, 0.0)])
            .expect("sound");
    assert_eq!(g.starts(), [0, 2, 3, 4, 5]);
    assert_eq!(g.columns(), [1, 2, 0, 0, 3]);
    assert_eq!(g.weights(), Some([0.5, 3.0, 0.5, 3.0, 4.0].as_slice()));
    assert_eq!(g.degrees(), [3.5, 0.5, 3.0, 4.0]);
    let twice = Network::undirected(2, &[(0, 1), (1, 0)]).expect("sound");
    assert_eq!(twice.between(0, 1), 2.0, "both directions of an undirected edge are two edges");
    let one_way = Network::directed(3, &[(0, 1), (1, 2)]).expect("sound");
    assert_eq!(one_way.weights(), None);
    assert_eq!((one_way.between(0, 1), one_way.between(1, 0)), (1.0, 0.0));
}

#[test]
fn edges_that_cannot_be_are_named() {
    let weighted = |w: f32| Network::undirected_weighted(3, &[(0, 1, 1.0), (1, 2, w)]);
    for (w, word) in [
        (f32::NAN, "leave the edge out"),
        (-1.0, "at least 0"),
        (f32::INFINITY, "scale"),
        (2e30, "scale"),
        (1e-31, "scale"),
    ] {
        let text = message(weighted(w));
        assert!(text.contains("edge 1 (1 → 2)") && text.contains(word), "{w}: {text}");
    }
    assert!(weighted(1e30).is_ok() && weighted(1e-30).is_ok() && weighted(0.0).is_ok());
    let text = message(Network::directed(3, &[(0, 1), (1, 3)]));
    assert!(text.contains("edge 1 (1 → 3)") && text.contains("0 to 2"), "{text}");
    assert!(message(Network::undirected(0, &[(0, 0)])).contains("empty"));
    assert!(
        message(Network::directed_weighted(2, &[(0, 1, 9e29), (0, 1, 9e29)]))
            .contains("sum of the 2 edges 0 → 1")
    );
    for rows in [
        (vec![0, 2], vec![0, 0], None),
        (vec![0, 1], vec![1], None),
        (vec![0, 2, 1], vec![0], None),
        (vec![], vec![], None),
        (vec![0, 1], vec![0], Some(vec![])),
        (vec![0, 1], vec![0], Some(vec![0.0])),
        (vec![0, 1], vec![0], Some(vec![f32::NAN])),
    ] {
        message(Network::from_rows(rows.0, rows.1, rows.2));
    }
}

#[test]
fn changes_undo_each_other() {
    for (name, g) in networks() {
        assert!(g.is_symmetric(), "{name}");
        assert_eq!(g.transposed(), g, "{name}");
        assert_eq!(g.symmetrised(), g, "{name}");
        let same =
            Network::from_rows(g.starts().to_vec(), g.columns().to_vec(), g.weights().map(<[f32]>::to_vec));
        assert_eq!(same.expect(&name).edges().collect::<Vec<_>>(), g.edges().collect::<Vec<_>>(), "{name}");
        let n = g.nodes() as u32;
        let place: Vec<u32> = (0..n).map(|i| (i * 7 + 3) % n).collect();
        if !n.is_multiple_of(7) {
            let moved = g.permuted(&place).expect(&name);
            for (i, j, w) in g.edges() {
                assert_eq!(moved.between(place[i as usize], place[j as usize]), w, "{name}: {i} → {j}");
            }
            assert_eq!(moved.entries(), g.entries(), "{name}");
        }
        if let Some((i, j, w)) = g.edges().find(|(i, j, _)| i != j) {
            let cut = g.without_edges(&[(j, i)]);
            assert_eq!(cut.entries(), g.entries() - 2, "{name}");
            assert_eq!(cut.with_edges(&[(i, j, w)]).expect(&name), g, "{name}");
            let mut obstacle = vec![false; g.nodes()];
            obstacle[i as usize] = true;
            let cut = g.without_nodes(&obstacle).expect(&name);
            assert!(cut.neighbours(i).is_empty() && cut.edges().all(|e| e.1 != i), "{name}");
            assert_eq!(cut.nodes(), g.nodes());
        }
    }
    let g = Network::directed_weighted(3, &[(0, 1, 2.0), (1, 0, 3.0), (1, 2, 1.0)]).expect("sound");
    assert!(!g.is_symmetric());
    assert_eq!(g.transposed().transposed(), g);
    let both = g.symmetrised();
    assert_eq!([both.between(0, 1), both.between(1, 0), both.between(2, 1)], [3.0, 3.0, 1.0]);
    message(g.permuted(&[0, 1]));
    message(g.permuted(&[0, 1, 1]));
    message(g.permuted(&[0, 1, 3]));
    message(g.without_nodes(&[true]));
}

#[test]
fn batches_give_their_networks_back() {
    let list: Vec<Network> = networks().into_iter().map(|(_, g)| g).collect();
    let batch = Network::batch(&list).expect("fits");
    let flat: Vec<Network> =
        list.iter().flat_map(|g| (0..g.parts()).map(|p| g.part(p).expect("there"))).collect();
    assert_eq!(batch.parts(), flat.len());
    for (i, g) in flat.iter().enumerate() {
        let part = batch.part(i).expect("there");
        assert_eq!(
            part.edges().collect::<Vec<_>>(),
            g.edges().collect::<Vec<_>>(),
            "network {i}, the last included"
        );
        assert_eq!(part.nodes(), g.nodes());
    }
    let text = message(batch.part(flat.len()));
    assert!(text.contains(&flat.len().to_string()), "{text}");
    assert_eq!(Network::batch(&[]).expect("empty").nodes(), 0);
    let two = Network::batch(&[path(3).expect("made"), path(4).expect("made")]).expect("fits");
    let text = message(two.with_edges(&[(0, 2, 1.0), (2, 3, 1.0)]));
    assert!(text.contains("edge 1 (2 → 3)") && text.contains("batch"), "{text}");
    assert_eq!(two.with_edges(&[(3, 6, 1.0)]).expect("within").part(1).expect("there").entries(), 8);
}

#[test]
fn figures_of_known_networks() {
    let of = |g: wgattn::Result<Network>| g.expect("made").statistics();
    let s: Statistics = of(path(10));
    assert_eq!((s.nodes, s.edges, s.components, s.is_tree, s.is_bipartite), (10, 9, 1, true, true));
    assert_eq!((s.diameter, s.bandwidth, s.degree), ((9, 9), 1, (1, 1.8, 2)));
    let s = of(ring(9));
    assert!(!s.is_forest && !s.is_bipartite);
    assert_eq!(s.diameter, (4, 4), "small graphs are searched from every node");
    assert!(of(ring(8)).is_bipartite);
    let s = of(star(12));
    assert_eq!((s.diameter, s.degree, s.is_tree), ((2, 2), (1, 22.0 / 12.0, 11), true));
    let s = of(complete(6));
    assert_eq!((s.edges, s.is_bipartite, s.diameter), (15, false, (1, 1)));
    let s = of(Network::undirected(5, &[(0, 1), (2, 2)]));
    assert_eq!((s.components, s.isolated, s.loops, s.edges, s.is_forest), (4, 3, 1, 1, false));
    assert!(!s.is_bipartite, "a loop joins a node to itself");
    let s = of(Network::isolated(0));
    assert_eq!((s.nodes, s.components, s.is_forest, s.is_tree, s.diameter), (0, 0, true, false, (0, 0)));
    let s = of(Network::directed(3, &[(0, 1), (1, 2)]));
    assert_eq!((s.edges, s.undirected, s.components, s.is_forest), (2, false, 1, false));
    let c = Network::undirected(6, &[(4, 1), (5, 3)]).expect("sound").components();
    assert_eq!((c.count, c.of.as_slice()), (4, [0, 1, 2, 3, 1, 3].as_slice()));
}

#[test]
fn diameters_lie_between_their_bounds() {
    for (name, g) in networks() {
        let table = wgattn::topology::distance::steps::<u8>(&g).expect(&name);
        let longest = table.iter().filter(|d| **d != 255).max().map_or(0, |d| u32::from(*d));
        let (low, high) = g.statistics().diameter;
        assert!(low <= longest && longest <= high, "{name}: {longest} outside of {low} to {high}");
    }
}

proptest! {
    #[test]
    fn any_edges_give_sound_rows(n in 1_u32..30, list in prop::collection::vec((0_u32..30, 0_u32..30, 0.0_f32..4.0), 0..80)) {
        let edges: Vec<_> = list.iter().map(|e| (e.0 % n, e.1 % n, if e.2 < 0.5 { 0.0 } else { e.2 })).collect();
        let g = Network::undirected_weighted(n as usize, &edges).expect("sound");
        let weights = g.weights().map(<[f32]>::to_vec);
        prop_assert!(Network::from_rows(g.starts().to_vec(), g.columns().to_vec(), weights).is_ok());
        prop_assert!(g.is_symmetric());
        let mut dense = vec![0.0_f64; (n * n) as usize];
        for &(i, j, w) in &edges {
            dense[(i * n + j) as usize] += f64::from(w);
            if i != j { dense[(j * n + i) as usize] += f64::from(w); }
        }
        for i in 0..n { for j in 0..n {
            let gap = f64::from(g.between(i, j)) - dense[(i * n + j) as usize];
            prop_assert!(gap.abs() < 1e-5, "{i} → {j}");
        }}
        let directed = Network::directed_weighted(n as usize, &edges).expect("sound");
        prop_assert_eq!(directed.transposed().transposed(), directed.clone());
        prop_assert!(directed.symmetrised().is_symmetric());
    }

    #[test]
    fn components_are_what_paths_reach(n in 1_usize..40, seed in 0_u64..50) {
        let g = erdos_renyi(n, (1.2 / n as f64).min(1.0), seed).expect("made");
        let c = g.components();
        let table = wgattn::topology::distance::steps::<u16>(&g).expect("fits");
        for i in 0..n { for j in 0..n {
            prop_assert_eq!(c.of[i] == c.of[j], table[i * n + j] != u16::MAX);
        }}
    }
}
