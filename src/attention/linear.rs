//! Attention through a feature map in linear time: plain, causal, with exponential decay over distance, over packed segments, and
//! over grids. Queries and keys come through the feature map; weights are their products times a mask.
//!
//! ```
//! use wgattn::attention::{LinearAttention, Masks, ScanMask};
//! use wgattn::graph::Graph;
//! use wgattn::tensor::DType;
//!
//! # fn main() -> wgattn::Result<()> {
//! let mut graph = Graph::new("two sentences in one row");
//! let [q, k] = ["q", "k"].map(|name| graph.input(name, [1, 4, 128, 32], DType::F32));
//! let v = graph.input("v", [1, 4, 128, 16], DType::F32);
//! let attention = LinearAttention {
//!     mask: ScanMask::Decay { decay: vec![0.9, 0.97, 0.99, 1.0] },
//!     segments: Some(vec![0, 50, 120]),
//!     ..LinearAttention::default()
//! };
//! let attended = attention.record(&mut graph, (q, k, v), Masks::default())?;
//! graph.output(attended.out)?;
//! # Ok(())
//! # }
//! ```

use super::Masks;
use crate::error::{Error, Result};
use crate::graph::{Graph, PassId};
use crate::kernel::params::NoParams;
use crate::kernels::linear::{attention_step, causal_attention, linear_attention, separable_attention};
use crate::tensor::{DType, HostData, HostTensor, Tensor};

/// Which keys a query sees, and how their weights fall with distance.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum ScanMask {
    /// All keys alike; there may be another number of keys than of queries.
    #[default]
    None,
    /// Keys up to the query itself.
    Causal,
    /// Keys up to the query, weighed with γ^distance; γ in [0, 1], one for all heads or one per head.
    Decay {
        /// γ.
        decay: Vec<f32>,
    },
    /// All keys, weighed with γ^distance.
    TwoSided {
        /// γ.
        decay: Vec<f32>,
    },
    /// Tokens of a grid in raster order, the last axis fastest, weighed with exp(−Σ_a rate_a |offset along axis a|).
    Separable {
        /// Tokens along the three axes; leading ones are 1 for pictures and sequences.
        sides: [u32; 3],
        /// Rates λ ≥ 0 per token along the three axes, one triple for all heads or one per head.
        rates: Vec<[f32; 3]>,
    },
}

/// Linear attention with its settings.
#[derive(Clone, Debug, Default)]
pub struct LinearAttention {
    /// The mask.
    pub mask: ScanMask,
    /// Offsets at which packed sequences begin, and the last one's end: segment i is tokens `segments[i]..segments[i + 1]`. No token
    /// sees another segment; tokens of none see nothing and give zeros. A segment may be empty.
    pub segments: Option<Vec<u32>>,
    /// Whether the denominators are wanted too, to count rows without keys.
    pub denominators: bool,
}

/// What linear attention gives.
#[derive(Clone, Copy, Debug)]
pub struct LinearAttended {
    /// `[b, h, n, e]`; rows without any key are zero.
    pub out: Tensor,
    /// Each row's denominator `[b, h, n]`, 0 where there is no key, for [`rows_without_keys`]; if it was asked for.
    pub denominators: Option<Tensor>,
    /// The pass.
    pub pass: PassId,
}

/// What a streaming step gives.
#[derive(Clone, Copy, Debug)]
pub struct Stepped {
    /// `[b, h, n, e]` of the new tokens.
    pub out: Tensor,
    /// The state after them `[b, h, r, e + 1]`.
    pub state: Tensor,
    /// The pass.
    pub pass: PassId,
}

impl LinearAttention {
    /// Attention under a mask, without segments.
    pub fn of(mask: ScanMask) -> Self {
        Self { mask, ..Self::default() }
    }

