//! A mask on the hypercube that depends on the Hamming distance alone, times channels, in n log n additions: y = H diag(`spectrum[ones(i)]`) H x.
//!
//! H is the Walsh–Hadamard transform over the bits of the rows' numbers, which diagonalises every function of the Hamming distance; the factor 1/n
//! of H H is the spectrum's. Passes of eight stages; the last group of bits is transformed there and back in one.
//!
//! * `x`, `y` `[b, h, n, c]`, n a power of two; `spectrum` `[h or 1, k]`, k = log₂ n + 1.

use super::walsh_pass::{self, MOST_STAGES, check_spectrum, multiply, transform};
use crate::error::Result;
use crate::graph::Expansion;
use crate::kernel::*;
use crate::reference;
use crate::tensor::DType;

fn reference<T: Real>(args: &mut HostArgs<T>) -> Result<()> {
    let [n, c, k, tables, h] = ["n", "c", "k", "tables", "h"].map(|x| args.dims.at(x));
    let spectrum = args.real("spectrum");
    let bits = n.trailing_zeros();
    let mut y = args.real("x").to_vec();
    for (batch, rows) in y.chunks_mut((n * c).max(1)).enumerate() {
        transform(rows, c, 0, bits);
        multiply(rows, c, &spectrum[if tables == 1 { 0 } else { batch % h * k }..][..k]);
        transform(rows, c, 0, bits);
    }
    args.set("y", y);
    Ok(())
}

/// First bit and number of bits of each pass: as equal as they can be.
fn passes(bits: u32) -> Vec<(u32, u32)> {
    let count = bits.div_ceil(MOST_STAGES).max(1);
    let mut first = 0;
    (0..count)
        .map(|at| {
            let stages = (bits - first).div_ceil(count - at);
            first += stages;
            (first - stages, stages)
        })
        .collect()
}

fn expand(x: &mut Expansion<'_>) -> Result<()> {
    let [b, h, n, c] = ["b", "h", "n", "c"].map(|d| x.dims.size(d));
    let (input, spectrum, output) = (x.port("x"), x.port("spectrum"), x.port("y"));
    let there = passes(n.trailing_zeros());
    let last = there.len() - 1;
    // Down to the last group of bits, which goes there and back, and up again.
    let order = there.iter().enumerate().chain(there.iter().enumerate().take(last).rev());
    let (mut from, count) = (input, 2 * last + 1);
    for (step, (group, &(first, stages))) in order.enumerate() {
        let to = match step + 1 == count {
            true => output,
            false => x.graph.transient("transformed rows", [b, h, n, c], DType::F32),
        };
        let shape = [b, h, n >> (first + stages), 1 << stages, 1 << first, c];
        let [rows, result] = [x.graph.reshape(from, shape)?, x.graph.reshape(to, shape)?];
        let factor = (group == last).then_some(spectrum);
        x.graph.pass(&walsh_pass::SPEC, &NoParams {}, &[Some(rows), factor, Some(result)])?;
        from = to;
    }
    Ok(())
}

const fn sizes(n: u32, c: u32, k: u32) -> [(&'static str, u32); 6] {
    [("b", 2), ("h", 2), ("n", n), ("c", c), ("tables", 2), ("k", k)]
}

/// The kernel's description.
pub static SPEC: KernelSpec = KernelSpec {
    name: "walsh_hadamard",
    family: "fft",
    formula: "y = H diag(spectrum[ones(i)]) H x over the bits of i",
    source: "definition; heat kernel of the hypercube: Kondor, Lafferty 2002",
    ports: &[
        Port::read("x", &["b", "h", "n", "c"]),
        Port::read("spectrum", &["tables", "k"]),
        Port::write("y", &["b", "h", "n", "c"]),
    ],
    params: NoParams::FIELDS,
    defaults: Vec::new,
    output_dims: None,
    check: |d, _| {
        let n = d.size("n");
        if !n.is_power_of_two() {
            return Err(format!("n is a power of two, got {n}"));
        }
        check_spectrum(d, n.trailing_zeros())
    },
    wgpu: OnWgpu::Expand(expand),
    cuda: OnCuda::Expand,
    reference: reference!(reference),
    window: whole_heads,
    cost: |d, _| {
        let all = d.batches() as f64 * f64::from(d.size("n")) * f64::from(d.size("c"));
        let bits = f64::from(d.size("n").max(1).trailing_zeros());
        Cost { flop: all * (2.0 * bits + 1.0), exp: 0.0, stores: all, bytes: 8.0 * all, ..Cost::default() }
    },
    tolerance: Tolerance::SUMS,
    cases: &[
        Case::new(
            "smallest",
            &[("b", 1), ("h", 1), ("n", 1), ("c", 1), ("tables", 1), ("k", 1)],
            Vec::new,
        ),
        Case::new("odd", &sizes(32, 5, 6), Vec::new),
        Case::new("one_pass", &sizes(256, 12, 9), Vec::new),
        Case::new("two_groups", &sizes(512, 8, 10), Vec::new),
        Case::new("two_groups_words", &sizes(2048, 3, 12), Vec::new),
        Case::new(
            "three_groups",
            &[("b", 1), ("h", 1), ("n", 1 << 17), ("c", 1), ("tables", 1), ("k", 18)],
            Vec::new,
        ),
        Case::new(
            "rows_65536",
            &[("b", 1), ("h", 1), ("n", 65_536), ("c", 64), ("tables", 1), ("k", 17)],
            Vec::new,
        )
        .resized(|d| {
            d.set("k", d.size("n").max(1).ilog2() + 1);
            Ok(Vec::new())
        })
        .for_bench(),
    ],
    vjp: None,
};
