//! Causal linear attention with exponential decay, as chunked scans: linear time, and never an n × r × e buffer.
//!
//! `out[i]` = Σⱼ wᵢⱼ `v[j]` / Σⱼ wᵢⱼ, wᵢⱼ = γ^(i − j) ⟨`q[i]`, `k[j]`⟩ for j ≤ i, 0 else; two-sided γ^|i − j| ⟨`q[i]`, `k[j]`⟩ for all j
//!
//! * `q`, `k` `[b, h, n, r]` have been through the feature map and are non-negative; `v` `[b, h, n, e]`.
//! * `decay` `[h]` or `[1]`, γ in [0, 1]: 1 (or left out) is plain causal attention, 0 lets every token see only itself.
//! * `key_mask`, `query_mask` `[b, h, n]`: 0 = leave out, by selection; what a left-out key holds does not matter.
//! * `reach` `[b, h, n, 2]`: segments, see [`chunks`](super::chunks). No token sees another segment.
//! * `out` `[b, h, n, e]`, zeros in rows without keys; `den` `[b, h, n]` the denominators.
//! * `state` `[b, h, r, e + 1]`: Σⱼ γ^(n − 1 − j) kⱼ [vⱼ, 1]ᵀ over the last token's segment, with which
//!   [`attention_step`](super::attention_step) goes on.
//!
//! Within a chunk all pairs, across chunks a state of r (e + 1) numbers; numerators and denominator go together. All terms are
//! positive, so every row keeps its relative accuracy however small its weights; weights that underflow are nothing.
//! A later key enters no earlier row at all: changing it changes them by exactly 0.

use super::chunk_states::{self, RAGGED, SEGMENTS};
use super::chunks::{key_counts, reach, state_size};
use super::decay_powers;
use super::divide_rows::{self, divided};
use super::linear_attention::check_widths;
use super::{chunk_attend, scan_states, step_state};
use crate::error::Result;
use crate::graph::{Expansion, Graph};
use crate::kernel::*;
use crate::kernels::laplacian::kernel_matrix::kept;
use crate::tensor::{DType, Dims, Tensor};
use crate::{params, reference};
use std::ops::Range;

params! {
    /// Parameters of [`SPEC`].
    pub struct Params {
        /// 1 to see later keys too
        fixed two_sided: u32 = 0,
        /// tokens of a chunk, 0 = chosen for the device
        fixed rows: u32 = 0,
    }
}

fn check(dims: &Dims, params: &[u8]) -> std::result::Result<(), String> {
    let p = Params::from_bytes(params);
    let h = dims.size("h");
    if p.two_sided > 1 {
        return Err(format!("two_sided is 0 or 1, got {}", p.two_sided));
    }
    check_widths(dims, params)?;
    let (w, e) = (dims.find("w"), dims.size("e"));
    if w.is_some_and(|w| u64::from(w) != u64::from(e) + 1) {
        return Err(format!("a state has e + 1 = {} columns, got {}", u64::from(e) + 1, dims.size("w")));
    }
    match dims.find("heads") {
        Some(heads) if heads != 1 && heads != h => Err(format!("decay has 1 or h = {h} numbers, got {heads}")),
        _ => Ok(()),
    }
}

fn reference<T: Real>(args: &mut HostArgs<T>) -> Result<()> {
    let p: Params = args.params();
    let [n, r, e, h] = ["n", "r", "e", "h"].map(|d| args.dims.at(d));
    let (q, k, v, decay) = (args.real("q"), args.real("k"), args.real("v"), args.real_if("decay"));
    let heads = args.dims.at("heads").max(1);
    let width = e + 1;
    let shared = &*args;
    // The lines of each head and then its state.
    let all = reference::rows(args.dims.batches() as usize, 1, (n + r) * width, |batch, _, part| {
        let (lines, last) = part.split_at_mut(n * width);
        let gamma = decay.as_ref().map_or(T::one(), |d| d[batch % h.max(1) % heads]);
        let mut add = |state: &mut [T], i: usize, own: bool, backward: bool| {
            // A state begins anew with its segment; what came before may have been anything.
            let (before, after) = reach(shared, batch, i);
            let begins = if backward { after <= 1 } else { before <= 1 };
            state.iter_mut().for_each(|x| *x = if begins || gamma == T::zero() { T::zero() } else { *x * gamma });
            let query = &q[(batch * n + i) * r..][..r];
            let key = key_counts(shared, batch, i).then(|| &k[(batch * n + i) * r..][..r]);
            let value = &v[(batch * n + i) * e..][..e];
            let line = &mut lines[i * width..][..width];
            let read = |state: &[T], line: &mut [T]| {
                for (x, row) in query.iter().zip(state.chunks_exact(width)) {
                    line.iter_mut().zip(row).for_each(|(sum, y)| *sum += *x * *y);
                }
            };
            if !own && before > 0 {
                read(state, line);
            }
            for (x, row) in key.into_iter().flatten().zip(state.chunks_exact_mut(width)) {
                row[..e].iter_mut().zip(value).for_each(|(sum, y)| *sum += *x * *y);
                row[e] += *x;
            }
            if own && before > 0 {
                read(state, line);
            }
        };
        let mut state = vec![T::zero(); r * width];
        (0..n).for_each(|i| add(&mut state, i, true, false));
        last.copy_from_slice(&state);
        if p.two_sided == 1 {
            state.fill(T::zero());
            (0..n).rev().for_each(|i| add(&mut state, i, false, true));
        }
        for (i, line) in lines.chunks_exact_mut(width).enumerate() {
            if !kept(shared, "query_mask", batch, i) {
                line.fill(T::zero());
            }
            let den = line[e];
            divided(&mut line[..e], den);
        }
    });
    let parts = || all.chunks_exact(((n + r) * width).max(1));
    let lines = || parts().flat_map(|part| part[..n * width].chunks_exact(width));
    args.set("out", lines().flat_map(|line| &line[..e]).copied().collect());
    args.set("den", lines().map(|line| line[e]).collect());
    args.set("state", parts().flat_map(|part| &part[n * width..]).copied().collect());
    Ok(())
}

