//! Parameters from files, in the conventions of both published programs.

use crate::assert_close;
use crate::published::File;
use std::collections::BTreeMap;
use wgattn::arrays::{Array, ArrayData, write};
use wgattn::position::weights::{Convention, Source, Spelling, from_arrays, read, read_noting};
use wgattn::position::{Code, Encoding, Meaning};

type Arrays = BTreeMap<String, Array>;

fn array(shape: &[usize], value: impl Fn(usize) -> f64) -> Array {
    let len = shape.iter().product();
    Array { shape: shape.to_vec(), data: ArrayData::F64((0..len).map(value).collect()) }
}

fn source(convention: Convention, prefix: &str, gate: &str) -> Source {
    Source { prefix: prefix.into(), gate_prefix: Some(gate.into()), ..Source::of(convention) }
}

fn gated_filters() -> Arrays {
    BTreeMap::from([
        ("spe.conv_q.weight".into(), array(&[6, 1, 4], |i| 0.01 * i as f64)),
        ("spe.conv_k.weight".into(), array(&[6, 1, 4], |i| 1.0 - 0.02 * i as f64)),
        ("filter.gate".into(), array(&[2, 3], |i| i as f64 - 2.5)),
    ])
}

fn filters(encoding: &Encoding) -> [Vec<f64>; 2] {
    let Code::Conv(code) = encoding.code() else { panic!("not a convolutional code") };
    code.filters().map(<[f64]>::to_vec)
}

