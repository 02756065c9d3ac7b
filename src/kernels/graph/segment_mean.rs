//! The mean over every graph of a batch: the readout of networks for whole graphs.
//!
//! `y[g]` = mean of `x[i]` over the nodes i from `offsets[g]` to `offsets[g + 1]`; zeros for a graph without nodes.
//!
//! * `x` `[b, h, n, c]`, `offsets` `[s]`, s = g + 1, ascending; `y` `[b, h, g, c]`.
//! * `largest`: nodes of the largest graph, 0 = not known; only drivers that cut loops short ask.

use crate::error::Result;
use crate::graph::Graph;
use crate::kernel::wgsl_module::GROUP;
use crate::kernel::*;
use crate::tensor::{DType, Dims, HostData, Tensor};
use crate::{cuda_source, params, reference};

params! {
    /// Parameters of [`SPEC`].
    pub struct Params {
        /// nodes of the largest graph, 0 = not known
        fixed largest: u32 = 0,
    }
}

fn check(d: &Dims, _: &[u8]) -> std::result::Result<(), String> {
    match u64::from(d.size("s")) == u64::from(d.size("g")) + 1 {
        true => Ok(()),
        false => Err(format!("`offsets` has an entry more than the {} graphs, got {}", d.size("g"), d.size("s"))),
    }
}

fn reference<T: Real>(args: &mut HostArgs<T>) -> Result<()> {
    let [n, c, g] = ["n", "c", "g"].map(|x| args.dims.at(x));
    let (x, offsets) = (args.real("x"), args.words("offsets"));
    let y = reference::rows(args.dims.batches() as usize, g, c, |batch, graph, line| {
        let last = (offsets[graph + 1] as usize).min(n);
        let first = (offsets[graph] as usize).min(last);
        for i in first..last {
            line.iter_mut().zip(&x[(batch * n + i) * c..]).for_each(|(sum, x)| *sum += *x);
        }
        let count = T::of((last - first).max(1) as f64);
        line.iter_mut().for_each(|y| *y /= count);
    });
    args.set("y", y);
    Ok(())
}

/// Most nodes that a thread adds up.
fn largest(d: &Dims, p: &[u8]) -> u64 {
    match Params::from_bytes(p).largest {
        0 => d.size("n").into(),
        known => known.into(),
    }
}

fn numbers(d: &Dims) -> u64 {
    u64::from(d.size("g")) * u64::from(d.size("c"))
}

static VARIANTS: &[Variant] = &[Variant {
    suits: |d, p, caps| largest(d, p) <= caps.loop_rounds,
    ..Variant::only(
        "graph/segment_mean.wgsl",
        include_str!("../../../shaders/graph/segment_mean.wgsl"),
        &[GROUP],
        |d, batches| batches * numbers(d).div_ceil(64),
        |d, _| Loads { storage: f64::from(d.size("n")) * f64::from(d.size("c")), ..Loads::default() },
    )
}];

/// Channels of a block: neighbouring threads take neighbouring ones.
fn line(d: &Dims) -> u32 {
    d.size("c").clamp(1, 32).next_power_of_two()
}

/// Graphs of 0, 1, 2, … nodes in turn, the last one with what is left.
fn some_offsets(d: &Dims) -> HostData {
    let (n, s) = (d.size("n"), d.size("s"));
    let mut list = vec![0; s as usize];
    for g in 1..s as usize {
        list[g] = if g + 1 == s as usize { n } else { (list[g - 1] + g as u32 % 5).min(n) };
    }
    HostData::U32(list)
}

/// Equal graphs.
fn equal_offsets(d: &Dims) -> HostData {
    HostData::U32((0..d.size("s")).map(|g| g * (d.size("n") / d.size("g").max(1))).collect())
}

const FILL: &[(&str, Fill)] = &[("offsets", Fill::Made(some_offsets))];

const fn sizes(n: u32, c: u32, g: u32) -> [(&'static str, u32); 6] {
    [("b", 2), ("h", 2), ("n", n), ("c", c), ("g", g), ("s", g + 1)]
}

/// The kernel's description.
pub static SPEC: KernelSpec = KernelSpec {
    name: "segment_mean",
    family: "graph",
    formula: "y[g] = mean of x[i] over the nodes of graph g",
    source: "definition",
    ports: &[
        Port::read("x", &["b", "h", "n", "c"]),
        Port::read("offsets", &["s"]).of(DType::U32),
        Port::write("y", &["b", "h", "g", "c"]),
    ],
    params: Params::FIELDS,
    defaults: Params::default_bytes,
    output_dims: Some(|d, _| d.set("g", d.size("s").saturating_sub(1))),
    check,
    wgpu: OnWgpu::Shader(VARIANTS),
    cuda: OnCuda::Source(&[cuda::Source {
        constants: |d| vec![("LINE", Constant::U32(line(d)))],
        ..cuda_source!("graph/segment_mean.cu", 256, |d, _| {
            d.batches() * u64::from(d.size("g")) * u64::from(d.size("c").div_ceil(line(d)))
        })
    }]),
    reference: reference!(reference),
    window: whole_heads,
    cost: |d, _| {
        let read = d.batches() as f64 * f64::from(d.size("n")) * f64::from(d.size("c"));
        let stores = d.batches() as f64 * numbers(d) as f64;
        Cost { flop: read, exp: 0.0, stores, bytes: 4.0 * (read + stores), ..Cost::default() }
    },
    tolerance: Tolerance::SUMS,
    cases: &[
        Case::new(
            "smallest",
            &[("b", 1), ("h", 1), ("n", 1), ("c", 1), ("g", 1), ("s", 2)],
            Params::default_bytes,
        )
        .filled(FILL),
        Case::new("odd", &sizes(71, 5, 23), Params::default_bytes).filled(FILL),
        Case::new("more_numbers_than_a_group", &sizes(90, 9, 15), Params::default_bytes).filled(FILL),
        Case::new("no_nodes", &sizes(0, 4, 3), Params::default_bytes).filled(FILL),
        Case::new(
            "graphs_128_of_100",
            &[("b", 1), ("h", 1), ("n", 12_800), ("c", 64), ("g", 128), ("s", 129)],
            || Params { largest: 100 }.to_bytes(),
        )
        .filled(&[("offsets", Fill::Made(equal_offsets))])
        .resized(|d| match d.size("n").is_multiple_of(d.size("g")) {
            true => Ok(Params { largest: d.size("n") / d.size("g") }.to_bytes()),
            false => Err(format!("{} nodes do not make {} equal graphs", d.size("n"), d.size("g"))),
        })
        .for_bench(),
    ],
    vjp: None,
};

/// Records the means of `x` `[b, h, n, c]` over the graphs of `offsets` `[g + 1]`: `[b, h, g, c]`.
///
/// Errors: shapes that do not fit, with the caller's place.
#[track_caller]
pub fn record(graph: &mut Graph, x: Tensor, offsets: Tensor, largest: u32) -> Result<Tensor> {
    let graphs = offsets.dim(0).saturating_sub(1);
    let y = graph.transient("means of graphs", [x.dim(0), x.dim(1), graphs, x.dim(3)], DType::F32);
    graph.pass(&SPEC, &Params { largest }, &[Some(x), Some(offsets), Some(y)])?;
    Ok(y)
}
