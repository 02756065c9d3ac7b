//! Host buffers and textures in place of our own.

use super::*;

impl WgpuProgram {
    /// Binds a slice of the host's buffer in place of our own for an input or output.
    ///
    /// The buffer needs `STORAGE` usage, `COPY_SRC` too for what a pass reads, and `INDIRECT` for what counts
    /// workgroups. `offset` and `bytes` are in bytes; any
    /// multiple of 4 will do. What one pass reads and what it writes must be in two buffers.
    ///
    /// Errors: [`Error::Tensor`] for another kind of tensor, [`Error::Data`] for a slice of another size or usage or of
    /// a buffer that cannot be shared.
    pub fn bind(&mut self, tensor: Tensor, buffer: &::wgpu::Buffer, offset: u64, bytes: u64) -> Result<()> {
        let info = self.bindable(tensor)?;
        let needed = info.shape.len() * info.dtype.bytes();
        let usage = match self.is_read(tensor) {
            // Variants that read textures or uniforms copy from it.
            true => ::wgpu::BufferUsages::STORAGE | ::wgpu::BufferUsages::COPY_SRC,
            false => ::wgpu::BufferUsages::STORAGE,
        };
        let counts = self
            .schedule
            .steps
            .iter()
            .flat_map(Step::group_counts)
            .any(|t| self.schedule.base(t).0 == tensor.id);
        let usage = usage | indirect_usage(counts);
        let wrong = |expected: String, got: String| Error::Data { tensor: info.name.clone(), expected, got };
        if info.dtype == DType::Rgba8 {
            return Err(wrong("a texture: use `bind_texture`".into(), "a buffer".into()));
        }
        let inside = offset.checked_add(needed.next_multiple_of(4)).is_some_and(|end| end <= buffer.size());
        if bytes != needed || !offset.is_multiple_of(4) || !inside {
            return Err(wrong(
                format!(
                    "a slice of {needed} bytes at a multiple of 4 inside the buffer's {} bytes",
                    buffer.size()
                ),
                format!("{bytes} bytes at offset {offset}"),
            ));
        }
        if !buffer.usage().contains(usage) {
            return Err(wrong(format!("a buffer with usage {usage:?}"), format!("{:?}", buffer.usage())));
        }
        let (buffer, size) = (buffer.clone(), needed.next_multiple_of(4));
        self.replace(tensor, Object::Buffer { buffer, offset, size })
    }

    /// Binds the host's `rgba8unorm` texture in place of our own for an input or output of pixels `[rows, cols]`.
    ///
    /// Errors: [`Error::Data`] for another size, format or usage.
    pub fn bind_texture(&mut self, tensor: Tensor, texture: &::wgpu::Texture) -> Result<()> {
        let info = self.bindable(tensor)?;
        let mut usage = ::wgpu::TextureUsages::empty();
        usage.set(::wgpu::TextureUsages::TEXTURE_BINDING, self.is_read(tensor));
        usage.set(::wgpu::TextureUsages::STORAGE_BINDING, info.kind != Kind::Input);
        let fits = info.dtype == DType::Rgba8
            && texture.height() == tensor.dim(0)
            && texture.width() == tensor.dim(1)
            && texture.format() == ::wgpu::TextureFormat::Rgba8Unorm
            && texture.usage().contains(usage);
        if !fits {
            return Err(Error::Data {
                tensor: info.name.clone(),
                expected: format!(
                    "an Rgba8Unorm texture of [rows, cols] = {} with usage {usage:?}",
                    tensor.shape()
                ),
                got: format!(
                    "{:?} of [{}, {}] with {:?}",
                    texture.format(),
                    texture.height(),
                    texture.width(),
                    texture.usage()
                ),
            });
        }
        let view = texture.create_view(&::wgpu::TextureViewDescriptor::default());
        self.replace(tensor, Object::Texture { texture: texture.clone(), view })
    }

    pub(super) fn bindable(&self, tensor: Tensor) -> Result<TensorInfo> {
        self.core.alive()?;
        let info = known(&self.schedule, tensor)?.clone();
        if info.base.is_some() || !matches!(info.kind, Kind::Input | Kind::Output) {
            return Err(Error::Tensor {
                tensor: info.name,
                reason: "only inputs and outputs can be bound".into(),
            });
        }
        Ok(info)
    }

