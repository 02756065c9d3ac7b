//! `wgattn eval`: every kernel by name, on arrays from files.

use super::*;
use wgattn::position::spec::Kind;

#[test]
fn every_kernel_is_listed_and_described() {
    let folder = Folder::new("describe");
    let list = folder.run(&["eval", "--list"]).done().stdout;
    // Thirteen kinds of masks, a layer and the position codes come behind the kernels.
    assert_eq!(list.lines().count(), KERNELS.len() + 14 + Kind::ALL.len());
    for kernel in KERNELS {
        assert!(list.lines().any(|l| l.split_whitespace().next() == Some(kernel.name)), "{}", kernel.name);
        let text = folder.run(&["eval", "--describe", kernel.name]).done().stdout;
        for port in kernel.ports {
            assert!(text.contains(&format!(" {} [{}]", port.name, port.dims.join(", "))), "{text}");
        }
        for field in kernel.params {
            assert!(text.contains(&format!("--param {}=", field.name)), "{text}");
        }
        assert!(text.contains(kernel.formula) && text.contains(kernel.source), "{text}");
        assert!(text.contains("\n  on wgpu: ") && text.contains("\n  on CUDA: "), "{text}");
    }
    for (kernel, told) in [
        ("matmul", "on CUDA: cuBLAS, then shaders/linalg/matmul.cu for what it leaves undone"),
        ("scale_rows", "on CUDA: the first that suits of vec4, plain (shaders/"),
        ("reduce_sum", "on CUDA: one source, plain (shaders/"),
        ("exact_attention", "on CUDA: expands into smaller kernels, chosen from shape: attention_rows"),
    ] {
        let text = folder.run(&["eval", "--describe", kernel]).done().stdout;
        assert!(text.contains(told), "{text}");
    }
    folder.run(&["eval", "--describe", "matmull"]).refused(&["matmull", "did you mean matmul"]);
    // A list of what has a word in its name; options of a run have no meaning there.
    let some = folder.run(&["eval", "--list", "tree"]).done().stdout;
    assert!(
        some.lines().count() > 3
            && some.lines().all(|line| line.split(' ').next().is_some_and(|w| w.contains("tree"))),
        "{some}"
    );
    folder.run(&["eval", "--list", "zzz"]).refused(&["zzz"]);
    folder.run(&["eval", "--list", "--out", "y.npz"]).refused(&["--list", "--out"]);
    folder.run(&["eval", "causal", "--describe", "tree"]).refused(&["--describe"]);
    folder.run(&["eval", "zzz", "--inputs", "x.npz", "--out", "y.npz"]).refused(&["zzz", "--list"]);
    folder.run(&["eval", "matmul"]).refused(&["--inputs", "--out"]);
    folder.run(&["eval"]).refused(&["NAME"]);
}

fn f32s(shape: &[usize], values: &[f32]) -> Array {
    Array { shape: shape.to_vec(), data: ArrayData::F32(values.to_vec()) }
}

fn file(folder: &Folder, name: &str, entries: &[(&str, Array)]) -> String {
    let map: BTreeMap<String, Array> = entries.iter().map(|(n, a)| ((*n).to_string(), a.clone())).collect();
    arrays::write(folder.at(name), &map).expect("arrays are written");
    folder.at(name)
}

fn eval(folder: &Folder, name: &str, inputs: &str, more: &[&str]) -> BTreeMap<String, Array> {
    for out in ["out.npz", "out.safetensors"] {
        let base = ["eval", name, "--inputs", inputs, "--device", "cpu", "--out", out];
        folder.run(&[&base[..], more].concat()).done();
    }
    let [npz, safetensors] =
        ["out.npz", "out.safetensors"].map(|f| arrays::read(folder.at(f)).expect("results"));
    assert_eq!(npz, safetensors);
    npz
}

#[track_caller]
fn near(array: &Array, shape: &[usize], expected: &[f64]) {
    assert_eq!(array.shape, shape);
    let values: Vec<f64> = match &array.data {
        ArrayData::F32(v) => v.iter().map(|x| f64::from(*x)).collect(),
        ArrayData::F64(v) => v.clone(),
        other => panic!("the result is {}", other.dtype()),
    };
    assert_eq!(values.len(), expected.len());
    for (got, expected) in values.iter().zip(expected) {
        assert!((got - expected).abs() <= 1e-6 * expected.abs().max(1.0), "{values:?}, expected {expected}");
    }
}

