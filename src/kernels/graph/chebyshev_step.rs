//! One term of a Chebyshev expansion in a sparse operator, fused with the sum.
//!
//! T_k = 2 S T_{k−1} − T_{k−2} (without `prev`: S T_{k−1}; for term 0: `cur` itself), `sum_out` = `sum_in` + c_k T_k.
//!
//! * `starts` `[n + 1]`, `columns` `[z]` as in [`spmm`](super::spmm); `weights` `[v]`: a number for each of the z edges (v = z), and
//!   behind them the diagonal of S (v = z + n). Without `weights` every edge weighs 1 and the diagonal is 0.
//! * `coefficients` `[k]`: c_0 … of the whole expansion, at most 16 384.
//! * `cur` = T_{k−1} `[b, h, n, c]`, `prev` = T_{k−2} `[b, h, n, p]`, `next` = T_k and `sum_in` `[b, h, n, m]`, `sum_out` `[b, h, n, q]`:
//!   the term is of m channels, which begin at `cur_from`, `prev_from` and `sum_from` of wider rows; the other columns of
//!   `sum_out` are left alone. One of `next` and `sum_in` must be there.
//! * Without `sum_in` the sum begins with c_{k−1} `cur`, which is right for terms 0 (nothing before it) and 1.
//!
//! A term costs one read of `prev` and `sum_in`, a gather of `cur`, and two stores.

use super::csr::{self, Arrays, ROW};
use super::steps::{self, COEFFICIENT, Columns, TEXTURE_BYTES};
use crate::error::Result;
use crate::kernel::wgsl_module::{GROUP, TEXELS};
use crate::kernel::*;
use crate::tensor::{DType, Dims};
use crate::{cuda_text, params, reference};

params! {
    /// Parameters of [`SPEC`].
    pub struct Params {
        /// which term: 0 copies `cur`
        live term: u32 = 2,
        /// first channel in `cur`
        live cur_from: u32 = 0,
        /// first channel in `prev`
        live prev_from: u32 = 0,
        /// first channel in `sum_out`
        live sum_from: u32 = 0,
        /// edges of the longest row, 0 = not known
        fixed longest: u32 = 0,
        /// 1: no first channel but a multiple of four
        fixed vectors: u32 = 1,
    }
}

fn check(d: &Dims, params: &[u8]) -> std::result::Result<(), String> {
    let p = Params::from_bytes(params);
    csr::check(d, p.longest)?;
    steps::check_term(d, p.term)?;
    let [n, z] = ["n", "z"].map(|x| u64::from(d.size(x)));
    if d.find("v").is_some_and(|v| ![z, z + n].contains(&u64::from(v))) {
        return Err(format!(
            "`weights` has {z} numbers for edges, and {n} of the diagonal behind them or none; got {}",
            d.size("v")
        ));
    }
    let Some(m) = d.find("m") else {
        return Err(
            "one of `next` and `sum_in` must be there: they say how many channels the term has".into()
        );
    };
    for (port, width, from) in
        [("cur", "c", p.cur_from), ("prev", "p", p.prev_from), ("sum_out", "q", p.sum_from)]
    {
        if d.find(width).is_some_and(|w| u64::from(from) + u64::from(m) > u64::from(w)) {
            return Err(format!(
                "`{port}` has {} channels, which do not hold {m} from {from} on",
                d.size(width)
            ));
        }
        if p.vectors == 1 && from % 4 != 0 {
            return Err(format!(
                "channels begin at a multiple of four where vectors = 1, got {from} for `{port}`"
            ));
        }
    }
    Ok(())
}

