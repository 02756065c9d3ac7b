//! What holds for attention under any mask: a table of mask families × invariants (method: topological masking, section 5), one
//! trial for each pair on every device.
//!
//! The families are scans, tables of relative positions both ways, global tokens, packed sequences, keys left out, and mask operators.
//! What a family should give is computed here in f64 from its definition, weight by weight.

use libtest_mimic::{Arguments, Failed, Trial};
use std::sync::{Arc, Mutex, PoisonError};
use wgattn::attention::{Mask, MaskedAttention, Masks, ScanMask, rows_without_keys};
use wgattn::backend::{Backend, Program, cpu::CpuBackend};
use wgattn::graph::Graph;
use wgattn::kernels::mask::path::Path;
use wgattn::mask::operator::{
    BlockDiagonal, Dense, LowRank, Scaled, SharedMask, Sum, Toeplitz, attend, bordered, hadamard,
};
use wgattn::mask::{Distance, Profile, RelativeTable};
use wgattn::random::{gaussian, philox};
use wgattn::tensor::{DType, HostData, HostTensor, Shape, Tensor};

mod support;

/// Batch elements, heads, tokens, features and value columns of every trial; odd where a kernel might want even numbers.
const B: u32 = 2;
const H: u32 = 2;
const N: u32 = 60;
const R: u32 = 5;
const E: u32 = 6;

/// Packed sequences: more than seven, two of them empty, one across token 32 where chunks of scans meet, seven tokens of slack.
const SEGMENTS: [u32; 11] = [0, 5, 6, 6, 23, 27, 27, 41, 48, 50, 53];

/// Largest difference from f64 as a part of the largest value. On the CPU reference both are f64. On devices sums of 60 rounded terms;
/// transforms and their guard promise 1e-5 in the worst row and stay within this on these tables.
fn tolerance(device: &str) -> f64 {
    if device == "cpu" { 1e-12 } else { 4e-6 }
}

/// How attention is recorded.
#[derive(Clone)]
enum How {
    Attention(MaskedAttention),
    Operator(SharedMask),
}

/// A mask with a name.
#[derive(Clone)]
struct Family {
    name: String,
    how: How,
    /// Tokens that are kept, as keys and as queries.
    keep: Option<Vec<u8>>,
}

/// The segment of a token; `None` in the slack.
fn segment(offsets: &[u32], token: u32) -> Option<usize> {
    offsets.windows(2).position(|w| (w[0]..w[1]).contains(&token))
}

impl Family {
    fn new(name: impl Into<String>, how: How) -> Self {
        Self { name: name.into(), how, keep: None }
    }

    fn scan(name: &str, mask: ScanMask) -> Self {
        Self::new(name, How::Attention(MaskedAttention::of(Mask::Scan(mask))))
    }

    /// Every fourth token left out, the last three as well.
    fn padded(mut self) -> Self {
        self.name += "_padded";
        self.keep = Some((0..N).map(|t| u8::from(t % 4 != 1 && t < N - 3)).collect());
        self
    }

    fn packed(mut self) -> Self {
        self.name += "_packed";
        if let How::Attention(attention) = &mut self.how {
            attention.segments = Some(SEGMENTS.to_vec());
        }
        self
    }

    fn segments(&self) -> Option<&[u32]> {
        match &self.how {
            How::Attention(attention) => attention.segments.as_deref(),
            How::Operator(_) => None,
        }
    }

    fn path(&self) -> Path {
        match &self.how {
            How::Attention(attention) => attention.path,
            How::Operator(_) => Path::Auto,
        }
    }

    /// The definition: weight of key `j` for query `i`.
    fn weight(&self, head: u32, i: u32, j: u32) -> f64 {
        if self.keep.as_ref().is_some_and(|k| k[i as usize] == 0 || k[j as usize] == 0) {
            return 0.0;
        }
        let attention = match &self.how {
            How::Operator(mask) => return mask.weight(head, i, j),
            How::Attention(attention) => attention,
        };
        if let Some(offsets) = &attention.segments {
            let (a, b) = (segment(offsets, i), segment(offsets, j));
            if a.is_none() || a != b {
                return 0.0;
            }
        }
        let offset = i64::from(i) - i64::from(j);
        let of_head = |list: &[f32]| f64::from(list[head as usize % list.len()]);
        match &attention.mask {
            Mask::Scan(ScanMask::None) => 1.0,
            Mask::Scan(ScanMask::Causal) => f64::from(u8::from(offset >= 0)),
            Mask::Scan(ScanMask::Decay { decay }) if offset >= 0 => of_head(decay).powi(offset as i32),
            Mask::Scan(ScanMask::Decay { .. }) => 0.0,
            Mask::Scan(ScanMask::TwoSided { decay }) => of_head(decay).powi(offset.abs() as i32),
            Mask::Scan(ScanMask::Separable { sides, rates }) => {
                let [_, rows, cols] = *sides;
                let place = |t: u32| [t / (rows * cols), t / cols % rows, t % cols];
                let (query, key, rate) = (place(i), place(j), rates[head as usize % rates.len()]);
                let steps = (0..3).map(|axis| {
                    // What the device is given is e^−λ rounded to f32.
                    let decay = f64::from((-f64::from(rate[axis])).exp() as f32);
                    decay.powi(query[axis].abs_diff(key[axis]) as i32)
                });
                steps.product()
            }
            Mask::Table { table, .. } if attention.segments.is_some() => {
                f64::from(table.entry(head, [0, 0, offset]))
            }
            Mask::Table { table, globals } => match (i.checked_sub(*globals), j.checked_sub(*globals)) {
                (Some(i), Some(j)) => f64::from(table.weight(head, i, j)),
                _ => 1.0,
            },
        }
    }

    /// Whether transforms do the multiplying: their noise goes to all rows.
    fn by_transforms(&self) -> bool {
        !matches!(self.path(), Path::Auto | Path::Pairs)
    }

    /// Whether no query sees a later key.
    fn is_causal(&self) -> bool {
        (0..N).all(|i| (i + 1..N).all(|j| (0..H).all(|head| self.weight(head, i, j) == 0.0)))
    }

    /// Whether token `i` sees a key.
    fn has_key(&self, head: u32, i: u32) -> bool {
        (0..N).any(|j| self.weight(head, i, j) != 0.0)
    }

