//! Buffers, textures and staging of a program.

use super::*;

pub(super) fn buffer(core: &Core, label: &str, bytes: u64, usage: ::wgpu::BufferUsages) -> ::wgpu::Buffer {
    core.device.create_buffer(&::wgpu::BufferDescriptor {
        label: Some(&format!("wgattn/{label}")),
        size: bytes,
        usage: usage | ::wgpu::BufferUsages::COPY_DST,
        mapped_at_creation: false,
    })
}

/// A buffer of our own for tensors, if the device allows one that large, with its contents if it has any from the start.
pub(super) fn storage(
    core: &Core,
    label: &str,
    bytes: u64,
    more: ::wgpu::BufferUsages,
    contents: Option<&[u8]>,
) -> Result<::wgpu::Buffer> {
    if bytes > core.caps.buffer {
        return Err(Error::Limit {
            what: format!("buffer `{label}`"),
            requested: bytes,
            allowed: core.caps.buffer,
            remedy: "use fewer tokens or heads, or a smaller memory budget".into(),
        });
    }
    let usage = more
        | ::wgpu::BufferUsages::STORAGE
        | ::wgpu::BufferUsages::COPY_SRC
        | ::wgpu::BufferUsages::COPY_DST;
    // Whole texels, for variants that read through textures.
    let size = bytes.next_multiple_of(16);
    match contents {
        None => core.checked(label, || buffer(core, label, size, usage)),
        Some(contents) => core.checked(label, || filled(core, label, size, usage, &[(0, contents)]))?,
    }
}

/// A buffer that has its contents from the start: pieces at byte offsets that are multiples of 8.
pub(super) fn filled(
    core: &Core,
    label: &str,
    size: u64,
    usage: ::wgpu::BufferUsages,
    pieces: &[(u64, &[u8])],
) -> Result<::wgpu::Buffer> {
    let buffer = core.device.create_buffer(&::wgpu::BufferDescriptor {
        label: Some(&format!("wgattn/{label}")),
        size,
        usage,
        mapped_at_creation: true,
    });
    for &(offset, piece) in pieces.iter().filter(|(_, p)| !p.is_empty()) {
        let range = offset..offset + (piece.len() as u64).next_multiple_of(4);
        let mut view = buffer.slice(range).get_mapped_range_mut().map_err(|e| core.failed(label, e))?;
        view.slice(..piece.len()).copy_from_slice(piece);
    }
    buffer.unmap();
    Ok(buffer)
}

/// What a buffer needs besides if a dispatch takes its number of workgroups from it. Only those: wgpu checks such buffers
/// with work of its own.
pub(super) fn indirect_usage(counts_groups: bool) -> ::wgpu::BufferUsages {
    if counts_groups { ::wgpu::BufferUsages::INDIRECT } else { ::wgpu::BufferUsages::empty() }
}

pub(super) fn object(core: &Core, info: &TensorInfo, more: ::wgpu::BufferUsages) -> Result<Object> {
    if info.dtype != DType::Rgba8 {
        let size = crate::graph::device_bytes(info);
        let contents = info.constant.as_ref().map(|value| value.device_bytes());
        let buffer = storage(core, &info.name, size, more, contents.as_deref())?;
        return Ok(Object::Buffer { buffer, offset: 0, size });
    }
    let [rows, cols] = [0, 1].map(|i| info.shape.dims().get(i).copied().unwrap_or(1));
    let allowed = core.caps.texture_rows;
    if rows > allowed || cols > allowed || rows == 0 || cols == 0 {
        return Err(Error::Limit {
            what: format!("texture `{}` {}", info.name, info.shape),
            requested: u64::from(rows.max(cols)),
            allowed: u64::from(allowed),
            remedy: "scale the picture down, or cut it into tiles".into(),
        });
    }
    core.checked(&info.name, || {
        let texture = core.device.create_texture(&::wgpu::TextureDescriptor {
            label: Some(&info.name),
            size: ::wgpu::Extent3d { width: cols, height: rows, depth_or_array_layers: 1 },
            mip_level_count: 1,
            sample_count: 1,
            dimension: ::wgpu::TextureDimension::D2,
            format: ::wgpu::TextureFormat::Rgba8Unorm,
            usage: ::wgpu::TextureUsages::TEXTURE_BINDING
                | ::wgpu::TextureUsages::STORAGE_BINDING
                | ::wgpu::TextureUsages::COPY_SRC
                | ::wgpu::TextureUsages::COPY_DST,
            view_formats: &[],
        });
        let view = texture.create_view(&::wgpu::TextureViewDescriptor::default());
        Object::Texture { texture, view }
    })
}