fn reference<T: Real>(args: &mut HostArgs<T>) -> Result<()> {
    let p: Params = args.params();
    let rows = Arrays::of(args);
    let (n, z) = (args.dims.at("n"), args.dims.at("z"));
    let part = |width: &str, from: u32| (args.dims.at(width), from as usize);
    let columns = Columns {
        cur: part("c", p.cur_from),
        prev: part("p", p.prev_from),
        sum: part("q", p.sum_from),
        width: args.dims.at("m"),
    };
    steps::reference(args, n, p.term, columns, |i, visit| {
        rows.row(i, visit);
        if let Some(d) = rows.weights.as_ref().and_then(|w| w.get(z + i)) {
            visit(i, *d);
        }
    });
    Ok(())
}

fn numbers(d: &Dims) -> (f64, f64, f64) {
    (f64::from(d.size("n")), f64::from(d.size("z")), f64::from(d.size("m")))
}

fn vectors(d: &Dims, params: &[u8]) -> bool {
    let whole = |name: &str| d.size(name).is_multiple_of(4);
    ["c", "p", "q", "m"].into_iter().all(whole) && d.size("m") > 0 && Params::from_bytes(params).vectors == 1
}

fn given(params: &[u8]) -> u32 {
    Params::from_bytes(params).longest
}

/// Words of cur, and words beside it, with `per` threads for a node's channels.
fn words(d: &Dims, per: f64) -> (f64, f64) {
    let (n, z, m) = numbers(d);
    ((z + n) * m, 2.0 * n * m + per * (2.0 * z + 2.0 * n) + n * m / 4.0)
}

fn groups(d: &Dims, batches: u64, channels: u32) -> u64 {
    batches * (u64::from(d.size("n")) * u64::from(d.size("m").div_ceil(channels))).div_ceil(64)
}

