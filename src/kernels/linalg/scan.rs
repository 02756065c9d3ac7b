//! Inclusive prefix sum of each row.
//!
//! `out[i]` = `x[0]` + … + `x[i]`
//!
//! * `x`, `out` `[b, h, n]`; n ≤ [`LONGEST_ROW`].

use crate::kernel::cuda::Source;
use crate::kernel::wgsl_module::GROUP;
use crate::kernel::*;
use crate::{cuda_shared, cuda_source, reference};
use crate::tensor::{Dims, HostData};

/// Longest row: one workgroup scans it, and llvmpipe ends all loops of an invocation, in silence, after 65 535 rounds.
pub const LONGEST_ROW: u32 = 2_000_000;

fn check(dims: &Dims, _: &[u8]) -> std::result::Result<(), String> {
    let n = dims.size("n");
    if n > LONGEST_ROW {
        Err(format!(
            "rows are at most {LONGEST_ROW} long, got {n}; scan parts first"
        ))
    } else {
        Ok(())
    }
}

fn reference<T: Real>(args: &mut HostArgs<T>) -> crate::Result<()> {
    let (n, batches) = (args.dims.at("n"), args.dims.batches() as usize);
    let x = args.real("x");
    let out = reference::rows(batches, 1, n, |batch, _, line| {
        let mut sum = T::zero();
        for (y, &x) in line.iter_mut().zip(&x[batch * n..]) {
            sum += x;
            *y = sum;
        }
    });
    args.set("out", out);
    Ok(())
}

static VARIANTS: &[Variant] = &[Variant {
    name: "workgroup",
    file: "linalg/scan.wgsl",
    body: include_str!("../../../shaders/linalg/scan.wgsl"),
    shared: &[GROUP],
    preferred_on: &[Driver::Gpu, Driver::Llvmpipe, Driver::SwiftShader],
    classes: &[],
    vec4: &[],
    constants: no_constants,
    suits: always,
    grid: |_, batches| batches,
    loads: |d, _| {
        let n = f64::from(d.size("n"));
        // Six levels of two words for each thread's four elements, and the two totals.
        Loads {
            storage: n,
            workgroup: n / 4.0 * 14.0,
            ..Loads::default()
        }
    },
    rounds: few_rounds,
    subgroup_lanes: 0,
}];

fn counting(dims: &Dims) -> HostData {
    HostData::F32(
        (0..dims.batches())
            .flat_map(|_| (1..=dims.size("n")).map(|i| i as f32))
            .collect(),
    )
}

/// The kernel's description.
pub static SPEC: KernelSpec = KernelSpec {
    name: "scan",
    family: "linalg",
    formula: "out[i] = Σⱼ≤ᵢ x[j]",
    source: "Hillis and Steele, Data parallel algorithms (1986), within a workgroup; carried between pieces",
    ports: &[
        Port::read("x", &["b", "h", "n"]),
        Port::write("out", &["b", "h", "n"]),
    ],
    params: &[],
    defaults: Vec::new,
    output_dims: None,
    check,
    wgpu: OnWgpu::Shader(VARIANTS),
    cuda: OnCuda::Source(&[
        Source {
            name: "vec4",
            vec4: &["x", "out"],
            constants: |_| vec![("VECTORS", Constant::Bool(true))],
            ..cuda_source!("linalg/scan.cu", 512, |d, _| d.batches())
                .with(&[cuda_shared!("shared/vectors.cuh")])
        },
        Source {
            constants: |_| vec![("VECTORS", Constant::Bool(false))],
            ..cuda_source!("linalg/scan.cu", 512, |d, _| d.batches())
                .with(&[cuda_shared!("shared/vectors.cuh")])
        },
    ]),
    reference: reference!(reference),
    window: whole_heads,
    cost: |d, _| {
        let n = d.batches() as f64 * f64::from(d.size("n"));
        Cost {
            flop: n,
            exp: 0.0,
            stores: n,
            bytes: 8.0 * n,
            ..Cost::default()
        }
    },
    tolerance: Tolerance::SUMS,
    cases: &[
        Case::new("smallest", &[("b", 1), ("h", 1), ("n", 1)], Vec::new),
        Case::new("below_a_piece", &[("b", 2), ("h", 3), ("n", 63)], Vec::new),
        Case::new("piece", &[("b", 1), ("h", 2), ("n", 256)], Vec::new),
        Case::new("piece_plus_one", &[("b", 1), ("h", 2), ("n", 257)], Vec::new),
        Case::new("counting_to_1000", &[("b", 1), ("h", 2), ("n", 1000)], Vec::new)
            .filled(&[("x", Fill::Made(counting))]),
        Case::new("odd_long", &[("b", 1), ("h", 3), ("n", 70_001)], Vec::new)
            .filled(&[("x", Fill::Uniform(0.0, 1.0))]),
        Case::new("rows_64x16384", &[("b", 1), ("h", 64), ("n", 16_384)], Vec::new).for_bench(),
    ],
    vjp: None,
};
