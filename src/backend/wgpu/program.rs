//! A graph compiled for one device: pipelines, memory, windows, bind groups, and the commands in a host's encoder.
//!
//! Parameters and new inputs travel through a staging buffer that is made mapped and copied *inside the encoder*, so two
//! encodes before one submit each see their own values, and the queue is never written.

use super::pipeline::{Pipeline, fits, pipeline};
use super::readback::{Origin, Ticket, row_pitch};
use super::window::{Window, fold, windows};
use super::{Core, Progress, WgpuBackend};
use crate::backend::{
    Burst, Memory, Program, StepTime, Stopwatch, TimingSource, Timings, check_write, known,
};
use crate::error::{Error, Result};
use crate::graph::{Graph, Kind, Lowering, PassId, Schedule, Step, TensorInfo};
use crate::kernel::wgsl::{ParamWord, TEXTURE_WIDTH, UNIFORM_BYTES, compose, param_words};
use crate::kernel::{Class, OnWgpu, Variant};
use crate::tensor::{DType, HostTensor, Tensor};
use std::collections::HashMap;
use std::sync::Arc;

/// Bytes between two launches' uniform blocks: the default offset alignment of WebGPU.
const PARAMS_STRIDE: u64 = 256;

/// Memory of one tensor.
#[derive(Clone, Debug)]
enum Object {
    Buffer { buffer: ::wgpu::Buffer, offset: u64, size: u64 },
    Texture { texture: ::wgpu::Texture, view: ::wgpu::TextureView },
}

impl Object {
    /// Whether a dispatch cannot use both: one buffer is either read or written, and slices of it that are both written
    /// may not overlap.
    fn collides(&self, other: &Self, both_written: bool) -> bool {
        match (self, other) {
            (
                Self::Buffer { buffer, offset, size },
                Self::Buffer { buffer: other, offset: other_offset, size: other_size },
            ) => {
                let overlap = *offset < other_offset + other_size && *other_offset < offset + size;
                buffer == other && (!both_written || overlap)
            }
            (Self::Texture { texture, .. }, Self::Texture { texture: other, .. }) => texture == other,
            _ => false,
        }
    }
}

/// A resource into which a window is copied before a dispatch.
#[derive(Clone, Debug)]
enum Stage {
    Uniform(::wgpu::Buffer),
    Texture(::wgpu::Texture, ::wgpu::TextureView),
}

#[derive(Debug)]
struct Copy {
    from: u32,
    offset: u64,
    bytes: u64,
    to: Stage,
}

#[derive(Debug)]
struct Launch {
    window: Window,
    groups: u64,
    folded: [u32; 3],
    copies: Vec<Copy>,
    /// Made once all launches are known, because each has its place in the block of parameters.
    bind_group: Option<::wgpu::BindGroup>,
}

#[derive(Debug)]
struct Prepared {
    variant: &'static Variant,
    pipeline: Arc<Pipeline>,
    launches: Vec<Launch>,
}

/// A graph on one wgpu device.
#[derive(Debug)]
pub struct WgpuProgram {
    core: Arc<Core>,
    graph: Graph,
    schedule: Schedule,
    objects: Vec<Option<Object>>,
    steps: Vec<Prepared>,
    params: ::wgpu::Buffer,
    dummies: Vec<::wgpu::Buffer>,
    stages: HashMap<(Class, u32, usize), Stage>,
    pending: Vec<(u32, HostTensor)>,
    given: Vec<bool>,
    profiling: bool,
    forced: Option<String>,
}

impl WgpuProgram {
    pub(super) fn new(
        core: Arc<Core>,
        graph: &Graph,
        variants: Option<String>,
        progress: Progress<'_>,
    ) -> Result<Self> {
        core.alive()?;
        let schedule = graph.schedule(Lowering::Device(&core.caps))?;
        let count = schedule.tensors.len();
        let empty =
            core.checked("parameters", || buffer(&core, "params", 4, ::wgpu::BufferUsages::UNIFORM))?;
        let dummy = |_| {
            buffer(&core, "absent port", 16, ::wgpu::BufferUsages::STORAGE | ::wgpu::BufferUsages::COPY_SRC)
        };
        let dummies = core.checked("absent ports", || (0..8).map(dummy).collect())?;
        let mut program = Self {
            given: vec![false; count],
            objects: vec![None; count],
            steps: Vec::new(),
            params: empty,
            dummies,
            stages: HashMap::new(),
            pending: Vec::new(),
            profiling: false,
            forced: variants,
            graph: graph.clone(),
            schedule,
            core,
        };
        program.allocate()?;
        let total = program.schedule.steps.len();
        for index in 0..total {
            let prepared = program.prepare_step(index)?;
            progress(index + 1, total, program.schedule.steps[index].kernel.name);
            program.steps.push(prepared);
        }
        program.allocate_params()?;
        program.make_bind_groups()?;
        Ok(program)
    }