const fn rows(
    name: &'static str,
    preferred_on: &'static [Driver],
    constants: fn(&Dims) -> Vec<(&'static str, Constant)>,
    grid: fn(&Dims, u64) -> u64,
    loads: fn(&Dims, &[u8]) -> Loads,
) -> Variant {
    Variant {
        name,
        file: "graph/chebyshev_step_rows.wgsl",
        body: include_str!("../../../shaders/graph/chebyshev_step_rows.wgsl"),
        shared: &[GROUP, ROW, COEFFICIENT],
        preferred_on,
        classes: &[("coefficients", Class::Uniform)],
        vec4: &["cur", "prev", "sum_in", "next", "sum_out"],
        constants,
        suits: |d, p, caps| vectors(d, p) && csr::one_thread(d, given(p), caps),
        grid,
        loads,
        rounds: few_rounds,
        subgroup_lanes: 0,
    }
}

const fn rows4() -> Variant {
    rows(
        "rows4",
        &[Driver::Llvmpipe],
        |_| vec![("WIDTH", Constant::U32(4))],
        |d, batches| groups(d, batches, 16),
        |d, _| {
            let (x, beside) = words(d, f64::from(d.size("m").div_ceil(16)));
            Loads { storage: x + beside, ..Loads::default() }
        },
    )
}

static VARIANTS: &[Variant] = &[
    rows(
        "rows",
        &[Driver::Gpu],
        |_| vec![("WIDTH", Constant::U32(1))],
        |d, batches| groups(d, batches, 4),
        |d, _| {
            let (x, beside) = words(d, f64::from(d.size("m") / 4));
            Loads { storage: x + beside, ..Loads::default() }
        },
    ),
    rows4(),
    Variant {
        name: "texture",
        file: "graph/chebyshev_step_texture.wgsl",
        body: include_str!("../../../shaders/graph/chebyshev_step_texture.wgsl"),
        shared: &[GROUP, TEXELS, ROW, COEFFICIENT],
        preferred_on: &[Driver::SwiftShader],
        classes: &[("cur", Class::Texture), ("coefficients", Class::Uniform)],
        suits: |d, p, caps| {
            let bytes = 4 * u64::from(d.size("n")) * u64::from(d.size("c"));
            vectors(d, p) && csr::one_thread(d, given(p), caps) && bytes <= TEXTURE_BYTES
        },
        loads: |d, _| {
            let (x, beside) = words(d, f64::from(d.size("m").div_ceil(16)));
            Loads { texture: x, storage: beside, ..Loads::default() }
        },
        ..rows4()
    },
    Variant {
        classes: &[("coefficients", Class::Uniform)],
        suits: |d, p, caps| csr::one_thread(d, given(p), caps),
        ..Variant::only(
            "graph/chebyshev_step_plain.wgsl",
            include_str!("../../../shaders/graph/chebyshev_step_plain.wgsl"),
            &[GROUP, ROW, COEFFICIENT],
            |d, batches| groups(d, batches, 1),
            |d, _| {
                let (x, beside) = words(d, f64::from(d.size("m")));
                Loads { storage: x + beside, ..Loads::default() }
            },
        )
    },
    Variant {
        name: "split",
        classes: &[("coefficients", Class::Uniform)],
        suits: |d, p, caps| csr::many_threads(d, given(p), caps),
        ..Variant::only(
            "graph/chebyshev_step_split.wgsl",
            include_str!("../../../shaders/graph/chebyshev_step_split.wgsl"),
            &[GROUP, ROW, COEFFICIENT],
            |d, batches| batches * u64::from(d.size("n")) * u64::from(d.size("m").div_ceil(4)),
            |d, _| {
                let (x, beside) = words(d, f64::from(d.size("m").div_ceil(4)));
                Loads {
                    storage: x + beside,
                    workgroup: 64.0 * f64::from(d.size("n")) * f64::from(d.size("m")),
                    ..Loads::default()
                }
            },
        )
    },
];

struct ChebyshevStep;

impl csr::Gather for ChebyshevStep {
    const CHANNELS: &'static str = "m";

    fn vectors(d: &Dims, params: &[u8]) -> bool {
        vectors(d, params)
    }

    fn longest(params: &[u8]) -> u32 {
        given(params)
    }
}

static SOURCES: [cuda::Source; 4] = csr::sources::<ChebyshevStep>(
    "graph/chebyshev_step.cu",
    cuda_text!("graph/chebyshev_step.cu"),
    &["cur", "prev", "sum_in", "next", "sum_out"],
);

const fn sizes(n: u32, z: u32, c: u32) -> [(&'static str, u32); 11] {
    [
        ("b", 2),
        ("h", 2),
        ("n", n),
        ("s", n + 1),
        ("z", z),
        ("v", z + n),
        ("k", 7),
        ("c", c),
        ("p", c),
        ("m", c),
        ("q", c),
    ]
}

/// Four or more channels of wider rows.
const PARTS: [(&str, u32); 11] = [
    ("b", 1),
    ("h", 2),
    ("n", 23),
    ("s", 24),
    ("z", 60),
    ("v", 83),
    ("k", 7),
    ("c", 24),
    ("p", 16),
    ("m", 8),
    ("q", 8),
];

const FILLS: &[(&str, Fill)] =
    &[("starts", Fill::Made(csr::some_starts)), ("columns", Fill::Made(csr::some_columns))];
const BAD: &[(&str, Fill)] =
    &[("starts", Fill::Made(csr::bad_starts)), ("columns", Fill::Made(csr::bad_columns))];
const GRID: &[(&str, Fill)] =
    &[("starts", Fill::Made(csr::grid_starts)), ("columns", Fill::Made(csr::grid_columns))];

fn of(term: u32) -> Vec<u8> {
    Params { term, ..Params::default() }.to_bytes()
}

/// The kernel's description.
pub static SPEC: KernelSpec = KernelSpec {
    name: "chebyshev_step",
    family: "graph",
    formula: "next = 2 S cur − prev, sum_out = sum_in + c_k next, S sparse",
    source: "Chebyshev recurrence (Hammond et al. 2011, section 6), fused",
    ports: &[
        Port::read("starts", &["s"]).of(DType::U32),
        Port::read("columns", &["z"]).of(DType::U32),
        Port::read("weights", &["v"]).optional(),
        Port::read("coefficients", &["k"]),
        Port::read("cur", &["b", "h", "n", "c"]),
        Port::read("prev", &["b", "h", "n", "p"]).optional(),
        Port::read("sum_in", &["b", "h", "n", "m"]).optional(),
        Port::write("next", &["b", "h", "n", "m"]).optional(),
        Port::write("sum_out", &["b", "h", "n", "q"]),
    ],
    params: Params::FIELDS,
    defaults: Params::default_bytes,
    output_dims: Some(|d, _| {
        let m = d.find("m").unwrap_or(d.size("c"));
        d.set("m", m);
        d.set("q", m);
    }),
    check,
    wgpu: OnWgpu::Shader(VARIANTS),
    cuda: OnCuda::Source(&SOURCES),
    reference: reference!(reference),
    window: whole_heads,
    cost: |d, _| {
        let (n, z, m) = numbers(d);
        steps::cost(d, n, z + n, m)
    },
    tolerance: Tolerance::SUMS,
    cases: &[
        Case::new(
            "smallest",
            &[
                ("b", 1),
                ("h", 1),
                ("n", 1),
                ("s", 2),
                ("z", 1),
                ("v", 2),
                ("k", 3),
                ("c", 1),
                ("p", 1),
                ("m", 1),
                ("q", 1),
            ],
            || of(2),
        )
        .filled(FILLS),
        Case::new("odd", &sizes(37, 91, 5), || of(6)).filled(FILLS),
        Case::new("vectors", &sizes(41, 120, 12), || of(4)).filled(FILLS),
        Case::new("wide", &sizes(17, 40, 72), || of(3)).filled(FILLS),
        Case::new("tile_minus_one", &sizes(63, 150, 4), || of(3)).filled(FILLS),
        Case::new("tile_plus_one", &sizes(65, 150, 4), || of(3)).filled(FILLS),
        Case::new("first", &sizes(30, 77, 8), || of(1)).without(&["prev", "sum_in"]).filled(FILLS),
        Case::new("first_words", &sizes(30, 77, 7), || of(1))
            .without(&["weights", "prev", "sum_in"])
            .filled(FILLS),
        Case::new("only", &sizes(30, 77, 8), || of(0)).without(&["prev", "sum_in"]).filled(FILLS),
        Case::new("last", &sizes(30, 77, 8), || of(6)).without(&["next"]).filled(FILLS),
        Case::new("parts", &PARTS, || {
            Params { term: 2, cur_from: 12, prev_from: 4, ..Params::default() }.to_bytes()
        })
        .filled(FILLS),
        Case::new("parts_words", &PARTS, || {
            Params { term: 2, cur_from: 11, prev_from: 7, vectors: 0, ..Params::default() }.to_bytes()
        })
        .filled(FILLS),
        Case::new("no_edges", &sizes(9, 0, 8), || of(3)).filled(FILLS),
        Case::new("hub", &sizes(20, 3000, 8), || of(3)).filled(FILLS),
        Case::new("bad_indices", &sizes(21, 50, 8), || of(3)).filled(BAD),
        Case::new("bad_indices_words", &sizes(21, 50, 3), || of(3)).filled(BAD),
        Case::new("no_nodes", &sizes(0, 0, 8), || of(3)).filled(FILLS),
        Case::new(
            "grid_512x512",
            &[
                ("b", 1),
                ("h", 1),
                ("n", 262_144),
                ("s", 262_145),
                ("z", 1_046_528),
                ("v", 1_308_672),
                ("k", 20),
                ("c", 64),
                ("p", 64),
                ("m", 64),
                ("q", 64),
            ],
            || Params { longest: 4, ..Params::default() }.to_bytes(),
        )
        .filled(GRID)
        .resized(|d| csr::square_grid(d).map(|()| Params { longest: 4, ..Params::default() }.to_bytes()))
        .for_bench(),
    ],
    vjp: None,
};
