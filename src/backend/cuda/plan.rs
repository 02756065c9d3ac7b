//! What a step becomes on CUDA: the source that suits, its blocks, and the bytes of its parameters.

use crate::error::{Error, Result};
use crate::graph::{Schedule, Step};
use crate::kernel::cuda::{Source, Word, join, words};
use crate::kernel::{Caps, Driver, KernelParams, Library, OnCuda};
use crate::kernels::fft::fft;
use crate::kernels::linalg::matmul;

/// What kernels may ask of every card that we support: compute capability 7.5 and up.
pub(crate) const CAPS: Caps = Caps {
    driver: Driver::Gpu,
    // What a block may declare; more must be asked for, by architecture.
    workgroup_bytes: 49_152,
    invocations: 1024,
    storage_binding: u64::MAX,
    buffer: u64::MAX,
    storage_buffers: u32::MAX,
    texture_rows: 0,
    storage_alignment: 4,
    groups: i32::MAX as u32,
    loop_rounds: u64::MAX,
    subgroup_lanes: 32,
    memory_budget: 2 << 30,
};

/// A launch of one step.
#[derive(Clone, Debug)]
pub(crate) struct Launch {
    /// The source.
    pub(crate) source: &'static Source,
    /// Its text for this shape.
    pub(crate) text: String,
    /// Blocks; 0 where there is nothing to do.
    pub(crate) blocks: u32,
}

/// How a step is done.
#[derive(Clone, Debug)]
pub(crate) enum Action {
    /// By a source.
    Launch(Launch),
    /// By a library, with a launch after it that does what the library leaves undone.
    Library(Library, Launch),
}

/// Whether the ports that a source reads as `float4` begin with whole ones and have rows of them.
fn is_aligned(schedule: &Schedule, step: &Step, source: &Source) -> bool {
    step.kernel.ports.iter().zip(&step.args).filter(|(port, _)| source.vec4.contains(&port.name)).all(
        |(_, arg)| {
            arg.is_none_or(|tensor| {
                let row = tensor.shape().dims().last().copied().unwrap_or(1);
                schedule.base(tensor).1.is_multiple_of(4) && row.is_multiple_of(4)
            })
        },
    )
}

/// How a step is done.
///
/// `held` names sources that kernels must take: `kernel/source`, several with commas.
///
/// Errors: [`Error::Unsupported`] where no source suits, [`Error::Limit`] for more blocks than a launch may have, or a tensor whose parts lie
/// too far apart.
pub(crate) fn plan(schedule: &Schedule, step: &Step, held: &str) -> Result<Action> {
    check_strides(step)?;
    let spec = step.kernel;
    let lacks = |missing: String| Error::Unsupported { device: "CUDA".into(), missing };
    let sources = match &spec.cuda {
        OnCuda::Source(sources) => sources,
        OnCuda::Library(library, after) => return Ok(Action::Library(*library, launch(step, after)?)),
        OnCuda::Expand => {
            return Err(lacks(format!("`{}` was not expanded into smaller kernels", spec.name)));
        }
    };
    let held =
        held.split(',').filter_map(|word| word.split_once('/')).find(|(kernel, _)| *kernel == spec.name);
    let fits = |s: &&Source| {
        held.is_none_or(|(_, name)| name == s.name)
            && (s.suits)(&step.dims, &step.params)
            && is_aligned(schedule, step, s)
    };
    let source = sources.iter().find(fits).ok_or_else(|| {
        let which = held.map_or_else(String::new, |(_, name)| format!(" named `{name}`"));
        let dims = step.dims.told();
        lacks(format!("no source of `{}`{which} takes {dims}; use vulkan or the CPU", spec.name))
    })?;
    launch(step, source).map(Action::Launch)
}

fn launch(step: &Step, source: &'static Source) -> Result<Launch> {
    let spec = step.kernel;
    let wanted = (source.blocks)(&step.dims, &step.params);
    let blocks =
        u32::try_from(wanted).ok().filter(|blocks| *blocks <= CAPS.groups).ok_or_else(|| Error::Limit {
            what: format!("{}: blocks of one launch", spec.name),
            requested: wanted,
            allowed: u64::from(CAPS.groups),
            remedy: "use fewer tokens or heads".into(),
        })?;
    let present: Vec<bool> = step.args.iter().map(Option::is_some).collect();
    let text = join(spec, source, &step.dims, &step.params, &present);
    Ok(Launch { source, text, blocks })
}