    /// The same graph with the same parameters on another device. Inputs must be written or bound again.
    ///
    /// Errors: as preparing it anew.
    pub fn rebuild(&self, backend: &WgpuBackend) -> Result<Self> {
        Self::new(Arc::clone(&backend.core), &self.graph, self.forced.clone(), &mut |_, _, _| {})
    }

    fn allocate(&mut self) -> Result<()> {
        let core = Arc::clone(&self.core);
        let mut slots: Vec<Option<::wgpu::Buffer>> = vec![None; self.schedule.slots.len()];
        for id in 0..self.schedule.tensors.len() {
            let info = self.schedule.tensors[id].clone();
            let used = self.schedule.spans[id].is_some() || (info.kind == Kind::Input && info.base.is_none());
            if !used || info.base.is_some() {
                continue;
            }
            self.objects[id] = Some(match self.schedule.slot_of[id] {
                Some(slot) if info.dtype != DType::Rgba8 => {
                    let bytes = self.schedule.slots[slot].bytes;
                    if slots[slot].is_none() {
                        slots[slot] = Some(storage(&core, &format!("slot {slot}"), bytes, None)?);
                    }
                    let buffer =
                        slots[slot].clone().ok_or_else(|| core.failed("memory", "a slot is missing"))?;
                    Object::Buffer { buffer, offset: 0, size: bytes }
                }
                _ => object(&core, &info)?,
            });
            if let Some(value) = &info.constant {
                // Buffers were made with their numbers in them: a host may throw an encoder away.
                if info.dtype == DType::Rgba8 {
                    self.pending.push((id as u32, value.as_ref().clone()));
                }
                self.given[id] = true;
            }
        }
        Ok(())
    }

    fn object(&self, id: u32) -> Result<&Object> {
        self.objects[id as usize].as_ref().ok_or_else(|| Error::Tensor {
            tensor: self.schedule.tensors[id as usize].name.clone(),
            reason: "has no memory: no step that is kept touches it".into(),
        })
    }

    /// Element at which each port's tensor begins in its memory object.
    fn bases(&self, step: &Step) -> Result<Vec<u64>> {
        let base = |arg: &Option<Tensor>| {
            let Some(tensor) = arg else { return Ok(0) };
            let (id, from) = self.schedule.base(*tensor);
            Ok(match self.object(id)? {
                Object::Buffer { offset, .. } => offset / tensor.dtype().bytes() + from,
                Object::Texture { .. } => 0,
            })
        };
        step.args.iter().map(base).collect()
    }

    /// The first variant, in the driver's order of preference, that suits and fits.
    fn prepare_step(&mut self, index: usize) -> Result<Prepared> {
        let step = self.schedule.steps[index].clone();
        let OnWgpu::Shader(variants) = &step.kernel.wgpu else {
            return Err(self.core.failed(step.kernel.name, "an expansion was not expanded"));
        };
        let driver = self.core.caps.driver;
        let (first, rest): (Vec<_>, Vec<_>) = variants.iter().partition(|v| v.preferred_on.contains(&driver));
        let forced = self.forced.clone();
        let mut reason = None;
        for variant in first.into_iter().chain(rest) {
            if forced.as_deref().is_some_and(|list| !allowed(list, step.kernel.name, variant.name)) {
                continue;
            }
            match self.try_variant(&step, variant) {
                Ok(prepared) => return Ok(prepared),
                Err(Refusal::Unsuitable) => {}
                Err(Refusal::Error(error @ Error::Limit { .. })) => reason = reason.or(Some(error)),
                Err(Refusal::Error(error)) => return Err(error),
            }
        }
        Err(reason.unwrap_or_else(|| Error::Unsupported {
            device: self.core.info.name.clone(),
            missing: format!("no variant of {} suits {:?}", step.kernel.name, step.dims),
        }))
    }

