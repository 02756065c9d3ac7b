//! Masked linear attention as it is composed: both ways agree with the definition, the guard finds what noise spoils, masks are
//! special cases of each other, and operators are what their weights say.

use std::sync::Arc;
use wgattn::attention::{LinearAttention, Mask, MaskedAttention, Masks, ScanMask};
use wgattn::backend::wgpu::{Options, WgpuBackend};
use wgattn::backend::{Backend, cpu::CpuBackend};
use wgattn::graph::{Graph, Lowering};
use wgattn::kernel::Driver;
use wgattn::kernels::mask::path::Path;
use wgattn::mask::operator::{
    BlockDiagonal, Dense, LowRank, Scaled, SharedMask, Sum, Toeplitz, attend, bordered, hadamard,
};
use wgattn::mask::{Distance, MaskOperator, Profile, RelativeTable};
use wgattn::random::{gaussian, philox};
use wgattn::tensor::{DType, HostData, HostTensor, Tensor};

mod support;

fn devices() -> Vec<(String, Arc<dyn Backend>)> {
    let mut list: Vec<(String, Arc<dyn Backend>)> = vec![("cpu".into(), Arc::new(CpuBackend))];
    list.extend(support::backends().into_iter().map(|(name, b)| (name, Arc::new(b) as Arc<dyn Backend>)));
    list
}

/// Standard normal numbers.
fn normal(stream: u32, count: usize) -> Vec<f64> {
    let four = |block: u32| philox([block, 0, 0, stream], 7).map(|word| f64::from(gaussian(word)));
    (0..count as u32).flat_map(four).take(count).collect()
}

/// Queries, keys and values `[1, h, n, ·]`: features are exponentials of `scale` times normal numbers, so a larger scale spreads
/// denominators over more orders of magnitude.
struct Sample {
    h: u32,
    n: u32,
    q: HostTensor,
    k: HostTensor,
    v: HostTensor,
}

const R: u32 = 8;
const E: u32 = 6;

impl Sample {
    fn new(h: u32, n: u32, scale: f64) -> Self {
        let features = |stream| {
            let numbers = normal(stream, (h * n * R) as usize);
            let mapped: Vec<f32> = numbers.iter().map(|x| (scale * x - scale * scale).exp() as f32).collect();
            HostTensor::f32([1, h, n, R], mapped).expect("features")
        };
        let v = normal(3, (h * n * E) as usize).iter().map(|x| *x as f32).collect();
        Self { h, n, q: features(1), k: features(2), v: HostTensor::f32([1, h, n, E], v).expect("values") }
    }

    /// The definition in f64; also the least denominator.
    fn exact(&self, weight: impl Fn(u32, u32, u32) -> f64) -> Vec<f64> {
        let (q, k, v) = (self.q.to_f64(), self.k.to_f64(), self.v.to_f64());
        let (n, r, e) = (self.n as usize, R as usize, E as usize);
        let mut out = Vec::new();
        for (head, i) in (0..self.h as usize).flat_map(|h| (0..n).map(move |i| (h, i))) {
            let mut sums = vec![0.0; e];
            let mut total = 0.0;
            for j in 0..n {
                let at =
                    |t: &[f64], row: usize, width: usize| t[(head * n + row) * width..][..width].to_vec();
                let dot: f64 = at(&q, i, r).iter().zip(at(&k, j, r)).map(|(x, y)| x * y).sum();
                let a = weight(head as u32, i as u32, j as u32) * dot;
                sums.iter_mut().zip(at(&v, j, e)).for_each(|(sum, x)| *sum += a * x);
                total += a;
            }
            out.extend(sums.iter().map(|s| if total == 0.0 { 0.0 } else { s / total }));
        }
        out
    }

    fn run(&self, backend: &dyn Backend, attention: &MaskedAttention) -> (Vec<f64>, Option<[u32; 2]>) {
        self.run_masked(backend, attention, None)
    }

    fn run_masked(
        &self,
        backend: &dyn Backend,
        attention: &MaskedAttention,
        keys: Option<&[u8]>,
    ) -> (Vec<f64>, Option<[u32; 2]>) {
        self.run_with(backend, attention, [keys, None])
    }

