//! Object masks and a small f64 Nyström row for the tests of maps.
#![allow(dead_code, reason = "each test program uses a part of this")]

use glam::DVec2;
use image::{GrayImage, Luma};
use nalgebra::DMatrix;

/// A drawn object: mask and the region of clicks that a user would make on it.
pub(crate) struct Object {
    pub photo: &'static str,
    pub name: &'static str,
    inside: fn(DVec2) -> bool,
    clickable: fn(DVec2) -> bool,
}

/// The cat in `chelsea.png`; clicks on its tabby face up to the bridge of the nose, not on eyes.
pub(crate) const CAT: Object =
    Object { photo: "chelsea.png", name: "cat", inside: cat, clickable: tabby_face };

/// The drink in the cup of `coffee.png`; clicks on its light surface, not on its dark upper edge.
pub(crate) const DRINK: Object =
    Object { photo: "coffee.png", name: "drink", inside: drink, clickable: light_surface };

impl Object {
    /// Whether photograph point `at` belongs to the object.
    pub(crate) fn contains(&self, at: DVec2) -> bool {
        (self.inside)(at)
    }

    /// White object on black, one pixel per photograph pixel.
    pub(crate) fn mask(&self, width: u32, height: u32) -> GrayImage {
        GrayImage::from_fn(width, height, |x, y| {
            let at = DVec2::new(f64::from(x) + 0.5, f64::from(y) + 0.5);
            Luma([if self.contains(at) { 255 } else { 0 }])
        })
    }

    /// Points of a square lattice that are clickable together with their surroundings of `margin` pixels.
    pub(crate) fn clicks(&self, width: u32, height: u32, step: usize, margin: f64) -> Vec<glam::UVec2> {
        let offsets = [DVec2::ZERO, DVec2::X, DVec2::Y, DVec2::NEG_X, DVec2::NEG_Y];
        let mut clicks = Vec::new();
        for y in (step as u32 / 2..height).step_by(step) {
            for x in (step as u32 / 2..width).step_by(step) {
                let at = DVec2::new(f64::from(x), f64::from(y));
                if offsets.iter().all(|&o| (self.clickable)(at + o * margin)) {
                    clicks.push(glam::UVec2::new(x, y));
                }
            }
        }
        clicks
    }
}

fn cat(at: DVec2) -> bool {
    let outline = [
        (40, 0),
        (400, 0),
        (392, 20),
        (375, 45),
        (358, 72),
        (362, 110),
        (366, 140),
        (352, 175),
        (330, 205),
        (330, 240),
        (385, 262),
        (388, 300),
        (0, 300),
        (0, 128),
        (30, 112),
        (38, 60),
    ];
    in_polygon(&outline, at)
}

fn tabby_face(at: DVec2) -> bool {
    let outline = [
        (56, 24),
        (170, 16),
        (215, 60),
        (260, 110),
        (290, 200),
        (240, 215),
        (150, 205),
        (80, 180),
        (50, 140),
    ];
    in_polygon(&outline, at) && !in_ellipse(at, DVec2::new(171.0, 116.0), DVec2::new(38.0, 34.0), 0.0)
}

fn drink(at: DVec2) -> bool {
    in_ellipse(at, DVec2::new(287.0, 144.0), DVec2::new(82.0, 49.0), 5.0)
}

fn in_ellipse(at: DVec2, centre: DVec2, radii: DVec2, degrees: f64) -> bool {
    (DVec2::from_angle(-degrees.to_radians()).rotate(at - centre) / radii).length() <= 1.0
}

fn light_surface(at: DVec2) -> bool {
    in_ellipse(at, DVec2::new(290.0, 153.0), DVec2::new(76.0, 38.0), 5.0)
}

/// Even-odd rule.
fn in_polygon(corners: &[(i32, i32)], at: DVec2) -> bool {
    let corner = |i: usize| DVec2::new(f64::from(corners[i].0), f64::from(corners[i].1));
    (0..corners.len())
        .filter(|&i| {
            let (a, b) = (corner(i), corner((i + 1) % corners.len()));
            (a.y > at.y) != (b.y > at.y) && at.x < a.x + (b.x - a.x) * (at.y - a.y) / (b.y - a.y)
        })
        .count()
        % 2
        == 1
}

/// Nyström approximation of the Laplacian kernel matrix, one per head, in f64.
pub(crate) struct Nystrom {
    /// Per head: C `[n, m]` and C (W + εI)⁻¹ `[n, m]`.
    heads: Vec<(DMatrix<f64>, DMatrix<f64>)>,
}

impl Nystrom {
    /// `q`: `[h, n, d]` of an n = rows · cols grid; 7 × 7 landmarks at the centres of equal cells; ε = 1e-3.
    pub(crate) fn new(q: &[f32], [heads, rows, cols, d]: [usize; 4], lambda: &[f64]) -> Self {
        let n = rows * cols;
        let middle = |cell: usize, side: usize| (cell * side / 7 + (cell + 1) * side / 7) / 2;
        let landmarks: Vec<usize> =
            (0..49).map(|i| middle(i / 7, rows) * cols + middle(i % 7, cols)).collect();
        let heads = (0..heads).map(|h| {
            let row = |token: usize| &q[(h * n + token) * d..(h * n + token + 1) * d];
            let kernel = |a: usize, b: usize| {
                let distance: f64 = row(a).iter().zip(row(b)).map(|(x, y)| f64::from((x - y).abs())).sum();
                (-distance / lambda[h]).exp()
            };
            let c = DMatrix::from_fn(n, 49, |i, j| kernel(i, landmarks[j]));
            let w = DMatrix::from_fn(49, 49, |i, j| {
                kernel(landmarks[i], landmarks[j]) + if i == j { 1e-3 } else { 0.0 }
            });
            let inverse = w.cholesky().expect("a positive definite kernel matrix").inverse();
            let left = &c * inverse;
            (c, left)
        });
        Self { heads: heads.collect() }
    }

    /// Row of `query`, mean over heads, divided by its largest magnitude: `[n]`.
    pub(crate) fn map(&self, query: usize) -> Vec<f32> {
        let sum = self
            .heads
            .iter()
            .map(|(c, left)| c * left.row(query).transpose())
            .reduce(|a, b| a + b)
            .expect("at least one head");
        let largest = sum.amax();
        sum.iter().map(|v| (v / largest) as f32).collect()
    }
}

/// Probability that a random inside token has a larger value than a random outside one; ties count half.
pub(crate) fn auc(values: &[f32], inside: &[bool]) -> f64 {
    let mut order: Vec<usize> = (0..values.len()).collect();
    order.sort_by(|&a, &b| values[a].total_cmp(&values[b]));
    let (mut wins, mut seen_inside, mut seen_outside) = (0.0, 0.0, 0.0);
    for tied in order.chunk_by(|&a, &b| values[a] == values[b]) {
        let ins = tied.iter().filter(|&&i| inside[i]).count() as f64;
        let outs = tied.len() as f64 - ins;
        wins += ins * (seen_outside + 0.5 * outs);
        seen_inside += ins;
        seen_outside += outs;
    }
    wins / (seen_inside * seen_outside)
}
