//! The recurrence over chunks: from what each chunk contributes to the state with which it is entered.
//!
//! forward: `out[c]` = Σ over chunks before c of their states, each times γ^(tokens between); backward the same from the end.
//! A state does not pass a chunk in which a segment begins (or, backward, ends): see [`chunks`](super::chunks).
//!
//! * `states` and `out` `[b, h, c, s]`, `powers` `[h or 1, t]`, `reach` `[b, h, n, 2]`; `last` `[b, h, s]` the state after the last chunk
//!   (forward half; backward half: before the first).
//!
//! One thread walks all chunks of one number: 65 535 chunks at most on llvmpipe, so long sequences take longer chunks.

use super::chunk_states::{POWERS, RAGGED, SEGMENTS};
use super::chunks::{CARRY, check_powers, power, reach};
use crate::error::Result;
use crate::kernel::wgsl_module::{GROUP, TEXELS};
use crate::kernel::*;
use crate::tensor::{DType, Dims};
use crate::{cuda_source, params, reference};

params! {
    /// Parameters of [`SPEC`].
    pub struct Params {
        /// tokens of all heads; the last chunk may be shorter
        live tokens: u32 = 64,
        /// tokens of a chunk
        live rows: u32 = 64,
        /// 1 if the second half of a state runs backward
        fixed two_sided: u32 = 0,
    }
}

fn check(dims: &Dims, params: &[u8]) -> std::result::Result<(), String> {
    let p = Params::from_bytes(params);
    let (c, s) = (dims.size("c"), dims.size("s"));
    if p.rows == 0 || p.tokens.div_ceil(p.rows).max(1) != c {
        return Err(format!("{} tokens in chunks of {} do not make c = {c} chunks", p.tokens, p.rows));
    }
    if p.two_sided > 1 || (p.two_sided == 1 && !s.is_multiple_of(2)) {
        return Err(format!("two_sided is 0 or 1, and then s is even; got {}, s = {s}", p.two_sided));
    }
    if dims.find("n").is_some_and(|n| n != p.tokens) {
        return Err(format!("reach is of {} tokens, expected {}", dims.size("n"), p.tokens));
    }
    check_powers(dims, p.rows)
}

fn reference<T: Real>(args: &mut HostArgs<T>) -> Result<()> {
    let p: Params = args.params();
    let (c, s) = (args.dims.at("c"), args.dims.at("s"));
    let (tokens, rows) = (p.tokens as usize, p.rows as usize);
    let (states, powers) = (args.real("states"), args.real_if("powers"));
    let powers = powers.as_ref().map(|p| p.as_slice());
    let shared = &*args;
    let forward = if p.two_sided == 1 { s / 2 } else { s };
    // One line more for the state after all chunks.
    let all = reference::rows(args.dims.batches() as usize, 1, (c + 1) * s, |batch, _, lines| {
        let mut run = vec![T::zero(); s];
        for step in 0..c {
            for (chunk, part) in [(step, 0..forward), (c - 1 - step, forward..s)] {
                let (first, end) = (chunk * rows, ((chunk + 1) * rows).min(tokens));
                let passes = match part.start {
                    _ if end <= first => false,
                    0 => reach(shared, batch, end - 1).0 > end - first,
                    _ => reach(shared, batch, first).1 > end - first,
                };
                let factor = if passes { power(powers, &shared.dims, batch, end - first) } else { T::zero() };
                for i in part {
                    lines[chunk * s + i] = run[i];
                    run[i] = factor * run[i] + states[(batch * c + chunk) * s + i];
                }
            }
        }
        lines[c * s..].copy_from_slice(&run);
    });
    let lines = all.chunks_exact(((c + 1) * s).max(1));
    args.set("out", lines.clone().flat_map(|l| &l[..c * s]).copied().collect());
    args.set("last", lines.flat_map(|l| &l[c * s..]).copied().collect());
    Ok(())
}

fn words(d: &Dims) -> f64 {
    f64::from(d.size("c")) * f64::from(d.size("s"))
}

