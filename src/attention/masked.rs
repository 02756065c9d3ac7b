//! Masked linear attention: queries and keys through a feature map, and a mask of relative positions over their products.
//!
//! ```
//! use wgattn::attention::{FeatureMap, Mask, MaskedAttention, Masks, Role};
//! use wgattn::graph::Graph;
//! use wgattn::mask::{Distance, Profile, RelativeTable};
//! use wgattn::tensor::DType;
//!
//! # fn main() -> wgattn::Result<()> {
//! let mut graph = Graph::new("a soft disc on 14 × 14 tokens");
//! let [q, k, v] = ["q", "k", "v"].map(|name| graph.input(name, [1, 4, 196, 32], DType::F32));
//! let map = FeatureMap::Elu1;
//! let q = map.record(&mut graph, q, Role::Query, None, None)?;
//! let k = map.record(&mut graph, k, Role::Key, None, None)?;
//! let disc = RelativeTable::profile(&[14, 14], Distance::L2, Profile::Gaussian, 3.0)?;
//! let attended = MaskedAttention::of(Mask::table(disc)).record(&mut graph, (q, k, v), Masks::default())?;
//! graph.output(attended.out)?;
//! # Ok(())
//! # }
//! ```

use super::{LinearAttention, Masks, ScanMask};
use crate::error::{Error, Result};
use crate::graph::{Graph, PassId};
use crate::kernel::{Caps, NoParams};
use crate::kernels::linear::{append_one, divide_rows};
use crate::kernels::mask::path::{self, Path, Plan};
use crate::kernels::mask::{fourier, masked_attention, relative, relative_map};
use crate::mask::{MaskSpec, RelativeTable};
use crate::tensor::{DType, HostData, HostTensor, Tensor};

/// Which keys a query sees, and with what weight.
#[derive(Clone, Debug, PartialEq)]
pub enum Mask {
    /// Masks that scans compute in linear time, with the relative accuracy of every row: none, causal, decay, separable.
    Scan(ScanMask),
    /// A table of relative positions, and global tokens in front of its grid.
    Table {
        /// The weights.
        table: RelativeTable,
        /// Tokens in front of the grid that see and are seen by everything with weight 1 (CLS tokens, registers).
        globals: u32,
    },
}

impl Mask {
    /// A table without global tokens.
    pub fn table(table: RelativeTable) -> Self {
        Self::Table { table, globals: 0 }
    }

    /// The mask of a text such as `toeplitz:gauss,size=8` for a grid (`[n]`, `[rows, cols]`). Whatever a scan can do is a scan.
    ///
    /// Errors: sizes out of range, a grid without tokens.
    pub fn from_spec(spec: &MaskSpec, sides: &[u32]) -> Result<Self> {
        let grid = crate::mask::table::grid(sides)?;
        Ok(match *spec {
            MaskSpec::None => Self::Scan(ScanMask::None),
            MaskSpec::Causal => Self::Scan(ScanMask::Causal),
            MaskSpec::Decay { gamma, both: false } => {
                Self::Scan(ScanMask::Decay { decay: vec![gamma as f32] })
            }
            MaskSpec::Decay { gamma, both: true } => {
                Self::Scan(ScanMask::TwoSided { decay: vec![gamma as f32] })
            }
            MaskSpec::Separable { rows, cols } => {
                let rates = vec![[0.0, (1.0 / rows) as f32, (1.0 / cols) as f32]];
                Self::Scan(ScanMask::Separable { sides: grid, rates })
            }
            MaskSpec::Toeplitz(toeplitz) => Self::table(toeplitz.table(sides)?),
            MaskSpec::Stencil(ref stencil) => Self::table(stencil.table(sides)?),
        })
    }
}

/// Masked linear attention with its settings.
#[derive(Clone, Debug, PartialEq)]
pub struct MaskedAttention {
    /// The mask.
    pub mask: Mask,
    /// How a table is multiplied; scans have one way.
    pub path: Path,
    /// Offsets at which packed sequences begin, and the last one's end, as in [`LinearAttention::segments`]; a table is then that of the
    /// longest sequence.
    pub segments: Option<Vec<u32>>,
    /// Noise that a denominator of the Fourier way may have, relative to it, before its row is computed again.
    pub tau: f32,
    /// Factor of the noise that is reckoned with; errors stayed below 0.11 of 1.
    pub safety: f32,
    /// Whether rows without keys are to be counted: tables then take one more value column, of ones.
    pub count_rows: bool,
}

/// What masked attention gives.
#[derive(Clone, Copy, Debug)]
pub struct MaskedAttended {
    /// `[b, h, n, e]`; rows without any key are zero.
    pub out: Tensor,
    /// `[b, h, n]`, above 0 in rows with keys and 0 in rows without, for [`rows_without_keys`](super::rows_without_keys); if rows are counted.
    pub seen: Option<Tensor>,
    /// Rows that were computed again because transforms could have spoiled them, and rows in all, `[2]`; scans have none.
    pub status: Option<Tensor>,
    /// The pass.
    pub pass: PassId,
}

