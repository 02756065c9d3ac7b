//! Linear attention and its scans against stored arrays, and what must hold for any input: rows are averages, later keys change
//! nothing, packed sequences are what they are alone, masked keys may hold anything.
//!
//! `data/masking/` holds inputs in f32 and results that two f64 computations agree on; the tolerances are four times the error of
//! a plain f32 evaluation, at least 1e-6.

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};
use wgattn::arrays::{self, Array, ArrayData};
use wgattn::attention::{LinearAttention, Masks, ScanMask, rows_without_keys};
use wgattn::backend::wgpu::{Options, WgpuBackend};
use wgattn::backend::{Backend, cpu::CpuBackend};
use wgattn::graph::Graph;
use wgattn::kernel::Driver;
use wgattn::kernel::case::deviation;
use wgattn::tensor::{DType, HostData, HostTensor, Shape, Tensor};

mod support;

type Device = (String, Arc<dyn Backend>);

/// The CPU and every adapter, opened once.
fn devices() -> Vec<Device> {
    static DEVICES: OnceLock<Vec<Device>> = OnceLock::new();
    let open = || {
        let adapters = support::backends().into_iter();
        let adapters = adapters.map(|(name, b)| (name, Arc::new(b) as Arc<dyn Backend>));
        std::iter::once(("cpu".into(), Arc::new(CpuBackend) as Arc<dyn Backend>)).chain(adapters).collect()
    };
    DEVICES.get_or_init(open).clone()
}

struct File(BTreeMap<String, Array>);

impl File {
    fn open(name: &str) -> Self {
        let path = format!("{}/tests/data/masking/{name}.npz", env!("CARGO_MANIFEST_DIR"));
        Self(arrays::read(path).expect("works"))
    }

    fn floats(&self, name: &str) -> Vec<f64> {
        match &self.0[name].data {
            ArrayData::F32(v) => v.iter().map(|x| f64::from(*x)).collect(),
            ArrayData::F64(v) => v.clone(),
            other => panic!("{name} holds {}", other.dtype()),
        }
    }

    fn words(&self, name: &str) -> Vec<u32> {
        match &self.0[name].data {
            ArrayData::I32(v) => v.iter().map(|x| u32::try_from(*x).expect("works")).collect(),
            ArrayData::U8(v) => v.iter().map(|x| u32::from(*x)).collect(),
            other => panic!("{name} holds {}", other.dtype()),
        }
    }

    /// An array of rows and columns as `[1, 1, rows, cols]`.
    fn tensor(&self, name: &str) -> HostTensor {
        let sizes: Vec<u32> = self.0[name].shape.iter().map(|&x| x as u32).collect();
        let [rows, cols] = sizes[..] else { panic!("{name} has shape {sizes:?}") };
        let data = match &self.0[name].data {
            ArrayData::F32(v) => HostData::F32(v.clone()),
            ArrayData::F64(v) => HostData::F64(v.clone()),
            other => panic!("{name} holds {}", other.dtype()),
        };
        HostTensor::new([1, 1, rows, cols], data).expect("works")
    }

    fn qkv(&self, prefix: &str) -> [HostTensor; 3] {
        ["Q", "K", "V"].map(|name| self.tensor(&format!("{prefix}{name}")))
    }
}

/// One program with its inputs; returns the outputs in the order given.
fn run(
    backend: &dyn Backend,
    record: impl FnOnce(&mut Graph, &[Tensor]) -> Vec<Tensor>,
    inputs: &[HostTensor],
) -> Vec<HostTensor> {
    let mut graph = Graph::new("linear");
    let tensors: Vec<Tensor> = inputs.iter().map(|t| graph.input("input", t.shape(), t.dtype())).collect();
    let outputs = record(&mut graph, &tensors);
    outputs.iter().for_each(|output| graph.output(*output).expect("works"));
    let mut program = backend.compile(&graph).expect("works");
    for (tensor, data) in tensors.iter().zip(inputs) {
        program.write(*tensor, data).expect("works");
    }
    program.run().expect("works");
    outputs.iter().map(|t| program.read(*t).expect("works")).collect()
}

