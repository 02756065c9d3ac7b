//! Masks on graphs: `wgattn map --mask … --graph …`, and `wgattn mask` with the same words.

use super::*;

/// Zachary's karate club, 34 nodes.
const KARATE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/assets/graphs/karate.csv");

/// Streets, 350 pieces of about 20 m.
const STREETS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/assets/graphs/bautzen.graphml");

/// The numbers of an array file.
fn numbers(folder: &Folder, file: &str) -> Vec<f32> {
    match &arrays::read(folder.at(file)).expect("an array")[arrays::NPY_NAME].data {
        ArrayData::F32(x) => x.clone(),
        other => panic!("{}", other.dtype()),
    }
}

#[test]
fn a_map_takes_masks_on_graphs() {
    let folder = Folder::new("map-graph");
    let cat = folder.picture("cat.png", 64, 48);
    // What is said, edges of 12 × 16 tokens, or of their spanning tree.
    let (sides, corners) = (11 * 16 + 12 * 15, 11 * 16 + 12 * 15 + 2 * 11 * 15);
    let cases = [
        ("diffusion:t=3,rtol=1e-3", "image", "image:sensitivity=8,reach=8", corners),
        ("diffusion:t=3", "grid4", "grid4", sides),
        ("walk:nodes=3,lambda=0.5,normalise=cosine", "grid8", "grid8", corners),
        ("tree:rate=0.2", "image:reach=4", "image:sensitivity=8,reach=4", 12 * 16 - 1),
        ("spd:profile=window,size=2", "torus4", "torus4", 2 * 12 * 16),
        ("pagerank:restart=0.15", "grid4", "grid4", sides),
        ("steps:p=3", "grid4", "grid4", sides),
        ("communicability:t=0.5", "grid8", "grid8", corners),
    ];
    for (mask, graph, written, edges) in cases {
        let more = ["--mask", mask, "--graph", graph, "--at", "32,24", "--json"];
        let report = folder.map(&[&[cat.as_str()], &more[..]].concat()).done().json();
        let on = &report["mask_on_graph"];
        assert_eq!((&report["mask"], &report["kernel"]), (&mask.into(), &"elu".into()));
        let got = (&on["graph"], &on["edges"]);
        assert_eq!(got, (&written.into(), &edges.into()), "{mask}: {on}");
        assert!(on["passes"].as_u64().expect("passes") > 0, "{mask}: {on}");
        let series = mask.starts_with("diffusion:t=3,") || mask.starts_with("communicability");
        assert!(!series || on["terms"].as_u64().is_some_and(|terms| terms > 1), "{mask}: {on}");
        assert!(!series || on["bound"].as_f64().is_some_and(|bound| bound < 1e-3), "{mask}: {on}");
        assert_eq!(on["stands_on"].is_string(), mask.starts_with("tree"), "{mask}: {on}");
    }
    let text = folder.map(&[&cat, "--at", "32,24", "--mask", "diffusion:t=3"]).done().stdout;
    for words in ["diffusion:t=3 on image:sensitivity=8,reach=8", "terms", "left out", " ms"] {
        assert!(text.contains(words), "{words}: {text}");
    }
    // A picture of as many tokens as there are pieces of street, in their order.
    let plan = folder.picture("plan.png", 100, 56);
    let more = ["--mask", "diffusion:t=20", "--graph", STREETS, "--at", "50,28", "--json"];
    let report = folder.map(&[&[plan.as_str()], &more[..]].concat()).done().json();
    let on = &report["mask_on_graph"];
    assert_eq!((&on["edges"], &on["graph"]), (&359.into(), &STREETS.into()), "{report}");
    let refused: [(&[&str], &[&str]); 9] = [
        (&["--mask", "diffusion:t=1", "--graph", KARATE], &["karate.csv", "12 × 16 = 192", "got 34"]),
        (&["--mask", "diffusion:t=-1"], &["at least 0", "-1"]),
        (&["--mask", "diffusion:t=1,speed=2"], &["speed=2", "laplacian=…"]),
        (&["--mask", "diffusion:t=1", "--graph", "grid6"], &["grid6", "torus8"]),
        (&["--mask", "diffusion:t=1", "--graph", "gone.mtx"], &["gone.mtx"]),
        (&["--mask", "tree:rate=1", "--graph", "image:cut=0.5"], &["`cut`", "under a tree"]),
        (&["--mask", "walk:seed=3"], &["walks=…"]),
        (&["--mask", "causal", "--graph", "grid4"], &["--graph grid4", "causal"]),
        (&["--graph", "grid4"], &["--graph grid4", "diffusion:t=100"]),
    ];
    for (arguments, parts) in refused {
        folder.map(&[&[cat.as_str(), "--at", "32,24"], arguments].concat()).refused(parts);
    }
}