    /// Tokens whose numbers must not matter: left out, or of no segment.
    fn unused(&self) -> Vec<u32> {
        let slack = |t: u32| self.segments().is_some_and(|s| segment(s, t).is_none());
        let left_out = |t: u32| self.keep.as_ref().is_some_and(|k| k[t as usize] == 0);
        (0..N).filter(|t| slack(*t) || left_out(*t)).collect()
    }

    /// The same mask times a number; scans have none to scale.
    fn times(&self, factor: f32) -> Option<Self> {
        let how = match &self.how {
            How::Operator(mask) => {
                let all =
                    LowRank::new(N, 1, vec![factor; N as usize], vec![1.0; N as usize]).expect("factors");
                How::Operator(Arc::new(Scaled::new(Arc::clone(mask), all).expect("the same tokens")))
            }
            How::Attention(attention) => match &attention.mask {
                Mask::Table { table, globals: 0 } => {
                    let values = table.values().iter().map(|x| factor * x).collect();
                    let table = RelativeTable::new(&table.sides(), table.heads(), values).expect("a table");
                    How::Attention(MaskedAttention { mask: Mask::table(table), ..attention.clone() })
                }
                // Global tokens weigh 1 whatever the table holds.
                Mask::Table { .. } | Mask::Scan(_) => return None,
            },
        };
        Some(Self { how, ..self.clone() })
    }

    /// The definition in f64: rows without keys are zeros.
    fn exact(&self, x: &Inputs) -> Vec<f64> {
        let [r, e, n] = [R, E, N].map(|x| x as usize);
        let mut out = Vec::new();
        for (row, head, i) in (0..B * H).flat_map(|row| (0..N).map(move |i| (row as usize, row % H, i))) {
            let (mut sums, mut total) = (vec![0.0; e], 0.0);
            let line = |t: &[f32], token: u32, width: usize| {
                t[(row * n + token as usize) * width..][..width]
                    .iter()
                    .map(|x| f64::from(*x))
                    .collect::<Vec<_>>()
            };
            let query = line(&x.q, i, r);
            for j in 0..N {
                let weight = self.weight(head, i, j);
                // A key of weight 0 may hold anything.
                if weight != 0.0 {
                    let dot: f64 = query.iter().zip(line(&x.k, j, r)).map(|(x, y)| x * y).sum();
                    sums.iter_mut().zip(line(&x.v, j, e)).for_each(|(sum, y)| *sum += weight * dot * y);
                    total += weight * dot;
                }
            }
            out.extend(sums.iter().map(|sum| if total == 0.0 { 0.0 } else { sum / total }));
        }
        out
    }
}

/// Queries, keys `[B, H, N, R]` and values `[B, H, N, E]`.
#[derive(Clone)]
struct Inputs {
    q: Vec<f32>,
    k: Vec<f32>,
    v: Vec<f32>,
}

impl Inputs {
    /// Positive features over one order of magnitude, normal values.
    fn new() -> Self {
        let normal = |stream: u32, count: u32| {
            let four = move |block: u32| philox([block, 0, 0, stream], 11).map(gaussian);
            (0..count).flat_map(four).take(count as usize).collect::<Vec<f32>>()
        };
        let features =
            |stream| normal(stream, B * H * N * R).into_iter().map(|x| (0.5 * x - 0.25).exp()).collect();
        Self { q: features(1), k: features(2), v: normal(3, B * H * N * E) }
    }

    /// Other values of the same kind.
    fn other_values() -> Vec<f32> {
        support::random(5, [B, H, N, E]).to_f32()
    }

    /// Numbers of the tokens that `chosen` names changed, in all of q, k and v: feature rows by `feature`, value rows by `value`.
    fn change(
        &self,
        chosen: impl Fn(u32, u32) -> bool,
        feature: impl Fn(f32) -> f32,
        value: impl Fn(f32) -> f32,
    ) -> Self {
        let apply = |list: &[f32], width: u32, f: &dyn Fn(f32) -> f32| {
            let at = |i: usize| (i as u32 / width / N, i as u32 / width % N);
            list.iter().enumerate().map(|(i, x)| if chosen(at(i).0, at(i).1) { f(*x) } else { *x }).collect()
        };
        Self { q: apply(&self.q, R, &feature), k: apply(&self.k, R, &feature), v: apply(&self.v, E, &value) }
    }
}

/// A compiled family.
struct Runner {
    program: Box<dyn Program>,
    inputs: [Tensor; 3],
    out: Tensor,
    seen: Option<Tensor>,
    status: Option<Tensor>,
}

impl Runner {
    fn new(backend: &dyn Backend, how: &How, keep: Option<&[u8]>) -> wgattn::Result<Self> {
        let mut graph = Graph::new("a family of masks");
        let inputs =
            [("q", R), ("k", R), ("v", E)].map(|(name, x)| graph.input(name, [B, H, N, x], DType::F32));
        let [q, k, v] = inputs;
        let kept = keep.map(|_| graph.input("keep", [1, 1, N], DType::U8));
        let masks = Masks { keys: kept, queries: kept };
        let (out, seen, status) = match how {
            How::Attention(attention) => {
                let counted = MaskedAttention { count_rows: true, ..attention.clone() };
                let attended = counted.record(&mut graph, (q, k, v), masks)?;
                (attended.out, attended.seen, attended.status)
            }
            How::Operator(mask) => (attend(&mut graph, mask.as_ref(), (q, k, v), masks, 3)?, None, None),
        };
        for tensor in [Some(out), seen, status].into_iter().flatten() {
            graph.output(tensor)?;
        }
        let mut program = backend.compile(&graph)?;
        if let (Some(tensor), Some(keep)) = (kept, keep) {
            program.write(tensor, &HostTensor::new([1, 1, N], HostData::U8(keep.to_vec()))?)?;
        }
        Ok(Self { program, inputs, out, seen, status })
    }

    fn run(&mut self, x: &Inputs) -> wgattn::Result<Vec<f64>> {
        for (tensor, data) in self.inputs.into_iter().zip([&x.q, &x.k, &x.v]) {
            self.program.write(tensor, &HostTensor::f32(tensor.shape(), data.clone())?)?;
        }
        self.program.run()?;
        Ok(self.program.read(self.out)?.to_f64())
    }

    /// Rows without keys of the last run; operators do not count them.
    fn without_keys(&mut self) -> wgattn::Result<Option<(HostTensor, usize)>> {
        let Some(seen) = self.seen else { return Ok(None) };
        let seen = self.program.read(seen)?;
        let count = rows_without_keys(&seen);
        Ok(Some((seen, count)))
    }