/// Linear attention of q, k, v; a fourth input is the mask of keys.
fn attend(backend: &dyn Backend, attention: &LinearAttention, inputs: &[HostTensor]) -> HostTensor {
    let record = |graph: &mut Graph, t: &[Tensor]| {
        let masks = Masks { keys: t.get(3).copied(), queries: None };
        vec![attention.record(graph, (t[0], t[1], t[2]), masks).expect("works").out]
    };
    run(backend, record, inputs).remove(0)
}

fn close(what: &str, got: &HostTensor, truth: &HostTensor, tolerance: f64) {
    let found = deviation(got, truth).expect("works");
    println!("{what}: {:.1e} of {tolerance:.0e}", found.error);
    assert!(
        found.error <= tolerance,
        "{what}: error {:.3e} > {tolerance:e} at element {}: got {:e}, expected {:e}",
        found.error,
        found.index,
        found.got,
        found.expected
    );
}

fn same_bits(what: &str, got: &[f32], expected: &[f32]) {
    let differs = got.iter().zip(expected).position(|(a, b)| a.to_bits() != b.to_bits());
    assert!(got.len() == expected.len() && differs.is_none(), "{what}: element {differs:?} differs");
}

fn decay(gamma: f32) -> ScanMask {
    ScanMask::Decay { decay: vec![gamma] }
}

fn two_sided(gamma: f32) -> ScanMask {
    ScanMask::TwoSided { decay: vec![gamma] }
}

/// Numbers between 0 and 1, or between −1 and 1 for values.
fn tokens(seed: u32, [b, h, n, r, e]: [u32; 5]) -> [HostTensor; 3] {
    let positive = |seed: u32| {
        let numbers = support::random(seed, [b, h, n, r]).to_f32().iter().map(|x| x.abs() + 0.01).collect();
        HostTensor::f32([b, h, n, r], numbers).expect("works")
    };
    [positive(seed), positive(seed + 1), support::random(seed + 2, [b, h, n, e])]
}

const LENGTHS: [u32; 10] = [1, 2, 63, 64, 65, 127, 129, 781, 2048, 65_537];

#[test]
fn causal_and_decayed_agree_with_the_stored_arrays() {
    for (device, backend) in devices() {
        for (file, tolerance) in [("causal_decay", 2e-6), ("causal_decay_long", 4e-6)] {
            let data = File::open(file);
            for prefix in data.0.keys().filter_map(|k| k.strip_suffix("Q")) {
                let inputs = data.qkv(prefix);
                let check = |mask: ScanMask, name: &str| {
                    let truth = data.tensor(&format!("{prefix}{name}"));
                    let got = attend(&*backend, &LinearAttention::of(mask), &inputs);
                    close(&format!("{device} {file} {prefix}{name}"), &got, &truth, tolerance);
                };
                check(ScanMask::Causal, "Out_causal");
                for (i, gamma) in data.floats(&format!("{prefix}g")).into_iter().enumerate() {
                    check(decay(gamma as f32), &format!("Out_decay{i}"));
                    check(two_sided(gamma as f32), &format!("Out_twosided{i}"));
                }
            }
        }
    }
}

fn offsets(lengths: &[u32]) -> Vec<u32> {
    let ends = lengths.iter().scan(0, |at, length| {
        *at += length;
        Some(*at)
    });
    std::iter::once(0).chain(ends).collect()
}