#[test]
fn a_mask_on_a_graph_is_painted_and_told() {
    let folder = Folder::new("mask-graph");
    let cat = folder.picture("cat.png", 64, 48);
    let mask =
        |words: &[&str], more: &[&str]| folder.run(&[&["mask"], words, &["--device", "cpu"], more].concat());
    let image = ["diffusion:t=3,rtol=1e-3", cat.as_str(), "--at", "32,24", "--graph", "image"];
    let report = mask(&image, &["--json", "--raw", "row.npy"]).done().json();
    let on = &report["mask_on_graph"];
    assert_eq!((&report["tokens"], &report["queries"]), (&192.into(), &[6 * 16 + 8][..].into()), "{report}");
    assert_eq!((&report["attention"], &report["keys_in_support"]), (&().into(), &().into()), "{report}");
    assert!(
        report["device"]["name"].is_string() && on["bound"].as_f64().expect("a bound") < 1e-3,
        "{report}"
    );
    // Heat is neither made nor lost, and is greatest where it began.
    let row = numbers(&folder, "row.npy");
    let most = row.iter().copied().fold(0.0, f32::max);
    assert!((row.iter().sum::<f32>() - 1.0).abs() < 1e-2 && row[6 * 16 + 8] == most, "{row:?}");
    assert!(image::open(folder.at("mask.png")).expect("a picture").height().is_multiple_of(48));
    let text = mask(&image, &[]).done().stdout;
    for words in ["of 192 keys", "graph        image:sensitivity=8", "terms", "left out", " ms", "device   "]
    {
        assert!(text.contains(words), "{words}: {text}");
    }
    // Each pixel a token.
    let report = mask(
        &["spd:profile=window,size=2", &cat, "--at", "32,24", "--graph", "grid4"],
        &["--stride", "1", "--max-tokens", "4000", "--json"],
    );
    let report = report.done().json();
    assert_eq!((&report["tokens"], &report["keys_seen"][0]), (&(64 * 48).into(), &13.into()), "{report}");
    // A bare grid whose tokens are the nodes of a file: the neighbours of node 0, all its friends.
    let karate = ["steps:p=1", "--grid", "2x17", "--at", "0,0", "--graph", KARATE];
    let report = mask(&karate, &["--raw", "row.npy", "--matrix", "all.npy", "--json"]).done().json();
    assert_eq!((&report["keys_seen"][0], &report["mask_on_graph"]["edges"]), (&16.into(), &78.into()));
    let (row, all) = (numbers(&folder, "row.npy"), numbers(&folder, "all.npy"));
    assert_eq!((all.len(), &all[..34]), (34 * 34, &row[..]));
    assert!(all.chunks(34).all(|row| (row.iter().sum::<f32>() - 1.0).abs() < 1e-5), "walkers stay walkers");
    // Heat along streets: none is lost, and each gets from the other what it gives.
    let streets = ["diffusion:t=20", "--grid", "14x25", "--at", "0,0", "--graph", STREETS];
    let report = mask(&streets, &["--raw", "row.npy", "--matrix", "all.npy", "--json"]).done().json();
    assert_eq!((&report["tokens"], &report["mask_on_graph"]["edges"]), (&350.into(), &359.into()));
    let all = numbers(&folder, "all.npy");
    assert_eq!((all.len(), &all[..350]), (350 * 350, &numbers(&folder, "row.npy")[..]));
    assert!(all.chunks(350).all(|row| (row.iter().sum::<f32>() - 1.0).abs() < 1e-3));
    let odd = (0..all.len()).map(|at| (all[at] - all[at % 350 * 350 + at / 350]).abs()).fold(0.0, f32::max);
    assert!(odd < 1e-5, "{odd}");
    // Edge lists with names, where nodes are numbered as they appear, and those of one way.
    fs::write(folder.at("names.csv"), "ann,bob\nbob,cat\n").expect("a file");
    for (words, sees) in [("names.csv:numbering=names", 2), ("names.csv:numbering=names,directed,nodes=4", 1)]
    {
        let grid = if words.ends_with('4') { "1x4" } else { "1x3" };
        let report =
            mask(&["steps:p=1", "--grid", grid, "--at", "1,0", "--graph", words], &["--json"]).done().json();
        assert_eq!(
            (&report["keys_seen"][0], &report["mask_on_graph"]["graph"]),
            (&sees.into(), &words.into())
        );
    }
    mask(&["steps:p=1", "--grid", "1x3", "--at", "1,0", "--graph", "names.csv"], &[])
        .refused(&["names.csv", "numbering=names"]);
    mask(&["steps:p=1", "--grid", "1x3", "--at", "1,0", "--graph", "names.csv:numbering=2"], &[])
        .refused(&["zero, one, names"]);
    let refused: [(&[&str], &[&str]); 7] = [
        (&["diffusion:t=1", "--grid", "3x4", "--graph", "image"], &["graph `image`", "a picture", "grid8"]),
        (&["diffusion:t=1", "--grid", "3x4"], &["graph `image`", "a picture"]),
        (&["diffusion:t=-1", "--grid", "3x4", "--graph", "grid4"], &["at least 0", "-1"]),
        (&["diffusion:t=1,speed=2", "--grid", "3x4", "--graph", "grid4"], &["speed=2", "rtol=…"]),
        (&["diffusion:t=1", "--grid", "3x4", "--graph", KARATE], &["karate.csv", "3 × 4 = 12", "got 34"]),
        (&["tree:rate=1", &cat, "--graph", "image:cut=0.5"], &["`cut`", "under a tree"]),
        (&["causal", "--grid", "3x4", "--graph", "grid4"], &["--graph grid4", "causal"]),
    ];
    for (arguments, parts) in refused {
        mask(arguments, &["--at", "0,0"]).refused(parts);
    }
}

