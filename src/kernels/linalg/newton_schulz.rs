//! Inverse of landmark matrices by Newton–Schulz iteration, with a status for each.
//!
//! X ← c (2X − XAX) from a start and with factors that depend on the mode; see [`SCALED`] and its neighbours.
//!
//! * `a`, `x` `[b, h, m, m]`; A = W + ε I, symmetric except in the modes that say otherwise.
//! * `status` `[b, h, 4]`: the measured residual ‖I − AX‖_F of what `x` holds, u (largest row sum of |A|), steps, and a code:
//!   [`OK`], [`BY_CHOLESKY`], [`BY_CHOLESKY_SHIFTED`] (then the residual is against A + 9ε I) or [`FAILED`].
//! * f32 throughout: half precision stalls at a residual of 1e-2.
//!
//! Where the residual exceeds 1e-2, Cholesky takes over for that matrix (m ≤ 200); if a pivot is not positive or the
//! residual no better, once more with 9ε added to the diagonal; if that fails too, `x` keeps the iterate and the status
//! says so. Larger matrices are iterated a second time with 9ε on the diagonal instead, and the better one is chosen.
//!
//! Start factors are each matrix's own, never a maximum over the batch, so one hard head changes nothing for others.
//!
//! On a GPU a small matrix is one workgroup's work and its own u decides its number of steps. Otherwise the
//! iteration is recorded as batched products, and their number and factors come from the worst case
//! u = m · `largest` + ε, so that nothing is read back. A change of ε or tolerance that changes that number asks for
//! another schedule.

pub mod bound;
pub mod data;
pub mod dense;

use super::{identity_distance, inverse_choice, inverse_fallback, matmul, newton_schulz_start, newton_schulz_workgroup};
use crate::numbers::Short;
use crate::error::Result;
use crate::graph::{Expansion, Graph};
use crate::kernel::*;
use crate::params;
use crate::tensor::{DType, Dims, HostTensor, Tensor};
use bound::{Bound, MOST_STEPS};

/// Mode: X₀ = 2/(u + ε) I with the factors of the a-priori [`bound`], one step more than it asks for.
pub const SCALED: u32 = 0;
/// Mode: X₀ = 1.8/(largest row sum of W)² A, as the authors' code does it.
pub const AUTHORS: u32 = 1;
/// Mode: X₀ = 1.8/(largest row sum of A)² A, which converges where kernel values are tiny, too.
pub const AUTHORS_FIXED: u32 = 2;
/// Mode: X₀ = Aᵀ/(‖A‖₁ ‖A‖_∞) and the map of order 3, X ← ¼ X (13I − AX (15I − AX (7I − AX))). A need not be symmetric.
pub const NYSTROMFORMER: u32 = 3;
/// Mode: X₀ = Aᵀ/(‖A‖₁ ‖A‖_∞), X ← X (2I − AX). A need not be symmetric.
pub const PLAIN: u32 = 4;
/// Mode: X₀ = I/‖A‖_∞.
pub const IDENTITY: u32 = 5;

/// Code: the iteration converged.
pub const OK: u32 = 0;
/// Code: Cholesky took over.
pub const BY_CHOLESKY: u32 = 1;
/// Code: Cholesky took over with 10ε in place of ε on the diagonal.
pub const BY_CHOLESKY_SHIFTED: u32 = 2;
/// Code: neither gave an inverse; `x` holds the iterate.
pub const FAILED: u32 = 3;

/// Largest matrix. A workgroup walks over each, and llvmpipe ends all loops of an invocation, in silence, after 65 535
/// rounds.
pub const MOST_ROWS: u32 = 2048;

/// Largest residual ‖I − AX‖_F that passes, and up to which the implicit gradient is valid.
pub const ACCEPTED_RESIDUAL: f64 = 1e-2;

