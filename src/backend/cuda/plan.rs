//! What a step becomes on CUDA: the source that suits, its blocks, and the bytes of its parameters.

use crate::backend::recording::{
    Argument, BufferRecord, Command, Home, Launch as LaunchRecord, LibraryCall, Recording, SourceRecord,
};
use crate::error::{Error, Result};
use crate::graph::{Kind, Schedule, Step, device_bytes};
use crate::kernel::cuda::{Source, Word, join, words};
use crate::kernel::{Caps, Driver, KernelParams, Library, Number, OnCuda};
use crate::kernels::fft::fft;
use crate::kernels::linalg::matmul;
use crate::tensor::{HostTensor, Tensor};

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
/// Errors: [`Error::Unsupported`] where no source suits, [`Error::Limit`] for more blocks than a launch may have.
pub(crate) fn plan(schedule: &Schedule, step: &Step, held: &str) -> Result<Action> {
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

/// The bytes of `Params`.
pub(crate) fn param_bytes(step: &Step) -> Vec<u8> {
    let strides = |port: usize| -> (u32, u32) {
        let Some(tensor) = step.args[port] else { return (0, 0) };
        let shape = tensor.shape();
        let dims = shape.dims();
        let inner: u32 = dims[2..].iter().product();
        (if dims[0] == 1 { 0 } else { inner * dims[1] }, if dims[1] == 1 { 0 } else { inner })
    };
    let word = |word: Word| match word {
        Word::Live(i) => [0, 1, 2, 3].map(|byte| step.params[4 * i + byte]),
        Word::Dim(name) => step.dims.size(name).to_le_bytes(),
        Word::StrideB(port) => strides(port).0.to_le_bytes(),
        Word::StrideH(port) => strides(port).1.to_le_bytes(),
    };
    words(step.kernel).into_iter().flat_map(|(_, _, w)| word(w)).collect()
}

impl Action {
    /// The source's name, or the library's.
    pub(crate) fn name(&self) -> &'static str {
        match self {
            Self::Launch(launch) => launch.source.name,
            Self::Library(Library::Gemm, _) => "cublas",
            Self::Library(Library::Fft, _) => "cufft",
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

/// One run of a schedule with these inputs as plain data; no card is needed for it.
pub(crate) fn record<'a>(
    schedule: &Schedule,
    actions: impl IntoIterator<Item = &'a Action>,
    inputs: &[(Tensor, &HostTensor)],
) -> Recording {
    let blank =
        |label: String, bytes: u64| BufferRecord { label, bytes, usage: Vec::new(), contents: Vec::new() };
    let mut recording = Recording::default();
    for (number, slot) in schedule.slots.iter().enumerate() {
        recording.buffers.push(blank(format!("slot {number}"), slot.bytes));
    }
    // The buffer of each tensor that owns memory.
    let mut place = schedule.slot_of.clone();
    for (id, info) in schedule.tensors.iter().enumerate() {
        if info.base.is_none() && info.kind != Kind::Transient {
            place[id] = Some(recording.buffers.len());
            let contents = info.constant.as_ref().map_or_else(Vec::new, |constant| constant.device_bytes());
            let buffer = blank(info.name.clone(), device_bytes(info));
            recording.buffers.push(BufferRecord { contents, ..buffer });
        }
    }
    let home = |tensor: Tensor| {
        let (base, from) = schedule.base(tensor);
        Some((place[base as usize]?, from * tensor.dtype().bytes()))
    };
    for (tensor, data) in inputs {
        if let Some((index, _)) = home(*tensor) {
            recording.buffers[index].contents = data.device_bytes();
        }
    }
    // Slots hold transients, which have no home.
    let homes = place
        .iter()
        .enumerate()
        .filter_map(|(id, at)| Some((id, at.filter(|at| *at >= schedule.slots.len())?)));
    recording.homes = homes.map(|(id, index)| (id as u32, Home::Buffer { index, offset: 0 })).collect();
    for (step, action) in schedule.steps.iter().zip(actions) {
        let arguments: Vec<Argument> = (step.kernel.ports.iter().zip(&step.args))
            .map(|(port, arg)| Argument { port: port.name, place: arg.and_then(home) })
            .collect();
        if let Action::Library(..) = action {
            let bits = |at: usize| bytemuck::pod_read_unaligned::<u32>(&step.params[4 * at..4 * at + 4]);
            let word = |number| if number == Number::F32 { "f32" } else { "u32" };
            let params = step.kernel.params.iter().enumerate();
            recording.commands.push(Command::Library(LibraryCall {
                library: action.name(),
                kernel: step.kernel.name,
                dims: step.dims.iter().collect(),
                params: params.map(|(i, f)| (f.name.to_string(), word(f.number), bits(i))).collect(),
                arguments: arguments.clone(),
            }));
        }
        if action.launches(step) {
            let launch = action.launch();
            let name = format!("{}/{}", step.kernel.name, launch.source.name);
            let known = recording.sources.iter().position(|s| s.text == launch.text);
            let source = known.unwrap_or_else(|| {
                let (entry, text, threads) = (step.kernel.name, launch.text.clone(), launch.source.threads);
                recording.sources.push(SourceRecord { name, entry, text, threads });
                recording.sources.len() - 1
            });
            let bytes = param_bytes(step);
            let bits = bytes.chunks_exact(4).map(bytemuck::pod_read_unaligned::<u32>);
            let params =
                words(step.kernel).into_iter().zip(bits).map(|((name, ty, _), bits)| (name, ty, bits));
            recording.commands.push(Command::Launch(LaunchRecord {
                source,
                blocks: launch.blocks,
                params: params.collect(),
                arguments,
            }));
        }
    }
    recording
}

#[cfg(test)]
mod tests {
    use super::super::recording;
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

    #[test]
    fn a_recording_has_the_text_and_all_that_a_launch_needs() {
        for name in ["scale_rows", "nystrom_attention", "matmul", "fft"] {
            let spec = find(name).expect("a kernel of the list");
            let case = spec.cases.iter().find(|c| !c.bench).expect("a case");
            let concrete = Concrete::of(spec, case).expect("a case");
            let (graph, _, tensors) = concrete.graph().expect("a graph");
            let given = tensors.iter().zip(&concrete.inputs);
            let inputs: Vec<_> = given.filter_map(|(t, data)| Some(((*t)?, data.as_ref()?))).collect();
            let recording = recording(&graph, &inputs).expect("no card is needed");
            assert!(!recording.commands.is_empty(), "{name}");
            for command in &recording.commands {
                let arguments = match command {
                    Command::Launch(launch) => {
                        let source = &recording.sources[launch.source];
                        assert!(source.text.contains("extern \"C\" __global__"), "{name}: {}", source.name);
                        assert!(launch.blocks > 0 && source.threads > 0, "{name}: {launch:?}");
                        assert!(source.text.contains("struct Params {"), "{name}: {}", source.name);
                        for (word, ty, _) in &launch.params {
                            assert!(source.text.contains(&format!("  {ty} {word};")), "{name}: {word}");
                        }
                        &launch.arguments
                    }
                    Command::Library(call) => &call.arguments,
                    other => panic!("{name}: {other:?}"),
                };
                for (index, offset) in arguments.iter().filter_map(|a| a.place) {
                    assert!(
                        offset <= recording.buffers[index].bytes,
                        "{name}: byte {offset} of buffer {index}"
                    );
                }
            }
            for (tensor, data) in inputs {
                let Some(Home::Buffer { index, .. }) = recording.home(tensor) else {
                    panic!("{name}: no home")
                };
                assert_eq!(recording.buffers[index].contents, data.device_bytes(), "{name}");
            }
        }
    }
}
