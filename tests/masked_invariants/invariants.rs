//! The invariants, and what runs a family on a device.

use crate::families::{B, E, Family, H, How, N, R, SEGMENTS};
use crate::support;
use libtest_mimic::Failed;
use std::sync::{Arc, Mutex, PoisonError};
use wgattn::attention::{Mask, MaskedAttention, Masks, rows_without_keys};
use wgattn::backend::{Backend, Program};
use wgattn::graph::Graph;
use wgattn::mask::RelativeTable;
use wgattn::mask::operator::{SharedMask, attend};
use wgattn::random::{gaussian, philox};
use wgattn::tensor::{DType, HostData, HostTensor, Shape, Tensor};

/// Largest difference from f64 as a part of the largest value. On the CPU reference both are f64. On devices sums of 60 rounded terms;
/// transforms and their guard promise 1e-5 in the worst row and stay within this on these tables.
pub(crate) fn tolerance(device: &str) -> f64 {
    if device == "cpu" { 1e-12 } else { 4e-6 }
}

/// Queries, keys `[B, H, N, R]` and values `[B, H, N, E]`.
#[derive(Clone)]
pub(crate) struct Inputs {
    pub(crate) q: Vec<f32>,
    pub(crate) k: Vec<f32>,
    pub(crate) v: Vec<f32>,
}

impl Inputs {
    /// Positive features over one order of magnitude, normal values.
    pub(crate) fn new() -> Self {
        let normal = |stream: u32, count: u32| {
            let four = move |block: u32| philox([block, 0, 0, stream], 11).map(gaussian);
            (0..count).flat_map(four).take(count as usize).collect::<Vec<f32>>()
        };
        let features =
            |stream| normal(stream, B * H * N * R).into_iter().map(|x| (0.5 * x - 0.25).exp()).collect();
        Self { q: features(1), k: features(2), v: normal(3, B * H * N * E) }
    }

