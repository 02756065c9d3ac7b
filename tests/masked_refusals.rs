//! What masked attention refuses, and that it says which input and where: tables, segments, features and values of no width, and
//! combinations that have no way.

use std::sync::Arc;
use wgattn::attention::{FeatureMap, LinearAttention, Mask, MaskedAttention, Masks, Role, ScanMask};
use wgattn::graph::Graph;
use wgattn::kernels::mask::path::Path;
use wgattn::mask::operator::{
    BlockDiagonal, Dense, LowRank, OneHead, Scaled, SharedMask, Sum, Toeplitz, attend, bordered, hadamard,
};
use wgattn::mask::{Distance, MaskSpec, Profile, RelativeTable};
use wgattn::tensor::{DType, Tensor};

/// Queries, keys and values of a graph.
type Qkv = (Tensor, Tensor, Tensor);

/// The message of a refusal, with the place in this file taken off.
fn refused<T: std::fmt::Debug>(result: wgattn::Result<T>) -> String {
    result.expect_err("it is refused").to_string()
}

fn says(message: &str, parts: &[&str]) {
    println!("{message}");
    for part in parts {
        assert!(message.contains(part), "{part:?} is not in: {message}");
    }
}

/// Inputs of `[1, 2, n, ·]`.
fn inputs(graph: &mut Graph, n: u32, r: u32, e: u32) -> Qkv {
    (
        graph.input("q", [1, 2, n, r], DType::F32),
        graph.input("k", [1, 2, n, r], DType::F32),
        graph.input("v", [1, 2, n, e], DType::F32),
    )
}

fn attention(attention: &MaskedAttention, [n, r, e]: [u32; 3]) -> String {
    let mut graph = Graph::new("refused");
    let qkv = inputs(&mut graph, n, r, e);
    refused(attention.record(&mut graph, qkv, Masks::default()).map(|_| ()))
}

fn linear(attention: &LinearAttention, [n, r, e]: [u32; 3]) -> String {
    let mut graph = Graph::new("refused");
    let qkv = inputs(&mut graph, n, r, e);
    refused(attention.record(&mut graph, qkv, Masks::default()).map(|_| ()))
}

fn of(table: RelativeTable, path: Path) -> MaskedAttention {
    MaskedAttention { path, ..MaskedAttention::of(Mask::table(table)) }
}

fn ones(sides: &[u32]) -> RelativeTable {
    RelativeTable::ones(sides).expect("a table")
}

#[test]
fn tables_of_another_size_tell_both_sizes() {
    let table =
        |sides: &[u32], heads, count: usize| refused(RelativeTable::new(sides, heads, vec![1.0; count]));
    says(&table(&[12], 1, 12), &["table", "23 entries", "12 entries", "2n − 1"]);
    says(&table(&[3, 4], 2, 35), &["70 entries", "35 entries", "2 × 1 × 5 × 7"]);
    says(&table(&[3, 4], 0, 0), &["heads", "table", "at least 1"]);
    says(&table(&[], 1, 0), &["grid", "[]"]);
    says(&table(&[2, 2, 2, 2], 1, 81), &["grid", "[2, 2, 2, 2]"]);
    says(&table(&[4, 0], 1, 0), &["grid", "[4, 0]", "at least 1"]);
    says(&refused(RelativeTable::torus(&[3, 4], 1, &[1.0; 11])), &["torus", "12", "11"]);
    says(&refused(RelativeTable::t5(9, 32, 2, 128, &[0.0; 32])), &["T5", "64", "32 numbers"]);
    for path in [Path::Auto, Path::Pairs, Path::Fourier] {
        says(&attention(&of(ones(&[3, 5]), path), [12, 4, 3]), &["tokens", "15", "12"]);
        let heads = RelativeTable::new(&[12], 3, vec![1.0; 69]).expect("a table");
        says(&attention(&of(heads, path), [12, 4, 3]), &["table", "1 or 2 heads", "3"]);
    }
    let globals = MaskedAttention::of(Mask::Table { table: ones(&[12]), globals: 2 });
    says(&attention(&globals, [12, 4, 3]), &["14 tokens", "2 global", "12 tokens"]);
    let other = ones(&[3, 4]).times(&ones(&[4, 3]));
    says(&refused(other), &["[1, 3, 4]", "[1, 4, 3]"]);
}

