//! A grid doubled by its mirror images, and cut back: a bounded grid's diffusion is that of the doubled torus, where walls become mirrors.
//!
//! * `crop` 0: `y` `[b, h, m, c]` holds `x` `[b, h, n, c]`, a grid n₁ × n₂ × n₃ in raster order, and its mirror images behind every axis of more than
//!   one token, so that axis a has 2 n_a places; m is their product.
//! * `crop` 1: `y` `[b, h, m, c]` holds the first n_a places along every axis of the doubled grid `x` `[b, h, n, c]`.

use crate::error::Result;
use crate::kernel::wgsl_module::{GROUP, Shared};
use crate::kernel::*;
use crate::tensor::Dims;
use crate::{cuda_source, params, reference};

params! {
    /// Parameters of [`SPEC`].
    pub struct Params {
        /// tokens of the grid along the first axis
        fixed n1: u32 = 1,
        /// tokens along the second axis
        fixed n2: u32 = 1,
        /// tokens along the last axis
        fixed n3: u32 = 1,
        /// 1 cuts a doubled grid back
        fixed crop: u32 = 0,
    }
}

/// The shader, but for its bindings.
const PLACES: &Shared = &Shared {
    file: "mask/mirror_grid.wgsl",
    body: include_str!("../../../shaders/mask/mirror_grid.wgsl"),
};

impl Params {
    fn sides(&self) -> [u32; 3] {
        [self.n1, self.n2, self.n3]
    }
}

/// Sides of the doubled grid; an axis of one token stays.
pub fn doubled(sides: [u32; 3]) -> [u32; 3] {
    sides.map(|n| if n == 1 { 1 } else { n.saturating_mul(2) })
}

fn check(d: &Dims, params: &[u8]) -> std::result::Result<(), String> {
    let p = Params::from_bytes(params);
    let tokens = |sides: [u32; 3]| sides.iter().map(|n| u64::from(*n)).product::<u64>();
    let (small, large) = (tokens(p.sides()), tokens(doubled(p.sides())));
    let (from, to) = if p.crop == 0 { (small, large) } else { (large, small) };
    if p.crop > 1 || p.sides().contains(&0) || large > u64::from(u32::MAX) {
        return Err(format!("sides are at least 1 and crop 0 or 1, got {:?} and {}", p.sides(), p.crop));
    }
    if u64::from(d.size("n")) != from || u64::from(d.size("m")) != to {
        return Err(format!("x has {from} and y {to} tokens, got {} and {}", d.size("n"), d.size("m")));
    }
    Ok(())
}

fn reference<T: Real>(args: &mut HostArgs<T>) -> Result<()> {
    let p: Params = args.params();
    let (n, m, c) = (args.dims.at("n"), args.dims.at("m"), args.dims.at("c"));
    let x = args.real("x");
    let small = p.sides().map(|n| n as usize);
    let large = doubled(p.sides()).map(|n| n as usize);
    let (from, to) = if p.crop == 0 { (small, large) } else { (large, small) };
    let y = reference::rows(args.dims.batches() as usize, m, c, |batch, i, line| {
        let place = [i / (to[1] * to[2]), i / to[2] % to[1], i % to[2]];
        let source = (0..3).fold(0, |at, a| {
            let folded = if p.crop == 0 && place[a] >= small[a] { 2 * small[a] - 1 - place[a] } else { place[a] };
            at * from[a] + folded
        });
        line.copy_from_slice(&x[(batch * n + source) * c..][..c]);
    });
    args.set("y", y);
    Ok(())
}

fn numbers(d: &Dims) -> u64 {
    u64::from(d.size("m")) * u64::from(d.size("c"))
}

fn loads(d: &Dims, _: &[u8]) -> Loads {
    Loads { storage: numbers(d) as f64, ..Loads::default() }
}

static VARIANTS: &[Variant] = &[
    Variant {
        name: "vec4",
        vec4: &["x", "y"],
        suits: |d, _, _| d.size("c").is_multiple_of(4) && d.size("c") > 0,
        ..Variant::only(
            "mask/mirror_grid_vec4.wgsl",
            include_str!("../../../shaders/mask/mirror_grid_vec4.wgsl"),
            &[GROUP, PLACES],
            |d, batches| batches * (numbers(d) / 4).div_ceil(64),
            loads,
        )
    },
    Variant::only(
        "mask/mirror_grid_plain.wgsl",
        include_str!("../../../shaders/mask/mirror_grid_plain.wgsl"),
        &[GROUP, PLACES],
        |d, batches| batches * numbers(d).div_ceil(64),
        loads,
    ),
];

