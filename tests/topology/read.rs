//! Files of networks: what they give, and that errors name the line, the column and a remedy.

use wgattn::topology::Network;
use wgattn::topology::read::{Numbering, Options, Separator, edge_list, graphml, matrix_market, obj, read};

fn message<T: std::fmt::Debug>(result: wgattn::Result<T>) -> String {
    result.expect_err("this must be refused").to_string()
}

fn says(text: &str, parts: &[&str]) {
    assert!(parts.iter().all(|p| text.contains(p)), "{text}\nlacks one of {parts:?}");
}

const ONE: Options = Options { directed: false, numbering: Numbering::One, nodes: None };
const NAMES: Options = Options { directed: true, numbering: Numbering::Names, nodes: None };

#[test]
fn edge_lists_in_three_dresses_are_one_network() {
    let expected = Network::undirected_weighted(4, &[(0, 1, 1.0), (1, 2, 0.5), (3, 3, 2.0)]).expect("sound");
    let texts = [
        (Separator::Space, "# a comment\n% another\n 1   2\n2\t3 0.5\r\n\n4 4 2 2019 more\n"),
        (Separator::Comma, "source,target,weight\n1,2\n# a comment\n\"2\", 3 ,0.5\n4,4,2"),
        (Separator::Tab, "1\t2\n2\t3\t0.5\n4\t4\t2\n"),
    ];
    for (separator, text) in texts {
        let loaded = edge_list(text, "f", separator, &ONE).expect("sound");
        assert_eq!(loaded.network, expected, "{separator:?}");
        assert_eq!((loaded.names.len(), loaded.dimensions), (0, 0));
    }
    let loaded =
        edge_list("from,to\nAda,Bob\nBob,\"Eve, the 2nd\"\n", "f", Separator::Comma, &NAMES).expect("sound");
    assert_eq!(loaded.names, ["Ada", "Bob", "Eve, the 2nd"]);
    assert_eq!(loaded.network, Network::directed(3, &[(0, 1), (1, 2)]).expect("sound"));
    let more = Options { nodes: Some(9), ..ONE };
    assert_eq!(edge_list("1 2", "f", Separator::Space, &more).expect("sound").network.nodes(), 9);
    assert_eq!(edge_list("", "f", Separator::Space, &ONE).expect("empty").network.nodes(), 0);
    assert_eq!(edge_list("", "f", Separator::Comma, &NAMES).expect("empty").network.nodes(), 0);
}

#[test]
fn wrong_edge_lists_name_the_place() {
    let space = |text: &str, options: &Options| message(edge_list(text, "a.txt", Separator::Space, options));
    says(&space("1 2\n3\n", &ONE), &["a.txt, line 2, column 2", "two nodes", "end of the line"]);
    says(&space("1 2\n  3 x\n", &ONE), &["line 2, column 5", "`x`", "whole number"]);
    says(&space("0 1\n", &ONE), &["line 1, column 1", "`0`", "numbered from 0"]);
    says(&space("1 2 -3\n", &ONE), &["line 1, column 5", "`-3`", "at least 0"]);
    says(&space("1 2 nan\n", &ONE), &["line 1, column 5", "`nan`"]);
    says(&space("1 2 1e39\n", &ONE), &["line 1, column 5", "scale"]);
    says(&space("1 2 1e-40\n", &ONE), &["line 1, column 5", "scale"]);
    says(&space("1 4000000000\n", &ONE), &["line 1, column 3", "declare how many nodes"]);
    says(&space("1 99999999999999999999999\n", &ONE), &["line 1, column 3", "whole number"]);
    let four = Options { nodes: Some(4), ..Options::default() };
    says(&space("0 3\n2 4\n", &four), &["line 2, column 3", "0 to 3", "numbered from 1"]);
    says(&space("0 -1\n", &four), &["column 3", "`-1`"]);
    let comma = message(edge_list("a,b\n1,2\n2,\n", "b.csv", Separator::Comma, &ONE));
    says(&comma, &["b.csv, line 3, column 3", "two nodes"]);
    says(&message(edge_list("1\t2\n1\tq\n", "c", Separator::Tab, &ONE)), &["line 2, column 3", "`q`"]);
}