    /// Rows that the guard had computed again in the last run.
    fn computed_again(&mut self) -> wgattn::Result<Option<u32>> {
        let Some(status) = self.status else { return Ok(None) };
        Ok(Some(self.program.read(status)?.to_f64()[0] as u32))
    }
}

/// A family on a device: compiled when the first of its trials runs.
#[derive(Clone)]
struct Subject {
    family: Arc<Family>,
    device: String,
    backend: Arc<dyn Backend>,
    runner: Arc<Mutex<Option<Runner>>>,
}

impl Subject {
    fn with<T>(&self, work: impl FnOnce(&mut Runner) -> Result<T, Failed>) -> Result<T, Failed> {
        let mut runner = self.runner.lock().unwrap_or_else(PoisonError::into_inner);
        if runner.is_none() {
            let family = &self.family;
            *runner = Some(Runner::new(self.backend.as_ref(), &family.how, family.keep.as_deref())?);
        }
        runner.as_mut().map_or_else(|| Err("nothing was compiled".into()), work)
    }
}

fn need(fine: bool, what: impl FnOnce() -> String) -> Result<(), Failed> {
    if fine { Ok(()) } else { Err(what().into()) }
}

/// Where an element lies.
fn place(at: usize) -> String {
    let (row, column) = (at / E as usize, at % E as usize);
    let (batch, token) = (row / N as usize, row % N as usize);
    format!("batch {}, head {}, token {token}, column {column}", batch / H as usize, batch % H as usize)
}

fn close(what: &str, got: &[f64], expected: &[f64], allowed: f64) -> Result<(), Failed> {
    need(got.len() == expected.len(), || {
        format!("{what}: {} numbers, expected {}", got.len(), expected.len())
    })?;
    let largest = expected.iter().fold(1e-30_f64, |top, x| top.max(x.abs()));
    for (at, (a, b)) in got.iter().zip(expected).enumerate() {
        // NaN is never within.
        let within = (a - b).abs() <= allowed * largest;
        need(within, || {
            let error = (a - b).abs() / largest;
            format!("{what}, {}: {a:e}, expected {b:e}: {error:.1e} > {allowed:e}", place(at))
        })?;
    }
    Ok(())
}

fn same_bits(what: &str, got: &[f64], expected: &[f64]) -> Result<(), Failed> {
    let differs = got.iter().zip(expected).position(|(a, b)| a.to_bits() != b.to_bits());
    match differs {
        None if got.len() == expected.len() => Ok(()),
        Some(at) => Err(format!("{what}, {}: {:e} instead of {:e}", place(at), got[at], expected[at]).into()),
        None => Err(format!("{what}: {} numbers instead of {}", got.len(), expected.len()).into()),
    }
}

type Invariant = fn(&Subject) -> Result<(), Failed>;

/// The invariants with the families that they are about.
const INVARIANTS: [(&str, Invariant, fn(&Family) -> bool); 11] = [
    ("agrees_with_the_definition", definition, |_| true),
    ("equal_values_stay", equal_values, |_| true),
    ("rows_are_averages", averages, |_| true),
    ("factors_of_keys_and_queries_change_nothing", factors, |_| true),
    ("a_factor_of_the_mask_changes_nothing", mask_factor, |f| f.times(1.0).is_some()),
    ("values_add", values_add, |_| true),
    ("batch_elements_and_heads_are_apart", apart, |_| true),
    ("unused_tokens_may_hold_anything", garbage, |f| !f.unused().is_empty()),
    ("rows_without_keys_are_zeros_and_counted", no_keys, |_| true),
    ("the_future_changes_nothing", future, |f| f.is_causal() && !f.by_transforms()),
    ("a_loud_future_fires_the_guard", loud_future, |f| f.is_causal() && f.by_transforms()),
];

fn definition(s: &Subject) -> Result<(), Failed> {
    let x = Inputs::new();
    let got = s.with(|runner| Ok(runner.run(&x)?))?;
    close("output", &got, &s.family.exact(&x), tolerance(&s.device))
}

fn equal_values(s: &Subject) -> Result<(), Failed> {
    let x = Inputs { v: vec![1.0; (B * H * N * E) as usize], ..Inputs::new() };
    let got = s.with(|runner| Ok(runner.run(&x)?))?;
    for (at, value) in got.iter().enumerate() {
        let row = at as u32 / E;
        let expected = if s.family.has_key(row / N % H, row % N) { 1.0 } else { 0.0 };
        let fine = (value - expected).abs() <= tolerance(&s.device) * expected;
        need(fine, || format!("values of 1 give {value:e} at {}, expected {expected}", place(at)))?;
    }
    Ok(())
}

/// Between the least and the largest value among the keys that the row sees, column by column.
fn averages(s: &Subject) -> Result<(), Failed> {
    let x = Inputs::new();
    let got = s.with(|runner| Ok(runner.run(&x)?))?;
    let slack = tolerance(&s.device) * x.v.iter().fold(0.0_f64, |top, v| top.max(f64::from(v.abs())));
    for (at, value) in got.iter().enumerate() {
        let (row, column) = (at as u32 / E, at as u32 % E);
        let (batch, i) = (row / N, row % N);
        let seen = (0..N).filter(|&j| s.family.weight(batch % H, i, j) != 0.0);
        let values = seen.map(|j| f64::from(x.v[((batch * N + j) * E + column) as usize]));
        let (low, high) = values.fold((f64::MAX, f64::MIN), |(l, h), v| (l.min(v), h.max(v)));
        let fine = low > high || (low - slack..=high + slack).contains(value);
        need(fine, || format!("{value:e} is not in {low:e} … {high:e} at {}", place(at)))?;
    }
    Ok(())
}

/// One factor for all keys of a head and one for each query row. Powers of two change exponents only, so not a bit changes.
fn factors(s: &Subject) -> Result<(), Failed> {
    let x = Inputs::new();
    let scaled = |key: f32, query: &dyn Fn(u32) -> f32| {
        let k = x.k.iter().map(|v| key * v).collect();
        let q = x.q.iter().enumerate().map(|(i, v)| query(i as u32 / R % N) * v).collect();
        Inputs { q, k, v: x.v.clone() }
    };
    let [plain, exact, rounded] = s.with(|runner| {
        Ok([
            runner.run(&x)?,
            runner.run(&scaled(16.0, &|i| 2.0_f32.powi(i as i32 % 7 - 3)))?,
            runner.run(&scaled(0.3, &|i| 0.1 + i as f32))?,
        ])
    })?;
    same_bits("factors that are powers of two", &exact, &plain)?;
    close("factors", &rounded, &plain, tolerance(&s.device).max(1e-6))
}

