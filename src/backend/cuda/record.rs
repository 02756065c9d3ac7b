//! What a card would be told to do for one run of a graph, as plain data: sources, launches, calls of libraries, and the bytes of memory.

use super::{Action, param_words};
use crate::backend::recording::{
    Argument, BufferRecord, Command, Home, Launch as LaunchRecord, LibraryCall, Recording, SourceRecord,
};
use crate::graph::{Kind, Schedule, device_bytes};
use crate::kernel::Number;
use crate::kernel::cuda::words;
use crate::tensor::{HostTensor, Tensor};

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
            let params = words(step.kernel).into_iter().zip(param_words(step));
            let params = params.map(|((name, ty, _), bits)| (name, ty, bits));
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
    use crate::kernel::case::Concrete;
    use crate::kernels::find;

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
