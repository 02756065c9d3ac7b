//! Laplacians, bounds, Bessel functions and series: against eigenvalues, power series and stored kernels.

use crate::shapes::{Stored, close, identity, networks, numbers};
use nalgebra::DMatrix;
use wgattn::topology::build::{Reach, complete, grid, hypercube, path, ring, star};
use wgattn::topology::chebyshev::{Series, coefficients, scaled_bessel};
use wgattn::topology::spectrum::{adjacency, adjacency_bounds, normalised};
use wgattn::topology::{Laplacian, Network};

const KINDS: [(&str, Laplacian); 3] =
    [("comb", Laplacian::Combinatorial), ("norm", Laplacian::Symmetric), ("rw", Laplacian::RandomWalk)];

fn matrix(g: &Network, kind: Laplacian) -> DMatrix<f64> {
    DMatrix::from_row_slice(
        g.nodes(),
        g.nodes(),
        &kind.apply(g, &identity(g.nodes()), g.nodes()).expect("fits"),
    )
}

#[test]
fn laplacians_are_what_their_names_say() {
    let g = Network::undirected_weighted(4, &[(0, 1, 4.0), (1, 2, 5.0), (1, 1, 7.0)]).expect("sound");
    let expected = [4., -4., 0., 0., -4., 9., -5., 0., 0., -5., 5., 0., 0., 0., 0., 0.];
    close("combinatorial", matrix(&g, Laplacian::Combinatorial).transpose().as_slice(), &expected, 1e-15);
    let (a, b) = (-4.0 / 6.0, -5.0 / 45.0_f64.sqrt());
    let expected = [1., a, 0., 0., a, 1., b, 0., 0., b, 1., 0., 0., 0., 0., 0.];
    close("symmetric", matrix(&g, Laplacian::Symmetric).transpose().as_slice(), &expected, 1e-15);
    let expected = [1., -1., 0., 0., -4. / 9., 1., -5. / 9., 0., 0., -1., 1., 0., 0., 0., 0., 0.];
    close("random walk", matrix(&g, Laplacian::RandomWalk).transpose().as_slice(), &expected, 1e-15);
    let n = normalised(&g).expect("symmetric");
    let a = adjacency(&n, &identity(4), 4).expect("fits");
    let l = matrix(&g, Laplacian::Symmetric);
    for i in 0..3 {
        for j in (0..4).filter(|j| *j != i) {
            assert!((a[4 * i + j] + l[(i, j)]).abs() < 1e-7);
        }
    }
    for (name, kind) in Laplacian::ALL {
        assert_eq!((name.parse::<Laplacian>().expect(name), kind.to_string()), (kind, name.to_string()));
    }
    assert!("other".parse::<Laplacian>().expect_err("unknown").to_string().contains("random-walk"));
}

#[test]
fn bounds_hold_in_every_component() {
    for (name, g) in networks() {
        let components = g.components();
        for component in 0..components.count {
            let inside: Vec<usize> =
                (0..g.nodes()).filter(|i| components.of[*i] as usize == component).collect();
            let part = |m: &DMatrix<f64>| {
                DMatrix::from_fn(inside.len(), inside.len(), |i, j| m[(inside[i], inside[j])])
            };
            for (_, kind) in &KINDS[..2] {
                let largest = part(&matrix(&g, *kind)).symmetric_eigenvalues().max();
                let bound = kind.bounds(&g).expect(&name)[component];
                assert!(
                    largest <= bound + 1e-12 && bound <= 2.5 * largest + 1e-12,
                    "{name} {kind}: {largest} and {bound}"
                );
            }
            let a = DMatrix::from_row_slice(
                g.nodes(),
                g.nodes(),
                &adjacency(&g, &identity(g.nodes()), g.nodes()).expect("fits"),
            );
            let largest = part(&a).symmetric_eigenvalues().max();
            for steps in [0, 3, 200] {
                let bound = adjacency_bounds(&g, steps).expect(&name)[component];
                assert!(largest <= bound * (1.0 + 1e-12), "{name}, {steps} steps: {largest} and {bound}");
                // Hundreds of steps find it where the gap is not tiny.
                assert!(steps < 200 || bound <= 1.02 * largest + 1e-12, "{name}: {largest} and {bound}");
            }
        }
    }
}