#[test]
fn eval_agrees_with_a_computation_by_hand() {
    let folder = Folder::new("eval");
    let a = f32s(&[2, 3], &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0]);
    let w = f32s(&[3, 2], &[1.0, 0.0, 0.0, 1.0, 1.0, 1.0]);
    for name in ["product.npz", "product.safetensors"] {
        let inputs = file(&folder, name, &[("a", a.clone()), ("w", w.clone())]);
        near(
            &eval(&folder, "matmul", &inputs, &["--param", "alpha=2"])["out"],
            &[1, 1, 2, 2],
            &[8.0, 10.0, 20.0, 22.0],
        );
    }
    let inputs = file(&folder, "turned.npz", &[("a", a.clone()), ("w", a)]);
    near(
        &eval(&folder, "matmul", &inputs, &["--param", "transpose_w=1"])["out"],
        &[1, 1, 2, 2],
        &[14.0, 32.0, 32.0, 77.0],
    );

    let points = f32s(&[2, 2], &[0.0, 0.0, 1.0, 2.0]);
    let other = f32s(&[1, 2], &[1.0, 0.0]);
    let lambda = f32s(&[1], &[2.0]);
    let entries = [("x", points.clone()), ("y", other.clone()), ("lambda", lambda.clone())];
    let inputs = file(&folder, "kernel.safetensors", &entries);
    let l1 = [(-0.5_f64).exp(), (-1.0_f64).exp()];
    near(&eval(&folder, "kernel_matrix", &inputs, &[])["out"], &[1, 1, 2, 1], &l1);
    let l2 = [(-0.5_f64).exp(), (-2.0_f64).exp()];
    near(&eval(&folder, "kernel_matrix", &inputs, &["--param", "metric=2"])["out"], &[1, 1, 2, 1], &l2);

    // One landmark at a key: C = e^(−d/λ), X = 1/(1 + ε).
    let values = f32s(&[2, 1], &[10.0, 20.0]);
    let entries = [
        ("q", other.clone()),
        ("k", points.clone()),
        ("v", values.clone()),
        ("landmarks", f32s(&[1, 2], &[0.0, 0.0])),
        ("lambda", lambda.clone()),
    ];
    let inputs = file(&folder, "nystrom.npz", &entries);
    let out = eval(&folder, "nystrom_attention", &inputs, &["--param", "epsilon=0.25"]);
    let expected = (-0.5_f64).exp() / 1.25 * (10.0 + (-1.5_f64).exp() * 20.0);
    near(&out["out"], &[1, 1, 1, 1], &[expected]);
    assert_eq!(out["status"].shape, [1, 1, 4]);

    let entries = [("q", other), ("k", points), ("v", values), ("lambda", lambda)];
    let inputs = file(&folder, "exact.npz", &entries);
    let out = eval(&folder, "exact_attention", &inputs, &["--param", "metric=1"]);
    near(&out["out"], &[1, 1, 1, 1], &[(l1[0] * 10.0 + l1[1] * 20.0) / (l1[0] + l1[1])]);
    near(&out["log_sum"], &[1, 1, 1], &[(l1[0] + l1[1]).ln()]);
    let out = eval(&folder, "exact_attention", &inputs, &["--param", "scale=0.5"]);
    let weight = [0.0, 0.5_f64].map(f64::exp);
    near(&out["out"], &[1, 1, 1, 1], &[(weight[0] * 10.0 + weight[1] * 20.0) / (weight[0] + weight[1])]);
}