    /// The definition in f64: rows without keys are zeros.
    pub(crate) fn exact(&self, family: &Family) -> Vec<f64> {
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
            let query = line(&self.q, i, r);
            for j in 0..N {
                let weight = family.weight(head, i, j);
                // A key of weight 0 may hold anything.
                if weight != 0.0 {
                    let dot: f64 = query.iter().zip(line(&self.k, j, r)).map(|(x, y)| x * y).sum();
                    sums.iter_mut().zip(line(&self.v, j, e)).for_each(|(sum, y)| *sum += weight * dot * y);
                    total += weight * dot;
                }
            }
            out.extend(sums.iter().map(|sum| if total == 0.0 { 0.0 } else { sum / total }));
        }
        out
    }

    /// Other values of the same kind.
    pub(crate) fn other_values() -> Vec<f32> {
        support::random(5, [B, H, N, E]).to_f32()
    }

    /// Numbers of the tokens that `chosen` names changed, in all of q, k and v: feature rows by `feature`, value rows by `value`.
    pub(crate) fn change(
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
pub(crate) struct Runner {
    pub(crate) program: Box<dyn Program>,
    pub(crate) inputs: [Tensor; 3],
    pub(crate) out: Tensor,
    pub(crate) seen: Option<Tensor>,
    pub(crate) status: Option<Tensor>,
}

impl Runner {
    pub(crate) fn new(backend: &dyn Backend, how: &How, keep: Option<&[u8]>) -> wgattn::Result<Self> {
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

    pub(crate) fn run(&mut self, x: &Inputs) -> wgattn::Result<Vec<f64>> {
        for (tensor, data) in self.inputs.into_iter().zip([&x.q, &x.k, &x.v]) {
            self.program.write(tensor, &HostTensor::f32(tensor.shape(), data.clone())?)?;
        }
        self.program.run()?;
        Ok(self.program.read(self.out)?.to_f64())
    }

    /// Rows without keys of the last run; operators do not count them.
    pub(crate) fn without_keys(&mut self) -> wgattn::Result<Option<(HostTensor, usize)>> {
        let Some(seen) = self.seen else { return Ok(None) };
        let seen = self.program.read(seen)?;
        let count = rows_without_keys(&seen);
        Ok(Some((seen, count)))
    }

    /// Rows that the guard had computed again in the last run.
    pub(crate) fn computed_again(&mut self) -> wgattn::Result<Option<u32>> {
        let Some(status) = self.status else { return Ok(None) };
        Ok(Some(self.program.read(status)?.to_f64()[0] as u32))
    }
}

/// A family on a device: compiled when the first of its trials runs.
#[derive(Clone)]
pub(crate) struct Subject {
    pub(crate) family: Arc<Family>,
    pub(crate) device: String,
    pub(crate) backend: Arc<dyn Backend>,
    pub(crate) runner: Arc<Mutex<Option<Runner>>>,
}

impl Subject {
    pub(crate) fn with<T>(&self, work: impl FnOnce(&mut Runner) -> Result<T, Failed>) -> Result<T, Failed> {
        let mut runner = self.runner.lock().unwrap_or_else(PoisonError::into_inner);
        if runner.is_none() {
            let family = &self.family;
            *runner = Some(Runner::new(self.backend.as_ref(), &family.how, family.keep.as_deref())?);
        }
        runner.as_mut().map_or_else(|| Err("nothing was compiled".into()), work)
    }
}

pub(crate) fn need(fine: bool, what: impl FnOnce() -> String) -> Result<(), Failed> {
    if fine { Ok(()) } else { Err(what().into()) }
}

/// Where an element lies.
pub(crate) fn place(at: usize) -> String {
    let (row, column) = (at / E as usize, at % E as usize);
    let (batch, token) = (row / N as usize, row % N as usize);
    format!("batch {}, head {}, token {token}, column {column}", batch / H as usize, batch % H as usize)
}

pub(crate) fn close(what: &str, got: &[f64], expected: &[f64], allowed: f64) -> Result<(), Failed> {
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

pub(crate) fn same_bits(what: &str, got: &[f64], expected: &[f64]) -> Result<(), Failed> {
    let differs = got.iter().zip(expected).position(|(a, b)| a.to_bits() != b.to_bits());
    match differs {
        None if got.len() == expected.len() => Ok(()),
        Some(at) => Err(format!("{what}, {}: {:e} instead of {:e}", place(at), got[at], expected[at]).into()),
        None => Err(format!("{what}: {} numbers instead of {}", got.len(), expected.len()).into()),
    }
}

/// A name, the test, and the families that it is about.
pub(crate) type Invariant = (&'static str, fn(&Subject) -> Result<(), Failed>, fn(&Family) -> bool);

/// The invariants.
pub(crate) const INVARIANTS: [Invariant; 12] = [
    ("agrees_with_the_definition", definition, |_| true),
    ("equal_values_stay", equal_values, |_| true),
    ("rows_are_averages", averages, |_| true),
    ("factors_of_keys_and_queries_change_nothing", factors, |_| true),
    ("a_factor_of_the_mask_changes_nothing", mask_factor, |f| f.times(1.0).is_some()),
    ("values_add", values_add, |_| true),
    ("batch_elements_and_heads_are_apart", apart, |_| true),
    ("unused_tokens_may_hold_anything", garbage, |f| !f.unused().is_empty()),
    ("what_buffers_held_before_does_not_matter", leftovers, |_| true),
    ("rows_without_keys_are_zeros_and_counted", no_keys, |_| true),
    ("the_future_changes_nothing", future, |f| f.is_causal() && !f.by_transforms()),
    ("a_loud_future_fires_the_guard", loud_future, |f| f.is_causal() && f.by_transforms()),
];

pub(crate) fn definition(s: &Subject) -> Result<(), Failed> {
    let x = Inputs::new();
    let got = s.with(|runner| Ok(runner.run(&x)?))?;
    close("output", &got, &x.exact(&s.family), tolerance(&s.device))
}

pub(crate) fn equal_values(s: &Subject) -> Result<(), Failed> {
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
pub(crate) fn averages(s: &Subject) -> Result<(), Failed> {
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
pub(crate) fn factors(s: &Subject) -> Result<(), Failed> {
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

pub(crate) fn mask_factor(s: &Subject) -> Result<(), Failed> {
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

pub(crate) fn values_add(s: &Subject) -> Result<(), Failed> {
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
pub(crate) fn apart(s: &Subject) -> Result<(), Failed> {
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

pub(crate) fn garbage(s: &Subject) -> Result<(), Failed> {
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

/// A run over NaN leaves its bits in every buffer of the program: the next run has none of them.
fn leftovers(s: &Subject) -> Result<(), Failed> {
    let x = Inputs::new();
    s.with(|runner| {
        let clean = runner.run(&x)?;
        for bad in [f32::NAN, f32::INFINITY] {
            runner.run(&x.change(|_, _| true, |_| bad, |_| bad))?;
            same_bits(&format!("after a run over {bad}"), &runner.run(&x)?, &clean)?;
        }
        Ok(())
    })
}

/// With the family's own empty rows, and with every token left out.
pub(crate) fn no_keys(s: &Subject) -> Result<(), Failed> {
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
pub(crate) fn future(s: &Subject) -> Result<(), Failed> {
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

/// Transforms spread the noise of loud keys over all rows of their sequence: the rows before them must be computed again.
pub(crate) fn loud_future(s: &Subject) -> Result<(), Failed> {
    let x = Inputs::new();
    let first = 40;
    let loud = x.change(|_, token| token >= first, |x| 1e6 * x, |v| v);
    let (got, again) = s.with(|runner| Ok((runner.run(&loud)?, runner.computed_again()?)))?;
    close(
        "rows beside loud keys",
        &got,
        &loud.exact(&s.family),
        if s.device == "cpu" { 1e-12 } else { 1e-5 },
    )?;
    // The CPU reference is the definition and computes nothing again.
    let packed = matches!(&s.family.how, How::Attention(a) if a.segments.is_some());
    let meets =
        |row: u32| !packed || SEGMENTS.windows(2).any(|w| (w[0]..w[1]).contains(&row) && w[1] > first);
    let spoilt = (0..B * H * first)
        .filter(|row| meets(row % first) && s.family.has_key(row / first % H, row % first))
        .count() as u32;
    need(spoilt > 0, || "no row before the loud keys".into())?;
    let again = again.ok_or("a table reports rows that were computed again")?;
    need(s.device == "cpu" || again >= spoilt, || {
        format!("{again} rows computed again, expected at least {spoilt}")
    })
}

/// Every segment of a packed family is what it is alone, and the slack is zero.
pub(crate) fn separate(s: &Subject) -> Result<(), Failed> {
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
pub(crate) fn adjoint(device: &str, backend: &dyn Backend, mask: &SharedMask) -> Result<(), Failed> {
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
