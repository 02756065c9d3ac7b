//! The residual of [`newton_schulz`](super::newton_schulz) before every step and after the last, for plots.
//!
//! * `a` `[b, h, m, m]`; `residuals` `[t, b, h]`, t = `steps` + 1: ‖I − AXₖ‖_F of every matrix, k first.

use super::identity_distance;
use super::newton_schulz::{self as whole, bound::MOST_STEPS, dense};
use crate::error::Result;
use crate::graph::Expansion;
use crate::kernel::*;
use crate::params;
use crate::reference;
use crate::tensor::Dims;

params! {
    /// Parameters of [`SPEC`].
    pub struct Params {
        /// ε, what A has on its diagonal beyond W: lower bound of its spectrum
        live epsilon: f32 = 1e-3,
        /// Largest magnitude of an entry of W: 1 for kernel values
        live largest: f32 = 1.0,
        /// Start and map, as in `newton_schulz`
        fixed mode: u32 = whole::SCALED,
    }
}

impl Params {
    fn whole(&self, steps: u32) -> whole::Params {
        let (epsilon, largest, mode) = (self.epsilon, self.largest, self.mode);
        whole::Params {
            epsilon,
            largest,
            mode,
            steps,
            ..Default::default()
        }
    }

    /// Factors of the steps. Also on the CPU they come from the worst case, so that all devices draw one curve.
    fn factors(&self, m: u32, steps: u32) -> Vec<f64> {
        // No step at all must not read as "as many as the bound asks for".
        if steps == 0 {
            Vec::new()
        } else {
            self.whole(steps).factors(self.whole(steps).worst_upper(m))
        }
    }
}

fn check(dims: &Dims, params: &[u8]) -> std::result::Result<(), String> {
    let p = Params::from_bytes(params);
    let t = dims.size("t");
    if t == 0 || t > MOST_STEPS + 1 {
        return Err(format!(
            "t, the number of residuals, is 1 to {}, got {t}",
            MOST_STEPS + 1
        ));
    }
    whole::check(dims, &p.whole(t - 1).to_bytes())
}

fn reference<T: Real>(args: &mut HostArgs<T>) -> Result<()> {
    let p: Params = args.params();
    let (m, t, batches) = (args.dims.at("m"), args.dims.at("t"), args.dims.batches() as usize);
    let a = args.real("a");
    let factors = p.factors(m as u32, t as u32 - 1);
    let mut out = vec![T::zero(); t * batches];
    for batch in 0..batches {
        let a = &a[batch * m * m..(batch + 1) * m * m];
        let mut x = whole::start(a, m, p.mode, T::of(f64::from(p.epsilon)));
        for k in 0..t {
            out[k * batches + batch] = dense::distance_from_identity(&dense::product(a, &x, m), m, m);
            if let Some(&factor) = factors.get(k) {
                x = whole::step(a, &x, m, p.mode, T::of(factor));
            }
        }
    }
    args.set("residuals", out);
    Ok(())
}

fn expand(e: &mut Expansion<'_>) -> Result<()> {
    let p: Params = e.params();
    let (m, t) = (e.dims.size("m"), e.dims.size("t"));
    let (b, h) = (e.dims.size("b"), e.dims.size("h"));
    let residuals = e.port("residuals");
    let factors = p.factors(m, t - 1);
    let mut run = whole::record_start(e, &p.whole(t - 1), t - 1)?;
    for k in 0..t {
        let y = whole::record_product(e.graph, &run)?;
        let line = e.graph.slice(residuals, 0, k..k + 1)?;
        let line = e.graph.reshape(line, [b, h, 1])?;
        e.graph.pass(
            &identity_distance::SPEC,
            &identity_distance::Params { size: m },
            &[Some(y), Some(line)],
        )?;
        if let Some(&factor) = factors.get(k as usize) {
            whole::record_step(e.graph, &mut run, y, p.mode, factor)?;
        }
    }
    Ok(())
}

const MILD: &[(&str, Fill)] = &[("a", Fill::Made(whole::data::mild))];

/// The kernel's description.
pub static SPEC: KernelSpec = KernelSpec {
    name: "newton_schulz_trace",
    family: "linalg",
    formula: "residuals[k] = ‖I − AXₖ‖_F",
    source: "see newton_schulz",
    ports: &[
        Port::read("a", &["b", "h", "m", "m"]),
        Port::write("residuals", &["t", "b", "h"]),
    ],
    params: Params::FIELDS,
    defaults: Params::default_bytes,
    output_dims: None,
    check,
    wgpu: OnWgpu::Expand(expand),
    cuda: OnCuda::Expand,
    reference: reference!(reference),
    window: whole_heads,
    cost: |d, params| {
        let p = Params::from_bytes(params);
        let (m, t, batches) = (f64::from(d.size("m")), f64::from(d.size("t")), d.batches() as f64);
        let products = if p.mode == whole::NYSTROMFORMER { 4.0 } else { 2.0 };
        Cost {
            flop: batches * t * products * 2.0 * m * m * m,
            exp: batches * t,
            stores: batches * t,
            bytes: 4.0 * batches * m * m,
            ..Cost::default()
        }
    },
    tolerance: Tolerance {
        factor: 2.0,
        floor: 2e-6,
        reason: "late residuals are rounding errors of the iterate, here of a condition below 100",
    },
    cases: &[
        Case::new(
            "only_the_start",
            &[("b", 1), ("h", 2), ("m", 5), ("t", 1)],
            Params::default_bytes,
        )
        .filled(MILD),
        Case::new("scaled", &[("b", 2), ("h", 2), ("m", 25), ("t", 9)], || {
            Params {
                epsilon: 0.3,
                ..Default::default()
            }
            .to_bytes()
        })
        .filled(MILD),
        Case::new(
            "nystromformer",
            &[("b", 1), ("h", 2), ("m", 25), ("t", 7)],
            || {
                Params {
                    mode: whole::NYSTROMFORMER,
                    ..Default::default()
                }
                .to_bytes()
            },
        )
        .filled(&[("a", Fill::Made(whole::data::two_sets))]),
    ],
    vjp: None,
};
