//! A Chebyshev expansion in a sparse operator: y = Σ_k c_k T_k(S) x, exp(−tL) x among them.
//!
//! * `starts` `[n + 1]`, `columns` `[z]`, `weights` `[v]` (edges, then the diagonal if v = z + n) as in
//!   [`chebyshev_step`]: S has its spectrum in [−1, 1], which the caller sees to.
//! * `coefficients` `[k]`, k from 1 to 16 384; one alone gives c_0 x. `x`, `y` `[b, h, n, c]`.
//! * `longest`: edges of the longest row, 0 = not known.
//!
//! One [`chebyshev_step`] a term: three terms and two sums live at a time. Heads, and channels of a head, are worked
//! in slices so that these stay under the device's memory budget.

use super::chebyshev_step::{self, Params as Step};
use super::csr::{self, Arrays};
use super::steps::{self, Columns};
use crate::error::Result;
use crate::graph::{Expansion, Graph};
use crate::kernel::*;
use crate::kernels::laplacian::nystrom::{slice_heads, slices};
use crate::tensor::{DType, Dims, Tensor};
use crate::{params, reference};

params! {
    /// Parameters of [`SPEC`].
    pub struct Params {
        /// edges of the longest row, 0 = not known
        fixed longest: u32 = 0,
    }
}

/// Numbers per node and channel that live at a time: three terms and two sums.
const LIVE: u64 = 5;

fn check(d: &Dims, params: &[u8]) -> std::result::Result<(), String> {
    csr::check(d, Params::from_bytes(params).longest)?;
    steps::check_term(d, 0)?;
    let [n, z] = ["n", "z"].map(|x| u64::from(d.size(x)));
    if d.find("v").is_some_and(|v| ![z, z + n].contains(&u64::from(v))) {
        return Err(format!(
            "`weights` has {z} numbers for edges, and {n} of the diagonal behind them or none; got {}",
            d.size("v")
        ));
    }
    Ok(())
}

fn reference<T: Real>(args: &mut HostArgs<T>) -> Result<()> {
    let rows = Arrays::of(args);
    let [n, z, c, k] = ["n", "z", "c", "k"].map(|x| args.dims.at(x));
    let (x, coefficients) = (args.real("x"), args.real("coefficients"));
    let all = Columns { cur: (c, 0), prev: (c, 0), sum: (c, 0), width: c };
    let (mut cur, mut prev) = (x.to_vec(), None);
    let mut sum: Vec<T> = cur.iter().map(|x| coefficients[0] * *x).collect();
    for term in 1..k {
        let next = steps::term(&cur, prev.as_deref(), args.dims.batches() as usize, n, &all, |i, visit| {
            rows.row(i, visit);
            if let Some(d) = rows.weights.as_ref().and_then(|w| w.get(z + i)) {
                visit(i, *d);
            }
        });
        sum.iter_mut().zip(&next).for_each(|(sum, y)| *sum += coefficients[term] * *y);
        prev = Some(std::mem::replace(&mut cur, next));
    }
    args.set("y", sum);
    Ok(())
}

/// The operator with its coefficients.
#[derive(Clone, Copy)]
struct Operator {
    starts: Tensor,
    columns: Tensor,
    weights: Option<Tensor>,
    coefficients: Tensor,
    longest: u32,
}

impl Operator {
    /// Records `width` channels of `x` from `at` on into the same of `y`.
    fn record(&self, graph: &mut Graph, x: Tensor, y: Tensor, at: u32, width: u32) -> Result<()> {
        let shape = [x.dim(0), x.dim(1), x.dim(2), width];
        let terms = self.coefficients.dim(0);
        let vectors = u32::from(at.is_multiple_of(4));
        let (mut cur, mut prev, mut sum): (_, Option<(Tensor, u32)>, Option<Tensor>) = ((x, at), None, None);
        for term in terms.min(2) - 1..terms {
            let last = term + 1 == terms;
            // The last term is not kept, except where it alone says how many channels there are.
            let next =
                (!last || sum.is_none()).then(|| graph.transient("term of the expansion", shape, DType::F32));
            let (out, sum_from) =
                if last { (y, at) } else { (graph.transient("sum of terms", shape, DType::F32), 0) };
            let prev_from = prev.map_or(0, |(_, from)| from);
            let params = Step { term, cur_from: cur.1, prev_from, sum_from, longest: self.longest, vectors };
            let args = [
                Some(self.starts),
                Some(self.columns),
                self.weights,
                Some(self.coefficients),
                Some(cur.0),
                prev.map(|(tensor, _)| tensor),
                sum,
                next,
                Some(out),
            ];
            graph.pass(&chebyshev_step::SPEC, &params, &args)?;
            sum = Some(out);
            if let Some(next) = next {
                prev = Some(std::mem::replace(&mut cur, (next, 0)));
            }
        }
        Ok(())
    }
}