    /// Whether a pass reads the tensor: every input, and outputs that others are made from.
    pub(super) fn is_read(&self, tensor: Tensor) -> bool {
        let reads = |step: &Step| step.reads().any(|t| self.schedule.base(t).0 == tensor.id);
        self.schedule.tensors[tensor.id as usize].kind == Kind::Input || self.schedule.steps.iter().any(reads)
    }

    /// Refuses memory that one step would read and write, which wgpu would find only when the host's frame ends.
    pub(super) fn check_sharing(&self, tensor: Tensor, object: &Object) -> Result<()> {
        let with_new =
            |id: u32| if id == tensor.id { Some(object) } else { self.objects[id as usize].as_ref() };
        for step in &self.schedule.steps {
            let ids = |t: Tensor| self.schedule.base(t).0;
            let (reads, writes): (Vec<u32>, Vec<u32>) =
                (step.reads().map(ids).collect(), step.writes().map(ids).collect());
            for (place, &written) in writes.iter().enumerate() {
                let others =
                    reads.iter().map(|r| (*r, false)).chain(writes[..place].iter().map(|w| (*w, true)));
                for (other, both_written) in others.filter(|(o, _)| [written, *o].contains(&tensor.id)) {
                    let (Some(a), Some(b)) = (with_new(written), with_new(other)) else { continue };
                    if written != other && a.collides(b, both_written) {
                        let name = |id: u32| self.schedule.tensors[id as usize].name.clone();
                        return Err(Error::Data {
                            tensor: name(written),
                            expected: format!("memory of its own while {} runs", step.kernel.name),
                            got: format!("that of `{}`", name(other)),
                        });
                    }
                }
            }
        }
        Ok(())
    }

    pub(super) fn replace(&mut self, tensor: Tensor, object: Object) -> Result<()> {
        self.check_sharing(tensor, &object)?;
        let old = self.objects[tensor.id as usize].replace(object);
        self.given[tensor.id as usize] = true;
        self.pending.retain(|(id, _)| *id != tensor.id);
        let rebuilt = self.rebuild_steps_of(tensor);
        if rebuilt.is_err() {
            self.objects[tensor.id as usize] = old;
            self.rebuild_steps_of(tensor)?;
        }
        rebuilt
    }

    pub(super) fn rebuild_steps_of(&mut self, tensor: Tensor) -> Result<()> {
        for index in 0..self.steps.len() {
            let step = &self.schedule.steps[index];
            if step.reads().chain(step.writes()).any(|t| self.schedule.base(t).0 == tensor.id) {
                self.steps[index] = self.prepare_step(index)?;
            }
        }
        self.allocate_params()?;
        self.make_bind_groups()
    }

    /// The buffer of an input or output of ours, with the byte offset and size of the tensor in it.
    ///
    /// Errors: [`Error::Tensor`] for transients and textures.
    pub fn buffer(&self, tensor: Tensor) -> Result<(&::wgpu::Buffer, u64, u64)> {
        self.bindable(tensor)?;
        match self.object(tensor.id)? {
            Object::Buffer { buffer, offset, size } => Ok((buffer, *offset, *size)),
            Object::Texture { .. } => {
                Err(Error::Tensor { tensor: self.name(tensor), reason: "is a texture: use `texture`".into() })
            }
        }
    }

    /// The texture of an input or output of pixels.
    ///
    /// Errors: [`Error::Tensor`] for transients and buffers.
    pub fn texture(&self, tensor: Tensor) -> Result<&::wgpu::Texture> {
        self.bindable(tensor)?;
        match self.object(tensor.id)? {
            Object::Texture { texture, .. } => Ok(texture),
            Object::Buffer { .. } => {
                Err(Error::Tensor { tensor: self.name(tensor), reason: "is a buffer: use `buffer`".into() })
            }
        }
    }

    pub(super) fn name(&self, tensor: Tensor) -> String {
        self.schedule.tensors[tensor.id as usize].name.clone()
    }
}
