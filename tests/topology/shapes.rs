//! The networks and forests that every test goes through, stored arrays, and how two lists of numbers are compared.

use std::collections::BTreeMap;
use std::path::Path;
use wgattn::arrays::{Array, ArrayData, read};
use wgattn::topology::build::{
    Reach, binary_tree, caterpillar, complete, erdos_renyi, grid, hypercube, path, preferential, random_tree,
    recursive_tree, ring, small_world, star, torus,
};
use wgattn::topology::{Forest, NONE, Network};

/// Structured, random and adversarial networks, all undirected, with names.
pub(crate) fn networks() -> Vec<(String, Network)> {
    let mut list = Vec::new();
    let mut add = |name: &str, g: wgattn::Result<Network>| list.push((name.to_owned(), g.expect(name)));
    for n in 0..4 {
        add(&format!("path {n}"), path(n));
    }
    add("path 70", path(70));
    add("ring 65", ring(65));
    add("star 40", star(40));
    add("complete 12", complete(12));
    add("grid 5 × 8", grid(&[5, 8], Reach::Corners));
    add("grid 3 × 4 × 5", grid(&[3, 4, 5], Reach::Sides));
    add("torus 2 × 6", torus(&[2, 6], Reach::Sides));
    add("hypercube 4", hypercube(4));
    add("isolated 5", Network::isolated(5));
    add("Erdős–Rényi", erdos_renyi(50, 0.06, 3));
    add("small world", small_world(40, 4, 0.2, 4));
    add("preferential", preferential(60, 2, 5));
    add("caterpillar", caterpillar(31, 10).and_then(|f| f.network()));
    let parts = [complete(6), path(9), Network::isolated(2), star(5)].map(|g| g.expect("made"));
    add("components", Network::batch(&parts));
    let weighted = erdos_renyi(30, 0.15, 6).expect("made");
    add("weighted", weighted.reweighted(|i, j, _| 0.1 + (i.min(j) * 7 % 5) as f32 + (i.max(j) % 3) as f32));
    add(
        "loops",
        Network::undirected_weighted(6, &[(0, 0, 2.0), (0, 1, 1.5), (1, 2, 0.5), (4, 4, 1.0), (2, 0, 3.0)]),
    );
    list
}

/// Forests of all shapes with uneven lengths.
pub(crate) fn forests() -> Vec<(String, Forest)> {
    let mut list = Vec::new();
    let mut add = |name: &str, f: wgattn::Result<Forest>| {
        let f = f.expect(name);
        let lengths: Vec<f32> = (0..f.nodes() as u32).map(|i| 0.05 + (i * 37 % 11) as f32 * 0.09).collect();
        list.push((name.to_owned(), Forest::from_parents(f.parents(), Some(&lengths)).expect(name)));
    };
    let parents = |list: &[u32]| Forest::from_parents(list, None);
    add("empty", parents(&[]));
    add("one", parents(&[NONE]));
    add("two", parents(&[1, NONE]));
    add("path", caterpillar(201, 201));
    add("path from the middle", path(90).and_then(|g| Forest::from_network(&g, &[45])));
    add("star", star(120).and_then(|g| Forest::from_network(&g, &[])));
    add("star from a leaf", star(120).and_then(|g| Forest::from_network(&g, &[7])));
    add("caterpillar", caterpillar(150, 60));
    add("binary", binary_tree(127));
    add("Prüfer", random_tree(240, 11));
    add("recursive", recursive_tree(200, 12));
    let mixed = [random_tree(40, 1), binary_tree(9), caterpillar(1, 1), caterpillar(30, 30)];
    let mixed = mixed.map(|f| f.and_then(|f| f.network()).expect("a tree"));
    add("forest", Network::batch(&mixed).and_then(|g| Forest::from_network(&g, &[])));
    list
}

