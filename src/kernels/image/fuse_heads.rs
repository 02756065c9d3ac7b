//! Several heads' rows as one picture of numbers: the mean, the largest, the smallest, or one of them.
//!
//! y\[i\] = f over heads of `x[head, i]`, less the same of `less` where that is given; then `out[i]` = y\[i\], or
//! log₁₀ max(|y\[i\]|, `least`) with `log`.
//!
//! * `x`, `less` `[heads, n]`; `out` `[n]`. What is not finite in any head that counts is not finite in `out`.

use crate::numbers::Short;
use crate::error::Result;
use crate::graph::Graph;
use crate::kernel::wgsl_module::GROUP;
use crate::kernel::*;
use crate::tensor::{DType, Dims, HostData, Tensor};
use crate::{cuda_shared, cuda_source, params, reference};

/// Mode: mean over heads.
pub const MEAN: u32 = 0;
/// Mode: largest of the heads.
pub const MAX: u32 = 1;
/// Mode: smallest of the heads.
pub const MIN: u32 = 2;
/// Mode: one head.
pub const ONE: u32 = 3;

params! {
    /// Parameters of [`SPEC`].
    pub struct Params {
        /// 0 mean, 1 largest, 2 smallest, 3 one head
        live mode: u32 = MEAN,
        /// the head of mode 3
        live head: u32 = 0,
        /// 1 takes the logarithm of magnitudes to base 10
        live log: u32 = 0,
        /// least magnitude under the logarithm, > 0
        live least: f32 = 1e-30,
    }
}

fn check(dims: &Dims, params: &[u8]) -> std::result::Result<(), String> {
    let p = Params::from_bytes(params);
    if dims.size("heads") == 0 {
        return Err("needs at least one head".into());
    }
    if p.mode > ONE || p.log > 1 {
        return Err(format!("mode is 0 to 3 and log 0 or 1, got {} and {}", p.mode, p.log));
    }
    if p.mode == ONE && p.head >= dims.size("heads") {
        return Err(format!("head {} of {}", p.head, dims.size("heads")));
    }
    if !(p.least > 0.0 && p.least.is_finite()) {
        return Err(format!("least is a finite number > 0, got {}", Short(p.least)));
    }
    Ok(())
}

fn reference<T: Real>(args: &mut HostArgs<T>) -> Result<()> {
    let p: Params = args.params();
    let (heads, n) = (args.dims.at("heads"), args.dims.at("n"));
    let (x, less) = (args.real("x"), args.real_if("less"));
    let fused = |values: &[T], i: usize| {
        let of = |head: usize| values[head * n + i];
        if p.mode == ONE {
            return of(p.head as usize);
        }
        let all = (0..heads).map(of);
        if let Some(bad) = all.clone().find(|x| !x.is_finite()) {
            return bad;
        }
        match p.mode {
            MEAN => all.sum::<T>() / T::of(heads as f64),
            MAX => all.fold(of(0), |a, b| a.max(b)),
            _ => all.fold(of(0), |a, b| a.min(b)),
        }
    };
    let out = (0..n).map(|i| {
        let y = fused(&x, i) - less.as_ref().map_or(T::zero(), |l| fused(l, i));
        if p.log == 1 && y.is_finite() {
            y.abs().max(T::of(f64::from(p.least))).log10()
        } else {
            y
        }
    });
    args.set("out", out.collect());
    Ok(())
}

fn words(d: &Dims) -> f64 {
    f64::from(d.size("heads")) * f64::from(d.size("n"))
}

/// Numbers, some of which are none.
fn with_gaps(dims: &Dims) -> HostData {
    let number = |i: usize| match i % 17 {
        5 => f32::NAN,
        9 => f32::INFINITY,
        _ => ((i * 37) % 101) as f32 / 50.0 - 1.0,
    };
    HostData::F32((0..dims.at("heads") * dims.at("n")).map(number).collect())
}

const fn sizes(heads: u32, n: u32) -> [(&'static str, u32); 2] {
    [("heads", heads), ("n", n)]
}

/// The kernel's description.
pub static SPEC: KernelSpec = KernelSpec {
    name: "fuse_heads",
    family: "image",
    formula: "out[i] = mean, max, min or one of x[head,i], less that of another; log₁₀ of its magnitude if asked",
    source: "definition",
    ports: &[
        Port::read("x", &["heads", "n"]),
        Port::read("less", &["heads", "n"]).optional(),
        Port::write("out", &["n"]),
    ],
    params: Params::FIELDS,
    defaults: Params::default_bytes,
    output_dims: None,
    check,
    wgpu: OnWgpu::Shader(&[Variant::only(
        "image/fuse_heads.wgsl",
        include_str!("../../../shaders/image/fuse_heads.wgsl"),
        &[GROUP],
        |d, _| u64::from(d.size("n")).div_ceil(64),
        |d, _| Loads { storage: 2.0 * words(d), ..Loads::default() },
    ).rounds(|d| 2 * u64::from(d.size("heads")))]),
    cuda: OnCuda::Source(&[cuda_source!("image/fuse_heads.cu", 256, |d, _| u64::from(d.size("n")).div_ceil(256))
        .with(&[cuda_shared!("shared/places.cuh")])]),
    reference: reference!(reference),
    window: whole_heads,
    cost: |d, _| Cost { flop: words(d), exp: f64::from(d.size("n")), stores: f64::from(d.size("n")), bytes: 4.0 * words(d), ..Cost::default() },
    tolerance: Tolerance {
        factor: 2.0,
        floor: 4e-6,
        reason: "drivers' log2 is good to about 3e-6 of a decade",
    },
    cases: &[
        Case::new("smallest", &sizes(1, 1), Params::default_bytes).without(&["less"]),
        Case::new("odd", &sizes(3, 37), Params::default_bytes),
        Case::new("largest", &sizes(4, 130), || Params { mode: MAX, ..Params::default() }.to_bytes()).without(&["less"]),
        Case::new("smallest_head", &sizes(5, 65), || Params { mode: MIN, ..Params::default() }.to_bytes()),
        Case::new("one_head", &sizes(5, 65), || Params { mode: ONE, head: 4, ..Params::default() }.to_bytes()).without(&["less"]),
        Case::new("logarithm", &sizes(2, 70), || Params { log: 1, least: 1e-4, ..Params::default() }.to_bytes()).without(&["less"]),
        Case::new("not_finite", &sizes(2, 70), || Params { mode: MAX, ..Params::default() }.to_bytes()).without(&["less"])
            .filled(&[("x", Fill::Made(with_gaps))]),
        Case::new("no_token", &sizes(2, 0), Params::default_bytes),
    ],
    vjp: None,
};

/// Records the fusion of `x` `[heads, n]`, less that of another, into a new transient `[n]`; the pass is for changing its parameters.
///
/// Errors: shapes that do not fit.
#[track_caller]
pub fn record(
    graph: &mut Graph,
    name: &str,
    x: Tensor,
    less: Option<Tensor>,
    params: Params,
) -> Result<(Tensor, crate::graph::PassId)> {
    let out = graph.transient(name, [x.dim(1)], DType::F32);
    let pass = graph.pass(&SPEC, &params, &[Some(x), less, Some(out)])?;
    Ok((out, pass))
}
