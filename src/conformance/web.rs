//! The suite as a page that any browser with WebGPU runs: recordings of what a device without features and with WebGPU's default
//! limits does, their inputs, and what must come out.
//!
//! Everything is embedded in scripts, because a page opened from a file may fetch nothing. Numbers are base64 of little-endian
//! bytes. Inputs come from counters, so a smaller case's are often the beginning of a larger one's and are kept once; shaders are
//! kept as the texts they are joined from.

use super::folder::PendingFolder;
use super::report::SCHEMA_VERSION;
use super::{Expected, Wanted, inputs};
use crate::backend::Program as _;
use crate::backend::recording::{Bound, Command, Home, Recording, ShaderRecord};
use crate::backend::wgpu::{Options, WgpuBackend, adapters};
use crate::bench::system::commit;
use crate::error::{Error, Result};
use crate::kernel::{Case, Driver, KernelSpec, OnWgpu};
use crate::kernels::find;
use serde_json::{Value, json};
use std::collections::HashMap;
use std::io;
use std::path::Path;

/// Bytes of a case's inputs and outputs beyond which it stays out of the page: every kernel has cases below, and the page stays
/// at 5 MB.
const MOST_CASE_BYTES: usize = 24 << 10;

/// A page in the making.
#[derive(Debug, Default)]
pub struct Page {
    filter: Option<String>,
    tests: Vec<Value>,
    left_out: Vec<Value>,
    blobs: Vec<Vec<u8>>,
    /// Blobs by how they begin, to find what a new one may share.
    beginnings: HashMap<Vec<u8>, Vec<usize>>,
    pieces: Vec<String>,
    piece_numbers: HashMap<String, usize>,
    shaders: Vec<Value>,
    shader_numbers: HashMap<String, usize>,
}

/// Records cases for a browser. `progress` is told how many cases of how many are done.
///
/// Errors: [`Error::NoDevice`] without an adapter that has WebGPU's default limits: the device chooses variants and
/// sizes, although it computes nothing.
pub fn page(
    filter: Option<&str>,
    cases: &[(&'static KernelSpec, &'static Case)],
    progress: &mut dyn FnMut(usize, usize),
) -> Result<Page> {
    let backend = baseline()?;
    let mut page = Page { filter: filter.map(Into::into), ..Page::default() };
    for (number, (spec, case)) in cases.iter().enumerate() {
        if let Err(why) = page.add(&backend, spec, case) {
            page.left_out.push(json!({ "kernel": spec.name, "case": case.name, "why": why }));
        }
        progress(number + 1, cases.len());
    }
    Ok(page)
}

/// A device as a browser gives it to a page that asks for nothing.
fn baseline() -> Result<WgpuBackend> {
    let descriptor = ::wgpu::DeviceDescriptor {
        label: Some("wgattn conformance page"),
        required_features: ::wgpu::Features::empty(),
        required_limits: ::wgpu::Limits::default(),
        ..Default::default()
    };
    let list = adapters();
    let device = list.iter().find_map(|a| pollster::block_on(a.request_device(&descriptor)).ok());
    let (device, queue) = device.ok_or_else(|| Error::NoDevice {
        asked: "default limits of WebGPU".into(),
        reason: format!(
            "none of {} adapters has them; they plan what the page runs, so install a driver (Debian: mesa-vulkan-drivers)",
            list.len()
        ),
    })?;
    WgpuBackend::with_options(device, queue, Options { driver: Some(Driver::Gpu), ..Options::default() })
}

impl Page {
    /// Cases that the page runs.
    pub fn cases(&self) -> usize {
        self.tests.len()
    }

    /// Cases that it leaves out: kernel, case, and why.
    pub fn left_out(&self) -> impl Iterator<Item = (&str, &str, &str)> {
        self.left_out.iter().map(|row| {
            let [kernel, case, why] =
                ["kernel", "case", "why"].map(|name| row[name].as_str().unwrap_or_default());
            (kernel, case, why)
        })
    }