/// Slack tokens hold 1e30 in these files.
#[test]
fn packed_segments_agree_with_the_stored_arrays() {
    for (device, backend) in devices() {
        for file in ["packing_6", "packing_10"] {
            let data = File::open(file);
            let segments = Some(offsets(&data.words("lengths")));
            let gamma = data.floats("g")[0] as f32;
            for (mask, name) in
                [(ScanMask::None, "Out_full"), (ScanMask::Causal, "Out_causal"), (decay(gamma), "Out_decay")]
            {
                let attention = LinearAttention { mask, segments: segments.clone(), denominators: false };
                let got = attend(&*backend, &attention, &data.qkv(""));
                close(&format!("{device} {file} {name}"), &got, &data.tensor(name), 1e-6);
                let end = *segments.as_ref().and_then(|s| s.last()).expect("works") as usize * 3;
                assert!(
                    got.to_f32()[end..].iter().all(|x| x.to_bits() == 0),
                    "{device} {file}: slack is not 0"
                );
            }
        }
    }
}

#[test]
fn everything_masked_gives_zeros_and_is_counted() {
    let data = File::open("padding_all");
    let keep = HostData::U8(data.words("keep").iter().map(|x| *x as u8).collect());
    let keep = HostTensor::new([1, 1, 9], keep).expect("works");
    let [q, k, v] = data.qkv("");
    for (device, backend) in devices() {
        for mask in [ScanMask::None, ScanMask::Causal, decay(0.5), two_sided(0.5)] {
            let attention = LinearAttention { mask, segments: None, denominators: true };
            let record = |graph: &mut Graph, t: &[Tensor]| {
                let masks = Masks { keys: Some(t[3]), queries: None };
                let attended = attention.record(graph, (t[0], t[1], t[2]), masks).expect("works");
                vec![attended.out, attended.denominators.expect("works")]
            };
            let ones = HostTensor::f32(q.shape(), vec![1.0; q.shape().len() as usize]).expect("works");
            let got = run(&*backend, record, &[ones, k.clone(), v.clone(), keep.clone()]);
            assert!(got[0].to_f64().iter().all(|x| *x == 0.0), "{device} {:?}", attention.mask);
            assert_eq!(rows_without_keys(&got[1]), 9, "{device} {:?}", attention.mask);
        }
    }
}

#[test]
fn separable_masks_agree_with_the_stored_arrays() {
    let data = File::open("separable_exp");
    for (device, backend) in devices() {
        for (prefix, sides) in [("n6x9_", [1, 6, 9]), ("n3x4x5_", [3, 4, 5])] {
            let lambda = data.floats(&format!("{prefix}lambda"));
            let mut rates = [0.0; 3];
            rates[3 - lambda.len()..].iter_mut().zip(&lambda).for_each(|(rate, x)| *rate = *x as f32);
            let mask = ScanMask::Separable { sides, rates: vec![rates] };
            let got = attend(&*backend, &LinearAttention::of(mask), &data.qkv(prefix));
            close(&format!("{device} separable {prefix}"), &got, &data.tensor(&format!("{prefix}Out")), 2e-6);
        }
    }
}

/// A grid of one row is a sequence.
#[test]
fn a_separable_mask_of_one_axis_is_two_sided_decay() {
    let inputs = tokens(5, [1, 2, 90, 4, 3]);
    for (device, backend) in devices() {
        let gamma = 0.8_f32;
        let mask = ScanMask::Separable { sides: [1, 1, 90], rates: vec![[3.0, 4.0, -gamma.ln()]] };
        let got = attend(&*backend, &LinearAttention::of(mask), &inputs);
        let truth = attend(&CpuBackend, &LinearAttention::of(two_sided(gamma)), &inputs);
        close(&format!("{device} one axis"), &got, &truth, 2e-6);
    }
}

