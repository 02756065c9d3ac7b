//! Commands in a host's encoder: copies of parameters and inputs, then compute passes; and copies back.

use super::*;

impl WgpuProgram {
    /// Encodes the whole graph into the host's encoder: copies of parameters and new inputs, then compute passes.
    ///
    /// Nothing is submitted, polled or written to the queue. Inputs given by [`Program::write`] are copied by the first
    /// encode after it; a host that throws that encoder away must write them again.
    ///
    /// Errors: [`Error::Data`] for an input never given, [`Error::DeviceLost`].
    pub fn encode(&mut self, encoder: &mut ::wgpu::CommandEncoder) -> Result<()> {
        self.encode_uploads(encoder)?;
        self.encode_steps(encoder, 0..self.steps.len());
        Ok(())
    }

    pub(super) fn encode_uploads(&mut self, encoder: &mut ::wgpu::CommandEncoder) -> Result<()> {
        self.core.alive()?;
        if let Some((info, _)) = self
            .schedule
            .tensors
            .iter()
            .zip(&self.given)
            .find(|(t, given)| t.kind == Kind::Input && t.base.is_none() && !**given)
        {
            return Err(Error::Data {
                tensor: info.name.clone(),
                expected: "numbers: call `write` or `bind` first".into(),
                got: "none".into(),
            });
        }
        let pending = std::mem::take(&mut self.pending);
        let mut pieces = vec![self.param_bytes()];
        pieces.extend(pending.iter().map(|(_, data)| match data.dtype() {
            DType::Rgba8 => padded_rows(data),
            _ => data.device_bytes(),
        }));
        let offsets: Vec<u64> = pieces
            .iter()
            .scan(0, |at, piece| {
                let here = *at;
                *at += (piece.len() as u64).next_multiple_of(256);
                Some(here)
            })
            .collect();
        let total = offsets.last().copied().unwrap_or(0) + pieces.last().map_or(0, |p| p.len() as u64);
        let core = Arc::clone(&self.core);
        let made = core.checked("uploads", || staging(&core, total.next_multiple_of(256), &pieces, &offsets));
        let staging = match made.and_then(|inner| inner) {
            Ok(staging) => staging,
            Err(error) => {
                self.pending = pending;
                return Err(error);
            }
        };
        if self.schedule.steps.iter().zip(&self.steps).any(|(_, s)| !s.launches.is_empty()) {
            encoder.copy_buffer_to_buffer(&staging, 0, &self.params, 0, pieces[0].len() as u64);
        }
        for ((id, data), offset) in pending.iter().zip(&offsets[1..]) {
            match self.object(*id)? {
                Object::Buffer { buffer, offset: to, .. } if !data.data().is_empty() => {
                    let bytes = (data.shape().len() * data.dtype().bytes()).next_multiple_of(4);
                    encoder.copy_buffer_to_buffer(&staging, *offset, buffer, *to, bytes);
                }
                Object::Buffer { .. } => {}
                Object::Texture { texture, .. } => encoder.copy_buffer_to_texture(
                    ::wgpu::TexelCopyBufferInfo {
                        buffer: &staging,
                        layout: ::wgpu::TexelCopyBufferLayout {
                            offset: *offset,
                            bytes_per_row: Some(row_pitch(texture.width())),
                            rows_per_image: None,
                        },
                    },
                    texture.as_image_copy(),
                    texture.size(),
                ),
            }
        }
        Ok(())
    }

    pub(super) fn encode_steps(&self, encoder: &mut ::wgpu::CommandEncoder, range: std::ops::Range<usize>) {
        let launches = range.flat_map(|i| self.steps[i].launches.iter().map(move |l| (i, l)));
        self.encode_launches(encoder, launches);
    }

    /// Consecutive dispatches share a pass; a copy before a dispatch ends it.
    pub(super) fn encode_launches<'a>(
        &self,
        encoder: &mut ::wgpu::CommandEncoder,
        launches: impl Iterator<Item = (usize, &'a Launch)>,
    ) {
        let mut launches = launches.peekable();
        while launches.peek().is_some() {
            if let Some((_, launch)) = launches.peek() {
                launch.own_copies().iter().for_each(|copy| self.encode_copy(encoder, copy));
            }
            let mut pass = encoder.begin_compute_pass(&::wgpu::ComputePassDescriptor {
                label: Some(&self.schedule.label),
                timestamp_writes: None,
            });
            let mut first = true;
            while let Some((index, launch)) = launches.next_if(|(_, l)| first || l.own_copies().is_empty()) {
                first = false;
                self.encode_launch(&mut pass, index, launch);
            }
        }
    }