fn mask_factor(s: &Subject) -> Result<(), Failed> {
    let x = Inputs::new();
    let plain = s.with(|runner| Ok(runner.run(&x)?))?;
    for factor in [8.0, 0.3] {
        let scaled = s.family.times(factor).ok_or("a family without weights of its own")?;
        let got = Runner::new(s.backend.as_ref(), &scaled.how, scaled.keep.as_deref())?.run(&x)?;
        // 0.3 times a weight is rounded to f32.
        close(&format!("mask times {factor}"), &got, &plain, tolerance(&s.device).max(1e-6))?;
    }
    Ok(())
}

fn values_add(s: &Subject) -> Result<(), Failed> {
    let x = Inputs::new();
    let other = Inputs { v: Inputs::other_values(), ..x.clone() };
    let both = x.v.iter().zip(&other.v).map(|(a, b)| 2.0 * a - 0.5 * b).collect();
    let both = Inputs { v: both, ..x.clone() };
    let [a, b, sum] = s.with(|runner| Ok([runner.run(&x)?, runner.run(&other)?, runner.run(&both)?]))?;
    let expected: Vec<f64> = a.iter().zip(&b).map(|(a, b)| 2.0 * a - 0.5 * b).collect();
    // The sum of the values is rounded to f32.
    close("sum", &sum, &expected, tolerance(&s.device).max(1e-6))
}

/// Rescaling one batch element, or one head, leaves the others unchanged to the bit.
fn apart(s: &Subject) -> Result<(), Failed> {
    let x = Inputs::new();
    let size = (N * E) as usize;
    for (what, changed) in [("batch element 1", [2, 3]), ("head 0", [0, 2])] {
        let louder = x.change(|batch, _| changed.contains(&batch), |x| 1e9 * x, |v| 1e6 * v);
        let [before, after] = s.with(|runner| Ok([runner.run(&x)?, runner.run(&louder)?]))?;
        for batch in 0..B * H {
            let rows = batch as usize * size..(batch as usize + 1) * size;
            let (before, after) = (&before[rows.clone()], &after[rows]);
            if changed.contains(&batch) {
                need(before != after, || format!("rescaling {what} is not seen"))?;
            } else {
                same_bits(&format!("rescaling {what} changes {batch}"), after, before)?;
            }
        }
    }
    Ok(())
}

fn garbage(s: &Subject) -> Result<(), Failed> {
    let x = Inputs::new();
    let unused = s.family.unused();
    let clean = s.with(|runner| Ok(runner.run(&x)?))?;
    for bad in [1e30, -3e38, f32::INFINITY, f32::NAN] {
        let spoilt = x.change(|_, token| unused.contains(&token), |_| bad, |_| bad);
        let got = s.with(|runner| Ok(runner.run(&spoilt)?))?;
        same_bits(&format!("unused tokens hold {bad}"), &got, &clean)?;
    }
    let at = |token: &u32| *token as usize * E as usize;
    let zeros = unused.iter().all(|t| clean[at(t)..][..E as usize].iter().all(|x| x.to_bits() == 0));
    need(zeros, || "a row of an unused token is not 0".into())
}

/// With the family's own empty rows, and with every token left out.
fn no_keys(s: &Subject) -> Result<(), Failed> {
    let x = Inputs::new();
    let (got, count) = s.with(|runner| Ok((runner.run(&x)?, runner.without_keys()?)))?;
    let empty: Vec<bool> = (0..B * H * N).map(|row| !s.family.has_key(row / N % H, row % N)).collect();
    for (row, _) in empty.iter().enumerate().filter(|(_, empty)| **empty) {
        let at = row * E as usize;
        let zeros = got[at..][..E as usize].iter().all(|x| x.to_bits() == 0);
        need(zeros, || format!("a row without keys is not 0 at {}", place(at)))?;
    }
    if let Some((seen, count)) = count {
        let expected = empty.iter().filter(|e| **e).count();
        need(count == expected, || format!("{count} rows without keys counted, expected {expected}"))?;
        let told = seen.to_f64().iter().zip(&empty).all(|(seen, empty)| (*seen > 0.0) != *empty);
        need(told, || "another row is told to be without keys".into())?;
    }
    let nothing = vec![0; N as usize];
    let mut runner = Runner::new(s.backend.as_ref(), &s.family.how, Some(&nothing))?;
    let got = runner.run(&x.change(|_, _| true, |_| 1e30, |_| 1e30))?;
    need(got.iter().all(|x| x.to_bits() == 0), || "no token is kept, and a row is not 0".into())?;
    if let Some((_, count)) = runner.without_keys()? {
        need(count == (B * H * N) as usize, || format!("{count} rows without keys, expected all"))?;
    }
    Ok(())
}

/// Later keys, queries and values change earlier rows by exactly nothing.
fn future(s: &Subject) -> Result<(), Failed> {
    let x = Inputs::new();
    let before = s.with(|runner| Ok(runner.run(&x)?))?;
    for first in [1, 31, 32, 33, 50] {
        for (what, feature, value) in [
            ("a million times", (|x| 1e6 * x) as fn(f32) -> f32, (|v| 1e6 * v) as fn(f32) -> f32),
            ("garbage", |x| 3e9 * (7e3 * x).sin().abs(), |v| -1e12 * (9e3 * v).cos()),
        ] {
            let changed = x.change(|_, token| token >= first, feature, value);
            let after = s.with(|runner| Ok(runner.run(&changed)?))?;
            let rows = |list: &[f64], past: bool| {
                let row = |at: usize| (at as u32 / E % N < first) == past;
                list.iter().enumerate().filter(|(at, _)| row(*at)).map(|(_, x)| *x).collect::<Vec<f64>>()
            };
            same_bits(&format!("{what} from token {first} on"), &rows(&after, true), &rows(&before, true))?;
            need(rows(&after, false) != rows(&before, false), || {
                format!("{what} from token {first} on: the change is not seen")
            })?;
        }
    }
    Ok(())
}

/// Transforms spread the noise of loud keys over all rows: the rows before them must be computed again.
fn loud_future(s: &Subject) -> Result<(), Failed> {
    let x = Inputs::new();
    let first = 40;
    let loud = x.change(|_, token| token >= first, |x| 1e6 * x, |v| v);
    let (got, again) = s.with(|runner| Ok((runner.run(&loud)?, runner.computed_again()?)))?;
    close(
        "rows beside loud keys",
        &got,
        &s.family.exact(&loud),
        if s.device == "cpu" { 1e-12 } else { 1e-5 },
    )?;
    // The CPU reference is the definition and computes nothing again.
    let spoilt =
        (0..B * H * first).filter(|row| s.family.has_key(row / first % H, row % first)).count() as u32;
    let again = again.ok_or("a table reports rows that were computed again")?;
    need(s.device == "cpu" || again >= spoilt, || {
        format!("{again} rows computed again, expected at least {spoilt}")
    })
}