#[test]
fn matrix_market_files_are_read() {
    let text =
        "%%MatrixMarket matrix coordinate real symmetric\n% made by hand\n\n3 3 3\n2 1 0.5\n3 2 2\n3 3 1e0\n";
    let expected = Network::undirected_weighted(3, &[(1, 0, 0.5), (2, 1, 2.0), (2, 2, 1.0)]).expect("sound");
    assert_eq!(matrix_market(text, "m").expect("sound").network, expected);
    let text = "%%MatrixMarket MATRIX coordinate pattern general\n3 3 2\n1 2\n3 1\n";
    let expected = Network::directed(3, &[(0, 1), (2, 0)]).expect("sound");
    assert_eq!(matrix_market(text, "m").expect("sound").network, expected);
    let text = "%%MatrixMarket matrix coordinate integer general\n1 1 0\n";
    assert_eq!(matrix_market(text, "m").expect("sound").network.nodes(), 1);
}

#[test]
fn wrong_matrix_market_files_name_the_place() {
    let of = |text: &str| message(matrix_market(text, "m.mtx"));
    let head = "%%MatrixMarket matrix coordinate real general\n";
    says(&of(""), &["m.mtx, line 1, column 1", "%%matrixmarket"]);
    says(&of("%%MatrixMarket matrix array real general\n"), &["line 1, column 23", "coordinate", "`array`"]);
    says(&of("%%MatrixMarket matrix coordinate complex general\n"), &["column 34", "pattern"]);
    says(&of("%%MatrixMarket matrix coordinate real hermitian\n"), &["column 39", "symmetric"]);
    says(&of(head), &["line 1", "end of the file", "cut short"]);
    says(&of(&format!("{head}3 3\n")), &["line 2, column 4", "number of entries", "nothing"]);
    says(&of(&format!("{head}3 4 1\n")), &["line 2", "3 × 4", "square"]);
    says(&of(&format!("{head}3 3 2\n1 2 1\n")), &["line 3", "2 entries, 1 of which"]);
    says(&of(&format!("{head}3 3 1\n1 2 1\n2 3 1\n")), &["line 4", "number of entries"]);
    says(&of(&format!("{head}3 3 1\n1 4 1\n")), &["line 3, column 3", "1 to 3", "got 4"]);
    says(&of(&format!("{head}3 3 1\n0 1 1\n")), &["line 3, column 1", "counted from 1"]);
    says(&of(&format!("{head}3 3 1\n1 2\n")), &["line 3, column 4", "a value"]);
    says(&of(&format!("{head}3 3 1\n1 2 -1\n")), &["line 3, column 5", "at least 0"]);
    says(&of(&format!("{head}9999999999999 9999999999999 1\n1 2 1\n")), &["line 2, column 1"]);
    // An announced number of entries is not believed before they are there.
    says(&of(&format!("{head}3 3 4000000000\n1 2 1\n")), &["1 of which are here"]);
}

const GRAPHML: &str = r#"<?xml version="1.0" encoding="UTF-8"?>
<graphml xmlns="http://graphml.graphdrawing.org/xmlns">
  <key id="d0" for="edge" attr.name="weight" attr.type="double"/>
  <key id="d1" for="node" attr.name="x" attr.type="double"/>
  <key id="d2" for="node" attr.name="y" attr.type="double"/>
  <key id="d3" for="node" attr.name="label" attr.type="string"/>
  <graph id="G" edgedefault="undirected">
    <node id="a"><data key="d1">1.5</data><data key="d2">-2</data><data key="d3">Ada</data></node>
    <node id="b"/>
    <node id="c"><data key="d1">3</data><data key="d2">4</data></node>
    <edge source="a" target="b"><data key="d0">0.5</data></edge>
    <edge source="c" target="b"/>
  </graph>
</graphml>
"#;

#[test]
fn graphml_files_give_names_places_and_weights() {
    let loaded = graphml(GRAPHML, "g").expect("sound");
    assert_eq!(loaded.network, Network::undirected_weighted(3, &[(0, 1, 0.5), (2, 1, 1.0)]).expect("sound"));
    assert_eq!(loaded.names, ["Ada", "b", "c"]);
    assert_eq!(
        (loaded.dimensions, loaded.places[0], loaded.places[2]),
        (2, [1.5, -2.0, 0.0], [3.0, 4.0, 0.0])
    );
    let directed = graphml(&GRAPHML.replace("\"undirected\"", "\"directed\""), "g").expect("sound").network;
    assert_eq!((directed.between(0, 1), directed.between(1, 0)), (0.5, 0.0));
    let mixed = GRAPHML
        .replace("<edge source=\"c\" target=\"b\"/>", "<edge directed=\"true\" source=\"c\" target=\"b\"/>");
    let mixed = graphml(&mixed, "g").expect("sound").network;
    assert_eq!([mixed.between(1, 0), mixed.between(2, 1), mixed.between(1, 2)], [0.5, 1.0, 0.0]);
}

