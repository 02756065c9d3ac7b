//! Linear attention under a separable exponential mask on a grid: near keys weigh more, at a rate per axis, in linear time.
//!
//! `out[i]` = Σⱼ wᵢⱼ `v[j]` / Σⱼ wᵢⱼ, wᵢⱼ = Π_a γ_a^|Δ_a| ⟨`q[i]`, `k[j]`⟩, Δ_a the offset of tokens i and j along axis a (γ_a = e^−λ_a)
//!
//! * `q`, `k` `[b, h, n, r]` have been through the feature map and are non-negative; `v` `[b, h, n, e]`; n = n1 n2 n3 tokens in raster
//!   order, the last axis fastest; `decay` `[3, h]` or `[3, 1]`: γ of each axis.
//! * `key_mask`, `query_mask` `[b, h, n]`: 0 = leave out. `out` `[b, h, n, e]`, zeros in rows without keys; `den` the denominators.
//!
//! Each product of a feature and a value column is summed along one axis after the other ([`axis_scan`]), in slices of
//! features that the memory budget holds. Everything added is positive, so far rows keep their relative accuracy. A grid of one
//! axis is a sequence and goes through chunks ([`causal_attention`], two-sided).

use super::causal_attention::{self, blocks};
use super::divide_rows::{self, divided};
use super::linear_attention::check_widths;
use super::{axis_scan, contract_rows, outer_rows};
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
        /// tokens along the first axis, the slowest
        fixed n1: u32 = 1,
        /// tokens along the second axis
        fixed n2: u32 = 1,
        /// tokens along the third axis, the fastest
        fixed n3: u32 = 1,
    }
}

impl Params {
    fn sides(&self) -> [u32; 3] {
        [self.n1, self.n2, self.n3]
    }
}

fn check(dims: &Dims, params: &[u8]) -> std::result::Result<(), String> {
    let sides = Params::from_bytes(params).sides();
    let tokens = sides.iter().try_fold(1_u32, |n, side| n.checked_mul(*side));
    if tokens != Some(dims.size("n")) {
        return Err(format!("a grid of {sides:?} has n1 n2 n3 tokens, got n = {}", dims.size("n")));
    }
    check_widths(dims, params)?;
    let (h, heads) = (dims.size("h"), dims.size("heads"));
    if heads != 1 && heads != h { Err(format!("decay has 1 or h = {h} numbers per axis, got {heads}")) } else { Ok(()) }
}

fn reference<T: Real>(args: &mut HostArgs<T>) -> Result<()> {
    let p: Params = args.params();
    let [n, r, e, h, heads] = ["n", "r", "e", "h", "heads"].map(|d| args.dims.at(d));
    let (q, k, v, decay) = (args.real("q"), args.real("k"), args.real("v"), args.real("decay"));
    let width = e + 1;
    let shared = &*args;
    let all = reference::rows(args.dims.batches() as usize, 1, n * width, |batch, _, lines| {
        for l in 0..r {
            let mut x = vec![T::zero(); n * width];
            for (j, row) in x.chunks_exact_mut(width).enumerate().filter(|(j, _)| kept(shared, "key_mask", batch, *j)) {
                let feature = k[(batch * n + j) * r + l];
                row[..e].iter_mut().zip(&v[(batch * n + j) * e..]).for_each(|(y, value)| *y = feature * *value);
                row[e] = feature;
            }
            for (axis, side) in p.sides().into_iter().enumerate() {
                let gamma = decay[axis * heads + batch % h.max(1) % heads.max(1)];
                let inner = p.sides()[axis + 1..].iter().product::<u32>() as usize * width;
                x = along(&x, side as usize, inner, gamma);
            }
            for (i, (line, row)) in lines.chunks_exact_mut(width).zip(x.chunks_exact(width)).enumerate() {
                let feature = q[(batch * n + i) * r + l];
                line.iter_mut().zip(row).for_each(|(sum, y)| *sum += feature * *y);
            }
        }
        for (i, line) in lines.chunks_exact_mut(width).enumerate() {
            if !kept(shared, "query_mask", batch, i) {
                line.fill(T::zero());
            }
            let den = line[e];
            divided(&mut line[..e], den);
        }
    });
    args.set("out", all.chunks_exact(width).flat_map(|line| &line[..e]).copied().collect());
    args.set("den", all.chunks_exact(width).map(|line| line[e]).collect());
    Ok(())
}