    fn try_variant(
        &mut self,
        step: &Step,
        variant: &'static Variant,
    ) -> std::result::Result<Prepared, Refusal> {
        let core = Arc::clone(&self.core);
        let spec = step.kernel;
        if !(variant.suits)(&step.dims, &step.params, &core.caps)
            || (variant.subgroups && !core.caps.subgroups)
        {
            return Err(Refusal::Unsuitable);
        }
        let rounds = (variant.rounds)(&step.dims);
        if rounds > core.caps.loop_rounds {
            return Err(Refusal::Error(Error::Limit {
                what: format!("loop rounds of one invocation of {}/{}", spec.name, variant.name),
                requested: rounds,
                allowed: core.caps.loop_rounds,
                remedy: "this driver cuts longer loops short; use fewer tokens per head, or another device"
                    .into(),
            }));
        }
        let present: Vec<bool> = step.args.iter().map(Option::is_some).collect();
        let composed = compose(spec, variant, &step.dims, &step.params, &present)?;
        fits(&core, &composed)?;
        let shapes: Vec<_> = step.args.iter().map(|a| a.map(|t| t.shape())).collect();
        let bases = self.bases(step)?;
        let list = windows(spec, variant, &step.params, &step.dims, &shapes, &bases, &core.caps)?;
        for (i, _) in spec.ports.iter().enumerate().filter(|(_, p)| variant.vec4.contains(&p.name)) {
            let aligned = |w: &Window| {
                w.ports[i].is_none_or(|p| p.from % 4 == 0 && p.len % 4 == 0 && p.before % 4 == 0)
            };
            if !list.iter().all(aligned) {
                return Err(Refusal::Unsuitable);
            }
        }
        let pipeline = pipeline(&core, &composed)?;
        let mut launches = Vec::new();
        for window in list {
            let groups = (variant.grid)(&window.dims, window.batches);
            let folded = fold(spec.name, groups, core.caps.groups)?;
            let copies = self.stage(step, variant, &window)?;
            launches.push(Launch { window, groups, folded, copies, bind_group: None });
        }
        Ok(Prepared { variant, pipeline, launches })
    }

    /// Resources for the ports that the variant reads through copies.
    fn stage(
        &mut self,
        step: &Step,
        variant: &Variant,
        window: &Window,
    ) -> std::result::Result<Vec<Copy>, Refusal> {
        let mut copies = Vec::new();
        for (number, (name, class)) in variant.classes.iter().enumerate() {
            let index = step.kernel.port_index(name).unwrap_or_default();
            let (Some(tensor), Some(part)) = (step.args[index], window.ports[index]) else { continue };
            let from = self.schedule.base(tensor).0;
            let (offset, bytes) = staged(*class, part.from, part.len, tensor.dtype());
            match self.object(from)? {
                Object::Buffer { buffer, .. } if offset + bytes <= buffer.size() => {}
                // A host's buffer that ends within a texel.
                _ => return Err(Refusal::Unsuitable),
            }
            let rows =
                u32::try_from(bytes.div_ceil(u64::from(TEXTURE_WIDTH) * 16)).unwrap_or(u32::MAX).max(1);
            let key = (*class, if *class == Class::Texture { rows.next_power_of_two() } else { 0 }, number);
            let core = Arc::clone(&self.core);
            let to = match self.stages.get(&key) {
                Some(stage) => stage.clone(),
                None => {
                    let stage = core.checked("staging", || make_stage(&core, key.0, key.1))?;
                    self.stages.insert(key, stage.clone());
                    stage
                }
            };
            copies.push(Copy { from, offset, bytes, to });
        }
        Ok(copies)
    }

