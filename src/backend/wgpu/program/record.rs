//! A program as plain data: what the conformance page runs in a browser, and what goes with a bug report.

use super::*;
use crate::backend::recording::{
    Bound, BufferRecord, Command, Dispatch, Home, Recording, ShaderRecord, TextureRecord, Written,
};
use crate::kernel::wgsl::Resource;

/// A recording that grows, with the objects its numbers stand for.
#[derive(Default)]
struct Recorder {
    recording: Recording,
    buffers: Vec<::wgpu::Buffer>,
    textures: Vec<::wgpu::Texture>,
    pipelines: Vec<Arc<Pipeline>>,
}

impl Recorder {
    fn buffer(&mut self, buffer: &::wgpu::Buffer, label: &str) -> usize {
        if let Some(known) = self.buffers.iter().position(|b| b == buffer) {
            return known;
        }
        self.buffers.push(buffer.clone());
        let usage = buffer_usage(buffer.usage());
        self.recording.buffers.push(BufferRecord {
            label: label.into(),
            bytes: buffer.size(),
            usage,
            contents: Vec::new(),
        });
        self.buffers.len() - 1
    }

    fn texture(&mut self, texture: &::wgpu::Texture, label: &str) -> usize {
        if let Some(known) = self.textures.iter().position(|t| t == texture) {
            return known;
        }
        self.textures.push(texture.clone());
        let format = match texture.format() {
            ::wgpu::TextureFormat::Rgba32Float => "rgba32float",
            // Ports of pixels are of this format alone: `bind_texture` refuses others.
            _ => "rgba8unorm",
        };
        self.recording.textures.push(TextureRecord {
            label: label.into(),
            width: texture.width(),
            height: texture.height(),
            format,
            usage: texture_usage(texture.usage()),
            contents: Vec::new(),
        });
        self.textures.len() - 1
    }

    fn shader(&mut self, pipeline: &Arc<Pipeline>) -> usize {
        if let Some(known) = self.pipelines.iter().position(|p| Arc::ptr_eq(p, pipeline)) {
            return known;
        }
        self.pipelines.push(Arc::clone(pipeline));
        let composed = &pipeline.composed;
        let kind = |resource| match resource {
            Resource::Storage { write: true } => "storage",
            Resource::Storage { write: false } => "read-only-storage",
            Resource::Uniform => "uniform",
            Resource::Texture => "texture",
            Resource::StorageTexture => "storage-texture",
        };
        self.recording.shaders.push(ShaderRecord {
            name: composed.name.clone(),
            entry: "main",
            source: composed.source.clone(),
            bindings: composed.bindings.iter().map(|b| (b.number, kind(b.resource))).collect(),
            workgroup_size: composed.workgroup_size,
            workgroup_bytes: composed.workgroup_bytes,
        });
        self.pipelines.len() - 1
    }

    fn copy(&mut self, from: usize, copy: &Copy) {
        match &copy.to {
            Stage::Uniform(to) => {
                let to = self.buffer(to, "staged uniform");
                self.recording.commands.push(Command::Copy {
                    from,
                    offset: copy.offset,
                    to,
                    bytes: copy.bytes,
                });
            }
            Stage::Texture(texture, _) => {
                let to = self.texture(texture, "staged texture");
                for rows in texel_rows(copy.offset, copy.bytes) {
                    let TexelRows { offset, row, width, height } = rows;
                    let bytes_per_row = TEXTURE_WIDTH * 16;
                    self.recording.commands.push(Command::CopyToTexture {
                        from,
                        offset,
                        bytes_per_row,
                        to,
                        row,
                        width,
                        height,
                    });
                }
            }
        }
    }
}

impl WgpuProgram {
    /// One run with these inputs as plain data. What a host has bound is recorded with the contents given here, or zeros.
    ///
    /// Errors: [`Error::DeviceLost`]; inputs that are not of this graph.
    pub(super) fn record(&self, inputs: &[(Tensor, &HostTensor)]) -> Result<Recording> {
        self.core.alive()?;
        let mut made = Recorder::default();
        self.record_objects(&mut made, inputs)?;
        let params = made.buffer(&self.params, "params");
        made.recording.buffers[params].contents = self.param_bytes();
        let mut number = 0;
        for (index, prepared) in self.steps.iter().enumerate() {
            for launch in &prepared.launches {
                for copy in launch.own_copies() {
                    if let Object::Buffer { buffer, .. } = self.object(copy.from)? {
                        let from = made.buffer(buffer, "copied");
                        made.copy(from, copy);
                    }
                }
                if !launch.groups.is_empty() {
                    let dispatch = self.record_launch(&mut made, index, launch, number)?;
                    made.recording.commands.push(Command::Dispatch(dispatch));
                }
                number += 1;
            }
        }
        Ok(made.recording)
    }

    /// Runs again, a submission for each dispatch, and reads back what each writes. Inputs and parameters are still where the
    /// last run left them, since no step writes them.
    ///
    /// Errors: [`Error::DeviceLost`], a failed readback.
    pub(super) fn written_by_dispatch(&self) -> Result<Vec<Vec<Written>>> {
        let (mut all, mut number) = (Vec::new(), 0);
        for (index, prepared) in self.steps.iter().enumerate() {
            for launch in &prepared.launches {
                let mut encoder = self.encoder();
                self.encode_launches(&mut encoder, [(index, launch)].into_iter());
                let tickets = self.read_written(&mut encoder, index, launch, number)?;
                number += 1;
                self.submit(encoder, self.schedule.steps[index].kernel.name)?;
                if !launch.groups.is_empty() {
                    let taken = tickets.into_iter().map(|(binding, ticket)| {
                        Ok(Written { binding, bytes: ticket.wait()?.device_bytes() })
                    });
                    all.push(taken.collect::<Result<_>>()?);
                }
            }
        }
        Ok(all)
    }