impl MaskedAttention {
    /// Attention under a mask, with the guard as the method recommends: no row's error above 1e-5.
    pub fn of(mask: Mask) -> Self {
        Self { mask, path: Path::Auto, segments: None, tau: 5e-5, safety: 1.0, count_rows: false }
    }

    /// Which way a device takes for `r` features and `e` value columns, and what both would cost; `None` for scans, which have
    /// one way.
    pub fn plan(&self, caps: &Caps, r: u32, e: u32) -> Option<Plan> {
        let Mask::Table { table, globals } = &self.mask else { return None };
        let most = table.support().volume();
        let Some(offsets) = &self.segments else {
            let (tokens, globals) = (f64::from(table.tokens()), f64::from(*globals));
            let pairs = tokens * (most as f64).min(tokens) + globals * (2.0 * tokens + globals);
            return Some(path::plan(caps, table.sides(), pairs, r, e));
        };
        // Offsets that run backward are refused when they are recorded.
        let sequences: Vec<_> = offsets.windows(2).filter(|w| w[0] < w[1]).map(|w| w[0]..w[1]).collect();
        let pairs = path::pairs_of_sequences(&sequences, most);
        Some(path::plan_of(caps, &fourier::grids(&sequences), pairs, r, e))
    }

    /// Records attention of `q`, `k` `[b, h, n, r]`, mapped and non-negative, and `v` `[b, h, n, e]`.
    ///
    /// Errors: a table for other tokens or heads, or with negative weights; segments that overlap, run backward or end past the
    /// tokens, or are longer than the table's line; transforms in workgroup memory for grids that do not fit; as
    /// [`LinearAttention::record`].
    #[track_caller]
    pub fn record(
        &self,
        graph: &mut Graph,
        (q, k, v): (Tensor, Tensor, Tensor),
        masks: Masks,
    ) -> Result<MaskedAttended> {
        let (table, globals) = match &self.mask {
            Mask::Scan(scan) => {
                let linear = LinearAttention {
                    mask: scan.clone(),
                    segments: self.segments.clone(),
                    denominators: self.count_rows,
                };
                let attended = linear.record(graph, (q, k, v), masks)?;
                let (out, seen, pass) = (attended.out, attended.denominators, attended.pass);
                return Ok(MaskedAttended { out, seen, status: None, pass });
            }
            Mask::Table { table, globals } => (table, *globals),
        };
        let [b, h, n] = [0, 1, 2].map(|axis| q.dim(axis));
        let segment = self.check(table, globals, h, n)?;
        let segment = segment.map(|words| graph.constant("segments of rows", words));
        let params = masked_attention::Params {
            tau: self.tau,
            safety: self.safety,
            ..masked_attention::Params::of(grid(table, globals), self.path)
        };
        let weights = graph.constant("mask table", table.tensor()?);
        let e = v.dim(3);
        let values = if self.count_rows { append_one::record(graph, v, None)? } else { v };
        let out = graph.transient("attended", [b, h, n, values.dim(3)], DType::F32);
        let status = graph.transient("rows computed again", [2], DType::U32);
        let (keys, queries) = (masks.keys, masks.queries);
        let args =
            [Some(q), Some(k), Some(values), Some(weights), keys, queries, segment, Some(out), Some(status)];
        let pass = graph.pass(&masked_attention::SPEC, &params, &args)?;
        if !self.count_rows {
            return Ok(MaskedAttended { out, seen: None, status: Some(status), pass });
        }
        // The ones have become 1, or 0 in rows without keys.
        let (only, seen) = (
            graph.transient("attended", [b, h, n, e], DType::F32),
            graph.transient("seen", [b, h, n], DType::F32),
        );
        graph.pass(&divide_rows::SPEC, &NoParams {}, &[Some(out), None, Some(only), Some(seen)])?;
        Ok(MaskedAttended { out: only, seen: Some(seen), status: Some(status), pass })
    }

