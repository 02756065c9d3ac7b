//! Sums of rows that a list names: `y[i]` = Σ_z `weights[z]` `x[columns[z]]` + `prev[i]`, from n rows to m others.
//!
//! * `starts` `[m + 1]`, `columns` `[z]`, `weights` `[z]` (1 without them): row i lists places `starts[i]` to `starts[i + 1]`. Places past the
//!   lists and columns that are no row give nothing.
//! * `x` `[b, h, n, c]`, `prev` and `y` `[b, h, m, c]`. All heads share the lists.
//! * `longest`: entries of the longest row, 0 = not known. One thread walks a row: [`hankel`](super::hankel) splits long ones.
//!
//! Histograms by depth, and what nodes read from them; [`spmm`](crate::kernels::graph::spmm) does the same for square operators.

use crate::error::Result;
use crate::kernel::wgsl_module::{GROUP, Shared};
use crate::kernel::*;
use crate::kernels::tree::layout::{VECTORS, WORDS};
use crate::tensor::{DType, Dims, HostData};
use crate::{cuda_shared, cuda_source, params, reference};

params! {
    /// Parameters of [`SPEC`].
    pub struct Params {
        /// entries of the longest row, 0 = not known
        fixed longest: u32 = 0,
    }
}

fn check(d: &Dims, params: &[u8]) -> std::result::Result<(), String> {
    let (m, s, z) = (d.size("m"), d.size("s"), d.size("z"));
    if u64::from(s) != u64::from(m) + 1 {
        return Err(format!("`starts` has a place more than the {m} rows of `y`, got {s}"));
    }
    let longest = Params::from_bytes(params).longest;
    if longest > z {
        return Err(format!("longest is the entries of one row, at most all {z}, got {longest}"));
    }
    Ok(())
}

fn reference<T: Real>(args: &mut HostArgs<T>) -> Result<()> {
    let [n, m, c, z] = ["n", "m", "c", "z"].map(|x| args.dims.at(x));
    let (starts, columns, x) = (args.words("starts"), args.words("columns"), args.real("x"));
    let (weights, prev) = (args.real_if("weights"), args.real_if("prev"));
    let y = reference::rows(args.dims.batches() as usize, m, c, |batch, i, line| {
        let last = (starts[i + 1] as usize).min(z);
        for place in (starts[i] as usize).min(last)..last {
            let column = columns[place] as usize;
            if column < n {
                let weight = weights.as_ref().map_or(T::one(), |w| w[place]);
                let row = &x[(batch * n + column) * c..][..c];
                line.iter_mut().zip(row).for_each(|(y, x)| *y += weight * *x);
            }
        }
        if let Some(prev) = &prev {
            line.iter_mut().zip(&prev[(batch * m + i) * c..]).for_each(|(y, p)| *y += *p);
        }
    });
    args.set("y", y);
    Ok(())
}

fn walkable(d: &Dims, params: &[u8], caps: &Caps) -> bool {
    let longest = Params::from_bytes(params).longest;
    u64::from(if longest == 0 { d.size("z") } else { longest }) <= caps.loop_rounds
}

fn words(d: &Dims, per: f64) -> Loads {
    let [m, z, c] = ["m", "z", "c"].map(|x| f64::from(d.size(x)));
    Loads { storage: z * c + m * c + per * 2.0 * (z + m), ..Loads::default() }
}

fn groups(d: &Dims, batches: u64, lanes: u32) -> u64 {
    batches * (u64::from(d.size("m")) * u64::from(d.size("c") / lanes)).div_ceil(64)
}

const fn variant(shared: &'static [&'static Shared]) -> Variant {
    Variant {
        suits: walkable,
        ..Variant::only(
            "tree/tree_gather.wgsl",
            include_str!("../../../shaders/tree/tree_gather.wgsl"),
            shared,
            |d, batches| groups(d, batches, 1),
            |d, _| words(d, f64::from(d.size("c"))),
        )
    }
}

static VARIANTS: &[Variant] = &[
    Variant {
        name: "vectors",
        vec4: &["x", "prev", "y"],
        suits: |d, p, caps| d.size("c").is_multiple_of(4) && d.size("c") > 0 && walkable(d, p, caps),
        grid: |d, batches| groups(d, batches, 4),
        loads: |d, _| words(d, f64::from(d.size("c") / 4)),
        ..variant(&[GROUP, VECTORS])
    },
    variant(&[GROUP, WORDS]),
];