params! {
    /// Parameters of [`SPEC`].
    pub struct Params {
        /// ε, what A has on its diagonal beyond W: lower bound of its spectrum
        live epsilon: f32 = 1e-3,
        /// Largest ‖I − AX‖₂ that the a-priori bound may leave before the last step
        live tolerance: f32 = 1e-4,
        /// Largest magnitude of an entry of W: 1 for kernel values
        live largest: f32 = 1.0,
        /// Start and map: 0 scaled, 1 authors, 2 authors fixed, 3 Nyströmformer, 4 plain, 5 identity
        fixed mode: u32 = SCALED,
        /// Steps; 0 = as many as the bound asks for and one, or 20, 20, 6, 40, 20 in modes 1 to 5
        fixed steps: u32 = 0,
        /// 1 to let Cholesky take over where the residual exceeds 1e-2
        fixed fallback: u32 = 1,
    }
}

impl Params {
    /// Whether the mode's A may be other than symmetric.
    pub fn is_general(&self) -> bool {
        matches!(self.mode, NYSTROMFORMER | PLAIN)
    }

    /// Whether Cholesky may take over for matrices of size m.
    pub fn has_fallback(&self, m: u32) -> bool {
        self.fallback != 0 && !self.is_general() && m <= inverse_fallback::MOST_ROWS
    }

    /// Whether a second iteration with ten times ε stands behind matrices of size m.
    pub fn has_second_try(&self, m: u32) -> bool {
        self.fallback != 0 && !self.is_general() && m > inverse_fallback::MOST_ROWS
    }

    fn bound(&self, upper: f64) -> Bound {
        Bound::start(upper, f64::from(self.epsilon))
    }

    /// Upper bound of the spectrum of any A of size m with these parameters.
    pub fn worst_upper(&self, m: u32) -> f64 {
        f64::from(m) * f64::from(self.largest) + f64::from(self.epsilon)
    }

    /// Steps where the spectrum's upper bound is `upper`.
    pub fn steps_for(&self, upper: f64) -> u32 {
        match (self.steps, self.mode) {
            (0, SCALED) => (self.bound(upper).steps_to(f64::from(self.tolerance)) + 1).min(MOST_STEPS),
            (0, NYSTROMFORMER) => 6,
            (0, PLAIN) => 40,
            (0, _) => 20,
            (steps, _) => steps,
        }
    }

    /// Factors c of all steps where the spectrum's upper bound is `upper`; 1 in modes without.
    pub fn factors(&self, upper: f64) -> Vec<f64> {
        let steps = self.steps_for(upper);
        if self.mode == SCALED {
            self.bound(upper).factors(steps)
        } else {
            vec![1.0; steps as usize]
        }
    }
}

/// What the parameters of all entries of the family must satisfy.
pub(super) fn check_bounds(epsilon: f32, tolerance: f32, largest: f32) -> std::result::Result<(), String> {
    let positive = |name: &str, x: f32| {
        if x.is_finite() && x > 0.0 {
            Ok(())
        } else {
            Err(format!("{name} must be positive and finite, got {}", Short(x)))
        }
    };
    positive("epsilon", epsilon)?;
    positive("tolerance", tolerance)?;
    positive("largest", largest)
}

/// That a matrix is not too large.
pub(super) fn check_rows(rows: u32) -> std::result::Result<(), String> {
    if rows > MOST_ROWS {
        Err(format!("matrices have at most {MOST_ROWS} rows, got {rows}"))
    } else {
        Ok(())
    }
}

pub(super) fn check(dims: &Dims, params: &[u8]) -> std::result::Result<(), String> {
    let p = Params::from_bytes(params);
    check_rows(dims.size("m"))?;
    check_bounds(p.epsilon, p.tolerance, p.largest)?;
    if p.mode > IDENTITY {
        return Err(format!("mode is 0 to {IDENTITY}, got {}", p.mode));
    }
    if p.steps > MOST_STEPS {
        return Err(format!("steps is at most {MOST_STEPS}, got {}", p.steps));
    }
    if p.fallback > 1 {
        return Err(format!("fallback is 0 or 1, got {}", p.fallback));
    }
    Ok(())
}