/// Two-sided sums along an axis of `side` places, `inner` numbers apart.
fn along<T: Real>(x: &[T], side: usize, inner: usize, gamma: T) -> Vec<T> {
    let mut out = vec![T::zero(); x.len()];
    for start in (0..x.len()).step_by((side * inner).max(1)) {
        for c in start..start + inner {
            let mut run = T::zero();
            for i in 0..side {
                run = gamma * run + x[c + i * inner];
                out[c + i * inner] = run;
            }
            run = T::zero();
            for i in (0..side).rev() {
                out[c + i * inner] += gamma * run;
                run = gamma * run + x[c + i * inner];
            }
        }
    }
    out
}

/// Tensors of one expansion, or of some heads of it.
#[derive(Clone, Copy)]
struct Ports {
    q: Tensor,
    k: Tensor,
    v: Tensor,
    decay: [Tensor; 3],
    key_mask: Option<Tensor>,
    query_mask: Option<Tensor>,
    out: Tensor,
    den: Option<Tensor>,
}

impl Ports {
    /// Elements `range` of dimension `axis` (0 batch, 1 head of one batch element).
    fn part(&self, graph: &mut Graph, axis: usize, range: &Range<u32>) -> Result<Self> {
        let whole = self.out.dim(axis);
        let mut cut = |t: Tensor| if t.dim(axis) == whole { graph.slice(t, axis, range.clone()) } else { Ok(t) };
        let mut one = Self {
            q: cut(self.q)?,
            k: cut(self.k)?,
            v: cut(self.v)?,
            key_mask: self.key_mask.map(&mut cut).transpose()?,
            query_mask: self.query_mask.map(&mut cut).transpose()?,
            out: cut(self.out)?,
            den: self.den.map(&mut cut).transpose()?,
            decay: self.decay,
        };
        for decay in one.decay.iter_mut().filter(|d| axis == 1 && d.dim(0) > 1) {
            *decay = graph.slice(*decay, 0, range.clone())?;
        }
        Ok(one)
    }

    /// Records these heads with at most `features` features at a time.
    fn record(&self, graph: &mut Graph, sides: [u32; 3], features: u32) -> Result<()> {
        let [b, h, n, e] = [0, 1, 2, 3].map(|axis| self.out.dim(axis));
        let mut lines: Option<Tensor> = None;
        for slice in blocks(self.q.dim(3), features) {
            let size = (slice.end - slice.start) * (e + 1);
            let mut x = graph.transient("features times values", [b, h, n, size], DType::F32);
            let params = outer_rows::Params { first: slice.start };
            graph.pass(&outer_rows::SPEC, &params, &[Some(self.k), Some(self.v), self.key_mask, Some(x)])?;
            for (axis, &side) in sides.iter().enumerate().filter(|(_, side)| **side > 1) {
                let outer = sides[..axis].iter().product();
                let inner = sides[axis + 1..].iter().product::<u32>() * size;
                let view = graph.reshape(x, [b, h, outer, side, inner])?;
                x = axis_scan::record(graph, view, self.decay[axis])?;
            }
            let y = graph.reshape(x, [b, h, n, size])?;
            let sum = graph.transient("numerators and denominators", [b, h, n, e + 1], DType::F32);
            let params = contract_rows::Params { first: slice.start };
            graph.pass(&contract_rows::SPEC, &params, &[Some(self.q), Some(y), lines, Some(sum)])?;
            lines = Some(sum);
        }
        graph.pass(&divide_rows::SPEC, &params::NoParams {}, &[lines, self.query_mask, Some(self.out), self.den])?;
        Ok(())
    }
}

fn expand(x: &mut Expansion<'_>) -> Result<()> {
    let p: Params = x.params();
    let [b, h, n, r, e] = ["b", "h", "n", "r", "e"].map(|d| x.dims.size(d));
    if n == 0 {
        return Ok(());
    }
    let decays = x.port("decay");
    let mut of_axis = |axis: u32| -> Result<Tensor> {
        let one = x.graph.slice(decays, 0, axis..axis + 1)?;
        x.graph.reshape(one, [decays.dim(1)])
    };
    let decay = [of_axis(0)?, of_axis(1)?, of_axis(2)?];
    let ports = Ports {
        q: x.port("q"),
        k: x.port("k"),
        v: x.port("v"),
        decay,
        key_mask: x.port_if("key_mask"),
        query_mask: x.port_if("query_mask"),
        out: x.port("out"),
        den: x.port_if("den"),
    };
    let long: Vec<usize> = (0..3).filter(|&axis| p.sides()[axis] > 1).collect();
    if let [] | [_] = long[..] {
        let decay = decay[long.first().copied().unwrap_or(2)];
        let params = causal_attention::Params { two_sided: 1, rows: 0 };
        let Ports { q, k, v, key_mask, query_mask, out, den, .. } = ports;
        let args = [Some(q), Some(k), Some(v), Some(decay), key_mask, query_mask, None, Some(out), den, None];
        x.graph.pass(&causal_attention::SPEC, &params, &args)?;
        return Ok(());
    }
    // Two buffers of channels live at a time; one head's must fit a binding.
    let one = 4 * u64::from(n) * (u64::from(e) + 1);
    let binding = x.caps.storage_binding.saturating_sub(u64::from(x.caps.storage_alignment));
    let budget = x.caps.memory_budget;
    let features = |heads: u64| u32::try_from((budget / 2 / (heads * one)).min(binding / one)).unwrap_or(u32::MAX).min(r);
    let heads = u64::from(h);
    let sides = p.sides();
    if features(u64::from(b) * heads) > 0 {
        return ports.record(x.graph, sides, features(u64::from(b) * heads));
    }
    for element in 0..b {
        let element = ports.part(x.graph, 0, &(element..element + 1))?;
        if features(heads) > 0 {
            element.record(x.graph, sides, features(heads))?;
            continue;
        }
        for head in 0..h {
            element.part(x.graph, 1, &(head..head + 1))?.record(x.graph, sides, features(1).max(1))?;
        }
    }
    Ok(())
}