#[test]
fn scaled_bessel_functions_agree_with_their_series() {
    // e^−a I_k(a) by the power series in logarithms, positive terms only.
    let series = |k: usize, a: f64| -> f64 {
        let mut log = k as f64 * (0.5 * a).ln() - (1..=k).map(|i| (i as f64).ln()).sum::<f64>() - a;
        let mut sum = 0.0;
        for m in 1..4000 {
            sum += log.exp();
            log += 2.0 * (0.5 * a).ln() - (m as f64).ln() - ((m + k) as f64).ln();
        }
        sum
    };
    for a in [1e-8, 1e-3, 0.5, 1.0, 7.5, 30.0, 200.0, 700.0] {
        let got = scaled_bessel(60, a).expect("in range");
        for (k, x) in got.iter().enumerate() {
            let expected = series(k, a);
            assert!(
                (x - expected).abs() <= 3e-12 * expected + 1e-305,
                "k = {k}, a = {a}: {x:e}, expected {expected:e}"
            );
        }
    }
    // Hankel's expansion for large arguments: e^−a I₀(a) √(2πa) = 1 + 1/8a + 9/128a² + 225/3072a³ + …
    for a in [1e4, 1e5, 1e6] {
        let expected = (1.0 + 0.125 / a + 9.0 / (128.0 * a * a) + 225.0 / (3072.0 * a * a * a))
            / (std::f64::consts::TAU * a).sqrt();
        let got = scaled_bessel(3, a).expect("in range");
        assert!((got[0] / expected - 1.0).abs() < 1e-12, "a = {a}: {} and {expected}", got[0]);
        // I₀ − I₂ = (2/a) I₁.
        assert!((got[0] - got[2] - 2.0 / a * got[1]).abs() < 1e-15);
    }
    assert_eq!(scaled_bessel(3, 0.0).expect("in range"), [1.0, 0.0, 0.0]);
    assert_eq!(scaled_bessel(0, 1.0).expect("in range"), [0.0; 0]);
    assert!(scaled_bessel(5, 1e-95).expect("in range")[1] > 0.0);
    for a in [-1.0, f64::NAN, f64::INFINITY, 1e8] {
        scaled_bessel(3, a).expect_err("out of range");
    }
}

#[test]
fn series_have_the_degree_that_their_tail_asks_for() {
    for a in [0.0, 0.5, 5.0, 50.0, 850.0, 1e5] {
        for rtol in [1e-3, 1e-6, 1e-12] {
            let c = coefficients(a, rtol).expect("in range");
            let sum: f64 = c.iter().sum();
            assert!((1.0 - sum) <= rtol * 1.001 + 1e-14 && sum <= 1.0 + 1e-12, "a = {a}: {sum}");
            if c.len() > 1 {
                assert!(
                    1.0 - (sum - c[c.len() - 1]) > rtol * 0.999,
                    "a = {a}, rtol = {rtol}: one term too many"
                );
            }
            let rule = (2.0 * a * (2.0 / rtol).ln()).sqrt().ceil() as usize + 4;
            assert!(
                a < 5.0 || c.len() <= rule + 1,
                "a = {a}, rtol = {rtol}: {} terms, rule of thumb {rule}",
                c.len()
            );
        }
    }
    coefficients(1.0, 0.0).expect_err("no tolerance");
    coefficients(1.0, 1.0).expect_err("no accuracy");
    let g = path(4).expect("made");
    for t in [-1.0, f64::NAN, f64::INFINITY] {
        let text = Series::heat(&g, Laplacian::Combinatorial, t, 1e-6).expect_err("refused").to_string();
        assert!(text.contains("t of exp(−tL)"), "{text}");
        Series::growth(&g, t, 1e-6).expect_err("refused");
    }
    Series::heat(&Network::directed(2, &[(0, 1)]).expect("sound"), Laplacian::Symmetric, 1.0, 1e-6)
        .expect_err("directed");
    Series::heat(&g, Laplacian::Combinatorial, 1e300, 1e-6).expect_err("too long");
}

#[test]
fn stored_heat_kernels_come_out() {
    for name in ["er", "grid", "star", "ba", "two_components", "isolated", "weighted"] {
        let file = Stored::read(&format!("heat_{name}"));
        let g = file.network("");
        let n = g.nodes();
        for (key, kind) in KINDS {
            for (i, t) in file.numbers("t").into_iter().enumerate() {
                let series = Series::heat(&g, kind, t, 1e-14).expect(name);
                let got = series.apply_heat(&g, kind, &file.numbers("X"), 2).expect(name);
                // 2e-12: how far the stored values themselves agree on the star.
                close(
                    &format!("{name} {key} t = {t}"),
                    &got,
                    &file.numbers(&format!("MX_{key}_t{i}")),
                    4e-12,
                );
                let mask = series.apply_heat(&g, kind, &identity(n), n).expect(name);
                let out = file.attention("", &mask);
                close(
                    &format!("{name} {key} t = {t}, attention"),
                    &out,
                    &file.numbers(&format!("Out_{key}_t{i}")),
                    1e-10,
                );
                let rows: Vec<f64> = file
                    .numbers("row_index")
                    .iter()
                    .flat_map(|r| mask[*r as usize * n..(*r as usize + 1) * n].to_vec())
                    .collect();
                close(
                    &format!("{name} {key} t = {t}, rows"),
                    &rows,
                    &file.numbers(&format!("M_rows_{key}_t{i}")),
                    4e-12,
                );
            }
        }
    }
}