/// The start X₀ of a mode.
pub(super) fn start<T: Real>(a: &[T], m: usize, mode: u32, epsilon: T) -> Vec<T> {
    let u = dense::row_norm(a, m);
    let scaled = |factor: T, matrix: &[T]| matrix.iter().map(|&x| factor * x).collect();
    let diagonal = |factor: T| {
        (0..m * m)
            .map(|at| if at / m == at % m { factor } else { T::zero() })
            .collect()
    };
    match mode {
        AUTHORS => {
            let mut w = a.to_vec();
            (0..m).for_each(|i| w[i * m + i] -= epsilon);
            let sum = dense::row_norm(&w, m);
            scaled(T::of(1.8) / (sum * sum), a)
        }
        AUTHORS_FIXED => scaled(T::of(1.8) / (u * u), a),
        NYSTROMFORMER | PLAIN => {
            let turned = dense::transposed(a, m);
            scaled((u * dense::row_norm(&turned, m)).recip(), &turned)
        }
        IDENTITY => diagonal(u.recip()),
        _ => diagonal(T::of(2.0) / (u + epsilon)),
    }
}

/// One step of a mode with its factor.
pub(super) fn step<T: Real>(a: &[T], x: &[T], m: usize, mode: u32, factor: T) -> Vec<T> {
    let y = dense::product(a, x, m);
    let less = |from: &[T], product: Vec<T>, times: T| -> Vec<T> {
        from.iter().zip(product).map(|(&x, p)| times * x - p).collect()
    };
    if mode == NYSTROMFORMER {
        let inner = less(&y, dense::product(&y, &y, m), T::of(7.0));
        let middle = less(&y, dense::product(&y, &inner, m), T::of(15.0));
        let outer = less(x, dense::product(x, &middle, m), T::of(13.0));
        return outer.into_iter().map(|x| T::of(0.25) * x).collect();
    }
    less(x, dense::product(x, &y, m), T::of(2.0))
        .into_iter()
        .map(|x| factor * x)
        .collect()
}

/// An iterate with what the status reports of it.
pub(super) struct Iterate<T> {
    pub(super) x: Vec<T>,
    pub(super) upper: T,
    pub(super) steps: u32,
}

/// The iteration of one matrix: with its own bound, or with the worst case's where the number of steps is given, so that
/// all devices then go the same way.
pub(super) fn iterate<T: Real>(a: &[T], m: usize, p: &Params) -> Iterate<T> {
    let upper = dense::row_norm(a, m);
    let factors = p.factors(if p.steps == 0 {
        upper.wide()
    } else {
        p.worst_upper(m as u32)
    });
    let mut x = start(a, m, p.mode, T::of(f64::from(p.epsilon)));
    for &factor in &factors {
        x = step(a, &x, m, p.mode, T::of(factor));
    }
    Iterate {
        x,
        upper,
        steps: factors.len() as u32,
    }
}

/// What [`inverse_fallback`] makes of an iterate.
pub(super) fn accept<T: Real>(
    a: &[T],
    iterate: Vec<T>,
    residual: T,
    m: usize,
    epsilon: T,
    cholesky: bool,
) -> (Vec<T>, T, u32) {
    let accepted = |r: T| r.wide() <= ACCEPTED_RESIDUAL;
    if accepted(residual) {
        return (iterate, residual, OK);
    }
    let shifts = [
        (T::zero(), BY_CHOLESKY),
        (T::of(9.0) * epsilon, BY_CHOLESKY_SHIFTED),
    ];
    for (shift, code) in shifts.into_iter().filter(|_| cholesky) {
        let mut shifted = a.to_vec();
        (0..m).for_each(|i| shifted[i * m + i] += shift);
        if let Some(x) = dense::cholesky_inverse(&shifted, m) {
            let again = dense::distance_from_identity(&dense::product(&shifted, &x, m), m, m);
            if accepted(again) {
                return (x, again, code);
            }
        }
    }
    (iterate, residual, FAILED)
}