#[test]
fn bad_arrays_are_refused_in_one_line() {
    let folder = Folder::new("bad-arrays");
    let a = f32s(&[2, 3], &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0]);
    let w = f32s(&[3, 2], &[1.0; 6]);
    let kept = file(&folder, "out.npz", &[("a", a.clone())]);
    let before = fs::read(&kept).expect("an older result");
    let words = Array { shape: vec![3, 2], data: ArrayData::I32(vec![1; 6]) };
    let nan = f32s(&[3, 2], &[1.0, 2.0, f32::NAN, 4.0, f32::INFINITY, 6.0]);
    file(&folder, "wrong-name.npz", &[("a", a.clone()), ("b", w.clone())]);
    file(&folder, "no-w.npz", &[("a", a.clone())]);
    file(&folder, "wrong-shape.npz", &[("a", a.clone()), ("w", a.clone())]);
    file(&folder, "wrong-rank.npz", &[("a", a.clone()), ("w", f32s(&[6], &[1.0; 6]))]);
    file(&folder, "wrong-dtype.npz", &[("a", a.clone()), ("w", words)]);
    file(&folder, "nan.npz", &[("a", a.clone()), ("w", nan)]);
    file(&folder, "good.npz", &[("a", a), ("w", w)]);
    let good = fs::read(folder.at("good.npz")).expect("arrays");
    fs::write(folder.at("truncated.npz"), &good[..good.len() / 2]).expect("half a file");
    fs::write(folder.at("text.npz"), "words").expect("a text");
    fs::write(folder.at("short.safetensors"), [9, 0, 0]).expect("three bytes");
    fs::write(folder.at("claim.safetensors"), u64::MAX.to_le_bytes()).expect("a claim");
    let names = folder.names();
    let cases: &[(&str, &[&str], &[&str])] = &[
        ("wrong-name.npz", &[], &["`b`", "a, w, residual, bias"]),
        ("no-w.npz", &[], &["`w`"]),
        ("wrong-shape.npz", &[], &["matmul"]),
        ("wrong-rank.npz", &[], &["`w`", "[6]"]),
        ("wrong-dtype.npz", &[], &["`w`", "i32"]),
        ("nan.npz", &[], &["`w`", "element 2", "2 such"]),
        ("missing.npz", &[], &["missing.npz", "cannot read"]),
        ("truncated.npz", &[], &["truncated.npz"]),
        ("text.npz", &[], &["text.npz"]),
        ("short.safetensors", &[], &["short.safetensors"]),
        ("claim.safetensors", &[], &["claim.safetensors"]),
        ("good.npz", &["--param", "beta"], &["key=value"]),
        ("good.npz", &["--param", "gamma=1"], &["gamma", "alpha, beta, identity"]),
        ("good.npz", &["--param", "alpha=much"], &["alpha=much"]),
        ("good.npz", &["--param", "transpose_a=-1"], &["transpose_a=-1"]),
        ("good.npz", &["--dim", "z=3"], &["z=3"]),
        ("good.npz", &["--device", "abacus"], &["abacus"]),
    ];
    for (inputs, more, parts) in cases {
        let mut all = vec!["eval", "matmul", "--inputs", inputs, "--out", "out.npz"];
        all.extend_from_slice(more);
        if !more.contains(&"--device") {
            all.extend(["--device", "cpu"]);
        }
        folder.run(&all).refused(parts);
        assert!(fs::read(&kept).expect("an older result") == before, "{inputs} {more:?}");
    }
    let base = ["eval", "matmul", "--inputs", "good.npz", "--device", "cpu", "--out"];
    folder.run(&[&base[..], &["nowhere/out.npz"]].concat()).refused(&["nowhere"]);
    folder.run(&[&base[..], &["out.csv"]].concat()).refused(&["out.csv", "suffix"]);
    assert_eq!(folder.names(), names, "nothing half-written is left");
    // Two results do not go into one array, which is known before any work.
    let outputs = KERNELS.iter().find(|k| k.name == "exact_attention").expect("a kernel").ports.iter();
    assert!(outputs.filter(|p| p.access == wgattn::kernel::Access::Write).count() > 1);
    let run = folder.run(&[
        "eval",
        "exact_attention",
        "--inputs",
        "good.npz",
        "--device",
        "cpu",
        "--out",
        "two.npy",
    ]);
    run.refused(&["two.npy", "one array"]);
    let taken = [
        "eval",
        "matmul",
        "--inputs",
        "nan.npz",
        "--device",
        "cpu",
        "--allow-nonfinite",
        "--out",
        "nan-out.npz",
    ];
    folder.run(&taken).done();

    let q = f32s(&[3, 2], &[0.5; 6]);
    let entries = [
        ("q", q.clone()),
        ("k", q.clone()),
        ("v", q.clone()),
        ("landmarks", q.clone()),
        ("lambda", f32s(&[1], &[1.0])),
    ];
    file(&folder, "attention.npz", &entries);
    let base = [
        "eval",
        "nystrom_attention",
        "--inputs",
        "attention.npz",
        "--device",
        "cpu",
        "--out",
        "x.npz",
        "--param",
    ];
    for (param, parts) in [
        ("epsilon=0", ["epsilon", "got 0"]),
        ("epsilon=NaN", ["epsilon", "NaN"]),
        ("zs=-1", ["zs", "-1"]),
        ("normalise=5", ["normalise", "5"]),
        ("metric=0", ["metric", "0"]),
    ] {
        folder.run(&[&base[..], &[param]].concat()).refused(&parts);
    }
}

