//! A recording in words: the manifest of a reproduction, which names everything, with the bytes in files beside it.

use crate::backend::recording::{Argument, Bound, Command, Dispatch, Launch, LibraryCall, Recording};
use serde_json::{Value, json};
use std::io;

/// A name that is safe in a file system: letters, digits, `-` and `_`.
pub(super) fn file_word(text: &str) -> String {
    text.chars().map(|c| if c.is_ascii_alphanumeric() || "-_".contains(c) { c } else { '-' }).collect()
}

/// Stores bytes under a name.
pub(super) type Keep<'a> = &'a mut dyn FnMut(&str, &[u8]) -> io::Result<()>;

/// A recording as JSON, with its bytes kept in files that it names.
///
/// Errors: whatever `keep` reports.
pub(super) fn manifest(recording: &Recording, keep: Keep<'_>) -> io::Result<Value> {
    let mut file = |name: String, bytes: &[u8]| -> io::Result<Value> {
        if bytes.is_empty() {
            return Ok(Value::Null);
        }
        keep(&name, bytes)?;
        Ok(json!(name))
    };
    let mut buffers = Vec::new();
    for (i, buffer) in recording.buffers.iter().enumerate() {
        let contents = file(format!("buffer-{i}-{}.bin", file_word(&buffer.label)), &buffer.contents)?;
        buffers.push(json!({
            "buffer": i, "label": buffer.label, "bytes": buffer.bytes, "usage": buffer.usage, "contents": contents,
        }));
    }
    let mut textures = Vec::new();
    for (i, texture) in recording.textures.iter().enumerate() {
        let contents = file(format!("texture-{i}-{}.bin", file_word(&texture.label)), &texture.contents)?;
        textures.push(json!({
            "texture": i, "label": texture.label, "width": texture.width, "height": texture.height,
            "format": texture.format, "usage": texture.usage, "contents": contents,
        }));
    }
    let mut shaders = Vec::new();
    for (i, shader) in recording.shaders.iter().enumerate() {
        let source = file(format!("shader-{i}-{}.wgsl", file_word(&shader.name)), shader.source.as_bytes())?;
        let binding = |(number, kind): &(u32, &str)| json!({ "binding": number, "kind": kind });
        shaders.push(json!({
            "shader": i, "name": shader.name, "source": source, "entry_point": shader.entry,
            "workgroup_size": shader.workgroup_size, "workgroup_bytes": shader.workgroup_bytes,
            "bindings": shader.bindings.iter().map(binding).collect::<Vec<_>>(),
        }));
    }
    let mut sources = Vec::new();
    for (i, source) in recording.sources.iter().enumerate() {
        let text = file(format!("source-{i}-{}.cu", file_word(&source.name)), source.text.as_bytes())?;
        sources.push(json!({
            "source": i, "name": source.name, "text": text, "entry_point": source.entry, "threads": source.threads,
        }));
    }
    let commands: Vec<Value> = recording.commands.iter().map(|c| command(recording, c)).collect();
    Ok(json!({
        "buffers": buffers, "textures": textures, "shaders": shaders, "sources": sources, "commands": commands,
    }))
}

fn command(recording: &Recording, command: &Command) -> Value {
    match command {
        Command::Copy { from, offset, to, bytes } => json!({
            "do": "copy_buffer_to_buffer", "from": from, "offset": offset, "to": to, "bytes": bytes,
        }),
        Command::CopyToTexture { from, offset, bytes_per_row, to, row, width, height } => json!({
            "do": "copy_buffer_to_texture", "from": from, "offset": offset, "bytes_per_row": bytes_per_row,
            "to": to, "row": row, "width": width, "height": height,
        }),
        Command::Dispatch(one) => dispatch(recording, one),
        Command::Launch(one) => launch(recording, one),
        Command::Library(one) => library(recording, one),
    }
}

/// A word of parameters with its bits, for people and programs.
fn word((name, ty, bits): &(String, &str, u32)) -> Value {
    let value = if matches!(*ty, "f32" | "float") { json!(f32::from_bits(*bits)) } else { json!(bits) };
    json!({ "name": name, "type": ty, "value": value, "bits": format!("{bits:#010x}") })
}

fn arguments(recording: &Recording, list: &[Argument]) -> Vec<Value> {
    let argument = |Argument { port, place }: &Argument| match place {
        Some((index, offset)) => json!({
            "port": port, "buffer": index, "offset": offset, "holds": recording.buffers[*index].label,
        }),
        None => json!({ "port": port, "buffer": null }),
    };
    list.iter().map(argument).collect()
}

fn launch(recording: &Recording, launch: &Launch) -> Value {
    let source = &recording.sources[launch.source];
    json!({
        "do": "launch",
        "source": launch.source,
        "name": source.name,
        "blocks": launch.blocks,
        "threads": source.threads,
        "params": launch.params.iter().map(word).collect::<Vec<_>>(),
        "arguments": arguments(recording, &launch.arguments),
    })
}

fn library(recording: &Recording, call: &LibraryCall) -> Value {
    let dims: serde_json::Map<String, Value> =
        call.dims.iter().map(|(name, size)| ((*name).into(), json!(size))).collect();
    json!({
        "do": "library",
        "library": call.library,
        "kernel": call.kernel,
        "dimensions": dims,
        "params": call.params.iter().map(word).collect::<Vec<_>>(),
        "arguments": arguments(recording, &call.arguments),
    })
}

fn dispatch(recording: &Recording, dispatch: &Dispatch) -> Value {
    let binding = |(number, bound): &(u32, Bound)| match *bound {
        Bound::Buffer { index, offset, bytes } => json!({
            "binding": number, "buffer": index, "offset": offset, "bytes": bytes,
            "holds": recording.buffers[index].label,
        }),
        Bound::Texture(index) => {
            json!({ "binding": number, "texture": index, "holds": recording.textures[index].label })
        }
    };
    json!({
        "do": "dispatch",
        "shader": dispatch.shader,
        "name": recording.shaders[dispatch.shader].name,
        "workgroups": dispatch.groups,
        "workgroups_from": dispatch.indirect.map(|(buffer, offset)| json!({ "buffer": buffer, "offset": offset })),
        "bindings": dispatch.bindings.iter().map(binding).collect::<Vec<_>>(),
        "uniforms": dispatch.params.iter().map(word).collect::<Vec<_>>(),
    })
}
