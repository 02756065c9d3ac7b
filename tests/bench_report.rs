//! Reports and comparisons of benchmark documents: two small ones with failures, gaps and hostile names, and what a user sees of them.

use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use wgattn::bench::compare::{Line, Options, Verdict, against_baseline, compare};
use wgattn::bench::published::parse;
use wgattn::bench::{html, html_comparison, markdown};

fn path(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/bench").join(name)
}

fn document(name: &str) -> Value {
    let text = std::fs::read_to_string(path(name)).expect("a file of this repository");
    parse(name, &text).expect("a benchmark document")
}

fn both() -> [(String, Value); 2] {
    ["a.json", "b.json"].map(|name| (name.to_string(), document(name)))
}

/// Parses a page as XML and looks for anything that would be fetched, run or broken.
fn check_page(text: &str, scripts: usize) -> Vec<String> {
    let options = roxmltree::ParsingOptions { allow_dtd: true, ..roxmltree::ParsingOptions::default() };
    let page = roxmltree::Document::parse_with_options(text, options).unwrap_or_else(|e| panic!("{e}"));
    let named = |name: &str| page.descendants().filter(|n| n.has_tag_name(name)).count();
    assert_eq!(
        (named("script"), named("style"), named("img")),
        (scripts, 1, 0),
        "no markup comes from the document"
    );
    for part in [
        "http://", "https://", "src=\"", "href=", "url(", "@import", "<link", "NaN<", ">inf", ">null",
        "\u{1b}", "\u{202e}",
    ] {
        assert!(!text.contains(part), "{part} in the page");
    }
    for node in page.descendants().filter(roxmltree::Node::is_element) {
        let is_event = |name: &str| name.starts_with("on");
        assert!(!node.attributes().any(|a| is_event(a.name())), "{node:?}");
        for number in ["x", "y", "x1", "x2", "y1", "y2", "cx", "cy", "width", "height"] {
            let value = node.attribute(number).map(str::parse::<f64>);
            let in_plot = !node.has_tag_name("meta");
            assert!(!in_plot || value.is_none_or(|v| v.is_ok_and(f64::is_finite)), "{number} of {node:?}");
        }
    }
    page.descendants().filter_map(|n| n.text().map(str::to_string)).collect()
}

#[test]
fn a_run_beside_its_baseline_is_a_section_of_its_reports() {
    let [(name, first), (_, second)] = both();
    let comparison = against_baseline(&name, &first, &second, Options::default()).expect("comparable");
    let page = html(&second, Some(&comparison)).expect("a report");
    check_page(&page, 2);
    let tables = markdown(&second, Some(&comparison)).expect("tables");
    for text in [&page, &tables] {
        for part in ["Beside the baseline", "a.json", "this run", "beyond noise"] {
            assert!(text.contains(part), "{part} in {text}");
        }
    }
    let slower = comparison.groups.iter().flat_map(|g| &g.lines).flat_map(|l| &l.cells);
    assert!(
        slower.filter(|c| c.verdict == Verdict::Slower).count() > 0 && tables.contains("SLOWER"),
        "{tables}"
    );
    let without = html(&second, None).expect("a report") + &markdown(&second, None).expect("tables");
    assert!(!without.contains("Beside the baseline"));
}

#[test]
fn reports_are_well_formed_and_need_nothing_else() {
    for name in ["a.json", "b.json"] {
        let texts = check_page(&html(&document(name), None).expect("a report"), 2);
        let has = |part: &str| texts.iter().any(|t| t.contains(part));
        assert!(has("llvmpipe <script>alert(\"x\")</script>"), "{name}: names stand there as text");
        assert!(has("judged by CPU seconds") && has("below timer resolution") && has("<i>odd</i>"), "{name}");
        assert!(has("No score"), "{name}: a device without a score says so");
        assert_eq!(has("cut short or is still going on"), name == "b.json", "{name}");
    }
}

#[test]
fn every_row_is_in_the_table_and_failures_say_why() {
    let value = document("a.json");
    let text = html(&value, None).expect("a report");
    let table =
        text.split("<h2>All rows</h2>").nth(1).and_then(|t| t.split("</table>").next()).expect("the table");
    let rows: usize = value["devices"]
        .as_array()
        .expect("devices")
        .iter()
        .map(|d| d["rows"].as_array().map_or(0, Vec::len))
        .sum();
    assert_eq!(table.matches("<tr").count(), rows + 1, "rows and the heading");
    assert!(table.contains("needs 17179869184 bytes | the device allows &lt;134217728&gt;"), "{table}");
    assert!(
        table.contains("device lost") && table.contains("wrong result") && table.contains("outliers"),
        "{table}"
    );
}