/// A code written as `.safetensors` in the PyTorch names is the one that the stored program drew with.
#[test]
fn safetensors_of_the_pytorch_program_are_read() {
    let folder = std::env::temp_dir().join(format!("wgattn-position-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a folder");
    let path = folder.join("spe.safetensors");
    let file = File::open("sine_gated");
    let stored = |name: &str| {
        let shape: Vec<usize> = file.shape(name).iter().map(|&n| n as usize).collect();
        Array { shape, data: ArrayData::F64(file.numbers(name)) }
    };
    let arrays = BTreeMap::from([
        ("model.spe.freqs".to_owned(), stored("param_freqs")),
        ("model.spe.offsets".to_owned(), stored("param_offsets")),
        ("model.spe.gains".to_owned(), stored("param_gains")),
        ("model.filter.gate".to_owned(), stored("gate")),
    ]);
    write(&path, &arrays).expect("is written");
    let encoding = read(&path, &source(Convention::PYTORCH, "model.spe.", "model.filter.")).expect("is read");
    std::fs::remove_dir_all(&folder).expect("is removed");
    let Code::Sine(code) = encoding.code() else { panic!("not a sinusoidal code") };
    assert_eq!(*code, file.sine("param_"));
    assert_eq!(encoding.gate().expect("there is one").raw(Meaning::Paper), file.numbers("gate"));
}

#[test]
fn filters_are_swapped_where_the_program_swaps_them() {
    let arrays = gated_filters();
    let swapped = from_arrays(&arrays, &source(Convention::PYTORCH, "spe.", "filter.")).expect("works");
    let [q, k] = filters(&swapped);
    let named = |name: &str| match &arrays[name].data {
        ArrayData::F64(v) => v.clone(),
        other => panic!("{}", other.dtype()),
    };
    assert_eq!((q, k), (named("spe.conv_k.weight"), named("spe.conv_q.weight")));
    // Read by their names, the template is mirrored.
    let convention = Convention { swapped: false, ..Convention::PYTORCH };
    let plain = from_arrays(&arrays, &source(convention, "spe.", "filter.")).expect("works");
    for lag in -4..=4 {
        let at = |e: &Encoding, lag| e.template(1, 2, [lag, 0, 0]).expect("works");
        assert!((at(&swapped, lag) - at(&plain, -lag)).abs() < 1e-15, "lag {lag}");
    }
    assert!(
        (swapped.template(1, 2, [1, 0, 0]).expect("works") - plain.template(1, 2, [1, 0, 0]).expect("works"))
            .abs()
            > 1e-3
    );
}

/// The other program's layout has channels last, its names may be joined by slashes, and its gate has the other sign.
#[test]
fn the_other_program_has_channels_last_and_a_gate_of_the_other_sign() {
    let turned = |first: &Array| {
        let ArrayData::F64(v) = &first.data else { panic!("f64") };
        array(&[2, 2, 1, 6], |i| v[(i % 6) * 4 + i / 6])
    };
    let arrays = gated_filters();
    let other = BTreeMap::from([
        ("spe/conv_q/kernel".to_owned(), turned(&arrays["spe.conv_q.weight"])),
        ("spe/conv_k/kernel".to_owned(), turned(&arrays["spe.conv_k.weight"])),
        ("gating/gate".to_owned(), array(&[2, 3], |i| 2.5 - i as f64)),
    ]);
    let first = from_arrays(&arrays, &source(Convention::PYTORCH, "spe.", "filter.")).expect("works");
    let [q, k] = filters(&first);
    for (convention, expected) in [(Convention::JAX, [&k, &q]), (Convention::JAX_SWAPPED, [&q, &k])] {
        let encoding = from_arrays(&other, &source(convention, "spe.", "gating.")).expect("works");
        let [got_q, got_k] = filters(&encoding);
        assert_close(&got_q, expected[0], 0.0, "filters of queries");
        assert_close(&got_k, expected[1], 0.0, "filters of keys");
        assert_eq!(encoding.gate(), first.gate());
        let Code::Conv(code) = encoding.code() else { panic!("not a convolutional code") };
        assert_eq!(code.taps(), [2, 2]);
    }
}

#[test]
fn errors_name_the_tensor() {
    let with = |name: &str, array: Array| {
        let mut arrays = gated_filters();
        arrays.insert(name.to_owned(), array);
        arrays
    };
    let sine = |name: &str, wrong: Array| {
        let mut arrays: Arrays =
            ["freqs", "offsets", "gains"].map(|n| (n.to_owned(), array(&[1, 2, 3], |i| i as f64))).into();
        arrays.insert(name.to_owned(), wrong);
        (arrays, Source::of(Convention::PYTORCH))
    };
    let gated = |arrays| (arrays, source(Convention::PYTORCH, "spe.", "filter."));
    let cases: Vec<((Arrays, Source), &str, &str)> = vec![
        (gated(with("spe.conv_k.weight", array(&[6, 1, 5], |_| 0.0))), "conv_q.weight", "[5]"),
        (gated(with("spe.conv_k.weight", array(&[6, 2, 4], |_| 0.0))), "conv_k.weight", "[6, 2, 4]"),
        (gated(with("spe.conv_k.weight", array(&[6, 1, 0], |_| 0.0))), "conv_k.weight", "[6, 1, 0]"),
        (gated(with("filter.gate", array(&[6], |_| 0.0))), "filter.gate", "[6]"),
        (gated(with("filter.gate", array(&[4, 3], |_| 0.0))), "heads", "4"),
        (gated(with("filter.gate", array(&[2, 3], |_| f64::NAN))), "filter.gate", "NaN at element 0"),
        (
            gated(with("filter.gate", Array { shape: vec![2, 3], data: ArrayData::I32(vec![0; 6]) })),
            "filter.gate",
            "i32",
        ),
        (sine("gains", array(&[1, 2, 4], |_| 0.0)), "gains", "[1, 2, 4]"),
        (sine("freqs", array(&[2, 3], |_| 0.0)), "freqs", "[2, 3]"),
        ((gated_filters(), source(Convention::PYTORCH, "spe.", "")), "`gate`", "filter.gate"),
        ((gated_filters(), Source::of(Convention::PYTORCH)), "`freqs`", "prefix"),
        (
            (gated_filters(), Source { prefix: "spe.".into(), ..Source::of(Convention::PYTORCH) }),
            "heads",
            "divisor of their 6 channels",
        ),
    ];
    for ((arrays, source), name, got) in cases {
        let error = from_arrays(&arrays, &source).expect_err("is refused").to_string();
        assert!(error.contains(name) && error.contains(got), "{name}, {got}: {error}");
    }
    let error = read("absent.safetensors", &Source::of(Convention::JAX)).expect_err("is refused").to_string();
    for part in ["parameters from absent.safetensors", "cannot read", "give a file that"] {
        assert!(error.contains(part), "no {part}: {error}");
    }
    assert!(!error.contains("tensor `"), "no tensor is meant: {error}");
}

/// What there is in a file is found by its names, whatever stands before them, and the options that take it are said.
#[test]
fn a_file_of_the_other_program_or_another_prefix_is_recognised() {
    let filters = |names: [&str; 2]| -> Arrays {
        names.map(|name| (name.to_owned(), array(&[4, 1, 6], |_| 0.1))).into()
    };
    let sines = |prefix: &str| -> Arrays {
        ["freqs", "offsets", "gains"].map(|n| (format!("{prefix}{n}"), array(&[1, 2, 3], |_| 0.1))).into()
    };
    let pytorch = || filters(["net.spe.conv_q.weight", "net.spe.conv_k.weight"]);
    let jax = || filters(["spe/conv_q/kernel", "spe/conv_k/kernel"]);
    let flags = |convention| Source { spelling: Spelling::Flags, ..Source::of(convention) };
    let cases: [(Arrays, Source, &[&str]); 7] = [
        (
            pytorch(),
            flags(Convention::JAX),
            &[
                "`net.spe.conv_q.weight`",
                "convention pytorch, not of jax",
                "--convention pytorch --prefix net.spe.",
            ],
        ),
        (pytorch(), Source::of(Convention::PYTORCH), &["`net.spe.conv_q.weight`; use prefix=net.spe."]),
        (
            jax(),
            Source::of(Convention::PYTORCH),
            &["`spe/conv_q/kernel`", "convention jax, not of pytorch", "use convention=jax,prefix=spe/"],
        ),
        (jax(), Source { prefix: "spe.".into(), ..Source::of(Convention::PYTORCH) }, &["use convention=jax"]),
        (sines("enc/"), flags(Convention::JAX_SWAPPED), &["`enc/freqs`; use --prefix enc/"]),
        (sines(""), Source { prefix: "a.".into(), ..flags(Convention::PYTORCH) }, &["use --prefix \"\""]),
        (
            BTreeMap::from([("w".to_owned(), array(&[1], |_| 0.0))]),
            Source::of(Convention::JAX),
            &["`freqs` or `conv_q.kernel`", "the file has `w`", "give a file that holds a code"],
        ),
    ];
    for (arrays, source, parts) in cases {
        let error = from_arrays(&arrays, &source).expect_err("is refused").to_string();
        for part in parts {
            assert!(error.contains(part), "no {part}: {error}");
        }
    }
    let mut half = sines("enc/");
    half.remove("enc/gains");
    let source = Source { prefix: "enc.".into(), ..Source::of(Convention::PYTORCH) };
    let error = from_arrays(&half, &source).expect_err("is refused").to_string();
    assert!(error.contains("`enc.gains`") && error.contains("one prefix"), "{error}");
}

#[test]
fn parameters_that_nothing_is_made_of_are_told() {
    let folder = std::env::temp_dir().join(format!("wgattn-unused-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a folder");
    let path = folder.join("spe.npz");
    let note = |arrays: &Arrays, source: Source| {
        write(&path, arrays).expect("is written");
        read_noting(&path, &Source { heads: Some(2), ..source }).expect("is read").1
    };
    let with_gate = || source(Convention::PYTORCH, "spe.", "filter.");
    assert_eq!(note(&gated_filters(), with_gate()), None);
    let told = note(&gated_filters(), Source { gate_prefix: None, ..with_gate() }).expect("a gate is left");
    assert!(told.contains("spe.npz: without its gate") && told.contains("gate-prefix=filter."), "{told}");
    let mut more = gated_filters();
    more.insert("layer.bias".into(), array(&[1], |_| 0.0));
    let told = note(&more, with_gate()).expect("something is left");
    assert!(told.contains("not used: `layer.bias`"), "{told}");
    let flags = Source { gate_prefix: None, spelling: Spelling::Flags, ..with_gate() };
    let told = note(&more, flags).expect("both are left");
    assert!(told.contains("--gate-prefix filter.") && told.contains("1 other array is not used"), "{told}");
    std::fs::remove_dir_all(&folder).expect("is removed");
    // A gate that is asked for and stands elsewhere, or nowhere.
    let mut arrays = gated_filters();
    let asked = || source(Convention::PYTORCH, "spe.", "gating.");
    let error = from_arrays(&arrays, &asked()).expect_err("is refused").to_string();
    assert!(error.contains("`gating.gate`") && error.contains("use gate-prefix=filter."), "{error}");
    arrays.remove("filter.gate");
    let error = from_arrays(&arrays, &asked()).expect_err("is refused").to_string();
    assert!(error.contains("no gate at all"), "{error}");
}
