//! The weights that chosen queries give to all keys under a mask of relative positions: the attention map of a clicked pixel.
//!
//! * `q`, `k`, `table`, `key_mask`, `segment` as in [`relative_attention`](super::relative_attention).
//! * `rows` `[c]`: the queries, the same for all heads; a number past the last token gives zeros.
//! * `out` `[b, h, n, c]`: key-major, as in the other maps; keys that are left out or not seen have 0.

use super::relative::{self, Operands, RELATIVE, RELATIVE_ROW, check_grid};
use super::relative_attention::segments;
use crate::error::Result;
use crate::kernel::wgsl_module::GROUP;
use crate::kernel::*;
use crate::tensor::{DType, Dims, HostData};
use crate::{cuda_shared, cuda_source, params, reference};

params! {
    /// Parameters of [`SPEC`]: those of [`relative::Params`] and what the weights are divided by.
    pub struct Params {
        /// first side of the grid
        live n1: u32 = 1,
        /// second side
        live n2: u32 = 1,
        /// third side, or the longest segment; 0 = all tokens that are not global
        live n3: u32 = 0,
        /// global tokens in front of the grid
        live globals: u32 = 0,
        /// first place of the first axis with an entry that is not 0
        live first1: u32 = 0,
        /// last such place; places past the table's end mean its end
        live last1: u32 = u32::MAX,
        /// first such place of the second axis
        live first2: u32 = 0,
        /// last such place of the second axis
        live last2: u32 = u32::MAX,
        /// first such place of the third axis
        live first3: u32 = 0,
        /// last such place of the third axis
        live last3: u32 = u32::MAX,
        /// axes whose ends meet: the sum of 1 for the first, 2 for the second, 4 for the third
        fixed torus: u32 = 0,
        /// 0 = divided by their sum, 1 = as they are
        fixed raw: u32 = 0,
    }
}

impl Params {
    /// The map of this grid.
    pub fn of(grid: relative::Params, raw: bool) -> Self {
        let relative::Params { n1, n2, n3, globals, first1, last1, first2, last2, first3, last3, torus } =
            grid;
        Self { n1, n2, n3, globals, first1, last1, first2, last2, first3, last3, torus, raw: u32::from(raw) }
    }

    pub(super) fn grid(self) -> relative::Params {
        let Self { n1, n2, n3, globals, first1, last1, first2, last2, first3, last3, torus, raw: _ } = self;
        relative::Params { n1, n2, n3, globals, first1, last1, first2, last2, first3, last3, torus }
    }
}

pub(super) fn check(dims: &Dims, params: &[u8]) -> std::result::Result<(), String> {
    let p = Params::from_bytes(params);
    if p.raw > 1 {
        return Err(format!("raw is 0 or 1, got {}", p.raw));
    }
    check_grid(dims, &p.grid())
}

fn reference<T: Real>(args: &mut HostArgs<T>) -> Result<()> {
    let p: Params = args.params();
    let operands = Operands::of(args, &p.grid());
    write_rows(args, p.raw == 1, |args, batch, row, _| operands.weights(args, batch, row))
}

/// Writes the rows whose weights `weights(args, batch, row, number)` tells, divided by their sums unless `raw`.
pub(super) fn write_rows<T: Real>(
    args: &mut HostArgs<T>,
    raw: bool,
    weights: impl Fn(&HostArgs<T>, usize, usize, usize) -> Vec<(usize, T)>,
) -> Result<()> {
    let rows = args.words("rows");
    let (n, c) = (args.dims.at("n"), args.dims.at("c"));
    let mut out = vec![T::zero(); args.dims.batches() as usize * n * c];
    for batch in 0..args.dims.batches() as usize {
        for (number, &row) in rows.iter().enumerate().filter(|(_, row)| (**row as usize) < n) {
            let weights = weights(args, batch, row as usize, number);
            let total: T = weights.iter().map(|(_, w)| *w).sum();
            let divisor = if raw || total == T::zero() { T::one() } else { total };
            for (j, weight) in weights {
                out[(batch * n + j) * c + number] = weight / divisor;
            }
        }
    }
    args.set("out", out);
    Ok(())
}

fn pairs(dims: &Dims) -> f64 {
    f64::from(dims.size("n")) * f64::from(dims.size("c"))
}

pub(super) fn some_rows(dims: &Dims) -> HostData {
    let (n, c) = (dims.size("n"), dims.size("c"));
    HostData::U32((0..c).map(|i| if i == 4 { n } else { i * 7 % n }).collect())
}

