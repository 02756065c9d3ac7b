//! The document of a benchmark, schema `wgattn-bench` version 1: what is exported, compared and drawn.
//!
//! Times are in seconds, sizes in bytes. Every name is always there; what could not be measured is null. `complete` is false while a
//! run still writes it, so an interrupted run leaves a document that says so.

use super::compare::Comparison;
use super::peaks::Peaks;
use super::plan::hashes;
use super::published::Suite;
use super::report::{FIELDS, Row};
use super::suites::{self, Kind};
use super::system::{System, commit, date};
use crate::backend::device::{CardFacts, Facts, Missing};
use crate::backend::{DeviceInfo, DeviceKind, Tuning};
use crate::kernel::Caps;
use serde_json::{Value, json};

/// Name of the schema.
pub const SCHEMA: &str = "wgattn-bench";
/// Its version: it grows when a reader of the old one would misunderstand the new one.
pub const VERSION: u64 = 1;

/// What a run was asked for.
#[derive(Clone, Debug, Default)]
pub struct Settings {
    /// Whether it was to be short.
    pub quick: bool,
    /// Least seconds of a row.
    pub seconds: f64,
    /// Least runs of a row.
    pub runs: usize,
    /// Where the order of the rows comes from.
    pub order_seed: u64,
    /// Parts of kernels' names.
    pub filter: Option<String>,
    /// Part of the case's name.
    pub case: Option<String>,
    /// Pause between rows.
    pub cool_down_seconds: f64,
    /// How long a dispatch may take.
    pub max_dispatch_ms: Option<f64>,
    /// Suites to run after the rows.
    pub suites: Vec<&'static Kind>,
    /// Their sizes, in place of their own ones.
    pub suite_sizes: Vec<u32>,
    /// When variants were chosen by measuring.
    pub tuning: Tuning,
}

/// One device with what was measured on it.
#[derive(Clone, Debug)]
pub struct Device {
    /// Name, backend, kind and driver.
    pub info: DeviceInfo,
    /// Where it is, and what it has.
    pub facts: Facts,
    /// What it offers to kernels; `None` for the reference.
    pub caps: Option<Caps>,
    /// Its own roofline; nothing is known of it before it was measured.
    pub peaks: Peaks,
    /// Rows with their places in the plan, in order of these.
    pub rows: Vec<(usize, Row)>,
    /// End-to-end suites in the order in which they ran.
    pub suites: Vec<Suite>,
    /// How it compares with the machine of the reference times.
    pub score: Option<f64>,
}

/// A whole run.
#[derive(Clone, Debug)]
pub struct Document {
    /// When it began.
    pub date: String,
    /// Whether all rows and suites of all devices are there.
    pub complete: bool,
    /// What was asked for.
    pub settings: Settings,
    /// The machine.
    pub system: System,
    /// Devices in the order in which they were measured.
    pub devices: Vec<Device>,
    /// Devices that were asked for and could not be opened.
    pub left_out: Vec<Missing>,
    /// This run beside an earlier one, if that was asked for and the run has ended.
    pub baseline: Option<Comparison>,
}

impl Device {
    /// Puts a row in its place.
    pub fn put(&mut self, place: usize, row: Row) {
        let at = self.rows.partition_point(|(p, _)| *p < place);
        self.rows.insert(at, (place, row));
    }

    /// As JSON.
    pub fn json(&self) -> Value {
        let limits = json!({
            "invocations": self.caps.map(|c| c.invocations),
            "workgroup_bytes": self.caps.map(|c| c.workgroup_bytes),
            "binding_bytes": self.caps.map(|c| c.storage_binding),
        });
        json!({
            "name": self.info.name,
            "backend": self.info.backend,
            "type": self.info.kind.to_string(),
            "driver": self.info.driver,
            "pci": self.facts.pci,
            "bus": self.facts.bus,
            "index": self.facts.index,
            "timestamps": self.facts.timestamps,
            "subgroup": self.facts.subgroup,
            "cuda": self.facts.card.as_ref().map(card_json),
            "limits": limits,
            "peaks": self.peaks.json(),
            "rows": self.rows.iter().map(|(_, row)| row.json(&self.peaks)).collect::<Vec<_>>(),
            "suites": self.suites.iter().map(Suite::json).collect::<Vec<_>>(),
            "score": self.score,
        })
    }
}

/// What CUDA says of a card, as JSON.
pub(crate) fn card_json(card: &CardFacts) -> Value {
    let [major, minor] = card.compute_capability;
    json!({
        "compute_capability": format!("{major}.{minor}"),
        "multiprocessors": card.multiprocessors,
        "memory_bytes": card.memory_bytes,
        "l2_bytes": card.l2_bytes,
        "clock_hz": card.clock_hz,
        "memory_clock_hz": card.memory_clock_hz,
        "memory_bus_bits": card.memory_bus_bits,
        "driver": card.driver,
        "nvrtc": card.nvrtc,
        "cublas": card.cublas,
        "cufft": card.cufft,
        "products": card.products,
    })
}