    pub(super) fn encode_launch(&self, pass: &mut ::wgpu::ComputePass<'_>, index: usize, launch: &Launch) {
        let Some(bind_group) = launch.bind_group.as_ref().filter(|_| !launch.groups.is_empty()) else {
            return;
        };
        let [x, y, z] = launch.folded;
        pass.push_debug_group(self.schedule.steps[index].kernel.name);
        pass.set_pipeline(&self.steps[index].pipeline.pipeline);
        pass.set_bind_group(0, bind_group, &[]);
        match launch.indirect.and_then(|counts| self.place_of(counts)) {
            Some((buffer, at)) => pass.dispatch_workgroups_indirect(buffer, at),
            None => pass.dispatch_workgroups(x, y, z),
        }
        pass.pop_debug_group();
    }

    /// The buffer of a tensor and the byte at which it begins.
    pub(super) fn place_of(&self, tensor: Tensor) -> Option<(&::wgpu::Buffer, u64)> {
        let (id, from) = self.schedule.base(tensor);
        match self.objects[id as usize].as_ref()? {
            Object::Buffer { buffer, offset, .. } => Some((buffer, offset + from * tensor.dtype().bytes())),
            Object::Texture { .. } => None,
        }
    }

    pub(super) fn encode_copy(&self, encoder: &mut ::wgpu::CommandEncoder, copy: &Copy) {
        let Some(Object::Buffer { buffer, .. }) = &self.objects[copy.from as usize] else { return };
        match &copy.to {
            Stage::Uniform(to) => encoder.copy_buffer_to_buffer(buffer, copy.offset, to, 0, copy.bytes),
            Stage::Texture(texture, _) => {
                for TexelRows { offset, row, width, height } in texel_rows(copy.offset, copy.bytes) {
                    let layout = ::wgpu::TexelCopyBufferLayout {
                        offset,
                        bytes_per_row: (height > 1).then_some(TEXTURE_WIDTH * 16),
                        rows_per_image: None,
                    };
                    let mut target = texture.as_image_copy();
                    target.origin = ::wgpu::Origin3d { x: 0, y: row, z: 0 };
                    let size = ::wgpu::Extent3d { width, height, depth_or_array_layers: 1 };
                    encoder.copy_buffer_to_texture(
                        ::wgpu::TexelCopyBufferInfo { buffer, layout },
                        target,
                        size,
                    );
                }
            }
        }
    }

    /// Encodes a copy of an output to the host; poll the device after submitting and ask the ticket.
    ///
    /// Errors: [`Error::Tensor`] for what is no input or output, [`Error::Data`] for a host's buffer or texture that cannot
    /// be copied from.
    pub fn readback(&self, tensor: Tensor, encoder: &mut ::wgpu::CommandEncoder) -> Result<Ticket> {
        self.core.alive()?;
        let info = known(&self.schedule, tensor)?;
        let (base, from) = self.schedule.base(tensor);
        if self.schedule.tensors[base as usize].kind == Kind::Transient {
            let reason = "is a transient; declare it with `Graph::output` to read it".into();
            return Err(Error::Tensor { tensor: info.name.clone(), reason });
        }
        let wrong = |expected: &str, got: String| {
            Err(Error::Data { tensor: info.name.clone(), expected: expected.into(), got })
        };
        let origin = match self.object(base)? {
            Object::Buffer { buffer, offset, .. } => {
                let start = offset + from * info.dtype.bytes();
                if !buffer.usage().contains(::wgpu::BufferUsages::COPY_SRC) {
                    return wrong("the bound buffer to have usage COPY_SRC", format!("{:?}", buffer.usage()));
                }
                if !start.is_multiple_of(4) {
                    return wrong("a view that begins at a multiple of 4 bytes", format!("byte {start}"));
                }
                Origin::Buffer(buffer, start)
            }
            Object::Texture { texture, .. } => {
                if !texture.usage().contains(::wgpu::TextureUsages::COPY_SRC) {
                    return wrong(
                        "the bound texture to have usage COPY_SRC",
                        format!("{:?}", texture.usage()),
                    );
                }
                Origin::Texture(texture)
            }
        };
        Ticket::encode(&self.core, encoder, origin, tensor.shape(), tensor.dtype())
    }
}