/// Numbers in [−1, 1) that differ from index to index.
pub(crate) fn numbers(count: usize, seed: u32) -> Vec<f64> {
    let mix = |i: u32| {
        let x = (i ^ seed.wrapping_mul(0x1234_5671)).wrapping_mul(0x9e37_79b9);
        let x = (x ^ (x >> 15)).wrapping_mul(0x85eb_ca6b);
        f64::from(x ^ (x >> 13)) / 2.0_f64.powi(31) - 1.0
    };
    (0..count as u32).map(mix).collect()
}

/// Fails where two lists differ by more than `tolerance` times the greatest of the second.
pub(crate) fn close(name: &str, got: &[f64], expected: &[f64], tolerance: f64) {
    assert_eq!(got.len(), expected.len(), "{name}: length");
    let scale = expected.iter().fold(0.0_f64, |m, x| m.max(x.abs())).max(1e-30);
    for (i, (a, b)) in got.iter().zip(expected).enumerate() {
        assert!(
            (a - b).abs() <= tolerance * scale,
            "{name}: element {i} is {a:e}, expected {b:e} (scale {scale:e})"
        );
    }
}

/// One file of stored arrays.
pub(crate) struct Stored(BTreeMap<String, Array>);

impl Stored {
    pub(crate) fn read(name: &str) -> Self {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/data/masking/{name}.npz"));
        Self(read(path).expect("the stored arrays are there"))
    }

    pub(crate) fn numbers(&self, name: &str) -> Vec<f64> {
        match &self.0[name].data {
            ArrayData::F32(v) => v.iter().map(|&x| f64::from(x)).collect(),
            ArrayData::F64(v) => v.clone(),
            ArrayData::I32(v) => v.iter().map(|&x| f64::from(x)).collect(),
            ArrayData::U8(v) => v.iter().map(|&x| f64::from(x)).collect(),
            other => panic!("{name} is {}", other.dtype()),
        }
    }

    pub(crate) fn number(&self, name: &str) -> f64 {
        self.numbers(name)[0]
    }

    /// The network of `{prefix}n`, `{prefix}edges` and, if they are there, weights.
    pub(crate) fn network(&self, prefix: &str) -> Network {
        let weights = self.0.contains_key(&format!("{prefix}weights"));
        let weights = weights.then(|| self.numbers(&format!("{prefix}weights")));
        let edges = self.numbers(&format!("{prefix}edges"));
        let edge = |(e, ij): (usize, &[f64])| {
            (ij[0] as u32, ij[1] as u32, weights.as_ref().map_or(1.0, |w| w[e] as f32))
        };
        let edges: Vec<_> = edges.chunks_exact(2).enumerate().map(edge).collect();
        Network::undirected_weighted(self.number(&format!("{prefix}n")) as usize, &edges).expect("a network")
    }

    /// Masked attention `[n, d]` by a dense mask, to be compared with the file's own.
    pub(crate) fn attention(&self, prefix: &str, mask: &[f64]) -> Vec<f64> {
        let [q, k, v] = ["Q", "K", "V"].map(|name| self.numbers(&format!("{prefix}{name}")));
        let n = (mask.len() as f64).sqrt() as usize;
        let (r, d) = (q.len() / n, v.len() / n);
        let mut out = vec![0.0; n * d];
        for i in 0..n {
            let mut sum = 0.0;
            for j in 0..n {
                let dot: f64 = (0..r).map(|c| q[i * r + c] * k[j * r + c]).sum();
                let weight = mask[i * n + j] * dot;
                sum += weight;
                for c in 0..d {
                    out[i * d + c] += weight * v[j * d + c];
                }
            }
            if sum != 0.0 {
                out[i * d..(i + 1) * d].iter_mut().for_each(|x| *x /= sum);
            }
        }
        out
    }
}

/// The identity, whose product with an operator is its matrix.
pub(crate) fn identity(n: usize) -> Vec<f64> {
    (0..n * n).map(|at| f64::from(u8::from(at % (n + 1) == 0))).collect()
}
