//! Position codes: `wgattn spe`, `wgattn map --position`, and `wgattn eval` of codes by their words.

use super::*;
use wgattn::position::apply::{Side, apply};
use wgattn::position::spec::EncodingSpec;
use wgattn::position::{Encoding, Positions};

/// Arguments of a code that the reference draws in no time.
const SMALL: [&str; 12] = [
    "--device",
    "cpu",
    "--tokens",
    "20",
    "--dim",
    "4",
    "--realizations",
    "16,64",
    "--seeds",
    "6",
    "--out",
    "spe.png",
];

impl Folder {
    fn spe(&self, args: &[&str]) -> Run {
        // What is given again is given last; SMALL's own is left out.
        let own: Vec<&str> =
            SMALL.chunks(2).filter(|pair| !args.contains(&pair[0])).flatten().copied().collect();
        self.run(&[&["spe"], args, &own].concat())
    }
}

fn doubles(array: &Array) -> Vec<f64> {
    match &array.data {
        ArrayData::F64(x) => x.clone(),
        ArrayData::F32(x) => x.iter().map(|x| f64::from(*x)).collect(),
        other => panic!("{}", other.dtype()),
    }
}

#[track_caller]
fn same(a: &[f64], b: &[f64], tolerance: f64) {
    assert_eq!(a.len(), b.len());
    for (at, (x, y)) in a.iter().zip(b).enumerate() {
        assert!((x - y).abs() <= tolerance, "element {at}: {x} and {y}");
    }
}

#[test]
fn drawn_codes_err_as_predicted_and_are_drawn_as_a_picture() {
    let folder = Folder::new("spe");
    for kind in ["sine", "conv"] {
        let report = folder.spe(&[kind, "--raw", "fused.npz", "--json"]).done().json();
        for row in report["rows"].as_array().expect("rows") {
            let number = |key: &str| row[key].as_f64().unwrap_or_else(|| panic!("{key}: {row}"));
            let gap = (number("ratio") - 1.0).abs() / number("ratio_standard_error");
            assert!(gap < 4.0, "{gap} standard errors: {row}");
            let ratio = number("logit_std") / number("logit_std_predicted");
            assert!((0.8..1.25).contains(&ratio), "{row}");
            assert!(number("mean_exponential_closed_form") > number("mean_exponential_naive"), "{row}");
        }
        let slope = report["slope"].as_f64().expect("a slope");
        assert!((-0.65..-0.35).contains(&slope), "{kind}: {slope}");
        let within = |row: usize| report["rows"][row]["variance_within_lags"].as_f64().expect("a share");
        assert!(within(1) < within(0), "{report}");
        let picture = image::open(folder.at("spe.png")).expect("a picture").to_rgb8();
        let colours: std::collections::BTreeSet<[u8; 3]> = picture.pixels().map(|p| p.0).collect();
        assert!(picture.width() > 1000 && colours.len() > 20, "{} colours", colours.len());

        // Codes in memory are those that are made where they are used.
        folder.spe(&[kind, "--code", "materialised", "--raw", "memory.npz"]).done();
        let [fused, memory] =
            ["fused.npz", "memory.npz"].map(|f| arrays::read(folder.at(f)).expect("arrays"));
        assert_eq!(fused["estimate"].shape, [2, 20]);
        same(&doubles(&fused["estimate"]), &doubles(&memory["estimate"]), 1e-6);
        same(&doubles(&fused["template"]), &doubles(&memory["template"]), 0.0);
    }
    let text = folder.spe(&["conv", "--tokens", "6x5", "--taps", "3x2", "--seeds", "1"]).done().stdout;
    for part in
        ["3 × 2 taps", "6 × 5", "rmse of P", "ratio", "logit noise", "closed form", "slope", "spe.png"]
    {
        assert!(text.contains(part), "no {part}: {text}");
    }
    // Positions that are ignored altogether give a covariance without lags.
    let report = folder.spe(&["sine", "--gate", "1", "--json"]).done().json();
    assert!(report["rows"][0]["ratio"].as_f64().expect("a ratio") > 0.0, "{report}");
}