/// Longest chunk; beyond it the pairs within chunks cost more than anything saved.
const LONGEST_CHUNK: u32 = 2048;
/// Most chunks, well below the loop rounds that llvmpipe allows the scan.
const MOST_CHUNKS: u32 = 60_000;

/// Tokens of a chunk: the driver's best, longer where there would be too many chunks or one head's states exceed a binding
/// or half the memory budget.
fn chunk_rows(dims: &Dims, p: &Params, caps: &Caps) -> u32 {
    if p.rows > 0 {
        return p.rows;
    }
    let state = 4 * state_size(dims.size("r"), dims.size("e"), p.two_sided);
    let most = caps.storage_binding.saturating_sub(u64::from(caps.storage_alignment)).min(caps.memory_budget / 2);
    let mut rows = match caps.driver {
        Driver::Gpu => 64,
        Driver::Llvmpipe | Driver::SwiftShader => 32,
    };
    let too_many = |rows: u32| {
        let chunks = dims.size("n").div_ceil(rows);
        chunks > MOST_CHUNKS || u64::from(chunks) * state > most
    };
    while rows < LONGEST_CHUNK && too_many(rows) {
        rows *= 2;
    }
    rows
}

/// Tensors of one expansion, or of some heads of it.
#[derive(Clone, Copy)]
struct Ports {
    q: Tensor,
    k: Tensor,
    v: Tensor,
    powers: Option<Tensor>,
    key_mask: Option<Tensor>,
    query_mask: Option<Tensor>,
    reach: Option<Tensor>,
    out: Tensor,
    den: Option<Tensor>,
    state: Option<Tensor>,
}

impl Ports {
    /// Elements `range` of dimension `axis` (0 batch, 1 head of one batch element).
    fn part(&self, graph: &mut Graph, axis: usize, range: &Range<u32>) -> Result<Self> {
        let whole = self.out.dim(axis);
        let mut cut = |t: Tensor| if t.dim(axis) == whole { graph.slice(t, axis, range.clone()) } else { Ok(t) };
        let one = Self {
            q: cut(self.q)?,
            k: cut(self.k)?,
            v: cut(self.v)?,
            key_mask: self.key_mask.map(&mut cut).transpose()?,
            query_mask: self.query_mask.map(&mut cut).transpose()?,
            reach: self.reach.map(&mut cut).transpose()?,
            out: cut(self.out)?,
            den: self.den.map(&mut cut).transpose()?,
            state: self.state.map(&mut cut).transpose()?,
            powers: self.powers,
        };
        let powers = match self.powers {
            Some(all) if axis == 1 && all.dim(0) > 1 => Some(graph.slice(all, 0, range.clone())?),
            same => same,
        };
        Ok(Self { powers, ..one })
    }