    /// With masks of keys and of queries, for all heads.
    fn run_with(
        &self,
        backend: &dyn Backend,
        attention: &MaskedAttention,
        masks: [Option<&[u8]>; 2],
    ) -> (Vec<f64>, Option<[u32; 2]>) {
        let mut graph = Graph::new("masked attention");
        let named = [("q", &self.q), ("k", &self.k), ("v", &self.v)];
        let inputs = named.map(|(name, x)| (graph.input(name, x.shape(), DType::F32), x));
        let given = masks.map(|mask| mask.map(|m| (graph.input("keep", [1, 1, self.n], DType::U8), m)));
        let [q, k, v] = inputs.map(|(t, _)| t);
        let [keys, queries] = given.map(|mask| mask.map(|(tensor, _)| tensor));
        let attended = attention.record(&mut graph, (q, k, v), Masks { keys, queries }).expect("it records");
        graph.output(attended.out).expect("an output");
        if let Some(status) = attended.status {
            graph.output(status).expect("an output");
        }
        let mut program = backend.compile(&graph).expect("it compiles");
        inputs.iter().for_each(|(t, x)| program.write(*t, x).expect("it is written"));
        for (tensor, bytes) in given.into_iter().flatten() {
            let mask = HostTensor::new([1, 1, self.n], HostData::U8(bytes.to_vec())).expect("a mask");
            program.write(tensor, &mask).expect("it is written");
        }
        program.run().expect("it runs");
        let status = attended.status.map(|s| {
            let words = program.read(s).expect("it is read").to_f64();
            [words[0] as u32, words[1] as u32]
        });
        (program.read(attended.out).expect("it is read").to_f64(), status)
    }
}

/// Largest error of a row, relative to the largest value of all.
fn error(got: &[f64], expected: &[f64]) -> f64 {
    let largest = expected.iter().fold(1e-30, |top: f64, x| top.max(x.abs()));
    assert_eq!(got.len(), expected.len());
    got.iter().zip(expected).fold(0.0, |worst: f64, (a, b)| {
        assert!(a.is_finite(), "{a}");
        worst.max((a - b).abs())
    }) / largest
}

fn of(table: RelativeTable, path: Path) -> MaskedAttention {
    MaskedAttention { path, ..MaskedAttention::of(Mask::table(table)) }
}

/// A table for several heads with weights from 0.1 to 1, the same in no two directions.
fn lopsided(sides: &[u32], heads: u32) -> RelativeTable {
    RelativeTable::from_fn(sides, heads, |h, [a, b, c]| {
        0.55 + 0.45 * (1.3 * a as f64 + 0.7 * b as f64 + 0.31 * c as f64 + f64::from(h)).sin()
    })
    .expect("a table")
}

#[test]
fn both_ways_agree_with_the_definition_on_every_grid() {
    let grids: [&[u32]; 11] =
        [&[1], &[2], &[3], &[5], &[17], &[100], &[257], &[7, 11], &[13, 29], &[4, 6, 5], &[3, 1, 9]];
    for sides in grids {
        let table = lopsided(sides, 2);
        let sample = Sample::new(2, table.tokens(), 0.5);
        let expected = sample.exact(|h, i, j| f64::from(table.weight(h, i, j)));
        for (name, backend) in devices() {
            let mut by_transforms = Vec::new();
            for path in [Path::Auto, Path::Pairs, Path::Fourier, Path::Passes, Path::Fused] {
                let (got, _) = sample.run(backend.as_ref(), &of(table.clone(), path));
                let error = error(&got, &expected);
                assert!(error < 2e-6, "{sides:?} on {name} by {path}: {error:e}");
                if matches!(path, Path::Passes | Path::Fused) {
                    by_transforms.push(got);
                }
            }
            let error = error(&by_transforms[1], &by_transforms[0]);
            assert!(error < 2e-6, "{sides:?} on {name}, fused against passes: {error:e}");
        }
    }
}

