//! Exponential features from products and their rows: the last step of FAVOR+, hyperbolic, exponential and trigonometric maps.
//!
//! With `rows[i]` = (m, t): `out[i, c]` = gain · (exp(scale · (±`u[i, c]` − m) + t) + eps); zeros where t says that the row is left out.
//!
//! * `u` `[b, h, n, p]`, `rows` `[b, h, n, 2]` from [`segment_shift`](super::segment_shift) or [`feature_rows`](super::feature_rows).
//! * `out` `[b, h, n, r]`: `single` r = p; `both` r = 2p, first all +u, then all −u; `waves` r = 2p, gain · e^t · cos(scale·u), then
//!   sin (this map can be negative). An angle beyond ±1e5 has no digits left in f32 and counts as 0.
//!
//! u − m is a difference of two stored numbers and never above 0, so nothing can overflow.

use super::segment_shift::LEFT_OUT;
use crate::kernel::wgsl_module::{EXP, GROUP, Shared, TEXELS};
use crate::kernel::*;
use crate::tensor::{Dims, HostData};
use crate::{cuda_shared, cuda_source, error::Result, params, reference};

/// `sides`: e^u.
pub const SINGLE: u32 = 0;
/// `sides`: e^u and e^−u.
pub const BOTH: u32 = 1;
/// `sides`: cosine and sine.
pub const WAVES: u32 = 2;

params! {
    /// Parameters of [`SPEC`].
    pub struct Params {
        /// factor of u − m, or of the angle u
        live scale: f32 = 1.0,
        /// factor of the result, 1/√r
        live gain: f32 = 1.0,
        /// added to the exponential; above 0 only in published forms
        live eps: f32 = 0.0,
        /// 0 e^u, 1 e^u and e^−u, 2 cosine and sine
        fixed sides: u32 = SINGLE,
    }
}

const WAVE: &Shared =
    &Shared { file: "feature/wave.wgsl", body: include_str!("../../../shaders/feature/wave.wgsl") };

fn check(dims: &Dims, params: &[u8]) -> std::result::Result<(), String> {
    let p = Params::from_bytes(params);
    if p.sides > WAVES {
        return Err(format!("sides is 0, 1 or 2, got {}", p.sides));
    }
    let (cols, r) = (dims.size("p"), dims.size("r"));
    let wanted = if p.sides == SINGLE { u64::from(cols) } else { 2 * u64::from(cols) };
    if u64::from(r) != wanted {
        return Err(format!("{cols} products make r = {wanted} features, got r = {r}"));
    }
    Ok(())
}

/// Features of one row's products.
pub(super) fn row<T: Real>(p: &Params, u: &[T], (m, t): (T, T), line: &mut [T]) {
    let [scale, gain, eps] = [p.scale, p.gain, p.eps].map(|x| T::of(x.into()));
    if t <= T::of(0.75 * f64::from(LEFT_OUT)) {
        return;
    }
    let exponential = |y: T| gain * ((scale * (y - m) + t).exp() + eps);
    let (first, second) = line.split_at_mut(u.len());
    for (c, &y) in u.iter().enumerate() {
        match p.sides {
            WAVES => {
                first[c] = gain * t.exp() * (scale * y).cos();
                second[c] = gain * t.exp() * (scale * y).sin();
            }
            BOTH => {
                first[c] = exponential(y);
                second[c] = exponential(-y);
            }
            _ => first[c] = exponential(y),
        }
    }
}

fn reference<T: Real>(args: &mut HostArgs<T>) -> Result<()> {
    let p: Params = args.params();
    let (n, cols, r) = (args.dims.at("n"), args.dims.at("p"), args.dims.at("r"));
    let (u, rows) = (args.real("u"), args.real("rows"));
    let out = reference::rows(args.dims.batches() as usize, n, r, |batch, i, line| {
        let i = batch * n + i;
        row(&p, &u[i * cols..][..cols], (rows[2 * i], rows[2 * i + 1]), line);
    });
    args.set("out", out);
    Ok(())
}

fn words(d: &Dims, name: &str) -> f64 {
    f64::from(d.size("n")) * f64::from(d.size(name))
}

/// Features per thread of the texture path, in texels of u: what a row's two words cost is spread over them.
const TEXELS_PER_THREAD: u64 = 4;

static VARIANTS: &[Variant] = &[
    Variant {
        name: "texture",
        file: "feature/feature_exp_texture.wgsl",
        body: include_str!("../../../shaders/feature/feature_exp_texture.wgsl"),
        shared: &[GROUP, EXP, WAVE, TEXELS],
        preferred_on: &[Driver::Llvmpipe, Driver::SwiftShader],
        classes: &[("u", Class::Texture)],
        vec4: &["u"],
        constants: |_| vec![("TEXELS_PER_THREAD", Constant::U32(TEXELS_PER_THREAD as u32))],
        suits: |d, _, _| d.size("p") % 4 == 0 && d.size("p") > 0,
        grid: |d, batches| {
            let parts = (u64::from(d.size("p")) / 4).div_ceil(TEXELS_PER_THREAD);
            batches * (u64::from(d.size("n")) * parts).div_ceil(64)
        },
        loads: |d, _| Loads { texture: words(d, "p"), storage: words(d, "p") / 8.0, ..Loads::default() },
        rounds: |_| TEXELS_PER_THREAD,
        subgroup_lanes: 0,
    },
    Variant {
        name: "plain",
        file: "feature/feature_exp_plain.wgsl",
        body: include_str!("../../../shaders/feature/feature_exp_plain.wgsl"),
        shared: &[GROUP, EXP, WAVE],
        preferred_on: &[Driver::Gpu, Driver::Llvmpipe, Driver::SwiftShader],
        classes: &[],
        vec4: &[],
        constants: no_constants,
        suits: always,
        grid: |d, batches| batches * (u64::from(d.size("n")) * u64::from(d.size("p"))).div_ceil(64),
        loads: |d, _| Loads { storage: 3.0 * words(d, "p"), ..Loads::default() },
        rounds: few_rounds,
        subgroup_lanes: 0,
    },
];