    fn add(
        &mut self,
        backend: &WgpuBackend,
        spec: &'static KernelSpec,
        case: &Case,
    ) -> std::result::Result<(), String> {
        let say = |e: Error| e.to_string();
        let concrete = crate::kernel::case::Concrete::of(spec, case).map_err(say)?;
        let bytes: u64 = concrete.shapes.iter().flatten().map(|shape| shape.len() * 4).sum();
        if bytes > MOST_CASE_BYTES as u64 {
            return Err(format!(
                "left out of the page: {bytes} bytes of inputs and outputs, the page takes {MOST_CASE_BYTES}"
            ));
        }
        let expected = Expected::of(spec, case).map_err(say)?;
        let (graph, _, tensors) = expected.concrete.graph().map_err(say)?;
        let program = backend.prepare(&graph).map_err(say)?;
        let recording = program.recording(&inputs(&expected, &tensors)).map_err(say)?;
        let Some(recording) = recording else { return Err("dispatches nothing".into()) };
        let home = |wanted: &Wanted| {
            let tensor = tensors[wanted.index].and_then(|tensor| recording.home(tensor));
            tensor.ok_or_else(|| format!("output `{}` has no memory", wanted.port.name))
        };
        let homes = expected.outputs.iter().map(home).collect::<std::result::Result<Vec<_>, _>>()?;
        let variant = match (&spec.wgpu, program.variants().first()) {
            (OnWgpu::Shader(_), Some((_, variant))) => json!(variant),
            _ => Value::Null,
        };
        let test = self.test(&recording);
        let outputs: Vec<Value> =
            expected.outputs.iter().zip(homes).map(|(wanted, home)| self.output(wanted, home)).collect();
        self.tests.push(merged(
            json!({ "kernel": spec.name, "case": case.name, "variant": variant, "outputs": outputs }),
            test,
        ));
        Ok(())
    }

    /// Buffers, textures, shaders and commands of a test, in few words: there are hundreds.
    fn test(&mut self, recording: &Recording) -> Value {
        let buffers: Vec<Value> = recording
            .buffers
            .iter()
            .map(|b| json!([b.bytes, b.usage.join(" "), self.blob(&b.contents), b.label]))
            .collect();
        let textures: Vec<Value> = recording
            .textures
            .iter()
            .map(|t| json!([t.width, t.height, t.format, t.usage.join(" "), self.blob(&t.contents), t.label]))
            .collect();
        let shaders: Vec<usize> = recording.shaders.iter().map(|shader| self.shader(shader)).collect();
        let binding = |(number, bound): &(u32, Bound)| match *bound {
            Bound::Buffer { index, offset, bytes } => json!([number, index, offset, bytes]),
            Bound::Texture(index) => json!([number, index]),
        };
        let command = |command: &Command| match command {
            Command::Copy { from, offset, to, bytes } => json!(["copy", from, offset, to, bytes]),
            Command::CopyToTexture { from, offset, bytes_per_row, to, row, width, height } => {
                json!(["rows", from, offset, bytes_per_row, to, row, width, height])
            }
            Command::Dispatch(d) => json!([
                "run",
                shaders[d.shader],
                d.bindings.iter().map(binding).collect::<Vec<_>>(),
                d.groups,
                d.indirect,
            ]),
            // The device that plans the page is one of wgpu's.
            Command::Launch(_) | Command::Library(_) => Value::Null,
        };
        let commands: Vec<Value> = recording.commands.iter().map(command).collect();
        json!({ "buffers": buffers, "textures": textures, "commands": commands })
    }

