//! What a result is compared with: the f64 reference of all of it, or of a part that can be had in a reasonable time, and how far off
//! it may be by the kernel's own tolerance.

use crate::backend::Program;
use crate::error::{Error, Result};
use crate::kernel::case::{Concrete, deviation};
use crate::kernel::{Access, KernelSpec};
use crate::tensor::{HostTensor, Shape, Tensor};
use std::collections::HashMap;
use std::sync::Arc;

/// What an exponential counts, in operations, as elsewhere.
const EXP_WORK: f64 = 8.0;
/// How many times the work that a check should cost it may cost where nothing smaller can be cut out.
const MOST_OVER: f64 = 64.0;
/// Bytes of references that are kept for the next device or variant.
const MOST_KEPT: usize = 1 << 30;

/// How much of a result was compared with the reference.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Checked {
    /// Every number.
    All,
    /// The first head of the first batch element.
    FirstHead,
    /// So many of its first rows.
    FirstRows(u32),
    /// Nothing: the reference would take too long.
    Nothing,
}

impl std::fmt::Display for Checked {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::All => f.write_str("all"),
            Self::FirstHead => f.write_str("first head"),
            Self::FirstRows(rows) => write!(f, "first head, {rows} of its rows"),
            Self::Nothing => f.write_str("nothing, its reference would take too long"),
        }
    }
}

/// How much to compare.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Check {
    /// As much as the reference computes in about so many operations.
    Work(f64),
    /// So many first rows of a probe, whose rows do not depend on each other.
    Rows(u32),
}

/// The truth about a result.
#[derive(Debug)]
pub struct Expected {
    /// How much of it there is.
    pub checked: Checked,
    /// Outputs in port order; `None` for inputs and what is not compared.
    truth: Vec<Option<HostTensor>>,
    /// Error that each may have, relative to its largest value.
    allowed: Vec<f64>,
}

/// How far a result is from the truth.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Found {
    /// Largest error, relative to the largest value of the output; infinite where a result is no number and the truth is.
    pub error: f64,
    /// What it may be.
    pub tolerance: f64,
    /// The output in which it is.
    pub port: &'static str,
}

impl Found {
    /// Whether the result is what the kernel promises.
    pub fn is_right(&self) -> bool {
        self.error <= self.tolerance
    }

    /// Whether a measurement of it may stand: the result is right, or of a program whose products are rounded because somebody asked for
    /// that, and made of numbers.
    pub fn stands(&self, program: &dyn Program) -> bool {
        self.is_right() || (program.rounds_products() && self.error.is_finite())
    }
}

fn work(part: &Concrete) -> f64 {
    let cost = (part.spec.cost)(&part.dims, &part.params);
    cost.flop + EXP_WORK * cost.exp
}

