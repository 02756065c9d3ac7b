//! Stored arrays, one kernel run by port names, and Nyström attention written out densely in f64: what the tests of
//! attention share.
#![allow(dead_code, reason = "each test program uses a part of this")]

use nalgebra::DMatrix;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use wgattn::arrays::{Array, ArrayData, read};
use wgattn::backend::Backend;
use wgattn::graph::Graph;
use wgattn::kernel::{Access, KernelParams as _, KernelSpec};
use wgattn::kernels::laplacian::nystrom::Params;
use wgattn::kernels::laplacian::{nystrom_attention, nystrom_map};
use wgattn::tensor::{HostData, HostTensor, Shape};

/// The names of the normalisations in files, in the order of their numbers.
pub(crate) const NORMALISATIONS: [&str; 5] = ["none", "row", "col", "cheap", "softpp"];

pub(crate) type Device = (String, Arc<dyn Backend>);

/// The CPU and every adapter of this machine.
pub(crate) fn devices() -> Vec<Device> {
    crate::support::devices().to_vec()
}

/// One stored case.
pub(crate) struct Stored(BTreeMap<String, Array>);

impl Stored {
    pub(crate) fn read(name: &str) -> Self {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/data/laplacian/{name}.npz"));
        Self(read(path).expect("the stored case is there"))
    }

    pub(crate) fn has(&self, name: &str) -> bool {
        self.0.contains_key(name)
    }

    pub(crate) fn numbers(&self, name: &str) -> Vec<f64> {
        match &self.0[name].data {
            ArrayData::F32(v) => v.iter().map(|&x| f64::from(x)).collect(),
            ArrayData::F64(v) => v.clone(),
            ArrayData::I32(v) => v.iter().map(|&x| f64::from(x)).collect(),
            other => panic!("{name} is {}", other.dtype()),
        }
    }

    pub(crate) fn number(&self, name: &str) -> f64 {
        self.numbers(name)[0]
    }

    /// A matrix as `[1, 1, rows, cols]`, a mask as `[1, 1, tokens]`, other lists as they are.
    pub(crate) fn tensor(&self, name: &str) -> HostTensor {
        let array = &self.0[name];
        let data = match &array.data {
            ArrayData::F32(v) => HostData::F32(v.clone()),
            ArrayData::F64(v) => HostData::F64(v.clone()),
            ArrayData::U8(v) => HostData::U8(v.clone()),
            other => panic!("{name} holds {}", other.dtype()),
        };
        let sizes: Vec<u32> = array.shape.iter().map(|&x| x as u32).collect();
        let shape: Shape = match (&sizes[..], &data) {
            (&[rows, cols], _) => [1, 1, rows, cols].into(),
            (&[len], HostData::U8(_)) => [1, 1, len].into(),
            (&[len], _) => [len].into(),
            _ => panic!("{name} has shape {sizes:?}"),
        };
        HostTensor::new(shape, data).expect("the shape is the array's own")
    }
}

/// Runs one kernel on tensors given by port name; the outputs in the order asked for.
pub(crate) fn run(
    backend: &dyn Backend,
    spec: &'static KernelSpec,
    params: &[u8],
    inputs: &[(&str, &HostTensor)],
    outputs: &[(&str, Shape)],
) -> Vec<HostTensor> {
    let mut graph = Graph::new(spec.name);
    let mut given = Vec::new();
    let mut made = BTreeMap::new();
    let mut args = Vec::new();
    for port in spec.ports {
        args.push(if port.access == Access::Write {
            outputs.iter().find(|(name, _)| *name == port.name).map(|(name, shape)| {
                let tensor = graph.transient(name, *shape, port.dtype);
                made.insert(*name, tensor);
                tensor
            })
        } else {
            inputs.iter().find(|(name, _)| *name == port.name).map(|(name, data)| {
                let tensor = graph.input(name, data.shape(), data.dtype());
                given.push((tensor, *data));
                tensor
            })
        });
    }
    assert_eq!(given.len(), inputs.len(), "{} lacks one of the ports given", spec.name);
    graph.pass_bytes(spec, params, &args).expect("the pass fits");
    made.values().for_each(|t| graph.output(*t).expect("a transient"));
    let mut program = backend.compile(&graph).expect("the graph compiles");
    given.iter().for_each(|(t, data)| program.write(*t, data).expect("the data fits"));
    program.run().expect("the graph runs");
    outputs.iter().map(|(name, _)| program.read(made[name]).expect("an output")).collect()
}

/// Inputs of Nyström attention.
#[derive(Clone)]
pub(crate) struct Operands {
    pub q: HostTensor,
    pub k: HostTensor,
    pub v: HostTensor,
    pub landmarks: HostTensor,
    pub landmarks_q: Option<HostTensor>,
    pub lambda: HostTensor,
    pub key_mask: Option<HostTensor>,
    pub query_mask: Option<HostTensor>,
}