/// The truth is the exact inverse where the iteration is left to converge, and the iteration itself in f64 where its
/// steps are given; the yardstick is the iteration in f32.
fn reference<T: Real>(args: &mut HostArgs<T>, exact: bool) -> Result<()> {
    use rayon::prelude::*;
    let p: Params = args.params();
    let m = args.dims.at("m");
    let a = args.real("a");
    let epsilon = T::of(f64::from(p.epsilon));
    let invert = |batch: usize| {
        let a = &a[batch * m * m..(batch + 1) * m * m];
        let exact = if exact && p.mode == SCALED && p.steps == 0 {
            dense::cholesky_inverse(a, m)
        } else {
            None
        };
        let (x, upper, steps) = match exact {
            Some(x) => {
                let upper = dense::row_norm(a, m);
                (x, upper, p.steps_for(upper.wide()))
            }
            None => {
                let found = iterate(a, m, &p);
                (found.x, found.upper, found.steps)
            }
        };
        let residual = dense::distance_from_identity(&dense::product(a, &x, m), m, m);
        let (x, residual, code) = accept(a, x, residual, m, epsilon, p.has_fallback(m as u32));
        (
            x,
            [residual, upper, T::of(f64::from(steps)), T::of(f64::from(code))],
        )
    };
    let (x, status): (Vec<_>, Vec<_>) = (0..args.dims.batches() as usize)
        .into_par_iter()
        .map(invert)
        .unzip();
    args.set("x", x.concat());
    args.set("status", status.concat());
    Ok(())
}

/// Bytes of workgroup memory of [`newton_schulz_workgroup`] are its limit; so is the driver, for on software drivers the
/// products of all heads together are quicker.
fn takes_one_workgroup(p: &Params, m: u32, caps: &Caps) -> bool {
    p.mode == SCALED && caps.driver == Driver::Gpu && newton_schulz_workgroup::fits(m, caps)
}

/// Side of the matrices that the products work on: software drivers want whole texels.
fn side(m: u32, caps: &Caps) -> u32 {
    if caps.driver == Driver::Gpu || m < 16 {
        m
    } else {
        m.next_multiple_of(4)
    }
}

/// An iteration on its way: A and X with the side of the products, and u with the number of steps.
pub(super) struct Running {
    pub(super) a: Tensor,
    pub(super) x: Tensor,
    pub(super) bound: Tensor,
}

/// Records the start of an iteration of `steps` steps on the port `a`.
pub(super) fn record_start(e: &mut Expansion<'_>, p: &Params, steps: u32) -> Result<Running> {
    let a = e.port("a");
    record_start_of(e, p, a, steps)
}

/// Records the start of an iteration of `steps` steps.
fn record_start_of(e: &mut Expansion<'_>, p: &Params, a: Tensor, steps: u32) -> Result<Running> {
    let m = e.dims.size("m");
    let side = side(m, e.caps);
    let padded = (side != m).then(|| e.batch_transient("a_padded", side, side));
    let x = e.batch_transient("x0", side, side);
    let (b, h) = (e.dims.size("b"), e.dims.size("h"));
    let bound = e.graph.transient("bound", [b, h, 2], DType::F32);
    let params = newton_schulz_start::Params {
        epsilon: p.epsilon,
        steps,
        mode: p.mode,
    };
    e.graph.pass(
        &newton_schulz_start::SPEC,
        &params,
        &[Some(a), padded, Some(x), Some(bound)],
    )?;
    Ok(Running {
        a: padded.unwrap_or(a),
        x,
        bound,
    })
}

/// factor · (left right) + times · residual.
fn combine(
    graph: &mut Graph,
    name: &str,
    [left, right]: [Tensor; 2],
    factor: f64,
    times: f64,
    residual: Tensor,
) -> Result<Tensor> {
    let params = matmul::Params {
        alpha: factor as f32,
        beta: times as f32,
        ..Default::default()
    };
    matmul::record(
        graph,
        name,
        matmul::Inputs {
            a: left,
            w: right,
            residual: Some(residual),
            bias: None,
        },
        params,
    )
}

