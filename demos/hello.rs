//! Attention over random tokens, on the best device of this machine or the one named on the command line.

use wgattn::attention::{Attention, Masks, Qkv};
use wgattn::backend::device;
use wgattn::graph::Graph;
use wgattn::tensor::{DType, HostTensor};

fn main() -> wgattn::Result<()> {
    let opened = device::open(&std::env::args().nth(1).unwrap_or_else(|| "auto".into()))?;
    opened.notices.iter().for_each(|notice| eprintln!("{notice}"));

    let (heads, tokens, d) = (4, 32 * 32, 32);
    let mut graph = Graph::new("hello");
    let [q, k, v] = ["q", "k", "v"].map(|name| graph.input(name, [1, heads, tokens, d], DType::F32));
    let lambda = graph.input("lambda", [heads], DType::F32);
    let qkv = Qkv { q, k, v, lambda, grid: (32, 32) };
    let attended = Attention::default().record(&mut graph, qkv, Masks::default())?;
    graph.output(attended.out)?;

    let mut program = opened.backend.compile(&graph)?;
    for (seed, tensor) in [q, k, v].into_iter().enumerate() {
        program
            .write(tensor, &HostTensor::f32(tensor.shape(), random(seed as u32, tensor.shape().len()))?)?;
    }
    program.write(lambda, &HostTensor::f32([heads], vec![16.0; heads as usize])?)?;
    let times = program.run()?;
    let out = program.read(attended.out)?.to_f32();
    println!(
        "{tokens} tokens, {heads} heads on {}: {:.1} ms",
        opened.backend.info().name,
        times.wall_seconds * 1e3
    );
    println!("out[0, 0, 0, ..4] = {:?}", &out[..4]);
    Ok(())
}

/// Numbers in [−1, 1) from a multiplicative congruential generator: the same on every machine.
fn random(seed: u32, count: u64) -> Vec<f32> {
    let mut state = seed.wrapping_mul(0x9e37_79b9) | 1;
    let next = |_| {
        state = state.wrapping_mul(0x915f_77f5);
        (state >> 8) as f32 / (1 << 23) as f32 - 1.0
    };
    (0..count).map(next).collect()
}
