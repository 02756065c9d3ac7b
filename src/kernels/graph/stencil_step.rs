//! One term of a Chebyshev expansion on a grid in two dimensions, without index arrays: every node has four or eight neighbours.
//!
//! T_k = 2 S T_{k−1} − T_{k−2} (without `prev`: S T_{k−1}; for term 0: `cur` itself), `sum_out` = `sum_in` + c_k T_k;
//! (S x)`[i]` = `diagonal[i]` `x[i]` + Σ_slot `w[i, slot]` `x`[neighbour of i in that slot].
//!
//! * `cur` = T_{k−1}, `prev` = T_{k−2}, `next` = T_k, `sum_in`, `sum_out` `[b, h, rows, cols, c]`, nodes in raster order.
//!   Without `sum_in` the sum begins with c_{k−1} `cur`, which is right for terms 0 (nothing before it) and 1.
//! * `w` `[rows, cols, e]`, e = 4 or 8: slots left, right, above, below, then above left, above right, below left, below right.
//!   Without it every edge weighs `edge`. Slots that lead out of the grid are ignored; on a torus they lead to the other side (along a
//!   side of 1 to the node itself, along a side of 2 both to the same node: each slot counts).
//! * `diagonal` `[rows, cols]`; without it `centre`. `coefficients` `[k]`: c_0 … of the whole expansion, at most 16 384.
//!
//! A term costs one read of `prev` and `sum_in`, a good three of `cur` and two stores. Deterministic: gathers in a fixed order.

use super::steps::{self, COEFFICIENT, Columns, TEXTURE_BYTES};
use crate::error::Result;
use crate::kernel::wgsl_module::{GROUP, TEXELS};
use crate::kernel::*;
use crate::tensor::Dims;
use crate::{cuda_shared, cuda_source, params, reference};

params! {
    /// Parameters of [`SPEC`].
    pub struct Params {
        /// which term: 0 copies `cur`
        live term: u32 = 2,
        /// weight of every edge where `w` is left out
        live edge: f32 = 1.0,
        /// diagonal of S where `diagonal` is left out
        live centre: f32 = 0.0,
        /// 4 or 8
        fixed neighbours: u32 = 4,
        /// 1: opposite sides are neighbours
        fixed torus: u32 = 0,
    }
}

/// Nodes of a row of the grid that one thread walks along.
const LINES: u32 = 8;
/// Rows and columns by which each slot leads away.
pub const SLOTS: [(i32, i32); 8] = [(0, -1), (0, 1), (-1, 0), (1, 0), (-1, -1), (-1, 1), (1, -1), (1, 1)];

fn check(d: &Dims, params: &[u8]) -> std::result::Result<(), String> {
    let p = Params::from_bytes(params);
    if ![4, 8].contains(&p.neighbours) || p.torus > 1 {
        return Err(format!("neighbours is 4 or 8, torus 0 or 1; got {}, {}", p.neighbours, p.torus));
    }
    if d.find("e").is_some_and(|e| e != p.neighbours) {
        return Err(format!("`w` has a weight for each of {} neighbours, got {}", p.neighbours, d.size("e")));
    }
    steps::check_term(d, p.term)
}

fn reference<T: Real>(args: &mut HostArgs<T>) -> Result<()> {
    let p: Params = args.params();
    let (w, diagonal) = (args.real_if("w"), args.real_if("diagonal"));
    let (rows, cols) = (i64::from(args.dims.size("rows")), i64::from(args.dims.size("cols")));
    let c = args.dims.at("c");
    let all = Columns { cur: (c, 0), prev: (c, 0), sum: (c, 0), width: c };
    steps::reference(args, (rows * cols) as usize, p.term, all, |i, visit| {
        visit(i, diagonal.as_ref().map_or(T::of(p.centre.into()), |d| d[i]));
        let (row, col) = (i as i64 / cols, i as i64 % cols);
        for (slot, (down, along)) in SLOTS.into_iter().enumerate().take(p.neighbours as usize) {
            let (r, c) = (row + i64::from(down), col + i64::from(along));
            if p.torus == 1 || ((0..rows).contains(&r) && (0..cols).contains(&c)) {
                let j = r.rem_euclid(rows) * cols + c.rem_euclid(cols);
                let given = w.as_ref().map(|w| w[i * p.neighbours as usize + slot]);
                visit(j as usize, given.unwrap_or_else(|| T::of(p.edge.into())));
            }
        }
    });
    Ok(())
}

fn nodes(d: &Dims) -> u64 {
    u64::from(d.size("rows")) * u64::from(d.size("cols"))
}