#[test]
fn codes_are_made_for_a_template() {
    let folder = Folder::new("spe-template");
    let fit = |args: &[&str]| {
        let report = folder.spe(&[args, &["--json", "--raw", "t.npz"]].concat()).done().json();
        let number = |key: &str| report["template"][key].as_f64().unwrap_or_else(|| panic!("{report}"));
        let template = doubles(&arrays::read(folder.at("t.npz")).expect("arrays")["template"]);
        (number("residual"), number("noise_price"), template)
    };
    // The middle of 20 tokens is the 10th: lags 10, 9, … −9.
    let lags = || (0..20).map(|key| 10.0 - f64::from(key));
    let gauss: Vec<f64> =
        lags().map(|lag| if lag.abs() < 7.0 { (-0.5 * lag * lag / 9.0_f64).exp() } else { 0.0 }).collect();
    let (residual, price, template) = fit(&["conv", "--template", "gauss:3", "--taps", "7"]);
    assert!(residual < 1e-9 && (1.0..2.0).contains(&price), "{residual}, {price}");
    same(&template, &gauss, 1e-8);
    let (residual, price, _) = fit(&["conv", "--template", "past:3", "--taps", "7", "--synthesis", "delta"]);
    assert!(residual == 0.0 && price > 1.0, "{residual}, {price}");
    let (residual, _, template) = fit(&["sine", "--template", "pulse:4", "--sinusoids", "3"]);
    let pulses: Vec<f64> = lags().map(|lag| f64::from(u8::from(lag % 4.0 == 0.0))).collect();
    assert!(residual < 0.05, "{residual}");
    same(&template, &pulses, 0.2);

    // Without --taps there are as many as the template needs, and the lags that are told are those that are prescribed.
    let lags = |args: &[&str]| {
        let report = folder.spe(&[args, &["--json"]].concat()).done().json();
        assert!(report["template"]["residual"].as_f64().expect("a residual") < 1e-9, "{report}");
        report["template"]["target"].as_str().expect("words").to_owned()
    };
    for shape in ["exp:3", "past:3", "gauss:3", "pulse:4", "gauss:0.4", "exp:40", "gauss:60", "pulse:1"] {
        assert_eq!(lags(&["conv", "--template", shape]), format!("{shape} on lags −16…16"));
        let plane = lags(&["conv", "--template", shape, "--tokens", "4x5", "--dim", "1"]);
        assert_eq!(plane, format!("{shape} on lags −8…8 × −8…8"));
        let delta = lags(&["conv", "--template", shape, "--synthesis", "delta"]);
        assert_eq!(delta, format!("{shape} on lags −8…8"));
    }
    let delta = |taps: &str| lags(&["conv", "--template", "exp:3", "--synthesis", "delta", "--taps", taps]);
    assert_eq!(delta("16"), "exp:3 on lags −7…8");
    assert_eq!(delta("2"), "exp:3 on lags 0…1");
    assert_eq!(delta("1"), "exp:3 on lag 0");
    // Its template is the shape there and 0 elsewhere.
    let (_, _, template) = fit(&["conv", "--template", "exp:3", "--taps", "4", "--synthesis", "delta"]);
    let wanted: Vec<f64> = (0..20)
        .map(|key| 10.0 - f64::from(key))
        .map(|lag| if (-1.0..=2.0).contains(&lag) { (-lag.abs() / 3.0).exp() } else { 0.0 })
        .collect();
    same(&template, &wanted, 1e-8);

    let line: Vec<f64> = (-4..=4).map(|lag| 1.0 / (1.0 + f64::from(lag * lag))).collect();
    let plane: Vec<f64> = line[2..7].iter().flat_map(|a| line[3..6].iter().map(move |b| a * b)).collect();
    for (name, shape, values) in [("line.npy", vec![9], line), ("plane.npy", vec![5, 3], plane)] {
        let array = Array { shape, data: ArrayData::F64(values) };
        let one = BTreeMap::from([(arrays::NPY_NAME.to_string(), array)]);
        arrays::write(folder.at(name), &one).expect("a template");
    }
    assert!(fit(&["conv", "--template", "line.npy"]).0 < 1e-9);
    assert_eq!(fit(&["conv", "--template", "plane.npy", "--tokens", "6x5"]).0, 0.0);
    assert!(fit(&["sine", "--template", "line.npy", "--sinusoids", "4"]).0 < 0.1);
}