#[test]
fn wrong_graphml_files_name_the_place() {
    let of = |from: &str, to: &str| message(graphml(&GRAPHML.replace(from, to), "g.graphml"));
    says(&of("target=\"b\"/>", "target=\"z\"/>"), &["g.graphml, line 12, column 30", "`z`", "target"]);
    says(&of("0.5", "-0.5"), &["line 11, column 48", "`-0.5`", "at least 0"]);
    says(&of("1.5", "east"), &["line 8, column 33", "`east`", "coordinate"]);
    says(&of("<node id=\"b\"/>", "<node id=\"a\"/>"), &["line 9, column 5", "`a`"]);
    says(&of("<node id=\"b\"/>", "<node/>"), &["line 9, column 5", "id"]);
    says(&of("<node id=\"b\"/>", "<hyperedge/>"), &["line"]);
    says(&message(graphml("<svg/>", "g")), &["line 1, column 1", "<graphml>", "<svg>"]);
    for cut in [0, 10, 100, GRAPHML.len() / 2, GRAPHML.len() - 5] {
        says(&message(graphml(&GRAPHML[..cut], "g")), &["line", "column", "repair"]);
    }
    let bomb = "<!DOCTYPE g [<!ENTITY a \"aaaa\"><!ENTITY b \"&a;&a;\">]><graphml>&b;</graphml>";
    says(&message(graphml(bomb, "g")), &["line", "column"]);
}

#[test]
fn meshes_share_their_sides() {
    let text = "# a square of two triangles and a tail\nv 0 0 0\nv 1 0 0\nv 1 1 0\nv 0 1 0 # corner\nvn 0 0 1\nf 1/1/1 2//1 3\nf -4 -2 -1\nl 1 2 5\nv 2 2 2\n";
    let loaded = obj(text, "o").expect("sound");
    let expected = Network::undirected(5, &[(0, 1), (1, 2), (0, 2), (2, 3), (0, 3), (1, 4)]).expect("sound");
    assert_eq!(loaded.network, expected);
    assert_eq!((loaded.dimensions, loaded.places[4]), (3, [2.0; 3]));
    assert_eq!(obj("", "o").expect("empty").network.nodes(), 0);
}

#[test]
fn wrong_meshes_name_the_place() {
    let of = |text: &str| message(obj(text, "o.obj"));
    let v = "v 0 0 0\nv 1 0 0\nv 0 1 0\n";
    says(&of("v 0 0\n"), &["o.obj, line 1, column 6", "coordinate", "nothing"]);
    says(&of("v 0 0 nan\n"), &["line 1, column 7", "`nan`"]);
    says(&of(&format!("{v}f 1 2 4\n")), &["line 4, column 7", "1 to 3", "got 4"]);
    says(&of(&format!("{v}f 1 2 0\n")), &["line 4, column 7", "counted from 1"]);
    says(&of(&format!("{v}f 1 2 -4\n")), &["line 4, column 7"]);
    says(&of(&format!("{v}f 1 2\n")), &["line 4", "at least 3"]);
    says(&of(&format!("{v}f 1 x/2 3\n")), &["line 4, column 5", "`x`"]);
}

#[test]
fn files_are_told_apart_by_their_suffix() {
    let folder = std::env::temp_dir().join(format!("topology-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a folder");
    let write = |name: &str, bytes: &[u8]| {
        let path = folder.join(name);
        std::fs::write(&path, bytes).expect("written");
        path
    };
    let edges = |name: &str, text: &str| {
        read(&write(name, text.as_bytes()), &Options::default()).expect(name).network.entries()
    };
    assert_eq!(edges("a.csv", "0,1\n"), 2);
    assert_eq!(edges("a.tsv", "0\t1\n"), 2);
    assert_eq!(edges("a.edges", "\u{feff}0 1\n"), 2);
    assert_eq!(edges("a.MTX", "%%MatrixMarket matrix coordinate pattern symmetric\n2 2 1\n2 1\n"), 2);
    assert_eq!(edges("a.graphml", GRAPHML), 4);
    assert_eq!(edges("a.obj", "v 0 0 0\nv 0 0 1\nl 1 2\n"), 2);
    says(&message(read(&write("a.gml", b""), &Options::default())), &["a.gml", "mtx", "gml"]);
    says(&message(read(&folder.join("none.csv"), &Options::default())), &["none.csv", "check the name"]);
    says(
        &message(read(&write("b.txt", b"0 1\n2 \xff3\n"), &Options::default())),
        &["b.txt, line 2, column 3", "UTF-8"],
    );
    std::fs::remove_dir_all(&folder).expect("removed");
}
