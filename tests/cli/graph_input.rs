//! Bad and extreme graphs and masks at the command line: each is refused with its place and a way out, or has a result that is told here.

use super::*;

/// Files by name, in one folder.
fn files(folder: &Folder, list: &[(&str, &str)]) {
    for (name, text) in list {
        fs::write(folder.at(name), text).expect("a file");
    }
}

fn row(folder: &Folder, mask: &str, file: &str, nodes: usize, more: &[&str]) -> Run {
    let grid = format!("1x{nodes}");
    let base = ["mask", mask, "--graph", file, "--grid", &grid, "--device", "cpu", "--raw", "row.npy"];
    folder.run(&[&base[..], more].concat())
}

/// The row of a node.
fn numbers(folder: &Folder) -> Vec<f32> {
    match &arrays::read(folder.at("row.npy")).expect("an array")[arrays::NPY_NAME].data {
        ArrayData::F32(x) => x.clone(),
        other => panic!("{}", other.dtype()),
    }
}

const MTX: &str = "%%MatrixMarket matrix coordinate real symmetric\n";

#[test]
fn graph_files_are_refused_with_line_and_column() {
    let folder = Folder::new("bad-graphs");
    let mtx = |rest: &str| format!("{MTX}{rest}");
    let ml = |inner: &str| {
        format!(
            "<graphml>\n<key id=\"w\" attr.name=\"weight\" for=\"edge\"/>\n<graph edgedefault=\"undirected\">\n{inner}</graph>\n</graphml>\n"
        )
    };
    let nodes = "<node id=\"a\"/>\n<node id=\"b\"/>\n";
    let cases: &[(&str, String, &[&str])] = &[
        ("cut.csv", "0,1\n1".into(), &["line 2", "two nodes", "give both"]),
        ("word.csv", "from,to\n0,1\n1,x\n".into(), &["line 3", "column 3", "`x`"]),
        ("below.csv", "0,1\n-1,2\n".into(), &["line 2", "column 1", "`-1`"]),
        ("huge.csv", "0,1\n1,99999999999\n".into(), &["line 2", "column 3", "99999999999"]),
        ("nan.csv", "0,1,1\n1,2,NaN\n".into(), &["line 2", "column 5", "NaN", "leave the edge out"]),
        ("inf.csv", "0,1,inf\n".into(), &["line 1", "column 5", "inf"]),
        ("minus.csv", "0,1,1\n1,2,-0.5\n".into(), &["line 2", "column 5", "-0.5", "at least 0"]),
        ("large.csv", "0,1,1e31\n".into(), &["line 1", "column 5", "1e30", "scale the weights"]),
        ("small.csv", "0,1,1e-31\n".into(), &["line 1", "column 5", "1e-30", "scale the weights"]),
        ("words.csv", "0,1,heavy\n".into(), &["line 1", "column 5", "`heavy`"]),
        ("cut.tsv", "0\t1\n2\t\n".into(), &["line 2", "two nodes"]),
        ("cut.edges", "0 1\n\n# a comment\n2\n".into(), &["line 4", "two nodes"]),
        ("head.mtx", "0 1\n".into(), &["line 1", "%%matrixmarket"]),
        ("array.mtx", "%%MatrixMarket matrix array real general\n2 2\n".into(), &["line 1", "coordinate"]),
        ("empty.mtx", String::new(), &["line 1", "%%matrixmarket"]),
        ("short.mtx", mtx("3 3 2\n1 2 1\n"), &["line 3", "2 entries, 1 of which", "cut short"]),
        ("half.mtx", mtx("3 3 1\n1 2\n"), &["line 3", "a value"]),
        ("sizes.mtx", mtx("3\n"), &["line 2", "number of columns"]),
        ("oblong.mtx", mtx("3 4 1\n1 2 1\n"), &["line 2", "3 × 4", "square"]),
        ("range.mtx", mtx("3 3 1\n1 4 1\n"), &["line 3", "column 3", "1 to 3", "got 4"]),
        ("nan.mtx", mtx("3 3 1\n1 2 nan\n"), &["line 3", "column 5", "nan"]),
        ("minus.mtx", mtx("3 3 1\n1 2 -1\n"), &["line 3", "column 5", "at least 0"]),
        ("more.mtx", mtx("3 3 1\n1 2 1\n2 3 1\n"), &["line 4", "1 entries"]),
        ("cut.graphml", ml(nodes)[..100].into(), &["line", "well-formed XML", "cut short"]),
        ("empty.graphml", String::new(), &["line 1", "well-formed XML"]),
        ("other.graphml", "<svg/>".into(), &["line 1", "<graphml>", "<svg>"]),
        (
            "range.graphml",
            ml(&format!("{nodes}<edge source=\"a\" target=\"c\"/>\n")),
            &["line 6", "a node as target", "`c`"],
        ),
        (
            "nan.graphml",
            ml(&format!("{nodes}<edge source=\"a\" target=\"b\"><data key=\"w\">NaN</data></edge>\n")),
            &["line 6", "NaN", "leave the edge out"],
        ),
        (
            "minus.graphml",
            ml(&format!("{nodes}<edge source=\"a\" target=\"b\"><data key=\"w\">-2</data></edge>\n")),
            &["line 6", "-2", "at least 0"],
        ),
        ("cut.obj", "v 0 0 0\nv 1 0\n".into(), &["line 2", "a finite coordinate"]),
        (
            "range.obj",
            "v 0 0 0\nv 1 0 0\nv 0 1 0\nf 1 2 4\n".into(),
            &["line 4", "column 7", "1 to 3", "got 4"],
        ),
        ("two.obj", "v 0 0 0\nv 1 0 0\nf 1 2\n".into(), &["line 3", "at least 3 vertices"]),
        ("nan.obj", "v 0 0 NaN\n".into(), &["line 1", "column 7", "NaN"]),
        ("graph.png", "0,1\n".into(), &["graph.png", "csv, tsv", "rename"]),
    ];
    for (name, text, parts) in cases {
        files(&folder, &[(name, text)]);
        // The same words wherever a graph is read.
        let run = folder.run(&["graph", name]).refused(parts);
        assert!(run.stderr.contains(name) && run.code == Some(1), "{}", run.all());
        let run = row(&folder, "diffusion:t=1", name, 3, &["--at", "0,0"]).refused(parts);
        assert!(run.stderr.contains(name) && run.code == Some(1), "{}", run.all());
    }
    files(&folder, &[("more.csv", "0,1\n1,5\n"), ("latin.csv", "0,1\n")]);
    folder.run(&["graph", "more.csv", "--nodes", "3"]).refused(&["line 2", "column 3", "0 to 2", "`5`"]);
    fs::write(folder.at("latin.csv"), b"0,1\n1,\xe9\n").expect("a file");
    folder.run(&["graph", "latin.csv"]).refused(&["latin.csv", "line 2, column 3", "UTF-8"]);
    folder.run(&["graph", "none.csv"]).refused(&["none.csv", "check the name"]);
}

