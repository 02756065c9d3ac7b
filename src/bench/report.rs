//! Rows of the benchmark as text, JSON and CSV. Seconds and bytes inside, formatted here.

use super::measure::{Measured, Words};
use super::peaks::{Bound, Peak, Peaks};
use super::stats::rate;
use crate::words::counted;
use serde_json::{Value, json};

/// One case with what came of it.
#[derive(Clone, Debug)]
pub struct Row {
    /// Kernel.
    pub kernel: String,
    /// Case of the kernel.
    pub case: String,
    /// Variant asked for.
    pub variant: Option<String>,
    /// What was measured, or what went wrong.
    pub outcome: Result<Measured, String>,
}

/// Multiply-adds per word loaded; `None` where there are none of either.
fn intensity(flop: f64, words: f64) -> Option<f64> {
    rate(flop / 2.0, words)
}

fn by_path(words: Words) -> [(&'static str, f64); 4] {
    [
        ("storage", words.storage),
        ("uniform", words.uniform),
        ("texture", words.texture),
        ("workgroup", words.workgroup),
    ]
}

impl Peaks {
    fn named(&self) -> [(&'static str, &'static str, Peak); 8] {
        [
            ("flop", "GFLOP", self.flop),
            ("bytes", "GB", self.bytes),
            ("exp", "Gexp", self.exp),
            ("storage_loads", "Gword storage", self.loads.storage),
            ("uniform_loads", "Gword uniform", self.loads.uniform),
            ("texture_loads", "Gword texture", self.loads.texture),
            ("workgroup_loads", "Gword workgroup", self.loads.workgroup),
            ("stores", "Gword stored", self.stores),
        ]
    }

    /// As JSON; what is unknown is null.
    pub fn json(&self) -> Value {
        let one = |(name, _, peak): (&str, &str, Peak)| {
            (
                name.to_string(),
                json!({ "per_second": peak.per_second, "per_cpu_second": peak.per_cpu_second }),
            )
        };
        self.named().into_iter().map(one).collect()
    }

    /// As two lines for people.
    pub fn text(&self) -> String {
        let say = |(_, unit, peak): (&str, &str, Peak)| {
            let by_cpu =
                peak.per_cpu_second.map_or_else(String::new, |p| format!(" ({} per CPU second)", giga(p)));
            let none = || format!("{unit}/s below timer resolution");
            peak.per_second.map_or_else(none, |p| format!("{} {unit}/s{by_cpu}", giga(p)))
        };
        let list = |range: std::ops::Range<usize>| {
            self.named()[range].iter().map(|p| say(*p)).collect::<Vec<_>>().join(", ")
        };
        format!(
            "peaks measured on this device: {}\n  words from near and to memory: {}",
            list(0..3),
            list(3..8)
        )
    }
}

impl Measured {
    /// The least time the device could take for these steps, by processor seconds where it computes on the CPU.
    pub fn bound(&self, peaks: &Peaks) -> Option<Bound> {
        peaks.bound(self.steps.as_ref()?, self.cpu_seconds.is_some())
    }

    /// The part of a bound that was reached.
    pub fn share(&self, bound: Bound) -> Option<f64> {
        rate(bound.seconds, self.cpu_seconds.unwrap_or(self.seconds).median)
    }
}

/// Billions with three digits.
fn giga(x: f64) -> String {
    let g = x * 1e-9;
    match g {
        _ if g >= 100.0 => format!("{g:.0}"),
        _ if g >= 10.0 => format!("{g:.1}"),
        _ => format!("{g:.3}"),
    }
}

impl Row {
    /// What is to be said of a row, by name; both JSON and CSV come from here.
    fn fields(&self, peaks: &Peaks) -> Vec<(&'static str, Value)> {
        let mut fields = vec![
            ("kernel", json!(self.kernel)),
            ("case", json!(self.case)),
            ("asked_variant", json!(self.variant)),
        ];
        let m = match &self.outcome {
            Ok(measured) => measured,
            Err(failure) => {
                fields.push(("failure", json!(failure)));
                return fields;
            }
        };
        let time = m.seconds;
        let seen = |x: f64| if time.is_measurable() { json!(x) } else { Value::Null };
        let [flop, bytes, exp] = [m.cost.flop, m.cost.bytes, m.cost.exp].map(|work| rate(work, time.median));
        let cpu = m.cpu_seconds.map(|s| s.median);
        let share = |peak: Peak, work: f64| peak.share(work, time.median, cpu);
        fields.extend([
            ("variants", json!(m.variants)),
            ("median_seconds", seen(time.median)),
            ("min_seconds", seen(time.min)),
            ("mad_seconds", seen(time.mad)),
            ("samples", json!(time.samples)),
            ("timing_source", json!(m.source.to_string())),
            ("below_timer_resolution", json!(!time.is_measurable())),
            ("first_run_seconds", json!(m.first_seconds)),
            ("cpu_seconds", json!(m.cpu_seconds.filter(super::Summary::is_measurable).map(|s| s.median))),
            ("flop_per_second", json!(flop)),
            ("bytes_per_second", json!(bytes)),
            ("exp_per_second", json!(exp)),
            ("share_of_peak_flop", json!(share(peaks.flop, m.cost.flop))),
            ("share_of_peak_bytes", json!(share(peaks.bytes, m.cost.bytes))),
            ("share_of_peak_exp", json!(share(peaks.exp, m.cost.exp))),
        ]);
        let bound = m.bound(peaks);
        fields.push(("bound_seconds", json!(bound.map(|b| b.seconds))));
        fields.push(("bound_by", json!(bound.map(|b| b.limit.to_string()))));
        fields.push(("share_of_bound", json!(bound.and_then(|b| m.share(b)))));
        for (path, words) in m.steps.as_ref().map(|_| by_path(m.loaded())).into_iter().flatten() {
            let (count, fma) = match path {
                "storage" => ("storage_words", "fma_per_storage_word"),
                "uniform" => ("uniform_words", "fma_per_uniform_word"),
                "texture" => ("texture_words", "fma_per_texture_word"),
                _ => ("workgroup_words", "fma_per_workgroup_word"),
            };
            fields.push((count, json!(words)));
            fields.push((fma, json!(intensity(m.cost.flop, words))));
        }
        fields.push(("max_error", json!(Some(m.error).filter(|e| e.is_finite()))));
        fields.push(("checked", json!(m.checked.to_string())));
        fields.push(("failure", json!(self.failure())));
        fields
    }

    /// What went wrong, if anything: an error, or a result that is no number.
    pub fn failure(&self) -> Option<String> {
        match &self.outcome {
            Err(failure) => Some(failure.clone()),
            Ok(m) if !m.error.is_finite() => {
                Some("the result holds NaN or infinities where the truth is finite".into())
            }
            Ok(_) => None,
        }
    }

    /// The row as a JSON object.
    pub fn json(&self, peaks: &Peaks) -> Value {
        self.fields(peaks).into_iter().map(|(name, value)| (name.to_string(), value)).collect()
    }

    /// The row as two lines for people: speed, then where the words come from.
    pub fn text(&self, peaks: &Peaks) -> String {
        let name = format!("{}/{}", self.kernel, self.case);
        let m = match (&self.outcome, self.failure()) {
            (Ok(measured), None) => measured,
            (_, failure) => {
                let asked = self.variant.as_ref().map_or_else(String::new, |v| format!(" ({v})"));
                return format!("{name}{asked}  FAILED: {}", failure.unwrap_or_default());
            }
        };
        let cpu = m.cpu_seconds.map(|s| s.median);
        let share = |peak: Peak, work: f64| {
            let part = peak.share(work, m.seconds.median, cpu);
            part.map_or_else(String::new, |p| format!(" ({:.1} % of peak)", 100.0 * p))
        };
        let mut parts = Vec::new();
        if m.seconds.is_measurable() {
            parts.push(format!(
                "{} (min {}, MAD {}, {}, {})",
                millis(m.seconds.median),
                millis(m.seconds.min),
                millis(m.seconds.mad),
                counted(m.seconds.samples, "sample", "samples"),
                m.source
            ));
        } else {
            parts.push("below timer resolution".into());
        }
        if let Some(cpu) = m.cpu_seconds.filter(super::Summary::is_measurable) {
            parts.push(format!("{} CPU", millis(cpu.median)));
        }
        for (work, peak, unit) in [
            (m.cost.flop, peaks.flop, "GFLOP/s"),
            (m.cost.bytes, peaks.bytes, "GB/s"),
            (m.cost.exp, peaks.exp, "Gexp/s"),
        ] {
            if let Some(speed) = rate(work, m.seconds.median) {
                parts.push(format!("{} {unit}{}", giga(speed), share(peak, work)));
            }
        }
        if let Some((bound, share)) = m.bound(peaks).and_then(|b| Some((b, m.share(b)?))) {
            parts.push(format!("{:.0} % of the bound by {}", 100.0 * share, bound.limit));
        }
        parts.push(format!("error {:.1e} ({})", m.error, m.checked));
        let fma = |(path, words): (&str, f64)| {
            intensity(m.cost.flop, words).map(|i| format!("{i:.1} FMA per {path} word"))
        };
        let mut second = vec![m.variants.join(" + ")];
        second.extend(m.steps.as_ref().map(|_| by_path(m.loaded())).into_iter().flatten().filter_map(fma));
        second.push(format!("first run {} with compilation", millis(m.first_seconds)));
        format!("{name}  {}\n    {}", parts.join(", "), second.join(", "))
    }
}

fn millis(seconds: f64) -> String {
    let ms = 1e3 * seconds;
    match ms {
        _ if ms >= 100.0 => format!("{ms:.0} ms"),
        _ if ms >= 1.0 => format!("{ms:.2} ms"),
        _ => format!("{ms:.4} ms"),
    }
}

/// All rows as CSV with the names of the fields first.
pub fn csv(rows: &[Row], peaks: &Peaks) -> String {
    let tables: Vec<Vec<(&'static str, Value)>> = rows.iter().map(|r| r.fields(peaks)).collect();
    let mut names: Vec<&'static str> = Vec::new();
    for (name, _) in tables.iter().flatten() {
        if !names.contains(name) {
            names.push(name);
        }
    }
    let mut text = names.join(",") + "\n";
    for table in &tables {
        let cell = |name: &&'static str| {
            table.iter().find(|(n, _)| n == name).map_or_else(String::new, |(_, v)| quoted(v))
        };
        text += &names.iter().map(cell).collect::<Vec<_>>().join(",");
        text.push('\n');
    }
    text
}

fn quoted(value: &Value) -> String {
    let plain = match value {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        Value::Array(list) => list.iter().filter_map(Value::as_str).collect::<Vec<_>>().join(" "),
        other => other.to_string(),
    };
    if plain.contains([',', '"', '\n', '\r']) { format!("\"{}\"", plain.replace('"', "\"\"")) } else { plain }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backend::TimingSource;
    use crate::bench::{Checked, Summary};
    use crate::kernel::Cost;

    fn row(median: f64, error: f64) -> Row {
        let seconds = Summary { median, min: median, mad: 0.0, samples: 5 };
        let cost = Cost { flop: 4e9, exp: 0.0, stores: 1.0, bytes: 8.0 };
        let measured = Measured {
            variants: vec!["matmul/tile64".into()],
            seconds,
            source: TimingSource::Wall,
            cpu_seconds: None,
            first_seconds: 0.25,
            cost,
            steps: Some(vec![(cost, Words { storage: 1e9, ..Words::default() })]),
            error,
            checked: Checked::All,
        };
        Row { kernel: "matmul".into(), case: "a, \"b\"".into(), variant: None, outcome: Ok(measured) }
    }

    #[test]
    fn no_time_gives_neither_rates_nor_infinities() {
        for median in [0.0, 1e-30] {
            let (json, text) =
                (row(median, 0.0).json(&Peaks::default()), row(median, 0.0).text(&Peaks::default()));
            assert!(json["median_seconds"].is_null() && json["flop_per_second"].is_null(), "{json}");
            assert_eq!(json["below_timer_resolution"], true);
            assert!(text.contains("below timer resolution"), "{text}");
            assert!(!text.to_lowercase().contains("inf,") && !text.contains("NaN"), "{text}");
        }
    }

    #[test]
    fn rates_shares_and_intensity_come_from_the_work() {
        let flop = Peak { per_second: Some(16e9), per_cpu_second: None };
        let peaks = Peaks { flop, ..Peaks::default() };
        let json = row(0.5, 1e-7).json(&peaks);
        assert_eq!(json["flop_per_second"], 8e9);
        assert_eq!(json["share_of_peak_flop"], 0.5);
        assert_eq!(json["fma_per_storage_word"], 2.0);
        assert!(json["fma_per_workgroup_word"].is_null(), "no words, no intensity");
    }

    #[test]
    fn a_result_that_is_no_number_is_a_failure() {
        let bad = row(0.5, f64::INFINITY);
        assert!(bad.failure().is_some());
        assert!(bad.json(&Peaks::default())["max_error"].is_null());
        assert!(bad.text(&Peaks::default()).contains("FAILED"));
    }

    #[test]
    fn csv_quotes_and_keeps_failing_rows() {
        let failed = Row {
            kernel: "gram".into(),
            case: "x".into(),
            variant: Some("tile64".into()),
            outcome: Err("no room".into()),
        };
        let text = csv(&[row(0.5, 0.0), failed], &Peaks::default());
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines.len(), 3);
        assert!(lines[1].starts_with("matmul,\"a, \"\"b\"\"\",,"), "{}", lines[1]);
        assert!(lines[2].starts_with("gram,x,tile64,") && lines[2].contains("no room"), "{}", lines[2]);
    }
}
