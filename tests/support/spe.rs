//! Stored arrays of a published program of stochastic position codes, and the codes that it had.
#![allow(dead_code, reason = "each test program uses a part of this")]

use std::collections::BTreeMap;
use std::path::Path;
use wgattn::arrays::{Array, ArrayData, read};
use wgattn::position::sine::SineSizes;
use wgattn::position::{ConvCode, Gate, Meaning, SineCode};
use wgattn::tensor::{HostData, HostTensor};

pub(crate) struct File(BTreeMap<String, Array>);

impl File {
    pub(crate) fn open(name: &str) -> Self {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/data/spe/{name}.npz"));
        Self(read(path).expect("the stored arrays are there"))
    }

    pub(crate) fn has(&self, name: &str) -> bool {
        self.0.contains_key(name)
    }

    pub(crate) fn array(&self, name: &str) -> &Array {
        self.0.get(name).unwrap_or_else(|| panic!("no array {name}"))
    }

    pub(crate) fn numbers(&self, name: &str) -> Vec<f64> {
        match &self.array(name).data {
            ArrayData::F64(v) => v.clone(),
            ArrayData::I32(v) => v.iter().map(|x| f64::from(*x)).collect(),
            other => panic!("{name} is {}", other.dtype()),
        }
    }

    pub(crate) fn words(&self, name: &str) -> Vec<u32> {
        match &self.array(name).data {
            ArrayData::U32(v) => v.clone(),
            other => panic!("{name} is {}", other.dtype()),
        }
    }

    pub(crate) fn shape(&self, name: &str) -> Vec<u32> {
        self.array(name).shape.iter().map(|&x| x as u32).collect()
    }

    /// `[b, n, h, d]` as `[b, h, n, d]`.
    pub(crate) fn by_head(&self, name: &str) -> HostTensor {
        let &[b, n, h, d] = &self.array(name).shape[..] else { panic!("{name} has other axes") };
        let x = self.numbers(name);
        let rows = (0..b).flat_map(|b| (0..h).flat_map(move |h| (0..n).map(move |n| (b, h, n))));
        let all = rows.flat_map(|(b, head, i)| x[((b * n + i) * h + head) * d..][..d].to_vec()).collect();
        HostTensor::new([b as u32, h as u32, n as u32, d as u32], HostData::F64(all)).expect("works")
    }

    /// The gate, where there is one.
    pub(crate) fn gate(&self) -> Option<Gate> {
        self.has("gate").then(|| {
            let &[h, d] = &self.shape("gate")[..] else { panic!("gate has other axes") };
            Gate::new(h, d, self.numbers("gate"), Meaning::Paper).expect("works")
        })
    }

    /// Sinusoids whose names have a prefix.
    pub(crate) fn sine(&self, prefix: &str) -> SineCode {
        let &[heads, width, sinusoids] = &self.shape(&format!("{prefix}freqs"))[..] else {
            panic!("freqs has other axes")
        };
        let read = |name: &str| self.numbers(&format!("{prefix}{name}"));
        let sizes = SineSizes { heads, width, sinusoids, axes: 1 };
        SineCode::from_raw(sizes, &read("freqs"), &read("offsets"), &read("gains")).expect("works")
    }

    /// Filters: the program makes queries' codes with the one that it calls `conv_k`.
    pub(crate) fn conv(&self) -> ConvCode {
        let (heads, width) = (self.shape("q")[2], self.shape("q")[3]);
        let taps = self.shape("param_conv_q.weight")[2];
        let of = |name: &str| self.numbers(&format!("param_{name}.weight"));
        ConvCode::new(heads, width, &[taps], of("conv_k"), of("conv_q")).expect("works")
    }

    /// The samples of its noise `[r, h · d, n + 4 P]` that it hears, P … P + n + P − 2, as `[h, d, u, r]`.
    pub(crate) fn samples(&self) -> Vec<f64> {
        let &[r, channels, length] = &self.array("noise").shape[..] else { panic!("other axes") };
        let (n, taps) = (self.array("q").shape[1], self.array("param_conv_q.weight").shape[2]);
        let drawn = self.numbers("noise");
        let place = |c: usize, u: usize, lane: usize| drawn[(lane * channels + c) * length + taps + u];
        let places = (0..channels).flat_map(|c| (0..n + taps - 1).map(move |u| (c, u)));
        places
            .flat_map(|(c, u)| (0..r).map(move |lane| (c, u, lane)))
            .map(|(c, u, lane)| place(c, u, lane))
            .collect()
    }
}