/// Records Y = A X.
pub(super) fn record_product(graph: &mut Graph, run: &Running) -> Result<Tensor> {
    matmul::record(
        graph,
        "A X",
        matmul::Inputs::new(run.a, run.x),
        matmul::Params::default(),
    )
}

/// Records one step from Y = A X.
pub(super) fn record_step(
    graph: &mut Graph,
    run: &mut Running,
    y: Tensor,
    mode: u32,
    factor: f64,
) -> Result<()> {
    let x = run.x;
    run.x = if mode == NYSTROMFORMER {
        let inner = combine(graph, "7 Y - Y Y", [y, y], -1.0, 7.0, y)?;
        let middle = combine(graph, "15 Y - Y (7 Y - Y Y)", [y, inner], -1.0, 15.0, y)?;
        combine(graph, "X", [x, middle], -0.25, 3.25, x)?
    } else {
        combine(graph, "X", [x, y], -factor, 2.0 * factor, x)?
    };
    Ok(())
}

/// Records the whole iteration on `a` by batched products, and the distance of its end from the inverse.
fn record_products(e: &mut Expansion<'_>, p: &Params, a: Tensor, residual: Tensor) -> Result<Running> {
    let m = e.dims.size("m");
    let factors = p.factors(p.worst_upper(m));
    let mut run = record_start_of(e, p, a, factors.len() as u32)?;
    for factor in factors {
        let y = record_product(e.graph, &run)?;
        record_step(e.graph, &mut run, y, p.mode, factor)?;
    }
    let y = record_product(e.graph, &run)?;
    let params = identity_distance::Params { size: m };
    e.graph.pass(&identity_distance::SPEC, &params, &[Some(y), Some(residual)])?;
    Ok(run)
}

/// Records the iteration once more on A + 9 ε I and the choice between both, for matrices too large for Cholesky. It runs
/// whether it is needed or not: which of them failed is known on the device only.
fn record_second_try(e: &mut Expansion<'_>, p: &Params, run: &Running, residual: Tensor) -> Result<()> {
    let (b, h, m) = (e.dims.size("b"), e.dims.size("h"), e.dims.size("m"));
    let unit = (0..m * m).map(|i| if i % (m + 1) == 0 { 1.0 } else { 0.0 }).collect();
    let unit = e.graph.constant("I", HostTensor::f32([1, 1, m, m], unit)?);
    let shift = matmul::Params { identity: 9.0 * p.epsilon, ..Default::default() };
    let shifted = matmul::record(e.graph, "A + 9 ε I", matmul::Inputs::new(e.port("a"), unit), shift)?;
    let again = e.graph.transient("residual of A + 9 ε I", [b, h, 1], DType::F32);
    let second = record_products(e, &Params { epsilon: 10.0 * p.epsilon, ..*p }, shifted, again)?;
    let status = e.port_if("status");
    let status = status.unwrap_or_else(|| e.graph.transient("status", [b, h, 4], DType::F32));
    let args = [
        Some(run.x), Some(residual), Some(second.x), Some(again), Some(run.bound), Some(e.port("x")), Some(status),
    ];
    e.graph.pass(&inverse_choice::SPEC, &params::NoParams {}, &args)?;
    Ok(())
}