/// A device that is taken for a GPU with the limits that all have: transforms that fit stay in workgroup memory, and the features of
/// few heads are cut into slices that are added up; others pass over memory.
#[test]
fn as_on_a_gpu_transforms_stay_in_workgroup_memory_where_they_fit() {
    let (r, e) = (27, 5);
    for (sides, expected) in [(vec![14, 14], true), (vec![1024], true), (vec![1025], false)] {
        let table = lopsided(&sides, 1);
        let n = table.tokens();
        let attention = of(table, Path::Fourier);
        let mut graph = Graph::new("masked attention");
        let inputs = [(1, r), (2, r), (3, e)].map(|(stream, width)| {
            let numbers = normal(stream, (n * width) as usize);
            let value = numbers.iter().map(|x| if width == r { x.abs() as f32 } else { *x as f32 }).collect();
            let shape = [1, 1, n, width];
            (graph.input("x", shape, DType::F32), HostTensor::f32(shape, value).expect("numbers"))
        });
        let [q, k, v] = [0, 1, 2].map(|i| inputs[i].0);
        let attended = attention.record(&mut graph, (q, k, v), Masks::default()).expect("it records");
        graph.output(attended.out).expect("an output");
        let run = |backend: &dyn Backend| {
            let mut program = backend.compile(&graph).expect("it compiles");
            inputs.iter().for_each(|(t, x)| program.write(*t, x).expect("it is written"));
            program.run().expect("it runs");
            program.read(attended.out).expect("it is read").to_f64()
        };
        let truth = run(&CpuBackend);
        for (name, adapter) in support::adapters_by_name() {
            let options =
                Options { driver: Some(Driver::Gpu), workgroup_bytes: Some(16_384), ..Options::default() };
            let backend = WgpuBackend::on_adapter(&adapter, options).expect("a device");
            let caps = *backend.device_caps().expect("a device has limits");
            let schedule = graph.schedule(Lowering::Device(&caps)).expect("a schedule");
            let has = |kernel| schedule.steps.iter().any(|step| step.kernel.name == kernel);
            assert_eq!(has("toeplitz_attention_fused"), expected, "{sides:?} on {name}");
            assert_eq!(has("toeplitz_lift"), !expected, "{sides:?} on {name}");
            let sliced = schedule
                .steps
                .iter()
                .any(|step| step.kernel.name == "toeplitz_attention_fused" && step.dims.size("s") == 3);
            assert_eq!(sliced, expected, "{sides:?} on {name}: slices of features");
            let error = error(&run(&backend), &truth);
            assert!(error < 2e-6, "{sides:?} on {name}: {error:e}");
        }
    }
}

/// The method's table of denominators that transforms would spoil (topological masking, 1.7): the guard fires, and no row errs by
/// more than 1e-5.
#[test]
fn the_guard_finds_the_rows_that_noise_would_spoil() {
    let n = 512;
    let causal = || RelativeTable::causal(&[n]).expect("a table");
    let fall = |rate: f64| {
        RelativeTable::from_fn(&[n], 1, |_, [_, _, o]| (-rate * o.abs() as f64).exp()).expect("a table")
    };
    let window = RelativeTable::profile(&[n], Distance::L1, Profile::Window, 8.0).expect("a table");
    let masks = [
        ("const", RelativeTable::ones(&[n]).expect("a table"), 1.0, false),
        ("const", RelativeTable::ones(&[n]).expect("a table"), 2.5, false),
        ("exp(-.1|x|)", fall(0.1), 1.0, false),
        ("exp(-|x|)", fall(1.0), 2.5, true),
        ("exp(-|x|)", fall(1.0), 4.0, true),
        ("causal", causal(), 1.0, false),
        ("causal", causal(), 4.0, true),
        ("causal exp(-.1x)", fall(0.1).times(&causal()).expect("a table"), 4.0, true),
        ("window 8", window, 4.0, true),
    ];
    for (mask, table, scale, must_fire) in masks {
        let sample = Sample::new(1, n, scale);
        let expected = sample.exact(|h, i, j| f64::from(table.weight(h, i, j)));
        for (name, backend) in devices().into_iter().skip(1) {
            for path in [Path::Passes, Path::Fused] {
                let (got, status) = sample.run(backend.as_ref(), &of(table.clone(), path));
                let [again, all] = status.expect("tables have a status");
                let error = error(&got, &expected);
                let what = format!("{mask}, scale {scale} on {name} by {path}");
                println!("{what}: {again} of {all} rows again, error {error:.1e}");
                assert_eq!(all, n);
                assert!(error < 1e-5, "{what}: {error:e} with {again} rows computed again");
                assert!(again > 0 || !must_fire, "{what}: no row was computed again");
            }
        }
    }
}

/// Causal attention and masks with decay are tables too: scans and tables agree.
#[test]
fn scans_are_special_cases_of_tables() {
    let n = 100;
    let sample = Sample::new(1, n, 0.7);
    let decay = |both: bool| {
        RelativeTable::from_fn(&[n], 1, move |_, [_, _, o]| {
            if o < 0 && !both { 0.0 } else { f64::from(0.95_f32).powi(o.unsigned_abs() as i32) }
        })
    };
    let pairs = [
        (ScanMask::Causal, RelativeTable::causal(&[n])),
        (ScanMask::Decay { decay: vec![0.95] }, decay(false)),
        (ScanMask::TwoSided { decay: vec![0.95] }, decay(true)),
        (ScanMask::None, RelativeTable::ones(&[n])),
    ];
    for (scan, table) in pairs {
        let table = table.expect("a table");
        for (name, backend) in devices() {
            let (by_scan, _) = sample.run(backend.as_ref(), &MaskedAttention::of(Mask::Scan(scan.clone())));
            let (by_table, _) = sample.run(backend.as_ref(), &of(table.clone(), Path::Auto));
            let error = error(&by_table, &by_scan);
            assert!(error < 4e-6, "{scan:?} on {name}: {error:e}");
        }
    }
}