    fn record(&self, graph: &mut Graph, two_sided: u32, rows: u32) -> Result<()> {
        let [b, h, n, e] = [0, 1, 2, 3].map(|axis| self.out.dim(axis));
        let r = self.q.dim(3);
        let chunks = n.div_ceil(rows).max(1);
        let size = r * (e + 1) * (1 + two_sided);
        let (k, v, powers, key_mask, reach) = (Some(self.k), Some(self.v), self.powers, self.key_mask, self.reach);
        let states = graph.transient("chunk states", [b, h, chunks, size], DType::F32);
        let params = chunk_states::Params { rows, two_sided };
        graph.pass(&chunk_states::SPEC, &params, &[k, v, powers, key_mask, reach, Some(states)])?;
        let entered = graph.transient("states before chunks", [b, h, chunks, size], DType::F32);
        let params = scan_states::Params { tokens: n, rows, two_sided };
        let last = self.state.map(|_| graph.transient("state after the last chunk", [b, h, size], DType::F32));
        graph.pass(&scan_states::SPEC, &params, &[Some(states), powers, reach, Some(entered), last])?;
        if last.is_some() {
            graph.pass(&step_state::SPEC, &params::NoParams {}, &[last, self.state])?;
        }
        let divide = u32::from(self.den.is_none() && self.query_mask.is_none());
        let params = chunk_attend::Params { rows, two_sided, divide };
        let lines = if divide == 1 { self.out } else {
            graph.transient("numerators and denominators", [b, h, n, e + 1], DType::F32)
        };
        let args = [Some(self.q), k, v, powers, key_mask, reach, Some(entered), Some(lines)];
        graph.pass(&chunk_attend::SPEC, &params, &args)?;
        if divide == 0 {
            let args = [Some(lines), self.query_mask, Some(self.out), self.den];
            graph.pass(&divide_rows::SPEC, &params::NoParams {}, &args)?;
        }
        Ok(())
    }
}

fn expand(x: &mut Expansion<'_>) -> Result<()> {
    let p: Params = x.params();
    let rows = chunk_rows(x.dims, &p, x.caps);
    let powers = x.port_if("decay").map(|decay| decay_powers::record(x.graph, decay, rows)).transpose()?;
    let ports = Ports {
        q: x.port("q"),
        k: x.port("k"),
        v: x.port("v"),
        powers,
        key_mask: x.port_if("key_mask"),
        query_mask: x.port_if("query_mask"),
        reach: x.port_if("reach"),
        out: x.port("out"),
        den: x.port_if("den"),
        state: x.port_if("state"),
    };
    let [b, h, n, r, e] = ["b", "h", "n", "r", "e"].map(|d| x.dims.size(d));
    // Both state buffers live at once.
    let per_head = 8 * u64::from(n.div_ceil(rows).max(1)) * state_size(r, e, p.two_sided);
    let per_element = u64::from(h) * per_head;
    let fits = |each: u64| u32::try_from(x.caps.memory_budget / each.max(1)).unwrap_or(u32::MAX).max(1);
    if u64::from(b) * per_element <= x.caps.memory_budget {
        return ports.record(x.graph, p.two_sided, rows);
    }
    if per_element <= x.caps.memory_budget {
        return blocks(b, fits(per_element)).try_for_each(|range| ports.part(x.graph, 0, &range)?.record(x.graph, p.two_sided, rows));
    }
    for element in 0..b {
        let one = ports.part(x.graph, 0, &(element..element + 1))?;
        blocks(h, fits(per_head)).try_for_each(|range| one.part(x.graph, 1, &range)?.record(x.graph, p.two_sided, rows))?;
    }
    Ok(())
}

/// Ranges of at most `size` that cover 0..total.
pub(super) fn blocks(total: u32, size: u32) -> impl Iterator<Item = Range<u32>> {
    (0..total).step_by(size.max(1) as usize).map(move |start| start..start.saturating_add(size).min(total))
}