#[test]
fn codes_come_from_files_of_both_programs() {
    let folder = Folder::new("spe-files");
    let ramp = |shape: &[usize], from: f32| {
        let len = shape.iter().product::<usize>();
        Array {
            shape: shape.to_vec(),
            data: ArrayData::F32((0..len).map(|i| from + 0.1 * i as f32).collect()),
        }
    };
    let file = |name: &str, entries: &[(&str, Array)]| {
        let map = entries.iter().map(|(name, array)| ((*name).to_owned(), array.clone())).collect();
        arrays::write(folder.at(name), &map).expect("arrays are written");
    };
    let waves = [
        ("a.freqs", ramp(&[2, 3, 2], -2.0)),
        ("a.offsets", ramp(&[2, 3, 2], 0.0)),
        ("a.gains", ramp(&[2, 3, 2], 0.5)),
        ("b.gate", ramp(&[2, 3], -0.3)),
    ];
    file("sine.safetensors", &waves);
    let from = |more: &[&str]| folder.spe(&[more, &["--raw", "t.npz", "--json"]].concat());
    let no_dim = |kind: &str, file: &str, more: &[&str]| {
        let usual = [["--device", "cpu"], ["--tokens", "20"], ["--realizations", "16"], ["--seeds", "1"]];
        let usual: Vec<&str> =
            usual.iter().filter(|pair| !more.contains(&pair[0])).flatten().copied().collect();
        let args = ["spe", kind, "--params", file, "--raw", "t.npz", "--json"];
        folder.run(&[&args, more, &usual].concat())
    };
    let report = no_dim("sine", "sine.safetensors", &["--prefix", "a.", "--gate-prefix", "b."]).done().json();
    assert_eq!((&report["heads"], &report["width"]), (&2.into(), &3.into()));
    assert!(report["code"].as_str().expect("words").contains("gated"), "{report}");
    let filters = [("conv_q/kernel", ramp(&[4, 1, 3], 0.1)), ("conv_k/kernel", ramp(&[4, 1, 3], -0.7))];
    file("conv.safetensors", &filters);
    let template = |convention: &str| {
        no_dim("conv", "conv.safetensors", &["--convention", convention]).done();
        doubles(&arrays::read(folder.at("t.npz")).expect("arrays")["template"])
    };
    let (by_name, swapped) = (template("jax"), template("jax-swapped"));
    // Lags −9 … 9 stand on both sides of the middle; an exchange of the filters turns them round.
    let turned: Vec<f64> = swapped[1..].iter().rev().copied().collect();
    same(&by_name[1..], &turned, 1e-12);
    assert_ne!(by_name, swapped);
    for (run, parts) in [
        (no_dim("conv", "sine.safetensors", &["--prefix", "a."]), &["spe-conv", "spe-sine"][..]),
        (no_dim("sine", "sine.safetensors", &[]), &["freqs", "--prefix a."]),
        (
            no_dim("sine", "none.safetensors", &[]),
            &["parameters from none.safetensors", "cannot read", "give a file"],
        ),
        (no_dim("conv", "sine.safetensors", &["--prefix", "a."]), &["`wgattn spe sine`"]),
        (no_dim("sine", "sine.safetensors", &["--init", "7"]), &["--init", "leave it out"]),
        (no_dim("conv", "conv.safetensors", &[]), &["conv_q/kernel", "use --convention jax"]),
        (
            no_dim("sine", "sine.safetensors", &["--prefix", "a.", "--gate-prefix", ""]),
            &["`gate`", "--gate-prefix b."],
        ),
        (
            no_dim("sine", "sine.safetensors", &["--prefix", "a.", "--tokens", "4x4"]),
            &["sinusoids in files stand on a line", "--tokens 128"],
        ),
        (
            no_dim("conv", "conv.safetensors", &["--convention", "jax", "--tokens", "4x4"]),
            &["the file's filters have 1 axis", "--tokens 128"],
        ),
        (no_dim("conv", "conv.safetensors", &["--convention", "torch"]), &["pytorch, jax, jax-swapped"]),
        (
            no_dim("conv", "conv.safetensors", &["--convention", "jax", "--heads", "2"]),
            &["divisor", "with --heads"],
        ),
        (no_dim("sine", "sine.safetensors", &["--prefix", "a.", "--heads", "3"]), &["--heads", "2"]),
        (
            no_dim("sine", "sine.safetensors", &["--prefix", "a.", "--gate-prefix", "b.", "--gate", "0.5"]),
            &["--gate"],
        ),
        (from(&["sine", "--params", "sine.safetensors", "--prefix", "a."]), &["--dim"]),
    ] {
        run.refused(parts);
    }
    let told = no_dim("sine", "sine.safetensors", &["--prefix", "a."]).done().stderr;
    assert!(
        told.contains("note: sine.safetensors: without its gate") && told.contains("--gate-prefix b."),
        "{told}"
    );
    let told = no_dim("sine", "sine.safetensors", &["--prefix", "a.", "--gate-prefix", "b."]).done().stderr;
    assert!(!told.contains("note:"), "{told}");
    let mut broken = waves.clone();
    broken[2].1 = Array { shape: vec![2, 3, 2], data: ArrayData::F32(vec![f32::NAN; 12]) };
    file("nan.safetensors", &broken);
    no_dim("sine", "nan.safetensors", &["--prefix", "a."]).refused(&["gains", "finite", "NaN"]);
    let nothing = Array { shape: vec![2, 3, 2], data: ArrayData::F32(vec![-1000.0; 12]) };
    broken[2].1 = nothing;
    file("zero.safetensors", &broken);
    no_dim("sine", "zero.safetensors", &["--prefix", "a."]).refused(&["0 at every token"]);
    broken[2].1 = ramp(&[2, 2, 2], 0.0);
    file("other.safetensors", &broken);
    no_dim("sine", "other.safetensors", &["--prefix", "a."]).refused(&["gains", "[2, 3, 2]"]);
}

