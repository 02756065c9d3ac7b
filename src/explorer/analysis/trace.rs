//! The convergence of the landmark inverse: residuals as a device finds them, the bound that promised them, and the
//! spectrum that explains both.

use crate::backend::Backend;
use crate::error::{Error, Result};
use crate::explorer::snapshot::Trace;
use crate::graph::Graph;
use crate::kernels::linalg::newton_schulz::bound::{Bound, MOST_STEPS};
use crate::kernels::linalg::newton_schulz::{self, MOST_ROWS};
use crate::kernels::linalg::newton_schulz_trace;
use crate::tensor::{DType, HostTensor};
use nalgebra::DMatrix;
use rayon::prelude::*;

/// Residuals of the scaled Newton–Schulz iteration on `backend`, before the first step and after each, per head.
///
/// * `a`: `[1, h, m, m]`, A = W + ε I with W symmetric, positive semidefinite; kernel values are at most 1.
/// * `epsilon` = ε > 0, the lower bound of A's spectrum.
/// * As many steps as the engine's batched iteration takes: what the bound for u = m · max|W| + ε asks for, and one.
/// * The bound δ is on ‖I − AX‖₂. The residuals are Frobenius norms, so in exact arithmetic they stay below √m δ;
///   in single precision they level off near 5·10⁻⁸ times the condition number.
/// * Eigenvalues come from the same A in f64 on the host.
///
/// Errors: [`Error::Value`] for another shape or ε, [`Error::NotFinite`] for A, and what the device reports.
pub fn trace(backend: &dyn Backend, a: &HostTensor, epsilon: f64) -> Result<Vec<Trace>> {
    Ok(trace_watched(backend, a, epsilon, &mut |_, _| true)?.unwrap_or_default())
}

/// The same in parts: `watch` is told the parts done and all parts, and ends it by `false`; then `None`.
///
/// Errors: as [`trace`].
pub fn trace_watched(
    backend: &dyn Backend,
    a: &HostTensor,
    epsilon: f64,
    watch: &mut dyn FnMut(usize, usize) -> bool,
) -> Result<Option<Vec<Trace>>> {
    let (shape, values) = (a.shape(), a.to_f64());
    let &[1, heads, m, columns] = shape.dims() else { return Err(wrong_shape(a)) };
    if m == 0 || m != columns || m > MOST_ROWS {
        return Err(wrong_shape(a));
    }
    if !(epsilon.is_finite() && epsilon > 0.0) {
        let remedy = "give what stands on the diagonal beyond the kernel values";
        return Err(Error::value("epsilon of the trace", "a finite number > 0", epsilon, remedy));
    }
    // The eigenvalue iteration need not end on NaN.
    if let Some(index) = values.iter().position(|x| !x.is_finite()) {
        let (bits, tensor) = ((values[index] as f32).to_bits(), "landmark matrix A".into());
        let count = values.iter().filter(|x| !x.is_finite()).count();
        return Err(Error::NotFinite { tensor, index, bits, count });
    }
    let side = m as usize;
    let largest = largest_kernel_value(&values, side, epsilon);
    let whole = newton_schulz::Params { epsilon: epsilon as f32, largest, ..Default::default() };
    let steps = whole.steps_for(whole.worst_upper(m)).min(MOST_STEPS);
    let bound = bound(whole.worst_upper(m), f64::from(whole.epsilon), steps);

    let Some(residuals) = run(backend, a, &whole, steps, watch)? else { return Ok(None) };
    let device = backend.info().name;
    let of_head = |(head, matrix): (usize, &[f64])| {
        let eigenvalues = spectrum(matrix, side);
        let residuals = residuals.iter().skip(head).step_by(heads as usize).copied().collect();
        Trace { residuals, bound: bound.clone(), eigenvalues, epsilon, device: device.clone() }
    };
    // The spectrum of a large matrix takes a second: somebody looks between heads.
    let matrices: Vec<(usize, &[f64])> = values.chunks_exact(side * side).enumerate().collect();
    let mut found = Vec::with_capacity(matrices.len());
    for together in matrices.chunks(rayon::current_num_threads().max(1)) {
        if !watch(found.len(), matrices.len()) {
            return Ok(None);
        }
        found.par_extend(together.par_iter().copied().map(of_head));
    }
    Ok(Some(found))
}

fn wrong_shape(a: &HostTensor) -> Error {
    let expected = format!("[1, h, m, m] with m = 1 to {MOST_ROWS}");
    Error::value("landmark matrix of the trace", expected, a.shape(), "give the matrices of one photograph")
}

/// Largest entry of W = A − ε I, and at least the 1 of kernel values: rounding of 1 + ε must not move the steps.
fn largest_kernel_value(a: &[f64], m: usize, epsilon: f64) -> f32 {
    let on_diagonal = |at: usize| at % (m * m) / m == at % m;
    let entry = |(at, &x): (usize, &f64)| if on_diagonal(at) { (x - epsilon).abs() } else { x.abs() };
    let largest = a.iter().enumerate().map(entry).fold(0.0, f64::max);
    if largest <= 1.0 + 1e-6 { 1.0 } else { largest as f32 }
}

/// δ before the first step and after each.
fn bound(upper: f64, lower: f64, steps: u32) -> Vec<f64> {
    let mut now = Bound::start(upper, lower);
    let mut deltas = vec![now.delta()];
    for _ in 0..steps {
        now = now.step().1;
        deltas.push(now.delta());
    }
    deltas
}

/// `[steps + 1, h]`, residuals of all heads step by step.
fn run(
    backend: &dyn Backend,
    a: &HostTensor,
    whole: &newton_schulz::Params,
    steps: u32,
    watch: &mut dyn FnMut(usize, usize) -> bool,
) -> Result<Option<Vec<f64>>> {
    let heads = a.shape().dims()[1];
    let mut graph = Graph::new("convergence of the landmark inverse");
    let matrix = graph.input("A", a.shape(), DType::F32);
    let residuals = graph.transient("residuals", [steps + 1, 1, heads], DType::F32);
    let params =
        newton_schulz_trace::Params { epsilon: whole.epsilon, largest: whole.largest, ..Default::default() };
    graph.pass(&newton_schulz_trace::SPEC, &params, &[Some(matrix), Some(residuals)])?;
    graph.output(residuals)?;
    let mut program = backend.compile(&graph)?;
    program.write(matrix, a)?;
    if program.run_watched(watch)?.is_none() {
        return Ok(None);
    }
    Ok(Some(program.read(residuals)?.to_f64()))
}

/// Smallest and largest eigenvalue of a symmetric matrix.
fn spectrum(matrix: &[f64], m: usize) -> (f64, f64) {
    let eigenvalues = DMatrix::from_row_slice(m, m, matrix).symmetric_eigenvalues();
    (eigenvalues.min(), eigenvalues.max())
}