    /// Records attention of `q` `[b, h, n, r]` over `k` `[b, h, m, r]` and `v` `[b, h, m, e]`, q and k mapped and non-negative. m = n
    /// unless there is neither a mask nor a segment.
    ///
    /// Errors: shapes that do not fit; a decay outside [0, 1] or a negative rate, with its index; segments that overlap, run
    /// backward or end past the tokens, with the index; segments of a grid, which are not supported.
    #[track_caller]
    pub fn record(
        &self,
        graph: &mut Graph,
        (q, k, v): (Tensor, Tensor, Tensor),
        masks: Masks,
    ) -> Result<LinearAttended> {
        let [b, h, n] = [0, 1, 2].map(|axis| q.dim(axis));
        let reach = match &self.segments {
            None => None,
            Some(offsets) => Some(graph.constant("segments", reach_of(offsets, n)?)),
        };
        let out = graph.transient("attended", [b, h, n, v.dim(3)], DType::F32);
        let denominators = self.denominators.then(|| graph.transient("denominators", [b, h, n], DType::F32));
        let (keys, queries) = (masks.keys, masks.queries);
        let (two_sided, decay) = match &self.mask {
            ScanMask::None if reach.is_none() => {
                let args = [Some(q), Some(k), Some(v), keys, queries, Some(out), denominators];
                let pass = graph.pass(&linear_attention::SPEC, &NoParams {}, &args)?;
                return Ok(LinearAttended { out, denominators, pass });
            }
            ScanMask::Separable { sides, rates } => {
                if reach.is_some() {
                    let remedy =
                        "give every grid a batch element of its own, or use a causal or two-sided mask";
                    return Err(Error::value(
                        "mask of packed segments",
                        "a mask of sequences",
                        "a separable grid mask",
                        remedy,
                    ));
                }
                let decay = graph.constant("decay along the axes", axis_decays(rates, h)?);
                let [n1, n2, n3] = *sides;
                let args = [Some(q), Some(k), Some(v), Some(decay), keys, queries, Some(out), denominators];
                let pass = graph.pass(
                    &separable_attention::SPEC,
                    &separable_attention::Params { n1, n2, n3 },
                    &args,
                )?;
                return Ok(LinearAttended { out, denominators, pass });
            }
            // Every token of a segment sees the whole segment alike.
            ScanMask::None => (1, None),
            ScanMask::Causal => (0, None),
            ScanMask::Decay { decay } => (0, Some(graph.constant("decay", decays(decay, h)?))),
            ScanMask::TwoSided { decay } => (1, Some(graph.constant("decay", decays(decay, h)?))),
        };
        let params = causal_attention::Params { two_sided, rows: 0 };
        let args = [Some(q), Some(k), Some(v), decay, keys, queries, reach, Some(out), denominators, None];
        let pass = graph.pass(&causal_attention::SPEC, &params, &args)?;
        Ok(LinearAttended { out, denominators, pass })
    }

    /// Records a whole beginning at once: what [`Self::record`] gives for `q`, `k` `[b, h, n, r]` and `v` `[b, h, n, e]`, and the state
    /// `[b, h, r, e + 1]` after the last token, with which [`Self::record_step`] goes on. `keys` leaves tokens out as keys.
    ///
    /// Errors: as [`Self::record_step`].
    #[track_caller]
    pub fn record_start(
        &self,
        graph: &mut Graph,
        (q, k, v): (Tensor, Tensor, Tensor),
        keys: Option<Tensor>,
    ) -> Result<Stepped> {
        let decay = self.decay_of_steps(graph, q.dim(1))?;
        let [b, h, r, e] = [q.dim(0), q.dim(1), q.dim(3), v.dim(3)];
        let out = graph.transient("attended", v.shape(), DType::F32);
        let state = graph.transient("state", [b, h, r, e.saturating_add(1)], DType::F32);
        let args = [Some(q), Some(k), Some(v), decay, keys, None, None, Some(out), None, Some(state)];
        let pass = graph.pass(&causal_attention::SPEC, &causal_attention::Params::default(), &args)?;
        Ok(Stepped { out, state, pass })
    }

    /// Records the next n tokens of a sequence: `q`, `k` `[b, h, n, r]`, `v` `[b, h, n, e]`, `state` `[b, h, r, e + 1]`, zeros before the
    /// first token; `keys` leaves tokens out as keys. Position by position what [`Self::record`] gives for the whole sequence.
    ///
    /// Errors: shapes that do not fit; a mask that looks ahead, or segments.
    #[track_caller]
    pub fn record_step(
        &self,
        graph: &mut Graph,
        state: Tensor,
        (q, k, v): (Tensor, Tensor, Tensor),
        keys: Option<Tensor>,
    ) -> Result<Stepped> {
        let decay = self.decay_of_steps(graph, q.dim(1))?;
        let out = graph.transient("attended", v.shape(), DType::F32);
        let next = graph.transient("state", state.shape(), DType::F32);
        let args = [Some(q), Some(k), Some(v), decay, keys, Some(state), Some(next), Some(out)];
        let pass = graph.pass(&attention_step::SPEC, &NoParams {}, &args)?;
        Ok(Stepped { out, state: next, pass })
    }

