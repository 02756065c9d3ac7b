//! Reading of benchmark documents: every value with its place, so that what is not as the schema has it can be named.

use super::{Device, Document, Peaks, Point, Roof, Row, SCHEMA, Series, Suite, System, Times, VERSION};
use crate::bench::Clock;
use crate::bench::units::{memory, prefixed};
use crate::error::{Error, Result};
use crate::words::counted;
use serde_json::Value;
use std::collections::BTreeMap;

/// What stands before and behind the document inside of an HTML report.
pub(in crate::bench) const DATA_FROM: &str = "<script type=\"application/json\" id=\"wgattn-bench\">";
pub(in crate::bench) const DATA_TO: &str = "</script>";

/// Clocks that a row may be judged by.
const CLOCKS: [Clock; 3] = [Clock::Cpu, Clock::Device, Clock::Wall];
/// What a time may be beside its neighbours in the order of a row, because texts round.
const ROUNDING: f64 = 1e-6;

impl Document {
    /// Reads a document; `name` says in messages whose it is, such as the name of its file.
    ///
    /// Errors: [`Error::Value`] with the place of what is not as the schema has it.
    pub fn read(name: &str, value: &Value) -> Result<Self> {
        check(name, value)?;
        let top = At { path: name.to_string(), value };
        let program = top.at("wgattn")?;
        let system = top.at("system")?;
        let mut options = BTreeMap::new();
        if let Some(given) = top.at("options")?.object()? {
            options.extend(given.iter().map(|(key, value)| (key.clone(), value.clone())));
        }
        let kernels = top.at("kernels")?;
        let mut hashes = BTreeMap::new();
        for key in kernels.keys()? {
            if let Some(hash) = kernels.text(&key)? {
                hashes.insert(key, hash);
            }
        }
        Ok(Self {
            program: program.text("version")?.unwrap_or_else(|| "unknown".into()),
            commit: program.text("commit")?,
            date: top.text("date")?.unwrap_or_else(|| "unknown".into()),
            complete: top.flag("complete")?.unwrap_or(false),
            options,
            system: System {
                os: system.text("os")?,
                arch: system.text("arch")?,
                cpu: system.text("cpu")?,
                cores: system.number("cores")?,
                memory_bytes: system.number("memory_bytes")?,
            },
            kernels: hashes,
            devices: top.needed_list("devices")?.iter().map(device).collect::<Result<_>>()?,
            left_out: top.list("left_out")?.iter().map(left_out).collect::<Result<_>>()?,
        })
    }
}

/// Whether a value is a benchmark document that can be understood here.
fn check(name: &str, value: &Value) -> Result<()> {
    let remedy = REMEDY;
    let Some(object) = value.as_object() else {
        return Err(Error::value(name, "a benchmark document, a JSON object", told(value), remedy));
    };
    match object.get("schema").and_then(Value::as_str) {
        Some(SCHEMA) => {}
        Some(other) => {
            return Err(Error::value(format!("{name}: schema"), format!("{SCHEMA:?}"), short(other), remedy));
        }
        None => return Err(Error::value(format!("{name}: schema"), format!("{SCHEMA:?}"), "none", remedy)),
    }
    match object.get("version").and_then(Value::as_u64) {
        Some(1..=VERSION) => Ok(()),
        Some(newer) if newer > VERSION => Err(Error::value(
            format!("{name}: version of the schema"),
            format!("at most {VERSION}"),
            newer,
            "a newer wgattn wrote it: read it with that one, or measure again with this",
        )),
        _ => Err(Error::value(
            format!("{name}: version of the schema"),
            format!("1 to {VERSION}"),
            object.get("version").map_or_else(|| "none".into(), told),
            remedy,
        )),
    }
}

/// What to give instead of a file that holds no document.
const REMEDY: &str = "give the .json or .html that `wgattn bench --export` wrote";

/// Reads a file as a benchmark document: [`parse`] of its bytes.
///
/// Errors: as there, and [`Error::Value`] for bytes that are no text.
pub fn parse_bytes(name: &str, bytes: &[u8]) -> Result<Value> {
    match std::str::from_utf8(bytes) {
        Ok(text) => parse(name, text.trim_start_matches('\u{feff}')),
        Err(e) => {
            let got =
                format!("bytes that are no UTF-8 text, from place {} of {} on", e.valid_up_to(), bytes.len());
            Err(Error::value(name, "a benchmark document as JSON or HTML", got, REMEDY))
        }
    }
}

