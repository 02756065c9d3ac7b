//! Reproductions for those who write drivers: per case a folder with flat WGSL or CUDA C++, every buffer's bytes, what to dispatch or
//! launch, what must come out and what came out, in files that need none of this crate.

use super::folder::PendingFolder;
use super::record::{Keep, file_word, manifest};
use super::report::{info_json, judged_json};
use super::suite::{self, Device, Finished, Outcome};
use super::{Evidence, Expected, inputs};
use crate::backend::cuda;
use crate::backend::device::full_name;
use crate::backend::recording::{Home, Recording, Written};
use crate::kernel::{KernelSpec, Number};
use crate::tensor::HostTensor;
use crate::words::counted;
use serde_json::{Value, json};
use std::io;
use std::path::Path;

/// A folder of reproductions. It appears at its place with [`Dump::put_in_place`] and goes away without.
#[derive(Debug)]
pub struct Dump {
    folder: PendingFolder,
    lines: Vec<String>,
    everything: bool,
    device: usize,
}

impl Dump {
    /// Begins a folder; `everything` takes cases that passed too.
    ///
    /// Errors: a target that holds something already, or whose folder cannot be written.
    pub fn beside(target: &Path, everything: bool) -> io::Result<Self> {
        Ok(Self { folder: PendingFolder::beside(target)?, lines: Vec::new(), everything, device: 0 })
    }

    /// What it wants to have of the runs.
    pub fn keep(&self) -> suite::Keep {
        if self.everything { suite::Keep::Everything } else { suite::Keep::Failures }
    }

    /// What is added from now on comes from the next device.
    pub fn next_device(&mut self) {
        self.device += 1;
    }

    /// Adds the reproduction of a row if it failed, or if everything is wanted.
    ///
    /// Errors: what the file system reports.
    pub fn add(&mut self, finished: &Finished<'_>) -> io::Result<()> {
        let row = finished.row;
        let wanted =
            row.outcome.is_failure() || (self.everything && !matches!(row.outcome, Outcome::Ignored(_)));
        let Some(expected) = finished.expected.filter(|_| wanted) else { return Ok(()) };
        let variant = row.variant.map_or_else(String::new, |v| format!("-{v}"));
        let stem = file_word(&format!("{}{variant}-{}", row.kernel, row.case));
        // Two devices may be of the same name, and fail in the same case.
        let name = match self.device {
            0 => stem,
            _ => format!("device-{}-{stem}", place(finished.device)),
        };
        let outcome = row.outcome.why().unwrap_or_else(|| "passed".into());
        let mut keep = |file: &str, bytes: &[u8]| self.folder.write(&format!("{name}/{file}"), bytes);
        let (recording, unrecorded) = recorded(finished, expected);
        let mut manifest = case_json(finished, expected);
        manifest["unrecorded"] = json!(unrecorded);
        manifest["run"] = match &recording {
            Some(recording) => {
                let mut run = self::manifest(recording, &mut keep)?;
                // A device that does not run it again has no trace; what it did is in the manifest all the same.
                match finished.evidence.map(|evidence| &evidence.trace) {
                    Some(Ok(trace)) => add_trace(&mut run, trace, &mut keep)?,
                    Some(Err(error)) => run["untraced"] = json!(error.to_string()),
                    None => {}
                }
                run
            }
            None => without_recording(finished, expected, &mut keep)?,
        };
        manifest["outputs"] = outputs(expected, finished.evidence, recording.as_ref(), &mut keep)?;
        let text = serde_json::to_string_pretty(&manifest).map_err(io::Error::other)?;
        keep("manifest.json", text.as_bytes())?;
        keep("README.txt", readme(finished, expected, recording.as_ref(), &outcome).as_bytes())?;
        let device = full_name(&finished.device.info, &finished.device.facts);
        self.lines.push(format!("{name}: {outcome} ({device})"));
        Ok(())
    }

    /// Puts the folder in its place if there is anything in it; says how many cases.
    ///
    /// Errors: what the file system reports.
    pub fn put_in_place(self) -> io::Result<usize> {
        let count = self.lines.len();
        if count > 0 {
            let list = self.lines.join("\n");
            let text = format!(
                "Reproductions of {} by wgattn {}, one folder each; see the README.txt in it.\n\n{list}\n",
                counted(count, "check", "checks"),
                env!("CARGO_PKG_VERSION")
            );
            self.folder.write("README.txt", text.as_bytes())?;
            self.folder.put_in_place()?;
        }
        Ok(count)
    }
}

/// What tells a device from the others of a run in names of files: its place in the list of adapters, or its backend.
fn place(device: &Device) -> String {
    let backend = &device.info.backend;
    let index = device.facts.index.map(|index| index.to_string());
    match index {
        Some(index) if !cuda::is_asked(backend) => index,
        Some(index) => format!("{}-{index}", file_word(backend)),
        None => file_word(backend),
    }
}