/// Values of one give one, values give averages of values, and each length agrees with the reference.
#[test]
fn rows_are_averages_at_every_length() {
    for n in LENGTHS {
        // The last row's reference is a sum over all keys; long sequences are checked by what must hold.
        let [q, k, v] = tokens(n, [1, 1, n, 4, 4]);
        let ones = HostTensor::f32(v.shape(), vec![1.0; v.shape().len() as usize]).expect("works");
        let (low, high) = v.to_f32().iter().fold((f32::MAX, f32::MIN), |(l, h), x| (l.min(*x), h.max(*x)));
        for (mask, exact) in [
            (ScanMask::None, false),
            (ScanMask::Causal, false),
            (decay(0.97), false),
            (decay(0.0), true),
            (two_sided(0.97), false),
        ] {
            let attention = LinearAttention::of(mask.clone());
            let truth = attend(&CpuBackend, &attention, &[q.clone(), k.clone(), v.clone()]);
            for (device, backend) in devices().into_iter().skip(1) {
                let what = format!("{device} {mask:?} of {n}");
                let got = attend(&*backend, &attention, &[q.clone(), k.clone(), ones.clone()]);
                let worst = got.to_f32().iter().fold(0.0_f32, |m, x| m.max((x - 1.0).abs()));
                assert!(worst <= 2e-6, "{what}: values of one give {worst:e} away from one");
                let got = attend(&*backend, &attention, &[q.clone(), k.clone(), v.clone()]);
                // Sums of n rounded terms.
                let slack = 4e-6 * (high - low);
                assert!(
                    got.to_f32().iter().all(|x| (low - slack..=high + slack).contains(x)),
                    "{what}: not an average"
                );
                close(&what, &got, &truth, 5e-6);
                if exact {
                    close(&format!("{what}, identity"), &got, &v, 3e-7);
                }
            }
        }
    }
}

#[test]
fn a_later_key_changes_earlier_rows_by_exactly_nothing() {
    for (device, backend) in devices() {
        for mask in [ScanMask::Causal, decay(0.9)] {
            for (n, changed, width) in [(129, 64, 32), (129, 65, 32), (781, 400, 8), (70, 33, 5)] {
                let mut inputs = tokens(7, [1, 2, n, width, width]);
                let attention = LinearAttention::of(mask.clone());
                let before = attend(&*backend, &attention, &inputs).to_f32();
                for tensor in &mut inputs[1..] {
                    let shape = tensor.shape();
                    let mut numbers = tensor.to_f32();
                    for head in numbers.chunks_mut((n * width) as usize) {
                        head[(changed * width) as usize..].iter_mut().for_each(|x| *x = 1e3 - 7.0 * *x);
                    }
                    *tensor = HostTensor::f32(shape, numbers).expect("works");
                }
                let after = attend(&*backend, &attention, &inputs).to_f32();
                let (head, kept) = ((n * width) as usize, (changed * width) as usize);
                for (a, b) in before.chunks(head).zip(after.chunks(head)) {
                    same_bits(&format!("{device} {mask:?} {n}"), &b[..kept], &a[..kept]);
                    assert!(a[kept..] != b[kept..], "{device}: the change is seen");
                }
            }
        }
    }
}

#[test]
fn rescaling_one_batch_element_leaves_the_other_unchanged_to_the_bit() {
    for (device, backend) in devices() {
        for mask in [
            ScanMask::None,
            ScanMask::Causal,
            two_sided(0.9),
            ScanMask::Separable { sides: [1, 6, 17], rates: vec![[0.0, 0.3, 0.1]] },
        ] {
            let [q, k, v] = tokens(3, [2, 2, 102, 8, 4]);
            let attention = LinearAttention::of(mask.clone());
            let before = attend(&*backend, &attention, &[q.clone(), k.clone(), v.clone()]).to_f32();
            let mut scaled = k.to_f32();
            let half = scaled.len() / 2;
            scaled[half..].iter_mut().for_each(|x| *x *= 1e12);
            let k = HostTensor::f32(k.shape(), scaled).expect("works");
            let after = attend(&*backend, &attention, &[q, k, v]).to_f32();
            let half = before.len() / 2;
            same_bits(&format!("{device} {mask:?}"), &after[..half], &before[..half]);
        }
    }
}