/// A table with weights from 0.1 to 1, the same in no two directions.
fn lopsided(sides: &[u32], heads: u32) -> RelativeTable {
    RelativeTable::from_fn(sides, heads, |h, [a, b, c]| {
        0.55 + 0.45 * (1.3 * a as f64 + 0.7 * b as f64 + 0.31 * c as f64 + f64::from(h)).sin()
    })
    .expect("a table")
}

fn table_attention(table: RelativeTable, globals: u32, path: Path) -> MaskedAttention {
    MaskedAttention { path, ..MaskedAttention::of(Mask::Table { table, globals }) }
}

/// The ways through a table.
const WAYS: [Path; 2] = [Path::Pairs, Path::Fourier];

/// A table every way.
fn every_way(name: &str, table: &RelativeTable) -> [Family; WAYS.len()] {
    WAYS.map(|path| {
        Family::new(format!("{name}_{path}"), How::Attention(table_attention(table.clone(), 0, path)))
    })
}

/// A family pair by pair, and by the other ways where they are not refused as unsupported.
fn supported_ways(name: &str, family: impl Fn(&str, Path) -> Family) -> Vec<Family> {
    let supported = |family: &Family| {
        let mut graph = Graph::new("is it refused");
        let [q, k, v] = [R, R, E].map(|x| graph.input("x", [B, H, N, x], DType::F32));
        let How::Attention(attention) = &family.how else { return true };
        attention.path == Path::Pairs || attention.record(&mut graph, (q, k, v), Masks::default()).is_ok()
    };
    WAYS.into_iter().map(|path| family(&format!("{name}_{path}"), path)).filter(supported).collect()
}

/// Every family.
fn families() -> Vec<Family> {
    let gammas = vec![0.9, 0.6];
    let rates = vec![[0.3, 0.1, 0.5], [0.0, 0.7, 0.2]];
    let scans = [
        ("none", ScanMask::None),
        ("causal", ScanMask::Causal),
        ("decay", ScanMask::Decay { decay: gammas.clone() }),
        ("two_sided", ScanMask::TwoSided { decay: gammas }),
        ("separable", ScanMask::Separable { sides: [3, 4, 5], rates }),
    ];
    let mut list = Vec::new();
    for (name, mask) in scans {
        let family = Family::scan(name, mask);
        list.push(family.clone().padded());
        if name != "separable" {
            list.push(family.clone().packed());
            list.push(family.clone().packed().padded());
        }
        list.push(family);
    }

    let from_fn = |sides: &[u32], heads, f: &dyn Fn(u32, [i64; 3]) -> f64| {
        RelativeTable::from_fn(sides, heads, f).expect("a table")
    };
    let ring: Vec<f32> = (0..N).map(|i| 0.1 + (0.37 * i as f32).sin().abs()).collect();
    let biases: Vec<f32> = support::random(9, [32 * H]).to_f32();
    let alibi = RelativeTable::alibi(N, &[0.5, 0.0625]).expect("a table");
    let causal = |sides: &[u32]| RelativeTable::causal(sides).expect("a table");
    let tables = [
        ("line", lopsided(&[N], 1)),
        ("plane", lopsided(&[6, 10], 1)),
        ("space", lopsided(&[3, 4, 5], 1)),
        ("line_per_head", lopsided(&[N], H)),
        ("space_per_head", lopsided(&[3, 4, 5], H)),
        ("torus", RelativeTable::torus(&[6, 10], 1, &ring).expect("a table")),
        ("wrapped", lopsided(&[6, 10], 1).wrapped().expect("a table")),
        // Neither the query itself nor, at the end, any key.
        ("window", from_fn(&[N], 1, &|_, [_, _, o]| f64::from(u8::from((-6..=-2).contains(&o))))),
        ("disc", RelativeTable::profile(&[6, 10], Distance::L2, Profile::Window, 2.5).expect("a table")),
        ("bias_t5", RelativeTable::t5(N, 32, H, 50, &biases).expect("a table")),
        ("bias_alibi", alibi.clone()),
        ("causal_line", causal(&[N])),
        ("causal_plane", causal(&[6, 10])),
        ("causal_space", causal(&[3, 4, 5])),
        ("causal_alibi", alibi.times(&causal(&[N])).expect("a table")),
    ];
    for (name, table) in &tables {
        for family in every_way(name, table) {
            if ["plane", "window", "line_per_head", "causal_line"].contains(name) {
                list.push(family.clone().padded());
            }
            list.push(family);
        }
    }
    let globals = |heads| {
        move |name: &str, path| {
            Family::new(name, How::Attention(table_attention(lopsided(&[7, 8], heads), 4, path)))
        }
    };
    let packed = |table: RelativeTable| {
        move |name: &str, path| {
            Family::new(name, How::Attention(table_attention(table.clone(), 0, path))).packed()
        }
    };
    for family in supported_ways("globals", globals(1))
        .into_iter()
        .chain(supported_ways("globals_per_head", globals(H)))
        .chain(supported_ways("line", packed(lopsided(&[20], 1))))
        .chain(supported_ways("line_per_head", packed(lopsided(&[17], H))))
        .chain(supported_ways("causal_line", packed(causal(&[17]))))
    {
        list.push(family.clone().padded());
        list.push(family);
    }

    let shared = |table: RelativeTable| -> SharedMask { Arc::new(Toeplitz(table)) };
    let gates: Vec<f32> = (0..N).map(|t| 0.2 + 0.01 * t as f32).collect();
    let gated = LowRank::new(N, 1, gates.clone(), gates).expect("factors");
    let blocks: Vec<SharedMask> = vec![
        shared(lopsided(&[15], 1)),
        Arc::new(LowRank::ones(7).expect("ones")),
        shared(lopsided(&[2, 19], 1)),
    ];
    let lower = (0..N * N).map(|at| if at % N > at / N { 0.0 } else { 0.5 + (at % 7) as f32 }).collect();
    let both = hadamard(&shared(lopsided(&[6, 10], 1)), &(Arc::new(gated.clone()) as SharedMask));
    let sum = vec![shared(lopsided(&[N], H)), Arc::new(LowRank::ones(N).expect("ones")) as SharedMask];
    let operators: [(&str, SharedMask); 8] = [
        ("operator_table", shared(lopsided(&[3, 4, 5], 1))),
        ("operator_low_rank", Arc::new(LowRank::border(N, 3).expect("a border"))),
        ("operator_globals", bordered(shared(lopsided(&[7, 8], 1)), 4).expect("a border")),
        ("operator_blocks", Arc::new(BlockDiagonal::new(blocks).expect("blocks"))),
        ("operator_scaled", Arc::new(Scaled::new(shared(lopsided(&[N], H)), gated).expect("a product"))),
        ("operator_hadamard", both.expect("a fast product")),
        ("operator_sum", Arc::new(Sum::new(sum).expect("a sum"))),
        ("operator_dense", Arc::new(Dense::new(1, N, lower).expect("weights"))),
    ];
    for (name, mask) in operators {
        let family = Family::new(name, How::Operator(mask));
        if name == "operator_table" || name == "operator_blocks" {
            list.push(family.clone().padded());
        }
        list.push(family);
    }
    list
}

