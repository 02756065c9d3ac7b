//! Forests, heavy paths and centroids: their layouts by definition, their sums by all pairs and against stored arrays.

use crate::shapes::{Stored, close, forests, numbers};
use proptest::prelude::*;
use wgattn::topology::build::{caterpillar, complete, path, random_tree, ring, star};
use wgattn::topology::tree::{Centroids, HeavyPaths, oracle};
use wgattn::topology::{Forest, NONE, Network};

fn message<T: std::fmt::Debug>(result: wgattn::Result<T>) -> String {
    result.expect_err("this must be refused").to_string()
}

#[test]
fn forests_are_in_breadth_first_order() {
    for (name, f) in forests() {
        let (order, depths) = (f.order(), f.depths());
        let mut sorted = order.to_vec();
        sorted.sort_unstable();
        assert!(sorted.iter().copied().eq(0..f.nodes() as u32), "{name}: every node once");
        for (d, level) in f.levels().windows(2).enumerate() {
            assert!(
                order[level[0] as usize..level[1] as usize].iter().all(|i| depths[*i as usize] == d as u32),
                "{name}"
            );
        }
        for (p, i) in order.iter().enumerate() {
            assert_eq!(f.places()[*i as usize], p as u32);
            let children: Vec<u32> =
                order[f.child_starts()[p] as usize..f.child_starts()[p + 1] as usize].to_vec();
            let expected: Vec<u32> =
                (0..f.nodes() as u32).filter(|c| f.parents()[*c as usize] == *i).collect();
            assert_eq!(children, expected, "{name}: children of {i}");
        }
        let table: Vec<Vec<f64>> = (0..f.nodes() as u32).map(|i| oracle::distances_from(&f, i)).collect();
        let longest = table.iter().flatten().filter(|d| d.is_finite()).fold(0.0_f64, |a, b| a.max(*b));
        assert!((f.diameter_length() - longest).abs() < 1e-9, "{name}");
        if let Ok(g) = f.network() {
            let low = g.statistics();
            assert!(low.is_forest && low.diameter == (f.diameter(), f.diameter()), "{name}");
            for i in 0..f.nodes() as u32 {
                let other = wgattn::topology::distance::lengths_from(&g, i).expect(&name);
                assert!(
                    other.iter().zip(&table[i as usize]).all(|(a, b)| a == b || (a - b).abs() < 1e-9),
                    "{name}"
                );
            }
        }
    }
}

#[test]
fn cycles_are_named() {
    for text in [
        message(Forest::from_network(&ring(5).expect("made"), &[])),
        message(Forest::from_parents(&[NONE, 4, 1, 2, 3, 2], None)),
    ] {
        assert!(text.contains("no cycle"), "{text}");
    }
    let text = message(Forest::from_parents(&[1, 2, 0], None));
    assert!(text.contains("0 → 1 → 2 → 0"), "{text}");
    assert!(message(Forest::from_parents(&[0], None)).contains("0 → 0"));
    let loose = Network::undirected(6, &[(0, 1), (1, 2), (2, 3), (3, 1), (3, 4)]).expect("sound");
    let text = message(Forest::from_network(&loose, &[]));
    let named: Vec<u32> = [1, 2, 3].into_iter().filter(|i| text.contains(&i.to_string())).collect();
    assert!(named == [1, 2, 3] && !text.contains("4 →") && !text.contains("0 →"), "{text}");
    let loop_at_2 = Network::undirected(3, &[(0, 1), (2, 2)]).expect("sound");
    assert!(message(Forest::from_network(&loop_at_2, &[])).contains("2 → 2"));
    let long = message(Forest::from_network(&ring(1000).expect("made"), &[]));
    assert!(long.contains("1000 nodes") && long.len() < 300, "{long}");
    assert!(
        message(Forest::from_network(&Network::directed(2, &[(0, 1)]).expect("sound"), &[]))
            .contains("symmetrised")
    );
    message(Forest::from_network(&complete(4).expect("made"), &[]));
    message(Forest::from_network(&path(4).expect("made"), &[0, 3]));
    message(Forest::from_network(&path(4).expect("made"), &[4]));
    message(Forest::from_parents(&[NONE, 2], None));
    message(Forest::from_parents(&[NONE, 0], Some(&[0.0, -1.0])));
    message(Forest::from_parents(&[NONE, 0], Some(&[0.0, f32::NAN])));
    message(Forest::from_parents(&[NONE, 0], Some(&[0.0])));
    let rooted = Forest::from_network(&path(4).expect("made"), &[2]).expect("a path");
    assert_eq!(rooted.parents(), [1, 2, NONE, 2]);
}