/// What never ends is not read, by whatever name it goes.
#[cfg(unix)]
#[test]
fn devices_are_no_inputs() {
    let folder = Folder::new("devices-as-inputs");
    let link = |name: &str| std::os::unix::fs::symlink("/dev/zero", folder.at(name)).expect("a link");
    ["zero.csv", "zero.mtx", "zero.npz", "zero.png"].iter().for_each(|name| link(name));
    for name in ["zero.csv", "zero.mtx"] {
        folder.run(&["graph", name]).refused(&[name, "a device, which may never end"]);
        row(&folder, "diffusion:t=1", name, 3, &["--at", "0,0"]).refused(&[name, "a device"]);
    }
    folder
        .run(&["eval", "causal", "--inputs", "zero.npz", "--out", "y.npz", "--device", "cpu"])
        .refused(&["zero.npz", "a device"]);
    folder.map(&["zero.png", "--at", "1,1"]).refused(&["zero.png", "device"]);
}

#[test]
fn masks_refuse_graphs_that_they_cannot_stand_on() {
    let folder = Folder::new("bad-mask-graphs");
    files(
        &folder,
        &[
            ("path.csv", "0,1\n1,2\n"),
            ("nothing.csv", "from,to\n"),
            ("nothing.obj", ""),
            ("nothing.mtx", &format!("{MTX}0 0 0\n")),
            ("nothing.graphml", "<graphml><graph edgedefault=\"undirected\"/></graphml>"),
            ("one-way.mtx", "%%MatrixMarket matrix coordinate real general\n3 3 2\n1 2 1\n2 3 1\n"),
            (
                "one-way.graphml",
                "<graphml><graph edgedefault=\"directed\"><node id=\"a\"/><node id=\"b\"/><node id=\"c\"/>\
                 <edge source=\"a\" target=\"b\"/></graph></graphml>",
            ),
            ("heavy.csv", "0,1,1e30\n1,2,1\n"),
        ],
    );
    let kinds =
        ["diffusion:t=1", "walk", "pagerank", "steps:p=1", "tree:rate=1", "spd", "communicability:t=1"];
    for kind in kinds {
        for file in ["nothing.csv", "nothing.obj", "nothing.mtx", "nothing.graphml"] {
            row(&folder, kind, file, 1, &["--at", "0,0"]).refused(&[file, "1 × 1 = 1", "got 0"]);
        }
        row(&folder, kind, "path.csv", 4, &["--at", "0,0"]).refused(&[
            "path.csv",
            "1 × 4 = 4",
            "got 3",
            "--grid",
        ]);
        row(&folder, kind, "grid6", 3, &["--at", "0,0"]).refused(&["grid6", "torus8", "or a file"]);
    }
    for file in ["nothing.csv", "nothing.obj", "nothing.mtx", "nothing.graphml"] {
        folder.run(&["graph", file]).refused(&[file, "at least one node"]);
    }
    for file in ["one-way.mtx", "one-way.graphml"] {
        for kind in
            ["diffusion:t=1", "diffusion:t=1,laplacian=random-walk", "communicability:t=1", "tree:rate=1"]
        {
            row(&folder, kind, file, 3, &["--at", "0,0"]).refused(&["undirected", "0 → 1", "symmetri"]);
        }
        for kind in ["walk", "pagerank", "steps:p=1", "spd"] {
            row(&folder, kind, file, 3, &["--at", "0,0"]).done();
        }
    }
    let numbers: [(&str, &[&str]); 16] = [
        ("diffusion:t=-1", &["`t`", "at least 0", "-1"]),
        ("diffusion:t=nan", &["`t`", "finite", "nan"]),
        ("diffusion:t=inf", &["`t`", "finite", "inf"]),
        ("diffusion:t=1e300", &["of a diffusion", "e300;", "shorter time"]),
        ("communicability:t=-0.5", &["`t`", "at least 0", "-0.5"]),
        ("communicability:t=NaN", &["`t`", "finite", "NaN"]),
        ("tree:rate=-50", &["`rate`", "at least 0", "-50"]),
        ("tree:rate=nan", &["`rate`", "nan"]),
        ("tree:profile=exp,size=0", &["`size`", "above 0"]),
        ("walk:lambda=2", &["λ", "0 to 1", "2"]),
        ("walk:nodes=0", &["`nodes`", "at least 1"]),
        ("walk:nodes=4000000000", &["nodes of a walk", "4000000000"]),
        ("pagerank:restart=0", &["`restart`", "0.001"]),
        ("steps:p=1000000", &["steps of a walk", "16384"]),
        ("steps:p=-1", &["`p`", "whole number", "-1"]),
        ("spd:hops=many", &["`hops`", "many"]),
    ];
    for (mask, parts) in numbers {
        row(&folder, mask, "path.csv", 3, &["--at", "0,0"]).refused(parts);
    }
    // A time is only short or long for weights.
    row(&folder, "diffusion:t=1", "heavy.csv", 3, &["--at", "0,0"])
        .refused(&["of a diffusion", "scale the weights down"]);
    for (slip, meant) in [
        ("difusion:t=3", "diffusion"),
        ("toplitz:gauss", "toeplitz"),
        ("tre:rate=1", "tree"),
        ("pageRank", "pagerank"),
        ("caussal", "causal"),
        ("spdd:hops=2", "spd"),
    ] {
        let meant = format!("did you mean {meant}?");
        let word = slip.split(':').next().unwrap_or_default();
        for parts in [[word, "by position one of none, causal"], ["along edges one of diffusion", &meant]] {
            row(&folder, slip, "path.csv", 3, &["--at", "0,0"]).refused(&parts);
        }
    }
    let cat = folder.picture("cat.png", 64, 48);
    let run = folder.map(&[&cat, "--at", "1,1", "--mask", "difusion:t=3"]);
    run.refused(&["difusion", "along edges", "did you mean diffusion?"]);
    folder.map(&[&cat, "--at", "1,1", "--mask", "blob"]).refused(&[
        "blob",
        "stencil:…",
        "spd:…",
        "for example",
    ]);
}