/// Rows whose maximum is at least every product, as [`feature_rows`](super::feature_rows) gives them; every fifth is left out.
fn maxima(dims: &Dims) -> HostData {
    let rows = dims.batches() as usize * dims.at("n");
    let row = |i: usize| if i % 5 == 4 { [0.0, LEFT_OUT] } else { [1.0 + (i % 3) as f32, -((i % 7) as f32) / 2.0] };
    HostData::F32((0..rows).flat_map(row).collect())
}

const ROWS: &[(&str, Fill)] = &[("rows", Fill::Made(maxima))];

const fn sizes(n: u32, p: u32, r: u32) -> [(&'static str, u32); 5] {
    [("b", 2), ("h", 2), ("n", n), ("p", p), ("r", r)]
}

fn with(sides: u32) -> Vec<u8> {
    Params { scale: 1.0, gain: 0.25, eps: 0.0, sides }.to_bytes()
}

/// On words, or on vectors of four.
const fn in_cuda<const WORDS: u32>() -> cuda::Source {
    cuda::Source {
        constants: |_| vec![("FOURS", Constant::Bool(WORDS == 4))],
        ..cuda_source!("feature/feature_exp.cu", 256, |d, _| {
            (d.batches() * u64::from(d.size("n")) * u64::from(d.size("p") / WORDS)).div_ceil(256)
        }).with(&[cuda::EXP, cuda_shared!("shared/places.cuh"), cuda_shared!("feature/wave.cuh")])
    }
}

/// The kernel's description.
pub static SPEC: KernelSpec = KernelSpec {
    name: "feature_exp",
    family: "feature",
    formula: "φ = gain·(exp(scale·(±u − m) + t) + eps), or gain·e^t·(cos, sin)(scale·u); rows[i] = (m, t)",
    source: "Choromanski et al. 2021, lemma 1",
    ports: &[
        Port::read("u", &["b", "h", "n", "p"]),
        Port::read("rows", &["b", "h", "n", "2"]),
        Port::write("out", &["b", "h", "n", "r"]),
    ],
    params: Params::FIELDS,
    defaults: Params::default_bytes,
    output_dims: Some(|dims, params| {
        let factor = if Params::from_bytes(params).sides == SINGLE { 1 } else { 2 };
        dims.set("r", factor * dims.size("p"));
    }),
    check,
    wgpu: OnWgpu::Shader(VARIANTS),
    cuda: OnCuda::Source(&[cuda::Source { name: "vec4", vec4: &["u", "out"], ..in_cuda::<4>() }, in_cuda::<1>()]),
    reference: reference!(reference),
    window: by_rows,
    cost: |d, _| {
        let (products, features) = (d.batches() as f64 * words(d, "p"), d.batches() as f64 * words(d, "r"));
        Cost { flop: 4.0 * features, exp: features, stores: features, bytes: 4.0 * (products + features), ..Cost::default() }
    },
    tolerance: Tolerance::SUMS,
    cases: &[
        Case::new("smallest", &[("b", 1), ("h", 1), ("n", 1), ("p", 1), ("r", 1)], || with(SINGLE)).filled(ROWS),
        Case::new("odd", &sizes(17, 5, 5), || Params { scale: 0.6, eps: 1e-3, ..Params::default() }.to_bytes()).filled(ROWS),
        Case::new("whole_texels", &sizes(65, 20, 20), || with(SINGLE)).filled(ROWS),
        Case::new("both_sides", &sizes(19, 7, 14), || with(BOTH)).filled(ROWS),
        Case::new("both_sides_of_texels", &sizes(19, 36, 72), || with(BOTH)).filled(ROWS),
        Case::new("waves", &sizes(19, 7, 14), || with(WAVES)).filled(&[("rows", Fill::Made(maxima)), ("u", Fill::Uniform(-9.0, 9.0))]),
        Case::new("waves_of_texels", &sizes(19, 20, 40), || with(WAVES))
            .filled(&[("rows", Fill::Made(maxima)), ("u", Fill::Uniform(-9e4, 9e4))]),
        Case::new("large_values", &sizes(15, 12, 12), || with(SINGLE)).filled(&[("rows", Fill::Made(maxima)), ("u", Fill::Uniform(-1e19, 0.0))]),
        Case::new("features_4096", &[("b", 1), ("h", 8), ("n", 4096), ("p", 64), ("r", 64)], || with(SINGLE)).filled(ROWS).any_size().for_bench(),
    ],
    vjp: None,
};