/// A thread takes four channels, or one.
const fn source(fours: bool) -> cuda::Source {
    fn blocks(d: &Dims, _: &[u8], lanes: u32) -> u64 {
        d.batches() * (u64::from(d.size("m")) * u64::from(d.size("c") / lanes)).div_ceil(128)
    }
    let words = cuda::Source {
        constants: |_| vec![("FOUR", Constant::Bool(false))],
        ..cuda_source!("tree/tree_gather.cu", 128, |d, p| blocks(d, p, 1))
    }
    .with(&[cuda::VECTORS, cuda_shared!("shared/items.cuh"), cuda_shared!("graph/sparse.cuh")]);
    match fours {
        false => words,
        true => cuda::Source {
            name: "vectors",
            vec4: &["x", "prev", "y"],
            constants: |_| vec![("FOUR", Constant::Bool(true))],
            suits: |d, _| d.size("c").is_multiple_of(4) && d.size("c") > 0,
            blocks: |d, p| blocks(d, p, 4),
            ..words
        },
    }
}

/// Rows of a made-up list: 0 to 4 entries, the rest in the last.
fn some_starts(d: &Dims) -> HostData {
    let (m, z) = (d.size("m"), d.size("z"));
    HostData::U32((0..=m).map(|i| if i == m { z } else { (2 * i + i % 3).min(z) }).collect())
}

fn some_columns(d: &Dims) -> HostData {
    let n = d.size("n").max(1);
    HostData::U32((0..d.size("z")).map(|e| (e * 7 + e / 5) % n).collect())
}

fn bad_starts(d: &Dims) -> HostData {
    let one = |i: u32| [0, u32::MAX, 3, d.size("z") + i][i as usize % 4];
    HostData::U32((0..d.size("s")).map(one).collect())
}

fn bad_columns(d: &Dims) -> HostData {
    let n = d.size("n");
    HostData::U32((0..d.size("z")).map(|e| [e % n, n, u32::MAX][e as usize % 3]).collect())
}

const FILLS: &[(&str, Fill)] =
    &[("starts", Fill::Made(some_starts)), ("columns", Fill::Made(some_columns))];
const BAD: &[(&str, Fill)] = &[("starts", Fill::Made(bad_starts)), ("columns", Fill::Made(bad_columns))];

const fn sizes(n: u32, m: u32, z: u32, c: u32) -> [(&'static str, u32); 7] {
    [("b", 2), ("h", 2), ("n", n), ("m", m), ("s", m + 1), ("z", z), ("c", c)]
}

/// The kernel's description.
pub static SPEC: KernelSpec = KernelSpec {
    name: "tree_gather",
    family: "tree",
    formula: "y[i] = Σ_z weights[z] x[columns[z]] + prev[i], z in row i",
    source: "definition",
    ports: &[
        Port::read("starts", &["s"]).of(DType::U32),
        Port::read("columns", &["z"]).of(DType::U32),
        Port::read("weights", &["z"]).optional(),
        Port::read("x", &["b", "h", "n", "c"]),
        Port::read("prev", &["b", "h", "m", "c"]).optional(),
        Port::write("y", &["b", "h", "m", "c"]),
    ],
    params: Params::FIELDS,
    defaults: Params::default_bytes,
    output_dims: Some(|d, _| d.set("m", d.size("s").saturating_sub(1))),
    check,
    wgpu: OnWgpu::Shader(VARIANTS),
    cuda: OnCuda::Source(&[source(true), source(false)]),
    reference: reference!(reference),
    window: whole_heads,
    cost: |d, _| {
        let [m, z, c] = ["m", "z", "c"].map(|x| f64::from(d.size(x)));
        let batches = d.batches() as f64;
        Cost {
            flop: batches * c * (2.0 * z + m),
            exp: 0.0,
            stores: batches * m * c,
            bytes: 4.0 * (batches * (z + 2.0 * m) * c + 2.0 * z + m),
            ..Cost::default()
        }
    },
    tolerance: Tolerance::SUMS,
    cases: &[
        Case::new(
            "smallest",
            &[("b", 1), ("h", 1), ("n", 1), ("m", 1), ("s", 2), ("z", 1), ("c", 1)],
            Params::default_bytes,
        )
        .filled(FILLS),
        Case::new("odd", &sizes(37, 21, 50, 5), Params::default_bytes).filled(FILLS),
        Case::new("vectors", &sizes(30, 65, 200, 12), Params::default_bytes).filled(FILLS),
        Case::new("only_sums", &sizes(37, 21, 50, 4), Params::default_bytes)
            .without(&["weights", "prev"])
            .filled(FILLS),
        Case::new("bad_indices", &sizes(21, 30, 50, 8), Params::default_bytes).filled(BAD),
        Case::new("no_entries", &sizes(9, 5, 0, 3), Params::default_bytes).filled(FILLS),
        Case::new("no_rows", &sizes(9, 0, 0, 4), Params::default_bytes).filled(FILLS),
        Case::new(
            "rows_1000000x8",
            &[("b", 1), ("h", 1), ("n", 500_000), ("m", 1_000_000), ("s", 1_000_001), ("z", 2_000_000), ("c", 8)],
            || Params { longest: 4 }.to_bytes(),
        )
        .without(&["weights", "prev"])
        .filled(FILLS)
        .for_bench(),
    ],
    vjp: None,
};
