//! One number for a device: how its times of a fixed set of rows compare with those of a machine whose times are written down.
//!
//! The set, its reference times, and the machine, driver and date they come from stand in `assets/bench/reference.json`.

use super::plan::case_of;
use super::report::Row;
use crate::kernel::{Case, KernelSpec};
use serde_json::Value;

const REFERENCE: &str = include_str!("../../assets/bench/reference.json");

fn reference() -> Value {
    serde_json::from_str(REFERENCE).expect("the file is part of the program and tested")
}

/// The rows of the fixed set.
pub fn rows() -> Vec<(&'static KernelSpec, &'static Case)> {
    reference()["rows"].as_array().into_iter().flatten().filter_map(case_of).collect()
}

/// Where the reference times come from: device, driver, date.
pub fn origin() -> String {
    let all = reference();
    let text = |name: &str| all[name].as_str().unwrap_or("unknown").to_string();
    format!("{} · {} · {} · {}", text("device"), text("driver"), text("machine"), text("date"))
}

/// The geometric mean of reference time over time over all rows of the set (tuned ones where there are both), times being those to judge by (processor seconds where the
/// device computes on the CPU, which do not swell under other load); `None` where one is missing or failed.
pub fn score(measured: &[Row]) -> Option<f64> {
    score_of(&reference(), measured)
}

fn score_of(reference: &Value, measured: &[Row]) -> Option<f64> {
    let rows = reference["rows"].as_array()?;
    let mut logs = 0.0;
    for row in rows {
        let of = |m: &&Row| row["kernel"] == *m.kernel && row["case"] == *m.case && m.variant.is_none();
        // The best that the program can do: a tuned row, where there is one.
        let tuned = |m: &&Row| of(m) && m.outcome.as_ref().is_ok_and(|m| m.tuned);
        let found =
            measured.iter().find(tuned).or_else(|| measured.iter().find(of))?.outcome.as_ref().ok()?;
        let time = Some(found.time()).filter(super::Summary::is_measurable)?.median;
        logs += (row["seconds"].as_f64().filter(|s| *s > 0.0)? / time).ln();
    }
    (!rows.is_empty()).then(|| (logs / rows.len() as f64).exp())
}

#[cfg(test)]
mod tests {
    use super::super::report::tests::row;
    use super::*;
    use serde_json::json;

    #[test]
    fn the_fixed_set_is_of_rows_that_there_are() {
        let all = reference();
        let listed = all["rows"].as_array().map_or(0, Vec::len);
        assert!(listed >= 10, "{listed}");
        assert_eq!(rows().len(), listed, "a row of the set is no benchmark case any more");
        for row in all["rows"].as_array().into_iter().flatten() {
            assert!(row["seconds"].as_f64().is_some_and(|s| s > 0.0), "{row}");
        }
        assert!(!origin().contains("unknown"), "{}", origin());
    }

    #[test]
    fn the_score_is_the_mean_of_ratios_and_needs_every_row() {
        let named = |case: &str, seconds: f64| {
            let mut row = row(seconds, 0.0);
            row.case = case.into();
            row
        };
        let reference = json!({ "rows": [
            { "kernel": "matmul", "case": "a", "seconds": 1.0 },
            { "kernel": "matmul", "case": "b", "seconds": 1.0 },
        ] });
        let score = score_of(&reference, &[named("a", 0.5), named("b", 0.125), named("c", 9.0)]);
        assert!(score.is_some_and(|s| (s - 4.0).abs() < 1e-12), "{score:?}");
        assert_eq!(score_of(&reference, &[named("a", 0.5)]), None, "a row is missing");
        let mut failed = named("b", 1.0);
        failed.outcome = Err("lost".into());
        assert_eq!(score_of(&reference, &[named("a", 0.5), failed]), None, "a row failed");
    }
}