/// A table with the query's own weight alone.
fn delta(sides: &[u32], heads: u32) -> RelativeTable {
    RelativeTable::from_fn(sides, heads, |_, o| f64::from(u8::from(o == [0; 3]))).expect("a table")
}

/// Masks under which every query sees itself alone.
fn identities() -> Vec<Family> {
    let scan = Family::scan;
    let alone = |mask| {
        let attention = MaskedAttention::of(Mask::Scan(mask));
        How::Attention(MaskedAttention { segments: Some((0..=N).collect()), ..attention })
    };
    let causal = RelativeTable::causal(&[3, 4, 5]).expect("a table");
    let unit = (0..N * N).map(|at| f32::from(u8::from(at % (N + 1) == 0))).collect();
    let ring: Vec<f32> = (0..N).map(|t| f32::from(u8::from(t == 0))).collect();
    let point = RelativeTable::profile(&[6, 10], Distance::LInf, Profile::Window, 0.5).expect("a table");
    let mut list = vec![
        scan("decay", ScanMask::Decay { decay: vec![0.0] }),
        scan("two_sided", ScanMask::TwoSided { decay: vec![0.0; 2] }),
        scan("separable", ScanMask::Separable { sides: [3, 4, 5], rates: vec![[f32::MAX; 3]] }),
        Family::new("none_packed", alone(ScanMask::None)),
        Family::new("causal_packed", alone(ScanMask::Causal)),
        Family::new("operator_table", How::Operator(Arc::new(Toeplitz(delta(&[6, 10], 1))))),
        Family::new("operator_dense", How::Operator(Arc::new(Dense::new(1, N, unit).expect("weights")))),
    ];
    for (name, table) in [
        ("line", delta(&[N], 1)),
        ("plane", delta(&[6, 10], 1)),
        ("space", delta(&[3, 4, 5], 1)),
        ("space_per_head", delta(&[3, 4, 5], H)),
        ("torus", RelativeTable::torus(&[6, 10], 1, &ring).expect("a table")),
        ("window", point),
        // What comes not before and not after.
        ("causal", causal.times(&causal.transposed()).expect("a table")),
    ] {
        list.extend(every_way(name, &table));
    }
    list.extend(supported_ways("line", |name, path| {
        Family::new(name, How::Attention(table_attention(delta(&[17], 1), 0, path))).packed()
    }));
    list
}

/// Masks whose weights are all equal.
fn all_ones() -> Vec<Family> {
    let scan = Family::scan;
    let ones = |sides: &[u32]| RelativeTable::ones(sides).expect("a table");
    let whole = |attention: MaskedAttention| {
        How::Attention(MaskedAttention { segments: Some(vec![0, N]), ..attention })
    };
    let full = Dense::new(1, N, vec![3.0; (N * N) as usize]).expect("weights");
    let bordered = bordered(Arc::new(Toeplitz(ones(&[7, 8]))), 4).expect("a border");
    let mut list = vec![
        scan("two_sided", ScanMask::TwoSided { decay: vec![1.0] }),
        scan("separable", ScanMask::Separable { sides: [3, 4, 5], rates: vec![[0.0; 3]] }),
        Family::new("none_packed", whole(MaskedAttention::of(Mask::Scan(ScanMask::None)))),
        Family::new("operator_low_rank", How::Operator(Arc::new(LowRank::ones(N).expect("ones")))),
        Family::new("operator_dense", How::Operator(Arc::new(full))),
        Family::new("operator_globals", How::Operator(bordered)),
    ];
    let wide = RelativeTable::profile(&[6, 10], Distance::L1, Profile::Window, 99.0).expect("a table");
    let flat = RelativeTable::from_bias(&[N], H, &vec![-4.0; 2 * (2 * N as usize - 1)]).expect("a table");
    for (name, table) in [
        ("line", ones(&[N])),
        ("plane", ones(&[6, 10])),
        ("space", ones(&[3, 4, 5])),
        ("torus", RelativeTable::torus(&[6, 10], 1, &[0.5; N as usize]).expect("a table")),
        ("window", wide),
        ("bias", flat),
        ("bias_alibi", RelativeTable::alibi(N, &[0.0; H as usize]).expect("a table")),
    ] {
        list.extend(every_way(name, &table));
    }
    list.extend(supported_ways("globals", |name, path| {
        Family::new(name, How::Attention(table_attention(ones(&[7, 8]), 4, path)))
    }));
    list.extend(supported_ways("line_packed", |name, path| {
        Family::new(name, whole(table_attention(ones(&[N]), 0, path)))
    }));
    list
}