impl Document {
    /// A run that begins now on this machine.
    pub fn begun(settings: Settings) -> Self {
        let date = date(std::time::SystemTime::now());
        Self {
            date,
            complete: false,
            settings,
            system: System::here(),
            devices: Vec::new(),
            left_out: Vec::new(),
            baseline: None,
        }
    }

    /// All rows of all devices.
    pub fn rows(&self) -> impl Iterator<Item = &Row> {
        self.devices.iter().flat_map(|d| d.rows.iter().map(|(_, row)| row))
    }

    /// As JSON.
    pub fn json(&self) -> Value {
        let s = &self.settings;
        json!({
            "schema": SCHEMA,
            "version": VERSION,
            "wgattn": { "version": env!("CARGO_PKG_VERSION"), "commit": commit() },
            "date": self.date,
            "complete": self.complete,
            "left_out": Missing::json(&self.left_out),
            "options": {
                "quick": s.quick,
                "seconds": s.seconds,
                "runs": s.runs,
                "order_seed": s.order_seed,
                "filter": s.filter,
                "case": s.case,
                "cool_down_seconds": s.cool_down_seconds,
                "max_dispatch_ms": s.max_dispatch_ms,
                "suites": s.suites.iter().map(|kind| kind.name).collect::<Vec<_>>(),
                "suite_sizes": s.suite_sizes,
                "tune": s.tuning.to_string(),
            },
            "system": self.system.json(),
            "kernels": hashes(),
            "devices": self.devices.iter().map(Device::json).collect::<Vec<_>>(),
            "baseline": self.baseline.as_ref().map(Comparison::json),
        })
    }

    /// All rows and all points of suites as one CSV table, the names of the columns first, also where there are none yet: what tells devices
    /// apart, what the line is (`row` or `point`), what rows have, and what only points have. Times and errors of both stand in the same
    /// columns.
    pub fn csv(&self) -> String {
        const OF_DEVICE: [&str; 6] = ["name", "backend", "type", "driver", "pci", "bus"];
        let line = |cells: &mut dyn Iterator<Item = String>| cells.collect::<Vec<_>>().join(",") + "\n";
        let of_device = OF_DEVICE.iter().map(|name| format!("device_{name}"));
        let rest = std::iter::once("kind").chain(FIELDS).chain(suites::OF_POINT);
        let mut text = line(&mut of_device.chain(rest.map(String::from)));
        for device in &self.devices {
            let about = device.json();
            let mut add = |kind: &str, of: &Value| {
                let of_device = OF_DEVICE.iter().map(|name| quoted(&about[*name]));
                let rest = FIELDS.iter().chain(&suites::OF_POINT).map(|name| quoted(&of[*name]));
                text += &line(&mut of_device.chain([kind.into()]).chain(rest));
            };
            device.rows.iter().for_each(|(_, row)| add("row", &row.json(&device.peaks)));
            let on_cpu = device.info.kind >= DeviceKind::Software;
            for suite in &device.suites {
                for (series, point) in suite.series.iter().flat_map(|s| s.points.iter().map(move |p| (s, p)))
                {
                    add("point", &suites::cells(on_cpu, suite, &series.name, point));
                }
            }
        }
        text
    }
}

fn quoted(value: &Value) -> String {
    let plain = match value {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        Value::Array(list) => list.iter().filter_map(Value::as_str).collect::<Vec<_>>().join(" + "),
        other => other.to_string(),
    };
    if plain.contains([',', '"', '\n', '\r']) { format!("\"{}\"", plain.replace('"', "\"\"")) } else { plain }
}

#[cfg(test)]
mod tests {
    use super::super::published::{Point, Series};
    use super::super::report::tests::row;
    use super::*;
    use crate::backend::{Backend as _, cpu::CpuBackend};

    fn document() -> Document {
        let mut device = Device {
            info: CpuBackend.info(),
            facts: Facts::default(),
            caps: None,
            peaks: Peaks::default(),
            rows: Vec::new(),
            suites: Vec::new(),
            score: None,
        };
        let failed = Row { outcome: Err("no room".into()), ..row(1.0, 0.0) };
        device.put(7, failed);
        device.put(3, row(0.5, 0.0));
        Document { devices: vec![device], ..Document::begun(Settings::default()) }
    }