    /// The decay of a mask that streams, `h` heads; none for plain causal attention.
    fn decay_of_steps(&self, graph: &mut Graph, h: u32) -> Result<Option<Tensor>> {
        match (&self.mask, &self.segments) {
            (ScanMask::Causal, None) => Ok(None),
            (ScanMask::Decay { decay }, None) => Ok(Some(graph.constant("decay", decays(decay, h)?))),
            (mask, segments) => Err(Error::value(
                "mask of a streaming step",
                "Causal or Decay, without segments",
                match (mask, segments) {
                    (_, Some(_)) => "segments",
                    (ScanMask::None, _) => "None, under which keys that are still to come are seen",
                    (ScanMask::TwoSided { .. }, _) => "TwoSided",
                    _ => "Separable",
                },
                "start a segment with a state of zeros",
            )),
        }
    }
}

/// How many rows had no key at all, from the denominators that were read back.
pub fn rows_without_keys(denominators: &HostTensor) -> usize {
    denominators.to_f32().iter().filter(|x| **x == 0.0).count()
}

fn decays(decay: &[f32], h: u32) -> Result<HostTensor> {
    if decay.len() != 1 && decay.len() != h as usize {
        return Err(Error::value(
            "decay",
            format!("1 or h = {h} numbers"),
            decay.len(),
            "give one for all heads or one per head",
        ));
    }
    // NaN is in no range.
    if let Some((index, x)) = decay.iter().enumerate().find(|(_, x)| !(0.0..=1.0).contains(*x)) {
        return Err(Error::value(
            format!("decay[{index}]"),
            "a number in [0, 1]",
            x,
            "1 forgets nothing, 0 everything",
        ));
    }
    HostTensor::f32([decay.len() as u32], decay.to_vec())
}

fn axis_decays(rates: &[[f32; 3]], h: u32) -> Result<HostTensor> {
    if rates.len() != 1 && rates.len() != h as usize {
        return Err(Error::value(
            "rates",
            format!("1 or h = {h} triples"),
            rates.len(),
            "give one for all heads or one per head",
        ));
    }
    let mut decay = Vec::with_capacity(3 * rates.len());
    for axis in 0..3 {
        for (head, rate) in rates.iter().enumerate().map(|(head, triple)| (head, triple[axis])) {
            if !(0.0..=f32::MAX).contains(&rate) {
                let remedy = "0 sees everything alike along an axis";
                return Err(Error::value(
                    format!("rates[{head}][{axis}]"),
                    "a finite number of at least 0",
                    rate,
                    remedy,
                ));
            }
            decay.push((-f64::from(rate)).exp() as f32);
        }
    }
    HostTensor::f32([3, rates.len() as u32], decay)
}

/// How many keys of its segment lie at or before each of n tokens, and at or after it; 0, 0 for a token of no segment.
fn reach_of(offsets: &[u32], n: u32) -> Result<HostTensor> {
    check_segments(offsets, n)?;
    let mut reach = vec![0; 2 * n as usize];
    for (start, end) in offsets.iter().zip(&offsets[1..]) {
        for i in *start..*end {
            reach[2 * i as usize] = i - start + 1;
            reach[2 * i as usize + 1] = end - i;
        }
    }
    HostTensor::new([1, 1, n, 2], HostData::U32(reach))
}

/// Whether offsets of packed sequences ascend and stay within the tokens.
pub(super) fn check_segments(offsets: &[u32], n: u32) -> Result<()> {
    let wrong = |index: usize, expected: String, got: u32| {
        Error::value(
            format!("segments[{index}]"),
            expected,
            got,
            "give the ascending starts of all segments and the last one's end",
        )
    };
    let Some(&last) = offsets.last() else {
        return Err(Error::value(
            "segments",
            "at least one offset",
            "none",
            "leave segments out for one sequence",
        ));
    };
    if let Some(index) = (1..offsets.len()).find(|&i| offsets[i] < offsets[i - 1]) {
        return Err(wrong(
            index,
            format!("at least segments[{}] = {}", index - 1, offsets[index - 1]),
            offsets[index],
        ));
    }
    if last > n {
        let index = offsets.iter().position(|&x| x > n).unwrap_or(offsets.len() - 1);
        return Err(wrong(index, format!("at most the {n} tokens"), offsets[index]));
    }
    Ok(())
}