/// Pairs of masks that are the same: sequences as grids of one row, scans as tables, packed sequences and global tokens as operators.
fn special_cases() -> Vec<(String, Family, Family)> {
    let gammas = [0.9_f32, 0.6];
    let rates = [[0.3_f32, 0.1, 0.5], [0.0, 0.7, 0.2]];
    let from_fn = |sides: &[u32], f: &dyn Fn(u32, [i64; 3]) -> f64| {
        RelativeTable::from_fn(sides, H, f).expect("a table")
    };
    let power = |h: u32, steps: i64| f64::from(gammas[h as usize]).powi(steps as i32);
    let line = |o: i64| 0.55 + 0.45 * (0.31 * o as f64).sin();
    let on_axis = |sides: &[u32]| from_fn(sides, &|_, o| line(o[0] + o[1] + o[2]));
    let causal = Family::scan("causal", ScanMask::Causal);
    let plain = Family::new("line", How::Attention(table_attention(on_axis(&[N]), 0, Path::Pairs)));
    let mut list = Vec::new();
    let mut add = |what: &str, table: RelativeTable, same: &Family| {
        for family in every_way(what, &table) {
            list.push((family.name.clone(), family, same.clone()));
        }
    };
    // 1-D relative positions by the machinery of more axes.
    add("a_line_as_a_column", on_axis(&[N, 1]), &plain);
    add("a_line_as_the_first_axis", on_axis(&[N, 1, 1]), &plain);
    add("a_line_as_the_middle_axis", on_axis(&[1, N, 1]), &plain);
    // Causal attention by tables of one, two and three axes.
    for (what, sides) in [
        ("causal_line", &[N][..]),
        ("causal_column", &[N, 1]),
        ("causal_first_axis", &[N, 1, 1]),
        ("causal_raster_of_a_plane", &[6, 10]),
        ("causal_raster_of_space", &[3, 4, 5]),
    ] {
        add(what, RelativeTable::causal(sides).expect("a table"), &causal);
    }
    let decay = from_fn(&[N], &|h, [_, _, o]| if o < 0 { 0.0 } else { power(h, o) });
    let mask = ScanMask::Decay { decay: gammas.to_vec() };
    add("decay_as_a_table", decay, &Family::scan("decay", mask));
    let mask = ScanMask::TwoSided { decay: gammas.to_vec() };
    add(
        "two_sided_as_a_table",
        from_fn(&[N], &|h, o| power(h, o[2].abs())),
        &Family::scan("two_sided", mask),
    );
    let falls = |h: u32, o: [i64; 3]| {
        (-(0..3).map(|a| f64::from(rates[h as usize][a]) * o[a].abs() as f64).sum::<f64>()).exp()
    };
    let mask = ScanMask::Separable { sides: [3, 4, 5], rates: rates.to_vec() };
    add("separable_as_a_table", from_fn(&[3, 4, 5], &falls), &Family::scan("separable", mask));
    // Weights in the own row alone: one sequence per row.
    let rows = from_fn(&[6, 10], &|_, [_, row, o]| if row == 0 { line(o) } else { 0.0 });
    let attention = table_attention(from_fn(&[10], &|_, o| line(o[2])), 0, Path::Pairs);
    let segments = Some((0..=6).map(|row| 10 * row).collect());
    let sequences = Family::new("rows", How::Attention(MaskedAttention { segments, ..attention }));
    add("rows_as_packed_sequences", rows, &sequences);
    // Global tokens and packed sequences as operators.
    let border = bordered(Arc::new(Toeplitz(lopsided(&[7, 8], 1))), 4).expect("a border");
    let border = Family::new("border", How::Operator(border));
    for family in supported_ways("globals_as_a_border", |name, path| {
        Family::new(name, How::Attention(table_attention(lopsided(&[7, 8], 1), 4, path)))
    }) {
        list.push((family.name.clone(), family, border.clone()));
    }
    let cut = |length: u32| -> SharedMask {
        match length {
            0 => Arc::new(LowRank::zeros(0).expect("no token")),
            _ => {
                Arc::new(Toeplitz(RelativeTable::from_fn(&[length], 1, |_, o| line(o[2])).expect("a table")))
            }
        }
    };
    let lengths = SEGMENTS.windows(2).map(|w| w[1] - w[0]);
    let slack: SharedMask = Arc::new(LowRank::zeros(N - 53).expect("slack"));
    let blocks = BlockDiagonal::new(lengths.map(cut).chain(Some(slack)).collect()).expect("blocks");
    let blocks = Family::new("blocks", How::Operator(Arc::new(blocks)));
    for family in supported_ways("packed_sequences_as_blocks", |name, path| {
        let table = RelativeTable::from_fn(&[17], 1, |_, o| line(o[2])).expect("a table");
        Family::new(name, How::Attention(table_attention(table, 0, path))).packed()
    }) {
        list.push((family.name.clone(), family, blocks.clone()));
    }
    list
}

/// Every segment of a packed family is what it is alone, and the slack is zero.
fn separate(s: &Subject) -> Result<(), Failed> {
    let x = Inputs::new();
    let packed = s.with(|runner| Ok(runner.run(&x)?))?;
    let How::Attention(attention) = &s.family.how else { return Err("operators are not packed".into()) };
    for pair in SEGMENTS.windows(2).filter(|w| w[0] < w[1]) {
        let (from, n) = (pair[0], pair[1] - pair[0]);
        let mask = match &attention.mask {
            Mask::Scan(scan) => Mask::Scan(scan.clone()),
            Mask::Table { table, .. } => {
                let cut = RelativeTable::from_fn(&[n], table.heads(), |h, o| f64::from(table.entry(h, o)));
                Mask::table(cut?)
            }
        };
        let alone = MaskedAttention { mask, segments: None, ..attention.clone() };
        let mut graph = Graph::new("a segment alone");
        let inputs =
            [("q", R), ("k", R), ("v", E)].map(|(name, x)| graph.input(name, [B, H, n, x], DType::F32));
        let kept = s.family.keep.as_ref().map(|_| graph.input("keep", [1, 1, n], DType::U8));
        let masks = Masks { keys: kept, queries: kept };
        let [q, k, v] = inputs;
        let out = alone.record(&mut graph, (q, k, v), masks)?.out;
        graph.output(out)?;
        let mut program = s.backend.compile(&graph)?;
        let cut = |list: &[f32], width: u32| {
            let rows = (0..B * H).flat_map(|batch| {
                list[((batch * N + from) * width) as usize..][..(n * width) as usize].to_vec()
            });
            rows.collect::<Vec<f32>>()
        };
        for (tensor, data) in inputs.into_iter().zip([cut(&x.q, R), cut(&x.k, R), cut(&x.v, E)]) {
            program.write(tensor, &HostTensor::f32(tensor.shape(), data)?)?;
        }
        if let (Some(tensor), Some(keep)) = (kept, &s.family.keep) {
            let keep = keep[from as usize..][..n as usize].to_vec();
            program.write(tensor, &HostTensor::new([1, 1, n], HostData::U8(keep))?)?;
        }
        program.run()?;
        let alone = program.read(out)?.to_f64();
        let size = (n * E) as usize;
        for batch in 0..(B * H) as usize {
            let got = &packed[(batch * N as usize + from as usize) * E as usize..][..size];
            let what = format!("segment {from}..{}", pair[1]);
            close(&what, got, &alone[batch * size..][..size], tolerance(&s.device))?;
        }
    }
    let end = SEGMENTS[SEGMENTS.len() - 1];
    let slack = packed.iter().enumerate().filter(|(at, _)| *at as u32 / E % N >= end);
    need(slack.into_iter().all(|(_, x)| x.to_bits() == 0), || "the slack is not 0".into())
}

