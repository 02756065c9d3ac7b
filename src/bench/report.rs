//! Rows and roofs of the benchmark as text and as the parts of its document. Seconds and bytes inside, formatted here.

use super::flags::{Clock, Flag};
use super::measure::{Measured, Words};
use super::peaks::{Bound, Ladder, Peak, Peaks, Rung};
use super::stats::{Summary, rate};
use super::units::{memory, prefixed, share, spread};
use crate::kernel::Cost;
use crate::numbers::seconds;
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
    /// Whether it went wrong because the device was lost.
    pub lost: bool,
}

/// Names of a row's fields in the order in which tables show them.
pub(super) const FIELDS: [&str; 33] = [
    "kernel",
    "case",
    "asked_variant",
    "variants",
    "tuned",
    "median_seconds",
    "p10_seconds",
    "p90_seconds",
    "min_seconds",
    "mad_seconds",
    "samples",
    "timing_source",
    "judged_by",
    "cpu_seconds",
    "cpu_p10_seconds",
    "cpu_p90_seconds",
    "flop_per_second",
    "bytes_per_second",
    "exp_per_second",
    "share_of_bound",
    "bound_by",
    "bound_seconds",
    "max_error",
    "tolerance",
    "checked",
    "compile_seconds",
    "encode_seconds",
    "first_run_seconds",
    "flop",
    "bytes",
    "exp",
    "flags",
    "failure",
];

/// Variants that a line for people shows.
const SHOWN: usize = 4;

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

fn peak_json(peak: Peak) -> Value {
    json!({ "per_second": peak.per_second, "per_cpu_second": peak.per_cpu_second })
}

fn ladder_json(ladder: &Ladder) -> Value {
    let rung = |r: &Rung| json!({ "bytes": r.bytes, "per_second": r.peak.per_second, "per_cpu_second": r.peak.per_cpu_second });
    ladder.rungs().map(rung).collect()
}

/// `5.84 GB/s of 64 MiB`, sizes with their speeds.
fn ladder_text(ladder: &Ladder) -> String {
    let rung = |r: &Rung| {
        let by_clock = r.peak.per_second.map(|x| (x, "B/s"));
        let (speed, unit) = r.peak.per_cpu_second.map(|x| (x, "B/CPU s")).or(by_clock)?;
        Some(format!("{} of {}", prefixed(speed, unit), memory(r.bytes)))
    };
    ladder.rungs().filter_map(rung).collect::<Vec<_>>().join(", ")
}

impl Peaks {
    /// As JSON; what is unknown is null.
    pub fn json(&self) -> Value {
        json!({
            "flop": peak_json(self.flop),
            "many_sums": peak_json(self.many_sums),
            "bytes": peak_json(self.memory.largest()),
            "memory": ladder_json(&self.memory),
            "copies": ladder_json(&self.copies),
            "exp": peak_json(self.exp),
            "abs_difference": peak_json(self.abs_difference),
            "gather_words": peak_json(self.gather),
            "stores": peak_json(self.stores),
            "vector_stores": peak_json(self.vector_stores),
            "loads": {
                "storage": peak_json(self.loads.storage),
                "uniform": peak_json(self.loads.uniform),
                "texture": peak_json(self.loads.texture),
                "workgroup": peak_json(self.loads.workgroup),
            },
            "overlap": self.overlap,
            "upload_bytes": peak_json(self.overheads.upload),
            "readback_bytes": peak_json(self.overheads.readback),
            "dispatch_seconds": self.overheads.dispatch_seconds,
            "submit_seconds": self.overheads.submit_seconds,
        })
    }

