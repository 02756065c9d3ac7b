//! Linear attention under a mask of relative positions, by the cheaper of two ways.
//!
//! out\[i\] = Σⱼ T[i − j] ⟨qᵢ, kⱼ⟩ vⱼ / Σⱼ T[i − j] ⟨qᵢ, kⱼ⟩ over the kept keys j (Choromanski et al. 2022, Algorithm 1).
//!
//! *Pair by pair* costs N² or, for windows, N times the support, and is accurate in every row. *By Fourier transforms* costs
//! N log N; its rounding noise is the same in every row, so rows whose denominator it could spoil are found on the device and
//! computed again pair by pair (method: topological masking, 1.7): no denominator is ever clamped. [`path`] says
//! which way is cheaper on a device; `path` forces one.
//!
//! * `q`, `k` `[b, h, n, r]` mapped queries and keys, `v` `[b, h, n, e]`, `table` `[1 or h, t]` for tokens on the grid n1 × n2 × n3 in
//!   raster order, t = (2 n1 − 1)(2 n2 − 1)(2 n3 − 1).
//!   Global tokens in front of the grid, and packed sequences told by `segment` `[n, 2]`, as in [`relative`]. Sequences go by
//!   transforms where the segments are a constant of the graph, so that they can be sorted by length.
//! * `key_mask`, `query_mask` `[b, h, n]`: 0 leaves a key out, whatever it holds; 0 makes a row zeros.
//! * `out` `[b, h, n, e]`, zeros where a row sees no key; `status` `[2]`: rows that were computed again, and rows in all (0 of all
//!   where all were computed pair by pair at once).

use super::fourier::{self, Task};
use super::path::{self, Path};
use super::relative::{self, Grid, Operands, check_grid, finish};
use super::relative_attention::segments;
use super::{relative_attention, toeplitz_attention_fused};
use crate::numbers::Short;
use crate::error::{Error, Result};
use crate::graph::{Expansion, Graph};
use crate::kernel::*;
use crate::kernels::elementwise::add_words;
use crate::kernels::laplacian::nystrom::{slice_heads, slices};
use crate::tensor::{DType, Dims, HostData, HostTensor, Tensor};
use crate::{params, reference};

params! {
    /// Parameters of [`SPEC`]: those of [`relative::Params`] without torus, the way, and the guard.
    pub struct Params {
        /// tokens along the first axis
        fixed n1: u32 = 1,
        /// tokens along the second axis
        fixed n2: u32 = 1,
        /// tokens along the last axis; 0 = all
        fixed n3: u32 = 0,
        /// global tokens in front of the grid
        fixed globals: u32 = 0,
        /// first place of the first axis with an entry that is not 0
        fixed first1: u32 = 0,
        /// last such place; places past the table's end mean its end
        fixed last1: u32 = u32::MAX,
        /// first such place of the second axis
        fixed first2: u32 = 0,
        /// last such place of the second axis
        fixed last2: u32 = u32::MAX,
        /// first such place of the third axis
        fixed first3: u32 = 0,
        /// last such place of the third axis
        fixed last3: u32 = u32::MAX,
        /// 0 = the cheaper way, 1 = pair by pair, 2 = by Fourier transforms, 3 = by such in workgroup memory, 4 = by such that pass
        /// over memory
        fixed path: u32 = 0,
        /// factor of the noise that the guard reckons with
        live safety: f32 = 1.0,
        /// noise that a denominator may have, relative to it
        live tau: f32 = 5e-5,
    }
}

impl Params {
    /// Of a grid with its support.
    pub fn of(grid: relative::Params, path: Path) -> Self {
        let relative::Params { n1, n2, n3, globals, first1, last1, first2, last2, first3, last3, .. } = grid;
        Self { n1, n2, n3, globals, first1, last1, first2, last2, first3, last3, path: path.number(), ..Self::default() }
    }