const fn sizes(n: u32, m: u32, c: u32) -> [(&'static str, u32); 5] {
    [("b", 2), ("h", 2), ("n", n), ("m", m), ("c", c)]
}

/// Where a thread moves so many neighbouring words.
const fn in_cuda<const WORDS: u32>() -> cuda::Source {
    cuda::Source {
        constants: |_| vec![("WORDS", Constant::U32(WORDS))],
        ..cuda_source!("mask/mirror_grid.cu", 256, |d, _| {
            d.batches() * (numbers(d) / u64::from(WORDS)).div_ceil(256)
        })
        .with(&[cuda::VECTORS])
    }
}

/// The kernel's description.
pub static SPEC: KernelSpec = KernelSpec {
    name: "mirror_grid",
    family: "mask",
    formula: "y = x with mirror images behind every axis, or the first half along every axis",
    source: "definition (method of images)",
    ports: &[Port::read("x", &["b", "h", "n", "c"]), Port::write("y", &["b", "h", "m", "c"])],
    params: Params::FIELDS,
    defaults: Params::default_bytes,
    output_dims: Some(|d, params| {
        let p = Params::from_bytes(params);
        let sides = if p.crop == 0 { doubled(p.sides()) } else { p.sides() };
        d.set("m", sides.iter().fold(1, |all: u32, n| all.saturating_mul(*n)));
    }),
    check,
    wgpu: OnWgpu::Shader(VARIANTS),
    cuda: OnCuda::Source(&[
        cuda::Source {
            name: "vec4",
            vec4: &["x", "y"],
            suits: |d, _| d.size("c").is_multiple_of(4) && d.size("c") > 0,
            ..in_cuda::<4>()
        },
        in_cuda::<1>(),
    ]),
    reference: reference!(reference),
    window: whole_heads,
    cost: |d, _| {
        let stores = d.batches() as f64 * numbers(d) as f64;
        let read = d.batches() as f64 * f64::from(d.size("n").min(d.size("m"))) * f64::from(d.size("c"));
        Cost { flop: 0.0, exp: 0.0, stores, bytes: 4.0 * (stores + read), ..Cost::default() }
    },
    tolerance: Tolerance::EXACT,
    cases: &[
        Case::new("smallest", &[("b", 1), ("h", 1), ("n", 1), ("m", 1), ("c", 1)], Params::default_bytes),
        Case::new("odd", &sizes(21, 84, 5), || Params { n2: 3, n3: 7, ..Params::default() }.to_bytes()),
        Case::new("crop", &sizes(84, 21, 5), || {
            Params { n2: 3, n3: 7, crop: 1, ..Params::default() }.to_bytes()
        }),
        Case::new("vectors", &sizes(21, 84, 12), || Params { n2: 3, n3: 7, ..Params::default() }.to_bytes()),
        Case::new("crop_vectors", &sizes(84, 21, 8), || {
            Params { n2: 3, n3: 7, crop: 1, ..Params::default() }.to_bytes()
        }),
        Case::new("box", &sizes(30, 240, 3), || Params { n1: 2, n2: 5, n3: 3, crop: 0 }.to_bytes()),
        Case::new("crop_box", &sizes(240, 30, 3), || Params { n1: 2, n2: 5, n3: 3, crop: 1 }.to_bytes()),
        Case::new(
            "grid_512x512",
            &[("b", 1), ("h", 1), ("n", 262_144), ("m", 1_048_576), ("c", 8)],
            || Params { n2: 512, n3: 512, ..Params::default() }.to_bytes(),
        )
        .resized(|d| {
            let [n2, n3] = resize::plane(d.size("n"));
            d.set("m", resize::product(&[d.size("n"), 4])?);
            Ok(Params { n2, n3, ..Params::default() }.to_bytes())
        })
        .for_bench(),
    ],
    vjp: None,
};
