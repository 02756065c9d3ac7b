//! Square matrices on the host: what the references of the inverse's kernels are made of.

use crate::kernel::Real;

/// C = A B for row-major `[m, m]`.
pub fn product<T: Real>(a: &[T], b: &[T], m: usize) -> Vec<T> {
    let mut out = vec![T::zero(); m * m];
    for (line, row) in out.chunks_mut(m).zip(a.chunks(m)) {
        for (&x, row) in row.iter().zip(b.chunks(m)) {
            for (y, &w) in line.iter_mut().zip(row) {
                *y += x * w;
            }
        }
    }
    out
}

/// ‖I − P‖_F over the leading `size` rows and columns of row-major `[m, m]`.
pub fn distance_from_identity<T: Real>(p: &[T], m: usize, size: usize) -> T {
    let mut sum = T::zero();
    for (i, row) in p.chunks(m.max(1)).take(size).enumerate() {
        for (j, &x) in row.iter().take(size).enumerate() {
            let miss = if i == j { T::one() - x } else { x };
            sum += miss * miss;
        }
    }
    sum.sqrt()
}

/// Largest sum of magnitudes of a row.
pub fn row_norm<T: Real>(a: &[T], m: usize) -> T {
    let sum = |row: &[T]| row.iter().fold(T::zero(), |s, x| s + x.abs());
    a.chunks(m).map(sum).fold(T::zero(), T::max)
}

/// The transpose of row-major `[m, m]`.
pub fn transposed<T: Real>(a: &[T], m: usize) -> Vec<T> {
    (0..m * m).map(|at| a[at % m * m + at / m]).collect()
}

/// The inverse of a symmetric matrix by its Cholesky factor, from the lower triangle; `None` where a pivot is not
/// positive.
pub fn cholesky_inverse<T: Real>(a: &[T], m: usize) -> Option<Vec<T>> {
    let mut l = a.to_vec();
    for k in 0..m {
        let pivot = l[k * m + k];
        if pivot.is_nan() || pivot <= T::zero() {
            return None;
        }
        let root = pivot.sqrt();
        l[k * m + k] = root;
        for i in k + 1..m {
            l[i * m + k] /= root;
        }
        for i in k + 1..m {
            for j in k + 1..=i {
                let part = l[i * m + k] * l[j * m + k];
                l[i * m + j] -= part;
            }
        }
    }
    let mut inverse = vec![T::zero(); m * m]; // of L, lower triangle
    for j in 0..m {
        inverse[j * m + j] = l[j * m + j].recip();
        for i in j + 1..m {
            let sum: T = (j..i).map(|k| l[i * m + k] * inverse[k * m + j]).sum();
            inverse[i * m + j] = -sum / l[i * m + i];
        }
    }
    let entry = |at: usize| {
        let (i, j) = (at / m, at % m);
        (i.max(j)..m)
            .map(|k| inverse[k * m + i] * inverse[k * m + j])
            .sum()
    };
    Some((0..m * m).map(entry).collect())
}
