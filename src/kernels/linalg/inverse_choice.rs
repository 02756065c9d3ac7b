//! The end of [`newton_schulz`](super::newton_schulz) for matrices too large for Cholesky: the iterate of A, or that of
//! A + 9 ε I where A's residual exceeds 1e-2, and which it was.
//!
//! * `first`, `second` `[b, h, s, s]` with s ≥ m, of which the leading part counts; residuals `[b, h, 1]`.
//! * `bound` `[b, h, 2]` (u and steps of the first, passed on); `x` `[b, h, m, m]`; `status` `[b, h, 4]`: residual of the chosen
//!   one against its own matrix, u, steps, code (0 first, 2 second, 3 neither: the first is kept).

use super::newton_schulz::ACCEPTED_RESIDUAL;
use crate::error::Result;
use crate::kernel::wgsl_module::GROUP;
use crate::kernel::*;
use crate::{cuda_shared, cuda_source, reference};

fn reference<T: Real>(args: &mut HostArgs<T>) -> Result<()> {
    let (m, s) = (args.dims.at("m"), args.dims.at("s"));
    let [first, second, one, two, bound] =
        ["first", "second", "first_residual", "second_residual", "bound"].map(|port| args.real(port));
    let acceptable = |x: T| x <= T::of(ACCEPTED_RESIDUAL);
    let (mut x, mut status) = (Vec::new(), Vec::new());
    for batch in 0..args.dims.batches() as usize {
        let code = match (acceptable(one[batch]), acceptable(two[batch])) {
            (true, _) => 0.0,
            (false, true) => 2.0,
            (false, false) => 3.0,
        };
        let (chosen, residual) = if code == 2.0 { (&second, two[batch]) } else { (&first, one[batch]) };
        x.extend((0..m * m).map(|at| chosen[batch * s * s + at / m * s + at % m]));
        status.extend([residual, bound[2 * batch], bound[2 * batch + 1], T::of(code)]);
    }
    args.set("x", x);
    args.set("status", status);
    Ok(())
}

/// The kernel's description.
pub static SPEC: KernelSpec = KernelSpec {
    name: "inverse_choice",
    family: "linalg",
    formula: "x = first if ‖I − A first‖ ≤ 1e-2, else second if ‖I − (A + 9 ε I) second‖ ≤ 1e-2, else first",
    source: "method: fallback of the landmark inverse",
    ports: &[
        Port::read("first", &["b", "h", "s", "s"]),
        Port::read("first_residual", &["b", "h", "1"]),
        Port::read("second", &["b", "h", "s", "s"]),
        Port::read("second_residual", &["b", "h", "1"]),
        Port::read("bound", &["b", "h", "2"]),
        Port::write("x", &["b", "h", "m", "m"]),
        Port::write("status", &["b", "h", "4"]),
    ],
    params: params::NoParams::FIELDS,
    defaults: Vec::new,
    output_dims: None,
    check: |dims, _| match dims.size("s") >= dims.size("m") {
        true => Ok(()),
        false => Err(format!("s must be at least m, got s={} and m={}", dims.size("s"), dims.size("m"))),
    },
    wgpu: OnWgpu::Shader(&[Variant::only(
        "linalg/inverse_choice.wgsl",
        include_str!("../../../shaders/linalg/inverse_choice.wgsl"),
        &[GROUP],
        |d, batches| batches * (u64::from(d.size("m")) * u64::from(d.size("m"))).div_ceil(64),
        |d, _| Loads { storage: f64::from(d.size("m")) * f64::from(d.size("m")), ..Loads::default() },
    )]),
    cuda: OnCuda::Source(&[cuda_source!("linalg/inverse_choice.cu", 256, |d, _| {
        d.batches() * (u64::from(d.size("m")) * u64::from(d.size("m"))).div_ceil(1024)
    })
    .with(&[cuda_shared!("linalg/stretch.cuh")])]),
    reference: reference!(reference),
    window: whole_heads,
    cost: |d, _| {
        let words = d.batches() as f64 * f64::from(d.size("m")) * f64::from(d.size("m"));
        Cost { flop: 0.0, exp: 0.0, stores: words, bytes: 8.0 * words, ..Cost::default() }
    },
    tolerance: Tolerance::SUMS,
    cases: &[
        Case::new("smallest", &[("b", 1), ("h", 1), ("m", 1), ("s", 1)], Vec::new)
            .filled(&[("first_residual", Fill::Value(0.001))]),
        Case::new("odd", &[("b", 2), ("h", 3), ("m", 9), ("s", 12)], Vec::new)
            .filled(&[("first_residual", Fill::Value(0.5)), ("second_residual", Fill::Value(0.001))]),
        Case::new("neither", &[("b", 1), ("h", 2), ("m", 7), ("s", 7)], Vec::new)
            .filled(&[("first_residual", Fill::Value(0.5)), ("second_residual", Fill::Value(2.0))]),
    ],
    vjp: None,
};
