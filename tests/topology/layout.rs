//! Places by forces: neighbours near, others apart, the same every time, and every shape of network.

use wgattn::topology::Network;
use wgattn::topology::build::{Reach, complete, grid, preferential, random_tree, ring, small_world, star};
use wgattn::topology::layout::{USUAL_STEPS, by_forces};

fn gap(places: &[[f32; 2]], i: u32, j: u32) -> f64 {
    let (a, b) = (places[i as usize], places[j as usize]);
    f64::from(a[0] - b[0]).hypot(f64::from(a[1] - b[1]))
}

#[test]
fn neighbours_lie_nearer_than_others_and_nothing_lies_on_another() {
    let networks = [
        ("grid", grid(&[9, 7], Reach::Sides).expect("a grid")),
        ("ring", ring(40).expect("a ring")),
        ("tree", random_tree(80, 1).expect("a tree").network().expect("its network")),
        ("star", star(30).expect("a star")),
        ("hubs", preferential(90, 2, 5).expect("a network")),
    ];
    for (name, network) in networks {
        let places = by_forces(&network, USUAL_STEPS, || true);
        assert!(places.iter().flatten().all(|x| x.is_finite()), "{name}");
        let n = network.nodes() as u32;
        let pairs = || (0..n).flat_map(|i| (0..i).map(move |j| (i, j)));
        let mean = |list: &[f64]| list.iter().sum::<f64>() / list.len() as f64;
        let (joined, apart): (Vec<_>, Vec<_>) = pairs().partition(|(i, j)| network.between(*i, *j) > 0.0);
        let lengths = |list: Vec<(u32, u32)>| -> Vec<f64> {
            list.into_iter().map(|(i, j)| gap(&places, i, j)).collect()
        };
        let (joined, apart) = (lengths(joined), lengths(apart));
        assert!(mean(&joined) < 0.8 * mean(&apart), "{name}: {} {}", mean(&joined), mean(&apart));
        let least = joined.iter().chain(&apart).copied().fold(f64::INFINITY, f64::min);
        assert!(least > 0.02 * mean(&joined), "{name}: two nodes {least} apart");
    }
}

#[test]
fn a_grid_unfolds() {
    let (rows, cols) = (8_u32, 12_u32);
    let network = grid(&[8, 12], Reach::Sides).expect("a grid");
    let places = by_forces(&network, USUAL_STEPS, || true);
    // Its corners are the farthest apart, as in the plane, and every edge is about as long as every other.
    let ends = [gap(&places, 0, rows * cols - 1), gap(&places, cols - 1, (rows - 1) * cols)];
    let lengths: Vec<f64> = network.edges().map(|(i, j, _)| gap(&places, i, j)).collect();
    let mean = lengths.iter().sum::<f64>() / lengths.len() as f64;
    let longest = lengths.iter().copied().fold(0.0, f64::max);
    assert!(longest < 2.0 * mean, "{longest} {mean}");
    assert!(ends.iter().all(|d| *d > 8.0 * mean), "{ends:?} {mean}");
}

#[test]
fn parts_lie_side_by_side_and_small_networks_have_places_too() {
    let two = Network::undirected(7, &[(0, 1), (1, 2), (3, 4), (4, 5)]).expect("two paths and a lone node");
    let places = by_forces(&two, 50, || true);
    let least = |a: &[u32], b: &[u32]| {
        let pairs = a.iter().flat_map(|i| b.iter().map(move |j| (*i, *j)));
        pairs.map(|(i, j)| gap(&places, i, j)).fold(f64::INFINITY, f64::min)
    };
    assert!(least(&[0, 1, 2], &[3, 4, 5]) > 1.0 && least(&[6], &[0, 1, 2, 3, 4, 5]) > 1.0);
    assert!(by_forces(&Network::isolated(0).expect("none"), 10, || true).is_empty());
    assert_eq!(by_forces(&Network::isolated(1).expect("one"), 10, || true), [[0.0, 0.0]]);
    let pair = by_forces(&Network::directed(2, &[(0, 1), (1, 1)]).expect("a pair"), 10, || true);
    assert!(gap(&pair, 0, 1) > 0.1);
}

#[test]
fn it_repeats_and_stops_when_told() {
    let network = small_world(200, 6, 0.1, 2).expect("a network");
    let first = by_forces(&network, 40, || true);
    assert_eq!(first, by_forces(&network, 40, || true));
    let mut asked = 0;
    by_forces(&network, 40, || {
        asked += 1;
        asked < 4
    });
    assert_eq!(asked, 4);
}

/// A step takes a bounded number of springs: a million cost what a hundred thousand do, and a complete network is a disc.
#[test]
fn places_of_complete_networks_are_found_in_bounded_time() {
    let network = complete(1000).expect("half a million edges");
    let began = cpu_time::ThreadTime::now();
    let places = by_forces(&network, USUAL_STEPS, || true);
    let seconds = began.elapsed().as_secs_f64();
    // 1 s of processor time in a debug build; all springs of all steps took 8.
    assert!(seconds < 4.0, "{seconds} s");
    let radius = |p: &[f32; 2]| f64::from(p[0]).hypot(f64::from(p[1]));
    let most = places.iter().map(radius).fold(0.0, f64::max);
    let mean = places.iter().map(radius).sum::<f64>() / 1000.0;
    assert!((0.5..0.8).contains(&(mean / most)), "a disc, evenly filled: {mean} of {most}");
}