    fn allocate_params(&mut self) -> Result<()> {
        let launches: usize = self.steps.iter().map(|s| s.launches.len()).sum();
        let bytes = (launches as u64 * PARAMS_STRIDE).max(PARAMS_STRIDE);
        if bytes > self.core.caps.buffer {
            return Err(Error::Limit {
                what: "uniform blocks of all dispatches".into(),
                requested: bytes,
                allowed: self.core.caps.buffer,
                remedy: "split the graph".into(),
            });
        }
        let core = Arc::clone(&self.core);
        self.params =
            core.checked("parameters", || buffer(&core, "params", bytes, ::wgpu::BufferUsages::UNIFORM))?;
        Ok(())
    }

    fn make_bind_groups(&mut self) -> Result<()> {
        let mut number = 0;
        for index in 0..self.steps.len() {
            let step = self.schedule.steps[index].clone();
            for launch in 0..self.steps[index].launches.len() {
                let made = self.bind_group(&step, index, launch, number)?;
                self.steps[index].launches[launch].bind_group = Some(made);
                number += 1;
            }
        }
        Ok(())
    }

    fn bind_group(&self, step: &Step, index: usize, launch: usize, number: u64) -> Result<::wgpu::BindGroup> {
        let prepared = &self.steps[index];
        let launch = &prepared.launches[launch];
        let block = param_words(step.kernel).len() as u64 * 4;
        let mut entries = Vec::new();
        let mut spare = self.dummies.iter();
        for binding in &prepared.pipeline.composed.bindings {
            let resource = match binding.port {
                None => part_of(&self.params, number * PARAMS_STRIDE, block),
                Some(port) => match step.args[port] {
                    None => {
                        let dummy = spare.next().ok_or_else(|| {
                            self.core.failed(step.kernel.name, "more absent ports than dummies")
                        })?;
                        part_of(dummy, 0, 16)
                    }
                    Some(tensor) => self.resource(step, port, tensor, prepared.variant, launch)?,
                },
            };
            entries.push(::wgpu::BindGroupEntry { binding: binding.number, resource });
        }
        self.core.checked(step.kernel.name, || {
            self.core.device.create_bind_group(&::wgpu::BindGroupDescriptor {
                label: Some(step.kernel.name),
                layout: &prepared.pipeline.layout,
                entries: &entries,
            })
        })
    }