const fn sizes(n: u32, r: u32, e: u32) -> [(&'static str, u32); 6] {
    [("b", 2), ("h", 2), ("heads", 2), ("n", n), ("r", r), ("e", e)]
}

fn grid(n1: u32, n2: u32, n3: u32) -> Vec<u8> {
    Params { n1, n2, n3 }.to_bytes()
}

const FILL: &[(&str, Fill)] =
    &[("q", Fill::Uniform(0.0, 1.0)), ("k", Fill::Uniform(0.0, 1.0)), ("decay", Fill::Uniform(0.3, 1.0))];

/// The kernel's description.
pub static SPEC: KernelSpec = KernelSpec {
    name: "separable_attention",
    family: "linear",
    formula: "out[i] = Σⱼ Π_a γ_a^|Δ_a| ⟨q[i], k[j]⟩ v[j] / (the same of ones)",
    source: "Choromanski et al. 2022; the mask's product by recurrences along the axes",
    ports: &[
        Port::read("q", &["b", "h", "n", "r"]),
        Port::read("k", &["b", "h", "n", "r"]),
        Port::read("v", &["b", "h", "n", "e"]),
        Port::read("decay", &["3", "heads"]),
        Port::read("key_mask", &["b", "h", "n"]).of(DType::U8).broadcast().optional(),
        Port::read("query_mask", &["b", "h", "n"]).of(DType::U8).broadcast().optional(),
        Port::write("out", &["b", "h", "n", "e"]),
        Port::write("den", &["b", "h", "n"]).optional(),
    ],
    params: Params::FIELDS,
    defaults: Params::default_bytes,
    output_dims: None,
    check,
    wgpu: OnWgpu::Expand(expand),
    cuda: OnCuda::Expand,
    reference: reference!(reference),
    window: whole_heads,
    cost: |d, _| {
        let [n, r, e] = ["n", "r", "e"].map(|name| f64::from(d.size(name)));
        let batches = d.batches() as f64;
        let channels = n * r * (e + 1.0);
        Cost { flop: 15.0 * batches * channels, exp: 0.0, stores: 4.0 * batches * channels, bytes: 4.0 * batches * n * (2.0 * r + 2.0 * e), ..Cost::default() }
    },
    tolerance: Tolerance::SUMS,
    cases: &[
        Case::new("smallest", &[("b", 1), ("h", 1), ("heads", 1), ("n", 1), ("r", 1), ("e", 1)], Params::default_bytes)
            .without(&["key_mask", "query_mask", "den"]).filled(&[("q", Fill::Uniform(0.5, 1.0)), ("k", Fill::Uniform(0.5, 1.0))]),
        Case::new("odd", &sizes(35, 5, 3), || grid(1, 5, 7)).filled(FILL),
        Case::new("solid", &sizes(60, 4, 2), || grid(3, 4, 5)).without(&["key_mask", "query_mask", "den"]).filled(FILL),
        Case::new("sequence", &sizes(70, 8, 4), || grid(1, 1, 70)).without(&["query_mask", "den"]).filled(FILL),
        Case::new("first_axis_only", &sizes(9, 3, 2), || grid(9, 1, 1)).without(&["key_mask", "query_mask"]).filled(FILL),
        Case::new("grid_32x32", &[("b", 1), ("h", 8), ("heads", 1), ("n", 1024), ("r", 32), ("e", 32)], || grid(1, 32, 32))
            .without(&["key_mask", "query_mask", "den"]).filled(FILL)
            .resized(|d| {
                let [rows, cols] = resize::plane(d.size("n"));
                Ok(grid(1, rows, cols))
            })
            .for_bench(),
    ],
    vjp: None,
};