impl Operands {
    pub(crate) fn of(file: &Stored) -> Self {
        let (shared, maybe) =
            (!file.has("L_k"), |name: &str| Some(name).filter(|n| file.has(n)).map(|n| file.tensor(n)));
        Self {
            q: file.tensor("q"),
            k: file.tensor("k"),
            v: file.tensor("v"),
            landmarks: file.tensor(if shared { "L" } else { "L_k" }),
            landmarks_q: maybe("L_q"),
            lambda: file.tensor("lambda"),
            key_mask: maybe("key_mask"),
            query_mask: maybe("query_mask"),
        }
    }

    fn ports(&self) -> Vec<(&str, &HostTensor)> {
        let optional = [
            ("landmarks_q", &self.landmarks_q),
            ("key_mask", &self.key_mask),
            ("query_mask", &self.query_mask),
        ];
        let given = optional.into_iter().filter_map(|(name, t)| t.as_ref().map(|t| (name, t)));
        [("q", &self.q), ("k", &self.k), ("landmarks", &self.landmarks), ("lambda", &self.lambda)]
            .into_iter()
            .chain(given)
            .collect()
    }

    /// out `[b, h, n, e]` and status `[b, h, 4]`.
    pub(crate) fn attend(&self, backend: &dyn Backend, params: &Params) -> (HostTensor, Vec<f64>) {
        let (q, v) = (self.q.shape(), self.v.shape());
        let [b, h, n, _] = *q.dims() else { panic!("q is [b, h, n, d]") };
        let outputs = [("out", [b, h, n, v.dims()[3]].into()), ("status", [b, h, 4].into())];
        let mut inputs = self.ports();
        inputs.push(("v", &self.v));
        let out = run(backend, &nystrom_attention::SPEC, &params.to_bytes(), &inputs, &outputs);
        (out[0].clone(), out[1].to_f64())
    }

    /// Rows of the map of all queries, `[n, t]` of one head.
    pub(crate) fn map(&self, backend: &dyn Backend, params: &Params) -> Vec<f64> {
        let (n, t) = (self.q.shape().dims()[2], self.k.shape().dims()[2]);
        let outputs = [("out", [1, 1, t, n].into()), ("status", [1, 1, 4].into())];
        let mut inputs = self.ports();
        inputs.push(("queries", &self.q));
        let out = run(backend, &nystrom_map::SPEC, &params.to_bytes(), &inputs, &outputs);
        let columns = out[0].to_f64();
        (0..n * t).map(|at| columns[(at % t * n + at / t) as usize]).collect()
    }
}

/// Largest deviation relative to the largest expected magnitude; a NaN counts as infinite.
pub(crate) fn deviation(got: &[f64], expected: &[f64]) -> f64 {
    assert_eq!(got.len(), expected.len());
    let scale = expected.iter().fold(1e-30_f64, |m, x| m.max(x.abs()));
    let gap = |(g, e): (&f64, &f64)| if g.is_nan() { f64::INFINITY } else { (g - e).abs() };
    got.iter().zip(expected).map(gap).fold(0.0, f64::max) / scale
}

/// Where two lists differ most, for messages.
pub(crate) fn worst(got: &[f64], expected: &[f64]) -> String {
    let gap = |i: &usize| {
        let gap = (got[*i] - expected[*i]).abs();
        if gap.is_nan() { f64::INFINITY } else { gap }
    };
    let at = (0..got.len()).max_by(|a, b| gap(a).total_cmp(&gap(b))).unwrap_or(0);
    format!("element {at}: got {:e}, expected {:e}", got[at], expected[at])
}

/// The matrices of one head, formed in f64 from their definitions; nothing linear about it.
pub(crate) struct Dense {
    pub c: DMatrix<f64>,
    pub k_hat: DMatrix<f64>,
    pub w: DMatrix<f64>,
    pub x: DMatrix<f64>,
    queries: Vec<f64>,
    keys: Vec<f64>,
    params: Params,
}

fn rows_of(tensor: &HostTensor) -> DMatrix<f64> {
    let [.., rows, cols] = *tensor.shape().dims() else { panic!("a matrix has two dimensions") };
    DMatrix::from_row_slice(rows as usize, cols as usize, &tensor.to_f64())
}

/// 1 where a token is kept.
fn kept(mask: Option<&HostTensor>, tokens: usize) -> Vec<f64> {
    mask.map_or_else(|| vec![1.0; tokens], |m| m.to_f64().iter().map(|x| f64::from(*x != 0.0)).collect())
}

