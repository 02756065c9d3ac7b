//! Compute pipelines, kept by the text they were made from.

use super::Core;
use crate::error::{Error, Result};
use crate::kernel::wgsl::{Composed, Resource};
use std::collections::HashMap;
use std::sync::Arc;

/// A compiled shader with its layout.
#[derive(Debug)]
pub(crate) struct Pipeline {
    pub(crate) pipeline: ::wgpu::ComputePipeline,
    pub(crate) layout: ::wgpu::BindGroupLayout,
    pub(crate) composed: Composed,
}

/// Pipelines by their WGSL.
pub(crate) type Pipelines = HashMap<String, Arc<Pipeline>>;

/// Whether a shader's own needs fit the device. wgpu 30 does not check workgroup memory, so we do.
pub(crate) fn fits(core: &Core, composed: &Composed) -> Result<()> {
    let over = |what: &str, requested: u64, allowed: u64| Error::Limit {
        what: format!("{} of {}", what, composed.name),
        requested,
        allowed,
        remedy: "use another adapter, or raise the limit where the device is created".into(),
    };
    let caps = &core.caps;
    if composed.workgroup_bytes > caps.workgroup_bytes {
        return Err(over("workgroup memory", composed.workgroup_bytes.into(), caps.workgroup_bytes.into()));
    }
    let invocations = composed.workgroup_size.iter().product::<u32>();
    if invocations > caps.invocations {
        return Err(over("workgroup size", invocations.into(), caps.invocations.into()));
    }
    let storage = composed.bindings.iter().filter(|b| matches!(b.resource, Resource::Storage { .. })).count();
    if storage as u64 > u64::from(caps.storage_buffers) {
        return Err(over("storage buffers", storage as u64, caps.storage_buffers.into()));
    }
    Ok(())
}

/// The pipeline of a composed shader, made now or before.
pub(crate) fn pipeline(core: &Core, composed: &Composed) -> Result<Arc<Pipeline>> {
    let poisoned = |_| core.failed(&composed.name, "another thread panicked while it made a pipeline");
    if let Some(found) = core.pipelines.lock().map_err(poisoned)?.get(&composed.source) {
        return Ok(Arc::clone(found));
    }
    let made = Arc::new(core.checked(&composed.name, || create(core, composed))?);
    core.pipelines.lock().map_err(poisoned)?.insert(composed.source.clone(), Arc::clone(&made));
    Ok(made)
}

fn create(core: &Core, composed: &Composed) -> Pipeline {
    let device = &core.device;
    let label = Some(composed.name.as_str());
    let entry = |b: &crate::kernel::wgsl::Binding| ::wgpu::BindGroupLayoutEntry {
        binding: b.number,
        visibility: ::wgpu::ShaderStages::COMPUTE,
        ty: match b.resource {
            Resource::Storage { write } => {
                buffer_type(::wgpu::BufferBindingType::Storage { read_only: !write })
            }
            Resource::Uniform => buffer_type(::wgpu::BufferBindingType::Uniform),
            Resource::Texture => ::wgpu::BindingType::Texture {
                sample_type: ::wgpu::TextureSampleType::Float { filterable: false },
                view_dimension: ::wgpu::TextureViewDimension::D2,
                multisampled: false,
            },
            Resource::StorageTexture => ::wgpu::BindingType::StorageTexture {
                access: ::wgpu::StorageTextureAccess::WriteOnly,
                format: ::wgpu::TextureFormat::Rgba8Unorm,
                view_dimension: ::wgpu::TextureViewDimension::D2,
            },
        },
        count: None,
    };
    let entries: Vec<_> = composed.bindings.iter().map(entry).collect();
    let layout =
        device.create_bind_group_layout(&::wgpu::BindGroupLayoutDescriptor { label, entries: &entries });
    let pipeline_layout = device.create_pipeline_layout(&::wgpu::PipelineLayoutDescriptor {
        label,
        bind_group_layouts: &[Some(&layout)],
        immediate_size: 0,
    });
    let module = device.create_shader_module(::wgpu::ShaderModuleDescriptor {
        label,
        source: ::wgpu::ShaderSource::Wgsl(composed.source.as_str().into()),
    });
    let pipeline = device.create_compute_pipeline(&::wgpu::ComputePipelineDescriptor {
        label,
        layout: Some(&pipeline_layout),
        module: &module,
        entry_point: Some("main"),
        compilation_options: ::wgpu::PipelineCompilationOptions {
            // Every kernel writes workgroup memory before it reads it; clearing it first costs time and, on some
            // drivers, a missing barrier.
            zero_initialize_workgroup_memory: false,
            ..Default::default()
        },
        cache: core.cache.as_ref(),
    });
    Pipeline { pipeline, layout, composed: composed.clone() }
}

fn buffer_type(ty: ::wgpu::BufferBindingType) -> ::wgpu::BindingType {
    ::wgpu::BindingType::Buffer { ty, has_dynamic_offset: false, min_binding_size: None }
}