#[test]
fn plots_are_there_where_there_is_something_to_plot() {
    let mut value = document("a.json");
    let text = html(&value, None).expect("a report");
    assert!(
        text.contains("Roofline. Roofs: fused multiply-adds and a streaming copy"),
        "the device with peaks"
    );
    assert!(text.contains("The device&#39;s own roofs were not measured."), "the one without");
    assert!(
        text.contains("Nyström: faster than exact attention from about 1\u{2009}600 tokens on"),
        "where the curves cross"
    );
    assert!(text.contains("5 points failed and are left out"), "points without numbers are told");
    assert!(text.contains("class=\"whisker\""), "p10 to p90");
    // With nothing to plot there are no empty axes.
    value["devices"].as_array_mut().expect("devices").iter_mut().for_each(|d| d["rows"] = json!([]));
    value["devices"][0]["suites"] = json!([]);
    let empty = html(&value, None).expect("a report");
    assert!(!empty.contains("<svg") && empty.contains("<h2>All rows</h2>"));
    check_page(&empty, 2);
    value["devices"] = json!([]);
    assert!(html(&value, None).expect("a report").contains("No device was measured"));
}

#[test]
fn points_that_were_not_run_say_why_in_both_reports() {
    let mut value = document("a.json");
    let point =
        |x: u32, y: f64| json!({ "x": x, "y": y, "cpu": y, "max_error": 1e-7, "checked": "16 <rows>" });
    value["devices"][0]["suites"] = json!([{
        "name": "crossover", "title": "Attention", "x": "tokens", "y": "seconds",
        "series": [
            { "name": "exact attention", "points": [
                point(256, 1.0), point(512, 4.0),
                { "x": 1024, "skipped": "a run is expected to take | 16 s", "numbers": { "dispatches": 3.0 } },
            ] },
            { "name": "other", "points": [point(256, 2.0), point(512, 2.0), point(1024, 2.0)] },
        ],
    }]);
    let page = html(&value, None).expect("a report");
    check_page(&page, 2);
    assert!(
        page.contains("exact attention: not run at 1\u{2009}024 tokens: a run is expected to take | 16 s")
    );
    assert!(
        page.contains("other: faster than exact attention from about 360 tokens on, 2 times at 512 tokens")
    );
    assert!(page.contains("error 1.0e-7 (16 &lt;rows&gt;)"), "what was compared is told at the mark");
    let text = markdown(&value, None).expect("tables");
    assert!(text.contains("| 1\u{2009}024 | not run | 2.00 s |"), "{text}");
    assert!(text.contains("expected to take \\| 16 s"), "{text}");
    assert!(text.contains("* other: faster than exact attention from about 360 tokens on"), "{text}");
}

/// Every number of a document as another one, kernels' times included.
fn with_numbers(value: &mut Value, other: f64) {
    match value {
        Value::Number(_) => *value = json!(other),
        Value::Array(list) => list.iter_mut().for_each(|v| with_numbers(v, other)),
        Value::Object(map) => {
            map.iter_mut().filter(|(key, _)| *key != "version").for_each(|(_, v)| with_numbers(v, other));
        }
        _ => {}
    }
}

#[test]
fn odd_numbers_break_neither_plots_nor_tables() {
    for other in [0.0, 1e-308, 5e-324, 1e18, f64::MAX] {
        let mut value = document("a.json");
        with_numbers(&mut value, other);
        check_page(&html(&value, None).expect("a report"), 2);
        markdown(&value, None).expect("tables");
        let both = [("a".to_string(), document("a.json")), ("b".to_string(), value)];
        let comparison = compare(&both, Options::default()).expect("comparable");
        check_page(&html_comparison(&comparison), 1);
        let text = comparison.text();
        assert!(!text.contains(" inf") && !text.contains("NaN"), "{other}: {text}");
    }
    // No time is negative.
    let mut value = document("a.json");
    with_numbers(&mut value["devices"], -1.0);
    let both = [("a".to_string(), document("a.json")), ("b".to_string(), value.clone())];
    for error in
        [html(&value, None).err(), markdown(&value, None).err(), compare(&both, Options::default()).err()]
    {
        let message = error.expect("refused").to_string();
        assert!(message.contains("devices[0]") && message.contains("got -1"), "{message}");
    }
    // Some huge, some tiny: axes over all that numbers can hold.
    let mut value = document("a.json");
    let rows = value["devices"][0]["rows"].as_array_mut().expect("rows");
    for (row, key) in (0..2).flat_map(|row| ["cpu_p10_seconds", "cpu_p90_seconds"].map(|key| (row, key))) {
        rows[row][key] = Value::Null;
    }
    rows[0]["cpu_seconds"] = json!(1e300);
    rows[1]["cpu_seconds"] = json!(1e-290);
    rows[1]["bytes"] = json!(1e-300);
    rows[2]["max_error"] = json!(1e308);
    check_page(&html(&value, None).expect("a report"), 2);
}