#[test]
fn heavy_paths_are_paths_in_few_rounds() {
    let mut list = forests();
    list.push(("long path".into(), caterpillar(3000, 3000).expect("made")));
    list.push(("long random".into(), random_tree(3000, 5).expect("made")));
    for (name, f) in list {
        let h = HeavyPaths::new(&f);
        let n = f.nodes();
        assert_eq!(h.nodes.len(), n);
        for (p, range) in h.path_starts.windows(2).enumerate() {
            let spots = range[0] as usize..range[1] as usize;
            assert!(!spots.is_empty());
            let top = f.parents()[h.nodes[spots.start] as usize];
            assert_eq!(
                top,
                if h.above[p] == NONE { NONE } else { h.nodes[h.above[p] as usize] },
                "{name}: path {p}"
            );
            for s in spots.clone() {
                assert_eq!((h.path_of[s], h.spots[h.nodes[s] as usize]), (p as u32, s as u32));
                assert_eq!(h.lengths[s], f.lengths()[h.nodes[s] as usize]);
                if s > spots.start {
                    assert_eq!(f.parents()[h.nodes[s] as usize], h.nodes[s - 1], "{name}: spot {s}");
                }
                for light in h.light_starts[s]..h.light_starts[s + 1] {
                    assert_eq!(h.above[light as usize], s as u32, "{name}: path {light} hangs from spot {s}");
                }
            }
        }
        assert_eq!(
            h.light_starts.last().copied(),
            Some(h.above.len() as u32),
            "{name}: every path hangs somewhere"
        );
        assert_eq!(h.light_starts[0] as usize, f.trees());
        for (r, range) in h.rounds.windows(2).enumerate() {
            for p in range[0]..range[1] {
                let above = h.above[p as usize];
                let round_above = (above != NONE).then(|| h.path_of[above as usize]);
                let expected = r.checked_sub(1).map(|r| h.rounds[r]..h.rounds[r + 1]);
                assert_eq!(round_above.is_none(), expected.is_none());
                assert!(
                    round_above.zip(expected).is_none_or(|(p, range)| range.contains(&p)),
                    "{name}: path {p}"
                );
            }
        }
        let most = n.max(1).ilog2() as usize + 1;
        assert!(h.round_count() <= most, "{name}: {} rounds for {n} nodes", h.round_count());
    }
    assert_eq!(HeavyPaths::new(&caterpillar(1000, 1000).expect("made")).round_count(), 1);
    let star = Forest::from_network(&star(1000).expect("made"), &[]).expect("a star");
    assert_eq!(HeavyPaths::new(&star).round_count(), 2);
}

#[test]
fn centroids_halve_and_join_every_pair_once() {
    for (name, f) in forests() {
        let c = Centroids::new(&f);
        let n = f.nodes();
        let mut sorted = c.nodes.clone();
        sorted.sort_unstable();
        assert!(sorted.iter().copied().eq(0..n as u32), "{name}: every node is a cut");
        assert!(c.levels.len() as u32 <= n.max(1).ilog2() + 2, "{name}: {} levels", c.levels.len() - 1);
        assert!(
            c.members.len() as f64 <= n as f64 * (n.max(1) as f64).log2() + 1.0,
            "{name}: {} members",
            c.members.len()
        );
        let depth = |i: u32, j: u32| -> u32 {
            let unit = Forest::from_parents(f.parents(), None).expect("the same");
            oracle::distances_from(&unit, i)[j as usize] as u32
        };
        let mut joined = vec![0_u8; n * n];
        for cut in 0..n {
            let branches = c.branch_starts[cut] as usize..c.branch_starts[cut + 1] as usize;
            let of = |b: usize| {
                let rows = c.row_starts[b] as usize..c.row_starts[b + 1] as usize;
                c.members[c.member_starts[rows.start] as usize..c.member_starts[rows.end] as usize].to_vec()
            };
            let lists: Vec<Vec<u32>> = branches.clone().map(of).collect();
            let size = 1 + lists.iter().map(Vec::len).sum::<usize>();
            assert!(lists.iter().all(|l| 2 * l.len() <= size), "{name}: cut {cut} leaves more than half");
            let heights: Vec<u32> = branches.clone().map(|b| c.row_starts[b + 1] - c.row_starts[b]).collect();
            assert!(heights.is_sorted_by(|a, b| a >= b), "{name}: {heights:?}");
            if n <= 60 {
                for (b, list) in branches.zip(&lists) {
                    let mut at = 0;
                    for r in c.row_starts[b]..c.row_starts[b + 1] {
                        let row = &c.members
                            [c.member_starts[r as usize] as usize..c.member_starts[r as usize + 1] as usize];
                        assert!(!row.is_empty() && row == &list[at..at + row.len()]);
                        assert!(
                            row.iter().all(|i| depth(c.nodes[cut], *i) == 1 + r - c.row_starts[b]),
                            "{name}"
                        );
                        at += row.len();
                    }
                }
            }
            for (b, list) in lists.iter().enumerate() {
                for i in list {
                    joined[*i as usize * n + c.nodes[cut] as usize] += 1;
                    joined[c.nodes[cut] as usize * n + *i as usize] += 1;
                    for j in lists.iter().enumerate().filter(|(o, _)| *o != b).flat_map(|(_, l)| l) {
                        joined[*i as usize * n + *j as usize] += 1;
                    }
                }
            }
        }
        let roots = f.roots();
        for i in 0..n {
            for j in (0..n).filter(|j| *j != i) {
                let expected = u8::from(roots[i] == roots[j]);
                assert_eq!(joined[i * n + j], expected, "{name}: {i} and {j}");
            }
        }
    }
}

