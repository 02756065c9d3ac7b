//! Attention through a feature map, without a mask: every query averages the values of all keys in linear time.
//!
//! `out[i]` = (Σⱼ ⟨`q[i]`, `k[j]`⟩ `v[j]`) / (Σⱼ ⟨`q[i]`, `k[j]`⟩) = `q[i]` (Σⱼ kⱼ vⱼᵀ) / `q[i]` (Σⱼ kⱼ)
//!
//! * `q` `[b, h, n, r]` and `k` `[b, h, m, r]` have been through the feature map and are non-negative; `v` `[b, h, m, e]`.
//! * `key_mask` `[b, h, m]`, `query_mask` `[b, h, n]`: 0 = leave out; what a left-out key holds does not matter.
//! * `out` `[b, h, n, e]`, zeros in rows without keys; `den` `[b, h, n]` the denominators.

use super::divide_rows::{self, divided};
use super::{append_one, chunk_states, state_rows};
use crate::error::Result;
use crate::graph::Expansion;
use crate::kernel::*;
use crate::kernels::laplacian::kernel_matrix::kept;
use crate::kernels::linalg::matmul::{self, Inputs};
use crate::kernels::linalg::row_affine::{self, Rows};
use crate::kernels::linalg::{gram, sum_chunks};
use crate::reference;
use crate::tensor::{DType, Dims};

/// Whether there is a feature and a value column at all.
pub(super) fn check_widths(dims: &Dims, _: &[u8]) -> std::result::Result<(), String> {
    match (dims.size("r"), dims.size("e")) {
        (0, _) | (_, 0) => Err(format!("r and e are at least 1, got r = {} and e = {}", dims.size("r"), dims.size("e"))),
        _ => Ok(()),
    }
}

fn reference<T: Real>(args: &mut HostArgs<T>) -> Result<()> {
    let [n, m, r, e] = ["n", "m", "r", "e"].map(|d| args.dims.at(d));
    let (q, k, v) = (args.real("q"), args.real("k"), args.real("v"));
    let batches = args.dims.batches() as usize;
    let shared = &*args;
    let states = reference::rows(batches, 1, r * (e + 1), |batch, _, state| {
        for j in (0..m).filter(|&j| kept(shared, "key_mask", batch, j)) {
            for (l, line) in state.chunks_exact_mut(e + 1).enumerate() {
                let feature = k[(batch * m + j) * r + l];
                line[..e].iter_mut().zip(&v[(batch * m + j) * e..]).for_each(|(sum, x)| *sum += feature * *x);
                line[e] += feature;
            }
        }
    });
    let lines = reference::rows(batches, n, e + 1, |batch, i, line| {
        if !kept(shared, "query_mask", batch, i) {
            return;
        }
        for (l, state) in states[batch * r * (e + 1)..][..r * (e + 1)].chunks_exact(e + 1).enumerate() {
            let feature = q[(batch * n + i) * r + l];
            line.iter_mut().zip(state).for_each(|(sum, x)| *sum += feature * *x);
        }
        let den = line[e];
        divided(&mut line[..e], den);
    });
    args.set("out", lines.chunks_exact(e + 1).flat_map(|line| &line[..e]).copied().collect());
    args.set("den", lines.chunks_exact(e + 1).map(|line| line[e]).collect());
    Ok(())
}

/// Keys of a chunk, whose states are then added: enough that writing a state costs little.
const ROWS: u32 = 1024;

fn expand(x: &mut Expansion<'_>) -> Result<()> {
    let (q, mut k, v) = (x.port("q"), x.port("k"), x.port("v"));
    let keep = x.port_if("key_mask");
    let (query_mask, out, den) = (x.port_if("query_mask"), Some(x.port("out")), x.port_if("den"));
    if x.caps.driver != Driver::Gpu && state_rows::whole_texels(x.dims) {
        // Through textures with the denominator beside the product; a ones column would nearly double a product of 32 columns.
        let [b, h, m, r, e] = ["b", "h", "m", "r", "e"].map(|d| x.dims.size(d));
        // A chunk's keys and values fit a binding, and copies stay small.
        let binding = x.caps.storage_binding.saturating_sub(u64::from(x.caps.storage_alignment)).min(2 << 20);
        let rows = u32::try_from(binding / (4 * u64::from(r.max(e)))).unwrap_or(ROWS).clamp(1, ROWS);
        let (chunks, size) = (m.div_ceil(rows).max(1), r * (e + 1));
        let states = x.graph.transient("states of chunks", [b, h, chunks, size], DType::F32);
        let params = chunk_states::Params { rows, two_sided: 0 };
        x.graph.pass(&chunk_states::SPEC, &params, &[Some(k), Some(v), None, keep, None, Some(states)])?;
        let state = sum_chunks::record(x.graph, "state", states, None, 1.0)?;
        x.graph.pass(&state_rows::SPEC, &params::NoParams {}, &[Some(q), Some(state), query_mask, out, den])?;
        return Ok(());
    }
    if keep.is_some() {
        k = row_affine::record(x.graph, "kept keys", k, Rows { keep, ..Rows::default() })?;
    }
    let values = append_one::record(x.graph, v, keep)?;
    let state = gram::record(x.graph, "state", k, values, None, 1.0)?;
    let lines = matmul::record(x.graph, "numerators and denominators", Inputs::new(q, state), matmul::Params::default())?;
    x.graph.pass(&divide_rows::SPEC, &params::NoParams {}, &[Some(lines), query_mask, out, den])?;
    Ok(())
}

