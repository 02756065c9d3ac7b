//! Reproductions for those who write drivers: per case a folder with flat WGSL, every buffer's bytes, what to dispatch, what
//! must come out and what came out, in files that need none of this crate.

use super::folder::PendingFolder;
use super::record::{Keep, file_word, manifest};
use super::report::{info_json, judged_json};
use super::suite::{Finished, Outcome};
use super::{Expected, Ran, inputs};
use crate::backend::recording::{Home, Recording, Written};
use crate::kernel::{KernelSpec, Number, OnWgpu};
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
            number => format!("device-{number}-{stem}"),
        };
        let outcome = row.outcome.why().unwrap_or_else(|| "passed".into());
        let mut keep = |file: &str, bytes: &[u8]| self.folder.write(&format!("{name}/{file}"), bytes);
        let recorded = match finished.ran {
            Some(ran) => ran.program.recording(&inputs(expected, &ran.tensors)),
            None => Ok(None),
        };
        let (recording, unrecorded) = match recorded {
            Ok(Some(recording)) => (Some(recording), None),
            Ok(None) if finished.ran.is_none() => {
                (None, Some("it was not compiled, so there are no dispatches".to_string()))
            }
            Ok(None) => (None, Some("this device computes the reference and dispatches nothing".into())),
            Err(error) => (None, Some(error.to_string())),
        };
        let mut manifest = case_json(finished, expected);
        manifest["unrecorded"] = json!(unrecorded);
        manifest["run"] = match &recording {
            Some(recording) => {
                let mut run = self::manifest(recording, &mut keep)?;
                // A device that does not run it again has no trace; what it did is in the manifest all the same.
                let traced = finished.ran.map_or(Ok(Vec::new()), |ran| ran.program.trace());
                match traced {
                    Ok(trace) => add_trace(&mut run, &trace, &mut keep)?,
                    Err(error) => run["untraced"] = json!(error.to_string()),
                }
                run
            }
            None => without_recording(finished, expected, &mut keep)?,
        };
        manifest["outputs"] = outputs(expected, finished.ran, recording.as_ref(), &mut keep)?;
        let text = serde_json::to_string_pretty(&manifest).map_err(io::Error::other)?;
        keep("manifest.json", text.as_bytes())?;
        keep("README.txt", readme(finished, expected, recording.as_ref(), &outcome).as_bytes())?;
        self.lines.push(format!("{name}: {outcome}"));
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
        "device": info_json(finished.device),
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
    let OnWgpu::Shader(list) = &spec.wgpu else { return None };
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
    ran: Option<&Ran>,
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
        if let Some(ran) = ran {
            let file = format!("got-{port}-device.bin");
            keep(&file, &ran.got[number].device_bytes())?;
            one["got"] = json!(file);
            one["judged"] = judged_json(&ran.judged[number]);
            let home = ran.tensors[wanted.index].and_then(|tensor| recording?.home(tensor));
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
    let (row, spec, device) = (finished.row, expected.concrete.spec, finished.device);
    let how = match recording {
        None => {
            "It was not run as dispatches; manifest.json says why. There are the inputs (input-*.bin), the shader if it has one of\n\
             its own (shader.wgsl), and what must come out.\n"
                .to_string()
        }
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
        "{}\n{}\n\nDevice: {} · {} · {}\nMade by: wgattn {}\n\n{}\n\n{how}\n\
         All files of numbers are little-endian without a header: expected-*-f64.bin are f64, all others hold what the device's\n\
         memory does (f32, u32 or i32 words; bytes padded to a word; four bytes per pixel).\n\
         An output is accepted when the largest |got − expected| divided by the largest |expected| is at most `allowed`.\n",
        row.name(),
        spec.formula,
        device.name,
        device.backend,
        device.driver,
        env!("CARGO_PKG_VERSION"),
        outcome
    )
}