#[test]
fn sums_over_forests_agree_with_all_pairs() {
    for (name, f) in forests() {
        let x = numbers(2 * f.nodes(), 3);
        let paths = HeavyPaths::new(&f);
        for lambda in [0.0, 0.05, 0.7, 5.0] {
            let expected = oracle::dense(&f, |d| (-lambda * d).exp(), &x, 2).expect(&name);
            let sweeps = oracle::exponential(&f, lambda, &x, 2).expect(&name);
            close(&format!("{name}, λ = {lambda}, sweeps"), &sweeps, &expected, 1e-13);
            let scans = oracle::exponential_by_paths(&f, &paths, lambda, &x, 2).expect(&name);
            close(&format!("{name}, λ = {lambda}, paths"), &scans, &expected, 1e-12);
        }
        let growing = -60.0 / f.diameter_length().max(1.0);
        let expected = oracle::dense(&f, |d| (-growing * d).exp(), &x, 2).expect(&name);
        close(
            &format!("{name}, growing"),
            &oracle::exponential(&f, growing, &x, 2).expect(&name),
            &expected,
            1e-12,
        );
        let unit = Forest::from_parents(f.parents(), None).expect(&name);
        let cuts = Centroids::new(&unit);
        let tables: [fn(f64) -> f64; 3] =
            [|d| 1.0 / (1.0 + d), |d| f64::from(u8::from(d <= 3.0)), |d| (0.8 * d).cos()];
        for (k, rule) in tables.into_iter().enumerate() {
            let table: Vec<f64> = (0..=unit.diameter()).map(|d| rule(f64::from(d))).collect();
            let expected = oracle::dense(&unit, rule, &x, 2).expect(&name);
            let got = oracle::by_centroids(&unit, &cuts, &table, &x, 2).expect(&name);
            close(&format!("{name}, function {k}"), &got, &expected, 1e-12);
            let got = oracle::by_levels(&unit, &table, &x, 2).expect(&name);
            close(&format!("{name}, function {k}, levels"), &got, &expected, 1e-12);
        }
    }
    let f = caterpillar(1000, 1000).expect("made");
    let text = message(oracle::exponential(&f, -0.1, &vec![0.0; 1000], 1));
    assert!(text.contains("99.9"), "{text}");
    message(oracle::exponential(&f, f64::NAN, &vec![0.0; 1000], 1));
    message(oracle::exponential(&f, 1.0, &[0.0], 1));
    let long = caterpillar(20_000, 20_000).expect("made");
    let text = message(oracle::by_levels(&long, &[1.0], &vec![0.0; 20_000], 1));
    assert!(text.contains("20000 × 20000") && text.contains("centroids"), "{text}");
}

#[test]
fn stored_tree_masks_come_out() {
    for shape in ["path", "star", "caterpillar", "random", "binary"] {
        let file = Stored::read(&format!("tree_exp_{shape}"));
        for n in [1, 2, 7, 200] {
            let name = |what: &str| format!("n{n}_{what}");
            let parents: Vec<u32> = file.numbers(&name("parent")).iter().map(|p| *p as i64 as u32).collect();
            let lengths: Vec<f32> = file.numbers(&name("weight")).iter().map(|w| *w as f32).collect();
            let f = Forest::from_parents(&parents, Some(&lengths)).expect(shape);
            for (l, lambda) in file.numbers(&name("lambda")).into_iter().enumerate() {
                let v = file.numbers(&name("V"));
                let expected = file.numbers(&name(&format!("MV_l{l}")));
                let got = oracle::exponential(&f, lambda, &v, 3).expect(shape);
                close(&format!("{shape} {n}, λ = {lambda}"), &got, &expected, 1e-13);
                let got = oracle::exponential_by_paths(&f, &HeavyPaths::new(&f), lambda, &v, 3).expect(shape);
                close(&format!("{shape} {n}, λ = {lambda}, paths"), &got, &expected, 1e-13);
                let eye = crate::shapes::identity(n);
                let mask = oracle::exponential(&f, lambda, &eye, n).expect(shape);
                let out = file.attention(&name(""), &mask);
                close(
                    &format!("{shape} {n}, attention"),
                    &out,
                    &file.numbers(&name(&format!("Out_l{l}"))),
                    1e-13,
                );
            }
        }
        let file = Stored::read(&format!("tree_general_{shape}"));
        for n in [1, 2, 7, 120] {
            let name = |what: &str| format!("n{n}_{what}");
            let parents: Vec<u32> = file.numbers(&name("parent")).iter().map(|p| *p as i64 as u32).collect();
            let f = Forest::from_parents(&parents, None).expect(shape);
            for rule in ["inv", "step", "signed"] {
                let table = file.numbers(&name(&format!("f_{rule}")));
                let got = oracle::by_centroids(&f, &Centroids::new(&f), &table, &file.numbers(&name("V")), 3);
                close(
                    &format!("{shape} {n} {rule}"),
                    &got.expect(shape),
                    &file.numbers(&name(&format!("MV_{rule}"))),
                    1e-13,
                );
            }
        }
    }
}

