//! One more token, or a few, of causal attention with decay: the state in, the state and the attended values out.
//!
//! For every token t in turn: S ← γ S + `k[t]` [`v[t]`, 1]ᵀ, `out[t]` = `q[t]` S divided by its last column
//!
//! * `state`, `next` `[b, h, r, e + 1]`: Σⱼ γ^(now − j) kⱼ [vⱼ, 1]ᵀ; zeros before the first token.
//! * `q`, `k` `[b, h, n, r]`, `v` `[b, h, n, e]` of the n new tokens, `decay` `[h]` or `[1]`, `key_mask` `[b, h, n]` (0 = the token is no key).
//! * `out` `[b, h, n, e]`, zeros where there was no key yet.
//!
//! Position by position the same as [`causal_attention`](super::causal_attention) over all tokens, up to rounding.

use super::divide_rows::divided;
use crate::error::Result;
use crate::kernel::wgsl_module::{BYTES, GROUP};
use crate::kernel::*;
use crate::kernels::laplacian::kernel_matrix::kept;
use crate::{cuda_source, reference};
use crate::tensor::{DType, Dims};

fn check(dims: &Dims, _: &[u8]) -> std::result::Result<(), String> {
    let (e, w, h) = (dims.size("e"), dims.size("w"), dims.size("h"));
    if u64::from(w) != u64::from(e) + 1 {
        return Err(format!("a state has e + 1 = {} columns, got {w}", u64::from(e) + 1));
    }
    match dims.find("heads") {
        Some(heads) if heads != 1 && heads != h => Err(format!("decay has 1 or h = {h} numbers, got {heads}")),
        _ => Ok(()),
    }
}

fn reference<T: Real>(args: &mut HostArgs<T>) -> Result<()> {
    let [n, r, e, w, h] = ["n", "r", "e", "w", "h"].map(|d| args.dims.at(d));
    let (q, k, v, state, decay) = (args.real("q"), args.real("k"), args.real("v"), args.real("state"), args.real_if("decay"));
    let heads = args.dims.at("heads").max(1);
    let shared = &*args;
    // The states and then the lines of each head.
    let all = reference::rows(args.dims.batches() as usize, 1, (r + n) * w, |batch, _, part| {
        let gamma = decay.as_ref().map_or(T::one(), |d| d[batch % h.max(1) % heads]);
        let (next, lines) = part.split_at_mut(r * w);
        next.copy_from_slice(&state[batch * r * w..][..r * w]);
        for (t, line) in lines.chunks_exact_mut(w).enumerate() {
            let at = batch * n + t;
            let is_key = kept(shared, "key_mask", batch, t);
            for (l, row) in next.chunks_exact_mut(w).enumerate() {
                for (c, x) in row.iter_mut().enumerate() {
                    let value = if c < e { v[at * e + c] } else { T::one() };
                    *x = gamma * *x + if is_key { k[at * r + l] * value } else { T::zero() };
                    line[c] += q[at * r + l] * *x;
                }
            }
            let den = line[e];
            divided(&mut line[..e], den);
        }
    });
    let parts = all.chunks_exact(((r + n) * w).max(1));
    args.set("next", parts.clone().flat_map(|p| &p[..r * w]).copied().collect());
    args.set("out", parts.flat_map(|p| p[r * w..].chunks_exact(w).flat_map(|line| &line[..e])).copied().collect());
    Ok(())
}

fn products(d: &Dims) -> f64 {
    f64::from(d.size("n")) * f64::from(d.size("r")) * f64::from(d.size("w"))
}

const fn sizes(n: u32, r: u32, e: u32, w: u32) -> [(&'static str, u32); 7] {
    [("b", 2), ("h", 2), ("heads", 2), ("n", n), ("r", r), ("e", e), ("w", w)]
}

const POSITIVE: [(&str, Fill); 3] =
    [("q", Fill::Uniform(0.0, 1.0)), ("k", Fill::Uniform(0.0, 1.0)), ("state", Fill::Uniform(0.5, 1.0))];
const DECAY: (&str, Fill) = ("decay", Fill::Uniform(0.5, 1.0));

/// The kernel's description.
pub static SPEC: KernelSpec = KernelSpec {
    name: "attention_step",
    family: "linear",
    formula: "S ← γ S + k[t] [v[t], 1]ᵀ, out[t] = q[t] S / last column",
    source: "Katharopoulos et al. 2020, eq. 16–20; decay: Sun et al. 2023, eq. 6",
    ports: &[
        Port::read("q", &["b", "h", "n", "r"]),
        Port::read("k", &["b", "h", "n", "r"]),
        Port::read("v", &["b", "h", "n", "e"]),
        Port::read("decay", &["heads"]).optional(),
        Port::read("key_mask", &["b", "h", "n"]).of(DType::U8).broadcast().optional(),
        Port::read("state", &["b", "h", "r", "w"]),
        Port::write("next", &["b", "h", "r", "w"]),
        Port::write("out", &["b", "h", "n", "e"]),
    ],
    params: params::NoParams::FIELDS,
    defaults: Vec::new,
    output_dims: None,
    check,
    wgpu: OnWgpu::Shader(&[Variant::only(
        "linear/attention_step.wgsl",
        include_str!("../../../shaders/linear/attention_step.wgsl"),
        &[GROUP, BYTES],
        |_, batches| batches,
        |d, _| Loads { storage: 4.0 * products(d), ..Loads::default() },
    )
    .rounds(|d| {
        let columns = u64::from(d.size("w").div_ceil(64));
        (u64::from(d.size("n")) + 1) * columns * (u64::from(d.size("r")) + 1)
    })]),
    cuda: OnCuda::Source(&[cuda_source!("linear/attention_step.cu", 256, |d, _| d.batches())]),
    reference: reference!(reference),
    window: whole_heads,
    cost: |d, _| {
        let batches = d.batches() as f64;
        let state = f64::from(d.size("r")) * f64::from(d.size("w"));
        let tokens = f64::from(d.size("n")) * f64::from(2 * d.size("r") + 2 * d.size("e"));
        Cost { flop: 4.0 * batches * products(d), exp: 0.0, stores: batches * (state + tokens / 4.0), bytes: 4.0 * batches * (2.0 * state + tokens), ..Cost::default() }
    },
    tolerance: Tolerance::SUMS,
    cases: &[
        Case::new("smallest", &[("b", 1), ("h", 1), ("n", 1), ("r", 1), ("e", 1), ("w", 2)], Vec::new)
            .without(&["decay", "key_mask"]).filled(&POSITIVE),
        Case::new("odd", &sizes(5, 7, 6, 7), Vec::new).filled(&[POSITIVE[0], POSITIVE[1], POSITIVE[2], DECAY]),
        Case::new("wide", &sizes(3, 32, 65, 66), Vec::new).without(&["key_mask"]).filled(&[POSITIVE[0], POSITIVE[1], POSITIVE[2], DECAY]),
        Case::new("first_token_is_no_key", &sizes(1, 8, 4, 5), Vec::new).without(&["decay"])
            .filled(&[POSITIVE[0], ("k", Fill::Value(1e30)), ("v", Fill::Value(3e38)), ("state", Fill::Value(0.0)), ("key_mask", Fill::Value(0.0))]),
        Case::new("heads_512", &[("b", 64), ("h", 8), ("n", 1), ("r", 32), ("e", 32), ("w", 33)], Vec::new)
            .without(&["decay", "key_mask"]).filled(&POSITIVE).for_bench(),
    ],
    vjp: None,
};