/// Elements between two batch elements of a tensor, and between two heads; 0 where all share one.
fn strides(step: &Step, port: usize) -> [u64; 2] {
    let Some(tensor) = step.args[port] else { return [0, 0] };
    let shape = tensor.shape();
    let dims = shape.dims();
    let head: u64 = dims[2..].iter().map(|d| u64::from(*d)).product();
    [if dims[0] == 1 { 0 } else { head * u64::from(dims[1]) }, if dims[1] == 1 { 0 } else { head }]
}

/// Errors: [`Error::Limit`] where a stride is longer than the word that tells it.
fn check_strides(step: &Step) -> Result<()> {
    for (_, _, word) in words(step.kernel) {
        let (port, which) = match word {
            Word::StrideB(port) => (port, 0),
            Word::StrideH(port) => (port, 1),
            Word::Live(_) | Word::Dim(_) => continue,
        };
        let stride = strides(step, port)[which];
        if u32::try_from(stride).is_err() {
            return Err(Error::Limit {
                what: format!(
                    "{}: elements of `{}` from one {} to the next",
                    step.kernel.name,
                    step.kernel.ports[port].name,
                    ["batch element", "head"][which]
                ),
                requested: stride,
                allowed: u64::from(u32::MAX),
                remedy: "use fewer tokens, or fewer heads at a time".into(),
            });
        }
    }
    Ok(())
}

/// `Params`, word by word, with one more: a struct without members has a byte all the same.
pub(crate) fn param_words(step: &Step) -> Vec<u32> {
    // `plan` has seen that strides fit.
    let stride = |port, which: usize| strides(step, port)[which] as u32;
    let word = |word: Word| match word {
        Word::Live(i) => bytemuck::pod_read_unaligned(&step.params[4 * i..4 * i + 4]),
        Word::Dim(name) => step.dims.size(name),
        Word::StrideB(port) => stride(port, 0),
        Word::StrideH(port) => stride(port, 1),
    };
    words(step.kernel).into_iter().map(|(_, _, w)| word(w)).chain([0]).collect()
}

impl Action {
    /// The source's name, or the library's.
    pub(crate) fn name(&self) -> &'static str {
        match self {
            Self::Launch(launch) => launch.source.name,
            Self::Library(library, _) => library.name(),
        }
    }

    /// The launch, or that after the library.
    pub(crate) fn launch(&self) -> &Launch {
        match self {
            Self::Launch(launch) | Self::Library(_, launch) => launch,
        }
    }

    /// Whether the launch has anything to do for a step's parameters as they are now.
    pub(crate) fn launches(&self, step: &Step) -> bool {
        let given = |port: &str| step.kernel.port_index(port).is_some_and(|i| step.args[i].is_some());
        self.launch().blocks > 0
            && match self {
                Self::Launch(_) => true,
                Self::Library(Library::Gemm, _) => {
                    let p = matmul::Params::from_bytes(&step.params);
                    given("residual") || given("bias") || p.identity != 0.0
                }
                Self::Library(Library::Fft, _) => fft::Params::from_bytes(&step.params).inverse != 0,
            }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::graph::Lowering;
    use crate::kernel::case::Concrete;
    use crate::kernels::find;

    #[test]
    fn what_no_source_takes_is_told_with_its_sizes() {
        let spec = find("scale_rows").expect("a kernel of the list");
        let (graph, _, _) = Concrete::of(spec, &spec.cases[0]).and_then(|c| c.graph()).expect("a case");
        let schedule = graph.schedule(Lowering::Cuda(&CAPS)).expect("it schedules");
        let said = plan(&schedule, &schedule.steps[0], "scale_rows/nothing")
            .expect_err("no such source")
            .to_string();
        let dims = schedule.steps[0].dims.told();
        assert!(said.contains(&format!("no source of `scale_rows` named `nothing` takes {dims}")), "{said}");
        assert!(dims.contains(" = ") && !said.contains("Dims") && !said.contains('"'), "{said}");
    }
}