fn expand(e: &mut Expansion<'_>) -> Result<()> {
    let p: Params = e.params();
    let m = e.dims.size("m");
    let (b, h) = (e.dims.size("b"), e.dims.size("h"));
    let (a, x) = (e.port("a"), e.port("x"));
    let residual = e.graph.transient("residual", [b, h, 1], DType::F32);
    let (iterate, bound) = if takes_one_workgroup(&p, m, e.caps) {
        let iterate = e.batch_transient("iterate", m, m);
        let bound = e.graph.transient("bound", [b, h, 2], DType::F32);
        let params = newton_schulz_workgroup::Params {
            epsilon: p.epsilon,
            tolerance: p.tolerance,
            most_steps: p.steps_for(p.worst_upper(m)),
            upper: if p.steps == 0 {
                0.0
            } else {
                p.worst_upper(m) as f32
            },
        };
        let args = [Some(a), Some(iterate), Some(residual), Some(bound)];
        e.graph.pass(&newton_schulz_workgroup::SPEC, &params, &args)?;
        (iterate, bound)
    } else {
        let run = record_products(e, &p, a, residual)?;
        if p.has_second_try(m) {
            return record_second_try(e, &p, &run, residual);
        }
        (run.x, run.bound)
    };
    let status = e.port_if("status");
    let status = status.unwrap_or_else(|| e.graph.transient("status", [b, h, 4], DType::F32));
    let params = inverse_fallback::Params {
        epsilon: p.epsilon,
        fallback: u32::from(p.has_fallback(m)),
    };
    let args = [
        Some(a),
        Some(iterate),
        Some(residual),
        Some(bound),
        Some(x),
        Some(status),
    ];
    e.graph.pass(&inverse_fallback::SPEC, &params, &args)?;
    Ok(())
}