/// Garbage in masked keys, in the queries' own rows and in slack.
#[test]
fn garbage_in_masked_keys_changes_nothing() {
    let n = 150_usize;
    let keep: Vec<u8> = (0..n).map(|i| u8::from(i % 3 != 1)).collect();
    let mask = HostTensor::new([1, 1, n as u32], HostData::U8(keep.clone())).expect("works");
    for (device, backend) in devices() {
        for scan in [
            ScanMask::None,
            ScanMask::Causal,
            decay(0.9),
            two_sided(0.9),
            ScanMask::Separable { sides: [1, 10, 15], rates: vec![[0.0, 0.2, 0.4]] },
        ] {
            let [q, k, v] = tokens(11, [1, 2, n as u32, 8, 4]);
            let attention = LinearAttention::of(scan.clone());
            let clean = attend(&*backend, &attention, &[q.clone(), k.clone(), v.clone(), mask.clone()]);
            for garbage in [1e30, -3e38, f32::INFINITY, f32::NAN] {
                let spoil = |t: &HostTensor, width: usize| {
                    let numbers = t.to_f32().into_iter().enumerate();
                    let numbers =
                        numbers.map(|(i, x)| if keep[i / width % n] == 0 { garbage } else { x }).collect();
                    HostTensor::f32(t.shape(), numbers).expect("works")
                };
                let inputs = [q.clone(), spoil(&k, 8), spoil(&v, 4), mask.clone()];
                let dirty = attend(&*backend, &attention, &inputs);
                same_bits(&format!("{device} {scan:?} {garbage}"), &dirty.to_f32(), &clean.to_f32());
            }
        }
    }
}

fn part(t: &HostTensor, from: usize, to: usize) -> HostTensor {
    let dims = t.shape().dims().to_vec();
    let width = dims[3] as usize;
    let numbers = t.to_f32()[from * width..to * width].to_vec();
    HostTensor::f32(Shape::new(&[1, 1, (to - from) as u32, dims[3]]).expect("works"), numbers).expect("works")
}

/// Chunks begin at other places, so sums are in another order: a few roundings.
#[test]
fn packed_sequences_are_what_they_are_alone() {
    let segments = offsets(&[5, 1, 70, 9, 0, 32, 130, 0, 64, 3]);
    let n = *segments.last().expect("works") + 4;
    let inputs = tokens(21, [1, 1, n, 8, 4]);
    for (device, backend) in devices() {
        for mask in [ScanMask::None, ScanMask::Causal, decay(0.95), decay(0.0), two_sided(0.95)] {
            let attention =
                LinearAttention { mask: mask.clone(), segments: Some(segments.clone()), denominators: false };
            let packed = attend(&*backend, &attention, &inputs);
            for (from, to) in segments.iter().zip(&segments[1..]).filter(|(a, b)| a < b) {
                let (from, to) = (*from as usize, *to as usize);
                let alone = inputs.each_ref().map(|t| part(t, from, to));
                let alone = attend(&*backend, &LinearAttention::of(mask.clone()), &alone);
                close(&format!("{device} {mask:?} {from}..{to}"), &part(&packed, from, to), &alone, 2e-6);
            }
        }
    }
}

/// As many dispatches as for one sequence.
#[test]
fn thousands_of_tiny_segments_take_no_more_passes() {
    let n = 6000_u32;
    let segments: Vec<u32> = (0..=n / 3).map(|i| 3 * i).collect();
    let [q, k, v] = tokens(2, [1, 1, n, 4, 4]);
    for (device, backend) in devices() {
        let attention =
            LinearAttention { mask: ScanMask::None, segments: Some(segments.clone()), denominators: false };
        let got = attend(&*backend, &attention, &[q.clone(), k.clone(), v.clone()]);
        let truth = attend(&CpuBackend, &attention, &[q.clone(), k.clone(), v.clone()]);
        close(&format!("{device} 2000 segments"), &got, &truth, 2e-6);
        let steps = |attention: &LinearAttention| {
            let mut graph = Graph::new("steps");
            let t = [&q, &k, &v].map(|t| graph.input("input", t.shape(), t.dtype()));
            let attended = attention.record(&mut graph, (t[0], t[1], t[2]), Masks::default()).expect("works");
            graph.output(attended.out).expect("works");
            backend.compile(&graph).expect("works").schedule().steps.len()
        };
        assert_eq!(
            steps(&attention),
            steps(&LinearAttention { segments: Some(vec![0, n]), ..attention.clone() })
        );
    }
}