const ALL_WAYS: [Path; 5] = [Path::Auto, Path::Pairs, Path::Fourier, Path::Passes, Path::Fused];

#[test]
fn masked_keys_agree_with_the_definition() {
    let sample = Sample::new(2, 32, 0.5);
    let keep: Vec<u8> = (0..32).map(|t| u8::from(t % 3 != 1)).collect();
    let grid = lopsided(&[4, 8], 1);
    let masked = sample.exact(|h, i, j| f64::from(grid.weight(h, i, j)) * f64::from(keep[j as usize]));
    for ((name, backend), path) in devices().into_iter().flat_map(|d| ALL_WAYS.map(|path| (d.clone(), path)))
    {
        let (got, _) = sample.run_masked(backend.as_ref(), &of(grid.clone(), path), Some(&keep));
        let error = error(&got, &masked);
        assert!(error < 2e-6, "{name} by {path}: {error:e}");
    }
}

/// Whichever way: a border of ones around the mask of the grid, left-out keys among the global ones too, and left-out queries.
#[test]
fn global_tokens_agree_with_the_definition_by_every_way() {
    for (sides, globals, tables) in [(vec![5, 6], 2, 1), (vec![70], 1, 2), (vec![2, 3, 4], 3, 2)] {
        let table = lopsided(&sides, tables);
        let n = table.tokens() + globals;
        let sample = Sample::new(2, n, 0.5);
        let keys: Vec<u8> = (0..n).map(|t| u8::from(t % 5 != 1)).collect();
        let queries: Vec<u8> = (0..n).map(|t| u8::from(t % 7 != 3)).collect();
        let bordered = |h, i: u32, j: u32| match (i.checked_sub(globals), j.checked_sub(globals)) {
            (Some(i), Some(j)) => f64::from(table.weight(h, i, j)),
            _ => 1.0,
        };
        let whole = sample.exact(bordered);
        let in_part = sample.exact(|h, i, j| {
            f64::from(keys[j as usize]) * f64::from(queries[i as usize]) * bordered(h, i, j)
        });
        let mask = Mask::Table { table: table.clone(), globals };
        for (name, backend) in devices() {
            for path in ALL_WAYS {
                let attention = MaskedAttention { path, ..MaskedAttention::of(mask.clone()) };
                let what = format!("{globals} before {sides:?} on {name} by {path}");
                let (got, status) = sample.run(backend.as_ref(), &attention);
                let error_of_all = error(&got, &whole);
                assert!(error_of_all < 2e-6, "{what}: {error_of_all:e}");
                let rows = status.expect("tables have a status")[1];
                assert_eq!(rows, 2 * n, "{what}");
                let (got, _) = sample.run_with(backend.as_ref(), &attention, [Some(&keys), Some(&queries)]);
                let error_of_part = error(&got, &in_part);
                assert!(error_of_part < 2e-6, "{what}, masked: {error_of_part:e}");
            }
        }
    }
}

/// Thirteen sequences of which three are empty, in three classes of length, with tokens of none before and behind them: whichever
/// way, each is what it would be alone.
#[test]
fn packed_sequences_are_what_they_are_alone() {
    let offsets = [2, 7, 7, 8, 22, 31, 31, 64, 65, 66, 66, 67, 69, 85];
    let n = 90;
    let sample = Sample::new(2, n, 0.5);
    let keys: Vec<u8> = (0..n).map(|t| u8::from(t % 5 != 1)).collect();
    let queries: Vec<u8> = (0..n).map(|t| u8::from(t % 7 != 3)).collect();
    let sequence = |t: u32| offsets.windows(2).position(|w| (w[0]..w[1]).contains(&t));
    for tables in [1, 2] {
        let line = lopsided(&[35], tables);
        let blocks = |h, i: u32, j: u32| match (sequence(i), sequence(j)) {
            (Some(a), Some(b)) if a == b => f64::from(line.entry(h, [0, 0, i64::from(i) - i64::from(j)])),
            _ => 0.0,
        };
        let whole = sample.exact(blocks);
        let in_part = sample
            .exact(|h, i, j| f64::from(keys[j as usize]) * f64::from(queries[i as usize]) * blocks(h, i, j));
        for (name, backend) in devices() {
            for path in ALL_WAYS {
                let attention =
                    MaskedAttention { segments: Some(offsets.to_vec()), ..of(line.clone(), path) };
                let what = format!("{tables} tables on {name} by {path}");
                let (got, status) = sample.run(backend.as_ref(), &attention);
                let error_of_all = error(&got, &whole);
                assert!(error_of_all < 2e-6, "{what}: {error_of_all:e}");
                let [again, rows] = status.expect("tables have a status");
                assert_eq!(rows, 2 * n, "{what}");
                assert!(again < n, "{what}: places of no row are not computed again, but {again} rows were");
                let (got, _) = sample.run_with(backend.as_ref(), &attention, [Some(&keys), Some(&queries)]);
                let error_of_part = error(&got, &in_part);
                assert!(error_of_part < 2e-6, "{what}, masked: {error_of_part:e}");
            }
        }
    }
}