    /// As a few lines for people.
    pub fn text(&self) -> String {
        let say = |(unit, what, peak): (&str, &str, Peak)| {
            let by_cpu = peak
                .per_cpu_second
                .map_or_else(String::new, |p| format!(" ({} per CPU second)", prefixed(p, unit)));
            let none = || format!("{unit}/s{what} not measured");
            peak.per_second.map_or_else(none, |p| format!("{}/s{what}{by_cpu}", prefixed(p, unit)))
        };
        let list =
            |peaks: &[(&str, &str, Peak)]| peaks.iter().map(|p| say(*p)).collect::<Vec<_>>().join(", ");
        let time = |of: Option<f64>| of.map_or_else(|| "too short to see".into(), seconds);
        let (near, over) = (&self.loads, &self.overheads);
        // On a card loads are not counted by paths, and textures are not filled beforehand.
        let paths = [
            ("words", " storage", near.storage),
            ("words", " uniform", near.uniform),
            ("words", " texture", near.texture),
            ("words", " workgroup", near.workgroup),
        ];
        let mut near_by = String::new();
        if paths.iter().any(|(_, _, peak)| peak.per_second.is_some()) {
            near_by = list(&paths);
        }
        if near.texture.per_second.is_some() {
            near_by += &format!("; {:.0} % of texels hide behind arithmetic", 100.0 * self.overlap);
        }
        let mut copies = ladder_text(&self.memory);
        if self.copies.rungs().next().is_some() {
            copies += &format!("; into textures {}", ladder_text(&self.copies));
        }
        let lines = [
            (
                "arithmetic",
                list(&[
                    ("FLOP", "", self.flop),
                    ("FLOP", " on many sums", self.many_sums),
                    ("|a − b|", "", self.abs_difference),
                    ("exp", "", self.exp),
                ]),
            ),
            ("words near by", near_by),
            (
                "memory",
                list(&[
                    ("B", " copied", self.memory.largest()),
                    ("words", " stored", self.stores),
                    ("words", " as vectors", self.vector_stores),
                    ("words", " gathered", self.gather),
                ]),
            ),
            ("copies", copies),
            (
                "overheads",
                format!(
                    "one more dispatch {}, a submission {}, {}",
                    time(over.dispatch_seconds),
                    time(over.submit_seconds),
                    list(&[("B", " to the device", over.upload), ("B", " back", over.readback)])
                ),
            ),
        ];
        let lines = lines.iter().filter(|(_, text)| !text.is_empty());
        let lines: String = lines.map(|(name, text)| format!("\n  {name:<13}  {text}")).collect();
        format!("roofline measured on this device{lines}")
    }
}

impl Measured {
    /// The least time the device could take for these steps, by processor seconds where it computes on the CPU.
    pub fn bound(&self, peaks: &Peaks) -> Option<Bound> {
        peaks.bound(self.steps.as_ref()?, self.cpu_seconds.is_some())
    }

    /// Operations of one run. Nothing is known of those of the reference: it computes the same result by ways of its own, such as an exact
    /// inverse in place of an iteration.
    fn counted(&self, work: fn(&Cost) -> f64) -> Option<f64> {
        self.steps.as_ref().map(|_| work(&self.cost))
    }

    /// The part of a bound that was reached.
    pub fn share(&self, bound: Bound) -> Option<f64> {
        rate(bound.seconds, self.time().median)
    }
}

impl Row {
    /// What went wrong, if anything.
    pub fn failure(&self) -> Option<&str> {
        self.outcome.as_ref().err().map(String::as_str)
    }

    /// What to know before believing the numbers.
    pub fn flags(&self) -> Vec<Flag> {
        match &self.outcome {
            Ok(measured) => measured.flags.clone(),
            Err(_) if self.lost => vec![Flag::DeviceLost],
            Err(_) => Vec::new(),
        }
    }

    /// The row as a JSON object; every name is there, and a number that could not be measured is null.
    pub fn json(&self, peaks: &Peaks) -> Value {
        let m = self.outcome.as_ref().ok();
        let time = m.map(|m| m.seconds).filter(Summary::is_measurable);
        let cpu = m.and_then(|m| m.cpu_seconds).filter(Summary::is_measurable);
        let of = |s: Option<Summary>, part: fn(&Summary) -> f64| s.as_ref().map(part);
        let counted = |work: fn(&Cost) -> f64| m.and_then(|m| m.counted(work));
        let rates =
            |work: fn(&Cost) -> f64| counted(work).zip(time).and_then(|(work, t)| rate(work, t.median));
        let flop: fn(&Cost) -> f64 = |c| c.flop;
        let exp: fn(&Cost) -> f64 = |c| c.exp;
        let bound = m.and_then(|m| m.bound(peaks));
        let found = m.and_then(|m| m.found);
        json!({
            "kernel": self.kernel,
            "case": self.case,
            "asked_variant": self.variant,
            "variants": m.map_or_else(Vec::new, |m| m.variants.clone()),
            "tuned": m.is_some_and(|m| m.tuned),
            "median_seconds": of(time, |s| s.median),
            "p10_seconds": of(time, |s| s.p10),
            "p90_seconds": of(time, |s| s.p90),
            "min_seconds": of(time, |s| s.min),
            "mad_seconds": of(time, |s| s.mad),
            "samples": m.map(|m| m.seconds.samples),
            "timing_source": m.map(|m| m.source.to_string()),
            "judged_by": m.map(|m| m.judged_by().to_string()),
            "cpu_seconds": of(cpu, |s| s.median),
            "cpu_p10_seconds": of(cpu, |s| s.p10),
            "cpu_p90_seconds": of(cpu, |s| s.p90),
            "compile_seconds": m.map(|m| m.compile_seconds),
            "encode_seconds": m.and_then(|m| m.encode_seconds),
            "first_run_seconds": m.map(|m| m.first_seconds),
            "flop": counted(flop),
            "bytes": m.map(|m| m.cost.bytes),
            "exp": counted(exp),
            "flop_per_second": rates(flop),
            "bytes_per_second": m.zip(time).and_then(|(m, t)| rate(m.cost.bytes, t.median)),
            "exp_per_second": rates(exp),
            "bound_seconds": bound.map(|b| b.seconds),
            "bound_by": bound.map(|b| b.limit.to_string()),
            "share_of_bound": m.zip(bound).and_then(|(m, b)| m.share(b)),
            "max_error": found.map(|f| f.error),
            "tolerance": found.map(|f| f.tolerance),
            "checked": m.map(|m| m.checked.to_string()),
            "flags": self.flags().iter().map(ToString::to_string).collect::<Vec<_>>(),
            "failure": self.failure(),
        })
    }

