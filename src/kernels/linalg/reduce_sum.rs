//! Sum of each row.
//!
//! out = Σᵢ `x[i]`
//!
//! * `x` `[b, h, n]`, `out` `[b, h, 1]`; n ≤ [`LONGEST_ROW`].

use crate::kernel::wgsl_module::GROUP;
use crate::kernel::*;
use crate::{cuda_source, reference};
use crate::tensor::{Dims, HostData};

/// Longest row: one workgroup sums it, and llvmpipe ends all loops of an invocation, in silence, after 65 535 rounds.
pub const LONGEST_ROW: u32 = 4_000_000;

fn check(dims: &Dims, _: &[u8]) -> std::result::Result<(), String> {
    let n = dims.size("n");
    if n > LONGEST_ROW {
        Err(format!(
            "rows are at most {LONGEST_ROW} long, got {n}; sum parts first"
        ))
    } else {
        Ok(())
    }
}

fn reference<T: Real>(args: &mut HostArgs<T>) -> crate::Result<()> {
    let (n, batches) = (args.dims.at("n"), args.dims.batches() as usize);
    let x = args.real("x");
    let sum = |row: usize| {
        x[row * n..(row + 1) * n]
            .iter()
            .fold(T::zero(), |sum, &x| sum + x)
    };
    args.set("out", (0..batches).map(sum).collect());
    Ok(())
}

fn loads(dims: &Dims, _: &[u8]) -> Loads {
    Loads {
        storage: f64::from(dims.size("n")),
        workgroup: 128.0,
        ..Loads::default()
    }
}

const fn variant(name: &'static str, file: &'static str, body: &'static str, subgroup_lanes: u32) -> Variant {
    Variant {
        name,
        file,
        body,
        shared: &[GROUP],
        // The tree is the default everywhere: a row's sum costs its loads, and subgroup operations differ most between
        // drivers.
        preferred_on: if subgroup_lanes > 0 {
            &[]
        } else {
            &[Driver::Gpu, Driver::Llvmpipe, Driver::SwiftShader]
        },
        classes: &[],
        vec4: &[],
        constants: no_constants,
        suits: always,
        grid: |_, batches| batches,
        loads,
        rounds: |d| 64 + u64::from(d.size("n").div_ceil(256)),
        subgroup_lanes,
    }
}

static VARIANTS: &[Variant] = &[
    variant(
        "workgroup",
        "linalg/reduce_sum_workgroup.wgsl",
        include_str!("../../../shaders/linalg/reduce_sum_workgroup.wgsl"),
        0,
    ),
    variant(
        "subgroup",
        "linalg/reduce_sum_subgroup.wgsl",
        include_str!("../../../shaders/linalg/reduce_sum_subgroup.wgsl"),
        1,
    ),
];

/// 1, 2, … in every row.
fn counting(dims: &Dims) -> HostData {
    HostData::F32(
        (0..dims.batches())
            .flat_map(|_| (1..=dims.size("n")).map(|i| i as f32))
            .collect(),
    )
}

/// The kernel's description.
pub static SPEC: KernelSpec = KernelSpec {
    name: "reduce_sum",
    family: "linalg",
    formula: "out = Σᵢ x[i]",
    source: "definition",
    ports: &[
        Port::read("x", &["b", "h", "n"]),
        Port::write("out", &["b", "h", "1"]),
    ],
    params: &[],
    defaults: Vec::new,
    output_dims: None,
    check,
    wgpu: OnWgpu::Shader(VARIANTS),
    cuda: OnCuda::Source(&[cuda_source!("linalg/reduce_sum.cu", 256, |d, _| d.batches())]),
    reference: reference!(reference),
    window: whole_heads,
    cost: |d, _| {
        let n = d.batches() as f64 * f64::from(d.size("n"));
        Cost {
            flop: n,
            exp: 0.0,
            stores: d.batches() as f64,
            bytes: 4.0 * (n + d.batches() as f64),
            ..Cost::default()
        }
    },
    tolerance: Tolerance::SUMS,
    cases: &[
        Case::new("smallest", &[("b", 1), ("h", 1), ("n", 1)], Vec::new),
        Case::new("below_a_group", &[("b", 2), ("h", 3), ("n", 63)], Vec::new),
        Case::new("counting_to_64", &[("b", 1), ("h", 1), ("n", 64)], Vec::new)
            .filled(&[("x", Fill::Made(counting))]),
        Case::new("counting_to_1000", &[("b", 1), ("h", 2), ("n", 1000)], Vec::new)
            .filled(&[("x", Fill::Made(counting))]),
        Case::new("odd_long", &[("b", 1), ("h", 3), ("n", 70_001)], Vec::new)
            .filled(&[("x", Fill::Uniform(0.0, 1.0))]),
        Case::new("large_values", &[("b", 1), ("h", 1), ("n", 300)], Vec::new)
            .filled(&[("x", Fill::Uniform(-1e35, 1e35))]),
        Case::new("rows_64x16384", &[("b", 1), ("h", 64), ("n", 16_384)], Vec::new).for_bench(),
    ],
    vjp: None,
};
