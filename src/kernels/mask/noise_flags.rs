//! Which rows of a masked attention by Fourier transforms must be computed again: first pass of
//! [`noise_guard`](super::noise_guard).
//!
//! A row is flagged where εᵢ = safety · 2⁻²⁴ · log₂L · ‖f‖₂ · Σ_r |qᵢᵣ| κ_r exceeds τ times its denominator, or where the denominator is
//! not a finite number above 0 — as it is where the row sees no key; the direct computation then gives its zeros. κ_r is the larger of
//! ‖K_r‖₂ and its partner's, features 2l and 2l + 1: both are one complex number of the transform
//! ([`toeplitz_lift`](super::toeplitz_lift)), and the noise of the larger is in either.
//!
//! * `sums` `[b, h, n, p]`, the last column is the denominator; `q` `[b, h, n, r]`; `norms` `[b, h, r]`, of the columns of the keys.
//! * `table_norm` `[h or 1]`: ‖f‖₂ of each head's table. `query_mask` `[b, h, n]`: rows with 0 are never flagged.
//! * `flags` `[b, h, n]`: 1 or 0.

use crate::error::Result;
use crate::kernel::wgsl_module::GROUP;
use crate::kernel::*;
use crate::tensor::{DType, Dims, HostData};
use crate::{cuda_source, params, reference};

params! {
    /// Parameters of [`SPEC`].
    pub struct Params {
        /// factor of the noise; observed errors stay below 0.11 of 1
        live safety: f32 = 1.0,
        /// logarithm (base 2) of the transform's length
        live log2_length: f32 = 1.0,
        /// noise that a denominator may have, relative to it
        live tau: f32 = 5e-5,
        /// 1: a row of zeros for lack of keys or features is spared: nothing rounds in it
        live spare_zeros: u32 = 0,
    }
}

/// Refuses table norms of another number of heads.
pub(crate) fn check(dims: &Dims, _: &[u8]) -> std::result::Result<(), String> {
    let (tables, h) = (dims.size("tables"), dims.size("h"));
    if tables != 1 && tables != h {
        return Err(format!("`table_norm` has {tables} numbers; wants h = {h} or 1"));
    }
    if dims.size("p") == 0 {
        return Err("`sums` have no column for the denominator".into());
    }
    Ok(())
}

/// The flag of every row.
pub(crate) fn flags<T: Real>(args: &HostArgs<T>, p: Params) -> Vec<u32> {
    let (n, r, width) = (args.dims.at("n"), args.dims.at("r"), args.dims.at("p"));
    let (heads, tables) = (args.dims.at("h").max(1), args.dims.at("tables").max(1));
    let (sums, q, norms) = (args.real("sums"), args.real("q"), args.real("norms"));
    let (table_norm, asked) = (args.real("table_norm"), args.words_if("query_mask"));
    let factor = T::of(f64::from(p.safety)) * T::of(0.5_f64.powi(24)) * T::of(f64::from(p.log2_length));
    let flag = |row: usize| {
        let (batch, i) = (row / n, row % n);
        let norm = |c: usize| if c < r { norms[batch * r + c] } else { T::zero() };
        let size: T = (0..r).map(|c| q[row * r + c].abs() * norm(c).max(norm(c ^ 1))).sum();
        let noise = factor * table_norm[batch % heads % tables] * size;
        let total = sums[row * width + width - 1];
        let sound = total.is_finite() && total > T::zero() && noise <= T::of(f64::from(p.tau)) * total;
        let spared = p.spare_zeros != 0 && size == T::zero() && total == T::zero();
        let wanted = asked.as_ref().is_none_or(|m| m[args.start("query_mask", batch) + i] != 0);
        u32::from(wanted && !sound && !spared)
    };
    (0..args.dims.batches() as usize * n).map(flag).collect()
}

fn reference<T: Real>(args: &mut HostArgs<T>) -> Result<()> {
    let flags = flags(args, args.params());
    args.set_words("flags", flags);
    Ok(())
}