const ALL: [&str; 11] = [
    "diffusion:t=3",
    "diffusion:t=3,laplacian=symmetric",
    "diffusion:t=3,laplacian=random-walk",
    "communicability:t=0.5",
    "walk",
    "walk:normalise=diag",
    "walk:walks=20",
    "steps:p=2",
    "tree:rate=0.5",
    "tree:profile=inverse,size=2",
    "spd",
];

#[test]
fn lone_nodes_see_themselves() {
    let folder = Folder::new("lone-nodes");
    files(
        &folder,
        &[
            ("one.mtx", &format!("{MTX}1 1 0\n")),
            ("one.obj", "v 0 0 0\n"),
            // Nodes 1 and 4 have no edges.
            ("lone.mtx", &format!("{MTX}5 5 2\n1 3 1\n3 4 0.5\n")),
        ],
    );
    for mask in ALL {
        for file in ["one.mtx", "one.obj"] {
            row(&folder, mask, file, 1, &["--at", "0,0"]).done();
            let one = numbers(&folder);
            assert!(one.len() == 1 && (one[0] - 1.0).abs() < 1e-4, "{mask}, {file}: {one:?}");
        }
        row(&folder, mask, "lone.mtx", 5, &["--at", "1,0", "--at", "4,0"]).done();
        let rows = numbers(&folder);
        for (at, x) in rows.iter().enumerate() {
            let own = if at == 1 || at == 9 { 1.0 } else { 0.0 };
            assert!((x - own).abs() < 1e-4, "{mask}: element {at} of {rows:?}");
        }
    }
    // A walker from there starts again where it is: its row is itself up to a factor.
    row(&folder, "pagerank", "lone.mtx", 5, &["--at", "1,0"]).done();
    let own = numbers(&folder);
    assert!(own[1] > 0.1 && own.iter().filter(|x| **x != 0.0).count() == 1, "{own:?}");
    folder.run(&["graph", "one.mtx"]).done();
    let report = folder.run(&["graph", "lone.mtx", "--json"]).done().json();
    assert_eq!((&report["isolated"], &report["components"]), (&2.into(), &3.into()), "{report}");
}