/// Reads the text of a file as a benchmark document, and checks what it calls itself. An HTML report holds its document.
///
/// Errors: [`Error::Value`] for text that is no JSON or ends too early, another schema, or a newer version.
pub fn parse(name: &str, text: &str) -> Result<Value> {
    let held = text.split_once(DATA_FROM).map(|(_, rest)| rest);
    if held.is_none() && text.trim_start().starts_with('<') {
        let got = "a page that holds none";
        return Err(Error::value(name, "a report of `wgattn bench` with its document", got, REMEDY));
    }
    let text = held.map_or(text, |rest| rest.split_once(DATA_TO).map_or(rest, |(data, _)| data));
    let value: Value = serde_json::from_str(text).map_err(|e| {
        let place = format!("line {}, column {}", e.line(), e.column());
        if text.trim().is_empty() {
            Error::value(name, "a benchmark document", "an empty file", "export the run again")
        } else if e.is_eof() {
            let remedy = "the file was cut short: copy it again, or export the run again";
            Error::value(name, "a whole JSON text", format!("one that ends at {place}"), remedy)
        } else if e.to_string().starts_with("number out of range") {
            let remedy = "the file was edited or is damaged: export the run again";
            Error::value(name, "finite numbers", format!("one that is too large at {place}"), remedy)
        } else {
            Error::value(name, "a benchmark document as JSON", format!("other text at {place}"), REMEDY)
        }
    })?;
    check(name, &value)?;
    Ok(value)
}

fn short(text: &str) -> String {
    const MOST: usize = 60;
    match text.chars().count() {
        0..=MOST => format!("{text:?}"),
        _ => format!("{:?}…", text.chars().take(MOST).collect::<String>()),
    }
}

fn told(value: &Value) -> String {
    match value {
        Value::Null => "null".into(),
        Value::Bool(b) => b.to_string(),
        Value::Number(n) => n.to_string(),
        Value::String(text) => short(text),
        Value::Array(_) => "a list".into(),
        Value::Object(_) => "an object".into(),
    }
}

/// A value with its place, for messages.
struct At<'a> {
    path: String,
    value: &'a Value,
}

impl<'a> At<'a> {
    fn refuse<T>(&self, key: &str, expected: &str, got: &Value) -> Result<T> {
        let remedy = "the file was edited or is damaged: export the run again";
        Err(Error::value(format!("{}.{}", self.path, key.escape_debug()), expected, told(got), remedy))
    }

