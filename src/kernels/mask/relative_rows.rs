//! Finished rows of [`relative_attention`](super::relative_attention) for a list of queries only: rows whose denominator the
//! Fourier path could not be trusted with, or a few that somebody asks for.
//!
//! * `q`, `k`, `v`, `table`, `key_mask`, `segment` as there.
//! * `list` `[w]`: how many rows, then (batch · h + head) · n + row of each; w = c + 1. [`noise_guard`](super::noise_guard)
//!   makes such lists.
//! * `dispatch` `[3]`: workgroups for the listed rows alone (⌈e / 32⌉ each), counted on the device. Without it there are some for
//!   every place of the list.
//! * `out` `[c, e]`: the listed rows in the list's order, zeros where the denominator is 0. Past the end of the list it holds zeros,
//!   or with `dispatch` anything.

use super::relative::{Grid, Operands, Params, RELATIVE, check_grid, finish};
use super::relative_attention::segments;
use crate::error::Result;
use crate::kernel::wgsl_module::GROUP;
use crate::kernel::*;
use crate::{cuda_shared, cuda_source, reference};
use crate::tensor::{DType, Dims, HostData};

/// Value columns of one workgroup.
pub const COLUMNS: u32 = 32;

fn check(dims: &Dims, params: &[u8]) -> std::result::Result<(), String> {
    check_grid(dims, &Params::from_bytes(params))?;
    let (w, c) = (dims.size("w"), dims.size("c"));
    if u64::from(w) != u64::from(c) + 1 {
        return Err(format!("`list` has {w} words; wants the count and c = {c} rows"));
    }
    Ok(())
}

fn reference<T: Real>(args: &mut HostArgs<T>) -> Result<()> {
    let operands = Operands::of(args, &args.params());
    let (v, list) = (args.real("v"), args.words("list"));
    let (n, e, c) = (args.dims.at("n"), args.dims.at("e"), args.dims.at("c"));
    let shared = &*args;
    let out = reference::rows(1, c, e, |_, entry, line| {
        if entry < list[0] as usize {
            let row = list[1 + entry] as usize;
            let total = operands.attend(shared, row / n, row % n, &v, line);
            finish(line, total);
        }
    });
    args.set("out", out);
    Ok(())
}

/// Pairs that all listed rows visit, each as many as a row does on average.
fn pairs(dims: &Dims, params: &[u8]) -> f64 {
    let of_head = Grid::of(dims, &Params::from_bytes(params)).pairs();
    f64::from(dims.size("c")) * of_head / f64::from(dims.size("n").max(1))
}

fn slices(dims: &Dims) -> f64 {
    f64::from(dims.size("e").div_ceil(COLUMNS))
}

/// Every dispatch of a window of heads walks the whole list.
fn groups(dims: &Dims, _: u64) -> u64 {
    u64::from(dims.size("c")) * u64::from(dims.size("e").div_ceil(COLUMNS))
}

/// Whether a driver lets one of the 64 threads of a row visit its share of the keys.
fn loops_fit(dims: &Dims, params: &[u8], caps: &Caps) -> bool {
    let visits = Grid::of(dims, &Params::from_bytes(params)).visits().div_ceil(64);
    visits.saturating_mul(1 + u64::from(dims.size("r").div_ceil(4))).saturating_add(64) <= caps.loop_rounds
}