fn words(d: &Dims) -> f64 {
    nodes(d) as f64 * f64::from(d.size("c"))
}

/// Words of `cur` that a whole step loads: three vectors a node, three to five before the first.
fn walked(d: &Dims) -> f64 {
    words(d) * (3.0 + 5.0 / f64::from(LINES))
}

/// Words beside `cur` that a whole step loads: the term and the sum before, and a row of S for every four channels.
fn beside(d: &Dims) -> f64 {
    words(d) * (2.0 + f64::from(d.size("e") + 1) / 4.0)
}

fn whole_vectors(d: &Dims) -> bool {
    d.size("c").is_multiple_of(4) && d.size("c") > 0
}

const fn along(
    name: &'static str,
    preferred_on: &'static [Driver],
    suits: fn(&Dims, &[u8], &Caps) -> bool,
) -> Variant {
    Variant {
        name,
        file: "graph/stencil_step.wgsl",
        body: include_str!("../../../shaders/graph/stencil_step.wgsl"),
        shared: &[GROUP, COEFFICIENT],
        preferred_on,
        classes: &[("coefficients", Class::Uniform)],
        vec4: &["cur", "prev", "sum_in", "w", "next", "sum_out"],
        constants: |_| vec![("LINES", Constant::U32(LINES))],
        suits,
        grid: |d, batches| {
            let tiles = u64::from(d.size("rows")) * u64::from(d.size("cols").div_ceil(LINES));
            batches * (tiles * u64::from(d.size("c") / 4)).div_ceil(64)
        },
        loads: |d, _| Loads { storage: walked(d) + beside(d), ..Loads::default() },
        rounds: few_rounds,
        subgroup_lanes: 0,
    }
}

static VARIANTS: &[Variant] = &[
    along("vectors", &[Driver::Gpu], |d, _, _| whole_vectors(d)),
    Variant {
        file: "graph/stencil_step_texture.wgsl",
        body: include_str!("../../../shaders/graph/stencil_step_texture.wgsl"),
        shared: &[GROUP, TEXELS, COEFFICIENT],
        classes: &[("cur", Class::Texture), ("coefficients", Class::Uniform)],
        grid: |d, batches| batches * (nodes(d) * u64::from(d.size("c").div_ceil(16))).div_ceil(64),
        loads: |d, _| {
            // A row of S for every sixteen channels.
            let rows = nodes(d) as f64 * f64::from(d.size("c").div_ceil(16)) * f64::from(d.size("e") + 1);
            Loads {
                texture: words(d) * f64::from(d.size("e") + 1),
                storage: 2.0 * words(d) + rows,
                ..Loads::default()
            }
        },
        ..along("texture", &[Driver::Llvmpipe, Driver::SwiftShader], |d, _, _| {
            whole_vectors(d) && 4 * nodes(d) * u64::from(d.size("c")) <= TEXTURE_BYTES
        })
    },
    Variant {
        name: "plain",
        preferred_on: &[Driver::Gpu, Driver::Llvmpipe, Driver::SwiftShader],
        classes: &[("coefficients", Class::Uniform)],
        ..Variant::only(
            "graph/stencil_step_plain.wgsl",
            include_str!("../../../shaders/graph/stencil_step_plain.wgsl"),
            &[GROUP, COEFFICIENT],
            |d, batches| batches * (nodes(d) * u64::from(d.size("c"))).div_ceil(64),
            |d, _| Loads { storage: words(d) * (4.0 + 2.0 * f64::from(d.size("e"))), ..Loads::default() },
        )
    },
];

