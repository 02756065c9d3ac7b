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

/// Pipelines by their WGSL. Those that no program holds any more are kept for the next one, but not without end: sizes and
/// parameters are part of the text, so a host whose user turns knobs makes ever new ones.
#[derive(Debug)]
pub(crate) struct Pipelines<P = Pipeline> {
    kept: HashMap<String, Kept<P>>,
    /// Most pipelines that are kept although no program holds them.
    most_idle: usize,
    /// Counts askings, to tell which pipeline was asked for longest ago.
    clock: u64,
}

#[derive(Debug)]
struct Kept<P> {
    pipeline: Arc<P>,
    asked: u64,
}

impl<P> Pipelines<P> {
    /// None yet.
    pub(crate) fn new(most_idle: usize) -> Self {
        Self { kept: HashMap::new(), most_idle, clock: 0 }
    }

    fn find(&mut self, source: &str) -> Option<Arc<P>> {
        self.clock += 1;
        let kept = self.kept.get_mut(source)?;
        kept.asked = self.clock;
        Some(Arc::clone(&kept.pipeline))
    }

    /// Keeps one, and gives back what no program holds beyond the most: those that were asked for longest ago.
    fn keep(&mut self, source: String, pipeline: Arc<P>) {
        self.clock += 1;
        self.kept.insert(source, Kept { pipeline, asked: self.clock });
        let is_idle = |kept: &Kept<P>| Arc::strong_count(&kept.pipeline) == 1;
        let mut idle: Vec<u64> = self.kept.values().filter(|k| is_idle(k)).map(|k| k.asked).collect();
        let Some(surplus) = idle.len().checked_sub(self.most_idle).filter(|n| *n > 0) else { return };
        let (_, last, _) = idle.select_nth_unstable(surplus - 1);
        let last = *last;
        self.kept.retain(|_, kept| kept.asked > last || !is_idle(kept));
    }
}

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

/// The pipeline of a composed shader, made now or before. One that is not to be kept is made now, and again by who keeps it: trials
/// push nothing out of what is kept, and what compiling takes is not hidden.
pub(crate) fn pipeline(core: &Core, composed: &Composed, keep: bool) -> Result<Arc<Pipeline>> {
    if !keep {
        return core.checked(&composed.name, || create(core, composed)).map(Arc::new);
    }
    let poisoned = |_| core.failed(&composed.name, "another thread panicked while it made a pipeline");
    if let Some(found) = core.pipelines.lock().map_err(poisoned)?.find(&composed.source) {
        return Ok(found);
    }
    let made = Arc::new(core.checked(&composed.name, || create(core, composed))?);
    core.pipelines.lock().map_err(poisoned)?.keep(composed.source.clone(), Arc::clone(&made));
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

#[cfg(test)]
mod tests {
    use super::Pipelines;
    use std::sync::Arc;

    fn made(cache: &mut Pipelines<u32>, names: std::ops::Range<u32>) -> Vec<Arc<u32>> {
        names
            .map(|name| {
                let pipeline = Arc::new(name);
                cache.keep(name.to_string(), Arc::clone(&pipeline));
                pipeline
            })
            .collect()
    }

    #[test]
    fn pipelines_in_use_are_all_kept() {
        let mut cache = Pipelines::new(2);
        let held = made(&mut cache, 0..20);
        assert!(held.iter().all(|p| cache.find(&p.to_string()).is_some()));
    }

    #[test]
    fn idle_ones_are_given_back_but_for_those_asked_for_last() {
        let mut cache = Pipelines::new(3);
        drop(made(&mut cache, 0..3));
        assert!(cache.find("0").is_some());
        // Each is held while it is put in, so the last one is idle only at the next.
        drop(made(&mut cache, 3..5));
        drop(made(&mut cache, 5..6));
        let found: Vec<u32> = (0..6).filter(|name| cache.find(&name.to_string()).is_some()).collect();
        assert_eq!(found, [0, 3, 4, 5]);
    }

    #[test]
    fn turning_knobs_for_ever_keeps_few() {
        let mut cache = Pipelines::new(8);
        for round in 0..100 {
            drop(made(&mut cache, 10 * round..10 * (round + 1)));
        }
        assert!(cache.kept.len() <= 18, "{} pipelines", cache.kept.len());
    }
}