static VARIANTS: &[Variant] = &[
    Variant {
        name: "texture",
        file: "mask/relative_rows_texture.wgsl",
        body: include_str!("../../../shaders/mask/relative_rows_texture.wgsl"),
        shared: &[GROUP, RELATIVE],
        preferred_on: &[Driver::Llvmpipe, Driver::SwiftShader],
        classes: &[("k", Class::Texture), ("v", Class::Texture)],
        vec4: &["k", "v"],
        constants: |d| {
            let texels = |name, most| Constant::U32((d.size(name) / 4).min(most));
            vec![("HELD", texels("r", 16)), ("WIDTH", texels("e", COLUMNS / 4))]
        },
        suits: |d, p, caps| {
            let whole = |name| d.size(name) % 4 == 0 && d.size(name) > 0;
            whole("r") && whole("e") && loops_fit(d, p, caps)
        },
        grid: groups,
        loads: |d, params| Loads {
            storage: f64::from(d.size("c")) * 64.0 * slices(d) * f64::from(d.size("r")),
            texture: pairs(d, params) * (slices(d) * f64::from(d.size("r")) + f64::from(d.size("e"))),
            ..Loads::default()
        },
        rounds: few_rounds,
        subgroup_lanes: 0,
    },
    Variant {
        name: "plain",
        file: "mask/relative_rows_plain.wgsl",
        body: include_str!("../../../shaders/mask/relative_rows_plain.wgsl"),
        shared: &[GROUP, RELATIVE],
        preferred_on: &[Driver::Gpu],
        classes: &[],
        vec4: &[],
        constants: no_constants,
        suits: loops_fit,
        grid: groups,
        loads: |d, params| Loads {
            storage: pairs(d, params) * (slices(d) * 2.0 * f64::from(d.size("r")) + f64::from(d.size("e"))),
            ..Loads::default()
        },
        rounds: few_rounds,
        subgroup_lanes: 0,
    },
];

/// A list of rows of all heads in no order, with `rest` entries left over.
fn some_rows(dims: &Dims, rest: usize) -> HostData {
    let (c, rows) = (dims.at("c"), dims.batches() as usize * dims.at("n"));
    let count = c.saturating_sub(rest);
    let row = |i: usize| if i < count { (i * 7919 % rows.max(1)) as u32 } else { u32::MAX };
    HostData::U32(std::iter::once(count as u32).chain((0..c).map(row)).collect())
}

fn full_list(dims: &Dims) -> HostData {
    some_rows(dims, 0)
}

fn part_of_list(dims: &Dims) -> HostData {
    some_rows(dims, 3)
}

/// Two workgroups for each of 21 rows, and more lines than needed.
fn folded_groups(_: &Dims) -> HostData {
    HostData::U32(vec![5, 3, 3])
}

fn empty_list(dims: &Dims) -> HostData {
    some_rows(dims, usize::MAX)
}