    fn child(&self, key: &str) -> &'a Value {
        self.value.get(key).unwrap_or(&Value::Null)
    }

    fn at(&self, key: &str) -> Result<Self> {
        let value = self.child(key);
        match value {
            Value::Object(_) | Value::Null => Ok(Self { path: format!("{}.{key}", self.path), value }),
            other => self.refuse(key, "an object or null", other),
        }
    }

    fn object(&self) -> Result<Option<&'a serde_json::Map<String, Value>>> {
        Ok(self.value.as_object())
    }

    fn keys(&self) -> Result<Vec<String>> {
        Ok(self.object()?.map(|o| o.keys().cloned().collect()).unwrap_or_default())
    }

    /// A time, a rate, a size or an error: none of them is negative.
    fn number(&self, key: &str) -> Result<Option<f64>> {
        match self.any_number(key)? {
            Some(x) if x < 0.0 => self.refuse(key, "a number from 0, or null", self.child(key)),
            found => Ok(found),
        }
    }

    /// Numbers that rise, or stay, from one key to the next; null ones are left out.
    fn rising<const N: usize>(&self, keys: [&str; N], found: [Option<f64>; N]) -> Result<[Option<f64>; N]> {
        let mut before: Option<(&str, f64)> = None;
        for (key, value) in keys.into_iter().zip(found).filter_map(|(key, value)| Some((key, value?))) {
            match before {
                Some((below, least)) if value < least * (1.0 - ROUNDING) => {
                    let expected = format!("at least {least:e}, which is its `{below}`");
                    return self.refuse(key, &expected, self.child(key));
                }
                _ => before = Some((key, value)),
            }
        }
        Ok(found)
    }

    /// The middle of several times between the ends of most of them.
    fn times(&self, [p10, median, p90]: [&str; 3], mad: Option<&str>) -> Result<Times> {
        let found = [self.number(p10)?, self.number(median)?, self.number(p90)?];
        let [low, middle, high] = self.rising([p10, median, p90], found)?;
        let mad = mad.map(|key| self.number(key)).transpose()?.flatten();
        Ok(Times { median: middle, p10: low, p90: high, mad })
    }

    /// One of the names of clocks.
    fn clock(&self, key: &str) -> Result<Option<String>> {
        let known = CLOCKS.map(|clock| clock.to_string());
        match self.text(key)? {
            Some(name) if !known.contains(&name) => {
                self.refuse(key, &format!("one of [{}], or null", known.join(", ")), self.child(key))
            }
            found => Ok(found),
        }
    }

    fn any_number(&self, key: &str) -> Result<Option<f64>> {
        match self.child(key) {
            Value::Null => Ok(None),
            // Larger ones than f64 holds are refused before, as text.
            Value::Number(n) if n.as_f64().is_some_and(f64::is_finite) => Ok(n.as_f64()),
            other => self.refuse(key, "a finite number, or null", other),
        }
    }

    fn text(&self, key: &str) -> Result<Option<String>> {
        match self.child(key) {
            Value::Null => Ok(None),
            Value::String(text) => Ok(Some(text.clone())),
            other => self.refuse(key, "a text or null", other),
        }
    }

    fn needed_text(&self, key: &str) -> Result<String> {
        match self.child(key) {
            Value::String(text) => Ok(text.clone()),
            other => self.refuse(key, "a text", other),
        }
    }

    fn flag(&self, key: &str) -> Result<Option<bool>> {
        match self.child(key) {
            Value::Null => Ok(None),
            Value::Bool(b) => Ok(Some(*b)),
            other => self.refuse(key, "true, false or null", other),
        }
    }

    /// Items with their places; null is an empty list.
    fn list(&self, key: &str) -> Result<Vec<Self>> {
        match self.child(key) {
            Value::Null => Ok(Vec::new()),
            _ => self.needed_list(key),
        }
    }

    fn needed_list(&self, key: &str) -> Result<Vec<Self>> {
        match self.child(key) {
            Value::Array(list) => {
                let item = |(i, value)| Self { path: format!("{}.{key}[{i}]", self.path), value };
                Ok(list.iter().enumerate().map(item).collect())
            }
            other => self.refuse(key, "a list", other),
        }
    }

    fn texts(&self, key: &str) -> Result<Vec<String>> {
        let text = |item: &Self| match item.value {
            Value::String(text) => Ok(text.clone()),
            other => self.refuse(key, "a list of texts", other),
        };
        self.list(key)?.iter().map(text).collect()
    }

    fn numbers(&self, key: &str) -> Result<Vec<f64>> {
        let number = |item: &Self| match item.value.as_f64() {
            Some(x) => Ok(x),
            None => self.refuse(key, "a list of numbers", item.value),
        };
        self.list(key)?.iter().map(number).collect()
    }
}

// Roofs and overheads are differences of measurements; what is no positive number among them is not looked at.
fn roof(at: &At<'_>, key: &str) -> Result<Roof> {
    let roof = at.at(key)?;
    Ok(Roof {
        per_second: roof.any_number("per_second")?,
        per_cpu_second: roof.any_number("per_cpu_second")?,
    })
}

fn left_out(at: &At<'_>) -> Result<String> {
    Ok(format!("{}: {}", at.needed_text("asked")?, at.needed_text("reason")?))
}

/// A size and the speed there; `None` where the size is unknown.
fn rung_of(at: &At<'_>) -> Result<Option<(f64, Roof)>> {
    let roof =
        Roof { per_second: at.any_number("per_second")?, per_cpu_second: at.any_number("per_cpu_second")? };
    Ok(at.any_number("bytes")?.map(|bytes| (bytes, roof)))
}

