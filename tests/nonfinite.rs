//! NaN and infinities are found wherever they are, also where a tensor must be cut into windows.

use wgattn::backend::Program as _;
use wgattn::backend::wgpu::{Options, WgpuBackend};
use wgattn::graph::Graph;
use wgattn::kernels::check::find_nonfinite;
use wgattn::tensor::{DType, HostData, HostTensor};

mod support;

fn main() {
    let args = libtest_mimic::Arguments::from_args();
    let trials = support::trials(&[
        ("the_first_of_several_is_found_across_windows", across_windows),
        ("largest_and_subnormal_numbers_are_finite", edges_are_finite),
        ("every_kind_of_nan_is_found", every_kind),
    ]);
    libtest_mimic::run(&args, trials).exit();
}

fn find(backend: &WgpuBackend, x: Vec<f32>) -> Result<HostData, wgattn::Error> {
    let mut graph = Graph::new("find");
    let tensor = graph.input("x", [x.len() as u32], DType::F32);
    let out = find_nonfinite::record(&mut graph, "found", tensor)?;
    graph.output(out)?;
    let mut program = backend.prepare(&graph)?;
    program.write(tensor, &HostTensor::f32(tensor.shape(), x)?)?;
    // Twice: the counters must not carry anything over.
    program.run()?;
    program.run()?;
    Ok(program.read(out)?.data().clone())
}

fn expect(backend: &WgpuBackend, x: Vec<f32>, count: u32, first: u32) -> Result<(), String> {
    let got = find(backend, x).map_err(|e| e.to_string())?;
    let wanted = HostData::U32(vec![count, first]);
    if got == wanted { Ok(()) } else { Err(format!("got {got:?}, expected {wanted:?}")) }
}

fn across_windows(backend: &WgpuBackend) -> Result<(), String> {
    // 1 MiB bindings hold 262 144 numbers; the tensor has 700 001.
    let (device, queue) = (backend.device().clone(), backend.queue().clone());
    let options = Options { storage_binding: Some(1 << 20), ..Options::default() };
    let small = WgpuBackend::with_options(device, queue, options).map_err(|e| e.to_string())?;
    let mut x = vec![0.5; 700_001];
    expect(&small, x.clone(), 0, find_nonfinite::NONE)?;
    x[700_000] = f32::NAN;
    expect(&small, x.clone(), 1, 700_000)?;
    x[300_000] = f32::INFINITY;
    x[300_001] = f32::NEG_INFINITY;
    expect(&small, x, 3, 300_000)
}

fn edges_are_finite(backend: &WgpuBackend) -> Result<(), String> {
    expect(
        backend,
        vec![f32::MAX, f32::MIN, f32::MIN_POSITIVE, f32::from_bits(1), 0.0, -0.0],
        0,
        find_nonfinite::NONE,
    )
}

fn every_kind(backend: &WgpuBackend) -> Result<(), String> {
    for bits in [0x7f80_0001, 0x7fc0_0000, 0x7fff_ffff, 0xff80_0001, 0xffff_ffff_u32] {
        expect(backend, vec![0.0, 0.0, f32::from_bits(bits), 1.0], 1, 2)
            .map_err(|e| format!("bits {bits:#x}: {e}"))?;
    }
    Ok(())
}