const fn sizes(n: u32, r: u32, e: u32, t: u32, c: u32) -> [(&'static str, u32); 9] {
    [("b", 2), ("h", 2), ("n", n), ("r", r), ("e", e), ("tables", 2), ("t", t), ("c", c), ("w", c + 1)]
}

const FILLS: [(&str, Fill); 4] = [
    ("q", Fill::Uniform(0.0, 1.0)),
    ("k", Fill::Uniform(0.0, 1.0)),
    ("table", Fill::Uniform(0.1, 1.0)),
    ("list", Fill::Made(full_list)),
];
const NO_MASKS: &[&str] = &["key_mask", "segment", "dispatch"];

/// The kernel's description.
pub static SPEC: KernelSpec = KernelSpec {
    name: "relative_rows",
    family: "mask",
    formula: "out[l] = Σⱼ T[i−j] ⟨q[i],k[j]⟩ v[j] / Σⱼ T[i−j] ⟨q[i],k[j]⟩ for i = list[l]",
    source: "Choromanski et al., arXiv 2107.07999: block-Toeplitz masks, by definition",
    ports: &[
        Port::read("q", &["b", "h", "n", "r"]),
        Port::read("k", &["b", "h", "n", "r"]),
        Port::read("v", &["b", "h", "n", "e"]),
        Port::read("table", &["tables", "t"]).optional(),
        Port::read("key_mask", &["b", "h", "n"]).of(DType::U8).broadcast().optional(),
        Port::read("segment", &["s", "2"]).of(DType::U32).optional(),
        Port::read("list", &["w"]).of(DType::U32),
        Port::workgroups("dispatch").optional(),
        Port::write("out", &["c", "e"]),
    ],
    params: Params::FIELDS,
    defaults: Params::default_bytes,
    output_dims: Some(|dims, _| dims.set("c", dims.size("w").saturating_sub(1))),
    check,
    wgpu: OnWgpu::Shader(VARIANTS),
    cuda: OnCuda::Source(&[cuda_source!("mask/relative_rows.cu", 128, |d, _| groups(d, d.batches())).with(&[cuda_shared!("mask/relative.cuh")])]),
    reference: reference!(reference),
    window: whole_heads,
    cost: |d, params| {
        let n = f64::from(d.size("n")).max(1.0);
        let per_row = Grid::of(d, &Params::from_bytes(params)).pairs() / n;
        let [c, r, e] = ["c", "r", "e"].map(|name| f64::from(d.size(name)));
        Cost {
            flop: c * per_row * (2.0 * (r + e) + 2.0),
            exp: 0.0,
            stores: c * e,
            bytes: 4.0 * c * (per_row * (r + e) + r + e),
            ..Cost::default()
        }
    },
    tolerance: Tolerance::SUMS,
    cases: &[
        Case::new(
            "smallest",
            &[("b", 1), ("h", 1), ("n", 1), ("r", 1), ("e", 1), ("tables", 1), ("t", 1), ("c", 1), ("w", 2)],
            Params::default_bytes,
        )
        .without(NO_MASKS)
        .filled(&FILLS),
        Case::new("odd", &sizes(67, 5, 35, 133, 21), Params::default_bytes).without(NO_MASKS).filled(&FILLS),
        Case::new("texels", &sizes(130, 8, 36, 259, 40), Params::default_bytes)
            .without(NO_MASKS)
            .filled(&FILLS),
        Case::new("part_of_list", &sizes(70, 8, 4, 139, 11), Params::default_bytes)
            .without(NO_MASKS)
            .filled(&[FILLS[0], FILLS[1], FILLS[2], ("list", Fill::Made(part_of_list))]),
        // Counted groups, folded into two dimensions as for very many rows.
        Case::new("dispatched", &sizes(67, 5, 35, 133, 21), Params::default_bytes)
            .without(&["key_mask", "segment"])
            .filled(&[FILLS[0], FILLS[1], FILLS[2], FILLS[3], ("dispatch", Fill::Made(folded_groups))]),
        Case::new("empty_list", &sizes(20, 3, 5, 39, 4), Params::default_bytes).without(NO_MASKS).filled(&[
            FILLS[0],
            FILLS[1],
            FILLS[2],
            ("list", Fill::Made(empty_list)),
        ]),
        Case::new("grid_with_globals", &sizes(202, 4, 8, 19 * 39, 30), || {
            Params {
                n2: 10,
                n3: 20,
                globals: 2,
                first2: 8,
                last2: 10,
                first3: 17,
                last3: 21,
                ..Params::default()
            }
            .to_bytes()
        })
        .without(&["segment", "dispatch"])
        .filled(&FILLS),
        Case::new("torus_odd", &sizes(60, 3, 7, 60, 30), || {
            Params { n2: 6, n3: 10, torus: 6, ..Params::default() }.to_bytes()
        })
        .without(NO_MASKS)
        .filled(&FILLS),
        Case::new(
            "packed",
            &[
                ("b", 1),
                ("h", 2),
                ("n", 50),
                ("r", 4),
                ("e", 4),
                ("tables", 2),
                ("t", 59),
                ("s", 50),
                ("c", 17),
                ("w", 18),
            ],
            || Params { n3: 30, ..Params::default() }.to_bytes(),
        )
        .without(&["key_mask", "dispatch"])
        .filled(&[FILLS[0], FILLS[1], FILLS[2], FILLS[3], ("segment", Fill::Made(segments))]),
        Case::new("no_key", &sizes(33, 4, 4, 65, 9), Params::default_bytes).without(&["segment", "dispatch"]).filled(&[
            FILLS[0],
            FILLS[1],
            FILLS[2],
            FILLS[3],
            ("key_mask", Fill::Value(0.0)),
        ]),
        Case::new(
            "rows_256_of_4096",
            &[
                ("b", 1),
                ("h", 8),
                ("n", 4096),
                ("r", 32),
                ("e", 32),
                ("tables", 8),
                ("t", 8191),
                ("c", 256),
                ("w", 257),
            ],
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