const fn sizes(rows: u32, cols: u32, c: u32, e: u32) -> [(&'static str, u32); 7] {
    [("b", 1), ("h", 2), ("rows", rows), ("cols", cols), ("c", c), ("e", e), ("k", 7)]
}

fn of(term: u32, neighbours: u32, torus: u32) -> Vec<u8> {
    Params { term, edge: 0.3, centre: -0.4, neighbours, torus }.to_bytes()
}

/// The kernel's description.
pub static SPEC: KernelSpec = KernelSpec {
    name: "stencil_step",
    family: "graph",
    formula: "next = 2 S cur − prev, sum_out = sum_in + c_k next, S the neighbours on a grid",
    source: "Chebyshev recurrence (Hammond et al. 2011, section 6), fused",
    ports: &[
        Port::read("cur", &["b", "h", "rows", "cols", "c"]),
        Port::read("prev", &["b", "h", "rows", "cols", "c"]).optional(),
        Port::read("sum_in", &["b", "h", "rows", "cols", "c"]).optional(),
        Port::read("w", &["rows", "cols", "e"]).optional(),
        Port::read("diagonal", &["rows", "cols"]).optional(),
        Port::read("coefficients", &["k"]),
        Port::write("next", &["b", "h", "rows", "cols", "c"]).optional(),
        Port::write("sum_out", &["b", "h", "rows", "cols", "c"]),
    ],
    params: Params::FIELDS,
    defaults: Params::default_bytes,
    output_dims: None,
    check,
    wgpu: OnWgpu::Shader(VARIANTS),
    cuda: OnCuda::Source(&[
        cuda::Source {
            name: "vectors",
            vec4: &["cur", "prev", "sum_in", "w", "next", "sum_out"],
            suits: |d, _| whole_vectors(d),
            ..cuda_source!("graph/stencil_step.cu", 256, |d, _| {
                let tiles = u64::from(d.size("rows")) * u64::from(d.size("cols").div_ceil(LINES));
                d.batches() * (tiles * u64::from(d.size("c") / 4)).div_ceil(256)
            })
            .with(&[cuda::VECTORS, cuda_shared!("shared/items.cuh")])
        },
        cuda_source!("graph/stencil_step_plain.cu", 256, |d, _| {
            d.batches() * (nodes(d) * u64::from(d.size("c"))).div_ceil(256)
        })
        .with(&[cuda_shared!("shared/items.cuh")]),
    ]),
    reference: reference!(reference),
    window: whole_heads,
    cost: |d, params| {
        let nodes = nodes(d) as f64;
        steps::cost(
            d,
            nodes,
            nodes * f64::from(1 + Params::from_bytes(params).neighbours),
            f64::from(d.size("c")),
        )
    },
    tolerance: Tolerance::SUMS,
    cases: &[
        Case::new(
            "smallest",
            &[("b", 1), ("h", 1), ("rows", 1), ("cols", 1), ("c", 1), ("e", 4), ("k", 3)],
            || of(2, 4, 0),
        ),
        Case::new(
            "smallest_vectors",
            &[("b", 1), ("h", 1), ("rows", 1), ("cols", 1), ("c", 4), ("e", 8), ("k", 3)],
            || of(2, 8, 1),
        ),
        Case::new(
            "odd",
            &[("b", 2), ("h", 3), ("rows", 11), ("cols", 7), ("c", 5), ("e", 8), ("k", 7)],
            || of(6, 8, 0),
        ),
        Case::new("odd_torus", &sizes(9, 13, 3, 4), || of(3, 4, 1)),
        Case::new(
            "vectors",
            &[("b", 2), ("h", 2), ("rows", 13), ("cols", 9), ("c", 12), ("e", 4), ("k", 7)],
            || of(4, 4, 0),
        ),
        Case::new("vectors_torus", &sizes(17, 5, 8, 8), || of(5, 8, 1)),
        Case::new("sides_of_two", &sizes(2, 2, 4, 8), || of(5, 8, 1)),
        Case::new("one_row", &sizes(1, 19, 8, 8), || of(3, 8, 0)),
        Case::new("one_column", &sizes(19, 1, 8, 4), || of(3, 4, 0)),
        Case::new("tile_minus_one", &sizes(7, 63, 4, 4), || of(3, 4, 0)),
        Case::new("tile_plus_one", &sizes(9, 65, 4, 8), || of(3, 8, 0)),
        Case::new("constant", &sizes(10, 11, 8, 4), || of(3, 4, 0)).without(&["w", "diagonal"]),
        Case::new("constant_words", &sizes(10, 11, 6, 8), || of(3, 8, 0)).without(&["w", "diagonal"]),
        Case::new("first", &sizes(10, 11, 8, 4), || of(1, 4, 0)).without(&["prev", "sum_in"]),
        Case::new("first_words", &sizes(10, 11, 7, 4), || of(1, 4, 0)).without(&["prev", "sum_in"]),
        Case::new("only", &sizes(10, 11, 8, 4), || of(0, 4, 0)).without(&["prev", "sum_in", "next"]),
        Case::new("only_words", &sizes(10, 11, 7, 4), || of(0, 4, 0)).without(&["prev", "sum_in", "next"]),
        Case::new("last", &sizes(10, 11, 8, 4), || of(6, 4, 0)).without(&["next"]),
        Case::new("no_rows", &sizes(0, 11, 8, 4), || of(6, 4, 0)),
        Case::new(
            "grid_512x512",
            &[("b", 1), ("h", 1), ("rows", 512), ("cols", 512), ("c", 64), ("e", 4), ("k", 20)],
            || of(4, 4, 0),
        )
        .for_bench(),
    ],
    vjp: None,
};
