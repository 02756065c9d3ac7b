//! Long sums in one invocation. llvmpipe ends an invocation's loops, without any error, once they have run 65 535 rounds
//! together; every kernel whose loops grow with the input must split them or refuse.

use wgattn::backend::{Backend, cpu::CpuBackend};
use wgattn::kernel::case::{Concrete, deviation};
use wgattn::kernel::{Access, Case, Fill};
use wgattn::kernels::find;

mod support;

/// Runs a case of a kernel on every adapter and compares with f64.
fn agrees(kernel: &str, case: &'static Case, allowed: f64) {
    let spec = find(kernel).expect("the kernel is in the list");
    let concrete = Concrete::of(spec, case).expect("the case is consistent");
    let truth = concrete.truth().expect("the reference runs");
    let mut backends: Vec<(String, Box<dyn Backend>)> = vec![("cpu".into(), Box::new(CpuBackend))];
    backends.extend(support::backends().into_iter().map(|(n, b)| (n, Box::new(b) as Box<dyn Backend>)));
    for (name, backend) in backends {
        let (graph, _, tensors) = concrete.graph().expect("the graph records");
        let mut program = match backend.compile(&graph) {
            Ok(program) => program,
            Err(wgattn::Error::Limit { .. }) => continue, // refused with words: what the rule asks for
            Err(error) => panic!("{name}: {error}"),
        };
        for (tensor, input) in tensors.iter().zip(&concrete.inputs) {
            if let (Some(tensor), Some(input)) = (tensor, input) {
                program.write(*tensor, input).expect("the input fits");
            }
        }
        program.run().expect("the program runs");
        for (i, port) in
            spec.ports.iter().enumerate().filter(|(_, p)| p.access == Access::Write && !p.diagnostic)
        {
            let (Some(tensor), Some(truth)) = (tensors[i], &truth[i]) else { continue };
            let found =
                deviation(&program.read(tensor).expect("the output reads"), truth).expect("shapes agree");
            assert!(found.error <= allowed, "{kernel} on {name}: {} off by {found:?}", port.name);
        }
    }
}

const LAMBDA: &[(&str, Fill)] = &[("lambda", Fill::Value(8.0))];

#[test]
fn exact_attention_over_many_keys() {
    static CASE: Case = Case::new(
        "many_keys",
        &[("b", 1), ("h", 1), ("n", 9), ("m", 80_000), ("d", 32), ("e", 32), ("bandwidths", 1)],
        || {
            wgattn::kernel::KernelParams::to_bytes(&wgattn::kernels::attention::exact_attention::Params {
                metric: 1,
                ..Default::default()
            })
        },
    )
    .without(&["key_mask", "mask", "query_mask"])
    .filled(LAMBDA);
    agrees("exact_attention", &CASE, 1e-4);
}

#[test]
fn exact_attention_over_many_keys_of_an_odd_width() {
    static CASE: Case = Case::new(
        "many_keys",
        &[("b", 1), ("h", 1), ("n", 5), ("m", 70_001), ("d", 7), ("e", 5), ("bandwidths", 1)],
        || {
            wgattn::kernel::KernelParams::to_bytes(&wgattn::kernels::attention::exact_attention::Params {
                metric: 1,
                ..Default::default()
            })
        },
    )
    .without(&["key_mask", "mask", "query_mask"])
    .filled(LAMBDA);
    agrees("exact_attention", &CASE, 1e-4);
}

#[test]
fn moments_over_many_queries() {
    static CASE: Case = Case::new(
        "many_queries",
        &[("b", 1), ("h", 1), ("n", 70_000), ("m", 5), ("d", 8), ("bandwidths", 1)],
        || {
            wgattn::kernel::KernelParams::to_bytes(&wgattn::kernels::attention::key_moments::Params {
                metric: 1,
                ..Default::default()
            })
        },
    )
    .without(&["row_shift", "query_mask"])
    .filled(LAMBDA);
    agrees("key_moments", &CASE, 1e-4);
}

#[test]
fn nystrom_rows_of_many_queries_and_wide_heads() {
    static CASE: Case = Case::new(
        "wide",
        &[("b", 1), ("h", 1), ("n", 70), ("m", 49), ("d", 130), ("r", 12), ("mw", 52)],
        wgattn::kernels::laplacian::nystrom_row::Params::default_bytes,
    )
    .without(&["scale", "keep"])
    .filled(LAMBDA);
    agrees("nystrom_row", &CASE, 1e-5);
    static NARROW: Case = Case::new(
        "many",
        &[("b", 1), ("h", 1), ("n", 70), ("m", 100), ("d", 32), ("r", 700), ("mw", 104)],
        wgattn::kernels::laplacian::nystrom_row::Params::default_bytes,
    )
    .without(&["scale", "keep"])
    .filled(LAMBDA);
    agrees("nystrom_row", &NARROW, 1e-5);
}

#[test]
fn exact_rows_of_many_queries() {
    static CASE: Case = Case::new(
        "many",
        &[("b", 1), ("h", 1), ("n", 70), ("d", 130), ("r", 600), ("bandwidths", 1)],
        wgattn::kernels::attention::exact_row::Params::default_bytes,
    )
    .without(&["log_sum", "keep"])
    .filled(LAMBDA);
    agrees("exact_row", &CASE, 1e-5);
}

#[test]
fn products_over_many_terms() {
    static CASE: Case = Case::new(
        "deep",
        &[("b", 1), ("h", 1), ("ar", 3), ("ac", 70_000), ("wr", 70_000), ("wc", 5), ("n", 3), ("p", 5)],
        wgattn::kernels::linalg::matmul::Params::default_bytes,
    )
    .without(&["residual", "bias"]);
    agrees("matmul", &CASE, 1e-4);
    static TEXELS: Case = Case::new(
        "deep_texels",
        &[("b", 1), ("h", 1), ("ar", 16), ("ac", 300_000), ("wr", 300_000), ("wc", 16), ("n", 16), ("p", 16)],
        wgattn::kernels::linalg::matmul::Params::default_bytes,
    )
    .without(&["residual", "bias"]);
    agrees("matmul", &TEXELS, 1e-3);
}

#[test]
fn masks_of_many_tokens() {
    static CASE: Case = Case::new("many", &[("b", 1), ("h", 1), ("n", 5_000_000)], Vec::new)
        .filled(&[("keep", Fill::Value(1.0))]);
    agrees("mask_weights", &CASE, 1e-6);
}

#[test]
fn large_cells_of_tokens() {
    use wgattn::tensor::{Dims, HostData};
    fn one_cell(d: &Dims) -> HostData {
        HostData::U32(vec![0, 0, 1, 0, d.size("n")])
    }
    static CASE: Case =
        Case::new("large_cell", &[("b", 1), ("h", 1), ("n", 200_000), ("nq", 0), ("m", 1), ("d", 2)], || {
            wgattn::kernel::KernelParams::to_bytes(&wgattn::kernels::laplacian::pool_tokens::Params {
                grid_cols: 200_000,
            })
        })
        .without(&["q", "keep"])
        .filled(&[("cells", Fill::Made(one_cell))]);
    agrees("pool_tokens", &CASE, 1e-4);
}