#[test]
fn steps_are_the_full_pass_position_by_position() {
    let (n, r, e) = (70_u32, 8_u32, 5_u32);
    let [q, k, v] = tokens(31, [1, 1, n, r, e]);
    for (device, backend) in devices() {
        for mask in [ScanMask::Causal, decay(0.9), decay(0.0)] {
            let attention = LinearAttention::of(mask.clone());
            let full = attend(&*backend, &attention, &[q.clone(), k.clone(), v.clone()]);
            for stride in [1_usize, 7] {
                let mut state =
                    HostTensor::f32([1, 1, r, e + 1], vec![0.0; (r * (e + 1)) as usize]).expect("works");
                for from in (0..n as usize).step_by(stride) {
                    let inputs = [
                        part(&q, from, from + stride),
                        part(&k, from, from + stride),
                        part(&v, from, from + stride),
                        state,
                    ];
                    let record = |graph: &mut Graph, t: &[Tensor]| {
                        let step =
                            attention.record_step(graph, t[3], (t[0], t[1], t[2]), None).expect("works");
                        vec![step.out, step.state]
                    };
                    let mut got = run(&*backend, record, &inputs);
                    state = got.pop().expect("works");
                    let what = format!("{device} {mask:?} from {from}");
                    close(&what, &got[0], &part(&full, from, from + stride), 2e-6);
                }
            }
        }
    }
}

/// A prefix in one pass hands its state to steps, whatever part of a chunk its end is; key masks, batches and heads included.
#[test]
fn a_full_pass_hands_its_state_to_steps() {
    let (b, h, n, r, e) = (2_u32, 2_u32, 140_u32, 8_u32, 5_u32);
    let [q, k, v] = tokens(33, [b, h, n, r, e]);
    let keep: Vec<u8> = (0..b * h * n).map(|i| u8::from(i % 7 != 3)).collect();
    let keep = HostTensor::new([b, h, n], HostData::U8(keep)).expect("works");
    // Tokens from..to of every head.
    let cut = |t: &HostTensor, from: u32, to: u32| {
        let dims = t.shape().dims().to_vec();
        let width = dims.get(3).map_or(1, |w| *w as usize);
        let rows = |list: &[f32]| {
            let head = |head: &[f32]| head[from as usize * width..to as usize * width].to_vec();
            list.chunks(n as usize * width).flat_map(head).collect::<Vec<f32>>()
        };
        match t.data() {
            HostData::U8(bytes) => {
                let bytes: Vec<f32> = bytes.iter().map(|x| f32::from(*x)).collect();
                let part = rows(&bytes).into_iter().map(|x| x as u8).collect();
                HostTensor::new([b, h, to - from], HostData::U8(part)).expect("works")
            }
            _ => HostTensor::f32([b, h, to - from, width as u32], rows(&t.to_f32())).expect("works"),
        }
    };
    for (device, backend) in devices() {
        for mask in [ScanMask::Causal, ScanMask::Decay { decay: vec![0.9, 0.99] }, decay(0.0)] {
            let attention = LinearAttention::of(mask.clone());
            let full = attend(&*backend, &attention, &[q.clone(), k.clone(), v.clone(), keep.clone()]);
            for prefix in [1, 31, 64, 65, 139] {
                let inputs = [&q, &k, &v, &keep].map(|t| cut(t, 0, prefix));
                let mut started = run(
                    &*backend,
                    |graph, t| {
                        let start = attention.record_start(graph, (t[0], t[1], t[2]), Some(t[3]));
                        let start = start.expect("works");
                        vec![start.out, start.state]
                    },
                    &inputs,
                );
                let what = format!("{device} {mask:?}, {prefix} tokens at once");
                let state = started.pop().expect("works");
                close(&what, &started[0], &cut(&full, 0, prefix), 2e-6);
                let state = HostTensor::f32(state.shape(), state.to_f32()).expect("works");
                let [q, k, v, keep] = [&q, &k, &v, &keep].map(|t| cut(t, prefix, n));
                let rest = run(
                    &*backend,
                    |graph, t| {
                        let step = attention.record_step(graph, t[4], (t[0], t[1], t[2]), Some(t[3]));
                        vec![step.expect("works").out]
                    },
                    &[q, k, v, keep, state],
                );
                close(&format!("{what}, the rest"), &rest[0], &cut(&full, prefix, n), 2e-6);
            }
        }
    }
    let mut graph = Graph::new("refused");
    let [q, k, v] = ["q", "k", "v"].map(|name| graph.input(name, [1, 2, 10, 4], DType::F32));
    let ahead = LinearAttention::of(two_sided(0.5)).record_start(&mut graph, (q, k, v), None);
    assert!(ahead.expect_err("refused").to_string().contains("streaming"));
}

