//! A comparison as JSON: schema `wgattn-bench-comparison`, version 1.

use super::{Cell, Column, Comparison, Group, Line, RULE};
use serde_json::{Value, json};

impl Comparison {
    /// `groups[].columns[]` are the devices, `groups[].rows[].cells[]` one entry for each of them, and so are the cells of `points[]`, which
    /// are those of suites; times in seconds, `ratio` to the first.
    pub fn json(&self) -> Value {
        json!({
            "schema": "wgattn-bench-comparison",
            "version": 1,
            "rule": RULE,
            "regressions": self.regressions(),
            "wrong": self.wrong(),
            "nothing_in_common": self.apart,
            "notes": self.notes,
            "groups": self.groups.iter().map(group).collect::<Vec<_>>(),
        })
    }
}

fn group(group: &Group) -> Value {
    json!({
        "by": if group.by_cpu { "processor seconds" } else { "time" },
        "least_change": group.least,
        "columns": group.columns.iter().map(column).collect::<Vec<_>>(),
        "changed_kernels": group.changed_kernels,
        "rows": group.lines.iter().filter(|l| l.size.is_none()).map(line).collect::<Vec<_>>(),
        "points": group.lines.iter().filter_map(point).collect::<Vec<_>>(),
    })
}

fn column(column: &Column) -> Value {
    let [version, commit, date] = &column.run;
    json!({
        "label": column.label,
        "wgattn": { "version": version, "commit": commit },
        "date": date,
        "device": {
            "name": column.device.name,
            "backend": column.device.backend,
            "type": column.device.kind,
            "driver": column.device.driver,
            "bus": column.device.bus,
        },
        "score": column.device.score,
        "geometric_mean": column.geometric_mean,
        "compared_rows": column.compared,
        "geometric_mean_of_points": column.points_mean,
        "compared_points": column.points_compared,
    })
}

fn line(line: &Line) -> Value {
    json!({
        "kernel": line.kernel,
        "case": line.case,
        "asked_variant": line.variant,
        "tuned": line.tuned,
        "cells": line.cells.iter().map(cell).collect::<Vec<_>>(),
    })
}

/// A point of a suite; nothing for rows.
fn point(line: &Line) -> Option<Value> {
    let (size, of) = line.size.as_ref()?;
    Some(json!({
        "suite": line.kernel,
        "series": line.case,
        "size": size,
        "size_of": of,
        "cells": line.cells.iter().map(cell).collect::<Vec<_>>(),
    }))
}

fn cell(cell: &Cell) -> Value {
    let interval = cell.time.and_then(|t| t.interval);
    json!({
        "seconds": cell.time.map(|t| t.median),
        "low_seconds": interval.map(|i| i.0),
        "high_seconds": interval.map(|i| i.1),
        "ratio": cell.ratio,
        "verdict": cell.verdict.to_string(),
        "regression": cell.verdict.is_regression(),
        "max_error": cell.max_error,
        "wrong": cell.wrong,
        "error_grew": cell.error_grew,
        "kernel_changed": cell.kernel_changed,
        "failure": cell.failure,
    })
}