#[test]
fn weights_that_cannot_be_tell_their_entry_and_offset() {
    let with = |at: usize, weight: f32| {
        let mut values = vec![1.0; 2 * 15];
        values[at] = weight;
        RelativeTable::new(&[2, 3], 2, values)
    };
    says(&refused(with(4, f32::NAN)), &["entry 4 (offset [-1, 2]) of head 0", "NaN"]);
    says(&refused(with(15, f32::INFINITY)), &["entry 0 (offset [-1, -2]) of head 1", "inf"]);
    says(&refused(with(29, -0.5)), &["entry 14 (offset [1, 2]) of head 1", "-0.5", "from_bias"]);
    let signed = RelativeTable::signed(&[12], 1, vec![-1.0; 23]).expect("signs were asked for");
    says(&attention(&of(signed, Path::Auto), [12, 4, 3]), &["table", "negative"]);
    says(&refused(RelativeTable::from_bias(&[2], 1, &[0.0, f32::NAN, 0.0])), &["entry 1", "bias", "NaN"]);
    let nothing = [0.0, 0.0, 0.0, f32::NEG_INFINITY, f32::NEG_INFINITY, f32::NEG_INFINITY];
    says(&refused(RelativeTable::from_bias(&[2], 2, &nothing)), &["head 1", "−∞"]);
    says(&refused(RelativeTable::alibi(9, &[0.5, -0.1])), &["slope", "head 1", "-0.1"]);
    for size in [0.0, -1.0, f64::NAN] {
        says(
            &refused(RelativeTable::profile(&[9], Distance::L2, Profile::Gaussian, size)),
            &["size", "above 0"],
        );
    }
    let mut weights = vec![1.0; 18];
    weights[14] = -2.0;
    says(&refused(Dense::new(2, 3, weights)), &["query 1, key 2 of head 1", "-2"]);
    says(&refused(Dense::new(2, 3, vec![1.0; 17])), &["18", "17 weights"]);
    let factors = |right: Vec<f32>| refused(LowRank::new(3, 2, vec![1.0; 6], right));
    says(
        &factors(vec![1.0, 1.0, 1.0, f32::NAN, 1.0, 1.0]),
        &["entry 1 of column 1 of the right factor", "NaN"],
    );
    says(&factors(vec![1.0; 5]), &["6 and 5 entries", "3 × 2"]);
    for text in ["toeplitz:gauss,size=-3", "toeplitz:gauss,size=nan", "decay:1.5", "decay:-0.5"] {
        let refusal = refused(text.parse::<MaskSpec>());
        says(&refusal, &["mask"]);
    }
}

#[test]
fn segments_that_cannot_be_tell_their_index() {
    let scan = |segments: &[u32]| {
        let segments = Some(segments.to_vec());
        linear(&LinearAttention { mask: ScanMask::Causal, segments, denominators: false }, [12, 4, 3])
    };
    let table = |segments: &[u32], line: u32| {
        attention(
            &MaskedAttention { segments: Some(segments.to_vec()), ..of(ones(&[line]), Path::Auto) },
            [12, 4, 3],
        )
    };
    for refusal in [scan(&[0, 8, 5, 12]), table(&[0, 8, 5, 12], 12)] {
        // Overlapping or reversed: an offset below the one before.
        says(&refusal, &["segments[2]", "5", "at least segments[1] = 8"]);
    }
    for refusal in [scan(&[3, 0]), table(&[3, 0], 12)] {
        says(&refusal, &["segments[1]", "at least segments[0] = 3"]);
    }
    for refusal in [scan(&[0, 5, 13]), table(&[0, 5, 13], 12)] {
        says(&refusal, &["segments[2]", "at most the 12 tokens", "13"]);
    }
    for refusal in [scan(&[]), table(&[], 12)] {
        says(&refusal, &["segments", "none"]);
    }
    says(&table(&[0, 5, 12], 6), &["table", "at least 7 tokens", "6"]);
    // Slack beyond the last segment is no error, nor is an empty segment.
    let mut graph = Graph::new("slack");
    let qkv = inputs(&mut graph, 12, 4, 3);
    let slack = MaskedAttention { segments: Some(vec![0, 5, 5, 9]), ..of(ones(&[5]), Path::Auto) };
    assert!(slack.record(&mut graph, qkv, Masks::default()).is_ok());
}

#[test]
fn features_and_values_of_no_width_are_refused() {
    let scans = [
        ScanMask::None,
        ScanMask::Causal,
        ScanMask::TwoSided { decay: vec![0.5] },
        ScanMask::Separable { sides: [1, 3, 4], rates: vec![[0.5; 3]] },
    ];
    for scan in scans {
        for [r, e] in [[0, 3], [4, 0]] {
            says(&linear(&LinearAttention::of(scan.clone()), [12, r, e]), &[&format!("r = {r} and e = {e}")]);
        }
    }
    for path in [Path::Auto, Path::Pairs, Path::Fourier] {
        for [r, e] in [[0, 3], [4, 0]] {
            says(&attention(&of(ones(&[12]), path), [12, r, e]), &[&format!("r = {r} and e = {e}")]);
        }
    }
    for [r, e] in [[0, 3], [4, 0]] {
        let mut graph = Graph::new("refused");
        let qkv = inputs(&mut graph, 12, r, e);
        let mask = Toeplitz(ones(&[12]));
        says(&refused(attend(&mut graph, &mask, qkv, Masks::default(), 4)), &["at least 1", "features"]);
    }
    let mut graph = Graph::new("refused");
    let tokens = graph.input("q", [1, 2, 12, 0], DType::F32);
    let mapped = FeatureMap::Elu1.record(&mut graph, tokens, Role::Query, None, None);
    says(&refused(mapped), &["numbers of a token", "at least 1"]);
    says(&refused("favor+:features=0".parse::<FeatureMap>()), &["features of favor+", "at least 1", "0"]);
}