const NO_MASKS: &[&str] = &["key_mask", "query_mask", "den"];
const FEATURES: &[(&str, Fill)] = &[("q", Fill::Uniform(0.0, 1.0)), ("k", Fill::Uniform(0.0, 1.0))];

const fn sizes(n: u32, m: u32, r: u32, e: u32) -> [(&'static str, u32); 6] {
    [("b", 2), ("h", 2), ("n", n), ("m", m), ("r", r), ("e", e)]
}

/// The kernel's description.
pub static SPEC: KernelSpec = KernelSpec {
    name: "linear_attention",
    family: "linear",
    formula: "out[i] = q[i] (Σⱼ k[j] v[j]ᵀ) / q[i] (Σⱼ k[j])",
    source: "Katharopoulos et al. 2020, eq. 5",
    ports: &[
        Port::read("q", &["b", "h", "n", "r"]),
        Port::read("k", &["b", "h", "m", "r"]),
        Port::read("v", &["b", "h", "m", "e"]),
        Port::read("key_mask", &["b", "h", "m"]).of(DType::U8).broadcast().optional(),
        Port::read("query_mask", &["b", "h", "n"]).of(DType::U8).broadcast().optional(),
        Port::write("out", &["b", "h", "n", "e"]),
        Port::write("den", &["b", "h", "n"]).optional(),
    ],
    params: params::NoParams::FIELDS,
    defaults: Vec::new,
    output_dims: None,
    check: check_widths,
    wgpu: OnWgpu::Expand(expand),
    cuda: OnCuda::Expand,
    reference: reference!(reference),
    window: by_rows,
    cost: |d, _| {
        let [n, m, r, e] = ["n", "m", "r", "e"].map(|name| f64::from(d.size(name)));
        let batches = d.batches() as f64;
        Cost {
            flop: 2.0 * batches * (n + m) * r * (e + 1.0),
            exp: 0.0,
            stores: batches * n * e,
            bytes: 4.0 * batches * ((n + m) * r + (n + m) * e),
            ..Cost::default()
        }
    },
    tolerance: Tolerance::SUMS,
    cases: &[
        Case::new("smallest", &[("b", 1), ("h", 1), ("n", 1), ("m", 1), ("r", 1), ("e", 1)], Vec::new).without(NO_MASKS)
            .filled(&[("q", Fill::Uniform(0.5, 1.0)), ("k", Fill::Uniform(0.5, 1.0))]),
        Case::new("odd", &sizes(37, 53, 5, 3), Vec::new).filled(FEATURES),
        Case::new("cross", &sizes(65, 130, 32, 32), Vec::new).without(NO_MASKS).filled(FEATURES),
        Case::new("shared_masks", &sizes(20, 37, 8, 4), Vec::new).filled(FEATURES).shared(&["key_mask", "query_mask"]),
        Case::new("no_key_is_kept", &sizes(20, 37, 8, 4), Vec::new).without(&["query_mask"])
            .filled(&[("q", Fill::Uniform(0.0, 1.0)), ("k", Fill::Value(1e30)), ("v", Fill::Value(3e38)), ("key_mask", Fill::Value(0.0))]),
        Case::new("masked_texels", &sizes(70, 1500, 8, 36), Vec::new).filled(FEATURES),
        Case::new("no_key_at_all", &sizes(20, 0, 8, 4), Vec::new).without(NO_MASKS).filled(FEATURES),
        Case::new("tokens_4096", &[("b", 1), ("h", 8), ("n", 4096), ("m", 4096), ("r", 32), ("e", 32)], Vec::new)
            .without(NO_MASKS).filled(FEATURES).for_bench(),
        Case::new("tokens_16384", &[("b", 1), ("h", 8), ("n", 16_384), ("m", 16_384), ("r", 32), ("e", 32)], Vec::new)
            .without(NO_MASKS).filled(FEATURES).for_bench(),
    ],
    vjp: None,
};