/// Denominators of which some are safe, some tiny, and some no positive number.
pub(crate) fn denominators(dims: &Dims) -> HostData {
    let width = dims.at("p");
    let kinds = [1e3, 1e-9, 2e3, 0.0, 1e4, -5.0, f32::NAN, 1e3, f32::INFINITY, 1e3, 1e3];
    let number = |i: usize| if i % width == width - 1 { kinds[i / width % 11] } else { 1.0 };
    HostData::F32((0..dims.batches() as usize * dims.at("n") * width).map(number).collect())
}

pub(crate) const FILLS: [(&str, Fill); 4] = [
    ("sums", Fill::Made(denominators)),
    ("q", Fill::Uniform(0.5, 1.0)),
    ("norms", Fill::Uniform(1.0, 2.0)),
    ("table_norm", Fill::Uniform(1.0, 2.0)),
];

/// The kernel's description.
pub static SPEC: KernelSpec = KernelSpec {
    name: "noise_flags",
    family: "mask",
    formula: "flags[i] = c·2⁻²⁴·log₂L·‖f‖₂·Σᵣ |q[i,r]|·‖K_r‖₂ > τ·den[i], or den[i] is no number above 0",
    source: "derived: a Fourier multiply has the same absolute error in every row",
    ports: &[
        Port::read("sums", &["b", "h", "n", "p"]),
        Port::read("q", &["b", "h", "n", "r"]),
        Port::read("norms", &["b", "h", "r"]),
        Port::read("table_norm", &["tables"]),
        Port::read("query_mask", &["b", "h", "n"]).of(DType::U8).broadcast().optional(),
        Port::write("flags", &["b", "h", "n"]).of(DType::U32),
    ],
    params: Params::FIELDS,
    defaults: Params::default_bytes,
    output_dims: None,
    check,
    wgpu: OnWgpu::Shader(&[Variant::only(
        "mask/noise_flags.wgsl",
        include_str!("../../../shaders/mask/noise_flags.wgsl"),
        &[GROUP],
        |d, batches| batches * u64::from(d.size("n").div_ceil(64)),
        |d, _| Loads {
            storage: f64::from(d.size("n")) * (2.0 * f64::from(d.size("r")) + 1.0),
            ..Loads::default()
        },
    )
    .rounds(|d| u64::from(d.size("r")))]),
    cuda: OnCuda::Source(&[cuda_source!("mask/noise_flags.cu", 256, |d, _| d.batches() * u64::from(d.size("n").div_ceil(8)))]),
    reference: reference!(reference),
    window: by_rows,
    cost: |d, _| {
        let rows = d.batches() as f64 * f64::from(d.size("n"));
        let r = f64::from(d.size("r"));
        Cost { flop: rows * (2.0 * r + 4.0), exp: 0.0, stores: rows, bytes: 4.0 * rows * (r + 2.0), ..Cost::default() }
    },
    tolerance: Tolerance::EXACT,
    cases: &[
        Case::new(
            "smallest",
            &[("b", 1), ("h", 1), ("n", 1), ("r", 1), ("p", 1), ("tables", 1)],
            Params::default_bytes,
        )
        .without(&["query_mask"])
        .filled(&FILLS),
        Case::new("odd", &[("b", 2), ("h", 3), ("n", 101), ("r", 7), ("p", 4), ("tables", 3)], || {
            Params { log2_length: 9.0, ..Params::default() }.to_bytes()
        })
        .filled(&FILLS),
        Case::new("zeros_spared", &[("b", 1), ("h", 2), ("n", 70), ("r", 3), ("p", 4), ("tables", 1)], || {
            Params { log2_length: 9.0, spare_zeros: 1, ..Params::default() }.to_bytes()
        })
        .without(&["query_mask"])
        .filled(&[FILLS[0], ("q", Fill::Value(0.0)), FILLS[2], FILLS[3]]),
        Case::new("one_table", &[("b", 1), ("h", 2), ("n", 65), ("r", 8), ("p", 9), ("tables", 1)], || {
            Params { log2_length: 8.0, ..Params::default() }.to_bytes()
        })
        .without(&["query_mask"])
        .filled(&FILLS),
        Case::new(
            "rows_8x4096",
            &[("b", 1), ("h", 8), ("n", 4096), ("r", 32), ("p", 33), ("tables", 8)],
            Params::default_bytes,
        )
        .without(&["query_mask"])
        .filled(&FILLS)
        .any_size()
        .for_bench(),
    ],
    vjp: None,
};
