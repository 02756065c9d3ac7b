//! Figures of networks in files: `wgattn graph`.

use super::*;

#[test]
fn figures_of_the_graphs_that_come_along() {
    let folder = Folder::new("graph");
    let asset = |name: &str| {
        Path::new(env!("CARGO_MANIFEST_DIR")).join("assets/graphs").join(name).display().to_string()
    };
    let told = |name: &str, more: &[&str]| {
        folder.run(&[&["graph", &asset(name), "--json"], more].concat()).done().json()
    };
    for (name, more, nodes, edges, degree) in [
        ("karate.csv", &[][..], 34, 78, (1, 17)),
        ("icosphere.obj", &[], 162, 480, (5, 6)),
        ("koenigsberg.csv", &["--numbering", "names"], 4, 5, (2, 3)),
        ("bautzen.graphml", &[], 350, 359, (1, 4)),
    ] {
        let report = told(name, more);
        assert_eq!((&report["nodes"], &report["edges"]), (&nodes.into(), &edges.into()), "{report}");
        let found = (&report["degree"]["least"], &report["degree"]["greatest"]);
        assert_eq!(found, (&degree.0.into(), &degree.1.into()), "{report}");
        assert_eq!(report["directed"], false);
    }
    let bridges = told("koenigsberg.csv", &["--numbering", "names"]);
    assert_eq!(bridges["weights"]["greatest"], 2.0);
    let streets = told("bautzen.graphml", &[]);
    let found = ["components", "largest_component", "isolated"].map(|name| streets[name].as_u64());
    assert_eq!(found, [Some(1), Some(350), Some(0)], "{streets}");
    for (report, diameter) in [(bridges, 2), (told("karate.csv", &[]), 5), (streets, 95)] {
        let both = serde_json::json!({ "at_least": diameter, "at_most": diameter });
        assert_eq!(report["diameter"], both, "small graphs are searched from every node: {report}");
    }
    folder.run(&["graph", "none.csv"]).refused(&["none.csv"]);
    fs::write(folder.at("empty.csv"), "from,to\n").expect("a file");
    folder.run(&["graph", "empty.csv"]).refused(&["empty.csv", "--nodes"]);
    fs::write(folder.at("bad.csv"), "0,1\n1,x\n").expect("a file");
    folder.run(&["graph", "bad.csv"]).refused(&["bad.csv", "line 2", "column 3"]);
}