    fn resource<'a>(
        &'a self,
        step: &Step,
        port: usize,
        tensor: Tensor,
        variant: &Variant,
        launch: &'a Launch,
    ) -> Result<::wgpu::BindingResource<'a>> {
        let name = step.kernel.ports[port].name;
        if let Some(staged) = variant.classes.iter().position(|(n, _)| *n == name) {
            let place = variant.classes[..staged]
                .iter()
                .filter(|(n, _)| step.kernel.port_index(n).is_some_and(|i| step.args[i].is_some()));
            return Ok(match &launch.copies[place.count()].to {
                Stage::Uniform(buffer) => part_of(buffer, 0, UNIFORM_BYTES),
                Stage::Texture(_, view) => ::wgpu::BindingResource::TextureView(view),
            });
        }
        match (self.object(self.schedule.base(tensor).0)?, launch.window.ports[port]) {
            (Object::Texture { view, .. }, _) => Ok(::wgpu::BindingResource::TextureView(view)),
            (Object::Buffer { buffer, size, offset }, Some(part)) => {
                let (start, _) = self.aligned(tensor, part.from);
                let end =
                    ((part.from + part.len) * tensor.dtype().bytes()).next_multiple_of(4).min(offset + size);
                Ok(part_of(buffer, start, end.saturating_sub(start).max(4)))
            }
            _ => Err(self.core.failed(step.kernel.name, format!("port `{name}` has no part"))),
        }
    }

    /// Byte at which a binding may begin, and the element's distance from it.
    fn aligned(&self, tensor: Tensor, element: u64) -> (u64, u64) {
        let bytes = element * tensor.dtype().bytes();
        let start =
            bytes / u64::from(self.core.caps.storage_alignment) * u64::from(self.core.caps.storage_alignment);
        (start, (bytes - start) / tensor.dtype().bytes())
    }

    /// The uniform blocks of all launches.
    fn param_bytes(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        for (step, prepared) in self.schedule.steps.iter().zip(&self.steps) {
            let words = param_words(step.kernel);
            for launch in &prepared.launches {
                let start = bytes.len();
                for (_, _, word) in &words {
                    bytes.extend(self.param_word(step, prepared, launch, word));
                }
                bytes.resize(start + PARAMS_STRIDE as usize, 0);
            }
        }
        bytes
    }

    fn param_word(&self, step: &Step, prepared: &Prepared, launch: &Launch, word: &ParamWord) -> [u8; 4] {
        let window = &launch.window;
        // Element positions fit 32 bits: a binding is at most 4 GiB. Subtracting the heads before may wrap, and the
        // shader's additions wrap back.
        let word32 = |x: u64| (x as u32).to_le_bytes();
        let part = |i: usize| {
            window.ports[i].unwrap_or(super::window::Part { from: 0, len: 0, before: 0, strides: (0, 0) })
        };
        match *word {
            ParamWord::Live(i) => [0, 1, 2, 3].map(|b| step.params[4 * i + b]),
            ParamWord::Dim("b") => step.dims.size("b").to_le_bytes(),
            ParamWord::Dim("h") => step.dims.size("h").to_le_bytes(),
            ParamWord::Dim(name) => window.dims.size(name).to_le_bytes(),
            ParamWord::BatchFrom => word32(window.batch_from),
            ParamWord::Groups => word32(launch.groups),
            ParamWord::At(i) => {
                let class = prepared
                    .variant
                    .classes
                    .iter()
                    .find(|(n, _)| *n == step.kernel.ports[i].name)
                    .map(|c| c.1);
                let place = match class {
                    Some(Class::Texture) => part(i).from % 4,
                    Some(Class::Uniform) => 0,
                    _ => step.args[i].map_or(0, |t| self.aligned(t, part(i).from).1),
                };
                (place as u32).wrapping_sub(part(i).before as u32).to_le_bytes()
            }
            ParamWord::StrideB(i) => word32(part(i).strides.0),
            ParamWord::StrideH(i) => word32(part(i).strides.1),
        }
    }

    /// Binds a slice of the host's buffer in place of our own for an input or output.
    ///
    /// The buffer needs `STORAGE` usage, and `COPY_SRC` too for what a pass reads. `offset` and `bytes` are in bytes; any
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

    fn bindable(&self, tensor: Tensor) -> Result<TensorInfo> {
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
    fn is_read(&self, tensor: Tensor) -> bool {
        let reads = |step: &Step| step.reads().any(|t| self.schedule.base(t).0 == tensor.id);
        self.schedule.tensors[tensor.id as usize].kind == Kind::Input || self.schedule.steps.iter().any(reads)
    }

    /// Refuses memory that one step would read and write, which wgpu would find only when the host's frame ends.
    fn check_sharing(&self, tensor: Tensor, object: &Object) -> Result<()> {
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

    fn replace(&mut self, tensor: Tensor, object: Object) -> Result<()> {
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

    fn rebuild_steps_of(&mut self, tensor: Tensor) -> Result<()> {
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

    fn name(&self, tensor: Tensor) -> String {
        self.schedule.tensors[tensor.id as usize].name.clone()
    }

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

    fn encode_uploads(&mut self, encoder: &mut ::wgpu::CommandEncoder) -> Result<()> {
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

    /// Consecutive dispatches share a pass; a copy before a dispatch ends it.
    fn encode_steps(&self, encoder: &mut ::wgpu::CommandEncoder, range: std::ops::Range<usize>) {
        let mut launches = range.flat_map(|i| self.steps[i].launches.iter().map(move |l| (i, l))).peekable();
        while launches.peek().is_some() {
            if let Some((_, launch)) = launches.peek() {
                launch.copies.iter().for_each(|copy| self.encode_copy(encoder, copy));
            }
            let mut pass = encoder.begin_compute_pass(&::wgpu::ComputePassDescriptor {
                label: Some(&self.schedule.label),
                timestamp_writes: None,
            });
            let mut first = true;
            while let Some((index, launch)) = launches.next_if(|(_, l)| first || l.copies.is_empty()) {
                first = false;
                self.encode_launch(&mut pass, index, launch);
            }
        }
    }

    fn encode_launch(&self, pass: &mut ::wgpu::ComputePass<'_>, index: usize, launch: &Launch) {
        let Some(bind_group) = launch.bind_group.as_ref().filter(|_| launch.groups > 0) else { return };
        let [x, y, z] = launch.folded;
        pass.push_debug_group(self.schedule.steps[index].kernel.name);
        pass.set_pipeline(&self.steps[index].pipeline.pipeline);
        pass.set_bind_group(0, bind_group, &[]);
        pass.dispatch_workgroups(x, y, z);
        pass.pop_debug_group();
    }

    fn encode_copy(&self, encoder: &mut ::wgpu::CommandEncoder, copy: &Copy) {
        let Some(Object::Buffer { buffer, .. }) = &self.objects[copy.from as usize] else { return };
        match &copy.to {
            Stage::Uniform(to) => encoder.copy_buffer_to_buffer(buffer, copy.offset, to, 0, copy.bytes),
            Stage::Texture(texture, _) => {
                let line = u64::from(TEXTURE_WIDTH) * 16;
                let (rows, rest) = ((copy.bytes / line) as u32, (copy.bytes % line / 16) as u32);
                let mut copy_rows = |offset: u64, row: u32, width: u32, height: u32| {
                    if width == 0 || height == 0 {
                        return;
                    }
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
                };
                copy_rows(copy.offset, 0, TEXTURE_WIDTH, rows);
                copy_rows(copy.offset + u64::from(rows) * line, rows, rest, 1);
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

    /// Kernel and variant of every step in order.
    pub fn variants(&self) -> Vec<(&'static str, &'static str)> {
        self.schedule.steps.iter().zip(&self.steps).map(|(s, p)| (s.kernel.name, p.variant.name)).collect()
    }

    /// Number of dispatches in one encode.
    pub fn dispatches(&self) -> usize {
        self.steps.iter().flat_map(|s| &s.launches).filter(|l| l.groups > 0).count()
    }

    fn submit(&self, encoder: ::wgpu::CommandEncoder, context: &str) -> Result<()> {
        self.core.alive()?;
        self.core.checked(context, || self.core.queue.submit([encoder.finish()]))?;
        self.core.wait(context)
    }

    fn encoder(&self) -> ::wgpu::CommandEncoder {
        self.core
            .device
            .create_command_encoder(&::wgpu::CommandEncoderDescriptor { label: Some(&self.schedule.label) })
    }

    /// One submission per step, each timed by the device where it can and by the host's clocks in any case.
    fn run_profiled(&mut self) -> Result<(TimingSource, Vec<StepTime>)> {
        let mut encoder = self.encoder();
        self.encode_uploads(&mut encoder)?;
        self.submit(encoder, "uploads")?;
        let queries =
            if self.core.timestamps { Some(super::timing::Queries::new(&self.core)?) } else { None };
        let mut source = if queries.is_some() { TimingSource::Timestamp } else { TimingSource::Wall };
        let mut times = Vec::new();
        for index in 0..self.steps.len() {
            let mut encoder = self.encoder();
            for launch in &self.steps[index].launches {
                launch.copies.iter().for_each(|copy| self.encode_copy(&mut encoder, copy));
                if launch.copies.is_empty() {
                    continue;
                }
                let mut pass = encoder.begin_compute_pass(&::wgpu::ComputePassDescriptor::default());
                self.encode_launch(&mut pass, index, launch);
            }
            let copied = self.steps[index].launches.iter().any(|l| !l.copies.is_empty());
            if !copied {
                let timestamp_writes = queries.as_ref().map(super::timing::Queries::writes);
                let mut pass = encoder
                    .begin_compute_pass(&::wgpu::ComputePassDescriptor { label: None, timestamp_writes });
                self.steps[index].launches.iter().for_each(|l| self.encode_launch(&mut pass, index, l));
            }
            if let Some(queries) = queries.as_ref().filter(|_| !copied) {
                queries.resolve(&mut encoder);
            }
            let watch = Stopwatch::start();
            self.submit(encoder, self.schedule.steps[index].kernel.name)?;
            let (wall, cpu) = watch.seconds();
            // Copies before a dispatch belong to the step, so such a step is timed from outside.
            let stamped = match queries.as_ref().filter(|_| !copied) {
                Some(queries) => queries.seconds(&self.core, wall)?,
                None => None,
            };
            if stamped.is_none() && !copied {
                source = TimingSource::Wall;
            }
            let step = &self.schedule.steps[index];
            times.push(StepTime {
                kernel: step.kernel.name,
                variant: self.steps[index].variant.name,
                seconds: stamped.unwrap_or(wall),
                cpu_seconds: self.core.software.then_some(cpu),
                by_token: step.dims.find("n").is_some(),
            });
        }
        Ok((source, times))
    }
}

/// Whether a list such as `matmul/plain,kernel_matrix/tile64` lets a kernel use a variant; kernels it does not name are
/// free.
fn allowed(list: &str, kernel: &str, variant: &str) -> bool {
    let mut of_kernel = list
        .split(',')
        .filter_map(|entry| entry.trim().split_once('/'))
        .filter(|(k, _)| *k == kernel)
        .peekable();
    of_kernel.peek().is_none() || of_kernel.any(|(_, v)| v == variant)
}

/// Bytes of a buffer to copy for elements of a port: texels are whole, so a copy may begin and end a little outside.
fn staged(class: Class, from: u64, len: u64, dtype: DType) -> (u64, u64) {
    if class != Class::Texture {
        return (from * dtype.bytes(), len * dtype.bytes());
    }
    let first = from / 4 * 4;
    (first * 4, (from + len - first).next_multiple_of(4) * 4)
}

enum Refusal {
    Unsuitable,
    Error(Error),
}

impl From<Error> for Refusal {
    fn from(error: Error) -> Self {
        Self::Error(error)
    }
}

impl Program for WgpuProgram {
    fn write(&mut self, tensor: Tensor, data: &HostTensor) -> Result<()> {
        self.core.alive()?;
        let name = check_write(&self.schedule, tensor, data)?;
        if let Some(object) = &self.objects[tensor.id as usize] {
            let (fits, usage) = match object {
                Object::Buffer { buffer, .. } => {
                    (buffer.usage().contains(::wgpu::BufferUsages::COPY_DST), format!("{:?}", buffer.usage()))
                }
                Object::Texture { texture, .. } => (
                    texture.usage().contains(::wgpu::TextureUsages::COPY_DST),
                    format!("{:?}", texture.usage()),
                ),
            };
            if !fits {
                let expected = "the bound buffer or texture to have usage COPY_DST".into();
                return Err(Error::Data { tensor: name, expected, got: usage });
            }
            self.pending.retain(|(id, _)| *id != tensor.id);
            self.pending.push((tensor.id, data.clone()));
        }
        self.given[tensor.id as usize] = true;
        Ok(())
    }

    fn set_param_bytes(&mut self, pass: PassId, params: &[u8]) -> Result<()> {
        self.core.alive()?;
        let new = self.schedule.relower(&self.graph, pass, params, Lowering::Device(&self.core.caps))?;
        for step in self.schedule.steps.iter_mut().filter(|s| s.pass == pass) {
            step.params.clone_from(&new[step.ordinal]);
        }
        self.graph.passes[pass.0].params = params.to_vec();
        Ok(())
    }

    fn run(&mut self) -> Result<Timings> {
        let total = Stopwatch::start();
        let (source, steps) = if self.profiling {
            self.run_profiled()?
        } else {
            let mut encoder = self.encoder();
            self.encode(&mut encoder)?;
            self.submit(encoder, &self.schedule.label.clone())?;
            (TimingSource::Wall, Vec::new())
        };
        let (wall_seconds, cpu_seconds) = total.seconds();
        Ok(Timings { source, steps, wall_seconds, cpu_seconds })
    }

    fn run_burst(&mut self, repeats: u32) -> Result<Burst> {
        let queries =
            if self.core.timestamps { Some(super::timing::Queries::new(&self.core)?) } else { None };
        let watch = Stopwatch::start();
        let mut encoder = self.encoder();
        self.encode_uploads(&mut encoder)?;
        queries.iter().for_each(|q| q.mark(&mut encoder, 0));
        (0..repeats).for_each(|_| self.encode_steps(&mut encoder, 0..self.steps.len()));
        queries.iter().for_each(|q| q.mark(&mut encoder, 1));
        queries.iter().for_each(|q| q.resolve(&mut encoder));
        self.submit(encoder, &self.schedule.label)?;
        let (wall, cpu) = watch.seconds();
        let stamped = match &queries {
            Some(queries) => queries.seconds(&self.core, wall)?,
            None => None,
        };
        let share = f64::from(repeats.max(1));
        let device_seconds = stamped.map(|s| s / share);
        Ok(Burst { device_seconds, wall_seconds: wall / share, cpu_seconds: cpu / share })
    }

    fn read(&mut self, tensor: Tensor) -> Result<HostTensor> {
        let mut encoder = self.encoder();
        let ticket = self.readback(tensor, &mut encoder)?;
        self.submit(encoder, "readback")?;
        ticket.wait()
    }

    fn set_profiling(&mut self, on: bool) {
        self.profiling = on;
    }

    fn schedule(&self) -> &Schedule {
        &self.schedule
    }

    fn memory(&self) -> Memory {
        let stage = |s: &Stage| match s {
            Stage::Uniform(buffer) => buffer.size(),
            Stage::Texture(texture, _) => u64::from(texture.width()) * u64::from(texture.height()) * 16,
        };
        Memory {
            transient: self.schedule.transient_bytes(),
            transient_unshared: self.schedule.transient_bytes_unshared(),
            external: self.schedule.external_bytes(),
            staging: self.stages.values().map(stage).sum::<u64>() + 2 * self.params.size(),
        }
    }
}

fn buffer(core: &Core, label: &str, bytes: u64, usage: ::wgpu::BufferUsages) -> ::wgpu::Buffer {
    core.device.create_buffer(&::wgpu::BufferDescriptor {
        label: Some(&format!("wgattn/{label}")),
        size: bytes,
        usage: usage | ::wgpu::BufferUsages::COPY_DST,
        mapped_at_creation: false,
    })
}

/// A buffer of our own for tensors, if the device allows one that large, with its contents if it has any from the start.
fn storage(core: &Core, label: &str, bytes: u64, contents: Option<&[u8]>) -> Result<::wgpu::Buffer> {
    if bytes > core.caps.buffer {
        return Err(Error::Limit {
            what: format!("buffer `{label}`"),
            requested: bytes,
            allowed: core.caps.buffer,
            remedy: "use fewer tokens or heads, or a smaller memory budget".into(),
        });
    }
    let usage =
        ::wgpu::BufferUsages::STORAGE | ::wgpu::BufferUsages::COPY_SRC | ::wgpu::BufferUsages::COPY_DST;
    // Whole texels, for variants that read through textures.
    let size = bytes.next_multiple_of(16);
    match contents {
        None => core.checked(label, || buffer(core, label, size, usage)),
        Some(contents) => core.checked(label, || filled(core, label, size, usage, &[(0, contents)]))?,
    }
}

/// A buffer that has its contents from the start: pieces at byte offsets that are multiples of 8.
fn filled(
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

fn object(core: &Core, info: &TensorInfo) -> Result<Object> {
    if info.dtype != DType::Rgba8 {
        let size = crate::graph::device_bytes(info);
        let contents = info.constant.as_ref().map(|value| value.device_bytes());
        let buffer = storage(core, &info.name, size, contents.as_deref())?;
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

fn make_stage(core: &Core, class: Class, rows: u32) -> Stage {
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
fn staging(core: &Core, bytes: u64, pieces: &[Vec<u8>], offsets: &[u64]) -> Result<::wgpu::Buffer> {
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
fn padded_rows(data: &HostTensor) -> Vec<u8> {
    let width = data.shape().dims().get(1).copied().unwrap_or(1);
    let (bytes, pitch) = (data.device_bytes(), row_pitch(width) as usize);
    let mut padded = Vec::with_capacity(pitch * data.shape().dims()[0] as usize);
    for line in bytes.chunks(width as usize * 4) {
        padded.extend_from_slice(line);
        padded.resize(padded.len().next_multiple_of(pitch), 0);
    }
    padded
}

fn part_of(buffer: &::wgpu::Buffer, offset: u64, bytes: u64) -> ::wgpu::BindingResource<'_> {
    ::wgpu::BindingResource::Buffer(::wgpu::BufferBinding {
        buffer,
        offset,
        size: ::wgpu::BufferSize::new(bytes),
    })
}