    /// The grid with its support.
    pub(super) fn grid(self) -> relative::Params {
        let Self { n1, n2, n3, globals, first1, last1, first2, last2, first3, last3, .. } = self;
        let torus = 0;
        relative::Params { n1, n2, n3, globals, first1, last1, first2, last2, first3, last3, torus }
    }

    /// Sides of the grid.
    fn sides(self, dims: &Dims) -> [u32; 3] {
        [self.n1, self.n2, if self.n3 == 0 { dims.size("n").saturating_sub(self.globals) } else { self.n3 }]
    }
}

fn check(dims: &Dims, params: &[u8]) -> std::result::Result<(), String> {
    let p = Params::from_bytes(params);
    if p.path > Path::Passes.number() {
        return Err(format!("path is 0, 1, 2, 3 or 4, got {}", p.path));
    }
    for (name, x) in [("safety", p.safety), ("tau", p.tau)] {
        if !(x.is_finite() && x > 0.0) {
            return Err(format!("{name} is a number above 0, got {}", Short(x)));
        }
    }
    check_grid(dims, &p.grid())?;
    // Sequences are transformed in classes, of which the longest may be as long as the line.
    let sides = p.sides(dims).map(|n| if dims.find("s").is_some() { n.checked_next_power_of_two().unwrap_or(n) } else { n });
    if p.path == Path::Fused.number() && toeplitz_attention_fused::places(sides).is_none() {
        return Err(format!(
            "transforms in workgroup memory hold {} places, too few for the grid {sides:?}: path is 0, 1, 2 or 4, got 3",
            toeplitz_attention_fused::MOST_PLACES
        ));
    }
    Ok(())
}

fn reference<T: Real>(args: &mut HostArgs<T>) -> Result<()> {
    let p: Params = args.params();
    let operands = Operands::of(args, &p.grid());
    let (v, asked) = (args.real("v"), args.words_if("query_mask"));
    let (n, e) = (args.dims.at("n"), args.dims.at("e"));
    let shared = &*args;
    let out = reference::rows(args.dims.batches() as usize, n, e, |batch, i, line| {
        if asked.as_ref().is_some_and(|m| m[shared.start("query_mask", batch) + i] == 0) {
            return;
        }
        let total = operands.attend(shared, batch, i, &v, line);
        finish(line, total);
    });
    let rows = args.dims.batches() as u32 * args.dims.size("n");
    args.set("out", out);
    args.set_words("status", vec![0, rows]);
    Ok(())
}

