//! Position codes put on queries or keys.
//!
//! out[n, r] = Σ_d x[n, d] · (code[d, n, r] + constant[d, r])
//!
//! * `x` `[b, h, n, d]`; `code` `[b, h, d · n, r]`: the n positions of each dimension one after the other, usually shared by the batch.
//! * `constant` `[b, h, d, r]`: what a gate adds at every position, may be left out.
//! * `out` `[b, h, n, r]`.

use crate::error::Result;
use crate::graph::Graph;
use crate::kernel::wgsl_module::{GROUP, Shared};
use crate::kernel::*;
use crate::kernels::tree::layout::{VECTORS, WORDS};
use crate::{cuda_source, reference};
use crate::tensor::{DType, Dims, Tensor};

fn check(d: &Dims, _: &[u8]) -> std::result::Result<(), String> {
    let whole = u64::from(d.size("n")) * u64::from(d.size("d"));
    match u64::from(d.size("m")) == whole {
        true => Ok(()),
        false => Err(format!("codes have d · n = {whole} rows, got {}", d.size("m"))),
    }
}

fn reference<T: Real>(args: &mut HostArgs<T>) -> Result<()> {
    let [n, d, r] = ["n", "d", "r"].map(|x| args.dims.at(x));
    let (x, code, constant) = (args.real("x"), args.real("code"), args.real_if("constant"));
    let shared = &*args;
    let out = reference::rows(args.dims.batches() as usize, n, r, |batch, i, line| {
        for (dim, x) in x[(batch * n + i) * d..][..d].iter().enumerate() {
            let code = &code[shared.start("code", batch) + (dim * n + i) * r..][..r];
            for (lane, (y, code)) in line.iter_mut().zip(code).enumerate() {
                let more = constant.as_ref().map_or(T::zero(), |c| c[shared.start("constant", batch) + dim * r + lane]);
                *y += *x * (*code + more);
            }
        }
    });
    args.set("out", out);
    Ok(())
}

fn numbers(d: &Dims) -> f64 {
    f64::from(d.size("n")) * f64::from(d.size("r"))
}

const fn variant(shared: &'static [&'static Shared]) -> Variant {
    Variant::only(
        "position/apply_code.wgsl",
        include_str!("../../../shaders/position/apply_code.wgsl"),
        shared,
        |d, batches| batches * (u64::from(d.size("n")) * u64::from(d.size("r"))).div_ceil(64),
        |d, _| Loads { storage: 2.0 * numbers(d) * f64::from(d.size("d")), ..Loads::default() },
    )
    .rounds(|d| d.size("d").into())
}

/// Where a thread makes so many neighbouring words.
const fn in_cuda<const WORDS: u32>() -> cuda::Source {
    cuda::Source {
        constants: |_| vec![("WORDS", Constant::U32(WORDS))],
        ..cuda_source!("position/apply_code.cu", 256, |d, _| {
            d.batches() * (u64::from(d.size("n")) * u64::from(d.size("r") / WORDS)).div_ceil(256)
        }).with(&[cuda::VECTORS])
    }
}

static VARIANTS: &[Variant] = &[
    Variant {
        name: "vectors",
        vec4: &["code", "constant", "out"],
        suits: |d, _, _| d.size("r").is_multiple_of(4) && d.size("r") > 0,
        grid: |d, batches| batches * (u64::from(d.size("n")) * u64::from(d.size("r") / 4)).div_ceil(64),
        loads: |d, _| Loads { storage: 1.25 * numbers(d) * f64::from(d.size("d")), ..Loads::default() },
        ..variant(&[GROUP, VECTORS])
    },
    variant(&[GROUP, WORDS]),
];

const fn sizes(n: u32, d: u32, r: u32) -> [(&'static str, u32); 6] {
    [("b", 2), ("h", 3), ("n", n), ("d", d), ("r", r), ("m", n * d)]
}

/// The kernel's description.
pub static SPEC: KernelSpec = KernelSpec {
    name: "apply_code",
    family: "position",
    formula: "out[n, r] = Σ_d x[n, d] (code[d, n, r] + constant[d, r])",
    source: "Liutkus et al. 2021, eq. 13 and 14; gate: eq. 22",
    ports: &[
        Port::read("x", &["b", "h", "n", "d"]),
        Port::read("code", &["b", "h", "m", "r"]).broadcast(),
        Port::read("constant", &["b", "h", "d", "r"]).broadcast().optional(),
        Port::write("out", &["b", "h", "n", "r"]),
    ],
    params: &[],
    defaults: Vec::new,
    output_dims: None,
    check,
    wgpu: OnWgpu::Shader(VARIANTS),
    cuda: OnCuda::Source(&[
        cuda::Source {
            name: "vec4",
            vec4: &["code", "constant", "out"],
            suits: |d, _| d.size("r").is_multiple_of(4) && d.size("r") > 0,
            ..in_cuda::<4>()
        },
        in_cuda::<1>(),
    ]),
    reference: reference!(reference),
    window: whole_heads,
    cost: |d, _| {
        let out = d.batches() as f64 * numbers(d);
        let (depth, codes) = (f64::from(d.size("d")), f64::from(d.size("h")) * numbers(d) * f64::from(d.size("d")));
        let x = d.batches() as f64 * f64::from(d.size("n")) * depth;
        Cost { flop: 2.0 * out * depth, exp: 0.0, stores: out, bytes: 4.0 * (out + x + codes), ..Cost::default() }
    },
    tolerance: Tolerance::SUMS,
    cases: &[
        Case::new(
            "smallest",
            &[("b", 1), ("h", 1), ("n", 1), ("d", 1), ("r", 1), ("m", 1)],
            Vec::new,
        )
        .without(&["constant"]),
        Case::new("odd", &sizes(13, 5, 7), Vec::new).shared(&["code", "constant"]),
        Case::new("vectors", &sizes(9, 4, 12), Vec::new),
        Case::new("vectors_shared", &sizes(9, 6, 8), Vec::new).shared(&["code"]).without(&["constant"]),
        Case::new("no_tokens", &sizes(0, 4, 8), Vec::new).without(&["constant"]),
        Case::new(
            "tokens_4096_d32_r64",
            &[("b", 1), ("h", 8), ("n", 4096), ("d", 32), ("r", 64), ("m", 131_072)],
            Vec::new,
        )
        .without(&["constant"])
        .resized(|d| {
            d.set("m", resize::product(&[d.size("d"), d.size("n")])?);
            Ok(Vec::new())
        })
        .for_bench(),
    ],
    vjp: None,
};

/// Records tokens `x` `[b, h, n, d]` under codes `[1, h, d · n, r]` into a new transient `[b, h, n, r]`.
///
/// Errors: shapes that do not fit, with the caller's place.
#[track_caller]
pub fn record(graph: &mut Graph, name: &str, x: Tensor, code: Tensor, constant: Option<Tensor>) -> Result<Tensor> {
    let out = graph.transient(name, [x.dim(0), x.dim(1), x.dim(2), code.dim(3)], DType::F32);
    graph.pass(&SPEC, &NoParams {}, &[Some(x), Some(code), constant, Some(out)])?;
    Ok(out)
}
