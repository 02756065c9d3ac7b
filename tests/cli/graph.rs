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
    ] {
        let report = told(name, more);
        assert_eq!((&report["nodes"], &report["edges"]), (&nodes.into(), &edges.into()), "{report}");
        let found = (&report["degree"]["least"], &report["degree"]["greatest"]);
        assert_eq!(found, (&degree.0.into(), &degree.1.into()), "{report}");
        assert_eq!(report["directed"], false);
    }
    let bridges = told("koenigsberg.csv", &["--numbering", "names"]);
    assert_eq!(bridges["weights"]["greatest"], 2.0);
    for (report, diameter) in [(bridges, 2), (told("karate.csv", &[]), 5)] {
        let bound = |name: &str| report["diameter"][name].as_u64().expect("a number");
        assert!((bound("at_least")..=bound("at_most")).contains(&diameter), "{report}");
    }
    folder.run(&["graph", "none.csv"]).refused(&["none.csv"]);
    fs::write(folder.at("empty.csv"), "from,to\n").expect("a file");
    folder.run(&["graph", "empty.csv"]).refused(&["empty.csv", "--nodes"]);
    fs::write(folder.at("bad.csv"), "0,1\n1,x\n").expect("a file");
    folder.run(&["graph", "bad.csv"]).refused(&["bad.csv", "line 2", "column 3"]);
}
