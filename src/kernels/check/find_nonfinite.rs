//! Whether a tensor holds NaN or infinities, how many, and where the first one is.
//!
//! out = (#{i : x\[i\] not finite}, min {i : x\[i\] not finite}), i counted in row-major order; 0xffffffff where there is none.
//!
//! * `x` `[b, h, n, d]`, fewer than 2³² elements.
//! * `out` `[2]`: count and first index.
//!
//! On a device: [`nonfinite_parts`] looks at parts of 8192 numbers, and
//! [`nonfinite_merge`] adds them up. The test looks at bits, because some drivers take a NaN for
//! an ordinary number in comparisons.

use super::{nonfinite_merge, nonfinite_parts};
use crate::error::{Error, Result};
use crate::graph::{Expansion, Graph};
use crate::kernel::*;
use crate::reference;
use crate::tensor::{DType, Dims, HostData, Tensor};

/// The index that says that every number is finite.
pub const NONE: u32 = u32::MAX;

/// Numbers that one workgroup looks at: enough to keep 256 threads busy, few enough to fill a GPU at 10⁶ numbers.
const PART: u32 = 8192;

fn check(dims: &Dims, _: &[u8]) -> std::result::Result<(), String> {
    let len = u128::from(dims.batches()) * u128::from(dims.size("n")) * u128::from(dims.size("d"));
    if len < u128::from(u32::MAX) {
        Ok(())
    } else {
        Err(format!("counts to 2³² − 1 elements, got {len}"))
    }
}

/// Count and first index of what is not finite.
pub(super) fn count_and_first<T: Real>(x: &[T]) -> [u32; 2] {
    let mut bad = x.iter().enumerate().filter(|(_, x)| !x.is_finite());
    match bad.next() {
        None => [0, NONE],
        Some((first, _)) => [1 + bad.count() as u32, first as u32],
    }
}

fn reference<T: Real>(args: &mut HostArgs<T>) -> Result<()> {
    let found = count_and_first(&args.real("x"));
    args.set_words("out", found.to_vec());
    Ok(())
}

fn expand(e: &mut Expansion<'_>) -> Result<()> {
    let (x, out) = (e.port("x"), e.port("out"));
    let too_long = |_| {
        Error::value(
            "elements of find_nonfinite",
            "fewer than 2³²",
            x.shape(),
            "look at parts of the tensor",
        )
    };
    let len = u32::try_from(x.shape().len()).map_err(too_long)?;
    let list = e.graph.reshape(x, [1, 1, len])?;
    let count = len.div_ceil(PART);
    let parts = e.graph.transient("nonfinite parts", [1, 1, count, 2], DType::U32);
    let params = nonfinite_parts::Params { rows: PART };
    e.graph
        .pass(&nonfinite_parts::SPEC, &params, &[Some(list), Some(parts)])?;
    let parts = e.graph.reshape(parts, [count, 2])?;
    e.graph.pass(
        &nonfinite_merge::SPEC,
        &nonfinite_merge::Params { rows: PART },
        &[Some(parts), Some(out)],
    )?;
    Ok(())
}

/// Test data: zeros with something not finite at every 1000th element from element 5 on.
pub(super) fn sprinkled(len: usize) -> HostData {
    let odd = [
        f32::NAN,
        f32::INFINITY,
        f32::NEG_INFINITY,
        f32::from_bits(0xff80_0001),
    ];
    let number = |i: usize| {
        if i % 1000 == 5 {
            odd[i / 1000 % 4]
        } else {
            i as f32
        }
    };
    HostData::F32((0..len).map(number).collect())
}

fn len(dims: &Dims) -> f64 {
    dims.batches() as f64 * f64::from(dims.size("n")) * f64::from(dims.size("d"))
}

fn sprinkled_all(dims: &Dims) -> HostData {
    sprinkled(len(dims) as usize)
}

fn only_last(dims: &Dims) -> HostData {
    let len = len(dims) as usize;
    HostData::F32(
        (0..len)
            .map(|i| if i + 1 == len { f32::NAN } else { f32::MAX })
            .collect(),
    )
}

/// The kernel's description.
pub static SPEC: KernelSpec = KernelSpec {
    name: "find_nonfinite",
    family: "check",
    formula: "out = (#{i : x[i] not finite}, min {i : x[i] not finite})",
    source: "definition",
    ports: &[
        Port::read("x", &["b", "h", "n", "d"]),
        Port::write("out", &["2"]).of(DType::U32),
    ],
    params: &[],
    defaults: Vec::new,
    output_dims: None,
    check,
    wgpu: OnWgpu::Expand(expand),
    cuda: OnCuda::Expand,
    reference: reference!(reference),
    window: whole_heads,
    cost: |d, _| Cost {
        flop: len(d),
        exp: 0.0,
        stores: 2.0,
        bytes: 4.0 * len(d) + 8.0,
        ..Cost::default()
    },
    tolerance: Tolerance::EXACT,
    cases: &[
        Case::new("smallest", &[("b", 1), ("h", 1), ("n", 1), ("d", 1)], Vec::new),
        Case::new("odd", &[("b", 2), ("h", 3), ("n", 37), ("d", 5)], Vec::new)
            .filled(&[("x", Fill::Made(sprinkled_all))]),
        Case::new(
            "all_finite",
            &[("b", 1), ("h", 1), ("n", 130), ("d", 65)],
            Vec::new,
        ),
        Case::new(
            "part_plus_one",
            &[("b", 1), ("h", 1), ("n", 8193), ("d", 1)],
            Vec::new,
        )
        .filled(&[("x", Fill::Made(only_last))]),
        Case::new(
            "many_parts",
            &[("b", 1), ("h", 2), ("n", 5001), ("d", 33)],
            Vec::new,
        )
        .filled(&[("x", Fill::Made(sprinkled_all))]),
        Case::new(
            "words_4m",
            &[("b", 1), ("h", 1), ("n", 65_536), ("d", 64)],
            Vec::new,
        )
        .for_bench(),
    ],
    vjp: None,
};

/// Records the search through `x` of any shape into a new transient `[2]`: count and first index.
///
/// Errors: [`Error::Value`] for 2³² elements or more; another element type, with the caller's place.
#[track_caller]
pub fn record(graph: &mut Graph, name: &str, x: Tensor) -> Result<Tensor> {
    let too_long = |_| {
        Error::value(
            "elements of find_nonfinite",
            "fewer than 2³²",
            x.shape(),
            "look at parts of the tensor",
        )
    };
    let len = u32::try_from(x.shape().len()).map_err(too_long)?;
    let list = graph.reshape(x, [1, 1, len, 1])?;
    let out = graph.transient(name, [2], DType::U32);
    graph.pass(&SPEC, &NoParams {}, &[Some(list), Some(out)])?;
    Ok(out)
}