#[test]
fn weights_of_rows_below_0_are_refused() {
    let folder = Folder::new("weigh-rows");
    let ones = |shape: &[usize], values: &[f32]| Array {
        shape: shape.to_vec(),
        data: ArrayData::F32(values.to_vec()),
    };
    let rows = Array { shape: vec![1], data: ArrayData::U32(vec![0]) };
    for (name, weight) in [("good.npz", 0.5), ("bad.npz", -0.5)] {
        let entries = [
            ("products", ones(&[1, 1, 2, 1], &[1.0, 1.0])),
            ("given", ones(&[1, 1, 2, 1], &[1.0, weight])),
            ("rows", rows.clone()),
        ];
        let map: BTreeMap<String, Array> = entries.into_iter().map(|(n, a)| (n.to_string(), a)).collect();
        arrays::write(folder.at(name), &map).expect("arrays are written");
    }
    let eval = |inputs: &str, more: &[&str]| {
        let base = ["eval", "weigh_rows", "--inputs", inputs, "--device", "cpu", "--out", "out.npz"];
        folder.run(&[&base[..], more].concat())
    };
    eval("good.npz", &[]).done();
    eval("bad.npz", &[]).refused(&[
        "weigh_rows",
        "element 1 of port `given`",
        "at least 0",
        "-0.5",
        "--unchecked",
    ]);
    eval("bad.npz", &["--unchecked"]).done();
}