fn expand(x: &mut Expansion<'_>) -> Result<()> {
    let p: Params = x.params();
    let (segment, status) = (x.port_if("segment"), x.port_if("status"));
    let task = Task {
        q: x.port("q"),
        k: x.port("k"),
        v: x.port("v"),
        table: x.port("table"),
        key_mask: x.port_if("key_mask"),
        query_mask: x.port_if("query_mask"),
        out: x.port("out"),
    };
    let [b, h, n, r, e] = ["b", "h", "n", "r", "e"].map(|d| x.dims.size(d));
    // Sequences can be sorted into classes where their places are known already, as part of the graph.
    let known = segment.and_then(|s| x.graph.constant_numbers(s));
    let sequences = known.and_then(|words| match words.data() {
        HostData::U32(words) => fourier::sequences(words),
        _ => None,
    });
    if segment.is_some() && sequences.is_none() && p.path > Path::Pairs.number() {
        return Err(Error::value(
            "masked_attention: port `segment`",
            "a constant of the graph in which every row sees the whole of its own sequence",
            "another tensor",
            "force no way, or that pair by pair",
        ));
    }
    let sides = p.sides(x.dims);
    let (grids, pairs) = match &sequences {
        Some(list) => (fourier::grids(list), path::pairs_of_sequences(list, Grid::of(x.dims, &p.grid()).visits())),
        None => (vec![(sides, 1)], Grid::of(x.dims, &p.grid()).pairs()),
    };
    let plan = path::plan_of(x.caps, &grids, pairs, r, e);
    let nothing = x.dims.batches() == 0 || n == 0 || grids.is_empty() || sides.contains(&0);
    // Rows that are gathered are bound whole.
    let gathered = p.globals > 0 || segment.is_some();
    let places = sequences.as_ref().map_or(n, |list| n.max(fourier::places(list, 1)));
    let binding = x.caps.storage_binding.saturating_sub(u64::from(x.caps.storage_alignment));
    let gathered_bytes = 4 * u64::from(places) * u64::from(r.max(e + 1));
    let way = match p.path {
        _ if nothing => Path::Pairs,
        1 => Path::Pairs,
        2.. => Path::Fourier,
        _ if segment.is_some() && sequences.is_none() => Path::Pairs,
        _ if gathered && gathered_bytes > binding => Path::Pairs,
        _ => plan.chosen,
    };
    let rows = u32::try_from(x.dims.batches() * u64::from(n)).unwrap_or(u32::MAX);
    if way == Path::Pairs {
        let args =
            [Some(task.q), Some(task.k), Some(task.v), Some(task.table), task.key_mask, task.query_mask, segment, Some(task.out)];
        x.graph.pass(&relative_attention::SPEC, &p.grid(), &args)?;
        return status.map_or(Ok(()), |status| constant_words(x.graph, status, vec![0, rows]));
    }
    let job = fourier::Job { caps: *x.caps, params: p, sides, sequences: sequences.as_deref() };
    // The guard's lists name rows of whole slices; a slice holds sums, lists, what is computed again and what is gathered.
    let listed = 4 * u64::from(places) * (2 * u64::from(e) + 4);
    let per_head = if gathered { listed + 4 * gathered_bytes } else { listed };
    let budget = (x.caps.memory_budget / 2).min(if gathered { binding.saturating_mul(4) } else { u64::MAX });
    let mut statuses = Vec::new();
    match slices(b, h, per_head, budget) {
        None => statuses.extend(fourier::record(x.graph, &job, &task)?),
        Some(list) => {
            for (batch, heads) in list {
                let graph = &mut *x.graph;
                let mut part = task;
                let masks = part.key_mask.as_mut().into_iter().chain(part.query_mask.as_mut());
                for tensor in [&mut part.q, &mut part.k, &mut part.v, &mut part.out].into_iter().chain(masks) {
                    *tensor = slice_heads(graph, *tensor, batch, &heads)?;
                }
                if part.table.dim(0) > 1 {
                    part.table = graph.slice(part.table, 0, heads)?;
                }
                statuses.extend(fourier::record(graph, &job, &part)?);
            }
        }
    }
    let looked_at = sequences.map_or(rows, |list| fourier::places(&list, b * h));
    match status {
        Some(status) => add_counts(x.graph, &mut statuses, rows.wrapping_sub(looked_at), status),
        None => Ok(()),
    }
}

/// Writes numbers that are known at recording.
fn constant_words(graph: &mut Graph, out: Tensor, words: Vec<u32>) -> Result<()> {
    let shape = [u32::try_from(words.len()).unwrap_or(u32::MAX)];
    let known = graph.constant("counts", HostTensor::new(shape, HostData::U32(words))?);
    graph.pass(&add_words::SPEC, &params::NoParams {}, &[Some(known), None, Some(out)])?;
    Ok(())
}

/// Adds the counts of all slices and classes, and `more` rows to those that were looked at.
fn add_counts(graph: &mut Graph, parts: &mut Vec<Tensor>, more: u32, out: Tensor) -> Result<()> {
    if more > 0 || parts.is_empty() {
        parts.push(graph.constant("places of no row", HostTensor::new([2], HostData::U32(vec![0, more]))?));
    }
    let Some((last, before)) = parts.split_last() else { return Ok(()) };
    let mut sum = None;
    for &part in before {
        sum = Some(match sum {
            None => part,
            Some(sum) => {
                let next = graph.transient("counts", part.shape(), DType::U32);
                graph.pass(&add_words::SPEC, &params::NoParams {}, &[Some(sum), Some(part), Some(next)])?;
                next
            }
        });
    }
    graph.pass(&add_words::SPEC, &params::NoParams {}, &[Some(*last), sum, Some(out)])?;
    Ok(())
}