static VARIANTS: &[Variant] = &[
    Variant {
        name: "texture",
        file: "linear/scan_states_texture.wgsl",
        body: include_str!("../../../shaders/linear/scan_states_texture.wgsl"),
        shared: &[GROUP, TEXELS, CARRY],
        preferred_on: &[Driver::Llvmpipe, Driver::SwiftShader],
        classes: &[("states", Class::Texture)],
        vec4: &["states"],
        constants: no_constants,
        suits: |d, params, _| {
            let sides = 1 + Params::from_bytes(params).two_sided;
            d.size("s") > 0 && d.size("s").is_multiple_of(4 * sides)
        },
        grid: |d, batches| batches * u64::from((d.size("s") / 4).div_ceil(8)),
        loads: |d, _| Loads { texture: words(d), ..Loads::default() },
        rounds: |d| u64::from(d.size("c")),
        subgroup_lanes: 0,
    },
    Variant {
        name: "plain",
        file: "linear/scan_states_plain.wgsl",
        body: include_str!("../../../shaders/linear/scan_states_plain.wgsl"),
        shared: &[GROUP, CARRY],
        preferred_on: &[Driver::Gpu, Driver::Llvmpipe, Driver::SwiftShader],
        classes: &[],
        vec4: &[],
        constants: no_constants,
        suits: always,
        grid: |d, batches| batches * u64::from(d.size("s").div_ceil(64)),
        loads: |d, _| Loads { storage: words(d), ..Loads::default() },
        rounds: |d| u64::from(d.size("c")),
        subgroup_lanes: 0,
    },
];

const fn sizes(c: u32, s: u32, n: u32) -> [(&'static str, u32); 7] {
    [("b", 2), ("h", 2), ("heads", 2), ("c", c), ("s", s), ("n", n), ("t", 66)]
}

fn with(tokens: u32, rows: u32, two_sided: u32) -> Vec<u8> {
    Params { tokens, rows, two_sided }.to_bytes()
}

/// The kernel's description.
pub static SPEC: KernelSpec = KernelSpec {
    name: "scan_states",
    family: "linear",
    formula: "out[c] = Σ_{a<c} γ^(tokens between) states[a]",
    source: "Sun et al. 2023, eq. 7; segments: definition",
    ports: &[
        Port::read("states", &["b", "h", "c", "s"]),
        Port::read("powers", &["heads", "t"]).optional(),
        Port::read("reach", &["b", "h", "n", "2"]).of(DType::U32).broadcast().optional(),
        Port::write("out", &["b", "h", "c", "s"]),
        Port::write("last", &["b", "h", "s"]).optional(),
    ],
    params: Params::FIELDS,
    defaults: Params::default_bytes,
    output_dims: None,
    check,
    wgpu: OnWgpu::Shader(VARIANTS),
    cuda: OnCuda::Source(&[cuda_source!("linear/scan_states.cu", 256, |d, _| {
        d.batches() * u64::from(d.size("s").div_ceil(32))
    })]),
    reference: reference!(reference),
    window: whole_heads,
    cost: |d, _| {
        let words = d.batches() as f64 * words(d);
        Cost { flop: 2.0 * words, exp: 0.0, stores: words, bytes: 8.0 * words, ..Cost::default() }
    },
    tolerance: Tolerance::SUMS,
    cases: &[
        Case::new("smallest", &[("b", 1), ("h", 1), ("c", 1), ("s", 2)], Params::default_bytes).without(&["powers", "reach", "last"]),
        Case::new("odd", &sizes(7, 70, 101), || with(101, 16, 1)).filled(&[POWERS, SEGMENTS]).shared(&["reach"]),
        Case::new("causal", &[("b", 1), ("h", 3), ("c", 9), ("s", 132)], || with(257, 32, 0)).without(&["powers", "reach", "last"]),
        Case::new("decay", &sizes(5, 66, 300), || with(300, 64, 0)).without(&["reach"]).filled(&[POWERS]),
        Case::new("two_sided", &sizes(6, 80, 96), || with(96, 16, 1)).without(&["powers"]).filled(&[RAGGED]),
        Case::new("tokens_16384", &[("b", 1), ("h", 8), ("c", 512), ("s", 1056)], || with(16_384, 32, 0)).without(&["powers", "reach", "last"]).for_bench(),
    ],
    vjp: None,
};
