//! Masks of relative positions: `wgattn mask`, and `wgattn map --mask`.

use super::*;

#[test]
fn a_mask_is_painted_over_a_picture_and_over_a_bare_grid() {
    let folder = Folder::new("mask");
    let cat = folder.picture("cat.png", 160, 120);
    let run = folder
        .run(&["mask", "toeplitz:window,size=2,distance=linf", &cat, "--at", "80,60", "--raw", "m.npy"])
        .done();
    assert!(run.stdout.contains("sees         25 of 1200 keys"), "{}", run.stdout);
    assert!(run.stdout.contains("attention    pairs"), "{}", run.stdout);
    let run = folder.run(&["mask", "decay:0.9", &cat, "--at", "80,60"]).done();
    assert!(run.stdout.contains("attention    scan"), "{}", run.stdout);
    assert!(image::open(folder.at("mask.png")).expect("a picture").height().is_multiple_of(120));
    assert_eq!(arrays::read(folder.at("m.npy")).expect("an array")[arrays::NPY_NAME].shape, [1, 30, 40]);
    folder
        .run(&[
            "mask", "causal", "--grid", "3x4", "--at", "1,1", "--raw", "r.npy", "--matrix", "all.npy",
            "--json",
        ])
        .done();
    let row: Vec<f32> = (0..12).map(|t| f32::from(u8::from(t <= 5))).collect();
    assert_eq!(numbers(&folder, "r.npy"), row);
    assert_eq!(numbers(&folder, "all.npy")[5 * 12..6 * 12], row);
    let refused: [(&[&str], &[&str]); 10] = [
        (&["mask", "toeplitz:gaus", "--grid", "3x4", "--at", "0,0"], &["gaus", "gauss"]),
        (&["mask", "causal", "--at", "0,0"], &["picture", "--grid"]),
        (&["mask", "causal", "--grid", "3x4", "--at", "4,0"], &["4,0", "below 4"]),
        (&["mask", "causal", "--grid", "0x4", "--at", "0,0"], &["ROWSxCOLS"]),
        (&["mask", "causal", &cat, "--at", "160,0"], &["160"]),
        (&["mask", "causal", &cat, "--at", "0,0", "--out", &cat], &["input itself"]),
        (&["mask", "causal", &cat, "--at", "0,0", "--stride", "0"], &["stride 0", "at least 1"]),
        (&["mask", "causal", "--grid", "3x4", "--at", "0,0", "--stride", "2"], &["--stride", "--grid"]),
        (&["mask", "pagerank:rtol=1e-12", &cat, "--at", "0,0"], &["`rtol`", "1e-7", "f32"]),
        (&["mask", "causal", "--grid", "200x200", "--at", "0,0", "--matrix", "big.npy"], &["40000", "--raw"]),
    ];
    for (arguments, parts) in refused {
        folder.run(arguments).refused(parts);
    }
}

/// The numbers of an array file.
fn numbers(folder: &Folder, file: &str) -> Vec<f32> {
    match &arrays::read(folder.at(file)).expect("an array")[arrays::NPY_NAME].data {
        ArrayData::F32(x) => x.clone(),
        other => panic!("{}", other.dtype()),
    }
}

#[test]
fn a_map_takes_kernels_of_linear_attention_and_masks() {
    let folder = Folder::new("map-mask");
    let cat = folder.picture("cat.png", 160, 120);
    let map = |more: &[&str], raw: &str| {
        folder.map(&[&[&cat, "--at", "80,60", "--json", "--raw", raw], more].concat()).done().json()
    };
    let report = map(&["--kernel", "relu"], "bare.npy");
    assert_eq!((&report["kernel"], &report["mask"]), (&"relu".into(), &"none".into()));
    assert_eq!(
        (&report["path"], &report["relative_error_note"]),
        (&"features".into(), &"the rows are exact".into())
    );
    let window = "toeplitz:window,size=2,distance=linf";
    let report = map(&["--mask", window, "--head", "0"], "masked.npy");
    assert_eq!((&report["kernel"], &report["mask"]), (&"elu".into(), &window.into()), "ELU + 1 by itself");
    let masked = numbers(&folder, "masked.npy");
    assert_eq!(masked.iter().filter(|x| **x != 0.0).count(), 25, "the window and nothing else");
    map(&["--kernel", "elu", "--head", "0"], "elu.npy");
    let (elu, inside) = (numbers(&folder, "elu.npy"), |(at, _): &(usize, &f32)| masked[*at] != 0.0);
    // Both end at 1: within the window a head's rows are the same but for a factor.
    let factor = elu.iter().enumerate().filter(inside).map(|(_, x)| *x).fold(0.0, f32::max);
    for (at, x) in elu.iter().enumerate().filter(inside) {
        assert!((masked[at] - x / factor).abs() < 1e-5, "token {at}: {} and {}", masked[at], x / factor);
    }
    let report = map(&["--kernel", "favor+:features=16,seed=3", "--mask", "causal"], "f.npy");
    assert_eq!(report["kernel"], "favor+:features=16,seed=3");
    assert!(report["relative_error"][0].as_f64().expect("an error") > 0.0, "{report}");
    let text = folder.map(&[&cat, "--at", "80,60", "--mask", "separable:size=3"]).done().stdout;
    for words in ["path       features of elu", "mask       separable:size=3"] {
        assert!(text.contains(words), "{text}");
    }
    let refused: [(&[&str], &[&str]); 8] = [
        (&["--kernel", "elus"], &["elus", "laplacian", "favor+"]),
        (&["--kernel", "favor+:features=0"], &["at least 1"]),
        (&["--mask", "toeplitz:size=-1"], &["above 0"]),
        (&["--mask", "stencil:3x3,1"], &["9 for 3x3"]),
        (&["--mask", "causal", "--lambda", "3"], &["--lambda", "elu", "laplacian"]),
        (&["--kernel", "elu", "--landmarks", "strided:7"], &["--landmarks", "elu"]),
        (&["--mask", "causal", "--normalise", "row"], &["masked rows", "--normalise"]),
        (&["--kernel", "favor+", "--path", "exact"], &["favor+", "--kernel softmax"]),
    ];
    for (arguments, parts) in refused {
        folder.map(&[&[&cat, "--at", "80,60"], arguments].concat()).refused(parts);
    }
}