/// Heads worked in slices, each with its own table and its part of the masks, give the same.
#[test]
fn slices_of_heads_agree_with_the_definition() {
    let sample = Sample::new(3, 120, 0.5);
    let keys: Vec<u8> = (0..120).map(|t| u8::from(t % 5 != 1)).collect();
    let (grid, line) = (lopsided(&[9, 13], 3), lopsided(&[60], 3));
    let offsets = [0, 60, 63, 118];
    let sequence = |t: u32| offsets.windows(2).position(|w| (w[0]..w[1]).contains(&t));
    let kept = |j: u32| f64::from(keys[j as usize]);
    let bordered = sample.exact(|h, i, j| match (i.checked_sub(3), j.checked_sub(3)) {
        (Some(i), Some(j)) => kept(j + 3) * f64::from(grid.weight(h, i, j)),
        _ => kept(j),
    });
    let blocks = sample.exact(|h, i, j| match (sequence(i), sequence(j)) {
        (Some(a), Some(b)) if a == b => {
            kept(j) * f64::from(line.entry(h, [0, 0, i64::from(i) - i64::from(j)]))
        }
        _ => 0.0,
    });
    for (name, adapter) in support::adapters_by_name() {
        let options = Options { memory_budget: Some(60_000), ..Options::default() };
        let backend = WgpuBackend::on_adapter(&adapter, options).expect("a device");
        for path in [Path::Passes, Path::Fused] {
            let globals = MaskedAttention {
                path,
                ..MaskedAttention::of(Mask::Table { table: grid.clone(), globals: 3 })
            };
            let packed = MaskedAttention { segments: Some(offsets.to_vec()), ..of(line.clone(), path) };
            for (what, attention, expected) in
                [("global tokens", globals, &bordered), ("packed sequences", packed, &blocks)]
            {
                let (got, status) = sample.run_masked(&backend, &attention, Some(&keys));
                let error = error(&got, expected);
                assert!(error < 2e-6, "{what} on {name} by {path}: {error:e}");
                assert_eq!(status.expect("tables have a status")[1], 360, "{what} on {name} by {path}");
            }
        }
    }
}

/// What one sequence holds changes nothing in another, to the bit, and left-out tokens may hold anything.
#[test]
fn nothing_leaks_between_packed_sequences() {
    let offsets = vec![0, 20, 37, 40, 60];
    let sample = Sample::new(1, 62, 0.5);
    let mut changed = Sample { h: 1, n: 62, q: sample.q.clone(), k: sample.k.clone(), v: sample.v.clone() };
    let (mut k, mut v) = (sample.k.to_f32(), sample.v.to_f32());
    k[20 * R as usize..37 * R as usize].iter_mut().for_each(|x| *x *= 1e9);
    v[20 * E as usize..37 * E as usize].iter_mut().for_each(|x| *x *= 1e9);
    // Of no sequence, and left out of its own.
    for token in [61, 45] {
        k[token * R as usize..][..R as usize].fill(f32::NAN);
        v[token * E as usize..][..E as usize].fill(f32::INFINITY);
    }
    changed.k = HostTensor::f32([1, 1, 62, R], k).expect("keys");
    changed.v = HostTensor::f32([1, 1, 62, E], v).expect("values");
    let keys: Vec<u8> = (0..62).map(|t| u8::from(t != 45)).collect();
    let line = lopsided(&[20], 1);
    for (name, backend) in devices() {
        for path in [Path::Pairs, Path::Passes, Path::Fused] {
            let attention = MaskedAttention { segments: Some(offsets.clone()), ..of(line.clone(), path) };
            let (before, _) = sample.run_masked(backend.as_ref(), &attention, Some(&keys));
            let (after, _) = changed.run_masked(backend.as_ref(), &attention, Some(&keys));
            for part in [0..20, 37..62] {
                let words = part.start * E as usize..part.end * E as usize;
                assert_eq!(before[words.clone()], after[words], "{name} by {path}");
            }
        }
    }
}