const fn sizes(n: u32, r: u32, e: u32) -> [(&'static str, u32); 6] {
    [("b", 2), ("h", 2), ("heads", 2), ("n", n), ("r", r), ("e", e)]
}

const fn state_sizes(n: u32, r: u32, e: u32, w: u32) -> [(&'static str, u32); 7] {
    [("b", 2), ("h", 2), ("heads", 2), ("n", n), ("r", r), ("e", e), ("w", w)]
}

const fn bench_sizes(n: u32) -> [(&'static str, u32); 5] {
    [("b", 1), ("h", 8), ("n", n), ("r", 32), ("e", 32)]
}

fn with(two_sided: u32, rows: u32) -> Vec<u8> {
    Params { two_sided, rows }.to_bytes()
}

const BARE: &[&str] = &["decay", "key_mask", "query_mask", "reach", "den", "state"];
const Q: (&str, Fill) = ("q", Fill::Uniform(0.0, 1.0));
const K: (&str, Fill) = ("k", Fill::Uniform(0.0, 1.0));
const DECAY: (&str, Fill) = ("decay", Fill::Uniform(0.5, 1.0));

/// The kernel's description.
pub static SPEC: KernelSpec = KernelSpec {
    name: "causal_attention",
    family: "linear",
    formula: "out[i] = Σ_{j≤i} γ^(i−j) ⟨q[i], k[j]⟩ v[j] / Σ_{j≤i} γ^(i−j) ⟨q[i], k[j]⟩",
    source: "Katharopoulos et al. 2020, eq. 9; decay: Sun et al. 2023, eq. 5–7; mask: Choromanski et al. 2022",
    ports: &[
        Port::read("q", &["b", "h", "n", "r"]),
        Port::read("k", &["b", "h", "n", "r"]),
        Port::read("v", &["b", "h", "n", "e"]),
        Port::read("decay", &["heads"]).optional(),
        Port::read("key_mask", &["b", "h", "n"]).of(DType::U8).broadcast().optional(),
        Port::read("query_mask", &["b", "h", "n"]).of(DType::U8).broadcast().optional(),
        Port::read("reach", &["b", "h", "n", "2"]).of(DType::U32).broadcast().optional(),
        Port::write("out", &["b", "h", "n", "e"]),
        Port::write("den", &["b", "h", "n"]).optional(),
        Port::write("state", &["b", "h", "r", "w"]).optional(),
    ],
    params: Params::FIELDS,
    defaults: Params::default_bytes,
    output_dims: Some(|dims, _| dims.set("w", dims.size("e") + 1)),
    check,
    wgpu: OnWgpu::Expand(expand),
    cuda: OnCuda::Expand,
    reference: reference!(reference),
    window: whole_heads,
    cost: |d, params| {
        let [n, r, e] = ["n", "r", "e"].map(|name| f64::from(d.size(name)));
        let (batches, sides) = (d.batches() as f64, f64::from(1 + Params::from_bytes(params).two_sided));
        // Pairs of 32-token chunks, states made and read.
        let products = n * (32.0 * (r + e + 1.0) + 2.0 * sides * r * (e + 1.0));
        Cost { flop: 2.0 * batches * products, exp: 0.0, stores: batches * n * e, bytes: 4.0 * batches * n * (2.0 * r + 2.0 * e), ..Cost::default() }
    },
    tolerance: Tolerance::SUMS,
    cases: &[
        Case::new("smallest", &[("b", 1), ("h", 1), ("n", 1), ("r", 1), ("e", 1)], Params::default_bytes).without(BARE)
            .filled(&[("q", Fill::Uniform(0.5, 1.0)), ("k", Fill::Uniform(0.5, 1.0))]),
        Case::new("odd", &sizes(101, 5, 6), || with(0, 16)).without(&["state"]).filled(&[Q, K, DECAY, SEGMENTS]).shared(&["reach"]),
        Case::new("state", &state_sizes(101, 5, 6, 7), || with(0, 16)).without(&["query_mask", "reach"]).filled(&[Q, K, DECAY]),
        Case::new("state_of_texels", &state_sizes(65, 8, 4, 5), Params::default_bytes).without(&["decay", "key_mask", "query_mask", "den"])
            .filled(&[Q, K, SEGMENTS]).shared(&["reach"]),
        Case::new("causal", &sizes(129, 32, 32), Params::default_bytes).without(BARE).filled(&[Q, K]),
        Case::new("decay", &sizes(200, 8, 12), Params::default_bytes).without(&["key_mask", "query_mask", "reach", "den", "state"])
            .filled(&[Q, K, DECAY]),
        Case::new("two_sided", &sizes(150, 8, 8), || with(1, 0)).without(&["key_mask", "den", "state"]).filled(&[Q, K, DECAY, RAGGED]),
        Case::new("masked", &sizes(70, 6, 5), || with(1, 64)).without(&["state"]).filled(&[Q, K, DECAY, RAGGED]).shared(&["key_mask", "query_mask"]),
        Case::new("identity", &sizes(70, 8, 4), Params::default_bytes).without(&["key_mask", "query_mask", "reach", "den", "state"])
            .filled(&[Q, K, ("decay", Fill::Value(0.0))]),
        Case::new("fast_decay", &sizes(300, 8, 4), || with(1, 0)).without(&["key_mask", "query_mask", "reach", "den", "state"])
            .filled(&[Q, K, ("decay", Fill::Value(1e-3))]),
        Case::new("no_key_is_kept", &sizes(40, 8, 4), Params::default_bytes).without(&["query_mask", "reach", "decay", "state"])
            .filled(&[Q, ("k", Fill::Value(1e30)), ("v", Fill::Value(3e38)), ("key_mask", Fill::Value(0.0))]),
        Case::new("no_token", &sizes(0, 8, 4), Params::default_bytes).without(BARE).filled(&[Q, K]),
        Case::new("tokens_4096", &bench_sizes(4096), Params::default_bytes).without(BARE).filled(&[Q, K]).for_bench(),
        Case::new("tokens_16384", &bench_sizes(16_384), Params::default_bytes).without(BARE).filled(&[Q, K]).for_bench(),
        Case::new("decay_16384", &[("b", 1), ("h", 8), ("heads", 8), ("n", 16_384), ("r", 32), ("e", 32)], Params::default_bytes)
            .without(&["key_mask", "query_mask", "reach", "den", "state"]).filled(&[Q, K, DECAY]).for_bench(),
    ],
    vjp: None,
};