    /// Encodes copies of the buffers that a launch writes.
    fn read_written(
        &self,
        encoder: &mut ::wgpu::CommandEncoder,
        index: usize,
        launch: &Launch,
        number: u64,
    ) -> Result<Vec<(u32, Ticket)>> {
        let bindings = &self.steps[index].pipeline.composed.bindings;
        let entries = self.entries(&self.schedule.steps[index], index, launch, number)?;
        let written =
            bindings.iter().zip(entries).filter(|(b, _)| b.resource == Resource::Storage { write: true });
        let mut tickets = Vec::new();
        for (binding, entry) in written {
            let ::wgpu::BindingResource::Buffer(part) = entry.resource else { continue };
            let bytes = part.size.map_or(part.buffer.size() - part.offset, |size| size.get());
            let words = u32::try_from(bytes / 4).map_err(|_| Error::Limit {
                what: format!("reading back what {} writes", self.schedule.steps[index].kernel.name),
                requested: bytes,
                allowed: u64::from(u32::MAX) * 4,
                remedy: "trace a smaller case".into(),
            })?;
            let origin = Origin::Buffer(part.buffer, part.offset);
            let ticket = Ticket::encode(&self.core, encoder, origin, [words].into(), DType::U32)?;
            tickets.push((binding.number, ticket));
        }
        Ok(tickets)
    }

    /// Memory of tensors, with what is in it before the run.
    fn record_objects(&self, made: &mut Recorder, inputs: &[(Tensor, &HostTensor)]) -> Result<()> {
        for (tensor, _) in inputs {
            known(&self.schedule, *tensor)?;
        }
        for (id, object) in self.objects.iter().enumerate() {
            let (Some(object), info) = (object, &self.schedule.tensors[id]) else { continue };
            let given = inputs.iter().find(|(t, _)| t.id as usize == id).map(|(_, data)| *data);
            let contents = given.or(info.constant.as_deref()).map(HostTensor::device_bytes);
            let label = match self.schedule.slot_of[id] {
                Some(slot) if info.dtype != DType::Rgba8 => format!("slot {slot}"),
                _ => info.name.clone(),
            };
            let home = match object {
                Object::Buffer { buffer, offset, .. } => {
                    let index = made.buffer(buffer, &label);
                    let held = &mut made.recording.buffers[index].contents;
                    if let Some(contents) = contents {
                        let start = *offset as usize;
                        held.resize(held.len().max(start + contents.len()), 0);
                        held[start..start + contents.len()].copy_from_slice(&contents);
                    }
                    Home::Buffer { index, offset: *offset }
                }
                Object::Texture { texture, .. } => {
                    let index = made.texture(texture, &label);
                    made.recording.textures[index].contents.extend(contents.unwrap_or_default());
                    Home::Texture(index)
                }
            };
            if info.kind != Kind::Transient {
                made.recording.homes.push((id as u32, home));
            }
        }
        Ok(())
    }

    fn record_launch(
        &self,
        made: &mut Recorder,
        index: usize,
        launch: &Launch,
        number: u64,
    ) -> Result<Dispatch> {
        let (step, prepared) = (&self.schedule.steps[index], &self.steps[index]);
        let mut bindings = Vec::new();
        for entry in self.entries(step, index, launch, number)? {
            let bound = match entry.resource {
                ::wgpu::BindingResource::Buffer(part) => Bound::Buffer {
                    index: made.buffer(part.buffer, "absent port"),
                    offset: part.offset,
                    bytes: part.size.map_or(part.buffer.size() - part.offset, |size| size.get()),
                },
                ::wgpu::BindingResource::TextureView(view) => {
                    Bound::Texture(made.texture(view.texture(), "texture"))
                }
                _ => return Err(self.core.failed(step.kernel.name, "binds what no recording holds")),
            };
            bindings.push((entry.binding, bound));
        }
        let indirect = launch.indirect.and_then(|counts| self.place_of(counts));
        let word = |(name, ty, word): (String, &'static str, ParamWord)| {
            (name, ty, u32::from_le_bytes(self.param_word(step, prepared, launch, &word)))
        };
        Ok(Dispatch {
            shader: made.shader(&prepared.pipeline),
            bindings,
            groups: launch.folded,
            indirect: indirect.map(|(buffer, at)| (made.buffer(buffer, "workgroups"), at)),
            params: param_words(step.kernel).into_iter().map(word).collect(),
        })
    }
}

fn buffer_usage(usage: ::wgpu::BufferUsages) -> Vec<&'static str> {
    use ::wgpu::BufferUsages as Usage;
    let words = [
        (Usage::STORAGE, "storage"),
        (Usage::UNIFORM, "uniform"),
        (Usage::INDIRECT, "indirect"),
        (Usage::COPY_SRC, "copy_src"),
        (Usage::COPY_DST, "copy_dst"),
    ];
    words.into_iter().filter(|(flag, _)| usage.contains(*flag)).map(|(_, word)| word).collect()
}

fn texture_usage(usage: ::wgpu::TextureUsages) -> Vec<&'static str> {
    use ::wgpu::TextureUsages as Usage;
    let words = [
        (Usage::TEXTURE_BINDING, "texture_binding"),
        (Usage::STORAGE_BINDING, "storage_binding"),
        (Usage::COPY_SRC, "copy_src"),
        (Usage::COPY_DST, "copy_dst"),
    ];
    words.into_iter().filter(|(flag, _)| usage.contains(*flag)).map(|(_, word)| word).collect()
}