    /// The row as two lines for people: what it reached, then what stands behind it.
    pub fn text(&self, peaks: &Peaks) -> String {
        let variant = self.variant.as_ref().map_or_else(String::new, |v| format!(" as {v}"));
        let tuned = if self.outcome.as_ref().is_ok_and(|m| m.tuned) { " tuned" } else { "" };
        let name = format!("{}/{}{variant}{tuned}", self.kernel, self.case);
        let m = match &self.outcome {
            Ok(measured) => measured,
            Err(failure) => return format!("{name:<42}  FAILED: {failure}"),
        };
        let mut parts = Vec::new();
        if m.seconds.is_measurable() {
            parts.push(format!("{} {}", of_runs(m.seconds), m.clock()));
        } else {
            parts.push("below timer resolution".into());
        }
        let cpu = m.cpu_seconds.filter(Summary::is_measurable);
        parts.extend(cpu.map(|s| format!("{} {}", of_runs(s), Clock::Cpu)));
        // By the time that the share goes by too, so that both tell the same.
        let per = if m.judged_by() == Clock::Cpu { "CPU s" } else { "s" };
        let work =
            [(m.counted(|c| c.flop), "FLOP"), (m.counted(|c| c.exp), "exp"), (Some(m.cost.bytes), "B")];
        let speed = |(work, unit): (Option<f64>, &str)| {
            Some(prefixed(rate(work?, m.time().median)?, &format!("{unit}/{per}")))
        };
        parts.extend(work.into_iter().filter_map(speed));
        if let Some((bound, reached)) = m.bound(peaks).and_then(|b| Some((b, m.share(b)?))) {
            parts.push(format!("{} of the bound by {}", share(Some(reached)), bound.limit));
        }
        parts.push(match m.found {
            Some(found) => format!("error {:.1e} of at most {:.1e}", found.error, found.tolerance),
            None => "error not known".into(),
        });
        // Who runs many kernels on a software driver is told that once, not in every row.
        let flags: Vec<String> =
            m.flags.iter().filter(|f| **f != Flag::Software).map(ToString::to_string).collect();
        if !flags.is_empty() {
            parts.push(format!("[{}]", flags.join(", ")));
        }
        let fma = |(path, words): (&str, f64)| {
            intensity(m.cost.flop, words).map(|i| format!("{i:.1} FMA per {path} word"))
        };
        let encode = m.encode_seconds.map_or_else(String::new, |s| format!(", encode {}", seconds(s)));
        let mut second = vec![
            shortened(&m.variants),
            format!("{} runs by {}", m.seconds.samples, m.source),
            format!("compile {}{encode}, first run {}", seconds(m.compile_seconds), seconds(m.first_seconds)),
        ];
        if m.checked != super::Checked::All {
            second.push(format!("compared: {}", m.checked));
        }
        second.extend(m.steps.as_ref().map(|_| by_path(m.loaded())).into_iter().flatten().filter_map(fma));
        format!("{name:<42}  {}\n    {}", parts.join(" · "), second.join(" · "))
    }
}

/// The first variants of a list, and how many there are besides.
fn shortened(variants: &[String]) -> String {
    match variants.get(SHOWN..) {
        Some(rest) if rest.len() > 1 => format!("{} + {} more", variants[..SHOWN].join(" + "), rest.len()),
        _ => variants.join(" + "),
    }
}

/// A median with how far a tenth of the runs lies below and above it, in percent.
fn of_runs(s: Summary) -> String {
    spread(s.median, Some((s.p10, s.p90)))
}

#[cfg(test)]
pub(super) mod tests {
    use super::super::expected::Found;
    use super::*;
    use crate::backend::TimingSource;
    use crate::bench::{Checked, StepWork};
    use crate::kernel::Cost;