/// Rates of `peaks` that have a roof of their own, beside those of `loads`.
const RATES: [&str; 10] = [
    "flop",
    "many_sums",
    "bytes",
    "exp",
    "abs_difference",
    "gather_words",
    "stores",
    "vector_stores",
    "upload_bytes",
    "readback_bytes",
];
/// Ways by which words are loaded.
const PATHS: [&str; 4] = ["storage", "uniform", "texture", "workgroup"];

fn peaks(at: &At<'_>) -> Result<Peaks> {
    let mut roofs = BTreeMap::new();
    for key in RATES {
        roofs.insert(key.to_string(), roof(at, key)?);
    }
    let loads = at.at("loads")?;
    for path in PATHS {
        roofs.insert(format!("loads.{path}"), roof(&loads, path)?);
    }
    Ok(Peaks {
        roofs,
        dispatch: at.any_number("dispatch_seconds")?,
        submit: at.any_number("submit_seconds")?,
        memory: at
            .list("memory")?
            .iter()
            .filter_map(|rung| rung_of(rung).transpose())
            .collect::<Result<_>>()?,
        copies: at
            .list("copies")?
            .iter()
            .filter_map(|rung| rung_of(rung).transpose())
            .collect::<Result<_>>()?,
        overlap: at.any_number("overlap")?,
    })
}

fn device(at: &At<'_>) -> Result<Device> {
    let limits = at.at("limits")?;
    let mut by_name = BTreeMap::new();
    for key in limits.keys()? {
        if let Some(x) = limits.number(&key)? {
            by_name.insert(key, x);
        }
    }
    Ok(Device {
        name: at.needed_text("name")?,
        backend: at.needed_text("backend")?,
        kind: at.needed_text("type")?,
        driver: at.text("driver")?,
        pci: at.text("pci")?,
        bus: at.text("bus")?,
        index: at.number("index")?,
        timestamps: at.flag("timestamps")?,
        subgroup: at.numbers("subgroup")?,
        card: card(&at.at("cuda")?)?,
        limits: by_name,
        peaks: peaks(&at.at("peaks")?)?,
        rows: at.needed_list("rows")?.iter().map(row).collect::<Result<_>>()?,
        suites: at.list("suites")?.iter().map(suite).collect::<Result<_>>()?,
        score: at.number("score")?,
    })
}

fn card(at: &At<'_>) -> Result<Vec<String>> {
    let clock = |x: f64| prefixed(x, "Hz");
    let count = |x: f64| counted(x as u64, "multiprocessor", "multiprocessors");
    let versions = [("driver", "CUDA"), ("nvrtc", "NVRTC"), ("cublas", "cuBLAS"), ("cufft", "cuFFT")];
    let mut words = vec![
        at.text("compute_capability")?.map(|c| format!("compute capability {c}")),
        at.number("multiprocessors")?.map(count),
        at.number("memory_bytes")?.map(memory),
        at.number("clock_hz")?.map(|x| format!("up to {}", clock(x))),
        at.number("memory_clock_hz")?.map(|x| format!("memory up to {}", clock(x))),
    ];
    for (key, name) in versions {
        words.push(at.text(key)?.map(|version| format!("{name} {version}")));
    }
    words.push(at.text("products")?.map(|precision| format!("products in {precision}")));
    Ok(words.into_iter().flatten().collect())
}

fn row(at: &At<'_>) -> Result<Row> {
    let (kernel, case) = (at.needed_text("kernel")?, at.needed_text("case")?);
    // A number alone tells nobody which row it is.
    let path = format!("{} ({})", at.path, short(&format!("{kernel}/{case}")));
    let at = &At { path, value: at.value };
    Ok(Row {
        kernel,
        case,
        asked_variant: at.text("asked_variant")?,
        variants: at.texts("variants")?,
        tuned: at.flag("tuned")?.unwrap_or(false),
        time: at.times(["p10_seconds", "median_seconds", "p90_seconds"], Some("mad_seconds"))?,
        cpu: at.times(["cpu_p10_seconds", "cpu_seconds", "cpu_p90_seconds"], None)?,
        samples: at.number("samples")?,
        source: at.text("timing_source")?,
        judged_by: at.clock("judged_by")?,
        compile: at.number("compile_seconds")?,
        encode: at.number("encode_seconds")?,
        first_run: at.number("first_run_seconds")?,
        flop: at.number("flop")?,
        bytes: at.number("bytes")?,
        exp: at.number("exp")?,
        bound: at.number("bound_seconds")?,
        bound_by: at.text("bound_by")?,
        share: at.number("share_of_bound")?,
        max_error: at.number("max_error")?,
        tolerance: at.number("tolerance")?,
        checked: at.text("checked")?,
        flags: at.texts("flags")?,
        failure: at.text("failure")?,
    })
}