impl Dense {
    /// Of operands with one head.
    pub(crate) fn of(x: &Operands, params: Params) -> Self {
        let (q, k) = (rows_of(&x.q), rows_of(&x.k));
        let (queries, keys) = (kept(x.query_mask.as_ref(), q.nrows()), kept(x.key_mask.as_ref(), k.nrows()));
        let l_k = rows_of(&x.landmarks);
        let l_q = x.landmarks_q.as_ref().map_or_else(|| l_k.clone(), rows_of);
        let lambda = x.lambda.to_f64()[0];
        let kernel = |a: &DMatrix<f64>, b: &DMatrix<f64>, keep: &dyn Fn(usize) -> f64| {
            DMatrix::from_fn(a.nrows(), b.nrows(), |i, j| {
                let gap = |c: usize| a[(i, c)] - b[(j, c)];
                let sum: f64 = (0..a.ncols())
                    .map(|c| if params.metric == 2 { gap(c) * gap(c) } else { gap(c).abs() })
                    .sum();
                if keep(i) == 0.0 { 0.0 } else { (-sum / lambda).exp() }
            })
        };
        let c = kernel(&q, &l_k, &|i| queries[i]);
        let k_hat = kernel(&k, &l_q, &|j| keys[j]);
        let w = kernel(&l_q, &l_k, &|_| 1.0);
        let a = &w + DMatrix::identity(w.nrows(), w.ncols()) * f64::from(params.epsilon);
        let x = a.try_inverse().expect("an invertible landmark matrix");
        Self { c, k_hat, w, x, queries, keys, params }
    }

    /// Ĝ `[n, t]`.
    pub(crate) fn g(&self) -> DMatrix<f64> {
        &self.c * &self.x * self.k_hat.transpose()
    }

    /// N(Ĝ) `[n, t]` as the method defines it, masked rows and columns 0.
    pub(crate) fn z(&self) -> DMatrix<f64> {
        let g = self.g();
        let (n, t) = g.shape();
        let (kept_queries, kept_keys) = (self.queries.iter().sum::<f64>(), self.keys.iter().sum::<f64>());
        let (ew, zs) = (f64::from(self.params.ew), f64::from(self.params.scale(t as u32)));
        let over_queries = |column: &dyn Fn(usize) -> f64| {
            (0..n).map(|i| self.queries[i] * column(i)).sum::<f64>() / kept_queries
        };
        let over_keys =
            |row: &dyn Fn(usize) -> f64| (0..t).map(|j| self.keys[j] * row(j)).sum::<f64>() / kept_keys;
        let whitened = |r: &DMatrix<f64>, shift: &dyn Fn(usize) -> f64| {
            let factors: Vec<(f64, f64)> = (0..t)
                .map(|j| {
                    let mean = over_queries(&|i| r[(i, j)]);
                    let variance = over_queries(&|i| (r[(i, j)] - mean).powi(2));
                    (mean, 1.0 / (variance + ew).sqrt())
                })
                .collect();
            DMatrix::from_fn(n, t, |i, j| {
                (r[(i, j)] - shift(j) * factors[j].0) * factors[j].1 / zs + 1.0 / kept_keys
            })
        };
        let z = match self.params.normalise {
            1 => {
                let means: Vec<f64> = (0..n).map(|i| over_keys(&|j| g[(i, j)])).collect();
                let centred = DMatrix::from_fn(n, t, |i, j| g[(i, j)] - means[i]);
                whitened(&centred, &|_| 0.0)
            }
            2 => whitened(&g, &|_| 1.0),
            3 => {
                let column = |l: usize| {
                    let mean = over_queries(&|i| self.c[(i, l)]);
                    (mean, 1.0 / (over_queries(&|i| (self.c[(i, l)] - mean).powi(2)) + ew).sqrt())
                };
                let columns: Vec<(f64, f64)> = (0..self.c.ncols()).map(column).collect();
                let features = DMatrix::from_fn(n, self.c.ncols(), |i, l| {
                    (self.c[(i, l)] - columns[l].0) * columns[l].1
                });
                (features * &self.x * self.k_hat.transpose() / zs).add_scalar(1.0 / kept_keys)
            }
            4 => {
                let degrees = self.w.column_sum().map(|s| 1.0 / s.sqrt());
                let d = DMatrix::from_diagonal(&degrees);
                &self.c * &d * &self.x * &d * self.k_hat.transpose()
            }
            _ => g,
        };
        DMatrix::from_fn(n, t, |i, j| if self.queries[i] * self.keys[j] == 0.0 { 0.0 } else { z[(i, j)] })
    }

    /// N(Ĝ) V in row-major order.
    pub(crate) fn attend(&self, v: &HostTensor) -> Vec<f64> {
        let mut values = rows_of(v);
        for (j, keep) in self.keys.iter().enumerate().filter(|(_, keep)| **keep == 0.0) {
            values.row_mut(j).fill(*keep);
        }
        (self.z() * values).transpose().as_slice().to_vec()
    }
}