#[test]
fn what_cannot_be_is_told() {
    let sample = Sample::new(2, 12, 0.5);
    let message = |attention: MaskedAttention| {
        let mut graph = Graph::new("refused");
        let [q, k, v] = [&sample.q, &sample.k, &sample.v].map(|x| graph.input("x", x.shape(), DType::F32));
        attention.record(&mut graph, (q, k, v), Masks::default()).expect_err("it is refused").to_string()
    };
    let table = |sides: &[u32], heads| lopsided(sides, heads);
    let cases = [
        (of(table(&[3, 5], 1), Path::Auto), "12 tokens"),
        (of(table(&[12], 3), Path::Auto), "1 or 2 heads"),
        (of(RelativeTable::signed(&[12], 1, vec![-1.0; 23]).expect("signs"), Path::Auto), "negative"),
        (MaskedAttention { segments: Some(vec![0, 9, 4]), ..of(table(&[12], 1), Path::Auto) }, "segments[2]"),
        (MaskedAttention { segments: Some(vec![0, 9]), ..of(table(&[4], 1), Path::Auto) }, "longest"),
        (MaskedAttention { tau: 0.0, ..of(table(&[12], 1), Path::Auto) }, "tau"),
    ];
    for (attention, part) in cases {
        let text = message(attention);
        assert!(text.contains(part), "{part:?} is not in: {text}");
    }
    // Too large for workgroup memory anywhere.
    let mut graph = Graph::new("refused");
    let [q, k, v] = [R, R, E].map(|width| graph.input("x", [1, 1, 2049, width], DType::F32));
    let attention = of(table(&[2049], 1), Path::Fused);
    let refused = attention.record(&mut graph, (q, k, v), Masks::default()).expect_err("it is refused");
    assert!(refused.to_string().contains("4096 places"), "{refused}");
}

/// A map's row is the attention's: times the values it gives the same numbers.
#[test]
fn a_map_holds_the_weights_of_its_row() {
    let sample = Sample::new(2, 77, 0.5);
    let masks = [
        Mask::table(lopsided(&[7, 11], 2)),
        Mask::Scan(ScanMask::Separable { sides: [1, 7, 11], rates: vec![[0.0, 0.3, 0.1]] }),
        Mask::Scan(ScanMask::Causal),
        Mask::Scan(ScanMask::None),
    ];
    for (mask, (name, backend)) in masks.iter().flat_map(|m| devices().into_iter().map(move |d| (m, d))) {
        let attention = MaskedAttention::of(mask.clone());
        let (out, _) = sample.run(backend.as_ref(), &attention);
        let mut graph = Graph::new("map");
        let [q, k] = [("q", &sample.q), ("k", &sample.k)].map(|(n, x)| graph.input(n, x.shape(), DType::F32));
        let rows = graph.input("rows", [2], DType::U32);
        let map = attention.record_map(&mut graph, (q, k), rows, None).expect("it records");
        graph.output(map).expect("an output");
        let mut program = backend.compile(&graph).expect("it compiles");
        program.write(q, &sample.q).expect("written");
        program.write(k, &sample.k).expect("written");
        program
            .write(rows, &HostTensor::new([2], HostData::U32(vec![40, 3])).expect("rows"))
            .expect("written");
        program.run().expect("it runs");
        let weights = program.read(map).expect("it is read").to_f64();
        let v = sample.v.to_f64();
        for (head, (column, row)) in (0..2_usize).flat_map(|h| [(0_usize, 40_usize), (1, 3)].map(|c| (h, c)))
        {
            for e in 0..E as usize {
                let sum: f64 = (0..77)
                    .map(|j| weights[(head * 77 + j) * 2 + column] * v[(head * 77 + j) * E as usize + e])
                    .sum();
                let expected = out[(head * 77 + row) * E as usize + e];
                assert!((sum - expected).abs() < 1e-5, "{mask:?} on {name}: {sum} against {expected}");
            }
        }
    }
}

/// y = M x on a device.
fn apply(backend: &dyn Backend, mask: &dyn MaskOperator, x: &HostTensor, transpose: bool) -> Vec<f64> {
    let mut graph = Graph::new("operator");
    let input: Tensor = graph.input("x", x.shape(), DType::F32);
    let out = match transpose {
        false => mask.apply(&mut graph, input),
        true => mask.apply_transposed(&mut graph, input),
    };
    let out = out.expect("it records");
    graph.output(out).expect("an output");
    let mut program = backend.compile(&graph).expect("it compiles");
    program.write(input, x).expect("it is written");
    program.run().expect("it runs");
    program.read(out).expect("it is read").to_f64()
}