#[test]
fn extreme_weights_give_finite_rows() {
    let folder = Folder::new("extreme-weights");
    files(
        &folder,
        &[
            ("heavy.csv", "0,1,1e30\n1,2,1e30\n2,3,1e30\n"),
            ("light.csv", "0,1,1e-30\n1,2,1e-30\n2,3,1e-30\n"),
            ("both.csv", "0,1,1e30\n1,2,1e-30\n2,3,1\n"),
        ],
    );
    let every = [
        "diffusion:t=1e-30",
        "diffusion:t=3,laplacian=symmetric",
        "diffusion:t=3,laplacian=random-walk",
        "communicability:t=1e-30",
        "walk",
        "walk:normalise=diag",
        "walk:normalise=minmax",
        "walk:walks=20",
        "pagerank",
        "steps:p=2",
        "tree:rate=0.5",
        "tree:rate=1e30",
        "tree:rate=1e-30",
        "tree:profile=exp,size=2",
        "spd",
    ];
    for file in ["heavy.csv", "light.csv", "both.csv"] {
        for mask in every {
            row(&folder, mask, file, 4, &["--at", "0,0", "--at", "1,0", "--at", "2,0", "--at", "3,0"]).done();
            let rows = numbers(&folder);
            assert!(rows.iter().all(|x| x.is_finite() && *x >= -1e-5), "{mask}, {file}: {rows:?}");
            let sees = rows.chunks(4).all(|row| row.iter().sum::<f32>() > 0.1);
            assert!(sees, "{mask}, {file}: {rows:?}");
        }
        folder.run(&["graph", file]).done();
    }
    // Light edges let nothing through in a time of 3: each node keeps its heat.
    row(&folder, "diffusion:t=3", "light.csv", 4, &["--at", "1,0"]).done();
    assert_eq!(numbers(&folder), [0.0, 1.0, 0.0, 0.0]);
}
