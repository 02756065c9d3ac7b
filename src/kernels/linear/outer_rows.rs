//! Products of features and values token by token: the channels to which a mask is applied.
//!
//! `out[i, l (e + 1) + c]` = `k[i, first + l]` · [`v[i]`, 1]`[c]` where token i is kept, 0 elsewhere
//!
//! `k` `[b, h, n, r]`, `v` `[b, h, n, e]`, `keep` `[b, h, n]`, `out` `[b, h, n, s]`: s/(e + 1) features from `first` on, so that a caller can take
//! them in slices and never needs n × r × e numbers at once.

use crate::error::Result;
use crate::kernel::wgsl_module::{BYTES, GROUP};
use crate::kernel::*;
use crate::kernels::laplacian::kernel_matrix::kept;
use crate::tensor::{DType, Dims};
use crate::{cuda_shared, cuda_source, params, reference};

params! {
    /// Parameters of [`SPEC`].
    pub struct Params {
        /// the first feature of the slice
        live first: u32 = 0,
    }
}

/// Whether the slice of `s` channels from feature `first` lies within the r features of e + 1 columns.
pub(super) fn check_slice(dims: &Dims, first: u32) -> std::result::Result<(), String> {
    let [r, e, s] = ["r", "e", "s"].map(|d| u64::from(dims.size(d)));
    if !s.is_multiple_of(e + 1) || u64::from(first) + s / (e + 1) > r {
        return Err(format!("s is a multiple of e + 1 = {} and the slice ends by r = {r}; got s = {s} from feature {first}", e + 1));
    }
    Ok(())
}

fn reference<T: Real>(args: &mut HostArgs<T>) -> Result<()> {
    let p: Params = args.params();
    let [n, r, e, s] = ["n", "r", "e", "s"].map(|d| args.dims.at(d));
    let (k, v) = (args.real("k"), args.real("v"));
    let shared = &*args;
    let out = reference::rows(args.dims.batches() as usize, n, s, |batch, i, line| {
        if !kept(shared, "keep", batch, i) {
            return;
        }
        let at = batch * n + i;
        for (x, row) in k[at * r + p.first as usize..].iter().zip(line.chunks_exact_mut(e + 1)) {
            row[..e].iter_mut().zip(&v[at * e..]).for_each(|(y, value)| *y = *x * *value);
            row[e] = *x;
        }
    });
    args.set("out", out);
    Ok(())
}

const K: (&str, Fill) = ("k", Fill::Uniform(0.0, 1.0));

/// The kernel's description.
pub static SPEC: KernelSpec = KernelSpec {
    name: "outer_rows",
    family: "linear",
    formula: "out[i, l(e+1)+c] = k[i, first+l] · [v[i], 1][c]",
    source: "Choromanski et al. 2022, masked attention from a mask's product, step 1",
    ports: &[
        Port::read("k", &["b", "h", "n", "r"]),
        Port::read("v", &["b", "h", "n", "e"]),
        Port::read("keep", &["b", "h", "n"]).of(DType::U8).broadcast().optional(),
        Port::write("out", &["b", "h", "n", "s"]),
    ],
    params: Params::FIELDS,
    defaults: Params::default_bytes,
    output_dims: Some(|dims, params| {
        let features = dims.size("r").saturating_sub(Params::from_bytes(params).first);
        dims.set("s", features * (dims.size("e") + 1));
    }),
    check: |dims, params| check_slice(dims, Params::from_bytes(params).first),
    wgpu: OnWgpu::Shader(&[Variant::only(
        "linear/outer_rows.wgsl",
        include_str!("../../../shaders/linear/outer_rows.wgsl"),
        &[GROUP, BYTES],
        |d, batches| batches * (u64::from(d.size("n")) * u64::from(d.size("s"))).div_ceil(64),
        |d, _| Loads { storage: 2.0 * f64::from(d.size("n")) * f64::from(d.size("s")), ..Loads::default() },
    )]),
    cuda: OnCuda::Source(&[cuda_source!("linear/outer_rows.cu", 256, |d, _| {
        d.batches() * (u64::from(d.size("n")) * u64::from(d.size("s"))).div_ceil(256)
    })
    .with(&[cuda_shared!("shared/items.cuh")])]),
    reference: reference!(reference),
    window: by_rows,
    cost: |d, _| {
        let words = d.batches() as f64 * f64::from(d.size("n")) * f64::from(d.size("s"));
        Cost { flop: words, exp: 0.0, stores: words, bytes: 4.0 * words, ..Cost::default() }
    },
    tolerance: Tolerance::SUMS,
    cases: &[
        Case::new("smallest", &[("b", 1), ("h", 1), ("n", 1), ("r", 1), ("e", 1), ("s", 2)], Params::default_bytes).without(&["keep"]),
        Case::new("odd", &[("b", 2), ("h", 3), ("n", 17), ("r", 7), ("e", 5), ("s", 18)], || Params { first: 3 }.to_bytes()).filled(&[K]),
        Case::new("masked_garbage", &[("b", 1), ("h", 2), ("n", 9), ("r", 4), ("e", 3), ("s", 16)], Params::default_bytes)
            .filled(&[("k", Fill::Value(1e30)), ("v", Fill::Value(3e38)), ("keep", Fill::Value(0.0))]).shared(&["keep"]),
    ],
    vjp: None,
};