fn suite(at: &At<'_>) -> Result<Suite> {
    let name = at.needed_text("name")?;
    Ok(Suite {
        title: at.text("title")?.unwrap_or_else(|| name.clone()),
        name,
        x: at.text("x")?.unwrap_or_else(|| "size".into()),
        y: at.text("y")?.unwrap_or_else(|| "seconds".into()),
        series: at.list("series")?.iter().map(series).collect::<Result<_>>()?,
    })
}

fn series(at: &At<'_>) -> Result<Series> {
    let point = |at: &At<'_>| {
        let others = at.at("numbers")?;
        let mut numbers = BTreeMap::new();
        for key in others.keys()? {
            // Differences of times are among them.
            if let Some(x) = others.any_number(&key)? {
                numbers.insert(key, x);
            }
        }
        // Where they stood before they had a name of their own.
        let counted = ["samples", "frames"].map(|name| numbers.remove(name));
        let spread = |keys: [&str; 3]| {
            let [low, middle, high] = keys.map(|key| at.number(key));
            at.rising(keys, [low?, middle?, high?])
        };
        let [y_low, y, y_high] = spread(["y_p10", "y", "y_p90"])?;
        let [cpu_low, cpu, cpu_high] = spread(["cpu_p10", "cpu", "cpu_p90"])?;
        Ok(Point {
            x: at.number("x")?,
            y,
            y_ends: y_low.zip(y_high),
            cpu,
            cpu_ends: cpu_low.zip(cpu_high),
            samples: at.number("samples")?.or(counted[0]).or(counted[1]),
            max_error: at.number("max_error")?,
            checked: at.text("checked")?,
            failure: at.text("failure")?,
            skipped: at.text("skipped")?,
            flags: at.texts("flags")?,
            numbers,
        })
    };
    Ok(Series {
        name: at.needed_text("name")?,
        points: at.list("points")?.iter().map(point).collect::<Result<_>>()?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn refused(value: &Value) -> String {
        Document::read("a.json", value).expect_err("refused").to_string()
    }

    #[test]
    fn other_schemas_and_newer_versions_are_named_with_the_remedy() {
        for (value, parts) in [
            (json!([]), &["a.json", "a JSON object", "a list", "--export"][..]),
            (json!({ "schema": "else", "version": 1 }), &["a.json: schema", "wgattn-bench", "\"else\""]),
            (json!({ "version": 1 }), &["a.json: schema", "none"]),
            (json!({ "schema": SCHEMA, "version": 2 }), &["at most 1", "got 2", "newer wgattn"]),
            (json!({ "schema": SCHEMA, "version": "1" }), &["version", "\"1\""]),
            (json!({ "schema": SCHEMA, "version": 1 }), &["a.json.devices", "a list", "null"]),
        ] {
            let message = refused(&value);
            assert!(parts.iter().all(|part| message.contains(part)), "{message}: {parts:?}");
        }
    }

    #[test]
    fn a_wrong_type_is_refused_with_its_place() {
        let row = json!({ "kernel": "matmul", "case": "x", "median_seconds": "fast" });
        let device = json!({ "name": "a", "backend": "b", "type": "discrete", "rows": [row] });
        let message = refused(&json!({ "schema": SCHEMA, "version": 1, "devices": [device] }));
        assert!(message.contains("a.json.devices[0].rows[0] (\"matmul/x\").median_seconds"), "{message}");
        assert!(message.contains("a finite number, or null") && message.contains("\"fast\""), "{message}");
    }

    #[test]
    fn impossible_numbers_are_refused_with_their_row() {
        let message = |key: &str, value: Value| {
            let mut row = json!({ "kernel": "matmul", "case": "x" });
            row[key] = value;
            let device = json!({ "name": "a", "backend": "b", "type": "discrete", "rows": [row] });
            refused(&json!({ "schema": SCHEMA, "version": 1, "devices": [device] }))
        };
        for (key, value, got) in [
            ("median_seconds", json!(-1e-3), "got -0.001"),
            ("judged_by", json!("the moon"), "one of [CPU time, device time, wall clock]"),
            ("cpu_p90_seconds", json!(-1), "got -1"),
            ("max_error", json!(-0.5), "got -0.5"),
            ("p10_seconds", json!("NaN"), "\"NaN\""),
        ] {
            let message = message(key, value);
            let place = format!("a.json.devices[0].rows[0] (\"matmul/x\").{key}");
            assert!(message.contains(&place) && message.contains(got), "{message}");
        }
        let row = json!({ "kernel": "matmul", "case": "x", "p10_seconds": 0.2, "median_seconds": 0.1 });
        let device = json!({ "name": "a", "backend": "b", "type": "discrete", "rows": [row] });
        let message = refused(&json!({ "schema": SCHEMA, "version": 1, "devices": [device] }));
        assert!(
            message.contains(".median_seconds")
                && message.contains("at least 2e-1, which is its `p10_seconds`"),
            "{message}"
        );
        let text = "{\"schema\": \"wgattn-bench\",\n\"version\": 1e999}";
        let message = parse("a.json", text).expect_err("no f64").to_string();
        assert!(message.contains("too large at line 2"), "{message}");
    }

    #[test]
    fn bytes_that_are_no_text_and_pages_of_others_are_named() {
        let message = parse_bytes("a.png", b"\x89PNG\r\n").expect_err("a picture").to_string();
        for told in ["a.png", "JSON or HTML", "no UTF-8 text, from place 0 of 6 on", "--export"] {
            assert!(message.contains(told), "{message}");
        }
        let message = parse_bytes("a.html", b"<!doctype html><p>").expect_err("another page").to_string();
        assert!(message.contains("a page that holds none") && message.contains("--export"), "{message}");
        let report = format!("<html>{DATA_FROM}{{\"schema\": \"wg");
        let message = parse("a.html", &report).expect_err("cut").to_string();
        assert!(message.contains("cut short"), "{message}");
    }

    #[test]
    fn files_cut_short_say_where_they_end() {
        let message =
            parse("a.json", "{\"schema\": \"wgattn-bench\",\n \"vers").expect_err("cut").to_string();
        assert!(message.contains("line 2") && message.contains("cut short"), "{message}");
        let message = parse("a.json", "kernel,case").expect_err("CSV").to_string();
        assert!(message.contains("other text at line 1"), "{message}");
        assert!(parse("a.json", " \n").expect_err("empty").to_string().contains("an empty file"));
    }

    #[test]
    fn a_tuned_row_is_compared_with_the_same_without_tuning() {
        let row = |case: &str, tuned: bool, median: f64| json!({ "kernel": "matmul", "case": case, "tuned": tuned, "median_seconds": median });
        let rows = [row("a", false, 0.3), row("a", true, 0.2), row("b", true, 0.2)];
        let device = json!({ "name": "a", "backend": "b", "type": "discrete", "rows": rows });
        let value = json!({ "schema": SCHEMA, "version": 1, "devices": [device] });
        let document = Document::read("a.json", &value).expect("readable");
        let device = &document.devices[0];
        let told = device.rows.iter().map(|row| device.tuning(row)).collect::<Vec<_>>();
        assert_eq!(told, [None, Some("tuned, 1.50 times as fast".into()), Some("tuned".into())]);
    }

    #[test]
    fn null_and_absent_mean_not_measured() {
        let row = json!({ "kernel": "matmul", "case": "x", "median_seconds": null, "flags": null });
        let device = json!({ "name": "a", "backend": "b", "type": "software", "peaks": null, "rows": [row] });
        let value = json!({ "schema": SCHEMA, "version": 1, "devices": [device] });
        let document = Document::read("a.json", &value).expect("readable");
        let device = &document.devices[0];
        assert!(!document.complete && device.computes_on_cpu());
        assert_eq!(device.rows[0].time, Times::default());
        assert_eq!(device.roof("flop"), None);
    }
}