const fn size(m: u32) -> [(&'static str, u32); 3] {
    [("b", 1), ("h", 1), ("m", m)]
}

const fn heads(h: u32, m: u32) -> [(&'static str, u32); 3] {
    [("b", 1), ("h", h), ("m", m)]
}

const SPREAD: &[(&str, Fill)] = &[("a", Fill::Made(data::spread))];
const MILD: &[(&str, Fill)] = &[("a", Fill::Made(data::mild))];

/// A case left to converge: its status is checked elsewhere, because the number of steps is the device's choice.
const fn converging(name: &'static str, dims: &'static [(&'static str, u32)]) -> Case {
    Case::new(name, dims, Params::default_bytes)
        .without(&["status"])
        .filled(SPREAD)
}

/// The kernel's description.
pub static SPEC: KernelSpec = KernelSpec {
    name: "newton_schulz",
    family: "linalg",
    formula: "X = A⁻¹ by X ← c (2X − XAX)",
    source: "derivation: the step takes residual eigenvalues r to 1 − c (1 − r²), and this c keeps [−δ, δ] smallest; \
             modes of LaplacianFormer's code and of Xiong et al., Nyströmformer (2021)",
    ports: &[
        Port::read("a", &["b", "h", "m", "m"]),
        Port::write("x", &["b", "h", "m", "m"]),
        Port::write("status", &["b", "h", "4"]).optional(),
    ],
    params: Params::FIELDS,
    defaults: Params::default_bytes,
    output_dims: None,
    check,
    wgpu: OnWgpu::Expand(expand),
    cuda: OnCuda::Expand,
    reference: Reference {
        f64: |args| reference(args, true),
        f32: |args| reference(args, false),
    },
    window: whole_heads,
    cost: |d, params| {
        let p = Params::from_bytes(params);
        let (m, batches) = (f64::from(d.size("m")), d.batches() as f64);
        let products = f64::from(p.steps_for(p.worst_upper(d.size("m"))))
            * if p.mode == NYSTROMFORMER { 4.0 } else { 2.0 };
        Cost {
            flop: batches * (products + 1.0) * 2.0 * m * m * m,
            exp: 0.0,
            stores: batches * m * m,
            bytes: 8.0 * batches * m * m,
            ..Cost::default()
        }
    },
    tolerance: Tolerance {
        factor: 2.0,
        floor: 2e-6,
        reason: "the yardstick is one realisation of rounding errors of size κ u, and halves of the products round \
                 differently from whole ones",
    },
    cases: &[
        converging("smallest", &size(1)),
        converging("two", &heads(3, 2)),
        converging("sixteen", &heads(2, 16)),
        converging("forty_nine", &[("b", 2), ("h", 2), ("m", 49)]),
        converging("largest_in_16_kib", &heads(2, 51)),
        converging("beyond_16_kib", &heads(2, 52)),
        converging("sixty_four", &size(64)),
        converging("eighty_eight", &heads(2, 88)),
        converging("hundred", &size(100)),
        converging("one_hundred_and_ninety_six", &size(196)),
        Case::new("duplicates", &heads(2, 49), || {
            Params {
                epsilon: 1e-2,
                ..Default::default()
            }
            .to_bytes()
        })
        .without(&["status"])
        .filled(&[("a", Fill::Made(data::duplicates))]),
        Case::new("tiny_values", &heads(2, 49), || {
            Params {
                epsilon: 1e-13,
                largest: 1e-10,
                ..Default::default()
            }
            .to_bytes()
        })
        .without(&["status"])
        .filled(&[("a", Fill::Made(data::tiny))]),
        Case::new("huge_values", &heads(2, 49), || {
            Params {
                epsilon: 1e7,
                largest: 1e10,
                ..Default::default()
            }
            .to_bytes()
        })
        .without(&["status"])
        .filled(&[("a", Fill::Made(data::huge))]),
        converging("one_hard_head", &heads(3, 49)).filled(&[("a", Fill::Made(data::one_hard))]),
        Case::new("two_steps", &heads(2, 20), || {
            Params {
                steps: 2,
                fallback: 0,
                ..Default::default()
            }
            .to_bytes()
        })
        .filled(MILD),
        Case::new("by_cholesky", &heads(2, 33), || {
            Params {
                steps: 2,
                ..Default::default()
            }
            .to_bytes()
        })
        .filled(SPREAD),
        Case::new("hundred_and_ninety_six_by_cholesky", &heads(2, 196), || {
            Params {
                steps: 2,
                ..Default::default()
            }
            .to_bytes()
        })
        .filled(SPREAD),
        Case::new("by_cholesky_shifted", &heads(2, 18), || {
            Params {
                epsilon: 1e-2,
                steps: 12,
                ..Default::default()
            }
            .to_bytes()
        })
        .filled(&[("a", Fill::Made(data::indefinite))]),
        Case::new("authors", &heads(2, 25), || {
            Params {
                mode: AUTHORS,
                epsilon: 0.3,
                ..Default::default()
            }
            .to_bytes()
        })
        .filled(MILD),
        Case::new("authors_fixed", &heads(2, 25), || {
            Params {
                mode: AUTHORS_FIXED,
                epsilon: 0.3,
                ..Default::default()
            }
            .to_bytes()
        })
        .filled(MILD),
        Case::new("nystromformer", &heads(2, 25), || {
            Params {
                mode: NYSTROMFORMER,
                ..Default::default()
            }
            .to_bytes()
        })
        .filled(&[("a", Fill::Made(data::two_sets))]),
        Case::new("plain", &heads(2, 25), || {
            Params {
                mode: PLAIN,
                ..Default::default()
            }
            .to_bytes()
        })
        .filled(&[("a", Fill::Made(data::two_sets))]),
        Case::new("identity", &heads(2, 25), || {
            Params {
                mode: IDENTITY,
                ..Default::default()
            }
            .to_bytes()
        })
        .filled(MILD),
        converging("batch_8x49", &heads(8, 49)).any_size().for_bench(),
        converging("batch_64x49", &heads(64, 49)).any_size().for_bench(),
        converging("batch_8x196", &heads(8, 196)).any_size().for_bench(),
    ],
    vjp: None,
};

/// Records the inverse of `a` `[b, h, m, m]` into new transients `x` of that shape and `status` `[b, h, 4]`.
///
/// Errors: `a` is not square, or parameters out of range.
#[track_caller]
pub fn record(graph: &mut Graph, name: &str, a: Tensor, params: Params) -> Result<(Tensor, Tensor)> {
    let x = graph.transient(name, a.shape(), DType::F32);
    let status = graph.transient(&format!("status of {name}"), [a.dim(0), a.dim(1), 4], DType::F32);
    graph.pass(&SPEC, &params, &[Some(a), Some(x), Some(status)])?;
    Ok((x, status))
}