/// The first rows of a case of one head: ports whose third dimension is one of `units` hold so many of its units.
fn first_rows(whole: &Concrete, units: &[(&'static str, u32)], count: u32) -> Result<Concrete> {
    let mut part = whole.clone();
    let cut = |name: &str, size: u32| {
        let unit = units.iter().find(|(n, _)| *n == name);
        unit.map_or(size, |(_, rows)| size.min(count.saturating_mul(*rows)))
    };
    for (name, _) in units {
        part.dims.set(name, cut(name, whole.dims.size(name)));
    }
    for (index, port) in whole.spec.ports.iter().enumerate() {
        let Some(shape) = whole.shapes[index].filter(|_| port.dims.len() > 2 && port.dims[0] == "b") else {
            continue;
        };
        let mut sizes = shape.dims().to_vec();
        sizes[2] = cut(port.dims[2], sizes[2]);
        let shape = Shape::new(&sizes)?;
        part.shapes[index] = Some(shape);
        part.inputs[index] = whole.inputs[index].as_ref().map(|i| i.beginning(shape)).transpose()?;
    }
    Ok(part)
}

/// The part of a case that is compared; `None` where there is none that would not take too long.
fn part_of(concrete: &Concrete, check: Check) -> Result<Option<(Checked, Concrete)>> {
    let limit = match check {
        Check::Rows(rows) => {
            let units: Vec<_> =
                concrete.dims.iter().map(|(n, _)| (n, 1)).filter(|(n, _)| *n == "n").collect();
            return Ok(Some((Checked::FirstRows(rows), first_rows(concrete, &units, rows)?)));
        }
        Check::Work(limit) => limit,
    };
    if work(concrete) <= limit {
        return Ok(Some((Checked::All, concrete.clone())));
    }
    let head = concrete.first_head()?;
    let checked = if concrete.dims.batches() == 1 { Checked::All } else { Checked::FirstHead };
    if work(&head) <= limit {
        return Ok(Some((checked, head)));
    }
    // What a dispatch may be cut into has rows that do not depend on each other.
    let units = (head.spec.window)(&head.dims, &head.params);
    let Some(&(name, unit)) = units.first() else {
        return Ok((work(&head) <= MOST_OVER * limit).then_some((checked, head)));
    };
    let size = head.dims.size(name);
    let wanted = f64::from(size) * limit / work(&head) / f64::from(unit.max(1));
    // A part of a dimension: it fits.
    let part = first_rows(&head, &units, (wanted as u32).max(1))?;
    let checked = Checked::FirstRows(part.dims.size(name));
    Ok((work(&part) <= MOST_OVER * limit).then_some((checked, part)))
}

/// Whether a port is an output that every backend must agree on.
fn compared(spec: &KernelSpec, port: usize) -> bool {
    spec.ports[port].access == Access::Write && !spec.ports[port].diagnostic
}

impl Expected {
    /// Computes the reference of a case, and by how much a naive f32 computation misses it.
    ///
    /// Errors: whatever the reference reports.
    pub fn of(concrete: &Concrete, check: Check) -> Result<Self> {
        let Some((checked, part)) = part_of(concrete, check)? else {
            return Ok(Self { checked: Checked::Nothing, truth: Vec::new(), allowed: Vec::new() });
        };
        let (spec, mut truth, naive) = (part.spec, part.truth()?, part.naive()?);
        let mut allowed = vec![0.0; spec.ports.len()];
        for index in 0..spec.ports.len() {
            if !compared(spec, index) {
                truth[index] = None;
            }
            if let (Some(truth), Some(naive)) = (&truth[index], &naive[index]) {
                allowed[index] =
                    spec.tolerance.factor * deviation(naive, truth)?.error + spec.tolerance.floor;
            }
        }
        Ok(Self { checked, truth, allowed })
    }

    /// Compares a program's outputs: the one that is worst beside what it may be. `None` where nothing is compared.
    ///
    /// Errors: whatever reading reports.
    pub fn compare(
        &self,
        spec: &KernelSpec,
        program: &mut dyn Program,
        tensors: &[Option<Tensor>],
    ) -> Result<Option<Found>> {
        let mut worst: Option<Found> = None;
        for (index, truth) in self.truth.iter().enumerate() {
            let (Some(tensor), Some(truth)) = (tensors[index], truth) else { continue };
            let error = deviation(&program.read(tensor)?.beginning(truth.shape())?, truth)?.error;
            let found = Found { error, tolerance: self.allowed[index], port: spec.ports[index].name };
            let over = |f: &Found| if f.error == 0.0 { 0.0 } else { f.error / f.tolerance };
            if worst.is_none_or(|w| over(&found) > over(&w)) {
                worst = Some(found);
            }
        }
        Ok(worst)
    }

    fn bytes(&self) -> usize {
        self.truth.iter().flatten().map(|t| t.shape().len() as usize * 8).sum()
    }
}

/// References by the names of their rows: several devices and variants are compared with the same numbers.
#[derive(Debug, Default)]
pub struct Truths {
    /// Whether any is asked for twice.
    keeps: bool,
    kept: HashMap<String, Arc<Expected>>,
    bytes: usize,
}

impl Truths {
    /// None yet; they are kept only where they will be asked for again, because they are large.
    pub fn new(keeps: bool) -> Self {
        Self { keeps, ..Self::default() }
    }

    /// The reference of a row, computed now or before.
    ///
    /// Errors: as [`Expected::of`].
    pub fn find(&mut self, row: &str, concrete: &Concrete, check: Check) -> Result<Arc<Expected>> {
        if let Some(found) = self.kept.get(row) {
            return Ok(Arc::clone(found));
        }
        let expected = Arc::new(Expected::of(concrete, check)?);
        if self.keeps && self.bytes + expected.bytes() <= MOST_KEPT {
            self.bytes += expected.bytes();
            self.kept.insert(row.to_string(), Arc::clone(&expected));
        }
        Ok(expected)
    }
}

/// What is wrong with a result, in one line.
pub(super) fn wrong(kernel: &str, found: Found) -> Error {
    let what = format!("{kernel}: error of `{}` against the f64 reference", found.port);
    let expected = format!("at most {:.2e} of its largest value", found.tolerance);
    let got = match found.error.is_finite() {
        true => format!("{:.2e}", found.error),
        false => "NaN or infinities where the truth is finite".into(),
    };
    let remedy =
        "do not use this kernel on this device; `wgattn shaders` prints its text for the driver's authors";
    Error::value(what, expected, got, remedy)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernels::find;

    fn part(kernel: &str, case: &str, check: Check) -> (Checked, Concrete) {
        let spec = find(kernel).expect("a kernel of the list");
        let case = spec.cases.iter().find(|c| c.name == case).expect("one of its cases");
        part_of(&Concrete::of(spec, case).expect("a case"), check).expect("a part").expect("not too long")
    }

    #[test]
    fn large_cases_are_compared_by_a_head_or_by_some_rows() {
        let (checked, _) = part("kernel_matrix", "tokens_3136x49", Check::Work(1e12));
        assert_eq!(checked, Checked::All);
        let (checked, head) = part("kernel_matrix", "tokens_3136x49", Check::Work(2e7));
        assert_eq!((checked, head.dims.size("n")), (Checked::FirstHead, 3136));
        let (checked, rows) = part("kernel_matrix", "tokens_3136x49", Check::Work(1e6));
        assert!(matches!(checked, Checked::FirstRows(n) if (1..3136).contains(&n)), "{checked}");
        assert_eq!(rows.inputs[0].as_ref().map(|q| q.shape().dims()[2]), Some(rows.dims.size("n")));
        let (checked, probe) = part("probe_fma", "peak", Check::Rows(64));
        assert_eq!((checked, probe.dims.size("n")), (Checked::FirstRows(64), 64));
    }

    #[test]
    fn rows_of_the_reference_are_those_of_the_whole() {
        let spec = find("kernel_matrix").expect("a kernel of the list");
        let case = spec.cases.iter().find(|c| c.name == "odd").expect("one of its cases");
        let concrete = Concrete::of(spec, case).expect("a case").first_head().expect("a head");
        let whole = concrete.truth().expect("a reference");
        let rows = first_rows(&concrete, &[("n", 1)], 3).expect("rows").truth().expect("a reference");
        for (whole, rows) in whole.iter().zip(&rows) {
            if let (Some(whole), Some(rows)) = (whole, rows) {
                assert_eq!(&whole.beginning(rows.shape()).expect("fewer"), rows);
            }
        }
    }
}
