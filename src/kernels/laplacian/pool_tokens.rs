//! Landmarks: means of tokens over cells of the token grid.
//!
//! One kernel serves pooled, adaptive, strided, mixed, segment and chosen landmarks: they differ only in the table of
//! cells, which [`Landmarks`](crate::attention::Landmarks) makes on the CPU.
//!
//! * `k` `[b, h, n, d]`, `q` `[b, h, nq, d]`: the keys, and the queries where some landmarks come from them.
//! * `cells` `[m, 5]`: source (0 = keys, 1 = queries), first row, end row, first column, end column; token = row ·
//!   `grid_cols` + column.
//! * A cell with ends before its beginnings, outside the grid, or of another source is no landmark: zeros and `valid` 0.
//! * `keep` leaves masked keys out of the means; a cell without any kept token gives zeros and `valid` 0.

use crate::error::Result;
use crate::kernel::wgsl_module::{BYTES, GROUP};
use crate::kernel::*;
use crate::kernels::laplacian::kernel_matrix::kept;
use crate::tensor::{DType, Dims, HostData};
use crate::{cuda_source, params, reference};

params! {
    /// Parameters of [`SPEC`].
    pub struct Params {
        /// columns of the token grid
        live grid_cols: u32 = 1,
    }
}

fn reference<T: Real>(args: &mut HostArgs<T>) -> Result<()> {
    let p: Params = args.params();
    let (n, nq, m, d) = (args.dims.at("n"), args.dims.at("nq"), args.dims.at("m"), args.dims.at("d"));
    let (k, q, cells) = (args.real("k"), args.real_if("q"), args.words("cells"));
    let batches = args.dims.batches() as usize;
    let mut valid = vec![0; batches * m];
    let mut out = vec![T::zero(); batches * m * d];
    for (place, flag) in valid.iter_mut().enumerate() {
        let (batch, landmark) = (place / m, place % m);
        let cell = &cells[5 * landmark..][..5];
        let of_queries = cell[0] == 1 && q.is_some();
        let grid_rows = if of_queries { nq } else { n } as u32 / p.grid_cols;
        let on_grid = cell[0] <= u32::from(q.is_some())
            && cell[1] <= cell[2]
            && cell[3] <= cell[4]
            && cell[4] <= p.grid_cols
            && cell[2] <= grid_rows;
        if !on_grid {
            continue;
        }
        let mut members = 0;
        let line = &mut out[place * d..][..d];
        for token in (cell[1]..cell[2]).flat_map(|r| (cell[3]..cell[4]).map(move |c| (r * p.grid_cols + c) as usize)) {
            let row = match &q {
                Some(q) if of_queries => &q[(batch * nq + token) * d..][..d],
                _ if kept(args, "keep", batch, token) => &k[(batch * n + token) * d..][..d],
                _ => continue,
            };
            members += 1;
            line.iter_mut().zip(row).for_each(|(sum, x)| *sum += *x);
        }
        if members > 0 {
            *flag = 1;
            line.iter_mut().for_each(|x| *x /= T::of(f64::from(members)));
        }
    }
    args.set("out", out);
    args.set_words("valid", valid);
    Ok(())
}

/// Cells of two rows by three columns on a grid six columns wide, alternately of keys and queries.
fn two_by_three(d: &Dims) -> HostData {
    let cell = |l: u32| [l % 2, l / 2 * 2, l / 2 * 2 + 2, l % 2 * 3, l % 2 * 3 + 3];
    HostData::U32((0..d.size("m")).flat_map(cell).collect())
}

fn all_of_keys(d: &Dims) -> HostData {
    HostData::U32((0..d.size("m")).flat_map(|l| [0, l, l + 1, 0, d.size("n") / d.size("m")]).collect())
}

/// Cells that are not on a 6 × 5 grid of keys, and one that is.
fn off_the_grid(_: &Dims) -> HostData {
    let cells = [[0, 0, 6, 0, 6], [0, 3, 1, 0, 2], [0, 0, 1, 4, 7], [7, 0, 1, 0, 1], [0, 1, 3, 2, 4], [0, 100, 102, 0, 2]];
    HostData::U32(cells.concat())
}

/// The kernel's description.
pub static SPEC: KernelSpec = KernelSpec {
    name: "pool_tokens",
    family: "laplacian",
    formula: "out[l] = mean of the kept tokens of cell l",
    source: "PVTv2 and LaplacianFormer (average pooling), Nyströmformer (segment means)",
    ports: &[
        Port::read("k", &["b", "h", "n", "d"]),
        Port::read("q", &["b", "h", "nq", "d"]).optional(),
        Port::read("cells", &["m", "5"]).of(DType::U32),
        Port::read("keep", &["b", "h", "n"]).of(DType::U8).broadcast().optional(),
        Port::write("out", &["b", "h", "m", "d"]),
        Port::write("valid", &["b", "h", "m"]).of(DType::U32),
    ],
    params: Params::FIELDS,
    defaults: Params::default_bytes,
    output_dims: None,
    check: |_, params| match Params::from_bytes(params).grid_cols {
        0 => Err("grid_cols is at least 1, got 0".into()),
        _ => Ok(()),
    },
    wgpu: OnWgpu::Shader(&[Variant::only(
        "laplacian/pool_tokens.wgsl",
        include_str!("../../../shaders/laplacian/pool_tokens.wgsl"),
        &[GROUP, BYTES],
        |d, batches| batches * u64::from(d.size("m")) * u64::from(d.size("d").div_ceil(4)),
        |d, _| Loads { storage: f64::from(d.size("n")) * f64::from(d.size("d")), ..Loads::default() },
    ).rounds(|d| 16 + u64::from(d.size("n").max(d.size("nq")).div_ceil(16)))]),
    cuda: OnCuda::Source(&[cuda_source!("laplacian/pool_tokens.cu", 256, |d, _| {
        d.batches() * u64::from(d.size("m")) * u64::from(d.size("d").div_ceil(32).max(1))
    })]),
    reference: reference!(reference),
    window: whole_heads,
    cost: |d, _| {
        let words = d.batches() as f64 * f64::from(d.size("n")) * f64::from(d.size("d"));
        let out = d.batches() as f64 * f64::from(d.size("m")) * f64::from(d.size("d"));
        Cost { flop: words, exp: 0.0, stores: out, bytes: 4.0 * (words + out), ..Cost::default() }
    },
    tolerance: Tolerance::SUMS,
    cases: &[
        Case::new("smallest", &[("b", 1), ("h", 1), ("n", 1), ("nq", 0), ("m", 1), ("d", 1)], || Params { grid_cols: 1 }.to_bytes())
            .without(&["q", "keep"]).filled(&[("cells", Fill::Made(all_of_keys))]),
        Case::new("odd", &[("b", 2), ("h", 3), ("n", 36), ("nq", 36), ("m", 5), ("d", 7)], || Params { grid_cols: 6 }.to_bytes())
            .filled(&[("cells", Fill::Made(two_by_three))]),
        Case::new("empty_cells", &[("b", 1), ("h", 2), ("n", 30), ("nq", 0), ("m", 5), ("d", 9)], || Params { grid_cols: 6 }.to_bytes())
            .without(&["q"]).filled(&[("cells", Fill::Made(all_of_keys)), ("keep", Fill::Value(0.0))]),
        Case::new("off_the_grid", &[("b", 1), ("h", 2), ("n", 30), ("nq", 0), ("m", 6), ("d", 9)], || {
            Params { grid_cols: 6 }.to_bytes()
        })
        .without(&["q", "keep"])
        .filled(&[("cells", Fill::Made(off_the_grid))]),
    ],
    vjp: None,
};