#[test]
fn operators_are_what_their_weights_say() {
    let shared = |m| -> SharedMask { Arc::new(m) };
    let grid = shared(Toeplitz(lopsided(&[3, 4], 2)));
    let line = || -> SharedMask { Arc::new(Toeplitz(lopsided(&[5], 1))) };
    let gate: Vec<f32> = (0..12).map(|t| 0.1 * t as f32).collect();
    let low = || LowRank::new(12, 1, gate.clone(), vec![0.5; 12]).expect("factors");
    let masks: Vec<SharedMask> = vec![
        Arc::clone(&grid),
        Arc::new(Dense::of(grid.as_ref()).expect("weights")),
        Arc::new(Sum::new(vec![Arc::clone(&grid), Arc::new(low())]).expect("a sum")),
        Arc::new(Scaled::new(Arc::clone(&grid), low()).expect("a product")),
        Arc::new(
            BlockDiagonal::new(vec![line(), Arc::new(LowRank::ones(7).expect("ones"))]).expect("blocks"),
        ),
        bordered(Arc::new(Toeplitz(lopsided(&[2, 5], 1))), 2).expect("a border"),
        hadamard(&grid, &(Arc::new(low()) as SharedMask)).expect("fast"),
        hadamard(&grid, &(Arc::new(Toeplitz(lopsided(&[3, 4], 1))) as SharedMask)).expect("fast"),
    ];
    let numbers = |stream| normal(stream, 2 * 12 * 3).iter().map(|x| *x as f32).collect::<Vec<f32>>();
    let x = HostTensor::f32([1, 2, 12, 3], numbers(5)).expect("channels");
    let y = HostTensor::f32([1, 2, 12, 3], numbers(6)).expect("channels");
    for (mask, (name, backend)) in masks.iter().flat_map(|m| devices().into_iter().map(move |d| (m, d))) {
        let product = apply(backend.as_ref(), mask.as_ref(), &x, false);
        let values = x.to_f64();
        for (head, i, c) in (0..2).flat_map(|h| (0..12).flat_map(move |i| (0..3).map(move |c| (h, i, c)))) {
            let at = |t: usize| (head * 12 + t) * 3 + c;
            let expected: f64 =
                (0..12).map(|j| mask.weight(head as u32, i as u32, j as u32) * values[at(j)]).sum();
            let got = product[at(i)];
            assert!((got - expected).abs() < 2e-5, "{} on {name}: {got} against {expected}", mask.describe());
        }
        // ⟨M x, y⟩ = ⟨x, Mᵀ y⟩
        let back = apply(backend.as_ref(), mask.as_ref(), &y, true);
        let dot = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(x, y)| x * y).sum::<f64>();
        let (left, right) = (dot(&product, &y.to_f64()), dot(&values, &back));
        assert!((left - right).abs() < 1e-4, "{} on {name}: {left} against {right}", mask.describe());
    }
}

#[test]
fn attention_under_an_operator_is_that_of_its_weights() {
    let sample = Sample::new(2, 12, 0.5);
    let masks: [SharedMask; 3] = [
        bordered(Arc::new(Toeplitz(lopsided(&[2, 5], 1))), 2).expect("a border"),
        Arc::new(Toeplitz(lopsided(&[3, 4], 2))),
        Arc::new(LowRank::ones(12).expect("ones")),
    ];
    for (mask, (name, backend)) in masks.iter().flat_map(|m| devices().into_iter().map(move |d| (m, d))) {
        let mut graph = Graph::new("attention under an operator");
        let inputs = [&sample.q, &sample.k, &sample.v].map(|x| (graph.input("x", x.shape(), DType::F32), x));
        let [q, k, v] = inputs.map(|(t, _)| t);
        let out = attend(&mut graph, mask.as_ref(), (q, k, v), Masks::default(), 3).expect("it records");
        graph.output(out).expect("an output");
        let mut program = backend.compile(&graph).expect("it compiles");
        inputs.iter().for_each(|(t, x)| program.write(*t, x).expect("it is written"));
        program.run().expect("it runs");
        let got = program.read(out).expect("it is read").to_f64();
        let error = error(&got, &sample.exact(|h, i, j| mask.weight(h, i, j)));
        assert!(error < 4e-6, "{} on {name}: {error:e}", mask.describe());
    }
}

