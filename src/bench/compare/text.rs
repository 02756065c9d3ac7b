//! A comparison as a table for terminals: one line per row, ratios to the first, words only where there is something to say.

use super::{Cell, Comparison, Group, Line, RULE, Verdict};
use crate::bench::units::{LONGEST, error, moment, one_line, ratio, shortened, time};
use crate::words::counted;

/// Longest label of a column or a row.
const MOST: usize = 60;

impl Comparison {
    /// For people: a table per group, what changed, and by which rule.
    pub fn text(&self) -> String {
        let mut parts: Vec<String> =
            self.notes.iter().map(|note| format!("note: {}", one_line(note))).collect();
        parts.extend(self.groups.iter().map(Group::text));
        parts.push(RULE.into());
        parts.join("\n")
    }
}

/// What a column says of a row besides its ratio.
pub(in crate::bench) fn remark(cell: &Cell) -> String {
    let mut words = Vec::new();
    if !matches!(cell.verdict, Verdict::First | Verdict::Same) {
        words.push(match cell.verdict {
            Verdict::Slower => "SLOWER".into(),
            Verdict::Failed => "FAILS NOW".into(),
            Verdict::Wrong => "WRONG NOW".into(),
            other => other.to_string(),
        });
    }
    if cell.wrong && cell.verdict != Verdict::Wrong {
        words.push("wrong".into());
    }
    if cell.first_is_wrong {
        words.push("wrong in the first".into());
    }
    if cell.error_grew && cell.verdict != Verdict::Wrong {
        words.push(format!("error grew to {}", error(cell.max_error)));
    }
    if cell.kernel_changed {
        words.push("other WGSL".into());
    }
    words.join(", ")
}

impl Group {
    fn text(&self) -> String {
        let mut lines = Vec::new();
        for (at, column) in self.columns.iter().enumerate() {
            let device = &column.device;
            let driver = device.driver.as_deref().unwrap_or("unknown driver");
            let known = [device.name.as_str(), &device.backend, driver].into_iter().filter(|w| !w.is_empty());
            let label = (b'A' + (at % 26) as u8) as char;
            let words: Vec<String> = known.map(|w| shortened(&one_line(w), LONGEST)).collect();
            lines.push(format!(
                "{label}  {}: {} · wgattn {}, {}",
                one_line(&column.label),
                words.join(" · "),
                one_line(&column.run[0]),
                one_line(&moment(&column.run[2]))
            ));
        }
        let unit = if self.by_cpu { "processor seconds" } else { "time" };
        lines.push(format!("{unit} of a run, and its ratio to A (above 1 is slower)"));
        lines.extend(aligned(&self.cells()));
        for (at, column) in self.columns.iter().enumerate().skip(1) {
            let count = |verdict| self.lines.iter().filter(|l| l.cells[at].verdict == verdict).count();
            let said = [
                Verdict::Slower,
                Verdict::Faster,
                Verdict::Same,
                Verdict::Unclear,
                Verdict::Failed,
                Verdict::Wrong,
            ]
            .into_iter()
            .map(|v| (count(v), v))
            .filter(|(count, _)| *count > 0)
            .map(|(count, v)| format!("{count} {v}"));
            let said: Vec<String> = said.collect();
            let means = [
                (column.compared, column.geometric_mean, ["row", "rows"]),
                (column.points_compared, column.points_mean, ["point", "points"]),
            ];
            let told = means.iter().filter(|(count, ..)| *count > 0).map(|(count, mean, [one, many])| {
                format!("of {} {}", counted(*count, one, many), ratio(*mean))
            });
            let told: Vec<String> = told.collect();
            let means = match told.is_empty() {
                true => "no ratio".into(),
                false => format!("geometric mean of ratios {}", told.join(", ")),
            };
            lines.push(format!(
                "{}: {means}; {}",
                one_line(&column.label),
                if said.is_empty() { "nothing in common".into() } else { said.join(", ") }
            ));
        }
        for line in &self.lines {
            let failures = line.cells.iter().zip(&self.columns).filter_map(|(c, column)| {
                Some(one_line(&format!("{}, {}: {}", line.name(), column.label, c.failure.as_ref()?)))
            });
            lines.extend(failures);
        }
        if !self.changed_kernels.is_empty() {
            lines.push(format!("kernels with other WGSL: {}", one_line(&self.changed_kernels.join(", "))));
        }
        lines.join("\n")
    }

    fn cells(&self) -> Vec<Vec<String>> {
        let points = self.lines.iter().filter(|l| l.size.is_some()).count();
        let mut head = vec![if points == 0 { "row" } else { "row or point" }.to_string()];
        for at in 0..self.columns.len() {
            head.push(((b'A' + (at % 26) as u8) as char).to_string());
            if at > 0 {
                head.extend(["ratio".to_string(), String::new()]);
            }
        }
        let body = |line: &Line| {
            let mut row = vec![shortened(&one_line(&line.name()), MOST)];
            for (at, cell) in line.cells.iter().enumerate() {
                row.push(time(cell.time.map(|t| t.median)));
                if at > 0 {
                    row.extend([ratio(cell.ratio), remark(cell)]);
                }
            }
            row
        };
        std::iter::once(head).chain(self.lines.iter().map(body)).collect()
    }
}

/// Columns under each other; words to the left, numbers to the right.
fn aligned(rows: &[Vec<String>]) -> Vec<String> {
    let columns = rows.first().map_or(0, Vec::len);
    let width = |at: usize| rows.iter().map(|row| row[at].chars().count()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..columns).map(width).collect();
    let is_words = |at: usize| at == 0 || (at > 1 && (at - 1).is_multiple_of(3));
    let line = |row: &Vec<String>| {
        let cells = row.iter().enumerate().map(|(at, text)| {
            let gap = " ".repeat(widths[at] - text.chars().count());
            if is_words(at) { format!("{text}{gap}") } else { format!("{gap}{text}") }
        });
        cells.collect::<Vec<_>>().join("  ").trim_end().to_string()
    };
    rows.iter().map(line).collect()
}
