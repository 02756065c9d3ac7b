//! A mask of relative positions over rows that another kernel made: the masked attention map of any similarity.
//!
//! * `products` `[b, h, n, c]`: what chosen queries have with all keys, key-major: the rows of softmax, of a Laplacian kernel, ones.
//! * `table`, `key_mask`, `segment`, `rows` and parameters as in [`relative_map`](super::relative_map).
//! * `given` `[b, h, n, c]`: weights of these very rows, as masks on graphs make them; 0 hides a key, whatever its product.
//! * `out` `[b, h, n, c]`; keys that are left out or not seen have 0.

use super::relative::{Operands, RELATIVE, RELATIVE_ROW};
use super::relative_map::{Params, check, some_rows, write_rows};
use crate::error::Result;
use crate::kernel::wgsl_module::GROUP;
use crate::kernel::*;
use crate::{cuda_shared, cuda_source, reference};
use crate::tensor::{DType, Dims, HostData};

fn reference<T: Real>(args: &mut HostArgs<T>) -> Result<()> {
    let p: Params = args.params();
    let operands = Operands::without_products(args, &p.grid());
    let products = args.real("products");
    let (n, c) = (args.dims.at("n"), args.dims.at("c"));
    let given = args.real_if("given");
    write_rows(args, p.raw == 1, |args, batch, row, number| {
        operands.weights_of(args, batch, row, |key| {
            let product = products[(batch * n + key) * c + number];
            match given.as_ref().map(|given| given[args.start("given", batch) + key * c + number]) {
                Some(weight) if weight == T::zero() => T::zero(),
                Some(weight) => weight * product,
                None => product,
            }
        })
    })
}

fn words(dims: &Dims) -> f64 {
    dims.batches() as f64 * f64::from(dims.size("n")) * f64::from(dims.size("c"))
}

const fn sizes(n: u32, t: u32, c: u32) -> [(&'static str, u32); 6] {
    [("b", 2), ("h", 2), ("n", n), ("tables", 2), ("t", t), ("c", c)]
}

const FILLS: [(&str, Fill); 3] =
    [("products", Fill::Uniform(0.0, 1.0)), ("table", Fill::Uniform(0.1, 1.0)), ("rows", Fill::Made(some_rows))];
const NO_MASKS: &[&str] = &["key_mask", "segment", "given"];
const GIVEN: Fill = Fill::Made(some_weights);

/// Weights of rows, some of them 0.
fn some_weights(dims: &Dims) -> HostData {
    let count = dims.batches() * u64::from(dims.size("n")) * u64::from(dims.size("c"));
    HostData::F32((0..count).map(|i| (i * 29 % 7) as f32 * 0.25).collect())
}

/// The kernel's description.
pub static SPEC: KernelSpec = KernelSpec {
    name: "weigh_rows",
    family: "mask",
    formula: "out[j,l] = T[i−j] g[j,l] p[j,l] / Σⱼ T[i−j] g[j,l] p[j,l] for i = rows[l], or without the division",
    source: "Choromanski et al., arXiv 2107.07999: block-Toeplitz masks, by definition",
    ports: &[
        Port::read("products", &["b", "h", "n", "c"]),
        Port::read("table", &["tables", "t"]).optional(),
        Port::read("key_mask", &["b", "h", "n"]).of(DType::U8).broadcast().optional(),
        Port::read("segment", &["s", "2"]).of(DType::U32).optional(),
        Port::read("rows", &["c"]).of(DType::U32),
        Port::read("given", &["b", "h", "n", "c"]).broadcast().optional(),
        Port::write("out", &["b", "h", "n", "c"]),
    ],
    params: Params::FIELDS,
    defaults: Params::default_bytes,
    output_dims: None,
    check,
    wgpu: OnWgpu::Shader(&[Variant::only(
        "mask/weigh_rows.wgsl",
        include_str!("../../../shaders/mask/weigh_rows.wgsl"),
        &[GROUP, RELATIVE, RELATIVE_ROW],
        |d, batches| batches * u64::from(d.size("c")),
        |d, _| Loads { storage: 3.0 * f64::from(d.size("n")) * f64::from(d.size("c")), ..Loads::default() },
    )
    .rounds(|d| 2 * u64::from(d.size("n").div_ceil(256)) + 8)]),
    cuda: OnCuda::Source(&[cuda_source!("mask/weigh_rows.cu", 256, |d, _| d.batches() * u64::from(d.size("c"))).with(&[cuda_shared!("mask/relative.cuh"), cuda_shared!("mask/relative_row.cuh")])]),
    reference: reference!(reference),
    window: whole_heads,
    cost: |d, _| Cost { flop: 3.0 * words(d), exp: 0.0, stores: 2.0 * words(d), bytes: 16.0 * words(d), ..Cost::default() },
    tolerance: Tolerance::SUMS,
    cases: &[
        Case::new(
            "smallest",
            &[("b", 1), ("h", 1), ("n", 1), ("tables", 1), ("t", 1), ("c", 1)],
            Params::default_bytes,
        )
        .without(NO_MASKS)
        .filled(&FILLS),
        Case::new("odd", &sizes(269, 537, 3), Params::default_bytes).without(&["segment", "given"]).filled(&FILLS),
        Case::new("raw_with_signs", &sizes(77, 13 * 21, 5), || {
            Params { n2: 7, n3: 11, raw: 1, ..Params::default() }.to_bytes()
        })
        .without(NO_MASKS)
        .filled(&[("products", Fill::Uniform(-1.0, 1.0)), FILLS[1], FILLS[2]]),
        Case::new("no_table", &[("b", 1), ("h", 3), ("n", 257), ("c", 2)], Params::default_bytes)
            .without(&["table", "segment", "given"])
            .filled(&[FILLS[0], FILLS[2]]),
        Case::new("given", &[("b", 2), ("h", 3), ("n", 259), ("c", 5)], Params::default_bytes)
            .without(&["table", "segment"])
            .filled(&[FILLS[0], FILLS[2], ("given", GIVEN)]),
        Case::new("given_over_a_table", &sizes(77, 13 * 21, 5), || {
            Params { n2: 7, n3: 11, raw: 1, ..Params::default() }.to_bytes()
        })
        .without(&["key_mask", "segment"])
        .filled(&[FILLS[0], FILLS[1], FILLS[2], ("given", GIVEN)]),
        Case::new("nothing_given", &[("b", 1), ("h", 2), ("n", 33), ("c", 2)], Params::default_bytes)
            .without(&["table", "segment", "key_mask"])
            .filled(&[FILLS[0], FILLS[2], ("given", Fill::Value(0.0))]),
        Case::new("no_key", &sizes(33, 65, 2), Params::default_bytes).without(&["segment", "given"]).filled(&[
            FILLS[0],
            FILLS[1],
            FILLS[2],
            ("key_mask", Fill::Value(0.0)),
        ]),
        Case::new("no_row", &sizes(33, 65, 0), Params::default_bytes).without(NO_MASKS).filled(&FILLS),
        Case::new(
            "one_of_65536",
            &[("b", 1), ("h", 8), ("n", 65_536), ("tables", 1), ("t", 511 * 511), ("c", 1)],
            || Params { n2: 256, n3: 256, ..Params::default() }.to_bytes(),
        )
        .without(NO_MASKS)
        .filled(&FILLS)
        .resized(|d| {
            let [n2, n3] = resize::plane(d.size("n"));
            d.set("t", resize::offsets(&[n2, n3])?);
            Ok(Params { n2, n3, ..Params::default() }.to_bytes())
        })
        .for_bench(),
    ],
    vjp: None,
};
