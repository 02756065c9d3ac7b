//! Lists the rows of a masked attention by Fourier transforms whose rounding noise may spoil them, in ascending order, so that
//! [`relative_rows`](super::relative_rows) computes them again and [`choose_rows`](super::choose_rows) puts them in place.
//!
//! A Fourier multiply has the same absolute error in every row, however small the row's own sum is; see
//! [`noise_flags`] for the bound.
//!
//! * `sums` `[b, h, n, p]` with the denominators in the last column, `q` `[b, h, n, r]`, `norms` `[b, h, r]`
//!   ([`column_norms`](super::column_norms) of the kept keys), `table_norm` `[h or 1]`, `query_mask` `[b, h, n]`.
//! * `slot` `[b, h, n]`, `list` `[w]`, `dispatch` `[3]`, `status` `[2]` as in [`list_flags`]; rows count through all heads.

use super::{count_flags, list_flags, noise_flags};
use crate::error::Result;
use crate::graph::Expansion;
use crate::kernel::*;
use crate::tensor::{DType, Dims};
use crate::{params, reference};

params! {
    /// Parameters of [`SPEC`].
    pub struct Params {
        /// factor of the noise; observed errors stay below 0.11 of 1
        live safety: f32 = 1.0,
        /// logarithm (base 2) of the transform's length
        live log2_length: f32 = 1.0,
        /// noise that a denominator may have, relative to it
        live tau: f32 = 5e-5,
        /// workgroups for each listed row
        live groups_per_row: u32 = 1,
        /// 1: a row of zeros for lack of keys or features is spared: nothing rounds in it
        live spare_zeros: u32 = 0,
    }
}

impl Params {
    fn bound(self) -> noise_flags::Params {
        let Self { safety, log2_length, tau, spare_zeros, .. } = self;
        noise_flags::Params { safety, log2_length, tau, spare_zeros }
    }
}

fn rows(dims: &Dims) -> u64 {
    dims.batches() * u64::from(dims.size("n"))
}

fn check(dims: &Dims, params: &[u8]) -> std::result::Result<(), String> {
    noise_flags::check(dims, &[])?;
    let total = rows(dims);
    if total > u64::from(u32::MAX) {
        return Err(format!("{total} rows are more than a list can name"));
    }
    list_flags::check_list(total, dims.size("w"), Params::from_bytes(params).groups_per_row)
}

fn reference<T: Real>(args: &mut HostArgs<T>) -> Result<()> {
    let p: Params = args.params();
    let flags = noise_flags::flags(args, p.bound());
    let lists = list_flags::list(&flags, args.dims.at("w") - 1, p.groups_per_row);
    for (port, words) in ["slot", "list", "dispatch", "status"].into_iter().zip(lists) {
        args.set_words(port, words);
    }
    Ok(())
}

fn expand(x: &mut Expansion<'_>) -> Result<()> {
    let p: Params = x.params();
    let [b, h, n] = ["b", "h", "n"].map(|name| x.dims.size(name));
    let total = b * h * n;
    let inputs = ["sums", "q", "norms", "table_norm"].map(|name| Some(x.port(name)));
    let flags = x.graph.transient("rows to compute again", [b, h, n], DType::U32);
    let bound = [&inputs[..], &[x.port_if("query_mask"), Some(flags)]].concat();
    x.graph.pass(&noise_flags::SPEC, &p.bound(), &bound)?;
    let flags = x.graph.reshape(flags, [total])?;
    let slot = x.port("slot");
    let slot = x.graph.reshape(slot, [total])?;
    let parts = total.div_ceil(count_flags::PART).max(1);
    let counts = x.graph.transient("rows to compute again, by part", [parts], DType::U32);
    x.graph.pass(&count_flags::SPEC, &count_flags::Params::default(), &[Some(flags), Some(counts)])?;
    let [list, dispatch, status] = ["list", "dispatch", "status"].map(|name| Some(x.port(name)));
    let params = list_flags::Params { groups_per_row: p.groups_per_row, ..list_flags::Params::default() };
    x.graph.pass(
        &list_flags::SPEC,
        &params,
        &[Some(flags), Some(counts), Some(slot), list, dispatch, status],
    )?;
    Ok(())
}

/// The kernel's description.
pub static SPEC: KernelSpec = KernelSpec {
    name: "noise_guard",
    family: "mask",
    formula: "list = (#rows, i : c·2⁻²⁴·log₂L·‖f‖₂·Σᵣ |q[i,r]|·‖K_r‖₂ > τ·den[i] or den[i] ≤ 0)",
    source: "derived: a Fourier multiply has the same absolute error in every row",
    ports: &[
        Port::read("sums", &["b", "h", "n", "p"]),
        Port::read("q", &["b", "h", "n", "r"]),
        Port::read("norms", &["b", "h", "r"]),
        Port::read("table_norm", &["tables"]),
        Port::read("query_mask", &["b", "h", "n"]).of(DType::U8).broadcast().optional(),
        Port::write("slot", &["b", "h", "n"]).of(DType::U32),
        Port::write("list", &["w"]).of(DType::U32),
        Port::write("dispatch", &["3"]).of(DType::U32),
        Port::write("status", &["2"]).of(DType::U32),
    ],
    params: Params::FIELDS,
    defaults: Params::default_bytes,
    output_dims: Some(|dims, _| {
        let total = u32::try_from(rows(dims)).unwrap_or(u32::MAX);
        dims.set("w", total.saturating_add(1));
    }),
    check,
    wgpu: OnWgpu::Expand(expand),
    cuda: OnCuda::Expand,
    reference: reference!(reference),
    window: whole_heads,
    cost: |d, _| {
        let (rows, r) = (rows(d) as f64, f64::from(d.size("r")));
        Cost { flop: rows * (2.0 * r + 8.0), exp: 0.0, stores: 3.0 * rows, bytes: 4.0 * rows * (r + 6.0), ..Cost::default() }
    },
    tolerance: Tolerance::EXACT,
    cases: &[
        Case::new(
            "smallest",
            &[("b", 1), ("h", 1), ("n", 1), ("r", 1), ("p", 1), ("tables", 1), ("w", 2)],
            Params::default_bytes,
        )
        .without(&["query_mask"])
        .filled(&noise_flags::FILLS),
        Case::new(
            "odd",
            &[("b", 2), ("h", 3), ("n", 101), ("r", 7), ("p", 4), ("tables", 3), ("w", 607)],
            || Params { log2_length: 9.0, groups_per_row: 2, ..Params::default() }.to_bytes(),
        )
        .filled(&noise_flags::FILLS),
        Case::new(
            "short_list",
            &[("b", 1), ("h", 2), ("n", 2050), ("r", 4), ("p", 5), ("tables", 1), ("w", 21)],
            || Params { log2_length: 12.0, ..Params::default() }.to_bytes(),
        )
        .without(&["query_mask"])
        .filled(&noise_flags::FILLS),
        Case::new(
            "rows_8x4096",
            &[("b", 1), ("h", 8), ("n", 4096), ("r", 32), ("p", 33), ("tables", 8), ("w", 32_769)],
            Params::default_bytes,
        )
        .without(&["query_mask"])
        .filled(&noise_flags::FILLS)
        .resized(|d| {
            let rows = resize::product(&[d.size("b"), d.size("h"), d.size("n")])?;
            d.set("w", rows.checked_add(1).ok_or("a list of 2³² rows is too large")?);
            Ok(Params::default_bytes())
        })
        .for_bench(),
    ],
    vjp: None,
};