#[test]
fn a_product_that_is_not_fast_is_refused() {
    let a: SharedMask = Arc::new(Dense::new(1, 3, vec![1.0; 9]).expect("weights"));
    let b: SharedMask = Arc::new(Toeplitz(lopsided(&[3], 1)));
    let text = hadamard(&a, &b).expect_err("it is refused").to_string();
    assert!(text.contains("no fast product") && text.contains("Dense"), "{text}");
}

/// A later key changes nothing before it, to the bit, where the mask is causal and a scan.
#[test]
fn the_future_changes_nothing() {
    let mut sample = Sample::new(1, 65, 0.7);
    for (name, backend) in devices() {
        let attention = LinearAttention::of(ScanMask::Causal);
        let masked = MaskedAttention::of(Mask::Scan(attention.mask.clone()));
        let before = sample.run(backend.as_ref(), &masked).0;
        let keys = sample.k.clone();
        let mut changed = keys.to_f32();
        changed[60 * R as usize..].iter_mut().for_each(|x| *x *= 1e6);
        sample.k = HostTensor::f32([1, 1, 65, R], changed).expect("keys");
        let after = sample.run(backend.as_ref(), &masked).0;
        sample.k = keys;
        assert_eq!(before[..60 * E as usize], after[..60 * E as usize], "{name}");
    }
}

/// What holds for every mask: equal values stay as they are, rows lie between the least and the largest value, a factor on all keys
/// changes nothing, values add, and a mask of the own token alone gives its value back.
#[test]
fn every_family_keeps_the_invariants() {
    let sides = [6, 7];
    let disc = RelativeTable::profile(&sides, Distance::L2, Profile::Gaussian, 2.0).expect("a table");
    let scan = |mask| MaskedAttention::of(Mask::Scan(mask));
    let separable = |rate: f32| ScanMask::Separable { sides: [1, 6, 7], rates: vec![[0.0, rate, 0.3]] };
    let families = [
        scan(ScanMask::None),
        scan(ScanMask::Causal),
        scan(ScanMask::Decay { decay: vec![0.9] }),
        scan(ScanMask::TwoSided { decay: vec![0.9] }),
        scan(separable(0.5)),
        of(disc.clone(), Path::Pairs),
        of(disc.clone(), Path::Passes),
        of(disc, Path::Fused),
    ];
    let delta = RelativeTable::from_fn(&sides, 1, |_, o| f64::from(u8::from(o == [0; 3]))).expect("a table");
    let own = [
        scan(ScanMask::Decay { decay: vec![0.0] }),
        of(delta.clone(), Path::Pairs),
        of(delta.clone(), Path::Passes),
        of(delta, Path::Fused),
    ];
    let sample = Sample::new(2, 42, 0.6);
    let changed = |k: f32, v: &dyn Fn(f32) -> f32| {
        let of = |t: &HostTensor, f: &dyn Fn(f32) -> f32| {
            HostTensor::f32(t.shape(), t.to_f32().into_iter().map(f).collect()).expect("a tensor")
        };
        Sample { q: sample.q.clone(), k: of(&sample.k, &|x| k * x), v: of(&sample.v, v), ..sample }
    };
    let (least, largest) =
        sample.v.to_f64().iter().fold((f64::MAX, f64::MIN), |(a, b), x| (a.min(*x), b.max(*x)));
    for (name, backend) in devices() {
        for attention in &families {
            let what = format!("{:?} by {} on {name}", attention.mask, attention.path);
            let what = &what[..what.len().min(120)];
            let (out, _) = sample.run(backend.as_ref(), attention);
            let (ones, _) = changed(1.0, &|_| 1.0).run(backend.as_ref(), attention);
            assert!(ones.iter().all(|x| (x - 1.0).abs() < 2e-6), "{what}: equal values");
            let inside = |x: &f64| (least - 1e-5..=largest + 1e-5).contains(x);
            assert!(out.iter().all(inside), "{what}: a row outside of its values");
            // A power of two changes exponents only.
            let (scaled, _) = changed(4.0, &|x| x).run(backend.as_ref(), attention);
            assert_eq!(out, scaled, "{what}: a factor on all keys");
            let (shifted, _) = changed(1.0, &|x| 2.0 * x + 1.0).run(backend.as_ref(), attention);
            let linear: Vec<f64> = out.iter().map(|x| 2.0 * x + 1.0).collect();
            assert!(error(&shifted, &linear) < 4e-6, "{what}: values do not add");
        }
        for attention in &own {
            let (out, _) = sample.run(backend.as_ref(), attention);
            let error = error(&out, &sample.v.to_f64());
            assert!(error < 2e-6, "{:?} on {name}: {error:e}", attention.path);
        }
    }
}
