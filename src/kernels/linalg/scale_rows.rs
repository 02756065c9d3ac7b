//! Every row times a number of its own: diag(f(s)) X.
//!
//! * `x`, `out` `[b, h, r, c]`; `s` `[b, h, r, w]`, of which column `column` counts, may be shared by heads.
//! * f(s) = s, or 1/√(max(s, 0) + ε) for whitening by a variance.

use crate::error::Result;
use crate::graph::Graph;
use crate::kernel::cuda::Source;
use crate::kernel::wgsl_module::GROUP;
use crate::kernel::*;
use crate::{cuda_shared, cuda_source, params, reference};
use crate::tensor::{DType, Dims, Tensor};

params! {
    /// Parameters of [`SPEC`].
    pub struct Params {
        /// ε, added under the root
        live epsilon: f32 = 0.0,
        /// column of s
        live column: u32 = 0,
        /// 0: multiply by s; 1: by 1/√(max(s, 0) + ε)
        fixed operation: u32 = 0,
    }
}

fn check(dims: &Dims, params: &[u8]) -> std::result::Result<(), String> {
    let p = Params::from_bytes(params);
    if p.operation > 1 {
        return Err(format!("operation is 0 or 1, got {}", p.operation));
    }
    if p.column >= dims.size("w") {
        return Err(format!("column {} of `s`, which has {}", p.column, dims.size("w")));
    }
    Ok(())
}

fn reference<T: Real>(args: &mut HostArgs<T>) -> Result<()> {
    let p: Params = args.params();
    let (x, s) = (args.real("x"), args.real("s"));
    let (r, c, w) = (args.dims.at("r"), args.dims.at("c"), args.dims.at("w"));
    let epsilon = T::of(f64::from(p.epsilon));
    let shared = &*args;
    let out = reference::rows(args.dims.batches() as usize, r, c, |batch, i, line| {
        let raw = s[shared.start("s", batch) + i * w + p.column as usize];
        let factor = if p.operation == 0 { raw } else { T::one() / (raw.max(T::zero()) + epsilon).sqrt() };
        for (y, &x) in line.iter_mut().zip(&x[(batch * r + i) * c..]) {
            *y = x * factor;
        }
    });
    args.set("out", out);
    Ok(())
}

fn words(dims: &Dims) -> f64 {
    f64::from(dims.size("r")) * f64::from(dims.size("c"))
}

static VARIANTS: &[Variant] = &[Variant {
    name: "plain",
    file: "linalg/scale_rows.wgsl",
    body: include_str!("../../../shaders/linalg/scale_rows.wgsl"),
    shared: &[GROUP],
    preferred_on: &[],
    classes: &[],
    vec4: &[],
    constants: no_constants,
    suits: always,
    grid: |d, batches| batches * (u64::from(d.size("r")) * u64::from(d.size("c"))).div_ceil(64),
    loads: |d, _| Loads { storage: 2.0 * words(d), ..Loads::default() },
    rounds: few_rounds,
    subgroup_lanes: 0,
}];

const fn sizes(r: u32, c: u32, w: u32) -> [(&'static str, u32); 5] {
    [("b", 2), ("h", 3), ("r", r), ("c", c), ("w", w)]
}

/// The kernel's description.
pub static SPEC: KernelSpec = KernelSpec {
    name: "scale_rows",
    family: "linalg",
    formula: "out = diag(f(s)) X, f(s) = s or 1/√(max(s, 0) + ε)",
    source: "definition",
    ports: &[
        Port::read("x", &["b", "h", "r", "c"]),
        Port::read("s", &["b", "h", "r", "w"]).broadcast(),
        Port::write("out", &["b", "h", "r", "c"]),
    ],
    params: Params::FIELDS,
    defaults: Params::default_bytes,
    output_dims: None,
    check,
    wgpu: OnWgpu::Shader(VARIANTS),
    cuda: OnCuda::Source(&[
        Source {
            name: "vec4",
            vec4: &["x", "out"],
            constants: |_| vec![("VECTORS", Constant::Bool(true))],
            ..cuda_source!("linalg/scale_rows.cu", 256, |d, _| {
                d.batches() * (u64::from(d.size("r")) * u64::from(d.size("c"))).div_ceil(4096)
            })
            .with(&[cuda_shared!("shared/vectors.cuh"), cuda_shared!("linalg/stretch.cuh")])
        },
        Source {
            constants: |_| vec![("VECTORS", Constant::Bool(false))],
            ..cuda_source!("linalg/scale_rows.cu", 256, |d, _| {
                d.batches() * (u64::from(d.size("r")) * u64::from(d.size("c"))).div_ceil(1024)
            })
            .with(&[cuda_shared!("shared/vectors.cuh"), cuda_shared!("linalg/stretch.cuh")])
        },
    ]),
    reference: reference!(reference),
    window: |_, _| vec![("r", 1)],
    cost: |d, _| {
        let words = d.batches() as f64 * words(d);
        Cost { flop: words, exp: 0.0, stores: words, bytes: 8.0 * words, ..Cost::default() }
    },
    tolerance: Tolerance::SUMS,
    cases: &[
        Case::new("smallest", &[("b", 1), ("h", 1), ("r", 1), ("c", 1), ("w", 1)], Params::default_bytes),
        Case::new("odd", &sizes(17, 33, 3), || Params { column: 2, ..Params::default() }.to_bytes()),
        Case::new("whitening", &sizes(65, 9, 2), || Params { column: 1, epsilon: 1e-5, operation: 1 }.to_bytes())
            .filled(&[("s", Fill::Uniform(-1e-6, 0.01))]),
        Case::new("shared", &sizes(8, 8, 1), Params::default_bytes).shared(&["s"]),
        Case::new("no_row", &sizes(0, 8, 1), Params::default_bytes),
    ],
    vjp: None,
};

/// Records the scaling into a new transient like `x`.
///
/// Errors: shapes that do not fit, with the caller's place.
#[track_caller]
pub fn record(graph: &mut Graph, name: &str, x: Tensor, s: Tensor, params: Params) -> Result<Tensor> {
    let out = graph.transient(name, x.shape(), DType::F32);
    graph.pass(&SPEC, &params, &[Some(x), Some(s), Some(out)])?;
    Ok(out)
}