#[test]
fn a_report_holds_its_document() {
    let mut value = document("a.json");
    value["devices"][0]["driver"] = json!("</script>\u{1b}[2J\u{202e}\u{ffff}\"]]>");
    let page = html(&value, None).expect("a report");
    check_page(&page, 2);
    assert_eq!(parse("page.html", &page).expect("the document"), value);
    let (page, _) = page.rsplit_once("\"rows\"").expect("rows of the document");
    assert!(parse("page.html", page).expect_err("cut").to_string().contains("cut short"));
}

#[test]
fn spreads_stand_beside_their_own_clock_and_with_points_of_suites() {
    let mut value = document("a.json");
    let device = &mut value["devices"][0];
    device["rows"].as_array_mut().expect("rows").truncate(1);
    let row = &mut device["rows"][0];
    for (name, x) in [
        ("median_seconds", 0.1),
        ("p10_seconds", 0.05),
        ("p90_seconds", 0.4),
        ("cpu_seconds", 0.2),
        ("cpu_p10_seconds", 0.19),
        ("cpu_p90_seconds", 0.21),
    ] {
        row[name] = json!(x);
    }
    row["flags"] = json!(["outliers by CPU time"]);
    let text = markdown(&value, None).expect("tables");
    assert!(text.contains("| time | p10 to p90 | CPU time | CPU p10 to p90 | rate |"), "{text}");
    assert!(text.contains("| 100 ms | 50.0 – 400 ms | 200 ms | 190 – 210 ms | "), "{text}");
    assert!(text.contains("FLOP/CPU s | ") && text.contains("remarks on runs are by CPU time"), "{text}");
    assert!(text.contains("outliers by CPU time"), "{text}");
    // Points of one run have no spread, the others say how many runs theirs is of.
    assert!(text.contains("p10 to p90 of 12 runs") && text.contains("4.05 ms (3.97 – 4.17 ms)"), "{text}");
    let page = html(&value, None).expect("a report");
    check_page(&page, 2);
    let points = page.split("<h2>All points of suites</h2>").nth(1).expect("a table of points");
    assert!(
        points.contains("4.05 ms<small>3.97 – 4.17 ms</small>") && points.contains("no room for &lt;x&gt;")
    );
    assert!(page.contains("Whiskers: p10 to p90 of the runs, as all of it by CPU time."));
}

#[test]
fn markdown_tables_keep_their_columns() {
    for name in ["a.json", "b.json"] {
        let text = markdown(&document(name), None).expect("tables");
        let mut columns = None;
        for line in text.lines() {
            let pipes = line.replace("\\|", "").matches('|').count();
            match columns {
                Some(n) if line.starts_with('|') => assert_eq!(pipes, n, "{line}"),
                _ => columns = line.starts_with('|').then_some(pipes),
            }
            assert!(!line.contains('<'), "{line}");
        }
        assert!(text.contains("FAILED: ") && text.contains("WRONG: "), "{text}");
        assert!(text.contains("below timer resolution") && text.contains("80 % (loads)"), "{text}");
    }
}