fn expand(x: &mut Expansion<'_>) -> Result<()> {
    let p: Params = x.params();
    let operator = Operator {
        starts: x.port("starts"),
        columns: x.port("columns"),
        weights: x.port_if("weights"),
        coefficients: x.port("coefficients"),
        longest: p.longest,
    };
    let [b, h, n, c] = ["b", "h", "n", "c"].map(|d| x.dims.size(d));
    let (input, output) = (x.port("x"), x.port("y"));
    let per_channel = 4 * LIVE * u64::from(n);
    let budget = x.caps.memory_budget;
    let fit = u32::try_from(budget / per_channel.max(1)).unwrap_or(u32::MAX);
    let width = if fit >= c { c } else { (fit / 4 * 4).max(4).min(c) };
    let some = |graph: &mut Graph, x: Tensor, y: Tensor| {
        (0..c.max(1))
            .step_by(width.max(1) as usize)
            .try_for_each(|at| operator.record(graph, x, y, at, width.min(c - at)))
    };
    match slices(b, h, per_channel * u64::from(width), budget) {
        None => some(x.graph, input, output),
        Some(list) => list.into_iter().try_for_each(|(batch, heads)| {
            let from = slice_heads(x.graph, input, batch, &heads)?;
            let to = slice_heads(x.graph, output, batch, &heads)?;
            some(x.graph, from, to)
        }),
    }
}

const fn sizes(n: u32, z: u32, c: u32, k: u32) -> [(&'static str, u32); 8] {
    [("b", 2), ("h", 2), ("n", n), ("s", n + 1), ("z", z), ("v", z + n), ("k", k), ("c", c)]
}

/// Small enough weights that the terms do not grow.
const FILLS: &[(&str, Fill)] = &[
    ("starts", Fill::Made(csr::some_starts)),
    ("columns", Fill::Made(csr::some_columns)),
    ("weights", Fill::Uniform(-0.1, 0.1)),
];
const GRID: &[(&str, Fill)] = &[
    ("starts", Fill::Made(csr::grid_starts)),
    ("columns", Fill::Made(csr::grid_columns)),
    ("weights", Fill::Uniform(-0.2, 0.2)),
];

/// The kernel's description.
pub static SPEC: KernelSpec = KernelSpec {
    name: "chebyshev",
    family: "graph",
    formula: "y = Σ_k c_k T_k(S) x, S sparse",
    source: "Hammond et al. 2011, section 6",
    ports: &[
        Port::read("starts", &["s"]).of(DType::U32),
        Port::read("columns", &["z"]).of(DType::U32),
        Port::read("weights", &["v"]).optional(),
        Port::read("coefficients", &["k"]),
        Port::read("x", &["b", "h", "n", "c"]),
        Port::write("y", &["b", "h", "n", "c"]),
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
        let [n, z, c, k] = ["n", "z", "c", "k"].map(|x| f64::from(d.size(x)));
        let one = steps::cost(d, n, z + n, c);
        Cost { flop: k * one.flop, exp: 0.0, stores: k * one.stores, bytes: k * one.bytes, ..Cost::default() }
    },
    tolerance: Tolerance::SUMS,
    cases: &[
        Case::new(
            "smallest",
            &[("b", 1), ("h", 1), ("n", 1), ("s", 2), ("z", 1), ("v", 2), ("k", 3), ("c", 1)],
            Params::default_bytes,
        )
        .filled(FILLS),
        Case::new("odd", &sizes(37, 91, 5, 9), Params::default_bytes).filled(FILLS),
        Case::new("one_term", &sizes(37, 91, 8, 1), Params::default_bytes).filled(FILLS),
        Case::new("two_terms", &sizes(37, 91, 8, 2), Params::default_bytes).filled(FILLS),
        Case::new("three_terms", &sizes(37, 91, 6, 3), Params::default_bytes).filled(FILLS),
        Case::new("vectors", &sizes(65, 150, 20, 8), Params::default_bytes).filled(FILLS),
        Case::new("no_edges", &sizes(9, 0, 8, 5), Params::default_bytes).filled(FILLS),
        Case::new("no_nodes", &sizes(0, 0, 8, 5), Params::default_bytes).filled(FILLS),
        Case::new(
            "grid_256x256",
            &[
                ("b", 1),
                ("h", 1),
                ("n", 65_536),
                ("s", 65_537),
                ("z", 261_120),
                ("v", 326_656),
                ("k", 20),
                ("c", 64),
            ],
            || Params { longest: 4 }.to_bytes(),
        )
        .filled(GRID)
        .resized(|d| csr::square_grid(d).map(|()| Params { longest: 4 }.to_bytes()))
        .for_bench(),
    ],
    vjp: None,
};