#[test]
fn numbers_that_mean_nothing_are_refused_with_port_and_element() {
    let folder = Folder::new("meaning");
    let words = |values: &[u32]| Array { shape: vec![4, 2], data: ArrayData::U32(values.to_vec()) };
    let qkv = |more: (&'static str, Array)| {
        let ones = |name| (name, f32s(&[1, 1, 4, 1], &[1.0; 4]));
        let table = ("table", f32s(&[1, 7], &[1.0; 7]));
        let mut list = vec![ones("q"), ones("k"), ones("v"), table];
        list.retain(|(name, _)| *name != more.0);
        list.push(more);
        list
    };
    let run = |name: &str, entries: &[(&str, Array)], more: &[&str]| {
        let inputs = file(&folder, "in.npz", entries);
        folder
            .run(&[&["eval", name, "--inputs", &inputs, "--device", "cpu", "--out", "o.npz"], more].concat())
    };
    let mut weights = [1.0; 7];
    weights[3] = -1.0;
    let signed = qkv(("table", f32s(&[1, 7], &weights)));
    run("masked_attention", &signed, &[]).refused(&["element 3", "`table`", "-1", "--unchecked"]);
    run("masked_attention", &signed, &["--unchecked"]).done();
    for bad in [[2, 0, 2, 0, 2, 4, 2, 4], [0, 3, 0, 3, 2, 4, 2, 4], [0, 2, 0, 2, 2, 9, 2, 9]] {
        run("masked_attention", &qkv(("segment", words(&bad))), &[]).refused(&["element", "`segment`"]);
    }
    run("masked_attention", &qkv(("segment", words(&[0, 2, 0, 2, 2, 4, 2, 4]))), &[]).done();
    let mut decaying = qkv(("decay", f32s(&[1], &[2.0])));
    decaying.retain(|(name, _)| *name != "table");
    run("causal_attention", &decaying, &[]).refused(&["element 0", "`decay`", "from 0 to 1"]);
}

/// Numbers that pass the range of f32 on their way are no result, unless they are asked for.
#[test]
fn results_beyond_f32_are_refused() {
    let folder = Folder::new("beyond-f32");
    let devices = folder.run(&["devices", "--json"]).done().json()["devices"].as_array().map_or(0, Vec::len);
    let entries = [("x", f32s(&[4, 1], &[3e38, 3e38, 1.0, 2.0]))];
    let arrays = entries.into_iter().map(|(name, array)| (name.to_string(), array)).collect();
    arrays::write(folder.at("in.npz"), &arrays).expect("arrays are written");
    let base = ["eval", "none", "--inputs", "in.npz", "--out", "y.npz"];
    // The reference has room for them.
    folder.run(&[&base[..], &["--device", "cpu"]].concat()).done();
    match &arrays::read(folder.at("y.npz")).expect("a result")["y"].data {
        ArrayData::F64(y) => assert!(y.iter().all(|y| (*y - 6e38).abs() < 1e33), "{y:?}"),
        other => panic!("{}", other.dtype()),
    }
    fs::remove_file(folder.at("y.npz")).expect("a result");
    if devices < 2 {
        eprintln!("no adapter but the reference: how it refuses is tested beside the code");
        return;
    }
    let run = folder.run(&[&base[..], &["--device", "0"]].concat());
    run.refused(&["none", "element 0 of `y`", "6e38", "greatest of f32", "--allow-nonfinite"]);
    assert!(!folder.0.join("y.npz").exists());
    let run = folder.run(&[&base[..], &["--device", "0", "--allow-nonfinite"]].concat()).done();
    assert!(run.stderr.contains("not finite"), "{}", run.all());
}