#[test]
fn wrong_codes_are_refused_in_one_line() {
    let folder = Folder::new("spe-refusals");
    let cases: &[(&[&str], &[&str])] = &[
        (&["wave"], &["wave", "sine"]),
        (&["sine", "--realizations", "0"], &["realisations R", "1 to 16384", "0"]),
        (&["sine", "--realizations", "64,16385"], &["realisations R", "16385"]),
        (&["sine", "--realizations", "many"], &["--realizations", "such as 16,64,256"]),
        (&["sine", "--realizations", "16,,64"], &["--realizations", "comma between", "16,64,256"]),
        (&["sine", "--gate", "0.5", "--gate-prefix", ""], &["--gate", "leave out one of the two"]),
        (&["sine", "--gate-prefix", ""], &["--gate-prefix says how a file is read", "add --params"]),
        (&["sine", "--convention", "jax"], &["--convention says", "add --params"]),
        (&["conv", "--synthesis", "delta"], &["--synthesis", "add --template"]),
        (&["sine", "--sinusoids", "0"], &["sinusoids K", "0"]),
        (&["sine", "--sinusoids", "65537"], &["sinusoids K", "1 to 65536"]),
        (&["sine", "--dim", "0"], &["dimensions D", "0"]),
        (&["sine", "--heads", "0"], &["heads H", "0"]),
        (&["sine", "--heads", "2048", "--dim", "1024"], &["heads H", "1048576"]),
        (&["conv", "--taps", "0"], &["taps", "0"]),
        (&["conv", "--taps", "4294967295"], &["taps"]),
        (&["conv", "--taps", "8x8"], &["--tokens", "2 axes", "give --tokens 16x16", "--taps 16"]),
        (
            &["conv", "--taps", "8", "--tokens", "6x6"],
            &["--tokens", "1 axis", "give --tokens 128", "--taps 8x8"],
        ),
        (&["conv", "--taps", "some"], &["--taps", "some"]),
        (&["sine", "--tokens", "0"], &["--tokens", "0"]),
        (&["sine", "--tokens", "2x2x2"], &["--tokens", "16x16"]),
        (&["sine", "--tokens", "100000"], &["--tokens", "pairs"]),
        (&["sine", "--bias", "NaN"], &["bias", "finite"]),
        (&["sine", "--gate", "1.5"], &["gate", "0 to 1", "1.5"]),
        (&["sine", "--gate", "NaN"], &["gate", "NaN"]),
        (&["sine", "--gate", "-0.5"], &["gate", "-0.5"]),
        (&["sine", "--seed", "-1"], &["--seed"]),
        (&["sine", "--seed", "18446744073709551616"], &["--seed"]),
        (&["sine", "--seed", "18446744073709551615"], &["--seed", "2^64"]),
        (&["sine", "--seeds", "0"], &["--seeds", "1 to", "4 is usual"]),
        (&["sine", "--mode", "uniform"], &["icdf", "rademacher"]),
        (&["sine", "--show", "0,4"], &["--show", "below 4"]),
        (&["sine", "--show", "first"], &["HEAD,DIMENSION"]),
        (&["sine", "--taps", "8"], &["--taps", "spe conv"]),
        (&["conv", "--sinusoids", "8"], &["--sinusoids", "spe sine"]),
        (&["conv", "--bias", "-4"], &["--bias", "spe sine", "leave it out"]),
        (&["conv", "--template", "gauss:3", "--taps", "16"], &["odd number of taps", "--synthesis delta"]),
        (&["sine", "--template", "gauss"], &["gauss:SIZE"]),
        (&["sine", "--template", "gauss:0"], &["gauss:SIZE"]),
        (&["sine", "--template", "pulse:2.5"], &["pulse:16"]),
        (&["sine", "--template", "none.npy"], &["none.npy"]),
        (&["sine", "--template", "exp:4", "--tokens", "6x6"], &["spe conv"]),
        (&["sine", "--template", "exp:4", "--bias", "-1"], &["--bias", "--template"]),
        (&["sine", "--template", "exp:4", "--synthesis", "roots"], &["--synthesis", "spe conv"]),
        (&["sine", "--template", "exp:4", "--sinusoids", "100"], &["sinusoids K", "39"]),
        (&["conv", "--template", "exp:4", "--taps", "513"], &["512", "fewer taps"]),
        (&["sine", "--template", "exp:4", "--sinusoids", "0"], &["sinusoids K", "at least 1"]),
        (&["sine", "--prefix", "a."], &["--prefix says how a file is read", "--params"]),
        (&["sine", "--params", "none.safetensors", "--template", "exp:4"], &["--template"]),
        (&["sine", "--out", "spe.txt"], &["spe.txt", "suffix"]),
        (&["sine", "--raw", "none/t.npz"], &["none"]),
        (&["sine", "--raw", "t.npy"], &["t.npy", ".npz"]),
        (&["sine", "--tokens", "4x4x4"], &["--tokens 4x4x4", "16x16"]),
        (&["sine", "--device", "abacus"], &["abacus"]),
    ];
    for (arguments, parts) in cases {
        let run = folder.spe(arguments).refused(parts);
        assert!(folder.names().is_empty(), "left behind by {arguments:?}");
        // What a remedy is about must be an option of this kind of code.
        let other = if arguments[0] == "sine" { "--taps 16" } else { "--sinusoids 5" };
        assert!(!run.stderr.contains(other), "{arguments:?}: {}", run.stderr);
    }
}