const fn sizes(b: u32, h: u32, n: u32, r: u32, e: u32, tables: u32, t: u32) -> [(&'static str, u32); 7] {
    [("b", b), ("h", h), ("n", n), ("r", r), ("e", e), ("tables", tables), ("t", t)]
}

fn with(n1: u32, n2: u32, n3: u32, path: Path) -> Vec<u8> {
    Params { n1, n2, n3, path: path.number(), ..Params::default() }.to_bytes()
}

const FILLS: [(&str, Fill); 3] =
    [("q", Fill::Uniform(0.1, 1.0)), ("k", Fill::Uniform(0.1, 1.0)), ("table", Fill::Uniform(0.1, 1.0))];

/// A causal table that falls so fast that most of the sums are small beside the noise.
fn steep(dims: &Dims) -> HostData {
    let n = dims.size("n") as i32;
    let weight = |o: i32| if o < 0 { 0.0 } else { (-2.0 * o as f32).exp() };
    HostData::F32((0..dims.size("tables")).flat_map(|_| (1 - n..n).map(weight)).collect())
}

/// Keys whose sizes differ by many orders.
fn uneven(dims: &Dims) -> HostData {
    let words = dims.batches() as usize * dims.at("n") * dims.at("r");
    HostData::F32((0..words).map(|i| 10_f32.powi(-((i / dims.at("r") % 9) as i32))).collect())
}

const NO_MASKS: &[&str] = &["key_mask", "query_mask", "segment"];

/// The kernel's description.
pub static SPEC: KernelSpec = KernelSpec {
    name: "masked_attention",
    family: "mask",
    formula: "out[i] = Σⱼ T[i−j] ⟨q[i],k[j]⟩ v[j] / Σⱼ T[i−j] ⟨q[i],k[j]⟩",
    source: "Choromanski et al. 2022, Algorithm 1",
    ports: &[
        Port::read("q", &["b", "h", "n", "r"]),
        Port::read("k", &["b", "h", "n", "r"]),
        Port::read("v", &["b", "h", "n", "e"]),
        Port::read("table", &["tables", "t"]),
        Port::read("key_mask", &["b", "h", "n"]).of(DType::U8).broadcast().optional(),
        Port::read("query_mask", &["b", "h", "n"]).of(DType::U8).broadcast().optional(),
        Port::read("segment", &["s", "2"]).of(DType::U32).optional(),
        Port::write("out", &["b", "h", "n", "e"]),
        Port::write("status", &["2"]).of(DType::U32).diagnostic().optional(),
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
        let pairs = Grid::of(d, &p.grid()).pairs();
        let [n, r, e] = ["n", "r", "e"].map(|name| f64::from(d.size(name)));
        let batches = d.batches() as f64;
        Cost {
            flop: batches * pairs * (2.0 * (r + e) + 2.0),
            exp: 0.0,
            stores: batches * n * e,
            bytes: 4.0 * batches * n * 2.0 * (r + e),
            ..Cost::default()
        }
    },
    tolerance: Tolerance {
        factor: 2.0,
        floor: 1e-5,
        reason: "transforms err by 1e-7 of the largest sum; the guard computes rows again where that is above 5e-5 · 0.11 of their own",
    },
    cases: &[
        Case::new("smallest", &sizes(1, 1, 1, 1, 1, 1, 1), || with(1, 1, 0, Path::Auto)).without(NO_MASKS).filled(&FILLS),
        Case::new("odd", &sizes(2, 3, 37, 5, 7, 3, 73), || with(1, 1, 0, Path::Auto)).without(&["segment"]).filled(&FILLS),
        Case::new("fourier_odd", &sizes(2, 3, 37, 5, 7, 3, 73), || with(1, 1, 0, Path::Fourier)).without(&["segment"]).filled(&FILLS),
        Case::new("fourier_one", &sizes(1, 2, 1, 3, 2, 1, 1), || with(1, 1, 0, Path::Fourier)).without(NO_MASKS).filled(&FILLS),
        Case::new("fourier_grid", &sizes(1, 2, 77, 4, 8, 1, 13 * 21), || with(1, 7, 11, Path::Fourier))
            .without(&["query_mask", "segment"])
            .filled(&FILLS),
        Case::new("fourier_3d", &sizes(1, 1, 120, 3, 5, 1, 7 * 11 * 9), || with(4, 6, 5, Path::Fourier))
            .without(NO_MASKS)
            .filled(&FILLS),
        Case::new("pairs_grid", &sizes(1, 2, 77, 4, 8, 2, 13 * 21), || with(1, 7, 11, Path::Pairs)).without(&["segment"]).filled(&FILLS),
        Case::new("noisy_rows", &sizes(1, 2, 200, 4, 6, 1, 399), || with(1, 1, 0, Path::Fourier))
            .without(NO_MASKS)
            .filled(&[FILLS[0], ("k", Fill::Made(uneven)), ("table", Fill::Made(steep))]),
        Case::new("no_key", &sizes(1, 2, 33, 4, 4, 1, 65), || with(1, 1, 0, Path::Fourier))
            .without(&["query_mask", "segment"])
            .filled(&[FILLS[0], FILLS[1], FILLS[2], ("key_mask", Fill::Value(0.0))]),
        Case::new("globals", &sizes(1, 2, 79, 4, 8, 1, 13 * 21), || {
            Params { n2: 7, n3: 11, globals: 2, ..Params::default() }.to_bytes()
        })
        .without(&["query_mask", "segment"])
        .filled(&FILLS),
        Case::new("fourier_globals", &sizes(2, 2, 79, 4, 7, 2, 13 * 21), || {
            Params { n2: 7, n3: 11, globals: 2, path: Path::Passes.number(), ..Params::default() }.to_bytes()
        })
        .without(&["segment"])
        .filled(&FILLS),
        Case::new("fused_globals", &sizes(2, 2, 79, 4, 7, 2, 13 * 21), || {
            Params { n2: 7, n3: 11, globals: 2, path: Path::Fused.number(), ..Params::default() }.to_bytes()
        })
        .without(&["segment"])
        .filled(&FILLS),
        Case::new("fused_odd", &sizes(2, 3, 37, 5, 7, 3, 73), || with(1, 1, 0, Path::Fused)).without(&["segment"]).filled(&FILLS),
        Case::new("fused_3d", &sizes(1, 1, 120, 3, 5, 1, 7 * 11 * 9), || with(4, 6, 5, Path::Fused))
            .without(NO_MASKS)
            .filled(&FILLS),
        Case::new(
            "packed",
            &[("b", 1), ("h", 2), ("n", 50), ("r", 4), ("e", 4), ("tables", 2), ("t", 59), ("s", 50)],
            || with(1, 1, 30, Path::Auto),
        )
        .without(&["key_mask", "query_mask"])
        .filled(&[FILLS[0], FILLS[1], FILLS[2], ("segment", Fill::Made(segments))]),
        Case::new("grid_64x64", &sizes(1, 1, 4096, 32, 32, 1, 127 * 127), || with(1, 64, 64, Path::Auto))
            .without(NO_MASKS)
            .filled(&FILLS)
            .resized(|d| {
                let [rows, cols] = resize::plane(d.size("n"));
                d.set("t", resize::offsets(&[rows, cols])?);
                Ok(with(1, rows, cols, Path::Auto))
            })
            .for_bench(),
    ],
    vjp: None,
};