#[test]
fn a_million_nodes_need_no_stack() {
    // A stack of 256 KiB holds a few thousand frames: any recursion along the path would end the thread.
    let run = || {
        let n = 1_000_000;
        let long = caterpillar(n, n).expect("made");
        let star = Forest::from_network(&star(n).expect("made"), &[n as u32 - 1]).expect("a star");
        for (name, f) in [("path", long), ("star", star), ("random", random_tree(n, 1).expect("made"))] {
            let h = HeavyPaths::new(&f);
            assert!(h.round_count() <= 20, "{name}: {} rounds", h.round_count());
            let x = vec![1.0; n];
            let up = oracle::exponential(&f, 0.1, &x, 1).expect(name);
            let along = oracle::exponential_by_paths(&f, &h, 0.1, &x, 1).expect(name);
            // The star adds a million numbers one after the other, in two orders.
            close(name, &along, &up, 1e-9);
            let c = Centroids::new(&f);
            assert!(
                c.levels.len() <= 21 && c.members.len() <= 20 * n,
                "{name}: {} levels",
                c.levels.len() - 1
            );
        }
        let rows = f32::from(7_u8);
        let colours: Vec<f32> = (0..3 * n).map(|i| (i as f32 * 0.618).fract() * rows).collect();
        let picture = wgattn::topology::build::Picture::new(&colours, 1000, 1000).expect("sound");
        let tree = picture.tree(wgattn::topology::build::Reach::Sides, 1.0, 1.0).expect("made");
        assert_eq!((tree.trees(), tree.nodes()), (1, n));
    };
    let thread = std::thread::Builder::new().stack_size(256 << 10).spawn(run).expect("a thread");
    thread.join().expect("no stack overflow, no failed assertion");
}

proptest! {
    #[test]
    fn any_parents_give_one_answer(choices in prop::collection::vec((any::<u32>(), 0.0_f32..2.0), 0..70), shift in 0_u32..70, lambda in 0.0_f64..3.0) {
        // Node i hangs below an earlier one, or is a root one time in eight; then all are renumbered.
        let n = choices.len() as u32;
        let name = |i: u32| (i + shift) % n;
        let (mut parents, mut lengths) = (vec![NONE; n as usize], vec![0.0; n as usize]);
        for (i, (word, length)) in (0..n).zip(&choices) {
            if i > 0 && word % 8 != 0 {
                parents[name(i) as usize] = name(word % i);
            }
            lengths[name(i) as usize] = if *length < 0.1 { 0.0 } else { *length };
        }
        let f = Forest::from_parents(&parents, Some(&lengths)).expect("no cycle");
        let x = numbers(n as usize, 8);
        let expected = oracle::dense(&f, |d| (-lambda * d).exp(), &x, 1).expect("fits");
        close("sweeps", &oracle::exponential(&f, lambda, &x, 1).expect("fits"), &expected, 1e-12);
        let paths = HeavyPaths::new(&f);
        close("paths", &oracle::exponential_by_paths(&f, &paths, lambda, &x, 1).expect("fits"), &expected, 1e-12);
        prop_assert!(paths.round_count() <= n.max(1).ilog2() as usize + 1);
        let unit = Forest::from_parents(&parents, None).expect("no cycle");
        let table: Vec<f64> = (0..=unit.diameter()).map(|d| 1.0 / (1.0 + f64::from(d))).collect();
        let expected = oracle::dense(&unit, |d| 1.0 / (1.0 + d), &x, 1).expect("fits");
        let cuts = Centroids::new(&unit);
        close("centroids", &oracle::by_centroids(&unit, &cuts, &table, &x, 1).expect("fits"), &expected, 1e-12);
        close("levels", &oracle::by_levels(&unit, &table, &x, 1).expect("fits"), &expected, 1e-12);
    }
}