/// What the device was told to do, or why that is not known.
fn recorded(finished: &Finished<'_>, expected: &Expected) -> (Option<Recording>, Option<String>) {
    match finished.evidence.map(|evidence| &evidence.recording) {
        Some(Ok(Some(recording))) => (Some(recording.clone()), None),
        Some(Ok(None)) => (None, Some("this device computes the reference and dispatches nothing".into())),
        Some(Err(error)) => (None, Some(error.to_string())),
        // What a card is told to do is known without one, also where its compiler refused a source.
        None if cuda::is_asked(&finished.device.info.backend) => {
            let recording = expected
                .concrete
                .graph()
                .and_then(|(graph, _, tensors)| cuda::recording(&graph, &inputs(expected, &tensors)));
            match recording {
                Ok(recording) => (Some(recording), None),
                Err(error) => (None, Some(error.to_string())),
            }
        }
        None => (None, Some("it did not run to its end, so its dispatches are not known".into())),
    }
}

/// Puts what each dispatch wrote beside it.
fn add_trace(run: &mut Value, trace: &[Vec<Written>], keep: Keep<'_>) -> io::Result<()> {
    let Some(commands) = run["commands"].as_array_mut() else { return Ok(()) };
    let dispatches = commands.iter_mut().filter(|command| command["do"] == "dispatch");
    for (number, (command, written)) in dispatches.zip(trace).enumerate() {
        let mut list = Vec::new();
        for Written { binding, bytes } in written {
            let file = format!("after-dispatch-{number}-binding-{binding}.bin");
            keep(&file, bytes)?;
            list.push(json!({ "binding": binding, "contents": file }));
        }
        command["wrote"] = Value::Array(list);
    }
    Ok(())
}

fn case_json(finished: &Finished<'_>, expected: &Expected) -> Value {
    let (row, spec) = (finished.row, expected.concrete.spec);
    let dims: serde_json::Map<String, Value> =
        expected.concrete.dims.iter().map(|(name, size)| (name.to_string(), json!(size))).collect();
    let param = |field: &crate::kernel::Field| {
        let bytes = field.bytes_in(spec.params, &expected.concrete.params);
        let value = match field.number {
            Number::F32 => json!(bytemuck::pod_read_unaligned::<f32>(bytes)),
            Number::U32 => json!(bytemuck::pod_read_unaligned::<u32>(bytes)),
        };
        (field.name.to_string(), value)
    };
    json!({
        "schema": "wgattn-reproduction",
        "schema_version": 1,
        "wgattn": env!("CARGO_PKG_VERSION"),
        "device": info_json(&finished.device.info, &finished.device.facts),
        "kernel": row.kernel,
        "case": row.case,
        "variant": row.variant,
        "failure": row.outcome.why(),
        "formula": spec.formula,
        "dimensions": dims,
        "parameters": spec.params.iter().map(param).collect::<serde_json::Map<_, _>>(),
        "tolerance": { "factor": spec.tolerance.factor, "floor": spec.tolerance.floor, "reason": spec.tolerance.reason },
    })
}

/// What there is of a case that did not get so far: inputs by port, and the shader it is held to.
fn without_recording(finished: &Finished<'_>, expected: &Expected, keep: Keep<'_>) -> io::Result<Value> {
    let (concrete, mut given) = (&expected.concrete, Vec::new());
    for (port, input) in concrete.spec.ports.iter().zip(&concrete.inputs) {
        let Some(input) = input else { continue };
        let file = format!("input-{}.bin", port.name);
        keep(&file, &input.device_bytes())?;
        given.push(json!({
            "port": port.name, "type": format!("{:?}", port.dtype), "shape": input.shape().dims(), "contents": file,
        }));
    }
    let shader = match flat(concrete.spec, finished.row.variant, expected) {
        Some(text) => {
            keep("shader.wgsl", text.as_bytes())?;
            json!("shader.wgsl")
        }
        None => Value::Null,
    };
    Ok(json!({ "inputs": given, "shader": shader }))
}

#[cfg(not(feature = "wgpu"))]
fn flat(_: &'static KernelSpec, _: Option<&str>, _: &Expected) -> Option<String> {
    None
}

#[cfg(feature = "wgpu")]
fn flat(spec: &'static KernelSpec, variant: Option<&str>, expected: &Expected) -> Option<String> {
    let crate::kernel::OnWgpu::Shader(list) = &spec.wgpu else { return None };
    let variant = list.iter().find(|v| Some(v.name) == variant)?;
    let concrete = &expected.concrete;
    let present: Vec<bool> = concrete.shapes.iter().map(Option::is_some).collect();
    Some(crate::kernel::wgsl::join(spec, variant, &concrete.dims, &concrete.params, &present))
}

/// Bytes of f64 numbers, little-endian.
fn doubles(tensor: &HostTensor) -> Vec<u8> {
    tensor.to_f64().into_iter().flat_map(f64::to_le_bytes).collect()
}