/// ⟨M x, y⟩ = ⟨x, Mᵀ y⟩, and M x is what the weights say.
fn adjoint(device: &str, backend: &dyn Backend, mask: &SharedMask) -> Result<(), Failed> {
    let channels = 3;
    let shape = Shape::from([B, H, N, channels]);
    let apply = |x: &HostTensor, transpose: bool| -> Result<Vec<f64>, Failed> {
        let mut graph = Graph::new("product");
        let input = graph.input("x", shape, DType::F32);
        let out = match transpose {
            false => mask.apply(&mut graph, input)?,
            true => mask.apply_transposed(&mut graph, input)?,
        };
        graph.output(out)?;
        let mut program = backend.compile(&graph)?;
        program.write(input, x)?;
        program.run()?;
        Ok(program.read(out)?.to_f64())
    };
    let (x, y) = (support::random(21, shape), support::random(22, shape));
    let (there, back) = (apply(&x, false)?, apply(&y, true)?);
    let (x, y) = (x.to_f64(), y.to_f64());
    let weights: Vec<Vec<f64>> = (0..H).map(|h| mask.dense(h)).collect();
    let [n, c] = [N, channels].map(|x| x as usize);
    let product = |t: &[f64], transpose: bool| {
        let at = |row: usize| {
            let (batch, i, column) = (row / c / n, row / c % n, row % c);
            let weight =
                |j: usize| weights[batch % H as usize][if transpose { j * n + i } else { i * n + j }];
            (0..n).map(|j| weight(j) * t[(batch * n + j) * c + column]).sum::<f64>()
        };
        (0..t.len()).map(at).collect::<Vec<f64>>()
    };
    close("M x", &there, &product(&x, false), tolerance(device))?;
    close("Mᵀ y", &back, &product(&y, true), tolerance(device))?;
    let dot = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(x, y)| x * y).sum::<f64>();
    let length = |a: &[f64]| dot(a, a).sqrt();
    let (left, right) = (dot(&there, &y), dot(&x, &back));
    let allowed = tolerance(device) * length(&there) * length(&y);
    need((left - right).abs() <= allowed, || format!("⟨Mx, y⟩ = {left:e}, ⟨x, Mᵀy⟩ = {right:e}"))
}

fn main() {
    let args = Arguments::from_args();
    let found = support::adapters_by_name();
    let mut devices: Vec<(String, Arc<dyn Backend>)> = vec![("cpu".into(), Arc::new(CpuBackend))];
    devices.extend(support::backends().into_iter().map(|(name, b)| (name, Arc::new(b) as Arc<dyn Backend>)));
    let mut trials = Vec::new();
    for (device, backend) in &devices {
        let subject = |family: Family| Subject {
            family: Arc::new(family),
            device: device.clone(),
            backend: Arc::clone(backend),
            runner: Arc::default(),
        };
        let named = |what: &str, name: &str| format!("{what}::{name}::{device}");
        for family in families() {
            let subject = subject(family);
            let family = Arc::clone(&subject.family);
            for (what, test, about) in INVARIANTS {
                if about(&family) {
                    let subject = subject.clone();
                    trials.push(Trial::test(named(what, &family.name), move || test(&subject)));
                }
            }
            if family.segments().is_some() {
                let subject = subject.clone();
                let name = named("packed_sequences_are_what_they_are_alone", &family.name);
                trials.push(Trial::test(name, move || separate(&subject)));
            }
            let mask: SharedMask = match &family.how {
                How::Operator(mask) => Arc::clone(mask),
                // The table as an operator, once.
                How::Attention(attention) => match &attention.mask {
                    Mask::Table { table, globals: 0 }
                        if attention.path == Path::Pairs
                            && family.keep.is_none()
                            && family.segments().is_none() =>
                    {
                        Arc::new(Toeplitz(table.clone()))
                    }
                    _ => continue,
                },
            };
            if family.keep.is_none() {
                let (device, backend) = (device.clone(), Arc::clone(backend));
                let name = named("products_have_their_adjoint", &family.name);
                trials.push(Trial::test(name, move || adjoint(&device, backend.as_ref(), &mask)));
            }
        }
        for family in identities() {
            let subject = subject(family);
            let name = named("the_identity_gives_values_back", &subject.family.name);
            trials.push(Trial::test(name, move || {
                let x = Inputs::new();
                let got = subject.with(|runner| Ok(runner.run(&x)?))?;
                let mut values: Vec<f64> = x.v.iter().map(|v| f64::from(*v)).collect();
                for token in subject.family.unused() {
                    (0..(B * H) as usize).for_each(|batch| {
                        values[(batch * N as usize + token as usize) * E as usize..][..E as usize].fill(0.0);
                    });
                }
                close("values", &got, &values, tolerance(&subject.device))
            }));
        }
        for family in all_ones() {
            let subject = subject(family);
            let name = named("equal_weights_are_no_mask", &subject.family.name);
            trials.push(Trial::test(name, move || {
                let x = Inputs::new();
                let none = Family::scan("none", ScanMask::None);
                let unmasked = Runner::new(&CpuBackend, &none.how, None)?.run(&x)?;
                let got = subject.with(|runner| Ok(runner.run(&x)?))?;
                close("unmasked", &got, &unmasked, tolerance(&subject.device))
            }));
        }
        for (what, family, same) in special_cases() {
            let (subject, same) = (subject(family), subject(same));
            trials.push(Trial::test(named("one_is_the_other", &what), move || {
                let x = Inputs::new();
                let [got, expected] = [&subject, &same].map(|s| s.with(|runner| Ok(runner.run(&x)?)));
                // Weights of tables are rounded to f32, those of scans are powers of rounded numbers.
                close(&same.family.name, &got?, &expected?, tolerance(&subject.device).max(2e-6))
            }));
        }
    }
    for missing in support::missing_adapters(&found) {
        let reason = format!("no {missing} adapter on this machine");
        trials.push(support::absent(&format!("adapter::{missing}"), &reason, support::required(&missing)));
    }
    libtest_mimic::run(&args, trials).exit();
}