#[test]
fn stored_growth_kernels_come_out() {
    let file = Stored::read("exp_adjacency");
    for prefix in ["er_", "star_"] {
        let g = file.network(prefix);
        let components = g.components();
        for (i, t) in file.numbers(&format!("{prefix}t")).into_iter().enumerate() {
            let series = Series::growth(&g, t, 1e-14).expect(prefix);
            let mut got = series.apply_growth(&g, &file.numbers(&format!("{prefix}X")), 2).expect(prefix);
            let expected = file.numbers(&format!("{prefix}MX_t{i}"));
            // The file is scaled by the greatest eigenvalue of the whole network, ours by each component's class.
            let most = file.number(&format!("{prefix}lmax"));
            for (at, x) in got.iter_mut().enumerate() {
                *x *= (t * (series.bounds[series.class_of[at / 2] as usize] - most)).exp();
            }
            for component in 0..components.count {
                let inside = |list: &[f64]| -> Vec<f64> {
                    (0..list.len())
                        .filter(|at| components.of[at / 2] as usize == component)
                        .map(|at| list[at])
                        .collect()
                };
                close(&format!("{prefix} t = {t}"), &inside(&got), &inside(&expected), 1e-11);
            }
            let n = g.nodes();
            let mask = series.apply_growth(&g, &identity(n), n).expect(prefix);
            close(
                &format!("{prefix} t = {t}, attention"),
                &file.attention(prefix, &mask),
                &file.numbers(&format!("{prefix}Out_t{i}")),
                1e-9,
            );
        }
    }
}

#[test]
fn closed_forms_come_out() {
    let file = Stored::read("path_cycle_grid");
    let list = [("path37", path(37)), ("cycle24", ring(24)), ("grid5x8", grid(&[5, 8], Reach::Sides))];
    for (name, g) in list {
        let g = g.expect(name);
        for (i, t) in file.numbers(&format!("{name}_t")).into_iter().enumerate() {
            let series = Series::heat(&g, Laplacian::Combinatorial, t, 1e-14).expect(name);
            let got = series
                .apply_heat(&g, Laplacian::Combinatorial, &file.numbers(&format!("{name}_X")), 2)
                .expect(name);
            close(&format!("{name} t = {t}"), &got, &file.numbers(&format!("{name}_MX_t{i}")), 1e-12);
        }
    }
    let file = Stored::read("hypercube");
    for d in [1, 3, 6] {
        let g = hypercube(d).expect("made");
        for (i, t) in file.numbers(&format!("d{d}_t")).into_iter().enumerate() {
            let series = Series::heat(&g, Laplacian::Combinatorial, t, 1e-14).expect("made");
            let mut x = vec![0.0; 1 << d];
            x[0] = 1.0;
            let got = series.apply_heat(&g, Laplacian::Combinatorial, &x, 1).expect("fits");
            let by_distance = file.numbers(&format!("d{d}_by_hamming_t{i}"));
            let expected: Vec<f64> = (0..1_u32 << d).map(|j| by_distance[j.count_ones() as usize]).collect();
            close(&format!("cube {d} t = {t}"), &got, &expected, 1e-12);
        }
    }
}

#[test]
fn diffusion_keeps_mass_and_adds_its_times() {
    for (name, g) in networks().into_iter().filter(|(_, g)| g.nodes() > 0) {
        let n = g.nodes();
        let x = numbers(n, 2);
        let kind = Laplacian::Combinatorial;
        let run = |t: f64, x: &[f64]| {
            Series::heat(&g, kind, t, 1e-14).and_then(|s| s.apply_heat(&g, kind, x, 1)).expect(&name)
        };
        close(&format!("{name}, in two parts"), &run(0.7, &run(1.9, &x)), &run(2.6, &x), 1e-11);
        close(&format!("{name}, no time"), &run(0.0, &x), &x, 1e-15);
        // Renumbered, the same: places are turned round.
        let turned: Vec<f64> = x.iter().rev().copied().collect();
        let place: Vec<u32> = (0..n as u32).rev().collect();
        let moved = g.permuted(&place).expect(&name);
        let series = Series::heat(&moved, kind, 2.6, 1e-14).expect(&name);
        let mut other = series.apply_heat(&moved, kind, &turned, 1).expect(&name);
        other.reverse();
        close(&format!("{name}, renumbered"), &other, &run(2.6, &x), 1e-12);
        let sum = |x: &[f64]| x.iter().sum::<f64>();
        assert!((sum(&run(3.0, &x)) - sum(&x)).abs() < 1e-11, "{name}");
        for i in (0..n as u32).filter(|i| g.neighbours(*i).iter().all(|j| j == i)) {
            assert_eq!(run(5.0, &x)[i as usize], x[i as usize], "{name}: lone node {i} stays");
        }
    }
    // A complete network beside a tree: each has its own bound.
    let parts = [complete(11).expect("made"), path(6).expect("made"), Network::isolated(1).expect("made")];
    let series = Series::heat(&Network::batch(&parts).expect("fits"), Laplacian::Combinatorial, 3.0, 1e-6)
        .expect("made");
    assert_eq!(series.bounds, [0.0, 4.0, 20.0]);
    assert_eq!(series.degree() + 1, series.coefficients[2].len());
    let table = series.table();
    assert_eq!(table.len(), 3 * (series.degree() + 1));
    assert_eq!(&table[..2], [1.0, 0.0]);
    assert_eq!(star(9).and_then(|g| Laplacian::Combinatorial.bounds(&g)).expect("made"), [9.0]);
}