    fn output(&mut self, wanted: &Wanted, home: Home) -> Value {
        let place = match home {
            Home::Buffer { index, offset } => json!({ "buffer": index, "offset": offset }),
            Home::Texture(index) => json!({ "texture": index }),
        };
        let (kind, truth) = truth_bytes(wanted);
        let count = wanted.truth.to_f64().len();
        merged(
            json!({
                "port": wanted.port.name, "type": format!("{:?}", wanted.port.dtype), "count": count, "truth": [kind, self.blob(&truth)],
                "naive": wanted.naive, "allowed": wanted.allowed,
            }),
            place,
        )
    }

    /// The place of bytes among the blobs and how many of it they are; null for none.
    fn blob(&mut self, bytes: &[u8]) -> Value {
        if bytes.is_empty() {
            return Value::Null;
        }
        let beginning = bytes[..bytes.len().min(16)].to_vec();
        let known = self.beginnings.entry(beginning).or_default();
        for &number in known.iter() {
            let blob = &mut self.blobs[number];
            if blob.starts_with(bytes) {
                return json!([number, bytes.len()]);
            }
            if bytes.starts_with(blob) {
                *blob = bytes.to_vec();
                return json!([number, bytes.len()]);
            }
        }
        known.push(self.blobs.len());
        self.blobs.push(bytes.to_vec());
        json!([self.blobs.len() - 1, bytes.len()])
    }

    fn shader(&mut self, shader: &ShaderRecord) -> usize {
        if let Some(&number) = self.shader_numbers.get(&shader.source) {
            return number;
        }
        let pieces: Vec<usize> = pieces(shader).into_iter().map(|piece| self.piece(piece)).collect();
        let (name, entry, bindings) = (&shader.name, shader.entry, &shader.bindings);
        self.shaders.push(json!({ "name": name, "entry": entry, "bindings": bindings, "pieces": pieces }));
        self.shader_numbers.insert(shader.source.clone(), self.shaders.len() - 1);
        self.shaders.len() - 1
    }

    fn piece(&mut self, piece: &str) -> usize {
        let next = self.pieces.len();
        let number = *self.piece_numbers.entry(piece.into()).or_insert(next);
        if number == next {
            self.pieces.push(piece.into());
        }
        number
    }

    /// The data as a script.
    fn script(&self) -> String {
        let blobs: Vec<String> = self.blobs.iter().map(|bytes| base64(bytes)).collect();
        let suite = json!({
            "schema_version": SCHEMA_VERSION,
            "wgattn": { "version": env!("CARGO_PKG_VERSION"), "commit": commit() },
            "filter": self.filter,
            "blobs": blobs,
            "pieces": self.pieces,
            "shaders": self.shaders,
            "tests": self.tests,
            "left_out": self.left_out,
        });
        format!("// Made by `wgattn conformance --web`.\nwindow.SUITE = {suite};\n")
    }

    /// Writes the page into a new folder: `index.html`, `conformance.js` and `data.js`. Returns its size in bytes.
    ///
    /// Errors: a target that holds something already, or whose folder cannot be written.
    pub fn write(&self, target: &Path) -> io::Result<usize> {
        let folder = PendingFolder::beside(target)?;
        let script = self.script();
        let files = [
            ("index.html", include_str!("web/index.html")),
            ("conformance.js", include_str!("web/conformance.js")),
            ("data.js", script.as_str()),
        ];
        for (name, text) in files {
            folder.write(name, text.as_bytes())?;
        }
        folder.put_in_place()?;
        Ok(files.iter().map(|(_, text)| text.len()).sum())
    }
}

/// The texts that a shader was joined from: generated head, shared modules, body.
fn pieces(shader: &ShaderRecord) -> Vec<&str> {
    let source = shader.source.as_str();
    let of = || {
        let (kernel, variant) = shader.name.split_once('/')?;
        let OnWgpu::Shader(list) = &find(kernel)?.wgpu else { return None };
        list.iter().find(|v| v.name == variant)
    };
    let Some(variant) = of() else { return vec![source] };
    let (mut rest, mut found) = (source, Vec::new());
    let texts = variant.shared.iter().map(|shared| shared.body).chain([variant.body]);
    for text in texts.collect::<Vec<_>>().into_iter().rev() {
        match rest.strip_suffix(text) {
            Some(before) => {
                found.push(&rest[before.len()..]);
                rest = before;
            }
            None => break,
        }
    }
    found.push(rest);
    found.reverse();
    found
}

