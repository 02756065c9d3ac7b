//! A schedule as text (for snapshots and reports) and as DOT (for a picture of it).

use super::{Kind, Schedule, Step};
use crate::tensor::Tensor;
use crate::words::counted;
use std::fmt::{self, Write as _};

/// Bytes with a unit, as people read them.
pub fn human_bytes(bytes: u64) -> String {
    match bytes {
        0..1024 => format!("{bytes} B"),
        1024..1_048_576 => format!("{:.1} KiB", bytes as f64 / 1024.0),
        1_048_576..1_073_741_824 => format!("{:.1} MiB", bytes as f64 / 1_048_576.0),
        _ => format!("{:.2} GiB", bytes as f64 / 1_073_741_824.0),
    }
}

impl Schedule {
    fn place(&self, tensor: Tensor) -> String {
        let (base, from) = self.base(tensor);
        let part = if from > 0 { format!("+{from}") } else { String::new() };
        match (self.tensors[base as usize].kind, self.slot_of[base as usize]) {
            (Kind::Transient, Some(slot)) => format!("@{slot}{part}"),
            (Kind::Input, _) => format!("@in{part}"),
            (Kind::Constant, _) => format!("@const{part}"),
            _ => format!("@out{part}"),
        }
    }

    fn argument(&self, port: &str, tensor: Tensor) -> String {
        let info = &self.tensors[tensor.id as usize];
        format!("{port}={}{}{}", info.name, tensor.shape(), self.place(tensor))
    }

    fn line(&self, step: &Step) -> String {
        let ports = || step.kernel.ports.iter().zip(&step.args).filter_map(|(p, a)| a.map(|a| (p, a)));
        let list = |write: bool| -> String {
            let chosen = ports().filter(|(p, _)| (p.access == crate::kernel::Access::Write) == write);
            chosen.map(|(p, a)| self.argument(p.name, a)).collect::<Vec<_>>().join(" ")
        };
        format!("{:<24} {} -> {}", step.kernel.name, list(false), list(true))
    }

    /// The schedule as a DOT graph: boxes are steps, edges the tensors between them.
    pub fn to_dot(&self) -> String {
        let mut out = format!(
            "digraph {:?} {{\n  rankdir=TB; node [shape=box, fontname=\"sans-serif\"];\n",
            self.label
        );
        let mut writer: Vec<Option<usize>> = vec![None; self.tensors.len()];
        for (index, step) in self.steps.iter().enumerate() {
            let _ = writeln!(out, "  s{index} [label=\"{index}: {}\"];", step.kernel.name);
            for tensor in step.reads() {
                let base = self.base(tensor).0 as usize;
                let name = &self.tensors[base].name;
                match writer[base] {
                    Some(from) => {
                        let _ = writeln!(out, "  s{from} -> s{index} [label=\"{name} {}\"];", tensor.shape());
                    }
                    None => {
                        let _ = writeln!(
                            out,
                            "  t{base} [label=\"{name}\", shape=ellipse]; t{base} -> s{index};"
                        );
                    }
                }
            }
            for tensor in step.writes() {
                writer[self.base(tensor).0 as usize] = Some(index);
            }
        }
        for (id, info) in
            self.tensors.iter().enumerate().filter(|(_, t)| t.kind == Kind::Output && t.base.is_none())
        {
            if let Some(from) = writer[id] {
                let _ = writeln!(out, "  o{id} [label=\"{}\", shape=ellipse]; s{from} -> o{id};", info.name);
            }
        }
        out.push_str("}\n");
        out
    }
}

impl fmt::Display for Schedule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "schedule \"{}\": {}, {}, {} transient ({} without sharing), {} dropped",
            self.label,
            counted(self.steps.len(), "step", "steps"),
            counted(self.slots.len(), "slot", "slots"),
            human_bytes(self.transient_bytes()),
            human_bytes(self.transient_bytes_unshared()),
            self.dropped.len()
        )?;
        for (index, step) in self.steps.iter().enumerate() {
            writeln!(f, "{index:>4} {}", self.line(step))?;
        }
        for (index, slot) in self.slots.iter().enumerate() {
            let name = |&id: &u32| {
                let span = self.spans[id as usize].map_or_else(String::new, |(a, b)| format!(" {a}-{b}"));
                format!("{}{span}", self.tensors[id as usize].name)
            };
            let names: Vec<_> = slot.tensors.iter().map(name).collect();
            writeln!(f, "   @{index} {}: {}", human_bytes(slot.bytes), names.join(", "))?;
        }
        Ok(())
    }
}