    /// Records the attention weights that chosen queries `rows` `[c]` (u32) give to all keys: `[b, h, n, c]`, rows divided by their
    /// sums. O(n) per query.
    ///
    /// Errors: as [`Self::record`]; scans other than none, causal and decay masks over sequences write their weights as a table
    /// first, which [`RelativeTable`] has for all of them.
    #[track_caller]
    pub fn record_map(
        &self,
        graph: &mut Graph,
        (q, k): (Tensor, Tensor),
        rows: Tensor,
        keys: Option<Tensor>,
    ) -> Result<Tensor> {
        let [b, h, n] = [0, 1, 2].map(|axis| k.dim(axis));
        let written;
        let (table, globals) = match &self.mask {
            Mask::Scan(ScanMask::None) if self.segments.is_none() => (None, 0),
            Mask::Scan(scan) => {
                written = table_of(scan, n, self.segments.as_deref())?;
                (Some(&written), 0)
            }
            Mask::Table { table, globals } => (Some(table), *globals),
        };
        let segment = match table {
            Some(table) => self.check(table, globals, h, n)?,
            None => None,
        };
        let segment = segment.map(|words| graph.constant("segments of rows", words));
        let params = relative_map::Params::of(
            table.map_or_else(relative::Params::default, |t| grid(t, globals)),
            false,
        );
        let weights = match table {
            Some(table) => Some(graph.constant("mask table", table.tensor()?)),
            None => None,
        };
        let out = graph.transient("map", [b, h, n, rows.dim(0)], DType::F32);
        graph.pass(
            &relative_map::SPEC,
            &params,
            &[Some(q), Some(k), weights, keys, segment, Some(rows), Some(out)],
        )?;
        Ok(out)
    }

    /// Whether the table fits the tokens and heads; first and end key of every row where sequences are packed.
    fn check(&self, table: &RelativeTable, globals: u32, h: u32, n: u32) -> Result<Option<HostTensor>> {
        if table.heads() != 1 && table.heads() != h {
            let expected = format!("1 or {h} heads");
            return Err(Error::value(
                "table of the mask",
                expected,
                table.heads(),
                "give one table per head, or one for all",
            ));
        }
        if table.has_signs() {
            let (expected, remedy) =
                ("weights of at least 0", "rows are divided by their sums: use the exponential of a bias");
            return Err(Error::value("table of the mask", expected, "negative weights", remedy));
        }
        let Some(offsets) = &self.segments else {
            let wanted = table.tokens().saturating_add(globals);
            return if wanted == n {
                Ok(None)
            } else {
                let got = format!("{n} tokens");
                let expected =
                    format!("{wanted} tokens: {globals} global ones and a grid of {:?}", table.sides());
                Err(Error::value(
                    "tokens under the mask",
                    expected,
                    got,
                    "make the table for the tokens it is used on",
                ))
            };
        };
        super::linear::check_segments(offsets, n)?;
        let [n1, n2, line] = table.sides();
        let longest = offsets.windows(2).map(|w| w[1] - w[0]).max().unwrap_or(0);
        if n1 * n2 != 1 || globals > 0 || longest > line {
            return Err(Error::value(
                "table of packed sequences",
                format!("a sequence of at least {longest} tokens, without global ones"),
                format!("a grid of {:?}, {globals} global tokens", table.sides()),
                "make it for the longest sequence",
            ));
        }
        let mut words = vec![0; 2 * n as usize];
        for pair in offsets.windows(2) {
            for row in pair[0]..pair[1] {
                words[2 * row as usize..][..2].copy_from_slice(pair);
            }
        }
        Ok(Some(HostTensor::new([n, 2], HostData::U32(words))?))
    }
}

/// The grid of a table with the box around its weights.
fn grid(table: &RelativeTable, globals: u32) -> relative::Params {
    let [n1, n2, n3] = table.sides();
    let params = relative::Params { n1, n2, n3, globals, ..relative::Params::default() };
    params.with_support(table.values(), n3)
}

/// The weights of a scan as a table.
fn table_of(scan: &ScanMask, n: u32, segments: Option<&[u32]>) -> Result<RelativeTable> {
    let longest =
        segments.map_or(n, |s| s.windows(2).map(|w| w[1].saturating_sub(w[0])).max().unwrap_or(0).max(1));
    let heads = |list: usize| u32::try_from(list).unwrap_or(u32::MAX);
    match scan {
        ScanMask::None => RelativeTable::ones(&[longest]),
        ScanMask::Causal => RelativeTable::causal(&[longest]),
        ScanMask::Decay { decay } => {
            RelativeTable::from_fn(&[longest], heads(decay.len()), |h, [_, _, o]| {
                if o < 0 { 0.0 } else { f64::from(decay[h as usize]).powf(o as f64) }
            })
        }
        ScanMask::TwoSided { decay } => {
            RelativeTable::from_fn(&[longest], heads(decay.len()), |h, [_, _, o]| {
                f64::from(decay[h as usize]).powf(o.abs() as f64)
            })
        }
        ScanMask::Separable { sides, rates } => {
            RelativeTable::from_fn(sides, heads(rates.len()), |h, offset| {
                let rate = rates[h as usize];
                (-(0..3).map(|a| f64::from(rate[a]) * offset[a].abs() as f64).sum::<f64>()).exp()
            })
        }
    }
}