    #[test]
    fn rows_stand_in_the_order_of_the_plan_and_unknown_numbers_are_null() {
        let json = document().json();
        assert_eq!(
            (&json["schema"], &json["version"], &json["complete"]),
            (&json!(SCHEMA), &json!(1), &json!(false))
        );
        let device = &json["devices"][0];
        assert_eq!(device["rows"][0]["median_seconds"], 0.5);
        assert_eq!(device["rows"][1]["failure"], "no room");
        assert!(
            device["peaks"]["flop"]["per_second"].is_null()
                && device["peaks"]["memory"] == serde_json::json!([])
        );
        assert!(device["index"].is_null() && device["limits"]["invocations"].is_null(), "{device}");
        let hash = json["kernels"]["matmul"].as_str().expect("a shader");
        assert!(hash.len() == 16 && hash.bytes().all(|b| b.is_ascii_hexdigit()), "{hash}");
    }

    #[test]
    fn a_card_of_cuda_tells_what_it_is_and_others_do_not() {
        let mut document = document();
        assert!(document.json()["devices"][0]["cuda"].is_null());
        let facts = CardFacts {
            compute_capability: [9, 0],
            multiprocessors: Some(132),
            clock_hz: Some(1_980_000_000),
            driver: "12.4".into(),
            products: Some("tf32"),
            ..CardFacts::default()
        };
        document.devices[0].facts.card = Some(facts);
        let json = document.json();
        let cuda = &json["devices"][0]["cuda"];
        assert_eq!((&cuda["compute_capability"], &cuda["products"]), (&json!("9.0"), &json!("tf32")));
        assert!(cuda["multiprocessors"] == 132 && cuda["cublas"].is_null(), "{cuda}");
        let html = super::super::html(&json, None).expect("a document");
        assert!(
            html.contains("compute capability 9.0, 132 multiprocessors, up to 1.98 GHz, CUDA 12.4"),
            "{html}"
        );
    }

    #[test]
    fn csv_quotes_and_keeps_failing_rows() {
        let text = document().csv();
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines.len(), 3, "{text}");
        assert!(
            lines[0].starts_with("device_name,device_backend,") && lines[0].contains(",kernel,case,"),
            "{}",
            lines[0]
        );
        assert!(lines[1].contains("\"a, \"\"b\"\"\""), "{}", lines[1]);
        assert!(lines[2].contains("no room"), "{}", lines[2]);
    }

    /// The cells of a line of CSV by the names of its columns.
    fn by_name(text: &str, line: usize) -> std::collections::BTreeMap<String, String> {
        let mut reader = csv::Reader::from_reader(text.as_bytes());
        let names = reader.headers().expect("names first").clone();
        let record = reader.records().nth(line).expect("so many lines").expect("as many cells as names");
        names.iter().zip(&record).map(|(name, cell)| (name.into(), cell.into())).collect()
    }

    #[test]
    fn csv_has_its_names_before_anything_was_measured_and_points_of_suites_beside_rows() {
        let mut document = document();
        let names = document.csv().lines().next().map(String::from);
        let nothing = Document { devices: Vec::new(), ..document.clone() };
        assert_eq!(nothing.csv().lines().map(String::from).collect::<Vec<_>>(), Vec::from_iter(names));
        let numbers = [("dispatches", 3.0), ("compile_seconds", 0.5)].map(|(name, x)| (name.to_string(), x));
        let good = Point {
            x: Some(1024.0),
            y: Some(0.25),
            y_ends: Some((0.125, 0.5)),
            cpu: Some(0.5),
            samples: Some(10.0),
            flags: vec!["software".into(), "half tuned".into()],
            numbers: numbers.into(),
            ..Point::default()
        };
        let skipped = Point { x: Some(2048.0), skipped: Some("too long, by far".into()), ..Point::default() };
        document.devices[0].suites = vec![Suite {
            name: "frame".into(),
            title: "A frame".into(),
            x: "tokens".into(),
            y: "seconds".into(),
            series: vec![Series { name: "back, to the host".into(), points: vec![good, skipped] }],
        }];
        let text = document.csv();
        assert_eq!(text.lines().count(), 5, "{text}");
        let (row, point, skipped) = (by_name(&text, 0), by_name(&text, 2), by_name(&text, 3));
        assert_eq!(
            (&*row["kind"], &*row["kernel"], &*row["median_seconds"], &*row["suite"]),
            ("row", "matmul", "0.5", "")
        );
        for (name, cell) in [
            ("kind", "point"),
            ("kernel", ""),
            ("suite", "frame"),
            ("series", "back, to the host"),
            ("size", "1024.0"),
            ("size_of", "tokens"),
            ("median_seconds", "0.25"),
            ("p10_seconds", "0.125"),
            ("cpu_seconds", "0.5"),
            ("judged_by", "CPU time"),
            ("samples", "10.0"),
            ("compile_seconds", "0.5"),
            ("flags", "software + half tuned"),
            ("numbers", "dispatches=3"),
        ] {
            assert_eq!(point[name], cell, "{name}");
        }
        assert_eq!((&*skipped["skipped"], &*skipped["median_seconds"]), ("too long, by far", ""));
    }
}