#[test]
fn a_row_of_a_mask_colours_the_nodes() {
    let folder = Folder::new("graph-picture");
    let asset = |name: &str| {
        Path::new(env!("CARGO_MANIFEST_DIR")).join("assets/graphs").join(name).display().to_string()
    };
    let draw = |more: &[&str]| {
        let report = folder.run(&[&["graph"], more, &["--device", "cpu", "--json"]].concat()).done().json();
        let file = report["out"].as_str().expect("a picture").to_string();
        (report, image::open(folder.at(&file)).expect("a picture").to_rgb8())
    };
    let karate = asset("karate.csv");
    let (plain, bare) = draw(&[&karate, "--out", "bare.png", "--size", "300"]);
    assert_eq!((plain["mask"].is_null(), bare.dimensions()), (true, (300, 300)));
    let colours = |picture: &image::RgbImage| {
        picture
            .pixels()
            .filter(|p| p.0.iter().max().zip(p.0.iter().min()).is_some_and(|(a, b)| a - b > 40))
            .count()
    };
    assert!(colours(&bare) > 500, "the nodes are seen");
    let mask = ["--mask", "diffusion:t=1", "--node", "0", "--size", "300"];
    let (report, shown) = draw(&[&[karate.as_str(), "--out", "row.png"], &mask[..]].concat());
    assert_eq!((&report["node"], &report["mask"]), (&0.into(), &"diffusion:t=1".into()));
    assert!(report["mask_on_graph"]["terms"].as_u64().is_some_and(|terms| terms > 5), "{report}");
    assert!(shown.width() > 300 && shown.height() == 300, "a bar stands beside it");
    let (_, other) =
        draw(&[&karate, "--out", "other.png", "--mask", "diffusion:t=1", "--node", "33", "--size", "300"]);
    assert_ne!(shown, other, "another node, another row");
    // The same network always looks the same.
    let (_, again) = draw(&[&[karate.as_str(), "--out", "again.png"], &mask[..]].concat());
    assert_eq!(shown, again);
    // Names, places in space, and arrows of one way.
    let bridges = asset("koenigsberg.csv");
    let by_name = ["--numbering", "names", "--mask", "steps:p=2", "--out", "names.png"];
    let (report, _) = draw(&[&[bridges.as_str()], &by_name[..], &["--node", "Kneiphof"]].concat());
    assert_eq!(report["node"], 0);
    let unknown = [&["graph", &bridges], &by_name[..], &["--node", "Kneip"]].concat();
    folder.run(&unknown).refused(&["--node Kneip", "a name such as \"Kneiphof\""]);
    // Streets have places of their own; many nodes follow each other, so that dots must be small for lines to be seen between them.
    let streets = asset("bautzen.graphml");
    let shown = [
        "--mask",
        "spd:profile=gauss,size=15",
        "--node",
        "An der Hummel",
        "--out",
        "streets.png",
        "--size",
        "720",
    ];
    let (report, picture) = draw(&[&[streets.as_str()], &shown[..]].concat());
    assert_eq!((&report["node"], &report["mask_on_graph"]["edges"]), (&198.into(), &359.into()), "{report}");
    // 33 thousand pixels; dots as large as on a paper that nodes fill evenly would cover 52 thousand.
    let inked = picture.enumerate_pixels().filter(|(x, _, p)| *x < 720 && p.0 != [255; 3]).count();
    assert!((25_000..42_000).contains(&inked), "{inked} pixels are not paper");
    // Letters beyond ASCII are drawn; what no font has is told, once.
    fs::write(folder.at("places.csv"), "Königsberg,Łódź\nŁódź,東京\n東京,京都\n").expect("a file");
    let run = folder.run(&["graph", "places.csv", "--numbering", "names", "--out", "places.png"]).done();
    assert!(run.stderr.contains("letters that the fonts lack, drawn as ?: 京 東 都"), "{}", run.all());
    assert_eq!(run.stderr.lines().count(), 1, "{}", run.all());
    draw(&[&asset("icosphere.obj"), "--out", "solid.png", "--mask", "tree:rate=0.3", "--node", "7"]);
    fs::write(folder.at("one-way.csv"), "0,1\n1,2\n2,0\n").expect("a file");
    draw(&["one-way.csv", "--directed", "--out", "one-way.png", "--mask", "steps:p=1", "--node", "0"]);
    fs::write(folder.at("lone.csv"), "0,0\n").expect("a file");
    draw(&["lone.csv", "--out", "lone.png", "--mask", "diffusion:t=3", "--node", "0"]);

    let refused =
        |more: &[&str], words: &[&str]| folder.run(&[&["graph", &karate], more].concat()).refused(words);
    refused(&["--out", "x.png", "--mask", "steps:p=2", "--node", "34"], &["--node 34", "0 to 33"]);
    refused(&["--out", "x.png", "--mask", "steps:p=2", "--node", "-1"], &["--node"]);
    refused(&["--out", "x.txt"], &["x.txt", ".png"]);
    // What edge lists do not say themselves has no meaning for other files.
    let mesh = asset("icosphere.obj");
    for (option, named) in [
        (&["--numbering", "names"][..], "numbering=names"),
        (&["--directed"], "directed"),
        (&["--nodes", "9"], "nodes=9"),
        (&["--numbering", "zero"], "zero"),
    ] {
        folder.run(&[&["graph", mesh.as_str()], option].concat()).refused(&["icosphere.obj", named, "leave"]);
    }
    refused(&["--out", "none/x.png"], &["none"]);
    refused(&["--out", "x.png", "--size", "0"], &["--size 0", "8192"]);
    refused(&["--out", "x.png", "--mask", "diffusion:t=-1", "--node", "0"], &["t"]);
    fs::write(folder.at("self.csv"), "0,1\n").expect("a file");
    folder.run(&["graph", "self.csv", "--out", "self.csv"]).refused(&["self.csv"]);
    assert!(!Path::new(&folder.at("x.png")).exists(), "nothing is left behind");
}