#[test]
fn what_differs_beyond_noise_is_told() {
    let comparison = compare(&both(), Options::default()).expect("comparable");
    assert_eq!(comparison.groups.len(), 2, "devices are paired by name though their order changed");
    let [soft, card] = comparison.groups.as_slice() else { panic!("two groups") };
    assert!(soft.by_cpu && !card.by_cpu);
    let verdict = |kernel: &str| {
        let line = soft.lines.iter().find(|l| l.kernel == kernel).expect("a row of both");
        line.cells[1].verdict
    };
    assert_eq!(verdict("matmul"), Verdict::Slower);
    assert_eq!(verdict("fft"), Verdict::Same);
    assert_eq!(verdict("transpose"), Verdict::Failed);
    assert_eq!(verdict("exact_map"), Verdict::FailedInBoth);
    let fft = soft.lines.iter().find(|l| l.kernel == "fft").expect("the row");
    assert!(fft.cells[1].error_grew && fft.cells[1].kernel_changed);
    assert_eq!(soft.changed_kernels, ["fft"]);
    let only_here = card.lines.iter().find(|l| l.kernel == "landmarks").expect("the row");
    assert_eq!(
        only_here.cells.iter().map(|c| c.verdict).collect::<Vec<_>>(),
        [Verdict::Missing, Verdict::New]
    );
    let point = |series: &str, size: f64| {
        let is_it = |l: &&Line| l.case == series && l.size.as_ref().is_some_and(|(x, _)| *x == size);
        soft.lines.iter().find(is_it).expect("a point of both").cells[1].verdict
    };
    assert_eq!([1024.0, 2048.0].map(|n| point("Nyström", n)), [Verdict::Same, Verdict::Slower]);
    assert_eq!(point("exact attention", 2048.0), Verdict::Unclear, "nobody knows how often it ran");
    assert_eq!(point("never ran", 1024.0), Verdict::FailedInBoth);
    assert_eq!(comparison.regressions(), 4, "three rows and a point");
    assert!(comparison.notes.iter().any(|n| n.contains("b.json") && n.contains("did not come to its end")));
    let texts = check_page(&html_comparison(&comparison), 1);
    assert!(texts.iter().any(|t| t.contains("4 regressions beyond noise")));
    let text = comparison.text();
    assert!(text.contains("SLOWER") && text.contains("FAILS NOW") && text.contains("1e18×"), "{text}");
    assert!(text.contains("crossover: Nyström at 2 048 tokens"), "{text}");
    assert!(text.lines().all(|line| !line.starts_with("in this row")), "a failure is one line: {text}");
}

#[test]
fn a_document_does_not_differ_from_itself() {
    let twice = ["a", "b"].map(|name| (name.to_string(), document("a.json")));
    let comparison = compare(&twice, Options { least: Some(0.0) }).expect("comparable");
    assert_eq!(comparison.regressions(), 0);
    let ratios = comparison.groups.iter().flat_map(|g| &g.lines).filter_map(|l| l.cells[1].ratio);
    assert!(ratios.into_iter().all(|r| r == 1.0));
    let means = [0, 1].map(|g| comparison.groups[g].columns[1].geometric_mean);
    assert_eq!(means, [Some(1.0), None], "the only row of the card is wrong, and counts in no mean");
}

#[test]
fn devices_of_one_document_compare_with_each_other() {
    let one = [("a.json".to_string(), document("a.json"))];
    let comparison = compare(&one, Options::default()).expect("two devices");
    let group = &comparison.groups[0];
    assert!(!group.by_cpu, "a card is not judged by processor seconds, so neither is");
    let matmul = group.lines.iter().find(|l| l.kernel == "matmul").expect("a row of both");
    assert!(matmul.cells[1].ratio.is_some_and(|r| (r - 0.01).abs() < 1e-9), "{:?}", matmul.cells[1]);
    assert_eq!(matmul.cells[1].verdict, Verdict::Wrong, "fast but beyond its tolerance");
}

fn bench_compare(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_wgattn"))
        .args(["bench", "compare"])
        .args(args)
        .current_dir(path(""))
        .output()
        .expect("the program built for this test starts")
}

#[test]
fn the_command_prints_pure_json_and_its_exit_code_tells() {
    let output = bench_compare(&["a.json", "b.json", "--json"]);
    // One result is wrong there, which fails without being asked for.
    assert_eq!(output.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&output.stderr).contains("wrong: the error is larger"));
    let value: Value = serde_json::from_slice(&output.stdout).expect("standard output is JSON");
    assert_eq!((&value["schema"], &value["regressions"]), (&json!("wgattn-bench-comparison"), &json!(4)));
    assert_eq!(value["groups"][0]["rows"][0]["cells"][1]["verdict"], "slower");
    let points = value["groups"][0]["points"].as_array().expect("points of suites");
    let slower = points.iter().find(|p| p["cells"][1]["verdict"] == "slower").expect("the one that is");
    assert_eq!((&slower["series"], &slower["size"]), (&json!("Nyström"), &json!(2048.0)));
    let output = bench_compare(&["a.json", "b.json", "--fail-on-regression"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&output.stderr).contains("4 regressions beyond noise"));
    let lenient = bench_compare(&["a.json", "b.json", "--least", "70", "--json"]);
    let value: Value = serde_json::from_slice(&lenient.stdout).expect("standard output is JSON");
    assert_eq!(value["regressions"], 2, "60 % slower is not 70 %");
}