#[test]
fn combinations_without_a_way_are_refused_with_the_way_out() {
    let globals = MaskedAttention {
        path: Path::Fourier,
        ..MaskedAttention::of(Mask::Table { table: ones(&[10]), globals: 2 })
    };
    let packed = MaskedAttention { segments: Some(vec![0, 6, 12]), ..of(ones(&[6]), Path::Fourier) };
    // Both may learn to go by transforms one day; until then they say so.
    for (attention, what) in [(globals, "global tokens"), (packed, "packed sequences")] {
        let mut graph = Graph::new("by transforms");
        let qkv = inputs(&mut graph, 12, 4, 3);
        if let Err(refusal) = attention.record(&mut graph, qkv, Masks::default()) {
            says(&refusal.to_string(), &[what, "pair by pair", "path"]);
        }
    }
    let grid = ScanMask::Separable { sides: [1, 3, 4], rates: vec![[0.5; 3]] };
    let segments = Some(vec![0, 6, 12]);
    let packed = LinearAttention { mask: grid.clone(), segments: segments.clone(), denominators: false };
    says(&linear(&packed, [12, 4, 3]), &["segments", "grid", "batch element"]);
    let packed = MaskedAttention { segments: segments.clone(), ..of(ones(&[3, 4]), Path::Auto) };
    says(&attention(&packed, [12, 4, 3]), &["packed", "[1, 3, 4]"]);
    let mut graph = Graph::new("steps");
    let (q, k, v) = inputs(&mut graph, 1, 4, 3);
    let state = graph.input("state", [1, 2, 4, 4], DType::F32);
    let ahead = LinearAttention::of(ScanMask::TwoSided { decay: vec![0.5] });
    says(&refused(ahead.record_step(&mut graph, state, (q, k, v), None)), &["streaming step", "TwoSided"]);
    let packed = LinearAttention { mask: ScanMask::Causal, segments, denominators: false };
    says(&refused(packed.record_step(&mut graph, state, (q, k, v), None)), &["streaming step", "segments"]);
    let wrong = graph.input("state", [1, 2, 4, 3], DType::F32);
    let causal = LinearAttention::of(ScanMask::Causal);
    says(&refused(causal.record_step(&mut graph, wrong, (q, k, v), None)), &["e + 1 = 4", "3"]);
    let sides = ScanMask::Separable { sides: [1, 3, 5], rates: vec![[0.5; 3]] };
    says(&linear(&LinearAttention::of(sides), [12, 4, 3]), &["[1, 3, 5]", "12"]);

    let table = |n: u32, heads| -> SharedMask {
        Arc::new(Toeplitz(RelativeTable::from_fn(&[n], heads, |_, _| 1.0).expect("a table")))
    };
    let dense = || -> SharedMask { Arc::new(Dense::new(2, 3, vec![1.0; 18]).expect("weights")) };
    says(&refused(hadamard(&dense(), &table(3, 1))), &["no fast product", "Dense", "N²"]);
    says(&refused(Sum::new(vec![])), &["sum of masks", "at least one"]);
    says(&refused(Sum::new(vec![table(3, 1), table(4, 1)])), &["3 tokens", "4 tokens"]);
    says(&refused(Sum::new(vec![table(3, 2), table(3, 3)])), &["1 head or 3", "2 heads"]);
    says(&refused(BlockDiagonal::new(vec![])), &["blocks", "at least one", "got none"]);
    says(&refused(Scaled::new(table(3, 1), LowRank::ones(4).expect("ones"))), &["3 tokens", "4 tokens"]);
    says(&refused(LowRank::border(3, 4)), &["global tokens", "at most 3", "4"]);
    says(&refused(OneHead::new(table(3, 2), 2)), &["head of a mask", "below 2"]);
    let mut graph = Graph::new("product");
    let x = graph.input("x", [1, 2, 5, 3], DType::F32);
    for mask in [table(4, 1), table(5, 3), dense(), bordered(table(3, 1), 1).expect("a border")] {
        says(&refused(mask.apply(&mut graph, x)), &["channels of the mask", "[1, 2, 5, 3]"]);
        says(&refused(mask.apply_transposed(&mut graph, x)), &["channels of the mask", "[1, 2, 5, 3]"]);
    }
    // One head of several has no dense form of its own: told when it is multiplied.
    let one = OneHead::new(dense(), 1).expect("a head");
    let x = graph.input("x", [1, 1, 3, 2], DType::F32);
    says(&refused(wgattn::mask::MaskOperator::apply(&one, &mut graph, x)), &["masks of their own"]);
    let qkv = inputs(&mut graph, 3, 4, 3);
    says(
        &refused(attend(&mut graph, table(3, 1).as_ref(), qkv, Masks::default(), 0)),
        &["features at a time", "0"],
    );
}
