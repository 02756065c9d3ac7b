//! Rows of a kernel matrix, whitened by the moments of their keys: the last step of [`exact_map`](super::exact_map).
//!
//! `out[j, q]` = (`x[j, q]` − `shift[q]` − `mean[j]`) / √(`variance[j]` + ew) · scale + constant
//!
//! * `x`, `out` `[b, h, m, r]`: rows of r queries, key-major.
//! * `shift` `[b, h, r, w]`: the first number of each query, its row's mean; nothing is taken off where it is left out.
//! * `moments` `[b, h, m, 2]` of [`key_moments`](super::key_moments); the mean is taken off only where `centred` is 1.

use crate::numbers::Short;
use crate::error::Result;
use crate::kernel::wgsl_module::GROUP;
use crate::kernel::*;
use crate::{cuda_shared, cuda_source, params, reference};
use crate::tensor::Dims;

params! {
    /// Parameters of [`SPEC`].
    pub struct Params {
        /// added to the variance, > 0
        live ew: f32 = 1e-5,
        /// factor of the whitened value (1/zs)
        live scale: f32 = 1.0,
        /// added to every element (1/M)
        live constant: f32 = 0.0,
        /// 1 takes the key's mean off
        fixed centred: u32 = 0,
    }
}

fn check(dims: &Dims, params: &[u8]) -> std::result::Result<(), String> {
    let p = Params::from_bytes(params);
    if !(p.ew > 0.0 && p.ew.is_finite()) {
        return Err(format!("wants ew > 0, got {}", Short(p.ew)));
    }
    if p.centred > 1 {
        return Err(format!("centred is 0 or 1, got {}", p.centred));
    }
    if dims.find("w") == Some(0) {
        return Err("shift [b, h, r, w] has no column; wants w ≥ 1".into());
    }
    Ok(())
}

fn reference<T: Real>(args: &mut HostArgs<T>) -> Result<()> {
    let p: Params = args.params();
    let (x, shift, moments) = (args.real("x"), args.real_if("shift"), args.real("moments"));
    let [m, r, w] = ["m", "r", "w"].map(|name| args.dims.at(name));
    let [ew, scale, constant] = [p.ew, p.scale, p.constant].map(|x| T::of(f64::from(x)));
    let out = reference::rows(args.dims.batches() as usize, m, r, |batch, j, line| {
        let key = &moments[(batch * m + j) * 2..][..2];
        let mean = if p.centred == 1 { key[0] } else { T::zero() };
        let factor = T::one() / (key[1].max(T::zero()) + ew).sqrt();
        for (query, value) in line.iter_mut().enumerate() {
            let less = shift.as_ref().map_or(T::zero(), |s| s[(batch * r + query) * w]);
            *value = (x[(batch * m + j) * r + query] - less - mean) * factor * scale + constant;
        }
    });
    args.set("out", out);
    Ok(())
}

const fn sizes(m: u32, r: u32) -> [(&'static str, u32); 5] {
    [("b", 2), ("h", 3), ("m", m), ("r", r), ("w", 2)]
}

const VARIANCES: (&str, Fill) = ("moments", Fill::Uniform(0.0, 0.5));

/// The kernel's description.
pub static SPEC: KernelSpec = KernelSpec {
    name: "whiten_rows",
    family: "attention",
    formula: "out[j,q] = (x[j,q] − shift[q] − mean[j]) / √(variance[j] + ew) · scale + constant",
    source: "LaplacianFormer, injective feature map",
    ports: &[
        Port::read("x", &["b", "h", "m", "r"]),
        Port::read("shift", &["b", "h", "r", "w"]).optional(),
        Port::read("moments", &["b", "h", "m", "2"]),
        Port::write("out", &["b", "h", "m", "r"]),
    ],
    params: Params::FIELDS,
    defaults: Params::default_bytes,
    output_dims: None,
    check,
    wgpu: OnWgpu::Shader(&[Variant::only(
        "attention/whiten_rows.wgsl",
        include_str!("../../../shaders/attention/whiten_rows.wgsl"),
        &[GROUP],
        |d, batches| batches * (u64::from(d.size("m")) * u64::from(d.size("r"))).div_ceil(64),
        |d, _| Loads { storage: 4.0 * f64::from(d.size("m")) * f64::from(d.size("r")), ..Loads::default() },
    )]),
    cuda: OnCuda::Source(&[cuda_source!("attention/whiten_rows.cu", 256, |d, _| {
        (d.batches() * u64::from(d.size("m")) * u64::from(d.size("r"))).div_ceil(256)
    })
    .with(&[cuda_shared!("shared/places.cuh")])]),
    reference: reference!(reference),
    window: |_, _| vec![("m", 1)],
    cost: |d, _| {
        let words = d.batches() as f64 * f64::from(d.size("m")) * f64::from(d.size("r"));
        Cost { flop: 6.0 * words, exp: 0.0, stores: words, bytes: 8.0 * words, ..Cost::default() }
    },
    tolerance: Tolerance::SUMS,
    cases: &[
        Case::new("smallest", &[("b", 1), ("h", 1), ("m", 1), ("r", 1)], Params::default_bytes).without(&["shift"]).filled(&[VARIANCES]),
        Case::new("odd", &sizes(37, 3), || Params { scale: 0.1, constant: 0.02, ..Params::default() }.to_bytes()).filled(&[VARIANCES]),
        Case::new("centred", &sizes(70, 5), || Params { ew: 1e-3, centred: 1, ..Params::default() }.to_bytes())
            .without(&["shift"]).filled(&[VARIANCES]),
        Case::new("no_key", &sizes(0, 5), Params::default_bytes),
    ],
    vjp: None,
};