/// Decays so fast or rows so long that weights underflow are nothing, not NaN.
#[test]
fn weights_that_underflow_are_nothing() {
    let inputs = tokens(41, [1, 1, 3000, 4, 4]);
    for (device, backend) in devices() {
        for gamma in [1e-30, 1e-4, 0.3, 0.999_999_9] {
            for mask in [decay(gamma), two_sided(gamma)] {
                let got = attend(&*backend, &LinearAttention::of(mask.clone()), &inputs);
                let truth = attend(&CpuBackend, &LinearAttention::of(mask.clone()), &inputs);
                close(&format!("{device} {mask:?}"), &got, &truth, 5e-6);
            }
        }
    }
}

#[test]
fn a_million_tokens_are_averaged() {
    let n = 1_000_000;
    let [q, k, v] = tokens(51, [1, 1, n, 4, 4]);
    let truth =
        attend(&CpuBackend, &LinearAttention::of(ScanMask::Causal), &[q.clone(), k.clone(), v.clone()]);
    for (device, backend) in devices().into_iter().skip(1) {
        let got =
            attend(&*backend, &LinearAttention::of(ScanMask::Causal), &[q.clone(), k.clone(), v.clone()]);
        // The state is a sum of a million terms.
        close(&format!("{device}: a million"), &got, &truth, 2e-5);
    }
}

