//! Matrices for the inverse's test cases: kernel matrices of seeded points, made in f64 and rounded once.

use crate::tensor::{Dims, HostData};

/// A number in [0, 1) from a counter (a Weyl sequence with an irrational step, shuffled by its square).
fn unit(counter: u64) -> f64 {
    let x = (counter as f64 + 1.0) * 0.754_877_666_246_692_8;
    (x + x * x * 0.569_840_290_998_053_3).fract()
}

/// A = scale (W + shift I), W the Laplacian kernel of `m` points in eight dimensions with coordinates in [0, spread).
/// `distinct` < `m` makes the later points copies of the earlier ones.
fn kernel_matrix(seed: u64, m: usize, distinct: usize, spread: f64, shift: f64, scale: f64) -> Vec<f32> {
    let coordinate = |point: usize, axis: usize| {
        spread * unit(seed * 100_003 + (point % distinct.max(1)) as u64 * 8 + axis as u64)
    };
    let entry = |at: usize| {
        let (i, j) = (at / m, at % m);
        let distance: f64 = (0..8).map(|c| (coordinate(i, c) - coordinate(j, c)).abs()).sum();
        (scale * ((-distance / 4.0).exp() + if i == j { shift } else { 0.0 })) as f32
    };
    (0..m * m).map(entry).collect()
}

fn batch(dims: &Dims, matrix: impl Fn(u64, usize) -> Vec<f32>) -> HostData {
    HostData::F32(
        (0..dims.batches())
            .flat_map(|head| matrix(head, dims.at("m")))
            .collect(),
    )
}

/// Well spread points, ε = 1e-3.
pub fn spread(dims: &Dims) -> HostData {
    batch(dims, |head, m| kernel_matrix(head, m, m, 2.0, 1e-3, 1.0))
}

/// Every point twice: only ε keeps the matrix regular. ε = 1e-2.
pub fn duplicates(dims: &Dims) -> HostData {
    batch(dims, |head, m| {
        kernel_matrix(head, m, m.div_ceil(2), 2.0, 1e-2, 1.0)
    })
}

/// One point m times, ε = 1e-2: the worst condition there is, (m + ε)/ε.
pub fn equal(dims: &Dims) -> HostData {
    batch(dims, |head, m| kernel_matrix(head, m, 1, 2.0, 1e-2, 1.0))
}

/// [`spread`] times 1e-10.
pub fn tiny(dims: &Dims) -> HostData {
    batch(dims, |head, m| kernel_matrix(head, m, m, 2.0, 1e-3, 1e-10))
}

/// [`spread`] times 1e10.
pub fn huge(dims: &Dims) -> HostData {
    batch(dims, |head, m| kernel_matrix(head, m, m, 2.0, 1e-3, 1e10))
}

/// [`spread`], but the points of head 1 lie in a heap.
pub fn one_hard(dims: &Dims) -> HostData {
    batch(dims, |head, m| {
        kernel_matrix(head, m, m, if head == 1 { 0.02 } else { 2.0 }, 1e-3, 1.0)
    })
}

/// ε = 0.3, for starts that need many steps otherwise.
pub fn mild(dims: &Dims) -> HostData {
    batch(dims, |head, m| kernel_matrix(head, m, m, 4.0, 0.3, 1.0))
}

/// [`duplicates`] with −ε on the diagonal in place of ε: no pivot beyond the distinct points is positive until nine
/// more ε are added.
pub fn indefinite(dims: &Dims) -> HostData {
    batch(dims, |head, m| {
        kernel_matrix(head, m, m.div_ceil(2), 2.0, -1e-2, 1.0)
    })
}

/// Not symmetric: [`mild`] with a different factor on every row.
pub fn two_sets(dims: &Dims) -> HostData {
    batch(dims, |head, m| {
        let mut a = kernel_matrix(head, m, m, 4.0, 0.3, 1.0);
        for (i, row) in a.chunks_mut(m).enumerate() {
            row.iter_mut().for_each(|x| *x *= 0.5 + unit(i as u64) as f32);
        }
        a
    })
}