const fn sizes(n: u32, r: u32, t: u32, c: u32) -> [(&'static str, u32); 7] {
    [("b", 2), ("h", 2), ("n", n), ("r", r), ("tables", 2), ("t", t), ("c", c)]
}

const FILLS: [(&str, Fill); 4] = [
    ("q", Fill::Uniform(0.0, 1.0)),
    ("k", Fill::Uniform(0.0, 1.0)),
    ("table", Fill::Uniform(0.1, 1.0)),
    ("rows", Fill::Made(some_rows)),
];
const NO_MASKS: &[&str] = &["key_mask", "segment"];

/// The kernel's description.
pub static SPEC: KernelSpec = KernelSpec {
    name: "relative_map",
    family: "mask",
    formula: "out[j,l] = T[i−j] ⟨q[i],k[j]⟩ / Σⱼ T[i−j] ⟨q[i],k[j]⟩ for i = rows[l], or without the division",
    source: "Choromanski et al., arXiv 2107.07999: block-Toeplitz masks, by definition",
    ports: &[
        Port::read("q", &["b", "h", "n", "r"]),
        Port::read("k", &["b", "h", "n", "r"]),
        Port::read("table", &["tables", "t"]).optional(),
        Port::read("key_mask", &["b", "h", "n"]).of(DType::U8).broadcast().optional(),
        Port::read("segment", &["s", "2"]).of(DType::U32).optional(),
        Port::read("rows", &["c"]).of(DType::U32),
        Port::write("out", &["b", "h", "n", "c"]),
    ],
    params: Params::FIELDS,
    defaults: Params::default_bytes,
    output_dims: None,
    check,
    wgpu: OnWgpu::Shader(&[Variant::only(
        "mask/relative_map.wgsl",
        include_str!("../../../shaders/mask/relative_map.wgsl"),
        &[GROUP, RELATIVE, RELATIVE_ROW],
        |d, batches| batches * u64::from(d.size("c")),
        |d, _| Loads { storage: pairs(d) * (f64::from(2 * d.size("r")) + 2.0), ..Loads::default() },
    )
    .rounds(|d| u64::from(d.size("n").div_ceil(256)) * (2 + u64::from(d.size("r").div_ceil(4))) + 8)]),
    cuda: OnCuda::Source(&[cuda_source!("mask/relative_map.cu", 256, |d, _| d.batches() * u64::from(d.size("c"))).with(&[cuda_shared!("mask/relative.cuh"), cuda_shared!("mask/relative_row.cuh")])]),
    reference: reference!(reference),
    window: whole_heads,
    cost: |d, _| {
        let words = d.batches() as f64 * pairs(d);
        let r = f64::from(d.size("r"));
        Cost { flop: words * (2.0 * r + 3.0), exp: 0.0, stores: 2.0 * words, bytes: 4.0 * words * (r + 2.0), ..Cost::default() }
    },
    tolerance: Tolerance::SUMS,
    cases: &[
        Case::new(
            "smallest",
            &[("b", 1), ("h", 1), ("n", 1), ("r", 1), ("tables", 1), ("t", 1), ("c", 1)],
            Params::default_bytes,
        )
        .without(NO_MASKS)
        .filled(&FILLS),
        Case::new("odd", &sizes(269, 5, 537, 3), Params::default_bytes).without(&["segment"]).filled(&FILLS),
        Case::new("raw", &sizes(65, 8, 129, 6), || Params { raw: 1, ..Params::default() }.to_bytes())
            .without(NO_MASKS)
            .filled(&FILLS),
        Case::new("window", &sizes(201, 8, 19 * 39, 6), || {
            Params {
                n2: 10,
                n3: 20,
                globals: 1,
                first2: 8,
                last2: 10,
                first3: 17,
                last3: 21,
                ..Params::default()
            }
            .to_bytes()
        })
        .without(NO_MASKS)
        .filled(&FILLS),
        Case::new("torus", &sizes(60, 3, 60, 7), || {
            Params { n2: 6, n3: 10, torus: 6, ..Params::default() }.to_bytes()
        })
        .without(&["segment"])
        .filled(&FILLS),
        Case::new(
            "packed",
            &[("b", 1), ("h", 2), ("n", 50), ("r", 4), ("tables", 2), ("t", 59), ("s", 50), ("c", 9)],
            || Params { n3: 30, ..Params::default() }.to_bytes(),
        )
        .without(&["key_mask"])
        .filled(&[FILLS[0], FILLS[1], FILLS[2], FILLS[3], ("segment", Fill::Made(segments))]),
        Case::new("no_key", &sizes(33, 4, 65, 2), Params::default_bytes).without(&["segment"]).filled(&[
            FILLS[0],
            FILLS[1],
            FILLS[2],
            FILLS[3],
            ("key_mask", Fill::Value(0.0)),
        ]),
        Case::new("no_row", &sizes(33, 4, 65, 0), Params::default_bytes).without(NO_MASKS).filled(&FILLS),
        Case::new(
            "one_of_4096",
            &[("b", 1), ("h", 8), ("n", 4096), ("r", 32), ("tables", 8), ("t", 8191), ("c", 1)],
            Params::default_bytes,
        )
        .without(NO_MASKS)
        .filled(&FILLS)
        .resized(|d| {
            d.set("t", resize::offsets(&[d.size("n")])?);
            Ok(Params::default_bytes())
        })
        .for_bench(),
    ],
    vjp: None,
};