#[test]
fn wrong_results_and_files_apart_always_fail() {
    let folder = std::env::temp_dir().join(format!("wgattn-compare-wrong-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a temporary folder");
    let write = |name: &str, rows: Value| {
        let device = json!({ "name": "card", "backend": "vulkan", "type": "discrete", "rows": rows });
        let document =
            json!({ "schema": "wgattn-bench", "version": 1, "complete": true, "devices": [device] });
        let file = folder.join(name);
        std::fs::write(&file, document.to_string()).expect("the folder is ours");
        file.to_str().expect("UTF-8").to_string()
    };
    let row = |kernel: &str, error: f64| {
        json!({
            "kernel": kernel, "case": "x", "median_seconds": 1.0, "p10_seconds": 1.0, "p90_seconds": 1.0,
            "samples": 10, "max_error": error, "tolerance": 1e-6,
        })
    };
    let right = write("right.json", json!([row("matmul", 1e-7)]));
    let wrong = write("wrong.json", json!([row("matmul", 1e-3)]));
    let other = write("other.json", json!([row("fft", 1e-7)]));
    let negative =
        write("negative.json", json!([{ "kernel": "matmul", "case": "x", "median_seconds": -1.0 }]));
    let binary = folder.join("picture.json");
    std::fs::write(&binary, b"\x89PNG\r\n\x1a\n").expect("the folder is ours");
    let binary = binary.to_str().expect("UTF-8").to_string();
    let mended = bench_compare(&[&wrong, &right]);
    let text = String::from_utf8_lossy(&mended.stdout);
    assert!(text.contains("wrong in the first") && text.contains("no ratio"), "{text}");
    for (files, code, told) in [
        ([&right, &right], 0, ""),
        // As wrong as before is wrong; what was wrong in the first alone is mended.
        ([&wrong, &right], 0, ""),
        ([&right, &wrong], 1, "1 result is wrong"),
        ([&wrong, &wrong], 1, "1 result is wrong"),
        ([&right, &other], 1, "no row or suite in common with the first: other.json"),
        ([&right, &negative], 1, "rows[0] (\"matmul/x\").median_seconds"),
        ([&right, &binary], 1, "no UTF-8 text"),
    ] {
        let output = bench_compare(&[files[0], files[1]]);
        let errors = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(code), "{files:?}: {errors}");
        assert!(errors.contains(told), "{files:?}: {errors}");
    }
    std::fs::remove_dir_all(&folder).expect("the folder is ours");
}

#[test]
fn the_command_writes_a_page_and_refuses_what_is_no_benchmark() {
    let folder = std::env::temp_dir().join(format!("wgattn-compare-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a temporary folder");
    let page = folder.join("page.html");
    let output = bench_compare(&["a.json", "b.json", "--html", page.to_str().expect("UTF-8")]);
    assert_eq!(output.status.code(), Some(1), "a result is wrong there");
    check_page(&std::fs::read_to_string(&page).expect("the page was written"), 1);
    let whole = std::fs::read_to_string(path("a.json")).expect("the document");
    let half: String = whole.chars().take(whole.chars().count() / 2).collect();
    let newer = whole.replacen("\"version\": 1", "\"version\": 9", 1);
    for (name, text, said) in [
        ("half.json", half.as_str(), "cut short"),
        ("newer.json", &newer, "at most 1, got 9"),
        ("other.json", "{\"schema\": \"else\"}", "\"wgattn-bench\""),
        ("rows.csv", "kernel,case\n", "as JSON"),
    ] {
        let file = folder.join(name);
        std::fs::write(&file, text).expect("the folder is ours");
        let output = bench_compare(&["a.json", file.to_str().expect("UTF-8")]);
        let errors = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{name}: {errors}");
        assert!(
            output.stdout.is_empty() && errors.contains(name) && errors.contains(said),
            "{name}: {errors}"
        );
    }
    let report = folder.join("report.html");
    std::fs::write(&report, html(&document("b.json"), None).expect("a report")).expect("the folder is ours");
    let output = bench_compare(&["a.json", report.to_str().expect("UTF-8"), "--json"]);
    let value: Value =
        serde_json::from_slice(&output.stdout).expect("a report is compared like its document");
    assert_eq!(value["regressions"], 4);
    let output = bench_compare(&["a.json", "no_such.json"]);
    assert!(String::from_utf8_lossy(&output.stderr).contains("no_such.json"), "the missing file is named");
    let output = bench_compare(&["a.json", "b.json", "--html", "a.json"]);
    assert!(
        String::from_utf8_lossy(&output.stderr).contains("is the input itself"),
        "a document is not overwritten"
    );
    std::fs::remove_dir_all(&folder).expect("the folder is ours");
}