fn outputs(
    expected: &Expected,
    evidence: Option<&Evidence>,
    recording: Option<&Recording>,
    keep: Keep<'_>,
) -> io::Result<Value> {
    let mut list = Vec::new();
    for (number, wanted) in expected.outputs.iter().enumerate() {
        let port = wanted.port.name;
        let [f64_file, f32_file] = ["f64", "device"].map(|kind| format!("expected-{port}-{kind}.bin"));
        keep(&f64_file, &doubles(&wanted.truth))?;
        keep(&f32_file, &wanted.truth.device_bytes())?;
        let mut one = json!({
            "port": port,
            "type": format!("{:?}", wanted.port.dtype),
            "shape": wanted.truth.shape().dims(),
            "expected_f64": f64_file,
            "expected": f32_file,
            "allowed": wanted.allowed,
        });
        if let Some(evidence) = evidence {
            let file = format!("got-{port}-device.bin");
            keep(&file, &evidence.got[number].device_bytes())?;
            one["got"] = json!(file);
            one["judged"] = judged_json(&evidence.judged[number]);
        }
        // Tensors are numbered alike whenever the case is recorded.
        let tensors = evidence.map_or_else(
            || expected.concrete.graph().map(|(_, _, tensors)| tensors).unwrap_or_default(),
            |evidence| evidence.tensors.clone(),
        );
        if let Some(recording) = recording {
            let home = tensors.get(wanted.index).copied().flatten().and_then(|t| recording.home(t));
            one["place"] = match home {
                Some(Home::Buffer { index, offset }) => json!({ "buffer": index, "offset": offset }),
                Some(Home::Texture(index)) => json!({ "texture": index }),
                None => Value::Null,
            };
        }
        list.push(one);
    }
    Ok(Value::Array(list))
}

fn readme(
    finished: &Finished<'_>,
    expected: &Expected,
    recording: Option<&Recording>,
    outcome: &str,
) -> String {
    let (row, spec) = (finished.row, expected.concrete.spec);
    let how = match recording {
        None => {
            "It was not run as dispatches; manifest.json says why. There are the inputs (input-*.bin), the shader if it has one of\n\
             its own (shader.wgsl), and what must come out.\n"
                .to_string()
        }
        Some(recording) if !recording.sources.is_empty() || recording.shaders.is_empty() => format!(
            "To run it on any card by CUDA (manifest.json has all the numbers):\n\
             1. Allocate the {} of run.buffers, with the contents of their files from the first byte on; what has no file, and\n   \
             what lies beyond a file's end, is zero.\n\
             2. Compile everything in run.sources ({}) with NVRTC as it is: --std=c++17 and the card's architecture, no headers.\n\
             3. Do run.commands in order. `launch`: the entry point with `blocks` blocks in x of `threads` threads; its first argument\n   \
             is the struct `Params` by value, whose words `params` names in order, and the others are pointers: a buffer's first byte\n   \
             plus `offset`, or null. `library`: what cuBLAS (f32, no TF32) or cuFFT has to compute of the same tensors by the kernel's\n   \
             formula, row-major.\n\
             4. Read outputs[].place and compare with the expected file.\n",
            counted(recording.buffers.len(), "buffer", "buffers"),
            counted(recording.sources.len(), "source", "sources"),
        ),
        Some(recording) => format!(
            "To run it with any WebGPU implementation (manifest.json has all the numbers):\n\
             1. Make the {} and {} of run.buffers and run.textures, with the contents of their files from the first byte\n   \
             on; what has no file, and what lies beyond a file's end, is zero.\n\
             2. Make a compute pipeline of everything in run.shaders ({}), with one bind group layout (group 0) of its bindings.\n   \
             The kinds are those of WebGPU: uniform, storage, read-only-storage, texture (unfilterable-float, 2d), storage-texture\n   \
             (rgba8unorm, write-only, 2d).\n\
             3. Do run.commands in order: copies, and {} with the bindings given; `workgroups_from` stands for an\n   \
             indirect dispatch. `uniforms` names the words of the uniform block, which buffer `params` holds.\n\
             4. Read outputs[].place and compare with the expected file. `wrote` of a dispatch is what this device had in the\n   \
             buffers that it writes when the run was repeated dispatch by dispatch: input of the dispatches after it.\n\
             No shader reads workgroup memory before it writes it, so it need not be cleared; this run did not.\n",
            counted(recording.buffers.len(), "buffer", "buffers"),
            counted(recording.textures.len(), "texture", "textures"),
            counted(recording.shaders.len(), "shader", "shaders"),
            counted(recording.dispatches().count(), "dispatch", "dispatches"),
        ),
    };
    format!(
        "{}\n{}\n\nDevice: {}\nMade by: wgattn {}\n\n{}\n\n{how}\n\
         All files of numbers are little-endian without a header: expected-*-f64.bin are f64, all others hold what the device's\n\
         memory does (f32, u32 or i32 words; bytes padded to a word; four bytes per pixel).\n\
         An output is accepted when the largest |got − expected| divided by the largest |expected| is at most `allowed`.\n",
        row.name(),
        spec.formula,
        super::report::head(finished.device, true),
        env!("CARGO_PKG_VERSION"),
        outcome
    )
}
