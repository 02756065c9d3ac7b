//! Steps through time against the kernel itself: orders of convergence, what is kept, and what is refused.

use wgattn::topology::build::{Reach, grid, preferential, ring};
use wgattn::topology::chebyshev::Series;
use wgattn::topology::integrate::Scheme;
use wgattn::topology::{Laplacian, Network};

fn worst(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| (a - b).abs()).fold(0.0, f64::max)
}

/// A smooth start: Crank–Nicolson shows its order there with any number of steps.
fn start(n: usize) -> Vec<f64> {
    (0..n).map(|i| (0.37 * i as f64).sin() + 0.2 * ((i * i) as f64 * 0.11).cos()).collect()
}

fn exact(network: &Network, laplacian: Laplacian, t: f64, x: &[f64]) -> Vec<f64> {
    let series = Series::heat(network, laplacian, t, 1e-14).expect("a series");
    series.apply_heat(network, laplacian, x, 1).expect("exp(−tL) x")
}

#[test]
fn errors_fall_by_the_order_of_the_scheme() {
    let networks = [
        grid(&[7, 6], Reach::Corners).expect("a grid"),
        ring(31).expect("a ring"),
        preferential(50, 2, 3).expect("a network"),
    ];
    for network in &networks {
        let x = start(network.nodes());
        for (name, laplacian) in Laplacian::ALL {
            let reference = exact(network, laplacian, 1.5, &x);
            for (scheme_name, scheme) in Scheme::ALL {
                let error = |steps: u32| {
                    let (y, _) = scheme.heat(network, laplacian, (1.5, steps), &x, 1).expect("it steps");
                    worst(&y, &reference)
                };
                let (coarse, fine) = (error(64), error(128));
                let order = (coarse / fine).log2();
                let wanted = f64::from(scheme.order());
                assert!((order - wanted).abs() < 0.15, "{name} {scheme_name}: order {order:.3}");
            }
        }
    }
}

#[test]
fn channels_lone_nodes_and_loops_are_what_they_are_in_the_kernel() {
    // A path of three, a lone node, and a loop that does not count.
    let network =
        Network::undirected_weighted(4, &[(0, 1, 2.0), (1, 2, 0.5), (0, 0, 3.0)]).expect("it is one");
    let x = [1.0, 0.0, 0.0, 0.0, 0.0, 1.0, 5.0, 7.0];
    for (name, laplacian) in Laplacian::ALL {
        let series = Series::heat(&network, laplacian, 0.8, 1e-14).expect("a series");
        let reference = series.apply_heat(&network, laplacian, &x, 2).expect("exp(−tL) x");
        let (y, rounds) =
            Scheme::CrankNicolson.heat(&network, laplacian, (0.8, 512), &x, 2).expect("it steps");
        assert!(worst(&y, &reference) < 1e-5, "{name}: {y:?} {reference:?}");
        assert_eq!(y[6..], [5.0, 7.0], "{name}: a lone node keeps what it has");
        assert!(rounds > 0);
    }
}

#[test]
fn backward_euler_stays_positive_where_crank_nicolson_rings() {
    let network = ring(24).expect("a ring");
    let mut x = vec![0.0; 24];
    x[0] = 1.0;
    let least = |scheme: Scheme| {
        let (y, _) = scheme.heat(&network, Laplacian::Combinatorial, (8.0, 1), &x, 1).expect("it steps");
        y.into_iter().fold(f64::INFINITY, f64::min)
    };
    assert!(least(Scheme::BackwardEuler) >= 0.0);
    assert!(least(Scheme::CrankNicolson) < -0.1, "one long step overshoots");
}

#[test]
fn no_time_changes_nothing_and_bad_input_is_refused() {
    let network = ring(5).expect("a ring");
    let x = [1.0, 2.0, 3.0, 4.0, 5.0];
    let heat = |t, steps| Scheme::BackwardEuler.heat(&network, Laplacian::Symmetric, (t, steps), &x, 1);
    assert_eq!(heat(0.0, 3).expect("it steps").0, x);
    for (t, steps, word) in [(-1.0, 1, "t of"), (f64::NAN, 1, "t of"), (1.0, 0, "steps")] {
        let error = heat(t, steps).expect_err("it cannot be").to_string();
        assert!(error.contains(word), "{error}");
    }
    let one_way = Network::directed(2, &[(0, 1)]).expect("a network");
    let refused = Scheme::CrankNicolson.heat(&one_way, Laplacian::Symmetric, (1.0, 1), &[1.0, 0.0], 1);
    assert!(refused.is_err());
    let empty = Network::isolated(0).expect("nothing");
    let none = Scheme::CrankNicolson.heat(&empty, Laplacian::Symmetric, (1.0, 4), &[], 1).expect("nothing");
    assert!(none.0.is_empty());
}