    /// A row of so many seconds, with so large an error.
    pub(in super::super) fn row(median: f64, error: f64) -> Row {
        let seconds = Summary { median, p10: median, p90: median, min: median, mad: 0.0, samples: 5 };
        let cost = Cost { flop: 4e9, exp: 0.0, stores: 1.0, bytes: 8.0, ..Cost::default() };
        let measured = Measured {
            variants: vec!["matmul/tile64".into()],
            tuned: false,
            seconds,
            source: TimingSource::Wall,
            cpu_seconds: None,
            compile_seconds: 0.125,
            encode_seconds: None,
            first_seconds: 0.25,
            cost,
            steps: Some(vec![StepWork {
                cost,
                words: Words { storage: 1e9, ..Words::default() },
                ..StepWork::default()
            }]),
            found: Some(Found { error, tolerance: 1.0, port: "out" }),
            checked: Checked::All,
            flags: vec![Flag::NoTimestamps],
        };
        Row {
            kernel: "matmul".into(),
            case: "a, \"b\"".into(),
            variant: None,
            outcome: Ok(measured),
            lost: false,
        }
    }

    #[test]
    fn no_time_gives_neither_rates_nor_infinities() {
        for median in [0.0, 1e-30] {
            let (json, text) =
                (row(median, 0.0).json(&Peaks::default()), row(median, 0.0).text(&Peaks::default()));
            assert!(json["median_seconds"].is_null() && json["flop_per_second"].is_null(), "{json}");
            assert!(text.contains("below timer resolution"), "{text}");
            assert!(!text.to_lowercase().contains("inf ") && !text.contains("NaN"), "{text}");
        }
    }

    #[test]
    fn rates_shares_and_intensity_come_from_the_work() {
        let roof = |x: f64| Peak { per_second: Some(x), per_cpu_second: None };
        let flop = roof(16e9);
        let near = crate::bench::PathPeaks { storage: roof(1e12), ..Default::default() };
        let peaks = Peaks { flop, loads: near, stores: roof(1e12), ..Peaks::default() };
        let json = row(0.5, 1e-7).json(&peaks);
        assert_eq!(json["flop_per_second"], 8e9);
        assert_eq!(json["share_of_bound"], 0.5);
        assert_eq!(json["bound_by"], "arithmetic");
        let text = row(0.5, 1e-7).text(&peaks);
        assert!(text.contains("2.0 FMA per storage word") && text.contains("50 % of the bound"), "{text}");
    }

    #[test]
    fn a_failed_row_has_its_reason_and_no_numbers() {
        let failed = Row { outcome: Err("no room".into()), lost: true, ..row(0.5, 0.0) };
        let json = failed.json(&Peaks::default());
        assert_eq!(json["failure"], "no room");
        assert_eq!(json["flags"], json!(["device lost"]));
        let good = row(0.5, 0.0).json(&Peaks::default());
        let names = |v: &Value| v.as_object().map(|o| o.keys().cloned().collect::<Vec<_>>());
        assert_eq!(names(&json), names(&good), "no name is ever absent");
        let mut listed = FIELDS.map(String::from).to_vec();
        listed.sort();
        let mut all = names(&good).expect("an object");
        all.sort();
        assert_eq!(all, listed, "tables have all of them");
        assert!(json["median_seconds"].is_null() && json["max_error"].is_null(), "{json}");
        assert!(failed.text(&Peaks::default()).contains("FAILED: no room"));
    }

    #[test]
    fn small_rates_keep_their_digits_and_say_their_clock() {
        // 1 kFLOP, 8 words and a few bytes in 2 ms.
        let small = |cpu: Option<f64>| {
            let mut row = row(2e-3, 0.0);
            if let Ok(m) = &mut row.outcome {
                m.cost = Cost { flop: 1000.0, exp: 8.0, bytes: 0.5, ..Cost::default() };
                m.cpu_seconds = cpu.and_then(|s| Summary::of(&[s; 5]));
                m.source = TimingSource::Timestamp;
            }
            row
        };
        let text = small(None).text(&Peaks::default());
        assert!(text.contains("2.00 ms (+0 … +0 %) device time"), "{text}");
        assert!(
            text.contains("500 kFLOP/s") && text.contains("4 kexp/s") && text.contains("250 B/s"),
            "{text}"
        );
        // Rates go by the time that the share goes by.
        let text = small(Some(4e-3)).text(&Peaks::default());
        assert!(text.contains("4.00 ms (+0 … +0 %) CPU time") && text.contains("250 kFLOP/CPU s"), "{text}");
        assert!(!text.contains("0.000"), "{text}");
        assert_eq!(small(None).json(&Peaks::default())["judged_by"], "device time");
        assert_eq!(small(Some(4e-3)).json(&Peaks::default())["judged_by"], "CPU time");
        assert_eq!(row(2e-3, 0.0).json(&Peaks::default())["judged_by"], "wall clock");
        let slow = Peak { per_second: Some(64e6), per_cpu_second: Some(0.25) };
        let text = Peaks { gather: slow, ..Peaks::default() }.text();
        assert!(text.contains("64 Mwords/s gathered (0.25 words per CPU second)"), "{text}");
    }
}