/// Bindings smaller than a head cut it into windows of chunks, a small budget cuts the heads: nothing changes but, where chunks
/// are longer, the order of sums.
#[test]
fn small_bindings_and_budgets_give_the_same() {
    let (b, h, n) = (2, 4, 1500);
    let inputs = tokens(61, [b, h, n, 16, 12]);
    let keep: Vec<u8> = (0..b * h * n).map(|i| u8::from(i % 5 != 2)).collect();
    let keep = HostTensor::new([b, h, n], HostData::U8(keep)).expect("works");
    let inputs = [inputs[0].clone(), inputs[1].clone(), inputs[2].clone(), keep];
    let gamma = || vec![0.9, 0.99, 1.0, 0.5];
    let separable = ScanMask::Separable {
        sides: [1, 30, 50],
        rates: vec![[0.0, 0.3, 0.1], [0.0; 3], [0.0, 1.0, 0.0], [0.0, 0.2, 0.9]],
    };
    let segmented =
        |mask| LinearAttention { mask, segments: Some(vec![0, 3, 700, 701, 1400, 1490]), denominators: true };
    for (name, adapter) in support::adapters_by_name() {
        let whole = WgpuBackend::on_adapter(&adapter, Options::default()).expect("works");
        for options in [
            Options { storage_binding: Some(64 << 10), ..Options::default() },
            Options { memory_budget: Some(400 << 10), ..Options::default() },
            Options { memory_budget: Some(100 << 10), driver: Some(Driver::Gpu), ..Options::default() },
            Options { storage_binding: Some(64 << 10), driver: Some(Driver::Gpu), ..Options::default() },
        ] {
            let what = format!(
                "{name} {:?} {:?} {:?}",
                options.storage_binding, options.memory_budget, options.driver
            );
            let small = WgpuBackend::with_options(whole.device().clone(), whole.queue().clone(), options)
                .expect("works");
            for attention in [
                LinearAttention::of(ScanMask::None),
                LinearAttention::of(ScanMask::Causal),
                LinearAttention::of(ScanMask::TwoSided { decay: gamma() }),
                segmented(ScanMask::Decay { decay: gamma() }),
                segmented(ScanMask::None),
                LinearAttention::of(separable.clone()),
            ] {
                let cuts_grids =
                    what.contains("Some(65536)") && matches!(attention.mask, ScanMask::Separable { .. });
                if cuts_grids {
                    // Channels of one feature must fit a binding: 13 x 1500 words do not.
                    continue;
                }
                let got = attend(&small, &attention, &inputs);
                let truth = attend(&CpuBackend, &attention, &inputs);
                close(&format!("{what} {:?}", attention.mask), &got, &truth, 2e-6);
            }
        }
    }
}

#[test]
fn bad_settings_name_what_is_wrong() {
    let fails = |attention: LinearAttention, wanted: &[&str]| {
        let mut graph = Graph::new("bad");
        let [q, k, v] = ["q", "k", "v"].map(|name| graph.input(name, [1, 2, 10, 4], DType::F32));
        let error =
            attention.record(&mut graph, (q, k, v), Masks::default()).expect_err("refused").to_string();
        for word in wanted {
            assert!(error.contains(word), "`{error}` does not say `{word}`");
        }
    };
    let segments = |list: &[u32]| LinearAttention {
        mask: ScanMask::Causal,
        segments: Some(list.to_vec()),
        denominators: false,
    };
    fails(segments(&[]), &["segments"]);
    fails(segments(&[0, 5, 3]), &["segments[2]", "5", "3"]);
    fails(segments(&[0, 5, 11]), &["segments[2]", "10", "11"]);
    fails(LinearAttention::of(decay(1.5)), &["decay[0]", "1.5"]);
    fails(LinearAttention::of(decay(f32::NAN)), &["decay[0]", "NaN"]);
    fails(LinearAttention::of(ScanMask::TwoSided { decay: vec![0.5, -0.1] }), &["decay[1]", "-0.1"]);
    fails(LinearAttention::of(ScanMask::Decay { decay: vec![0.5; 3] }), &["decay", "2", "3"]);
    fails(
        LinearAttention::of(ScanMask::Separable { sides: [1, 2, 6], rates: vec![[0.0; 3]] }),
        &["[1, 2, 6]", "10"],
    );
    fails(
        LinearAttention::of(ScanMask::Separable { sides: [1, 2, 5], rates: vec![[0.0, 0.0, -1.0]] }),
        &["rates[0][2]", "-1"],
    );
    let grid = ScanMask::Separable { sides: [1, 2, 5], rates: vec![[0.0; 3]] };
    fails(
        LinearAttention { mask: grid, segments: Some(vec![0, 10]), denominators: false },
        &["segments", "grid"],
    );
    let mut graph = Graph::new("bad");
    let [q, k] = ["q", "k"].map(|name| graph.input(name, [1, 2, 10, 0], DType::F32));
    let v = graph.input("v", [1, 2, 10, 4], DType::F32);
    let error = LinearAttention::of(ScanMask::Causal).record(&mut graph, (q, k, v), Masks::default());
    assert!(error.expect_err("refused").to_string().contains("r = 0"));
}