/// True values as f32 where that loses nothing; otherwise the upper five bytes of each f64, whose last bit is a 64th of an
/// f32's, where a tolerance is far above that; and whole where only the truth itself passes.
fn truth_bytes(wanted: &Wanted) -> (&'static str, Vec<u8>) {
    let numbers = wanted.truth.to_f64();
    let exact = |x: &f64| f64::from(*x as f32).to_bits() == x.to_bits();
    match (numbers.iter().all(exact), wanted.allowed >= f64::from(f32::EPSILON)) {
        (true, _) => ("f32", numbers.iter().flat_map(|x| (*x as f32).to_le_bytes()).collect()),
        (false, true) => ("f40", numbers.iter().flat_map(|x| upper_bytes(*x)).collect()),
        (false, false) => ("f64", numbers.iter().flat_map(|x| x.to_le_bytes()).collect()),
    }
}

/// The upper five bytes of an f64, rounded to nearest, lowest first.
fn upper_bytes(x: f64) -> [u8; 5] {
    let rounded = x.to_bits() + (1 << 23);
    let [_, _, _, bytes @ ..] = rounded.to_le_bytes();
    bytes
}

/// One object with the fields of both.
fn merged(mut one: Value, other: Value) -> Value {
    if let (Value::Object(one), Value::Object(other)) = (&mut one, other) {
        one.extend(other);
    }
    one
}

/// RFC 4648, with padding.
fn base64(bytes: &[u8]) -> String {
    const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for chunk in bytes.chunks(3) {
        let word =
            chunk.iter().enumerate().fold(0_u32, |word, (i, &byte)| word | u32::from(byte) << (16 - 8 * i));
        for place in 0..4 {
            let letter = LETTERS[(word >> (18 - 6 * place) & 63) as usize];
            text.push(if place <= chunk.len() { char::from(letter) } else { '=' });
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base64_is_that_of_the_standard() {
        let known = [
            ("", ""),
            ("f", "Zg=="),
            ("fo", "Zm8="),
            ("foo", "Zm9v"),
            ("foob", "Zm9vYg=="),
            ("foobar", "Zm9vYmFy"),
        ];
        for (plain, coded) in known {
            assert_eq!(base64(plain.as_bytes()), coded);
        }
        assert_eq!(base64(&[0xff, 0xfe, 0xfd]), "//79");
    }

    #[test]
    fn five_bytes_of_a_number_are_64_times_as_fine_as_f32() {
        for x in [1.0 / 3.0, -2.0e17 / 7.0, 1e-300 / 3.0, f64::INFINITY, 0.0, 1.999_999_999_999] {
            let mut bytes = [0; 8];
            bytes[3..].copy_from_slice(&upper_bytes(x));
            let back = f64::from_le_bytes(bytes);
            assert!(
                back == x || ((back - x) / x).abs() <= f64::from(f32::EPSILON) / 64.0,
                "{x} came back as {back}"
            );
        }
    }

    #[test]
    fn bytes_that_begin_alike_are_kept_once() {
        let mut page = Page::default();
        let long: Vec<u8> = (0..64).collect();
        assert_eq!(page.blob(&long[..32]), json!([0, 32]));
        assert_eq!(page.blob(&long), json!([0, 64]));
        assert_eq!(page.blob(&long[..20]), json!([0, 20]));
        assert_eq!(page.blob(&[9; 20]), json!([1, 20]));
        assert_eq!((page.blobs.len(), page.blob(&[])), (2, Value::Null));
        assert_eq!(page.blobs[0], long);
    }
}
