//! Kernels on sparse operators beyond the parity cases: slices of channels under a small budget, rows longer than a driver's loops,
//! and what is refused.

use wgattn::backend::Backend;
use wgattn::backend::wgpu::{Options, WgpuBackend};
use wgattn::kernel::case::{Concrete, deviation};
use wgattn::kernel::{Case, KernelSpec};
use wgattn::kernels;
use wgattn::tensor::Dims;

mod support;

fn case(kernel: &str, name: &str) -> (&'static KernelSpec, &'static Case) {
    let spec = kernels::find(kernel).expect("a kernel");
    (spec, spec.cases.iter().find(|case| case.name == name).expect("a case"))
}

fn with(case: &Case, sizes: &[(&'static str, u32)]) -> Dims {
    let mut dims = Dims::of(case.dims);
    sizes.iter().for_each(|(name, size)| dims.set(name, *size));
    dims
}

/// Runs a kernel on a device and compares its outputs with the reference.
fn agrees(what: &str, backend: &dyn Backend, concrete: &Concrete) {
    let (graph, _, tensors) = concrete.graph().expect("fits");
    let mut program = backend.compile(&graph).expect("compiles");
    for (tensor, input) in tensors.iter().zip(&concrete.inputs) {
        if let (Some(tensor), Some(input)) = (tensor, input) {
            program.write(*tensor, input).expect("writes");
        }
    }
    program.run().expect("runs");
    for (tensor, truth) in tensors.iter().zip(concrete.truth().expect("a reference")) {
        if let (Some(tensor), Some(truth)) = (tensor, truth) {
            let got = program.read(*tensor).expect("reads");
            let found = deviation(&got, &truth).expect("one shape");
            assert!(found.error < 1e-5, "{what}: {found:?}");
        }
    }
}

/// A budget for four channels of one head cuts heads, then channels; ten channels leave a slice of two.
#[test]
fn a_small_budget_gives_the_same() {
    let (spec, case) = case("chebyshev", "vectors");
    for (name, adapter) in support::adapters_by_name() {
        let whole = WgpuBackend::on_adapter(&adapter, Options::default()).expect("a device");
        for (channels, terms) in [(10, 8), (12, 1), (9, 2), (12, 3)] {
            let dims = with(case, &[("c", channels), ("k", terms)]);
            let concrete = Concrete::with_dims(spec, case, dims).expect("a case");
            for budget in [20 * 65 * 5, 20 * 65 * 25, 1] {
                let options = Options { memory_budget: Some(budget), ..Options::default() };
                let small = WgpuBackend::with_options(whole.device().clone(), whole.queue().clone(), options);
                let what = format!("{name}, {channels} channels, {terms} terms, {budget} bytes");
                agrees(&what, &small.expect("a device"), &concrete);
            }
        }
    }
}

/// Distances of more bytes than a binding holds go by windows of rows.
#[test]
fn distances_larger_than_a_binding_give_the_same() {
    for (name, adapter) in support::adapters_by_name() {
        let whole = WgpuBackend::on_adapter(&adapter, Options::default()).expect("a device");
        let options = Options { storage_binding: Some(48 << 10), ..Options::default() };
        let small = WgpuBackend::with_options(whole.device().clone(), whole.queue().clone(), options);
        let small = small.expect("a device");
        // 700 rows of 50 words: 140 kB.
        for (kernel, case_name) in [
            ("distance_product", "one_table"),
            ("distance_attention", "softmax"),
            ("distance_attention", "masks_words"),
        ] {
            let (spec, case) = case(kernel, case_name);
            let dims = with(case, &[("m", 701), ("n", 199), ("w", 50)]);
            let concrete = Concrete::with_dims(spec, case, dims).expect("a case");
            agrees(&format!("{kernel} on {name}"), &small, &concrete);
        }
    }
}

fn refused(kernel: &str, name: &str, sizes: &[(&'static str, u32)], wanted: &str) {
    let (spec, case) = case(kernel, name);
    let dims = with(case, sizes);
    let said = (spec.check)(&dims, &(case.params)()).expect_err("refused");
    assert!(said.contains(wanted), "`{said}` does not say `{wanted}`");
}

#[test]
fn sizes_that_do_not_fit_are_named() {
    refused("chebyshev", "vectors", &[("k", 0)], "1 to 16384 coefficients");
    refused("chebyshev", "vectors", &[("k", 16_385)], "1 to 16384 coefficients");
    refused("chebyshev", "vectors", &[("s", 65)], "`starts`");
    refused("chebyshev", "vectors", &[("v", 151)], "`weights`");
    refused("chebyshev_step", "vectors", &[("k", 4)], "term 4 has no coefficient");
    refused("chebyshev_step", "vectors", &[("c", 8)], "`cur` has 8 channels");
    refused("spmm", "vectors", &[("s", 41)], "`starts`");
    refused("stencil_step", "vectors", &[("e", 8)], "`w` has a weight for each of 4");
    refused("stencil_step", "vectors", &[("k", 3)], "term 4 has no coefficient");
    refused("distance_product", "odd", &[("w", 9)], "37 distances of 8 bits has 10 words");
    refused("distance_product", "odd", &[("t", 256)], "1 to 255 distances");
    refused("distance_attention", "odd", &[("tables", 3)], "2 heads, or one, got 3");
    refused("graph_attention", "odd", &[("masks", 3)], "2 heads, or one, got 3");
    refused("segment_mean", "odd", &[("s", 23)], "`offsets`");
    refused("join_heads", "odd", &[("p", 14)], "3 · 5 columns");
    refused("walsh_pass", "odd", &[("p", 7)], "powers of two");
    refused("walsh_hadamard", "odd", &[("k", 5)], "6 entries for 0 to 5 ones");
    refused("mirror_grid", "odd", &[("m", 83)], "84");
}
