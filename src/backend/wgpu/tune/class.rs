//! Which steps share a choice of variant: those of one kernel whose sizes are alike and that the same variants suit.

use crate::backend::cache::hash;
use crate::graph::{Schedule, Step};
use crate::kernel::{Role, Variant};
use std::fmt::Write as _;

/// A class of steps. Its parts are words without tabs and line ends, because they stand in files.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Class {
    /// The kernel.
    pub(super) kernel: String,
    /// Sizes, ports and fixed parameters.
    pub(super) shape: String,
    /// What there is to choose from, in the device's order, and a number that changes with its text.
    pub(super) candidates: String,
}

impl Class {
    /// The class of a step.
    ///
    /// `b=1 h=8 n=4096:4 d=64`: sizes rounded up to powers of two, with `:4` after multiples of four, which variants ask for. Then a
    /// letter for every port: `x` given, `1` one for all heads, `-` left out, `c` numbers that the graph knows. Then fixed parameters,
    /// which are part of the shader.
    pub(super) fn of(step: &Step, schedule: &Schedule, candidates: &[&'static Variant]) -> Self {
        let mut shape = String::new();
        for (name, size) in step.dims.iter() {
            // A size past 2³¹ stays what it is.
            let rounded = size.checked_next_power_of_two().unwrap_or(size);
            let whole = if size.is_multiple_of(4) { ":4" } else { "" };
            let _ = write!(shape, "{name}={rounded}{whole} ");
        }
        let batches = step.dims.batches();
        for (port, arg) in step.kernel.ports.iter().zip(&step.args) {
            shape.push(match arg {
                None => '-',
                Some(t) if schedule.tensors[schedule.base(*t).0 as usize].constant.is_some() => 'c',
                Some(t) if port.broadcast && u64::from(t.dim(0)) * u64::from(t.dim(1)) < batches => '1',
                Some(_) => 'x',
            });
        }
        for field in step.kernel.params.iter().filter(|f| f.role == Role::Fixed) {
            let bits = field.bytes_in(step.kernel.params, &step.params);
            let _ = write!(shape, " {}={:x}", field.name, bytemuck::pod_read_unaligned::<u32>(bits));
        }
        let names: Vec<&str> = candidates.iter().map(|v| v.name).collect();
        let texts = candidates.iter().flat_map(|v| v.shared.iter().map(|s| s.body).chain([v.body]));
        let candidates = format!("{} {:016x}", names.join(","), hash(names.iter().copied().chain(texts)));
        Self { kernel: step.kernel.name.into(), shape, candidates }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::graph::Lowering;
    use crate::kernel::OnWgpu;
    use crate::kernel::case::Concrete;
    use crate::kernels::find;
    use crate::tensor::Dims;

    /// The class of a product of so many rows, chosen among the first few variants.
    fn class(case: &str, rows: u32, variants: usize) -> Class {
        let spec = find("matmul").expect("a kernel of the list");
        let case = spec.cases.iter().find(|c| c.name == case).expect("one of its cases");
        let mut dims = Dims::of(case.dims);
        dims.set("n", rows);
        dims.set("ar", rows);
        let concrete = Concrete::with_dims(spec, case, dims).expect("a case");
        let (graph, _, _) = concrete.graph().expect("a graph");
        let schedule = graph.schedule(Lowering::Reference).expect("a schedule");
        let OnWgpu::Shader(list) = &spec.wgpu else { panic!("a product is no composition") };
        Class::of(&schedule.steps[0], &schedule, &list.iter().take(variants).collect::<Vec<_>>())
    }

    #[test]
    fn sizes_that_are_alike_share_a_class_and_others_do_not() {
        let rows = |n: u32| class("odd", n, 2);
        assert_eq!(rows(520), rows(1000));
        assert_ne!(rows(520), rows(521), "one is a multiple of four");
        assert_ne!(rows(512), rows(520), "a power of two is the last of its class");
        assert_eq!(rows(17).shape.matches("n=32 ").count(), 1, "{:?}", rows(17));
    }

    #[test]
    fn ports_parameters_and_variants_tell_classes_apart() {
        let shape = |case: &str| class(case, 37, 2).shape;
        assert!(shape("odd").contains(" xxxxx "), "{}", shape("odd"));
        // A bias, and weights for all heads.
        assert!(shape("shared_weights").contains(" x1-1x "), "{}", shape("shared_weights"));
        assert!(shape("odd").ends_with("transpose_a=0 transpose_w=0"), "{}", shape("odd"));
        assert_ne!(class("odd", 37, 2).candidates, class("odd", 37, 3).candidates);
    }
}