#[test]
fn names_in_files_are_told_by_the_help() {
    let folder = Folder::new("spe-names");
    let help = folder.run(&["spe", "--help"]).done().stdout;
    let described =
        ["spe-sine", "spe-conv"].map(|kind| folder.run(&["eval", "--describe", kind]).done().stdout);
    let readme = fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/README.md")).expect("the README");
    for text in [&help, &described[0], &described[1], &readme] {
        for name in
            ["freqs", "offsets", "gains", "conv_q.weight", "conv_q/kernel", "gate", "jax-swapped", "h·d"]
        {
            assert!(text.contains(name), "no {name}: {text}");
        }
    }
}

#[test]
fn a_map_takes_position_codes() {
    let folder = Folder::new("map-position");
    let cat = folder.picture("cat.png", 96, 64);
    let map =
        |more: &[&str]| folder.map(&[&[&cat, "--at", "40,30", "--heads", "2", "--json"], more].concat());
    let position = |words: &str, more: &[&str]| {
        let report = map(&[&["--position", words, "--out", "o.png"], more].concat()).done().json();
        assert_eq!(report["position"]["code"], words);
        let number = |key: &str| report["position"][key].as_f64().unwrap_or_else(|| panic!("{report}"));
        assert!(number("logit_std_predicted") > 0.0 && number("logit_spread") > 0.0, "{report}");
        (
            report["kernel"].clone(),
            number("logit_std_predicted"),
            report["position"]["relative_error_of_exact_positions"][0].as_f64(),
        )
    };
    for kind in ["spe-sine:sinusoids=3,bias=-3,", "spe-conv:taps=3x3,"] {
        let (kernel, few, few_off) = position(&format!("{kind}realizations=16,seed=1"), &[]);
        let (_, many, many_off) = position(&format!("{kind}realizations=1024,seed=1"), &[]);
        assert_eq!(kernel, "softmax");
        assert!((few / many - 8.0).abs() < 1e-3, "√(1024/16): {few} and {many}");
        let (few_off, many_off) = (few_off.expect("an error"), many_off.expect("an error"));
        assert!(many_off < 0.5 * few_off, "{kind}: {few_off} and {many_off}");
    }
    let gated = "spe-sine:sinusoids=3,bias=-3,realizations=32,gate=0.5,seed=1";
    assert!(position(gated, &["--kernel", "favor+:features=32"]).2.is_some());
    let (kernel, _, off) = position(gated, &["--mask", "causal"]);
    assert_eq!((kernel, off), ("elu".into(), None));
    // A gate that lets nothing of positions through leaves softmax itself, but for the noise.
    let all = "spe-sine:sinusoids=1,bias=-4,realizations=16384,gate=1,seed=0";
    assert!(position(all, &["--max-tokens", "60"]).2.expect("an error") < 0.1);
    let text = folder.map(&[&cat, "--at", "40,30", "--position", "spe-conv:taps=2x2"]).done().stdout;
    for part in
        ["position   spe-conv:taps=2x2,realizations=256,seed=0", "logit's noise", "off the row with exact"]
    {
        assert!(text.contains(part), "no {part}: {text}");
    }
    assert!(text.contains("each logit is an estimate by the code"), "{text}");
    assert!(!text.contains("rows are exact") && text.contains("error      n/a"), "{text}");
    // Kernels without logits say nothing of them, and features say what they are compared with.
    let code = ["--position", "spe-conv:taps=2x2,realizations=16"];
    let at = |more: &[&str]| folder.map(&[&[&cat, "--at", "40,30"], &code[..], more].concat()).done().stdout;
    for kernel in ["elu", "relu"] {
        let text = at(&["--kernel", kernel]);
        assert!(!text.contains("logit") && !text.contains("rows are exact"), "{text}");
        assert!(text.contains("q̂·k̂/√R errs by") && text.contains("under the code"), "{text}");
    }
    let text = at(&["--kernel", "favor+:features=32"]);
    assert!(
        text.contains("logit") && text.contains("of the row that softmax makes of the same codes"),
        "{text}"
    );
    let ramp = |shape: &[usize]| {
        let len = shape.iter().product::<usize>();
        Array { shape: shape.to_vec(), data: ArrayData::F32((0..len).map(|i| 0.01 * i as f32).collect()) }
    };
    let stored = |name: &str, heads: usize, width: usize| {
        let filters =
            ["conv_q.weight", "conv_k.weight"].map(|n| (n.to_owned(), ramp(&[heads * width, 1, 2, 2])));
        let gate = ("b.gate".to_owned(), ramp(&[heads, width]));
        arrays::write(folder.at(name), &filters.into_iter().chain([gate]).collect()).expect("parameters");
    };
    stored("three.npz", 3, 32);
    stored("narrow.npz", 2, 8);
    let three = |more: &[&str]| folder.map(&[&[&cat, "--at", "40,30"], more].concat());
    let told =
        three(&["--position", "spe-conv:file=three.npz,realizations=16", "--heads", "3"]).done().stderr;
    assert!(told.contains("without its gate") && told.contains("gate-prefix=b."), "{told}");
    three(&["--position", "spe-sine", "--heads", "0"]).refused(&["--heads 0", "1 to 64", "leave it out"]);
    let refused: [(&[&str], &[&str]); 18] = [
        (
            &["--position", "spe-sine", "--landmarks", "strided:3"],
            &["--landmarks", "softmax kernel; leave it out"],
        ),
        (&["--position", "spe-sine", "--lambda", "2"], &["--lambda", "softmax kernel; leave it out"]),
        (&["--position", "spe-sine", "--preset", "paper"], &["--normalise none"]),
        (
            &["--position", "spe-conv:file=three.npz,gate-prefix=b."],
            &["three.npz", "3 and 32", "use --heads 3"],
        ),
        (
            &["--position", "spe-conv:file=narrow.npz,gate-prefix=b."],
            &["2 and 8", "pictures have 32 dimensions", "wgattn eval"],
        ),
        (&["--position", "spe-conv:file=three.npz,init=7"], &["init=7", "leave it out"]),
        (&["--position", "sine"], &["spe-sine", "spe-conv"]),
        (
            &["--position", "spe-sine", "--kernel", "laplacian"],
            &["laplacian", "distances", "--kernel softmax"],
        ),
        (&["--position", "spe-sine", "--kernel", "gaussian"], &["gaussian", "distances"]),
        (&["--position", "spe-sine:taps=8"], &["taps=8", "sinusoids"]),
        (&["--position", "spe-conv:taps=8"], &["axes", "taps=8x8"]),
        (&["--position", "spe-conv:taps=0x8"], &["taps"]),
        (&["--position", "spe-sine:realizations=0"], &["realisations R"]),
        (&["--position", "spe-sine:realizations=99999"], &["realisations R", "16384"]),
        (&["--position", "spe-sine:gate=2"], &["gate", "0 to 1"]),
        (&["--position", "spe-sine:seed=x"], &["seed"]),
        (&["--position", "spe-sine:file=none.safetensors"], &["none.safetensors"]),
        (&["--position", "spe-sine", "--path", "nystrom"], &["softmax", "exact", "leave --path out"]),
    ];
    for (arguments, parts) in refused {
        let run = map(arguments).refused(parts);
        // No way out that a code does not have.
        for wrong in ["landmarks are", "use the laplacian", "--kernel laplacian", "or the laplacian"] {
            assert!(!run.stderr.contains(wrong), "{arguments:?}: {}", run.stderr);
        }
    }
}