pub(super) fn make_stage(core: &Core, class: Class, rows: u32) -> Stage {
    if class == Class::Texture {
        let texture = core.device.create_texture(&::wgpu::TextureDescriptor {
            label: Some("wgattn/staged texture"),
            size: ::wgpu::Extent3d { width: TEXTURE_WIDTH, height: rows, depth_or_array_layers: 1 },
            mip_level_count: 1,
            sample_count: 1,
            dimension: ::wgpu::TextureDimension::D2,
            format: ::wgpu::TextureFormat::Rgba32Float,
            usage: ::wgpu::TextureUsages::TEXTURE_BINDING | ::wgpu::TextureUsages::COPY_DST,
            view_formats: &[],
        });
        let view = texture.create_view(&::wgpu::TextureViewDescriptor::default());
        return Stage::Texture(texture, view);
    }
    Stage::Uniform(buffer(core, "staged uniform", UNIFORM_BYTES, ::wgpu::BufferUsages::UNIFORM))
}

/// A mapped buffer with all pieces, ready to be copied from.
pub(super) fn staging(
    core: &Core,
    bytes: u64,
    pieces: &[Vec<u8>],
    offsets: &[u64],
) -> Result<::wgpu::Buffer> {
    if bytes > core.caps.buffer {
        return Err(Error::Limit {
            what: "staging of new inputs".into(),
            requested: bytes,
            allowed: core.caps.buffer,
            remedy: "write and encode inputs one at a time, or bind buffers of your own".into(),
        });
    }
    let placed: Vec<(u64, &[u8])> = offsets.iter().copied().zip(pieces.iter().map(Vec::as_slice)).collect();
    filled(core, "staging", bytes.max(256), ::wgpu::BufferUsages::COPY_SRC, &placed)
}

/// Pixels with rows at the pitch that copies want.
pub(super) fn padded_rows(data: &HostTensor) -> Vec<u8> {
    let width = data.shape().dims().get(1).copied().unwrap_or(1);
    let (bytes, pitch) = (data.device_bytes(), row_pitch(width) as usize);
    let mut padded = Vec::with_capacity(pitch * data.shape().dims()[0] as usize);
    for line in bytes.chunks(width as usize * 4) {
        padded.extend_from_slice(line);
        padded.resize(padded.len().next_multiple_of(pitch), 0);
    }
    padded
}

/// Rows of a staged texture that one copy fills.
pub(super) struct TexelRows {
    /// Byte of the source.
    pub(super) offset: u64,
    /// First row.
    pub(super) row: u32,
    /// Texels of a row.
    pub(super) width: u32,
    /// Rows.
    pub(super) height: u32,
}

/// The copies of so many bytes into a staged texture: whole rows, then the rest of one.
pub(super) fn texel_rows(offset: u64, bytes: u64) -> impl Iterator<Item = TexelRows> {
    let line = u64::from(TEXTURE_WIDTH) * 16;
    let (rows, rest) = ((bytes / line) as u32, (bytes % line / 16) as u32);
    let whole = TexelRows { offset, row: 0, width: TEXTURE_WIDTH, height: rows };
    let last = TexelRows { offset: offset + u64::from(rows) * line, row: rows, width: rest, height: 1 };
    [whole, last].into_iter().filter(|r| r.width > 0 && r.height > 0)
}

pub(super) fn part_of(buffer: &::wgpu::Buffer, offset: u64, bytes: u64) -> ::wgpu::BindingResource<'_> {
    ::wgpu::BindingResource::Buffer(::wgpu::BufferBinding {
        buffer,
        offset,
        size: ::wgpu::BufferSize::new(bytes),
    })
}