#[test]
fn eval_codes_queries_and_keys_by_words() {
    let folder = Folder::new("eval-position");
    let wave = |shape: &[usize], step: f32| {
        let len = shape.iter().product::<usize>();
        Array {
            shape: shape.to_vec(),
            data: ArrayData::F32((0..len).map(|i| (i as f32 * step).sin()).collect()),
        }
    };
    let file = |name: &str, entries: &[(&str, Array)]| {
        let map = entries.iter().map(|(name, array)| ((*name).to_owned(), array.clone())).collect();
        arrays::write(folder.at(name), &map).expect("arrays are written");
    };
    let eval = |words: &str, inputs: &str| {
        folder.run(&["eval", words, "--inputs", inputs, "--out", "out.npz", "--device", "cpu"])
    };
    for (words, sides) in [
        ("spe-sine:sinusoids=3,realizations=6,gate=0.25,seed=9", vec![7_usize]),
        ("spe-conv:taps=3,realizations=5,gate=0.5", vec![7]),
        ("spe-conv:taps=2x3,realizations=5", vec![3, 4]),
        ("spe-sine:realizations=4,mode=rademacher,shared-heads", vec![2, 2, 3]),
    ] {
        let shape: Vec<usize> = [2, 2].into_iter().chain(sides.clone()).chain([3]).collect();
        file("in.npz", &[("q", wave(&shape, 0.7)), ("k", wave(&shape, 1.3))]);
        eval(words, "in.npz").done();
        let out = arrays::read(folder.at("out.npz")).expect("results");
        let spec: EncodingSpec = words.parse().expect("words");
        let encoding: Encoding = spec.encoding(2, 3, sides.len()).expect("a code");
        let sides: Vec<u32> = sides.iter().map(|side| *side as u32).collect();
        let positions = Positions::grid(&sides).expect("positions");
        let codes = encoding.draw(&spec.noise(), &positions, spec.realizations).expect("a draw");
        for (name, side, step) in [("q_coded", Side::Query, 0.7), ("k_coded", Side::Key, 1.3)] {
            let x = doubles(&wave(&shape, step));
            let expected = apply(&codes, side, &x, 2, positions.tokens() as u32).expect("coded");
            assert_eq!(out[name].shape.last(), Some(&(spec.realizations as usize)));
            assert_eq!(out[name].shape[..out[name].shape.len() - 1], shape[..shape.len() - 1]);
            same(&doubles(&out[name]), &expected, 2e-6);
        }
    }
    let list = folder.run(&["eval", "--list"]).done().stdout;
    for kind in ["spe-sine", "spe-conv"] {
        assert!(list.lines().any(|line| line.split_whitespace().next() == Some(kind)), "{kind}");
        let text = folder.run(&["eval", "--describe", kind]).done().stdout;
        for part in ["q_coded", "k_coded", "realizations=256", "seed=0", "Liutkus", "[b, h, n, d]"] {
            assert!(text.contains(part), "no {part}: {text}");
        }
    }
    file("in.npz", &[("q", wave(&[1, 1, 4, 3], 0.7)), ("k", wave(&[1, 1, 4, 3], 1.3))]);
    file("shapes.npz", &[("q", wave(&[1, 1, 4, 3], 0.7)), ("k", wave(&[1, 1, 5, 3], 1.3))]);
    file("flat.npz", &[("q", wave(&[4, 3], 0.7)), ("k", wave(&[4, 3], 1.3))]);
    file("plane.npz", &[("q", wave(&[1, 1, 2, 2, 3], 0.7)), ("k", wave(&[1, 1, 2, 2, 3], 1.3))]);
    let waves = ["freqs", "offsets", "gains"].map(|name| (name, wave(&[1, 3, 2], 0.4)));
    file("waves.npz", &[&waves[..], &[("b.gate", wave(&[1, 3], 0.4))]].concat());
    let told = eval("spe-sine:file=waves.npz,realizations=4", "in.npz").done().stderr;
    assert!(told.contains("waves.npz: without its gate") && told.contains("gate-prefix=b."), "{told}");
    let told = eval("spe-sine:file=waves.npz,realizations=4,gate-prefix=b.", "in.npz").done().stderr;
    assert!(!told.contains("gate"), "{told}");
    file("one.npz", &[("q", wave(&[1, 1, 4, 3], 0.7))]);
    file("more.npz", &[("q", wave(&[1, 1, 4, 3], 0.7)), ("v", wave(&[1, 1, 4, 3], 1.3))]);
    let nan = Array { shape: vec![1, 1, 1, 1], data: ArrayData::F32(vec![f32::NAN]) };
    file("nan.npz", &[("q", nan.clone()), ("k", nan)]);
    let before = fs::read(folder.at("out.npz")).expect("a result");
    for (words, inputs, parts) in [
        ("spe-sine:sinusoids=0", "in.npz", &["sinusoids K"][..]),
        ("spe-sines", "in.npz", &["spe-sines", "did you mean spe-sine?"]),
        ("spe-conv:taps=2x2", "in.npz", &["axes", "taps=16"]),
        ("spe-sine:file=waves.npz,init=7", "in.npz", &["init=7", "leave it out"]),
        ("spe-sine:file=waves.npz", "plane.npz", &["sinusoids in files stand on one axis"]),
        ("spe-conv:file=waves.npz", "in.npz", &["spe-sine", "write spe-sine:file=…"]),
        ("spe-sine:file=waves.npz,gate-prefix=", "in.npz", &["`gate`", "gate-prefix=b."]),
        ("spe-sine", "shapes.npz", &["[1, 1, 4, 3]", "[1, 1, 5, 3]"]),
        ("spe-sine", "flat.npz", &["[b, h, n, d]", "[4, 3]"]),
        ("spe-sine", "one.npz", &["`k`"]),
        ("spe-sine", "more.npz", &["`v`"]),
        ("spe-sine", "nan.npz", &["finite"]),
        ("spe-sine", "none.npz", &["none.npz"]),
    ] {
        eval(words, inputs).refused(parts);
    }
    folder
        .run(&["eval", "spe-sine", "--inputs", "in.npz", "--out", "out.npz", "--param", "k=3"])
        .refused(&["--param", "spe-sine"]);
    folder.run(&["eval", "spe-sine"]).refused(&["--inputs", "--out"]);
    assert_eq!(fs::read(folder.at("out.npz")).expect("a result"), before, "the old result stays");
}
